"""The fast path against the readable one: every shape, every tiling, any number of threads."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import byhand
from byhand import fast, qwen
from byhand.checks import Array
from byhand.qwen import Attended, Cache, LayerShape, LayerWeights
from conftest import EXACT
from test_qwen import fields, random_weights

Draw = Callable[..., Array]
FLOAT32 = 2e-5  # float32: sums of up to 1700 numbers near 1, with roundings of 6e-8
D_MODEL = 5


def sizes(n_kv_heads: int, group: int, d_head: int = 6) -> LayerShape:
    return LayerShape(D_MODEL, n_kv_heads * group, n_kv_heads, d_head, rope_theta=1e4)


def inputs(
    shape: LayerShape, n_new: int, n_past: int = 0, lead: tuple[int, ...] = (), seed: int = 2
) -> tuple[Array, LayerWeights, LayerShape, Cache | None]:
    """What both paths take, in float64."""
    rng = np.random.default_rng(seed)
    h = rng.standard_normal((*lead, n_new, D_MODEL))
    cache = None
    if n_past:
        past = rng.standard_normal((2, *lead, shape.n_kv_heads, n_past, shape.d_head))
        cache = Cache(past[0], past[1])
    return h, random_weights(shape), shape, cache


def in_float32(
    h: Array, weights: LayerWeights, shape: LayerShape, cache: Cache | None
) -> tuple[Array, LayerWeights, LayerShape, Cache | None]:
    narrow = {name: array.astype(np.float32) for name, array in fields(weights).items()}
    if cache is not None:
        cache = Cache(cache.k.astype(np.float32), cache.v.astype(np.float32))
    return h.astype(np.float32), LayerWeights(**narrow), shape, cache


def assert_same(got: Attended, expected: Attended, tolerance: float) -> None:
    for name, a, b in (
        ("output", got.output, expected.output),
        ("k", got.cache.k, expected.cache.k),
        ("v", got.cache.v, expected.cache.v),
    ):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


def assert_paths_agree(*args: Any) -> None:
    """In float64 to rounding; in float32 against the readable path in float64."""
    expected = qwen.attend(*args)
    assert_same(fast.attend(*args), expected, EXACT)
    in_32 = fast.attend(*in_float32(*args))
    assert in_32.output.dtype == in_32.cache.k.dtype == in_32.cache.v.dtype == np.float32
    assert_same(in_32, expected, FLOAT32)


@pytest.fixture(params=[1, 3], ids=["1 worker", "3 workers"])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many threads, however few the scores are."""
    n: int = request.param
    monkeypatch.setattr(fast, "_workers", lambda: n)
    monkeypatch.setattr(fast, "WORTH_THREADS", 0)
    return n


# One query head for each K/V head, one K/V head for all, and between the two.
HEADS = {"MHA": sizes(3, 1), "MQA": sizes(1, 5), "GQA": sizes(3, 2)}


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("n_past", [0, 1, 600])
@pytest.mark.parametrize("n_new", [1, 2, 5, 31, 32, 33])
@pytest.mark.parametrize("heads", HEADS)
def test_few_tokens(heads: str, n_new: int, n_past: int) -> None:
    assert_paths_agree(*inputs(HEADS[heads], n_new, n_past))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("n_new", "n_past"), [(1, 0), (1, 7), (5, 7)])
def test_a_group_of_more_heads_than_a_tile_has_rows(n_new: int, n_past: int) -> None:
    group = 449
    assert group > fast.TILE_ROWS
    assert_paths_agree(*inputs(sizes(1, group, 2), n_new, n_past))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("shape", "n_new", "n_past"),
    [
        (sizes(3, 2), 34, 0), (sizes(3, 1), 63, 1), (sizes(1, 5), 64, 0), (sizes(3, 2), 65, 600),
        (sizes(1, 7), 449, 0), (sizes(2, 1), 449, 1), (sizes(1, 2), 513, 600),
        (sizes(1, 2, 4), 1100, 0), (sizes(1, 1, 2), 1100, 600),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{value.n_heads}/{value.n_kv_heads}",
)  # fmt: skip
def test_many_tokens(shape: LayerShape, n_new: int, n_past: int) -> None:
    assert_paths_agree(*inputs(shape, n_new, n_past))


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("n_past", [0, 7])
@pytest.mark.parametrize("n_new", [1, 5, 17])
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 3)], ids=str)
def test_batches(lead: tuple[int, ...], n_new: int, n_past: int) -> None:
    assert_paths_agree(*inputs(sizes(3, 2), n_new, n_past, lead))


def test_threads_start_by_themselves_where_they_are_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def two() -> int:
        asked.append(True)
        return 2

    monkeypatch.setattr(fast, "_workers", two)
    fast.attend(*inputs(sizes(1, 2), 127))
    assert not asked
    many = inputs(sizes(1, 7), 700)
    assert 127 < fast.WORTH_THREADS < 700
    assert_same(fast.attend(*many), qwen.attend(*many), EXACT)
    assert asked


@settings(max_examples=80, deadline=None)
@given(
    n_kv_heads=st.integers(1, 3),
    group=st.integers(1, 5),
    d_head=st.sampled_from([2, 4, 10]),
    batch=st.integers(1, 2),
    n_new=st.integers(1, 20),
    n_past=st.integers(0, 20),
    rows=st.integers(1, 40),
    size=st.integers(1, 60),
    few=st.integers(0, 25),
    workers=st.sampled_from([1, 3]),
)
def test_any_tiling_gives_the_same(
    n_kv_heads: int, group: int, d_head: int, batch: int, n_new: int, n_past: int,
    rows: int, size: int, few: int, workers: int,
) -> None:  # fmt: skip
    """With tiles of a few numbers, rows meet their maximum in any tile, and blocks end anywhere."""
    args = inputs(sizes(n_kv_heads, group, d_head), n_new, n_past, (batch,), seed=n_new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "TILE_ROWS", rows)
        patch.setattr(fast, "TILE_SIZE", size)
        patch.setattr(fast, "FEW", few)
        patch.setattr(fast, "WORTH_THREADS", 0)
        patch.setattr(fast, "_workers", lambda: workers)
        assert_paths_agree(*args)


def readable_core(q: Array, k: Array, v: Array) -> Array:
    """The context [batch, S, n_heads, d_head] of q as it is, by the readable steps in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    grouped = qwen.group_heads(q.swapaxes(1, 2), k.shape[1])
    mask = byhand.causal_mask(q.shape[1], k.shape[2])
    context = byhand.attention(grouped, k[:, :, None], v[:, :, None], mask).context
    return context.reshape(q.swapaxes(1, 2).shape).swapaxes(1, 2)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("tile", [7, 448 * 512])
def test_very_large_scores_stay_right(
    draw: Draw, monkeypatch: pytest.MonkeyPatch, tile: int
) -> None:
    """Whole numbers and d_head = 4: the scores, up to ±10⁴, are exact in float32 as well."""
    monkeypatch.setattr(fast, "TILE_SIZE", tile)
    rng = np.random.default_rng(4)
    q = rng.integers(-70, 71, (2, 61, 6, 4)).astype(np.float32)
    k = rng.integers(-70, 71, (2, 3, 67, 4)).astype(np.float32)
    v = draw(2, 3, 67, 4).astype(np.float32)
    k[:, :, :40:3] = k[:, :, :1]  # equal scores far apart: the weights are shared, not 0 and 1
    assert np.abs(q @ q.swapaxes(-1, -2)).max() / 2 > 7000
    context = fast.core(q, k, v, np.zeros((61, 2)))  # angles of 0: no rotation
    np.testing.assert_allclose(context, readable_core(q, k, v), rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("rising", [1, -1])
def test_a_maximum_that_moves_in_every_tile(monkeypatch: pytest.MonkeyPatch, rising: int) -> None:
    monkeypatch.setattr(fast, "TILE_SIZE", 5)
    monkeypatch.setattr(fast, "TILE_ROWS", 1)
    keys = rising * np.arange(31.0)
    k = np.stack([100 * keys, 0 * keys], axis=-1)[None, None]  # [1, 1, 31, 2]
    q, v = np.full((1, 31, 1, 2), 0.1), np.random.default_rng(1).standard_normal((1, 1, 31, 2))
    context = fast.core(q, k, v, np.zeros((31, 1)))
    np.testing.assert_allclose(context, readable_core(q, k, v), rtol=0, atol=EXACT)


def peak_of(call: Callable[[], object]) -> int:
    call()  # what is made once does not count
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_the_matrix_of_all_scores_never_exists(workers: int) -> None:
    s, d_head = 2048, 2
    q = np.ones((1, s, 3, d_head), np.float32)
    k = v = np.ones((1, 1, s, d_head), np.float32)
    turn = np.zeros((s, d_head // 2))
    peak = peak_of(lambda: fast.core(q, k, v, turn))
    one_head = s * s * 4
    tile = fast.TILE_SIZE * 4
    assert peak < workers * 2 * tile + 3 * q.nbytes < one_head


@pytest.mark.usefixtures("workers")
def test_neither_order_nor_gaps_of_memory_matter(draw: Draw) -> None:
    h, weights, shape, _ = inputs(sizes(3, 2), 17, lead=(3,))
    expected = qwen.attend(h, weights, shape)
    assert_same(fast.attend(np.asfortranarray(h), weights, shape), expected, EXACT)
    apart = np.repeat(h, 2, axis=1)[:, ::2]
    assert_same(fast.attend(apart, weights, shape), expected, EXACT)
    turned = {name: np.asfortranarray(array) for name, array in fields(weights).items()}
    assert_same(fast.attend(h, LayerWeights(**turned), shape), expected, EXACT)
    past = draw(2, 3, 7, 3, 6).swapaxes(2, 3)  # the heads of a cache between its tokens
    cache = Cache(past[0], past[1])
    assert_same(fast.attend(h, weights, shape, cache), qwen.attend(h, weights, shape, cache), EXACT)


def blas_threads() -> list[int]:
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_result_is_the_same_with_fewer_blas_threads(threads: int) -> None:
    args = inputs(sizes(1, 7), 700)
    expected = qwen.attend(*args)
    with threadpool_limits(threads, user_api="blas"):
        before = blas_threads()
        assert fast._workers() == max(before, default=fast._workers())
        assert_same(fast.attend(*args), expected, EXACT)
        assert blas_threads() == before


def test_blas_has_one_thread_within_and_its_own_number_after(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    within: list[list[int]] = []
    block = fast._one_block

    def watched(*args: Any) -> Array:
        within.append(blas_threads())
        return block(*args)

    monkeypatch.setattr(fast, "_one_block", watched)
    args = inputs(sizes(3, 2), 5)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        fast.attend(*args)
        assert blas_threads() == before
    assert len(within) == 3
    for threads in within:
        assert threads == (before if workers == 1 else [1] * len(before))


def test_a_fault_within_a_thread_comes_out_and_blas_is_as_before(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def broken(*_: object) -> Array:
        raise KeyError(f"one of {workers}")

    monkeypatch.setattr(fast, "_one_block", broken)
    args = inputs(sizes(3, 2), 5)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(KeyError, match=f"one of {workers}"):
            fast.attend(*args)
        assert blas_threads() == before


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("name", ["w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o"])
@pytest.mark.parametrize("n_past", [0, 3])
def test_a_weight_that_is_no_number_is_named_from_any_thread(name: str, n_past: int) -> None:
    """NumPy's warnings, errors here, must not come out of a thread either."""
    h, weights, shape, cache = inputs(sizes(3, 2), 40, n_past)
    for number in (np.nan, np.inf):
        bad = fields(weights)[name].copy()
        bad[..., 2] = number
        with pytest.raises(ValueError, match=rf"weights\.{name}\[.*{number}") as caught:
            fast.attend(h, weights._replace(**{name: bad}), shape, cache)
        assert len(str(caught.value).split("\n")) == 2

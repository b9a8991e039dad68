"""The real layer against loops over single numbers, and against what must hold for any input.

Axes have different primes for sizes where they can, so that a swapped axis cannot pass: d_head is
even, and n_heads · d_head = 84 is not d_model = 11.
"""

import cmath
import math
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from byhand import fast, models, qwen
from byhand.checks import Array, shape_text
from byhand.qwen import Attended, Cache, LayerShape, LayerWeights
from conftest import EXACT

Draw = Callable[..., Array]
Attend = Callable[[ArrayLike, LayerWeights, LayerShape, Cache | None], Attended]

S, N_PAST = 5, 3
GROUP = 2
SHAPE = LayerShape(d_model=11, n_heads=6, n_kv_heads=3, d_head=14, rope_theta=1e4, norm_eps=1e-6)
KV = SHAPE.n_kv_heads
FLOAT32 = 1e-5  # float32: some hundred roundings of 6e-8 on numbers near 1
DIFFERENT = 0.01  # what is not the same is off by far more than rounding


def random_weights(shape: LayerShape, seed: int = 3) -> LayerWeights:
    """float64 weights with every bias, scaled so that scores stay near 1: no key gets it all."""
    rng = np.random.default_rng(seed)
    q_width, kv_width = shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head

    def normal(*size: int) -> Array:
        return rng.standard_normal(size) / math.sqrt(size[0])

    return LayerWeights(
        input_norm=rng.uniform(0.5, 1.5, shape.d_model),
        w_q=normal(shape.d_model, q_width),
        b_q=rng.standard_normal(q_width) / 2,
        w_k=normal(shape.d_model, kv_width),
        b_k=rng.standard_normal(kv_width) / 2,
        w_v=normal(shape.d_model, kv_width),
        b_v=rng.standard_normal(kv_width) / 2,
        w_o=normal(q_width, shape.d_model),
        ffn_norm=rng.uniform(0.5, 1.5, shape.d_model),
    )


WEIGHTS = random_weights(SHAPE)


def kv_by_blocks(head: int, shape: LayerShape) -> int:
    return head // (shape.n_heads // shape.n_kv_heads)


def kv_by_turns(head: int, shape: LayerShape) -> int:
    """The mistake to be told apart from: K/V heads dealt out in turn (tile in place of repeat)."""
    return head % shape.n_kv_heads


def looped_projection(h: Array, w: Array, bias: Array | None, d_head: int) -> Array:
    """[n_heads, S, d_head], one number after another."""
    heads = np.empty((w.shape[1] // d_head, len(h), d_head))
    for head, i, c in np.ndindex(heads.shape):
        column = head * d_head + c
        products = [float(h[i, a]) * float(w[a, column]) for a in range(len(w))]
        heads[head, i, c] = math.fsum(products) + (0.0 if bias is None else float(bias[column]))
    return heads


def looped_rotation(x: Array, first: int, theta: float) -> Array:
    """x [heads, S, d_head] turned as complex numbers; token 0 is at position `first`."""
    half = x.shape[-1] // 2
    turned = np.empty(x.shape)
    for head, i, c in np.ndindex(*x.shape[:-1], half):
        angle = (first + i) * theta ** (-2 * c / x.shape[-1])
        z = complex(x[head, i, c], x[head, i, c + half]) * cmath.exp(1j * angle)
        turned[head, i, c], turned[head, i, c + half] = z.real, z.imag
    return turned


def loops(
    h: Array,
    w: LayerWeights,
    shape: LayerShape,
    past: Cache | None = None,
    kv_of: Callable[[int, LayerShape], int] = kv_by_blocks,
) -> dict[str, Array]:
    """Every stage for one sequence h [S, d_model], by loops over heads, queries and keys."""
    n_past = 0 if past is None else past.k.shape[1]
    q = looped_projection(h, w.w_q, w.b_q, shape.d_head)
    k = looped_projection(h, w.w_k, w.b_k, shape.d_head)
    v = looped_projection(h, w.w_v, w.b_v, shape.d_head)
    q_rotated = looped_rotation(q, n_past, shape.rope_theta)
    k_rotated = looped_rotation(k, n_past, shape.rope_theta)
    all_k, all_v = [list(head) for head in k_rotated], [list(head) for head in v]
    if past is not None:
        all_k = [list(old) + new for old, new in zip(past.k, all_k, strict=True)]
        all_v = [list(old) + new for old, new in zip(past.v, all_v, strict=True)]

    scores = np.empty((shape.n_heads, len(h), n_past + len(h)))
    scaled, masked, weights = np.empty_like(scores), np.empty_like(scores), np.zeros_like(scores)
    context = np.empty(q.shape)
    merged = np.empty((len(h), shape.n_heads * shape.d_head))
    for head in range(shape.n_heads):
        kv = kv_of(head, shape)
        for i in range(len(h)):
            exps = {}
            for j in range(n_past + len(h)):
                pairs = zip(q_rotated[head, i], all_k[kv][j], strict=True)
                scores[head, i, j] = math.fsum(float(a) * float(b) for a, b in pairs)
                scaled[head, i, j] = scores[head, i, j] / math.sqrt(shape.d_head)
                masked[head, i, j] = scaled[head, i, j] if j <= n_past + i else -math.inf
                if j <= n_past + i:
                    exps[j] = math.exp(scaled[head, i, j])
            for j, e in exps.items():
                weights[head, i, j] = e / math.fsum(exps.values())
            for c in range(shape.d_head):
                mixed = math.fsum(weights[head, i, j] * float(all_v[kv][j][c]) for j in exps)
                context[head, i, c] = merged[i, head * shape.d_head + c] = mixed
    output = looped_projection(merged, w.w_o, None, shape.d_model)[0]
    return {
        "q": q, "k": k, "v": v, "q_rotated": q_rotated, "k_rotated": k_rotated,
        "scores": scores, "scaled": scaled, "masked": masked, "weights": weights,
        "context": context, "merged": merged, "output": output,
        "cache.k": np.array(all_k), "cache.v": np.array(all_v),
    }  # fmt: skip


def looped_norm(x: Array, gain: Array, eps: float) -> Array:
    normed = np.empty(x.shape)
    for where in np.ndindex(x.shape[:-1]):
        row = [float(number) for number in x[where]]
        root = math.sqrt(math.fsum(a * a for a in row) / len(row) + eps)
        normed[where] = [a / root * g for a, g in zip(row, gain.tolist(), strict=True)]
    return normed


def random_cache(draw: Draw, *lead: int, n_past: int = N_PAST) -> Cache:
    size = (*lead, KV, n_past, SHAPE.d_head)
    return Cache(draw(*size), draw(*size))


@pytest.mark.parametrize("past", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("lead", [(), (7,), (2, 7)], ids=str)
def test_every_stage_is_what_the_loops_compute(
    draw: Draw, lead: tuple[int, ...], past: bool
) -> None:
    h = draw(*lead, S, SHAPE.d_model)
    cache = random_cache(draw, *lead) if past else None
    stages = qwen.attend_stages(h, WEIGHTS, SHAPE, cache)
    got = stages._asdict() | {"cache.k": stages.cache.k, "cache.v": stages.cache.v}
    for where in np.ndindex(lead):
        mine = None if cache is None else Cache(cache.k[where], cache.v[where])
        for name, expected in loops(h[where], WEIGHTS, SHAPE, mine).items():
            assert got[name].shape == lead + expected.shape, name
            np.testing.assert_allclose(got[name][where], expected, rtol=0, atol=EXACT, err_msg=name)


@pytest.mark.parametrize("gone", [("b_q", "b_k", "b_v"), ("b_q",), ("b_k",), ("b_v",)], ids=str)
@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_a_bias_may_be_missing(draw: Draw, attend: Attend, gone: tuple[str, ...]) -> None:
    without: dict[str, Any] = dict.fromkeys(gone)
    h, weights = draw(S, SHAPE.d_model), WEIGHTS._replace(**without)
    expected = loops(h, weights, SHAPE)["output"]
    output = attend(h, weights, SHAPE, None).output
    np.testing.assert_allclose(output, expected, rtol=0, atol=EXACT)
    assert np.abs(output - attend(h, WEIGHTS, SHAPE, None).output).max() > EXACT


def test_attend_is_what_the_stages_end_with(draw: Draw) -> None:
    h, cache = draw(7, S, SHAPE.d_model), random_cache(draw, 7)
    stages = qwen.attend_stages(h, WEIGHTS, SHAPE, cache)
    attended = qwen.attend(h, WEIGHTS, SHAPE, cache)
    np.testing.assert_array_equal(attended.output, stages.output)
    np.testing.assert_array_equal(attended.cache.k, stages.cache.k)
    np.testing.assert_array_equal(attended.cache.v, stages.cache.v)


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_layer_goes_from_the_residual_stream_to_the_ffn(draw: Draw, attend: Attend) -> None:
    x, cache = 3 * draw(7, S, SHAPE.d_model), random_cache(draw, 7)
    step = qwen.layer(x, WEIGHTS, SHAPE, cache, attend)
    normed = looped_norm(x, WEIGHTS.input_norm, SHAPE.norm_eps)
    np.testing.assert_allclose(step.normed, normed, rtol=0, atol=EXACT)
    for b in range(len(x)):
        expected = loops(normed[b], WEIGHTS, SHAPE, Cache(cache.k[b], cache.v[b]))
        residual = x[b] + expected["output"]
        ffn_input = looped_norm(residual, WEIGHTS.ffn_norm, SHAPE.norm_eps)
        np.testing.assert_allclose(step.output[b], expected["output"], rtol=0, atol=EXACT)
        np.testing.assert_allclose(step.residual[b], residual, rtol=0, atol=EXACT)
        np.testing.assert_allclose(step.ffn_input[b], ffn_input, rtol=0, atol=EXACT)
        np.testing.assert_allclose(step.cache.k[b], expected["cache.k"], rtol=0, atol=EXACT)
        np.testing.assert_allclose(step.cache.v[b], expected["cache.v"], rtol=0, atol=EXACT)


# Grouped heads


def test_28_query_heads_share_4_kv_heads_in_blocks_of_7() -> None:
    numbers = np.arange(28.0)[:, None, None] * np.ones((28, S, 2))
    grouped = qwen.group_heads(numbers, 4)
    assert grouped.shape == (4, 7, S, 2)
    for kv in range(4):
        np.testing.assert_array_equal(grouped[kv, :, 0, 0], np.arange(7 * kv, 7 * kv + 7))


@pytest.mark.parametrize("changed", range(KV))
def test_a_kv_head_serves_its_own_block_of_query_heads(draw: Draw, changed: int) -> None:
    h, w_k = draw(S, SHAPE.d_model), WEIGHTS.w_k.copy()
    w_k[:, changed * SHAPE.d_head : (changed + 1) * SHAPE.d_head] *= -1
    before = qwen.attend_stages(h, WEIGHTS, SHAPE).weights
    after = qwen.attend_stages(h, WEIGHTS._replace(w_k=w_k), SHAPE).weights
    moved = np.abs(after - before).max(axis=(1, 2)) > DIFFERENT
    assert moved.tolist() == [head // GROUP == changed for head in range(SHAPE.n_heads)]


def test_blocks_and_turns_are_told_apart(draw: Draw) -> None:
    h = draw(S, SHAPE.d_model)
    context = qwen.attend_stages(h, WEIGHTS, SHAPE).context
    in_turn = loops(h, WEIGHTS, SHAPE, kv_of=kv_by_turns)["context"]
    off = np.abs(context - in_turn).max(axis=(1, 2))
    for head in range(SHAPE.n_heads):
        if kv_by_blocks(head, SHAPE) == kv_by_turns(head, SHAPE):
            assert off[head] < EXACT
        else:
            assert off[head] > DIFFERENT


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_keys_and_values_are_never_repeated(draw: Draw, attend: Attend) -> None:
    group, n_past = 23, 997
    shape = LayerShape(d_model=11, n_heads=group, n_kv_heads=1, d_head=62)
    past = Cache(draw(1, n_past, 62), draw(1, n_past, 62))
    h, weights = draw(1, 11), random_weights(shape)
    attend(h, weights, shape, past)  # what is made once does not count
    tracemalloc.start()
    attend(h, weights, shape, past)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        peak < 8 * past.k.nbytes
    )  # the longer cache is 2, the scores a few; repeated: 23 and more


# The norm


def test_rms_norm_is_what_the_loop_computes(draw: Draw) -> None:
    x, gain = draw(2, 7, SHAPE.d_model), draw(SHAPE.d_model)
    for eps in (1e-6, 0.5):
        np.testing.assert_allclose(
            qwen.rms_norm(x, gain, eps), looped_norm(x, gain, eps), rtol=0, atol=EXACT
        )


def test_rms_norm_keeps_a_row_of_zeros_and_does_not_subtract_the_mean() -> None:
    ones = np.ones(SHAPE.d_model)
    np.testing.assert_array_equal(qwen.rms_norm(0 * ones[None], ones, 1e-6), 0 * ones[None])
    np.testing.assert_allclose(qwen.rms_norm(5 * ones[None], ones, 1e-12), ones[None], atol=EXACT)


@given(st.floats(0.01, 1e6))
def test_rms_norm_does_not_see_the_scale(scale: float) -> None:
    x, gain = np.random.default_rng(5).standard_normal((2, S, SHAPE.d_model))
    small = 1e-20  # an eps too small to be seen beside the squares
    np.testing.assert_allclose(
        qwen.rms_norm(scale * x, gain[0], small), qwen.rms_norm(x, gain[0], small), atol=EXACT
    )


# The cache


def in_chunks(
    h: Array, sizes: list[int], attend: Attend, cache: Cache | None = None
) -> tuple[Array, Cache]:
    outputs, start = [], 0
    for size in sizes:
        output, cache = attend(h[..., start : start + size, :], WEIGHTS, SHAPE, cache)
        outputs.append(output)
        start += size
    assert cache is not None and start == h.shape[-2]
    return np.concatenate(outputs, axis=-2), cache


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
@pytest.mark.parametrize("lead", [(), (7,), (2, 7)], ids=str)
def test_token_by_token_is_one_pass(draw: Draw, attend: Attend, lead: tuple[int, ...]) -> None:
    h = draw(*lead, 13, SHAPE.d_model)
    output, cache = in_chunks(h, [1] * 13, attend)
    whole = qwen.attend(h, WEIGHTS, SHAPE)
    np.testing.assert_allclose(output, whole.output, rtol=0, atol=EXACT)
    np.testing.assert_allclose(cache.k, whole.cache.k, rtol=0, atol=EXACT)
    np.testing.assert_allclose(cache.v, whole.cache.v, rtol=0, atol=EXACT)


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=6), st.sampled_from([qwen.attend, fast.attend])
)
def test_any_chunks_are_one_pass(sizes: list[int], attend: Attend) -> None:
    h = np.random.default_rng(sum(sizes)).standard_normal((2, sum(sizes), SHAPE.d_model))
    output, cache = in_chunks(h, sizes, attend)
    whole = qwen.attend(h, WEIGHTS, SHAPE)
    np.testing.assert_allclose(output, whole.output, rtol=0, atol=EXACT)
    np.testing.assert_allclose(cache.k, whole.cache.k, rtol=0, atol=EXACT)


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_a_cache_of_no_tokens_is_no_cache(draw: Draw, attend: Attend) -> None:
    h = draw(7, S, SHAPE.d_model)
    empty = random_cache(draw, 7, n_past=0)
    with_cache, without = attend(h, WEIGHTS, SHAPE, empty), attend(h, WEIGHTS, SHAPE, None)
    np.testing.assert_array_equal(with_cache.output, without.output)
    np.testing.assert_array_equal(with_cache.cache.k, without.cache.k)


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_one_cache_may_be_continued_twice(draw: Draw, attend: Attend) -> None:
    past = random_cache(draw)
    for array in past:
        array.flags.writeable = False  # a write into the past would raise
    one, other = draw(2, SHAPE.d_model), draw(S, SHAPE.d_model)
    first = attend(one, WEIGHTS, SHAPE, past)
    kept = first.cache.k.copy(), first.cache.v.copy()
    second = attend(other, WEIGHTS, SHAPE, past)
    np.testing.assert_array_equal(first.cache.k, kept[0])
    np.testing.assert_array_equal(first.cache.v, kept[1])
    for cache, n_new in ((first.cache, 2), (second.cache, S)):
        assert cache.k.shape == cache.v.shape == (KV, N_PAST + n_new, SHAPE.d_head)
        np.testing.assert_array_equal(cache.k[:, :N_PAST], past.k)
        np.testing.assert_array_equal(cache.v[:, :N_PAST], past.v)


# The causal mask


@given(st.integers(1, 12), st.sampled_from([qwen.attend, fast.attend]), st.floats(-9, 9))
def test_a_later_token_changes_nothing_before_it(changed: int, attend: Attend, by: float) -> None:
    h = np.random.default_rng(8).standard_normal((13, SHAPE.d_model))
    other = h.copy()
    other[changed] += by + 10
    before, after = (attend(x, WEIGHTS, SHAPE, None).output for x in (h, other))
    np.testing.assert_array_equal(after[:changed], before[:changed])
    assert np.all(np.abs(after[changed:] - before[changed:]).max(axis=-1) > EXACT)


def test_the_first_token_looks_at_itself_alone(draw: Draw) -> None:
    stages = qwen.attend_stages(draw(7, S, SHAPE.d_model), WEIGHTS, SHAPE)
    alone = np.zeros((7, SHAPE.n_heads, S))
    alone[..., 0] = 1
    np.testing.assert_array_equal(stages.weights[..., 0, :], alone)
    np.testing.assert_array_equal(stages.context[:, :, 0], stages.v[:, :, 0].repeat(GROUP, axis=1))


# Types, and what is left alone


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_float32_stays_float32(draw: Draw, attend: Attend) -> None:
    h, past = draw(7, S, SHAPE.d_model), random_cache(draw, 7)
    weights = LayerWeights(**{name: w.astype(np.float32) for name, w in fields(WEIGHTS).items()})
    cache = Cache(past.k.astype(np.float32), past.v.astype(np.float32))
    step = qwen.layer(h.astype(np.float32), weights, SHAPE, cache, attend)
    exact = qwen.layer(h, WEIGHTS, SHAPE, past)
    for got, expected in zip((*step[:4], *step.cache), (*exact[:4], *exact.cache), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_inputs_are_left_as_they_were(draw: Draw, attend: Attend) -> None:
    x, past, weights = draw(S, SHAPE.d_model), random_cache(draw), random_weights(SHAPE)
    for array in (x, *past, *weights):
        assert array is not None
        array.flags.writeable = False  # a write would raise
    step = qwen.layer(x, weights, SHAPE, past, attend)
    for array in (*step[:4], *step.cache):
        assert not any(np.shares_memory(array, given) for given in (x, *past))


@pytest.mark.parametrize("attend", [qwen.attend, fast.attend], ids=["readable", "fast"])
def test_whole_numbers_are_taken(attend: Attend) -> None:
    h = [[1] * SHAPE.d_model, [-2] * SHAPE.d_model]
    expected = loops(np.array(h, float), WEIGHTS, SHAPE)["output"]
    np.testing.assert_allclose(attend(h, WEIGHTS, SHAPE, None).output, expected, rtol=0, atol=EXACT)


# Seeded weights and rows

# The sum of each field of seeded_weights(SMALL), every number exact in float64, by math.fsum.
SMALL = LayerShape(d_model=11, n_heads=6, n_kv_heads=3, d_head=10)
SUMS = {
    "input_norm": 11.244217574596405,
    "w_q": 8.981920356789487,
    "b_q": -3.6980283786542714,
    "w_k": 5.67771478369832,
    "b_k": 0.5682737156748772,
    "w_v": -4.346749710850418,
    "b_v": 1.1306232661008835,
    "w_o": 2.712838114850456,
    "ffn_norm": 11.2029629945755,
}
# The first and the last number of each field at the size of Qwen2.5-7B.
ENDS = {
    "input_norm": (1.154119610786438, 0.9854685068130493),
    "w_q": (-0.00012561070616357028, -0.01665540784597397),
    "b_q": (0.8417935371398926, -0.254260778427124),
    "w_k": (0.02711952105164528, -0.025929048657417297),
    "b_k": (-0.5580782294273376, 0.5100520849227905),
    "w_v": (-0.009219629690051079, -0.020242372527718544),
    "b_v": (0.4394057095050812, -0.4072468876838684),
    "w_o": (0.0002598300052341074, -0.023065771907567978),
    "ffn_norm": (1.1471022367477417, 0.9450886845588684),
}


def fields(weights: LayerWeights) -> dict[str, Array]:
    return {name: array for name, array in weights._asdict().items() if array is not None}


def test_seeded_weights_are_the_same_every_time_and_everywhere() -> None:
    weights, again = fields(qwen.seeded_weights(SMALL)), fields(qwen.seeded_weights(SMALL))
    other = fields(qwen.seeded_weights(SMALL, seed=8))
    for name, array in weights.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, again[name])
        assert math.fsum(array.ravel().tolist()) == SUMS[name]
        assert not np.any(array == other[name])


def test_seeded_weights_of_the_real_size() -> None:
    shape = models.layer_shape(models.read("Qwen2.5-7B"))
    for name, array in fields(qwen.seeded_weights(shape)).items():
        assert (array.item(0), array.item(array.size - 1)) == ENDS[name]


def test_seeded_weights_have_the_spread_that_keeps_scores_near_1() -> None:
    shape = LayerShape(d_model=211, n_heads=6, n_kv_heads=3, d_head=62)
    for name, array in fields(qwen.seeded_weights(shape)).items():
        spread = math.sqrt(0.8 / array.size)  # of the variance of so many uniform numbers
        if name.startswith("w_"):
            mean, variance = 0.0, 1 / array.shape[0]
        else:
            mean, variance = (0.0, 0.25) if name.startswith("b_") else (1.0, 0.01)
        assert array.var(dtype=np.float64) == pytest.approx(variance, rel=5 * spread)
        off = 5 * math.sqrt(variance / array.size)
        assert array.mean(dtype=np.float64) == pytest.approx(mean, abs=off)


def test_seeded_matrices_are_transposed_views_as_from_a_file() -> None:
    weights = fields(qwen.seeded_weights(SMALL))
    for name in ("w_q", "w_k", "w_v", "w_o"):
        assert weights[name].T.flags.c_contiguous and not weights[name].flags.c_contiguous
        assert weights[name].base is not None
    qwen.check(np.ones((S, 11)), qwen.seeded_weights(SMALL), SMALL, None)  # the shapes fit


def test_seeded_weights_are_made_in_place() -> None:
    shape = LayerShape(d_model=499, n_heads=6, n_kv_heads=3, d_head=62)
    tracemalloc.start()
    weights = qwen.seeded_weights(shape)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * sum(array.nbytes for array in fields(weights).values())


def test_seeded_rows_belong_to_the_token() -> None:
    ids = [100644, 11319, 9370, 11319]
    rows = qwen.seeded_rows(ids, 3)
    assert rows.dtype == np.float32 and rows.shape == (4, 3)
    assert rows[:2].tolist() == [
        [0.8049628138542175, 0.34997960925102234, 1.6206852197647095],
        [1.2098524570465088, -0.5068047046661377, -1.0476635694503784],
    ]
    np.testing.assert_array_equal(rows[1], rows[3])
    assert not np.any(rows[0] == rows[2])
    np.testing.assert_array_equal(qwen.seeded_rows(ids[::-1], 3), rows[::-1])
    np.testing.assert_array_equal(qwen.seeded_rows(ids[2:], 3), rows[2:])


def test_seeded_rows_have_mean_0_and_variance_1() -> None:
    rows = qwen.seeded_rows(range(101), 503).astype(np.float64)
    assert rows.mean() == pytest.approx(0, abs=5 / math.sqrt(rows.size))
    assert rows.var() == pytest.approx(1, rel=5 * math.sqrt(0.8 / rows.size))


# Bad input


GOOD = fields(WEIGHTS)
PAST = np.linspace(-1, 1, 2 * KV * N_PAST * SHAPE.d_head).reshape(2, KV, N_PAST, SHAPE.d_head)
ONES = np.ones((2, S, SHAPE.d_model))
IN_FLOAT32 = ONES.astype(np.float32)
NORMS = ("input_norm", "ffn_norm")


@dataclass
class Wrong:
    """One fault in an otherwise good call, and what both lines of its refusal must name."""

    what: str
    named: list[str]
    h: Any = field(default_factory=lambda: ONES)
    weights: dict[str, Any] = field(default_factory=dict)
    shape: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] | None = None
    layer_only: bool = False  # `attend` does not use the norms


def with_one(array: Array, at: int, number: float) -> Array:
    changed = array.copy()
    changed.flat[at] = number
    return changed


def wrong_h() -> list[Wrong]:
    return [
        Wrong("no tokens", ["[2, 0, 11]"], h=ONES[:, :0]),
        Wrong("no batch", ["[0, 5, 11]"], h=ONES[:0]),
        Wrong("h of another width", ["13", "11"], h=np.ones((2, S, 13))),
        Wrong("h a vector", ["[11]", "2"], h=ONES[0, 0]),
        Wrong("h a number", ["[]", "2"], h=1.0),
        Wrong("nan in h", ["[1, 4, 10]", "nan"], h=with_one(ONES, -1, math.nan)),
        Wrong("inf in h", ["[0, 0, 1]", "inf"], h=with_one(ONES, 1, -math.inf)),
        Wrong("h text", ["<U1"], h=[["a"] * 11]),
        Wrong("h complex", ["complex128"], h=ONES * 1j),
        Wrong("h None", ["object"], h=None),
        Wrong("h ragged", [], h=[[1.0], [1.0, 2.0]]),
        Wrong("h masked", ["masked array"], h=np.ma.masked_array(ONES)),
        Wrong("h too large", ["float32"], h=with_one(IN_FLOAT32, 0, 3e38)),
    ]


def wrong_weights() -> list[Wrong]:
    wrong = []
    for name, good in GOOD.items():
        wide = np.ones((*good.shape[:-1], good.shape[-1] + 2))
        last = shape_text(tuple(n - 1 for n in good.shape))
        in_words = [] if name in NORMS else [f"weights.{name}"]  # a norm says it in its own words
        faults: list[tuple[str, list[str], object]] = [
            ("too wide", [str(wide.shape[-1]), str(good.shape[-1])], wide),
            ("of more axes", [shape_text((1, *good.shape))], good[None]),
            ("nan", ["nan", last], with_one(good, -1, math.nan)),
            ("inf", ["inf", "0]"], with_one(good, 0, math.inf)),
            ("ragged", [], [[1.0], [1.0, 2.0]]),
            ("text", ["<U", *in_words], good.astype(str)),
            ("complex", ["complex128", *in_words], good * 1j),
            ("objects", ["object", *in_words], good.astype(object)),
            ("masked", in_words, np.ma.masked_array(good)),
        ]
        if name.startswith("w_"):
            faults += [("turned round", [shape_text(good.T.shape), *in_words], good.T)]
            faults += [("a list", ["list", *in_words], good.tolist())]
        if not name.startswith("b_"):
            faults += [("None", in_words, None)]
        for what, named, value in faults:
            layer_only = name in NORMS and what in ("nan", "inf")
            wrong.append(Wrong(f"{name} {what}", named, ONES, {name: value}, layer_only=layer_only))
        huge = {name: np.full(good.shape, 3e38, np.float32)}
        wrong.append(Wrong(f"{name} too large", [], IN_FLOAT32, huge, layer_only=name in NORMS))
    return wrong


def wrong_shapes() -> list[Wrong]:
    wrong = [
        Wrong("heads that do not divide", ["6", "4"], shape={"n_kv_heads": 4}),
        Wrong("more K/V heads than heads", ["6", "12"], shape={"n_kv_heads": 12}),
        Wrong("odd d_head", ["7"], shape={"d_head": 7}),
        Wrong("other heads", ["[11, 84]", "[11, 168]"], shape={"n_heads": 12}),
        Wrong("theta 1", ["theta", "1"], shape={"rope_theta": 1.0}),
        Wrong("theta None", ["theta", "None"], shape={"rope_theta": None}),
    ]
    for name in ("n_heads", "n_kv_heads", "d_head", "d_model"):
        for size in (0, -3, 2.5, 6.0, True, None, "6"):
            wrong.append(Wrong(f"{name} {size!r}", [name, repr(size)], shape={name: size}))
    for eps in (0, -1e-6, math.nan, math.inf, True, None, "x"):
        wrong.append(
            Wrong(f"eps {eps!r}", ["eps", repr(eps)], shape={"norm_eps": eps}, layer_only=True)
        )
    return wrong


def wrong_caches() -> list[Wrong]:
    fits = "[2, 3, 3, 14]"
    wrong = [
        Wrong("other K/V heads", ["[2, 5, 3, 14]", fits], cache={"k": np.ones((2, 5, 3, 14))}),
        Wrong("another d_head", ["[2, 3, 3, 10]", fits], cache={"v": np.ones((2, 3, 3, 10))}),
        Wrong("another batch", ["[7, 3, 3, 14]", fits], cache={"k": np.ones((7, 3, 3, 14))}),
        Wrong("no batch in the cache", ["[3, 3, 14]", fits], cache={"k": PAST[0], "v": PAST[0]}),
        Wrong("k shorter than v", ["[2, 3, 2, 14]", fits], cache={"k": PAST[:, :, 1:]}),
        Wrong("v shorter than k", ["[2, 3, 2, 14]", fits], cache={"v": PAST[:, :, 1:]}),
        Wrong("v empty", ["[2, 3, 0, 14]", fits], cache={"v": PAST[:, :, :0]}),
        Wrong("one axis", ["[14]"], cache={"k": PAST[0, 0, 0], "v": PAST[0, 0, 0]}),
        Wrong("no axis", ["[]"], cache={"k": np.array(1.0)}),
        Wrong("five axes", ["[1, 2, 3, 3, 14]", fits], cache={"k": PAST[None], "v": PAST[None]}),
    ]
    for name in ("k", "v"):
        faults: list[tuple[str, list[str], object]] = [
            ("nan", [f"cache.{name}[1, 2, 2, 13]", "nan"], with_one(PAST, -1, math.nan)),
            ("inf", [f"cache.{name}[0, 0, 0, 0]", "inf"], with_one(PAST, 0, math.inf)),
            ("a list", [f"cache.{name}", "list"], PAST.tolist()),
            ("ragged", [f"cache.{name}", "list"], [[1.0], [1.0, 2.0]]),
            ("None", [f"cache.{name}", "NoneType"], None),
            ("text", [f"cache.{name}", "<U"], PAST.astype(str)),
            ("masked", [f"cache.{name}", "MaskedArray"], np.ma.masked_array(PAST)),
        ]
        for what, named, value in faults:
            wrong.append(Wrong(f"cache.{name} {what}", named, cache={name: value}))
    large = np.full(PAST.shape, 3e38, np.float32)
    wrong.append(Wrong("cache too large", [], IN_FLOAT32, cache={"k": large, "v": large}))
    return wrong


PATHS: dict[str, Callable[..., object]] = {
    "readable": qwen.attend,
    "fast": fast.attend,
    "layer": partial(qwen.layer, attend=qwen.attend),
    "fast layer": partial(qwen.layer, attend=fast.attend),
}
WRONG = wrong_h() + wrong_weights() + wrong_shapes() + wrong_caches()


@pytest.mark.parametrize("wrong", WRONG, ids=[w.what for w in WRONG])
def test_a_mistake_is_named_in_both_languages(wrong: Wrong) -> None:
    """On every path. Warnings are errors here, so what NumPy would only warn of is seen too."""
    dtype = np.float32 if getattr(wrong.h, "dtype", None) == np.float32 else np.float64
    weights = LayerWeights(**{n: w.astype(dtype) for n, w in GOOD.items()} | wrong.weights)
    shape = SHAPE._replace(**wrong.shape)
    cache = None
    if wrong.cache is not None:
        cache = Cache(**{"k": PAST.astype(dtype), "v": PAST.astype(dtype)} | wrong.cache)
    for path, call in PATHS.items():
        if wrong.layer_only and "layer" not in path:
            call(wrong.h, weights, shape, cache)
            continue
        with pytest.raises(ValueError) as caught:
            call(wrong.h, weights, shape, cache)
        english, chinese = str(caught.value).split("\n")
        assert any("一" <= letter <= "鿿" for letter in chinese)
        assert not any("一" <= letter <= "鿿" for letter in english)
        for text in wrong.named:
            assert text in english and text in chinese, (path, text, str(caught.value))


PARTS: list[tuple[str, Callable[[], object], list[str]]] = [
    ("no heads", lambda: qwen.seeded_weights(SMALL._replace(n_heads=0)), ["n_heads", "0"]),
    ("no width", lambda: qwen.seeded_weights(SMALL._replace(d_model=0)), ["d_model", "0"]),
    ("uneven", lambda: qwen.seeded_weights(SMALL._replace(n_heads=7)), ["7", "3"]),
    ("odd", lambda: qwen.seeded_weights(SMALL._replace(d_head=7)), ["d_head", "7"]),
    ("seed −1", lambda: qwen.seeded_weights(SMALL, -1), ["seed", "-1", "0"]),
    ("seed 1.5", lambda: qwen.seeded_weights(SMALL, 1.5), ["seed", "1.5"]),  # type: ignore[arg-type]
    ("token −1", lambda: qwen.seeded_rows([5, -1], 3), ["token_ids", "-1"]),
    ("token 2.5", lambda: qwen.seeded_rows([2.5], 3), ["token_ids", "2.5"]),
    ("no tokens", lambda: qwen.seeded_rows([], 3), ["token_ids", "[0]"]),
    ("tokens of two axes", lambda: qwen.seeded_rows([[1, 2, 3]], 3), ["token_ids", "[1, 3]"]),
    ("rows of no width", lambda: qwen.seeded_rows([1], 0), ["d_model", "0"]),
    ("uneven groups", lambda: qwen.group_heads(np.ones((6, S, 2)), 4), ["6", "4"]),
    ("no group", lambda: qwen.group_heads(np.ones((6, S, 2)), 0), ["n_kv_heads", "0"]),
    ("heads of two axes", lambda: qwen.group_heads(np.ones((6, S)), 3), ["[6, 5]", "3"]),
    (
        "a tuple for a cache",
        lambda: qwen.attend(ONES, LayerWeights(**GOOD), SHAPE, (PAST, PAST)),  # type: ignore[arg-type]
        ["qwen.Cache", "tuple"],
    ),
    ("gain", lambda: qwen.rms_norm(ONES, np.ones(13), 1e-6), ["x = 11", "gain = 13"]),
    ("squares", lambda: qwen.rms_norm(IN_FLOAT32 * 1e30, GOOD["ffn_norm"], 1e-6), ["float32"]),
]


@pytest.mark.parametrize(("call", "named"), [w[1:] for w in PARTS], ids=[w[0] for w in PARTS])
def test_a_part_names_its_mistakes_too(call: Callable[[], object], named: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    english, chinese = str(caught.value).split("\n")
    for text in named:
        assert text in english and text in chinese

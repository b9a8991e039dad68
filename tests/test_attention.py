"""The steps against loops over numbers, and against what must hold for any input.

Every axis has another prime for its size, so that a swapped axis cannot pass.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import byhand
from byhand.attention import heads_reaching
from byhand.checks import Array
from conftest import EXACT

Draw = Callable[..., Array]
BATCH, HEADS, N_Q, N_K, D, D_V = 2, 3, 5, 7, 11, 13

scores_rows = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 7)),
    elements=st.floats(-700, 700, allow_subnormal=False),
)


def loop_attention(q: Array, k: Array, v: Array, allowed: Array) -> tuple[Array, Array]:
    """Weights and context by loops over single numbers; `allowed` [n_q, n_k] of True and False."""
    weights = np.zeros((len(q), len(k)))
    context = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        exps = {}
        for j in range(len(k)):
            if allowed[i, j]:
                dot = math.fsum(float(a) * float(b) for a, b in zip(q[i], k[j], strict=True))
                exps[j] = math.exp(dot / math.sqrt(q.shape[1]))
        for j, e in exps.items():
            weights[i, j] = e / math.fsum(exps.values())
        for c in range(v.shape[1]):
            context[i, c] = math.fsum(weights[i, j] * v[j, c] for j in range(len(k)))
    return weights, context


def test_attention_is_what_the_loops_compute(draw: Draw) -> None:
    q, k, v = draw(N_Q, D), draw(N_K, D), draw(N_K, D_V)
    stages = byhand.attention(q, k, v)
    weights, context = loop_attention(q, k, v, np.ones((N_Q, N_K), bool))
    assert stages.scores.shape == stages.weights.shape == (N_Q, N_K)
    np.testing.assert_allclose(stages.weights, weights, rtol=0, atol=EXACT)
    np.testing.assert_allclose(stages.context, context, rtol=0, atol=EXACT)


def test_masked_attention_is_what_the_loops_compute(draw: Draw) -> None:
    q, k, v = draw(N_Q, D), draw(N_K, D), draw(N_K, D_V)
    allowed = np.tril(np.ones((N_Q, N_K), bool), k=N_K - N_Q)
    stages = byhand.attention(q, k, v, byhand.causal_mask(N_Q, N_K))
    weights, context = loop_attention(q, k, v, allowed)
    np.testing.assert_allclose(stages.weights, weights, rtol=0, atol=EXACT)
    np.testing.assert_allclose(stages.context, context, rtol=0, atol=EXACT)
    assert np.all(np.isneginf(stages.masked) == ~allowed)


def test_leading_axes_are_separate_problems(draw: Draw) -> None:
    q, k, v = draw(BATCH, HEADS, N_Q, D), draw(BATCH, HEADS, N_K, D), draw(BATCH, HEADS, N_K, D_V)
    together = byhand.attention(q, k, v)
    for b in range(BATCH):
        for h in range(HEADS):
            alone = byhand.attention(q[b, h], k[b, h], v[b, h])
            np.testing.assert_allclose(together.context[b, h], alone.context, rtol=0, atol=EXACT)


def test_multi_head_is_one_head_after_the_other(draw: Draw) -> None:
    s, d_model, n_heads, d_head = 5, 7, 3, 2
    x, w_o = draw(s, d_model), draw(n_heads * d_head, d_model)
    w_q, w_k, w_v = (draw(d_model, n_heads * d_head) for _ in range(3))
    mask = byhand.causal_mask(s)
    stages = byhand.multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, mask)
    output = np.zeros((s, d_model))
    for h in range(n_heads):
        mine = slice(h * d_head, (h + 1) * d_head)
        weights, context = loop_attention(
            x @ w_q[:, mine], x @ w_k[:, mine], x @ w_v[:, mine], mask == 0
        )
        np.testing.assert_allclose(stages.weights[h], weights, rtol=0, atol=EXACT)
        output += context @ w_o[mine]
    np.testing.assert_allclose(stages.output, output, rtol=0, atol=EXACT)
    assert stages.merged.shape == (s, n_heads * d_head)


def test_heads_are_blocks_of_columns_and_merge_undoes_split(draw: Draw) -> None:
    x = draw(BATCH, N_Q, HEADS * D)
    heads = byhand.split_heads(x, HEADS)
    assert heads.shape == (BATCH, HEADS, N_Q, D)
    for h in range(HEADS):
        np.testing.assert_array_equal(heads[:, h], x[:, :, h * D : (h + 1) * D])
    np.testing.assert_array_equal(byhand.merge_heads(heads), x)


def test_the_heads_that_reach_an_output_are_those_it_moves_with(draw: Draw) -> None:
    """Found out by moving each head alone; the blocks of W_O have zeros in some columns."""
    merged, w_o = draw(N_Q, HEADS * D_V), draw(HEADS * D_V, D)
    blocks = w_o.reshape(HEADS, D_V, D)
    blocks[0, :, 1] = blocks[2, :, 1] = blocks[:, :, 4] = 0
    blocks[1, 1:, 6] = 0  # one number is enough
    moves = np.zeros((HEADS, D), bool)
    for h in range(HEADS):
        alone = merged.copy()
        alone[:, h * D_V : (h + 1) * D_V] += 1
        moves[h] = np.any(alone @ w_o != merged @ w_o, axis=0)
    np.testing.assert_array_equal(heads_reaching(w_o, HEADS), moves)
    assert list(moves[:, 1]) == [False, True, False] and not moves[:, 4].any() and moves[1, 6]


@given(scores_rows)
def test_softmax_rows_are_shares(x: Array) -> None:
    p = byhand.softmax(x)
    assert np.all(p >= 0) and np.all(p <= 1)
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=0, atol=1e-12)
    assert np.all(p.argmax(axis=-1) == x.argmax(axis=-1)) or np.any(
        np.sort(p, axis=-1)[:, -1] == np.sort(p, axis=-1)[:, -2 if p.shape[1] > 1 else -1]
    )


@given(scores_rows, st.floats(-1e3, 1e3))
def test_softmax_sees_differences_only(x: Array, shift: float) -> None:
    np.testing.assert_allclose(byhand.softmax(x + shift), byhand.softmax(x), rtol=0, atol=1e-10)


@given(scores_rows, st.randoms(use_true_random=False))
def test_softmax_follows_a_permutation_of_the_keys(x: Array, random: object) -> None:
    order = list(range(x.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        byhand.softmax(x[:, order]), byhand.softmax(x)[:, order], rtol=0, atol=EXACT
    )


def test_softmax_along_any_axis(draw: Draw) -> None:
    x = draw(N_Q, N_K, D)
    for axis in (0, 1, 2, -1, -2, -3):
        exps = np.exp(x)
        expected = exps / exps.sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(byhand.softmax(x, axis), expected, rtol=0, atol=EXACT)


def test_softmax_survives_what_overflows_and_gives_masked_keys_nothing() -> None:
    np.testing.assert_array_equal(byhand.softmax([1e300, -1e300, -np.inf]), [1, 0, 0])
    half = byhand.softmax(np.array([6e4, 6e4], dtype=np.float16))
    np.testing.assert_array_equal(half, np.array([0.5, 0.5], dtype=np.float16))


def test_softmax_of_half_precision_sums_in_more() -> None:
    many = byhand.softmax(np.zeros(70000, np.float16))
    assert many.dtype == np.float16
    assert many.astype(np.float64).sum() == pytest.approx(1, abs=0.05)
    extremes = byhand.softmax(np.array([6e4, -6e4], np.float16))
    np.testing.assert_array_equal(extremes, np.array([1, 0], np.float16))
    np.testing.assert_array_equal(byhand.softmax([1.7e308, -1.7e308]), [1, 0])


def test_jacobian_is_the_slope_of_the_softmax(draw: Draw) -> None:
    x, step = draw(N_Q, N_K), 1e-6
    jacobian = byhand.softmax_jacobian(byhand.softmax(x))
    assert jacobian.shape == (N_Q, N_K, N_K)
    for j in range(N_K):
        up, down = x.copy(), x.copy()
        up[:, j] += step
        down[:, j] -= step
        slope = (byhand.softmax(up) - byhand.softmax(down)) / (2 * step)
        np.testing.assert_allclose(jacobian[:, :, j], slope, rtol=0, atol=1e-9)


def test_float32_stays_float32(draw: Draw) -> None:
    q, k, v = (draw(N_K, D).astype(np.float32) for _ in range(3))
    for stage in byhand.attention(q, k, v, byhand.causal_mask(N_K)):
        assert stage.dtype == np.float32


def test_lists_of_whole_numbers_are_taken() -> None:
    np.testing.assert_array_equal(byhand.score([[1, 2]], [[3, 4], [5, 6]]), [[11, 17]])


def test_inputs_are_left_as_they_were(draw: Draw) -> None:
    x = draw(N_Q, N_K)
    before = x.copy()
    byhand.softmax(x)
    byhand.apply_mask(x, byhand.causal_mask(N_Q, N_K))
    np.testing.assert_array_equal(x, before)


def test_bias_is_added_to_every_token(draw: Draw) -> None:
    x, w, b = draw(N_Q, D), draw(D, D_V), draw(D_V)
    np.testing.assert_allclose(byhand.project(x, w, b) - byhand.project(x, w), np.tile(b, (N_Q, 1)))


def test_causal_mask_with_a_cache_lets_the_last_queries_see_all_before_them() -> None:
    np.testing.assert_array_equal(byhand.causal_mask(1, 4), np.zeros((1, 4)))
    expected = [[0, 0, 0, -np.inf], [0, 0, 0, 0]]
    np.testing.assert_array_equal(byhand.causal_mask(2, 4), expected)


ONES = np.ones((2, 3))
WRONG: list[tuple[str, Callable[[], object], str, str]] = [
    ("widths differ", lambda: byhand.score(ONES, np.ones((2, 5))), "q = 3, k = 5", "宽度"),
    ("x @ w", lambda: byhand.project(ONES, np.ones((2, 5))), "x = 3, w = 2", "行数"),
    ("bias", lambda: byhand.project(ONES, np.ones((3, 5)), [1, 2]), "w = 5, bias = 2", "bias"),
    ("keys and values", lambda: byhand.weigh(ONES, np.ones((2, 5))), "weights = 3, v = 2", "值"),
    ("nan", lambda: byhand.score([[np.nan]], [[1.0]]), "q[0, 0] is nan", "有限"),
    ("inf", lambda: byhand.softmax([np.inf, 1.0]), "x[0] is inf", "有限"),
    ("-inf in q", lambda: byhand.score([[-np.inf]], [[1.0]]), "q[0, 0] is -inf", "有限"),
    ("all masked", lambda: byhand.softmax(np.full((2, 3), -np.inf)), "row [0]", "遮住"),
    ("a masked vector", lambda: byhand.softmax([-np.inf, -np.inf]), "in this row", "这一行"),
    ("a masked column", lambda: byhand.softmax(np.full((2, 3), -np.inf), 0), "axis 0", "第 0 个轴"),
    (
        "one row masked",
        lambda: byhand.apply_mask(ONES, [[0.0] * 3, [-np.inf] * 3]),
        "row [1]",
        "遮住",
    ),
    ("a true/false mask", lambda: byhand.apply_mask(ONES, ONES > 0), "True and False", "真假值"),
    ("a 0/1 mask", lambda: byhand.apply_mask(ONES, ONES), "1 and 0", "1 和 0"),
    ("a -1e9 mask", lambda: byhand.apply_mask(ONES, -1e9 * ONES), "−inf", "−inf"),
    (
        "mask of another shape",
        lambda: byhand.apply_mask(ONES, np.zeros((2, 5))),
        "[2, 5]",
        "对不上",
    ),
    (
        "a mask that would add axes",
        lambda: byhand.apply_mask(ONES, np.zeros((4, 2, 3))),
        "[4, 2, 3]",
        "对不上",
    ),
    (
        "batches",
        lambda: byhand.score(np.ones((2, 5, 3)), np.ones((3, 4, 3))),
        "do not fit",
        "对不上",
    ),
    ("w of three axes", lambda: byhand.project(ONES, np.ones((2, 3, 5))), "one matrix", "一个矩阵"),
    (
        "bias of two axes",
        lambda: byhand.project(ONES, np.ones((3, 5)), [[1.0] * 5]),
        "one row",
        "一行",
    ),
    ("too large", lambda: byhand.score([[1e200]], [[1e200]]), "too large for float64", "放不下"),
    (
        "a bias that makes it too large",
        lambda: byhand.project([[1e308, 1.0, 1.0]], np.ones((3, 1)), [1.7e308]),
        "too large for float64",
        "放不下",
    ),
    (
        "too large for half",
        lambda: byhand.score(np.full((2, 3), 300, np.float16), np.full((2, 3), 300, np.float16)),
        "too large for float16",
        "放不下",
    ),
    ("masked array", lambda: byhand.softmax(np.ma.masked_array(ONES)), "masked array", "掩码数组"),
    ("axis of no kind", lambda: byhand.softmax(ONES, None), "axis must be", "axis"),  # type: ignore[arg-type]
    ("a ragged mask", lambda: byhand.apply_mask(ONES, [[0], [0, 0]]), "a mask holds", "mask"),
    ("text", lambda: byhand.softmax(["a"]), "must hold numbers", "要放数"),
    ("complex", lambda: byhand.softmax([1j]), "must hold numbers", "要放数"),
    ("ragged", lambda: byhand.score([[1], [1, 2]], ONES), "different lengths", "长短"),
    ("a vector", lambda: byhand.score([1.0, 2.0], ONES), "at least 2 axes", "2 个轴"),
    ("empty", lambda: byhand.score(np.ones((0, 3)), ONES), "empty", "空"),
    ("a number", lambda: byhand.softmax(3.0), "at least 1 axes", "1 个轴"),
    ("no such axis", lambda: byhand.softmax(ONES, axis=2), "no axis 2", "没有第 2"),
    ("d_head 0", lambda: byhand.scale(ONES, 0), "d_head must be a whole number", "整数"),
    ("d_head 2.0", lambda: byhand.scale(ONES, 2.0), "it is 2.0", "整数"),  # type: ignore[arg-type]
    ("d_head True", lambda: byhand.scale(ONES, True), "it is True", "整数"),
    ("heads", lambda: byhand.split_heads(ONES, 2), "3 columns", "3 列"),
    ("no heads", lambda: byhand.split_heads(ONES, 0), "n_heads", "n_heads"),
    ("heads of two axes", lambda: byhand.merge_heads(ONES), "at least 3 axes", "3 个轴"),
    ("blocks of W_O", lambda: heads_reaching(np.ones((5, 4)), 2), "5 rows", "5 行"),
    ("mask of nothing", lambda: byhand.causal_mask(0), "n_q", "n_q"),
    ("fewer keys than queries", lambda: byhand.causal_mask(3, 2), "3 or more", "不小于 3"),
]


@pytest.mark.parametrize(("call", "en", "zh"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_mistake_is_named_in_both_languages(call: Callable[[], object], en: str, zh: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    english, chinese = str(caught.value).split("\n")
    assert en in english
    assert zh in chinese

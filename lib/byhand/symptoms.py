"""What numbers that no mistake explains have to say: a stage that differs, and how."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from byhand.calls import Line, Outcome
from byhand.checks import Array, shape_text
from byhand.matching import distance
from byhand.steps import Problem, given, result, run

NEAR: Final = 1e-4  # as float32 results come; what is looked for is larger by far
Ask = Callable[[Problem], Array | None]

STAGES: Final = {
    "v": Line("V：投影、偏置", "V: its projection or bias"),
    "scores": Line(
        "分数：Q、K 的投影，位置，Q·Kᵀ，或者缩放",
        "the scores: the projections of Q and K, positions, Q·Kᵀ, or the scaling",
    ),
    "scaled": Line("缩放", "the scaling"),
    "masked": Line("遮罩", "the mask"),
    "weights": Line(
        "权重：softmax，或者它之后的一步", "the weights: the softmax, or a step after it"
    ),
    "context": Line("加权求和：权重 · V", "the weighted sum: weights · V"),
    "merged": Line("头的切分或合并", "the heads: how they are split or merged"),
    "output": Line(
        "输出投影 W_O，或者它之后的一步", "the output projection W_O, or a step after it"
    ),
}


@np.errstate(all="ignore")  # the numbers may be anything
def examine(problem: Problem, outcome: Outcome, ask: Ask | None) -> tuple[str | None, list[Line]]:
    """A stage that differs, and everything that stands out.

    It is the first one where the function returned its stages by name; else one that is certain to
    differ, found by asking.

    `ask` calls the reader's function on another problem; without it only the result is looked at.
    """
    found, wanted = outcome.output, result(problem)
    assert found is not None and wanted is not None
    if found.ndim > 1 and _same(found.swapaxes(-1, -2), wanted):
        return None, [Line("把结果转置一下就对了。", "The result is right once transposed.")]
    stage = _by_stages(problem, outcome)
    first = stage is not None
    told = _of_result(found, wanted, problem)
    if ask is not None:
        certain, more = (
            _of_heads(problem, ask) if problem.x is not None else _of_attention(problem, ask)
        )
        stage = stage or certain
        told += more + leaks(problem, ask) + _again(problem, found, ask)
    lines = []
    if stage is not None:
        name = STAGES[stage]
        lines.append(
            Line(f"最先不对的一步：{name.zh}。", f"The first stage that differs: {name.en}.")
            if first
            else Line(
                f"能断定不对的一步：{name.zh}。", f"A stage that certainly differs: {name.en}."
            )
        )
    return stage, lines + told


def _same(found: Array | None, wanted: Array | None) -> bool:
    return found is not None and wanted is not None and distance(found, wanted) < NEAR


def _by_stages(problem: Problem, outcome: Outcome) -> str | None:
    """The first stage that the function returned by name and that is not the reference's."""
    for name, wanted in run(problem).items():
        found = outcome.stages.get(name)
        same_shape = found is not None and found.shape == wanted.shape
        if name in STAGES and same_shape and not _same(found, wanted):
            return name
    return None


def _of_result(found: Array, wanted: Array, problem: Problem) -> list[Line]:
    """What the result alone shows."""
    if found.shape != wanted.shape:
        return [
            Line(
                f"结果的形状是 {shape_text(found.shape)}，应该是 {shape_text(wanted.shape)}。",
                f"The result has the shape {shape_text(found.shape)}; {shape_text(wanted.shape)} "
                f"is wanted.",
            )
        ]
    bad = ~np.isfinite(found)
    if bad.any():
        rows = np.unique(np.argwhere(bad)[:, -2])
        listed = ", ".join(str(r) for r in rows[:5]) + (" …" if len(rows) > 5 else "")
        return [
            Line(
                f"结果里有 NaN 或无穷大，在第 {listed} 行（从 0 数）。",
                f"The result holds NaN or infinity, in rows {listed} (counted from 0).",
            )
        ]
    told = []
    factor = float(np.sum(found * wanted) / np.sum(wanted * wanted))
    if factor and abs(factor - 1) > NEAR and _same(found / factor, wanted):
        told.append(
            Line(
                f"每个数都是应有的 {factor:.4g} 倍。",
                f"Every number is {factor:.4g} times what it should be.",
            )
        )
    rows_found, rows_wanted = (a.reshape(-1, a.shape[-1]) for a in (found, wanted))
    told += _permuted(rows_found, rows_wanted, "行", "rows")
    if problem.d_head and wanted.shape[-1] % problem.d_head == 0:
        blocks = [
            np.moveaxis(a.reshape(len(rows_found), -1, problem.d_head), 1, 0).reshape(
                -1, len(rows_found) * problem.d_head
            )
            for a in (rows_found, rows_wanted)
        ]
        if len(blocks[0]) > 1:
            told += _permuted(blocks[0], blocks[1], "头（列块）", "heads (blocks of columns)")
    right = [bool(_same(f[None], w[None])) for f, w in zip(rows_found, rows_wanted, strict=True)]
    if any(right) and not all(right):
        first = right.index(False)
        told.append(
            Line(
                f"{len(right)} 行里有 {sum(right)} 行是对的；第一处不对的是第 {first} 行（从 0 数）。",
                f"Of {len(right)} rows {sum(right)} are right; the first wrong one is row {first} "
                f"(counted from 0).",
            )
        )
    return told


def _permuted(found: Array, wanted: Array, zh: str, en: str) -> list[Line]:
    """A line if the parts are those wanted, in another order."""
    gaps = np.linalg.norm(found[:, None] - wanted[None], axis=-1)  # [found, wanted]
    order = gaps.argmin(axis=1)
    if sorted(order) != list(range(len(wanted))) or list(order) == list(range(len(wanted))):
        return []
    if not _same(found, wanted[order]):
        return []
    listed = " ".join(str(n) for n in order)
    return [Line(f"{zh}的顺序变了：{listed}。", f"The {en} are in another order: {listed}.")]


def _of_attention(problem: Problem, ask: Ask) -> tuple[str | None, list[Line]]:
    """With the identity as V, an attention of q, k and v gives back its weights: look at them."""
    n_k = given(problem.k).shape[-2]
    unit = np.broadcast_to(np.eye(n_k), (*given(problem.k).shape[:-2], n_k, n_k)).copy()
    asked = replace(problem, v=unit)
    weights, wanted = ask(asked), run(asked)
    if weights is None or weights.shape != wanted["weights"].shape:
        return None, []
    if _same(weights, wanted["weights"]):
        return "context", [Line("权重是对的。", "The weights are right.")]
    sums = weights.sum(axis=-1)
    told = _sums(sums)
    if told:
        return "weights", told
    if problem.mask is not None:
        hidden = np.isneginf(problem.mask)
        if np.abs(weights[..., hidden]).max() > 1e-6:
            return "masked", [
                Line(
                    "遮住的键有权重：最大的是 " + f"{np.abs(weights[..., hidden]).max():.3g}。",
                    f"Keys that are masked have weight: up to "
                    f"{np.abs(weights[..., hidden]).max():.3g}.",
                )
            ]
        may = ~hidden
    else:
        may = np.ones(weights.shape[-2:], dtype=bool)
    return _scaled(weights, wanted["scaled"], may)


def _scaled(weights: Array, scaled: Array, may: NDArray[np.bool_]) -> tuple[str, list[Line]]:
    """Differences of log weights are differences of scores: are they in proportion?"""
    if (weights[..., may] <= 0).any():
        return "scores", []
    logs = np.where(may, np.log(np.where(may, weights, 1)), 0)
    wanted = np.where(may, scaled, 0)
    share = may.sum(axis=-1, keepdims=True)
    logs = np.where(may, logs - logs.sum(axis=-1, keepdims=True) / share, 0)
    wanted = np.where(may, wanted - wanted.sum(axis=-1, keepdims=True) / share, 0)
    factor = float(np.sum(logs * wanted) / np.sum(wanted * wanted))
    if factor and _same(logs / factor, wanted):
        return "scaled", [
            Line(
                f"缩放后的分数是应有的 {factor:.4g} 倍。",
                f"The scaled scores are {factor:.4g} times what they should be.",
            )
        ]
    return "scores", []


def _sums(sums: Array) -> list[Line]:
    """A line if the rows of weights do not sum to 1."""
    if not np.isfinite(sums).all() or np.abs(sums - 1).max() < NEAR:
        return []
    low, high = f"{sums.min():.4g}", f"{sums.max():.4g}"
    if low == high:
        return [
            Line(f"权重每行的和是 {low}，不是 1。", f"The rows of weights sum to {low}, not to 1.")
        ]
    return [
        Line(
            f"权重每行的和不是 1，在 {low} 和 {high} 之间。",
            f"The rows of weights do not sum to 1: their sums lie between {low} and {high}.",
        )
    ]


def _of_heads(problem: Problem, ask: Ask) -> tuple[str | None, list[Line]]:
    """Where an attention of x goes wrong, found with problems in which steps do not matter.

    With every row of x alike, any weights that sum to 1 give the same. With W_Q and W_K zero the
    weights are even.
    """
    x = given(problem.x)
    alike = replace(problem, x=np.broadcast_to(x[..., :1, :], x.shape).copy())
    found, wanted = ask(alike), result(alike)
    if found is None or wanted is None or found.shape != wanted.shape:
        return None, []
    if not _same(found, wanted):
        if problem.gain is None:
            per_row = np.sum(found * wanted, axis=-1) / np.sum(wanted * wanted, axis=-1)
            if _same(found, per_row[..., None] * wanted):
                return "weights", _sums(per_row)
        return _after_weights(alike, ask), []
    even = replace(
        problem,
        w_q=np.zeros_like(given(problem.w_q)),
        w_k=np.zeros_like(given(problem.w_k)),
        b_q=None if problem.b_q is None else np.zeros_like(problem.b_q),
        b_k=None if problem.b_k is None else np.zeros_like(problem.b_k),
    )
    if not _same(ask(even), result(even)):
        return ("masked" if problem.mask is not None else "context"), []
    return "scores", [
        Line(
            "权重均匀的时候，结果是对的。",
            "With even weights the result is right.",
        )
    ]


def _after_weights(alike: Problem, ask: Ask) -> str | None:
    """Which of V, the heads and W_O is wrong, when the weights do not matter."""
    if alike.w_o is not None and alike.gain is None:
        double = ask(replace(alike, w_o=2 * alike.w_o))
        single = ask(alike)
        if single is not None and not _same(double, 2 * single):
            return "output"
    if alike.w_o is not None and alike.w_o.shape[0] == alike.w_o.shape[1]:
        plain = replace(alike, w_o=np.eye(len(alike.w_o)))
        if _same(ask(plain), result(plain)):
            return "output"
    if alike.n_heads == alike.n_kv_heads == 1:
        return "v"
    if alike.n_heads == alike.n_kv_heads:
        return "merged" if _single_head_is_right(alike, ask) else "v"
    return None  # shared K/V heads cannot be taken as one


def _single_head_is_right(alike: Problem, ask: Ask) -> bool:
    """Whether the same widths, taken as one head, come out right."""
    width = alike.n_heads * alike.d_head
    one = replace(alike, n_heads=1, n_kv_heads=1, d_head=width)
    return _same(ask(one), result(one))


def leaks(problem: Problem, ask: Ask) -> list[Line]:
    """Whether an earlier row of the result depends on the last token."""
    if problem.mask is None:
        return []
    moved = {}
    for name in ("x", "k", "v"):
        array = getattr(problem, name)
        if array is not None:
            changed = array.copy()
            changed[..., -1, :] += 1.0
            moved[name] = changed
    before, after = ask(problem), ask(replace(problem, **moved))
    if before is None or after is None or before.shape != after.shape or before.ndim < 2:
        return []
    with np.errstate(invalid="ignore"):
        differs = ~np.isclose(before[..., :-1, :], after[..., :-1, :], rtol=1e-5, atol=1e-7)
    if before.shape[-2] < 2 or not differs.any() or np.isnan(before).any():
        return []
    row = int(np.argwhere(differs)[:, -2].min())
    return [
        Line(
            f"未来漏进来了：改最后一个词，第 {row} 行（从 0 数）的结果就变了。",
            f"The future leaks: changing the last token changes row {row} of the result (counted "
            f"from 0).",
        )
    ]


def _again(problem: Problem, found: Array, ask: Ask) -> list[Line]:
    second = ask(problem)
    if second is None or np.array_equal(second, found, equal_nan=True):
        return []
    return [
        Line(
            "同样的输入，两次的结果不一样：是不是开着 dropout？",
            "Two calls with the same inputs give different results: is dropout on?",
        )
    ]

"""Any one number of attention as the sum of products it is, in LaTeX, as on paper.

Every function takes the arrays of the step and the place of one entry (positions count from 0, as in
Python; in the formula dimensions count from 1, as on paper) and returns a Formula, which a notebook
shows typeset. The signs are honest: = where both sides are equal as printed, ≈ wherever a number was
rounded for printing. The result is computed from unrounded numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from byhand.attention import LayerStages, Stages, merge_heads, softmax
from byhand.checks import index, matrix, refuse, row, same, whole
from byhand.toy import TOKENS, Toy

EQUAL = 1e-9  # nearer than this is equal: binary rounding of decimals
TERMS_A_LINE = 3  # more do not fit beside each other on a narrow screen


class Formula(str):
    """LaTeX without its dollar signs; a notebook shows it as a displayed formula."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        return f"$$\n{self}\n$$"


def number(value: float, decimals: int) -> str:
    """One number with that many decimals, never −0.000."""
    return f"{value:z.{decimals}f}"


def _factor(value: float, decimals: int) -> str:
    text = number(value, decimals)
    return f"({text})" if text.startswith("-") else text


def _lines(terms: Sequence[str], signed: bool = False) -> list[str]:
    """Terms joined by +, TERMS_A_LINE to a line; `signed` terms bring their own minus."""
    joined = [
        term if i == 0 else (f"- {term[1:]}" if signed and term.startswith("-") else f"+ {term}")
        for i, term in enumerate(terms)
    ]
    step = TERMS_A_LINE * (2 if signed else 1)  # bare products are half as wide
    return [" ".join(joined[i : i + step]) for i in range(0, len(joined), step)]


class Step(NamedTuple):
    """One line of a formula: what is printed, and the value of what is printed."""

    lines: Sequence[str]
    value: float


def _aligned(name: str, exact: float, steps: Sequence[Step]) -> Formula:
    """name = step ≈ step …, one below the other, long steps over several lines.

    `exact` is the value that `name` stands for. Each sign compares a step with what is before it.
    """
    rows = []
    before = exact
    for i, step in enumerate(steps):
        equal = step.value == before or abs(step.value - before) < EQUAL  # −∞ equals itself
        sign = "=" if equal else r"\approx"
        rows.append(f"{name if i == 0 else ''} &{sign} {step.lines[0]}")
        rows += [rf"&\quad {{}} {line}" for line in step.lines[1:]]  # {}: its sign has two sides
        before = step.value
    body = " \\\\\n".join(rows)
    return Formula(f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}")


def _rounded(value: float, decimals: int) -> float:
    """The value of the number as printed."""
    return float(number(value, decimals))


def _place(symbol: str, *labels: str | int) -> str:
    subscript = ",\\,".join(
        str(label + 1) if isinstance(label, int) else rf"\text{{{label}}}" for label in labels
    )
    return f"{symbol}_{{{subscript}}}"


def dot(
    left: ArrayLike, right: ArrayLike, name: str, *, factors: int = 3, result: int = 3
) -> Formula:
    """left · right written out: the factors, the products, the sum.

    left [n], right [n]; `name` is the LaTeX of the left-hand side; `factors` and `result` are the
    decimals printed.
    """
    a, b = row("left", left), row("right", right)
    factors, result = whole("factors", factors, least=0), whole("result", result, least=0)
    same("left 和 right 的长度", "the lengths of left and right", left=a.size, right=b.size)
    products = a * b
    printed_factors = [
        (_rounded(x, factors), _rounded(y, factors)) for x, y in zip(a, b, strict=True)
    ]
    factor_texts = [
        rf"{(_factor if n else number)(x, factors)} \times {_factor(y, factors)}"
        for n, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    product_texts = [number(p, factors) for p in products]
    total = float(products.sum())
    return _aligned(
        name,
        total,
        [
            Step(_lines(factor_texts), sum(x * y for x, y in printed_factors)),
            Step(_lines(product_texts, signed=True), sum(map(float, product_texts))),
            Step([number(total, result)], _rounded(total, result)),
        ],
    )


def projection(
    x: ArrayLike,
    w: ArrayLike,
    i: int,
    j: int,
    symbol: str,
    tokens: Sequence[str] = TOKENS,
    decimals: int = 3,
) -> Formula:
    """Entry (i, j) of x @ w. x [S, d_in], w [d_in, d_out]; `symbol` is Q, K, V or Y."""
    x, w = matrix("x", x), matrix("w", w)
    i, j = index("i", i, x.shape[0]), index("j", j, w.shape[1])
    name = _place(symbol, _label(tokens, i), j)
    return dot(x[i], w[:, j], name, factors=decimals, result=decimals)


def score(q: ArrayLike, k: ArrayLike, i: int, j: int, tokens: Sequence[str] = TOKENS) -> Formula:
    """Entry (i, j) of q @ k.T. q [n_q, d], k [n_k, d]."""
    q, k = matrix("q", q), matrix("k", k)
    i, j = index("i", i, q.shape[0]), index("j", j, k.shape[0])
    name = _place("S", _label(tokens, i), _label(tokens, j))
    return dot(q[i], k[j], name, result=2)


def scaled(
    scores: ArrayLike, d_head: int, i: int, j: int, tokens: Sequence[str] = TOKENS
) -> Formula:
    """Entry (i, j) of scores / √d_head. scores [n_q, n_k]."""
    scores = matrix("scores", scores)
    i, j = index("i", i, scores.shape[0]), index("j", j, scores.shape[1])
    exact = float(scores[i, j] / np.sqrt(whole("d_head", d_head)))
    name = rf"\tilde{{S}}_{{\text{{{_label(tokens, i)}}},\,\text{{{_label(tokens, j)}}}}}"
    fraction = rf"\frac{{{number(scores[i, j], 2)}}}{{\sqrt{{{d_head}}}}}"
    return _aligned(
        name,
        exact,
        [
            Step([fraction], _rounded(scores[i, j], 2) / float(np.sqrt(d_head))),
            Step([number(exact, 2)], _rounded(exact, 2)),
        ],
    )


def weight(scaled: ArrayLike, i: int, j: int, tokens: Sequence[str] = TOKENS) -> Formula:
    """Entry (i, j) of softmax(scaled): the exponentials, the sum, the quotient.

    scaled [n_q, n_k], masked or not; a masked key has the exponential 0.
    """
    scaled = matrix("scaled", scaled, infinite=True)
    i, j = index("i", i, scaled.shape[0]), index("j", j, scaled.shape[1])
    line = scaled[i]
    weights = softmax(line)
    top = float(line.max())
    exps = np.exp(line - top)
    finite = [x for x in line if np.isfinite(x)]
    powers = [
        rf"e^{{{_infinite(x)} - {_factor(top, 2)}}}" if np.isfinite(x) else r"e^{-\infty}"
        for x in line
    ]
    exact = float(weights[j])
    printed_powers = [np.exp(_rounded(x, 2) - _rounded(top, 2)) for x in finite]
    chosen = np.exp(_rounded(line[j], 2) - _rounded(top, 2)) if np.isfinite(line[j]) else 0.0
    printed_exps = [_rounded(e, 4) for e in exps]
    over_sum = rf"\frac{{{number(exps[j], 4)}}}{{{number(exps.sum(), 4)}}}"
    denominator = " + ".join(number(e, 4) for e in exps)
    return _aligned(
        _place("A", _label(tokens, i), _label(tokens, j)),
        exact,
        [
            Step(
                [rf"\frac{{{powers[j]}}}{{{' + '.join(powers)}}}"],
                float(chosen / sum(printed_powers)),
            ),
            Step(
                [rf"\frac{{{number(exps[j], 4)}}}{{{denominator}}}"],
                printed_exps[j] / sum(printed_exps),
            ),
            Step([over_sum], printed_exps[j] / _rounded(exps.sum(), 4)),
            Step([number(exact, 3)], _rounded(exact, 3)),
        ],
    )


def context(
    weights: ArrayLike, v: ArrayLike, i: int, c: int, tokens: Sequence[str] = TOKENS
) -> Formula:
    """Entry (i, c) of weights @ v. weights [n_q, n_k], v [n_k, d_v]."""
    weights, v = matrix("weights", weights), matrix("v", v)
    i, c = index("i", i, weights.shape[0]), index("c", c, v.shape[1])
    return dot(weights[i], v[:, c], _place("O", _label(tokens, i), c))


def entry(
    toy: Toy,
    stages: LayerStages,
    stage: str,
    i: int,
    j: int,
    head: int = 0,
    tokens: Sequence[str] = TOKENS,
) -> Formula:
    """Entry (i, j) of any stage of multi_head_attention on the toy, written out.

    `stage` is a field of LayerStages: q, k, v, scores, scaled, masked, weights, context, merged or
    output; `head` counts for those that have one. merged is only placement, so its formula is the
    entry of context that lies there.
    """
    if stages.q.ndim != 3:
        refuse(
            "stages 要来自一个句子，没有批的轴。",
            "the stages must come from one sentence, without a batch axis.",
        )
    n_heads, _, d_head = stages.q.shape
    head = index("head", head, n_heads)
    projected = toy.X @ np.hstack([toy.W_Q, toy.W_K, toy.W_V])
    if not np.allclose(projected, np.hstack([merge_heads(m) for m in stages[:3]]), atol=1e-9):
        refuse("stages 不是由这个 toy 算出来的。", "these stages were not computed from this toy.")
    per_head = Stages(
        stages.scores[head],
        stages.scaled[head],
        stages.masked[head],
        stages.weights[head],
        stages.context[head],
    )
    columns = slice(head * d_head, (head + 1) * d_head)
    match stage:
        case "q" | "k" | "v":
            w = {"q": toy.W_Q, "k": toy.W_K, "v": toy.W_V}[stage]
            return projection(toy.X, w[:, columns], i, j, stage.upper(), tokens)
        case "scores":
            return score(stages.q[head], stages.k[head], i, j, tokens)
        case "scaled":
            return scaled(per_head.scores, d_head, i, j, tokens)
        case "masked":
            return _masked(per_head, i, j, tokens)
        case "weights":
            return weight(per_head.masked, i, j, tokens)
        case "context":
            return context(per_head.weights, stages.v[head], i, j, tokens)
        case "merged":
            j = index("j", j, stages.merged.shape[-1])
            at = j // d_head
            return context(stages.weights[at], stages.v[at], i, j % d_head, tokens)
        case "output":
            return projection(stages.merged, toy.W_O, i, j, "Y", tokens)
    refuse(
        f"没有叫 {stage!r} 的步骤。有的是：{', '.join(LayerStages._fields)}",
        f"there is no stage {stage!r}; there are: {', '.join(LayerStages._fields)}",
    )


def _masked(stages: Stages, i: int, j: int, tokens: Sequence[str]) -> Formula:
    i, j = index("i", i, stages.scaled.shape[0]), index("j", j, stages.scaled.shape[1])
    before, after = stages.scaled[i, j], stages.masked[i, j]
    added = "0" if np.isfinite(after) else r"(-\infty)"
    name = _place("M", _label(tokens, i), _label(tokens, j))
    printed = _rounded(before, 2)
    seen = bool(np.isfinite(after))
    return _aligned(
        name,
        after,
        [
            Step([f"{number(before, 2)} + {added}"], printed if seen else -np.inf),
            Step([_infinite(after)], printed if seen else -np.inf),
        ],
    )


def _infinite(value: float) -> str:
    return number(value, 2) if np.isfinite(value) else r"-\infty"


def _label(tokens: Sequence[str], i: int) -> str:
    if i >= len(tokens):
        refuse(
            f"第 {i} 行没有对应的词：只给了 {len(tokens)} 个词。",
            f"row {i} has no token among the {len(tokens)} given.",
        )
    return tokens[i]

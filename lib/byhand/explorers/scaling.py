"""01: the width of the queries, and what the scaling does to scores, weights and gradients."""

from functools import cache, partial
from typing import Final

import numpy as np

from byhand import svg
from byhand.attention import scale, softmax, softmax_jacobian
from byhand.checks import Array, whole
from byhand.explorer import Explorer, View, frozen, slider, tick
from byhand.figures import BLUE, GREEN, YELLOW
from byhand.words import pick, small
from byhand.worked import number

WIDEST: Final = 512
KEYS: Final = 6  # in the one row
WIDTH: Final = {"zh": 760, "en": 850}  # of the drawing, whatever it shows
PAIRS: Final = 2000  # random queries and keys, for the spread


@cache
def _products() -> tuple[Array, Array]:
    """q·k over the first 1, 2, … 512 dimensions: of many pairs, and of one query with six keys.

    [PAIRS, WIDEST] and [6, WIDEST]; every number is drawn from a standard normal distribution.
    """
    rng = np.random.default_rng(5)
    q, k = rng.standard_normal((2, PAIRS, WIDEST))
    one, six = rng.standard_normal(WIDEST), rng.standard_normal((KEYS, WIDEST))
    return frozen(np.cumsum(q * k, axis=1)), frozen(np.cumsum(one * six, axis=1))


def scores_of(d_k: int, scaled: bool) -> tuple[Array, Array]:
    """The scores of many random pairs and of one row of six, at that width. [PAIRS], [6]"""
    many, row = (products[:, whole("d_k", d_k) - 1] for products in _products())
    if not scaled:
        return many, row
    return scale(many[None], d_k)[0], scale(row[None], d_k)[0]


def view(d_k: int, scaled: bool, lang: str) -> View:
    """The spread of the scores, the weights of one row, and the largest slope of its softmax."""
    many, row = scores_of(d_k, scaled)
    weights = softmax(row)  # [6]
    slope = float(softmax_jacobian(weights).max())
    spread = float(many.std())
    keys = [f"k{n}" for n in range(1, row.size + 1)]
    name = pick(lang, "缩放后分数", "scaled scores") if scaled else pick(lang, "分数", "scores")
    spread_words = pick(
        lang,
        f"d_k = {d_k}，{PAIRS} 对查询和键，{name}的标准差 {number(spread, 2)}",
        f"d_k = {d_k}, standard deviation of the {name} of {PAIRS} pairs: {number(spread, 2)}",
    )
    shown_slope = small(slope, 4, lang)
    slope_words = pick(
        lang,
        f"雅可比矩阵最大的一项：{shown_slope}（最多是四分之一）",
        f"largest entry of the Jacobian: {shown_slope} (a quarter at most)",
    )
    one_row = pick(lang, f"另抽一行，六个键：{name}", f"another row, with six random keys: {name}")
    drawing = svg.below(
        svg.bars([spread], ["σ"], spread_words, decimals=2, top=WIDEST**0.5, colour=YELLOW),
        svg.matrix([row], "scores", one_row, [""], keys, decimals=2),
        svg.beside(
            svg.bars(
                weights, keys, pick(lang, "它们的权重", "their weights"),
                decimals=3, top=1, colour=BLUE, lit=[int(weights.argmax())],
            ),
            svg.bars(
                [slope], ["∂p/∂x"], slope_words,
                decimals=4, top=0.25, colour=GREEN, told=[shown_slope],
            ),
        ),
    )  # fmt: skip
    return View(
        svg.widened(drawing, WIDTH[lang]),
        (
            spread_words,
            f"{one_row}  " + "  ".join(number(s, 2) for s in row),
            pick(lang, "权重：", "weights: ") + "  ".join(number(w, 3) for w in weights),
            slope_words,
        ),
    )


def explorer(lang: str) -> Explorer:
    """Move d_k, switch the scaling on and off."""
    return Explorer(
        pick(lang, "宽度 d_k 和缩放", "The width d_k and the scaling"),
        {
            "d_k": slider(lang, "宽度 d_k", "width d_k", 64, 1, WIDEST),
            "scaled": tick(lang, "除以 √d_k", "divide by √d_k", False),
        },
        partial(view, lang=lang),
        lang,
    )

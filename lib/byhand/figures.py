"""The figures of the notebooks: arrays in, a Picture out, labels in the edition's language.

A Picture is a matplotlib Figure that shows itself in a notebook without pyplot and says in words what
it shows: its plain text, which is stored beside the image, lists the numbers drawn. So a wrong number
in a figure turns the notebook tests red although image bytes are never compared.

Colours are from the Okabe-Ito set, which colour-blind readers can tell apart.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from numpy.typing import ArrayLike
from PIL import Image

from byhand import checks
from byhand.attention import LayerStages, heads_reaching, softmax
from byhand.checks import Array, as_array, index, refuse, shape_text
from byhand.data import path
from byhand.toy import TOKENS
from byhand.words import pick, token_labels, word
from byhand.worked import number

FONT_FILE: Final = "fonts/ByHandSansSC-Regular.otf"
INK: Final = "#222222"
QUIET: Final = "#767676"
BLUE: Final = "#0072B2"  # queries, and what is scaled
ORANGE: Final = "#D55E00"  # keys, and the box round a row's maximum
GREEN: Final = "#009E73"  # values
SKY: Final = "#56B4E9"
YELLOW: Final = "#E69F00"
PURPLE: Final = "#CC79A7"
PIXELS_PER_INCH: Final = 96  # of the picture as a notebook lays it out
SHARPNESS: Final = 2  # stored pixels to one laid out, for fine screens

COLOURS: Final = {
    "scores": "PuOr_r",
    "scaled": "PuOr_r",
    "weights": "Blues",
    "context": "BrBG",
    "w_o": "PRGn",
}
_DECIMALS: Final = {"scores": 2, "scaled": 2, "weights": 3, "context": 3, "w_o": 1}


@cache
def font_family() -> str:
    """The family name of the bundled Chinese font, known to matplotlib from the first call on."""
    file = path(FONT_FILE)
    fontManager.addfont(file)
    return FontProperties(fname=file).get_name()


@contextmanager
def style() -> Iterator[None]:
    """The look of every figure, on while one is made and while it is drawn."""
    with mpl.rc_context(
        {
            # The Chinese family comes first: behind another one, Chinese beside $…$ turns to boxes.
            "font.family": [font_family(), "DejaVu Sans"],
            "font.size": 11,
            "axes.titlesize": 12,
            "axes.labelcolor": INK,
            "axes.edgecolor": QUIET,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "figure.facecolor": "white",
        }
    ):
        yield


class Picture(Figure):
    """A Figure with its content in words; `says` grows by a line for each thing drawn."""

    def __init__(self, width: float, height: float, title: str) -> None:
        """`width` and `height` in inches."""
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)  # the canvas that draws pixels, whatever backend is set
        self.says: list[str] = [title]

    def __repr__(self) -> str:
        return "\n".join(self.says)

    def draw(self, renderer: RendererBase) -> None:
        """Draw in the house style: tick labels are made only now, and need the font."""
        with style():
            super().draw(renderer)

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        width, height = (round(inches * PIXELS_PER_INCH) for inches in self.get_size_inches())
        drawn, stored = BytesIO(), BytesIO()
        quick = {"compress_level": 1}
        self.savefig(drawn, format="png", dpi=PIXELS_PER_INCH * SHARPNESS, pil_kwargs=quick)
        # A palette of 256 is enough for flat colours and a third of the size.
        Image.open(drawn).convert("RGB").quantize(256).save(stored, format="png", optimize=True)
        return stored.getvalue(), {"width": width, "height": height, "alt": repr(self)}


# ---- matrices -------------------------------------------------------------------------------------


def heatmap(
    matrix: ArrayLike,
    kind: str,
    lang: str,
    *,
    title: str,
    box_row_max: bool = False,
) -> Picture:
    """One score or weight matrix of the six tokens: rows are queries, columns are keys.

    matrix [6, 6]; `kind` is "scores", "scaled" or "weights" and sets colours and decimals; −inf is
    drawn as an empty cell. Figures 7-2 and 7-6 of the article.
    """
    return heatmaps([(title, matrix)], kind, lang, box_row_max=box_row_max)


def heatmaps(
    panels: Sequence[tuple[str, ArrayLike]],
    kind: str,
    lang: str,
    *,
    box_row_max: bool = False,
) -> Picture:
    """Several score or weight matrices side by side, (title, matrix [6, 6]) each, on one scale."""
    _at_least_one(panels)
    arrays = [(title, _square(title, matrix)) for title, matrix in panels]
    for title, array in arrays:
        if kind == "weights" and not np.all((array >= 0) & (array <= 1)):
            refuse(
                f"{title} 里有不在 0 和 1 之间的数，不是权重。",
                f"{title} holds numbers outside 0 to 1, so they are no weights.",
            )
        if np.isneginf(array).all():
            refuse(f"{title} 全被遮住了。", f"everything in {title} is masked.")
    return _matrices(
        arrays, kind, lang, token_labels(lang), ("queries", "keys"), box_row_max=box_row_max
    )


def vectors(
    panels: Sequence[tuple[str, ArrayLike]], lang: str, *, box_row_max: bool = False
) -> Picture:
    """Vectors of the six tokens, one row each: V, context or output.

    Several panels side by side, (title, matrix [6, d]) each, on one scale.
    """
    _at_least_one(panels)
    arrays = [(title, as_array(title, matrix)) for title, matrix in panels]
    checks.same("几个矩阵的宽度", "the widths of the panels", **{t: a.shape[-1] for t, a in arrays})
    for title, array in arrays:
        if array.ndim != 2 or len(array) != len(TOKENS):
            refuse(
                f"{title} 应当有 {len(TOKENS)} 行，每个词一行；给的形状是 {shape_text(array.shape)}。",
                f"{title} needs {len(TOKENS)} rows, one a token; it is {shape_text(array.shape)}.",
            )
    columns = [str(c + 1) for c in range(arrays[0][1].shape[1])]
    return _matrices(
        arrays, "context", lang, columns, ("tokens", "dimensions"), box_row_max=box_row_max
    )


def _matrices(
    panels: Sequence[tuple[str, Array]],
    kind: str,
    lang: str,
    columns: Sequence[str],
    axis_words: tuple[str, str],
    *,
    box_row_max: bool,
) -> Picture:
    """Matrices whose rows are the six tokens, side by side on one colour scale."""
    if kind not in COLOURS:
        kinds = ", ".join(COLOURS)
        refuse(
            f"kind 只能是 {kinds} 之一；给的是 {kind!r}。", f"kind is one of {kinds}, not {kind!r}."
        )
    width = 0.9 * len(columns)
    with style():
        picture = Picture(width * len(panels) + 0.5, 4.7, word(kind, lang))
        axes = picture.subplots(1, len(panels), squeeze=False)[0]
        limits = colour_scale([array for _, array in panels], kind)
        for n, (ax, (title, array)) in enumerate(zip(axes, panels, strict=True)):
            boxes = array.argmax(axis=1) if box_row_max else None
            _draw_matrix(ax, array, kind, limits, boxes)
            ax.set_xticks(range(len(columns)), columns)
            ax.set_yticks(range(len(TOKENS)), token_labels(lang) if n == 0 else [])
            ax.set_xlabel(word(axis_words[1], lang))
            if n == 0:
                ax.set_ylabel(word(axis_words[0], lang))
            ax.set_title(title)
            picture.says.append(title)
            picture.says += _rows_in_words(array, kind)
    return picture


def _at_least_one(items: Collection[object]) -> None:
    if not items:
        refuse("没有东西可画。", "there is nothing to draw.")


def at_most(items: Collection[object], most: int) -> None:
    """Refuse more curves than there are colours; a figure that left some out would be wrong."""
    _at_least_one(items)
    if len(items) > most:
        refuse(
            f"最多画 {most} 条，给了 {len(items)} 条。",
            f"at most {most} are drawn, not {len(items)}.",
        )


def colour_scale(arrays: Sequence[Array], kind: str) -> tuple[float, float]:
    """The ends of the colour scale: from 0 for weights, else even on both sides of 0."""
    finite = np.concatenate([a[np.isfinite(a)] for a in arrays])
    top = float(np.abs(finite).max()) or 1.0
    return (0.0 if kind == "weights" else -top), top


def _square(name: str, matrix: ArrayLike) -> Array:
    array = as_array(name, matrix, infinite=True)
    size = len(TOKENS)
    if array.shape != (size, size):
        refuse(
            f"这张图画 {shape_text((size, size))} 的矩阵，给的是 {shape_text(array.shape)}。",
            f"this figure draws a matrix {shape_text((size, size))}, not {shape_text(array.shape)}.",
        )
    return array


def _cell(value: float, kind: str) -> str:
    if np.isneginf(value):
        return "−∞"
    if kind in ("weights", "w_o") and value == 0:
        return "0"  # nothing at all, as opposed to a small number that prints as 0.000
    return number(value, _DECIMALS[kind])


def _rows_in_words(array: Array, kind: str) -> list[str]:
    return [
        f"{token}: " + "  ".join(_cell(x, kind) for x in row)
        for token, row in zip(TOKENS, array, strict=True)
    ]


def luminance(colour: Any) -> float:
    """How bright a colour is, from 0 (black) to 1 (white). Source: WCAG 2.1, relative luminance."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def ink_on(colour: Any) -> str:
    """White or black, whichever stands out more from that colour: by 4.5 to 1 or better."""
    bright = luminance(colour) + 0.05
    return "white" if 1.05 / bright > bright / 0.05 else "black"


def _draw_matrix(
    ax: Axes,
    array: Array,
    kind: str,
    limits: tuple[float, float],
    boxes: Array | None = None,
) -> None:
    """The numbers of a matrix on its colours; `boxes` [rows] names the column boxed in each row."""
    colours = mpl.colormaps[COLOURS[kind]]
    shown = np.ma.masked_invalid(array)
    ax.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    share = (array - limits[0]) / (limits[1] - limits[0])
    for i, row in enumerate(array):
        for j, value in enumerate(row):
            if np.isfinite(value) and _cell(value, kind) != "0":
                ink = ink_on(colours(float(share[i, j])))
            else:
                ink = QUIET
            ax.text(j, i, _cell(value, kind), ha="center", va="center", color=ink, fontsize=10.5)
        if boxes is not None:
            j = int(boxes[i])
            ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, ec=ORANGE, lw=2.2))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def who_looks(weights: ArrayLike, lang: str) -> Picture:
    """Every weight as a line from a query to a key, the widest of each query in colour.

    weights [6, 6].
    """
    array = _square("weights", weights)
    if np.any(array < 0):
        refuse("权重不会是负数。", "weights are never negative.")
    with style():
        title = pick(
            lang,
            "谁在看谁：每个查询最大的权重",
            "Who looks at whom: the largest weight of each query",
        )
        picture = Picture(7.6, 3.6, title)
        ax = picture.subplots()
        for i, row in enumerate(array):
            best = int(np.argmax(row))
            for j, w in enumerate(row):
                chosen = j == best
                ax.plot(
                    [i, j],
                    [1, 0],
                    lw=14 * w,
                    color=BLUE if chosen else "#BBBBBB",
                    alpha=0.9 if chosen else 0.45,
                    solid_capstyle="round",
                    zorder=2 if chosen else 1,
                )
            label = number(row[best], 3)
            ax.annotate(
                label,
                (i + 0.07 * (best - i), 0.93),
                ha="center",
                va="center",
                fontsize=10,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": BLUE, "lw": 0.8},
                zorder=3,
            )
            picture.says.append(f"{TOKENS[i]} → {TOKENS[best]} {label}")
        for x, token in enumerate(token_labels(lang)):
            ax.text(x, 1.09, token, ha="center", va="bottom", fontsize=12)
            ax.text(x, -0.09, token, ha="center", va="top", fontsize=12)
        ax.text(-0.75, 1.14, word("query", lang), ha="right", va="bottom", color=QUIET)
        ax.text(-0.75, -0.14, word("key", lang), ha="right", va="top", color=QUIET)
        ax.set_xlim(-1.3, 5.5)
        ax.set_ylim(-0.42, 1.42)
        ax.set_title(title)
        ax.axis("off")
    return picture


# ---- why the scores are divided by √d -----------------------------------------------------------


def dot_product_spread(samples: Mapping[int, ArrayLike], lang: str) -> Picture:
    """Histograms of dot products for several d_k, as they are and divided by √d_k.

    samples: d_k -> the dot products [n].
    """
    at_most(samples, 4)
    with style():
        title = pick(lang, "点积的分布", "How dot products spread")
        picture = Picture(9.2, 3.7, title)
        before, after = picture.subplots(1, 2)
        tints = (YELLOW, GREEN, BLUE, PURPLE)
        for (d, values), tint in zip(samples.items(), tints, strict=False):
            array = checks.row(f"samples[{d}]", values)
            scaled = array / np.sqrt(checks.whole("d_k", d))
            spread = number(float(array.std()), 1)
            narrow = number(float(scaled.std()), 2)
            before.hist(
                array, bins=80, range=(-70, 70), density=True, histtype="step", color=tint, lw=1.8,
                label=f"$d_k$ = {d}, σ = {spread}",
            )  # fmt: skip
            after.hist(
                scaled, bins=80, range=(-5, 5), density=True, histtype="step", color=tint, lw=1.8,
                label=f"$d_k$ = {d}, σ = {narrow}",
            )  # fmt: skip
            picture.says.append(f"d_k = {d}: σ = {spread}; / √d_k: σ = {narrow}")
        before.set_title(pick(lang, "除以 $\\sqrt{d_k}$ 之前", "before dividing by $\\sqrt{d_k}$"))
        after.set_title(pick(lang, "除以 $\\sqrt{d_k}$ 之后", "after dividing by $\\sqrt{d_k}$"))
        before.set_yscale("log")
        before.set_xlabel(pick(lang, "点积 $q·k$", "dot product $q·k$"))
        after.set_xlabel("$q·k/\\sqrt{d_k}$")
        for ax in (before, after):
            ax.legend(frameon=False, fontsize=9.5, loc="upper right")
        before.set_ylabel(pick(lang, "密度（左图是对数刻度）", "density (left: log scale)"))
        after.set_ylim(0, 0.66)
    return picture


def saturation(
    row: ArrayLike,
    factors: Sequence[float],
    widths: Sequence[int],
    slopes: Mapping[int, ArrayLike],
    lang: str,
) -> Picture:
    """Left: softmax of one row multiplied by growing factors. Right: how much gradient is left.

    row [6] scores; `factors` multiply it; `slopes`: number of keys -> the median largest entry of
    the softmax Jacobian for unscaled scores of each of the `widths` d_k. Figure 7-3 of the article.
    """
    scores = checks.row("row", row, len(TOKENS))
    at_most(slopes, 3)
    _at_least_one(factors)
    with style():
        title = pick(lang, "分数越大，softmax 越饱和", "Larger scores, a saturated softmax")
        picture = Picture(9.6, 3.9, title)
        left, right = picture.subplots(1, 2)
        width = 0.8 / len(factors)
        tints = mpl.colormaps["viridis"](np.linspace(0.85, 0.1, len(factors)))
        for n, (factor, tint) in enumerate(zip(factors, tints, strict=True)):
            weights = softmax(scores * factor)
            at = np.arange(scores.size) + (n - (len(factors) - 1) / 2) * width
            left.bar(at, weights, width, color=tint, label=f"× {factor:g}")
            shown = "  ".join(number(w, 3) for w in weights)
            picture.says.append(f"softmax × {factor:g}: {shown}")
        left.set_xticks(range(scores.size), token_labels(lang)[: scores.size])
        left.set_title(
            pick(
                lang,
                "同一行分数，乘上不同的倍数再做 softmax",
                "One row of scores, multiplied, then softmax",
            )
        )
        left.set_ylabel(word("weights", lang))
        left.set_ylim(0, 1.05)
        left.legend(frameon=False, title=pick(lang, "分数", "scores"))
        for (n_keys, values), tint in zip(slopes.items(), (BLUE, YELLOW, GREEN), strict=False):
            medians = checks.row(f"slopes[{n_keys}]", values, len(widths))
            name = pick(lang, f"{n_keys} 个键", f"{n_keys} keys")
            right.plot(widths, medians, "o-", color=tint, label=name, ms=4)
            shown = "  ".join(f"{m:.1e}" for m in medians)
            picture.says.append(f"{name}: {shown}")
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xticks(widths, [str(d) for d in widths])
        right.minorticks_off()
        right.set_xlabel(pick(lang, "$d_k$（分数没有缩放）", "$d_k$ (scores not scaled)"))
        right.set_title(
            pick(lang, "雅可比矩阵里最大的一项（中位数）", "Largest Jacobian entry (median)")
        )
        right.legend(frameon=False)
    return picture


# ---- the softmax, step by step ------------------------------------------------------------------


def softmax_steps(scaled: ArrayLike, lang: str) -> Picture:
    """One row through the softmax: scores, minus the maximum, exponentials, weights.

    scaled [6]. Figure 7-4 of the article.
    """
    row = checks.row("scaled", scaled, len(TOKENS))
    shifted = row - row.max()
    exps = np.exp(shifted)
    steps = [
        (pick(lang, "缩放后的分数", "scaled scores"), row, 2),
        (pick(lang, "① 减去最大值", "① minus the maximum"), shifted, 2),
        (pick(lang, "② 取指数，③ 求和", "② exponentials, ③ their sum"), exps, 4),
        (pick(lang, "④ 除以和", "④ over the sum"), softmax(row), 3),
    ]
    with style():
        title = pick(lang, "softmax 的四步，西安这一行", "The four steps of the softmax, row 西安")
        picture = Picture(9.2, 3.5, title)
        ax = picture.subplots()
        best = int(np.argmax(row))
        for y, (name, values, decimals) in enumerate(steps):
            ax.text(-0.65, y, name, ha="right", va="center", fontsize=11.5)
            reach = float(np.abs(values).max()) or 1.0
            for x, value in enumerate(values):
                strength = 0.75 * abs(float(value)) / reach
                tint = BLUE if value >= 0 else YELLOW
                ax.add_patch(Rectangle((x - 0.45, y - 0.38), 0.9, 0.76, fc=tint, alpha=strength))
                ax.add_patch(
                    Rectangle(
                        (x - 0.45, y - 0.38),
                        0.9,
                        0.76,
                        fill=False,
                        ec=ORANGE if x == best else "#CCCCCC",
                        lw=2.2 if x == best else 0.8,
                    )  # fmt: skip
                )
                ax.text(x, y, number(value, decimals), ha="center", va="center", fontsize=11.5)
            total = f"Σ = {number(float(values.sum()), decimals)}" if y >= 2 else ""
            ax.text(5.62, y, total, ha="left", va="center", color=INK)
            shown = "  ".join(number(v, decimals) for v in values)
            picture.says.append(f"{name}: {shown}  {total}".rstrip())
        for x, token in enumerate(token_labels(lang)):
            ax.text(x, -0.62, token, ha="center", va="bottom", fontsize=11.5)
        ax.set_xlim(-2.9, 6.9)
        ax.set_ylim(3.5, -1.35)
        ax.axis("off")
        ax.set_title(title)
    return picture


def with_and_without_scaling(unscaled: ArrayLike, scaled: ArrayLike, lang: str) -> Picture:
    """One row of weights, computed without and with the division by √d_head.

    unscaled [6], scaled [6]. Figure 7-5 of the article.
    """
    return _weights_compared(
        {
            pick(lang, "不缩放", "not scaled"): unscaled,
            pick(lang, "缩放后", "scaled"): scaled,
        },
        lang,
        pick(lang, "「今天」这一行的权重", "The weights of the row 今天"),
    )


def both_ways_and_causal(weights: ArrayLike, causal: ArrayLike, lang: str) -> Picture:
    """The weights without a mask and behind a causal one, side by side. [6, 6] each."""
    panels = [
        (pick(lang, "两边都看", "looking both ways"), weights),
        (pick(lang, "只看前文", "looking back only"), causal),
    ]
    return heatmaps(panels, "weights", lang, box_row_max=True)


def _weights_compared(rows: Mapping[str, ArrayLike], lang: str, title: str) -> Picture:
    """Two or three rows of weights as bars beside each other, with their numbers."""
    with style():
        picture = Picture(8.4, 3.7, title)
        ax = picture.subplots()
        width = 0.8 / len(rows)
        tints = (YELLOW, BLUE, GREEN)
        for n, ((name, values), tint) in enumerate(zip(rows.items(), tints, strict=False)):
            weights = checks.row(name, values, len(TOKENS))
            at = np.arange(weights.size) + (n - (len(rows) - 1) / 2) * width
            ax.bar(at, weights, width * 0.94, color=tint, label=name)
            for x, w in zip(at, weights, strict=True):
                ax.text(x, w + 0.012, number(w, 3), ha="center", va="bottom", fontsize=9)
            picture.says.append(f"{name}: " + "  ".join(number(w, 3) for w in weights))
        ax.set_xticks(range(len(TOKENS)), token_labels(lang))
        ax.set_ylabel(word("weights", lang))
        ax.set_ylim(0, 1.12 * max(float(np.max(as_array("w", v, ndim=1))) for v in rows.values()))
        ax.legend(frameon=False)
        ax.set_title(title)
    return picture


# ---- weighted values ----------------------------------------------------------------------------

# One colour a token, the same in every figure that tells the tokens apart by colour.
_TOKEN_TINTS: Final = (SKY, ORANGE, "#999999", YELLOW, BLUE, GREEN)


def contributions(weights: ArrayLike, v: ArrayLike, token: int, lang: str) -> Picture:
    """What each token contributes to one context vector: stacked bars that sum to the vector.

    weights [6], the row of `token`; v [6, d]. Positive shares grow upwards from 0, negative ones
    downwards, and the narrow dark bar beside them is the sum. Figure 7-7 of the article.
    """
    name = TOKENS[index("token", token, len(TOKENS))]
    title = pick(lang, f"「{name}」的上下文向量由谁拼成", f"What the context of {name} is made of")
    row = checks.row("weights", weights, len(TOKENS))
    values = checks.matrix("v", v)
    checks.same("v 的行数和词数", "the rows of v and the tokens", v=len(values), tokens=len(TOKENS))
    shares = row[:, None] * values  # [6, d]; column sums are the context
    with style():
        picture = Picture(8.6, 4.2, title)
        ax = picture.subplots()
        at = np.arange(shares.shape[1], dtype=float)
        above, below = np.zeros(at.size), np.zeros(at.size)
        for share, weight, key, tint in zip(shares, row, TOKENS, _TOKEN_TINTS, strict=True):
            bottom = np.where(share >= 0, above, below)
            label = f"{number(weight, 3)} × {key}"
            ax.bar(at, share, 0.5, bottom=bottom, color=tint, label=label, ec="white", lw=0.6)
            for x, part, start in zip(at, share, bottom, strict=True):
                if abs(part) > 0.06:  # a thinner slice has no room for its number
                    middle = start + part / 2
                    ax.text(
                        x, middle, number(part, 3), ha="center", va="center", fontsize=9,
                        color=ink_on(tint),
                    )  # fmt: skip
            above += np.maximum(share, 0)
            below += np.minimum(share, 0)
            picture.says.append(f"{label}: " + "  ".join(number(x, 3) for x in share))
        total = shares.sum(axis=0)
        for x, value in zip(at, total, strict=True):
            ax.bar(x + 0.33, value, 0.09, color=INK)
            ax.text(x + 0.4, value, number(value, 3), ha="left", va="center")
        picture.says.append("Σ: " + "  ".join(number(x, 3) for x in total))
        ax.axhline(0, color=QUIET, lw=0.8)
        ax.set_xticks(at, [pick(lang, f"第 {c + 1:.0f} 维", f"dimension {c + 1:.0f}") for c in at])
        ax.set_xlim(-0.5, at.size - 0.2)
        low, high = float(below.min()), float(above.max())
        room = 0.1 * (high - low)  # for the number on the longest bar
        ax.set_ylim(low - room, high + room)
        ax.legend(frameon=False, fontsize=9.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
        ax.set_title(title)
    return picture


# ---- heads and W_O ------------------------------------------------------------------------------


def heads_side_by_side(weights: ArrayLike, lang: str) -> Picture:
    """The weights of each head, the maximum of each row boxed. Figure 7-9 of the article.

    weights [n_heads, 6, 6].
    """
    array = as_array("weights", weights, ndim=3)
    panels = [(pick(lang, f"头 {h + 1}", f"head {h + 1}"), a) for h, a in enumerate(array)]
    return heatmaps(panels, "weights", lang, box_row_max=True)


def heads_flow(stages: LayerStages, token: int, lang: str) -> Picture:
    """The way of one token through two heads: split, attend, merge, project out, with its numbers.

    `stages` of multi_head_attention on the toy with two heads. Figure 7-8 of the article.
    """
    name = TOKENS[index("token", token, len(TOKENS))]
    n_heads, s, d_head = stages.q.shape
    tints = (BLUE, GREEN)
    if n_heads != len(tints):
        refuse(
            f"这张图画两个头，给的有 {n_heads} 个。", f"this figure draws two heads, not {n_heads}."
        )
    d_model = n_heads * d_head

    def numbers(values: Array) -> str:
        return "[" + ", ".join(number(x, 3) for x in values) + "]"

    with style():
        title = pick(lang, f"「{name}」走过两个头", f"{name} through two heads")
        picture = Picture(11.2, 3.7, title)
        ax = picture.subplots()

        def box(x: float, y: float, width: float, text: str, tint: str) -> None:
            ax.add_patch(
                FancyBboxPatch(
                    (x, y - 0.36),
                    width,
                    0.72,
                    boxstyle="round,pad=0,rounding_size=0.08",
                    fc=tint if tint == "#F4F6F8" else to_rgba(tint, 0.13),
                    ec=INK,
                    lw=1,
                )  # fmt: skip
            )
            ax.text(x + width / 2, y, text, ha="center", va="center", fontsize=10, linespacing=1.5)

        def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
            ax.add_patch(
                FancyArrowPatch(
                    start,
                    end,
                    arrowstyle="-|>",
                    mutation_scale=10,
                    color=INK,
                    lw=1,
                    shrinkA=2,
                    shrinkB=2,
                )  # fmt: skip
            )

        plain = "#F4F6F8"
        box(0, 1, 1.1, f"X\n[{s}, {d_model}]", plain)
        box(1.6, 1, 1.5, f"Q, K, V\n[{s}, {d_model}]", plain)
        arrow((1.1, 1), (1.6, 1))
        for h, tint in enumerate(tints):
            y = 1.75 - 1.5 * h
            columns = f"{h * d_head + 1}–{(h + 1) * d_head}"
            part = pick(lang, f"头 {h + 1}：第 {columns} 列", f"head {h + 1}: columns {columns}")
            box(3.6, y, 2.05, f"{part}\n[{s}, {d_head}]", tint)
            context = numbers(stages.context[h, token])
            box(6.0, y, 1.75, f"$A_{h + 1} V_{h + 1}$\n{context}", tint)
            arrow((3.1, 1), (3.6, y))
            arrow((5.65, y), (6.0, y))
            arrow((7.75, y), (8.25, 1))
            picture.says.append(f"{part}: {context}")
        merged, output = numbers(stages.merged[token]), numbers(stages.output[token])
        merge_word = pick(lang, "并排", "merge")
        box(8.25, 1, 2.85, f"{merge_word}\n{merged}", plain)
        box(11.6, 1, 2.85, f"$\\times\\,W_O$\n{output}", plain)
        arrow((11.1, 1), (11.6, 1))
        picture.says += [f"{merge_word}: {merged}", f"W_O: {output}"]
        ax.set_xlim(-0.1, 14.6)
        ax.set_ylim(-0.3, 2.3)
        ax.axis("off")
        ax.set_title(title)
    return picture


def mixing(choices: Mapping[str, ArrayLike], n_heads: int, lang: str) -> Picture:
    """Several W_O beside each other, and below each output which heads reach it.

    choices: a word of the glossary -> W_O [n_heads·d_head, d_out]; rows are what comes in, head by
    head.
    """
    with style():
        title = word("w_o", lang)
        picture = Picture(2.9 * len(choices) + 0.9, 3.5, title)
        axes = picture.subplots(1, len(choices), squeeze=False)[0]
        arrays = {word(key, lang): as_array(key, w_o) for key, w_o in choices.items()}
        limits = colour_scale(list(arrays.values()), "w_o")
        for n, (ax, (name, array)) in enumerate(zip(axes, arrays.items(), strict=True)):
            d_head = len(array) // n_heads
            _draw_matrix(ax, array, "w_o", limits)
            for h in range(1, n_heads):
                ax.axhline(h * d_head - 0.5, color=INK, lw=1.6)
            reached = [
                "+".join(str(h + 1) for h in np.flatnonzero(column)) or "—"
                for column in heads_reaching(array, n_heads).T
            ]
            ax.set_xticks(range(array.shape[1]), reached)
            rows = [
                pick(lang, f"头 {r // d_head + 1}", f"head {r // d_head + 1}")
                + f" · {r % d_head + 1}"
                for r in range(len(array))
            ]
            ax.set_yticks(range(len(array)), rows if n == 0 else [])
            ax.set_title(name)
            picture.says.append(f"{name}: {' '.join(reached)}")
            picture.says += ["  ".join(_cell(x, "w_o") for x in row) for row in array]
        picture.supxlabel(
            pick(lang, "每个输出里有哪些头", "which heads each output holds"), fontsize=11
        )
    return picture


def jacobians(by_attention: ArrayLike, by_w_o: ArrayLike, lang: str) -> Picture:
    """What depends on what: from X to the merged heads, and through W_O.

    Two Jacobians [6·d, 6·d], rows what comes out, columns what goes in; each block of lines is one
    token, dark where it depends.
    """
    panels = [
        (pick(lang, "注意力：从 X 到并头", "attention: from X to the merged heads"), by_attention),
        (pick(lang, "输出投影 $W_O$", "output projection $W_O$"), by_w_o),
    ]
    with style():
        title = pick(lang, "谁影响谁", "What depends on what")
        picture = Picture(4.6 * len(panels) + 0.6, 4.7, title)
        axes = picture.subplots(1, len(panels), squeeze=False)[0]
        size = len(TOKENS)
        for n, (ax, (name, matrix)) in enumerate(zip(axes, panels, strict=True)):
            array = np.abs(as_array(name, matrix))
            d = array.shape[0] // size
            ax.imshow(array, cmap="Blues", vmin=0, vmax=float(array.max()) or 1.0)
            for k in range(1, size):
                ax.axhline(k * d - 0.5, color="#BBBBBB", lw=0.8)
                ax.axvline(k * d - 0.5, color="#BBBBBB", lw=0.8)
            middles = np.arange(size) * d + (d - 1) / 2
            ax.set_xticks(middles, TOKENS)
            ax.set_yticks(middles, TOKENS if n == 0 else [])
            ax.tick_params(length=0)
            ax.set_xlabel(pick(lang, "改了谁（列）", "what was changed (columns)"))
            if n == 0:
                ax.set_ylabel(pick(lang, "谁跟着变（行）", "what moves (rows)"))
            ax.set_title(name)
            blocks = array.reshape(size, d, size, d).max(axis=(1, 3))  # [6, 6]
            picture.says.append(name)
            picture.says += [
                f"{token}: " + "  ".join(number(x, 2) for x in row)
                for token, row in zip(TOKENS, blocks, strict=True)
            ]
    return picture


# ---- the map ------------------------------------------------------------------------------------


def overview(lang: str) -> Picture:
    """The whole way from X to the output, with the two ways of counting four steps.

    Figure 7-1 of the article, laid over the steps QKV, RoPE, masked softmax, out projection.
    """
    steps: list[tuple[str, str, str, str]] = [
        # what happens, its formula, shape in the toy, notebook
        (pick(lang, "投影", "project"), "$Q, K, V$", "[6, 4]", "01"),
        (pick(lang, "旋转", "rotate"), "RoPE", "—", "06"),
        (pick(lang, "打分", "score"), "$Q K^{T}$", "[6, 6]", "01"),
        (pick(lang, "缩放", "scale"), r"$/\,\sqrt{d_{head}}$", "[6, 6]", "01"),
        (pick(lang, "遮住未来", "mask"), "$+\\,M$", "[6, 6]", "02"),
        ("softmax", "$A$", "[6, 6]", "02"),
        (pick(lang, "加权取值", "weigh"), "$A V$", "[6, 4]", "03"),
        (pick(lang, "输出投影", "project out"), "$W_O$", "[6, 4]", "04"),
    ]
    ways = [
        (
            pick(lang, "注意力公式的四步", "four steps of the formula"),
            BLUE,
            [
                (2, 2, pick(lang, "① 打分", "① score")),
                (3, 3, pick(lang, "② 缩放", "② scale")),
                (5, 5, "③ softmax"),
                (6, 6, pick(lang, "④ 加权取值", "④ weigh")),
            ],
        ),
        (
            pick(lang, "一层注意力的四步", "four steps of the layer"),
            GREEN,
            [
                (0, 0, pick(lang, "① QKV 投影", "① QKV")),
                (1, 1, "② RoPE"),
                (
                    2,
                    6,
                    pick(
                        lang,
                        "③ 带遮罩的 softmax（连同加权取值）",
                        "③ masked softmax (with the weighing)",
                    ),
                ),
                (7, 7, pick(lang, "④ 输出投影", "④ out projection")),
            ],
        ),
    ]
    with style():
        title = pick(lang, "从 X 到输出", "From X to the output")
        picture = Picture(11.4, 4.1, title)
        ax = picture.subplots()
        for x, (name, formula, shape, notebook) in enumerate(steps):
            dashed = notebook == "06"
            ax.add_patch(
                FancyBboxPatch(
                    (x - 0.43, 2.0),
                    0.86,
                    1.25,
                    boxstyle="round,pad=0,rounding_size=0.08",
                    fc="#F4F6F8",
                    ec=QUIET if dashed else INK,
                    lw=1.1,
                    ls="--" if dashed else "-",
                )  # fmt: skip
            )
            ax.text(x, 3.02, name, ha="center", va="center", fontsize=11.5)
            ax.text(x, 2.62, formula, ha="center", va="center", fontsize=11)
            ax.text(x, 2.22, shape, ha="center", va="center", fontsize=9.5, color=QUIET)
            ax.text(x, 3.5, notebook, ha="center", va="center", fontsize=10, color=ORANGE)
            if x:
                ax.add_patch(
                    FancyArrowPatch(
                        (x - 0.58, 2.62),
                        (x - 0.42, 2.62),
                        arrowstyle="-|>",
                        mutation_scale=9,
                        color=INK,
                        lw=1,
                    )  # fmt: skip
                )
            picture.says.append(f"{notebook} {name} {shape}")
        ax.text(
            -0.62,
            3.5,
            pick(lang, "笔记本", "notebook"),
            ha="right",
            va="center",
            color=ORANGE,
            fontsize=10,
        )
        ax.text(-0.62, 2.62, "X\n[6, 4]", ha="right", va="center", fontsize=11)
        for row, (name, tint, parts) in enumerate(ways):
            y = 1.45 - 0.72 * row
            ax.text(
                -0.62,
                y,
                name.replace(" of ", "\nof "),
                ha="right",
                va="center",
                color=tint,
                fontsize=10,
            )
            for first, last, label in parts:
                ax.plot([first - 0.43, first - 0.43, last + 0.43, last + 0.43],
                        [y + 0.33, y + 0.24, y + 0.24, y + 0.33], color=tint, lw=1.6)  # fmt: skip
                ax.text(
                    (first + last) / 2, y, label, ha="center", va="center", color=tint, fontsize=10
                )
            picture.says.append(f"{name}: " + "  ".join(label for _, _, label in parts))
        ax.set_xlim(-2.1, 7.6)
        ax.set_ylim(0.45, 3.75)
        ax.axis("off")
    return picture

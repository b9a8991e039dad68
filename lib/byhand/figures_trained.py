"""The figures of a trained model: all its heads at once, one head, what each writes.

Arrays in, a Picture out, as in `figures`.
"""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from byhand.checks import as_array, refuse, row, same, shape_text
from byhand.figures import BLUE, ORANGE, QUIET, YELLOW, Picture, ink_on, style
from byhand.words import pick, word
from byhand.worked import number


def all_heads(attention: ArrayLike, lang: str) -> Picture:
    """Every head of a model as a small map: a row of maps is a layer, a column a head.

    attention [n_layers, n_heads, S, S].
    """
    array = as_array("attention", attention, ndim=4)
    if array.ndim != 4 or array.shape[2] != array.shape[3]:
        refuse(
            f"要 [层, 头, 词, 词] 的权重；给的形状是 {shape_text(array.shape)}。",
            f"weights [layer, head, token, token] are wanted; the shape is {shape_text(array.shape)}.",
        )
    n_layers, n_heads, size, _ = array.shape
    title = pick(
        lang,
        f"{n_layers * n_heads} 个头：一排是一层，一列是一个头",
        f"{n_layers * n_heads} heads: a row is a layer, a column is a head",
    )
    gap = 2  # empty cells between two maps
    step = size + gap
    wall = np.full((n_layers * step - gap, n_heads * step - gap), np.nan)
    with style():
        picture = Picture(8.6, 8.2, title)
        ax = picture.subplots()
        for y in range(n_layers):
            best = []
            for x in range(n_heads):
                wall[y * step : y * step + size, x * step : x * step + size] = array[y, x]
                query, key = np.unravel_index(array[y, x].argmax(), (size, size))
                best.append(f"{query}→{key} {number(array[y, x, query, key], 2)}")
            picture.says.append(pick(lang, f"第 {y} 层", f"layer {y}") + ": " + "  ".join(best))
        colours = mpl.colormaps["Blues"].with_extremes(bad="white")
        drawn = ax.imshow(np.ma.masked_invalid(wall), cmap=colours, vmin=0, vmax=1)
        for y in range(n_layers):
            for x in range(n_heads):
                corner = (x * step - 0.5, y * step - 0.5)
                ax.add_patch(Rectangle(corner, size, size, fill=False, ec="#BBBBBB", lw=0.5))
        middle = (size - 1) / 2
        ax.set_xticks([x * step + middle for x in range(n_heads)], [str(x) for x in range(n_heads)])
        ax.set_yticks(
            [y * step + middle for y in range(n_layers)], [str(y) for y in range(n_layers)]
        )
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel(
            pick(
                lang,
                "头；每张小图里行是查询，列是键",
                "head; in each map rows are queries, columns keys",
            )
        )
        ax.set_ylabel(pick(lang, "层", "layer"))
        picture.colorbar(drawn, ax=ax, shrink=0.5, label=word("weights", lang))
        ax.set_title(title)
    return picture


def one_head(weights: ArrayLike, tokens: Sequence[str], title: str, lang: str) -> Picture:
    """The weights of one head with their numbers, the maximum of each row boxed.

    weights [S, S], S tokens.
    """
    array = as_array("weights", weights)
    same("词数和权重的行数、列数", "the tokens and the rows and columns of the weights",
         tokens=len(tokens), rows=array.shape[0], columns=array.shape[1])  # fmt: skip
    return _numbers(
        array, tokens, tokens, (word("queries", lang), word("keys", lang)), title, boxes=True
    )


def head_writes(lengths: ArrayLike, tokens: Sequence[str], lang: str) -> Picture:
    """How long a vector each head writes for each token. lengths [n_heads, S], S tokens."""
    array = as_array("lengths", lengths)
    same("词数和列数", "the tokens and the columns", tokens=len(tokens), columns=array.shape[1])
    title = pick(lang, "每个头写进输出的长度", "The length of what each head writes")
    heads = [str(h) for h in range(len(array))]
    axes = (pick(lang, "头", "head"), pick(lang, "词", "token"))
    return _numbers(array, heads, tokens, axes, title, boxes=False)


def _numbers(
    array: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    axes: tuple[str, str],
    title: str,
    *,
    boxes: bool,
) -> Picture:
    with style():
        picture = Picture(0.72 * len(columns) + 1.6, 0.46 * len(rows) + 1.2, title)
        ax = picture.subplots()
        top = float(array.max())
        tints = ax.imshow(array, cmap="Blues", vmin=0, vmax=max(top, 1e-9), aspect="auto")
        for i, values in enumerate(array):
            for j, value in enumerate(values):
                ink = ink_on(tints.to_rgba(value))
                ax.text(j, i, number(value, 2), ha="center", va="center", color=ink, fontsize=10)
            if boxes:
                corner = (int(values.argmax()) - 0.46, i - 0.46)
                ax.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, ec=ORANGE, lw=2))
            told = "  ".join(number(v, 2) for v in values)
            picture.says.append(f"{rows[i]}: {told}")
        ax.set_xticks(range(len(columns)), columns)
        ax.set_yticks(range(len(rows)), rows)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_ylabel(axes[0])
        ax.set_xlabel(axes[1])
        ax.set_title(title)
    return picture


def knock_out(one_out: ArrayLike, only_one: ArrayLike, lang: str) -> Picture:
    """How far a layer's output moves, as a share, with one head removed or one head left.

    one_out, only_one [n_heads].
    """
    out = row("one_out", one_out)
    only = row("only_one", only_one, out.size)
    title = pick(
        lang, "输出动了多少（占自己长度的比例）", "How far the output moves (share of its length)"
    )
    with style():
        picture = Picture(8.6, 3.4, title)
        ax = picture.subplots()
        x = np.arange(out.size)
        for shift, values, colour, label in (
            (-0.2, out, BLUE, pick(lang, "去掉这个头", "this head removed")),
            (0.2, only, YELLOW, pick(lang, "只留这个头", "only this head left")),
        ):
            ax.bar(x + shift, values, width=0.38, color=colour, label=label)
            for at, value in zip(x, values, strict=True):
                ax.text(
                    at + shift,
                    value + 0.01,
                    number(value, 2),
                    ha="center",
                    va="bottom",
                    fontsize=7.5,
                )
            picture.says.append(f"{label}: " + "  ".join(number(v, 2) for v in values))
        ax.axhline(1, color=QUIET, lw=0.8, ls="--")
        ax.set_xticks(x, [str(h) for h in x])
        ax.set_xlabel(pick(lang, "头", "head"))
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        ax.set_title(title)
    return picture

"""The figures of the real layer: heads that share keys, turning pairs, sizes and costs.

Arrays in, a Picture out, as in `figures`.
"""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike

from byhand.checks import as_array, refuse, row, shape_text, whole
from byhand.figures import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    QUIET,
    SKY,
    YELLOW,
    Picture,
    at_most,
    ink_on,
    style,
)
from byhand.models import Model, output_width
from byhand.qwen import refuse_uneven
from byhand.toy import TOKENS
from byhand.words import pick
from byhand.worked import number

_CURVES = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
TINTS = ("#CFE4F3", "#F7DCC9", "#CBEBDF", "#F1DDE8")  # of the K/V heads, in turn


def shared_heads(n_heads: int, n_kv_heads: int, lang: str) -> Picture:
    """Which query heads share which K/V head, as lines between two rows of boxes."""
    whole("n_heads", n_heads), whole("n_kv_heads", n_kv_heads)
    refuse_uneven(n_heads, n_kv_heads)
    group = n_heads // n_kv_heads
    title = pick(lang, "哪些查询头合用一个键值头", "Which query heads share a K/V head")
    with style():
        picture = Picture(9.6, 2.5, title)
        ax = picture.subplots()
        for h in range(n_kv_heads):
            first, last = h * group, (h + 1) * group - 1
            middle, tint = (first + last) / 2, TINTS[h % len(TINTS)]
            for q in range(first, last + 1):
                ax.plot([q, middle], [1, 0.28], color=QUIET, lw=0.8, zorder=1)
                ax.add_patch(Rectangle((q - 0.42, 0.86), 0.84, 0.28, fc=tint, ec=INK, lw=0.8))
                ax.text(q, 1, f"{q}", ha="center", va="center", fontsize=9.5)
            ax.add_patch(Rectangle((middle - 1.1, 0), 2.2, 0.28, fc=tint, ec=INK, lw=0.8))
            ax.text(middle, 0.14, f"K, V {h}", ha="center", va="center", fontsize=10.5)
            picture.says.append(
                pick(
                    lang,
                    f"查询头 {first}–{last} → 键值头 {h}",
                    f"query heads {first}–{last} → K/V head {h}",
                )
            )
        ax.text(-0.8, 1, pick(lang, "查询头", "query heads"), ha="right", va="center")
        ax.text(-0.8, 0.14, pick(lang, "键值头", "K/V heads"), ha="right", va="center")
        ax.set_xlim(-3.6, n_heads)
        ax.set_ylim(-0.08, 1.22)
        ax.axis("off")
        ax.set_title(title)
    return picture


def turning(pair: ArrayLike, angles: ArrayLike, lang: str) -> Picture:
    """Left: one pair (a, b) of a query at the first positions. Right: the angle of every pair.

    pair [2], the numbers before the rotation; angles [S, d_head/2] in radians, whose first column
    turns that pair; the right side draws their cosine.
    """
    a, b = row("pair", pair, 2)
    turn = as_array("angles", angles)
    positions, n_pairs = turn.shape
    shown = min(positions, len(TOKENS))
    title = pick(lang, "旋转", "Turning")
    with style():
        picture = Picture(9.6, 4.2, title)
        left, right = picture.subplots(1, 2, width_ratios=(1, 1.25))
        radius = float(np.hypot(a, b))
        left.add_patch(Circle((0, 0), radius, fill=False, ec="#BBBBBB", lw=1))
        left.set_title(pick(lang, "第 0 对，头几个位置", "pair 0 at the first positions"))
        for p in range(shown):
            cos, sin = np.cos(turn[p, 0]), np.sin(turn[p, 0])
            x, y = a * cos - b * sin, b * cos + a * sin
            left.annotate(
                "", (x, y), (0, 0),
                arrowprops={"arrowstyle": "-|>", "color": BLUE, "lw": 1.4, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
            left.text(1.17 * x, 1.17 * y, f"{p}", ha="center", va="center", fontsize=10.5)
            picture.says.append(
                pick(lang, f"位置 {p}", f"position {p}") + f": {number(x, 3)}  {number(y, 3)}"
            )
        reach = 1.35 * radius
        left.set_xlim(-reach, reach)
        left.set_ylim(-reach, reach)
        left.set_aspect("equal")
        left.axhline(0, color="#DDDDDD", lw=0.8, zorder=0)
        left.axvline(0, color="#DDDDDD", lw=0.8, zorder=0)
        left.set_xlabel(pick(lang, "这一对的第一个数", "first number of the pair"))
        left.set_ylabel(pick(lang, "第二个数", "second number"))
        drawn = right.imshow(
            np.cos(turn), cmap="BrBG", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
        )
        right.set_title(pick(lang, "每一对转了多少", "how far every pair has turned"))
        right.set_xlabel(pick(lang, "对", "pair"))
        right.set_ylabel(pick(lang, "位置", "position"))
        picture.colorbar(
            drawn, ax=right, shrink=0.9, label=pick(lang, "角度的余弦", "cosine of the angle")
        )
        last = positions - 1
        for i in sorted({0, n_pairs // 4, n_pairs // 2, n_pairs - 1}):
            says = pick(
                lang, f"第 {i} 对在位置 {last} 转了", f"pair {i} at position {last} has turned by"
            )
            picture.says.append(f"{says} {turn[last, i]:.3g}")
    return picture


def score_by_distance(distances: ArrayLike, scores: Mapping[str, ArrayLike], lang: str) -> Picture:
    """One query and one key, their score over the distance of their positions.

    distances [n]; scores: a label -> [n], curves drawn over each other.
    """
    x = row("distances", distances)
    at_most(scores, len(_CURVES))
    title = pick(lang, "位置之中，只有距离算数", "Of the two positions, only the distance counts")
    with style():
        picture = Picture(9.0, 3.4, title)
        ax = picture.subplots()
        for n, (label, values) in enumerate(scores.items()):
            y = row(label, values, x.size)
            ax.plot(
                x, y, color=_CURVES[n], label=label, zorder=n,
                lw=6 - 2 * n if n < 2 else 1.6, alpha=0.5 if n == 0 else 1.0,
                ls="-" if n < 2 else "--",
            )  # fmt: skip
            at = [0, x.size // 4, x.size // 2, x.size - 1]
            told = "  ".join(f"{x[i]:g}: {number(y[i], 2)}" for i in at)
            picture.says.append(f"{label}: {told}")
        ax.set_xlabel(
            pick(lang, "距离（查询的位置减键的位置）", "distance (query's position minus key's)")
        )
        ax.set_ylabel(pick(lang, "分数", "score"))
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
        ax.set_title(title)
    return picture


def heads_grid(weights: ArrayLike, n_kv_heads: int, lang: str) -> Picture:
    """The weights of every head as small maps; one row of maps for each K/V head.

    weights [n_heads, S, S]; what a causal mask hides is grey.
    """
    array = as_array("weights", weights, ndim=3)
    n_heads, size = array.shape[0], array.shape[-1]
    if array.shape != (n_heads, size, size) or n_heads % whole("n_kv_heads", n_kv_heads):
        refuse(
            f"要 [头, 词, 词] 的权重，头数要是 {n_kv_heads} 的倍数；给的是 {shape_text(array.shape)}。",
            f"weights [head, token, token] are wanted, the heads a multiple of {n_kv_heads}; "
            f"the shape is {shape_text(array.shape)}.",
        )
    group = n_heads // n_kv_heads
    title = pick(
        lang,
        f"{n_heads} 个头的权重：同一排的头合用一个键值头",
        f"The weights of {n_heads} heads: heads in one row share a K/V head",
    )
    colours = mpl.colormaps["Blues"].with_extremes(bad="#DDDDDD")
    later = np.triu(np.ones((size, size), dtype=bool), 1)
    with style():
        picture = Picture(1.25 * group + 1.4, 1.35 * n_kv_heads + 0.6, title)
        axes = picture.subplots(n_kv_heads, group, squeeze=False)
        for h, ax in enumerate(axes.flat):
            hidden = later & (array[h] == 0)
            drawn = ax.imshow(np.ma.masked_array(array[h], hidden), cmap=colours, vmin=0, vmax=1)
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[:].set_visible(True)
            ax.set_title(pick(lang, f"头 {h}", f"head {h}"), fontsize=9, pad=3)
            last = "  ".join(number(w, 2) for w in array[h, -1])
            picture.says.append(
                pick(lang, f"头 {h}，最后一行", f"head {h}, last row") + f": {last}"
            )
        for n, ax in enumerate(axes[:, 0]):
            ax.set_ylabel(f"K, V {n}", fontsize=10)
        picture.colorbar(drawn, ax=axes, shrink=0.6, label=pick(lang, "权重", "weight"))
        picture.supxlabel(
            pick(
                lang,
                "每张图：行是查询，列是键；灰色是遮住的",
                "each map: rows are queries, columns are keys; grey is masked",
            ),
            fontsize=10,
        )
        picture.suptitle(title, fontsize=12)
    return picture


def parameter_bars(
    counts: Mapping[str, int], groups: Mapping[str, Sequence[str]], lang: str
) -> Picture:
    """Parameters by matrix as stacked bars, one bar a group, in millions."""
    title = pick(lang, "一层的参数（百万）", "Parameters of one layer (millions)")
    with style():
        picture = Picture(9.6, 2.6, title)
        ax = picture.subplots()
        for y, (group, names) in enumerate(groups.items()):
            left = 0.0
            shades = _CURVES if y == 0 else ("#5A5A5A", "#6E6E6E", "#828282")
            for n, name in enumerate(names):
                size = counts[name] / 1e6
                shade = shades[n % len(shades)]
                ax.barh(y, size, left=left, color=shade, ec="white", height=0.62)
                narrow = size < 0.02 * sum(counts.values()) / 1e6
                ax.text(
                    left + size / 2, y - 0.36 if narrow else y, f"{name}\n{size:.1f}", ha="center",
                    va="bottom" if narrow else "center", color=INK if narrow else ink_on(shade),
                    fontsize=8 if narrow else 10, linespacing=1.2,
                )  # fmt: skip
                left += size
                picture.says.append(f"{group} {name}: {size:.1f}")
            ax.text(left + 2, y, f"{left:.1f}", va="center", fontsize=11)
            picture.says.append(f"{group}: {left:.1f}")
        ax.set_yticks(range(len(groups)), list(groups))
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        ax.margins(x=0.08)
        ax.set_title(title)
    return picture


def _one_line_each(ax: Axes, models: Sequence[Model]) -> None:
    """The names of models down the side, the first on top, and a legend in the free corner."""
    ax.legend(frameon=False, loc="lower right")
    ax.set_yticks(range(len(models)), [m.name for m in models])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)


def output_projections(models: Sequence[Model], lang: str) -> Picture:
    """What enters W_O and what leaves it, two bars a model, in other colours where they differ."""
    title = pick(
        lang, "各家的 $W_O$：进来多宽，出去多宽", "$W_O$ of several models: width in, width out"
    )
    with style():
        picture = Picture(9.2, 0.4 * len(models) + 1.1, title)
        ax = picture.subplots()
        for y, m in enumerate(models):
            n_in, n_out = output_width(m), m.d_model
            square = n_in == n_out
            ax.barh(y - 0.19, n_in, height=0.36, color=SKY if square else ORANGE)
            ax.barh(y + 0.19, n_out, height=0.36, color=SKY if square else YELLOW)
            ax.text(max(n_in, n_out) + 150, y, f"{n_in} → {n_out}", va="center", fontsize=9.5)
            kind = pick(lang, "方", "square") if square else pick(lang, "不方", "not square")
            picture.says.append(f"{m.name}: {n_in} → {n_out} ({kind})")
        ax.barh(0, 0, color=SKY, label=pick(lang, "方：进出一样宽", "square: in and out alike"))
        ax.barh(
            0,
            0,
            color=ORANGE,
            label=pick(lang, "不方：进来（头数 × 值的宽度）", "in (heads × width of a value)"),
        )
        ax.barh(0, 0, color=YELLOW, label=pick(lang, "不方：出去（d_model）", "out (d_model)"))
        _one_line_each(ax, models)
        ax.margins(x=0.12)
        ax.set_title(title)
    return picture


def heads_of_models(models: Sequence[Model], lang: str) -> Picture:
    """Query heads and K/V heads of several models as bars, with the width of a head beside them.

    Figure 7-10 of the article, corrected.
    """
    title = pick(lang, "查询头和键值头（图 7-10）", "Query heads and K/V heads (figure 7-10)")
    with style():
        picture = Picture(9.2, 0.42 * len(models) + 1.1, title)
        ax = picture.subplots()
        for y, m in enumerate(models):
            ax.barh(y - 0.19, m.n_heads, height=0.36, color=BLUE)
            kv = pick(lang, "压缩", "compressed") if m.compressed else f"{m.n_kv_heads}"
            n_kv = 0 if m.compressed else m.n_kv_heads
            ax.barh(y + 0.19, n_kv, height=0.36, color=YELLOW)
            width = f"{m.d_head}"
            if m.d_head != m.d_value:
                width += pick(lang, f"（值 {m.d_value}）", f" (values {m.d_value})")
            ax.text(m.n_heads + 1.2, y - 0.19, f"{m.n_heads} × {width}", va="center", fontsize=9.5)
            ax.text(n_kv + 1.2, y + 0.19, kv, va="center", fontsize=9.5, color=QUIET)
            picture.says.append(f"{m.name}: {m.n_heads} × {width}, K/V {kv}")
        ax.barh(0, 0, color=BLUE, label=pick(lang, "查询头 × 宽度", "query heads × width"))
        ax.barh(0, 0, color=YELLOW, label=pick(lang, "键值头", "K/V heads"))
        _one_line_each(ax, models)
        ax.margins(x=0.14)
        ax.set_xlabel(pick(lang, "头的个数", "heads"))
        ax.set_title(title)
    return picture


# ---- cost -----------------------------------------------------------------------------------------


def growth(
    lengths: ArrayLike,
    predicted: Mapping[str, ArrayLike],
    measured: Mapping[str, ArrayLike],
    lang: str,
) -> Picture:
    """How each step grows with the number of tokens: lines from the count, dots from the clock.

    lengths [n]; predicted and measured: a step -> [n]. Each curve is divided by its own value at
    the longest length, so that shapes are compared and not seconds. The text tells the predicted
    numbers only: measured ones differ from run to run.
    """
    x = row("lengths", lengths)
    at_most(predicted, len(_CURVES))
    title = pick(
        lang,
        "每一步怎样随词数增长（最长时记作 1）",
        "How each step grows with the tokens (1 at the longest)",
    )
    with style():
        picture = Picture(3.1 * len(predicted), 3.3, title)
        axes = np.atleast_1d(picture.subplots(1, len(predicted), sharey=True))
        for n, (ax, (step, values)) in enumerate(zip(axes, predicted.items(), strict=True)):
            y = row(step, values, x.size)
            clock = row(step, measured[step], x.size)
            ax.plot(x, y / y[-1], color=_CURVES[n], lw=2)
            ax.plot(x, clock / clock[-1], "o", mfc="white", mec=INK, ms=6)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log", base=2)
            ax.set_yticks(
                [2.0**-i for i in range(8)], [f"1/{2**i}" if i else "1" for i in range(8)]
            )
            ax.set_xticks(x, [f"{v:g}" for v in x])
            ax.minorticks_off()
            ax.set_title(step)
            ax.set_xlabel(pick(lang, "词数 S", "tokens S"))
            picture.says.append(f"{step}: " + "  ".join(f"{v:.4f}" for v in y / y[-1]))
        axes[0].set_ylabel(
            pick(
                lang,
                "和最长时之比\n线：预测  圈：量到的",
                "share of the longest\nline: predicted  circle: measured",
            )
        )
    return picture


def tiles(n: int, block: int, lang: str) -> Picture:
    """The n × n scores cut into blocks: computed, computed and half masked, never touched."""
    whole("n", n), whole("block", block)
    count = -(-n // block)
    title = pick(lang, f"{n} × {n} 个分数，每块 {block}", f"{n} × {n} scores in blocks of {block}")
    kinds = {
        "computed": (BLUE, pick(lang, "要算", "computed")),
        "diagonal": (SKY, pick(lang, "要算，遮住一部分", "computed, partly masked")),
        "never": ("#EEEEEE", pick(lang, "不碰", "never touched")),
    }
    found = dict.fromkeys(kinds, 0)
    with style():
        picture = Picture(6.8, 3.9, title)
        ax = picture.subplots()
        for i in range(count):
            for j in range(count):
                kind = "computed" if j < i else "diagonal" if j == i else "never"
                found[kind] += 1
                height, width = min(block, n - i * block), min(block, n - j * block)
                ax.add_patch(
                    Rectangle((j * block, i * block), width, height, fc=kinds[kind][0], ec="white")
                )
        for kind, (colour, label) in kinds.items():
            ax.add_patch(Rectangle((0, 0), 0, 0, fc=colour, label=f"{label}: {found[kind]}"))
            picture.says.append(f"{label}: {found[kind]}")
        ax.set_xlim(0, n)
        ax.set_ylim(n, 0)
        marks = range(0, n + 1, block * max(1, count // 4))
        ax.set_xticks(marks)
        ax.set_yticks(marks)
        ax.set_aspect("equal")
        ax.set_xlabel(pick(lang, "键（列）", "keys (columns)"))
        ax.set_ylabel(pick(lang, "查询（行）", "queries (rows)"))
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
        ax.set_title(title)
    return picture


def cache_growth(lengths: ArrayLike, gigabytes: Mapping[str, ArrayLike], lang: str) -> Picture:
    """The K/V cache of several models over the number of tokens, in GB. lengths [n], each [n]."""
    x = row("lengths", lengths)
    at_most(gigabytes, len(_CURVES))
    title = pick(lang, "K/V 缓存（GB，每个数 2 字节）", "K/V cache (GB, 2 bytes a number)")
    with style():
        picture = Picture(8.4, 3.8, title)
        ax = picture.subplots()
        for n, (name, values) in enumerate(gigabytes.items()):
            y = row(name, values, x.size)
            ax.plot(x, y, color=_CURVES[n], lw=2)
            ax.annotate(
                f"{name}  {y[-1]:.3g}", (x[-1], y[-1]), (6, 0), textcoords="offset points",
                va="center", fontsize=10, color=_CURVES[n],
            )  # fmt: skip
            picture.says.append(f"{name}: " + "  ".join(f"{v:.3g}" for v in y))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(x, [f"{v / 1024:g}k" for v in x])
        ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.minorticks_off()
        ax.set_xlabel(pick(lang, "词数", "tokens"))
        ax.margins(x=0.03)
        ax.set_title(title)
    return picture

"""03: one entry of the context as a sum of products, and what follows when one weight is changed."""

from functools import cache, partial
from typing import Final, Literal

from numpy.typing import ArrayLike

from byhand import svg, toy, worked
from byhand.attention import attention, project, weigh
from byhand.checks import Array, index, refuse, row
from byhand.explorer import Explorer, View, fractions, frozen, slider, stops
from byhand.figures import colour_scale
from byhand.toy import TOKENS
from byhand.words import pick, places, quoted
from byhand.worked import number

COMPUTED: Final[Literal["computed"]] = "computed"  # the weight as the softmax gave it
STEPS: Final = 20  # of the weight, from 0 to 1
XIAN: Final = TOKENS.index("西安")
WIDTH: Final = 834  # of the drawing, whatever it shows
CELL: Final = (45, 27)


@cache
def computed() -> tuple[Array, Array]:
    """The weights of the toy, without a mask [6, 6], and its values [6, 4]."""
    t = toy.load()
    v = project(t.X, t.W_V)
    weights = attention(project(t.X, t.W_Q), project(t.X, t.W_K), v).weights
    return frozen(weights), frozen(v)


def with_weight(weights: ArrayLike, key: int, weight: float) -> Array:
    """One row of weights in which that key has that weight and the others share the rest.

    weights [n]; the others keep their proportions, so the row sums to 1 again. ValueError for a
    weight outside 0 to 1, and where the others are all 0: they have no proportions to keep.
    """
    changed = row("weights", weights).copy()
    key = index("key", key, changed.size)
    if not 0 <= weight <= 1:
        refuse(
            f"权重要在 0 和 1 之间，给的是 {weight}。",
            f"a weight lies between 0 and 1, not at {weight}.",
        )
    changed[key] = 0
    others = float(changed.sum())
    if others == 0 and weight < 1:
        rest = number(1 - weight, 3)
        refuse(
            f"另外几个权重全是 0，余下的 {rest} 没法按比例分给它们。",
            f"the other weights are all 0, so the remaining {rest} cannot be shared in proportion.",
        )
    if others:
        changed *= (1 - weight) / others
    changed[key] = weight
    return changed


def view(
    query: int, dimension: int, key: int, weight: float | Literal["computed"], lang: str
) -> View:
    """Entry (query, dimension) of A V; dimensions count from 1, as on paper.

    `weight` takes the place of the one that the query gives the key; COMPUTED changes nothing.
    """
    before, v = computed()
    query, key = index("query", query, len(before)), index("key", key, len(v))
    width = v.shape[1]
    if dimension not in range(1, width + 1):
        refuse(
            f"维数从 1 到 {width}，给的是 {dimension}。",
            f"dimensions are 1 to {width}, not {dimension}.",
        )
    column = dimension - 1
    a = before.copy()
    if weight != COMPUTED:
        a[query] = with_weight(before[query], key, weight)
    context = weigh(a, v)
    changed = None if weight == COMPUTED else key
    entry = number(float(context[query, column]), 3)
    if weight != COMPUTED:
        was = number(float(weigh(before, v)[query, column]), 3)
        entry += pick(lang, f"（原来是 {was}）", f" (as computed: {was})")
    result = pick(
        lang,
        f"{quoted(TOKENS[query], lang)}的上下文向量，第 {dimension} 维：{entry}",
        f"Context of {TOKENS[query]}, dimension {dimension}: {entry}",
    )
    about = _about(before, query, key, weight, lang)
    total = number(float(a[query].sum()), 3)
    about += pick(lang, f"这一行的和：{total}", f" The row sums to {total}.")

    def listed(numbers: Array) -> str:
        return "  ".join(
            f"{token} {number(float(x), 3)}" for token, x in zip(TOKENS, numbers, strict=True)
        )

    drawing = svg.below(
        _product(a, v, context, query, column, changed, lang),
        svg.label(_frames(changed is not None, lang), colour=svg.QUIET),
        svg.label(about),
        svg.label(result, bold=True),
        gap=10,
    )
    return View(
        svg.widened(drawing, WIDTH),
        (
            result,
            about,
            pick(lang, "权重：", "weights: ") + listed(a[query]),
            pick(lang, f"值的第 {dimension} 维：", f"values, dimension {dimension}: ")
            + listed(v[:, column]),
            pick(lang, "乘积：", "products: ") + listed(a[query] * v[:, column]),
            pick(lang, "上下文向量的四维：", "all four dimensions of the context: ")
            + "  ".join(number(float(x), 3) for x in context[query]),
        ),
        worked.context(a, v, query, column),
    )


def _about(
    before: Array, query: int, key: int, weight: float | Literal["computed"], lang: str
) -> str:
    """What was done to the weight that the query gives the key, in a sentence."""
    whose = pick(
        lang,
        f"{quoted(TOKENS[query], lang)}给{'自己' if key == query else quoted(TOKENS[key], lang)}的权重",
        f"The weight {TOKENS[query]} gives {'itself' if key == query else TOKENS[key]}",
    )
    old = number(float(before[query, key]), 3)
    if weight == COMPUTED:
        return pick(lang, f"{whose}没有改，还是算出来的 {old}。", f"{whose} is as computed, {old}.")
    new = number(weight, 3)
    factor = number((1 - weight) / (1 - float(before[query, key])), 3)
    return pick(
        lang,
        f"{whose}从 {old} 改成 {new}，另外五个都乘 {factor}。",
        f"{whose} goes from {old} to {new}; the other five are multiplied by {factor}.",
    )


def _frames(changed: bool, lang: str) -> str:
    """What the outlines and the frames mean."""
    if changed:
        return pick(
            lang,
            "细框：乘在一起的行和列；橙框：改了的权重、它乘的值、结果",
            "outlined: the row and the column multiplied; orange: the changed weight, its value, "
            "the result",
        )
    return pick(
        lang,
        "细框：乘在一起的行和列；橙框：结果",
        "outlined: the row and the column multiplied; orange: the result",
    )


def _product(
    a: Array, v: Array, context: Array, query: int, column: int, changed: int | None, lang: str
) -> svg.Drawing:
    """A · V = context. The row and the column of the entry are outlined; the entry is framed, and
    so are the weight of the key that was `changed`, if any, and its value.
    """
    dimensions = [str(c + 1) for c in range(v.shape[1])]
    lit_weight, lit_value = (
        ([(query, changed)], [(changed, column)]) if changed is not None else ([], [])
    )
    scale = colour_scale([v], "context")  # one for both: a mean stays among its values
    weights_drawn = svg.matrix(
        a, "weights",
        pick(lang, "权重 A（查询 × 键）", "weights A (queries × keys)"),
        TOKENS, TOKENS,
        decimals=3, scale=(0, 1), cell=CELL, lit=lit_weight, outlined_row=query,
    )  # fmt: skip
    values_drawn = svg.matrix(
        v, "context", pick(lang, "值 V", "values V"), TOKENS, dimensions,
        decimals=3, scale=scale, cell=CELL, lit=lit_value, outlined_column=column,
    )  # fmt: skip
    context_drawn = svg.matrix(
        context, "context", pick(lang, "上下文向量 O = A V", "context O = A V"), TOKENS, dimensions,
        decimals=3, scale=scale, cell=CELL, lit=[(query, column)],
        outlined_row=query, outlined_column=column,
    )  # fmt: skip
    middle = weights_drawn.height - CELL[1] * len(a) / 2
    times, equals = (
        svg.Drawing(10, middle, svg.text(5, middle, sign, size=size, bold=True))
        for sign, size in (("·", 30), ("=", 24))
    )
    return svg.beside(weights_drawn, times, values_drawn, equals, context_drawn, gap=9)


def explorer(lang: str) -> Explorer:
    """Pick an entry of the context; change one weight of its row."""
    tokens = places(TOKENS, lang)
    unchanged = pick(lang, "算出来的", "as computed")
    weights = fractions(0, 1, STEPS, 2)
    return Explorer(
        pick(lang, "加权取值：一个数由谁拼成", "Weighted values: what one number is made of"),
        {
            "query": stops(lang, "查询（行）", "query", tokens, XIAN),
            "dimension": slider(lang, "第几维（列）", "dimension", 1, 1, 4),
            "key": stops(lang, "改给谁的权重", "weight given to", tokens, XIAN),
            "weight": stops(
                lang, "权重改成", "new weight", {unchanged: COMPUTED, **weights}, COMPUTED
            ),
        },
        partial(view, lang=lang),
        lang,
        typeset=True,
        buttons={pick(lang, "权重换回算出来的", "Weight as computed"): {"weight": COMPUTED}},
    )

"""04: which W_O mixes two heads, one entry of it, and what each head writes into the output."""

from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from byhand import checks, svg, toy, worked
from byhand.attention import heads_reaching, merge_heads, multi_head_attention, project, split_heads
from byhand.checks import Array, index, refuse
from byhand.explorer import Explorer, View, choice, fractions, frozen, slider, stops, tick
from byhand.figures import colour_scale
from byhand.toy import TOKENS
from byhand.words import pick, places, quoted, word
from byhand.worked import number

PRINTED: Final = "the printed one"
EXAMPLE: Final = len(TOKENS)  # the stop behind the tokens: the four whole numbers of the article
FURTHEST: Final = 2.0  # of what can be added to an entry
_HEADS: Final = 2
_D_HEAD: Final = 2
_D_MODEL: Final = _HEADS * _D_HEAD  # of the merged heads, and of the output
_CELL: Final = (78.0, 30.0)
_GAP: Final = 36.0
WIDTH: Final = {"zh": 492, "en": 604}  # of the drawing, whatever it shows


class Parts(NamedTuple):
    """The numbers of one state."""

    w_o: Array  # [4, 4]
    merged: Array  # [4]; zeros where a head is off
    shares: Array  # [2, 4]; what each head writes
    output: Array  # [4]


@cache
def _contexts() -> Array:
    """The contexts of both heads, for the six tokens and the example. [2, 7, 2]"""
    t = toy.load()
    layer = multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, _HEADS)
    return frozen(split_heads(np.vstack([layer.merged, toy.mixing_example()]), _HEADS))


@cache
def _presets() -> dict[str, Array]:
    return {name: frozen(w_o) for name, w_o in toy.output_projections().items()}


def parts_of(
    preset: str, token: int, row: int, column: int, added: float, head_1: bool, head_2: bool
) -> Parts:
    """The merged heads of one token through W_O, head by head.

    `row` and `column` of W_O count from 1, as on paper; `added` goes to the entry there, to one
    decimal. A head that is off gives zeros. ValueError for what there is not.
    """
    if preset not in _presets():
        known = ", ".join(_presets())
        refuse(
            f"没有叫 {preset!r} 的 W_O。有的是：{known}", f"no W_O {preset!r}; there are: {known}"
        )
    for zh, en, place in (("行", "rows", row), ("列", "columns", column)):
        if place not in range(1, _D_MODEL + 1):
            refuse(
                f"W_O 的{zh}从 1 到 {_D_MODEL}，给的是 {place}。",
                f"the {en} of W_O are 1 to {_D_MODEL}, not {place}.",
            )
    if abs(checks.row("added", [added])[0]) > FURTHEST:
        refuse(
            f"最多加减 {FURTHEST:g}，给的是 {added:g}。",
            f"at most {FURTHEST:g} can be added or taken away, not {added:g}.",
        )
    contexts = _contexts()[:, [index("token", token, EXAMPLE + 1)]]  # [2, 1, 2]
    contexts = np.where(np.array([head_1, head_2])[:, None, None], contexts, 0)
    w_o = _presets()[preset].copy()
    entry = w_o[row - 1, column - 1] + added
    w_o[row - 1, column - 1] = round(entry, 1)  # 0.3 less 0.3 is 0, not 5e-17
    blocks = w_o.reshape(_HEADS, _D_HEAD, _D_MODEL)
    shares = [project(z, block)[0] for z, block in zip(contexts, blocks, strict=True)]
    merged = merge_heads(contexts)  # [1, 4]
    return Parts(w_o, merged[0], np.array(shares), project(merged, w_o)[0])


# ---- in words -----------------------------------------------------------------------------------


def _outputs(which: NDArray[np.bool_], lang: str) -> str:
    """Outputs by number, counted from 1. which [4]"""
    numbers = [str(c + 1) for c in np.flatnonzero(which)]
    plural = "s" if len(numbers) > 1 else ""
    return pick(lang, f"输出 {'、'.join(numbers)}", f"output{plural} {', '.join(numbers)}")


def _mixing(w_o: Array, lang: str) -> tuple[str, str]:
    """Whether W_O mixes the heads; and which heads are in which outputs."""
    first, second = heads_reaching(w_o, _HEADS)
    groups = (
        (first & second, "里两个头都有", "both heads reach"),
        (first & ~second, "里只有头 1", "only head 1 reaches"),
        (~first & second, "里只有头 2", "only head 2 reaches"),
        (~first & ~second, "里没有头", "no head reaches"),
    )
    told = [
        pick(lang, f"{_outputs(which, lang)} {zh}", f"{en} {_outputs(which, lang)}")
        for which, zh, en in groups
        if which.any()
    ]
    verdict = (
        pick(lang, "这个 W_O 把头混起来了。", "This W_O mixes the heads.")
        if np.any(first & second)
        else pick(lang, "这个 W_O 没有把头混起来。", "This W_O does not mix the heads.")
    )
    listed = pick(lang, "；".join(told) + "。", "; ".join(told) + ".")
    return verdict, listed[0].upper() + listed[1:]


def _framed(
    parts: Parts, unchanged: Parts, row: int, column: int, decimals: int, lang: str
) -> tuple[str, str]:
    """The framed entry and what was added to it; where it leads and what that moved."""
    old, new = unchanged.w_o[row - 1, column - 1], parts.w_o[row - 1, column - 1]
    head, dimension = (n + 1 for n in divmod(row - 1, _D_HEAD))
    by, now = number(abs(new - old), 1), number(new, 1)
    more_zh, more_en = ("加", "plus") if new > old else ("减", "less")
    sum_zh, sum_en = (
        (f" {more_zh} {by} 是 {now}", f" {more_en} {by} is {now}") if new != old else ("", "")
    )
    entry = pick(
        lang,
        f"W_O 里框住的：第 {row} 行第 {column} 列，{number(old, 1)}{sum_zh}。",
        f"Framed in W_O: row {row}, column {column}, {number(old, 1)}{sum_en}.",
    )
    effect = pick(
        lang,
        f"头 {head} 的第 {dimension} 个数{'经过它到' if new else '到不了'}输出 {column}。",
        f"Number {dimension} of head {head} "
        f"{'goes through it to' if new else 'does not reach'} output {column}.",
    )
    if new != old and not parts.merged[row - 1]:
        effect += pick(
            lang, f"头 {head} 关着，输出没有变。", f" Head {head} is off: nothing moved."
        )
    elif new != old:
        change = parts.output[column - 1] - unchanged.output[column - 1]
        moved = number(abs(change), decimals)
        way_zh, way_en = ("多了", "up") if change > 0 else ("少了", "down")
        effect += pick(
            lang,
            f"只有输出 {column} 变了，{way_zh} {moved}。",
            f" Only output {column} moved, {way_en} by {moved}.",
        )
    return entry, effect


def _silenced(output: Array, both_on: Array, on: tuple[bool, bool], lang: str) -> str:
    """What the heads that are off leave of the output; `both_on` [4] is the output with none off."""
    if all(on):
        return pick(
            lang,
            "两个头都开着：每个输出是两个头写的数相加。",
            "Both heads are on: each output is the sum of what they write.",
        )
    if not any(on):
        return pick(lang, "两个头都关着：输出全是 0。", "Both heads are off: every output is 0.")
    off = on.index(False) + 1
    told = pick(lang, f"头 {off} 关着，写的全是 0。", f"Head {off} is off and writes zeros. ")
    kept = np.abs(output - both_on) < 1e-9  # [4]
    if not kept.any():
        return told + pick(
            lang, "没有一个输出和开着时一样。", "No output is what it is with the head on."
        )
    which = _outputs(kept, lang)
    verb = "are" if kept.sum() > 1 else "is"
    return told + pick(
        lang,
        f"{which} 和开着时一样。",
        f"{which.capitalize()} {verb} the same as with the head on.",
    )


# ---- drawn --------------------------------------------------------------------------------------


def _held(reaching: NDArray[np.bool_], lang: str) -> str:
    """The heads in one output, as the heading of its column. reaching [2]"""
    if not reaching.any():
        return pick(lang, "没有头", "no head")
    if reaching.all():
        return pick(lang, "两个头", "both")
    return pick(lang, "头 ", "head ") + str(int(reaching.argmax()) + 1)


def _drawing(
    parts: Parts,
    title: str,
    name: str,
    at: tuple[int, int],
    on: tuple[bool, bool],
    decimals: int,
    lang: str,
) -> svg.Drawing:
    """The merged heads before the rows of W_O that they meet; below each column what comes of it.

    `title` of W_O; `name` of the column of merged heads; `at` is the framed entry, from 0.
    """
    r, c = at
    nth = pick(lang, " 第", " no.")
    heads = [pick(lang, f"头 {h}", f"head {h}") for h in range(1, _HEADS + 1)]
    outputs = [pick(lang, f"输出 {n}", f"output {n}") for n in range(1, _D_MODEL + 1)]
    written = np.vstack([parts.shares, parts.output])  # [3, 4]
    ends = colour_scale([written, parts.merged], "context")
    merged = svg.matrix(
        parts.merged[:, None], "context", pick(lang, "并头后，竖着写", "merged, set upright"),
        [f"{head}{nth} {d}" for head in heads for d in range(1, _D_HEAD + 1)], [name],
        decimals=decimals, scale=ends, lit=[(r, 0)], cell=_CELL, rules=[_D_HEAD],
    )  # fmt: skip
    w_o = svg.matrix(
        parts.w_o, "w_o", title, [""] * _D_MODEL, outputs,
        decimals=1, scale=colour_scale(list(_presets().values()), "w_o"),
        lit=[(r, c)], cell=_CELL, rules=[_D_HEAD],
    )  # fmt: skip
    writes, off = pick(lang, "写的", "writes"), pick(lang, "关着", "is off")
    sums = svg.matrix(
        written, "context", "",
        [
            *(f"{head} {writes if is_on else off}" for head, is_on in zip(heads, on, strict=True)),
            pick(lang, "输出（和）", "output (sum)"),
        ],
        [_held(reaching, lang) for reaching in heads_reaching(parts.w_o, _HEADS).T],
        decimals=decimals, scale=ends, lit=[(_HEADS, c)], cell=_CELL, rules=[_HEADS],
    )  # fmt: skip
    above = svg.beside(merged, w_o, gap=_GAP)
    left, y = merged.width + _GAP, above.height + 14  # its columns below those of W_O
    x = left - (sums.width - _D_MODEL * _CELL[0])
    head = svg.label(
        pick(
            lang,
            "每个输出里有哪些头，各写了多少",
            "which heads each output holds, and what they write",
        ),
        bold=True,
    )
    return svg.Drawing(
        max(above.width, x + sums.width, left + head.width),
        y + sums.height,
        above.body + svg.moved(head, left, y) + svg.moved(sums, x, y),
    )


def view(
    preset: str,
    token: int,
    row: int,
    column: int,
    added: float,
    head_1: bool,
    head_2: bool,
    lang: str,
) -> View:
    """The merged heads, W_O with one entry framed, what each head writes, and the output."""
    parts = parts_of(preset, token, row, column, added, head_1, head_2)
    unchanged = parts_of(preset, token, row, column, 0, head_1, head_2)
    both_on = parts_of(preset, token, row, column, added, True, True)
    on = (head_1, head_2)
    # As the article prints its example, which it calls a.
    name, decimals = ("a", 1) if token == EXAMPLE else (TOKENS[token], 3)

    def row_of(numbers: Array) -> str:
        return "  ".join(number(x, decimals) for x in numbers)

    def by_head(numbers: Array) -> str:
        first, second = map(row_of, numbers.reshape(_HEADS, -1))
        return pick(lang, f"头 1 {first}；头 2 {second}", f"head 1 {first}; head 2 {second}")

    output = pick(lang, f"{quoted(name, lang)}的输出：", f"output of {name}: ") + row_of(
        parts.output
    )
    if np.array_equal(parts.w_o, np.eye(_D_MODEL)) and any(on):
        output += pick(lang, "（就是并头后的四个数）", " (the four merged numbers as they are)")
    mixing = _mixing(parts.w_o, lang)
    framed = _framed(parts, unchanged, row, column, decimals, lang)
    silenced = _silenced(parts.output, both_on.output, on, lang)
    title = f"W_O{pick(lang, '：', ': ')}{word(preset, lang)}"
    if not np.array_equal(parts.w_o, unchanged.w_o):
        title += pick(lang, "，改了一个数", ", one number changed")
    sentences = svg.below(
        svg.label(mixing[0], bold=True), *map(svg.label, (mixing[1], *framed, silenced)), gap=6
    )
    space = pick(lang, "", " ")
    drawing = _drawing(parts, title, name, (row - 1, column - 1), on, decimals, lang)
    return View(
        svg.widened(svg.below(drawing, sentences), WIDTH[lang]),
        (
            output,
            space.join(mixing),
            space.join(framed),
            silenced,
            pick(lang, "并头后：", "merged: ") + by_head(parts.merged),
            pick(lang, "每个头写的：", "each head writes: ") + by_head(parts.shares),
            pick(lang, f"{title}。各行：", f"{title}. Its rows: ") + _lines(parts.w_o),
        ),
        worked.projection(
            [parts.merged], parts.w_o, 0, column - 1, "y", tokens=[name], decimals=decimals
        ),
    )


def _lines(w_o: Array) -> str:
    return " | ".join("  ".join(number(x, 1) for x in line) for line in w_o)


def explorer(lang: str) -> Explorer:
    """Choose a W_O and a token, add to one entry, switch the heads on and off."""
    whose = places(TOKENS, lang)
    whose[f"a = {toy.mixing_example().astype(int).tolist()}"] = EXAMPLE
    tenths = fractions(-FURTHEST, FURTHEST, 10, 1)
    return Explorer(
        pick(lang, "两个头和 W_O", "Two heads and W_O"),
        {
            "preset": choice(
                lang, "哪个 W_O", "which W_O", {word(key, lang): key for key in _presets()}, PRINTED
            ),
            "token": stops(lang, "谁的输出", "output of", whose, TOKENS.index("西安")),
            "row": slider(lang, "W_O 的行", "row of W_O", 1, 1, _D_MODEL),
            "column": slider(lang, "W_O 的列", "column of W_O", 1, 1, _D_MODEL),
            "added": stops(lang, "给框住的数加", "add to the entry", tenths, 0.0),
            "head_1": tick(lang, "头 1 开着", "head 1 on", True),
            "head_2": tick(lang, "头 2 开着", "head 2 on", True),
        },
        partial(view, lang=lang),
        lang,
        typeset=True,
    )

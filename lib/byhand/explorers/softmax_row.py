"""02: one row of scores into weights, with a temperature, one score changed, and a causal mask."""

from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from byhand import checks, svg, toy
from byhand.attention import apply_mask, causal_mask, project, scale, score, softmax
from byhand.checks import Array, refuse
from byhand.explorer import Explorer, View, choice, fractions, frozen, stops, tick
from byhand.figures import BLUE, colour_scale
from byhand.svg import Drawing
from byhand.toy import TOKENS
from byhand.words import pick, places, quoted, token_labels
from byhand.worked import number

COLDEST: Final = 0.1  # temperatures
WARMEST: Final = 5.0
MOST: Final = 5.0  # that can be added to a score, or taken off it
# The row that the article prints: 西安, nothing changed.
PRINTED: Final[dict[str, Any]] = {
    "query": 1,
    "temperature": 1.0,
    "key": 0,
    "extra": 0.0,
    "causal": False,
}
CELL: Final = (58.0, 28.0)
LEFT: Final = 352  # the width of the column of steps


class Row(NamedTuple):
    """One row on its way through the softmax. [6] each; −inf where a key is masked."""

    scaled: Array  # as the toy has it
    changed: Array  # one score moved, all divided by the temperature, the future masked
    shifted: Array  # minus the maximum
    exps: Array
    weights: Array


@cache
def _scaled() -> Array:
    """The scaled scores of the toy. [6, 6]"""
    t = toy.load()
    q, k = project(t.X, t.W_Q), project(t.X, t.W_K)
    return frozen(scale(score(q, k), q.shape[-1]))


@cache
def _printed() -> toy.Published:
    return toy.published("weights")


def row_of(query: int, temperature: float, key: int, extra: float, causal: bool) -> Row:
    """The row of that query: `extra` is added to the scaled score of one key, then all are divided.

    Both numbers are in tenths, as the sliders have them. ValueError outside their range.
    """
    query = checks.index("query", query, len(TOKENS))
    key = checks.index("key", key, len(TOKENS))
    scaled = _scaled()[query]
    moved = scaled + _tenths("extra", extra, -MOST, MOST) * np.eye(len(TOKENS))[key]
    changed = moved / _tenths("temperature", temperature, COLDEST, WARMEST)
    if causal:
        changed = apply_mask(changed[None], causal_mask(len(TOKENS))[[query]])[0]
    shifted = changed - changed.max()
    return Row(scaled, changed, shifted, np.exp(shifted), softmax(changed))


def _tenths(name: str, value: float, low: float, high: float) -> float:
    """The value, if it is one of the stops of its slider."""
    if not low <= value <= high or round(value, 1) != value:
        refuse(
            f"{name} 取 {low:g} 到 {high:g}，一位小数；给的是 {value!r}。",
            f"{name} goes from {low:g} to {high:g}, in tenths; it is {value!r}.",
        )
    return value


def as_printed(query: int, weights: Array) -> bool:
    """Whether these weights, rounded, are the row that the article prints for the query."""
    rows = _printed().values.copy()
    rows[query] = weights
    return toy.reproduces("weights", rows)


def view(query: int, temperature: float, key: int, extra: float, causal: bool, lang: str) -> View:
    """The four steps of the softmax on the changed row, and the printed weights to compare."""
    row = row_of(query, temperature, key, extra, causal)
    printed = _printed().values[query]
    titles = _titles(row, query, temperature, key, extra, causal, lang)
    notes = _notes(row, query, temperature, key, lang)
    signed = colour_scale([row.scaled, row.changed, row.shifted], "scaled")
    shares = colour_scale([row.weights, printed], "weights")
    steps = [
        (row.scaled, "scaled", 2, signed),
        (row.changed, "scaled", 2, signed),
        (row.shifted, "scaled", 2, signed),
        (row.exps, "weights", 4, (0.0, 1.0)),
        (row.weights, "weights", 3, shares),
        (printed, "weights", 3, shares),
    ]
    matrices = [
        svg.matrix(
            [values], kind, title, [""], [""] * len(TOKENS),
            decimals=decimals, scale=ends, lit=[(0, int(values.argmax()))], cell=CELL,
        )
        for title, (values, kind, decimals, ends) in zip(titles, steps, strict=True)
    ]  # fmt: skip
    bars = svg.bars(
        row.weights,
        TOKENS,
        pick(lang, "权重（竖线：印出来的）", "weights (line: the printed one)"),
        decimals=3,
        top=1,
        colour=BLUE,
        lit=[int(row.weights.argmax())],
        width=240,
        marks=printed,
    )
    left = svg.below(_head(key if extra else None, lang), *matrices, gap=8)
    drawing = svg.beside(
        svg.widened(left, LEFT),
        svg.below(bars, *(svg.label(note) for note in notes), gap=8),
    )
    return View(
        drawing,
        (
            _first(row, query, key, lang),
            *(
                f"{title}  " + "  ".join(_shown(value, decimals) for value in values)
                for title, (values, _, decimals, _) in zip(titles, steps, strict=True)
            ),
            *notes,
        ),
    )


def _shown(value: float, decimals: int) -> str:
    return number(float(value), decimals) if np.isfinite(value) else "−∞"


def _head(changed: int | None, lang: str) -> Drawing:
    """The keys above their columns; the one whose score is changed in bold."""
    labels = [label.split("\n") for label in token_labels(lang)]
    body = [
        svg.text((j + 0.5) * CELL[0], 10 + 15 * n, part, bold=j == changed, size=svg.SIZE - 2 * n)
        for j, parts in enumerate(labels)
        for n, part in enumerate(parts)
    ]
    lines = max(map(len, labels))
    return Drawing(CELL[0] * len(TOKENS), 6 + 15 * lines, "".join(body))


def _titles(
    row: Row, query: int, temperature: float, key: int, extra: float, causal: bool, lang: str
) -> tuple[str, ...]:
    """Of the six rows of numbers, what each is."""
    added, warm = f"{extra:+.1f}", number(temperature, 1)
    changes = [
        *([quoted(TOKENS[key], lang) + pick(lang, "", " ") + added] if extra else []),
        *([pick(lang, f"÷ 温度 {warm}", f"all ÷ {warm}")] if temperature != 1 else []),
        *([pick(lang, "遮住后面的键", "later keys masked")] if causal else []),
    ]
    what = pick(lang, "，", ", ").join(changes)
    name = quoted(TOKENS[query], lang)
    total, one = number(float(row.exps.sum()), 4), number(float(row.weights.sum()), 3)
    return (
        pick(lang, f"{name}缩放后的分数", f"scaled scores of {name}"),
        what or pick(lang, "没有改动", "no change"),
        pick(lang, "① 减去最大值", "① minus the maximum"),
        pick(lang, f"② 取指数，③ 求和：Σ = {total}", f"② exponentials, ③ their sum: Σ = {total}"),
        pick(lang, f"④ 除以和，得权重：Σ = {one}", f"④ over the sum, the weights: Σ = {one}"),
        pick(lang, "文章印出来的权重", "the weights as the article prints them"),
    )


def _first(row: Row, query: int, key: int, lang: str) -> str:
    """What is read out after a move: the weight of the changed key, and the largest."""
    best = int(row.weights.argmax())
    name, changed, top = (quoted(TOKENS[n], lang) for n in (query, key, best))
    share, most = (number(float(row.weights[n]), 3) for n in (key, best))
    if key == best:
        return pick(
            lang,
            f"{name}这一行：{changed}分到 {share}，六个里最多",
            f"row {name}: {share} goes to {changed}, the largest of the six weights",
        )
    return pick(
        lang,
        f"{name}这一行：{changed}分到 {share}；{top}分到最多，{most}",
        f"row {name}: {share} goes to {changed}, and the largest weight, {most}, to {top}",
    )


def _notes(row: Row, query: int, temperature: float, key: int, lang: str) -> tuple[str, ...]:
    """How the weights differ from the printed ones, and why they are as they are."""
    apart = np.abs(row.weights - _printed().values[query])
    most, where = number(float(apart.max()), 3), quoted(TOKENS[int(apart.argmax())], lang)
    warm = number(temperature, 1)
    name, changed = quoted(TOKENS[query], lang), quoted(TOKENS[key], lang)
    if as_printed(query, row.weights):
        notes = [
            pick(lang, "和印出来的一样，三位小数都相同。", "As printed: all three decimals agree.")
        ]
    else:
        notes = [
            pick(
                lang,
                f"和印出来的最多差 {most}，在{where}。",
                f"At most {most} from the printed ones, at {where}.",
            )
        ]
    if np.isfinite(row.changed).sum() == 1:
        why = pick(
            lang,
            f"{name}只看得到自己：权重总是 1。",
            f"{name} sees only itself: its weight is 1.",
        )
    elif temperature < 1:
        why = pick(
            lang,
            f"温度 {warm} 小于 1：分数的差拉大，权重更尖。",
            f"Temperature {warm}, below 1: more peaked weights.",
        )
    elif temperature > 1:
        why = pick(
            lang,
            f"温度 {warm} 大于 1：分数的差缩小，权重更平。",
            f"Temperature {warm}, above 1: flatter weights.",
        )
    else:
        why = pick(
            lang,
            f"温度 {warm}：除以 1，和没除一样。",
            f"Temperature {warm}: dividing by 1 does nothing.",
        )
    notes.append(why)
    if np.isneginf(row.changed[key]):
        notes.append(
            pick(
                lang,
                f"{changed}被遮住了：它的分数加多少，权重都不变。",
                f"{changed} is masked: its score does not count.",
            )
        )
    return tuple(notes)


def explorer(lang: str) -> Explorer:
    """Pick a row, change one score and the temperature, hide what comes after; starts as printed."""
    tokens, start = places(TOKENS, lang), PRINTED
    temperatures = fractions(COLDEST, WARMEST, 10, 1)
    extras = fractions(-MOST, MOST, 10, 1)
    return Explorer(
        pick(lang, "一行分数变权重", "One row, from scores to weights"),
        {
            "query": stops(lang, "查询（哪一行）", "query (the row)", tokens, start["query"]),
            "temperature": stops(
                lang, "温度（除以它）", "temperature (÷)", temperatures, start["temperature"]
            ),
            "key": choice(lang, "改哪个键的分数", "key to change", tokens, start["key"]),
            "extra": stops(lang, "给这个分数加", "added to its score", extras, start["extra"]),
            "causal": tick(
                lang,
                "因果遮罩：后面的键不许看",
                "causal mask: no looking at later keys",
                start["causal"],
            ),
        },
        partial(view, lang=lang),
        lang,
        back=pick(lang, "印出来的那一行", "The printed row"),
    )

"""06: one pair of a query and of a key, turned by their positions, and the score it gives."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from byhand import models, rope, svg
from byhand.attention import score
from byhand.checks import Array
from byhand.explorer import Explorer, View, frozen, slider
from byhand.figures import BLUE, ORANGE
from byhand.qwen import LayerShape
from byhand.svg import Arrow
from byhand.words import pick
from byhand.worked import number

QUERY: Final = (2.0, 1.0)  # before the rotation; as long as the key, so that one circle serves both
KEY: Final = (1.0, 2.0)
LAST: Final = 200  # the last position
STEP: Final = 10  # of the buttons
FARTHER: Final = 100  # where the same distance is tried again
WIDTH: Final = 832  # of the drawing, whatever it shows


@cache
def shape() -> LayerShape:
    """The sizes of Qwen2.5-7B."""
    return models.layer_shape(models.read("Qwen2.5-7B"))


@cache
def speeds() -> Array:
    """How far each pair turns from one position to the next, in radians. [64]"""
    return frozen(rope.frequencies(shape().d_head, shape().rope_theta))


def turned(pair: tuple[float, float], positions: ArrayLike, which: int) -> Array:
    """The two numbers as the pair number `which` of a head, at every one of the positions. [S, 2]"""
    angles = rope.angles(positions, shape().d_head, shape().rope_theta)[:, [which]]  # [S, 1]
    return rope.rotate(np.tile(pair, (len(angles), 1)), angles)


@cache
def scores(which: int) -> Array:
    """What the pair adds to the score at the distances −LAST … LAST. [2·LAST + 1]"""
    distances = np.arange(-LAST, LAST + 1)
    return frozen(score(turned(QUERY, distances, which), turned(KEY, [0], which))[:, 0])


def score_at(m: int, n: int, which: int) -> float:
    """What the pair adds to the score of a query at position m and a key at position n."""
    return float(score(turned(QUERY, [m], which), turned(KEY, [n], which))[0, 0])


def angle(value: float) -> str:
    """An angle with three decimals, and with three digits where that would show less."""
    if value == 0 or abs(value) >= 0.1:
        return number(value, 3)
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def point(pair: ArrayLike, decimals: int = 3) -> str:
    """Two numbers as a point of the plane."""
    return "(" + ", ".join(number(float(x), decimals) for x in np.asarray(pair)) + ")"


def view(query_position: int, key_position: int, pair: int, lang: str) -> View:
    """The pair of the query at one position and of the key at another."""
    m, n = query_position, key_position
    q, k = turned(QUERY, [m], pair)[0], turned(KEY, [n], pair)[0]
    now, far = score_at(m, n, pair), score_at(m + FARTHER, n + FARTHER, pair)
    speed = float(speeds()[pair])
    query, key = pick(lang, "查询", "query"), pick(lang, "键", "key")
    by = {at: (angle(at * speed), angle(at * speed / (2 * np.pi))) for at in (m, n, m - n)}

    pair_words = pick(
        lang,
        f"第 {pair} 对：每个位置转 {angle(speed)} 弧度，约 {2 * np.pi / speed:.0f} 个位置转一圈",
        f"pair {pair}: {angle(speed)} radians a position, "
        f"a full turn in about {2 * np.pi / speed:.0f} positions",
    )
    score_words = pick(
        lang,
        f"查询在 {m}，键在 {n}，距离 {m - n}：点积 {number(now, 2)}",
        f"query at {m}, key at {n}, distance {m - n}: dot product {number(now, 2)}",
    )
    far_words = pick(
        lang,
        f"两个都再往后 {FARTHER} 个位置：{number(far, 2)}",
        f"with both {FARTHER} positions further on: {number(far, 2)}",
    )
    turns_words = [
        pick(
            lang,
            f"{name}转了 {by[at][0]} 弧度，合 {by[at][1]} 圈：{point(before, 0)} → {point(after)}",
            f"the {name} has turned by {by[at][0]} radians, {by[at][1]} turns: "
            f"{point(before, 0)} → {point(after)}",
        )
        for name, at, before, after in ((query, m, QUERY, q), (key, n, KEY, k))
    ]
    planes = [
        svg.plane(
            [
                Arrow(float(of_q[0]), float(of_q[1]), "q", BLUE),
                Arrow(float(of_k[0]), float(of_k[1]), "k", ORANGE, dashed=True),
            ],
            title,
            pick(lang, "→ 第一个数　↑ 第二个数", "→ first number, ↑ second number"),
            radius=float(np.hypot(*QUERY)),
            size=116,
        )
        for title, of_q, of_k in (
            (pick(lang, "转以前", "before the turn"), np.array(QUERY), np.array(KEY)),
            (pick(lang, "转以后", "after the turn"), q, k),
        )
    ]
    table = svg.table(
        ["", f"{query} q", f"{key} k", pick(lang, "查询 − 键", "query − key")],
        [
            [pick(lang, "位置", "position"), str(m), str(n), str(m - n)],
            [pick(lang, "转了几弧度", "radians"), *(by[at][0] for at in (m, n, m - n))],
            [pick(lang, "转了几圈", "turns"), *(by[at][1] for at in (m, n, m - n))],
            [pick(lang, "转以前", "before"), point(QUERY, 0), point(KEY, 0), ""],
            [pick(lang, "转以后", "after"), point(q), point(k), ""],
            [
                pick(lang, "长度", "length"),
                *(number(float(np.hypot(*pair)), 3) for pair in (q, k)),
                "",
            ],
        ],
        gap=14,
    )
    most = float(np.hypot(*QUERY) * np.hypot(*KEY))  # where both point the same way
    curve = svg.curve(
        np.arange(-LAST, LAST + 1),
        scores(pair),
        pick(lang, "这一对的点积怎样随距离变", "the dot product of this pair over the distance"),
        across=pick(lang, "距离：查询的位置减键的位置", "distance: query's position minus key's"),
        lit=m - n + LAST,
        size=(690, 130),
        ends=(-most, most),
    )
    told = svg.below(table, svg.label(score_words, bold=True), svg.label(far_words), gap=8)
    drawing = svg.below(svg.label(pair_words, bold=True), svg.beside(*planes, told, gap=14), curve)
    return View(
        svg.widened(drawing, WIDTH),
        (score_words, far_words, pair_words, *turns_words),
    )


def both(by: int, query_position: int, key_position: int, **_: int) -> Mapping[str, int]:
    """Both positions moved by as much, and no farther than the sliders go."""
    there = query_position, key_position
    step = max(-min(there), min(by, LAST - max(there)))
    return {"query_position": query_position + step, "key_position": key_position + step}


def explorer(lang: str) -> Explorer:
    """Move the query, the key, or both, and choose the pair."""
    return Explorer(
        pick(lang, "旋转：一对数，两个位置", "Rotation: one pair of numbers, two positions"),
        {
            "query_position": slider(lang, "查询在 m", "query at m", 4, 0, LAST),
            "key_position": slider(lang, "键在 n", "key at n", 1, 0, LAST),
            "pair": slider(lang, "第几对", "pair", 0, 0, len(speeds()) - 1),
        },
        partial(view, lang=lang),
        lang,
        buttons={
            pick(lang, f"两个都往后（最多 {STEP}）", f"both further on ({STEP} at most)"): partial(
                both, STEP
            ),
            pick(lang, f"两个都往前（最多 {STEP}）", f"both back ({STEP} at most)"): partial(
                both, -STEP
            ),
        },
    )

"""06: one pair at two positions: what the explorer shows is the library's rotation."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest

from byhand import rope, score, svg
from byhand.explorers import rotation
from byhand.explorers.rotation import KEY, LAST, QUERY, scores, turned, view
from byhand.figures import BLUE, ORANGE
from byhand.svg import Arrow
from byhand.words import EDITIONS
from byhand.worked import number
from drawn import NAMESPACE, texts

D_HEAD, THETA = 128, 1e6  # of Qwen2.5-7B


def states() -> Iterator[tuple[int, int, int]]:
    """200 states drawn from a seed, and the ends."""
    rng = np.random.default_rng(7)
    for m in (0, LAST):
        for n in (0, LAST):
            yield from ((m, n, pair) for pair in (0, 63))
    for m, n, pair in rng.integers(0, [LAST + 1, LAST + 1, 64], (200, 3)):
        yield int(m), int(n), int(pair)


def whole_head(pair: tuple[float, float], position: int, which: int) -> np.ndarray:
    """A head of 128 numbers with only that pair in it, turned as the model turns it. [1, 128]"""
    head = np.zeros((1, D_HEAD))
    head[0, which], head[0, which + D_HEAD // 2] = pair
    return rope.rotate(head, rope.angles([position], D_HEAD, THETA))


def test_a_pair_turns_as_in_the_whole_head() -> None:
    for m, n, which in states():
        q, k = whole_head(QUERY, m, which), whole_head(KEY, n, which)
        for pair, position, head in ((QUERY, m, q), (KEY, n, k)):
            ours = turned(pair, [position], which)[0]
            np.testing.assert_allclose(ours, head[0, [which, which + 64]], rtol=0, atol=1e-12)
            assert np.isclose(np.hypot(*ours), np.hypot(*pair), rtol=0, atol=1e-12)
            assert np.count_nonzero(head) == 2
        np.testing.assert_allclose(
            rotation.score_at(m, n, which), score(q, k)[0, 0], rtol=0, atol=1e-12
        )


def test_only_the_distance_counts() -> None:
    """Within the rounding of an angle of some 200 radians."""
    for m, n, which in states():
        here = rotation.score_at(m, n, which)
        for by in (1, 10, 1000):
            assert np.isclose(rotation.score_at(m + by, n + by, which), here, rtol=0, atol=1e-9)
        assert np.isclose(scores(which)[m - n + LAST], here, rtol=0, atol=1e-9)
    assert len(scores(0)) == 2 * LAST + 1
    fast, slow = scores(0), scores(63)
    assert fast.max() > 4.9 and fast.min() < -4.9 and np.ptp(slow) < 0.01


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_number_is_the_library_s(lang: str) -> None:
    for m, n, which in states():
        shown = view(m, n, which, lang)
        told, drawn = "\n".join(shown.says), texts(shown.drawing)
        q, k = (whole_head(*of, which)[0, [which, which + 64]] for of in ((QUERY, m), (KEY, n)))
        dot = number(float(q @ k), 2)
        if not np.isclose(abs(q @ k * 100) % 1, 0.5, rtol=0, atol=1e-6):  # not at an edge
            assert re.split("[ ：]", shown.says[0])[-1] == dot, (m, n, which)
            assert re.split("[ ：]", shown.says[1])[-1] == dot  # both farther on
        assert all(line in drawn for line in shown.says[:3])
        assert str(m) in shown.says[0] and str(n) in shown.says[0] and str(m - n) in shown.says[0]

        columns = {"zh": ("查询 q", "键 k", "查询 − 键"), "en": ("query q", "key k", "query − key")}
        angles = rope.angles([m, n, m - n], D_HEAD, THETA)[:, which]
        for name, at, radians, after in zip(
            columns[lang], (m, n, m - n), angles, (q, k, None), strict=True
        ):
            first = drawn.index(name) + 1
            position, in_radians, in_turns, _, point, length = drawn[first : first + 6]
            assert position == str(at)
            for text, value in ((in_radians, radians), (in_turns, radians / (2 * np.pi))):
                np.testing.assert_allclose(float(text), value, rtol=0.005, atol=0.0005)
                assert after is None or text in told
            if after is not None:
                assert point == f"({number(after[0], 3)}, {number(after[1], 3)})"
                assert point in told and length == "2.236"


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_arrows_and_the_point_are_where_the_numbers_are(lang: str) -> None:
    for m, n, which in list(states())[::10]:
        shown = view(m, n, which, lang)
        root = ElementTree.fromstring(svg.written(shown.drawing, ""))
        heads = list(root.iter(f"{NAMESPACE}polygon"))
        assert [h.get("fill") for h in heads] == [BLUE, ORANGE, BLUE, ORANGE]
        circles = list(root.iter(f"{NAMESPACE}circle"))
        centre = np.array([float(circles[1].attrib["cx"]), float(circles[1].attrib["cy"])])
        scale = float(circles[1].attrib["r"]) / np.hypot(*QUERY)
        for head, pair in zip(
            heads[2:], (turned(QUERY, [m], which), turned(KEY, [n], which)), strict=True
        ):
            tip = np.array([float(c) for c in head.attrib["points"].split()[0].split(",")])
            np.testing.assert_allclose((tip - centre) / scale * [1, -1], pair[0], rtol=0, atol=0.01)
        (line,) = root.iter(f"{NAMESPACE}polyline")
        points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
        lit = circles[2].attrib
        assert (float(lit["cx"]), float(lit["cy"])) == points[m - n + LAST]
        assert len(points) == 2 * LAST + 1


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_fits_and_is_light(lang: str) -> None:
    for state in states():
        drawing = view(*state, lang).drawing
        assert drawing.width <= 1000 and len(svg.written(drawing, "")) < 20_000


def test_both_move_together() -> None:
    explorer = rotation.explorer("en")
    score_before = explorer.says.splitlines()[0].split()[-1]
    explorer.buttons["both further on (10 at most)"].click()
    assert explorer.values == {"query_position": 14, "key_position": 11, "pair": 0}
    assert explorer.says.splitlines()[0].split()[-1] == score_before
    explorer.set(query_position=LAST - 3, key_position=LAST - 9)
    explorer.buttons["both further on (10 at most)"].click()
    assert explorer.values["query_position"] == LAST
    assert explorer.values["key_position"] == LAST - 6  # the distance stays
    explorer.set(query_position=4, key_position=1).buttons["both back (10 at most)"].click()
    assert explorer.values == {"query_position": 3, "key_position": 0, "pair": 0}


def test_what_the_sliders_cannot_take_is_refused() -> None:
    for wrong in ({"query_position": LAST + 1}, {"key_position": -1}, {"pair": 64}):
        with pytest.raises(ValueError, match="cannot take"):
            rotation.explorer("en").set(**wrong)


def test_arrows_of_one_direction_keep_their_labels_apart() -> None:
    drawing = svg.plane(
        [Arrow(2, 0, "a", BLUE), Arrow(1, 0, "<b>", ORANGE, dashed=True), Arrow(0, 0, "c", BLUE)],
        "T", "C", radius=2, size=100,
    )  # fmt: skip
    assert texts(drawing) == ["T", "a", "<b>", "C"]  # an arrow of no length has no direction
    root = ElementTree.fromstring(svg.written(drawing, ""))
    places = {t.text: float(t.attrib["x"]) for t in root.iter(f"{NAMESPACE}text")}
    (circle,) = root.iter(f"{NAMESPACE}circle")
    assert float(circle.attrib["r"]) == 50
    assert places["a"] > float(circle.attrib["cx"]) + 50
    assert places["<b>"] > float(circle.attrib["cx"]) + 25
    dashed = [e for e in root.iter(f"{NAMESPACE}line") if e.get("stroke-dasharray")]
    assert [e.get("stroke") for e in dashed] == [ORANGE]


def test_a_curve_can_be_held_to_given_ends() -> None:
    drawing = svg.curve([0, 1, 2], [1.0, 1.1, 1.2], "C", across="d", ends=(-2, 2), lit=1)
    assert {"2.00", "-2.00"} <= set(texts(drawing))
    root = ElementTree.fromstring(svg.written(drawing, ""))
    (line,) = root.iter(f"{NAMESPACE}polyline")
    heights = [float(p.split(",")[1]) for p in line.attrib["points"].split()]
    assert np.ptp(heights) < 10


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_says_how_many_positions_make_a_turn(lang: str) -> None:
    for pair in (0, 7, 31, 63):
        turn = 2 * np.pi * 1e6 ** (2 * pair / 128)  # θ of Qwen2.5-7B
        told = view(4, 1, pair, lang).says[2]
        about = {"zh": f"约 {turn:.0f} 个位置转一圈", "en": f"about {turn:.0f} positions"}[lang]
        assert about in told

"""The explorer of W_O in 04: its numbers, its words, and what it refuses."""

import re
from functools import cache
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from byhand import multi_head_attention, reproduces, svg, toy
from byhand.checks import Array
from byhand.explorers import output_projection
from byhand.explorers.output_projection import EXAMPLE, FURTHEST, PRINTED, parts_of
from byhand.figures import ORANGE
from byhand.toy import TOKENS
from byhand.words import EDITIONS, places, word
from byhand.worked import number
from drawn import NAMESPACE, framed, placed, rectangles, texts

T = toy.load()
LAYER = multi_head_attention(T.X, T.W_Q, T.W_K, T.W_V, T.W_O, 2)
MERGED = np.vstack([LAYER.merged, [10, 1, 2, 8]])  # [7, 4]
PRESETS = {
    "identity": np.diag([1.0, 1, 1, 1]),
    "block-diagonal": np.array([[0.5, 1, 0, 0], [1, -0.5, 0, 0], [0, 0, 0.5, 1], [0, 0, 1, -0.5]]),
    "heads swapped": np.array([[0.0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]),
    PRINTED: T.W_O,
}
view = cache(output_projection.view)  # each state is looked at in several ways
State = tuple[str, int, int, int, float, bool, bool]
START: State = (PRINTED, 1, 1, 1, 0.0, True, True)


def states() -> list[State]:
    """A seeded sample of 200, and the ends."""
    rng = np.random.default_rng(4)
    names = list(PRESETS)
    sample: list[State] = [
        (
            names[rng.integers(4)],
            int(rng.integers(EXAMPLE + 1)),
            int(rng.integers(1, 5)),
            int(rng.integers(1, 5)),
            round(float(rng.integers(-20, 21)) / 10, 1),
            bool(rng.integers(2)),
            bool(rng.integers(2)),
        )
        for _ in range(200)
    ]
    ends: list[State] = [
        (preset, token, end, end, added, head_1, head_2)
        for preset, token, (end, added), head_1, head_2 in product(
            PRESETS, (0, EXAMPLE), ((1, -FURTHEST), (4, FURTHEST)), (True, False), (True, False)
        )
    ]
    return [START, *sample, *ends]


def by_loops(state: State) -> tuple[Array, Array, Array, Array]:
    """W_O, the merged heads, what each head writes and the output, one number at a time."""
    preset, token, row, column, added, head_1, head_2 = state
    w_o = PRESETS[preset].copy()
    w_o[row - 1, column - 1] = round(10 * (w_o[row - 1, column - 1] + added)) / 10
    merged = MERGED[token] * [head_1, head_1, head_2, head_2]
    shares = np.zeros((2, 4))
    for r, c in np.ndindex(4, 4):
        shares[r // 2, c] += merged[r] * w_o[r, c]
    return w_o, merged, shares, np.array([shares[0, c] + shares[1, c] for c in range(4)])


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_shows_what_loops_compute(lang: str) -> None:
    """32 numbers in the drawing, in their places, and the same in words."""
    for state in states():
        w_o, merged, shares, output = by_loops(state)
        decimals = 1 if state[1] == EXAMPLE else 3
        shown = view(*state, lang=lang)
        cells = [t for t in texts(shown.drawing) if re.fullmatch(r"-?\d+\.\d+", t)]
        assert cells == [
            *(number(x, decimals) for x in merged),
            *(number(x, 1) for x in w_o.ravel().tolist()),
            *(number(x, decimals) for x in [*shares.ravel().tolist(), *output.tolist()]),
        ], state
        told = "\n".join(shown.says)
        for numbers in (merged[:2], merged[2:], *shares, output):
            assert "  ".join(number(x, decimals) for x in numbers) in told, state
        for row in w_o:
            assert "  ".join(number(x, 1) for x in row) in told, state
        assert "  ".join(number(x, decimals) for x in output) in shown.says[0]
        assert not re.search(r"-0\.0+(?!\d)|nan|inf", told + shown.formula + " ".join(cells)), state
        assert shown.formula.endswith(
            f"= {number(output[state[3] - 1], decimals)}\n\\end{{aligned}}"
        ) or shown.formula.endswith(
            f"\\approx {number(output[state[3] - 1], decimals)}\n\\end{{aligned}}"
        )


def test_the_shares_sum_to_the_output() -> None:
    for state in states():
        parts = parts_of(*state)
        np.testing.assert_allclose(parts.shares.sum(axis=0), parts.output, rtol=0, atol=1e-12)
        np.testing.assert_allclose(parts.output, by_loops(state)[3], rtol=0, atol=1e-12)


def stands_in(said: str, drawn: list[str]) -> bool:
    """Whether a sentence stands in a drawing, over two lines."""
    return any(a and b and said in (a + b, f"{a} {b}") for a, b in pairwise(drawn))


def heads_of(w_o: Array) -> list[str]:
    """Of each output, the heads with a number other than 0 in its column."""
    found = []
    for c in range(4):
        heads = {r // 2 + 1 for r in range(4) if w_o[r, c] != 0}
        found.append("+".join(map(str, sorted(heads))))
    return found


@pytest.mark.parametrize(
    ("lang", "mixes", "apart", "both", "one", "none"),
    [
        ("zh", "把头混起来了。", "没有把头混起来。", "里两个头都有", "头 {}", "没有头"),
        ("en", "mixes the heads.", "does not mix", "both heads reach output", "head {}", "no head"),
    ],
)
def test_it_says_whether_the_heads_are_mixed(
    lang: str, mixes: str, apart: str, both: str, one: str, none: str
) -> None:
    together = {"zh": "两个头", "en": "both"}[lang]
    for state in states():
        held = heads_of(by_loops(state)[0])
        shown = view(*state, lang=lang)
        said = shown.says[1].lower()
        assert (mixes in said) == ("1+2" in held) and (apart in said) == ("1+2" not in held), state
        assert stands_in(shown.says[1], texts(shown.drawing)), state
        for heads, word_of in {
            "1+2": both,
            "1": {"zh": "里只有头 1", "en": "only head 1"}[lang],
            "2": {"zh": "里只有头 2", "en": "only head 2"}[lang],
            "": none,
        }.items():
            (part,) = [p for p in re.split("[；。;.]", said) if word_of in p] or [""]
            numbers = [str(c + 1) for c in range(4) if held[c] == heads]
            listed = re.findall(r"\d", re.sub("(头|head) [12]", "", part))
            assert listed == numbers, (state, said)
        headings = [
            {"1+2": together, "": none}.get(h, one.format(h)) for h in held
        ]  # the columns of what the heads write
        drawn = texts(shown.drawing)
        assert any(drawn[n : n + 4] == headings for n in range(len(drawn))), (state, headings)


@pytest.mark.parametrize("lang", EDITIONS)
def test_only_the_printed_one_mixes_until_an_entry_changes(lang: str) -> None:
    assert toy.output_projections().keys() == PRESETS.keys()
    for preset, w_o in toy.output_projections().items():
        np.testing.assert_array_equal(w_o, PRESETS[preset])
        assert ("1+2" in heads_of(w_o)) == (preset == PRINTED)
    mixed = view("block-diagonal", 1, 2, 3, 0.1, True, True, lang).says[1]
    assert {"zh": "输出 3 里两个头都有", "en": "both heads reach output 3"}[lang] in mixed.lower()
    # 0.3 less 0.3 is nothing at all, and so is 0.1 less 0.1
    gone = parts_of(PRINTED, 1, 2, 4, -0.3, True, True).w_o
    assert gone[1, 3] == 0 and heads_of(gone)[3] == "2"
    assert parts_of(PRINTED, 1, 1, 3, -0.1, True, True).w_o[0, 2] == 0


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_says_what_the_framed_entry_does(lang: str) -> None:
    for state in states():
        preset, _, row, column, added, _, _ = state
        w_o, merged, _, output = by_loops(state)
        decimals = 1 if state[1] == EXAMPLE else 3
        shown = view(*state, lang=lang)
        said = shown.says[2]
        assert stands_in(said, texts(shown.drawing)), state
        old, new = PRESETS[preset][row - 1, column - 1], w_o[row - 1, column - 1]
        numbers = [str(row), str(column), number(old, 1)]
        if added:
            numbers += [number(abs(added), 1), number(new, 1)]
            more = {"zh": "加减", "en": ("plus", "less")}[lang][int(added < 0)]
            assert f" {more} {numbers[3]}" in said
        head, dimension = str((row + 1) // 2), str(2 - row % 2)
        numbers += [head, dimension] if lang == "zh" else [dimension, head]
        numbers.append(str(column))
        if added:
            moved = output[column - 1] - by_loops((*state[:4], 0.0, *state[5:]))[3][column - 1]
            np.testing.assert_allclose(moved, merged[row - 1] * (new - old), rtol=0, atol=1e-12)
            on = state[5:][(row - 1) // 2]
            numbers += [str(column), number(abs(moved), decimals)] if on else [head]
            way = {"zh": ("多了", "少了"), "en": ("up", "down")}[lang][int(moved < 0)]
            assert way in said or not on
            assert on or moved == 0
        assert re.findall(r"-?\d+(?:\.\d+)?", said) == numbers, (state, said)
        to_none = {"zh": "到不了", "en": "does not reach"}[lang]
        assert (to_none in said) == (new == 0)
        title = {"zh": "，改了一个数", "en": ", one number changed"}[lang]
        assert ((word(preset, lang) + title) in shown.says[6]) == bool(added)


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_frames_join_what_is_multiplied(lang: str) -> None:
    """One of merged, one of W_O, one of the output: in one row, and in one column."""
    for row, column in product(range(1, 5), repeat=2):
        shown = view(PRINTED, 1, row, column, 0.0, True, True, lang)
        root = ElementTree.fromstring(svg.written(shown.drawing, ""))
        frames = []
        for group in root.iter(f"{NAMESPACE}g"):  # each frame is in the group of its matrix
            frames += [
                r.attrib for r in group.findall(f"{NAMESPACE}rect") if r.get("stroke") == ORANGE
            ]
        assert len(frames) == 3
        merged, entry, output = frames
        assert merged["y"] == entry["y"]
        # their matrices have titles of the same height: the output is the third of its rows
        assert float(output["y"]) - float(merged["y"]) == 30 * (2 - (row - 1))
        assert float(entry["x"]) == 0.5 + 78 * (column - 1)


def test_a_head_that_is_off_writes_nothing() -> None:
    for preset, token in product(PRESETS, range(EXAMPLE + 1)):
        on, one, two, none = (
            parts_of(preset, token, 1, 1, 0.0, *heads)
            for heads in ((True, True), (True, False), (False, True), (False, False))
        )
        assert not one.shares[1].any() and not two.shares[0].any() and not none.output.any()
        assert not np.signbit(none.output).any()
        np.testing.assert_array_equal(one.shares[0], on.shares[0])
        np.testing.assert_array_equal(two.shares[1], on.shares[1])
        np.testing.assert_allclose(one.output + two.output, on.output, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("preset", "off", "zh", "en"),
    [
        (PRINTED, 2, "头 2 关着，写的全是 0。没有一个输出和开着时一样。",
         "Head 2 is off and writes zeros. No output is what it is with the head on."),
        ("block-diagonal", 2, "头 2 关着，写的全是 0。输出 1、2 和开着时一样。",
         "Head 2 is off and writes zeros. Outputs 1, 2 are the same as with the head on."),
        ("heads swapped", 1, "头 1 关着，写的全是 0。输出 1、2 和开着时一样。",
         "Head 1 is off and writes zeros. Outputs 1, 2 are the same as with the head on."),
        ("identity", 1, "头 1 关着，写的全是 0。输出 3、4 和开着时一样。",
         "Head 1 is off and writes zeros. Outputs 3, 4 are the same as with the head on."),
    ],
)  # fmt: skip
def test_it_says_what_stays_without_a_head(preset: str, off: int, zh: str, en: str) -> None:
    for token in range(EXAMPLE + 1):
        for lang, wanted in (("zh", zh), ("en", en)):
            shown = view(preset, token, 1, 1, 0.0, off != 1, off != 2, lang)
            assert shown.says[3] == wanted and wanted in texts(shown.drawing)
    one_left = view("block-diagonal", 1, 1, 3, 0.5, False, True, "en").says[3]
    assert one_left.endswith("Output 4 is the same as with the head on.")
    assert view(preset, 1, 1, 1, 0.0, False, False, "en").says[3].endswith("every output is 0.")


def test_with_the_identity_the_output_is_what_was_merged() -> None:
    for token in range(EXAMPLE + 1):
        parts = parts_of("identity", token, 1, 1, 0.0, True, True)
        np.testing.assert_array_equal(parts.output, parts.merged)
        np.testing.assert_array_equal(parts.merged, MERGED[token])
        told = view("identity", token, 1, 1, 0.0, True, True, "en").says[0]
        assert told.endswith("(the four merged numbers as they are)")
    for changed in (
        ("identity", 1, 1, 1, 0.1, True, True),
        ("identity", 1, 1, 1, 0.0, False, False),
        START,
    ):
        assert "as they are" not in view(*changed, lang="en").says[0]


def test_it_starts_at_the_numbers_of_the_notebook_and_holds_the_published_ones() -> None:
    for lang in EDITIONS:
        explorer = output_projection.explorer(lang)
        assert tuple(explorer.values.values()) == START
        assert "  ".join(number(x, 3) for x in LAYER.output[1]) in explorer.says.splitlines()[0]
        explorer.set(token=EXAMPLE)
        published = "  ".join(f"{x:.1f}" for x in toy.published("mixing.out").values)
        assert explorer.says.splitlines()[0].endswith(published)
    assert reproduces("mixing.out", parts_of(PRINTED, EXAMPLE, 1, 1, 0.0, True, True).output)


@pytest.mark.parametrize(
    ("wrong", "zh", "en"),
    [
        ({"preset": "mine"}, "没有叫 'mine' 的 W_O", "no W_O 'mine'; there are: identity"),
        ({"token": 7}, "0 到 6", "between 0 and 6"),
        ({"row": 0}, "W_O 的行从 1 到 4，给的是 0", "the rows of W_O are 1 to 4, not 0"),
        ({"column": 5}, "W_O 的列从 1 到 4，给的是 5", "the columns of W_O are 1 to 4, not 5"),
        ({"added": 2.1}, "最多加减 2", "at most 2 can be added or taken away, not 2.1"),
        ({"added": float("nan")}, "有限的数", "must be a finite number"),
    ],
)
def test_what_there_is_not_is_refused_in_words(wrong: dict[str, Any], zh: str, en: str) -> None:
    names = ("preset", "token", "row", "column", "added", "head_1", "head_2")
    with pytest.raises(ValueError) as refused:
        view(**{**dict(zip(names, START, strict=True)), **wrong}, lang="en")
    assert zh in str(refused.value) and en in str(refused.value)


@pytest.mark.parametrize("lang", EDITIONS)
def test_nothing_jumps_when_a_head_is_switched(lang: str) -> None:
    """And the drawing stays small, whatever the state; it fits a page of JupyterLab."""
    seen = []
    for head_1, head_2 in product((True, False), repeat=2):
        drawing = view(PRINTED, 1, 1, 1, 0.0, head_1, head_2, lang).drawing
        cells = [np.array([x, y]) for e, x, y in placed(drawing) if e.tag.endswith("rect")]
        seen.append(np.array([*cells, (drawing.width, drawing.height)]))
    for shown in seen:
        np.testing.assert_allclose(shown, seen[0], rtol=0, atol=0.2)  # pixels
    for state in states():
        drawing = view(*state, lang=lang).drawing
        assert drawing.width < 750 and len(drawing.body) < 20_000


@pytest.mark.parametrize("lang", EDITIONS)
def test_its_controls_speak_the_language(lang: str) -> None:
    explorer = output_projection.explorer(lang)
    names = "".join(control.description for control in explorer.controls.values())
    assert bool(re.search("[\u4e00-\u9fff]", names)) == (lang == "zh")
    assert list(explorer.controls["preset"].options) == [
        (word(preset, lang), preset) for preset in PRESETS
    ]
    assert [label for label, _ in explorer.controls["token"].options] == [
        *places(TOKENS, lang), "a = [10, 1, 2, 8]",
    ]  # fmt: skip
    explorer.set(head_1=False, head_2=False)
    assert explorer.says.splitlines()[0].endswith("0.000  0.000  0.000  0.000")
    tenths = explorer.controls["added"].options
    assert [label for label, _ in tenths] == [f"{n / 10:.1f}" for n in range(-20, 21)]
    assert all(float(label) == value for label, value in tenths)


def test_a_rule_lies_above_its_row() -> None:
    plain = svg.matrix(np.eye(3), "w_o", "M", ["a", "b", "c"], ["x", "y", "z"], decimals=1)
    ruled = svg.matrix(
        np.eye(3), "w_o", "M", ["a", "b", "c"], ["x", "y", "z"], decimals=1, rules=[1]
    )
    assert ruled[:2] == plain[:2] and texts(ruled) == texts(plain)
    root = ElementTree.fromstring(svg.written(ruled, ""))
    band, line = root.iter(f"{NAMESPACE}line")  # the band has the colour of the page
    assert float(band.attrib["stroke-width"]) > float(line.attrib["stroke-width"])
    assert band.attrib["y1"] == line.attrib["y1"] and band.attrib["stroke"] != line.attrib["stroke"]
    cells = [r for r in rectangles(ruled) if r["fill"] != "none"]
    end_of_first, start_of_second = (float(cells[n]["y"]) + 29 * (n == 0) for n in (0, 3))
    assert line.attrib["y1"] == line.attrib["y2"]
    assert end_of_first <= float(line.attrib["y1"]) <= start_of_second
    with pytest.raises(ValueError, match="rules"):
        svg.matrix(np.eye(2), "w_o", "M", ["a", "b"], ["x", "y"], decimals=1, rules=[2])


def test_the_framed_output_is_that_of_the_framed_column() -> None:
    for row, column in product(range(1, 5), repeat=2):
        state = (PRINTED, 1, row, column, 0.3, True, True)
        w_o, merged, _, output = by_loops(state)
        found = framed(view(*state, lang="en").drawing)
        wanted = ((merged[row - 1], 3), (w_o[row - 1, column - 1], 1), (output[column - 1], 3))
        assert found == [[number(value, decimals)] for value, decimals in wanted]

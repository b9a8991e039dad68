"""05, the explorer of the heads of a real model: every pair of tokens, every head."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from byhand import data, svg
from byhand.explorer import Explorer, View, slider
from byhand.explorers import real_heads
from byhand.explorers.real_heads import FIRST, ranking, trained, view
from byhand.figures import ORANGE
from byhand.words import EDITIONS, pick
from byhand.worked import number
from drawn import framed, rectangles, texts

with np.load(data.path("real_heads_e5.npz")) as file:
    TOKENS = [str(token) for token in file["tokens"]]
    A = file["attention"].astype(np.float64)
LAYERS, HEADS, S, _ = A.shape
PAIRS = list(product(range(S), range(S)))


def sample() -> list[tuple[int, int, int, int]]:
    """The corners, and a seeded sample of 200 states."""
    rng = np.random.default_rng(5)
    ends = [(0, n - 1) for n in A.shape]
    return [
        *product(*ends),
        *((int(a), int(b), int(c), int(d)) for a, b, c, d in rng.integers(0, A.shape, (200, 4))),
    ]


def places(layer: int, head: int, query: int, key: int) -> int:
    """The place of a head among all of them, counted one by one."""
    here = A[layer, head, query, key]
    return 1 + sum(bool(A[x, y, query, key] > here) for x in range(LAYERS) for y in range(HEADS))


def test_the_weights_are_those_of_the_file_and_each_row_sums_to_one() -> None:
    tokens, weights = trained()
    assert list(tokens) == TOKENS and np.array_equal(weights, A)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=4e-4)  # stored in 16 bits


@pytest.mark.parametrize(("query", "key"), PAIRS)
def test_the_ranking_of_every_pair_holds_every_head_once(query: int, key: int) -> None:
    ranked = ranking(query, key)
    assert {(r.layer, r.head) for r in ranked} == set(product(range(LAYERS), range(HEADS)))
    assert ranked[0].weight == A[:, :, query, key].max() and ranked[0].rank == 1
    for r in ranked:
        assert r.weight == A[r.layer, r.head, query, key]
        assert r.rank == places(r.layer, r.head, query, key)
    falling = [r.weight for r in ranked]
    assert falling == sorted(falling, reverse=True)


def test_equal_weights_share_their_place() -> None:
    """Of <s> → <s> and the like, several heads give the same in 16 bits."""
    shared = [
        (a, b)
        for query, key in PAIRS
        for a, b in zip(ranking(query, key), ranking(query, key)[1:], strict=False)
        if a.weight == b.weight
    ]
    assert shared and all(a.rank == b.rank for a, b in shared)


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_map_the_table_and_the_words_hold_the_weights_of_the_file(lang: str) -> None:
    for layer, head, query, key in sample():
        shown = view(layer, head, query, key, lang)
        assert shown == View(shown.drawing, shown.says)  # no formula
        of_head, pair = A[layer, head], A[:, :, query, key]
        told = shown.says
        drawn = texts(shown.drawing)

        # In one line: the head, the pair, its weight and its place.
        place = places(layer, head, query, key)
        own = number(A[layer, head, query, key], 3)
        assert told[0] == drawn[0]
        assert f"{TOKENS[query]} → {TOKENS[key]} {own}" in told[0]
        numbers = re.findall(
            r"\d+(?:\.\d+)?", told[0].replace(f"{TOKENS[query]} → {TOKENS[key]}", "")
        )
        assert (
            numbers
            == pick(
                lang,
                f"{layer} {head} {own} {A[..., 0, 0].size} {place}",
                f"{layer} {head} {own} {place} {A[..., 0, 0].size}",
            ).split()
        )

        # The map, row by row with its token, below the tokens of the columns.
        start = drawn.index(TOKENS[0])
        assert drawn[start : start + S] == TOKENS
        grid = np.array(drawn[start + S : start + S + S * (S + 1)]).reshape(S, S + 1)
        assert grid[:, 0].tolist() == TOKENS
        assert grid[:, 1:].tolist() == [[number(w, 2) for w in row] for row in of_head]

        # The table: the five largest weights, and this head below where it is not one of them.
        after = drawn[start + S + S * (S + 1) :]
        columns = pick(lang, "名次 层 头 权重", "rank layer head weight").split()
        starts = [after.index(name) + 1 for name in columns]  # each is followed by its cells
        n_rows = starts[1] - starts[0] - 1
        cells = list(zip(*(after[at : at + n_rows] for at in starts), strict=True))
        listed = [tuple(map(int, (r, x, y))) for r, x, y, _ in cells]
        assert [w for *_, w in cells[:FIRST]] == [
            number(w, 3) for w in np.sort(pair, axis=None)[::-1][:FIRST]
        ]
        for (rank, x, y), (*_, weight) in zip(listed, cells, strict=True):
            assert weight == number(pair[x, y], 3) and rank == places(x, y, query, key)
            if rank <= FIRST:
                assert f"{weight}" in told[1]
        assert (place, layer, head) in listed and len(set(listed)) == len(listed)
        assert len(listed) == FIRST + ((place, layer, head) not in listed[:FIRST])

        # Who gives most to this key in this head; the row; the maxima.
        giver = int(of_head[:, key].argmax())
        assert told[2] in drawn and number(of_head[giver, key], 3) in told[2]
        assert TOKENS[giver] in told[2] and TOKENS[key] in told[2]
        assert told[3].endswith(
            "  ".join(f"{t} {number(w, 2)}" for t, w in zip(TOKENS, of_head[query], strict=True))
        )
        assert told[4].endswith(
            "  ".join(
                f"{t} → {TOKENS[j]} {number(row[j], 2)}"
                for t, row in zip(TOKENS, of_head, strict=True)
                for j in range(S)
                if row[j] == max(row)
            )
        )


def test_frames_are_on_the_maximum_of_each_row_and_round_the_row_and_column_chosen() -> None:
    for layer, head, query, key in sample():
        shown = list(rectangles(view(layer, head, query, key, "en").drawing))
        cells = [r for r in shown if r["fill"] != "none"]
        assert len(cells) == S * S
        frames = [r for r in shown if r["stroke"] == ORANGE][:-1]  # the last is in the table
        largest = [
            (i, j) for i, row in enumerate(A[layer, head]) for j in range(S) if row[j] == max(row)
        ]
        framed_cells = [
            divmod(n, S) for n in range(S * S) if any(inside(cells[n], frame) for frame in frames)
        ]
        assert framed_cells == largest and len(frames) == len(largest)
        row, column = (r for r in shown if r["stroke"] == svg.INK)
        assert [n for n in range(S * S) if inside(cells[n], row)] == [
            query * S + j for j in range(S)
        ]
        assert [n for n in range(S * S) if inside(cells[n], column)] == [
            i * S + key for i in range(S)
        ]


def inside(cell: dict[str, str], frame: dict[str, str]) -> bool:
    """Whether the middle of a cell is in a frame."""
    x, y, width, height = (float(cell[a]) for a in ("x", "y", "width", "height"))
    left, top, wide, high = (float(frame[a]) for a in ("x", "y", "width", "height"))
    return left < x + width / 2 < left + wide and top < y + height / 2 < top + high


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_button_goes_to_the_head_that_gives_most(lang: str) -> None:
    explorer = real_heads.explorer(lang)
    jump = next(iter(explorer.buttons.values()))
    for query, key in PAIRS:
        explorer.set(layer=6, head=6, query=query, key=key)
        jump.click()
        now = explorer.values
        assert (now["query"], now["key"]) == (query, key)
        assert A[now["layer"], now["head"], query, key] == A[:, :, query, key].max()
    assert list(explorer.buttons) == pick(
        lang,
        "跳到看得最多的头|回到开始",
        "Go to the head that looks there most|Start again",
    ).split("|")


def test_controls_count_as_the_notebook_and_name_the_tokens() -> None:
    explorer = real_heads.explorer("zh")
    for name, last in (("layer", LAYERS - 1), ("head", HEADS - 1)):
        control: Any = explorer.controls[name]
        assert (control.min, control.max) == (0, last)
    for name in ("query", "key"):
        control = explorer.controls[name]
        assert dict(control.options) == {token: n for n, token in enumerate(TOKENS)}
    start = explorer.values
    assert (TOKENS[start["query"]], TOKENS[start["key"]]) == ("怎么样", "西安")
    assert ranking(start["query"], start["key"])[0][1:3] == (start["layer"], start["head"])


def test_the_marks_of_the_ends_are_no_markup() -> None:
    picture = real_heads.explorer("en").set(query=0, key=S - 1).picture.value
    assert "<s>" not in picture and "&lt;s&gt; → &lt;/s&gt;" in picture


@pytest.mark.parametrize(
    "wrong", [(LAYERS, 0, 0, 0), (0, HEADS, 0, 0), (0, 0, S, 0), (0, 0, 0, -1)]
)
def test_what_is_not_in_the_model_is_refused_in_words(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(
        ValueError, match="must be a whole number between 0 and .*\n.*[\u4e00-\u9fff]"
    ):
        view(*wrong, lang="en")


# ---- what is general ----------------------------------------------------------------------------


def test_a_button_may_set_a_function_of_the_present_values() -> None:
    explorer = Explorer(
        "T",
        {"a": slider("en", "", "a", 1, 0, 8), "b": slider("en", "", "b", 2, 0, 8)},
        lambda a, b: View(svg.label(""), (f"{a} {b}",)),
        "en",
        buttons={"both": lambda a, b: {"a": a + b, "b": a}},
    )
    explorer.buttons["both"].click()
    assert explorer.values == {"a": 3, "b": 1}
    explorer.buttons["both"].click()
    assert explorer.says == "4 3"
    explorer.buttons["Start again"].click()
    assert explorer.says == "1 2"


def test_a_matrix_outlines_one_row_and_one_column_with_their_labels() -> None:
    values = np.arange(6.0).reshape(2, 3)

    def drawn(**outlined: Any) -> list[dict[str, str]]:
        made = svg.matrix(
            values, "scores", "S", ["a", "b"], ["x", "y", "z"], decimals=0, **outlined
        )
        return list(rectangles(made))

    plain = drawn()
    paper, row = drawn(outlined_row=1)[len(plain) :]
    assert paper == {**row, "stroke": svg.PAPER, "stroke-width": "4"}  # under the ink, and wider
    _, column = drawn(outlined_column=0)[len(plain) :]
    assert [inside(r, row) for r in plain] == [False] * 3 + [True] * 3
    assert [inside(r, column) for r in plain] == [True, False, False] * 2
    assert float(row["x"]) <= 0  # the label is in it
    assert float(column["y"]) < float(plain[0]["y"]) - svg.SIZE
    assert row["stroke"] == column["stroke"] == svg.INK
    for name in ("outlined_row", "outlined_column"):
        with pytest.raises(ValueError, match="[\u4e00-\u9fff]"):
            drawn(**{name: 3})


def test_the_framed_line_of_the_table_is_the_present_head() -> None:
    for layer, head in ((0, 0), (3, 4), (10, 4), (11, 11)):
        for query, key in ((1, 2), (5, 2), (7, 0)):
            table = framed(view(layer, head, query, key, "en").drawing)[-1]
            assert table[1:3] == [str(layer), str(head)]


def test_equal_maxima_are_all_said() -> None:
    """The file holds 16 bits, and some rows have two that are equal."""
    layer, head, i = next(
        (int(x), int(y), int(i)) for x, y, i in np.argwhere(
            (A.max(axis=-1, keepdims=True) == A).sum(axis=-1) > 1
        )
    )  # fmt: skip
    told = view(layer, head, 0, 0, "en").says[4]
    assert told.count(f"{TOKENS[i]} → ") > 1

"""The explorer of 02: one row through the softmax, its numbers held against NumPy's own."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand import published, reproduces, svg, toy
from byhand.checks import Array
from byhand.explorers import softmax_row
from byhand.explorers.softmax_row import COLDEST, MOST, PRINTED, WARMEST, row_of, view
from byhand.figures import BLUE, ORANGE
from byhand.toy import GLOSSES, TOKENS
from byhand.words import EDITIONS
from drawn import NAMESPACE, framed, rectangles, texts

State = tuple[int, float, int, float, bool]  # query, temperature, key, extra, causal

tokens = st.integers(0, len(TOKENS) - 1)
temperatures = st.integers(round(10 * COLDEST), round(10 * WARMEST)).map(lambda n: n / 10)
extras = st.integers(round(-10 * MOST), round(10 * MOST)).map(lambda n: n / 10)


def states() -> list[State]:
    """A seeded sample of 200, the ends, and the printed state of every query."""
    rng = np.random.default_rng(2)
    sample = [
        (int(q), int(t) / 10, int(k), int(e) / 10, bool(c))
        for q, t, k, e, c in zip(
            rng.integers(0, 6, 200), rng.integers(1, 51, 200), rng.integers(0, 6, 200),
            rng.integers(-50, 51, 200), rng.integers(0, 2, 200), strict=True,
        )
    ]  # fmt: skip
    ends = itertools.product((0, 5), (COLDEST, WARMEST), (0, 5), (-MOST, MOST), (False, True))
    return [*sample, *ends, *((q, 1.0, 0, 0.0, c) for q in range(6) for c in (False, True))]


def independently(state: State) -> tuple[Array, Array, Array, Array, Array]:
    """Scaled, changed, shifted, exponentials and weights, without the library's attention."""
    query, temperature, key, extra, causal = state
    t = toy.load()
    scaled = (t.X[query] @ t.W_Q) @ (t.X @ t.W_K).T / 2
    changed = scaled.copy()
    changed[key] += extra
    changed /= temperature
    if causal:
        changed[query + 1 :] = -np.inf
    exps = np.exp(changed - changed.max())
    return scaled, changed, changed - changed.max(), exps, exps / exps.sum()


def written(value: float, decimals: int) -> str:
    """As a reader should see it: a number, never −0, or −∞."""
    return f"{value:z.{decimals}f}" if np.isfinite(value) else "−∞"


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_number_is_said_and_drawn(lang: str) -> None:
    for state in states():
        shown = view(*state, lang)
        told, drawn = "\n".join(shown.says), texts(shown.drawing)
        *_, exps, weights = rows = independently(state)
        printed = published("weights").values[state[0]]
        places = zip((*rows, printed), (2, 2, 2, 4, 3, 3), strict=True)
        numbers = [[written(x, decimals) for x in row] for row, decimals in places]
        for line in numbers:
            assert "  ".join(line) in told, state
        # The drawing: six numbers a row in their order, then the bars with theirs.
        cells = [t for t in drawn if re.fullmatch(r"-?\d+\.\d+|−∞", t)]
        assert cells == [*itertools.chain(*numbers), *numbers[4]], state
        total = f"Σ = {exps.sum():.4f}"
        assert total in told and any(t.endswith(total) for t in drawn)
        assert sum(t.endswith("Σ = 1.000") for t in drawn) >= 1
        # The first line: the weight of the changed key, and the largest.
        first, key, best = shown.says[0], state[2], int(weights.argmax())
        assert TOKENS[state[0]] in first and f"{weights[key]:.3f}" in first
        assert f"{weights[best]:.3f}" in first and TOKENS[best] in first
        assert ({"zh": "六个里最多", "en": "the largest of the six"}[lang] in first) == (
            key == best
        )
        # And every sentence that is said stands in the drawing.
        assert all(line in drawn for line in shown.says[7:])


@pytest.mark.parametrize("lang", EDITIONS)
def test_bars_are_the_weights_and_lines_the_printed_ones(lang: str) -> None:
    for state in states()[::7]:
        weights, printed = independently(state)[-1], published("weights").values[state[0]]
        drawing = view(*state, lang).drawing
        bars = [r for r in rectangles(drawing) if r["fill"] == BLUE]
        np.testing.assert_allclose([float(r["width"]) for r in bars], 240 * weights, atol=0.051)
        framed = [n for n, r in enumerate(bars) if r["stroke"] == ORANGE]
        assert framed == [int(weights.argmax())]
        root = ElementTree.fromstring(svg.written(drawing, ""))
        lines = [float(line.attrib["x1"]) for line in root.iter(f"{NAMESPACE}line")]
        zero = float(bars[0]["x"])
        np.testing.assert_allclose(np.array(lines) - zero, 240 * printed, atol=0.11)


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_drawing_keeps_its_size(lang: str) -> None:
    """Nothing jumps when a control moves, and it fits beside the margin of a notebook."""
    sizes = {view(*state, lang).drawing.width for state in states()}
    assert len(sizes) == 1 and sizes.pop() <= 760
    assert max(view(*state, lang).drawing.height for state in states()) < 420


def test_the_printed_row_is_reproduced() -> None:
    row = row_of(**PRINTED)
    assert reproduces("scaled.xian", row.scaled) and reproduces("scaled.xian", row.changed)
    assert reproduces("exp.xian", row.exps) and reproduces("expsum.xian", row.exps.sum())
    rows = np.array([row_of(q, 1.0, 0, 0.0, False).weights for q in range(6)])
    assert reproduces("weights", rows)
    same = {"zh": "和印出来的一样", "en": "As printed"}
    for lang in EDITIONS:
        assert same[lang] in "\n".join(view(**PRINTED, lang=lang).says)
        for state in states()[::5]:
            apart = np.abs(independently(state)[-1] - published("weights").values[state[0]])
            told = "\n".join(view(*state, lang).says)
            assert (same[lang] in told) == (apart.max() <= 0.0005)
            if apart.max() > 0.0005:
                where = TOKENS[int(apart.argmax())]
                assert re.search(rf"{apart.max():.3f}.*{re.escape(where)}", told)


def test_half_the_temperature_undoes_the_scaling() -> None:
    """The scaling divides by 2, so a temperature of a half gives the scores as they were."""
    weights = row_of(0, 0.5, 0, 0.0, False).weights
    assert reproduces("weights.unscaled.jintian_q", weights[5])


@given(tokens, temperatures, tokens, extras, st.booleans())
def test_weights_are_shares(q: int, t: float, k: int, e: float, causal: bool) -> None:
    row = row_of(q, t, k, e, causal)
    assert np.all(row.weights >= 0)
    np.testing.assert_allclose(row.weights.sum(), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(row.exps / row.exps.sum(), row.weights, rtol=0, atol=1e-12)
    assert row.shifted.max() == 0 and row.exps.max() == 1
    assert np.array_equal(np.isneginf(row.changed), (np.arange(6) > q) & causal)
    assert np.all(row.weights[np.isneginf(row.changed)] == 0)


@given(tokens, temperatures, tokens, extras, st.booleans())
def test_a_raised_score_takes_from_all_others(
    q: int, t: float, k: int, e: float, causal: bool
) -> None:
    """Its weight grows and the others shrink in proportion; behind the mask nothing moves."""
    before = row_of(q, t, k, min(e, MOST - 0.1), causal)
    after = row_of(q, t, k, round(min(e, MOST - 0.1) + 0.1, 1), causal)
    moves = after.weights - before.weights
    if not np.isfinite(before.changed[k]):
        assert np.array_equal(after.weights, before.weights)
        return
    others = np.arange(6) != k
    assert moves[k] >= 0 and np.all(moves[others] <= 1e-15)
    np.testing.assert_allclose(
        after.weights[others] * before.weights[others].sum(),
        before.weights[others] * after.weights[others].sum(),
        rtol=0, atol=1e-12,
    )  # fmt: skip


def entropy(weights: Array) -> float:
    seen = weights[weights > 0]
    return float(-(seen * np.log(seen)).sum())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("query", range(6))
def test_a_high_temperature_makes_a_row_flatter(query: int, causal: bool) -> None:
    for key, extra in ((0, 0.0), (query, 1.5), (5, -3.0)):
        rows = [row_of(query, n / 10, key, extra, causal).weights for n in range(1, 51)]
        spread = np.diff([entropy(w) for w in rows])
        assert np.all(spread >= -1e-12) and np.all(np.diff([w.max() for w in rows]) <= 1e-12)
        assert np.all(spread[10:] > 0) or np.count_nonzero(rows[0]) == 1 == query + 1


def test_it_says_in_words_what_temperature_and_mask_do() -> None:
    def told(lang: str, **changes: object) -> str:
        return "\n".join(view(**{**PRINTED, **changes}, lang=lang).says)

    for zh, en, changes in (
        ("÷ 温度 0.5", "all ÷ 0.5", {"temperature": 0.5}),
        ("更尖", "more peaked", {"temperature": 0.5}),
        ("更平", "flatter", {"temperature": 2.0}),
        ("除以 1，和没除一样", "dividing by 1 does nothing", {}),
        ("没有改动", "no change", {}),
        (
            "「天气」+2.0，遮住后面的键",
            "天气 +2.0, later keys masked",
            {"key": 3, "extra": 2.0, "causal": True},
        ),
        ("「天气」被遮住了", "天气 is masked", {"key": 3, "causal": True}),
        (
            "只看得到自己：权重总是 1",
            "sees only itself: its weight is 1",
            {"query": 0, "causal": True},
        ),
    ):
        assert zh in told("zh", **changes) and en in told("en", **changes)
    for lang, words in (("zh", "被遮住了"), ("en", "is masked")):
        assert words not in told(lang, key=0, causal=True) and words not in told(lang, key=3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"query": 6}, "query must be a whole number between 0 and 5"),
        ({"query": -1}, "query"),
        ({"key": 1.0}, "key must be a whole number"),
        ({"temperature": 0.0}, "temperature goes from 0.1 to 5, in tenths; it is 0.0"),
        ({"temperature": 5.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"extra": 5.1}, "extra goes from -5 to 5"),
        ({"extra": 0.05}, "in tenths"),
        ({"extra": float("inf")}, "extra"),
    ],
)
def test_what_is_out_of_range_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told) as error:
        row_of(**{**PRINTED, **changes})
    assert re.search("[\u4e00-\u9fff]", str(error.value).splitlines()[-1])


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_follows_its_controls_and_goes_back_to_the_printed_row(lang: str) -> None:
    explorer = softmax_row.explorer(lang)
    assert explorer.values == PRINTED
    start = explorer.says
    back = {"zh": "印出来的那一行", "en": "The printed row"}[lang]
    assert list(explorer.buttons) == [back]
    moves = {"query": 3, "temperature": 0.7, "key": 2, "extra": -1.3, "causal": True}
    for name, value in moves.items():
        explorer.controls[name].value = value
        values = explorer.values
        assert explorer.says == "\n".join(view(**values, lang=lang).says)
    assert not explorer.problem and explorer.values == moves
    explorer.buttons[back].click()
    assert explorer.says == start and explorer.values == PRINTED
    for wrong in ({"extra": 0.05}, {"temperature": 0.0}, {"key": 6}):  # between stops, beyond them
        with pytest.raises(ValueError, match="cannot take"):
            explorer.set(**wrong)
    assert explorer.values == PRINTED


def test_sliders_show_the_very_value_they_stand_at() -> None:
    """What is read off the page is the value; the stops are tenths, none left out."""
    controls = softmax_row.explorer("en").controls
    for name, low, count in (("temperature", 0.1, 50), ("extra", -5.0, 101)):
        labels, values = controls[name]._options_labels, controls[name]._options_values
        assert [float(told) for told in labels] == list(values)
        np.testing.assert_allclose(values, low + 0.1 * np.arange(count), rtol=0, atol=1e-12)
        for value in values:
            assert np.isfinite(row_of(**{**PRINTED, name: value}).exps).all()


@pytest.mark.parametrize("lang", EDITIONS)
def test_labels_are_in_the_language_of_the_edition(lang: str) -> None:
    drawing = view(1, 0.5, 3, 2.0, True, lang).drawing
    words = "".join(re.sub("|".join(map(re.escape, TOKENS)), "", t) for t in texts(drawing))
    assert bool(re.search("[\u4e00-\u9fff]", words)) == (lang == "zh")
    for token, gloss in zip(TOKENS[:-1], GLOSSES[:-1], strict=True):
        assert (gloss in texts(drawing)) == (lang == "en")  # above the columns
        label = token if lang == "zh" else f"{token} {gloss}"
        assert label in softmax_row.explorer(lang).controls["key"]._options_labels
    bold = [
        element.text
        for element in ElementTree.fromstring(svg.written(drawing, "")).iter(f"{NAMESPACE}text")
        if element.get("font-weight") and element.text in TOKENS
    ]
    assert bold == ["天气"]  # whose score is changed


def test_marks_stand_where_their_numbers_are() -> None:
    drawing = svg.bars([0.5, 0.5], ["a", "b"], "", decimals=1, top=1, marks=[0.25, 2.0])
    root = ElementTree.fromstring(svg.written(drawing, ""))
    first, second = (float(line.attrib["x1"]) for line in root.iter(f"{NAMESPACE}line"))
    zero = float(next(rectangles(drawing))["x"])
    assert first - zero == 0.25 * 260 and second - zero == 260  # no longer than a full bar
    plain = svg.bars([0.5, 0.5], ["a", "b"], "", decimals=1, top=1)
    assert plain.width == drawing.width and "2.0" not in texts(drawing)


@pytest.mark.parametrize(("value", "mark"), [(0.5, 0.52), (0.5, 0.9), (0.5, 0.1)])
def test_no_mark_lies_in_the_number_of_its_bar(value: float, mark: float) -> None:
    root = ElementTree.fromstring(
        svg.written(svg.bars([value], ["a"], "", decimals=3, top=1, marks=[mark]), "")
    )
    line = next(root.iter(f"{NAMESPACE}line"))
    number = next(t for t in root.iter(f"{NAMESPACE}text") if t.text == f"{value:.3f}")
    start, long = float(number.attrib["x"]), svg.wide(number.text or "")
    assert not start - 2 <= float(line.attrib["x1"]) <= start + long + 2
    with pytest.raises(ValueError, match="marks"):
        svg.bars([value], ["a"], "", decimals=3, marks=[mark, mark])


def test_the_largest_of_every_step_is_framed() -> None:
    for state in states():
        *_, weights = rows = independently(state)
        printed = published("weights").values[state[0]]
        places = zip((*rows, printed), (2, 2, 2, 4, 3, 3), strict=True)
        largest = [written(max(row), decimals) for row, decimals in places]
        found = framed(view(*state, "en").drawing)
        assert [[text] for text in largest] == found[:6], state
        assert TOKENS[int(weights.argmax())] in found[6]

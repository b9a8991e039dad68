"""Explorers without a browser: what is drawn, what is said, and what goes wrong."""

import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import ipywidgets
import numpy as np
import pytest

from byhand import data, explorers, softmax, softmax_jacobian, svg
from byhand.explorer import (
    Explorer,
    View,
    choice,
    field,
    fractions,
    slider,
    stops,
    tick,
    typed_whole,
)
from byhand.explorers import NOTEBOOK_OF, real_heads, scaling, squares, weighing
from byhand.explorers.scaling import KEYS, PAIRS, WIDEST, scores_of, view
from byhand.figures import FONT_FILE, ORANGE
from byhand.toy import TOKENS
from byhand.words import EDITIONS, glossed, places, quoted, small
from byhand.worked import number
from drawn import NAMESPACE, framed, rectangles, texts

ROOT = Path(__file__).resolve().parents[1]
PAGE = 768  # pixels for a drawing where JupyterLab, with its side bar open, is 1200 wide
# ---- drawing ------------------------------------------------------------------------------------


def test_a_matrix_holds_its_numbers_on_their_colours() -> None:
    values = np.array([[0.5, -np.inf, -2.0], [0.25, 1.0, 2.0]])
    drawing = svg.matrix(
        values, "scores", "S", ["a", "b"], ["x", "y", "z"], decimals=2, lit=[(1, 2)]
    )
    assert texts(drawing) == [
        "S", "x", "y", "z", "a", "0.50", "−∞", "-2.00", "b", "0.25", "1.00", "2.00",
    ]  # fmt: skip
    cells = [r for r in rectangles(drawing) if r["fill"] != "none"]
    assert len(cells) == 5
    assert cells[1]["fill"] != cells[4]["fill"]  # the two ends of the scale
    (frame,) = [r for r in rectangles(drawing) if r["stroke"] == ORANGE]
    assert float(frame["x"]) > float(cells[3]["x"]) and float(frame["y"]) > float(cells[0]["y"])


def test_bars_are_as_long_as_their_numbers() -> None:
    drawing = svg.bars([0.25, 0.5, 0.0], ["a", "b", "c"], "W", decimals=3, top=1, width=200)
    assert [float(r["width"]) for r in rectangles(drawing)] == [50, 100, 0]
    assert texts(drawing) == ["W", "a", "0.250", "b", "0.500", "c", "0.000"]
    assert drawing.height > 0 and drawing.width > 200


def test_what_stands_behind_a_bar_can_be_said_in_words() -> None:
    drawing = svg.bars([0.5, 0.0], ["a", "b"], "W", decimals=2, told=["half", "none"])
    assert texts(drawing) == ["W", "a", "half", "b", "none"]


def test_a_table_holds_its_texts_in_columns() -> None:
    drawing = svg.table(["n", "名字"], [["1", "<b>"], ["22", "西安"]], "T", lit=[1], right=[0])
    assert texts(drawing) == ["T", "n", "1", "22", "名字", "<b>", "西安"]
    (frame,) = rectangles(drawing)
    root = ElementTree.fromstring(svg.written(drawing, ""))
    places = {t.text: t.attrib for t in root.iter(f"{NAMESPACE}text")}
    assert places["1"]["x"] == places["22"]["x"] and places["1"]["text-anchor"] == "end"
    assert (
        float(frame["y"]) < float(places["西安"]["y"]) < float(frame["y"]) + float(frame["height"])
    )
    with pytest.raises(ValueError, match="[\u4e00-\u9fff]"):
        svg.table(["a", "b"], [["1"]])


def test_a_curve_marks_the_point_looked_at() -> None:
    drawing = svg.curve([-1, 1, 3], [0.0, 2.0, -2.0], "C", across="d", ends=(-2, 2), lit=1)
    root = ElementTree.fromstring(svg.written(drawing, ""))
    (line,) = root.iter(f"{NAMESPACE}polyline")
    points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
    (circle,) = root.iter(f"{NAMESPACE}circle")
    assert (float(circle.attrib["cx"]), float(circle.attrib["cy"])) == points[1]
    assert points[1][1] < points[0][1] < points[2][1]  # up is up
    assert sorted(texts(drawing)) == sorted(["2.00", "-2.00", "0", "C", "d", "-1", "0", "3"])


def test_texts_are_escaped_and_read_out() -> None:
    nasty = '<script>alert("1")</script> & co'
    drawing = svg.below(svg.label(nasty), svg.bars([1], [nasty], nasty, decimals=1))
    whole = svg.written(drawing, nasty)
    assert "<script" not in whole
    root = ElementTree.fromstring(whole)
    assert root.attrib["aria-label"] == nasty and root.attrib["role"] == "img"
    assert texts(drawing) == [nasty, nasty, nasty, "1.0"]


def test_what_xml_does_not_have_is_replaced() -> None:
    drawing = svg.label("a\x00b\x0b\ud800c")
    ElementTree.fromstring(svg.written(drawing, "\x1f\udfff"))
    assert texts(drawing) == ["a\ufffdb\ufffd\ufffdc"]


def test_drawings_stand_beside_and_below_each_other() -> None:
    one = svg.bars([1], ["a"], "A", decimals=1)
    row, column = svg.beside(one, one, gap=10), svg.below(one, one, gap=10)
    assert row.width == 2 * one.width + 10 and row.height == one.height
    assert column.height == 2 * one.height + 10 and column.width == one.width


def test_ink_follows_the_theme() -> None:
    """Nothing outside a coloured cell has a colour of its own that a dark page would hide."""
    drawing = svg.bars([1], ["a"], "A", decimals=1)
    fills = set(re.findall(r'<text[^>]* fill="([^"]+)"', drawing.body))
    assert all(fill.startswith("var(--jp-") for fill in fills)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: svg.matrix([[1.0]], "scores", "", ["a", "b"], ["x"], decimals=1),
        lambda: svg.matrix([[1.0]], "scores", "", ["a"], ["x", "y"], decimals=1),
        lambda: svg.bars([1.0], ["a", "b"], "", decimals=1),
        lambda: svg.curve([1.0, 2.0], [1.0], "", across="", ends=(0, 1), lit=0),
        lambda: svg.bars([-1.0], ["a"], "", decimals=1),
        lambda: svg.bars([1.0], ["a"], "", decimals=1, marks=[-1.0]),
        lambda: svg.curve([1.0, 2.0], [1.0, 2.0], "", across="", ends=(0, 2), lit=2),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="[\u4e00-\u9fff]"):
        wrong()


# ---- following the controls ---------------------------------------------------------------------


def adding(a: float, b: bool) -> View:
    if a == 3:
        raise ValueError("three is not to be had.\n没有三。")
    if a == 4:
        raise KeyError("four")
    return View(svg.label(f"{a:g}"), (f"a = {a:g}", f"b = {b}"))


def made(lang: str) -> Explorer:
    return Explorer(
        "T",
        {"a": slider(lang, "甲", "a", 1, 0, 9), "b": tick(lang, "乙", "b", True)},
        adding,
        lang,
        buttons={"far": {"a": 8, "b": False}},
    )


def test_it_follows_its_controls() -> None:
    explorer = made("en")
    assert explorer.says == "a = 1\nb = True" and repr(explorer).startswith(
        "T\na = 1\nb = True\n(Run this cell"
    )
    explorer.controls["a"].value = 7
    assert explorer.says.startswith("a = 7") and ">7</text>" in explorer.picture.value
    assert explorer.set(a=2, b=False).says == "a = 2\nb = False"
    explorer.buttons["far"].click()
    assert explorer.values == {"a": 8, "b": False} and explorer.says.startswith("a = 8")
    explorer.buttons["Start again"].click()
    assert explorer.values == {"a": 1, "b": True} and explorer.says.startswith("a = 1")
    assert explorer.set(a=2).reset().values == {"a": 1, "b": True}
    assert list(made("zh").buttons) == ["far", "回到开始"]


@pytest.mark.parametrize(("lang", "told"), [("en", "three is not to be had."), ("zh", "没有三。")])
def test_what_cannot_be_shown_is_said_in_the_explorer(lang: str, told: str) -> None:
    explorer = made(lang).set(a=3)
    assert explorer.says == told
    assert 'role="alert"' in explorer.picture.value and told in explorer.picture.value
    explorer.set(a=4)
    assert "KeyError" in explorer.says
    assert explorer.set(a=5).says.startswith("a = 5") and not explorer.problem


def test_a_control_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there are: a, b"):
        made("en").set(c=1)
    with pytest.raises(ValueError, match='lang is "zh" or "en"'):
        made("fr")


@pytest.mark.parametrize("wrong", [10, -1, "x", None, ()])
def test_a_value_the_control_cannot_take_is_refused(wrong: Any) -> None:
    explorer = made("en")
    with pytest.raises(ValueError, match="the control a cannot take"):
        explorer.set(b=False, a=wrong)
    assert explorer.values == {"a": 1, "b": True} and explorer.says == "a = 1\nb = True"


def test_its_plain_text_is_what_a_notebook_stores() -> None:
    bundle = made("zh")._repr_mimebundle_()
    assert bundle["text/plain"].startswith("T\na = 1")
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_page_is_given_the_font_it_asks_for() -> None:
    """And nothing to whatever else a page may send."""
    companion = made("zh").box.children[-1]
    sent: list[tuple[Any, list[bytes]]] = []
    companion.send = lambda content, buffers: sent.append((content, buffers))
    companion._handle_custom_msg("something", [])
    assert sent == []
    companion._handle_custom_msg("font", [])
    assert sent == [("font", [data.path(FONT_FILE).read_bytes()])]


def test_controls_speak_the_language_of_the_edition() -> None:
    assert slider("zh", "宽度", "width", 1, 0, 2).description == "宽度"
    menu = choice("en", "哪个", "which", {"one": 1, "two": 2}, 2)
    assert menu.description == "which" and menu.value == 2


@pytest.mark.parametrize(
    ("typed", "value"),
    [("7", 7), (" 4,096 ", 4096), ("128k", 131072), ("１２８Ｋ", 131072), ("1_0", 10)],
)
def test_a_typed_number_is_understood(typed: str, value: int) -> None:
    assert typed_whole("S", typed, 1, 131072) == value


@pytest.mark.parametrize(
    "typed", ["", "0", "131073", "129k", "-3", "1.5", "1e3", "½", "<b>", "9" * 99]
)
def test_a_typed_number_out_of_range_is_refused_in_words(typed: str) -> None:
    with pytest.raises(ValueError, match="S must be a whole number from 1 to 131072"):
        typed_whole("S", typed, 1, 131072)


def test_what_was_typed_is_shown_cut_and_cleaned() -> None:
    """In the whole sentence, in the language of the edition."""
    for typed, shown in (
        ("x" * 999, "x" * 40 + "…"),
        ("12\u2028x\x0b", "12 x"),
        ("\u202e\ud800a", "a"),
    ):
        with pytest.raises(ValueError) as refused:
            typed_whole("S", typed, 1, 9)
        en, zh = str(refused.value).split("\n")
        assert en.endswith(f"you wrote “{shown}”.") and zh.endswith(f"写的是“{shown}”。")


def test_what_a_cache_hands_out_cannot_be_written_to() -> None:
    for array in (*scaling.scores_of(3, False), weighing.computed()[0], real_heads.trained()[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_stops_and_fields() -> None:
    by_token = stops("zh", "词", "token", {"今天": 0, "西安": 1}, 1)
    assert by_token.description == "词" and by_token.value == 1
    assert fractions(-0.2, 0.1, 10, 1) == {"-0.2": -0.2, "-0.1": -0.1, "0.0": 0.0, "0.1": 0.1}
    assert list(fractions(0, 1, 20, 2))[:3] == ["0.00", "0.05", "0.10"]
    line = field("en", "找", "find", "", "a name")
    assert line.description == "find" and line.placeholder == "a name"


# ---- all of them --------------------------------------------------------------------------------


def test_every_explorer_is_listed_and_stands_in_its_notebook() -> None:
    files = {f.stem for f in Path(explorers.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(NOTEBOOK_OF)
    for name, notebook in NOTEBOOK_OF.items():
        source = (ROOT / "notebooks" / "source" / f"{notebook}.py").read_text(encoding="utf-8")
        assert f"from byhand.explorers import {name}\n" in source
        assert f"{name}.explorer(lang)" in source


@pytest.mark.parametrize("name", NOTEBOOK_OF)
@pytest.mark.parametrize("lang", EDITIONS)
def test_every_explorer_starts_without_a_problem_and_comes_back(name: str, lang: str) -> None:
    explorer = import_module(f"byhand.explorers.{name}").explorer(lang)
    start, picture = explorer.says, explorer.picture.value
    assert not explorer.problem and start and "<svg" in picture
    ElementTree.fromstring(picture)
    for button in explorer.buttons.values():
        button.click()
        assert not explorer.problem
    assert explorer.says == start and explorer.picture.value == picture  # the last one goes back
    names = [control.description for control in explorer.controls.values()]
    told = "\n".join([explorer.title, *names, *explorer.buttons, start])
    own_words = re.sub("|".join(map(re.escape, TOKENS)), "", told)  # tokens are Chinese in both
    assert bool(re.search("[\u4e00-\u9fff]", own_words)) == (lang == "zh")


def options_of(control: ipywidgets.ValueWidget) -> list[Any]:
    """Every value a control can take, but for a field: some that were typed into one."""
    if isinstance(control, ipywidgets.IntSlider):
        return list(range(control.min, control.max + 1))
    if isinstance(control, ipywidgets.Checkbox):
        return [False, True]
    if isinstance(control, ipywidgets.Text):
        return [control.value, "1", "128k", "attn", "weight", ""]
    return list(control._options_values)


@pytest.mark.parametrize("name", NOTEBOOK_OF)
@pytest.mark.parametrize("lang", EDITIONS)
def test_a_drawing_keeps_its_width_and_fits_the_page(name: str, lang: str) -> None:
    """Else all of it would grow and shrink with its numbers on a page narrower than the drawing."""
    explorer = import_module(f"byhand.explorers.{name}").explorer(lang)
    every = {n: options_of(control) for n, control in explorer.controls.items()}
    sizes = [len(values) for values in every.values()]
    n_states = math.prod(sizes)
    chosen = np.random.default_rng(7).choice(n_states, min(n_states, 120), replace=False)
    widths = set()
    for picks in zip(*np.unravel_index(chosen, sizes), strict=True):
        explorer.set(**{n: every[n][i] for n, i in zip(every, picks, strict=True)})
        if not explorer.problem:
            root = ElementTree.fromstring(explorer.picture.value)
            widths.add(float(root.attrib["width"]))
    assert len(widths) == 1
    assert svg.SMALLEST * widths.pop() <= PAGE


def test_tokens_have_a_gloss_in_english_only() -> None:
    assert glossed("今天", "en") == "今天 today" and glossed("今天", "zh") == "今天"
    assert glossed("<s>", "en") == "<s>" and glossed("？", "en") == "？"
    assert list(places(TOKENS, "en").values()) == list(range(6))
    assert list(places(("<s>", "西安"), "en")) == ["<s>", "西安 Xi'an"]
    assert quoted("西安", "zh") == "「西安」" and quoted("西安", "en") == "西安"


# ---- 00 -----------------------------------------------------------------------------------------


def test_the_first_one_shows_squares() -> None:
    for lang in EDITIONS:
        explorer = squares.explorer(lang)
        for n in range(1, squares.LAST + 1):
            assert explorer.set(n=n).says == f"{n} × {n} = {n**2}"
            assert f"{n} × {n} = {n**2}" in explorer.picture.value
            assert framed(squares.view(n, lang).drawing) == [[f"{n} × {n}", str(n * n)]]


# ---- 01 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", EDITIONS)
def test_scaling_shows_the_library_s_numbers_everywhere(lang: str) -> None:
    """A seeded sample of 200 states, and the ends."""
    rng = np.random.default_rng(1)
    states = [(int(d), d % 2 == 0) for d in rng.integers(1, WIDEST + 1, 200)]
    for d_k, scaled in [(1, True), (1, False), (WIDEST, True), (WIDEST, False), *states]:
        many, row = scores_of(d_k, scaled)
        assert many.shape == (PAIRS,) and row.shape == (KEYS,)
        weights = softmax(row)
        shown = view(d_k, scaled, lang)
        told = "\n".join(shown.says)
        for text in (
            number(float(many.std()), 2),
            "  ".join(number(s, 2) for s in row),
            "  ".join(number(w, 3) for w in weights),
            small(float(softmax_jacobian(weights).max()), 4, lang),
        ):
            assert text in told
        drawn = texts(shown.drawing)
        for s, w in zip(row, weights, strict=True):
            assert number(s, 2) in drawn and number(w, 3) in drawn


def test_scaling_frames_the_largest_weight_and_counts_widths_from_one() -> None:
    rng = np.random.default_rng(5)
    q, k = rng.standard_normal((2, PAIRS, WIDEST))
    one, six = rng.standard_normal(WIDEST), rng.standard_normal((KEYS, WIDEST))
    for d_k in (1, 2, 7, 300, WIDEST):
        many, row = scores_of(d_k, False)
        np.testing.assert_allclose(many, np.einsum("nd,nd->n", q[:, :d_k], k[:, :d_k]), atol=1e-9)
        np.testing.assert_allclose(row, six[:, :d_k] @ one[:d_k], atol=1e-9)
        ((key, weight),) = framed(view(d_k, True, "en").drawing)
        weights = softmax(row / np.sqrt(d_k))
        assert key == f"k{weights.argmax() + 1}" and weight == number(float(weights.max()), 3)


def test_too_small_for_its_decimals_is_said() -> None:
    assert small(0.25, 4, "en") == "0.2500"
    assert small(4e-6, 4, "en") == "under 0.0001"
    assert small(4e-6, 4, "zh") == "不到 0.0001"


def test_scaling_draws_bars_as_long_as_what_they_show() -> None:
    """The spread on a scale up to √512, the weights up to 1, the slope up to a quarter."""
    for d_k, scaled in ((1, True), (64, False), (300, True)):
        many, row = scores_of(d_k, scaled)
        weights = softmax(row)
        shares = [
            float(many.std()) / np.sqrt(WIDEST), *weights, 4 * float(softmax_jacobian(weights).max())
        ]  # fmt: skip
        long = [float(r["width"]) for r in rectangles(view(d_k, scaled, "en").drawing)]
        np.testing.assert_allclose([*long[:1], *long[-7:]], 260 * np.array(shares), atol=0.06)


def test_scaling_keeps_the_spread() -> None:
    """Without the root the spread grows with √d_k; with it, it stays near 1."""
    for d_k in (16, 64, 256, WIDEST):
        plain, scaled = (float(scores_of(d_k, s)[0].std()) for s in (False, True))
        np.testing.assert_allclose(plain, np.sqrt(d_k), rtol=0.05)
        np.testing.assert_allclose(scaled, 1, rtol=0.05)
    with pytest.raises(ValueError):
        scores_of(0, True)


def test_scaling_is_an_explorer_in_both_languages() -> None:
    for lang in EDITIONS:
        explorer = scaling.explorer(lang)
        before = explorer.picture.value
        explorer.controls["d_k"].value = 300
        assert explorer.picture.value != before and "300" in explorer.says
        explorer.controls["scaled"].value = True
        assert number(float(scores_of(300, True)[0].std()), 2) in explorer.says

"""03's explorer without a browser: every number shown is the library's, in words and in the drawing."""

import asyncio
import re
from typing import Literal

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

import byhand
from byhand import svg, worked
from byhand.explorer import PAINT_S, REST_S, WAITS, Explorer, View, slider
from byhand.explorers.weighing import COMPUTED, STEPS, computed, explorer, view, with_weight
from byhand.figures import ORANGE
from byhand.toy import TOKENS, Toy, load, reproduces
from byhand.words import EDITIONS
from byhand.worked import number
from drawn import rectangles, texts

Weight = float | Literal["computed"]
State = tuple[int, int, int, Weight]  # query, dimension, key, weight


def states() -> list[State]:
    """A seeded sample of 200 states, and the ends of every control."""
    rng = np.random.default_rng(3)
    weights: list[Weight] = [COMPUTED, *(n / STEPS for n in range(STEPS + 1))]
    sample: list[State] = [
        (int(q), int(d), int(k), weights[w])
        for q, d, k, w in zip(
            rng.integers(0, 6, 200), rng.integers(1, 5, 200), rng.integers(0, 6, 200),
            rng.integers(0, len(weights), 200), strict=True,
        )
    ]  # fmt: skip
    ends: list[State] = [
        (q, d, k, w) for q in (0, 5) for d in (1, 4) for k in (0, 5) for w in (COMPUTED, 0.0, 1.0)
    ]
    return ends + sample


def expected(t: Toy, query: int, key: int, weight: Weight) -> tuple[byhand.Stages, np.ndarray]:
    """The stages as computed, and the row with that weight, the others in their proportions."""
    q, k, v = (byhand.project(t.X, w) for w in (t.W_Q, t.W_K, t.W_V))
    stages = byhand.attention(q, k, v)
    row = stages.weights[query].copy()
    if not isinstance(weight, str):
        others = np.arange(6) != key
        row[others] = row[others] / row[others].sum() * (1 - weight)
        row[key] = weight
    return stages, row


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_number_is_the_library_s(t: Toy, lang: str) -> None:
    v = byhand.project(t.X, t.W_V)
    for query, dimension, key, weight in states():
        stages, row = expected(t, query, key, weight)
        column = dimension - 1
        shown = view(query, dimension, key, weight, lang)
        drawn, (result, about, *rest) = texts(shown.drawing), shown.says

        entry = number(float(row @ v[:, column]), 3)
        was = number(stages.context[query, column], 3)
        assert TOKENS[query] in result and TOKENS[query] in about
        wanted = [str(dimension), entry] + ([] if weight == COMPUTED else [was])
        assert re.findall(r"-?\d+(?:\.\d+)?", result) == wanted
        old = float(stages.weights[query, key])
        told = [number(old, 3)]
        if not isinstance(weight, str):
            told += [number(weight, 3), number((1 - weight) / (1 - old), 3)]
        assert re.findall(r"-?\d+\.\d+", about) == [*told, "1.000"]
        for line, numbers in zip(
            rest, (row, v[:, column], row * v[:, column], row @ v), strict=True
        ):
            assert re.findall(r"-?\d+\.\d+", line) == [number(float(x), 3) for x in numbers]

        # The drawing: three matrices, only the row of the query changed, and both sentences.
        a, context = stages.weights.copy(), stages.context.copy()
        a[query], context[query] = row, row @ v
        cells = [number(float(x), 3) for m in (a, v, context) for x in m.ravel()]
        assert [text for text in drawn if re.fullmatch(r"-?\d+\.\d+", text)] == cells
        assert drawn[-2:] == [about, result]

        assert shown.formula == worked.context(a, v, query, column)
        assert shown.formula.rstrip().splitlines()[-2].split()[-1] == entry


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_row_the_column_and_the_pair_are_framed(lang: str) -> None:
    """In A the weight of the key, in V its value, in the context the entry; each in its outline."""
    query, dimension, key = 4, 2, 5

    def places(line: str) -> list[tuple[float, ...]]:
        return [
            tuple(float(r[side]) for side in ("x", "y", "width", "height"))
            for r in rectangles(view(query, dimension, key, 0.5, lang).drawing)
            if r["fill"] == "none" and line in r["stroke"]
        ]  # fmt: skip

    # Places are inside each matrix, whose labels are equally wide.
    weight, value, entry = places(ORANGE)
    row_a, column_v, row_o, column_o = places("--jp-ui-font-color1")
    wide, high = weight[2] + 2, weight[3] + 2  # of a cell
    assert weight[0] - value[0] == (key - (dimension - 1)) * wide
    assert value[1] - entry[1] == (key - query) * high and value[0] == entry[0]
    assert weight[1] == entry[1]
    for inner, outer in (
        (weight, row_a), (value, column_v), (entry, row_o), (entry, column_o),
    ):  # fmt: skip
        assert outer[0] <= inner[0] and inner[0] + inner[2] <= outer[0] + outer[2]
        assert outer[1] <= inner[1] and inner[1] + inner[3] <= outer[1] + outer[3]


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_starts_at_the_published_numbers(lang: str) -> None:
    made = explorer(lang)
    weights, v = computed()
    entry = re.findall(r"-?\d+\.\d+", made.says.splitlines()[0])
    assert entry == ["0.264"] and reproduces("output.xian.dim1", float(entry[0]))
    assert reproduces("weights", weights) and reproduces("values.dim1", v[:, 0])
    assert reproduces("output", byhand.weigh(weights, v))
    assert made.values == {"query": 1, "dimension": 1, "key": 1, "weight": COMPUTED}


def test_a_changed_row_sums_to_one_and_keeps_the_proportions() -> None:
    weights, v = computed()
    for row in weights:
        for key in range(6):
            others = np.arange(6) != key
            np.testing.assert_allclose(with_weight(row, key, row[key]), row, rtol=0, atol=1e-15)
            for n in range(STEPS + 1):
                changed = with_weight(row, key, n / STEPS)
                assert changed[key] == n / STEPS and np.all(changed >= 0)
                np.testing.assert_allclose(changed.sum(), 1, rtol=0, atol=1e-15)
                ratio = changed[others] / row[others]
                np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
                # A mean of the value of the key and of what the others would give without it.
                without = with_weight(row, key, 0)
                mean = n / STEPS * v[key] + (1 - n / STEPS) * (without @ v)
                np.testing.assert_allclose(changed @ v, mean, rtol=0, atol=1e-12)


def test_the_row_given_stays_as_it_was() -> None:
    row = np.array([0.25, 0.75])
    with_weight(row, 0, 1)
    assert row.tolist() == [0.25, 0.75]


def test_others_that_are_all_zero_have_nothing_to_keep() -> None:
    alone = [0.0, 1.0, 0.0]
    assert with_weight(alone, 1, 1).tolist() == alone
    assert with_weight(alone, 0, 0.25).tolist() == [0.25, 0.75, 0]
    with pytest.raises(ValueError, match="others?.*all 0.* 0.750 .*\n另外几个权重全是 0"):
        with_weight(alone, 1, 0.25)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ((6, 1, 0, COMPUTED), "query must be"),
        ((-1, 1, 0, COMPUTED), "query must be"),
        ((0, 0, 0, COMPUTED), "dimensions are 1 to 4, not 0"),
        ((0, 5, 0, COMPUTED), "dimensions are 1 to 4, not 5"),
        ((0, 1, 6, COMPUTED), "key must be"),
        ((0, 1, 0, 1.01), "between 0 and 1, not at 1.01"),
        ((0, 1, 0, -0.01), "between 0 and 1, not at -0.01"),
        ((0, 1, 0, float("nan")), "between 0 and 1, not at nan"),
    ],
)
@pytest.mark.parametrize("lang", EDITIONS)
def test_what_is_out_of_range_is_refused_in_words(wrong: State, told: str, lang: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        view(*wrong, lang)
    assert re.search("[\u4e00-\u9fff]", str(raised.value).splitlines()[-1])


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_follows_its_controls(lang: str) -> None:
    made = explorer(lang)
    start = made.says
    for name, value in (("query", 4), ("dimension", 3), ("key", 0), ("weight", 0.35)):
        before = made.picture.value
        made.controls[name].value = value
        assert made.picture.value != before and not made.problem
    assert made.says == "\n".join(view(4, 3, 0, 0.35, lang).says)
    formula = made.box.children[-2].value  # what the page typesets
    assert formula == f"$$\n{view(4, 3, 0, 0.35, lang).formula}\n$$"
    assert "O_{\\text{怎么样},\\,3}" in formula
    as_computed, back = made.buttons.values()
    as_computed.click()
    assert made.values == {"query": 4, "dimension": 3, "key": 0, "weight": COMPUTED}
    back.click()
    assert made.says == start
    labels = made.controls["weight"]._options_labels
    assert len(set(labels)) == len(labels) == STEPS + 2
    assert labels[1] == "0.00" and labels[-1] == "1.00"


@pytest.mark.parametrize("lang", EDITIONS)
def test_no_number_reads_minus_zero(lang: str) -> None:
    """A weight of 0 times a negative value is −0.0."""
    for key in range(6):
        for weight in (0.0, 1.0):
            shown = view(1, 1, key, weight, lang)
            told = "\n".join([*shown.says, *texts(shown.drawing), shown.formula])
            assert not re.search(r"-0\.0+(?!\d)", told)


def test_a_message_stands_without_the_formula_of_another_state() -> None:
    def only_small(n: int) -> View:
        if n > 1:
            raise ValueError("n is too large.\nn 太大。")
        return View(svg.label(str(n)), (str(n),), f"n = {n}")

    made = Explorer("T", {"n": slider("en", "n", "n", 1, 0, 2)}, only_small, "en", typeset=True)
    formula = made.box.children[-2]
    assert formula.value == "$$\nn = 1\n$$"
    assert made.set(n=2).problem == "n is too large." and formula.value == ""
    assert made.set(n=0).problem == "" and formula.value == "$$\nn = 0\n$$"


def test_in_a_page_the_formula_follows_the_drawing() -> None:
    """After one move soon; in a drag it is pale until the last one."""

    def formula_of(weight: float) -> str:
        return f"$$\n{view(1, 1, 1, weight, 'en').formula}\n$$"

    async def moved() -> None:
        made = explorer("en")
        formula = made.box.children[-2]
        for weights, wait in (((0.0,), PAINT_S), ((0.05, 0.1, 0.15), REST_S)):
            await asyncio.sleep(REST_S)
            before = formula.value
            for n, weight in enumerate(weights):
                made.controls["weight"].value = weight
                assert made.says == "\n".join(view(1, 1, 1, weight, "en").says)  # drawn at once
                assert formula.value == before
                assert (WAITS in formula._dom_classes) == (n > 0)
            await asyncio.sleep(wait + 0.1)
            assert formula.value == formula_of(weights[-1]) and WAITS not in formula._dom_classes
        made.controls["weight"].value = 0.2
        made.set(weight=1.0)
        assert formula.value == formula_of(1.0) and WAITS not in formula._dom_classes  # at once
        await asyncio.sleep(REST_S + 0.1)
        assert formula.value == formula_of(1.0)

    asyncio.run(moved())


def test_values_and_context_are_on_one_scale_of_colours() -> None:
    """Equal colours mean equal numbers: a cell of V and one of the context are never the same
    colour with different numbers, and the largest value has the deepest colour."""
    drawing = view(1, 1, 1, "computed", "en").drawing
    cells = [r["fill"] for r in rectangles(drawing) if r["fill"] != "none"]
    t = load()
    v = byhand.project(t.X, t.W_V)
    of_v, of_context = cells[36:60], cells[60:84]
    top = float(np.abs(v).max())
    colours = mpl.colormaps["BrBG"]
    assert of_v == [to_hex(tint) for tint in colours((v.ravel() + top) / (2 * top))]
    q, k = byhand.project(t.X, t.W_Q), byhand.project(t.X, t.W_K)
    context = byhand.attention(q, k, v).context
    assert of_context == [to_hex(tint) for tint in colours((context.ravel() + top) / (2 * top))]

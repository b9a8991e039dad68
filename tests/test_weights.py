"""GGUF files written by the gguf package and byte by byte, read back; and files that are damaged.

Every file that `write` makes is also held against the package's own reader. Sizes differ wherever
they can, so that a swapped axis cannot pass: n_heads · d_head = 160 is not d_model = 96, both whole
blocks of 32.
"""

import itertools
import math
import os
import struct
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import MODEL_ARCH
from gguf.quants import dequantize, quantize
from gguf.tensor_mapping import get_tensor_name_map
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from byhand import data, models, qwen, rope, weights
from byhand.checks import Array
from byhand.qwen import LayerShape, LayerWeights
from byhand.weights import Gguf, Header, NotKept, open_gguf

Bytes = NDArray[np.uint8]

SHAPE = LayerShape(d_model=96, n_heads=10, n_kv_heads=5, d_head=16, rope_theta=1e5, norm_eps=1e-5)
N_LAYERS = 3
Q_WIDTH, KV_WIDTH = SHAPE.n_heads * SHAPE.d_head, SHAPE.n_kv_heads * SHAPE.d_head
FLOAT32 = 1e-5  # float32: some hundred roundings of 6e-8 on numbers near 1
MOST_BYTES = 50e6  # that reading a damaged file may take


def random_layer(seed: int, biases: bool = True) -> LayerWeights:
    """float32 weights [in, out], all different, with scores near 1."""
    drawn = qwen.seeded_weights(SHAPE, seed)
    return drawn if biases else drawn._replace(b_q=None, b_k=None, b_v=None)


LAYERS = [random_layer(seed) for seed in range(N_LAYERS)]
FIELDS = {
    "input_norm": "attn_norm.weight",
    "w_q": "attn_q.weight",
    "b_q": "attn_q.bias",
    "w_k": "attn_k.weight",
    "b_k": "attn_k.bias",
    "w_v": "attn_v.weight",
    "b_v": "attn_v.bias",
    "w_o": "attn_output.weight",
    "ffn_norm": "ffn_norm.weight",
}


def stored(layers: Iterable[LayerWeights]) -> dict[str, Array]:
    """What a file holds for these layers, by name, [out, in]."""
    return {
        f"blk.{n}.{FIELDS[name]}": np.ascontiguousarray(array.T)
        for n, layer in enumerate(layers)
        for name, array in layer._asdict().items()
        if array is not None
    }


def metadata_of(arch: str = "qwen2", shape: LayerShape = SHAPE) -> dict[str, Any]:
    return {
        "general.architecture": arch,
        f"{arch}.block_count": N_LAYERS,
        f"{arch}.embedding_length": shape.d_model,
        f"{arch}.attention.head_count": shape.n_heads,
        f"{arch}.attention.head_count_kv": shape.n_kv_heads,
        f"{arch}.attention.key_length": shape.d_head,
        f"{arch}.rope.freq_base": shape.rope_theta,
        f"{arch}.attention.layer_norm_rms_epsilon": shape.norm_eps,
    }


def write(
    path: Path,
    tensors: dict[str, Array],
    kind: str = "F32",
    metadata: dict[str, Any] | None = None,
    raw: dict[str, tuple[Bytes, str]] | None = None,
    alignment: int = 32,
) -> Path:
    """A file by the package's writer: matrices of the type `kind`, vectors F32, `raw` as it is."""
    metadata = metadata_of() if metadata is None else metadata
    writer = GGUFWriter(path, metadata["general.architecture"])
    if alignment != 32:
        writer.add_custom_alignment(alignment)
    for key, value in metadata.items():
        if key != "general.architecture":
            sub_type = GGUFValueType.get_type(value[0]) if isinstance(value, list) else None
            writer.add_key_value(key, value, GGUFValueType.get_type(value), sub_type)
    for name, array in tensors.items():
        used = GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        writer.add_tensor(name, quantize(array.astype(np.float32), used), raw_dtype=used)
    for name, (bytes_, raw_kind) in (raw or {}).items():
        writer.add_tensor(name, bytes_, raw_dtype=GGMLQuantizationType[raw_kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    agrees_with_the_package(path)
    return path


def agrees_with_the_package(path: Path) -> None:
    """Our header and the package's, entry for entry, and the bytes that each tensor points to."""
    mine, theirs = open_gguf(path), GGUFReader(path)
    fields_ = {k: v for k, v in theirs.fields.items() if not k.startswith("GGUF.")}
    assert list(mine.metadata) == list(fields_)
    for key, value in mine.metadata.items():
        contents = fields_[key].contents()
        if isinstance(value, NotKept):
            assert value.length == len(contents)
        else:
            assert (list(value) if isinstance(value, tuple) else value) == contents, key
    assert list(mine.tensors) == [t.name for t in theirs.tensors]
    for tensor, other in zip(mine.tensors.values(), theirs.tensors, strict=True):
        assert tensor.ne == tuple(other.shape.tolist())
        assert (tensor.kind, tensor.n_bytes) == (other.tensor_type.name, other.n_bytes)
        assert (tensor.size, tensor.shape) == (other.n_elements, tuple(other.shape.tolist()[::-1]))
        assert tensor.offset == other.data_offset - theirs.data_offset
        bytes_ = mine.data[tensor.offset : tensor.offset + tensor.n_bytes]
        np.testing.assert_array_equal(bytes_, other.data.view(np.uint8).ravel())


# A file byte by byte


@dataclass
class Listed:
    """An entry of the list of tensors, right or wrong, and its bytes."""

    name: str | bytes
    ne: tuple[int, ...]
    kind: str | int = "F32"
    content: bytes = b""
    offset: int | None = None  # behind the tensor before
    n_dims: int | None = None  # as many as there are


def text_bytes(text: str | bytes) -> bytes:
    encoded = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(encoded)) + encoded


def value_bytes(value: Any) -> bytes:
    """A metadata value with its type before it; bytes are taken as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        each = [value_bytes(v) for v in value]
        return struct.pack("<I", 9) + each[0][:4] + struct.pack("<Q", len(each)) + b"".join(
            e[4:] for e in each
        )  # fmt: skip
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_bytes(value)
    kind, form = {bool: (7, "?"), int: (5, "i"), float: (6, "f")}[type(value)]
    return struct.pack(f"<I{form}", kind, value)


def gguf_bytes(
    metadata: dict[Any, Any] | list[tuple[Any, Any]],
    tensors: Iterable[Listed] = (),
    *,
    n_tensors: int | None = None,
    n_entries: int | None = None,
) -> bytes:
    entries = list(metadata.items()) if isinstance(metadata, dict) else metadata
    tensors = list(tensors)
    n_tensors = len(tensors) if n_tensors is None else n_tensors
    head = b"GGUF\x03\0\0\0" + struct.pack(
        "<QQ", n_tensors, len(entries) if n_entries is None else n_entries
    )
    for key, value in entries:
        head += text_bytes(key) + value_bytes(value)
    body = b""
    for t in tensors:
        number = GGMLQuantizationType[t.kind].value if isinstance(t.kind, str) else t.kind
        n_dims = len(t.ne) if t.n_dims is None else t.n_dims
        head += text_bytes(t.name) + struct.pack(f"<I{len(t.ne)}q", n_dims, *t.ne)
        head += struct.pack("<IQ", number, len(body) if t.offset is None else t.offset)
        body += t.content + bytes(-len(t.content) % 32)
    return head + bytes(-len(head) % 32) + body


# Round trips

KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
STEPS = {"Q8_0": 127, "Q4_0": 8, "Q4_1": 7.5, "Q5_0": 16, "Q5_1": 15.5}  # in the largest number


def as_stored(array: Array, kind: str) -> tuple[Array, Array | float]:
    """What a number becomes as that type, and how far off it may be."""
    if kind in ("F32", "F16"):
        return array.astype({"F32": np.float32, "F16": np.float16}[kind]).astype(np.float32), 0.0
    if kind == "BF16":
        return array, np.abs(array) * 2.0**-8  # 8 bits, rounded to nearest: half of 2^-7
    largest = np.abs(array.reshape(-1, 32)).max(axis=1, keepdims=True)
    steps = np.repeat(largest / STEPS[kind], 32, axis=1).reshape(array.shape)
    # half a step, but for what the two asymmetric types clip, and the scale is rounded to float16
    return array, steps * (1.01 if kind in ("Q4_0", "Q5_0") else 0.51) + largest.max() * 2.0**-10


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_comes_back(tmp_path: Path, kind: str) -> None:
    file = open_gguf(write(tmp_path / "model.gguf", stored(LAYERS), kind))
    assert (file.architecture, file.n_layers, file.shape) == ("qwen2", N_LAYERS, read_back(SHAPE))
    for n, layer in enumerate(LAYERS):
        for name, expected in layer._asdict().items():
            got = getattr(file.layer(n), name)
            assert got.shape == expected.shape and got.dtype == np.float32
            wanted, off = as_stored(expected.T, kind if expected.ndim > 1 else "F32")
            assert np.all(np.abs(got.T - wanted) <= off), name
            if expected.ndim > 1:  # transposed views, as seeded_weights has them
                assert got.T.flags.c_contiguous and not got.flags.c_contiguous


def read_back(shape: LayerShape) -> LayerShape:
    """θ and ε as float32 keeps them."""
    theta, eps = (float(np.float32(x)) for x in (shape.rope_theta, shape.norm_eps))
    return shape._replace(rope_theta=theta, norm_eps=eps)


def test_every_type_the_package_can_write_is_decoded_in_any_portion(tmp_path: Path) -> None:
    written = []
    for kind in GGMLQuantizationType:
        numbers = np.random.default_rng(kind).standard_normal((7, 512)).astype(np.float32)
        try:
            bytes_ = quantize(numbers, kind)
        except NotImplementedError:
            continue
        written.append(kind.name)
        file = open_gguf(write(tmp_path / f"{kind.name}.gguf", {"a": numbers}, kind.name))
        np.testing.assert_array_equal(file.array("a"), dequantize(bytes_, kind))
        np.testing.assert_array_equal(file.rows("a", [6, 0, 6]), file.array("a")[[6, 0, 6]])
        assert (
            np.corrcoef(file.array("a").ravel(), numbers.ravel())[0, 1] > 0.6
        )  # the ternary types keep least
    assert set(KINDS) < set(written)


def test_a_tensor_larger_than_one_portion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(2).standard_normal((53, 64)).astype(np.float32)
    file = open_gguf(write(tmp_path / "a.gguf", {"a": numbers, "b": numbers[None]}))
    for at_once in (1, 64, 320, 10**6):
        monkeypatch.setattr(weights, "AT_ONCE", at_once)
        np.testing.assert_array_equal(file.array("a"), numbers)
        np.testing.assert_array_equal(file.rows("a", np.arange(53)[::-1]), numbers[::-1])
        np.testing.assert_array_equal(file.array("b"), numbers[None])  # three axes


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_another_alignment(tmp_path: Path, alignment: int) -> None:
    numbers = {f"t{n}": np.arange(n, dtype=np.float32) for n in (3, 5, 7)}
    file = open_gguf(write(tmp_path / "a.gguf", numbers, alignment=alignment))
    for name, array in numbers.items():
        assert file.tensors[name].offset % alignment == 0
        np.testing.assert_array_equal(file.array(name), array)


# The blocks of two types, number by number. Source: ggml/src/ggml-common.h and ggml-quants.c.


def half(two: bytes) -> float:
    return float(np.frombuffer(two, "<f2")[0])


def q4_k(block: bytes) -> list[float]:
    """256 numbers: d, dmin, eight 6-bit scales and minima in 12 bytes, 128 bytes of nibbles."""
    d, dmin, packed, nibbles = half(block[:2]), half(block[2:4]), block[4:16], block[16:]
    numbers = []
    for group in range(8):
        if group < 4:
            scale, least = packed[group] & 63, packed[group + 4] & 63
        else:
            both = packed[group + 4]
            scale = (both & 15) | (packed[group - 4] >> 6) << 4
            least = (both >> 4) | (packed[group] >> 6) << 4
        for i in range(32):
            byte = nibbles[group // 2 * 32 + i]
            numbers.append(d * scale * (byte >> 4 if group % 2 else byte & 15) - dmin * least)
    return numbers


def q6_k(block: bytes) -> list[float]:
    """256 numbers: 128 bytes of low nibbles, 64 of two high bits, 16 scales, d."""
    low, high, scales, d = block[:128], block[128:192], block[192:208], half(block[208:])
    numbers = []
    for i in range(256):
        part, within = divmod(i, 128)  # two halves, each of four runs of 32
        run, column = divmod(within, 32)
        byte = low[part * 64 + run % 2 * 32 + column]
        bits = high[part * 32 + column] >> 2 * run & 3
        q = (byte >> 4 if run >= 2 else byte & 15) | bits << 4
        scale = struct.unpack("b", scales[i // 16 : i // 16 + 1])[0]
        numbers.append(d * scale * (q - 32))
    return numbers


def blocks_of(bytes_: Bytes, decode: Callable[[bytes], list[float]], size: int) -> Array:
    rows = [r.tobytes() for r in bytes_]
    return np.array(
        [sum((decode(r[i : i + size]) for i in range(0, len(r), size)), []) for r in rows]
    )


def random_q4_k(n_rows: int, n_blocks: int) -> Bytes:
    rng = np.random.default_rng(4)
    blocks = rng.integers(0, 256, (n_rows, n_blocks, 144), dtype=np.uint8)
    blocks[..., :4] = rng.uniform(0.001, 0.1, (n_rows, n_blocks, 2)).astype("<f2").view(np.uint8)
    return blocks.reshape(n_rows, -1)


def real_q6_k() -> Bytes:
    with np.load(data.path("output_weight_rows_q6k.npz")) as file:
        rows: Bytes = file["q6_k"]
    return rows


def test_k_quants_number_by_number(tmp_path: Path) -> None:
    four, six = random_q4_k(5, 3), real_q6_k()[:7]
    raw = {"four": (four, "Q4_K"), "six": (six, "Q6_K")}
    file = open_gguf(write(tmp_path / "k.gguf", {}, raw=raw))
    assert file.tensors["four"].ne == (768, 5) and file.tensors["six"].ne == (3584, 7)
    expected = blocks_of(four, q4_k, 144)
    np.testing.assert_allclose(file.array("four"), expected, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(file.rows("four", [4, 1]), expected[[4, 1]], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(file.array("six"), blocks_of(six, q6_k, 210), rtol=1e-6)


# Attention with what was read


@pytest.mark.parametrize("biases", [True, False])
def test_attention_with_a_file_is_attention_with_the_originals(
    tmp_path: Path, draw: Callable[..., Array], biases: bool
) -> None:
    original = random_layer(5, biases)
    metadata = metadata_of() | {"qwen2.block_count": 1}
    file = open_gguf(write(tmp_path / "m.gguf", stored([original]), metadata=metadata))
    x = draw(7, SHAPE.d_model).astype(np.float32)
    read = file.layer(0)
    assert (read.b_q is None) is (not biases)
    for got, expected in zip(
        qwen.layer(x, read, file.shape)[:4],
        qwen.layer(x, original, read_back(SHAPE))[:4],
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)


def permuted_as_llama_cpp_does(array: Array, n_heads: int) -> Array:
    """LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py, for weights and for biases."""
    apart = array.reshape(n_heads, 2, array.shape[0] // n_heads // 2, *array.shape[1:])
    return apart.swapaxes(1, 2).reshape(array.shape)


def write_llama(path: Path, layer: LayerWeights, kind: str = "F32", **changed: Any) -> Path:
    tensors = stored([layer])
    for name, n_heads in (("attn_q", SHAPE.n_heads), ("attn_k", SHAPE.n_kv_heads)):
        for suffix in ("weight", "bias"):
            if (full := f"blk.0.{name}.{suffix}") in tensors:
                tensors[full] = permuted_as_llama_cpp_does(tensors[full], n_heads)
    metadata = metadata_of("llama") | {"llama.block_count": 1} | changed
    return write(path, tensors, kind, metadata)


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize("biases", [True, False])
def test_the_rows_of_llama_come_back_in_order(
    tmp_path: Path, draw: Callable[..., Array], biases: bool, kind: str
) -> None:
    original = random_layer(6, biases)
    file = open_gguf(write_llama(tmp_path / "llama.gguf", original, kind))
    read = file.layer(0)
    for got, expected in zip(read, original, strict=True):
        if expected is None:
            assert got is None
        else:
            assert got is not None
            wanted, off = as_stored(expected.T, kind if expected.ndim > 1 else "F32")
            assert np.all(np.abs(got.T - wanted) <= off)
    # and the other way round: what llama.cpp computes, with neighbouring pairs, has the same scores
    h = draw(7, SHAPE.d_model).astype(np.float32)
    turn = rope.angles(np.arange(7), SHAPE.d_head, file.shape.rope_theta)
    sides = []
    for name, n_heads in (("attn_q", SHAPE.n_heads), ("attn_k", SHAPE.n_kv_heads)):
        flat = h @ file.array(f"blk.0.{name}.weight").T
        if biases:
            flat = flat + file.array(f"blk.0.{name}.bias")
        heads = flat.reshape(7, n_heads, SHAPE.d_head).swapaxes(0, 1)
        sides.append(rope.rotate(heads, turn, "interleaved"))
    q, k = sides
    scores = q @ k.repeat(SHAPE.n_heads // SHAPE.n_kv_heads, axis=0).swapaxes(-1, -2)
    stages = qwen.attend_stages(h, read, file.shape)
    np.testing.assert_allclose(stages.scores, scores, rtol=FLOAT32, atol=10 * FLOAT32)


def test_llama_without_a_frequency_base_has_10000(tmp_path: Path) -> None:
    metadata = metadata_of("llama")
    del metadata["llama.rope.freq_base"], metadata["llama.attention.key_length"]
    del metadata["llama.attention.head_count_kv"]
    metadata["llama.attention.head_count"] = 12
    file = open_gguf(write(tmp_path / "a.gguf", {}, metadata=metadata))
    assert file.shape == read_back(LayerShape(96, 12, 12, 8, 1e4, 1e-5))


# Opening and memory


def peak_of(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_of_3_gb_is_opened_and_read_in_part(tmp_path: Path) -> None:
    n_rows, n_in = 10**6, 768
    words = [f"word {n}" for n in range(weights.SHORT + 1)]
    entries = metadata_of() | {"tokenizer.ggml.tokens": words}
    content = gguf_bytes(entries, [Listed("token_embd.weight", (n_in, n_rows))])
    path = tmp_path / "large.gguf"
    start = len(content)
    path.write_bytes(content)
    with path.open("r+b") as sparse:
        sparse.truncate(start + 4 * n_rows * n_in)
        for at in (1, n_rows - 1):
            sparse.seek(start + 4 * n_in * at)
            sparse.write(np.full(n_in, at, "<f4").tobytes())
    opened: list[Gguf] = []
    assert peak_of(lambda: opened.append(open_gguf(path))) < 1e6
    (file,) = opened
    assert file.metadata["tokenizer.ggml.tokens"] == NotKept("string", len(words))
    rows: list[Array] = []
    wanted = [1, 0, n_rows - 1]
    assert peak_of(lambda: rows.append(file.rows("token_embd.weight", wanted))) < 1e6
    np.testing.assert_array_equal(rows[0][:, 0], [1, 0, n_rows - 1])
    assert rows[0].shape == (3, n_in) and rows[0].dtype == np.float32


def test_decoding_takes_little_more_than_the_result(tmp_path: Path) -> None:
    numbers = np.zeros((4096, 256), np.float32)
    file = open_gguf(write(tmp_path / "a.gguf", {"a": numbers}, "Q8_0"))
    peak_of(lambda: file.array("a"))  # what is made once does not count
    assert peak_of(lambda: file.array("a")) < 3 * numbers.nbytes


def test_long_metadata_is_kept_when_asked_for(tmp_path: Path) -> None:
    words = [f"词 {n}" for n in range(2000)]
    long = {"tokens": words, "types": list(range(2000)), "template": "x" * 3, "scores": [0.5] * 3}
    path = write(tmp_path / "a.gguf", {}, metadata=metadata_of() | long)
    file = open_gguf(path)
    assert file.metadata["tokens"] == NotKept("string", 2000)
    assert file.metadata["types"] == NotKept("int32", 2000)
    assert (file.metadata["template"], file.metadata["scores"]) == ("xxx", (0.5, 0.5, 0.5))
    kept = open_gguf(path, keep=["tokens", "types"]).metadata
    assert (kept["tokens"], kept["types"]) == (tuple(words), tuple(range(2000)))
    assert "词" not in repr(file) and "blk" not in repr(file)


def test_a_very_long_text_is_not_kept(tmp_path: Path) -> None:
    text = "长" * (weights.LONG_TEXT // 3 + 1)
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": "qwen2", "text": text, "next": 7}))
    metadata = open_gguf(path).metadata
    assert (metadata["text"], metadata["next"]) == (NotKept("string", len(text.encode())), 7)
    assert open_gguf(path, keep=["text"]).metadata["text"] == text


def test_a_header_is_read_from_the_first_part_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "whole.gguf", stored(LAYERS))
    file = open_gguf(path)
    start = path.stat().st_size - len(file.data)
    part = tmp_path / "part.gguf"
    part.write_bytes(path.read_bytes()[: start + 100])
    assert weights.read_header(part) == (Header(file.metadata, file.tensors), start)
    with pytest.raises(ValueError, match="not complete"):
        open_gguf(part)


# Data of the project


def test_the_header_of_the_real_file() -> None:
    header = weights.header()
    assert len(header.tensors) == data.read_json("gguf_7b_header.json")["n_tensors"] == 339
    at = 0
    for tensor in sorted(header.tensors.values(), key=lambda t: t.offset):
        assert tensor.offset == at
        at += -(-tensor.n_bytes // 32) * 32
    real = models.layer_shape(models.read("Qwen2.5-7B"))
    shape = weights.layer_shape(header)
    assert shape == read_back(real)._replace(rope_theta=1e4)  # a model distilled from Qwen2.5-Math
    assert header.tensors["output.weight"].shape == (152064, 3584)
    assert header.tensors["output.weight"].size == 152064 * 3584


def test_the_real_rows() -> None:
    ids, tokens, rows = weights.output_rows()
    assert ids.shape == (146,) and rows.shape == (146, 3584) and rows.dtype == np.float32
    in_sentence = data.read_json("gguf_7b_header.json")["tokens_of_the_toy_sentence"]
    assert ids[tokens.index("的")] == in_sentence["的"]
    np.testing.assert_allclose(
        rows[[0, 145]], blocks_of(real_q6_k()[[0, 145]], q6_k, 210), rtol=1e-6
    )
    lengths = np.linalg.norm(rows, axis=1)
    assert lengths.min() > 0.3 and lengths.max() < 3


# Names

HF_ARCH = {"qwen2": MODEL_ARCH.QWEN2, "llama": MODEL_ARCH.LLAMA, "gpt2": MODEL_ARCH.GPT2}


@pytest.mark.parametrize("arch", HF_ARCH)
def test_names_are_those_of_the_package(arch: str) -> None:
    theirs = get_tensor_name_map(HF_ARCH[arch], 13)
    for here, (there, suffixes) in weights.NAMES[arch].items():
        for suffix in suffixes:
            for n in (0, 7, 12):
                mine = f"{here}.{suffix}".replace(".N.", f".{n}.")
                hf = f"{there}.{suffix}".replace(".N.", f".{n}.")
                assert theirs.get_name(hf, (".weight", ".bias")) == mine
                assert weights.hugging_face_name(mine, arch) == hf
                assert weights.gguf_name(hf, arch) == mine


def test_every_tensor_of_the_real_file_has_a_name() -> None:
    names = [weights.hugging_face_name(name, "qwen2") for name in weights.header().tensors]
    assert len(set(names)) == 339
    assert [weights.gguf_name(name, "qwen2") for name in names] == list(weights.header().tensors)
    assert "model.layers.27.self_attn.o_proj.weight" in names


@pytest.mark.parametrize(
    "name",
    ["", "blk.N.attn_q.weight", "blk.-1.attn_q.weight", "blk.01.attn_q.weight", "blk.1.attn_q",
     "blk.1.2.attn_q.weight", "blk.attn_q.weight", "attn_q.weight", "output.bias",
     "blk.1.attn_norm.bias", "blk.1.attn_qkv.weight", "blk.１.attn_q.weight", "x\ny", 3, None, ["a"]],
)  # fmt: skip
def test_other_names_are_refused(name: Any) -> None:
    assert unnamed(lambda: weights.hugging_face_name(name, "qwen2"), ["blk.N.attn_q.weight"]) == []
    assert (
        unnamed(lambda: weights.gguf_name(name, "qwen2"), ["model.layers.N.self_attn.q_proj"]) == []
    )
    assert unnamed(lambda: weights.gguf_name(name, "llama"), [repr(name)]) == []


@pytest.mark.parametrize("arch", ["gemma2", "", None, ["qwen2"]])
def test_names_of_other_architectures_are_refused(arch: Any) -> None:
    named = ["qwen2", "gpt2", repr(arch)]
    assert unnamed(lambda: weights.hugging_face_name("output.weight", arch), named) == []
    assert unnamed(lambda: weights.gguf_name("lm_head.weight", arch), named) == []


# Files that are not GGUF, or not whole


def refusal(run: Callable[[], object]) -> list[str]:
    """The two lines of a ValueError, English and Chinese."""
    with pytest.raises(ValueError) as caught:
        run()
    assert type(caught.value) is ValueError
    lines = str(caught.value).split("\n")
    assert len(lines) == 2
    assert any("\u4e00" <= c <= "\u9fff" for c in lines[1])
    return lines


def unnamed(run: Callable[[], object], named: Iterable[str]) -> list[tuple[str, str]]:
    """The words that one of the two lines does not have, and that line."""
    return [(words, line) for line in refusal(run) for words in named if words not in line]


TINY = LayerShape(d_model=11, n_heads=6, n_kv_heads=3, d_head=10, rope_theta=1e4, norm_eps=1e-5)
TINY_METADATA = metadata_of(shape=TINY) | {"qwen2.block_count": 1}
TINY_TENSORS = [
    Listed(name, array.T.shape, "F32", array.tobytes())
    for name, array in stored([qwen.seeded_weights(TINY)]).items()
]
GOOD = gguf_bytes(TINY_METADATA, TINY_TENSORS)
HEADER_BYTES = len(GOOD) - sum(len(t.content) + -len(t.content) % 32 for t in TINY_TENSORS)


def changed(**tensor_fields: Any) -> list[Listed]:
    """The tensors with the first one changed."""
    first, *others = TINY_TENSORS
    return [Listed(**vars(first) | tensor_fields), *others]


def with_metadata(**values: Any) -> bytes:
    """The good file with metadata under "qwen2." changed, or left out where the value is None."""
    names = {"qwen2." + name.replace("__", "."): value for name, value in values.items()}
    merged = TINY_METADATA | names
    return gguf_bytes({k: v for k, v in merged.items() if v is not None}, TINY_TENSORS)


def more(*tensors: Listed) -> bytes:
    return gguf_bytes(TINY_METADATA, [*TINY_TENSORS, *tensors])


def with_counts(**counts: int) -> bytes:
    return gguf_bytes(TINY_METADATA, TINY_TENSORS, **counts)


def with_entry(key: str | bytes, value: Any) -> bytes:
    return gguf_bytes([*TINY_METADATA.items(), (key, value)], TINY_TENSORS)


def array_of(kind: int, length: int, content: bytes = b"") -> bytes:
    return struct.pack("<IIQ", 9, kind, length) + content


@dataclass
class Damage:
    """One fault in a file, and what both lines of its refusal must name."""

    what: str
    named: list[str]
    content: bytes
    use: Callable[[Gguf], object] = field(default=lambda file: file.layer(0))


def other_files() -> list[Damage]:
    beginnings = {
        "a zip": (b"PK\x03\x04" + bytes(40), "PyTorch"),
        "a pickle": (b"\x80\x02ctorch" + bytes(40), "PyTorch"),
        "safetensors": (struct.pack("<Q", 300) + b'{"a":{"dtype":"F32"}}', "safetensors"),
        "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "Git LFS"),
        "a web page": (b"<!DOCTYPE html><html></html>", "!DOC"),
        "an XML page": (b"\n <?xml version='1.0'?>", "?xml"),
        "JSON": (b'{"error": "not found"}', "JSON"),
        "GGJT": (b"tjgg\x03\0\0\0" + bytes(40), "GGUF"),
        "NumPy": (b"\x93NUMPY\x01\0", ".npy"),
        "gzip": (b"\x1f\x8b\x08\0", "gzip"),
        "HDF5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
        "zeros": (bytes(500), "x00"),
        "text": (b"Attention is all you need.", "Attentio"),
        "GGUF in small letters": (b"gguf" + GOOD[4:], "gguf"),
        "half the magic": (b"GG", "GG"),
    }
    found = [Damage(what, [word, "b'GGUF'"], begin) for what, (begin, word) in beginnings.items()]
    return [Damage("empty", ["file.gguf"], b""), *found]


def wrong_headers() -> list[Damage]:
    too_many, largest, huge = 2**60, 2**64 - 1, struct.pack("<Q", 2**63)
    return [
        Damage("version 1", ["1", "2", "3"], b"GGUF\x01\0\0\0" + GOOD[8:]),
        Damage("version 4", ["4", "2", "3"], b"GGUF\x04\0\0\0" + GOOD[8:]),
        Damage("version 0", ["0", "2", "3"], b"GGUF\0\0\0\0" + GOOD[8:]),
        Damage("big-endian", [], b"GGUF\0\0\0\x03" + GOOD[8:]),
        Damage("nothing behind the magic", ["4", "0"], b"GGUF"),
        Damage("2**60 tensors", [str(too_many)], with_counts(n_tensors=too_many)),
        Damage("2**60 metadata", [str(too_many)], with_counts(n_entries=too_many)),
        Damage("2**64 - 1 of both", [str(largest)], with_counts(n_tensors=largest, n_entries=largest)),
        Damage("a tensor too few", ["10"], with_counts(n_tensors=len(TINY_TENSORS) + 1)),
        Damage("an entry too few", ["9"], with_counts(n_entries=len(TINY_METADATA) + 1)),
        Damage("an entry too many", [], with_counts(n_entries=len(TINY_METADATA) - 1)),
        Damage("a key of 2**62 bytes", [str(2**62)],
               GOOD.replace(text_bytes("general.architecture")[:8], struct.pack("<Q", 2**62), 1)),
        Damage("a key of 70,000 bytes", ["70000"], with_entry("k" * 70_000, 1)),
        Damage("a key that is not UTF-8", ["UTF-8", "xff"], with_entry(b"k\xff", 1)),
        Damage("a key twice", ["qwen2.block_count"], with_entry("qwen2.block_count", 1)),
        Damage("a text of 2**62 bytes", ["'k'", str(2**62)], with_entry("k", struct.pack("<IQ", 8, 2**62))),
        Damage("a text that is not UTF-8", ["'k'", "UTF-8", "xfe"],
               with_entry("k", struct.pack("<I", 8) + text_bytes(b"\xfe\xfe"))),
        Damage("a value of an unknown type", ["'k'", "13"], with_entry("k", struct.pack("<II", 13, 1))),
        Damage("2**50 numbers", ["'k'", str(2**52)], with_entry("k", array_of(5, 2**50))),
        Damage("2**50 strings", ["'k'", str(2**53)], with_entry("k", array_of(8, 2**50))),
        Damage("2**64 - 1 numbers", ["'k'", str(2**64 - 1)], with_entry("k", array_of(0, largest))),
        Damage("an array of arrays", ["'k'"], with_entry("k", array_of(9, 1, array_of(5, 1)))),
        Damage("an array of an unknown type", ["'k'", "77"], with_entry("k", array_of(77, 1))),
        Damage("a long array with a string of 2**63 bytes", ["'k'"],
               with_entry("k", array_of(8, 2000, text_bytes("a") + huge + bytes(9 * 2000)))),
        Damage("a short array with a string of 2**63 bytes", ["'k'", str(2**63)],
               with_entry("k", array_of(8, 2, text_bytes("a") + huge))),
        Damage("a short array with text that is not UTF-8", ["'k'", "xfd"],
               with_entry("k", array_of(8, 1, text_bytes(b"\xfd")))),
    ]  # fmt: skip


def wrong_tensors() -> list[Damage]:
    name = str(TINY_TENSORS[0].name)
    q8 = {"kind": "Q8_0"}
    faults: dict[str, tuple[list[str], list[Listed]]] = {
        "no axes": (["0", "4"], changed(ne=())),
        "9 axes": (["9"], changed(ne=(1,) * 9)),
        "2**32 - 1 axes": ([str(2**32 - 1)], changed(n_dims=2**32 - 1)),
        "ne 0": (["[11, 0]"], changed(ne=(11, 0))),
        "ne negative": (["[-11]"], changed(ne=(-11,))),
        "a product of 2**124": ([str(2**126)], changed(ne=(2**62, 2**62))),
        "a product that wraps to 16 in 64 bits": ([str(2**66 + 64)], changed(ne=(2**62 + 4, 4))),
        "larger than the file": (["4000000"], changed(ne=(1000, 1000))),
        "unknown type": (["'99'"], changed(kind=99)),
        "a type that was removed": (["'4'"], changed(kind=4)),
        "rows that are not whole blocks": (["Q8_0", "32", "11"], changed(**q8)),
        "behind the end": (["1048620"], changed(offset=2**20)),
        "far behind the end": ([str(2**64 - 32 + 44)], changed(offset=2**64 - 32)),
        "not aligned": (["4", "32"], changed(offset=4)),
    }
    wrong = [
        Damage(what, [repr(name), *named], gguf_bytes(TINY_METADATA, tensors))
        for what, (named, tensors) in faults.items()
    ]
    second = str(TINY_TENSORS[1].name)
    overlapping = [*TINY_TENSORS[:1], Listed(second, (11, 60), content=bytes(2640), offset=32)]
    wrong += [
        Damage("on each other", [repr(name), repr(second)], gguf_bytes(TINY_METADATA, overlapping)),
        Damage("in the same place", [repr(name), "'a'"], more(Listed("a", (3,), offset=0))),
        Damage("a name twice", [repr(name)], more(TINY_TENSORS[0])),
        Damage("a name that is not UTF-8", ["UTF-8", "xfc"],
               gguf_bytes(TINY_METADATA, changed(name=b"\xfc"))),
        Damage("a name of 2**62 bytes", [str(2**62)],
               GOOD.replace(text_bytes(name), struct.pack("<Q", 2**62) + name.encode())),
        Damage("a very long name", ["…"], more(Listed("n" * 9999, (0,)))),
        Damage("a name of two lines", ["a\\nb"], more(Listed("a\nb", (0,)))),
        Damage("cut off in the last tensor", ["blk.0.ffn_norm.weight"], GOOD[:-32]),
        Damage("cut off before the tensors", ["0"], GOOD[:HEADER_BYTES]),
    ]  # fmt: skip
    for alignment in (0, 3, 2**30, -32, "32", 32.0, [32]):
        entry = {"general.alignment": alignment}
        content = gguf_bytes(TINY_METADATA | entry, TINY_TENSORS)
        found = "(32,)" if alignment == [32] else repr(alignment)
        wrong.append(Damage(f"alignment {alignment!r}", ["general.alignment", found], content))
    return wrong


def wrong_metadata() -> list[Damage]:
    wrong = []
    may_be_missing = ("qwen2.attention.key_length", "qwen2.attention.head_count_kv")
    for key in (k for k in TINY_METADATA if k not in may_be_missing):
        rest = {k: v for k, v in TINY_METADATA.items() if k != key}
        wrong.append(Damage(f"no {key}", [key], gguf_bytes(rest, TINY_TENSORS)))
    for key in ("block_count", "embedding_length", "attention__head_count"):
        for value in (0, -3, "six", 6.0, True, [6, 6]):
            named = [
                key.replace("__", "."),
                str(tuple(value) if isinstance(value, list) else value),
            ]
            wrong.append(Damage(f"{key} {value!r}", named, with_metadata(**{key: value})))
    arch = gguf_bytes(TINY_METADATA | {"general.architecture": 7}, TINY_TENSORS)
    scaling = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    return wrong + [
        Damage("an architecture that is a number", ["general.architecture", "7"], arch),
        Damage("heads that do not divide", ["6", "4"], with_metadata(attention__head_count_kv=4)),
        Damage("no whole d_head", ["11", "6"], with_metadata(attention__key_length=None)),
        Damage("an odd d_head", ["7"], with_metadata(attention__key_length=7)),
        Damage("theta 1", ["freq_base", "1.0"], with_metadata(rope__freq_base=1.0)),
        Damage("theta nan", ["freq_base", "nan"], with_metadata(rope__freq_base=math.nan)),
        Damage("theta text", ["freq_base", "'x'"], with_metadata(rope__freq_base="x")),
        Damage("eps 0", ["epsilon", "0.0"], with_metadata(attention__layer_norm_rms_epsilon=0.0)),
        Damage("eps true", ["epsilon", "True"], with_metadata(attention__layer_norm_rms_epsilon=True)),
        Damage("a part of three", ["file.gguf", "3"],
               gguf_bytes(TINY_METADATA | {"split.count": 3}, TINY_TENSORS)),
        Damage("yarn", ["rope.scaling.type", "yarn", "none"], with_metadata(**scaling)),
        Damage("a factor alone", ["scaling.factor", "4.0"], with_metadata(rope__scaling__factor=4.0)),
        Damage("part of a head rotated", ["dimension_count", "4", "10"],
               with_metadata(rope__dimension_count=4)),
        Damage("values of another width", ["value_length", "8", "10"],
               with_metadata(attention__value_length=8)),
        Damage("not causal", ["causal", "False"], with_metadata(attention__causal=False)),
    ]  # fmt: skip


def wrong_layers() -> list[Damage]:
    factors = Listed("rope_freqs.weight", (5,), content=bytes(20))
    wrong = [Damage("rope_freqs", ["rope_freqs.weight"], more(factors))]
    for extra in (
        "attn_q_norm.weight",
        "attn_output.bias",
        "post_attention_norm.weight",
        "attn_qkv.weight",
    ):
        listed = Listed(f"blk.0.{extra}", (11,), content=bytes(44))
        wrong.append(Damage(extra, [f"blk.0.{extra}", "qwen"], more(listed)))
    for i, tensor in enumerate(TINY_TENSORS):
        others = TINY_TENSORS[:i] + TINY_TENSORS[i + 1 :]
        name, shape = str(tensor.name), list(tensor.ne[::-1])
        other = Listed(name, (*tensor.ne[:-1], tensor.ne[-1] + 2), content=bytes(9999))
        named = [name, str(shape), str(list(other.ne[::-1]))]
        wrong.append(
            Damage(f"{name} of another shape", named, gguf_bytes(TINY_METADATA, [*others, other]))
        )
        turned = Listed(
            name, tensor.ne[::-1] if len(shape) > 1 else (1, *tensor.ne), content=bytes(9999)
        )
        named = [name, str(shape), str(list(turned.ne[::-1]))]
        wrong.append(
            Damage(f"{name} turned round", named, gguf_bytes(TINY_METADATA, [*others, turned]))
        )
        if not name.endswith("bias"):
            named = [name, "ffn_norm.weight" if "attn" in name else "attn_norm.weight"]
            wrong.append(Damage(f"no {name}", named, gguf_bytes(TINY_METADATA, others)))
    for n in (-1, 1, 28, True, 0.5, "0", None, 2**70):
        wrong.append(Damage(f"layer {n!r}", [repr(n), "0"], GOOD, lambda file, n=n: file.layer(n)))  # type: ignore[misc]
    return wrong


def wrong_numbers() -> list[Damage]:
    nan, inf = struct.pack("<f", math.nan), struct.pack("<e", math.inf)
    q8_0 = struct.pack("<e", math.inf) + bytes(32)  # inf · 0, of which NumPy would warn
    listed = {
        "F32": (Listed("a", (3, 5), "F32", bytes(40) + nan + bytes(16)), ["3", "1", "nan"]),
        "F16": (Listed("a", (7,), "F16", bytes(12) + inf), ["0", "6", "inf"]),
        "Q8_0": (Listed("a", (32, 2), "Q8_0", bytes(34) + q8_0), ["1", "0", "nan"]),
    }
    wrong = [
        Damage(f"not finite in {kind}", ["'a'", *named], more(tensor), lambda file: file.array("a"))
        for kind, (tensor, named) in listed.items()
    ]
    for kind, size in {"F64": 8, "I8": 1, "I32": 4, "Q8_K": 292, "Q8_1": 40}.items():
        tensor = Listed("a", (256, 1), kind, bytes(256 * size))
        for use in (lambda file: file.array("a"), lambda file: file.rows("a", [0])):
            wrong.append(
                Damage(f"{kind} cannot be decoded", ["'a'", kind, "gguf"], more(tensor), use)
            )
    broken = [Listed(t.name, t.ne, t.kind, nan * math.prod(t.ne)) for t in TINY_TENSORS]
    for i, tensor in enumerate(TINY_TENSORS):
        tensors = TINY_TENSORS[:i] + [broken[i]] + TINY_TENSORS[i + 1 :]
        content = gguf_bytes(TINY_METADATA, tensors)
        wrong.append(Damage(f"nan in {tensor.name!r}", [repr(tensor.name), "nan"], content))
    return wrong


def wrong_calls() -> list[Damage]:
    w = "blk.0.attn_q.weight"
    calls: list[tuple[str, list[str], Callable[[Gguf], object]]] = [
        ("no such array", ["'x'", w], lambda file: file.array("x")),
        ("an array by number", ["3", w], lambda file: file.array(3)),  # type: ignore[arg-type]
        ("an array by list", ["['x']"], lambda file: file.array(["x"])),  # type: ignore[arg-type]
        ("no such rows", ["'x'", w], lambda file: file.rows("x", [0])),
        ("rows of a vector", ["attn_norm", "[11]"], lambda file: file.rows("blk.0.attn_norm.weight", [0])),
        ("row -1", [w, "59", "-1"], lambda file: file.rows(w, [0, -1])),
        ("row 60", [w, "59", "60"], lambda file: file.rows(w, [60])),
        ("row 1.5", [w, "1.5"], lambda file: file.rows(w, [1.5])),
        ("row nan", ["indices", "nan"], lambda file: file.rows(w, [math.nan])),
        ("no rows", ["indices", "[0]"], lambda file: file.rows(w, [])),
        ("rows in two axes", ["indices", "[1, 1]"], lambda file: file.rows(w, [[0]])),
        ("rows as text", ["indices", "<U1"], lambda file: file.rows(w, ["0"])),
        ("rows as true and false", ["indices", "bool"], lambda file: file.rows(w, [True, False])),
    ]  # fmt: skip
    return [Damage(what, named, GOOD, use) for what, named, use in calls]


DAMAGES = [
    *other_files(), *wrong_headers(), *wrong_tensors(), *wrong_metadata(), *wrong_layers(),
    *wrong_numbers(), *wrong_calls(),
]  # fmt: skip


def test_the_good_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(GOOD)
    agrees_with_the_package(path)
    file = open_gguf(path)
    for got, expected in zip(file.layer(0), qwen.seeded_weights(TINY), strict=True):
        np.testing.assert_array_equal(got, expected)
    path.write_bytes(GOOD.replace(b"GGUF\x03", b"GGUF\x02"))
    assert open_gguf(path).tensors == file.tensors


@pytest.mark.parametrize("damage", DAMAGES, ids=[d.what for d in DAMAGES])
def test_a_fault_is_named_in_both_languages(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(damage.content)
    tracemalloc.start()
    assert unnamed(lambda: damage.use(open_gguf(path)), damage.named) == []
    assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    tracemalloc.stop()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(GOOD)
    end = max(t.offset + t.n_bytes for t in open_gguf(path).tensors.values())
    behind = range(HEADER_BYTES + 1, HEADER_BYTES + end, 97)
    for size in itertools.chain(range(HEADER_BYTES + 1), behind, [HEADER_BYTES + end - 1]):
        path.write_bytes(GOOD[:size])
        assert unnamed(lambda: open_gguf(path), ["file.gguf"]) == []


@pytest.mark.parametrize(
    ("path", "named"),
    [("not there.gguf", ["not there.gguf"]), (".", ["'.'"]), ("", ["'.'"]), (3, ["3"]), (None, ["None"]),
     ("a\0b", ["x00"])],
)  # fmt: skip
def test_what_is_not_a_file_is_refused(path: Any, named: list[str]) -> None:
    assert unnamed(lambda: open_gguf(path), named) == []
    assert unnamed(lambda: weights.read_header(path), named) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    assert unnamed(lambda: open_gguf(tmp_path / "pipe.gguf"), ["pipe.gguf"]) == []


def test_millions_of_strings_are_refused_at_once(tmp_path: Path) -> None:
    count = weights.MOST_STRINGS + 1
    path = tmp_path / "file.gguf"
    path.write_bytes(gguf_bytes({"k": array_of(8, count, bytes(8 * count))}))
    assert unnamed(lambda: open_gguf(path), ["'k'", str(count)]) == []


def test_more_text_than_any_model_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "MOST_TEXT", 1000)
    path = tmp_path / "file.gguf"
    path.write_bytes(gguf_bytes({"a": "x" * 900, "b": ["y" * 50, "z" * 51]}))
    assert unnamed(lambda: open_gguf(path), ["'b'", "1003"]) == []


def test_a_count_that_a_large_file_could_hold_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    for counts in ((0, weights.MOST_ENTRIES + 1), (weights.MOST_TENSORS + 1, 0)):
        path.write_bytes(b"GGUF\x03\0\0\0" + struct.pack("<QQ", *counts) + bytes(4_000_000))
        with pytest.raises(ValueError, match=f"{max(counts)} .* are announced"):
            open_gguf(path)


@pytest.mark.parametrize("arch", ["qwen3", "gemma2", "gpt2", "phi3", "Qwen2", "qwen2moe", ""])
def test_another_architecture_is_opened_and_its_layers_refused(tmp_path: Path, arch: str) -> None:
    content = gguf_bytes(metadata_of(arch, TINY), TINY_TENSORS)
    path = tmp_path / "file.gguf"
    path.write_bytes(content)
    file = open_gguf(path)
    assert (file.architecture, file.n_layers) == (arch, N_LAYERS)
    for tensor in TINY_TENSORS:
        assert file.array(str(tensor.name)).astype("<f4").tobytes() == tensor.content
    for use in (lambda: file.shape, lambda: file.layer(0)):
        assert unnamed(use, ["qwen2", "llama", repr(arch)]) == []


# Any damage at all


NUMBERS = [0, 1, 2, 9, 2**16, 2**31, 2**32 - 1, 2**50, 2**60, 2**62, 2**63, 2**64 - 1]
EDITS = st.one_of(
    st.tuples(st.just("set"), st.integers(0, HEADER_BYTES - 1), st.binary(min_size=1, max_size=4)),
    st.tuples(
        st.just("set"),
        st.integers(0, HEADER_BYTES - 8),
        st.sampled_from(NUMBERS).map(lambda n: struct.pack("<Q", n)),
    ),
    st.tuples(st.just("insert"), st.integers(0, HEADER_BYTES), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("cut"), st.integers(0, HEADER_BYTES), st.just(b"")),
    st.tuples(st.just("remove"), st.integers(0, HEADER_BYTES), st.binary(min_size=1, max_size=40)),
)


def edited(content: bytes, edits: Iterable[tuple[str, int, bytes]]) -> bytes:
    for what, at, new in edits:
        skipped = {"set": len(new), "insert": 0, "cut": len(content), "remove": len(new)}[what]
        content = content[:at] + (b"" if what == "remove" else new) + content[at + skipped :]
    return content


def use_everything(file: Gguf) -> None:
    uses: list[Callable[[], object]] = [
        lambda: file.architecture,
        lambda: file.n_layers,
        lambda: file.shape,
        lambda: file.layer(0),
        *(partial(file.array, name) for name in file.tensors),
    ]
    for use in uses:
        try:
            use()
        except ValueError as error:
            assert type(error) is ValueError and str(error).count("\n") == 1


@settings(max_examples=250, deadline=None)
@given(st.lists(EDITS, min_size=1, max_size=4))
def test_a_damaged_header_is_read_or_refused(edits: list[tuple[str, int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.gguf"
        path.write_bytes(edited(GOOD, edits))
        tracemalloc.start()
        try:
            file = open_gguf(path)
        except ValueError as error:
            assert type(error) is ValueError and str(error).count("\n") == 1
        else:
            use_everything(file)
            del file  # a mapped file cannot be removed on every system
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        tracemalloc.stop()

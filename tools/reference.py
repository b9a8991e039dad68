"""What the stored reference of Hugging Face's Qwen2.5 layer is made of, and how it is read.

tools/oracle.py writes tests/reference/qwen_layer.npz with torch and transformers; the tests read it
without either. Of every whole output the file keeps a sample, a few rows at a few columns, and for
each row a few projections: the row times ±1, summed, over √width. A projection is off by about as
much as one number of the row usually is, so both bear the same tolerance.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from byhand import qwen
from byhand.checks import Array

FILE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "qwen_layer.npz"
SHAPE = qwen.LayerShape(d_model=3584, n_heads=28, n_kv_heads=4, d_head=128)  # Qwen2.5-7B
SIZES = (6, 64, 512)  # numbers of tokens
FIRST_TOKEN = 1000
ATOL = 2e-5  # what may differ in float32; measured over all outputs: at most 3.9e-6
N_ROWS, N_COLUMNS, N_PROJECTIONS = 5, 16, 4


class Heads(NamedTuple):
    """Queries, keys and values for scaled dot-product attention alone."""

    q: Array  # [n_heads, S, d_head]
    k: Array  # [n_kv_heads, S, d_head]
    v: Array  # [n_kv_heads, S, d_head]


class Summary(NamedTuple):
    """What is kept of a whole output [S, width]."""

    sample: Array  # [≤ 5, 16]  the first row, the last, and rows between
    projections: Array  # [S, 4]


def weights() -> qwen.LayerWeights:
    """The seeded weights of the layer."""
    return qwen.seeded_weights(SHAPE)


def rows(size: int) -> Array:
    """The residual stream that enters the layer. [size, d_model]"""
    return qwen.seeded_rows(np.arange(FIRST_TOKEN, FIRST_TOKEN + size), SHAPE.d_model)


def heads(size: int) -> Heads:
    """Seeded q, k and v of `size` tokens."""
    counts = (SHAPE.n_heads, SHAPE.n_kv_heads, SHAPE.n_kv_heads)
    drawn = qwen.seeded_rows(np.arange(sum(counts)), size * SHAPE.d_head)
    blocks = drawn.reshape(-1, size, SHAPE.d_head)
    return Heads(*np.split(blocks, np.cumsum(counts)[:-1]))


def side_by_side(context: Array) -> Array:
    """[n_heads, S, d_head] -> [S, n_heads·d_head]"""
    return context.swapaxes(0, 1).reshape(context.shape[1], -1)


def summary(whole: Array) -> Summary:
    """What the file keeps of `whole` [S, width]."""
    size, width = whole.shape
    picked = np.ix_(_spread(size, N_ROWS), _spread(width, N_COLUMNS))
    signs = np.random.default_rng(3).integers(0, 2, (width, N_PROJECTIONS)) * 2.0 - 1
    projections = whole.astype(np.float64) @ signs / np.sqrt(width)
    return Summary(whole[picked], projections.astype(np.float32))


def apart(ours: Array, theirs: Array) -> float:
    """The largest difference; infinite where the arrays are not both float32 and of one shape."""
    if not (ours.dtype == theirs.dtype == np.float32 and ours.shape == theirs.shape):
        return np.inf
    return float(np.abs(ours - theirs).max())


def fingerprint(*arrays: Array | None) -> str:
    """A checksum of the bytes of all arrays, and of which are missing."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
        else:
            stored = array.T if array.flags.f_contiguous else array  # a transpose: no copy
            digest.update(np.ascontiguousarray(stored, "<f4").data)
    return digest.hexdigest()


def fingerprints() -> dict[str, str]:
    """The checksums of everything the outputs are computed from."""
    stream = [rows(size) for size in SIZES]
    dot_product = [array for size in SIZES for array in heads(size)]
    return {
        "weights": fingerprint(*weights()),
        "rows": fingerprint(*stream),
        "heads": fingerprint(*dot_product),
    }


def _spread(n: int, count: int) -> list[int]:
    """At most `count` places from 0 to n − 1, the first and the last among them."""
    return sorted({round(at) for at in np.linspace(0, n - 1, count)})

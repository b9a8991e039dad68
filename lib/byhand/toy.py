"""The toy: one sentence of six tokens, its matrices, and the published numbers to hold against.

The matrices are those of data/xian.json; data/README.md says where they come from.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from byhand.checks import Array, refuse, shape_text
from byhand.data import read_json

SENTENCE = "今天西安的天气怎么样？"
TOKENS = ("今天", "西安", "的", "天气", "怎么样", "？")
GLOSSES = ("today", "Xi'an", "of", "weather", "how is it", "?")


class Toy(NamedTuple):
    """The six hidden states and the weights that act on them, float64."""

    X: Array  # [6, 4]  one row a token
    W_Q: Array  # [4, 4]
    W_K: Array  # [4, 4]
    W_V: Array  # [4, 4]
    W_O: Array  # [4, 4]
    n_heads: int
    d_head: int


def load() -> Toy:
    """The toy as data/xian.json has it, in new arrays at each call."""
    raw = read_json("xian.json")
    matrices = {name: np.array(raw[name]) for name in ("X", "W_Q", "W_K", "W_V", "W_O")}
    return Toy(**matrices, n_heads=raw["n_heads"], d_head=raw["d_head"])


def mixing_example() -> Array:
    """The four numbers of two merged heads that the article on the out projection sends through
    W_O: heads [10, 1] and [2, 8] side by side. [4]
    """
    return np.array(read_json("xian.json")["mixing_input"], dtype=np.float64)


def output_projections() -> dict[str, Array]:
    """Four W_O of two heads, by their word in the glossary; only the printed one mixes heads. [4, 4]

    In new arrays at each call.
    """
    identity = np.eye(4)
    return {
        "identity": identity,
        "block-diagonal": np.array(
            [[0.5, 1, 0, 0], [1, -0.5, 0, 0], [0, 0, 0.5, 1], [0, 0, 1, -0.5]]
        ),
        "heads swapped": identity[[2, 3, 0, 1]],
        "the printed one": load().W_O,
    }


def token_ids() -> dict[str, int]:
    """The real Qwen2.5 token id of each of the six tokens, from data/gguf_7b_header.json."""
    ids = read_json("gguf_7b_header.json")["tokens_of_the_toy_sentence"]
    return {token: ids[token] for token in TOKENS}


class Published(NamedTuple):
    """One entry of data/published.json: what an article prints, and how precisely."""

    values: Array  # the printed numbers
    decimals: int  # how many decimals are printed
    what: str
    source: str  # article and section
    note: str  # what is inconsistent in the article, or ""


def published_ids() -> tuple[str, ...]:
    """The names of all entries of data/published.json."""
    return tuple(entry["id"] for entry in _entries())


def published(name: str) -> Published:
    """The published entry of that name, for example published("scores.xian")."""
    for entry in _entries():
        if entry["id"] == name:
            values = np.array(entry["values"], dtype=np.float64)
            return Published(
                values, entry["decimals"], entry["what"], entry["source"], entry.get("note", "")
            )
    names = ", ".join(published_ids())
    refuse(
        f"没有叫 {name!r} 的发表数字。有的是：{names}", f"no published {name!r}; there are: {names}"
    )


def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = read_json("published.json")["published"]
    return entries


def _numbers(computed: ArrayLike) -> Array:
    """What was computed, as float64; NaN and infinity are let through, they reproduce nothing."""
    array = np.asarray(computed)
    if array.dtype.kind not in "fiu":
        refuse(
            f"这里要数，给的是 {array.dtype} 类型。", f"numbers are wanted here, not {array.dtype}."
        )
    return array.astype(np.float64)


def reproduces(name: str, computed: ArrayLike) -> bool:
    """Whether every computed number, rounded to the printed decimals, is the published one.

    In other words |computed − published| is at most half a unit of the last printed digit.
    ValueError when the shapes differ or there is no such entry.
    """
    entry = published(name)
    values = _numbers(computed)
    if values.shape != entry.values.shape:
        refuse(
            f"{name} 的形状是 {shape_text(entry.values.shape)}，算出来的是 {shape_text(values.shape)}。",
            f"{name} has the shape {shape_text(entry.values.shape)}, "
            f"the computed array {shape_text(values.shape)}.",
        )
    half_unit = 0.5 * 10.0**-entry.decimals
    slack = 1e-9  # for the binary rounding of the printed decimal itself
    return bool(np.all(np.abs(values - entry.values) <= half_unit + slack))

"""Small problems that tell one mistake from another.

Every axis has another size, so that an exchanged axis cannot pass by luck; one case has
d_model = n_heads · d_head all the same, because there a shape hides most. All inputs are short binary
fractions: float16 and bfloat16 hold them exactly.
"""

import math
import zlib
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from byhand.attention import causal_mask
from byhand.checks import Array, refuse, whole
from byhand.qwen import refuse_uneven
from byhand.rope import even
from byhand.steps import Problem

CASES: Final = {  # name -> tokens; in a result, the number of rows tells which case it is of
    "square": 23,  # d_model = n_heads · d_head, as in most models
    "wide": 13,  # d_model is a prime of its own
    "firm": 19,  # scores of some thousand: the exponentials of some are too large for any type
    "loud": 17,  # scores of some hundred thousand: too large for float16
}
QUIET = 2.0**-12  # the first queries of the firm case, times this
MOST_HEADS = 64
N_HEADS, GROUP = 3, 2
D_HEAD, PAIRS = 11, 5  # with rotary positions five pairs: d_head = 10
D_MODEL = 29  # of the wide case, where it is no product
D_V = 19  # width of v where q, k and v are given
BATCH = (2,)
THETA = 40.0
EPS = 2.0**-6
LOUDER: Final = {"firm": 2.0**9, "loud": 2.0**17}  # W_K, or k, times this; the scores grow with it


@dataclass(frozen=True)
class Kind:
    """What an attention function takes, and so what it must do."""

    from_x: bool = True  # else it begins with q, k and v
    n_heads: int = 1
    n_kv_heads: int = 1
    bias: str = ""  # which of q, k and v have one
    theta: float | None = None
    w_o: bool = False
    norm: bool = False
    causal: bool = False
    own_mask: bool = False  # it makes a mask itself: then there are as many queries as keys
    leading: tuple[int, ...] = ()  # batch, heads
    own_eps: bool = False  # it brings the eps of its norm along, whatever that is
    d_head: int = 0  # fixed sizes, of a module; 0 leaves them to the problem
    d_model: int = 0


def refuse_sizes(n_heads: int, n_kv_heads: int) -> None:
    """Refuse numbers of heads that no problem can have. Raises ValueError."""
    refuse_uneven(whole("n_heads", n_heads), whole("n_kv_heads", n_kv_heads))
    if n_heads > MOST_HEADS:
        refuse(
            f"这里的题都很小，最多 {MOST_HEADS} 个头；给的是 {n_heads}。",
            f"the problems here are small: {MOST_HEADS} heads at most, not {n_heads}.",
        )


def _numbers(case: str, name: str, shape: tuple[int, ...], std: float) -> Array:
    """Seeded numbers with about that spread: at most seven bits times a power of two.

    Each array has a seed of its own, so that no array depends on which others are drawn.
    """
    rng = np.random.default_rng(zlib.crc32(f"{case} {name}".encode()))
    unit = 2.0 ** round(math.log2(std * math.sqrt(3) / 120))
    return rng.integers(-120, 121, shape) * unit


def _short(numbers: Array) -> Array:
    """Multiples of 1/64, so that 1 + numbers below 1 has no more than seven bits."""
    return np.clip(np.round(numbers * 64) / 64, -63 / 64, 63 / 64)


def cases(kind: Kind) -> tuple[str, ...]:
    """The cases of that kind: where the sizes are fixed, no case has others."""
    return tuple(case for case in CASES if case != "wide" or not kind.d_model)


def problem(kind: Kind, case: str) -> Problem:
    """One case of that kind. ValueError for an odd d_head or heads that do not fit."""
    n = CASES[case]
    d_head = kind.d_head or (D_HEAD if kind.theta is None else 2 * PAIRS)
    loud = LOUDER.get(case, 1.0)
    if not kind.from_x:
        n_q = n_k = n
        if case == "wide" and not kind.own_mask:
            n_k = n + 4
        d, d_v = D_HEAD, D_HEAD if case == "square" else D_V
        q = _numbers(case, "q", (*kind.leading, n_q, d), 1.3)
        if case == "firm":  # not for the first queries
            q[..., : n_q // 2, :] *= QUIET
        return Problem(
            n_heads=kind.leading[-1] if len(kind.leading) > 1 else 1,
            d_head=d,
            q=q,
            k=loud * _numbers(case, "k", (*kind.leading, n_k, d), 1.3),
            v=_numbers(case, "v", (*kind.leading, n_k, d_v), 1),
            mask=causal_mask(n_q, n_k) if kind.causal else None,
        )
    refuse_sizes(kind.n_heads, kind.n_kv_heads)
    width, kv_width = kind.n_heads * d_head, kind.n_kv_heads * d_head
    d_model = kind.d_model or (D_MODEL if case == "wide" else width)

    def matrix(name: str, d_in: int, d_out: int, std: float = 1.0) -> Array:
        return _numbers(case, name, (d_in, d_out), std / math.sqrt(d_in))

    w_k = matrix("w_k", d_model, kv_width, 1.2)
    x = _numbers(case, "x", (*kind.leading, n, d_model), 2.0 if kind.norm else 1.0)
    if case == "firm":  # one K/V head only, and not for the first tokens
        w_k[:, :d_head] *= loud
        if not kind.own_eps:  # beside which quiet rows would be nothing
            x[..., : n // 2, :] *= QUIET
    else:
        w_k *= loud
    found = Problem(
        kind.n_heads,
        kind.n_kv_heads,
        d_head,
        x=x,
        w_q=matrix("w_q", d_model, width, 0.8),
        w_k=w_k,
        w_v=matrix("w_v", d_model, kv_width, 1.5),
        mask=causal_mask(n) if kind.causal else None,
    )
    if kind.w_o:
        found = replace(found, w_o=matrix("w_o", width, d_model, 2.0))
    biases = {
        name: _numbers(case, f"b_{name}", (width if name == "q" else kv_width,), 0.6)
        for name in kind.bias
    }
    if case == "firm" and "q" in biases:
        biases["q"] *= QUIET  # else it would be the loudest part of the first queries
    found = replace(found, b_q=biases.get("q"), b_k=biases.get("k"), b_v=biases.get("v"))
    if kind.theta is not None:
        even(d_head)
        found = replace(found, theta=kind.theta)
    if kind.norm:
        found = replace(
            found,
            gain=1 + _short(_numbers(case, "gain", (d_model,), 0.5)),
            eps=1e-6 if kind.own_eps else EPS,
        )
    return found

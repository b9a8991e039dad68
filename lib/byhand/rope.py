"""Rotary positions (RoPE): every pair of numbers of a query or key is turned by its position.

Su et al. 2021, section 3.2. Two layouts of the same rotation are in use. "half" pairs number i with
number i + d_head/2 (Hugging Face, Qwen2); "interleaved" pairs 2i with 2i + 1 (the paper, LLaMA's
own code). Weights trained with one give wrong scores with the other.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from byhand.checks import Array, as_array, finite, matrix, refuse, row, same, whole

Pairing = Literal["half", "interleaved"]


def even(d_head: int) -> int:
    """d_head as an even whole number: RoPE turns numbers in pairs. Raises ValueError."""
    d_head = whole("d_head", d_head, least=2)
    if d_head % 2:
        refuse(
            f"RoPE 把数两两配对来转，d_head 要是偶数；给的是 {d_head}。",
            f"RoPE turns numbers in pairs, so d_head must be even; it is {d_head}.",
        )
    return d_head


def frequencies(d_head: int, theta: float) -> NDArray[np.float64]:
    """How far each pair turns from one position to the next, in radians: theta^(−2i/d_head).

    [d_head/2]; the first pair turns by 1 radian, the later ones ever more slowly.
    """
    d_head = even(d_head)
    number = isinstance(theta, int | float | np.integer | np.floating)
    if isinstance(theta, bool) or not number or not 1 < theta < np.inf:
        refuse(
            f"theta 是各对转速的底数，要大于 1；给的是 {theta!r}。",
            f"theta, the base of the frequencies, must be greater than 1; it is {theta!r}.",
        )
    exponents = np.arange(0, d_head, 2) / d_head  # [d_head/2]
    return 1 / theta**exponents


def angles(positions: ArrayLike, d_head: int, theta: float) -> Array:
    """The angle of every pair at every position, in radians. positions [S] -> [S, d_head/2].

    In float64, because at position 100,000 a float32 angle would be off by some 0.004.
    """
    at = row("positions", positions).astype(np.float64)
    return at[:, None] * frequencies(d_head, theta)  # [S, 1] * [d_head/2] -> [S, d_head/2]


def rotate(x: ArrayLike, angles: ArrayLike, pairing: Pairing = "half") -> Array:
    """Each pair (a, b) of a row becomes (a·cos − b·sin, b·cos + a·sin).

    x [.., S, d_head], angles [S, d_head/2] -> [.., S, d_head]. ValueError when S or d_head differ,
    or for a pairing that is neither "half" nor "interleaved".
    """
    x, angles = as_array("x", x), matrix("angles", angles)
    half = even(x.shape[-1]) // 2
    same("x 和 angles 的行数", "the rows of x and angles", x=x.shape[-2], angles=len(angles))
    same("x 的一半宽度和 angles 的宽度", "half the width of x and the width of angles",
         x=half, angles=angles.shape[1])  # fmt: skip
    if pairing == "half":
        first, second = slice(0, half), slice(half, None)
    elif pairing == "interleaved":
        first, second = slice(0, None, 2), slice(1, None, 2)
    else:
        refuse(
            f'pairing 只能是 "half" 或 "interleaved"；给的是 {pairing!r}。',
            f'pairing is "half" or "interleaved"; it is {pairing!r}.',
        )
    a, b = x[..., first], x[..., second]  # [.., S, d_head/2] each
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)  # [S, d_head/2]
    turned = np.empty_like(x)
    with np.errstate(over="ignore", invalid="ignore"):
        turned[..., first] = a * cos - b * sin
        turned[..., second] = b * cos + a * sin
    return finite("rotate(x)", turned)


def half_from_interleaved(d_head: int) -> NDArray[np.intp]:
    """The order that carries the interleaved layout into the half-split one. [d_head]

    With `order` from here, rotate(x, a, "interleaved")[.., order] is rotate(x[.., order], a):
    even places first, then odd ones. np.argsort(order) leads back.
    """
    d_head = even(d_head)
    return np.concatenate([np.arange(0, d_head, 2), np.arange(1, d_head, 2)])

"""The steps of attention, one small function each: arrays in, arrays out, plain NumPy.

Rows are tokens. In every score and weight matrix the rows are queries and the columns are keys.
Weights act from the right: `x @ w` with w [d_in, d_out]. Every function takes leading axes (batch,
heads) before the two it works on, written `..` below. Bad input is a ValueError that says what was
given and what was wanted. The formulas are those of Vaswani et al. 2017, section 3.2.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from byhand.checks import (
    Array,
    as_array,
    broadcast,
    finite,
    matrix,
    refuse,
    row,
    same,
    shape_text,
    whole,
)


class Stages(NamedTuple):
    """What attention computes on the way, by name; n_q queries look at n_k keys."""

    scores: Array  # [.., n_q, n_k]  q · k
    scaled: Array  # [.., n_q, n_k]  divided by √d_head
    masked: Array  # [.., n_q, n_k]  −inf where a query may not look
    weights: Array  # [.., n_q, n_k]  each row sums to 1
    context: Array  # [.., n_q, d_v]  the weighted values


class LayerStages(NamedTuple):
    """What multi-head attention computes on the way, by name."""

    q: Array  # [.., n_heads, S, d_head]
    k: Array  # [.., n_heads, S, d_head]
    v: Array  # [.., n_heads, S, d_head]
    scores: Array  # [.., n_heads, S, S]
    scaled: Array  # [.., n_heads, S, S]
    masked: Array  # [.., n_heads, S, S]
    weights: Array  # [.., n_heads, S, S]
    context: Array  # [.., n_heads, S, d_head]
    merged: Array  # [.., S, n_heads·d_head]
    output: Array  # [.., S, d_model]


def project(x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """x @ w, plus a bias if there is one: how Q, K and V come out of x.

    x [.., S, d_in], w [d_in, d_out], bias [d_out] -> [.., S, d_out]. ValueError when the widths
    of x and w differ.
    """
    x, w = as_array("x", x), matrix("w", w)
    same("x 的列数和 w 的行数", "the columns of x and the rows of w", x=x.shape[-1], w=w.shape[-2])
    with np.errstate(over="ignore", invalid="ignore"):
        y = finite("x @ w", x @ w)  # [.., S, d_in] @ [d_in, d_out] -> [.., S, d_out]
    if bias is None:
        return y
    b = row("bias", bias)
    same(
        "w 的列数和 bias 的长度",
        "the columns of w and the length of bias",
        w=w.shape[-1],
        bias=b.shape[-1],
    )
    with np.errstate(over="ignore"):
        return finite("x @ w + bias", y + b)


def score(q: ArrayLike, k: ArrayLike) -> Array:
    """Every query times every key: row i, column j is q_i · k_j.

    q [.., n_q, d], k [.., n_k, d] -> [.., n_q, n_k]. ValueError when q and k differ in width.
    """
    q, k = as_array("q", q), as_array("k", k)
    same("q 和 k 的宽度", "the widths of q and k", q=q.shape[-1], k=k.shape[-1])
    broadcast("q", q.shape, "k", k.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = q @ k.swapaxes(-1, -2)  # [.., n_q, d] @ [.., d, n_k] -> [.., n_q, n_k]
    return finite("scores", scores)


def scale(scores: ArrayLike, d_head: int) -> Array:
    """scores / √d_head, with d_head the width of one query (not d_model, the width of x).

    scores [.., n_q, n_k] -> the same shape.
    """
    return as_array("scores", scores) / math.sqrt(whole("d_head", d_head))


def causal_mask(n_q: int, n_k: int | None = None) -> Array:
    """0 where a query may look and −inf on what comes after it. [n_q, n_k]

    With n_k > n_q the queries are the last n_q of the n_k positions (decoding with a cache).
    """
    n_q = whole("n_q", n_q)
    n_k = n_q if n_k is None else whole("n_k", n_k, least=n_q)
    later = np.arange(n_k) > np.arange(n_k - n_q, n_k)[:, None]  # [n_q, n_k]
    return np.where(later, -np.inf, 0.0)


def apply_mask(scores: ArrayLike, mask: ArrayLike) -> Array:
    """scores + mask: 0 leaves a score as it is, −inf takes it out.

    scores [.., n_q, n_k], mask [.., n_q, n_k] of 0 and −inf -> [.., n_q, n_k]. ValueError for any
    other number in the mask, True and False included, and for a row with every key masked.
    """
    scores = as_array("scores", scores)
    try:
        added = np.asarray(mask)
    except ValueError:
        added = np.empty(0, dtype=object)  # rows of different lengths
    if added.dtype.kind not in "fi" or not np.all((added == 0) | np.isneginf(added)):
        refuse(
            "mask 里只能放 0（可以看）和 −inf（不能看）。它是加到分数上的，"
            "所以不能用真假值，也不能用 1 和 0。",
            "a mask holds 0 (may look) and −inf (may not): it is added to the scores, "
            "so True and False or 1 and 0 do not work.",
        )
    try:
        masked: Array = scores + added.astype(scores.dtype)
    except ValueError:
        masked = np.empty(0)
    if masked.shape != scores.shape:
        refuse(
            f"mask 的形状 {shape_text(added.shape)} 和分数的形状 {shape_text(scores.shape)} 对不上。",
            f"the mask has the shape {shape_text(added.shape)} and the scores have "
            f"{shape_text(scores.shape)}: they must match.",
        )
    _refuse_masked_rows(masked, -1)
    return masked


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Positive numbers that sum to 1 along `axis`: e^x over the sum of e^x.

    x of any shape -> the same shape. The maximum is subtracted first, which changes nothing in the
    result and keeps e^x from overflowing. x may hold −inf (weight 0); a row of nothing but −inf,
    NaN or +inf is a ValueError.
    """
    x = as_array("x", x, ndim=1, infinite=True)
    axis = whole("axis", axis, least=-x.ndim)
    if not -x.ndim <= axis < x.ndim:
        refuse(
            f"x 的形状是 {shape_text(x.shape)}，没有第 {axis} 个轴。",
            f"x has the shape {shape_text(x.shape)} and no axis {axis}.",
        )
    _refuse_masked_rows(x, axis)
    with np.errstate(over="ignore"):  # what is below the maximum by too much becomes −inf: weight 0
        exps = np.exp(x - x.max(axis=axis, keepdims=True))  # the largest becomes e^0 = 1
    total = exps.sum(axis=axis, keepdims=True, dtype=np.result_type(x.dtype, np.float32))
    weights: Array = (exps / total).astype(x.dtype)
    return weights


def _refuse_masked_rows(x: Array, axis: int) -> None:
    masked = np.isneginf(x).all(axis=axis)
    if not masked.any():
        return
    where = shape_text(tuple(int(i) for i in np.argwhere(masked)[0]))
    if x.ndim == 1:
        refuse(
            "这一行的键全被遮住了，没有什么可以分配。",
            "in this row every key is masked, so there is nothing to share out.",
        )
    if axis not in (-1, x.ndim - 1):
        refuse(
            f"沿第 {axis} 个轴，位置 {where} 上的数全是 −∞，没有什么可以分配。",
            f"along axis {axis}, every number at {where} is −∞, so there is nothing to share out.",
        )
    refuse(
        f"第 {where} 行的键全被遮住了，没有什么可以分配。",
        f"in row {where} every key is masked, so there is nothing to share out.",
    )


def softmax_jacobian(weights: ArrayLike) -> Array:
    """How each weight of one row moves when each score moves: diag(p) − p pᵀ.

    weights [n] or [.., n] -> [.., n, n]; row i, column j is ∂p_i / ∂x_j.
    """
    p = as_array("weights", weights, ndim=1)
    return p[..., :, None] * np.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :]


def weigh(weights: ArrayLike, v: ArrayLike) -> Array:
    """The values, mixed by the weights: row i is Σ_j weights_ij · v_j.

    weights [.., n_q, n_k], v [.., n_k, d_v] -> [.., n_q, d_v].
    """
    weights, v = as_array("weights", weights), as_array("v", v)
    same(
        "weights 的列数（键）和 v 的行数（值）",
        "the columns of weights (keys) and the rows of v (values)",
        weights=weights.shape[-1],
        v=v.shape[-2],
    )
    broadcast("weights", weights.shape, "v", v.shape)
    return weights @ v  # [.., n_q, n_k] @ [.., n_k, d_v] -> [.., n_q, d_v]


def split_heads(x: ArrayLike, n_heads: int) -> Array:
    """Cut the columns into n_heads blocks: head h gets columns h·d_head … (h + 1)·d_head − 1.

    x [.., S, n_heads·d_head] -> [.., n_heads, S, d_head]. ValueError when the width of x is not a
    multiple of n_heads.
    """
    x, n_heads = as_array("x", x), whole("n_heads", n_heads)
    width = x.shape[-1]
    if width % n_heads:
        refuse(
            f"x 有 {width} 列，分不成 {n_heads} 个一样宽的头。",
            f"x has {width} columns, which cannot be split into {n_heads} heads of equal width.",
        )
    apart = x.reshape(*x.shape[:-1], n_heads, width // n_heads)  # [.., S, n_heads, d_head]
    return apart.swapaxes(-2, -3)  # [.., n_heads, S, d_head]


def merge_heads(heads: ArrayLike) -> Array:
    """Lay the heads side by side again, head 0 first: the inverse of split_heads.

    heads [.., n_heads, S, d_head] -> [.., S, n_heads·d_head].
    """
    heads = as_array("heads", heads, ndim=3)
    apart = heads.swapaxes(-2, -3)  # [.., S, n_heads, d_head]; without this step rows get mixed
    return apart.reshape(*apart.shape[:-2], -1)  # [.., S, n_heads·d_head]


def heads_reaching(w_o: ArrayLike, n_heads: int) -> NDArray[np.bool_]:
    """Which heads can reach which output: those with a number other than 0 in its column of W_O.

    w_o [n_heads·d_head, d_model], head 0 first -> [n_heads, d_model] of True and False. W_O mixes
    heads where a column has more than one True. ValueError when the rows do not divide.
    """
    w_o, n_heads = matrix("w_o", w_o), whole("n_heads", n_heads)
    if len(w_o) % n_heads:
        refuse(
            f"w_o 有 {len(w_o)} 行，分不成 {n_heads} 个一样高的块。",
            f"w_o has {len(w_o)} rows, which cannot be split into {n_heads} blocks of equal height.",
        )
    blocks = w_o.reshape(n_heads, -1, w_o.shape[1])  # [n_heads, d_head, d_model]
    reaching: NDArray[np.bool_] = np.any(blocks != 0, axis=1)
    return reaching


def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, mask: ArrayLike | None = None) -> Stages:
    """Scaled dot-product attention, every stage kept. Vaswani et al. 2017, equation 1.

    q [.., n_q, d], k [.., n_k, d], v [.., n_k, d_v]; mask [.., n_q, n_k] is 0 where a query may
    look and −inf where it may not.
    """
    scores = score(q, k)  # [.., n_q, n_k]
    scaled = scale(scores, np.shape(q)[-1])  # d_head, not d_model
    masked = scaled if mask is None else apply_mask(scaled, mask)
    weights = softmax(masked)  # each row sums to 1
    return Stages(scores, scaled, masked, weights, weigh(weights, v))


def multi_head_attention(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    n_heads: int,
    mask: ArrayLike | None = None,
) -> LayerStages:
    """Several heads side by side, then W_O, every stage kept. Vaswani et al. 2017, section 3.2.2.

    x [.., S, d_model], w_q, w_k, w_v [d_model, n_heads·d_head], w_o [n_heads·d_head, d_model]. Each
    head reads all of x: what is split is the projection, not x.
    """
    q, k, v = (split_heads(project(x, w), n_heads) for w in (w_q, w_k, w_v))
    stages = attention(q, k, v, mask)
    merged = merge_heads(stages.context)  # [.., S, n_heads·d_head]
    return LayerStages(q, k, v, *stages, merged, project(merged, w_o))

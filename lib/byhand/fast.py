"""The attention of one layer once more, as fast as plain NumPy goes. Same signature as `qwen`.

What is different from the readable path, and why:
1. Scores are computed in tiles, a block of queries against a block of keys. A tile fits into the
   processor's cache, keys after the last query of a block are never touched, and the S × S matrix
   never exists. Each row keeps a running maximum and a running sum (the online softmax, Milakov and
   Gimelshein 2018), so the result is the exact softmax, not an approximation.
2. The query heads of a K/V head are rows of one tile: K and V are read once for all of them.
3. 1/√d_head goes into Q's rotation; the division by the row's sum comes after A·V.
4. Row sums are products with a column of ones, which BLAS does faster than a sum.
5. With few tokens, (Wᵀ xᵀ)ᵀ reads the weights faster than x W; the result is the same.
6. Tiles go to as many threads as BLAS would have used, each with BLAS on one thread.
"""

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache as once
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from byhand import rope
from byhand.attention import causal_mask
from byhand.checks import Array, as_array, finite
from byhand.qwen import Attended, Cache, LayerShape, LayerWeights, check, extend

TILE_ROWS = 448  # query rows of a tile, over the heads that share its K/V head
TILE_SIZE = 448 * 512  # numbers of a tile: 0.9 MB in float32
FEW = 32  # up to so many tokens the transposed product is faster
WORTH_THREADS = 2**21  # scores, over all heads; below it starting threads costs more than it saves


@once
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # asks the operating system for the loaded libraries; keep it


def _workers() -> int:
    threads = [lib["num_threads"] for lib in _blas().select(user_api="blas").info()]
    return max(threads, default=os.cpu_count() or 1)


def attend(
    h: ArrayLike, weights: LayerWeights, shape: LayerShape, cache: Cache | None = None
) -> Attended:
    """The attention of one layer: the result of qwen.attend, sooner and in less memory.

    h [.., S, d_model] is already normalised. ValueError as there; numbers in the weights that are
    not finite are noticed in the output.
    """
    h = check(h, weights, shape, cache)
    lead, n_new = h.shape[:-2], h.shape[-2]
    n_past = 0 if cache is None else cache.k.shape[-2]
    flat = h.reshape(-1, shape.d_model)  # [.., S, d_model] -> [batch·S, d_model]

    with np.errstate(over="ignore", invalid="ignore"):  # `_finite` says it in words
        q = _project(flat, weights.w_q, weights.b_q).reshape(-1, n_new, shape.n_heads, shape.d_head)
        kv = (*lead, n_new, shape.n_kv_heads, shape.d_head)
        k = _project(flat, weights.w_k, weights.b_k).reshape(kv).swapaxes(-2, -3)
        v = _project(flat, weights.w_v, weights.b_v).reshape(kv).swapaxes(-2, -3)

        turn = rope.angles(np.arange(n_past, n_past + n_new), shape.d_head, shape.rope_theta)
        k = rope.rotate(_finite("h @ w_k", k, weights), turn)  # [.., n_kv_heads, S, d_head]
        cache = extend(cache, k, v)

        seen = (-1, shape.n_kv_heads, n_past + n_new, shape.d_head)
        context = core(q, cache.k.reshape(seen), cache.v.reshape(seen), turn)
        merged = context.reshape(-1, shape.n_heads * shape.d_head)  # [batch·S, n_heads·d_head]
        output = _finite("output", _project(merged, weights.w_o, None), weights)
    return Attended(output.reshape(h.shape), cache)


def _finite(name: str, array: Array, weights: LayerWeights) -> Array:
    """`array` if its numbers are finite; else the refusal names the weight that is not."""
    if not np.isfinite(array).all():
        for field, given in zip(weights._fields, weights, strict=True):
            if given is not None:
                as_array(f"weights.{field}", given, ndim=1)
    return finite(name, array)


class _Buffers:
    """The memory of one thread, used again for every tile."""

    def __init__(self, dtype: np.dtype[Any], group: int, rows: int, n_k: int, d_head: int) -> None:
        lines = group * rows
        self.keys = min(n_k, max(1, TILE_SIZE // lines))  # keys of a tile; more when rows are few
        self.scores = np.empty(lines * self.keys, dtype)
        self.q = np.empty(lines * d_head, dtype)
        self.context = np.empty(lines * d_head, dtype)
        self.part = np.empty(lines * d_head, dtype)
        self.ones = np.ones((self.keys, 1), dtype)
        self.mask = causal_mask(rows).astype(dtype)  # [rows, rows], of a block against itself


def core(q: Array, k: Array, v: Array, turn: Array) -> Array:
    """Rotate q, score, scale, mask, softmax, weigh, tile by tile.

    q [batch, S, n_heads, d_head] not yet rotated, k and v [batch, n_kv_heads, n_k, d_head] with k
    rotated, turn [S, d_head/2] the angles of the queries, which are the last S of the n_k
    positions -> context [batch, S, n_heads, d_head].
    """
    batch, n_q, n_heads, d_head = q.shape
    n_kv_heads, n_k = k.shape[1:3]
    group = n_heads // n_kv_heads
    rows = min(n_q, max(1, TILE_ROWS // group))  # queries of a tile
    scale = 1 / math.sqrt(d_head)
    cos, sin = ((f(turn) * scale).astype(q.dtype) for f in (np.cos, np.sin))  # [S, d_head/2]
    context = np.empty_like(q)

    def tiles(kv_head: int, buffers: _Buffers, b: int, start: int) -> None:
        stop = min(start + rows, n_q)
        heads = slice(kv_head * group, (kv_head + 1) * group)
        mine = q[b, start:stop, heads].swapaxes(0, 1)  # [group, rows, d_head]
        out = _one_block(
            mine, k[b, kv_head], v[b, kv_head], cos[start:stop], sin[start:stop],
            n_k - n_q + start, buffers,
        )  # fmt: skip
        context[b, start:stop, heads] = out.swapaxes(0, 1)

    # The longest blocks first, so that the threads finish together.
    starts = range(0, n_q, rows)
    jobs = [(g, b, s) for s in reversed(starts) for b in range(batch) for g in range(n_kv_heads)]
    workers = _workers() if batch * n_heads * n_q * n_k > WORTH_THREADS else 1
    if workers == 1:
        buffers = _Buffers(q.dtype, group, rows, n_k, d_head)
        for g, b, s in jobs:
            tiles(g, buffers, b, s)
        return context

    waiting: Iterator[tuple[int, int, int]] = iter(jobs)

    def work(_: int) -> None:
        buffers = _Buffers(q.dtype, group, rows, n_k, d_head)
        with np.errstate(over="ignore", invalid="ignore"):  # not inherited by threads
            for g, b, s in waiting:  # taking the next job is one step under the interpreter's lock
                tiles(g, buffers, b, s)

    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return context


def _one_block(
    q: Array, k: Array, v: Array, cos: Array, sin: Array, position: int, buffers: _Buffers
) -> Array:
    """The context of a block of queries, one tile of keys after another.

    q [group, rows, d_head] not rotated, the first of them at `position`; k, v [n_k, d_head]; cos and
    sin [rows, d_head/2] with the scale in them -> [group, rows, d_head], in the buffers.
    """
    group, rows, d_head = q.shape
    flat = (group * rows, d_head)
    size = group * rows * d_head
    turned = buffers.q[:size].reshape(q.shape)
    context = buffers.context[:size].reshape(flat)
    part = buffers.part[:size].reshape(flat)
    _rotate(q, cos, sin, turned, part.reshape(q.shape))

    best = np.full((group * rows, 1), -np.inf, q.dtype)  # the running maximum of each row
    total = np.zeros((group * rows, 1), q.dtype)  # the running sum of each row
    context.fill(0)
    last = position + rows  # keys from here on are after every query of the block
    for start in range(0, last, buffers.keys):
        stop = min(start + buffers.keys, last)
        keys = stop - start
        scores = buffers.scores[: group * rows * keys].reshape(group * rows, keys)
        np.matmul(turned.reshape(flat), k[start:stop].T, out=scores)  # [group·rows, keys]
        if stop > position:  # some of these keys are after some of these queries
            first = max(start, position)
            mask = buffers.mask[:rows, first - position : stop - position]
            scores.reshape(group, rows, keys)[:, :, first - start :] += mask
        top = np.maximum(best, scores.max(axis=1, keepdims=True))  # [group·rows, 1]
        scores -= top
        np.exp(scores, out=scores)
        shrink = np.exp(best - top)  # what was summed under the old maximum; 0 the first time
        total *= shrink
        total += scores @ buffers.ones[:keys]
        context *= shrink
        context += np.matmul(scores, v[start:stop], out=part)
        best = top
    context /= total
    return context.reshape(q.shape)


def _rotate(q: Array, cos: Array, sin: Array, out: Array, spare: Array) -> None:
    """rope.rotate of a block, half-split, into `out` [group, rows, d_head] without new memory."""
    half = q.shape[-1] // 2
    a, b = q[..., :half], q[..., half:]
    product = spare[..., :half]
    np.multiply(a, cos, out=out[..., :half])
    out[..., :half] -= np.multiply(b, sin, out=product)
    np.multiply(b, cos, out=out[..., half:])
    out[..., half:] += np.multiply(a, sin, out=product)


def _project(x: Array, w: Array, bias: Array | None) -> Array:
    """x @ w + bias, whichever way round is faster. x [n, d_in], w [d_in, d_out] -> [n, d_out]."""
    y = np.ascontiguousarray((w.T @ x.T).T) if 1 < len(x) <= FEW else x @ w
    if bias is not None:
        y += bias
    return y

"""The attention of one layer once more, as fast as plain NumPy goes. Same signature as `qwen`.

What is different from the readable path, and why:
1. Scores are computed in tiles, a block of queries against a block of keys. A tile fits into the
   processor's cache, keys after the last query of a block are never touched, and the S × S matrix
   never exists. Each row keeps a running maximum and a running sum (the online softmax, Milakov and
   Gimelshein 2018), so the result is the exact softmax, not an approximation. Any number near the
   maximum serves as well as the maximum: sums are rescaled only when it has risen by SLACK.
2. The query heads of a K/V head are rows of one tile: K and V are read once for all of them.
3. 1/√d_head goes into Q's rotation; the division by the row's sum comes after A·V.
4. Row sums are products with a column of ones, which BLAS does faster than a sum.
5. With many tokens the work is shared out over as many threads as BLAS would have used, each with
   BLAS on one thread: so exponentials are shared out too, not the products alone. BLAS's own threads
   would spin for a while after each product and take the processor away from them.
6. With few tokens, (Wᵀ xᵀ)ᵀ reads the weights faster than x W; the result is the same.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache as once
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from byhand import rope
from byhand.attention import causal_mask
from byhand.checks import Array, as_array, finite
from byhand.qwen import Attended, Cache, LayerShape, LayerWeights, check, extend

TILE_ROWS = 448  # query rows of a tile, over the heads that share its K/V head
TILE_SIZE = 448 * 512  # numbers of a tile: 0.9 MB in float32
SLACK = 8.0  # how far scores may rise above the maximum before sums are rescaled: e⁸ is harmless
FEW = 32  # up to so many tokens the transposed product is faster
WORTH_THREADS = 128  # tokens, over the batch; with fewer, starting threads costs more than it saves
PARTS = 2  # parts of a projection for each thread, so that a slow one holds up less


@once
def _blas() -> ThreadpoolController:
    return ThreadpoolController()  # asks the operating system for the loaded libraries; keep it


def _workers() -> int:
    threads = [lib["num_threads"] for lib in _blas().select(user_api="blas").info()]
    return max(threads, default=os.cpu_count() or 1)


class _Team(NamedTuple):
    """Threads that share out jobs; BLAS runs on one thread in each."""

    workers: int
    pool: ThreadPoolExecutor | None  # None: one job after another, and BLAS on its own threads

    def do(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run every job, and wait for all of them."""
        for _ in map(_quietly, jobs) if self.pool is None else self.pool.map(_quietly, jobs):
            pass


def _quietly(job: Callable[[], None]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # not inherited by threads
        job()


@contextmanager
def _team(n_tokens: int) -> Iterator[_Team]:
    """Threads if there are tokens enough to be worth it; afterwards BLAS is as it was."""
    workers = _workers() if n_tokens >= WORTH_THREADS else 1
    if workers == 1:
        yield _Team(1, None)
        return
    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        yield _Team(workers, pool)


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

    with (
        np.errstate(over="ignore", invalid="ignore"),  # `_finite` says it in words
        _team(len(flat)) as team,
    ):
        pairs = [(weights.w_q, weights.b_q), (weights.w_k, weights.b_k), (weights.w_v, weights.b_v)]
        q, k, v = _project(flat, pairs, team)  # [batch·S, n_heads·d_head]; K and V are narrower
        kv = (*lead, n_new, shape.n_kv_heads, shape.d_head)
        k, v = k.reshape(kv).swapaxes(-2, -3), v.reshape(kv).swapaxes(-2, -3)

        turn = rope.angles(np.arange(n_past, n_past + n_new), shape.d_head, shape.rope_theta)
        cos, sin = np.cos(turn).astype(k.dtype), np.sin(turn).astype(k.dtype)  # [S, d_head/2]
        cache = extend(cache, _rotated(k, cos, sin, team), v)

        seen = (-1, shape.n_kv_heads, n_past + n_new, shape.d_head)
        q = q.reshape(-1, n_new, shape.n_heads, shape.d_head)
        context = _core(q, cache.k.reshape(seen), cache.v.reshape(seen), cos, sin, team)
        merged = context.reshape(-1, shape.n_heads * shape.d_head)  # [batch·S, n_heads·d_head]
        (output,) = _project(merged, [(weights.w_o, None)], team)
    return Attended(_finite("output", output, weights).reshape(h.shape), cache)


def _finite(name: str, array: Array, weights: LayerWeights) -> Array:
    """`array` if its numbers are finite; else the refusal names the weight that is not."""
    if not np.isfinite(array.sum()):  # quicker than asking each; too large a sum asks each
        for field, given in zip(weights._fields, weights, strict=True):
            if given is not None:
                as_array(f"weights.{field}", given, ndim=1)
        finite(name, array)
    return array


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
    with _team(q.shape[0] * q.shape[1]) as team:
        return _core(q, k, v, np.cos(turn).astype(q.dtype), np.sin(turn).astype(q.dtype), team)


def _core(q: Array, k: Array, v: Array, cos: Array, sin: Array, team: _Team) -> Array:
    batch, n_q, n_heads, d_head = q.shape
    n_kv_heads, n_k = k.shape[1:3]
    group = n_heads // n_kv_heads
    rows = min(n_q, max(1, TILE_ROWS // group))  # queries of a tile
    scale = q.dtype.type(1 / math.sqrt(d_head))
    cos, sin = cos * scale, sin * scale  # [S, d_head/2]
    context = np.empty_like(q)

    # The longest blocks first, so that the threads finish together.
    starts = reversed(range(0, n_q, rows))
    blocks = iter([(s, b, g) for s in starts for b in range(batch) for g in range(n_kv_heads)])

    def work() -> None:
        buffers = _Buffers(q.dtype, group, rows, n_k, d_head)
        for start, b, kv_head in blocks:  # each thread takes the next one that is left
            stop = min(start + rows, n_q)
            heads = slice(kv_head * group, (kv_head + 1) * group)
            mine = q[b, start:stop, heads].swapaxes(0, 1)  # [group, rows, d_head]
            out = _one_block(
                mine, k[b, kv_head], v[b, kv_head], cos[start:stop], sin[start:stop],
                n_k - n_q + start, buffers,
            )  # fmt: skip
            context[b, start:stop, heads] = out.swapaxes(0, 1)

    team.do([work] * team.workers)
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
        top = scores.max(axis=1, keepdims=True)  # [group·rows, 1]
        if (top > best + SLACK).any():  # always the first time
            top = np.maximum(best, top)
            shrink = np.exp(best - top)  # of what was summed under the old maximum; 0 at first
            total *= shrink
            context *= shrink
            best = top
        scores -= best
        np.exp(scores, out=scores)
        total += scores @ buffers.ones[:keys]
        context += np.matmul(scores, v[start:stop], out=part)
    context /= total
    return context.reshape(q.shape)


def _rotated(k: Array, cos: Array, sin: Array, team: _Team) -> Array:
    """The keys of new tokens, rotated. k [.., n_kv_heads, S, d_head] -> the same shape, in order."""
    out = np.empty(k.shape, k.dtype)
    size = -(-k.shape[-2] // team.workers)

    def job(start: int) -> None:
        rows = (..., slice(start, start + size), slice(None))
        _rotate(k[rows], cos[rows[1]], sin[rows[1]], out[rows], np.empty_like(k[rows]))

    team.do([partial(job, start) for start in range(0, k.shape[-2], size)])
    return out


def _rotate(x: Array, cos: Array, sin: Array, out: Array, spare: Array) -> None:
    """rope.rotate of x [.., rows, d_head], half-split, into `out`, with `spare` of the same size."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    product = spare[..., :half]
    np.multiply(a, cos, out=out[..., :half])
    out[..., :half] -= np.multiply(b, sin, out=product)
    np.multiply(b, cos, out=out[..., half:])
    out[..., half:] += np.multiply(a, sin, out=product)


def _project(x: Array, pairs: Sequence[tuple[Array, Array | None]], team: _Team) -> list[Array]:
    """x @ w + bias for each pair (w, bias). x [n, d_in], w [d_in, d_out] -> [n, d_out] each."""
    results: list[Array] = []
    jobs: list[Callable[[], None]] = []
    for w, bias in pairs:
        y = np.empty((len(x), w.shape[1]), np.result_type(x, w))
        n_parts = 1 if team.workers == 1 else PARTS * team.workers
        edges = np.linspace(0, w.shape[1], n_parts + 1).astype(int)
        jobs += [
            partial(_project_part, x, w, bias, y, slice(*part)) for part in pairwise(edges.tolist())
        ]
        results.append(y)
    team.do(jobs)
    return results


def _project_part(x: Array, w: Array, bias: Array | None, out: Array, part: slice) -> None:
    """The columns `part` of x @ w + bias, whichever way round is faster."""
    if 1 < len(x) <= FEW:
        out[:, part] = (w[:, part].T @ x.T).T
    else:
        np.matmul(x, w[:, part], out=out[:, part])
    if bias is not None:
        out[:, part] += bias[part]

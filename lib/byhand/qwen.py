"""One attention layer as Qwen2.5 has it: the steps of `attention`, and what a real model adds.

RMSNorm before, biases on Q, K and V, rotary positions, grouped K/V heads, a causal mask, a K/V
cache, and the sum with the residual stream after W_O, which has no bias. This is the readable path;
`fast` computes the same with the same signature. Weights act from the right, w [d_in, d_out]; a
file stores [d_out, d_in], and its transpose is a view. Source: Hugging Face transformers,
models/qwen2/modeling_qwen2.py, and the model's config.json.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from byhand import rope
from byhand.attention import Stages, attention, causal_mask, merge_heads, project, split_heads
from byhand.checks import Array, as_array, finite, refuse, row, same, shape_text, whole


class LayerShape(NamedTuple):
    """The sizes of one layer. n_heads · d_head need not be d_model."""

    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    rope_theta: float = 1e6
    norm_eps: float = 1e-6


class LayerWeights(NamedTuple):
    """The parameters of one attention layer; a bias may be None where a model has none."""

    input_norm: Array  # [d_model]  the gain of the RMSNorm before
    w_q: Array  # [d_model, n_heads·d_head]
    b_q: Array | None  # [n_heads·d_head]
    w_k: Array  # [d_model, n_kv_heads·d_head]
    b_k: Array | None  # [n_kv_heads·d_head]
    w_v: Array  # [d_model, n_kv_heads·d_head]
    b_v: Array | None  # [n_kv_heads·d_head]
    w_o: Array  # [n_heads·d_head, d_model]
    ffn_norm: Array  # [d_model]  the gain of the RMSNorm after, before the FFN


class Cache(NamedTuple):
    """The keys and values of the tokens so far; the keys are already rotated."""

    k: Array  # [.., n_kv_heads, n_past, d_head]
    v: Array  # [.., n_kv_heads, n_past, d_head]


class Attended(NamedTuple):
    """What the attention of one layer hands over."""

    output: Array  # [.., S, d_model]  after W_O, before the residual sum
    cache: Cache  # n_past + S tokens


class AttendStages(NamedTuple):
    """What the attention of one layer computes on the way, by name; n_k = n_past + S."""

    q: Array  # [.., n_heads, S, d_head]
    k: Array  # [.., n_kv_heads, S, d_head]
    v: Array  # [.., n_kv_heads, S, d_head]
    q_rotated: Array  # [.., n_heads, S, d_head]
    k_rotated: Array  # [.., n_kv_heads, S, d_head]
    scores: Array  # [.., n_heads, S, n_k]
    scaled: Array  # [.., n_heads, S, n_k]
    masked: Array  # [.., n_heads, S, n_k]
    weights: Array  # [.., n_heads, S, n_k]
    context: Array  # [.., n_heads, S, d_head]
    merged: Array  # [.., S, n_heads·d_head]
    output: Array  # [.., S, d_model]
    cache: Cache


class LayerStep(NamedTuple):
    """One layer from the residual stream to what its FFN receives."""

    normed: Array  # [.., S, d_model]  RMSNorm of x: what Q, K and V are projected from
    output: Array  # [.., S, d_model]  attention output
    residual: Array  # [.., S, d_model]  x + output
    ffn_input: Array  # [.., S, d_model]  RMSNorm of the sum
    cache: Cache


def rms_norm(x: ArrayLike, gain: ArrayLike, eps: float) -> Array:
    """Each row divided by its root mean square, then times the learned gain.

    x [.., S, d_model], gain [d_model] -> [.., S, d_model]. Zhang and Sennrich 2019; eps is added to
    the mean of squares, so that a row of zeros stays one. ValueError for an eps that is not above 0.
    """
    number = isinstance(eps, int | float | np.integer | np.floating)
    if isinstance(eps, bool) or not number or not 0 < eps < np.inf:
        refuse(f"eps 要大于 0；给的是 {eps!r}。", f"eps must be greater than 0; it is {eps!r}.")
    x, gain = as_array("x", x), row("gain", gain)
    same("x 的宽度和 gain 的长度", "the width of x and the length of gain",
         x=x.shape[-1], gain=gain.size)  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        mean_square = finite("x * x", np.mean(x * x, axis=-1, keepdims=True))  # [.., S, 1]
        normed = x / np.sqrt(mean_square + x.dtype.type(eps)) * gain
    return finite("normed", normed)


def group_heads(q: ArrayLike, n_kv_heads: int) -> Array:
    """Query heads by the K/V head they share: heads 0 … group − 1 share K/V head 0, and so on.

    q [.., n_heads, S, d_head] -> [.., n_kv_heads, group, S, d_head]. Against K with an axis of size
    1 in the place of `group`, broadcasting pairs them up, and K is never repeated in memory.
    """
    q, n_kv_heads = as_array("q", q, ndim=3), whole("n_kv_heads", n_kv_heads)
    n_heads = q.shape[-3]
    refuse_uneven(n_heads, n_kv_heads)
    return q.reshape(*q.shape[:-3], n_kv_heads, n_heads // n_kv_heads, *q.shape[-2:])


@np.errstate(over="ignore", invalid="ignore")  # the next step says it in words
def attend_stages(
    h: ArrayLike, weights: LayerWeights, shape: LayerShape, cache: Cache | None = None
) -> AttendStages:
    """The attention of one layer, every stage kept. h [.., S, d_model] is already normalised.

    With a cache, h holds the tokens that follow those in it. Bad sizes and numbers: ValueError.
    """
    h = check(h, weights, shape, cache)
    n_past = 0 if cache is None else cache.k.shape[-2]
    n_new = h.shape[-2]

    q = split_heads(project(h, weights.w_q, weights.b_q), shape.n_heads)
    k = split_heads(project(h, weights.w_k, weights.b_k), shape.n_kv_heads)
    v = split_heads(project(h, weights.w_v, weights.b_v), shape.n_kv_heads)

    positions = np.arange(n_past, n_past + n_new)
    turn = rope.angles(positions, shape.d_head, shape.rope_theta)  # [S, d_head/2]
    q_rotated, k_rotated = rope.rotate(q, turn), rope.rotate(k, turn)
    cache = extend(cache, k_rotated, v)

    grouped = group_heads(q_rotated, shape.n_kv_heads)  # [.., n_kv_heads, group, S, d_head]
    shared_k, shared_v = cache.k[..., None, :, :], cache.v[..., None, :, :]
    stages = attention(grouped, shared_k, shared_v, causal_mask(n_new, n_past + n_new))

    # [.., n_kv_heads, group, S, ·] -> [.., n_heads, S, ·]: the heads in a row again
    stages = Stages(*(s.reshape(*h.shape[:-2], shape.n_heads, *s.shape[-2:]) for s in stages))
    merged = merge_heads(stages.context)  # [.., S, n_heads·d_head]
    output = project(merged, weights.w_o)  # [.., S, d_model]
    return AttendStages(
        q, k, v, q_rotated, k_rotated,
        stages.scores, stages.scaled, stages.masked, stages.weights, stages.context,
        merged, output, cache,
    )  # fmt: skip


def attend(
    h: ArrayLike, weights: LayerWeights, shape: LayerShape, cache: Cache | None = None
) -> Attended:
    """The attention of one layer: what attend_stages ends with."""
    stages = attend_stages(h, weights, shape, cache)
    return Attended(stages.output, stages.cache)


def layer(
    x: ArrayLike,
    weights: LayerWeights,
    shape: LayerShape,
    cache: Cache | None = None,
    attend: Callable[[ArrayLike, LayerWeights, LayerShape, Cache | None], Attended] = attend,
) -> LayerStep:
    """From the residual stream to what the FFN receives: norm, attention, sum, norm.

    x [.., S, d_model]. `attend` is the readable path here or `fast.attend`.
    """
    normed = rms_norm(x, weights.input_norm, shape.norm_eps)
    output, cache = attend(normed, weights, shape, cache)
    with np.errstate(over="ignore"):
        residual = finite("x + output", np.asarray(x) + output)
    return LayerStep(
        normed, output, residual, rms_norm(residual, weights.ffn_norm, shape.norm_eps), cache
    )


def extend(cache: Cache | None, k: Array, v: Array) -> Cache:
    """The cache with the rotated keys and the values of new tokens behind those it holds.

    k, v [.., n_kv_heads, S, d_head].
    """
    if cache is None:
        return Cache(k, v)
    return Cache(np.concatenate([cache.k, k], axis=-2), np.concatenate([cache.v, v], axis=-2))


def check(h: ArrayLike, weights: LayerWeights, shape: LayerShape, cache: Cache | None) -> Array:
    """h as an array, once the sizes of everything fit together. Raises ValueError."""
    _check_shape(shape)
    q_width, kv_width = shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head
    wanted: dict[str, tuple[int, ...]] = {
        "input_norm": (shape.d_model,),
        "w_q": (shape.d_model, q_width),
        "b_q": (q_width,),
        "w_k": (shape.d_model, kv_width),
        "b_k": (kv_width,),
        "w_v": (shape.d_model, kv_width),
        "b_v": (kv_width,),
        "w_o": (q_width, shape.d_model),
        "ffn_norm": (shape.d_model,),
    }
    for name, size in wanted.items():
        given = getattr(weights, name)
        if given is None and name.startswith("b_"):
            continue
        has = _plain(f"weights.{name}", given)
        if has != size:
            refuse(
                f"weights.{name} 的形状是 {shape_text(has)}，要的是 {shape_text(size)}。",
                f"weights.{name} has the shape {shape_text(has)}; {shape_text(size)} is wanted.",
            )
    h = as_array("h", h)
    same("h 的宽度和 d_model", "the width of h and d_model", h=h.shape[-1], d_model=shape.d_model)
    if cache is not None:
        _check_cache(cache, h, shape)
    return h


def _check_shape(shape: LayerShape) -> None:
    for name in ("d_model", "n_heads", "n_kv_heads", "d_head"):
        whole(name, getattr(shape, name))
    refuse_uneven(shape.n_heads, shape.n_kv_heads)
    rope.even(shape.d_head)


def _plain(name: str, value: Any) -> tuple[int, ...]:
    """The shape of `value`, which must be an array of numbers already: weights are not copied."""
    array = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray | np.matrix)
    if not array or value.dtype.kind not in "fiu":
        given = value.dtype if array else type(value).__name__
        refuse(
            f"{name} 要是装着数的 NumPy 普通数组；给的是 {given}。",
            f"{name} must be a plain NumPy array of numbers; it is {given}.",
        )
    shape: tuple[int, ...] = value.shape
    return shape


def _check_cache(cache: Cache, h: Array, shape: LayerShape) -> None:
    if not isinstance(cache, Cache):
        refuse(
            f"cache 要是 qwen.Cache(k, v)；给的是 {type(cache).__name__}。",
            f"cache must be a qwen.Cache(k, v); it is {type(cache).__name__}.",
        )
    k, v = _plain("cache.k", cache.k), _plain("cache.v", cache.v)
    n_past = k[-2] if len(k) >= 2 else 0
    wanted = (*h.shape[:-2], shape.n_kv_heads, n_past, shape.d_head)
    if k != wanted or v != wanted:
        refuse(
            f"缓存里 k 是 {shape_text(k)}，v 是 {shape_text(v)}；"
            f"这一层要的都是 {shape_text(wanted)}。",
            f"the cache holds k {shape_text(k)} and v {shape_text(v)}; "
            f"this layer wants {shape_text(wanted)} for both.",
        )
    if n_past:
        as_array("cache.k", cache.k), as_array("cache.v", cache.v)


def refuse_uneven(n_heads: int, n_kv_heads: int) -> None:
    """Refuse query heads that cannot be shared out evenly over the K/V heads."""
    if n_heads % n_kv_heads:
        refuse(
            f"{n_heads} 个查询头分不到 {n_kv_heads} 个键值头上：每个键值头要管一样多的查询头。",
            f"{n_heads} query heads cannot be shared out over {n_kv_heads} K/V heads: "
            f"each K/V head must serve equally many.",
        )


def seeded_weights(shape: LayerShape, seed: int = 7) -> LayerWeights:
    """Weights of the layer's real size, drawn from a seed and the same on every machine.

    They are not trained. Uniform, with the variance 1/d_in that keeps scores near 1. Each matrix is
    drawn in place, [d_out, d_in] as a file stores it, and returned as its transpose, a view: there
    is no second copy.
    """
    _check_shape(shape)
    rng = np.random.default_rng(whole("seed", seed, least=0))
    q_width, kv_width = shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head

    def uniform(*size: int, std: float, mean: float = 0.0) -> Array:
        # float32 multiples of 2^-24, so that nothing depends on a machine's log or exp
        numbers = rng.random(size, dtype=np.float32)
        numbers -= np.float32(0.5)
        numbers *= np.float32(math.sqrt(12) * std)  # a uniform number on [0, 1) has std 1/√12
        if mean:
            numbers += np.float32(mean)
        return numbers

    def matrix(d_in: int, d_out: int) -> Array:
        return uniform(d_out, d_in, std=1 / math.sqrt(d_in)).T  # [d_in, d_out]

    return LayerWeights(
        input_norm=uniform(shape.d_model, std=0.1, mean=1),
        w_q=matrix(shape.d_model, q_width),
        b_q=uniform(q_width, std=0.5),
        w_k=matrix(shape.d_model, kv_width),
        b_k=uniform(kv_width, std=0.5),
        w_v=matrix(shape.d_model, kv_width),
        b_v=uniform(kv_width, std=0.5),
        w_o=matrix(q_width, shape.d_model),
        ffn_norm=uniform(shape.d_model, std=0.1, mean=1),
    )


def seeded_rows(token_ids: ArrayLike, d_model: int) -> Array:
    """One row of numbers for each token id, drawn from the id: the same token, the same row.

    [S, d_model] float32, mean 0, std 1. They stand in for the embeddings; they are not trained.
    """
    ids = row("token_ids", token_ids)
    wrong = ids[(ids < 0) | (ids % 1 != 0)]
    if wrong.size:
        refuse(
            f"token_ids 要是不小于 0 的整数；其中有 {wrong[0]}。",
            f"token_ids must be whole numbers, 0 or more; one is {wrong[0]}.",
        )
    rows = np.empty((ids.size, whole("d_model", d_model)), np.float32)
    for i, token in enumerate(ids):
        np.random.default_rng(int(token)).random(out=rows[i], dtype=np.float32)
    rows -= np.float32(0.5)
    rows *= np.float32(math.sqrt(12))
    return rows

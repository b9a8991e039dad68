"""One attention computation in which every step can be exchanged: what `mistakes` changes.

The steps are those of `attention`, `rope` and `qwen`, and with none exchanged the results are theirs
(tests hold them together). They are written out without the checks of the library: where a mistake
makes a NaN, the NaN must come out, and a diagnosis runs them some thousand times.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from byhand import qwen, rope
from byhand.checks import Array, refuse


@dataclass(frozen=True)
class Problem:
    """The inputs of one attention; what this kind of attention does not have is None.

    It begins with x and projects, or with q, k and v as they are.
    """

    n_heads: int = 1
    n_kv_heads: int = 1
    d_head: int = 1  # the width of one query
    x: Array | None = None  # [.., S, d_model]
    q: Array | None = None  # [.., n_q, d_head]
    k: Array | None = None  # [.., n_k, d_head]
    v: Array | None = None  # [.., n_k, d_v]
    w_q: Array | None = None  # [d_model, n_heads·d_head]
    w_k: Array | None = None  # [d_model, n_kv_heads·d_head]
    w_v: Array | None = None  # [d_model, n_kv_heads·d_head]
    w_o: Array | None = None  # [n_heads·d_head, d_model]
    b_q: Array | None = None  # [n_heads·d_head]
    b_k: Array | None = None  # [n_kv_heads·d_head]
    b_v: Array | None = None  # [n_kv_heads·d_head]
    mask: Array | None = None  # [n_q, n_k]  0 where a query may look, −inf where it may not
    theta: float | None = None  # the base of the rotary positions
    gain: Array | None = None  # [d_model]  of the RMSNorm before; then x is added after W_O
    eps: float | None = None

    @property
    def may_look(self) -> Array:
        """The mask as 1 where a query may look and 0 where it may not. [n_q, n_k]"""
        return np.where(given(self.mask) == 0, 1.0, 0.0)


def given(array: Array | None) -> Array:
    """An input that this problem must have for the step in question. ValueError when it has not."""
    if array is None:
        refuse("这道题没有这一步要的输入。", "this problem lacks an input of the step.")
    return array


def _norm_first(x: Array, p: Problem) -> Array:
    return x if p.gain is None else qwen.rms_norm(x, p.gain, p.eps or 0.0)


def _project(h: Array, w: Array | None) -> Array:
    return h @ given(w)


def _split(y: Array, n_heads: int) -> Array:
    apart = y.reshape(*y.shape[:-1], n_heads, y.shape[-1] // n_heads)
    return apart.swapaxes(-2, -3)


def _score(q: Array, k: Array) -> Array:
    return q @ k.swapaxes(-1, -2)


def _scale(scores: Array, p: Problem) -> Array:
    return scores / math.sqrt(p.d_head)


def _add_bias(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias


def _rotate(x: Array, positions: Array, frequencies: Array, turn: Callable[..., Array]) -> Array:
    return turn(x, positions[:, None] * frequencies)  # angles [S, d_head/2]


def _share(kv: Array, n_heads: int) -> Array:
    """Each K/V head as often as there are query heads that use it: 0 0 1 1 2 2.

    [.., n_kv_heads, S, d_head] -> [.., n_heads, S, d_head].
    """
    return np.repeat(kv, n_heads // kv.shape[-3], axis=-3)


def _mask(scaled: Array, p: Problem) -> Array:
    return scaled if p.mask is None else scaled + p.mask


def softmax(x: Array, axis: int | None = -1) -> Array:
    """The softmax without the library's checks: a row of nothing but −inf becomes NaN."""
    exps = np.exp(x - x.max(axis=axis, keepdims=True))
    normalised: Array = exps / exps.sum(axis=axis, keepdims=True)
    return normalised


def merge(context: Array) -> Array:
    """The heads side by side, without the library's checks. [.., n_heads, S, d] -> [.., S, n_heads·d]"""
    apart = context.swapaxes(-2, -3)  # [.., S, n_heads, d_head]
    return apart.reshape(*apart.shape[:-2], -1)


def _project_out(merged: Array, p: Problem) -> Array:
    return merged if p.w_o is None else merged @ p.w_o


def _residual(x: Array, h: Array, output: Array, p: Problem) -> Array:
    return output if p.gain is None else x + output


@dataclass(frozen=True)
class Steps:
    """The steps in the order in which they run; a mistake exchanges one or a few of them."""

    norm_first: Callable[[Array, Problem], Array] = _norm_first  # x -> h
    project_q: Callable[[Array, Problem], Array] = lambda h, p: _project(h, p.w_q)
    project_k: Callable[[Array, Problem], Array] = lambda h, p: _project(h, p.w_k)
    project_v: Callable[[Array, Problem], Array] = lambda h, p: _project(h, p.w_v)
    add_bias: Callable[[Array, Array | None], Array] = _add_bias
    whole_width: Callable[[Array, Problem], Array] = lambda y, p: y  # q or k before the split
    split: Callable[[Array, int], Array] = _split
    frequencies: Callable[[Problem], Array] = lambda p: rope.frequencies(p.d_head, p.theta or 0.0)
    first_query: int = 0  # the position of the first query; the keys count from 0
    turn: Callable[..., Array] = rope.rotate  # (x, angles) -> x turned
    rotated: str = "qk"  # which of q, k and v
    share: Callable[[Array, int], Array] = _share  # K or V, n_heads
    score: Callable[[Array, Array], Array] = _score
    scale: Callable[[Array, Problem], Array] = _scale
    mask: Callable[[Array, Problem], Array] = _mask
    softmax: Callable[[Array], Array] = softmax
    after_softmax: Callable[[Array, Problem], Array] = lambda weights, p: weights
    weigh: Callable[[Array, Array, Array], Array] = lambda weights, v, k: weights @ v
    values: Callable[[Array, Problem], Array] = lambda v, p: v  # [.., n_heads, S, d_head]
    head_order: Callable[[Array, Problem], Array] = lambda context, p: context
    merge: Callable[[Array], Array] = merge
    project_out: Callable[[Array, Problem], Array] = _project_out
    residual: Callable[[Array, Array, Array, Problem], Array] = _residual  # x, h, output
    norm_last: Callable[[Array, Problem], Array] = lambda x, p: x


STEPS = tuple(field.name for field in fields(Steps))
Changes = Mapping[str, Any]


# The steps that lead to q, k and v; what comes after them is the same for all that leave them alone.
UP_TO_V: Final = frozenset(STEPS[: STEPS.index("score")]) | {"values"}


@np.errstate(all="ignore")  # what goes wrong is looked at in the numbers
def up_to_v(p: Problem, changes: Changes | None = None) -> dict[str, Array]:
    """The first stages by name: h where there is one, q, k and v. ValueError where shapes clash."""
    s = Steps(**(changes or {}))
    if p.x is None:
        return {"q": given(p.q), "k": given(p.k), "v": s.values(given(p.v), p)}
    h = s.norm_first(p.x, p)
    q = s.whole_width(s.add_bias(s.project_q(h, p), p.b_q), p)
    k = s.whole_width(s.add_bias(s.project_k(h, p), p.b_k), p)
    v = s.add_bias(s.project_v(h, p), p.b_v)
    q, k, v = s.split(q, p.n_heads), s.split(k, p.n_kv_heads), s.split(v, p.n_kv_heads)
    if p.theta is not None:
        frequencies = s.frequencies(p)  # [d_head/2]
        at_q = s.first_query + np.arange(q.shape[-2], dtype=np.float64)
        at_k = np.arange(k.shape[-2], dtype=np.float64)
        q = _rotate(q, at_q, frequencies, s.turn) if "q" in s.rotated else q
        k = _rotate(k, at_k, frequencies, s.turn) if "k" in s.rotated else k
        v = _rotate(v, at_k, frequencies, s.turn) if "v" in s.rotated else v
    k, v = s.share(k, p.n_heads), s.share(v, p.n_heads)  # [.., n_heads, S, d_head]
    return {"h": h, "q": q, "k": k, "v": s.values(v, p)}


@np.errstate(all="ignore")
def run(
    p: Problem, changes: Changes | None = None, begun: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Every stage by name, in order; the last one is the result. ValueError where shapes clash.

    `changes` names the steps to exchange. Stages: h, q, k, v, scores, scaled, masked, weights,
    context, and as far as the problem has them merged, output, residual. `begun` are the stages
    `up_to_v` of the same problem and changes, where they are known.
    """
    s = Steps(**(changes or {}))
    stages = dict(up_to_v(p, changes) if begun is None else begun)
    stages["scores"] = s.score(stages["q"], stages["k"])  # [.., n_q, n_k]
    stages["scaled"] = s.scale(stages["scores"], p)
    stages["masked"] = s.mask(stages["scaled"], p)
    stages["weights"] = s.after_softmax(s.softmax(stages["masked"]), p)
    stages["context"] = s.weigh(stages["weights"], stages["v"], stages["k"])  # [.., n_q, d_v]
    if p.x is None:
        return stages
    stages["merged"] = s.merge(s.head_order(stages["context"], p))  # [.., S, n_heads·d_head]
    if p.w_o is not None:
        stages["output"] = s.project_out(stages["merged"], p)  # [.., S, d_model]
    if p.gain is not None:
        summed = s.residual(p.x, stages["h"], stages["output"], p)
        stages["residual"] = s.norm_last(summed, p)
    return stages


def result(p: Problem, changes: Changes | None = None) -> Array | None:
    """The last stage, or None where the shapes do not allow it: an error is what a reader would see."""
    try:
        return list(run(p, changes).values())[-1]
    except (ValueError, IndexError):
        return None

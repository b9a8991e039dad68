"""The tests' teeth: a mistake made in the library turns the notebooks that teach the step red.

Each mistake of the catalogue is made in the library's own functions. With it in place the library must
compute what the catalogue says comes out, and the notebooks that teach the step must turn red: their
code cells run as Jupyter would run them, up to the first that raises or shows anything but what is
stored. docs/mistakes.md tells which cell that is; with WRITE_TABLE=1 it is written anew.
"""

import ast
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import replace
from functools import cache, wraps
from importlib import import_module
from inspect import getsource
from pkgutil import iter_modules
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from threadpoolctl import threadpool_limits

import byhand
from authoring import source
from authoring.build import edition_path
from byhand import fast, mistakes, probes, qwen, steps
from byhand.checks import Array
from byhand.kit import KINDS
from byhand.probes import CASES, Kind
from byhand.qwen import LayerShape, LayerWeights
from byhand.steps import Problem, given

# All modules at once: one that is first imported while a function is exchanged would keep it.
LIBRARY: dict[str, Any] = {
    module.name: import_module(f"byhand.{module.name}")
    for module in iter_modules(byhand.__path__)
    if module.name != "__main__"
}
TABLE = source.ROOT / "docs" / "mistakes.md"
NOTEBOOKS = {name[:2]: name for name in source.names()}
COMPARED = ("text/plain", "text/latex")
FORMATTER: Any = DisplayFormatter()  # what Jupyter asks for the texts of a value
SAME = 1e-9


# ---- the mistakes, as changes of the library's text ---------------------------------------------


class Mutation(NamedTuple):
    """A mistake, made in one function of the library."""

    mistake: str
    where: str  # the function, behind its module of byhand
    ways: str  # the keys of WAYS that it spoils
    taught_in: str  # the numbers of the notebooks that must turn red
    edits: Mapping[str, str]  # old text, which the function has once, and the new


ALL = "attention heads attend layer"
FROM_X = "heads attend layer"
REAL = "attend layer"

# Text of the library that several mistakes change.
SCALED = ' / math.sqrt(whole("d_head", d_head))'
ADDED = "scores + added.astype(scores.dtype)"
SOFTMAX = "softmax(masked)"
MAXIMUM = "x.max(axis=axis, keepdims=True)"
TOTAL = "exps.sum(axis=axis, keepdims=True, "
LATER = "np.arange(n_k) > np"
APART = "heads.swapaxes(-2, -3)"
STAGES = "attention(q, k, v, mask)"
MERGE = "merge_heads(stages.context)"
OUT = "project(merged, w_o)"
REAL_OUT = "project(merged, weights.w_o)"
SHARED = "cache.k[..., None, :, :], cache.v[..., None, :, :]"
REPEATED = "(group_heads({}, shape.n_kv_heads) for kv in cache)"
TURNED = "rope.rotate(q, turn), rope.rotate(k, turn)"
ANGLES = "rope.angles(positions, shape.d_head, shape.rope_theta)"
ANGLES_FROM_1 = "rope.angles(positions + 1, shape.d_head, shape.rope_theta)"
BY_D_MODEL = "/ shape.rope_theta ** (np.arange(0, shape.d_head, 2) / shape.d_model)"
NORM = "rms_norm(x, weights.input_norm, shape.norm_eps)"
SUM = "np.asarray(x) + output"
FAST_SCALE = "1 / math.sqrt(d_head)"
FAST_MASK = "+= mask"
FAST_OUT = "(output,) = _project(merged, [(weights.w_o, None)], team)"
FAST_ANGLES = "rope.angles(np.arange(n_past, n_past + n_new), shape.d_head, shape.rope_theta)"

MUTATIONS = (
    # scaling
    Mutation("scale_none", "attention.scale", ALL, "01 02", {SCALED: ""}),
    Mutation("scale_none", "fast._core", "fast", "06", {FAST_SCALE: "1"}),
    Mutation("scale_d_model", "attention.multi_head_attention", "heads", "04", {
        STAGES: "attention(q * math.sqrt(q.shape[-1] / np.shape(x)[-1]), k, v, mask)",
    }),
    Mutation("scale_d_model", "qwen.attend_stages", REAL, "06", {
        "attention(grouped,": "attention(grouped * math.sqrt(shape.d_head / shape.d_model),",
    }),
    Mutation("scale_d", "attention.scale", ALL, "01 02", {"math.sqrt": ""}),
    Mutation("scale_d", "fast._core", "fast", "06", {FAST_SCALE: "1 / d_head"}),
    Mutation("scale_after_softmax", "attention.attention", ALL, "03", {
        "scale(scores, np.shape(q)[-1])": "scores",
        SOFTMAX: "softmax(masked) / math.sqrt(np.shape(q)[-1])",
    }),
    Mutation("scale_after_softmax_d_model", "attention.multi_head_attention", "heads", "04", {
        STAGES: "attention(q * math.sqrt(q.shape[-1]), k, v, mask)",
        MERGE: "merge_heads(stages.context / math.sqrt(np.shape(x)[-1]))",
    }),
    Mutation("scale_multiplied", "attention.scale", ALL, "01 02", {") / math": ") * math"}),
    Mutation("scale_multiplied", "fast._core", "fast", "06", {FAST_SCALE: "math.sqrt(d_head)"}),
    Mutation("scale_tokens", "attention.scale", ALL, "01 02", {
        SCALED: " / math.sqrt(np.shape(scores)[-1])",
    }),
    Mutation("scale_tokens", "fast._core", "fast", "06", {FAST_SCALE: "1 / math.sqrt(n_k)"}),
    # softmax
    Mutation("softmax_columns", "attention.softmax", ALL, "02", {"int = -1": "int = -2"}),
    Mutation("softmax_heads", "attention.attention", "attention heads", "04", {
        SOFTMAX: "softmax(masked, -3)",
    }),
    Mutation("softmax_batch", "attention.attention", "attention heads", "04", {
        SOFTMAX: "softmax(masked, -4)",
    }),
    Mutation("softmax_all", "attention.softmax", ALL, "02", {
        MAXIMUM: "x.max()", TOTAL: "exps.sum(",
    }),
    Mutation("softmax_no_keepdims", "attention.softmax", "attention heads", "02", {
        TOTAL: "exps.sum(axis=axis, ",
    }),
    Mutation("softmax_bare", "attention.softmax", "attention heads", "02", {
        f"x - {MAXIMUM}": "x", TOTAL: "exps.sum(axis=axis, ",
    }),
    Mutation("softmax_max_no_keepdims", "attention.softmax", "attention heads", "02", {
        MAXIMUM: "x.max(axis=axis)",
    }),
    Mutation("softmax_neither_keepdims", "attention.softmax", "attention heads", "02", {
        MAXIMUM: "x.max(axis=axis)", TOTAL: "exps.sum(axis=axis, ",
    }),
    Mutation("softmax_no_max", "attention.softmax", ALL, "02", {f"x - {MAXIMUM}": "x"}),
    Mutation("softmax_no_max", "fast._one_block", "fast", "06", {
        "np.full((group * rows, 1), -np.inf, q.dtype)": "np.zeros((group * rows, 1), q.dtype)",
        "if (top > best + SLACK).any():": "if False:",
    }),
    Mutation("softmax_whole_max", "attention.softmax", ALL, "02", {MAXIMUM: "x.max()"}),
    Mutation("softmax_twice", "attention.attention", ALL, "03", {SOFTMAX: "softmax(softmax(masked))"}),
    Mutation("softmax_unnormalised", "attention.softmax", ALL, "02", {"exps / total": "np.exp(x)"}),
    # mask
    Mutation("mask_left_out", "attention.apply_mask", ALL, "02 03", {ADDED: "scores"}),
    Mutation("mask_left_out", "qwen.attend_stages", REAL, "06", {
        ", causal_mask(n_new, n_past + n_new))": ")",
    }),
    Mutation("mask_left_out", "fast._one_block", "fast", "06", {FAST_MASK: "+= 0"}),
    Mutation("mask_after_softmax", "attention.attention", ALL, "03", {
        "scaled if mask is None else apply_mask(scaled, mask)": "scaled",
        SOFTMAX: "softmax(masked) * (1 if mask is None else np.asarray(mask) == 0)",
    }),
    Mutation("mask_after_exp", "attention.attention", ALL, "03", {
        "scaled if mask is None else apply_mask(scaled, mask)": "scaled",
        SOFTMAX: "softmax(masked) * (1 if mask is None else np.asarray(mask) == 0); "
        "weights = weights / weights.sum(axis=-1, keepdims=True)",
    }),
    Mutation("mask_zero", "attention.apply_mask", ALL, "02 03", {ADDED: "scores * (added == 0)"}),
    Mutation("mask_zero", "fast._one_block", "fast", "06", {FAST_MASK: "*= mask == 0"}),
    Mutation("mask_added_01", "attention.apply_mask", ALL, "02 03", {ADDED: "scores + (added == 0)"}),
    Mutation("mask_added_01", "fast._one_block", "fast", "06", {FAST_MASK: "+= mask == 0"}),
    Mutation("mask_added_10", "attention.apply_mask", ALL, "02 03", {ADDED: "scores + (added != 0)"}),
    Mutation("mask_added_10", "fast._one_block", "fast", "06", {FAST_MASK: "+= mask != 0"}),
    Mutation("mask_polarity", "attention.apply_mask", ALL, "02 03", {
        ADDED: "np.where(added == 0, -np.inf, scores)",
    }),
    Mutation("mask_upside_down", "attention.causal_mask", ALL + " fast", "02 03", {
        LATER: "np.arange(n_k) < np",
    }),
    Mutation("mask_not_itself", "attention.causal_mask", ALL + " fast", "02 03", {
        LATER: "np.arange(n_k) >= np",
    }),
    Mutation("mask_next", "attention.causal_mask", ALL + " fast", "02 03", {
        LATER: "np.arange(n_k) > 1 + np",
    }),
    Mutation("mask_finite", "attention.apply_mask", ALL, "02", {
        ADDED: "scores + np.maximum(added, -1e5)",
    }),
    Mutation("mask_finite", "fast._one_block", "fast", "06", {FAST_MASK: "+= np.maximum(mask, -1e5)"}),
    Mutation("mask_filled", "attention.apply_mask", ALL, "02", {
        ADDED: "np.where(added == 0, scores, -1e5)",
    }),
    # heads
    Mutation("merge_no_transpose", "attention.merge_heads", FROM_X, "04", {
        "return apart": "return heads",
    }),
    Mutation("split_no_transpose", "attention.split_heads", FROM_X, "04", {
        "return apart.swapaxes(-2, -3)": "return x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)",
    }),
    Mutation("split_interleaved", "attention.split_heads", FROM_X, "04", {
        "return apart.swapaxes(-2, -3)":
        "return np.moveaxis(x.reshape(*x.shape[:-1], -1, n_heads), -1, -3)",
    }),
    Mutation("merge_interleaved", "attention.merge_heads", FROM_X, "04", {
        APART: "np.moveaxis(heads, -3, -1)",
    }),
    Mutation("heads_slice_x", "attention.multi_head_attention", "heads", "04", {
        "project(x, w)":
        "project(x, w * np.kron(np.eye(n_heads), np.ones([n // n_heads for n in np.shape(w)])))",
    }),
    Mutation("heads_reversed", "attention.merge_heads", FROM_X, "04", {
        APART: "heads[..., ::-1, :, :].swapaxes(-2, -3)",
    }),
    Mutation("heads_reversed", "qwen.attend_stages", REAL, "06", {
        MERGE: "merge_heads(stages.context[..., ::-1, :, :])",
    }),
    Mutation("heads_reversed", "fast.attend", "fast", "06", {
        "context.reshape": "context[:, :, ::-1].reshape",
    }),
    Mutation("heads_averaged", "attention.multi_head_attention", "heads", "04", {
        MERGE: "stages.context.mean(axis=-3)", OUT: "merged",
    }),
    Mutation("heads_summed", "attention.multi_head_attention", "heads", "04", {
        MERGE: "stages.context.sum(axis=-3)", OUT: "merged",
    }),
    # output projection
    Mutation("w_o_left_out", "attention.multi_head_attention", "heads", "04", {OUT: "merged"}),
    Mutation("w_o_left_out", "qwen.attend_stages", REAL, "06", {REAL_OUT: "merged"}),
    Mutation("w_o_left_out", "fast.attend", "fast", "06", {
        FAST_OUT: "output = merged", ".reshape(h.shape)": ".reshape(*h.shape[:-1], -1)",
    }),
    Mutation("w_o_transposed", "attention.multi_head_attention", "heads", "04", {
        OUT: "project(merged, np.transpose(w_o))",
    }),
    Mutation("w_o_transposed", "qwen.attend_stages", REAL, "06", {
        REAL_OUT: "project(merged, weights.w_o.T)",
    }),
    Mutation("w_o_transposed", "fast.attend", "fast", "06", {"weights.w_o,": "weights.w_o.T,"}),
    Mutation("w_o_relu", "attention.multi_head_attention", "heads", "04", {
        OUT: "np.maximum(project(merged, w_o), 0)",
    }),
    Mutation("w_o_relu", "qwen.attend_stages", REAL, "06", {
        REAL_OUT: "np.maximum(project(merged, weights.w_o), 0)",
    }),
    Mutation("w_o_first_rows", "attention.multi_head_attention", "heads", "04", {
        OUT: "project(stages.context.sum(axis=-3), w_o[: q.shape[-1]])",
    }),
    Mutation("w_o_first_rows", "qwen.attend_stages", REAL, "06", {
        REAL_OUT: "project(stages.context.sum(axis=-3), weights.w_o[: shape.d_head])",
    }),
    Mutation("w_o_before_merge", "attention.multi_head_attention", "heads", "04", {
        STAGES: "attention(q, k, split_heads(project(merge_heads(v), w_o), n_heads), mask)",
        OUT: "merged",
    }),
    # projections
    Mutation("k_as_v", "attention.attention", ALL, "03 04", {"weigh(weights, v)": "weigh(weights, k)"}),
    Mutation("k_as_v", "qwen.attend_stages", REAL, "06", {"cache.v[": "cache.k["}),
    Mutation("k_as_v", "fast._one_block", "fast", "06", {"v[start:stop]": "k[start:stop]"}),
    Mutation("v_not_projected", "attention.multi_head_attention", "heads", "04", {
        STAGES: "attention(q, k, split_heads(x, n_heads), mask)",
    }),
    Mutation("nothing_projected", "attention.multi_head_attention", "heads", "04", {
        "project(x, w)": "x",
    }),
    Mutation("k_is_q", "attention.multi_head_attention", "heads", "04", {
        "(w_q, w_k, w_v))": "(w_q, w_q, w_v))",
    }),
    Mutation("q_is_k", "attention.multi_head_attention", "heads", "04", {
        "(w_q, w_k, w_v))": "(w_k, w_k, w_v))",
    }),
    Mutation("qkv_transposed", "attention.multi_head_attention", "heads", "04", {
        "project(x, w)": "project(x, np.transpose(w))",
    }),
    Mutation("weights_transposed", "attention.weigh", ALL, "03 04", {
        "return weights @ v": "return weights.swapaxes(-1, -2) @ v",
    }),
    Mutation("scores_transposed", "attention.score", ALL, "01", {
        "q @ k.swapaxes(-1, -2)": "k @ q.swapaxes(-1, -2)",
    }),
    Mutation("k_reshaped", "attention.score", ALL, "01", {
        "k.swapaxes(-1, -2)": "k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])",
    }),
    Mutation("bias_dropped", "attention.project", REAL, "05 06", {"y + b)": "y)"}),
    Mutation("bias_dropped", "qwen.attend_stages", REAL, "06", {
        f", weights.b_{name})": ")" for name in "qkv"
    }),
    Mutation("bias_dropped", "fast._project_part", "fast", "06", {"+= bias[part]": "+= 0"}),
    # grouped K/V heads
    Mutation("gqa_tiled", "qwen.attend_stages", REAL, "06", {
        SHARED: REPEATED.format("np.concatenate([kv] * grouped.shape[-3], axis=-3)"),
    }),
    Mutation("gqa_tiled", "fast._core", "fast", "06", {
        "slice(kv_head * group, (kv_head + 1) * group)": "slice(kv_head, None, n_kv_heads)",
    }),
    Mutation("gqa_first", "qwen.attend_stages", REAL, "06", {
        SHARED: SHARED.replace("...,", "..., :1,"),
    }),
    Mutation("gqa_first", "fast._core", "fast", "06", {
        "k[b, kv_head], v[b, kv_head]": "k[b, 0], v[b, 0]",
    }),
    Mutation("gqa_stride", "qwen.group_heads", REAL, "06", {
        "n_kv_heads, n_heads // n_kv_heads, *q.shape[-2:])":
        "n_heads // n_kv_heads, n_kv_heads, *q.shape[-2:]).swapaxes(-3, -4)",
    }),
    Mutation("gqa_divided", "qwen.attend_stages", REAL, "06", {
        SHARED: REPEATED.format("kv[..., np.arange(shape.n_heads) // shape.n_kv_heads, :, :]"),
    }),
    # rotary positions
    Mutation("rope_left_out", "qwen.attend_stages", REAL, "06", {TURNED: "q, k"}),
    Mutation("rope_keys_plain", "qwen.attend_stages", REAL, "06", {"rope.rotate(k, turn)": "k"}),
    Mutation("rope_keys_plain", "fast.attend", "fast", "06", {
        "_rotated(k, cos, sin, team), v)": "k, v)",
    }),
    Mutation("rope_on_v", "qwen.attend_stages", REAL, "06", {
        "k_rotated, v)": "k_rotated, rope.rotate(v, turn))",
    }),
    Mutation("rope_on_v", "fast.attend", "fast", "06", {
        "team), v)": "team), _rotated(v, cos, sin, team))",
    }),
    Mutation("rope_pairing", "rope.rotate", REAL, "06", {'= "half") ->': '= "interleaved") ->'}),
    Mutation("rope_layouts_mixed", "rope.rotate", REAL, "06", {
        "a * cos - b * sin":
        "a * np.repeat(cos, 2, axis=-1)[:, :half] - b * np.repeat(sin, 2, axis=-1)[:, :half]",
        "b * cos + a * sin":
        "b * np.repeat(cos, 2, axis=-1)[:, half:] + a * np.repeat(sin, 2, axis=-1)[:, half:]",
    }),
    Mutation("rope_d_model", "qwen.attend_stages", REAL, "06", {
        ANGLES: f"positions[:, None] {BY_D_MODEL}",
    }),
    Mutation("rope_d_model", "fast.attend", "fast", "06", {
        FAST_ANGLES: f"np.arange(n_past, n_past + n_new)[:, None] {BY_D_MODEL}",
    }),
    Mutation("rope_base", "qwen.attend_stages", REAL, "06", {"shape.rope_theta": "1e4"}),
    Mutation("rope_base", "fast.attend", "fast", "06", {"shape.rope_theta": "1e4"}),
    Mutation("rope_query_from_1", "qwen.attend_stages", REAL, "06", {
        "rope.rotate(q, turn)": f"rope.rotate(q, {ANGLES_FROM_1})",
    }),
    Mutation("rope_sign", "rope.rotate", REAL, "06", {
        "a * cos - b * sin": "a * cos + b * sin", "b * cos + a * sin": "b * cos - a * sin",
    }),
    Mutation("rope_sign", "fast._rotate", "fast", "06", {
        "[..., :half] -= np": "[..., :half] += np", "[..., half:] += np": "[..., half:] -= np",
    }),
    Mutation("rope_before_split", "qwen.attend_stages", REAL, "06", {
        TURNED: "q, k",
        **{f"project(h, weights.w_{name}, weights.b_{name})":
           f"rope.rotate(project(h, weights.w_{name}, weights.b_{name}), rope.angles("
           f"range(h.shape[-2]), weights.w_{name}.shape[1], shape.rope_theta))" for name in "qk"},
    }),
    # residual and norm
    Mutation("residual_left_out", "qwen.layer", "layer", "06", {SUM: "output"}),
    Mutation("residual_doubled", "qwen.layer", "layer", "06", {SUM: f"2 * {SUM}"}),
    Mutation("residual_normed", "qwen.layer", "layer", "06", {SUM: "normed + output"}),
    Mutation("norm_left_out", "qwen.layer", "layer", "06", {NORM: "np.asarray(x)"}),
    Mutation("norm_after", "qwen.layer", "layer", "06", {
        NORM: "np.asarray(x)", SUM: f"rms_norm({SUM}, weights.input_norm, shape.norm_eps)",
    }),
)  # fmt: skip

# Wherever one of these changes anything, the library's checks find NaN and refuse it.
REFUSED = {
    "softmax_no_max",
    "softmax_whole_max",
    "mask_after_exp",
    "mask_polarity",
    "mask_not_itself",
}

# What no number in the notebooks shows, and why. It is not missed: the problems of `probes` show it, so
# test_without_a_mistake_the_library_computes_the_reference turns red.
NOT_SHOWN = {
    ("mask_after_exp", "attention.attention"): (
        "03 里遮住的分数不比看得见的大多少，算出来是对的",
        "the masked scores of 03 lie little above the visible ones, and the result is right",
    ),
    ("softmax_no_max", "fast._one_block"): (
        "06 里的分数不够大，指数不会溢出",
        "the scores of 06 are not large enough for an exponential to overflow",
    ),
    ("mask_finite", "fast._one_block"): (
        "06 里的分数不够大，−1e5 都遮得住",
        "the scores of 06 are not large enough to outweigh −1e5",
    ),
}


def label(mutation: Mutation) -> str:
    return f"{mutation.mistake}-{mutation.where}"


# The random weights of a real layer, drawn once for all runs; no notebook writes into them.
DRAWN_ONCE: dict[Callable[..., Any], Callable[..., Any]] = {
    qwen.seeded_weights: cache(qwen.seeded_weights)
}

each_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=label)


def function(where: str) -> Callable[..., Any]:
    module, name = where.split(".")
    found: Callable[..., Any] = getattr(LIBRARY[module], name)
    return found


@contextmanager
def exchanged(functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Other functions in the place of some of the library, wherever they were imported."""
    with pytest.MonkeyPatch.context() as patch:
        for holder in (byhand, *LIBRARY.values()):
            for name, value in list(vars(holder).items()):
                if isinstance(value, FunctionType) and value in functions:
                    patch.setattr(holder, name, functions[value])
        yield


def mistaken(mutation: Mutation) -> Callable[..., Any]:
    """The function with the mistake in it, compiled among the names of its module.

    The function alone, not its module, so that every type stays what it is.
    """
    original = function(mutation.where)
    text = getsource(original)
    for old, new in mutation.edits.items():
        assert text.count(old) == 1, f"{mutation.where} has this {text.count(old)} times: {old}"
        text = text.replace(old, new)
    compiled: dict[str, Callable[..., Any]] = {}
    exec(compile(text, label(mutation), "exec"), vars(import_module(original.__module__)), compiled)
    return compiled[original.__name__]


def made(mutation: Mutation) -> AbstractContextManager[None]:
    """The library with the mistake in it."""
    return exchanged({function(mutation.where): mistaken(mutation)})


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small products are not faster with several threads, which take the processor from others."""
    with threadpool_limits(1, user_api="blas"):
        yield


# ---- the library and the catalogue --------------------------------------------------------------


def mask_of(p: Problem) -> Array | None:
    found: Array | None = (
        None if p.mask is None else LIBRARY["attention"].causal_mask(*p.mask.shape)
    )
    return found


def by_attention(p: Problem) -> Array:
    context: Array = LIBRARY["attention"].attention(p.q, p.k, p.v, mask_of(p)).context
    return context


def by_heads(p: Problem) -> Array:
    arrays = (p.x, p.w_q, p.w_k, p.w_v, p.w_o)
    output: Array = LIBRARY["attention"].multi_head_attention(*arrays, p.n_heads, mask_of(p)).output
    return output


def real(p: Problem) -> tuple[Array, LayerWeights, LayerShape]:
    x = given(p.x)
    one = np.ones(x.shape[-1])
    weights = LayerWeights(
        one if p.gain is None else p.gain, given(p.w_q), p.b_q, given(p.w_k), p.b_k,
        given(p.w_v), p.b_v, given(p.w_o), ffn_norm=one,
    )  # fmt: skip
    shape = LayerShape(one.size, p.n_heads, p.n_kv_heads, p.d_head, p.theta or 0.0, p.eps or 1.0)
    return x, weights, shape


class Way(NamedTuple):
    """A function of the library that goes the whole way, and the problems it is tried on."""

    compute: Callable[[Problem], Array]
    kinds: tuple[Kind, ...]


WAYS = {
    "attention": Way(by_attention, (
        KINDS["attention"],
        KINDS["causal"],
        replace(KINDS["attention"], leading=(*probes.BATCH, probes.N_HEADS)),
    )),
    "heads": Way(by_heads, (
        KINDS["multi_head"],
        KINDS["multi_head_causal"],
        replace(KINDS["multi_head"], leading=probes.BATCH),
    )),
    "attend": Way(lambda p: qwen.attend(*real(p)).output, (KINDS["layer"],)),
    "layer": Way(lambda p: qwen.layer(*real(p)).residual, (KINDS["block"],)),
    "fast": Way(lambda p: fast.attend(*real(p)).output, (KINDS["layer"],)),
}  # fmt: skip


def computed(way: str, p: Problem) -> Array | None:
    """What the library computes as it is now; None where it refuses."""
    try:
        with np.errstate(all="ignore"):  # as in the reference: what goes wrong is in the numbers
            return WAYS[way].compute(p)
    except ValueError:
        return None


@cache
def problems(way: str) -> tuple[Problem, ...]:
    return tuple(probes.problem(kind, case) for kind in WAYS[way].kinds for case in CASES)


def agree(found: Array | None, wanted: Array | None) -> bool:
    """Whether both are the same numbers, or the library refused what is not all numbers."""
    if wanted is None or not np.isfinite(wanted).all():
        return found is None
    return (
        found is not None
        and found.shape == wanted.shape
        and np.allclose(found, wanted, rtol=SAME, atol=SAME * np.abs(wanted).max())
    )


@pytest.mark.parametrize("way", WAYS)
def test_without_a_mistake_the_library_computes_the_reference(way: str) -> None:
    for p in problems(way):
        assert agree(computed(way, p), steps.result(p))


def test_every_mistake_of_the_catalogue_is_made_in_the_library() -> None:
    assert {m.mistake for m in MUTATIONS} == set(mistakes.names())
    assert len(set(map(label, MUTATIONS))) == len(MUTATIONS)


@each_mutation
def test_with_a_mistake_the_library_computes_what_the_catalogue_says(mutation: Mutation) -> None:
    mistake = mistakes.find(mutation.mistake)
    # `steps` takes steps from the library: ask it before the library is changed
    asked = [
        (way, p, steps.result(p, mistake.changes), steps.result(p))
        for way in mutation.ways.split()
        for p in problems(way)
        if p.mask is not None or mistake.family != "mask"
    ]
    with made(mutation):
        for way, p, wanted, _ in asked:
            assert agree(computed(way, p), wanted), way
    wrong = [wanted for _, _, wanted, right in asked if not agree(wanted, right)]
    assert wrong  # so the test without a mistake turns red
    refused = all(wanted is None or not np.isfinite(wanted).all() for wanted in wrong)
    assert refused == (mutation.mistake in REFUSED)


# ---- the notebooks ------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A code cell of the Chinese edition, and what is stored below it."""

    statements: CodeType
    shown: CodeType | None  # the expression the cell ends in
    printed: str
    texts: dict[str, str]  # of the value of that expression, as in the file


@cache
def cells(number: str) -> list[Cell]:
    notebook = nbformat.read(edition_path(NOTEBOOKS[number], "zh"), as_version=4)
    return [
        stored(cell, f"{number} [{n}]")
        for n, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1)
    ]


def stored(cell: Any, name: str) -> Cell:
    tree = ast.parse(cell.source)
    shown = None
    if isinstance(last := tree.body[-1], ast.Expr):
        shown = compile(ast.Expression(last.value), name, "eval")
        del tree.body[-1]
    texts: dict[str, str] = {}
    for output in cell.outputs:
        texts |= {k: t for k, t in output.get("data", {}).items() if k in COMPARED}
    printed = "".join(output.get("text", "") for output in cell.outputs)
    return Cell(compile(tree, name, "exec"), shown, printed, texts)


def fault(cell: Cell, names: dict[str, Any], compare: bool = True) -> str:
    """Run a cell; what is wrong with it, or "". Without `compare` it need not show anything."""
    printed, value = io.StringIO(), None
    try:
        # a warning is not what a mistake must show itself by
        with redirect_stdout(printed), warnings.catch_warnings(action="ignore"):
            exec(cell.statements, names)
            if cell.shown and compare:
                value = eval(cell.shown, names)
    except Exception as error:
        return f"raises {type(error).__name__}"
    if not compare:
        return ""
    if printed.getvalue() != cell.printed:
        return "prints something else"
    texts = {} if value is None else FORMATTER.format(value, include=COMPARED)[0]
    return "" if texts == cell.texts else "shows something else"


def test_a_cell_that_gives_something_else_than_is_stored_is_seen() -> None:
    def cell(printed: str, shown: str) -> Cell:
        data = {"text/plain": shown, "image/png": "not compared"}
        result = nbformat.v4.new_output("execute_result", data, execution_count=1)
        stream = nbformat.v4.new_output("stream", name="stdout", text=printed)
        code = nbformat.v4.new_code_cell("print(x)\nx + 1", outputs=[stream, result])
        return stored(code, "a test")

    assert fault(cell("1\n", "2"), {"x": 1}) == ""
    assert fault(cell("2\n", "2"), {"x": 1}) == "prints something else"
    assert fault(cell("1\n", "3"), {"x": 1}) == "shows something else"
    assert fault(cell("1\n", "2"), {}) == "raises NameError"


@cache
def first_calls(number: str) -> dict[str, int]:
    """By function, the first cell that calls it. Fails where a cell is not green."""
    found: dict[str, int] = {}
    at = 0

    def noted(where: str) -> Callable[..., Any]:
        original = function(where)

        @wraps(original)
        def call(*args: Any, **options: Any) -> Any:
            found.setdefault(where, at)
            return original(*args, **options)

        return call

    names: dict[str, Any] = {"__name__": "__main__"}
    with exchanged({function(m.where): noted(m.where) for m in MUTATIONS}):
        for at, cell in enumerate(cells(number), start=1):
            what = fault(cell, names)
            assert not what, f"{number} [{at}] {what}"
    return found


@cache
def red(mutation_label: str, number: str) -> int | None:
    """The first cell that turns red; None when all stay green.

    What a cell shows before the function is first called cannot have changed and is not shown.
    """
    mutation = next(m for m in MUTATIONS if label(m) == mutation_label)
    start = first_calls(number)[mutation.where]
    names: dict[str, Any] = {"__name__": "__main__"}
    with made(mutation), exchanged(DRAWN_ONCE):
        for n, cell in enumerate(cells(number), start=1):
            if fault(cell, names, compare=n >= start):
                return n
    return None


TAUGHT_IN = sorted({number for m in MUTATIONS for number in m.taught_in.split()})


@pytest.mark.parametrize("number", TAUGHT_IN)
def test_without_a_mistake_every_cell_is_green(number: str) -> None:
    assert first_calls(number), "no cell calls a step that is changed here"


@each_mutation
def test_with_a_mistake_the_notebooks_that_teach_the_step_turn_red(mutation: Mutation) -> None:
    cells_red = {n: red(label(mutation), n) for n in mutation.taught_in.split()}
    if (mutation.mistake, mutation.where) in NOT_SHOWN:
        assert not any(cells_red.values()), "it is shown now: take it out of NOT_SHOWN"
    else:
        assert None not in cells_red.values()


# ---- the table ----------------------------------------------------------------------------------

HEAD = """# 错误和逮住它们的格子 · Mistakes, and the cells that catch them

每种错误都真的写进库里，再运行讲这一步的笔记本，到第一个变红的格子为止：
`assert` 不成立，报错，或者给出来的数变了。[13] 是第 13 个代码格。
这张表由 `tests/test_teeth.py` 写成，也由它核对。

Each mistake is made in the library itself, and the notebooks that teach the step are run up to the
first cell that turns red: an `assert` fails, an error is raised, or other numbers are shown. [13] is
code cell 13. The table is written, and held to be true, by `tests/test_teeth.py`.
"""


COLUMNS = (
    "| 错误 · mistake | 错在哪里，怎么看出来，谁遇到过 "
    "· what is wrong, how it shows, where it happened | 变红的格子 · cells that turn red |\n"
)


def table() -> str:
    parts = [HEAD]
    for family, titles in mistakes.FAMILIES.items():
        parts.append(f"\n## {' · '.join(dict.fromkeys(titles))}\n\n{COLUMNS}|---|---|---|\n")
        for mistake in mistakes.CATALOGUE:
            if mistake.family == family:
                where = "<br>".join(place(m) for m in MUTATIONS if m.mistake == mistake.name)
                told = (
                    mistake.zh,
                    mistake.en,
                    mistake.symptom_zh,
                    mistake.symptom_en,
                    seen(mistake),
                )
                what = "<br>".join(filter(None, told)).replace("|", "\\|")
                parts.append(f"| `{mistake.name}` | {what} | {where} |\n")
    return "".join(parts)


def seen(mistake: mistakes.Mistake) -> str:
    """Links to the public threads."""
    return ", ".join(
        f"[{thread.replace('/issues/', '#').replace('/pull/', '#')}]({link})"
        for thread, link in zip(mistake.threads, mistake.links(), strict=True)
    )


def place(mutation: Mutation) -> str:
    """Where one mutation turns red, with links; or why it does not."""
    if reasons := NOT_SHOWN.get((mutation.mistake, mutation.where)):
        return (
            f"`{mutation.where}`: [test_teeth.py](../tests/test_teeth.py)<br>{'<br>'.join(reasons)}"
        )
    found = [
        f"[{number}](../notebooks/zh/{NOTEBOOKS[number]}.ipynb) [{n}]"
        for number in mutation.taught_in.split()
        if (n := red(label(mutation), number))
    ]
    return f"`{mutation.where}`: {', '.join(found)}"


def test_the_table_tells_which_cell_turns_red() -> None:
    if os.environ.get("WRITE_TABLE") == "1":
        TABLE.write_text(table(), encoding="utf-8", newline="\n")
    assert TABLE.read_text(encoding="utf-8") == table(), "WRITE_TABLE=1 writes it anew"

"""`diagnose` on functions as people write them."""

import inspect
import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest

from byhand import attention, diagnose, mistakes, probes, steps
from byhand.calls import KNOWN
from byhand.checks import Array
from byhand.kit import KINDS
from byhand.matching import book
from byhand.probes import CASES, Kind
from byhand.steps import Problem

PLENTY = 300.0  # seconds; only test_a_loop_without_end waits


def softmax(x: Array) -> Array:
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    normalised: Array = exps / exps.sum(axis=-1, keepdims=True)
    return normalised


# ---- right, written in different ways -----------------------------------------------------------


def plain(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.T / np.sqrt(q.shape[1])) @ v


def with_einsum(query: Array, key: Array, value: Array) -> Array:
    scores = np.einsum("...qd,...kd->...qk", query, key) / key.shape[-1] ** 0.5
    context: Array = np.einsum("...qk,...kd->...qd", softmax(scores), value)
    return context


def with_loops(Q: Array, K: Array, V: Array) -> list[list[float]]:
    context = []
    for q in Q:
        exps = [sum(a * b for a, b in zip(q, k, strict=True)) / len(q) ** 0.5 for k in K]
        largest = max(exps)
        exps = [np.exp(e - largest) for e in exps]
        row = [sum(e * v[j] for e, v in zip(exps, V, strict=True)) for j in range(V.shape[1])]
        context.append([number / sum(exps) for number in row])
    return context


def causal_inside(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    n = scores.shape[-1]
    return softmax(np.where(np.tri(n, dtype=bool), scores, -np.inf)) @ v


def with_added_mask(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(scores if mask is None else scores + mask) @ v


def with_kept_mask(q: Array, k: Array, v: Array, attn_mask: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where(attn_mask, scores, -1e9)) @ v


def with_hidden_mask(q: Array, k: Array, v: Array, mask: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores[..., mask] = -np.inf
    return softmax(scores) @ v


class Returned(NamedTuple):
    weights: Array
    output: Array


def many_heads(
    x: Array, Wq: Array, Wk: Array, Wv: Array, Wo: Array, num_heads: int
) -> tuple[Array, Array]:
    """As in many tutorials: a batch in front, and d_head = d_model // num_heads."""
    b, s, d = x.shape
    q, k, v = (
        (x @ w).reshape(b, s, num_heads, d // num_heads).transpose(0, 2, 1, 3) for w in (Wq, Wk, Wv)
    )
    weights = softmax(q @ k.transpose(0, 1, 3, 2) / (d // num_heads) ** 0.5)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(b, s, d) @ Wo, weights


def as_stored(
    x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int, causal: bool = True
) -> Returned:
    """Weights [d_out, d_in], one head after the other, the sum over heads instead of the merge."""
    d = len(w_q) // n_heads
    output, all_weights = np.zeros((len(x), len(w_o))), []
    for h in range(n_heads):
        rows = slice(h * d, (h + 1) * d)
        q, k, v = x @ w_q[rows].T, x @ w_k[rows].T, x @ w_v[rows].T
        scores = q @ k.T / np.sqrt(d)
        if causal:
            scores[np.triu_indices(len(x), 1)] = -np.inf
        all_weights.append(softmax(scores))
        output += all_weights[-1] @ v @ w_o[:, rows].T
    return Returned(np.array(all_weights), output)


def qwen_layer(
    hidden_states: Array, q_proj: Array, k_proj: Array, v_proj: Array, o_proj: Array,
    q_bias: Array, k_bias: Array, v_bias: Array,
    num_attention_heads: int, num_key_value_heads: int, rope_theta: float,
) -> dict[str, Array]:  # fmt: skip
    """In the words of Hugging Face's configuration."""
    x, n, n_kv = hidden_states, num_attention_heads, num_key_value_heads
    s, d = len(x), q_proj.shape[1] // n
    q: Any
    k: Any
    q = (x @ q_proj + q_bias).reshape(s, n, d)
    k = (x @ k_proj + k_bias).reshape(s, n_kv, d)
    v = (x @ v_proj + v_bias).reshape(s, n_kv, d)
    angle = np.arange(s)[:, None] / rope_theta ** (np.arange(0, d, 2) / d)
    cos, sin = (np.concatenate([f(angle)] * 2, axis=1)[:, None] for f in (np.cos, np.sin))

    def turned(y: Any) -> Any:
        half = np.concatenate([-y[..., d // 2 :], y[..., : d // 2]], axis=-1)
        return y * cos + half * sin

    q, k = turned(q), turned(k)
    context = np.empty((s, n, d))
    for h in range(n):
        scores = q[:, h] @ k[:, h // (n // n_kv)].T / np.sqrt(d)
        context[:, h] = softmax(np.where(np.tri(s) == 1, scores, -np.inf)) @ v[:, h // (n // n_kv)]
    return {"attn_output": context.reshape(s, -1) @ o_proj}


RIGHT: list[Callable[..., Any]] = [
    attention, plain, with_einsum, with_loops, causal_inside, with_added_mask, with_kept_mask,
    with_hidden_mask, many_heads, as_stored, qwen_layer,
]  # fmt: skip


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_right_is_right_however_it_is_written(function: Callable[..., Any]) -> None:
    found = diagnose(function, seconds=PLENTY)
    assert found.correct, found
    assert found.mistakes == () and found.precision == "float64"
    assert "✓" in str(found)


def test_it_says_what_it_understood() -> None:
    assert "may NOT look" in str(diagnose(with_hidden_mask, lang="en"))
    assert "True means: may look" in str(diagnose(with_kept_mask, lang="en"))
    assert "It has a causal mask." in str(diagnose(causal_inside, lang="en"))
    assert "no causal mask" in str(diagnose(plain, lang="en"))
    assert "[d_out, d_in]" in str(diagnose(as_stored, lang="en"))
    assert "returns a list" in str(diagnose(with_loops, lang="en"))
    assert diagnose(plain, causal=True).mistakes == (("mask_left_out",),)
    assert diagnose(causal_inside, causal=True).correct
    assert not diagnose(causal_inside, causal=False).correct


@pytest.mark.skipif("torch" not in sys.modules, reason="make oracle loads torch and runs it there")
def test_torch_is_right_too() -> None:
    import torch

    assert diagnose(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    ).correct


# ---- wrong --------------------------------------------------------------------------------------


PARAMETERS = {
    "attention": "q k v",
    "causal": "q k v",
    "multi_head": "x w_q w_k w_v w_o n_heads",
    "multi_head_causal": "x w_q w_k w_v w_o n_heads",
    "layer": "x w_q w_k w_v w_o b_q b_k b_v n_heads n_kv_heads theta",
    "block": "x w_q w_k w_v w_o b_q b_k b_v n_heads n_kv_heads theta gain eps",
}


def making(kind: Kind, names: str, changes: steps.Changes) -> Callable[..., Array]:
    """A function of those parameters that makes mistakes."""

    def function(**inputs: Any) -> Array:
        start = inputs["x"] if "x" in inputs else inputs["q"]
        n = start.shape[-2]
        columns = inputs["w_q"].shape[1] if "x" in inputs else start.shape[-1]
        heads = inputs.get("n_heads", 1)
        p = Problem(
            **{"n_heads": heads, "n_kv_heads": heads} | inputs,
            d_head=columns // heads,
            mask=np.where(np.tri(n) == 1, 0.0, -np.inf) if kind.causal else None,
        )
        return list(steps.run(p, changes).values())[-1]

    parameters = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names.split()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


@pytest.mark.parametrize("name", KINDS)
def test_each_mistake_in_a_function_is_named(name: str) -> None:
    kind = KINDS[name]
    for mistake in book(kind).singles:
        function = making(kind, PARAMETERS[name], mistakes.find(mistake).changes)
        found = diagnose(function, causal=kind.causal, seconds=PLENTY)
        assert found.mistakes == ((mistake,),), (mistake, str(found))
        assert mistakes.find(mistake).en in str(found) and mistakes.find(mistake).zh in str(found)


def test_two_mistakes_are_named_together() -> None:
    both = mistakes.together(mistakes.find("gqa_tiled"), mistakes.find("bias_dropped"))
    assert both is not None
    found = diagnose(making(KINDS["layer"], PARAMETERS["layer"], both), lang="en")
    assert found.mistakes == (("bias_dropped", "gqa_tiled"),)
    assert "two mistakes at once" in str(found)


def test_an_axis_that_only_four_axes_tell() -> None:
    def first_axis(q: Array, k: Array, v: Array) -> Any:
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        exps = np.exp(scores - scores.max(axis=1, keepdims=True))
        return exps / exps.sum(axis=1, keepdims=True) @ v

    told = str(diagnose(first_axis, lang="en"))
    assert "Right for one sentence" in told and "over the heads" in told


def bare(q: Array, k: Array, v: Array) -> Any:
    exps = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return exps / exps.sum(axis=1) @ v


def down(q: Array, k: Array, v: Array) -> Any:
    exps = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return exps / exps.sum(axis=0) @ v


def over_all(q: Array, k: Array, v: Array) -> Any:
    exps = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return exps / exps.sum() @ v


@pytest.mark.parametrize(
    ("function", "mistake"),
    [(bare, "softmax_bare"), (down, "softmax_columns"), (over_all, "softmax_all")],
)
def test_a_careless_softmax_is_named_by_its_axis(
    function: Callable[..., Any], mistake: str
) -> None:
    assert diagnose(function, seconds=PLENTY).mistakes == ((mistake,),)


# ---- precision ----------------------------------------------------------------------------------


def rounded(how: str) -> Callable[[Any], Any]:
    def to_short(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return value
        with np.errstate(over="ignore"):
            if how != "bfloat16":
                return value.astype(how).astype(np.float64)
            bits = value.astype(np.float32).view(np.uint32).astype(np.uint64)
            nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
            return nearest.view(np.float32).astype(np.float64)

    return to_short


def all_rounded(how: str, changes: steps.Changes) -> steps.Changes:
    """Every step, exchanged or not, with its result rounded."""
    short = rounded(how)

    def wrapped(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: short(step(*given))

    usual = {f.name: f.default for f in fields(steps.Steps)} | dict(changes)
    return {n: wrapped(step) if callable(step) else step for n, step in usual.items()}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("how", ["float32", "float16", "bfloat16"])
def test_low_precision_is_no_mistake(name: str, how: str) -> None:
    kind = KINDS[name]
    function = making(kind, PARAMETERS[name], all_rounded(how, {}))
    found = diagnose(function, causal=kind.causal, seconds=PLENTY)
    assert found.correct and found.precision in ("float64", "float32", how), found
    assert how not in ("float16", "bfloat16") or found.precision == how


@pytest.mark.parametrize(
    ("name", "how"),
    [("multi_head_causal", "float32"), ("layer", "float16"), ("layer", "bfloat16")],
)
def test_mistakes_are_named_in_low_precision(name: str, how: str) -> None:
    kind = KINDS[name]
    hidden = {"mask_finite", "mask_filled", "softmax_whole_max"}  # show in loud scores alone
    alike = {"mask_after_exp", "softmax_no_max"}  # 0/0 comes earlier, as do exponentials too large
    for mistake in set(book(kind).singles) - (hidden if how != "float32" else set()):
        changes = all_rounded(how, mistakes.find(mistake).changes)
        found = diagnose(making(kind, PARAMETERS[name], changes), causal=True, seconds=PLENTY)
        if mistake in alike:
            named = {name for names in found.mistakes for name in names}
            assert named and named <= alike, str(found)
            continue
        assert found.mistakes == ((mistake,),), (mistake, str(found))


def test_a_softmax_without_the_maximum_in_float16() -> None:
    def half(q: Array, k: Array, v: Array) -> Any:
        q, k, v = (a.astype(np.float16) for a in (q, k, v))
        exps = np.exp(q @ k.T / np.float16(q.shape[-1] ** 0.5))
        return exps / exps.sum(axis=-1, keepdims=True) @ v

    assert diagnose(half).mistakes == (("softmax_no_max",),)


# ---- nothing in the catalogue -------------------------------------------------------------------


def with_factor(q: Array, k: Array, v: Array) -> Array:
    return softmax(1.25 * q @ k.T / np.sqrt(q.shape[1])) @ v


def halved(q: Array, k: Array, v: Array) -> Array:
    return 0.5 * plain(q, k, v)


def upside_down(q: Array, k: Array, v: Array) -> Array:
    return plain(q, k, v)[::-1]


def lying_down(q: Array, k: Array, v: Array) -> Array:
    return plain(q, k, v).T


def sums_above_one(q: Array, k: Array, v: Array) -> Array:
    return (softmax(q @ k.T / np.sqrt(q.shape[1])) * 0.5 + 0.5 / len(k) + 0.01) @ v


def cubed(q: Array, k: Array, v: Array) -> Array:
    return softmax((q @ k.T / np.sqrt(q.shape[1])) ** 3) @ v


def peeking(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores[~np.tri(len(q), dtype=bool)] -= 2.0
    return softmax(scores) @ v


def dropping(q: Array, k: Array, v: Array) -> Array:
    return plain(q, k, v) * np.random.default_rng().integers(0, 2, v.shape[1])


def heads(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    """Right; the ones below differ from it in one place."""
    s, d = len(x), w_q.shape[1] // n_heads
    q, k, v = ((x @ w).reshape(s, n_heads, d).swapaxes(0, 1) for w in (w_q, w_k, w_v))
    context = softmax(q @ k.swapaxes(1, 2) / np.sqrt(d)) @ v
    return context.swapaxes(0, 1).reshape(s, -1) @ w_o


def squashed(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    return np.tanh(heads(x, w_q, w_k, w_v, w_o, n_heads))


def rolled(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    d = w_q.shape[1] // n_heads
    return heads(x, w_q, w_k, w_v, np.roll(w_o, d, axis=0), n_heads)


def half_of_v(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    w_v = w_v.copy()
    w_v[:3] = 0
    return heads(x, w_q, w_k, w_v, w_o, n_heads)


def half_of_q(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    w_q = w_q.copy()
    w_q[:3] = 0
    return heads(x, w_q, w_k, w_v, w_o, n_heads)


UNKNOWN: list[tuple[Callable[..., Any], str | None, str]] = [
    (with_factor, "scaled", "1.25 times what they should be"),
    (halved, "weights", "0.5 times what it should be"),
    (upside_down, None, "rows are in another order: 22 21 20"),
    (lying_down, None, "right once transposed"),
    (sums_above_one, "weights", "rows of weights sum to 1.23, not to 1"),
    (cubed, "scores", ""),
    (dropping, None, "is dropout on?"),
    (squashed, "output", ""),
    (rolled, "merged", ""),
    (half_of_v, "v", ""),
    (half_of_q, "scores", "With even weights the result is right"),
]


@pytest.mark.parametrize(
    ("function", "stage", "told"), UNKNOWN, ids=lambda v: getattr(v, "__name__", "")
)
def test_what_no_mistake_explains(
    function: Callable[..., Any], stage: str | None, told: str
) -> None:
    found = diagnose(function, causal=False, lang="en", seconds=PLENTY)
    assert not found.correct and found.mistakes == ()
    assert "no mistake of the catalogue" in str(found)
    assert told in str(found), found
    if stage is not None:
        assert found.stage == stage, found


def test_a_leak_is_told_with_its_row() -> None:
    found = diagnose(peeking, causal=True, lang="en")
    assert found.stage == "masked"
    assert "changing the last token changes row 0" in str(found)
    assert "Keys that are masked have weight" in str(found)


def test_stages_returned_by_name_are_compared() -> None:
    def two(q: Array, k: Array, v: Array) -> dict[str, Array]:
        scores = q @ k.T + 0.1 * q.sum() * k.sum(axis=1)
        weights = softmax(scores / np.sqrt(q.shape[1]))
        return {"scores": scores, "weights": weights, "context": weights @ v}

    assert diagnose(two, causal=False).stage == "scores"


# ---- functions that do not come to a result -----------------------------------------------------


def raising(q: Array, k: Array, v: Array) -> Array:
    raise RuntimeError("not today")


def giving_up(q: Array, k: Array, v: Array) -> Array:
    sys.exit("enough")


def no_return(q: Array, k: Array, v: Array) -> None:
    plain(q, k, v)


def word(q: Array, k: Array, v: Array) -> str:
    return "done"


def ragged(q: Array, k: Array, v: Array) -> list[list[float]]:
    return [[1.0], [1.0, 2.0]]


def other_names(tom: Array, dick: Array, harry: Array) -> Array:
    return tom


def half_known(x: Array, w_q: Array) -> Array:
    return x @ w_q


def endless(q: Array, k: Array, v: Array) -> Array:
    while True:
        time.sleep(0.01)


LINES: list[tuple[Callable[..., Any], str]] = [
    (raising, "RuntimeError: not today, on line"),
    (giving_up, "SystemExit: enough"),
    (no_return, "is a return missing?"),
    (word, "returns str; an array of real numbers is wanted"),
    (ragged, "differ in length"),
    (other_names, "tom, dick, harry"),
    (half_known, "neither x, w_q, w_k, w_v nor q, k, v"),
    (max, "Inputs are given by name"),
]


@pytest.mark.parametrize(("function", "told"), LINES)
def test_a_line_instead_of_a_traceback(function: Callable[..., Any], told: str) -> None:
    found = diagnose(function, lang="en", seconds=PLENTY)
    assert not found.correct and found.mistakes == ()
    assert told in str(found)
    assert "Traceback" not in str(found)
    chinese = str(diagnose(function, lang="zh", seconds=PLENTY))
    assert chinese and chinese != str(found)


def test_a_loop_without_end_is_not_waited_for() -> None:
    assert "a loop that does not end?" in str(diagnose(endless, lang="en", seconds=0.05))


def test_the_names_known_are_told() -> None:
    assert KNOWN in str(diagnose(other_names, lang="en"))


def test_what_a_function_prints_and_changes_stays_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    def noisy(q: Array, k: Array, v: Array) -> Array:
        print("hello")
        np.log(np.array([-1.0]))
        q /= np.sqrt(q.shape[1])
        return softmax(q @ k.T) @ v

    found = diagnose(noisy, lang="en")
    assert found.correct and "changes its input q" in str(found)
    assert capsys.readouterr() == ("", "")


WRONG_CALLS: list[dict[str, Any]] = [
    {},
    {"output": np.eye(3)},
    {"function": plain, "output": np.eye(3), "kit": "."},
    {"function": "plain"},
    {"function": plain, "lang": "fr"},
    {"function": heads, "n_heads": 0},
    {"function": heads, "n_heads": 4, "n_kv_heads": 3},
    {"function": heads, "n_heads": 300},
    {"function": heads, "n_heads": "4"},
    {"function": heads, "theta": 0},
    {"function": heads, "theta": "x"},
    {"function": heads, "theta": float("nan")},
    {"function": plain, "seconds": 0},
    {"function": plain, "seconds": float("nan")},
    {"function": plain, "seconds": "long"},
    {"output": np.eye(3), "kit": 5},
]


@pytest.mark.parametrize("arguments", WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_wrong_arguments_are_refused_in_words(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="[\u4e00-\u9fff]"):
        diagnose(**arguments)


def test_several_results_and_the_right_one_among_them() -> None:
    def both(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Any:
        return heads(x, w_q, w_k, w_v, np.eye(len(w_o)), n_heads), heads(
            x, w_q, w_k, w_v, w_o, n_heads
        )

    def named(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Any:
        context, output = both(x, w_q, w_k, w_v, w_o, n_heads)
        return {"output": output, "context": context}

    assert diagnose(both, seconds=PLENTY).correct
    assert diagnose(named, seconds=PLENTY).correct


def test_by_position_only() -> None:
    def f(q: Array, k: Array, /, v: Array) -> Array:
        return plain(q, k, v)

    assert diagnose(f).correct


def test_near_is_not_right() -> None:
    def a_little_more(q: Array, k: Array, v: Array) -> Array:
        return plain(q, k, v) * 1.001

    def almost_none(q: Array, k: Array, v: Array) -> Array:
        return softmax(0.999 * q @ k.T) @ v

    found = diagnose(a_little_more, lang="en")
    assert not found.correct and "near the right result" in str(found)
    found = diagnose(almost_none, lang="en")
    assert not found.correct and found.mistakes == ()
    assert "Nearest" in str(found) and "not divided by √d_head" in str(found)


def test_nothing_but_nan_accuses_nobody() -> None:
    found = diagnose(lambda q, k, v: np.full((len(q), v.shape[1]), np.nan), lang="en")
    assert found.mistakes == () and "NaN" in str(found)


def test_large_scores_that_raise_are_told() -> None:
    def with_math(q: Array, k: Array, v: Array) -> Any:
        scores = q @ k.T / math.sqrt(q.shape[1])
        exps = np.array([[math.exp(s) for s in row] for row in scores])
        return exps / exps.sum(axis=1, keepdims=True) @ v

    found = diagnose(with_math, lang="en", seconds=PLENTY)
    assert not found.correct
    assert "OverflowError" in str(found) and "subtract the row's maximum first?" in str(found)


def test_a_function_left_alone_leaves_the_session_alone() -> None:
    before = sys.stdout, sys.stderr
    running = threading.active_count()
    diagnose(endless, seconds=0.05)
    assert (sys.stdout, sys.stderr) == before
    assert threading.active_count() <= running + 1


def test_a_strict_session_is_no_hindrance() -> None:
    with np.errstate(all="raise"):
        assert diagnose(plain).correct
        assert diagnose(with_factor, causal=False).stage == "scaled"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def mute(q: Array, k: Array, v: Array) -> Array:
    raise Mute


def test_an_error_without_words_and_a_result_without_end() -> None:
    assert "Mute" in str(diagnose(mute, lang="en"))
    large = diagnose(lambda q, k, v: np.broadcast_to(1.0, (10**6, 10**6)), lang="en")
    assert "too many" in str(large)


def test_what_a_function_brings_along_is_left_to_it() -> None:
    def with_eps(q: Array, k: Array, v: Array, eps: float = 1e-300) -> Array:
        return plain(q, k, v) + eps

    def with_norm(
        x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int, gain: Array
    ) -> Array:
        h = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain
        return x + heads(h, w_q, w_k, w_v, w_o, n_heads)

    assert diagnose(with_eps).correct
    assert diagnose(with_norm, seconds=PLENTY).correct


def test_low_precision_in_the_middle() -> None:
    def half_weights(q: Array, k: Array, v: Array) -> Array:
        weights = softmax(q @ k.T / np.sqrt(q.shape[1])).astype(np.float16)
        return weights.astype(np.float64) @ v

    found = diagnose(half_weights)
    assert found.correct and found.precision == "float16"


def test_weights_before_the_result() -> None:
    def two(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
        weights = softmax(q @ k.T / np.sqrt(q.shape[1]))
        return weights, weights @ v

    assert diagnose(two).correct


def test_a_mask_of_another_kind_is_mentioned() -> None:
    def small_constant(q: Array, k: Array, v: Array, mask: Array) -> Array:
        return softmax(q @ k.T / np.sqrt(q.shape[1]) + (1 - mask) * -1e4) @ v

    told = str(diagnose(small_constant, lang="en", seconds=PLENTY))
    assert "If what you mean is that in its mask" in told
    assert "a finite number such as −1e5" in told


def causal_after_exp(q: Array, k: Array, v: Array) -> Any:
    scores = q @ k.T / np.sqrt(q.shape[1])
    exps = np.tril(np.exp(scores - scores.max(axis=1, keepdims=True)))
    return exps / exps.sum(axis=1, keepdims=True) @ v


def wrong_maximum(q: Array, k: Array, v: Array) -> Any:
    scores = q @ k.T / np.sqrt(q.shape[1])
    exps = np.exp(scores - scores.max(axis=1))
    return exps / exps.sum(axis=1, keepdims=True) @ v


def q_from_w_k(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, n_heads: int) -> Array:
    return heads(x, w_k, w_k, w_v, w_o, n_heads)


@pytest.mark.parametrize(
    ("function", "mistake"),
    [
        (causal_after_exp, "mask_after_exp"),
        (wrong_maximum, "softmax_max_no_keepdims"),
        (q_from_w_k, "q_is_k"),
    ],
)
def test_more_slips_of_the_pen(function: Callable[..., Any], mistake: str) -> None:
    assert diagnose(function, seconds=PLENTY).mistakes == ((mistake,),)


def test_sizes_of_ones_own() -> None:
    def two_heads(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array) -> Array:
        return heads(x, w_q, w_k, w_v, w_o, 2)

    assert diagnose(two_heads, n_heads=2).correct
    assert not diagnose(two_heads, n_heads=3).correct


def test_the_answer_is_in_the_language_asked_for() -> None:
    zh, en, both = (str(diagnose(plain, lang=lang)) for lang in ("zh", "en", None))
    assert "正确" in zh and "Correct" not in zh
    assert "Correct" in en and "正确" not in en
    assert both == f"{en}\n\n{zh}"
    assert set(CASES) == set(probes.CASES)

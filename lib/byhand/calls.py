"""A reader's own function: what it wants by name, and calling it so that nothing escapes.

Whatever the function does, the answer is a value or a line that says what happened: an error in it
never becomes a traceback of ours.
"""

import contextlib
import inspect
import io
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from byhand.checks import Array, shape_text

# role: the names people give it, in lower case and without underscores
_NAMES: Final = {
    "x": "x inputs input hidden hiddenstates embeddings embedding emb tokens",
    "q": "q query queries",
    "k": "k key keys",
    "v": "v value values",
    "w_q": "wq qproj wquery wqueries qweight queryweight weightq",
    "w_k": "wk kproj wkey wkeys kweight keyweight weightk",
    "w_v": "wv vproj wvalue wvalues vweight valueweight weightv",
    "w_o": "wo oproj outproj wout woutput oweight outweight cproj proj outputprojection weighto",
    "b_q": "bq qbias biasq qprojbias",
    "b_k": "bk kbias biask kprojbias",
    "b_v": "bv vbias biasv vprojbias",
    "b_o": "bo obias biaso bout oprojbias",
    "n_heads": "nheads numheads nhead heads numattentionheads",
    "n_kv_heads": "nkvheads numkvheads nkv kvheads numkeyvalueheads nkvhead",
    "d_head": "dhead headdim headsize dk",
    "d_model": "dmodel embeddim embedsize nembd hiddensize",
    "mask": "mask attnmask attentionmask causalmask",
    "causal": "causal iscausal",
    "theta": "theta ropetheta base ropebase",
    "gain": "gain inputnorm normweight gamma normgain",
    "eps": "eps normeps epsilon",
}
_ROLES: Final = {name: role for role, names in _NAMES.items() for name in names.split()}


class Line(NamedTuple):
    """One thing to tell, in both languages."""

    zh: str
    en: str


class Wanted(NamedTuple):
    """What a function asks for: the role of each parameter that is passed, by its own name."""

    roles: Mapping[str, str]  # parameter -> role
    optional: frozenset[str]  # parameters with a default

    def has(self, role: str) -> bool:
        return role in self.roles.values()


class Outcome(NamedTuple):
    """What came of a call: the result as arrays, or why there is none."""

    output: Array | None
    stages: Mapping[str, Array]  # what else it returned by name
    trouble: Line | None
    notes: tuple[Line, ...] = ()
    slow: bool = False  # it was not waited for


KNOWN: Final = (
    "x; q, k, v; w_q, w_k, w_v, w_o; b_q, b_k, b_v; n_heads, n_kv_heads; mask; theta; gain, eps"
)


def wanted(function: Callable[..., Any]) -> Wanted | Line:
    """Which inputs the parameters of a function stand for, or a line that says what is unclear."""
    found = roles(function)
    if isinstance(found, Line):
        return found
    got = set(found.values())
    if not ({"x", "w_q", "w_k", "w_v"} <= got or {"q", "k", "v"} <= got):
        return _rename(
            "参数里既没有 x、w_q、w_k、w_v，也没有 q、k、v",
            "the parameters are neither x, w_q, w_k, w_v nor q, k, v",
        )
    if "gain" in got and "w_o" not in got:
        return _rename("有 gain，就还要有 w_o", "with gain, w_o is wanted too")
    parameters = inspect.signature(function).parameters.values()
    return Wanted(found, frozenset(p.name for p in parameters if p.default is not p.empty))


def roles(function: Callable[..., Any]) -> dict[str, str] | Line:
    """The role of each parameter that has one; a line when one without a default has none."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return _rename("看不到这个函数的参数", "the parameters of this function cannot be read")
    found: dict[str, str] = {}
    unknown = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        role = _role(name, list(parameters))
        if role is not None and role not in found.values():
            found[name] = role
        elif parameter.default is parameter.empty:
            unknown.append(name)
    if unknown:
        listed = ", ".join(unknown)
        return _rename(
            f"不知道这些参数是什么：{listed}",
            f"it is not clear what these parameters are: {listed}",
        )
    return found


def _role(name: str, names: list[str]) -> str | None:
    plain = name.lower().replace("_", "").replace(".", "")
    if plain == "h":  # the number of heads beside an x, else the hidden states
        return "n_heads" if any(n.lower() in ("x", "q") for n in names) else "x"
    return _ROLES.get(plain)


def _rename(zh: str, en: str) -> Line:
    example = "diagnose(lambda x, w_q, w_k, w_v, w_o, n_heads: mine(…))"
    return Line(
        f"{zh}。诊断按名字给输入，认得的名字是：{KNOWN}。改不了名字，就包一层：{example}。",
        f"{en}. Inputs are given by name; the names known are: {KNOWN}. "
        f"If yours must stay, wrap the function: {example}.",
    )


def call(function: Callable[..., Any], inputs: Mapping[str, Any], seconds: float) -> Outcome:
    """The function's result for these inputs. What it prints and warns of is kept quiet.

    The arrays are handed over as copies: NumPy first; if that raises and the reader has PyTorch
    loaded, as tensors. A call that takes longer than `seconds` is left alone.
    """
    outcome = _try(function, inputs, seconds, _numpy)
    told = outcome.trouble
    if outcome.output is None and not outcome.slow and "torch" in sys.modules:
        for as_tensor in (_torch64, _torch32):
            second = _try(function, inputs, seconds, as_tensor)
            if second.output is not None:
                return second
            if told is not None and ("torch" in told.en or "Tensor" in told.en):
                outcome = second  # arrays were not what it wants: its own error is the telling one
    return outcome


def _numpy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _torch64(value: Any) -> Any:
    torch: Any = sys.modules["torch"]
    return torch.tensor(value) if isinstance(value, np.ndarray) else value


def _torch32(value: Any) -> Any:
    torch: Any = sys.modules["torch"]
    tensor = _torch64(value)
    floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return tensor.to(torch.float32) if floating else tensor


def _try(
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    seconds: float,
    handed: Callable[[Any], Any],
) -> Outcome:
    given = {name: handed(value) for name, value in inputs.items()}
    args, kwargs = _arguments(function, given)
    got: list[Outcome] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            with np.errstate(all="ignore"):  # of this thread
                got.append(_as_arrays(function(*args, **kwargs)))
        except BaseException as error:  # a reader's exit() must not end the notebook
            raised.append(error)

    worker = threading.Thread(target=run, daemon=True)
    # sys.stdout and the warnings are those of the whole process: the thread that waits restores them
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        if seconds > 0:
            worker.start()
            worker.join(seconds)
    if seconds <= 0 or worker.is_alive():
        slow = _without(
            "几道很小的题，等了很久还没有算完，就不等了。是不是有一个不会结束的循环？"
            "只是慢的话，写 diagnose(…, seconds=60)。",
            "a few very small problems were not done in time. Is there a loop that does not end? "
            "If it is only slow, write diagnose(…, seconds=60).",
        )
        return slow._replace(slow=True)
    if raised:
        return _without(*_told(raised[0]))
    outcome: Outcome = got[0]
    changed = [
        name
        for name, value in inputs.items()
        if isinstance(value, np.ndarray) and not np.array_equal(_plain(given[name]), value)
    ]
    if changed:
        listed = ", ".join(changed)
        note = Line(f"函数改动了输入 {listed} 本身。", f"The function changes its input {listed}.")
        outcome = outcome._replace(notes=(*outcome.notes, note))
    return outcome


def _arguments(
    function: Callable[..., Any], given: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Inputs by position where the function takes them only so, the others by name."""
    parameters = inspect.signature(function).parameters.values()
    first = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    return [given[n] for n in first], {n: v for n, v in given.items() if n not in first}


def _without(zh: str, en: str) -> Outcome:
    return Outcome(None, {}, Line(zh, en))


def _is_readers(file: str) -> bool:
    """Whether a line of a traceback is the reader's, not ours or a package's."""
    place = Path(file)
    return place.parent != Path(__file__).parent and not (
        "site-packages" in place.parts or file.startswith("<__array")
    )


def _told(error: BaseException) -> Line:
    """An error in the reader's function, with the line of theirs on which it arose."""
    try:
        told = " ".join(str(error).split())[:300].encode("utf-8", "replace").decode("utf-8")
    except Exception:  # an exception of the reader's own, whose text fails
        told = ""
    what = f"{type(error).__name__}: {told}" if told else type(error).__name__
    lines = [f for f in traceback.extract_tb(error.__traceback__) if _is_readers(f.filename)]
    where = lines[-1] if lines else None
    if where is None:
        return Line(f"函数报错了：{what}", f"the function raised {what}")
    code = (where.line or "").strip()
    return Line(
        f"函数报错了，在它那个文件或格子的第 {where.lineno} 行：{what}"
        + (f"。那一行是：{code}" if code else ""),
        f"the function raised {what}, on line {where.lineno} of its file or cell"
        + (f": {code}" if code else ""),
    )


# What a function that returns several things by name means as its result, the last one there is.
_MAIN_NAMES: Final = ("context", "y", "result", "attn_output", "out", "output", "residual")
MOST: Final = 10**6  # numbers; the problems have some hundred


def _as_arrays(value: Any) -> Outcome:
    """The main array that a function returned, and the others by name."""
    if value is None:
        return _without(
            "函数什么也没有返回：是不是少了 return？",
            "the function returns nothing: is a return missing?",
        )
    named: dict[str, Any] = {}
    if isinstance(value, Mapping):
        named = {str(key): part for key, part in value.items()}
    elif hasattr(value, "_asdict"):
        named = dict(value._asdict())
    elif isinstance(value, tuple):
        named = {str(n): part for n, part in enumerate(value)}
    if not named:
        array, notes = _array(value)
        if array is not None and array.size > MOST:
            return _without(
                f"函数返回了 {array.size} 个数，太多了。",
                f"the function returns {array.size} numbers, which is too many.",
            )
        return Outcome(array, {}, None, notes) if array is not None else _no_array(value)
    arrays = {name: _array(part)[0] for name, part in named.items()}
    there = {name: array for name, array in arrays.items() if array is not None}
    if not there:
        return _no_array(value)
    first = max(there, key=lambda n: _MAIN_NAMES.index(n) if n in _MAIN_NAMES else -1)
    return Outcome(there[first], {n: a for n, a in there.items() if n != first}, None)


def _plain(value: Any) -> Any:
    """A tensor as an array, whether it wants gradients or not."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _array(value: Any) -> tuple[Array | None, tuple[Line, ...]]:
    """`value` as an array of floating-point numbers, or None."""
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None, ()
    if array.dtype.kind not in "fiu" or array.ndim == 0:
        return None, ()
    notes: tuple[Line, ...] = ()
    if isinstance(value, list):
        notes = (
            Line(
                "函数返回的是列表；换成数组（np.array）才能接着算。",
                "The function returns a list; make it an array (np.array) to go on with it.",
            ),
        )
    return (array if array.dtype.kind == "f" else array.astype(np.float64)), notes


def _no_array(value: Any) -> Outcome:
    kind = type(value).__name__
    if isinstance(value, list):
        return _without(
            "函数返回的列表各行长短不一，或者里面不是数。",
            "the function returns a list whose rows differ in length, or that holds no numbers.",
        )
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype} {shape_text(value.shape)}"
    return _without(
        f"函数返回的是 {kind}，这里要一个装着实数的数组。",
        f"the function returns {kind}; an array of real numbers is wanted.",
    )

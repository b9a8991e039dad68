"""A PyTorch attention module as a function of its weights, so that it can be diagnosed.

The module's layers are found by their names, and the weights of a problem are put into a copy of it.
PyTorch is never imported here: who brings a module has it loaded.
"""

import copy
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from byhand import calls, probes
from byhand.calls import Line
from byhand.checks import Array

# role: the names people give the layer, in lower case and without underscores
_LAYERS: Final = {
    "q": "q query queries qproj queryproj wq wqs wquery wqueries toq qlinear linearq fcq qlayer",
    "k": "k key keys kproj keyproj wk wks wkey wkeys tok klinear lineark fck klayer",
    "v": "v value values vproj valueproj wv wvs wvalue wvalues tov vlinear linearv fcv vlayer",
    "qkv": "qkv qkvproj qkvlayer wqkv toqkv cattn inproj attnproj",
    "o": "o out oproj outproj wo wout fcout outfc fc toout proj projection cproj output linear dense "
    "linearlayer linearout outlinear finallinear unifyheads",
}
_ROLES: Final = {name: role for role, names in _LAYERS.items() for name in names.split()}
MOST_WIDE: Final = 1024
_N_HEADS: Final = ("n_heads", "num_heads", "n_head", "nhead", "nheads", "heads", "h",
                   "num_attention_heads", "num_head", "head_num", "nh", "n_of_heads",
                   "number_of_heads", "attention_heads", "_num_heads")  # fmt: skip


@dataclass
class Sizes:
    """What the layers of a module tell of its sizes."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    d_model: int
    guessed: bool  # the number of heads was nowhere to be found


@dataclass
class _Parts:
    """The parameters of a module by role; several of one role belong to one head each."""

    weights: dict[str, list[Any]] = field(default_factory=dict)
    biases: dict[str, list[Any]] = field(default_factory=dict)


def is_module(thing: Any) -> bool:
    """Whether it is a PyTorch module."""
    return "torch" in sys.modules and hasattr(thing, "named_parameters")


def as_function(
    module: Any, n_heads: int | None, by_head: bool
) -> tuple[Callable[..., Any], Sizes] | Line:
    """The module as a function of x and weights [d_in, d_out], and its sizes; or what is unclear.

    A layer that projects Q, K and V at once holds them one after the other, or with `by_head` those
    of head 0, then those of head 1, and so on.
    """
    try:
        module = copy.deepcopy(module).double().eval()
    except Exception as error:  # a tensor kept from an earlier call, a lock, an open file
        return Line(
            f"这个模块复制不了（{type(error).__name__}）；给一个刚做好、还没有用过的。",
            f"this module cannot be copied ({type(error).__name__}); give one that is new and was "
            f"not used yet.",
        )
    parts = _parts(module)
    weights = parts.weights
    if "qkv" not in weights and not {"q", "k", "v"} <= weights.keys():
        layers = ", ".join(name for name, _ in module.named_parameters()) or "none"
        return Line(
            f"看不出哪一层是 Q、K、V 的投影；有的是：{layers}。"
            "把层叫作 w_q、w_k、w_v、w_o（或者 q_proj …），或者改写成函数。",
            f"it is not clear which layers project Q, K and V; there are: {layers}. "
            f"Name them w_q, w_k, w_v, w_o (or q_proj …), or write a function.",
        )
    takes = calls.roles(module.forward)
    if isinstance(takes, Line):
        return takes
    d_model = weights["qkv" if "qkv" in weights else "q"][0].shape[1]
    widths = _widths(weights)
    several = len(weights.get("q", [()]))
    known = n_heads or _heads_of(module) or _by_width(module, widths["q"])
    n = known or several
    if n > probes.MOST_HEADS or d_model > MOST_WIDE:
        return Line(
            f"模块太大了（{n} 个头，宽 {d_model}）。用小的尺寸做一个来查，错是一样的。",
            f"the module is too large ({n} heads, {d_model} wide). Make a small one: it has the same "
            f"mistakes.",
        )
    if widths["q"] % n:
        return Line(
            f"Q 有 {widths['q']} 列，分不成 {n} 个头。",
            f"Q has {widths['q']} columns, which cannot be split into {n} heads.",
        )
    sizes = Sizes(n, max(1, widths["k"] * n // widths["q"]), widths["q"] // n, d_model,
                  known is None and several == 1 and "o" in weights)  # fmt: skip
    inputs = ["x", "w_q", "w_k", "w_v"]
    inputs += [f"b_{c}" for c in "qkv" if c in parts.biases or "qkv" in parts.biases]
    inputs += ["w_o"] if "o" in weights else []
    inputs += [role for role in ("mask", "causal") if role in takes.values()]

    def function(**given: Any) -> Any:
        _fill(parts, given, n if by_head else 1)
        handed = {name: _handed(role, given) for name, role in takes.items()}
        return module(**handed)

    signature = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs]
    function.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return function, sizes


def is_fused(module: Any) -> bool:
    """Whether one layer projects Q, K and V at once."""
    return "qkv" in _parts(module).weights


def slices_of(module: Any) -> bool:
    """Whether each head's layers take a slice of x: as wide as one head, and not as x."""
    parts = _parts(module)
    n = _heads_of(module)
    if n is None or n == 1 or not {"q", "o"} <= parts.weights.keys():
        return False
    q, o = parts.weights["q"][0], parts.weights["o"][0]
    return bool(q.shape[0] == q.shape[1] and q.shape[1] * n == o.shape[0])


def _parts(module: Any) -> _Parts:
    parts = _Parts()
    for name, parameter in module.named_parameters():
        *path, what = name.split(".")
        if what.startswith("in_proj_"):  # torch.nn.MultiheadAttention
            path, what = [*path, "in_proj"], what.removeprefix("in_proj_")
        role = _role(path)
        if role is not None and what in ("weight", "bias"):
            kept = parts.weights if what == "weight" else parts.biases
            kept.setdefault(role, []).append(parameter)
    return parts


def _role(path: list[str]) -> str | None:
    """The role of a layer by its place: linears.0 … linears.3 are q, k, v and o."""
    while path and path[-1].isdecimal():
        if len(path) > 1 and path[-2].startswith("linear"):
            return dict(enumerate("qkvo")).get(int(path[-1]))
        path = path[:-1]
    return _ROLES.get(path[-1].lower().replace("_", "")) if path else None


def _heads_of(module: Any) -> int | None:
    """The number of heads that the module keeps, or a part or a config of it, by a usual name."""
    parts = [*module.modules()] if hasattr(module, "modules") else [module]
    for part in [*parts, *(getattr(p, "config", None) for p in parts)]:
        for name in _N_HEADS:
            kept: Any = getattr(part, name, None)
            if isinstance(kept, int) and not isinstance(kept, bool) and kept > 0:
                return kept
            if hasattr(kept, "__len__") and not isinstance(kept, str) and len(kept):
                return len(kept)
    return None


def _by_width(module: Any, width: int) -> int | None:
    """The number of heads, from the width of one that the module keeps."""
    for part in module.modules():
        for name in ("head_dim", "d_head", "d_k", "head_size"):
            kept = getattr(part, name, None)
            if isinstance(kept, int) and not isinstance(kept, bool) and 0 < kept <= width:
                return width // kept if width % kept == 0 else None
    return None


def _widths(weights: dict[str, list[Any]]) -> dict[str, int]:
    """How many columns q, k and v have."""
    if "qkv" in weights:
        return dict.fromkeys("qkv", weights["qkv"][0].shape[0] // 3)
    return {role: sum(w.shape[0] for w in weights[role]) for role in "qkv"}


def _fill(parts: _Parts, given: dict[str, Any], groups: int) -> None:
    """Put the weights of a problem into the layers, which store them as [d_out, d_in].

    A layer of all three holds that many groups of q, k and v, one after the other.
    """
    torch: Any = sys.modules["torch"]
    with torch.no_grad():
        for kept, letter in ((parts.weights, "w"), (parts.biases, "b")):
            whole: dict[str, Array] = {
                role: given[f"{letter}_{role}"].T for role in "qkvo" if f"{letter}_{role}" in given
            }
            if "qkv" in kept:
                cut = [np.split(whole[role], groups) for role in "qkv"]
                whole["qkv"] = np.concatenate(
                    [b for group in zip(*cut, strict=True) for b in group]
                )
            for role, parameters in kept.items():
                if role in whole:
                    ends = np.cumsum([len(p) for p in parameters])[:-1]
                    for parameter, block in zip(
                        parameters, np.split(whole[role], ends), strict=True
                    ):
                        parameter.copy_(torch.tensor(block))
                elif letter == "b":
                    for parameter in parameters:
                        parameter.zero_()


def _handed(role: str, given: dict[str, Any]) -> Any:
    """What a parameter of forward gets: x for each of query, key and value."""
    torch: Any = sys.modules["torch"]
    value = given["x"] if role in ("x", "q", "k", "v") else given.get(role)
    return torch.tensor(value) if isinstance(value, np.ndarray) else value

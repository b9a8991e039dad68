"""Real models by their sizes: parameters, operations and cache, counted from data/models.json.

A multiplication and the addition after it are two operations (FLOPs), and only those of matrix
products are counted: not the biases, the norms, the rotation or the softmax. Biases are counted as
parameters. Counts are of one layer, but for the cache.
"""

import math
from typing import NamedTuple

from byhand import data
from byhand.checks import refuse, whole
from byhand.qwen import LayerShape


class Model(NamedTuple):
    """The sizes of one model, as its configuration gives them."""

    name: str
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int  # the width of one query or key
    d_value: int  # the width of one value
    n_layers: int
    d_ffn: int
    ffn_matrices: int | None  # 3 with a gate, 2 without; None where the FFN is made of experts
    vocab: int
    rope_theta: float | None
    norm_eps: float | None
    qkv_bias: bool
    o_bias: bool
    cached: int  # numbers kept in the cache for each token and layer
    compressed: bool  # K and V come from a compressed vector, which is what is cached
    causal: bool = True  # a token looks at itself and those before; if not, at all of them
    norm_first: bool = True  # attention gets what is normalised; if not, the norm comes after it


def names() -> list[str]:
    """Every model of data/models.json, in the order of the file."""
    return [row["model"] for row in data.read_json("models.json")["models"]]


def read(name: str) -> Model:
    """The model of that name. ValueError for one that is not in data/models.json."""
    row = data.model(name)
    compressed = "kv_lora_rank" in row  # multi-head latent attention, DeepSeek-V3
    cached = row["kv_heads"] * (row["head_dim_qk"] + row["head_dim_v"])
    if compressed:
        cached = row["kv_lora_rank"] + row["qk_rope_head_dim"]
    return Model(
        name=name,
        d_model=row["hidden"],
        n_heads=row["n_heads"],
        n_kv_heads=row["kv_heads"],
        d_head=row["head_dim_qk"],
        d_value=row["head_dim_v"],
        n_layers=row["layers"],
        d_ffn=row["intermediate"],
        ffn_matrices=row["ffn_matrices"],
        vocab=row["vocab"],
        rope_theta=row["rope_theta"],
        norm_eps=row["norm_eps"],
        qkv_bias=row["qkv_bias"],
        o_bias=row["o_bias"],
        cached=cached,
        compressed=compressed,
        causal=row.get("causal", True),
        norm_first=row.get("norm_first", True),
    )


def layer_shape(model: Model) -> LayerShape:
    """The sizes that `qwen` and `fast` need. ValueError for a model without RoPE or with wider keys.

    Sizes only: some of these models add steps of their own (norms of Q and K, a rotation of half a
    head), which `qwen` does not have.
    """
    if model.rope_theta is None or model.norm_eps is None or model.d_head != model.d_value:
        refuse(
            f"{model.name} 的层和 Qwen2.5 的不是一种：要有 RoPE，键和值一样宽。",
            f"a layer of {model.name} is not of the kind of Qwen2.5, which has RoPE, and keys and "
            f"values of one width.",
        )
    return LayerShape(
        model.d_model, model.n_heads, model.n_kv_heads, model.d_head,
        model.rope_theta, model.norm_eps,
    )  # fmt: skip


def attention_parameters(model: Model) -> dict[str, int]:
    """The parameters of each matrix and bias of one layer's attention, those it has.

    ValueError where K and V come from a compressed vector.
    """
    _refuse_compressed(model)
    q_width, k_width = model.n_heads * model.d_head, model.n_kv_heads * model.d_head
    v_width = model.n_kv_heads * model.d_value
    counts = {"W_Q": model.d_model * q_width, "W_K": model.d_model * k_width}
    counts |= {"W_V": model.d_model * v_width, "W_O": output_width(model) * model.d_model}
    if model.qkv_bias:
        counts |= {"b_Q": q_width, "b_K": k_width, "b_V": v_width}
    if model.o_bias:
        counts["b_O"] = model.d_model
    return counts


def output_width(model: Model) -> int:
    """How many numbers enter W_O for each token: every query head's context side by side."""
    return model.n_heads * model.d_value


def attention_axes(model: Model) -> dict[str, tuple[str, ...]]:
    """The axes of every array of one layer's attention in symbols, in the order of the steps.

    S is the number of tokens, `group` that of query heads to a K/V head, and · multiplies. What is
    rotated, scaled or masked keeps its shape and is not listed again. Where K and V come from a
    compressed vector, that stands in the place of the matrices and products it replaces.
    """
    value = "d_head" if model.d_head == model.d_value else "d_value"
    stream, wide = ("S", "d_model"), (f"n_heads·{value}",)
    axes: dict[str, tuple[str, ...]] = {"X": stream}
    if model.norm_first:
        axes["h"] = stream
    if model.compressed:
        axes |= {"Q": ("S", "n_heads·d_head"), "compressed": ("S", "cached")}
    else:
        axes |= {
            "W_Q": ("d_model", "n_heads·d_head"),
            "W_K": ("d_model", "n_kv_heads·d_head"),
            "W_V": ("d_model", f"n_kv_heads·{value}"),
            "Q": ("S", "n_heads·d_head"),
            "K": ("S", "n_kv_heads·d_head"),
            "V": ("S", f"n_kv_heads·{value}"),
        }
    axes |= {
        "q": ("n_heads", "S", "d_head"),
        "k": ("n_kv_heads", "S", "d_head"),
        "v": ("n_kv_heads", "S", value),
    }
    if not model.compressed:
        axes["q_grouped"] = ("n_kv_heads", "group", "S", "d_head")
    return axes | {
        "scores": ("n_heads", "S", "S"),
        "weights": ("n_heads", "S", "S"),
        "context": ("n_heads", "S", value),
        "merged": ("S", *wide),
        "W_O": (*wide, "d_model"),
        "output": stream,
    }


def attention_shapes(model: Model, n_tokens: int) -> dict[str, tuple[int, ...]]:
    """The shape of every array of attention_axes, for that many tokens."""
    sizes = model._asdict()
    sizes |= {"S": whole("n_tokens", n_tokens), "group": model.n_heads // model.n_kv_heads}
    return {
        name: tuple(math.prod(sizes[factor] for factor in axis.split("·")) for axis in axes)
        for name, axes in attention_axes(model).items()
    }


def ffn_parameters(model: Model) -> int:
    """The parameters of one layer's FFN matrices. ValueError where it is made of experts."""
    if model.ffn_matrices is None:
        refuse(
            f"{model.name} 的 FFN 由许多专家组成，不能这样数。",
            f"the FFN of {model.name} is made of experts and cannot be counted like this.",
        )
    return model.ffn_matrices * model.d_model * model.d_ffn


def pairs(n_q: int, n_k: int) -> int:
    """How many (query, key) pairs a causal mask leaves, the queries being the last n_q of n_k."""
    n_q = whole("n_q", n_q)
    n_k = whole("n_k", n_k, least=n_q)
    return n_q * (n_k - n_q) + n_q * (n_q + 1) // 2


def attention_flops(model: Model, n_q: int, n_k: int | None = None) -> dict[str, int]:
    """The operations of each matrix product of one layer's attention, by step.

    n_q new tokens are projected and look at n_k, themselves and those before (n_q if not given).
    Scores above the diagonal are not counted, unless the model has no causal mask. ValueError where
    K and V come from a compressed vector.
    """
    _refuse_compressed(model)
    n_k = n_q if n_k is None else n_k
    below = pairs(n_q, n_k)
    looked_at = model.n_heads * (below if model.causal else n_q * n_k)
    k_and_v = model.n_kv_heads * (model.d_head + model.d_value)
    return {
        "Q": 2 * n_q * model.d_model * model.n_heads * model.d_head,
        "K, V": 2 * n_q * model.d_model * k_and_v,
        "QKᵀ": 2 * looked_at * model.d_head,
        "AV": 2 * looked_at * model.d_value,
        "W_O": 2 * n_q * output_width(model) * model.d_model,
    }


def cache_bytes(model: Model, n_tokens: int = 1, bytes_per_number: int = 2) -> int:
    """Bytes that all layers together keep for n_tokens; 2 bytes a number are float16 or bfloat16."""
    n_tokens = whole("n_tokens", n_tokens)
    return n_tokens * model.n_layers * model.cached * whole("bytes_per_number", bytes_per_number)


def _refuse_compressed(model: Model) -> None:
    if model.compressed:
        refuse(
            f"{model.name} 的键和值从一个压缩过的向量里来，没有通常的 W_K 和 W_V。",
            f"the keys and values of {model.name} come from a compressed vector; it has no W_K and "
            f"W_V of the usual kind.",
        )

"""Hugging Face's Qwen2.5 attention layer with the weights of `qwen`, to compare with.

    python tools/oracle.py

writes tests/reference/qwen_layer.npz anew. Needs torch and transformers: pip install -e ".[oracle]".
tests/test_oracle.py compares every number with the layer here.
"""

import platform
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import transformers
from transformers import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import (
    Qwen2Attention,
    Qwen2RMSNorm,
    Qwen2RotaryEmbedding,
)

import reference
from byhand.checks import Array
from byhand.qwen import LayerShape, LayerWeights

Implementation = Literal["sdpa", "eager"]
IMPLEMENTATIONS: tuple[Implementation, ...] = ("sdpa", "eager")


class Layer(NamedTuple):
    """The attention of one layer and the two norms around it, as Hugging Face has them."""

    attention: Any  # Qwen2Attention
    rotary: Any  # Qwen2RotaryEmbedding
    input_norm: Any  # Qwen2RMSNorm
    ffn_norm: Any  # Qwen2RMSNorm


def layer(weights: LayerWeights, shape: LayerShape, implementation: Implementation) -> Layer:
    """Hugging Face's modules with these weights copied in; a missing bias is zero there."""
    config = Qwen2Config(
        hidden_size=shape.d_model,
        num_attention_heads=shape.n_heads,
        num_key_value_heads=shape.n_kv_heads,
        head_dim=shape.d_head,
        rope_theta=shape.rope_theta,
        rms_norm_eps=shape.norm_eps,
        num_hidden_layers=1,
        attn_implementation=implementation,
    )
    attention = Qwen2Attention(config, 0).eval()
    projections = {
        attention.q_proj: (weights.w_q, weights.b_q),
        attention.k_proj: (weights.w_k, weights.b_k),
        attention.v_proj: (weights.w_v, weights.b_v),
        attention.o_proj: (weights.w_o, None),
    }
    norms = []
    with torch.no_grad():
        for module, (w, b) in projections.items():
            module.weight.copy_(torch.from_numpy(w.T))  # [d_out, d_in]
            if module.bias is not None:
                module.bias.copy_(torch.from_numpy(np.zeros(w.shape[1]) if b is None else b))
        for gain in (weights.input_norm, weights.ffn_norm):
            norm = Qwen2RMSNorm(shape.d_model, shape.norm_eps)
            norm.weight.copy_(torch.from_numpy(gain))
            norms.append(norm)
    return Layer(attention, Qwen2RotaryEmbedding(config), *norms)


def version() -> str:
    """Of transformers."""
    return str(transformers.__version__)


def causal(n_q: int, n_k: int) -> Any:
    """0 where a query may look and −inf where not. [1, 1, n_q, n_k]"""
    return torch.full((1, 1, n_q, n_k), -torch.inf).triu(n_k - n_q + 1)


def attend(made: Layer, h: Array, n_past: int = 0, cache: Any = None) -> Array:
    """The attention of the layer. h [batch, S, d_model] is normalised -> [batch, S, d_model]

    `cache` is a DynamicCache that holds n_past tokens; it takes up the new ones.
    """
    n_new = h.shape[1]
    states = torch.from_numpy(h)
    positions = torch.arange(n_past, n_past + n_new)[None]
    own_mask = made.attention.config._attn_implementation == "sdpa" and not n_past
    mask = None if own_mask else causal(n_new, n_past + n_new)
    with torch.inference_mode():
        turn = made.rotary(states, positions)
        output, *_ = made.attention(states, turn, mask, cache)  # positions: the names vary
    array: Array = output.numpy()
    return array


def normalise(norm: Any, x: Array) -> Array:
    """A Qwen2RMSNorm of an array."""
    with torch.inference_mode():
        array: Array = norm(torch.from_numpy(x)).numpy()
    return array


def dot_product(heads: reference.Heads) -> Array:
    """PyTorch's causal scaled dot-product attention. -> [n_heads, S, d_head]"""
    q, k, v = (torch.from_numpy(array)[None] for array in heads)
    with torch.inference_mode():
        context = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
    array: Array = context[0].numpy()
    return array


def outputs(size: int) -> dict[str, Array]:
    """Every output of the reference for `size` tokens, whole. [size, 3584] each"""
    x, weights = reference.rows(size), reference.weights()
    made = {how: layer(weights, reference.SHAPE, how) for how in IMPLEMENTATIONS}
    normed = normalise(made["sdpa"].input_norm, x)
    attended = {how: attend(made[how], normed[None])[0] for how in IMPLEMENTATIONS}
    return {
        "normed": normed,
        **{f"output ({how})": array for how, array in attended.items()},
        "ffn_input": normalise(made["sdpa"].ffn_norm, x + attended["sdpa"]),
        "context": reference.side_by_side(dot_product(reference.heads(size))),
    }


def main() -> None:
    kept: dict[str, Any] = {
        **{f"{name} checksum": text for name, text in reference.fingerprints().items()},
        "made with": f"torch {torch.__version__}, transformers {version()}, "
        f"NumPy {np.__version__}, Python {platform.python_version()}",
    }
    for size in reference.SIZES:
        for name, whole in outputs(size).items():
            for part, array in reference.summary(whole)._asdict().items():
                kept[f"{name}, {size} tokens: {part}"] = array
    np.savez_compressed(reference.FILE, **kept)
    print(f"{reference.FILE.name}: {reference.FILE.stat().st_size} bytes, {kept['made with']}")


if __name__ == "__main__":
    main()

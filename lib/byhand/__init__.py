"""Attention by hand · 手算注意力: the mathematics, data and figures that the notebooks import."""

from byhand.attention import (
    LayerStages,
    Stages,
    apply_mask,
    attention,
    causal_mask,
    merge_heads,
    multi_head_attention,
    project,
    scale,
    score,
    softmax,
    softmax_jacobian,
    split_heads,
    weigh,
)
from byhand.diagnosis import diagnose
from byhand.report import Diagnosis
from byhand.toy import published, reproduces

__all__ = [
    "Diagnosis",
    "LayerStages",
    "Stages",
    "apply_mask",
    "attention",
    "causal_mask",
    "diagnose",
    "merge_heads",
    "multi_head_attention",
    "project",
    "published",
    "reproduces",
    "scale",
    "score",
    "softmax",
    "softmax_jacobian",
    "split_heads",
    "weigh",
]

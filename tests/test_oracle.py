"""Every number of the real layer against Hugging Face's own. Runs where torch is: make oracle."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the oracle is not installed: make oracle")
pytest.importorskip("transformers", reason="the oracle is not installed: make oracle")

import torch
from transformers import DynamicCache

import oracle
import reference
from byhand import attention, causal_mask, fast, qwen, rope
from byhand.checks import Array
from oracle import IMPLEMENTATIONS, Implementation
from reference import ATOL, SHAPE, SIZES, apart

PATHS = {"readable": qwen.attend, "fast": fast.attend}
each_path = pytest.mark.parametrize("path", PATHS)
each_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)

# Widths, heads and the rest all differ; n_heads·d_head is d_model in none of them.
ODD_SHAPES = [
    qwen.LayerShape(23, 15, 5, 14, 1e4, 1e-5),  # groups of 3
    qwen.LayerShape(29, 7, 1, 22, 5e5, 1e-6),  # one K/V head for all
    qwen.LayerShape(31, 11, 11, 26, 1e6, 1e-3),  # a K/V head for each
]


@pytest.fixture(scope="module")
def weights() -> qwen.LayerWeights:
    return reference.weights()


@pytest.fixture(scope="module")
def layers(weights: qwen.LayerWeights) -> dict[Implementation, oracle.Layer]:
    return {how: oracle.layer(weights, SHAPE, how) for how in IMPLEMENTATIONS}


def batch(n: int, size: int, d_model: int) -> Array:
    """Normalised rows of n different sequences. [n, size, d_model]"""
    return qwen.seeded_rows(np.arange(n * size), d_model).reshape(n, size, d_model)


def test_the_stored_reference_is_what_the_oracle_computes_here() -> None:
    with np.load(reference.FILE) as stored:
        for size in SIZES:
            for name, whole in oracle.outputs(size).items():
                for part, array in reference.summary(whole)._asdict().items():
                    assert apart(array, stored[f"{name}, {size} tokens: {part}"]) <= ATOL


@each_path
@each_implementation
@pytest.mark.parametrize("size", SIZES)
def test_every_number_of_the_layer(
    layers: dict[Implementation, oracle.Layer],
    weights: qwen.LayerWeights,
    size: int,
    implementation: Implementation,
    path: str,
) -> None:
    x, made = reference.rows(size), layers[implementation]
    step = qwen.layer(x, weights, SHAPE, attend=PATHS[path])
    normed = oracle.normalise(made.input_norm, x)
    output = oracle.attend(made, normed[None])[0]
    assert apart(step.normed, normed) <= ATOL
    assert apart(step.output, output) <= ATOL
    assert apart(step.ffn_input, oracle.normalise(made.ffn_norm, x + output)) <= ATOL


@pytest.mark.parametrize("size", SIZES)
def test_every_number_of_the_dot_product(size: int) -> None:
    q, k, v = heads = reference.heads(size)
    theirs = oracle.dot_product(heads)
    grouped = qwen.group_heads(q, SHAPE.n_kv_heads)
    readable = attention(grouped, k[:, None], v[:, None], causal_mask(size)).context
    assert apart(readable.reshape(q.shape), theirs) <= ATOL
    no_turn = np.zeros((size, SHAPE.d_head // 2))
    quick = fast.core(q.swapaxes(0, 1)[None], k[None], v[None], no_turn)[0]
    assert apart(quick.swapaxes(0, 1), theirs) <= ATOL


@each_path
@each_implementation
def test_a_batch_of_two(
    layers: dict[Implementation, oracle.Layer],
    weights: qwen.LayerWeights,
    implementation: Implementation,
    path: str,
) -> None:
    h = batch(2, 37, SHAPE.d_model)
    theirs = oracle.attend(layers[implementation], h)
    assert apart(PATHS[path](h, weights, SHAPE).output, theirs) <= ATOL


@each_path
@each_implementation
def test_decoding_with_a_cache(
    layers: dict[Implementation, oracle.Layer],
    weights: qwen.LayerWeights,
    implementation: Implementation,
    path: str,
) -> None:
    """A prompt of 41, then three tokens one by one, then seven at once; both sides keep a cache."""
    h = batch(2, 51, SHAPE.d_model)
    assert decode(layers[implementation], h, weights, SHAPE, path, [41, 1, 1, 1, 7]) <= ATOL


@each_path
@each_implementation
@pytest.mark.parametrize("shape", ODD_SHAPES)
def test_odd_shapes(shape: qwen.LayerShape, implementation: Implementation, path: str) -> None:
    weights = qwen.seeded_weights(shape)
    made = oracle.layer(weights, shape, implementation)
    x = batch(3, 17, shape.d_model)
    step = qwen.layer(x, weights, shape, attend=PATHS[path])
    normed = oracle.normalise(made.input_norm, x)
    output = oracle.attend(made, normed)
    assert apart(step.normed, normed) <= ATOL
    assert apart(step.output, output) <= ATOL
    assert apart(step.ffn_input, oracle.normalise(made.ffn_norm, x + output)) <= ATOL
    assert decode(made, normed, weights, shape, path, [5, 1, 11]) <= ATOL


@each_path
def test_without_biases(path: str) -> None:
    shape = ODD_SHAPES[0]
    weights = qwen.seeded_weights(shape)._replace(b_q=None, b_k=None, b_v=None)
    h = batch(1, 13, shape.d_model)
    theirs = oracle.attend(oracle.layer(weights, shape, "sdpa"), h)
    assert apart(PATHS[path](h, weights, shape).output, theirs) <= ATOL


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotation_is_multiplication_by_a_complex_number(pairing: rope.Pairing) -> None:
    """Each pair (a, b) as a + bi, times e^(i·angle): LLaMA's own way to write it."""
    size, d_head, theta = 19, 22, 1e4
    x = batch(3, size, d_head)
    paired = torch.from_numpy(x)
    if pairing == "half":
        paired = paired.unflatten(-1, (2, d_head // 2)).transpose(-1, -2)
    else:
        paired = paired.unflatten(-1, (d_head // 2, 2))  # [3, size, d_head/2, 2]
    slow = theta ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    angle = torch.outer(torch.arange(size, dtype=torch.float64), slow)
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    turned: Any = torch.view_as_real(torch.view_as_complex(paired.contiguous()) * turn)
    if pairing == "half":
        turned = turned.transpose(-1, -2)
    ours = rope.rotate(x, rope.angles(np.arange(size), d_head, theta), pairing)
    assert apart(ours, turned.flatten(-2).numpy()) <= ATOL


def decode(
    made: oracle.Layer,
    h: Array,
    weights: qwen.LayerWeights,
    shape: qwen.LayerShape,
    path: str,
    steps: list[int],
) -> float:
    """The largest difference, h [batch, S, d_model] in steps of so many tokens, cached on both sides."""
    theirs, ours, n_past, differences = DynamicCache(), None, 0, []
    assert sum(steps) == h.shape[1]
    for n_new in steps:
        new = np.ascontiguousarray(h[:, n_past : n_past + n_new])
        output, ours = PATHS[path](new, weights, shape, ours)
        differences.append(apart(output, oracle.attend(made, new, n_past, theirs)))
        n_past += n_new
    return max(differences)

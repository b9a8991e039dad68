"""The real layer against stored numbers of Hugging Face's; needs neither torch nor transformers.

tools/oracle.py made the numbers; tests/test_oracle.py compares all of them where torch is there.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import reference
from byhand import attention, causal_mask, fast, qwen, rope
from byhand.checks import Array
from reference import ATOL, SHAPE, SIZES, apart

PATHS = {"readable": qwen.attend, "fast": fast.attend}
Stored = Mapping[str, Any]


@pytest.fixture(scope="module")
def stored() -> Stored:
    with np.load(reference.FILE) as file:
        return dict(file)


@pytest.fixture(scope="module")
def weights() -> qwen.LayerWeights:
    return reference.weights()


@pytest.fixture(scope="module")
def fingerprints() -> dict[str, str]:
    return reference.fingerprints()


def differing(stored: Stored, name: str, whole: Array) -> dict[str, float]:
    """The parts in which `whole` [S, width] is not what the reference has, and by how much at most."""
    differences = {
        part: apart(computed, stored[f"{name}, {len(whole)} tokens: {part}"])
        for part, computed in reference.summary(whole)._asdict().items()
    }
    return {part: by for part, by in differences.items() if not by <= ATOL}


@pytest.mark.parametrize("what", ["weights", "rows", "heads"])
def test_the_seeded_numbers_are_those_of_the_reference(
    stored: Stored, fingerprints: dict[str, str], what: str
) -> None:
    assert fingerprints[what] == str(stored[f"{what} checksum"]), (
        f"the seeded {what} are not those the reference was made with: "
        f"make oracle ARGS=--write ({stored['made with']} made it)"
    )


def test_the_file_is_small_and_says_what_made_it(stored: Stored) -> None:
    assert reference.FILE.stat().st_size < 100_000
    for name in ("torch", "transformers", "NumPy"):
        assert f"{name} " in str(stored["made with"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", SIZES)
def test_the_layer_is_that_of_hugging_face(
    stored: Stored, weights: qwen.LayerWeights, size: int, path: str
) -> None:
    step = qwen.layer(reference.rows(size), weights, SHAPE, attend=PATHS[path])
    assert differing(stored, "normed", step.normed) == {}
    assert differing(stored, "output (sdpa)", step.output) == {}
    assert differing(stored, "output (eager)", step.output) == {}
    assert differing(stored, "ffn_input", step.ffn_input) == {}


@pytest.mark.parametrize("size", SIZES)
def test_the_readable_dot_product_is_that_of_torch(stored: Stored, size: int) -> None:
    q, k, v = reference.heads(size)
    grouped = qwen.group_heads(q, SHAPE.n_kv_heads)
    context = attention(grouped, k[:, None], v[:, None], causal_mask(size)).context
    assert differing(stored, "context", reference.side_by_side(context.reshape(q.shape))) == {}


@pytest.mark.parametrize("size", SIZES)
def test_the_fast_dot_product_is_that_of_torch(stored: Stored, size: int) -> None:
    q, k, v = reference.heads(size)
    no_turn = np.zeros((size, SHAPE.d_head // 2))
    context = fast.core(q.swapaxes(0, 1)[None], k[None], v[None], no_turn)[0]
    assert differing(stored, "context", context.reshape(size, -1)) == {}


def columns(heads: NDArray[np.intp]) -> NDArray[np.intp]:
    """The columns of w_q that belong to these heads, in their order."""
    return (heads[:, None] * SHAPE.d_head + np.arange(SHAPE.d_head)).ravel()


def tiled(w: qwen.LayerWeights) -> qwen.LayerWeights:
    """Head i shares K/V head i mod 4: the K/V heads tiled, not repeated."""
    mine = columns(np.arange(SHAPE.n_heads).reshape(-1, SHAPE.n_kv_heads).T.ravel())
    assert w.b_q is not None
    return w._replace(w_q=w.w_q[:, mine], b_q=w.b_q[mine], w_o=w.w_o[mine])


def interleaved(w: qwen.LayerWeights) -> qwen.LayerWeights:
    """Queries and keys in the other layout of RoPE: neighbours are turned together."""
    order = rope.half_from_interleaved(SHAPE.d_head)
    q, k = ((np.arange(n)[:, None] * SHAPE.d_head + order).ravel()
            for n in (SHAPE.n_heads, SHAPE.n_kv_heads))  # fmt: skip
    assert w.b_q is not None and w.b_k is not None
    return w._replace(w_q=w.w_q[:, q], b_q=w.b_q[q], w_k=w.w_k[:, k], b_k=w.b_k[k])


WRONG: dict[str, Callable[[qwen.LayerWeights], qwen.LayerWeights]] = {
    "K/V heads tiled": tiled,
    "RoPE interleaved": interleaved,
    "no bias on Q": lambda w: w._replace(b_q=None),
    "no bias on V": lambda w: w._replace(b_v=None),
    "W_O transposed": lambda w: w._replace(w_o=w.w_o.T),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_layer_does_not_pass(
    stored: Stored, weights: qwen.LayerWeights, fault: str
) -> None:
    step = qwen.layer(reference.rows(6), WRONG[fault](weights), SHAPE, attend=fast.attend)
    assert differing(stored, "normed", step.normed) == {}
    assert "sample" in differing(stored, "output (sdpa)", step.output)


def test_a_wrong_shape_does_not_pass(stored: Stored, weights: qwen.LayerWeights) -> None:
    slower = SHAPE._replace(rope_theta=1e4)
    step = qwen.layer(reference.rows(6), weights, slower, attend=fast.attend)
    assert "sample" in differing(stored, "output (sdpa)", step.output)


def test_one_wrong_row_outside_the_sample_does_not_pass(
    stored: Stored, weights: qwen.LayerWeights
) -> None:
    output = qwen.layer(reference.rows(64), weights, SHAPE, attend=fast.attend).output
    assert differing(stored, "output (sdpa)", output) == {}
    output[1] = output[2]
    assert list(differing(stored, "output (sdpa)", output)) == ["projections"]

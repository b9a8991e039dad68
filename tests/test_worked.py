"""A formula says what it computes: its numbers, read back from the LaTeX, give its result."""

import re
from collections.abc import Callable

import numpy as np
import pytest

import byhand
from byhand import show, worked
from byhand.attention import LayerStages
from byhand.toy import TOKENS, Toy

NUMBER = r"-?\d+\.\d+"


@pytest.fixture(params=[1, 2], ids=["one head", "two heads"])
def stages(t: Toy, request: pytest.FixtureRequest) -> LayerStages:
    mask = byhand.causal_mask(6)
    return byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, request.param, mask)


def result(formula: str) -> float:
    """The number after the last = or ≈."""
    last = re.split(r"=|\\approx", formula)[-1]
    return float(re.findall(NUMBER, last)[-1])


@pytest.mark.parametrize("stage", ["q", "k", "v", "context", "output", "scores"])
def test_sums_of_products_add_up(stage: str, t: Toy, stages: LayerStages) -> None:
    values = getattr(stages, stage)
    decimals = 2 if stage == "scores" else 3
    for head in range(1 if values.ndim == 2 else len(values)):
        matrix = values if values.ndim == 2 else values[head]
        for i, j in np.ndindex(matrix.shape):
            formula = worked.entry(t, stages, stage, i, j, head)
            factors = re.findall(rf"\(?({NUMBER})\)? \\times \(?({NUMBER})\)?", formula)
            total = sum(float(a) * float(b) for a, b in factors)
            assert total == pytest.approx(matrix[i, j], abs=0.006), formula
            assert result(formula) == pytest.approx(matrix[i, j], abs=0.51 * 10**-decimals)
            check_signs(formula, factors, matrix[i, j])


def check_signs(formula: str, factors: list[tuple[str, str]], exact: float) -> None:
    """Each = joins what is equal as printed, each ≈ what is not."""
    signs = re.findall(r"&(=|\\approx)", formula)
    by_factors = sum(float(a) * float(b) for a, b in factors)
    products = re.split(r"&(?:=|\\approx)", formula)[2].replace("\\quad {}", "").replace(" ", "")
    by_products = sum(float(x) for x in re.findall(r"[+-]?\d+\.\d+", products))
    values = [exact, by_factors, by_products, result(formula)]
    for sign, before, after in zip(signs, values[:-1], values[1:], strict=True):
        assert (sign == "=") == (abs(after - before) < 1e-9), formula


def test_the_published_example_reads_as_on_paper(t: Toy) -> None:
    one = byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, 1)
    formula = worked.entry(t, one, "context", 1, 0)
    assert formula.startswith(
        "\\begin{aligned}\nO_{\\text{西安},\\,1} &\\approx 0.146 \\times 0.508"
    )
    assert "0.090 \\times (-1.301)" in formula
    assert formula.endswith("\\approx 0.264\n\\end{aligned}")


def test_scaled_masked_and_weights(t: Toy, stages: LayerStages) -> None:
    heads, _, d_head = stages.q.shape
    for head in range(heads):
        for i, j in np.ndindex(6, 6):
            formula = worked.entry(t, stages, "scaled", i, j, head)
            assert rf"\sqrt{{{d_head}}}" in formula
            assert result(formula) == pytest.approx(stages.scaled[head, i, j], abs=0.0051)
            weight = worked.entry(t, stages, "weights", i, j, head)
            assert result(weight) == pytest.approx(stages.weights[head, i, j], abs=0.00051)
            masked = worked.entry(t, stages, "masked", i, j, head)
            if j > i:
                assert masked.endswith("= -\\infty\n\\end{aligned}")
                assert "e^{-\\infty}" in weight
            else:
                assert result(masked) == pytest.approx(stages.scaled[head, i, j], abs=0.0051)


def test_merged_is_where_context_lies(t: Toy, stages: LayerStages) -> None:
    for i, j in np.ndindex(6, 4):
        formula = worked.entry(t, stages, "merged", i, j)
        assert result(formula) == pytest.approx(stages.merged[i, j], abs=0.00051)


def test_braces_balance_and_nothing_reads_minus_zero(t: Toy, stages: LayerStages) -> None:
    for stage in LayerStages._fields:
        shape = getattr(stages, stage).shape[-2:]
        for i, j in np.ndindex(shape):
            formula = worked.entry(t, stages, stage, i, j)
            assert formula.count("{") == formula.count("}")
            assert not re.search(r"-0\.0+(?!\d)", formula), formula
            assert "+ -" not in formula and "- -" not in formula


def test_a_notebook_shows_it_typeset() -> None:
    formula = worked.dot([1.0, 2.0], [3.0, -4.0], "y")
    assert formula._repr_latex_() == f"$$\n{formula}\n$$"
    assert "1.000 \\times 3.000 + 2.000 \\times (-4.000)" in formula
    assert "3.000 - 8.000" in formula
    assert formula.endswith("= -5.000\n\\end{aligned}")


def test_the_mixing_example_is_exact_at_one_decimal(t: Toy) -> None:
    formula = worked.projection([[10, 1, 2, 8]], t.W_O, 0, 1, "y", tokens=["a"], decimals=1)
    assert "8.0 \\times (-0.2)" in formula
    assert formula.endswith("= 0.0 + 1.0 + 0.0 - 1.6 \\\\\n &= -0.6\n\\end{aligned}")
    assert "approx" not in formula


def test_long_sums_are_broken_over_lines() -> None:
    formula = worked.dot(np.ones(7), np.ones(7), "y")
    widths = [line.count("\\times") for line in formula.split("\\\\")]
    assert max(widths) == worked.TERMS_A_LINE
    assert sum(widths) == 7


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: worked.dot([1.0], [1.0, 2.0], "y"), "left = 1, right = 2"),
        (lambda: worked.dot([[1.0]], [[1.0]], "y"), "one row of numbers"),
        (lambda: worked.score(np.ones((2, 3)), np.ones((2, 3)), 2, 0), "between 0 and 1"),
        (lambda: worked.score(np.ones((2, 3)), np.ones((2, 3)), -1, 0), "between 0 and 1"),
        (lambda: worked.score(np.ones((2, 2, 3)), np.ones((2, 3)), 0, 0), "one matrix"),
        (lambda: worked.score(np.ones((7, 3)), np.ones((7, 3)), 6, 0), "no token"),
        (lambda: worked.weight([[np.nan, 1.0]], 0, 0), "nan"),
        (lambda: worked.scaled([[1.0]], -4, 0, 0), "d_head must be a whole number"),
        (lambda: worked.dot([1.0], [1.0], "y", factors=-1), "factors must be a whole number"),
        (lambda: show.row([1.0], -1), "decimals must be a whole number"),
        (lambda: show.row([[1.0]]), "one row of numbers"),
        (lambda: show.rows(np.ones((2, 2, 2)), labels="ab"), "one matrix"),
        (lambda: show.rows(np.ones((2, 2)), labels="abc"), "rows = 2, labels = 3"),
        (lambda: worked.weight([[-np.inf, -np.inf]], 0, 0), "every key is masked"),
    ],
)
def test_a_mistake_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_stages_of_another_toy_are_refused(t: Toy) -> None:
    other = byhand.multi_head_attention(2 * t.X, t.W_Q, t.W_K, t.W_V, t.W_O, 2)
    with pytest.raises(ValueError, match="not computed from this toy"):
        worked.entry(t, other, "q", 0, 0)
    batch = byhand.multi_head_attention(t.X[None], t.W_Q, t.W_K, t.W_V, t.W_O, 2)
    with pytest.raises(ValueError, match="without a batch axis"):
        worked.entry(t, batch, "q", 0, 0)


@pytest.mark.parametrize("head", [0, 1])
def test_the_signs_of_quotients(t: Toy, head: int) -> None:
    stages = byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, 2)
    for i, j in np.ndindex(6, 6):
        for stage in ("scaled", "weights"):
            *_, before, after = re.split(
                r"&(?==|\\approx)", worked.entry(t, stages, stage, i, j, head)
            )
            above, below = (float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", before)[:2])
            quotient = above / (below**0.5 if stage == "scaled" else below)
            equal = abs(quotient - float(re.findall(NUMBER, after)[-1])) < 1e-9
            assert after.startswith("=") == equal


def test_an_unknown_stage_is_named(t: Toy, stages: LayerStages) -> None:
    with pytest.raises(ValueError, match="there are: q, k, v, scores"):
        worked.entry(t, stages, "logits", 0, 0)
    assert TOKENS[1] in worked.entry(t, stages, "q", 1, 0)

"""Every published number comes out of the data at its printed precision."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike

import byhand
from byhand import data, toy
from byhand.toy import Toy

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)


def _computed(t: Toy) -> dict[str, ArrayLike]:
    """Each entry of published.json, computed from xian.json and models.json."""
    identity = np.eye(4)
    one = byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, identity, n_heads=1)
    two = byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, n_heads=t.n_heads)
    scores, scaled, weights, output = one.scores[0], one.scaled[0], one.weights[0], one.merged
    exps = np.exp(scaled[西安] - scaled[西安].max())
    xian = data.read_json("xian.json")
    qwen = data.model("Qwen2.5-7B")
    return {
        "scores.xian": scores[西安],
        "scaled.xian": scaled[西安],
        "exp.xian": exps,
        "expsum.xian": exps.sum(),
        "weights": weights,
        "weights.rowmax": weights.max(axis=1),
        "weights.unscaled.jintian_q": byhand.softmax(scores)[今天, 问号],
        "weights.scaled.jintian_q": weights[今天, 问号],
        "values.dim1": one.v[0][:, 0],
        "output.xian.dim1": output[西安, 0],
        "output": output,
        "head1.xian_q": two.weights[0][西安].max(),
        "head2.xian_zenmeyang": two.weights[1][西安].max(),
        "head1.zenmeyang_xian": two.weights[0][怎么样].max(),
        "head2.zenmeyang_self": two.weights[1][怎么样].max(),
        "std512": np.sqrt(512),
        "variance_ratio": 128 / 4,
        "mixing.concat": xian["mixing_input"],
        "mixing.out": np.array(xian["mixing_input"]) @ t.W_O,
        "qwen.shapes": [
            qwen[key] for key in ("hidden", "n_heads", "kv_heads", "head_dim_qk", "layers")
        ],
        "qwen.output": [qwen["vocab"], qwen["hidden"]],
    }


def test_no_published_entry_is_left_out(t: Toy) -> None:
    assert set(_computed(t)) == set(toy.published_ids())


@pytest.mark.parametrize("name", toy.published_ids())
def test_published_number_comes_out(name: str, t: Toy) -> None:
    assert toy.reproduces(name, _computed(t)[name])


def test_where_the_published_maxima_lie(t: Toy) -> None:
    two = byhand.multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, n_heads=2)
    assert two.weights[0][西安].argmax() == 问号
    assert two.weights[1][西安].argmax() == 怎么样
    assert two.weights[0][怎么样].argmax() == 西安
    assert two.weights[1][怎么样].argmax() == 怎么样


def test_half_a_unit_of_the_last_digit_is_the_limit() -> None:
    printed = toy.published("expsum.xian")  # four decimals
    assert toy.reproduces("expsum.xian", printed.values + 0.5e-4)
    assert toy.reproduces("expsum.xian", printed.values - 0.5e-4)
    assert not toy.reproduces("expsum.xian", printed.values + 0.6e-4)
    assert not toy.reproduces("expsum.xian", printed.values - 0.6e-4)
    assert not toy.reproduces("expsum.xian", np.nan)


def test_one_wrong_number_in_a_matrix_is_seen() -> None:
    weights = toy.published("weights").values.copy()
    weights[5, 3] += 0.001
    assert not toy.reproduces("weights", weights)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: toy.published("scores"), "scores.xian"),
        (lambda: data.model("GPT-5"), "Qwen2.5-7B"),
        (lambda: toy.reproduces("expsum.xian", "3.8555"), "numbers are wanted"),
        (lambda: toy.reproduces("weights", np.zeros((6, 5))), "[6, 6]"),
        (lambda: toy.reproduces("expsum.xian", [1.0, 2.0]), "[2]"),
    ],
)
def test_a_wrong_name_or_shape_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("[", r"\[")):
        call()


def test_tokens_make_the_sentence_and_have_their_real_ids() -> None:
    assert "".join(toy.TOKENS) == toy.SENTENCE
    assert toy.token_ids() == {
        "今天": 100644, "西安": 102178, "的": 9370, "天气": 104307, "怎么样": 104472, "？": 11319,
    }  # fmt: skip


def test_the_toy_is_new_at_each_call() -> None:
    toy.load().X[:] = 0
    assert np.all(toy.load().X != 0)
    assert all(m.dtype == np.float64 for m in toy.load()[:5])


def test_matrices_have_three_decimals_as_data_says(t: Toy) -> None:
    for matrix in t[:5]:
        np.testing.assert_array_equal(matrix, np.round(matrix, 3))

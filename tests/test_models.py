"""What is counted of real models: against a model file's header, and against counting one by one."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from byhand import data, models, project, qwen
from byhand.models import Model

QWEN = "Qwen2.5-7B"
MATRICES = ("W_Q", "W_K", "W_V", "W_O")

# Another prime for every size, so that no two can be mixed up; 15 query heads, 5 for each K/V head.
SMALL = Model(
    name="small", d_model=7, n_heads=15, n_kv_heads=3, d_head=2, d_value=11, n_layers=13, d_ffn=17,
    ffn_matrices=3, vocab=19, rope_theta=1e4, norm_eps=1e-6, qkv_bias=True, o_bias=True,
    cached=3 * (2 + 11), compressed=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def header() -> Counter[str]:
    """Numbers in each kind of tensor of a file with Qwen2.5-7B's shapes, all layers together."""
    counts: Counter[str] = Counter()
    for tensor in data.read_json("gguf_7b_header.json")["tensors"]:
        kind = ".".join(part for part in tensor["name"].split(".") if not part.isdigit())
        counts[kind] += math.prod(tensor["ne"])
    return counts


@pytest.mark.parametrize("name", models.names())
def test_every_model_is_read_and_its_widths_agree_with_the_source(name: str) -> None:
    model, row = models.read(name), data.model(name)
    assert model.name == name
    assert [models.output_width(model), model.d_model] == row["wo_shape_in_out"]
    assert models.output_width(model) * model.d_model == row["wo_params"]
    assert (models.output_width(model) == model.d_model) == row["wo_square"]
    assert model.n_heads == model.n_kv_heads * row["gqa_group"]
    if not model.compressed:
        assert models.attention_parameters(model)["W_O"] == row["wo_params"]


def test_names_are_those_of_the_file_in_order() -> None:
    rows = data.read_json("models.json")["models"]
    assert models.names() == [row["model"] for row in rows]
    assert len(set(models.names())) == len(rows)


def test_one_layer_of_qwen_is_what_the_header_holds(header: Counter[str]) -> None:
    model = models.read(QWEN)
    counted = models.attention_parameters(model)
    kinds = {
        "W_Q": "attn_q.weight", "W_K": "attn_k.weight", "W_V": "attn_v.weight",
        "W_O": "attn_output.weight", "b_Q": "attn_q.bias", "b_K": "attn_k.bias",
        "b_V": "attn_v.bias",
    }  # fmt: skip
    assert counted.keys() == kinds.keys()
    for part, kind in kinds.items():
        assert counted[part] * model.n_layers == header[f"blk.{kind}"], part
    ffn = sum(header[f"blk.ffn_{part}.weight"] for part in ("gate", "up", "down"))
    assert models.ffn_parameters(model) * model.n_layers == ffn
    assert header["blk.attn_output.bias"] == 0


def test_the_whole_of_qwen_is_what_the_header_holds(header: Counter[str]) -> None:
    model = models.read(QWEN)
    layer = sum(models.attention_parameters(model).values()) + models.ffn_parameters(model)
    norms = 2 * model.n_layers + 1
    tables = 2 * model.vocab  # embedding and output
    whole = model.n_layers * layer + (norms + tables) * model.d_model
    assert whole == header.total() == 7_615_616_512


def test_parameters_are_those_of_the_seeded_weights() -> None:
    model = models.read(QWEN)._replace(d_model=11, n_heads=6, n_kv_heads=3, d_head=10, d_value=10)
    weights = qwen.seeded_weights(models.layer_shape(model))._asdict()
    counted = models.attention_parameters(model)
    assert {part: weights[part.lower()].size for part in counted} == counted


def test_parameters_of_a_small_model() -> None:
    assert models.attention_parameters(SMALL) == {
        "W_Q": 7 * 30, "W_K": 7 * 6, "W_V": 7 * 33, "W_O": 165 * 7,
        "b_Q": 30, "b_K": 6, "b_V": 33, "b_O": 7,
    }  # fmt: skip
    bare = SMALL._replace(qkv_bias=False, o_bias=False)
    assert tuple(models.attention_parameters(bare)) == MATRICES
    assert models.ffn_parameters(SMALL) == 3 * 7 * 17
    assert models.ffn_parameters(SMALL._replace(ffn_matrices=2)) == 2 * 7 * 17


@pytest.mark.parametrize(
    ("name", "times"),
    [(QWEN, 6.94), ("LLaMA-3-8B", 4.2), ("GLM-4-9B (chat)", 4.72), ("GPT-2 (124M)", 2.0)],
)
def test_the_ffn_is_so_many_times_the_attention(name: str, times: float) -> None:
    model = models.read(name)
    attention = sum(models.attention_parameters(model)[part] for part in MATRICES)
    assert models.ffn_parameters(model) / attention == pytest.approx(times, abs=0.005)


def test_models_whose_output_matrix_is_not_square() -> None:
    widths = {}
    for name in models.names():
        model = models.read(name)
        if models.output_width(model) != model.d_model:
            widths[name] = (models.output_width(model), model.d_model)
    assert widths == {
        "DeepSeek-V3": (16384, 7168),
        "Qwen3-0.6B": (2048, 1024),
        "Qwen3-32B": (8192, 5120),
        "Gemma-7B": (4096, 3072),
        "Gemma-2-9B": (4096, 3584),
        "Gemma-2-27B": (4096, 4608),
        "Gemma-3-1B": (1024, 1152),
        "Gemma-3-27B": (4096, 5376),
        "Mistral-Nemo-12B": (4096, 5120),
        "gpt-oss-120b": (4096, 2880),
        "Qwen3-30B-A3B": (4096, 2048),
    }


# Shapes


def test_shapes_are_those_of_the_arrays() -> None:
    model = models.read(QWEN)._replace(d_model=11, n_heads=15, n_kv_heads=3, d_head=14, d_value=14)
    shape = models.layer_shape(model)
    weights = qwen.seeded_weights(shape)
    x = qwen.seeded_rows(range(7), shape.d_model)
    h = qwen.rms_norm(x, weights.input_norm, shape.norm_eps)
    stages = qwen.attend_stages(h, weights, shape)
    arrays = {
        "X": x, "h": h, "W_Q": weights.w_q, "W_K": weights.w_k, "W_V": weights.w_v,
        "Q": project(h, weights.w_q), "K": project(h, weights.w_k), "V": project(h, weights.w_v),
        "q": stages.q_rotated, "k": stages.k_rotated, "v": stages.v,
        "q_grouped": qwen.group_heads(stages.q, shape.n_kv_heads),
        "scores": stages.scores, "weights": stages.weights, "context": stages.context,
        "merged": stages.merged, "W_O": weights.w_o, "output": stages.output,
    }  # fmt: skip
    shapes = models.attention_shapes(model, 7)
    assert list(shapes) == list(models.attention_axes(model)) == list(arrays)
    assert shapes == {name: array.shape for name, array in arrays.items()}
    assert shapes["scores"] == stages.scaled.shape == stages.masked.shape


def test_shapes_where_values_have_a_width_of_their_own() -> None:
    shapes = models.attention_shapes(SMALL, 23)
    assert shapes["V"] == (23, 3 * 11) and shapes["v"] == (3, 23, 11)
    assert shapes["q_grouped"] == (3, 5, 23, 2) and shapes["context"] == (15, 23, 11)
    assert shapes["merged"] == (23, 165) and shapes["W_O"] == (165, 7)
    deepseek = models.attention_shapes(models.read("DeepSeek-V3"), 6)
    assert deepseek["compressed"] == (6, 576) and deepseek["k"] == (128, 6, 192)
    assert deepseek["W_O"] == (16384, 7168) and "W_K" not in deepseek
    assert models.attention_axes(models.read("DeepSeek-V3"))["v"] == ("n_kv_heads", "S", "d_value")


@pytest.mark.parametrize("name", models.names())
def test_matrices_have_as_many_numbers_as_parameters(name: str) -> None:
    model = models.read(name)
    if not model.compressed:
        shapes, counts = models.attention_shapes(model, 1), models.attention_parameters(model)
        assert all(math.prod(shapes[part]) == counts[part] for part in MATRICES)


# Operations


def looped_product(n_rows: int, n_inner: int, n_columns: int) -> int:
    """The operations of one matrix product, counted as they happen."""
    operations = 0
    for _row in range(n_rows):
        for _column in range(n_columns):
            for _inner in range(n_inner):
                operations += 2  # a multiplication and an addition
    return operations


def looped_flops(m: Model, n_q: int, n_k: int) -> dict[str, int]:
    counts = dict.fromkeys(("Q", "K, V", "QKᵀ", "AV", "W_O"), 0)
    counts["Q"] = looped_product(n_q, m.d_model, m.n_heads * m.d_head)
    counts["K, V"] = looped_product(n_q, m.d_model, m.n_kv_heads * m.d_head)
    counts["K, V"] += looped_product(n_q, m.d_model, m.n_kv_heads * m.d_value)
    for _head in range(m.n_heads):
        for i in range(n_k - n_q, n_k):
            for j in range(n_k):
                if j <= i:
                    counts["QKᵀ"] += looped_product(1, m.d_head, 1)
                    counts["AV"] += looped_product(1, 1, m.d_value)
    counts["W_O"] = looped_product(n_q, m.n_heads * m.d_value, m.d_model)
    return counts


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (5, 5), (3, 7), (1, 11), (2, 3)])
def test_operations_are_those_counted_one_by_one(n_q: int, n_k: int) -> None:
    assert models.attention_flops(SMALL, n_q, n_k) == looped_flops(SMALL, n_q, n_k)
    looked_at = [(i, j) for i in range(n_k - n_q, n_k) for j in range(n_k) if j <= i]
    assert models.pairs(n_q, n_k) == len(looked_at)


def test_without_a_causal_mask_every_pair_counts() -> None:
    assert not models.read("BERT-Large").causal and models.read(QWEN).causal
    masked, whole = (
        models.attention_flops(SMALL._replace(causal=causal), 3, 7) for causal in (True, False)
    )
    assert whole["QKᵀ"] == 15 * looped_product(3, 2, 7) and whole["AV"] == 15 * looped_product(
        3, 7, 11
    )
    assert masked["QKᵀ"] < whole["QKᵀ"]
    assert {part: masked[part] for part in ("Q", "K, V", "W_O")} == {
        part: whole[part] for part in ("Q", "K, V", "W_O")
    }


def test_without_a_past_the_keys_are_the_queries() -> None:
    assert models.attention_flops(SMALL, 5) == models.attention_flops(SMALL, 5, 5)


def test_token_by_token_costs_as_much_as_one_pass() -> None:
    steps: Counter[str] = Counter()
    for n_k in range(1, 14):
        steps.update(models.attention_flops(SMALL, 1, n_k))
    assert steps == models.attention_flops(SMALL, 13)


def test_operations_of_the_matrices_are_two_for_each_parameter_and_token() -> None:
    model = models.read(QWEN)
    flops, parameters = models.attention_flops(model, 5), models.attention_parameters(model)
    products = flops["Q"] + flops["K, V"] + flops["W_O"]
    assert products == 2 * 5 * sum(parameters[part] for part in MATRICES)


# The cache


def test_qwen_keeps_57344_bytes_for_each_token() -> None:
    model = models.read(QWEN)
    assert models.cache_bytes(model) == 57_344
    assert models.cache_bytes(model, 1000) == 57_344_000
    assert models.cache_bytes(model, bytes_per_number=4) == 2 * 57_344


def test_shared_kv_heads_save_a_factor_of_7() -> None:
    model = models.read(QWEN)
    with_all_heads = model.n_layers * model.n_heads * (model.d_head + model.d_value) * 2
    assert with_all_heads == 7 * models.cache_bytes(model)


def test_deepseek_keeps_a_compressed_vector() -> None:
    model = models.read("DeepSeek-V3")
    assert model.cached == 576
    assert models.cache_bytes(model) == 2 * 61 * 576


# Refusals


@pytest.mark.parametrize("name", models.names())
def test_the_shape_of_a_layer_is_given_where_qwen_describes_it(name: str) -> None:
    model = models.read(name)
    if name in ("GPT-2 (124M)", "BERT-Large", "GPT-3 175B", "DeepSeek-V3"):
        with pytest.raises(ValueError, match="not of the kind of Qwen2.5"):
            models.layer_shape(model)
        return
    shape = models.layer_shape(model)
    assert shape == (
        model.d_model, model.n_heads, model.n_kv_heads, model.d_head,
        model.rope_theta, model.norm_eps,
    )  # fmt: skip


WITH_EXPERTS = ("DeepSeek-V3", "gpt-oss-120b", "Qwen3-30B-A3B")


@pytest.mark.parametrize("name", models.names())
def test_an_ffn_is_counted_unless_it_is_made_of_experts(name: str) -> None:
    model = models.read(name)
    if name in WITH_EXPERTS:
        with pytest.raises(ValueError, match="experts"):
            models.ffn_parameters(model)
    else:
        gated = 2 if model.norm_eps is None or model.rope_theta is None else 3
        assert models.ffn_parameters(model) == gated * model.d_model * model.d_ffn


any_size: Any = 2.5  # of a type that the signatures do not allow
WRONG: list[tuple[str, Callable[[], object], list[str]]] = [
    ("no such model", lambda: models.read("Qwen9"), ["'Qwen9'", QWEN, "DeepSeek-V3"]),
    (
        "parameters of a compressed cache",
        lambda: models.attention_parameters(models.read("DeepSeek-V3")),
        ["DeepSeek-V3", "W_K", "W_V"],
    ),
    (
        "operations of a compressed cache",
        lambda: models.attention_flops(models.read("DeepSeek-V3"), 1),
        ["DeepSeek-V3", "W_K", "W_V"],
    ),
    ("experts", lambda: models.ffn_parameters(models.read("gpt-oss-120b")), ["gpt-oss-120b"]),
    ("no rotation", lambda: models.layer_shape(models.read("BERT-Large")), ["BERT-Large", "RoPE"]),
    ("no queries", lambda: models.pairs(0, 3), ["n_q", "0", "1"]),
    ("fewer keys than queries", lambda: models.pairs(5, 3), ["n_k", "3", "5"]),
    ("half a query", lambda: models.pairs(any_size, 3), ["n_q", "2.5"]),
    ("half a key", lambda: models.pairs(1, any_size), ["n_k", "2.5"]),
    ("True queries", lambda: models.pairs(True, 3), ["n_q", "True"]),
    ("operations of nothing", lambda: models.attention_flops(SMALL, 0), ["n_q", "0"]),
    ("operations on fewer keys", lambda: models.attention_flops(SMALL, 5, 3), ["n_k", "3", "5"]),
    ("shapes of nothing", lambda: models.attention_shapes(SMALL, 0), ["n_tokens", "0"]),
    ("no tokens", lambda: models.cache_bytes(SMALL, 0), ["n_tokens", "0"]),
    ("no bytes", lambda: models.cache_bytes(SMALL, 1, 0), ["bytes_per_number", "0"]),
    ("half a byte", lambda: models.cache_bytes(SMALL, 1, any_size), ["bytes_per_number", "2.5"]),
]


@pytest.mark.parametrize(("call", "named"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_mistake_is_named_in_both_languages(call: Callable[[], object], named: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    english, chinese = str(caught.value).split("\n")
    assert any("一" <= letter <= "鿿" for letter in chinese)
    for text in named:
        assert text in english and text in chinese

"""Notebooks 06 and 07 with MY_FILE set: every cell, asserts included, on a file of the real size."""

import re
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from authoring import source
from authoring.source import Code
from byhand import models, qwen, toy
from byhand.checks import Array

SHAPE = models.layer_shape(models.read("Qwen2.5-7B"))
IDS = list(toy.token_ids().values())
Q4_0 = GGMLQuantizationType.Q4_0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One layer and the embeddings; numbers as small and biases as large as a trained model has."""
    w = qwen.seeded_weights(SHAPE, seed=11)
    path = tmp_path / "one-layer.gguf"
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(1)
    writer.add_embedding_length(SHAPE.d_model)
    writer.add_head_count(SHAPE.n_heads)
    writer.add_head_count_kv(SHAPE.n_kv_heads)
    writer.add_rope_freq_base(SHAPE.rope_theta)
    writer.add_layer_norm_rms_eps(SHAPE.norm_eps)

    def matrix(name: str, stored: Array) -> None:
        blocks = quantize(np.ascontiguousarray(stored), Q4_0)
        writer.add_tensor(name, blocks, raw_dtype=Q4_0)

    rows = quantize(np.float32(0.02) * qwen.seeded_rows(IDS, SHAPE.d_model), Q4_0)
    embeddings = np.zeros((max(IDS) + 1, rows.shape[1]), np.uint8)
    embeddings[IDS] = rows
    writer.add_tensor("token_embd.weight", embeddings, raw_dtype=Q4_0)
    matrix("blk.0.attn_q.weight", w.w_q.T)
    matrix("blk.0.attn_k.weight", w.w_k.T)
    matrix("blk.0.attn_v.weight", 0.1 * w.w_v.T)
    matrix("blk.0.attn_output.weight", 0.1 * w.w_o.T)
    for name, bias, factor in (("q", w.b_q, 5), ("k", w.b_k, 60), ("v", w.b_v, 0.1)):
        assert bias is not None
        writer.add_tensor(f"blk.0.attn_{name}.bias", np.float32(factor) * bias)
    writer.add_tensor("blk.0.attn_norm.weight", w.input_norm)
    writer.add_tensor("blk.0.ffn_norm.weight", w.ffn_norm)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def run(name: str, file: Path) -> dict[str, object]:
    """Every code cell of a source, and the names they leave behind."""
    names: dict[str, object] = {}
    n_set = 0
    for cell in source.read(source.path_of(name)):
        if isinstance(cell, Code):
            text, n = re.subn(r"(?m)^MY_FILE = None", f"MY_FILE = {str(file)!r}", cell.text)
            n_set += n
            exec(compile(text, f"{name}, line {cell.line}", "exec"), names)
    assert n_set == 1
    return names


def test_notebook_06_runs_on_a_file_of_ones_own(file: Path) -> None:
    x = run("06_real_shapes", file)["X"]
    assert isinstance(x, np.ndarray)
    assert 0.01 < x.std() < 0.03  # the file's embeddings, not the seeded ones


def test_notebook_07_opens_a_file_of_ones_own(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("07_two_outputs", file)
    told = capsys.readouterr().out
    assert "qwen2 1 layers" in told and "no file given" not in told
    assert told.rstrip().endswith("[6, 3584]")

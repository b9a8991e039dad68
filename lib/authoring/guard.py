"""What nbval does not see: notebooks that were never run, run in part, or excused from the run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

# nbval would not compare, or would not run, a cell so marked. A mark is allowed for a notebook and a
# reason named here.
SKIP_MARKS = (
    "nbval-ignore-output",
    "nbval-skip",
    "nbval-check-output",
    "nbval-raises-exception",
    "raises-exception",
    "pytest-validate-ignore-output",
)
ALLOWED: dict[tuple[str, str], str] = {
    (
        "10_cost.ipynb",
        "nbval-ignore-output",
    ): "it shows measured times, which differ from run to run",
}


def marks(cell: Any) -> set[str]:
    """The marks of a code cell that keep nbval from running or comparing it."""
    comments = {
        line.strip().lstrip("#").strip().lower().replace("_", "-")
        for line in cell.source.splitlines()
        if line.strip().startswith("#")
    }
    return comments.union(cell.metadata.get("tags", [])).intersection(SKIP_MARKS)


def faults(path: Path) -> Iterator[str]:
    """One line for each thing wrong with an executed notebook."""
    shown = f"{path.parent.name}/{path.name}"
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:  # whatever nbformat makes of a file that is no notebook
        yield f"{shown}: not a notebook ({type(error).__name__})"
        return
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code:
        yield f"{shown}: no code cell"
    for n, cell in enumerate(code, start=1):
        if cell.execution_count != n:
            yield f"{shown}: code cell {n} has the execution count {cell.execution_count}"
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"{shown}: code cell {n} ends in {output.ename}"
            if output.get("name") == "stderr":
                yield f"{shown}: code cell {n} writes to stderr"
            if output.get("execution_count", n) != n:
                yield f"{shown}: the result of code cell {n} comes from another run"
        for mark in marks(cell):
            if (path.name, mark) not in ALLOWED:
                yield f"{shown}: code cell {n} is marked {mark}"
    if code and not any(cell.outputs for cell in code):
        yield f"{shown}: no output at all"

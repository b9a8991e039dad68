"""Execute a source and write its editions; or compare them with what is there.

Both editions come from the same cells. Code runs in a kernel of this interpreter, once for each
edition, with the working folder of that edition. An expression in prose is evaluated in that kernel
where it stands: {{ total:.4f }} becomes what f"{total:.4f}" is at that point.
"""

import ast
import base64
import hashlib
import queue
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbclient.util import ensure_async, run_sync
from PIL import Image

from authoring import guard
from authoring.source import EDITIONS, EXPRESSION, ROOT, Cell, Code, Fault, Prose, read

NOTEBOOKS = ROOT / "notebooks"
CELL_SECONDS = 120
KERNEL_STARTS = 3
PICTURE_TOLERANCE = 6  # as for the image baselines of the figure tests
LANGUAGE_LINE = re.compile(r'^lang = "zh"', re.MULTILINE)
IMAGES = ("image/png", "image/jpeg")
WIDGET = "application/vnd.jupyter.widget-view+json"
_NUMBER = re.compile(r"[-−]?\d+(?:[.,]\d+)*%?")
_NEGATIVE_ZERO = re.compile(r"(?<![\w.])[-−]0(?:\.0*)?(?:e[+-]?\d+)?(?![\w.])")
_SCALAR_REPR = re.compile(r"np\.(?:bool|u?int|float|longdouble|complex|str|bytes)\w*\(")

# No versions in here: 3.11 and 3.13 must write the same bytes.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}


def edition_path(name: str, lang: str, notebooks: Path = NOTEBOOKS) -> Path:
    """Where one edition of a source lies."""
    return notebooks / lang / f"{name}.ipynb"


def build(source: Path, lang: str) -> str:
    """The text of the notebook that this source builds. A Fault for the first thing wrong."""
    cells = read(source)
    notebook = nbformat.v4.new_notebook(metadata=METADATA)
    lines = []
    for cell, ident in zip(cells, _identities(cells), strict=True):
        if isinstance(cell, Code):
            new = nbformat.v4.new_code_cell(_in_language(source, cell, cells, lang), id=ident)
            if cell.tags:
                new.metadata["tags"] = list(cell.tags)
            lines.append(cell.line)
        else:
            new = nbformat.v4.new_markdown_cell(cell.text(lang), id=ident)
            lines.append(cell.at(lang))
        notebook.cells.append(new)
    _execute(source, notebook, cells, lines, lang)
    _tidy(source, notebook, lines)
    text: str = nbformat.writes(notebook, version=4)
    return text + "\n"


def _identities(cells: list[Cell]) -> Iterator[str]:
    """A stable name for each cell, the same in both editions."""
    seen: dict[str, int] = {}
    for cell in cells:
        text = cell.text if isinstance(cell, Code) else cell.zh
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        seen[digest] = seen.get(digest, 0) + 1
        yield f"{digest}-{seen[digest]}"


def _in_language(source: Path, cell: Code, cells: list[Cell], lang: str) -> str:
    """The code with the line `lang = "zh"` turned to the edition; one cell of a source has it."""
    holders = [c for c in cells if isinstance(c, Code) and LANGUAGE_LINE.search(c.text)]
    if len(holders) != 1:
        raise Fault(source.name, 1, 'one code cell must hold the line lang = "zh"')
    return LANGUAGE_LINE.sub(f'lang = "{lang}"', cell.text)


def _execute(source: Path, notebook: Any, cells: list[Cell], lines: list[int], lang: str) -> None:
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        shutdown_kernel="immediate",  # nothing to save; a graceful end can take seconds
        extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        resources={"metadata": {"path": str(edition_path(source.stem, lang).parent)}},
    )
    with _kernel(client):
        count = 0
        for n, (new, cell, line) in enumerate(zip(notebook.cells, cells, lines, strict=True)):
            if isinstance(cell, Code):
                count += 1
                try:
                    client.execute_cell(new, n, execution_count=count)
                except CellExecutionError as error:
                    raise Fault(
                        source.name, line, f"the cell ends in {error.ename}: {error.evalue}"
                    ) from None
                except (CellTimeoutError, DeadKernelError, RuntimeError) as error:
                    raise Fault(source.name, line, f"the cell did not finish: {error}") from None
            else:
                values = {
                    each: _evaluate(client, source, cell.at(each), cell.text(each))
                    for each in EDITIONS
                }
                _same_numbers(source, cell, values)
                new.source = _filled(new.source, values[lang])


@contextmanager
def _kernel(client: NotebookClient) -> Iterator[None]:
    """The client's kernel, started.

    Kernels that start at the same moment can be given the same port, and one of them dies; then
    the start is tried again.
    """
    for attempt in range(KERNEL_STARTS):
        running = client.setup_kernel()
        try:
            running.__enter__()
            break
        except RuntimeError:
            client.km = None
            if attempt == KERNEL_STARTS - 1:
                raise
    try:
        yield
    finally:
        running.__exit__(None, None, None)


def _filled(text: str, values: list[str]) -> str:
    """The paragraph with each expression replaced by its value."""
    rest = iter(values)
    return EXPRESSION.sub(lambda _: next(rest), text)


def _evaluate(client: NotebookClient, source: Path, line: int, text: str) -> list[str]:
    """The text of every expression in a paragraph, as the kernel formats it."""
    expressions = [e.strip() for e in EXPRESSION.findall(text)]
    if not expressions:
        return []
    asked = {}
    for n, expression in enumerate(expressions):
        code = f'f"""{{{expression}}}"""'
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                ast.parse(code, mode="eval")
        except SyntaxError:
            raise Fault(source.name, line, f"{{{{ {expression} }}}} is not Python") from None
        asked[str(n)] = code
    try:
        replies, complaint = run_sync(_ask)(client, asked)
    except queue.Empty:
        what = f"the kernel gave no answer to {{{{ {' }}, {{ '.join(expressions)} }}}}"
        raise Fault(source.name, line, what) from None
    if complaint:
        raise Fault(source.name, line, f"an expression writes to stderr: {complaint}")
    results = []
    for n, expression in enumerate(expressions):
        reply = replies[str(n)]
        if reply["status"] != "ok":
            what = f"{{{{ {expression} }}}} raises {reply['ename']}: {reply['evalue']}"
            raise Fault(source.name, line, what)
        value: str = ast.literal_eval(reply["data"]["text/plain"])
        nothing = value.strip().lower() in ("", "nan", "inf", "-inf", "none")
        if nothing or _NEGATIVE_ZERO.search(value) or _SCALAR_REPR.search(value):
            raise Fault(source.name, line, f"{{{{ {expression} }}}} reads {value}")
        results.append(value)
    return results


async def _ask(client: NotebookClient, expressions: dict[str, str]) -> tuple[dict[str, Any], str]:
    """The kernel's replies to the expressions, and what they wrote to stderr.

    queue.Empty when the kernel is dead or silent for CELL_SECONDS.
    """
    kc: Any = client.kc
    km: Any = client.km
    sent = kc.execute("", silent=True, store_history=False, user_expressions=expressions)
    found: dict[str, Any] | None = None
    waited = 0
    while found is None:
        try:
            reply = await kc.get_shell_msg(timeout=1)
        except queue.Empty:
            waited += 1
            if waited >= CELL_SECONDS or not await ensure_async(km.is_alive()):
                raise
            continue
        if reply["parent_header"].get("msg_id") == sent:
            found = reply["content"]["user_expressions"]
    complaint = ""
    while True:  # what the expressions wrote, up to the kernel's word that it is idle again
        message = await kc.get_iopub_msg(timeout=CELL_SECONDS)
        if message["parent_header"].get("msg_id") != sent:
            continue
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stderr":
            complaint += content["text"]
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            return found, complaint


def _same_numbers(source: Path, cell: Prose, values: dict[str, list[str]]) -> None:
    """Both languages name the same computed numbers, in whatever order."""
    zh, en = (set(_NUMBER.findall(" ".join(values[each]))) for each in EDITIONS)
    if zh != en:
        only = ", ".join(sorted(zh ^ en))
        raise Fault(source.name, cell.line_en, f"only one of the two paragraphs says {only}")


def _tidy(source: Path, notebook: Any, lines: list[int]) -> None:
    """Refuse what a reader should not see; drop what differs from run to run."""
    for cell, line in zip(notebook.cells, lines, strict=True):
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if output.get("name") == "stderr":
                first = (output.text.strip() or repr(output.text)).splitlines()[0]
                raise Fault(source.name, line, f"the cell writes to stderr: {first}")
            if output.output_type == "error":
                raise Fault(source.name, line, f"the cell ends in {output.ename}: {output.evalue}")
            # A widget's model is gone when the notebook is opened again; its static side stays.
            output.get("data", {}).pop(WIDGET, None)
            for text in _texts(output):
                if found := _NEGATIVE_ZERO.search(text) or _SCALAR_REPR.search(text):
                    raise Fault(source.name, line, f"the cell prints {found.group()}")
    notebook.metadata.pop("widgets", None)


def _texts(output: Any) -> Iterator[str]:
    yield output.get("text", "")
    for kind, value in output.get("data", {}).items():
        if kind.startswith("text/"):
            yield value


def without_images(text: str) -> Any:
    """A notebook without what may differ between systems or runs.

    The bytes of its images are taken out, and of marked cells, which time something, the outputs.
    """
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if _is_timed(cell):
            cell.outputs = []
        for output in cell.get("outputs", []):
            for kind in IMAGES:
                if kind in output.get("data", {}):
                    output["data"][kind] = ""
    return notebook


def _is_timed(cell: Any) -> bool:
    """Whether a cell carries a mark; `guard` sees to it that only cells which time something do."""
    return cell.cell_type == "code" and bool(guard.marks(cell))


def images(notebook: Any) -> list[list[str]]:
    """The base64 texts of the images of each cell that is compared."""
    return [
        [
            o["data"][kind]
            for o in ([] if _is_timed(cell) else cell.get("outputs", []))
            for kind in IMAGES
            if kind in o.get("data", {})
        ]
        for cell in notebook.cells
    ]


def same_picture(stored: str, fresh: str) -> bool:
    """Whether two stored images show the same, rasterised on whatever system.

    The same size, and a root mean square difference below PICTURE_TOLERANCE of 255.
    """
    if stored == fresh:
        return True
    try:
        a, b = (
            np.asarray(Image.open(BytesIO(base64.b64decode(text))).convert("RGB"), dtype=float)
            for text in (stored, fresh)
        )
    except (OSError, ValueError):
        return False
    return a.shape == b.shape and bool(np.sqrt(np.mean((a - b) ** 2)) < PICTURE_TOLERANCE)


def stale(source: Path, lang: str, notebooks: Path = NOTEBOOKS) -> Fault | None:
    """What is wrong with an edition on disk, or None when it is what its source builds."""
    try:
        return difference(build(source, lang), source, lang, notebooks)
    except Fault as fault:
        return fault


def difference(built: str, source: Path, lang: str, notebooks: Path = NOTEBOOKS) -> Fault | None:
    """Where the edition on disk is not the text that was built, image bytes aside."""
    path = edition_path(source.stem, lang, notebooks)
    shown = f"{lang}/{path.name}"
    if not path.exists():
        return Fault(source.name, 1, f"{shown} has not been built (make notebooks)")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return Fault(source.name, 1, f"{shown} is not a notebook (make notebooks)")
    wanted = without_images(built)
    lines = [c.line if isinstance(c, Code) else c.at(lang) for c in read(source)]
    try:
        there = without_images(text)
        pictures = [images(nbformat.reads(t, as_version=4)) for t in (text, built)]
    except Exception:  # whatever nbformat makes of a file that is no notebook
        return Fault(source.name, 1, f"{shown} is not a notebook (make notebooks)")
    if there == wanted:
        for n, (stored, fresh) in enumerate(zip(*pictures, strict=True)):
            if not all(same_picture(a, b) for a, b in zip(stored, fresh, strict=True)):
                what = f"the picture of cell {n + 1} of {shown} is not what this draws"
                return Fault(source.name, lines[n], what)
        return None
    for n, line in enumerate(lines):
        if n >= len(there.cells) or there.cells[n] != wanted.cells[n]:
            return Fault(source.name, line, f"cell {n + 1} of {shown} is not what this builds")
    return Fault(source.name, lines[-1], f"{shown} has cells or metadata that this does not build")


def write(source: Path, lang: str, notebooks: Path = NOTEBOOKS) -> Fault | None:
    """Build one edition and write it; the Fault when that failed."""
    try:
        text = build(source, lang)
    except Fault as fault:
        return fault
    path = edition_path(source.stem, lang, notebooks)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        text = _with_old_timings(text, path)
    path.write_text(text, encoding="utf-8", newline="\n")
    return None


def _with_old_timings(built: str, path: Path) -> str:
    """`built` with the outputs of marked cells as they are on disk, where the cell is unchanged.

    A measured time is another one in every run; so that two builds still give the same bytes, the
    first measurement stays until its cell changes.
    """
    new = nbformat.reads(built, as_version=4)
    try:
        old = {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
    except Exception:  # whatever nbformat makes of a file that is no notebook
        return built
    for cell in new.cells:
        if _is_timed(cell) and cell.id in old:
            cell.outputs = old[cell.id].outputs
    text: str = nbformat.writes(new, version=4)
    return text + "\n"


def for_each(work: Any, sources: list[Path]) -> list[Fault]:
    """`work(source, lang)` for every source and edition, in parallel; the faults, in order."""
    jobs = [(source, lang) for source in sources for lang in EDITIONS]
    with ProcessPoolExecutor() as pool:
        done = list(pool.map(work, *zip(*jobs, strict=True))) if jobs else []
    found = {str(fault): fault for fault in done if fault is not None}
    return list(found.values())

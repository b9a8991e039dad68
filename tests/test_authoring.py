"""Each fault planted in a source or an edition stops the build, with one line that says where."""

import base64
import re
from io import BytesIO
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

from authoring import build, guard
from authoring.source import Fault, accept, fingerprint, read
from byhand import figures

HEAD = '# %%\nlang = "zh"\n\n\n'


def pair(zh: str, en: str, of: str | None = None) -> str:
    """Two paragraphs that belong together."""
    stamp = fingerprint(zh) if of is None else of
    marked = f' of="{stamp}"' if stamp else ""
    return f'# %% [markdown] lang="zh"\n# {zh}\n\n# %% [markdown] lang="en"{marked}\n# {en}\n\n'


@pytest.fixture
def write(tmp_path: Path) -> "Writer":
    return Writer(tmp_path / "99_test.py")


class Writer:
    """write(text) puts text into the one source of a test, whatever was there before."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *parts: str) -> Path:
        self.path.write_text("".join(parts), encoding="utf-8")
        return self.path


# ---- what is seen without running anything --------------------------------------------------------

STATIC = {
    "zh without en": (
        '# %% [markdown] lang="zh"\n# 一\n\n# %%\nx = 1\n',
        r"99_test\.py:5: a zh paragraph without its en twin",
    ),
    "zh at the end": (
        '# %% [markdown] lang="zh"\n# 一\n',
        r"99_test\.py:5: a zh paragraph without its en twin",
    ),
    "zh after zh": (
        '# %% [markdown] lang="zh"\n# 一\n\n' + pair("二", "two"),
        r"99_test\.py:5: a zh paragraph without its en twin",
    ),
    "en without zh": (
        '# %% [markdown] lang="en"\n# one\n',
        r"99_test\.py:5: an en paragraph without its zh twin",
    ),
    "no language": ("# %% [markdown]\n# one\n", r'99_test\.py:5: a paragraph needs lang="zh"'),
    "zh changed after en": (
        pair("改过的话", "the old words", of=fingerprint("原来的话")),
        r"99_test\.py:5: this zh paragraph was changed after its en twin on line 8",
    ),
    "never compared": (pair("一", "one", of=""), r"99_test\.py:5: .* has not been compared"),
    "decimal in zh": (
        pair("和是 3.8555。", "The sum."),
        r"99_test\.py:5: a typed number in prose: … 和是 3\.8555",
    ),
    "decimal in en": (
        pair("和。", "The sum is 3.8555."),
        r"99_test\.py:8: a typed number in prose: … .* 3\.8",
    ),
    "decimal in a formula": (pair("$x = 0.5$", "$x$"), r"99_test\.py:5: a typed number in prose"),
    "decimal without zero": (pair("约 .5", "half"), r"99_test\.py:5: a typed number in prose"),
    "full-width decimal": (pair("约 0．5", "half"), r"99_test\.py:5: a typed number in prose"),
    "percentage": (pair("占 26%", "a quarter"), r"99_test\.py:5: a typed number in prose"),
    "percentage in a formula": (pair("占", r"$26\%$"), r"99_test\.py:8: a typed number in prose"),
    "decimal in a comment": ("# %%\nx = 1  # gives 0.26\n", r"99_test\.py:6: .* in a comment"),
    "decimal in a string": ('# %%\nprint("0.26")\n', r"99_test\.py:6: a typed number in a string"),
    "decimal in an f-string": (
        '# %%\nx = 1\nprint(f"{x:.2f} is 0.26")\n',
        r"99_test\.py:7: a typed number in a string",
    ),
    "an expression that is a number": (
        pair("{{ 0.26 }}", "{{ 0.26 }}"),
        r"99_test\.py:5: \{\{ 0\.26 \}\} computes nothing",
    ),
    "full stops of other scripts": (
        pair("约 0。26", "x"),
        r"99_test\.py:5: a typed number in prose",
    ),
    "Chinese figures": (pair("零点二六", "x"), r"99_test\.py:5: a typed number in prose"),
    "a percentage in Chinese": (pair("百分之二十", "x"), r"99_test\.py:5: a typed number in prose"),
    "a percentage in words": (pair("x", "26 per cent"), r"99_test\.py:8: a typed number in prose"),
    "a fraction": (pair(r"$\frac{26}{100}$", "x"), r"99_test\.py:5: a typed number in prose"),
    "a vulgar fraction": (pair("½", "x"), r"99_test\.py:5: a typed number in prose"),
    "an entity": (pair("0&#46;26", "x"), r"99_test\.py:5: a typed number in prose"),
    "markup inside": (pair("0<b>.</b>26", "x"), r"99_test\.py:5: a typed number in prose"),
    "stars inside": (pair("0.**26**", "x"), r"99_test\.py:5: a typed number in prose"),
    "braces inside": (pair("$0{.}26$", "x"), r"99_test\.py:5: a typed number in prose"),
    "no link": (pair("](0.26)", "x"), r"99_test\.py:5: a typed number in prose"),
    "more than what is quoted": (pair("Qwen2.57", "x"), r"99_test\.py:5: a typed number in prose"),
    "a number in parentheses": (pair("{{ (0.26) }}", "x"), r"99_test\.py:5: .* computes nothing"),
    "a quotient of literals": (pair("{{ 26 / 100 }}", "x"), r"99_test\.py:5: .* computes nothing"),
    "a string": (pair("{{ '0.26' }}", "x"), r"99_test\.py:5: .* computes nothing"),
    "an open expression": (pair("{{ x", "x"), r"99_test\.py:5: a \{\{ without its"),
    "a printed literal": ("# %%\nprint(0.26)\n", r"99_test\.py:6: a typed number is printed"),
    "a literal in an f-string": (
        '# %%\nprint(f"{0.26}")\n',
        r"99_test\.py:6: a typed number in an f-string",
    ),
    "exit": ("# %%\nexit()\n", r"99_test\.py:6: exit\(\) ends the kernel"),
    "three braces": (
        pair(r"\text{{{ x }}}", "x"),
        r"99_test\.py:5: put a space between",
    ),
    "code that is no Python": ("# %%\nx = (\n", r"99_test\.py:6: "),
}


@pytest.mark.parametrize(("text", "says"), STATIC.values(), ids=STATIC.keys())
def test_a_fault_in_a_source_is_one_line_that_says_where(
    text: str, says: str, write: Writer
) -> None:
    path = write(HEAD, text) if not text.startswith("# no head") else write(text)
    with pytest.raises(Fault) as caught:
        read(path)
    assert re.match(says, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_comment_is_no_magic(write: Writer) -> None:
    (_, cell) = read(write(HEAD, "# %%\n# ls\n# why?\n# %s is printed\nx = 1\n"))
    assert cell.text == "# ls\n# why?\n# %s is printed\nx = 1"


def test_a_source_that_is_no_text_or_not_there_is_named(write: Writer) -> None:
    write.path.write_bytes("数".encode("utf-16"))
    with pytest.raises(Fault, match="99_test.py:1: this is not UTF-8"):
        read(write.path)
    with pytest.raises(Fault, match="there is no such source; there are: 00_map"):
        accept(write.path.with_name("98_none.py"), [])


def test_text_before_the_first_cell_is_refused(write: Writer) -> None:
    with pytest.raises(Fault, match="99_test.py:1: text before the first cell"):
        read(write("x = 1\n\n", HEAD))


@pytest.mark.parametrize(
    "prose",
    [
        "Qwen2.5-7B",  # a name in quoted.toml
        "和是 {{ total:.4f }}，占 {{ 1 / total:.1%}}。",
        "[论文](https://arxiv.org/abs/1706.03762)",
        "4 × 4、第 2 步、3584 = 28 × 128、1e6",
    ],
)
def test_what_prose_may_say(prose: str, write: Writer) -> None:
    (_, cell) = read(write(HEAD, pair(prose, prose)))
    assert cell.zh == cell.en == prose  # type: ignore[union-attr]


def test_accepting_a_translation_stamps_that_pair_only(write: Writer) -> None:
    path = write(
        HEAD,
        pair("一", "one", of="00000000"),
        pair("二", "two", of="00000000"),
        pair("三", "x", ""),
    )
    stamped, waiting = accept(path, [5])
    assert stamped == [8, 20]  # the one named, and the one that had none yet
    assert waiting == [14]
    assert f'of="{fingerprint("一")}"' in path.read_text(encoding="utf-8")
    with pytest.raises(Fault, match="99_test.py:11: this zh paragraph was changed"):
        read(path)
    assert accept(path, [], everything=True) == ([14], [])
    assert len(read(path)) == 4
    with pytest.raises(Fault, match="99_test.py:6: no paragraph begins"):
        accept(path, [6])


def test_spaces_do_not_count_as_a_change() -> None:
    assert fingerprint("一  二\n三") == fingerprint("一 二 三") != fingerprint("一二三")


# ---- what is seen when it runs --------------------------------------------------------------------

RUNNING = {
    "a cell that raises": (
        "# %%\nassert 1 == 2, 'not equal'\n",
        r"99_test\.py:5: the cell ends in AssertionError: not equal",
    ),
    "a warning": (
        "# %%\nimport warnings\nwarnings.warn('old')\n",
        r"99_test\.py:5: the cell writes to stderr: .*old",
    ),
    "an expression that raises": (
        pair("{{ missing }}", "{{ missing }}"),
        r"99_test\.py:5: \{\{ missing \}\} raises NameError",
    ),
    "an expression in en only that raises": (
        pair("话", "{{ missing }}"),
        r"99_test\.py:8: \{\{ missing \}\} raises NameError",
    ),
    "an expression that is no Python": (
        pair("{{ 1 + }}", "x"),
        r"99_test\.py:5: \{\{ 1 \+ \}\} is not Python",
    ),
    "minus zero in prose": (
        pair("{{ -1e-9:.3f }}".replace("-1e-9", "lang and -1e-9"), "x"),
        r"99_test\.py:5: .* reads -0\.000",
    ),
    "minus zero in an output": (
        "# %%\nx = -1e-9\nprint(f'{x:.2f}')\n",
        r"99_test\.py:5: the cell prints -0\.00",
    ),
    "a bare NumPy scalar": (
        "# %%\nimport numpy as np\nnp.float64(1)\n",
        r"99_test\.py:5: the cell prints np\.float64\(",
    ),
    "nothing to say": (pair("{{ lang and None }}", "x"), r"99_test\.py:5: .* reads None"),
    "nan": (pair("{{ float('nan') }}", "x"), r"99_test\.py:5: .* reads nan"),
    "minus zero in an array": (
        "# %%\nimport numpy as np\nprint(np.array([-0.0, 1]))\n",
        r"99_test\.py:5: the cell prints -0\.",
    ),
    "an expression that warns": (
        pair("{{ __import__('warnings').warn('old') or 7 }}", "x"),
        r"99_test\.py:5: an expression writes to stderr: .*old",
    ),
    "the languages differ in a sign": (
        pair("{{ int(2) }}", "{{ int(-2) }}"),
        r"99_test\.py:8: only one of the two paragraphs says -2, 2",
    ),
    "the languages name different numbers": (
        pair("{{ 1 + 1 }}", "{{ 1 + 2 }}"),
        r"99_test\.py:8: only one of the two paragraphs says 2, 3",
    ),
}


@pytest.mark.parametrize(("text", "says"), RUNNING.values(), ids=RUNNING.keys())
def test_a_fault_at_run_time_is_one_line_that_says_where(
    text: str, says: str, write: Writer
) -> None:
    with pytest.raises(Fault) as caught:
        build.build(write(HEAD, text), "zh")
    assert re.match(says, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_source_says_once_which_language_it_is(write: Writer) -> None:
    with pytest.raises(Fault, match="one code cell must hold the line"):
        build.build(write("# %%\nx = 1\n"), "zh")


GOOD = (
    HEAD
    + pair("数是 {{ int(3) / 8:.3f }}。", "The number is {{ int(3) / 8:.3f }}.")
    + '# %% tags=["hide-input"]\nprint(lang)\n\n# %%\n'
    + "from io import BytesIO\nfrom IPython.display import Image\nfrom PIL import Image as Draw\n"
    + "file = BytesIO()\nDraw.new('RGB', (9, 7), 'red').save(file, 'png')\n"
    + "Image(file.getvalue(), alt='a picture')\n"
)  # fmt: skip


@pytest.fixture(scope="module")
def editions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A good source and the folder its editions were written to."""
    folder = tmp_path_factory.mktemp("editions")
    source = Writer(folder / "99_test.py")(GOOD)
    for lang in ("zh", "en"):
        assert build.write(source, lang, folder) is None
    return source, folder


def test_one_source_gives_two_editions(editions: tuple[Path, Path]) -> None:
    _, folder = editions
    zh, en = (nbformat.read(folder / lang / "99_test.ipynb", as_version=4) for lang in ("zh", "en"))
    assert zh.cells[1].source == "数是 0.375。"
    assert en.cells[1].source == "The number is 0.375."
    assert [c.id for c in zh.cells] == [c.id for c in en.cells]
    assert zh.cells[0].source == 'lang = "zh"' and en.cells[0].source == 'lang = "en"'
    assert zh.cells[2].outputs[0].text == "zh\n" and en.cells[2].outputs[0].text == "en\n"
    assert zh.cells[2].metadata == {"tags": ["hide-input"]}
    assert [c.execution_count for c in zh.cells if c.cell_type == "code"] == [1, 2, 3]
    assert "version" not in zh.metadata.language_info
    assert not list(guard.faults(folder / "zh" / "99_test.ipynb"))
    assert not list(guard.faults(folder / "en" / "99_test.ipynb"))


def test_a_second_build_gives_the_same_bytes(editions: tuple[Path, Path]) -> None:
    source, folder = editions
    first = (folder / "zh" / "99_test.ipynb").read_bytes()
    assert build.build(source, "zh").encode() == first
    assert build.stale(source, "en", folder) is None


def test_pictures_may_differ_a_little_and_no_more() -> None:
    def text(array: np.ndarray) -> str:
        file = BytesIO()
        Image.fromarray(array.astype(np.uint8)).save(file, "png")
        return base64.b64encode(file.getvalue()).decode()

    rng = np.random.default_rng(3)
    picture = rng.integers(20, 230, (31, 37, 3))
    assert build.same_picture(text(picture), text(picture + rng.integers(-3, 4, picture.shape)))
    assert not build.same_picture(text(picture), text(picture[::-1]))
    assert not build.same_picture(text(picture), text(picture[:-1]))
    assert not build.same_picture(text(picture), "AAAA")


def test_an_edition_edited_by_hand_is_stale(editions: tuple[Path, Path]) -> None:
    source, folder = editions
    path = folder / "zh" / "99_test.ipynb"
    original = path.read_text(encoding="utf-8")

    def says(text: str) -> str:
        path.write_text(text, encoding="utf-8")
        return str(build.difference(original, source, "zh", folder))

    assert says(original) == "None"
    assert says(original.replace("0.375", "0.376")).startswith("99_test.py:5: cell 2 of zh/")
    assert says(original.replace('"zh\\n"', '"en\\n"')).startswith("99_test.py:11: cell 3 of zh/")
    notebook = nbformat.reads(original, as_version=4)
    png = notebook.cells[3].outputs[0]["data"]["image/png"]
    other = figures.heatmap(np.eye(6), "weights", "zh", title="x")._repr_png_()[0]
    swapped = original.replace(png.strip(), base64.b64encode(other).decode())
    assert says(swapped).startswith("99_test.py:14: the picture of cell 4 of zh/")
    assert says(original.replace(png.strip(), "")).startswith(
        "99_test.py:14: the picture of cell 4"
    )
    notebook.cells.append(nbformat.v4.new_markdown_cell("more", id="more"))
    assert "has cells or metadata that this does not build" in says(nbformat.writes(notebook))
    for broken in ("{}", "[]", '{"cells": null}', "not json", '{"cells": [1], "nbformat": 4}'):
        assert "is not a notebook" in says(broken), broken
    path.write_bytes(b"\xff\xfe")
    assert "is not a notebook" in str(build.difference(original, source, "zh", folder))
    path.unlink()
    assert "has not been built" in str(build.difference(original, source, "zh", folder))
    path.write_text(original, encoding="utf-8")


def test_a_timed_cell_keeps_its_first_measurement(write: Writer) -> None:
    timed = "# %%\n# NBVAL_IGNORE_OUTPUT\nimport time\nprint(time.perf_counter_ns())\n"
    source = write(HEAD, timed)
    folder = source.parent / "notebooks"
    assert build.write(source, "zh", folder) is None
    path = build.edition_path(source.stem, "zh", folder)
    first = path.read_text(encoding="utf-8")
    assert build.write(source, "zh", folder) is None
    assert path.read_text(encoding="utf-8") == first  # two builds, the same bytes
    assert build.stale(source, "zh", folder) is None  # another time is no other notebook

    source.write_text(source.read_text(encoding="utf-8").replace("_ns()", "_ns() // 2"), "utf-8")
    assert build.stale(source, "zh", folder) is not None  # another cell is
    assert build.write(source, "zh", folder) is None
    old, new = (
        nbformat.reads(t, 4).cells[-1].outputs[0].text for t in (first, path.read_text("utf-8"))
    )
    assert old != new


# ---- the guard ------------------------------------------------------------------------------------


def _executed() -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.v4.new_notebook()
    for n in (1, 2, 3):
        cell = nbformat.v4.new_code_cell(f"print({n})", execution_count=n)
        cell.outputs = [nbformat.v4.new_output("stream", text=f"{n}\n")]
        notebook.cells.append(cell)
    return notebook


def _guarded(notebook: nbformat.NotebookNode, tmp_path: Path) -> list[str]:
    nbformat.write(notebook, tmp_path / "x.ipynb")
    return list(guard.faults(tmp_path / "x.ipynb"))


def test_an_executed_notebook_passes(tmp_path: Path) -> None:
    assert _guarded(_executed(), tmp_path) == []


def test_a_stripped_notebook_fails(tmp_path: Path) -> None:
    notebook = _executed()
    for cell in notebook.cells:
        cell.outputs, cell.execution_count = [], None
    found = _guarded(notebook, tmp_path)
    assert len(found) == 4
    assert found[-1].endswith("no output at all")


def test_a_notebook_run_in_part_fails(tmp_path: Path) -> None:
    notebook = _executed()
    notebook.cells[1].outputs, notebook.cells[1].execution_count = [], None
    assert len(_guarded(notebook, tmp_path)) == 1


def test_a_notebook_run_out_of_order_fails(tmp_path: Path) -> None:
    notebook = _executed()
    notebook.cells[0], notebook.cells[1] = notebook.cells[1], notebook.cells[0]
    assert len(_guarded(notebook, tmp_path)) == 2


@pytest.mark.parametrize("mark", guard.SKIP_MARKS)
def test_a_cell_excused_from_the_run_fails(mark: str, tmp_path: Path) -> None:
    notebook = _executed()
    notebook.cells[1].metadata["tags"] = [mark]
    assert _guarded(notebook, tmp_path) == [
        f"{tmp_path.name}/x.ipynb: code cell 2 is marked {mark}"
    ]
    notebook = _executed()
    notebook.cells[1].source = f"# {mark.upper().replace('-', '_')}\nprint(2)"
    assert len(_guarded(notebook, tmp_path)) == 1


def test_errors_and_stderr_fail(tmp_path: Path) -> None:
    notebook = _executed()
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stderr", text="oh")]
    notebook.cells[1].outputs = [
        nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])
    ]
    assert len(_guarded(notebook, tmp_path)) == 2

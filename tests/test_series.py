"""What every notebook of the series owes its reader."""

import ast
import re
from collections.abc import Iterator

import nbformat
import numpy as np
import pytest

from authoring import source
from authoring.build import NOTEBOOKS, edition_path
from authoring.source import EDITIONS, Code, Prose
from byhand import toy

NAMES = source.names()
EVERY = [(name, lang) for name in NAMES for lang in EDITIONS]


def cells(name: str, lang: str, kind: str) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(edition_path(name, lang), as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def outputs(cell: nbformat.NotebookNode) -> str:
    """All text that a cell printed or showed."""
    texts = []
    for output in cell.outputs:
        texts.append(output.get("text", ""))
        texts += [v for k, v in output.get("data", {}).items() if k.startswith("text/")]
    return "\n".join(texts)


def held(name: str) -> Iterator[tuple[str, int]]:
    """The published entries a notebook holds its numbers against, with the code cell (from 0).

    assert reproduces("id", …) holds one; in a loop, assert reproduces(name, …) holds every id that
    the cell spells out.
    """
    code = [c for c in source.read(source.path_of(name)) if isinstance(c, Code)]
    for n, cell in enumerate(code):
        tree = ast.parse(cell.text)
        ids = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in toy.published_ids()
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assert)
                and isinstance(node.test, ast.Call)
                and isinstance(node.test.func, ast.Name)
                and node.test.func.id == "reproduces"
            ):
                entry = node.test.args[0]
                for each in [entry.value] if isinstance(entry, ast.Constant) else ids:
                    yield str(each), n


# Which notebook holds which sections of the articles.
TAUGHT = {
    "01_scores_and_scaling": ("002 §2",),
    "02_softmax": ("002 §3",),
    "03_weighted_values": ("002 §4",),
    "04_heads_and_output_projection": ("002 §5", "000 §2"),
}
HELD_ELSEWHERE = {
    "scaled.xian": "01_scores_and_scaling",  # printed in §3.2, explained in §2.2
    "variance_ratio": "01_scores_and_scaling",  # said in §3.3, measured beside the histogram
}


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_published_number_of_a_section_is_printed_and_held(lang: str) -> None:
    for name, sections in TAUGHT.items():
        for entry in toy.published_ids():
            published = toy.published(entry)
            if not published.source.startswith(sections):
                continue
            where = HELD_ELSEWHERE.get(entry, name)
            assert entry in {held_entry for held_entry, _ in held(where)}, (entry, where)
            printed = "\n".join(outputs(cell) for cell in cells(where, lang, "code"))
            numbers = set(re.findall(r"-?\d+(?:\.\d+)?", printed))
            for value in np.atleast_1d(published.values).ravel():
                assert f"{value:z.{published.decimals}f}" in numbers, (entry, value)


def test_a_cell_that_holds_a_number_shows_one() -> None:
    for name in NAMES:
        code = cells(name, "en", "code")
        for entry, n in held(name):
            assert re.search(r"\d", outputs(code[n])), (name, entry)


@pytest.mark.parametrize("name", NAMES)
def test_the_editions_differ_in_prose_only(name: str) -> None:
    zh, en = (cells(name, lang, "code") for lang in EDITIONS)
    for a, b in zip(zh, en, strict=True):
        assert a.source.replace('lang = "zh"', 'lang = "en"') == b.source


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_it_opens_with_where_we_are_and_ends_with_questions(name: str, lang: str) -> None:
    prose = [cell.source for cell in cells(name, lang, "markdown")]
    first, last = prose[0], prose[-1]
    wanted = {
        "zh": ("在哪里", "需要什么", "走完以后", "多长时间"),
        "en": ("Where we are", "What you need", "What you will be able to do", "Time"),
    }[lang]
    assert first.startswith(f"# {name[:2]} · ")
    assert all(word in first for word in wanted)
    answer = {"zh": "答案", "en": "Answer"}[lang]
    assert last.count(f"<details><summary>{answer}</summary>") == last.count("</details>") == 3
    assert re.search(r"\]\(\d\d_\w+\.ipynb\)", last)


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_it_asks_for_a_guess(name: str, lang: str) -> None:
    text = "\n".join(cell.source for cell in cells(name, lang, "markdown"))
    assert {"zh": "先猜", "en": "Guess first"}[lang] in text


@pytest.mark.parametrize(("name", "lang"), EVERY)
def test_links_lead_somewhere(name: str, lang: str) -> None:
    for cell in cells(name, lang, "markdown"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", cell.source):
            if not target.startswith("https://"):
                assert (NOTEBOOKS / lang / target).is_file(), target


@pytest.mark.parametrize("name", NAMES)
def test_the_house_style(name: str) -> None:
    """No exclamation marks, no filler, score and weight kept apart, one word for a key."""
    for cell in source.read(source.path_of(name)):
        if not isinstance(cell, Prose):
            continue
        prose = re.sub(r"`[^`]*`|\$[^$]*\$|\{\{.*?\}\}", "", cell.zh + cell.en)
        assert "!" not in prose and "！" not in prose, cell.line
        found = re.search(
            r"\b(simply|just|obviously|of course|basically|clearly)\b|显然|众所周知|注意力得分|键值对",
            prose, re.IGNORECASE,
        )  # fmt: skip
        assert not found, (cell.line, found and found.group())

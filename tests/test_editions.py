"""Every edition in the repository is what its source builds, run from top to bottom, nothing excused."""

from pathlib import Path

import pytest

from authoring import build, guard, source
from authoring.source import EDITIONS

NAMES = source.names()


@pytest.mark.parametrize("lang", EDITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_is_what_its_source_builds(name: str, lang: str) -> None:
    assert build.stale(source.path_of(name), lang) is None


@pytest.mark.parametrize("lang", EDITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_was_run_from_top_to_bottom(name: str, lang: str) -> None:
    assert list(guard.faults(build.edition_path(name, lang))) == []


@pytest.mark.parametrize("lang", EDITIONS)
def test_every_notebook_has_a_source(lang: str) -> None:
    there = {path.stem for path in Path(build.NOTEBOOKS / lang).glob("*.ipynb")}
    assert there == set(NAMES)

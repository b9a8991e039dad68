"""The check of the reader's environment: what it says when something is missing, and what to do."""

import pytest

from byhand import environment
from byhand.environment import NEEDED, installed, report
from byhand.words import EDITIONS

ALL_NEW: dict[str, str | None] = {
    "Python": "3.13.1",
    **{name: f"{least[0] + 1}.0.0" for name, least in NEEDED.items()},
}


@pytest.mark.parametrize("lang", EDITIONS)
def test_all_there(lang: str) -> None:
    lines = report(lang).splitlines()
    assert len(lines) == len(NEEDED) + 3
    assert all(line.startswith("✓") for line in lines[:-1])
    assert lines[-1] == {"zh": "都齐了。", "en": "Everything is there."}[lang]


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("lang", EDITIONS)
def test_a_missing_package_comes_with_its_remedy(name: str, lang: str) -> None:
    text = report(lang, {**ALL_NEW, name: None})
    (line,) = [line for line in text.splitlines() if line.startswith("✗")]
    assert f'pip install -U "{name}>=' in line
    assert "Kernel" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "old"), [("Python", "3.10.14"), ("numpy", "1.26.4"), ("ipywidgets", "7.8")]
)
def test_an_old_version_is_named(name: str, old: str) -> None:
    (line,) = [x for x in report("en", {**ALL_NEW, name: old}).splitlines() if x.startswith("✗")]
    assert f"{name} is {old}, too old" in line


@pytest.mark.parametrize("version", ["2.0", "2.0.0rc1", "2.4.6", "10.0.dev1", "2.0.post1"])
def test_versions_that_are_new_enough(version: str) -> None:
    assert "✓ numpy" in report("en", {**ALL_NEW, "numpy": version})


@pytest.mark.parametrize("lang", EDITIONS)
def test_a_missing_font_is_named(lang: str) -> None:
    text = report(lang, ALL_NEW, font=lambda: False)
    assert "✗" in text and "ByHandSansSC" in text
    assert environment.font_has_glyphs()


def test_what_is_installed_is_asked_of_the_packages() -> None:
    found = installed()
    assert set(found) == {"Python", *NEEDED}
    assert all(found.values())


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match='"zh" or "en"'):
        report("fr", {})

"""The project as a whole: its package lists agree, its wheel is complete, its README is true."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from authoring import pictures
from authoring.build import same_picture
from authoring.source import EDITIONS

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"matplotlib-base": "matplotlib"}  # conda-forge splits off the Qt backend


def declared() -> dict[str, Requirement]:
    lines = PYPROJECT["dependencies"] + PYPROJECT["optional-dependencies"]["dev"]
    return {(r := Requirement(line)).name: r for line in lines}


def declared_for(extra: str) -> dict[str, Requirement]:
    lines = PYPROJECT["optional-dependencies"][extra]
    return {(r := Requirement(line)).name: r for line in lines}


def pinned(file: str = "requirements.txt") -> dict[str, Requirement]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return {(r := Requirement(s)).name: r for s in lines if s and not s.startswith("#")}


def conda() -> dict[str, Requirement]:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    found = [Requirement(s) for s in re.findall(r"^  - ([\w-]+>=[\d.]+)$", text, re.MULTILINE)]
    return {CONDA_NAMES.get(r.name, r.name): r for r in found}


def test_the_three_lists_name_the_same_packages() -> None:
    assert set(declared()) == set(pinned()) == set(conda()) - {"python"}


def test_conda_asks_for_the_same_versions() -> None:
    for name, requirement in declared().items():
        assert conda()[name].specifier == requirement.specifier, name
    assert str(conda()["python"].specifier) == PYPROJECT["requires-python"]


@pytest.mark.parametrize("extra", ["oracle", "browser"])
def test_an_extra_is_the_same_in_both_lists(extra: str) -> None:
    assert set(declared_for(extra)) == set(pinned(f"requirements-{extra}.txt"))
    assert not set(declared_for(extra)) & set(declared())


def test_pins_are_exact_and_within_what_is_declared() -> None:
    allowed = declared() | declared_for("oracle") | declared_for("browser")
    extras = pinned("requirements-oracle.txt") | pinned("requirements-browser.txt")
    for name, pin in (pinned() | extras).items():
        (spec,) = pin.specifier
        assert spec.operator == "=="
        assert allowed[name].specifier.contains(Version(spec.version)), name


def test_the_wheel_carries_the_data_and_works_by_itself(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert not [n for n in names if n.startswith("authoring/")]
    here = {p.relative_to(ROOT / "data").as_posix() for p in (ROOT / "data").rglob("*.*")}
    assert {f"byhand/data/{n}" for n in here} <= set(names)
    code = (
        "from byhand import data, figures, toy;"
        "print(toy.reproduces('values.dim1', (toy.load().X @ toy.load().W_V)[:, 0]),"
        " figures.font_family(), data.folder())"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'installed'); {code}"],
        cwd=tmp_path, check=True, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.stdout.startswith("True ByHand Sans SC")
    assert Path(done.stdout.split()[-1]).parent == tmp_path / "installed" / "byhand"


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md", "data/README.md"])
def test_links_in_a_readme_lead_somewhere(readme: str) -> None:
    folder = (ROOT / readme).parent
    text = (ROOT / readme).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    assert readme == "data/README.md" or len(targets) > 8
    for target in targets:
        assert (folder / target).exists(), target


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_commands_of_a_readme_exist(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    known = subprocess.run(
        [sys.executable, "run.py", "help"],
        cwd=ROOT, check=True, capture_output=True, encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
    ).stdout  # fmt: skip
    commands = re.findall(r"(?:^|`)(?:make|python run\.py) ([\w-]+)", text, re.MULTILINE)
    wanted = {"lab", "test", "notebooks", "check", "accept", "format", "baseline"}
    assert wanted | {"oracle", "test-browser", "bench"} <= set(commands)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in set(commands):
        assert re.search(rf"^  {command} ", known, re.MULTILINE), command
        assert re.search(rf"^help.*\b{command}\b.*:$", makefile, re.MULTILINE), command


def test_an_unknown_command_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "run.py", "tset"],
        cwd=ROOT, check=False, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 1
    assert "knows no command 'tset'" in done.stderr


@pytest.mark.parametrize("lang", EDITIONS)
def test_the_picture_of_a_readme_is_what_the_data_draw(lang: str) -> None:
    stored = base64.b64encode(pictures.path_of(lang).read_bytes()).decode()
    fresh = base64.b64encode(pictures.weights(lang)._repr_png_()[0]).decode()
    assert same_picture(stored, fresh)


def test_texts_are_utf8_with_plain_line_ends() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout.splitlines()
    for name in listed:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yml", ".txt", ".json", ".ipynb"}:
            assert b"\r" not in path.read_bytes(), name
            path.read_text(encoding="utf-8")
            if path.suffix in {".json", ".ipynb"}:
                json.loads(path.read_text(encoding="utf-8"))

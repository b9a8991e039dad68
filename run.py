"""Set up, open, build and test the series: python run.py lab

commands
  setup      make .venv with everything in it (lab, test and the others do this themselves)
  lab        open JupyterLab on the first notebook; --edition zh or en
  test       lint, types, every test, every notebook cell of both editions
  notebooks  build notebooks/zh and notebooks/en from notebooks/source
  check      tell which notebooks are not what their source builds
  accept     after a translation is brought up to date: accept NAME LINE …
  format     put the code into its standard form
  baseline   draw the image baselines of the figure tests anew
  oracle     compare the real layer with Hugging Face's (installs torch); --write: store it anew
  test-browser  try every explorer in JupyterLab and Chromium (installs Playwright)
  bench      time the real layer against Hugging Face's; --rounds, --sizes, --no-file
  clean      remove .venv and what the tools left behind

Only the standard library is used here: this file runs before anything is installed.
uv is used where it is found, else venv and pip; both follow the mirror settings of this machine.
torch and transformers come by pip, and only for oracle; Playwright only for test-browser.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import locale
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "installed"
OLDEST = (3, 11)
FIRST = "00_map.ipynb"


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Run one command in the project's folder; stop with its exit code if it fails."""
    code = subprocess.call([str(c) for c in command], cwd=ROOT, env=env)
    if code:
        sys.exit(code)


def fingerprint() -> str:
    """Changes when the packages to install, this Python or the place of the checkout change."""
    import tomllib  # here, so that an older Python gets as far as being told that it is too old

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [pyproject["project"], pyproject["build-system"]]
    text = (
        f"{sys.version} {ROOT} {wanted} {(ROOT / 'requirements.txt').read_text(encoding='utf-8')}"
    )
    return hashlib.sha256(text.encode()).hexdigest()


def setup() -> None:
    """Make .venv, unless it is there and up to date."""
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == fingerprint():
        return
    print("Setting up .venv (once; a few minutes on a slow network) …", flush=True)
    wanted = ["-r", "requirements.txt", "-e", "."]
    if uv := shutil.which("uv"):
        run(uv, "venv", "--clear", "--python", sys.executable, VENV)
        run(uv, "pip", "install", "--quiet", "--python", PYTHON, *wanted)
    else:
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        except subprocess.CalledProcessError:
            sys.exit(
                "Python could not make a virtual environment. On Debian and Ubuntu:\n"
                "  sudo apt install python3-venv"
            )
        quiet = ["--quiet", "--disable-pip-version-check"]
        run(PYTHON, "-m", "pip", "install", *quiet, *wanted)
    # JupyterLab's question whether to fetch news needs a network and says nothing about attention.
    settings = VENV / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    no_news = {
        "@jupyterlab/apputils-extension:notification": {
            "fetchNews": "false",
            "checkForUpdates": False,
        }
    }
    (settings / "overrides.json").write_text(json.dumps(no_news), encoding="utf-8")
    STAMP.write_text(fingerprint(), encoding="utf-8")


def default_edition() -> str:
    """The edition of this machine's language: Chinese where the locale says so, else English."""
    name = os.environ.get("LC_ALL") or os.environ.get("LANG") or locale.getlocale()[0] or ""
    return "zh" if name.lower().startswith(("zh", "chinese")) else "en"


def lab(rest: list[str]) -> None:
    options = argparse.ArgumentParser(prog="run.py lab")
    options.add_argument(
        "--edition", choices=("zh", "en"), default=os.environ.get("EDITION") or default_edition()
    )
    chosen, others = options.parse_known_args(rest)
    if chosen.edition not in ("zh", "en"):
        sys.exit(f"EDITION is zh or en, not {chosen.edition}.")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        others.append("--allow-root")  # a container's only user; Jupyter still listens on localhost
    run(PYTHON, "-m", "jupyterlab", f"notebooks/{chosen.edition}/{FIRST}", *others)


def test(rest: list[str]) -> None:
    run(PYTHON, "-m", "ruff", "check", "--quiet")
    run(PYTHON, "-m", "ruff", "format", "--check", "--quiet")
    run(PYTHON, "-m", "mypy")
    run(PYTHON, "-m", "pytest", "-n", "auto", *rest)


def authoring(command: str, rest: list[str]) -> None:
    run(PYTHON, "-m", "authoring", command, *rest)


def tidy() -> None:
    run(PYTHON, "-m", "ruff", "check", "--fix", "--quiet")
    run(PYTHON, "-m", "ruff", "format", "--quiet")


def baseline() -> None:
    looks = "tests/test_figures.py::test_looks_as_before"
    quiet = "--override-ini=addopts="  # without --mpl, which would compare instead
    run(PYTHON, "-m", "pytest", looks, quiet, "--mpl-generate-path=tests/baseline")


def has(*modules: str) -> bool:
    """Whether all of them are installed in .venv."""
    code = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    return subprocess.call([PYTHON, "-c", code, *modules]) == 0


def add(requirements: str) -> None:
    """Install what only some commands need."""
    if not has("pip"):  # uv leaves it out
        run(PYTHON, "-m", "ensurepip")
    wanted = ["-r", requirements, "-c", "requirements.txt"]
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)


def test_browser(rest: list[str]) -> None:
    if not has("playwright"):
        print("Installing Playwright into .venv (once) …", flush=True)
        add("requirements-browser.txt")
    run(PYTHON, "-m", "pytest", "tests/browser", "-q", "-s", "-n0", *rest)


def oracle(rest: list[str]) -> None:
    options = argparse.ArgumentParser(prog="run.py oracle")
    options.add_argument("--write", action="store_true", help="store the reference anew first")
    chosen, others = options.parse_known_args(rest)
    if not has("torch", "transformers"):
        print("Installing torch and transformers into .venv (once; they are large) …", flush=True)
        add("requirements-oracle.txt")
    if chosen.write:
        run(PYTHON, "tools/oracle.py")
    run(PYTHON, "-m", "pytest", "tests/test_oracle.py", "tests/test_modules.py", "-q", *others)


def clean() -> None:
    for name in (".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "dist"):
        shutil.rmtree(ROOT / name, ignore_errors=True)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show “…” shows “?”
    if sys.version_info < OLDEST:
        sys.exit(
            f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed; this is {sys.version.split()[0]}. "
            "Another one: make lab PYTHON=python3.13"
        )
    command, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("help", [])
    commands = {
        "help": lambda: print(__doc__),
        "-h": lambda: print(__doc__),
        "--help": lambda: print(__doc__),
        "setup": lambda: None,
        "lab": lambda: lab(rest),
        "test": lambda: test(rest),
        "notebooks": lambda: authoring("build", rest),
        "check": lambda: authoring("check", rest),
        "accept": lambda: authoring("accept", rest),
        "format": tidy,
        "baseline": baseline,
        "oracle": lambda: oracle(rest),
        "test-browser": lambda: test_browser(rest),
        "bench": lambda: run(PYTHON, "tools/bench.py", *rest),
        "clean": clean,
    }
    if command not in commands:
        sys.exit(f"run.py knows no command {command!r}.\n\n{__doc__}")
    if command not in {"help", "-h", "--help", "clean"}:
        setup()
    commands[command]()


if __name__ == "__main__":
    main()

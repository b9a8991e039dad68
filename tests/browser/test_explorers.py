"""Every explorer in JupyterLab, in a real browser: by mouse, by keyboard, in both editions.

make test-browser installs Playwright and runs these; Chromium comes from the system.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from byhand.explorers import scaling

ROOT = Path(__file__).resolve().parents[2]
sync_api: Any = pytest.importorskip(
    "playwright.sync_api", reason="make test-browser installs Playwright and runs this file"
)
LANGS = ("zh", "en")
MOVES = 40
WANTED_MS, TOO_SLOW_MS = 100, 250  # the 95th percentile from a key to the new drawing
START = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


class Case(NamedTuple):
    """One explorer: where it is, and what it says in a state."""

    notebook: str
    says: Callable[..., tuple[str, ...]]  # of the values of its controls, and the language
    values: Callable[[int], dict[str, Any]]  # of the value of its first slider


CASES = {
    "scaling": Case(
        "01_scores_and_scaling",
        lambda lang, **values: scaling.view(**values, lang=lang).says,
        lambda first: {"d_k": first, "scaled": True},
    ),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab on a copy of the notebooks, for Lab saves what it shows."""
    root = tmp_path_factory.mktemp("lab")
    for lang in LANGS:
        (root / "notebooks" / lang).mkdir(parents=True)
        for case in CASES.values():
            name = f"notebooks/{lang}/{case.notebook}.ipynb"
            shutil.copy(ROOT / name, root / name)
    settings = root / "settings" / "@jupyterlab"
    for plugin, values in (
        ("notebook-extension/tracker", {"windowingMode": "none"}),  # cells out of view, too
        ("apputils-extension/notification", {"fetchNews": "false", "checkForUpdates": False}),
    ):
        file = settings / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--no-browser", f"--port={port}", "--IdentityProvider.token=", "--ServerApp.password=",
        f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True", "--allow-root",
        "--ServerApp.port_retries=0",
    ]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "JUPYTERLAB_SETTINGS_DIR": str(root / "settings")},
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    for _ in range(120):
        try:
            with urllib.request.urlopen(f"{address}/api", timeout=1) as answer:
                json.load(answer)
            break
        except OSError:
            time.sleep(0.5)
    yield address
    server.terminate()
    server.wait(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if program is None:
        pytest.fail("no Chromium found: install it, or name it in CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=START)
        yield launched
        launched.close()


class Opened(NamedTuple):
    page: Any
    errors: list[str]  # of the console
    outside: list[str]  # requests to other hosts


@pytest.fixture
def opened(lab: str, browser: Any, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """The notebook with every cell run, and its explorer in view."""
    name, lang, theme = request.param
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    errors: list[str] = []
    outside: list[str] = []
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on(
        "request",
        lambda r: None if r.url.startswith((lab, lab.replace("http", "ws"), "data:", "blob:"))
        else outside.append(r.url),
    )  # fmt: skip
    page.goto(f"{lab}/lab/tree/notebooks/{lang}/{CASES[name].notebook}.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function("window.jupyterapp !== undefined")
    name_of = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}  # Lab keeps the last one
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
        name_of[theme],
    )
    page.evaluate(RUN_ALL)
    shown = page.locator(".byhand-explorer svg[role=img]").first
    shown.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    shown.scroll_into_view_if_needed()
    yield Opened(page, errors, outside)
    page.close()


def label(page: Any) -> str:
    """What the explorer tells a screen reader."""
    told = page.locator(".byhand-explorer svg[role=img]").first.get_attribute("aria-label")
    assert isinstance(told, str)
    return told


# Runs every cell, once the kernel is ready for it.
RUN_ALL = """
async () => {
  const context = window.jupyterapp.shell.currentWidget.sessionContext;
  await context.ready;
  while (context.session?.kernel?.status !== 'idle') await new Promise((r) => setTimeout(r, 100));
  await window.jupyterapp.commands.execute('notebook:run-all-cells');
}
"""

# Presses a key on the focused slider and resolves with the milliseconds to the next painted drawing.
PRESS = """
([key, times]) => new Promise(async (done) => {
  const box = document.querySelector('.byhand-explorer');
  const handle = box.querySelector('.noUi-handle');
  handle.focus();
  const waits = [];
  for (let n = 0; n < times; n++) {
    const before = box.querySelector('svg[role=img]').getAttribute('aria-label');
    const begun = performance.now();
    handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    await new Promise((next) => {
      const look = () => {
        const svg = box.querySelector('svg[role=img]');
        if (svg && svg.getAttribute('aria-label') !== before) next();
        else if (performance.now() - begun > 5000) next();
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
    waits.push(performance.now() - begun);
  }
  done(waits);
})
"""


def every(themes: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param((name, lang, theme), id=f"{name}-{lang}-{theme}")
        for name in CASES
        for lang in LANGS
        for theme in themes
    ]


@pytest.mark.parametrize("opened", every(("light",)), indirect=True)
def test_it_moves_and_shows_the_library_s_numbers(
    opened: Opened, request: pytest.FixtureRequest
) -> None:
    name, lang, _ = request.node.callspec.params["opened"]
    case, page = CASES[name], opened.page
    box = page.locator(".byhand-explorer").first
    box.locator("input[type=checkbox]").first.check()  # by mouse
    page.wait_for_timeout(500)
    track = box.locator(".noUi-base").first.bounding_box()
    page.mouse.click(track["x"] + 0.7 * track["width"], track["y"] + track["height"] / 2)
    page.wait_for_timeout(800)
    first = int(box.locator(".widget-readout").first.inner_text().replace(",", ""))
    assert first > 256
    assert label(page).split("\n")[1:] == list(case.says(lang=lang, **case.values(first)))

    box.locator(".noUi-handle").first.focus()  # by keyboard
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(800)
    second = int(box.locator(".widget-readout").first.inner_text().replace(",", ""))
    assert second < first
    assert label(page).split("\n")[1:] == list(case.says(lang=lang, **case.values(second)))

    waits = page.evaluate(PRESS, ["ArrowLeft", MOVES])
    p50, p95 = np.percentile(waits, [50, 95])
    print(f"{name} {lang}: {MOVES} moves, p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    assert p95 <= TOO_SLOW_MS, f"p95 is {p95:.0f} ms; wanted are {WANTED_MS}"
    last = int(box.locator(".widget-readout").first.inner_text().replace(",", ""))
    assert second - last >= MOVES
    assert label(page).split("\n")[1:] == list(case.says(lang=lang, **case.values(last)))
    assert opened.errors == [] and opened.outside == []


@pytest.mark.parametrize("opened", every(("light", "dark")), indirect=True)
def test_it_can_be_read_on_light_and_dark(
    opened: Opened, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The ink stands out from the page; with SCREENSHOTS set to a folder, pictures are left there."""
    name, lang, theme = request.node.callspec.params["opened"]
    page = opened.page
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    picture = page.locator(".byhand-explorer").first.screenshot(
        path=folder / f"{name}-{lang}-{theme}.png"
    )
    assert base64.b64encode(picture)
    ink, paper = page.evaluate(
        """() => {
          const text = document.querySelector('.byhand-explorer svg text');
          const luminance = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map((n) => {
              const c = n / 255;
              return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          let at = text.closest('.byhand-explorer');
          while (at && /rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(at).backgroundColor))
            at = at.parentElement;
          return [luminance(getComputedStyle(text).fill),
                  luminance(getComputedStyle(at).backgroundColor)];
        }"""
    )
    contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
    assert contrast > 4.5, (ink, paper)  # WCAG 2.1, level AA
    assert (ink > paper) == (theme == "dark")

"""Is everything there that the notebooks need? If not, what to do about it."""

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from matplotlib.font_manager import get_font

from byhand.data import path
from byhand.figures import FONT_FILE
from byhand.toy import SENTENCE
from byhand.words import pick

# The oldest version of each that the tests know.
NEEDED: Final = {
    "numpy": (2, 0),
    "matplotlib": (3, 9),
    "ipywidgets": (8, 1),
    "anywidget": (0, 9),
    "jupyterlab": (4, 4),
    "jupyterlab_widgets": (3, 0),  # what draws the explorers in the browser
}
PYTHON: Final = (3, 11)


def installed() -> dict[str, str | None]:
    """The version of Python and of each package needed; None where one is missing."""
    found: dict[str, str | None] = {"Python": platform.python_version()}
    for name in NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def font_has_glyphs() -> bool:
    """Whether the bundled font is there and can draw the sentence."""
    file = path(FONT_FILE)
    return file.is_file() and all(get_font(file).get_char_index(ord(c)) for c in SENTENCE)


def report(
    lang: str,
    versions: Mapping[str, str | None] | None = None,
    font: Callable[[], bool] = font_has_glyphs,
) -> str:
    """One line for each thing needed: ✓, or ✗ with what to do. In the edition's language."""
    found = installed() if versions is None else versions
    lines = []
    for name, least in {"Python": PYTHON, **NEEDED}.items():
        wanted = ".".join(str(n) for n in least)
        have = found.get(name)
        if have is not None and _numbers(have) >= least:
            lines.append(f"✓ {name} ≥ {wanted}")
            continue
        state = (
            pick(lang, "没有装", "is missing")
            if have is None
            else pick(lang, f"是 {have}，太旧了", f"is {have}, too old")
        )
        lines.append(f"✗ {name} {state}{_remedy(name, wanted, lang)}")
    if font():
        lines.append("✓ " + pick(lang, "中文字体", "the Chinese font"))
    else:
        lines.append(
            "✗ "
            + pick(
                lang,
                f"缺少中文字体 data/{FONT_FILE}：请重新下载完整的项目",
                f"the Chinese font data/{FONT_FILE} is missing: get a complete copy of the project",
            )
        )
    ready = all(line.startswith("✓") for line in lines)
    lines.append(
        pick(lang, "都齐了。", "Everything is there.")
        if ready
        else pick(
            lang,
            "改好以后：菜单 Kernel → Restart Kernel，再运行这一格。",
            "After that: menu Kernel → Restart Kernel, then run this cell again.",
        )
    )
    return "\n".join(lines)


def _numbers(text: str) -> tuple[int, ...]:
    """The leading whole numbers of a version: "2.4.6rc1" -> (2, 4)."""
    parts = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        parts.append(int(part))
    return tuple(parts)


def _remedy(name: str, wanted: str, lang: str) -> str:
    if name == "Python":
        return pick(
            lang,
            f"：装 Python {wanted} 或更新的版本，再运行 make lab",
            f": install Python {wanted} or newer, then run make lab",
        )
    return pick(
        lang,
        f'：在终端里运行 python -m pip install -U "{name}>={wanted}"',
        f': run python -m pip install -U "{name}>={wanted}" in a terminal',
    )

"""00: whether explorers work here. A slider, and the square of the number it stands at."""

from functools import partial
from typing import Final

from byhand import svg
from byhand.explorer import Explorer, View, slider
from byhand.words import pick

LAST: Final = 6


def view(n: int, lang: str) -> View:
    """The squares of 1 to 6 as bars, with n² framed and said."""
    squares = [k * k for k in range(1, LAST + 1)]
    says = f"{n} × {n} = {n * n}"
    names = [f"{k} × {k}" for k in range(1, LAST + 1)]
    framed = pick(lang, f"框住的是 {says}", f"framed: {says}")
    return View(svg.bars(squares, names, framed, decimals=0, lit=[n - 1]), (says,))


def explorer(lang: str) -> Explorer:
    """Move a number, and its square is framed."""
    return Explorer(
        pick(lang, "互动图能用吗", "Do explorers work here?"),
        {"n": slider(lang, "拖一拖", "move me", 3, 1, LAST)},
        partial(view, lang=lang),
        lang,
    )

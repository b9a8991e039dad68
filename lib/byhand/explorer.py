"""An explorer: controls, and a drawing that follows them.

What it shows is a function of the values of its controls: `view(**values)` returns a View, arrays
drawn and numbers in words. So every state can be tested without a browser; the widgets only pass on
what was moved. Its plain text, which a notebook stores and GitHub shows, is the present state in words.
"""

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import anywidget
import ipywidgets
import traitlets

from byhand import svg
from byhand.checks import Array, refuse
from byhand.data import path
from byhand.figures import FONT_FILE, ORANGE
from byhand.svg import Drawing
from byhand.words import edition, pick
from byhand.worked import number

ALERT = (
    '<div role="alert" style="border-left:4px solid {edge};padding:6px 10px;margin:4px 0;'
    'color:var(--jp-ui-font-color1,#222)">{what}</div>'
)
PAINT_S = 0.03  # two frames of a page: time to paint a drawing before a formula is typeset
REST_S = 0.25  # moves that follow each other faster are a drag
WAITS = "byhand-waits"  # companion.js draws it pale: a formula of an earlier state


# What a button sets: fixed values, or a function of the present ones.
Press = Mapping[str, Any] | Callable[..., Mapping[str, Any]]
ECHOED: Final = 40  # characters of what was typed, shown again


class View(NamedTuple):
    """What an explorer shows in one state."""

    drawing: Drawing
    says: tuple[str, ...]  # the same in words, one thing a line
    formula: str = ""  # LaTeX, without its dollar signs; shown below the drawing


class Companion(anywidget.AnyWidget):
    """Invisible, in the page beside an explorer: what cannot be done from Python.

    It names the sliders for screen readers (ipywidgets does not), speaks the first line that changed,
    and brings the font of the figures to a browser that has no Chinese one. The page asks for the
    font, once, whatever number of explorers it shows.
    """

    _esm = Path(__file__).with_name("companion.js")

    def __init__(self) -> None:
        super().__init__()
        self.on_msg(self._answer)

    def _answer(self, _: Any, asked: Any, __: Any) -> None:
        if asked == "font":
            self.send("font", buffers=[path(FONT_FILE).read_bytes()])


class Explorer:
    """Controls and a drawing that follows them."""

    def __init__(
        self,
        title: str,
        controls: Mapping[str, ipywidgets.ValueWidget],
        view: Callable[..., View],
        lang: str,
        *,
        typeset: bool = False,
        buttons: Mapping[str, Press] | None = None,
        back: str = "",
    ) -> None:
        """`view` takes the value of each control by name. `buttons` set several controls at once.

        What a button sets may be a function: it takes the present value of each control by name.
        With `typeset` a formula is shown as LaTeX. The last button goes back to the start;
        `back` names it where "Start again" says too little.
        """
        edition(lang)
        self.title, self.lang, self._view = title, lang, view
        self.controls = dict(controls)
        self.picture = ipywidgets.HTML(layout={"overflow": "auto hidden"})  # on a narrow page
        self._formula = ipywidgets.HTMLMath(layout={"overflow": "auto hidden"}) if typeset else None
        self._latex = ""  # what the formula is to be; it may wait for its turn
        self._typesetting: asyncio.TimerHandle | None = None
        self._moved_at = 0.0
        self.problem = ""
        self._now: View | None = None
        self._quiet = False
        for control in self.controls.values():
            control.observe(self._moved, "value")
        self._start = self.values
        back = back or pick(lang, "回到开始", "Start again")
        row = [
            self._button(name, values)
            for name, values in {**(buttons or {}), back: self._start}.items()
        ]
        self.buttons = {button.description: button for button in row}
        parts = [*self.controls.values(), ipywidgets.HBox(row, layout=_ROW), self.picture]
        self.box = ipywidgets.VBox(
            [*parts, *([self._formula] if self._formula else []), Companion()]
        )
        self.box.add_class("byhand-explorer")
        self._redraw()

    # ---- states

    @property
    def values(self) -> dict[str, Any]:
        """The present value of each control."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def says(self) -> str:
        """The present state in words; the message where there is one."""
        if self.problem:
            return self.problem
        return "\n".join(self._now.says) if self._now else ""

    def set(self, **values: Any) -> "Explorer":
        """Move several controls at once, and draw once.

        ValueError for a control there is not, and for a value the control cannot take.
        """
        for name in values:
            if name not in self.controls:
                known = ", ".join(self.controls)
                refuse(
                    f"没有叫 {name!r} 的控件。有的是：{known}",
                    f"there is no control {name!r}; there are: {known}",
                )
        before = self.values
        self._quiet = True
        try:
            for name, value in values.items():
                self._put(name, value)
        except ValueError:  # all of them or none
            for name, value in before.items():
                self.controls[name].value = value
            raise
        finally:
            self._quiet = False
        self._redraw()
        return self

    def reset(self) -> "Explorer":
        """Back to where it started."""
        return self.set(**self._start)

    # ---- following the controls

    def _put(self, name: str, value: Any) -> None:
        control = self.controls[name]
        try:
            control.value = value
        except (traitlets.TraitError, TypeError):  # the second from words about an empty tuple
            taken = False
        else:  # a menu takes None for nothing, a slider stops at its ends without a word
            taken = value is not None and control.value == value
        if not taken:
            refuse(f"控件 {name} 不能取 {value!r}。", f"the control {name} cannot take {value!r}")

    def _button(self, name: str, press: Press) -> ipywidgets.Button:
        button = ipywidgets.Button(description=name, layout={"width": "max-content"})
        button.on_click(lambda _: self.set(**(press(**self.values) if callable(press) else press)))
        return button

    def _moved(self, _: Any) -> None:
        if not self._quiet:
            self._redraw(drawing_first=True)

    def _redraw(self, drawing_first: bool = False) -> None:
        """Draw the present state; whatever goes wrong is said in the explorer."""
        try:
            view = self._view(**self.values)
        except ValueError as error:  # what the reader asked for cannot be drawn
            self._say(_in_language(str(error), self.lang), ORANGE)
        except Exception as error:  # a callback has no other place to complain
            what = pick(self.lang, "这里出错了", "something went wrong here")
            self._say(f"{what}: {type(error).__name__}: {error}", ORANGE)
        else:
            self.problem, self._now = "", view
            self.picture.value = svg.written(view.drawing, "\n".join((self.title, *view.says)))
            self._latex = f"$$\n{view.formula}\n$$" if view.formula else ""
            self._show_formula(drawing_first)

    def _show_formula(self, later: bool) -> None:
        """Have the formula typeset. That takes a page some 30 ms, in which nothing else moves: `later`
        lets the drawing go first, and in a drag the formula is pale until the last move.
        Without an event loop there is no page to wait for.
        """
        if self._formula is None:
            return
        try:
            loop = asyncio.get_running_loop() if later else None
        except RuntimeError:
            loop = None
        if loop is None:
            self._typeset()
            return
        if self._typesetting:
            self._typesetting.cancel()
        dragged = time.monotonic() - self._moved_at < REST_S
        self._moved_at = time.monotonic()
        if dragged and self._formula.value != self._latex:
            self._formula.add_class(WAITS)
        self._typesetting = loop.call_later(REST_S if dragged else PAINT_S, self._typeset)

    def _typeset(self) -> None:
        if self._typesetting:
            self._typesetting.cancel()
        self._typesetting = None
        if self._formula is not None:
            self._formula.value = self._latex
            self._formula.remove_class(WAITS)

    def _say(self, what: str, edge: str) -> None:
        self.problem = what
        self._latex = ""  # that of the last state would stand beside the message
        self._typeset()
        self.picture.value = ALERT.format(edge=edge, what=svg.escaped(what))

    # ---- showing itself

    def __repr__(self) -> str:
        still = pick(
            self.lang,
            "（运行这一格，控件和图会出现在这里。）",
            "(Run this cell, and its controls and drawing appear here.)",
        )
        return f"{self.title}\n{self.says}\n{still}"

    def _repr_mimebundle_(self, **wanted: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self.box._repr_mimebundle_(**wanted)
        return {**bundle, "text/plain": repr(self)}


def _in_language(told: str, lang: str) -> str:
    """Of a message in both languages, a line each, English first, the one of the edition."""
    lines = told.split("\n")
    return lines[-1] if lang == "zh" and len(lines) > 1 else lines[0] if lines else told


def slider(lang: str, zh: str, en: str, value: int, low: int, high: int) -> ipywidgets.ValueWidget:
    """A slider over whole numbers, with its name before it and its value behind it.

    Fractions take `stops`: a slider of floats in the browser answers a value set from Python with the
    same but for a rounding error, and so undoes what was set after it.
    """
    return ipywidgets.IntSlider(
        value=value, min=low, max=high, description=pick(lang, zh, en),
        continuous_update=True, style=_STYLE, layout=_LAYOUT,
    )  # fmt: skip


def choice(
    lang: str, zh: str, en: str, options: Mapping[str, Any], value: Any
) -> ipywidgets.ValueWidget:
    """A menu: the words shown and the value each stands for."""
    return ipywidgets.Dropdown(
        options=list(options.items()), value=value, description=pick(lang, zh, en),
        style=_STYLE, layout=_LAYOUT,
    )  # fmt: skip


def stops(
    lang: str, zh: str, en: str, options: Mapping[str, Any], value: Any
) -> ipywidgets.ValueWidget:
    """A slider over a few values, such as tokens or fractions, with the words shown for each."""
    made = ipywidgets.SelectionSlider(
        options=list(options.items()), value=value, description=pick(lang, zh, en),
        continuous_update=True, style=_STYLE, layout=_LAYOUT,
    )  # fmt: skip
    made.add_class("byhand-stops")  # companion.js: the word behind it cannot be typed over
    return made


def fractions(low: float, high: float, parts: int, decimals: int) -> dict[str, float]:
    """Stops from low to high, so many `parts` to each unit, by what is shown for them."""
    first, last = round(low * parts), round(high * parts)
    return {number(n / parts, decimals): n / parts for n in range(first, last + 1)}


def tick(lang: str, zh: str, en: str, value: bool) -> ipywidgets.ValueWidget:
    """A box to tick."""
    return ipywidgets.Checkbox(value=value, description=pick(lang, zh, en), indent=False)


def field(lang: str, zh: str, en: str, value: str, hint: str = "") -> ipywidgets.ValueWidget:
    """A line to type in; `hint` stands in it while it is empty."""
    return ipywidgets.Text(
        value=value, placeholder=hint, description=pick(lang, zh, en),
        continuous_update=True, style=_STYLE, layout=_LAYOUT,
    )  # fmt: skip


def frozen(array: Array) -> Array:
    """The array, from now on read-only: for a cache to hand out."""
    array.flags.writeable = False
    return array


def cleaned(typed: str) -> str:
    """What was typed on one line, without characters that cannot be seen."""
    return " ".join("".join(c for c in typed if c.isprintable() or c.isspace()).split())


def echo(typed: str) -> str:
    """What was typed, in quotes, cut where it is long."""
    text = cleaned(typed)
    return f"“{text if len(text) <= ECHOED else text[:ECHOED] + '…'}”"


def typed_whole(name: str, typed: str, low: int, high: int) -> int:
    """The whole number a reader typed into a field.

    Spaces, commas, full-width digits and a k for 1024 are understood: 128k is 131072. ValueError in
    words for everything else, and outside low to high.
    """
    plain = re.sub(r"[\s,_]", "", unicodedata.normalize("NFKC", typed)).lower()
    if not plain:
        refuse(
            f"{name} 要写 {low} 到 {high} 之间的整数，现在还空着。",
            f"{name} must be a whole number from {low} to {high}; the field is empty.",
        )
    found = re.fullmatch(r"([0-9]{1,15})(k?)", plain)
    value = int(found[1]) * (1024 if found[2] else 1) if found else None
    if value is None or not low <= value <= high:
        refuse(
            f"{name} 要写 {low} 到 {high} 之间的整数，写的是{echo(typed)}。",
            f"{name} must be a whole number from {low} to {high}; you wrote {echo(typed)}.",
        )
    return value


_STYLE = {"description_width": "9em"}
_LAYOUT = {"width": "32em", "max_width": "100%"}  # room for a token and its gloss behind a slider
_ROW = {"flex_flow": "row wrap"}

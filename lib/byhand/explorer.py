"""An explorer: controls, and a drawing that follows them.

What it shows is a function of the values of its controls: `view(**values)` returns a View, arrays
drawn and numbers in words. So every state can be tested without a browser; the widgets only pass on
what was moved. Its plain text, which a notebook stores and GitHub shows, is the present state in words.
"""

import html
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ipywidgets

from byhand import svg
from byhand.checks import refuse
from byhand.figures import ORANGE
from byhand.svg import Drawing
from byhand.words import edition, pick

ALERT = (
    '<div role="alert" style="border-left:4px solid {edge};padding:6px 10px;margin:4px 0;'
    'color:var(--jp-ui-font-color1,#222)">{what}</div>'
)


class View(NamedTuple):
    """What an explorer shows in one state."""

    drawing: Drawing
    says: tuple[str, ...]  # the same in words, one thing a line
    formula: str = ""  # LaTeX, without its dollar signs; shown below the drawing


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
        buttons: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`view` takes the value of each control by name. `buttons` set several controls at once.

        With `typeset` a formula is shown as LaTeX.
        """
        edition(lang)
        self.title, self.lang, self._view = title, lang, view
        self.controls = dict(controls)
        self.picture = ipywidgets.HTML()
        self._formula = ipywidgets.HTMLMath() if typeset else None
        self.problem = ""
        self._now: View | None = None
        self._quiet = False
        for control in self.controls.values():
            control.observe(self._moved, "value")
        row = [self._button(name, values) for name, values in (buttons or {}).items()]
        parts = [*self.controls.values(), *row, self.picture]
        self.box = ipywidgets.VBox(parts + ([self._formula] if self._formula else []))
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
        """Move several controls at once, and draw once. ValueError for a control there is not."""
        for name in values:
            if name not in self.controls:
                known = ", ".join(self.controls)
                refuse(
                    f"没有叫 {name!r} 的控件。有的是：{known}",
                    f"there is no control {name!r}; there are: {known}",
                )
        self._quiet = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._quiet = False
        self._redraw()
        return self

    # ---- following the controls

    def _button(self, name: str, values: Mapping[str, Any]) -> ipywidgets.Button:
        button = ipywidgets.Button(description=name, layout={"width": "max-content"})
        button.on_click(lambda _: self.set(**values))
        return button

    def _moved(self, _: Any) -> None:
        if not self._quiet:
            self._redraw()

    def _redraw(self) -> None:
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
            if self._formula is not None:
                self._formula.value = f"$$\n{view.formula}\n$$" if view.formula else ""

    def _say(self, what: str, edge: str) -> None:
        self.problem = what
        self.picture.value = ALERT.format(edge=edge, what=html.escape(what))

    # ---- showing itself

    def __repr__(self) -> str:
        return f"{self.title}\n{self.says}"

    def _repr_mimebundle_(self, **wanted: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self.box._repr_mimebundle_(**wanted)
        return {**bundle, "text/plain": repr(self)}


def _in_language(told: str, lang: str) -> str:
    """Of a message in both languages, a line each, English first, the one of the edition."""
    lines = told.splitlines()
    return lines[-1] if lang == "zh" and len(lines) > 1 else lines[0] if lines else told


def slider(
    lang: str, zh: str, en: str, value: float, low: float, high: float, step: float = 1
) -> ipywidgets.ValueWidget:
    """A slider with its name before it and its value behind it."""
    whole = all(float(n).is_integer() for n in (value, low, high, step))
    made = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    return made(
        value=value, min=low, max=high, step=step, description=pick(lang, zh, en),
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


def tick(lang: str, zh: str, en: str, value: bool) -> ipywidgets.ValueWidget:
    """A box to tick."""
    return ipywidgets.Checkbox(value=value, description=pick(lang, zh, en), indent=False)


_STYLE = {"description_width": "9em"}
_LAYOUT = {"width": "28em"}

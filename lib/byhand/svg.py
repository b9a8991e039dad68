"""Small SVG drawings for the explorers: matrices, bars, tables and curves as strings.

The colours are those of the figures. Ink and axes take JupyterLab's own text colour, so that they can
be read on a light page and on a dark one; cells and bars bring their colour with them. Every text is
escaped, whoever wrote it.
"""

import html
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.ft2font import FT2Font
from numpy.typing import ArrayLike

from byhand import checks
from byhand.checks import refuse
from byhand.figures import BLUE, COLOURS, ORANGE, colour_scale, ink_on
from byhand.worked import number

INK: Final = "var(--jp-ui-font-color1, #222222)"
QUIET: Final = "var(--jp-ui-font-color2, #616161)"
PAPER: Final = "var(--jp-layout-color1, white)"
FONT: Final = "var(--jp-ui-font-family, sans-serif)"  # companion.js adds the font of the figures
SIZE: Final = 13
SMALLEST: Final = 0.8  # a page narrower than this much of a drawing scrolls it
CELL: Final = (58, 30)  # width and height of a cell of a matrix
LIT: Final = ORANGE  # the frame round what is looked at


_ink_on = cache(ink_on)  # a scale has 256 colours
_colour_map = cache(mpl.colormaps.__getitem__)  # which makes a new one at each call


class Drawing(NamedTuple):
    """Some SVG elements and the room they take, in pixels."""

    width: float
    height: float
    body: str


def moved(drawing: Drawing, x: float, y: float) -> str:
    """The elements of a drawing, moved."""
    return f'<g transform="translate({x:.1f} {y:.1f})">{drawing.body}</g>'


def beside(*drawings: Drawing, gap: float = 28) -> Drawing:
    """Drawings from left to right, their upper ends in line."""
    x, body = 0.0, []
    for drawing in drawings:
        body.append(moved(drawing, x, 0))
        x += drawing.width + gap
    return Drawing(x - gap, max(d.height for d in drawings), "".join(body))


def below(*drawings: Drawing, gap: float = 18) -> Drawing:
    """Drawings one under the other, their left ends in line."""
    y, body = 0.0, []
    for drawing in drawings:
        body.append(moved(drawing, 0, y))
        y += drawing.height + gap
    return Drawing(max(d.width for d in drawings), y - gap, "".join(body))


def widened(drawing: Drawing, width: float) -> Drawing:
    """The drawing with that much room at least, so that it keeps its size whatever it shows."""
    return drawing._replace(width=max(drawing.width, width))


def written(drawing: Drawing, says: str, margin: float = 6) -> str:
    """The drawing as one SVG image; `says` is what a screen reader reads out in its place.

    geometricPrecision: else a browser rounds the width of every letter to a pixel, and in a drawing
    made smaller texts come out wider than their room.
    """
    width, height = drawing.width + 2 * margin, drawing.height + 2 * margin
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(says)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width:100%;min-width:{SMALLEST * width:.0f}px;height:auto;'
        f'font-family:{FONT};font-size:{SIZE}px;text-rendering:geometricPrecision">'
        f"{moved(drawing, margin, margin)}</svg>"
    )


# What XML does not have: control characters, and halves of pairs.
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def escaped(content: str) -> str:
    """A text as it may stand in a page, whoever wrote it."""
    return html.escape(_NO_XML.sub("\ufffd", content))


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "middle",
    colour: str = INK,
    size: float = SIZE,
    bold: bool = False,
) -> str:
    """One line of text; y is its middle."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="central" '
        f'fill="{colour}" font-size="{size:g}"{weight}>{escaped(content)}</text>'
    )


def rectangle(
    x: float, y: float, width: float, height: float, *, fill: str = "none", line: str = "none",
    thick: float = 1,
) -> str:  # fmt: skip
    """One rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
        f'fill="{fill}" stroke="{line}" stroke-width="{thick:g}"/>'
    )


def cells(
    boxes: Sequence[tuple[float, float, float, float, str, str]], *, size: float = SIZE - 2
) -> str:
    """Many small coloured cells: x, y, width, height, fill and the text in the middle of each.

    What they have in common is written once, so that two hundred of them are a small drawing.
    """
    body, ink = [], _ink_on(boxes[0][4]) if boxes else INK
    for x, y, width, height, fill, content in boxes:
        own = "" if _ink_on(fill) == ink else f' fill="{_ink_on(fill)}"'
        body.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'
            f'<text x="{x + width / 2:g}" y="{y + height / 2:g}" dy=".35em"{own}>'
            f"{escaped(content)}</text>"
        )
    return f'<g text-anchor="middle" font-size="{size:g}" fill="{ink}">{"".join(body)}</g>'


def wide(content: str, size: float = SIZE, *, bold: bool = False) -> float:
    """How wide a text is: in DejaVu Sans, than which few fonts of a page are wider; a Chinese character
    is as wide as it is high."""
    return size * sum(1.0 if ord(c) > 0x2E7F else _advance(c, bold) for c in content)


@cache
def _advance(character: str, bold: bool) -> float:
    """How far a character of size 1 moves the next one."""
    font = FT2Font(f"{mpl.get_data_path()}/fonts/ttf/DejaVuSans{'-Bold' if bold else ''}.ttf")
    font.set_size(100, 72)
    n = font.get_char_index(ord(character))  # 0, a box, for one the font does not have
    return font.load_glyph(n).linearHoriAdvance / 65536 / 100


def label(content: str, *, colour: str = INK, size: float = SIZE, bold: bool = False) -> Drawing:
    """A line of text as a drawing."""
    body = text(0, size * 0.7, content, anchor="start", colour=colour, size=size, bold=bold)
    return Drawing(wide(content, size, bold=bold), size * 1.4, body)


def matrix(
    values: ArrayLike,
    kind: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    decimals: int,
    scale: tuple[float, float] | None = None,
    lit: Collection[tuple[int, int]] = (),
    cell: tuple[float, float] = CELL,
    outlined_row: int | None = None,
    outlined_column: int | None = None,
    rules: Collection[int] = (),
) -> Drawing:
    """A matrix on its colours, as the figures draw it; `lit` cells are framed.

    One row and one column can be outlined, each with its label. A line is drawn above the rows in
    `rules`.
    values [n, m] with n `rows` and m `columns` as labels; `kind` sets the colours; −inf is an empty
    cell. `scale` is the ends of the colours, for several matrices on one scale.
    """
    array = checks.matrix("values", values, infinite=True)
    checks.same("行数和标签数", "the rows and their labels", rows=len(array), labels=len(rows))
    checks.same(
        "列数和标签数", "the columns and their labels", columns=array.shape[1], labels=len(columns)
    )
    colours = _colour_map(COLOURS[kind])
    low, high = colour_scale([array], kind) if scale is None else scale
    fills = colours((array - low) / (high - low or 1.0))  # [n, m, 4]
    left = max((wide(r) for r in rows), default=0) + (10 if any(rows) else 0)
    top = SIZE * 1.5 + (SIZE * 1.5 if any(columns) else 0) + 4
    w, h = cell
    body = [text(0, SIZE * 0.7, title, anchor="start", bold=True)]
    body += [text(left + (j + 0.5) * w, top - SIZE * 0.9, c) for j, c in enumerate(columns)]
    for i, row in enumerate(array):
        y = top + i * h
        body.append(text(left - 8, y + h / 2, rows[i], anchor="end"))
        for j, value in enumerate(row):
            x = left + j * w
            if np.isneginf(value):
                body.append(rectangle(x, y, w - 1, h - 1, line=QUIET, thick=0.5))
                body.append(text(x + w / 2, y + h / 2, "−∞", colour=QUIET))
                continue
            fill = to_hex(fills[i, j])
            body.append(rectangle(x, y, w - 1, h - 1, fill=fill))
            shown = number(float(value), decimals)
            body.append(text(x + w / 2, y + h / 2, shown, colour=_ink_on(fill), size=SIZE - 1))
    right, bottom = left + w * len(columns), top + h * len(array)
    outlines: list[tuple[float, float, float, float]] = []
    if outlined_row is not None:
        y = top + checks.index("outlined_row", outlined_row, len(array)) * h - 1
        outlines.append((-4, y, right + 4, h + 1))
    if outlined_column is not None:
        x = left + checks.index("outlined_column", outlined_column, len(columns)) * w - 1
        y = SIZE * 1.5 + 2  # above the labels, below the title
        outlines.append((x, y, w + 1, bottom - y))
    levels = [top + checks.index("rules", i, len(array)) * h - 0.5 for i in rules]
    # Paper under the ink: on a dark page both are needed to be seen on light cells.
    for line, thick in ((PAPER, 4), (INK, 1.5)):
        body += [rectangle(*outline, line=line, thick=thick) for outline in outlines]
        body += [
            f'<line x1="{left - 4:.1f}" x2="{right + 3:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{line}" stroke-width="{thick}"/>'
            for y in levels
        ]
    for i, j in lit:
        x, y = left + j * w, top + i * h
        body.append(rectangle(x + 0.5, y + 0.5, w - 2, h - 2, line=LIT, thick=2.5))
    room = max(right, wide(title, bold=True))
    return Drawing(room, bottom, "".join(body))


def bars(
    values: ArrayLike,
    labels: Sequence[str],
    title: str,
    *,
    decimals: int,
    top: float | None = None,
    colour: str = BLUE,
    lit: Collection[int] = (),
    width: float = 260,
    marks: ArrayLike | None = None,
    told: Sequence[str] | None = None,
) -> Drawing:
    """Bars lying down, one a label, each with its number behind it.

    values [n], none negative; `top` is the value of a full bar; `lit` bars are framed. `marks` [n]
    are numbers to compare with, each drawn as a line across its bar. `told` is written behind the
    bars in place of the numbers.
    """
    array = checks.row("values", values, len(labels))
    marked = array if marks is None else checks.row("marks", marks, len(labels))
    if min(array.min(), marked.min()) < 0:
        refuse("条形表示的数不能是负的。", "what a bar shows cannot be negative.")
    full = float(np.max([array, marked]) if top is None else top) or 1.0
    left, h = max(wide(name) for name in labels) + 10, 24
    body = [text(0, SIZE * 0.7, title, anchor="start", bold=True)]
    for n, (value, name) in enumerate(zip(array, labels, strict=True)):
        y = SIZE * 1.6 + n * h
        long = width * min(float(value) / full, 1.0)
        body.append(text(left - 8, y + h / 2, name, anchor="end"))
        frame = LIT if n in lit else "none"
        body.append(rectangle(left, y + 4, long, h - 8, fill=colour, line=frame, thick=2.5))
        shown = number(float(value), decimals) if told is None else told[n]
        end = left + long + 6
        if marks is not None:
            x = left + width * min(float(marked[n]) / full, 1.0)
            body.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1:.1f}" y2="{y + h - 1:.1f}" '
                f'stroke="{INK}" stroke-width="2"/>'
            )
            if 0 <= x - left - long <= wide(shown) + 10:
                end = x + 6  # the number steps aside
        body.append(text(end, y + h / 2, shown, anchor="start"))
    room = max(left + width + 70, wide(title, bold=True))  # 70 for the number behind a full bar
    return Drawing(room, SIZE * 1.6 + h * len(array), "".join(body))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    *,
    lit: Collection[int] = (),
    right: Collection[int] = (),
    gap: float = 24,
) -> Drawing:
    """A table of texts, columns as wide as they need; `lit` rows are framed, `right` columns set right.

    Every row has as many texts as `head`; `gap` is the room between two columns.
    """
    for row in rows:
        checks.same(
            "表头和每一行的格数",
            "the cells of the head and of each row",
            head=len(head),
            row=len(row),
        )
    h = 24
    columns = [
        max([wide(name, bold=True), *(wide(row[j]) for row in rows)]) for j, name in enumerate(head)
    ]
    room = sum(columns) + gap * (len(head) - 1) + 12
    top = SIZE * 1.9 if title else 0.0
    body = [text(0, SIZE * 0.7, title, anchor="start", bold=True)] if title else []
    x = 6.0
    for j, name in enumerate(head):
        at, anchor = (x + columns[j], "end") if j in right else (x, "start")
        body.append(text(at, top + h / 2, name, anchor=anchor, colour=QUIET, bold=True))
        body += [text(at, top + (n + 1.5) * h, row[j], anchor=anchor) for n, row in enumerate(rows)]
        x += columns[j] + gap
    body.append(
        f'<line x1="0" x2="{room:.1f}" y1="{top + h:.1f}" y2="{top + h:.1f}" '
        f'stroke="{QUIET}" stroke-width="0.7"/>'
    )
    body += [rectangle(1, top + (n + 1) * h + 1, room - 2, h - 2, line=LIT, thick=2) for n in lit]
    return Drawing(max(room, wide(title, bold=True)), top + h * (len(rows) + 1), "".join(body))


class Arrow(NamedTuple):
    """An arrow from the middle of a plane to the point (x, y)."""

    x: float
    y: float
    label: str
    colour: str
    dashed: bool = False


def plane(
    arrows: Sequence[Arrow],
    title: str,
    caption: str,
    *,
    radius: float,
    size: float = 130,
) -> Drawing:
    """Arrows in a plane with both axes and a circle of that radius, which is `size` pixels wide.

    The label of each arrow stands beyond its point, each a step farther out than the one before, so
    that arrows of one direction keep theirs apart. `caption` stands below.
    """
    room, reach, scale = size / 2 + 38, size / 2 + 4, size / 2 / radius
    top = SIZE * 1.8
    cx, cy = room, top + room
    line = f'stroke="{QUIET}" stroke-width="0.7"'
    body = [
        text(0, SIZE * 0.7, title, anchor="start", bold=True),
        f'<line x1="{cx - reach:.1f}" x2="{cx + reach:.1f}" y1="{cy:.1f}" y2="{cy:.1f}" {line}/>',
        f'<line x1="{cx:.1f}" x2="{cx:.1f}" y1="{cy - reach:.1f}" y2="{cy + reach:.1f}" {line}/>',
        f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{size / 2:.1f}" fill="none" {line}/>',
    ]
    for n, arrow in enumerate(arrows):
        long = float(np.hypot(arrow.x, arrow.y)) * scale
        if not long:
            continue
        along = np.array([arrow.x, -arrow.y]) * scale / long  # up is up
        across = np.array([-along[1], along[0]])
        middle = np.array([cx, cy])
        tip, neck = middle + long * along, middle + max(long - 11, 0) * along
        head = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, neck + 5 * across, neck - 5 * across))
        dashes = ' stroke-dasharray="7 4"' if arrow.dashed else ""
        body.append(
            f'<line x1="{cx:.1f}" y1="{cy:.1f}" x2="{neck[0]:.1f}" y2="{neck[1]:.1f}" '
            f'stroke="{arrow.colour}" stroke-width="2.4"{dashes}/>'
            f'<polygon points="{head}" fill="{arrow.colour}"/>'
        )
        x, y = middle + (long + 12 + 17 * n) * along
        body.append(text(x, y, arrow.label, bold=True))
    body.append(text(cx, cy + room + 12, caption, colour=QUIET, size=11))
    return Drawing(
        max(2 * room, wide(title, bold=True), wide(caption, 11)), cy + room + 22, "".join(body)
    )


def curve(
    x: ArrayLike,
    y: ArrayLike,
    title: str,
    *,
    across: str,
    ends: tuple[float, float],
    lit: int,
    size: tuple[float, float] = (330, 150),
) -> Drawing:
    """A line through points, with the ends of both axes in numbers; the `lit` point is marked.

    x [n] rising and y [n]; `across` names the axis below, `ends` are the ends of the upright one.
    Where an axis goes through zero, that is marked too.
    """
    xs, ys = checks.row("x", x), checks.row("y", y)
    checks.same("x 和 y 的个数", "the numbers of x and y", x=xs.size, y=ys.size)
    lit = checks.index("lit", lit, xs.size)
    width, height = size
    left, top = 56.0, SIZE * 1.8
    low, high = ends
    px = left + width * (xs - xs[0]) / (xs[-1] - xs[0])
    py = top + height * (high - ys) / (high - low)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
    below_it = top + height + 14

    def small(x: float, y: float, content: str, anchor: str = "middle") -> str:
        return text(x, y, content, anchor=anchor, colour=QUIET, size=11)

    body = [
        text(0, SIZE * 0.7, title, anchor="start", bold=True),
        f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="1.8"/>',
        small(left - 6, top, number(high, 2), "end"),
        small(left - 6, top + height, number(low, 2), "end"),
        small(left, below_it, f"{xs[0]:g}"),
        small(left + width, below_it, f"{xs[-1]:g}"),
        small(left + width / 2, below_it + 15, across),
    ]
    if low < 0 < high:
        zero = top + height * high / (high - low)
        body.append(
            f'<line x1="{left}" x2="{left + width:.1f}" y1="{zero:.1f}" y2="{zero:.1f}" '
            f'stroke="{QUIET}" stroke-width="0.7" stroke-dasharray="3 3"/>'
        )
        body.append(small(left - 6, zero, "0", "end"))
    if xs[0] < 0 < xs[-1]:
        body.append(small(left + width * float(-xs[0] / (xs[-1] - xs[0])), below_it, "0"))
    body.append(f'<circle cx="{px[lit]:.1f}" cy="{py[lit]:.1f}" r="5" fill="{ORANGE}"/>')
    return Drawing(max(left + width + 12, wide(title, bold=True)), below_it + 24, "".join(body))

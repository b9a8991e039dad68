"""What is in an SVG drawing, read back: for the tests of the explorers."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from byhand import svg
from byhand.figures import ORANGE

NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(drawing: svg.Drawing) -> list[str]:
    """Every text of a drawing, in order."""
    root = ElementTree.fromstring(svg.written(drawing, ""))
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


def rectangles(drawing: svg.Drawing) -> Iterator[dict[str, str]]:
    root = ElementTree.fromstring(svg.written(drawing, ""))
    for element in root.iter(f"{NAMESPACE}rect"):
        yield dict(element.attrib)


def placed(drawing: svg.Drawing) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Every element of a drawing that has a place, and where that is in the whole."""

    def walk(
        element: ElementTree.Element, left: float, top: float
    ) -> Iterator[tuple[ElementTree.Element, float, float]]:
        moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", ""))
        if moved:
            left, top = left + float(moved[1]), top + float(moved[2])
        if "x" in element.attrib:
            yield element, left + float(element.attrib["x"]), top + float(element.attrib["y"])
        for child in element:
            yield from walk(child, left, top)

    yield from walk(ElementTree.fromstring(svg.written(drawing, "")), 0, 0)


def framed(drawing: svg.Drawing) -> list[list[str]]:
    """For every orange frame, the texts in it; for a framed bar, the texts of its line."""
    frames, words = [], []
    for element, x, y in placed(drawing):
        if element.tag.endswith("rect") and element.get("stroke") == ORANGE:
            frames.append((x, y, float(element.attrib["width"]), float(element.attrib["height"])))
        if element.tag.endswith("text"):
            words.append((x, y, element.text or ""))
    found = []
    for x, y, w, h in frames:
        line = [(at, told) for at, down, told in words if y <= down <= y + h]
        inside = [told for at, told in line if x <= at <= x + w]
        found.append(inside or [told for _, told in line])
    return found

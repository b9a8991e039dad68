"""What is in an SVG drawing, read back: for the tests of the explorers."""

from collections.abc import Iterator
from xml.etree import ElementTree

from byhand import svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(drawing: svg.Drawing) -> list[str]:
    """Every text of a drawing, in order."""
    root = ElementTree.fromstring(svg.written(drawing, ""))
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


def rectangles(drawing: svg.Drawing) -> Iterator[dict[str, str]]:
    root = ElementTree.fromstring(svg.written(drawing, ""))
    for element in root.iter(f"{NAMESPACE}rect"):
        yield dict(element.attrib)

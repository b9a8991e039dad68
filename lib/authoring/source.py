"""Read a notebook's source: jupytext percent format, code once, prose in pairs.

    # %% [markdown] lang="zh"
    # ### 求和
    # %% [markdown] lang="en" of="3f2a9c10"
    # ### The sum
    # %%
    total = exps.sum()

`of` is the fingerprint of the Chinese paragraph that the English one says again. When the Chinese
changes, the fingerprint no longer fits, and the build stops until the English has been looked at and
accepted (`make accept ARGS="NAME LINE"`). Prose may hold {{ expressions }}; a decimal or a percentage
that no expression made is refused.
"""

import ast
import hashlib
import html
import io
import re
import tokenize
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jupytext

from byhand.words import EDITIONS as EDITIONS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "notebooks" / "source"

EXPRESSION = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_MARKER = re.compile(r"^# %%.*$", re.MULTILINE)
_OF = re.compile(r'\s+of="[^"]*"')
# A decimal, a percentage or a fraction, in figures or in Chinese: what a reader takes for a result.
_TYPED = re.compile(
    r"\d[.·٫•․。]\d|(?<![\w.])\.\d|\d\s*\\?[%‰]|\d\s*per\s?cent|\d\s*⁄\s*\d"
    r"|\\frac\d{3,}|[零〇一二三四五六七八九十百]点[零〇一二三四五六七八九]|百分之[零〇一二三四五六七八九十百]",
    re.IGNORECASE,
)
# What a page does not show, or shows as if it were not there.
_UNSEEN = re.compile(r"<[^>]*>|\*\*|[\u200b-\u200d\u2060\ufeff{}]|\\(?:text|mathrm|[,!;:])")
# `# %s` and `# ls` are comments here, not magics.
_FORMAT = {"extension": ".py", "format_name": "percent", "comment_magics": False}
_LINK_TARGET = re.compile(r"(\[[^\]]*\])\([^)\s]*[/#a-z][^)]*\)")


class Fault(Exception):
    """One thing wrong, as one line: which source, which line, what."""

    def __init__(self, source: str, line: int, what: str) -> None:
        self.source, self.line, self.what = source, line, " ".join(what.split())
        super().__init__(f"{source}:{line}: {self.what}")

    def __reduce__(self) -> tuple[type["Fault"], tuple[str, int, str]]:
        return Fault, (self.source, self.line, self.what)


@dataclass(frozen=True)
class Code:
    """A code cell: the same in both editions."""

    line: int
    text: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Prose:
    """A paragraph in both languages, with the line each begins on."""

    line: int
    zh: str
    line_en: int
    en: str

    def text(self, lang: str) -> str:
        return self.zh if lang == "zh" else self.en

    def at(self, lang: str) -> int:
        return self.line if lang == "zh" else self.line_en


Cell = Code | Prose


def names() -> list[str]:
    """The sources, in order: 00_map, 01_scores_and_scaling, …"""
    return sorted(path.stem for path in SOURCES.glob("[0-9]*.py"))


def path_of(name: str) -> Path:
    """The file of one source."""
    return SOURCES / f"{name}.py"


def fingerprint(text: str) -> str:
    """Eight hexadecimal digits that change when a word of the paragraph does; spaces do not count."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:8]


def read(path: Path) -> list[Cell]:
    """All cells of a source, checked; a Fault for the first thing that is wrong."""
    cells: list[Cell] = []
    for line, kind, zh_or_code, metadata, twin in _walk(path):
        if kind == "code":
            tags = metadata.get("tags", [])
            _check_code(path, line, zh_or_code)
            cells.append(Code(line, zh_or_code, tuple(tags)))
        else:
            assert twin is not None
            line_en, en, of = twin
            if of != fingerprint(zh_or_code):
                what = "has not been compared with its English twin"
                raise Fault(
                    path.name,
                    line,
                    f"this zh paragraph was changed after its en twin on line {line_en}"
                    if of
                    else f"this zh paragraph {what} on line {line_en} (make accept)",
                )
            _check_prose(path, line, zh_or_code)
            _check_prose(path, line_en, en)
            cells.append(Prose(line, zh_or_code, line_en, en))
    return cells


def accept(path: Path, lines: list[int], everything: bool = False) -> tuple[list[int], list[int]]:
    """Write the fingerprint of the zh paragraph into its en twin.

    Stamped are the pairs named by the first line of either paragraph, every pair that has no
    fingerprint yet, and with `everything` all. Returns the lines of the English paragraphs that
    were stamped, and of those that still wait to be looked at.
    """
    cells = list(_walk(path))
    rows = path.read_text(encoding="utf-8").split("\n")
    stamped, waiting, begins = [], [], set()
    for line, _, zh, _, twin in cells:
        if twin is None:
            continue
        line_en, _, of = twin
        begins |= {line, line_en}
        if of == fingerprint(zh):
            continue
        if not of or everything or {line, line_en} & set(lines):
            rows[line_en - 1] = _OF.sub("", rows[line_en - 1]) + f' of="{fingerprint(zh)}"'
            stamped.append(line_en)
        else:
            waiting.append(line_en)
    if unknown := set(lines) - begins:
        raise Fault(path.name, min(unknown), "no paragraph begins on this line")
    path.write_text("\n".join(rows), encoding="utf-8", newline="\n")
    return stamped, waiting


_Walked = tuple[int, str, str, dict[str, list[str]], tuple[int, str, str] | None]


def _walk(path: Path) -> Iterator[_Walked]:
    """Each code cell, and each pair of paragraphs with its twin (line, text, `of`)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Fault(path.name, 1, "this is not UTF-8") from None
    except FileNotFoundError:
        raise Fault(
            path.name, 1, f"there is no such source; there are: {', '.join(names())}"
        ) from None
    lines = [text.count("\n", 0, m.start()) + 1 for m in _MARKER.finditer(text)]
    cells = jupytext.reads(text, fmt=_FORMAT).cells
    if len(cells) != len(lines):
        raise Fault(path.name, 1, "text before the first cell: begin with a line `# %%`")
    at = list(zip(lines, cells, strict=True))
    n = 0
    while n < len(at):
        line, cell = at[n]
        if cell.cell_type == "code":
            yield line, "code", cell.source, dict(cell.metadata), None
            n += 1
            continue
        lang = cell.metadata.get("lang")
        if lang == "en":
            raise Fault(path.name, line, "an en paragraph without its zh twin before it")
        if lang != "zh":
            raise Fault(path.name, line, 'a paragraph needs lang="zh" or lang="en"')
        twin_line, twin = at[n + 1] if n + 1 < len(at) else (0, None)
        if twin is None or twin.cell_type == "code" or twin.metadata.get("lang") != "en":
            raise Fault(path.name, line, "a zh paragraph without its en twin after it")
        yield line, "prose", cell.source, {}, (twin_line, twin.source, twin.metadata.get("of", ""))
        n += 2


def _quoted() -> list[str]:
    """The typed figures that are names or quotations, longest first, from quoted.toml."""
    entries = tomllib.loads((SOURCES / "quoted.toml").read_text(encoding="utf-8"))["quoted"]
    return sorted((entry["text"] for entry in entries), key=len, reverse=True)


def _check_typed(path: Path, line: int, text: str, where: str) -> None:
    for quoted in _quoted():
        text = re.sub(re.escape(quoted) + r"(?![\d.]*\d)", " ", text)
    text = unicodedata.normalize("NFKC", html.unescape(text))  # ½ becomes 1⁄2
    text = _UNSEEN.sub("", text)
    if found := _TYPED.search(text):
        start = max(found.start() - 8, 0)
        raise Fault(
            path.name, line, f"a typed number in {where}: … {text[start : found.end() + 4]} …"
        )


def _check_prose(path: Path, line: int, text: str) -> None:
    for expression in EXPRESSION.findall(text):
        if expression.lstrip() != expression.lstrip("{ \t\n"):
            raise Fault(path.name, line, "put a space between { and {{ or between }} and }")
        if not _computes(expression):
            raise Fault(path.name, line, f"{{{{ {expression.strip()} }}}} computes nothing")
    rest = EXPRESSION.sub(" x ", text)
    if "{{" in rest:
        raise Fault(path.name, line, "a {{ without its }}, or nothing between them")
    _check_typed(path, line, _LINK_TARGET.sub(r"\1", rest), "prose")


def _computes(expression: str) -> bool:
    """Whether an expression computes: it names something, or reckons with whole numbers.

    A literal, or arithmetic on literals that gives a decimal, does not. What is not Python is left
    to the build, which says so.
    """
    try:
        tree = ast.parse(f'f"""{{{expression.strip()}}}"""', mode="eval")
    except SyntaxError:
        return True
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Name) for node in nodes):
        return True
    values = [node.value for node in nodes if isinstance(node, ast.FormattedValue)]
    return all(isinstance(v, ast.BinOp) and not _typed_result(v) for v in values)


def _check_code(path: Path, line: int, code: str) -> None:
    """No results in comments or in strings; a number that is computed with is the code itself."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise Fault(path.name, line + (error.lineno or 0), f"{error.msg}") from None
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            _check_typed(path, line + token.start[0], token.string, "a comment")
    formats = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and node.format_spec
        for part in ast.walk(node.format_spec)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("exit", "quit"):
                raise Fault(path.name, line + node.lineno, f"{node.func.id}() ends the kernel")
            shown = node.args if node.func.id in ("print", "str", "display") else []
            if any(_typed_result(argument) for argument in shown):
                raise Fault(path.name, line + node.lineno, "a typed number is printed")
        if isinstance(node, ast.FormattedValue) and _typed_result(node.value):
            raise Fault(path.name, line + node.lineno, "a typed number in an f-string")
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in formats
        ):
            _check_typed(path, line + node.lineno, node.value, "a string")


def _typed_result(node: ast.expr) -> bool:
    """A decimal written out, or arithmetic on numbers alone that gives one, where it is shown."""
    parts = list(ast.walk(node))
    numbers = [p.value for p in parts if isinstance(p, ast.Constant)]
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not numbers or not all(isinstance(p, plain) for p in parts):
        return False
    divides = any(isinstance(p, ast.Div) for p in parts)
    return divides or any(isinstance(n, float) for n in numbers)

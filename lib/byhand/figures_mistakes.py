"""The figure of the mistakes: which check catches which.

Sets of names in, a Picture out, as in `figures`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from matplotlib.axes import Axes

from byhand import mistakes
from byhand.checks import refuse
from byhand.figures import BLUE, INK, ORANGE, QUIET, Picture, style
from byhand.words import edition, pick

# check: (中文, English), in the order of the columns; the last two compare values.
CHECKS: Final = {
    "runs": ("能运行，形状对", "runs, right shape"),
    "all sizes": ("尺寸全不同也能运行", "runs, all sizes different"),
    "row sums": ("权重的行和是 1", "rows of weights sum to 1"),
    "future": ("看不到未来", "the future is hidden"),
    "finite": ("没有 NaN", "no NaN"),
    "batch": ("不受同批句子影响", "sentences of a batch apart"),
    "values": ("数和参考一致", "values agree"),
    "large": ("分数很大时也一致", "values agree, large scores"),
}
COMPARE: Final = ("values", "large")
PALE: Final = "#BBBBBB"


def what_catches(caught: Mapping[str, Collection[str]], lang: str) -> Picture:
    """Every mistake of the catalogue against every check, a filled square where the check sees it.

    caught: mistake -> the names of the checks (of CHECKS) that it fails.
    """
    _refuse_unknown(caught)
    title = pick(
        lang,
        "哪一项检查抓得到哪个错误（实心是抓到）",
        "Which check catches which mistake (filled: caught)",
    )
    left, right = _halves(caught)
    rows = 1 + max(len(left), len(right))  # the last one holds the totals
    with style():
        picture = Picture(9.2, 0.19 * rows + 2.0, title)
        axes = picture.subplots(1, 2)
        for ax, lines in zip(axes, (left, right), strict=True):
            _panel(ax, lines, caught, rows, lang)
        totals = {check: sum(check in found for found in caught.values()) for check in CHECKS}
        for x, (check, total) in enumerate(totals.items()):
            colour = ORANGE if check in COMPARE else BLUE
            axes[1].text(
                x, rows - 1, str(total), ha="center", va="center", color=colour, fontsize=9
            )
        total_label = pick(lang, f"共 {len(caught)} 个，抓到", f"caught, of {len(caught)}")
        axes[1].text(-0.8, rows - 1, total_label, ha="right", va="center", fontsize=9)
        picture.suptitle(title, fontsize=12)
    for name, found in caught.items():
        words = [CHECKS[check][edition(lang)] for check in CHECKS if check in found]
        picture.says.append(f"{name}: " + (", ".join(words) or "—"))
    listed = ", ".join(f"{CHECKS[check][edition(lang)]} {n}" for check, n in totals.items())
    picture.says.append(f"{total_label}: {listed}")
    return picture


def _refuse_unknown(caught: Mapping[str, Collection[str]]) -> None:
    unknown = sorted({check for found in caught.values() for check in found} - CHECKS.keys())
    if unknown:
        known = ", ".join(CHECKS)
        refuse(
            f"没有叫 {', '.join(unknown)} 的检查。有的是：{known}",
            f"there is no check {', '.join(unknown)}; there are: {known}",
        )
    for name in caught:
        mistakes.find(name)
    if not caught:
        refuse("没有东西可画。", "there is nothing to draw.")


Lines = list[tuple[str, bool]]  # a name, and whether it is that of a family


def _halves(caught: Mapping[str, Collection[str]]) -> tuple[Lines, Lines]:
    """Families with their mistakes, as lines in two columns of about the same length."""
    blocks: list[Lines] = []
    for family in mistakes.FAMILIES:
        members = [name for name in caught if mistakes.find(name).family == family]
        if members:
            blocks.append([(family, True), *((name, False) for name in members)])
    cuts = range(1, len(blocks) + 1)

    def longer(cut: int) -> int:
        return max(sum(map(len, blocks[:cut])), sum(map(len, blocks[cut:])))

    cut = min(cuts, key=longer)
    return sum(blocks[:cut], []), sum(blocks[cut:], [])


def _panel(
    ax: Axes, lines: Lines, caught: Mapping[str, Collection[str]], rows: int, lang: str
) -> None:
    places: dict[tuple[str, str], list[tuple[int, int]]] = {}  # (marker, colour) -> where
    for y, (name, is_family) in enumerate(lines):
        if is_family:
            ax.axhline(y + 0.45, color=QUIET, lw=0.6)
            continue
        for x, check in enumerate(CHECKS):
            look = ("s", ORANGE if check in COMPARE else BLUE)
            places.setdefault(look if check in caught[name] else ("o", PALE), []).append((x, y))
    for (marker, colour), where in places.items():
        size = 7.5 if marker == "s" else 1.8
        ax.plot(*zip(*where, strict=True), marker, ms=size, color=colour, mew=0)
    ax.set_xlim(-0.6, len(CHECKS) - 0.4)
    ax.set_ylim(rows - 0.4, -0.6)
    words = [pair[edition(lang)] for pair in CHECKS.values()]
    ax.set_xticks(range(len(CHECKS)), words, rotation=55, ha="left", rotation_mode="anchor")
    ax.xaxis.tick_top()
    labels = [
        mistakes.FAMILIES[name][edition(lang)] if is_family else name for name, is_family in lines
    ]
    ax.set_yticks(range(len(lines)), labels)
    for label, (_, is_family) in zip(ax.get_yticklabels(), lines, strict=True):
        label.set(fontsize=9.5 if is_family else 8.5, color=INK if is_family else "#444444")
    ax.tick_params(length=0)
    ax.tick_params(axis="x", labelsize=8.5)
    ax.spines[:].set_visible(False)

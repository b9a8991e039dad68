"""The words of a diagnosis: what a result says about the attention that made it."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from byhand import mistakes
from byhand.calls import Line
from byhand.checks import Array
from byhand.matching import Match
from byhand.words import EDITIONS, edition

_CASES: Final = Line(
    "（square：平常的大小；wide：大小各不相同；firm、loud：分数很大。）",
    "(square: usual sizes; wide: every size different; firm and loud: large scores.)",
)


@dataclass(frozen=True)
class Diagnosis:
    """The answer: its text is what a notebook shows. `lang` None is both languages."""

    correct: bool
    mistakes: tuple[tuple[str, ...], ...]  # equally good explanations, each a set of names
    precision: str | None  # of what was found, where it was found
    stage: str | None  # one that differs, where no mistake explains the numbers
    lines: tuple[Line, ...]
    lang: str | None = None

    def __str__(self) -> str:
        shown = EDITIONS if self.lang is None else (self.lang,)
        order = sorted(shown)  # English first where both are shown
        return "\n\n".join("\n".join(line[edition(lang)] for line in self.lines) for lang in order)

    __repr__ = __str__


def told(lines: tuple[Line, ...], lang: str | None, **found: Any) -> Diagnosis:
    blank: dict[str, Any] = {"correct": False, "mistakes": (), "precision": None, "stage": None}
    return Diagnosis(**{**blank, **found}, lines=lines, lang=lang)


def unknown(found: Array) -> list[Line]:
    """What is said of a result that nothing explains."""
    if not np.isfinite(found).any():
        return [
            Line(
                "✗ 不对。结果里没有一个有限的数；算成这样的错误很多，从这里分不清是哪一个。",
                "✗ Wrong. There is not one finite number; many mistakes lead there, and from here they "
                "cannot be told apart.",
            )
        ]
    return [
        Line(
            "✗ 不对。和目录里的错误比过，单独一个、两个一起，都对不上。",
            "✗ Wrong, and no mistake of the catalogue and no two of them give these numbers.",
        )
    ]


def said(names: tuple[str, ...]) -> Line:
    """Some mistakes, as a clause."""
    return Line(
        "；同时，".join(mistakes.find(name).zh for name in names),
        ", and ".join(mistakes.find(name).en for name in names),
    )


def headline(match: Match) -> list[Line]:
    """Right or wrong, and what to do about it."""
    if match.correct:
        lines = [_right(match)]
        if match.differ:
            right, wrong = (", ".join(cases) for cases in (match.agree, match.differ))
            lines = [
                Line(
                    f"✗ {right} 算对了，{wrong} 不对，原因不在目录里。{_CASES.zh}",
                    f"✗ Right on {right} and wrong on {wrong}, for a reason that is not in the "
                    f"catalogue. {_CASES.en}",
                )
            ]
        return lines
    first = match.explanations[0]
    if len(match.explanations) > 1:
        lines = [
            Line(
                "✗ 这些数有几种算法都算得出来，下面每一种都可能：",
                "✗ These numbers come out in several ways; each of these explains them:",
            )
        ]
        for names in match.explanations:
            clause = said(names)
            lines.append(Line(f"  · {clause.zh}。", f"  · when {clause.en}."))
    elif len(first) == 1:
        clause = said(first)
        lines = [
            Line(
                f"✗ 找到了，这样错，算出来正是这些数：{clause.zh}。",
                f"✗ This is what comes out when {clause.en}.",
            ),
            *_about(first[0]),
        ]
    else:
        lines = [
            Line(
                "✗ 错了两处，合起来算出来正是这些数：",
                "✗ This is what comes out of two mistakes at once:",
            )
        ]
        for n, name in enumerate(first, start=1):
            clause = said((name,))
            english = clause.en[0].upper() + clause.en[1:]
            lines += [Line(f"{n}. {clause.zh}。", f"{n}. {english}."), *_about(name)]
    if match.differ:
        listed = ", ".join(match.differ)
        lines.append(
            Line(
                f"这能解释一部分结果；{listed} 上还有别的不同，原因不在目录里。{_CASES.zh}",
                f"This explains some results; on {listed} something else differs that is not in "
                f"the catalogue. {_CASES.en}",
            )
        )
    if not match.sharp():
        lines.append(
            Line(
                f"对上的精度是 {match.precision} 的：相对误差不到 {_above(match.error)}。",
                f"The numbers agree within the precision of {match.precision}: they are off by less "
                f"than {_above(match.error)}.",
            )
        )
    return lines


def near(match: Match | None) -> list[Line]:
    """What numbers that nothing explains come near to."""
    if match is None:
        return []
    off = _above(match.error)
    if match.correct:
        return [
            Line(
                f"离正确的结果很近，相对误差不到 {off}，但不是舍入的误差：还有一处小差别。",
                f"It is near the right result, off by less than {off}, and not by rounding: "
                f"something small differs.",
            )
        ]
    clause = said(match.explanations[0])
    return [
        Line(
            f"最接近的是这样算出来的数，相对误差不到 {off}：{clause.zh}。",
            f"Nearest, off by less than {off}, is what comes out when {clause.en}.",
        )
    ]


def _above(error: float) -> str:
    """The power of ten above a small number: its digits differ from machine to machine."""
    return f"1e{math.ceil(math.log10(error))}"


def _about(name: str) -> list[Line]:
    """How it should be, how the mistake shows, and where it happened."""
    mistake = mistakes.find(name)
    lines = [
        Line(f"  该这样写：{mistake.right}", f"  Right: {mistake.right}"),
        Line(f"  症状：{mistake.symptom_zh}", f"  How it shows: {mistake.symptom_en}"),
    ]
    if mistake.threads:
        where = "  ".join(mistake.links()[:2])
        lines.append(Line(f"  别人也遇到过：{where}", f"  Others met it too: {where}"))
    return lines


def _right(match: Match) -> Line:
    compared = len(match.agree)
    problems = "1 problem" if compared == 1 else f"{compared} problems"
    zh = f"✓ 正确。在 {compared} 道题上和参考一致，精确到 {match.precision}。"
    en = (
        f"✓ Correct. It agrees with the reference on {problems}, within the precision of "
        f"{match.precision}."
    )
    if not match.sharp():
        zh += f"相对误差不到 {_above(match.error)}。"
        en += f" It is off by less than {_above(match.error)}."
    return Line(zh, en)

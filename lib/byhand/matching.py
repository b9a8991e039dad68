"""Which mistakes, one or two at once, lead to exactly these numbers?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from byhand import mistakes, probes
from byhand.checks import Array
from byhand.probes import CASES, Kind
from byhand.steps import UP_TO_V, Changes, Problem, run, up_to_v

# The largest difference, root mean square over that of the result, that arithmetic of this precision
# makes on the problems of `probes`. Tests measure it with every step rounded.
TOLERANCES: Final = {"float64": 1e-9, "float32": 2e-5, "float16": 6e-3, "bfloat16": 5e-2}
SHARP: Final = ("float64", "float32")
# Mistakes that leave rows without a key: NaN, or with a finite mask some numbers or other.
WITHOUT_KEYS: Final = {"mask_not_itself", "mask_polarity"}
HUGE: Final = 1e100
OVERFLOWING: Final = {"softmax_no_max", "softmax_unnormalised"}  # beyond scores of 11 in float16


class Match(NamedTuple):
    """What explains the numbers; () among the explanations is: they are right."""

    explanations: tuple[tuple[str, ...], ...]  # equally good ones, each a set of mistakes by name
    precision: str
    error: float  # root mean square of the difference over that of the result
    agree: tuple[str, ...]  # the cases that it explains
    differ: tuple[str, ...]  # the cases that it does not
    rounded: bool  # every number found is one of float16 or bfloat16

    @property
    def correct(self) -> bool:
        return () in self.explanations

    def sharp(self) -> bool:
        """Whether the numbers agree as far as float32 goes, or as many decimals as there are."""
        return self.precision in SHARP or self.precision not in TOLERANCES

    def rank(self) -> tuple[int, int, int]:
        """Small is good: nothing left unexplained, few mistakes, high precision."""
        return (
            len(self.differ),
            len(self.explanations[0]),
            list(TOLERANCES).index(self.precision) if self.precision in TOLERANCES else 0,
        )


def distance(found: Array, wanted: Array | None, lenient: bool = False) -> float:
    """Root mean square of found − wanted over that of wanted; infinite when they cannot be the same.

    Both must be NaN or infinite in the same places; `lenient` leaves out where `wanted` is.
    """
    if wanted is None or found.shape != wanted.shape:
        return np.inf
    finite = np.isfinite(wanted)
    if not lenient and not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return np.inf if lenient else 0.0
    f, w = found[finite].astype(np.float64), wanted[finite]
    if not np.isfinite(f).all():
        return np.inf
    unit = max(np.abs(w).max(), np.abs(f).max()) or 1.0  # else the square of e^1000 overflows
    f, w = f / unit, w / unit
    size = np.sqrt(np.mean(w**2))
    return float(np.sqrt(np.mean((f - w) ** 2)) / (size or 1.0))


def rounded_to(array: Array) -> str | None:
    """ "float16" or "bfloat16" when every number is one of that type, else None."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = array.astype(np.float32)
        exact = np.array_equal(single.astype(array.dtype), array, equal_nan=True)
        if exact and not np.any(single.view(np.uint32) & 0xFFFF):
            return "bfloat16"
        half = array.astype(np.float16).astype(array.dtype)
        return "float16" if np.array_equal(half, array, equal_nan=True) else None


def decimals(array: Array) -> int | None:
    """To how many decimals numbers were rounded, two to six; None when they were not."""
    for n in range(2, 7):
        if np.array_equal(np.round(array, n), array, equal_nan=True):
            return n
    return None


def _projection(array: Array | None) -> tuple[float, float, float]:
    """The finite numbers along one direction, their length, and how many are not finite."""
    if array is None:
        return np.inf, 0.0, 0.0
    finite = np.isfinite(array)
    numbers = np.where(finite, array, 0).astype(np.float64).ravel()
    numbers = np.clip(numbers, -HUGE, HUGE)  # else the square of e^1000 overflows
    direction = np.cos(np.arange(1, numbers.size + 1))  # no pattern of a result is like it
    direction /= np.linalg.norm(direction)
    return float(numbers @ direction), float(np.linalg.norm(numbers)), float((~finite).sum())


def _undefined(array: Array) -> bool:
    return not np.isfinite(array).all()


class Book:
    """The results that each mistake, and each two, give on some problems."""

    def __init__(self, problems: Mapping[str, Problem]) -> None:
        self.problems = problems
        self._known: dict[tuple[str, tuple[str, ...], int], Array | None] = {}
        self._begun: dict[tuple[Any, ...], dict[str, Array]] = {}
        self._directions: dict[tuple[str, int], tuple[list[tuple[str, ...]], Array]] = {}
        right = {case: self.outcome(case, ()) for case in problems}
        self.singles = tuple(
            m.name
            for m in mistakes.CATALOGUE
            if any(self._changes(case, m.name, right[case]) for case in problems)
        )

    def _changes(self, case: str, name: str, right: Array | None) -> bool:
        """Whether a mistake can be made on this case and makes a difference."""
        wrong = self.outcome(case, (name,))
        return wrong is not None and right is not None and distance(wrong, right) > 1e-9

    def outcome(self, case: str, names: tuple[str, ...], version: int = 0) -> Array | None:
        """The result with these mistakes; None where the shapes do not allow it."""
        key = (case, names, version)
        if key not in self._known:
            made = mistakes.together(*map(mistakes.find, names), version=version)
            self._known[key] = self._computed(case, made or {})
        return self._known[key]

    def _computed(self, case: str, made: Changes) -> Array | None:
        """The result with these steps exchanged; the way to q, k and v is gone once for each."""
        problem = self.problems[case]
        early = {name: step for name, step in made.items() if name in UP_TO_V}
        key = (case, *sorted((name, id(step)) for name, step in early.items()))
        try:
            if key not in self._begun:
                self._begun[key] = up_to_v(problem, early)
            return list(run(problem, made, self._begun[key]).values())[-1]
        except (ValueError, IndexError):  # shapes that clash: a reader would see an error
            return None

    def sets(self, most: int) -> list[tuple[str, ...]]:
        """Every set of up to `most` mistakes that can be made here at once, fewest first."""
        return [names for names in mistakes.sets(most) if set(names) <= set(self.singles)]

    def near(
        self, found: Array, case: str, most: int, widest: float, lenient: bool
    ) -> Iterator[tuple[str, ...]]:
        """The sets whose result may lie within the tolerance `widest` of what was found.

        All results are projected onto one direction; numbers that are near have projections that
        are near. Few are left to compare in full.
        """
        key = (case, most)
        if key not in self._directions:
            sets = self.sets(most)
            results = [self.outcome(case, names) for names in sets]
            numbers = np.array([_projection(r) for r in results])  # [n_sets, 3]
            self._directions[key] = sets, numbers
        sets, numbers = self._directions[key]
        along, length, undefined = numbers.T
        may_be = np.abs(_projection(found)[0] - along) <= widest * length + 1e-300
        for n in np.flatnonzero(may_be | (undefined > 0) if lenient else may_be):
            yield sets[n]

    def match(
        self, found: Mapping[str, Array], at_once: int = 2, places: int | None = None
    ) -> Match | None:
        """The best explanation of results, by case; None when there is none.

        `at_once` 1 looks for single mistakes only. `places`: the results were written with that
        many decimals.
        """
        case = next((c for c in CASES if c in found), None)
        if case is None:
            return None
        if not np.isfinite(found[case]).any():
            at_once = 1  # nothing but NaN comes of many pairs
        everywhere: Mapping[str, float] = TOLERANCES
        sharp: Mapping[str, float] = {p: TOLERANCES[p] for p in SHARP}
        if places is not None:
            size = float(np.sqrt(np.mean(np.square(found[case].astype(np.float64))))) or 1.0
            everywhere = sharp = {f"{places} decimals": 10.0**-places / size}
        passes = [
            (1, sharp, False, True),
            (2, sharp, False, True),
            (1, sharp, True, True),
            (2, sharp, True, True),
            (1, everywhere, False, True),
            (1, sharp, False, False),
            (2, sharp, False, False),
            (1, everywhere, False, False),
        ]
        if rounded_to(found[case]):  # else two mistakes that come near are no explanation
            passes.insert(5, (2, everywhere, False, True))
        for most, allowed, lenient, whole in passes:
            if most > at_once:
                continue
            hits = self._hits(found, case, most, allowed, lenient)
            best = _best([h for h in hits if not (whole and h.differ)])
            if best is not None:
                return best
        return None

    def _overflows_alike(self, found: Array, names: tuple[str, ...]) -> bool:
        """Whether the firm case became NaN or infinite where these mistakes do it in low precision.

        Its first queries are quiet: they stay finite without the row's maximum, too.
        """
        wanted = self.outcome("firm", names)
        if wanted is None or found.shape != wanted.shape:
            return False
        half = wanted.shape[-2] // 2
        quiet = _undefined(wanted[..., :half, :])
        loud = _undefined(wanted[..., half:, :]) or bool(OVERFLOWING & set(names))
        return (_undefined(found[..., :half, :]), _undefined(found[..., half:, :])) == (quiet, loud)

    def _hits(
        self,
        found: Mapping[str, Array],
        case: str,
        most: int,
        allowed: Mapping[str, float],
        lenient: bool,
    ) -> list[Match]:
        hits = []
        widest = max(allowed.values())
        short = rounded_to(found[case])
        for names in self.near(found[case], case, most, widest, lenient):
            if lenient and not WITHOUT_KEYS & set(names):
                continue
            error = distance(found[case], self.outcome(case, names), lenient)
            precision = next((p for p, most_off in allowed.items() if error <= most_off), None)
            if precision is None:
                continue
            if short == "bfloat16" and precision == "float16":
                precision = short
            agree: list[str] = [case]
            differ: list[str] = []
            for other in found:
                if other == case:
                    continue
                if precision in ("float16", "bfloat16") and other in probes.LOUDER:
                    # rounded scores say little here, and those of the loud case are beyond float16;
                    # but without the row's maximum the exponentials of the firm case overflow
                    if other == "firm":
                        right = self._overflows_alike(found[other], names)
                        (agree if right else differ).append(other)
                    continue
                off = min(
                    distance(found[other], self.outcome(other, names, version), lenient)
                    for version in range(mistakes.versions(names))
                )
                right = off <= 3 * (TOLERANCES | dict(allowed))[precision]
                if not right and (other, precision) == ("firm", "float32"):
                    right = bool(OVERFLOWING & set(names)) and self._overflows_alike(
                        found[other], names
                    )
                (agree if right else differ).append(other)
            hits.append(Match((names,), precision, error, tuple(agree), tuple(differ), bool(short)))
        return hits


def _best(good: Sequence[Match]) -> Match | None:
    """The hit with the best rank, with all others of the same rank as further explanations."""
    if not good:
        return None
    least = min(hit.rank() for hit in good)
    ties = [hit for hit in good if hit.rank() == least]
    return ties[0]._replace(explanations=tuple(hit.explanations[0] for hit in ties))


@cache
def book(kind: Kind) -> Book:
    """The book of the seeded problems of that kind; made once."""
    return Book({case: probes.problem(kind, case) for case in probes.cases(kind)})

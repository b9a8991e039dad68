"""Numbers as the notebooks print them: aligned, rounded for the eye, never −0.000."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from byhand import checks
from byhand.toy import TOKENS
from byhand.worked import number


def row(values: ArrayLike, decimals: int = 3) -> str:
    """One row of numbers with that many decimals, in columns; −inf is written −∞.

    values [n].
    """
    array = checks.row("values", values, infinite=True)
    decimals = checks.whole("decimals", decimals, least=0)
    cells = [number(x, decimals) if np.isfinite(x) else "−∞" for x in array]
    return "  ".join(cell.rjust(decimals + 3) for cell in cells)


def rows(matrix: ArrayLike, decimals: int = 3, labels: Sequence[str] = TOKENS) -> str:
    """A matrix, one line a row, its label behind it: digits line up, Chinese is of another width.

    matrix [n, m], n labels.
    """
    array = checks.matrix("matrix", matrix, infinite=True)
    checks.same("行数和标签数", "the rows and the labels", rows=array.shape[0], labels=len(labels))
    return "\n".join(
        f"{row(values, decimals)}   {label}" for values, label in zip(array, labels, strict=True)
    )

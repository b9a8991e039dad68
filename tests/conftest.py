"""What several test files need."""

from collections.abc import Callable

import numpy as np
import pytest

from byhand import toy
from byhand.checks import Array

EXACT = 1e-12  # float64: only the order of additions differs


@pytest.fixture
def t() -> toy.Toy:
    return toy.load()


@pytest.fixture
def draw() -> Callable[..., Array]:
    """draw(3, 5) -> a random matrix [3, 5], the same in every run."""
    rng = np.random.default_rng(11)

    def numbers(*shape: int) -> Array:
        return rng.standard_normal(shape)

    return numbers

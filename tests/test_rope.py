"""Rotary positions against complex numbers, and against what must hold for any positions.

Rotating a pair (a, b) by an angle is multiplying a + ib by e^(i·angle); the reference does that, one
pair at a time. Sizes are different primes but for d_head, which is even.
"""

import cmath
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import byhand
from byhand import rope
from byhand.checks import Array
from byhand.rope import Pairing
from conftest import EXACT

Draw = Callable[..., Array]
LEAD, HEADS, S, D, D_MODEL = 2, 3, 5, 14, 11
THETA = 1e4
POSITIONS = [0, 1, 2, 7, 30]
FAR = 1e-9  # float64: an angle near 1e4 is only known to about 1e-12, and a score adds 14 of them
FLOAT32 = 1e-6  # float32: a few roundings of 6e-8 on numbers up to 4
DIFFERENT = 0.01  # what is not the same rotation is off by far more than rounding

positions = st.integers(0, 5000)


def turned_as_complex(x: Array, at: list[int], pairing: Pairing) -> Array:
    """x [.., S, D] rotated, pair by pair, as complex numbers."""
    result = np.empty(x.shape)
    for where in np.ndindex(x.shape[:-1]):
        for i in range(D // 2):
            first, second = (i, i + D // 2) if pairing == "half" else (2 * i, 2 * i + 1)
            angle = at[where[-1]] * THETA ** (-2 * i / D)
            turned = complex(x[where][first], x[where][second]) * cmath.exp(1j * angle)
            result[where][first], result[where][second] = turned.real, turned.imag
    return result


def rotated(x: Array, *at: int, pairing: Pairing = "half") -> Array:
    return rope.rotate(x, rope.angles(at, x.shape[-1], THETA), pairing)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotation_is_a_complex_product(draw: Draw, pairing: Pairing) -> None:
    x = draw(LEAD, HEADS, S, D)
    turned = rotated(x, *POSITIONS, pairing=pairing)
    expected = turned_as_complex(x, POSITIONS, pairing)
    np.testing.assert_allclose(turned, expected, rtol=0, atol=EXACT)


def test_first_pair_turns_by_one_radian_and_later_ones_ever_more_slowly() -> None:
    turns = rope.frequencies(D, THETA)
    assert turns.shape == (D // 2,)
    assert turns[0] == 1
    ratios = turns[1:] / turns[:-1]
    np.testing.assert_allclose(ratios, THETA ** (-2 / D), rtol=EXACT)
    assert turns[-1] == pytest.approx(THETA ** (-(D - 2) / D), rel=EXACT)


def test_angles_are_positions_times_frequencies_in_float64() -> None:
    angles = rope.angles(np.array(POSITIONS, np.float32), D, THETA)
    assert angles.shape == (S, D // 2)
    assert angles.dtype == np.float64
    np.testing.assert_array_equal(angles[0], 0)
    np.testing.assert_array_equal(angles[3], 7 * rope.frequencies(D, THETA))
    far = 2**24 + 1  # a float32 cannot hold it
    assert rope.angles([far], D, THETA)[0, 0] == far


@given(positions, positions, st.integers(0, 5000), st.sampled_from(["half", "interleaved"]))
def test_a_score_depends_on_the_distance_alone(
    query_at: int, key_at: int, shift: int, pairing: Pairing
) -> None:
    q, k = np.random.default_rng(5).standard_normal((2, 1, D))
    here = rotated(q, query_at, pairing=pairing) @ rotated(k, key_at, pairing=pairing).T
    there = (
        rotated(q, query_at + shift, pairing=pairing)
        @ rotated(k, key_at + shift, pairing=pairing).T
    )
    np.testing.assert_allclose(there, here, rtol=0, atol=FAR)


def test_a_score_does_depend_on_the_distance(draw: Draw) -> None:
    q, k = draw(1, D), draw(1, D)
    assert (
        abs((rotated(q, 3) @ rotated(k, 2).T - rotated(q, 3) @ rotated(k, 1).T).item()) > DIFFERENT
    )


@given(positions, st.sampled_from(["half", "interleaved"]))
def test_norms_are_unchanged(at: int, pairing: Pairing) -> None:
    x = np.random.default_rng(6).standard_normal((1, D))
    turned = rotated(x, at, pairing=pairing)
    assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(x), rel=EXACT)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_position_0_leaves_a_row_alone(draw: Draw, pairing: Pairing) -> None:
    x = draw(HEADS, 1, D)
    np.testing.assert_array_equal(rotated(x, 0, pairing=pairing), x)


def test_rotations_add_up(draw: Draw) -> None:
    x = draw(1, D)
    np.testing.assert_allclose(rotated(rotated(x, 3), 4), rotated(x, 7), rtol=0, atol=EXACT)


def test_the_layouts_differ_by_an_order_of_the_columns(draw: Draw) -> None:
    x, order = draw(HEADS, S, D), rope.half_from_interleaved(D)
    assert sorted(order) == list(range(D))
    np.testing.assert_array_equal(
        rotated(x, *POSITIONS, pairing="interleaved")[..., order],
        rotated(x[..., order], *POSITIONS, pairing="half"),
    )
    back = np.argsort(order)
    np.testing.assert_array_equal(
        rotated(x, *POSITIONS, pairing="half")[..., back],
        rotated(x[..., back], *POSITIONS, pairing="interleaved"),
    )


def scores(x: Array, w_q: Array, w_k: Array, pairing: Pairing) -> Array:
    q, k = (byhand.split_heads(x @ w, HEADS) for w in (w_q, w_k))
    return byhand.score(
        rotated(q, *POSITIONS, pairing=pairing), rotated(k, *POSITIONS, pairing=pairing)
    )


def test_the_wrong_pairing_gives_other_scores(draw: Draw) -> None:
    x, w_q, w_k = draw(S, D_MODEL), draw(D_MODEL, HEADS * D), draw(D_MODEL, HEADS * D)
    off = np.abs(scores(x, w_q, w_k, "half") - scores(x, w_q, w_k, "interleaved"))
    apart = ~np.eye(S, dtype=bool)  # a query and the key of its own position: no rotation between
    assert np.median(off[:, apart]) > DIFFERENT
    np.testing.assert_allclose(off[:, ~apart], 0, rtol=0, atol=FAR)


def test_weights_with_their_columns_in_order_give_the_same_scores_half_split(draw: Draw) -> None:
    x, w_q, w_k = draw(S, D_MODEL), draw(D_MODEL, HEADS * D), draw(D_MODEL, HEADS * D)
    order = rope.half_from_interleaved(D)
    columns = np.concatenate([head * D + order for head in range(HEADS)])
    np.testing.assert_allclose(
        scores(x, w_q[:, columns], w_k[:, columns], "half"),
        scores(x, w_q, w_k, "interleaved"),
        rtol=0, atol=EXACT * D * D_MODEL,
    )  # fmt: skip


def test_float32_stays_and_is_right_at_far_positions(draw: Draw) -> None:
    x = draw(HEADS, 1, D).astype(np.float32)
    turned = rotated(x, 100_000)
    assert turned.dtype == np.float32
    expected = turned_as_complex(x, [100_000], "half")
    np.testing.assert_allclose(turned, expected, rtol=0, atol=FLOAT32)


def test_a_float32_angle_would_be_off() -> None:
    in_float32 = rope.angles([100_000], D, THETA).astype(np.float32)
    off = np.abs(np.cos(in_float32.astype(np.float64)) - np.cos(rope.angles([100_000], D, THETA)))
    assert off.max() > 10 * FLOAT32


def test_x_is_left_as_it_was(draw: Draw) -> None:
    x = draw(S, D)
    x.flags.writeable = False
    assert not np.shares_memory(rotated(x, *POSITIONS), x)


def test_theta_may_be_a_number_of_numpy() -> None:
    for theta in (np.float32(THETA), np.int64(THETA)):
        np.testing.assert_array_equal(
            rope.frequencies(D, theta),  # type: ignore[arg-type]
            rope.frequencies(D, THETA),
        )


X, ANGLES = np.ones((S, D)), np.ones((S, D // 2))
HUGE = np.full((1, 2), 3e38, np.float32)
# What is wrong, the call, and what both lines of the refusal name: what was given, what is wanted.
WRONG: list[tuple[str, Callable[[], object], list[str]]] = [
    ("odd d_head", lambda: rope.frequencies(7, THETA), ["7"]),
    ("odd width of x", lambda: rope.rotate(np.ones((S, 7)), ANGLES), ["7"]),
    ("odd order", lambda: rope.half_from_interleaved(7), ["7"]),
    ("d_head 0", lambda: rope.frequencies(0, THETA), ["0", "2"]),
    ("d_head True", lambda: rope.even(True), ["True", "2"]),
    ("d_head 14.0", lambda: rope.even(14.0), ["14.0", "2"]),  # type: ignore[arg-type]
    ("theta 1", lambda: rope.frequencies(D, 1), ["theta", "1"]),
    ("theta 0.5", lambda: rope.frequencies(D, 0.5), ["theta", "0.5", "1"]),
    ("theta nan", lambda: rope.frequencies(D, math.nan), ["theta", "nan", "1"]),
    ("theta inf", lambda: rope.frequencies(D, math.inf), ["theta", "inf", "1"]),
    ("theta True", lambda: rope.frequencies(D, True), ["theta", "True", "1"]),
    ("theta text", lambda: rope.frequencies(D, "x"), ["theta", "'x'"]),  # type: ignore[arg-type]
    ("theta None", lambda: rope.frequencies(D, None), ["theta", "None"]),  # type: ignore[arg-type]
    ("nan position", lambda: rope.angles([0, math.nan], D, THETA), ["positions[1]", "nan"]),
    ("inf position", lambda: rope.angles([math.inf], D, THETA), ["positions[0]", "inf"]),
    ("positions of two axes", lambda: rope.angles([[0, 1, 2]], D, THETA), ["[1, 3]"]),
    ("no positions", lambda: rope.angles([], D, THETA), ["[0]"]),
    ("one position", lambda: rope.angles(3, D, THETA), ["[]", "1"]),
    ("text positions", lambda: rope.angles(["a"], D, THETA), ["positions", "<U1"]),
    ("rows", lambda: rope.rotate(X, ANGLES[:3]), ["x = 5", "angles = 3"]),
    ("one row of angles", lambda: rope.rotate(X, ANGLES[:1]), ["x = 5", "angles = 1"]),
    ("widths", lambda: rope.rotate(X, np.ones((S, 5))), ["x = 7", "angles = 5"]),
    ("angles for every number", lambda: rope.rotate(X, X), ["x = 7", "angles = 14"]),
    ("angles of three axes", lambda: rope.rotate(X, ANGLES[None]), ["angles", "3"]),
    ("nan angle", lambda: rope.rotate(X, ANGLES * np.nan), ["angles[0, 0]", "nan"]),
    ("nan in x", lambda: rope.rotate(X * np.nan, ANGLES), ["x[0, 0]", "nan"]),
    ("x a vector", lambda: rope.rotate(X[0], ANGLES), ["[14]", "2"]),
    ("no rows", lambda: rope.rotate(X[:0], ANGLES), ["[0, 14]"]),
    ("too large", lambda: rope.rotate(HUGE, [[math.pi / 4]]), ["rotate(x)", "float32"]),
    (
        "pairing of no kind",
        lambda: rope.rotate(X, ANGLES, "halves"),  # type: ignore[arg-type]
        ["'halves'", '"half"', '"interleaved"'],
    ),
    (
        "pairing None",
        lambda: rope.rotate(X, ANGLES, None),  # type: ignore[arg-type]
        ["None", '"half"', '"interleaved"'],
    ),
]


@pytest.mark.parametrize(("call", "named"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_mistake_is_named_in_both_languages(call: Callable[[], object], named: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    english, chinese = str(caught.value).split("\n")
    assert english.isascii()
    assert any("一" <= letter <= "鿿" for letter in chinese)
    for text in named:
        assert text in english and text in chinese

"""The catalogue: each mistake is one, and no two leave the same numbers."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from byhand import attention, mistakes, multi_head_attention, probes, qwen, steps
from byhand.kit import KINDS
from byhand.matching import TOLERANCES, Book, book, distance
from byhand.probes import CASES, Kind
from byhand.steps import given

EXACT = 1e-12
SAME = 1e-9
VISIBLE = 0.05  # of the result: beyond the precision of bfloat16
# Every kind of attention that is told apart here.
ALL = {
    **KINDS,
    "four axes": Kind(from_x=False, leading=(2, 3)),
    "a mask given": Kind(from_x=False, causal=True),
    "one head": Kind(),
    "one head, causal": Kind(causal=True, own_mask=True),
    "a batch": replace(KINDS["multi_head_causal"], leading=probes.BATCH),
    "grouped": Kind(n_heads=6, n_kv_heads=3, w_o=True, causal=True),
    "a batch of layers": replace(KINDS["layer"], leading=probes.BATCH),
}


def fingerprints(book: Book) -> Iterator[tuple[str, list[np.ndarray | None]]]:
    for name in book.singles:
        yield name, [book.outcome(case, (name,)) for case in book.problems]


# ---- the reference ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_without_a_mistake_it_is_the_library(case: str) -> None:
    for name in ("attention", "causal"):
        p = probes.problem(KINDS[name], case)
        wanted = attention(given(p.q), given(p.k), given(p.v), p.mask)
        for stage, array in wanted._asdict().items():
            np.testing.assert_allclose(steps.run(p)[stage], array, rtol=0, atol=EXACT)
    p = probes.problem(KINDS["multi_head_causal"], case)
    w_q, w_k, w_v, w_o = map(given, (p.w_q, p.w_k, p.w_v, p.w_o))
    layer = multi_head_attention(given(p.x), w_q, w_k, w_v, w_o, p.n_heads, p.mask)
    for stage, array in layer._asdict().items():
        np.testing.assert_allclose(steps.run(p)[stage], array, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("case", CASES)
def test_without_a_mistake_it_is_the_real_layer(case: str) -> None:
    p = probes.problem(KINDS["block"], case)
    assert p.theta is not None and p.eps is not None
    d_model = given(p.x).shape[-1]
    shape = qwen.LayerShape(d_model, p.n_heads, p.n_kv_heads, p.d_head, p.theta, p.eps)
    weights = qwen.LayerWeights(
        given(p.gain), given(p.w_q), p.b_q, given(p.w_k), p.b_k, given(p.w_v), p.b_v,
        given(p.w_o), np.ones(d_model),
    )  # fmt: skip
    step = qwen.layer(given(p.x), weights, shape)
    found = steps.run(p)
    np.testing.assert_allclose(found["h"], step.normed, rtol=0, atol=EXACT)
    # scores of some hundred thousand leave fewer digits of a weight
    np.testing.assert_allclose(found["output"], step.output, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found["residual"], step.residual, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ALL)
def test_inputs_are_exact_in_sixteen_bits(name: str) -> None:
    for case in CASES:
        p = probes.problem(ALL[name], case)
        for array in (p.x, p.q, p.k, p.v, p.w_q, p.w_k, p.w_v, p.w_o, p.b_q, p.gain):
            if array is not None:
                single = array.astype(np.float32)
                assert np.array_equal(single, array)
                assert not np.any(single.view(np.uint32) & 0xFFFF)  # bfloat16
                if case != "loud":
                    assert np.array_equal(array.astype(np.float16), array)


def test_every_axis_has_its_own_size() -> None:
    p = probes.problem(KINDS["multi_head"], "wide")
    assert given(p.x).shape == (13, 29)
    assert given(p.w_q).shape == (29, 3 * 11)
    p = probes.problem(KINDS["attention"], "wide")
    assert [given(a).shape for a in (p.q, p.k, p.v)] == [(13, 11), (17, 11), (17, 19)]


# ---- the catalogue ------------------------------------------------------------------------------


def test_the_catalogue_is_told_in_full() -> None:
    assert len(mistakes.CATALOGUE) == len(set(mistakes.names())) >= 30
    for mistake in mistakes.CATALOGUE:
        assert mistake.family in mistakes.FAMILIES
        assert mistake.changes.keys() <= set(steps.STEPS)
        assert re.search("[\u4e00-\u9fff]", mistake.sentence("zh") + mistake.symptom("zh"))
        assert not re.search("[\u3000-\u9fff]", mistake.sentence("en") + mistake.symptom("en"))
        assert not mistake.en.endswith(".") and not mistake.zh.endswith("。")
        assert mistake.symptom_en.endswith(".") and mistake.symptom_zh.endswith("。")
        for link in mistake.links():
            assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", link), (
                link
            )
    assert {m.family for m in mistakes.CATALOGUE} == set(mistakes.FAMILIES)
    told = [m.links() for m in mistakes.CATALOGUE]
    assert sum(map(bool, told)) > len(told) / 2


def test_versions_change_the_same_steps() -> None:
    for mistake in mistakes.CATALOGUE:
        for other in mistake.others:
            assert other.keys() == mistake.changes.keys(), mistake.name


def test_an_unknown_mistake_is_refused() -> None:
    with pytest.raises(ValueError, match="there are: scale_none"):
        mistakes.find("scale_nine")


def test_every_mistake_can_be_made_somewhere() -> None:
    made = {name for kind in ALL.values() for name in book(kind).singles}
    assert made == set(mistakes.names())


@pytest.mark.parametrize("kind", ALL)
def test_every_mistake_shows(kind: str) -> None:
    """Far enough from the right result not to be taken for arithmetic of low precision."""
    b = book(ALL[kind])
    right = [b.outcome(case, ()) for case in b.problems]
    for name, wrong in fingerprints(b):
        gaps = {
            case: distance(w, r)
            for case, w, r in zip(b.problems, wrong, right, strict=True)
            if w is not None
        }
        loud = gaps.pop("loud", 0.0)  # which is not compared in low precision
        assert max(gaps.values()) > VISIBLE or loud > 1000 * TOLERANCES["float32"], name


@pytest.mark.parametrize("kind", ALL)
def test_no_two_mistakes_leave_the_same_numbers(kind: str) -> None:
    for (a, one), (b, other) in combinations(fingerprints(book(ALL[kind])), 2):
        gaps = [
            0.0 if x is y is None else np.inf if x is None else distance(x, y)
            for x, y in zip(one, other, strict=True)
        ]
        assert max(gaps) > VISIBLE, (a, b)


@pytest.mark.parametrize("kind", ALL)
def test_each_mistake_is_named(kind: str) -> None:
    b = book(ALL[kind])
    for name, wrong in fingerprints(b):
        found = {c: w for c, w in zip(b.problems, wrong, strict=True) if w is not None}
        match = b.match(found)
        assert match is not None
        assert match.explanations == ((name,),) and not match.differ
        assert match.precision == "float64"


@pytest.mark.parametrize("kind", ["causal", "multi_head_causal", "block"])
def test_each_pair_is_found(kind: str) -> None:
    """Unless it leaves the numbers of a single mistake, or right ones: then that is named."""
    b = book(ALL[kind])
    pairs = [names for names in b.sets(2) if len(names) == 2]
    assert len(pairs) > 200
    for names in pairs:
        found = {case: result for case in CASES if (result := b.outcome(case, names)) is not None}
        if not found or not np.isfinite(next(iter(found.values()))).any():
            continue  # the shapes do not allow it anywhere; or nothing but NaN, which tells nothing
        match = b.match(found)
        assert match is not None and not match.differ, names
        if len(match.explanations[0]) == 2:
            assert names in match.explanations, (names, match.explanations)
        versions = range(mistakes.versions(match.explanations[0]))
        for case, result in found.items():
            explained = [b.outcome(case, match.explanations[0], version) for version in versions]
            assert min(distance(result, e) for e in explained) < SAME, names


def test_a_pair_needs_two_different_steps() -> None:
    assert mistakes.together(mistakes.find("scale_none"), mistakes.find("scale_d")) is None
    assert ("scale_none", "scale_d") not in mistakes.sets(2)
    assert ("scale_none", "k_as_v") in mistakes.sets(2)


@pytest.mark.parametrize("constant", [-1e4, -1e5])
def test_any_small_constant_is_recognised(constant: float) -> None:
    """Which numbers leak depends on the constant; it is one mistake all the same."""
    b = book(KINDS["multi_head_causal"])
    for name, change in (
        ("mask_finite", lambda s, p: s + np.where(p.may_look == 1, 0.0, constant)),
        ("mask_filled", lambda s, p: np.where(p.may_look == 1, s, constant)),
    ):
        found = {c: steps.result(p, {"mask": change}) for c, p in b.problems.items()}
        match = b.match({c: r for c, r in found.items() if r is not None})
        assert match is not None and match.explanations == ((name,),)


def test_a_large_constant_is_right() -> None:
    b = book(KINDS["multi_head_causal"])
    change = {"mask": lambda s, p: np.where(p.may_look == 1, s, -1e9)}
    found = {c: steps.result(p, change) for c, p in b.problems.items()}
    match = b.match({c: r for c, r in found.items() if r is not None})
    assert match is not None and match.correct


def test_a_row_without_keys_is_recognised_with_a_finite_mask_too() -> None:
    """Off by one with −1e9: the first row is no NaN but a row without a mask."""
    b = book(KINDS["multi_head_causal"])

    n = CASES["square"]
    earlier = np.tril(np.ones((n, n)), -1) == 1
    change = {"mask": lambda s, _: np.where(earlier, s, -1e9)}
    found = {"square": steps.result(b.problems["square"], change)}
    match = b.match({c: r for c, r in found.items() if r is not None})
    assert match is not None and match.explanations == (("mask_not_itself",),)

"""What the benchmark makes of given times. Nothing is timed here."""

import argparse
import json
import sys

import pytest

import bench
from bench import Memory, Row, Times, Turn

NO_MEMORY = Memory(0.0, 0.0)


def turn(ours: float, theirs: float | None = None, limit: float = 1e11) -> Turn:
    return Turn(Times(ours, ours / 2), None if theirs is None else Times(theirs, theirs), limit)


def straight(size: int, start: float = 0.25, rate: float = 1e11, limit: float = 1e11) -> Row:
    """The line of a layer that takes `start` seconds and then computes at `rate`."""
    return bench.row(size, [turn(start + bench.flops(size) / rate, 9.0, limit)], NO_MEMORY)


def test_operations_and_bytes_are_those_of_the_model() -> None:
    # by hand: 29,360,128 weights and 4,608 biases; at S tokens 28 · 128 · 4 FLOP a pair
    assert bench.weight_bytes() == 4 * (2 * 3584 * 3584 + 2 * 3584 * 512 + 3584 + 2 * 512)
    assert bench.flops(6) == 2 * 6 * 29_360_128 + 21 * 28 * 128 * 4


def test_medians_over_the_turns_and_the_best_of_all() -> None:
    turns = [turn(2.0, 4.0), turn(3.0, 2.0), turn(7.0, 8.0)]
    row = bench.row(64, turns, NO_MEMORY)
    assert row.ours == Times(3.0, 1.0)
    assert row.theirs == Times(4.0, 2.0)
    assert row.ratio == 7 / 8  # of 0.5, 1.5 and 0.875: not of the medians
    assert row.ratios == (0.5, 1.5)
    assert row.rate == bench.flops(64) / 3


def test_a_share_compares_what_one_turn_measured() -> None:
    work = bench.flops(512)
    turns = [turn(work / 0.9e11, limit=1e11), turn(work / 0.4e11, limit=0.5e11)]
    row = bench.row(512, turns, NO_MEMORY)
    assert row.share == pytest.approx((0.9 + 0.8) / 2)
    assert row.shares == pytest.approx((0.8, 0.9))
    assert row.ratio is None and row.theirs is None


def test_few_tokens_are_held_against_reading() -> None:
    seconds = 0.01
    row = bench.row(1, [turn(seconds, limit=2 * bench.weight_bytes() / seconds)], NO_MEMORY)
    assert row.share == pytest.approx(0.5)


def test_the_fit_finds_the_line_and_what_is_off_it() -> None:
    rows = [straight(size) for size in (1, 6, 64, 512, 2048, 4096)]
    fit = bench.fit(rows)
    assert fit is not None
    assert fit.start == pytest.approx(0.25) and fit.rate == pytest.approx(1e11)
    assert list(fit.residuals) == [64, 512, 2048, 4096]
    assert max(map(abs, fit.residuals.values())) < 1e-9

    late = rows[4]._replace(ours=Times(1.2 * rows[4].ours.median, 0.0))
    fit = bench.fit([*rows[:4], late, rows[5]])
    assert fit is not None and fit.residuals[2048] > 0.05
    assert bench.fit(rows[:4]) is None


def test_exponents() -> None:
    smaller, larger = straight(2048, start=0), straight(4096, start=0)
    time_grows, flops_grow = bench.exponents(smaller, larger)
    assert time_grows == pytest.approx(flops_grow)
    assert 1 < flops_grow < 2  # between the projections and the scores


@pytest.mark.parametrize(
    ("size", "ratio", "met"),
    [(1, 0.75, True), (6, 0.76, False), (64, 1.0, True), (4096, 1.01, False)],
)
def test_the_target_of_the_ratio(size: int, ratio: float, met: bool) -> None:
    row = bench.row(size, [turn(ratio, 1.0)], NO_MEMORY)
    (target,) = [t for t in bench.targets([row]) if "Hugging Face" in t.text]
    assert target.met is met


@pytest.mark.parametrize(("size", "rate", "met"), [(512, 0.86e11, True), (2048, 0.84e11, False)])
def test_the_target_of_the_share(size: int, rate: float, met: bool) -> None:
    row = straight(size, start=0, rate=rate)
    (target,) = [t for t in bench.targets([row]) if "matrix product" in t.text]
    assert target.met is met


def test_exponentials_count_in_the_last_share_only() -> None:
    row = straight(512, start=0, rate=0.8e11)
    assert row.share_with_exp == pytest.approx(row.share)  # with no limit on exponentials
    n_pairs = sum(1 for i in range(512) for j in range(512) if j <= i)
    assert bench.exponentials(512) == 28 * n_pairs
    taken = turn(0.5)._replace(limit=1e12, exp_limit=28 * n_pairs / 0.2)  # 0.2 s for all of them
    found = bench.row(512, [taken], NO_MEMORY)
    assert found.share_with_exp == pytest.approx(found.share + 0.4)


@pytest.mark.parametrize(("mib", "met"), [(99.0, True), (101.0, False)])
def test_the_target_of_the_memory(mib: float, met: bool) -> None:
    rows = [straight(size)._replace(memory=Memory(1.0, mib)) for size in (2048, 4096)]
    (target,) = [t for t in bench.targets(rows) if "memory" in t.text]
    assert target.met is met and "4,096" in target.text


def test_the_report_is_a_table_with_every_target() -> None:
    rows = [straight(size) for size in (1, 64, 512, 2048, 4096)]
    text = bench.report(rows, {6: Times(0.04, 0.03)}, n_rounds=5)
    lines = text.splitlines()
    assert "| 64 | 287.9 (143.9) | 9000.0 (9000.0) | 0.03 (0.03–0.03) |" in text
    assert "time = 250.0 ms + FLOP / (100.0 GFLOP/s)" in text
    assert "(`qwen.attend`) at 6 tokens: 40.0 (30.0) ms" in text
    assert sum(line.endswith("| met |") for line in lines) == 10
    assert sum(line.endswith("| not met |") for line in lines) == 2  # 512: 0.25 s of 0.57
    tables = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in tables} == {4, 11}


def test_without_torch_a_column_stays_empty() -> None:
    text = bench.report([bench.row(64, [turn(0.04)], NO_MEMORY)], {}, n_rounds=1)
    assert "| 64 | 40.0 (20.0) | – | – |" in text
    assert "| target |" not in text


def test_the_machine_is_described_and_not_named() -> None:
    text = "\n".join(bench.machine())
    for wanted in ("processor: ", "cores", "system: ", "Python 3", "NumPy ", "commit "):
        assert wanted in text
    for private in (str(bench.ROOT), sys.prefix):
        assert private not in text


@pytest.mark.parametrize(("text", "sizes"), [("1", (1,)), ("64,6,6", (6, 64))])
def test_sizes_in_order(text: str, sizes: tuple[int, ...]) -> None:
    assert bench.sizes_of(text) == sizes


@pytest.mark.parametrize("text", ["0", "", "six", "-1", "1.5"])
def test_what_is_no_size_or_number_of_rounds_is_refused(text: str) -> None:
    for read in (bench.sizes_of, bench.count):
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not a whole number"):
            read(text)


def test_workers_answer_until_their_input_ends() -> None:
    with bench.started(["ours"]) as ask:
        memory = Memory(**ask["ours"]("memory", 64))
    context = 64 * 28 * 128 * 4 / bench.MIB
    assert memory.all == pytest.approx(memory.work + context)
    assert 0 < memory.work < 100
    json.dumps(memory._asdict())

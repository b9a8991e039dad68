"""Kits: inputs as files, results computed elsewhere, and the command `byhand`."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byhand import diagnose, kit, mistakes, probes, steps
from byhand.__main__ import main
from byhand.checks import Array
from byhand.kit import KINDS


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    return kit.write(tmp_path / "layer", "layer")


def computed(folder: Path, case: str, *names: str) -> Array:
    """A result of the kit, computed from its files, with some mistakes."""
    made = mistakes.together(*map(mistakes.find, names))
    found = steps.result(kit.read(folder)[case], made)
    assert found is not None
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_kit_holds_the_problems(tmp_path: Path, name: str) -> None:
    folder = kit.write(tmp_path / "kit", name)
    for case, problem in kit.read(folder).items():
        wanted = probes.problem(KINDS[name], case)
        for field in ("x", "q", "k", "v", "w_q", "w_k", "w_v", "w_o", "b_q", "mask", "gain"):
            stored, drawn = getattr(problem, field), getattr(wanted, field)
            assert (stored is None) == (drawn is None)
            if drawn is not None:
                np.testing.assert_array_equal(stored, drawn)
        for number in ("n_heads", "n_kv_heads", "d_head", "theta", "eps"):
            assert getattr(problem, number) == getattr(wanted, number)


def test_three_ways_to_read_the_same_numbers(layer: Path) -> None:
    described = json.loads((layer / "kit.json").read_text(encoding="utf-8"))
    for case, told in described["cases"].items():
        for name, shape in told["inputs"].items():
            array = np.load(layer / case / f"{name}.npy")
            lists = json.loads((layer / case / f"{name}.json").read_text(encoding="utf-8"))
            raw = np.fromfile(layer / case / f"{name}.bin", "<f4")
            assert list(array.shape) == shape
            np.testing.assert_array_equal(array, np.array(lists))
            np.testing.assert_array_equal(array.ravel(), raw)
    told_to_people = (layer / "README.txt").read_text(encoding="utf-8")
    assert "byhand diagnose result.npy --kit ." in told_to_people
    assert "RoPE" in told_to_people and "位置从 0 数" in told_to_people


def test_a_kit_is_enough_to_compute_from(tmp_path: Path) -> None:
    """In nothing but lists, as another language would: the files, and what README.txt says."""
    folder = kit.write(tmp_path, "causal")
    results = []
    for case in json.loads((folder / "kit.json").read_text(encoding="utf-8"))["cases"]:
        q, k, v = (
            json.loads((folder / case / f"{n}.json").read_text(encoding="utf-8")) for n in "qkv"
        )
        context = []
        for i, query in enumerate(q):
            scores = [
                sum(a * b for a, b in zip(query, key, strict=True)) / len(query) ** 0.5
                for key in k[: i + 1]
            ]
            exps = [np.exp(s - max(scores)) for s in scores]
            columns = zip(*v[: i + 1], strict=True)
            context.append(
                [sum(e * x for e, x in zip(exps, c, strict=True)) / sum(exps) for c in columns]
            )
        results.append(np.array(context))
    assert diagnose(output=results, kit=folder).correct


def write_npy(path: Path, array: Array) -> Path:
    np.save(path.with_suffix(".npy"), array)
    return path.with_suffix(".npy")


def write_json(path: Path, array: Array) -> Path:
    path.with_suffix(".json").write_text(json.dumps(array.tolist()), encoding="utf-8")
    return path.with_suffix(".json")


def write_csv(path: Path, array: Array) -> Path:
    np.savetxt(path.with_suffix(".csv"), array, delimiter=",", header="a,b", comments="")
    return path.with_suffix(".csv")


def write_bin(path: Path, array: Array) -> Path:
    array.astype("<f4").tofile(path.with_suffix(".bin"))
    return path.with_suffix(".bin")


WRITERS = [write_npy, write_json, write_csv, write_bin]


@pytest.mark.parametrize("case", probes.CASES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_is_read_and_diagnosed(
    layer: Path, writer: Callable[[Path, Array], Path], case: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    right = writer(layer / "right", computed(layer, case))
    assert main(["--lang", "en", "diagnose", str(right), "--kit", str(layer)]) == 0
    told = capsys.readouterr().out
    assert "✓ Correct" in told and "Not compared yet" in told
    wrong = writer(layer / "wrong", computed(layer, case, "gqa_tiled"))
    assert main(["--lang", "en", "diagnose", str(wrong), "--kit", str(layer)]) == 1
    assert "K/V heads are tiled instead of repeated" in capsys.readouterr().out


def test_every_case_at_once(layer: Path) -> None:
    results = [computed(layer, case, "bias_dropped", "rope_sign") for case in probes.CASES]
    found = diagnose(output=results, kit=layer, lang="en")
    assert found.mistakes == (("rope_sign", "bias_dropped"),) or found.mistakes == (
        ("bias_dropped", "rope_sign"),
    )
    named = dict(zip(probes.CASES, results, strict=True))
    assert diagnose(output=named, kit=layer, lang="en") == found
    assert diagnose(output=[computed(layer, c) for c in probes.CASES], kit=layer).correct


def test_mistakes_that_need_the_loud_case(layer: Path) -> None:
    square = computed(layer, "square", "mask_finite")
    found = diagnose(output=square, kit=layer, lang="en")
    assert found.correct and "a finite mask only in loud" in str(found)
    both = [square, computed(layer, "loud", "mask_finite")]
    assert diagnose(output=both, kit=layer).mistakes == (("mask_finite",),)


@pytest.mark.parametrize("how", [np.float32, np.float16])
def test_results_of_low_precision(layer: Path, how: Any) -> None:
    found = diagnose(output=computed(layer, "square").astype(how), kit=layer)
    assert found.correct and found.precision == np.dtype(how).name


def test_what_nothing_explains_is_looked_at(layer: Path) -> None:
    right = computed(layer, "square")
    assert "rows are in another order" in str(diagnose(output=right[::-1], kit=layer, lang="en"))
    assert "2.5 times what it should be" in str(diagnose(output=2.5 * right, kit=layer, lang="en"))
    assert "NaN" in str(diagnose(output=np.where(right > 3, np.nan, right), kit=layer, lang="en"))
    assert "right once transposed" in str(diagnose(output=right.T, kit=layer, lang="en"))
    assert "[4, 4]" in str(diagnose(output=np.eye(4), kit=layer, lang="en"))


def test_another_shape_of_a_mistake(tmp_path: Path) -> None:
    folder = kit.write(tmp_path, "multi_head")
    summed = computed(folder, "square", "heads_summed")  # [S, d_head]
    assert diagnose(output=summed, kit=folder).mistakes == (("heads_summed",),)


def objects() -> bytes:
    """An .npy of Python objects, which only a pickle could bring back."""
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    return file.getvalue()


FAULTY: list[tuple[str, bytes, str]] = [
    ("a.npy", b"", "cannot be read"),
    ("a.npy", objects(), "cannot be read"),
    ("a.json", b"[[1, 2], [3]]", "cannot be read"),
    ("a.json", b'{"a": 1}', "must hold an array of numbers"),
    ("a.json", b"[[1, 2", "cannot be read"),
    ("a.json", b"\xff\xfe", "cannot be read"),
    ("a.csv", b"1,2\n3\n", "cannot be read"),
    ("a.csv", b"1,2\nx,y\n", "cannot be read"),
    ("a.csv", b"", "must hold an array of numbers"),
    ("a.csv", b"1,,2\n3,4,5\n", "cannot be read"),
    ("a.npy", b"PK\x03\x04", "cannot be read"),
    ("a.json", b"[" * 100_000, "cannot be read"),
    ("a.json", b"[[1, null]]", "must hold an array of numbers"),
    ("a.bin", b"12345", "cannot be read"),
    ("a.txt", b"1 2", ".npy, .json, .csv or .bin is wanted"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "told"), FAULTY)
def test_a_faulty_file_is_refused_in_words(
    layer: Path, name: str, content: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (layer / name).write_bytes(content)
    assert main(["diagnose", str(layer / name), "--kit", str(layer)]) == 2
    captured = capsys.readouterr()
    assert told in captured.err and captured.out == ""


def test_faulty_folders_are_refused_in_words(layer: Path, tmp_path: Path) -> None:
    array = np.zeros((23, 60))
    with pytest.raises(ValueError, match="no complete kit"):
        diagnose(output=array, kit=tmp_path / "nowhere")
    (layer / "square" / "x.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no complete kit"):
        diagnose(output=array, kit=layer)
    full = tmp_path / "full"
    full.mkdir()
    (full / "diary.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="is no kit"):
        kit.write(full)
    with pytest.raises(ValueError, match="there are: attention"):
        kit.write(tmp_path / "new", "transformer")
    kit.write(layer, "layer")  # a kit may be written anew
    assert not diagnose(output=array, kit=layer).correct


@pytest.mark.parametrize("places", [2, 3, 4])
def test_results_written_with_few_decimals(layer: Path, places: int) -> None:
    square = np.round(computed(layer, "square"), places)
    found = diagnose(output=square, kit=layer)
    assert found.correct and found.precision == f"{places} decimals"
    wrong = [np.round(computed(layer, c, "gqa_tiled"), places) for c in ("square", "wide")]
    assert diagnose(output=wrong, kit=layer).mistakes == (("gqa_tiled",),)


def test_nothing_and_too_much(layer: Path) -> None:
    for nothing in list[Any](([], (), {})):
        with pytest.raises(ValueError, match="no result"):
            diagnose(output=nothing, kit=layer)
    square = computed(layer, "square")
    with pytest.raises(ValueError, match="two results of the problem square"):
        diagnose(output=[square, square], kit=layer)


def test_damaged_kits(layer: Path) -> None:
    square = computed(layer, "square")
    for file, content in (
        ("square/x.npy", b"PK\x03\x04 nothing"),
        ("square/x.npy", b"\x93NUMPY\x01\x00v\x00{'descr'" + b" " * 108 + b"\n"),
        ("kit.json", b"[" * 100_000),
        ("kit.json", b"{}"),
        ("kit.json", (layer / "kit.json").read_bytes().replace(b'"n_heads": 6', b'"n_heads": 7')),
    ):
        before = (layer / file).read_bytes()
        (layer / file).write_bytes(content)
        with pytest.raises(ValueError, match="no complete kit"):
            diagnose(output=square, kit=layer)
        (layer / file).write_bytes(before)
    assert diagnose(output=square, kit=layer).correct


READABLE = [
    ("a.json", "\ufeff[[1.5, 2], [3, 4]]"),
    ("a.csv", "1,5;2\n3;4\n"),
    ("a.csv", "a,b\r\n1.5,2\r\n\r\n3,4\r\n"),
    ("a.csv", "1.5 2\n3 4"),
    ("a.csv", "1.5\t2\n3\t4"),
]


@pytest.mark.parametrize(("name", "content"), READABLE)
def test_tables_as_programs_write_them(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode("utf-8"))
    np.testing.assert_array_equal(kit.read_result(tmp_path / name), [[1.5, 2], [3, 4]])


def test_places_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    assert main(["kit", str(file / "below")]) == 2
    assert capsys.readouterr().err
    for wrong in list[Any]((5, None, [])):
        with pytest.raises(ValueError, match="path"):
            kit.write(wrong)


def test_a_kit_changed_by_hand_is_what_counts(layer: Path) -> None:
    """The files are the problem, not the seeds of this machine's NumPy."""
    x = np.load(layer / "square" / "x.npy")
    np.save(layer / "square" / "x.npy", x[::-1])
    assert diagnose(output=computed(layer, "square"), kit=layer).correct


def test_the_command_lists_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lang", "zh", "mistakes"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(mistakes.CATALOGUE) and "没有除以" in listed[0]
    assert main(["--lang", "en", "kit", str(tmp_path / "k"), "--kind", "block"]) == 0
    assert "README.txt" in capsys.readouterr().out
    assert (tmp_path / "k" / "loud" / "gain.json").is_file()
    with pytest.raises(SystemExit):
        main(["kit"])

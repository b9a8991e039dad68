"""A kit: small problems as files, for an attention written in C, Rust, JavaScript or anything else.

`write` puts the inputs into a folder; the results are then compared by `diagnose(output=…, kit=…)`
or `byhand diagnose FILE --kit DIR`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from byhand import probes, report, symptoms
from byhand.calls import Line, Outcome
from byhand.checks import Array, refuse, shape_text
from byhand.matching import Book, decimals
from byhand.probes import CASES, Kind
from byhand.report import Diagnosis
from byhand.steps import Problem, result

KINDS: Final[Mapping[str, Kind]] = {
    "attention": Kind(from_x=False),
    "causal": Kind(from_x=False, causal=True, own_mask=True),
    "multi_head": Kind(n_heads=probes.N_HEADS, n_kv_heads=probes.N_HEADS, w_o=True),
    "multi_head_causal": Kind(
        n_heads=probes.N_HEADS, n_kv_heads=probes.N_HEADS, w_o=True, causal=True
    ),
    "layer": Kind(
        n_heads=probes.N_HEADS * probes.GROUP, n_kv_heads=probes.N_HEADS, bias="qkv",
        theta=probes.THETA, w_o=True, causal=True,
    ),
    "block": Kind(
        n_heads=probes.N_HEADS * probes.GROUP, n_kv_heads=probes.N_HEADS, bias="qkv",
        theta=probes.THETA, w_o=True, causal=True, norm=True,
    ),
}  # fmt: skip
_NUMBERS: Final = ("n_heads", "n_kv_heads", "d_head", "theta", "eps")
_HEADS: Final = Line(
    "q, k, v = x w_q, x w_k, x w_v；切成 n_heads 个头；每个头做 softmax(q kᵀ / √d_head) v",
    "q, k, v = x w_q, x w_k, x w_v; split into n_heads heads; in each softmax(q kᵀ / √d_head) v",
)
_MASKED: Final = Line(
    "softmax 之前用因果遮罩遮住后面的词", "a causal mask hides later tokens before the softmax"
)
_MERGE: Final = Line("合并各个头；乘 w_o", "merge the heads; times w_o")
_LAYER: Final = Line(
    "q, k, v = x w_q + b_q, x w_k + b_k, x w_v + b_v；q 切成 n_heads 个头，k 和 v 切成 n_kv_heads 个；"
    "q 和 k 用 RoPE（底数 theta，第 i 对是 i 和 i + d_head/2，位置从 0 数）；"
    "相邻的 n_heads / n_kv_heads 个查询头共用一个键值头；每个头做 softmax(q kᵀ / √d_head) v",
    "q, k, v = x w_q + b_q, x w_k + b_k, x w_v + b_v; split q into n_heads heads, k and v into "
    "n_kv_heads; RoPE on q and k (base theta, pair i is i and i + d_head/2, positions from 0); "
    "n_heads / n_kv_heads query heads in a row share a K/V head; in each head "
    "softmax(q kᵀ / √d_head) v",
)


def _joined(*steps: Line) -> Line:
    return Line("；".join(s.zh for s in steps), "; ".join(s.en for s in steps))


_STEPS: Final[Mapping[str, Line]] = {
    "attention": Line("softmax(q kᵀ / √d_head) v", "softmax(q kᵀ / √d_head) v"),
    "causal": _joined(Line("softmax(q kᵀ / √d_head) v", "softmax(q kᵀ / √d_head) v"), _MASKED),
    "multi_head": _joined(_HEADS, _MERGE),
    "multi_head_causal": _joined(_HEADS, _MASKED, _MERGE),
    "layer": _joined(_LAYER, _MASKED, _MERGE),
    "block": _joined(
        Line(
            "h = RMSNorm(x)，用 gain 和 eps；下面的 x 换成 h",
            "h = RMSNorm(x) with gain and eps; for x below take h",
        ),
        _LAYER,
        _MASKED,
        _MERGE,
        Line("加上 x", "add x"),
    ),
}


def write(folder: Any, name: str = "multi_head") -> Path:
    """Write the inputs of a kind of attention into `folder`, one folder for each case.

    Each array as .npy (float64), .json (nested lists) and .bin (float32, little-endian, rows one
    after the other); kit.json says what there is. ValueError for an unknown name or a folder that
    holds something else.
    """
    if not isinstance(name, str) or name not in KINDS:
        known = ", ".join(KINDS)
        refuse(f"没有 {name!r} 这一种。有的是：{known}", f"no kit {name!r}; there are: {known}")
    root = _path(folder)
    if root.exists() and (not root.is_dir() or (any(root.iterdir()) and not _is_kit(root))):
        refuse(
            f"{root} 已经在了，而且不是题目文件夹；换一个名字。",
            f"{root} is there already and is no kit; choose another name.",
        )
    described: dict[str, Any] = {
        "kind": name, "says": {"zh": _STEPS[name].zh, "en": _STEPS[name].en}, "cases": {},
    }  # fmt: skip
    for case in CASES:
        problem = probes.problem(KINDS[name], case)
        place = root / case
        place.mkdir(parents=True, exist_ok=True)
        arrays = {k: v for k, v in asdict(problem).items() if isinstance(v, np.ndarray)}
        arrays.pop("mask", None)  # the kit says "causal"; −inf cannot be written as JSON
        for key, array in arrays.items():
            np.save(place / f"{key}.npy", array)
            (place / f"{key}.json").write_text(json.dumps(array.tolist()), encoding="utf-8")
            array.astype("<f4").tofile(place / f"{key}.bin")
        wanted = result(problem)
        assert wanted is not None
        described["cases"][case] = {
            "inputs": {key: list(array.shape) for key, array in arrays.items()},
            "numbers": {
                n: getattr(problem, n) for n in _NUMBERS if getattr(problem, n) is not None
            },
            "causal": problem.mask is not None,
            "result": list(wanted.shape),
        }
    text = json.dumps(described, ensure_ascii=False, indent=2)
    (root / "kit.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    (root / "README.txt").write_text(_readme(described), encoding="utf-8", newline="\n")
    return root


def _path(folder: Any) -> Path:
    if not isinstance(folder, str | Path):
        refuse(
            f"这里要题目文件夹的路径；给的是 {folder!r}。",
            f"the path of a kit is wanted here; it is {folder!r}.",
        )
    return Path(folder)


def _is_kit(root: Path) -> bool:
    return (root / "kit.json").is_file()


def _readme(described: Mapping[str, Any]) -> str:
    shapes = "\n".join(
        f"  {case:<7} -> {shape_text(tuple(told['result']))}"
        for case, told in described["cases"].items()
    )
    return (
        f"{described['kind']}\n\n"
        f"{described['says']['en']}\n"
        "Rows are tokens; parameter matrices are [d_in, d_out]: y = x w. The sizes (n_heads, d_head,\n"
        "…) are in kit.json. Compute the result of one case, or of several, and ask:\n\n"
        "  byhand diagnose result.npy --kit .\n\n"
        "Results are read as .npy, .json, .csv or .bin (float32). Their shapes tell the case:\n"
        f"{shapes}\n"
        "square is like most models: d_model = n_heads d_head. In wide every size is different.\n"
        "firm has scores of up to some thousand, loud of some hundred thousand: they show a softmax\n"
        "that overflows and a mask that leaks. float16 cannot hold loud; leave it out there.\n\n"
        f"{described['says']['zh']}\n"
        "行是词；参数矩阵是 [d_in, d_out]，y = x w。n_heads、d_head 这些数在 kit.json 里。\n"
        "算出一道题的结果（或者几道），再问：\n\n"
        "  byhand diagnose result.npy --kit .\n\n"
        "结果可以是 .npy、.json、.csv 或 .bin（float32）。看形状就知道是哪一道题，见上表。\n"
        "square 和大多数模型一样，d_model = n_heads d_head。wide 里每个大小都不同。\n"
        "firm 的分数大到几千，loud 的大到几十万：softmax 会不会溢出、遮罩会不会漏，在这里看得出来。\n"
        "float16 放不下 loud，用 float16 就不要算这一道。\n"
    )


def read(folder: Any) -> dict[str, Problem]:
    """The problems of a kit, by case. ValueError for a folder that is no kit or is damaged."""
    root = _path(folder)
    try:
        described = json.loads((root / "kit.json").read_text(encoding="utf-8"))
        problems = {}
        for case, told in described["cases"].items():
            arrays = {name: _npy(root / case / f"{name}.npy") for name in told["inputs"]}
            if any(list(arrays[n].shape) != shape for n, shape in told["inputs"].items()):
                raise ValueError("a shape")
            base = probes.problem(KINDS[described["kind"]], case)
            problems[case] = Problem(**{**_without_arrays(base), **arrays, **told["numbers"]})
            if result(problems[case]) is None:
                raise ValueError("sizes that do not fit")
    except Exception as error:  # whatever json and NumPy make of a damaged file
        refuse(
            f"{root} 不是完整的题目文件夹（{type(error).__name__}）。先用 byhand kit {root} 写一个。",
            f"{root} is no complete kit ({type(error).__name__}). Write one: byhand kit {root}.",
        )
    return problems


def _without_arrays(problem: Problem) -> dict[str, Any]:
    """The mask and the numbers of a problem: what a kit does not store as arrays."""
    return {"mask": problem.mask, **{n: getattr(problem, n) for n in _NUMBERS}}


def read_result(path: Any) -> Array:
    """A result from a file: .npy, .json (nested lists), .csv, or .bin (float32, little-endian).

    A .bin has one axis, whatever the result; a .csv has two. ValueError for anything else.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind not in (".npy", ".json", ".csv", ".bin"):
        refuse(
            f"{file.name}：认得的是 .npy、.json、.csv 和 .bin。",
            f"{file.name}: a .npy, .json, .csv or .bin is wanted.",
        )
    try:
        if kind == ".npy":
            array = _npy(file)
        elif kind == ".json":
            array = np.array(json.loads(file.read_text(encoding="utf-8-sig")))
        elif kind == ".csv":
            array = _csv(file.read_text(encoding="utf-8-sig"))
        else:
            raw = file.read_bytes()
            if len(raw) % 4:
                raise ValueError(f"{len(raw)} bytes are no whole number of float32")
            array = np.frombuffer(raw, "<f4")
    except FileNotFoundError:
        refuse(f"没有 {file} 这个文件。", f"there is no file {file}.")
    except Exception as error:  # whatever json and NumPy make of a damaged file
        told = " ".join(str(error).split())[:200]
        refuse(f"{file.name} 读不出来：{told}", f"{file.name} cannot be read: {told}")
    return _as_result(array, file.name)


def _npy(file: Path) -> Any:
    with file.open("rb") as opened:  # NumPy leaves a damaged file open
        return np.load(opened, allow_pickle=False)


def _csv(text: str) -> Array:
    """Rows of numbers; a first line of words is a header.

    Numbers are set apart by commas, semicolons, tabs or spaces; beside semicolons or tabs a comma is
    a decimal point.
    """
    rows = []
    for n, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        mark = next((m for m in (";", "\t", ",") if m in line), None)
        cells = line.split(mark)
        if mark in (";", "\t"):
            cells = [cell.replace(",", ".") for cell in cells]
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            if n or any(map(_is_number, cells)):
                raise
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows differ in length")
    return np.array(rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_result(value: Any, name: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiu" or array.ndim == 0 or array.size == 0:
        refuse(
            f"{name} 里要是一个数的数组；得到的是 {array.dtype}，形状 {shape_text(array.shape)}。",
            f"{name} must hold an array of numbers; it is {array.dtype}, {shape_text(array.shape)}.",
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def diagnose_output(output: Any, folder: Any, lang: str | None) -> Diagnosis:
    """The diagnosis of results of a kit: one array, or several in a list or dict."""
    problems = read(folder)
    several = isinstance(output, list | tuple) and all(isinstance(o, np.ndarray) for o in output)
    given: Sequence[Any] = (
        list(output.values()) if isinstance(output, Mapping) else output if several else [output]
    )
    if not given:
        refuse("没有结果可查。", "there is no result to look at.")
    found: dict[str, Array] = {}
    for value in given:
        array = _as_result(value, "output")
        case = _case_of(array, problems)
        if case is None:
            listed = ", ".join(shape_text(_shape(p)) for p in problems.values())
            line = Line(
                f"结果的形状是 {shape_text(array.shape)}；这个文件夹里的题，结果的形状是 {listed}。",
                f"The result has the shape {shape_text(array.shape)}; the problems of this kit have "
                f"results of the shapes {listed}.",
            )
            return Diagnosis(False, (), None, None, (line,), lang)
        if case in found:
            refuse(
                f"{case} 这道题的结果给了两份；一次只查一份。",
                f"there are two results of the problem {case}; give one at a time.",
            )
        found[case] = array.reshape(_shape(problems[case])) if array.ndim == 1 else array
    book = Book(problems)
    places = {decimals(array) for array in found.values()}
    match = book.match(found, places=max(p for p in places if p) if None not in places else None)
    if match is None or (not match.sharp() and not match.rounded):
        case = next(c for c in CASES if c in found)
        stage, lines = symptoms.examine(problems[case], Outcome(found[case], {}, None), None)
        told = (*report.unknown(found[case]), *report.near(match), *lines)
        return Diagnosis(False, (), None, stage, told, lang)
    lines = report.headline(match)
    missing = [case for case in CASES if case not in found]
    if match.correct and missing and match.sharp():
        listed = ", ".join(missing)
        zh, en = f"还没有对过：{listed}。", f"Not compared yet: {listed}."
        if {"firm", "loud"} & set(missing):
            zh += (
                "softmax 没有减最大值，要在 firm 或 loud 里才看得出来；遮罩是有限数，要在 loud 里。"
            )
            en += (
                " No maximum subtracted in the softmax shows only in firm and loud, a finite mask "
                "only in loud."
            )
        lines.append(Line(zh, en))
    return Diagnosis(
        match.correct and not match.differ,
        () if match.correct else match.explanations,
        match.precision,
        None,
        tuple(lines),
        lang,
    )


def _shape(problem: Problem) -> tuple[int, ...]:
    wanted = result(problem)
    assert wanted is not None
    return wanted.shape


def _case_of(array: Array, problems: Mapping[str, Problem]) -> str | None:
    """The case with that shape, else with that number of numbers, else of rows."""
    shapes = {case: _shape(p) for case, p in problems.items()}
    for same in (
        lambda shape: array.shape == shape,
        lambda shape: array.ndim == 1 and array.size == int(np.prod(shape)),
        lambda shape: array.ndim == len(shape) and array.shape[-2] == shape[-2],
        lambda shape: array.ndim == len(shape) and array.shape[::-1] == shape,
    ):
        for case, shape in shapes.items():
            if same(shape):
                return case
    return None

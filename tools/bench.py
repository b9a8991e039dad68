"""Time the attention of one Qwen2.5-7B layer: ours, Hugging Face's, and what this machine can do.

    python tools/bench.py [--rounds 5] [--sizes 1,6,64,512,2048,4096] [--no-file]

Each side has its own process, new in every round; they take turns, the others idle meanwhile.
The table goes to benchmarks/YYYY-MM-DD.md. Hugging Face's side needs torch and transformers
(make oracle installs them).
"""

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

import reference
from byhand import fast, models, qwen, rope
from byhand.checks import Array

ROOT = Path(__file__).resolve().parents[1]
MODEL = models.read("Qwen2.5-7B")
SIZES = (1, 6, 64, 512, 2048, 4096)
READABLE_SIZES = (6, 512)  # where the readable path is timed as well
ROUNDS = 5
TURNS = 2  # in a round, at each size
LONG = 512  # from so many tokens on a call need not be warmed up for anew in every turn
FEW = 6  # up to so many tokens the layer is bound by reading its weights, above by arithmetic
FIT_FROM = 64  # tokens; what the straight line is laid through
READ_BYTES = 400e6
EXP_REPEATS = 20  # of a tile of scores, in each thread
PAUSE = 0.1  # seconds before each turn: threads of the side before may still spin, awaiting work
MIB = 2**20

MAX_RATIO_FEW, MAX_RATIO = 0.75, 1.0  # our time / Hugging Face's, up to FEW tokens and above
MIN_SHARE, SHARE_FROM = 0.85, 512  # of the machine's matrix product, from so many tokens on
MAX_MEMORY, MEMORY_AT = 100, 4096  # MiB of the attention core, at so many tokens

Worker = Callable[..., dict[str, Any]]


class Times(NamedTuple):
    """What one side took, in seconds."""

    median: float
    best: float


class Turn(NamedTuple):
    """One turn at one size. Without torch, `theirs` is None."""

    ours: Times
    theirs: Times | None
    limit: float  # FLOP/s or bytes/s
    exp_limit: float = math.inf  # exponentials a second, on all threads


class Memory(NamedTuple):
    """The peak of what the attention core allocates beyond its arguments, in MiB."""

    work: float  # without the context it returns
    all: float  # with it


class Row(NamedTuple):
    """One line of the table."""

    size: int
    ours: Times
    theirs: Times | None
    ratio: float | None
    ratios: tuple[float, float] | None  # lowest and highest of the turns
    flops: int
    rate: float  # FLOP/s
    limit: float
    share: float
    shares: tuple[float, float]  # lowest and highest of the turns
    share_with_exp: float  # of a machine that would do the products, then the exponentials
    memory: Memory


class Fit(NamedTuple):
    """time = start + flops / rate."""

    start: float  # seconds
    rate: float  # FLOP/s
    residuals: dict[int, float]  # by size, (measured − fitted) / measured


class Target(NamedTuple):
    """Something the layer is meant to reach."""

    text: str
    measured: str
    met: bool


# What the numbers say: nothing here takes a time.


def flops(size: int) -> int:
    """The operations of the layer's attention for `size` tokens, scores below the diagonal only."""
    return sum(models.attention_flops(MODEL, size).values())


def exponentials(size: int) -> int:
    """One for each query head and each pair of tokens the causal mask leaves."""
    return MODEL.n_heads * models.pairs(size, size)


def weight_bytes() -> int:
    """What has to be read however few tokens there are."""
    return 4 * sum(models.attention_parameters(MODEL).values())


def row(size: int, turns: list[Turn], memory: Memory) -> Row:
    """One line of the table: medians over the turns, and the best of all."""
    ours = _over([t.ours for t in turns])
    pairs = [(t.ours.median, t.theirs) for t in turns if t.theirs is not None]
    ratios = [mine / other.median for mine, other in pairs]
    work = weight_bytes() if size <= FEW else flops(size)
    shares = [work / t.ours.median / t.limit for t in turns]
    least = [work / t.limit + exponentials(size) / t.exp_limit for t in turns]  # seconds
    with_exp = [seconds / t.ours.median for seconds, t in zip(least, turns, strict=True)]
    return Row(
        size=size,
        ours=ours,
        theirs=_over([other for _, other in pairs]) if pairs else None,
        ratio=statistics.median(ratios) if ratios else None,
        ratios=(min(ratios), max(ratios)) if ratios else None,
        flops=flops(size),
        rate=flops(size) / ours.median,
        limit=statistics.median(t.limit for t in turns),
        share=statistics.median(shares),
        shares=(min(shares), max(shares)),
        share_with_exp=statistics.median(with_exp),
        memory=memory,
    )


def fit(rows: Iterable[Row]) -> Fit | None:
    """The straight line through the medians from FIT_FROM tokens on; None with fewer than three.

    Each point weighs 1/time, so that it is the relative residuals that are made small.
    """
    used = [r for r in rows if r.size >= FIT_FROM]
    if len(used) < 3:
        return None
    work = np.array([r.flops for r in used], np.float64)
    seconds = np.array([r.ours.median for r in used])
    slope, start = np.polyfit(work, seconds, 1, w=1 / seconds)
    residuals = 1 - (start + slope * work) / seconds
    by_size = {r.size: float(x) for r, x in zip(used, residuals, strict=True)}
    return Fit(float(start), float(1 / slope), by_size)


def exponents(smaller: Row, larger: Row) -> tuple[float, float]:
    """By which power of the number of tokens time and FLOP count grow from one row to the other."""
    step = math.log(larger.size / smaller.size)
    time_grows = math.log(larger.ours.median / smaller.ours.median) / step
    return time_grows, math.log(larger.flops / smaller.flops) / step


def targets(rows: Iterable[Row]) -> list[Target]:
    """Every target that these rows can tell about, and whether it is met."""
    found = []
    for r in rows:
        at = f"at {r.size:,} token{'s' if r.size > 1 else ''}"
        if r.ratio is not None:
            most = MAX_RATIO_FEW if r.size <= FEW else MAX_RATIO
            text = f"ours / Hugging Face's {at}: at most {most:.2f}"
            found.append(Target(text, f"{r.ratio:.2f}", r.ratio <= most))
        if r.size >= SHARE_FROM:
            text = f"share of the machine's matrix product {at}: at least {MIN_SHARE:.0%}"
            found.append(Target(text, f"{r.share:.0%}", r.share >= MIN_SHARE))
            text = f"share of its products and exponentials {at}: at least {MIN_SHARE:.0%}"
            found.append(Target(text, f"{r.share_with_exp:.0%}", r.share_with_exp >= MIN_SHARE))
        if r.size == MEMORY_AT:
            text = (
                f"memory of the attention core {at}, its result included: at most {MAX_MEMORY} MiB"
            )
            found.append(Target(text, f"{r.memory.all:.1f} MiB", r.memory.all <= MAX_MEMORY))
    return found


def report(rows: list[Row], readable: Mapping[int, Times], n_rounds: int) -> str:
    """The measurements as Markdown."""
    text = [
        f"One layer, float32, no cache, {os.cpu_count()} threads a side. Rounds: {n_rounds}, each "
        f"with new processes, one for the machine's limit, one for ours, one for Hugging Face's "
        f"(`Qwen2Attention`, sdpa). In a round they take {TURNS} turns at each size, one after the "
        "other, in the opposite order every other time, after a call of each that does not count. A "
        "time is the median of the calls of a turn, then the median over all turns; in brackets "
        "the shortest call of all. Ratio and share are formed within a turn, then the median is "
        "taken; in brackets the lowest and the highest of a turn. Hugging Face's side gets cos and "
        "sin of the rotation ready made; ours computes them.",
        "",
        f"The limit, in GFLOP/s, is what NumPy's own product of two matrices reaches, [S, "
        f"{MODEL.d_model}] x [{MODEL.d_model}, {MODEL.d_model}] with S tokens, as W_Q and W_O have it; "
        f"up to {FEW} tokens it is the speed of reading, in GB/s, the better of a dot product and "
        f"a matrix-vector product over {READ_BYTES / 1e6:.0f} MB, and the share is that of reading "
        f"the layer's {weight_bytes() / 1e6:.0f} MB of weights once. A softmax also takes "
        "exponentials, one for each head and each pair of tokens; the last share counts the time "
        "that NumPy's exp needs for them at its fastest, all threads at work. Memory is the peak of what "
        "NumPy allocates in `fast.core`, all threads together, without and with the context it "
        "returns.",
        "",
        "| tokens | ours, ms | Hugging Face, ms | ratio | GFLOP | ours, GFLOP/s | limit | share "
        "| with exp | core, MiB |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_line(r) for r in rows),
        "",
    ]
    for size, times in readable.items():
        text += [f"The readable path (`qwen.attend`) at {size} tokens: {_ms(times)} ms.", ""]
    if line := fit(rows):
        off = ", ".join(f"{x:+.1%} at {size:,}" for size, x in line.residuals.items())
        text += [
            f"Fit from {FIT_FROM} tokens on: time = {1e3 * line.start:.1f} ms + FLOP / "
            f"({line.rate / 1e9:.1f} GFLOP/s). Off by {off} tokens.",
            "",
        ]
    large = [r for r in rows if r.size >= FIT_FROM][-2:]
    if len(large) == 2:
        time_grows, flops_grow = exponents(*large)
        text += [
            f"From {large[0].size:,} to {large[1].size:,} tokens the time grows by the power "
            f"{time_grows:.2f} of their number, the FLOP count by {flops_grow:.2f}.",
            "",
        ]
    if reached := targets(rows):
        text += ["| target | measured | |", "|---|--:|---|"]
        text += [f"| {t.text} | {t.measured} | {'met' if t.met else 'not met'} |" for t in reached]
    return "\n".join(text).rstrip()


def _over(times: list[Times]) -> Times:
    return Times(statistics.median(t.median for t in times), min(t.best for t in times))


def _ms(times: Times) -> str:
    return f"{1e3 * times.median:.1f} ({1e3 * times.best:.1f})"


def _line(r: Row) -> str:
    theirs = "–" if r.theirs is None else _ms(r.theirs)
    ratio = "–"
    if r.ratio is not None and r.ratios is not None:
        ratio = f"{r.ratio:.2f} ({r.ratios[0]:.2f}–{r.ratios[1]:.2f})"
    limit = f"{r.limit / 1e9:.1f} {'GB/s' if r.size <= FEW else 'GFLOP/s'}"
    share = f"{r.share:.0%} ({r.shares[0]:.0%}–{r.shares[1]:.0%})"
    memory = f"{r.memory.work:.1f} / {r.memory.all:.1f}"
    cells = [f"{r.size:,}", _ms(r.ours), theirs, ratio, f"{r.flops / 1e9:.2f}"]
    cells += [f"{r.rate / 1e9:.1f}", limit, share, f"{r.share_with_exp:.0%}", memory]
    return "| " + " | ".join(cells) + " |"


# The workers: each answers one request a line, {"do": …, "size": …}, until its input ends.


def ours() -> Worker:
    weights, shape = qwen.seeded_weights(reference.SHAPE), reference.SHAPE

    def answer(do: str, size: int) -> dict[str, Any]:
        if do == "memory":
            return _core_memory(size)._asdict()
        h = reference.rows(size)
        path = qwen.attend if do == "readable" else fast.attend
        return _timed(lambda: path(h, weights, shape), do, size)._asdict()

    return answer


def theirs() -> Worker:
    import torch  # here: the other workers must not load it

    import oracle

    torch.set_num_threads(os.cpu_count() or 1)
    made = oracle.layer(qwen.seeded_weights(reference.SHAPE), reference.SHAPE, "sdpa")

    def answer(do: str, size: int) -> dict[str, Any]:
        if do == "versions":
            mkl = "MKL" if torch.backends.mkl.is_available() else "without MKL"
            return {"torch": f"{torch.__version__}, {mkl}", "transformers": oracle.version()}
        states = torch.from_numpy(reference.rows(size))[None]
        with torch.inference_mode():
            turn = made.rotary(states, torch.arange(size)[None])
            return _timed(lambda: made.attention(states, turn, None), do, size)._asdict()

    return answer


def limits() -> Worker:
    rng = np.random.default_rng(0)
    b = rng.random((MODEL.d_model, MODEL.d_model), np.float32).T  # as the layer's: a view
    long = np.ones((round(READ_BYTES / 4 / MODEL.d_model), MODEL.d_model), np.float32)
    flat, x = long.reshape(-1), rng.random(MODEL.d_model, np.float32)
    n_threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(n_threads)
    tiles = [-10 * rng.random(fast.TILE_SIZE, np.float32) for _ in range(n_threads)]

    def exponentiate(tile: Array) -> None:
        result = np.empty_like(tile)
        for _ in range(EXP_REPEATS):
            np.exp(tile, out=result)

    def answer(do: str, size: int) -> dict[str, Any]:
        if size <= FEW:
            reads = (lambda: flat @ flat), (lambda: long @ x)
            return {"limit": long.nbytes / min(_timed(read, do, LONG).median for read in reads)}
        a = reference.rows(size)
        out = np.empty_like(a)
        seconds = _timed(lambda: np.matmul(a, b, out=out), do, size).median
        exps = _timed(lambda: list(pool.map(exponentiate, tiles)), do, LONG).median
        n_exps = EXP_REPEATS * sum(tile.size for tile in tiles)
        return {"limit": 2 * a.size * MODEL.d_model / seconds, "exp_limit": n_exps / exps}

    return answer


WORKERS = {"limits": limits, "ours": ours, "theirs": theirs}


def _timed(call: Callable[[], object], do: str, size: int) -> Times:
    """Time as many calls as suit so many tokens; short ones once more, before, to warm up."""
    n_calls = 1 if do == "warm up" else max(1, min(20, 2 * LONG // size))
    if size < LONG:
        call()
    seconds = []
    for _ in range(n_calls):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return Times(statistics.median(seconds), min(seconds))


def _core_memory(size: int) -> Memory:
    q, k, v = reference.heads(size)
    turn = rope.angles(np.arange(size), MODEL.d_head, reference.SHAPE.rope_theta)
    arguments = np.ascontiguousarray(q.swapaxes(0, 1))[None], k[None], v[None], turn
    fast.core(*arguments)
    tracemalloc.start()
    context = fast.core(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Memory((peak - context.nbytes) / MIB, peak / MIB)


def serve(name: str) -> None:
    """Be the worker of that name."""
    answer = WORKERS[name]()
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


# The one that asks.


@contextmanager
def started(names: Iterable[str]) -> Iterator[dict[str, Worker]]:
    """The workers in processes of their own, as functions; they end with the block."""
    threads = str(os.cpu_count() or 1)
    env = {
        k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    }
    env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    running: dict[str, subprocess.Popen[str]] = {}

    def ask(name: str) -> Worker:
        process = running[name] = subprocess.Popen(
            [sys.executable, __file__, "--worker", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=env,
        )  # fmt: skip

        def request(do: str, size: int = 1) -> dict[str, Any]:
            assert process.stdin is not None and process.stdout is not None
            time.sleep(PAUSE)
            process.stdin.write(json.dumps({"do": do, "size": size}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                sys.exit(f"The worker {name!r} stopped; what it said is above.")
            answer: dict[str, Any] = json.loads(line)
            return answer

        return request

    try:
        yield {name: ask(name) for name in names}
    finally:
        for process in running.values():
            process.communicate()  # closes its input, upon which it ends


def measure(sizes: tuple[int, ...], n_rounds: int) -> tuple[str, dict[str, str]]:
    """The report, and the versions of torch and transformers, if they are there."""
    both = find_spec("torch") is not None and find_spec("transformers") is not None
    if not both:
        print('Hugging Face\'s side needs torch and transformers: pip install -e ".[oracle]"')
    names = ["limits", "ours", *(["theirs"] if both else [])]
    turns: dict[int, list[Turn]] = {size: [] for size in sizes}
    readable: dict[int, list[Times]] = {size: [] for size in READABLE_SIZES if size in sizes}
    memory: dict[int, Memory] = {}
    versions: dict[str, str] = {}
    for n in range(n_rounds):
        with started(names) as ask:
            if both:
                versions = ask["theirs"]("versions")
            for size in sizes:
                print(f"round {n + 1} of {n_rounds}: {size:5} tokens", file=sys.stderr, flush=True)
                for name in names:
                    ask[name]("warm up", size)
                for m in range(TURNS):  # ours is always between the other two
                    order = names if m % 2 == 0 else names[::-1]
                    said = {name: ask[name]("time", size) for name in order}
                    other = Times(**said["theirs"]) if both else None
                    turns[size].append(Turn(Times(**said["ours"]), other, **said["limits"]))
                if size in readable:
                    readable[size].append(Times(**ask["ours"]("readable", size)))
                if n == 0:
                    memory[size] = Memory(**ask["ours"]("memory", size))
    rows = [row(size, turns[size], memory[size]) for size in sizes]
    return report(rows, {s: _over(t) for s, t in readable.items()}, n_rounds), versions


def machine() -> list[str]:
    """What it runs on: no name of the machine, of a person or of a folder."""
    blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    named = "; ".join(
        f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', 'unknown')})"
        for lib in blas
    )
    return [
        f"processor: {_processor()}, {os.cpu_count()} cores, {_memory()}",
        f"system: {_system()}{_load()}",
        f"Python {platform.python_version()}",
        f"NumPy {np.__version__}, {named or 'BLAS unknown'}",
        f"commit {_commit()}",
    ]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of RAM"
    except (AttributeError, ValueError):  # Windows has no sysconf
        return "RAM unknown"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _load() -> str:
    """What the machine is busy with, where the system tells."""
    if not hasattr(os, "getloadavg"):  # Windows
        return ""
    return f", load average before: {os.getloadavg()[0]:.1f}"


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "lib/byhand", "tools")
        return git("rev-parse", "--short", "HEAD") + (", with changes on top" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def count(text: str) -> int:
    """A whole number, 1 or more."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def sizes_of(text: str) -> tuple[int, ...]:
    """64,1,6 -> (1, 6, 64)"""
    return tuple(sorted({count(part) for part in text.split(",")}))


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.py", description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=count, default=ROUNDS, metavar="N")
    options.add_argument("--sizes", type=sizes_of, default=SIZES, metavar="1,6,…")
    options.add_argument("--no-file", action="store_true", help="print only")
    options.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        serve(chosen.worker)
        return
    today = datetime.date.today().isoformat()
    about = machine()  # before this makes it busy
    table, versions = measure(chosen.sizes, chosen.rounds)
    about += [f"{name} {version}" for name, version in versions.items()]
    listed = "\n".join(f"- {line}" for line in about)
    text = f"# {MODEL.name}, the attention of one layer, {today}\n\n{listed}\n\n{table}\n"
    print(text)
    if not chosen.no_file:
        target = ROOT / "benchmarks" / f"{today}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"written to {target.relative_to(ROOT).as_posix()}")


if __name__ == "__main__":
    main()

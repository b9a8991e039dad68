"""`diagnose`: what went wrong in an attention function, or in results computed elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from byhand import calls, mistakes, modules, probes, report, symptoms
from byhand import kit as kits
from byhand.calls import Line, Outcome, Wanted
from byhand.checks import Array, refuse, shape_text, whole
from byhand.matching import Match, book
from byhand.probes import Kind
from byhand.report import Diagnosis
from byhand.rope import frequencies
from byhand.steps import Problem, result
from byhand.words import edition

SECONDS: Final = 10.0

# How a mask can be handed over: what the function takes, and the array for it.
_MASKS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "added": lambda mask: mask,
    "true = may look": lambda mask: mask == 0,
    "1 = may look": lambda mask: (mask == 0).astype(int),
    "true = may not": lambda mask: mask != 0,
}
_MASK_WORDS: Final = {
    "added": Line(
        "遮罩是加上去的：可以看的是 0，不能看的是 −∞",
        "its mask is added: 0 where a query may look, −∞ where it may not",
    ),
    "true = may look": Line("遮罩里 True 是可以看", "in its mask True means: may look"),
    "1 = may look": Line("遮罩里 1 是可以看", "in its mask 1 means: may look"),
    "true = may not": Line(
        "遮罩里 True 是不能看（PyTorch 里两种约定都有，别混用）",
        "in its mask True means: may NOT look (PyTorch has both conventions; keep them apart)",
    ),
}
_OUT_IN: Final = Line(
    "它的参数矩阵按 [d_out, d_in] 存（像 nn.Linear 和 GGUF）",
    "its parameter matrices are stored [d_out, d_in], as in nn.Linear and GGUF",
)


@dataclass(frozen=True)
class _Way:
    """One way to call the function: with which kind of problem, masks and weights."""

    kind: Kind
    mask: str = "added"
    out_in: bool = False


@np.errstate(all="ignore")  # whatever the reader's session says of overflows
def diagnose(
    function: Callable[..., Any] | None = None,
    *,
    output: Any = None,
    kit: Any = None,
    causal: bool | None = None,
    n_heads: int | None = None,
    n_kv_heads: int | None = None,
    theta: float | None = None,
    lang: str | None = None,
    seconds: float = SECONDS,
) -> Diagnosis:
    """What is wrong with an attention: which mistake of the catalogue, or which two, it makes.

    Either `function`, which is called on small problems. Its inputs are found by the names of its
    parameters: q, k, v [.., n, d]; or x [.., S, d_model], w_q, w_k, w_v [d_model, n_heads·d_head],
    and as it wants them w_o, b_q, b_k, b_v, n_heads, n_kv_heads, mask, theta, gain, eps. Where it
    has no parameter for them but sizes or a mask of its own, `n_heads`, `n_kv_heads`, `theta` and
    `causal` say so; with `causal` None both readings are tried. It returns the context (q, k, v, or
    no w_o), the output after W_O, or with `gain` x plus that.
    A PyTorch module can be given as it is: its layers are found by their names, and a copy of it is
    filled with the weights of the problems.

    Or `output`, the results of a `kit` (see `kit.write`) computed elsewhere: an array or several.

    All calls together may take `seconds`. The answer is in the language of `lang`, both where it is
    None. ValueError for wrong arguments of diagnose itself, never for what the function does.
    """
    if lang is not None:
        edition(lang)
    if (function is None) == (output is None) or (output is not None) != (kit is not None):
        refuse(
            "给一个函数：diagnose(函数)；或者给算好的结果：diagnose(output=数组, kit=文件夹)。",
            "give a function: diagnose(function); or results: diagnose(output=array, kit=folder).",
        )
    if output is not None:
        return kits.diagnose_output(output, kit, lang)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e6:
        refuse(
            f"seconds 是最多等多少秒，要大于 0；给的是 {seconds!r}。",
            f"seconds, the longest time to wait, must be above 0; it is {seconds!r}.",
        )
    for name, number in (("n_heads", n_heads), ("n_kv_heads", n_kv_heads)):
        if number is not None:
            whole(name, number)
    if theta is not None:
        frequencies(2, theta)  # which refuses what is no base
    if not callable(function):
        refuse(
            f"第一个参数要是函数；给的是 {type(function).__name__}。算好的结果写 output=…, kit=…。",
            f"the first argument must be a function; it is a {type(function).__name__}. "
            f"Results are given as output=…, kit=….",
        )
    assert function is not None
    if modules.is_module(function):
        return _of_module(function, _Sizes(n_heads, n_kv_heads, theta, causal), lang, seconds)
    wanted = calls.wanted(function)
    if isinstance(wanted, Line):
        return report.told((wanted,), lang)
    sizes = _Sizes(n_heads, n_kv_heads, theta, causal)
    return _Patient(function, wanted, sizes, lang, seconds).examined()


def _of_module(module: Any, sizes: "_Sizes", lang: str | None, seconds: float) -> Diagnosis:
    """The diagnosis of a PyTorch module."""
    if isinstance(module, type):
        line = Line(
            f"这是一个类；给一个做好的模块：diagnose({module.__name__}(…))。",
            f"this is a class; give a module made of it: diagnose({module.__name__}(…)).",
        )
        return report.told((line,), lang)
    if modules.slices_of(module):
        found = Match((("heads_slice_x",),), "float64", 0.0, (), (), False)
        return report.told(tuple(report.headline(found)), lang, mistakes=found.explanations)
    answers = []
    for by_head in (False, True) if modules.is_fused(module) else (False,):
        adapted = modules.as_function(module, sizes.n_heads, by_head)
        if isinstance(adapted, Line):
            return report.told((adapted,), lang)
        function, layers = adapted
        own = replace(
            sizes, n_heads=layers.n_heads, n_kv_heads=layers.n_kv_heads, d_head=layers.d_head,
            d_model=layers.d_model,
        )  # fmt: skip
        wanted = calls.wanted(function)
        assert isinstance(wanted, Wanted)
        answer = _Patient(function, wanted, own, lang, seconds).examined()
        if layers.guessed and not answer.correct:
            line = Line(
                "没有找到头数，当作一个头来算的；不是的话，写 diagnose(…, n_heads=…)。",
                "The number of heads was not found, and one was assumed; if it has more, write "
                "diagnose(…, n_heads=…).",
            )
            answer = replace(answer, lines=(*answer.lines, line))
        answers.append(answer)
    # right before wrong, one mistake before two, two before none that is known
    return min(answers, key=lambda a: (not a.correct, len(a.mistakes[0]) if a.mistakes else 3))


@dataclass(frozen=True)
class _Sizes:
    n_heads: int | None
    n_kv_heads: int | None
    theta: float | None
    causal: bool | None
    d_head: int = 0
    d_model: int = 0


class _Patient:
    """A function under examination."""

    def __init__(
        self,
        function: Callable[..., Any],
        wanted: Wanted,
        sizes: _Sizes,
        lang: str | None,
        seconds: float,
    ) -> None:
        self.function, self.wanted, self.lang = function, wanted, lang
        self.left = seconds  # for all calls together
        self.kind = _kind(wanted, sizes)
        self.masked = wanted.has("mask") or wanted.has("causal")
        self.readings = (
            (True,) if self.masked else (False, True) if sizes.causal is None else (sizes.causal,)
        )

    # ---- calling

    def call(self, way: _Way, problem: Problem) -> Outcome:
        inputs = {name: _input(role, problem, way) for name, role in self.wanted.roles.items()}
        inputs = {n: v for n, v in inputs.items() if v is not None or n not in self.wanted.optional}
        begun = time.monotonic()
        outcome = calls.call(self.function, inputs, max(self.left, 0.0))
        self.left -= time.monotonic() - begun
        return outcome

    def ways(self, leading: tuple[int, ...]) -> Iterator[_Way]:
        """Every way to hand over masks and weights, the usual first."""
        masks = _MASKS if self.wanted.has("mask") else ("added",)
        fixed = self.kind.d_model > 0  # a module, whose layers say how weights are stored
        sides = (False, True) if self.kind.from_x and not fixed else (False,)
        for out_in, mask in product(sides, masks):
            yield _Way(replace(self.kind, leading=leading), mask, out_in)

    def layouts(self) -> tuple[tuple[int, ...], ...]:
        """The leading axes to try, in turn."""
        if self.kind.d_model:  # a module
            return (probes.BATCH, ())
        return ((), probes.BATCH) if self.kind.from_x else ((), (2, 3), (2,))

    def _asker(self, way: _Way) -> symptoms.Ask:
        return lambda problem: self.call(way, problem).output

    # ---- examining

    def examined(self) -> Diagnosis:
        first: Line | None = None
        for leading in self.layouts():
            answer = self._in_layout(leading)
            if isinstance(answer, Diagnosis):
                return answer
            first = first or answer
        assert first is not None
        return self._without(first)

    def _without(self, why: Line) -> Diagnosis:
        return report.told((Line(f"✗ 没有算成：{why.zh}", f"✗ No result: {why.en}"),), self.lang)

    def _in_layout(self, leading: tuple[int, ...]) -> Diagnosis | Line:
        """The diagnosis with these leading axes, or why the function does not take them."""
        trouble: Line | None = None
        usual: tuple[_Way, dict[str, Outcome]] | None = None
        tried: list[tuple[_Way, dict[str, Array]]] = []
        best: tuple[_Way, Match] | None = None
        last = list(_MASKS)[-1] if self.wanted.has("mask") else "added"
        for way in self.ways(leading):
            if way.out_in and best is not None and not _transposes(best[1]):
                break
            outcomes = {
                case: self.call(way, probes.problem(self._reading(way, self.readings[-1]), case))
                for case in probes.cases(self.kind)
            }
            for outcome in outcomes.values():
                if outcome.slow and outcome.trouble is not None:
                    return self._without(outcome.trouble)
            found = self._results(way, outcomes, leading)
            if not found:
                trouble = trouble or outcomes["square"].trouble or _other_axes(outcomes["square"])
                continue
            usual = usual or (way, outcomes)
            tried += [(way, results) for results in found]
            best = self._best(best, [(way, results) for results in found], at_once=1)
            if best is not None and best[1].correct and not best[1].differ and way.mask == last:
                break
        if usual is None:
            assert trouble is not None
            return trouble
        if (
            best is None or best[1].differ or not best[1].sharp()
        ):  # two at once may explain it better
            best = self._best(best, tried, at_once=2)
        if best is None:
            return self._unexplained(*usual, None)
        way, match = best
        if not match.sharp() and not match.rounded and not self._rounds(way, match):
            return self._unexplained(*usual, match)
        others = self._best(None, [w for w in tried if w[0].mask != way.mask], at_once=1)
        return self._explained(way, match, usual[1], others)

    def _best(
        self,
        best: tuple[_Way, Match] | None,
        tried: list[tuple[_Way, dict[str, Array]]],
        at_once: int,
    ) -> tuple[_Way, Match] | None:
        """The best explanation of results, over both readings, or the one there was."""
        readings = self.readings
        if at_once > 1 and len(readings) == 2 and tried and not self._leaks(tried[0][0]):
            readings = (True,)  # nobody hides the future by accident
        for causal, (way, results) in product(readings, tried):
            kind = self._reading(way, causal)
            match = book(kind).match(results, at_once)
            if match is not None and (best is None or match.rank() < best[1].rank()):
                best = replace(way, kind=kind), match
        return best

    def _leaks(self, way: _Way) -> bool:
        """Whether an earlier row of the result depends on the last token."""
        kind = self._reading(way, True)
        return bool(symptoms.leaks(probes.problem(kind, "square"), self._asker(way)))

    def _results(
        self, way: _Way, outcomes: Mapping[str, Outcome], leading: tuple[int, ...]
    ) -> list[dict[str, Array]]:
        """The results by case; of a function that returns several, each of the right shape."""
        main = {c: o.output for c, o in outcomes.items() if o.output is not None}
        if leading != self.layouts()[-1]:  # it may want an axis more
            main = {c: a for c, a in main.items() if a.ndim == 2 + len(leading)}
        if not main:
            return []
        case = next(iter(main))
        wanted = result(probes.problem(self._reading(way, self.readings[-1]), case))
        several = [main]
        for name, array in outcomes[case].stages.items():
            if wanted is not None and array.shape == wanted.shape:
                others = {c: o.stages.get(name) for c, o in outcomes.items()}
                several.append({c: a for c, a in others.items() if a is not None})
        return several

    def _rounds(self, way: _Way, match: Match) -> bool:
        """Whether the function computes in low precision: a tiny change is lost then, or too large."""
        made = mistakes.together(*map(mistakes.find, match.explanations[0]))
        problem = probes.problem(way.kind, "square")
        before = self.call(way, problem).output
        for name in ("w_q", "w_v") if way.kind.from_x else ("q", "v"):
            nudged = replace(problem, **{name: getattr(problem, name) * (1 + 2.0**-20)})
            after = self.call(way, nudged).output
            explained = [result(p, made) for p in (problem, nudged)]
            if before is None or after is None or before.shape != after.shape:
                return False
            wanted = np.asarray(explained[1]) - np.asarray(explained[0])
            gap = np.linalg.norm(after.astype(np.float64) - before - wanted)
            if gap > 0.5 * np.linalg.norm(wanted):
                return True
        return False

    def _reading(self, way: _Way, causal: bool) -> Kind:
        own_mask = not self.masked and True in self.readings
        return replace(way.kind, causal=causal, own_mask=own_mask)

    # ---- telling

    def _explained(
        self,
        way: _Way,
        match: Match,
        outcomes: Mapping[str, Outcome],
        otherwise: tuple[_Way, Match] | None,
    ) -> Diagnosis:
        overflow = _overflow(outcomes, match) if match.correct else None
        lines = [*report.headline(match)] if overflow is None else [overflow]
        if match.correct and overflow is None:
            lines += self._how(way) + _with_another_mask(otherwise)
            lines += self._with_leading(way)
            lines += _failed_cases(outcomes)
        lines += outcomes["square"].notes
        return report.told(
            tuple(lines), self.lang,
            correct=match.correct and not match.differ and overflow is None,
            mistakes=() if match.correct else match.explanations, precision=match.precision,
        )  # fmt: skip

    def _how(self, way: _Way) -> list[Line]:
        """What the function was understood to be."""
        lines = []
        if not self.masked and way.kind.causal != bool(self.readings[0]):
            lines.append(Line("它带因果遮罩。", "It has a causal mask."))
        elif not self.masked and len(self.readings) == 2:
            lines.append(
                Line(
                    "它没有因果遮罩；应该有的话，写 diagnose(…, causal=True)。",
                    "It has no causal mask; if it should have one, write diagnose(…, causal=True).",
                )
            )
        if self.wanted.has("mask"):
            word = _MASK_WORDS[way.mask]
            lines.append(Line(word.zh + "。", word.en[0].upper() + word.en[1:] + "."))
        if way.out_in:
            lines.append(Line(_OUT_IN.zh + "。", _OUT_IN.en[0].upper() + _OUT_IN.en[1:] + "."))
        return lines

    def _with_leading(self, way: _Way) -> list[Line]:
        """What a function that is right on single matrices does with a batch or heads in front."""
        if way.kind.leading:
            return []
        for leading in self.layouts()[1:]:
            kind = replace(way.kind, leading=leading)
            outcome = self.call(replace(way, kind=kind), probes.problem(kind, "square"))
            if outcome.output is None:
                continue
            match = book(kind).match({"square": outcome.output}, at_once=1)
            shape = shape_text((*leading, 0)).replace("0]", "…]")
            if match is None:
                return [
                    Line(
                        f"只给一个句子时是对的；前面多了轴（{shape}）就不对了。",
                        f"Right for one sentence; with leading axes ({shape}) it is not.",
                    )
                ]
            if not match.correct:
                listed = report.said(match.explanations[0])
                return [
                    Line(
                        f"只给一个句子时是对的；前面多了轴（{shape}），就成了：{listed.zh}。",
                        f"Right for one sentence; with leading axes ({shape}) {listed.en}.",
                    )
                ]
            break
        return []

    def _unexplained(
        self, way: _Way, outcomes: Mapping[str, Outcome], near: Match | None
    ) -> Diagnosis:
        case = next(c for c, o in outcomes.items() if o.output is not None)
        kind = self._reading(way, self.readings[-1])
        ask = self._asker(replace(way, kind=kind))
        problem = probes.problem(kind, case)
        if len(self.readings) == 2 and symptoms.leaks(problem, ask):
            problem = replace(problem, mask=None)  # it looks ahead, so it means no mask
        found = outcomes[case].output
        assert found is not None
        stage, lines = symptoms.examine(problem, outcomes[case], ask)
        return report.told(
            (*report.unknown(found), *report.near(near), *lines, *outcomes[case].notes),
            self.lang, stage=stage,
        )  # fmt: skip


def _with_another_mask(otherwise: tuple[_Way, Match] | None) -> list[Line]:
    """What a function that is right with one kind of mask makes of another: it may have meant that."""
    if otherwise is None or otherwise[1].differ or not otherwise[1].sharp():
        return []
    word, match = _MASK_WORDS[otherwise[0].mask], otherwise[1]
    if match.correct:
        return [Line(f"这样也对：{word.zh}。", f"It is right, too, where {word.en}.")]
    if match.explanations[0][0] not in ("mask_finite", "mask_filled"):
        return []
    said = report.said(match.explanations[0])
    return [
        Line(
            f"如果本来的意思是：{word.zh}，那么{said.zh}。",
            f"If what you mean is that {word.en}, then {said.en}.",
        )
    ]


def _transposes(match: Match) -> bool:
    """Whether weights stored the other way might explain it better."""
    return any(name.endswith("_transposed") for names in match.explanations for name in names)


def _kind(wanted: Wanted, sizes: _Sizes) -> Kind:
    """The kind of problem for these parameters."""
    grouped = wanted.has("n_kv_heads") or sizes.n_kv_heads is not None
    several = wanted.has("n_heads") or sizes.n_heads is not None or grouped
    n_heads = sizes.n_heads or (probes.N_HEADS * (probes.GROUP if grouped else 1) if several else 1)
    n_kv_heads = (sizes.n_kv_heads or probes.N_HEADS) if grouped else n_heads
    from_x = wanted.has("x")
    if from_x:
        probes.refuse_sizes(n_heads, n_kv_heads)
    theta = sizes.theta if sizes.theta is not None else probes.THETA
    return Kind(
        from_x=from_x,
        n_heads=n_heads if from_x else 1,
        n_kv_heads=n_kv_heads if from_x else 1,
        bias="".join(c for c in "qkv" if wanted.has(f"b_{c}")),
        theta=theta if from_x and (wanted.has("theta") or sizes.theta is not None) else None,
        w_o=wanted.has("w_o"),
        norm=wanted.has("gain"),
        own_eps=wanted.has("gain") and not wanted.has("eps"),
        d_head=sizes.d_head,
        d_model=sizes.d_model,
    )


def _input(role: str, p: Problem, way: _Way) -> Any:
    """What a parameter of that role gets."""
    if role == "mask":
        return None if p.mask is None else _MASKS[way.mask](p.mask)
    if role == "causal":
        return True
    if role == "b_o":
        return np.zeros(p.x.shape[-1]) if p.x is not None else None
    if role == "d_model":
        return p.x.shape[-1] if p.x is not None else p.d_head
    value = getattr(p, role)
    if way.out_in and role in ("w_q", "w_k", "w_v", "w_o"):
        return np.ascontiguousarray(value.T)
    return value


def _overflow(outcomes: Mapping[str, Outcome], match: Match) -> Line | None:
    """A line on large scores that the function does not survive, though it is right on small ones."""
    for case in probes.LOUDER if match.sharp() else ("firm",):  # loud is beyond float16
        trouble = outcomes[case].trouble
        if trouble is not None and outcomes["square"].output is not None:
            return Line(
                f"✗ 分数小的题算对了，分数大的没有算成：{trouble.zh}。softmax 先减去行的最大值了吗？",
                f"✗ Right for small scores; with large ones, {trouble.en}. Does the softmax subtract "
                f"the row's maximum first?",
            )
    return None


def _other_axes(outcome: Outcome) -> Line:
    """A result with too many axes or too few."""
    assert outcome.output is not None
    shape = shape_text(outcome.output.shape)
    return Line(
        f"结果的形状是 {shape}，轴的个数和输入的不一样。",
        f"the result has the shape {shape}, which has not as many axes as the input.",
    )


def _failed_cases(outcomes: Mapping[str, Outcome]) -> list[Line]:
    """A line on cases without a result."""
    trouble = outcomes["wide"].trouble if "wide" in outcomes else None
    if outcomes["square"].output is not None and trouble is not None:
        return [
            Line(
                f"各个宽度都不同时（n_heads · d_head 不等于 d_model，或者键和查询个数不同）：{trouble.zh}",
                f"Where every width differs (n_heads · d_head is not d_model, or there are more "
                f"keys than queries), {trouble.en}",
            )
        ]
    return []

"""06: any model and any number of tokens: every shape, who shares a K/V head, cache and operations."""

import math
from functools import partial
from typing import Final, NamedTuple

from byhand import models, svg
from byhand.checks import shape_text
from byhand.explorer import Explorer, View, choice, field, typed_whole
from byhand.figures_real import TINTS
from byhand.models import Model
from byhand.svg import Drawing
from byhand.words import pick
from byhand.worked import number

LONGEST: Final = 131072
LENGTHS: Final = (6, 4096, 32768, LONGEST)  # a button each
CELL: Final = (24, 21)  # one head
LINE: Final = 34  # heads beside each other
GAP: Final = 14  # between columns
WIDTH: Final = {"zh": 856, "en": 910}  # of the drawing, whatever it shows

# The rows of the table. Arrays of one shape share a row.
STEPS: Final = (
    (("X",), "X  输入", "X  input"),
    (("h",), "h  归一化以后", "h  normed"),
    (("W_Q",), "W_Q  矩阵", "W_Q  matrix"),
    (("W_K", "W_V"), "W_K, W_V  矩阵", "W_K, W_V  matrix"),
    (("Q",), "Q  投影", "Q  projected"),
    (("K", "V"), "K, V  投影", "K, V  projected"),
    (("compressed",), "压缩向量，放进缓存", "compressed, cached"),
    (("q",), "q  拆头", "q  by head"),
    (("k", "v"), "k, v  拆头", "k, v  by head"),
    (("q_grouped",), "q 分组  按键值头", "q grouped  by K/V head"),
    (("scores",), "分数", "scores"),
    (("weights",), "权重", "weights"),
    (("context",), "上下文向量", "context"),
    (("merged",), "并头", "heads merged"),
    (("W_O",), "W_O  矩阵", "W_O  matrix"),
    (("output",), "输出", "output"),
)


class Step(NamedTuple):
    """A row of the table."""

    name: str
    axes: str  # in symbols
    shape: str
    numbers: int

    @property
    def symbol(self) -> str:
        """The name without what is said of it."""
        return self.name.split("  ")[0]


def steps(model: Model, n_tokens: int, lang: str) -> list[Step]:
    """Every step of one layer's attention with its shape."""
    axes, shapes = models.attention_axes(model), models.attention_shapes(model, n_tokens)
    rows = []
    for names, zh, en in STEPS:
        there = [name for name in names if name in shapes]
        together = len({shapes[name] for name in there}) == 1
        for name in there[:1] if together else there:
            told = pick(lang, zh, en)
            told = told if together else told.replace(", ".join(names), name)
            axis, shape = f"[{', '.join(axes[name])}]", shapes[name]
            rows.append(Step(told, axis, shape_text(shape), math.prod(shape)))
    return rows


def size(n_bytes: int, lang: str) -> str:
    """So many bytes in words, in GB from a billion on."""
    if n_bytes >= 1e9:
        return f"{n_bytes / 1e9:,.2f} GB"
    return f"{n_bytes:,} " + pick(lang, "字节", "bytes")


class Unit(NamedTuple):
    """In what operations are counted."""

    size: float
    zh: str
    en: str


def unit(operations: int) -> Unit:
    """Millions, and from a million of them on billions."""
    if operations >= 1e12:
        return Unit(1e9, "十亿次", "billion")
    return Unit(1e6, "百万次", "million")


def counted(operations: int, by: Unit) -> str:
    """Operations in that unit, with two decimals, and with four where two would show nothing."""
    return f"{operations / by.size:,.{2 if operations >= by.size / 10 else 4}f}"


def tokens(n: int, lang: str) -> str:
    """So many tokens in words."""
    return pick(lang, f"{n} 个词", f"{n} token{'s' if n > 1 else ''}")


def a_line(n: int, most: int) -> int:
    """How many of n things to a line, `most` at most, for lines of about one length."""
    return math.ceil(n / math.ceil(n / max(most, 1)))


def heads(model: Model, title: str, lang: str) -> Drawing:
    """Every query head as a cell above the K/V head it uses, in several lines where there are many."""
    w, h = CELL
    names = pick(lang, "查询头", "query heads"), pick(lang, "键值头", "K/V heads")
    if model.compressed:
        names = names[0], pick(lang, "压缩向量", "compressed")
    left, top = math.ceil(max(map(svg.wide, names))) + 12, svg.SIZE * 1.9
    shared = model.n_heads if model.compressed else model.n_heads // model.n_kv_heads
    groups, gap = model.n_heads // shared, 4 if shared == 1 else 9
    across = a_line(shared, LINE)
    on_line = a_line(groups, (LINE * w + gap) // (across * w + gap))
    high = math.ceil(shared / across) * h  # of the query heads of one group
    step = high + h + 14
    body, boxes = [svg.text(0, svg.SIZE * 0.7, title, anchor="start", bold=True)], []
    for group in range(groups):
        line, place = divmod(group, on_line)
        x, y = left + place * (across * w + gap), top + line * step
        tint = TINTS[group % len(TINTS)]
        for n in range(shared):
            down, right = divmod(n, across)
            head = str(group * shared + n)
            boxes.append((x + right * w, y + down * h, w - 1.0, h - 1.0, tint, head))
        told = str(group) if shared == 1 else f"K, V {group}"
        if model.compressed:
            told = pick(
                lang,
                f"每个词 {model.cached} 个数，{model.n_heads} 个头共用",
                f"{model.cached} numbers per token, shared by all {model.n_heads} heads",
            )
        boxes.append((x, y + high + 1, across * w - 1.0, h - 1.0, tint, told))
        if place == 0:
            for name, at in zip(names, (y + high / 2, y + high + 1 + h / 2), strict=True):
                body.append(svg.text(left - 10, at, name, anchor="end", colour=svg.QUIET))
    return Drawing(
        max(left + on_line * (across * w + gap) - gap, svg.wide(title, bold=True)),
        top + math.ceil(groups / on_line) * step - 14,
        "".join(body) + svg.cells(boxes),
    )


def view(model: str, length: str, lang: str) -> View:
    """One model at one length."""
    m = models.read(model)
    n = typed_whole(pick(lang, "词数 S", "the number of tokens S"), length, 1, LONGEST)
    group = m.n_heads // m.n_kv_heads
    if m.compressed:
        shared = pick(
            lang,
            f"{m.n_heads} 个查询头，键和值从同一个压缩向量来",
            f"{m.n_heads} query heads, whose keys and values come from one compressed vector",
        )
    elif group == 1:
        shared = pick(
            lang,
            f"{m.n_heads} 个查询头，每个有自己的键值头",
            f"{m.n_heads} query heads, each with a K/V head of its own",
        )
    else:
        shared = pick(
            lang,
            f"{m.n_heads} 个查询头，{m.n_kv_heads} 个键值头，每 {group} 个查询头合用一个",
            f"{m.n_heads} query heads, {m.n_kv_heads} K/V heads, {group} query heads to each",
        )
    says = [
        pick(
            lang, f"{m.name}，{tokens(n, lang)}：{shared}", f"{m.name}, {tokens(n, lang)}: {shared}"
        )
    ]
    if group > 1:
        each = [f"{g * group}–{(g + 1) * group - 1} → {g}" for g in range(m.n_kv_heads)]
        in_words = pick(lang, "；", "; ").join(each)
        says.append(pick(lang, "查询头 → 键值头：", "query heads → K/V head: ") + in_words)

    rows = steps(m, n, lang)
    most = max(row.numbers for row in rows)
    largest = [i for i, row in enumerate(rows) if row.numbers == most]
    table = svg.table(
        [
            pick(lang, "步骤", "step"),
            pick(lang, "形状", "shape"),
            f"S = {n}",
            pick(lang, "多少个数", "numbers"),
        ],
        [[row.name, row.axes, row.shape, f"{row.numbers:,}"] for row in rows],
        pick(lang, "一层注意力，每一步的形状", "One layer of attention: the shape of every step"),
        lit=largest,
        right=[3],
        gap=GAP,
    )
    says.append(
        pick(lang, "最大的：", "largest: ")
        + pick(lang, "、", ", ").join(rows[i].symbol for i in largest)
        + (
            pick(lang, f"，各 {most:,} 个数", f", {most:,} numbers each")
            if len(largest) > 1
            else pick(lang, f"，{most:,} 个数", f", {most:,} numbers")
        )
    )
    says.append(
        pick(lang, "形状：", "shapes: ")
        + pick(lang, "；", "; ").join(f"{row.symbol} {row.shape}" for row in rows)
    )
    kept, kept_in_words = cache(m, n, lang)
    spent, spent_in_words = operations(m, n, lang)
    says += [kept_in_words, spent_in_words]
    drawing = svg.below(heads(m, says[0], lang), kept, svg.beside(table, spent, gap=20))
    return View(svg.widened(drawing, WIDTH[lang]), tuple(says))


def cache(model: Model, n: int, lang: str) -> tuple[Drawing, str]:
    """What the K/V cache keeps, and how much it would be with a K/V head for every query head."""
    if not model.causal:
        told = pick(
            lang,
            "没有键值缓存：它一次看完所有的词，不逐词生成",
            "no K/V cache: it looks at all tokens at once and does not write token by token",
        )
        return svg.label(told), told
    layer = model._replace(n_layers=1)
    kept = models.cache_bytes(model, n)
    shown = {
        pick(lang, "每个词每层", "per token and layer"): size(models.cache_bytes(layer), lang),
        pick(lang, f"一层，{tokens(n, lang)}", f"one layer, {tokens(n, lang)}"): size(
            models.cache_bytes(layer, n), lang
        ),
        pick(
            lang,
            f"{model.n_layers} 层，{tokens(n, lang)}",
            f"{model.n_layers} layers, {tokens(n, lang)}",
        ): size(kept, lang),
    }
    told = pick(lang, "；", "; ").join(f"{name} {text}" for name, text in shown.items())
    own = model._replace(cached=model.n_heads * (model.d_head + model.d_value))
    full = models.cache_bytes(own, n)
    if full != kept:  # each K/V head serves several query heads
        factor = number(full / kept, 0 if full % kept == 0 else 1)
        per_head = pick(lang, f"假如有 {model.n_heads} 个键值头", f"with {model.n_heads} K/V heads")
        if model.compressed:
            per_head = pick(lang, "假如各头各放一份", "with K and V per head")
        more = pick(lang, "是现在的几倍", "times as much")
        shown |= {per_head: size(full, lang), more: factor}
        told += pick(
            lang,
            f"；{per_head}，{size(full, lang)}，是现在的 {factor} 倍",
            f"; {per_head}, {size(full, lang)}, {factor} {more}",
        )
    title = pick(
        lang,
        "键值缓存，每个数 2 字节（1 GB 是十亿字节）",
        "K/V cache, 2 bytes per number (1 GB is a billion bytes)",
    )
    drawing = svg.table(list(shown), [list(shown.values())], title, gap=GAP)
    return drawing, pick(lang, "键值缓存：", "K/V cache: ") + told


def operations(model: Model, n: int, lang: str) -> tuple[Drawing, str]:
    """The operations of every matrix product of one layer's attention, and their shares."""
    if model.compressed:
        lines = (
            pick(lang, "这里没有数运算：", "Operations are not counted:"),
            pick(lang, "键和值从压缩向量还原，", "there is no ordinary W_K or W_V,"),
            pick(lang, "没有通常的 W_K 和 W_V", "K and V are restored"),
        )
        return svg.below(*map(svg.label, lines), gap=4), pick(lang, "", " ").join(lines)
    flops = models.attention_flops(model, n)
    layer = sum(flops.values())
    shares = [100 * part / layer for part in flops.values()]
    whole = {
        pick(lang, "一层", "one layer"): layer,
        pick(lang, f"{model.n_layers} 层", f"{model.n_layers} layers"): layer * model.n_layers,
    }
    most, by = max(flops.values()), unit(layer * model.n_layers)
    drawing = svg.below(
        svg.bars(
            shares, list(flops), pick(lang, "运算：每一步所占（%）", "share of operations (%)"),
            decimals=2, top=100, width=100, lit=[i for i, c in enumerate(flops.values()) if c == most],
        ),
        svg.table(
            [pick(lang, "注意力", "operations"), pick(lang, f"{by.zh}运算", f"{by.en}s")],
            [[name, counted(count, by)] for name, count in {**flops, **whole}.items()],
            right=[1],
            gap=GAP,
        ),
    )  # fmt: skip
    each = pick(lang, "，", ", ").join(
        f"{name} {counted(count, by)} ({number(share, 2)}%)"
        for (name, count), share in zip(flops.items(), shares, strict=True)
    )
    both = pick(lang, "，", ", ").join(
        f"{name} {counted(count, by)}" for name, count in whole.items()
    )
    return drawing, pick(
        lang,
        f"注意力的运算（{by.zh}）：{both}；{each}",
        f"operations of attention ({by.en}s): {both}; {each}",
    )


def explorer(lang: str) -> Explorer:
    """Choose a model and a number of tokens."""
    return Explorer(
        pick(lang, "真实模型的形状", "The shapes of real models"),
        {
            "model": choice(
                lang, "模型", "model", {name: name for name in models.names()}, "Qwen2.5-7B"
            ),
            "length": field(lang, "词数 S", "tokens S", "6", pick(lang, "如 4096", "such as 4096")),
        },
        partial(view, lang=lang),
        lang,
        buttons={tokens(n, lang): {"length": str(n)} for n in LENGTHS},
    )

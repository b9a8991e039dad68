"""07: find a tensor of a real GGUF file: what it is, its shape three ways, its bytes, how many."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np

from byhand import svg, weights
from byhand.checks import index, refuse, shape_text
from byhand.explorer import Explorer, View, cleaned, echo, field, slider
from byhand.figures import BLUE, GREEN, ORANGE, SKY
from byhand.svg import Drawing
from byhand.weights import Tensor
from byhand.words import edition, pick, small

LONGEST: Final = 80  # characters of a search; the longest name has 47
SIDE: Final = 120  # pixels of the longest side drawn
THIN: Final = 2.5  # pixels of a side that would be hard to see
ROOM: Final = 350  # pixels across for the drawing to scale, whatever it shows
HEADING: Final = 15
GAP: Final = 18  # between columns
WIDTH: Final = {"zh": 834, "en": 896}  # of the drawing, whatever it shows
W_O: Final = "blk.N.attn_output.weight"  # drawn beside every other one, for comparison
F16: Final = np.dtype(np.float16).itemsize  # bytes of a number


class Role(NamedTuple):
    """What the tensors of one name are for. Pairs are (中文, English)."""

    title: tuple[str, str]
    does: tuple[str, str]  # {heads} and the like stand for the sizes of the model
    axes: tuple[str, ...] = ("in", "out")  # of ne


_AXES: Final = {"in": ("进", "in"), "out": ("出", "out"), "in = out": ("进 = 出", "in = out")}
_NORM: Final = (
    "RMSNorm 的增益：一行里的每个数先除以这一行的均方根，再乘上自己的增益。",
    "The gains of an RMSNorm: each number of a row is divided by the row's root mean square and "
    "multiplied by its gain.",
)

# Every name in the file, in the order in which a token meets them.
ROLES: Final = {
    "token_embd.weight": Role(
        ("嵌入表", "embeddings"),
        (
            "每个号码一行。词按自己的号码取出一行，这就是第一层收到的。",
            "A row for each id. A token takes the row of its id, and that is what the first layer "
            "receives.",
        ),
        ("out", "in"),  # the id picks the row
    ),
    "blk.N.attn_norm.weight": Role(("注意力前的归一化", "attention norm"), _NORM, ("in = out",)),
    "blk.N.attn_q.weight": Role(
        ("W_Q 查询", "W_Q, query projection"),
        (
            "归一化后的一行乘 W_Q，得到 {heads} 个头的查询，并排放着。",
            "A row after the norm, times W_Q, gives the queries of {heads} heads side by side.",
        ),
    ),
    "blk.N.attn_q.bias": Role(
        ("b_Q 查询的偏置", "b_Q, query bias"),
        ("加到 {heads} 个头的查询上。", "Added to the queries of {heads} heads."),
        ("out",),
    ),
    "blk.N.attn_k.weight": Role(
        ("W_K 键", "W_K, key projection"),
        (
            "归一化后的一行乘 W_K，得到 {kv_heads} 个键值头的键，每个给 {shared} 个查询头用。",
            "A row after the norm, times W_K, gives the keys of {kv_heads} K/V heads; each serves "
            "{shared} query heads.",
        ),
    ),
    "blk.N.attn_k.bias": Role(
        ("b_K 键的偏置", "b_K, key bias"),
        ("加到 {kv_heads} 个键值头的键上。", "Added to the keys of {kv_heads} K/V heads."),
        ("out",),
    ),
    "blk.N.attn_v.weight": Role(
        ("W_V 值", "W_V, value projection"),
        (
            "归一化后的一行乘 W_V，得到 {kv_heads} 个键值头的值，每个给 {shared} 个查询头用。",
            "A row after the norm, times W_V, gives the values of {kv_heads} K/V heads; each serves "
            "{shared} query heads.",
        ),
    ),
    "blk.N.attn_v.bias": Role(
        ("b_V 值的偏置", "b_V, value bias"),
        ("加到 {kv_heads} 个键值头的值上。", "Added to the values of {kv_heads} K/V heads."),
        ("out",),
    ),
    W_O: Role(
        ("W_O 输出投影", "W_O, output projection"),
        (
            "把 {heads} 个头的上下文混成一行，加回残差流。它不给词打分。",
            "Mixes the contexts of {heads} heads into one row, which is added to the residual "
            "stream. It gives no token a score.",
        ),
    ),
    "blk.N.ffn_norm.weight": Role(("FFN 前的归一化", "FFN norm"), _NORM, ("in = out",)),
    "blk.N.ffn_gate.weight": Role(
        ("FFN 的门", "FFN gate"),
        (
            "算出的数经过 SiLU，再和 ffn_up 算出的逐个相乘。",
            "What comes out goes through SiLU and is multiplied, number by number, by what ffn_up "
            "gives.",
        ),
    ),
    "blk.N.ffn_up.weight": Role(
        ("FFN 变宽", "FFN up: wider"),
        (
            "把一行变到 FFN 的宽度，再逐个乘上门的结果。",
            "Widens a row to the width of the FFN. It is multiplied, number by number, by what the "
            "gate gives.",
        ),
    ),
    "blk.N.ffn_down.weight": Role(
        ("FFN 变窄", "FFN down: narrower"),
        (
            "从 FFN 的宽度变回来，加回残差流。",
            "Brings a row back from the width of the FFN; it is added to the residual stream.",
        ),
    ),
    "output_norm.weight": Role(("最后的归一化", "last norm"), _NORM, ("in = out",)),
    "output.weight": Role(
        ("输出矩阵", "output matrix"),
        (
            "每个号码一行，和最后归一化以后的一行点积，得到这个号码的分数（logit）。",
            "A row for each id. Its dot product with what comes out of the last norm is that id's "
            "score (logit).",
        ),
    ),
}


class Kind(NamedTuple):
    """All tensors of one name: one a layer, or one in the model."""

    pattern: str  # "blk.N.attn_q.weight"
    tensors: tuple[Tensor, ...]  # by layer

    @property
    def n_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(tensor.n_bytes for tensor in self.tensors)

    @property
    def size(self) -> int:
        """Numbers in all of them."""
        return sum(tensor.size for tensor in self.tensors)


@cache
def header() -> weights.Header:
    """The table of contents of the real file in data/."""
    return weights.header()


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of tensor in the file, in the order of ROLES."""
    found: dict[str, list[Tensor]] = {pattern: [] for pattern in ROLES}
    for tensor in header().tensors.values():
        found[_pattern(tensor.name)].append(tensor)
    return tuple(
        Kind(pattern, tuple(sorted(group, key=lambda tensor: layer_of(tensor) or 0)))
        for pattern, group in found.items()
    )


def layer_of(tensor: Tensor) -> int | None:
    """The layer a tensor belongs to; None for one that the model has once."""
    found = re.match(r"blk\.(\d+)\.", tensor.name)
    return int(found[1]) if found else None


@cache
def hugging_face(tensor: Tensor) -> str:
    """Its name in Hugging Face's transformers."""
    architecture = str(header().metadata["general.architecture"])
    return weights.hugging_face_name(tensor.name, architecture)


def _pattern(name: str) -> str:
    return re.sub(r"^(blk|model\.layers)\.\d+\.", r"\1.N.", name)


# The names of the columns: of what was found, and of how it is stored.
_HEAD: Final = (
    ("GGUF 的名字", "name in GGUF"),
    ("是什么", "what it is"),
    ("Hugging Face 的名字", "name in Hugging Face"),
    ("几个", "count"),
    ("类型", "type"),
    ("字节", "bytes"),
)
_COLUMNS: Final = (
    ("怎样存放", "storage"),
    ("类型", "type"),
    ("一个数几位", "bits per number"),
    ("字节", "bytes"),
    ("存成 float16", "as float16"),
    ("占文件", "share of file"),
)


# Searching


def find(search: str, block: int, lang: str) -> list[tuple[Kind, Tensor]]:
    """The kinds of tensor that fit a search, the best first, each with the one to show.

    A kind fits if every word of the search is in one of its names, GGUF or Hugging Face, with a
    number or N for the layer, or begins a word of its title in the edition's language. Shown is the
    tensor of layer `block`, unless the search leaves it out: then the first that it leaves in.
    An empty search finds them all. ValueError where nothing fits, for a search longer than LONGEST,
    and for a layer that is not there.
    """
    n_layers = len(_kind(W_O).tensors)
    block = index("block", block, n_layers)
    if not isinstance(search, str):
        refuse(f"要找的是一段文本，给的是 {search!r}。", f"a search is a text, not {search!r}.")
    typed = cleaned(search)
    if len(typed) > LONGEST:
        refuse(
            f"{echo(search)} 太长，有 {len(typed)} 个字符；最多 {LONGEST} 个。",
            f"{echo(search)} is too long: {len(typed)} characters, {LONGEST} at most.",
        )
    words = set(unicodedata.normalize("NFKC", typed).casefold().split())
    fitting = []
    for kind in kinds():
        title = ROLES[kind.pattern].title[edition(lang)].casefold()
        ranks = {tensor: _rank(words, _names(tensor), title) for tensor in kind.tensors}
        left_in = {tensor: rank for tensor, rank in ranks.items() if rank is not None}
        if left_in:
            wanted = kind.tensors[min(block, len(kind.tensors) - 1)]
            shown = wanted if wanted in left_in else next(iter(left_in))
            fitting.append((min(left_in.values()), kind, shown))
    if not fitting:
        listed = ", ".join(kind.pattern for kind in kinds())
        refuse(
            f"找不到名字里有{echo(search)}的张量。文件里有 {len(kinds())} 种：{listed}",
            f"No tensor has {echo(search)} in its name. The file has {len(kinds())} kinds: {listed}",
        )
    return [(kind, shown) for _, kind, shown in sorted(fitting, key=lambda match: match[0])]


def _kind(pattern: str) -> Kind:
    return kinds()[list(ROLES).index(pattern)]


@cache
def _names(tensor: Tensor) -> str:
    """Its names, with the number of the layer and with N, each on a line of its own."""
    both = (tensor.name, hugging_face(tensor))
    return "\n".join(["", *both, *map(_pattern, both), ""]).casefold()


def _rank(words: Collection[str], names: str, title: str) -> int | None:
    """How well words fit the names of a tensor, 0 best; None if one of them is nowhere."""
    total = 0
    for word in words:
        if f"\n{word}\n" in names or f"\n{word}.weight\n" in names:
            continue  # a whole name
        if f"\n{word}" in names:
            total += 1
        elif f".{word}" in names:
            total += 2
        elif word in names:
            total += 3
        elif re.search(rf"(?<![a-z]){re.escape(word)}", title):
            total += 4
        else:
            return None
    return total


# Showing


def view(search: str, block: int, lang: str) -> View:
    """What fits the search, and everything about the first of it, in layer `block`.

    ValueError as `find`.
    """
    matches = find(search, block, lang)
    kind, tensor = matches[0]
    role = ROLES[kind.pattern]
    name = f"{tensor.name} · {pick(lang, *role.title)}"
    does = pick(lang, *role.does).format(**_sizes())
    found, where = _found(search, len(matches), lang), _where(tensor, block, lang)
    listed = [_row(other, shown, lang) for other, shown in matches]
    shapes, stored = _shapes(tensor, role, lang), _stored(kind, tensor, lang)
    head, columns = ([pick(lang, *words) for words in names] for names in (_HEAD, _COLUMNS))
    blocks = _blocks(tensor, lang)
    written = [pick(lang, "形状怎样写", "its shape"), "", pick(lang, "哪个轴", "axes")]
    drawing = svg.below(
        svg.table(head, listed, found, lit=[0], right=[3, 5], gap=GAP),
        svg.below(
            svg.label(name, bold=True, size=HEADING),
            svg.label(does),
            svg.label(where, colour=svg.QUIET),
            gap=5,
        ),
        svg.beside(_to_scale(tensor, role, lang), svg.table(written, shapes, gap=GAP), gap=30),
        svg.below(
            svg.table(columns, stored, right=[2, 3, 4, 5], gap=GAP),
            svg.label(blocks, colour=svg.QUIET),
            gap=8,
        ),
    )
    comma, colon = pick(lang, "，", ", "), pick(lang, "：", ": ")
    return View(
        svg.widened(drawing, WIDTH[lang]),
        (
            f"{name}{colon}{does}",
            where,
            f"Hugging Face{colon}{hugging_face(tensor)}",
            pick(lang, "；", "; ").join(f"{at} {shape} = {axes}" for at, shape, axes in shapes),
            *(
                f"{which}{colon}"
                + comma.join(
                    [types, *(f"{what} {n}" for what, n in zip(columns[2:], numbers, strict=True))]
                )
                for which, types, *numbers in stored
            ),
            blocks,
            *([] if kind.pattern == W_O else [_beside_w_o(lang)]),
            f"{found}{colon}{comma.join(head)}",
            *("  ".join(row) for row in listed),
        ),
    )


def _found(search: str, n_matches: int, lang: str) -> str:
    n_kinds = len(kinds())
    if not cleaned(search):
        return pick(lang, f"全部 {n_kinds} 种张量", f"all {n_kinds} kinds of tensor")
    return pick(
        lang,
        f"{echo(search)}：{n_kinds} 种张量里找到 {n_matches} 种（类型、字节是写出来的这一个的）",
        f"{echo(search)}: {n_matches} of {n_kinds} kinds of tensor (type and bytes of the one named)",
    )


def _row(kind: Kind, shown: Tensor, lang: str) -> list[str]:
    """One line of the list of what was found."""
    title = pick(lang, *ROLES[kind.pattern].title)
    many = str(len(kind.tensors))
    return [shown.name, title, hugging_face(shown), many, shown.kind, str(shown.n_bytes)]


def _where(tensor: Tensor, block: int, lang: str) -> str:
    layer, n_layers = layer_of(tensor), len(_kind(W_O).tensors)
    if layer is None:
        return pick(
            lang,
            "不在任何一层里，全模型一个；滑块换层，它不变",
            "not in a layer: the model has just one, and the slider changes nothing here",
        )
    text = pick(
        lang,
        f"第 {layer} 层（从 0 数，一共 {n_layers} 层）",
        f"layer {layer} (counted from 0; there are {n_layers})",
    )
    if layer != block:
        text += pick(
            lang,
            f"。要找的名字里写了层号，所以不是滑块上的 {block}",
            f". The search names the layer, so the {block} of the slider does not count",
        )
    return text


def _sizes() -> dict[str, int]:
    """The sizes of the model that the texts of ROLES name."""
    shape = weights.layer_shape(header())
    return {
        "heads": shape.n_heads,
        "kv_heads": shape.n_kv_heads,
        "shared": shape.n_heads // shape.n_kv_heads,
    }


def _shapes(tensor: Tensor, role: Role, lang: str) -> list[list[str]]:
    """Where, the shape as it is written there, and what its axes are."""
    axes = [pick(lang, *_AXES[axis]) for axis in role.axes]
    ne = (shape_text(tensor.ne), f"[{', '.join(axes)}]")
    reversed_ = (shape_text(tensor.shape), f"[{', '.join(axes[::-1])}]")
    rows = [["GGUF ne", *ne], ["NumPy", *reversed_], ["Hugging Face (PyTorch)", *reversed_]]
    if role.axes == ("in", "out"):
        rows.append([pick(lang, "x @ W 里的 W", "W in x @ W"), *ne])
    return rows


def _stored(kind: Kind, tensor: Tensor, lang: str) -> list[list[str]]:
    """Of the tensor, and of all of its kind: types, bits a number, bytes, in float16, share."""
    total = sum(t.n_bytes for t in header().tensors.values())

    def line(which: str, types: str, size: int, n_bytes: int) -> list[str]:
        shown = f"{small(100 * n_bytes / total, 1, lang)}%"
        return [which, types, f"{8 * n_bytes / size:g}", str(n_bytes), str(F16 * size), shown]

    many = len(kind.tensors)
    if many == 1:
        only = pick(lang, "就这一个", "the only one")
        return [line(only, tensor.kind, tensor.size, tensor.n_bytes)]
    counts = sorted(Counter(t.kind for t in kind.tensors).items())
    types = ", ".join(f"{n} × {name}" for name, n in counts)
    return [
        line(pick(lang, "这一个", "this one"), tensor.kind, tensor.size, tensor.n_bytes),
        line(pick(lang, f"{many} 个一共", f"all {many}"), types, kind.size, kind.n_bytes),
    ]


def _blocks(tensor: Tensor, lang: str) -> str:
    """Where the bits of a number come from."""
    size, n_bytes = weights.block_of(tensor.kind)
    if size == 1:
        return pick(
            lang,
            f"{tensor.kind}：一个数 {n_bytes} 字节，{tensor.bits:g} 位",
            f"{tensor.kind}: {n_bytes} bytes per number, which is {tensor.bits:g} bits",
        )
    return pick(
        lang,
        f"{tensor.kind}：{size} 个数一块，占 {n_bytes} 字节；8 × {n_bytes} / {size} = {tensor.bits:g} 位",
        f"{tensor.kind}: a block of {size} numbers takes {n_bytes} bytes; "
        f"8 × {n_bytes} / {size} = {tensor.bits:g} bits",
    )


def _beside_w_o(lang: str) -> str:
    across, down = _kind(W_O).tensors[0].ne
    return pick(
        lang,
        f"旁边按同一比例画着 W_O，{across} × {down}",
        f"W_O, {across} × {down}, is drawn beside it to the same scale",
    )


def _to_scale(tensor: Tensor, role: Role, lang: str) -> Drawing:
    """The tensor as a rectangle, a row of numbers from left to right, and W_O to the same scale."""
    w_o = _kind(W_O).tensors[0]
    unit = SIDE / max(*tensor.ne, *w_o.ne)
    axes = [f"{pick(lang, *_AXES[axis])} {n}" for axis, n in zip(role.axes, tensor.ne, strict=True)]
    width, height = (max(n * unit, THIN) for n in (*tensor.ne, 1)[:2])
    top, half = 3.4 * svg.SIZE, svg.wide(axes[0]) / 2
    left = max(half - width / 2, svg.wide(axes[1]) + 8 if len(axes) > 1 else 0)
    middle = left + width / 2
    body = [
        svg.text(0, 0.7 * svg.SIZE, pick(lang, "按比例画", "to scale"), anchor="start", bold=True),
        svg.text(middle, top - 0.9 * svg.SIZE, axes[0]),
        svg.rectangle(left, top, width, height, fill=_colour(tensor)),
    ]
    if len(axes) > 1:
        y = max(top + height / 2, top + 0.5 * svg.SIZE)
        body.append(svg.text(left - 8, y, axes[1], anchor="end"))
    if _pattern(tensor.name) != W_O:
        across, down = (n * unit for n in w_o.ne)
        name = f"W_O {w_o.ne[0]} × {w_o.ne[1]}"
        x = max(left + width, middle + half) + 24 + max(0.0, svg.wide(name) / 2 - across / 2)
        body += [
            svg.text(x + across / 2, top - 0.9 * svg.SIZE, name, colour=svg.QUIET),
            svg.rectangle(x, top, across, down, line=svg.QUIET, thick=1.2),
        ]
    return Drawing(ROOM, top + SIDE + 4, "".join(body))


def _colour(tensor: Tensor) -> str:
    """Queries, keys and values have the colours they have in the figures."""
    tints = {"attn_q": BLUE, "attn_k": ORANGE, "attn_v": GREEN}
    return next((tint for part, tint in tints.items() if f".{part}." in tensor.name), SKY)


def explorer(lang: str) -> Explorer:
    """Type a part of a name, move the layer."""
    return Explorer(
        pick(lang, "找一个张量", "Find a tensor"),
        {
            "search": field(
                lang, "要找的名字", "search", "output",
                pick(lang, "名字的一部分，例如 q_proj", "part of a name, such as q_proj"),
            ),
            "block": slider(lang, "层（blk.N）", "layer (blk.N)", 0, 0, len(_kind(W_O).tensors) - 1),
        },
        partial(view, lang=lang),
        lang,
        buttons={
            "attn_output": {"search": "attn_output"},
            "output.weight": {"search": "output.weight"},
            "token_embd": {"search": "token_embd"},
            pick(lang, "全部", "all"): {"search": ""},
        },
    )  # fmt: skip

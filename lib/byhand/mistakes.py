"""The catalogue: ways to get attention wrong that leave the shape right, or nearly.

Each mistake is one step of `steps`, or a few that belong together, exchanged for a wrong one. It
serves the gallery in the notebooks, `diagnose`, and the tests. Where it happened is told by public
threads.
"""

from collections.abc import Callable, Collection
from functools import cache
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from byhand import qwen, rope
from byhand.attention import project, split_heads
from byhand.checks import Array, refuse
from byhand.steps import Changes, Problem, given, merge, softmax
from byhand.words import pick


class Mistake(NamedTuple):
    """One way to get a step wrong. The sentences go on from "this is what comes out when"."""

    name: str
    family: str
    changes: Changes  # steps by name
    zh: str
    en: str
    symptom_zh: str
    symptom_en: str
    right: str  # the step as it should be, in NumPy
    threads: tuple[str, ...]  # on GitHub, where it happened or was asked about
    others: tuple[Changes, ...] = ()  # the same mistake where it differs in large scores only

    def sentence(self, lang: str) -> str:
        """What goes wrong, in the language of the edition."""
        return pick(lang, self.zh, self.en)

    def symptom(self, lang: str) -> str:
        """What to look for in the numbers, in the language of the edition."""
        return pick(lang, self.symptom_zh, self.symptom_en)

    def links(self) -> tuple[str, ...]:
        """The addresses of the threads."""
        return tuple(f"https://github.com/{thread}" for thread in self.threads)


FAMILIES: Final = {
    "scaling": ("缩放", "scaling"),
    "softmax": ("softmax", "softmax"),
    "mask": ("遮罩", "mask"),
    "heads": ("头", "heads"),
    "output": ("输出投影 W_O", "output projection W_O"),
    "projections": ("Q、K、V", "Q, K and V"),
    "grouped": ("分组的键值头（GQA）", "grouped K/V heads (GQA)"),
    "rope": ("旋转位置（RoPE）", "rotary positions (RoPE)"),
    "layer": ("残差和归一化", "residual and norm"),
}


# ---- the wrong steps ----------------------------------------------------------------------------


def _d_model(p: Problem) -> int:
    if p.x is not None:
        return int(p.x.shape[-1])
    if p.n_heads == 1:
        refuse(
            "没有 x，也只有一个头，不知道 d_model。",
            "without x and with one head, d_model is unknown.",
        )
    return p.n_heads * p.d_head


def _mask_added(scaled: Array, p: Problem) -> Array:
    return scaled + given(p.mask)


def _finite_added(constant: float) -> Changes:
    return {"mask": lambda s, p: s + np.where(p.may_look == 1, 0.0, constant)}


def _finite_filled(constant: float) -> Changes:
    return {"mask": lambda s, p: np.where(p.may_look == 1, s, constant)}


def _hide(scaled: Array, hidden: NDArray[np.bool_]) -> Array:
    return np.where(hidden, -np.inf, scaled)


def _diagonal(p: Problem, offset: int) -> NDArray[np.bool_]:
    """True where key = query + offset, counted from the last row's last key. [n_q, n_k]"""
    n_q, n_k = p.may_look.shape
    found: NDArray[np.bool_] = np.arange(n_k) == np.arange(n_k - n_q, n_k)[:, None] + offset
    return found


def _own_slices(h: Array, w: Array | None, n_heads: int) -> Array:
    """Each head reads its own slice of h, with its own block of w."""
    if n_heads == 1:
        return project(h, given(w))
    if h.shape[-1] != given(w).shape[-1]:
        refuse("x 切不成这些头。", "x cannot be cut into these heads.")
    rows = np.split(given(w), n_heads)  # the rows of each head
    blocks = [np.split(block, n_heads, axis=1)[i] for i, block in enumerate(rows)]
    slices = np.split(h, n_heads, axis=-1)
    own: Array = np.concatenate([s @ b for s, b in zip(slices, blocks, strict=True)], axis=-1)
    return own


def _stored(h: Array, w: Array | None) -> Array:
    return project(h, given(w).T)


def _as_wide_as(h: Array, w: Array | None) -> Array:
    """h itself in the place of h @ w; the widths must agree."""
    if h.shape[-1] != given(w).shape[-1]:
        refuse("x 的宽度不对。", "x has another width.")
    return h


def _split_as_read(y: Array, n_heads: int) -> Array:
    """Rows cut up in reading order: right shape, and the tokens are mixed."""
    return y.reshape(*y.shape[:-2], n_heads, y.shape[-2], y.shape[-1] // n_heads)


def _split_by_stride(y: Array, n_heads: int) -> Array:
    apart = y.reshape(*y.shape[:-1], y.shape[-1] // n_heads, n_heads)
    return np.moveaxis(apart, -1, -3)


def _merge_as_read(context: Array) -> Array:
    *lead, n_heads, n_tokens, d_head = context.shape
    return context.reshape(*lead, n_tokens, n_heads * d_head)


def _merge_by_stride(context: Array) -> Array:
    apart = np.moveaxis(context, -3, -1)  # [.., S, d_head, n_heads]
    return apart.reshape(*apart.shape[:-2], -1)


def _relu_after(merged: Array, p: Problem) -> Array:
    return np.maximum(merged @ given(p.w_o), 0)


def _first_rows(merged: Array, p: Problem) -> Array:
    heads = merged.reshape(*merged.shape[:-1], p.n_heads, p.d_head)
    output: Array = heads.sum(axis=-2) @ given(p.w_o)[: p.d_head]
    return output


def _w_o_on_values(v: Array, p: Problem) -> Array:
    return split_heads(merge(v) @ given(p.w_o), p.n_heads)


def _left_out(merged: Array, p: Problem) -> Array:
    """No W_O; with a residual sum behind it, the widths must agree."""
    return merged


def _tile(kv: Array, n_heads: int) -> Array:
    """0 1 2 0 1 2"""
    return np.concatenate([kv] * (n_heads // kv.shape[-3]), axis=-3)


def _first_for_all(kv: Array, n_heads: int) -> Array:
    return kv if kv.shape[-3] == n_heads else np.repeat(kv[..., :1, :, :], n_heads, axis=-3)


def _divided(kv: Array, n_heads: int) -> Array:
    """Head i takes K/V head i // n_kv_heads."""
    if kv.shape[-3] == n_heads:  # nothing to share
        return kv
    divided: Array = np.take(kv, np.arange(n_heads) // kv.shape[-3], axis=-3)
    return divided


def _stride_order(context: Array, p: Problem) -> Array:
    """The heads in the order [n_kv_heads, group] although they were taken as [group, n_kv_heads]."""
    group = p.n_heads // p.n_kv_heads
    order = np.arange(p.n_heads).reshape(group, p.n_kv_heads).T.ravel()
    return context[..., order, :, :]


def _whole_width(y: Array, p: Problem) -> Array:
    """y turned before the split, as if it were one wide head."""
    angles = rope.angles(np.arange(y.shape[-2]), y.shape[-1], p.theta or 0.0)
    return rope.rotate(y, angles)


def _mixed_layouts(x: Array, angles: Array) -> Array:
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    by_neighbours = np.repeat(angles, 2, axis=-1)  # [S, d_head]
    mixed: Array = x * np.cos(by_neighbours) + turned * np.sin(by_neighbours)
    return mixed


def _norm_last(summed: Array, p: Problem) -> Array:
    return qwen.rms_norm(summed, given(p.gain), p.eps or 0.0)


def _no_keepdims(x: Array, largest: float | Array) -> Array:
    exps = np.exp(x - largest)
    normalised: Array = exps / exps.sum(axis=-1)
    return normalised


def _no_keepdims_max(x: Array, sum_has_them: bool) -> Array:
    exps = np.exp(x - x.max(axis=-1))
    normalised: Array = exps / exps.sum(axis=-1, keepdims=sum_has_them)
    return normalised


def _renormalised(weights: Array, p: Problem) -> Array:
    visible = weights * p.may_look
    normalised: Array = visible / visible.sum(axis=-1, keepdims=True)
    return normalised


def _axis(axis: int | None, largest: Callable[[Array], float]) -> Changes:
    """The softmax along an axis, with another number subtracted than the maximum along it."""

    def step(x: Array) -> Array:
        exps = np.exp(x - largest(x))
        normalised: Array = exps / exps.sum(axis=axis, keepdims=True)
        return normalised

    return {"softmax": step}


def _careless(axis: int | None) -> tuple[Changes, ...]:
    """A softmax along a wrong axis is often written without the maximum, or with the wrong one."""
    return _axis(axis, lambda x: 0.0), _axis(axis, np.max)


def _no_max(x: Array) -> Array:
    exps = np.exp(x)
    normalised: Array = exps / exps.sum(axis=-1, keepdims=True)
    return normalised


def _whole_max(x: Array) -> Array:
    exps = np.exp(x - x.max())
    normalised: Array = exps / exps.sum(axis=-1, keepdims=True)
    return normalised


# ---- the catalogue ------------------------------------------------------------------------------

CATALOGUE: Final[tuple[Mistake, ...]] = (
    # scaling
    Mistake(
        "scale_none", "scaling", {"scale": lambda s, p: s},
        "分数没有除以 √d_head",
        "the scores are not divided by √d_head",
        "权重太尖，每行最大的偏大；d_head 越大，越接近 1。",
        "The largest weight of each row is too large; with a large d_head it comes near 1.",
        "scores / np.sqrt(d_head)",
        ("karpathy/ng-video-lecture/issues/55",
         "delzac/cntkx/issues/10",
         "PAIR-code/tiny-transformers/issues/71",),
    ),
    Mistake(
        "scale_d_model", "scaling", {"scale": lambda s, p: s / np.sqrt(_d_model(p))},
        "分数除以的是 √d_model，不是 √d_head",
        "the scores are divided by √d_model instead of √d_head",
        "权重太平：任意两个权重之比的对数，都只有应有的 √(d_head/d_model)，常常就是 1/√n_heads。",
        "The weights are too flat: differences of their logarithms are too small by a factor of "
        "√(d_model/d_head), which is √n_heads in most models.",
        "scores / np.sqrt(d_head)",
        ("aladdinpersson/Machine-Learning-Collection/issues/65",
         "lucidrains/vit-pytorch/issues/65",
         "karpathy/ng-video-lecture/pull/6",),
    ),
    Mistake(
        "scale_d", "scaling", {"scale": lambda s, p: s / p.d_head},
        "分数除以的是 d_head（或者两次除以 √d_head）",
        "the scores are divided by d_head, or by √d_head twice",
        "权重太平；d_head 越大，每行越接近平均。",
        "The weights are too flat; with a large d_head each row is almost even.",
        "scores / np.sqrt(d_head)",
        ("huggingface/transformers/pull/38290",
         "AI-Hypercomputer/maxtext/issues/3138",),
    ),
    Mistake(
        "scale_after_softmax", "scaling",
        {"scale": lambda s, p: s, "after_softmax": lambda w, p: w / np.sqrt(p.d_head)},
        "先做了 softmax，再除以 √d_head",
        "the weights are divided by √d_head after the softmax instead of the scores before it",
        "每行的和是 1/√d_head，不是 1。",
        "Each row sums to 1/√d_head, not to 1.",
        "softmax(scores / np.sqrt(d_head))",
        ("FrancescoSaverioZuppichini/ViT/issues/2",
         "FrancescoSaverioZuppichini/ViT/issues/6",),
    ),
    Mistake(
        "scale_after_softmax_d_model", "scaling",
        {"scale": lambda s, p: s, "after_softmax": lambda w, p: w / np.sqrt(_d_model(p))},
        "先做了 softmax，再除，除的还是 √d_model",
        "the weights are divided by √d_model after the softmax instead of the scores by √d_head "
        "before it",
        "每行的和是 1/√d_model，不是 1。",
        "Each row sums to 1/√d_model, not to 1.",
        "softmax(scores / np.sqrt(d_head))",
        ("FrancescoSaverioZuppichini/ViT/issues/1",),
    ),
    Mistake(
        "scale_multiplied", "scaling", {"scale": lambda s, p: s * np.sqrt(p.d_head)},
        "分数乘了 √d_head，没有除",
        "the scores are multiplied by √d_head instead of divided by it",
        "权重太尖；d_head 大的时候，一行的权重几乎全在一个键上。",
        "The weights are too sharp; with a large d_head almost all of a row lies on one key.",
        "scores / np.sqrt(d_head)",
        ("esceptico/perceiver-io/issues/9",
         "rasbt/LLMs-from-scratch/issues/856",),
    ),
    Mistake(
        "scale_tokens", "scaling", {"scale": lambda s, p: s / np.sqrt(s.shape[-1])},
        "分数除以的是 √n_k：取错了轴，用的是词的个数",
        "the scores are divided by √n_k, the number of keys: the wrong axis of K's shape",
        "句子越长，权重越平。",
        "The longer the sentence, the flatter the weights.",
        "scores / np.sqrt(k.shape[-1])",
        (),
    ),
    # softmax
    Mistake(
        "softmax_columns", "softmax", {"softmax": lambda x: softmax(x, -2)},
        "softmax 是沿查询（列方向）做的，不是沿键",
        "the softmax runs down the columns, over the queries, instead of over the keys",
        "各列的和是 1，各行的和不是；有因果遮罩时，前面的输出会随后面的词变。",
        "Columns sum to 1, rows do not; behind a causal mask, earlier outputs depend on later tokens.",
        "softmax(scaled, axis=-1)",
        ("labmlai/annotated_deep_learning_paper_implementations/issues/146",
         "nerminnuraydogan/vision-transformer/issues/1",
         "nerdai/llms-from-scratch-rs/pull/30",),
        _careless(-2),
    ),
    Mistake(
        "softmax_heads", "softmax", {"softmax": lambda x: softmax(x, -3)},
        "softmax 是沿头那个轴做的，不是沿键",
        "the softmax runs over the heads instead of over the keys",
        "同一格的权重，各个头加起来是 1，每行的和不是 1；有因果遮罩时出现 NaN。",
        "The weights of one place sum to 1 over the heads, rows do not; behind a causal mask it gives "
        "NaN.",
        "softmax(scaled, axis=-1)",
        ("FudanNLP/fastNLP/issues/254",
),
        _careless(-3),
    ),
    Mistake(
        "softmax_batch", "softmax", {"softmax": lambda x: softmax(x, -4)},
        "softmax 是沿批那个轴做的，不是沿键",
        "the softmax runs over the batch instead of over the keys",
        "一个句子的结果，会随同一批里别的句子变。",
        "The result of one sentence depends on the other sentences of the batch.",
        "softmax(scaled, axis=-1)",
        ("PetrochukM/PyTorch-NLP/issues/2",
         "pytorch/pytorch/issues/1020",),
        _careless(-4),
    ),
    Mistake(
        "softmax_all", "softmax", {"softmax": lambda x: softmax(x, None)},
        "softmax 的分母把整个数组都加了进去，没有按行来",
        "the softmax divides by the sum of the whole array instead of each row's own",
        "所有权重加起来才是 1；每行的和远小于 1。",
        "All weights together sum to 1; each row sums to much less.",
        "exps / exps.sum(axis=-1, keepdims=True)",
        (),
        (_axis(None, lambda x: 0.0),),
    ),
    Mistake(
        "softmax_no_keepdims", "softmax",
        {"softmax": lambda x: _no_keepdims(x, x.max(axis=-1, keepdims=True))},
        "softmax 的分母少了 keepdims：第 j 列被第 j 行的和除了",
        "the sum of the softmax lacks keepdims: column j is divided by the sum of row j",
        "行和不是 1；有几个头的时候报错，除非头数恰好等于词数。",
        "Rows do not sum to 1; with several heads it raises an error, unless there are as many heads "
        "as tokens.",
        "exps / exps.sum(axis=-1, keepdims=True)",
        (),
    ),
    Mistake(
        "softmax_bare", "softmax", {"softmax": lambda x: _no_keepdims(x, 0.0)},
        "softmax 写成了 np.exp(x) / np.exp(x).sum(axis=-1)：少了 keepdims，也没有减最大值",
        "the softmax is np.exp(x) / np.exp(x).sum(axis=-1): no keepdims, and no maximum subtracted",
        "行和不是 1；有几个头的时候报错，除非头数恰好等于词数；分数一大就是 NaN。",
        "Rows do not sum to 1; with several heads it raises an error, unless there are as many heads "
        "as tokens; large scores give NaN.",
        "exps / exps.sum(axis=-1, keepdims=True)",
        (),
        ({"softmax": lambda x: _no_keepdims(x, x.max())},),
    ),
    Mistake(
        "softmax_max_no_keepdims", "softmax", {"softmax": lambda x: _no_keepdims_max(x, True)},
        "softmax 减最大值时少了 keepdims：第 j 列减去的是第 j 行的最大值",
        "the maximum of the softmax lacks keepdims: column j is lowered by the maximum of row j",
        "行和是 1，权重却不对；有几个头的时候报错，除非头数恰好等于词数。",
        "Rows sum to 1 and the weights are wrong; with several heads it raises an error, unless "
        "there are as many heads as tokens.",
        "np.exp(x - x.max(axis=-1, keepdims=True))",
        (),
    ),
    Mistake(
        "softmax_neither_keepdims", "softmax", {"softmax": lambda x: _no_keepdims_max(x, False)},
        "softmax 的最大值和分母都少了 keepdims",
        "neither the maximum nor the sum of the softmax has keepdims",
        "行和不是 1；有几个头的时候报错，除非头数恰好等于词数。",
        "Rows do not sum to 1; with several heads it raises an error, unless there are as many heads "
        "as tokens.",
        "exps / exps.sum(axis=-1, keepdims=True)",
        (),
    ),
    Mistake(
        "softmax_no_max", "softmax", {"softmax": _no_max},
        "softmax 没有先减去行的最大值",
        "the softmax does not subtract the row's maximum first",
        "分数一大就是 inf 和 NaN：float16 超过 11，float32 超过 88，float64 超过 709。",
        "Large scores give inf and NaN: above 11 in float16, 88 in float32, 709 in float64.",
        "np.exp(x - x.max(axis=-1, keepdims=True))",
        ("pytorch/executorch/pull/18407",
         "tenstorrent/tt-metal/pull/44849",
         "mila-iqia/blocks/pull/727",),
    ),
    Mistake(
        "softmax_whole_max", "softmax", {"softmax": _whole_max},
        "softmax 减去的是整个数组的最大值，不是每一行自己的",
        "the softmax subtracts the maximum of the whole array instead of each row's own",
        "平时看不出来；某一行的分数比别的行小很多时，它的指数全是 0，结果是 NaN。",
        "Nothing shows until one row's scores are far below the others': all its exponentials are 0 "
        "and it becomes NaN.",
        "np.exp(x - x.max(axis=-1, keepdims=True))",
        (),
    ),
    Mistake(
        "softmax_twice", "softmax", {"softmax": lambda x: softmax(softmax(x))},
        "softmax 做了两次",
        "the softmax is applied twice",
        "行和是 1，可每一行都很平：最大的权重不超过最小的 e 倍，遮住的键也有权重。",
        "Rows sum to 1 and are almost even: the largest weight is at most e times the smallest, and "
        "masked keys have weight too.",
        "softmax(scaled)",
        (),
    ),
    Mistake(
        "softmax_unnormalised", "softmax", {"softmax": np.exp},
        "取了指数，没有除以行的和",
        "the exponentials are not divided by their sum",
        "每行的和不是 1，有的权重大于 1。",
        "Rows do not sum to 1; some weights are above 1.",
        "exps / exps.sum(axis=-1, keepdims=True)",
        (),
    ),
    # mask
    Mistake(
        "mask_left_out", "mask", {"mask": lambda s, p: s},
        "没有用遮罩，每个词都看得见后面的词",
        "the mask is left out: every token sees the ones after it",
        "第一个词的输出随最后一个词变。",
        "The first token's output depends on the last token.",
        "softmax(scaled + mask)",
        ("paiml/entrenar/issues/310",
         "alex-matton/causal-transformer-decoder/issues/1",),
    ),
    Mistake(
        "mask_after_softmax", "mask",
        {"mask": lambda s, p: s, "after_softmax": lambda w, p: w * p.may_look},
        "遮罩用在 softmax 之后，行没有再归一化",
        "the mask is applied after the softmax, and the rows are not normalised again",
        "最后一行的和是 1，前面各行都不到 1，越靠前一般越小。",
        "Every row but the last sums to less than 1; early rows tend to the smallest sums.",
        "softmax(scaled + mask)",
        ("huggingface/pytorch-image-models/pull/2236",
         "lucidrains/memory-compressed-attention/issues/2",),
    ),
    Mistake(
        "mask_after_exp", "mask",
        {"mask": lambda s, p: s, "after_softmax": _renormalised},
        "遮罩用在指数之后，行再归一化",
        "the mask is applied to the exponentials, and the rows are normalised again",
        "平时是对的；遮住的分数比看得见的大很多时，一行成了 0 除以 0，是 NaN。",
        "Right, until a masked score is far above the visible ones: then a row is 0/0 and NaN.",
        "softmax(scaled + mask)",
        (),
    ),
    Mistake(
        "mask_zero", "mask", {"mask": lambda s, p: s * p.may_look},
        "遮住的分数变成了 0，不是 −∞",
        "masked scores become 0 instead of −∞",
        "行和是 1，可遮住的键还有权重：e⁰ 是 1，不是 0。",
        "Rows sum to 1, yet masked keys have weight: e⁰ is 1, not 0.",
        "np.where(may_look, scaled, -np.inf)",
        ("georg-wolflein/good-features/pull/1",
         "hyunwoongko/transformer/issues/10",),
    ),
    Mistake(
        "mask_added_01", "mask", {"mask": lambda s, p: s + p.may_look},
        "把 1（可以看）和 0（不能看）加到了分数上",
        "1 (may look) and 0 (may not) are added to the scores",
        "行和是 1，后面的词没有被遮住，和前面的相比只少了 e 倍。",
        "Rows sum to 1; later tokens weigh less by a factor of e, and are not hidden.",
        "scaled + np.where(may_look, 0, -np.inf)",
        ("pytorch/pytorch/issues/21518",
         "bkitano/llama-from-scratch/issues/6",),
    ),
    Mistake(
        "mask_added_10", "mask", {"mask": lambda s, p: s + (1 - p.may_look)},
        "把 1（不能看）和 0（可以看）加到了分数上",
        "1 (may not look) and 0 (may) are added to the scores",
        "行和是 1，该遮住的词反而多了 e 倍。",
        "Rows sum to 1; the tokens that should be hidden weigh more by a factor of e.",
        "scaled + np.where(may_look, 0, -np.inf)",
        ("open-mmlab/mmdetection/issues/12351",),
    ),
    Mistake(
        "mask_polarity", "mask", {"mask": lambda s, p: _hide(s, p.may_look == 1)},
        "遮罩反了：能看的被遮住，不能看的留下来",
        "the mask is the wrong way round: what may be seen is hidden",
        "每个词只看后面的词；最后一行全被遮住，是 NaN。",
        "Each token sees only later ones; the last row has nothing left and is NaN.",
        "np.where(may_look, scaled, -np.inf)",
        ("tensorflow/text/pull/894",
         "cnzzx/GeMap/issues/1",
         "TransformerLensOrg/TransformerLens/issues/385",),
    ),
    Mistake(
        "mask_upside_down", "mask", {"mask": lambda s, p: _hide(s, p.may_look.T == 0)},
        "遮罩用了另一半三角（triu 和 tril 弄反）：每个词看自己和后面的词",
        "the other triangle is used (triu for tril): each token sees itself and later ones",
        "最后一个词只看得见自己，第一个词看得见全部。",
        "The last token sees itself alone, the first sees everything.",
        "np.tril(np.ones((n, n)))",
        ("pytorch/pytorch/issues/29546",
         "hkproj/pytorch-transformer/issues/19",),
    ),
    Mistake(
        "mask_not_itself", "mask", {"mask": lambda s, p: _hide(_mask_added(s, p), _diagonal(p, 0))},
        "遮罩错开了一格：词看不见自己",
        "the mask is off by one: a token does not see itself",
        "第一行没有键可看，是 NaN（换成 −1e9，就不是 NaN：权重分给了所有的键，包括该遮住的）。",
        "The first row has no key left and is NaN (with −1e9 it spreads over all keys, hidden ones "
        "too).",
        "np.triu(np.ones((n, n)), k=1)",
        ("pbloem/former/issues/10",),
    ),
    Mistake(
        "mask_next", "mask",
        {"mask": lambda s, p: np.where(_diagonal(p, 1), s, _mask_added(s, p))},
        "遮罩错开了一格：词看得见下一个词",
        "the mask is off by one: a token sees the next one",
        "第 i 行的输出随第 i + 1 个词变。",
        "The output of row i depends on token i + 1.",
        "np.triu(np.ones((n, n)), k=1)",
        ("RVC-Boss/GPT-SoVITS/issues/965",),
    ),
    Mistake(
        "mask_finite", "mask", _finite_added(-1e5),
        "遮罩加的是 −1e5 这样的有限数，分数相差更大的时候遮不住",
        "a finite number such as −1e5 is added as the mask, which large scores outweigh",
        "平时看不出来；遮住的分数比看得见的大出这个数，后面的词就漏了进来。",
        "Nothing shows until scores differ by about as much as that number; then later tokens leak in.",
        "scaled + np.where(may_look, 0, -np.inf)",
        ("facebookresearch/fairseq/issues/3575",
         "tatp22/linformer-pytorch/pull/19",),
        (_finite_added(-1e4), _finite_added(-1e3)),
    ),
    Mistake(
        "mask_filled", "mask", _finite_filled(-1e5),
        "遮住的分数填成了 −1e5 这样的有限数，真的分数可能比它还小",
        "masked scores are filled with a finite number such as −1e5, and real scores lie below it",
        "平时看不出来；一行里看得见的分数都比它小，权重就全给了遮住的词。",
        "Nothing shows until all the scores that a row may see lie below that number; then the hidden "
        "tokens get the weight.",
        "np.where(may_look, scaled, -np.inf)",
        ("NVIDIA/apex/issues/1105",),
        (_finite_filled(-1e4), _finite_filled(-1e3)),
    ),
    # heads
    Mistake(
        "merge_no_transpose", "heads", {"merge": _merge_as_read},
        "合并头之前没有转置：[n_heads, S, d_head] 直接 reshape 成了 [S, …]",
        "the heads are merged without the transpose: [n_heads, S, d_head] is reshaped as it is",
        "输出的一行混进了别的词；有因果遮罩也会漏。",
        "A row of the output holds numbers of other tokens; behind a causal mask the future leaks.",
        "context.swapaxes(-2, -3).reshape(S, n_heads * d_head)",
        ("jsbaan/transformer-from-scratch/issues/4",
         "ajhalthor/Transformer-Neural-Network/pull/4",
         "Lightning-AI/litgpt/issues/1906",),
    ),
    Mistake(
        "split_no_transpose", "heads", {"split": _split_as_read},
        "切头的时候没有转置：[S, …] 直接 reshape 成了 [n_heads, S, d_head]",
        "the heads are split without the transpose: rows are reshaped straight to [n_heads, S, d_head]",
        "第 0 个头里只有最前面的几个词，切成了小段；头里的一行是别的词的一段。",
        "Head 0 holds the first tokens, cut into pieces, and no others; a row of a head is a piece of "
        "some other token.",
        "q.reshape(S, n_heads, d_head).swapaxes(-2, -3)",
        ("reczoo/FuxiCTR/issues/30",
         "hyunwoongko/transformer/issues/15",),
    ),
    Mistake(
        "split_interleaved", "heads", {"split": _split_by_stride},
        "切头的时候按间隔取列：第 h 个头拿的是第 h、h + n_heads … 列",
        "the columns are dealt out in turn: head h gets columns h, h + n_heads, …",
        "形状对，行和是 1；每个头拼起来的列来自所有的头。",
        "Shapes and row sums are right; each head is put together from columns of all heads.",
        "q.reshape(S, n_heads, d_head)",
        (),
    ),
    Mistake(
        "merge_interleaved", "heads", {"merge": _merge_by_stride},
        "合并的时候按间隔放列：先放各个头的第 0 个数，再放第 1 个",
        "the heads are merged number by number: first the number 0 of every head, then the number 1",
        "合并后的数一个不少，只是列的顺序换了，乘 W_O 的时候对不上行。",
        "No number is lost; the columns are in another order and meet the wrong rows of W_O.",
        "context.swapaxes(-2, -3).reshape(S, n_heads * d_head)",
        (),
    ),
    Mistake(
        "heads_slice_x", "heads",
        {"project_q": lambda h, p: _own_slices(h, p.w_q, p.n_heads),
         "project_k": lambda h, p: _own_slices(h, p.w_k, p.n_kv_heads),
         "project_v": lambda h, p: _own_slices(h, p.w_v, p.n_kv_heads)},
        "每个头只读 x 自己那一段，而不是整个 x",
        "each head reads its own slice of x instead of all of it",
        "改 x 的第 0 列（从 0 数），只有第 0 个头变；应该所有的头都变。",
        "Change column 0 of x and only head 0 moves; all heads should.",
        "split_heads(x @ w_q, n_heads)",
        ("MarcoMeter/episodic-transformer-memory-ppo/pull/22",
         "karpathy/nanoGPT/issues/629",),
    ),
    Mistake(
        "heads_reversed", "heads", {"head_order": lambda context, p: context[..., ::-1, :, :]},
        "头的顺序反了，和 W_O 的行块对不上",
        "the heads are in reverse order and meet the wrong rows of W_O",
        "每个头都对，合起来不对；把 W_O 的行块也倒过来就对了。",
        "Every head is right and the sum is wrong; W_O with its row blocks reversed puts it right.",
        "np.concatenate([head_0, head_1, …], axis=-1) @ w_o",
        (),
    ),
    Mistake(
        "heads_averaged", "heads",
        {"merge": lambda context: context.mean(axis=-3), "project_out": _left_out},
        "各个头取了平均，没有拼接，也没有 W_O",
        "the heads are averaged: no concatenation and no W_O",
        "输出只有 d_head 列；调换两个头，结果不变。",
        "The output has only d_head columns; exchanging two heads changes nothing.",
        "np.concatenate(heads, axis=-1) @ w_o",
        ("pbloem/former/issues/23",),
    ),
    Mistake(
        "heads_summed", "heads",
        {"merge": lambda context: context.sum(axis=-3), "project_out": _left_out},
        "各个头直接相加，没有拼接，也没有 W_O",
        "the heads are summed: no concatenation and no W_O",
        "输出只有 d_head 列；调换两个头，结果不变。",
        "The output has only d_head columns; exchanging two heads changes nothing.",
        "np.concatenate(heads, axis=-1) @ w_o",
        ("awf/functional-transformer/issues/8",),
    ),
    # output projection
    Mistake(
        "w_o_left_out", "output", {"project_out": _left_out},
        "没有乘 W_O，各个头只是拼在一起",
        "W_O is left out: the heads are only laid side by side",
        "输出的第 h 段只取决于第 h 个头。",
        "Block h of the output depends on head h alone.",
        "merged @ w_o",
        ("Kyubyong/transformer/issues/117",
         "jwallbridge/translob/issues/4",),
    ),
    Mistake(
        "w_o_transposed", "output", {"project_out": lambda merged, p: merged @ given(p.w_o).T},
        "W_O 转置了",
        "W_O is transposed",
        "方阵的形状看不出来，只有数不对。",
        "A square matrix hides it; only the numbers are wrong.",
        "merged @ w_o   # [d_out, d_in]: merged @ w_o.T",
        ("AaltoML/SUQ/issues/2",
         "skyzh/tiny-llm/issues/41",),
    ),
    Mistake(
        "w_o_relu", "output", {"project_out": _relu_after},
        "乘完 W_O 之后又过了一个 ReLU",
        "a ReLU follows W_O",
        "输出里没有负数。",
        "The output has no negative number.",
        "merged @ w_o",
        ("Kyubyong/transformer/pull/17",
         "CyberZHG/keras-multi-head/issues/8",),
    ),
    Mistake(
        "w_o_first_rows", "output", {"project_out": _first_rows},
        "每个头乘的都是 W_O 最前面的 d_head 行（第 0 个头的那一块）",
        "every head goes through the first d_head rows of W_O, which belong to head 0",
        "调换两个头，结果不变；W_O 后面的行改成什么都没有影响。",
        "Exchanging two heads changes nothing; the later rows of W_O have no effect.",
        "head_h @ w_o[h * d_head : (h + 1) * d_head]",
        ("Altaheri/EEG-ATCNet/issues/20",),
    ),
    Mistake(
        "w_o_before_merge", "output", {"values": _w_o_on_values, "project_out": _left_out},
        "W_O 乘早了：先乘在 V 上，再由各个头加权、合并",
        "W_O is applied too early: to V, before the heads weigh and are merged",
        "输出的第 h 段只用了第 h 个头的权重。",
        "Block h of the output uses the weights of head h alone.",
        "merge_heads(context) @ w_o",
        (),
    ),
    # projections
    Mistake(
        "k_as_v", "projections", {"weigh": lambda weights, v, k: weights @ k},
        "加权的是 K，不是 V",
        "the weights are applied to K instead of V",
        "改 W_V（或 V），输出不变。",
        "Changing W_V (or V) does not change the output.",
        "weights @ v",
        ("yflyzhang/AnnotatedTransformer/issues/1",
         "Khaliladib11/Transformer-from-scratch/issues/1",),
    ),
    Mistake(
        "v_not_projected", "projections", {"project_v": lambda h, p: _as_wide_as(h, p.w_v)},
        "V 没有投影，直接用了 x",
        "V is not projected: x itself is weighed",
        "改 W_V，输出不变。",
        "Changing W_V does not change the output.",
        "v = x @ w_v",
        (),
    ),
    Mistake(
        "nothing_projected", "projections",
        {"project_q": lambda h, p: _as_wide_as(h, p.w_q),
         "project_k": lambda h, p: _as_wide_as(h, p.w_k),
         "project_v": lambda h, p: _as_wide_as(h, p.w_v)},
        "Q、K、V 都没有投影，三个都是 x",
        "nothing is projected: Q, K and V are all x",
        "遮罩之前的分数矩阵是对称的（没有偏置时）；改 W_Q、W_K、W_V 都没有影响。",
        "Without biases the scores are symmetric; changing W_Q, W_K or W_V has no effect.",
        "q, k, v = x @ w_q, x @ w_k, x @ w_v",
        (),
    ),
    Mistake(
        "k_is_q", "projections", {"project_k": lambda h, p: project(h, given(p.w_q))},
        "K 是用 W_Q 算的",
        "K is projected with W_Q",
        "遮罩之前的分数矩阵是对称的（没有偏置时）；改 W_K，输出不变。",
        "Without biases the scores are symmetric, with RoPE too; changing W_K does not change the "
        "output.",
        "k = x @ w_k",
        ("stevinc/Transformer_Timeseries/issues/2",),
    ),
    Mistake(
        "q_is_k", "projections", {"project_q": lambda h, p: project(h, given(p.w_k))},
        "Q 是用 W_K 算的",
        "Q is projected with W_K",
        "遮罩之前的分数矩阵是对称的（没有偏置时）；改 W_Q，输出不变。",
        "Without biases the scores are symmetric, with RoPE too; changing W_Q does not change the "
        "output.",
        "q = x @ w_q",
        (),
    ),
    Mistake(
        "qkv_transposed", "projections",
        {"project_q": lambda h, p: _stored(h, p.w_q), "project_k": lambda h, p: _stored(h, p.w_k),
         "project_v": lambda h, p: _stored(h, p.w_v)},
        "W_Q、W_K、W_V 都转置了",
        "W_Q, W_K and W_V are transposed",
        "方阵的形状看不出来；不是方阵就报错。",
        "Square matrices hide it; others raise an error.",
        "x @ w_q   # [d_out, d_in]: x @ w_q.T",
        ("probml/pml2-book/issues/228",
         "skyzh/tiny-llm/pull/60",),
    ),
    Mistake(
        "weights_transposed", "projections",
        {"weigh": lambda weights, v, k: weights.swapaxes(-1, -2) @ v},
        "权重矩阵转置了再去乘 V",
        "the weights are transposed before they weigh V",
        "V 全取 1，出来的上下文不全是 1；键和查询个数不同时报错。",
        "With V all ones the context is not all ones; with more keys than queries it raises an error.",
        "weights @ v",
        ("heykeetae/Self-Attention-GAN/issues/11",),
    ),
    Mistake(
        "scores_transposed", "projections",
        {"score": lambda q, k: (q @ k.swapaxes(-1, -2)).swapaxes(-1, -2)},
        "分数转置了：算的是 K·Qᵀ，行成了键（Q 和 K 调换了）",
        "the scores are transposed: K·Qᵀ, Q and K exchanged",
        "行和是 1，可第 i 行是第 i 个键的分数。",
        "Rows sum to 1, but row i holds the scores of key i.",
        "q @ k.swapaxes(-1, -2)",
        (),
    ),
    Mistake(
        "k_reshaped", "projections",
        {"score": lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])},
        "K 用的是 reshape，不是转置",
        "K is reshaped instead of transposed",
        "形状对，分数的每一列不是一个键，是几个键的碎片。",
        "The shape is right; a column of the scores is no key but pieces of several.",
        "q @ k.swapaxes(-1, -2)",
        (),
    ),
    Mistake(
        "bias_dropped", "projections", {"add_bias": lambda y, b: y},
        "Q、K、V 的偏置没有加",
        "the biases of Q, K and V are dropped",
        "x 取全 0 时，输出是 0；应该是 b_V 乘上 W_O。",
        "With x all zeros the output is 0; it should be b_V through W_O.",
        "x @ w_q + b_q",
        ("sbryngelson/ANEForge/pull/253",
         "paiml/entrenar/issues/258",),
    ),
    # grouped K/V heads
    Mistake(
        "gqa_tiled", "grouped", {"share": _tile},
        "键值头是一轮一轮平铺的（tile），不是逐个重复的（repeat）",
        "K/V heads are tiled instead of repeated",
        "查询头 1 用了键值头 1；应该和查询头 0 一样用键值头 0。",
        "Query head 1 uses K/V head 1; it should share K/V head 0 with query head 0.",
        "np.repeat(k, n_heads // n_kv_heads, axis=-3)",
        ("onnx/onnx/pull/7274",
         "ekzhang/jax-js/pull/180",),
    ),
    Mistake(
        "gqa_first", "grouped", {"share": _first_for_all},
        "所有的查询头用的都是第一个键值头",
        "every query head uses the first K/V head",
        "改别的键值头，输出不变。",
        "Changing the other K/V heads does not change the output.",
        "np.repeat(k, n_heads // n_kv_heads, axis=-3)",
        ("PSAL-POSTECH/ONNXim/issues/33",),
    ),
    Mistake(
        "gqa_stride", "grouped", {"share": _tile, "head_order": _stride_order},
        "查询头按间隔分组（第 0、n_kv … 个一组），分完没有排回去",
        "query heads are grouped by stride (0, n_kv, … in one group) and not put back in order",
        "配错了键值头，头的顺序也乱了。",
        "The wrong K/V heads, and the heads in another order.",
        "q.reshape(n_kv_heads, group, S, d_head)",
        ("HazyResearch/HipKittens/pull/22",),
    ),
    Mistake(
        "gqa_divided", "grouped", {"share": _divided},
        "第 i 个查询头用的是第 i // n_kv_heads 个键值头，应该除以每组的头数",
        "query head i uses K/V head i // n_kv_heads; it should divide by the size of a group",
        "后面的键值头没有人用；每组的头比键值头多时，下标越界。",
        "The last K/V heads go unused; with groups larger than the number of K/V heads the index "
        "runs over.",
        "k[i // (n_heads // n_kv_heads)]",
        (),
    ),
    # rotary positions
    Mistake(
        "rope_left_out", "rope", {"rotated": ""},
        "没有转：Q 和 K 里没有位置",
        "nothing is rotated: Q and K carry no position",
        "没有遮罩时，调换两个词，输出只是跟着调换。",
        "Without a mask, exchanging two tokens only exchanges their outputs.",
        "rotate(q, angles), rotate(k, angles)",
        ("ByteDance-Seed/VeOmni/issues/414",),
    ),
    Mistake(
        "rope_keys_plain", "rope", {"rotated": "q"},
        "只转了 Q，K 没有转",
        "only Q is rotated, K is not",
        "所有位置一起往后移，分数会变；应该不变。",
        "Moving all positions by the same amount changes the scores; it should not.",
        "rotate(q, angles), rotate(k, angles)",
        ("kvcache-ai/sglang/pull/66",),
    ),
    Mistake(
        "rope_on_v", "rope", {"rotated": "qkv"},
        "V 也转了",
        "V is rotated too",
        "权重都对，输出不对；所有位置一起往后移，输出会变。",
        "All weights are right and the output is wrong; moving all positions changes it.",
        "rotate(q, angles), rotate(k, angles)",
        ("labmlai/annotated_deep_learning_paper_implementations/issues/251",),
    ),
    Mistake(
        "rope_pairing", "rope", {"turn": lambda x, a: rope.rotate(x, a, "interleaved")},
        "配对不同：转的是相邻的 (2i, 2i + 1)，参数要的是 (i, i + d_head/2)",
        "the other pairing is used: (2i, 2i + 1) where the parameters want (i, i + d_head/2)",
        "距离 0 的分数（词和它自己）对，别的距离都不对。",
        "The score of a token with itself is right; the others are wrong, from one token away.",
        "a, b = x[..., :half], x[..., half:]",
        ("NeuraLegion/shainet/pull/111",
         "naklecha/llama3-from-scratch/issues/20",),
    ),
    Mistake(
        "rope_layouts_mixed", "rope", {"turn": _mixed_layouts},
        "角度按相邻配对排（θ0 θ0 θ1 θ1 …），转的却是 (i, i + d_head/2)",
        "the angles are laid out for neighbours (θ0 θ0 θ1 θ1 …) and the numbers are turned as halves",
        "连转动都不是：转完以后，行的长度变了。",
        "It is no rotation at all: the length of a row changes.",
        "np.concatenate([angles, angles], axis=-1)",
        ("raiyanyahya/how-to-train-your-gpt/issues/6",),
    ),
    Mistake(
        "rope_d_model", "rope",
        {"frequencies": lambda p: 1 / (p.theta or 0.0)
         ** (np.arange(0, p.d_head, 2) / given(p.x).shape[-1])},
        "转速里用的是 d_model，不是 d_head",
        "the frequencies are computed with d_model instead of d_head",
        "第 0 对转得对，后面的都转得太快。",
        "Pair 0 turns as it should, all later ones too fast.",
        "theta ** -(np.arange(0, d_head, 2) / d_head)",
        ("huggingface/transformers/pull/32495",),
    ),
    Mistake(
        "rope_base", "rope", {"frequencies": lambda p: rope.frequencies(p.d_head, 1e4)},
        "底数用了 10000，没有用模型自己的 rope_theta",
        "the base is 10000 instead of the model's own rope_theta",
        "词挨得近时差得少，起先越远差得越多。",
        "Least shows between neighbours; the error grows with the distance at first.",
        "rope.frequencies(d_head, rope_theta)",
        ("sgl-project/SpecForge/issues/265",
         "paiml/realizar/issues/78",),
    ),
    Mistake(
        "rope_query_from_1", "rope", {"first_query": 1},
        "查询的位置从 1 数，键的位置从 0 数",
        "queries count their positions from 1 and keys from 0",
        "每个距离都多 1。两边一起从 1 数则没有影响。",
        "Every distance is too large by 1. Counting both from 1 would change nothing.",
        "np.arange(n_past, n_past + S)",
        ("Blaizzy/mlx-vlm/issues/1983",
         "fla-org/flash-linear-attention/issues/766",),
    ),
    Mistake(
        "rope_sign", "rope", {"turn": lambda x, a: rope.rotate(x, -a)},
        "转的方向反了",
        "the rotation runs the other way",
        "距离 0 的分数对，别的都不对；位置换成从后往前编号，分数就对了。",
        "The score of a token with itself is right, the others are wrong: distances count with the "
        "wrong sign.",
        "a * cos - b * sin, b * cos + a * sin",
        (),
    ),
    Mistake(
        "rope_before_split", "rope", {"rotated": "", "whole_width": _whole_width},
        "切头之前就转了：整行当成一个很宽的头",
        "the rotation comes before the split, over the whole width as if it were one head",
        "各个头转得不一样快；配对跨了两个头，同一个位置上的分数就已经不对。",
        "The heads turn at different speeds, and pairs span two heads: even scores of a token with "
        "itself are wrong.",
        "rotate(split_heads(q, n_heads), angles)",
        ("XPU-Forces/mojo_opset/pull/279",),
    ),
    # residual and norm
    Mistake(
        "residual_left_out", "layer", {"residual": lambda x, h, output, p: output},
        "没有加回 x（少了残差）",
        "the residual is left out: x is not added",
        "差的正好是 x。",
        "What is missing is exactly x.",
        "x + output",
        ("kyegomez/BitNet/issues/32",
         "lucidrains/audiolm-pytorch/issues/150",),
    ),
    Mistake(
        "residual_doubled", "layer", {"residual": lambda x, h, output, p: 2 * x + output},
        "x 加了两次",
        "x is added twice",
        "多出来的正好是 x。",
        "The excess is exactly x.",
        "x + output",
        ("yunzeliu/MAP/issues/3",),
    ),
    Mistake(
        "residual_normed", "layer", {"residual": lambda x, h, output, p: h + output},
        "加回去的是归一化以后的 x",
        "the normalised x is added instead of x",
        "x 放大十倍，输出几乎不变。",
        "With x ten times as large the output hardly changes.",
        "x + output",
        ("Howuhh/faster-trajectory-transformer/issues/3",
         "allenai/OLMo/pull/680",),
    ),
    Mistake(
        "norm_left_out", "layer", {"norm_first": lambda x, p: x},
        "注意力之前没有归一化",
        "the norm before attention is left out",
        "x 放大十倍，注意力的权重变尖；应该不变。",
        "With x ten times as large the weights get sharper; they should not change.",
        "attention(rms_norm(x, gain, eps))",
        (),
    ),
    Mistake(
        "norm_after", "layer", {"norm_first": lambda x, p: x, "norm_last": _norm_last},
        "归一化放在了相加之后，不是注意力之前",
        "the norm comes after the sum instead of before attention",
        "每行输出的均方根都差不多（gain 全是 1 时，就是 1）；x 再大也不变。",
        "With a gain of 1, the root mean square of each output row is 1, however large x is.",
        "x + attention(rms_norm(x, gain, eps))",
        ("harvardnlp/annotated-transformer/issues/92",
         "datawhalechina/happy-llm/issues/71",),
    ),
)  # fmt: skip


def names() -> tuple[str, ...]:
    """The names of all mistakes, in the order of the catalogue."""
    return tuple(mistake.name for mistake in CATALOGUE)


def find(name: str) -> Mistake:
    """The mistake of that name. ValueError for a name that is not in the catalogue."""
    for mistake in CATALOGUE:
        if mistake.name == name:
            return mistake
    known = ", ".join(names())
    refuse(f"没有叫 {name!r} 的错误。有的是：{known}", f"no mistake {name!r}; there are: {known}")


def together(*mistakes: Mistake, version: int = 0) -> Changes | None:
    """The exchanged steps of all of them; None when two want the same step.

    A `version` above 0 takes the other changes of a mistake that has some.
    """
    changes: dict[str, Any] = {}
    for mistake in mistakes:
        if changes.keys() & mistake.changes.keys():
            return None
        versions = (mistake.changes, *mistake.others)
        changes |= versions[version] if version < len(versions) else mistake.changes
    return changes


def versions(names: Collection[str]) -> int:
    """How many versions these mistakes have together."""
    return max((1 + len(find(name).others) for name in names), default=1)


@cache
def sets(most: int) -> tuple[tuple[str, ...], ...]:
    """The names of every set of up to `most` mistakes that can be made at once, fewest first."""
    return tuple(
        tuple(mistake.name for mistake in chosen)
        for size in range(most + 1)
        for chosen in combinations(CATALOGUE, size)
        if together(*chosen) is not None
    )

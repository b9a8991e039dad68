# %% [markdown] lang="zh"
# # 08 · 算错了，怎么找；再答一道面试题
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → 输出投影：**每一步会怎样算错** |
# | 需要什么 | [01](01_scores_and_scaling.ipynb) 到 [04](04_heads_and_output_projection.ipynb)；分组的键值头和 RoPE 见 [06](06_real_shapes.ipynb) |
# | 走完以后 | 见到一组不对的数，知道先查什么；会写几项检查，也知道每一项抓不到什么；能把自己写的注意力交给 `diagnose` 查；能答好“多个头的输出怎样合并、怎样投影回去”这道面试题 |
# | 多长时间 | 约 70 分钟 |

# %% [markdown] lang="en" of="158483e0"
# # 08 · Mistakes and how to find them; then an interview question
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → weigh → project out: **how each step goes wrong** |
# | What you need | [01](01_scores_and_scaling.ipynb) to [04](04_heads_and_output_projection.ipynb); for grouped K/V heads and RoPE, [06](06_real_shapes.ipynb) |
# | What you will be able to do | know what to look at first when numbers are wrong; write a few checks, and say what each cannot catch; hand your own attention to `diagnose`; give a good answer to the interview question "how are the outputs of the heads combined and projected back?" |
# | Time | about 70 minutes |

# %%
import inspect
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from byhand import data, diagnose, fast, figures_mistakes, kit, mistakes, models, probes, show
from byhand import attention, causal_mask, merge_heads, multi_head_attention, softmax, split_heads
from byhand import steps, toy
from byhand.probes import Kind

lang = "zh"  # the language of figures and diagnoses: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
t = toy.load()
families = {key: names[lang == "en"] for key, names in mistakes.FAMILIES.items()}

# %% [markdown] lang="zh"
# ## 不报错的错
#
# 形状对不上，程序多半会停下来，当场就能改。形状对、数不对，程序什么也不说，照样往下算。
#
# `byhand.mistakes` 收了一批这样的错误。每一个都是把正确的一步，或者连在一起的几步，换成错的，其余不动，所以后果量得出来。

# %% [markdown] lang="en" of="5cf7bb57"
# ## Mistakes that raise no error
#
# When shapes do not fit, the program mostly stops, and you fix it on the spot. When the shape is right and the numbers are wrong, the program says nothing and goes on computing.
#
# `byhand.mistakes` is a collection of such mistakes. In each, one step of the right computation, or a few that belong together, is replaced by a wrong one. The rest is left alone, so the effect can be measured.

# %%
catalogue = mistakes.CATALOGUE
with_link = sum(bool(m.threads) for m in catalogue)
for key, label in families.items():
    print(f"{sum(m.family == key for m in catalogue):>3}   {label}")
print(f"{len(catalogue):>3}   in all; {with_link} of them with a public thread")
assert {m.family for m in catalogue} == set(families) and with_link > len(catalogue) / 2

# %% [markdown] lang="zh"
# {{ len(catalogue) }} 个里，有 {{ with_link }} 个附有公开的链接：在那里真的发生过，或者有人问过。
#
# 先猜：在最常见的形状上运行，有几个会报错？有几个不报错，但是结果的形状不对？答案和后面的总表在一起。
#
# 要用的正确答案，还是小例子：两个头，因果遮罩，有 $W_O$。

# %% [markdown] lang="en" of="148f38b9"
# For {{ with_link }} of the {{ len(catalogue) }} there is a public thread where it happened or was asked about.
#
# Guess first: run them on the most usual shapes. How many raise an error? How many raise none and return another shape? The answer comes with the table further down.
#
# For the right answer we take the toy again: two heads, a causal mask, and $W_O$.

# %%
problem = steps.Problem(
    n_heads=2, n_kv_heads=2, d_head=2,
    x=t.X, w_q=t.W_Q, w_k=t.W_K, w_v=t.W_V, w_o=t.W_O, mask=causal_mask(6),
)  # fmt: skip
no_mask = replace(problem, mask=None)
right = steps.run(problem)  # every stage by name
known = multi_head_attention(t.X, t.W_Q, t.W_K, t.W_V, t.W_O, 2, causal_mask(6))
assert np.allclose(right["output"], known.output, rtol=0, atol=1e-12)  # as in 04
print(", ".join(right))


def made(name, p=problem):
    """Every stage when this one mistake is made."""
    return steps.run(p, mistakes.find(name).changes)


def moved(name, p=problem):
    """How far the result moves, as a share of its own length."""
    good, bad = steps.result(p), steps.result(p, mistakes.find(name).changes)
    if bad is None or bad.shape != good.shape or not np.isfinite(bad).all():
        return "—"
    return f"{np.linalg.norm(bad - good) / np.linalg.norm(good):.0%}"


def low_high(values, decimals=2):
    """The smallest and the largest of some numbers, as text."""
    low, high = (f"{v:.{decimals}f}" for v in (np.min(values), np.max(values)))
    return low if low == high else f"{low} … {high}"


# %% [markdown] lang="zh"
# ## 陈列室
#
# 一类一类地看，每类挑几个。每一行是一个错误：前面几列是量得出来的**症状**，接着是输出动了多少（差的长度除以正确输出的长度），最后是它在目录里的名字。`right` 那一行是对的。
#
# 正文里的头从 1 数。错误的症状、诊断，还有分组的那一节，和代码一样从 0 数。
#
# ### 缩放
#
# 先猜：忘了除以 $\sqrt{d_{head}}$，「？」的那一行会更尖还是更平？行和会变吗？
#
# 下面是「？」在头 1 里的六个权重。`contrast` 这样算：取这一行最大和最小的权重，相除，取对数；再除以正确那一行的同一个数。

# %% [markdown] lang="en" of="9363e655"
# ## The gallery
#
# One family after another, a few mistakes of each. Each line is one mistake. First come **symptoms** that can be measured. Then comes how far the output moves: the length of the difference, as a share of the length of the right output. The name in the catalogue is last; `right` is the right computation.
#
# The prose counts heads from 1. The symptoms of the catalogue, the diagnoses and the section on grouped heads count from 0, as code does.
#
# ### Scaling
#
# Guess first: forget to divide by $\sqrt{d_{head}}$. Does the row of ？ get sharper or flatter? Do the row sums change?
#
# Here are the six weights of ？ in head 1. `contrast` takes the largest and the smallest weight of the row, divides them and takes the logarithm; this is divided by the same number of the right row.


# %%
def contrast(w):
    return np.log(w.max() / w.min())


row_right = right["weights"][0, 问号]  # [6]
shown = show.row(row_right)
print(f"{'the six weights':<{len(shown)}}   row sum   contrast   output")
print(f"{shown}   {row_right.sum():>7.3f}   {1:>8.3f}            right")
contrasts = {}
for name in ("scale_none", "scale_d_model", "scale_multiplied", "scale_after_softmax"):
    w = made(name)["weights"][0, 问号]
    contrasts[name] = contrast(w) / contrast(row_right)
    print(f"{show.row(w)}   {w.sum():>7.3f}   {contrasts[name]:>8.3f}   {moved(name):>6}   {name}")
after_sum = made("scale_after_softmax")["weights"][0, 问号].sum()
assert np.isclose(contrasts["scale_none"], np.sqrt(2))  # √d_head
assert np.isclose(contrasts["scale_d_model"], 1 / np.sqrt(2))  # 1/√n_heads
assert np.isclose(contrasts["scale_multiplied"], 2)  # d_head
assert np.isclose(after_sum, 1 / np.sqrt(2))

rng = np.random.default_rng(8)
sharpest = {}  # how many keys -> the mean largest weight of a row, d_head 128, not divided
for n_keys in (6, 512):
    q, k = rng.standard_normal((500, 128)), rng.standard_normal((n_keys, 128))
    sharpest[n_keys] = softmax(q @ k.T).max(axis=-1).mean()
    print(f"d_head 128, not divided, {n_keys:>3} keys: mean largest weight {sharpest[n_keys]:.2f}")

# %% [markdown] lang="zh"
# 行和只认得出最后一个：softmax 之后再除，和成了 {{ after_sum:.3f }}，就是 $1/\sqrt{d_{head}}$。前三个行和都是 1，最大的权重也还在同一个词上。
#
# 认得出它们的是 `contrast`。softmax 的两个权重之比的对数，就是两个分数之差，所以缩放错了多少倍，这里就差多少倍：没有除是 {{ contrasts["scale_none"]:.3f }}（$\sqrt{d_{head}}$），除以 $\sqrt{d_{model}}$ 是 {{ contrasts["scale_d_model"]:.3f }}（$1/\sqrt{n_{heads}}$，[01](01_scores_and_scaling.ipynb) 里遇到过）。
#
# 小例子里 $d_{head}$ 只有 2，差得不多。$d_{head}=128$，没有除就是 {{ np.sqrt(128):.1f }} 倍。随机的查询和键，一行里最大的权重平均是 {{ sharpest[6]:.2f }}（6 个键）和 {{ sharpest[512]:.2f }}（512 个键）。
#
# **工作中**：权重总是太尖或太平，就取一行。权重的对数两两相减，没有缩放的分数也两两相减，前者该是后者的 $1/\sqrt{d_{head}}$。

# %% [markdown] lang="en" of="d1882b30"
# The row sum recognises only the last: dividing after the softmax makes it {{ after_sum:.3f }}, which is $1/\sqrt{d_{head}}$. In the first three the rows sum to 1, and the largest weight is still on the same token.
#
# What recognises them is `contrast`. The logarithm of the ratio of two weights is the difference of their two scores, so whatever factor the scaling is off by shows here as it is: {{ contrasts["scale_none"]:.3f }} without the division ($\sqrt{d_{head}}$), and {{ contrasts["scale_d_model"]:.3f }} with $\sqrt{d_{model}}$ ($1/\sqrt{n_{heads}}$; we met it in [01](01_scores_and_scaling.ipynb)).
#
# In the toy $d_{head}$ is only 2 and little is lost. With $d_{head}=128$, no division is a factor of {{ np.sqrt(128):.1f }}. For random queries and keys the largest weight of a row is then {{ sharpest[6]:.2f }} on average (6 keys), or {{ sharpest[512]:.2f }} (512 keys).
#
# **At work**: when weights are always too sharp or too flat, take one row. Subtract the logarithms of its weights from each other, and the unscaled scores as well. The first differences should be $1/\sqrt{d_{head}}$ of the second.

# %% [markdown] lang="zh"
# ### softmax
#
# softmax 要沿着键做，每一行的和是 1。沿别的轴做，总有**别的**东西的和是 1。这里不用遮罩，免得遮罩的 0 挡住视线：

# %% [markdown] lang="en" of="8cff9bb2"
# ### Softmax
#
# The softmax runs over the keys, and each row sums to 1. Run it along something else, and something **else** sums to 1. There is no mask here, so that its zeros do not get in the way:

# %%
print("row sums      column sums   over the heads   everything   output")
for name in (None, "softmax_columns", "softmax_heads", "softmax_all", "softmax_unnormalised"):
    w = (steps.run(no_mask) if name is None else made(name, no_mask))["weights"]  # [2, 6, 6]
    print(
        f"{low_high(w.sum(-1)):<13} {low_high(w.sum(-2)):<13} {low_high(w.sum(0)):<16} "
        f"{w.sum():>10.2f}   {'right' if name is None else f'{moved(name, no_mask):<5}  {name}'}"
    )
assert np.allclose(made("softmax_columns", no_mask)["weights"].sum(-2), 1)
assert np.allclose(made("softmax_heads", no_mask)["weights"].sum(0), 1)
assert np.isclose(made("softmax_all", no_mask)["weights"].sum(), 1)

# %% [markdown] lang="zh"
# 表里哪一栏全是 1，就是沿哪个轴做的。[02](02_softmax.ipynb) 里遇到的是 `softmax_columns`。`softmax_unnormalised` 哪一栏都不是 1：它根本没有除。沿头做的那一个，输出动了 {{ moved("softmax_heads", no_mask) }}。这几个的形状，没有一个不对。
#
# 还有一个：求和的时候忘了 `keepdims=True`。先猜：一个头的时候会报错吗？两个头呢？六个头呢？

# %% [markdown] lang="en" of="670fdfa5"
# The column that is all 1 tells the axis. The one met in [02](02_softmax.ipynb) is `softmax_columns`. For `softmax_unnormalised` no column is 1: nothing is divided at all. The softmax over the heads moves the output by {{ moved("softmax_heads", no_mask) }}. And every shape is right.
#
# One more: `keepdims=True` is forgotten in the sum. Guess first: does it raise an error with one head? With two? With six?

# %%
one_head = replace(no_mask, n_heads=1, n_kv_heads=1, d_head=4)
w = made("softmax_no_keepdims", one_head)["weights"]
print(
    f"one head:  no error; row sums {low_high(w.sum(-1))}, output {moved('softmax_no_keepdims', one_head)}"
)
assert not np.allclose(w.sum(-1), 1)
try:
    made("softmax_no_keepdims", no_mask)
except ValueError as error:
    print(f"two heads: {error}")
else:
    raise AssertionError("with two heads the shapes should clash")
exps = np.exp(rng.standard_normal((6, 6, 6)))  # as many heads as tokens
sums = (exps / exps.sum(axis=-1)).sum(axis=-1)
print(f"six heads: no error; row sums {low_high(sums)}")
assert not np.allclose(sums, 1)

# %% [markdown] lang="zh"
# 一个头的时候，6 × 6 除以长度 6，NumPy 照样能除：第 $j$ 列除以第 $j$ 行的和。到了两个头才报错。六个头又不报错了：词正好也是六个，6 × 6 × 6 和 6 × 6 对得上。只在一个头上试过的代码，不算试过。
#
# 这一类里还有一种，平时看不出来：不先减最大值。公式上它是对的，坏在数的范围。float16 最大到 {{ int(np.finfo(np.float16).max) }}：

# %% [markdown] lang="en" of="e9464877"
# With one head, NumPy divides 6 × 6 by a row of 6 without complaint: column $j$ by the sum of row $j$. With two heads it raises an error. With six it does not: there are six tokens as well, and 6 × 6 × 6 by 6 × 6 fits. Code tested on one head only is not tested.
#
# One mistake of this family usually does not show: not subtracting the maximum first. As a formula it is right; what fails is the range of the numbers. float16 goes up to {{ int(np.finfo(np.float16).max) }}:

# %%
with np.errstate(over="ignore", invalid="ignore"):  # the overflow is what we want to see
    for largest in (11, 12):
        exps = np.exp(np.array([largest, 0], np.float16))
        plain = exps / exps.sum()
        print(f"scores {largest} and 0:   e^{largest} is {exps[0]}   weights {plain}")
assert np.isnan(plain[0])
largest_score = right["scaled"].max()  # what goes into the softmax
print(f"largest score of the toy: {largest_score:.2f}; output moves by {moved('softmax_no_max')}")
range_64 = int(np.log(np.finfo(np.float64).max))  # the largest score that float64 can take
assert largest_score < 11

# %% [markdown] lang="zh"
# 小例子里，进 softmax 的分数最大是 {{ largest_score:.2f }}。在 float16 里离 11 还远；小例子用的是 float64，离 {{ range_64 }} 更远。输出动了 {{ moved("softmax_no_max") }}。测试用的数都这么小，就永远测不到它。
#
# **工作中**：先打印行和。行和不是 1，错在 softmax 或者它后面一步。行和是 1，softmax 的轴和分母都没有错，错多半在别处；分数大的时候再看一次。出现 NaN，看两处：最大的分数，还有被遮罩全遮住的行。

# %% [markdown] lang="en" of="766beb72"
# In the toy the largest score that goes into the softmax is {{ largest_score:.2f }}. That is far from 11, where float16 ends, and the toy uses float64, which goes on to {{ range_64 }}. The output moves by {{ moved("softmax_no_max") }}. Tests whose numbers are all so small never find it.
#
# **At work**: print the row sums first. If they are not 1, look at the softmax or the step after it. If they are, its axis and its denominator are right, and the fault is probably elsewhere; look once more when scores are large. When there are NaNs, look in two places: at the largest score, and at rows in which the mask hides everything.

# %% [markdown] lang="zh"
# ### 遮罩
#
# 遮罩有一个实验，管得住一大半：**只改最后一个词，看前面的行动不动**。因果遮罩对了，前五行一点也不会动。
#
# 先猜：下面七个里，哪几个的行和全是 1，未来却漏了进来？

# %% [markdown] lang="en" of="216542c1"
# ### The mask
#
# One experiment finds most of the family: **change the last token only, and see whether earlier rows move**. With a correct causal mask the first five rows do not move at all.
#
# Guess first: in which of the seven below do all rows sum to 1 while the future leaks in?


# %%
def rows_that_move(name, p=problem):
    """Which of the rows before the last move when the last token changes, as 0 and 1."""
    changed = p.x.copy()
    changed[-1] += 1
    before, after = (made(name, q)["output"][:-1] for q in (p, replace(p, x=changed)))
    return (~np.isclose(before, after, rtol=0, atol=1e-9, equal_nan=True)).any(axis=1).astype(int)


mask_names = (
    "mask_left_out", "mask_after_softmax", "mask_zero", "mask_next",
    "mask_polarity", "mask_not_itself", "mask_finite",
)  # fmt: skip
hidden = np.isneginf(problem.mask)  # [6, 6]
print("finite row sums   hidden keys   rows 1–5 that move   rows of NaN     output")
for name in mask_names:
    stages = made(name)
    sums = stages["weights"].sum(-1)
    on_hidden = np.nanmax(stages["weights"][:, hidden])
    nan_rows = [toy.TOKENS[i] for i in np.flatnonzero(np.isnan(stages["output"]).any(axis=1))]
    print(
        f"{low_high(sums[np.isfinite(sums)]):<17} ≤ {on_hidden:<11.3f} {str(rows_that_move(name)):<20} "
        f"{' '.join(nan_rows) or 'none':<12}  {moved(name):>5}   {name}"
    )
leaky = [n for n in mask_names if rows_that_move(n).any()]
quiet_leaks = [n for n in leaky if np.allclose(made(n)["weights"].sum(-1), 1)]
assert quiet_leaks == ["mask_left_out", "mask_zero", "mask_next"]
assert not rows_that_move("mask_finite").any()
assert np.allclose(made("mask_finite")["output"], right["output"], rtol=0, atol=1e-12)
masked = made("mask_not_itself")["masked"]
filled = softmax(np.where(np.isneginf(masked), -1e9, masked))[0, 今天]
print(f"{show.row(filled)}   今天 sees nothing, −1e9 in the place of −∞")
assert np.allclose(filled, 1 / 6)

# %% [markdown] lang="zh"
# 行和全是 1 却漏了的，有 {{ len(quiet_leaks) }} 个：没有遮罩，遮成 0，错开一格看得见下一个词。把分数改成 0 遮不住谁：$e^0$ 是 1。`mask_polarity` 不算：它最后一行是 NaN，表里的行和是其余五行的。
#
# 用在 softmax 之后的那个，遮住的键权重确实是 0，未来还是漏了：分母里有后面的词。它的记号是：除了最后一行，行和都不到 1。
#
# NaN 落在哪一行也是线索。反了的遮罩，「？」后面没有词可看，最后一行成了 NaN；看不见自己的，「今天」前面没有词，第一行成了 NaN。换成 −1e9 这样的有限数，NaN 就不见了。「今天」把权重平分给了六个键，各 {{ filled[0]:.3f }}，它们全是该遮住的。这更难发现。
#
# `mask_finite` 加的是 −1e5，在小例子里一点也看不出来。把 $W_K$ 放大一百万倍，让分数很大：

# %% [markdown] lang="en" of="3a5e31b0"
# Rows that sum to 1 and leak all the same: {{ len(quiet_leaks) }}. No mask, zeros for a mask, and off by one so that a token sees the next. Setting a score to 0 hides nobody: $e^0$ is 1. `mask_polarity` is not one of them: its last row is NaN, and the row sums in the table are those of the other five.
#
# With the mask after the softmax, the hidden keys do have weight 0, and still the future leaks: later tokens are in the denominator. What gives it away is row sums below 1 in all rows but the last.
#
# Where the NaNs lie is a clue as well. With the mask the wrong way round, ？ has nothing after it to see, and the last row is NaN. When a token does not see itself, 今天 has nothing before it, and the first row is NaN. With a finite number such as −1e9 the NaN is gone. 今天 gives each of the six keys {{ filled[0]:.3f }}, and all of them should be hidden. That is harder to notice.
#
# `mask_finite` adds −1e5, and in the toy it does not show at all. Make the scores large, with $W_K$ a million times as large:

# %%
loud = replace(problem, w_k=t.W_K * 10**6)
print(rows_that_move("mask_finite", loud), "rows 1–5 that move, finite mask, large scores")
assert rows_that_move("mask_finite", loud).any()
on_hidden_loud = made("mask_finite", loud)["weights"][:, hidden].max()
print(f"largest weight on a hidden key: {on_hidden_loud:.3f}")
assert on_hidden_loud > 0.5


def mask_of_1e9(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where(np.isneginf(mask), -1e9, scores)) @ v


print("what diagnose says of a mask of −1e9:", "✓" if diagnose(mask_of_1e9).correct else "✗")
assert diagnose(mask_of_1e9).correct

# %% [markdown] lang="zh"
# 分数之间差到几百万，加上 −1e5 也压不住，遮住的键拿到了 {{ on_hidden_loud:.3f }}。数越大，越难撞上：`diagnose` 的题里，分数到几十万，填 −1e9 的遮罩，它会说正确。
#
# **工作中**：给每一个因果的函数配上这个测试：改最后一个词，断言前面的行一位不差。
#
# ### 头
#
# 切头、并头的错，行和都是 1。看三样：结果的形状；改最后一个词，前面的行动不动；只改 $X$ 的第 1 列，有几个头的上下文跟着动。

# %% [markdown] lang="en" of="ba8eb31a"
# When scores are millions apart, −1e5 cannot hold them down, and a hidden key gets {{ on_hidden_loud:.3f }}. The larger the number, the harder it is to run into: in the problems of `diagnose` scores reach some hundred thousand, and a mask filled with −1e9 passes as correct.
#
# **At work**: give every causal function this test. Change the last token, and assert that the earlier rows do not move by one digit.
#
# ### Heads
#
# With mistakes in splitting and merging, all rows sum to 1. Look at three things: the shape of the result; whether earlier rows move when the last token changes; and how many heads have a context that moves when only column 1 of $X$ changes.

# %%
first_column = t.X.copy()
first_column[:, 0] += 1
print("shape      rows 1–5 that move   heads that move   output")
for name in (
    "merge_no_transpose", "split_no_transpose", "split_interleaved",
    "heads_slice_x", "heads_reversed", "heads_averaged",
):  # fmt: skip
    before, after = made(name), made(name, replace(problem, x=first_column))
    heads = np.abs(after["context"] - before["context"]).max(axis=(1, 2)) > 1e-9  # [2]
    print(
        f"{str(before['output'].shape):<10} {str(rows_that_move(name)):<20} "
        f"{heads.sum():<16}  {moved(name):>5}   {name}"
    )
    assert heads.sum() == (1 if name == "heads_slice_x" else 2)
    assert rows_that_move(name).any() == (name in ("merge_no_transpose", "split_no_transpose"))
blocks_reversed = replace(problem, w_o=np.concatenate([t.W_O[2:], t.W_O[:2]]))
assert np.allclose(made("heads_reversed", blocks_reversed)["output"], right["output"])

# %% [markdown] lang="zh"
# 没有转置的两个，把一个词的数搬进了另一个词的行，遮罩就漏了（[04](04_heads_and_output_projection.ipynb) 里用编号看过）。每个头只读一段的，只有 1 个头跟着动。取平均的，只剩 2 列。
#
# 剩下的两个，这三样都看不出来：按间隔切列，头的次序反了。要么核对数值，要么像下面说的那样编号走一遍。次序反了的那个，把 $W_O$ 的行块也反过来就对了，格子里最后一行断言的就是这个。
#
# **工作中**：给 (头, 词, 维) 编号，像 04 里那样走一遍切头和并头，哪个数放错了地方，都看得见。
#
# ### 输出投影
#
# 看三样：只改头 2 的 $W_Q$，输出的四列哪几列动；把 $W_O$ 里头 2 的行翻倍，输出动不动；输出里有几个负数。

# %% [markdown] lang="en" of="d05f5a70"
# The two without the transpose carry numbers of other tokens into a row, and so the mask leaks (seen with labels in [04](04_heads_and_output_projection.ipynb)). Where each head reads a slice of its own, only 1 head moves. Averaged heads leave only 2 columns.
#
# The other two pass all three: columns dealt out in turn, and heads in reverse order. Compare values, or send labels through, as described next. With the heads reversed, reversing the row blocks of $W_O$ as well puts it right; that is what the last line of the cell asserts.
#
# **At work**: number (head, token, dimension) as in 04 and send the labels through your split and merge. They show every number that is out of place.
#
# ### The output projection
#
# Look at three things: which of the four output columns move when only $W_Q$ of head 2 changes; whether the output moves when the rows of $W_O$ that belong to head 2 are doubled; how many numbers of the output are negative.

# %%
other_q, other_o = t.W_Q.copy(), t.W_O.copy()
other_q[:, 2:] += [1, -1]  # the columns of head 2
other_o[2:] *= 2  # the rows of head 2
print("columns that move   W_O of head 2 counts   negative   output")
for name in (None, *(m.name for m in catalogue if m.family == "output")):
    runs = [
        steps.run(p) if name is None else made(name, p)
        for p in (problem, replace(problem, w_q=other_q), replace(problem, w_o=other_o))
    ]
    base, by_q, by_o = (r["output"] for r in runs)
    columns = (np.abs(by_q - base).max(axis=0) > 1e-9).astype(int)
    counts = not np.allclose(by_o, base)
    label = "right" if name is None else f"{moved(name):>4}   {name}"
    print(
        f"{str(columns):<19} {'yes' if counts else 'no':<22} {int((base < 0).sum()):>8}   {label}"
    )
    early = name in ("w_o_left_out", "w_o_before_merge")
    assert (list(columns) == [0, 0, 1, 1]) == early
    assert counts == (name not in ("w_o_left_out", "w_o_first_rows"))

# %% [markdown] lang="zh"
# 没有 $W_O$，头 2 就只写得到后两列。$W_O$ 乘早了，头 2 的**权重**只管后两列；它的 $V$ 却早已混进四列。每个头都用最前面那块行的，头 2 自己的行改成什么都没有用。过了 ReLU 的，一个负数也没有。
#
# 转置的那个，三样都和正确的差不多，输出动了 {{ moved("w_o_transposed") }}：方阵瞒住了它。[05](05_real_heads.ipynb) 里在训练好的模型上把 $W_O$ 弄坏了三次，形状也都对。
#
# **工作中**：换一个 $n_{heads}·d_{head} \neq d_{model}$ 的形状试，转置会当场报错。
#
# ### Q、K、V
#
# 改 $W_V$，输出该动；分数矩阵不该是对称的；$V$ 全取 1，上下文（乘 $W_O$ 以前）该全是 1，因为每行权重的和是 1。

# %% [markdown] lang="en" of="43d4fbec"
# Without $W_O$, head 2 reaches only the last two columns. With $W_O$ too early, the **weights** of head 2 act on the last two columns only; its $V$ has been mixed into all four before. Where every head uses the first block of rows, it does not matter what the rows of head 2 hold. After a ReLU there is no negative number.
#
# The transposed one passes all three much like the right one, and moves the output by {{ moved("w_o_transposed") }}: a square matrix hides it. In [05](05_real_heads.ipynb) we broke the $W_O$ of a trained model in three ways, and the shapes were right each time.
#
# **At work**: try a shape with $n_{heads}·d_{head} \neq d_{model}$. A transpose raises an error there and then.
#
# ### Q, K and V
#
# Change $W_V$, and the output should move. The scores should not be symmetric. With $V$ all ones, the context (before $W_O$) should be all ones, because each row of weights sums to 1.


# %%
def with_ones(name):
    """The context when every number of V is 1."""
    ones = {"values": lambda v, _: np.ones_like(v)}
    return steps.run(no_mask, {**mistakes.find(name).changes, **ones})["context"]


doubled_v = replace(no_mask, w_v=2 * t.W_V)
print("W_V counts   scores symmetric   context, V all 1   output")
for name in ("k_as_v", "v_not_projected", "k_is_q", "scores_transposed", "k_reshaped",
             "weights_transposed"):  # fmt: skip
    stages = made(name, no_mask)
    counts = not np.allclose(stages["output"], made(name, doubled_v)["output"])
    scores = stages["scores"]
    symmetric = np.allclose(scores, scores.swapaxes(-1, -2))
    print(
        f"{'yes' if counts else 'no':<12} {'yes' if symmetric else 'no':<18} "
        f"{low_high(with_ones(name)):<18} {moved(name, no_mask):>5}   {name}"
    )
    assert counts == (name not in ("k_as_v", "v_not_projected"))
    assert symmetric == (name == "k_is_q")

# %% [markdown] lang="zh"
# 前三个，各有一项通不过。最后一个（`weights_transposed`），$V$ 全是 1，出来的不是 1。（用 $K$ 当 $V$，权重转置，[03](03_weighted_values.ipynb) 里都遇到过。）`k_as_v` 那一行也不是 1，因为加权的是 $K$。第四、第五个，分数转置和 `reshape` 代替转置，三项全过，行和也是 1。
#
# **工作中**：投影那几行若是复制来的，一个变量一个变量地看。`k_as_v` 和 `k_is_q`，都可以是复制一行、有一个名字没有改。
#
# 还有偏置，漏了也不报错。先猜：$b_Q$、$b_K$、$b_V$ 各漏一个，哪个看得出来？

# %% [markdown] lang="en" of="a88b0799"
# Each of the first three fails one. With the last (`weights_transposed`), $V$ all ones does not come out as ones. ($K$ taken for $V$ and the weights transposed were both met in [03](03_weighted_values.ipynb).) The line of `k_as_v` is not 1 either, as it weighs $K$. The fourth and the fifth, scores transposed and `reshape` for a transpose, pass all three, and their rows sum to 1.
#
# **At work**: read projection lines one variable at a time, above all those that were copied. `k_as_v` and `k_is_q` can both be a copied line in which one name was not changed.
#
# Then the biases: leaving one out raises no error either. Guess first: leave out $b_Q$, $b_K$ or $b_V$. Which of them shows?


# %%
b_q, b_k, b_v = rng.standard_normal((3, 4))
biased = replace(problem, b_q=b_q, b_k=b_k, b_v=b_v)
all_biases = steps.result(biased)
bias_moves = {}
print("missing   largest output when x is 0   output")
for name in ("b_q", "b_k", "b_v"):
    without = replace(biased, **{name: None})
    gap = np.linalg.norm(steps.result(without) - all_biases) / np.linalg.norm(all_biases)
    bias_moves[name] = f"{gap:.0%}"
    at_zero = np.abs(steps.result(replace(without, x=0 * t.X))).max()
    print(f"{name:<9} {at_zero:>26.3f}   {bias_moves[name]:>6}")
at_zero = steps.result(replace(biased, x=0 * t.X))
print(f"none      {np.abs(at_zero).max():>26.3f}    right")
assert np.allclose(at_zero, b_v @ t.W_O)
assert np.allclose(steps.result(replace(biased, b_k=None)), all_biases)
with_rope = replace(biased, theta=10**4)
assert not np.allclose(steps.result(replace(with_rope, b_k=None)), steps.result(with_rope))

# %% [markdown] lang="zh"
# $x$ 全是 0 的时候，输出该是 $b_V$ 乘 $W_O$；成了 0，就是漏了 $b_V$。$b_Q$ 和 $b_K$ 这样看不出来。用平常的 $x$，漏了 $b_Q$，输出动 {{ bias_moves["b_q"] }}，要核对数值才知道。漏了 $b_K$，这里动 {{ bias_moves["b_k"] }}：它给一行的每个分数加同一个数，softmax 里抵消了。有 RoPE 的时候，它才有影响。
#
# ### 分组的键值头
#
# 这一节里，头从 0 数。小例子没有分组，换一道小题：6 个查询头，3 个键值头。把一个键值头的 $V$ 清零，看并头以后（乘 $W_O$ 以前）哪几段变了，就知道每一段用的是哪个键值头：

# %% [markdown] lang="en" of="72747159"
# With $x$ all 0 the output should be $b_V$ through $W_O$; if it is 0, $b_V$ is missing. $b_Q$ and $b_K$ do not show there. With the usual $x$, leaving out $b_Q$ moves the output by {{ bias_moves["b_q"] }}, and comparing values finds it. Leaving out $b_K$ moves it by {{ bias_moves["b_k"] }} here: $b_K$ adds the same number to every score of a row, and the softmax cancels it. With RoPE it does count.
#
# ### Grouped K/V heads
#
# This section counts heads from 0. The toy has no groups, so here is another small problem: 6 query heads and 3 K/V heads. Set the $V$ of one K/V head to zero and see which blocks of the merged heads change (before $W_O$); that tells which K/V head each block uses:


# %%
def seeded(n_heads, n_kv_heads, d_head, n_tokens, theta=None):
    """A problem of random numbers, d_model = n_heads · d_head."""
    rng = np.random.default_rng(8)
    width, kv_width = n_heads * d_head, n_kv_heads * d_head
    x = rng.standard_normal((n_tokens, width))
    w_q, w_k, w_v, w_o = (
        rng.standard_normal((width, columns)) / np.sqrt(width)
        for columns in (width, kv_width, kv_width, width)
    )
    return steps.Problem(
        n_heads, n_kv_heads, d_head, x=x, w_q=w_q, w_k=w_k, w_v=w_v, w_o=w_o, theta=theta
    )


grouped = seeded(n_heads=6, n_kv_heads=3, d_head=4, n_tokens=7)
d = grouped.d_head


def who_uses_whom(changes):
    """For each block of the merged heads, the K/V head that reaches it."""
    used = np.full(6, -1)
    base = steps.run(grouped, changes)["merged"]
    for kv in range(3):
        silenced = grouped.w_v.copy()
        silenced[:, kv * d : (kv + 1) * d] = 0
        gap = np.abs(steps.run(replace(grouped, w_v=silenced), changes)["merged"] - base)
        used[gap.reshape(-1, 6, d).max(axis=(0, 2)) > 1e-9] = kv
    return used.tolist()


print("K/V head that reaches block 0–5   output")
print(f"{str(who_uses_whom({})):<33}          right")
grouped_names = ("gqa_tiled", "gqa_first", "gqa_divided", "gqa_stride")
used = {name: who_uses_whom(mistakes.find(name).changes) for name in grouped_names}
for name in grouped_names:
    print(f"{str(used[name]):<33} {moved(name, grouped):>6}   {name}")
assert who_uses_whom({}) == used["gqa_stride"] == [0, 0, 1, 1, 2, 2]
assert used["gqa_tiled"] == [0, 1, 2, 0, 1, 2]
for n_heads, n_kv_heads in ((4, 2), (9, 3), (4, 1)):
    p = seeded(n_heads, n_kv_heads, d_head=4, n_tokens=7)
    raises = steps.result(p, mistakes.find("gqa_divided").changes) is None
    told = "raises an error" if raises else f"moves the output by {moved('gqa_divided', p)}"
    print(f"{n_heads} query heads, {n_kv_heads} K/V: gqa_divided {told}")
    assert raises == (n_kv_heads == 1)
    assert raises or np.allclose(made("gqa_divided", p)["output"], steps.result(p))

# %% [markdown] lang="zh"
# 前三个一眼看得出来：平铺（[06](06_real_shapes.ipynb) 里见过）、全用第一个、除错了数。
#
# 第四个，每一段用的键值头和正确的一样，输出却动了 {{ moved("gqa_stride", grouped) }}。第 1 段里放的是查询头 3，不是查询头 1；查询头 3 本该用键值头 1，这里用了 0。这个实验只看得见段，看不见段里是哪个头，两处错互相遮住了。
#
# **工作中**：用 6 个查询头、3 个键值头来试。每组的头数不要和键值头的个数相等：4 个查询头、2 个键值头，`gqa_divided` 碰巧是对的。键值头和查询头一样多，四个都看不出来。键值头只有 1 个，`gqa_divided` 会下标越界，另外三个看不出来。
#
# ### 旋转位置
#
# RoPE 的错有一个好用的线索：分数错多少，和**距离**有什么关系。下面是分数平均错了多少，按查询和键隔多远分开：

# %% [markdown] lang="en" of="2af6095f"
# The first three show at a glance: tiled (met in [06](06_real_shapes.ipynb)), all on the first, divided by the wrong number.
#
# In the fourth, every block is reached by the K/V head it should be reached by, and still the output moves by {{ moved("gqa_stride", grouped) }}. Block 1 holds query head 3, not query head 1; and query head 3, which should use K/V head 1, uses 0. This experiment looks at blocks and cannot see which query head is in one, so the two faults hide each other.
#
# **At work**: try 6 query heads and 3 K/V heads. Let the number of heads in a group differ from the number of K/V heads: with 4 query heads and 2 K/V heads, `gqa_divided` is right by luck. With as many K/V heads as query heads, all four are invisible. With a single K/V head, the index of `gqa_divided` runs out of range, and the other three are invisible.
#
# ### Rotary positions
#
# RoPE mistakes leave a good clue: how the error of the scores depends on the **distance**. Here is by how much scores are off on average, for queries and keys so far apart:

# %%
turned = seeded(n_heads=3, n_kv_heads=3, d_head=10, n_tokens=24, theta=10**6)  # Qwen2.5's base
true_scores = steps.run(turned)["scores"]  # [3, 24, 24]
distances = (0, 1, 5, 15)
off = {}
print("distance " + "".join(f"{n:>7}" for n in distances) + "   output")
for name in ("rope_left_out", "rope_on_v", "rope_pairing", "rope_base", "rope_sign",
             "rope_query_from_1", "rope_keys_plain", "rope_before_split"):  # fmt: skip
    error = np.abs(made(name, turned)["scores"] - true_scores)
    off[name] = [np.diagonal(error, -n, -2, -1).mean() for n in distances]
    print(
        " " * 9 + "".join(f"{e:>7.2f}" for e in off[name]) + f"   {moved(name, turned):>5}   {name}"
    )
print(f"spread of the scores: {true_scores.std():.2f}")
right_at_0 = [name for name, e in off.items() if e[0] < 1e-9]
assert right_at_0 == ["rope_left_out", "rope_on_v", "rope_pairing", "rope_base", "rope_sign"]
assert max(off["rope_on_v"]) < 1e-9
assert off["rope_base"][0] < off["rope_base"][1] < off["rope_base"][-1]

# %% [markdown] lang="zh"
# 前五个在距离 0 上都没有错：查询和键转同样的角度，分数不变；都不转，分数也一样。其中 `rope_on_v` 的分数在哪里都对，输出却动了 {{ moved("rope_on_v", turned) }}：错在 $V$。底数不对的（`rope_base`），在这张表里越远错得越多，所以短句子上最不明显。
#
# 后三个在距离 0 上就错了。`rope_query_from_1` 和 `rope_keys_plain`，查询和键转的角度不一样；前一个在哪个距离都错得差不多，因为每个距离都多了 1。`rope_before_split` 先转后切，整行当成一个头，把不同的头里的数配成了对；切开以后，一对数分在两个头里，转的角度不再抵消。
#
# 只用一个词去试，这八个一个也试不出来：一行只有一个分数，分数错了，权重也还是 1；而位置 0 不转，`rope_on_v` 也没有差别。
#
# 配对和转向错的，`rope_pairing` 和 `rope_sign`，隔一个词就差很多。换一套约定，只要训练和使用一致，都能用；错的是把一套约定的参数放进另一套的代码里，[06](06_real_shapes.ipynb) 有一节讲它。

# %% [markdown] lang="en" of="f65bfc5f"
# The first five are right at distance 0: when query and key turn by the same angle the score stays as it is, and so it does when neither turns. Among them, `rope_on_v` has the right scores everywhere, and the output moves by {{ moved("rope_on_v", turned) }}: the fault is in $V$. With the wrong base (`rope_base`) the error grows with the distance in this table, so it shows least in short sentences.
#
# The last three are wrong at distance 0 already. In `rope_query_from_1` and `rope_keys_plain`, query and key turn by different angles; the error of the first is about the same at every distance, because each distance is too large by 1. `rope_before_split` turns first and splits after: it takes the whole row for one head and pairs numbers of different heads. Once the two halves of a pair are in different heads, the turns no longer cancel.
#
# A test with a single token finds none of the eight. A row has one score, and right or wrong it gives the weight 1; and position 0 does not turn, so that `rope_on_v` makes no difference either.
#
# The wrong pairing and the wrong direction, `rope_pairing` and `rope_sign`, are far off from one token away. Either convention works as long as training and use agree. The mistake is to put parameters of one into code of the other; [06](06_real_shapes.ipynb) has a section on it.

# %% [markdown] lang="zh"
# ### 残差和归一化
#
# 正确的是 `x + attention(norm(x))`。用小例子，前面加一个 RMSNorm。看四样：差的是不是正好一个 $x$（这一样要有正确的结果）；每行的均方根；$x$ 放大十倍，结果变成几倍；权重变不变（每行最大的权重，平均）。

# %% [markdown] lang="en" of="43328dd0"
# ### Residual and norm
#
# Right is `x + attention(norm(x))`. We take the toy with an RMSNorm in front. Look at four things: whether what is off is exactly $x$ (for this one needs the right result); the root mean square of a row; how many times as large the result is when $x$ is ten times as large; and whether the weights change (the largest of each row, on average).

# %%
normed = replace(problem, gain=np.ones(4), eps=1e-6)  # the toy with an RMSNorm before attention
ten_times = replace(normed, x=10 * normed.x)
true_result = steps.result(normed)
print("off by      rms of a row   growth at 10 x   largest weight, x and 10 x   output")
layer_names = [m.name for m in catalogue if m.family == "layer"]
rms_of, growth_of, peaks = {}, {}, {}
for name in (None, *layer_names):
    changes = {} if name is None else mistakes.find(name).changes
    wrong = steps.result(normed, changes)
    gap = wrong - true_result
    off_by = {1: "+x", -1: "−x"}.get(
        next((s for s in (1, -1) if np.allclose(gap, s * normed.x)), 0), "other"
    )
    off_by = "nothing" if np.allclose(gap, 0) else off_by
    rms_of[name] = np.sqrt(np.mean(wrong**2, axis=1)).mean()
    growth_of[name] = np.linalg.norm(steps.result(ten_times, changes)) / np.linalg.norm(wrong)
    peaks[name] = [steps.run(p, changes)["weights"].max(-1).mean() for p in (normed, ten_times)]
    label = "         right" if name is None else f"{moved(name, normed):>6}   {name}"
    print(
        f"{off_by:<11} {rms_of[name]:>12.2f}   {growth_of[name]:>14.2f}   "
        f"{peaks[name][0]:>18.2f} -> {peaks[name][1]:.2f}   {label}"
    )
early = ("norm_left_out", "norm_after")  # nothing is normalised before attention
assert abs(rms_of["norm_after"] - 1) < 0.05
assert all(np.isclose(*peaks[n], atol=1e-3) for n in growth_of if n not in early)
assert all(growth_of[n] < 1.01 for n in ("residual_left_out", "residual_normed", "norm_after"))

# %% [markdown] lang="zh"
# 少加或多加一个 $x$，相减就知道。归一化放在最后的，每行的均方根是 {{ rms_of["norm_after"]:.2f }}，$x$ 再大也一样。没有加 $x$，或者加回去的是归一化以后的 $x$，结果都不随 $x$ 变大（都是 {{ growth_of["residual_normed"]:.2f }} 倍）。正确的那一行是 {{ growth_of[None]:.2f }} 倍，因为 $x$ 自己也在和里面。
#
# 进注意力之前没有归一化的，结果变成 {{ growth_of["norm_left_out"]:.2f }} 倍。权重不变的话，正好是 10 倍；多出来的，是因为权重也变尖了，最大的从 {{ peaks["norm_left_out"][0]:.2f }} 到了 {{ peaks["norm_left_out"][1]:.2f }}。
#
# `norm_after` 不一定是错：2017 年的论文和 BERT 就是先加、后归一化。对于按 pre-norm 训练的参数，它是错的。

# %% [markdown] lang="en" of="c470c979"
# An $x$ too few or too many shows in the difference. With the norm at the end, the root mean square of a row is {{ rms_of["norm_after"]:.2f }}, however large $x$ is. When $x$ is not added, or when the normalised $x$ is, the result does not grow with $x$ ({{ growth_of["residual_normed"]:.2f }} times in both). In the right line it is {{ growth_of[None]:.2f }} times, because $x$ itself is in the sum.
#
# Without the norm before attention it is {{ growth_of["norm_left_out"]:.2f }} times. With the same weights it would be 10 exactly; what goes beyond comes from weights that are sharper, the largest going from {{ peaks["norm_left_out"][0]:.2f }} to {{ peaks["norm_left_out"][1]:.2f }}.
#
# `norm_after` need not be a mistake: the paper of 2017 and BERT add first and normalise after. For parameters trained with pre-norm, it is one.

# %% [markdown] lang="zh"
# ## 总表：哪项检查抓得到哪个错误
#
# 上面的症状可以写成检查。下面的函数把八项检查用在每一个错误上：能运行，形状对；尺寸全不同也能运行；权重的行和是 1；看不到未来；没有 NaN；不受同批句子影响；数和参考一致；分数很大时也一致（平常的题也算在内）。
#
# 前六项都不需要参考答案（行和要看得到权重）。先猜：六项合起来，抓得到 {{ len(catalogue) }} 个里的几成？

# %% [markdown] lang="en" of="7fc20f05"
# ## The table: which check catches which mistake
#
# The symptoms above can be written as checks. The function below applies eight of them to every mistake: it runs, with the right shape; it runs with all sizes different; the rows of weights sum to 1; the future is hidden; there is no NaN; sentences of a batch are kept apart; the values agree with a reference; they agree with large scores too (this includes the usual problem).
#
# The first six need no reference (the row sums need the weights). Guess first: all six together, what share of the {{ len(catalogue) }} do they catch?


# %%
def kind_of(mistake):
    """The kind of problem on which a mistake of that family can be made."""
    return Kind(
        n_heads=6 if mistake.family == "grouped" else 3, n_kv_heads=3, bias="qkv",
        theta=probes.THETA, w_o=True, causal=True, norm=mistake.family == "layer", leading=(2,),
    )  # fmt: skip


def differs(found, wanted):
    """Whether a result is an error (None), of another shape, or of other numbers."""
    return (
        found is None
        or found.shape != wanted.shape
        or not np.allclose(found, wanted, rtol=1e-6, atol=1e-9, equal_nan=True)
    )


@cache
def case_of(kind, name):
    """A small problem of that kind, and its right result."""
    p = probes.problem(kind, name)
    return p, steps.result(p)


def failed_checks(mistake):
    """The names of the checks that a mistake does not pass."""
    changes, kind = mistake.changes, kind_of(mistake)
    failed, cases = set(), {name: case_of(kind, name) for name in probes.CASES}
    results = {name: steps.result(p, changes) for name, (p, _) in cases.items()}
    found, (usual, wanted) = results["square"], cases["square"]
    if differs(found, wanted):
        failed.add("values")
    if any(differs(results[name], cases[name][1]) for name in cases if name != "wide"):
        failed.add("large")  # or differs on the usual problem
    if results["wide"] is None or results["wide"].shape != cases["wide"][1].shape:
        failed.add("all sizes")
    if found is None or found.shape != wanted.shape:
        return failed | {"runs"}
    if not np.allclose(steps.run(usual, changes)["weights"].sum(-1), 1):
        failed.add("row sums")
    if not np.isfinite(found).all():
        failed.add("finite")
    last_changed = usual.x.copy()
    last_changed[:, -1] += 1
    after = steps.result(replace(usual, x=last_changed), changes)
    if differs(after[:, :-1], found[:, :-1]):
        failed.add("future")
    if differs(steps.result(replace(usual, x=usual.x[:1]), changes), found[:1]):
        failed.add("batch")
    return failed


caught = {m.name: failed_checks(m) for m in catalogue}
figures_mistakes.what_catches(caught, lang)

# %%
without_reference = {name for name, found in caught.items() if found - {"values", "large"}}
errors = [name for name, found in caught.items() if "runs" in found]
by_values = {name for name, found in caught.items() if "values" in found}
only_large = [name for name, found in caught.items() if found == {"large"}]
raising = [
    m.name
    for m in catalogue
    if m.name in errors and steps.result(case_of(kind_of(m), "square")[0], m.changes) is None
]
other_shape = [name for name in errors if name not in raising]
three = {"runs", "row sums", "future", "finite"}  # the right shape, and three checks
pass_three = [name for name, found in caught.items() if not found & three]
pass_six = [name for name in caught if name not in without_reference]
print(f"{len(raising)} raise an error: {', '.join(raising)}")
print(f"{len(other_shape)} return another shape: {', '.join(other_shape)}")
print(f"{len(pass_three)} have the right shape and pass row sums, future and NaN")
print(f"{len(pass_six)} pass the six checks that need no reference")
print(f"{len(without_reference)} caught by these six")
print(
    f"{len(by_values)} caught by comparing values; {', '.join(only_large)} only with large scores"
)
assert all("large" in found for found in caught.values())
assert set(only_large) == caught.keys() - by_values
assert {*raising, *other_shape} == {
    "softmax_no_keepdims", "softmax_max_no_keepdims", "softmax_neither_keepdims", "softmax_bare",
    "heads_averaged", "heads_summed",
}  # fmt: skip
masks = [m.name for m in catalogue if m.family == "mask"]
assert sum("future" in caught[name] for name in masks) > len(masks) / 2
untouched = [
    f for f in families if not any(m.family == f and m.name in without_reference for m in catalogue)
]
assert untouched == ["grouped", "rope", "layer"]

# %% [markdown] lang="zh"
# {{ len(catalogue) }} 个里，报错的有 {{ len(raising) }} 个，不报错而形状不对的有 {{ len(other_shape) }} 个。不要参考答案的六项检查合起来抓到 {{ len(without_reference) }} 个，{{ len(without_reference) / len(catalogue):.0%}}。分组、RoPE、残差和归一化这三类，它们一个也抓不到。
#
# 和参考核对数值，抓到 {{ len(by_values) }} 个。剩下的 {{ len(only_large) }} 个，要用很大的分数才现形。**只有核对数值，而且在很大的分数上也核对，才全都抓得到。** 其余的检查有别的用处：它们告诉你错在哪里，而且在没有参考答案的时候也能用。

# %% [markdown] lang="en" of="6207d66c"
# Of {{ len(catalogue) }}, {{ len(raising) }} raise an error, and {{ len(other_shape) }} more raise none and return another shape. The six checks that need no reference catch {{ len(without_reference) }} together, {{ len(without_reference) / len(catalogue):.0%}}. Of three families, grouped heads, RoPE, and residual and norm, they catch none.
#
# Comparing values catches {{ len(by_values) }}. The remaining {{ len(only_large) }} show only with large scores. **Comparing values, with large scores too, is the one check that catches them all.** The others have another use: they tell where the mistake is, and they work when there is no reference.

# %% [markdown] lang="zh"
# ## 什么题看不出错
#
# 核对数值，也要看用什么题。同样的错误，换一道题就可能一位不差。先猜：只用一个词去试，{{ len(catalogue) }} 个错误里有多少个算出来和正确的完全一样？

# %% [markdown] lang="en" of="5ea0bfdf"
# ## Problems on which nothing shows
#
# Comparing values depends on the problem, too. On another problem the same mistake may agree to the last digit. Guess first: try with a single token. How many of the {{ len(catalogue) }} mistakes give exactly the right numbers?


# %%
def one_token(kind):
    p = probes.problem(kind, "square")
    p = replace(p, x=p.x[:, :1], mask=p.mask[:1, :1])
    return p, steps.result(p)


def invisible(setting):
    """The mistakes that give the right numbers on the problem that `setting` makes of a kind."""
    names = []
    for m in catalogue:
        p, wanted = setting(kind_of(m))
        found = steps.result(p, m.changes)
        if found is not None and not differs(found, wanted):
            names.append(m.name)
    return names


settings = {
    "the usual problem": lambda k: case_of(k, "square"),
    "one K/V head": lambda k: case_of(replace(k, n_kv_heads=1), "square"),
    "as many K/V heads as heads": lambda k: case_of(replace(k, n_heads=3), "square"),
    "one head": lambda k: case_of(replace(k, n_heads=1, n_kv_heads=1), "square"),
    "one token": one_token,
}
unseen = {name: invisible(setting) for name, setting in settings.items()}
usual_unseen = set(unseen["the usual problem"])
for name, names in unseen.items():
    print(f"{len(names):>3}   {name}")
    shown = [n for n in names if n not in usual_unseen] or names
    print("      " + ", ".join(shown[:5]) + (" …" if len(shown) > 5 else ""))
assert usual_unseen == set(only_large)
assert {"gqa_tiled", "gqa_first", "gqa_stride"} <= set(unseen["one K/V head"])
assert len(unseen["one token"]) > len(unseen["one head"]) > len(usual_unseen)
assert {"split_no_transpose", "merge_no_transpose", "rope_pairing"} <= set(unseen["one token"])
turns = {m.name for m in catalogue if m.family == "rope"}
assert set(off) <= turns <= set(unseen["one token"])
assert {"k_is_q", "scale_none", "scale_d", "scale_multiplied"} <= set(unseen["one token"])
assert not {"softmax_heads", "softmax_batch", "mask_not_itself"} & set(unseen["one token"])
assert not {"heads_reversed", "w_o_transposed", "k_as_v"} & set(unseen["one token"])

# %% [markdown] lang="zh"
# 一个词的时候，有 {{ len(unseen["one token"]) }} 个一位不差。一行只有一个分数，正确的 softmax 总把它变成 1，分数是多少都一样。所以 $Q$、$K$、位置、分数的缩放，怎样错都看不出来。沿着头或者整批做的 softmax，还是看得出来；把自己也遮住的遮罩也是。
#
# 一个头的时候有 {{ len(unseen["one head"]) }} 个。每一行都有的那 {{ len(usual_unseen) }} 个，要分数很大才看得出来。
#
# 方阵也会瞒住错误。下面这些，在 $d_{model} = n_{heads}·d_{head}$ 的题上能运行，形状也对；尺寸各不相同的时候，有的报错，有的形状不对：

# %% [markdown] lang="en" of="d73e9ca8"
# With one token, {{ len(unseen["one token"]) }} of them agree to the last digit. A row has a single score, and a right softmax makes it 1 whatever it was. So nothing that is wrong with $Q$, $K$, the positions or the scaling of scores can show. A softmax over the heads or over the batch still shows, and so does a mask that hides the token itself.
#
# With one head it is {{ len(unseen["one head"]) }}. The {{ len(usual_unseen) }} that are in every line take large scores to show.
#
# Squares hide mistakes as well. These run where $d_{model} = n_{heads}·d_{head}$, with the right shape. Where every size differs, some raise an error and some return another shape:

# %%
hidden_by_squares = [
    n for n, found in caught.items() if "all sizes" in found and "runs" not in found
]
another_width = [
    n
    for n in hidden_by_squares
    if steps.result(case_of(kind_of(mistakes.find(n)), "wide")[0], mistakes.find(n).changes)
    is not None
]
raise_there = [n for n in hidden_by_squares if n not in another_width]
print(f"{len(raise_there)} raise an error: {', '.join(raise_there)}")
print(f"{len(another_width)} another width: {', '.join(another_width)}")
usual_kind = kind_of(mistakes.find("w_o_transposed"))
print("\nproblem   batch    S   n_heads   d_head   d_model   largest score")
for name in probes.CASES:
    p, _ = case_of(usual_kind, name)
    largest = np.abs(steps.run(p)["scaled"]).max()
    batch, S, d_model = p.x.shape
    print(
        f"{name:<9} {batch:>5} {S:>4}   {p.n_heads:>7}   {p.d_head:>6}   {d_model:>7}   {largest:>13.0f}"
    )
wide, _ = case_of(usual_kind, "wide")
batch, S, d_model = wide.x.shape
sizes = (batch, S, wide.n_heads, wide.d_head, d_model, wide.n_heads * wide.d_head)
assert len(set(sizes)) == len(sizes)
assert {"w_o_transposed", "qkv_transposed"} <= set(raise_there)
assert another_width == ["w_o_left_out"]

# %% [markdown] lang="zh"
# 还有一种瞒法：两个不同的错误，算出同样的数，分不清是哪一个。小例子里就有一对：

# %% [markdown] lang="en" of="279a18f9"
# There is one more way to hide: two different mistakes with the same numbers, so that nobody can tell which it was. The toy has one such pair:

# %%
results = {m.name: steps.result(problem, m.changes) for m in catalogue}
wrong = {n: r for n, r in results.items() if r is not None and differs(r, right["output"])}
names = list(wrong)
same = [
    (a, b) for i, a in enumerate(names) for b in names[i + 1 :] if not differs(wrong[a], wrong[b])
]
for a, b in same:
    print(f"{a} = {b}")
assert same == [("scale_d_model", "scale_d")] and t.X.shape[1] == t.d_head**2

# %% [markdown] lang="zh"
# 小例子里 $d_{head} = 2$，$\sqrt{d_{model}} = \sqrt{4} = 2$：除以 $d_{head}$ 和除以 $\sqrt{d_{model}}$ 是同一个数。
#
# 所以，出一道测试题：
#
# * 句子数、$S$、$n_{heads}$、$d_{head}$、$d_{model}$ 各不相同；$d_{model}$ 不等于 $n_{heads}·d_{head}$，也不等于其中别的两个的乘积。再加一道 $d_{model} = n_{heads}·d_{head}$ 的。
# * 至少两个键值头，每组至少两个查询头，这两个数不要相等（比如 6 个查询头，3 个键值头）；词要有十几个；批里至少两句。
# * 分数有小的，也有很大的。
# * 数是随机的，不对称，没有一排 0 或 1；偏置不是 0。
# * 参考答案要独立写：不要从被测的代码里抄。
#
# `diagnose` 的题就照这样出，一共四道，上面的表里是其中一类的尺寸：square 是平常的形状；wide 的尺寸各不相同；firm 和 loud 的分数很大，loud 的大到 float16 装不下。（都在 `byhand.probes` 里。）

# %% [markdown] lang="en" of="b43d8f25"
# In the toy $d_{head} = 2$ and $\sqrt{d_{model}} = \sqrt{4} = 2$: to divide by $d_{head}$ is to divide by $\sqrt{d_{model}}$.
#
# So, when you make a test problem:
#
# * Sentences, $S$, $n_{heads}$, $d_{head}$ and $d_{model}$ all differ; $d_{model}$ is not $n_{heads}·d_{head}$, nor the product of two others. Then add one with $d_{model} = n_{heads}·d_{head}$.
# * At least two K/V heads and at least two query heads to each, the two numbers different (6 query heads and 3 K/V heads, say); a dozen tokens or more; at least two sentences in a batch.
# * Some scores small, and some very large.
# * Random numbers, nothing symmetric, no runs of 0 or 1; biases that are not 0.
# * A reference written on its own, not copied from the code under test.
#
# The problems that `diagnose` uses are made like this. There are four, and the table above has their sizes for one kind of attention: square has the usual shapes; in wide every size differs; in firm and loud scores are large, in loud too large for float16. (They are in `byhand.probes`.)

# %% [markdown] lang="zh"
# ## 找错
#
# 六份代码，每份有一处毛病，都像人会写出来的样子。先自己读，想好了再看诊断。
#
# `diagnose` 不读代码，只看数。它用那四道题调用这个函数，把结果和每个错误的比，也和能同时犯的每两个错误的比。哪个输入给哪个参数，看的是参数的名字。
#
# **第一份。** 初学的人从教程里改来的。训练得动，只是比别人的差一点。

# %% [markdown] lang="en" of="59654b61"
# ## The hunt
#
# Six pieces of code, each with one fault, written the way people write them. Read first, make up your mind, and only then look at the diagnosis.
#
# `diagnose` does not read code, it looks at numbers. It calls the function on those four problems and compares the results with those of every mistake, and of every two that can be made at once. The names of the parameters tell it which input goes where.
#
# **Number one.** A beginner adapted it from a tutorial. It trains, only a little worse than other people's.


# %%
def softmax_rows(x):
    """The softmax of each row; this one is right."""
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def hunt_1(x, w_q, w_k, w_v, w_o, n_heads):
    S, d_model = x.shape
    d_head = d_model // n_heads
    q = (x @ w_q).reshape(S, n_heads, d_head).transpose(1, 0, 2)
    k = (x @ w_k).reshape(S, n_heads, d_head).transpose(1, 0, 2)
    v = (x @ w_v).reshape(S, n_heads, d_head).transpose(1, 0, 2)
    weights = softmax_rows(q @ k.transpose(0, 2, 1) / np.sqrt(d_model))
    return (weights @ v).transpose(1, 0, 2).reshape(S, d_model) @ w_o


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>有一个变量算出来以后，只用在了该用的一半地方。</details>

# %% [markdown] lang="en" of="49a85c30"
# Guess first. <details><summary>Hint</summary>One variable is computed, and used in only half of the places where it belongs.</details>

# %%
found = diagnose(hunt_1, lang=lang)
assert found.mistakes == (("scale_d_model",),)
found

# %% [markdown] lang="zh"
# `d_head` 用来切头，却没有用在根号下。行和、形状都挑不出毛病。
#
# **第二份。** 有人嫌转置难看，全用 einsum 重写了一遍。前一版是对的。

# %% [markdown] lang="en" of="ff458be6"
# `d_head` cuts the heads and is missing under the root. Row sums and shapes are all in order.
#
# **Number two.** Someone disliked the transposes and wrote it again with einsum. The version before was right.


# %%
def hunt_2(x, w_q, w_k, w_v, w_o, n_heads):
    S = len(x)
    q, k, v = ((x @ w).reshape(S, n_heads, -1) for w in (w_q, w_k, w_v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    may_look = np.tri(S, dtype=bool)
    weights = softmax_rows(np.where(may_look, scores, -np.inf))
    context = np.einsum("hqk,khd->hqd", weights, v)
    return context.reshape(S, -1) @ w_o


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>读一读第二个 einsum 右边的三个字母，再看它下面那行。</details>

# %% [markdown] lang="en" of="844cf7a4"
# Guess first. <details><summary>Hint</summary>Read the three letters on the right of the second einsum, then the line below it.</details>

# %%
found = diagnose(hunt_2, lang=lang)
assert found.mistakes == (("merge_no_transpose",),)
found

# %% [markdown] lang="zh"
# 把 `hqd` 改成 `qhd` 就对了。遮罩写得没有错，未来还是漏了进来：漏在并头的时候。
#
# **第三份。** 从一个没有分组的版本改成分组的。作者用 2 个查询头、1 个键值头测过，一位不差。

# %% [markdown] lang="en" of="7204b4a2"
# Writing `qhd` instead of `hqd` puts it right. The mask is written correctly, and still the future leaks: in the merge.
#
# **Number three.** A version without groups was given groups. The author tested it with 2 query heads and 1 K/V head, and it was right to the last digit.


# %%
def hunt_3(x, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    def heads(y, n):
        return y.reshape(len(x), n, -1).swapaxes(0, 1)

    q = heads(x @ w_q, n_heads)
    k, v = heads(x @ w_k, n_kv_heads), heads(x @ w_v, n_kv_heads)
    group = n_heads // n_kv_heads
    k, v = np.tile(k, (group, 1, 1)), np.tile(v, (group, 1, 1))
    weights = softmax_rows(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]))
    return (weights @ v).swapaxes(0, 1).reshape(len(x), -1) @ w_o


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>查询头 1（从 0 数）用的是哪个键值头？</details>

# %% [markdown] lang="en" of="7d9879f7"
# Guess first. <details><summary>Hint</summary>Which K/V head does query head 1 (counted from 0) use?</details>

# %%
found = diagnose(hunt_3, lang=lang)
assert found.mistakes == (("gqa_tiled",),)
found

# %% [markdown] lang="zh"
# 只有 1 个键值头的时候，`tile` 和 `repeat` 是一回事，他的测试测不出来。
#
# **第四份。** 注释写得很好，遮罩也用上了。

# %% [markdown] lang="en" of="d375e86a"
# With 1 K/V head, `tile` and `repeat` are the same thing, so that test could not find it.
#
# **Number four.** Well commented, and the mask is there.


# %%
def hunt_4(q, k, v):
    scores = q @ k.swapaxes(-1, -2)  # [.., S, S]
    scores = scores / np.sqrt(q.shape[-1])  # d_head
    future = np.triu(np.ones(scores.shape[-2:]), k=1)  # 1 after the diagonal
    weights = softmax_rows(scores)  # each row sums to 1
    weights = weights * (1 - future)  # nobody sees the future
    return weights @ v  # [.., S, d_v]


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>注释里有两句不对。一句在下一行就不成立了。另一句呢？</details>

# %% [markdown] lang="en" of="db556dc1"
# Guess first. <details><summary>Hint</summary>Two of the comments are not true. One stops being true on the next line. And the other?</details>

# %%
found = diagnose(hunt_4, lang=lang)
assert found.mistakes == (("mask_after_softmax",),)
found

# %% [markdown] lang="zh"
# “each row sums to 1”（每行的和是 1），乘完遮罩就不成立了。“nobody sees the future”（看不见未来）也不对：分母里有后面的词。先遮，再 softmax。
#
# **第五份。** 很短，很整齐。

# %% [markdown] lang="en" of="22b34bd7"
# "Each row sums to 1" is no longer so once the mask has been multiplied in. "Nobody sees the future" is not true either: later tokens are in the denominator. Mask first, softmax after.
#
# **Number five.** Short and tidy.


# %%
def hunt_5(x, w_q, w_k, w_v, w_o, n_heads, mask):  # noqa: ARG001
    def heads(y):
        return np.stack(np.split(y, n_heads, axis=-1))  # [S, n·d] -> [n, S, d]

    q = heads(x @ w_q)
    k = heads(x @ w_k)
    v = heads(x @ w_k)
    weights = softmax_rows(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]) + mask)
    return np.concatenate(list(weights @ v), axis=-1) @ w_o


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>第一行末尾的 `noqa` 叫代码检查工具（替人挑代码毛病的程序）别作声。它本来想说什么？</details>

# %% [markdown] lang="en" of="6120f928"
# Guess first. <details><summary>Hint</summary>The `noqa` on the first line tells the linter, a program that looks for slips in code, to be quiet. What did it want to say?</details>

# %%
found = diagnose(hunt_5, lang=lang)
assert found.mistakes == (("k_as_v",),)
found

# %% [markdown] lang="zh"
# 第三行是从第二行复制来的，名字只改了一半。`w_v` 没有人用。检查工具说过有一个参数没有用到，有人嫌它烦，叫它闭了嘴。
#
# **第六份。** 位置也有了。在作者自己从头训练的模型里，它没有问题。换上别处下载的一份参数，形状都对得上，输出却不对了。

# %% [markdown] lang="en" of="a95528d8"
# The third line was copied from the second and only half renamed. Nobody uses `w_v`. The linter had said that an argument is unused; someone found that tiresome and silenced it.
#
# **Number six.** This one has positions. In a model that its author trained from scratch it works well. With parameters downloaded from somewhere else the shapes all fit, and the output is wrong.


# %%
def rotated(y, angles):  # y [n, S, d], angles [S, d/2]
    even, odd = y[..., 0::2], y[..., 1::2]
    out = np.empty_like(y)
    out[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
    out[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
    return out


def hunt_6(x, w_q, w_k, w_v, w_o, n_heads, theta):
    q, k, v = (np.stack(np.split(x @ w, n_heads, axis=-1)) for w in (w_q, w_k, w_v))
    d_head = q.shape[-1]
    angles = np.outer(np.arange(len(x)), theta ** (-np.arange(0, d_head, 2) / d_head))
    q, k = rotated(q, angles), rotated(k, angles)
    weights = softmax_rows(q @ k.swapaxes(1, 2) / np.sqrt(d_head))
    return np.concatenate(list(weights @ v), axis=-1) @ w_o


# %% [markdown] lang="zh"
# 先猜。<details><summary>提示</summary>每一对转的是哪两个数？新的参数要的是哪两个？</details>

# %% [markdown] lang="en" of="8e26fe6c"
# Guess first. <details><summary>Hint</summary>Which two numbers make a pair here? Which two do the new parameters want?</details>

# %%
found = diagnose(hunt_6, lang=lang)
assert found.mistakes == (("rope_pairing",),)
found

# %% [markdown] lang="zh"
# 代码和参数各自都没有错，错在不配套：那份参数是按 (i, i + d_head/2) 配对训练的。Qwen2.5 的参数要的也是这一种，见 [06](06_real_shapes.ipynb)。
#
# 一次错两处呢？第一份的作者回去改根号，顺手把切头也改了写法，又换了一份参数。这回没有提示：

# %% [markdown] lang="en" of="bf65ea83"
# Neither the code nor the parameters are wrong by themselves; they do not go together. Those parameters were trained with the pairs (i, i + d_head/2). So were those of Qwen2.5; see [06](06_real_shapes.ipynb).
#
# What about two faults at once? The author of number one went back to fix the root, rewrote the splitting on the way, and took parameters from somewhere else. No hint this time:


# %%
def hunt_7(x, w_q, w_k, w_v, w_o, n_heads):
    def heads(y):
        return y.reshape(len(x), n_heads, -1).swapaxes(0, 1)

    q, k, v = heads(x @ w_q), heads(x @ w_k), heads(x @ w_v)
    weights = softmax_rows(q @ k.swapaxes(1, 2))
    return (weights @ v).swapaxes(0, 1).reshape(len(x), -1) @ w_o.T


found = diagnose(hunt_7, lang=lang)
assert [set(pair) for pair in found.mistakes] == [{"scale_none", "w_o_transposed"}]
found

# %% [markdown] lang="zh"
# 两处都找到了。目录以外的错误，它认不出名字，就说哪一步一定不对，还有哪些症状。
#
# 最后一份，写法很不一样，全是循环：

# %% [markdown] lang="en" of="9e6424ac"
# It finds both. A mistake outside the catalogue it cannot name; then it tells of a step that is certainly wrong, where it can, and what stands out.
#
# One last piece, in another style altogether, all loops:


# %%
def all_loops(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    d_head = q.shape[1] // n_heads
    y = np.zeros((len(x), w_o.shape[1]))
    for h in range(n_heads):
        own = slice(h * d_head, (h + 1) * d_head)
        for i in range(len(x)):
            scores = np.array([q[i, own] @ k[j, own] for j in range(len(x))]) / d_head**0.5
            exps = np.exp(scores - scores.max())
            z = sum(e * v[j, own] for j, e in enumerate(exps / exps.sum()))
            y[i] += z @ w_o[own]  # head h through its own block of rows
    return y


found = diagnose(all_loops, lang=lang)
assert found.correct and not found.mistakes
found

# %% [markdown] lang="zh"
# 在这四道题上都正确。写法可以完全不同，它只看数。顺便看循环里的最后一行：没有拼接，每个头乘自己那块 $W_O$，加起来，结果和拼接的一样。后面的面试题要用到。
#
# ## 轮到你了
#
# 把下面的函数体换成你自己的，或者写 `diagnose(你的函数, lang=lang)`。参数的名字要认得出：`x, w_q, w_k, w_v, w_o, n_heads`，或者 `q, k, v`；还可以有 `mask`、`n_kv_heads`、`b_q`、`theta`、`gain`、`eps`。PyTorch 的函数和模块（`nn.Module`）也行。

# %% [markdown] lang="en" of="1fb4240d"
# Correct, on these four problems. It may be written in quite another way; only the numbers count. And look at the last line of the loop: nothing is concatenated, each head goes through its own block of $W_O$, and the sum is the same. The interview question below comes back to this.
#
# ## Your turn
#
# Put your own body into the function below, or write `diagnose(your_function, lang=lang)`. The parameters need names it knows: `x, w_q, w_k, w_v, w_o, n_heads`, or `q, k, v`; there may also be `mask`, `n_kv_heads`, `b_q`, `theta`, `gain`, `eps`. PyTorch functions and modules (`nn.Module`) work as well.


# %%
def mine(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax_rows(scores + mask) @ v


diagnose(mine, lang=lang)

# %% [markdown] lang="zh"
# ### 不是用 Python 写的
#
# 用 C、Rust、JavaScript 写的，就走文件。在终端里：
#
# ```
# byhand kit problems --kind multi_head
# byhand diagnose result.bin --kit problems
# ```
#
# 第一行写出一个文件夹，里面是那四道题的输入，每个数组有 `.npy`、`.json`、`.bin`（float32）三种格式，`README.txt` 说要算什么。你的程序读题，把结果写成一个文件；第二行告诉你错在哪里。`byhand mistakes` 列出全部错误的名字。
#
# 下面在临时文件夹里走一遍。“别的语言的程序”只读 `.bin` 里的 float32，而且把一行一行存的 $W_O$ 当成一列一列存的读了：

# %% [markdown] lang="en" of="6ef9c4ce"
# ### Other languages
#
# Code in C, Rust or JavaScript is checked through files. In a terminal:
#
# ```
# byhand kit problems --kind multi_head
# byhand diagnose result.bin --kit problems
# ```
#
# The first line writes a folder with the inputs of the four problems, each array as `.npy`, `.json` and `.bin` (float32); `README.txt` says what to compute. Your program reads a problem and writes its result to a file. The second line tells you what is wrong with it. `byhand mistakes` lists the names of all mistakes.
#
# Here it is in a temporary folder. The "program in another language" reads only the float32 of the `.bin` files, and it takes the rows of $W_O$ for columns:

# %%
with tempfile.TemporaryDirectory() as place:
    folder = kit.write(Path(place) / "problems", "multi_head")
    print(", ".join(sorted(entry.name for entry in folder.iterdir())))
    read = {f.stem: np.fromfile(f, "<f4") for f in (folder / "square").glob("*.bin")}
    width = int(len(read["w_o"]) ** 0.5)  # in this problem all four matrices are square
    x, w_q, w_k, w_v = (read[n].reshape(-1, width) for n in ("x", "w_q", "w_k", "w_v"))
    w_o = read["w_o"].reshape(width, width, order="F")  # column after column: the fault
    result = all_loops(x, w_q, w_k, w_v, w_o, n_heads=3)
    result.astype("<f4").tofile(folder / "result.bin")
    found = diagnose(output=kit.read_result(folder / "result.bin"), kit=folder, lang=lang)
assert found.mistakes == (("w_o_transposed",),)
found

# %% [markdown] lang="zh"
# ## 一道面试题
#
# > **多头注意力里，多个头的输出怎样合并，又怎样投影回去？**
#
# 题目是一篇面试文章里的第 21 题（Q21）。这篇文章没有公开的链接可给；它也不是 [00](00_map.ipynb) 里说的那一篇，所以下面都叫它“面试文章”。它列了答法、追问和常见错误，是一份认真的材料，这套笔记本里好几个问题就是从它那里来的。其中有些说法不准，最后逐条对照。
#
# 正确的回答分四步，每一步跑一小格。尺寸全都不同：2 个句子，5 个词，3 个头，每头 4 维，$d_{model} = 10$。先猜：这里的 $W_O$ 是几乘几？

# %% [markdown] lang="en" of="e3ba3fbc"
# ## An interview question
#
# > **In multi-head attention, how are the outputs of the heads combined and projected back?**
#
# This is question Q21 of an article for interviews. There is no public link to give. It is not the article of [00](00_map.ipynb) either, so from here on it is "the interview article". It gives an answer, follow-up questions and common mistakes; it is careful material, and several questions of these notebooks began there. Some of what it says is not accurate, and a table at the end goes through it line by line.
#
# A correct answer has four steps, and each gets a small cell. All sizes differ: 2 sentences, 5 tokens, 3 heads of 4 dimensions, $d_{model} = 10$. Guess first: what is the shape of $W_O$ here?

# %%
B, S, n_heads, d_v, d_model = 2, 5, 3, 4, 10
rng = np.random.default_rng(21)
x = rng.standard_normal((B, S, d_model))
w_q, w_k, w_v = rng.standard_normal((3, d_model, n_heads * d_v)) / np.sqrt(d_model)
w_o = rng.standard_normal((n_heads * d_v, d_model)) / np.sqrt(n_heads * d_v)
print("W_O", w_o.shape)
assert w_o.shape[0] != w_o.shape[1]

# step 1: every head computes its own context
q, k, v = (split_heads(x @ w, n_heads) for w in (w_q, w_k, w_v))  # [2, 5, 12] -> [2, 3, 5, 4]
heads = attention(q, k, v).context  # [2, 3, 5, 4]
print("heads", heads.shape, " [batch, head, token, dimension]")
for h in range(n_heads):
    own = slice(h * d_v, (h + 1) * d_v)
    alone = attention(x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]).context
    assert np.allclose(heads[:, h], alone, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# **第一步，每个头各算各的。** 每个头读整个 $x$，用自己的那几列 $W_Q$，还有 $W_K$、$W_V$（分组的时候，这两个是几个头合用的）。每个句子得到 [{{ S }}, {{ d_v }}]。
#
# **第二步，拼接。** 就是摆放：头 1 的数在最左，头 2 接着。没有参数，也不做算术。代码里是换轴再 reshape，数要抄一遍：

# %% [markdown] lang="en" of="8e955e38"
# **Step one: each head on its own.** Every head reads all of $x$ through its own columns of $W_Q$, and of $W_K$ and $W_V$ (which grouped heads share). For each sentence it gets [{{ S }}, {{ d_v }}].
#
# **Step two: concatenation.** It is placement: the numbers of head 1 on the left, head 2 next. No parameters and no arithmetic. In code it is a swap of axes and a reshape, and the numbers are copied:

# %%
merged = heads.swapaxes(1, 2).reshape(B, S, n_heads * d_v)  # [2, 3, 5, 4] -> [2, 5, 12]
assert np.array_equal(merged, np.concatenate(list(heads.swapaxes(0, 1)), axis=-1))
assert np.array_equal(merged, merge_heads(heads))
print("merged", merged.shape)
print("the same numbers:", np.array_equal(np.sort(merged, axis=None), np.sort(heads, axis=None)))
print("copied:          ", not np.shares_memory(merged, heads))
assert not np.shares_memory(merged, heads) and merged.size == heads.size

# %% [markdown] lang="zh"
# **第三步，乘 $W_O$。** 形状是 [$n_{heads}·d_v$, $d_{model}$]，这里是 [{{ n_heads * d_v }}, {{ d_model }}]，不是方的。它等于每个头先乘自己那一块行，再相加：
#
# $$\text{concat}(z_1, \dots, z_h)\,W_O = \sum_h z_h W_O^{(h)}$$
#
# 先猜：把三个头打乱，再把 $W_O$ 的三块行也同样打乱，结果变不变？

# %% [markdown] lang="en" of="4a49bccc"
# **Step three: times $W_O$.** Its shape is [$n_{heads}·d_v$, $d_{model}$], here [{{ n_heads * d_v }}, {{ d_model }}], which is not square. It equals a sum in which each head first goes through its own block of rows:
#
# $$\text{concat}(z_1, \dots, z_h)\,W_O = \sum_h z_h W_O^{(h)}$$
#
# Guess first: shuffle the three heads, and shuffle the three blocks of rows of $W_O$ the same way. Does the result change?

# %%
output = merged @ w_o  # [2, 5, 12] @ [12, 10] -> [2, 5, 10]
blocks = w_o.reshape(n_heads, d_v, d_model)  # one block a head: d_v × d_model
by_head = sum(heads[:, h] @ blocks[h] for h in range(n_heads))
order = [2, 0, 1]
both = merge_heads(heads[:, order]) @ blocks[order].reshape(-1, d_model)
alone = merge_heads(heads[:, order]) @ w_o
for name, other in (("sum over heads", by_head), ("both shuffled", both), ("heads alone", alone)):
    print(f"{name:<15} differs by at most {np.abs(other - output).max():.3f}")
assert np.allclose(by_head, output, rtol=0, atol=1e-12)
assert np.allclose(both, output, rtol=0, atol=1e-12)
assert np.abs(alone - output).max() > 0.1

# %% [markdown] lang="zh"
# **第四步，加回残差。** 输出的宽度是 $d_{model}$，才加得回 $x$。归一化的位置有两种：post-norm（2017 年的论文、BERT）先加再归一化；pre-norm（GPT-2、LLaMA、Qwen2.5）先归一化再进注意力，加的是没有归一化的 $x$。

# %% [markdown] lang="en" of="103a2528"
# **Step four: the residual.** The output is $d_{model}$ wide, so it can be added to $x$. The norm has two places. Post-norm (the paper of 2017, BERT) adds, then normalises. Pre-norm (GPT-2, LLaMA, Qwen2.5) normalises on the way into attention and adds to the $x$ that was not normalised.


# %%
def multi_head(h):
    q, k, v = (split_heads(h @ w, n_heads) for w in (w_q, w_k, w_v))
    return merge_heads(attention(q, k, v).context) @ w_o


def norm(h):
    centred = h - h.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True))


post_norm = norm(x + multi_head(x))  # [2, 5, 10]
pre_norm = x + multi_head(norm(x))
for name, y in (("post-norm", post_norm), ("pre-norm", pre_norm)):
    print(f"{name:<10} {y.shape}   spread of a row {low_high(y.std(axis=-1))}")
assert np.allclose(multi_head(x), output, rtol=0, atol=1e-12)
assert np.allclose(post_norm.std(axis=-1), 1) and not np.allclose(pre_norm.std(axis=-1), 1)

# %% [markdown] lang="zh"
# ### 三十秒说完
#
# > 每个头得到 [S, d_v] 的上下文。合并是拼接：换轴、reshape，摆成 [S, n_heads·d_v]，没有参数。然后乘 W_O，形状 [n_heads·d_v, d_model]，这才是头与头混合的地方。它等于每个头乘自己那块行再相加。所以每个头写得到的，最多是 d_model 维里的一个 d_v 维子空间，是哪一个由训练决定。输出宽 d_model，加回 x；归一化在前还是在后，看模型。W_O 不必是方阵。
#
# 有余力再加一句：W_O 只混同一个词的特征，不混词。
#
# ### 追问一：W_O 多大？头数变了，要重新训练吗？

# %% [markdown] lang="en" of="6937d3f5"
# ### In thirty seconds
#
# > Each head gives a context of [S, d_v]. Combining is concatenation: swap axes, reshape, and it is [S, n_heads·d_v]; no parameters. Then comes W_O, [n_heads·d_v, d_model], and this is where heads are mixed. It equals each head times its own block of rows, summed. So what a head can write to is at most a subspace of d_v dimensions within the d_model, and training chooses which one. The output is d_model wide and is added to x; whether the norm comes before or after depends on the model. W_O need not be square.
#
# If there is time: W_O mixes the features of one token and never mixes tokens.
#
# ### Follow-up one: how large is W_O? If the number of heads changes, must it be retrained?

# %%
table = [models.read(name) for name in models.names()]
not_square = [m for m in table if models.output_width(m) != m.d_model]
for m in not_square:
    print(
        f"{m.n_heads:>4} × {m.d_value:<3} = {models.output_width(m):>5} -> {m.d_model:<5}  {m.name}"
    )
in_00 = {r["model"] for r in data.read_json("models.json")["models"] if r["in_table_7_1"]}
exception = [m.name for m in not_square if m.name in in_00]
print(f"{len(not_square)} of {len(table)} models have a W_O that is not square")
print(f"of the {len(in_00)} in table 7-1 of the article of 00: {', '.join(exception)}")
counts = [m.n_heads for m in table]
usual_counts = sum(28 <= n <= 128 for n in counts)
print(f"28 to 128 heads: {usual_counts} of {len(table)}; the fewest: {min(counts)}")
for n_kv_heads in (1, 3, 6):  # K/V heads play no part in the width
    assert steps.run(seeded(6, n_kv_heads, 4, 7))["merged"].shape == (7, 6 * 4)
qwen = models.read("Qwen2.5-7B")
print(
    f"{qwen.name}: {qwen.n_heads} query heads, {qwen.n_kv_heads} K/V heads, W_O {models.output_width(qwen)} -> {qwen.d_model}"
)
assert exception == ["DeepSeek-V3"] and len(not_square) < len(table)

# %%
# the same matrices taken as 6 heads of 2 instead of 3 heads of 4
six = merge_heads(attention(*(split_heads(x @ w, 6) for w in (w_q, w_k, w_v))).context)
print("6 heads of 2:", six.shape, "@", w_o.shape)
print(f"differs by at most {np.abs(six @ w_o - output).max():.3f}")
assert six.shape == merged.shape and np.abs(six @ w_o - output).max() > 0.1

# without head 2 (number 1 from 0): drop its rows, leave the others as they are
kept = [0, 2]
dropped = merge_heads(heads[:, kept]) @ blocks[kept].reshape(-1, d_model)
silenced = heads.copy()
silenced[:, 1] = 0
assert np.allclose(dropped, merge_heads(silenced) @ w_o, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# * **大小。** 进来的是 $n_{heads}·d_v$，出去的是 $d_{model}$。我们的表有 {{ len(table) }} 个模型，{{ len(not_square) }} 个不方。这不是所有模型里的比例：其中 {{ len(table) - len(in_00) }} 个，就是因为不方才收进表里的。另外 {{ len(in_00) }} 个出自 [00](00_map.ipynb) 那篇文章的表，不方的只有 {{ len(exception) }} 个，DeepSeek-V3。
# * **GQA 不改 $W_O$。** 分组减少的是键值头；每个查询头照样有自己的上下文。Qwen2.5-7B 的键值头只有 {{ qwen.n_kv_heads }} 个，$W_O$ 还是 {{ models.output_width(qwen) }} → {{ qwen.d_model }}。
# * **头数变了。** 只要 $n_{heads}·d_v$ 不变，形状不变，能运行，可是每块行的意思没有了，数全变了，要重新训练。去掉头是另一回事：删掉它那几行，其余不动（格子里断言了，和把那个头清零完全一样）。[Michel 等 2019](https://arxiv.org/abs/1905.10650) 就这样逐个去掉训练好的模型里的头，多数头单独去掉影响不大。
#
# ### 追问二：FlashAttention 对 W_O 做了什么？
#
# 先猜：融合了，加速了，还是别的？

# %% [markdown] lang="en" of="08f69813"
# * **Size.** $n_{heads}·d_v$ comes in and $d_{model}$ goes out. Of the {{ len(table) }} models in our table {{ len(not_square) }} have one that is not square. That is no share of all models: {{ len(table) - len(in_00) }} models are in the table because theirs is not. Of the other {{ len(in_00) }}, from the table of the article of [00](00_map.ipynb), only {{ len(exception) }} is not square: DeepSeek-V3's.
# * **GQA leaves $W_O$ alone.** Grouping reduces the K/V heads; every query head still has a context of its own. Qwen2.5-7B has only {{ qwen.n_kv_heads }} K/V heads, and its $W_O$ is {{ models.output_width(qwen) }} → {{ qwen.d_model }} all the same.
# * **Another number of heads.** As long as $n_{heads}·d_v$ is the same, so is the shape, and it runs; but the blocks of rows have lost their meaning, the numbers are all different, and it must be trained again. Removing heads is another matter: delete their rows and leave the rest (the cell asserts that this equals silencing the head). [Michel et al. 2019](https://arxiv.org/abs/1905.10650) removed heads from trained models in this way, one at a time, and most could go without much effect.
#
# ### Follow-up two: what does FlashAttention do with W_O?
#
# Guess first: does it fuse it, speed it up, or something else?

# %%
print("the inputs of our blockwise attention:", *inspect.signature(fast.core).parameters)
assert not any("w" in name for name in inspect.signature(fast.core).parameters)

# %% [markdown] lang="zh"
# 什么也不做。FlashAttention 把 $QK^T$、遮罩、softmax、dropout、乘 $V$ 合在一个核函数里，分块算，不把 S × S 的矩阵写进显存。[10](10_cost.ipynb) 里我们自己的分块版本也一样：输入是 $q$、$k$、$v$（和旋转的角度），没有参数矩阵。
#
# 官方代码里，核函数的[参数表](https://github.com/Dao-AILab/flash-attention/blob/e279bf8ed967c7c3e62380e5ff7f69f4d343275f/csrc/flash_attn/src/flash.h)有 q、k、v、o 的指针，没有 $W_O$。$W_O$ 是后面一个普通的 [`nn.Linear`](https://github.com/Dao-AILab/flash-attention/blob/e6ecd3f522ab64c5e809fbdad19d8933b3eb434f/flash_attn/modules/mha.py)（也可以选一个把偏置合进去的，合的不是残差）。仓库里另有一个核函数合并 dropout、残差和 LayerNorm，那里面也没有这个矩阵乘法。
#
# “FlashAttention-2 把 $W_O$ 融合进去，快了多少”，我们没有找到出处。[第一篇](https://arxiv.org/abs/2205.14135)论文合并的是 $QK^T$ 到乘 $V$。[第二篇](https://arxiv.org/abs/2307.08691)的摘要说快在三处：矩阵乘法以外的运算做得少；一个头也分给几个线程块并行；线程块里，线程束（warp）之间分工更好。
#
# ### 追问三：去掉 W_O 会怎样？
#
# 面试文章问的是不拼接，各个头直接相加。还有一种“去掉”要分开：仍然拼接，只是不乘 $W_O$。

# %% [markdown] lang="en" of="42a43d7e"
# Nothing. FlashAttention puts $QK^T$, mask, softmax, dropout and the product with $V$ into one kernel, works in blocks, and never writes the S × S matrix to memory. Our own blockwise version in [10](10_cost.ipynb) is like that: its inputs are $q$, $k$, $v$ (and the angles of the rotation), and no parameter matrix.
#
# In the official code, the kernel's [list of parameters](https://github.com/Dao-AILab/flash-attention/blob/e279bf8ed967c7c3e62380e5ff7f69f4d343275f/csrc/flash_attn/src/flash.h) has pointers for q, k, v and o, and no $W_O$. That is an ordinary [`nn.Linear`](https://github.com/Dao-AILab/flash-attention/blob/e6ecd3f522ab64c5e809fbdad19d8933b3eb434f/flash_attn/modules/mha.py) afterwards (or, as an option, one that fuses the bias; not the residual). The repository has another kernel that fuses dropout, residual and LayerNorm, and this matrix product is not in there either.
#
# For "FlashAttention-2 fuses $W_O$ and gains so much" we found no source. The [first](https://arxiv.org/abs/2205.14135) paper fuses what lies between $QK^T$ and the product with $V$. The abstract of the [second](https://arxiv.org/abs/2307.08691) gives three reasons for its speed: fewer operations other than matrix products; the work of a single head shared out over several thread blocks; and, within a block, a better division of labour among warps (groups of threads).
#
# ### Follow-up three: what if W_O is removed?
#
# The interview article asks about heads that are added as they are, without concatenation. Keep that apart from another way of removing $W_O$: the heads are still concatenated, and only the product is missing.

# %%
nudged = heads.copy()
nudged[:, 1] += 1  # head 2 only
without = np.abs(merge_heads(nudged) - merged).max(axis=(0, 1)) > 1e-9  # [12]
with_w_o = np.abs(merge_heads(nudged) @ w_o - output).max(axis=(0, 1)) > 1e-9  # [10]
print(without.astype(int), "columns that head 2 reaches, concatenated only")
print(with_w_o.astype(int), "    through W_O")
assert np.array_equal(np.flatnonzero(without), np.arange(d_v, 2 * d_v)) and with_w_o.all()

bare_sum = heads.sum(axis=1)  # [2, 5, 4]
as_w_o = np.tile(np.eye(d_v), (n_heads, 1))  # [12, 4]: the same block for every head
assert np.allclose(merged @ as_w_o, bare_sum, rtol=0, atol=1e-12)
assert np.allclose(heads[:, order].sum(axis=1), bare_sum, rtol=0, atol=1e-12)  # who said what?
ranks = [int(np.linalg.matrix_rank(w)) for w in (as_w_o, w_o, blocks[1])]
print(f"rank: bare sum {ranks[0]}, W_O {ranks[1]}, one head through its block {ranks[2]}")
assert ranks == [d_v, d_model, d_v]

# %% [markdown] lang="zh"
# * **还拼接，不乘 $W_O$。** 头 2 只写得到自己那 {{ d_v }} 格；没有哪个头被迫和别的头平分。宽度也要正好等于 $d_{model}$，才加得回去。
# * **直接相加。** 等于每个头用同一块单位矩阵。头的次序换了，结果一样：谁说的分不清了。结果也只有 {{ ranks[0] }} 个独立的方向，不是 {{ ranks[1] }} 个（矩阵的秩）。
# * **真去掉会差多少？** 面试文章说 BLEU 会掉 1 到 2，我们没有找到做过这个实验的论文。最接近的数字说的是另一件事：同样大小，8 个头比 1 个头高将近 1 个 BLEU（[Voita 等 2019](https://arxiv.org/abs/1905.09418) 的引言，引的是 2017 年的论文）。也有反过来的证据：[He 和 Hofmann](https://arxiv.org/abs/2311.01906) 先把注意力改造过（shaped attention），再把 $W_V$ 和 $W_O$ 都去掉，训练速度没有变慢，参数还少了（模型在一亿到三亿参数之间）。说“标准写法里不该省，配合别的改动可以省”，比背一个数字稳当。
#
# ### 初始化
#
# 面试文章说，$W_O$ 用默认的均匀初始化，梯度可能消失或爆炸，要用 Xavier。PyTorch 的 [`nn.MultiheadAttention`](https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/activation.py) 里，Xavier 只用在 Q、K、V 的矩阵上（宽度一样时，三个合成一个）；$W_O$（`out_proj`）保留 `nn.Linear` 的默认：$\pm 1/\sqrt{d_{in}}$ 之间的均匀分布，偏置是 0。两个界差多少：

# %% [markdown] lang="en" of="a6b0c673"
# * **Concatenated, no $W_O$.** Head 2 reaches only its own {{ d_v }} slots; no head is made to count the same as another. The width also has to be $d_{model}$ exactly, or it cannot be added back.
# * **Added as they are.** The same as one identity block for every head. Put the heads in another order and the result is the same: who said what is lost. The result can take only {{ ranks[0] }} independent directions, not {{ ranks[1] }} (the rank of the matrix).
# * **How much does it really cost?** The interview article says 1 to 2 points of BLEU; we found no paper that did this experiment. The nearest figure is about something else: at the same size, 8 heads are almost 1 point of BLEU above one head (introduction of [Voita et al. 2019](https://arxiv.org/abs/1905.09418), citing the paper of 2017). There is evidence the other way: [He and Hofmann](https://arxiv.org/abs/2311.01906) use a modified attention ("shaped") and remove both $W_V$ and $W_O$; training is no slower and there are fewer parameters (models of a hundred to three hundred million). "In the standard form, keep it; along with other changes, it can go" is a safer answer than a number learned by heart.
#
# ### Initialisation
#
# The interview article says that with the default uniform initialisation of $W_O$ gradients may vanish or explode, and that Xavier is needed. In PyTorch's [`nn.MultiheadAttention`](https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/activation.py) Xavier is used for the matrices of Q, K and V (one joint matrix, where their widths agree), and not for $W_O$. $W_O$ (`out_proj`) keeps the default of `nn.Linear`, uniform between $\pm 1/\sqrt{d_{in}}$, with biases of 0. How far apart are the two bounds?

# %%
wide_d = 512
default_bound = 1 / np.sqrt(wide_d)  # nn.Linear, kaiming_uniform with a = √5
xavier_bound = np.sqrt(6 / (wide_d + wide_d))
drawn = rng.uniform(-default_bound, default_bound, (wide_d, wide_d))
bert_std = 0.02  # initializer_range of BERT and GPT-2
gpt2 = models.read("GPT-2 (124M)")
gpt2_residual = bert_std / np.sqrt(2 * gpt2.n_layers)  # c_proj, 2 a layer
print(f"default of nn.Linear   bound {default_bound:.4f}   std {drawn.std():.4f}")
print(f"Xavier                 bound {xavier_bound:.4f}   std {xavier_bound / np.sqrt(3):.4f}")
default_768 = 1 / np.sqrt(3 * gpt2.d_model)  # std of the default there
print(f"BERT; GPT-2, most      std {bert_std:.4f}")
print(f"GPT-2 (HF), W_O        std {gpt2_residual:.4f}   {gpt2.n_layers} layers")
print(f"the default at d {gpt2.d_model}   std {default_768:.4f}")
assert np.isclose(drawn.std(), default_bound / np.sqrt(3), rtol=0.01)
assert default_bound < xavier_bound and np.isclose(xavier_bound / default_bound, np.sqrt(3))

# %% [markdown] lang="zh"
# $d = {{ wide_d }}$ 的时候，默认的界是 {{ default_bound:.4f }}，标准差 {{ drawn.std():.4f }}；Xavier 的界是 {{ xavier_bound:.4f }}，大 $\sqrt{3}$ 倍。默认的反而小：要是它会爆炸，Xavier 更会。会不会消失，我们没有测，面试文章也没有给出处。
#
# 常见的做法也取得小。BERT 和 GPT-2 用标准差 {{ bert_std:.2f }}；$d = {{ gpt2.d_model }}$ 时默认的是 {{ default_768:.4f }}，差不多。Hugging Face 的 [GPT-2](https://github.com/huggingface/transformers/blob/main/src/transformers/models/gpt2/modeling_gpt2.py) 里，写进残差的矩阵再除以 $\sqrt{2·n_{layers}}$，{{ gpt2.n_layers }} 层是 {{ gpt2_residual:.4f }}。
#
# ### 容易答错的地方
#
# * “头直接相加，再过一层全连接。” 少了拼接，或者少说了每个头各有一块。改成：拼接后乘 $W_O$，等于每个头过自己那块再相加。
# * “$W_O$ 动态调整各个头。” 训练完它就不变了。随输入变的是注意力的权重。
# * 其余的在下面的表里：第 4、8、21 条。
#
# ### 怎样联系自己的项目
#
# 联系要真的成立，经得起再问一句。
#
# * **做过 RAG。** 在写答案的那个模型里，检索回来的段落拼进上下文以后，才轮到注意力；$W_O$ 一个词一个词地混特征，不在“几路检索”之间分配权重。给 BM25 和向量检索定比例，是重排或分数融合的事。可以说的是结构上的类比：几路结果先各算各的，再由一个学来的线性层合并；说清楚这是类比。
# * **做过传统 NLP。** 把词性、实体、情感的特征拼起来，过一个线性层，形式上和拼接后乘 $W_O$ 一样，也等于每组特征乘自己那块再相加。不同在于：这里拼的是同一个词的几个头，算完加回残差。
# * **没有项目。** 就讲你在这里做过的：自己写的多头注意力，用尺寸各不相同的题核对过数值；能指出哪种错误不报错，用什么检查抓到。“训练曲线正常”证明不了写得对。“和参考核对过，只差舍入误差”，才站得住。

# %% [markdown] lang="en" of="094a329e"
# With $d = {{ wide_d }}$ the default bound is {{ default_bound:.4f }} and the standard deviation {{ drawn.std():.4f }}; Xavier's bound is {{ xavier_bound:.4f }}, larger by $\sqrt{3}$. The default is the smaller of the two: if it explodes, Xavier explodes sooner. Whether gradients vanish we did not measure, and the interview article gives no source.
#
# Common practice starts small, too. BERT and GPT-2 use a standard deviation of {{ bert_std:.2f }}; with $d = {{ gpt2.d_model }}$ the default has {{ default_768:.4f }}, about the same. The [GPT-2](https://github.com/huggingface/transformers/blob/main/src/transformers/models/gpt2/modeling_gpt2.py) of Hugging Face starts the matrices that write to the residual with that divided by $\sqrt{2·n_{layers}}$, which is {{ gpt2_residual:.4f }} with {{ gpt2.n_layers }} layers.
#
# ### Where answers go wrong
#
# * "The heads are added and go through a dense layer." The concatenation is missing, or the block of each head. Better: concatenated and multiplied by $W_O$, which equals each head through its own block, summed.
# * "$W_O$ adjusts the heads dynamically." After training it is fixed. What changes with the input are the attention weights.
# * The others are in the table below: rows 4, 8 and 21.
#
# ### Tying it to your own work
#
# The connection should be true, and survive a follow-up question.
#
# * **You built RAG.** In the model that writes the answer, attention comes after the retrieved passages have been put into the context. $W_O$ mixes features token by token and shares nothing out among retrievers. Balancing BM25 against dense retrieval is the work of a re-ranker or of score fusion. What you can offer is an analogy of structure: several results are computed separately and merged by a learned linear layer. Say that it is an analogy.
# * **You did classic NLP.** Concatenating features of part of speech, entity and sentiment and sending them through a linear layer has the form of concatenation and $W_O$, and equals each group through its own block, summed. The difference: here the parts are heads of one token, and the result is added to a residual.
# * **You have no project.** Tell what you did here: a multi-head attention of your own, compared by its values on problems with every size different; which mistakes raise no error, and which check catches them. "The training curve looked normal" proves little about an implementation. "I compared it with a reference, and they agree up to rounding" will stand.

# %% [markdown] lang="zh"
# ### 面试文章，逐条对照
#
# ◆：这一本里有格子能验证，或者验证其中一部分。
#
# | # | 面试文章说 | 判断 | 更准的说法 |
# |---|---|---|---|
# | 1 | 头通常是 8 或 16 个；512 维，8 个头，每头 64 | 对 | 2017 年的[论文](https://arxiv.org/abs/1706.03762)是这样；我们表里的 {{ len(table) }} 个模型，{{ usual_counts }} 个在 28 到 128 之间，最少的 {{ min(counts) }} 个 ◆ |
# | 2 | $d_v = d_{model}/h$ | 不够准 | 是一种选择，不是规定 ◆ |
# | 3 | 每个头有自己的 $W_Q$、$W_K$、$W_V$ | 不够准 | GQA 里只有 $W_Q$ 如此；Qwen2.5-7B 有 {{ qwen.n_heads }} 块 $W_Q$，{{ qwen.n_kv_heads }} 块 $W_K$ 和 $W_V$ ◆ |
# | 4 | 拼接是纯内存操作，用 `torch.cat` 或直接 reshape | 除了 reshape，都对 | 没有参数，没有算术。[批, 头, 词, 维] 直接 reshape 会把词混在一起；要先换轴，换轴以后数要抄一遍 ◆ |
# | 5 | 拼接的次序必须和头的编号一致 | 不够准 | 头和 $W_O$ 的行块一起打乱，结果不变；要紧的是两边一致 ◆ |
# | 6 | $W_O$ 有偏置 | 不够准 | 论文的公式里没有；GPT-2、BERT 有，`nn.MultiheadAttention` 默认也有；Qwen2.5、LLaMA 没有 |
# | 7 | 不能直接求和或平均；$W_O$ 动态调整各头的贡献 | 对一半 | 不能直接求和，对。拼接乘 $W_O$ 仍是相加，只是先各过各的块；$W_O$ 训练后固定 ◆ |
# | 8 | $W_O$ 是方阵，为了残差 | 不对 | 只有出口必须是 $d_{model}$ ◆ |
# | 9 | 默认的均匀初始化会梯度消失或爆炸，要用 Xavier | 没有找到出处 | PyTorch 的 `out_proj` 就用默认的，见“初始化” ◆ |
# | 10 | 标准差常取 {{ bert_std:.2f }} | 不够准 | BERT 如此，GPT-2 的多数矩阵如此；Hugging Face 的 GPT-2 里 $W_O$ 更小，{{ gpt2.n_layers }} 层是 {{ gpt2_residual:.4f }} |
# | 11 | 加回 $x$，再过 LayerNorm | 不够准 | 这是 post-norm；GPT-2、LLaMA、Qwen2.5 是 pre-norm |
# | 12 | 头数变了，$W_O$ 必须重新训练 | 不够准 | 重新切分，要；去掉头只要删行，见追问一 ◆ |
# | 13 | GQA、MQA 会改变 $W_O$ 的尺寸 | 不对 | 只和查询头有关，见追问一 ◆ |
# | 14 | FlashAttention-2 把 $W_O$ 和 dropout、残差合在一起，H100 上快两成 | 不对 | 核函数里没有参数矩阵，这个数字没有找到出处，见追问二 |
# | 15 | FlashAttention 2022 年的论文讨论了 $W_O$ 的融合 | 不对 | 见追问二 |
# | 16 | 去掉 $W_O$、各头直接相加，等于强制各头平分 | 对这种相加，对 | 还拼接的话就不是这样：各写各的格子 ◆ |
# | 17 | 去掉 $W_O$，BLEU 掉 1 到 2 | 没有找到出处 | 见追问三 |
# | 18 | [Voita 等 2019](https://arxiv.org/abs/1905.09418) 分析 $W_O$ 怎样调节各头 | 不对 | 那里给每个头的**输出**加一个门，剪掉编码器 48 个头里的 38 个，$W_O$ 没有动；面试文章还引它说有的头是冗余的，这一点对 |
# | 19 | [Collaborate Instead of Concatenate](https://arxiv.org/abs/2006.16362) 用门控代替 $W_O$，参数更多 | 不对 | 它让各头共用**查询和键**的投影，参数更少；拼接和输出层都留着 |
# | 20 | [Efficient Transformers: A Survey](https://arxiv.org/abs/2009.06732) 综述了 GQA 的 $W_O$ | 不对 | 综述最后一版是 2022 年，[GQA](https://arxiv.org/abs/2305.13245) 是 2023 年的 |
# | 21 | “$W_O$ 是 $h × d_{model} × d_{model}$，每个头有自己的投影矩阵”是错误答案 | 对一半 | 尺寸确实错了；每个头有自己的一块却是对的，就是 $W_O$ 里的那几行，$d_v × d_{model}$，见 [04](04_heads_and_output_projection.ipynb) ◆ |
# | 22 | 输出投影是共享的 | 不够准 | 各个词共用；各个头不共用 ◆ |
# | 23 | LayerNorm 配 `elementwise_affine=True` 来稳定训练 | 对 | 这是 `nn.LayerNorm` 的默认值，不用另外设 |
#
# 拿它练答题，很好；拿它的数字当出处，不行。写材料的人和读材料的人都一样：能跑一格的，就跑一格。

# %% [markdown] lang="en" of="ea64d4a1"
# ### The interview article, line by line
#
# ◆: a cell of this notebook settles it, or a part of it.
#
# | # | The interview article says | Verdict | More accurate |
# |---|---|---|---|
# | 1 | usually 8 or 16 heads; 512 dimensions, 8 heads of 64 | right | so in the [paper](https://arxiv.org/abs/1706.03762) of 2017; of the {{ len(table) }} models in our table {{ usual_counts }} have 28 to 128, and the fewest is {{ min(counts) }} ◆ |
# | 2 | $d_v = d_{model}/h$ | imprecise | a choice, not a rule ◆ |
# | 3 | every head has its own $W_Q$, $W_K$, $W_V$ | imprecise | with GQA that holds for $W_Q$ only; Qwen2.5-7B has {{ qwen.n_heads }} blocks of $W_Q$ and {{ qwen.n_kv_heads }} of $W_K$ and $W_V$ ◆ |
# | 4 | concatenation is a pure memory operation, `torch.cat` or a direct reshape | right but for the reshape | no parameters and no arithmetic. On [batch, head, token, dimension] a direct reshape mixes tokens; swap the axes first, and then the numbers are copied ◆ |
# | 5 | the order must match the numbers of the heads | imprecise | shuffle heads and row blocks of $W_O$ alike, and nothing changes; the two must agree ◆ |
# | 6 | $W_O$ has a bias | imprecise | not in the formula of the paper; GPT-2 and BERT have one, and `nn.MultiheadAttention` has one by default; Qwen2.5 and LLaMA have none |
# | 7 | no bare sum or mean; $W_O$ adjusts the heads dynamically | half right | not a bare sum: right. Concatenation and $W_O$ is a sum all the same, each head through its own block first; and $W_O$ is fixed after training ◆ |
# | 8 | $W_O$ is square, for the residual | wrong | only what goes out must be $d_{model}$ ◆ |
# | 9 | the default uniform initialisation makes gradients vanish or explode; use Xavier | no source found | PyTorch's `out_proj` uses that default; see Initialisation ◆ |
# | 10 | the standard deviation is usually {{ bert_std:.2f }} | imprecise | so in BERT, and in GPT-2 for most matrices; Hugging Face's GPT-2 starts $W_O$ smaller, at {{ gpt2_residual:.4f }} with {{ gpt2.n_layers }} layers |
# | 11 | added to $x$, then LayerNorm | imprecise | that is post-norm; GPT-2, LLaMA and Qwen2.5 are pre-norm |
# | 12 | another number of heads forces $W_O$ to be retrained | imprecise | cutting differently does; removing heads only deletes rows, see follow-up one ◆ |
# | 13 | GQA and MQA change the size of $W_O$ | wrong | it depends on the query heads only, see follow-up one ◆ |
# | 14 | FlashAttention-2 fuses $W_O$ with dropout and residual, a fifth faster on H100 | wrong | the kernel has no parameter matrix, and we found no source for the figure; see follow-up two |
# | 15 | the FlashAttention paper of 2022 discusses fusing $W_O$ | wrong | see follow-up two |
# | 16 | without $W_O$, with the heads summed as they are, all heads are forced to count the same | right for that sum | where the heads are still concatenated it does not hold: each writes its own slots ◆ |
# | 17 | without $W_O$, BLEU drops by 1 to 2 | no source found | see follow-up three |
# | 18 | [Voita et al. 2019](https://arxiv.org/abs/1905.09418) analyse how $W_O$ regulates the heads | wrong | they put a gate on the **output** of each head and prune 38 of 48 encoder heads; $W_O$ is untouched. That some heads are redundant, for which the interview article also cites it, they do show |
# | 19 | [Collaborate Instead of Concatenate](https://arxiv.org/abs/2006.16362) replaces $W_O$ by gating, with more parameters | wrong | it shares the **query and key** projections among heads, with fewer parameters; concatenation and output layer stay |
# | 20 | [Efficient Transformers: A Survey](https://arxiv.org/abs/2009.06732) reviews the $W_O$ of GQA | wrong | its last version is of 2022, and [GQA](https://arxiv.org/abs/2305.13245) of 2023 |
# | 21 | "$W_O$ is $h × d_{model} × d_{model}$, one matrix for each head" is a wrong answer | half right | that size is wrong; that each head has a matrix of its own is right: its rows of $W_O$, $d_v × d_{model}$, see [04](04_heads_and_output_projection.ipynb) ◆ |
# | 22 | the output projection is shared | imprecise | over tokens; not over heads ◆ |
# | 23 | LayerNorm with `elementwise_affine=True` stabilises training | right | it is the default of `nn.LayerNorm`, so there is nothing to set |
#
# As practice for an interview it is good; as a source of figures it is not. For those who write such material and for those who read it: whatever a cell can settle, let a cell settle it.

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 你写的因果注意力，形状对，行和是 1，没有 NaN，改最后一个词前面也不动。还可能错在哪里？
#
# <details><summary>答案</summary>
#
# 很多地方：缩放、头的次序、$W_O$、分组的配对、RoPE、残差。{{ len(catalogue) }} 个错误里，这几项都过得去的有 {{ len(pass_three) }} 个；不要参考答案的六项全过的，也有 {{ len(pass_six) }} 个。要和一份独立写的参考核对数值，并且用上尺寸各不相同、分数有大有小的题。
#
# </details>
#
# **2.** 只有一个词的时候，分数全算错了，输出还是对的。为什么？
#
# <details><summary>答案</summary>
#
# 一行只有一个分数，只要是有限的数，softmax 以后就是 1。输出就是这个词自己的 $V$ 乘 $W_O$。只影响分数的步骤，单个词一概测不到；切头、并头少了转置也测不出来。测得到的是后面的：权重加起来是不是 1，$V$，头的次序，$W_O$，残差和归一化。
#
# </details>
#
# **3.** 面试官问：“拼接换成相加，行不行？”
#
# <details><summary>答案</summary>
#
# 先问清是哪种相加。每个头过自己那块 $W_O^{(h)}$ 再相加，和拼接乘 $W_O$ 是同一个数。不过自己的块，直接相加，等于每个头用同一块单位矩阵：头的次序分不出来，秩从 {{ ranks[1] }} 降到 {{ ranks[0] }}（上面的例子），宽度也从 {{ n_heads * d_v }} 变成 {{ d_v }}，加不回 {{ d_model }} 维的 $x$。
#
# </details>
#
# 一层要花多少，见 [10 开销](10_cost.ipynb)。回到 [00 地图](00_map.ipynb)。

# %% [markdown] lang="en" of="3f1f24d9"
# ## Three questions
#
# **1.** In your causal attention the shape is right, rows sum to 1, there is no NaN, and changing the last token moves no earlier row. Where might it still be wrong?
#
# <details><summary>Answer</summary>
#
# In many places: the scaling, the order of the heads, $W_O$, the partners in grouped heads, RoPE, the residual. Of the {{ len(catalogue) }} mistakes {{ len(pass_three) }} pass these checks; {{ len(pass_six) }} pass all six that need no reference. Compare values with a reference that was written independently, on problems with every size different and with small and large scores.
#
# </details>
#
# **2.** With a single token, the scores may be wrong and the output is still right. Why?
#
# <details><summary>Answer</summary>
#
# A row has one score, and after the softmax it is 1, whatever finite number the score was. The output is the $V$ of this token times $W_O$. What acts on scores only, a single token never tests; nor does it notice a missing transpose in the split or the merge. It does test what comes after: whether the weights sum to 1, $V$, the order of the heads, $W_O$, the residual and the norm.
#
# </details>
#
# **3.** The interviewer asks: "Could one sum the heads and not concatenate them?"
#
# <details><summary>Answer</summary>
#
# Ask which sum is meant. Each head through its own block $W_O^{(h)}$ and then summed is the same number as concatenation and $W_O$. Summed as they are, every head has the same identity for a block: the order of the heads cannot be told, the rank falls from {{ ranks[1] }} to {{ ranks[0] }} (in the example above), and the width goes from {{ n_heads * d_v }} to {{ d_v }}, which cannot be added to an $x$ of {{ d_model }}.
#
# </details>
#
# What a layer costs is in [10 Cost](10_cost.ipynb). Back to [00 The map](00_map.ipynb).

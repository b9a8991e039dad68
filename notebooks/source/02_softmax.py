# %% [markdown] lang="zh"
# # 02 · softmax：分数变权重
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → **遮住未来 → softmax** → 加权取值 → 输出投影 |
# | 需要什么 | [01 打分和缩放](01_scores_and_scaling.ipynb)：「西安」这一行缩放后的六个分数 |
# | 走完以后 | 能在纸上把一行分数算成权重；知道为什么要减最大值；会加因果遮罩，知道为什么用 −∞ |
# | 多长时间 | 约 30 分钟 |

# %% [markdown] lang="en" of="9e092e0b"
# # 02 · Softmax: from scores to weights
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → **mask → softmax** → weigh → project out |
# | What you need | [01 Scores and scaling](01_scores_and_scaling.ipynb): the six scaled scores of the row 西安 |
# | What you will be able to do | turn a row of scores into weights on paper; say why the maximum is subtracted; put on a causal mask and say why it holds −∞ |
# | Time | about 30 minutes |

# %%
import numpy as np

from byhand import figures, show, toy, worked
from byhand import apply_mask, causal_mask, project, published, reproduces, scale, score, softmax

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
t = toy.load()
Q, K = project(t.X, t.W_Q), project(t.X, t.W_K)  # [6, 4] each
scaled = scale(score(Q, K), d_head=4)  # [6, 6]; rows are queries, columns are keys
row = scaled[西安]  # [6]
print(show.row(row, 2), "  西安")
assert reproduces("scaled.xian", row)

# %% [markdown] lang="zh"
# 「西安」对六个词各有一个缩放后的分数，有正有负。要用它们来分配注意力，得先变成六个正数，加起来是 1。
#
# 先猜：「怎么样」缩放后的分数最高，{{ row[怎么样]:.2f }}。它会分到多少？一半以上，还是不到三成？

# %% [markdown] lang="en" of="8e20da53"
# 西安 has a scaled score for each of the six tokens, some positive, some negative. To share out attention they must become six positive numbers that sum to 1.
#
# Guess first: 怎么样 has the highest scaled score, {{ row[怎么样]:.2f }}. What share will it get? More than half, or less than three tenths?

# %% [markdown] lang="zh"
# ## 四步，算一行
#
# ### 第一步：减去最大值
#
# 六个分数都减去最大的那个。最大的变成 0，别的都是负数。为什么要减，算完这一行再说。

# %% [markdown] lang="en" of="6e274d87"
# ## One row, in four steps
#
# ### Step one: subtract the maximum
#
# Subtract the largest score from all six. The largest becomes 0 and the others are negative. Why we do this is explained after this row.

# %%
shifted = row - row.max()  # [6]
print(show.row(shifted, 2))

# %% [markdown] lang="zh"
# ### 第二步：取指数
#
# 拿每个数 $x$ 去算 $e^x$，$e$ 约等于 {{ np.e:.3f }}。这叫取指数，得到的数下面叫**指数值**。$x$ 是负数，指数值在 0 和 1 之间；$x$ 是 0，指数值是 1。这样全是正数了，次序不变。

# %% [markdown] lang="en" of="9113e02a"
# ### Step two: exponentials
#
# For each number $x$ compute $e^x$, where $e$ is about {{ np.e:.3f }}. Where $x$ is negative the exponential lies between 0 and 1; where $x$ is 0 it is 1. Now all are positive, and the order is the same.

# %%
exps = np.exp(shifted)  # [6]
print(show.row(exps, 4))
assert reproduces("exp.xian", exps)

# %% [markdown] lang="zh"
# ### 第三步：求和
#
# 先猜一下：六个指数值里最大的是 1，其余都比 1 小。它们加起来更接近 1、4 还是 6？

# %% [markdown] lang="en" of="a8cca9fe"
# ### Step three: the sum
#
# Guess first: the largest of the six is 1, the others are smaller. Is their sum nearer to 1, to 4 or to 6?

# %%
total = exps.sum()  # [6] -> one number for the row
print(f"{total:.4f}")
assert reproduces("expsum.xian", total)

# %% [markdown] lang="zh"
# 和是 {{ total:.4f }}。它是这一行共同的分母：「怎么样」的 1 占其中的 {{ 1 / total:.1%}}，这就是它的注意力权重。
#
# ### 第四步：除以和

# %% [markdown] lang="en" of="39eff2e8"
# The sum is {{ total:.4f }}. It is the denominator of the whole row: the 1 of 怎么样 is {{ 1 / total:.1%}} of it, and that is its attention weight.
#
# ### Step four: divide by the sum

# %%
weights_xian = exps / total  # [6]
print(show.row(weights_xian))
print(f"sum {weights_xian.sum():.3f}")
assert reproduces("weights", softmax(scaled))  # all six rows, as the article prints them
assert np.isclose(weights_xian.sum(), 1, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 「怎么样」分到 {{ weights_xian[怎么样]:.3f }}，不到三成。别的词也都有份，最少的「的」也有 {{ weights_xian[的]:.3f }}。
#
# 四步放在一张图里（文章的图 7-4）：

# %% [markdown] lang="en" of="511062c7"
# 怎么样 gets {{ weights_xian[怎么样]:.3f }}, less than three tenths. The others all get something too: even 的, the least, has {{ weights_xian[的]:.3f }}.
#
# The four steps in one figure (figure 7-4 of the article):

# %%
figures.softmax_steps(row, lang)

# %% [markdown] lang="zh"
# 写在纸上是这样。≈ 的地方，有数为了印出来舍入过；最后的值是用没有舍入的数算的。

# %% [markdown] lang="en" of="1636b4ac"
# On paper it reads like this. ≈ marks each place where a number was rounded for printing. The last value is computed from unrounded numbers.

# %%
worked.weight(scaled, 西安, 怎么样)

# %% [markdown] lang="zh"
# ## 三种写法
#
# 循环、矩阵、函数，三样对一遍。这次六行一起算。

# %% [markdown] lang="en" of="1a668c18"
# ## Three ways of writing
#
# Loop, matrix, function, held against each other. All six rows this time.

# %%
weights_loop = np.zeros((6, 6))
for i in range(6):  # every row by itself
    top = max(scaled[i])
    denominator = 0.0
    for j in range(6):
        denominator += np.exp(scaled[i, j] - top)
    for j in range(6):
        weights_loop[i, j] = np.exp(scaled[i, j] - top) / denominator

exps_all = np.exp(scaled - scaled.max(axis=1, keepdims=True))  # [6, 6] - [6, 1] -> [6, 6]
weights = exps_all / exps_all.sum(axis=1, keepdims=True)  # [6, 6] / [6, 1]: each row by its own sum

assert np.allclose(weights_loop, weights, rtol=0, atol=1e-12)
assert np.allclose(softmax(scaled), weights, rtol=0, atol=1e-12)
print(show.rows(weights))

# %% [markdown] lang="zh"
# ## 印出来的数，差一个末位
#
# 文章印的缩放后的分数只有两位小数。拿这些印出来的数往下算，会得到什么？

# %% [markdown] lang="en" of="20cf1d05"
# ## A last digit that differs
#
# The article prints the scaled scores with two decimals. What comes out if we go on from those printed numbers?

# %%
printed = published("scaled.xian").values  # the six scores as printed
exps_printed = np.exp(printed - printed.max())
print(show.row(exps_printed, 4), f"  sum {exps_printed.sum():.4f}")
print(show.row(softmax(printed)))
print(show.row(published("weights").values[西安]), "  the article")
assert not reproduces("exp.xian", exps_printed)
assert not reproduces("expsum.xian", exps_printed.sum())

# %% [markdown] lang="zh"
# 第一个指数值是 {{ exps_printed[今天]:.4f }}，文章是 {{ exps[今天]:.4f }}；和是 {{ exps_printed.sum():.4f }}，文章是 {{ total:.4f }}；「今天」「天气」「怎么样」「？」的权重各差一个末位。
#
# 文章没有算错。它印的时候舍入，接着算的时候用的是没有舍入的数。照着印出来的两位小数按计算器，指数值最多差 {{ np.abs(exps_printed - exps).max():.4f }}，权重差一个末位，都是正常的。

# %% [markdown] lang="en" of="190c223c"
# The first exponential is {{ exps_printed[今天]:.4f }} and the article has {{ exps[今天]:.4f }}; the sum is {{ exps_printed.sum():.4f }} and the article has {{ total:.4f }}; the weights of 今天, 天气, 怎么样 and ？ each differ in the last digit.
#
# The article made no mistake. It rounds what it prints and goes on with what it did not round. Follow the printed two decimals on a calculator, and the exponentials are off by up to {{ np.abs(exps_printed - exps).max():.4f }} and the weights by one in the last digit. That is to be expected.

# %%
digits_off = np.round(softmax(printed), 3) != np.round(weights[西安], 3)
print([token for token, off in zip(toy.TOKENS, digits_off) if off])
assert list(np.flatnonzero(digits_off)) == [今天, 天气, 怎么样, 问号]

# %% [markdown] lang="zh"
# ## 为什么减去最大值
#
# 先看它**不影响**什么。减 0、减最大值、减 100，三种做法：

# %% [markdown] lang="en" of="60430dca"
# ## Why the maximum is subtracted
#
# First, what it does **not** change. Subtract 0, the maximum, or 100:

# %%
for c in (0.0, row.max(), 100.0):
    e = np.exp(row - c)
    print(f"{show.row(e / e.sum())}   minus {c:.2f}, sum of exponentials {e.sum():.1e}")
    assert np.allclose(e / e.sum(), weights[西安], rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 权重一模一样。$e^{x-c} = e^x / e^c$，分子分母同除以一个 $e^c$，约掉了。
#
# 再看它**影响**什么。把这一行放大，让最大的分数到 1000：

# %% [markdown] lang="en" of="3e4c0b0b"
# The weights are the same. $e^{x-c} = e^x / e^c$: numerator and denominator are both divided by $e^c$, and it cancels.
#
# Now what it **does** change. Multiply the row until its largest score is 1000:

# %%
large = row * (1000 / row.max())
with np.errstate(over="ignore", invalid="ignore"):  # NumPy would warn; we want to see the result
    naive = np.exp(large) / np.exp(large).sum()
print(naive, "  without subtracting")
print(show.row(softmax(large)), "  subtracting the maximum")
assert np.isnan(naive[怎么样]) and softmax(large)[怎么样] == 1
# each row by its own maximum: beside so large a row, the other keeps its weights
assert np.allclose(softmax(np.array([row, large]))[0], weights[西安], rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 不减，$e^{1000}$ 太大，双精度（float64，NumPy 平常用的）放不下，变成 inf，也就是无穷大。inf 除以 inf 是 nan，意思是“不是数”。减了，最大的指数值永远是 1，不会溢出。
#
# 到多大才溢出，要看精度：

# %% [markdown] lang="en" of="48380afe"
# Without it, $e^{1000}$ is more than double precision (float64, what NumPy uses by default) can hold. It becomes inf, infinity, and inf divided by inf is nan, not a number. With it, the largest exponential is always 1 and nothing overflows.
#
# How large is too large depends on the precision:

# %%
limits = {
    dtype: float(np.log(np.finfo(dtype).max)) for dtype in (np.float16, np.float32, np.float64)
}
for dtype, limit in limits.items():
    print(f"{dtype.__name__}: e^x overflows above x = {limit:.1f}")

# %% [markdown] lang="zh"
# float16 里，分数过了 {{ limits[np.float16]:.1f }} 就溢出。随机的、缩放过的分数很少到这么大；训练好的模型没有这个保证，忘了缩放的更没有：[01](01_scores_and_scaling.ipynb) 里见过，$d_k=128$ 不缩放，标准差就有 {{ np.sqrt(128):.1f }}。减最大值几乎不费事，从此不会溢出。

# %% [markdown] lang="en" of="3e8c979b"
# In float16 a score above {{ limits[np.float16]:.1f }} overflows. Random scaled scores hardly ever get there. A trained model gives no such promise, and still less one that forgets to scale: in [01](01_scores_and_scaling.ipynb), unscaled scores at $d_k=128$ have a standard deviation of {{ np.sqrt(128):.1f }}. Subtracting the maximum costs next to nothing and makes overflow impossible.

# %% [markdown] lang="zh"
# ## 整张表：谁在看谁
#
# 六行都算好了。橙框是每行的最大值（文章的图 7-6）：

# %% [markdown] lang="en" of="549bd4de"
# ## The whole table: who looks at whom
#
# All six rows are done. The orange box is the maximum of each row (figure 7-6 of the article):

# %%
figures.heatmap(
    weights, "weights", lang, title="$A = \\mathrm{softmax}(QK^T/\\sqrt{d})$", box_row_max=True
)

# %%
best = weights.argmax(axis=1)  # [6]
for i, j in enumerate(best):
    print(f"{weights[i, j]:.3f}  {toy.TOKENS[i]} → {toy.TOKENS[j]}")
assert reproduces("weights", weights)
assert reproduces("weights.rowmax", weights[range(6), best])
assert list(best) == [问号, 怎么样, 问号, 问号, 西安, 今天]

# %%
figures.who_looks(weights, lang)

# %% [markdown] lang="zh"
# 「西安」最看重「怎么样」（{{ weights[西安, 怎么样]:.3f }}），「怎么样」最看重「西安」（{{ weights[怎么样, 西安]:.3f }}）。文章由此讲了一个问与答互相照应的故事。故事好记，但请记得，这些数是为了重现文章的结果反解出来的，不是从语料里学来的。训练好的模型里有没有这样的一对，到 05 去量。
#
# 文章说每行的和恰好是 1。算出来的确实是。要是把**印出来的**三位小数加起来呢？

# %% [markdown] lang="en" of="1f166cf7"
# 西安 looks most at 怎么样 ({{ weights[西安, 怎么样]:.3f }}), and 怎么样 looks most at 西安 ({{ weights[怎么样, 西安]:.3f }}). The article tells a story of question and answer that find each other. It is easy to remember, but remember also that these numbers were solved for to reproduce the article's results. They were not learned from text. Whether a trained model has such a pair is measured in notebook 05.
#
# The article says that every row sums to exactly 1. The computed rows do. What do the **printed** three decimals sum to?

# %%
printed_sums = published("weights").values.sum(axis=1)
for token, exact, from_print in zip(toy.TOKENS, weights.sum(axis=1), printed_sums):
    print(f"computed {exact:.3f}   printed {from_print:.3f}   {token}")
assert np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-12)
assert round(printed_sums[问号], 3) != 1

# %% [markdown] lang="zh"
# 「？」那一行，印出来的数加起来是 {{ printed_sums[问号]:.3f }}。六个数凑巧都是往下舍的，没有算错。

# %% [markdown] lang="en" of="63b0199e"
# In the row of ？ the printed numbers sum to {{ printed_sums[问号]:.3f }}. All six happen to be rounded down; nothing was computed wrongly.

# %% [markdown] lang="zh"
# ## 缩放前，缩放后
#
# 六行里，「今天」这一行的分数相差最大。先猜：不除以 2，「？」的权重会从 {{ weights[今天, 问号]:.3f }} 变成多少？

# %% [markdown] lang="en" of="ea5c9da8"
# ## With scaling and without
#
# Of the six rows, the scores of 今天 lie farthest apart. Guess first: without dividing by 2, what does the weight of ？ become instead of {{ weights[今天, 问号]:.3f }}?

# %%
unscaled_weights = softmax(score(Q, K))  # [6, 6]; the division by 2 left out
print(show.row(unscaled_weights[今天]), "  not scaled")
print(show.row(weights[今天]), "  scaled")
assert reproduces("weights.unscaled.jintian_q", unscaled_weights[今天, 问号])
assert reproduces("weights.scaled.jintian_q", weights[今天, 问号])

# %%
figures.with_and_without_scaling(unscaled_weights[今天], weights[今天], lang)

# %% [markdown] lang="zh"
# {{ unscaled_weights[今天, 问号]:.3f }} 和 {{ weights[今天, 问号]:.3f }}（文章的图 7-5）。不缩放时，「？」一个就拿走近四分之三，「怎么样」只剩 {{ unscaled_weights[今天, 怎么样]:.3f }}。缩放以后，「？」的权重还是最大，别的词都多分到一些。最少的「怎么样」升到 {{ weights[今天, 怎么样]:.3f }}。
#
# 哪一个“理解得更好”？从这两行数看不出来。缩放是为了让训练有个好的起点，理由和它的限度见 [01](01_scores_and_scaling.ipynb)。

# %% [markdown] lang="en" of="eec090cb"
# {{ unscaled_weights[今天, 问号]:.3f }} and {{ weights[今天, 问号]:.3f }} (figure 7-5 of the article). Without scaling ？ alone takes nearly three quarters, and {{ unscaled_weights[今天, 怎么样]:.3f }} is left for 怎么样. With scaling ？ still has the largest weight, and every other token gets more. 怎么样, the least, rises to {{ weights[今天, 怎么样]:.3f }}.
#
# Which of the two understands the sentence better? These rows cannot tell. Scaling is there to give training a good start; [01](01_scores_and_scaling.ipynb) shows the reason and its limits.

# %% [markdown] lang="zh"
# ## 不许看后面：因果遮罩
#
# 到这里，每个词都能看到整句话。语言模型要做的是猜下一个词：在「西安」这里，要猜的是「的」。模型自己往下写的时候，「的」还不存在。训练的时候它就在手边，要是「西安」看得见，就没有什么可猜的了。所以每个词都不许看它后面的词。
#
# 先猜：「西安」这一行的权重，有多少给了它后面的词？

# %% [markdown] lang="en" of="43a0fdcc"
# ## No looking ahead: the causal mask
#
# So far every token sees the whole sentence. A language model guesses the next token. At 西安 it has to guess 的. When the model is writing, 的 does not exist yet. In training it does, and if 西安 could see it, there would be nothing left to guess. So no token may look at those after it.
#
# Guess first: how much of the row of 西安 is spent on tokens that come after it?

# %%
future = weights[西安, 西安 + 1 :].sum()  # the four tokens after it
print(f"{future:.1%}")
assert 0.7635 < future < 0.7645

# %% [markdown] lang="zh"
# {{ future:.1%}}。文章用这张表来讲大语言模型，这里要说清楚：Qwen2.5、GLM-4、LLaMA 这些模型只看前文，「西安」看不到后面的四个词，「怎么样」和「？」也在其中。两边都看的是另一类模型，比如 05 里的编码器。
#
# 「西安」看得到的只有「今天」和它自己。只用这两个分数做 softmax：

# %% [markdown] lang="en" of="09108fdb"
# {{ future:.1%}}. The article uses this table to explain large language models. But Qwen2.5, GLM-4 and LLaMA look back only: in them 西安 cannot see the four tokens after it, 怎么样 and ？ among them. Models that look both ways are of another kind, like the encoder in notebook 05.
#
# All that 西安 can see is 今天 and itself. The softmax of these two scores alone:

# %%
two = softmax(scaled[西安, : 西安 + 1])  # [2]
print(show.row(two))

# %% [markdown] lang="zh"
# 每一行看得到的词数不同，一行一行截短太麻烦。所以不截，在不许看的位置给分数加上 −∞。$e^{-\infty}=0$：那里的权重就是 0，分母里也没有它。这张由 0 和 −∞ 组成的表就是**遮罩**；叫“因果”，是说没有一个词取决于后来的词。

# %% [markdown] lang="en" of="2bd423d2"
# Each row sees a different number of tokens, and cutting row by row is clumsy. Instead we leave the rows as they are and add −∞ to every score that may not be seen. $e^{-\infty}=0$: its weight is 0, and it adds nothing to the denominator. This table of 0 and −∞ is the **mask**. It is called causal because no token depends on a later one.

# %%
masked_loop = scaled.copy()
for i in range(6):
    for j in range(i + 1, 6):  # keys after the query
        masked_loop[i, j] = -np.inf

mask = np.zeros((6, 6))  # 0: may look
for i in range(6):
    mask[i, i + 1 :] = -np.inf  # everything after token i: may not
causal = softmax(scaled + mask)  # [6, 6]

assert np.array_equal(causal_mask(6), mask)
assert np.array_equal(apply_mask(scaled, causal_mask(6)), masked_loop)
assert np.allclose(softmax(masked_loop), causal, rtol=0, atol=1e-12)
assert np.allclose(causal[西安, : 西安 + 1], two, rtol=0, atol=1e-12)
print(show.rows(mask, 0))
print()
print(show.rows(causal))

# %%
figures.both_ways_and_causal(weights, causal, lang)

# %% [markdown] lang="zh"
# 「西安」变成 [{{ causal[西安, 今天]:.3f }}, {{ causal[西安, 西安]:.3f }}]，最大的换成了「今天」。「今天」前面没有词，只能看自己，权重是 1。最后一个词「？」什么都看得到，它那一行没有变。
#
# 有一种写法也能得到同样的数：先做完 softmax，把不许看的权重改成 0，再除以剩下的和。忘了最后那一除，行和就不是 1：

# %% [markdown] lang="en" of="82fa528c"
# 西安 becomes [{{ causal[西安, 今天]:.3f }}, {{ causal[西安, 西安]:.3f }}], and its largest weight is now on 今天. 今天 has nothing before it and can only look at itself, with weight 1. The last token, ？, sees everything, and its row has not changed.
#
# There is another way to the same numbers: finish the softmax, set the weights of the masked keys to 0, and divide each row by the sum of what is left. Forget that last division, and the rows no longer sum to 1:

# %%
zeroed = np.where(mask == 0, weights, 0)  # [6, 6]
print(f"row sums   {show.row(zeroed.sum(axis=1))}")
assert np.allclose(zeroed / zeroed.sum(axis=1, keepdims=True), causal, rtol=0, atol=1e-12)
assert not np.allclose(zeroed.sum(axis=1)[:-1], 1, atol=0.05)

# %% [markdown] lang="zh"
# ### −∞ 还是 −100000
#
# 不少程序加的不是 −∞，而是一个绝对值很大的负数，比如 $-10^5$。先在小例子里试：

# %% [markdown] lang="en" of="9b7c5fb3"
# ### −∞ or −100000
#
# Many programs add a large negative number, such as $-10^5$, in place of −∞. In the toy:

# %%
finite_mask = np.where(mask == 0, 0, -1e5)
assert np.array_equal(softmax(scaled + finite_mask), causal)
print("the same")

# %% [markdown] lang="zh"
# 没有差别：$e^{-100000}$ 太小，双精度里就是 0。另外两种情况才会出错。
#
# **分数本身很大。** 两个键，第二个被遮住，可它的分数有 $2 × 10^5$：

# %% [markdown] lang="en" of="6d18fe7e"
# No difference: $e^{-100000}$ is so small that double precision can only write 0. Trouble comes in two other cases.
#
# **The scores are large themselves.** Two keys, the second masked, but its score is $2 × 10^5$:

# %%
big = np.array([0.0, 2e5])  # two scores; the second key is to be masked
finite = softmax(big + np.array([0, -1e5]))
infinite = softmax(big + np.array([0, -np.inf]))
print(finite, "  −1e5")
print(infinite, "  −∞")
assert finite[1] == 1  # the masked key takes everything
assert infinite[1] == 0

# %% [markdown] lang="zh"
# 遮住的键反而拿走了全部。
#
# **一整行都被遮住。** 几句话凑成一批，短句要补上空的 token（padding），就会有这样的行。每个分数都加 $-10^5$，等于都减去同一个数。前面看过，减同一个数，权重不变：

# %% [markdown] lang="en" of="5342f165"
# The masked key takes everything.
#
# **A whole row is masked.** When sentences form a batch, the short ones are filled up with empty tokens (padding), and such rows appear. Adding $-10^5$ to every score subtracts one number from all of them, and as seen above this changes nothing:

# %%
print(show.row(softmax(row - 1e5)), "  all masked with −1e5")
print(show.row(softmax(row)), "  no mask at all")
assert np.allclose(softmax(row - 1e5), softmax(row), rtol=0, atol=1e-9)

try:
    apply_mask(row.reshape(1, 6), np.full((1, 6), -np.inf))
except ValueError as error:
    print(error)

# %% [markdown] lang="zh"
# 加 $-10^5$，遮罩等于没有，还看不出来。加 −∞，NumPy 会算出 nan；`byhand` 不等到 nan，直接说哪一行没有东西可看。所以全套都用 −∞。

# %% [markdown] lang="en" of="629ea2a6"
# With $-10^5$ the mask is gone, and nothing shows it. With −∞ NumPy would give nan; `byhand` does not wait for the nan and says which row has nothing to look at. So these notebooks always use −∞.

# %% [markdown] lang="zh"
# ### 动一动：温度、一个分数、遮罩
#
# 下面是「西安」这一行的四步，和图 7-4 一样。可以换一行，也可以动三样东西。一是给一个键的分数加上一个数。二是温度：加完以后，所有分数都除以它，是 1 就不变，小于 1 就把差拉大，权重变尖。三是因果遮罩。橙框框住每一步最大的。条形上的竖线是文章印出来的权重，按钮回到「西安」这一行，什么都不改。
#
# 先猜：「今天」分到 {{ weights[西安, 今天]:.3f }}。别的分数不动，它的分数要加多少，才能分到一半？

# %% [markdown] lang="en" of="014b584f"
# ### Move it: temperature, one score, the mask
#
# Below are the four steps for the row 西安, as in figure 7-4. You can choose another row, and change three things. Add a number to the score of one key. Set the temperature: after the addition, all scores are divided by it. At 1 nothing changes; below 1 the scores move apart and the weights get more peaked. Switch on the causal mask. The largest number of each step is framed in orange. The upright line across each bar is the weight that the article prints, and the button goes back to the row 西安, unchanged.
#
# Guess first: 今天 gets {{ weights[西安, 今天]:.3f }}. With the other scores left alone, how much must be added to its score for it to get half?

# %%
from byhand.explorers import softmax_row

explorer = softmax_row.explorer(lang)
explorer


# %%
def shown(row_of_weights):
    """As the explorer writes them."""
    return "  ".join(f"{w:.3f}" for w in row_of_weights)


p = weights[西安, 今天]
needed = np.log((1 - p) / p)  # its exponential grows to the sum of the other five
raised = row.copy()
raised[今天] += needed
assert np.isclose(softmax(raised)[今天], 1 / 2, rtol=0, atol=1e-12)
print(f"{needed:.3f}")

share = {}  # the two stops of the slider on either side
for extra in (np.floor(10 * needed) / 10, np.ceil(10 * needed) / 10):
    raised[今天] = row[今天] + extra
    share[extra] = softmax(raised)[今天]
    explorer.set(extra=extra)
    assert shown(softmax(raised)) in explorer.says
    print(explorer.says.splitlines()[0])

explorer.set(query=今天, extra=0, temperature=1 / 2)  # half the temperature: the scaling undone
assert shown(unscaled_weights[今天]) in explorer.says
print(explorer.says.splitlines()[0])

explorer.set(query=西安, key=天气, extra=5, temperature=1, causal=True)  # 天气 is masked
assert shown(causal[西安]) in explorer.says
print(explorer.says.splitlines()[0])
_ = explorer.reset()

# %% [markdown] lang="zh"
# 加 {{ needed:.2f }}。分数加 $x$，指数值乘 $e^x$。要占一半，它就得和另外五个的和一样大，所以 $x$ 是 {{ 1 - p:.3f }} 比 {{ p:.3f }} 的对数。滑块停在 {{ min(share):.1f }} 是 {{ share[min(share)]:.3f }}，停在 {{ max(share):.1f }} 是 {{ share[max(share)]:.3f }}。另外五个都变小，它们之间的比不变。
#
# 后面两行：温度取二分之一，等于乘 2；缩放除的是 $\sqrt 4 = 2$，正好抵消。「今天」这一行就是上面不缩放的那一行，「？」占 {{ unscaled_weights[今天, 问号]:.3f }}。遮住以后，给「天气」的分数加 5，「西安」这一行一个权重也不变：−∞ 加上 5 还是 −∞。

# %% [markdown] lang="en" of="b9a18d13"
# {{ needed:.2f }}. Adding $x$ to a score multiplies its exponential by $e^x$. For 今天 to get half, its exponential must be as large as the other five together, so $x$ is the logarithm of {{ 1 - p:.3f }} over {{ p:.3f }}. At {{ min(share):.1f }} the slider gives {{ share[min(share)]:.3f }}, at {{ max(share):.1f }} it gives {{ share[max(share)]:.3f }}. The other five all shrink, and their ratios stay the same.
#
# The last two lines: a temperature of one half multiplies by 2. The scaling divides by $\sqrt 4 = 2$, so the two cancel. The row 今天 is the unscaled row from above, with {{ unscaled_weights[今天, 问号]:.3f }} for ？. With the mask on, adding 5 to the score of 天气 changes no weight in the row 西安: −∞ plus 5 is still −∞.

# %% [markdown] lang="zh"
# ## 一个错：softmax 做错了方向
#
# softmax 要沿着一行做，也就是沿着键。`axis` 写错，就变成沿着一列做：

# %% [markdown] lang="en" of="9c130508"
# ## A mistake: the softmax along the wrong axis
#
# The softmax runs along a row, that is, over the keys. With the wrong `axis` it runs down a column:

# %%
wrong = softmax(scaled, axis=0)  # [6, 6]
print(show.rows(wrong))
print(f"row sums      {show.row(wrong.sum(axis=1))}")
print(f"column sums   {show.row(wrong.sum(axis=0))}")
assert np.allclose(wrong.sum(axis=0), 1, rtol=0, atol=1e-12)
assert not np.allclose(wrong.sum(axis=1), 1, atol=0.05)
assert not reproduces("weights", wrong)

# %% [markdown] lang="zh"
# 形状还是 6 × 6，每个数还在 0 和 1 之间。看得出来的地方只有一个：行和不是 1，列和是 1。「？」那一行的和是 {{ wrong[问号].sum():.3f }}，它取回来的内容会被放大；「的」只有 {{ wrong[的].sum():.3f }}。
#
# 养成习惯：每次做完 softmax，看一眼 `weights.sum(axis=-1)`。

# %% [markdown] lang="en" of="d58f11a5"
# The shape is still 6 × 6, and every number still lies between 0 and 1. One thing gives it away: the rows do not sum to 1, the columns do. The row of ？ sums to {{ wrong[问号].sum():.3f }}, so the values it collects come out too large; that of 的 sums to only {{ wrong[的].sum():.3f }}.
#
# Make it a habit: after every softmax, look at `weights.sum(axis=-1)`.

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 六个缩放后的分数都加上 7，权重怎么变？
#
# <details><summary>答案</summary>
#
# 不变。$e^7$ 在分子分母里各出现一次，约掉了。softmax 只看分数之间的差，不看高低。
#
# </details>
#
# **2.** 六个缩放后的分数都乘 2，权重怎么变？
#
# <details><summary>答案</summary>
#
# 变尖。「怎么样」从 {{ softmax(row)[怎么样]:.3f }} 到 {{ softmax(2 * row)[怎么样]:.3f }}。这正好是不缩放的那一行，因为缩放除以的就是 2。
#
# </details>
#
# **3.** 加了因果遮罩以后，「天气」那一行有几个权重不是 0？最大的是谁？
#
# <details><summary>答案</summary>
#
# {{ np.count_nonzero(causal[天气]) }} 个：它自己和前面的三个词。最大的是「{{ toy.TOKENS[int(causal[天气].argmax())] }}」，{{ causal[天气].max():.3f }}。
#
# </details>
#
# 下一本：[03 加权取值](03_weighted_values.ipynb)

# %% [markdown] lang="en" of="6e685e12"
# ## Three questions
#
# **1.** Add 7 to all six scaled scores. What happens to the weights?
#
# <details><summary>Answer</summary>
#
# Nothing. $e^7$ stands in the numerator and in the denominator, and it cancels. The softmax sees the differences between scores, not their level.
#
# </details>
#
# **2.** Double all six scaled scores. What happens to the weights?
#
# <details><summary>Answer</summary>
#
# They get more peaked. 怎么样 goes from {{ softmax(row)[怎么样]:.3f }} to {{ softmax(2 * row)[怎么样]:.3f }}. This is exactly the row without scaling, because scaling divided by 2.
#
# </details>
#
# **3.** With the causal mask on, how many weights in the row of 天气 are not 0? Which is the largest?
#
# <details><summary>Answer</summary>
#
# {{ np.count_nonzero(causal[天气]) }}: its own and those of the three tokens before it. The largest is {{ toy.TOKENS[int(causal[天气].argmax())] }}, {{ causal[天气].max():.3f }}.
#
# </details>
#
# Next: [03 Weighted values](03_weighted_values.ipynb)

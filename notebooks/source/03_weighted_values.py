# %% [markdown] lang="zh"
# # 03 · 加权取值
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → **加权取值** → 输出投影 |
# | 需要什么 | [02 softmax](02_softmax.ipynb)：六行权重，每行的和是 1 |
# | 走完以后 | 能手算上下文向量的任何一个数，能说出它由谁的多少拼成；知道注意力本身不认次序 |
# | 多长时间 | 约 25 分钟 |

# %% [markdown] lang="en" of="bf7a7493"
# # 03 · Weighted values
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → **weigh** → project out |
# | What you need | [02 Softmax](02_softmax.ipynb): six rows of weights, each summing to 1 |
# | What you will be able to do | compute any number of a context vector by hand, and say what it is made of; know that attention by itself sees no order |
# | Time | about 25 minutes |

# %%
import numpy as np

from byhand import figures, show, toy, worked
from byhand import (
    attention,
    causal_mask,
    project,
    published,
    reproduces,
    scale,
    score,
    softmax,
    weigh,
)

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
t = toy.load()
Q, K, V = project(t.X, t.W_Q), project(t.X, t.W_K), project(t.X, t.W_V)  # [6, 4] each
weights = softmax(scale(score(Q, K), d_head=4))  # [6, 6]; rows are queries, columns are keys
print(show.row(weights[西安]), "  西安")

# %% [markdown] lang="zh"
# 权重说的是看谁、看多少。看到以后取走什么？取走 $V$，也就是值：每个词一行，四个数。

# %% [markdown] lang="en" of="aed5b9fb"
# The weights say whom to look at, and how much. What is taken away from there? $V$, the values: one row a token, four numbers each.

# %%
print(show.rows(V))
assert reproduces("values.dim1", V[:, 0])  # the article prints this column

# %% [markdown] lang="zh"
# ## 一个数
#
# 「西安」的新向量，第 1 维。六个词各拿出自己 $V$ 的第 1 个数，按「西安」给它的权重打折，加起来。
#
# 先猜：六个数里有 {{ np.count_nonzero(V[:, 0] < 0) }} 个是负的，其中一个是它自己，${{ V[西安, 0]:.3f }}$。加起来是正还是负？

# %% [markdown] lang="en" of="e1daa699"
# ## One number
#
# The new vector of 西安, dimension 1. Each of the six tokens brings the first number of its row of $V$, discounted by the weight that 西安 gives it, and the six are added.
#
# Guess first: {{ np.count_nonzero(V[:, 0] < 0) }} of the six numbers are negative, and one of them is its own, ${{ V[西安, 0]:.3f }}$. Is the sum positive or negative?

# %%
worked.context(weights, V, 西安, 0)

# %%
one_number = 0.0
for j in range(6):  # every key
    one_number += weights[西安, j] * V[j, 0]
print(f"{one_number:.3f}")
assert reproduces("output.xian.dim1", one_number)

# %% [markdown] lang="zh"
# 是正的，{{ one_number:.3f }}。它自己那个大负数只算 {{ weights[西安, 西安]:.1%}}。
#
# 文章在这里写的是 =，我们写的是 ≈。照着印出来的数按计算器，得到的是另一个末位：

# %% [markdown] lang="en" of="f5986aa5"
# It is positive, {{ one_number:.3f }}. Its own large negative number counts for {{ weights[西安, 西安]:.1%}} only.
#
# The article writes = here, and we write ≈. With the printed numbers, a calculator gives another last digit:

# %%
printed_weights = published("weights").values[西安]  # [6], three decimals
printed_values = published("values.dim1").values  # [6], three decimals
from_print = printed_weights @ printed_values  # [6] @ [6] -> one number
print(f"printed factors {from_print:.4f}   unrounded {one_number:.4f}")
assert not reproduces("output.xian.dim1", from_print)
assert round(from_print, 3) != round(one_number, 3)

# %% [markdown] lang="zh"
# 印出来的因子给出 {{ from_print:.3f }}，文章写的是 {{ one_number:.3f }}。用没有舍入的因子算，得到的正是文章的数。要改的只是中间那个等号。

# %% [markdown] lang="en" of="879629b3"
# The printed factors give {{ from_print:.3f }}, and the article says {{ one_number:.3f }}. Unrounded factors give exactly the number it prints. Only the equals sign in between needs changing.

# %% [markdown] lang="zh"
# ## 全部 24 个数
#
# 六个词，每个四维。这回六行权重 $A$ 都要用上，一行一个查询：

# %% [markdown] lang="en" of="68933a4d"
# ## All 24 numbers
#
# Six tokens, four dimensions each. Now all six rows of the weights $A$ are needed, one row a query:

# %%
print(show.rows(weights))
assert reproduces("weights", weights)

# %% [markdown] lang="zh"
# 循环、矩阵、函数，三样对一遍。

# %% [markdown] lang="en" of="7b26138d"
# Loop, matrix, function, held against each other.

# %%
context_loop = np.zeros((6, 4))
for i in range(6):  # every query
    for c in range(4):  # every dimension
        for j in range(6):  # every key
            context_loop[i, c] += weights[i, j] * V[j, c]

context = weights @ V  # [6, 6] @ [6, 4] -> [6, 4]
assert np.allclose(context_loop, context, rtol=0, atol=1e-12)
assert np.allclose(weigh(weights, V), context, rtol=0, atol=1e-12)
print(show.rows(context))
assert reproduces("output", context)

# %% [markdown] lang="zh"
# 这就是上下文向量。四步走完了，合起来有一个函数，每一步都留着名字：

# %% [markdown] lang="en" of="5f6ec994"
# These are the context vectors. The four steps are done, and one function does them all and keeps each by its name:

# %%
stages = attention(Q, K, V)
for name, array in zip(stages._fields, stages):
    print(f"{name:<8} {list(array.shape)}")
assert np.allclose(stages.context, context, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 文章在这张表里用红色标出“每行最大值”。我们也标一遍，标真正的最大值：

# %% [markdown] lang="en" of="8c1052b1"
# The article marks the maximum of each row in red. We mark them too, where they really are:

# %%
figures.vectors([("$O = A V$", context)], lang, box_row_max=True)

# %%
marked = {今天: 0, 西安: 3, 的: 1, 天气: 2, 怎么样: 2, 问号: 2}  # the article's red entries
for i, c in marked.items():
    best = int(context[i].argmax())
    agrees = "" if best == c else "   not the maximum"
    print(
        f"marked {context[i, c]:z.3f}   maximum {context[i, best]:z.3f}   {toy.TOKENS[i]}{agrees}"
    )
assert [i for i, c in marked.items() if c != context[i].argmax()] == [今天, 的]

# %% [markdown] lang="zh"
# 有两行标错了位置：「今天」的最大值是 {{ context[今天].max():.3f }}，标的是 {{ context[今天, 0]:.3f }}；「的」的最大值是 {{ context[的].max():.3f }}，标的是 ${{ context[的, 1]:.3f }}$。
#
# 会不会标的是绝对值最大？「的」说得通，「今天」说不通：它绝对值最大的也是 {{ context[今天, 2]:.3f }}。「西安」也说不通：绝对值最大的是 ${{ context[西安, 1]:.3f }}$，标的却是 {{ context[西安, 3]:.3f }}。数都对，红色放错了两处。好在上下文向量的最大值没有特别的含义，和权重的不同。

# %% [markdown] lang="en" of="e9607a90"
# Two rows are marked in the wrong place: the maximum of 今天 is {{ context[今天].max():.3f }}, and {{ context[今天, 0]:.3f }} is marked; that of 的 is {{ context[的].max():.3f }}, and ${{ context[的, 1]:.3f }}$ is marked.
#
# Could it be the largest absolute value? That would explain 的 but not 今天, where that too is {{ context[今天, 2]:.3f }}. Nor 西安: its largest absolute value is ${{ context[西安, 1]:.3f }}$, and {{ context[西安, 3]:.3f }} is marked. The numbers are all right; the red is misplaced in two rows. It does little harm: the maximum of a context vector means nothing in particular, unlike that of a row of weights.

# %%
assert np.abs(context[的]).argmax() == 1 and np.abs(context[西安]).argmax() == 1
assert np.abs(context[今天]).argmax() == 2
print(show.row(context[西安]), "  西安")

# %% [markdown] lang="zh"
# ## 由谁拼成
#
# 「西安」的新向量由六个词的值拼成：「怎么样」取 {{ weights[西安, 怎么样]:.1%}}，「天气」取 {{ weights[西安, 天气]:.1%}}，「？」取 {{ weights[西安, 问号]:.1%}}，「今天」取 {{ weights[西安, 今天]:.1%}}，它自己取 {{ weights[西安, 西安]:.1%}}，「的」取 {{ weights[西安, 的]:.1%}}。一维一维拆开看（文章的图 7-7）：

# %% [markdown] lang="en" of="044012df"
# ## What it is made of
#
# The new vector of 西安 is now {{ weights[西安, 怎么样]:.1%}} 怎么样 + {{ weights[西安, 天气]:.1%}} 天气 + {{ weights[西安, 问号]:.1%}} ？ + {{ weights[西安, 今天]:.1%}} 今天 + {{ weights[西安, 西安]:.1%}} itself + {{ weights[西安, 的]:.1%}} 的. Taken apart by dimension (figure 7-7 of the article):

# %%
shares = weights[西安][:, None] * V  # [6, 1] * [6, 4] -> [6, 4]; one row a token
assert np.allclose(shares.sum(axis=0), context[西安], rtol=0, atol=1e-12)
figures.contributions(weights[西安], V, 西安, lang)

# %% [markdown] lang="zh"
# 正的往上叠，负的往下叠，旁边的黑条是总和。看第 2 维：「天气」权重不是最大，贡献却最大，${{ shares[天气, 1]:.3f }}$；「怎么样」权重最大，只贡献 ${{ shares[怎么样, 1]:.3f }}$。**权重大，贡献不一定大**，还要看值本身。
#
# 权重都是正数，和是 1，所以结果是加权平均：每一维都在六个值的最小和最大之间，不会超出去。

# %% [markdown] lang="en" of="bea441ee"
# Positive shares stack upwards, negative ones downwards, and the dark bar beside them is the sum. Look at dimension 2: 天气 has not the largest weight, and contributes the most, ${{ shares[天气, 1]:.3f }}$; 怎么样 has the largest weight, and contributes ${{ shares[怎么样, 1]:.3f }}$. **A larger weight does not mean a larger contribution.** The value counts too.
#
# The weights are positive and sum to 1, so the result is a weighted mean: in every dimension it lies between the smallest and the largest of the six values, and never outside.

# %%
assert np.abs(shares[:, 1]).argmax() == 天气 and weights[西安].argmax() == 怎么样
assert np.all(V.min(axis=0) <= context) and np.all(context <= V.max(axis=0))
# a mean moves with its values
assert np.allclose(weigh(weights, V + 1), context + 1, rtol=0, atol=1e-12)
print(f"{show.row(V.min(axis=0))}   smallest value")
print(f"{show.row(context[西安])}   西安")
print(f"{show.row(V.max(axis=0))}   largest value")

# %% [markdown] lang="zh"
# ### 动一动：一个数，一个权重
#
# 前两个滑块挑出一个数：查询定它的行，第几维定它的列。$A$ 的那一行、$V$ 的那一列会框出来，最下面的算式把它们一个一个乘好、加起来。
#
# 后两个滑块改一个权重：先选给谁的，再拖到 0 和 1 之间。另外五个权重按原来的比例分掉余下的，所以这一行的和还是 1。拖到最左边，权重又是算出来的那个。
#
# 先猜：「西安」自己的值，第 1 维是 ${{ V[西安, 0]:.3f }}$，权重只有 {{ weights[西安, 西安]:.3f }}，所以和是正的。把这个权重往上拖，拖过多少，和会变成负的？一直拖到 1 呢？

# %% [markdown] lang="en" of="06d74b98"
# ### Move it: one number, one weight
#
# The first two sliders pick one number: the query sets its row, the dimension its column. That row of $A$ and that column of $V$ are outlined, and the formula at the bottom multiplies them pair by pair and adds.
#
# The other two sliders change one weight: pick the token it goes to, then drag it to anything from 0 to 1. The other five share the rest in their old proportions, so the row still sums to 1. At the far left the weight is as computed again.
#
# Guess first: in dimension 1 the value of 西安 itself is ${{ V[西安, 0]:.3f }}$. Its weight is only {{ weights[西安, 西安]:.3f }}, so the sum is positive. Drag this weight up. Past which weight is the sum negative? And what is it at 1?

# %%
from byhand.explorers import weighing

explorer = weighing.explorer(lang)
explorer

# %%
others = [今天, 的, 天气, 怎么样, 问号]  # all but 西安
rest = weights[西安, others] @ V[others, 0] / weights[西安, others].sum()  # their weighted mean
assert f"{context[西安, 0]:.3f}" in explorer.says  # as it starts
for own in (0, 0.2, 0.25, 1):
    explorer.set(weight=own)
    moved = own * V[西安, 0] + (1 - own) * rest
    first_line = explorer.says.splitlines()[0]
    assert f"{moved:.3f}" in first_line
    print(f"{own:.2f}   {first_line}")
assert "  ".join(f"{x:.3f}" for x in V[西安]) in explorer.says  # weight 1: its own four values
turns = rest / (rest - V[西安, 0])  # where moved is 0
print(f"{turns:.3f}   the weight at which the sum is 0")
before = np.floor(turns * weighing.STEPS) / weighing.STEPS  # the stops on either side
for own, sign in ((before, 1), (before + 1 / weighing.STEPS, -1)):
    assert sign * (own * V[西安, 0] + (1 - own) * rest) > 0
_ = explorer.reset()

# %% [markdown] lang="zh"
# 拖过 {{ turns:.3f }}，和就变成负的。权重是 0 时，只剩另外五个词，它们的加权平均是 {{ rest:.3f }}；权重是 1 时，只剩「西安」自己，${{ V[西安, 0]:.3f }}$，四维都是它自己的值。权重在 0 和 1 中间，和就在这两个数中间，而且按比例走：权重走到一半，和也走到一半。滑块一步是 {{ 1 / weighing.STEPS:.2f }}，停不到那一点上：停在前一格，和还是正的；停在后一格，已经是负的。

# %% [markdown] lang="en" of="3bbbd1c1"
# Past {{ turns:.3f }} the sum is negative. At weight 0 only the other five tokens are left, and their weighted mean is {{ rest:.3f }}. At weight 1 only 西安 itself is left, ${{ V[西安, 0]:.3f }}$, and all four dimensions are its own values. For a weight in between, the sum lies in between, in proportion: halfway in the weight is halfway in the sum. The slider moves in steps of {{ 1 / weighing.STEPS:.2f }} and cannot stop at that point: one stop before it the sum is still positive, one stop after it negative.

# %% [markdown] lang="zh"
# ## 只看前文
#
# 语言模型里要加上因果遮罩。先猜：第一个词「今天」的上下文向量会是什么？

# %% [markdown] lang="en" of="7e3ce70b"
# ## Looking back only
#
# In a language model the causal mask is on. Guess first: what is the context vector of the first token, 今天?

# %%
causal = attention(Q, K, V, causal_mask(6))
print(show.rows(causal.context))
assert np.allclose(causal.context[今天], V[今天], rtol=0, atol=1e-12)
assert np.allclose(causal.context[问号], context[问号], rtol=0, atol=1e-12)
assert causal.context[西安, 0] < 0 < context[西安, 0]

# %%
worked.context(causal.weights, V, 西安, 0)

# %%
figures.contributions(causal.weights[西安], V, 西安, lang)

# %% [markdown] lang="zh"
# 「今天」只能看自己，权重是 1，取回来的就是它自己的值。「西安」的第 1 维从 {{ context[西安, 0]:.3f }} 变成 ${{ causal.context[西安, 0]:.3f }}$，连正负都变了。最后的「？」什么都看得到，一个数都没变。

# %% [markdown] lang="en" of="89fe8ab2"
# 今天 can only look at itself. Its weight is 1, and what it takes is its own value. For 西安, dimension 1 goes from {{ context[西安, 0]:.3f }} to ${{ causal.context[西安, 0]:.3f }}$: even the sign changes. The last token, ？, sees everything, and not one of its numbers changes.

# %% [markdown] lang="zh"
# ## 一个错：拿了 K，没拿 V
#
# 三个名字，三个形状一样的矩阵。最后一步把 $V$ 写成 $K$，不会报错：

# %% [markdown] lang="en" of="0f82bfbb"
# ## A mistake: K taken for V
#
# Three names, three matrices of one shape. If the last step says $K$ in place of $V$, nothing complains:

# %%
with_keys = weights @ K  # [6, 6] @ [6, 4] -> [6, 4]; should be V
print(show.row(context[西安]), "  A V")
print(show.row(with_keys[西安]), "  A K")
assert with_keys.shape == context.shape
assert not reproduces("output", with_keys)

# %% [markdown] lang="zh"
# 形状对，大小也像样。怎么发现？把 $W_V$ 加倍再算一次。对的，输出跟着加倍；输出要是不变，$V$ 就没有用上。

# %% [markdown] lang="en" of="00cfa5ba"
# The shape is right and the numbers look plausible. How to notice? Double $W_V$ and compute again. If all is right, the output doubles. If it stays the same, $V$ was never used.


# %%
def correct(w_v):
    v = project(t.X, w_v)
    return weigh(softmax(scale(score(Q, K), 4)), v)


def mistaken(w_v):
    v = project(t.X, w_v)  # computed and never used
    assert v.shape == K.shape  # so nothing complains
    return weigh(softmax(scale(score(Q, K), 4)), K)


print(show.row(correct(2 * t.W_V)[西安]), "  A V with W_V doubled")
print(show.row(mistaken(2 * t.W_V)[西安]), "  A K with W_V doubled")
assert np.allclose(correct(2 * t.W_V), 2 * context, rtol=0, atol=1e-12)
assert np.array_equal(mistaken(2 * t.W_V), with_keys)

# %% [markdown] lang="zh"
# ## 一个错：权重转置了
#
# $A$ 是 6 × 6，转置以后还是 6 × 6。写成 $A^T V$，意思变成：按“谁看了我”来混合，而不是“我看了谁”。

# %% [markdown] lang="en" of="db95bc49"
# ## A mistake: the weights transposed
#
# $A$ is 6 × 6, and so is its transpose. $A^T V$ means something else: it mixes by who looked at me, and not by whom I looked at.

# %%
transposed = weights.T @ V
print(show.row(context[西安]), "  A V")
print(show.row(transposed[西安]), "  Aᵀ V")
print(show.row(weights.T.sum(axis=1)), "  row sums of Aᵀ")
assert not np.allclose(weights.T.sum(axis=1), 1, atol=0.05)
outside = (transposed < V.min(axis=0)) | (transposed > V.max(axis=0))
assert not outside.any()
print(f"{np.count_nonzero(outside)} of 24 numbers outside the range of the values")
ones = np.ones((6, 1))  # every value is 1
print(show.row((weights.T @ ones)[:, 0]), "  Aᵀ times values that are all 1")
assert np.allclose(weights @ ones, 1, rtol=0, atol=1e-12)
assert (weights.T @ ones).max() > 1.5 and weights.T.sum(axis=1).argmax() == 问号

# %% [markdown] lang="zh"
# $A^T$ 的行和不是 1：很多词看「？」，它那一行是 {{ weights.T.sum(axis=1)[问号]:.3f }}。于是结果不再是平均。值全是 1 的时候看得最清楚：平均只能是 1，「？」却得到 {{ weights.T.sum(axis=1)[问号]:.3f }}。我们的 $V$ 碰巧没有一个数跑出范围，所以要看行和，不能只看范围。

# %% [markdown] lang="en" of="b979a9f0"
# The rows of $A^T$ do not sum to 1: many tokens look at ？, and its row has {{ weights.T.sum(axis=1)[问号]:.3f }}. So the result is no longer a mean. It shows best when all values are 1: a mean can only be 1, and ？ gets {{ weights.T.sum(axis=1)[问号]:.3f }}. With our $V$ no number happens to leave the range, so look at the row sums and not at the range alone.

# %% [markdown] lang="zh"
# ## 注意力不认次序
#
# 先猜：把六个词的次序打乱，「西安」的上下文向量会变吗？

# %% [markdown] lang="en" of="b253d142"
# ## Attention sees no order
#
# Guess first: shuffle the six tokens. Does the context vector of 西安 change?

# %%
order = [怎么样, 今天, 问号, 西安, 天气, 的]
shuffled = attention(Q[order], K[order], V[order]).context  # rows in the new order
for token, row in zip(order, shuffled):
    print(show.row(row), f"  {toy.TOKENS[token]}")
assert np.allclose(shuffled, context[order], rtol=0, atol=1e-12)

X_shuffled = t.X[order]  # the tokens themselves in the new order
from_x = attention(
    project(X_shuffled, t.W_Q), project(X_shuffled, t.W_K), project(X_shuffled, t.W_V)
).context
assert np.allclose(from_x, context[order], rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 不变。每一行的数和原来一样，只是行跟着词换了地方。一句话打乱了说，每个词得到的还是同样的上下文：公式里没有一处用到“第几个”。
#
# 次序要另外给。一种是位置编码，06 里的 RoPE 就是。因果遮罩也带来次序，它规定了谁在谁前面：

# %% [markdown] lang="en" of="261dd075"
# It does not. Every row has the same numbers as before; the rows have moved with their tokens. Say the sentence in any order, and each token gets the same context: nowhere does the formula use a position.
#
# Order has to come from elsewhere. One way is to encode positions, as RoPE does in notebook 06. The causal mask brings order too, for it says who comes before whom:

# %%
causal_shuffled = attention(Q[order], K[order], V[order], causal_mask(6)).context
assert not np.allclose(causal_shuffled, causal.context[order], atol=0.05)
print(show.row(causal.context[西安]), "  西安, second of six")
print(show.row(causal_shuffled[order.index(西安)]), "  西安, fourth of six")

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 权重全是六分之一时，上下文向量是什么？
#
# <details><summary>答案</summary>
#
# 六行值的平均，每个词都一样。第 1 维是 {{ V[:, 0].mean():.3f }}。
#
# </details>
#
# **2.** 「怎么样」的上下文向量第 1 维是 ${{ context[怎么样, 0]:.3f }}$。谁把它拉成负的？
#
# <details><summary>答案</summary>
#
# 「{{ toy.TOKENS[int((weights[怎么样] * V[:, 0]).argmin())] }}」，一份就有 ${{ (weights[怎么样] * V[:, 0]).min():.3f }}$：权重 {{ weights[怎么样, 西安]:.3f }}，值 ${{ V[西安, 0]:.3f }}$。
#
# </details>
#
# **3.** 所有的值都加上同一个向量 $b$，上下文向量怎么变？
#
# <details><summary>答案</summary>
#
# 也都加上 $b$。每行权重的和是 1，$\sum_j A_{ij}(v_j + b) = \sum_j A_{ij} v_j + b$。比如 $b$ 的每个数都是 1，「西安」的第 1 维就从 {{ context[西安, 0]:.3f }} 变成 {{ weigh(weights, V + 1)[西安, 0]:.3f }}。行和不是 1 的时候就不是这样，这是查 softmax 方向的又一个办法。
#
# </details>
#
# 下一本：[04 多头和输出投影](04_heads_and_output_projection.ipynb)

# %% [markdown] lang="en" of="cd747e18"
# ## Three questions
#
# **1.** If every weight is one sixth, what is the context vector?
#
# <details><summary>Answer</summary>
#
# The mean of the six rows of values, the same for every token. Dimension 1 is {{ V[:, 0].mean():.3f }}.
#
# </details>
#
# **2.** The context of 怎么样 has ${{ context[怎么样, 0]:.3f }}$ in dimension 1. Who pulls it below zero?
#
# <details><summary>Answer</summary>
#
# {{ toy.TOKENS[int((weights[怎么样] * V[:, 0]).argmin())] }}, with ${{ (weights[怎么样] * V[:, 0]).min():.3f }}$ alone: weight {{ weights[怎么样, 西安]:.3f }}, value ${{ V[西安, 0]:.3f }}$.
#
# </details>
#
# **3.** Add one vector $b$ to all values. What happens to the context vectors?
#
# <details><summary>Answer</summary>
#
# $b$ is added to each of them. The weights of a row sum to 1, so $\sum_j A_{ij}(v_j + b) = \sum_j A_{ij} v_j + b$. If every number of $b$ is 1, dimension 1 of 西安 goes from {{ context[西安, 0]:.3f }} to {{ weigh(weights, V + 1)[西安, 0]:.3f }}. With rows that do not sum to 1 this fails: one more way to catch a softmax along the wrong axis.
#
# </details>
#
# Next: [04 Heads and output projection](04_heads_and_output_projection.ipynb)

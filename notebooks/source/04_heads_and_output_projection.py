# %% [markdown] lang="zh"
# # 04 · 多头和输出投影
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → **输出投影** |
# | 需要什么 | [03 加权取值](03_weighted_values.ipynb)：一个头的上下文向量怎么来 |
# | 走完以后 | 会拆头、并头；能说清 $W_O$ 做什么、为什么不能省、每个头在里面占哪几行；拿到任何一份权重，知道该从哪边乘 |
# | 多长时间 | 约 50 分钟 |

# %% [markdown] lang="en" of="a2125611"
# # 04 · Heads and output projection
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → weigh → **project out** |
# | What you need | [03 Weighted values](03_weighted_values.ipynb): how the context of one head comes about |
# | What you will be able to do | split and merge heads; say what $W_O$ does, why it cannot be left out, and which of its rows belong to which head; tell from which side to multiply any weight you are given |
# | Time | about 50 minutes |

# %%
import numpy as np

from byhand import data, figures, show, toy, worked
from byhand import attention, causal_mask, merge_heads, multi_head_attention, project
from byhand import reproduces, score, softmax, softmax_jacobian, split_heads, weigh

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
t = toy.load()
X, W_Q, W_K, W_V, W_O = t.X, t.W_Q, t.W_K, t.W_V, t.W_O  # [6, 4], then [4, 4] each
Q, K, V = project(X, W_Q), project(X, W_K), project(X, W_V)  # [6, 4] each

# %% [markdown] lang="zh"
# ## 拆成两个头
#
# 一套 $Q$、$K$、$V$ 只有一种看法：「西安」最看重谁，只能有一个答案。想同时有两种看法，就把 $Q$、$K$、$V$ 的列分成两半，各算各的：头 1 用第 1、2 列，头 2 用第 3、4 列。不添一个数。
#
# 先猜：一个头的时候，「西安」最看重「怎么样」。拆开以后，两个头还都最看重「怎么样」吗？

# %% [markdown] lang="en" of="7d1e929e"
# ## Splitting into two heads
#
# One set of $Q$, $K$, $V$ has one view: there is one answer to whom 西安 looks at most. To have two views at once, take the columns of $Q$, $K$, $V$ in two halves and let each do its own attention: head 1 has columns 1 and 2, head 2 has columns 3 and 4. Not one number is added.
#
# Guess first: with one head, 西安 looks most at 怎么样. After the split, do both heads still look most at 怎么样?

# %%
heads_loop = np.zeros((2, 6, 2))
for h in range(2):  # every head
    for i in range(6):  # every token
        for m in range(2):  # every dimension of this head
            heads_loop[h, i, m] = Q[i, 2 * h + m]

Q_heads = Q.reshape(6, 2, 2).swapaxes(0, 1)  # [6, 4] -> [6, 2, 2] -> [2, 6, 2]; heads come first
assert np.array_equal(heads_loop, Q_heads)
assert np.array_equal(split_heads(Q, n_heads=2), Q_heads)
print(show.row(Q[西安]), "  Q[西安]")
print(show.row(Q_heads[0, 西安]), "  head 1")
print(show.row(Q_heads[1, 西安]), "  head 2")

# %%
K_heads, V_heads = split_heads(K, 2), split_heads(V, 2)  # [2, 6, 2] each
stages = attention(Q_heads, K_heads, V_heads)  # d_head is 2 now: the scores are divided by √2
for h in range(2):
    alone = softmax(score(Q[:, 2 * h : 2 * h + 2], K[:, 2 * h : 2 * h + 2]) / np.sqrt(2))
    assert np.allclose(stages.weights[h], alone, rtol=0, atol=1e-12)
    print(show.row(stages.weights[h, 西安]), f"  西安, head {h + 1}")

# %% [markdown] lang="zh"
# 不是。头 1 里「西安」最看重「？」，{{ stages.weights[0, 西安, 问号]:.3f }}；头 2 里最看重「怎么样」，{{ stages.weights[1, 西安, 怎么样]:.3f }}。
#
# 注意除数：每个头的查询只有 2 个数，$d_{head}=2$，除以 $\sqrt{2}$，不再是 $\sqrt{4}$。
#
# 两张表并排看（文章的图 7-9）：

# %% [markdown] lang="en" of="b14959fa"
# No. In head 1, 西安 looks most at ？, with {{ stages.weights[0, 西安, 问号]:.3f }}. In head 2 it looks most at 怎么样, with {{ stages.weights[1, 西安, 怎么样]:.3f }}.
#
# Mind the divisor: a query of one head has 2 numbers, $d_{head}=2$, and the scores are divided by $\sqrt{2}$, no longer by $\sqrt{4}$.
#
# The two tables side by side (figure 7-9 of the article):

# %%
figures.heads_side_by_side(stages.weights, lang)

# %%
for h, query, key, name in (
    (0, 西安, 问号, "head1.xian_q"),
    (1, 西安, 怎么样, "head2.xian_zenmeyang"),
    (0, 怎么样, 西安, "head1.zenmeyang_xian"),
    (1, 怎么样, 怎么样, "head2.zenmeyang_self"),
):
    weight = stages.weights[h, query, key]
    assert stages.weights[h, query].argmax() == key  # it is the maximum of its row
    assert reproduces(name, weight)
    print(f"head {h + 1}   {weight:.3f}   {toy.TOKENS[query]} → {toy.TOKENS[key]}")

# %% [markdown] lang="zh"
# ### 怎么读，读不出什么
#
# 逐行看橙框，就是文章教的读法：同一个「西安」，两个头的框落在不同的列。它告诉我们两个头**不同**。别的它不太能告诉：
#
# * 第一名可能只多一点点。头 1 的「西安」那一行，第一名 {{ stages.weights[0, 西安, 问号]:.3f }}，第二名「{{ toy.TOKENS[int(np.argsort(stages.weights[0, 西安])[-2])] }}」{{ np.sort(stages.weights[0, 西安])[-2]:.3f }}，只差 {{ np.sort(stages.weights[0, 西安])[-1] - np.sort(stages.weights[0, 西安])[-2]:.3f }}。
# * 权重大不等于贡献大，[03](03_weighted_values.ipynb) 里见过。
# * 这些数是反解出来的，不是训练出来的，谈不上谁“管地名”、谁“管语法”。训练好的头有没有分工，要在真实模型里量，到 05 再说。

# %% [markdown] lang="en" of="de7e775e"
# ### How to read this, and what it does not say
#
# Go down the orange boxes, row by row; that is how the article reads them. For the same 西安, the boxes of the two heads lie in different columns. This tells us that the heads **differ**. It tells us little else:
#
# * The first may lead by very little. In the row of 西安 in head 1 the first has {{ stages.weights[0, 西安, 问号]:.3f }} and the second, {{ toy.TOKENS[int(np.argsort(stages.weights[0, 西安])[-2])] }}, has {{ np.sort(stages.weights[0, 西安])[-2]:.3f }}: {{ np.sort(stages.weights[0, 西安])[-1] - np.sort(stages.weights[0, 西安])[-2]:.3f }} apart.
# * A large weight is not a large contribution, as seen in [03](03_weighted_values.ipynb).
# * These numbers were solved for, not learned. No head here is in charge of places or of grammar. Whether trained heads divide the work has to be measured in a real model, in notebook 05.

# %% [markdown] lang="zh"
# ### 切开的是什么
#
# 常听人说“把词向量切成几段，一个头一段”。切开的其实是投影以后的 $Q$、$K$、$V$。头 1 的查询是 $X$ 乘 $W_Q$ 的前两**列**，$X$ 的四个数它全都读：

# %% [markdown] lang="en" of="844b87c5"
# ### What is cut
#
# One often hears that the vector of a token is cut into pieces, one for each head. What is cut is $Q$, $K$ and $V$, after the projection. The queries of head 1 are $X$ times the first two **columns** of $W_Q$, and they read all four numbers of $X$:

# %%
assert np.allclose(X @ W_Q[:, :2], Q[:, :2], rtol=0, atol=1e-12)  # [6, 4] @ [4, 2] -> [6, 2]

nudged = X.copy()
nudged[西安, 3] += 1  # only the last number of 西安
print(show.row(Q[西安, :2]), "  query of 西安 in head 1")
print(show.row((nudged @ W_Q)[西安, :2]), "  after its last number in X went up by 1")
assert not np.allclose((nudged @ W_Q)[西安, :2], Q[西安, :2], atol=0.1)

sliced = X[:, :2] @ W_Q[:2, :2]  # a slice of x for each head: the mistake
print(show.row(sliced[西安]), "  from the first two numbers of X alone")
assert not np.allclose(sliced, Q[:, :2], atol=0.1)

# %% [markdown] lang="zh"
# ## 并回来
#
# 两个头各有一份上下文向量 [6, 2]。把它们左右并排，头 1 在左，头 2 在右，又是 [6, 4]。
#
# 程序里要走两步：先把头从最前面换到词的后面，再把最后两个轴压成一个。少了第一步会怎样？给每个数编个号，百位是头，十位是词，个位是维：

# %% [markdown] lang="en" of="8673cd1f"
# ## Merging
#
# Each head has its context, [6, 2]. Lay them side by side, head 1 on the left and head 2 on the right, and it is [6, 4] again.
#
# In code this takes two steps: move the heads from the front to behind the tokens, then fold the last two axes into one. What if the first step is left out? Give each number a label: hundreds are the head, tens the token, units the dimension:

# %%
labels = np.array([[[100 * h + 10 * i + m for m in (1, 2)] for i in range(1, 7)] for h in (1, 2)])
right = labels.swapaxes(0, 1).reshape(6, 4)  # [2, 6, 2] -> [6, 2, 2] -> [6, 4]
wrong = labels.reshape(6, 4)  # [2, 6, 2] -> [6, 4]; the mistake
for a, b in zip(right, wrong):
    print(" ".join(map(str, a)), "    ", " ".join(map(str, b)))

# %% [markdown] lang="zh"
# 左边是对的：第一行全是第 1 个词，头 1 两个数，头 2 两个数。右边少了换轴：第一行成了头 1 的第 1 个词和第 2 个词，前三行全是头 1。形状一样是 [6, 4]，没有报错。

# %% [markdown] lang="en" of="af32c726"
# On the left it is right: the first row is all token 1, two numbers of head 1 and two of head 2. On the right the axes were not swapped: the first row holds tokens 1 and 2 of head 1, and the first three rows are all head 1. The shape is [6, 4] in both, and nothing complains.

# %%
merged_loop = np.zeros((6, 4))
for i in range(6):
    for h in range(2):
        for m in range(2):
            merged_loop[i, 2 * h + m] = stages.context[h, i, m]

merged = stages.context.swapaxes(0, 1).reshape(6, 4)  # [2, 6, 2] -> [6, 2, 2] -> [6, 4]
assert np.array_equal(merged_loop, merged)
assert np.array_equal(merge_heads(stages.context), merged)

garbled = stages.context.reshape(6, 4)
assert garbled.shape == merged.shape and not np.allclose(garbled, merged, atol=0.1)
print(show.row(merged[西安]), "  西安")
print(show.row(garbled[西安]), "  西安, axes not swapped")

# %% [markdown] lang="zh"
# 有一种说法：拼接只是换个摆法，不花力气。换轴确实只是换个看法，数还在原来的内存里；可是接着 reshape，数就要抄一遍：

# %% [markdown] lang="en" of="fe5398e4"
# It is said that merging only rearranges and costs nothing. Swapping the axes is only another view of the same memory. But the reshape that follows copies every number:

# %%
swapped = stages.context.swapaxes(0, 1)
print("swapaxes shares memory:", np.shares_memory(swapped, stages.context))
print("reshape shares memory: ", np.shares_memory(swapped.reshape(6, 4), stages.context))
assert np.shares_memory(swapped, stages.context)
assert not np.shares_memory(swapped.reshape(6, 4), stages.context)

# %% [markdown] lang="zh"
# ## W_O：让头混起来
#
# 并排只是摆在一起，两个头还各占各的格子。混起来靠 $W_O$。
#
# 先看一个整数的例子。头 1 给出 [10, 1]，头 2 给出 [2, 8]，并成 [10, 1, 2, 8]，乘上这个 $W_O$：

# %% [markdown] lang="en" of="4efa8df0"
# ## W_O: where the heads meet
#
# Side by side, each head still has its own slots. They are mixed by $W_O$.
#
# First an example in whole numbers. Head 1 gives [10, 1], head 2 gives [2, 8]; merged they are [10, 1, 2, 8], and they are multiplied by this $W_O$:

# %%
print(show.rows(W_O, 1, labels=("head 1", "head 1", "head 2", "head 2")))

# %%
a = toy.mixing_example()  # [4]
print(show.row(a, 0), "  merged")
assert reproduces("mixing.concat", a)
worked.projection([a], W_O, 0, 0, "y", tokens=["a"], decimals=1)

# %% [markdown] lang="zh"
# 先猜第 2 个：$W_O$ 的第 2 列是 0、1、0 和一个小负数。它从哪两个数来？

# %% [markdown] lang="en" of="e3344267"
# Guess the second first: column 2 of $W_O$ is 0, 1, 0 and a small negative number. Which two of the four does it come from?

# %%
worked.projection([a], W_O, 0, 1, "y", tokens=["a"], decimals=1)

# %%
worked.projection([a], W_O, 0, 2, "y", tokens=["a"], decimals=1)

# %%
worked.projection([a], W_O, 0, 3, "y", tokens=["a"], decimals=1)

# %%
y_loop = np.zeros(4)
for c in range(4):  # every output
    for r in range(4):  # every number that comes in
        y_loop[c] += a[r] * W_O[r, c]
y = a @ W_O  # [4] @ [4, 4] -> [4]
assert np.allclose(y_loop, y, rtol=0, atol=1e-12)
assert np.allclose(project([a], W_O)[0], y, rtol=0, atol=1e-12)
print(show.row(y, 1))
assert reproduces("mixing.out", y)

# %% [markdown] lang="zh"
# 进去四个数，出来四个数，个数没变。变的是每个输出里有谁：第 1 个输出是两个头各取一半，第 3 个输出几乎全来自头 2。
#
# 同一个 $W_O$，用在小例子自己的六个词上：

# %% [markdown] lang="en" of="9758e7db"
# Four numbers go in and four come out. What has changed is who is in each: output 1 takes half of each head, output 3 comes almost entirely from head 2.
#
# The same $W_O$ on the six tokens of the toy:

# %%
output = merged @ W_O  # [6, 4] @ [4, 4] -> [6, 4]
layer = multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads=2)
assert np.allclose(layer.output, output, rtol=0, atol=1e-12)
print(show.rows(output))

# %% [markdown] lang="zh"
# 这就是注意力层交出去的东西。整条路画在一起（文章的图 7-8）：

# %% [markdown] lang="en" of="6a08d329"
# This is what the attention layer hands over. The whole way in one figure (figure 7-8 of the article):

# %%
figures.heads_flow(layer, 西安, lang)

# %% [markdown] lang="zh"
# ### 什么样的 W_O 能混，什么样的不能
#
# 四个 $W_O$ 并排。横线上面是头 1 的行，下面是头 2 的行；每一列下面写着这个输出里有哪些头。

# %% [markdown] lang="en" of="2196cc13"
# ### Which W_O can mix, and which cannot
#
# Four choices of $W_O$. Above the line are the rows of head 1, below it those of head 2. Under each column stand the heads that this output holds.

# %%
identity = np.eye(4)
block_diagonal = np.array([[0.5, 1, 0, 0], [1, -0.5, 0, 0], [0, 0, 0.5, 1], [0, 0, 1, -0.5]])
heads_swapped = identity[[2, 3, 0, 1]]
choices = {
    "identity": identity,
    "block-diagonal": block_diagonal,
    "heads swapped": heads_swapped,
    "the article's": W_O,
}
figures.mixing(choices, 2, lang)

# %%
without_head_2 = merged.copy()
without_head_2[:, 2:] = 0  # silence head 2 and see which outputs notice
print("1 where head 2 reaches the output")
for name, w_o in choices.items():
    moved = np.abs(merged @ w_o - without_head_2 @ w_o).max(axis=0) > 1e-9  # [4]
    moved_1 = np.abs(without_head_2 @ w_o).max(axis=0) > 1e-9  # head 1 alone
    print(moved.astype(int), "mixes" if np.any(moved & moved_1) else "does not mix", f"  {name}")
    assert np.any(moved & moved_1) == (name == "the article's")

# %% [markdown] lang="zh"
# 单位矩阵什么也没做，等于没有 $W_O$。分块对角在每个头的内部重新组合，头与头之间仍不来往。对调换了位置，还是一个输出一个头。只有文章给的这个，一个输出里同时有两个头。**能不能混，看的是横线两边同一列里有没有都不是 0 的数。**

# %% [markdown] lang="en" of="776eb708"
# The identity does nothing: it is the same as no $W_O$. The block-diagonal one recombines within each head, and the heads still do not meet. The swap changes places, and there is still one head to an output. Only the article's has both heads in one output. **To mix, a column must have something other than 0 on both sides of the line.**

# %% [markdown] lang="zh"
# ## 每个头有自己的一块 W_O
#
# $W_O$ 的前两行只碰头 1，后两行只碰头 2。那么乘法可以拆开：
#
# $$\text{concat}(z_1, z_2)\,W_O = z_1\,W_O^{(1)} + z_2\,W_O^{(2)}$$

# %% [markdown] lang="en" of="ea0492bc"
# ## Each head has its own block of W_O
#
# The first two rows of $W_O$ touch head 1 only, and the last two touch head 2 only. So the product comes apart:
#
# $$\text{concat}(z_1, z_2)\,W_O = z_1\,W_O^{(1)} + z_2\,W_O^{(2)}$$

# %%
z_1, z_2 = stages.context  # [6, 2] each
from_head_1 = z_1 @ W_O[:2]  # [6, 2] @ [2, 4] -> [6, 4]
from_head_2 = z_2 @ W_O[2:]  # [6, 2] @ [2, 4] -> [6, 4]
print(show.row(from_head_1[西安]), "  written by head 1")
print(show.row(from_head_2[西安]), "  written by head 2")
print(show.row(output[西安]), "  their sum")
assert np.allclose(from_head_1 + from_head_2, output, rtol=0, atol=1e-12)

blocks = W_O.reshape(2, 2, 4)  # [n_heads, d_head, d_model]
as_blocks = np.einsum("hsd,hdm->sm", stages.context, blocks)  # sum over heads
assert np.allclose(as_blocks, output, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 有一篇面试文章把“每个头有自己的输出投影”列为错误答案。它其实是对的。每个头有一块 $d_{head} × d_{model}$，把这些块上下摞起来，就是一个 $W_O$；一个矩阵和一摞块，是同一样东西的两种写法。那篇文章里真正错的，是给这一块写的尺寸 $d_{model} × d_{model}$。
#
# 同一篇文章又说不能用“相加”代替拼接。拼接再乘 $W_O$，本来就是相加，只是加之前每个头先过自己的那一块。丢信息的是**没有**投影就相加：

# %% [markdown] lang="en" of="e636c3ff"
# An interview article lists "each head has its own output projection" among the wrong answers. It is right. Each head has a block of $d_{head} × d_{model}$. Stack the blocks, and you have $W_O$: one matrix and a stack of blocks are two ways to write one thing. What is wrong in that article's example is the size it gives the block, $d_{model} × d_{model}$.
#
# The same article says that a sum cannot replace concatenation. Concatenation followed by $W_O$ is a sum, in which each head first goes through its own block. Information is lost only in a sum **without** projection:

# %%
one_way = np.array([[10.0, 1, 2, 8]])  # head 1 says [10, 1], head 2 says [2, 8]
other_way = np.array([[2.0, 8, 10, 1]])  # the other way round
bare_sum = [m[:, :2] + m[:, 2:] for m in (one_way, other_way)]  # [1, 2] each
print("summed without projection:", bare_sum[0][0], bare_sum[1][0])
print("through W_O:", show.row((one_way @ W_O)[0], 1), "   ", show.row((other_way @ W_O)[0], 1))
assert np.array_equal(*bare_sum)
assert not np.allclose(one_way @ W_O, other_way @ W_O, atol=0.1)

# %% [markdown] lang="zh"
# 直接相加，谁说的就分不清了。取平均也一样，只是再除以 2。
#
# ### 头的次序要紧吗
#
# 先猜：把两个头调个次序，再并起来乘 $W_O$，结果会变吗？

# %% [markdown] lang="en" of="6d01ab23"
# Add them as they are, and nobody can tell who said what. The mean is no better; it only divides by 2.
#
# ### Does the order of the heads matter?
#
# Guess first: swap the two heads, merge, and multiply by $W_O$. Does the result change?

# %%
swapped_heads = merge_heads(stages.context[::-1])  # head 2 on the left
swapped_blocks = np.concatenate([W_O[2:], W_O[:2]])  # and its rows of W_O on top
print(show.row(output[西安]), "  as it was")
print(show.row((swapped_heads @ swapped_blocks)[西安]), "  heads and blocks swapped")
print(show.row((swapped_heads @ W_O)[西安]), "  heads alone swapped")
assert np.allclose(swapped_heads @ swapped_blocks, output, rtol=0, atol=1e-12)
assert not np.allclose(swapped_heads @ W_O, output, atol=0.1)

# %% [markdown] lang="zh"
# 头和它的块一起换，什么也不变；只换头，就成了另一组数。次序本身没有意义，要紧的是和训练时的 $W_O$ 对得上。

# %% [markdown] lang="en" of="c3554bf8"
# Swap the heads together with their blocks, and nothing changes. Swap the heads alone, and other numbers come out. The order as such means nothing. It has to agree with the $W_O$ that was trained.

# %% [markdown] lang="zh"
# ### 方阵会瞒住错误
#
# $W_O$ 是 4 × 4，Qwen2.5-7B 的是 3584 × 3584。写成 $W_O^T$，形状照样对：

# %% [markdown] lang="en" of="c0ab1da4"
# ### A square matrix hides a mistake
#
# $W_O$ is 4 × 4, and in Qwen2.5-7B it is 3584 × 3584. With $W_O^T$ the shape is right all the same:

# %%
transposed = merged @ W_O.T
print(show.row(output[西安]), "  W_O")
print(show.row(transposed[西安]), "  W_O transposed")
assert transposed.shape == output.shape and not np.allclose(transposed, output, atol=0.1)

models = {
    name: data.model(name)
    for name in ("Qwen2.5-7B", "Gemma-2-9B", "GPT-2 (124M)", "BERT-Large", "LLaMA-3-8B")
}
for name in ("Qwen2.5-7B", "Gemma-2-9B"):
    n_in, n_out = models[name]["wo_shape_in_out"]
    print(f"{n_in} -> {n_out}   {name}")

# %% [markdown] lang="zh"
# Gemma-2-9B 的隐藏状态也是 {{ models["Gemma-2-9B"]["hidden"] }} 维，头却是 {{ models["Gemma-2-9B"]["n_heads"] }} × {{ models["Gemma-2-9B"]["head_dim_v"] }} = {{ models["Gemma-2-9B"]["wo_shape_in_out"][0] }}。它的 $W_O$ 不是方的。“$W_O$ 是 $d_{model} × d_{model}$”只是常见，不是规定：进来的是 $n_{heads}·d_{head}$，出去的才必须是 $d_{model}$。不方，转置错了就会报错。把尺寸缩小到五百一十二分之一，试一下：

# %% [markdown] lang="en" of="15568279"
# Gemma-2-9B has hidden states of {{ models["Gemma-2-9B"]["hidden"] }} dimensions too, but its heads are {{ models["Gemma-2-9B"]["n_heads"] }} × {{ models["Gemma-2-9B"]["head_dim_v"] }} = {{ models["Gemma-2-9B"]["wo_shape_in_out"][0] }}. Its $W_O$ is not square. That $W_O$ is $d_{model} × d_{model}$ is common and not a rule: what comes in is $n_{heads}·d_{head}$, and only what goes out must be $d_{model}$. When it is not square, a transpose is caught. At one five hundred and twelfth of the size:

# %%
n_in, n_out = (n // 512 for n in models["Gemma-2-9B"]["wo_shape_in_out"])  # 8 and 7
rng = np.random.default_rng(8)
merged_gemma = rng.standard_normal((6, n_in))
w_o_gemma = rng.standard_normal((n_in, n_out))
print(project(merged_gemma, w_o_gemma).shape)  # [6, 8] @ [8, 7] -> [6, 7]
try:
    project(merged_gemma, w_o_gemma.T)
except ValueError as error:
    print(error)

# %% [markdown] lang="zh"
# ## 混词，还是混特征
#
# $A V$ 让词与词交换内容。$W_O$ 呢？做个实验：动一个词，看输出里哪几行跟着动。用因果遮罩，看得更清楚。
#
# 先猜：动「天气」，乘 $W_O$ 之前有几行会动？乘了之后呢？

# %% [markdown] lang="en" of="bd15cda3"
# ## Mixing tokens, or mixing features
#
# $A V$ lets tokens exchange content. And $W_O$? An experiment: change one token and see which rows of the output move. With the causal mask it shows best.
#
# Guess first: change 天气. How many rows move before $W_O$? And after it?

# %%
mask = causal_mask(6)
base = multi_head_attention(X, W_Q, W_K, W_V, W_O, 2, mask)
print("before W_O   after W_O   changed")
for j in range(6):
    changed = X.copy()
    changed[j] += [0.1, -0.2, 0.3, -0.4]
    new = multi_head_attention(changed, W_Q, W_K, W_V, W_O, 2, mask)
    before = np.abs(new.merged - base.merged).max(axis=1) > 1e-9  # [6]
    after = np.abs(new.output - base.output).max(axis=1) > 1e-9  # [6]
    assert np.array_equal(before, after)  # W_O moves no new row
    assert np.array_equal(before, np.arange(6) >= j)  # and with the mask, only j and later
    print(
        "".join(map(str, before.astype(int))),
        "     ",
        "".join(map(str, after.astype(int))),
        f"     {toy.TOKENS[j]}",
    )

# %% [markdown] lang="zh"
# 两列完全一样。动「天气」，动的是它自己和后面的两行；$W_O$ 没有让任何一个新的词动起来。它只在每个词自己的四个数之间重新组合。
#
# 把每个输出对每个输入的导数都量出来，画成图。左边是 $X$ 到并头以后，右边是 $W_O$ 这一步。颜色越深，影响越大。

# %% [markdown] lang="en" of="c82fd4ff"
# The two columns are the same. Change 天气, and its own row and the two after it move; $W_O$ sets no new token in motion. It recombines the four numbers of each token among themselves.
#
# Now measure the derivative of every output by every input, and draw them all. On the left from $X$ to the merged heads, on the right the step of $W_O$. The darker, the stronger.


# %%
def derivatives(f, x, step=1e-6):
    """Every output of f by every input, by nudging one input at a time. [6, 4] -> [24, 24]"""
    columns = []
    for i, c in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i, c] += step
        down[i, c] -= step
        columns.append((f(up) - f(down)).ravel() / (2 * step))
    return np.array(columns).T


def to_merged(x):
    return multi_head_attention(x, W_Q, W_K, W_V, W_O, 2, mask).merged


by_attention = derivatives(to_merged, X)  # [24, 24]
by_w_o = derivatives(lambda m: m @ W_O, base.merged)  # [24, 24]
assert np.allclose(
    by_w_o, np.kron(np.eye(6), W_O.T), rtol=0, atol=1e-8
)  # one W_O a token, nothing else

figures.jacobians(by_attention, by_w_o, lang)

# %% [markdown] lang="zh"
# 左边，词影响词，遮罩把右上角清空。右边只有对角线上有六个一样的方块：一个词一个 $W_O$，词与词毫无关系。
#
# 所以打乱词的次序，先打乱再乘 $W_O$，和先乘再打乱，一样：

# %% [markdown] lang="en" of="e0bf2a36"
# On the left tokens act on tokens, and the mask clears the upper right corner. On the right there are six equal squares on the diagonal: one $W_O$ for each token, and nothing between tokens.
#
# So shuffling the tokens and then multiplying by $W_O$ is the same as multiplying first and shuffling then:

# %%
order = [怎么样, 今天, 问号, 西安, 天气, 的]
assert np.allclose(merged[order] @ W_O, (merged @ W_O)[order], rtol=0, atol=1e-12)
print(show.row((merged[order] @ W_O)[order.index(西安)]), "  西安, shuffled first")
print(show.row((merged @ W_O)[order][order.index(西安)]), "  西安, shuffled after")

# %% [markdown] lang="zh"
# ## 为什么不能省
#
# **形状。** 输出要加回 $X$，所以每行必须是 $d_{model}$ 个数。头的总宽不等于 $d_{model}$ 的模型，没有 $W_O$ 就加不上。
#
# **每个头能写到哪里。** 头 1 的上下文只有 2 个数，过了它的那一块，写出来的六行虽然各有 4 个数，却只在一个 2 维的面里：

# %% [markdown] lang="en" of="0f7eb23b"
# ## Why it cannot be left out
#
# **Shape.** The output is added back to $X$, so each row must have $d_{model}$ numbers. Where the heads together are not $d_{model}$ wide, the sum cannot even be written without $W_O$.
#
# **Where a head can write.** The context of head 1 has only 2 numbers. What it writes through its block has 4 numbers in each of the six rows, and yet all six lie in one plane of 2 dimensions:

# %%
print("rank of what head 1 writes:", np.linalg.matrix_rank(from_head_1))
print("rank of the whole output:  ", np.linalg.matrix_rank(output))
assert np.linalg.matrix_rank(from_head_1) == np.linalg.matrix_rank(from_head_2) == 2
assert np.linalg.matrix_rank(output) == 4

wide = models["Qwen2.5-7B"]
print(f"Qwen2.5-7B: {wide['head_dim_v']} of {wide['hidden']} dimensions a head")

# %% [markdown] lang="zh"
# 有 $W_O$，这个面朝哪个方向，是训练学来的，两个头的面可以交叠。没有 $W_O$（也就是单位矩阵），头 1 永远只能写前两格，头 2 永远只能写后两格。这并不是说各个头“被迫等权”：各写各的格子，谈不上谁重谁轻；只有直接相加或取平均才是等权。
#
# **接下来的路。** 输出加回 $X$，叫残差；然后做一次归一化，再交给 FFN：

# %% [markdown] lang="en" of="0e9f67cb"
# With $W_O$, training chooses which way this plane lies, and the planes of two heads may overlap. Without it, that is, with the identity, head 1 can only ever write to the first two slots and head 2 to the last two. This does not force the heads to equal weight, as is sometimes said: each writes to its own slots, and neither outweighs the other. Equal weight comes only with a bare sum or a mean.
#
# **What comes next.** The output is added back to $X$, which is called the residual; then it is normalised once and handed to the FFN:

# %%
residual = X + output  # [6, 4] + [6, 4] -> [6, 4]
rms = np.sqrt(np.mean(residual**2, axis=1, keepdims=True))  # [6, 1]; RMSNorm as in Qwen2.5
normed = residual / rms  # [6, 4]; a trained model multiplies by a learned gain here
print(show.row(X[西安]), "  X")
print(show.row(output[西安]), "  attention output")
print(show.row(residual[西安]), "  X + attention output")
print(show.row(normed[西安]), "  after RMSNorm: what the FFN receives")
assert np.allclose(np.mean(normed**2, axis=1), 1, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# FFN 从这里接手。它和 $W_O$ 一样，一个词一个词地算，词与词之间不再来往，而且它不知道哪几个数原来属于哪个头。
#
# 2017 年的原论文和 BERT 是先加、后归一化；GPT-2、LLaMA、Qwen2.5 是归一化在前，加的是没有归一化的 $X$。06 里按 Qwen2.5 的次序走。
#
# **有没有偏置。** 看模型：

# %% [markdown] lang="en" of="3c149440"
# From here the FFN takes over. Like $W_O$ it works on each token by itself, with no traffic between tokens, and it does not know which numbers once belonged to which head.
#
# The paper of 2017 and BERT add first and normalise after. GPT-2, LLaMA and Qwen2.5 normalise before, and add to the $X$ that was not normalised. Notebook 06 follows the order of Qwen2.5.
#
# **A bias or none.** It depends on the model:

# %%
for name in ("GPT-2 (124M)", "BERT-Large", "Qwen2.5-7B", "LLaMA-3-8B"):
    m = models[name]
    bias = [{True: "bias", False: "no bias"}[m[key]] for key in ("qkv_bias", "o_bias")]
    print(f"Q, K, V: {bias[0]:<8} W_O: {bias[1]:<8} {name}")
assert models["Qwen2.5-7B"]["qkv_bias"] and not models["Qwen2.5-7B"]["o_bias"]

# %% [markdown] lang="zh"
# 原论文的公式里没有偏置；PyTorch 的 `nn.MultiheadAttention` 默认有，初值是 0。Qwen2.5 的 Q、K、V 有，$W_O$ 没有。

# %% [markdown] lang="en" of="7dabb19d"
# The formula in the original paper has no bias. PyTorch's `nn.MultiheadAttention` has one by default, zero at first. In Qwen2.5, Q, K and V have one and $W_O$ has none.

# %% [markdown] lang="zh"
# ## 梯度怎么回来
#
# 训练时，误差从输出往回走。设目标是某个 $T$，损失是 $L = \frac12\sum (Y - T)^2$，那么 $dY = Y - T$。先过 $W_O$：
#
# $$\frac{\partial L}{\partial W_O} = \text{merged}^T\,dY, \qquad d\,\text{merged} = dY\,W_O^T$$
#
# 再过 $A V$ 和 softmax。$dA = dO\,V^T$；softmax 那一步，每一行乘上 [01](01_scores_and_scaling.ipynb) 里的雅可比矩阵 $\text{diag}(p) - pp^T$。

# %% [markdown] lang="en" of="26fd86a8"
# ## How the gradient comes back
#
# In training the error runs backwards from the output. Let $T$ be some target and $L = \frac12\sum (Y - T)^2$ the loss, so that $dY = Y - T$. First through $W_O$:
#
# $$\frac{\partial L}{\partial W_O} = \text{merged}^T\,dY, \qquad d\,\text{merged} = dY\,W_O^T$$
#
# Then through $A V$ and the softmax. $dA = dO\,V^T$; at the softmax each row is multiplied by the Jacobian $\text{diag}(p) - pp^T$ of [01](01_scores_and_scaling.ipynb).

# %%
T = np.roll(X, 1, axis=0)  # a target: the hidden state of the token before


def loss_of(scaled, w_o):
    """From the scaled scores of both heads [2, 6, 6] to the loss, one number."""
    y = merge_heads(weigh(softmax(scaled), V_heads)) @ w_o  # [6, 4]
    return 0.5 * np.sum((y - T) ** 2)


dY = output - T  # [6, 4]
dW_O = merged.T @ dY  # [4, 6] @ [6, 4] -> [4, 4]
d_context = split_heads(dY @ W_O.T, 2)  # [6, 4] @ [4, 4] -> [2, 6, 2]
d_weights = d_context @ V_heads.swapaxes(-1, -2)  # [2, 6, 2] @ [2, 2, 6] -> [2, 6, 6]
jacobian = softmax_jacobian(stages.weights)  # [2, 6, 6, 6]; one 6 × 6 for every row
d_scaled = np.einsum("hqij,hqi->hqj", jacobian, d_weights)  # [2, 6, 6]
print(show.rows(dW_O, labels=("head 1", "head 1", "head 2", "head 2")))

# %% [markdown] lang="zh"
# 对不对？把 $W_O$ 的 16 个数、缩放后分数的 72 个数，一个一个动一点点，看损失真的变多少：

# %% [markdown] lang="en" of="77a3c34d"
# Is it right? Nudge each of the 16 numbers of $W_O$ and each of the 72 scaled scores, one at a time, and see how far the loss really moves:


# %%
def slopes(f, x, step=1e-6):
    """The slope of a loss by every number of x, by nudging one at a time. The shape of x."""
    measured = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        measured[place] = (f(up) - f(down)) / (2 * step)
    return measured


measured_W_O = slopes(lambda w: loss_of(stages.scaled, w), W_O)
measured_scaled = slopes(lambda s: loss_of(s, W_O), stages.scaled)
assert np.allclose(dW_O, measured_W_O, rtol=0, atol=1e-7)
assert np.allclose(d_scaled, measured_scaled, rtol=0, atol=1e-7)
print(f"W_O:    by formula {dW_O[0, 0]:.4f}   measured {measured_W_O[0, 0]:.4f}")
print(
    f"scores: by formula {d_scaled[0, 西安, 天气]:.4f}   measured {measured_scaled[0, 西安, 天气]:.4f}"
)

# %% [markdown] lang="zh"
# 两边一致。顺着梯度的反方向走一小步，损失应该下降：

# %% [markdown] lang="en" of="c8b0ab0d"
# They agree. A small step against the gradient should lower the loss:

# %%
before = loss_of(stages.scaled, W_O)
after = loss_of(stages.scaled, W_O - 0.05 * dW_O)
print(f"loss {before:.3f} -> {after:.3f}")
assert after < before

# %% [markdown] lang="zh"
# ## 方向对照表
#
# 同一个 $W_O$，各家的写法和存法不同。拿一个不方的来对照，4 个数进，3 个数出，免得方阵瞒住错误。六种写法，同样的结果：

# %% [markdown] lang="en" of="f5a91154"
# ## The orientation ledger
#
# The same $W_O$ is written and stored in different ways. To compare them we take one that is not square, 4 in and 3 out, so that nothing is hidden. Six ways, one result:

# %%
w = W_O[:, :3]  # [in, out] = [4, 3]
expected = merged @ w  # [6, 4] @ [4, 3] -> [6, 3]

column_form = w.T  # [3, 4]: y = W x, with tokens as columns
linear_weight = np.ascontiguousarray(w.T)  # [out, in] = [3, 4]: nn.Linear, Hugging Face Qwen2
conv1d_weight = w  # [in, out] = [4, 3]: GPT-2's Conv1D
per_head = w.reshape(2, 2, 3)  # [head, d_head, d_model]: TransformerLens
gguf_bytes = linear_weight.tobytes()  # a GGUF file holds the bytes of [out, in] …
gguf_ne = linear_weight.shape[::-1]  # … and lists the sizes fastest first: (4, 3)
from_gguf = np.frombuffer(gguf_bytes).reshape(gguf_ne[::-1])  # [3, 4] again

ledger = {
    "x @ W": (w.shape, merged @ w),
    "W @ x, tokens are columns": (column_form.shape, (column_form @ merged.T).T),
    "nn.Linear: x @ weight.T": (linear_weight.shape, merged @ linear_weight.T),
    "GPT-2 Conv1D: x @ weight": (conv1d_weight.shape, merged @ conv1d_weight),
    "per head: sum over heads": (
        per_head.shape,
        np.einsum("hsd,hdm->sm", stages.context, per_head),
    ),
    "GGUF: ne, reversed": (gguf_ne, merged @ from_gguf.T),
}
for name, (shape, result) in ledger.items():
    assert np.allclose(result, expected, rtol=0, atol=1e-12)
    print(f"{show.row(result[西安])}   stored {str(list(shape)):<10} {name}")

# %% [markdown] lang="zh"
# 两处最容易看错：
#
# * `nn.Linear` 存的是 [出, 进]，所以代码里写 `x @ weight.T`。
# * GGUF 的 `ne` 把最快变的那一维写在前面，读出来像是 [进, 出]。字节并没有转置，只是尺寸倒着列。
#
# 拿到一份权重，先找一个不方的矩阵对一对形状；只有方阵时，就拿一个已知的输入对一对数。

# %% [markdown] lang="en" of="2acfccea"
# Two of them are the easiest to misread:
#
# * `nn.Linear` stores [out, in], so the code says `x @ weight.T`.
# * `ne` in GGUF lists the fastest dimension first, and so it reads like [in, out]. The bytes are not transposed. Only the sizes are listed backwards.
#
# When you are given weights, find a matrix that is not square and compare shapes. If there are only square ones, take an input whose output you know and compare numbers.

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** $W_O$ 的第 3 行全部改成 0，谁的声音没有了？
#
# <details><summary>答案</summary>
#
# 头 2 的第 1 维。它是 merged 的第 3 个数，只通过这一行进入输出。头 2 还剩第 2 维，秩从 2 降到 {{ np.linalg.matrix_rank(z_2 @ (W_O[2:] * [[0], [1]])) }}。
#
# </details>
#
# **2.** 一个模型有 28 个查询头，键和值只有 4 个头。$W_O$ 的进口有多宽？
#
# <details><summary>答案</summary>
#
# 还是 28 × 128 = {{ 28 * 128 }}。每个查询头都有自己的一份上下文，$W_O$ 只和查询头的个数有关，和键值头的个数无关。
#
# </details>
#
# **3.** 去掉头 2，只留头 1，要改 $W_O$ 吗？
#
# <details><summary>答案</summary>
#
# 不必重新训练，去掉 $W_O$ 的后两行就行。「西安」的输出变成 [{{ ", ".join(f"{x:z.3f}" for x in from_head_1[西安]) }}]，和把头 2 的上下文全改成 0 得到的一样。
#
# </details>
#
# 注意力的每一步都算过了。下一本 05 在写：同一句话走过一个训练好的模型。回到 [00 地图](00_map.ipynb)。

# %% [markdown] lang="en" of="f0844e5f"
# ## Three questions
#
# **1.** Set row 3 of $W_O$ to 0. Whose voice is gone?
#
# <details><summary>Answer</summary>
#
# Dimension 1 of head 2. It is the third number of the merged vector and enters the output through this row only. Head 2 keeps its dimension 2, and its rank falls from 2 to {{ np.linalg.matrix_rank(z_2 @ (W_O[2:] * [[0], [1]])) }}.
#
# </details>
#
# **2.** A model has 28 query heads, and only 4 heads of keys and values. How wide is the input of $W_O$?
#
# <details><summary>Answer</summary>
#
# Still 28 × 128 = {{ 28 * 128 }}. Every query head has a context of its own. $W_O$ depends on the number of query heads, not on the number of key and value heads.
#
# </details>
#
# **3.** Remove head 2 and keep head 1 only. Must $W_O$ change?
#
# <details><summary>Answer</summary>
#
# It need not be trained again: drop its last two rows. The output of 西安 becomes [{{ ", ".join(f"{x:z.3f}" for x in from_head_1[西安]) }}], the same as with the context of head 2 set to 0.
#
# </details>
#
# Every step of attention has now been computed. The next notebook, 05, is being written: the same sentence through a trained model. Back to [00 The map](00_map.ipynb).

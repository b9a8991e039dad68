# %% [markdown] lang="zh"
# # 04 · 多头和输出投影
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → **输出投影** |
# | 需要什么 | [03 加权取值](03_weighted_values.ipynb)：一个头的上下文向量怎么来 |
# | 走完以后 | 会拆头、并头；能说清 $W_O$ 做什么、为什么不能省、每个头在里面占哪几行；拿到任何一个参数矩阵，知道该从哪边乘 |
# | 多长时间 | 约 50 分钟 |

# %% [markdown] lang="en" of="cb3554a4"
# # 04 · Heads and output projection
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → weigh → **project out** |
# | What you need | [03 Weighted values](03_weighted_values.ipynb): how the context of one head comes about |
# | What you will be able to do | split and merge heads; say what $W_O$ does, why it cannot be left out, and which of its rows belong to which head; tell from which side to multiply any parameter matrix you are given |
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
# 一套 $Q$、$K$、$V$ 只有一种看法：「西安」最看重谁，只能有一个答案。想同时有两种看法，就把 $Q$、$K$、$V$ 的列分成两半，各算各的：头 1 用第 1、2 列，头 2 用第 3、4 列。参数一个也没有多；分数表从一张变成两张。
#
# 先猜：一个头的时候，「西安」最看重「怎么样」。拆开以后，两个头还都最看重「怎么样」吗？

# %% [markdown] lang="en" of="77db5124"
# ## Splitting into two heads
#
# One set of $Q$, $K$, $V$ has one view: it gives a single answer to the question which token 西安 looks at most. To have two views at once, take the columns of $Q$, $K$, $V$ in two halves and let each do its own attention: head 1 has columns 1 and 2, head 2 has columns 3 and 4. There is not one parameter more; there are two tables of scores in place of one.
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

# %%
assert np.all(stages.weights[0].argmax(axis=1) != stages.weights[1].argmax(axis=1))  # all six rows
parts = stages.weights[0, 西安][:, None] * V_heads[0]  # [6, 1] * [6, 2] -> [6, 2]
lengths = np.sqrt((parts**2).sum(axis=1))  # [6]; how long each contribution is
print(show.row(lengths), "  head 1, the length of what each token brings to 西安")
assert stages.weights[0, 西安].argmax() == 问号 and lengths.argmax() == 天气

# %% [markdown] lang="zh"
# ### 怎么读，读不出什么
#
# 逐行看橙框，就是文章教的读法：同一个「西安」，两个头的框落在不同的列。它告诉我们两个头**不同**。别的它不太能告诉：
#
# * 第一名可能只多一点点。头 1 的「西安」那一行，第一名 {{ stages.weights[0, 西安, 问号]:.3f }}，第二名「{{ toy.TOKENS[int(np.argsort(stages.weights[0, 西安])[-2])] }}」{{ np.sort(stages.weights[0, 西安])[-2]:.3f }}，只差 {{ np.sort(stages.weights[0, 西安])[-1] - np.sort(stages.weights[0, 西安])[-2]:.3f }}。
# * 权重大不等于贡献大。就在头 1 的这一行，「？」的权重最大，「天气」带来的向量却最长：{{ lengths[天气]:.3f }} 对 {{ lengths[问号]:.3f }}。
# * 这些数是反解出来的，不是训练出来的，谈不上谁“管地名”、谁“管语法”。训练好的头有没有分工，要在真实模型里量，到 [05](05_real_heads.ipynb) 再说。

# %% [markdown] lang="en" of="7d1b82f6"
# ### How to read this, and what it does not say
#
# Go down the orange boxes, row by row; that is how the article reads them. For the same 西安, the boxes of the two heads lie in different columns. This tells us that the heads **differ**. It tells us little else:
#
# * The first may lead by very little. In the row of 西安 in head 1 the first has {{ stages.weights[0, 西安, 问号]:.3f }} and the second, {{ toy.TOKENS[int(np.argsort(stages.weights[0, 西安])[-2])] }}, has {{ np.sort(stages.weights[0, 西安])[-2]:.3f }}: {{ np.sort(stages.weights[0, 西安])[-1] - np.sort(stages.weights[0, 西安])[-2]:.3f }} apart.
# * A larger weight does not mean a larger contribution. In this very row of head 1, ？ has the largest weight, and 天气 brings the longest vector: {{ lengths[天气]:.3f }} against {{ lengths[问号]:.3f }}.
# * These numbers were solved for, not learned. No head here is in charge of places or of grammar. Whether trained heads divide the work has to be measured in a real model, in notebook [05](05_real_heads.ipynb).

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
# 程序里要走两步（形状 [2, 6, 2] 里的三个数叫三个轴，依次是头、词、维）：先把头从最前面换到词的后面，再把最后两个轴压成一个。少了第一步会怎样？给每个数编个号，百位是头，十位是词，个位是维：

# %% [markdown] lang="en" of="06c66999"
# ## Merging
#
# Each head has its context, [6, 2]. Lay them side by side, head 1 on the left and head 2 on the right, and it is [6, 4] again.
#
# In code this takes two steps (the three numbers of the shape [2, 6, 2] are its axes: head, token, dimension): move the heads from the front to behind the tokens, then fold the last two axes into one. What if the first step is left out? Give each number a label: hundreds are the head, tens the token, units the dimension:

# %%
labels = np.zeros((2, 6, 2), dtype=int)  # [head, token, dimension]
for h in range(2):
    for i in range(6):
        for m in range(2):
            labels[h, i, m] = 100 * (h + 1) + 10 * (i + 1) + (m + 1)
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
# 有一种说法：拼接只是换个摆法，不花力气。在 NumPy 里，换轴确实只是换一种读法，数还在原来的内存里。可是接着 reshape，内存里的次序就要真的改，数得抄一遍（只有一个词时例外）：

# %% [markdown] lang="en" of="339a7873"
# It is said that merging only rearranges and costs nothing. In NumPy, swapping the axes is indeed only another way to read the same memory. But the reshape that follows needs a new order in memory, and copies every number (unless there is only one token):

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
# 先看一个进去的全是整数的例子。它和这个 $W_O$ 都来自另一篇文章，讲的是输出投影（也叫 out 投影）。这个 $W_O$ 是那篇文章印出来的，不是倒推的。头 1 给出 [10, 1]，头 2 给出 [2, 8]，并成 [10, 1, 2, 8]，乘上它：

# %% [markdown] lang="en" of="abeee910"
# ## W_O: where the heads meet
#
# Side by side, each head still has its own slots. They are mixed by $W_O$.
#
# First an example whose inputs are whole numbers. It comes, with this $W_O$, from another article, on the output projection. That article prints this $W_O$; it was not worked out backwards. Head 1 gives [10, 1], head 2 gives [2, 8]; merged they are [10, 1, 2, 8], and they are multiplied by it:

# %%
print(show.rows(W_O, 1, labels=("head 1", "head 1", "head 2", "head 2")))

# %%
a = toy.mixing_example()  # [4]
print(show.row(a, 0), "  merged")
assert reproduces("mixing.concat", a)
worked.projection([a], W_O, 0, 0, "y", tokens=["a"], decimals=1)

# %% [markdown] lang="zh"
# 第 2 个你先算：$W_O$ 的第 2 列里只有两个数不是 0。它由 [10, 1, 2, 8] 里的哪两个算出来？

# %% [markdown] lang="en" of="d5328ad5"
# Try output 2 yourself: column 2 of $W_O$ has only two numbers other than 0. Which two of [10, 1, 2, 8] does it come from?

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
# 进去四个数，出来四个数，个数没变。变的是每个输出里有谁。第 1 个输出是两个头各自第 1 个数的一半，加起来。第 3 个输出是 {{ y[2]:.1f }}，其中 {{ a[3] * W_O[3, 2]:.1f }} 来自头 2，{{ a[0] * W_O[0, 2]:.1f }} 来自头 1。
#
# 同一个 $W_O$，用在小例子自己的六个词上：

# %% [markdown] lang="en" of="4967a0f3"
# Four numbers go in and four come out. What has changed is who is in each. Output 1 is half of the first number of head 1 plus half of the first number of head 2. Output 3 is {{ y[2]:.1f }}: {{ a[3] * W_O[3, 2]:.1f }} of it comes from head 2 and {{ a[0] * W_O[0, 2]:.1f }} from head 1.
#
# The same $W_O$ on the six tokens of the toy:

# %%
output = merged @ W_O  # [6, 4] @ [4, 4] -> [6, 4]
layer = multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads=2)
assert np.allclose(layer.output, output, rtol=0, atol=1e-12)
print(show.rows(output))

# %%
worked.projection(merged, W_O, 西安, 0, "y")

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
choices = toy.output_projections()  # four W_O by name, [4, 4] each
figures.mixing(choices, 2, lang)

# %%
only_head_1, only_head_2 = merged.copy(), merged.copy()
only_head_1[:, 2:] = 0  # silence head 2
only_head_2[:, :2] = 0  # silence head 1
for name, w_o in choices.items():
    reached_by_1 = np.abs(only_head_1 @ w_o).max(axis=0) > 1e-9  # [4]
    reached_by_2 = np.abs(only_head_2 @ w_o).max(axis=0) > 1e-9  # [4]
    mixes = np.any(reached_by_1 & reached_by_2)
    print("head 1", reached_by_1.astype(int), "  head 2", reached_by_2.astype(int), f"  {name}")
    assert mixes == (name == "the printed one")

# %% [markdown] lang="zh"
# 单位矩阵什么也没做，等于没有 $W_O$。分块对角在每个头的内部重新组合，头与头之间仍不来往。对调只换了位置，还是一个输出一个头。任何排列都是这样：每一列只有一个 1。只有印出来的这个，一个输出里有两个头。**能不能混，就看有没有一列，横线上下都有不是 0 的数。**

# %% [markdown] lang="en" of="c1e2d2ac"
# The identity does nothing: it is the same as no $W_O$. The block-diagonal one recombines within each head, and the heads still do not meet. The swap changes places, and there is still one head to an output. Any permutation is like that: each column holds a single 1. Only the printed one has both heads in one output. **$W_O$ mixes heads if some column has something other than 0 both above and below the line.**

# %% [markdown] lang="zh"
# ## 每个头有自己的一块 W_O
#
# 两个头的上下文记作 $z_1$、$z_2$，各是 [6, 2]。$W_O$ 的前两行只碰 $z_1$，后两行只碰 $z_2$，分别叫 $W_O^{(1)}$、$W_O^{(2)}$。那么乘法可以拆开；头再多也一样，是 $\sum_h z_h W_O^{(h)}$：
#
# $$\text{concat}(z_1, z_2)\,W_O = z_1\,W_O^{(1)} + z_2\,W_O^{(2)}$$

# %% [markdown] lang="en" of="f698cc59"
# ## Each head has its own block of W_O
#
# Call the contexts of the two heads $z_1$ and $z_2$, [6, 2] each. The first two rows of $W_O$ touch $z_1$ only, and the last two touch $z_2$ only; call them $W_O^{(1)}$ and $W_O^{(2)}$. So the product comes apart, and with more heads it is $\sum_h z_h W_O^{(h)}$:
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
assert np.allclose(from_head_1, only_head_1 @ W_O, rtol=0, atol=1e-12)  # head 2 silenced

blocks = W_O.reshape(2, 2, 4)  # [n_heads, d_head, d_model]
as_blocks = np.zeros((6, 4))
for h in range(2):
    assert blocks[h].shape == (2, 4)  # d_head × d_model, not d_model × d_model
    as_blocks += stages.context[h] @ blocks[h]  # [6, 2] @ [2, 4] -> [6, 4]
assert np.allclose(as_blocks, output, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 有一篇面试文章把“每个头有自己的输出投影”列为错误答案。它其实是对的。每个头有一块 $d_{head} × d_{model}$，把这些块上下摞起来，就是一个 $W_O$；一个矩阵和一摞块，是同一样东西的两种写法。那篇文章里真正错的，是给这一块写的尺寸 $d_{model} × d_{model}$。
#
# 同一篇文章又说不能用“相加”代替拼接。拼接再乘 $W_O$，本来就是相加，只是加之前每个头先过自己的那一块。文章要防的是另一种相加：每个头**不**过自己的一块，直接加：

# %% [markdown] lang="en" of="09a82372"
# An interview article lists "each head has its own output projection" among the wrong answers. It is right. Each head has a block of $d_{head} × d_{model}$. Stack the blocks, and you have $W_O$: one matrix and a stack of blocks are two ways to write one thing. What is wrong in that article's example is the size it gives the block, $d_{model} × d_{model}$.
#
# The same article says that a sum cannot replace concatenation. Concatenation followed by $W_O$ is a sum, in which each head first goes through its own block. What the article warns of is another sum, in which the heads are added as they are, **without** their blocks:

# %%
one_way = np.array([[10.0, 1, 2, 8]])  # head 1 says [10, 1], head 2 says [2, 8]
other_way = np.array([[2.0, 8, 10, 1]])  # the other way round
bare_sum = [m[:, :2] + m[:, 2:] for m in (one_way, other_way)]  # [1, 2] each
print("summed without projection:", bare_sum[0][0], bare_sum[1][0])
print("through W_O:", show.row((one_way @ W_O)[0], 1), "   ", show.row((other_way @ W_O)[0], 1))
assert np.array_equal(*bare_sum)
equal_blocks = np.concatenate([np.eye(2), np.eye(2)])  # [4, 2]
assert np.array_equal(one_way @ equal_blocks, bare_sum[0])  # the bare sum, as a W_O
bare_mean = [m / 2 for m in bare_sum]
assert np.array_equal(*bare_mean)
assert not np.allclose(one_way @ W_O, other_way @ W_O, atol=0.1)

# %% [markdown] lang="zh"
# 直接相加，谁说的就分不清了。取平均也一样，只是再除以 2。这其实也是一个 $W_O$：上下两块都是单位矩阵。两块相同，谁说的就分不开；两块不同，才可能分开。而且出来只有 2 个数，加不回 4 维的 $X$。
#
# 有了 $W_O$，也不保证什么都不丢：进的比出的宽，就一定要丢。
#
# ### 头的次序要紧吗
#
# 先猜：把两个头调个次序，再并起来乘 $W_O$，结果会变吗？

# %% [markdown] lang="en" of="0c1481ca"
# Added as they are, nobody can tell who said what. The mean is no better; it only divides by 2. This too is a $W_O$: both of its blocks are the identity. With equal blocks the heads cannot be told apart; only with different blocks can they be. And what comes out has 2 numbers, which cannot be added to an $X$ of 4.
#
# A $W_O$ is no guarantee that nothing is lost either: where more goes in than comes out, something must be.
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
assert np.allclose((swapped_heads @ W_O)[:, 0], output[:, 0], rtol=0, atol=1e-12)  # equal shares

columns = [2, 3, 0, 1]  # head 2 first, in every matrix
renamed = multi_head_attention(
    X, W_Q[:, columns], W_K[:, columns], W_V[:, columns], W_O[columns], 2
)
assert np.allclose(renamed.output, output, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 头和它的块一起换，什么也不变。只换头，就成了另一组数。第 1 个数没变，是碰巧：$W_O$ 第 1 列给两个头的第 1 个数乘的都是 {{ W_O[0, 0]:.1f }}，谁先谁后一样。次序本身没有意义，要紧的是和训练时的 $W_O$ 对得上。

# %% [markdown] lang="en" of="0f71da46"
# Swap the heads together with their blocks, and nothing changes. Swap the heads alone, and other numbers come out. The first number stays by chance: column 1 of $W_O$ multiplies the first number of both heads by {{ W_O[0, 0]:.1f }}, so their order does not show. The order as such means nothing. It has to agree with the $W_O$ that was trained.

# %% [markdown] lang="zh"
# ### 动一动：两个头和 W_O
#
# 选一个 $W_O$，再选一个词；最后一站是上面的 [10, 1, 2, 8]。行、列两个滑块在 $W_O$ 里框住一个数，第三个滑块决定给它加多少。两个勾选框开关两个头，关着的头写 0。跟着变的是每个头写的数、它们的和，还有这个 $W_O$ 有没有把头混起来。并头后的四个数竖着写：每个数站在它要乘的那一行前面。橙框有三个：$W_O$ 里选中的数、它要乘的数、它写到的输出。最下面的算式算的是这个输出。
#
# 先猜：看「西安」，关掉头 2。用印出来的 $W_O$，四个输出里几个不变？换成分块对角呢？

# %% [markdown] lang="en" of="6a4c37d5"
# ### Move it: two heads and W_O
#
# Choose a $W_O$, then a token; the last stop is the [10, 1, 2, 8] from above. The sliders for row and column frame one number of $W_O$, and the slider below them adds to it. The two boxes switch the heads on and off; a head that is off writes zeros. What follows is what each head writes, their sum, and whether this $W_O$ mixes the heads. The four merged numbers are set upright: each stands before the row that it multiplies. Three numbers are framed in orange: the one chosen in $W_O$, the one it multiplies, and the output it goes into. The formula at the bottom gives that output.
#
# Guess first: look at 西安 and switch head 2 off. With the printed $W_O$, how many of the four outputs stay as they are? And with the block-diagonal one?

# %%
from byhand.explorers import output_projection

explorer = output_projection.explorer(lang)
explorer

# %%
kept = {}  # outputs that stay without head 2; what the explorer shows, held against only_head_1
for name, w_o in choices.items():
    explorer.set(preset=name, head_2=False)
    without_2 = only_head_1[西安] @ w_o  # [4] @ [4, 4] -> [4]
    assert "  ".join(f"{x:z.3f}" for x in without_2) in explorer.says.splitlines()[0]
    kept[name] = [c + 1 for c in range(4) if np.isclose(without_2[c], (merged[西安] @ w_o)[c])]
    print(f"outputs that stay: {kept[name]}   {name}")
_ = explorer.reset()
assert kept["identity"] == kept["block-diagonal"] == [1, 2] and kept["heads swapped"] == [3, 4]

# %% [markdown] lang="zh"
# 印出来的：{{ len(kept["the printed one"]) }} 个，它的每个输出里都有头 2。分块对角：{{ len(kept["block-diagonal"]) }} 个；头 2 只写输出 3、4，它一关，这两个就成了 0。单位矩阵和两头对调也各留 {{ len(kept["identity"]) }} 个，只是对调以后留下的是后两个。
#
# 再猜：分块对角的 {{ W_O.size }} 个数里，要改几个，才能让头 1 写到输出 3？

# %% [markdown] lang="en" of="02aaf9b8"
# With the printed one, {{ len(kept["the printed one"]) }}: head 2 is in each of its outputs. With the block-diagonal one, {{ len(kept["block-diagonal"]) }}: head 2 writes to outputs 3 and 4 only, and once it is off these two are 0. The identity and the swap keep {{ len(kept["identity"]) }} each as well, but after the swap it is the last two that stay.
#
# Guess again: of the {{ W_O.size }} numbers of the block-diagonal one, how many must change for head 1 to write to output 3?

# %%
for r in (0, 1):  # the rows of head 1
    reached = choices["block-diagonal"].copy()
    reached[r, 2] += 0.5  # column 3
    explorer.set(preset="block-diagonal", row=r + 1, column=3, added=0.5)
    assert "  ".join(f"{x:z.3f}" for x in merged[西安] @ reached) in explorer.says.splitlines()[0]
    both = reached[:2].any(axis=0) & reached[2:].any(axis=0)  # [4]; outputs with both heads
    assert list(both) == [False, False, True, False]
    print(f"row {r + 1}: both heads in output {[c + 1 for c in range(4) if both[c]]}")

explorer.reset().set(token=output_projection.EXAMPLE)  # [10, 1, 2, 8] once more
assert "  ".join(f"{x:z.1f}" for x in y) in explorer.says.splitlines()[0]
print(explorer.says.splitlines()[0])
_ = explorer.reset()

# %% [markdown] lang="zh"
# 1 个就够：第 1 行第 3 列，或者第 2 行第 3 列，改成不是 0 的数。它把头 1 带进了输出 3，那里原来只有头 2。一个输出里有了两个头，这个 $W_O$ 就把头混起来了。

# %% [markdown] lang="en" of="313f839a"
# One is enough: row 1, column 3, or row 2, column 3, made anything but 0. It brings head 1 into output 3, where head 2 used to be alone. With both heads in one output, this $W_O$ mixes heads.

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
# Gemma-2-9B 的隐藏状态也是 {{ models["Gemma-2-9B"]["hidden"] }} 维，头却是 {{ models["Gemma-2-9B"]["n_heads"] }} × {{ models["Gemma-2-9B"]["head_dim_v"] }} = {{ models["Gemma-2-9B"]["wo_shape_in_out"][0] }}。它的 $W_O$ 不是方的。“$W_O$ 是 $d_{model} × d_{model}$”只是常见，不是规定：进来的是 $n_{heads}·d_{head}$，出去的才必须是 $d_{model}$。不方，转置错了就会报错。两边的尺寸都除以 512，试一下：

# %% [markdown] lang="en" of="16983c1e"
# Gemma-2-9B has hidden states of {{ models["Gemma-2-9B"]["hidden"] }} dimensions too, but its heads are {{ models["Gemma-2-9B"]["n_heads"] }} × {{ models["Gemma-2-9B"]["head_dim_v"] }} = {{ models["Gemma-2-9B"]["wo_shape_in_out"][0] }}. Its $W_O$ is not square. That $W_O$ is $d_{model} × d_{model}$ is common and not a rule: what comes in is $n_{heads}·d_{head}$, and only what goes out must be $d_{model}$. When it is not square, a transpose is caught. Try it with both sizes divided by 512:

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
else:
    raise AssertionError("a transposed W_O should not fit")
assert np.linalg.matrix_rank(w_o_gemma) == n_out < n_in  # 8 in, 7 out: one direction is lost
gemma = models["Gemma-2-9B"]
assert gemma["n_heads"] * gemma["head_dim_v"] == gemma["wo_shape_in_out"][0]

# %% [markdown] lang="zh"
# ## 混词，还是混特征
#
# $A V$ 让一个词取到别的词的内容。$W_O$ 呢？做个实验：动一个词，看输出里哪几行跟着动。用因果遮罩，看得更清楚。
#
# 先猜：动「天气」，乘 $W_O$ 之前有几行会动？乘了之后呢？

# %% [markdown] lang="en" of="4bf89c8e"
# ## Mixing tokens, or mixing features
#
# $A V$ lets a token take content from other tokens. And $W_O$? An experiment: change one token and see which rows of the output move. With the causal mask it shows best.
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
# 换一个方向：不动一个词，动一**列**。权重固定，把 $V$ 的第 1 列改一改，看并头以后哪几列动；再把并头以后的第 1 列改一改，看乘了 $W_O$ 哪几列动。

# %% [markdown] lang="en" of="bf8ca7e0"
# The two columns are the same. Change 天气, and its own row and the two after it move; $W_O$ sets no new token in motion. It recombines the four numbers of each token among themselves.
#
# Now the other direction: change a **column**, not a token. With the weights fixed, change column 1 of $V$ and see which columns of the merged heads move. Then change column 1 of the merged heads and see which columns move after $W_O$.

# %%
V_changed = V.copy()
V_changed[:, 0] += [0.1, -0.2, 0.3, -0.4, 0.5, -0.6]
new_merged = merge_heads(weigh(base.weights, split_heads(V_changed, 2)))
by_weights = np.abs(new_merged - base.merged).max(axis=0) > 1e-9  # [4]
merged_changed = base.merged.copy()
merged_changed[:, 0] += 0.1
by_columns = np.abs(merged_changed @ W_O - base.output).max(axis=0) > 1e-9  # [4]
print(by_weights.astype(int), "A V")
print(by_columns.astype(int), "W_O")
assert list(by_weights) == [True, False, False, False]  # A V mixes tokens, not columns
assert list(by_columns) == list(W_O[0] != 0)  # W_O mixes columns, not tokens

# %% [markdown] lang="zh"
# $A V$ 混词，不混列；$W_O$ 混列，不混词。
#
# 把每个输出对每个输入的导数都量出来，画成图。左边是 $X$ 到并头以后，右边是 $W_O$ 这一步。行是输出，列是输入。颜色越深，导数的绝对值越大；左右两张各用各的色标。

# %% [markdown] lang="en" of="1b94e7f9"
# $A V$ mixes tokens and not columns. $W_O$ mixes columns and not tokens.
#
# Now measure the derivative of every output by every input, and draw them all. On the left from $X$ to the merged heads, on the right the step of $W_O$. Rows are outputs, columns are inputs. The darker, the larger the derivative in absolute value; each panel has its own scale.


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
# one W_O a token, nothing else
assert np.allclose(by_w_o, np.kron(np.eye(6), W_O.T), rtol=0, atol=1e-8)

figures.jacobians(by_attention, by_w_o, lang)

# %% [markdown] lang="zh"
# 左边，词影响词，遮罩把右上角清空。右边只有对角线上六个一样的方块：六个词用的是同一个 $W_O$，词与词毫无关系。因为行是输出，图里的方块是 $W_O^T$。
#
# 所以，先打乱词的次序再乘 $W_O$，和先乘 $W_O$ 再打乱，结果一样：

# %% [markdown] lang="en" of="76bb2366"
# On the left tokens act on tokens, and the mask clears the upper right corner. On the right there are six equal squares on the diagonal: the same $W_O$ for every token, and nothing between tokens. Because rows are outputs, each square is $W_O^T$.
#
# So it makes no difference whether the tokens are shuffled before $W_O$ or after it:

# %%
order = [怎么样, 今天, 问号, 西安, 天气, 的]
assert np.allclose(merged[order] @ W_O, (merged @ W_O)[order], rtol=0, atol=1e-12)
print(show.row((merged[order] @ W_O)[order.index(西安)]), "  西安, shuffled first")
print(show.row((merged @ W_O)[order][order.index(西安)]), "  西安, shuffled after")

# %% [markdown] lang="zh"
# ## 为什么不能省
#
# **形状。** 输出要加回 $X$，所以每行必须是 $d_{model}$ 个数。头的总宽不等于 $d_{model}$ 的模型，没有 $W_O$ 就加不上。

# %% [markdown] lang="en" of="4f2c300a"
# ## Why it cannot be left out
#
# **Shape.** The output is added back to $X$, so each row must have $d_{model}$ numbers. Where the heads together are not $d_{model}$ wide, the sum cannot even be written without $W_O$.

# %%
x_gemma = rng.standard_normal((6, n_out))  # [6, 7]
try:
    x_gemma + merged_gemma  # [6, 7] + [6, 8]
except ValueError as error:
    print(error)
else:
    raise AssertionError("widths 7 and 8 should not add")
assert (x_gemma + merged_gemma @ w_o_gemma).shape == x_gemma.shape

# %% [markdown] lang="zh"
# **每个头能写到哪里。** 头 1 的上下文只有 2 个数，过了它的那一块，写出来的六行虽然各有 4 个数，却只在一个 2 维的面里。独立的方向有几个，叫秩（rank）：

# %% [markdown] lang="en" of="bea9ef02"
# **Where a head can write.** The context of head 1 has only 2 numbers. What it writes through its block has 4 numbers in each of the six rows, and yet all six lie in one plane of 2 dimensions. The number of independent directions is called the rank:

# %%
print("rank of what head 1 writes:", np.linalg.matrix_rank(from_head_1))
print("rank of the whole output:  ", np.linalg.matrix_rank(output))
assert np.linalg.matrix_rank(from_head_1) == np.linalg.matrix_rank(from_head_2) == 2
assert np.linalg.matrix_rank(output) == 4

qwen = models["Qwen2.5-7B"]
print(f"Qwen2.5-7B: {qwen['head_dim_v']} of {qwen['hidden']} dimensions a head")
assert qwen["head_dim_v"] < qwen["hidden"]

# %% [markdown] lang="zh"
# 有 $W_O$，这个面朝哪个方向由训练决定，两个头的面可以交叠。没有 $W_O$（等于单位矩阵），头 1 永远只能写前两格，头 2 永远只能写后两格。
#
# 宽度正好对上的时候，没有 $W_O$ 也能运行，后面的 FFN 还会把各格混起来。所以“不能省”有两层意思：宽度对不上，一定不能省；对得上，省了就丢掉上面这份自由。
#
# 也有人说，没有 $W_O$，各个头就被迫“平起平坐”。不对：各写各的格子，没有谁和谁平分。直接相加或取平均，才是平分。
#
# **接下来的路。** 输出加回 $X$，这叫残差连接；一层层加下去的这个 [S, d_model]，英文叫 residual stream，残差流。然后归一化：Qwen2.5 用 RMSNorm，每一行除以自己的均方根，就是平方、取平均、开方。再交给 FFN，前馈网络：两层或三层矩阵，中间夹一个非线性函数。
#
# 小例子里 $X$ 没有先归一化就进了投影，这一步省了。

# %% [markdown] lang="en" of="1489341a"
# With $W_O$, training chooses which way this plane lies, and the planes of two heads may overlap. Without it, that is, with the identity, head 1 can only ever write to the first two slots and head 2 to the last two.
#
# Where the widths happen to match, a model without $W_O$ still runs, and the FFN after it still mixes the slots. So "cannot be left out" means two things: where the widths differ, it must be there; where they match, leaving it out gives up this freedom.
#
# It is also said that without $W_O$ the heads are forced to count the same. They are not: each writes to its own slots, and nothing is shared out. Only a bare sum or a mean shares equally.
#
# **What comes next.** The output is added back to $X$; this is the residual connection. The [S, d_model] to which layer after layer adds is the residual stream. Then comes a normalisation: Qwen2.5 uses RMSNorm, which divides each row by its root mean square (square, mean, root). Then the FFN, the feed-forward network: two or three matrices with a function that is not linear in between.
#
# In the toy, $X$ went into the projections without being normalised first; that step is left out.

# %%
residual = X + output  # [6, 4] + [6, 4] -> [6, 4]
# [6, 1]; as in Qwen2.5, without its tiny epsilon
rms = np.sqrt(np.mean(residual**2, axis=1, keepdims=True))
normed = residual / rms  # [6, 4]; a trained model multiplies by a learned gain here
print(show.row(X[西安]), "  X")
print(show.row(output[西安]), "  attention output")
print(show.row(residual[西安]), "  X + attention output")
print(show.row(normed[西安]), "  after RMSNorm: what the FFN receives")
assert np.allclose(np.mean(normed**2, axis=1), 1, rtol=0, atol=1e-12)

# %%
W_1, W_2 = rng.standard_normal((4, 16)), rng.standard_normal((16, 4))  # random, not trained


def feed_forward(x):
    return np.maximum(x @ W_1, 0) @ W_2  # [6, 4] -> [6, 16] -> [6, 4]


changed = normed.copy()
changed[天气] += [0.1, -0.2, 0.3, -0.4]
moved_rows = np.abs(feed_forward(changed) - feed_forward(normed)).max(axis=1) > 1e-9  # [6]
print(moved_rows.astype(int), "rows that move after the FFN when 天气 changes")
assert list(np.flatnonzero(moved_rows)) == [天气]

# %% [markdown] lang="zh"
# FFN 从这里接手。它和 $W_O$ 一样，一个词一个词地算，词与词之间不来往。交到它手里的只是每个词 $d_{model}$ 个数，上面没有标哪个头。
#
# 2017 年的原论文和 BERT 是先加、后归一化；GPT-2、LLaMA、Qwen2.5 是归一化在前，加的是没有归一化的 $X$。[06](06_real_shapes.ipynb) 里按 Qwen2.5 的次序走。
#
# **有没有偏置。** 看模型：

# %% [markdown] lang="en" of="fb9fba7e"
# From here the FFN takes over. Like $W_O$ it works on each token by itself, with no traffic between tokens. What it is handed is $d_{model}$ numbers for each token, with no label saying which head.
#
# The paper of 2017 and BERT add first and normalise after. GPT-2, LLaMA and Qwen2.5 normalise before, and add to the $X$ that was not normalised. Notebook [06](06_real_shapes.ipynb) follows the order of Qwen2.5.
#
# **A bias or none.** It depends on the model:

# %%
for name in ("GPT-2 (124M)", "BERT-Large", "Qwen2.5-7B", "LLaMA-3-8B"):
    m = models[name]
    bias = [{True: "bias", False: "no bias"}[m[key]] for key in ("qkv_bias", "o_bias")]
    print(f"Q, K, V: {bias[0]:<8} W_O: {bias[1]:<8} {name}")
    assert (m["qkv_bias"], m["o_bias"]) == {
        "GPT-2 (124M)": (True, True),
        "BERT-Large": (True, True),
        "Qwen2.5-7B": (True, False),
        "LLaMA-3-8B": (False, False),
    }[name]

b = np.array([0.1, -0.2, 0.3, 0.4])  # a bias on V
with_bias = merge_heads(weigh(stages.weights, split_heads(V + b, 2))) @ W_O
assert np.allclose(with_bias, output + b @ W_O, rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 原论文的公式里没有偏置；PyTorch 的 `nn.MultiheadAttention` 默认有，初值是 0。Qwen2.5 的 Q、K、V 有，$W_O$ 没有。
#
# $V$ 的偏置会原样走到输出：每行权重的和是 1，六行都加上同一个 $b\,W_O$。它不分词，也不看权重。

# %% [markdown] lang="en" of="a5997e60"
# The formula in the original paper has no bias. PyTorch's `nn.MultiheadAttention` has one by default, zero at first. In Qwen2.5, Q, K and V have one and $W_O$ has none.
#
# A bias on $V$ goes straight through to the output: each row of weights sums to 1, so all six rows gain the same $b\,W_O$, whatever the token and whatever the weights.

# %% [markdown] lang="zh"
# ## 梯度怎么回来
#
# 训练时，误差从输出往回走。设目标是 $G$，损失 $L = \frac12\sum (Y - G)^2$。$dY$ 是 $\partial L/\partial Y$ 的简写，别的 $d$ 也一样；这里 $dY = Y - G$。
#
# $W_O$ 第 $r$ 行第 $c$ 列的数，在每个词那里都乘 merged 的第 $r$ 个数，加进第 $c$ 个输出。它动一点，六个词的第 $c$ 个输出都跟着动。所以它的梯度是六项之和：$\sum_i \text{merged}_{ir}\,dY_{ic}$。写成矩阵：
#
# $$dW_O = \text{merged}^T\,dY, \qquad d\,\text{merged} = dY\,W_O^T$$
#
# $d\,\text{merged}$ 拆成两个头，就是各头上下文的梯度 $dO$。再过 $A V$：$dA = dO\,V^T$。再过 softmax：$dA$ 的每一行乘上 [01](01_scores_and_scaling.ipynb) 里的雅可比矩阵 $\text{diag}(p) - pp^T$。它是对称的，从哪边乘都一样。

# %% [markdown] lang="en" of="a20a192b"
# ## How the gradient comes back
#
# In training the error runs backwards from the output. Let $G$ be the target and $L = \frac12\sum (Y - G)^2$ the loss. $dY$ is short for $\partial L/\partial Y$, and the other $d$ likewise; here $dY = Y - G$.
#
# The number of $W_O$ in row $r$, column $c$ multiplies number $r$ of merged, in every token, and goes into output $c$. Move it a little, and output $c$ of all six tokens moves. So its gradient is a sum of six terms, $\sum_i \text{merged}_{ir}\,dY_{ic}$. As matrices:
#
# $$dW_O = \text{merged}^T\,dY, \qquad d\,\text{merged} = dY\,W_O^T$$
#
# Split $d\,\text{merged}$ into the two heads, and you have $dO$, the gradient of each head's context. Back through $A V$: $dA = dO\,V^T$. Back through the softmax: each row of $dA$ is multiplied by the Jacobian $\text{diag}(p) - pp^T$ of [01](01_scores_and_scaling.ipynb). It is symmetric, so the side does not matter.

# %%
G = np.roll(X, 1, axis=0)  # a target: the row before; the first token gets the last row


def loss_of(scaled, w_o):
    """From the scaled scores of both heads [2, 6, 6] to the loss, one number."""
    y = merge_heads(weigh(softmax(scaled), V_heads)) @ w_o  # [6, 4]
    return 0.5 * np.sum((y - G) ** 2)


dY = output - G  # [6, 4]
dW_O = merged.T @ dY  # [4, 6] @ [6, 4] -> [4, 4]
d_context = split_heads(dY @ W_O.T, 2)  # [6, 4] @ [4, 4] -> [2, 6, 2]
d_weights = d_context @ V_heads.swapaxes(-1, -2)  # [2, 6, 2] @ [2, 2, 6] -> [2, 6, 6]
d_scaled = np.zeros((2, 6, 6))
for h in range(2):
    for i in range(6):  # every query
        d_scaled[h, i] = softmax_jacobian(stages.weights[h, i]) @ d_weights[h, i]

dW_O_loop = np.zeros((4, 4))
for r in range(4):
    for c in range(4):
        dW_O_loop[r, c] = sum(merged[i, r] * dY[i, c] for i in range(6))
assert np.allclose(dW_O_loop, dW_O, rtol=0, atol=1e-12)
assert np.allclose(d_scaled.sum(axis=-1), 0, rtol=0, atol=1e-12)
print(show.rows(dW_O, labels=("head 1", "head 1", "head 2", "head 2")))

# %%
worked.dot(merged[:, 0], dY[:, 0], r"\left(dW_O\right)_{1,1}")

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
from_gguf = np.frombuffer(gguf_bytes).reshape(
    gguf_ne[::-1]
)  # [3, 4] again; float64 is what frombuffer reads

header = {x["name"]: x["ne"] for x in data.read_json("gguf_7b_header.json")["tensors"]}
kv_width = qwen["kv_heads"] * qwen["head_dim_qk"]  # 512
assert header["blk.0.attn_k.weight"] == [qwen["hidden"], kv_width]  # reads like [in, out]

ledger = {
    "x @ W": (w.shape, merged @ w),
    "W @ x, tokens are columns": (column_form.shape, (column_form @ merged.T).T),
    "nn.Linear: x @ weight.T": (linear_weight.shape, merged @ linear_weight.T),
    "GPT-2 Conv1D: x @ weight": (conv1d_weight.shape, merged @ conv1d_weight),
    "per head: sum over heads": (
        per_head.shape,
        sum(stages.context[h] @ per_head[h] for h in range(2)),
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
# * GGUF 的 `ne` 从变得最快的一维写起，也就是内存里紧挨着的数所沿的那一维，读出来像是 [进, 出]。字节和 `nn.Linear` 的一样，没有转置，只是尺寸倒着列。真实文件里的 $W_K$ 就是这样，{{ header["blk.0.attn_k.weight"] }}。
#
# 拿到一份参数，先找一个不方的矩阵，对一对形状。全是方阵，就拿一个已知输出的输入，对一对数。（PyTorch 把参数矩阵也叫 `weight`，上面的 `weight` 是它的写法。）

# %% [markdown] lang="en" of="efa62726"
# Two of them are the easiest to misread:
#
# * `nn.Linear` stores [out, in], so the code says `x @ weight.T`.
# * `ne` in GGUF starts with the fastest dimension, the one along which numbers lie next to each other in memory, and so it reads like [in, out]. The bytes are those of `nn.Linear`, not transposed. Only the sizes are listed backwards. The $W_K$ of a real file is listed that way: {{ header["blk.0.attn_k.weight"] }}.
#
# When you are given parameters, find a matrix that is not square and compare shapes. If all are square, take an input whose output you know and compare numbers. (PyTorch calls a parameter matrix `weight`; that is its name, not ours.)

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
# **2.** 一个模型有 28 个查询头，键和值只有 4 个头，每个头 128 维。$W_O$ 的进口有多宽？
#
# <details><summary>答案</summary>
#
# 28 × 128 = {{ 28 * 128 }}。每个查询头都有自己的一份上下文。进口的宽度是查询头的个数乘 $d_{head}$，和键值头的个数无关。
#
# </details>
#
# **3.** 去掉头 2，只留头 1，要改 $W_O$ 吗？
#
# <details><summary>答案</summary>
#
# 头 1 那两行不用改，后两行去掉就行。「西安」的输出变成 [{{ ", ".join(f"{x:z.3f}" for x in from_head_1[西安]) }}]，和把头 2 的上下文全改成 0 得到的一样。模型去掉一个头以后还好不好用，是另一回事，要量。
#
# </details>
#
# 注意力的每一步都算过了。下一本，同一句话走过一个训练好的模型：[05 训练好的头](05_real_heads.ipynb)。

# %% [markdown] lang="en" of="d5373734"
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
# **2.** A model has 28 query heads, only 4 heads of keys and values, and 128 dimensions a head. How wide is the input of $W_O$?
#
# <details><summary>Answer</summary>
#
# 28 × 128 = {{ 28 * 128 }}. Every query head has a context of its own. The width is the number of query heads times $d_{head}$; the number of key and value heads plays no part.
#
# </details>
#
# **3.** Remove head 2 and keep head 1 only. Must $W_O$ change?
#
# <details><summary>Answer</summary>
#
# The two rows of head 1 stay as they are; drop the last two. The output of 西安 becomes [{{ ", ".join(f"{x:z.3f}" for x in from_head_1[西安]) }}], the same as with the context of head 2 set to 0. Whether a model is still any good without a head is another matter, and has to be measured.
#
# </details>
#
# Every step of attention has now been computed. Next, the same sentence goes through a trained model: [05 Trained heads](05_real_heads.ipynb).

# %% [markdown] lang="zh"
# # 01 · 打分和缩放
#
# | | |
# |---|---|
# | 在哪里 | **投影** → 旋转 → **打分 → 缩放** → 遮住未来 → softmax → 加权取值 → 输出投影 |
# | 需要什么 | [00 地图](00_map.ipynb)：一行是一个 token，参数矩阵从右边乘；知道方差、标准差和导数是什么 |
# | 走完以后 | 能手算任何一个分数；能说清为什么除以 $\sqrt{d_{head}}$，也知道这个理由什么时候不成立 |
# | 多长时间 | 约 30 分钟 |

# %% [markdown] lang="en" of="04de0b7d"
# # 01 · Scores and scaling
#
# | | |
# |---|---|
# | Where we are | **project** → rotate → **score → scale** → mask → softmax → weigh → project out |
# | What you need | [00 The map](00_map.ipynb): rows are tokens, parameter matrices act from the right; to know what a variance, a standard deviation and a derivative are |
# | What you will be able to do | compute any score by hand; say why it is divided by $\sqrt{d_{head}}$, and when that reason does not hold |
# | Time | about 30 minutes |

# %%
import numpy as np

from byhand import figures, show, toy, worked
from byhand import project, reproduces, scale, score, softmax, softmax_jacobian

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
t = toy.load()
X, W_Q, W_K, W_V = t.X, t.W_Q, t.W_K, t.W_V  # [6, 4], then [4, 4] each

# %% [markdown] lang="zh"
# ## 一个 X，三种用法
#
# 每个词的向量要派三种用场：拿去找别人（查询），让别人找到（键），被找到以后交出去（值）。三个矩阵各管一种。
#
# 先用循环算查询。`Q` 的每一格都是 $X$ 的一行和 $W_Q$ 的一列，相乘再相加。

# %% [markdown] lang="en" of="11091143"
# ## One X, three uses
#
# The vector of a token serves three purposes: to search (query), to be found (key), and to be handed over once found (value). Three matrices, one for each.
#
# The queries first, with a loop. Each entry of `Q` is a row of $X$ and a column of $W_Q$, multiplied and added up.

# %%
Q_loop = np.zeros((6, 4))
for i in range(6):  # every token
    for j in range(4):  # every dimension of its query
        for m in range(4):
            Q_loop[i, j] += X[i, m] * W_Q[m, j]
print(show.rows(Q_loop))

# %%
Q = X @ W_Q  # [6, 4] @ [4, 4] -> [6, 4]
assert np.allclose(Q_loop, Q, rtol=0, atol=1e-12)
assert np.allclose(project(X, W_Q), Q, rtol=0, atol=1e-12)

K = project(X, W_K)  # [6, 4]
V = project(X, W_V)  # [6, 4]
print("K")
print(show.rows(K))

# %% [markdown] lang="zh"
# $V$ 要到 03 才用。这一本只用 $Q$ 和 $K$。

# %% [markdown] lang="en" of="3d6c70de"
# $V$ waits until notebook 03. Here we need $Q$ and $K$ only.

# %% [markdown] lang="zh"
# ## 打分：一行对一行
#
# 「西安」的查询，乘「怎么样」的键。两行各四个数，对应相乘，加起来：

# %% [markdown] lang="en" of="80309f45"
# ## Scoring: row against row
#
# The query of 西安 times the key of 怎么样. Four numbers each, multiplied pair by pair and added up:

# %%
worked.score(Q, K, 西安, 怎么样)

# %% [markdown] lang="zh"
# 这就是一个**分数**。两行方向相近，点积是正的；垂直，是 0；相反，是负的。向量越长，点积离 0 越远。六个查询，六个键，一共 36 个分数。
#
# 「西安」的查询是 [{{ ", ".join(f"{x:.3f}" for x in Q[西安]) }}]。先猜：它的六个分数里，最大的是哪一个？最小的呢？拿它和上面 `K` 的每一行比：同一个位置上都大、正负号又相同的，分数就大。

# %% [markdown] lang="en" of="d028e3ef"
# This is one **score**. Rows that point the same way have a positive dot product, rows at right angles 0, opposite rows a negative one; the longer the rows, the farther from 0. Six queries, six keys: 36 scores.
#
# The query of 西安 is [{{ ", ".join(f"{x:.3f}" for x in Q[西安]) }}]. Guess first: which of its six scores is the largest, and which the smallest? Compare it with each row of `K` above: where both are large in the same places and of the same sign, the score is large.

# %%
scores_loop = np.zeros((6, 6))
for i in range(6):  # every query
    for j in range(6):  # every key
        for m in range(4):
            scores_loop[i, j] += Q[i, m] * K[j, m]
print(show.row(scores_loop[西安], 2), "  西安")

# %%
scores = Q @ K.T  # [6, 4] @ [4, 6] -> [6, 6]; rows are queries, columns are keys
assert np.allclose(scores_loop, scores, rtol=0, atol=1e-12)
assert np.allclose(score(Q, K), scores, rtol=0, atol=1e-12)

print(show.rows(scores, 2))
assert reproduces("scores.xian", scores[西安])  # the article prints the same row

# %% [markdown] lang="zh"
# 最大的是「怎么样」，{{ scores[西安, 怎么样]:.2f }}；最小的是「的」，${{ scores[西安, 的]:.2f }}$。
#
# 上面最后一行 `assert` 拿这六个数和文章印出的一行比：文章印到两位小数，我们算出的数四舍五入到两位，六个全都一样。往后凡是文章里有的数，都这样对一遍。
#
# 整张表画成热力图（文章的图 7-2）：

# %% [markdown] lang="en" of="76e4a697"
# The largest is 怎么样, {{ scores[西安, 怎么样]:.2f }}. The smallest is 的, ${{ scores[西安, 的]:.2f }}$.
#
# The last `assert` above compares these six numbers with the row that the article prints. Rounded to two decimals, all six agree. We do this for every number the article has.
#
# The whole table as a heat map (figure 7-2 of the article):

# %%
asymmetry = np.abs(scores - scores.T).max()  # how far the two directions of a pair lie apart
assert asymmetry > 0.1
figures.heatmap(scores, "scores", lang, title="$Q K^T$")

# %% [markdown] lang="zh"
# 读法：先找行（谁在问），再找列（问谁）。
#
# 「西安」对「今天」是 ${{ scores[西安, 今天]:.2f }}$，「今天」对「西安」是 ${{ scores[今天, 西安]:.2f }}$。「今天」对「的」是 ${{ scores[今天, 的]:.2f }}$，「的」对「今天」是 {{ scores[的, 今天]:.2f }}，连正负号都不同。分数不对称：问的时候用 $Q$，被问的时候用 $K$，而 $Q$ 和 $K$ 来自两个不同的矩阵。这个小例子里两个方向碰巧相差不大，最多差 {{ asymmetry:.2f }}；真实的模型里不一定这样。

# %% [markdown] lang="en" of="76a24b64"
# To read it: find the row (who asks), then the column (who is asked).
#
# The query of 西安 with the key of 今天 gives ${{ scores[西安, 今天]:.2f }}$; the query of 今天 with the key of 西安 gives ${{ scores[今天, 西安]:.2f }}$. For 今天 and 的 the two are ${{ scores[今天, 的]:.2f }}$ and {{ scores[的, 今天]:.2f }}: not even the sign is the same. Scores are not symmetric. Whoever asks uses $Q$, whoever is asked uses $K$, and $Q$ and $K$ come from two different matrices. In this toy the two directions happen to be close, {{ asymmetry:.2f }} apart at most. In a real model they need not be.

# %% [markdown] lang="zh"
# ## 维度一高，分数就散
#
# 小例子的查询只有 4 维。真实的模型里常见 64 维、128 维，也有 256 维。维度多了，分数会怎样？下面跟着论文，把 $d_{head}$ 写成 $d_k$；为了看清趋势，一直做到 512。
#
# 做个实验。随机取查询和键，每个数的均值是 0、方差是 1，互相独立。算两万个点积，看它们的标准差。
#
# 先猜：维度从 4 变成 512，是 {{ 512 // 4 }} 倍。标准差会变成几倍？

# %% [markdown] lang="en" of="ec74a5bd"
# ## More dimensions, wider scores
#
# The queries of the toy have 4 dimensions. In real models 64 and 128 are common, and 256 occurs. What does that do to the scores? Like the paper we write $d_k$ for $d_{head}$ here, and go up to 512 to see the trend.
#
# An experiment: draw queries and keys at random, every number with mean 0 and variance 1, all independent. Compute twenty thousand dot products and look at their standard deviation.
#
# Guess first: going from 4 dimensions to 512 is a factor of {{ 512 // 4 }}. By what factor does the standard deviation grow?

# %%
rng = np.random.default_rng(2024)
q_random = rng.standard_normal((20000, 512))
k_random = rng.standard_normal((20000, 512))
samples = {d: (q_random[:, :d] * k_random[:, :d]).sum(axis=1) for d in (4, 64, 128, 512)}

print("d_k   std    √d_k   std / √d_k")
for d, dots in samples.items():
    print(f"{d:>3}  {dots.std():>5.1f}  {np.sqrt(d):>5.1f}  {dots.std() / np.sqrt(d):>8.2f}")

# %% [markdown] lang="zh"
# 标准差变成原来的 {{ samples[512].std() / samples[4].std():.1f }} 倍，大约是 $\sqrt{128}$ 倍，不是 128 倍。（这个 128 是 $512 ÷ 4$，和表里 $d_k=128$ 那一行无关。）
#
# 为什么？一个点积是 $d_k$ 个乘积的和。两个数独立，均值是 0，方差是 1，它们的乘积均值也是 0，方差是 $1 × 1 = 1$。$d_k$ 个乘积互相独立，方差相加，和的方差是 $d_k$，标准差是 $\sqrt{d_k}$。提出这个公式的论文 *Attention Is All You Need*（2017），脚注 4 里写的就是这个理由。
#
# 文章说 $d_k=512$ 时标准差约 {{ np.sqrt(512):.1f }}，又说 $d_k=128$ 的方差是 $d_k=4$ 的 {{ 128 // 4 }} 倍。两个数都对：

# %% [markdown] lang="en" of="eadbe28d"
# The standard deviation grows by a factor of {{ samples[512].std() / samples[4].std():.1f }}: about $\sqrt{128}$, not 128. (This 128 is $512 ÷ 4$; it has nothing to do with the line $d_k=128$ of the table.)
#
# Why? A dot product is a sum of $d_k$ products. Two independent numbers with mean 0 and variance 1 have a product with mean 0 and variance $1 × 1 = 1$. The $d_k$ products are independent of each other, so their variances add: the sum has variance $d_k$ and standard deviation $\sqrt{d_k}$. *Attention Is All You Need* (2017), the paper that introduced the formula, gives this reason in its footnote 4.
#
# The article says that at $d_k=512$ the standard deviation is about {{ np.sqrt(512):.1f }}, and that the variance at $d_k=128$ is {{ 128 // 4 }} times that at $d_k=4$. Both hold:

# %%
assert reproduces("std512", np.sqrt(512))
assert reproduces("variance_ratio", 128 / 4)

measured_ratio = samples[128].var() / samples[4].var()
print(f"√512 = {np.sqrt(512):.1f}, measured {samples[512].std():.1f}")
print(f"128 / 4 = {128 // 4}, measured {measured_ratio:.1f}")
assert abs(samples[512].std() / np.sqrt(512) - 1) < 0.02  # twenty thousand draws: within 2 in 100
assert abs(measured_ratio / 32 - 1) < 0.05

# %%
figures.dot_product_spread(samples, lang)

# %% [markdown] lang="zh"
# 左边（纵轴是对数刻度）：$d_k$ 越大，曲线越宽。右边：除以 $\sqrt{d_k}$ 以后，四条曲线的标准差都约等于 1。$d_k=4$ 那条中间尖一些，尾巴长一些，因为只有四个乘积相加；另外三条几乎重合。要是改成除以 $d_k$，就除过头了，$d_k$ 越大曲线越窄。
#
# 文章说 $d_k=512$ 时会“轻松出现”超出正负 60 的分数。量一量，有多轻松：

# %% [markdown] lang="en" of="079581ea"
# On the left (log scale) the curves get wider with $d_k$. On the right, divided by $\sqrt{d_k}$, all four have a standard deviation of about 1. The curve of $d_k=4$ has a sharper peak and longer tails, because only four products are added; the other three almost coincide. Dividing by $d_k$ would be too much: the larger $d_k$, the narrower the curve.
#
# The article says that at $d_k=512$ scores of plus or minus 60 come up easily. Let us measure how easily:

# %%
beyond = np.mean(np.abs(samples[512]) > 60)  # share of scores beyond ±60
n_even = np.log(0.5) / np.log(1 - beyond)  # (1 - beyond)**n is one half, solved for n
keys_for_even_odds = round(n_even, -1)  # to the nearest ten
print(
    f"|score| > 60: {beyond:.1%} of the scores; 1 in 2 rows from about {keys_for_even_odds:.0f} keys on"
)
# 60 is between two and three standard deviations: a tail of that size
assert 0.004 < beyond < 0.013

# %% [markdown] lang="zh"
# 单看一个分数，超出正负 60 的机会只有 {{ beyond:.1%}}。一行有大约 {{ keys_for_even_odds:.0f }} 个键时，一半的行里至少有一个这样的分数。长文章里，这确实常见；短句里并不常见。

# %% [markdown] lang="en" of="b015e22f"
# For a single score the chance is {{ beyond:.1%}}. A row must hold about {{ keys_for_even_odds:.0f }} keys before half of all rows contain such a score. In a long text that is common, in a short sentence it is not.

# %% [markdown] lang="zh"
# ## 缩放：除以 √d
#
# 回到小例子。现在只有一个头，它的宽度 $d_{head}=4$，所以除以 $\sqrt{4}=2$。

# %% [markdown] lang="en" of="2a135a31"
# ## Scaling: divide by √d
#
# Back to the toy. For now there is one head. Its width is $d_{head}=4$, so we divide by $\sqrt{4}=2$.

# %%
worked.scaled(scores, 4, 西安, 怎么样)

# %%
scaled_loop = np.zeros((6, 6))
for i in range(6):
    for j in range(6):
        scaled_loop[i, j] = scores[i, j] / 4**0.5

scaled = scores / np.sqrt(4)  # [6, 6] -> [6, 6]
assert np.allclose(scaled_loop, scaled, rtol=0, atol=1e-12)
assert np.allclose(scale(scores, d_head=4), scaled, rtol=0, atol=1e-12)

print(show.row(scores[西安], 2), "  scores")
print(show.row(scaled[西安], 2), "  scaled")
assert reproduces("scaled.xian", scaled[西安])

# %% [markdown] lang="zh"
# 每个数减半，次序不变：最大的还是「怎么样」。缩放不改变谁最大，只改变最大的领先多少。
#
# 这里容易卡住：{{ scores[西安, 天气]:.2f }} 的一半，为什么印成 {{ scaled[西安, 天气]:.2f }}？{{ scores[西安, 天气]:.2f }} 是舍入以后印出来的。算的时候用的是 {{ scores[西安, 天气]:.4f }}，它的一半是 {{ scaled[西安, 天气]:.4f }}。全套笔记本都这样：印的时候舍入，算的时候不舍入。

# %% [markdown] lang="en" of="f37b1450"
# Every number is halved and the order stays: 怎么样 is still the largest. Scaling does not change which score is largest, only how far it leads.
#
# Why is half of {{ scores[西安, 天气]:.2f }} printed as {{ scaled[西安, 天气]:.2f }}? Because {{ scores[西安, 天气]:.2f }} is what is printed. What we compute with is the unrounded {{ scores[西安, 天气]:.4f }}, and half of that is {{ scaled[西安, 天气]:.4f }}. It is so in all the notebooks: we round when we print and never when we compute.

# %% [markdown] lang="zh"
# ## 分数大了，为什么不好
#
# 下一步 softmax 把一行分数变成一行权重，[02](02_softmax.ipynb) 会把它拆开。这里先当一个现成的函数用，只看一件事：缩放后的分数都乘上同一个数，权重怎么变。
#
# 先猜：「西安」这一行缩放后的分数乘 15，最大的权重会到多少？

# %% [markdown] lang="en" of="3f5ee7ec"
# ## What is wrong with large scores
#
# The next step, the softmax, turns a row of scores into a row of weights. [02](02_softmax.ipynb) takes it apart. Here we use it ready-made and look at one thing only: how the weights change when the scaled scores are all multiplied by one number.
#
# Guess first: multiply the scaled scores of 西安 by 15. How large does the largest weight get?

# %%
for factor in (1, 5, 15, 50):
    print(f"{show.row(softmax(scaled[西安] * factor))}   × {factor}")

# %% [markdown] lang="zh"
# 乘 15，「怎么样」拿走 {{ softmax(scaled[西安] * 15)[怎么样]:.3f }}；乘 50，几乎全归它。分数差距大了，softmax 就几乎全给最大的。这叫**饱和**。
#
# 饱和的害处在训练。训练时要知道：某个分数动一点，每个权重跟着动多少。六个分数，六个权重，36 个比率排成一张表，叫 softmax 的雅可比矩阵。下面 $p_i$ 是第 $i$ 个权重，$x_j$ 是第 $j$ 个分数（不是 00 里的隐藏状态）：
#
# $$\frac{\partial p_i}{\partial x_j} = p_i\,(\delta_{ij} - p_j), \qquad\text{写成矩阵：}\quad \text{diag}(p) - p\,p^T$$
#
# $\delta_{ij}$ 在 $i=j$ 时是 1，不然是 0。$\text{diag}(p)$ 是对角线上放 $p$、别处放 0 的矩阵。先验证这个公式：把每个分数真的动一点点，看权重怎么变：

# %% [markdown] lang="en" of="798dcc0d"
# Multiplied by 15, 怎么样 takes {{ softmax(scaled[西安] * 15)[怎么样]:.3f }}. Multiplied by 50 it takes nearly all. When scores lie far apart, the softmax gives nearly everything to the largest. This is called **saturation**.
#
# It does harm in training. Training has to know how far each weight moves when one score moves a little. Six scores, six weights: 36 rates form a table, the Jacobian of the softmax. Here $p_i$ is weight $i$ and $x_j$ is score $j$ (not a hidden state, as in 00):
#
# $$\frac{\partial p_i}{\partial x_j} = p_i\,(\delta_{ij} - p_j), \qquad\text{as a matrix:}\quad \text{diag}(p) - p\,p^T$$
#
# $\delta_{ij}$ is 1 where $i=j$ and 0 elsewhere. $\text{diag}(p)$ is the matrix with $p$ on its diagonal and 0 elsewhere. Check the formula first: move each score by a little, and see how the weights change:

# %%
p = softmax(scaled[西安])  # [6]
step = 1e-6
measured = np.zeros((6, 6))
for j in range(6):
    moved = scaled[西安].copy()
    moved[j] += step
    measured[:, j] = (softmax(moved) - p) / step

jacobian = np.diag(p) - np.outer(p, p)  # [6, 6]
assert np.allclose(measured, jacobian, rtol=0, atol=1e-6)
assert np.allclose(softmax_jacobian(p), jacobian, rtol=0, atol=1e-12)
print(show.rows(jacobian))

# %% [markdown] lang="zh"
# 第 $i$ 行第 $j$ 列是：第 $j$ 个分数动一点，第 $i$ 个权重动多少。对角线是正的：自己的分数升，自己的权重升。别处是负的：别人的分数升，自己的权重降。每一列加起来是 0，因为权重的和总是 1，有升就有降。每一行加起来也是 0，因为六个分数一起升同样多，权重不变。
#
# 最大的一项是「怎么样」对自己：{{ jacobian[怎么样, 怎么样]:.3f }}，也就是 $p(1-p)$。$p$ 正好一半时它最大，是四分之一；$p$ 靠近 1 或 0 时，它都靠近 0。把分数乘上几倍，再看这一项：

# %% [markdown] lang="en" of="42306aa7"
# Row $i$, column $j$: how far weight $i$ moves when score $j$ moves a little. The diagonal is positive: my score goes up, my weight goes up. Everything else is negative: another's score goes up, my weight goes down. Each column sums to 0, because the weights always sum to 1: what one gains the others lose. Each row sums to 0 too, because raising all six scores by the same amount changes no weight.
#
# The largest entry is 怎么样 on itself: {{ jacobian[怎么样, 怎么样]:.3f }}, which is $p(1-p)$. At $p$ one half it is largest, a quarter. When $p$ is near 1 or near 0, it is near 0. Multiply the scores and watch it:

# %%
assert np.allclose(jacobian.sum(axis=0), 0, rtol=0, atol=1e-12)
assert np.allclose(jacobian.sum(axis=1), 0, rtol=0, atol=1e-12)
for factor in (1, 5, 15, 50):
    p_factor = softmax(scaled[西安] * factor)
    print(
        f"× {factor:<3} largest p {p_factor.max():.4f}   largest ∂p/∂x {softmax_jacobian(p_factor).max():.4f}"
    )

# %% [markdown] lang="zh"
# 乘 5 时 $p$ 走近一半，这一项先升了一点。往后一路降，乘 50 时只剩 {{ softmax_jacobian(softmax(scaled[西安] * 50)).max():.4f }}。训练时，误差从输出往回传，传到这里要乘上雅可比矩阵。各项都靠近 0，分数就几乎收不到该往哪边改的消息。（再往前传到 $Q$ 和 $K$，还要乘上分数前面的倍数，这里是 50，所以实际的损失没有表里看着那么大。）
#
# ### 这个道理什么时候不成立
#
# 常听人说：分数一大，softmax 必然饱和，梯度必然消失。这话说得太满，一行里键多的时候就不一定。（梯度，就是告诉参数该往哪边改的那个信号。）取不同的 $d_k$（分数不缩放）和不同的键数，各抽两千行，每行取雅可比矩阵里最大的一项，再看它们的中位数。$d_k$ 维的随机分数，散开的程度是标准正态的 $\sqrt{d_k}$ 倍，就这样抽；$d_k=1$ 相当于缩放过的分数。

# %% [markdown] lang="en" of="fa7f4d4f"
# Multiplied by 5, $p$ comes near one half and the entry rises a little. From there on it falls; multiplied by 50 it is down to {{ softmax_jacobian(softmax(scaled[西安] * 50)).max():.4f }}. In training the error comes back from the output, and here it is multiplied by the Jacobian. Where all entries are near 0, the scores hardly hear which way to change. (On its way to $Q$ and $K$ it is also multiplied by the factor in front of the scores, here 50, so the loss is smaller than the table alone suggests.)
#
# ### When this reason does not hold
#
# One often hears that large scores must saturate the softmax and that the gradient must vanish. This says too much: with many keys in a row it need not be so. (The gradient is the signal that tells the parameters which way to change.) For several $d_k$ (scores not scaled) and several numbers of keys we draw two thousand rows each, take the largest entry of the Jacobian in each row, and look at the median. Random scores of $d_k$ dimensions spread like $\sqrt{d_k}$ times a standard normal number, so we draw them that way; $d_k=1$ has the spread of scaled scores.

# %%
widths = (1, 4, 16, 64, 128, 512)
slopes = {}  # number of keys -> a median for each d_k
peaked = {}  # number of keys -> the share of rows that are one-hot at d_k 128
one_hot = 0.99  # a row whose largest weight is above this counts as one-hot
for n_keys in (6, 64, 512):
    z = rng.standard_normal((2000, n_keys))  # 2000 rows of scores with spread 1
    slopes[n_keys] = []
    for d in widths:
        weights = softmax(z * np.sqrt(d))  # [2000, n_keys]
        largest = (weights * (1 - weights)).max(axis=1)  # largest Jacobian entry of each row
        slopes[n_keys].append(np.median(largest))
        if d == 128:
            peaked[n_keys] = np.mean(weights.max(axis=1) > one_hot)

print("keys \\ d_k" + "".join(f"{d:>9}" for d in widths))
for n_keys, medians in slopes.items():
    print(f"{n_keys:>10}" + "".join(f"{m:>9.0e}" for m in medians))

# %%
figures.saturation(scaled[西安], (1, 5, 15), widths, slopes, lang)

# %% [markdown] lang="zh"
# 左边就是文章图 7-3 说的：分数放大，权重集中，softmax 饱和。右边是例外：
#
# * 6 个键：$d_k=128$ 时，中位数掉到 $d_k=1$ 时的 {{ slopes[6][4] / slopes[6][0]:.0%}}；$d_k=512$ 时几乎是 0。饱和确有其事。
# * 512 个键：$d_k=1$ 时中位数只有 {{ slopes[512][0]:.2f }}，因为权重摊得很薄，每个都靠近 0。$d_k=128$ 时反而升到 {{ slopes[512][4]:.2f }}：最大的权重有了，但常有对手，离 1 还有距离。
# * 文章说 $d_k=128$ 不缩放会“彻底退化成 one-hot”（一个权重是 1，其余是 0）。6 个键的行里，最大权重超过 {{ one_hot }} 的占 {{ peaked[6]:.0%}}；512 个键的行里只占 {{ peaked[512]:.0%}}。多数很尖，并非个个都是 one-hot。
#
# 还有一个前提：查询和键的每个数独立、均值 0、方差 1。不少模型刚开始训练时大致如此，这要看矩阵怎么初始化；训练好的模型里就不再是了。所以除以 $\sqrt{d_{head}}$ 是给训练一个合适的起点，不是永远成立的定律。

# %% [markdown] lang="en" of="cc85920e"
# On the left is what figure 7-3 of the article says: larger scores, concentrated weights, a saturated softmax. On the right you see where the claim stops holding:
#
# * 6 keys: at $d_k=128$ the median is down to {{ slopes[6][4] / slopes[6][0]:.0%}} of what it is at $d_k=1$, and at $d_k=512$ it is next to 0. Saturation is real.
# * 512 keys: at $d_k=1$ the median is only {{ slopes[512][0]:.2f }}, because the weights are spread thin and all are near 0. At $d_k=128$ it is up to {{ slopes[512][4]:.2f }}: there is a large weight now, but it often has a rival and stays short of 1.
# * The article says that at $d_k=128$ without scaling the softmax becomes one-hot altogether (one weight 1, the others 0). In rows of 6 keys the largest weight is above {{ one_hot }} in {{ peaked[6]:.0%}} of them, in rows of 512 keys in {{ peaked[512]:.0%}}. Most are peaked; by no means all are one-hot.
#
# There is a premise too: all numbers in queries and keys are independent, with mean 0 and variance 1. Many models start roughly like this, depending on how their matrices are initialised. A trained model no longer does. Dividing by $\sqrt{d_{head}}$ gives training a good start. It is not a law that holds for ever.

# %% [markdown] lang="zh"
# 这张表只量了 softmax 一步。传到查询的，缩放过的还要再除以 $\sqrt{d_k}$。把这一层也算上，$d_k=128$ 时：

# %% [markdown] lang="en" of="0394af43"
# The table measures the softmax alone. What reaches a query is divided by $\sqrt{d_k}$ as well when the scores are scaled. With that counted, at $d_k=128$:

# %%
reaching_query = {
    n_keys: (medians[widths.index(128)], medians[0] / np.sqrt(128))
    for n_keys, medians in slopes.items()
}
for n_keys, (unscaled, with_scaling) in reaching_query.items():
    print(f"{n_keys:>3} keys: not scaled {unscaled:.3f}, scaled {with_scaling:.3f}")
assert reaching_query[6][0] < reaching_query[6][1] / 2  # few keys: scaling lets more through
assert reaching_query[512][0] > reaching_query[512][1]  # many keys: it does not

# %% [markdown] lang="zh"
# 6 个键时，缩放让传回去的信号大了好几倍；键多的时候，反而是不缩放的传回去更多。所以缩放的好处，主要在于让各种宽度的头都从同样散开的分数起步，不能只归结为“防止梯度消失”。

# %% [markdown] lang="en" of="44814d9d"
# With 6 keys, scaling lets several times as much through; with many keys, more gets through without it. So the main benefit of scaling is that heads of any width start from scores of the same spread. It cannot be put down to vanishing gradients alone.

# %% [markdown] lang="zh"
# ### 动一动：宽度和缩放
#
# 下面有一个滑块和一个勾选框。滑块改宽度 $d_k$，勾选框决定除不除以 $\sqrt{d_k}$。跟着变的有四样：很多对查询和键的分数的标准差，另抽的一行六个键的分数，它们的权重，雅可比矩阵最大的一项。这一项只量 softmax 一步；传到查询，缩放过的还要再除以 $\sqrt{d_k}$。查询和键都是随机的。用键盘也行：按 Tab 走到滑块，再按左右方向键。
#
# 先猜：不缩放，$d_k$ 从 64 加到 256，标准差变成几倍？

# %% [markdown] lang="en" of="56d24805"
# ### Move it: width and scaling
#
# Below are a slider and a box. The slider sets the width $d_k$, the box whether to divide by $\sqrt{d_k}$. Four things follow: the standard deviation of the scores of many pairs, the scores of another row with six keys, their weights, and the largest entry of the Jacobian. That entry is the slope of the softmax alone; on the way to the query, scaled scores are divided by $\sqrt{d_k}$ once more. Queries and keys are random. The keyboard works too: press Tab until the slider has the focus, then the left and right arrows.
#
# Guess first: without scaling, $d_k$ goes from 64 to 256. How many times as large does the standard deviation get?

# %%
from byhand.explorers import scaling

explorer = scaling.explorer(lang)
explorer

# %%
spread = {}  # what the explorer shows, held against the same samples
for d_k in (64, 256):
    for divided in (False, True):
        explorer.set(d_k=d_k, scaled=divided)
        spread[d_k, divided] = scaling.scores_of(d_k, divided)[0].std()
        assert f"{spread[d_k, divided]:.2f}" in explorer.says
        print(explorer.says.splitlines()[0])
_ = explorer.reset()

# %% [markdown] lang="zh"
# {{ spread[256, False] / spread[64, False]:.2f }} 倍：宽度是 4 倍，标准差是 $\sqrt 4$ 倍。除以 $\sqrt{d_k}$ 以后，两个宽度上都在 1 附近（{{ spread[64, True]:.2f }} 和 {{ spread[256, True]:.2f }}）。

# %% [markdown] lang="en" of="380a6ccc"
# {{ spread[256, False] / spread[64, False]:.2f }} times: the width is 4 times as large, the standard deviation $\sqrt 4$ times. Divided by $\sqrt{d_k}$ it is near 1 at both widths ({{ spread[64, True]:.2f }} and {{ spread[256, True]:.2f }}).

# %% [markdown] lang="zh"
# ## 一个错：除以 √d_model
#
# 根号下面该放的是一个**查询**的宽度 $d_{head}$，不是 $X$ 的宽度 $d_{model}$。只有一个头时两者都是 4，写错了也看不出来。拆成两个头（04 会细讲），$d_{head}=2$，错就露出来了。

# %% [markdown] lang="en" of="4ebbeb82"
# ## A mistake: √d_model
#
# What belongs under the root is the width of a **query**, $d_{head}$, not the width of $X$, $d_{model}$. With one head both are 4, and the mistake cannot be seen. With two heads (more in notebook 04) $d_{head}=2$, and it shows.

# %%
scores_head1 = score(Q[:, :2], K[:, :2])  # [6, 2] @ [2, 6] -> [6, 6]
right = softmax(scale(scores_head1, d_head=2))
wrong = softmax(scores_head1 / np.sqrt(4))  # √d_model
print(show.row(right[问号]), "  / √d_head")
print(show.row(wrong[问号]), "  / √d_model")
print(f"{right.max(axis=1).mean():.3f}  {wrong.max(axis=1).mean():.3f}   mean of the row maxima")
assert np.all(wrong.max(axis=1) < right.max(axis=1))

# %% [markdown] lang="zh"
# 形状一样，每行的和也是 1，也不报错。只是每一行都平了一些：各行最大值的平均，从 {{ right.max(axis=1).mean():.3f }} 降到 {{ wrong.max(axis=1).mean():.3f }}。
#
# 头越多，错得越厉害。Qwen2.5-7B 的 $d_{model}=3584$，$d_{head}=128$，这样会多除一个 $\sqrt{28}$：

# %% [markdown] lang="en" of="18a0c8da"
# The shape is the same, each row still sums to 1, and nothing complains. Every row is only a little flatter: the mean of the row maxima goes from {{ right.max(axis=1).mean():.3f }} down to {{ wrong.max(axis=1).mean():.3f }}.
#
# The more heads, the worse. Qwen2.5-7B has $d_{model}=3584$ and $d_{head}=128$, so the scores would come out $\sqrt{28}$ times too small:

# %%
q_wide = rng.standard_normal((2000, 1, 128))
k_wide = rng.standard_normal((2000, 6, 128))
scores_wide = score(q_wide, k_wide)  # [2000, 1, 128] @ [2000, 128, 6] -> [2000, 1, 6]
even = 1 / 6  # six equal weights
by_head = softmax(scores_wide / np.sqrt(128)).max(axis=-1).mean()
by_model = softmax(scores_wide / np.sqrt(3584)).max(axis=-1).mean()
print(
    f"mean largest of six weights: {by_head:.2f} with √128, {by_model:.2f} with √3584, {even:.2f} if all are equal"
)
assert even < by_model < by_head

# %% [markdown] lang="zh"
# 六个权重里最大的那个，平均只有 {{ by_model:.2f }}，和六个词均分的 {{ even:.2f }} 相差不多。症状是：训练刚开始时，注意力到处都差不多平，程序却不报错。

# %% [markdown] lang="en" of="b86e77f4"
# The largest of six weights is {{ by_model:.2f }} on average, not far from the {{ even:.2f }} of an even split. The symptom at the start of training: attention is nearly flat everywhere, and the program runs without complaint.

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 不看代码，`scores[天气, 今天]` 是哪两行的点积？
#
# <details><summary>答案</summary>
#
# `Q[天气]` 和 `K[今天]`，等于 ${{ scores[天气, 今天]:.2f }}$。行是查询，列是键。
#
# </details>
#
# **2.** 如果 $W_Q$ 的每个数都乘 2，不缩放的分数变成几倍？「西安」这一行最大的会换吗？
#
# <details><summary>答案</summary>
#
# 2 倍，点积对 $Q$ 是线性的。最大的不换，还是{{ toy.TOKENS[int(np.argmax(score(2 * Q, K)[西安]))] }}。但缩放再做 softmax，它的权重从 {{ softmax(scaled[西安]).max():.3f }} 变成 {{ softmax(scale(score(2 * Q, K), 4)[西安]).max():.3f }}。
#
# </details>
#
# **3.** 有人把分数除以 $d_k$，不开根号。$d_k=128$ 时，缩放后的分数标准差大约是多少？会有什么症状？
#
# <details><summary>答案</summary>
#
# $\sqrt{128}/128$，约 {{ np.sqrt(128) / 128:.2f }}。分数挤在 0 附近，权重几乎均分，和除以 $\sqrt{d_{model}}$ 是同一类症状。
#
# </details>
#
# 下一本：[02 softmax](02_softmax.ipynb)

# %% [markdown] lang="en" of="38509694"
# ## Three questions
#
# **1.** Without looking at the code: which two rows does `scores[天气, 今天]` multiply?
#
# <details><summary>Answer</summary>
#
# `Q[天气]` and `K[今天]`. It is ${{ scores[天气, 今天]:.2f }}$. Rows are queries, columns are keys.
#
# </details>
#
# **2.** If every number in $W_Q$ is doubled, what happens to the unscaled scores? Does the largest in the row of 西安 change?
#
# <details><summary>Answer</summary>
#
# They double: the dot product is linear in $Q$. The largest is still {{ toy.TOKENS[int(np.argmax(score(2 * Q, K)[西安]))] }}. But after scaling and the softmax its weight goes from {{ softmax(scaled[西安]).max():.3f }} to {{ softmax(scale(score(2 * Q, K), 4)[西安]).max():.3f }}.
#
# </details>
#
# **3.** Someone divides by $d_k$ and forgets the root. At $d_k=128$, what is the standard deviation of the scaled scores, roughly? What is the symptom?
#
# <details><summary>Answer</summary>
#
# $\sqrt{128}/128$, about {{ np.sqrt(128) / 128:.2f }}. The scores crowd round 0 and the weights are nearly even: the same kind of symptom as with $\sqrt{d_{model}}$.
#
# </details>
#
# Next: [02 Softmax](02_softmax.ipynb)

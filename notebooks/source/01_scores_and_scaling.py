# %% [markdown] lang="zh"
# # 01 · 打分和缩放
#
# | | |
# |---|---|
# | 在哪里 | **投影** → 旋转 → **打分 → 缩放** → 遮住未来 → softmax → 加权取值 → 输出投影 |
# | 需要什么 | [00 地图](00_map.ipynb)：行是 token，权重从右边乘 |
# | 走完以后 | 能手算任何一个分数，能说清为什么除以 $\sqrt{d_{head}}$，也知道这个理由到哪里为止 |
# | 多长时间 | 约 30 分钟 |

# %% [markdown] lang="en" of="318dc984"
# # 01 · Scores and scaling
#
# | | |
# |---|---|
# | Where we are | **project** → rotate → **score → scale** → mask → softmax → weigh → project out |
# | What you need | [00 The map](00_map.ipynb): rows are tokens, weights act from the right |
# | What you will be able to do | compute any score by hand; say why it is divided by $\sqrt{d_{head}}$, and where that reason ends |
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
# 这就是一个**分数**。六个查询，六个键，一共 36 个。
#
# 先猜：「西安」这一行的六个分数里，最大的是哪一个？最小的呢？看看 `K`：哪些行和「西安」的查询方向相近？

# %% [markdown] lang="en" of="8866e5f7"
# This is one **score**. Six queries, six keys: 36 scores.
#
# Guess first: which of the six scores of 西安 is the largest, and which the smallest? Look at `K`: which of its rows point the way the query of 西安 points?

# %%
print(show.row(Q[西安]), "  Q[西安]")
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
# The last `assert` above holds these six numbers against the row that the article prints, to two decimals: rounded to two decimals, all six of ours are the same. We do this for every number the article has.
#
# The whole table as a heat map (figure 7-2 of the article):

# %%
asymmetry = np.abs(scores - scores.T).max()  # how far the two directions of a pair lie apart
assert asymmetry > 0.1
figures.heatmap(scores, "scores", lang, title="$Q K^T$")

# %% [markdown] lang="zh"
# 读法：找到行（谁在问），再找列（问到谁）。
#
# 「西安」对「今天」是 ${{ scores[西安, 今天]:.2f }}$，「今天」对「西安」是 ${{ scores[今天, 西安]:.2f }}$。「今天」对「的」是 ${{ scores[今天, 的]:.2f }}$，「的」对「今天」是 {{ scores[的, 今天]:.2f }}，连正负号都不同。分数不对称：问的时候用 $Q$，被问的时候用 $K$，而 $Q$ 和 $K$ 来自两个不同的矩阵。这个小例子里两个方向碰巧相差不大，最多差 {{ asymmetry:.2f }}，真实的模型里不必如此。

# %% [markdown] lang="en" of="3018ee9c"
# To read it: find the row (who asks), then the column (who is asked).
#
# 西安 on 今天 is ${{ scores[西安, 今天]:.2f }}$, and 今天 on 西安 is ${{ scores[今天, 西安]:.2f }}$. 今天 on 的 is ${{ scores[今天, 的]:.2f }}$ and 的 on 今天 is {{ scores[的, 今天]:.2f }}: not even the sign is the same. Scores are not symmetric. Whoever asks uses $Q$, whoever is asked uses $K$, and $Q$ and $K$ come from two different matrices. In this toy the two directions happen to be close, {{ asymmetry:.2f }} apart at most. In a real model they need not be.

# %% [markdown] lang="zh"
# ## 维度一高，分数就散
#
# 小例子的查询只有 4 维。真实的模型里是 64 维、128 维，有的到 512 维。维度多了，分数会怎样？
#
# 做个实验。随机取查询和键，每个数的均值是 0、方差是 1，互相独立。算两万个点积，看它们的标准差。
#
# 先猜：维度从 4 变成 512，是 {{ 512 // 4 }} 倍。标准差会变成几倍？

# %% [markdown] lang="en" of="1124017e"
# ## More dimensions, wider scores
#
# The queries of the toy have 4 dimensions. In real models they have 64, 128, sometimes 512. What does that do to the scores?
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
# 标准差变成 {{ samples[512].std() / samples[4].std():.1f }} 倍，大约是 $\sqrt{128}$ 倍，不是 128 倍。
#
# 道理在这里：一个点积是 $d_k$ 个乘积的和。每个乘积的方差是 1，彼此独立，方差就相加，和的方差是 $d_k$，标准差是 $\sqrt{d_k}$。原论文在脚注 4 里写的就是这个理由。
#
# 文章说 $d_k=512$ 时标准差约 {{ np.sqrt(512):.1f }}，又说 $d_k=128$ 的方差是 $d_k=4$ 的 {{ 128 // 4 }} 倍。两个数都对：

# %% [markdown] lang="en" of="08e9606f"
# The standard deviation grows by a factor of {{ samples[512].std() / samples[4].std():.1f }}: about $\sqrt{128}$, not 128.
#
# Here is why. A dot product is a sum of $d_k$ products. Each product has variance 1 and they are independent, so variances add: the sum has variance $d_k$ and standard deviation $\sqrt{d_k}$. The original paper gives this reason in its footnote 4.
#
# The article says that at $d_k=512$ the standard deviation is about {{ np.sqrt(512):.1f }}, and that the variance at $d_k=128$ is {{ 128 // 4 }} times that at $d_k=4$. Both hold:

# %%
assert reproduces("std512", np.sqrt(512))
assert reproduces("variance_ratio", 128 / 4)

measured_ratio = samples[128].var() / samples[4].var()
print(f"√512 = {np.sqrt(512):.1f}, measured {samples[512].std():.1f}")
print(f"128 / 4 = {128 / 4:.0f}, measured {measured_ratio:.1f}")
assert abs(samples[512].std() / np.sqrt(512) - 1) < 0.02  # twenty thousand draws: within 2 in 100
assert abs(measured_ratio / 32 - 1) < 0.05

# %%
figures.dot_product_spread(samples, lang)

# %% [markdown] lang="zh"
# 左边越来越宽，右边除以 $\sqrt{d_k}$ 以后，四条线重合。除以的不是 $d_k$：那样宽度会越来越窄。
#
# 文章说 $d_k=512$ 时“轻松出现”正负 60 的分数。量一下有多轻松：

# %% [markdown] lang="en" of="920e8209"
# On the left the curves get wider. On the right, divided by $\sqrt{d_k}$, the four fall on each other. Dividing by $d_k$ would be too much: they would get narrower and narrower.
#
# The article says that at $d_k=512$ scores of plus or minus 60 come up easily. Let us measure how easily:

# %%
beyond = np.mean(np.abs(samples[512]) > 60)  # share of scores beyond ±60
keys_for_even_odds = np.log(0.5) / np.log(1 - beyond)
print(
    f"|score| > 60: {beyond:.1%} of the scores; 1 in 2 rows from {keys_for_even_odds:.0f} keys on"
)
assert 0.004 < beyond < 0.013  # 60 lies between two and three standard deviations out

# %% [markdown] lang="zh"
# 单看一个分数，只有 {{ beyond:.1%}}。一行里有 {{ keys_for_even_odds:.0f }} 个键的时候，才有一半的行会碰到一个。句子长了确实常见，短句里并不常见。

# %% [markdown] lang="en" of="68148000"
# For a single score it is {{ beyond:.1%}}. Only with {{ keys_for_even_odds:.0f }} keys in a row does every second row meet one. In a long text that is common, in a short sentence it is not.

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
# 每个数减半，次序不变：最大的还是「怎么样」。缩放不改变谁第一，只改变第一名领先多少。
#
# 有一处容易绊住：{{ scores[西安, 天气]:.2f }} 的一半，为什么印成 {{ scaled[西安, 天气]:.2f }}？因为 {{ scores[西安, 天气]:.2f }} 是印出来的，算的是没有舍入的 {{ scores[西安, 天气]:.4f }}，一半是 {{ scaled[西安, 天气]:.4f }}。印的时候舍入，算的时候不舍入，全套笔记本都是这样。

# %% [markdown] lang="en" of="26595184"
# Every number is halved and the order stays: 怎么样 is still the largest. Scaling does not change who is first, only by how much.
#
# One thing may make you stumble: why is half of {{ scores[西安, 天气]:.2f }} printed as {{ scaled[西安, 天气]:.2f }}? Because {{ scores[西安, 天气]:.2f }} is what is printed. What is computed with is the unrounded {{ scores[西安, 天气]:.4f }}, and half of that is {{ scaled[西安, 天气]:.4f }}. We round when we print and never when we compute.

# %% [markdown] lang="zh"
# ## 分数大了，为什么不好
#
# 下一步 softmax 把一行分数变成一行权重，[02](02_softmax.ipynb) 会把它拆开。这里先当一个现成的函数用，只看一件事：分数放大几倍，权重怎么变。
#
# 先猜：「西安」这一行乘上 15，最大的权重会到多少？

# %% [markdown] lang="en" of="cd8cd003"
# ## What is wrong with large scores
#
# The next step, the softmax, turns a row of scores into a row of weights. [02](02_softmax.ipynb) takes it apart. Here we use it ready-made and look at one thing only: how the weights change when the scores are multiplied.
#
# Guess first: multiply the row of 西安 by 15. How large does the largest weight get?

# %%
for factor in (1, 5, 15, 50):
    print(f"{show.row(softmax(scaled[西安] * factor))}   × {factor}")

# %% [markdown] lang="zh"
# 放大 15 倍，「怎么样」拿走 {{ softmax(scaled[西安] * 15)[怎么样]:.3f }}；放大 50 倍，几乎全归它。分数差距大了，softmax 就把一切给第一名。这叫**饱和**。
#
# 饱和坏在训练上。训练要知道：某个分数动一点，每个权重跟着动多少。这 36 个比率排成一张表，就是 softmax 的雅可比矩阵：
#
# $$\frac{\partial p_i}{\partial x_j} = p_i\,(\delta_{ij} - p_j), \qquad\text{写成矩阵：}\quad \text{diag}(p) - p\,p^T$$
#
# 先验证这个公式。把每个分数真的动一点点，看权重怎么变：

# %% [markdown] lang="en" of="899bbeb5"
# Multiplied by 15, 怎么样 takes {{ softmax(scaled[西安] * 15)[怎么样]:.3f }}. Multiplied by 50 it takes nearly all. When scores lie far apart, the softmax gives everything to the first. This is called **saturation**.
#
# It does harm in training. Training has to know how far each weight moves when one score moves a little. These 36 rates form a table, the Jacobian of the softmax:
#
# $$\frac{\partial p_i}{\partial x_j} = p_i\,(\delta_{ij} - p_j), \qquad\text{as a matrix:}\quad \text{diag}(p) - p\,p^T$$
#
# Check the formula first. Move each score by a little, and see how the weights change:

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
# 对角线是正的：自己的分数升，自己的权重升。别处是负的：别人的分数升，自己的权重降。每一行加起来是 0，因为权重的总和动不了。
#
# 最大的一项是「怎么样」对自己：{{ jacobian[怎么样, 怎么样]:.3f }}，也就是 $p(1-p)$。$p$ 靠近 1 或 0 时，它都靠近 0。把分数放大，再看这一项：

# %% [markdown] lang="en" of="8b671365"
# The diagonal is positive: my score goes up, my weight goes up. Everything else is negative: another's score goes up, my weight goes down. Each row sums to 0, because the total of the weights cannot move.
#
# The largest entry is 怎么样 on itself: {{ jacobian[怎么样, 怎么样]:.3f }}, which is $p(1-p)$. When $p$ is near 1 or near 0, this is near 0. Multiply the scores and watch it:

# %%
assert np.allclose(jacobian.sum(axis=1), 0, rtol=0, atol=1e-12)
for factor in (1, 5, 15, 50):
    p_factor = softmax(scaled[西安] * factor)
    print(
        f"× {factor:<3} largest p {p_factor.max():.4f}   largest ∂p/∂x {softmax_jacobian(p_factor).max():.4f}"
    )

# %% [markdown] lang="zh"
# 乘 50 以后，最大的一项只剩 {{ softmax_jacobian(softmax(scaled[西安] * 50)).max():.4f }}。误差信号传到这里要乘上它，到前面的 $Q$ 和 $K$ 就几乎没有了：参数收不到该往哪边改的消息。
#
# ### 这个道理有多远
#
# “分数一大，softmax 必然饱和，梯度必然消失”，这话说得太满。一行里键多的时候不一定。对不同的 $d_k$（分数不缩放）和不同的键数，各抽两千行，看最大那一项的中位数：

# %% [markdown] lang="en" of="da1fb3de"
# Multiplied by 50, the largest entry is down to {{ softmax_jacobian(softmax(scaled[西安] * 50)).max():.4f }}. An error signal that comes back through here is multiplied by it, and next to nothing reaches $Q$ and $K$: the parameters are not told which way to change.
#
# ### How far this reason goes
#
# "Large scores always saturate the softmax and the gradient always vanishes" says too much. With many keys in a row it need not. For several $d_k$ (scores not scaled) and several numbers of keys we draw two thousand rows each, and take the median of the largest entry:

# %%
widths = (1, 4, 16, 64, 128, 512)
slopes = {}
peaked = {}
one_hot = 0.99  # a row whose largest weight is above this counts as one-hot
for n_keys in (6, 64, 512):
    z = rng.standard_normal((2000, n_keys))
    rows = [softmax(z * np.sqrt(d)) for d in widths]  # [2000, n_keys] for each d
    slopes[n_keys] = [np.median((p * (1 - p)).max(axis=1)) for p in rows]
    peaked[n_keys] = np.mean(rows[widths.index(128)].max(axis=1) > one_hot)

print("d_k " + "".join(f"{d:>9}" for d in widths))
for n_keys, medians in slopes.items():
    print(f"{n_keys:>3} " + "".join(f"{m:>9.0e}" for m in medians))

# %%
figures.saturation(scaled[西安], (1, 5, 15), widths, slopes, lang)

# %% [markdown] lang="zh"
# 左边是文章图 7-3 的意思：放大，集中，饱和。右边是它的边界：
#
# * 6 个键：$d_k=128$ 时，中位数掉到 $d_k=1$ 时的 {{ slopes[6][4] / slopes[6][0]:.0%}}；$d_k=512$ 时几乎是 0。饱和确有其事。
# * 512 个键：$d_k=128$ 时，中位数是 {{ slopes[512][4]:.2f }}，比 $d_k=1$ 时的 {{ slopes[512][0]:.2f }} 还大。键多了，第一名常有对手。
# * 文章说 $d_k=128$ 不缩放会“彻底退化成 one-hot”。6 个键的行里，最大权重超过 {{ one_hot }} 的占 {{ peaked[6]:.0%}}；512 个键的行里只占 {{ peaked[512]:.0%}}。多数很尖，并非个个都是 one-hot。
#
# 还有一个前提：查询和键的每个数独立、均值 0、方差 1。刚开始训练时大致如此，训练好的模型里就不再是了。所以除以 $\sqrt{d_{head}}$ 是让起点合适，不是一条永远成立的定律。

# %% [markdown] lang="en" of="b2c6f00b"
# On the left is what figure 7-3 of the article shows: multiply, concentrate, saturate. On the right is where it ends:
#
# * 6 keys: at $d_k=128$ the median is down to {{ slopes[6][4] / slopes[6][0]:.0%}} of what it is at $d_k=1$, and at $d_k=512$ it is next to 0. Saturation is real.
# * 512 keys: at $d_k=128$ the median is {{ slopes[512][4]:.2f }}, more than the {{ slopes[512][0]:.2f }} at $d_k=1$. With many keys the first often has a rival.
# * The article says that at $d_k=128$ without scaling the softmax becomes one-hot altogether. In rows of 6 keys the largest weight is above {{ one_hot }} in {{ peaked[6]:.0%}} of them, in rows of 512 keys in {{ peaked[512]:.0%}}. Most are peaked; by no means all are one-hot.
#
# There is a premise too: all numbers in queries and keys independent, with mean 0 and variance 1. That is roughly so when training begins, and no longer so in a trained model. Dividing by $\sqrt{d_{head}}$ gives training a good start. It is not a law that holds for ever.

# %% [markdown] lang="zh"
# ## 一个错：除以 √d_model
#
# 该除的是一个**查询**的宽度 $d_{head}$，不是 $X$ 的宽度 $d_{model}$。只有一个头时两者都是 4，写错了也看不出来。拆成两个头（04 会细讲），$d_{head}=2$，错就露出来了。

# %% [markdown] lang="en" of="7816b08e"
# ## A mistake: √d_model
#
# What counts is the width of a **query**, $d_{head}$, not the width of $X$, $d_{model}$. With one head both are 4, and the mistake cannot be seen. With two heads (more in notebook 04) $d_{head}=2$, and it shows.

# %%
scores_head1 = score(Q[:, :2], K[:, :2])  # [6, 2] @ [2, 6] -> [6, 6]
right = softmax(scale(scores_head1, d_head=2))
wrong = softmax(scores_head1 / np.sqrt(4))  # √d_model
print(show.row(right[问号]), "  / √d_head")
print(show.row(wrong[问号]), "  / √d_model")
print(f"{right.max(axis=1).mean():.3f}  {wrong.max(axis=1).mean():.3f}   mean of the row maxima")
assert np.all(wrong.max(axis=1) < right.max(axis=1))

# %% [markdown] lang="zh"
# 形状一样，每行的和也是 1，没有任何报错。只是每一行都平了一些：行最大值平均从 {{ right.max(axis=1).mean():.3f }} 降到 {{ wrong.max(axis=1).mean():.3f }}。
#
# 头越多，错得越厉害。Qwen2.5-7B 的 $d_{model}=3584$，$d_{head}=128$，多除了 $\sqrt{28}$ 倍：

# %% [markdown] lang="en" of="1692f149"
# The shape is the same, each row still sums to 1, and nothing complains. Every row is only a little flatter: the mean of the row maxima goes from {{ right.max(axis=1).mean():.3f }} down to {{ wrong.max(axis=1).mean():.3f }}.
#
# The more heads, the worse. Qwen2.5-7B has $d_{model}=3584$ and $d_{head}=128$, so we would divide by $\sqrt{28}$ too much:

# %%
q_wide = rng.standard_normal((2000, 1, 128))
k_wide = rng.standard_normal((2000, 6, 128))
scores_wide = score(q_wide, k_wide)  # [2000, 1, 128] @ [2000, 128, 6] -> [2000, 1, 6]
by_head = softmax(scores_wide / np.sqrt(128)).max(axis=-1).mean()
by_model = softmax(scores_wide / np.sqrt(3584)).max(axis=-1).mean()
print(
    f"mean largest of six weights: {by_head:.2f} with √128, {by_model:.2f} with √3584, {1 / 6:.2f} if all are equal"
)
assert 1 / 6 < by_model < by_head

# %% [markdown] lang="zh"
# 六个权重最大的平均只有 {{ by_model:.2f }}，和人人均分的 {{ 1 / 6:.2f }} 差不了多少。症状是：注意力处处差不多平，模型学得慢，而程序一切正常。

# %% [markdown] lang="en" of="46a7ca99"
# The largest of six weights is {{ by_model:.2f }} on average, not far from the {{ 1 / 6:.2f }} of an even split. The symptom: attention is nearly flat everywhere, the model learns slowly, and the program runs without complaint.

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
# **2.** 如果 $W_Q$ 的每个数都乘 2，不缩放的分数变成几倍？「西安」这一行的第一名会换人吗？
#
# <details><summary>答案</summary>
#
# 2 倍，点积对 $Q$ 是线性的。第一名不换：{{ toy.TOKENS[int(np.argmax(score(2 * Q, K)[西安]))] }}。但 softmax 之后它的权重从 {{ softmax(scaled[西安]).max():.3f }} 变成 {{ softmax(scale(score(2 * Q, K), 4)[西安]).max():.3f }}。
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

# %% [markdown] lang="en" of="22b8bb98"
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
# **2.** If every number in $W_Q$ is doubled, what happens to the unscaled scores? Does the first in the row of 西安 change?
#
# <details><summary>Answer</summary>
#
# They double: the dot product is linear in $Q$. The first stays {{ toy.TOKENS[int(np.argmax(score(2 * Q, K)[西安]))] }}. But after the softmax its weight goes from {{ softmax(scaled[西安]).max():.3f }} to {{ softmax(scale(score(2 * Q, K), 4)[西安]).max():.3f }}.
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

# %% [markdown] lang="zh"
# # 06 · 真实的尺寸
#
# | | |
# |---|---|
# | 在哪里 | **归一化 → 投影 → 旋转** → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → **输出投影 → 残差 → 归一化** |
# | 需要什么 | [04 多头和输出投影](04_heads_and_output_projection.ipynb)：拆头、并头、$W_O$ |
# | 走完以后 | 能说出 Qwen2.5-7B 一层注意力里每一步的形状；会旋转一对数；知道 28 个查询头怎样合用 4 个键值头；会数参数、运算和缓存 |
# | 多长时间 | 约 70 分钟 |

# %% [markdown] lang="en" of="cdb43683"
# # 06 · Real shapes
#
# | | |
# |---|---|
# | Where we are | **normalise → project → rotate** → score → scale → mask → softmax → weigh → **project out → residual → normalise** |
# | What you need | [04 Heads and output projection](04_heads_and_output_projection.ipynb): splitting, merging, $W_O$ |
# | What you will be able to do | give the shape of every step of one attention layer of Qwen2.5-7B; rotate a pair of numbers; say how 28 query heads share 4 K/V heads; count parameters, operations and cache |
# | Time | about 70 minutes |

# %%
import numpy as np

from byhand import data, fast, figures_real, models, qwen, rope, show, toy
from byhand import apply_mask, attention, causal_mask, merge_heads, project
from byhand import scale, score, softmax, split_heads, weigh
from byhand.weights import open_gguf

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
model = models.read("Qwen2.5-7B")  # its row in data/models.json
shape = models.layer_shape(model)


def same(a, b):
    """Equal but for the rounding of float32: the largest difference against the largest number."""
    return np.abs(np.asarray(a) - b).max() <= 2e-5 * max(1, np.abs(b).max())


print(
    f"d_model {shape.d_model}   heads {shape.n_heads} × {shape.d_head}   K/V heads {shape.n_kv_heads}"
)
assert shape.n_heads * shape.d_head == shape.d_model  # 28 × 128 = 3584

# %% [markdown] lang="zh"
# ## 什么是真的，什么不是
#
# 真的：Qwen2.5-7B 一层注意力的每个尺寸、每一步的次序、每一步的算法。函数还是 01 到 04 里那几个。
#
# 不是真的：参数。这里用随机数代替，由一个固定的种子产生，人人得到的都一样。六个词的向量也是这样，每个词的向量由它在 Qwen2.5 词表里的号码产生。所以**形状、次序、数量可以当真，权重看向谁不能当真**。随机的参数不认识“西安”。（你有 Qwen2.5-7B 的 GGUF 文件的话，把路径填在下面的 `MY_FILE`，再从头运行，用的就是真的参数。）
#
# 先猜：小例子的一层注意力有 4 个 [4, 4] 的矩阵，64 个参数。真实的一层是它的多少倍？几千倍，几万倍，还是几十万倍？

# %% [markdown] lang="en" of="c947ab5c"
# ## What is real and what is not
#
# Real: every size in one attention layer of Qwen2.5-7B, the order of the steps, and how each is computed. The functions are still those of 01 to 04.
#
# Not real: the parameters. Here they are random numbers drawn from a fixed seed, the same for everyone. So are the vectors of the six tokens: each is drawn from the token's id in the vocabulary of Qwen2.5. So **trust the shapes, the order and the counts, and do not trust where the weights look**. Random parameters know nothing of 西安. (If you have a GGUF file of Qwen2.5-7B, put its path into `MY_FILE` below and run from the top, and the parameters are real.)
#
# Guess first: one attention layer of the toy has 4 matrices [4, 4], 64 parameters. How many times as many has the real one: thousands, tens of thousands, or hundreds of thousands?

# %%
MY_FILE = None  # for real weights: the path of a Qwen2.5-7B file (GGUF), in quotes

ids = list(toy.token_ids().values())  # the six ids in the vocabulary of Qwen2.5
if MY_FILE is None:
    X = qwen.seeded_rows(ids, shape.d_model)  # [6, 3584]
    W = qwen.seeded_weights(shape)
else:
    mine = open_gguf(MY_FILE)
    X = mine.rows("token_embd.weight", ids)  # the real embeddings of the six tokens
    W, shape = mine.layer(0), mine.shape
for name, array in zip(W._fields, W):
    print(f"{name:<11} {list(array.shape)}")

n_parameters = sum(models.attention_parameters(model).values())
print(f"{n_parameters} parameters, {n_parameters // 64} times the toy")
assert n_parameters == sum(w.size for name, w in W._asdict().items() if "norm" not in name)

# %% [markdown] lang="zh"
# {{ n_parameters // 64 }} 倍。
#
# 有两样是小例子里没有的。一样是偏置，就是乘完矩阵再加上的一行数：`b_q`、`b_k`、`b_v`，$W_O$ 没有。另一样是两个 `norm`，属于归一化，下一节讲，不算在上面的个数里。还有一处一眼看不出的：`w_k` 和 `w_v` 只有 512 列，不是 3584。后面会看到为什么。
#
# 这里的 `X` 相当于第一层的输入：每一行只由号码决定。「西安」换到别的句子里，还是这一行。到了后面的层，它就和前面的词有关了。

# %% [markdown] lang="en" of="364b263b"
# {{ n_parameters // 64 }} times as many.
#
# Two things are new. One are the biases, a row of numbers added after the matrix product: `b_q`, `b_k` and `b_v`; $W_O$ has none. The other are the two `norm`, which belong to the normalisation. It comes next, and they are not counted above. A third thing is easy to miss: `w_k` and `w_v` have only 512 columns, not 3584. We shall see why.
#
# Our `X` is like the input of the first layer: each row depends on the id alone. In another sentence 西安 would have the same row. In a later layer it would depend on the tokens before it too.

# %%
again = qwen.seeded_rows([ids[西安]], shape.d_model)  # [1, 3584]
assert MY_FILE is not None or np.array_equal(again[0], X[西安])
print(X.shape, X.dtype, show.row(X[西安, :4]), "…")

# %% [markdown] lang="zh"
# 这里的数是 float32，每个占 4 字节（一个字节是 8 个二进制位）。小例子用的 float64 占 8 字节。Qwen2.5-7B 发布的参数是 bfloat16，只占 2 字节。

# %% [markdown] lang="en" of="015af020"
# The numbers here are float32, 4 bytes each (a byte is 8 bits). The float64 of the toy takes 8. The parameters of Qwen2.5-7B are published in bfloat16, 2 bytes each.

# %% [markdown] lang="zh"
# ## 归一化：RMSNorm
#
# 进投影以前，每一行先除以自己的均方根（平方，取平均，开方），再逐维乘一个学来的增益 $g$：
#
# $$h_c = \frac{x_c}{\sqrt{\frac{1}{d_{model}}\sum_m x_m^2 + \varepsilon}}\; g_c$$
#
# $\varepsilon$ 很小，只防着除以 0。先用循环算「西安」的第 1 个数：

# %% [markdown] lang="en" of="0312bad0"
# ## Normalise: RMSNorm
#
# Before the projections each row is divided by its root mean square (square, mean, root), and then multiplied, dimension by dimension, by a learned gain $g$:
#
# $$h_c = \frac{x_c}{\sqrt{\frac{1}{d_{model}}\sum_m x_m^2 + \varepsilon}}\; g_c$$
#
# $\varepsilon$ is tiny and only guards against a division by 0. First the loop, for number 1 of 西安:

# %%
total = 0.0
for m in range(shape.d_model):
    total += float(X[西安, m]) ** 2
rms = np.sqrt(total / shape.d_model + shape.norm_eps)
by_hand = X[西安, 0] / rms * W.input_norm[0]

mean_square = np.mean(X**2, axis=1, keepdims=True)  # [6, 3584] -> [6, 1]
one_line = X / np.sqrt(mean_square + shape.norm_eps) * W.input_norm  # [6, 3584]
h = qwen.rms_norm(X, W.input_norm, shape.norm_eps)  # [6, 3584]
print(f"{by_hand:.4f}  {one_line[西安, 0]:.4f}  {h[西安, 0]:.4f}   root mean square {rms:.4f}")
assert same(by_hand, h[西安, 0])
assert same(one_line, h)

louder = qwen.rms_norm(10 * X, W.input_norm, shape.norm_eps)
assert np.allclose(louder, h, rtol=5e-3, atol=1e-5)  # ten times as large; the same but for ε

# %% [markdown] lang="zh"
# 整行放大十倍，归一化以后不变。训练好的模型里，一层层加下来，残差流里的数往往越来越大。有了这一步，后面的投影收到的数总是差不多大。
#
# 老一些的模型用 LayerNorm：先减去一行的平均，再除，最后还加一个学来的偏移。RMSNorm 不减，也不加。

# %% [markdown] lang="en" of="fcfada0b"
# Ten times as large, and the same after the norm. Layer after layer adds to the residual stream, and in trained models its numbers tend to grow. With this step the projections always receive numbers of about the same size.
#
# Older models use LayerNorm: subtract the mean of the row, divide, and at the end add a learned shift. RMSNorm neither subtracts nor adds.

# %% [markdown] lang="zh"
# ## 投影：Q 宽，K 和 V 窄
#
# 01 里是 $Q = XW_Q$。这里 $h$ 站到 $X$ 的位置，再加一个偏置：$Q = hW_Q + b_Q$。小例子里 $Q$ 的一个数是 4 个乘积的和，这里是 3584 个：

# %% [markdown] lang="en" of="3cfdcf18"
# ## Project: Q is wide, K and V are narrow
#
# In 01 it was $Q = XW_Q$. Now $h$ takes the place of $X$, and a bias is added: $Q = hW_Q + b_Q$. In the toy one number of $Q$ is a sum of 4 products. Here it is a sum of 3584:

# %%
by_hand = 0.0
for m in range(shape.d_model):
    by_hand += float(h[西安, m]) * float(W.w_q[m, 0])
by_hand += float(W.b_q[0])

Q = project(h, W.w_q, W.b_q)  # [6, 3584] @ [3584, 3584] -> [6, 3584]
K = project(h, W.w_k, W.b_k)  # [6, 3584] @ [3584,  512] -> [6,  512]
V = project(h, W.w_v, W.b_v)  # [6, 3584] @ [3584,  512] -> [6,  512]
print(f"{by_hand:.4f}  {(h @ W.w_q + W.b_q)[西安, 0]:.4f}  {Q[西安, 0]:.4f}")
assert same(by_hand, Q[西安, 0])
assert same(h @ W.w_q + W.b_q, Q)

q = split_heads(Q, shape.n_heads)  # [6, 3584] -> [28, 6, 128]
k = split_heads(K, shape.n_kv_heads)  # [6, 512] -> [4, 6, 128]
v = split_heads(V, shape.n_kv_heads)  # [6, 512] -> [4, 6, 128]
print("q", list(q.shape), "  k", list(k.shape), "  v", list(v.shape))

# %% [markdown] lang="zh"
# 28 个查询头，4 个键头，4 个值头，每个头 128 维。常见的说法是“每个头有自己的 $W_Q$、$W_K$、$W_V$”；在这里，只有 $W_Q$ 是每个头一份，$W_K$ 和 $W_V$ 只有 4 份。
#
# （论文和代码里也写 [6, 28, 128]，词在前、头在后。是同样的数。这里把头放前面，是因为后面每个头要各算各的。）
#
# 一个容易丢的东西是偏置。从别的模型抄来的代码常常没有它，形状照样对：

# %% [markdown] lang="en" of="11d9e612"
# 28 query heads, 4 key heads, 4 value heads, 128 dimensions each. It is often said that every head has its own $W_Q$, $W_K$ and $W_V$; here only $W_Q$ has a part for each head, and of $W_K$ and $W_V$ there are only 4 parts.
#
# (Papers and code also write [6, 28, 128], tokens first and heads second. The numbers are the same. We put the heads first because each of them goes on by itself.)
#
# The bias is easily lost. Code that was copied from another model often lacks it, and the shape is still right:

# %%
without_bias = project(h, W.w_q)
assert without_bias.shape == Q.shape and not same(without_bias, Q)
print(show.row(Q[西安, :4]), "  with the bias")
print(show.row(without_bias[西安, :4]), "  without")

# %% [markdown] lang="zh"
# ## 旋转：RoPE
#
# 到现在为止，只有因果遮罩看词的次序。没有遮罩，把小例子的六个词倒过来排，每个词的上下文向量不变，只是跟着换行：

# %% [markdown] lang="en" of="99fbd3fc"
# ## Rotate: RoPE
#
# So far only the causal mask depends on the order of the tokens. Without it, reverse the six tokens of the toy, and no token's context changes; the rows only come in another order:

# %%
t = toy.load()
there = attention(t.X @ t.W_Q, t.X @ t.W_K, t.X @ t.W_V).context  # [6, 4]
backwards = t.X[::-1]
reversed_context = attention(backwards @ t.W_Q, backwards @ t.W_K, backwards @ t.W_V).context
assert np.allclose(reversed_context, there[::-1], rtol=0, atol=1e-12)  # 西安 is row 4 now
print(show.row(there[西安]), "  西安, second of six")
print(show.row(reversed_context[4]), "  西安, fifth of six")

# %% [markdown] lang="zh"
# Qwen2.5 把位置放进查询和键里：按位置**转一个角度**。128 个数分成 64 对，每对看作平面上的一支箭。第 $i$ 个数和第 $i+64$ 个数是一对。
#
# 转一对数 $(a, b)$，角度 $\varphi$：
#
# $$a' = a\cos\varphi - b\sin\varphi,\qquad b' = b\cos\varphi + a\sin\varphi$$
#
# 第 0 对每往后一个位置转 1 弧度。（弧度是量角的单位，一整圈是 $2\pi$ 弧度；1 弧度约 57 度。）「西安」在位置 1，所以 $\varphi = 1$。头 0 里它的这一对：

# %% [markdown] lang="en" of="df5984b0"
# Qwen2.5 puts the position into the query and the key: it **turns** them by an angle that depends on the position. The 128 numbers make 64 pairs, each an arrow in a plane. Number $i$ and number $i+64$ are a pair.
#
# To turn a pair $(a, b)$ by an angle $\varphi$:
#
# $$a' = a\cos\varphi - b\sin\varphi,\qquad b' = b\cos\varphi + a\sin\varphi$$
#
# Pair 0 turns by 1 radian from each position to the next. (A full turn is $2\pi$ radians; 1 radian is about 57 degrees.) 西安 is at position 1, so $\varphi = 1$. Its pair in head 0:

# %%
half = shape.d_head // 2  # 64
a, b = float(q[0, 西安, 0]), float(q[0, 西安, half])
phi = 西安 * 1  # position 1, 1 radian a position
a_turned = a * np.cos(phi) - b * np.sin(phi)
b_turned = b * np.cos(phi) + a * np.sin(phi)
print(f"({a:.3f}, {b:.3f}) turned by {phi} radian: ({a_turned:.3f}, {b_turned:.3f})")

angles = rope.angles(range(6), shape.d_head, shape.rope_theta)  # [6, 64]
q_turned, k_turned = rope.rotate(q, angles), rope.rotate(k, angles)  # [28, 6, 128], [4, 6, 128]
assert same(q_turned[0, 西安, 0], a_turned)
assert same(q_turned[0, 西安, half], b_turned)
assert np.isclose(
    np.hypot(a, b), np.hypot(a_turned, b_turned), rtol=0, atol=1e-9
)  # the same length
assert np.array_equal(q_turned[:, 今天], q[:, 今天])  # position 0 does not turn

# %% [markdown] lang="zh"
# 长度不变，方向变了。位置 0 不转，「今天」原样不动。
#
# 后面的对转得越来越慢。第 $i$ 对每个位置转 $\theta^{-2i/128}$ 弧度，$\theta$ 在 Qwen2.5-7B 里是一百万：

# %% [markdown] lang="en" of="d8825beb"
# The length stays, the direction changes. At position 0 nothing turns, and 今天 is as it was.
#
# Later pairs turn ever more slowly. Pair $i$ turns by $\theta^{-2i/128}$ radians a position; in Qwen2.5-7B $\theta$ is a million:

# %%
for i in (0, 16, 32, 48, 63):
    speed = shape.rope_theta ** (-2 * i / shape.d_head)
    print(
        f"pair {i:>2}   {speed:.2e} radians a position   a full turn in {2 * np.pi / speed:.0f} positions"
    )
    assert np.isclose(speed, rope.frequencies(shape.d_head, shape.rope_theta)[i], rtol=1e-12)

long_angles = rope.angles(range(64), shape.d_head, shape.rope_theta)  # [64, 64]
figures_real.turning([a, b], long_angles, lang)

# %% [markdown] lang="zh"
# 左图是这一对在位置 0 到 5 的样子，每支箭旁边是它的位置。右图是全部 64 对：深绿是没有转，深褐是转了半圈。左边的对几个位置就转完一圈，右边的对走完 64 个位置也几乎没动。快的，换到邻近的位置就变样；慢的，要隔几千个位置才变。
#
# ### 位置之中，只有距离算数
#
# 把一对数每个位置转的角度记作 $\omega$，每一对有自己的 $\omega$。查询在位置 $m$，转了 $m\omega$；键在位置 $n$，转了 $n\omega$。两支箭的点积，是两个长度相乘，再乘夹角的余弦。长度没变，夹角变了 $(m-n)\omega$。128 维的点积是 64 对的和，也是这样。所以分数除了看两个向量本身，只看**距离** $m-n$，不看两个词在文中的绝对位置。
#
# 拿「怎么样」的查询和「西安」的键，头 0。一次把键放在位置 0，一次放在位置 1000，查询在它后面 0 到 63 个位置：

# %% [markdown] lang="en" of="e4f8184f"
# On the left is this pair at positions 0 to 5, each arrow labelled with its position. On the right are all 64 pairs: dark green is not turned, dark brown is half a turn. Those at the left edge go round in a few positions; those at the right edge have hardly moved after 64. The fast pairs change from one neighbour to the next. The slow ones change only over thousands of positions.
#
# ### Of the two positions, only the distance counts
#
# Call the turn per position $\omega$; each pair has its own. The query is at position $m$ and has turned by $m\omega$; the key is at position $n$ and has turned by $n\omega$. The dot product of two arrows is the product of their lengths, times the cosine of the angle between them. The lengths stay, and the angle has changed by $(m-n)\omega$. The whole dot product is the sum over 64 pairs. So the score depends on the two vectors themselves, and of their positions only on the **distance** $m-n$, not on where in the text the tokens stand.
#
# Take the query of 怎么样 and the key of 西安, in head 0. Put the key at position 0, then at position 1000, and the query 0 to 63 positions after it:


# %%
def score_at(m, n, pairing="half"):
    """The score of the query of 怎么样 at position m and the key of 西安 at position n."""
    turned_q = rope.rotate(
        q[0, [怎么样]], rope.angles([m], shape.d_head, shape.rope_theta), pairing
    )
    turned_k = rope.rotate(k[0, [西安]], rope.angles([n], shape.d_head, shape.rope_theta), pairing)
    return score(turned_q, turned_k)[0, 0]  # [1, 128] @ [128, 1] -> one number


distances = range(64)
from_0 = [score_at(d, 0) for d in distances]
from_1000 = [score_at(1000 + d, 1000) for d in distances]
assert same(from_0, from_1000)

length_q, length_k = np.hypot(a, b), np.hypot(1, 2)  # one pair: ours, and (1, 2) for a key
angle_q, angle_k = np.arctan2(b, a), np.arctan2(2, 1)
pair_q, pair_k = rope.rotate([[a, b]], [[4.0]]), rope.rotate([[1, 2]], [[1.0]])  # m = 4, n = 1
by_angle = length_q * length_k * np.cos(angle_q - angle_k + (4 - 1))
assert np.isclose(score(pair_q, pair_k)[0, 0], by_angle, rtol=0, atol=1e-9)
assert same(from_0[怎么样 - 西安], score(q_turned[0], k_turned[0])[怎么样, 西安])
figures_real.score_by_distance(distances, {"key at 0": from_0, "key at 1000": from_1000}, lang)

# %% [markdown] lang="zh"
# 两条曲线重合。这里没有“越远分数越低”：这个查询和这个键是随机的，曲线就上下起伏。训练好的模型可以学会让哪些距离分数高。
#
# ### 动一动：一对数，两个位置
#
# 128 维的点积是 64 对的和。拿出一对来看：查询是 (2, 1)，键是 (1, 2)，没有转的时候点积是 2 × 1 + 1 × 2 = 4。查询放在位置 4，键放在位置 1；再把两个都往后挪 100 个位置。这一对先当第 0 对转，再当第 16 对转：

# %% [markdown] lang="en" of="b503d0be"
# The two curves coincide. There is no rule here that farther means lower: this query and this key are random, and their curve goes up and down. A trained model can learn at which distances the score is high.
#
# ### Move it: one pair, two positions
#
# The dot product of 128 dimensions is the sum over 64 pairs. Take out one of them: (2, 1) in the query and (1, 2) in the key, whose dot product before the turn is 2 × 1 + 1 × 2 = 4. Put the query at position 4 and the key at position 1; then move both 100 positions further on. Turn the pair as pair 0 first, then as pair 16:


# %%
def turn(pair, position, i):
    """Two numbers turned as pair i of a head at that position. [1, 2] -> [1, 2]"""
    return rope.rotate(pair, rope.angles([position], shape.d_head, shape.rope_theta)[:, [i]])


two_q, two_k = [[2.0, 1.0]], [[1.0, 2.0]]
assert score(two_q, two_k)[0, 0] == 4  # before the turn
for i in (0, 16):
    for m, n in ((4, 1), (104, 101)):
        print(f"pair {i}, query at {m}, key at {n}")
        for name, two, position in (("q", two_q, m), ("k", two_k, n)):
            ((x, y),) = turn(two, position, i)
            radians = rope.angles([position], shape.d_head, shape.rope_theta)[0, i]
            by = f"{radians:7.3f} radians, {radians / (2 * np.pi):6.3f} turns"
            print(f"    {name} by {by}: {show.row([x, y])}   length {np.hypot(x, y):.3f}")
            assert np.isclose(np.hypot(x, y), np.hypot(2, 1), rtol=0, atol=1e-12)
        print(f"    dot product {score(turn(two_q, m, i), turn(two_k, n, i))[0, 0]:.2f}")

by_pair = {
    f"pair {i}": [score(turn(two_q, d, i), turn(two_k, 0, i))[0, 0] for d in distances]
    for i in (0, 16)
}
figures_real.score_by_distance(distances, by_pair, lang)

# %% [markdown] lang="zh"
# 下面三个滑块：查询的位置，键的位置，第几对。左边两个圆是转以前和转以后，实线箭头是查询，虚线箭头是键。表里是转过的角度。最下面是这一对的点积随距离怎么变，圆点标出现在的距离。两个按钮把两个位置一起挪。（键在查询后面，距离就是负的；有因果遮罩的模型用不到那一半。）
#
# 先猜：查询在 200，键在 0。第 0 对的点积还是 4 吗？第 63 对呢？猜完按“回到开始”，再按“两个都往后（最多 10）”：哪些东西会动，哪些不动？

# %% [markdown] lang="en" of="28e7fe8d"
# There are three sliders: the position of the query, that of the key, and the pair. The two circles on the left are before and after the turn; the solid arrow is the query, the dashed one the key. The table has the angles. At the bottom is the dot product of this pair over the distance, and a dot marks the present distance. Two buttons move both positions together. (With the key after the query the distance is negative; a model with a causal mask has no use for that half.)
#
# Guess first: the query is at 200, the key at 0. Is the dot product of pair 0 still 4? And that of pair 63? After the guess press “Start again”, then “both further on (10 at most)”: what moves, and what stays?

# %%
from byhand.explorers import rotation

turning = rotation.explorer(lang)
turning

# %%
dots = {}
for m, n, i in ((200, 0, 0), (200, 0, 63), (4, 1, 0), (104, 101, 0)):
    turning.set(query_position=m, key_position=n, pair=i)
    dots[m, n, i] = score(turn(two_q, m, i), turn(two_k, n, i))[0, 0]
    assert f"{dots[m, n, i]:.2f}" in turning.says.splitlines()[0]
    print(f"{i:>2}   {turning.says.splitlines()[0]}")
    for x, y in (*turn(two_q, m, i), *turn(two_k, n, i)):
        assert f"({x:z.3f}, {y:z.3f})" in turning.says
assert np.isclose(dots[4, 1, 0], dots[104, 101, 0], rtol=0, atol=1e-9)
_ = turning.reset()

# %% [markdown] lang="zh"
# 第 0 对变成 {{ dots[200, 0, 0]:.2f }}，第 63 对还是 {{ dots[200, 0, 63]:.2f }}：走 200 个位置，第 0 对转了 {{ 200 / (2 * np.pi):.1f }} 圈，第 63 对几乎没转。
#
# 两个位置一起挪，两支箭一起转，夹角不变，点积也不变：位置 4 和 1，{{ dots[4, 1, 0]:.2f }}；位置 104 和 101，{{ dots[104, 101, 0]:.2f }}。箭的长度始终不变。

# %% [markdown] lang="en" of="c9c9f526"
# Pair 0 comes to {{ dots[200, 0, 0]:.2f }}, pair 63 is still {{ dots[200, 0, 63]:.2f }}. In 200 positions pair 0 makes {{ 200 / (2 * np.pi):.1f }} turns, and pair 63 hardly moves.
#
# Move both positions together, and both arrows turn together. The angle between them stays, and so does the dot product: {{ dots[4, 1, 0]:.2f }} at positions 4 and 1, {{ dots[104, 101, 0]:.2f }} at 104 and 101. The arrows keep their length throughout.

# %% [markdown] lang="zh"
# ### 为什么 V 不转
#
# 位置已经在分数里了。值是取走的内容，转了它，内容就和绝对位置搅在一起。把整句话往后挪 1000 个位置，看上下文向量变不变：

# %% [markdown] lang="en" of="b468a93d"
# ### Why V is not turned
#
# The position is already in the score. A value is the content that is taken; turn it, and the content gets mixed up with the absolute position. Move the whole sentence by 1000 positions and see whether the context changes:


# %%
def contexts(start, turn_v):
    """The context of head 0 with the sentence at positions start … start + 5. [6, 128]"""
    at = rope.angles(range(start, start + 6), shape.d_head, shape.rope_theta)
    v_0 = rope.rotate(v[0], at) if turn_v else v[0]
    return attention(rope.rotate(q[0], at), rope.rotate(k[0], at), v_0, causal_mask(6)).context


for turn_v in (False, True):
    moved = np.abs(contexts(1000, turn_v) - contexts(0, turn_v)).max() / np.abs(v[0]).max()
    print(f"V turned: {turn_v!s:<5}   the context moves by {moved:.3f} of the largest number in V")
    assert (moved > 0.01) == turn_v

# %% [markdown] lang="zh"
# ### 怎么配对，跟参数走
#
# 上面的配法，一半配另一半，英文叫 half-split。另有一种叫 interleaved：相邻的两个数一对，$(0,1)$、$(2,3)$……原论文和 LLaMA 最初的代码是这样。两种转法都只看距离，但是**同一份参数只认一种**。换一种，分数就不一样：

# %% [markdown] lang="en" of="b86fffd5"
# ### The pairing belongs to the parameters
#
# Our pairing, one half with the other, is called half-split. There is another, interleaved: neighbours, $(0,1)$, $(2,3)$ and so on. The paper and LLaMA's first code do that. With both, the score depends on the distance only, but **a set of parameters goes with one of them**. With the other one the scores differ:

# %%
right, wrong = score_at(4, 1), score_at(4, 1, pairing="interleaved")
print(f"half-split {right:.2f}   interleaved {wrong:.2f}")
assert not same(right, wrong)
assert same(wrong, score_at(1004, 1001, "interleaved"))  # distance only

# The way from one to the other: columns 0, 2, 4 … first, then 1, 3, 5 …
order = rope.half_from_interleaved(shape.d_head)  # [128]
print(order[:4], "…", order[half : half + 4], "…")
back = np.argsort(order)  # the inverse of order
q_neighbours, k_neighbours = q[..., back], k[..., back]  # as LLaMA's first code would store them
same_scores = score(
    rope.rotate(q_neighbours[0], angles, "interleaved"),
    rope.rotate(k_neighbours[0], angles, "interleaved"),
)  # [6, 6]
assert same(same_scores, score(q_turned[0], k_turned[0]))

# %% [markdown] lang="zh"
# 要把相邻配对的参数拿来给 half-split 用，就把 $W_Q$、$W_K$ 每个头的列按 `order` 重排，$b_Q$、$b_K$ 也一样。转换模型文件的程序做的就是这件事；漏了它，形状全对，输出的文字却不知所云。
#
# ## 28 个查询头，4 个键值头
#
# 查询有 28 个头，键和值只有 4 个头。每 7 个查询头合用一个：

# %% [markdown] lang="en" of="264bac88"
# To use parameters made for neighbours with half-split, reorder the columns of $W_Q$ and $W_K$ by `order`, head by head, and the entries of $b_Q$ and $b_K$ likewise. Programs that convert model files do this. Where it is left out, every shape is right and the text that comes out makes no sense.
#
# ## 28 query heads, 4 K/V heads
#
# There are 28 heads of queries and only 4 of keys and values. Every 7 query heads share one:

# %%
group = shape.n_heads // shape.n_kv_heads  # 7
for h_kv in range(shape.n_kv_heads):
    sharing = [head for head in range(shape.n_heads) if head // group == h_kv]
    print(f"K/V head {h_kv}: query heads {sharing[0]} to {sharing[-1]}")
figures_real.shared_heads(shape.n_heads, shape.n_kv_heads, lang)

# %% [markdown] lang="zh"
# 第 $i$ 个查询头用第 `i // 7` 个键值头（`//` 是除了取整）。这叫分组查询注意力，GQA。
#
# 程序里常见的写法是先把键和值复制成 28 份。复制的次序有两种，只有一种对。四个查询头、两个键值头的小例子：

# %% [markdown] lang="en" of="0c3501a2"
# Query head $i$ uses K/V head `i // 7`. This is grouped-query attention, GQA.
#
# Code often copies the keys and values until there are 28. There are two orders to copy in, and only one is right. A toy with four query heads and two K/V heads:

# %%
kv = np.array(["kv0", "kv1"])
print("repeat:", np.repeat(kv, 2), "  right: heads 0 and 1 share kv0")
print("tile:  ", np.tile(kv, 2), "  wrong: heads 0 and 2 share kv0")

rng = np.random.default_rng(0)
q4, k2, v2 = (
    rng.standard_normal((4, 5, 3)),
    rng.standard_normal((2, 5, 3)),
    rng.standard_normal((2, 5, 3)),
)
repeated = attention(q4, np.repeat(k2, 2, axis=0), np.repeat(v2, 2, axis=0)).context  # [4, 5, 3]
tiled = attention(q4, np.tile(k2, (2, 1, 1)), np.tile(v2, (2, 1, 1))).context
for head in range(4):
    kv_head = head // 2
    alone = attention(q4[head], k2[kv_head], v2[kv_head]).context
    assert np.allclose(repeated[head], alone, rtol=0, atol=1e-12)
    agrees = np.allclose(tiled[head], alone, rtol=0, atol=1e-12)
    print(f"query head {head}: tiled is {'the same' if agrees else 'different'}")
    assert agrees == (head in (0, 3))

one = k2[:1]  # with a single K/V head nothing can go wrong, and nothing shows
assert np.array_equal(np.repeat(one, 2, axis=0), np.tile(one, (2, 1, 1)))

# %% [markdown] lang="zh"
# 头 0 和头 3 碰巧一样，头 1 和头 2 拿错了键值。形状全对，什么也不报。只有一个键值头的时候，两种写法没有区别。拿两个查询头、一个键值头的例子去测，查不出这个错。
#
# 名字也容易弄错：PyTorch 的 `Tensor.repeat` 是 NumPy 的 `tile`；PyTorch 的 `repeat_interleave` 才是 NumPy 的 `repeat`。
#
# 可以不复制。把 28 个查询头排成 4 组，每组 7 个，形状是 [4, 7, 6, 128]。键和值排成 [4, 1, 6, 128]。第二个轴一边是 7，一边是 1。长度是 1 的那一边，NumPy 拿同一份去配 7 个，不复制。这叫广播：

# %% [markdown] lang="en" of="9e14b48b"
# Heads 0 and 3 happen to agree; heads 1 and 2 have the wrong keys and values. All the shapes are right and nothing complains. With a single K/V head there is no difference between the two, so a test with 2 query heads on 1 cannot find this mistake.
#
# The names are a trap too: PyTorch's `Tensor.repeat` is NumPy's `tile`, and PyTorch's `repeat_interleave` is NumPy's `repeat`.
#
# There is no need to copy. Arrange the 28 query heads in 4 groups of 7: [4, 7, 6, 128]. Arrange keys and values as [4, 1, 6, 128]. Along the second axis one side has 7 and the other has 1. Where one side has length 1, NumPy uses that one for all 7, without a copy. This is called broadcasting:

# %%
q_grouped = qwen.group_heads(q_turned, shape.n_kv_heads)  # [28, 6, 128] -> [4, 7, 6, 128]
k_shared, v_shared = k_turned[:, None], v[:, None]  # [4, 6, 128] -> [4, 1, 6, 128]
scores = score(q_grouped, k_shared)  # [4, 7, 6, 128] @ [4, 1, 128, 6] -> [4, 7, 6, 6]
scores = scores.reshape(shape.n_heads, 6, 6)  # [28, 6, 6]

copied = np.repeat(k_turned, group, axis=0)  # [28, 6, 128]
assert same(scores, score(q_turned, copied))
by_hand = 0.0
for m in range(shape.d_head):  # head 20 uses K/V head 20 // 7 = 2
    by_hand += float(q_turned[20, 怎么样, m]) * float(k_turned[20 // group, 西安, m])
assert same(by_hand, scores[20, 怎么样, 西安])
print(f"{by_hand:.2f}  {scores[20, 怎么样, 西安]:.2f}   head 20, 怎么样 → 西安")
assert np.shares_memory(k_shared, k_turned)  # no copy
print(f"copied K: {copied.nbytes} bytes; shared K: {k_shared.nbytes} bytes")

# %% [markdown] lang="zh"
# ## 缩放、遮罩、softmax、加权取值
#
# 这四步的算法和 01 到 03 一样，只是前面多了头这个轴。除数是 $\sqrt{128}$，不是 $\sqrt{3584}$。生成文字的模型不许看后面的词，所以加遮罩：

# %% [markdown] lang="en" of="d0b8a2cf"
# ## Scale, mask, softmax, weigh
#
# These four steps are those of 01 to 03, with one more axis in front for the heads. The divisor is $\sqrt{128}$, not $\sqrt{3584}$. A model that writes text may not look at later tokens, so there is a mask:

# %%
scaled = scale(scores, shape.d_head)  # [28, 6, 6]
masked = apply_mask(scaled, causal_mask(6))  # [28, 6, 6]
weights = softmax(masked)  # [28, 6, 6]
context = weigh(
    weights.reshape(4, 7, 6, 6), v_shared
)  # [4, 7, 6, 6] @ [4, 1, 6, 128] -> [4, 7, 6, 128]
context = context.reshape(shape.n_heads, 6, shape.d_head)  # [28, 6, 128]

assert same(weights.sum(axis=-1), 1)
if MY_FILE is None:
    assert q.var() > 1.2 and k.var() > 1.2  # the biases add to the variance
assert np.all(weights[:, 今天, 0] == 1)  # the first token sees only itself, in every head
by_hand = sum(float(weights[20, 怎么样, j]) * float(v[20 // group, j, 0]) for j in range(6))
assert same(by_hand, context[20, 怎么样, 0])
print(f"standard deviation of the scores: {scores.std():.2f}, scaled: {scaled.std():.2f}")
figures_real.heads_grid(weights, shape.n_kv_heads, lang)

# %% [markdown] lang="zh"
# 缩放以前，分数的标准差是 {{ scores.std():.2f}}。[01](01_scores_and_scaling.ipynb) 说过，数的方差是 1 的时候，应当在 $\sqrt{128}$，也就是 {{ np.sqrt(128):.1f}} 左右。这里大一些，因为加了偏置，$q$ 和 $k$ 里的数方差不止 1。
#
# 每个头一张表，一共 28 张，每张 [6, 6]。右上角灰的是后面的词。同一排的七个头用的是同一份键，看的词却不同，因为查询不同。
#
# 每张表的第一行都只有一格：「今天」前面没有词，权重 1 全给自己。
#
# ## 并头、W_O、残差、归一化
#
# 28 份上下文向量并排，又是 3584 个数一行。$W_O$ 是 [3584, 3584]：

# %% [markdown] lang="en" of="63dfa7b2"
# Before the scaling the standard deviation of the scores is {{ scores.std():.2f}}. [01](01_scores_and_scaling.ipynb) expects about $\sqrt{128}$, which is {{ np.sqrt(128):.1f}}, for numbers of variance 1. It is larger here: the biases are added, and the numbers in $q$ and $k$ have a variance above 1.
#
# Each head has a table, 28 in all, each [6, 6]. The grey corner are later tokens. The seven heads in one row use the same keys, and yet they look at different tokens, because their queries differ.
#
# The first row of every table has a single cell: before 今天 there is no token, and the whole weight of 1 goes to itself.
#
# ## Merge, W_O, residual, normalise
#
# The 28 contexts side by side are again 3584 numbers a row. $W_O$ is [3584, 3584]:

# %%
merged = merge_heads(context)  # [28, 6, 128] -> [6, 3584]
output = project(merged, W.w_o)  # [6, 3584] @ [3584, 3584] -> [6, 3584]
residual = X + output  # [6, 3584]; X before the norm
ffn_input = qwen.rms_norm(residual, W.ffn_norm, shape.norm_eps)  # [6, 3584]

by_head = sum(context[i] @ W.w_o[128 * i : 128 * (i + 1)] for i in range(shape.n_heads))
assert same(by_head, output)  # each head through its own 128 rows of W_O
transposed = project(merged, W.w_o.T)  # square, so nothing complains
assert transposed.shape == output.shape and not same(transposed, output)
for name, array in {
    "X": X,
    "output": output,
    "X + output": residual,
    "ffn_input": ffn_input,
}.items():
    print(f"{show.row(array[西安, :4])} …  {name}")

# %% [markdown] lang="zh"
# 两点要留心：
#
# * 输出加到**没有归一化的** $X$ 上，不是加到 $h$ 上。归一化在岔路上做，残差流里的 $X$ 不归一化。
# * $W_Q$ 和 $W_O$ 都是方的，[3584, 3584]。转置了，形状查不出来。
#
# 一层注意力就到这里。`ffn_input` 是 FFN 收到的东西，[6, 3584]，每个词一行，上面没有头的痕迹。
#
# 库里的 `qwen.layer` 一次做完这些步骤。从它的每一步里，把形状再列一遍：

# %% [markdown] lang="en" of="21acee20"
# Two things to mind:
#
# * The output is added to $X$ **before the norm**, not to $h$. The norm sits on a branch; the residual stream itself is left alone.
# * $W_Q$ and $W_O$ are both square, [3584, 3584]. Transpose one, and no shape will tell.
#
# One layer of attention ends here. `ffn_input` is what the FFN receives, [6, 3584], one row a token and no trace of heads.
#
# In the library `qwen.layer` does all these steps in one call. The shapes once more, from its stages:

# %%
step = qwen.layer(X, W, shape)
stages = qwen.attend_stages(step.normed, W, shape)
for ours, the_library in (
    (h, step.normed),
    (weights, stages.weights),
    (context, stages.context),
    (output, step.output),
    (ffn_input, step.ffn_input),
):
    assert same(ours, the_library)

for name, array in {"x": X, "normed": step.normed, **stages._asdict()}.items():
    if name != "cache":
        print(f"{name:<11} {list(array.shape)}")
print(f"{'residual':<11} {list(step.residual.shape)}")
print(f"{'ffn_input':<11} {list(step.ffn_input.shape)}")

# %% [markdown] lang="zh"
# 生成文字的时候，词是一个一个来的。前面各词的键和值不会再变，留着就行，这就是**缓存**（KV cache）：
#
# * 键放进去以前已经转好。它的位置不会变。
# * 查询用过一次就没用了，不留。
# * 新来的词在下一个位置，也就是缓存里词的个数。后面没有词，不用遮罩。
#
# 一个词一个词地走，结果和六个词一起算的一样：

# %% [markdown] lang="en" of="469b00ec"
# When text is written, tokens come one at a time. The keys and values of the tokens before will not change and can be kept. This is the **cache** (KV cache):
#
# * Keys go in already turned. Their position will not change.
# * A query is used once and not kept.
# * The new token takes the next position, the number of tokens in the cache. No token comes after it, so it needs no mask.
#
# Go token by token, and the result is that of all six at once:

# %%
cache = None
for i in range(6):
    one = qwen.layer(X[i : i + 1], W, shape, cache)  # [1, 3584]
    cache = one.cache
    assert same(one.ffn_input[0], ffn_input[i])
assert same(cache.k, k_turned)  # turned keys, 4 heads and not 28
print("cache.k", list(cache.k.shape), "  cache.v", list(cache.v.shape))

# the library's fast way to the same numbers; notebook 10 says how it works
by_fast = qwen.layer(X, W, shape, attend=fast.attend)
assert same(by_fast.ffn_input, ffn_input)

# %% [markdown] lang="zh"
# ## 数一数：参数
#
# 一层里，注意力有四个矩阵，FFN 有三个（gate、up、down，[3584, 18944] 两个，[18944, 3584] 一个）：

# %% [markdown] lang="en" of="59ddddd8"
# ## Counting: parameters
#
# In one layer attention has four matrices and the FFN three (gate, up and down: two of [3584, 18944] and one of [18944, 3584]):

# %%
counts = models.attention_parameters(model)
ffn = models.ffn_parameters(model)
for name, n in counts.items():
    print(f"{name:<5}{n:>12}")
print(f"FFN  {ffn:>12}   {ffn / n_parameters:.2f} times attention")

bars = {
    "W_Q": counts["W_Q"],
    "W_K, W_V": counts["W_K"] + counts["W_V"],
    "W_O": counts["W_O"],
    **dict.fromkeys(("gate", "up", "down"), ffn // 3),
}
parts = {"attention": ("W_Q", "W_K, W_V", "W_O"), "FFN": ("gate", "up", "down")}
figures_real.parameter_bars(bars, parts, lang)

# %% [markdown] lang="zh"
# 文章说 FFN 的参数是注意力的 2 到 3 倍。GPT-2 正好是 2 倍，Qwen2.5-7B 是 {{ ffn / n_parameters:.1f }} 倍。差在两处。一处是 FFN 自己：GPT-2 有两个矩阵，宽度是 `d_model` 的 4 倍；Qwen2.5-7B 有三个，宽度是 {{ model.d_ffn / model.d_model:.1f}} 倍。另一处是键值头少，$W_K$、$W_V$ 就小。下面也算一算，假如 Qwen2.5-7B 有 28 个键值头会怎样：

# %% [markdown] lang="en" of="7d58e8e4"
# The article says that the FFN has 2 to 3 times the parameters of attention. In GPT-2 it is 2 times, in Qwen2.5-7B it is {{ ffn / n_parameters:.1f }}. Two things make the difference. One is the FFN itself: in GPT-2 it has two matrices, 4 times as wide as `d_model`; in Qwen2.5-7B it has three, {{ model.d_ffn / model.d_model:.1f}} times as wide. The other is that with few K/V heads $W_K$ and $W_V$ are small. Below we also ask what the ratio would be if Qwen2.5-7B had 28 K/V heads:


# %%
def ffn_over_attention(m):
    return models.ffn_parameters(m) / sum(models.attention_parameters(m).values())


print("FFN / attention   K/V heads")
for name in ("GPT-2 (124M)", "Qwen2.5-7B", "LLaMA-3-8B", "GLM-4-9B (chat)", "Gemma-7B"):
    m = models.read(name)
    print(f"{ffn_over_attention(m):>15.2f}   {m.n_kv_heads:>2} of {m.n_heads}   {name}")
all_heads = ffn_over_attention(model._replace(n_kv_heads=model.n_heads))
print(f"{all_heads:>15.2f}   28 of 28   Qwen2.5-7B if it had them")
assert 3.9 < all_heads < 4 < ffn_over_attention(model)

# %% [markdown] lang="zh"
# FFN 的改变，使 2 变成 {{ all_heads:.2f}}；键值头从 28 个减到 4 个，又使它变成 {{ ffn_over_attention(model):.2f}}。
#
# 整个模型：28 层，再加三样。嵌入，号码变向量的那张表，[152064, 3584]。最后猜下一个词的矩阵，也是 [152064, 3584]；它不是 $W_O$。最后一次归一化的增益，3584 个。
#
# 和一个真实文件对一对。它是 DeepSeek-R1-Distill-Qwen-7B，各层的尺寸和 Qwen2.5-7B 一样，文件开头的目录列着每个数组的形状：

# %% [markdown] lang="en" of="5c31538f"
# The change of the FFN turns 2 into {{ all_heads:.2f}}; going from 28 K/V heads to 4 turns that into {{ ffn_over_attention(model):.2f}}.
#
# The whole model: 28 layers, and three things more. The embedding, the table that turns ids into vectors, [152064, 3584]. The matrix that guesses the next token at the end, [152064, 3584] as well; it is not $W_O$. The gain of a last norm, 3584.
#
# Compare with a real file, DeepSeek-R1-Distill-Qwen-7B, whose layers have the sizes of Qwen2.5-7B. Its table of contents lists the shape of every array:

# %%
per_layer = n_parameters + ffn + 2 * model.d_model  # with two norms
whole = model.n_layers * per_layer + 2 * model.vocab * model.d_model + model.d_model

header = data.read_json("gguf_7b_header.json")["tensors"]
in_file = sum(int(np.prod(tensor["ne"])) for tensor in header)
print(f"counted {whole}   in the file {in_file}")
assert whole == in_file
print(f"attention is {model.n_layers * n_parameters / whole:.1%} of all parameters")

# %% [markdown] lang="zh"
# 一个也不差。{{ whole }}，大约 76 亿，名字里写作 7B（B 是十亿）。28 层的注意力加在一起，只占 {{ model.n_layers * n_parameters / whole:.1%}}。
#
# ## 数一数：运算
#
# 一个乘法加一个加法，算两次运算。[6, 3584] 乘 [3584, 3584]，是 $2 \times 6 \times 3584 \times 3584$ 次。遮住的分数不算在内：上面的代码是算了再遮，好的程序根本不算。

# %% [markdown] lang="en" of="1f448929"
# Not one is missing. {{ whole }} is about 7600 million, hence the 7B in the name. Attention, all 28 layers of it, is {{ model.n_layers * n_parameters / whole:.1%}}.
#
# ## Counting: operations
#
# One multiplication and one addition are two operations. [6, 3584] times [3584, 3584] takes $2 \times 6 \times 3584 \times 3584$. Masked scores are not counted: our code above computes and then masks them, and a good program does not compute them at all.

# %%
flops = models.attention_flops(model, 6)
ffn_flops = 2 * 6 * ffn  # each parameter is used once for each token
for name, n in {**flops, "FFN": ffn_flops}.items():
    print(f"{name:<5}{n / 1e6:>9.2f} million   6 tokens, one layer")

per_token_all = model.n_layers * (sum(flops.values()) + ffn_flops) / 6
per_token_all += 2 * model.vocab * model.d_model  # and the output matrix, once
print(f"the whole model: {per_token_all / 1e9:.1f} billion a token")

print("\nattention alone, shares")
for n_tokens in (6, 1000, 32000):
    flops = models.attention_flops(model, n_tokens)
    everything = sum(flops.values())
    shares = "   ".join(f"{s} {n / everything:.2%}" for s, n in flops.items())
    print(f"{n_tokens:>6} tokens   {shares}")
assert models.attention_flops(model, 6)["Q"] == 2 * 6 * 3584 * 3584


def share_of_pairs(n_tokens):
    """The part of the operations that goes into scores and A·V."""
    flops = models.attention_flops(model, n_tokens)
    return (flops["QKᵀ"] + flops["AV"]) / sum(flops.values())


assert share_of_pairs(6) < 0.01 and share_of_pairs(32000) > 0.5

# %% [markdown] lang="zh"
# 只看注意力、只数矩阵乘法：六个词的时候，打分和取值合起来占 {{ share_of_pairs(6):.2%}}，其余都是投影。32000 个词的时候反过来，占 {{ share_of_pairs(32000):.0%}}。[10](10_cost.ipynb) 专讲这件事。
#
# ## 数一数：缓存
#
# 每个词、每一层，缓存里放 4 个头的键和 4 个头的值，每个 128 个数，每个数 2 字节（常见的是 bfloat16；这里的 float32 要多一倍）：

# %% [markdown] lang="en" of="d6a85f57"
# In attention alone, counting matrix products only: with six tokens, scores and A·V together are {{ share_of_pairs(6):.2%}}, and the rest is projections. With 32000 tokens it is the other way round: they are {{ share_of_pairs(32000):.0%}}. Notebook [10](10_cost.ipynb) is about that.
#
# ## Counting: the cache
#
# For each token and each layer the cache holds the keys of 4 heads and the values of 4 heads, 128 numbers each, 2 bytes a number (usually bfloat16; our float32 would take twice that):

# %%
per_token = 2 * shape.n_kv_heads * shape.d_head * model.n_layers * 2  # K and V, all layers, 2 bytes
full = 2 * shape.n_heads * shape.d_head * model.n_layers * 2  # if every query head had its own
assert per_token == models.cache_bytes(model)
print(f"{per_token} bytes a token; with 28 K/V heads {full}: {full // per_token} times as many")
print(f"32768 tokens: {models.cache_bytes(model, 32768) / 1e9:.2f} GB")

# %% [markdown] lang="zh"
# 缓存是原来的七分之一。$W_K$、$W_V$ 的参数和运算也是七分之一。**没有**省的是打分和取值的运算：28 个查询头，每个还是要算自己的那张表。
#
# ## 别的模型
#
# 文章的表 7-1 和图 7-10 列了九个模型的头数。按公开的配置和代码重列一遍（GPT-3 没有公开，取自转述），补上键值头和值的宽度：

# %% [markdown] lang="en" of="1aebf265"
# The cache is 7 times smaller. $W_K$ and $W_V$ have 7 times fewer parameters and operations. What is **not** saved are the operations of scores and A·V: each of the 28 query heads still has its own table to compute.
#
# ## Other models
#
# Table 7-1 and figure 7-10 of the article list the heads of nine models. Here they are again from published configurations and code (for GPT-3, which is not public, from secondary sources), with the K/V heads and the width of a value added:

# %%
table = [m for m in data.read_json("models.json")["models"] if m["in_table_7_1"]]
print("heads  d_model  d_head  d_head(article)  d_value   K/V heads   W_O")
for r in table:
    m, said = models.read(r["model"]), r["article_row"]
    k_v = "compressed" if m.compressed else str(m.n_kv_heads)
    w_o = f"{models.output_width(m)} → {m.d_model}"
    sizes = f"{m.n_heads:>5} {m.d_model:>8} {m.d_head:>7} {said['head_dim']:>16} {m.d_value:>8}"
    print(f"{sizes} {k_v:>11}   {w_o:<14} {m.name}")
    assert (m.n_heads, m.d_model) == (said["n_heads"], said["d_model"])
    assert (m.d_head == said["head_dim"]) == (m.name != "DeepSeek-V3")

# %%
two_more = ["Gemma-7B", "Gemma-2-9B"]
figures_real.heads_of_models(
    [models.read(r["model"]) for r in table] + list(map(models.read, two_more)), lang
)

# %% [markdown] lang="zh"
# 八行都对，有一行要改。DeepSeek-V3 的每头维度，文章写 56，那只是 7168 ÷ 128 的商，没有哪个头是这个宽度。真实的头是：查询和键 192 维，值 128 维，$W_O$ 是 [16384, 7168]。它的缓存里，每个词每层放 576 个数：一个 512 维的压缩向量，键和值由它还原；还有 64 个数，是所有头合用的、转好的一段键。所以图里没有黄条。
#
# 文章还说，70 亿到 90 亿参数的模型清一色是 28 到 32 个头、每头约 128 维。图里最下面两个是反例：Gemma 的 7B 和 9B 都是 16 个头，每头 256 维。
#
# ### W_O 不一定是方的
#
# $W_O$ 的进口是**查询头数 × 值的宽度**，出口是 `d_model`。两者相等时才是方的，[04](04_heads_and_output_projection.ipynb) 里说过。我们的表里有 19 个模型，是为了两种都有才选的，所以看不出哪种更常见：

# %% [markdown] lang="en" of="28fd48cb"
# Eight rows are right and one needs a correction. For DeepSeek-V3 the article gives 56 dimensions a head. That is only 7168 ÷ 128; no head has that width. The real heads have 192 dimensions for queries and keys and 128 for values, and $W_O$ is [16384, 7168]. Its cache holds 576 numbers for each token and layer: a compressed vector of 512, from which keys and values are restored, and 64 numbers of a turned key that all heads share. That is why it has no yellow bar.
#
# The article also says that models of 7 to 9 billion parameters all have 28 to 32 heads of about 128 dimensions. The two at the bottom do not: Gemma 7B and Gemma 2 9B have 16 heads of 256.
#
# ### W_O need not be square
#
# What enters $W_O$ is **query heads × width of a value**, and what leaves it is `d_model`. It is square only if the two are equal, as [04](04_heads_and_output_projection.ipynb) said. Our table has 19 models. They were chosen to show both kinds, so it does not tell which is more common:

# %%
every = [models.read(name) for name in models.names()]
not_square = [m for m in every if models.output_width(m) != m.d_model]
narrower = [m for m in every if models.output_width(m) < m.d_model]  # less in than out
print(f"{len(not_square)} of {len(every)} are not square")
assert all(data.model(m.name)["wo_square"] == (m not in not_square) for m in every)
chosen = ["GPT-2 (124M)", "LLaMA-3-8B", "Qwen2.5-7B"] + [m.name for m in not_square]
figures_real.output_projections(list(map(models.read, chosen)), lang)

# %% [markdown] lang="zh"
# Gemma-2-9B 的 `d_model` 也是 3584，和 Qwen2.5-7B 一样宽，可是 16 × 256 = 4096，所以它的 $W_O$ 是 [4096, 3584]。有 {{ len(narrower) }} 个模型反过来，进口比出口窄。
#
# ### 动一动：任何模型，任何长度
#
# 每一步的形状，用符号写下来，各个模型是同一张表，只有 DeepSeek-V3 的键和值走另一条路。S 是词数，`group` 是合用一个键值头的查询头有几个。先看 Qwen2.5-7B 和六个词，和这一路算出来的数组对一对：

# %% [markdown] lang="en" of="a4b0424a"
# Gemma-2-9B has a `d_model` of 3584, as wide as Qwen2.5-7B, but 16 × 256 = 4096, and so its $W_O$ is [4096, 3584]. In {{ len(narrower) }} of these models it is the other way round: less comes in than goes out.
#
# ### Move it: any model, any length
#
# Written in symbols, the shape of every step is one table for all models; only the keys and values of DeepSeek-V3 come another way. S is the number of tokens, `group` the number of query heads that share a K/V head. First Qwen2.5-7B and six tokens, held against the arrays we have made on the way:

# %%
ours = {"X": X, "h": h, "W_Q": W.w_q, "W_K": W.w_k, "W_V": W.w_v, "Q": Q, "K": K, "V": V}
ours |= {"q": q_turned, "k": k_turned, "v": v, "q_grouped": q_grouped, "scores": scores}
ours |= {"weights": weights, "context": context, "merged": merged, "W_O": W.w_o, "output": output}
symbols, shapes_6 = models.attention_axes(model), models.attention_shapes(model, 6)
for name, array in ours.items():
    in_symbols = "[" + ", ".join(symbols[name]) + "]"
    print(f"{name:<10} {in_symbols:<33} {str(list(array.shape)):<16} {array.size:>9} numbers")
    assert array.shape == shapes_6[name]

one_layer = model._replace(n_layers=1)
operations = sum(models.attention_flops(model, 6).values())
print(f"\ncache: one layer {models.cache_bytes(one_layer, 6)} bytes", end="   ")
print(f"{model.n_layers} layers {models.cache_bytes(model, 6)} bytes")
print(f"attention: one layer {operations / 1e6:.2f} million operations", end="   ")
print(f"{model.n_layers} layers {model.n_layers * operations / 1e6:.2f} million")

# %% [markdown] lang="zh"
# 下面可以选模型，可以写词数，1 到 {{ 128 * 1024 }}；写 128k 也行（就是 128 × 1024）。最上面是头：查询头排在它用的键值头上面，颜色相同，编号照旧。往下是缓存。再往下，左边是每一步的形状，框住的是数最多的；右边是运算。
#
# 这里只数大小，不问这个模型读不读得了那么长。有的模型让一部分层只看最近的一段，这里都按看全部来数。
#
# 先猜两件事。Qwen2.5-7B 的词数从 6 加到 131072，哪个数组变成最大的？它是 $W_Q$ 的几十倍、几千倍，还是几万倍？GLM-4-9B 有 {{ models.read("GLM-4-9B (chat)").n_layers }} 层，比 Qwen2.5-7B 多 {{ models.read("GLM-4-9B (chat)").n_layers - model.n_layers }} 层；都是 32768 个词，它的缓存更大还是更小？

# %% [markdown] lang="en" of="37c0e6b3"
# Choose a model below and write a number of tokens, from 1 to {{ 128 * 1024 }}; 128k works as well (that is 128 × 1024). At the top are the heads: query heads stand on the K/V head they use, in one colour, numbered as before. Next comes the cache. Below, on the left, is the shape of every step, with the largest framed; on the right are the operations.
#
# Only sizes are counted here, whether or not the model can read a text that long. In some models part of the layers look only at the most recent tokens; here every layer is counted as if it looked at everything.
#
# Guess first, two things. Take Qwen2.5-7B from 6 tokens to 131072: which array becomes the largest? Is it tens of times the size of $W_Q$, thousands, or tens of thousands? GLM-4-9B has {{ models.read("GLM-4-9B (chat)").n_layers }} layers, {{ models.read("GLM-4-9B (chat)").n_layers - model.n_layers }} more than Qwen2.5-7B. With 32768 tokens each, is its cache larger or smaller?

# %%
from byhand.explorers import shapes

explorer = shapes.explorer(lang)
explorer

# %%
explorer.set(length="128k")
numbers = {name: int(np.prod(s)) for name, s in models.attention_shapes(model, 131072).items()}
largest = max(numbers, key=numbers.get)
assert f"{numbers[largest]:,}" in explorer.says and largest == "scores"
print(f"{largest}: {numbers[largest]} numbers, {numbers[largest] / numbers['W_Q']:.0f} times W_Q")

caches = {}
for name in ("Qwen2.5-7B", "GLM-4-9B (chat)"):
    explorer.set(model=name, length="32768")
    caches[name] = models.cache_bytes(models.read(name), 32768) / 1e9
    assert f"{caches[name]:.2f} GB" in explorer.says
    print(f"{explorer.says.splitlines()[0]}   {caches[name]:.2f} GB")
_ = explorer.reset()

# %% [markdown] lang="zh"
# 最大的是分数，权重和它一样大：各 {{ numbers["scores"] }} 个数，是 $W_Q$ 的 {{ numbers["scores"] / numbers["W_Q"]:.0f }} 倍。参数不随词数变，别的数组随词数变，分数和权重随词数的平方变。
#
# GLM-4-9B 的缓存更小：{{ caches["GLM-4-9B (chat)"]:.2f }} GB 对 {{ caches["Qwen2.5-7B"]:.2f }} GB。层多，可是键值头只有 {{ models.read("GLM-4-9B (chat)").n_kv_heads }} 个。缓存看层数、键值头数和头的宽度，不看查询头，也不看 `d_model`。

# %% [markdown] lang="en" of="4da44038"
# The scores are the largest, and the weights are as large: {{ numbers["scores"] }} numbers each, {{ numbers["scores"] / numbers["W_Q"]:.0f }} times $W_Q$. The parameters do not change with the number of tokens. The other arrays grow with it, the scores and the weights with its square.
#
# The cache of GLM-4-9B is smaller: {{ caches["GLM-4-9B (chat)"]:.2f }} GB against {{ caches["Qwen2.5-7B"]:.2f }} GB. It has more layers, but only {{ models.read("GLM-4-9B (chat)").n_kv_heads }} K/V heads. The cache depends on the layers, the K/V heads and the width of a head, not on the query heads or `d_model`.

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 查询头 20 用哪个键值头？如果代码里写的是 `head % 4`，它会拿到哪个？
#
# <details><summary>答案</summary>
#
# 20 ÷ 7 取整数部分，是 {{ 20 // group }}。除以 4 取余数是 {{ 20 % 4 }}，拿错了。这就是把 repeat 写成 tile。
#
# </details>
#
# **2.** 6 个词和 32000 个词，注意力里哪一步的运算最多？为什么换了？
#
# <details><summary>答案</summary>
#
# 6 个词：$Q$ 的投影和 $W_O$，各 3584 × 3584，并列第一。32000 个词：打分和取值，合起来占 {{ share_of_pairs(32000):.0%}}。投影和词数成正比，词对的个数和词数的平方成正比。
#
# </details>
#
# **3.** 键值头从 4 个改成 28 个，$W_O$ 的形状变不变？缓存变成多少？
#
# <details><summary>答案</summary>
#
# $W_O$ 不变，它只看查询头。缓存变成 {{ full // per_token }} 倍，每个词 {{ full }} 字节。$W_K$、$W_V$ 也各变成 {{ full // per_token }} 倍。
#
# </details>
#
# 一层注意力有多贵，词多了会怎样，见 [10 开销](10_cost.ipynb)。回到 [00 地图](00_map.ipynb)。

# %% [markdown] lang="en" of="5a59b083"
# ## Three questions
#
# **1.** Which K/V head does query head 20 use? If the code says `head % 4`, which one does it get?
#
# <details><summary>Answer</summary>
#
# 20 ÷ 7, the whole part, is {{ 20 // group }}. The remainder after division by 4 is {{ 20 % 4 }}, the wrong one. This is tile in the place of repeat.
#
# </details>
#
# **2.** With 6 tokens and with 32000, which step of attention takes most operations? Why does it change?
#
# <details><summary>Answer</summary>
#
# With 6: the projection of $Q$ and $W_O$, 3584 × 3584 each, share the first place. With 32000: scores and A·V, together {{ share_of_pairs(32000):.0%}}. The projections grow with the number of tokens, the pairs of tokens with its square.
#
# </details>
#
# **3.** Go from 4 K/V heads to 28. Does the shape of $W_O$ change? What becomes of the cache?
#
# <details><summary>Answer</summary>
#
# $W_O$ stays as it is; it depends on the query heads only. The cache becomes {{ full // per_token }} times as large, {{ full }} bytes a token. $W_K$ and $W_V$ grow {{ full // per_token }} times too.
#
# </details>
#
# What a layer of attention costs, and what happens when the tokens are many, is in [10 Cost](10_cost.ipynb). Back to [00 The map](00_map.ipynb).

# %% [markdown] lang="zh"
# # 10 · 开销
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → 输出投影：**整条路要花多少** |
# | 需要什么 | [06 真实的尺寸](06_real_shapes.ipynb)：一层注意力的每一步和形状 |
# | 走完以后 | 能说出每一步的开销怎样随词数增长；会把 softmax 分块算，结果一位不差；知道 FlashAttention 合并了什么、没有合并什么；知道逐词生成为什么慢 |
# | 多长时间 | 约 45 分钟 |

# %% [markdown] lang="en" of="75ad5f90"
# # 10 · Cost
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → weigh → project out: **what the whole way costs** |
# | What you need | [06 Real shapes](06_real_shapes.ipynb): the steps of one attention layer and their shapes |
# | What you will be able to do | say how the cost of each step grows with the number of tokens; compute a softmax in blocks and get the exact result; tell what FlashAttention fuses and what it does not; tell why writing token by token is slow |
# | Time | about 45 minutes |

# %%
import time
import tracemalloc

import numpy as np

from byhand import fast, figures_real, models, qwen, show, toy
from byhand import attention, causal_mask, scale, score, softmax

lang = "zh"  # the language of figures: zh or en

今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
model = models.read("Qwen2.5-7B")
shape = models.layer_shape(model)
W = qwen.seeded_weights(shape)  # seeded, not trained, as in 06
n_heads, d_head = shape.n_heads, shape.d_head  # 28, 128

# %% [markdown] lang="zh"
# ## 什么随词数增长
#
# 一句话有 $S$ 个词。投影是一个词一个词地算的：词多一倍，运算多一倍。分数表不一样，每个词要和每个词打一次分，词多一倍，表是四倍。
#
# 先猜：$S$ 到多少，打分和取值的运算会超过四个投影？一千、一万，还是十万？

# %% [markdown] lang="en" of="59454998"
# ## What grows with the number of tokens
#
# A text has $S$ tokens. The projections work on each token by itself: twice the tokens, twice the operations. The table of scores is different. Every token is scored against every token: twice the tokens, four times the table.
#
# Guess first: from which $S$ on do scores and A·V take more operations than the four projections? One thousand, ten thousand, or a hundred thousand?


# %%
def split_cost(n_tokens):
    """Operations of one layer: the four projections, and what is done for pairs of tokens."""
    flops = models.attention_flops(model, n_tokens)
    pairs = flops["QKᵀ"] + flops["AV"]
    return sum(flops.values()) - pairs, pairs


print("tokens   projections (GFLOP)   QKᵀ and AV (GFLOP)")
for n_tokens in (6, 512, 4096, 32768, 131072):
    projections, pairs = split_cost(n_tokens)
    print(f"{n_tokens:>6} {projections / 1e9:>17.2f} {pairs / 1e9:>22.2f}")

crossing = next(s for s in range(1, 10**5) if split_cost(s)[1] > split_cost(s)[0])
print(f"from {crossing} tokens on, pairs cost more")
assert split_cost(2 * 4096)[0] == 2 * split_cost(4096)[0]  # twice the tokens, twice the projections
assert 3.99 < split_cost(2 * 4096)[1] / split_cost(4096)[1] < 4.01

# %% [markdown] lang="zh"
# 到 {{ crossing }} 个词才超过。这是带因果遮罩的算法：遮住的那一半不算。短的文本，注意力这一层的力气几乎都花在矩阵乘参数上，和“注意力是平方级的”这句话给人的印象不一样。
#
# 不随 $S$ 增长的也有：参数的个数。随 $S$ 成正比的：残差流、$Q$、$K$、$V$、缓存。随 $S^2$ 的：分数和权重。
#
# ## 量一量
#
# 数出来的是运算次数。时间是不是真的这样增长？下面每一步都跑一遍，投影用真实的尺寸，分数表取一组 7 个头，词数从 128 到 1024，每次翻倍。线是数出来的，圈是这台机器上量的。两边都除以各自最长的那一次，所以只比增长的样子，不比快慢：

# %% [markdown] lang="en" of="8a5d150e"
# Only from {{ crossing }} tokens on. This is with the causal mask, where the masked half is not computed. In a short text nearly all the work of the layer goes into multiplying by parameters, which is not what "attention is quadratic" makes one expect.
#
# Some things do not grow with $S$: the number of parameters. In proportion to $S$: the residual stream, $Q$, $K$, $V$, the cache. With $S^2$: scores and weights.
#
# ## Measure
#
# What we counted are operations. Does the time really grow like that? Below each step is run, the projections at their real size, the tables for one group of 7 heads, with 128 to 1024 tokens, doubling. The line is the count and the circles are measured on this machine. Both are divided by their own value at the longest, so that they compare how things grow and not how fast they are:


# %%
# NBVAL_IGNORE_OUTPUT
def shortest(step, times=3):
    """The shortest of a few runs: the one least disturbed by other programs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return best


def times(n_tokens):
    """Seconds of each step: projections at the layer's size, 7 heads that share K and V."""
    h = rng.standard_normal((n_tokens, shape.d_model), dtype=np.float32)
    q = rng.standard_normal((7, n_tokens, d_head), dtype=np.float32)
    table = q @ q.swapaxes(-1, -2) / np.float32(np.sqrt(d_head))  # [7, S, S]
    return {
        "Q, K, V": shortest(lambda: (h @ W.w_q, h @ W.w_k, h @ W.w_v)),
        "QKᵀ": shortest(lambda: q @ q.swapaxes(-1, -2)),
        "softmax": shortest(lambda: softmax(table)),
        "AV": shortest(lambda: table @ q),
        "$W_O$": shortest(lambda: h @ W.w_o),
    }


rng = np.random.default_rng(1)
lengths = [128, 256, 512, 1024]
by_length = [times(n_tokens) for n_tokens in lengths]
measured = {step: [seconds[step] for seconds in by_length] for step in by_length[0]}
linear, square = np.array(lengths), np.array(lengths) ** 2
predicted = {"Q, K, V": linear, "QKᵀ": square, "softmax": square, "AV": square, "$W_O$": linear}
figures_real.growth(lengths, predicted, measured, lang)

# %% [markdown] lang="zh"
# 两种斜率：投影每翻一倍走一格，另外三步走两格。圈多半落在线上；词少的时候，每次调用的固定开销会把圈抬高一点。
#
# softmax 没有矩阵乘法，运算次数不多，增长却和分数表一样快，因为它要把整张表走几遍。
#
# ## S × S 的表有多大
#
# 28 个头各一张，每个数 4 字节：

# %% [markdown] lang="en" of="a1251dac"
# There are two slopes: the projections go one step for each doubling, the other three go two. The circles are mostly on the line; with few tokens the fixed cost of each call lifts them a little.
#
# The softmax has no matrix product and few operations, and it grows as fast as the table of scores, because it walks over the whole table several times.
#
# ## How large the S × S table is
#
# There is one for each of 28 heads, 4 bytes a number:

# %%
print("tokens   all tables (GB)   Q, K and V (GB)")
for n_tokens in (6, 1024, 4096, 32768):
    tables = n_heads * n_tokens**2 * 4
    inputs = n_tokens * (n_heads + 2 * shape.n_kv_heads) * d_head * 4
    print(f"{n_tokens:>6} {tables / 1e9:>17.4f} {inputs / 1e9:>17.4f}")

tables_4096 = n_heads * 4096**2 * 4
inputs_4096 = 4096 * (n_heads + 2 * shape.n_kv_heads) * d_head * 4
assert inputs_4096 < tables_4096 / 20

# %% [markdown] lang="zh"
# 4096 个词，光是分数就 {{ tables_4096 / 1e9:.2f}} GB，权重又是一份。进来的 $Q$、$K$、$V$ 只有它的 {{ inputs_4096 / tables_4096:.1%}}，出去的更少。中间这张大表，能不能不存？
#
# ## 第一步：分行
#
# softmax 一行一行地算，行与行不相干。所以不必把整张表摆出来：取几行查询，算完，扔掉，再取几行。因果遮罩还送一份礼：这几行后面的键，本来就看不到，碰都不用碰。
#
# 用 512 个词试，一次 64 行：

# %% [markdown] lang="en" of="94c5123f"
# With 4096 tokens the scores alone are {{ tables_4096 / 1e9:.2f}} GB, and the weights are as much again. $Q$, $K$ and $V$, which come in, are {{ inputs_4096 / tables_4096:.1%}} of that, and what goes out is less still. Can the large table in the middle be left out?
#
# ## First: rows in blocks
#
# The softmax works row by row, and no row depends on another. So the whole table need not be there at once: take a few rows of queries, finish them, drop them, take the next. The causal mask adds a gift: keys after these rows are not seen anyway and need not be touched.
#
# With 512 tokens, 64 rows at a time:

# %%
S, block = 512, 64
q1, k1, v1 = (rng.standard_normal((S, d_head), dtype=np.float32) for _ in range(3))  # one head
whole = attention(q1, k1, v1, causal_mask(S)).context  # [512, 128], with the whole table

by_rows = np.empty_like(whole)
largest = 0
for start in range(0, S, block):
    stop = start + block
    mask = causal_mask(block, stop)  # [64, stop]; the last 64 of the first `stop` positions
    part = attention(q1[start:stop], k1[:stop], v1[:stop], mask)
    by_rows[start:stop] = part.context
    largest = max(largest, part.scores.size)
assert np.allclose(by_rows, whole, rtol=0, atol=1e-5)
print(f"largest piece {largest} numbers, whole table {S * S}")
figures_real.tiles(S, block, lang)

# %% [markdown] lang="zh"
# 结果一样。浅色的对角线上有一半要遮住，灰色的一半根本没有算。
#
# ## 第二步：一行也分开
#
# 一行还是很长，32768 个词就是 32768 个分数。softmax 要先知道全行的最大值和全行的和，看来非得等整行到齐。其实不用。
#
# 拿小例子里「西安」那一行，六个缩放后的分数，切成前后两段，先只看前三个：

# %% [markdown] lang="en" of="2ce5dec7"
# The result is the same. Of the light blocks on the diagonal a half is masked, and the grey half was never computed.
#
# ## Second: a row in pieces
#
# A row is still long: 32768 scores for 32768 tokens. The softmax needs the maximum and the sum of the whole row, so it seems that all of it must be there. It need not be.
#
# Take the row of 西安 in the toy, six scaled scores, and cut it in two. First look at the first three only:

# %%
t = toy.load()
Q, K, V = t.X @ t.W_Q, t.X @ t.W_K, t.X @ t.W_V  # [6, 4] each
x = scale(score(Q, K), 4)[西安]  # [6]
print(show.row(x, 2), "  the row of 西安")

m_1 = x[:3].max()  # the largest so far
exps_1 = np.exp(x[:3] - m_1)  # [3]
total_1 = exps_1.sum()
mixed_1 = exps_1 @ V[:3]  # [3] @ [3, 4] -> [4]; not yet divided
print(f"so far: largest {m_1:.2f}, sum {total_1:.4f}, mixed {show.row(mixed_1)}")

# %% [markdown] lang="zh"
# 记下三样：到此为止的最大值 $m$，在它下面的和 $\ell$，没有除过的加权和 $o$。
#
# 后三个来了，最大值变成 {{ x.max():.2f}}。前面的指数是减去 {{ m_1:.2f}} 算的，现在应当减去 {{ x.max():.2f}}。不用重算，整体乘一个数就行：
#
# $$e^{x - m_{new}} = e^{x - m_{old}} \cdot e^{m_{old} - m_{new}}$$

# %% [markdown] lang="en" of="796aa22b"
# Keep three things: the largest so far, $m$; the sum under it, $\ell$; the weighted sum not yet divided, $o$.
#
# Now the other three arrive, and the largest becomes {{ x.max():.2f}}. The exponentials so far were taken after subtracting {{ m_1:.2f}}, and it should have been {{ x.max():.2f}}. There is no need to do them again. Multiply all of it by one number:
#
# $$e^{x - m_{new}} = e^{x - m_{old}} \cdot e^{m_{old} - m_{new}}$$

# %%
m_2 = max(m_1, x[3:].max())
shrink = np.exp(m_1 - m_2)  # what the first piece is multiplied by
exps_2 = np.exp(x[3:] - m_2)  # [3]
total_2 = total_1 * shrink + exps_2.sum()
mixed_2 = mixed_1 * shrink + exps_2 @ V[3:]  # [4]
context = mixed_2 / total_2  # divided once, at the end
print(f"shrink {shrink:.4f}, sum {total_2:.4f}")
print(show.row(context), "  in two pieces")
print(show.row(softmax(x) @ V), "  all at once")
assert np.allclose(context, softmax(x) @ V, rtol=0, atol=1e-12)
assert np.isclose(total_2, np.exp(x - x.max()).sum(), rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 和是 {{ total_2:.4f}}，和 [02](02_softmax.ipynb) 里整行一起算的一样。这叫在线 softmax。它是**精确的**，不是近似：只是换了加的次序，float32 里最后一两位会不同。
#
# 写成循环，切成多少段都行：

# %% [markdown] lang="en" of="a97e0b04"
# The sum is {{ total_2:.4f}}, as in [02](02_softmax.ipynb), where the row was taken whole. This is the online softmax. It is **exact** and no approximation: only the order of the additions is another, which in float32 changes the last digit or two.
#
# As a loop, for any number of pieces:


# %%
def online(scores, values, piece):
    """softmax(scores) @ values of one row, never holding more than `piece` exponentials."""
    largest, total, mixed = -np.inf, 0.0, np.zeros(values.shape[1])
    for start in range(0, len(scores), piece):
        part = scores[start : start + piece]
        new_largest = max(largest, part.max())
        exps = np.exp(part - new_largest)
        shrink = np.exp(largest - new_largest)  # 0 the first time
        total = total * shrink + exps.sum()
        mixed = mixed * shrink + exps @ values[start : start + piece]
        largest = new_largest
    return mixed / total


for piece in (1, 2, 3, 4, 6):
    assert np.allclose(online(x, V, piece), softmax(x) @ V, rtol=0, atol=1e-12)

long_scores = scale(score(q1[[S - 1]], k1), d_head)[0].astype(np.float64)  # [512], the last query
in_pieces = online(long_scores, v1, 100)
assert np.allclose(in_pieces, softmax(long_scores) @ v1, rtol=0, atol=1e-6)
print(show.row(in_pieces[:4], 4), "  512 scores in pieces of 100")
print(show.row(whole[-1, :4], 4), "  the whole table, last row")

# %% [markdown] lang="zh"
# 行分块，行内再分块，表就只剩下一小片一小片。库里的 `fast.attend` 就是这样写的，再加上多个线程。和一步一步的 `qwen.attend` 比：

# %% [markdown] lang="en" of="12c47a69"
# With rows in blocks and each row in pieces, only small tiles are left of the table. `fast.attend` in the library is written like this, with several threads on top. Compare it with the step-by-step `qwen.attend`:

# %%
ids = np.arange(S)  # any 512 ids
normed = qwen.rms_norm(qwen.seeded_rows(ids, shape.d_model), W.input_norm, shape.norm_eps)


def run_and_watch(attend):
    """The output, and the most memory that was held at a time while it was computed."""
    tracemalloc.start()
    output = attend(normed, W, shape).output
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return output, peak


slow_output, slow_peak = run_and_watch(qwen.attend)
fast_output, fast_peak = run_and_watch(fast.attend)
assert np.allclose(slow_output, fast_output, rtol=0, atol=2e-5)
print(f"the fast path needs less than a quarter of the memory: {4 * fast_peak < slow_peak}")
assert 4 * fast_peak < slow_peak

# %% [markdown] lang="zh"
# ## FlashAttention 合并了什么
#
# FlashAttention（Dao 等，2022）在显卡上做的就是这件事：$QK^T$、遮罩、softmax、（训练时对权重的）dropout、乘 $V$，合成一个程序，一片一片地在芯片内部算完，$S \times S$ 的表从不写回显存。运算次数没有少，反向传播时还要多算一些；少的是内存的读写。结果是精确的。
#
# 它**没有**合并 $W_O$。程序收到的是 $Q$、$K$、$V$，交出的是每个头的上下文向量，里面没有任何参数矩阵。$W_O$ 在它后面，是一次普通的矩阵乘法。看 `fast` 里对应的那个函数，也是这样：

# %% [markdown] lang="en" of="4208bcac"
# ## What FlashAttention fuses
#
# FlashAttention (Dao et al. 2022) does this on a graphics card: $QK^T$, mask, softmax, dropout of the weights (in training) and the product with $V$ become one program that works tile by tile inside the chip. The $S \times S$ table is never written to the card's memory. There are not fewer operations, and on the way back there are some more; what is saved is reading and writing memory. The result is exact.
#
# It does **not** fuse $W_O$. The program receives $Q$, $K$ and $V$ and hands over the context of each head; there is no parameter matrix in it. $W_O$ comes after it and is an ordinary matrix product. So it is with the function in `fast` that corresponds:

# %%
print("fast.core takes", ", ".join(fast.core.__annotations__))
assert not any(name.startswith("w") for name in fast.core.__annotations__)

flops = models.attention_flops(model, 4096)
print(f"at 4096 tokens W_O is {flops['W_O'] / sum(flops.values()):.0%} of the operations")

# %% [markdown] lang="zh"
# 网上有文章（这套笔记本的材料之一，讲面试题的那篇）说 FlashAttention 把 $W_O$ 和残差、LayerNorm 合在一起，FlashAttention-2 因此在 H100 上快两成。查了代码和论文：主程序的参数里没有权重；另有一个**单独的**程序合并 dropout、残差和 LayerNorm，里面也没有矩阵乘法；那个“两成”找不到出处。FlashAttention-2 的论文说快在少做了非矩阵乘法的运算、沿序列方向并行、线程之间分工更好。
#
# ## 读进来和逐词写
#
# 给模型一段话，它先把整段一次算完，这叫预填（prefill）。然后一个词一个词地写，这叫解码（decode）：每次只有一个新词，前面的键和值从缓存里取。
#
# 两条路的结果一样：

# %% [markdown] lang="en" of="de6417c4"
# An article (one of those this series works from, on an interview question) says that FlashAttention fuses $W_O$ with the residual and LayerNorm, and that FlashAttention-2 gains a fifth on an H100 by it. The code and the papers say otherwise. The main program takes no weights. There is a **separate** program that fuses dropout, residual and LayerNorm, again without a matrix product. For the fifth we found no source. The paper on FlashAttention-2 names fewer operations outside matrix products, parallel work along the sequence, and a better division of work between threads.
#
# ## Reading in and writing on
#
# Given a text, a model first computes all of it at once, which is called prefill. Then it writes token by token, which is called decode: each time there is one new token, and the keys and values before it come from the cache.
#
# Both ways give the same result:

# %%
prompt, more = 60, 4
at_once = fast.attend(normed[: prompt + more], W, shape)
step = fast.attend(normed[:prompt], W, shape)  # prefill
for i in range(prompt, prompt + more):  # decode
    step = fast.attend(normed[i : i + 1], W, shape, step.cache)  # [1, 3584]
    assert np.allclose(step.output[0], at_once.output[i], rtol=0, atol=2e-5)
assert np.allclose(step.cache.k, at_once.cache.k, rtol=0, atol=2e-5)
print("cache after", prompt, "+", more, "tokens:", step.cache.k.shape)

# %% [markdown] lang="zh"
# 没有缓存会怎样？每写一个词，前面的全部要重算。写第 1000 个词：

# %% [markdown] lang="en" of="3c42b1ef"
# And without the cache? For each token written, all before it would have to be computed again. For token 1000:

# %%
with_cache = sum(models.attention_flops(model, 1, 1000).values())
without_cache = sum(models.attention_flops(model, 1000).values())
print(
    f"with cache {with_cache / 1e6:.0f} MFLOP, without {without_cache / 1e6:.0f}: {without_cache / with_cache:.0f} times"
)

# %% [markdown] lang="zh"
# ### 解码为什么慢
#
# 解码的运算很少，慢在别处。写一个词，这一层的参数要**全部读一遍**。预填 512 个词也只读一遍，大家分摊。每读一个字节做几次运算：

# %% [markdown] lang="en" of="431b68da"
# ### Why decoding is slow
#
# Decoding takes few operations. It is slow for another reason: to write one token, **all** the parameters of the layer have to be read. For a prefill of 512 tokens they are read once as well, and shared by all. Operations for each byte read:

# %%
parameter_bytes = sum(w.nbytes for w in (W.w_q, W.w_k, W.w_v, W.w_o))


def operations_per_byte(n_new, n_seen):
    """Of one layer: matrix operations over bytes of parameters and cache that are read."""
    cached = 2 * shape.n_kv_heads * n_seen * d_head * 4
    return sum(models.attention_flops(model, n_new, n_seen).values()) / (parameter_bytes + cached)


for name, n_new, n_seen in (
    ("decode", 1, 1),
    ("decode", 1, 4096),
    ("prefill", 64, 64),
    ("prefill", 512, 512),
):
    print(
        f"{name:<8} {n_new:>4} new of {n_seen:>4}   {operations_per_byte(n_new, n_seen):>8.2f} operations a byte"
    )
assert operations_per_byte(1, 1) < 1 < 100 < operations_per_byte(512, 512)

# %% [markdown] lang="zh"
# 解码一个词，每读一个字节只做 {{ operations_per_byte(1, 1):.2f}} 次运算。处理器每秒能做的运算，比内存每秒能送来的字节多得多，所以它大半时间在等数据。预填 512 个词，每个字节做 {{ operations_per_byte(512, 512):.0f}} 次，等的就不多了。
#
# 量一量。下面比的是每个词摊到的时间，单独解码一个词和一次预填 64 个词：

# %% [markdown] lang="en" of="2f745886"
# When one token is decoded, there are {{ operations_per_byte(1, 1):.2f}} operations for each byte read. A processor can do far more operations a second than memory can deliver bytes, so most of the time it waits for data. With a prefill of 512 tokens there are {{ operations_per_byte(512, 512):.0f}} for each byte, and there is little waiting.
#
# Measure it. This compares the time for each token: one token decoded alone, and 64 in one prefill:

# %%
# NBVAL_IGNORE_OUTPUT
alone = shortest(lambda: fast.attend(normed[:1], W, shape), times=10)
together = shortest(lambda: fast.attend(normed[:64], W, shape), times=10) / 64
print(f"a token alone takes about {alone / together:.0f} times as long as a token among 64")

# %% [markdown] lang="zh"
# 这个倍数每台机器、每次运行都不同，所以正文里不写它。
#
# ### 缓存越来越长
#
# 文本长了，读缓存也要时间，占的地方更多。各家模型的缓存，每个数 2 字节，全部层加在一起：

# %% [markdown] lang="en" of="79e1077d"
# That factor differs from machine to machine and from run to run, so the text does not name it.
#
# ### The cache grows
#
# As the text gets longer, reading the cache takes time too, and it takes up room. The cache of several models, 2 bytes a number, all layers together:

# %%
lengths = [1024 * 2**i for i in range(8)]  # 1k to 128k
caches = {}
for name in ("GPT-3 175B", "Gemma-7B", "LLaMA-3-8B", "Qwen2.5-7B"):
    m = models.read(name)
    caches[name] = [models.cache_bytes(m, s) / 1e9 for s in lengths]
figures_real.cache_growth(lengths, caches, lang)

# %% [markdown] lang="zh"
# 这里按同样的词数比缓存，不管模型当初设计能读多长。Gemma-7B 的层数和 Qwen2.5-7B 一样，缓存是它的 {{ caches["Gemma-7B"][0] / caches["Qwen2.5-7B"][0]:.0f}} 倍：16 个键值头，每个 256 维，对 4 个、每个 128 维。
#
# ## 三个问题
#
# **1.** 文本从 1000 个词变成 2000 个，哪些东西变成两倍，哪些变成四倍，哪些不变？
#
# <details><summary>答案</summary>
#
# 两倍：四个投影的运算，缓存，残差流。四倍：分数和权重的个数，打分、softmax、取值的运算。不变：参数。
#
# </details>
#
# **2.** 在线 softmax 里，如果新来的一段没有更大的分数，$e^{m_{old}-m_{new}}$ 是多少？
#
# <details><summary>答案</summary>
#
# 是 {{ np.exp(0):.0f}}：最大值没变，前面的和不用缩。
#
# </details>
#
# **3.** 有人用 FlashAttention 替换了自己的注意力，发现 $W_O$ 那一步的时间没有变。是装错了吗？
#
# <details><summary>答案</summary>
#
# 没有装错。FlashAttention 到每个头的上下文向量为止，$W_O$ 是它后面的一次普通矩阵乘法。
#
# </details>
#
# 这一层的每个数都算过，也知道它花多少了。回到 [00 地图](00_map.ipynb)，或者再看一遍 [06 真实的尺寸](06_real_shapes.ipynb)。

# %% [markdown] lang="en" of="b5054eb2"
# This compares caches for the same number of tokens, whatever length a model was made for. Gemma-7B has as many layers as Qwen2.5-7B, and its cache is {{ caches["Gemma-7B"][0] / caches["Qwen2.5-7B"][0]:.0f}} times as large: 16 K/V heads of 256, against 4 of 128.
#
# ## Three questions
#
# **1.** A text grows from 1000 tokens to 2000. What doubles, what becomes four times as much, what stays?
#
# <details><summary>Answer</summary>
#
# Double: the operations of the four projections, the cache, the residual stream. Four times: the number of scores and weights, the operations of scores, softmax and A·V. The parameters stay.
#
# </details>
#
# **2.** In the online softmax, if the new piece brings no larger score, what is $e^{m_{old}-m_{new}}$?
#
# <details><summary>Answer</summary>
#
# It is {{ np.exp(0):.0f}}: the maximum is the same, and the sums so far need not shrink.
#
# </details>
#
# **3.** Someone put FlashAttention in the place of their own attention and found that the time of the $W_O$ step did not change. Was it installed wrongly?
#
# <details><summary>Answer</summary>
#
# No. FlashAttention ends with the context of each head, and $W_O$ is an ordinary matrix product after it.
#
# </details>
#
# Every number of this layer has been computed, and we know what it costs. Back to [00 The map](00_map.ipynb), or once more through [06 Real shapes](06_real_shapes.ipynb).

# %% [markdown] lang="zh"
# # 10 · 开销
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 旋转 → 打分 → 缩放 → 遮住未来 → softmax → 加权取值 → 输出投影：**整条路要花多少** |
# | 需要什么 | [06 真实的尺寸](06_real_shapes.ipynb)：一层注意力的每一步和形状 |
# | 走完以后 | 能说出每一步的开销怎样随词数增长；会把 softmax 分块算，知道为什么结果是精确的；知道 FlashAttention 合并了什么、没有合并什么；知道逐词生成为什么慢 |
# | 多长时间 | 约 45 分钟 |

# %% [markdown] lang="en" of="45d26ad5"
# # 10 · Cost
#
# | | |
# |---|---|
# | Where we are | project → rotate → score → scale → mask → softmax → weigh → project out: **what the whole way costs** |
# | What you need | [06 Real shapes](06_real_shapes.ipynb): the steps of one attention layer and their shapes |
# | What you will be able to do | say how the cost of each step grows with the number of tokens; compute a softmax in blocks, and say why the result is exact; tell what FlashAttention fuses and what it does not; tell why writing token by token is slow |
# | Time | about 45 minutes |

# %%
import inspect
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
# 照 [06](06_real_shapes.ipynb) 的数法，一个乘法加一个加法算两次运算，只数矩阵乘法，遮住的不数。十亿次运算写作 1 GFLOP，一百万次写作 1 MFLOP。
#
# 先猜：$S$ 到多少，打分和取值的运算会超过四个投影？一千、一万，还是十万？

# %% [markdown] lang="en" of="01214df0"
# ## What grows with the number of tokens
#
# A text has $S$ tokens. The projections work on each token by itself: twice the tokens, twice the operations. The table of scores is different. Every token is scored against every token: twice the tokens, four times the table.
#
# As in [06](06_real_shapes.ipynb), a multiplication and an addition are two operations, only matrix products are counted, and masked scores are not. A billion operations are 1 GFLOP, a million 1 MFLOP.
#
# Guess first: from which $S$ on do scores and A·V take more operations than the four projections? One thousand, ten thousand, or a hundred thousand?


# %%
def split_cost(n_tokens):
    """Operations of one layer: the four projections, and what is done for pairs of tokens."""
    flops = models.attention_flops(model, n_tokens)
    pairs = flops["QKᵀ"] + flops["AV"]
    return sum(flops.values()) - pairs, pairs


print("tokens   projections (GFLOP)   QKᵀ and AV (GFLOP)")
for n_tokens in (64, 512, 4096, 32768, 131072):
    projections, pairs = split_cost(n_tokens)
    print(f"{n_tokens:>6} {projections / 1e9:>17.2f} {pairs / 1e9:>22.2f}")

crossing = next(s for s in range(1, 10**5) if split_cost(s)[1] > split_cost(s)[0])
print(f"from {crossing} tokens on, pairs cost more")

ffn = models.ffn_parameters(model)
crossing_ffn = next(
    s for s in range(crossing, 10**5) if split_cost(s)[1] > split_cost(s)[0] + 2 * s * ffn
)
print(f"with the FFN counted as well, from {crossing_ffn} tokens on")
projections, pairs = split_cost(512)
share_512 = pairs / (projections + pairs)
assert split_cost(2 * 4096)[0] == 2 * split_cost(4096)[0]  # twice the tokens, twice the projections
assert 3.99 < split_cost(2 * 4096)[1] / split_cost(4096)[1] < 4.01

# %% [markdown] lang="zh"
# 从 {{ crossing }} 个词起才超过，离一万最近。像 `attention` 那样整张表都算再遮，大约 {{ crossing // 2 }} 个词就持平。512 个词的时候，打分和取值只占注意力的 {{ share_512:.1%}}，别的都是投影。要是把 FFN 也算进来，到 {{ crossing_ffn }} 个词才超过其余全部。
#
# 常听人说“注意力是平方级的”，是说这一项随 $S^2$ 增长。文本短的时候，它还很小。
#
# 不随 $S$ 增长的也有：参数的个数。随 $S$ 成正比的：残差流、$Q$、$K$、$V$、缓存。随 $S^2$ 的：分数和权重。
#
# ## 量一量
#
# 数出来的是运算次数。时间是不是真的这样增长？下面每一步都跑一遍，投影用真实的尺寸，分数表取一组 7 个头，词数从 128 到 1024，每次翻倍。表整张都算，不遮。线是数出来的，圈是这台机器上量的。两边都除以各自在 1024 个词时的值，只比增长的样子，不比快慢：

# %% [markdown] lang="en" of="0e03cf87"
# Only from {{ crossing }} tokens on, nearest to ten thousand. Code that computes the whole table and then masks it, as our `attention` does, is there at about {{ crossing // 2 }}. With 512 tokens scores and A·V are {{ share_512:.1%}} of attention, and the rest is projections. With the FFN counted as well, pairs exceed all the rest only from {{ crossing_ffn }} tokens on.
#
# "Attention is quadratic" says that this part grows with $S^2$. In a short text it is still small.
#
# Some things do not grow with $S$: the number of parameters. In proportion to $S$: the residual stream, $Q$, $K$, $V$, the cache. With $S^2$: scores and weights.
#
# ## Measure
#
# What we counted are operations. Does the time really grow like that? Below each step is run, the projections at their real size, the tables for one group of 7 heads, with 128 to 1024 tokens, doubling. The line is the count and the circles are measured on this machine. The tables are computed whole, without a mask. Both are divided by their own value at 1024 tokens, so that they compare how things grow and not how fast they are:


# %%
# NBVAL_IGNORE_OUTPUT
rng = np.random.default_rng(1)


def shortest(step, runs=3):
    """Seconds of the shortest of a few runs, the one least disturbed by other programs."""
    step()  # the first run is slower, and not counted
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return best


def step_seconds(n_tokens):
    """Each step's time: projections at their real size, tables for 7 heads that share K and V."""
    h = rng.standard_normal((n_tokens, shape.d_model), dtype=np.float32)
    q = rng.standard_normal((7, n_tokens, d_head), dtype=np.float32)
    k, v = (rng.standard_normal((1, n_tokens, d_head), dtype=np.float32) for _ in range(2))
    table = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(d_head))  # [7, S, S]
    return {
        "Q, K, V": shortest(lambda: (h @ W.w_q, h @ W.w_k, h @ W.w_v)),
        "QKᵀ": shortest(lambda: q @ k.swapaxes(-1, -2)),
        "softmax": shortest(lambda: softmax(table)),
        "AV": shortest(lambda: table @ v),
        "$W_O$": shortest(lambda: h @ W.w_o),
    }


lengths = [128, 256, 512, 1024]
by_length = [step_seconds(n_tokens) for n_tokens in lengths]
measured = {step: [seconds[step] for seconds in by_length] for step in by_length[0]}
linear, square = np.array(lengths), np.array(lengths) ** 2
predicted = {"Q, K, V": linear, "QKᵀ": square, "softmax": square, "AV": square, "$W_O$": linear}
figures_real.growth(lengths, predicted, measured, lang)

# %% [markdown] lang="zh"
# 两根轴都是对数刻度。词数翻一倍，投影的线升到 2 倍，另外三步升到 4 倍。圈该落在线上。差得远的地方，时间花在了别处：词少的时候，每次调用的固定开销占大头；机器上有别的程序在跑，圈也会乱。这些时间每次运行都不同，数出来的线不会变。
#
# softmax 没有矩阵乘法，前面的运算里没有数它。它的时间也随 $S^2$ 增长，因为表里每个数都要算到。
#
# ## S × S 的表有多大
#
# 一层里，28 个头各有一张分数表，每个数 4 字节：

# %% [markdown] lang="en" of="e2303bae"
# Both axes are logarithmic. For twice the tokens the lines of the projections rise to 2 times, the other three to 4 times. The circles should lie on the line. Where they do not, the time went elsewhere: with few tokens into the fixed cost of each call, and on a busy machine into other programs. The times differ from run to run; the counts do not.
#
# The softmax has no matrix product and was not counted above. Its time grows with $S^2$ too, because it works on every number of the table.
#
# ## How large the S × S table is
#
# In one layer there is a table of scores for each of 28 heads, 4 bytes a number:

# %%
print("tokens   all tables (MB)   Q, K and V (MB)")
for n_tokens in (64, 1024, 4096, 32768):
    tables = n_heads * n_tokens**2 * 4
    inputs = n_tokens * (n_heads + 2 * shape.n_kv_heads) * d_head * 4
    print(f"{n_tokens:>6} {tables / 1e6:>17.1f} {inputs / 1e6:>17.1f}")

tables_4096 = n_heads * 4096**2 * 4
inputs_4096 = 4096 * (n_heads + 2 * shape.n_kv_heads) * d_head * 4
assert inputs_4096 < tables_4096 / 20

# %% [markdown] lang="zh"
# 4096 个词，光是分数就 {{ tables_4096 / 1e9:.2f}} GB，权重又是一份。进来的 $Q$、$K$、$V$ 只有它的 {{ inputs_4096 / tables_4096:.1%}}，出去的更少。中间这张大表，能不能不存？
#
# ## 第一步：分行
#
# softmax 一行一行地算，行与行不相干。所以不必把整张表摆出来：取几行查询，算完，扔掉，再取几行。因果遮罩还省一部分：这几行后面的键看不到，不用算。
#
# 用 512 个词试，一次 64 行：

# %% [markdown] lang="en" of="5f363ccb"
# With 4096 tokens the scores alone are {{ tables_4096 / 1e9:.2f}} GB, and the weights are as much again. $Q$, $K$ and $V$, which come in, are {{ inputs_4096 / tables_4096:.1%}} of that, and what goes out is less still. Can the large table in the middle be left out?
#
# ## First: rows in blocks
#
# The softmax works row by row, and no row depends on another. So the whole table need not be there at once: take a few rows of queries, finish them, drop them, take the next. The causal mask saves some more: keys after these rows are not seen and need not be touched.
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
# 结果一样。64 块里，灰色的 28 块没有算。浅色的 8 块在对角线上，块里右上角的分数要遮住。
#
# ## 第二步：一行也分开
#
# 一行还是很长，32768 个词就是 32768 个分数。softmax 要先知道全行的最大值和全行的和，看来非得等整行到齐。其实不用。
#
# 拿小例子里「西安」那一行，六个缩放后的分数，切成前后两段，先只看前三个：

# %% [markdown] lang="en" of="76ac9a08"
# The result is the same. Of the 64 blocks the 28 grey ones were never computed. In the 8 light ones, on the diagonal, the upper right corner is masked.
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
# 记下三样：到此为止的最大值，`m_1`；减去它以后各指数值的和，`total_1`；指数值乘值再相加、还没有除以和的，`mixed_1`。
#
# 后三个来了，最大值变成 {{ x.max():.2f}}。前面的指数是减去 {{ m_1:.2f}} 算的，现在应当减去 {{ x.max():.2f}}。不用重算，整体乘一个数就行：
#
# $$e^{x - m_{new}} = e^{x - m_{old}} \cdot e^{m_{old} - m_{new}}$$

# %% [markdown] lang="en" of="c46067d1"
# Keep three things: the largest so far, `m_1`; the sum of the exponentials after subtracting it, `total_1`; the values times these exponentials, added up and not yet divided, `mixed_1`.
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
# 分母是 {{ total_2:.4f}}，同 [02](02_softmax.ipynb) 里整行一起算的一样。这叫在线 softmax（Milakov 和 Gimelshein，2018）。它是**精确的**，不是近似：纸上两种算法相等。电脑每一步都要舍入，次序不同，float32 的最后一两位就可能不同。
#
# 写成循环，切成多少段都行。这里的分数是现成的；真的程序轮到哪一段才算哪一段：

# %% [markdown] lang="en" of="d172d741"
# The sum is {{ total_2:.4f}}, as in [02](02_softmax.ipynb), where the row was taken whole. This is the online softmax (Milakov and Gimelshein 2018). It is **exact** and no approximation: on paper the two are equal. A computer rounds at every step, and with the steps in another order the last digit or two of float32 may differ.
#
# As a loop, for any number of pieces. Here the scores are given; a real program computes each piece when it needs it:


# %%
def online(scores, values, piece):
    """softmax(scores) @ values for one row of scores, `piece` of them at a time."""
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
# 行分块，行内再分块，表就只剩下一小片一小片。库里的 `fast.attend` 就是这样写的，片还分给几个线程，让处理器的几个核同时算。和一步一步的 `qwen.attend` 比：输出一样不一样，最多同时占多少内存（`tracemalloc` 数的是 Python 和 NumPy 要的内存）：

# %% [markdown] lang="en" of="7887769c"
# With rows in blocks and each row in pieces, only small tiles are left of the table. `fast.attend` in the library is written like this, with the tiles shared out over the cores of the processor. Compare it with the step-by-step `qwen.attend`, in its output and in the most memory held at a time (`tracemalloc` counts the memory that Python and NumPy ask for):

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
# FlashAttention（Dao 等，2022）在显卡上做的就是这件事。打分、缩放、遮罩、softmax、乘 $V$，合成一个程序。（训练时还有 dropout：随机把一部分权重改成 0。）表一片一片地在芯片内部算完就扔，$S \times S$ 的整张表从不写进显存，也就是显卡自己的内存。多占的内存随 $S$ 增长，不再随 $S^2$。运算次数没有少，训练时往回算梯度还要多一些；少的是内存的读写。结果是精确的。
#
# 它**没有**合并 $W_O$。程序收到的是 $Q$、$K$、$V$，交出的是每个头的上下文向量，里面没有任何参数矩阵。$W_O$ 在它后面，是一次普通的矩阵乘法。看 `fast` 里对应的函数 `core`，也没有参数矩阵。它多收一个 `turn`，是角度：查询的旋转也放在里面做：

# %% [markdown] lang="en" of="1d864d50"
# ## What FlashAttention fuses
#
# FlashAttention (Dao et al. 2022) does this on a graphics card. Scores, scale, mask, softmax and the product with $V$ become one program. (In training there is dropout too: some of the weights, at random, are set to 0.) The table is computed tile by tile inside the chip and dropped; the whole $S \times S$ table is never written to the card's memory. The extra memory grows with $S$ and no longer with $S^2$. There are not fewer operations, and for the gradients in training there are some more. What is saved is reading and writing memory. The result is exact.
#
# It does **not** fuse $W_O$. The program receives $Q$, $K$ and $V$ and hands over the context of each head; there is no parameter matrix in it. $W_O$ comes after it and is an ordinary matrix product. The function in `fast` that corresponds, `core`, has none either. It also takes `turn`, the angles, because it rotates the queries as well:

# %%
takes = list(inspect.signature(fast.core).parameters)
print("fast.core takes", ", ".join(takes))
assert takes == ["q", "k", "v", "turn"]

flops = models.attention_flops(model, 4096)
print(
    f"at 4096 tokens W_O is {flops['W_O'] / sum(flops.values()):.0%} of the operations of attention"
)

# %% [markdown] lang="zh"
# 这套笔记本的材料里有一篇讲面试题的文章，说 FlashAttention 把 $W_O$ 和残差、LayerNorm 合在一起，FlashAttention-2 因此在 H100 上快两成。对着代码和论文看：
#
# * 主程序收到的只有 $Q$、$K$、$V$ 和几个设置，没有参数矩阵。
# * 另有一个**单独的**程序，合并 dropout、残差和 LayerNorm（代码库的 `csrc/layer_norm`），里面也没有矩阵乘法。
# * FlashAttention-2 的论文（Dao，2023）说，快在少做了矩阵乘法以外的运算，沿序列方向并行，线程组之间分工更好。
# * “快两成”没有找到出处。
#
# ## 预填和解码
#
# 给模型一段话，它先把整段一次算完，这叫预填（prefill）。然后一个词一个词地写，这叫解码（decode）：每次只有一个新词，前面的键和值从缓存里取。
#
# 两条路的结果一样。下面的四行是现成的，代替写出来的词：

# %% [markdown] lang="en" of="5ec9b960"
# One of the articles this series works from, on an interview question, says that FlashAttention fuses $W_O$ with the residual and LayerNorm, and that FlashAttention-2 gains a fifth on an H100 by it. Beside the code and the papers:
#
# * The main program takes $Q$, $K$, $V$ and a few settings, and no parameter matrix.
# * There is a **separate** program that fuses dropout, residual and LayerNorm (`csrc/layer_norm` in the repository). It has no matrix product either.
# * The paper on FlashAttention-2 (Dao 2023) names fewer operations outside matrix products, parallel work along the sequence, and a better division of work between groups of threads.
# * For the gain of a fifth we found no source.
#
# ## Prefill and decode
#
# Given a text, a model first computes all of it at once, which is called prefill. Then it writes token by token, which is called decode: each time there is one new token, and the keys and values before it come from the cache.
#
# Both ways give the same result. The four rows are given here; they stand in for tokens that would be written:

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
# 没有缓存会怎样？每写一个词，前面的全部要重算。写第 1000 个词，一层注意力：

# %% [markdown] lang="en" of="84f1942a"
# And without the cache? For each token written, all before it would have to be computed again. For token 1000, the attention of one layer:

# %%
with_cache = sum(models.attention_flops(model, 1, 1000).values())
without_cache = sum(models.attention_flops(model, 1000).values())
print(
    f"with cache {with_cache / 1e6:.0f} MFLOP, without {without_cache / 1e6:.0f} MFLOP: {without_cache / with_cache:.0f} times"
)

# %% [markdown] lang="zh"
# 没有缓存，要 {{ without_cache / with_cache:.0f}} 倍的运算。前面的键和值可以留着，是因为有因果遮罩：前面的词看不到新词，它们的数不会变。
#
# ### 解码为什么慢
#
# 解码的运算很少，慢在别处。写一个词，这一层注意力的四个参数矩阵要**全部读一遍**。预填 512 个词也只读一遍，512 个词分摊。（FFN 的参数是它的 {{ ffn / sum(models.attention_parameters(model).values()):.1f}} 倍，道理一样。）每读一个字节，做几次运算？下面算的是参数矩阵和缓存：

# %% [markdown] lang="en" of="a7971e38"
# Without the cache it takes {{ without_cache / with_cache:.0f}} times the operations. The old keys and values can be kept because of the causal mask: earlier tokens do not see the new one, and their numbers do not change.
#
# ### Why decoding is slow
#
# Decoding takes few operations. It is slow for another reason. To write one token, the four parameter matrices of the layer's attention have to be read, **all** of them. For a prefill of 512 tokens they are read once as well, and 512 tokens share that. (The FFN has {{ ffn / sum(models.attention_parameters(model).values()):.1f}} times as many, and behaves the same.) How many operations are there for each byte read? We count the parameter matrices and the cache:

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

card_operations, card_bytes = 312e12, 2.039e12  # a second; NVIDIA A100 80 GB SXM, its data sheet
card = card_operations / card_bytes
print(f"an A100 can do {card:.0f} operations in the time it reads a byte")
assert (
    operations_per_byte(1, 1) < operations_per_byte(64, 64) < card < operations_per_byte(512, 512)
)

# %% [markdown] lang="zh"
# 解码一个词，每读一个字节只做 {{ operations_per_byte(1, 1):.2f}} 次运算。拿 A100 显卡来比（厂家的数，bfloat16）：读一个字节的工夫，它能做 {{ card:.0f}} 次运算。少于这个数，快慢由读内存定，运算的部件有一部分时间闲着。预填 512 个词，每个字节做 {{ operations_per_byte(512, 512):.0f}} 次，就轮到运算来定了。这里每个数按 4 字节算；2 字节的话，每个字节的运算多一倍。
#
# 量一量。下面比的是每个词摊到的时间，单独解码一个词和一次预填 64 个词：

# %% [markdown] lang="en" of="6c1228ec"
# When one token is decoded, there are {{ operations_per_byte(1, 1):.2f}} operations for each byte read. Compare an A100 graphics card (the maker's numbers, bfloat16): in the time it reads one byte it can do {{ card:.0f}} operations. Below that number reading memory sets the pace, and the arithmetic is idle part of the time. With a prefill of 512 tokens there are {{ operations_per_byte(512, 512):.0f}} for each byte, and the operations set the pace. We count 4 bytes a number; with 2 bytes there are twice as many operations for each byte.
#
# Measure it. This compares the time for each token: one token decoded alone, and 64 in one prefill:

# %%
# NBVAL_IGNORE_OUTPUT
alone = shortest(lambda: fast.attend(normed[:1], W, shape))
together = shortest(lambda: fast.attend(normed[:64], W, shape)) / 64
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
cache_lengths = [1024 * 2**i for i in range(8)]  # 1k to 128k
caches = {}
for name in ("GPT-3 175B", "Gemma-7B", "LLaMA-3-8B", "Qwen2.5-7B"):
    m = models.read(name)
    caches[name] = [models.cache_bytes(m, s) / 1e9 for s in cache_lengths]
deepseek = models.cache_bytes(models.read("DeepSeek-V3"))
print(f"bytes a token: DeepSeek-V3 {deepseek}, Qwen2.5-7B {models.cache_bytes(model)}")
figures_real.cache_growth(cache_lengths, caches, lang)

# %% [markdown] lang="zh"
# 这里按同样的词数比缓存，不管模型当初设计能读多长。Gemma-7B 的层数和 Qwen2.5-7B 一样，缓存却是 Qwen2.5-7B 的 {{ caches["Gemma-7B"][0] / caches["Qwen2.5-7B"][0]:.0f}} 倍：一边是 16 个键值头，每个 256 维；一边是 4 个，每个 128 维。DeepSeek-V3 有 61 层，每层 128 个头，因为只存压缩过的向量，每个词 {{ deepseek }} 字节，和 Qwen2.5-7B 的线几乎重合，没有画。
#
# ## 三个问题
#
# **1.** 文本从 1000 个词变成 2000 个，哪些东西变成两倍，哪些变成四倍，哪些不变？
#
# <details><summary>答案</summary>
#
# 两倍：四个投影的运算，缓存，残差流。四倍：分数和权重的个数，softmax 的工作。遮住的不算的话，打分和取值的运算差一点到四倍。不变：参数。
#
# </details>
#
# **2.** 单独解码一个词，和 64 个词一起预填，每个词的运算差不多。为什么单独的那个慢？
#
# <details><summary>答案</summary>
#
# 参数矩阵要读一遍。单独解码，这一遍只为一个词；64 个词一起，就由 64 个词分摊。每读一个字节，一边做 {{ operations_per_byte(1, 1):.2f}} 次运算，一边做 {{ operations_per_byte(64, 64):.0f}} 次。
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

# %% [markdown] lang="en" of="0ccd97c3"
# This compares caches for the same number of tokens, whatever length a model was made for. Gemma-7B has as many layers as Qwen2.5-7B, and its cache is {{ caches["Gemma-7B"][0] / caches["Qwen2.5-7B"][0]:.0f}} times as large: 16 K/V heads of 256, against 4 of 128. DeepSeek-V3 has 61 layers of 128 heads, and because it stores a compressed vector, {{ deepseek }} bytes a token; its line would nearly coincide with that of Qwen2.5-7B and is not drawn.
#
# ## Three questions
#
# **1.** A text grows from 1000 tokens to 2000. What doubles, what becomes four times as much, what stays?
#
# <details><summary>Answer</summary>
#
# Double: the operations of the four projections, the cache, the residual stream. Four times: the number of scores and weights, the work of the softmax. With masked scores left out, the operations of scores and A·V are nearly four times as many. The parameters stay.
#
# </details>
#
# **2.** A token decoded alone and a token among 64 in a prefill take about the same operations. Why is the one alone slower?
#
# <details><summary>Answer</summary>
#
# The parameter matrices have to be read once. Decoded alone, that is for one token; in a prefill, 64 tokens share it. For each byte read there are {{ operations_per_byte(1, 1):.2f}} operations in one case and {{ operations_per_byte(64, 64):.0f}} in the other.
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

# %% [markdown] lang="zh"
# # 05 · 训练好的头
#
# | | |
# |---|---|
# | 在哪里 | 投影 → 打分 → 缩放 → softmax → 加权取值 → 输出投影：**同样的步骤，训练好的参数** |
# | 需要什么 | [04 多头和输出投影](04_heads_and_output_projection.ipynb)：拆头、并头、$W_O$ 按头分块 |
# | 走完以后 | 能用前四本的函数重算一个真实模型的一层；会用数，而不是用眼睛，找出看下一个词、看自己、看开头的头；知道一个头的权重大，证明不了什么；会量去掉一个头的后果 |
# | 多长时间 | 约 50 分钟 |

# %% [markdown] lang="en" of="65cb061a"
# # 05 · Trained heads
#
# | | |
# |---|---|
# | Where we are | project → score → scale → softmax → weigh → project out: **the same steps with trained parameters** |
# | What you need | [04 Heads and output projection](04_heads_and_output_projection.ipynb): splitting, merging, $W_O$ in blocks by head |
# | What you will be able to do | recompute a layer of a real model with the functions of the first four notebooks; find heads that look at the next token, at themselves or at the start, by numbers and not by eye; say why one large weight proves little; measure what removing a head does |
# | Time | about 50 minutes |

# %%
import numpy as np

from byhand import data, figures_trained, show
from byhand import apply_mask, attention, causal_mask, merge_heads, project, softmax, split_heads

lang = "zh"  # the language of figures: zh or en

file = data.path("real_heads_e5.npz")
megabytes = file.stat().st_size / 1e6
e5 = dict(np.load(file))
tokens = [str(token) for token in e5["tokens"]]
开头, 今天, 西安, 的, 天气, 怎么样, 问号, 结尾 = range(8)
A = e5["attention"].astype(np.float64)  # [12, 12, 8, 8]: layer, head, query, key
n_layers, n_heads, S, _ = A.shape
d_model = e5["hidden"].shape[-1]
d_head = d_model // n_heads
print(f"{n_layers} layers × {n_heads} heads × {d_head} dimensions, d_model {d_model}")
print(" ".join(tokens))
assert n_heads * d_head == d_model

# %% [markdown] lang="zh"
# ## 这是一个什么模型
#
# multilingual-e5-small，一个小的多语言模型，把一句话变成一个向量，用来搜索。参数是训练出来的，不是随机的，也不是倒推的。我们的句子走过它，每一层每个头的权重都存在一个 {{ megabytes:.1f}} MB 的文件里，不用下载。
#
# 和前面不同的地方，先说清楚：
#
# * 它是**编码器**：每个词前后都能看，没有因果遮罩。
# * 词表不同，号码也不同。这句话恰好还是切成这六个词。句子前后各加了一个符号：`<s>` 是开头，`</s>` 是结尾。一共 8 个。
# * 归一化在后：先加回去，再归一化。用的是 LayerNorm：每一行减去自己的平均，除以标准差，再乘一行、加一行学来的数。FFN 里那个不是线性的函数叫 GELU，和负数改成 0 的做法相近，只是拐弯处是圆的。
# * 四个投影都有偏置，$W_O$ 也有。
#
# 注意力的算法一样。

# %% [markdown] lang="en" of="c8dfdfa5"
# ## What model this is
#
# multilingual-e5-small, a small model for many languages that turns a sentence into a vector, for search. Its parameters were trained; they are not random and not worked out backwards. Our sentence went through it, and the weights of every head in every layer are in a file of {{ megabytes:.1f}} MB. There is nothing to download.
#
# What is different from before:
#
# * It is an **encoder**: every token sees those before it and those after it. There is no causal mask.
# * It has another vocabulary with other ids. Our sentence happens to be cut into the same six tokens. A mark is put at each end: `<s>` at the start, `</s>` at the end. That makes 8.
# * The norm comes after: first the sum, then the norm. It is LayerNorm: subtract from each row its mean, divide by its standard deviation, then multiply by one learned row and add another. The function in the FFN that is not linear is called GELU; it is like turning negative numbers into 0, with the corner rounded.
# * All four projections have a bias, $W_O$ too.
#
# How attention is computed is the same.

# %% [markdown] lang="zh"
# ## 把一层重算一遍
#
# 文件里有第 10 层（从 0 数）自己的参数、输入和输出。参数按 [出, 进] 存放，和 `nn.Linear` 一样，所以要转置。下面用 01 到 04 的函数来算。
#
# 先猜：我们算出来的权重，和模型自己的权重，会差多少？文件里的参数、输入和权重都只留了 16 位。

# %% [markdown] lang="en" of="b7d648a3"
# ## Recompute one layer
#
# The file has the parameters, the input and the output of layer 10 (counting from 0). The parameters are stored as [out, in], as in `nn.Linear`, and have to be transposed. The cell below uses the functions of 01 to 04.
#
# Guess first: how far will our weights be from the model's own? The parameters, the input and the weights were all stored with 16 bits only.

# %%
layer = int(e5["layer"])  # 10
P = {name: e5[name].astype(np.float64) for name in e5 if name[:2] in ("W_", "b_")}
W_Q, W_K, W_V, W_O = (P[f"W_{n}"].T for n in "qkvo")  # [384, 384] each, [in, out] now
x = e5["x_in"].astype(np.float64)  # [8, 384]

Q = split_heads(project(x, W_Q, P["b_q"]), n_heads)  # [8, 384] -> [12, 8, 32]
K = split_heads(project(x, W_K, P["b_k"]), n_heads)
V = split_heads(project(x, W_V, P["b_v"]), n_heads)
stages = attention(Q, K, V)  # scores are divided by √32; no mask
merged = merge_heads(stages.context)  # [12, 8, 32] -> [8, 384]
output = project(merged, W_O, P["b_o"])  # [8, 384]

weights_off = np.abs(stages.weights - A[layer]).max()
output_off = np.abs(output - e5["attention_out"]).max()
print(f"weights: at most {weights_off:.5f} from the model's own")
print(f"output:  at most {output_off:.5f}, of numbers up to {np.abs(output).max():.2f}")
step_16_bits = np.spacing(np.float16(A[layer].max()))  # between neighbours, near the largest weight
print(f"16 bits near {A[layer].max():.2f} go in steps of {step_16_bits:.5f}")
assert weights_off < step_16_bits and output_off < 5e-4

# %% [markdown] lang="zh"
# 权重最多差 {{ weights_off:.5f}}，不到 16 位的一步 {{ step_16_bits:.5f}}。前四本写的几行函数，算出了这一层的注意力。
#
# 输出加回输入，再做 LayerNorm，就是这一层注意力交出去的：

# %% [markdown] lang="en" of="2f90af6a"
# The weights differ by at most {{ weights_off:.5f}}, less than one step of the 16 bits, {{ step_16_bits:.5f}}. The few lines of the first four notebooks have computed the attention of this layer.
#
# The output is added to the input, then comes LayerNorm, and that is what the attention of this layer hands over:

# %%
total = x + output  # [8, 384]
centred = total - total.mean(axis=1, keepdims=True)
spread = np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + float(e5["norm_eps"]))
after = centred / spread * e5["norm_weight"].astype(np.float64) + e5["norm_bias"].astype(np.float64)
after_off = np.abs(after - e5["after_norm"]).max()
print(f"after the norm: at most {after_off:.4f}, of numbers up to {np.abs(after).max():.1f}")
assert after_off < 1e-3 * np.abs(after).max()

# %% [markdown] lang="zh"
# ## 144 个头
#
# 12 层，每层 12 个头，一共 144 张表，每张 [8, 8]。这里层和头都从 0 数起；小例子的头 1、头 2 是从 1 数的：

# %% [markdown] lang="en" of="7a9a13ae"
# ## 144 heads
#
# 12 layers of 12 heads are 144 tables, each [8, 8]. Layers and heads count from 0 here; heads 1 and 2 of the toy count from 1:

# %%
best = A.argmax(axis=-1)  # [12, 12, 8]: the key each query looks at most
at_ends = np.isin(best, (开头, 结尾))
print(f"{best.size} rows; the maximum is on <s> or </s> in {at_ends.sum()}, {at_ends.mean():.0%}")
figures_trained.all_heads(A, lang)

# %% [markdown] lang="zh"
# 文章教的读法是逐行找最大值。这里有 {{ best.size }} 行，其中 {{ at_ends.mean():.0%}} 的最大值在 `<s>` 或 `</s>` 上，最大值自己说不出多少。144 张用眼睛看太多，也容易只看见想看的。用数来找：给每个头算六个数。前五个是平均权重：给后一个词、前一个词、自己、`<s>`、`</s>` 各多少。第六个是熵（entropy），量一行有多分散：$-\sum_j A_j \ln A_j$，$A_j$ 是这一行的第 $j$ 个权重。$e$ 的熵次方，读作“好像几个词平分”：全在一个词上是 1，八个词平分是 8。

# %% [markdown] lang="en" of="87c29a60"
# The article's way of reading is to look for the maximum of each row. Here are {{ best.size }} rows, and in {{ at_ends.mean():.0%}} of them the maximum is on `<s>` or `</s>`; maxima alone do not tell much. 144 tables are too many to look through, and the eye finds what it wants to find. Use numbers, six for each head. Five are mean weights: on the token after, the token before, itself, `<s>`, `</s>`. The sixth is the entropy, which tells how spread out a row is: $-\sum_j A_j \ln A_j$, where $A_j$ is weight $j$ of the row. $e$ to the power of the entropy reads "as if so many tokens shared evenly": 1 when everything is on one token, 8 when eight share alike.

# %%
i = np.arange(S)
looks = {
    "next": A[:, :, i[:-1], i[1:]].mean(axis=-1),  # [12, 12]: the weight on the token after
    "previous": A[:, :, i[1:], i[:-1]].mean(axis=-1),  # on the token before
    "itself": A[:, :, i, i].mean(axis=-1),
    "<s>": A[:, :, :, 开头].mean(axis=-1),
    "</s>": A[:, :, :, 结尾].mean(axis=-1),
}
for name, mean_weight in looks.items():
    at_layer, at_head = np.unravel_index(mean_weight.argmax(), mean_weight.shape)
    print(f"{name:<9} layer {at_layer:>2} head {at_head:>2}   mean weight {mean_weight.max():.3f}")

entropy = -np.sum(A * np.log(np.maximum(A, 1e-12)), axis=-1).mean(axis=-1)  # [12, 12]
for name, pick in (("sharpest", entropy.argmin()), ("flattest", entropy.argmax())):
    at_layer, at_head = np.unravel_index(pick, entropy.shape)
    effective = np.exp(entropy.ravel()[pick])
    print(
        f"{name:<9} layer {at_layer:>2} head {at_head:>2}   as if {effective:.1f} tokens shared evenly"
    )

# %% [markdown] lang="zh"
# 有几个头很干净。第 2 层头 6 看**下一个词**，平均 {{ looks["next"].max():.3f}}。看**自己**的没有这样干净，最高的平均也只有 {{ looks["itself"].max():.3f}}。第 4 层头 5 几乎全看 `<s>`，{{ looks["<s>"].max():.3f}}。看 `<s>` 的头有多少？

# %% [markdown] lang="en" of="23819978"
# A few heads are very clean. Head 6 of layer 2 looks at the **next token**, {{ looks["next"].max():.3f}} on average. None is as clean in looking at **itself**: the highest mean is only {{ looks["itself"].max():.3f}}. Head 5 of layer 4 looks almost only at `<s>`, {{ looks["<s>"].max():.3f}}. How many heads look at `<s>`?

# %%
sinks = looks["<s>"] > 0.5  # [12, 12]
print(f"{sinks.sum()} of {sinks.size} heads put more than half of their weight on <s>")
print("by layer:", sinks.sum(axis=1))
assert looks["next"].argmax() == 2 * n_heads + 6 and looks["<s>"].argmax() == 4 * n_heads + 5
both_ends = looks["<s>"] + looks["</s>"] > 0.5
print(
    f"{both_ends.sum()} heads put more than half on <s> and </s> together; by layer: {both_ends.sum(axis=1)}"
)
assert both_ends.sum() > 2 * sinks.sum() > 2 * n_heads

# %% [markdown] lang="zh"
# {{ sinks.sum() }} 个头把一半以上的权重放在 `<s>` 上，它不代表句子里的任何词。后面几层好像没有了，其实是分给了两头：`<s>` 和 `</s>` 合起来过半的头，有 {{ both_ends.sum() }} 个。权重集中到这样的位置，叫注意力汇（attention sink）。常见的解释是：一行权重的和必须是 1，没什么可找的头，也得把权重放在某处。这一格只量了有多少，没有检验原因。看权重表，先把两头这两列放在一边。
#
# ## 怎么样 → 西安
#
# 小例子里，「怎么样」在头 1 里最看重「西安」。真实的模型里有这样的头吗？在 144 个头里找「怎么样」对「西安」权重最大的：

# %% [markdown] lang="en" of="f6a5d982"
# {{ sinks.sum() }} heads put more than half of their weight on `<s>`, which stands for no word of the sentence. In the later layers they seem to be gone. There the weight is split between the two ends: {{ both_ends.sum() }} heads put more than half on `<s>` and `</s>` together. A position that draws weight like this is called an attention sink. The usual explanation is that a row of weights must sum to 1, so a head with nothing to look for still has to put its weight somewhere. This cell measures how many there are; it does not test why. When you read a table of weights, set the two end columns aside first.
#
# ## 怎么样 → 西安
#
# In the toy, 怎么样 looks most at 西安 in head 1. Is there such a head in the real model? Among the 144, find the one where 怎么样 gives most to 西安:

# %%
to_xian = A[:, :, 怎么样, 西安]  # [12, 12]
at_layer, at_head = (int(n) for n in np.unravel_index(to_xian.argmax(), to_xian.shape))
print(f"怎么样 → 西安: layer {at_layer} head {at_head}, {to_xian.max():.2f}")
print(f"the first five of {to_xian.size} heads:")
for n in np.argsort(-to_xian, axis=None)[:5]:
    print(f"layer {n // n_heads:>2} head {n % n_heads:>2}   {to_xian.flat[n]:.3f}")
found = A[at_layer, at_head]
assert (at_layer, at_head) == (10, 4)
figures_trained.one_head(found, tokens, f"layer {at_layer}, head {at_head}", lang)

# %% [markdown] lang="zh"
# 有：第 {{ at_layer }} 层头 {{ at_head }}，{{ to_xian.max():.2f}}。看上去像是“问天气的词去找地名”。
#
# 先别信。看整张表，再看「西安」这一列：

# %% [markdown] lang="en" of="548b7c24"
# There is: layer {{ at_layer }}, head {{ at_head }}, with {{ to_xian.max():.2f}}. It looks like a word that asks about the weather, looking for the place.
#
# Do not believe it yet. Look at the whole table, and then at the column of 西安:

# %%
print("weight on 西安:", "  ".join(f"{t} {w:.2f}" for t, w in zip(tokens, found[:, 西安])))
first_or_second = sum(西安 in np.argsort(row)[-2:] for row in found)
first_inside = sum(int(row[今天:结尾].argmax()) + 1 == 西安 for row in found)
print(
    f"西安 is first or second in {first_or_second} of {S} rows, and first in {first_inside} without the ends"
)
assert first_or_second >= 6 and found[的, 西安] > found[怎么样, 西安]

# %% [markdown] lang="zh"
# 八行里有 {{ first_or_second }} 行，「西安」排在前两名。两头的两列放在一边，{{ first_inside }} 行里它都是第一。连「的」都给它 {{ found[的, 西安]:.2f}}，比「怎么样」给的还多。这个头不是“怎么样找地名”，更像“不管是谁，都看西安”。
#
# 所以那个 {{ to_xian.max():.2f}} 比看上去弱。要说“怎么样在找西安”，至少得比一比别的词在同一个头里给多少，再换几十个句子。一句话、一个头、一个数，什么也证明不了。
#
# 另一个方向，「西安」→「天气」：

# %% [markdown] lang="en" of="7eb7849a"
# In {{ first_or_second }} of 8 rows 西安 is first or second. With the two end columns set aside it is first in {{ first_inside }} of them. Even 的 gives it {{ found[的, 西安]:.2f}}, more than 怎么样 does. This head is less "怎么样 looks for a place" than "whoever you are, look at 西安".
#
# So that {{ to_xian.max():.2f}} is weaker than it looks. To say that 怎么样 looks for 西安, one would at least have to compare what other tokens give in the same head, and then try dozens of other sentences. One sentence, one head and one number prove nothing.
#
# The other direction, 西安 → 天气:

# %%
to_weather = A[:, :, 西安, 天气]
w_layer, w_head = (int(n) for n in np.unravel_index(to_weather.argmax(), to_weather.shape))
column = A[w_layer, w_head, :, 天气]  # [8]
print(f"西安 → 天气: layer {w_layer} head {w_head}, {to_weather.max():.2f}")
print("weight on 天气:", "  ".join(f"{t} {w:.2f}" for t, w in zip(tokens, column)))
assert (w_layer, w_head) == (11, 8) and column.argmax() != 西安

# %% [markdown] lang="zh"
# 第 {{ w_layer }} 层头 {{ w_head }}，{{ to_weather.max():.2f}}。同样，给「天气」最多的不是「西安」，是「{{ tokens[int(column.argmax())] }}」，{{ column.max():.2f}}。
#
# ### 动一动：找一个头
#
# 下面有两个滑块和两个菜单。滑块选层和头，菜单选一对词：谁看（查询），看谁（键）。左边是这个头的权重：橙框是每行最大的，细框是选中的行和列。右边是 {{ n_layers * n_heads }} 个头里，给这一对权重最大的五个。选中的头加框；不在前五，就写在最下面。第一个按钮跳到第一名。
#
# 先猜：「天气」在哪个头里给「怎么样」最多？这个头前面见过。

# %% [markdown] lang="en" of="099c15fd"
# Layer {{ w_layer }}, head {{ w_head }}, {{ to_weather.max():.2f}}. Again it is not 西安 that gives most to 天气, but {{ tokens[int(column.argmax())] }}, with {{ column.max():.2f}}.
#
# ### Move it: find a head
#
# Below are two sliders and two menus. The sliders set the layer and the head. The menus set a pair of tokens: who looks (the query), and at whom (the key). On the left are the weights of that head: an orange frame is the maximum of a row, the thin frames are the row and the column chosen. On the right are the five of the {{ n_layers * n_heads }} heads that give most to the pair. The head chosen is framed; outside the first five it is written below them. The first button goes to the head at the top.
#
# Guess first: in which head does 天气 give 怎么样 most? You have met it above.

# %%
from byhand.explorers import real_heads

explorer = real_heads.explorer(lang)
explorer

# %%
jump = next(iter(explorer.buttons.values()))  # the first button
for query in range(S - 1):  # each token, and the one after it
    _ = explorer.set(query=query, key=query + 1)
    jump.click()
    pair = A[:, :, query, query + 1]  # [12, 12]
    by_hand = tuple(int(n) for n in np.unravel_index(pair.argmax(), pair.shape))
    assert (explorer.values["layer"], explorer.values["head"]) == by_hand == (2, 6)
    assert f"{pair.max():.3f}" in explorer.says
    print(explorer.says.splitlines()[0])
assert np.array_equal(A[2, 6].argmax(axis=1)[:-1], np.arange(1, S))  # one to the right, each
_ = explorer.reset()

# %% [markdown] lang="zh"
# 第 2 层头 6，{{ A[2, 6, 天气, 怎么样]:.3f }}。看上去像「天气」在找「怎么样」。可是 {{ S - 1 }} 对相邻的词，看得最多的都是这一个头：它看后一个词，不管后面是谁。在它的图上，除了最后一行，每个橙框都在对角线右边一格。
#
# 拿一对词去找，总能找到一个头。它是不是只看这一对，要看整张图。
#
# ## 每个头写了多少
#
# 权重只说看了谁，不说写了什么。头 $h$ 写进输出的是 $z_h W_O^{(h)}$，[04](04_heads_and_output_projection.ipynb) 里的那一块。每个头、每个词，量它有多长：

# %% [markdown] lang="en" of="0bc42358"
# Layer 2, head 6, {{ A[2, 6, 天气, 怎么样]:.3f }}. It looks like 天气 looking for 怎么样. But for all {{ S - 1 }} pairs of neighbours the head that looks most is this one: it looks at the next token, whichever that is. In its map, every orange frame but the last is one to the right of the diagonal.
#
# Take any pair of tokens, and some head will be found for it. Whether it looks at that pair alone, only the whole map can tell.
#
# ## How much each head writes
#
# Weights say who is looked at, not what is written. What head $h$ writes into the output is $z_h W_O^{(h)}$, the block of [04](04_heads_and_output_projection.ipynb). For each head and each token, measure its length:

# %%
blocks = W_O.reshape(n_heads, d_head, d_model)  # [12, 32, 384], the rows of W_O by head
written = stages.context @ blocks  # [12, 8, 32] @ [12, 32, 384] -> [12, 8, 384]
assert np.allclose(written.sum(axis=0) + P["b_o"], output, rtol=0, atol=1e-9)

lengths = np.linalg.norm(written, axis=-1)  # [12, 8]
by_head = lengths.mean(axis=1)  # [12]
order = np.argsort(-by_head)
print("mean length by head:", show.row(by_head, 2))
print(
    f"longest: head {order[0]}, {by_head.max():.2f}; shortest: head {order[-1]}, {by_head.min():.2f}"
)
print(f"head 4, the one above: {by_head[4]:.2f}, number {list(order).index(4) + 1} of {n_heads}")
figures_trained.head_writes(lengths, tokens, lang)

# %% [markdown] lang="zh"
# 十二个头长短不一，最长的是最短的 {{ by_head.max() / by_head.min():.1f}} 倍。最长的恰好是头 {{ order[0] }}，几乎谁都看「西安」的那个。
#
# ## 去掉一个头
#
# 把一个头的上下文换成 0，等于去掉 $W_O$ 里它那 32 行。输出动多少？除以输出自己的长度，看比例：

# %% [markdown] lang="en" of="911c9958"
# The twelve heads differ: the longest writes {{ by_head.max() / by_head.min():.1f}} times as much as the shortest. The longest happens to be head {{ order[0] }}, the one in which nearly everyone looks at 西安.
#
# ## Remove a head
#
# Replace the context of a head by 0. That is the same as dropping its 32 rows of $W_O$. How far does the output move, as a share of its own length?


# %%
def moved(new_output):
    """How far the layer's output is from its own, over the length of the output; mean over tokens."""
    distance = np.linalg.norm(new_output - output, axis=1)
    return float(np.mean(distance / np.linalg.norm(output, axis=1)))


def keep(heads):
    """The output with only these heads left."""
    return sum(written[h] for h in heads) + P["b_o"]


one_out = np.array([moved(keep(set(range(n_heads)) - {h})) for h in range(n_heads)])  # [12]
only_one = np.array([moved(keep({h})) for h in range(n_heads)])  # [12]
dropped = [r for h in range(n_heads) if h != 4 for r in range(32 * h, 32 * (h + 1))]
assert np.allclose(
    project(merged[:, dropped], W_O[dropped], P["b_o"]), keep(set(range(n_heads)) - {4})
)
none_left = moved(keep(set()))  # the bias alone
print("one head out: ", show.row(one_out, 2))
print("only one left:", show.row(only_one, 2))
print(f"none left:     {none_left:.2f}")
assert np.isclose(moved(np.zeros_like(output)), 1)  # zeros are one length away
figures_trained.knock_out(one_out, only_one, lang)

# %% [markdown] lang="zh"
# 去掉一个头，这一层的输出动 {{ one_out.min():.0%}} 到 {{ one_out.max():.0%}}。只留一个头，动 {{ only_one.min():.0%}} 到 {{ only_one.max():.0%}}；一个也不留，只剩偏置，动 {{ none_left:.0%}}。作个比较：把输出全换成 0，恰好动自己长度的一倍。所以只留一个头，离原来的输出差不多和全是 0 一样远。
#
# 文章说“部分头是冗余的，剪掉一些影响不大”。这话有依据，也有条件。Michel 等人 2019 年的论文试了翻译模型和 BERT：训练好以后，多数头**单独**去掉影响很小；一次只动一层，不少层可以只剩一个头；但是在整个模型里**一起**去掉，多数头必须留下。这里量的是一层输出动多少，不是模型答得好不好。后面的层还会接着算，加回去的 $x$ 也还在：

# %% [markdown] lang="en" of="c4def996"
# With one head removed the output of this layer moves by {{ one_out.min():.0%}} to {{ one_out.max():.0%}}. With one head left it moves by {{ only_one.min():.0%}} to {{ only_one.max():.0%}}; with none, the bias alone, by {{ none_left:.0%}}. For comparison: replace the output by zeros, and it moves by exactly its own length. So with one head left the layer is about as far from its output as with zeros.
#
# The article says that some heads are redundant and that pruning them does little. There is ground for that, with conditions. Michel et al. 2019 tried translation models and BERT. After training, most heads can be removed **one at a time** with little effect. Changing one layer at a time, many layers can do with one head. But when heads are removed **together** from the whole model, most have to stay. What we measure here is how far one layer's output moves, not how well the model answers. Later layers go on computing, and the $x$ that is added is still there:


# %%
def hands_over(new_output):
    """After the residual sum and LayerNorm. [8, 384]"""
    total = x + new_output
    centred = total - total.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + float(e5["norm_eps"]))
    return centred / spread * e5["norm_weight"].astype(np.float64) + e5["norm_bias"]


worst = int(one_out.argmax())
without = hands_over(keep(set(range(n_heads)) - {worst}))
share = np.mean(np.linalg.norm(without - after, axis=1) / np.linalg.norm(after, axis=1))
print(
    f"head {worst} removed: output moves by {one_out[worst]:.0%}, what is handed over by {share:.0%}"
)
assert share < one_out[worst]
assert np.all(np.linalg.norm(x, axis=1) > np.linalg.norm(output, axis=1))

# %% [markdown] lang="zh"
# 去掉头 {{ worst }}，这一层的输出动 {{ one_out[worst]:.0%}}，加回 $x$、归一化以后只动 {{ share:.0%}}：$x$ 更长，它没有变。
#
# ## 改坏 W_O
#
# 在这一层上试三个错：不要 $W_O$（换成单位矩阵），转置 $W_O$，头的次序倒过来。三个都不报错。前两个是因为 [384, 384] 是方的，第三个是因为每个头一样宽。除了动多少，再看余弦（cosine），它是两个向量方向的接近程度：1 是同方向，0 是互相垂直，负数是偏向相反：

# %% [markdown] lang="en" of="8177012b"
# With head {{ worst }} removed the output of the layer moves by {{ one_out[worst]:.0%}}. After $x$ is added and the sum normalised, it is only {{ share:.0%}}: $x$ is longer, and it has not changed.
#
# ## Break W_O
#
# Try three mistakes on this layer: leave $W_O$ out (the identity in its place), transpose it, reverse the order of the heads. None of them raises an error: the first two because [384, 384] is square, the third because all heads are equally wide. Besides how far the output moves, look at the cosine, which tells how near the directions of two vectors are: 1 is the same direction, 0 is at right angles, below 0 is leaning the opposite way:

# %%
reversed_heads = merge_heads(stages.context[::-1])
mistakes = {
    "identity": merged + P["b_o"],
    "transposed": project(merged, W_O.T, P["b_o"]),
    "heads reversed": project(reversed_heads, W_O, P["b_o"]),
}
for name, wrong in mistakes.items():
    cosines = (
        np.sum(wrong * output, axis=1)
        / np.linalg.norm(wrong, axis=1)
        / np.linalg.norm(output, axis=1)
    )
    print(
        f"{name:<15} shape {list(wrong.shape)}   moves by {moved(wrong):.0%}   cosine {cosines.mean():.2f}"
    )
    assert wrong.shape == output.shape and moved(wrong) > 1 and abs(cosines.mean()) < 0.2

# %% [markdown] lang="zh"
# 形状都对，方向全不对：余弦都接近 0。三个错动的都不止自己长度的一倍，比全换成 0 还远。
#
# ## 如果不许看后面
#
# 编码器前后都看。写文字的模型只能往前看。拿同样的分数加上因果遮罩，看「西安」那一行变成什么：

# %% [markdown] lang="en" of="a18a2cab"
# The shapes are right and the directions are wrong: every cosine is near 0. All three move the output by more than its own length, further than zeros would.
#
# ## If it could not look ahead
#
# An encoder looks both ways. A model that writes text can only look back. Put a causal mask on the same scores and see what becomes of the row of 西安:

# %%
causal = softmax(apply_mask(stages.scaled, causal_mask(S)))  # [12, 8, 8]
ahead = stages.weights[:, 西安, 西安 + 1 :].sum(axis=-1)  # [12]; the weight on later tokens
print(show.row(stages.weights[4, 西安], 2), "  head 4, both ways")
print(show.row(causal[4, 西安], 2), "  head 4, causal")
print("weight of 西安 on later tokens, by head:", show.row(ahead, 2))
assert np.all(causal[:, 西安, 西安 + 1 :] == 0)

# %% [markdown] lang="zh"
# 12 个头平均，「西安」有 {{ ahead.mean():.0%}} 的权重在它后面，其中 {{ stages.weights[:, 西安, 结尾].mean():.0%}} 在 `</s>` 上，落在后面几个词上的只有 {{ stages.weights[:, 西安, 西安 + 1 : 结尾].sum(axis=-1).mean():.0%}}。遮住以后，这些权重按比例分给它自己和前面的词。这只遮了一层：进来的 $x$ 在前面十层里已经看过后面的词。这个模型是前后都看着训练出来的，只加遮罩，不能把它变成写文字的模型。
#
# ## 三个问题
#
# **1.** 一个头在某句话里把几乎全部权重放在 `<s>` 上。它坏了吗？
#
# <details><summary>答案</summary>
#
# 不一定。权重的和必须是 1，没有东西可看的时候，总要放在某处。这句话里就有 {{ sinks.sum() }} 个头大多看 `<s>`。要看它在别的句子里做什么，再看它写了多长。
#
# </details>
#
# **2.** 怎样才能说一个头“在找地名”？
#
# <details><summary>答案</summary>
#
# 至少三件事：同一个头里，别的词给地名的权重低得多；换地名、换句子，仍然成立；把这个头去掉，和地名有关的结果变差，别的不变。
#
# </details>
#
# **3.** 权重表看起来一样的两个头，写进输出的东西一样吗？
#
# <details><summary>答案</summary>
#
# 不一定。写进去的是 $A V$ 再乘自己的那块 $W_O$。$V$ 和 $W_O$ 的那一块，每个头都不同。
#
# </details>
#
# 下一本把尺寸换成一个真正的大模型：[06 真实的尺寸](06_real_shapes.ipynb)。

# %% [markdown] lang="en" of="33ba063e"
# On average over 12 heads, 西安 has {{ ahead.mean():.0%}} of its weight on what comes after it: {{ stages.weights[:, 西安, 结尾].mean():.0%}} on `</s>`, and only {{ stages.weights[:, 西安, 西安 + 1 : 结尾].sum(axis=-1).mean():.0%}} on the tokens between. With the mask that weight is shared out, in proportion, among 西安 itself and the tokens before. Only one layer is masked here: the $x$ that comes in has seen the later tokens in the ten layers before. The model was trained looking both ways, and a mask alone does not turn it into a model that writes text.
#
# ## Three questions
#
# **1.** In some sentence a head puts nearly all of its weight on `<s>`. Is it broken?
#
# <details><summary>Answer</summary>
#
# Not necessarily. The weights must sum to 1, and where there is nothing to look at they have to go somewhere. In this sentence {{ sinks.sum() }} heads look mostly at `<s>`. See what it does in other sentences, and how much it writes.
#
# </details>
#
# **2.** When may one say that a head looks for places?
#
# <details><summary>Answer</summary>
#
# At least three things are needed. In the same head, other tokens give the place much less. It holds for other places and other sentences. And with the head removed, what has to do with places gets worse and the rest does not.
#
# </details>
#
# **3.** Two heads have tables of weights that look alike. Do they write the same into the output?
#
# <details><summary>Answer</summary>
#
# Not necessarily. What is written is $A V$ times the head's own block of $W_O$. $V$ and the block of $W_O$ are different for each head.
#
# </details>
#
# The next notebook takes the sizes of a really large model: [06 Real shapes](06_real_shapes.ipynb).

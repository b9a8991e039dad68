# %% [markdown] lang="zh"
# # 07 · 两个叫 output 的张量
#
# | | |
# |---|---|
# | 在哪里 | 模型文件里：每层一个 `attn_output.weight`，全模型一个 `output.weight` |
# | 需要什么 | [04 多头和输出投影](04_heads_and_output_projection.ipynb)：$W_O$；[06 真实的尺寸](06_real_shapes.ipynb)：一层有哪些参数 |
# | 走完以后 | 能在一个 GGUF 文件的目录里找到任何一个张量，说出它是什么、有几个、多少字节；会换算三种形状写法和两套名字；不再把 $W_O$ 和输出矩阵弄混 |
# | 多长时间 | 约 40 分钟 |

# %% [markdown] lang="en" of="ff396e49"
# # 07 · Two tensors named output
#
# | | |
# |---|---|
# | Where we are | inside a model file: one `attn_output.weight` in each layer, one `output.weight` in the whole model |
# | What you need | [04 Heads and output projection](04_heads_and_output_projection.ipynb): $W_O$; [06 Real shapes](06_real_shapes.ipynb): the parameters of a layer |
# | What you will be able to do | find any tensor in the table of contents of a GGUF file and say what it is, how many there are and how many bytes; convert between three ways of writing a shape and two sets of names; never again take $W_O$ for the output matrix |
# | Time | about 40 minutes |

# %%
import re
from collections import Counter

import numpy as np

from byhand import models, qwen, show, softmax, weights

lang = "zh"  # the language of figures: zh or en

model = models.read("Qwen2.5-7B")
header = weights.header()  # the table of contents of a real file
contents = header.tensors
print(header.metadata["general.name"], "·", header.metadata["general.architecture"])
print(len(contents), "tensors")

# %% [markdown] lang="zh"
# ## 一个真实文件的目录
#
# GGUF 是 llama.cpp 用的文件格式，把一个模型的全部参数装在一个文件里。文件开头是目录：每个张量（也就是数组）的名字、形状、怎样存放、从哪个字节开始。这里的目录来自 DeepSeek-R1-Distill-Qwen-7B，各层尺寸和 Qwen2.5-7B 一样。只有目录，没有参数，所以不大。
#
# 查任何一个：

# %% [markdown] lang="en" of="310be2ed"
# ## The table of contents of a real file
#
# GGUF is the file format of llama.cpp. It holds all the parameters of a model in one file. At the start is a table of contents: the name of each tensor (each array), its shape, how it is stored, at which byte it begins. Ours comes from DeepSeek-R1-Distill-Qwen-7B, whose layers have the sizes of Qwen2.5-7B. It is the table only, without the parameters, and so it is small.
#
# Look up any of them:


# %%
def describe(name):
    """What the table of contents says about one tensor."""
    tensor = contents[name]
    print(
        f"{name:<26} shape {str(list(tensor.shape)):<16} {tensor.kind:<5} {tensor.n_bytes:>11} bytes"
    )


describe("blk.0.attn_output.weight")
describe("output.weight")

# %% [markdown] lang="zh"
# 两个名字里都有 output。先猜：哪一个是 $W_O$？哪一个给每个候选的词打分？各有几个？

# %% [markdown] lang="en" of="1b6ad546"
# Both names have output in them. Guess first: which is $W_O$? Which one gives a score to every candidate for the next token? How many are there of each?

# %%
patterns = Counter(
    re.sub(r"\d+", "N", name, count=1) if name.startswith("blk.") else name for name in contents
)
for pattern, times in patterns.items():
    print(f"{times:>2} × {pattern}")
assert patterns["blk.N.attn_output.weight"] == model.n_layers == 28
assert patterns["output.weight"] == 1

# %% [markdown] lang="zh"
# `attn_output.weight` 有 28 个，每层一个，[3584, 3584]：这是 $W_O$，把一层里 28 个头的上下文混成一行 3584 个数。
#
# `output.weight` 全模型只有一个，[152064, 3584]：词表里每个号码一行（末尾还有几百行是补齐用的）。28 层都走完、最后归一化以后，才轮到它。
#
# 偏置也看一眼：$Q$、$K$、$V$ 有，$W_O$ 没有：

# %% [markdown] lang="en" of="eef2e918"
# There are 28 `attn_output.weight`, one in each layer, [3584, 3584]: this is $W_O$, which mixes the contexts of a layer's 28 heads into one row of 3584 numbers.
#
# There is one `output.weight` in the whole model, [152064, 3584]: a row for each id of the vocabulary (and some hundreds at the end that only fill it up). Its turn comes after all 28 layers and the last norm.
#
# And the biases: $Q$, $K$ and $V$ have one, $W_O$ has none:

# %%
for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
    has = f"blk.0.{part}.bias" in contents
    print(
        f"{part:<12} {'bias ' + str(list(contents[f'blk.0.{part}.bias'].shape)) if has else 'no bias'}"
    )
    assert has == (part != "attn_output")

for layer in range(model.n_layers):  # the attention of all 28 layers is alike
    for part in ("attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight"):
        assert contents[f"blk.{layer}.{part}"].shape == contents[f"blk.0.{part}"].shape
assert "blk.28.attn_q.weight" not in contents  # layers count from 0

# %% [markdown] lang="zh"
# ## 数一数：参数和字节
#
# 按用处归类。字节数加起来，要正好等于文件里目录以后的那一段，不多也不少：

# %% [markdown] lang="en" of="3ff94e22"
# ## Counting: parameters and bytes
#
# Sort them by what they are for. The bytes must add up to all of the file that comes after the table of contents, no more and no less:


# %%
def use_of(name):
    """What a tensor is for."""
    if "attn_norm" in name or "ffn_norm" in name or name == "output_norm.weight":
        return "norms"
    if ".attn_" in name:
        return "attention"
    if ".ffn_" in name:
        return "FFN"
    return {"token_embd.weight": "embedding", "output.weight": "output matrix"}[name]


parameters, n_bytes = Counter(), Counter()
for name, tensor in contents.items():
    parameters[use_of(name)] += tensor.size
    n_bytes[use_of(name)] += tensor.n_bytes
print("what             parameters   share        bytes   bits a parameter")
for use, size in parameters.most_common():
    bits = 8 * n_bytes[use] / size
    print(f"{use:<14} {size:>12} {size / parameters.total():>7.1%} {n_bytes[use]:>12} {bits:>8.2f}")
print(f"{'all':<14} {parameters.total():>12} {'':>7} {n_bytes.total():>12}")


def bits_of(name):
    """Bits for each number of one tensor."""
    return 8 * contents[name].n_bytes / contents[name].size


last = max(contents.values(), key=lambda tensor: tensor.offset)
assert n_bytes.total() == last.offset + last.n_bytes  # nothing left over, nothing twice
assert parameters["attention"] == model.n_layers * sum(models.attention_parameters(model).values())
assert parameters.total() == 7615616512  # the count of 06

# %% [markdown] lang="zh"
# 全部参数平均，每个 {{ 8 * n_bytes.total() / parameters.total():.1f}} 位。这个文件是量化过的，就是用更少的位来存，数也就不那么准了。大的矩阵存成 `Q4_K` 和 `Q6_K`：256 个数一块，块里再分小组，每组有自己的比例系数。`Q6_K` 每个数 {{ bits_of("output.weight"):.1f}} 位，`Q4_K` 每个数 {{ bits_of("token_embd.weight"):.1f}} 位。归一化的增益和偏置很小，存成 `{{ contents["blk.0.attn_q.bias"].kind }}`，每个 {{ bits_of("blk.0.attn_q.bias"):.0f}} 位。
#
# ## 三种形状写法
#
# 同一个张量，GGUF 的目录写 `ne`：先写一行有几个数，再写有几行。NumPy 和 PyTorch 倒过来，先写有几行；参数矩阵一行对应一个输出，所以是 [出, 进]。我们的笔记本用 `x @ W`，写 [进, 出]。方的矩阵看不出区别，再看三个不方的：

# %% [markdown] lang="en" of="4e5abafd"
# Over all parameters the average is {{ 8 * n_bytes.total() / parameters.total():.1f}} bits each. The file is quantised: stored with fewer bits, and so less exactly. The large matrices are stored as `Q4_K` and `Q6_K`: blocks of 256 numbers, cut into small groups, each with its own scale factor. `Q6_K` takes {{ bits_of("output.weight"):.1f}} bits a number, `Q4_K` {{ bits_of("token_embd.weight"):.1f}}. The gains of the norms and the biases are small and are stored as `{{ contents["blk.0.attn_q.bias"].kind }}`, {{ bits_of("blk.0.attn_q.bias"):.0f}} bits each.
#
# ## Three ways of writing a shape
#
# For one tensor, the table of contents of GGUF gives `ne`: first how many numbers are in a row, then how many rows. NumPy and PyTorch put the number of rows first; a parameter matrix has one row for each output, so that is [out, in]. Our notebooks use `x @ W` and write [in, out]. A square matrix does not show the difference, so here are three that are not square as well:

# %%
print("tensor                     GGUF ne          NumPy [out, in]   x @ W [in, out]")
for name in (
    "blk.0.attn_output.weight",
    "blk.0.attn_k.weight",
    "blk.0.ffn_down.weight",
    "output.weight",
):
    tensor = contents[name]
    ours = list(tensor.shape[::-1])
    print(f"{name:<26} {str(list(tensor.ne)):<16} {str(list(tensor.shape)):<17} {ours}")
    assert list(tensor.ne) == ours

# %% [markdown] lang="zh"
# `ne` 读起来正好像 [进, 出]。字节没有转置：一行一行存的还是 [出, 进]，一行对应一个输出。取出来用 `reshape(ne[::-1])`，乘的时候写 `x @ w.T`：

# %% [markdown] lang="en" of="683dc039"
# `ne` happens to read like [in, out]. The bytes are not transposed: row by row they are still [out, in], one row for each output. Take them out with `reshape(ne[::-1])` and multiply as `x @ w.T`:

# %%
out_in = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)  # 3 in, 2 out, as a file stores it
in_file = out_in.tobytes()
ne = out_in.shape[::-1]  # (3, 2)
back = np.frombuffer(in_file, np.float32).reshape(ne[::-1])
x = np.array([[1, 10, 100]], dtype=np.float32)
print("ne", list(ne), "  x @ w.T =", (x @ back.T)[0])
assert np.array_equal(x @ back.T, [[321, 654]])

wrong = np.frombuffer(in_file, np.float32).reshape(ne)  # taken for [in, out]
print("taken for [in, out]:", (x @ wrong)[0])
assert (x @ wrong).shape == (x @ back.T).shape and not np.allclose(x @ wrong, x @ back.T)

# %% [markdown] lang="zh"
# ## 两套名字
#
# Hugging Face 的文件里，同样的参数叫别的名字。Qwen2 和 LLaMA 一样，GPT-2 不同：

# %% [markdown] lang="en" of="7c186aae"
# ## Two sets of names
#
# In the files of Hugging Face the same parameters have other names. Qwen2 and LLaMA are alike, GPT-2 is different:

# %%
for architecture, names in {
    "qwen2": (
        "blk.3.attn_output.weight",
        "output.weight",
        "token_embd.weight",
        "blk.3.attn_q.bias",
    ),
    "llama": ("blk.3.attn_output.weight", "output.weight"),
    "gpt2": ("blk.3.attn_output.weight", "blk.3.attn_qkv.weight", "position_embd.weight"),
}.items():
    for name in names:
        theirs = weights.hugging_face_name(name, architecture)
        print(f"{architecture:<6} {name:<25} {theirs}")
        assert weights.gguf_name(theirs, architecture) == name

for name in contents:  # every tensor of the file has a name there, and the way back
    assert weights.gguf_name(weights.hugging_face_name(name, "qwen2"), "qwen2") == name

# %% [markdown] lang="zh"
# $W_O$ 在 Qwen2 和 LLaMA 里叫 `o_proj`，在 GPT-2 里叫 `c_proj`。输出矩阵叫 `lm_head`。GPT-2 的 $Q$、$K$、$V$ 合成一个矩阵 `c_attn`；它没有 RoPE，位置另有一张表 `wpe`。Hugging Face 的代码里，GPT-2 各层的矩阵用的是 `Conv1D`，按 [进, 出] 存，和 `nn.Linear` 相反。
#
# ## 查一个张量
#
# 名字、形状、字节，放到一起查。给一部分名字，两套里哪一套有都算。一种张量打印五行；有 {{ model.n_layers }} 个的，拿第 0 层的来看：

# %% [markdown] lang="en" of="5e241268"
# $W_O$ is called `o_proj` in Qwen2 and LLaMA, and `c_proj` in GPT-2. The output matrix is called `lm_head`. In GPT-2 $Q$, $K$ and $V$ are one matrix, `c_attn`; it has no RoPE and keeps a table of positions, `wpe`. In the code of Hugging Face the matrices in GPT-2's layers are `Conv1D`, stored as [in, out], the reverse of `nn.Linear`.
#
# ## Looking up a tensor
#
# Names, shapes and bytes, all in one place. Give a part of a name from either set. Each kind of tensor that has it gets five lines; where there are {{ model.n_layers }}, it is the one of layer 0:


# %%
def look_up(part):
    """Every kind of tensor with that part in one of its two names."""
    for pattern, times in patterns.items():
        alike = [contents[pattern.replace("N", str(layer))] for layer in range(times)]
        tensor = alike[0]
        theirs = weights.hugging_face_name(tensor.name, "qwen2")
        if part in tensor.name or part in theirs:
            share = sum(t.n_bytes for t in alike) / n_bytes.total()
            numbers, block_bytes = weights.block_of(tensor.kind)
            print(f"{tensor.name} = {theirs}")
            print(f"    {times} in the file, together {100 * share:.2g}% of its bytes")
            print(f"    ne {list(tensor.ne)}, NumPy {list(tensor.shape)}")
            print(
                f"    {tensor.kind}: blocks of {numbers} in {block_bytes} bytes, {tensor.bits:g} bits each"
            )
            print(f"    {tensor.n_bytes} bytes; in float16 it would take {2 * tensor.size}")
            assert tensor.n_bytes == tensor.size // numbers * block_bytes


look_up("output")

# %% [markdown] lang="zh"
# 输出矩阵没有存成 `Q4_K`，而是位数多一些的 `Q6_K`。要是存成 float16，单它一个就要 {{ 2 * contents["output.weight"].size / 1e9:.2f}} GB。
#
# ### 动一动：找一个张量
#
# 写一部分名字，GGUF 的、Hugging Face 的都行，也可以写“是什么”那一列里的中文，例如“偏置”。找到的列成一张表，一种张量一行；滑块换层。框住的那一种在表的下面细讲：它做什么；形状在几处怎样写，哪个轴进，哪个轴出；一个数几位，一共几字节。它的大小按比例画出来，旁边是同一比例的 $W_O$。
#
# 先猜：`attn_v.weight` 每层一个，{{ model.n_layers }} 个形状都一样。它们的字节数也都一样吗？

# %% [markdown] lang="en" of="5c2f20d6"
# The output matrix is not stored as `Q4_K` but as `Q6_K`, with more bits. In float16 it alone would take {{ 2 * contents["output.weight"].size / 1e9:.2f}} GB.
#
# ### Move it: find a tensor
#
# Type a part of a name, from GGUF or from Hugging Face; a word such as “projection” will do as well. What is found stands in a table, a line for each kind of tensor, and the slider sets the layer. The framed one is explained below the table: what it does; how its shape is written in several places, which axis is in and which is out; and its bits per number and bytes. Its size is drawn to scale, with $W_O$ beside it to the same scale.
#
# Guess first: there is one `attn_v.weight` in each layer, and all {{ model.n_layers }} have one shape. Do they all take the same number of bytes?

# %%
from byhand.explorers import tensors

explorer = tensors.explorer(lang)
explorer

# %%
from gguf import LlamaFileType

explorer.set(search="attn_v.weight")
layers_stored_as = {}  # type -> the layers whose W_V is stored so
for layer in range(model.n_layers):
    explorer.set(block=layer)
    tensor = contents[f"blk.{layer}.attn_v.weight"]
    assert explorer.says.startswith(tensor.name)
    assert f"{tensor.kind}  {tensor.n_bytes}" in explorer.says  # its line in the table
    layers_stored_as.setdefault(tensor.kind, []).append(layer)
    assert contents[f"blk.{layer}.ffn_down.weight"].kind == tensor.kind
assert layers_stored_as["Q6_K"] == [*range(3), *range(5, 24, 3), *range(24, 28)]
for kind, layers in layers_stored_as.items():
    print(f"{kind} {contents[f'blk.{layers[0]}.attn_v.weight'].n_bytes} bytes, layers {layers}")
print(LlamaFileType(header.metadata["general.file_type"]).name)
_ = explorer.reset()

# %% [markdown] lang="zh"
# 不一样。{{ len(layers_stored_as["Q6_K"]) }} 层的存成 `Q6_K`，{{ contents["blk.0.attn_v.weight"].n_bytes }} 字节；另外 {{ len(layers_stored_as["Q4_K"]) }} 层的存成 `Q4_K`，{{ contents["blk.3.attn_v.weight"].n_bytes }} 字节。`ffn_down` 也这样，还是这些层。这种配方叫 `Q4_K_M`：多数矩阵用 `Q4_K`，最前几层、最后几层和中间每三层里的一层，这两种矩阵多用几位。所以形状一样，字节可以不一样，要一个一个查。

# %% [markdown] lang="en" of="eb27789d"
# They do not. In {{ len(layers_stored_as["Q6_K"]) }} layers it is stored as `Q6_K`, {{ contents["blk.0.attn_v.weight"].n_bytes }} bytes; in the other {{ len(layers_stored_as["Q4_K"]) }} as `Q4_K`, {{ contents["blk.3.attn_v.weight"].n_bytes }} bytes. It is the same with `ffn_down`, in the same layers. This recipe is called `Q4_K_M`: most matrices are `Q4_K`, and in the first layers, the last ones and one of every three between, these two get more bits. So tensors of one shape can differ in bytes, and each has to be looked up.

# %% [markdown] lang="zh"
# ## output.weight 做什么
#
# 最后一层的残差流归一化以后，一个词是一行 3584 个数。它和 `output.weight` 的每一行做点积，一行一个分数（logit），哪行分数高，下一个词就更可能是它。
#
# 参数不在我们手里，只另存了 `output.weight` 真实的 146 行：一些中文的词和标点。它们存成 `Q6_K`，先解码：

# %% [markdown] lang="en" of="c9c425b5"
# ## What output.weight does
#
# After the last layer and the last norm, a token is a row of 3584 numbers. Its dot product with each row of `output.weight` is a score for that row's token (a logit). The higher the score, the likelier that token comes next.
#
# We do not have the parameters, only 146 real rows of `output.weight`, kept separately, for some Chinese tokens and punctuation marks. They are stored as `Q6_K` and decoded first:

# %%
ids, tokens, rows = weights.output_rows()  # [146], 146 tokens, [146, 3584]
print(rows.shape, " ".join(tokens[:24]), "…")
lengths = np.linalg.norm(rows, axis=1)
unit = rows / lengths[:, None]
cosine = unit @ unit.T  # [146, 146]


def neighbours(token, n=3):
    """The n tokens whose rows point most nearly the same way."""
    at = tokens.index(token)
    nearest = [j for j in np.argsort(-cosine[at]) if j != at][:n]
    return [(tokens[j], float(cosine[at, j])) for j in nearest]


for token in ("？", "年", "的"):
    print(token, "  ".join(f"{other} {c:.2f}" for other, c in neighbours(token)))
assert neighbours("？")[0][0] == "！"
assert [other for other, _ in neighbours("年", 2)] == ["月", "日"]
typical = float(np.median(cosine[~np.eye(len(tokens), dtype=bool)]))
print(f"median over all pairs of rows: {typical:.2f}")

# %% [markdown] lang="zh"
# 「？」的邻居是 `！`，余弦 {{ neighbours("？")[0][1]:.2f}}。「年」最近的是「月」和「日」，{{ neighbours("年")[0][1]:.2f}} 和 {{ neighbours("年")[1][1]:.2f}}。数不大，可是任意两行的余弦，中位数只有 {{ typical:.2f}}。这几个例子里，用处相近的词，行也近一些。「的」的邻居却是标点：邻居不总是这样好懂。
#
# 没有整个模型，就没有真的最后一行。借一行来用：拿「年」和「月」两行的平均，当作走完 28 层的结果，看它给 146 个词打多少分：

# %% [markdown] lang="en" of="8e4305a6"
# The neighbour of ？ is `！`, with a cosine of {{ neighbours("？")[0][1]:.2f}}. Nearest to 年 (year) are 月 (month) and 日 (day), with {{ neighbours("年")[0][1]:.2f}} and {{ neighbours("年")[1][1]:.2f}}. These are not large, but the median over all pairs of rows is only {{ typical:.2f}}. In these examples tokens of like use have rows that are nearer. The neighbours of 的 are punctuation marks: neighbours are not always so easy to read.
#
# Without the whole model we do not have a real last row. Borrow one: take the mean of the rows of 年 and 月 for the result of 28 layers, and see what scores it gives to the 146 tokens:

# %%
hidden = (rows[tokens.index("年")] + rows[tokens.index("月")]) / 2  # [3584], a stand-in
hidden = hidden / np.sqrt(np.mean(hidden**2))  # as after the last RMSNorm
logits = hidden @ rows.T  # [3584] @ [3584, 146] -> [146]
by_loop = sum(float(h) * float(w) for h, w in zip(hidden, rows[0]))
assert np.isclose(by_loop, logits[0], rtol=0, atol=1e-3)

probabilities = softmax(logits.astype(np.float64))  # [146]; the softmax of 02 once more
best = np.argsort(-logits)
for j in best[:5]:
    print(f"logit {logits[j]:>6.2f}   probability {probabilities[j]:.3f}   {tokens[j]}")
assert {tokens[j] for j in best[:2]} == {"年", "月"}

# %% [markdown] lang="zh"
# 前两名是「年」和「月」，这不是发现：这一行就是用它们拼的。两个分数差 {{ logits[best[0]] - logits[best[1]]:.2f}}：「月」那一行长 {{ lengths[tokens.index("月")]:.2f}}，「年」长 {{ lengths[tokens.index("年")]:.2f}}。差得不多，softmax 以后却是 {{ probabilities[best[0]]:.3f}} 对 {{ probabilities[best[1]]:.3f}}。真的模型在这里有 152064 个分数，我们只有 146 个。
#
# 接下来是挑一个。三个常用的旋钮：温度把分数除以一个数，越小越偏向第一名；top-k 只留前 $k$ 名；top-p 从大到小留，概率加起来一够 $p$ 就停。后两个留下的，再除以它们的和，加起来又是 1。为了有东西可剪，后两个用温度 8：

# %% [markdown] lang="en" of="cbc05285"
# That 年 and 月 come first is no discovery: the row was made from them. Their scores are {{ logits[best[0]] - logits[best[1]]:.2f}} apart: the row of 月 has length {{ lengths[tokens.index("月")]:.2f}}, that of 年 {{ lengths[tokens.index("年")]:.2f}}. That is not much, and after the softmax it is {{ probabilities[best[0]]:.3f}} against {{ probabilities[best[1]]:.3f}}. A real model has 152064 scores here; we have 146.
#
# Then one token is picked. There are three usual knobs. Temperature divides the scores by a number; the smaller it is, the more goes to the first. Top-k keeps the first $k$ only. Top-p keeps tokens from the largest down and stops as soon as their probabilities add up to $p$. With the last two, what is kept is divided by its sum, so that it sums to 1 again. To have something to cut, they are shown at temperature 8:

# %%
for temperature in (2, 1, 1 / 2):
    p = softmax(logits.astype(np.float64) / temperature)
    print(
        f"temperature {temperature:<4g} " + "  ".join(f"{tokens[j]} {p[j]:.3f}" for j in best[:4])
    )

spread_out = softmax(logits.astype(np.float64) / 8)  # flat enough to have something to cut
sorted_p = spread_out[best]  # [146], largest first
top_k = sorted_p[:5] / sorted_p[:5].sum()
enough = int(np.searchsorted(np.cumsum(sorted_p), 1 / 2)) + 1  # how many reach one half
top_p = sorted_p[:enough] / sorted_p[:enough].sum()
print(f"temperature 8:  {show.row(sorted_p[:5])}")
print(f"top-k, k = 5:   {show.row(top_k)}")
print(f"top-p, p = 1/2: {enough} of {len(tokens)} tokens are kept")
assert np.isclose(top_k.sum(), 1) and np.isclose(top_p.sum(), 1)
assert sorted_p[:enough].sum() >= 1 / 2 > sorted_p[: enough - 1].sum()

# %% [markdown] lang="zh"
# ### attn_output 从不打分
#
# 拿一层的 $W_O$ 来看：它的输出有 3584 个数，不是 152064 个。没有哪一个数对应哪一个词。它加回残差流，接着进 FFN，进下一层：

# %% [markdown] lang="en" of="68b3c37d"
# ### attn_output never makes a logit
#
# Look at the $W_O$ of a layer: its output has 3584 numbers, not 152064. None of them belongs to a token. They are added to the residual stream and go on into the FFN and the next layer:

# %%
shape = models.layer_shape(model)
W = qwen.seeded_weights(shape)  # seeded, not trained, as in 06
x = qwen.seeded_rows(range(6), shape.d_model)
attention_output = qwen.layer(x, W, shape).output
print("after W_O:          ", list(attention_output.shape))
print("after output.weight:", [len(x), contents["output.weight"].shape[0]])
assert attention_output.shape == (6, contents["blk.0.attn_output.weight"].shape[0])

# %% [markdown] lang="zh"
# | | `blk.N.attn_output.weight` | `output.weight` |
# |---|---|---|
# | 是什么 | $W_O$，输出投影 | 输出矩阵，`lm_head` |
# | 有几个 | 28，每层一个 | 1 |
# | 形状 [出, 进] | [3584, 3584] | [152064, 3584] |
# | 进去的 | 28 个头的上下文并排 | 最后一次归一化以后的一行 |
# | 出来的 | 加回残差流的 3584 个数 | 每个候选的词一个分数 |
#
# 按公开的配置（`tie_word_embeddings`），小一些的 Qwen2.5（3B 及以下）没有自己的输出矩阵：嵌入那张表也拿来当输出矩阵，叫共享（tied）。7B 不共享，文件里两个都在：

# %% [markdown] lang="en" of="d8674c71"
# | | `blk.N.attn_output.weight` | `output.weight` |
# |---|---|---|
# | what it is | $W_O$, the output projection | the output matrix, `lm_head` |
# | how many | 28, one in each layer | 1 |
# | shape [out, in] | [3584, 3584] | [152064, 3584] |
# | what goes in | the contexts of 28 heads side by side | a row after the last norm |
# | what comes out | 3584 numbers, added to the residual stream | a score for each candidate token |
#
# By their published configuration (`tie_word_embeddings`), the smaller Qwen2.5 (3B and below) have no output matrix of their own: the table of embeddings serves as the output matrix too, which is called tied. In 7B they are not tied, and the file has both:

# %%
for name in ("token_embd.weight", "output.weight"):
    describe(name)
assert contents["token_embd.weight"].shape == contents["output.weight"].shape
assert contents["token_embd.weight"].kind != contents["output.weight"].kind  # stored apart

# %% [markdown] lang="zh"
# ## 你自己的文件
#
# 手里有一个 GGUF 文件，把路径填在下面。支持 Qwen2 和 LLaMA 两类。打开只看目录，不读参数；`layer(0)` 解出第 0 层注意力的参数，可以直接交给 `qwen.layer`：

# %% [markdown] lang="en" of="96cbbb6c"
# ## Your own file
#
# If you have a GGUF file, put its path below. Files of the Qwen2 and LLaMA kinds are supported. Opening reads the table of contents only, not the parameters. `layer(0)` decodes the attention parameters of layer 0, ready for `qwen.layer`:

# %%
MY_FILE = None  # a path in quotes

if MY_FILE is None:
    print("no file given")
else:
    mine = weights.open_gguf(MY_FILE)
    print(mine.architecture, mine.n_layers, "layers", mine.shape)
    mine_x = mine.rows("token_embd.weight", range(6))  # the embeddings of six ids
    print(list(qwen.layer(mine_x, mine.layer(0), mine.shape).output.shape))

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 有人说“`blk.5.attn_output.weight` 把第 5 层的结果变成下一个词”。哪里不对？
#
# <details><summary>答案</summary>
#
# 它是第 5 层的 $W_O$，把 28 个头的上下文混成 3584 个数，加回残差流。给每个候选的词打分的是 `output.weight`，全模型一个，在 28 层之后。打完分，再挑一个词。
#
# </details>
#
# **2.** 目录里写 `ne = [3584, 512]`。NumPy 里形状是什么？`x` 是 [6, 3584]，怎么乘？
#
# <details><summary>答案</summary>
#
# [512, 3584]，一行对应一个输出。`x @ w.T`，得 [6, 512]。
#
# </details>
#
# **3.** 输出矩阵占全部参数的多少？
#
# <details><summary>答案</summary>
#
# {{ parameters["output matrix"] / parameters.total():.1%}}。嵌入也有这么多。28 层的注意力加起来是 {{ parameters["attention"] / parameters.total():.1%}}。
#
# </details>
#
# 整条路走完了。每一步会怎样算错，怎样找出来：[08 算错了，怎么找](08_mistakes_and_interview.ipynb)。

# %% [markdown] lang="en" of="69a454db"
# ## Three questions
#
# **1.** Someone says that `blk.5.attn_output.weight` turns the result of layer 5 into the next token. What is wrong?
#
# <details><summary>Answer</summary>
#
# It is the $W_O$ of layer 5. It mixes the contexts of 28 heads into 3584 numbers that are added to the residual stream. What gives each candidate token a score is `output.weight`, one in the whole model, after 28 layers. Only then is a token picked.
#
# </details>
#
# **2.** The table of contents says `ne = [3584, 512]`. What is the shape in NumPy? With `x` [6, 3584], how do you multiply?
#
# <details><summary>Answer</summary>
#
# [512, 3584], a row for each output. `x @ w.T` gives [6, 512].
#
# </details>
#
# **3.** What share of all parameters is the output matrix?
#
# <details><summary>Answer</summary>
#
# {{ parameters["output matrix"] / parameters.total():.1%}}. The embedding has as many. The attention of all 28 layers is {{ parameters["attention"] / parameters.total():.1%}}.
#
# </details>
#
# That is the whole way. How each step goes wrong, and how to find out, comes next: [08 Mistakes and how to find them](08_mistakes_and_interview.ipynb).

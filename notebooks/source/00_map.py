# %% [markdown] lang="zh"
# # 00 · 地图
#
# **今天西安的天气怎么样？**
#
# 这句话有六个词。这套笔记本用它把注意力从头算到尾，每个数都当面算出来：先是纸上算得动的 4 维小例子，再是一个真正训练过的小模型，最后是 Qwen2.5-7B 的真实尺寸。三次走的主干是同样几步，用的是同样几个函数。真实的模型还多出几样东西，比如 RoPE 和分组的键和值，用到时再讲。
#
# | | |
# |---|---|
# | 在哪里 | 出发点 |
# | 需要什么 | 会读 Python 的循环；知道矩阵乘法是一行对一列，相乘再相加 |
# | 走完以后 | 能说出一层注意力里先后发生什么，看懂矩阵的行和列各是什么，知道每一步在哪一本里算 |
# | 多长时间 | 约 15 分钟 |

# %% [markdown] lang="en" of="dca30bf1"
# # 00 · The map
#
# **今天西安的天气怎么样？** *How is the weather in Xi'an today?*
#
# The sentence has six tokens. These notebooks take it through attention from end to end, and every number is computed before your eyes: first in a toy of 4 dimensions that fits on paper, then in a small model that was really trained, then at the true size of Qwen2.5-7B. The main steps are the same each time, and so are the functions. Real models add a few things, such as RoPE and grouped keys and values, explained where they come up.
#
# | | |
# |---|---|
# | Where we are | at the start |
# | What you need | to read a Python loop; to know that a matrix product is row times column, multiplied and added up |
# | What you will be able to do | say what happens in one attention layer and in what order, tell what the rows and columns of each matrix are, and know which notebook computes which step |
# | Time | about 15 minutes |

# %%
import numpy as np

from byhand import data, environment, figures, project, show, toy, worked

lang = "zh"  # the language of figures and checks: zh or en

# %% [markdown] lang="zh"
# ## 六个词，六个号码
#
# 模型不认字，只认号码。下面是这六个词在 Qwen2.5 词表里的真实号码。

# %% [markdown] lang="en" of="d6491eb5"
# ## Six tokens, six numbers
#
# A model does not read characters. It reads numbers. These are the real ids of the six tokens in Qwen2.5's vocabulary.

# %%
for token, token_id in toy.token_ids().items():
    print(f"{token_id:>7}  {token}")
assert "".join(toy.TOKENS) == toy.SENTENCE  # an assert stops with an error if it is not true

# %% [markdown] lang="zh"
# token 是模型当作一个整体来处理的一小段文字，每个 token 有一个号码。这里恰好一个词一个 token，问号也算一个。
#
# 给每个词的位置起个名字，后面就能写 `X[西安]`，不必去数第几行。「？」不能当 Python 的名字，它的位置叫「问号」。Python 从 0 数起，`X[西安]` 就是 `X[1]`。

# %% [markdown] lang="en" of="090dc258"
# A token is a piece of text that the model treats as one unit, and each token has a number, its id. Here each word happens to be one token, and the question mark is one too:
#
# | position | token | say | means |
# |---|---|---|---|
# | 0 | 今天 | jīntiān | today |
# | 1 | 西安 | Xī'ān | Xi'an, a city |
# | 2 | 的 | de | of, 's |
# | 3 | 天气 | tiānqì | weather |
# | 4 | 怎么样 | zěnmeyàng | how is it |
# | 5 | ？ | | ? |
#
# We give each position its token as a name, so that we can write `X[西安]` and need not count rows. ？ cannot be a name in Python; its position is called 问号 (wènhào, question mark). Python counts from 0. You never have to type the characters: `X[西安]` is `X[1]`.

# %%
今天, 西安, 的, 天气, 怎么样, 问号 = range(6)
print(西安, 怎么样, toy.TOKENS[西安], toy.TOKENS[怎么样])

# %% [markdown] lang="zh"
# ## 全程
#
# 每个词有三个向量：查询，是它拿去找别人的；键，是别人用来找到它的；值，是它被找到以后交出去的。$Q$、$K$、$V$ 的一行就是一个词的这三样。
#
# 下图从左到右，是一层注意力做的事。每个框最下面一行是小例子里的形状；框上面的号码，是算这一步的笔记本。

# %% [markdown] lang="en" of="0de0068d"
# ## The whole way
#
# Each token has three vectors: a query, what it searches with; a key, what it is found by; a value, what it hands over once it is found. The rows of $Q$, $K$ and $V$ are these vectors.
#
# The figure shows, from left to right, what one attention layer does. The last line in each box is the shape in our toy, and the number above it is the notebook that computes it.

# %%
figures.overview(lang)

# %% [markdown] lang="zh"
# ### 两种“四步”
#
# 有人说注意力是四步：打分、缩放、softmax、加权取值。也有人说四步，指的却是：QKV 投影、RoPE、带遮罩的 softmax、输出投影。
#
# 两种都对，只是拆的东西不同。图下面有两行标注。上一行拆的是**公式** $\text{softmax}(QK^T/\sqrt{d_{head}})\,V$，下一行拆的是模型里的**一层**。公式的四步全在一层的第三步里；一层的另外三步，公式里没有。
#
# 虚线框是 RoPE，旋转位置编码：按每个词的位置旋转它的查询和键。小例子里没有这一步，六个词的位置不参与计算，[06](06_real_shapes.ipynb) 再加上。遮罩是不让一个词看到它后面的词，见 [02](02_softmax.ipynb)。

# %% [markdown] lang="en" of="fc88aeb1"
# ### Two ways of counting to four
#
# Some say attention has four steps: score, scale, softmax, weigh. Others also say four, and mean: QKV projection, RoPE, masked softmax, out projection.
#
# Both are right. They take different things apart. Below the figure are two rows of brackets. The upper row takes apart the **formula** $\text{softmax}(QK^T/\sqrt{d_{head}})\,V$. The lower row takes apart one **layer** of a model. All four steps of the formula lie inside the third step of the layer, and the other three steps of the layer are not in the formula.
#
# The dashed box is RoPE, rotary position embedding: it rotates the query and the key of each token by an angle that depends on its position. The toy goes without it, so the positions of the six tokens play no part; notebook [06](06_real_shapes.ipynb) puts it in. The mask keeps a token from seeing those after it, see [02](02_softmax.ipynb).

# %% [markdown] lang="zh"
# ### 哪一本算什么
#
# | 笔记本 | 算什么 |
# |---|---|
# | **00 地图** | 你在这里 |
# | [01 打分和缩放](01_scores_and_scaling.ipynb) | $X$ 变成 $Q$、$K$、$V$；每个查询乘每个键；为什么要除以 $\sqrt{d_{head}}$ |
# | [02 softmax](02_softmax.ipynb) | 分数变成权重；因果遮罩 |
# | [03 加权取值](03_weighted_values.ipynb) | 权重乘值，得到上下文向量 |
# | [04 多头和输出投影](04_heads_and_output_projection.ipynb) | 拆头、并头、$W_O$ |
# | [05 训练好的头](05_real_heads.ipynb) | 同一句话走过一个训练好的小模型：144 个头 |
# | [06 真实的尺寸](06_real_shapes.ipynb) | RMSNorm、RoPE、分组的键和值、3584 维；数参数和运算 |
# | [07 两个叫 output 的张量](07_two_outputs.ipynb) | 模型文件里的 $W_O$ 和输出矩阵；真实的文件目录 |
# | [08 算错了，怎么找](08_mistakes_and_interview.ipynb) | 一份错误的目录；查你自己写的注意力；一道面试题 |
# | [10 开销](10_cost.ipynb) | 词多了会怎样；分块的 softmax；逐词生成 |

# %% [markdown] lang="en" of="82c9a252"
# ### Which notebook computes what
#
# | notebook | what it computes |
# |---|---|
# | **00 The map** | you are here |
# | [01 Scores and scaling](01_scores_and_scaling.ipynb) | $X$ becomes $Q$, $K$, $V$; every query times every key; why we divide by $\sqrt{d_{head}}$ |
# | [02 Softmax](02_softmax.ipynb) | scores become weights; the causal mask |
# | [03 Weighted values](03_weighted_values.ipynb) | weights times values, the context |
# | [04 Heads and output projection](04_heads_and_output_projection.ipynb) | splitting, merging, $W_O$ |
# | [05 Trained heads](05_real_heads.ipynb) | the same sentence through a small trained model: 144 heads |
# | [06 Real shapes](06_real_shapes.ipynb) | RMSNorm, RoPE, grouped keys and values, 3584 dimensions; counting parameters and operations |
# | [07 Two tensors named output](07_two_outputs.ipynb) | $W_O$ and the output matrix in a model file; a real table of contents |
# | [08 Mistakes and how to find them](08_mistakes_and_interview.ipynb) | a catalogue of mistakes; examining your own attention; an interview question |
# | [10 Cost](10_cost.ipynb) | what happens when the tokens are many; the softmax in blocks; writing token by token |

# %% [markdown] lang="zh"
# ## 同一件事，三个尺寸
#
# 先猜：小例子的一层里，六个词的查询 $Q$ 一共有 6 × 4 个数。Qwen2.5-7B 的一层里，同样六个词的查询有多少个数？

# %% [markdown] lang="en" of="8d4c1746"
# ## One computation, three sizes
#
# Guess first: in the toy, the queries of one layer are 6 × 4 numbers. How many are they in Qwen2.5-7B, for the same six tokens?

# %%
qwen = data.model("Qwen2.5-7B")  # its row in data/models.json
e5 = np.load(data.path("real_heads_e5.npz"))
e5_layers, e5_heads = e5["attention"].shape[:2]
e5_width = e5["hidden"].shape[-1]
t = toy.load()

sizes = {
    "toy": (1, t.n_heads, t.d_head, t.X.shape[1]),
    "multilingual-e5-small": (e5_layers, e5_heads, e5_width // e5_heads, e5_width),
    "Qwen2.5-7B": (qwen["layers"], qwen["n_heads"], qwen["head_dim_qk"], qwen["hidden"]),
}
print("layers  n_heads × d_head = d_model   queries of six tokens")
for name, (n_layers, n_heads, d_head, d_model) in sizes.items():
    assert n_heads * d_head == d_model
    print(f"{n_layers:>6}  {n_heads:>7} × {d_head:>6} = {d_model:>7}   {6 * d_model:>21}   {name}")

# %% [markdown] lang="zh"
# {{ 6 * qwen["hidden"] }} 个，是小例子的 {{ 6 * qwen["hidden"] // t.X.size }} 倍。$3584 = 28 × 128$：28 个头，每个头 128 维。小例子是 $4 = 2 × 2$，不过到 04 才拆成两个头；在那以前只当一个头，$d_{head}=4$。

# %% [markdown] lang="en" of="3e50b6e4"
# {{ 6 * qwen["hidden"] }} numbers, {{ 6 * qwen["hidden"] // t.X.size }} times as many as in the toy. $3584 = 28 × 128$: 28 heads of 128 dimensions. The toy is $4 = 2 × 2$, but it is split only in notebook 04; until then it is one head with $d_{head}=4$.

# %% [markdown] lang="zh"
# ## 行和列
#
# 全套笔记本只有一种摆法：
#
# * **一行是一个 token。** $X$ 有 6 行，每行是一个词的向量，也叫隐藏状态。
# * **参数矩阵从右边乘**：`y = x @ W`，`W` 的形状是 `[输入宽度, 输出宽度]`。
# * 分数矩阵和权重矩阵里，**行是查询，列是键**。热力图也这样画。
#
# 号码怎样变成向量？模型里有一张表，每个号码对应一个向量，这张表叫嵌入。第一层的 $X$ 由查表得来，后面各层的 $X$ 是前一层的输出。小例子不查表，直接给出 $X$。行尾是这一行的词。

# %% [markdown] lang="en" of="961a530c"
# ## Rows and columns
#
# There is one layout in all the notebooks:
#
# * **A row is a token.** $X$ has 6 rows, each the vector of one token, also called its hidden state.
# * **Parameter matrices act from the right**: `y = x @ W`, where `W` has the shape `[in, out]`.
# * In a score matrix and in a weight matrix, **rows are queries and columns are keys**. The heat maps are drawn that way too.
#
# How does an id become a vector? The model has a table with one vector for each id, the embedding. The $X$ of the first layer is looked up there; the $X$ of a later layer is what the layer before it puts out. The toy skips the table and gives $X$. The token stands at the end of its row.

# %%
X, W_Q = t.X, t.W_Q
print(show.rows(X))
print("X", X.shape, " W_Q", W_Q.shape)

# %% [markdown] lang="zh"
# 这些 $X$ 和 $W$ 是怎么来的？这套笔记本依据的是一篇中文文章，[《从一条直线到大模型输出一个 token（七）：注意力权重与多头机制》](https://jiayq.blog.csdn.net/article/details/163977039)，下面都叫它“文章”。文章只印了结果，没有印 $X$ 和 $W$。这里的数是从结果倒推出来的，每个取三位小数；用它们计算，文章印出的数每一位都对得上。它们不是训练出来的，也不含词义。
#
# 现在把「西安」这一行乘上 $W_Q$ 的第 1 列。先看纸上怎么写，再看 Python 怎么算。

# %% [markdown] lang="en" of="f25336f5"
# Where do this $X$ and these $W$ come from? These notebooks follow a Chinese article, [the seventh of a series on how a language model puts out a token](https://jiayq.blog.csdn.net/article/details/163977039); from here on it is "the article". It prints the results and not the matrices. Ours were worked out backwards from the results, three decimals each, so that every number the article prints comes out of them to the printed digit. They were not trained, and they carry no meaning of words.
#
# Now take the row of 西安 times the first column of $W_Q$. First as on paper, then in Python.

# %%
worked.projection(X, W_Q, 西安, 0, "Q")

# %%
by_hand = sum(X[西安, m] * W_Q[m, 0] for m in range(4))
Q = X @ W_Q  # [6, 4] @ [4, 4] -> [6, 4]
print(f"{by_hand:.3f}  {Q[西安, 0]:.3f}  {project(X, W_Q)[西安, 0]:.3f}")
assert np.isclose(by_hand, Q[西安, 0], rtol=0, atol=1e-12)
assert np.allclose(Q, project(X, W_Q), rtol=0, atol=1e-12)

# %% [markdown] lang="zh"
# 三种写法，一个数：${{ by_hand:.3f }}$。后面每一步都这样走：先用循环一个数一个数地算，再写成一行矩阵，最后用 `byhand` 里的函数。每次都有一行 `assert` 确认三者相等；不相等，这一格就会报错。
#
# 式子里写 = 的地方，两边一点不差。写 ≈ 的地方，有数为了印出来舍入过；算的时候从不舍入。
#
# 式子里维数从 1 数起，Python 从 0 数起；词在两边都用名字：$Q_{西安,1}$ 就是 `Q[西安, 0]`。
#
# $W_Q$ 恰好是方的，看不出哪边是输入宽度，哪边是输出宽度。换一个不方的就看出来了：

# %% [markdown] lang="en" of="375f2fa7"
# Three ways of writing, one number: ${{ by_hand:.3f }}$. Every step goes like this: a loop over the numbers first, then one line of matrices, then the function in `byhand`. Each time an `assert` makes sure that the three agree. If they did not, the cell would end in an error.
#
# Where the formula says =, both sides are exactly equal. Where it says ≈, a number was rounded for printing; we never round when we compute.
#
# In formulas the dimensions count from 1, in Python from 0. Tokens go by name in both: $Q_{西安,1}$ is `Q[西安, 0]`.
#
# $W_Q$ happens to be square, and a square matrix does not show which side is in and which is out. One that is not square does:

# %%
narrow = W_Q[:, :3]
print(X.shape, "@", narrow.shape, "->", (X @ narrow).shape)  # [6, 4] @ [4, 3] -> [6, 3]
try:
    project(X, narrow.T)
except ValueError as error:
    print(error)

# %% [markdown] lang="zh"
# ## 用词
#
# 一个词只指一样东西。最容易混的是分数和权重：分数在 softmax **之前**，可正可负；权重在 softmax **之后**，每行加起来是 1。
#
# | 中文 | 英文 | 记号 | 是什么 |
# |---|---|---|---|
# | 分数 | score | $S$ | 查询和键的点积，softmax 之前 |
# | 缩放后的分数 | scaled score | $\tilde S$ | 分数除以 $\sqrt{d_{head}}$ |
# | 遮罩 | mask | $M$ | 加到分数上：可以看的是 0，不许看的是 −∞ |
# | 权重 | weight | $A$ | softmax 之后，一行的和是 1 |
# | 查询 | query | $Q$ | 一个词拿什么去找 |
# | 键 | key | $K$ | 一个词拿什么让别人找 |
# | 值 | value | $V$ | 找到以后取走的内容 |
# | 头 | head | $h$ | 一组 $Q$、$K$、$V$，单独算一张权重表；有的模型里几个头合用 $K$ 和 $V$ |
# | 上下文向量 | context | $AV$ | 按权重混合的值，还没有乘 $W_O$ |
# | 注意力输出 | attention output | $Y$ | 乘过 $W_O$ 以后 |
#
# $W_Q$、$W_K$、$W_V$、$W_O$ 在英文里也叫 weights，这里叫参数矩阵。真实的模型里，它们是训练得来的，对每句话都一样；权重 $A$ 是每句话现算的。这套笔记本里单说“权重”，总是指 $A$。
#
# | 记号 | 是什么 | 小例子 | Qwen2.5-7B |
# |---|---|---|---|
# | `S` | 句子有几个 token | {{ X.shape[0] }} | 随句子 |
# | `d_model` | $X$ 一行有几个数 | {{ X.shape[1] }} | {{ qwen["hidden"] }} |
# | `n_heads` | 有几个查询头 | 1，到 04 拆成 {{ t.n_heads }} | {{ qwen["n_heads"] }} |
# | `n_kv_heads` | 有几个键值头 | 同上 | {{ qwen["kv_heads"] }} |
# | `d_head` | 一个头里一个查询有几个数（论文写 $d_k$） | 4，拆成两头后是 {{ t.d_head }} | {{ qwen["head_dim_qk"] }} |
#
# 同一个字母 S 有两个用处：形状里的 `S` 是句子的长度，公式里的 $S$ 是分数。

# %% [markdown] lang="en" of="98e11679"
# ## Words
#
# One word for one thing. Score and weight are the easiest to mix up: a score comes **before** the softmax and may be negative; a weight comes **after** it, and the weights of a row sum to 1.
#
# | English | Chinese | sign | what it is |
# |---|---|---|---|
# | score | 分数 | $S$ | a query times a key, before the softmax |
# | scaled score | 缩放后的分数 | $\tilde S$ | a score over $\sqrt{d_{head}}$ |
# | mask | 遮罩 | $M$ | added to the scores: 0 where a token may look, −∞ where it may not |
# | weight | 权重 | $A$ | after the softmax; a row sums to 1 |
# | query | 查询 | $Q$ | what a token searches with |
# | key | 键 | $K$ | what a token is found by |
# | value | 值 | $V$ | what a token hands over once it is found |
# | head | 头 | $h$ | a set of $Q$, $K$, $V$ with a weight table of its own; in some models several heads share $K$ and $V$ |
# | context | 上下文向量 | $AV$ | the values mixed by the weights, before $W_O$ |
# | attention output | 注意力输出 | $Y$ | after $W_O$ |
#
# The matrices $W_Q$, $W_K$, $W_V$, $W_O$ are often called weights as well; here they are parameter matrices. In a real model they are learned once and the same for every sentence, while the weights $A$ are computed anew for each sentence. In these notebooks "weight" alone always means $A$.
#
# | sign | what it is | toy | Qwen2.5-7B |
# |---|---|---|---|
# | `S` | how many tokens the sentence has | {{ X.shape[0] }} | depends |
# | `d_model` | how many numbers a row of $X$ has | {{ X.shape[1] }} | {{ qwen["hidden"] }} |
# | `n_heads` | how many query heads | 1, and {{ t.n_heads }} from notebook 04 on | {{ qwen["n_heads"] }} |
# | `n_kv_heads` | how many key and value heads | the same | {{ qwen["kv_heads"] }} |
# | `d_head` | how many numbers a query of one head has (papers write $d_k$) | 4, and {{ t.d_head }} with two heads | {{ qwen["head_dim_qk"] }} |
#
# The letter S does two jobs: in a shape `S` is the length of the sentence, in a formula $S$ is the scores.

# %% [markdown] lang="zh"
# ## 你的环境
#
# 运行下面这一格。哪一行开头是 ✗，那一行就写着怎么办。

# %% [markdown] lang="en" of="92bc6087"
# ## Your environment
#
# Run the next cell. If a line begins with ✗, it says what to do.

# %%
print(environment.report(lang))

# %% [markdown] lang="zh"
# 再运行一格。如果看得到滑块，拖动时橙色的框也跟着走，互动图就能用。看不到也不要紧：互动图一开始显示的数，上面的图和表里都有。以后再打开这本笔记本，互动图的位置可能写着“Error displaying widget: model not found”：从头运行到那一格，它就回来了。

# %% [markdown] lang="en" of="34786efe"
# One more check. If you see a slider, and the orange frame follows when you move it, the explorers of these notebooks will work. (An explorer is a drawing with controls.) If you see none, nothing is lost: the numbers an explorer opens with are also in the figures and tables above it. When you open the notebook again later, its place may say “Error displaying widget: model not found”: run the cells down to it, and it is back.

# %%
from byhand.explorers import squares

explorer = squares.explorer(lang)
explorer

# %%
assert explorer.set(n=5).says == "5 × 5 = 25"
_ = explorer.reset()

# %% [markdown] lang="zh"
# ## 三个问题
#
# **1.** 公式的四步里，哪一步让一行的和变成 1？
#
# <details><summary>答案</summary>
#
# 第三步，softmax。打分和缩放之后的数可正可负，一行的和可以是任何数。
#
# </details>
#
# **2.** `A[西安, 怎么样]` 是谁在看谁？
#
# <details><summary>答案</summary>
#
# 行是查询，列是键：「西安」在看「怎么样」。反过来是 `A[怎么样, 西安]`，一般是另一个数。
#
# </details>
#
# **3.** $W_Q$ 的形状是 [4, 4]，一个 4 维的 $x$ 写成 `x @ W_Q` 和 `W_Q @ x` 都不会报错。形状能告诉你哪个对吗？
#
# <details><summary>答案</summary>
#
# 不能。对「西安」，`x @ W_Q` 的第一个数是 ${{ (X[西安] @ W_Q)[0]:.3f }}$，`W_Q @ x` 的第一个数是 ${{ (W_Q @ X[西安])[0]:.3f }}$。方阵从哪边乘，形状都对得上，对错只能看算出来的数。真实的模型里也一样：Qwen2.5-7B 的 $W_Q$ 和 $W_O$ 都是 3584 × 3584。
#
# </details>
#
# 下一本：[01 打分和缩放](01_scores_and_scaling.ipynb)

# %% [markdown] lang="en" of="59c85548"
# ## Three questions
#
# **1.** Which of the four steps of the formula makes a row sum to 1?
#
# <details><summary>Answer</summary>
#
# The third, the softmax. After scoring and scaling the numbers may be negative, and a row can sum to anything.
#
# </details>
#
# **2.** In `A[西安, 怎么样]`, who looks at whom?
#
# <details><summary>Answer</summary>
#
# Rows are queries and columns are keys: 西安 looks at 怎么样. The other way round is `A[怎么样, 西安]`, in general another number.
#
# </details>
#
# **3.** $W_Q$ has the shape [4, 4]. For an $x$ of 4 dimensions, neither `x @ W_Q` nor `W_Q @ x` raises an error. Can the shape tell you which is right?
#
# <details><summary>Answer</summary>
#
# No. For 西安 the first number of `x @ W_Q` is ${{ (X[西安] @ W_Q)[0]:.3f }}$, and that of `W_Q @ x` is ${{ (W_Q @ X[西安])[0]:.3f }}$. With a square matrix you have to look at the numbers. In Qwen2.5-7B both $W_Q$ and $W_O$ are 3584 × 3584, so it is the same there.
#
# </details>
#
# Next: [01 Scores and scaling](01_scores_and_scaling.ipynb)

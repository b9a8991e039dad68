"""PyTorch modules under `diagnose`. make oracle installs PyTorch and runs these."""

from typing import Any

import pytest

from byhand import diagnose

torch: Any = pytest.importorskip("torch", reason="make oracle installs PyTorch and runs this file")
nn: Any = torch.nn
D, N = 12, 3  # d_model, heads


class Separate(nn.Module):  # type: ignore[misc]
    """A layer for each projection; q, k and v are handed over apart."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = N
        self.queries, self.keys, self.values = (nn.Linear(D, D) for _ in range(3))
        self.fc_out = nn.Linear(D, D)
        self.drop = nn.Dropout(0.5)

    root = (D // N) ** 0.5

    def forward(self, value: Any, key: Any, query: Any, mask: Any) -> Any:
        batch, length = query.shape[:2]
        q, k, v = (
            layer(part).reshape(batch, length, N, D // N).transpose(1, 2)
            for layer, part in ((self.queries, query), (self.keys, key), (self.values, value))
        )
        scores = q @ k.transpose(2, 3) / self.root
        weights = scores.masked_fill(mask == 0, -1e20).softmax(dim=-1)
        return self.fc_out((self.drop(weights) @ v).transpose(1, 2).flatten(2))


class WrongRoot(Separate):
    root = D**0.5


class Fused(nn.Module):  # type: ignore[misc]
    """One layer for all three, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.n_head = N
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def split(self, x: Any) -> list[Any]:
        parts = self.c_attn(x).chunk(3, dim=-1)
        return [p.unflatten(-1, (N, D // N)).transpose(1, 2) for p in parts]

    def forward(self, x: Any) -> Any:
        y = nn.functional.scaled_dot_product_attention(*self.split(x), is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class FusedByHead(Fused):
    """q, k and v of head 0, then those of head 1, and so on."""

    def split(self, x: Any) -> list[Any]:
        by_head = self.c_attn(x).unflatten(-1, (N, 3 * D // N)).transpose(1, 2)
        return list(by_head.chunk(3, dim=-1))


class NoTranspose(FusedByHead):
    def forward(self, x: Any) -> Any:
        y = nn.functional.scaled_dot_product_attention(*self.split(x), is_causal=True)
        return self.c_proj(y.reshape(x.shape))


class OneHead(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(D, D // N, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(64, 64)))

    def forward(self, x: Any) -> Any:
        n = x.shape[-2]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * (D // N) ** -0.5
        return scores.masked_fill(self.tril[:n, :n] == 0, -torch.inf).softmax(-1) @ self.value(x)


class ListOfHeads(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(OneHead() for _ in range(N))
        self.proj = nn.Linear(D, D)

    def forward(self, x: Any) -> Any:
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


class Reversed(ListOfHeads):
    def forward(self, x: Any) -> Any:
        return self.proj(torch.cat([head(x) for head in reversed(self.heads)], dim=-1))


class Numbered(nn.Module):  # type: ignore[misc]
    """linears.0 … linears.3 are q, k, v and o; K/V heads are shared."""

    def __init__(self, n_kv: int) -> None:
        super().__init__()
        self.num_heads, self.n_kv = 2 * N, n_kv
        width = n_kv * D // N
        sizes = ((2 * D, 2 * D), (2 * D, width), (2 * D, width), (2 * D, 2 * D))
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in sizes)

    def repeat(self, kv: Any) -> Any:
        return kv.repeat_interleave(2 * N // self.n_kv, dim=1)

    def forward(self, x: Any) -> Any:
        q, k, v = (
            layer(x).unflatten(-1, (-1, D // N)).transpose(1, 2) for layer in self.linears[:3]
        )
        k, v = self.repeat(k), self.repeat(v)
        weights = (q @ k.transpose(2, 3) / (D // N) ** 0.5).softmax(dim=-1)
        return self.linears[3]((weights @ v).transpose(1, 2).flatten(2))


class Tiled(Numbered):
    def repeat(self, kv: Any) -> Any:
        return kv.repeat(1, 2 * N // self.n_kv, 1, 1)


class Slices(nn.Module):  # type: ignore[misc]
    """Layers as wide as one head."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = N
        self.query, self.key, self.value = (nn.Linear(D // N, D // N) for _ in range(3))
        self.out = nn.Linear(D, D)

    def forward(self, x: Any) -> Any:
        q, k, v = (
            layer(x.unflatten(-1, (N, -1)).transpose(-2, -3))
            for layer in (self.query, self.key, self.value)
        )
        return self.out(
            nn.functional.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2)
        )


class OfTheirOwn(nn.Module):  # type: ignore[misc]
    """Each head has layers as wide as the whole; none is a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = N
        self.q, self.k, self.v = (
            nn.ModuleList(nn.Linear(D, D) for _ in range(N)) for _ in range(3)
        )
        self.o = nn.Linear(N * D, D)

    def forward(self, x: Any) -> Any:
        parts = zip(self.q, self.k, self.v, strict=True)
        attend = nn.functional.scaled_dot_product_attention
        return self.o(torch.cat([attend(q(x), k(x), v(x)) for q, k, v in parts], dim=-1))


class OtherNames(Fused):
    """The number of heads in a config, and the weights kept from the last call."""

    def __init__(self) -> None:
        super().__init__()
        del self.n_head
        self.config = type("Config", (), {"num_heads": N})()


class Nested(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = Separate()

    def forward(self, x: Any, mask: Any) -> Any:
        return self.inner(x, x, x, mask)


RIGHT = [
    OfTheirOwn, OtherNames, Nested,
    Separate, Fused, FusedByHead, OneHead, ListOfHeads, lambda: Numbered(N),
    lambda: Numbered(2 * N), lambda: nn.MultiheadAttention(D, N, batch_first=True),
]  # fmt: skip
WRONG = [
    (WrongRoot, "scale_d_model"),
    (NoTranspose, "merge_no_transpose"),
    (Reversed, "heads_reversed"),
    (lambda: Tiled(N), "gqa_tiled"),
    (Slices, "heads_slice_x"),
]


@pytest.mark.parametrize("made", RIGHT)
def test_a_right_module_is_right(made: Any) -> None:
    found = diagnose(made())
    assert found.correct, found


@pytest.mark.parametrize(("made", "mistake"), WRONG)
def test_a_mistake_in_a_module_is_named(made: Any, mistake: str) -> None:
    assert diagnose(made()).mistakes == ((mistake,),)


def test_the_module_itself_is_left_alone() -> None:
    module = Fused().train()
    before = {name: p.clone() for name, p in module.named_parameters()}
    diagnose(module)
    assert module.training and module.c_attn.weight.dtype == torch.float32
    assert all(torch.equal(p, before[name]) for name, p in module.named_parameters())


def test_what_is_no_attention_is_told_in_words() -> None:
    assert "which layers project Q, K and V" in str(diagnose(nn.Linear(2, 2), lang="en"))
    assert "src" in str(diagnose(nn.TransformerEncoderLayer(D, N), lang="en"))
    assert "cannot be split into 5 heads" in str(diagnose(Fused(), n_heads=5, lang="en"))


def test_a_module_that_cannot_be_copied_is_told_so() -> None:
    module = Fused()
    module.kept = module(torch.ones(1, 2, D))  # part of a graph
    assert "cannot be copied" in str(diagnose(module, lang="en"))
    assert "this is a class" in str(diagnose(Fused, lang="en"))


def test_a_number_of_heads_that_is_nowhere_is_asked_for() -> None:
    module = Fused()
    del module.n_head
    found = diagnose(module, lang="en")
    assert not found.correct and "write diagnose(…, n_heads=…)" in str(found)
    assert diagnose(module, n_heads=N).correct


def test_gradients_are_no_hindrance() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        q.requires_grad_()
        return nn.functional.scaled_dot_product_attention(q, k, v)

    assert diagnose(f).correct


def test_functions_on_tensors() -> None:
    attend = nn.functional.scaled_dot_product_attention
    assert diagnose(lambda q, k, v: attend(q, k, v)).correct
    assert diagnose(lambda q, k, v, attn_mask: attend(q, k, v, attn_mask=attn_mask)).correct
    half = diagnose(lambda q, k, v: attend(q.bfloat16(), k.bfloat16(), v.bfloat16()))
    assert half.correct and half.precision == "bfloat16"

"""05: one head of a real model at a time, and which of all its heads look from one token to another."""

from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from byhand import data, svg
from byhand.checks import Array, index
from byhand.explorer import Explorer, View, choice, frozen, slider
from byhand.words import pick, places, quoted
from byhand.worked import number

FIRST: Final = 5  # heads in the table
LAYER: Final = 10  # where the notebook finds 怎么样 → 西安
HEAD: Final = 4
QUERY: Final = 5
KEY: Final = 2
WIDTH: Final = 768  # of the drawing, whatever it shows
CELL: Final = (48, 28)  # the map and the table fit beside each other on a page of JupyterLab


class Ranked(NamedTuple):
    """A head, its weight from one query to one key, and its place among all the heads."""

    rank: int  # 1 and the number of heads that give more
    layer: int
    head: int
    weight: float


@cache
def trained() -> tuple[tuple[str, ...], Array]:
    """The tokens of the sentence, and the weights [layer, head, query, key] of the trained model."""
    with np.load(data.path("real_heads_e5.npz")) as file:
        tokens = tuple(str(token) for token in file["tokens"])
        return tokens, frozen(file["attention"].astype(np.float64))


@cache
def ranking(query: int, key: int) -> tuple[Ranked, ...]:
    """Every head of the model, that which gives most from `query` to `key` first."""
    tokens, weights = trained()
    index("query", query, len(tokens))
    index("key", key, len(tokens))
    pair = weights[:, :, query, key]  # [12, 12]
    n_heads = pair.shape[1]
    order = np.argsort(-pair, axis=None, kind="stable")
    falling = pair.flat[order]
    ranks = 1 + np.searchsorted(-falling, -falling)  # 1 + how many give more
    return tuple(
        Ranked(int(rank), int(n) // n_heads, int(n) % n_heads, float(weight))
        for rank, n, weight in zip(ranks, order, falling, strict=True)
    )


def view(layer: int, head: int, query: int, key: int, lang: str) -> View:
    """The weights of one head, and the heads that look from `query` to `key` most."""
    tokens, weights = trained()
    n_layers, n_heads = weights.shape[:2]
    map_ = weights[index("layer", layer, n_layers), index("head", head, n_heads)]  # [8, 8]
    ranked = ranking(query, key)
    here = next(r for r in ranked if (r.layer, r.head) == (layer, head))
    listed = [*ranked[:FIRST], *([] if here in ranked[:FIRST] else [here])]
    best = np.argwhere(map_ == map_.max(axis=1, keepdims=True)).tolist()  # equal ones, too
    giver = int(map_[:, key].argmax())

    pair = f"{tokens[query]} → {tokens[key]}"
    this = _named(layer, head, lang)
    found = pick(
        lang,
        f"{this}：{pair} {number(here.weight, 3)}，{len(ranked)} 个头里排第 {here.rank}",
        f"{this}: {pair} {number(here.weight, 3)}, place {here.rank} of {len(ranked)} heads",
    )
    from_zh = "它自己" if giver == key else quoted(tokens[giver], lang)
    from_en = "itself" if giver == key else tokens[giver]
    most = pick(
        lang,
        f"这个头里，给{quoted(tokens[key], lang)}最多的是{from_zh}：{number(map_[giver, key], 3)}",
        f"In this head {tokens[key]} gets most from {from_en}: {number(map_[giver, key], 3)}",
    )
    five = pick(lang, f"{pair}：权重最大的五个头", f"{pair}: the top five heads")
    title = pick(lang, "权重：查询（行），键（列）", "weights: queries (rows), keys (columns)")
    frames = pick(
        lang,
        "橙框：每行最大的；细框：选中的查询和键",
        "orange: the maximum of each row; outlined: query and key",
    )
    drawing = svg.below(
        svg.label(found, bold=True, size=15),
        svg.beside(
            svg.below(
                svg.matrix(
                    map_, "weights", title, tokens, tokens, decimals=2, scale=(0, 1), cell=CELL,
                    lit=[(i, j) for i, j in best], outlined_row=query, outlined_column=key,
                ),
                svg.label(frames, colour=svg.QUIET, size=12),
                gap=6,
            ),
            svg.below(
                svg.table(
                    pick(lang, "名次 层 头 权重", "rank layer head weight").split(),
                    [[str(r.rank), str(r.layer), str(r.head), number(r.weight, 3)] for r in listed],
                    five, lit=[listed.index(here)], right=range(4),
                ),
                svg.label(most),
            ),
        ),
    )  # fmt: skip
    row = "  ".join(f"{t} {number(w, 2)}" for t, w in zip(tokens, map_[query], strict=True))
    maxima = "  ".join(f"{tokens[i]} → {tokens[j]} {number(map_[i, j], 2)}" for i, j in best)
    heads = pick(lang, "；", "; ").join(
        f"{_named(r.layer, r.head, lang)} {number(r.weight, 3)}" for r in ranked[:FIRST]
    )
    colon = pick(lang, "：", ": ")
    return View(
        svg.widened(drawing, WIDTH),
        (
            found,
            f"{five}{colon}{heads}",
            most,
            pick(lang, f"{quoted(tokens[query], lang)}这一行：", f"the row of {tokens[query]}: ")
            + row,
            pick(lang, "每行最大的：", "the maximum of each row: ") + maxima,
        ),
    )


def _named(layer: int, head: int, lang: str) -> str:
    return pick(lang, f"第 {layer} 层头 {head}", f"layer {layer}, head {head}")


def _first(query: int, key: int, **_: Any) -> dict[str, int]:
    """The layer and the head that give most from `query` to `key`: where the button goes."""
    first = ranking(query, key)[0]
    return {"layer": first.layer, "head": first.head}


def explorer(lang: str) -> Explorer:
    """Move layer and head, choose a query and a key, go to the head that looks there most."""
    tokens, weights = trained()
    n_layers, n_heads = weights.shape[:2]
    where = places(tokens, lang)
    return Explorer(
        pick(lang, "真实模型的头", "The heads of a real model"),
        {
            "layer": slider(lang, "层", "layer", LAYER, 0, n_layers - 1),
            "head": slider(lang, "头", "head", HEAD, 0, n_heads - 1),
            "query": choice(lang, "查询：谁看", "query: who looks", where, QUERY),
            "key": choice(lang, "键：看谁", "key: at whom", where, KEY),
        },
        partial(view, lang=lang),
        lang,
        buttons={pick(lang, "跳到看得最多的头", "Go to the head that looks there most"): _first},
    )

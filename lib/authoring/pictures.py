"""The pictures of the two READMEs, drawn from the same data and functions as the notebooks."""

from pathlib import Path

from authoring.source import EDITIONS, ROOT
from byhand import attention, figures, project, toy
from byhand.figures import Picture
from byhand.words import pick


def path_of(lang: str) -> Path:
    """Where the picture of that README lies."""
    return ROOT / "docs" / f"weights.{lang}.png"


def weights(lang: str) -> Picture:
    """The attention weights of the sentence, the maximum of each row boxed."""
    t = toy.load()
    stages = attention(*(project(t.X, w) for w in (t.W_Q, t.W_K, t.W_V)))
    title = pick(lang, "今天西安的天气怎么样？谁在看谁", "今天西安的天气怎么样？ Who looks at whom")
    return figures.heatmap(stages.weights, "weights", lang, title=title, box_row_max=True)


def write() -> None:
    """Draw both pictures anew."""
    for lang in EDITIONS:
        png, _ = weights(lang)._repr_png_()
        path_of(lang).write_bytes(png)

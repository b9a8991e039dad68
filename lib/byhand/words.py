"""The words of the two editions: what figures, checks and explorers write on the screen."""

from collections.abc import Sequence
from typing import Final

from byhand.checks import refuse
from byhand.toy import GLOSSES, TOKENS
from byhand.worked import number

EDITIONS: Final = ("zh", "en")

# key: (中文, English). Score and weight are two words for two things: before and after the softmax.
WORDS: Final = {
    "query": ("查询", "query"),
    "key": ("键", "key"),
    "queries": ("查询（行）", "queries (rows)"),
    "keys": ("键（列）", "keys (columns)"),
    "scores": ("分数", "scores"),
    "scaled": ("缩放后的分数", "scaled scores"),
    "weights": ("权重", "weights"),
    "context": ("上下文向量", "context"),
    "tokens": ("词（行）", "tokens (rows)"),
    "dimensions": ("维", "dimension"),
    "w_o": ("输出投影", "output projection"),
    "identity": ("单位矩阵", "identity"),
    "block-diagonal": ("分块对角", "block-diagonal"),
    "heads swapped": ("两头对调", "heads swapped"),
    "the printed one": ("印出来的", "the printed one"),
}


def edition(lang: str) -> int:
    """0 for "zh" and 1 for "en": the place of that edition in every pair of words."""
    if lang not in EDITIONS:
        refuse(
            f'lang 只能是 "zh" 或 "en"，给的是 {lang!r}。', f'lang is "zh" or "en", not {lang!r}.'
        )
    return EDITIONS.index(lang)


def word(key: str, lang: str) -> str:
    """One word of the glossary in the language of the edition; ValueError for an unknown one."""
    if key not in WORDS:
        known = ", ".join(WORDS)
        refuse(
            f"用词表里没有 {key!r}。有的是：{known}",
            f"there is no word {key!r}; there are: {known}",
        )
    return WORDS[key][edition(lang)]


def pick(lang: str, zh: str, en: str) -> str:
    """The one of two texts that belongs to the edition."""
    return (zh, en)[edition(lang)]


def glossed(token: str, lang: str, between: str = " ") -> str:
    """A token as a label; the English edition adds what a token of the sentence means."""
    if edition(lang) == 0 or token not in TOKENS[:-1]:
        return token
    return f"{token}{between}{GLOSSES[TOKENS.index(token)]}"


def token_labels(lang: str) -> list[str]:
    """The six tokens as labels, with the gloss on a line below."""
    return [glossed(token, lang, "\n") for token in TOKENS]


def places(tokens: Sequence[str], lang: str) -> dict[str, int]:
    """The place of every token by its label, for a menu or a slider over them."""
    return {glossed(token, lang): n for n, token in enumerate(tokens)}


def quoted(token: str, lang: str) -> str:
    """A token in a sentence: in corner brackets in Chinese, as it is in English."""
    return pick(lang, f"「{token}」", token)


def small(value: float, decimals: int, lang: str) -> str:
    """A positive number, and in words that it is too small where its decimals would show zero."""
    if number(value, decimals) != number(0, decimals):
        return number(value, decimals)
    least = number(10.0**-decimals, decimals)
    return pick(lang, f"不到 {least}", f"under {least}")

"""Checks on what a reader passes in: every fault is a ValueError in the reader's terms."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating[Any]]


def refuse(zh: str, en: str) -> NoReturn:
    """Raise the ValueError that says the same in both languages of the series."""
    raise ValueError(f"{en}\n{zh}")


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as the notebooks write it: [6, 4]."""
    return "[" + ", ".join(str(n) for n in shape) + "]"


def as_array(name: str, value: ArrayLike, *, ndim: int = 2, infinite: bool = False) -> Array:
    """`value` as a floating-point array of at least `ndim` axes, none of them empty.

    float32 stays float32, whole numbers become float64. NaN is refused, and so is infinity,
    except −inf where `infinite` is true (scores behind a mask). Raises ValueError.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        refuse(
            f"{name} 的各行长短不一，拼不成矩阵。",
            f"the rows of {name} have different lengths, so they do not form a matrix.",
        )
    if array.dtype.kind not in "fiu":
        refuse(
            f"{name} 里要放数，给的是 {array.dtype} 类型。",
            f"{name} must hold numbers; its type is {array.dtype}.",
        )
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if array.ndim < ndim:
        refuse(
            f"{name} 至少要有 {ndim} 个轴，给的形状是 {shape_text(array.shape)}。",
            f"{name} needs at least {ndim} axes; its shape is {shape_text(array.shape)}.",
        )
    if array.size == 0:
        refuse(
            f"{name} 是空的，形状是 {shape_text(array.shape)}。",
            f"{name} is empty: its shape is {shape_text(array.shape)}.",
        )
    bad = np.isnan(array) | (np.isposinf(array) if infinite else np.isinf(array))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        refuse(
            f"{name}{shape_text(where)} 是 {array[where]}，这里要有限的数。",
            f"{name}{shape_text(where)} is {array[where]}; it must be a finite number.",
        )
    return array


def whole(name: str, value: int, *, least: int = 1) -> int:
    """`value` as a whole number that is not less than `least`. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        refuse(
            f"{name} 必须是整数，而且不小于 {least}；给的是 {value!r}。",
            f"{name} must be a whole number, {least} or more; it is {value!r}.",
        )
    return int(value)


def same(what_zh: str, what_en: str, **sizes: int) -> None:
    """Refuse sizes that ought to be equal and are not, naming each."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        refuse(f"{what_zh}必须一样：{listed}。", f"{what_en} must be equal: {listed}.")


def index(name: str, value: int, size: int) -> int:
    """`value` as a position 0 … size − 1; negative positions are refused. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < size:
        refuse(
            f"{name} 必须是 0 到 {size - 1} 之间的整数；给的是 {value!r}。",
            f"{name} must be a whole number between 0 and {size - 1}; it is {value!r}.",
        )
    return int(value)

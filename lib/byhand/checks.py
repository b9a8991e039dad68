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
    if isinstance(value, np.ma.MaskedArray):
        refuse(
            f"{name} 是掩码数组（masked array），里面有看不见的数；请先换成普通数组。",
            f"{name} is a masked array, which hides some of its numbers; make it a plain array first.",
        )
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
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # the usual case, without a second array
            return array
    bad = np.isnan(array) | (np.isposinf(array) if infinite else np.isinf(array))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        refuse(
            f"{name}{shape_text(where)} 是 {array[where]}，这里要有限的数。",
            f"{name}{shape_text(where)} is {array[where]}; it must be a finite number.",
        )
    return array


def broadcast(name_a: str, a: tuple[int, ...], name_b: str, b: tuple[int, ...]) -> None:
    """Refuse leading axes (batch, heads) that do not fit together; `a` and `b` are full shapes."""
    try:
        np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        refuse(
            f"{name_a} {shape_text(a)} 和 {name_b} {shape_text(b)} 前面的轴（批、头）对不上。",
            f"the leading axes (batch, heads) of {name_a} {shape_text(a)} and {name_b} "
            f"{shape_text(b)} do not fit.",
        )


def finite(name: str, array: Array) -> Array:
    """`array`, unless its numbers grew beyond what its type can hold."""
    if not np.isfinite(array).all():
        refuse(
            f"{name} 里的数太大，{array.dtype} 放不下。",
            f"numbers in {name} are too large for {array.dtype}.",
        )
    return array


def matrix(name: str, value: ArrayLike, *, infinite: bool = False) -> Array:
    """`value` as one matrix, exactly two axes. Raises ValueError."""
    array = as_array(name, value, infinite=infinite)
    if array.ndim != 2:
        refuse(
            f"{name} 必须是一个矩阵（两个轴）；给的有 {array.ndim} 个轴。",
            f"{name} must be one matrix (two axes); it has {array.ndim}.",
        )
    return array


def row(name: str, value: ArrayLike, size: int | None = None, *, infinite: bool = False) -> Array:
    """`value` as one row of numbers, `size` of them if given. Raises ValueError."""
    array = as_array(name, value, ndim=1, infinite=infinite)
    if array.ndim != 1 or (size is not None and array.size != size):
        wanted_zh = "一行数" if size is None else f"一行 {size} 个数"
        wanted_en = "one row of numbers" if size is None else f"one row of {size} numbers"
        refuse(
            f"{name} 必须是{wanted_zh}；给的形状是 {shape_text(array.shape)}。",
            f"{name} must be {wanted_en}; its shape is {shape_text(array.shape)}.",
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

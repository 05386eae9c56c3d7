"""What NumPy arrays and torch tensors have in common, without importing torch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np

from koct.errors import KoctError

BLOCK = 2**24  # entries of an array that are worked on at a time

if TYPE_CHECKING:
    import torch

    Array: TypeAlias = np.ndarray | torch.Tensor
    ArrayT = TypeVar("ArrayT", np.ndarray, torch.Tensor)  # NumPy in, NumPy out; torch in, torch out
else:
    Array = Any
    ArrayT = TypeVar("ArrayT")


def is_torch(x: object) -> TypeGuard[torch.Tensor]:
    """Whether x is a torch tensor."""
    torch = sys.modules.get("torch")  # without it there are no tensors
    return torch is not None and isinstance(x, torch.Tensor)


def belongs_to_transform(x: Any) -> bool:
    """Whether x was made inside a transform of `torch.func`, such as vmap, and has no meaning outside it."""
    return is_torch(x) and bool(library(x)._C._functorch.is_functorch_wrapped_tensor(x))


def as_float(x: ArrayT, user: object) -> ArrayT:
    """x itself if it is float32 or float64; in float64 if it holds integers or booleans.

    What torch's autocast has lowered to half precision is taken back to float32.
    Any other dtype is a TypeError that names `user` and what to do: complex numbers would lose their imaginary part,
    and nothing here is written for half precision or for more than double precision.
    """
    array: Any = x  # which type checkers do not narrow
    if is_torch(x):
        torch = library(x)
        if array.layout != torch.strided:
            raise TypeError(f"{user} takes dense tensors, got {array.layout}; use x.to_dense()")
        if array.dtype in (torch.float32, torch.float64):
            return array
        if array.dtype in (torch.bfloat16, torch.float16) and torch.is_autocast_enabled(array.device.type):
            return array.float()
        if not (array.dtype.is_floating_point or array.dtype.is_complex):
            return array.double()
    elif isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{user} takes arrays without a mask; use x.filled(0), or another number")
        array = np.asarray(x)  # of np.matrix and other classes, whose products may be others
        if array.dtype.kind in "biu":
            return array.astype(np.float64)
        if array.dtype.kind == "f" and array.dtype.itemsize in (4, 8):
            return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    else:
        raise TypeError(f"{user} takes NumPy arrays and torch tensors, got {type(x).__name__}; use np.asarray(x)")
    name = str(array.dtype)
    of_numpy = f"x.astype(np.float{32 if name == 'float16' else 64})"
    fix = f"convert them by {'x.float()' if is_torch(x) else of_numpy}"
    fix = "apply it to x.real and to x.imag" if "complex" in name else fix
    raise TypeError(f"{user} takes real numbers in float32 or float64, got {name}; {fix}")


def without_autocast(x: Array) -> contextlib.AbstractContextManager[None]:
    """A context in which torch does not lower the precision of operations on x by itself."""
    if is_torch(x) and library(x).is_autocast_enabled(x.device.type):
        disabled: contextlib.AbstractContextManager[None] = library(x).autocast(x.device.type, enabled=False)
        return disabled
    return contextlib.nullcontext()


def is_compiling(x: object) -> bool:
    """Whether torch.compile traces what is done with x."""
    return is_torch(x) and bool(library(x).compiler.is_compiling())


def without_compiling(function: Callable[[ArrayT], ArrayT]) -> Callable[[ArrayT], ArrayT]:
    """`function` as a call that torch.compile does not look into."""
    import torch

    called: Callable[[ArrayT], ArrayT] = torch.compiler.disable(function)
    return called


def library(array: Any) -> Any:
    """What has the functions for an array: the module torch or numpy."""
    return sys.modules["torch"] if is_torch(array) else np


def like(array: Any, other: Any) -> Any:
    """`array` in the precision and on the device of `other`."""
    if is_torch(other):
        return library(other).as_tensor(array, dtype=other.dtype, device=other.device)
    return np.asarray(array, other.dtype)


def double(array: Any) -> Any:
    """`array` in float64."""
    return array.double() if is_torch(array) else np.asarray(array, float)


def single(array: Any) -> Any:
    """`array` in float32."""
    return array.float() if is_torch(array) else np.asarray(array, np.float32)


def joined(*arrays: Any) -> Any:
    """Return arrays (rows, columns, ...) side by side."""
    return library(arrays[0]).concatenate(arrays, axis=1)


def stacked(arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape along a new axis."""
    return library(arrays[0]).stack(arrays, axis=axis)


def to_numpy(array: Any, what: object = "the array") -> np.ndarray:
    """An array of any device as a NumPy array; one with masked entries is refused, as `what`."""
    if any(map(np.ma.is_masked, [array, *(array if isinstance(array, list | tuple) else ())])):
        raise KoctError(f"{what} has a mask, which would be lost; fill it: .filled(0), or another number")
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def index(numbers: np.ndarray, other: Any) -> Any:
    """Whole numbers to index `other` with, on its device."""
    return library(other).as_tensor(numbers, device=other.device) if is_torch(other) else numbers


def zeros_like(array: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Zeros in the precision and on the device of `array`, and in its shape unless another one is given."""
    shape = tuple(array.shape) if shape is None else shape
    return array.new_zeros(shape) if is_torch(array) else np.zeros(shape, array.dtype)


def copy(array: Any) -> Any:
    return array.clone() if is_torch(array) else array.copy()


def blocks(length: int, width: int) -> list[slice]:
    """Slices of a length, so that a part with this width has at most BLOCK entries."""
    step = max(1, BLOCK // max(width, 1))
    return [slice(first, first + step) for first in range(0, length, step)]


def gram_matrix(x: Any) -> Any:
    """x xᵀ in float64, without a copy of all of x."""
    parts = (double(x[:, columns]) for columns in blocks(x.shape[1], x.shape[0]))
    return sum(part @ part.T for part in parts)


def product(a: Any, b: Any) -> Any:
    """a @ b in float64, without a copy of all of b."""
    return sum(double(a[:, rows]) @ double(b[rows]) for rows in blocks(b.shape[0], b.shape[1]))


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return library(matrix).linalg.eigh(matrix)

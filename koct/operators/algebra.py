"""Linear operators as objects: application to batches, exact adjoints, composition, sums and multiples, norms.

Every operator takes NumPy arrays and torch tensors in float32 or float64, and returns the same kind: NumPy or torch,
dtype and device. Integers and booleans are converted to float64; complex numbers and half precision are refused.
torch can differentiate through every operator, any number of times, forward and backward, and `torch.func.vmap` it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from koct.base.arrays import (
    Array,
    ArrayT,
    as_float,
    belongs_to_transform,
    copy,
    is_compiling,
    is_torch,
    like,
    to_numpy,
    without_autocast,
    without_compiling,
)

if TYPE_CHECKING:
    import torch


class Operator:
    """A real linear map from arrays of shape `domain` to arrays of shape `range`.

    Leading axes are a batch: `A(x)`, or `A @ x`, maps (..., *domain) to (..., *range). `A.T` is the exact adjoint.
    `A @ B`, `A + B`, `A - B`, `-A`, `2 * A` and `A / 2` are operators too.
    Subclasses define `_apply` on (batch, *domain) and `_adjoint` on (batch, *range).

    Parameters
    ----------
    domain : shape of an input, without the batch
    range : shape of an output, without the batch

    Examples
    --------
    >>> from koct.operators.algebra import Operator
    >>> class Total(Operator):
    ...     def _apply(self, x):
    ...         return x.sum(1, keepdims=True)
    ...
    ...     def _adjoint(self, y):
    ...         return y * np.ones(self.domain)
    >>> A = Total((3,), (1,))
    >>> A(np.array([1.0, 2.0, 3.0])), A.T(np.array([2.0])), (2 * A).shape
    (array([6.]), array([2., 2., 2.]), (1, 3))
    """

    __array_ufunc__ = None  # NumPy leaves `np.float64(2) * A` to the operator

    def __init__(self, domain: Iterable[int], range: Iterable[int]) -> None:
        self.domain = tuple(domain)
        self.range = tuple(range)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options().items())
        return f"{type(self).__name__}({self.domain} -> {self.range}{options})"

    def _options(self) -> dict[str, object]:
        """What `repr` shows beside the shapes."""
        return {}

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the matrix of this operator."""
        return math.prod(self.range), math.prod(self.domain)

    def __call__(self, x: ArrayT) -> ArrayT:
        if is_compiling(x):  # what is before and behind: the loops here are compiled already
            return without_compiling(self._on_batch)(x)  # type: ignore[arg-type, return-value]
        return self._on_batch(x)

    def _on_batch(self, x: ArrayT) -> ArrayT:
        x = as_float(x, self)
        split: int = x.ndim - len(self.domain)
        if split < 0 or tuple(x.shape[split:]) != self.domain:
            raise ValueError(self._wrong_shape(tuple(x.shape)))
        with without_autocast(x):
            out = self._apply(x.reshape(-1, *self.domain))
        if tuple(out.shape[1:]) != self.range:
            raise ValueError(
                f"{self} gave the shape {tuple(out.shape)}; `_apply` and `_adjoint` must keep to its shapes"
            )
        shape: tuple[int, ...] = (*x.shape[:split], *self.range)
        return out.reshape(shape)

    def flat(self, x: ArrayT) -> ArrayT:
        """Return the same of flat arrays, (n, columns) to (n, rows)."""
        return self(x.reshape(-1, *self.domain)).reshape(len(x), -1)

    @property
    def T(self) -> Operator:
        """The exact adjoint, from arrays of shape `range` to arrays of shape `domain`."""
        return Adjoint(self)

    def _wrong_shape(self, got: tuple[int, ...]) -> str:
        """What is wrong with an array of this shape, and what to do."""
        axes = ", ".join(["...", *map(str, self.domain)])
        size = math.prod(self.domain)
        if math.prod(got) == size or (got and got[-1] == size):
            fix = f"reshape it to ({axes})"
        elif self.range != self.domain and got[len(got) - len(self.range) :] == self.range:
            fix = "this is the shape of its range, which its adjoint `.T` takes"
        else:
            fix = "the last axes must be its domain, any axes before them are a batch"
        return f"{self} takes arrays of shape ({axes}), got {got}; {fix}"

    def __matmul__(self, other: Any) -> Any:
        return Composition(self, other) if isinstance(other, Operator) else self(other)

    def __add__(self, other: Operator) -> Operator:
        if isinstance(other, Operator):
            return Sum(self, other)
        raise TypeError(f"only operators are added to {self}, got {type(other).__name__}; use c * Identity(shape)")

    def __radd__(self, other: object) -> Operator:
        return self if isinstance(other, int) and other == 0 else self + other  # type: ignore[operator]  # for `sum`

    def __sub__(self, other: Operator) -> Operator:
        return self + (-other if isinstance(other, Operator) else other)

    def __neg__(self) -> Operator:
        return self * -1.0

    def __mul__(self, factor: float) -> Operator:
        return Scaled(factor, self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Operator:
        if _real(divisor) == 0:
            raise ValueError(f"cannot divide {self} by zero")
        return Scaled(1 / _real(divisor), self)

    def matrix(self, kind: Any = None) -> Any:
        """Return the dense matrix, column by column from basis vectors: float64, or of the kind of the array `kind`."""
        basis: Any = np.eye(self.shape[1])
        if kind is not None:
            basis = like(basis, as_float(kind, self))
        return self(basis.reshape(-1, *self.domain)).reshape(self.shape[1], self.shape[0]).T

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """Return the largest singular value, by power iteration on AᵀA, or by Lanczos' method if that takes too long.

        Stops when the estimate grows by less than `tol` (relative); the estimate never exceeds the norm.
        """
        return self._power_iteration(np.random.default_rng(0).standard_normal(self.domain), tol, max_iterations)

    def _power_iteration(self, v: np.ndarray, tol: float, max_iterations: int) -> float:
        v = v / np.linalg.norm(v)
        estimate = 0.0
        for _ in range(max_iterations):
            u = self(v)
            previous, estimate = estimate, float(np.linalg.norm(u))
            if not math.isfinite(estimate):
                raise ArithmeticError(f"{self} gives numbers that are not finite, so it has no norm")
            if estimate == 0.0:
                return 0.0
            if estimate - previous <= tol * estimate:
                return estimate
            v = self.T(u)
            v /= np.linalg.norm(v)
        # singular values so close to the largest are hard to tell apart: Lanczos' method
        from scipy.sparse.linalg import LinearOperator, eigsh

        def normal(v: np.ndarray) -> np.ndarray:
            return self.T(self(v.reshape(self.domain))).ravel()

        found = eigsh(LinearOperator((v.size, v.size), normal), 1, v0=v.ravel(), tol=tol, return_eigenvectors=False)
        return math.sqrt(found[0])

    def module(self) -> torch.nn.Module:
        """Return this operator as a torch module without parameters, a layer of `nn.Sequential` for example."""
        from koct.operators.autograd import OperatorModule

        return OperatorModule(self)

    if not TYPE_CHECKING:  # which takes it for the name of the class

        @property
        def __name__(self) -> str:
            """What torch calls an operator that it refuses, as in `nn.Sequential(A)`."""
            return f"{type(self).__name__}, whose .module() is one,"

    def _apply(self, x: ArrayT) -> ArrayT:
        raise NotImplementedError(f"{type(self).__name__} must define _apply")

    def _adjoint(self, y: ArrayT, /) -> ArrayT:
        raise NotImplementedError(f"{type(self).__name__} must define _adjoint")


def _shown(operator: Operator, *kinds: type) -> str:
    """Its `repr`, in brackets if it is of one of these kinds."""
    return f"({operator!r})" if isinstance(operator, kinds) else repr(operator)


class Adjoint(Operator):
    """The adjoint of the operator `of`: from arrays of shape `of.range` to arrays of shape `of.domain`."""

    def __init__(self, of: Operator) -> None:
        super().__init__(of.range, of.domain)
        self.of = of

    def __repr__(self) -> str:
        return f"{_shown(self.of, Composition, Scaled, Sum)}.T"

    @property
    def T(self) -> Operator:
        return self.of

    def _apply(self, x: ArrayT) -> ArrayT:
        return self.of._adjoint(x)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self.of._apply(y)


class Composition(Operator):
    """`outer @ inner`, first `inner` and then `outer`: from arrays of shape `inner.domain` to `outer.range`."""

    def __init__(self, outer: Operator, inner: Operator) -> None:
        if outer.domain != inner.range:
            raise ValueError(f"cannot compose: {outer} takes shape {outer.domain}, {inner} gives {inner.range}")
        super().__init__(inner.domain, outer.range)
        self.outer, self.inner = outer, inner

    def __repr__(self) -> str:
        return f"{_shown(self.outer, Sum)} @ {_shown(self.inner, Sum)}"

    def _apply(self, x: ArrayT) -> ArrayT:
        return self.outer._apply(self.inner._apply(x))

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self.inner._adjoint(self.outer._adjoint(y))


class Sum(Operator):
    """The sum of operators with the same domain and the same range; sums among them are taken apart."""

    def __init__(self, *terms: Operator) -> None:
        first, *others = terms
        for other in others:
            if (first.domain, first.range) != (other.domain, other.range):
                raise ValueError(f"cannot add {first} and {other}: their domains and their ranges must be the same")
        super().__init__(first.domain, first.range)
        self.terms: tuple[Operator, ...] = ()
        for term in terms:
            self.terms += term.terms if isinstance(term, Sum) else (term,)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def __neg__(self) -> Operator:
        return Sum(*(-term for term in self.terms))

    def _apply(self, x: ArrayT) -> ArrayT:
        return sum((term._apply(x) for term in self.terms[1:]), self.terms[0]._apply(x))  # type: ignore[return-value]

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return sum((term._adjoint(y) for term in self.terms[1:]), self.terms[0]._adjoint(y))  # type: ignore[return-value]


class Scaled(Operator):
    """`factor * of` for a finite real factor; a multiple of a multiple has the product of their factors."""

    def __init__(self, factor: float, of: Operator) -> None:
        super().__init__(of.domain, of.range)
        self.factor, self.of = _real(factor), of
        if isinstance(of, Scaled):
            self.factor, self.of = _real(self.factor * of.factor), of.of

    def __repr__(self) -> str:
        return f"{self.factor:g} * {_shown(self.of, Sum)}"

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The absolute value of the factor times the norm of `of`."""
        return abs(self.factor) * self.of.norm(tol, max_iterations)

    def _apply(self, x: ArrayT) -> ArrayT:
        return self.factor * self.of._apply(x)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self.factor * self.of._adjoint(y)


def _real(number: object) -> float:
    """Return a finite real number as a float; anything else is an error that says what to write instead."""
    if isinstance(number, Real) and not isinstance(number, bool) and math.isfinite(number):
        return float(number)
    raise TypeError(
        f"an operator is multiplied by finite real numbers only, got "
        f"{number if isinstance(number, Real) else type(number).__name__}; A(x) applies it to an array, A @ B composes "
        f"two operators, A @ Diagonal(x) multiplies its input by an array, float(x) makes a number of x"
    )


class Constant:
    """Real values of any shape that an operator multiplies by, in the kind of its input: NumPy or torch, dtype, device.

    NumPy values are converted once for every kind and must not change afterwards; `values` is a read-only view of
    them. A torch tensor may be trained: it is converted at every use, and gradients flow back to it.
    """

    def __init__(self, values: Array, user: object) -> None:
        self.values: Any = values
        name = type(user).__name__
        self._trainable = is_torch(values)
        if is_torch(values) and "sparse" in str(values.layout):
            raise TypeError(f"{name} needs a dense tensor, got {values.layout}; use values.to_dense()")
        if not self._trainable:
            self.values = np.asarray(values).view()
            self.values.flags.writeable = False
        if self.values.dtype.is_complex if self._trainable else self.values.dtype.kind not in "biuf":
            raise TypeError(f"{name} needs real values, got {self.values.dtype}")
        self._converted: dict[object, Any] = {}

    def like(self, x: ArrayT) -> ArrayT:
        """The values, such that a product with x is of the kind of x."""
        array: Any = x  # which type checkers do not narrow
        if self._trainable:
            if is_torch(x):
                return self.values.to(array.device, array.dtype)
            return self.values.detach().cpu().numpy().astype(array.dtype, copy=False)
        if not is_torch(x) and np.can_cast(self.values.dtype, array.dtype):
            return self.values  # NumPy converts them by itself where that loses nothing
        key = (array.dtype, array.device) if is_torch(x) else array.dtype
        if key in self._converted:
            return self._converted[key]
        if is_torch(x):
            import torch

            with torch.inference_mode(False):  # a tensor made in inference mode could not be used in training later
                converted: Any = torch.tensor(self.values, dtype=array.dtype, device=array.device)
        else:
            converted = self.values.astype(array.dtype)
        if not belongs_to_transform(converted):
            self._converted[key] = converted
        return converted


class Diagonal(Operator):
    """Entrywise multiplication by weights; domain and range are the shape of the weights.

    Parameters
    ----------
    weights : real array of any shape. A NumPy array is copied; a torch tensor is used as it is and can be trained.

    Examples
    --------
    >>> from koct.operators.algebra import Diagonal
    >>> Diagonal(np.array([1.0, 2.0]))(np.array([[1.0, 1.0], [3.0, 3.0]]))
    array([[1., 2.],
           [3., 6.]])
    """

    def __init__(self, weights: Array) -> None:
        weights = weights if is_torch(weights) else np.array(weights)
        super().__init__(weights.shape, weights.shape)
        self._constant = Constant(weights, self)

    @property
    def weights(self) -> Any:
        """The weights; read-only if they are a NumPy array."""
        return self._constant.values

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        """The largest absolute value of a weight: exact."""
        return float(abs(to_numpy(self.weights)).max())

    def _apply(self, x: ArrayT) -> ArrayT:
        return self._constant.like(x) * x

    _adjoint = _apply


class ComplexDiagonal(Diagonal):
    """Multiplication of complex samples by one real weight each.

    Complex numbers are real arrays with a last axis of length 2, (real part, imaginary part): operators are real linear
    maps, and ⟨a, b⟩ of such arrays is the real part of the complex inner product.

    Parameters
    ----------
    weights : real array; domain and range are (*weights.shape, 2)

    Examples
    --------
    >>> from koct.operators.algebra import ComplexDiagonal
    >>> ComplexDiagonal(np.ones((4, 8)))
    ComplexDiagonal((4, 8, 2) -> (4, 8, 2))
    """

    def __init__(self, weights: Any) -> None:
        super().__init__(weights)
        self.domain = self.range = (*weights.shape, 2)

    def _apply(self, x: ArrayT) -> ArrayT:
        return self._constant.like(x)[..., None] * x

    _adjoint = _apply


class Identity(Operator):
    """x to a copy of x; `c * Identity(shape)` multiplies by c.

    Parameters
    ----------
    shape : domain and range

    Examples
    --------
    >>> from koct.operators.algebra import Identity
    >>> 0.5 * Identity((2, 3))
    0.5 * Identity((2, 3) -> (2, 3))
    """

    def __init__(self, shape: Iterable[int]) -> None:
        shape = tuple(shape)
        super().__init__(shape, shape)

    def norm(self, tol: float = 1e-10, max_iterations: int = 10_000) -> float:
        return 1.0

    def _apply(self, x: ArrayT) -> ArrayT:
        return copy(x)

    _adjoint = _apply


class Compiled(Operator):
    """An operator with code of its own for NumPy batches, and for CUDA batches; torch can differentiate through it.

    Subclasses define `_cpu` and `_cuda` on batches, (batch, *domain) or for the adjoint (batch, *range).
    """

    _cpu: Callable[[np.ndarray, bool], np.ndarray]
    _cuda: Callable[[torch.Tensor, bool], torch.Tensor]

    def _run(self, x: Any, adjoint: bool) -> Any:
        if is_torch(x):
            from koct.operators import autograd

            return autograd.apply(x, self, adjoint)
        return self._cpu(x, adjoint)

    def _apply(self, x: ArrayT) -> ArrayT:
        return self._run(x, adjoint=False)

    def _adjoint(self, y: ArrayT) -> ArrayT:
        return self._run(y, adjoint=True)


class Matrix(Compiled):
    """An operator given by its matrix.

    Parameters
    ----------
    values : (rows, columns), a NumPy array, a SciPy sparse matrix, or a dense torch tensor; others must not change
    domain : shape of an input, with as many entries as the matrix has columns; (columns,) by default
    range : shape of an output, with as many entries as the matrix has rows; (rows,) by default

    Examples
    --------
    >>> from koct.operators.algebra import Matrix
    >>> Matrix([[1, 2, 3, 4]], domain=(2, 2))(np.ones((2, 2)))
    array([10.])
    """

    SMALL = 2**21  # entries, 16 MiB: up to here a dense product takes less time than importing SciPy

    def __init__(
        self, values: Any, domain: tuple[int, ...] | None = None, range: tuple[int, ...] | None = None
    ) -> None:
        if not hasattr(values, "shape"):
            values = np.asarray(values)
        super().__init__(values.shape[1:] if domain is None else domain, values.shape[:1] if range is None else range)
        if tuple(values.shape) != self.shape:
            raise ValueError(f"a matrix of shape {tuple(values.shape)} cannot map {self.domain} to {self.range}")
        sparse = hasattr(values, "tocsr")
        if sparse and values.dtype.kind not in "biuf":
            raise TypeError(f"{type(self).__name__} needs real values, got {values.dtype}")
        self._constant = None if sparse else Constant(values, self)
        self.values: Any = values if self._constant is None else self._constant.values
        self._converted: dict[object, Any] = {}  # of a sparse matrix

    @classmethod
    def from_entries(
        cls, rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, domain: Iterable[int], range: Iterable[int]
    ) -> Matrix:
        """Return the matrix with `weights[k]` in row `rows[k]` and column `columns[k]`; entries at the same place add.

        Rows and columns count the entries of arrays of shape `range` and `domain` in C order. A small matrix is stored
        dense, a large one in compressed rows.
        """
        domain, range = tuple(domain), tuple(range)
        shape = math.prod(range), math.prod(domain)
        if not rows.shape == columns.shape == weights.shape == (len(rows),):
            shapes = rows.shape, columns.shape, weights.shape
            raise ValueError(f"rows, columns and weights must be lists of one length, got the shapes {shapes}")
        for name, places, size in zip(("rows", "columns"), (rows, columns), shape, strict=True):
            if len(places) and not 0 <= places.min() <= places.max() < size:
                wrong = places.min() if places.min() < 0 else places.max()
                raise ValueError(f"{name} has {wrong}, and there are {size}, counted from 0")
        if math.prod(shape) <= cls.SMALL:
            flat = np.bincount(rows * shape[1] + columns, weights, math.prod(shape))
            return cls(flat.reshape(shape), domain, range)
        from scipy.sparse import csr_array

        return cls(csr_array((weights, (rows, columns)), shape), domain, range)

    @property
    def dense(self) -> bool:
        return self._constant is not None

    def _run(self, x: Any, adjoint: bool) -> Any:
        return super()._run(x, adjoint) if self._constant is None else self._product(self._constant.like(x), x, adjoint)

    def _product(self, values: Any, x: Any, adjoint: bool) -> Any:
        values, shape = (values.T, self.domain) if adjoint else (values, self.range)
        return (values @ x.reshape(len(x), values.shape[1]).T).T.reshape(-1, *shape)

    def _cpu(self, x: np.ndarray, adjoint: bool) -> np.ndarray:  # type: ignore[override]
        """The product with the sparse matrix, by SciPy."""
        if x.dtype not in self._converted:
            self._converted[x.dtype] = self.values.astype(x.dtype, copy=False)
        return self._product(self._converted[x.dtype], x, adjoint)

    def _cuda(self, x: torch.Tensor, adjoint: bool) -> torch.Tensor:  # type: ignore[override]
        """The product with the sparse matrix, by cuSPARSE."""
        from koct.operators.autograd import compressed_rows

        shape = self.domain if adjoint else self.range
        if not len(x):
            return x.new_zeros(0, *shape)
        key = x.dtype, x.device, adjoint
        if key not in self._converted:
            self._converted[key] = compressed_rows(self.values.T if adjoint else self.values, x.dtype, x.device)
        return (self._converted[key] @ x.reshape(len(x), -1).T).T.reshape(-1, *shape)


# The chain of known layers: the weights of the measurements in front, and everything behind them


def split(operators: Sequence[Operator]) -> tuple[Diagonal | None, Operator]:
    """Return (weights, R): the first operator if it is diagonal and others follow, and the product of the others."""
    weights, *others = operators
    if isinstance(weights, Diagonal) and others:
        return weights, product(others)
    return None, product(operators)


def product(operators: Sequence[Operator]) -> Operator:
    """Return the operators one after the other, the first one first."""
    return reduce(lambda inner, outer: outer @ inner, operators)


def normal_matrix(R: Operator, block: int = 64) -> Any:
    """Return RᵀR, dense, (columns, columns), from basis vectors a block at a time."""
    size = R.shape[1]
    normal = np.empty((size, size))
    for first in range(0, size, block):
        basis = np.eye(min(block, size - first), size, first)
        normal[first : first + block] = R.T.flat(R.flat(basis))
    return normal

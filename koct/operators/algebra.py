"""Linear operators as objects: apply to a batch, exact adjoint, composition, norm."""

import math
from functools import cached_property

import numpy as np


class Operator:
    """A real linear map from arrays of shape `domain` to arrays of shape `range`.

    Leading axes are a batch: `A(x)` maps (..., *domain) to (..., *range). `A.T` is the exact adjoint.
    Subclasses give `_apply` and `_adjoint` on (batch, *domain) and (batch, *range).
    """

    def __init__(self, domain, range):
        self.domain = tuple(domain)
        self.range = tuple(range)

    @property
    def shape(self):
        """(rows, columns) of the matrix of this operator."""
        return math.prod(self.range), math.prod(self.domain)

    def __call__(self, x):
        split = x.ndim - len(self.domain)
        if split < 0 or tuple(x.shape[split:]) != self.domain:
            raise ValueError(f"{type(self).__name__} takes arrays of shape (..., {self.domain}), got {tuple(x.shape)}")
        out = self._apply(x.reshape(-1, *self.domain))
        return out.reshape(*x.shape[:split], *self.range)

    @property
    def T(self):
        return Adjoint(self)

    def __matmul__(self, other):
        return Composition(self, other)

    def matrix(self):
        """The dense matrix, column by column from basis vectors."""
        basis = np.eye(self.shape[1]).reshape(-1, *self.domain)
        return self(basis).reshape(self.shape[1], self.shape[0]).T

    def norm(self, tol=1e-10, max_iterations=10_000):
        """Largest singular value by power iteration on AᵀA.

        Stops when the estimate grows by less than `tol` (relative); the estimate never exceeds the norm.
        """
        return self._power_iteration(np.random.default_rng(0).standard_normal(self.domain), tol, max_iterations)

    def _power_iteration(self, v, tol, max_iterations):
        v = v / np.linalg.norm(v)
        estimate = 0.0
        for _ in range(max_iterations):
            u = self(v)
            previous, estimate = estimate, float(np.linalg.norm(u))
            if estimate == 0.0:
                return 0.0
            if estimate - previous <= tol * estimate:
                return estimate
            v = self.T(u)
            v /= np.linalg.norm(v)
        raise ArithmeticError(f"the norm did not settle to {tol:g} in {max_iterations} power iterations")

    def _apply(self, x):
        raise NotImplementedError

    def _adjoint(self, y):
        raise NotImplementedError


class Adjoint(Operator):
    """The adjoint of another operator."""

    def __init__(self, of):
        super().__init__(of.range, of.domain)
        self.of = of

    @property
    def T(self):
        return self.of

    def _apply(self, x):
        return self.of._adjoint(x)

    def _adjoint(self, y):
        return self.of._apply(y)


class Composition(Operator):
    """`outer @ inner`."""

    def __init__(self, outer, inner):
        if outer.domain != inner.range:
            raise ValueError(f"cannot compose: outer takes {outer.domain}, inner gives {inner.range}")
        super().__init__(inner.domain, outer.range)
        self.outer, self.inner = outer, inner

    def _apply(self, x):
        return self.outer._apply(self.inner._apply(x))

    def _adjoint(self, y):
        return self.inner._adjoint(self.outer._adjoint(y))


class Diagonal(Operator):
    """Entrywise multiplication by `weights`."""

    def __init__(self, weights):
        super().__init__(weights.shape, weights.shape)
        self.weights = weights

    def _apply(self, x):
        return self.weights * x

    def _adjoint(self, y):
        return self.weights * y


class Matrix(Operator):
    """An operator stored as a matrix, dense or SciPy sparse."""

    def __init__(self, values, domain=None, range=None):
        super().__init__(domain or values.shape[1:], range or values.shape[:1])
        if values.shape != self.shape:
            raise ValueError(f"a matrix of shape {values.shape} cannot map {self.domain} to {self.range}")
        self.values = values

    def _apply(self, x):
        return (self.values @ x.reshape(len(x), -1).T).T.reshape(-1, *self.range)

    def _adjoint(self, y):
        return (self.values.T @ y.reshape(len(y), -1).T).T.reshape(-1, *self.domain)


class Sparse(Operator):
    """An operator given by the entries of its matrix; entries with the same place add up."""

    SMALL = 2**21  # as dense as this (16 MiB) a product is done before SciPy is imported

    def __init__(self, rows, columns, weights, domain, range):
        super().__init__(domain, range)
        self.rows, self.columns, self.weights = rows, columns, weights

    @cached_property
    def stored(self):
        """The matrix that does the work: dense if small, else compressed rows."""
        return self.dense() if math.prod(self.shape) <= self.SMALL else self.compressed()

    def dense(self):
        flat = np.bincount(self.rows * self.shape[1] + self.columns, self.weights, math.prod(self.shape))
        return Matrix(flat.reshape(self.shape), self.domain, self.range)

    def compressed(self):
        from scipy.sparse import csr_array

        return Matrix(csr_array((self.weights, (self.rows, self.columns)), self.shape), self.domain, self.range)

    def _apply(self, x):
        return self.stored._apply(x)

    def _adjoint(self, y):
        return self.stored._adjoint(y)

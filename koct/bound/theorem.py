"""The deep risk estimator (Theorem 1) for a network of known and learned layers."""

import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from koct.base import strict_yaml
from koct.base.messages import meant
from koct.errors import KoctError

if TYPE_CHECKING:
    import torch

Constants: TypeAlias = float | Mapping[str, float] | None
RATES = {"log N / N": lambda N: math.log(N) / N, "1 / N": lambda N: 1 / N}


@dataclass(frozen=True)
class BoundLayer:
    """A layer u_l of the true map: its Lipschitz constant and, if it is learned, the constants of its risk.

    The risk of a learned layer is C²/n + kappa p log N / N (Assumption 2); that of a known layer is zero, whatever its
    constants. The theorem is about y = u_L(… u_1(x)), exactly: what of y no such layers give is a `residual`, for which
    it has no term (`BoundNetwork.sharp_bound`).

    No network tells its C, n and kappa; they are assumptions about the map that it has to learn. With the defaults
    the bound compares networks that share them, and its value means nothing; `koct bound` says so. Errors are sums over
    the entries of an output, ‖·‖², not means over pixels.

    Parameters
    ----------
    name : a name that is unique in the network
    lipschitz : the Lipschitz constant of the true layer; for a linear one, its operator norm
    known : True for a known operator, False for a learned layer
    C : Barron constant of the map to be learned, in the unit of the layer's output: how far it varies at all
        frequencies together (the first moment of its Fourier transform); 0 if the layer can represent the map exactly
    n : approximation width, usually the number of hidden units or channels
    p : number of trainable parameters
    kappa : squared error per parameter and sample, in the squared unit of the layer's output: for linear regression
        about the variance of the noise; `BoundNetwork.with_pilot` takes it from a pilot
    stands_in : whether the Lipschitz constant was measured on a learned layer, which stands in for the true one
    """

    name: str
    lipschitz: float
    known: bool
    C: float = 0.0
    n: float = 1.0
    p: float = 1
    kappa: float = 1.0
    stands_in: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise KoctError(f"layer {self.name!r}: name = {self.name!r} must be a non-empty string; put it in quotes")
        if not isinstance(self.known, bool):
            raise KoctError(
                f"layer {self.name!r}: known = {self.known!r} must be true or false; "
                f"set it to true for a known operator, to false for a learned layer"
            )
        for key, minimum, fix in (
            ("lipschitz", 0, "give the layer's Lipschitz constant (for a linear layer, its operator norm)"),
            ("C", 0, "give the layer's complexity constant, or 0 if it has no approximation error"),
            ("n", 1, "give the layer's approximation width"),
            ("p", 1, "give the number of trainable parameters"),
            ("kappa", 0, "give the constant of the estimation term"),
        ):
            _check(f"layer {self.name!r}: {key}", getattr(self, key), minimum, fix, strict=key == "kappa")


class Term(NamedTuple):
    """What one layer contributes to the bound; both parts are zero for a known layer."""

    layer: BoundLayer
    A_l: float  # its amplification
    approximation: float  # A_l C²/n
    estimation: float  # A_l kappa p log N / N

    @property
    def total(self) -> float:
        return self.approximation + self.estimation


@dataclass(frozen=True)
class BoundNetwork:
    """A composition of layers.

    Parameters
    ----------
    layers : the layers u_1 … u_L; the first one is applied first
    trivial : the mean-square error of a prediction that needs no samples, if you know it: E‖y‖², a sum over the entries
        of y, of always predicting zero, or the variance of y of always predicting its mean

    Examples
    --------
    >>> from koct.bound import BoundLayer, BoundNetwork
    >>> W = BoundLayer("W", lipschitz=1.0, known=False, C=0.1, n=64, p=80)
    >>> K = BoundLayer("K", lipschitz=0.5, known=True)
    >>> network = BoundNetwork([W, K])
    >>> round(network.bound(N=1000), 4), network.with_known("W").bound(N=1000)
    (0.2764, 0.0)
    """

    layers: Sequence[BoundLayer]
    trivial: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if self.trivial is not None:
            _check("trivial", self.trivial, 0, "give the mean-square error of predicting zero, E‖y‖²", strict=True)
        if not self.layers:
            raise KoctError("layers is empty; give at least one layer")
        names = [layer.name for layer in self.layers]
        for name in names:
            if names.count(name) > 1:
                raise KoctError(f"layer {name!r}: name = {name!r} is used twice; give each layer a unique name")

    @classmethod
    def from_torch(
        cls,
        module: "torch.nn.Module",
        input_shape: Iterable[int],
        *,
        C: Constants = None,
        n: Constants = None,
        kappa: Constants = None,
        lipschitz: Mapping[str, float] | None = None,
        known: Collection[str] = (),
        trivial: float | None = None,
    ) -> "BoundNetwork":
        """Return a torch module as a network of layers; `koct.bound.from_torch` says which can be read, and how.

        Lipschitz constants are those of the module's own weights, which stand in for those of the true layers
        (`BoundLayer.stands_in`): training changes them, and with them the bound.

        Parameters
        ----------
        module : takes one tensor and returns one
        input_shape : shape of its input without the axis of the batch
        C, n, kappa : as of `BoundLayer`, but required: a number for all learned layers, or a mapping from their names
        lipschitz : the constants of modules that koct does not know, by name
        known : names of the layers that are operators of the true map; all others with parameters are learned, and p
            counts those that require a gradient
        trivial : as of `BoundNetwork`

        Returns
        -------
        network : with the layers of the module
        """
        from koct.bound.from_torch import layers

        return cls(layers(module, input_shape, {"C": C, "n": n, "kappa": kappa}, lipschitz or {}, known), trivial)

    def amplifications(self) -> list[float]:
        """Return A_l of every layer (Eq. Al): how much of a squared error made at layer l can reach the output."""
        backwards = []
        A_l = 2.0
        for layer in reversed(self.layers):
            backwards.append(_finite(A_l, f"layer {layer.name!r}: A_l"))
            A_l *= 2 * float(layer.lipschitz) * float(layer.lipschitz)
        backwards[-1] /= 2  # the input carries no error, so the first layer needs no factor 2 for a sum of two errors
        return backwards[::-1]

    def lipschitz(self) -> float:
        """Return an upper bound on the Lipschitz constant of the composition: the product over the layers (Lemma 1)."""
        return _finite(math.prod(float(layer.lipschitz) for layer in self.layers), "the network's Lipschitz constant")

    def bound_from_errors(self, errors: Mapping[str, float] | Collection[float]) -> float:
        """Return the bound of Theorem 1 from measured layer errors: the sum of A_l · mean ‖e_l‖² over learned layers.

        `errors` holds mean-square errors, either keyed by layer name or in the order of the layers. As in the proof,
        e_l is measured on the inputs that layer l receives inside the network. Known layers contribute zero.
        """
        by_name = self._by_name(errors)
        amplified = zip(self.layers, self.amplifications(), strict=True)
        return _finite(sum(A_l * by_name[layer.name] for layer, A_l in amplified), "the bound")

    def sharp_bound(
        self,
        errors: Mapping[str, float] | Collection[float],
        residual: float = 0.0,
        mismatch: Mapping[str, float] | None = None,
        input_rms: float = 0.0,
    ) -> float:
        """Return the smallest bound that measured layer errors give: (√residual + Σ_l ∏_{j>l} ℓ_j √(mean ‖e_l‖²))².

        Root mean squares add (Minkowski), where Theorem 1 squares a sum of two at every layer: it is this by the
        Cauchy–Schwarz inequality with weights 1/2, 1/4, …, and never smaller, without a residual or a mismatch, for
        which it has no terms. Layer errors and residual are measured on pairs that no layer was fitted to.

        Parameters
        ----------
        errors : as of `bound_from_errors`
        residual : the mean ‖y − f(x)‖² of the true layers f themselves
        mismatch : for known layers that are not the true ones, by name, the Lipschitz constant of the difference; for
            matrices its operator norm. It adds what it makes of the layer's inputs.
        input_rms : the root mean square of the inputs of the first layer; layers, true and known, map zero to zero
            (docs/theory.md)

        Returns
        -------
        bound : on the mean ‖y − f̂(x)‖² of the network f̂
        """
        _check("residual", residual, 0, "give the mean-square error of the true layers")
        _check("input_rms", input_rms, 0, "give the root of the mean ‖x‖²")
        by_name, deltas = self._by_name(errors), dict(mismatch or {})
        for name, delta in deltas.items():
            _check(f"mismatch of layer {name!r}", delta, 0, "give the norm of the difference")
            if not self.layers[self._place(name)].known:
                raise KoctError(f"mismatch of layer {name!r}: it is learned; give its error")
        error, size = 0.0, float(input_rms)
        for layer in self.layers:
            delta, own = float(deltas.get(layer.name, 0.0)), math.sqrt(by_name[layer.name])
            error = (float(layer.lipschitz) + delta) * error + delta * size + own
            size *= float(layer.lipschitz)
        return _finite((math.sqrt(residual) + error) ** 2, "the bound")

    def terms(self, N: float, rate: Literal["log N / N", "1 / N"] = "log N / N") -> list[Term]:
        """Return the terms of the bound for N training samples, one per layer (Theorem 1, Barron form).

        The rate 1 / N is that of regression that is linear in p parameters, where log N / N is loose.
        """
        _check("N", N, 2, "give the number of training samples")
        if rate not in RATES:
            raise KoctError(f"rate = {rate!r} must be one of {', '.join(map(repr, RATES))}")
        factor = RATES[rate](N)
        terms = []
        for layer, A_l in zip(self.layers, self.amplifications(), strict=True):
            where = f"layer {layer.name!r}: its term"
            approximation = 0.0 if layer.known else A_l * (float(layer.C) * float(layer.C)) / float(layer.n)
            estimation = 0.0 if layer.known else A_l * float(layer.kappa) * float(layer.p) * factor
            terms.append(Term(layer, A_l, _finite(approximation, where), _finite(estimation, where)))
        return terms

    def bound(self, N: float, rate: Literal["log N / N", "1 / N"] = "log N / N") -> float:
        """Return the bound on the expected squared error after training on N samples (Theorem 1, Barron form)."""
        return _finite(sum(term.total for term in self.terms(N, rate)), "the bound")

    def is_vacuous(self, N: float) -> bool | None:
        """Return whether the bound is no better than the `trivial` error, and so tells nothing.

        None if nobody can tell: without that error, or where a bound below it rests on constants of learned layers.
        """
        if self.trivial is None:
            return None
        vacuous = self.bound(N) >= self.trivial
        return None if not vacuous and any(layer.stands_in for layer in self.layers) else vacuous

    def with_pilot(self, name: str, sigma: float, size: int = 1) -> "BoundNetwork":
        """Return the same network with the kappa of a layer from the sigma of a pilot (`calibrate`): sigma / (A_l p).

        `size` is the number of pixels that the errors of the pilot are means over: bound and `trivial` are sums.
        """
        place = self._place(name)
        return self._replaced(name, kappa=sigma * size / (self.amplifications()[place] * self.layers[place].p))

    def with_known(self, name: str) -> "BoundNetwork":
        """Return the same network with that layer known, which removes exactly its term (Corollary 1)."""
        return self._replaced(name, known=True)

    def _replaced(self, name: str, **changes: Any) -> "BoundNetwork":
        layers = list(self.layers)
        layers[self._place(name)] = replace(layers[self._place(name)], **changes)
        return BoundNetwork(layers, self.trivial)

    def _by_name(self, errors: Mapping[str, float] | Collection[float]) -> dict[str, float]:
        """The error of every layer, checked; zero for known ones."""
        if not isinstance(errors, Mapping):
            if len(errors) != len(self.layers):
                raise KoctError(
                    f"errors has length {len(errors)} but the network has {len(self.layers)} layers; "
                    f"give one error per layer, or a dict keyed by layer name"
                )
            errors = {layer.name: error for layer, error in zip(self.layers, errors, strict=True)}
        for name in errors:
            self._place(name)
        found = {layer.name: 0.0 for layer in self.layers}
        for name in (layer.name for layer in self.layers if not layer.known):
            if name not in errors:
                raise KoctError(f"layer {name!r}: error is missing; measure it, or make the layer known")
            _check(f"layer {name!r}: error", errors[name], 0, "give a mean-square error")
            found[name] = float(errors[name])
        return found

    def _place(self, name: str) -> int:
        """Where a layer is in the network."""
        names = [layer.name for layer in self.layers]
        if name not in names:
            raise KoctError(f"the network has no layer {name!r}; {meant(name, names, 'its layers are')}")
        return names.index(name)


def operator_aware(
    filter_norm: float, backprojection_norm: float, p: float, lipschitz: float = 1.0, **constants: Any
) -> BoundNetwork:
    """Return the network ReLU(Aᵀ K W x) with only W learned (Eq. fbp), from the norms of K and Aᵀ.

    `p` is the number of parameters of W, `lipschitz` its Lipschitz constant (no A_l depends on it), and `constants`
    are its C, n and kappa.
    """
    norms = {"K": filter_norm, "At": backprojection_norm, "ReLU": 1.0}
    known = [BoundLayer(name, norm, known=True) for name, norm in norms.items()]
    return BoundNetwork([BoundLayer("W", lipschitz, known=False, p=p, **constants), *known])


def fully_connected(p: float, lipschitz: float = 1.0, **constants: Any) -> BoundNetwork:
    """Return ReLU(M x) with one dense learned matrix M of `p` parameters; `constants` are its C, n and kappa."""
    layers = [BoundLayer("M", lipschitz, known=False, p=p, **constants), BoundLayer("ReLU", 1.0, known=True)]
    return BoundNetwork(layers)


def structural_reference(H: float, filter_norm: float, backprojection_norm: float) -> float:
    """Return H² / (4 ‖K‖² ‖Aᵀ‖²): the structural factor sigma_FC / sigma_KO at equal kappa (Eq. ct-structural)."""
    return float(H / (2 * filter_norm * backprojection_norm)) ** 2


def read_network(path: str | PathLike[str]) -> BoundNetwork:
    """Return the network in a YAML file with the key `layers`, a list of mappings with the fields of `BoundLayer`.

    `known` defaults to false, and `p` is required for a learned layer. The key `trivial` is optional.
    """
    content = strict_yaml.load(path)
    if "layers" not in content:
        raise KoctError(f"{path}: the key 'layers' is missing; add `layers:` followed by a list of layers")
    for key in content:
        if key not in ("layers", "trivial"):
            raise KoctError(f"{path}: unknown key {key!r}; {meant(key, ['layers', 'trivial'], 'the keys are')}")
    entries = content["layers"]
    if not isinstance(entries, list) or not entries:
        raise KoctError(f"{path}: layers = {entries!r} must be a list of at least one layer; write one layer per line")
    try:
        return BoundNetwork([_layer(number, entry) for number, entry in enumerate(entries, 1)], content.get("trivial"))
    except KoctError as error:
        raise KoctError(f"{path}: {error}") from None


def _layer(number: int, entry: object) -> BoundLayer:
    """One entry of `layers` with its keys checked; `BoundLayer` checks the values."""
    if not isinstance(entry, dict):
        raise KoctError(f"layer {number} = {entry!r} must be a mapping, such as {{name: W, lipschitz: 1.0, p: 80}}")
    label = f"layer {entry.get('name', number)!r}"
    keys = [field.name for field in fields(BoundLayer) if field.name != "stands_in"]
    for key in entry:
        if key not in keys:
            raise KoctError(f"{label}: unknown key {key!r}; {meant(key, keys, 'valid keys are')}")
    for key in ("name", "lipschitz"):
        if key not in entry:
            raise KoctError(f"{label}: {key} is missing; add it, every layer needs one")
    entry = {"known": False, **entry}
    if entry["known"] is False and "p" not in entry:
        raise KoctError(f"{label}: p is missing; add the number of trainable parameters, or `known: true`")
    return BoundLayer(**entry)


def _check(what: str, value: object, minimum: float, fix: str, strict: bool = False) -> None:
    """Require a finite number that is at least `minimum`, or above it if `strict`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        if isinstance(value, str):
            fix = "write it without quotes, and 1e-6 as 1.0e-6, as YAML wants it"
        raise KoctError(f"{what} = {value!r} must be a number; {fix}")
    number = cast("float", value)
    if not abs(number) <= sys.float_info.max:
        raise KoctError(f"{what} = {value!r} must be finite; {fix}")
    if number < minimum or (strict and number == minimum):
        raise KoctError(f"{what} = {value!r} must be {'above' if strict else 'at least'} {minimum}; {fix}")


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise KoctError(f"{what} is too large for a float, so the bound is vacuous; rescale the layers toward 1")
    return value

"""The deep risk estimator (Theorem 1) of a layered network of known and learned layers.

from koct.risk.bound import Layer, Network
network = Network([Layer("W", lipschitz=1.0, known=False, C=0.1, n=64, p=80), Layer("K", lipschitz=0.5, known=True)])
network.bound(N=1000), network.with_known("W").bound(N=1000)
"""

import difflib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import NamedTuple

from koct.errors import KoctError


@dataclass(frozen=True)
class Layer:
    """A layer u_l: its Lipschitz constant and, if it is learned, the constants of its risk (Assumption 2).

    The risk of a learned layer is C²/n + kappa p log N / N; that of a known one is zero whatever its constants.
    """

    name: str
    lipschitz: float
    known: bool
    C: float = 0.0
    n: float = 1.0
    p: float = 1
    kappa: float = 1.0

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.strip():
            raise KoctError(f"layer {self.name!r}: name = {self.name!r} must be text; put quotes around it")
        if not isinstance(self.known, bool):
            raise KoctError(f"layer {self.name!r}: known = {self.known!r} must be true or false; write one of them")
        for key, least, mend in (
            ("lipschitz", 0, "give the layer's Lipschitz constant, for a linear layer its norm"),
            ("C", 0, "give the layer's complexity, 0 if it can be learned without a rest"),
            ("n", 1, "give the layer's approximation width"),
            ("p", 1, "give the number of its trainable parameters"),
        ):
            _check(f"layer {self.name!r}: {key}", getattr(self, key), least, mend)
        _check(f"layer {self.name!r}: kappa", self.kappa, 0, "give the constant of its estimation term", strict=True)


class Term(NamedTuple):
    """What one layer adds to the bound: A_l C²/n and A_l kappa p log N / N, both zero if it is known."""

    layer: Layer
    A_l: float
    approximation: float
    estimation: float

    @property
    def total(self):
        return self.approximation + self.estimation


@dataclass(frozen=True)
class Network:
    """The layers u_1 … u_L, the first one applied first."""

    layers: tuple

    def __post_init__(self):
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers:
            raise KoctError("layers is empty; a network needs at least one layer")
        names = [layer.name for layer in self.layers]
        for name in names:
            if names.count(name) > 1:
                raise KoctError(f"layer {name!r}: name = {name!r} is used twice; give every layer its own name")

    def amplifications(self):
        """A_l of every layer (Eq. Al): how much of a squared error made at layer l can reach the output."""
        found = []
        A_l = 2.0
        for layer in reversed(self.layers):
            found.append(_finite(A_l, f"layer {layer.name!r}: A_l"))
            A_l *= 2 * float(layer.lipschitz) * float(layer.lipschitz)
        found[-1] /= 2  # no error comes in with the input, so nothing is added, or doubled, at the first layer
        return found[::-1]

    def lipschitz(self):
        """The Lipschitz constant of the composition is at most this product (Lemma 1)."""
        return _finite(math.prod(float(layer.lipschitz) for layer in self.layers), "the network's Lipschitz constant")

    def bound_from_errors(self, errors):
        """Theorem 1 from measured layer errors: the sum of A_l · mean ‖e_l‖² over the learned layers.

        `errors` holds mean-square errors, by layer name or in the order of the layers; e_l is measured on the
        inputs that layer l gets inside the network, as in the proof. A known layer contributes zero.
        """
        errors = self._by_name(errors)
        total = 0.0
        for layer, A_l in zip(self.layers, self.amplifications(), strict=True):
            if layer.known:
                continue
            if layer.name not in errors:
                raise KoctError(f"layer {layer.name!r}: its error is missing; measure it, or call the layer known")
            _check(f"layer {layer.name!r}: error", errors[layer.name], 0, "give a mean-square error")
            total += A_l * float(errors[layer.name])
        return _finite(total, "the bound")

    def terms(self, N):
        """The terms of the bound for N training samples, one per layer (Theorem 1, Barron form)."""
        _check("N", N, 2, "give the number of training samples")
        rate = math.log(N) / N
        terms = []
        for layer, A_l in zip(self.layers, self.amplifications(), strict=True):
            where = f"layer {layer.name!r}: its term"
            approximation = 0.0 if layer.known else A_l * (float(layer.C) * float(layer.C)) / float(layer.n)
            estimation = 0.0 if layer.known else A_l * float(layer.kappa) * float(layer.p) * rate
            terms.append(Term(layer, A_l, _finite(approximation, where), _finite(estimation, where)))
        return terms

    def bound(self, N):
        """The bound on the expected squared error after N training samples (Theorem 1, Barron form)."""
        return _finite(sum(term.total for term in self.terms(N)), "the bound")

    def with_known(self, name):
        """The network with that layer known: exactly its term leaves the bound (Corollary 1)."""
        if name not in [layer.name for layer in self.layers]:
            raise KoctError(f"the network has no layer {name!r}; {self._mend(name)}")
        return Network(replace(layer, known=True) if layer.name == name else layer for layer in self.layers)

    def _by_name(self, errors):
        names = [layer.name for layer in self.layers]
        if isinstance(errors, Mapping):
            for name in errors:
                if name not in names:
                    raise KoctError(f"errors has {name!r}, which is no layer of the network; {self._mend(name)}")
            return errors
        if len(errors) != len(names):
            raise KoctError(f"errors has {len(errors)} values for {len(names)} layers; give one per layer, or a dict")
        return dict(zip(names, errors, strict=True))

    def _mend(self, name):
        return _suggest(name, [layer.name for layer in self.layers], "its layers are")


def operator_aware(filter, backprojection, p, lipschitz=1.0, **constants):
    """The network ReLU(Aᵀ K W x) with only W learned (Eq. fbp); C, n and kappa of W may follow.

    The known K and Aᵀ are anything with a `norm()`, or their norms; `lipschitz` is that of W, which no A_l needs.
    """
    return Network(
        [
            Layer("W", _norm(lipschitz), known=False, p=p, **constants),
            Layer("K", _norm(filter), known=True),
            Layer("At", _norm(backprojection), known=True),
            Layer("ReLU", 1.0, known=True),
        ]
    )


def fully_connected(p, lipschitz=1.0, **constants):
    """The network ReLU(M x) with M one dense learned matrix; C, n and kappa of M may follow."""
    return Network([Layer("M", _norm(lipschitz), known=False, p=p, **constants), Layer("ReLU", 1.0, known=True)])


def structural_reference(H, filter_norm, backprojection_norm):
    """H² / (4 ‖K‖² ‖Aᵀ‖²): the structural-sparsity factor sigma_FC / sigma_KO at equal kappa (Eq. ct-structural)."""
    for key, value in (("H", H), ("filter_norm", filter_norm), ("backprojection_norm", backprojection_norm)):
        _check(key, value, 0, "give a size or a norm above zero", strict=True)
    return float(H / (2 * filter_norm * backprojection_norm)) ** 2


def read_network(path):
    """A network from a YAML file with one key `layers`: a list of mappings, their keys those of `Layer`.

    `known` is false where it is left out, and a learned layer must say its p.
    """
    content = _read_yaml(path)
    if not isinstance(content, dict) or "layers" not in content:
        raise KoctError(f"{path}: the key layers is missing; write `layers:` and a list of layers below it")
    for key in content:
        if key != "layers":
            raise KoctError(f"{path}: {key!r} is not a key of a network; {_suggest(key, ['layers'], 'its key is')}")
    entries = content["layers"]
    if not isinstance(entries, list) or not entries:
        raise KoctError(f"{path}: layers = {entries!r} must be a list of at least one layer; write one per line")
    try:
        return Network(_layer(number, entry) for number, entry in enumerate(entries, 1))
    except KoctError as error:
        raise KoctError(f"{path}: {error}") from None


def format_table(network, N):
    """The bound layer by layer as plain text, and which layer to replace by a known operator first."""
    terms, total = network.terms(N), network.bound(N)
    rows = [["layer", "kind", "Lipschitz", "A_l", "approximation", "estimation", "term", "share", "bound if known"]]
    for layer, A_l, approximation, estimation in terms:
        constants = [layer.name, "known" if layer.known else "learned", f"{float(layer.lipschitz):.4g}", f"{A_l:.4g}"]
        if layer.known:
            rows.append([*constants, "0", "0", "0", "0 %", "-"])
            continue
        term = approximation + estimation
        share = f"{term / total * 100:.1f} %" if total else "-"
        numbers = (approximation, estimation, term, network.with_known(layer.name).bound(N))
        numbers = [f"{value:.4g}" for value in numbers]
        rows.append([*constants, *numbers[:3], share, numbers[3]])
    sums = (sum(term.approximation for term in terms), sum(term.estimation for term in terms), total)
    rows.append(["total", "", "", "", *(f"{value:.4g}" for value in sums), "100 %" if total else "-", ""])
    return _align(rows) + "\n\n" + _advice(network, N, terms, total) + "\n"


def _advice(network, N, terms, total):
    head = f"With N = {N:,} samples the expected squared error is at most {total:.4g}"
    if not total:
        return f"{head}: no layer is left whose replacement would help."
    best = max(terms, key=lambda term: term.total)
    left = network.with_known(best.layer.name).bound(N)
    return (
        f"{head}; replacing {best.layer.name} by a known operator helps most: "
        f"it takes away {best.total / total * 100:.1f} % and leaves {left:.4g}."
    )


def _align(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    rule = "-" * max(map(len, lines))
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _read_yaml(path):
    try:
        import yaml
    except ImportError:
        raise KoctError(f"{path}: reading it needs PyYAML; install it with `pip install pyyaml`") from None
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except UnicodeDecodeError:
        raise KoctError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise KoctError(f"{path} cannot be read: {error.strerror}; give the path of a network file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise KoctError(f"{path} is not YAML{where}: {what}; mend the text there") from None


def _layer(number, entry):
    """One entry of `layers`, checked for its keys; `Layer` checks the values."""
    if not isinstance(entry, dict):
        raise KoctError(f"layer {number} = {entry!r} must be keys and values, like {{name: W, lipschitz: 1.0, p: 80}}")
    called = f"layer {entry.get('name', number)!r}"
    keys = [field.name for field in fields(Layer)]
    for key in entry:
        if key not in keys:
            raise KoctError(f"{called}: {key!r} is not a key of a layer; {_suggest(key, keys, 'its keys are')}")
    for key in ("name", "lipschitz"):
        if key not in entry:
            raise KoctError(f"{called}: {key} is missing; every layer has one, add it")
    entry = {"known": False, **entry}
    if entry["known"] is False and "p" not in entry:
        raise KoctError(f"{called}: p is missing; add the number of trainable parameters, or `known: true`")
    return Layer(**entry)


def _check(what, value, least, mend, strict=False):
    """A finite number that is at least, or if strict above, `least`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        if _reads_as_number(value):
            mend = "YAML reads 1e-6 as text: write 1.0e-6, without quotes"
        raise KoctError(f"{what} = {value!r} must be a number; {mend}")
    if not abs(value) <= sys.float_info.max:
        raise KoctError(f"{what} = {value!r} must be finite; {mend}")
    if value < least or (strict and value == least):
        raise KoctError(f"{what} = {value!r} must be {'above' if strict else 'at least'} {least}; {mend}")


def _reads_as_number(value):
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


def _finite(value, what):
    if not math.isfinite(value):
        raise KoctError(f"{what} is too large for a float; scale the layers so that their constants are nearer to 1")
    return value


def _norm(operator):
    return operator.norm() if hasattr(operator, "norm") else operator


def _suggest(name, known, otherwise):
    near = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(known)}"

"""Theorem 1 for known layers that are not the true ones (docs/theory.md derives it).

    network = operator_aware(filter_norm=0.5, backprojection_norm=1.2, p=1280)
    steps = accumulated(network, {"K": 0.05}, input_rms=3.0, errors={"W": 0.01})
    steps[-1].error**2      # the bound on the mean-square error of the output

With u_l the true layers, û_l those of the network, and all norms root-mean-square over inputs, the error after layer l
is

    E_l ≤ (ℓ_l + δ_l) E_{l-1} + δ_l R_{l-1} + r_l,     E_0 = 0,     R_l = ℓ_l R_{l-1}

with ℓ_l the Lipschitz constant of u_l, δ_l that of û_l − u_l (for matrices the operator norm of the difference), R_l a
bound on the true output of layer l, and r_l the error of a learned layer. Layers map zero to zero. Without mismatch it
is never above Theorem 1: it adds errors, and not their squares with factors of two.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from koct.bound.theorem import BoundLayer, BoundNetwork
from koct.errors import KoctError


class Step(NamedTuple):
    """What is known behind a layer, as root-mean-square norms: of the error, and of the true output."""

    layer: BoundLayer
    error: float
    size: float


def accumulated(
    network: BoundNetwork, mismatch: Mapping[str, float], input_rms: float, errors: Mapping[str, float]
) -> list[Step]:
    """Return the steps of the recursion, layer by layer.

    `mismatch` has δ of every known layer that is not the true one, `input_rms` is the root of E‖x‖², and `errors` has
    the mean-square error of every learned layer, on the inputs that it gets in the network.
    """
    names = {layer.name: layer.known for layer in network.layers}
    for what, given, known in (("mismatch", mismatch, True), ("errors", errors, False)):
        for name, value in given.items():
            if name not in names:
                raise KoctError(f"{what}: the network has no layer {name!r}; its layers are {', '.join(names)}")
            if names[name] is not known:
                kind = "learned: give its error" if known else "known: give its mismatch"
                raise KoctError(f"{what}: layer {name!r} is {kind}")
            if not (value >= 0 and np.isfinite(value)):
                raise KoctError(f"{what}: {name} = {value!r} must be a finite number, 0 or above")
    missing = [name for name, known in names.items() if not known and name not in errors]
    if missing:
        raise KoctError(f"errors: layer {missing[0]!r} is learned, and its mean-square error is missing")
    if not (input_rms >= 0 and np.isfinite(input_rms)):
        raise KoctError(f"input_rms = {input_rms!r} must be a finite number, 0 or above: the root of E‖x‖²")
    error, size, steps = 0.0, float(input_rms), list[Step]()
    for layer in network.layers:
        delta, own = mismatch.get(layer.name, 0.0), errors.get(layer.name, 0.0) ** 0.5
        error = (layer.lipschitz + delta) * error + delta * size + own
        size *= layer.lipschitz
        steps.append(Step(layer, error, size))
    return steps

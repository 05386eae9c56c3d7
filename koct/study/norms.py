"""The operator norms that the bound of the CT networks needs, computed."""

from collections.abc import Iterable
from typing import Any

from koct.bound.theorem import BoundLayer, BoundNetwork, fully_connected, operator_aware
from koct.contracts import ChainLayer
from koct.operators.fanbeam import Backprojector, FanBeam
from koct.operators.filters import RampFilter
from koct.operators.parallel import projector


def operators(H, V, B, beam):
    """(K, Aᵀ) of a geometry; the ramp is |fftfreq(B)| in both."""
    back = projector(H, V).T if beam == "parallel" else Backprojector(FanBeam(H, V, B))
    return RampFilter(V, B), back


def norms(H, V, B, beam):
    """(‖K‖, ‖Aᵀ‖) of a geometry, by power iteration."""
    K, At = operators(H, V, B, beam)
    return K.norm(), At.norm(tol=1e-6)


def networks(H, V, B, beam, **constants):
    """The operator-aware and the fully connected network of a geometry, with computed norms."""
    K, At = operators(H, V, B, beam)
    return operator_aware(K.norm(), At.norm(), p=V * B, **constants), fully_connected(p=H * H * V * B, **constants)


def network(chain: Iterable[ChainLayer], **constants: Any) -> BoundNetwork:
    """The network of an architecture's `chain`, with the C, n and kappa of every learned layer in `constants`."""
    layers = []
    for layer in chain:
        assert layer.lipschitz is not None, layer.name
        learned = {"p": layer.p, **constants} if layer.p else {}
        layers.append(BoundLayer(layer.name, layer.lipschitz, known=not layer.p, **learned))
    return BoundNetwork(layers)

"""The chains of a sweep's networks on disk: which layers of each are known, and how many numbers the others learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koct.base.files import read_json, write_json
from koct.base.stamps import Stamp, again, made_from
from koct.contracts import Architecture, ChainLayer, Problem
from koct.contracts.blame import blamed
from koct.contracts.spec import decode_arch, decode_problem
from koct.errors import KoctError
from koct.networks.chain_layers import relu
from koct.study.cells import checked_layers, read_shared

if TYPE_CHECKING:
    from koct.bound.theorem import BoundNetwork


def write(spec: Mapping[str, Any], shared: str | None, path: str) -> None:
    """Write the chain of every architecture that `spec` has under `chained`, by name; empty where it tells none."""
    problem = decode_problem(spec["problem"])
    with blamed(problem.source, *spec["archs"]):
        archs = [decode_arch(arch) for arch in spec["chained"]]
        layers = checked_layers(problem, read_shared(shared, problem)) if problem.has_layers else ()
        chains = {arch.name: [layer._asdict() for layer in operators(arch, problem, layers)] for arch in archs}
    stamp = Stamp(dict(spec), made_from(*([shared] if shared else [])))
    write_json(path, {"sweep": spec["sweep"], "chains": chains}, stamp)


def operators(arch: Architecture, problem: Problem, layers: Sequence[Any]) -> list[ChainLayer]:
    """An architecture's chain without the ReLU at its end, which every network of the problem has."""
    chain, end = list(arch.chain(problem, layers)), relu(problem)
    return chain[: -len(end)] if end and chain[-len(end) :] == end else chain


def read(paths: Sequence[str]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """{sweep: {arch: layers}} of files that `write` made."""
    by_sweep = {}
    for path in paths:
        sweep, chains = _read(path)
        by_sweep[sweep] = {arch: [{"name": name, "p": p} for name, _, p in chain] for arch, chain in chains.items()}
    return by_sweep


def _read(path: str) -> tuple[str, dict[str, list[ChainLayer]]]:
    """(sweep, {arch: layers}) of one file."""
    content, _ = read_json(path)
    try:
        chains = {arch: [ChainLayer(**layer) for layer in chain] for arch, chain in content["chains"].items()}
        return content["sweep"], chains
    except (KeyError, TypeError, AttributeError):
        raise KoctError(f"{path} has no chains of networks, as results/chains/SWEEP.json has; {again(path)}") from None


def network(path: str, arch: str, constants: Mapping[str, float]) -> BoundNetwork:
    """One of the networks in a file that `write` made, with the same C, n and kappa for all of its learned layers."""
    from koct.study import norms

    if not str(path).endswith(".json"):
        raise KoctError(f"--arch {arch}: {path} is not a results/chains/SWEEP.json; give one, or omit --arch")
    _, chains = _read(path)
    if arch not in chains:
        raise KoctError(f"--arch {arch}: {path} has the networks {', '.join(chains)}; take one of them")
    if not chains[arch]:
        raise KoctError(f"--arch {arch}: the network does not say which of its layers are known; take another")
    unknown = [layer.name for layer in chains[arch] if layer.lipschitz is None]
    if unknown:
        raise KoctError(f"--arch {arch}: nobody knows the Lipschitz constant of {', '.join(unknown)}; take another")
    return norms.network(chains[arch], **constants)

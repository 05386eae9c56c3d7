"""`koct check`: a user's own problems and networks on a small pool, promise by promise of the contracts.

A promise is yielded before it is tried, and the first one that a file breaks ends its list.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from koct.base.device import failures_explained
from koct.config import study_file
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Network, Problem, registry
from koct.contracts.blame import blamed, line_of
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.networks.module import ModuleArchitecture
from koct.operators import algebra
from koct.problems import pools
from koct.study import cells, fitting

GRID: dict[str, Any] = {"N": [4, 8], "seeds": [1, 2], "lambdas": [0.01, 1.0], "metric": "mse", "theory": False}
GRID["pool"] = {"train": 8, "val": 4, "test": 4}
OTHER_PROBLEM = {"problem": "deblur", "H": 8, "blur": 0.5, "noise": 0.01}  # for networks that come alone
STEPS = 40  # of a training: enough to see what is broken
MOST_IN_MATRIX = 2**13  # measurements whose normal matrix is checked
ROUNDING = 1e-5  # relative difference of what is the same


def run(sources: Sequence[str], settings: Mapping[str, Any]) -> bool:
    """Print a line for every promise of these files and return whether all are kept; `settings` are keys of a sweep."""
    classes: list[type[Problem] | type[Architecture]] = []

    def load(source: str) -> Iterator[str]:
        yield "has one class, with all methods, and options with a type and a description"
        classes.append(registry.either(source))

    if not all([_kept([source], load(source)) for source in sources]):
        return False
    archs = [cls.source for cls in classes if issubclass(cls, Architecture)]
    problems: list[dict[str, Any]] = [{"problem": cls.source} for cls in classes if issubclass(cls, Problem)]
    problems = problems or ([{}] if "problem" in settings else [OTHER_PROBLEM])
    for cls in classes:
        if issubclass(cls, ModuleArchitecture) and isinstance(own := settings.get(study_file.section(cls), {}), dict):
            settings = {**settings, study_file.section(cls): {"steps": STEPS, **own}}
    scans = max((_more_scans(cls, settings) for cls in classes if issubclass(cls, Architecture)), default=0)
    if isinstance(own := settings.get("pool", {}), dict):
        settings = {**settings, "pool": {**GRID["pool"], "train": GRID["pool"]["train"] + scans, **own}}
    return all([_kept_together({**problem, "archs": archs, **settings}) for problem in problems])


def _more_scans(cls: type[Architecture], settings: Mapping[str, Any]) -> int:
    """Return how many scans a network reads beside its pairs."""
    own = settings.get(study_file.section(cls))
    count = own.get("more_scans", cls.more_scans) if isinstance(own, dict) else cls.more_scans
    return count if isinstance(count, int) else 0


def _kept(sources: list[str], promises: Iterator[str]) -> bool:
    """Print which promises of the first source are kept, and nothing of what trying them prints."""
    promise, fault, following = "", None, None
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()), blamed(*sources), failures_explained():
                following = next(promises, None)
        except KoctError as error:
            fault = error
        if promise:
            end = f": {fault}".replace("\n", "\n        ") if fault else ""
            print(f"{'FAILED' if fault else 'ok':7} {sources[0]} {promise}{end}", flush=True)
        if fault or following is None:
            return not fault
        promise = following


def _kept_together(entry: dict[str, Any]) -> bool:
    """Try a problem, and every network on it."""
    problem = registry.problem(entry["problem"])
    own_layers = registry.is_file(problem.source) and problem.layers is not Problem.layers
    entry["archs"] = entry["archs"] or (["fc", "ko"] if own_layers else ["fc"])
    sweeps: list[Sweep] = []

    def read() -> Iterator[str]:
        yield f"has options, shapes and files that fit, also for {', '.join(entry['archs'])}"
        config = {"study": "it", "studies": {"it": ["it"]}, "sweeps": {"it": {**GRID, **entry}}}
        try:
            sweeps.extend(study_file.read(config))
        except KoctError as error:
            raise KoctError(str(error).replace("config: sweeps.it.", "--set ")) from None

    with tempfile.TemporaryDirectory() as name:
        own, folder = [problem.source], Path(name)
        if not _kept(own, read()) or not _kept(own, _of_problem(sweeps[0], folder)):
            return False
        archs = [arch for arch in sweeps[0].archs if arch.launch == "process"]
        return all([_kept([arch.source, *own], _of_network(sweeps[0], arch, folder)) for arch in archs])


def _of_problem(sweep: Sweep, folder: Path) -> Iterator[str]:
    problem, sizes = sweep.problem, sweep.pool
    yield f"draws {sizes.total} pairs: finite, of the shapes that it says, and none in two parts"
    for name, seed in (("pool", 1), ("again", 1), ("other", 2)):
        pools.make(problem, seed, sizes, str(folder / f"{name}.npy"))
    yield "draws the same pairs for the same seed, and others for another"
    pool, again, other = (pools.Pool(str(folder / f"{name}.npy"), problem) for name in ("pool", "again", "other"))
    where = line_of(problem, "pairs")
    if pool.stamp.content != again.stamp.content:
        raise KoctError(f"{where}: seed 1 gave other pairs the second time; draw them from the seed")
    if np.array_equal(pool.x("train"), other.x("train")):
        raise KoctError(f"{where}: seeds 1 and 2 gave the same training pairs; use the seed")
    yield "has shared arrays that can be stored, or none"
    if problem.has_shared:
        cells.write_shared(problem, str(folder / "shared.npy"))
    data = _data(sweep, registry.architecture("untrained")(), folder)
    if problem.has_layers:
        yield "has layers that are linear, with exact adjoints, and lead from x to y"
        operators = [layer.operator for layer in data.layers]
        yield "has inverses from x to y, and a normal matrix that is RᵀR of the layers behind the weights"
        _ = data.inverses
        small = problem.x_size <= MOST_IN_MATRIX
        normal, (_, R) = problem.normal_matrix(data.shared) if small else None, algebra.split(operators)
        if normal is not None:
            v = np.random.default_rng(0).standard_normal(R.domain)
            _check_same(normal @ v.ravel(), R.T(R(v)).ravel(), f"{line_of(problem, 'normal_matrix')}: it is not RᵀR")
    if problem.has_forward:
        yield "has a forward operator that is linear, with an exact adjoint, from y to x"
        x, projected = pool.x("test", 1), data.forward.flat(pool.y("test", 1))
        residual = np.linalg.norm(projected - x) / (np.linalg.norm(x) or 1)
        yield f"explains its first test pair up to noise: |A y - x| / |x| = {residual:.3g}"
    if problem.has_noise_variance:
        yield "has a variance of noise that is a number, or one for every measurement, and not negative"
        x = pool.x("val")
        variance = np.asarray(problem.noise_variance(x), float)
        if variance.shape not in ((), x.shape) or not (np.isfinite(variance) & (variance >= 0)).all():
            where = line_of(problem, "noise_variance")
            raise KoctError(f"{where}: it gave {variance.shape}; give a number or an array {x.shape}, none below 0")


def _of_network(sweep: Sweep, arch: Architecture, folder: Path) -> Iterator[str]:
    where = line_of(arch, "fit")
    yield f"is fitted to samples of {sweep.problem.source} and predicts images"
    if arch.requires_cell:
        required = _data(sweep, sweep.arch(arch.requires_cell), folder)
        _store(required, *fitting.fit(required), folder / "required.npy")
    data = _data(sweep, arch, folder)
    about, network = fitting.fit(data)
    predicted = data.predict(network, "test")
    yield "predicts a sample by itself as among others"
    _check_same(data.predict(network, "test", 1), predicted[:1], f"{where}: predict mixes the samples of a batch")
    yield "is the same network when it is fitted again"
    fitted = fitting.fit(_data(sweep, arch, folder))[1]
    _check_same(data.predict(fitted, "test"), predicted, f"{where}: two fits of seed 1 differ; draw from data.seed")
    yield "is restored from what its state() stored"
    state = _store(data, about, network, folder / "fit.npy")
    restored = arch.restore(state, _data(sweep, arch, folder))
    _check_same(data.predict(restored, "test"), predicted, f"{line_of(arch, 'restore')}: it predicts something else")


def _data(sweep: Sweep, arch: Architecture, folder: Path) -> cells.Data:
    inputs = {path.stem: str(path) for path in folder.glob("*.npy") if path.stem in ("pool", "shared", "required")}
    N = sweep.sizes_of(arch)[0]
    return cells.Data(Cell(sweep.name, sweep.problem, arch, N, 1, sweep.lambdas, sweep.fit_keys), inputs)


def _store(data: cells.Data, about: Mapping[str, Any], network: Network, path: Path) -> Mapping[str, Any]:
    cells.write_fit(str(path), data.stamp(data.cell.encode(), about), network)
    return cells.read_fit(str(path))[1]


def _check_same(one: np.ndarray, other: np.ndarray, sentence: str) -> None:
    if not np.linalg.norm(one - other) <= ROUNDING * np.linalg.norm(other):
        raise KoctError(sentence)

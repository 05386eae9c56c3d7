"""The files of a cell of the study, (sweep, arch, N, seed): what its fit is given, and the fit that is kept."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np

from koct.base import FRESH, device
from koct.base.arrays import gram_matrix, to_numpy
from koct.base.files import Blocks, read_array, read_record, record_writer, write_array, write_record
from koct.base.stamps import Stamp, again, checksum_of, combined, made_from
from koct.contracts import LEARNS_FROM, Array, Layer, Network, Part, Problem, Training
from koct.contracts.blame import blamed, line_of, line_of_operator
from koct.contracts.registry import architecture
from koct.contracts.spec import Cell, encode_problem, same_values
from koct.errors import KoctError
from koct.problems.fresh import Fresh
from koct.problems.pools import Pool

LARGEST_RECORD = 2**31 - 1  # bytes that NumPy allows a record


class Data(Training):
    """A cell's pairs and what its architecture needs, from the files in `inputs` (by name), each when asked for."""

    given = False  # whether a user's fit has it: then nothing of it can be set, and no test pair is read

    def __init__(self, cell: Cell, inputs: Mapping[str, str]):
        self.cell, self.problem, self.inputs = cell, cell.problem, inputs
        self.spec: Mapping[str, Any] = cell.encode()  # of the job, if it knows more
        self.x_shape, self.y_shape = cell.problem.x_shape, cell.problem.y_shape
        self.seed, self.lambdas = cell.seed, cell.lambdas
        self.fresh = cell.N == FRESH
        self.nonnegative = cell.problem.nonnegative
        self.nonnegative_images = cell.problem.nonnegative or cell.problem.nonnegative_images
        self.ranks, self.checkpoints, self.checkpoint_minutes = None, None, 5.0
        self.training_rows: np.ndarray | None = None  # of the N training pairs, where not all of them are used
        self.validated: np.ndarray | None = None  # the validation images of the fit that was chosen on them

    def __setattr__(self, name: str, value: Any) -> None:
        if self.given and name != "given" and not name.startswith("_"):
            where = line_of(self.cell.arch, "fit")
            raise KoctError(f"{where}: data.{name} is set, and later fits are given it too; use a variable of your own")
        super().__setattr__(name, value)

    def spectrum(self) -> tuple[Array, Array]:
        values, vectors = super().spectrum()
        return self._fixed(values), self._fixed(vectors)

    @cached_property
    def device(self) -> device.Device:  # type: ignore[override]
        wanted = self.problem.device == "auto" or self.cell.arch.needs_torch
        return device.choose() if wanted else device.CPU

    @property
    def pool(self) -> Pool:
        self._pool.tests = not self.given
        return self._pool

    @cached_property
    def _pool(self) -> Pool:
        pool = Pool(self.inputs["pool"], self.problem, self.cell.seed)
        drawn = checksum_of({key: value for key, value in pool.stamp.spec.items() if key != "seed"})
        if self.spec.get("pool", drawn) != drawn:
            raise KoctError(f"{pool.path} was drawn for another study while this run was on; run snakemake again")
        return pool

    @property
    def identity(self) -> str:  # type: ignore[override]
        return json.dumps({"spec": self.spec, "pool": self.pool.stamp.content}, sort_keys=True)

    @cached_property
    def N(self) -> int:  # type: ignore[override]
        if self.fresh:
            return self.pool.count["train"]
        if not self.problem.has_groups:  # the pool need not be opened
            return self.cell.N
        return self.pool.pairs_of("train", self.cell.N)

    @cached_property
    def x(self) -> Array:  # type: ignore[override]
        return self._fixed(self.device.put(self.read("x", "train", self.N)))

    @cached_property
    def y(self) -> Array:  # type: ignore[override]
        return self._fixed(self.device.put(self.read("y", "train", self.N)))

    def _fixed(self, array: Array) -> Array:
        """Return what a NumPy network of a user's own cannot change in place: later fits and λ are given it again."""
        arch = self.cell.arch
        if arch.source.endswith(".py") and not arch.needs_torch and isinstance(array, np.ndarray):
            array = array.view()
            array.flags.writeable = False
        return array

    @cached_property
    def more_scans(self) -> Array:  # type: ignore[override]
        first, end = (self.pool.pairs_of("train", self.cell.N + more) for more in (0, self.cell.arch.more_scans))
        return self._fixed(self.device.put(self.pool.x("train", end - first, first)))

    @cached_property
    def layers(self) -> tuple[Layer, ...]:  # type: ignore[override]
        self._declared("layers")
        return checked_layers(self.problem, self.shared)

    @cached_property
    def forward(self) -> Any:  # type: ignore[override]
        self._declared("layers")
        operator = self.problem.forward(self.shared)
        where = f"{line_of(self.problem, 'forward')}: the operator"
        _check_ends(operator, operator, (self.y_shape, self.x_shape), where)
        check_operator(self.problem, "forward", "the operator", operator)
        return operator

    @cached_property
    def inverses(self) -> Mapping[float | None, Any]:  # type: ignore[override]
        self._declared("layers")
        operators = dict(self.problem.inverses(self.shared))
        for strength, operator in operators.items():
            what = f"{line_of(self.problem, 'inverses')}: the operator of strength {strength}"
            _check_ends(operator, operator, (self.x_shape, self.y_shape), what)
        return operators

    @cached_property
    def shared(self) -> Mapping[str, Any]:
        """What the problem computes once per sweep."""
        return read_shared(self.inputs.get("shared"), self.problem)

    @cached_property
    def normal(self) -> Array:  # type: ignore[override]
        self._declared("normal")
        if "normal" in self.inputs:
            matrix = np.array(read_matrix(self.inputs["normal"], self.problem, layers=True))
        else:
            matrix = normal_matrix(self.problem, self.shared)
        return self._fixed(self.device.put(matrix))

    @cached_property
    def gram(self) -> Array | None:  # type: ignore[override]
        if "gram" not in self.inputs or self.problem.x_size < self.N:
            return None
        matrix = read_matrix(self.inputs["gram"], self.problem, layers=False, pool=self.pool)
        return self._fixed(self.device.put(np.array(matrix[: self.N, : self.N])))

    @cached_property
    def required(self) -> Mapping[str, Any]:  # type: ignore[override]
        path, arch = self.inputs["required"], architecture(self.cell.arch.requires_cell)
        about, _ = read_fit(path)
        fitted, wanted = about["cell"], self.cell.encode()
        wrong = [key for key in ("sweep", "N", "seed") if fitted[key] != wanted[key]]
        sources = {"problem": self.problem.source, "arch": arch.source}
        wrong += [what for what, source in sources.items() if fitted[what]["source"] != source]
        options, others = fitted["problem"]["options"], wanted["problem"]["options"]
        wrong += [name for name in options.keys() & others.keys() if options[name] != others[name]]
        if wrong:
            raise KoctError(
                f"{path} is the fit of another cell ({', '.join(sorted(wrong))} differ); give that of {arch.name}"
            )
        return about

    @cached_property
    def start(self) -> Mapping[str, Any] | None:  # type: ignore[override]
        if "start" not in self.inputs:
            return None
        about, state = read_fit(self.inputs["start"])
        if about["cell"]["arch"]["source"] != self.cell.arch.source or about["cell"]["seed"] != self.cell.seed:
            raise KoctError(f"{self.inputs['start']} is the fit of another cell; give that of {self.cell.arch.name}")
        return state

    def moved(self, problem: Problem, seed: int, pool: str) -> Data:
        """Return the data of another problem, of the same images, for a network that was fitted to this."""
        other = Data(self.cell._replace(problem=problem, seed=seed), {"pool": pool})
        other.learned = self
        return other

    def _declared(self, name: Literal["layers", "normal"]) -> None:
        """Refuse what the architecture uses and has not said it needs: it would not run again when that changes."""
        arch = self.cell.arch
        if name not in arch.needs():
            raise KoctError(f"{line_of(arch, 'fit')}: data.{name} is used, and needs() does not name it; add it there")

    def fresh_parts(self, count: int) -> Fresh:
        return Fresh(self.problem, self.seed, count, LEARNS_FROM[self.cell.arch.learns_from])

    def read(self, name: str, part: Part, count: int | None = None, first: int = 0) -> np.ndarray:
        arch = self.cell.arch
        if name not in LEARNS_FROM[arch.learns_from]:
            what = {"x": "measurements", "y": "images"}[name]
            raise KoctError(
                f"{line_of(arch, 'fit')}: {what} are read, and {arch.name} learns from {arch.learns_from} alone; "
                "remove that, or let learns_from say pairs"
            )
        if part == "test":
            raise KoctError(f"{line_of(arch, 'fit')}: the test pairs are not there for a fit; remove that")
        if first < 0 or (count is not None and count < 0):  # such rows are counted from the end, where test pairs are
            raise KoctError(f"{line_of(arch, 'fit')}: first = {first}, count = {count}; neither can be below 0")
        if part == "train":
            end = self.N if count is None else first + count
            if end > self.N:
                asked = f"training pairs {first} to {end - 1} were asked for, and N = {self.N}"
                raise KoctError(f"{line_of(arch, 'fit')}: {asked}; a fit sees the first N")
            if self.training_rows is not None:
                return getattr(self.pool, name)(part, self.training_rows[-1] + 1)[self.training_rows[first:end]]
            count = end - first
        return getattr(self.pool, name)(part, count, first)

    def predict(self, network: Network, part: Part, count: int | None = None) -> np.ndarray:
        """Flat images of a part of the pool, as a NumPy array."""
        return self.images(network, self.device.put(self.pool.x(part, count)))

    def images(self, network: Network, x: Array) -> np.ndarray:
        """Flat images of measurements on this device, as a NumPy array."""
        predicted = to_numpy(network.predict(self._fixed(x)), f"{line_of(self.cell.arch, 'fit')}: what predict gave")
        if np.shape(predicted) != (len(x), self.problem.y_size):
            raise KoctError(
                f"{line_of(self.cell.arch, 'fit')}: the network's predict gave an array of shape {np.shape(predicted)} "
                f"for {len(x)} samples; give flat images, {(len(x), self.problem.y_size)}"
            )
        return predicted

    def stamp(self, spec: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> Stamp:
        """Return the stamp of what is made from these files."""
        return Stamp(spec, made_from(*self.inputs.values()), about or {})


def _check_ends(first: Any, last: Any, ends: tuple[tuple[int, ...], tuple[int, ...]], what: str) -> None:
    """Refuse operators of which the first does not begin, or the last not end, in these shapes."""
    found = (first and first.domain, last and last.range)
    if found != ends:
        raise KoctError(f"{what} leads from {found[0]} to {found[1]}; give one from {ends[0]} to {ends[1]}")


def checked_layers(problem: Problem, shared: Mapping[str, Any]) -> tuple[Layer, ...]:
    """A problem's known layers, if they lead from its x to its y."""
    layers = tuple(problem.layers(shared))
    where = line_of(problem, "layers")
    for layer in layers:
        check_operator(problem, "layers", f"the layer {layer.name!r}", layer.operator)
    for inner, outer in itertools.pairwise(layers):
        if inner.operator.range != outer.operator.domain:
            raise KoctError(
                f"{where}: the layer {inner.name!r} gives shape {inner.operator.range}, "
                f"and {outer.name!r} behind it takes {outer.operator.domain}"
            )
    first, last = (layers[0].operator, layers[-1].operator) if layers else (None, None)
    _check_ends(first, last, (problem.x_shape, problem.y_shape), f"{where}: the chain of layers")
    return layers


def check_operator(problem: Problem, method: str, what: str, operator: Any) -> None:
    """Refuse an operator that a user's own `method` gave and that is not linear or whose adjoint is wrong.

    Those of koct's own problems are tested with koct itself.
    """
    if not problem.source.endswith(".py"):
        return
    from koct.operators.algebra import Operator
    from koct.operators.testing import fault

    where = line_of(problem, method)
    if not isinstance(operator, Operator):
        raise KoctError(f"{where}: {what} is of the type {type(operator).__name__}; give a koct.operators Operator")
    if wrong := fault(operator):
        raise KoctError(f"{line_of_operator(operator, wrong[0]) or where}: {what}: {wrong[1]}")


def write_fit(path: str, stamp: Stamp, network: Network, write: bool = True) -> None:
    """Write what was learned; of several processes all go through the blocks, and one writes."""
    state = network.state()
    if not any(isinstance(value, Blocks) for value in state.values()):
        arrays = {name: to_numpy(value, name) for name, value in state.items()}
        size = sum(array.nbytes for array in arrays.values())
        if size > LARGEST_RECORD:
            raise KoctError(
                f"the network's state has {size / 2**30:.1f} GiB; give arrays over 2 GiB as koct.base.files.Blocks"
            )
        for name, array in arrays.items():
            _check_learned(name, array)
        if write:
            write_record(path, stamp, **arrays)
        return
    ((name, blocks),) = state.items()
    if not write:
        deque(blocks.blocks, maxlen=0)
        return
    with record_writer(path, stamp, blocks.length, **{name: (blocks.dtype, blocks.shape)}) as (file, _):
        for block in blocks.blocks:
            array = np.ascontiguousarray(to_numpy(block), blocks.dtype)
            _check_learned(name, array)
            file.write(array.data)


def _check_learned(name: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "fiubc":
        raise KoctError(f"the network's state: {name} has the type {array.dtype}; give arrays of numbers")
    if not np.isfinite(array).all():
        raise KoctError(f"the fit is not finite: {name}, which was learned, has entries that are no numbers")


def read_fit(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(about, state) of a fit on disk; the state is mapped, its checksum checked."""
    state, stamp = read_record(path)
    return about_fit(path, stamp), state


def about_fit(path: str, stamp: Stamp) -> dict[str, Any]:
    """What a fit's stamp says about it, its cell included."""
    if not {"lam", "tuned_on", "edge", "p", "fit_seconds", "device", "pool"} <= stamp.about.keys():
        raise KoctError(f"{path} is not a fit; {again(path)}")
    return {**stamp.about, "cell": stamp.spec}


def write_shared(problem: Problem, path: str, spec: Mapping[str, Any] | None = None) -> None:
    """Write what a problem computes once per sweep."""
    with blamed(problem.source):
        write_record(path, Stamp(spec or {"problem": encode_problem(problem, layers=True)}), **problem.shared())


def read_shared(path: str | None, problem: Problem) -> Mapping[str, Any]:
    """What a problem computes once per sweep, from the file that holds it; nothing without one."""
    if path is None:
        if problem.has_shared:
            raise KoctError(f"the problem {problem.name} needs what `koct known` wrote; give that file")
        return {}
    shared, stamp = read_record(path)
    if stamp.spec.keys() & {"N", "seed"}:
        raise KoctError(f"{path} is not what `koct known` wrote; give that file")
    _check_problem(path, stamp, problem, layers=True)
    return shared


def write_normal(problem: Problem, shared: str | None, path: str, spec: Mapping[str, Any] | None = None) -> None:
    """Write the normal matrix RᵀR of the known operator."""
    with blamed(problem.source):
        normal = normal_matrix(problem, read_shared(shared, problem))
    spec = spec or {"problem": encode_problem(problem, layers=True)}
    write_array(path, normal, Stamp(spec, made_from(*([shared] if shared else []))))


def read_matrix(path: str, problem: Problem, layers: bool, pool: Pool | None = None) -> np.ndarray:
    """A matrix of numbers of this problem and, if given, of this pool."""
    matrix, stamp = read_array(path)
    _check_problem(path, stamp, problem, layers)
    if pool is not None and stamp.inputs != combined([pool.stamp.content]):
        raise KoctError(f"{path} was not made from {pool.path}; give the one that was")
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise KoctError(f"{path} does not hold a matrix; {again(path)}")
    return matrix


def _check_problem(path: str, stamp: Stamp, problem: Problem, layers: bool) -> None:
    """Refuse what was made for another problem."""
    if not same_values(stamp.spec.get("problem"), encode_problem(problem, layers)):
        raise KoctError(f"{path} belongs to another problem, or to one with other options; give that of the cell")


def normal_matrix(problem: Problem, shared: Mapping[str, Any]) -> Any:
    """That of the problem itself, or that of its layers multiplied out."""
    from koct.operators import algebra

    normal = problem.normal_matrix(shared)
    if normal is None:
        _, R = algebra.split([layer.operator for layer in checked_layers(problem, shared)])
        normal = algebra.normal_matrix(R)
    return normal


def write_gram(problem: Problem, pool: str, path: str, spec: Mapping[str, Any] | None = None) -> None:
    """Write the Gram matrix of a pool's training measurements; every cell uses a corner of it.

    Cells with more samples than measurements use none of it: it ends there.
    """
    spec = spec or {"problem": encode_problem(problem, layers=False)}
    place = device.choose() if problem.device == "auto" else device.CPU
    pairs = Pool(pool, problem, spec.get("seed"))
    matrix = gram_matrix(place.put(pairs.x("train", min(pairs.count["train"], problem.x_size))))
    write_array(path, to_numpy(matrix), Stamp(spec, made_from(pool)))

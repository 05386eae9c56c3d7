"""One cell of the study, (sweep, arch, N, seed): read its pool, fit, evaluate, give one row."""

import importlib
import json
import math
import time

import numpy as np

from koct.device import failures_explained, get
from koct.errors import KoctError
from koct.files import map_array, read_record, write_array, write_record, write_text
from koct.metrics import metrics
from koct.networks import ARCHS
from koct.networks.linalg import gram_matrix
from koct.problems import PROBLEMS, known
from koct.problems.pools import Pool
from koct.workflow import paths

ABOUT = ("sweep", "problem", "H", "V", "B", "arch", "N", "seed")


def named(arch, inputs):
    """A cell's input files by name: the pool, then what its architecture reads besides."""
    if len(inputs) > 2:
        raise KoctError(f"a cell has one or two inputs, got {', '.join(inputs)}")
    return dict(zip(("pool", "known" if arch == "ko" else "gram"), inputs, strict=False))


class Cell:
    """What a fit and its evaluation share: the problem, the network's class, the device and the data on it."""

    def __init__(self, spec, files):
        problem = importlib.import_module(PROBLEMS[spec["problem"]])
        self.spec = {**spec, "nonnegative": problem.NONNEGATIVE}
        self.select = problem.SELECT
        self.network = importlib.import_module(ARCHS[spec["arch"]]).Network
        self.where = problem.choose_device()
        self.pool = Pool(files["pool"])
        self.known = known.load(spec, files.get("known"), self.where) if spec["arch"] == "ko" else None

    def pairs(self, part, count=None):
        return self.where.put(self.pool.x(part, count)), self.where.put(self.pool.y(part, count))

    def errors(self, network, part):
        """The errors of a network on a part of the pool."""
        predicted = get(network.predict(self.where.put(self.pool.x(part))))
        return metrics(predicted, self.pool.y(part))


@failures_explained()
def fit(spec, files, row_path, fit_path):
    """Fit a cell for every λ, keep the one with the smallest validation error, write the fit and its row."""
    cell = Cell(spec, files)
    x, y = cell.pairs("train", spec["N"])
    gram = cell.where.put(np.array(map_array(files["gram"])[: len(x), : len(x)])) if "gram" in files else None
    started = time.perf_counter()
    best = None
    for lam, network in cell.network.fit(x, y, cell.spec, known=cell.known, gram=gram):
        errors = cell.errors(network, "val")
        score = errors[cell.select]
        if lam is not None:
            print(f"lambda {lam:g}: validation {cell.select} {score:.6g}", flush=True)
        if math.isfinite(score) and (best is None or score < best[0]):
            best = score, errors["mse"], lam, network
    if best is None:
        raise KoctError(f"no fit gave a finite validation error; lambdas are {spec.get('lambdas')}")
    _, val_mse, lam, network = best
    about = {
        **{key: spec[key] for key in ABOUT},
        "lam": lam,
        "p": network.parameters(spec["H"], spec["V"], spec["B"]),
        "val_mse": val_mse,
        "fit_seconds": time.perf_counter() - started,
        "device": cell.where.label,
    }
    state = {name: get(value) for name, value in network.state().items()}
    write_record(fit_path, about=json.dumps(about).encode(), **state)
    write_text(row_path, json.dumps({**about, **cell.errors(network, "test")}, indent=1))


@failures_explained()
def evaluate(fit_path, inputs, row_path):
    """Load a fit, evaluate it on the test part again, write its row."""
    about, network, cell = load(fit_path, inputs)
    write_text(row_path, json.dumps({**about, **cell.errors(network, "test")}, indent=1))


def load(fit_path, inputs):
    """(about, network, cell) of a fit on disk."""
    state = read_record(fit_path)
    about = json.loads(state.pop("about").flat[-1])  # the last of several records says it
    cell = Cell(about, named(about["arch"], inputs))
    x, y = cell.pairs("train", about["N"]) if about["arch"] == "fc" else (None, None)  # the dual form needs them
    if not getattr(cell.network, "MAPPED", False):
        state = {name: cell.where.put(np.array(value)) for name, value in state.items()}
    return about, cell.network.restore(state, x, y, cell.spec, known=cell.known), cell


@failures_explained()
def untrained(spec, seeds, files, path):
    """Evaluate the operator-aware network before any learning on every seed's test part."""
    rows = []
    for seed in seeds:
        cell = Cell({**spec, "arch": "ko"}, {**files, "pool": paths.pool(spec["sweep"], seed)})
        about = {key: spec[key] for key in ("sweep", "problem", "H", "V", "B")}
        rows.append({**about, "seed": seed, **cell.errors(cell.network.untrained(cell.known), "test")})
    write_text(path, json.dumps(rows, indent=1))


@failures_explained()
def gram(spec, pool, path):
    """Write the Gram matrix of a pool's training sinograms; every cell uses a corner of it."""
    problem = importlib.import_module(PROBLEMS[spec["problem"]])
    x = problem.choose_device().put(Pool(pool).x("train"))
    write_array(path, get(gram_matrix(x)))

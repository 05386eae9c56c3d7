"""One cell of the study, (sweep, arch, N, seed): read its pool, fit, evaluate, give one row."""

import importlib
import json
import math
import time

from koct import paths
from koct.ct import known as known_operator
from koct.ct import pools
from koct.errors import KoctError
from koct.files import read_record, write_record, write_text
from koct.learn import ARCHS, USE_KNOWN_OPERATOR
from koct.learn.metrics import metrics, mse


def network_class(arch):
    return importlib.import_module(ARCHS[arch]).Network


def fit(spec, inputs, row_path, fit_path):
    """Fit a cell for every λ, keep the one with the smallest validation MSE, write the fit and its row."""
    pool, known = _open(spec["arch"], inputs)
    x, y = pools.read(pool, "train", spec["N"])
    x_val, y_val = pools.read(pool, "val")
    started = time.perf_counter()
    best = None
    for lam, network in zip(
        spec["lambdas"], network_class(spec["arch"]).fit(x, y, spec["lambdas"], known), strict=True
    ):
        val_mse = mse(network.predict(x_val), y_val)
        print(f"lambda {lam:g}: validation MSE {val_mse:.6g}")
        if math.isfinite(val_mse) and (best is None or val_mse < best[0]):
            best = val_mse, lam, network
    if best is None:
        raise KoctError(f"no lambda of {spec['lambdas']} gave a finite validation error")
    val_mse, lam, network = best
    about = {
        **{key: spec[key] for key in ("sweep", "problem", "H", "V", "B", "arch", "N", "seed")},
        "lam": lam,
        "p": network.parameters(spec["H"], spec["V"], spec["B"]),
        "val_mse": val_mse,
        "fit_seconds": time.perf_counter() - started,
    }
    write_record(fit_path, about=json.dumps(about).encode(), **network.state())
    _write_row(row_path, about, network, pool)


def evaluate(fit_path, inputs, row_path):
    """Load a fit, evaluate it on the test part again, write its row."""
    state = read_record(fit_path)
    about = json.loads(state.pop("about").item())
    pool, known = _open(about["arch"], inputs)
    x, y = pools.read(pool, "train", about["N"])
    network = network_class(about["arch"]).restore(state, x, y, known)
    _write_row(row_path, about, network, pool)


def untrained(spec, seeds, known, path):
    """Evaluate the operator-aware network with w = 1 on every seed's test part: what no learning gives."""
    network = network_class("ko").untrained(known_operator.read(known))
    about = {key: spec[key] for key in ("sweep", "problem", "H", "V", "B")}
    rows = []
    for seed in seeds:
        x, y = pools.read(paths.pool(spec["sweep"], seed), "test")
        rows.append({**about, "seed": seed, **metrics(network.predict(x), y)})
    write_text(path, json.dumps(rows, indent=1))


def _open(arch, inputs):
    """The path of the pool and the known operator, if the architecture has one, from a cell's input files."""
    wanted = 2 if arch in USE_KNOWN_OPERATOR else 1
    if len(inputs) != wanted:
        raise KoctError(f"{arch} needs {wanted} inputs (pool, known operator if it has one), got {', '.join(inputs)}")
    return inputs[0], known_operator.read(inputs[1]) if wanted == 2 else None


def _write_row(path, about, network, pool):
    x, y = pools.read(pool, "test")
    row = {**about, **metrics(network.predict(x), y)}
    write_text(path, json.dumps(row, indent=1))

"""One cell of the study, (sweep, arch, N, seed): read its pool, fit, evaluate, give one row."""

import importlib
import json
import time

import numpy as np

from koct.ct import known as known_operator
from koct.ct import pools
from koct.files import write_array, write_text
from koct.learn import ARCHS
from koct.learn.metrics import metrics, mse


def network_class(arch):
    return importlib.import_module(ARCHS[arch]).Network


def fit(spec, arch, N, seed, pool, known, fit_path, row_path):
    """Fit a cell for every λ, keep the one with the smallest validation MSE, write the fit and its row."""
    x, y = pools.read(pool, "train", N)
    x_val, y_val = pools.read(pool, "val")
    known = known_operator.read(known) if known else None
    started = time.perf_counter()
    best = None
    for lam, network in zip(spec["lambdas"], network_class(arch).fit(x, y, spec["lambdas"], known), strict=True):
        val_mse = mse(network.predict(x_val), y_val)
        print(f"lambda {lam:g}: validation MSE {val_mse:.6g}")
        if best is None or val_mse < best[0]:
            best = val_mse, lam, network
    val_mse, lam, network = best
    about = {
        **{key: spec[key] for key in ("sweep", "problem", "H", "V", "B")},
        **{"arch": arch, "N": N, "seed": seed, "lam": lam},
        "p": network.parameters(spec["H"], spec["V"], spec["B"]),
        "val_mse": val_mse,
        "fit_seconds": time.perf_counter() - started,
    }
    write_array(fit_path, _record(about, network.state()))
    _write_row(row_path, about, network, pool)


def evaluate(fit_path, pool, known, row_path):
    """Load a fit, evaluate it on the test part again, write its row."""
    record = np.load(fit_path)
    about = json.loads(record["about"].item())
    state = {name: record[name] for name in record.dtype.names if name != "about"}
    x, y = pools.read(pool, "train", about["N"])
    network = network_class(about["arch"]).restore(state, x, y, known_operator.read(known) if known else None)
    _write_row(row_path, about, network, pool)


def untrained(spec, seeds, pool_folders, known, path):
    """Evaluate the operator-aware network with w = 1 on every seed's test part: what no learning gives."""
    network = network_class("ko").untrained(known_operator.read(known))
    about = {key: spec[key] for key in ("sweep", "problem", "H", "V", "B")}
    rows = []
    for seed, folder in zip(seeds, pool_folders, strict=True):
        x, y = pools.read(folder, "test")
        rows.append({**about, "seed": seed, **metrics(network.predict(x), y)})
    write_text(path, json.dumps(rows, indent=1))


def _record(about, state):
    """A fit as one NumPy record: what it is, as JSON, and its learned arrays."""
    text = json.dumps(about).encode()
    fields = [("about", f"S{len(text)}")] + [(name, value.dtype, value.shape) for name, value in state.items()]
    return np.array((text, *state.values()), dtype=fields)


def _write_row(path, about, network, pool):
    x, y = pools.read(pool, "test")
    row = {**about, **metrics(network.predict(x), y)}
    write_text(path, json.dumps(row, indent=1))

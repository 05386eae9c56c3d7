"""The error of a fit on test pairs it has not seen: one row of the results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from koct import cells, metrics
from koct.blame import blamed
from koct.contracts import Array, Network, Problem
from koct.files import write_text
from koct.spec import Cell, about

# The hash of this module and of the metrics, which the workflow puts into the environment of its jobs. A fit evaluates
# itself while its network is in memory, and keeps the errors with this hash; only if that has changed since does a
# network have to be loaded again.
CODE = "KOCT_EVALUATION"


def errors(network: Network, data: cells.Data) -> dict[str, float]:
    """Every metric on the test pairs, and `val_mse`."""
    validation = metrics.load("mse").error(data.predict(network, "val"), data.read("y", "val"))
    return {"val_mse": validation, **metrics.errors(data.predict(network, "test"), data.read("y", "test"))}


def remember(about: dict[str, Any], found: Mapping[str, float]) -> dict[str, Any]:
    """What a fit file says about its fit, with its errors and the code that computed them."""
    return {**about, "errors": found, "evaluation": os.environ.get(CODE)}


def row(about: Mapping[str, Any], found: Mapping[str, float]) -> str:
    """The row of a cell as JSON."""
    fitted = {key: about[key] for key in ("lam", "p", "fit_seconds", "device")}
    return json.dumps({**Cell.decode(about["cell"]).about(), **fitted, **found}, indent=1)


def evaluate(fit_path: str, inputs: Mapping[str, str], row_path: str) -> None:
    """Write the row of a fit on disk."""
    about, _ = cells.read_fit(fit_path)
    found = about.get("errors")
    if not found or about["evaluation"] is None or about["evaluation"] != os.environ.get(CODE):
        _, network, data = load(fit_path, inputs)
        with blamed(data.cell.problem.source, data.cell.arch.source):
            found = errors(network, data)
    write_text(row_path, row(about, found))


def load(fit_path: str, inputs: Mapping[str, str]) -> tuple[dict[str, Any], Network, cells.Data]:
    """(about, network, data) of a fit on disk."""
    about, state = cells.read_fit(fit_path)
    data = cells.Data(Cell.decode(about["cell"]), inputs)
    with blamed(data.cell.problem.source, data.cell.arch.source):
        return about, data.cell.arch.restore(state, data), data


class Untrained(Network):
    """The known layers alone, as theory gives them."""

    def __init__(self, data: cells.Data):
        from koct.operators.chain import product

        self.operator = product([layer.operator for layer in data.layers])
        self.nonnegative = data.nonnegative

    def predict(self, x: Array) -> Array:
        image = self.operator(x.reshape(-1, *self.operator.domain)).reshape(len(x), -1)
        return image.clip(min=0) if self.nonnegative else image

    def state(self) -> Mapping[str, Array]:
        return {}


def untrained(
    sweep: str, problem: Problem, seeds: Sequence[int], pools: Sequence[str], shared: str | None, path: str
) -> None:
    """Evaluate the known layers alone, before any learning, on every seed's test pairs."""
    rows = []
    for seed, pool in zip(seeds, pools, strict=True):
        cell = Cell(sweep, problem, None, 0, seed, ())  # type: ignore[arg-type]  # no architecture: nothing is learned
        with blamed(problem.source):
            data = cells.Data(cell, {"pool": pool, **({"shared": shared} if shared else {})})
            found = metrics.errors(data.predict(Untrained(data), "test"), data.read("y", "test"))
        rows.append({**about(sweep, problem), "seed": seed, **found})
    write_text(path, json.dumps(rows, indent=1))

"""The error of a fit on test pairs it has not seen: one row of the results."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from koct import cells, metrics, stamps
from koct.blame import blamed
from koct.contracts import Network
from koct.errors import KoctError
from koct.files import write_json
from koct.spec import Cell, same_values
from koct.stamps import Stamp, made_from

# The hash of this module and of the metrics, which the workflow puts into the environment of its jobs. A fit evaluates
# itself while its network is in memory, and keeps the errors with this hash; only if that has changed since does a
# network have to be loaded again.
CODE = "KOCT_EVALUATION"


def errors(network: Network, data: cells.Data) -> dict[str, float]:
    """Every metric on the test pairs, and `val_mse`."""
    validation = metrics.load("mse").error(data.predict(network, "val"), data.read("y", "val"))
    return _finite({"val_mse": validation, **metrics.errors(data.predict(network, "test"), data.read("y", "test"))})


def _finite(found: dict[str, float]) -> dict[str, float]:
    for name, value in found.items():
        if not (math.isfinite(value) and value >= 0):
            raise KoctError(f"the network's {name} is {value}, which is no error; look at its fit")
    return found


def remember(about: dict[str, Any], found: Mapping[str, float]) -> dict[str, Any]:
    """What a fit's stamp says about its fit, with its errors and the code that computed them."""
    return {**about, "errors": found, "evaluation": os.environ.get(CODE)}


def write_row(path: str, stamp: Stamp, cell: Cell, about: Mapping[str, Any], found: Mapping[str, float]) -> None:
    """Write the row of a cell."""
    fitted = {key: about[key] for key in ("lam", "p", "fit_seconds", "device")}
    write_json(path, {**cell.about(), **fitted, **found}, stamp)


def evaluate(fit_path: str, inputs: Mapping[str, str], row_path: str, spec: Mapping[str, Any] | None = None) -> None:
    """Write the row of a fit on disk, which must be that of the cell in `spec`."""
    about, network, data = load(fit_path, inputs)
    if spec and not same_values({**about["cell"], "evaluation": None}, {**spec, "evaluation": None}):
        raise KoctError(f"{fit_path} is not the fit of the cell that was asked for; give that fit")
    found, code = about.get("errors"), (spec or {}).get("evaluation") or os.environ.get(CODE)
    if not found or code is None or about.get("evaluation") != code:
        with blamed(data.cell.problem.source, data.cell.arch.source):
            found = errors(network(), data)
    stamp = Stamp(spec or about["cell"], made_from(fit_path, *inputs.values()))
    write_row(row_path, stamp, data.cell, about, _finite(found))


def load(fit_path: str, inputs: Mapping[str, str]) -> tuple[dict[str, Any], Callable[[], Network], cells.Data]:
    """(about, network, data) of a fit on disk; the network is restored when it is called."""
    about = cells.about_fit(fit_path, stamps.read(fit_path))
    data = cells.Data(Cell.decode(about["cell"]), inputs)
    if about["pool"] != data.pool.stamp.content:
        raise KoctError(f"{fit_path} was not fitted to the pairs of {data.pool.path}; give its own pool")

    def network() -> Network:
        _, state = cells.read_fit(fit_path)
        with blamed(data.cell.problem.source, data.cell.arch.source):
            return data.cell.arch.restore(state, data)

    return about, network, data

"""The error of a fit on test pairs it has not seen: one row of the results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from koct import metrics
from koct.base import stamps
from koct.base.files import write_json
from koct.base.stamps import Stamp, made_from
from koct.contracts import Network
from koct.contracts.blame import blamed
from koct.contracts.spec import Cell, decode_problem, same_values
from koct.errors import KoctError
from koct.problems.pools import Pool
from koct.study import cells

# The hash of this module and of the metrics, which the workflow puts into the environment of its jobs. A fit evaluates
# itself while its network is in memory, and keeps the errors with this hash; only if that has changed since does a
# network have to be loaded again.
CODE = "KOCT_EVALUATION"
REFIT = "KOCT_REFIT"  # set in the environment of a run whose user forces jobs: a fit that is there does not count
LARGEST = 2**19  # characters of what a fit keeps of its errors: half of where a stamp is looked for


def errors(network: Network, data: cells.Data, tests: Pool | None = None) -> dict[str, Any]:
    """Every metric on the test pairs, `val_mse`, the time of a test image, and under `images` every metric of each.

    `val_mse` is null unless the validation pairs have chosen something. The test pairs are those of the fit's own
    pool, or of another with `tests`.
    """
    tests = tests or data.pool
    validation = None
    if data.cell.arch.validation == "labels":
        validated = data.predict(network, "val") if data.validated is None else data.validated
        validation = metrics.error_of("mse", data.problem.inside)(validated, data.read("y", "val"))
    elif data.cell.arch.trained:  # what needs no sample has run to choose its strength, or takes long for an image
        data.predict(network, "val", 1)  # warms up
    x, started = data.device.put(tests.x("test")), time.perf_counter()
    predicted = data.images(network, x)
    seconds, y, inside = time.perf_counter() - started, tests.y("test"), tests.problem.inside
    with blamed(*metrics.own().values()):
        images = metrics.each(predicted, y, data.y_shape, inside)
        errors = metrics.errors(predicted[:, inside], y[:, inside], images)
    for name, value in (("val_mse", validation), *errors.items()):
        if value is not None and not metrics.is_proper(name, value):
            raise KoctError(f"the network's {name} is {value}, which is no error; look at its fit")
    kept = {  # to eight digits, null for NaN; `same`: whether every seed has these images; how many each group has
        "same": tests.problem.same_held_out,
        "groups": tests.groups["test"] if tests.groups else None,
        **{name: [None if each != each else float(f"{each:.8g}") for each in images[name].tolist()] for name in images},
    }
    return {"val_mse": validation, **errors, "images": kept, "image_seconds": seconds / len(y)}


def remember(about: dict[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """What a fit's stamp says about its fit, with its errors and the code that computed them.

    Without the errors if the test images are too many for a stamp: they are then computed again for the row.
    """
    if len(json.dumps(measured)) > LARGEST:
        return about
    return {**about, "errors": measured, "evaluation": os.environ.get(CODE)}


def write_row(path: str, stamp: Stamp, cell: Cell, about: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
    """Write the row of a cell."""
    keys = ("lam", "tuned_on", "edge", "steps", "gain", "losses", "drawn", "p", "fit_seconds", "device")
    fitted = {key: about.get(key) for key in keys}
    write_json(path, {**cell.about(), **fitted, **measured}, stamp)


def evaluate(fit_path: str, inputs: Mapping[str, str], row_path: str, spec: Mapping[str, Any]) -> None:
    """Write the row of a fit on disk, which must be that of the cell in `spec`, if it has one."""
    about, network, data = load(fit_path, inputs)
    evaluated = dict.fromkeys(("evaluation", "metrics"))
    if spec and not same_values({**about["cell"], **evaluated}, {**spec, **evaluated}):
        raise KoctError(f"{fit_path} is not the fit of the cell that was asked for; give that fit")
    measured, code = about.get("errors"), spec.get("evaluation") or os.environ.get(CODE)
    if not measured or code is None or about.get("evaluation") != code:
        with blamed(data.cell.problem.source, data.cell.arch.source):
            measured = errors(network(), data)
    stamp = Stamp(spec or about["cell"], made_from(fit_path, *inputs.values()))
    write_row(row_path, stamp, data.cell, about, measured)


def transfer(fit_path: str, inputs: Mapping[str, str], tests: str, row_path: str, spec: Mapping[str, Any]) -> None:
    """Write the row of a fit on the test pairs of another sweep, whose pool is `tests`; nothing is fitted."""
    about, network, data = load(fit_path, inputs)
    pool = Pool(tests, decode_problem(spec["tested"]), spec["tested_seed"])
    with blamed(data.cell.problem.source, data.cell.arch.source, pool.problem.source):
        if data.cell.arch.moved(data.problem, pool.problem):
            moved = data.moved(pool.problem, spec["tested_seed"], tests)
            measured = errors(network(moved), moved, pool)
        else:
            measured = errors(network(), data, pool)
    stamp = Stamp(spec, made_from(fit_path, tests, *inputs.values()))
    write_row(row_path, stamp, data.cell, about, {**measured, "tested_on": spec["tested_on"]})


def kept(fit_path: str, data: cells.Data) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what a fit on disk says of itself, and its errors; None if it is not the one that `data.spec` asks for."""
    try:
        (spec, inputs, *_), wanted = stamps.read(fit_path), data.stamp(data.spec)
        if os.environ.get(REFIT) or (spec, inputs) != (wanted.spec, wanted.inputs):
            return None
        about, state = cells.read_fit(fit_path)
    except (OSError, ValueError, KoctError):  # missing, damaged, or of another version
        return None
    if "errors" in about and about.get("evaluation") == os.environ.get(CODE):
        return about, about["errors"]
    return about, errors(data.cell.arch.restore(state, data), data)


def load(fit_path: str, inputs: Mapping[str, str]) -> tuple[dict[str, Any], Callable[..., Network], cells.Data]:
    """(about, network, data) of a fit on disk; the network is restored when it is called, with its data or others."""
    about = cells.about_fit(fit_path, stamps.read(fit_path))
    data = cells.Data(Cell.decode(about["cell"]), inputs)
    if about["pool"] != data.pool.stamp.content:
        raise KoctError(f"{fit_path} was not fitted to the pairs of {data.pool.path}; give its own pool")

    def network(others: cells.Data = data) -> Network:
        _, state = cells.read_fit(fit_path)
        with blamed(data.cell.problem.source, data.cell.arch.source):
            return data.cell.arch.restore(state, others)

    return about, network, data

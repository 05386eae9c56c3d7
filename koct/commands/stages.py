"""Verbs that compute: pools, fits, rows and what follows from them.

Each imports only what it needs, since start-up is most of a small job.
"""

import importlib
import os

from koct.commands.arguments import INPUTS, OUT, POOL, REPORT, SHARED, SPEC, THEORY, file, optional, positive
from koct.errors import KoctError


def pool(spec, out):
    from koct.contracts import Sizes
    from koct.contracts.blame import blamed
    from koct.contracts.spec import decode_problem
    from koct.problems import pools

    problem = decode_problem(spec["problem"])
    with blamed(problem.source):
        pools.make(problem, spec["seed"], Sizes(**spec["sizes"]), out, spec)


def known(spec, out):
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    cells.write_shared(decode_problem(spec["problem"]), out, spec)


def normal(spec, inputs, out):
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    cells.write_normal(decode_problem(spec["problem"]), inputs[0] if inputs else None, out, spec)


def gram(spec, pool, out):
    from koct.base.device import failures_explained
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    with failures_explained():
        cells.write_gram(decode_problem(spec["problem"]), pool, out, spec)


def fit(spec, inputs, outputs):
    """Fit and evaluate. `outputs` are the row and the fit; if only the fit, it keeps the errors for `evaluate`."""
    from koct.base.device import failures_explained
    from koct.contracts.blame import blamed
    from koct.study import cells, evaluation

    data = _data(spec, inputs)
    with failures_explained(), blamed(data.cell.problem.source, data.cell.arch.source):
        about, network = cells.fit(data)
        errors = evaluation.errors(network, data)
        cells.write_fit(outputs[-1], data.stamp(spec, evaluation.remember(about, errors)), network)
        if len(outputs) > 1:
            evaluation.write_row(outputs[0], data.stamp(spec), data.cell, about, errors)


def fit_torchrun(spec, inputs, out, checkpoints, checkpoint_minutes):
    from koct.study import distributed

    data = _data(spec, inputs)
    data.checkpoints, data.checkpoint_minutes = checkpoints, checkpoint_minutes
    return distributed.fit(data, out, spec)


def _data(spec, inputs):
    """The data of a cell: `inputs` are the files that the spec names."""
    from koct.contracts.spec import Cell
    from koct.study.cells import Data

    return Data(Cell.decode(spec), _named_inputs(spec, inputs))


def _named_inputs(spec, inputs):
    if len(inputs) != len(spec["inputs"]):
        raise KoctError(f"this job reads {', '.join(spec['inputs'])}; --inputs has {len(inputs)} files")
    return dict(zip(spec["inputs"], inputs, strict=True))


def evaluate(fit, spec, pool, shared, out):
    from koct.base.device import failures_explained
    from koct.study import evaluation

    if os.environ.get("KOCT_DEVICE") == "cuda":  # on a cluster these jobs have no GPU
        os.environ["KOCT_DEVICE"] = "auto"
    with failures_explained():
        evaluation.evaluate(fit, {"pool": pool, **({"shared": shared} if shared else {})}, out, spec)


def theory(spec, inputs, out):
    from koct.base.device import failures_explained
    from koct.contracts.blame import blamed
    from koct.study import predictions

    files = _named_inputs(spec, inputs)
    with failures_explained(), blamed(spec["problem"]["source"], spec["arch"]["source"]):
        predictions.predict(spec, files, out)


def calls(function, *names):
    """Return a verb that calls a function, imported when it runs, with these arguments in this order."""

    def verb(**arguments):
        module, _, name = function.rpartition(".")
        return getattr(importlib.import_module(module), name)(*(arguments[name] for name in names))

    return verb


CELLS = file("cells", "what `collect` wrote")
IMAGES = file("--images", "the errors of every test image, which `collect` wrote")
OUTPUTS = ("--outputs", {"nargs": "+", "metavar": "FILE", "help": "where to write the row (if wanted), and the fit"})
CHECKPOINTS = [
    ("--checkpoints", {"metavar": "FOLDER", "help": "where a checkpoint waits for the next run"}),
    optional("--checkpoint-minutes", "time between checkpoints (default: 5)", type=positive, default=5.0),
]
CHAINS = ("--chains", {"nargs": "*", "metavar": "FILE", "help": "what `chains` wrote of every sweep"})

# verb: (function, what it does, its arguments)
VERBS = {
    "pool": (pool, "draw the pool of one seed", [SPEC, OUT]),
    "known": (known, "compute what a problem shares among all cells of a sweep", [SPEC, OUT]),
    "normal": (normal, "compute the normal matrix of a sweep's known operator", [SPEC, INPUTS, OUT]),
    "gram": (gram, "compute the Gram matrix of a pool's training measurements", [SPEC, POOL, OUT]),
    "fit": (fit, "fit and evaluate one cell", [SPEC, INPUTS, OUTPUTS]),
    "fit-torchrun": (
        fit_torchrun,
        "fit one cell with several processes; started by torchrun, once per rank",
        [SPEC, INPUTS, OUT, *CHECKPOINTS],
    ),
    "evaluate": (evaluate, "write the row of a fit", [file("fit", "what `fit` wrote"), REPORT, POOL, SHARED, OUT]),
    "collect": (
        calls("koct.study.results.collect", "spec", "cells", "images"),
        "gather the rows of a study into Parquet",
        [
            SPEC,
            file("--cells", "where to write the cells"),
            file("--images", "where to write the errors of every test image"),
        ],
    ),
    "theory": (theory, "predict the curve of one architecture from a pool, before any fit", [SPEC, INPUTS, OUT]),
    "collect-theory": (
        calls("koct.study.results.collect_theory", "spec", "out"),
        "gather the predicted curves of a study into Parquet",
        [SPEC, OUT],
    ),
    "calibrate": (
        calls("koct.study.results.aggregate", "cells", "spec", "curves", "calibration"),
        "curves over seeds, and their floor and sigma",
        [
            CELLS,
            SPEC,
            file("--curves", "where to write the curves"),
            file("--calibration", "where to write floor and sigma"),
        ],
    ),
    "budgets": (
        calls("koct.study.results.budget", "cells", "theory", "spec", "out"),
        "how many samples reach every configured target",
        [CELLS, THEORY, SPEC, OUT],
    ),
    "crossings": (
        calls("koct.study.crossings.compute", "cells", "images", "spec", "out"),
        "from which N on a network is better than what needs no sample, and than a smaller network",
        [CELLS, IMAGES, SPEC, OUT],
    ),
    "chains": (
        calls("koct.study.chains.write", "spec", "shared", "out"),
        "the known and learned layers of a sweep's networks",
        [SPEC, SHARED, OUT],
    ),
    "ladder": (
        calls("koct.study.ladder.compute", "cells", "images", "chains", "spec", "out", "verdicts"),
        "the order of a sweep's networks at every N, and what it wins to learn more",
        [CELLS, IMAGES, CHAINS, SPEC, OUT, file("--verdicts", "where to write the verdicts")],
    ),
}

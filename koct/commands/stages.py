"""Verbs that compute: pools, fits, rows and what follows from them.

Each imports only what it needs, since start-up is most of a small job.
"""

import os

from koct.commands.arguments import INPUTS, OUT, POOL, REPORT, SHARED, SPEC, THEORY, file, optional, positive
from koct.errors import KoctError


def pool(spec, out):
    from koct.contracts import Sizes
    from koct.contracts.blame import blamed
    from koct.contracts.spec import decode_problem
    from koct.problems import pools

    problem = decode_problem(spec["problem"])
    sizes = Sizes(**{part: spec["sizes"][part] for part in pools.PARTS})
    with blamed(problem.source):
        pools.make(problem, spec["seed"], sizes, out, spec)


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
    from koct.study import cells, evaluation

    data = _data(spec, inputs)
    data.checkpoints = os.path.splitext(outputs[-1])[0] + ".checkpoint"
    with failures_explained(), _blamed(data):
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

    data = Data(Cell.decode(spec), _named_inputs(spec, inputs))
    data.spec = spec
    return data


def _named_inputs(spec, inputs):
    if len(inputs) != len(spec["inputs"]):
        raise KoctError(f"this job reads {', '.join(spec['inputs'])}; --inputs has {len(inputs)} files")
    return dict(zip(spec["inputs"], inputs, strict=True))


def _blamed(data):
    from koct.contracts.blame import blamed

    return blamed(data.cell.problem.source, data.cell.arch.source)


def evaluate(fit, spec, pool, shared, out):
    from koct.base.device import failures_explained
    from koct.study import evaluation

    if os.environ.get("KOCT_DEVICE") == "cuda":  # on a cluster these jobs have no GPU
        os.environ["KOCT_DEVICE"] = "auto"
    with failures_explained():
        evaluation.evaluate(fit, _files(pool, shared), out, spec)


def _files(pool, shared):
    return {"pool": pool, **({"shared": shared} if shared else {})}


def collect(spec, cells, images):
    from koct.study import results

    results.collect(spec, cells, images)


def theory(spec, inputs, out):
    from koct.base.device import failures_explained
    from koct.contracts.blame import blamed
    from koct.study import predictions as theory

    files = _named_inputs(spec, inputs)
    with failures_explained(), blamed(spec["problem"]["source"], spec["arch"]["source"]):
        theory.predict(spec, files, out)


def collect_theory(spec, out):
    from koct.study import results

    results.collect_theory(spec, out)


def calibrate(cells, spec, curves, calibration):
    from koct.study import results

    results.aggregate(cells, spec, curves, calibration)


def budgets(cells, theory, spec, out):
    from koct.study import results

    results.budget(cells, theory, spec, out)


def crossings(cells, images, spec, out):
    from koct.study import crossings

    crossings.compute(cells, images, spec, out)


def chains(spec, shared, out):
    from koct.study import chains

    chains.write(spec, shared, out)


def ladder(cells, images, chains, spec, out, verdicts):
    from koct.study import ladder

    ladder.compute(cells, images, chains, spec, out, verdicts)


# verb: (function, what it does, its arguments)
IMAGES = file("--images", "the errors of every test image, which `collect` wrote")

VERBS = {
    "pool": (pool, "draw the pool of one seed", [SPEC, OUT]),
    "known": (known, "compute what a problem shares among all cells of a sweep", [SPEC, OUT]),
    "normal": (normal, "compute the normal matrix of a sweep's known operator", [SPEC, INPUTS, OUT]),
    "gram": (gram, "compute the Gram matrix of a pool's training measurements", [SPEC, POOL, OUT]),
    "fit": (
        fit,
        "fit and evaluate one cell",
        [
            SPEC,
            INPUTS,
            ("--outputs", {"nargs": "+", "metavar": "FILE", "help": "where to write the row (if wanted), and the fit"}),
        ],
    ),
    "fit-torchrun": (
        fit_torchrun,
        "fit one cell with several processes; started by torchrun, once per rank",
        [
            SPEC,
            INPUTS,
            OUT,
            ("--checkpoints", {"metavar": "FOLDER", "help": "where a checkpoint waits for the next run"}),
            optional("--checkpoint-minutes", "time between checkpoints (default: 5)", type=positive, default=5.0),
        ],
    ),
    "evaluate": (
        evaluate,
        "write the row of a fit",
        [file("fit", "what `fit` wrote"), REPORT, POOL, SHARED, OUT],
    ),
    "collect": (
        collect,
        "gather the rows of a study into Parquet",
        [
            SPEC,
            file("--cells", "where to write the cells"),
            file("--images", "where to write the errors of every test image"),
        ],
    ),
    "theory": (
        theory,
        "predict the curve of one architecture from a pool, before any fit",
        [SPEC, INPUTS, OUT],
    ),
    "collect-theory": (collect_theory, "gather the predicted curves of a study into Parquet", [SPEC, OUT]),
    "calibrate": (
        calibrate,
        "curves over seeds, and their floor and sigma",
        [
            file("cells", "what `collect` wrote"),
            SPEC,
            file("--curves", "where to write the curves"),
            file("--calibration", "where to write floor and sigma"),
        ],
    ),
    "budgets": (
        budgets,
        "how many samples reach every configured target",
        [
            file("cells", "what `collect` wrote"),
            THEORY,
            SPEC,
            OUT,
        ],
    ),
    "crossings": (
        crossings,
        "from which N on a network is better than what needs no sample, and than a smaller network",
        [file("cells", "what `collect` wrote"), IMAGES, SPEC, OUT],
    ),
    "chains": (chains, "the known and learned layers of a sweep's networks", [SPEC, SHARED, OUT]),
    "ladder": (
        ladder,
        "the order of a sweep's networks at every N, and what it wins to learn more",
        [
            file("cells", "what `collect` wrote"),
            IMAGES,
            ("--chains", {"nargs": "*", "metavar": "FILE", "help": "what `chains` wrote of every sweep"}),
            SPEC,
            OUT,
            file("--verdicts", "where to write the verdicts"),
        ],
    ),
}

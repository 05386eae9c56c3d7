"""Verbs of the workflow's jobs. Each is given its spec, the files that it reads and those that it writes, in order.

A verb imports what it runs inside its function: start-up is most of a small job, and the hash of a stage's code is that
of these imports (koct/workflow/sources.py).
"""

import os

from koct.commands.people import INPUTS, JOBS, OUTPUTS, RESULTS, SPEC, VERBS, argument, optional, positive, verb
from koct.errors import KoctError


def pool(spec, inputs, outputs):
    """draw the pool of one seed"""
    from koct.contracts import Sizes
    from koct.contracts.blame import blamed
    from koct.contracts.spec import decode_problem
    from koct.problems import pools

    problem = decode_problem(spec["problem"])
    sizes = Sizes(**{part: spec["sizes"][part] for part in pools.PARTS})
    with blamed(problem.source):
        pools.make(problem, spec["seed"], sizes, *outputs, spec)


def known(spec, inputs, outputs):
    """compute what a problem shares among all cells of a sweep"""
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    cells.write_shared(decode_problem(spec["problem"]), *outputs, spec)


def normal(spec, inputs, outputs):
    """compute the normal matrix of a sweep's known operator"""
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    cells.write_normal(decode_problem(spec["problem"]), inputs[0] if inputs else None, *outputs, spec)


def gram(spec, inputs, outputs):
    """compute the Gram matrix of a pool's training measurements"""
    from koct.contracts.spec import decode_problem
    from koct.study import cells

    cells.write_gram(decode_problem(spec["problem"]), *inputs, *outputs, spec)


def fit(spec, inputs, outputs):
    """fit and evaluate one cell: write its row, if wanted, and the fit, unless that is there"""
    from koct.contracts.blame import blamed
    from koct.study import cells, evaluation, fitting

    data = _data(spec, inputs, outputs)
    with blamed(data.cell.problem.source, data.cell.arch.source):
        about, errors = evaluation.kept(outputs[-1], data) or (None, None)
        if about is None:
            about, network = fitting.fit(data)
            errors = evaluation.errors(network, data)
            cells.write_fit(outputs[-1], data.stamp(data.spec, evaluation.remember(about, errors)), network)
        if len(outputs) > 1:
            evaluation.write_row(outputs[0], data.stamp(spec), data.cell, about, errors)


def fit_torchrun(spec, inputs, outputs, checkpoint_minutes):
    """fit one cell with several processes; started by torchrun, once per rank"""
    from koct.study import distributed

    data = _data(spec, inputs, outputs)
    data.checkpoint_minutes = checkpoint_minutes
    return distributed.fit(data, *outputs, spec)


def _data(spec, inputs, outputs):
    """The data of a cell. What evaluates is no matter of its fit, and a checkpoint beside that no output."""
    from koct.contracts.spec import Cell, of_fit
    from koct.study.cells import Data

    data = Data(Cell.decode(spec), _named(spec, inputs))
    data.spec = of_fit(spec)
    data.checkpoints = os.path.splitext(outputs[-1])[0] + ".checkpoint"
    return data


def _named(spec, inputs):
    """The files that a job reads by the names that its spec has for them."""
    if len(inputs) != len(spec["inputs"]):
        raise KoctError(f"this job reads {', '.join(spec['inputs'])}; --inputs has {len(inputs)} files")
    return dict(zip(spec["inputs"], inputs, strict=True))


def _need_no_gpu():
    """On a cluster jobs that only evaluate may have none."""
    if os.environ.get("KOCT_DEVICE") == "cuda":
        os.environ["KOCT_DEVICE"] = "auto"


def evaluate(spec, inputs, outputs):
    """write the row of a fit, from the fit, its pool and what its problem shares"""
    from koct.study import evaluation

    _need_no_gpu()
    fitted, *others = inputs
    evaluation.evaluate(fitted, dict(zip(("pool", "shared"), others, strict=False)), *outputs, spec)


def transfer(spec, inputs, outputs):
    """write the row of a fit on the test pairs of another sweep: from the fit, those, and what `evaluate` reads"""
    from koct.study import evaluation

    _need_no_gpu()
    fitted, tests, *others = inputs
    evaluation.transfer(fitted, dict(zip(("pool", "shared"), others, strict=False)), tests, *outputs, spec)


def collect(spec, inputs, outputs):
    """gather the rows of a study into Parquet: cells, and the errors of every test image"""
    from koct.study import aggregation

    aggregation.collect(spec, *outputs)


def theory(spec, inputs, outputs):
    """predict the curve of one architecture from a pool, before any fit"""
    from koct.contracts.blame import blamed
    from koct.study import predictions

    with blamed(spec["problem"]["source"], spec["arch"]["source"]):
        predictions.predict(spec, _named(spec, inputs), *outputs)


def collect_theory(spec, inputs, outputs):
    """gather the predicted curves of a study into Parquet"""
    from koct.study import aggregation

    aggregation.collect_theory(spec, *outputs)


def collect_transfer(spec, inputs, outputs):
    """gather the rows of networks on the test pairs of other sweeps, and on their own, into Parquet"""
    from koct.study import aggregation

    aggregation.collect_transfer(spec, inputs[0], *outputs)


def calibrate(spec, inputs, outputs):
    """from cells: curves over seeds, and their floor and sigma"""
    from koct.study import aggregation

    aggregation.aggregate(*inputs, spec, *outputs)


def budgets(spec, inputs, outputs):
    """from cells and predicted curves: how many samples reach every configured target"""
    from koct.study import aggregation

    cells, *theory = inputs
    aggregation.budget(cells, theory[0] if theory else None, spec, *outputs)


def crossings(spec, inputs, outputs):
    """from cells and images: from which N on a network is better than a simpler one, or one that needs no sample"""
    from koct.study import crossings

    crossings.compute(*inputs, spec, *outputs)


def chains(spec, inputs, outputs):
    """the known and learned layers of a sweep's networks"""
    from koct.study import chains

    chains.write(spec, inputs[0] if inputs else None, *outputs)


def ladder(spec, inputs, outputs):
    """from cells, images and chains: the order of a sweep's networks at every N, and what it wins to learn more"""
    from koct.study import ladder

    cells, images, *chains = inputs
    ladder.compute(cells, images, chains, spec, *outputs)


def figure_recons(spec, inputs, outputs):
    """from the fits of a seed, their pool and what the problem shares: test images and their reconstructions"""
    from koct.report.figures import fig_recons

    _need_no_gpu()
    count = len(inputs) - len(spec["inputs"])
    fig_recons.recons(inputs[:count], _named(spec, inputs[count:]), outputs, spec)


def crate(spec, inputs, outputs):
    """an RO-Crate that describes the results of a study"""
    from koct.report import crate

    crate.write(inputs, *outputs, spec)


@verb(
    RESULTS,
    "product",
    "a table, figure or page of results, like table_calibration or fig_sweeps",
    argument("name", "its name: that of its file in koct/report", "NAME"),
    argument("files", "what it is made from, in the order of its `reads`", nargs="*"),
    (SPEC[0], {**SPEC[1], "required": False}),
    argument("--out", "where to write; the ending says the format", nargs="+"),
)
def product(name, files, spec, out):
    from koct.report import products

    products.make(name, files, out, spec)


OF_CELLS = (pool, known, normal, gram, fit, fit_torchrun, evaluate, transfer, theory)
COLLECTING = (collect, collect_theory, collect_transfer)
OF_STUDIES = (*COLLECTING, calibrate, budgets, crossings, chains, ladder, figure_recons, crate)
for stage in OF_CELLS + OF_STUDIES:
    verb(JOBS, stage.__name__.replace("_", "-"), stage.__doc__, SPEC, INPUTS, OUTPUTS)(stage)
VERBS["fit-torchrun"][2].append(
    optional("--checkpoint-minutes", "time between checkpoints (default: 5)", type=positive, default=5.0)
)

"""What the verbs of the command line do. Each imports only what it needs, since start-up is most of a small job."""

import json
import os

from koct.errors import KoctError


def pool(spec, seed, out):
    from koct.blame import blamed
    from koct.contracts import Sizes
    from koct.problems import pools
    from koct.spec import decode_problem

    problem = decode_problem(spec["problem"])
    with blamed(problem.source):
        pools.make(problem, seed, Sizes.build(spec["sizes"]), out)


def known(spec, out):
    from koct import cells
    from koct.spec import decode_problem

    cells.write_shared(decode_problem(spec["problem"]), out)


def normal(spec, inputs, out):
    from koct import cells
    from koct.spec import decode_problem

    cells.write_normal(decode_problem(spec["problem"]), inputs[0] if inputs else None, out)


def gram(spec, pool, out):
    from koct import cells
    from koct.device import failures_explained
    from koct.spec import decode_problem

    with failures_explained():
        cells.write_gram(decode_problem(spec["problem"]), pool, out)


def fit(spec, inputs, outputs):
    """Fit and evaluate. `outputs` are the row and the fit; if only the fit, it keeps the errors for `evaluate`."""
    from koct import cells, evaluation
    from koct.device import failures_explained
    from koct.files import write_text

    data = _data(spec, inputs)
    with failures_explained(), _blamed(data):
        about, network = cells.fit(data)
        errors = evaluation.errors(network, data)
        cells.write_fit(outputs[-1], evaluation.remember(about, errors), network)
        if len(outputs) > 1:
            write_text(outputs[0], evaluation.row(about, errors))


def fit_torchrun(spec, inputs, out, checkpoints, checkpoint_minutes):
    from koct import distributed

    data = _data(spec, inputs)
    data.checkpoints, data.checkpoint_minutes = checkpoints, checkpoint_minutes
    return distributed.fit(data, out)


def _data(spec, inputs):
    """The data of a cell: `inputs` are the files that the spec names."""
    from koct.cells import Data
    from koct.spec import Cell

    if len(inputs) != len(spec["inputs"]):
        raise KoctError(f"this cell reads {', '.join(spec['inputs'])}; --inputs has {len(inputs)} files")
    return Data(Cell.decode(spec), dict(zip(spec["inputs"], inputs, strict=True)))


def _blamed(data):
    from koct.blame import blamed

    return blamed(data.cell.problem.source, data.cell.arch.source)


def evaluate(fit, pool, shared, out):
    from koct import evaluation
    from koct.device import failures_explained

    if os.environ.get("KOCT_DEVICE") == "cuda":  # on a cluster these jobs have no GPU
        os.environ["KOCT_DEVICE"] = "auto"
    with failures_explained():
        evaluation.evaluate(fit, _files(pool, shared), out)


def _files(pool, shared):
    return {"pool": pool, **({"shared": shared} if shared else {})}


def untrained(spec, seeds, pools, shared, out):
    from koct import evaluation
    from koct.device import failures_explained
    from koct.spec import decode_problem

    with failures_explained():
        evaluation.untrained(spec["sweep"], decode_problem(spec["problem"]), seeds, pools, shared, out)


def collect(study, cells, untrained):
    from koct import results

    results.collect(study, cells, untrained)


def calibrate(cells, metrics, curves, calibration):
    from koct import results

    results.aggregate(cells, metrics, curves, calibration)


def table_calibration(calibration, out):
    from koct.report import tables

    tables.calibration(calibration, out)


def figure_sweeps(cells, curves, calibration, untrained, out):
    from koct.report import figures

    figures.sweeps(cells, curves, calibration, untrained, out)


def figure_recons(fits, pool, shared, out):
    from koct.report import recons

    recons.recons(fits, _files(pool, shared), out)


def table_scaling(curves, calibration, out):
    from koct.report import tables

    tables.scaling(curves, calibration, out)


def table_fullscale(out):
    from koct.report import tables

    tables.fullscale(out)


def norms(out):
    from koct import norms
    from koct.report.tables import PRINTED

    norms.compute(PRINTED["operating_points"], out)


def table_structural(norms, out):
    from koct.report import tables

    tables.structural(norms, out)


def budgets(cells, wanted, out):
    from koct import results

    results.budget(cells, wanted, out)


def table_budget(budgets, out):
    from koct.report import tables

    tables.budget(budgets, out)


def bound(network, samples):
    from koct.risk.bound import format_table, read_network

    print(format_table(read_network(network), samples), end="")


def budget(pilot, target, metric, sweep, law, assurance, plot, json):
    from koct.report import budget as report
    from koct.risk.pilot import read_pilots

    if plot:
        report.check_format(plot)
    plans = report.plans(read_pilots(pilot, metric, sweep), target, law, assurance)
    if plot:
        report.plot(plans, target, plot, metric or "error")
    if json:
        print(report.as_json(plans, assurance=assurance, metric=metric or "error", sweep=sweep))
    else:
        print(report.as_text(plans, target, assurance), end="")


def compare(fresh, reference, tolerance):
    from koct.report.compare import compare

    text, agree = compare(fresh, reference, tolerance)
    print(text, end="")
    return 0 if agree else 1


def config(file, schema):
    from koct.workflow import docs

    if schema:
        print(json.dumps(docs.schema(), indent=1))
    else:
        print(docs.document_file(file) if file else docs.document(), end="")

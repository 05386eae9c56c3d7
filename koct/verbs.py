"""What the verbs of the command line do. Each imports only what it needs, since start-up is most of a small job."""

import json
import os

from koct.errors import KoctError


def pool(spec, out):
    from koct.blame import blamed
    from koct.contracts import Sizes
    from koct.problems import pools
    from koct.spec import decode_problem

    problem = decode_problem(spec["problem"])
    with blamed(problem.source):
        pools.make(problem, spec["seed"], Sizes.build(spec["sizes"]), out, spec)


def known(spec, out):
    from koct import cells
    from koct.spec import decode_problem

    cells.write_shared(decode_problem(spec["problem"]), out, spec)


def normal(spec, inputs, out):
    from koct import cells
    from koct.spec import decode_problem

    cells.write_normal(decode_problem(spec["problem"]), inputs[0] if inputs else None, out, spec)


def gram(spec, pool, out):
    from koct import cells
    from koct.device import failures_explained
    from koct.spec import decode_problem

    with failures_explained():
        cells.write_gram(decode_problem(spec["problem"]), pool, out, spec)


def fit(spec, inputs, outputs):
    """Fit and evaluate. `outputs` are the row and the fit; if only the fit, it keeps the errors for `evaluate`."""
    from koct import cells, evaluation
    from koct.device import failures_explained

    data = _data(spec, inputs)
    with failures_explained(), _blamed(data):
        about, network = cells.fit(data)
        errors = evaluation.errors(network, data)
        cells.write_fit(outputs[-1], data.stamp(spec, evaluation.remember(about, errors)), network)
        if len(outputs) > 1:
            evaluation.write_row(outputs[0], data.stamp(spec), data.cell, about, errors)


def fit_torchrun(spec, inputs, out, checkpoints, checkpoint_minutes):
    from koct import distributed

    data = _data(spec, inputs)
    data.checkpoints, data.checkpoint_minutes = checkpoints, checkpoint_minutes
    return distributed.fit(data, out, spec)


def _data(spec, inputs):
    """The data of a cell: `inputs` are the files that the spec names."""
    from koct.cells import Data
    from koct.spec import Cell

    return Data(Cell.decode(spec), _named_inputs(spec, inputs))


def _named_inputs(spec, inputs):
    if len(inputs) != len(spec["inputs"]):
        raise KoctError(f"this job reads {', '.join(spec['inputs'])}; --inputs has {len(inputs)} files")
    return dict(zip(spec["inputs"], inputs, strict=True))


def _blamed(data):
    from koct.blame import blamed

    return blamed(data.cell.problem.source, data.cell.arch.source)


def evaluate(fit, spec, pool, shared, out):
    from koct import evaluation
    from koct.device import failures_explained

    if os.environ.get("KOCT_DEVICE") == "cuda":  # on a cluster these jobs have no GPU
        os.environ["KOCT_DEVICE"] = "auto"
    with failures_explained():
        evaluation.evaluate(fit, _files(pool, shared), out, spec)


def _files(pool, shared):
    return {"pool": pool, **({"shared": shared} if shared else {})}


def untrained(spec, pools, shared, out):
    from koct import evaluation
    from koct.device import failures_explained

    with failures_explained():
        evaluation.untrained(spec, pools, shared, out)


def collect(spec, cells, untrained):
    from koct import results

    results.collect(spec, cells, untrained)


def theory(spec, inputs, out):
    from koct import theory
    from koct.blame import blamed
    from koct.device import failures_explained

    files = _named_inputs(spec, inputs)
    with failures_explained(), blamed(spec["problem"]["source"], spec["arch"]["source"]):
        theory.predict(spec, files, out)


def collect_theory(spec, out):
    from koct import results

    results.collect_theory(spec, out)


def calibrate(cells, spec, curves, calibration):
    from koct import results

    results.aggregate(cells, spec, curves, calibration)


def table_calibration(calibration, spec, out):
    from koct.report import tables

    tables.calibration(calibration, out, spec)


def figure_sweeps(cells, curves, calibration, untrained, theory, spec, out):
    from koct.report import figures

    figures.sweeps(cells, curves, calibration, untrained, theory, out, spec)


def figure_theory(theory, spec, out):
    from koct.report import theory as report

    report.figure(theory, out, spec)


def table_theory(theory, cells, spec, out):
    from koct.report import theory as report

    report.table(theory, cells, out, spec)


def figure_recons(fits, pool, shared, spec, out):
    from koct.report import recons

    recons.recons(fits, _files(pool, shared), out, spec)


def table_scaling(curves, calibration, spec, out):
    from koct.report import tables

    tables.scaling(curves, calibration, out, spec)


def table_fullscale(spec, out):
    from koct.report import tables

    tables.fullscale(out, spec)


def norms(spec, out):
    from koct import norms
    from koct.report.tables import PRINTED

    norms.compute(PRINTED["operating_points"], out, spec)


def table_structural(norms, spec, out):
    from koct.report import tables

    tables.structural(norms, out, spec)


def budgets(cells, theory, spec, out):
    from koct import results

    results.budget(cells, theory, spec, out)


def table_budget(budgets, spec, out):
    from koct.report import tables

    tables.budget(budgets, out, spec)


def chains(spec, shared, out):
    from koct import chains

    chains.write(spec, shared, out)


def ladder(cells, chains, spec, out, verdicts):
    from koct import ladder

    ladder.compute(cells, chains, spec, out, verdicts)


def figure_ladder(ladder, spec, out):
    from koct.report import ladder as report

    report.figure(ladder, out, spec)


def table_ladder(ladder, calibration, budgets, spec, out):
    from koct.report import ladder as report

    report.table(ladder, calibration, budgets, out, spec)


def table_conditions(curves, calibration, budgets, spec, out):
    from koct.report import conditions

    conditions.table(curves, calibration, budgets, out, spec)


def html_tables(tables, spec, out):
    from koct.report import html_tables

    html_tables.convert(tables, out, spec)


def previews(pictures, spec, out):
    from koct.report import previews

    previews.reduce(pictures, out, spec)


def claims(cells, curves, calibration, untrained, budgets, spec, out):
    from koct.report import claims

    claims.report(cells, curves, calibration, untrained, budgets, out, spec)


def crate(files, spec, out):
    from koct.report import crate

    crate.write(files, out, spec)


def bound(network, arch, C, n, kappa, samples, trivial):
    from koct.report.bound import format_table
    from koct.risk.bound import Network, read_network

    constants = {name: value for name, value in (("C", C), ("n", n), ("kappa", kappa)) if value is not None}
    if arch is not None:
        from koct import chains

        read = chains.network(network, arch, constants)
    elif constants:
        raise KoctError("--C, --n and --kappa go with --arch; in a YAML file write them behind each learned layer")
    elif network.endswith(".json"):
        raise KoctError(f"{network} has the layers of several networks; choose one with --arch")
    else:
        read = read_network(network)
    print(format_table(read if trivial is None else Network(read.layers, trivial), samples), end="")


def budget(
    pilot,
    target,
    metric,
    higher,
    group,
    test_size,
    sweep,
    law,
    assurance,
    pairs,
    pairs_arch,
    lam,
    nonnegative,
    plot,
    json,
):
    from koct.report import budget as report
    from koct.risk import scores
    from koct.risk.laws import ALONE, LAWS
    from koct.risk.pilot import PilotFile

    if plot:
        report.check_format(plot)
    if not pairs and (pairs_arch or lam or nonnegative):
        raise KoctError("--pairs-arch, --lam and --nonnegative are about pairs; give --pairs, or omit them")
    if pairs and law in LAWS | ALONE:
        raise KoctError(f"--law {law} makes no use of pairs; omit --pairs, or take --law auto or theory")
    score = scores.named(metric, higher)
    targets = list(dict.fromkeys(target if score is None else map(score.target, target)))
    file, curves = PilotFile(pilot), {}
    pilots = file.pilots(metric, sweep, higher, group, test_size)
    if pairs:
        from koct.risk.curve import Curve, read_pairs
        from koct.risk.spectral import Spectral
        from koct.workflow.limits import machine_memory

        arch = report.arch_of_pairs(pilots, pairs_arch)
        curves[arch] = Curve(Spectral(nonnegative).fit(*read_pairs(pairs, machine_memory())), lam)
    plans = report.plans(pilots, targets, law, assurance, curves)
    name = metric or ("error" if score is None else score.name)
    if plot:
        from koct.report import budget_figure

        budget_figure.plot(plans, plot, name, score, assurance)
    _note(*file.notes)
    if json:
        print(report.as_json(plans, score, assurance=assurance, metric=name, sweep=sweep))
    else:
        print(report.as_text(plans, assurance, score), end="")


def planner(pilot, metric, higher, group, test_size, sweep, spec, out):
    from koct.report.planner import page
    from koct.risk.pilot import PilotFile

    file = PilotFile(pilot)
    page.write(file, out, metric, higher, group, test_size, sweep, spec)
    _note(*dict.fromkeys(file.notes))


def next_runs(pilot, target, arch, metric, sweep, higher, group, test_size, factor, budget, largest, overlay, json):
    from koct import files
    from koct.report import next_runs as report
    from koct.risk import scores
    from koct.risk.next_runs import Cost
    from koct.risk.pilot import PilotFile

    if overlay:
        report.check_overlay(overlay)
    score = scores.named(metric, higher)
    aim = target if score is None else score.target(target)
    file = PilotFile(pilot)
    pilots = file.pilots(metric, sweep, higher, group, test_size)
    column, runs = file.costs(sweep) or (None, {})
    costs = {name: Cost.fitted(N, cost, column) for name, (N, cost) in runs.items()}
    found = report.designs(pilots, aim, costs, arch, factor, budget, largest)
    made = report.overlay(file, sweep, found) if overlay else None
    told = report.overlay_text(made, overlay).splitlines() if made else []
    if made and made.added:
        files.write_text(overlay, made.as_yaml())
    if json:
        name = metric or ("error" if score is None else score.name)
        print(report.as_json(found, score, metric=name, sweep=sweep))
        _note(*file.notes, *told)
    else:
        _note(*file.notes)
        print(report.as_text(found, score), *told, sep="\n", end="\n" if told else "")


def _note(*sentences):
    """Tell on stderr what is not part of the answer."""
    from koct import failures

    for sentence in sentences:
        failures.say(f"koct: note: {sentence}")


def curve(pairs, target, at, lam, nonnegative, plot, json):
    from koct.report import budget
    from koct.report import curve as report
    from koct.risk.curve import Curve, read_pairs
    from koct.risk.spectral import Spectral
    from koct.workflow.limits import machine_memory

    if plot:
        budget.check_format(plot)
    found = Curve(Spectral(nonnegative).fit(*read_pairs(pairs, machine_memory())), lam)
    points = found.at(at) if at else found.octaves
    if plot:
        report.plot(found, target, plot)
    show = report.as_json if json else report.as_text
    print(show(found, points, target).rstrip())


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

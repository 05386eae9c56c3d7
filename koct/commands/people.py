"""Verbs that people type."""

from koct.commands.arguments import (
    OUT,
    PILOT,
    READING,
    file,
    name_of,
    named_number,
    number,
    optional,
    positive,
    sizes,
    targets,
    tolerance,
    whole,
)
from koct.errors import KoctError


def bound(network, arch, C, n, kappa, samples, trivial, mismatch, input):
    from koct.bound.theorem import BoundNetwork, read_network
    from koct.report.text.bound_text import format_table

    constants = {name: value for name, value in (("C", C), ("n", n), ("kappa", kappa)) if value is not None}
    if arch is not None:
        from koct.study import chains

        read = chains.network(network, arch, constants)
    elif constants:
        raise KoctError("--C, --n and --kappa go with --arch; in a YAML file write them behind each learned layer")
    elif network.endswith(".json"):
        raise KoctError(f"{network} has the layers of several networks; choose one with --arch")
    else:
        read = read_network(network)
    read = read if trivial is None else BoundNetwork(read.layers, trivial)
    print(format_table(read, samples, dict(mismatch or ()), input or 0.0), end="")


def _pilot(path, reading=None):
    """A pilot file; a table of koct's own that is damaged is refused.

    Where `reading` names no metric, it gets that of the sweep in the study that made the file.
    """
    from koct.base import stamps
    from koct.forecast.pilot import PilotFile
    from koct.report.labels import names_of

    file = PilotFile(path)
    if file.data.startswith(b"PAR1"):
        stamps.check_table(path, file.data)
        if reading and reading["metric"] is None and reading["higher"] is None:
            sweep = reading["sweep"] or file.sweeps()[0]
            reading["metric"] = names_of(file).sweeps.get(sweep, {}).get("metric")
    return file


def _score(metric, higher, **_):
    """(the score in the column of a metric or None, its name)."""
    from koct.forecast import scores

    score = scores.named(metric, higher)
    return score, metric or ("error" if score is None else score.name)


def budget(pilot, target, at, law, assurance, pairs, pairs_arch, lam, nonnegative, plot, json, **reading):
    from koct.forecast.laws import LAWS
    from koct.report.labels import names_of
    from koct.report.text import budget_text as report

    if plot:
        report.check_format(plot)
    if plot and not target:
        raise KoctError("--plot draws a target; give one with --target, or omit --plot")
    if not pairs and (pairs_arch or lam or nonnegative):
        raise KoctError("--pairs-arch, --lam and --nonnegative are about pairs; give --pairs, or omit them")
    if pairs and law in LAWS:
        raise KoctError(f"--law {law} makes no use of pairs; omit --pairs, or take --law auto or theory")
    if not (target or at):
        raise KoctError("--target is what to reach, and --at an N whose error to predict; give one of them, or both")
    file, curves = _pilot(pilot, reading), {}
    score, name = _score(**reading)
    targets = list(dict.fromkeys(target or [] if score is None else map(score.target, target or [])))
    pilots = file.pilots(**reading)
    if pairs:
        curves[report.arch_of_pairs(pilots, pairs_arch)] = _curve(pairs, lam, nonnegative)
    forecasts = report.forecasts(pilots, law, curves)
    plans = report.plans(forecasts, targets, assurance) if targets else []
    rows = report.at_rows(forecasts, at or [], targets, assurance)
    unit = names_of(file).counted(reading["sweep"] or file.sweeps()[0])
    if plot:
        from koct.report.text.plots import plot_budget

        plot_budget(plans, plot, name, score, assurance, unit)
    _note(*file.notes)
    if json:
        print(report.as_json(plans, score, rows, assurance=assurance, metric=name, sweep=reading["sweep"]))
        return
    texts = [report.as_text(plans, assurance, score, unit)] if targets else []
    texts += [report.at_text(rows, targets, assurance, score, unit)] if rows else []
    print(*texts, sep="\n", end="")


def planner(pilot, out, **reading):
    from koct.report.pages import planner_page

    file = _pilot(pilot)
    print(planner_page.write_page(file, out, **reading))
    _note(*dict.fromkeys(file.notes))


def next_runs(pilot, target, arch, factor, budget, largest, json, **reading):
    from koct.forecast.next_runs import RunCost
    from koct.report.text import next_text as report

    file = _pilot(pilot, reading)
    (score, name), sweep = _score(**reading), reading["sweep"]
    aim = target if score is None else score.target(target)
    pilots = file.pilots(**reading)
    column, runs = file.costs(sweep) or (None, {})
    costs = {name: RunCost.fitted(N, cost, column) for name, (N, cost) in runs.items()}
    plans = report.designs(pilots, aim, costs, arch, factor, budget, largest)
    _note(*file.notes)
    print(report.as_json(plans, score, metric=name, sweep=sweep) if json else report.as_text(plans, score).rstrip())


def _note(*sentences):
    """Tell on stderr what is not part of the answer."""
    from koct.base import failures

    for sentence in sentences:
        failures.say(f"koct: note: {sentence}")


def _curve(pairs, lam, nonnegative):
    """The curve that the pairs in files predict."""
    from koct.base.memory import total_memory
    from koct.prediction.curve import Curve, read_pairs
    from koct.prediction.spectral import Spectral

    return Curve(Spectral(nonnegative).fit(*read_pairs(pairs, total_memory())), [lam] if lam is not None else None)


def curve(pairs, target, at, lam, nonnegative, plot, json):
    from koct.report.text import budget_text as budget
    from koct.report.text import curve_text as report

    if plot:
        budget.check_format(plot)
    predicted = _curve(pairs, lam, nonnegative)
    points = predicted.at(at) if at else predicted.octaves
    if plot:
        from koct.report.text.plots import plot_curve

        plot_curve(predicted, target, plot)
    show = report.as_json if json else report.as_text
    print(show(predicted, points, target).rstrip())


def know(pairs, layers, set, plot, json):
    import contextlib
    import io

    import numpy as np

    from koct.base.memory import total_memory
    from koct.config import contract_suite, study_file
    from koct.contracts.blame import blamed
    from koct.prediction.curve import read_pairs
    from koct.report.text import budget_text, know_text
    from koct.study.knowing import Knowing

    if plot:
        budget_text.check_format(plot)
    entry = {**contract_suite.GRID, "problem": layers, "archs": ["untrained"], **_settings(set)}
    try:
        problem = study_file.build("it", entry).problem
    except KoctError as error:
        raise KoctError(str(error).replace("config: sweeps.it.", "--set ")) from None
    x, y = read_pairs(pairs, total_memory())
    with blamed(layers), contextlib.redirect_stdout(io.StringIO()):  # what a problem says of its progress
        knowing = Knowing(problem, x, y)
        repairs, crossing = knowing.repairs(), knowing.crossing()
    if plot:
        from koct.report.text.plots import plot_crossing

        plot_crossing(crossing, len(x), plot)
    show = know_text.as_json if json else know_text.as_text
    print(show(len(x), float(np.mean(np.square(y, dtype=float))), repairs, crossing).rstrip())


def _settings(texts):
    """The keys of a sweep from `--set`; a point leads to the options of a network."""
    import yaml

    settings = {}
    for text in texts or []:
        key, _, value = text.partition("=")
        section, _, option = key.rpartition(".")
        (settings.setdefault(section, {}) if section else settings)[option] = yaml.safe_load(value)
    return settings


def compare(fresh, reference, tolerance):
    from koct.report.text.compare_text import compare

    text, agree = compare(fresh, reference, tolerance)
    print(text, end="")
    return 0 if agree else 1


def check(files, set):
    from koct.config import contract_suite

    return 0 if contract_suite.run(files, _settings(set)) else 1


def config(file):
    from koct.config import docs

    print(docs.document_file(file) if file else docs.document(), end="")


TARGET = {"help": "the error to reach, or the score if the metric is one; `budget` takes several"}


def init(folder):
    import os
    import shutil
    import tempfile
    from pathlib import Path

    import koct

    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise KoctError(f"{folder} exists and is not an empty folder; give the name of a new one")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.absolute().parent) as place:
        shutil.copytree(Path(__file__).with_name("study"), made := Path(place) / "study", ignore=_compiled)
        os.rename(made, target)  # whole, or not at all
    snakefile = Path(koct.__file__).resolve().parents[1] / "Snakefile"
    where = f"--snakefile {snakefile} " if snakefile.exists() else "--snakefile CLONE/Snakefile "
    print(f"Written to {folder}: problem.py draws pairs, network.py learns them, config.yaml puts both on a grid.\n")
    print(f"  koct check {folder}/problem.py {folder}/network.py --set length=64 --set blur=1.5   # seconds")
    print(f"  snakemake {where}--directory {folder}   # a minute or two; then see {folder}/results")
    print(f"  koct budget {folder}/results/cells.parquet --target 0.005   # how many samples that takes")


def _compiled(_, names):
    return [name for name in names if name == "__pycache__"]


# What people type first: group: (verbs, an example)
GROUPS = {
    "From a pilot to the number of samples": (
        ("budget", "planner", "next"),
        "koct budget docs/pilot.csv --target 0.002",
    ),
    "Before any training": (("curve", "know", "bound"), "koct curve pairs.npz --target 0.01"),
    "A study of your own": (("init", "check", "config"), "koct init mystudy"),
    "Results": (("compare", "product"), "koct compare results/cells.parquet results/reference/cells.parquet"),
}

# verb: (function, what it does, its arguments)
VERBS = {
    "init": (
        init,
        "write a small study of your own to a new folder: problem, network and config, with comments",
        [("folder", {"metavar": "FOLDER", "help": "a new folder"})],
    ),
    "bound": (
        bound,
        "the risk bound of a layered network, layer by layer",
        [
            ("network", {"metavar": "NETWORK.yaml", "help": "its layers; docs/how-many-samples.md shows one"}),
            optional("--arch", "a network of a sweep, where the file is results/chains/SWEEP.json", metavar="NAME"),
            optional("--C", "with --arch, the Barron constant of its learned layers", type=number, metavar="C"),
            optional("--n", "with --arch, their approximation width", type=number, metavar="n"),
            optional("--kappa", "with --arch, their squared error per parameter", type=number, metavar="K"),
            ("--samples", {"type": whole, "metavar": "N", "help": "training samples"}),
            optional(
                "--trivial",
                "the mean-square error of always predicting zero, E‖y‖²: a bound above it is called vacuous",
                type=number,
                metavar="E",
            ),
            optional(
                "--mismatch",
                "the distance of a known layer from the true one, in operator norm; may be given several times",
                type=named_number,
                action="append",
                metavar="LAYER=DISTANCE",
            ),
            optional("--input", "with --mismatch, the root of the mean ‖x‖²", type=positive, metavar="R"),
        ],
    ),
    "budget": (
        budget,
        "how many samples reach a target error, from pilot runs",
        [
            PILOT,
            ("--target", {**TARGET, "type": targets, "action": "extend", "metavar": "E[,E...]", "required": False}),
            optional(
                "--at", "predict the error at these N, and the chances of the targets", type=sizes, metavar="N,N,..."
            ),
            *READING,
            optional(
                "--law",
                "auto (default), power, pow4, mmf4, broken, slope, fading, last or, with --pairs, theory",
                default="auto",
            ),
            optional("--assurance", "reach the target in this share of runs, like 0.9", type=number, metavar="P"),
            optional("--pairs", ".npz with x and y, or two .npy: pairs of a dense network", nargs="+", metavar="FILE"),
            optional(
                "--pairs-arch",
                "the arch that the pairs are about, if the pilot has several",
                type=name_of,
                metavar="ARCH",
            ),
            optional("--lam", "its ridge strength (default: the best of a grid)", type=positive, metavar="L"),
            optional("--nonnegative", "its predictions are cut off at zero, as by a ReLU", action="store_true"),
            optional("--plot", "draw points, law, interval and targets (.pdf, .png, .svg)", metavar="FILE"),
            optional("--json", "print a list with one object per target and arch", action="store_true"),
        ],
    ),
    "planner": (
        planner,
        "a page with answers for a grid of targets: the forecasts of a pilot in one HTML file, for a browser",
        [PILOT, *READING, OUT],
    ),
    "next": (
        next_runs,
        "which runs to add to a pilot: those that narrow the interval most for their cost",
        [
            file("pilot", "what `budget` takes; a column seconds or cost says what a run costs"),
            ("--target", {**TARGET, "type": number, "metavar": "E"}),
            optional("--arch", "plan for this arch only", type=name_of),
            *READING,
            optional(
                "--factor",
                "the interval is narrow enough when its upper end is this many times its lower one (default: 4)",
                type=number,
                metavar="F",
            ),
            optional("--budget", "what the new runs of an arch may cost together", type=positive, metavar="COST"),
            optional("--largest", "the largest N to consider (default: 4 times the pilot's)", type=whole, metavar="N"),
            optional("--json", "print a list with one object per arch", action="store_true"),
        ],
    ),
    "curve": (
        curve,
        "the learning curve that pairs predict for a linear network, before any training",
        [
            ("pairs", {"nargs": "+", "metavar": "FILE", "help": ".npz with arrays x and y, or two .npy, x first"}),
            optional("--target", "say how many samples reach this mean squared error", type=positive, metavar="E"),
            optional("--at", "predict for these N, like 16,64,256 (default: octaves)", type=sizes, metavar="N,N,..."),
            optional("--lam", "the ridge strength (default: the best one at every N)", type=positive, metavar="L"),
            optional("--nonnegative", "predictions are cut off at zero, as by a ReLU", action="store_true"),
            optional("--plot", "draw the curve, its interval and the target (.pdf, .png, .svg)", metavar="FILE"),
            optional("--json", "print points and, for a target, n, n_low, n_high, reachable", action="store_true"),
        ],
    ),
    "know": (
        know,
        "what a known operator explains of pairs, what would repair it, and from which N on learning everything pays",
        [
            ("pairs", {"nargs": "+", "metavar": "FILE", "help": ".npz with arrays x and y, or two .npy, x first"}),
            (
                "--layers",
                {"metavar": "PROBLEM", "help": "whose known layers lead from x to y: one of koct, or FILE.py"},
            ),
            optional("--set", "an option of the problem, such as H=32", action="append", metavar="KEY=VALUE"),
            optional("--plot", "draw both curves and where they cross (.pdf, .png, .svg)", metavar="FILE"),
            optional("--json", "print repairs, crossing and curves", action="store_true"),
        ],
    ),
    "compare": (
        compare,
        "compare the cells of a run with those of a reference; exit status 1 if their curves differ",
        [
            file("fresh", "cells.parquet of the run"),
            file("reference", "cells.parquet to compare with"),
            optional(
                "--tolerance", "largest relative difference of a curve (default: 0.005)", type=tolerance, default=0.005
            ),
        ],
    ),
    "check": (
        check,
        "try problems and networks of your own on a small pool; exit status 1 if one breaks a promise of its contract",
        [
            ("files", {"nargs": "+", "metavar": "FILE.py", "help": "a problem, networks, or both: docs/your-own.md"}),
            optional(
                "--set",
                "a key of the sweep, such as H=16 or cnn.channels=4; may be given several times",
                action="append",
                metavar="KEY=VALUE",
            ),
        ],
    ),
    "config": (
        config,
        "print what every key of config.yaml means",
        [
            (
                "file",
                {"nargs": "?", "metavar": "FILE.py", "help": "a problem or architecture of your own: its options"},
            ),
        ],
    ),
}

"""Verbs that people type, and how the arguments of all verbs are read."""

import argparse
import json
import os
import re
import sys
from typing import Any

from koct.errors import KoctError

LARGEST = 10**18  # of a whole number: one that fits into 64 bits, and into a float


class Spec(dict):
    """What a job depends on, as the workflow writes it."""

    def __missing__(self, key):
        raise KoctError(f"--spec lacks the key {key!r}; snakemake writes specs: copy one from --printshellcmds")


def json_object(text):
    try:
        found = json.loads(sys.stdin.read() if text == "-" else text, object_hook=Spec)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("is not a JSON object")
    return found


def number(text):
    try:
        return float(text)
    except ValueError:
        comma = ": write decimals with a point, like 0.05" if "," in text else ""
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number{comma}") from None


def targets(text):
    """Numbers with commas between them, unless it looks like a decimal comma."""
    if re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
        return [number(text)]
    return [number(part) for part in text.split(",")]


def sizes(text):
    return [whole(part) for part in text.split(",")]


def positive(text):
    value = number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not above zero and finite")
    return value


def tolerance(text):
    return positive(text) if number(text) else 0.0


def named_number(text):
    """NAME=NUMBER."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a name and a number, such as K=0.05")
    return name, number(value)


def name_of(text):
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; give one, or omit the option")
    return text


def whole(text):
    try:
        value = int(text)
    except ValueError:
        value = LARGEST
    if abs(value) >= LARGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number, or has too many digits")
    return value


def argument(name, help, metavar="FILE", **settings):
    return name, {"help": help, "metavar": metavar, **settings}


def optional(name, help, metavar=None, **settings):
    return name, {"required": False, "help": help, **({"metavar": metavar} if metavar else {}), **settings}


SPEC = argument("--spec", "what the stage depends on; - reads it from standard input", "JSON", type=json_object)
INPUTS = argument("--inputs", "what it reads", nargs="*", required=False, default=[])
OUTPUTS = argument("--outputs", "what it writes", nargs="+")
PILOT = argument("pilot", "CSV or Parquet, or - for standard input: N, error and, if there are several, seed and arch")
PAIRS = argument("pairs", ".npz with arrays x and y, or two .npy, x first", nargs="+")
METRIC = "the column, of errors or of a score like psnr; a 2 at its end squares it (default: the one there is)"
COLUMNS = "what N, error, arch, seed or group is called in the pilot (default: by synonyms); docs/how-many-samples.md"
HIGHER = "the metric is a score, where higher is better, and BEST is the best one (default: 1)"
READING = [  # how a pilot is read
    optional("--columns", COLUMNS, type=name_of, metavar="N=COLUMN,..."),
    optional("--metric", METRIC, type=name_of),
    optional("--higher", HIGHER, type=number, nargs="?", const=1.0, metavar="BEST"),
    optional("--group", "the column whose runs are not independent, like patient", type=name_of, metavar="COLUMN"),
    optional("--test-size", "how many test samples an error rate is counted on", type=whole, metavar="K"),
    optional("--sweep", "take the rows with this value in the column sweep", type=name_of),
]
TARGET = "the error to reach, or the score if the metric is one; `budget` takes several"
PILOTS, BEFORE = "From a pilot to the number of samples", "Before any training"
STUDIES, RESULTS, JOBS = "A study of your own", "Results", "What the rules of the workflow call"
EXAMPLES = {  # of the groups that people see, in their order
    PILOTS: "koct budget docs/pilot.csv --target 0.002",
    BEFORE: "koct curve pairs.npz --target 0.01",
    STUDIES: "koct init mystudy",
    RESULTS: "koct compare results/cells.parquet results/reference/cells.parquet",
}
VERBS: dict[str, Any] = {}  # verb: (function, what it does, its arguments, its group)


def verb(group, name, does, *arguments):
    """Return a decorator for the function of a verb, which takes its arguments by name; help lists it in its group."""
    if group not in (*EXAMPLES, JOBS):
        raise ValueError(f"the verb {name!r} names no group: give one of koct.commands.people to @verb first")

    def declared(function):
        VERBS[name] = function, does, list(arguments), group
        return function

    return declared


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


def _score(file, reading):
    """(the score in the column of a metric or None, its name)."""
    from koct.forecast import scores

    metric = file.metric(**reading)
    score = scores.named(metric, reading["higher"])
    return score, metric or ("error" if score is None else score.name)


@verb(
    PILOTS,
    "budget",
    "how many samples reach a target error, from pilot runs",
    PILOT,
    optional("--target", TARGET, type=targets, action="extend", metavar="E[,E...]"),
    optional("--at", "predict the error at these N, and the chances of the targets", type=sizes, metavar="N,N,..."),
    *READING,
    optional("--law", "auto (default), a law of docs/how-many-samples.md, or theory with --pairs", default="auto"),
    optional("--assurance", "reach the target in this share of runs, like 0.9", type=number, metavar="P"),
    optional("--pairs", ".npz with x and y, or two .npy: pairs of a dense network", nargs="+", metavar="FILE"),
    optional("--pairs-arch", "the arch of the pairs, if the pilot has several", type=name_of, metavar="ARCH"),
    optional("--lam", "its ridge strength (default: the best of a grid)", type=positive, metavar="L"),
    optional("--nonnegative", "its predictions are cut off at zero, as by a ReLU", action="store_true"),
    optional("--plot", "draw points, law, interval and targets (.pdf, .png, .svg)", metavar="FILE"),
    optional("--json", "print a list with one object per target and arch", action="store_true"),
)
def budget(pilot, target, at, law, assurance, pairs, pairs_arch, lam, nonnegative, plot, json, **reading):
    from koct.forecast.laws import LAWS
    from koct.report.labels import names_of
    from koct.report.text import budget_text as report

    if plot:
        report.check_format(plot)
        if not target:
            raise KoctError("--plot draws a target; give one with --target, or omit --plot")
    if not pairs and (pairs_arch or lam or nonnegative):
        raise KoctError("--pairs-arch, --lam and --nonnegative are about pairs; give --pairs, or omit them")
    if pairs and law in LAWS:
        raise KoctError(f"--law {law} makes no use of pairs; omit --pairs, or take --law auto or theory")
    if not (target or at):
        raise KoctError("--target is what to reach, and --at an N whose error to predict; give one of them, or both")
    file, curves = _pilot(pilot, reading), {}
    score, name = _score(file, reading)
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


@verb(
    PILOTS,
    "planner",
    "a page with answers for a grid of targets: the forecasts of a pilot in one HTML file, for a browser",
    PILOT,
    *READING,
    argument("--out", "where to write"),
)
def planner(pilot, out, **reading):
    from koct.report.pages import planner_page

    file = _pilot(pilot)
    print(planner_page.write_page(file, out, **reading))
    _note(*dict.fromkeys(file.notes))


@verb(
    PILOTS,
    "next",
    "which runs to add to a pilot: those that narrow the interval most for their cost",
    argument("pilot", "what `budget` takes; a column seconds or cost says what a run costs"),
    argument("--target", TARGET, "E", type=number),
    optional("--arch", "plan for this arch only", type=name_of),
    *READING,
    optional("--factor", "the wanted upper end of the interval over its lower one (default: 4)", "F", type=number),
    optional("--budget", "what the new runs of an arch may cost together", type=positive, metavar="COST"),
    optional("--largest", "the largest N to consider (default: 4 times the pilot's)", type=whole, metavar="N"),
    optional("--json", "print a list with one object per arch", action="store_true"),
)
def next_runs(pilot, target, arch, factor, budget, largest, json, **reading):
    from koct.forecast.next_runs import RunCost
    from koct.report.text import next_text as report

    file = _pilot(pilot, reading)
    (score, name), sweep = _score(file, reading), reading["sweep"]
    aim = target if score is None else score.target(target)
    pilots = file.pilots(**reading)
    column, runs = file.costs(sweep, reading["columns"]) or (None, {})
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
    from koct.base.device import total_memory
    from koct.prediction.curve import Curve, read_pairs
    from koct.prediction.spectral import Spectral

    return Curve(Spectral(nonnegative).fit(*read_pairs(pairs, total_memory())), [lam] if lam is not None else None)


@verb(
    BEFORE,
    "curve",
    "the learning curve that pairs predict for a linear network, before any training",
    PAIRS,
    optional("--target", "say how many samples reach this mean squared error", type=positive, metavar="E"),
    optional("--at", "predict for these N, like 16,64,256 (default: octaves)", type=sizes, metavar="N,N,..."),
    optional("--lam", "the ridge strength (default: the best one at every N)", type=positive, metavar="L"),
    optional("--nonnegative", "predictions are cut off at zero, as by a ReLU", action="store_true"),
    optional("--plot", "draw the curve, its interval and the target (.pdf, .png, .svg)", metavar="FILE"),
    optional("--json", "print points and, for a target, n, n_low, n_high, reachable", action="store_true"),
)
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


@verb(
    BEFORE,
    "know",
    "what a known operator explains of pairs, what would repair it, and from which N on learning everything pays",
    PAIRS,
    argument("--layers", "whose known layers lead from x to y: one of koct, or FILE.py", "PROBLEM"),
    optional("--set", "an option of the problem, such as H=32", action="append", metavar="KEY=VALUE"),
    optional("--plot", "draw both curves and where they cross (.pdf, .png, .svg)", metavar="FILE"),
    optional("--json", "print repairs, crossing and curves", action="store_true"),
)
def know(pairs, layers, set, plot, json):
    import contextlib
    import io

    import numpy as np

    from koct.base.device import total_memory
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


@verb(
    BEFORE,
    "bound",
    "the risk bound of a layered network, layer by layer",
    argument("network", "its layers; docs/how-many-samples.md shows one", "NETWORK.yaml"),
    optional("--arch", "a network of a sweep, where the file is results/chains/SWEEP.json", metavar="NAME"),
    optional("--C", "with --arch, the Barron constant of its learned layers", type=number, metavar="C"),
    optional("--n", "with --arch, their approximation width", type=number, metavar="n"),
    optional("--kappa", "with --arch, their squared error per parameter", type=number, metavar="K"),
    argument("--samples", "training samples", "N", type=whole),
    optional("--trivial", "the error of always predicting zero, E‖y‖²; a bound above it is vacuous", "E", type=number),
    optional(
        "--mismatch",
        "the distance of a known layer from the true one, in operator norm; may be given several times",
        "LAYER=DISTANCE",
        type=named_number,
        action="append",
    ),
    optional("--input", "with --mismatch, the root of the mean ‖x‖²", type=positive, metavar="R"),
)
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


def _settings(texts):
    """The keys of a sweep from `--set`; a point leads to the options of a network."""
    from koct.base import strict_yaml

    settings = {}
    for text in texts or []:
        key, _, value = text.partition("=")
        section, _, option = key.rpartition(".")
        options = settings.setdefault(section, {}) if section else settings
        if not isinstance(options, dict):
            raise KoctError(f"--set {section} is a value already, and {key} an option below it; remove one of them")
        options[option] = strict_yaml.value(f"--set {key}", value)
    return settings


@verb(
    STUDIES,
    "init",
    "write a small study of your own to a new folder: problem, network and config, with comments",
    argument("folder", "a new folder", "FOLDER"),
    optional("--paper", "the studies of koct's own config.yaml instead, with the paper's", action="store_true"),
)
def init(folder, paper):
    import os
    import shutil
    import tempfile
    from pathlib import Path

    target = Path(folder).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise KoctError(f"{folder} exists and is not an empty folder; give the name of a new one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        skip = shutil.ignore_patterns("__pycache__", *(["*.py"] if paper else []))
        made = shutil.copytree(Path(__file__).with_name("study"), Path(place) / "study", ignore=skip)
        if paper:
            shutil.copy(Path(__file__).parents[1] / "_workflow/config.yaml", made)
        os.rename(made, target)  # whole, or not at all
    if paper:
        print(f"Written to {folder}: config.yaml has the studies; profiles/ says how to run them.\n")
        print(f"  cd {folder} && snakemake -n --config study=paper   # what it would run, and for how long")
        return
    print(f"Written to {folder}: problem.py draws pairs, network.py learns them, config.yaml puts both on a grid.\n")
    print(f"  koct check {folder}/problem.py {folder}/network.py --set length=64 --set blur=1.5   # seconds")
    print(f"  cd {folder} && snakemake   # a minute or two; then see results/ there")
    print("  koct budget results/cells.parquet --target 0.005   # how many samples that takes")


@verb(
    STUDIES,
    "check",
    "try problems and networks of your own on a small pool; exit status 1 if one breaks a promise of its contract",
    argument("files", "a problem, networks, or both: docs/your-own.md", "FILE.py", nargs="+"),
    optional("--set", "a key of the sweep, such as H=16 or cnn.channels=4", "KEY=VALUE", action="append"),
)
def check(files, set):
    from koct.config import contract_suite

    return 0 if contract_suite.run(files, _settings(set)) else 1


@verb(
    STUDIES,
    "config",
    "print what every key of config.yaml means",
    argument("file", "a problem or architecture of your own: its options", "FILE.py", nargs="?"),
)
def config(file):
    from koct.config import study_file

    print(study_file.document_file(file) if file else study_file.document(), end="")


@verb(
    RESULTS,
    "compare",
    "compare the cells of a run with those of a reference; exit status 1 if their curves differ",
    argument("fresh", "cells.parquet of the run, or the folder that has it"),
    argument("reference", "cells.parquet to compare with, or its folder; also that of another study, to plot both"),
    optional("--plot", "draw the curves of both over one another (.pdf, .png, .svg)", metavar="FILE"),
    optional("--tolerance", "largest relative difference of a curve (default: 0.005)", type=tolerance, default=0.005),
)
def compare(fresh, reference, plot, tolerance):
    from koct.report.text.compare_text import compare

    fresh, reference = (
        os.path.join(path, "cells.parquet") if os.path.isdir(path) else path for path in (fresh, reference)
    )
    if plot:
        from koct.report.text.plots import plot_compared

        plot_compared([fresh, reference], plot)
    text, agree = compare(fresh, reference, tolerance)
    print(text, end="")
    return 0 if agree else 1

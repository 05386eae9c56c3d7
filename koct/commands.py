"""The verbs of the command line and their arguments."""

import argparse
import json
import re

from koct import verbs


def _json(text):
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("is not a JSON object")
    return found


def _number(text):
    try:
        return float(text)
    except ValueError:
        comma = ": write decimals with a point, like 0.05" if "," in text else ""
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number{comma}") from None


def _targets(text):
    """Numbers with commas between them, unless it looks like a decimal comma."""
    if re.search(r"(^|,)\s*[+-]?0,\d+\s*(,|$)", text):
        return [_number(text)]
    return [_number(part) for part in text.split(",")]


def _sizes(text):
    return [_whole(part) for part in text.split(",")]


def _positive(text):
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not above zero and finite")
    return value


def _name(text):
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; give one, or omit the option")
    return text


def _whole(text):
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number, or has too many digits") from None


SPEC = ("--spec", {"type": _json, "metavar": "JSON", "help": "what the stage depends on, as the workflow passes it"})
INPUTS = ("--inputs", {"nargs": "*", "metavar": "FILE", "help": "the files that the spec names under inputs"})
POOL = ("--pool", {"metavar": "FILE", "help": "what `pool` wrote"})
OUT = ("--out", {"metavar": "FILE", "help": "where to write"})


def _file(name, help):
    return (name, {"metavar": "FILE", "help": help})


def _optional(name, help, **settings):
    return (name, {"required": False, "help": help, **settings})


REPORT = _optional("--spec", "what the stage depends on, as the workflow passes it", type=_json, metavar="JSON")
SHARED = _optional("--shared", "what `known` wrote, if the problem computes anything once per sweep", metavar="FILE")
THEORY = _optional("--theory", "what `collect-theory` wrote, to show beside", metavar="FILE")
SWEEP = _optional("--sweep", "take the rows with this value in the column sweep", type=_name)
CELLS = _file("--cells", "what `collect` wrote")
CURVES = _file("--curves", "what `calibrate` wrote")
CALIBRATION = _file("--calibration", "what `calibrate` wrote")
UNTRAINED = _file("--untrained", "what `collect` wrote")
BUDGETS = _file("--budgets", "what `budgets` wrote")
PILOT = _file("pilot", "CSV or Parquet with the columns N, error and, if there are several, seed, arch and group")
READING = [  # how a pilot is read
    _optional(
        "--metric",
        "the column, of errors or of a score like accuracy or psnr; a 2 at its end squares it (default: error)",
        type=_name,
    ),
    _optional(
        "--higher",
        "the metric is a score, where higher is better, and BEST is the best one (default: 1)",
        type=_number,
        nargs="?",
        const=1.0,
        metavar="BEST",
    ),
    _optional("--group", "the column whose runs are not independent, like patient", type=_name, metavar="COLUMN"),
    _optional("--test-size", "how many test samples an error rate is counted on", type=_whole, metavar="K"),
    SWEEP,
]
OUTS = ("--out", {"nargs": "+", "metavar": "FILE", "help": "where to write; the ending says the format"})

# verb: (function, what it does, its arguments)
VERBS = {
    "pool": (verbs.pool, "draw the pool of one seed", [SPEC, OUT]),
    "known": (verbs.known, "compute what a problem shares among all cells of a sweep", [SPEC, OUT]),
    "normal": (verbs.normal, "compute the normal matrix of a sweep's known operator", [SPEC, INPUTS, OUT]),
    "gram": (verbs.gram, "compute the Gram matrix of a pool's training measurements", [SPEC, POOL, OUT]),
    "fit": (
        verbs.fit,
        "fit and evaluate one cell",
        [
            SPEC,
            INPUTS,
            ("--outputs", {"nargs": "+", "metavar": "FILE", "help": "where to write the row (if wanted), and the fit"}),
        ],
    ),
    "fit-torchrun": (
        verbs.fit_torchrun,
        "fit one cell with several processes; started by torchrun, once per rank",
        [
            SPEC,
            INPUTS,
            OUT,
            ("--checkpoints", {"metavar": "FOLDER", "help": "where a checkpoint waits for the next run"}),
            _optional("--checkpoint-minutes", "time between checkpoints (default: 5)", type=_positive, default=5.0),
        ],
    ),
    "evaluate": (
        verbs.evaluate,
        "write the row of a fit",
        [_file("fit", "what `fit` wrote"), REPORT, POOL, SHARED, OUT],
    ),
    "untrained": (
        verbs.untrained,
        "evaluate the known layers of a problem before any learning",
        [
            SPEC,
            ("--pools", {"nargs": "+", "metavar": "FILE", "help": "the pool of each seed"}),
            SHARED,
            OUT,
        ],
    ),
    "collect": (
        verbs.collect,
        "gather the rows of a study into Parquet",
        [
            SPEC,
            _file("--cells", "where to write the cells"),
            _file("--untrained", "where to write the untrained networks' errors"),
        ],
    ),
    "theory": (
        verbs.theory,
        "predict the curve of one architecture from a pool, before any fit",
        [SPEC, INPUTS, OUT],
    ),
    "collect-theory": (verbs.collect_theory, "gather the predicted curves of a study into Parquet", [SPEC, OUT]),
    "calibrate": (
        verbs.calibrate,
        "curves over seeds, and their floor and sigma",
        [
            _file("cells", "what `collect` wrote"),
            SPEC,
            _file("--curves", "where to write the curves"),
            _file("--calibration", "where to write floor and sigma"),
        ],
    ),
    "table-calibration": (
        verbs.table_calibration,
        "the calibration table in LaTeX",
        [_file("calibration", "what `calibrate` wrote"), REPORT, OUT],
    ),
    "figure-sweeps": (
        verbs.figure_sweeps,
        "error against N, a panel per sweep",
        [CELLS, CURVES, CALIBRATION, UNTRAINED, THEORY, REPORT, OUTS],
    ),
    "figure-theory": (
        verbs.figure_theory,
        "the predicted curves, a panel per sweep",
        [_file("theory", "what `collect-theory` wrote"), REPORT, OUTS],
    ),
    "table-theory": (
        verbs.table_theory,
        "the table of predicted over measured errors in LaTeX",
        [_file("--theory", "what `collect-theory` wrote"), CELLS, REPORT, OUT],
    ),
    "figure-recons": (
        verbs.figure_recons,
        "test images and their reconstructions, a row per architecture and a column per N",
        [
            ("--fits", {"nargs": "+", "metavar": "FILE", "help": "what `fit` wrote, of one sweep and seed"}),
            POOL,
            SHARED,
            REPORT,
            OUT,
        ],
    ),
    "table-scaling": (
        verbs.table_scaling,
        "the table of operating points and outcomes in LaTeX",
        [CURVES, CALIBRATION, REPORT, OUT],
    ),
    "table-fullscale": (verbs.table_fullscale, "the table of parameters and memory in LaTeX", [REPORT, OUT]),
    "norms": (verbs.norms, "compute the operator norms of the paper's operating points", [REPORT, OUT]),
    "table-structural": (
        verbs.table_structural,
        "the table of norms and matched-kappa references in LaTeX",
        [_file("norms", "what `norms` wrote"), REPORT, OUT],
    ),
    "budgets": (
        verbs.budgets,
        "how many samples reach every configured target",
        [
            _file("cells", "what `collect` wrote"),
            THEORY,
            SPEC,
            OUT,
        ],
    ),
    "table-budget": (
        verbs.table_budget,
        "the table of budgets in LaTeX",
        [_file("budgets", "what `budgets` wrote"), REPORT, OUT],
    ),
    "chains": (verbs.chains, "the known and learned layers of a sweep's networks", [SPEC, SHARED, OUT]),
    "ladder": (
        verbs.ladder,
        "the order of a sweep's networks at every N, and whether more known layers win",
        [
            _file("cells", "what `collect` wrote"),
            ("--chains", {"nargs": "*", "metavar": "FILE", "help": "what `chains` wrote of every sweep"}),
            SPEC,
            OUT,
            _file("--verdicts", "where to write the verdicts"),
        ],
    ),
    "figure-ladder": (
        verbs.figure_ladder,
        "error against N of networks between known and learned, a panel per sweep",
        [_file("ladder", "what `ladder` wrote"), REPORT, OUTS],
    ),
    "table-ladder": (
        verbs.table_ladder,
        "the table of networks between known and learned in LaTeX",
        [_file("--ladder", "what `ladder` wrote"), CALIBRATION, BUDGETS, REPORT, OUT],
    ),
    "table-conditions": (
        verbs.table_conditions,
        "what dose, arc and other conditions do to the number of samples, in LaTeX",
        [CURVES, CALIBRATION, BUDGETS, REPORT, OUT],
    ),
    "claims": (
        verbs.claims,
        "what the paper states, statement by statement, and whether it holds in the results",
        [CELLS, CURVES, CALIBRATION, UNTRAINED, BUDGETS, REPORT, OUTS],
    ),
    "crate": (
        verbs.crate,
        "an RO-Crate that describes the results of a study",
        [("files", {"nargs": "+", "metavar": "FILE", "help": "the results"}), SPEC, OUT],
    ),
    "previews": (
        verbs.previews,
        "figures in the size of a screen",
        [("pictures", {"nargs": "+", "metavar": "FIGURE.png", "help": "what the figure verbs wrote"}), REPORT, OUTS],
    ),
    "html-tables": (
        verbs.html_tables,
        "tables in LaTeX as pages of HTML",
        [("tables", {"nargs": "+", "metavar": "TABLE.tex", "help": "what the table verbs wrote"}), REPORT, OUTS],
    ),
    "bound": (
        verbs.bound,
        "the risk bound of a layered network, layer by layer",
        [
            ("network", {"metavar": "NETWORK.yaml", "help": "its layers; docs/how-many-samples.md shows one"}),
            _optional("--arch", "a network of a sweep, where the file is results/chains/SWEEP.json", metavar="NAME"),
            _optional("--C", "with --arch, the Barron constant of its learned layers", type=_number, metavar="C"),
            _optional("--n", "with --arch, their approximation width", type=_number, metavar="n"),
            _optional("--kappa", "with --arch, their squared error per parameter", type=_number, metavar="K"),
            ("--samples", {"type": _whole, "metavar": "N", "help": "training samples"}),
            _optional(
                "--trivial",
                "the mean-square error of always predicting zero, E‖y‖²: a bound above it is called vacuous",
                type=_number,
                metavar="E",
            ),
        ],
    ),
    "budget": (
        verbs.budget,
        "how many samples reach a target error, from pilot runs",
        [
            PILOT,
            (
                "--target",
                {
                    "type": _targets,
                    "action": "extend",
                    "metavar": "E[,E...]",
                    "help": "the error to reach, or the score if the metric is one; may be given several times",
                },
            ),
            *READING,
            _optional(
                "--law",
                "auto (default), power, rate, pow4, mmf4, broken, last, paper or, with --pairs, theory",
                default="auto",
            ),
            _optional("--assurance", "reach the target in this share of runs, like 0.9", type=_number, metavar="P"),
            _optional("--pairs", ".npz with x and y, or two .npy: pairs of a dense network", nargs="+", metavar="FILE"),
            _optional(
                "--pairs-arch",
                "the arch that the pairs are about, if the pilot has several",
                type=_name,
                metavar="ARCH",
            ),
            _optional("--lam", "its ridge strength (default: the best of a grid)", type=_positive, metavar="L"),
            _optional("--nonnegative", "its predictions are cut off at zero, as by a ReLU", action="store_true"),
            _optional("--plot", "draw points, law, interval and targets (.pdf, .png, .svg)", metavar="FILE"),
            _optional("--json", "print a list with one object per target and arch", action="store_true"),
        ],
    ),
    "planner": (
        verbs.planner,
        "a page that answers for any target: the forecasts of a pilot in one HTML file, for a browser without network",
        [PILOT, *READING, REPORT, OUT],
    ),
    "next": (
        verbs.next_runs,
        "which runs to add to a pilot: those that narrow the interval most for their cost",
        [
            _file("pilot", "what `budget` takes; a column seconds or cost says what a run costs"),
            (
                "--target",
                {"type": _number, "metavar": "E", "help": "the error to reach, or the score if the metric is one"},
            ),
            _optional("--arch", "plan for this arch only", type=_name),
            *READING,
            _optional(
                "--factor",
                "the interval is narrow enough when its upper end is this many times its lower one (default: 2)",
                type=_number,
                metavar="F",
            ),
            _optional("--budget", "what the new runs of an arch may cost together", type=_positive, metavar="COST"),
            _optional(
                "--largest", "the largest N to consider (default: 4 times the pilot's)", type=_whole, metavar="N"
            ),
            _optional(
                "--overlay",
                "write a config file that adds the runs to --sweep, for `snakemake --configfile`",
                metavar="FILE",
            ),
            _optional("--json", "print a list with one object per arch", action="store_true"),
        ],
    ),
    "curve": (
        verbs.curve,
        "the learning curve that pairs predict for a linear network, before any training",
        [
            ("pairs", {"nargs": "+", "metavar": "FILE", "help": ".npz with arrays x and y, or two .npy, x first"}),
            _optional("--target", "say how many samples reach this mean squared error", type=_positive, metavar="E"),
            _optional("--at", "predict for these N, like 16,64,256 (default: octaves)", type=_sizes, metavar="N,N,..."),
            _optional("--lam", "the ridge strength (default: the best one at every N)", type=_positive, metavar="L"),
            _optional("--nonnegative", "predictions are cut off at zero, as by a ReLU", action="store_true"),
            _optional("--plot", "draw the curve, its interval and the target (.pdf, .png, .svg)", metavar="FILE"),
            _optional("--json", "print points and, for a target, n, n_low, n_high, reachable", action="store_true"),
        ],
    ),
    "compare": (
        verbs.compare,
        "compare the cells of a run with those of a reference; exit status 1 if their curves differ",
        [
            _file("fresh", "cells.parquet of the run"),
            _file("reference", "cells.parquet to compare with"),
            _optional(
                "--tolerance", "largest relative difference of a curve (default: 0.005)", type=_number, default=0.005
            ),
        ],
    ),
    "config": (
        verbs.config,
        "print what every key of config.yaml means",
        [
            (
                "file",
                {"nargs": "?", "metavar": "FILE.py", "help": "a problem or architecture of your own: its options"},
            ),
            _optional("--schema", "print a JSON schema instead", action="store_true"),
        ],
    ),
}

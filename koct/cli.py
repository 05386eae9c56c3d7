"""The command line: one verb per stage of the workflow, and verbs for people."""

import argparse
import json
import sys

from koct import __version__, verbs
from koct.errors import KoctError


def main(argv=None):
    """The exit status: 0, or 1 where a verb's answer is no, or 2 after an error."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv[0] if argv and argv[0] in VERBS else None)
    arguments = vars(parser.parse_args(argv))
    run = arguments.pop("run")
    try:
        return run(**arguments) or 0
    except KoctError as error:
        print(f"koct: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"koct: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _json(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None


SPEC = ("--spec", {"type": _json, "metavar": "JSON", "help": "what the stage depends on, as the workflow passes it"})
SEED = ("--seed", {"type": int, "help": "seed of the pool"})
INPUTS = ("--inputs", {"nargs": "*", "metavar": "FILE", "help": "the files that the spec names under inputs"})
POOL = ("--pool", {"metavar": "FILE", "help": "what `pool` wrote"})
OUT = ("--out", {"metavar": "FILE", "help": "where to write"})


def _file(name, help):
    return (name, {"metavar": "FILE", "help": help})


def _optional(name, help, **settings):
    return (name, {"required": False, "help": help, **settings})


SHARED = _optional("--shared", "what `known` wrote, if the problem computes anything once per sweep", metavar="FILE")

# verb: (function, what it does, its arguments)
VERBS = {
    "pool": (verbs.pool, "draw the pool of one seed", [SPEC, SEED, OUT]),
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
            _optional("--checkpoint-minutes", "time between checkpoints (default: 5)", type=float, default=5.0),
        ],
    ),
    "evaluate": (verbs.evaluate, "write the row of a fit", [_file("fit", "what `fit` wrote"), POOL, SHARED, OUT]),
    "untrained": (
        verbs.untrained,
        "evaluate the known layers of a problem before any learning",
        [
            SPEC,
            ("--seeds", {"type": int, "nargs": "+", "metavar": "SEED"}),
            ("--pools", {"nargs": "+", "metavar": "FILE", "help": "the pool of each seed"}),
            SHARED,
            OUT,
        ],
    ),
    "collect": (
        verbs.collect,
        "gather the rows of a study into Parquet",
        [
            ("--study", {"metavar": "JSON", "help": "the study's sweeps"}),
            _file("--cells", "where to write the cells"),
            _file("--untrained", "where to write the untrained networks' errors"),
        ],
    ),
    "calibrate": (
        verbs.calibrate,
        "curves over seeds, and their floor and sigma",
        [
            _file("cells", "what `collect` wrote"),
            ("--metrics", {"type": _json, "metavar": "JSON", "help": "the metric of each sweep"}),
            _file("--curves", "where to write the curves"),
            _file("--calibration", "where to write floor and sigma"),
        ],
    ),
    "table-calibration": (
        verbs.table_calibration,
        "the calibration table in LaTeX",
        [_file("calibration", "what `calibrate` wrote"), OUT],
    ),
    "figure-sweeps": (
        verbs.figure_sweeps,
        "error against N, a panel per sweep",
        [
            _file("--cells", "what `collect` wrote"),
            _file("--curves", "what `calibrate` wrote"),
            _file("--calibration", "what `calibrate` wrote"),
            _file("--untrained", "what `collect` wrote"),
            ("--out", {"nargs": "+", "metavar": "FILE", "help": "where to write; the ending says the format"}),
        ],
    ),
    "figure-recons": (
        verbs.figure_recons,
        "test images and their reconstructions, a row per architecture and a column per N",
        [
            ("--fits", {"nargs": "+", "metavar": "FILE", "help": "what `fit` wrote, of one sweep and seed"}),
            POOL,
            SHARED,
            OUT,
        ],
    ),
    "table-scaling": (
        verbs.table_scaling,
        "the table of operating points and outcomes in LaTeX",
        [
            _file("--curves", "what `calibrate` wrote"),
            _file("--calibration", "what `calibrate` wrote"),
            OUT,
        ],
    ),
    "table-fullscale": (verbs.table_fullscale, "the table of parameters and memory in LaTeX", [OUT]),
    "norms": (verbs.norms, "compute the operator norms of the paper's operating points", [OUT]),
    "table-structural": (
        verbs.table_structural,
        "the table of norms and matched-kappa references in LaTeX",
        [_file("norms", "what `norms` wrote"), OUT],
    ),
    "budgets": (
        verbs.budgets,
        "how many samples reach every configured target",
        [
            _file("cells", "what `collect` wrote"),
            ("--wanted", {"type": _json, "metavar": "JSON", "help": "metric and targets of each sweep"}),
            OUT,
        ],
    ),
    "table-budget": (
        verbs.table_budget,
        "the table of budgets in LaTeX",
        [_file("budgets", "what `budgets` wrote"), OUT],
    ),
    "bound": (
        verbs.bound,
        "the risk bound of a layered network, layer by layer",
        [
            ("network", {"metavar": "NETWORK.yaml", "help": "its layers; docs/how-many-samples.md shows one"}),
            ("--samples", {"type": int, "metavar": "N", "help": "training samples"}),
        ],
    ),
    "budget": (
        verbs.budget,
        "how many samples reach a target error, from pilot runs",
        [
            _file("pilot", "CSV or Parquet with the columns N, error and, if there are several, seed and arch"),
            ("--target", {"type": float, "metavar": "E", "help": "the error to reach"}),
            _optional("--metric", "the error's column, with a 2 at its end its square (default: error)"),
            _optional("--sweep", "take the rows with this value in the column sweep"),
            _optional("--law", "auto (default), power, rate, paper or last", default="auto"),
            _optional("--assurance", "reach the target in this share of runs, like 0.9", type=float, metavar="P"),
            _optional("--plot", "draw points, law, interval and target (.pdf, .png)", metavar="FILE"),
            _optional("--json", "print a list with one object per arch", action="store_true"),
        ],
    ),
    "compare": (
        verbs.compare,
        "compare the cells of a run with those of a reference; exit status 1 if their curves differ",
        [
            _file("fresh", "cells.parquet of the run"),
            _file("reference", "cells.parquet to compare with"),
            _optional(
                "--tolerance", "largest relative difference of a curve (default: 0.005)", type=float, default=0.005
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


def _parser(only=None):
    """The parser of all verbs, or of the one that was asked for, which starts sooner."""
    parser = argparse.ArgumentParser(prog="koct", description="How many training samples does a network need?")
    parser.add_argument("--version", action="version", version=f"koct {__version__}")
    commands = parser.add_subparsers(metavar="VERB", required=True)
    for verb in [only] if only else VERBS:
        run, does, arguments = VERBS[verb]
        command = commands.add_parser(verb, help=does, description=does)
        command.set_defaults(run=run)
        for name, settings in arguments:
            command.add_argument(name, **({"required": True} if name.startswith("-") else {}) | settings)
    return parser

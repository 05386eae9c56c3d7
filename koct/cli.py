"""The command line: one verb per stage. Each verb imports only what it needs, since start-up is most of a small job."""

import argparse
import json
import sys

from koct import __version__
from koct.errors import KoctError


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv[0] if argv and argv[0] in VERBS else None)
    arguments = vars(parser.parse_args(argv))
    run = arguments.pop("run")
    try:
        run(**arguments)
    except KoctError as error:
        print(f"koct: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1
    return 0


def pool(spec, seed, out):
    from koct.ct import pools

    pools.make(spec, seed, out)


def known(spec, out):
    from koct.ct import known

    known.make(spec, out)


def fit(spec, inputs, outputs):
    from koct import cells

    cells.fit(spec, inputs, *outputs)


def evaluate(fit, inputs, out):
    from koct import cells

    cells.evaluate(fit, inputs, out)


def untrained(spec, seeds, known, out):
    from koct import cells

    cells.untrained(spec, seeds, known, out)


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


def config():
    from koct.sweeps import document

    print(document(), end="")


def _json(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON: {error}") from None


SPEC = ("--spec", {"type": _json, "metavar": "JSON", "help": "what the stage depends on, as the workflow passes it"})
SEED = ("--seed", {"type": int, "help": "seed of the phantom pool"})
KNOWN = ("--known", {"metavar": "FILE", "help": "the sweep's known operator"})
INPUTS = ("--inputs", {"nargs": "+", "metavar": "FILE", "help": "the pool, and the known operator if there is one"})
OUT = ("--out", {"metavar": "FILE", "help": "where to write"})


def _file(name, help):
    return (name, {"metavar": "FILE", "help": help})


# verb: (function, what it does, its arguments)
VERBS = {
    "pool": (pool, "draw the phantom pool of one seed", [SPEC, SEED, OUT]),
    "known": (known, "compute a sweep's known operator", [SPEC, OUT]),
    "fit": (
        fit,
        "fit and evaluate one cell",
        [
            SPEC,
            INPUTS,
            ("--outputs", {"nargs": 2, "metavar": ("ROW", "FIT"), "help": "where to write the row and the fit"}),
        ],
    ),
    "evaluate": (evaluate, "evaluate a fit again", [_file("fit", "what `fit` wrote"), INPUTS, OUT]),
    "untrained": (
        untrained,
        "evaluate the operator-aware network before any learning",
        [
            SPEC,
            ("--seeds", {"type": int, "nargs": "+", "metavar": "SEED"}),
            KNOWN,
            OUT,
        ],
    ),
    "collect": (
        collect,
        "gather the rows of a study into Parquet",
        [
            ("--study", {"metavar": "JSON", "help": "the study's sweeps"}),
            _file("--cells", "where to write the cells"),
            _file("--untrained", "where to write the untrained networks' errors"),
        ],
    ),
    "calibrate": (
        calibrate,
        "curves over seeds, and their floor and sigma",
        [
            _file("cells", "what `collect` wrote"),
            ("--metrics", {"type": _json, "metavar": "JSON", "help": "the metric of each sweep"}),
            _file("--curves", "where to write the curves"),
            _file("--calibration", "where to write floor and sigma"),
        ],
    ),
    "table-calibration": (
        table_calibration,
        "the calibration table in LaTeX",
        [_file("calibration", "what `calibrate` wrote"), OUT],
    ),
    "figure-sweeps": (
        figure_sweeps,
        "error against N, a panel per sweep",
        [
            _file("--cells", "what `collect` wrote"),
            _file("--curves", "what `calibrate` wrote"),
            _file("--calibration", "what `calibrate` wrote"),
            _file("--untrained", "what `collect` wrote"),
            ("--out", {"nargs": "+", "metavar": "FILE", "help": "where to write; the ending says the format"}),
        ],
    ),
    "config": (config, "print what every key of config.yaml means", []),
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

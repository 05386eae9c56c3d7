"""The command line: one verb per stage of the workflow, and verbs for people."""

import argparse
import json
import os
import sys

from koct import __version__, failures, verbs
from koct.errors import KoctError


def main(argv=None):
    """The exit status: 0, 1 where a verb's answer is no, or one of `koct.failures`."""
    failures.show_anything()
    argv = sys.argv[1:] if argv is None else argv
    written = {}
    try:
        arguments = _parse(argv)
        verb = arguments.pop("verb")
        read, written = _files(verb, arguments)
        _check_files(read, written)
        _check_spec(verb, arguments)
        if _made_before(verb, arguments, written):
            print("an earlier attempt has made this")
            return 0
        status = _run(VERBS[verb][0], arguments)
        return failures.unwritten() or status
    except (Exception, KeyboardInterrupt) as error:
        return failures.ended(error, written)


# The verbs whose outputs Snakemake deletes, unless an earlier attempt of the same submission has made them.
CONTINUED = ("pool", "known", "normal", "gram", "fit", "evaluate", "untrained")


def _made_before(verb, arguments, written):
    """Whether a job of a cluster has nothing left to do: see koct/workflow/cluster.py."""
    if verb not in CONTINUED or not os.environ.get("KOCT_CONTINUE"):
        return False
    from koct import stamps

    try:
        return all(stamps.check(path).spec == arguments["spec"] for path in written)
    except (OSError, KoctError):
        return False


def _parse(argv):
    try:
        return vars(_parser(argv[0] if argv and argv[0] in VERBS else None).parse_args(argv))
    except SystemExit:  # a mistake, or a question: its answer is printed
        if status := failures.unwritten():
            raise SystemExit(status) from None
        raise


def _run(function, arguments):
    try:
        return function(**arguments) or 0
    except SystemExit as end:
        raise KoctError(f"a Python file of yours ended the command with sys.exit({end.code!r}); remove that") from None


# The arguments of a verb that it writes to; others that are files, it reads.
OUTPUTS = {"collect": ("cells", "untrained"), "calibrate": ("curves", "calibration")}


def _files(verb, arguments):
    """({path: argument} that a verb reads, the same that it writes)."""
    read, written = {}, {}
    for name, settings in VERBS[verb][2]:
        if settings.get("metavar") in ("FILE", "NETWORK.yaml", "FILE.py"):
            key = name.lstrip("-").replace("-", "_")
            given = arguments[key] if isinstance(arguments[key], list) else [arguments[key]]
            kind = written if key in OUTPUTS.get(verb, ("out", "outputs", "plot")) else read
            for path in given:
                if path in kind and kind is written:
                    raise KoctError(f"{name} {path}: the command writes this file twice; give another name")
                if path is not None:
                    kind[path] = name
    return read, written


def _check_files(read, written):
    """Refuse, before anything is computed, names that no file can have and places where none can be written."""
    for path, name in (read | written).items():
        try:
            usable = bool(path) and b"\0" not in path.encode()
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise KoctError(f"{name} {path!r} is not the name of a file; give one in UTF-8")
    inputs = {os.path.realpath(path): name for path, name in read.items()}
    for path, name in written.items():
        real = os.path.realpath(path)
        if real in inputs:
            raise KoctError(f"{name} {path}: the command reads this file as {inputs[real]}; give another name")
        if os.path.isdir(real) or path.endswith("/"):
            raise KoctError(f"{name} {path} is a folder; give the path of a file")
        folder = os.path.dirname(real)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise KoctError(f"{name} {path}: {folder} is not a folder; choose another place")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise KoctError(f"{name} {path}: nothing can be written to {folder}; choose another place")


def _check_spec(verb, arguments):
    """Refuse a spec that lacks something, and one whose code is not planned any more."""
    if arguments.get("spec") is None:
        return
    from koct.spec_keys import told

    spec = arguments["spec"] = told(arguments["spec"], "--spec")
    pools = arguments.get("pools")
    if pools is not None and len(pools) != len(spec["seeds"]):
        raise KoctError(f"--pools has {len(pools)} files, and --spec {len(spec['seeds'])} seeds; give one for each")
    _guard(verb, spec)


def _guard(verb, spec):
    """Before a job of the workflow starts, and before it writes: is its code still what was planned?"""
    if spec and "code" in spec:
        from koct import stamps
        from koct.workflow.planned import Guard

        stamps.guard = Guard(verb, spec)
        stamps.guard()


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


def _sizes(text):
    return [_whole(part) for part in text.split(",")]


def _positive(text):
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not above zero and finite")
    return value


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
        [
            _file("--cells", "what `collect` wrote"),
            _file("--curves", "what `calibrate` wrote"),
            _file("--calibration", "what `calibrate` wrote"),
            _file("--untrained", "what `collect` wrote"),
            REPORT,
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
            REPORT,
            OUT,
        ],
    ),
    "table-scaling": (
        verbs.table_scaling,
        "the table of operating points and outcomes in LaTeX",
        [
            _file("--curves", "what `calibrate` wrote"),
            _file("--calibration", "what `calibrate` wrote"),
            REPORT,
            OUT,
        ],
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
            SPEC,
            OUT,
        ],
    ),
    "table-budget": (
        verbs.table_budget,
        "the table of budgets in LaTeX",
        [_file("budgets", "what `budgets` wrote"), REPORT, OUT],
    ),
    "bound": (
        verbs.bound,
        "the risk bound of a layered network, layer by layer",
        [
            ("network", {"metavar": "NETWORK.yaml", "help": "its layers; docs/how-many-samples.md shows one"}),
            ("--samples", {"type": _whole, "metavar": "N", "help": "training samples"}),
        ],
    ),
    "budget": (
        verbs.budget,
        "how many samples reach a target error, from pilot runs",
        [
            _file("pilot", "CSV or Parquet with the columns N, error and, if there are several, seed and arch"),
            ("--target", {"type": _number, "metavar": "E", "help": "the error to reach"}),
            _optional("--metric", "the error's column, with a 2 at its end its square (default: error)"),
            _optional("--sweep", "take the rows with this value in the column sweep"),
            _optional("--law", "auto (default), power, rate, paper or last", default="auto"),
            _optional("--assurance", "reach the target in this share of runs, like 0.9", type=_number, metavar="P"),
            _optional("--plot", "draw points, law, interval and target (.pdf, .png)", metavar="FILE"),
            _optional("--json", "print a list with one object per arch", action="store_true"),
        ],
    ),
    "curve": (
        verbs.curve,
        "the learning curve that pairs predict for a linear network, before any training",
        [
            ("pairs", {"nargs": "+", "metavar": "FILE", "help": ".npz with x and y, or two .npy files, x first"}),
            _optional("--target", "the mean squared error to reach", type=_positive, metavar="E"),
            _optional("--at", "the numbers of samples to tell, like 16,64,256", type=_sizes, metavar="N,N,..."),
            _optional("--lam", "the ridge strength (default: the best of a grid)", type=_positive, metavar="L"),
            _optional("--nonnegative", "predictions are cut off at zero, as by a ReLU", action="store_true"),
            _optional("--plot", "draw the curve, its interval and the target (.pdf, .png)", metavar="FILE"),
            _optional("--json", "print an object with points and, for a target, n", action="store_true"),
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


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence."""

    def error(self, message):
        self.exit(failures.MISTAKE, f"koct: error: {message[:1000]}; `{self.prog} --help` shows what to write\n")


def _parser(only=None):
    """The parser of all verbs, or of the one that was asked for, which starts sooner."""
    parser = _Parser(prog="koct", description="How many training samples does a network need?")
    parser.add_argument("--version", action="version", version=f"koct {__version__}")
    commands = parser.add_subparsers(metavar="VERB", required=True)
    for verb in [only] if only else VERBS:
        _, does, arguments = VERBS[verb]
        command = commands.add_parser(verb, help=does, description=does)
        command.set_defaults(verb=verb)
        for name, settings in arguments:
            command.add_argument(name, **({"required": True} if name.startswith("-") else {}) | settings)
    return parser

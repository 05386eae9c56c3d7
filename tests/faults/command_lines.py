"""Command lines of every verb: valid ones, on the files of a tiny study that is made in a second, and damaged ones."""

import contextlib
import io
import json
import shutil
from types import SimpleNamespace
from unittest import mock

import numpy as np

from koct import cli
from koct.errors import KoctError
from koct.report import printed, products
from koct.study import distributed, paths
from koct.workflow.jobs import Jobs
from tests.conftest import ROOT, TINY, TINY_SWEEP
from tests.faults import mutations

GARBAGE = ["", ".", "-", "--", "-1", "nan", "inf", "-inf", "1e999", "1e-999", "0", "9" * 400, "x", "é", "$", "%s"]
GARBAGE += ["\udcff", "\ud800", "a\0b", "a" * 300, "none/at/all", "results", "results/", "results/cells.parquet"]
GARBAGE += ["pilot.csv/x", "{}", "[]", "null", "{", "[" * 100_000, '{"code": 1}', "--out", "--spec", "--help"]
GARBAGE += ["--target=", "--json=1", "--x", "@x"]
ARCHS = ("ko", "filter", "fc")  # three make a ladder
STUDY = {**TINY, "sweeps": {"T4": {**TINY_SWEEP, "archs": list(ARCHS)}}}


class Bug(Exception):
    """A command ended with an internal error."""


def stages():
    """The command lines that make a study, in order, and those of the other verbs."""
    jobs, pools, shared = Jobs(STUDY), [paths.pool("T4", seed) for seed in (1, 2)], paths.shared("T4")
    seed = {number: SimpleNamespace(sweep="T4", seed=str(number)) for number in (1, 2)}
    yield from (["pool", "--spec", jobs.pool_spec(seed[i]), "--out", pools[i - 1]] for i in (1, 2))
    yield ["known", "--spec", jobs.problem_spec("known")(seed[1]), "--out", shared]
    yield ["normal", "--spec", jobs.problem_spec("normal")(seed[1]), "--inputs", shared, "--out", paths.normal("T4")]
    yield ["gram", "--spec", jobs.gram_spec(seed[1]), "--pool", pools[0], "--out", paths.gram("T4", 1)]
    fits = {}
    for arch in ARCHS:
        for N in (4, 8):
            for number in (1, 2):
                cell = {"sweep": "T4", "arch": arch, "N": str(N), "seed": str(number)}
                wildcards, fits[arch, N, number] = SimpleNamespace(**cell), paths.fit(**cell)
                inputs = [pools[number - 1], *(path.format(**cell) for path in jobs.extra_input(wildcards))]
                outputs = ["--outputs", paths.cell(**cell), paths.fit(**cell)]
                yield ["fit", "--spec", jobs.fit_spec(wildcards), "--inputs", *inputs, *outputs]
    launched = ["--inputs", *inputs, "--out", "results/fit.npy", "--checkpoints", "results/checkpoints"]
    yield ["fit-torchrun", "--spec", jobs.fit_spec(wildcards), *launched]
    row = ["--spec", jobs.row_spec(wildcards), "--pool", pools[1], "--shared", shared]
    yield ["evaluate", fits["fc", 8, 2], *row, "--out", "results/row.json"]
    (apart,) = (SimpleNamespace(sweep="T4", seed=str(sweep.theory_seed)) for sweep in jobs.study)
    yield ["pool", "--spec", jobs.pool_spec(apart), "--out", paths.pool("T4", apart.seed)]
    for arch in ARCHS:
        wanted = SimpleNamespace(sweep="T4", arch=arch)
        predicted = ["--inputs", *jobs.theory_input(wanted), "--out", paths.theory("T4", arch)]
        yield ["theory", "--spec", jobs.theory_spec(wanted), *predicted]
    names = ("cells", "images", "curves", "calibration", "crossings", "budget", "theory")
    cells, images, curves, calibration, crossings, budget, theory = (f"results/{name}.parquet" for name in names)
    yield ["collect", "--spec", jobs.study_spec(), "--cells", cells, "--images", images]
    yield ["collect-theory", "--spec", jobs.theories_spec(), "--out", theory]
    yield [
        "calibrate",
        cells,
        "--spec",
        jobs.report_spec("calibrate", "metrics"),
        "--curves",
        curves,
        "--calibration",
        calibration,
    ]
    yield ["budgets", cells, "--theory", theory, "--spec", jobs.budget_spec(), "--out", budget]
    yield [
        "crossings",
        cells,
        "--images",
        images,
        "--spec",
        jobs.report_spec("crossings", "metrics"),
        "--out",
        crossings,
    ]
    yield ["chains", "--shared", shared, "--spec", jobs.chains_spec(seed[1]), "--out", paths.chains("T4")]
    outputs = ["--out", "results/ladder.parquet", "--verdicts", "results/ladder.json"]
    yield ["ladder", cells, "--images", images, "--chains", *jobs.chains(), "--spec", jobs.ladder_spec(), *outputs]
    for name, product in products.products().items():
        if product.outputs[0] in jobs.products:
            yield [
                "product",
                name,
                *product.inputs,
                "--spec",
                jobs.report_spec(name, *product.takes),
                "--out",
                *product.outputs,
            ]
    drawn = ["--fits", fits["ko", 4, 1], fits["fc", 4, 1], "--pool", pools[0], "--shared", shared]
    yield ["figure-recons", *drawn, "--out", "results/fig_recons.png"]
    yield ["bound", "network.yaml", "--samples", "256"]
    yield ["planner", "pilot.csv", "--out", "page.html"]
    yield ["budget", "pilot.csv", "--target", "0.02", "--law", "power", "--json"]
    yield ["budget", cells, "--target", "0.02", "--sweep", "T4", "--metric", "mse", "--assurance", "0.9"]
    yield ["budget", "pilot.csv", "--target", "0.02", "--pairs", "pairs.npz", "--pairs-arch", "fc"]
    yield ["curve", "pairs.npz", "--target", "0.5", "--at", "4,8", "--json"]
    yield ["compare", cells, cells, "--tolerance", "0.005"]
    yield ["config"]
    yield ["config", "--schema"]


class Study:
    """The files of the tiny study in a folder, which are put back after each command."""

    def __init__(self, folder):
        self.folder, self.commands = folder, list(stages())
        for name in ("pilot.csv", "network.yaml"):
            shutil.copy(ROOT / "docs" / name, folder)
        x, y = np.random.default_rng(1).standard_normal((2, 20, 3))
        np.savez(folder / "pairs.npz", x=x, y=x + 0.1 * y)
        for arguments in self.commands:
            self.run(arguments)
        self.files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def run(self, arguments):
        """Run a command; a mistake is a KoctError, and a bug of koct a Bug."""
        said = io.StringIO()
        points = mock.patch.dict(printed.PRINTED, operating_points=printed.PRINTED["operating_points"][:1])
        torchrun = mock.patch.object(distributed, "fit", return_value=0)
        quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)
        with contextlib.chdir(self.folder), points, torchrun, quiet[0], quiet[1]:
            try:
                status = cli.main(arguments)
            except SystemExit as end:
                status = end.code
        if status == 2:
            raise KoctError(said.getvalue().strip().splitlines()[-1])
        if status not in (0, 1):
            raise Bug(said.getvalue().strip())
        return status

    def run_and_restore(self, arguments):
        try:
            return self.run(arguments)
        finally:
            for path, data in self.files.items():
                if not path.is_file() or path.read_bytes() != data:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)

    def draw(self, rng):
        """A damaged command line."""
        arguments = list(rng.choice(self.commands))
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(arguments)) if arguments else 0
            match rng.choice(["replace", "replace", "drop", "add", "swap", "spec", "spec", "file"]):
                case "replace" if at:
                    arguments[at] = rng.choice(GARBAGE)
                case "drop" if arguments:
                    del arguments[at]
                case "add":
                    arguments.insert(at, rng.choice(GARBAGE))
                case "swap" if arguments:
                    other = rng.randrange(len(arguments))
                    arguments[at], arguments[other] = arguments[other], arguments[at]
                case "spec" if "--spec" in arguments[:-1]:
                    place = arguments.index("--spec") + 1
                    arguments[place] = _other_spec(arguments[place], rng)
                case "file":
                    places = [i for i, argument in enumerate(arguments) if argument.startswith("results/")]
                    if places:
                        arguments[rng.choice(places)] = str(rng.choice(list(self.files)).relative_to(self.folder))
        return arguments if all(_harmless(argument) for argument in arguments) else self.draw(rng)


def _other_spec(text, rng):
    """Damaged, or without one of its keys. Only koct writes specs: a value of another type is not looked for."""
    if rng.random() < 0.2:
        return mutations.damaged(text.encode(errors="replace"), rng).decode(errors="replace").replace("\0", "")
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(spec, dict):
        inner = rng.choice([spec, *(value for value in spec.values() if isinstance(value, dict))])
        if inner:
            del inner[rng.choice(list(inner))]
    return json.dumps(spec)


def _harmless(argument):
    """Whether it cannot name a file elsewhere."""
    return not argument.startswith(("/", "~")) and ".." not in argument

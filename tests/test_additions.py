"""What CONTRIBUTING.md says about additions: each is made in a copy of the repository, its files counted, and used."""

import json
import re

import pandas as pd
import pytest
import yaml
from conftest import ROOT, TINY, TINY_SWEEP
from test_your_own import PLAIN

NETWORK = '''"""The mean of the training images, whatever was measured."""

from koct.contracts import Architecture, Cost, Network


class Mean(Architecture):
    label = "mean"

    def fit(self, data):
        yield None, MeanNetwork(data.y.mean(axis=0, keepdims=True))

    def restore(self, state, data):
        return MeanNetwork(state["mean"])

    def cost(self, work):
        return Cost()


class MeanNetwork(Network):
    def __init__(self, mean):
        self.mean = mean

    def predict(self, x):
        return self.mean.repeat(len(x), axis=0)

    def state(self):
        return {"mean": self.mean}
'''

METRIC = '''"""Mean absolute error over all pixels of all images."""

SYMBOL = "MAE"
UNIT = "intensity"
DESCRIPTION = "mean absolute error over all pixels"


def error(predicted, y):
    return float(abs(predicted - y.astype(float)).mean())
'''

PRODUCT = """
from koct.report import inputs
from koct.report.product import Product
from koct.report.table import Table

PRODUCT = Product(
    title="sizes of all cells",
    about="how many cells there are",
    reads=("cells.parquet",),
    takes=("seeds",),
    caption="**Cells**, counted.",
)


def table(cells_path, seeds):
    rows, *_ = inputs.split(cells_path, ("sweep", "N"))
    lines = [[row["sweep"], str(row["N"]), str(len(seeds[row["sweep"]]))] for row in rows]
    return Table("Cells.", "lrr", [["Sweep", "$N$", "Seeds"]], lines)
"""

VERB = """

def twice(number):
    print(2 * number)


VERBS["twice"] = (twice, "a number, doubled", [("number", {"type": float, "metavar": "X", "help": "a number"})])
"""

STAGE = '''

def count(spec, inputs, outputs):
    """count the cells of a study"""
    from koct.base.files import write_json
    from koct.base.stamps import Stamp, made_from
    from koct.study import results

    rows, _ = results.read(*inputs)
    write_json(*outputs, {"cells": len(rows), "skipped": spec["skip"]}, Stamp(spec, made_from(*inputs)))


VERBS["count"] = (count, count.__doc__, [SPEC, INPUTS, OUTPUTS])
'''

RULE = """

rule count:
    input:
        rules.collect.output.cells,
    output:
        "results/count.json",
    log:
        "results/logs/count.log",
    params:
        spec=jobs.report_spec("count", "skip"),
    shell:
        "python -m koct count --spec {params.spec:q} --inputs {input} --outputs {output} > {log} 2>&1"
"""


def written(path, text):
    assert not path.exists()
    path.write_text(text)


def appended(path, text):
    path.write_text(path.read_text() + text)


def replaced(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def option(root):
    replaced(
        root / "koct/networks/fc.py",
        '    label = "FC"\n',
        '    label = "FC"\n    extra: float = option("nothing yet", default=0.0, minimum=0)\n',
    )
    replaced(root / "koct/networks/fc.py", "Training, Workload\n", "Training, Workload, option\n")


def key(root):
    sweep = root / "koct/config/sweep.py"
    skip = '    skip: tuple[int, ...] = option("training-set sizes to leave out", default=())\n'
    replaced(sweep, "\n\nclass Sweep(Grid):", f"{skip}\n\nclass Sweep(Grid):")
    replaced(
        sweep, "return tuple(N for N in self.N if arch", "return tuple(N for N in self.N if N not in self.skip if arch"
    )


def stage(root):
    appended(root / "koct/commands/stages.py", STAGE)
    appended(root / "rules/results.smk", RULE)


ADDITIONS = {  # as CONTRIBUTING.md calls them
    "a problem": lambda root: written(root / "koct/problems/lines.py", PLAIN),
    "a network": lambda root: written(root / "koct/networks/mean.py", NETWORK),
    "a metric": lambda root: written(root / "koct/metrics/mae.py", METRIC),
    "a product": lambda root: written(root / "koct/report/tables/table_sizes.py", PRODUCT),
    "an option": option,
    "a key of sweeps": key,
    "a verb for people": lambda root: appended(root / "koct/commands/people.py", VERB),
    "a verb of a job": stage,
}


def state(root):
    folders = [root / name for name in ("koct", "rules", "profiles", "envs")]
    files = [root / "Snakefile", *(path for folder in folders for path in folder.rglob("*"))]
    return {path: path.read_bytes() for path in files if path.is_file() and "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def extended(checkout):
    """A copy with all additions and a study that uses them, really run; `touched` says how many files each took."""
    run = checkout()
    run.touched = {}
    for name, add in ADDITIONS.items():
        before = state(run.folder)
        add(run.folder)
        run.touched[name] = len(dict(state(run.folder).items() - before.items()))
    lines = {key: TINY_SWEEP[key] for key in ("pool", "seeds", "lambdas")}
    lines |= {"problem": "lines", "size": 4, "archs": ["mean", "fc"], "fc": {"extra": 0.5}, "metric": "mae"}
    lines |= {"N": [2, 4, 6, 8], "skip": [4]}
    config = {**TINY, "studies": {"tiny": ["T4", "L4"]}, "sweeps": {"T4": TINY_SWEEP, "L4": lines}}
    run.path("config.yaml").write_text(yaml.safe_dump(config))
    run.snakemake("all", "results/count.json")
    return run


def test_the_page_tells_how_many_files_an_addition_takes(extended):
    rows = re.findall(r"^\| (an? [^|]+?) \| (\d+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert {name: int(count) for name, count in rows} == extended.touched


def test_a_problem_a_network_a_metric_an_option_and_a_key_are_used(extended):
    cells = pd.read_parquet(extended.path("results/cells.parquet"))
    own = cells[cells["sweep"] == "L4"]
    assert set(own["problem"]) == {"lines"}
    assert set(own["arch"]) == {"mean", "fc"}
    assert set(own["N"]) == {2, 6, 8}
    assert cells["mae"].gt(0).all()
    mean, fc = (own[(own["arch"] == arch) & (own["N"] == 8)]["mae"].mean() for arch in ("mean", "fc"))
    assert fc < mean
    stamp = json.loads(extended.path("results/cells/L4/fc/N8_seed1.json").read_text())["stamp"]
    assert stamp["spec"]["arch"]["options"]["extra"] == 0.5


def test_what_is_added_is_documented(extended):
    page = extended.koct("config").stdout
    for text in ("## The problem `lines`", "## The architecture `mean`", "NAME.fc.extra`", "NAME.skip`", "`mae`"):
        assert text in page


def test_verbs_are_there_and_a_job_has_a_stamp(extended):
    assert extended.koct("twice", "21").stdout == "42.0\n"
    counted = json.loads(extended.path("results/count.json").read_text())
    assert counted["cells"] == len(pd.read_parquet(extended.path("results/cells.parquet")))
    assert counted["skipped"] == counted["stamp"]["spec"]["skip"] == {"T4": [], "L4": [4]}


def test_a_product_is_made_and_shown_and_listed(extended):
    run = extended
    assert "T4 & 4 & 2 \\\\" in run.path("results/table_sizes.tex").read_text()
    assert "<td>T4</td>" in run.path("results/report/table_sizes.html").read_text()
    assert "table_sizes.tex" in run.path("results/ro-crate-metadata.json").read_text()
    run.snakemake("--report", "report.html")
    report = run.path("report.html").read_text()
    assert "sizes of all cells" in report
    assert "<strong>Cells</strong>, counted." in report
    listing = "import importlib.util as u; s = u.spec_from_file_location('pages', '{}'); m = u.module_from_spec(s); "
    listing += "s.loader.exec_module(m); print(*m.files(), sep='\\n')"
    done = run.python("-c", listing.format(ROOT / "benchmarks/pages.py"))
    assert "| `table_sizes.tex` | how many cells there are |" in done.stdout


def test_a_change_makes_what_was_added_again_and_nothing_else(extended):
    assert extended.plan("all", "results/count.json") == {}
    replaced(extended.path("koct/report/tables/table_sizes.py"), '"Seeds"', '"seeds"')
    appended(extended.path("koct/study/results.py"), "\n\nADDED = 1\n")  # the code of a verb is what it imports
    jobs = extended.plan("all", "results/count.json")
    assert jobs["table_sizes"] == jobs["count"] == jobs["crate"] == 1
    assert not jobs.keys() & {"pool", "fit"}

"""What CONTRIBUTING.md says about additions: each is made in a copy of the repository, its files counted, and used."""

import json
import re

import pytest
from conftest import ROOT, TINY, TINY_SWEEP
from test_limits import MEAN
from test_your_own import PLAIN

pytestmark = pytest.mark.slow
COST = "class Mean(Architecture):\n    def cost(self, work):\n        return Cost()\n\n"
NETWORK = MEAN.replace("Architecture, ", "Architecture, Cost, ").replace("class Mean(Architecture):\n", COST)

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

@verb(PILOTS, "twice", "a number, doubled", argument("number", "a number", "X", type=float))
def twice(number):
    print(2 * number)
"""

STAGE = '''

def count(spec, inputs, outputs):
    """count the cells of a study"""
    from koct.base.files import write_json
    from koct.base.stamps import Stamp, made_from
    from koct.study import results

    rows, _ = results.read(*inputs)
    write_json(*outputs, {"cells": len(rows), "skipped": spec["skip"]}, Stamp(spec, made_from(*inputs)))


verb(JOBS, "count", count.__doc__, SPEC, INPUTS, OUTPUTS)(count)
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
        "python -m koct count --spec - --inputs {input} --outputs {output} <<< {params.spec:q} > {log} 2>&1"
"""


def append(name, text):
    return lambda run: run.write(name, (run.path(name).read_text() if run.path(name).exists() else "") + text)


def option(run):
    new = '    label = "FC"\n    extra: float = option("nothing yet", default=0.0, minimum=0)\n'
    run.replace("koct/networks/fc.py", '    label = "FC"\n', new)
    run.replace("koct/networks/fc.py", "Training, Workload\n", "Training, Workload, option\n")


def key(run):
    skip = '    skip: tuple[int, ...] = option("training-set sizes to leave out", default=())\n'
    run.replace("koct/config/sweep.py", "\n\nclass Sweep(Grid):", f"{skip}\n\nclass Sweep(Grid):")
    new = "tuple(N for N in self.N if N not in self.skip)"
    run.replace("koct/config/sweep.py", "return self.N if arch.N", f"return {new} if arch.N")


def key_of_fits(run):
    factor = '    factor: float = option("what pairs are multiplied by", default=1.0, fit=True, later=True)\n'
    run.replace("koct/config/sweep.py", "\n\nclass Sweep(Grid):", f"{factor}\n\nclass Sweep(Grid):")
    used = "    def fit(self, data: Training) -> Iterator[tuple[float | None, Network]]:\n"
    run.replace("koct/networks/fc.py", used, used + '        print("factor", data.cell.keys.get("factor", 1.0))\n')


def law(run):
    new = '    Last(),\n    Slope("short", "the last slope fades at once", "the fall ends soon", 1.0),\n'
    run.replace("koct/forecast/laws.py", "    Last(),\n", new)


STAGES = [("koct/commands/stages.py", STAGE), ("rules/results.smk", RULE)]
ADDITIONS = {  # as CONTRIBUTING.md calls them
    "a problem": append("koct/problems/lines.py", PLAIN),
    "a network": append("koct/networks/mean.py", NETWORK),
    "a metric": append("koct/metrics/mae.py", METRIC),
    "a product": append("koct/report/tables/table_sizes.py", PRODUCT),
    "an option": option,
    "a key of sweeps": key,
    "a key that changes a fit": key_of_fits,
    "a law": law,
    "a verb for people": append("koct/commands/people.py", VERB),
    "a verb of a job": lambda run: [append(*one)(run) for one in STAGES],
}


def state(run):
    files = [path for path in run.folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def extended(checkout):
    """A copy with all additions and a study that uses them, really run; `touched` says how many files each took."""
    lines = {key: TINY_SWEEP[key] for key in ("pool", "seeds", "lambdas")}
    lines |= {"problem": "lines", "size": 4, "archs": ["mean", "fc"], "fc": {"extra": 0.5}, "metric": "mae"}
    lines |= {"N": [2, 4, 6, 8], "skip": [4], "factor": 2.0}
    run = checkout({**TINY, "studies": {"tiny": ["T4", "L4"]}, "sweeps": {"T4": TINY_SWEEP, "L4": lines}})
    run.touched = {}
    for name, add in ADDITIONS.items():
        before = state(run)
        add(run)
        run.touched[name] = len(state(run).items() - before.items())
    run.snakemake("all", "results/count.json")
    return run


@pytest.mark.long
def test_the_page_tells_how_many_files_an_addition_takes(extended):
    rows = re.findall(r"^\| (an? [^|]+?) \| (\d+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert {name: int(count) for name, count in rows} == extended.touched


def test_a_problem_a_network_a_metric_an_option_and_a_key_are_used(extended):
    cells = extended.table("cells")
    own = cells[cells["sweep"] == "L4"]
    assert set(own["problem"]) == {"lines"}
    assert set(own["arch"]) == {"mean", "fc"}
    assert set(own["N"]) == {2, 6, 8}
    assert cells["mae"].gt(0).all()
    mean, fc = (own[(own["arch"] == arch) & (own["N"] == 8)]["mae"].mean() for arch in ("mean", "fc"))
    assert fc < mean
    stamp = json.loads(extended.path("results/cells/L4/fc/N8_seed1.json").read_text())["stamp"]
    assert stamp["spec"]["arch"]["options"]["extra"] == 0.5
    for sweep, factor in (("T4", 1.0), ("L4", 2.0)):
        assert f"factor {factor}\n" in extended.path(f"results/logs/fits/{sweep}/fc/N8_seed1.log").read_text()


def test_what_is_added_is_documented_and_verbs_are_there(extended):
    page = extended.koct("config").stdout
    for text in ("## The problem `lines`", "## The architecture `mean`", "NAME.fc.extra`", "NAME.skip`", "`mae`"):
        assert text in page
    assert extended.koct("twice", "21").stdout == "42.0\n"
    asked = ("budget", "results/cells.parquet", "--sweep", "T4", "--metric", "mse", "--target", "0.01")
    assert "the last slope fades at once" in extended.koct(*asked, "--law", "short").stdout
    counted = json.loads(extended.path("results/count.json").read_text())
    assert counted["cells"] == len(extended.table("cells"))
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
    done = run.python("-c", f"import sys; sys.path.append('{ROOT}/benchmarks'); import pages; print(*pages.files())")
    assert "| `table_sizes.tex` |  | how many cells there are |" in done.stdout


def test_a_change_makes_what_was_added_again_and_nothing_else(extended):
    assert extended.plan("all", "results/count.json") == {}
    extended.replace("koct/report/tables/table_sizes.py", '"Seeds"', '"seeds"')
    append("koct/study/results.py", "\n\nADDED = 1\n")(extended)  # the code of a verb is what it imports
    jobs = extended.plan("all", "results/count.json")
    assert jobs["table_sizes"] == jobs["count"] == jobs["crate"] == 1
    assert not jobs.keys() & {"pool", "fit"}

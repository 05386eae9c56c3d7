"""Run studies from nothing and keep their tables and figures, with what made them, below results/reference.

    python benchmarks/reference.py --profile profiles/gpu              # all of them
    python benchmarks/reference.py --profile profiles/gpu dose ladder
    python benchmarks/reference.py --redraw                            # figures and tables alone, from Parquet files

The study `full` is results/reference itself, any other has a folder of its own in it. Every study runs in a clone of
the last commit, so that its wall time is that of the whole study.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ["full", "crossing", "ladder", "dose", "modalities"]
KEPT = ["cells.parquet", "curves.parquet", "calibration.parquet", "crossings.parquet", "budget.parquet"]
KEPT += ["theory.parquet", "table_theory.tex", "fig_theory.pdf"]
KEPT += ["table_calibration.tex", "table_scaling.tex", "table_fullscale.tex", "table_budget.tex", "fig_sweeps.pdf"]
KEPT += ["table_crossings.tex"]
KEPT += ["ladder.parquet", "ladder.json", "table_ladder.tex", "fig_ladder.pdf", "table_conditions.tex"]
KEPT += ["table_calibration_wide.tex", "table_norms.tex", "fig_heldout.pdf", "fig_factors.pdf"]
KEPT += ["claims.parquet", "claims.md", "claims.tex", "claims.html"]
KEPT += ["planner.html"]
FIGURES = [
    "fig_recons_H128.png",
    "fig_recons_H256.png",
    "fig_recons_H512-exact.png",
    "fig_sweeps.png",
    "fig_theory.png",
    "fig_ladder.png",
    "fig_heldout.png",
    "fig_factors.png",
]
CURVES, CALIBRATION = ["--curves", "{folder}/curves.parquet"], ["--calibration", "{folder}/calibration.parquet"]
BUDGETS, CELLS = ["--budgets", "{folder}/budget.parquet"], ["--cells", "{folder}/cells.parquet"]
THEORY, LADDER = ["--theory", "{folder}/theory.parquet"], ["--ladder", "{folder}/ladder.parquet"]
DRAWN = [
    ("table_calibration.tex", "table-calibration", [*CURVES, *CALIBRATION]),
    ("table_calibration_wide.tex", "table-calibration-wide", [*CELLS, *CURVES, *CALIBRATION]),
    ("table_norms.tex", "table-norms", [*CELLS, *CURVES, *CALIBRATION]),
    ("table_scaling.tex", "table-scaling", [*CURVES, *CALIBRATION]),
    ("table_fullscale.tex", "table-fullscale", []),
    ("table_budget.tex", "table-budget", [*CURVES, *BUDGETS]),
    ("table_crossings.tex", "table-crossings", ["--crossings", "{folder}/crossings.parquet", *CURVES]),
    ("table_theory.tex", "table-theory", [*THEORY, *CELLS]),
    ("table_ladder.tex", "table-ladder", [*LADDER, *CURVES, *CALIBRATION, *BUDGETS]),
    ("table_conditions.tex", "table-conditions", [*CURVES, *CALIBRATION, *BUDGETS]),
    ("fig_sweeps.pdf", "figure-sweeps", [*CELLS, *CURVES, *CALIBRATION, *THEORY]),
    ("fig_theory.pdf", "figure-theory", THEORY[1:]),
    ("fig_ladder.pdf", "figure-ladder", [*LADDER, *CURVES]),
    ("fig_heldout.pdf", "figure-heldout", [*CELLS, *CURVES]),
    ("fig_factors.pdf", "figure-factors", CALIBRATION[1:]),
    ("claims.parquet", "claims", [*CELLS, *CURVES, *CALIBRATION, *BUDGETS]),
    ("planner.html", "planner", CELLS[1:]),
]
MORE = {".pdf": [".png"], ".parquet": [".md", ".tex", ".html"]}  # what one command makes with a file of this ending
PACKAGES = ["snakemake", "numpy", "scipy", "pyarrow", "torch", "triton", "numba", "matplotlib"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("studies", nargs="*", default=STUDIES, metavar="STUDY", help="default: all that are kept")
    parser.add_argument("--profile")
    parser.add_argument("--redraw", action="store_true", help="draw what the code has changed, and run nothing")
    arguments = parser.parse_args()
    for study in arguments.studies:
        folder = ROOT / "results/reference" / ("" if study == "full" else study)
        if arguments.redraw:
            redraw(folder)
        else:
            run(study, arguments.profile, folder)


def run(study, profile, folder):
    """Run a study in a clone of the last commit and keep its results in a folder."""
    command = ["snakemake", *(["--profile", profile] if profile else []), "--config", f"study={study}"]
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place) / "koct"
        git("clone", "--quiet", str(ROOT), str(clone))
        started = time.perf_counter()
        subprocess.run(command, cwd=clone, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - started
        results = clone / "results"
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()
        for name in KEPT + FIGURES:
            if (results / name).exists() and (name != "planner.html" or study == "full"):  # megabytes each
                shutil.copy(results / name, folder / name)
        about = {
            "command": " ".join(command),
            "commit": git("rev-parse", "HEAD"),
            "wall seconds": round(wall, 1),
            "jobs": job_seconds(results / "benchmarks"),
            "machine": machine(),
            "versions": {"python": platform.python_version(), **versions()},
        }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"{study}: {wall:.0f} s", flush=True)


def redraw(folder):
    """Draw the figures and tables of a folder again, and say in about.json which commit drew them."""
    for name, verb, inputs in DRAWN:
        if (folder / name).exists():
            given = [argument.format(folder=folder) for argument in inputs]
            path = folder / name
            outputs = [path, *(path.with_suffix(ending) for ending in MORE.get(path.suffix, []))]
            subprocess.run([sys.executable, "-m", "koct", verb, *given, "--out", *outputs], cwd=ROOT, check=True)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    about["figures and tables drawn by commit"] = git("rev-parse", "HEAD")
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def git(*command):
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def job_seconds(folder):
    """For every rule and sweep: how many jobs, and their mean and longest wall time as Snakemake measured it."""
    times = {}
    for path in sorted(folder.rglob("*.tsv")):
        head, values = (line.split("\t") for line in path.read_text().splitlines()[:2])
        place = path.relative_to(folder).parts
        sweep = place[1].removesuffix(".tsv") if len(place) > 1 else ""
        arch = place[2] if len(place) > 3 else ""
        name = " ".join(part for part in (place[0].removesuffix(".tsv"), sweep, arch) if part)
        times.setdefault(name, []).append(float(values[head.index("s")]))
    return {
        name: {"jobs": len(times), "mean s": round(sum(times) / len(times), 1), "max s": round(max(times), 1)}
        for name, times in times.items()
    }


def machine():
    about = {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()}
    try:
        ask = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        about["gpu"] = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        about["gpu"] = "none"
    return about


def versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    main()

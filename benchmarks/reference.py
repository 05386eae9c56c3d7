"""Run a study from nothing and keep its tables and figures, with what made them, below results/reference.

    python benchmarks/reference.py --study full --profile profiles/gpu

    python benchmarks/reference.py --study full --redraw      # its figures and tables alone, from its Parquet files

The study `full` is results/reference itself, any other has a folder of its own in it. Wants a checkout without results,
so that the wall time is that of the whole study.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ["cells.parquet", "curves.parquet", "calibration.parquet", "untrained.parquet", "budget.parquet"]
KEPT += ["theory.parquet", "table_theory.tex", "fig_theory.pdf"]
KEPT += ["table_calibration.tex", "table_scaling.tex", "table_fullscale.tex", "table_budget.tex", "fig_sweeps.pdf"]
KEPT += ["ladder.parquet", "ladder.json", "table_ladder.tex", "fig_ladder.pdf", "table_conditions.tex"]
KEPT += ["table_calibration_wide.tex", "table_norms.tex", "fig_heldout.pdf", "fig_factors.pdf"]
KEPT += ["claims.parquet", "claims.md", "claims.tex", "claims.html"]
KEPT += ["planner.html", "images.parquet"]
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
THEORY, UNTRAINED = ["--theory", "{folder}/theory.parquet"], ["--untrained", "{folder}/untrained.parquet"]
DRAWN = [
    ("table_calibration.tex", "table-calibration", CALIBRATION[1:]),
    ("table_calibration_wide.tex", "table-calibration-wide", [*CELLS, *CURVES, *CALIBRATION]),
    ("table_norms.tex", "table-norms", [*CELLS, *CURVES, *CALIBRATION]),
    ("table_scaling.tex", "table-scaling", [*CURVES, *CALIBRATION]),
    ("table_fullscale.tex", "table-fullscale", []),
    ("table_budget.tex", "table-budget", BUDGETS[1:]),
    ("table_theory.tex", "table-theory", [*THEORY, *CELLS]),
    ("table_ladder.tex", "table-ladder", ["--ladder", "{folder}/ladder.parquet", *CALIBRATION, *BUDGETS]),
    ("table_conditions.tex", "table-conditions", [*CURVES, *CALIBRATION, *BUDGETS]),
    ("fig_sweeps.pdf", "figure-sweeps", [*CELLS, *CURVES, *CALIBRATION, *UNTRAINED, *THEORY]),
    ("fig_theory.pdf", "figure-theory", THEORY[1:]),
    ("fig_ladder.pdf", "figure-ladder", ["{folder}/ladder.parquet"]),
    ("fig_heldout.pdf", "figure-heldout", [*CELLS, *CURVES]),
    ("fig_factors.pdf", "figure-factors", CALIBRATION[1:]),
    ("claims.parquet", "claims", [*CELLS, *CURVES, *CALIBRATION, *UNTRAINED, *BUDGETS]),
    ("planner.html", "planner", CELLS[1:]),
]
MORE = {".pdf": [".png"], ".parquet": [".md", ".tex", ".html"]}  # what one command makes with a file of this ending
PACKAGES = ["snakemake", "numpy", "scipy", "pyarrow", "torch", "triton", "numba", "matplotlib"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--study", default="full")
    parser.add_argument("--profile")
    parser.add_argument("--redraw", action="store_true", help="draw what the code has changed, and run nothing")
    arguments = parser.parse_args()
    results = ROOT / "results"
    folder = results / "reference" / ("" if arguments.study == "full" else arguments.study)
    if arguments.redraw:
        redraw(folder)
        return
    made = [path.name for path in results.iterdir() if path.name not in ("README.md", "reference")]
    if made:
        sys.exit(f"results/ is not empty ({', '.join(sorted(made)[:3])}, …): use a fresh clone")
    changed = git("status", "--porcelain") or "none"
    command = ["snakemake", *(["--profile", arguments.profile] if arguments.profile else [])]
    command += ["--config", f"study={arguments.study}"]
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    kept = [name for name in KEPT + FIGURES if (results / name).exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    for name in kept:
        shutil.copy(results / name, folder / name)
    about = {
        "command": " ".join(command),
        "commit": git("rev-parse", "HEAD"),
        "changed files": changed,
        "wall seconds": round(wall, 1),
        "jobs": job_seconds(results / "benchmarks"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **versions()},
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(about, indent=1))


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

"""Run studies from nothing and keep their tables and figures, with what made them, below results/reference.

    python benchmarks/reference.py --profile profiles/gpu              # all of them
    python benchmarks/reference.py --profile profiles/gpu dose ladder
    python benchmarks/reference.py --minutes 25 benchmark-long         # as far as it comes; the next call goes on
    python benchmarks/reference.py --redraw                            # figures and tables alone, from Parquet files
    python benchmarks/reference.py --audit                             # what was chosen at an edge, or with labels

The study `full` is results/reference itself, any other has a folder of its own in it. Every study runs in a clone of
the last commit, so that its wall time is that of the whole study. With `--minutes`, a study that takes longer is
interrupted: rows.tar.xz in its folder then has the rows of its finished cells, on other pairs too, and runs.json what
made them; so also if a job fails. Later calls, also on other machines, fit the others. Pictures of reconstructions need
the fits themselves: for these, go on in the same clone with `--work`.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pandas as pd

from koct.base import stamps
from koct.report import products

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ["full", "crossing", "ladder", "dose", "modalities", "benchmark", "benchmark-long", "printed", "head"]
STUDIES += ["head-256", "labels", "mismatch", "anatomy"]
CONFIGS = {"anatomy": "docs/anatomy/config.yaml"}  # of studies that are not in config.yaml
KEPT = ["cells.parquet", "curves.parquet", "calibration.parquet", "crossings.parquet", "budget.parquet"]
KEPT += ["theory.parquet", "ladder.parquet", "ladder.json", "transfer.parquet"]
KEPT += [f"fig_recons_{sweep}.png" for sweep in ("H128", "H256", "H512-exact", "head", "head-256", "shepp-logan")]
KEPT += ["fig_recons_H128.npy", "fig_recons_H256.npy"]  # which claims are about
PRODUCTS = [product for product in products.products().values() if not product.per_sweep]
KEPT += [Path(path).name for product in PRODUCTS for path in product.outputs if Path(path).parent.name == "results"]
KEPT.remove("README.md")  # whose links lead to what is not kept
ALSO_KEPT = {"labels": ["images.parquet"]}  # which its table_worth reads
LARGEST = 2e6  # bytes of a file that is kept, unless it is of the study `full`: pages, and figures of many sweeps
PACKAGES = ["snakemake", "numpy", "scipy", "pyarrow", "torch", "triton", "numba", "matplotlib"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("studies", nargs="*", default=STUDIES, metavar="STUDY", help="default: all that are kept")
    parser.add_argument("--profile")
    parser.add_argument("--cores", help="jobs at once, where the profile's are too many beside another study")
    parser.add_argument("--work", metavar="FOLDER", help="run in a clone there, where an interrupted study goes on")
    parser.add_argument("--minutes", type=float, help="interrupt a study then, and keep the rows of its finished cells")
    parser.add_argument("--redraw", action="store_true", help="draw what the code has changed, and run nothing")
    parser.add_argument("--audit", action="store_true", help="list doubtful choices of what is kept, and run nothing")
    arguments = parser.parse_args()
    for study in arguments.studies:
        folder = ROOT / "results/reference" / ("" if study == "full" else study)
        if (arguments.audit or arguments.redraw) and not (folder / "cells.parquet").exists():
            print(f"{study}: no reference yet", flush=True)
        elif arguments.audit:
            print("\n".join(f"{study}: {line}" for line in audit(folder)) or f"{study}: nothing", flush=True)
        elif arguments.redraw:
            redraw(folder)
        else:
            options = {"--profile": arguments.profile, "--cores": arguments.cores}
            run(study, options, folder, arguments.work, arguments.minutes)


def run(study, options, folder, work=None, minutes=None):
    """Run a study in a clone of the last commit and keep its results, or the rows that it has so far, in a folder."""
    chosen = ["--configfile", CONFIGS[study]] if study in CONFIGS else ["--config", f"study={study}"]
    given = [word for option, value in options.items() if value for word in (option, value)]
    command = ["snakemake", *given, *chosen]
    with tempfile.TemporaryDirectory() as place:
        clone = Path(work or place).resolve() / study
        goes_on = clone.exists()
        if not goes_on:
            git("clone", "--quiet", str(ROOT), str(clone))
        rows, results = folder / "rows.tar.xz", clone / "results"
        if rows.exists() and not goes_on:  # they stand in for fits with the same options: docs/benchmark.md
            with tarfile.open(rows) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
                archive.extractall(results)
        commit, earlier = git("-C", str(clone), "rev-parse", "HEAD"), runs_of(folder)
        started = time.perf_counter()
        status = run_study(command, clone, minutes)
        wall = time.perf_counter() - started
        folder.mkdir(parents=True, exist_ok=True)
        pack_rows(results, rows)  # first, so that whatever fails after it loses none
        about = {
            "command": " ".join(command),
            "commit": commit,
            "wall seconds": round(wall, 1),
            "jobs": job_seconds(results / "benchmarks"),
            "machine": machine(),
            "versions": {"python": platform.python_version(), **versions()},
        }
        if status == 0:
            keep(study, results, folder)
            about |= {"earlier runs": earlier} if earlier else {}
            write_json(folder / "about.json", about)
            if not study.startswith(("benchmark", "printed", "labels")):  # for those who add a network
                rows.unlink()
        else:
            write_json(folder / "runs.json", [*earlier, about])
    print(f"{study}: {wall:.0f} s{', interrupted' if status is None else ''}", flush=True)
    if status:
        raise subprocess.CalledProcessError(status, command)


def runs_of(folder):
    """Return what made the rows that a folder keeps: the runs that were interrupted, or those of its about.json."""
    runs, about = folder / "runs.json", folder / "about.json"
    if runs.exists():
        return json.loads(runs.read_text(encoding="utf-8"))
    if not ((folder / "rows.tar.xz").exists() and about.exists()):
        return []
    last = json.loads(about.read_text(encoding="utf-8"))
    return [*last.pop("earlier runs", []), last]


def run_study(command, clone, minutes):
    """Run a command in a clone; return its exit status, also if a user interrupts it, or None after so many minutes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored, also by the command
    process = subprocess.Popen(command, cwd=clone, stdout=subprocess.DEVNULL)
    try:
        return process.wait(None if minutes is None else 60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
        return None
    except KeyboardInterrupt:  # a terminal interrupts the command too; no other study is begun
        process.wait()
        return -signal.SIGINT


def keep(study, results, folder):
    """Replace what a folder has of a study by its results."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in ("rows.tar.xz", "picture.npz"):  # the latter of benchmarks/picture.py
            path.unlink()
    for name in (*KEPT, *ALSO_KEPT.get(study, ())):
        large = name == "planner.html" or ((results / name).exists() and (results / name).stat().st_size > LARGEST)
        if (results / name).exists() and (study == "full" or not large):
            shutil.copy(results / name, folder / name)


def pack_rows(results, path):
    """Write the rows of a study, on other pairs too, and those that it took from elsewhere, to an archive."""
    packed = path.with_name(f"{path.name}.part")
    with tarfile.open(packed, "w:xz") as archive:
        rows = {Path("brought", row.relative_to(results / "cells")): row for row in (results / "cells").rglob("*.json")}
        rows |= {Path("brought", row.relative_to(results)): row for row in (results / "transfer").rglob("*.json")}
        earlier = {row.relative_to(results): row for row in (results / "brought").rglob("*.json")}
        for name, row in sorted((earlier | rows).items()):
            archive.add(row, name)
    packed.replace(path)


def write_json(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def redraw(folder):
    """Forecast, and draw figures and tables of a folder again; about.json says which commit did."""
    curves, answers = (pd.read_parquet(folder / f"{name}.parquet") for name in ("curves", "budget"))
    targets = answers.groupby("sweep")["target"].unique()
    spec = {
        "metrics": {sweep: rows["metric"].iloc[0] for sweep, rows in curves.groupby("sweep", sort=False)},
        "targets": {sweep: sorted(targets.get(sweep, []), reverse=True) for sweep in curves["sweep"].unique()},
    }
    inputs = [folder / "cells.parquet", folder / "theory.parquet"]
    koct("budgets", "--spec", json.dumps(spec), "--inputs", *inputs, "--outputs", folder / "budget.parquet")
    for product in PRODUCTS:
        outputs = [folder / Path(path).name for path in product.outputs if Path(path).parent.name == "results"]
        inputs = [folder / name for name in product.reads]
        if outputs[0].exists():
            inputs += sorted(folder.glob("fig_recons_*.npy")) if product.pictures else []
            drawn = stamps.read(outputs[0]).spec
            spec = json.dumps({name: drawn[name] for name in product.takes if name in drawn})
            koct("product", product.name, *inputs, "--spec", spec, "--out", *outputs)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    about["figures and tables drawn by commit"] = git("rev-parse", "HEAD")
    write_json(folder / "about.json", about)


def audit(folder, spared=()):
    """Return lines on cells whose choice was at an edge and on baselines that validation pairs tuned, by curve.

    Trainings that were not finished, which have a gain, are marked as well, and are no choice.
    A cell that has a λ and does not say is a finding too. Edges of (sweep, arch) in `spared` are none, if cells say so.
    """
    cells, lines = pd.read_parquet(folder / "cells.parquet"), []
    if missing := {"tuned_on", "edge"} - set(cells.columns):
        return [f"cells.parquet lacks {' and '.join(sorted(missing))}"]
    for (sweep, arch), rows in cells.groupby(["sweep", "arch"], sort=False):
        untold, edges = rows[rows["edge"].isna() & rows["lam"].notna()], rows[rows["edge"].eq(True)]
        edges = edges[edges["gain"].isna()] if "gain" in edges else edges
        lines += [f"{sweep} {arch}: {len(untold)} of {len(rows)} cells do not say"] if len(untold) else []
        if len(edges) and (sweep, arch) not in spared:
            sizes = ", ".join(map(str, sorted(set(edges["N"]))))
            lines.append(f"{sweep} {arch}: {len(edges)} of {len(rows)} choices at an edge, N = {sizes}")
        if rows[rows["N"].eq(0)]["tuned_on"].eq("validation pairs").any():
            lines.append(f"{sweep} {arch}: needs no sample, and was tuned on validation pairs")
    return lines


def koct(*arguments):
    subprocess.run([sys.executable, "-m", "koct", *arguments], cwd=ROOT, check=True)


def git(*command):
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def job_seconds(folder):
    """For every rule and sweep: how many jobs, and their mean and longest wall time as Snakemake measured it."""
    times = {}
    for path in sorted(folder.rglob("*.tsv")):
        lines = path.read_text().splitlines()
        if len(lines) < 2:  # of a full disk
            continue
        head, values = (line.split("\t") for line in lines[:2])
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

"""What a study of many cells takes before and after its jobs: planned by a dry run, and collected from rows.

    .venv/bin/python benchmarks/scale.py [CELLS ...]     # 1,000, 10,000 and 100,000 by default

Rows are copies of two real ones under the names of all cells, each with its own stamp. Prints seconds of CPU time and
peak memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = [str(Path(sys.executable).with_name("snakemake")), "--snakefile", str(ROOT / "Snakefile")]
SNAKEMAKE += ["--workflow-profile", str(ROOT / "profiles/default"), "--configfile", "scale.yaml", "--cores", "2"]
SIZES = list(range(4, 29))  # 25 of N, for two networks
ARCHS = ["ko", "fc"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cells", nargs="*", type=int, default=[1000, 10_000, 100_000], metavar="CELLS")
    sizes = parser.parse_args().cells
    print("| cells | dry run | memory | collecting | memory | rows on disk |\n|---|---|---|---|---|---|")
    for cells in sizes:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            config = write_config(cells // (len(SIZES) * len(ARCHS)))
            planning = measured(*SNAKEMAKE, "--dry-run", "results/cells.parquet")
            size = write_rows(config)
            from koct.workflow.jobs import Jobs

            spec = Jobs(config).study_spec()
            tables = ("--cells", "cells.parquet", "--images", "images.parquet")
            collecting = measured(sys.executable, "-m", "koct", "collect", "--spec", spec, *tables)
            print(f"| {cells:,} | {planning} | {collecting} | {size / 1e6:,.0f} MB |", flush=True)


def write_config(seeds):
    sweep = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["sweeps"]["H8"]
    sweep |= {"N": SIZES, "seeds": list(range(1, seeds + 1)), "archs": ARCHS, "theory": False}
    sweep["pool"] = {**sweep["pool"], "test": 4}
    config = {"study": "scale", "studies": {"scale": ["S"]}, "sweeps": {"S": sweep}}
    Path("scale.yaml").write_text(json.dumps(config), encoding="utf-8")
    return config


def write_rows(config):
    """Fit one cell of each network, and write its row for all cells; return the bytes on disk."""
    from types import SimpleNamespace

    from koct.base.files import read_json, write_json
    from koct.study import paths
    from koct.workflow.jobs import Jobs

    first = [paths.cell("S", arch, SIZES[0], 1) for arch in ARCHS]
    subprocess.run([*SNAKEMAKE, *first], check=True, capture_output=True)
    jobs, size = Jobs(config), 0
    for arch, place in zip(ARCHS, first, strict=True):
        row, stamp = read_json(place)
        for N in SIZES:
            for seed in config["sweeps"]["S"]["seeds"]:
                spec = json.loads(jobs.row_spec(SimpleNamespace(sweep="S", arch=arch, N=N, seed=seed)))
                path = paths.cell("S", arch, N, seed)
                write_json(path, {**row, "N": N, "seed": seed}, stamp._replace(spec=spec))
                size += os.path.getsize(path)
    return size


def measured(*command):
    """Run a command; its seconds of CPU time and its peak memory in the words of a table."""
    with open("output", "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(Path("output").read_text()[-2000:])
    return f"{usage.ru_utime + usage.ru_stime:,.0f} s | {usage.ru_maxrss / 1024:,.0f} MiB"


if __name__ == "__main__":
    main()

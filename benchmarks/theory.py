"""What predicting the FC curve of a sweep costs beside the fits that it predicts, in one run.

    python benchmarks/theory.py --sweep H256 [--device cpu]

Runs both through the workflow in a temporary folder, one job at a time, and sums up what Snakemake measured for each.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweep", default="H256")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    sweep = {**config["sweeps"][arguments.sweep], "archs": ["fc"]}
    config |= {"study": "cost", "studies": {"cost": [arguments.sweep]}, "sweeps": {arguments.sweep: sweep}}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        command = ["snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder, "--cores", "1"]
        command += ["results/cells.parquet", "results/theory.parquet", "--config", f"device={arguments.device}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        results = Path(folder) / "results"
        spent = {kind: seconds(results / "benchmarks" / kind) for kind in ("fits", "grams", "theory")}
        fitting = sum(json.loads(path.read_text())["fit_seconds"] for path in results.glob("cells/*/fc/*.json"))
        log = (results / "logs/theory" / arguments.sweep / "fc.log").read_text(encoding="utf-8")
    predicting = float(re.search(r"^predicted in ([\d.]+) s", log, re.M)[1])
    cells, jobs = len(sweep["N"]) * len(sweep["seeds"]), spent["fits"] + spent["grams"]
    print(f"{cells} fits with their Gram matrices: {jobs:.1f} s as jobs, {fitting:.1f} s of it fitting")
    print(f"the prediction, for all N and λ: {spent['theory']:.1f} s as a job, {predicting:.1f} s of it predicting")
    print(f"ratio: {spent['theory'] / jobs:.1%}, and {predicting / fitting:.1%}")


def seconds(folder):
    """The wall time of all jobs of a kind."""
    tables = [path.read_text(encoding="utf-8").splitlines() for path in folder.rglob("*.tsv")]
    return sum(float(values.split("\t")[0]) for _, values in tables)


if __name__ == "__main__":
    sys.exit(main())

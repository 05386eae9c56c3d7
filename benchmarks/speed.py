"""How fast is the workflow? Times it and the plain script in one run and prints both and their ratio.

.venv/bin/python benchmarks/speed.py
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = [Path(sys.executable).with_name("snakemake"), "--snakefile", ROOT / "Snakefile"]
SNAKEMAKE += ["--workflow-profile", ROOT / "profiles/default", "--configfile", ROOT / "config.yaml"]


def seconds(*command, cwd):
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - started


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = seconds(*SNAKEMAKE, cwd=folder)
        nothing = seconds(*SNAKEMAKE, cwd=folder)
        memory = max(peak_memory(log) for log in Path(folder, "results/logs").rglob("*.log"))
    with tempfile.TemporaryDirectory() as folder:
        large = {"studies": {"surrogate": ["H8"]}, "sweeps": {"H8": {"seeds": list(range(1000))}}}
        Path(folder, "large.json").write_text(json.dumps(large))
        dry = seconds(*SNAKEMAKE, Path(folder, "large.json"), "--dry-run", cwd=folder)
    plain = seconds(sys.executable, ROOT / "benchmarks/plain.py", cwd=ROOT)
    print(f"plain script                {plain:6.1f} s")
    print(f"snakemake, empty results    {study:6.1f} s   {plain / study:.1f} times faster than the plain script")
    print(f"snakemake, nothing to do    {nothing:6.1f} s")
    print(f"dry run of 10,000 cells     {dry:6.1f} s")
    print(f"largest job                 {memory:6.0f} MiB")


def peak_memory(log):
    """What koct wrote at the end of a job's log."""
    return int(log.read_text().rsplit("peak memory ", 1)[1].split()[0])


if __name__ == "__main__":
    main()

"""Type the commands of docs/tutorial.md in a new folder, and put what they print and draw into the page.

A Chromium takes the picture of the planner page.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/tutorial.md"
STEP = re.compile(r"(```sh\n(.*?)\n```\n\n```text\n).*?```", re.S)
LINES = 14  # of an output; of a longer one the page has the first and the last


def typed(command, folder):
    """Return what a command prints in a folder; of many lines the first three and the last."""
    print(f"$ {command}", flush=True)
    done = subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, text=True)
    lines = [line for line in (done.stdout or done.stderr).splitlines() if str(folder) not in line]
    if len(lines) > LINES:
        lines = [*lines[:3], "…", *lines[3 - LINES :]]
    return "\n".join(lines).strip("\n")


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "docs/pilot.csv", folder)
        page, where = PAGE.read_text(), Path(folder)
        outputs = []
        for step in STEP.finditer(page):
            outputs.append(typed(step[2], where))
            if step[2].startswith("cd "):
                where /= step[2].split()[1]
        page = STEP.sub(lambda step: f"{step[1]}{outputs.pop(0)}\n```", page)
        pictures = ROOT / "docs/tutorial"
        pictures.mkdir(exist_ok=True)
        results = Path(folder) / "mine/results"
        for name in ("fig_recons_pulses.png", "fig_sweeps.png"):
            shutil.copy(results / name, pictures)
        browser = ["chromium", "--headless", "--no-sandbox", "--window-size=1000,900", "--hide-scrollbars"]
        picture = f"--screenshot={pictures / 'planner.png'}"
        subprocess.run([*browser, picture, (results / "planner.html").as_uri()], check=True, capture_output=True)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()

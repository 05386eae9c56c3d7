"""Working folders with files that have the names of modules: jobs import nothing from there."""

import shutil

from tests.faults.lab import Study, case, problems

NAME = "folders"
BROKEN = 'raise ImportError("this is not the module you want")\n'
TRAPS = {
    "a broken koct": ["koct/__init__.py", "koct/__main__.py"],
    "numpy.py and random.py": ["numpy.py", "random.py"],
    "modules of all sorts": [
        "koct/__init__.py",
        "koct.py",
        "numpy.py",
        "random.py",
        "json.py",
        "yaml.py",
        "pyarrow.py",
    ],
}
# How snakemake is started: its arguments, and whether in the working folder
STARTS = {
    "--directory": (["--directory", "{folder}"], False),
    "-s": (["-s", "{checkout}/Snakefile"], True),
    "-s and --directory": (["-s", "{checkout}/Snakefile", "--directory", "{folder}"], False),
}
CASES = [(start, trap) for trap in TRAPS for start in STARTS]
TIMES = len(CASES)
SHORT = ()


def cause(lab, number):
    start, trap = CASES[number % len(CASES)]
    checkout = lab.copy(NAME, number)
    shutil.rmtree(checkout.path("results"))
    shutil.rmtree(checkout.path(".snakemake"))
    work = Study.at(checkout.path("elsewhere/my work"))
    work.folder.mkdir(parents=True)
    shutil.move(checkout.path("config.yaml"), work.path("config.yaml"))
    for name in TRAPS[trap]:
        work.path(name).parent.mkdir(exist_ok=True)
        work.path(name).write_text(BROKEN)
    arguments, there = STARTS[start]
    arguments = [argument.format(folder=work.folder, checkout=checkout.folder) for argument in arguments]
    run = checkout.run(*arguments, folder=work.folder if there else checkout.folder)
    found = problems(work, lab.finished.results, run)
    if checkout.path("results").exists():
        found.append("results elsewhere: they are beside the Snakefile")
    return case(f"{start}, with {trap}", found)

"""What a report reads: rows of a Parquet file that koct has made, which its stamp says."""

import itertools
import json
import os

from koct.base import stamps
from koct.base.stamps import again
from koct.errors import KoctError
from koct.report.labels import Names
from koct.study.results import baselines, grouped, read, trained


def rows(path, columns, empty=False):
    """Return (rows, `Names`) of a file that `koct.study.results.write` made; a KoctError says what it lacks."""
    try:
        table, origin = read(path)
        stamps.read(path)
    except KoctError as error:
        raise KoctError(str(error).replace(again(path), _advice(path))) from None
    if not table and not empty:
        raise KoctError(f"{path} has no rows; {_advice(path)}")
    if missing := [name for name in columns if table and name not in table[0]]:
        raise KoctError(f"{path} lacks the column {', '.join(missing)}; {_advice(path)}")
    return table, Names(origin)


def split(path, columns):
    """Return (rows of trained networks, rows of what needs no sample, `Names`) of a file that has both."""
    both, names = rows(path, columns)
    if not trained(both):
        raise KoctError(f"{path} has no row of a network that was trained; {_advice(path)}")
    return trained(both), baselines(both), names


def of_study(answer):
    """Return what the workflow says of a study to a product that cannot do without."""
    if answer is None:
        raise KoctError("this product needs to know of the study what no file says; `snakemake` makes it")
    return answer


def means(curves):
    """Return {(sweep, arch): {N: mean error}} of rows of curves.parquet, N ascending."""
    return {
        key: {row["N"]: row["error_mean"] for row in sorted(rows, key=lambda row: row["N"])}
        for key, rows in grouped(curves, "sweep", "arch").items()
    }


def check_alike(tables, *keys):
    """Refuse {path: rows} that do not all have rows of the same `keys`: they are not of one study."""
    found = {path: {tuple(row[key] for key in keys) for row in table} for path, table in tables.items()}
    for (path, own), (other, others) in itertools.permutations(found.items(), 2):
        if lacking := others - own:
            what = " ".join(map(str, min(lacking)))
            raise KoctError(f"{path} lacks {what}, which {other} has, so they are not of one study; {_advice(path)}")


def _advice(path):
    """Return what to do about a file: only what a rule makes can be made again, and no rule makes a reference."""
    folders = os.path.normpath(path).split(os.sep)
    made = "results" in folders and "reference" not in folders
    return again(path) if made else "give a file that koct has made"


def predictions(path):
    """Return (rows, `Names`) of a theory.parquet."""
    return rows(path, ("sweep", "arch", "N", "metric", "predicted", "trusted", "lam", "error"), empty=True)


def ladder(path):
    """Return (rows in the study's order of networks, `Names`, {sweep: {arch: layers}}) of a ladder.parquet."""
    table, names = rows(path, ("sweep", "arch", "N", "p", "rank", "best", "beyond", "learned"))
    order = {arch: place for place, arch in enumerate(names.archs)}
    table.sort(key=lambda row: order.get(row["arch"], len(order)))
    return table, names, json.loads(names.origin.get("koct.chains", "{}"))

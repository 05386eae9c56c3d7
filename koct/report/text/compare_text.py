"""A fresh run against a reference: how far its cells and its curves are from the same ones there."""

import math

from koct import metrics
from koct.base.messages import counted
from koct.errors import KoctError
from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.text import words
from koct.study.results import grouped

KEY = ("sweep", "arch", "N", "seed")
ERRORS = ("mse", "rrmse_peak", "rrmse_norm")
DEFAULT = "mse"  # the metric of a sweep if neither file says it


def compare(fresh_path, reference_path, tolerance):
    """(text, agree): a line per (sweep, arch), and whether no curve differs by more than `tolerance`, relatively.

    Curves of a sweep that both have differ, too, where one of them lacks an arch, an N or a seed.
    """
    fresh, names = _cells(fresh_path)
    reference, others = _cells(reference_path)
    files = {fresh_path: fresh, reference_path: reference}
    sweeps = {**others.sweeps, **names.sweeps}
    both = {key[0] for key in fresh} & {key[0] for key in reference}
    if not both:
        had = (f"{path} has {', '.join(dict.fromkeys(key[0] for key in cells))}" for path, cells in files.items())
        return f"no sweep is in both files, so nothing was compared: {'; '.join(had)}\n", False
    pairs = [{**row, "reference": reference[key]} for key, row in fresh.items() if key in reference]
    lines, apart = _differences(pairs, sweeps, tolerance) if pairs else ([], [])
    lines += _only_in(reference, fresh, f"missing, only in {reference_path}")
    lines += _only_in(fresh, reference, f"new, only in {fresh_path}")
    partial = {" ".join(key[:2]): None for key in fresh.keys() ^ reference.keys() if key[0] in both}
    found = [f"curves differ by more than {tolerance:g}: {', '.join(apart)}"] if apart else []
    found += [f"not made of the same cells: {', '.join(sorted(partial))}"] if partial else []
    if not pairs:
        lines.append("no cell is in both files: nothing was compared")
    else:
        verdict = "; ".join(found) or f"no curve differs by more than {tolerance:g}"
        lines.append(f"{counted(len(pairs), 'cell')} compared; {verdict}")
    return "\n".join(lines) + "\n", bool(pairs) and not found


def difference(value, reference):
    """|value − reference| / |reference|; what is no number is infinitely far from any, and two nulls are the same."""
    if value is reference is None:  # a score of images that are too small for one
        return 0.0
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in (value, reference)):
        return math.inf
    if value == reference:
        return 0.0
    return abs(value - reference) / abs(reference) if reference else math.inf


def _differences(pairs, sweeps, tolerance):
    """The table of largest relative differences as lines, and the curves that are further apart than `tolerance`."""
    both = pairs[0].keys() & pairs[0]["reference"].keys()  # an older koct has fewer metrics
    columns = [name for name in (*ERRORS, *metrics.scores()) if name in both]
    rows, apart = [["sweep", "arch", "cells", *columns, "curve"]], []
    for (sweep, arch), group in grouped(pairs, "sweep", "arch").items():
        largest = [max(difference(pair[name], pair["reference"][name]) for pair in group) for name in columns]
        metric = sweeps.get(sweep, {}).get("metric") or DEFAULT
        if (column := CurveMetric(metric).column) not in both:
            raise KoctError(f"curves of {sweep} show {column}, which one of the two files was made without")
        curve, N = max((_mean_difference(CurveMetric(metric), same), N) for (N,), same in grouped(group, "N").items())
        rows.append([sweep, arch, str(len(group)), *map(_short, largest), f"{_short(curve)} ({metric})"])
        if curve > tolerance:
            apart.append(f"{sweep} {arch} by {curve:.2g} at N = {N:,}")
    return ["largest relative differences", *words.table(rows)], apart


def _mean_difference(metric, pairs):
    """Return how far the means over the seeds that both runs have are apart."""
    values = [row[metric.column] for pair in pairs for row in (pair, pair["reference"])]
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return math.inf
    return difference(metric.mean(pairs), metric.mean([pair["reference"] for pair in pairs]))


def _short(value):
    return f"{value:.1e}" if value else "0"


def _only_in(these, others, what):
    """A line for every (sweep, arch) of which these have cells that the others lack."""
    curves = {key[:2] for key in others}
    missing = [row for key, row in these.items() if key not in others]
    for (sweep, arch), group in grouped(missing, "sweep", "arch").items():
        names = "all"
        if (sweep, arch) in curves:
            seeds = {N: ", ".join(str(row["seed"]) for row in same) for (N,), same in grouped(group, "N").items()}
            names = "; ".join(f"N = {N:,} seed {listed}" for N, listed in seeds.items())
        yield f"{what}: {sweep} {arch}, {counted(len(group), 'cell')} ({names})"


def _cells(path):
    """(rows of a cells.parquet by their key, what it calls things)."""
    rows, names = inputs.rows(path, (*KEY, *ERRORS))
    cells = {tuple(row[name] for name in KEY): row for row in rows}
    if len(cells) < len(rows):
        raise KoctError(f"{path} holds a cell (sweep, arch, N, seed) twice; make it again with snakemake")
    return cells, names

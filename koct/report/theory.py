"""Report the curves that were predicted from pairs: alone, and beside what the fits gave."""

import math

import numpy as np

from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.report import figures, inputs, tables
from koct.report.labels import Names, escaped, sweep_label
from koct.study.results import best_lambda, grouped, usable


def figure(theory_path, out, spec=None):
    """Predicted error against N at the best λ, with the 90 % interval of one fit; a panel per sweep."""
    for path in out:
        figures.check_format(path)
    rows, origin = figures.predictions(theory_path)
    rows = [row if row["error"] is not None else _in_mse(row) for row in rows]
    if not rows:
        raise KoctError("no curve of this study is predicted: its networks allow none, or theory is false")
    names = Names(origin)

    def draw(axis, name):
        _panel(axis, names, [row for row in rows if row["sweep"] == name])

    with figures.styled():
        figures.save(figures.by_sweep(rows, draw), out, Stamp(spec or {}, made_from(theory_path)))


def _in_mse(row):
    """Of a sweep whose metric cannot be told from squared errors."""
    return {**row, "metric": "mse", "error": row["predicted"], "error_low": row["low"], "error_high": row["high"]}


def _panel(axis, names, rows):
    for (arch,), group in grouped(rows, "arch").items():
        points = best_lambda(group)
        keys = ("N", "error", "error_low", "error_high")
        N, error, low, high = (np.array([row[key] for row in points]) for key in keys)
        colour, pairs = names.colour(arch), points[0]["pairs"]
        within = len(usable(group))
        axis.fill_between(N[:within], low[:within], high[:within], color=colour, alpha=0.18, linewidth=0)
        known = int(np.sum(pairs >= N))
        axis.plot(N[:known], error[:known], color=colour, label=names.arch(arch))
        axis.plot(N[max(known - 1, 0) :], error[max(known - 1, 0) :], ":", color=colour)
        trusted = np.array([row["trusted"] for row in points])
        axis.plot(N[trusted], error[trusted], names.marker(arch), color=colour)
        axis.plot(N[~trusted], error[~trusted], names.marker(arch), color=colour, markerfacecolor="white")
    if not all(row["trusted"] for row in rows):
        axis.plot([], [], "o", color="0.4", markerfacecolor="white", label="not to be trusted")
    if any(row["N"] > row["pairs"] for row in rows):
        axis.plot([], [], ":", color="0.4", label="beyond the pairs")
    figures.finish_panel(axis, sorted({row["N"] for row in rows}), rows[0])


def table(theory_path, cells_path, out, spec=None):
    """Predicted over measured mean squared error, and λ predicted and chosen: two lines per curve."""
    theory, origin = figures.predictions(theory_path)
    cells, *_ = inputs.split(cells_path, ("sweep", "arch", "N", "mse"), ("H", "lam"))
    names, measured = Names(origin), grouped(cells, "sweep", "arch", "N")
    blocks = {}
    for (sweep, arch), rows in grouped(theory, "sweep", "arch").items():
        sizes = tuple(sorted({row["N"] for row in rows} & {N for s, a, N in measured if (s, a) == (sweep, arch)}))
        if sizes:
            blocks.setdefault(sizes, []).append((arch, rows, [measured[sweep, arch, N] for N in sizes]))
    columns, body = max(map(len, blocks), default=0), []
    for sizes, curves in blocks.items():
        spare = [""] * (columns - len(sizes))
        head = [f"${N:,}$".replace(",", "{,}") for N in sizes]
        body += [r"\midrule"] if body else []
        body += [" & ".join(["", "", "$N =$", *head, *spare, ""]) + r" \\", r"\midrule"]
        for arch, rows, found in curves:
            lines = _lines(rows, sizes, found)
            start = [escaped(sweep_label(rows[0])), escaped(names.arch(arch)), "ratio"]
            body.append(" & ".join([*start, *lines["ratio"], *spare, lines["inside"]]) + r" \\")
            if rows[0]["lam"] is not None:
                body.append(" & ".join(["", "", r"$\log_{10} \lambda$", *lines["lam"], *spare, ""]) + r" \\")
    tables.write(
        out,
        Stamp(spec or {}, made_from(theory_path, cells_path)),
        caption=r"Mean squared errors predicted from pairs, before any fit, over those measured (mean over seeds), at "
        r"the $\lambda$ that validation chose; a star marks predictions that were called untrustworthy. Below, "
        r"$\log_{10} \lambda$ as predicted, and the median of those chosen. Last, how many of the fits lie in "
        r"their $90\,\%$ interval.",
        label="tab:theory",
        columns="@{}lll" + "c" * columns + "r@{}",
        head=rf"Sweep & Network & & \multicolumn{{{max(columns, 1)}}}{{c}}{{predicted / measured}} & inside \\",
        body=body,
    )


def _lines(rows, sizes, found):
    """The cells of the table for one curve."""
    points = {(row["N"], row["lam"]): row for row in rows}
    best = {row["N"]: row for row in best_lambda(rows)}
    ratios, lambdas, inside, count = [], [], 0, 0
    for N, cells in zip(sizes, found, strict=True):
        used = [points.get((N, cell["lam"]), best[N]) for cell in cells]
        ratio = sum(row["predicted"] for row in used) / sum(cell["mse"] for cell in cells)
        ratios.append(f"${ratio:.2f}{'' if all(row['trusted'] for row in used) else '^*'}$")
        inside += sum(row["low"] <= cell["mse"] <= row["high"] for row, cell in zip(used, cells, strict=True))
        count += len(cells)
        if best[N]["lam"] is not None:
            chosen = np.median([math.log10(cell["lam"]) for cell in cells])
            lambdas.append(f"${math.log10(best[N]['lam']):g}$, ${chosen:g}$")
    return {"ratio": ratios, "lam": lambdas, "inside": f"${inside}$ of ${count}$"}

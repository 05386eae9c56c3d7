"""Report the ladder: error against N of networks between known and learned, and what each of them needs."""

import json
import math

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from koct.errors import KoctError
from koct.report import figures, inputs, tables
from koct.report.labels import Names, described, escaped, sweep_label
from koct.results import grouped
from koct.stamps import Stamp, again, made_from

COLUMNS = ("sweep", "arch", "N", "metric", "p", "rank", "error_mean", "best", "behind")
NULLABLE = ("H", "known", "learned", "mean_low", "mean_high", "beyond")
WIDTH = 3.45  # inches: a column of a paper
PANEL = (2.78, 2.05)
LINE = 0.165  # inches between the networks of the key
KNOWN, LEARNED = "white", "0.25"  # what boxes are filled with


def read(path):
    """(rows in the study's order of networks, provenance, {sweep: {arch: layers}}) of a ladder.parquet."""
    rows, origin = inputs.rows(path, COLUMNS, NULLABLE, empty=True)
    if not rows:
        raise KoctError("no sweep of this study has three or more networks, as a ladder needs; take another study")
    try:
        chains = json.loads(origin.get("koct.chains", "{}"))
        for layer in (layer for told in chains.values() for chain in told.values() for layer in chain):
            if not isinstance(layer["name"], str) or not isinstance(layer["p"], int):
                raise TypeError
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise KoctError(f"{path}: the metadata koct.chains is not what koct writes; {again(path)}") from None
    listed = list(described(origin, "koct.archs"))
    rows.sort(key=lambda row: listed.index(row["arch"]) if row["arch"] in listed else len(listed))
    return rows, origin, chains


# Figure


def figure(ladder_path, out, spec=None):
    """Error against N, a panel per sweep; below it, which layers each network knows and which it learns."""
    for path in out:
        figures.check_format(path)
    rows, origin, chains = read(ladder_path)
    names, sweeps = Names(origin), grouped(rows, "sweep")
    with figures.styled():
        figures.save(draw(sweeps, names, chains), out, Stamp(spec or {}, made_from(ladder_path)))


def draw(sweeps, names, chains):
    """The figure of {(sweep,): rows}."""
    columns = min(len(sweeps), 2)
    lines = math.ceil(len(sweeps) / columns)
    key = LINE * (3 + max(len(grouped(rows, "arch")) for rows in sweeps.values()))  # head, networks, what marks mean
    above, below = 0.26, 0.45
    height = above + PANEL[1] + below + key
    made = plt.figure(figsize=(columns * WIDTH, lines * height))
    for i, ((sweep,), rows) in enumerate(sweeps.items()):
        line, column = divmod(i, columns)
        bottom = (lines - 1 - line) * height
        _panel(_axes(made, column * WIDTH + 0.58, bottom + key + below, *PANEL), names, rows)
        axis = _axes(made, column * WIDTH, bottom, WIDTH, key)
        axis.set(xlim=(0, WIDTH), ylim=(0, key))
        axis.set_axis_off()
        _key(axis, key, names, rows, chains.get(sweep, {}))
    return made


def _axes(made, left, bottom, width, height):
    """Axes at a place in inches."""
    across, up = made.get_size_inches()
    return made.add_axes((left / across, bottom / up, width / across, height / up))


def _panel(axis, names, rows):
    for (arch,), points in grouped(rows, "arch").items():
        points = sorted(points, key=lambda row: row["N"])
        colour, N = names.colour(arch), [row["N"] for row in points]
        axis.plot(N, [row["error_mean"] for row in points], color=colour, marker=names.marker(arch))
        for row in points:
            if row["mean_low"] is not None and row["mean_low"] > 0:
                axis.plot([row["N"]] * 2, [row["mean_low"], row["mean_high"]], color=colour, linewidth=0.7, zorder=1.9)
    for row in rows:
        if row["rank"] == 1 or row["beyond"] is False:
            axis.plot(row["N"], row["error_mean"], **_ring(row["rank"] == 1))
    figures.finish_panel(axis, sorted({row["N"] for row in rows}), rows[0])


def _ring(best):
    """How the best network at an N is marked, and one that the seeds do not tell from it."""
    style = {"markeredgecolor": "black"} if best else {"markeredgecolor": "0.55"}
    return {"marker": "o", "markersize": 8.5, "markerfacecolor": "none", "linestyle": "", "zorder": 4, **style}


def _key(axis, height, names, rows, chains):
    """A line for each network: how it is drawn, its layers as boxes, and how many numbers it learns."""
    boxes, end = (1.36, 2.8), WIDTH - 0.07
    archs = grouped(rows, "arch")
    heads = _heads([chains[arch] for (arch,) in archs if chains.get(arch)])
    y = height - LINE / 2
    for i, name in enumerate(heads):
        axis.text(_part(boxes, len(heads), i + 0.5), y, name, fontsize=6, ha="center", va="center", color="0.3")
    axis.text(end, y, "learned", fontsize=6, ha="right", va="center", color="0.3")
    for (arch,), points in archs.items():
        y -= LINE
        axis.plot([0.1, 0.24, 0.38], [y] * 3, color=names.colour(arch), marker=names.marker(arch), markevery=[1])
        axis.text(0.44, y, names.arch(arch), fontsize=6.5, va="center")
        _strip(axis, boxes, y, chains.get(arch, []), heads)
        axis.text(end, y, _count(points[0]["p"]), fontsize=6.5, ha="right", va="center")
    y -= 1.25 * LINE
    place = 0.2
    for best, text, step in ((True, "best", 0.5), (False, "not told from it by seeds", 1.42)):
        axis.plot(place, y, **_ring(best))
        axis.text(place + 0.11, y, text, fontsize=6.5, va="center")
        place += step
    for fill, text, step in ((KNOWN, "known", 0.52), (LEARNED, "learned", 0)):
        axis.add_patch(_box(place, y, 0.14, fill))
        axis.text(place + 0.2, y, text, fontsize=6.5, va="center")
        place += step


def _heads(chains):
    """What the layers of the longest chains are called, where one of them knows the layer if possible."""
    longest = max(map(len, chains), default=0)
    heads = []
    for layers in zip(*(chain for chain in chains if len(chain) == longest), strict=True):
        heads.append(min(layers, key=lambda layer: layer["p"] > 0)["name"])
    return heads


def _part(boxes, count, i):
    return boxes[0] + (boxes[1] - boxes[0]) * i / count


def _strip(axis, boxes, y, chain, heads):
    for i, layer in enumerate(chain):
        left, right = (_part(boxes, len(chain), j) for j in (i, i + 1))
        axis.add_patch(_box(left + 0.015, y, right - left - 0.03, LEARNED if layer["p"] else KNOWN))
        if len(chain) != len(heads):
            colour = KNOWN if layer["p"] else LEARNED
            axis.text((left + right) / 2, y, layer["name"], fontsize=5.5, ha="center", va="center", color=colour)


def _box(left, y, width, fill):
    return Rectangle((left, y - 0.3 * LINE), width, 0.6 * LINE, facecolor=fill, edgecolor="0.25", linewidth=0.6)


def _count(p):
    """1,872,871 as 1.87 M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if p >= 10 * size or p >= size > 10**3:
            return f"{p / size:.3g} {unit}"
    return f"{p:,}"


# Table


def table(ladder_path, calibration_path, budget_path, out, spec=None):
    """A row per network and sweep: parameters, learned layers, floor, sigma, N for every target, where it is best."""
    rows, origin, chains = read(ladder_path)
    fitted, _ = inputs.rows(calibration_path, ("sweep", "arch", "floor", "sigma"))
    answers, _ = inputs.rows(budget_path, ("sweep", "arch", "target"), ("n",), empty=True)
    names, fitted = Names(origin), {(row["sweep"], row["arch"]): row for row in fitted}
    needed = {(row["sweep"], row["arch"], row["target"]): row["n"] for row in answers}
    sweeps = grouped(rows, "sweep")
    targets = sorted({target for sweep, _, target in needed if (sweep,) in sweeps}, reverse=True)
    body = []
    for (sweep,), group in sweeps.items():
        body += [r"\midrule"] if body else []
        for (arch,), points in grouped(group, "arch").items():
            if (sweep, arch) not in fitted:
                raise KoctError(
                    f"{calibration_path} lacks {sweep} {arch}, which {ladder_path} has; {again(ladder_path)}"
                )
            curve = fitted[sweep, arch]
            cells = [escaped(sweep_label(points[0])), escaped(names.arch(arch)), tables.count(points[0]["p"], 99_999)]
            cells += [_learned(chains.get(sweep, {}).get(arch))]
            cells += [tables.power_of_ten(curve[key]) for key in ("floor", "sigma")]
            cells += [_needed(needed, (sweep, arch, target)) for target in targets]
            body.append(" & ".join([*cells, _ranges(group, points)]) + r" \\")
    heads = [f"${target:g}$" if target >= 1e-4 else tables.power_of_ten(target) for target in targets]
    tables.write(
        out,
        Stamp(spec or {}, made_from(ladder_path, calibration_path, budget_path)),
        caption=r"Networks between known and learned: how many numbers $p$ they learn, and in which layers; "
        r"$\mathrm{floor}$ and $\sigma$ of the calibrated bound; the $N$ that reaches a target mean error by the "
        r"forecast, or -- if it is out of reach; and the $N$ of the sweep at which the network has the smallest error.",
        label="tab:ladder",
        columns="@{}llrlrr" + "r" * len(targets) + "l@{}",
        head=" & ".join(
            ["Sweep", "Network", "$p$", "Learned", r"$\mathrm{floor}$", r"$\sigma$"]
            + [rf"$N_{{{head.strip('$')}}}$" for head in heads]
            + [r"best at $N$"]
        )
        + r" \\",
        body=body,
    )


def _learned(chain):
    """The learned layers by name."""
    if not chain:
        return "--"
    return escaped(", ".join(layer["name"].removeprefix("learned ") for layer in chain if layer["p"]) or "none")


def _needed(needed, key):
    if key not in needed or needed[key] is None:
        return "--"
    return tables.count(needed[key], 999_999)


def _ranges(group, points):
    """The N at which a network is best, neighbours of the sweep as from-to."""
    sizes = sorted({row["N"] for row in group})
    best = {row["N"] for row in points if row["best"]}
    stretches = []
    for i, N in enumerate(sizes):
        if N in best:
            if stretches and i and sizes[i - 1] == stretches[-1][1]:
                stretches[-1][1] = N
            else:
                stretches.append([N, N])
    texts = [
        tables.count(first, 999_999)
        if first == last
        else f"{tables.count(first, 999_999)} to {tables.count(last, 999_999)}"
        for first, last in stretches
    ]
    return ", ".join(texts) or "--"

"""The ladder: which network is best at every N, and what it wins to learn more.

Verdicts are about pairs of networks of which one contains the other, and is fitted to the same objective by the same
solver (`Architecture.contains`): they differ in what is learned, and in nothing else. Intervals are over training
seeds and test images together.
"""

import json

from koct.base.files import write_json
from koct.base.stamps import Stamp, made_from
from koct.errors import KoctError
from koct.forecast import bootstrap
from koct.metrics.curve_metric import CurveMetric
from koct.study import chains, results

WON, LOST, UNDECIDED = "won", "lost", "undecided"


def compute(cells_path, images_path, chain_paths, spec, path, verdicts_path):
    """Write the order of the networks at every N, and the verdicts.

    `spec` names each sweep's metric under `metrics` and its pairs [container, contained] under `contained`.
    """
    if not spec["contained"]:
        raise KoctError("no sweep of this study has three or more networks, as a ladder needs; take another study")
    cells, free, origin = results.read_cells(cells_path)
    baselines = results.grouped(free, "sweep")
    chains_of, tested = chains.read(chain_paths), results.Images(images_path)
    rows, verdicts = [], {}
    for (sweep,), group in results.grouped(cells, "sweep").items():
        if sweep in spec["contained"]:
            metric = CurveMetric(spec["metrics"][sweep])
            ladder = Ladder(group, baselines.get((sweep,), []), tested, metric, chains_of.get(sweep, {}))
            rows += ladder.order()
            verdicts[sweep] = ladder.verdicts(spec["contained"][sweep])
    stamp = Stamp(spec, made_from(cells_path, images_path, *chain_paths))
    results.write(rows, results.LADDER, path, {**origin, "koct.chains": json.dumps(chains_of)}, stamp)
    write_json(verdicts_path, {"sweeps": verdicts}, stamp)
    for sweep, verdict in verdicts.items():
        for text in filter(None, [*(pair["sentence"] for pair in verdict["pairs"]), verdict["alone"]]):
            print(f"{sweep}: {text}", flush=True)


class Ladder:
    """The networks of one sweep; what needs no sample has no rank, but a network may contain it."""

    def __init__(self, cells, baselines, tested, metric, chains):
        self.cells, self.tested = results.grouped([*cells, *baselines], "arch", "N"), tested
        self.metric, self.chains = metric, chains
        self.sweep = cells[0]["sweep"]
        self.power = 2 if metric.squared else 1
        self.archs = list(dict.fromkeys(row["arch"] for row in cells))
        self.sizes = sorted({row["N"] for row in cells})

    def errors(self, arch, N):
        return self.tested.errors(self.sweep, arch, N, self.metric.column)

    def ratio(self, first, second):
        """(low, high) of the error of one network over that of another, both (arch, N); None if it is unknown."""
        errors = self.errors(*first)
        values, others = results.paired(errors, self.errors(*second))
        return bootstrap.ratio_interval(values, others, errors.groups, self.power)

    def order(self):
        """Rows of ladder.parquet, at every N from the best network to the worst."""
        rows = []
        for N in self.sizes:
            points = [self._point(arch, N) for arch in self.archs if (arch, N) in self.cells]
            points.sort(key=lambda point: point["error_mean"])
            best = points[0]
            for row in points:
                rank = 1 + sum(other["error_mean"] < row["error_mean"] for other in points)
                ratio = None if rank == 1 else self.ratio((row["arch"], N), (best["arch"], N))
                beyond = False if rank == 1 else None if ratio is None else ratio[0] > 1
                behind = row["error_mean"] - best["error_mean"]
                rows.append({**row, "rank": rank, "best": rank == 1, "behind": behind, "beyond": beyond})
        return rows

    def _point(self, arch, N):
        """One network at one N."""
        rows, chain, errors = self.cells[arch, N], self.chains.get(arch), self.errors(arch, N)
        low, high = bootstrap.mean_interval(errors.values, errors.groups, self.power) or (None, None)
        learned = sum(layer["p"] > 0 for layer in chain) if chain else None
        layers = {"known": len(chain) - learned if chain else None, "learned": learned}
        mean = {"error_mean": self.metric.mean(rows), "mean_low": low, "mean_high": high, "seeds": len(rows)}
        return {**rows[0], "metric": self.metric.name, **layers, **mean}

    def verdicts(self, contained):
        """What each pair [container, contained] says, and a sentence on the networks that are in none."""
        judged = {arch for pair in contained for arch in pair}
        alone = ", ".join(arch for arch in self.archs if arch not in judged)
        sentence = (
            f"No verdict on {alone}: no other network of the sweep contains one of them, or is contained in one, under "
            "the same objective and with the same solver."
        )
        return {"pairs": [self._pair(*pair) for pair in contained], "alone": sentence if alone else ""}

    def _pair(self, container, contained):
        """Both networks at every N that the container has; one that needs no samples is the same at all of them."""
        points = []
        for N in (N for N in self.sizes if (container, N) in self.cells):
            other = N if (contained, N) in self.cells else 0
            if (contained, other) not in self.cells:
                continue
            sides = {"container": self.cells[container, N], "contained": self.cells[contained, other]}
            error = {side: self.metric.mean(rows) for side, rows in sides.items()}
            low, high = self.ratio((container, N), (contained, other)) or (None, None)
            both = {f"p_{side}": rows[0]["p"] for side, rows in sides.items()}
            both |= {f"error_{side}": value for side, value in error.items()}
            both["ratio"] = error["container"] / error["contained"] if error["contained"] else None
            # whether it wins to learn more, by the interval of the container's error over that of the contained network
            verdict = UNDECIDED if low is None or low <= 1 <= high else WON if high < 1 else LOST
            points.append({"N": N, **both, "low": low, "high": high, "verdict": verdict})
        pair = {"container": container, "contained": contained}
        learned = {side: [layer for layer in self.chains.get(arch) or [] if layer["p"]] for side, arch in pair.items()}
        names = {side: [layer["name"].removeprefix("learned ") for layer in layers] for side, layers in learned.items()}
        pair |= {"learned": names, "N": points}
        return {**pair, "sentence": _sentence(pair)}


def _sentence(pair):
    """What was learned, and what was won, over the N of the sweep."""
    points = pair["N"]
    if not points:
        return f"{pair['container']} contains {pair['contained']}, and no N has cells of both."
    last = points[-1]
    container, contained = (
        f"{pair[side]} ({', '.join(pair['learned'][side]) or 'nothing'}; p = {last[f'p_{side}']:,})"
        for side in ("container", "contained")
    )
    outcomes = []
    for verdict in (WON, LOST, UNDECIDED):
        sizes = [f"{point['N']:,}" for point in points if point["verdict"] == verdict]
        outcomes += [f"{verdict} at N = {', '.join(sizes)}"] if sizes else []
    text = f"{container} learns more than {contained}: {'; '.join(outcomes)}."
    if last["ratio"] is not None:
        interval = "" if last["low"] is None else f" (90 % interval {last['low']:.3g} to {last['high']:.3g})"
        text += f" At N = {last['N']:,} it has {last['ratio']:.3g} times the error{interval}."
    return text

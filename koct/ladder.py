"""The ladder: which network is best at every N, and whether it pays to know more layers or fewer."""

import json
import math

import numpy as np

from koct import chains, results
from koct.errors import KoctError
from koct.files import write_json
from koct.metrics.curve import CurveMetric
from koct.stamps import Stamp, made_from

LEVEL = 0.9  # of intervals over seeds
MORE, FEWER = "more known layers win at small N", "fewer known layers win at large N"


def compute(cells_path, chain_paths, spec, path, verdicts_path):
    """Write the order of the networks at every N, and the verdicts; `spec` names each sweep's metric."""
    if not spec["metrics"]:
        raise KoctError("no sweep of this study has three or more networks, as a ladder needs; take another study")
    cells, origin = results.read_cells(cells_path)
    told = chains.read(chain_paths)
    rows, verdicts = [], {}
    for (sweep,), group in results.grouped(cells, "sweep").items():
        if sweep not in spec["metrics"]:
            continue
        found = order(group, CurveMetric(spec["metrics"][sweep]), told.get(sweep, {}))
        rows += [row for row, _ in found]
        verdicts[sweep] = judge(found)
    stamp = Stamp(spec, made_from(cells_path, *chain_paths))
    results.write(rows, results.LADDER, path, {**origin, "koct.chains": json.dumps(told)}, stamp)
    write_json(verdicts_path, {"sweeps": verdicts}, stamp)
    for sweep, verdict in verdicts.items():
        for claim in verdict["claims"]:
            print(f"{sweep}: {claim['claim']}: {claim['verdict']}. {claim['because']}", flush=True)


def order(cells, metric, told):
    """[(row, {seed: error})] of one sweep, at every N from the best network to the worst."""
    found = []
    for (_,), at in sorted(results.grouped(cells, "N").items()):
        points = [(_point(rows, metric, told), {row["seed"]: metric.of(row) for row in rows}) for rows in _by_arch(at)]
        points.sort(key=lambda point: point[0]["error_mean"])
        best, best_errors = points[0]
        for row, errors in points:
            rank = 1 + sum(other["error_mean"] < row["error_mean"] for other, _ in points)
            behind = row["error_mean"] - best["error_mean"]
            beyond = False if rank == 1 else exceeds(errors, best_errors)
            found.append(({**row, "rank": rank, "best": rank == 1, "behind": behind, "beyond": beyond}, errors))
    return found


def _by_arch(rows):
    return results.grouped(rows, "arch").values()


def _point(rows, metric, told):
    """One network at one N."""
    mean, chain = metric.mean(rows), told.get(rows[0]["arch"])
    margin = _margin([metric.of(row) for row in rows])
    learned = sum(layer["p"] > 0 for layer in chain) if chain else None
    return {
        **rows[0],
        "metric": metric.name,
        "known": len(chain) - learned if chain else None,
        "learned": learned,
        "error_mean": mean,
        "mean_low": None if margin is None else max(mean - margin, 0.0),
        "mean_high": None if margin is None else mean + margin,
        "seeds": len(rows),
    }


def _margin(values):
    """Half the width of the interval of a mean, by Student's t; None for one value."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))


def exceeds(errors, others):
    """Whether errors are above others by more than the seeds' spread; both are {seed: error}, None if it is unknown.

    Networks of one seed see the same pairs, so what counts is the spread of their difference.
    """
    differences = [errors[seed] - others[seed] for seed in sorted(errors.keys() & others.keys())]
    margin = _margin(differences)
    return None if margin is None else bool(np.mean(differences) > margin)


# Verdicts


def judge(found):
    """What a sweep says about the two claims, with the numbers at every N."""
    points = [_contest(at) for _, at in sorted(_at_each(found).items())]
    contests = [point for point in points if "more" in point]
    claims = [_claim(MORE, contests, 0, "more"), _claim(FEWER, contests, -1, "fewer")] if contests else []
    return {"claims": claims, "N": points}


def _at_each(found):
    groups = {}
    for row, errors in found:
        groups.setdefault(row["N"], []).append((row, errors))
    return groups


def _contest(at):
    """At one N, the best network with the most known layers against the best of those with fewer."""
    best = at[0][0]
    point = {"N": best["N"], **{key: best[key] for key in ("known", "p")}, "best": best["arch"]}
    point["error"], point["ties"] = best["error_mean"], [row["arch"] for row, _ in at[1:] if row["beyond"] is False]
    point["rank_correlation"] = _rank_correlation([row["p"] for row, _ in at], [row["error_mean"] for row, _ in at])
    told = [entry for entry in at if entry[0]["known"] is not None]
    most = max((row["known"] for row, _ in told), default=0)
    more = [entry for entry in told if entry[0]["known"] == most]
    fewer = [entry for entry in told if entry[0]["known"] < most]
    if more and fewer:
        sides = {"more": more[0], "fewer": fewer[0]}
        for name, (row, _) in sides.items():
            point[name] = {"arch": row["arch"], "known": row["known"], "p": row["p"], "error": row["error_mean"]}
        point["ratio"] = point["fewer"]["error"] / point["more"]["error"] if point["more"]["error"] else None
        point["winner"] = _winner(*(errors for _, errors in sides.values()))
        pairs = [(a, b) for a in told for b in told if a[0]["known"] > b[0]["known"]]
        point["pairs"] = len(pairs)
        point["pairs_won"] = sum(exceeds(b[1], a[1]) is True for a, b in pairs)
        point["pairs_lost"] = sum(exceeds(a[1], b[1]) is True for a, b in pairs)
    return point


def _rank_correlation(p, errors):
    """Spearman's, of learned numbers and errors: 1 if learning less is always better; None if all learn as many."""
    ranks = [[np.mean([2 * (b < a) + (b == a) for b in values]) for a in values] for values in (p, errors)]
    return None if min(map(np.ptp, ranks)) == 0 else float(np.corrcoef(*ranks)[0, 1])


def _winner(more, fewer):
    """The side with the smaller error, by more than the seeds' spread; None if neither."""
    return "more" if exceeds(fewer, more) else "fewer" if exceeds(more, fewer) else None


def _claim(claim, contests, index, side):
    point = contests[index]
    verdict = "undecided" if point["winner"] is None else "confirmed" if point["winner"] == side else "refuted"
    more, fewer = point["more"], point["fewer"]
    said = (
        f"At N = {point['N']} the best with {more['known']} known layers is {more['arch']} ({more['error']:.3g}), the "
        f"best with fewer is {fewer['arch']} ({fewer['error']:.3g})"
    )
    spread = "" if point["winner"] else "; the seeds do not tell them apart"
    pairs = (
        f"; of {point['pairs']} pairs of networks, the one with more known layers is better in {point['pairs_won']} "
        f"and worse in {point['pairs_lost']}"
    )
    return {"claim": claim, "N": point["N"], "verdict": verdict, "because": f"{said}{spread}{pairs}."}

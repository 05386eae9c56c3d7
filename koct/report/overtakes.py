"""What tables say of crossings: by the metric of the sweep, and where another metric says otherwise."""

import math

from koct.report.markup import count


def by_metric(rows):
    """Return {(sweep, arch): {versus: {metric: row}}} of rows of crossings.parquet."""
    found = {}
    for row in rows:
        of = found.setdefault((row["sweep"], row["arch"]), {})
        of.setdefault(row["versus"], {})[row["metric"]] = row
    return found


def lines(answers, own, versus):
    """Yield (metric, [row or None for every one of `versus`]): the metric of the sweep, and others that differ from it.

    `answers` are those of a network: {versus: {metric: row}}. Of another metric, only rows that differ are there.
    """
    asked = [answers.get(name, {}) for name in versus]
    yield own, [rows.get(own) for rows in asked]
    for metric in dict.fromkeys(metric for rows in asked for metric in rows if metric != own):
        told = [own in rows and metric in rows and differ(rows[own], rows[metric]) for rows in asked]
        if any(told):
            yield metric, [rows[metric] if different else None for rows, different in zip(asked, told, strict=True)]


def differ(row, other):
    """Return whether two answers contradict: one is never and the other is not, or their intervals have no N in common.

    Without intervals, which one seed does not have, only the first tells.
    """
    if (row["N"] is None) != (other["N"] is None):
        return True
    if row["N"] is None or row["N_low"] is None or other["N_low"] is None:
        return False
    highest = [math.inf if of["N_high"] is None else of["N_high"] for of in (row, other)]
    return max(row["N_low"], other["N_low"]) > min(highest)


def since(row, first, never="never", interval=" ({} to {})", unit=""):
    """Return the N of a crossing with its interval; `first`, the smallest N of the curve, stands for that or fewer."""
    if row["N"] is None:
        return never
    low, high = (None if row[key] is None else _end(row[key], first) for key in ("N_low", "N_high"))
    ends = "" if low is None or low == high else interval.format(low, high or "never")
    return or_fewer(row["N"], first) + unit + ends


def or_fewer(N, first):
    """Return N, or at the smallest one `4 or fewer`."""
    return count(N) if first < N else f"{count(first)} or fewer"


def _end(N, first):
    return count(N) if first < N else rf"$\leq$ {count(first)}"

"""From which difference between scanner and known geometry on learning more is better than knowing."""

import math

from koct.report.labels import Names
from koct.report.markup import count
from koct.report.mismatch import KINDS, errors, strengths
from koct.report.product import Product
from koct.report.table import Span, Table, Underline

PRODUCT = Product(
    title="when a wrong operator loses",
    about="with sweeps whose operator is wrong: from which difference on learning more beats knowing",
    reads=("curves.parquet",),
    when="mismatch",
    takes=("mismatch",),
    caption="""\
**How wrong an operator may be** before a network that learns more is better than a weight per measurement.""",
)
AT = (64, 1024)  # samples
KNOWING, OTHERS = "ko-ridge", ("filters", "fc")


def table(curves_path, mismatch):
    found, archs, origin = errors(curves_path, mismatch)
    names, others = Names(origin), [arch for arch in OTHERS if arch in archs]
    head = [
        ["", *(Span(len(AT), "c", f"{names.arch(arch)} from") for arch in others)],
        Underline(tuple(("lr", 2 + len(AT) * i, 1 + len(AT) * (i + 1)) for i in range(len(others)))),
        ["Difference", *(f"$N =$ {count(N)}" for _ in others for N in AT)],
    ]
    body = []
    for kind, (words, unit) in KINDS.items():
        if levels := strengths(found, kind):
            cells = [_from(found, kind, levels, arch, N) for arch in others for N in AT]
            body.append([f"{words}, {unit}", *cells])
    return Table(
        caption=f"The difference between the scanner and the known geometry from which on a network has a smaller mean "
        f"test error than {names.arch(KNOWING)}; between those of the study, logarithms are interpolated. 0: also "
        "without a difference.",
        columns="l" + "r" * (len(others) * len(AT)),
        head=head,
        body=body,
    )


def _from(found, kind, levels, arch, N):
    """The strength at which a network gets ahead for good: 0, a number, or above the largest."""
    if arch not in found[kind, levels[0]]:
        return "--"
    logs = [math.log(found[kind, level][arch][N] / found[kind, level][KNOWING][N]) for level in levels]
    aligned = found.get((kind, 0.0))
    behind = [i for i, log in enumerate(logs) if log > 0]
    if not behind:
        ahead = aligned is not None and aligned[arch][N] < aligned[KNOWING][N]
        return "$0$" if ahead else rf"$\leq {levels[0]:g}$"
    last = behind[-1]
    if last == len(levels) - 1:
        return f"$> {levels[-1]:g}$"
    part = logs[last] / (logs[last] - logs[last + 1])
    return f"${levels[last] * (levels[last + 1] / levels[last]) ** part:.2g}$"

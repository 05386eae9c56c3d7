"""From which difference between scanner and known geometry on learning more is better than knowing."""

import math

from koct.base.loglog import below_from
from koct.report.markup import count
from koct.report.mismatch import KINDS, errors, strengths
from koct.report.product import Product
from koct.report.table import Span, Table, Underline

PRODUCT = Product(
    title="when a wrong operator loses",
    about="how wrong before learning more beats knowing",
    reads=("curves.parquet",),
    when="mismatch",
    takes=("mismatch",),
    caption="""\
**How wrong an operator may be** before a network that learns more is better than a weight per measurement, or than a
U-Net behind the operator.""",
)
AT = (64, 1024)  # samples
PAIRS = (("filters", "ko-ridge"), ("fc", "ko-ridge"), ("fc", "unet"))  # who learns more, and who knows


def table(curves_path, mismatch):
    found, archs, names = errors(curves_path, mismatch)
    pairs = [pair for pair in PAIRS if set(pair) <= set(archs)]
    knowing = {less: names.arch(less).partition(" (")[0] for _, less in pairs}  # without what is in parentheses
    head = [
        ["", *(Span(len(AT), "c", f"{names.arch(more)} below {knowing[less]}") for more, less in pairs)],
        Underline(tuple(("lr", 2 + len(AT) * i, 1 + len(AT) * (i + 1)) for i in range(len(pairs)))),
        ["Difference", *(f"$N =$ {count(N)}" for _ in pairs for N in AT)],
    ]
    body = []
    for kind, (words, unit) in KINDS.items():
        if levels := strengths(found, kind):
            cells = [_from(found, kind, levels, *pair, N) for pair in pairs for N in AT]
            body.append([f"{words}, {unit}", *cells])
    return Table(
        caption="The difference between the scanner and the known geometry from which on the first of two networks has "
        "a smaller mean test error than the second; between those of the study, logarithms are interpolated. 0: also "
        "without a difference.",
        columns="l" + "r" * (len(pairs) * len(AT)),
        head=head,
        body=body,
    )


def _from(found, kind, levels, arch, other, N):
    """The strength at which a network gets ahead of another for good: 0, a number, or above the largest."""
    if arch not in found[kind, levels[0]]:
        return "--"
    logs = [math.log(found[kind, level][arch][N] / found[kind, level][other][N]) for level in levels]
    value = below_from(levels, logs)
    if value == levels[0]:
        aligned = found.get((kind, 0.0))
        ahead = aligned is not None and aligned[arch][N] < aligned[other][N]
        return "$0$" if ahead else rf"$\leq {levels[0]:g}$"
    return f"$> {levels[-1]:g}$" if math.isinf(value) else f"${float(f'{value:.2g}'):g}$"

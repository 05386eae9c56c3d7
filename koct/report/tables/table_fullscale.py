"""The paper's Table 1: parameters and memory of both networks at every image size."""

from koct.report.markup import count
from koct.report.printed import PRINTED
from koct.report.product import Product
from koct.report.table import Table

PRODUCT = Product(
    title="parameters and memory",
    about="the paper's table of parameters and memory",
    caption="""\
**Parameters and memory** of the two networks of the paper at every image size, as in its Table 1.

The dense matrix at H = 512 would take 360 GiB to train by Adam; in dual form it is never built.""",
)


def table():
    points = PRINTED["operating_points"]
    p_ko = [point["V"] * point["B"] for point in points]
    p_fc = [point["H"] ** 2 * p for point, p in zip(points, p_ko, strict=True)]
    rows = {
        "$V$, $B$": [f"${point['V']}, {point['B']}$" for point in points],
        r"$p_{\mathrm{KO}}$": [count(p, 99) for p in p_ko],
        r"$p_{\mathrm{FC}}$": [count(p, 99) for p in p_fc],
        r"$p_{\mathrm{FC}} / p_{\mathrm{KO}} = H^2$": [count(b // a, 9999) for a, b in zip(p_ko, p_fc, strict=True)],
        "KO FP32 weights": [memory(4 * p) for p in p_ko],
        "KO Adam state": [memory(16 * p) for p in p_ko],
        "FC FP32 weights": [memory(4 * p) for p in p_fc],
        "FC Adam state": [memory(16 * p) for p in p_fc],
    }
    return Table(
        caption=r"Trainable parameters and memory of the operator-aware (KO) and the fully connected (FC) network. "
        r"Adam state: $16$ bytes a parameter for weights, gradient and two moments.",
        columns="l" + "r" * len(points),
        head=[["Quantity", *(f"$H = {point['H']}$" for point in points)]],
        body=[[quantity, *cells] for quantity, cells in rows.items()],
    )


def memory(size):
    """Return bytes in KiB, MiB or GiB (powers of 1024), three digits."""
    scaled = [(size / 1024**power, unit) for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB"))]
    value, unit = next((entry for entry in scaled if entry[0] >= 0.1), scaled[-1])
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"${value:.{digits}f}$ {unit}"

"""Computed operator norms and the matched-κ reference of Eq. ct-structural, at the paper's operating points."""

from koct.report import inputs
from koct.report.markup import count, power_of_ten
from koct.report.product import Product
from koct.report.table import Table

PRODUCT = Product(
    title="norms and matched-κ references",
    about="norms and the matched-κ reference, H = 8 to 512, if one asks for the file: the norms take 15 s",
    reads=("norms.json",),
    when="on_request",
    caption="**Operator norms and the matched-κ reference** at the operating points of the paper.",
)


def table(norms_path):
    body = []
    for point in inputs.norms(norms_path):
        numbers = (f"{point[key]:.4g}" for key in ("filter_norm", "backprojection_norm"))
        size = (point[key] for key in ("H", "V", "B"))
        cells = [point["beam"], *(f"${value}$" for value in (*size, *numbers)), count(point["H"] ** 2, 9999)]
        reference = point["reference"]
        body.append([*cells, power_of_ten(reference) if reference >= 1000 else f"${reference:.3g}$"])
    return Table(
        caption=r"Operator norms by power iteration and the matched-$\kappa$ reference "
        r"$H^2 / (4 \|K\|^2 \|A^\top\|^2)$ of the structural-sparsity factor.",
        label="tab:structural",
        columns="lrrrrrrr",
        head=[["Beam", "$H$", "$V$", "$B$", r"$\|K\|$", r"$\|A^\top\|$", "$H^2$", "reference"]],
        body=body,
    )

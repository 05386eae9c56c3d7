"""The experiment of Adler and Öktem (2018) on the Shepp–Logan phantom: what comes out here beside what they print."""

from koct.metrics.curve_metric import CurveMetric
from koct.report import inputs
from koct.report.markup import count
from koct.report.printed import PRINTED
from koct.report.product import Product
from koct.report.table import Table, chosen, dagger
from koct.study.results import baselines, fresh, grouped

PRODUCT = Product(
    title="an experiment in print",
    about="PSNR, beside that of Adler and Öktem (2018), and SSIM",
    reads=("cells.parquet",),
    when="printed",
    caption="""\
**An experiment in print, made again:** PSNR and SSIM on the Shepp–Logan phantom beside those of Adler and Öktem (2018).
Networks were trained on random ellipses that never repeat.""",
)


def table(cells_path):
    rows, names = inputs.rows(cells_path, ("sweep", "arch", "N", "psnr", "ssim", "H", "V", "B"))
    tested = [row for row in rows if row["psnr"] is not None]
    rows, body, print_out = [*baselines(tested), *fresh(tested)], [], PRINTED["adler2018"]
    for (arch, _), cells in grouped(rows, "arch", "N").items():
        psnr, ssim = (CurveMetric(name).mean(cells) for name in ("psnr", "ssim"))
        steps = [row["steps"] for row in cells if row.get("steps")]
        gains = [row["gain"] for row in cells if row.get("gain") is not None]
        same = all(cells[0][key] == value for key, value in print_out["geometry"].items())
        there = print_out["psnr"].get(arch) if same else None
        compared = ["--", "--"] if there is None else [f"{there:.2f}", f"${psnr - there:+.2f}$"]
        trained = [count(max(steps)) if steps else "", f"{100 * max(gains):.1f}" if gains else ""]
        body.append([names.arch(arch) + dagger(cells), f"{psnr:.2f}", *compared, f"{ssim:.3f}", *trained])
    return Table(
        caption="PSNR in dB and SSIM on the modified Shepp--Logan phantom, means over draws of the noise and seeds, "
        "and the PSNR that Adler and Öktem (2018) print; the steps of a training on ellipses that never repeat, and "
        "what the last doubling of them gained of the validation loss." + chosen(names, rows),
        columns="lrrrrrr",
        head=[
            ["", "PSNR", "printed", "difference", "SSIM", "steps", r"gain, $\%$"],
        ],
        body=body,
    )

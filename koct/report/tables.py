"""LaTeX tables in booktabs, as in the paper."""

from koct.files import write_text
from koct.report.labels import METRICS, arch_label, sweep_label
from koct.results import read


def calibration(calibration_path, out):
    """The paper's Table 2: floor and sigma of every architecture, a row per sweep."""
    rows, _ = read(calibration_path)
    archs = list(dict.fromkeys(row["arch"] for row in rows))
    by_sweep = {}
    for row in rows:
        by_sweep.setdefault(row["sweep"], {})[row["arch"]] = row
    heads = [f"${symbol}_{{\\mathrm{{{arch_label(a)}}}}}$" for a in archs for symbol in (r"\mathrm{floor}", r"\sigma")]
    body = []
    for fitted in by_sweep.values():
        first = next(iter(fitted.values()))
        cells = [sweep_label(first).replace("_", r"\_"), METRICS[first["metric"]]]
        for arch in archs:
            cells += [power_of_ten(fitted[arch][key]) if arch in fitted else "--" for key in ("floor", "sigma")]
        body.append(" & ".join(cells) + r" \\")
    write(
        out,
        caption=r"Calibration factors $\mathrm{floor}$ and $\sigma$ of the bound "
        r"$\mathrm{floor} + \sigma \log N / N$, fitted on each sweep.",
        label="tab:calibration",
        columns="@{}ll" + "cc" * len(archs) + "@{}",
        head=" & ".join(["Sweep", "Error", *heads]) + r" \\",
        body=body,
    )


def power_of_ten(value):
    """2.48 \\cdot 10^{-3}: three digits, as the paper prints them."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$" if float(mantissa) else "$0$"


def write(path, caption, label, columns, head, body):
    """A whole table float; the document that inputs it needs the package booktabs."""
    lines = [
        "% Made by koct; needs \\usepackage{booktabs}.",
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        f"\\caption{{{caption}}}",
        f"\\label{{{label}}}",
        f"\\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    write_text(path, "\n".join(lines) + "\n")

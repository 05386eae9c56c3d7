"""How things are called where a reader sees them."""

METRICS = {
    "mse": "MSE",
    "rrmse_peak2": r"rRMSE$^2_{\mathrm{peak}}$",
    "rrmse_norm2": r"rRMSE$^2_{\mathrm{norm}}$",
}


def arch_label(arch):
    return {"fc-fsdp": "FC (FSDP)"}.get(arch, arch.upper())


def sweep_label(row):
    """`$H = 8$` for the sweep H8; what its name says beyond that follows in brackets."""
    rest = row["sweep"].removeprefix(f"H{row['H']}").strip("-_. ")
    return f"$H = {row['H']}$" + (f" ({rest})" if rest else "")


def point_label(problem, rays=None):
    """An operating point in words."""
    return {"fanbeam": "fan beam"}.get(problem, problem) + (", exact rays" if rays == "exact" else "")

"""How things are called where a reader sees them."""

LABELS = {"mse": "MSE", "rrmse_peak2": r"rRMSE$^2$", "rrmse_norm2": r"rRMSE$^2$"}


def arch_label(arch):
    return arch.upper()

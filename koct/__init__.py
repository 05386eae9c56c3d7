"""koct: how many training samples a network needs, and how many a known operator saves.

from koct import Forecast
forecast = Forecast({"N": N, "error": error, "seed": seed})  # or a DataFrame
forecast.required(target=0.01)
"""

from importlib import import_module
from typing import Any

__version__ = "1.0.0"
NUMBERS = 1  # raised when what all networks share gives other numbers: CONTRIBUTING.md

# What a notebook needs, imported when it is asked for: hundreds of short jobs import this package.
PUBLIC = {
    "Architecture": "koct.contracts",
    "Bound": "koct.notebook",
    "Calibration": "koct.bound.calibration",
    "Curve": "koct.notebook",
    "FanBeam": "koct.operators.geometry",
    "Forecast": "koct.notebook",
    "Pilot": "koct.notebook",
    "Problem": "koct.contracts",
    "Projector": "koct.operators.fanbeam",
    "Spectral": "koct.prediction.spectral",
    "calibrate": "koct.bound.calibration",
    "fbp": "koct.operators.fanbeam",
    "two_factors": "koct.bound.calibration",
}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'koct' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""A learned filter for each view, between known weights and a known backprojection."""

from __future__ import annotations

from koct.contracts import Architecture
from koct.networks.filter import Filter


class Filters(Filter, Architecture):
    label = "filter per view"
    colour = "#cc79a7"
    marker = "P"
    per_view = True

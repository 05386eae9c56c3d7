"""A learned filter for each view, between known weights and a known backprojection."""

from __future__ import annotations

from koct.networks.learned_filter import LearnedFilterArchitecture


class Filters(LearnedFilterArchitecture):
    label = "filter per view"
    colour = "#cc79a7"
    marker = "P"
    per_view = True

"""One learned filter for all views, between known weights and a known backprojection."""

from __future__ import annotations

from koct.networks.learned_filter import LearnedFilterArchitecture


class Filter(LearnedFilterArchitecture):
    label = "filter"
    colour = "#e69f00"
    marker = "v"
    per_view = False

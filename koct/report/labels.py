"""What things are called, and how they are drawn, where a reader sees them."""

import itertools
import json
import re

from koct.errors import KoctError

PALETTE = ("#0b6e4f", "#c8553d", "#5b4b8a", "#d79b00", "#2f6db3", "#8a5a44")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = (":", "-.", (0, (6, 2)), (0, (8, 2, 1, 2, 1, 2)), (0, (1, 3)))  # of what needs no sample
GREY = "0.35"


class Names:
    """Labels, colours and markers, from the metadata of a result file; without them, names and a palette."""

    def __init__(self, origin=None):
        origin = origin or {}
        self.archs = described(origin, "koct.archs")
        self.sweeps = described(origin, "koct.sweeps")
        taken = {arch.get("colour") for arch in self.archs.values()}
        self._colours = itertools.cycle([colour for colour in PALETTE if colour not in taken] or PALETTE)
        self._markers = itertools.cycle(MARKERS)
        self._given, self._lines = {}, {}

    @classmethod
    def of(cls, archs):
        """For architectures themselves."""
        styles = {arch.name: {key: getattr(arch, key) for key in ("label", "colour", "marker")} for arch in archs}
        return cls({"koct.archs": json.dumps(styles)})

    def arch(self, name):
        return self.archs.get(name, {}).get("label") or name.upper()

    def colour(self, name):
        return self._style(name)[0]

    def marker(self, name):
        return self._style(name)[1]

    def line(self, name):
        """The horizontal line of what needs no sample, as options of Matplotlib."""
        own = self.archs.get(name, {}).get("colour") or GREY
        _check_style(name, own, "")
        style = self._lines.setdefault(name, LINES[len(self._lines) % len(LINES)])
        return {"color": own, "linestyle": style, "linewidth": 1, "zorder": 1}

    def _style(self, name):
        if name not in self._given:
            own = self.archs.get(name, {})
            next_colour, next_marker = next(self._colours), next(self._markers)
            self._given[name] = own.get("colour") or next_colour, own.get("marker") or next_marker
            _check_style(name, *self._given[name])
        return self._given[name]

    def problem(self, sweep, default):
        """The operating point of a sweep in words."""
        return self.sweeps.get(sweep, {}).get("label") or default


def described(origin, key):
    """{name: {word: text}} in the metadata of a result file: what it says of architectures or of sweeps."""
    try:
        found = json.loads(origin.get(key, "{}"))
        entries = list(found.values())
        words = [text for entry in entries for text in entry.values()]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise KoctError(f"the metadata {key} is not what koct writes") from None
    if not all(isinstance(text, str | None) for text in words):
        raise KoctError(f"the metadata {key} is not what koct writes")
    return found


def _check_style(name, colour, marker):
    if re.fullmatch("#[0-9a-f]{6}", colour) and marker in MARKERS:
        return  # and Matplotlib need not be imported
    from matplotlib.colors import is_color_like
    from matplotlib.markers import MarkerStyle

    if not is_color_like(colour):
        raise KoctError(f"the colour {colour!r} of {name} is unknown to Matplotlib; write it like '#0b6e4f'")
    try:
        MarkerStyle(marker)
    except ValueError:
        raise KoctError(
            f"the marker {marker!r} of {name} is unknown to Matplotlib; write one like 'o' or 's'"
        ) from None


def sweep_label(row):
    """`$H = 8$` for the sweep H8; what its name says beyond that follows in brackets. Without H, the name."""
    if row["H"] is None:
        return row["sweep"]
    remainder = row["sweep"].removeprefix(f"H{row['H']}").strip("-_. ")
    return f"$H = {row['H']}$" + (f" ({remainder})" if remainder else "")

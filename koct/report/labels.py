"""What things are called, and how they are drawn, where a reader sees them."""

import itertools
import json
import re

from koct.base.messages import printable
from koct.errors import KoctError
from koct.report.markup import listed

PALETTE = ("#0b6e4f", "#c8553d", "#5b4b8a", "#d79b00", "#2f6db3", "#8a5a44")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = (":", "-.", (0, (6, 2)), (0, (8, 2, 1, 2, 1, 2)), (0, (1, 3)))  # of what needs no sample
GREY = "0.35"
SEPARATOR = ", "  # between the words of a problem's label
NUMBER = r"[\d,.]+"


class Names:
    """Labels, colours and markers, from the metadata of a result file; without them, names and a palette."""

    def __init__(self, origin=None):
        self.origin = origin or {}
        self.archs = described(self.origin, "koct.archs")
        self.sweeps = described(self.origin, "koct.sweeps")
        taken = {arch.get("colour") for arch in self.archs.values()}
        colours = [colour for colour in PALETTE if colour not in taken] or PALETTE
        self._free = zip(itertools.cycle(colours), itertools.cycle(MARKERS), strict=False)
        unstyled = [name for name, own in self.archs.items() if not (own.get("colour") and own.get("marker"))]
        self._given = {name: next(self._free) for name in unstyled}  # the same in every figure of a file
        self._styles, self._lines = {}, {}

    def arch(self, name):
        return self.archs.get(name, {}).get("label") or name.upper()

    def colour(self, name):
        return self._style(name)[0]

    def marker(self, name):
        return self._style(name)[1]

    def _style(self, name):
        if name not in self._styles:
            own, (colour, marker) = self.archs.get(name, {}), self._given.get(name) or next(self._free)
            self._styles[name] = own.get("colour") or colour, own.get("marker") or marker
            _check_style(name, *self._styles[name])
        return self._styles[name]

    def line(self, name):
        """Return how the horizontal line of what needs no sample is drawn, as options of Matplotlib."""
        colour = self.archs.get(name, {}).get("colour") or GREY
        _check_style(name, colour, "")
        style = self._lines.setdefault(name, LINES[len(self._lines) % len(LINES)])
        return {"color": colour, "linestyle": style, "linewidth": 1, "zorder": 1}

    def problem(self, sweep, default):
        """Return the operating point of a sweep in words."""
        return self.sweeps.get(sweep, {}).get("label") or default

    def title(self, sweep):
        """Return the same, behind the name of the sweep where another one has the same words."""
        words = self.problem(sweep, sweep)
        namesakes = [other for other, about in self.sweeps.items() if about.get("label") == words]
        return f"{sweep}: {words}" if len(namesakes) > 1 else words

    def sweep(self, row):
        """Return `$H = 128$ (300 photons)`: what tells a sweep from the others of its study; without H, the words."""
        words = self._distinctive(row["sweep"], row["H"])
        if row["H"] is None:
            return words or row["sweep"]
        return f"$H = {row['H']}$" + (f" ({words})" if words else "")

    def _distinctive(self, name, H):
        """Return the words of a sweep's label that not all labels with the same first word have, or else its name.

        The first word stands before them where labels with another one have such words, too.
        """
        labels = {sweep: about.get("label") or "" for sweep, about in self.sweeps.items()}
        label, families = labels.get(name, ""), {}
        for other in dict.fromkeys([label, *labels.values()]):
            families.setdefault(other.split(SEPARATOR)[0], []).append(other.split(SEPARATOR))
        words = label.split(SEPARATOR)
        family = families.pop(words[0])
        distinctive, alone = _telling(words, family), len(family) == 1
        elsewhere = {
            re.sub(NUMBER, "", word) for others in families.values() for own in others for word in _telling(own, others)
        }
        if any(re.sub(NUMBER, "", word) in elsewhere for word in distinctive) or (alone and families):
            distinctive = [*words[:1], *distinctive]
        namesakes = {re.sub(r"^H\d+", "", sweep) for sweep in labels if labels[sweep] == label}
        if not label or len(namesakes) > 1 or not (distinctive or alone):
            distinctive.append(re.sub("[-_. ]+", " ", name.removeprefix(f"H{H}")).strip())
        return SEPARATOR.join(filter(None, distinctive))

    def counted(self, sweep):
        """Return what the N of a sweep counts: samples, or groups of them."""
        return self.sweeps.get(sweep, {}).get("counts", "samples")

    def uncounted(self, rows):
        """Return a sentence on validation pairs, which N does not count, if one of these cells or curves took them."""
        took = (row["arch"] for row in rows if "validation pairs" in (row.get("tuned_on") or ""))
        archs = [self.arch(arch) for arch in dict.fromkeys(took)]
        words = "Validation pairs, which $N$ does not count, chose the strength or the weights of {}."
        return words.format(listed(archs)) if archs else ""


def _telling(words, family):
    """Return the words that not all of a family have."""
    return [word for word in words if not all(word in other for other in family)]


def names_of(file):
    """Return the names in a `PilotFile`; those of a file that koct has not made are none."""
    try:
        return Names(file.origin)
    except KoctError as error:
        raise KoctError(printable(f"{file.path}: {error}; remove it, or give a file that koct has made")) from None


def described(origin, key):
    """Return {name: {word: text}} from the metadata of a result file: what it says of architectures or of sweeps."""
    try:
        entries = json.loads(origin.get(key, "{}"))
        right = all(isinstance(text, str | None) for entry in entries.values() for text in entry.values())
    except (ValueError, AttributeError, RecursionError):
        right = False
    if not right:
        raise KoctError(f"the metadata {key} is not what koct writes")
    return entries


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
        raise KoctError(f"the marker {marker!r} of {name} is unknown to Matplotlib; write one like 'o'") from None

"""Every number of README and docs that comes from a run is that of the file it came from."""

import re

import pytest
import yaml
from conftest import ROOT
from page_numbers import bare, flat, prose, uncovered
from study_facts import FACTS

PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
CHECKED = {"docs/config.md": "tests/test_config.py: it is printed by the code"}
BY_HAND = {"docs/speed.md": "timings, each printed by a script that the page names"}

# What else may stand on a page, by reason: a text, or (from, to) for what lies between two texts.
OTHERS = {
    "checked by another test": {
        "docs/curve.md": [
            ("scikit-learn has 1,797 images", "keep the others for a check"),
            "to N of the 1,397 other digits",  # test_curve_docs.py runs all code of the page
            ("The error is 0.0332 with", "may indeed be out of reach"),
            ("| Gaussian x with a decaying", "| all nine FC curves"),  # as limits in test_spectral and test_curve_docs
        ],
        "docs/cluster.md": [  # test_requests.py, tests/slurm
            ("For the fan-beam sweeps, with a GPU:", "Of the memory, 3 GB"),
            "1,000 cheap cells are 26 submissions",
        ],
        "docs/conditions.md": [  # test_scans.py, test_known_chain.py
            ("A unit disc comes back as 1.00", "**What 180° of a fan beam"),
            ("The centred disc of the table", "The chain is part of"),
        ],
        "docs/guarantees.md": ["266 of them", "10,000 damaged inputs"],  # tests/faults
        "docs/how-many-samples.md": ["has 3 MB:"],
        "docs/modalities.md": ["with the direct sum to 1e-10"],
        "docs/operators.md": ["above 1e-12, or above 1e-5", "adds less than 1e-8 of it"],
        "docs/your-pairs.md": [("| FBP | – |", "- KO is better than FC on every slice")],  # test_pairs.py
    },
    "timings measured by hand, with machine or command": {
        "README.md": ["| 20 s | 22 s |", "| 35 s | 23 min |", "(15 s)"],
        "docs/cluster.md": [
            ("Measured at H = 512:", "A problem or an architecture of your own"),
            "12.7 GiB, 100 iterations in 34 s. Their rRMSE of 0.04026",
            "A submission takes about 3 s to start",
        ],
        "docs/conditions.md": ["two minutes on two CPU cores"],
        "docs/curve.md": [("**What it costs**", "## When not to trust it"), "10,000 need 4.5 GiB"],
        "docs/ladder.md": ["89 s on two CPU cores"],
        "docs/modalities.md": ["52 s on two CPU cores"],
    },
    "printed by a benchmark that the page names, on data that are not results": {
        "docs/curve.md": [("| the same from 256 pairs |", "| `ko` of the surrogate by"), "(93 % from 256 pairs)"],
        "docs/how-many-samples.md": [
            ("Five data sets (digits", "Beyond the pairs the predicted curve"),
            ("`python benchmarks/next.py` replays", "## How far to trust it"),
            ("**Strangers' curves.**", "The three laws are"),
            ("**Synthetic pilots**", "Two things cannot be predicted"),
        ],
    },
    "tried once, not kept": {
        "docs/conditions.md": [("Without that a disc at", "Below 180° whole directions")],
        "docs/guarantees.md": [("Gradient descent of KO can amplify that", "- A pool or fit above")],
        "docs/modalities.md": [
            ("then comes out with 1.6 %", "with the 6.)"),
            "(8.1e-4 against",
            ("(1.03 and 1.06 in the inner rings", " would be exact)"),
            "KO goes from 2.2e-3 to 1.7e-3",
        ],
    },
    "geometry, formulas, limits, file formats": {
        "docs/cluster.md": ["less than 10 s, less than 1 GB"],
        "docs/conditions.md": [
            ("it is B · 0.667 mm wide", "where one photon in"),
            "no noise, 180°",
            "| 1/mm | 0.02 | how strongly the image value 1 attenuates: 0.02/mm is water",
            "except at 360°",
            "at 180° it is the first view again",
            "Above 180° some lines",
            "at 360° every",
            ("**What 180° of a fan beam", "Without that a disc"),
            "Below 180° whole directions",
            "Between 180° minus the fan angle and 180°",
            "of the last view at 180°.",
            "within less than 360°",
            "with B = 100 makes",
            "bins are 0.667 mm wide",
            "rRMSE²_peak times 10³, the samples for an error of 5·10⁻³",
        ],
        "docs/curve.md": [
            "(101 and up",
            "at most 4,096",
            "the mean of 200 squared residuals is itself only known to 10 %.",
        ],
        "docs/guarantees.md": ["up to 256 KB", "above 256 KB", "above 100 MB"],
        "docs/how-many-samples.md": [
            "the earliest 2 % and the latest 8 % are left out",
            "more than 8 % of the plausible",
            "carries the 1,000 drawn curves",
            "(prior: 10 %)",
            "above 64 times the lower one",
        ],
        "docs/ladder.md": ["times 10⁻⁴", "Samples for an error of 10⁻³"],
        "docs/modalities.md": ["values 0 to 1.5", "up to 1.5 rad", "spaced over 180°", "more than 64 × 64 pixels"],
        "docs/your-pairs.md": [
            "1,000 mm",
            "1,500 mm",
            "HU / 1000",
            "JPEG 2000",
            "above 100 MB",
        ],
    },
}


def values(entry):
    """All numbers of a config."""
    if isinstance(entry, dict | list):
        return {number for item in (entry.values() if isinstance(entry, dict) else entry) for number in values(item)}
    return {float(entry)} if isinstance(entry, int | float) and not isinstance(entry, bool) else set()


SIZES = values(yaml.safe_load((ROOT / "config.yaml").read_text()))


def read(page):
    return (ROOT / page).read_text()


def facts(page):
    text = read(page)
    return [fact for of in FACTS.get(page, []) for fact in of(text)]


def between(text, what):
    """The text from one place to another, or the text itself."""
    if isinstance(what, str):
        return what
    first, last = map(bare, what)
    assert text.count(first) == text.count(last) == 1, what
    return text[text.index(first) : text.index(last)]


def others(page):
    """{reason: texts of the page}."""
    text = prose(read(page))
    return {reason: [between(text, what) for what in pages.get(page, [])] for reason, pages in OTHERS.items()}


def is_size(number, _, behind):
    """A size of the configuration, and no share, time or ratio; or the name of an interval."""
    if number == "90" and re.match(r" % (?:interval|hold)", behind):
        return True
    whole = re.fullmatch(r"[\d,]+", number)
    return bool(whole) and int(number.replace(",", "")) in SIZES and not re.match(r" (?:%|times|s\b|min\b)", behind)


@pytest.mark.parametrize("page", FACTS)
def test_the_page_says_what_the_results_say(page):
    text = flat(read(page))
    for fact in facts(page):
        assert flat(fact) in text, f"{page} should say: {fact}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in {**CHECKED, **BY_HAND}])
def test_every_number_has_its_source(page):
    """No number stands there that no result, no file and no listed reason accounts for."""
    text = prose(read(page))
    texts = [*facts(page), *(each for listed in others(page).values() for each in listed)]
    left = [found for found in uncovered(text, texts) if not is_size(*found)]
    assert not left, "\n".join(f"{page}: {number} in {before + number + behind!r}" for number, before, behind in left)


def test_no_exception_is_out_of_date():
    for reason, pages in OTHERS.items():
        for page in pages:
            text = prose(read(page))
            for what in others(page)[reason]:
                assert bare(what) in text, f"{page} does not say {what!r} any more: take it off the list"


def test_a_wrong_number_is_noticed():
    page = read("docs/ladder.md")
    text = flat(page)
    assert all(flat(fact) in text for fact in facts("docs/ladder.md"))
    for right, wrong in (("| `ko` | 30.2 |", "| `ko` | 30.3 |"), ("309 and 413 times", "310 and 413 times")):
        changed = flat(page.replace(right, wrong))
        assert sum(flat(fact) not in changed for fact in facts("docs/ladder.md")) == 1
    left = uncovered("It is 0.123 here, and N = 43, 40 % of 2,048 and 5·10⁻³.", ["It is 0.123 here"])
    assert [number for number, _, _ in left] == ["43", "40", "2,048", "5·10⁻³"]


def test_numbers_are_found_in_prose_and_not_in_code():
    text = "a 0.5 `0.6` [b 0.7](c-0.8.md)\n\n```text\n0.9\n```\n\n```sh\nrun 1.1 # takes 12 s\n```\n"
    text += "\n    p = 1.3\n\n1e-3, 10⁻³ H200, 12 views"
    assert [number for number, _, _ in uncovered(prose(text), [])] == ["0.5", "0.7", "12", "1e-3", "10⁻³"]

"""What others read of the repository: citation, changelog, the workflow catalog, and links between its pages."""

import re

import pytest
import yaml
from conftest import ROOT

import koct

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "results/README.md", *sorted((ROOT / "docs").glob("*.md"))]
PEOPLE = ["Andreas Maier", "Md Hasan", "Paulina Conrad", "Paula Andrea Pérez Toro"]


def test_the_citation_names_koct_and_the_paper():
    """The keys that CFF 1.2.0 requires, and this version."""
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(found)
    assert (found["type"], str(found["version"]), found["license"]) == ("software", koct.__version__, "MIT")
    paper = found["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["title"] == "A Deep Risk Estimator for Known Operator Learning"
    assert [f"{person['given-names']} {person['family-names']}" for person in paper["authors"]] == PEOPLE


def test_the_changelog_has_this_version_and_the_workflow_catalog_is_told_what_works():
    versions = re.findall(r"^## \[(.*?)\](?: - \d{4}-\d\d-\d\d)?$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert versions[:2] == ["Unreleased", koct.__version__]
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["mandatory-flags"]["flags"] == ""
    assert {"conda", "report"} <= {key for key, works in usage["software-stack-deployment"].items() if works is True}


def anchors(text):
    """Of the headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text()), target

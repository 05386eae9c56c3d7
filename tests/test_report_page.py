"""`snakemake --report` in a browser, without a network, and the page of the claims."""

import re

import pytest

from koct.report.pages.claims_page import counts
from koct.study.results import read
from tests.browser import CHROMIUM, chromium

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    with chromium(playwright) as browser:
        yield browser


@pytest.fixture
def page(browser):
    """A page without a network; `page.seen` has what it asked for and what went wrong."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.seen = []
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("console", lambda message: page.seen.append(message.text) if message.type == "error" else None)
    page.on("request", lambda asked: None if re.match("file|data|blob", asked.url) else page.seen.append(asked.url))
    yield page
    context.close()


def test_the_report_is_one_file_with_the_claims_first(study, page, tmp_path):
    report = tmp_path / "report.html"
    study.snakemake("--report", str(report))
    assert report.stat().st_size < 5e6
    page.goto(report.as_uri())
    categories = page.get_by_text(re.compile(r"^\d \w+$"))
    categories.first.wait_for()
    assert categories.all_inner_texts() == ["1 Claims", "2 Figures", "3 Tables", "4 Supplement"]
    text = page.inner_text("body")
    assert "snakemake --config study=surrogate" in text  # how to make it again
    assert "seeds = [1, 2, 3]" in text  # the configuration
    for category, entries in {
        "1 Claims": ["what the paper states, and what holds"],
        "2 Figures": ["curves predicted before any fit", "error against N"],
        "3 Tables": ["floor and σ of every curve", "who is below whom", "samples for the targets"],
    }.items():
        page.get_by_text(category).click()
        for entry in entries:
            page.get_by_text(entry, exact=True).wait_for()
        page.get_by_text("Results", exact=True).click()
    page.get_by_role("link", name="Statistics").click()
    page.locator("canvas").first.wait_for()  # run times and memory
    assert page.seen == []


def test_a_verdict_shows_its_claims_alone(study, page):
    rows, _ = read(study.path("results/claims.parquet"))
    page.goto(study.path("results/claims.html").as_uri())
    shown = page.locator("tr[data-verdict]:visible")
    assert shown.count() == len(rows)
    for verdict, count in counts(rows).items():
        button = page.get_by_role("button", name=f"{verdict}: {count}", exact=False).first
        button.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert shown.count() == count
        button.press("Enter")
        assert shown.count() == len(rows)
    assert page.seen == []

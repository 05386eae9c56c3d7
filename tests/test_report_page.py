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


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    study.snakemake("--report", str(path))
    assert path.stat().st_size < 5e6
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_are_on_the_first_screen_and_planner_and_claims_one_click_away(report, page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for name, text in (("the planner", "How many samples?"), ("what the paper states, and what holds", "The theorem")):
        page.goto(report)
        figure = page.get_by_alt_text("error against N")
        page.wait_for_function("document.querySelector('.figures img').naturalWidth > 0")
        box = figure.bounding_box()
        assert box["width"] > 0.5 * width
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= 800
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.get_by_role("link", name=name, exact=True).click()
        page.frame_locator("iframe").get_by_text(text).first.wait_for()
    assert page.seen == []


def test_the_menu_of_the_report_has_all_products(report, page):
    page.goto(report)
    categories = page.get_by_text(re.compile(r"^\d \w+"))
    categories.first.wait_for()
    assert categories.all_inner_texts() == ["1 Claims and planner", "2 Figures", "3 Tables", "4 Supplement"]
    text = page.inner_text("body")
    assert "snakemake --config study=surrogate" in text  # how to make it again
    assert "seeds = [1, 2, 3]" in text  # the configuration
    page.get_by_text("3 Tables").click()
    for entry in ("floor and σ of every curve", "who is below whom", "samples for the targets"):
        page.get_by_text(entry, exact=True).wait_for()
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

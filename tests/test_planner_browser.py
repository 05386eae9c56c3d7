"""Pages in a real browser, without a network: the planner, `snakemake --report` and the claims."""

import csv
import io
import itertools
import json
import re
import shlex
import shutil

import numpy as np
import pytest
import yaml
from conftest import ROOT

from koct import cli
from koct.report.pages.claims_page import counts
from koct.study.results import read

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium"),
]

HOSTILE = ['</script><script>document.title = "bad"</script>', "<img src=x onerror=alert(1)>", 'a "b", c']


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{name: pilot} with a page beside each."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    quoted = [name.replace('"', '""') for name in HOSTILE]
    runs = itertools.product((50, 100, 200, 400), (1, 2, 3))
    texts = {
        "hostile": ["sweep,arch,N,error"]
        + [f'"{sweep}","{arch}",{N},{0.1 / N}' for sweep in quoted[:2] for arch in quoted for N in (4, 8, 16)],
        "accuracy": ["N,seed,accuracy,cost"]
        + [f"{N},{seed},{1 - (1 + seed / 20) * N**-0.5},{0.1 * N}" for N, seed in runs],
        "noisy": ["arch,N,error"]
        + [f"{arch},{N},{0.3 * N**-0.2 * rng.lognormal(0, 0.5)}" for arch in "ab" for N in (4, 4, 8, 8, 16, 16)],
    }
    pilots = {"study": ROOT / "results/reference/cells.parquet", **{name: folder / f"{name}.csv" for name in texts}}
    for name, lines in texts.items():
        pilots[name].write_text("\n".join(lines) + "\n")
    for name, pilot in pilots.items():
        options = ["--metric", "accuracy"] if name == "accuracy" else []
        assert cli.main(["planner", str(pilot), *options, "--out", str(folder / f"{name}.html")]) == 0
    return folder, pilots


@pytest.fixture(scope="module")
def browser():
    """A Chromium that has started; where none starts, as without user namespaces, tests are skipped."""
    with playwright.sync_playwright() as running:
        try:
            browser = running.chromium.launch(executable_path=CHROMIUM)
        except playwright.Error as error:
            pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, files):
    """Open a page by its name or file; whatever it does, there is no error, no message and no request for another."""
    seen, contexts = [], []

    def load(name, width=1000, scheme="light"):
        size, allowed = {"width": width, "height": 800}, ["clipboard-read", "clipboard-write"]
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, permissions=allowed, offline=True))
        page, address = contexts[-1].new_page(), (files[0] / f"{name}.html").as_uri()
        own = rf"{re.escape(address)}(#|$)|(data|blob):"
        page.on("console", lambda said: None if "tailwind" in said.text else seen.append(said.text))  # Snakemake's own
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.on("request", lambda request: None if re.match(own, request.url) else seen.append(request.url))
        page.goto(address)
        return page

    yield load
    for context in contexts:
        context.close()
    assert seen == []


def table(page):
    """Return {arch: {head: text}} as they are on the page."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#body tr")].map((row) => [row.dataset.arch,
        Object.fromEntries([...row.querySelectorAll("td")].map((cell) => [cell.dataset.head,
        cell.querySelector(".value").firstChild.data.trim()]))]))"""
    )


def clipped(page):
    """Return the texts that are cut off, or that leave the page."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main *:not(.unseen):not(option)")]
        .filter((e) => e.childElementCount === 0 && e.textContent.trim() && e.getClientRects().length)
        .filter((e) => { const box = e.getBoundingClientRect();
          const frame = (e.closest("svg") || document.documentElement).getBoundingClientRect();
          const outside = box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5;
          return outside || (!e.closest("svg") && e.clientWidth && e.scrollWidth > e.clientWidth + 1);
        }).map((e) => e.textContent)"""
    )


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const against = (colour) => {
    const [a, b] = [light(colour), paper].sort((a, b) => a - b);
    return (b + 0.05) / (a + 0.05);
  };
  const texts = [...document.querySelectorAll("p, td, th, label, code, .law, .detail")]
    .map((e) => getComputedStyle(e).color);
  const curves = [...document.querySelectorAll("#plot .arch path[fill=none]")].map((e) => getComputedStyle(e).stroke);
  return [Math.min(...texts.map(against)), Math.min(...curves.map(against))];
}"""


# The planner


@pytest.fixture
def agrees(files, capsys):
    """Check that the page shows what the command on it prints; return its answers, {arch: answer}."""

    def check(page, name):
        verb, command, *arguments = shlex.split(page.inner_text("#command"))
        source = arguments.index(files[1][name].name)
        arguments[source] = str(files[1][name])
        assert (verb, command) == ("koct", "budget")
        assert cli.main([command, *arguments, "--json"]) == 0
        answers = {answer["arch"]: answer for answer in json.loads(capsys.readouterr().out)}
        shown = table(page)
        assert list(shown) == list(answers)
        for arch, answer in answers.items():
            n, low, high = (None if answer[key] is None else f"{answer[key]:,}" for key in ("n", "n_low", "n_high"))
            interval = "–" if low is None else f"from {low}" if high is None else f"{low} to {high}"
            if "more than" not in shown[arch]["Samples N"] + shown[arch]["90 % interval"]:
                assert (shown[arch]["Samples N"], shown[arch]["90 % interval"]) == (n or "out of reach", interval)
        return answers

    return check


def slide(page, keys, slider="#target-range"):
    page.focus(slider)
    for key in keys:
        page.keyboard.press(key)


def test_the_slider_moves_over_answers_of_budget(opened, agrees):
    page = opened("study")
    names = page.locator("#sweep option").all_inner_texts()
    assert len(names) == 9
    page.select_option("#sweep", index=3)
    agrees(page, "study")
    slide(page, ["Home"])
    answers = agrees(page, "study")
    assert any(answer["n"] is None for answer in answers.values())
    assert "out of reach" in page.inner_text("#body")
    page.select_option("#question", index=1)
    assert all(answer["assurance"] == 0.8 for answer in agrees(page, "study").values())
    before = float(page.input_value("#target"))  # and a mouse drags the line
    page.locator(".grip").scroll_into_view_if_needed()
    box = page.locator(".grip").bounding_box()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] - 30)
    page.mouse.up()
    assert float(page.input_value("#target")) > before
    agrees(page, "study")


def test_targets_are_scores_where_the_metric_is_one_and_an_n_is_read_off_the_curves(opened, agrees, files, capsys):
    page = opened("accuracy")
    (before,) = agrees(page, "accuracy").values()
    slide(page, ["ArrowRight"] * 3)
    (after,) = agrees(page, "accuracy").values()
    assert before["target"] < after["target"] < 1
    assert page.input_value("#target") == page.get_attribute("#target-range", "aria-valuetext")
    assert float(page.input_value("#target")) == after["target"]
    assert float(table(page)["pilot"]["Cost of a run"].replace(",", "")) == pytest.approx(0.1 * after["n"], rel=0.01)
    page.fill("#at", "300")
    cli.main(["budget", str(files[1]["accuracy"]), "--metric", "accuracy", "--at", "300", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    found = re.fullmatch(r"pilot: accuracy (\S+) \((\S+) to (\S+)\); chance of .* %", page.inner_text("#readout"))
    expected = [row[key] for key in ("score", "score_low", "score_high")]
    assert [float(value) for value in found.groups()] == pytest.approx(expected, rel=3e-3)
    page.click("#plot", position={"x": 700, "y": 100})
    assert float(page.input_value("#at")) > 300
    assert page.inner_text("#readout") != found[0]


def test_a_target_can_be_typed_an_n_stays_and_the_address_keeps_both(opened, agrees):
    page = opened("study")
    low, high = (float(page.locator("#targets option").nth(place).get_attribute("value")) for place in (0, -1))
    for text, sentence in (
        (f"{1.001 * low:.8f}", "The nearest to"),
        (f"{2 * high}", "from"),
        ("abc", "from"),
        ("", "from"),
    ):
        page.fill("#target", text)
        page.press("#target", "Enter")
        assert low <= float(page.input_value("#target")) <= high
        assert sentence in page.inner_text("#target-note")
    page.fill("#at", "32")
    page.locator(".grip").scroll_into_view_if_needed()
    box = page.locator(".grip").bounding_box()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] - 60)
    page.mouse.up()
    target = page.input_value("#target")
    assert float(target) > low
    assert (page.input_value("#at"), page.evaluate("getSelection().toString()")) == ("32", "")
    page.goto("about:blank")
    page.go_back()
    assert (page.input_value("#target"), page.input_value("#at")) == (target, "32")
    agrees(page, "study")


@pytest.mark.parametrize(
    ("N", "sentence"),
    [("2.5", "whole number"), ("0", "1 or more"), ("-5", "1 or more"), ("2", "smallest N"), ("100000000", "can tell")],
)
def test_an_n_without_an_answer_gets_a_sentence_and_no_number(opened, N, sentence):
    page = opened("study")
    page.fill("#at", N)
    assert sentence in page.inner_text("#readout")
    assert "chance" not in page.inner_text("#readout")


def test_what_the_pilot_cannot_tell_is_said_in_words(opened):
    page = opened("noisy")
    texts = ""
    slide(page, ["Home"])
    for _ in range(page.locator("#targets option").count()):
        texts += page.inner_text("#body") + page.inner_text("#summary")
        slide(page, ["ArrowRight"])
    assert "the pilot cannot tell" in texts
    assert "needs more than 1,600 samples" in texts  # a hundred times the pilot's largest N
    assert not re.search(r"\b(?!1,600\b)\d+,\d+", texts)
    assert "power: a power of N, down to a floor" in page.inner_text("#laws")


def test_the_keyboard_is_enough_and_the_table_can_be_copied(opened, agrees):
    page = opened("study")
    for focused in ("sweep", "target", "target-range", "question", "at", "copy"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == focused
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter" if focused == "copy" else "ArrowDown" if focused != "at" else "ArrowUp")
    answers = agrees(page, "study")
    playwright.expect(page.locator("#done")).to_have_text("Copied.")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert [row["arch"] for row in rows] == list(answers)
    for row in rows:
        answer = answers[row["arch"]]
        assert (row["sweep"], row["metric"], float(row["assurance"])) == ("H16", "mse", 0.8)
        for key in ("target", "n", "n_low", "n_high", "probability", "error", "error_low", "error_high"):
            same = "" if answer[key] is None else pytest.approx(answer[key], rel=5e-3)
            assert (row[key] and float(row[key])) == same
    playwright.expect(page.locator("#live")).to_have_text("The table is copied as CSV.")


def test_a_screen_reader_finds_everything(opened):
    page = opened("study")
    for role, name in (
        ("combobox", "Sweep"),
        ("combobox", "Target error (MSE)"),
        ("slider", "Target, as a slider"),
        ("combobox", "Reach it"),
        ("table", "Samples needed: H8 (surrogate)"),
        ("rowheader", re.compile("^KO")),
        ("columnheader", "Samples N"),
        ("button", "Copy as CSV"),
        ("img", re.compile("^test MSE against the number of training samples, .* needs about")),
    ):
        assert page.get_by_role(role, name=name, exact=isinstance(name, str)).count() == 1, name
    playwright.expect(page.locator("#live")).to_contain_text("For a mean error of")


@pytest.mark.parametrize(("name", "scheme"), [("study", "light"), ("accuracy", "dark"), ("hostile", "dark")])
def test_a_phone_shows_all_of_it_and_it_stands_out(opened, name, scheme):
    """By the ratios that WCAG 2 asks for: 4.5 for text and 3 for graphics."""
    page = opened(name, 360, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert clipped(page) == []
    texts, curves = page.evaluate(CONTRAST)
    assert texts >= 4.5
    assert curves >= 3
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")


def test_names_are_text_and_never_markup(opened):
    page = opened("hostile")
    page.select_option("#sweep", index=1)
    assert page.title() == "How many samples? The planner of koct"
    assert set(table(page)) == set(HOSTILE)
    assert page.locator("img, main script, main b").count() == 0
    assert page.locator("#sweep option").all_inner_texts() == HOSTILE[:2]
    assert page.is_visible("#unassurable")


def test_it_prints_on_one_page_in_ink(opened):
    page = opened("study", scheme="dark")
    page.emulate_media(media="print")
    assert not page.is_visible("#controls")
    assert page.is_visible("#plot svg")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#ffffff"
    assert page.pdf(format="A4").count(b"/Type /Page\n") == 1


# The report and the claims of a study


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    study.snakemake("--report", str(path))
    assert path.stat().st_size < 5e6
    return path.with_suffix("")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_answer_is_on_the_first_screen_and_planner_and_claims_one_click_away(report, opened, width):
    for name, text in (("the planner", "How many samples?"), ("what the paper states, and what holds", "The theorem")):
        page = opened(report, width)
        page.wait_for_function("document.querySelector('.figures img').naturalWidth > 0")
        answer = page.get_by_text("no network is better than").first.bounding_box()
        assert answer["y"] + answer["height"] <= 800
        shown = page.locator(".figures img").evaluate_all("images => images.map((image) => image.alt)")
        assert shown[0] == "error against N"  # behind reconstructions, if the images are large enough for some
        box = page.get_by_alt_text("error against N").bounding_box()
        assert box["width"] > 0.5 * width
        assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.get_by_role("link", name=name, exact=True).click()
        page.frame_locator("iframe").get_by_text(text).first.wait_for()


def test_the_menu_of_the_report_has_all_products(report, opened):
    page = opened(report)
    categories = page.get_by_text(re.compile(r"^\d \w+"))
    categories.first.wait_for()
    assert categories.all_inner_texts() == ["1 Answer, planner, claims", "2 Figures", "3 Tables", "4 Supplement"]
    text = page.inner_text("body")
    assert "snakemake --config study=surrogate" in text  # how to make it again
    page.get_by_text("The configuration").click()
    settings = yaml.safe_load(page.locator("pre").inner_text())
    assert settings["H8"]["seeds"] == [1, 2, 3]
    page.get_by_text("3 Tables").click()
    for entry in ("floor and σ of every curve", "who is below whom", "samples for the targets"):
        page.get_by_text(entry, exact=True).wait_for()


def test_a_verdict_shows_its_claims_alone(study, opened):
    rows, _ = read(study.path("results/claims.parquet"))
    page = opened(study.path("results/claims"))
    shown = page.locator("tr[data-verdict]:visible")
    assert shown.count() == len(rows)
    for verdict, count in counts(rows).items():
        button = page.get_by_role("button", name=f"{verdict}: {count}", exact=False).first
        button.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert shown.count() == count
        button.press("Enter")
        assert shown.count() == len(rows)

"""The planner page in a browser: its answers are those of `koct budget`, and everybody can use it."""

import csv
import io
import itertools
import json
import re
import shlex

import numpy as np
import pytest
from conftest import ROOT

from koct import cli
from tests.browser import CHROMIUM, CONTRAST, chromium, clipped, table

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")

HOSTILE = ['</script><script>document.title = "bad"</script>', "<img src=x onerror=alert(1)>", 'a "b", c']


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{name: pilot} with a page beside each."""
    folder = tmp_path_factory.mktemp("pages")
    quoted = [name.replace('"', '""') for name in HOSTILE]
    rows = [f'"{sweep}","{arch}",{N},{0.1 / N}' for sweep in quoted[:2] for arch in quoted for N in (4, 8, 16)]
    (folder / "hostile.csv").write_text("\n".join(["sweep,arch,N,error", *rows]) + "\n")
    runs = itertools.product((50, 100, 200, 400), (1, 2, 3))
    scores = [f"{N},{seed},{1 - (1 + seed / 20) * N**-0.5},{0.1 * N}" for N, seed in runs]
    (folder / "accuracy.csv").write_text("\n".join(["N,seed,accuracy,cost", *scores]) + "\n")
    pilots = {"study": ROOT / "results/reference/cells.parquet", "hostile": folder / "hostile.csv"}
    rng = np.random.default_rng(0)
    noisy = [f"{arch},{N},{0.3 * N**-0.2 * rng.lognormal(0, 0.5)}" for arch in "ab" for N in (4, 4, 8, 8, 16, 16)]
    (folder / "noisy.csv").write_text("\n".join(["arch,N,error", *noisy]) + "\n")
    pilots |= {"accuracy": folder / "accuracy.csv", "noisy": folder / "noisy.csv"}
    for name, pilot in pilots.items():
        options = ["--metric", "accuracy"] if name == "accuracy" else []
        assert cli.main(["planner", str(pilot), *options, "--out", str(folder / f"{name}.html")]) == 0
    return folder, pilots


@pytest.fixture(scope="module")
def browser():
    with chromium(playwright) as running:
        yield running


@pytest.fixture
def opened(browser, files):
    """Open a page by its name; whatever it does, there is no error, no message and no request but for the file."""
    seen, contexts = [], []

    def load(name, width=1000, scheme="light"):
        size = {"width": width, "height": 800}
        allowed = ["clipboard-read", "clipboard-write"]
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, permissions=allowed))
        page, address = contexts[-1].new_page(), (files[0] / f"{name}.html").as_uri()
        page.on("console", lambda message: seen.append(message.text))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.on("request", lambda request: None if request.url == address else seen.append(request.url))
        page.goto(address)
        page.wait_for_selector("#body tr")
        return page

    yield load
    for context in contexts:
        context.close()
    assert seen == []


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


def test_targets_are_scores_where_the_metric_is_one(opened, agrees):
    page = opened("accuracy")
    before = agrees(page, "accuracy")
    slide(page, ["ArrowRight"] * 3)
    after = agrees(page, "accuracy")
    ((first, second),) = zip(before.values(), after.values(), strict=True)
    assert first["score_target"] < second["score_target"] < 1
    assert page.input_value("#target") == page.get_attribute("#target-range", "aria-valuetext")
    assert float(page.input_value("#target")) == second["score_target"]
    assert float(table(page)["pilot"]["Cost of a run"].replace(",", "")) == pytest.approx(0.1 * second["n"], rel=0.01)


def test_an_n_is_read_off_the_curves_by_its_box_and_by_the_pointer(opened, files, capsys):
    page = opened("accuracy")
    page.fill("#at", "300")
    cli.main(["budget", str(files[1]["accuracy"]), "--metric", "accuracy", "--at", "300", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    found = re.fullmatch(r"pilot: accuracy (\S+) \((\S+) to (\S+)\); chance of .* %", page.inner_text("#readout"))
    expected = [row[key] for key in ("score", "score_low", "score_high")]
    assert [float(value) for value in found.groups()] == pytest.approx(expected, rel=3e-3)
    page.hover("#plot", position={"x": 700, "y": 100})
    assert float(page.input_value("#at")) > 300
    assert page.inner_text("#readout") != found[0]


def test_what_the_pilot_cannot_tell_is_said_in_words(opened):
    page = opened("noisy")
    texts = ""
    slide(page, ["Home"])
    for _ in range(page.locator("#target option").count()):
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

"""The planner page in a browser: its answers are those of `koct budget`, and everybody can use it."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT

from koct import cli
from koct.forecast.pilot import read_pilots
from koct.report.text import budget_text as report
from tests.browser import CHROMIUM, CONTRAST, Pages, chromium, clipped, found, shown, table, until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")

REFERENCE = ROOT / "results/reference/cells.parquet"
METRICS = {"H8": "mse", "H16": "mse", "H32": "mse"} | dict.fromkeys(
    ("H128", "H256", "H512", "H128-exact", "H256-exact", "H512-exact"), "rrmse_peak2"
)
KEYS = ("n", "n_low", "n_high", "probability", "at", "error", "error_low", "error_high", "extrapolation", "reason")
HOSTILE = ['</script><script>document.title = "bad"</script>', "<img src=x onerror=alert(1)>", 'a "b", c']


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pilots, and a page for each: {name: (page, pilot, options)}."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(3)
    runs = [(arch, N, seed) for arch in ("resnet", "linear") for N in (50, 100, 200, 400) for seed in (1, 2, 3)]
    lines = ["arch,N,seed,accuracy,psnr,cost"]
    for arch, N, seed in runs:
        error = (1.5 * N**-0.5 if arch == "resnet" else N**-0.25) * rng.lognormal(0, 0.1)
        lines.append(f"{arch},{N},{seed},{1 - error},{-10 * np.log10(error / 100)},{0.1 * N}")
    (folder / "scores.csv").write_text("\n".join(lines) + "\n")
    quoted = [name.replace('"', '""') for name in HOSTILE]
    rows = [f'"{sweep}","{arch}",{N},{0.1 / N}' for sweep in quoted[:2] for arch in quoted for N in (4, 8, 16)]
    (folder / "hostile.csv").write_text("\n".join(["sweep,arch,N,error", *rows]) + "\n")
    wanted = {
        "study": (REFERENCE, []),
        "accuracy": (folder / "scores.csv", ["--metric", "accuracy", "--test-size", "500"]),
        "psnr": (folder / "scores.csv", ["--metric", "psnr"]),
        "hostile": (folder / "hostile.csv", []),
    }
    for name, (pilot, options) in wanted.items():
        assert cli.main(["planner", str(pilot), *options, "--out", str(folder / f"{name}.html")]) == 0
    return {name: (folder / f"{name}.html", *about) for name, about in wanted.items()}


@pytest.fixture(scope="module")
def pages(files):
    with chromium(playwright) as browser:
        yield Pages(browser.new_context(permissions=["clipboard-read", "clipboard-write"]), files)


@pytest.fixture
def opened(pages):
    """Open a page by its name; whatever it does, there is no error, no message and no request but for the file."""
    yield pages
    seen, pages.seen = pages.seen, []
    assert [each for each in seen if not each.startswith("blob:")] == []


def budget(capsys, pilot, *arguments):
    """{arch: answer} of `koct budget --json` for each target."""
    assert cli.main(["budget", str(pilot), *map(str, arguments), "--json"]) == 0
    groups = {}
    for answer in json.loads(capsys.readouterr().out):
        groups.setdefault(answer["target"], {})[answer["arch"]] = answer
    return groups


def test_every_sweep_of_the_study_answers_as_budget_does(opened, capsys):
    page = opened("study")
    names = [text.split(" (")[0] for text in page.locator("#sweep option").all_inner_texts()]
    assert names == list(METRICS)
    for name in names:
        page.select_option("#sweep", index=names.index(name))
        first = float(page.input_value("#target"))
        targets = [first, float(f"{0.3 * first:.3g}")]
        arguments = ["--sweep", name, "--metric", METRICS[name], "--target", ",".join(map(str, targets))]
        for target, answers in budget(capsys, REFERENCE, *arguments).items():
            page.fill("#target", str(target))
            until(page, {arch: shown(answer) for arch, answer in answers.items()})


def compute(page, targets, assurances):
    """Answers of all networks of the first sweep, and ratios of the second to the first, from the page's functions."""
    return page.evaluate(
        """async ([targets, assurances]) => {
          const all = await forecasts(0);
          return targets.map((target, i) => ({
            answers: all.map((forecast) => forecast.required(target, assurances[i])),
            ratios: all.length > 1 ? Object.values(ratios(all[0], all[1], target, assurances[i])).map(String) : [],
          }));
        }""",
        [targets, assurances],
    )


def same(numbers, texts):
    """Whether numbers of Python are those that JavaScript wrote as text."""
    words = {"null": None, "Infinity": np.inf}
    return list(numbers) == [words[text] if text in words else float(text) for text in texts]


@pytest.mark.parametrize(("name", "count"), [("study", 500), ("accuracy", 250), ("psnr", 250)])
def test_thousands_of_answers_have_the_same_bits(opened, files, name, count):
    """N, its interval, the probability, the predicted error and its interval, remarks, and ratios."""
    _, pilot, options = files[name]
    named = dict(zip(options[::2], options[1::2], strict=True))
    size = int(named["--test-size"]) if "--test-size" in named else None
    metric, sweep = ("mse", "H8") if name == "study" else (named["--metric"], None)
    pilots = read_pilots(pilot, metric, sweep, test_size=size)
    rng = np.random.default_rng(11)
    level = np.concatenate([each.mean for each in pilots.values()])
    spread = np.exp(rng.uniform(np.log(level.min() / 30), np.log(level.max() * 1.5), count))
    edges = [1e-60, 1e60, *level.tolist(), *(float(f"{value:.2g}") for value in level)]
    targets = [*spread.tolist(), *edges]
    assurances = [None if share < 0.5 else float(share) for share in rng.uniform(0, 1, len(targets))]
    made = compute(opened(name), targets, assurances)
    forecasts = {plan.arch: plan.forecast for plan in report.plans(pilots, [1.0])}
    for i, (target, assurance, ours) in enumerate(zip(targets, assurances, made, strict=True)):
        answers = {}
        for answer in ours["answers"]:
            expected = forecasts[answer["arch"]].required(target, assurance)
            assert {key: answer[key] for key in KEYS} == {key: getattr(expected, key) for key in KEYS}
            answers[answer["arch"]] = expected
        first, second = (report.Plan(arch, forecasts[arch], answers[arch], None) for arch in answers)
        assert i % 5 or same(report.ratios(first, second, assurance), ours["ratios"])


@pytest.mark.parametrize(("name", "targets"), [("accuracy", "0.9,0.95,0.999"), ("psnr", "25,31.5,40")])
def test_targets_are_scores_where_the_metric_is_one(opened, files, capsys, name, targets):
    page = opened(name)
    _, pilot, options = files[name]
    for text, answers in zip(
        targets.split(","), budget(capsys, pilot, *options, "--target", targets).values(), strict=True
    ):
        page.fill("#target", text)
        until(page, {arch: shown(answer) for arch, answer in answers.items()})
        for arch, cells in table(page).items():
            assert float(cells[f"Predicted {name} at N"]) == pytest.approx(answers[arch]["score"], rel=0.01)
            assert cells["Cost of a run"] == "–" or float(cells["Cost of a run"].replace(",", "")) > 0
    page.fill("#target", "1" if name == "accuracy" else "nonsense")
    assert page.inner_text("#problem")
    assert page.get_attribute("#target", "aria-invalid") == "true"


def test_a_mouse_drags_the_slider_and_the_line(opened, capsys):
    page, arguments = opened("study"), ["--sweep", "H8", "--metric", "mse", "--target"]
    for place in ("#target-range", ".grip"):
        page.locator(place).scroll_into_view_if_needed()
        box = page.locator(place).bounding_box()
        before = page.input_value("#target")
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] - 30)
        page.mouse.up()
        target = page.input_value("#target")
        assert target != before
        (answers,) = budget(capsys, REFERENCE, *arguments, target).values()
        until(page, {arch: shown(answer) for arch, answer in answers.items()})


def test_the_keyboard_is_enough(opened, capsys):
    page = opened("study")
    page.reload()
    page.wait_for_selector("#body tr")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sweep"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.012")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "target-range"
    for key in ("ArrowLeft", "ArrowLeft", "PageUp", "ArrowRight"):
        page.keyboard.press(key)
    target = page.input_value("#target")
    assert target != "0.012"
    assert page.get_attribute("#target-range", "aria-valuetext") == target
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # asks for an assurance
    page.keyboard.press("Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.8")
    arguments = ["--sweep", "H16", "--metric", "mse", "--assurance", 0.8]
    (answers,) = budget(capsys, REFERENCE, *arguments, "--target", target).values()
    until(page, {arch: shown(answer) for arch, answer in answers.items()})
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.input_value("#assurance") == "0.81"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#done")).to_have_text("Copied.")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    (answers,) = budget(capsys, REFERENCE, *arguments[:-1], 0.81, "--target", target).values()
    for row in rows:
        answer = answers[row["arch"]]
        assert (row["sweep"], row["metric"], float(row["assurance"])) == ("H16", "mse", 0.81)
        for key in ("n", "n_low", "n_high", "probability", "at", "error", "error_low", "error_high"):
            assert row[key] == "" if answer[key] is None else float(row[key]) == answer[key]
    assert page.inner_text("#live") == "The table is copied as CSV."


def test_the_command_on_the_page_gives_its_answers(opened, files, capsys):
    page = opened("accuracy")
    page.fill("#target", "0.9")
    page.check("#assured")
    words = page.inner_text("#command").split()
    assert words[:3] == ["koct", "budget", "scores.csv"]
    (answers,) = budget(capsys, files["accuracy"][1], *words[3:]).values()
    until(page, {arch: shown(answer) for arch, answer in answers.items()})


def test_a_screen_reader_finds_everything(opened):
    page = opened("study")
    for role, name in (
        ("combobox", "Sweep"),
        ("textbox", "Target error (MSE)"),
        ("slider", "Target, on a logarithmic scale"),
        ("checkbox", "Reach it in a share of single runs, not only on average"),
        ("table", "Samples needed: H8 (surrogate)"),
        ("rowheader", re.compile("^KO")),
        ("columnheader", "Samples N"),
        ("button", "Copy as CSV"),
        ("button", "Save plot as SVG"),
        ("img", re.compile("^test MSE against the number of training samples, .* needs about")),
    ):
        assert page.get_by_role(role, name=name, exact=isinstance(name, str)).count() == 1, name
    playwright.expect(page.locator("#live")).to_contain_text("For a mean error of")
    page.fill("#target", "-1")
    assert page.get_by_role("alert").inner_text() == "The target must be above 0; choose a positive error"
    page.fill("#target", "0,02")
    assert page.get_by_role("alert").inner_text() == "Write decimals with a point, like 0.05"


def test_out_of_reach_comes_with_its_probability(opened, capsys):
    page = opened("study")
    page.select_option("#sweep", index=2)
    page.fill("#target", "0.000001")
    arguments = ["--sweep", "H32", "--metric", "mse", "--target", "0.000001"]
    (answers,) = budget(capsys, REFERENCE, *arguments).values()
    assert answers["fc"]["n"] is None
    until(page, {arch: shown(answer) for arch, answer in answers.items()})
    row = page.locator('tr[data-arch="fc"]').inner_text()
    assert re.search(r"out of reach\s+probability (below )?\d+\s%", row)
    assert "The paper's two factors are undefined here: target = 1e-06 is not above" in page.inner_text("#factors")
    page.fill("#target", "0.02")
    playwright.expect(page.locator("#factors")).to_contain_text("structural")
    assert cli.main(["budget", str(REFERENCE), *arguments[:-1], "0.02"]) == 0
    assert page.inner_text("#factors") in capsys.readouterr().out


@pytest.mark.parametrize("name", ["study", "accuracy", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(opened, name, scheme):
    page = opened(name, 360, 740, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert clipped(page) == []
    for box in page.locator("button, select, input[type=text]").all():
        assert not box.is_visible() or box.bounding_box()["height"] >= 36
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_curves_stand_out(opened, scheme):
    """By the ratios that WCAG 2 asks for: 4.5 for text and 3 for graphics."""
    texts, curves = opened("study", scheme=scheme).evaluate(CONTRAST)
    assert texts >= 4.5
    assert curves >= 3


def test_names_are_text_and_never_markup(opened):
    page = opened("hostile")
    page.select_option("#sweep", index=1)
    until(page, found(page))
    assert page.title() == "How many samples? The planner of koct"
    assert set(table(page)) == set(HOSTILE)
    assert page.locator("img, main script, main b").count() == 0
    assert page.locator("script").count() == 2
    assert HOSTILE[0] in page.inner_text("#body")
    assert page.locator("#sweep option").all_inner_texts() == HOSTILE[:2]


def test_it_prints_on_paper_in_ink(opened):
    page = opened("study", scheme="dark")
    page.emulate_media(media="print")
    assert not page.is_visible("#controls")
    assert not page.is_visible("#copy")
    assert page.is_visible("#plot svg")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#ffffff"
    assert page.pdf(format="A4").count(b"/Type /Page\n") == 1


def test_a_saved_plot_is_plain_svg(opened):
    page = opened("study", scheme="dark")
    with page.expect_download() as waiting:
        page.click("#save")
    assert waiting.value.suggested_filename == "planner-H8.svg"
    text = waiting.value.path().read_text()
    assert not re.findall(r"var\(|<script|<foreignObject|class=", text)
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"KO", "FC", "training samples N", "test MSE"} <= set(texts)
    assert any(each.startswith("target ") for each in texts)

"""What a reader sees: where curves cross, operating points, the figures of sweeps and of reconstructions."""

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import cell, check_layout, save
from matplotlib.image import imread
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from test_workflow import compiles

from koct.base.files import read_record
from koct.base.stamps import Stamp
from koct.contracts import registry
from koct.forecast.crossing import order, overtaken
from koct.operators.algebra import Diagonal
from koct.operators.fanbeam import Backprojector, FanBeam, analytic_weights
from koct.operators.filters import RampFilter
from koct.problems.fanbeam import FanBeamProblem
from koct.problems.pools import Pool
from koct.report import drawing, products
from koct.report.figures import fig_recons as recons
from koct.report.figures import fig_sweeps
from koct.report.labels import Names
from koct.study.results import THEORY, write

pytestmark = pytest.mark.thorough

# Where two curves change order


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=8))
def test_stretches_cover_every_N_once_and_neighbours_differ(errors):
    N = 4 * 2 ** np.arange(len(errors))
    a, b = np.array(errors, dtype=float).T
    stretches = order(N, a, b)
    assert order(N[::-1], a[::-1], b[::-1]) == stretches
    assert (stretches[0].first, stretches[-1].last) == (N[0], N[-1])
    for left, right in itertools.pairwise(stretches):
        assert right.first == 2 * left.last
        assert right.below != left.below
    for n, first, second in zip(N, a, b, strict=True):
        (stretch,) = (s for s in stretches if s.first <= n <= s.last)
        assert stretch.below == {-1: 0, 0: None, 1: 1}[np.sign(first - second)]


SIZES = np.array([4, 16, 64, 256])


@pytest.mark.parametrize("crossing", [5.0, 16.0, 23.0, 200.0])
def test_power_laws_cross_where_they_cross(crossing):
    flat, steep = SIZES**-0.1, SIZES**-0.6 * crossing**0.5
    assert overtaken(SIZES, flat, steep) == pytest.approx(crossing)
    assert overtaken(SIZES[::-1], flat[::-1], steep[::-1]) == pytest.approx(crossing)  # in any order of N
    assert overtaken(SIZES, steep, flat) is None  # below at first, and not at the end


@pytest.mark.parametrize(
    ("error", "other", "expected"),
    [
        ([2, 2, 2, 2], [1, 1, 1, 1], 4),  # always below
        ([1, 1, 1, 1], [2, 1, 1, 1], None),  # equal is not below
        ([2, 1, 2, 2], [1, 2, 2, 1], 64),  # below, above, equal, below: from where it stays below
        ([2, 2, 2, 2], [3, 3, 3, 0], 256),  # no logarithm of zero
    ],
)
def test_what_counts_is_the_last_change(error, other, expected):
    assert overtaken(SIZES, error, other) == expected


# The table of operating points


def made_up_curves(folder, sweeps, labels):
    """curves.parquet and calibration.parquet of sweeps {(name, problem, H): {arch: errors at N = 4, 1024, 16}}."""
    cells = [
        cell(name, arch, N, error=error, problem=problem, H=H, V=60, B=H, p=60 * H * (H**2 if arch == "fc" else 1))
        for (name, problem, H), archs in sweeps.items()
        for arch, errors in archs.items()
        for N, error in zip((4, 1024, 16), errors, strict=False)
    ]
    save(folder, cells, labels)
    return folder / "curves.parquet", folder / "calibration.parquet"


def rows_of(table):
    """The cells of the table's rows, without what only sets them."""
    lines = re.findall(r"^(.* & .*) \\tabularnewline$", table, re.M)
    return [line.replace(r"\raggedright ", "").split(" & ") for line in lines]


def test_the_table_of_operating_points(tmp_path):
    sweeps = {
        ("H8", "surrogate", 8): {"ko": [1, 1], "fc": [2, 2]},
        ("A", "fanbeam", 512): {"ko": [2, 2, 2], "fc": [2, 1, 3]},
        ("B", "fanbeam", 512): {"ko": [1, 1, 2], "fc": [2, 2, 1]},
        ("C_1", "fanbeam", 512): {"ko": [1, 1]},
        ("D", "own", 512): {"ko": [1, 1]},  # without a label
    }
    printed, exact = (FanBeamProblem(H=512, V=60, B=512, rays=rays).label for rays in ("printed", "exact"))
    paths = made_up_curves(tmp_path, sweeps, {"H8": "surrogate", "A": printed, "B": exact, "C_1": exact})
    products.make("table_scaling", paths, [tmp_path / "scaling.tex"])
    table = (tmp_path / "scaling.tex").read_text()
    crossed = "KO and FC equal up to ${N = 4}$; KO below at ${N = 16}$; FC below from ${N = 1{,}024}$"
    between = "KO below FC up to ${N = 4}$; FC below at ${N = 16}$; KO below from ${N = 1{,}024}$"
    assert rows_of(table) == [
        ["surrogate", "$8$", "$60$", "$8$", "$64$", "KO below FC at every $N$"],
        ["fan beam", "$512$", "$60$", "$512$", "$262{,}144$", crossed],
        ["fan beam, exact rays (B)", "$512$", "$60$", "$512$", "$262{,}144$", between],
        [r"fan beam, exact rays (C\_1)", "$512$", "$60$", "$512$", "--", "--"],
        ["own", "$512$", "$60$", "$512$", "--", "--"],
    ]
    compiles([table], tmp_path)


# The figure of sweeps


def panels_of(folder, sweeps, N, archs, **baselines):
    """Draw made-up sweeps {name: metric}; the figure before it is closed."""
    cells = []
    for i, name in enumerate(sweeps):
        cells += [cell(name, arch, n, error=0.1 + i + 1 / n) for arch in archs for n in N]
        cells += [cell(name, arch, 0, error=error, p=0) for arch, error in baselines.items()]
    save(folder, cells, **sweeps)
    write([], THEORY, folder / "theory.parquet", {}, Stamp({}))
    with drawing.styled():
        return fig_sweeps.figure(*(folder / name for name in fig_sweeps.PRODUCT.reads))


LONG = [f"A RATHER LONG NAME {i}" for i in range(5)]
MIXED = {**dict.fromkeys(["H8", "H16", "H32"], "mse"), **dict.fromkeys("abcdef", "rrmse_peak2")}


@pytest.mark.parametrize(("sweeps", "others"), [(MIXED, LONG), ({"H128": "rrmse_peak2"}, [])])
def test_a_metric_has_lines_of_its_own_and_no_text_meets_another(tmp_path, sweeps, others):
    figure = panels_of(tmp_path, sweeps, [4, 16, 64, 256, 1024, 2048], ["ko", "fc", *others], untrained=0.2)
    panels = [axis for axis in figure.axes if axis.get_title()]
    assert len(panels) == len(sweeps)
    by_line = {}
    for axis in panels:
        by_line.setdefault(round(axis.get_position().y0, 3), []).append(axis)
    for line in by_line.values():
        assert [bool(axis.get_ylabel()) for axis in line] == [True] + [False] * (len(line) - 1)
        assert len({axis.get_ylim() for axis in line}) == 1
    legend = check_layout(figure)
    assert {text.get_text() for text in legend.get_texts()} == {"KO", "FC", *others, "calibrated bound", "UNTRAINED"}
    for axis in panels:
        ticks = [tick for tick in axis.get_xticklabels() if tick.get_text()]
        assert {tick.get_text() for tick in ticks} >= {"4", "1,024"}
        boxes = [tick.get_window_extent() for tick in ticks]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_a_line_far_below_the_curves_does_not_squash_them(tmp_path):
    """It is told at the lower edge; one near them is drawn."""
    axis = panels_of(tmp_path, {"H8": "mse"}, [4, 16, 64], ["ko", "fc"], fbp=0.05, tv=2.5e-8).axes[0]
    assert 0.05 / 5 < axis.get_ylim()[0] < 0.05
    lines = {line.get_label(): set(line.get_ydata()) for line in axis.lines}
    assert (lines["FBP"], lines["TV"]) == ({0.05}, set())
    (text,) = (text for text in axis.texts if text.get_text())
    assert text.get_text() == r"$\downarrow$ TV $2.5 \cdot 10^{-8}$"
    box, panel = text.get_window_extent(), axis.get_window_extent()
    assert panel.y0 <= box.y0 <= panel.y0 + 0.1 * panel.height
    assert panel.x0 <= box.x0 <= box.x1 <= panel.x1


# Reconstructions


def test_the_figure_shows_the_phantom_and_what_the_networks_of_the_first_seed_make_of_it(small_fanbeam):
    """Every pixel is one flat square of whole dots."""
    problem = registry.problem("fanbeam")(H=32, V=20, B=32, rays="exact")
    pool = Pool(small_fanbeam.path("results/pools/F32-exact/seed1.npy"), problem)
    grey = imread(small_fanbeam.path("results/fig_recons_F32-exact.png"))[:, :, 0]
    sheet = recons.Sheet((32, 32), 3, 1, 2, len("KO"))  # numbers of N, of what needs no sample, of networks
    assert grey.shape == (sheet.height, sheet.width)
    x, (y,), g = pool.x("test", 1), pool.y("test", 1), FanBeam(32, 20, 32)
    fbp = Backprojector(g) @ RampFilter(20, 32, g.width)
    images = {sheet.place(1, 0): (fbp @ Diagonal(analytic_weights(g)))(x.reshape(-1, 20, 32))}  # by row and column
    for j, N in enumerate((4, 16, 64)):
        w = read_record(small_fanbeam.path(f"results/fits/F32-exact/ko/N{N}_seed1.npy"))[0]["w"]
        lam = json.loads(small_fanbeam.path(f"results/cells/F32-exact/fc/N{N}_seed1.json").read_text())["lam"]
        X, Y = pool.x("train", N).astype(float), pool.y("train", N).astype(float)
        images[sheet.first, j] = fbp((w * x).reshape(-1, 20, 32))
        images[sheet.first + 1, j] = x @ X.T @ np.linalg.solve(X @ X.T + lam * np.eye(N), Y)
    for (i, j), image in images.items():
        shown = grey[sheet.y(i) :, sheet.x(j) :][: sheet.down, : sheet.across]
        expected = np.kron((image / y.max()).clip(0, 1).reshape(32, 32), np.ones((sheet.dots, sheet.dots)))
        np.testing.assert_allclose(shown, expected, atol=2 / 255)
    assert small_fanbeam.path("results/fig_recons_F32-exact.pdf").read_bytes().startswith(b"%PDF")
    arrays, _ = read_record(small_fanbeam.path("results/fig_recons_F32-exact.npy"))
    assert set(arrays) == {"truth", "ko 4", "ko 64", "fc 4", "fc 64"}
    assert {of.shape for of in arrays.values()} == {(min(16, pool.count["test"]), 32, 32)}
    for name, of in {
        "truth": y,
        "ko 64": images[sheet.first, 2].clip(0),
        "fc 64": images[sheet.first + 1, 2].clip(0),
    }.items():
        np.testing.assert_allclose(arrays[name][0], of.reshape(32, 32) / y.max(), atol=1e-3)


def test_the_numbers_under_the_pictures_are_psnr_and_ssim_as_scikit_image_has_them(monkeypatch, tmp_path):
    rng, texts, plain = np.random.default_rng(0), [], recons.Sheet.text
    monkeypatch.setattr(recons.Sheet, "text", lambda *a, **style: (texts.append(a[4]), plain(*a, **style)))
    phantom, sizes = rng.uniform(0, 1.4, (16, 16)), [4**i for i in range(1, 8)]
    cells = [("tv", 0), ("nnls", 0), *itertools.product(("ko", "fc"), sizes)]
    made = {cell: rng.uniform(0, 1, (16, 16)) for cell in cells}
    recons.draw(phantom, made, Names(), [tmp_path / "out.png"])
    shown = ["$N = 4$", "$N = 64$", "$N = 1{,}024$", "$N = 16{,}384$"]  # four of seven
    assert [text for text in texts if text.startswith("$N = ")] == shown
    expected = [
        f"{peak_signal_noise_ratio(phantom, image, data_range=phantom.max()):.1f} dB, SSIM "
        f"{structural_similarity(phantom, image, data_range=np.ptp(phantom)):.2f}"
        for image in (made[arch, N] for arch, N in cells if N in (0, 4, 64, 1024, 16384))
    ]
    assert [text for text in texts if " dB, " in text] == expected


def test_signals_are_drawn_as_curves(tmp_path):
    truth = np.sin(np.arange(40) / 5)
    made = {("fbp", 0): truth, ("fc", 4): truth + 0.1, ("fc", 16): truth - 0.01}
    with drawing.styled():
        figure = recons._signals(truth, made, [4, 16], Names(), "")
    first, second, *below = figure.axes
    assert first.get_ylim() == second.get_ylim()
    np.testing.assert_allclose(first.lines[2].get_ydata(), truth + 0.1)
    np.testing.assert_allclose(below[1].lines[1].get_ydata(), -0.01)
    assert [text.get_text() for text in below[1].texts] == ["FBP 313.1 dB", "FC 40.0 dB"]
    recons.draw(truth, made, Names(), [tmp_path / "out.pdf"])


@pytest.mark.parametrize(
    ("shape", "free", "networks"), [((8, 8), 4, 2), ((300, 300), 0, 4), ((16, 48), 2, 3), ((128, 128), 7, 8)]
)
def test_a_pixel_takes_whole_dots_and_pictures_fit_a_page(shape, free, networks):
    sheet = recons.Sheet(shape, 4, free, networks)
    assert sheet.down % shape[0] == 0
    assert sheet.down // shape[0] == sheet.across // shape[1]
    assert sheet.across % shape[1] == 0
    assert sheet.dpi >= 300
    assert sheet.height / sheet.dpi < 9.8
    assert sheet.width / sheet.dpi < 7.1

"""What `koct bound` prints: the table, which layer to replace, whether the bound is vacuous, what was assumed."""

import re

import pytest
from conftest import ROOT

from koct.base.files import write_json
from koct.base.stamps import Stamp
from koct.bound.theorem import BoundLayer, BoundNetwork, read_network
from koct.errors import KoctError
from koct.report.text.bound_text import format_table

FILE = """\
layers:
  - {name: W, lipschitz: 1.0, C: 0.5, n: 64, p: 80, kappa: 1.0e-3}
  - {name: K, lipschitz: 0.5, known: true}
  - {name: net, lipschitz: 2, p: 1000, known: no}
"""


def test_the_table_shows_each_layer_and_which_to_replace(tmp_path):
    path = tmp_path / "network.yaml"
    path.write_text(FILE, encoding="utf-8")
    network = read_network(path)
    table, sentences = format_table(network, 1000).split("\n\n")
    head, rule, *rows, second_rule, total = table.splitlines()
    assert set(rule) == set(second_rule) == {"-"}
    assert len({len(line) for line in (head, rule, *rows)}) == 1  # the last column is flush right
    cells = {row.split()[0]: re.split(r"  +", row) for row in rows}
    W, _, net = network.terms(1000)
    bound = network.bound(1000)
    assert list(cells) == ["W", "K", "net"]
    assert cells["W"] == [
        *("W", "learned", "1", "4", f"{W.approximation:.4g}", f"{W.estimation:.4g}"),
        *(f"{W.total:.4g}", f"{100 * W.total / bound:.1f} %", f"{net.total:.4g}", "C = 0.5, n = 64, κ = 0.001"),
    ]
    assert cells["K"] == ["K", "known", "0.5", "16", "0", "0", "0", "0 %", "-", "-"]
    assert cells["net"][-1] == "C = 0, κ = 1"
    assert total.split()[3] == f"{bound:.4g}"
    assert f"replacing net with a known operator helps most: it removes {100 * net.total / bound:.1f} %" in sentences
    assert f"and if C and κ are right, the expected squared error is at most {bound:.4g}" in sentences


def test_a_vacuous_bound_says_so():
    layer = BoundLayer("W", 1.0, False, C=1.0, n=4, p=10, kappa=0.5)  # 0.25 + 5 log N / N
    assert BoundNetwork([layer]).is_vacuous(100) is None
    for trivial, N, vacuous, sentence in (
        (10.0, 100, False, "If so, this is 4.8 % of the trivial error 10."),
        (
            0.2,
            10**9,
            True,
            "The bound is vacuous: a trivial prediction has an error of 0.2 without any samples, "
            "and the approximation terms alone are 0.25, whatever N is.",
        ),
        (
            0.3,
            100,
            True,
            "The bound is vacuous: a trivial prediction has an error of 0.3 without any samples; "
            "it falls below that at about N = 647.",
        ),
        (0.25 * (1 + 2.0**-52), 100, True, "without any samples, and at any N up to 1e18."),
    ):
        network = BoundNetwork([layer], trivial)
        assert network.is_vacuous(N) is vacuous
        assert format_table(network, N).splitlines()[-1].endswith(sentence)
        assert network.with_known("W").trivial == trivial
        assert not network.with_known("W").is_vacuous(N)
    assert BoundNetwork([layer], 0.3).bound(646) > 0.3 > BoundNetwork([layer], 0.3).bound(649)
    with pytest.raises(KoctError, match="trivial = -1 must be above 0; give the mean-square error of predicting zero"):
        BoundNetwork([layer], -1)
    with pytest.raises(KoctError, match="too large for a float, so the bound is vacuous"):
        BoundNetwork([layer, BoundLayer("K", 1e200, True)]).bound(10)


def test_the_trivial_error_of_the_command_line(koct):
    command = ("bound", ROOT / "docs/network.yaml", "--samples", 256)
    assert "If so, this is 1.4 % of the trivial error 0.5" in koct(*command, "--trivial", 0.5)[1]
    shown = re.search(r"^The bound is vacuous: .*$", (ROOT / "docs/how-many-samples.md").read_text(), re.M).group()
    assert shown in koct(*command, "--trivial", 0.005)[1]
    status, _, err = koct(*command, "--trivial", "nan")
    assert status == 2
    assert "trivial" in err


# The networks of a sweep


def chains_file(folder):
    chain = [
        {"name": "weights", "lipschitz": 1.0, "p": 80},
        {"name": "filter", "lipschitz": 0.5, "p": 0},
        {"name": "backprojection", "lipschitz": 4.0, "p": 0},
    ]
    path = folder / "H8.json"
    write_json(path, {"sweep": "H8", "chains": {"ko": chain, "untold": []}}, Stamp({}))
    return path


def test_the_bound_applies_to_a_network_of_a_sweep_as_it_stands(koct, tmp_path):
    path = chains_file(tmp_path)
    constants = ("--C", 0.5, "--n", 64, "--kappa", 1e-3)
    status, out, _ = koct("bound", path, "--arch", "ko", *constants, "--samples", 256)
    assert not status
    layers = [BoundLayer("weights", 1.0, False, C=0.5, n=64, p=80, kappa=1e-3), BoundLayer("filter", 0.5, True)]
    assert out == format_table(BoundNetwork([*layers, BoundLayer("backprojection", 4.0, True)]), 256)
    status, out, _ = koct("bound", path, "--arch", "ko", "--samples", 256)
    assert "C = 0, κ = 1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "has the layers of several networks; choose one with --arch"),
        (["--arch", "fc"], "has the networks ko, untold; take one of them"),
        (["--arch", "untold"], "does not say which of its layers are known; take another"),
        (["--C", "0.5"], "--C, --n and --kappa go with --arch"),
    ],
)
def test_a_file_of_chains_wants_one_of_its_networks(koct, tmp_path, arguments, message):
    status, _, err = koct("bound", chains_file(tmp_path), *arguments, "--samples", 256)
    assert status
    assert message in err

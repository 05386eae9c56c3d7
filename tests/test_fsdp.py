"""The dense network trained under FSDP, with real torchrun on the CPU: it is the ridge, however it is run."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import CONFIG, ROOT

from koct import cli
from koct.base import stamps
from koct.base.files import read_json, record_writer
from koct.contracts import Sizes, registry
from koct.contracts.spec import Cell
from koct.errors import KoctError
from koct.problems import pools
from koct.study import cells, evaluation, fitting

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed: fc-fsdp needs it")

from koct.networks.descent import check_memory  # noqa: E402  # imports torch

N = 61
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
LAMBDAS = (1e-6, 1e-4, 1e-2, 1.0, 1e2)
SURROGATE = registry.problem("surrogate")
FC, FSDP = registry.architecture("fc"), registry.architecture("fc-fsdp")


class Trial:
    """The files of one cell, and how its job is started: no number of ranks shares 27 rows or 61 samples equally."""

    def __init__(self, folder):
        self.folder, self.problem = folder, SURROGATE(H=9, V=8, B=9, tikhonov=0.1)
        pools.make(self.problem, 1, Sizes(train=64, val=32, test=128), folder / "pool.npy")
        data = cells.Data(
            Cell("H9", self.problem, FC(validation="labels"), N, 1, LAMBDAS), {"pool": folder / "pool.npy"}
        )
        about, network = fitting.fit(data)
        cells.write_fit(folder / "fc.npy", data.stamp(data.cell.encode(), about), network)

    def start(self, ranks, name, pool="pool.npy", problem=None):
        spec = Cell("H9", problem or self.problem, FSDP(ranks=ranks or 1, iterations=100), N, 1, ()).encode()
        spec["inputs"] = ["pool", "required"]
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
        files = ["--inputs", pool, "fc.npy", "--outputs", f"{name}.npy"]
        command = [sys.executable, *torchrun, "-m", "koct", "fit-torchrun", "--spec", json.dumps(spec), *files]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": ENVIRONMENT}
        return subprocess.Popen(command, cwd=self.folder, **how)

    def run(self, ranks, name, status=0, **changes):
        """The output of a job, which has to end like this; None: with any error."""
        job = self.start(ranks, name, **changes)
        output, _ = job.communicate(timeout=900)
        assert job.returncode == status if status is not None else job.returncode, output
        return output

    def assert_like_undisturbed(self, name):
        for error in ERRORS:
            assert self.row(name)[error] == pytest.approx(self.row("undisturbed")[error], rel=1e-4)

    def row(self, name):
        """What `koct evaluate` says of a fit."""
        fit, pool, row = (str(self.folder / file) for file in (f"{name}.npy", "pool.npy", f"{name}.json"))
        assert cli.main(["evaluate", "--spec", "{}", "--inputs", fit, pool, "--outputs", row]) == 0
        return read_json(self.folder / f"{name}.json")[0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Trial(tmp_path_factory.mktemp("small"))


ERRORS = ("mse", "rrmse_peak", "rrmse_norm")


@pytest.fixture(scope="module")
def undisturbed(small):
    """The output of a run on one rank."""
    return small.run(1, "undisturbed")


def losses(output):
    return np.array([float(loss) for loss in re.findall(r"iteration \d+ of \d+: loss (\S+), ", output)])


@pytest.mark.long
def test_ranks_change_nothing(small, undisturbed):
    output = small.run(2, "two")
    assert re.search(r"iteration 12 of 100: loss \S+, \d+ samples/s, \d+\.\d s left\n", output)
    assert output.count("GiB per rank") == 1
    assert len(losses(output)) == 50
    assert losses(output)[-1] < losses(output)[0]
    np.testing.assert_allclose(losses(output), losses(undisturbed), rtol=1e-5)
    small.assert_like_undisturbed("two")
    assert small.row("two")["device"] == "cpu × 2"


def test_the_fit_on_disk_is_the_matrix(small, undisturbed):
    """Loaded again, it gives the row; it is the ridge's."""
    about, restored, data = evaluation.load(small.folder / "undisturbed.npy", {"pool": small.folder / "pool.npy"})
    network = restored()
    assert isinstance(network.learned["M"], np.memmap)
    assert network.learned["M"].shape == (3, 27, 72)
    row = small.row("undisturbed")
    fitted = {key: about[key] for key in ("lam", "p", "fit_seconds", "device")}
    assert row.items() > {**data.cell.about(), **fitted}.items()
    predicted = data.pool.x("test") @ network.learned["M"].reshape(81, 72).T
    assert row["mse"] == pytest.approx(np.mean((predicted - data.pool.y("test")) ** 2), rel=1e-6)

    X, Y = data.pool.x("train", 61), data.pool.y("train", 61)
    M = Y.T @ np.linalg.solve(X @ X.T + about["lam"] * np.eye(61), X)
    np.testing.assert_allclose(network.learned["M"].reshape(81, 72), M, atol=1e-3 * np.abs(M).max())


def interrupted(trial, ranks, number):
    """Start a job, send it a signal in mid-run; gives (exit status, output, the iteration after which it stopped)."""
    job = trial.start(ranks, "disturbed")
    seen = "".join(itertools.takewhile(lambda line: " samples/s, " not in line, job.stdout))
    job.send_signal(number)
    seen += job.communicate(timeout=900)[0]
    stopped = re.search(rf"stopped by {number.name} after iteration (\d+); run again to continue", seen)
    assert stopped, seen
    return job.returncode, seen, int(stopped[1])


@pytest.mark.long
def test_a_stopped_job_continues_with_other_ranks(small, undisturbed):
    folder = small.folder / "disturbed.checkpoint"
    status, output, first = interrupted(small, None, signal.SIGUSR1)  # without torchrun: one rank
    assert status == 75
    assert [path.name for path in folder.iterdir()] == [f"after-{first}"]
    assert not (small.folder / "disturbed.npy").exists()
    status, output, second = interrupted(small, 2, signal.SIGTERM)
    assert status != 0
    assert f"resumed after iteration {first}\n" in output
    assert [path.name for path in folder.iterdir()] == [f"after-{second}"]
    assert f"resumed after iteration {second}\n" in small.run(None, "disturbed")
    small.assert_like_undisturbed("disturbed")
    assert not folder.exists()


def test_a_job_that_cannot_fit_says_how_many_ranks_would(capsys):
    size = {"rows": 512**2, "columns": 180 * 512, "N": 2048}
    with pytest.raises(KoctError, match=r"1 rank, needs (\S+) GiB per rank, 79.0 GiB there; (\d+) ranks") as caught:
        check_memory(**size, ranks=1, available=79 * 2**30)
    enough = int(re.search(r"(\d+) ranks with as much would do: raise fsdp.ranks to it", str(caught.value))[1])
    assert enough == 3
    check_memory(**size, ranks=enough, available=79 * 2**30)
    assert re.fullmatch(r"needs \d+\.\d GiB per rank, 79\.0 GiB there\n", capsys.readouterr().out)
    with pytest.raises(KoctError, match="no number of ranks would do"):
        check_memory(**size, ranks=1, available=2**20)


@pytest.mark.long
def test_what_goes_wrong_on_any_rank_is_one_error(small):
    problem = SURROGATE(H=4096, V=4096, B=4096, tikhonov=0.1)
    output = small.run(None, "other", status=2, problem=problem)
    assert output.count("koct: error: fc.npy is the fit of another cell (B, H, V differ); give that of fc") == 1
    assert output.count("koct: error: ") == 1
    pool, stamp = np.load(small.folder / "pool.npy"), stamps.read(small.folder / "pool.npy")
    pool["x"][60] = np.nan
    kinds = {name: (kind.base, kind.shape) for name, (kind, _) in pool.dtype.fields.items()}
    with record_writer(small.folder / "broken.npy", stamp, len(pool), **kinds) as (file, _):
        start = file.tell()
        file.write(pool.tobytes())
        pools.write_index(file, start, pools.digests(pool), stamp.about)
    output = small.run(2, "unwritten", status=None, pool="broken.npy")  # of the rank that does not print
    assert output.count("koct: error: broken.npy has training samples that are not finite; `rm broken.npy") == 1
    assert len(re.findall(r"exitcode *: 2 ", output)) == 2  # what torchrun says of its two workers
    assert not (small.folder / "unwritten.npy").exists()
    (sentence,) = FSDP(ranks=3, iterations=9, nodes=2).check(small.problem)
    assert sentence == "ranks = 3 cannot be shared equally by nodes = 2; make ranks a multiple of nodes"


def test_the_workflow_trains_and_other_ranks_refit_nothing(checkout):
    """The study fsdp-small: two processes of gloo on the CPU."""
    done, config = checkout(), {**CONFIG, "study": "fsdp-small", "device": "cpu"}
    cell = "results/cells/H32-fsdp/fc-fsdp/N16_seed1.json"

    def plan(**options):
        sweep = {**CONFIG["sweeps"]["H32-fsdp"], "fsdp": options}
        config["sweeps"] = {**CONFIG["sweeps"], "H32-fsdp": sweep}
        done.configure(config)
        return done.plan(cell)

    assert plan(**CONFIG["sweeps"]["H32-fsdp"]["fsdp"])
    done.snakemake(cell)
    trained, ridge = (json.loads(done.path(path).read_text()) for path in (cell, cell.replace("fc-fsdp", "fc")))
    for error in ERRORS:
        assert trained[error] == pytest.approx(ridge[error], rel=0.05)
    assert trained["device"] == "cpu × 2"
    assert plan(ranks=1, iterations=60, checkpoint_minutes=1) == {}
    assert plan(ranks=1, iterations=61) == {"fit_torchrun": 1, "evaluate": 1}
    assert plan(ranks=4, iterations=61, nodes=2) == {"fit_torchrun": 1, "evaluate": 1}

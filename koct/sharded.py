"""A cell of fc-fsdp: one process per rank, started by torchrun, on one node or several.

Every rank reads its share of the samples; rank 0 alone prints, evaluates and writes. What goes wrong is agreed on, so
that all ranks end together and the reason is said once.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

from koct.arrays import is_torch
from koct.cells import ABOUT, Cell
from koct.device import failures_explained, get
from koct.errors import KoctError
from koct.files import map_array, record_writer, write_text
from koct.metrics import metrics
from koct.networks import shards
from koct.networks.fc_fsdp import Network, pixels

STOPPED = 75  # exit status (EX_TEMPFAIL) of a job that a signal ended after a checkpoint
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
REPORTS = 50  # lines of progress
CHUNK = 64  # samples read at a time
ABOUT_BYTES = 1024  # room for what a fit file says about itself
GPU_RESERVE = 2**30  # bytes that NCCL and the allocator take on top


class Agreed(KoctError):
    """An error that every rank knows of."""


def fit(spec, inputs, row_path, fit_path, checkpoints, checkpoint_minutes=5.0):
    """Train M by gradient with the λ of the ridge, write the fit and its row; gives the exit status.

    `inputs` are the pool, the row of the cell `fc` of the same (sweep, N, seed), and the Gram matrix if there is one.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise KoctError("fc-fsdp needs torch: pip install 'koct[torch]'") from None
    ranks = Ranks()
    if ranks.rank:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    try:
        with failures_explained():
            job = Job(ranks, spec, inputs, checkpoints, checkpoint_minutes)
            stopped = job.train()
            if not stopped:
                job.write(row_path, fit_path)
    except Agreed:
        ranks.end()
        if not ranks.rank:
            raise
        return 2
    ranks.end()
    return STOPPED if stopped else 0


class Ranks:
    """The processes of this job: torchrun's, or this one alone."""

    def __init__(self):
        import torch
        import torch.distributed as dist

        get = os.environ.get
        self.rank, self.size = int(get("RANK", 0)), int(get("WORLD_SIZE", 1))
        self.local, self.local_size = int(get("LOCAL_RANK", 0)), int(get("LOCAL_WORLD_SIZE", 1))
        if torch.cuda.is_available() and self.local < torch.cuda.device_count():
            torch.cuda.set_device(self.local)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        store = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group(backend, **store)

    def end(self):
        import torch.distributed as dist

        dist.destroy_process_group()

    def mesh(self, device):
        from torch.distributed.device_mesh import init_device_mesh

        return init_device_mesh(device, (self.size,))

    def gather(self, thing):
        """A small thing of every rank, in a list."""
        import torch.distributed as dist

        things = [None] * self.size
        dist.all_gather_object(things, thing)
        return things

    @contextlib.contextmanager
    def together(self):
        """What fails on one rank in this block ends all of them at its end, with one reason."""
        reason = None
        try:
            yield
        except KoctError as error:
            reason = str(error)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}"
        reasons = [reason for reason in self.gather(reason) if reason]
        if reasons:
            raise Agreed(reasons[0])


class Job:
    """What training needs, made in the order in which it can fail: cheap checks first, memory before data."""

    def __init__(self, ranks, spec, inputs, checkpoints, checkpoint_minutes):
        from koct.networks.fsdp import Preconditioner, ShardedMatrix

        self.ranks, self.spec, self.iterations = ranks, spec, spec["fsdp"]["iterations"]
        self.size = {key: spec[key] for key in ("H", "V", "B", "N")}
        self.signal = 0
        for number in SIGNALS:
            signal.signal(number, self._note)
        with ranks.together():
            if not 2 <= len(inputs) <= 3:
                raise KoctError(f"fc-fsdp reads a pool, a row of fc and maybe a Gram matrix, got {', '.join(inputs)}")
            self.lam = ridge_strength(inputs[1], spec)
            self.cell = Cell(spec, {"pool": inputs[0]})
            self.device = self.cell.where.name
            if self.device == "cuda":
                check_gpus(ranks.local_size)
        available = min(ranks.gather(self._available()))
        with ranks.together():
            check_memory(**self.size, ranks=ranks.size, available=available)
        with ranks.together():
            self.x, self.y = self._read("x"), self._read("y")
        self.started = time.perf_counter()
        self.mu = 2 * (self._smallest(inputs[2] if len(inputs) > 2 else None) + self.lam)
        self.preconditioner = Preconditioner(self.x, self.lam, spec["N"])
        self.step = 1 / (2 * self.preconditioner.largest)
        self.matrix = ShardedMatrix(spec["H"], spec["V"], spec["B"], ranks.mesh(self.device))
        fitted = {**spec, "lam": self.lam, "data": fingerprint(self.cell.pool, spec["N"])}
        self.checkpoints = Checkpoints(checkpoints, fitted, ranks, 60 * checkpoint_minutes)

    def _note(self, number, frame):
        self.signal = number

    def _available(self):
        if self.device == "cuda":
            import torch

            return torch.cuda.mem_get_info()[0] - GPU_RESERVE
        return machine_memory() // self.ranks.local_size

    def _read(self, name):
        """This rank's samples in float32, a few at a time."""
        import torch

        first, count = shards.share(self.spec["N"], self.ranks.rank, self.ranks.size)
        read = getattr(self.cell.pool, name)
        width = {"x": self.spec["V"] * self.spec["B"], "y": self.spec["H"] ** 2}[name]
        held = torch.empty(count, width, device=self.device)
        for start in range(0, count, CHUNK):
            chunk = read("train", min(CHUNK, count - start), first + start)
            if chunk.shape[1] != width:
                raise KoctError(
                    f"{self.cell.pool.path} has {chunk.shape[1]} numbers per {name}, not {width}: delete it"
                )
            if not np.isfinite(chunk).all():
                raise KoctError(
                    f"{self.cell.pool.path} has training samples that are not finite: delete it and run snakemake again"
                )
            held[start : start + len(chunk)] = torch.as_tensor(chunk)
        return held

    def _smallest(self, gram):
        """The smallest eigenvalue of the Gram matrix, below which no step goes: all stay in the span of the samples.

        Without that matrix, 0 is a safe bound.
        """
        if gram is None:
            return 0.0
        found = None
        with self.ranks.together():
            if self.ranks.rank == 0:
                corner = np.array(map_array(gram)[: self.spec["N"], : self.spec["N"]])
                if len(corner) < self.spec["N"] or not np.isfinite(corner).all():
                    raise KoctError(f"{gram} is not the Gram matrix of the pool: delete it and run snakemake again")
                found = max(0.0, float(np.linalg.eigvalsh(corner)[0]))
        return self.ranks.gather(found)[0]

    def train(self):
        """Go through the iterations that are left; True if a signal ended them."""
        import torch
        import torch.distributed as dist

        from koct.networks.fsdp import momentum

        done, before = self.checkpoints.resume(self.matrix.tensors())
        self.started -= before
        N, H = self.spec["N"], self.spec["H"]
        report = max(1, self.iterations // REPORTS)
        counted, since = done, time.perf_counter()
        while done < self.iterations:
            beta = momentum(done, self.step, self.mu)
            total = self.matrix.iterate(self.x, self.y, self.preconditioner, self.step, beta)
            done += 1
            word = [self.signal == number for number in SIGNALS] + [self.checkpoints.due()]
            total = torch.cat([total, torch.tensor(word, dtype=total.dtype, device=total.device)])
            dist.all_reduce(total)
            squares, norm, *word = total.tolist()
            loss = (squares + self.lam * norm) / (N * H * H)
            if not np.isfinite(loss):
                raise Agreed(
                    f"the fit diverged: the loss of iteration {done} is not finite with lambda = {self.lam:g} and "
                    f"step {self.step:g}; make the pool again, or take small values out of lambdas"
                )
            if done % report == 0 or done == self.iterations:
                now = time.perf_counter()
                pace = (now - since) / (done - counted)
                left = pace * (self.iterations - done)
                how = f"loss {loss:.8g}, {N / pace:.0f} samples/s, {left:.1f} s left"
                print(f"iteration {done} of {self.iterations}: {how}", flush=True)
                counted, since = done, now
            stopped = [number.name for number, set_by in zip(SIGNALS, word, strict=False) if set_by]
            if stopped or word[-1]:
                self.checkpoints.save(self.matrix.tensors(), done, time.perf_counter() - self.started)
            if stopped and done < self.iterations:
                print(f"stopped by {stopped[0]} after iteration {done}; run again to go on", flush=True)
                return True
        self.seconds = time.perf_counter() - self.started
        return False

    def write(self, row_path, fit_path):
        """Gather block by block; rank 0 predicts its pixels and writes it. The checkpoint goes when all is there."""
        spec, size = self.spec, self.spec["V"] * self.spec["B"]
        rows, blocks = self.matrix.rows, len(self.matrix.blocks)
        parts = {part: self.cell.where.put(self.cell.pool.x(part)) for part in ("val", "test")}
        nonnegative = self.cell.spec["nonnegative"]
        if self.ranks.rank:
            for _ in self.matrix.gathered():
                pass
        else:
            images = {part: [] for part in parts}
            kinds = {"M": ("<f4", (rows, size)), "about": (f"S{ABOUT_BYTES}", ())}
            with record_writer(fit_path, blocks, **kinds) as (file, _):
                for number, block in enumerate(self.matrix.gathered(), 1):
                    on_host = block.cpu().numpy()
                    for part, x in parts.items():
                        images[part].append(get(pixels(block if is_torch(x) else on_host, x, nonnegative)))
                    file.write(on_host.data)
                    if number < blocks:
                        file.write(bytes(ABOUT_BYTES))
                errors = {
                    part: metrics(np.concatenate(found, axis=1), self.cell.pool.y(part))
                    for part, found in images.items()
                }
                about = {
                    **{key: spec[key] for key in ABOUT},
                    "lam": self.lam,
                    "p": Network.parameters(spec["H"], spec["V"], spec["B"]),
                    "val_mse": errors["val"]["mse"],
                    "fit_seconds": self.seconds,
                    "device": self.cell.where.label + (f" × {self.ranks.size}" if self.ranks.size > 1 else ""),
                }
                file.write(json.dumps(about).encode().ljust(ABOUT_BYTES))
            write_text(row_path, json.dumps({**about, **errors["test"]}, indent=1))
            self.checkpoints.remove()
        self.ranks.gather(None)  # nobody leaves before rank 0 has written


class Checkpoints:
    """A folder with the last state of a fit: `after-120`, written beside it and renamed when it is whole.

    It holds sharded tensors, which any number of ranks can read, and `fit.json`, which says what they belong to.
    """

    def __init__(self, folder, fitted, ranks, seconds):
        self.folder, self.ranks, self.seconds = Path(folder), ranks, seconds
        self.fitted = json.loads(json.dumps(fitted))
        self.saved = time.monotonic()

    def due(self):
        """Whether it is time for one, by the clock of rank 0."""
        return self.ranks.rank == 0 and time.monotonic() - self.saved >= self.seconds

    def save(self, tensors, iteration, seconds):
        import torch.distributed.checkpoint as dcp

        aside, name = self.folder / ".unfinished", f"after-{iteration}"
        with self.ranks.together():
            if self.ranks.rank == 0:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
        dcp.save(tensors, checkpoint_id=aside)
        with self.ranks.together():
            if self.ranks.rank == 0:
                about = {"fit": self.fitted, "iteration": iteration, "seconds": seconds}
                write_text(aside / "fit.json", json.dumps(about, indent=1))
                old = [path for path in self.folder.iterdir() if path != aside]
                aside.rename(self.folder / name)
                for path in old:
                    shutil.rmtree(path)
        self.saved = time.monotonic()

    def resume(self, tensors):
        """(iteration, seconds of training) of the last checkpoint of this fit, read into `tensors`; (0, 0) without."""
        import torch.distributed.checkpoint as dcp

        with self.ranks.together():
            found = self.last() if self.ranks.rank == 0 else None
        found = self.ranks.gather(found)[0]
        if found is None:
            return 0, 0.0
        path, about = found
        try:
            dcp.load(tensors, checkpoint_id=path)
        except (dcp.CheckpointException, OSError, ValueError, KeyError) as error:
            raise Agreed(
                f"the checkpoint {path} cannot be read ({type(error).__name__}): delete it and run again"
            ) from None
        print(f"resumed after iteration {about['iteration']}", flush=True)
        return about["iteration"], about["seconds"]

    def last(self):
        """(path, what it says) of the newest checkpoint of this fit, or None."""
        paths = sorted(self.folder.glob("after-*"), key=lambda path: int(path.name.partition("-")[2]))
        for path in reversed(paths):
            about = json.loads((path / "fit.json").read_text(encoding="utf-8"))
            if about["fit"] == self.fitted:
                return str(path), about
            print(f"the checkpoint {path} is of another fit and is not used", flush=True)
        return None

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def ridge_strength(path, spec):
    """λ from the row of the ridge's cell."""
    try:
        row = json.loads(Path(path).read_text(encoding="utf-8"))
        wrong = [key for key in ("sweep", "H", "V", "B", "N", "seed") if row[key] != spec[key]]
        lam = float(row["lam"])
    except (ValueError, KeyError, TypeError):
        raise KoctError(f"{path} is not a row of the architecture fc: delete it and run snakemake again") from None
    if wrong or row["arch"] != "fc":
        raise KoctError(f"{path} is the row of another cell ({', '.join(wrong) or 'arch'} differ): give that of fc")
    return lam


def check_gpus(local_size):
    import torch

    there = torch.cuda.device_count()
    if local_size > there:
        raise KoctError(f"{local_size} ranks on a node with {there} GPUs: lower fsdp.ranks, or set device to cpu")


def check_memory(H, V, B, N, ranks, available):
    """Say what every rank needs, and end at once where that is more than there is."""
    needs, there = shards.needed(H, V, B, N, ranks) / 2**30, available / 2**30
    text = f"needs {needs:.1f} GiB per rank, {there:.1f} GiB there"
    if needs > there:
        enough = shards.enough_ranks(H, V, B, N, available)
        mend = (
            f"{enough} ranks with as much would do: raise fsdp.ranks to it" if enough else "no number of ranks would do"
        )
        raise KoctError(f"M does not fit: {ranks} rank{'s' if ranks > 1 else ''}, {text}; {mend}")
    print(text, flush=True)


def machine_memory():
    """Bytes that are free on this machine, or in the control group that a cluster has put the job in."""
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    with contextlib.suppress(OSError, ValueError, StopIteration):  # no such group, or one without a limit
        with open("/proc/self/cgroup", encoding="ascii") as file:
            group = next(line.strip().split(":", 2)[2] for line in file if line.startswith("0::"))
        free = min(free, int(Path(f"/sys/fs/cgroup{group}/memory.max").read_text()))
    return free


def fingerprint(pool, N):
    """A hash of some of the training samples: another pool has none of them."""
    some = hashlib.sha256()
    for n in np.unique(np.linspace(0, N - 1, 16).astype(int)):
        some.update(pool.x("train", 1, int(n)).tobytes() + pool.y("train", 1, int(n)).tobytes())
    return some.hexdigest()[:16]

"""How fast are the fan-beam operators and the training of the operator-aware network? Times koct and peers in one run.

    .venv/bin/python benchmarks/fanbeam.py            # on the GPU if there is one
    KOCT_DEVICE=cpu .venv/bin/python benchmarks/fanbeam.py --only operators --json times.json

Everything runs in float32, on one GPU or one CPU thread. Start-up (imports, compiling, tables and matrices) is not
counted. Beside its time, every operator shows whether it is right: its relative difference from the operator in
float64 on the CPU, in the norm and for the worst of all pixels, the dot test of the operator and its adjoint, and
whether two runs give the same bits. A row that is
not right says so, and the script then fails. `peers.py` has what koct is compared with.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import peers

from koct.base.arrays import to_numpy
from koct.base.device import choose
from koct.networks import gradient
from koct.networks.solvers import Known
from koct.operators.fanbeam import Backprojector, FanBeam, Projector, fbp
from koct.operators.testing import adjoint_error
from koct.problems.fanbeam import FanBeamProblem

VIEWS = {128: 60, 256: 90, 512: 180}
TRAINING_BATCH = {128: 4}  # 1 elsewhere
PAIRS = 64
CHECKED = 2  # images of a batch that are compared with float64
LIMIT = 1e-5  # of the differences in float32
WORST = 1e-4  # of the difference of a single pixel, over the largest one
LONG = 0.02  # seconds in which a call is repeated for one measurement on the GPU, whose launches overlap


def geometry(H):
    return FanBeam(H=H, V=VIEWS.get(H, max(8, H // 2)), B=H)


def operators(g):
    """{name: operator}, an adjoint after its operator."""
    found = {"FBP": fbp(g), "backprojection": Backprojector(g)}
    found["its adjoint"] = found["backprojection"].T
    for rays in ("exact", "printed"):
        found[f"forward, {rays} rays"] = Projector(g, rays)
        found[f"adjoint, {rays} rays"] = found[f"forward, {rays} rays"].T
    return found


def inputs(g, shape, n):
    """Random sinograms; smooth images that vanish outside a circle, beyond which torchtomo sees nothing."""
    rng = np.random.default_rng(0)
    if shape == (g.V, g.B):
        return rng.random((n, *shape), dtype=np.float32)
    x, y = np.meshgrid(g.pixels / g.radius, g.pixels / g.radius)
    a, b, c = rng.random((3, n, 1, 1))
    return (np.clip(1 - x**2 - y**2, 0, None) ** 2 * (1 + a * x + b * y + c * x * y)).astype(np.float32)


def seconds(functions, x, repeats, cuda):
    """The median time of every function of x, measured in turns so that they all meet the same disturbances."""
    calls = [1] * len(functions)
    for index, function in enumerate(functions):
        function(x)  # compiles
        started = clock(cuda)
        function(x)
        if cuda:
            calls[index] = max(1, min(1000, round(LONG / (clock(cuda) - started))))
    times = [[] for _ in functions]
    for _ in range(repeats):
        for found, function, count in zip(times, functions, calls, strict=True):
            started = clock(cuda)
            for _ in range(count):
                function(x)
            found.append((clock(cuda) - started) / count)
    return [statistics.median(found) for found in times]


def clock(cuda):
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def difference(found, expected):
    """‖found − expected‖ / ‖expected‖."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def up_to_a_factor(found, expected):
    """The same after the best scale: the units of peers differ."""
    found, expected = (np.ravel(array).astype(np.float64) for array in (found, expected))
    return difference(found * (found @ expected / (found @ found)), expected)


def measure_operators(sizes, batches, repeats, where):
    """One dictionary for every operator, size and batch; `ok` says whether koct is right there."""
    cuda, rows = where.name == "cuda", []
    for H in sizes:
        g = geometry(H)
        others = {}
        for label, make in (peers.CUDA if cuda else peers.CPU).items():
            started = time.perf_counter()
            if (peer := make(g)) is not None:
                others[label] = peer
                print(f"{label} is ready for H = {H} after {time.perf_counter() - started:.1f} s")
        print(heading(others), flush=True)
        for name, A in operators(g).items():
            kind = {"dtype": torch.float32, "device": "cuda"} if cuda else {"dtype": np.float32}
            dot = adjoint_error(A, **kind)
            few = inputs(g, A.domain, max(batches))
            exact = reference(A, few[:CHECKED].astype(np.float64), where)
            for batch in batches:
                x = where.put(few[:batch])
                once, again = (to_numpy(A(x)) for _ in range(2))
                row = {"operator": name, "H": H, "V": g.V, "batch": batch}
                row |= {"error": difference(once[:CHECKED], exact[:batch]), "dot": dot}
                row["worst"] = float(abs(once[:CHECKED] - exact[:batch]).max() / abs(exact[:batch]).max())
                row["same_bits"] = bool((once == again).all())
                row["ok"] = max(row["error"], row["dot"]) <= LIMIT and row["worst"] <= WORST and row["same_bits"]
                have = {label: peer[name] for label, peer in others.items() if name in peer}
                with torch.no_grad():
                    ours, *theirs = seconds([A, *have.values()], x, repeats, cuda)
                    row["us"], row["peers"] = 1e6 * ours, {}
                    for (label, function), taken in zip(have.items(), theirs, strict=True):
                        off = up_to_a_factor(to_numpy(function(x))[:CHECKED], exact[:batch])
                        row["peers"][label] = {"us": 1e6 * taken, "ratio": taken / ours, "difference": off}
                rows.append(row)
                print(line(row, others), flush=True)
    return rows


def reference(A, x, where):
    """By NumPy and Numba; only where Numba is not installed in float64 on the GPU."""
    return A(x) if peers.installed("numba") else to_numpy(A(where.put(x)))


def heading(others):
    columns = "".join(f"{label + ' µs':>14}{'ratio':>8}{'differs':>9}" for label in others)
    return f"{'operator':22}{'H':>5}{'batch':>6}{'koct µs':>12}{columns}{'error':>10}{'worst':>9}{'dot':>9}  same bits"


def line(row, others):
    columns = ""
    for label in others:
        peer = row["peers"].get(label)
        have = peer and f"{peer['us']:14,.0f}{peer['ratio']:8.2f}{peer['difference']:9.0e}"
        columns += have or f"{'–':>14}{'–':>8}{'–':>9}"
    end = f"{row['error']:10.0e}{row['worst']:9.0e}{row['dot']:9.0e}  {'yes' if row['same_bits'] else 'no'}"
    end += "" if row["ok"] else "   NOT CORRECT"
    return f"{row['operator']:22}{row['H']:5}{row['batch']:6}{row['us']:12,.0f}{columns}{end}"


def measure_training(sizes, iterations, repeats, where):
    """Seconds per iteration of the study's training, and of the same training written in torch."""
    cuda, rows = where.name == "cuda", []
    bandwidth = copy_bandwidth() if cuda else None
    if cuda:
        print(f"copy on the GPU: {bandwidth / 1e12:.2f} TB/s read and written")
    rng = np.random.default_rng(0)
    for H in sizes:
        g, batch = geometry(H), TRAINING_BATCH.get(H, 1)
        x = rng.random((PAIRS, g.V * g.B), dtype=np.float32)
        y = rng.random((PAIRS, H * H), dtype=np.float32)
        ours = ours_per_iteration(g, where.put(x), where.put(y), batch, iterations)
        row = {"H": H, "V": g.V, "batch": batch, "iterations": iterations, "us": 1e6 * ours, "peers": {}}
        device = torch.device(where.name)
        tensors = [torch.as_tensor(part, device=device) for part in (x.reshape(-1, g.V, g.B), y.reshape(-1, H, H))]
        print(f"H = {H}, batch {batch}: {1 / ours:,.0f} iterations per second", end="")
        for label, make in peers.NETWORKS.items():
            network = make(g, device)
            if network is not None:
                theirs = theirs_per_iteration(network, *tensors, batch, 20 if cuda else repeats)
                row["peers"][label] = {"us": 1e6 * theirs, "ratio": theirs / ours}
                print(f"; {label} {1 / theirs:,.1f}, koct is {theirs / ours:.0f} times faster", end="")
        print(f"; 5,000 iterations take {5000 * ours:.2f} s", flush=True)
        if cuda:
            print(traffic(g, batch, ours, bandwidth), flush=True)
        rows.append(row)
    return rows


def ours_per_iteration(g, x, y, batch, iterations):
    known = Known(FanBeamProblem(H=g.H, V=g.V, B=g.B, rays="printed", known="printed").layers({}), nonnegative=True)
    chosen = gradient.batches(1, PAIRS, batch, iterations)
    times = []
    for rows in (chosen[:60], chosen, chosen, chosen):  # the first compiles
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            started = time.perf_counter()
            gradient.train(known, x, y, rows, "adagrad", 2e-2)
            times.append((time.perf_counter() - started) / len(rows))
    return statistics.median(times[1:])


def theirs_per_iteration(network, x, y, batch, repeats):
    w = torch.ones_like(x[0], requires_grad=True)
    optimiser = torch.optim.Adagrad([w], lr=2e-2)
    times, cuda = [], x.device.type == "cuda"
    for k in range(repeats + 2):
        started = clock(cuda)
        rows = torch.arange(k, k + batch, device=x.device) % len(x)
        optimiser.zero_grad()
        ((network(w, x[rows]) - y[rows]) ** 2).mean().backward()
        optimiser.step()
        times.append(clock(cuda) - started)
    return statistics.median(times[2:])


def copy_bandwidth():
    """Bytes per second, read and written, of a large copy on the GPU."""
    source = torch.rand(2**30, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        started = clock(True)
        target.copy_(source)
        times.append(clock(True) - started)
    return 2 * 4 * len(source) / statistics.median(times)


def traffic(g, batch, ours, bandwidth):
    """What an iteration has to move in memory, and what it would move with a stored matrix."""
    views = g.V * g.H**2
    once = 4 * (batch * (g.V * g.B + g.H**2) + 4 * g.V * g.B)  # a batch, and weights and squares read and written
    matrix = 2 * 8 * 2 * views  # the two taps of every pixel and view, there and back, value and index
    return (
        f"  must move {once / 1e6:.2f} MB: {1e6 * once / bandwidth:.1f} µs of {1e6 * ours:.0f} µs; "
        f"a stored matrix {matrix / 1e6:.0f} MB: {1e6 * matrix / bandwidth:.0f} µs, "
        f"{matrix / bandwidth / ours:.2f} times what koct takes\n"
        f"  {2 * batch * views / ours / 1e9:.0f} billion interpolations per second"
    )


def processor():
    with contextlib.suppress(OSError):
        for entry in Path("/proc/cpuinfo").read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    return "unknown"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--only", choices=("operators", "training"), help="measure only these")
    add("--sizes", type=int, nargs="+", metavar="H", help="default: 128 256, on the GPU also 512")
    add("--batches", type=int, nargs="+", metavar="N", default=[1, 32], help="of the operators")
    add("--repeats", type=int, default=7, help="a time is the median of so many")
    add("--iterations", type=int, help="of the training; default: 5000 on the GPU, 200 on the CPU")
    add("--json", type=Path, metavar="FILE", help="also write all numbers to this file")
    return parser.parse_args()


def main():
    chosen = arguments()
    torch.set_num_threads(1)
    where = choose()
    cuda = where.name == "cuda"
    sizes = chosen.sizes or [H for H in VIEWS if cuda or H <= 256]
    result = {"device": where.label, "processor": processor(), "torch": torch.__version__, "numpy": np.__version__}
    print(f"{result['processor']}, torch {result['torch']}", flush=True)
    if chosen.only != "training":
        result["operators"] = measure_operators(sizes, chosen.batches, chosen.repeats, where)
    if chosen.only != "operators":
        iterations = chosen.iterations or (5000 if cuda else 200)
        result["training"] = measure_training(sizes, iterations, chosen.repeats, where)
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")
    wrong = [row for row in result.get("operators", []) if not row["ok"]]
    if wrong:
        limits = f"{LIMIT:g} (of a pixel {WORST:g})"
        sys.exit(f"{len(wrong)} rows are not correct: differences above {limits}, or two runs with different bits")


if __name__ == "__main__":
    main()

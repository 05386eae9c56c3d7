"""The picture of the README: a test image of the benchmark, what is made of it, and the forecast of the curves.

    python benchmarks/picture.py results     # keep the images of a finished study `benchmark-long`, and draw
    python benchmarks/picture.py             # draw, of the images that are kept

The images are those of the fan beam with 10,000 photons and seed 1. The forecast sees the runs with up to 128 samples.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from koct import Forecast, metrics
from koct.report import drawing
from koct.report.labels import Names
from koct.study import evaluation

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results/reference/benchmark-long"
IMAGES = REFERENCE / "picture.npz"
SWEEP, N, IMAGE = "fanbeam-long", 128, 5
PILOT, FURTHEST = 128, 1024  # samples
FREE = ("fbp", "tv")
LEARNED = {"fc": "center", "unet": "top", "lpd": "bottom"}  # how a label is aligned with the end of its line


def keep(results):
    """Write the test image and what every network makes of it."""
    pool, images = results / f"pools/{SWEEP}/seed1.npy", {}
    for arch in (*FREE, *LEARNED):
        path = results / f"fits/{SWEEP}/{arch}/N{0 if arch in FREE else N}_seed1.npy"
        _, network, data = evaluation.load(str(path), {"pool": str(pool)})
        images["truth"] = data.pool.y("test", IMAGE + 1)[IMAGE].reshape(data.y_shape)
        images[arch] = data.predict(network(), "test", IMAGE + 1)[IMAGE].reshape(data.y_shape)
    np.savez_compressed(IMAGES, **{name: np.asarray(image, np.float32) for name, image in images.items()})


def draw(path):
    table = pq.read_table(REFERENCE / "cells.parquet")
    cells = table.to_pandas().query("sweep == @SWEEP and 0 <= N <= @FURTHEST")  # without fresh samples
    names = Names({key.decode(): value.decode() for key, value in table.schema.metadata.items()})
    images = dict(np.load(IMAGES))
    with drawing.styled():
        figure = drawing.plt.figure(figsize=(7.6, 2.75))
        for place, name in enumerate(images):
            show(figure, place, name, images, names)
        figure.text(0.27, 0.015, f"second row: trained on {N} images", ha="center", fontsize=7.5)
        axis = figure.add_axes((0.635, 0.17, 0.28, 0.72))
        for arch in LEARNED:
            curve(axis, arch, cells.query("arch == @arch"), names)
        axis.set(xscale="log", yscale="log", xlabel="training samples $N$", ylabel=r"test rRMSE$^2_{\mathrm{peak}}$")
        axis.set_xticks(sizes := sorted(set(cells["N"]) - {0}), [f"{N:,}" for N in sizes])
        axis.minorticks_off()
        for arch in FREE:
            error = cells.query("arch == @arch")["rrmse_peak"].mean() ** 2
            axis.axhline(error, **names.line(arch))
            look = {"color": names.line(arch)["color"], "va": "bottom", "fontsize": 7}
            axis.text(4, error, f"{names.arch(arch)}, without samples", **look)
        axis.axvline(PILOT, color="0.6", linewidth=0.7)
        axis.text(PILOT, 1.02, "pilot | forecast", ha="center", transform=axis.get_xaxis_transform())
        drawing.save(figure, [path])


def show(figure, place, name, images, names):
    row, column = divmod(place, 3)
    axis = figure.add_axes((0.005 + 0.18 * column, 0.53 - 0.47 * row, 0.17, 0.4))
    axis.imshow(images[name], cmap="gray", vmin=0, vmax=images["truth"].max())
    axis.axis("off")
    flat = [images[key].reshape(1, -1) for key in (name, "truth")]
    quality = metrics.load("psnr").each(*flat, images[name].shape)[0] if name != "truth" else None
    title = "truth" if quality is None else f"{names.arch(name)}: {quality:.0f} dB"
    axis.set_title(title, fontsize=7.5, pad=3, color=names.colour(name) if name in LEARNED else "black")


def curve(axis, arch, cells, names):
    """Draw the pilot runs, the forecast with its interval, and as rings what was measured later."""
    cells = cells.assign(error=cells["rrmse_peak"] ** 2)
    colour = names.colour(arch)
    forecast = Forecast(cells[cells["N"] <= PILOT][["N", "seed", "error"]])
    N = np.geomspace(4, FURTHEST, 200)
    middle, low, high = forecast.predict(N)
    axis.plot(N, middle, color=colour)
    axis.fill_between(N[N >= PILOT], low[N >= PILOT], high[N >= PILOT], color=colour, alpha=0.15, linewidth=0)
    means = cells.groupby("N")["error"].mean()
    for part, fill in ((means[means.index <= PILOT], colour), (means[means.index > PILOT], "none")):
        axis.plot(part.index, part, names.marker(arch), color=colour, markerfacecolor=fill, markersize=4)
    axis.text(1.15 * N[-1], middle[-1], names.arch(arch), color=colour, va=LEARNED[arch])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", nargs="?", type=Path, help="of the study benchmark-long, with its fits")
    if results := parser.parse_args().results:
        keep(results)
    draw(ROOT / "docs/fig_koct.png")


if __name__ == "__main__":
    main()

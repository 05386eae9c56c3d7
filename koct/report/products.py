"""The products: every module of `tables`, `figures` and `pages` that declares one. A new file is all that one needs."""

from __future__ import annotations

import ast
import contextlib
import glob
import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from koct.errors import KoctError
from koct.report.product import KINDS, Product

DECLARATION = "PRODUCT"


@cache
def products() -> dict[str, Product]:
    """Return all products by name, read without an import: Matplotlib would take longer than a dry run."""
    return {
        declared.name: declared
        for folder in KINDS
        for path in sorted(Path(__file__).with_name(folder).glob("[!_]*.py"))
        if (declared := _declared(path)) is not None
    }


def _declared(path: Path) -> Product | None:
    """Return what a module declares, if it makes a product."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [DECLARATION]:
            try:
                fields = {word.arg: ast.literal_eval(word.value) for word in node.value.keywords}  # type: ignore[attr-defined]
                name, module = path.stem.removesuffix("_page"), f"koct.report.{path.parent.name}.{path.stem}"
                return Product(**fields, name=name, kind=KINDS[path.parent.name], module=module)
            except (ValueError, TypeError, AttributeError):
                raise KoctError(
                    f"{path}: {DECLARATION} must be Product(...) with literals for fields: see koct/report/product.py"
                ) from None
    return None


def set_aside(own: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Move products, and files of `others`, that are in results/ and not a study's `own` ones below results/previous.

    There they are in a folder of the study that results/README.md is of. Return where they are now.
    """
    from koct.base import stamps

    patterns = [path.replace("{sweep}", "*") for each in products().values() for path in each.outputs] + list(others)
    left = sorted({path for pattern in patterns for path in glob.glob(pattern)} - set(own))
    study = "unknown"
    with contextlib.suppress(KoctError, OSError):
        study = stamps.read("results/README.md").spec.get("study", study)
    places = [f"results/previous/{study}/{path.removeprefix('results/')}" for path in left]
    for path, place in zip(left, places, strict=True):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.replace(path, place)
    return places


def product(name: str) -> Product:
    """Return a product by its name."""
    if name not in products():
        raise KoctError(f"{name} is no product; there are {', '.join(products())}")
    return products()[name]


def make(name: str, paths: Sequence[str], out: Sequence[str], spec: Mapping[str, Any] | None = None) -> None:
    """Make a product from the files that it reads, in their order; endings of `out` say in which formats."""
    about, spec = product(name), dict(spec or {})
    if about.per_sweep:
        raise KoctError(f"{name} is made sweep by sweep: `snakemake` draws it")
    if len(paths) < len(about.reads) or (len(paths) > len(about.reads) and not about.pictures):
        raise KoctError(f"{name} is made from {' '.join(about.reads) or 'no file'}; give these files in this order")
    module = importlib.import_module(about.module)
    if about.kind == "page":
        module.write(paths, out, spec)
        return
    from koct.base.stamps import Stamp, made_from, of_timed

    def stamp() -> Stamp:  # once the files have been read, which tells better what is wrong with one
        return of_timed(spec, *paths) if about.timings else Stamp(spec, made_from(*paths))

    settings = {key: spec.get(key) for key in about.takes}
    if about.kind == "figure":
        from koct.report import drawing

        with drawing.styled():
            drawing.save(module.figure(*paths, **settings), out, stamp())
    else:
        from koct.report import table

        label = name.removeprefix("table_").replace("_", "-")
        table.save(module.table(*paths, **settings), out, stamp(), label)

"""config.yaml: what its keys mean, what is wrong with it, and the study that it describes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from koct import metrics
from koct.base import FRESH
from koct.config.sweep import Grid, Sweep
from koct.config.validation import check, dotted, shown, table, unique, unknown
from koct.contracts import LEARNS_FROM, Architecture, Problem, registry
from koct.contracts.blame import blamed
from koct.contracts.options import Configured, option, options
from koct.contracts.registry import import_file
from koct.contracts.spec import encode_curve, result_options
from koct.errors import KoctError

LONGEST_NAME = 64  # characters: names become folders
LONGEST_LABEL = 1000
STEM = re.compile(r"\w[\w.-]*")  # of a user's own file
TAKEN = {"sweep", "problem", "H", "V", "B", "arch", "N", "seed", "lam", "p", "val_mse", "fit_seconds", "device"}
TAKEN |= {"tuned_on", "edge", "steps", "gain", "losses", "drawn"}
TAKEN |= {"image_seconds", "images", "image", "group", "groups", "same"}  # columns, no metrics
PREDICTED = ("spectral", "subsets", "fixed point")

StudyName = Annotated[str, Field(strict=True, max_length=LONGEST_NAME)]
SweepName = Annotated[str, Field(strict=True, max_length=LONGEST_NAME, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
SweepNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(unique)]


class Settings(Configured):
    """The keys of config.yaml."""

    study: str = option("study to run; also `snakemake --config study=NAME`")
    device: Literal["auto", "cpu", "cuda"] = option(
        "device of problems that can use a GPU: `auto` takes one if there is one; numbers agree to rounding, "
        "so a change reruns nothing",
        default="auto",
    )
    longest_days: float = option(
        "refuse runs with a job that would take longer, in days on one core or GPU",
        default=30,
        above=0,
    )
    memory_gb: float | None = option(
        "refuse runs with a job whose arrays would take more GB; by default the machine's memory, and no "
        "limit on a cluster",
        default=None,
        above=0,
    )
    metrics: tuple[str, ...] = option(
        "Python files with a metric each: more columns of the results, and choices for `metric`",
        default=(),
    )
    studies: dict[StudyName, SweepNames] = option("lists of sweeps by name")
    sweeps: dict[SweepName, dict[str, Any]] = option(
        f"sweeps by name (at most {LONGEST_NAME} letters, digits, `.`, `_`, `-`: a folder name)"
    )


class Entry(Grid):
    """The keys of every sweep, whatever its problem."""

    problem: str = option("source of pairs: a problem below, or a Python file of your own")
    archs: tuple[str, ...] = option(
        "architectures to fit, baselines (N = 0) included: those below, or Python files of your own; each has"
        " a key for its options",
        items=1,
    )


def settings(config: Mapping[str, Any]) -> Settings:
    """Return the keys of a config; a KoctError lists everything that is wrong with them, sweeps aside."""
    wrong: list[str] = []
    keys = check(Settings, dict(config), [], wrong)
    if keys:
        studies, sweeps = ", ".join(keys.studies), ", ".join(keys.sweeps)
        others = [(name, each) for name, chosen in keys.studies.items() for each in chosen if each not in keys.sweeps]
        for name, each in others:
            wrong.append(f"studies.{name} has {each!r}, which is not under sweeps; known sweeps are {sweeps}")
        if keys.study not in keys.studies:
            wrong.append(f"study = {keys.study!r} is not under studies; known studies are {studies}")
    refuse(wrong)
    assert keys is not None
    return keys


def read(config: Mapping[str, Any]) -> list[Sweep]:
    """Return the sweeps of the chosen study, in order; a KoctError lists everything that is wrong with them.

    Sweeps of other studies are not looked at: they take time, and files that they name may be elsewhere.
    """
    keys = settings(config)
    wrong = [f"metrics has {path}, {why}" for path in keys.metrics if (why := _wrong_metric_file(path))]
    refuse(wrong)
    metrics.use(keys.metrics)
    study = []
    for name in keys.studies[keys.study]:
        try:
            study.append(build(name, keys.sweeps[name]))
            wrong += [f"sweeps.{name}.{text}" for text in _check_together(study[-1])]
        except Mistakes as error:
            wrong += error.wrong
    refuse(wrong)
    refuse([f"sweeps.{sweep.name}.tested_on has {text}" for sweep in study for text in _check_tested(sweep, study)])
    refuse([f"sweeps.{sweep.name}.{text}" for sweep in study for text in _check_starts(sweep, study)])
    return study


def _check_starts(sweep: Sweep, study: Sequence[Sweep]) -> Iterator[str]:
    """Yield what is wrong with the sweeps whose fits a sweep's networks start from."""
    for arch in (arch for arch in sweep.archs if arch.starts_from):
        key = f"{section(type(arch))}.starts_from = {arch.starts_from!r}"
        others = (other for other in study if other is not sweep)
        sweeps = {other.name: other for other in others if any(each.name == arch.name for each in other.archs)}
        other = sweeps.get(arch.starts_from or "")
        if other is None:
            known = ", ".join(sweeps) or "nothing, since there is none"
            yield f"{key} is no other sweep of this study with {arch.name}; take {known}"
        elif other.arch(arch.name).starts_from:
            yield f"{key}, which starts from another sweep itself; take one that does not"
        elif missing := sorted(set(sweep.seeds) - set(other.seeds)):
            yield f"{key}, which has no seed {', '.join(map(str, missing))}; add it there, or remove it here"
        elif wrong := _other_shapes(sweep, other):
            yield f"{key}, {wrong}"


def _check_tested(sweep: Sweep, study: Sequence[Sweep]) -> Iterator[str]:
    """Yield what is wrong with the sweeps that a sweep's networks are tested on."""
    sweeps = {other.name: other for other in study if other is not sweep}
    for name in sweep.tested_on:
        if name not in sweeps:
            fix = f"take some of {', '.join(sweeps)}" if sweeps else "it has only this one"
            yield f"{name!r}, which is no other sweep of this study; {fix}"
            continue
        own, other = sweep.problem, sweeps[name].problem
        moved = [arch.name for arch in sweep.networks if arch.moved(own, other)]
        wrong = _other_shapes(sweep, sweeps[name])
        if wrong and (not moved or own.y_shape != other.y_shape):
            yield f"{name!r}, {wrong}"
        elif moved and other.has_shared:
            yield f"{name!r}, whose operators are computed once for its own networks; remove {', '.join(moved)}, or it"


def _other_shapes(sweep: Sweep, other: Sweep) -> str:
    """Return what is wrong if two sweeps have measurements or images of different shapes."""
    own, others = ((each.problem.x_shape, each.problem.y_shape) for each in (sweep, other))
    if own == others:
        return ""
    return (
        f"whose measurements and images have the shapes {others[0]} and {others[1]}, and its own "
        f"{own[0]} and {own[1]}; take one with the same shapes"
    )


def _wrong_metric_file(path: str) -> str:
    """What is wrong with a metric of a user's own; empty if nothing is."""
    name = os.path.basename(path).removesuffix(".py")
    if not registry.is_file(path) or not name.isidentifier() or name.endswith("2"):
        return "which is no name of a metric; give a .py file, named by letters, digits and _, and no 2 at the end"
    if name in TAKEN or os.path.exists(os.path.join(os.path.dirname(metrics.__file__), f"{name}.py")):
        return "whose name is taken; rename it"
    missing = [part for part in metrics.GIVEN if not hasattr(import_file(path), part)]
    return f"which lacks {' and '.join(missing)}; docs/your-own.md says what each is" if missing else ""


class Mistakes(KoctError):
    """What is wrong with a config, a sentence for each."""

    def __init__(self, wrong: Sequence[str]):
        super().__init__("config: " + "\nconfig: ".join(dict.fromkeys(wrong)))
        self.wrong = wrong


def refuse(wrong: Sequence[str]) -> None:
    if wrong:
        raise Mistakes(wrong)


def build(name: str, entry: Mapping[str, Any]) -> Sweep:
    """Return the sweep of an entry of `sweeps`; a KoctError lists its keys of a wrong type or beyond their limits."""
    wrong: list[str] = []
    path = ["sweeps", name]
    sources = entry["archs"] if isinstance(entry.get("archs"), list | tuple) else []
    problem = _loaded(registry.problem, entry.get("problem"), [*path, "problem"], wrong)
    archs = [_loaded(registry.architecture, source, [*path, "archs", i], wrong) for i, source in enumerate(sources)]
    loaded = list(dict.fromkeys(filter(None, archs)))
    required = [registry.architecture(arch.requires_cell) for arch in loaded if arch.requires_cell]
    required = [arch for arch in dict.fromkeys(required) if arch not in loaded]

    names = [arch.name for arch in archs if arch]
    wrong += [f"{dotted(path)}.archs has the name {twice!r} twice" for twice in names if names.count(twice) > 1]
    of_problem = options(problem) if problem else {}
    sections = {section(arch): arch for arch in (*loaded, *required)}
    wrong += _taken_keys(problem, of_problem, sections)
    others = [key for key in entry if key not in {**options(Entry), **of_problem, **sections}]
    unused = {}
    if others and problem and all(archs):  # a sweep may keep the options of an architecture that it leaves out
        shipped = {section(arch): arch for arch in map(registry.architecture, registry.shipped(Architecture))}
        unused = {key: shipped[key] for key in others if key in shipped}
        known = [*options(Entry), *of_problem, *sections]
        wrong += [unknown([*path, str(key)], known) for key in others if key not in unused]

    grid = check(Entry, {key: value for key, value in entry.items() if key in options(Entry)}, path, wrong)
    networks: dict[Any, Any] = {}
    for arch in (*loaded, *required, *unused.values()):
        networks[arch] = check(arch, entry.get(section(arch)), [*path, section(arch)], wrong)
    values = {key: value for key, value in entry.items() if key in of_problem}
    made_problem = check(problem, values, path, wrong) if problem else None
    refuse(wrong)
    assert grid is not None
    assert made_problem is not None
    return Sweep(
        name=name,
        problem=made_problem,
        archs=tuple(networks[arch] for arch in loaded),
        required=tuple(networks[arch] for arch in required),
        **{key: getattr(grid, key) for key in options(Grid)},
    )


def _taken_keys(problem: Any, of_problem: Mapping[str, Any], sections: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every option or section whose name is a key of every sweep, or of the other kind."""
    keys = [(key, problem.source) for key in of_problem] + [(key, arch.source) for key, arch in sections.items()]
    return [
        f"{source}: the option {key!r} is a key of every sweep already; rename it"
        for key, source in keys
        if key in options(Entry) or (key in of_problem and key in sections)
    ]


def _loaded(load: Any, source: Any, path: Sequence[str | int], wrong: list[str]) -> Any:
    """Return the class that a source names; None, and a sentence in `wrong`, if there is none."""
    if not isinstance(source, str):
        return None
    stem = os.path.basename(source).removesuffix(".py")
    try:
        if registry.is_file(source) and not (STEM.fullmatch(stem) and len(stem) <= LONGEST_NAME):
            raise KoctError(
                f"must be the path of a file whose name has letters, digits, '.', '_' and '-' only, and {LONGEST_NAME} "
                "at most; rename it"
            )
        return load(source)
    except KoctError as error:
        separator = f" = {shown(source)} " if str(error).startswith("must") else ": "
        wrong.append(f"{dotted(path)}{separator}{error}")
        return None


def section(arch: type[Architecture]) -> str:
    """The key of an architecture's options in a sweep."""
    return arch.section or arch.name


def canonical(sweeps: Sequence[Sweep]) -> str:
    """The study as one JSON text: the same for the same study whatever the config's layout."""
    study = []
    for sweep in sweeps:
        shared = sweep.lambdas, sweep.fit_keys
        archs = [encode_curve(sweep.name, sweep.problem, arch, *shared) | style(arch) for arch in sweep.archs]
        about = {"name": sweep.name, "label": sweep.problem.label, "pool": asdict(sweep.pool), "archs": archs}
        study.append({**about, "N": sweep.N, "seeds": sweep.seeds, "metric": sweep.metric})
    return json.dumps(study, sort_keys=True, separators=(",", ":"))


def style(arch: Architecture) -> dict[str, str]:
    """What reports call an architecture, and how they draw it."""
    return {"name": arch.name, "label": arch.label or arch.name, "colour": arch.colour, "marker": arch.marker}


# What is wrong beyond types and limits


def _check_together(sweep: Sweep) -> Iterator[str]:
    """Yield what no key shows by itself."""
    for N in (N for N in sweep.N if sweep.pool.train < N):
        yield f"N = {N} is above pool.train = {sweep.pool.train}; make the pool larger or remove this N"
    if FRESH in sweep.N and not sweep.problem.endless:
        yield f"N has fresh, and the problem {sweep.problem.name} draws no pairs without end; remove it"
    if not sweep.networks:
        yield "archs has nothing that is trained on samples; add a network that is"
    for arch in sweep.archs + sweep.required:
        key = f"{section(type(arch))}.N"
        if arch.trained and len(set(sweep.sizes_of(arch)) - {FRESH}) < 2:
            yield f"{'N' if arch.N is None else key} has fewer than two sizes beside fresh; add some, such as 16, 128"
        if arch.N is not None and not arch.trained:
            yield f"{key} = {_in_words(arch.N)}: {arch.name} needs no sample, and has no N; remove it"
        elif others := [N for N in arch.N or () if N not in sweep.N]:
            lacking, there = _in_words(others), _in_words(sweep.N)
            yield f"{key} has {lacking}, which the sweep's N lacks; add them there, or take some of {there}"
        if arch.more_scans:
            yield from _check_scans(arch, sweep)
    if why := metrics.wrong_metric(sweep.metric):
        yield f"metric = {sweep.metric!r} {why}"
    with blamed(sweep.problem.source, *(arch.source for arch in sweep.archs)):
        if wrong := list(_check_problem(sweep.problem)):
            yield from wrong
            return  # nothing else can be checked
        named: list[tuple[str, Any]] = [("problem", sweep.problem), *(("archs", arch) for arch in sweep.archs)]
        for key, each in named:
            if not isinstance(each.label, str) or len(each.label) > LONGEST_LABEL:
                yield f"{key}: the label of {each.source} must be a text of at most {LONGEST_LABEL} letters; shorten it"
        yield from list(sweep.problem.check(sweep.seeds, sweep.pool)) or _check_files(sweep.problem)
        for arch in sweep.archs + sweep.required:
            for text in arch.check(sweep.problem):
                separator = "." if text.split(maxsplit=1)[0] in options(type(arch)) else ": "
                yield f"{section(type(arch))}{separator}{text}"
            yield from _check_arch(arch, sweep)


def _in_words(sizes: Sequence[int]) -> str:
    return ", ".join("fresh" if N == FRESH else str(N) for N in sizes)


def _check_scans(arch: Architecture, sweep: Sweep) -> Iterator[str]:
    """Yield what is wrong with the number of scans that an architecture reads besides N pairs."""
    own, sizes = section(type(arch)), sweep.sizes_of(arch)
    key = f"{own}.more_scans = {arch.more_scans}"
    if FRESH in sizes:
        yield f"{key} counts scans behind N pairs, and fresh pairs have no end; let {own}.N leave out fresh"
    if large := [N for N in sizes if N != FRESH and N + arch.more_scans > sweep.pool.train]:
        yield (
            f"{key} and N = {max(large)} together are above pool.train = {sweep.pool.train}; make the pool larger, "
            f"lower more_scans, or let {own}.N leave out {', '.join(map(str, large))}"
        )


def _check_problem(problem: Problem) -> Iterator[str]:
    """Yield what is wrong with the class attributes and shapes of a user's problem."""
    try:
        shapes = problem.x_shape, problem.y_shape
    except KoctError as error:  # of a problem that has them from files
        yield str(error)
        return
    for shape in shapes:
        if not isinstance(shape, tuple) or not shape or any(type(size) is not int or size < 1 for size in shape):
            yield f"problem: {problem.source} has the shape {shape!r}; give a tuple of whole numbers"
    for key, known in (("device", ("cpu", "auto")), ("validation_metric", metrics.error_names())):
        if (value := getattr(problem, key)) not in known:
            yield f"problem: {problem.source} has {key} = {value!r}; it must be one of {', '.join(known)}"


def _check_arch(arch: Architecture, sweep: Sweep) -> Iterator[str]:
    """Yield what is wrong with the methods of a user's architecture."""
    if arch.learns_from not in LEARNS_FROM:
        yield f"archs: {arch.source} has learns_from = {arch.learns_from!r}; give one of {', '.join(LEARNS_FROM)}"
    elif arch.learns_from != "pairs" and arch.validation == "labels":
        yield f"archs: {arch.source} learns from {arch.learns_from} alone; set validation to none, as labels are pairs"
    elif arch.learns_from != "pairs" and arch.more_scans:
        yield f"archs: {arch.source} learns from {arch.learns_from} alone; remove more_scans, which come with pairs"
    if arch.predicted not in (None, *PREDICTED):
        yield f"archs: {arch.source} has predicted = {arch.predicted!r}; give None or one of {', '.join(PREDICTED)}"
    if arch.predicted == "fixed point" and not arch.needs() >= {"layers", "normal"}:
        yield f"archs: {arch.source} is predicted by the fixed point; needs() must name 'layers' and 'normal' for it"
    if arch.requires_cell and sweep.arch(arch.requires_cell).trained != arch.trained:
        yield f"archs: {arch.source} requires the cell of {arch.requires_cell}, and one of them alone has the sweep's N"


def _check_files(problem: Problem) -> Iterator[str]:
    for path in problem.files():
        if not isinstance(path, str):
            yield f"problem: {problem.source} reads {path!r}; files() must give texts"
        elif not os.path.exists(path):
            yield f"problem: {problem.source} reads {path!r}, which does not exist; correct the path"
        elif not os.path.isfile(path) and not os.path.isdir(path):
            yield f"problem: {problem.source} reads {path!r}, which is a pipe or a device; give a file"
        elif "{" in path and "}" in path:
            yield f"problem: {problem.source} reads {path!r}, and Snakemake takes {{ }} for wildcards; rename it"


def parameters(sweeps: Sequence[Sweep]) -> dict[str, str]:
    """Return what the results depend on, one by one as the config has it: {sweep.key: value in JSON}."""
    result: dict[str, Any] = {}
    for sweep in sweeps:
        values = {"problem": sweep.problem.source, **asdict(sweep.problem), "pool": asdict(sweep.pool)}
        values |= {key: getattr(sweep, key) for key in options(Grid) if key != "pool"}
        values["archs"] = [arch.source for arch in sweep.archs]
        for arch in (*sweep.archs, *sweep.required):
            values |= {f"{arch.name}.{name}": value for name, value in result_options(arch).items()}
        result |= {f"{sweep.name}.{key}": value for key, value in values.items() if value is not None}
    return {key: json.dumps(value, sort_keys=True) for key, value in result.items()}


# docs/config.md


HEAD = ["| key | value | meaning |", "|---|---|---|"]
ANY = "sweeps.NAME.ARCH."  # the keys of any architecture
SEVERAL = 3  # problems or architectures with the same option: it is explained once


def document() -> str:
    """Return docs/config.md."""
    lines = ["# config.yaml", "", "Printed by `koct config`.", "", *HEAD]
    listed, scores = (", ".join(f"`{name}`" for name in names) for names in (metrics.error_names(), metrics.scores()))
    about = f"Metrics: {listed}; a 2 behind the name, as in `rrmse_peak2`, is the square of its mean over seeds."
    about += f" The scores {scores} are columns of the results alone."
    lines += [*table(Settings), *table(Entry, "sweeps.NAME."), "", about]
    for title, kind, load in (
        ("problem", Problem, registry.problem),
        ("architecture", Architecture, registry.architecture),
    ):
        classes: dict[str, Any] = {name: load(name) for name in registry.shipped(kind)}
        rows = Counter(row for cls in classes.values() for row in _rows(cls))
        shared = [row for row, count in rows.items() if count >= SEVERAL]
        lines += ["", f"## Several {title}s", "", *HEAD, *_told_apart(shared, classes)]
        for name, cls in classes.items():
            lines += ["", f"## The {title} `{name}`", "", *_of_file(cls, shared)]
            names = [f"`{row.split('`')[1].rpartition('.')[2]}`" for row in _rows(cls) if row in shared]
            lines += ["", f"[Shared](#several-{title}s): {', '.join(names)}."] if names else []
    return "\n".join(lines) + "\n"


def _told_apart(shared: Sequence[str], classes: Mapping[str, Any]) -> Iterator[str]:
    """Yield rows of options; where some share a name, such as those with another default, with the classes of each."""
    keys = Counter(row.split("`")[1] for row in shared)
    for row in shared:
        own = ", ".join(f"`{name}`" for name, cls in classes.items() if row in _rows(cls))
        yield row if keys[row.split("`")[1]] == 1 else row.replace(" |", f" of {own} |", 1)


def document_file(source: str) -> str:
    """Return the options of a user's own problem or architecture."""
    return "\n".join(_of_file(registry.either(source))) + "\n"


def _rows(cls: Any) -> list[str]:
    """Return the options of a problem, or those of an architecture under a key that stands for any."""
    return table(cls, ANY if issubclass(cls, Architecture) else "sweeps.NAME.")


def _of_file(cls: Any, shared: Sequence[str] = ()) -> list[str]:
    """Return what a class is, and its options that are not `shared`."""
    about = (sys.modules[cls.__module__].__doc__ or "").strip().partition("\n")[0]
    own = f"sweeps.NAME.{section(cls)}." if issubclass(cls, Architecture) else ""
    rows = [row.replace(ANY, own, 1) for row in _rows(cls) if row not in shared]
    return [about, "", *HEAD, *rows] if rows else [about] if shared else [about, "", "It has no options."]

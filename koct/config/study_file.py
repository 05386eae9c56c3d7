"""config.yaml: what its keys mean, what is wrong with it, and the study that it describes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from koct import metrics
from koct.config.sweep import Sweep
from koct.contracts import Architecture, Problem, Sizes, TorchrunArchitecture, registry
from koct.contracts.blame import blamed
from koct.contracts.options import Configured, Option, check, check_value, dotted, option, unknown
from koct.contracts.spec import encode_curve
from koct.errors import KoctError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a sweep
STEM = re.compile(r"\w[\w.-]*")  # of a user's own file
LONGEST_NAME = 64  # characters: names become folders
PREDICTED = ("spectral", "subsets", "fixed point")
LARGEST = 2**63 - 1  # of whole numbers: costs, which are their products, remain numbers


class Top(Configured):
    """The keys of config.yaml beside `studies` and `sweeps`."""

    study: str = option("the study to run; also `snakemake --config study=NAME`")
    device: Literal["auto", "cpu", "cuda"] = option(
        "what problems that can use a GPU compute on: `auto` takes the GPU if there is one, and every log names it; "
        "changing it runs nothing again, since the numbers agree to rounding",
        default="auto",
    )
    workers: bool = option(
        "whether helper processes that have loaded NumPy, or torch and the GPU, run the jobs; if not, every job loads "
        "them by itself; the results are the same, and changing it runs nothing again",
        default=True,
    )
    longest_days: float = option(
        "the run does not start if one of its jobs would take more days than this by its cost, on one core or a GPU",
        default=30,
        above=0,
    )
    memory_gb: float | None = option(
        "the run does not start if the arrays of one of its jobs would take more GB than this; by default what the "
        "machine has, and on a cluster no limit",
        default=None,
        above=0,
    )


class Grid(Configured):
    """The keys that every sweep has, whatever its problem."""

    problem: str = option("where pairs come from: a problem of koct (below), or a Python file of your own")
    pool: Sizes = option("pairs drawn per seed")
    N: tuple[int, ...] = option(
        "training-set sizes, at least two of them and none above `pool.train`", items=2, minimum=2
    )
    seeds: tuple[int, ...] = option(
        "seeds of the pools; errors are averaged over them", items=1, minimum=0, maximum=2**31 - 1
    )
    archs: tuple[str, ...] = option(
        "architectures to fit, those that need no sample (N = 0) included: those of koct (below), or Python files of "
        "your own; the options of each stand under a key of its own in the sweep",
        items=1,
    )
    lambdas: tuple[float, ...] = option(
        "regularisation strengths; the validation pairs choose one for each cell", items=1, above=0
    )
    metric: str = option("the error of curves, calibration and figures: a metric, or the square of its mean over seeds")
    targets: tuple[float, ...] = option(
        "errors for which `budget.parquet` says how many samples reach them", default=(), above=0
    )
    theory: bool = option(
        "predict the curves of the networks that allow it, before any fit, from a pool of a seed of its own",
        default=True,
    )


def read_words(config: dict[str, Any]) -> None:
    """Of `--config KEY=false`, which Snakemake takes for text, make a truth value."""
    for name, wanted in Top.options().items():
        if wanted.kind is bool and config.get(name) in ("true", "false"):
            config[name] = config[name] == "true"


def read(config: Mapping[str, Any]) -> list[Sweep]:
    """The sweeps of the chosen study, in order; a KoctError lists everything that is wrong with the config."""
    wrong = list(_check_numbers(config, [], set())) or list(dict.fromkeys(_check_top(config)))
    if not wrong:
        chosen = config["studies"][config["study"]]
        for name, entry in config["sweeps"].items():
            wrong += _check_sweep(name, entry, name in chosen)
    if wrong:
        raise KoctError("config: " + "\nconfig: ".join(dict.fromkeys(wrong)))
    return [build(name, config["sweeps"][name]) for name in config["studies"][config["study"]]]


def build(name: str, entry: Mapping[str, Any]) -> Sweep:
    """A checked entry of `sweeps`."""
    grid = Grid.build({key: value for key, value in entry.items() if key in Grid.options()})
    problem = registry.problem(grid.problem)
    archs = [registry.architecture(source) for source in grid.archs]
    required = [
        registry.architecture(arch.requires_cell)
        for arch in archs
        if arch.requires_cell and arch.requires_cell not in grid.archs
    ]
    return Sweep(
        name,
        problem.build({key: value for key, value in entry.items() if key in problem.options()}),
        grid.pool,
        grid.N,
        grid.seeds,
        tuple(arch.build(entry.get(section(arch)) or {}) for arch in archs),
        tuple(arch.build(entry.get(section(arch)) or {}) for arch in dict.fromkeys(required)),
        grid.lambdas,
        grid.metric,
        grid.targets,
        grid.theory,
    )


def section(arch: type[Architecture]) -> str:
    """The key of an architecture's options in a sweep."""
    return arch.section or arch.name


def canonical(sweeps: Sequence[Sweep]) -> str:
    """The study as one JSON text: the same for the same study whatever the config's layout."""
    return json.dumps([_canonical(sweep) for sweep in sweeps], sort_keys=True, separators=(",", ":"))


def _canonical(sweep: Sweep) -> dict[str, Any]:
    return {
        "name": sweep.name,
        "label": sweep.problem.label,
        "pool": sweep.sizes.values(),
        "N": sweep.N,
        "seeds": sweep.seeds,
        "metric": sweep.metric,
        "archs": [
            {
                **encode_curve(sweep.name, sweep.problem, arch, sweep.lambdas),
                **style(arch),
            }
            for arch in sweep.archs
        ],
    }


def style(arch: Architecture) -> dict[str, str]:
    """What reports call an architecture, and how they draw it."""
    return {
        "name": arch.name,
        "label": arch.label or arch.name.upper(),
        "colour": arch.colour,
        "marker": arch.marker,
    }


# What is wrong


def _check_numbers(value: Any, path: Sequence[str | int], seen: set[int]) -> Iterator[str]:
    """Whole numbers with which nothing can be reckoned, wherever they are."""
    if type(value) is int and abs(value) > LARGEST:
        digits = math.ceil(value.bit_length() * math.log10(2))
        yield f"{dotted(path)} is a number of {digits} digits; give at most {LARGEST}"
    elif isinstance(value, Mapping | list | tuple) and id(value) not in seen:  # an alias may stand for it elsewhere
        seen.add(id(value))
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _check_numbers(item, [*path, key if isinstance(key, int) else str(key)], seen)


def _check_top(config: Mapping[str, Any]) -> Iterator[str]:
    mappings = ("studies", "sweeps")
    options = dict(Top.options())
    for name in config:
        if name not in options and name not in mappings:
            yield unknown([name], [*options, *mappings])
    for name, wanted in options.items():
        if name in config:
            yield from check_value(wanted, wanted.kind, config[name], [name])
        elif wanted.required:
            yield f"{name} is missing; add it: {wanted.description}"
    complete = True
    for name in mappings:
        if not isinstance(config.get(name), Mapping):
            yield f"{name} = {config.get(name)!r} must be a mapping of keys to values"
            complete = False
        elif not config[name]:
            yield f"{name} is empty; give it at least one entry"
    if complete:
        yield from _check_names(config)


def _check_names(config: Mapping[str, Any]) -> Iterator[str]:
    for key in ("studies", "sweeps"):
        for name in config[key]:
            if not isinstance(name, str):
                yield f"{key}: the name {name!r} must be text; put quotes around it"
            elif len(name) > LONGEST_NAME:
                yield f"{key}: the name {_too_long(name)}"
    for name in config["sweeps"]:
        if isinstance(name, str) and not NAME.fullmatch(name):
            yield f"sweeps: the name {name!r} may have letters, digits, '.', '_' and '-' only; rename it"
    listed = Option("", tuple[str, ...], "", items=1)
    for name, chosen in config["studies"].items():
        yield from check_value(listed, listed.kind, chosen, ["studies", name])
        for sweep in chosen if isinstance(chosen, list | tuple) else []:
            if isinstance(sweep, str) and sweep not in config["sweeps"]:
                known = ", ".join(map(str, config["sweeps"]))
                yield f"studies.{name} has {sweep!r}, which is not under sweeps; known sweeps are {known}"
    if isinstance(config.get("study"), str) and config["study"] not in config["studies"]:
        known = ", ".join(map(str, config["studies"]))
        yield f"study = {config['study']!r} is not under studies; known studies are {known}"


def _check_sweep(name: str, entry: Any, chosen: bool) -> list[str]:
    """What is wrong with a sweep; outside the study, a user's file is not loaded, and its sweep not checked."""
    path = ["sweeps", name]
    if not isinstance(entry, Mapping):
        return [f"{dotted(path)} = {entry!r} must be a mapping of keys to values"]
    sources = [entry.get("problem"), *(entry["archs"] if isinstance(entry.get("archs"), list | tuple) else [])]
    if not chosen and any(isinstance(source, str) and registry.is_file(source) for source in sources):
        return []
    wrong = [text for i, source in enumerate(sources[1:]) for text in _check_stem(source, [*path, "archs", i])]
    problem = _loaded(registry.problem, entry.get("problem"), [*path, "problem"], wrong)
    archs = [_loaded(registry.architecture, source, [*path, "archs", i], wrong) for i, source in enumerate(sources[1:])]
    options = dict(Grid.options())
    if problem:
        wrong += _collisions(problem.options(), options, problem.source)
        options |= problem.options()
    sections = {section(arch): arch for arch in archs if arch}
    names = [arch.name for arch in archs if arch]
    wrong += [f"{dotted(path)}.archs has the name {twice!r} twice" for twice in names if names.count(twice) > 1]
    for source in {arch.requires_cell for arch in archs if arch and arch.requires_cell}:
        sections.setdefault(section(registry.architecture(source)), registry.architecture(source))
    for key, arch in sections.items():
        wrong += _collisions({key: None}, options, arch.source)
    left_out = {}  # the options of architectures that the grid leaves out
    if problem and all(archs):  # else nobody knows which other keys there may be
        known = [*options, *sections]
        others = [key for key in entry if key not in known]
        spare = (
            {section(arch): arch for arch in map(registry.architecture, registry.shipped(Architecture))}
            if others
            else {}
        )
        left_out = {key: spare[key] for key in others if key in spare}
        sections |= left_out
        wrong += [unknown([*path, str(key)], known) for key in others if key not in spare]
    given = {key: value for key, value in entry.items() if key in options}
    wrong += check(options, given, path)
    for key, arch in sections.items():
        if key in entry or any(option.required for option in arch.options().values()):
            values = entry.get(key)
            if key not in entry:
                wrong.append(_missing_section([*path, key], arch))
            else:
                wrong += check(arch.options(), values if values is not None else {}, [*path, key])
    return wrong or [*_check_together(name, entry), *_check_left_out(name, entry, left_out)]


def _check_stem(source: Any, path: Sequence[str | int]) -> Iterator[str]:
    """The name of an architecture's own file, which becomes a folder."""
    if isinstance(source, str) and registry.is_file(source):
        stem = os.path.basename(source).removesuffix(".py")
        if len(stem) > LONGEST_NAME:
            yield f"{dotted(path)}: the file name {_too_long(stem)}"
        elif not STEM.fullmatch(stem):
            yield f"{dotted(path)} = {source!r} may have letters, digits, '.', '_' and '-' only in its name; rename it"


def _too_long(name: str) -> str:
    return f"{name[:20] + '...'!r} has {len(name)} characters, and {LONGEST_NAME} are the most; shorten it"


def _missing_section(path: Sequence[str | int], arch: type[Architecture]) -> str:
    needed = [option.name for option in arch.options().values() if option.required]
    example = ", ".join(f"{key}: ..." for key in needed)
    return f"{dotted(path)} is missing; the architecture {arch.name} needs it: add {path[-1]}: {{{example}}}"


def _loaded(load: Any, source: Any, path: Sequence[str | int], wrong: list[str]) -> Any:
    """The class that a source names; None, and a sentence in `wrong`, if there is none."""
    if not isinstance(source, str):
        return None
    try:
        return load(source)
    except KoctError as error:
        wrong.append(
            f"{dotted(path)} = {source!r} {error}" if str(error).startswith("must") else f"{dotted(path)}: {error}"
        )
        return None


def _collisions(names: Mapping[str, Any], others: Mapping[str, Any], source: str) -> list[str]:
    return [
        f"{source}: the option {name!r} is a key of every sweep already; rename it" for name in names if name in others
    ]


def _check_together(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """What no key shows by itself."""
    sweep = build(name, entry)
    for N in sweep.N:
        if sweep.sizes.train < N:
            yield (
                f"sweeps.{name}.N = {N} is above sweeps.{name}.pool.train = {sweep.sizes.train}; "
                "make the pool larger or remove this N"
            )
    if not sweep.networks:
        yield f"sweeps.{name}.archs has nothing that is trained on samples; add a network that is"
    if why := metrics.wrong_metric(sweep.metric):
        yield f"sweeps.{name}.metric = {sweep.metric!r} {why}"
    with blamed(sweep.problem.source, *(arch.source for arch in sweep.archs)):
        try:
            shapes = sweep.problem.x_shape, sweep.problem.y_shape
        except KoctError as error:  # of a problem that has them from files
            yield f"sweeps.{name}.{error}"
            return
        for shape in shapes:
            if not isinstance(shape, tuple) or not shape or any(type(size) is not int or size < 1 for size in shape):
                yield f"sweeps.{name}: {sweep.problem.source} has the shape {shape!r}; give a tuple of whole numbers"
                return  # nothing else can be checked
        for key, known in (("device", ("cpu", "auto")), ("validation_metric", metrics.error_names())):
            value = getattr(sweep.problem, key)
            if value not in known:
                source = sweep.problem.source
                yield f"sweeps.{name}: {source} has {key} = {value!r}; it must be one of {', '.join(known)}"
        wrong = list(sweep.problem.check(sweep.seeds, sweep.sizes))
        yield from (f"sweeps.{name}.{text}" for text in wrong)
        for arch in sweep.archs + sweep.required:
            for text in arch.check(sweep.problem):
                separator = "." if text.split(maxsplit=1)[0] in arch.options() else ": "
                yield f"sweeps.{name}.{section(type(arch))}{separator}{text}"
            for text in (*_check_predicted(arch), *_check_required(sweep, arch)):
                yield f"sweeps.{name}: {text}"
        for path in sweep.problem.files() if not wrong else ():  # which may be about a file
            yield from _check_file(name, sweep.problem, path)


def _check_predicted(arch: Architecture) -> Iterator[str]:
    if arch.predicted not in (None, *PREDICTED):
        yield f"{arch.source} has predicted = {arch.predicted!r}; it must be None or one of {', '.join(PREDICTED)}"
    if arch.predicted == "fixed point" and not arch.needs() >= {"layers", "normal"}:
        yield f"{arch.source} is predicted by the fixed point, which needs() must name 'layers' and 'normal' for"


def _check_required(sweep: Sweep, arch: Architecture) -> Iterator[str]:
    if arch.requires_cell and sweep.arch(arch.requires_cell).trained != arch.trained:
        yield f"{arch.source} requires the cell of {arch.requires_cell}, and only one of them has the N of the sweep"


def _check_left_out(name: str, entry: Mapping[str, Any], left_out: Mapping[str, type[Architecture]]) -> Iterator[str]:
    """How processes would be started; whether the architecture could be fitted here matters to those who fit it."""
    for key, kind in left_out.items():
        if issubclass(kind, TorchrunArchitecture):
            for text in kind.build(entry[key] or {}).check(build(name, entry).problem):
                if text.split(maxsplit=1)[0] in kind.options():
                    yield f"sweeps.{name}.{key}.{text}"


def _check_file(name: str, problem: Problem, path: Any) -> Iterator[str]:
    if not isinstance(path, str) or not os.path.exists(path):
        yield f"sweeps.{name}: {problem.source} reads {path!r}, which does not exist; correct the path"
    elif not os.path.isfile(path) and not os.path.isdir(path):
        yield f"sweeps.{name}: {problem.source} reads {path!r}, which is a pipe or a device; give a file"
    elif "{" in path and "}" in path:
        yield f"sweeps.{name}: {problem.source} reads {path!r}, and Snakemake takes {{ }} for wildcards; rename it"


def parameters(sweeps: Sequence[Sweep]) -> dict[str, str]:
    """What the results depend on, one by one as the config has it: {sweep.key: value in JSON}."""
    found: dict[str, Any] = {}
    for sweep in sweeps:
        options = {"problem": sweep.problem.source, **sweep.problem.values(), "pool": sweep.sizes.values()}
        options |= {key: getattr(sweep, key) for key in ("N", "seeds", "lambdas", "metric", "targets", "theory")}
        options["archs"] = [arch.source for arch in sweep.archs]
        for arch in (*sweep.archs, *sweep.required):
            chosen = {name: value for name, value in arch.values().items() if arch.options()[name].result}
            options |= {f"{arch.name}.{name}": value for name, value in chosen.items() if value is not None}
        found |= {f"{sweep.name}.{key}": value for key, value in options.items() if value is not None}
    return {key: json.dumps(value, sort_keys=True) for key, value in found.items()}

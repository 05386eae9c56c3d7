"""config.yaml as typed, checked dataclasses."""

import difflib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from koct.errors import KoctError
from koct.networks.shards import needed

SCHEMA = Path(__file__).with_name("config.schema.json")
LARGEST_RIDGE = 32768  # weights that are fitted in closed form: 8 GiB for their normal matrix


@dataclass(frozen=True)
class Sweep:
    """One sweep of the study; what the keys mean stands in config.schema.json."""

    name: str
    problem: str
    H: int
    V: int
    B: int
    pool: dict
    N: tuple
    seeds: tuple
    archs: tuple
    lambdas: tuple
    metric: str
    ko: dict
    targets: tuple = ()
    tikhonov: float | None = None
    rays: str | None = None
    fsdp: dict | None = None

    def pool_spec(self):
        """What a pool depends on, besides its seed."""
        return self._pick("problem", "H", "V", "B", "pool", *(["rays"] if self.rays else []))

    def known_spec(self):
        """What the known operator depends on."""
        return self._pick("problem", "H", "V", "B", *(["tikhonov"] if self.tikhonov else []))

    def gram_spec(self):
        """What the Gram matrix of a pool depends on, besides the pool."""
        return self._pick("problem")

    def row_spec(self):
        """What every row of a result says about its sweep."""
        return {"sweep": self.name, **self._pick("problem", "H", "V", "B")}

    def fit_spec(self, arch):
        """What a fit depends on, besides its input files, N and the seed."""
        if arch == "fc-fsdp":  # neither ranks nor checkpoints change its numbers
            return {**self.row_spec(), "fsdp": {"iterations": self.fsdp["iterations"]}, "arch": arch}
        by_ridge = arch != "ko" or self.ko["solver"] == "ridge"
        options = (["lambdas"] if by_ridge else []) + (["ko"] if arch == "ko" else [])
        return {**self.row_spec(), **self._pick(*options), "arch": arch}

    def extra_input(self, arch):
        """What a fit reads besides its pool: `known`, `gram` or nothing.

        The surrogate's known operator is a matrix on disk; the fan-beam one is computed as it is applied, and only
        the ridge on its weights needs its Gram matrix. That of the sinograms is worth a job of its own for large pools.
        """
        small = self.problem == "surrogate"
        if arch == "ko":
            return "known" if small or self.ko["solver"] == "ridge" else None
        return None if small else "gram"

    def gpu_mb(self, arch, N):
        """GPU memory of a job in MB, a generous estimate: torch itself, the training pairs, and what the fit adds."""
        if self.problem == "surrogate":
            return 0
        N = N or self.pool["train"]
        if arch == "fc-fsdp":
            return self.rank_bytes(N) // 10**6
        pairs = 4 * N * (self.V * self.B + self.H**2)
        work = 4 * 8 * N**2 if arch == "fc" else 3 * 8 * (self.V * self.B) ** 2 if self.ko["solver"] == "ridge" else 0
        return 1500 + (pairs + work) // 10**6

    def rank_bytes(self, N):
        """Memory of a rank of fc-fsdp in bytes: 2.5 GB for Python, torch, CUDA and NCCL, and its arrays."""
        return int(2.5e9) + needed(self.H, self.V, self.B, N or max(self.N), self.fsdp["ranks"])

    def mem_mb(self, stage, N=0):
        """Host memory of a fan-beam job in MB, on a GPU or without: 3 GB for Python, torch and CUDA, and its arrays.

        Stages are pool, gram, known, untrained, recons and the architectures. Measured without a GPU at H = 512:
        pool 0.3 GB, gram 1.6 GB, fc with N = 2048 4.3 GB.
        """
        size, train = self.V * self.B, self.pool["train"]
        match stage:
            case "pool" | "untrained":  # a few records at a time
                held = 0
            case "gram":
                held = 2 * 4 * train * size + 3 * 8 * train**2
            case "known":
                held = 3 * 8 * size * (size + self.H**2 if self.problem == "surrogate" else size)
            case "ko":
                held = 6 * N * (size + self.H**2)
                if self.ko["solver"] == "ridge":
                    held += 8 * N * size + 3 * 8 * size**2
            case "fc-fsdp":  # on GPUs much less; --mem is per node
                held = self.fsdp["ranks"] // self.fsdp["nodes"] * self.rank_bytes(N)
            case _:
                held = 6 * (N or max(self.N)) * (size + self.H**2) + 4 * 8 * (N or max(self.N)) ** 2
        return 3000 + held // 10**6

    def minutes(self, stage, N=0):
        """Time limit of a fan-beam job in minutes: two to start and three times what one CPU core takes.

        Each case is operations by operations per second, as measured on a Neoverse N1: at H = 512 240 s for a pool,
        24 s for its Gram matrix, 600 s for ko, 48 s for fc with N = 2048. A GPU takes 15 to 35 s for each.
        """
        size, pixels, train = self.V * self.B, self.H**2, self.pool["train"]
        held_out = self.pool["val"] + self.pool["test"]
        match stage:
            case "pool":
                seconds = (train + held_out) * size * 2 * self.H / 8.5e8
            case "gram":
                seconds = train**2 * size / 1.6e10
            case "known":
                seconds = self.V**2 * pixels / 3e7
            case "untrained":
                seconds = len(self.seeds) * held_out * self.V * pixels / 3.9e8
            case "ko" if self.ko["solver"] == "ridge":
                seconds = (len(self.lambdas) * size**3 / 3 + 2 * N * size**2) / 1e10
            case "ko":
                seconds = self.ko["iterations"] * self.ko["batch"] * self.V * pixels / 3.9e8
            case "fc-fsdp":  # at the speed of a GPU; what is slower goes on from its checkpoint
                work = 4 * (N or max(self.N)) * pixels * size * self.fsdp["iterations"]
                seconds = 200 + work / (1e13 * self.fsdp["ranks"])
            case _:
                n = N or max(self.N)
                seconds = (10 * n**3 + 2 * n * pixels * held_out * len(self.lambdas)) / 1.3e10
        return 2 + math.ceil(3 * seconds / 60)

    def _pick(self, *keys):
        return {key: getattr(self, key) for key in keys}


def study(config):
    """The sweeps of the chosen study, in order; a KoctError lists everything that is wrong with the config."""
    problems = _schema_problems(config) or _cross_problems(config)
    if problems:
        raise KoctError("config: " + "\nconfig: ".join(problems))
    return [sweep(name, config["sweeps"][name]) for name in config["studies"][config["study"]]]


def sweep(name, entry):
    """A checked entry of `sweeps` as a dataclass."""
    entry = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    for key in ("lambdas", "targets"):  # 1 and 1.0 are the same
        entry[key] = tuple(map(float, entry.get(key, ())))
    if entry.get("tikhonov") is not None:
        entry["tikhonov"] = float(entry["tikhonov"])
    ko = {"solver": "ridge", **(entry.get("ko") or {})}
    if ko["solver"] == "ridge":
        ko.setdefault("toward", "zero")
    else:
        ko["lr"] = float(ko["lr"])
    if entry.get("fsdp"):
        entry["fsdp"] = {"checkpoint_minutes": 5, "nodes": 1, **entry["fsdp"]}
    return Sweep(name, **{**entry, "ko": ko})


def grid(sweeps):
    """(sweep, arch, N, seed) of every cell, as wildcard values."""
    return [
        {"sweep": s.name, "arch": arch, "N": N, "seed": seed}
        for s in sweeps
        for arch in s.archs
        for N in s.N
        for seed in s.seeds
    ]


def canonical(sweeps):
    """The chosen sweeps as one JSON text, the same for the same study whatever the config's layout."""
    return json.dumps([asdict(s) for s in sweeps], sort_keys=True, separators=(",", ":"))


def _schema_problems(config):
    import jsonschema

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    # stricter than JSON: 8.0 is not a whole number, and neither .nan nor .inf is a number
    strict = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
        }
    )
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=strict)(schema)
    errors = sorted(validator.iter_errors(config), key=lambda e: [str(part) for part in e.absolute_path])
    return list(dict.fromkeys(problem for error in errors for problem in _say(error)))


def _say(error):
    """One JSON-schema error as sentences: key, value, what is wrong, the mend."""
    key = _dotted(error.absolute_path)
    value, rule = error.instance, error.validator_value
    match error.validator:
        case "additionalProperties":
            for name in value:
                if name not in error.schema["properties"]:
                    yield _unknown([*error.absolute_path, name], list(error.schema["properties"]))
        case "required":
            for name in rule:
                if name not in value:
                    full = _dotted([*error.absolute_path, name])
                    yield f"{full} is missing; add it (docs/config.md says what it means)"
        case "type":
            hint = " (YAML reads 1e-6 as text: write 1.0e-6)" if rule == "number" and isinstance(value, str) else ""
            yield f"{key} = {value!r} must be {_KINDS[rule]}{hint}"
        case "minimum":
            yield f"{key} = {value!r} must be at least {rule}"
        case "maximum":
            yield f"{key} = {value!r} must be at most {rule}"
        case "exclusiveMinimum":
            yield f"{key} = {value!r} must be greater than {rule}"
        case "minItems":
            yield f"{key} = {value!r} must have at least {rule} value{'s' if rule > 1 else ''}"
        case "minProperties":
            yield f"{key} is empty; give it at least {rule} entry"
        case "uniqueItems":
            yield f"{key} = {value!r} has a value twice; remove one"
        case "enum":
            yield f"{key} = {value!r} must be one of {', '.join(map(str, rule))}"
        case "pattern":
            yield f"{key}: the name {value!r} may have letters, digits, '.', '_' and '-' only; rename it"
        case _:
            yield f"{key} = {value!r}: {error.message}"


def _unknown(path, known):
    near = difflib.get_close_matches(str(path[-1]), known, 1)
    mend = f"did you mean '{near[0]}'?" if near else f"known keys are {', '.join(known)}"
    return f"{_dotted(path)} is not a key of the config; {mend}"


_KINDS = {
    "object": "a mapping of keys to values",
    "array": "a list, like [1, 2]",
    "string": "text",
    "integer": "a whole number",
    "number": "a finite number",
}


def _dotted(path):
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the config"


def _cross_problems(config):
    """What a schema cannot say."""
    problems = []
    for name, entry in config["sweeps"].items():
        for N in entry["N"]:
            if entry["pool"]["train"] < N:
                problems.append(
                    f"sweeps.{name}.N = {N} is above sweeps.{name}.pool.train = {entry['pool']['train']}; "
                    "make the pool larger or take this N out"
                )
        problems += _problem_problems(f"sweeps.{name}", entry)
    for name, chosen in config["studies"].items():
        for sweep_name in chosen:
            if sweep_name not in config["sweeps"]:
                known = ", ".join(config["sweeps"])
                problems.append(
                    f"studies.{name} has {sweep_name!r}, which is not under sweeps; known sweeps are {known}"
                )
    if config["study"] not in config["studies"]:
        known = ", ".join(config["studies"])
        problems.append(f"study = {config['study']!r} is not under studies; known studies are {known}")
    return problems


def _problem_problems(name, entry):
    """What goes with which problem and which solver."""
    problem = entry["problem"]
    for key, owner, mend in (("tikhonov", "surrogate", "0.1"), ("rays", "fanbeam", "printed or exact")):
        if problem == owner and key not in entry:
            yield f"{name}.{key} is missing; the problem {owner} needs it: add {key}: {mend}"
        if problem != owner and key in entry:
            yield f"{name}.{key} = {entry[key]!r} means nothing to the problem {problem}; take it out"
    if problem == "surrogate" and entry["B"] != entry["H"]:
        yield f"{name}.B = {entry['B']} must equal H = {entry['H']} for the surrogate; set B to it"
    ko = entry.get("ko", {})
    solver = ko.get("solver", "ridge")
    for key in ("lr", "iterations", "batch"):
        if solver != "ridge" and key not in ko:
            yield f"{name}.ko.{key} is missing; the solver {solver} needs it: add it"
        if solver == "ridge" and key in ko:
            yield f"{name}.ko.{key} = {ko[key]!r} means nothing to the solver ridge; take it out"
    if solver != "ridge" and "toward" in ko:
        yield f"{name}.ko.toward = {ko['toward']!r} means nothing to the solver {solver}; take it out"
    yield from _fsdp_problems(name, entry)
    size = entry["V"] * entry["B"]
    if "ko" in entry["archs"] and solver == "ridge" and size > LARGEST_RIDGE:
        yield (
            f"{name}.ko.solver = 'ridge' needs a matrix of {size}² numbers ({size**2 * 8 / 2**30:.0f} GiB); "
            "take adagrad, or fewer views or bins"
        )


def _fsdp_problems(name, entry):
    """What goes with the architecture fc-fsdp."""
    fsdp = entry.get("fsdp")
    if "fc-fsdp" in entry["archs"] and fsdp is None:
        yield f"{name}.fsdp is missing; the architecture fc-fsdp needs it: add fsdp: {{ranks: 2, iterations: 200}}"
    if fsdp and fsdp["ranks"] % fsdp.get("nodes", 1):
        yield (
            f"{name}.fsdp.ranks = {fsdp['ranks']} cannot be shared equally by fsdp.nodes = {fsdp['nodes']}; "
            "make ranks a multiple of nodes"
        )


def document():
    """docs/config.md, made from the schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    lines = ["# config.yaml", "", "Made from `koct/config.schema.json` by `koct config`.", ""]
    lines += ["| key | value | meaning |", "|---|---|---|"]
    lines += _document_rows(schema["properties"], "")
    return "\n".join(lines) + "\n"


def _document_rows(properties, prefix):
    for name, rule in properties.items():
        yield f"| `{prefix}{name}` | {_document_value(rule)} | {rule['description']} |"
        if "properties" in rule:
            yield from _document_rows(rule["properties"], f"{prefix}{name}.")
        elif "properties" in rule.get("additionalProperties", {}):
            yield from _document_rows(rule["additionalProperties"]["properties"], f"{prefix}{name}.NAME.")


def _document_value(rule):
    if "enum" in rule:
        return " or ".join(f"`{value}`" for value in rule["enum"])
    if rule["type"] == "array":
        return f"list of: {_document_value(rule['items'])}"
    if rule["type"] == "object":
        return "mapping"
    bounds = {"minimum": "≥", "exclusiveMinimum": ">"}
    return " ".join([rule["type"], *(f"{sign} {rule[key]}" for key, sign in bounds.items() if key in rule)])

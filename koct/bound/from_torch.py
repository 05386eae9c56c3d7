"""The layers of a torch module, for the bound: `BoundNetwork.from_torch`.

Theorem 1 asks for the Lipschitz constants of the true layers. A module has learned ones, trained or not, and those are
what is measured here; `BoundLayer.stands_in` says where one stands in for the other.

torch.fx follows the input through the module's `forward`, and every step of it becomes a layer of one chain. Where
paths split, a layer carries the tensors along that are needed later: where x stays, it is x ↦ (x, f(x)), with the
Lipschitz constant √(1 + L²), and beside tensors that wait, max(L, 1). Where paths meet, a sum of k tensors has √k, a
concatenation 1. So a skip connection hides no layer, and each has its own term. Steps that only rearrange entries, and
dropout, are left out. A layer that is used twice appears twice, since its error enters twice.

The module is read in evaluation mode. Matrices are measured by their largest singular value, other linear layers by
power iteration on the shape that they receive, which approaches the norm from below. A module of one's own is followed
into, unless it has an attribute or a method `lipschitz`: then it is one layer with this constant.
"""

from __future__ import annotations

import copy
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata
from torch.nn import functional as F

from koct.bound.theorem import BoundLayer, Constants
from koct.errors import KoctError

TOLERANCE, ITERATIONS = 1e-8, 10_000  # of power iterations


def _kinds(*names: str) -> tuple[Any, ...]:
    """Modules of torch by name; `{}` stands for one, two and three dimensions."""
    return tuple(getattr(nn, name.format(d)) for name in names for d in ((1, 2, 3) if "{}" in name else (0,)))


LINEAR = _kinds("Conv{}d", "ConvTranspose{}d", "AvgPool{}d", "AdaptiveAvgPool{}d", "ConstantPad{}d", "ZeroPad{}d")
LINEAR += _kinds("ReflectionPad{}d", "ReplicationPad{}d", "Upsample", "Unfold", "Fold")  # or affine: x ↦ A x + b
NORMS, POOLS = _kinds("BatchNorm{}d"), _kinds("MaxPool{}d")
ISOMETRIC = _kinds("Identity", "Flatten", "Unflatten", "Dropout", "Dropout{}d", "AlphaDropout")
ISOMETRIC += _kinds("PixelShuffle", "PixelUnshuffle")
ACTIVATIONS: dict[Any, float | Callable[[Any], float]] = {
    **dict.fromkeys(_kinds("ReLU", "ReLU6", "Tanh", "Hardtanh", "Softplus"), 1.0),
    nn.Sigmoid: 0.25,
    nn.Softmax: 0.5,
    nn.GELU: 1.13,  # the largest slopes of these two lie at some x > 0
    nn.SiLU: 1.1,
    nn.ELU: lambda module: max(1.0, abs(module.alpha)),
    nn.LeakyReLU: lambda module: max(1.0, abs(module.negative_slope)),
    nn.PReLU: lambda module: max(1.0, float(module.weight.detach().abs().max())),
}
FUNCTIONS: dict[Any, float] = {
    **dict.fromkeys((torch.relu, F.relu, torch.tanh, F.tanh, F.softplus, "relu", "tanh"), 1.0),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid"), 0.25),
    **{F.gelu: 1.13, F.silu: 1.1},
}
REARRANGING: set[Any] = {torch.flatten, torch.reshape, torch.permute, torch.transpose, torch.squeeze, torch.unsqueeze}
REARRANGING |= {"flatten", "unflatten", "reshape", "view", "permute", "transpose", "squeeze", "unsqueeze", "contiguous"}
SUMS: set[Any] = {operator.add, operator.iadd, operator.sub, operator.isub, torch.add, torch.sub}
SUMS |= {"add", "add_", "sub", "sub_"}
PRODUCTS: set[Any] = {operator.mul, operator.imul, operator.truediv, operator.itruediv}


class Step(NamedTuple):
    """A layer in the making: its name, its Lipschitz constant, and its parameters."""

    name: str
    lipschitz: float
    parameters: tuple[Any, ...] = ()


def layers(
    module: nn.Module,
    input_shape: Iterable[int],
    constants: Mapping[str, Constants],
    lipschitz: Mapping[str, float],
    known: Collection[str],
) -> list[BoundLayer]:
    """Return the layers of the module; `constants` are C, n and kappa as `BoundNetwork.from_torch` takes them."""
    try:
        shape = tuple(operator.index(size) for size in input_shape)
    except TypeError:
        raise KoctError(
            f"input_shape = {input_shape!r} must be a tuple of whole numbers without the axis of the batch; give one, "
            "such as (1, 64, 64)"
        ) from None
    steps, uses = _Reader(module, shape, lipschitz).steps(), Counter[str]()
    for i, step in enumerate(steps):  # one that is used again gets a name of its own
        uses[step.name] += 1
        if uses[step.name] > 1:
            steps[i] = step._replace(name=f"{step.name} (use {uses[step.name]})")
    if not steps:
        raise KoctError("the module changes nothing, so it has no layers; give a module with at least one layer")
    for name in known:
        if name not in [step.name for step in steps]:
            raise KoctError(f"known has {name!r}, which is no layer; these are {', '.join(s.name for s in steps)}")
    guessed = [step.name for step in steps if step.parameters and step.name not in known]
    frozen = [step.name for step in steps if step.name in guessed and not _trainable(step.parameters)]
    if frozen:
        raise KoctError(
            f"the parameters of {', '.join(frozen)} are frozen, which makes no layer a true one; say known={frozen!r} "
            f"if they are operators of the true map, or train them"
        )
    by_key = {key: _by_name(key, value, guessed) for key, value in constants.items()}
    result = []
    for name, constant, parameters in steps:
        if name in guessed:
            chosen = {key: values[name] for key, values in by_key.items()}
            result.append(BoundLayer(name, constant, False, p=_trainable(parameters), stands_in=True, **chosen))
        else:
            result.append(BoundLayer(name, constant, True))
    return result


def _by_name(key: str, value: Constants, learned: list[str]) -> dict[str, float]:
    """The constant of every learned layer; one that is missing is an error."""
    if value is None and learned:
        raise KoctError(
            f"{key} is missing, and {', '.join(learned)} are learned; give {key} as a number for all of them, "
            f"as a mapping from these names, or say which are known=[...]"
        )
    if not isinstance(value, Mapping):
        number: Any = value
        return dict.fromkeys(learned, number)
    if other := set(value) - set(learned):
        raise KoctError(f"{key} has an entry {min(other)!r}, which is no learned layer; these are {', '.join(learned)}")
    if missing := [name for name in learned if name not in value]:
        raise KoctError(f"layer {missing[0]!r}: {key} is missing; add it to the mapping {key}")
    return dict(value)


def _trainable(parameters: Iterable[Any]) -> int:
    """How many numbers are trained; shared ones count once."""
    return sum(p.numel() for p in {id(p): p for p in parameters}.values() if p.requires_grad)


class _Tracer(fx.Tracer):
    """Follows modules but those of torch, those with a constant of their own, and those whose constant is given."""

    def __init__(self, lipschitz: Mapping[str, float]) -> None:
        super().__init__()
        self.lipschitz = lipschitz

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        own = name in self.lipschitz or hasattr(module, "lipschitz")
        return own or super().is_leaf_module(module, name)


class _Reader:
    """Turns one module into steps."""

    def __init__(self, module: nn.Module, input_shape: tuple[int, ...], lipschitz: Mapping[str, float]) -> None:
        for name, value in module.named_parameters():
            if value.is_meta or not torch.isfinite(value).all():
                raise KoctError(f"{name} has no finite values; load the weights of the module first")
        module = copy.deepcopy(module).eval().double().cpu()
        tracer = _Tracer(lipschitz)
        name = type(module).__name__
        if name in lipschitz or tracer.is_leaf_module(module, ""):
            wrapped = nn.Sequential()
            wrapped.add_module(name, module)
            module = wrapped
        for name in lipschitz:
            if name not in dict(module.named_modules()):
                raise KoctError(f"lipschitz has an entry {name!r}, but the module has no part of that name")
        self.module, self.lipschitz = module, lipschitz
        try:
            self.graph = tracer.trace(module)
        except Exception as error:
            raise KoctError(
                f"{type(module).__name__}.forward cannot be followed ({str(error).splitlines()[0]}); write it without "
                f"conditions on its input, or give the module an attribute `lipschitz`"
            ) from None
        try:
            ShapeProp(fx.GraphModule(module, self.graph)).propagate(torch.zeros(1, *input_shape, dtype=torch.float64))
        except Exception as error:
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise KoctError(
                f"the module does not take an input of shape (1, {', '.join(map(str, input_shape))}): {reason}; "
                f"give input_shape without the axis of the batch"
            ) from None
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        for node in self.graph.nodes:
            if found := node.meta.get("tensor_meta"):
                if not isinstance(found, TensorMetadata) and node.op != "output":
                    raise self._unknown(node, "it returns several tensors")
                self.shapes[node] = () if node.op == "output" else tuple(found.shape)

    def steps(self) -> list[Step]:
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        (output,) = (node for node in self.graph.nodes if node.op == "output")
        if len(inputs) != 1 or not isinstance(output.args[0], fx.Node):
            raise KoctError("the module must take one tensor and return one tensor; wrap it in one that does")
        sources: dict[fx.Node, list[fx.Node]] = {}  # the arguments of each that depend on the input, with repetitions
        for node in (node for node in self.graph.nodes if node in self.shapes and node.op != "output"):
            used: list[fx.Node] = []
            fx.map_arg((node.args, node.kwargs), used.append)
            if found := [each for each in used if each in sources or each in inputs]:
                sources[node] = found
        end = output.args[0]
        if end not in sources and end not in inputs:
            raise KoctError("the output of the module does not depend on its input; give a module that uses its input")
        needed = {end}
        for node in reversed(list(sources)):
            needed |= set(sources[node]) if node in needed else set()
        order = [node for node in sources if node in needed]
        steps: list[Step] = []
        for i, node in enumerate(order):
            later = {end}.union(*(sources[each] for each in order[i + 1 :])) & {*inputs, *order[:i]}
            steps += self._carried(node, sources[node], later)
        return steps

    def _carried(self, node: fx.Node, sources: list[fx.Node], later: set[fx.Node]) -> list[Step]:
        """The step at a node, with the tensors that are needed `later` carried along."""
        counts = Counter(sources)
        if len(sources) == 1:
            made = self._step(node, sources[0])
        elif node.target in SUMS and not node.kwargs:
            made = [Step(node.name, math.hypot(*counts.values()))]
        elif node.target in (torch.cat, torch.concat, torch.concatenate):
            made = [Step(node.name, math.sqrt(max(counts.values())))]
        else:
            raise self._unknown(node, "it combines several tensors; koct knows sums and concatenations")
        if not later:
            return made
        step = made[0] if made else Step(node.name, 1.0)
        stays = bool(later & set(sources))
        constant = math.hypot(1, step.lipschitz) if stays else max(1.0, step.lipschitz)
        return [step._replace(lipschitz=constant)] if made or stays else []

    def _step(self, node: fx.Node, source: fx.Node) -> list[Step]:
        """What one tensor goes through at a node."""
        if node.op == "call_module":
            name, module = str(node.target), self.module.get_submodule(str(node.target))
            given = name in self.lipschitz or hasattr(module, "lipschitz")
            if isinstance(module, ISOMETRIC) and not given:
                return []
            return [Step(name, self._constant(node, self.shapes[source]), tuple(module.parameters()))]
        if node.target in FUNCTIONS:
            return [Step(node.name, FUNCTIONS[node.target])]
        same_size = math.prod(self.shapes[node]) == math.prod(self.shapes[source])
        if node.target in REARRANGING:
            return []
        divides = node.target in (operator.truediv, operator.itruediv) and node.args[0] is not source
        if node.target in SUMS | PRODUCTS and len(node.args) == 2 and same_size and not node.kwargs and not divides:
            return self._with_constant(node, node.args[node.args[0] is source])
        raise self._unknown(node, "koct does not know its Lipschitz constant; use a module of torch.nn")

    def _with_constant(self, node: fx.Node, other: Any) -> list[Step]:
        """A sum or a product with a number, or with a tensor of the module."""
        parameters: tuple[Any, ...] = ()
        if isinstance(other, fx.Node):
            if other.op != "get_attr":
                raise self._unknown(node, "its other argument is neither a number nor a tensor of the module")
            value = operator.attrgetter(str(other.target))(self.module)
            parameters = (value,) if isinstance(value, nn.Parameter) else ()
        else:
            value = torch.as_tensor(other, dtype=torch.float64)
        if node.target in SUMS:
            return [Step(node.name, 1.0, parameters)]
        size = value.detach().abs()
        largest = size.max() if node.target in (operator.mul, operator.imul) else 1 / size.min()
        return [Step(node.name, float(largest), parameters)]

    def _constant(self, node: fx.Node, shape: tuple[int, ...]) -> float:
        """The Lipschitz constant of the module at a node, which takes tensors of this shape."""
        name = str(node.target)
        module: Any = self.module.get_submodule(name)
        if name in self.lipschitz:
            return self.lipschitz[name]
        if hasattr(module, "lipschitz"):
            return float(module.lipschitz() if callable(module.lipschitz) else module.lipschitz)
        if isinstance(module, nn.Linear):
            return float(torch.linalg.matrix_norm(module.weight.detach(), 2))
        if isinstance(module, LINEAR):
            return linear_norm(module, shape)
        if isinstance(module, NORMS) and module.running_var is not None:  # or it depends on the rest of the batch
            scale = (module.running_var + module.eps) ** -0.5
            return float((scale if module.weight is None else scale * module.weight.detach().abs()).max())
        if isinstance(module, POOLS):
            return _max_pool(module, len(shape) - 2)
        constant = next((value for kind, value in ACTIVATIONS.items() if isinstance(module, kind)), None)
        if constant is None:
            raise self._unknown(node, "koct does not know its Lipschitz constant, or it has none")
        return constant if isinstance(constant, float) else constant(module)

    def _unknown(self, node: fx.Node, reason: str) -> KoctError:
        target = node.target
        if node.op == "call_module":
            what = f"{type(self.module.get_submodule(str(target))).__name__} {target!r}"
            fix = f"give lipschitz={{{target!r}: ...}}"
        else:
            what = f"the operation {getattr(target, '__name__', target)!r}"
            fix = "or give the module around it an attribute `lipschitz`"
        return KoctError(f"{what} cannot be part of the bound: {reason}; {fix}")


def linear_norm(module: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> float:
    """The norm of x ↦ module(x) − module(0) on tensors of this shape, by power iteration on AᵀA."""
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        shift = module(torch.zeros_like(v))
    estimate = 0.0
    for _ in range(ITERATIONS):
        v = (v / v.norm()).requires_grad_()
        with torch.enable_grad():
            u = module(v) - shift
        previous, estimate = estimate, float(u.detach().norm())
        if estimate == 0 or estimate - previous <= TOLERANCE * estimate:
            return estimate
        (v,) = torch.autograd.grad(u, v, u.detach())
    raise KoctError(f"the norm of {module} did not settle to {TOLERANCE:g} in {ITERATIONS} power iterations")


def _max_pool(module: Any, axes: int) -> float:
    """√(in how many windows an entry can be): each of them may return it."""
    settings = (module.kernel_size, module.stride, module.dilation)
    per_axis = zip(*(torch.tensor(value).expand(axes).tolist() for value in settings), strict=True)
    return math.sqrt(math.prod(min(size, math.ceil(((size - 1) * gap + 1) / stride)) for size, stride, gap in per_axis))

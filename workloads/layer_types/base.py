"""What every layer has, what a type of layer says of its layers, and the registry of types.

A type is one class with everything that only it knows: the shape of its output, its
parameters and multiply-accumulates, which dimensions a plan may split, and its operators in
a training step. It says so in plain terms (dimensions, shares of products, tensors by their
role), so that planners and the cost model read any type alike. To add one, write a file in
this folder:

    @register
    class Square(LayerType):
        name = "square"

That is an unweighted operator of one input that keeps its shape (docs/reference/networks.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cache
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

from workloads.layer_types.element_cycles import cycles_of
from workloads.tensors import NetworkError, Sides, Tensor, sides

DIMENSIONS = ("samples", "inputs", "outputs", "groups", "positions")
"""What a plan may split: samples, input or output channels, groups, positions of a sequence.

Of an operator that joins paths ``inputs`` are the columns of its tensor; by ``outputs`` each
part has the whole."""
FLOAT_BYTES = 4.0
WINDOW = ("kernel", "stride", "padding")
"""Sizes that may be (height, width)."""
ANY_LAYER = ("output", "operator", "extra", "causal", "apart", "block")
WEIGHTED_LAYER = ("bias", "shared")
"""What a layer of any type, or one with weights, may be given beside its type's ``keys``."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its type's name, where its inputs come from and its exact shapes.

    ``input`` is the shape of its first input, ``others`` those of the further
    ones where they are unlike. ``kernel`` is the window of ``conv`` and the
    pools, else 1. ``groups`` cuts channels into independent products: a
    convolution's groups, or the heads of a ``matmul``. A ``matmul`` computes,
    in each group, positions x k times k x n without weights; its second
    operand may have fewer groups, each serving several of the first's.
    ``attention`` reads queries, keys and values, and is both products at once.

    ``vocabulary`` is the number of an embedding's rows, ``directions`` of a
    recurrent cell 1 or 2. ``extra`` counts trained elements that are no
    product's matrix (a norm's scale and shift, a position table). ``shared``
    names an earlier layer whose weights this one uses (tied embeddings). With a
    ``block`` above 1 the matrix is of circulant blocks of that side. In a ``causal``
    softmax, or attention, a position sees itself and those before it. What is ``apart`` is
    an operator of its own, although it could be done in passing (docs/explanation/operators.md);
    of a product with a bias, and of a norm, that is the sum of the gradient of its vector.
    ``sizes`` are numbers that only its type has a use for, by name.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    input: Tensor
    output: Tensor
    kernel: Sides = 1
    stride: Sides = 1
    padding: Sides = 0
    bias: bool = False
    groups: int = 1
    dilation: Sides = 1
    transposed: bool = False
    others: tuple[Tensor, ...] = ()
    operator: str = ""
    vocabulary: int = 0
    directions: int = 1
    extra: int = 0
    shared: str = ""
    block: int = 1
    causal: bool = False
    apart: bool = False
    sizes: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for field in ("kernel", "stride", "padding", "dilation"):
            value = getattr(self, field)
            if isinstance(value, tuple) and value[0] == value[1]:
                object.__setattr__(self, field, value[0])
        if self.others and all(shape == self.input for shape in self.others):
            object.__setattr__(self, "others", ())

    @property
    def type(self) -> LayerType:
        """What its type says of it."""
        return TYPES[self.kind]

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight matrix that planners partition."""
        return self.type.weighted

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The shape of each input, in the order of ``inputs``."""
        return (self.input, *(self.others or (self.input,) * (len(self.inputs) - 1)))

    @property
    def kernel_area(self) -> int:
        """Elements of the window."""
        height, width = sides(self.kernel)
        return height * width

    def size(self, name: str, usual: int) -> int:
        """A number that only its type has a use for; the usual one where none is given."""
        return dict(self.sizes).get(name, usual)

    @property
    def weights(self) -> int:
        """A(W): elements of the weight tensor it uses, without biases and norms."""
        return self.type.weights(self)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample's forward product (a gather has none).

        Of attention those of all pairs of positions, ``causal`` or not.
        """
        return self.type.macs(self)

    @property
    def parameters(self) -> int:
        """All trained elements the layer brings: weights unless shared, biases, norms, tables."""
        brought = self.extra if self.shared else self.weights + self.extra
        biases = self.type.biases * self.output.channels if self.bias else 0
        return brought + self.type.further_parameters(self) + biases


class Role(Enum):
    """A tensor of a layer that one of its operators reads or writes."""

    INPUTS = "all inputs"
    OUTPUT = "the output"
    ERROR = "the gradient of the output"
    ERRORS = "the gradients of all inputs that need one"


@dataclass(frozen=True, slots=True)
class Operand:
    """One input alone, or what is written for it: its gradient."""

    place: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor of its own that a type writes beside its output: ``channels`` at each position.

    ``name`` is what it holds. Its elements have ``element_bytes`` (0: as activations have);
    ``gradient`` is that of such a tensor.
    """

    name: str
    channels: int
    element_bytes: float = 0.0
    gradient: bool = False


Tensors = tuple[Role | Operand | Kept, ...]


FLAGS = frozenset(one.name for one in fields(Layer) if isinstance(one.default, bool))
"""What of a layer is true or false."""


STATISTICS = "statistics"
"""The step in which a batch norm sums up a batch; inference has the sums already."""


def is_count(answer: object, least: int = 0) -> bool:
    """Whether something is a whole number from ``least`` on."""
    return isinstance(answer, Integral) and int(answer) >= least


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a layer: what it reads and writes, and the part of its products it does.

    ``products`` is a part of the layer's forward multiply-accumulates. ``exponentials`` are
    computed for each multiply-accumulate of the whole. ``weights`` says how often each
    weight is read. ``gradients`` are the weights' gradients it moves, in numbers a
    weight: at the first use of a weight in backward, and at any further one, which adds.
    ``rows`` are (weights, gradients) moved for each element looked up in a table. The
    operator is started ``times`` times, one after the other; 0 times: the call of another
    operator starts it, too. ``what`` tells several apart.
    """

    reads: Tensors
    writes: Tensors = ()
    products: float = 0.0
    weights: float = 0.0
    gradients: tuple[float, float] = (0.0, 0.0)
    rows: tuple[float, float] = (0.0, 0.0)
    times: int = 1
    what: str = ""
    exponentials: float = 0.0


class Dimensions(NamedTuple):
    """A layer as planners see it: channels over all ``groups``, and elements of a channel.

    ``operand`` counts the elements of all inputs but the first. ``work`` is what is left of the
    products of such sizes, as where half of them is masked. ``fused`` are a fused kernel's
    multiply-accumulates for one sample, forward and backward; such a kernel computes all its
    inputs' gradients at once.
    """

    groups: int
    in_channels: int
    out_channels: int
    in_area: int
    out_area: int
    operand: int = 0
    work: float = 1.0
    fused: tuple[float, float] = (0.0, 0.0)


class LayerType:
    """A type of layers; one that says nothing keeps the shape of its one input and has no weights.

    ``inputs`` is how many it takes (None: one or more), ``keys`` are the numbers that describe
    a layer of this type (fields of ``Layer``, ``features`` of the output, or sizes of its own).
    """

    name: str
    inputs: int | None = 1
    reads = "one input"
    """What it takes, in words."""
    keys: tuple[str, ...] = ()
    weighted = False
    """It multiplies with a weight matrix, which planners partition."""
    computed = False
    """It multiplies what other layers compute, without a weight matrix."""
    join = False
    """It ties paths of the network together, whatever it reads."""
    shardable: tuple[str, ...] = ("samples", "inputs", "outputs", "positions")
    """Those of DIMENSIONS that a plan may split, where a layer has several of them."""
    gathers = False
    """It picks rows of its weights by ids: it multiplies nothing, and ids have no gradient."""
    fully_connected = False
    """Its errors count on its input, as the AccPar paper counts a fully connected layer's."""
    circulant = False
    """Its weights may be block-circulant."""
    softmax_kernel = False
    """It is a fused attention kernel, for which devices have rates of their own."""
    sums = False
    """The gradient of its output is that of each of its inputs, as it is."""
    statistics = False
    """It needs sums over the batch before it can be applied, and their gradients backward."""
    keeps_maps = False
    """It makes one map of one map, so that a node's output may be told behind it."""
    passing = False
    """A compiler computes it wherever its output is read, and writes nothing, unless ``apart``."""
    derived = False
    """Its gradient follows from its output, so that its input is not kept for it."""
    fusible = False
    """A compiler does it in passing, while others read its output."""
    sums_error = False
    """It reads its output's gradient several times, so that its parts are summed first."""
    biases = 1
    """Trained vectors of its output's length where it has a ``bias``."""

    product = False
    """It multiplies matrices, or picks rows of one: it is ``weighted`` or ``computed``."""

    def __init_subclass__(cls) -> None:
        cls.product = cls.weighted or cls.computed

    # --- shapes

    def layer(
        self, name: str, sources: tuple[str, ...], shapes: Iterable[Tensor], **given: Any
    ) -> Layer:
        """A layer that reads ``sources`` of these shapes; its output follows by ``output``.

        ``given`` are the type's ``keys``, and what any layer may have (``ANY_LAYER``). Raises
        NetworkError for others, and where they do not fit.
        """
        for key, value in given.items():
            if problem := self._given_problem(key, value):
                raise NetworkError(problem)
        features, output = given.pop("features", 0), given.pop("output", None)
        first, *others = shapes
        known = {key: given[key] for key in given if key in _fields()}
        own = tuple(sorted((key, given[key]) for key in given if key not in known))
        draft = Layer(name, self.name, sources, first, first, others=tuple(others), **known)
        draft = replace(draft, sizes=own)
        if problem := self.arity_problem(draft):
            raise NetworkError(problem)
        made = replace(draft, output=output or self.output(draft, features))
        if problem := self.problem(made):
            raise NetworkError(problem)
        return made

    def _given_problem(self, key: str, value: Any) -> str | None:
        """What is wrong with what a layer is to have: sizes are ``keys``, the rest is for all."""
        if key not in self.keys:
            also = ANY_LAYER + WEIGHTED_LAYER * self.weighted
            has = ", ".join((*self.keys, *also))
            return None if key in also else f"{self.name} has no {key}; it has {has}"
        if isinstance(value, bool):
            return None if key in FLAGS else f"{key} {value!r}: a whole number"
        least = int(key != "padding")
        numbers = sides(value) if key in WINDOW else (value, value)
        if len(numbers) == 2 and all(is_count(n, least) for n in numbers):
            return None
        return f"{key} {value!r}: at least {least}, and a whole number"

    def output(self, layer: Layer, features: int) -> Tensor:
        """The output's shape; raises NetworkError where the inputs do not fit."""
        return layer.input

    def arity_problem(self, layer: Layer) -> str | None:
        """What is wrong with the number of inputs."""
        arity = len(layer.inputs)
        if arity < 1 or (self.inputs is not None and arity != self.inputs):
            article = "" if self.name == "attention" else "a "
            got = f"{arity} inputs" if " and " in self.reads else arity
            return f"{article}{self.name} takes {self.reads}, got {got}"
        return None

    def problem(self, layer: Layer) -> str | None:
        """What is wrong with shapes and sizes that are positive and whose groups fit."""
        return None

    def dimensions(self, layer: Layer) -> Dimensions:
        """The layer as a node of the partition graph."""
        into, out = layer.input, layer.output
        return Dimensions(layer.groups, into.channels, out.channels, into.area, out.area)

    # --- parameters and products

    def weights(self, layer: Layer) -> int:
        """Elements of the weight matrix."""
        return 0

    def further_parameters(self, layer: Layer) -> int:
        """Trained elements that are neither weights, nor biases, nor ``extra``."""
        return 0

    def macs(self, layer: Layer) -> int:
        """Multiply-accumulates of one sample's forward product."""
        return 0

    def spectral_macs(self, layer: Layer) -> tuple[int, int]:
        """Of block-circulant weights' ``macs`` those of transforms, and of products of spectra."""
        return (0, 0)

    # --- operators

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        """Forward operators, where it is not done in passing."""
        return (Step((Role.INPUTS,), (Role.OUTPUT,), products=1.0, weights=1.0),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """Backward operators; ``needed`` says whether anything before it is trained."""
        values = Role.OUTPUT if self.derived else Role.INPUTS
        return (Step((Role.ERROR, values), (Role.ERRORS,)),) if needed else ()

    def gradient(self, layer: Layer) -> tuple[Step, ...]:
        """Operators that compute weights' gradients."""
        return ()

    def in_passing(self, layer: Layer) -> bool:
        """Whether a compiler computes it wherever its output is read, and writes nothing."""
        return self.passing and not layer.apart

    def needs_values(self, layer: Layer) -> bool:
        """Whether backward of what is done in passing needs the values that it was applied to."""
        return True

    def view(self, layer: Layer) -> bool:
        """Whether it is another way to see its input: nothing is computed."""
        return False

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        """Cycles that a vector unit's lane takes for an element of the output (products: 0)."""
        return 0.0 if self.product else cycles_of(self.name, forward=forward)


Type = TypeVar("Type", bound=type[LayerType])

TYPES: dict[str, LayerType] = {}
"""Every type of layer by its name."""


def register(cls: Type) -> Type:
    """Enter a type into the registry, under its name, which no other has.

    A module that is loaded again may replace its own type. What this process has computed with
    the old one stays.
    """
    name, whose = getattr(cls, "name", None), _place(cls)
    if not (isinstance(cls, type) and issubclass(cls, LayerType)):
        raise NetworkError(f"layer type {whose} is no LayerType; write class ...(LayerType)")
    if not isinstance(name, str) or not name:
        raise NetworkError(f'layer type {whose} has no name; write name = "..." in it')
    if odd := set(cls.shardable) - set(DIMENSIONS):
        words = ", ".join(map(repr, sorted(odd)))
        raise NetworkError(f"layer type {whose}: shardable {words}; of {', '.join(DIMENSIONS)}")
    if name in TYPES and whose != (taken := _place(type(TYPES[name]))):
        raise NetworkError(f"layer type {whose}: {taken} is called {name!r}; choose another name")
    TYPES[name] = cls()
    return cls


def _place(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}" if isinstance(cls, type) else repr(cls)


def layer_type(name: str) -> LayerType:
    """The type of a name; raises NetworkError with those that there are."""
    if name not in TYPES:
        raise NetworkError(f"unknown kind {name!r}; one of {sorted(TYPES)}")
    return TYPES[name]


@cache
def _fields() -> frozenset[str]:
    return frozenset(field.name for field in fields(Layer))

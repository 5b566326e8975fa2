"""One accelerator in SI units: its chips and cores, memory, links and number formats.

Fields that a spec's table has by the same name say their bounds and shorter keys
(``hardware.reader.table_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from hardware.reader import (
    ByteRate,
    Bytes,
    Count,
    Duration,
    EnergyEach,
    EnergyPerByte,
    FlopRate,
    HalfSize,
    Price,
    Share,
    Watts,
    number,
    quantity,
    whole,
)
from hardware.units import Units

MOST_MOMENTS = 8
WIDEST_NUMBER = 16
NumberBytes = Annotated[
    float,
    quantity("B", WIDEST_NUMBER, f'a number has at most {WIDEST_NUMBER} B; write it like "2 B"'),
]
MovedBytes = Annotated[float, quantity("B", 64, 'at most 64 B for each number, like "6 B"')]


@dataclass(frozen=True, slots=True)
class ChipLinks:
    """A chip's links to neighbouring chips: how many, and what each is worth in each direction.

    Of ``latency_s`` a part is what ``half_bytes`` take (``hardware.schema.LinkTable``).
    """

    per_chip: Count
    bytes_per_s: ByteRate
    latency_s: Duration = 0.0
    half_bytes: HalfSize = 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near a core comes to its peaks; the defaults are assumptions (docs/reference/specs.md).

    An operator takes max(FLOPs / (``matrix_efficiency`` x peak), bytes /
    (``memory_efficiency`` x HBM bandwidth)) + ``overhead_s``. ``tile`` rounds
    activations in HBM up to tiles of 8 x 128; ``pad_matrix_unit`` rounds the
    sides of weight matrices up to the matrix unit's (0: off). Products that fp8, fp4 and int8
    leave in bf16 reach ``wide_efficiency`` of bf16's peak (None: what all do), those of
    attention ``attention_efficiency`` of theirs (None: what these do). Where attention is
    fused, backward reaches ``attention_backward`` of that rate; a head's features are rounded up
    to a multiple of ``pad_heads`` (0: they are not); and under a causal mask a query computes with
    ``causal_tile`` / 2 keys more than it sees, as kernels compute whole tiles.
    A layer's operators take no less than ``host_s`` each on average, in which their host
    starts one. Of the shorter
    of computing and moving ``concurrent`` goes on beside the longer (1: all of it; 0: the
    two follow each other, as while a kernel fills and drains).
    Convolutions of 3 x 3 compute ``winograd`` times fewer products than they have. Unfused
    attention whose rows are no multiple of ``align_bytes`` does without the matrix units.
    Chips of a kind differ in how long they take by ``variation`` (its standard deviation, of the
    mean), and all that are in an array wait for the slowest, which takes ``slowest`` times as
    long as the mean (``waiting``). While exchanges go on beside it computing takes
    ``contention`` longer (0.19: 1.19 times as long), as they take compute units and bandwidth.
    A ``blocking`` host starts an operator when the one before it has ended
    (CUDA_LAUNCH_BLOCKING=1).
    Of a grouped product (experts) each group takes ``group_s`` besides: it is a chain of
    kernels of its own. To start what a layer of experts does forward and backward its host
    needs ``host_layer_s``.
    """

    matrix_efficiency: Share = 1.0
    memory_efficiency: Share = 0.75
    overhead_s: Annotated[Duration, Field(alias="overhead")] = 2e-6
    tile: bool = False
    pad_matrix_unit: Annotated[int, whole(0, 1 << 16)] = 0
    attention_efficiency: Share | None = None
    wide_efficiency: Share | None = None
    attention_backward: Annotated[float, number(0.1, 10)] = 1.0
    pad_heads: Annotated[int, whole(0, 1 << 16)] = 0
    causal_tile: Annotated[int, whole(0, 1 << 16)] = 0
    host_s: Annotated[Duration, Field(alias="host")] = 0.0
    blocking: bool = False
    group_s: Annotated[Duration, Field(alias="group")] = 0.0
    host_layer_s: Annotated[Duration, Field(alias="host_layer")] = 0.0
    concurrent: Annotated[float, number(0, 1)] = 1.0
    winograd: Annotated[float, number(1, 16)] = 1.0
    variation: Annotated[float, number(0, 0.5)] = 0.0
    contention: Annotated[float, number(0, 0.9)] = 0.0
    align_bytes: Annotated[Bytes, Field(alias="align")] = 0.0
    slowest: Annotated[float, Field(gt=0)] = 1.0

    def waiting(self, chips: int) -> Roofline:
        """The same of one among so many ``chips`` of its kind, all of which wait for each other.

        Where times are normally distributed, the slowest of n chips is by z standard
        deviations slower than the mean, z(n) = Phi^-1(0.5264^(1/n)) (Chen and Tyler 1999, who
        approximate the expected largest of n so). With a ``variation`` of 2 % it takes 1.028
        times as long of 8 chips, 1.061 of 512, 1.077 of 8,192.
        """
        if not self.variation or chips < 2:
            return replace(self, slowest=1.0)
        from statistics import NormalDist  # takes 10 ms to load, a thirtieth of a short command

        z = NormalDist().inv_cdf(0.5264 ** (1 / chips))
        return replace(self, slowest=1 + z * self.variation)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How many bytes each kind of number has, and how FLOPs are counted.

    The published model moves elements. The deployed one tells apart
    activations (and their gradients), weights as operators read them, weights'
    gradients, and what the optimizer keeps of each weight: a master copy, which
    is the weight itself where both have as many bytes, and its moments. Gradients come and
    go, or have a ``gradient_buffer`` that is there all the time (Megatron-LM's), beside which
    there may be a ``gradient_copy`` in the format of weights where that is narrower (DeepSpeed's),
    and ``dummy_gradients`` (Transformer Engine's; ``simulator.cost.dummies``). What
    a micro-batch adds to the buffer its products add, or kernels behind them, which move
    ``gradient_kernel_bytes`` for each number. With
    ``fused`` a dot product of n terms is n multiply-adds of two FLOPs each;
    without, it costs 2n - 1 (AccPar).

    Of 0 bytes is what follows the element: activations and weights are elements; a weight's
    gradient, its master copy and its moments (one, momentum) are float32, or as wide as a
    wider weight.
    """

    element_bytes: Annotated[NumberBytes, Field(alias="element")] = 2.0
    fused: bool = False
    activation_bytes: Annotated[NumberBytes, Field(alias="activations")] = 0.0
    weight_bytes: Annotated[NumberBytes, Field(alias="weights")] = 0.0
    gradient_bytes: Annotated[NumberBytes, Field(alias="gradients")] = 0.0
    master_bytes: Annotated[NumberBytes, Field(alias="master")] = 0.0
    moment_bytes: Annotated[
        tuple[NumberBytes, ...], Field(alias="moments", max_length=MOST_MOMENTS, strict=False)
    ] = (0.0,)
    gradient_buffer: bool = False
    dummy_gradients: bool = False
    gradient_copy: bool = False
    gradient_kernel_bytes: Annotated[MovedBytes, Field(alias="gradient_kernel")] = 0.0

    def __post_init__(self) -> None:
        weight = self.weight_bytes or self.element_bytes
        wide = max(4.0, weight)
        usual = {"activation_bytes": self.element_bytes, "weight_bytes": weight}
        for name, size in (usual | {"gradient_bytes": wide, "master_bytes": wide}).items():
            object.__setattr__(self, name, getattr(self, name) or size)
        object.__setattr__(self, "moment_bytes", tuple(one or wide for one in self.moment_bytes))


BFLOAT16 = Arithmetic()
"""The AccPar paper's: bfloat16, 2n - 1 FLOPs; gradients and the optimizer's copies float32."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of a multiply-add, of a byte read or written in HBM, and of a byte received."""

    mac_j: EnergyEach
    hbm_j_per_byte: Annotated[float, Field(ge=0)]
    transfer_j_per_byte: EnergyPerByte


@dataclass(frozen=True, slots=True)
class Power:
    """Watts of one chip: while it computes, and while it does not."""

    busy_w: Annotated[Watts, Field(alias="busy")]
    idle_w: Annotated[Watts, Field(alias="idle")]


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator of an array: a board with chips, cores, HBM and a network port.

    Peak and HBM values are those of one chip, of which a core has an equal
    share; the peak is that of the format in which it computes, and the products of
    attention have ``chip_attention_flops_per_s`` (None: the same), those that do without the
    matrix units ``chip_vector_flops_per_s`` (its peak in fp32). Fused attention computes
    ``chip_exponentials_per_s`` (None: they take no time). For products with weights
    activations are cast to numbers of ``product_bytes`` (None: they are taken as they are).
    ``network_bytes_per_s`` is the board's port, in each direction, and ``network_latency_s`` a
    message's on it (a hop's, where boards are joined to their neighbours), of which a part is
    what ``network_half_bytes`` take. ``price`` is what an hour of a chip costs, in dollars;
    neither it nor ``power`` changes what a step takes. Its spec ``extends`` those of these names,
    the nearest first.
    """

    name: str
    chips: Count
    cores_per_chip: Count
    chip_peak_flops_per_s: FlopRate
    hbm_capacity_bytes: Bytes
    hbm_bytes_per_s: ByteRate
    network_bytes_per_s: ByteRate
    description: str = field(default="", compare=False)
    network_latency_s: Duration = 0.0
    links: ChipLinks | None = None
    roofline: Roofline = Roofline()
    arithmetic: Arithmetic = BFLOAT16
    energy: Energy | None = None
    units: Units | None = None
    chip_attention_flops_per_s: FlopRate | None = None
    chip_vector_flops_per_s: FlopRate | None = None
    chip_exponentials_per_s: FlopRate | None = None
    product_bytes: Annotated[float, number(0, WIDEST_NUMBER, above=True)] | None = None
    power: Power | None = None
    price: Price | None = None
    extends: tuple[str, ...] = field(default=(), compare=False)
    network_half_bytes: HalfSize = 0.0

    @property
    def cores(self) -> int:
        """Cores of the board."""
        return self.chips * self.cores_per_chip

    @property
    def peak_flops_per_s(self) -> float:
        """Peak of the board."""
        return self.chips * self.chip_peak_flops_per_s

    def computing(self, times: float) -> Device:
        """The same, whose chips compute so many times as fast: products, vectors, exponentials.

        What ``units`` do is as it was: that is a matter of their clock.
        """

        def rate(own: float | None) -> float | None:
            return None if own is None else times * own

        return replace(
            self,
            chip_peak_flops_per_s=times * self.chip_peak_flops_per_s,
            chip_attention_flops_per_s=rate(self.chip_attention_flops_per_s),
            chip_vector_flops_per_s=rate(self.chip_vector_flops_per_s),
            chip_exponentials_per_s=rate(self.chip_exponentials_per_s),
        )

    def with_cores(self, cores: int) -> Device:
        """A board of one chip, with so many of its cores and their part of its speed."""
        part = cores / self.cores_per_chip
        return replace(
            self.computing(part),
            chips=1,
            cores_per_chip=cores,
            hbm_bytes_per_s=part * self.hbm_bytes_per_s,
            hbm_capacity_bytes=part * self.hbm_capacity_bytes,
        )

"""Which execution model a step is simulated under, and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypedDict, get_args

from hardware import Array, Model, Stack, by_core, format_quantity
from planners import Staging
from planners.plan.updates import UPDATE_ORDERS, ZERO_STAGE
from simulator.cost.recompute import is_mode
from simulator.engine.errors import SimulationError
from simulator.engine.operations import Sends

PUBLISHED_IGNORES = {
    "hbm": "the published model has no memory: HBM values are not used",
    "capacity": "the published model has no memory: HBM values are not used",
    "roofline": "the published model computes at the peak rate: roofline values are not used",
    "wires": "topology and links between chips are not used by the published model, where every "
    "split has links of its accelerators' network.bandwidth",
    "latency": "latency is not used by the published model",
    "formats": "the published model moves numbers of arithmetic.element: other formats are not "
    "used",
}
DEPLOYED_IGNORES = {
    "fused": "the deployed model counts two FLOPs a multiply-accumulate either way",
}
EXACT_IGNORES = {
    "padding": "fractions of samples and channels (--shards exact) fill no tiles and no matrix "
    "units: nothing is padded",
}
"""What the deployed model does not read where shards are fractions."""
IGNORES: dict[Model, Mapping[str, str]] = {
    "published": PUBLISHED_IGNORES,
    "deployed": DEPLOYED_IGNORES,
}
"""Topic of a key of a spec to why it means nothing to an execution model."""


BUCKET_BYTES = 25.0 * 2**20
"""What practice takes: ``bucket_cap_mb`` of PyTorch's DistributedDataParallel is 25 MiB."""


class ComputingOptions(TypedDict):
    """Options of ``simulator.cost.training_operators.operators``."""

    inference: bool
    recompute: str
    early_stop: bool


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_paces(value: object) -> bool:
    return isinstance(value, tuple) and all(_is_number(pace) and pace > 0 for pace in value)


Rule = tuple[Callable[[Any], bool], str]
"""Whether an option may have a value, and which values it may have, in words."""


def _one_of(*words: str) -> Rule:
    return lambda value: isinstance(value, str) and value in words, f"one of {words}"


_FLAG: Rule = lambda value: isinstance(value, bool), "True or False"
RULES: dict[str, Rule] = {
    **dict.fromkeys(("overlap", "whole_shards", "strict_memory", "early_stop"), _FLAG),
    "model": _one_of(*IGNORES),
    "bucket_bytes": (
        lambda size: size is None or (_is_number(size) and size >= 0),
        "None, or bytes from 0",
    ),
    "staging": (
        lambda staging: staging is None or isinstance(staging, Staging),
        "None, or a Staging",
    ),
    "mode": _one_of("training", "inference"),
    "update": _one_of("", "auto", *ZERO_STAGE),
    "recompute": (
        lambda mode: isinstance(mode, str) and is_mode(mode),
        "'none', 'selective', 'full' or a number of blocks as text",
    ),
    "update_order": _one_of("", *UPDATE_ORDERS),
    "memory_reserve": (
        lambda share: _is_number(share) and 0 <= share < 1,
        "a share from 0 to less than 1",
    ),
    "paces": (_is_paces, "a tuple of numbers above 0"),
    "sends": _one_of("", *get_args(Sends)),
}


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution model and its options, which only ``deployed`` has.

    ``overlap`` lets exchanges go on while cores compute; ``whole_shards``
    splits into whole samples and channels; gradients of consecutive layers
    are exchanged together until they have ``bucket_bytes`` (0: each by
    itself; None: as many as the plan says, else 25 MiB); weights are updated
    in ``update_order`` ("layers" or "arrival"; "": as the plan says, else the layers', or of
    updates in parts as gradients arrive); ``algorithm`` is that of every collective ("auto":
    the cheapest predicted). With ``strict_memory`` a step that does not fit in HBM is not run
    (OutOfMemoryError). Of HBM the share ``memory_reserve`` is for others than the step: the
    driver's context, buffers of collectives, gaps between blocks.
    ``recompute`` says what of forward is computed again before backward: "none", "selective",
    "full", or so many blocks: to its end, or with ``early_stop`` as far as backward needs it.
    Of either model, ``mode`` is training or inference (forward
    alone), and ``staging`` the pipeline that is asked for (none: every device works on every
    layer); ``update`` says how plans update weights ("replicated", "sharded" or "auto"; "":
    as they are made). ``paces`` say how many times as long each place of a pipeline takes to
    compute (none: none takes longer). Stages go on "beside" their ``sends``, or these are "waited
    for", or go in a "rendezvous" (``stage_sends``); "": as without a stack.
    Raises SimulationError for a value that an option cannot have.
    """

    model: Model = "published"
    overlap: bool = True
    whole_shards: bool = True
    bucket_bytes: float | None = None
    algorithm: str = "auto"
    strict_memory: bool = False
    staging: Staging | None = None
    mode: str = "training"
    update: str = ""
    recompute: str = "none"
    early_stop: bool = False
    update_order: str = ""
    memory_reserve: float = 0.0
    paces: tuple[float, ...] = ()
    sends: Sends | Literal[""] = ""

    def __post_init__(self) -> None:
        for name, (is_valid, words) in RULES.items():
            if not is_valid(value := getattr(self, name)):
                raise SimulationError(f"execution: {name}={repr(value)[:80]}: must be {words}")

    def __str__(self) -> str:
        """The model and whatever is not the default, as "deployed, overlap none"."""
        words: list[str] = [self.model]
        if not self.overlap:
            words.append("overlap none")
        if not self.whole_shards:
            words.append("shards exact")
        if self.bucket_bytes is not None:
            words.append(f"bucket {format_quantity(self.bucket_bytes, 'B', 6)}")
        if self.update_order:
            words.append(f"update order {self.update_order}")
        if self.algorithm != "auto":
            words.append(f"algorithm {self.algorithm}")
        if self.update:
            stage = ZERO_STAGE.get(self.update)
            words.append(f"ZeRO {stage}" if stage else f"update {self.update}")
        if self.staging:
            words.append(str(self.staging))
        if self.recompute != "none":
            early = " as far as needed" if self.early_stop else ""
            words.append(f"recompute {self.recompute}{early}")
        if self.inference:
            words.append("inference")
        return ", ".join(words)

    @property
    def inference(self) -> bool:
        """Whether a step is a forward pass, without gradients and updates."""
        return self.mode == "inference"

    def bucket_of(self, planned: float | None = None) -> float:
        """Bytes of a bucket of gradients: as asked for, else as a plan has it, else the usual."""
        found = planned if self.bucket_bytes is None else self.bucket_bytes
        return BUCKET_BYTES if found is None else found

    def stage_sends(self, schedule: str, virtual: int = 1, *, chain: bool = True) -> Sends:
        """How stages send under a schedule, with so many at each place.

        Whoever does not overlap waits for what it sends; with overlap as the stack says, but
        interleaved stages send beside computing. In a rendezvous stages are a ``chain`` of 1F1B,
        each of which sends the next one a tensor, or two might wait for each other for ever.
        """
        if self.model != "deployed":
            return "beside"
        alone = virtual == 1
        if self.overlap:
            return "waited for" if self.sends == "waited for" and alone else "beside"
        in_turn = self.sends == "rendezvous" and alone and chain and schedule == "1f1b"
        return "rendezvous" if in_turn else "waited for"

    @property
    def computing(self) -> ComputingOptions:
        """What of it says which operators a step has."""
        return {
            "inference": self.inference,
            "recompute": self.recompute,
            "early_stop": self.early_stop,
        }

    @property
    def ignores(self) -> Mapping[str, str]:
        """Topics of a spec that these rules do not read, each with the reason as a sentence."""
        exact = {} if self.whole_shards else EXACT_IGNORES
        return {**IGNORES[self.model], **exact}

    def planned(self, array: Array) -> Array:
        """The array as planners see it: boards with their ports, or cores with real wires."""
        return by_core(array) if self.model == "deployed" else array


PUBLISHED = Execution()
DEPLOYED = Execution("deployed")


def usual(array: Array) -> Execution:
    """The execution model that an array is for."""
    return deployed(array) if array.model == "deployed" else PUBLISHED


def deployed(array: Array) -> Execution:
    """The deployed model as the array's software stack uses it, where it has one."""
    stack = array.stack or Stack()
    return replace(
        DEPLOYED,
        overlap=DEPLOYED.overlap if stack.overlap is None else stack.overlap,
        bucket_bytes=stack.bucket_bytes,
        early_stop=stack.early_stop,
        update_order="" if array.stack is None else stack.update_order,
        memory_reserve=stack.memory_reserve,
        sends=stack.sends or "",
    )

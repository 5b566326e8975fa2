"""A step's time as people compare it: samples and tokens a second, and the share of the peak."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from experiments.studies.case import Case
    from simulator import Timeline

FLOPS_PER_MAC = 6
"""Of training, for each multiply-accumulate of the forward pass.

Two FLOPs in each of three products: forward, the inputs' gradients, the weights'
gradients. Nothing that is computed twice counts, nor do norms, activations or
the optimizer: the "model FLOPs" of Chowdhery et al. (PaLM, 2022, appendix B).
"""
CONVENTION = (
    "Share of peak (MFU): 6 FLOPs for each multiply-accumulate of a forward pass (2 each forward, "
    "for inputs' and for weights' gradients; attention whole, causal or not; nothing recomputed), "
    "over the sum of all peaks."
)

ALL_COMPUTED = (
    "With all computed (HFU): the FLOPs of all products that cores did, over the same peaks: what "
    "is computed again counts, what fused causal attention leaves out does not."
)

OF_INFERENCE = (
    "Share of peak: 2 FLOPs for each multiply-accumulate of a forward pass, over the sum of all "
    "peaks."
)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of a whole array; ``tokens_per_s`` is None where samples are no sequences of tokens.

    ``share_of_peak`` is model FLOPs a second over the sum of the accelerators' peaks, each
    in the format that it computes in (see ``CONVENTION``). NaN of a step that takes no time.
    """

    samples_per_s: float
    tokens_per_s: float | None
    share_of_peak: float

    def __str__(self) -> str:
        rates = [f"{readable(self.samples_per_s)} samples/s"]
        if self.tokens_per_s is not None:
            rates.append(f"{readable(self.tokens_per_s)} tokens/s")
        return ", ".join([*rates, f"{self.share_of_peak:.1%} of peak"])


def readable(rate: float) -> str:
    """Four digits, or all before the point."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def computed(case: Case, timeline: Timeline) -> dict[str, float | None]:
    """Tokens a second of each chip, and the share of the peak with all that cores computed.

    The latter counts what is computed again, and of causal attention what is computed of
    it, as hardware does ("hardware FLOPs"): Korthikanti et al. 2022, appendix A.
    """
    group, iteration_s = case.array.group, timeline.iteration_s or math.nan
    board = group.unit == "board"
    chips = sum(count * (device.chips if board else 1) for device, count in group.kinds)
    rate = throughput(case, iteration_s).tokens_per_s
    flops = sum(total.flops for total in timeline.totals().values()) / timeline.batches
    return {
        "tokens_per_s_per_chip": None if rate is None else rate / chips,
        "computed_share_of_peak": flops / iteration_s / group.peak_flops_per_s,
    }


def throughput(case: Case, iteration_s: float) -> Throughput:
    """What a step of a case in ``iteration_s`` seconds comes to."""
    samples_per_s = case.batch / (iteration_s or math.nan)
    tokens = case.network.tokens
    each = FLOPS_PER_MAC // 3 if case.execution.inference else FLOPS_PER_MAC
    return Throughput(
        samples_per_s,
        None if tokens is None else tokens * samples_per_s,
        each * case.network.macs * samples_per_s / case.array.group.peak_flops_per_s,
    )


def throughput_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table: samples and tokens a second, and both shares of the peak."""
    yield "samples", f"{readable(result['samples_per_s'])} a second"
    if (tokens_per_s := result["tokens_per_s"]) is not None:
        each = readable(result["tokens_per_s_per_chip"])
        yield "tokens", f"{readable(tokens_per_s)} a second, {each} a chip"
    yield "share of peak", f"{result['share_of_peak']:.2%}"
    yield "with all computed", f"{result['computed_share_of_peak']:.2%}"


def conventions(*, inference: bool) -> list[str]:
    """What the shares of the peak count, a sentence each."""
    return [OF_INFERENCE if inference else CONVENTION, ALL_COMPUTED]

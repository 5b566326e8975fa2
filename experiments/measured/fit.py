"""The constants: which share of their peak products reach, by chip and format, and by stack.

A row's step is close to a + b / share (products at that share, and all else), which two
simulations tell. So constants are found without more of them; ``papers calibrate`` simulates a
few rows again where that line bends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from experiments.measured.case import chips_of
from experiments.measured.machine import MACHINES, lineage, stack_of
from experiments.measured.rows import Row
from experiments.measured.section import grouped, relative
from experiments.measured.split import precision_of
from hardware.schema import NARROW, PRECISIONS

CLOSE = 2e-3
"""How near a row's line comes to a step that is simulated, of its time."""
LEAST, MOST = 0.01, 1.0
"""Efficiencies that make sense."""
PROBES = (0.5, 0.8)
"""Shares at which calibration rows are simulated."""
PRIOR = 0.25
"""How many rows that say "as all stacks do" a stack's own rows are weighed against."""
WIDEST = 0.7
"""Of a stack's factor, the logarithm at most: half to twice."""
BITS = {name: 8 * NARROW.get(name, width) for name, width in PRECISIONS.items()}
"""Of a number in a format; tf32 takes as much room and half of bf16's peak."""
UNKNOWN = 0.6
"""Where neither a chip nor one with its cores is in the calibration rows."""
_CLOSE = 1e-8
_MOST_STEPS = 60


@dataclass(frozen=True, slots=True)
class Probed:
    """A calibration row: its measured seconds, and those at two ``shares``."""

    row: Row
    seconds: tuple[float, float]
    shares: tuple[float, float] = PROBES

    def step_s(self, share: float) -> float:
        """Seconds at a share, on the line through the two."""
        low, high = (1 / probe for probe in self.shares)
        slope = (self.seconds[0] - self.seconds[1]) / (low - high)
        return self.seconds[1] + slope * (1 / share - high)

    def error(self, share: float) -> float:
        """Signed and relative."""
        return relative(self.step_s(share), self.row.step_s or math.nan)

    def through(self, share: float, seconds: float) -> Probed:
        """With a line that comes ``CLOSE`` to these seconds, too.

        If its own does not it goes through them instead of those of the farther share.
        """
        if abs(relative(self.step_s(share), seconds)) < CLOSE:
            return self
        kept = min((0, 1), key=lambda k: abs(1 / self.shares[k] - 1 / share))
        return replace(
            self, seconds=(seconds, self.seconds[kept]), shares=(share, self.shares[kept])
        )


@dataclass(frozen=True, slots=True)
class Constants:
    """Shares of peak by chip and format, and what software makes of a chip's (a factor).

    ``stacks`` are habits that several years share; ``releases`` are a framework's of a year,
    where rows of it were measured, as "Megatron-DeepSpeed 2023".
    """

    shares: Mapping[tuple[str, str], float]
    stacks: Mapping[tuple[str, str], float]
    releases: Mapping[tuple[str, str], float]

    def share(self, row: Row) -> tuple[float, tuple[str, ...]]:
        """A row's share of its peak, and what of it is taken from elsewhere."""
        asked = (row.hw, format_of(row))
        stack, _ = stack_of(row)
        for chip in (row.hw, MACHINES[row.hw].cores):
            known = [format_ for of, format_ in self.shares if of == chip]
            if known:
                of = (chip, min(known, key=lambda one: abs(math.log(BITS[one] / BITS[asked[1]]))))
                stacks = [one for one in lineage(stack) if (one, chip) in self.stacks]
                usual = self.stacks[stacks[0], chip] if stacks else 1.0
                share = self.shares[of] * self.releases.get((release(row), chip), usual)
                said = () if of == asked else (f"share of {' '.join(of)}",)
                return min(share * carried(of, asked), 1.0), said
        return UNKNOWN, (f"share {UNKNOWN}",)

    def knows(self, chip: str) -> bool:
        """Whether a row for calibration is of a chip, or of one with its cores."""
        asked = {chip, MACHINES[chip].cores}
        return any(of in asked for of, _ in self.shares)

    def to_json(self) -> dict[str, float]:
        """By name: a chip and a format, or a stack."""
        chips = {f"{chip} {format_}": share for (chip, format_), share in self.shares.items()}
        software = {**self.stacks, **self.releases}
        return chips | {f"{name} on {chip}": factor for (name, chip), factor in software.items()}


@lru_cache(maxsize=256)
def carried(known: tuple[str, str], asked: tuple[str, str]) -> float:
    """By what a share of peak is multiplied where a chip and its format are others.

    Large products take all the power that a board may have. The same cores do as many more
    FLOPs as they have more watts, and in a format of half the bits twice as many. B200 (1,000 W,
    4.5 PFLOP/s in fp8) at a share of 0.5 does 2.25 PFLOP/s. GB300 (1,400 W) does 3.15 then,
    0.63 of its 5, and in fp4 6.3, 0.42 of its 15. Of H100 the calibration rows say 0.65 of
    peak at 700 W and 0.54 at 500 W (bf16; 0.46 by this rule), 0.59 and 0.47 (fp8; 0.42).
    """
    if known == asked:
        return 1.0
    (chip, format_), (other, to_format) = known, asked
    of, to = MACHINES[chip], MACHINES[other]
    watts = to.watts / of.watts if of.watts and to.watts else 1.0
    if BITS[to_format] > BITS[format_]:  # perhaps without tensor cores: the share stays
        return watts * of.peak(to_format) / to.peak(to_format)
    bits = BITS[format_] / BITS[to_format]
    return watts * bits * of.peak(format_) / to.peak(to_format)


def format_of(row: Row) -> str:
    """The format whose peak a row's products have; fp16 and bf16 have the same on all chips."""
    format_, _ = precision_of(row)
    return "bf16" if format_ == "fp16" else format_


def chip_of(probed: Probed) -> tuple[str, str]:
    """The chip and the format whose share a row tells."""
    return chips_of(probed.row), format_of(probed.row)


def release(row: Row) -> str:
    """A framework of a year, as its rows name it."""
    return f"{row.framework} {row.year or ''}".strip()


def fitted(probed: Sequence[Probed]) -> Constants:
    """A share for each chip and format, then factors of software on a chip, on the same rows.

    A stack's factor is drawn towards one, as by ``PRIOR`` rows more that are right with one;
    a release's in the same way towards that of its stack.
    """
    chips = grouped(probed, chip_of)
    shares = {key: common_share(rows) for key, rows in chips.items()}

    def factor(rows: Sequence[Probed], usual: float = 1.0) -> float:
        """Rows that wait for their host or for memory say little of it, and change it little."""

        def loss(log: float) -> float:
            found = [usual * shares[chip_of(one)] * math.exp(log) for one in rows]
            errors = [one.error(min(share, 1.0)) for one, share in zip(rows, found, strict=True)]
            return math.fsum(error * error for error in errors) + PRIOR * log * log

        return usual * math.exp(least(loss, -WIDEST, WIDEST))

    by_stack = grouped(probed, lambda one: (stack_of(one.row)[0], chips_of(one.row)))
    stacks = {key: factor(rows) for key, rows in by_stack.items()}
    releases = {
        key: factor(rows, stacks[stack_of(rows[0].row)[0], chips_of(rows[0].row)])
        for key, rows in grouped(probed, lambda one: (release(one.row), chips_of(one.row))).items()
    }
    return Constants(shares, stacks, releases)


def least(loss: Callable[[float], float], low: float, high: float, close: float = 1e-6) -> float:
    """Where a function of one valley is least, by thirds, until it is so ``close``."""
    while high - low > close:
        third = (high - low) / 3
        if loss(low + third) < loss(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def common_share(rows: Sequence[Probed]) -> float:
    """The one share with the least sum of squared errors."""
    return fit_efficiency(lambda share: [one.error(share) for one in rows])


def fit_efficiency(errors: Callable[[float], Sequence[float]]) -> float:
    """The efficiency within 0.01...1 with the least sum of squared ``errors``.

    In the time per byte, 1 / efficiency, predictions are convex and grow, and
    straight wherever no operator changes from computing to moving. So each
    step takes their chords as straight lines (Gauss-Newton); begun where
    everything moves, it comes down to a single row's root from one side. Each
    call of ``errors`` may be a simulation: there are about ten.
    """
    last, now = 1 / LEAST, 0.5 / LEAST
    before = errors(1 / last)
    for _ in range(_MOST_STEPS):
        found = errors(1 / now)
        slopes = [(b - a) / (now - last) for a, b in zip(before, found, strict=True)]
        steepness = sum(slope * slope for slope in slopes)
        if not steepness:
            break
        step = sum(e * slope for e, slope in zip(found, slopes, strict=True)) / steepness
        last, now, before = now, min(max(now - step, 1 / MOST), 1 / LEAST), found
        if abs(now - last) <= _CLOSE * now:
            break
    return 1 / now

"""The axes that are asked for: how many ways each of them splits a training step."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from planners.errors import PlanError

AXES = "axes"
"""The planner that plans them."""
SPLITTING = ("tp", "cp", "dp", "pp")
"""Axes that devices are counted along, innermost (the nearest neighbours) first, as usual."""
MEANING = {
    "dp": "samples",
    "pp": "stages of layers",
    "tp": "heads and features",
    "sp": "positions of what tp leaves whole: a flag",
    "cp": "positions",
    "vp": "stages at each place of a pipeline",
    "ep": "experts, within dp",
    "etp": "features of each expert: 1 leaves them whole, else as tp",
}
FLAG = "sp"
MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Axes:
    """How many ways a step is split along each axis, as Megatron calls them.

    ``dp`` splits samples, ``pp`` layers into stages (``vp`` of them at each place), ``tp``
    heads and features, ``ep`` experts: among devices of the axis ``dp``, which it divides, or
    (``over_tp``) of ``dp`` and ``tp`` together, where experts are whole on each device: where
    ``ep`` does not divide ``dp``, or ``etp`` is 1 (0: as many as ``tp``, if that can be).
    ``cp`` splits the positions of a sequence in all layers, ``sp`` among the devices of
    ``tp`` in those that ``tp`` leaves whole. A ``dp`` of 0 is as many as the array has
    devices left.
    """

    dp: int = 0
    pp: int = 1
    tp: int = 1
    vp: int = 1
    ep: int = 1
    cp: int = 1
    sp: bool = False
    etp: int = 0

    @classmethod
    def parse(cls, text: str) -> Axes:
        """Axes as ``dp=16,pp=8,tp=8`` in any order, with commas or blanks; raises PlanError."""
        found: dict[str, Any] = {}
        for part in text.replace(",", " ").split():
            name, equals, number = part.partition("=")
            if name not in MEANING:
                known = ", ".join(f"{axis} ({what})" for axis, what in MEANING.items())
                raise PlanError(f"parallel={text}: no axis {name!r}; there are {known}")
            if name in found:
                raise PlanError(f"parallel={text}: {name} is there twice")
            if name == FLAG and not equals:
                found[name] = True
                continue
            if name == FLAG or not equals or not _is_count(number):
                right = f"be a whole number from 1 to {MOST:,}, as {name}=8"
                raise PlanError(
                    f"parallel={text}: {name} must {'stand alone' if name == FLAG else right}"
                )
            found[name] = int(number)
        if not found:
            raise PlanError(f"parallel={text}: name axes, as dp=4,tp=2")
        return cls(**found)

    def on(self, devices: int, array: str) -> Axes:
        """The same for so many devices, ``dp`` known.

        Raises PlanError where they do not multiply to them, or ``ep`` divides neither ``dp`` nor,
        with all of ``tp``, ``dp`` x ``tp``.
        """
        each = self.tp * self.cp * self.pp
        axes = replace(self, dp=devices // each) if not self.dp and not devices % each else self
        if axes.dp * each != devices:
            raise PlanError(
                f"parallel={self}: {self._product()}, and {array!r} has {devices:,} accelerators; "
                f"{self._remedy(devices)}"
            )
        if axes.vp > 1 and axes.pp == 1:
            raise PlanError(f"parallel={self}: vp={axes.vp} stages at each place need pp, as pp=2")
        if axes.sp and axes.tp == 1:
            raise PlanError(f"parallel={self}: sp is among the devices of tp; say tp, as tp=8")
        if axes.etp not in (0, 1, axes.tp):
            raise PlanError(f"parallel={self}: etp={axes.etp}: 1, or as many as tp={axes.tp}")
        if not axes.splits_experts:
            raise PlanError(f"parallel={self}: {axes._how_experts_are_split()}")
        return axes

    @property
    def over_tp(self) -> bool:
        """Whether experts, each whole, are split among devices of ``tp`` too."""
        return self.dp % self.ep != 0 or self.etp == 1 < self.tp

    @property
    def splits_experts(self) -> bool:
        """Whether ``ep`` divides ``dp``, or ``dp`` x ``tp`` into groups with all of ``tp``.

        The first alone where ``etp`` says that experts are split as ``tp``, else 1 the second.
        """
        if not self.over_tp:
            return True
        return self.etp < 2 and not (self.ep % self.tp or self.dp % self.ep_of_dp)

    @property
    def ep_of_dp(self) -> int:
        """How many ways experts are split along ``dp``."""
        return self.ep // self.tp if self.over_tp else self.ep

    def _how_experts_are_split(self) -> str:
        """What is wrong with ``ep``."""
        among = f"does not divide dp={self.dp}, among whose devices experts are split"
        if self.etp > 1:
            return f"ep={self.ep} {among} where etp={self.etp} splits each as tp"
        if self.etp == 1 < self.tp:
            of_tp = f"of tp={self.tp} that divides dp x tp, {self.dp * self.tp:,}"
            return f"etp=1 leaves experts whole: ep={self.ep} must be a multiple {of_tp}"
        return f"ep={self.ep} {among}, nor dp x tp into groups with all of tp"

    def _product(self) -> str:
        named = [(name, getattr(self, name)) for name in reversed(SPLITTING)]
        parts = [f"{name} {many}" for name, many in named if many > 1]
        product = self.tp * self.cp * self.pp * max(self.dp, 1)
        whole = f" is {product:,}" if len(parts) > 1 else ""
        return f"{' x '.join(parts) or 'one'}{whole}"

    def _remedy(self, devices: int) -> str:
        each = self.tp * self.cp * self.pp
        if devices % each:
            return f"take pp, cp and tp whose product divides {devices:,}"
        return f"dp={devices // each} would fill it"

    def __str__(self) -> str:
        given = [(one.name, getattr(self, one.name), one.default) for one in fields(self)]
        said = [
            name if many is True else f"{name}={many}"
            for name, many, usual in given
            if many != usual
        ]
        return ",".join(said) or "dp=1"


def powers_to(most: int) -> list[int]:
    """Powers of two, from 1 on, that are at most so many; 1 in any case."""
    return [1 << k for k in range(max(most, 1).bit_length())]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= MOST


def order_of(text: str) -> tuple[str, ...]:
    """The order of the axes on the machine, innermost first, as ``tp,cp,dp,pp``.

    An axis cp that is not named is outside tp. Raises PlanError unless it names each
    once, pp as the last: a stage is at one place.
    """
    order = tuple(part.strip() for part in text.split(",")) if text else SPLITTING
    if "cp" not in order and "tp" in order:
        inner = order.index("tp") + 1
        order = (*order[:inner], "cp", *order[inner:])
    if sorted(order) != sorted(SPLITTING) or order[-1] != "pp":
        raise PlanError(
            f"axis-order={text}: name each of {', '.join(SPLITTING)} once, innermost first and pp "
            "last (a stage's devices are neighbours)"
        )
    return order

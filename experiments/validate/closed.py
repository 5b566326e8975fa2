"""Collectives on the event engine beside formulas, and beside another simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

from experiments.validate.section import Section
from hardware import Array, Group, Topology, Wires, load_array
from simulator import chosen, closed_form, run_alone

SIZE_BYTES = 1e8
LATENCIES_S = (0.0, 5e-7)
REDUCING = ("all-reduce", "reduce-scatter", "all-gather")
SIZES = ((2,), (3,), (8,), (64,), (100,), (1024,))
POWERS = ((2,), (8,), (64,), (1024,))
RINGS = SIZES[1:]
"""A ring of two has one cable: nothing goes both ways."""
FULL = ((2,), (8,), (64,))
"""Every pair has links of its own: few nodes."""
TORI = ((4, 4), (8, 4), (5, 7), (32, 16), (32, 32))
EXACT: tuple[tuple[str, str, str, tuple[tuple[int, ...], ...]], ...] = (
    *((collective, "ring", "ring", SIZES) for collective in REDUCING),
    *(("all-reduce", "ring", kind, SIZES) for kind in ("switch", "tree")),
    ("all-reduce", "ring", "fully_connected", FULL),
    *((collective, "ring-two-way", "ring", RINGS) for collective in REDUCING),
    *(("all-reduce", "recursive-doubling", kind, POWERS) for kind in ("switch", "tree")),
    ("all-reduce", "recursive-doubling", "fully_connected", FULL),
    *((collective, "halving-doubling", "switch", POWERS) for collective in REDUCING),
    ("all-reduce", "halving-doubling", "tree", POWERS),
    ("all-reduce", "halving-doubling", "fully_connected", FULL),
    *((collective, "torus-one-way", "torus", TORI) for collective in REDUCING),
    *((collective, "torus", "torus", TORI) for collective in REDUCING),
    *(("all-reduce", "direct", kind, FULL) for kind in ("switch", "fully_connected")),
    *(("all-to-all", "direct", kind, FULL) for kind in ("switch", "fully_connected")),
    *(("broadcast", "binomial", kind, FULL) for kind in ("switch", "fully_connected")),
)
"""Collective, algorithm, topology and its shapes, where a formula is exact."""

INDEPENDENT = (
    ("ring of 8", 8, 0.0, 3_259_635e-9),
    ("ring of 64", 64, 0.0, 3_667_105e-9),
    ("ring of 8, 500 ns a hop", 8, 5e-7, 3_259_635e-9 + 14 * 5e-7),
    ("ring of 64, 500 ns a hop", 64, 5e-7, 3_667_105e-9 + 126 * 5e-7),
)
"""ASTRA-sim 2.0 (analytical back end): one-way all-reduce of 100,000,000 B, 50 GiB/s a link."""


@dataclass(frozen=True, slots=True)
class Exact:
    """One collective and what its formula says; ``error`` is relative and signed."""

    collective: str
    algorithm: str
    topology: str
    n: int
    shape: tuple[int, ...]
    latency_s: float
    phases: int
    simulated_s: float
    closed_form_s: float

    @property
    def error(self) -> float:
        """Relative to the formula."""
        return self.simulated_s / self.closed_form_s - 1


@dataclass(frozen=True, slots=True)
class Other:
    """One case of another simulator, and ours."""

    simulator: str
    case: str
    theirs_s: float
    ours_s: float

    @property
    def error(self) -> float:
        """Relative to the other."""
        return self.ours_s / self.theirs_s - 1


def closed_forms(progress: Callable[[str], None]) -> Iterator[Exact]:
    """Every collective of ``EXACT``, without and with latency."""
    ((device, _),) = load_array("ring-8").group.kinds
    for collective, algorithm, kind, shapes in EXACT:
        for shape in shapes:
            for latency_s in LATENCIES_S:
                node = replace(device, network_latency_s=latency_s)
                grid = shape if kind == "torus" else ()
                group = Group(((node, prod(shape)),))
                yield _exact(
                    Wires(Array(kind, "", group, topology=Topology(kind, shape=grid))),
                    collective,
                    algorithm,
                    shape,
                )
        progress(f"{collective} {algorithm}")


def _exact(wires: Wires, collective: str, algorithm: str, shape: tuple[int, ...]) -> Exact:
    _, phases = chosen(wires, collective, wires.nodes, SIZE_BYTES, algorithm)
    wanted_s = closed_form(wires, collective, wires.nodes, SIZE_BYTES, algorithm)
    if wanted_s is None:
        raise LookupError(f"no formula for {collective} {algorithm} on a {wires.topology.kind}")
    latency_s = wires.array.group.kinds[0][0].network_latency_s
    simulated_s, _ = run_alone(wires, phases)
    return Exact(
        collective,
        algorithm,
        wires.topology.kind,
        len(wires.nodes),
        shape,
        latency_s,
        len(phases),
        simulated_s,
        wanted_s,
    )


def independent() -> Iterator[Other]:
    """ASTRA-sim's values and ours."""
    for case, n, latency_s, theirs_s in INDEPENDENT:
        settings = [f"devices.0.count={n}", f"topology.latency={latency_s * 1e9:g} ns"]
        wires = Wires(load_array("ring-8", settings))
        _, phases = chosen(wires, "all-reduce", wires.nodes, SIZE_BYTES, "ring")
        yield Other("ASTRA-sim 2.0", case, theirs_s, run_alone(wires, phases)[0])


def exact_section(found: list[Exact]) -> Section:
    """A line for each collective, algorithm and topology; JSON has every case."""
    lines: dict[tuple[str, str, str], list[Exact]] = {}
    for case in found:
        lines.setdefault((case.collective, case.algorithm, case.topology), []).append(case)
    rows = [
        {
            "collective": collective,
            "algorithm": algorithm,
            "topology": topology,
            "n": ", ".join(dict.fromkeys("x".join(map(str, case.shape)) for case in cases)),
            "largest error": f"{max((case.error for case in cases), key=abs):+.1e}",
        }
        for (collective, algorithm, topology), cases in lines.items()
    ]
    worst = max(abs(case.simulated_s - case.closed_form_s) / case.phases for case in found)
    remark = (
        f"{len(found)} cases of {SIZE_BYTES / 1e6:g} MB, each without and with 500 ns of latency: "
        f"at most {worst * 1e12:.2f} ps a phase off (times are whole picoseconds, rounded up)."
    )
    data = [asdict(case) | {"error": case.error} for case in found]
    return Section(
        "Collectives: simulated against closed forms", rows, (remark,), {"closed_forms": data}
    )


def independent_section(found: list[Other]) -> Section:
    """A line for each case."""
    rows: list[dict[str, Any]] = [
        {
            "simulator": case.simulator,
            "all-reduce of 100 MB": case.case,
            "theirs [ns]": f"{case.theirs_s * 1e9:,.0f}",
            "ours [ns]": f"{case.ours_s * 1e9:,.0f}",
            "error": f"{case.error:+.5%}",
        }
        for case in found
    ]
    data = [asdict(case) | {"error": case.error} for case in found]
    return Section("Another simulator", rows, (), {"independent": data})

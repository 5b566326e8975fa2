"""PipeDream's toy event model of VGG-16: four steady periods.

Stage times are sums of the profile that PipeDream measured (minibatch 128,
experiments/published/profiles); links are pure latency, nothing is summed. The periods were
computed by another program than ours (issue 12, design note of pipelines, section 2) and are
given to six digits.
"""

from pathlib import Path

import pytest

from simulator import run
from simulator.analysis.period import micro_batch_ends, steady_period
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program

PROFILE = Path(__file__).parents[3] / "experiments" / "published" / "profiles" / "vgg16.txt"
GIGABYTE = 1e9


def layers() -> list[tuple[str, float, float, float]]:
    """Node, forward and backward (milliseconds), activations (bytes), from the first on.

    VGG-16 is a chain whose nodes are numbered in order; the input takes part in nothing.
    """
    found = []
    for line in PROFILE.read_text().splitlines():
        if line.startswith("\t") or " -- Input" in line:
            continue
        name, _, numbers = line.split(" -- ")
        fields = dict(part.split("=") for part in numbers.split(", "))
        found.append(
            (
                name,
                float(fields["forward_compute_time"]),
                float(fields["backward_compute_time"]),
                float(fields["activation_size"]),
            )
        )
    return sorted(found, key=lambda one: int(one[0].removeprefix("node")))


def stages(*behind: str) -> tuple[list[Times], list[float]]:
    """Stage times of cuts behind these nodes (picoseconds), and the bytes that cross each."""
    times, crossing, here = list[Times](), list[float](), [0.0, 0.0]
    for name, forward, backward, activations in layers():
        here[0] += forward
        here[1] += backward
        if name in behind:
            times.append(Times(round(here[0] * 1e9), round(here[1] * 1e9), 0))
            crossing.append(activations)
            here = [0.0, 0.0]
    times.append(Times(round(here[0] * 1e9), round(here[1] * 1e9), 0))
    assert len(crossing) == len(behind)
    return times, crossing


@pytest.mark.parametrize(
    ("replicas", "behind", "bytes_per_s", "wanted_s"),
    [
        ((3, 1), ("node18",), 1.25 * GIGABYTE, 0.171413),
        ((3, 1), ("node18",), None, 0.171413),
        ((15, 1), ("node34",), None, 0.044159),
        ((1, 1, 1, 1), ("node11", "node22", "node24"), None, 0.381063),
        ((1, 1, 1, 1), ("node11", "node22", "node24"), 1.0 * GIGABYTE, 0.494805),
    ],
)
def test_steady_periods(
    replicas: tuple[int, ...],
    behind: tuple[str, ...],
    bytes_per_s: float | None,
    wanted_s: float,
) -> None:
    times, crossing = stages(*behind)
    sends = [0 if bytes_per_s is None else round(a / bytes_per_s * 1e12) for a in crossing]
    many = 32 * replicas[0]
    timeline = run(program(pipeline_of("pipedream", len(times), 1, replicas), times, sends, many))
    ends = micro_batch_ends(timeline)
    assert len(ends) == many
    middle = replicas[0] * 8
    measured = (ends[2 * middle] - ends[middle]) / middle / 1e12
    assert measured == pytest.approx(wanted_s, rel=1e-4)
    period = steady_period(timeline, many - sum(replicas) - 1, replicas[0])
    assert period is not None
    assert period.micro_batch_ps / 1e12 == pytest.approx(wanted_s, rel=1e-4)
    assert period.micro_batch_ps / 1e12 == pytest.approx(measured, rel=1e-9)


def test_capped_minibatches_in_flight_make_the_pipe_wait_for_its_links() -> None:
    """The last case is no stage's time, and no link's: of 4 in flight each goes there and back."""
    times, crossing = stages("node11", "node22", "node24")
    slowest = max(t.forward + t.errors for t in times) / 1e12
    assert slowest == pytest.approx(0.381063, rel=1e-5)
    assert max(crossing) * 2 / GIGABYTE == pytest.approx(0.411, abs=1e-3)

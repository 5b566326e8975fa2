from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Wires
from simulator.engine.interconnect import Interconnect, fair_rates
from simulator.engine.jobs import Job, Load
from tests.routes import route
from tests.simulator.slow_network import PS, Transfer, fair, finish_times
from tests.wiring import wires


def load(crosses: dict[int, Any]) -> Load:
    links = sorted(crosses)
    return Load(np.array(links, dtype=np.int64), np.array([float(crosses[i]) for i in links]))


def phase(transfer: Transfer) -> Job:
    crosses = load(dict(transfer.crosses))
    return Job("", crosses, float(transfer.flow_bytes), transfer.latency / PS)


def run(
    transfers: Sequence[Transfer], bandwidth: Sequence[float]
) -> tuple[list[int], Interconnect, list[str]]:
    """Finish times in order of transfers, the network, and what ended in which order."""
    env = simpy.Environment(initial_time=0)
    network = Interconnect(env, np.array(bandwidth, dtype=np.float64))
    ends: dict[int, int] = {}

    def sender(i: int) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(transfers[i].arrival)
        yield network.submit(phase(transfers[i]))
        ends[i] = int(env.now)

    for i in range(len(transfers)):
        env.process(sender(i))
    env.run()
    return [ends[i] for i in range(len(transfers))], network, [str(i) for i in ends]


@st.composite
def traffic(draw: st.DrawFn, most: int = 7) -> tuple[Wires, list[Transfer]]:
    """Messages between cores of a random topology, arriving at a few instants."""
    w = draw(wires(most=4))
    core = st.integers(0, w.cores - 1)
    transfers = []
    for _ in range(draw(st.integers(1, most))):
        a, b = draw(core), draw(core)
        links = route(w, a, b)
        if not links:
            continue
        transfers.append(
            Transfer(
                arrival=draw(st.sampled_from((0, 0, 1000, 10**6, 10**6 + 1))),
                flow_bytes=draw(st.integers(1, 10**6)),
                crosses={link: Fraction(links.count(link)) for link in links},
                latency=draw(st.sampled_from((0, 0, 7, 500_000))),
            )
        )
    return w, transfers


@settings(deadline=None, max_examples=60)
@given(traffic())
def test_random_transfers_finish_when_the_slow_reference_says(
    case: tuple[Wires, list[Transfer]],
) -> None:
    w, transfers = case
    wanted = finish_times(transfers, [int(b) for b in w.bandwidth])
    got, network, _ = run(transfers, w.bandwidth.tolist())
    # a thousandth of a picosecond is noise, and may move an end by one at every event
    assert got == pytest.approx(wanted, rel=1e-12, abs=2 * len(transfers))
    sent = np.zeros(len(w.bandwidth))
    for transfer in transfers:
        for link, flows in transfer.crosses.items():
            sent[link] += transfer.flow_bytes * float(flows)
    assert network.link_bytes == pytest.approx(sent)
    if transfers:
        first = min(t.arrival for t in transfers)
        through = max(end - t.latency for end, t in zip(got, transfers, strict=True))
        assert ((sent / w.bandwidth) * PS <= through - first + 1).all()


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(
        st.dictionaries(st.integers(0, 5), st.fractions(Fraction(1, 4), 3), min_size=1),
        min_size=1,
        max_size=6,
    ),
)
def test_rates_are_max_min_fair(bandwidth: list[int], jobs: list[dict[int, Fraction]]) -> None:
    """Every job has a full link where nobody is faster: the definition, and the reference."""
    bandwidth = [*bandwidth, *[5] * (6 - len(bandwidth))]
    rates = fair_rates([load(job) for job in jobs], np.array(bandwidth, dtype=np.float64))
    assert rates == pytest.approx([float(r) for r in fair(jobs, bandwidth)], rel=1e-9)
    used = np.zeros(6)
    for job, rate in zip(jobs, rates, strict=True):
        for link, flows in job.items():
            used[link] += float(flows) * rate
    assert (used <= np.array(bandwidth) * (1 + 1e-9)).all()
    for job, rate in zip(jobs, rates, strict=True):
        assert any(
            used[link] >= bandwidth[link] * (1 - 1e-9)
            and all(r <= rate * (1 + 1e-9) for r, j in zip(rates, jobs, strict=True) if link in j)
            for link in job
        )


def test_the_textbook_example() -> None:
    """Two links in a row, a long flow over both, one short flow on the second, wide one."""
    rates = fair_rates([load({0: 1, 1: 1}), load({1: 1}), load({0: 1})], np.array([2.0, 10.0]))
    assert rates.tolist() == [1.0, 9.0, 1.0]


def test_a_job_alone_takes_its_bytes_over_the_slowest_link_and_its_latency() -> None:
    transfer = Transfer(0, 1000, {0: Fraction(1), 1: Fraction(3)}, latency=500)
    assert run([transfer], [1e12, 1e12])[0] == [3000 + 500]


def test_fractions_of_a_picosecond_are_rounded_up() -> None:
    assert run([Transfer(0, 10, {0: Fraction(1)})], [3e12])[0] == [4]


def test_latency_holds_no_link() -> None:
    first = Transfer(0, 1000, {0: Fraction(1)}, latency=10**6)
    second = Transfer(1000, 1000, {0: Fraction(1)})
    assert run([first, second], [1e12])[0] == [1000 + 10**6, 2000]


def test_a_leaving_job_gives_its_share_to_the_others() -> None:
    small, large = Transfer(0, 100, {0: Fraction(1)}), Transfer(0, 300, {0: Fraction(1)})
    assert run([small, large], [1e12])[0] == [200, 400]


def test_a_job_with_several_flows_takes_as_many_shares() -> None:
    one, two = Transfer(0, 300, {0: Fraction(1)}), Transfer(0, 300, {0: Fraction(2)})
    assert run([one, two], [3e12])[0] == [300, 300]


def test_nothing_to_send_is_done_after_its_latency() -> None:
    assert run([Transfer(5, 0, {0: Fraction(1)}, 7), Transfer(5, 9, {}, 0)], [1.0])[0] == [12, 5]


def test_ends_at_one_instant_come_in_order_of_submission() -> None:
    transfers = [Transfer(0, 100, {i: Fraction(1)}) for i in (3, 1, 2, 0)]
    assert run(transfers, [1e12] * 4)[2] == ["0", "1", "2", "3"]


def test_alike_jobs_of_one_instant_are_shared_once() -> None:
    """One look when they come and one when they go: no event for every job's change of rate."""
    env = simpy.Environment(initial_time=0)
    network = Interconnect(env, np.array([1e12]))
    job = phase(Transfer(0, 1000, {0: Fraction(1)}))
    done = [network.submit(job) for _ in range(50)]
    steps = 0
    while env.peek() != float("inf"):
        env.step()
        steps += 1
    assert all(event.processed and event.value is job for event in done)
    assert env.now == 50_000
    assert steps <= 50 + 50 + 2  # appointments forgotten, ends, and two looks


@settings(deadline=None)
@given(traffic(most=1), st.floats(1.0, 8.0))
def test_more_bandwidth_everywhere_never_slows_a_job_alone(
    case: tuple[Wires, list[Transfer]], factor: float
) -> None:
    w, transfers = case
    slow, *_ = run(transfers, w.bandwidth.tolist())
    fast, *_ = run(transfers, (w.bandwidth * factor).tolist())
    assert all(f <= s for f, s in zip(fast, slow, strict=True))


def events(*submitted: tuple[int, Job]) -> tuple[int, Interconnect]:
    """How many SimPy events jobs take that are submitted at these instants."""
    env = simpy.Environment(initial_time=0)
    network, steps = Interconnect(env, np.full(4, 1e12)), 0
    for at, job in submitted:
        while env.peek() <= at:
            env.step()
            steps += 1
        env._now = at
        network.submit(job)
    while env.peek() != float("inf"):
        env.step()
        steps += 1
    return steps, network


def test_a_job_that_is_alone_is_two_events() -> None:
    """When its bytes are through, and when its latency is over."""
    one, two = (phase(Transfer(0, 1000, {i: Fraction(1)}, 500)) for i in (0, 1))
    assert events((0, one), (10, two), (1000, one))[0] == 6  # its latency holds no link
    assert events((0, one), (999, one))[0] > 4


def test_bytes_of_who_is_met_count_once() -> None:
    both = phase(Transfer(0, 1000, {0: Fraction(1), 1: Fraction(2)}))
    other = phase(Transfer(0, 300, {1: Fraction(1)}))
    _, network = events((0, both), (100, other), (5000, both))
    assert network.link_bytes.tolist() == [2000, 4300, 0, 0]


def test_bytes_are_counted_once_they_are_through() -> None:
    env = simpy.Environment(initial_time=0)
    network = Interconnect(env, np.array([1e12]))
    network.submit(phase(Transfer(0, 1000, {0: Fraction(1)}, 500)))
    counted = []
    for at in (999, 1001):
        env.run(at)
        counted += network.link_bytes.tolist()
    assert counted == [0, 1000]

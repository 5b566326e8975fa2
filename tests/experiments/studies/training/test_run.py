"""Training runs as studies: what they are asked, what they give, and their tables."""

import re
from dataclasses import replace

import pytest

from experiments.output import UsageError, text_of
from experiments.studies.training.run import (
    Trained,
    Training,
    each,
    split_method,
    unread_changes,
    unread_options,
)
from experiments.studies.training.tables import grid, spread, tables
from hardware import load_array
from simulator import DEPLOYED, PUBLISHED, SimulationError, deployed
from simulator.asynchronous.algorithms.prague import Prague
from workloads import load_network

ASKED = Training(load_network("lenet"), "all-reduce", load_array("ring-8"), 8, 10, DEPLOYED)


def run(method: str = "all-reduce", *slow: str, **more: object) -> Trained:
    return replace(ASKED, method=method, slowdowns=slow, **more).run()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("hop", "hop", {}),
        ("prague:group=4", "prague", {"group": "4"}),
        ("hop:tokens=3:backup=1", "hop", {"tokens": "3", "backup": "1"}),
        ("package.module:Method", "package.module:Method", {}),
        ("package.module:Method:a=1:b=x=y", "package.module:Method", {"a": "1", "b": "x=y"}),
    ],
)
def test_options_follow_the_name(text: str, name: str, options: dict[str, str]) -> None:
    assert split_method(text) == (name, options)
    assert list(split_method(text)[1]) == list(options)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"workers": 0}, "--workers 0: at least one worker"),
        ({"iterations": 0}, "--iterations 0: within 1"),
        ({"iterations": 10**8}, "within 1…12,500,000"),
        ({"seed": -1}, "--seed -1: 0 or more"),
    ],
)
def test_runs_that_cannot_be(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(**wrong)  # type: ignore[arg-type]


def test_the_method_itself() -> None:
    assert replace(ASKED, method="prague:group=4:nodes=yes").way == Prague(group=4, nodes=True)


def test_what_came_of_it() -> None:
    found = run("all-reduce", "worker:3:5")
    step = found.run.cluster.steps[0].duration_ps / 1e12
    assert found.time_s == pytest.approx(10 * 5 * step, rel=0.5)
    assert found.to_dict()["everybody_s"] == found.time_s
    assert found.iterations_per_s == pytest.approx(80 / found.time_s)
    assert found.each_per_s == [pytest.approx(10 / found.time_s)] * 8
    # seven workers wait while one computes four steps longer
    assert found.waiting["the others"] == pytest.approx(7 * 10 * 4 * step)
    assert found.computing_s == pytest.approx((7 + 5) * 10 * step)
    spent = found.computing_s + sum(found.waiting.values())
    assert spent == pytest.approx(8 * found.time_s)
    # whatever the algorithm, everybody sends at least 2 (n - 1) / n of the gradients
    least = 2 * 7 / 8 * found.run.cluster.gradient_bytes * 10
    assert all(moved >= 0.999 * least for moved in found.bytes.values())
    assert len(found.bytes) == 8
    assert found.curve == ()
    assert found.to_target_s is None
    assert found.rate is None
    assert found.notes == []


def test_learning_has_a_rate_and_a_target() -> None:
    found = run(learn="quadratic", loss=5.0)
    assert found.rate == 0.05
    assert found.curve[0][1] > 5 > found.curve[-1][1]
    assert found.to_target_s is not None
    assert run(learn="quadratic", rate=0.3).rate == 0.3


def test_the_same_draws_for_everybody() -> None:
    asked = replace(ASKED, slowdowns=("lognormal:0.5",), graph="torus", learn="logistic")
    told: list[str] = []
    both = each(asked, ["all-reduce", "d-psgd"])
    first, second = (one.run(lambda: told.append("")) for one in both)
    assert len(told) == 2 * 80  # every hundredth of 80 iterations is one of them
    assert first.asked.graph is None
    assert second.asked.graph == "torus"
    paces = [one.run.slowdowns.pace(3) for one in (first, second)]
    assert paces[0] is not None
    assert paces[1] is not None
    assert [paces[0](k) for k in range(9)] == [paces[1](k) for k in range(9)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"iterations": 0}, "--iterations 0: within 1…12,500,000"),
        ({"iterations": 10**9}, "--iterations 1000000000"),
        ({"workers": 0}, "--workers 0: at least one worker"),
        ({"seed": -1}, "--seed -1: 0 or more"),
        ({"graph": "ring"}, "--graph ring: all-reduce has no communication graph"),
        ({"method": "ssp:bound=-2"}, "option bound=-2"),
        ({"learn": "chess"}, "--learn 'chess'"),
        ({"batch": 0}, "--batch 0"),
    ],
)
def test_what_makes_no_sense(change: dict[str, object], said: str) -> None:
    with pytest.raises((UsageError, SimulationError)) as error:
        replace(ASKED, **change).run()  # type: ignore[arg-type]
    assert said in str(error.value)


def test_notes() -> None:
    assert run(workers=4).notes == [
        "the first 4 boards of ring-8 are workers; 4 have nothing to do"
    ]
    assert "parameter servers beside workers: 2;" in run("ps:shards=2").notes[0]
    assert run("ps:shards=2", workers=6).notes == []
    assert len(run("ps:shards=3", workers=6).notes) == 1


def test_histograms_in_words() -> None:
    assert spread({}) == "none"
    assert spread({"0": 3, "4": 1}) == "1 on average, at most 4"


def lines(*found: Trained) -> list[str]:
    return text_of(*tables([one.to_dict() for one in found])).splitlines()


def test_a_table_of_one() -> None:
    said = "\n".join(lines(run("ad-psgd", "worker:0:5", learn="logistic", loss=0.1)))
    for words in (
        *("each a board, 32 samples", "worker:0:5", "graph", "waiting: an average"),
        *("one worker's step", "gradients", "│ time ", "iterations", "staleness", "computing"),
    ):
        assert words in said
    assert "time to 0.1" in said
    assert "never" in said
    assert "and 3 more links (--format json)" in said  # of eight, five are shown


@pytest.mark.parametrize("method", ["ad-psgd", "all-reduce", "async-ps"])
def test_shares_of_time_are_the_whole(method: str) -> None:
    said = "\n".join(lines(run(method, "random:0.3:6")))
    named = r"(?:computing|waiting: [\w ]+|not finished at the end) +│ +([\d.]+)%"
    assert sum(map(float, re.findall(named, said))) == pytest.approx(100, abs=0.1)


def test_a_table_of_several() -> None:
    found = [run(method, "die:2:1e-4") for method in ("all-reduce", "async-ps", "ad-psgd")]
    rows = [line for line in lines(*found) if line.startswith("│")]
    assert len(rows) == 3
    assert rows[0].rstrip(" │").endswith("yes")
    assert max(map(len, lines(*found)[:-1])) <= 80


def test_a_table_of_a_grid() -> None:
    row = {"hang": None, "time_s": 0.5, "gap": 3, "loss": None}
    (table, *rest) = grid("lenet, 2 runs", (), [row, row | {"hang": "it hangs at 1 s"}])
    assert rest == ["it hangs at 1 s"]
    said = text_of(table)
    assert "lenet, 2 runs" in said
    assert "yes" in said


def test_what_was_changed_and_is_not_read_is_said() -> None:
    read = load_array("ring-8", ["network.bandwidth=1 Gbit/s"])
    assert unread_changes(replace(ASKED, array=read)) == []
    assert unread_changes(ASKED) == []
    papers = ["devices.0.count=8", "devices.0.hbm.capacity=40 GB", "network.bandwidth=1 Gbit/s"]
    peak = replace(ASKED, array=load_array("accpar-homogeneous", papers), execution=PUBLISHED)
    (said,) = unread_changes(peak)
    assert said == "training does not read devices.0.hbm.capacity, which was changed"


def test_options_of_a_step_that_a_run_does_not_read_are_told() -> None:
    asked = replace(ASKED, array=load_array("dgx-1-v100"))
    own = deployed(asked.array)
    assert unread_options(replace(asked, execution=own)) == []
    given = replace(own, overlap=not own.overlap, bucket_bytes=0.0)
    said = unread_options(replace(asked, execution=given))
    assert said == ["training does not read overlap, bucket"]


def test_a_step_that_does_not_fit_is_said_or_an_error() -> None:
    small = load_array("ring-8", ["devices.0.hbm.capacity=1 MB"])
    (said,) = run(array=small).notes
    assert "lenet under all-reduce does not fit in the memory of ring-8" in said
    with pytest.raises(SimulationError, match="does not fit"):
        run(array=small, execution=replace(DEPLOYED, strict_memory=True))


def test_the_execution_models_algorithm_is_that_of_all_reduces() -> None:
    ring = run(execution=replace(DEPLOYED, algorithm="direct"))
    own = run("all-reduce:algorithm=direct")
    assert ring.time_s == own.time_s != run().time_s


@pytest.mark.parametrize(
    ("array", "method", "idle"),
    [
        ("tpu-v3-8", "ad-psgd", True),
        ("tpu-v3-8", "ps", False),
        ("tpu-mixed", "ad-psgd", False),
        ("ring-8", "local-sgd:steps=100", False),
    ],
)
def test_ports_of_boards_count_where_wires_or_servers_have_them(
    array: str, method: str, idle: bool
) -> None:
    """A step on one board asks for its port, which nobody uses."""
    at = load_array(array, ["network.bandwidth=9 Gbit/s", "devices.0.network.latency=3 us"])
    said = unread_changes(replace(ASKED, array=at, method=method, workers=4))
    names = "devices.0.network.latency, network.bandwidth"
    assert said == ([f"training does not read {names}, which was changed"] if idle else [])


def test_who_keeps_the_pace_of_the_slowest_chip() -> None:
    """Who waits for all, at once or when they are too far behind; others have their own pace."""
    where = load_array("h100-cluster", ["nodes=2", "stack=nemo-mlperf"])
    asked = replace(ASKED, array=where, workers=16, iterations=2, execution=deployed(where))
    took = {
        method: replace(asked, method=method).run().run.cluster.steps[0].duration_ps
        for method in ("all-reduce", "ps", "ssp", "d-psgd", "async-ps", "ad-psgd")
    }
    assert took["ps"] == took["ssp"] == took["d-psgd"] == took["all-reduce"]
    assert took["async-ps"] == took["ad-psgd"] < took["all-reduce"]

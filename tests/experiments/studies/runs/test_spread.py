"""Steps of chips that differ by chance, beside quantiles of the slowest and slower devices."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import accelarray
from experiments.api.requests import cases_of
from experiments.output import UsageError
from experiments.studies.case import Case, plan_of, simulated
from experiments.studies.running.runner import Runner
from experiments.studies.runs.spread import spread_fields, spread_rows
from hardware import Array, load_array
from planners import Plan

NETWORK = "gpt2:seq=128:layers=2"
COMMAND = (
    *("simulate", NETWORK, "--array", "h100-cluster", "--set", "nodes=1", "--parallel", "dp=8"),
    *("--batch", "64", "--spread", "variation", "--spread", "links:lognormal:0.2"),
    *("--repeats", "12", "--seed", "7", "--format", "json"),
)


def step(parallel: str = "dp=8", array: str = "h100-cluster", nodes: int = 1) -> tuple[Case, Plan]:
    """A small transformer's step on nodes of eight H100."""
    asked: Any = (NETWORK, [None], array, 64, None, {"nodes": nodes}, {"parallel": parallel})
    (case,) = cases_of(*asked)
    return case, plan_of(case)


def spread(
    parallel: str, *texts: str, repeats: int = 50, seed: int = 0, jobs: int = 1
) -> dict[str, Any]:
    return spread_fields(*step(parallel), texts, repeats, seed, Runner(jobs=jobs))


def slower(array: Array, times: float) -> Array:
    """All chips take so many times as long as the mean of their kind."""
    return array.with_devices(lambda d: replace(d, roofline=replace(d.roofline, slowest=times)))


def test_quantiles_are_those_of_the_slowest_of_eight() -> None:
    """P(slowest of n < x) = Phi(x)^n, and a step is the longer, the slower the slowest is."""
    case, plan = step()
    found = spread("dp=8", "normal:0.1", repeats=150)
    for name, q, within in (("median_s", 0.5, 0.01), ("p90_s", 0.9, 0.02)):
        slowest = 1 + 0.1 * NormalDist().inv_cdf(q ** (1 / 8))
        at = simulated(replace(case, array=slower(case.array, slowest)), plan).iteration_s
        assert found[name] == pytest.approx(at, rel=within)
    assert found["median_s"] < found["p90_s"] < found["p99_s"] <= found["most_s"]


def test_stragglers_come_as_often_as_they_should_and_more_often_with_more_devices() -> None:
    """One of n is slow in 1 - 0.99^n of all steps: 8 %, and 72 % of 128."""
    case, plan = step()
    mean = simulated(replace(case, array=slower(case.array, 1.0)), plan).iteration_s
    slow = simulated(replace(case, array=slower(case.array, 2.0)), plan).iteration_s
    found = spread("dp=8", "random:0.01:2", repeats=300)
    share = (found["mean_s"] - mean) / (slow - mean)
    assert share == pytest.approx(1 - 0.99**8, abs=0.05)
    small, large = found["by_devices"]
    assert (small["devices"], large["devices"]) == (8, 128)
    assert (small["median_s"], large["median_s"]) == (mean, slow)


def test_steps_of_more_devices_are_no_shorter() -> None:
    found = spread("dp=4,pp=2", "normal:0.05", "random:0.02:1.5", repeats=25)["by_devices"]
    for quantile in ("median_s", "p90_s", "p99_s"):
        seconds = [row[quantile] for row in found]
        assert seconds == sorted(seconds)


def test_what_all_do_slower_is_a_slower_array() -> None:
    for parallel in ("dp=8", "dp=4,pp=2"):
        case, plan = step(parallel)
        found = spread(parallel, "random:1:1.5", repeats=2)
        at = simulated(replace(case, array=slower(case.array, 1.5)), plan).iteration_s
        assert found["median_s"] == found["most_s"] == at


def test_slower_links_are_those_of_a_slower_array() -> None:
    rates = [f"topology.levels.0.bandwidth={gb} GB/s" for gb in (100, 25)]
    fast, slow = (load_array("tpu-v5p-slice", ["nodes=1", rate]) for rate in rates)
    asked: Any = (NETWORK, [None], fast, 64, None, (), {"parallel": "dp=64"})
    (case,) = cases_of(*asked)
    plan = plan_of(case)
    found = spread_fields(case, plan, ["links:random:1:4"], 2, 0, Runner())
    at = simulated(replace(case, array=slow), plan).iteration_s
    assert found["median_s"] == pytest.approx(at, rel=1e-9)
    assert found["median_s"] > 1.1 * simulated(case, plan).iteration_s


@pytest.mark.parametrize("parallel", ["dp=8", "dp=4,pp=2"])
def test_chips_keep_their_variation_where_only_links_vary(parallel: str) -> None:
    found, (case, plan) = spread(parallel, "links:normal:0", repeats=2), step(parallel)
    assert found["median_s"] == simulated(case, plan).iteration_s
    more = step(parallel.replace("=8", "=128").replace("=4", "=64"), nodes=16)[0].array
    kinds = [array.group.kinds[0][0].roofline for array in (case.array, more)]
    assert kinds[1].slowest > kinds[0].slowest > 1.0
    at = slower(case.array, kinds[1].slowest)
    largest = simulated(replace(case, array=at), plan).iteration_s
    assert found["by_devices"][-1]["median_s"] == largest


def test_what_replaces_the_variation_says_so() -> None:
    def told(*texts: str) -> tuple[float, bool]:
        found = spread("dp=8", *texts, repeats=1)
        rows = dict(spread_rows(found))
        return found["instead_of_variation"], "spread of chips" in rows

    (device, _), *_ = step()[0].array.group.kinds
    assert told("normal:0.1") == (device.roofline.variation, True)
    for texts in (["variation"], ["variation", "normal:0.1"], ["links:normal:0.1"]):
        assert told(*texts) == (0.0, False)


def two_kinds(times: float) -> Array:
    """Sixteen H100, and sixteen whose products and memory take so many times as long."""
    of_both = ("device=h100-sxm", "links.efficiency=0.8", "network.bandwidth=400 Gbit/s")
    same = [f"devices.{k}.{change}" for k in (0, 1) for change in of_both]
    rates = [
        f"devices.1.roofline.{name}_efficiency={0.8 / times!r}" for name in ("matrix", "memory")
    ]
    return load_array("mixed-a100-h100", ["stack=none", *same, *rates])


def test_a_slow_stage_is_a_stage_of_slower_devices() -> None:
    asked: Any = (NETWORK, [None], two_kinds(1 + 1e-9), 64, None, (), {"parallel": "dp=16,pp=2"})
    (case,) = cases_of(*asked)
    plan = plan_of(case)
    paced = replace(case, execution=replace(case.execution, paces=(1.0, 1.5)))
    one, other = simulated(paced, plan), simulated(replace(case, array=two_kinds(1.5)), plan)
    assert one.iteration_s == pytest.approx(other.iteration_s, rel=1e-7)
    assert one.iteration_s > 1.05 * simulated(case, plan).iteration_s


def test_the_same_seed_gives_the_same_numbers_in_any_number_of_processes() -> None:
    texts = ("variation", "links:lognormal:0.2")
    one = spread("dp=4,pp=2", *texts, repeats=6, seed=3)
    assert spread("dp=4,pp=2", *texts, repeats=6, seed=3, jobs=2) == one
    assert spread("dp=4,pp=2", *texts, repeats=6, seed=4)["mean_s"] != one["mean_s"]


def test_no_hash_changes_a_number() -> None:
    """Failures too: everything that is drawn."""
    words = (*COMMAND, "--mtbf", "100h", "--storage-bandwidth", "1 GB/s", "--spares", "1")
    found = []
    for seed in ("0", "4711"):
        run = subprocess.run(
            [sys.executable, "-m", "accelarray", *words],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        out = json.loads(run.stdout)
        found.append({key: out[key] for key in ("spread", "goodput")})
    assert found[0] == found[1]
    assert found[0]["spread"]["seed"] == found[0]["goodput"]["seed"] == 7


def test_python_has_it_too_and_tells_it() -> None:
    found = accelarray.simulate(
        NETWORK,
        array="h100-cluster",
        set="nodes=1",
        parallel="dp=8",
        batch=64,
        spread=["variation"],
        repeats=5,
    )
    told = found.to_dict()["spread"]
    assert (told["what"], told["repeats"]) == (["variation"], 5)
    assert "spread, 128 devices" in found.summary()
    assert np.isclose(told["median_s"], found.iteration_s, rtol=0.05)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("normal", "--spread normal: expected variation"),
        ("worker:0:5", "--spread worker:0:5: expected variation"),
        ("links:variation", "--spread links:variation: expected variation"),
        ("normal:-1", "--spread 'normal:-1': '-1': a sigma is within"),
        ("links:random:2:2", "--spread 'random:2:2': '2': a probability is within"),
    ],
)
def test_what_varies_otherwise_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        accelarray.simulate(NETWORK, array="h100-cluster", parallel="dp=32", spread=text)
    assert said in str(error.value)


def test_arrays_whose_chips_do_not_vary_are_refused() -> None:
    run = Runner()
    case, plan = step()
    published = replace(case, execution=accelarray.Execution())
    with pytest.raises(UsageError, match="--spread: chips of the published model are alike"):
        spread_fields(published, plan, ["normal:0.1"], 2, 0, run)
    plain = replace(case, array=load_array("h100-cluster", ["nodes=1"]))
    with pytest.raises(UsageError, match=r"--spread variation: device 'h100-sxm' .* has none; say"):
        spread_fields(plain, plan, ["variation"], 2, 0, run)
    units = replace(case, array=load_array("wham-1"))
    with pytest.raises(UsageError, match=r"has \[units\], whose times are fixed"):
        spread_fields(units, plan, ["normal:0.1"], 2, 0, run)

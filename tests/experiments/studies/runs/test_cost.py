"""Dollars and joules of a step and of a run, worked out anew from a step's time and its chips."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelarray
from experiments.cli import main
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.runs.cost import step_cost, step_energy
from experiments.studies.runs.run import Run, check_run, run_fields, run_of
from experiments.studies.unread import warnings
from hardware import Array, Group, Power, SpecError, load_array
from simulator import DEPLOYED, PUBLISHED
from simulator.analysis.exposed_communication import computing_by_kind
from simulator.analysis.stalls import core_steps
from workloads import load_network

STEP = ("gpt2", "--array", "h100-cluster", "--set", "nodes=1", "--parallel", "dp=8")
ONE_BATCH = (*STEP, "--batch", "8", "--micro-batch", "1", "--format", "json")
GPT2 = load_network("gpt2")


def case_on(array: Array, network: str = "gpt2", batch: int = 8) -> Case:
    return Case(load_network(network), "data_parallel", array, batch, execution=DEPLOYED)


def of_kinds(*kinds: tuple[float, Power, int]) -> Array:
    """H100s at some price and power, so many of each."""
    array = load_array("h100-cluster", ["nodes=1"])
    device = array.group.kinds[0][0]
    changed = ((replace(device, price=price, power=power), n) for price, power, n in kinds)
    return replace(array, group=Group(tuple(changed)))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    assert main(["simulate", *ONE_BATCH, *words]) == 0
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)
    return found


def test_a_step_costs_its_seconds_on_eight_chips(capsys: pytest.CaptureFixture[str]) -> None:
    """The price typed beats the catalog's; a run is whole steps of 8 sequences of 1,024."""
    out = run(capsys, "--price", "3.6", "--tokens", "1e9")
    seconds = float(str(out["iteration_s"]))
    cost, energy, whole = out["cost"], out["energy"], out["run"]
    assert cost["usd_per_device_hour"] == pytest.approx(3.6)
    assert cost["usd_per_step"] == pytest.approx(8 * 0.001 * seconds)
    tokens_per_s = 8 * 1024 / seconds
    assert cost["usd_per_trillion_tokens"] == pytest.approx(8 * 0.001 * 1e12 / tokens_per_s)
    assert whole["steps"] == 122_071  # 1e9 / 8,192 = 122,070.3
    assert whole["days"] == pytest.approx(122_071 * seconds / 86_400)
    assert whole["usd"] == pytest.approx(122_071 * 8 * 0.001 * seconds)
    assert whole["mwh"] == pytest.approx(122_071 * energy["j_per_step"] / 3.6e9)
    watts = 71 + float(str(out["computing"])) * (700 - 71)
    assert energy["w_per_device"] == pytest.approx(watts)
    assert energy["j_per_step"] == pytest.approx(8 * seconds * watts)
    assert energy["most_j_per_step"] == pytest.approx(8 * seconds * 700)


def test_python_has_the_same_keywords(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--price", "1", "--tokens", "1e9")
    step = accelarray.simulate(
        "gpt2",
        array="h100-cluster",
        set="nodes=1",
        parallel="dp=8",
        batch=8,
        micro_batch=1,
        price=1.0,
        tokens=1e9,
    )
    found = step.to_dict()
    assert {key: found[key] for key in ("cost", "energy", "run")} == {
        key: out[key] for key in ("cost", "energy", "run")
    }
    assert "at $1 a chip-hour" in " ".join(step.summary().replace("│", " ").split())


@given(
    seconds=st.floats(1e-6, 1e4),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    prices=st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)),
    counts=st.tuples(st.integers(1, 64), st.integers(1, 64)),
    idle=st.floats(1, 100),
)
def test_unlike_devices_each_add_their_own(
    seconds: float,
    shares: tuple[float, float],
    prices: tuple[float, float],
    counts: tuple[int, int],
    idle: float,
) -> None:
    powers = Power(500.0, idle), Power(300.0, 30.0)
    array = of_kinds(*zip(prices, powers, counts, strict=True))
    outputs = {"iteration_s": seconds, "computing_by_kind": shares}
    case = case_on(array)
    cost, energy = step_cost(case, outputs), step_energy(case, outputs)
    hourly = sum(p * n for p, n in zip(prices, counts, strict=True))
    assert cost["usd_per_step"] == pytest.approx(hourly * seconds / 3600)
    one_by_one = [
        seconds * (share * power.busy_w + (1 - share) * power.idle_w)
        for share, power, n in zip(shares, powers, counts, strict=True)
        for _ in range(n)
    ]
    assert energy["j_per_step"] == pytest.approx(sum(one_by_one))
    assert energy["j_per_step"] <= energy["most_j_per_step"] * (1 + 1e-12)


def test_a_board_of_four_chips_costs_four_chip_hours() -> None:
    array = load_array("tpu-v3-8", ["price=2"])
    cost = step_cost(case_on(array), {"iteration_s": 3600.0})
    assert cost["usd_per_step"] == pytest.approx(2 * sum(4 * n for _, n in array.group.kinds))
    images = step_cost(case_on(array, "lenet"), {"iteration_s": 1.0})
    assert images["usd_per_trillion_tokens"] is None


def test_neither_price_nor_power_changes_a_step_or_is_said_to_be_unread() -> None:
    plain, dear = (load_array("h100-cluster", [f"price={usd}"]) for usd in (1, 9))
    hot = load_array("h100-cluster", ["devices.0.power.busy=800 W"])
    assert len({case_on(array).key for array in (plain, dear, hot)}) == 1
    for array in (dear, hot):
        for model in (DEPLOYED, PUBLISHED):
            said = " ".join(warnings(array, model))
            assert "power" not in said
            assert "price" not in said
    assert case_on(dear).inputs["price"] == "9"
    assert "devices.0.price" not in case_on(dear).inputs


def test_devices_of_one_kind_may_have_two_prices() -> None:
    changes = ["devices.0.price=1", "devices.1.price=5"]
    array = load_array("mixed-a100-h100", changes)
    cost = step_cost(case_on(array), {"iteration_s": 3600.0})
    assert cost["usd_per_step"] == pytest.approx(
        sum(count * usd for (_, count), usd in zip(array.group.kinds, (1, 5), strict=True))
    )


def test_what_is_not_known_is_left_out_or_refused() -> None:
    case = case_on(load_array("tpu-v3-8"))
    outputs = {"iteration_s": 1.0, "computing_by_kind": [0.5]}
    assert run_fields(case, outputs, Run()) == {}
    with pytest.raises(UsageError, match=r"device 'tpu-v3' .* has no price; say --price 2"):
        step_cost(case, outputs)
    with pytest.raises(UsageError, match=r"has no power; say --set devices\.0\.power\.busy="):
        step_energy(case, outputs)
    with pytest.raises(UsageError, match="--tokens 1e\\+09: samples of lenet are not of tokens"):
        check_run(case_on(load_array("tpu-v3-8"), "lenet"), Run(1e9))
    for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e19):
        with pytest.raises(UsageError, match="a number from 1 to"):
            run_of({"tokens": wrong})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("price=-1", "price: -1: must be a number from 0"),
        ("price=cheap", "price: 'cheap': must be a number from 0"),
        ("price=2 USD", "price: '2 USD': must be a number from 0"),
        ("devices.0.power.idle=900 W", "power.idle: 900 W: no more than power.busy"),
        ("devices.0.power.busy=700", 'a quantity needs a unit; write it like "700 W"'),
        ("devices.0.power.bussy=700 W", "unknown key; did you mean busy"),
    ],
)
def test_wrong_prices_and_powers_are_refused(change: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        load_array("h100-cluster", [change])
    assert said in str(error.value)


def test_kinds_of_one_name_have_powers_of_their_own() -> None:
    """Two entries of one device, of which one is slower and hotter: each worker by itself."""
    entries = [f"devices.{i}.device=a100-80" for i in (0, 1)]
    changes = ["devices.1.power.busy=1000 W", "devices.1.roofline.matrix_efficiency=0.3"]
    array = load_array("mixed-a100-h100", [*entries, *changes])
    found = accelarray.simulate("gpt2:layers=2:seq=32", "data_parallel", array, batch=64)
    by_hand = 0.0
    for step in core_steps(found.timeline):
        power = step.worker.device.power  # type: ignore[attr-defined]
        share = step.computing / found.timeline.makespan_ps
        by_hand += step.cores * (power.idle_w + share * (power.busy_w - power.idle_w))
    told = found.to_dict()["energy"]["j_per_step"]
    assert told == pytest.approx(by_hand * found.iteration_s)


def test_chips_that_do_nothing_draw_idle_power() -> None:
    """Of mixed-v100-t4 eight V100 compute a stage each; its eight T4 wait all the time."""
    power = {"busy": "300 W", "idle": "40 W"}
    changes = [f"devices.{i}.power.{key}={value}" for i in (0, 1) for key, value in power.items()]
    array = load_array("mixed-v100-t4", changes)
    network = "gpt2:layers=2:seq=32"
    found = accelarray.simulate(network, "axes", array, batch=8, stage_hw="v100:1x8", micro_batch=1)
    data = found.to_dict()
    (_, first), (_, second) = array.group.chips
    alone, none = computing_by_kind(found.timeline, array)
    assert none == 0 < alone
    assert data["computing"] == pytest.approx(alone * first / (first + second))
    assert data["waiting"] >= second / (first + second)
    watts = first * (40 + alone * (300 - 40)) + second * 40
    assert data["energy"]["j_per_step"] == pytest.approx(watts * found.iteration_s)

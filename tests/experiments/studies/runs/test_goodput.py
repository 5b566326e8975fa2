"""Useful shares beside their closed forms, a Monte Carlo of its own, and published values."""

from dataclasses import replace
from math import exp, isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelarray
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.runs.run import Run, checkpoint_bytes, failures_of, run_fields, run_of
from hardware import load_array
from simulator import DEPLOYED
from simulator.failures import MONTH_S, Failures, _Month, lasting, simulated
from workloads import load_network

MINUTE, HOUR = 60.0, 3600.0
ONE = Failures(1, 6 * HOUR, stall_s=5 * MINUTE, restart_s=10 * MINUTE)
TIMES = st.floats(1e-3, 1e6)


def intervals_left(of: Failures, interval_s: float, draws: int, seed: int) -> tuple[float, float]:
    """Share by attempts drawn one by one: whole intervals that are safe; its standard error."""
    x = np.random.default_rng(seed).exponential(of.mtbf_s / of.devices, draws)
    kept = np.floor((x - of.restart_s - of.write_s) / (interval_s + of.stall_s)).clip(0)
    share = interval_s * kept.mean() / x.mean()
    return float(share), float(interval_s * kept.std() / x.mean() / np.sqrt(draws))


CASES = {
    "usual": (ONE, 57 * MINUTE),
    "too seldom": (ONE, 6 * HOUR),
    "too often": (ONE, 5 * MINUTE),
    "hardly any": (replace(ONE, mtbf_s=15 * MINUTE), 9 * MINUTE),
    "asynchronous": (replace(ONE, stall_s=10.0, write_s=30 * MINUTE), 40 * MINUTE),
    "many devices": (replace(ONE, devices=1024, mtbf_s=1024 * 3 * HOUR), 30 * MINUTE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_simulation_the_closed_form_and_attempts_one_by_one_agree(name: str) -> None:
    of, interval_s = CASES[name]
    share, error = intervals_left(of, interval_s, 200_000, 1)
    assert of.share(interval_s) == pytest.approx(share, abs=4 * error)
    spent = simulated(of, interval_s, 40, 0)
    assert spent.error is not None
    assert spent.useful == pytest.approx(of.share(interval_s), abs=4 * spent.error + 1e-3)
    assert 0 <= spent.lost <= 1
    up = 1 - spent.waiting
    assert spent.failures == pytest.approx(up * MONTH_S / of.mean_s, rel=0.1)
    assert spent.stalled + spent.restarting > 0
    assert spent.waiting == 0


@pytest.mark.parametrize(("hours", "published"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_best_intervals_are_those_that_daly_published(hours: float, published: float) -> None:
    """Figures 3 to 5 of his paper: a dump takes 5 minutes, a restart 10."""
    of = replace(ONE, mtbf_s=hours * HOUR)
    digits = 1 if published < 10 else 0
    assert round(of.daly_s / MINUTE, digits) == published
    assert of.daly_s == pytest.approx(of.best_s, rel=0.01)


@given(mtbf_s=st.floats(60.0, 1e9), stall_s=TIMES, restart_s=st.floats(0, 1e5), other=TIMES)
def test_no_interval_is_better_than_the_best(
    mtbf_s: float, stall_s: float, restart_s: float, other: float
) -> None:
    of = Failures(1, mtbf_s, stall_s, restart_s)
    best = of.share(of.best_s)
    assert best >= of.share(other) * (1 - 1e-9)
    assert best >= max(of.share(of.best_s * f) for f in (0.9, 1.1)) * (1 - 1e-9)
    assert 0 < of.best_s <= mtbf_s
    assert 0 <= best <= 1


@given(mtbf_s=st.floats(60.0, 1e9), ratio=st.floats(1e-9, 10))
def test_young_and_daly_where_they_hold_and_where_not(mtbf_s: float, ratio: float) -> None:
    """Young's relative error is 2/3 sqrt(C / 2 M): a hundredth at C / M of 4.5e-4."""
    of = Failures(1, mtbf_s, mtbf_s * ratio, 0.0)
    young, daly = (abs(interval / of.best_s - 1) for interval in (of.young_s, of.daly_s))
    assert (young <= 0.01) == (ratio <= 4.4e-4) or 4.4e-4 < ratio < 4.7e-4
    assert daly <= 0.01 or ratio > 0.5
    assert daly <= young + 1e-6 or ratio > 2


@given(
    data=st.tuples(st.floats(1e3, 1e8), TIMES, st.floats(0, 1e5), st.floats(0, 1e4)),
    times=st.floats(1.0, 10),
    interval_s=TIMES,
)
def test_more_of_anything_that_is_bad_is_no_better(
    data: tuple[float, float, float, float], times: float, interval_s: float
) -> None:
    of = Failures(4, *data, spares=1, repair_s=1e4)
    share = of.share(interval_s) * (1 + 1e-9)
    worse = (
        replace(of, stall_s=of.stall_s * times),
        replace(of, restart_s=of.restart_s * times),
        replace(of, write_s=of.write_s * times),
        replace(of, repair_s=of.repair_s * times),
        replace(of, spares=0),
        replace(of, mtbf_s=of.mtbf_s / times),
    )
    for other in worse:
        assert other.share(interval_s) <= share


@pytest.mark.parametrize(
    ("servers", "erlangs", "blocked"),
    [(1, 1.0, 0.5), (2, 1.0, 0.2), (5, 3.0, 0.1101), (10, 5.0, 0.0184)],
)
def test_missing_devices_are_erlangs_loss_formula(
    servers: int, erlangs: float, blocked: float
) -> None:
    """Values of tables of Erlang B."""
    of = Failures(1, HOUR, 1.0, 1.0, spares=servers - 1, repair_s=erlangs * HOUR)
    assert of.without_spare == pytest.approx(blocked, abs=5e-5)


@pytest.mark.parametrize("spares", [0, 1, 3])
def test_a_long_run_with_few_spares_waits_as_the_closed_form_says(spares: int) -> None:
    """Repairs all last as long, which Erlang's formula does not mind."""
    of = replace(ONE, spares=spares, repair_s=8 * HOUR)
    useful_s, _, _, waiting_s, failures = _Month(of, 57 * MINUTE, 0, 0).run(60 * MONTH_S)
    assert failures > 1000
    assert waiting_s / (60 * MONTH_S) == pytest.approx(of.without_spare, abs=0.015)
    assert useful_s / (60 * MONTH_S) == pytest.approx(of.share(57 * MINUTE), abs=0.015)


def test_waiting_at_the_end_of_a_month_is_waiting() -> None:
    """One failure without a spare: of a repair that does not end nothing is work done again."""
    of = replace(ONE, mtbf_s=5 * MONTH_S / 30, spares=0, repair_s=10 * MONTH_S)
    spent = simulated(of, HOUR, 1, 0)
    assert spent.failures == 1
    assert spent.waiting > 0.2
    assert 0 <= spent.lost * MONTH_S <= HOUR + of.stall_s + of.write_s


@pytest.mark.parametrize("interval_s", [1.0, 600.0, HOUR])
def test_a_month_is_a_month_however_many_checkpoints_it_has(interval_s: float) -> None:
    """Spares that are all there at first run out as soon, whatever is trained between failures."""
    of = replace(ONE, stall_s=0.1, spares=3, repair_s=20 * 24 * HOUR)
    spent = simulated(of, interval_s, 30, 0)
    assert spent.days == 30
    assert spent.waiting == simulated(of, 2 * HOUR, 30, 0).waiting > 0.1
    often = replace(of, mtbf_s=10.0)  # more failures than are simulated
    assert simulated(often, interval_s, 30, 0).days < 1


def test_more_repeats_than_failures_allow_are_fewer_months_not_shorter_ones() -> None:
    """A month has 720 failures: so 277 months have 200,000."""
    of = Failures(1, HOUR, 1.0, 1.0, spares=3, repair_s=HOUR)
    many, few = simulated(of, HOUR, 10_000, 0), simulated(of, HOUR, 277, 0)
    assert (many.days, many.repeats) == (30, 277)
    assert many == few


def test_an_attempt_is_its_intervals_stalls_and_restart() -> None:
    """After 10 s of restart cycles of 100 + 5 s, safe 20 s after their ends."""
    of = replace(ONE, stall_s=5.0, restart_s=10.0, write_s=20.0)
    for took_s, done_s, safe_s, stalled_s in (
        (7.0, 0.0, 0.0, 0.0),
        (60.0, 50.0, 0.0, 0.0),
        (112.0, 100.0, 0.0, 2.0),
        (134.0, 119.0, 0.0, 5.0),
        (136.0, 121.0, 100.0, 5.0),
        (400.0, 375.0, 300.0, 15.0),
    ):
        month = _Month(of, 100.0, 0, 0)
        month._restart_s, month._safe_s = of.restart_s, 1000.0
        assert month._trained(took_s) == pytest.approx((1000.0 + done_s, 1000.0 + safe_s))
        assert month._spent["stalled"] == pytest.approx(stalled_s)
        assert month._spent["restarting"] == min(took_s, 10.0)


def test_a_seed_gives_one_answer_and_another_seed_another() -> None:
    simulated.cache_clear()
    first = simulated(ONE, HOUR, 3, 5)
    simulated.cache_clear()
    assert simulated(ONE, HOUR, 3, 5) == first
    assert simulated(ONE, HOUR, 3, 6).useful != first.useful
    assert simulated(ONE, HOUR, 1, 5).error is None


def test_what_fails_all_the_time_is_simulated_for_less_than_a_month() -> None:
    spent = simulated(replace(ONE, mtbf_s=2.0, stall_s=1e-3), 1.0, 10, 0)
    assert spent.days < 5
    assert spent.useful < 1e-3


LLAMA = Case(
    load_network("llama3-405b"),
    "axes",
    load_array("h100-cluster", ["nodes=2048", "optimizer=adam"]),
    2048,
    execution=DEPLOYED,
)


def test_llama_3_trained_for_more_than_nine_tenths_of_its_54_days() -> None:
    """Grattafiori et al. 2024: 419 unexpected interruptions of 16,384 H100, storage of 2 TB/s.

    How long a restart takes is not said; here the default, MegaScale's ten minutes.
    """
    assert checkpoint_bytes(LLAMA) == 405_853_388_800 * (2 + 4 + 4 + 4)
    mtbf = f"{54 * 24 * 16_384 / 419:.0f}h"
    run = run_of({"mtbf": mtbf, "storage_bandwidth": "2 TB/s"})
    of = failures_of(LLAMA, run)
    assert of.mean_s == pytest.approx(3.093 * HOUR, rel=1e-3)
    goodput = run_fields(LLAMA, {"iteration_s": 5.0, "computing_by_kind": [1.0]}, run)["goodput"]
    for share in ("useful_share", "closed_form_share"):
        assert 0.90 <= goodput[share] <= 0.93
    assert goodput["failures"] == pytest.approx(419 * 30 / 54, rel=0.05)
    assert goodput["interval_s"] == 50 * 5.0  # best: 250 s
    assert goodput["notes"] == []


def takes_s(of: Failures, interval_s: float, work_s: float) -> float:
    """In the mean, by Daly's way: L seconds that a failure sends back take M e^(R/M) (e^(L/M) - 1).

    From a checkpoint a failure comes first with a chance of 1 - e^(-L/M); then R + L have to pass
    without one, which takes M (e^((R + L)/M) - 1).
    """
    whole = int(np.ceil(work_s / interval_s)) - 1
    parts = whole * np.expm1((interval_s + of.stall_s) / of.mean_s)
    parts += np.expm1((work_s - whole * interval_s) / of.mean_s)
    return float(of.mean_s * exp(of.restart_s / of.mean_s) * parts)


@pytest.mark.parametrize("name", [name for name in CASES if name != "asynchronous"])
@pytest.mark.parametrize("hours", [0.05, 0.9, 3.7, 12])
def test_a_run_lasts_as_long_as_its_parts_between_checkpoints(name: str, hours: float) -> None:
    of, interval_s = CASES[name]
    found = lasting(of, interval_s, hours * HOUR, 1500, 0, MONTH_S)
    assert found is not None
    assert found[0] == pytest.approx(takes_s(of, interval_s, hours * HOUR), rel=0.07)


def test_a_run_waits_for_spares_that_it_lacks() -> None:
    """With none, a failure stops it for a repair as well as for a restart."""
    of = replace(ONE, spares=0, repair_s=4 * HOUR)
    found = lasting(of, HOUR, 24 * HOUR, 3000, 0, MONTH_S)
    assert found is not None
    repaired = takes_s(ONE, HOUR, 24 * HOUR)
    failures = takes_s(ONE, HOUR, 24 * HOUR) / ONE.mean_s
    assert found[0] == pytest.approx(repaired + failures * of.repair_s, rel=0.03)
    assert lasting(of, HOUR, 24 * HOUR, 30, 0, 25 * HOUR) is None


def test_a_run_among_many_may_last_longer_than_a_month() -> None:
    """With few spares and long repairs a run waits rarely, and then for long: the mean is short."""
    of = Failures(1, 10 * HOUR, 60.0, 60.0, spares=10, repair_s=100 * 24 * HOUR)
    assert lasting(of, HOUR, 2 * 24 * HOUR, 1, 0, MONTH_S)
    found = lasting(of, HOUR, 2 * 24 * HOUR, 1000, 0, MONTH_S)
    assert found is not None
    longest = max(
        _Month(of, HOUR, 0, number, 2 * 24 * HOUR).lasting(1e9)[0]  # type: ignore[index]
        for number in range(1000)
    )
    assert longest > MONTH_S > 3 * found[0]


@pytest.mark.parametrize("whole", range(1, 60))
def test_whole_intervals_have_a_checkpoint_less(whole: int) -> None:
    """Whatever rounding makes of 102 steps, and of so many times as many."""
    step_s = 3.1601904575058675
    never = Failures(1, 1e15, stall_s=5.0, restart_s=0.0)
    found = lasting(never, 102 * step_s, whole * 102 * step_s, 1, 0, MONTH_S)
    assert found is not None
    assert found[1] == pytest.approx(5.0 * (whole - 1))


def test_what_is_not_safe_yet_is_done_again() -> None:
    """A checkpoint that is written for longer than the run lasts is none."""
    of = replace(ONE, write_s=MONTH_S)
    found = lasting(of, HOUR, 5 * HOUR, 3000, 0, 10 * MONTH_S)
    assert found is not None
    again = replace(ONE, stall_s=0.0)  # one part, with four stalls
    expected = takes_s(again, MONTH_S, 5 * HOUR + 4 * ONE.stall_s)
    assert found[0] == pytest.approx(expected, rel=0.05)


def test_a_run_takes_longer_by_what_it_loses() -> None:
    run = replace(run_of({"mtbf": "50000h", "storage_bandwidth": "2 TB/s"}), tokens=1e12)
    outputs = {"iteration_s": 5.0, "computing_by_kind": [0.5]}
    with_failures, without = run_fields(LLAMA, outputs, run), run_fields(LLAMA, outputs, Run(1e12))
    of, spent = failures_of(LLAMA, run), with_failures["goodput"]
    work_s = without["run"]["days"] * 24 * HOUR
    expected = takes_s(of, spent["interval_s"], work_s) / work_s
    for key in ("days", "usd"):
        more = with_failures["run"][key] / without["run"][key]
        assert more == pytest.approx(expected, rel=3e-3)
    least = with_failures["run"]["days"] * 24 * 16_384 / 1e6  # MWh for each W
    useful = 1 / more
    again = spent["lost_share"] / spent["useful_share"] * useful
    watts = 71 + (useful + again) * 0.5 * (700 - 71)
    assert with_failures["run"]["mwh"] == pytest.approx(watts * least, rel=3e-3)


def test_a_run_that_fails_all_the_time_never_ends() -> None:
    run = replace(run_of({"mtbf": "1h", "storage_bandwidth": "2 TB/s"}), tokens=1e12)
    with pytest.raises(UsageError, match=r"--tokens: a run that fails every 0\.22 s never ends"):
        run_fields(LLAMA, {"iteration_s": 5.0, "computing_by_kind": [0.5]}, run)


def test_asynchronous_checkpoints_stop_a_run_for_the_copy_alone() -> None:
    options = {"mtbf": "50000h", "storage_bandwidth": "20 GB/s"}
    blocking = failures_of(LLAMA, run_of(options))
    of = failures_of(LLAMA, run_of(options | {"checkpoint": "asynchronous"}))
    assert (of.write_s, of.restart_s) == (blocking.stall_s, blocking.restart_s)
    assert of.stall_s == pytest.approx(checkpoint_bytes(LLAMA) / 16_384 / 25e9)
    assert of.share(of.best_s) > blocking.share(blocking.best_s)
    assert of.best_s + of.stall_s >= of.write_s


def test_remarks_say_where_a_formula_does_not_hold() -> None:
    options = {"mtbf": "50000h", "storage_bandwidth": "20 GB/s", "spares": 3}
    said = run_fields(LLAMA, {"iteration_s": 5.0, "computing_by_kind": [1.0]}, run_of(options))[
        "goodput"
    ]
    assert [note.split()[0] for note in said["notes"]] == ["Young's", "The"]
    assert "+8.0%" in said["notes"][0]
    assert "checkpoints much shorter than the time between failures" in said["notes"][0]


def test_python_takes_the_same_words() -> None:
    step = accelarray.simulate(
        "gpt2",
        array="h100-cluster",
        set="nodes=1",
        parallel="dp=8",
        batch=8,
        mtbf="1000h",
        storage_bandwidth="1 GB/s",
        spares=1,
        repeats=2,
        seed=3,
    )
    goodput = step.to_dict()["goodput"]
    assert (goodput["spares"], goodput["repeats"], goodput["seed"]) == (1, 2, 3)
    assert isclose(goodput["interval_s"] / step.iteration_s, goodput["interval_steps"])
    assert "no spare" in step.summary()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"spares": 2}, "--spares: says how failures go; say --mtbf too"),
        ({"mtbf": "50000h"}, "--storage-bandwidth '100 GB/s'"),
        ({"mtbf": "50000"}, "--mtbf 50000: not a positive number with a unit"),
        ({"mtbf": "0 s"}, "--mtbf 0 s: must be above 0"),
        ({"mtbf": "1e13 s"}, "--mtbf 1e13 s: outside 0...1e+12 s"),
        ({"mtbf": "5 GB"}, "--mtbf 5 GB: 'GB' is not a unit of s"),
        ({"mtbf": "5 kh"}, "--mtbf 5 kh: 'kh' is not a unit of s"),
        ({"repeats": 3}, "--repeats: nothing is drawn; say --mtbf or --spread too"),
        ({"seed": 3}, "--seed: nothing is drawn"),
        ({"repeats": 0}, "--repeats 0: a whole number from 1 to 10,000"),
        ({"repeats": True}, "--repeats True: a whole number"),
        ({"seed": -1}, "--seed -1: a whole number from 0"),
        ({"checkpoint": "lazy"}, "--checkpoint lazy: one of asynchronous, blocking"),
        ({"tokens": "many"}, "--tokens many: a number from 1 to 1e18"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as error:
        run_of(options)
    assert said in str(error.value)


def test_no_checkpoint_is_begun_before_the_one_before_is_written() -> None:
    options = {
        "mtbf": "50000h",
        "storage_bandwidth": "2 GB/s",
        "checkpoint": "asynchronous",
        "checkpoint_every": "1 min",
    }
    outputs = {"iteration_s": 5.0, "computing_by_kind": [1.0]}
    with pytest.raises(UsageError, match=r"--checkpoint-every 60 s: a checkpoint of 5\.68e\+12 B"):
        run_fields(LLAMA, outputs, run_of(options))
    del options["checkpoint_every"]
    goodput = run_fields(LLAMA, outputs, run_of(options))["goodput"]
    assert goodput["interval_s"] + goodput["stall_s"] >= goodput["write_s"]
    assert "faster storage helps" in goodput["notes"][0]


def test_a_run_of_months_takes_the_closed_form_and_one_that_never_ends_is_refused() -> None:
    """The months that are simulated begin whole: they say nothing of a run of a thousand days."""
    outputs = {"iteration_s": 5.0, "computing_by_kind": [0.5]}
    run = run_of({"mtbf": "50000h", "storage_bandwidth": "2 TB/s"})
    found = run_fields(LLAMA, outputs, replace(run, tokens=1e15))
    days = run_fields(LLAMA, outputs, Run(1e15))["run"]["days"]
    assert found["run"]["days"] == pytest.approx(days / found["goodput"]["closed_form_share"])
    often = run_of({"mtbf": "10h", "storage_bandwidth": "2 TB/s"})
    with pytest.raises(UsageError, match="never ends; see --mtbf"):
        run_fields(LLAMA, outputs, replace(often, tokens=1e15))


def test_a_long_run_waits_for_spares_as_long_as_the_closed_form_says() -> None:
    """The simulated month begins with all spares, and waits less; who waits draws idle power."""
    outputs = {"iteration_s": 5.0, "computing_by_kind": [0.5]}
    options = {
        "mtbf": "50000h",
        "storage_bandwidth": "2 TB/s",
        "repair_time": "60 d",
        "spares": 200,
    }
    run = run_of(options)
    found = run_fields(LLAMA, outputs, replace(run, tokens=1e15))
    goodput, of = found["goodput"], failures_of(LLAMA, run)
    assert goodput["waiting_share"] < of.without_spare
    goes_on = (1 - of.without_spare) * exp(-of.restart_s / of.mean_s)  # and does not restart
    goes_on *= goodput["interval_s"] / (goodput["interval_s"] + of.stall_s)  # and writes nothing
    watts = 16_384 * (71 + goes_on * 0.5 * (700 - 71))
    mwh = watts * found["run"]["days"] * 24 / 1e6
    assert found["run"]["mwh"] == pytest.approx(mwh, rel=0.002)


def test_who_writes_a_checkpoint_draws_idle_power() -> None:
    """A checkpoint of 5.7 TB takes 568 s at 10 GB/s, every 300 s: a third of the time computes."""
    options = {
        "mtbf": "5000000h",
        "storage_bandwidth": "10 GB/s",
        "checkpoint_every": "300 s",
    }
    run = replace(run_of(options), tokens=1e12)
    outputs = {"iteration_s": 5.0, "computing_by_kind": [0.5]}
    found = run_fields(LLAMA, outputs, run)
    assert found["goodput"]["stalled_share"] == pytest.approx(568.2 / 868.2, rel=0.01)
    watts = 16_384 * (71 + 300 / 868.2 * 0.5 * (700 - 71))
    mwh = watts * found["run"]["days"] * 24 / 1e6
    assert found["run"]["mwh"] == pytest.approx(mwh, rel=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"repair_time": "5h"}, "--repair-time: nothing waits for a repair without --spares"),
        ({"copy_bandwidth": "1 GB/s"}, "--copy-bandwidth: read with --checkpoint asynchronous"),
    ],
)
def test_what_nothing_reads_is_refused(options: dict[str, str], words: str) -> None:
    needed = {"mtbf": "50000h", "storage_bandwidth": "2 TB/s"}
    with pytest.raises(UsageError, match=words):
        run_of(needed | options)


def test_no_time_is_written_as_0() -> None:
    given = {"mtbf": "50000h", "storage_bandwidth": "2 TB/s", "restart_time": "0"}
    assert run_of(given).restart_s == 0.0

"""The error band: honest on sources that it has not seen, narrow where measured rows are near."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelarray
from accelarray import simulate
from experiments.cli import main
from experiments.measured.study import predicted
from experiments.output import text_of
from experiments.results.error_band import (
    APART,
    COLUMNS,
    DOUBLINGS,
    FLAGS,
    INSIDE,
    NO_STACK,
    OF_TEXTS,
    OTHER,
    SGD,
    UNMEASURED,
    Errors,
    Features,
    error_band,
    features_of,
    shipped,
    widest,
)
from experiments.scripts.error_table import table_of
from experiments.scripts.error_table import text_of as text_of_table
from experiments.studies.running.runner import Runner
from hardware.reader import parse_csv
from tests.experiments.measured.some_rows import small


def row(**changes: object) -> Features:
    same: Features = {"chip": "h100-sxm", "stack": "nemo-2024", "bits": 8.0}
    same |= {"experts": 0.0, "zero3": 0.0, "cp": 0.0}
    return same | dict.fromkeys(DOUBLINGS, 1.0) | changes


def errors(rows: list[tuple[str, Features, float]]) -> Errors:
    columns = {name: np.array([of[name] for _, of, _ in rows]) for name in (*APART, *DOUBLINGS)}
    sources = np.array([source for source, _, _ in rows])
    return Errors(sources, columns, np.array([log for _, _, log in rows]))


def test_four_in_five_rows_of_unseen_sources_lie_within() -> None:
    """Neither their own errors nor their part in the widening is known of these."""
    known, _ = shipped()
    inside = 0
    for source in np.unique(known.sources):
        others = known.without(source)
        widening = others.widening()
        for i in np.flatnonzero(known.sources == source).tolist():
            band = others.band(known.row(i), widening)
            inside += band.low <= math.exp(known.logs[i]) <= band.high
    assert 0.75 <= inside / len(known.logs) <= 0.85


def test_a_band_is_that_of_the_rows_nearby() -> None:
    draw = np.random.default_rng(7)
    rows = [
        (f"{chip} {source}", row(chip=chip), float(log))
        for chip, spread in (("a100-80", 0.05), ("tpu-v5p", 0.4))
        for source in range(10)
        for log in draw.normal(0.1, spread, 20)
    ]
    near, wide = (
        errors(rows).band(row(chip="a100-80"), 1.0),
        errors(rows).band(row(chip="tpu-v5p"), 1.0),
    )
    assert near.low < math.exp(0.1) < near.high
    assert (wide.high / wide.low) > 1.5 * (near.high / near.low)
    assert (near.nearest[:4], wide.nearest[:4]) == ("a100", "tpu-")


def test_quantiles_of_rows_alike_are_those_of_numpy() -> None:
    logs = np.random.default_rng(3).normal(0, 0.1, 4001)
    same = errors([(str(i), row(), float(log)) for i, log in enumerate(logs)])
    wanted = np.quantile(logs, [(1 - INSIDE) / 2, 0.5, (1 + INSIDE) / 2])
    assert same.quantiles(row()) == pytest.approx(wanted, abs=1e-3)


def test_a_source_of_many_rows_counts_by_the_root_of_their_number() -> None:
    rows = [("many", row(), 0.2)] * 16 + [("few", row(), -0.2)]
    weights = errors(rows).weights(row())
    assert weights[:16].sum() == pytest.approx(4 * weights[16])


def test_a_step_is_told_with_its_band() -> None:
    trained = ["nodes=1", "precision=bf16", "optimizer=adam", "stack=nemo-2024"]
    step = simulate(
        "llama3-8b:layers=2", "axes", "h100-cluster", 8, set=trained, parallel="tp=2,sp"
    )
    band = step.to_dict()["error_band"]
    assert band["low_s"] == pytest.approx(band["low"] * step.iteration_s)
    assert 0.4 < band["low"] < band["high"] < 2.5
    assert "error band" in text_of(*step.tables())
    unknown = simulate("lenet", planner="accpar", array="accpar-mixed")
    assert unknown.error_band is None
    assert unknown.to_dict()["error_band"] is None


def test_a_chip_of_ones_own_has_the_band_of_what_it_extends(tmp_path: Path) -> None:
    bands = []
    for name, base in (("mine", "h100-sxm"), ("ours", "mine.toml"), ("h100-sxm", "")):
        if base:
            text = f'kind = "device"\nextends = "{base}"\nhbm.capacity = "90 GiB"\n'
            (tmp_path / f"{name}.toml").write_text(text)
        text = f"""kind = "array"
            execution = "deployed"
            precision = "bf16"
            stack = "nemo-2024"
            [[devices]]
            device = "{name}{".toml" * bool(base)}"
            count = 8"""
        (tmp_path / "array.toml").write_text(text)
        array = str(tmp_path / "array.toml")
        bands.append(simulate("gpt2:layers=2", "data_parallel", array, 8).error_band)
    assert bands[0] == bands[1] == bands[2] is not None


ONE: dict[str, Any] = {"network": "gpt2:layers=2", "array": "h100-cluster", "batch": 64}
TOLD: dict[str, Callable[[], Any]] = {
    "explain": lambda: accelarray.explain(**ONE, planner="owt"),
    "fit": lambda: accelarray.fit(**ONE, axes="tp"),
    "sweep": lambda: accelarray.sweep(vary="batch=32,64", planners="owt", **NETWORKS),
    "speedup": lambda: accelarray.speedup(planners="owt", batch=64, **NETWORKS),
    "compare": lambda: accelarray.compare("gpt2:layers=2", "owt", array="h100-cluster", batch=64),
}
NETWORKS: dict[str, Any] = {"networks": "gpt2:layers=2", "array": "h100-cluster"}


@pytest.mark.parametrize("command", TOLD)
def test_every_answer_has_the_band_of_its_step(command: str) -> None:
    """Nothing that the band is of differs between these steps: it is that of one simulated."""
    (alone,) = {simulate(**ONE, planner=planner).error_band for planner in ("owt", "data_parallel")}
    result = TOLD[command]()
    assert alone is not None
    assert result.error_band == alone
    band = result.to_dict()["error_band"]
    assert (band["low"], band["high"]) == (alone.low, alone.high)
    (said,) = re.findall(r"rror band\W.*?four in five", text_of(*result.tables()), re.DOTALL)
    assert said


@pytest.mark.parametrize(
    ("network", "parallel", "zero"),
    [
        ("llama3-8b:layers=2", "dp=2,tp=2,pp=2", 0),
        ("llama3-8b:layers=2", "dp=2,cp=4", 3),
        ("mixtral-8x7b:layers=2", "dp=4,ep=4,tp=2", 0),
        ("mixtral-8x7b:layers=2", "dp=2,ep=8,tp=4", 0),
        ("mixtral-8x7b:layers=2", "dp=4,ep=4,tp=2,sp", 0),
        ("deepseek-v3:layers=4", "dp=4,ep=4,pp=2", 0),
        ("gpt3-125m:layers=2", "dp=1,tp=3", 0),
        ("gpt3-125m:layers=2", "dp=1,tp=6", 0),
    ],
)
def test_a_plans_file_has_the_band_of_the_axes_that_made_it(
    network: str, parallel: str, zero: int, tmp_path: Path
) -> None:
    of: dict[str, Any] = {"network": network, "array": "dgx-h100", "batch": 16}
    of["stack"] = "megatron-2025"
    if (many := parallel.rpartition("tp=")[2]) in "36":
        of["set"] = {"devices.0.count": int(many), "topology.levels.0.members": int(many)}
    step = simulate(**of, parallel=parallel, zero=zero)
    (tmp_path / "plan.json").write_text(json.dumps(step.plan.to_json()))
    again = simulate(**of, plan=tmp_path / "plan.json")
    assert features_of(again.case) == features_of(step.case)
    assert again.error_band == step.error_band is not None


def test_stages_without_axes_are_stages() -> None:
    of: dict[str, Any] = ONE | {"network": "llama3-8b:layers=2"}
    step = simulate(**of, planner="data_parallel", stages=2, micro_batches=4)
    axes = simulate(**of, parallel="pp=2", micro_batch=1)
    found = features_of(step.case)
    assert found is not None
    assert found["pp"] == 2
    assert features_of(axes.case) == found


def test_no_band_is_told_where_no_measured_step_is_known() -> None:
    result = accelarray.compare("lenet", "owt", array="accpar-mixed")
    assert result.error_band is None
    assert result.to_dict()["error_band"] is None
    assert "rror band" not in text_of(*result.tables())


def test_steps_under_the_papers_formulas_have_no_band() -> None:
    """Measured steps stand beside predictions of the deployed model alone."""

    def band(model: str) -> object:
        return accelarray.simulate(
            "gpt2:layers=1", "data_parallel", "dgx-h100", 64, execution=model
        ).error_band

    assert band("deployed")
    assert band("published") is None


def test_the_band_of_several_steps_holds_each_of_theirs() -> None:
    networks = "gpt2:layers=2", "gpt2-xl:layers=2"
    cases = [simulate(**ONE | {"network": name}, planner="owt").case for name in networks]
    bands = [band for case in cases if (band := error_band(case))]
    both = widest(cases)
    assert both is not None
    assert len(set(bands)) == 2
    assert both.low == min(band.low for band in bands)
    assert both.high == max(band.high for band in bands)
    assert widest([]) is None


def test_the_table_of_errors_has_each_rows_features_and_error() -> None:
    rows = [small(id=f"small/{tp}", tp=tp, dp=8 // tp) for tp in (1, 2)]
    study = predicted(rows, rows[:1], Runner())
    lines = parse_csv(text_of_table(table_of(rows, rows[:1], Runner())), "errors", ValueError)
    cells = [one for _, one in lines]
    assert [one["id"] for one in cells] == ["small/1", "small/2"]
    assert [one["tp"] for one in cells] == ["1", "2"]
    for one, outcome in zip(cells, study.outcomes, strict=True):
        assert float(one["measured_over_predicted"]) == pytest.approx(1 / (1 + outcome.error), 1e-3)
        assert [one[flag] for flag in FLAGS] == ["0", "0", "0"]
    assert tuple(cells[0]) == COLUMNS


@pytest.mark.parametrize(
    ("network", "options", "told"),
    [
        ("gpt2", (), [SGD]),
        ("gpt2", ("--optimizer", "adam"), []),
        ("gpt2", ("--optimizer", "sgd"), []),
        ("gpt2", ("--set", "usual_stack=none"), [NO_STACK, SGD]),
        ("gpt2", ("--stack", "none"), [SGD]),
        ("gpt2", ("--set", "model.mode=inference"), []),
        ("alexnet", (), [UNMEASURED.format(OTHER), OF_TEXTS.format("megatron-2025")]),
        ("alexnet", ("--stack", "ngc-2020"), [UNMEASURED.format(OTHER)]),
    ],
)
def test_what_nobody_stated_is_told(
    network: str, options: tuple[str, ...], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    step = ("simulate", network, "--array", "h100-cluster", "--set", "nodes=1", "--batch", "8")
    axes = ("--parallel", "dp=8", *options, "--format", "json")
    assert main([*step, *axes]) == 0
    assert json.loads(capsys.readouterr().out)["assumed"] == told

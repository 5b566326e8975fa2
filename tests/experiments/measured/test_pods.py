import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.measured.fit import fit_efficiency
from experiments.measured.pods import (
    Model,
    PodRow,
    Step,
    array_of,
    peak_only_s,
    pod_side,
    section,
    shipped,
    step,
    torus,
    validate,
)
from experiments.measured.section import relative
from experiments.output import UsageError
from hardware import Device, load_array, load_device
from hardware.reader import checked_rows, parse_csv
from planners.partition import Shard
from simulator.cost.roofline import core_of, cost
from simulator.cost.training_operators import operators
from tests.experiments.measured.whole import validated
from tests.experiments.test_widths import widest
from workloads import load_network

RESNET = load_network("resnet50")
DEVICES: dict[str, Device] = {name: load_device(name)[0] for name in ("tpu-v2", "tpu-v3")}
COLUMNS = tuple(PodRow.model_fields)
HEADER = ",".join(COLUMNS)
GOOD = "v0.6,tpu-v3-32,32,4096,128,31227,131.2,check"


def of_pod(device: Device, cores: int, rows: int) -> Step:
    return step(RESNET, device, cores, rows)


@pytest.fixture(scope="module")
def result() -> Any:
    return validate(shipped(), shipped(), Model(RESNET, DEVICES))


def errors_of(result: Any, use: str) -> list[float]:
    return [row["error"] for row in result["rows"] if row["use"] == use]


def memory_efficiency(result: Any) -> float:
    return float(result["constants"]["memory_efficiency"])


def test_calibration_rows_are_met(result: Any) -> None:
    errors = errors_of(result, "calibration")
    assert len(errors) == 2
    assert max(map(abs, errors)) <= 0.02
    assert not result["fit_at_bound"]


def test_one_board_predicts_the_other(result: Any) -> None:
    assert result["one_board"]["fitted_on"] == "tpu-v2"
    assert result["one_board"]["errors"].keys() == {"tpu-v3-8"}
    assert abs(result["one_board"]["errors"]["tpu-v3-8"]) <= 0.06


def test_the_ratio_of_the_boards(result: Any) -> None:
    assert result["board_ratio"]["measured"] == pytest.approx(228.9 / 137.3)
    assert 1.60 <= result["board_ratio"]["predicted"] <= 1.75
    assert result["board_ratio"]["peak_only"] == pytest.approx(123 / 45)


def test_held_out_rows(result: Any) -> None:
    for row in result["rows"]:
        assert abs(row["error"]) <= (0.07 if row["batch_per_core"] == 128 else 0.12)
    assert statistics.median(map(abs, errors_of(result, "check"))) <= 0.06


def test_the_control_fails(result: Any) -> None:
    """Whatever its constant, one board is more than a fifth off."""
    errors = [row["peak_only_error"] for row in result["rows"] if row["use"] == "calibration"]
    assert max(map(abs, errors)) > 0.2
    apart = max(errors) - min(errors)
    assert apart > 0.4


def test_specs_alone_are_too_fast(result: Any) -> None:
    assert all(-0.25 <= row["specs_alone_error"] < 0 for row in result["rows"])


def test_the_catalog_has_the_fitted_value(result: Any) -> None:
    for device in DEVICES.values():
        assert device.roofline.memory_efficiency == round(memory_efficiency(result), 3)


def test_a_second_way_to_the_constant(result: Any) -> None:
    """The least sum of squares, by a fine scan around the answer."""

    def badness(efficiency: float) -> float:
        rows = [row for row in shipped() if row.use == "calibration"]
        devices = {
            name: load_device(name, [f"roofline.memory_efficiency={efficiency}"])[0]
            for name in DEVICES
        }
        steps = [of_pod(devices[r.device], r.cores, r.batch_per_core).total_s for r in rows]
        return sum((s / r.step_s - 1) ** 2 for s, r in zip(steps, rows, strict=True))

    scan = [0.742 + i / 500 for i in range(9)]
    assert min(scan, key=badness) == pytest.approx(memory_efficiency(result), abs=1e-3)


@given(st.floats(0.02, 0.99), st.lists(st.floats(0.1, 10), min_size=1, max_size=5))
def test_a_constant_that_made_the_rows_is_found(truth: float, moved: list[float]) -> None:
    def step(x: float, efficiency: float) -> float:
        return max(1.0, x / efficiency) + x / efficiency

    guesses = []

    def errors(guess: float) -> list[float]:
        guesses.append(guess)
        return [relative(step(x, guess), step(x, truth)) for x in moved]

    assert fit_efficiency(errors) == pytest.approx(truth, rel=1e-4)
    assert len(guesses) <= 20  # each may be a simulation


def test_a_fit_that_ends_at_a_bound_says_so() -> None:
    fast = read(f"{HEADER}\nx,tpu-v3-8,8,1024,128,1024000,1,calibration")
    beyond = validate(fast, fast, Model(RESNET, DEVICES))
    assert memory_efficiency(beyond) == pytest.approx(1.0)
    assert "bound of 0.01...1" in section(beyond, "resnet50").messages[1]
    assert not beyond.keys() & {"one_board", "board_ratio", "other_rows"}


@pytest.mark.parametrize(
    ("chips", "pod_side", "sides"),
    [
        (4, 32, (2, 2)),
        (16, 32, (4, 4)),
        (128, 32, (16, 8)),
        (512, 32, (32, 16)),
        (1024, 32, (32, 32)),
        (4096, 32, (128, 32)),
        (256, 16, (16, 16)),
        (28, 32, (7, 4)),
    ],
)
def test_the_torus_is_as_square_as_pods_allow(
    chips: int, pod_side: int, sides: tuple[int, int]
) -> None:
    assert torus(chips, pod_side) == sides


def by_hand(device: Device, cores: int, rows: int) -> tuple[float, float]:
    """Seconds of computing and of one all-reduce, by sums and formulas without an engine."""
    ops, core, links = operators(RESNET), core_of(device), device.links
    assert links is not None
    computing = sum(
        cost(op, Shard(rows, node.in_channels, node.out_channels), core).seconds
        for op in ops.schedule()
        for node in [ops.graph[op.node]]
    )
    sized = 4 * RESNET.parameters
    if cores == 8:  # round the four chips, both ways, all eight cores in turn
        return computing, 7 / 8 * sized / links.bytes_per_s + 14 * links.latency_s
    long, short = torus(cores // 2, pod_side(device.name))
    n = long * short  # parts along the sides as 1 - 1/long to 1 - 1/short: two phases and back
    share = (long - 1) * (n - 1) / (long * (2 * n - long - short))
    around = share * sized / links.bytes_per_s + 4 * (long - 1) * links.latency_s
    inside = 2 * (2 * sized / device.hbm_bytes_per_s)  # halves both ways, written and read; back
    return computing, around + inside


@pytest.mark.parametrize(
    ("system", "cores", "rows"),
    [
        ("tpu-v2", 8, 128),
        ("tpu-v3", 8, 128),
        ("tpu-v3", 32, 128),
        ("tpu-v2", 512, 64),
        ("tpu-v3", 1024, 32),
        ("tpu-v3", 2048, 16),
        ("tpu-v3", 8192, 8),
    ],
)
def test_the_engine_takes_what_formulas_say(system: str, cores: int, rows: int) -> None:
    device = DEVICES[system]
    step = of_pod(device, cores, rows)
    computing, moving = by_hand(device, cores, rows)
    assert step.communication_s == pytest.approx(moving, rel=1e-6)
    assert step.total_s == pytest.approx(computing + moving, rel=1e-6)
    assert 0 < step.update_s < computing


def test_machines_are_those_of_the_catalog() -> None:
    for name in DEVICES:
        assert array_of(DEVICES[name], 8).group == load_array(f"{name}-8").group
        assert array_of(DEVICES[name], 8).topology == load_array(f"{name}-8").topology
    pod, whole = load_array("tpu-v3-pod"), array_of(DEVICES["tpu-v3"], 2048)
    assert whole.group == pod.group
    assert whole.topology.shape == pod.topology.shape_of(1024) == (32, 32)
    assert (pod_side("tpu-v2"), pod_side("tpu-v3")) == (16, 32)
    assert array_of(DEVICES["tpu-v3"], 8192).topology.shape == (128, 32)


@pytest.mark.slow
@pytest.mark.parametrize(("cores", "rows"), [(24, 128), (56, 64), (128, 128), (4096, 16)])
def test_any_number_of_boards(cores: int, rows: int) -> None:
    """Every core has its rows, whatever the bisection; the all-reduce is never below its bytes."""
    device = DEVICES["tpu-v3"]
    step = of_pod(device, cores, rows)
    computing, _ = by_hand(device, cores, rows)
    assert step.total_s - step.communication_s == pytest.approx(computing, rel=1e-6)
    assert device.links is not None
    sized = 4 * RESNET.parameters
    assert step.communication_s > 2 * (1 - 2 / cores) * sized / (4 * device.links.bytes_per_s)


def test_predictions_are_sane_at_every_size() -> None:
    """Smaller batches are quicker but never more efficient; more cores never quicker."""
    device = DEVICES["tpu-v3"]
    steps = [of_pod(device, 1024, rows).total_s for rows in (8, 16, 32, 64, 128)]
    assert steps == sorted(steps)
    each = [step / rows for step, rows in zip(steps, (8, 16, 32, 64, 128), strict=True)]
    assert each == sorted(each, reverse=True)
    sizes = [of_pod(device, cores, 8).total_s for cores in (32, 128, 512, 2048, 8192)]
    assert sizes == sorted(sizes)
    assert max(sizes) < 1.1 * min(sizes)


def test_shipped_rows() -> None:
    rows = shipped()
    assert [row.system for row in rows if row.use == "calibration"] == ["tpu-v2-8", "tpu-v3-8"]
    assert (rows[-1].device, rows[-1].cores, rows[-1].step_s) == ("tpu-v3", 1024, 44.3 / 1e3)


def read(text: str) -> list[PodRow]:
    return checked_rows(PodRow, parse_csv(text, "t", UsageError), UsageError)


def test_columns_in_any_order_and_comments() -> None:
    order = COLUMNS[::-1]
    cells = dict(zip(COLUMNS, GOOD.split(","), strict=True))
    text = "# one\n\n" + ",".join(order) + "\r\n# two\n" + ",".join(cells[c] for c in order)
    assert read(text) == read(f"{HEADER}\n{GOOD}")


FAULTS = {
    "": "t: no rows",
    "a,b\n1,2": "t:2: round: is missing",
    HEADER: "t: no rows",
    f"{HEADER}\n{GOOD},1": "t:2: 9 values; 8 columns",
    f"{HEADER}\nv0.6,tpu-v3-32": "t:2: 2 values; 8 columns",
    f'{HEADER}\n"{GOOD}': "t:2: not a line of CSV",
    f"{HEADER}\n# c\n{GOOD.replace('tpu-v3', 'tpu-v9')}": "t:3: system: 'tpu-v9-32' is not known",
    f"{HEADER}\n{GOOD.replace('-32,', '-64,')}": "t:2: system: 'tpu-v3-64' does not have 32 cores",
    f"{HEADER}\n{GOOD.replace('131.2', 'fast')}": "t:2: step_ms: 'fast': must be a number",
    f"{HEADER}\n{GOOD.replace('131.2', 'nan')}": "t:2: step_ms: 'nan': must be a number",
    f"{HEADER}\n{GOOD.replace('131.2', '-1')}": "t:2: step_ms: '-1': must be a number",
    f"{HEADER}\n{GOOD.replace('131.2', '0')}": "t:2: step_ms: '0': must be a number",
    f"{HEADER}\n{GOOD.replace('131.2', '141.2')}": "t:2: step_ms: 141.2, but 4096 samples at",
    f"{HEADER}\n{GOOD.replace(',128,', ',1.5,')}": "t:2: batch_per_core: '1.5': must be a whole",
    f"{HEADER}\n{GOOD.replace(',128,', ',64,')}": "t:2: global_batch: 4096, but 32 x 64 = 2048",
    f"{HEADER}\n{GOOD.replace(',32,', ',12,')}": "t:2: cores: 12: a board has 8",
    f"{HEADER}\n{GOOD.replace('check', '')}": "t:2: use: '': must have at least 1 character",
    f"{HEADER}\n{GOOD.replace('check', 'Calibraton')}": "t:2: use: 'Calibraton': did you mean",
    f"{HEADER}\n" + f"{GOOD}\n" * 1001: "t: 1001 rows; at most 1000",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_name_the_line(text: str) -> None:
    with pytest.raises(UsageError) as error:
        read(text)
    assert str(error.value).startswith(FAULTS[text])


@given(st.text(max_size=200))
def test_any_text_is_a_table_or_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        read(f"{HEADER}\n{GOOD},\n{text}")


def run_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(["validate", "--format", "json", *args]) == 0
    return json.loads(capsys.readouterr().out)


def test_json(result: Any) -> None:
    data = validated()
    assert data["constants"]["memory_efficiency"] == memory_efficiency(result)
    assert [row["system"] for row in data["rows"]] == [r.system for r in shipped()]
    for row in data["rows"]:
        assert {"cores", "measured_ms", "predicted_ms", "error", "use"} <= row.keys()
        assert row["error"] == pytest.approx(row["predicted_ms"] / row["measured_ms"] - 1)
    assert data["other_rows"]["largest_error"] == pytest.approx(0.052, abs=1e-3)
    assert data["board_ratio"]["boards"] == ["tpu-v2-8", "tpu-v3-8"]


def of_table(line: str) -> Any:
    """What is found of a table of one row."""
    lines = parse_csv(f"{HEADER}\n{line}\n", "mine.csv", UsageError)
    rows = checked_rows(PodRow, lines, UsageError)
    return validate(rows, shipped(), Model(RESNET, DEVICES))


def test_a_table_without_calibration_rows(result: Any) -> None:
    found = of_table(GOOD)
    assert found["constants"]["memory_efficiency"] == memory_efficiency(result)
    assert found["fitted_on"] == ["tpu-v2-8", "tpu-v3-8"]
    (row,) = found["rows"]
    assert (row["system"], row["use"]) == ("tpu-v3-32", "check")
    said = " ".join(section(found, "resnet50").messages)
    assert "of the shipped table (this one has no calibration rows)" in said


def test_a_table_with_calibration_rows_of_its_own() -> None:
    found = of_table(GOOD.replace("check", "calibration"))
    assert found["fitted_on"] == ["tpu-v3-32"]
    assert abs(found["rows"][0]["error"]) < 1e-6
    assert "other_rows" not in found
    assert "one_board" not in found


def test_users_faults_exit_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER}\n{GOOD.replace('131.2', 'x')}\n")
    assert main(["validate", "--table", str(path)]) == 2
    assert f"{path}:2: step_ms: 'x'" in capsys.readouterr().err
    assert main(["validate", "--set", "roofline.nonsense=1"]) == 2
    assert main(["validate", "--set", "roofline.memory_efficiency=0.5"]) == 2
    assert main(["validate", "--plot", "x.txt"]) == 2
    path.write_text(f"{HEADER}\n" + f"{GOOD}\n" * 61)
    assert main(["validate", "--table", str(path), "--plot", str(tmp_path / "x.png")]) == 2
    assert "at most 60 rows" in capsys.readouterr().err


@pytest.mark.slow
def test_what_was_tried_and_made_it_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/results.md: padded matrices spoil the boards' ratio, untiled memory small batches."""
    padded = run_json(capsys, "--set", "roofline.pad_matrix_unit=128")
    assert padded["board_ratio"]["predicted"] > 1.75
    assert max(abs(row["error"]) for row in padded["rows"][:2]) > 0.02
    untiled = run_json(capsys, "--set", "roofline.tile=false")
    assert untiled["rows"][-1]["error"] < -0.15


def test_the_picture_and_all_sections(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "errors.svg"
    assert main(["validate", "--plot", str(path)]) == 0
    out = capsys.readouterr().out
    assert widest(out) <= 80
    assert "at most 5.2% off" in out
    for title in ("Measured steps of resnet50", "Collectives: simulated", "Another simulator"):
        assert title in out
    assert "ps a phase off" in out
    assert "│ ASTRA-sim 2.0 │ ring of 64 " in out
    assert "tpu-v3-1024, 32 a core" in path.read_text()


def test_peaks_alone_are_the_flops() -> None:
    macs = sum(x.weights * x.output.area for x in RESNET.layers)
    first = 64 * 3 * 49 * 112 * 112
    wanted = 2 * 128 * (3 * macs - first) / 61.5e12
    assert math.isclose(peak_only_s(RESNET, DEVICES["tpu-v3"], 128), wanted)

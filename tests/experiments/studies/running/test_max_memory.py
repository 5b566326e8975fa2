"""--max-memory: a step that would take more is not run, and the others are."""

import json
from pathlib import Path

import pandas
import pytest

import accelarray
from experiments.cli import main
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.estimate import estimate, limit_of
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from hardware import load_array
from planners import Plan
from planners.registry import load_planner
from tests.experiments.measured.some_rows import SMALL, table
from workloads import load_network

SMALLER, LARGER = "lenet", "vgg16"
ARRAY = load_array("tpu-v3-8")
HELD = {
    name: estimate(Case(load_network(name), "owt", ARRAY, 8)).held_bytes
    for name in (SMALLER, LARGER)
}
LIMIT = sum(HELD.values()) / 2
BOTH = ["--networks", f"{SMALLER},{LARGER}", "--planners", "owt", "--array", "tpu-v3-8"]
PUBLISHED = [*BOTH, "--execution", "published", "--max-memory", str(round(LIMIT))]


def outside(*args: object) -> Plan:
    """A planner that is none of ours, which must not be asked either."""
    assert args[0].name != LARGER  # type: ignore[attr-defined]
    found: Plan = load_planner("owt")(*args)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("planner", ["owt", outside])
def test_what_is_too_large_is_not_run_and_not_kept(planner: object, tmp_path: Path) -> None:
    cases = {name: Case(load_network(name), planner, ARRAY, 8) for name in HELD}  # type: ignore[arg-type]
    told: list[str] = []
    with Store(tmp_path / "s.db") as store:
        found = {
            f.name: f.outputs for f in Runner(store, tell=told.append, limit_bytes=LIMIT).run(cases)
        }
        assert len(store) == 1
    assert found[SMALLER]["iteration_s"] > 0
    assert found[LARGER]["iteration_s"] is None
    assert found[LARGER]["reason"].startswith(str(cases[LARGER]))
    assert found[LARGER]["reason"].endswith("MB allows")
    assert told == [f"1 of 2 steps are not run; the first is {found[LARGER]['reason']}"]
    none = Runner(tell=told.append, limit_bytes=HELD[SMALLER] - 1).run(cases)
    assert [one.outputs["iteration_s"] for one in none] == [None, None]
    assert told[1].startswith("2 of 2 steps are not run; the first is lenet, ")


def test_what_a_store_has_is_not_refused(tmp_path: Path) -> None:
    cases = {"only": Case(load_network(LARGER), "owt", ARRAY, 8)}
    with Store(tmp_path / "s.db") as store:
        (first,) = Runner(store).run(cases)
        (again,) = Runner(store, limit_bytes=1.0).run(cases)
    assert again == first


def test_a_sweep_has_it_with_its_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "p.png"
    words = ["sweep", "--vary", "batch=8,16", *PUBLISHED, "--plot", str(plot)]
    assert main([*words, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["network"] for row in rows if row["reason"]] == [LARGER, LARGER]
    assert [row["iteration_s"] is None for row in rows] == [bool(row["reason"]) for row in rows]
    assert plot.exists()


def test_a_comparison_leaves_its_network_out() -> None:
    words = {"array": "tpu-v3-8", "execution": "published", "max_memory": LIMIT}
    with pytest.warns(accelarray.AccelarrayWarning, match="are not run; the first is vgg16"):
        found = accelarray.speedup(f"{SMALLER},{LARGER}", "owt", **words)  # type: ignore[arg-type]
    frame: pandas.DataFrame = found.to_frame()
    assert list(frame["network"]) == [SMALLER]
    with (
        pytest.warns(accelarray.AccelarrayWarning, match="are not run"),
        pytest.raises(UsageError, match="everywhere some step is too large"),
    ):
        accelarray.speedup(f"{SMALLER},{LARGER}", "owt", levels="2,3", **words)  # type: ignore[arg-type]


def test_fit_goes_on_with_larger_micro_batches() -> None:
    with pytest.warns(accelarray.AccelarrayWarning, match="steps are not run"):
        found = accelarray.fit(
            "gpt2:layers=2:seq=16",
            "h100-cluster",
            512,
            set="nodes=1",
            axes="pp,micro-batch",
            max_memory="6 MB",
        )
    refused = [row for row in found.others if "--max-memory" in row["reason"]]
    assert {row["micro_batch"] for row in refused} == {1}
    assert {row["micro_batch"] for row in found.fits if row["pp"] == 2} == {2, 4, 8}


def test_validate_shows_the_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows, some = tmp_path / "rows.csv", tmp_path / "some.csv"
    some.write_text(table(SMALL))
    rows.write_text(table(SMALL, SMALL | {"id": "larger", "layers": 400}))
    words = ["validate", "--rows", str(rows), "--calibration", str(some), "--format", "json"]
    assert main([*words, "--max-memory", "20MB"]) == 0
    found = {row["id"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert found[SMALL["id"]]["predicted_s"] > 0
    assert found["larger"]["predicted_s"] is None
    assert found["larger"]["left_out"].endswith("more than --max-memory 20 MB allows")


ONE = ["--array", "tpu-v3-8", "--max-memory", "1MB"]


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "lenet", "--planner", "owt", *ONE],
        ["explain", "lenet", "--planner", "owt", *ONE],
        ["plan", "lenet", "--planner", "owt", *ONE],
        ["timeline", "lenet", "--planner", "owt", *ONE, "--output", "t.png"],
        ["compare", "lenet", "--planners", "owt,accpar", *ONE],
        ["report", *BOTH, "--max-memory", "1MB", "--output", "r.html"],
        ["design", "lenet", "--max-memory", "1MB"],
    ],
    ids=lambda words: words[0],
)
def test_a_step_alone_is_an_error(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("accelarray: error: ")
    assert said[0].endswith("more than --max-memory 1 MB allows")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["speedup"], ["sweep", "--vary", "batch=8,16"]], ids=" ".join)
def test_where_nothing_is_left(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, *BOTH, "--max-memory", "1MB"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[2].split(":")[0] for line in said] == [" warning", " error"]
    assert said[1].endswith("everywhere some step is too large; take a larger limit")


def test_what_it_takes() -> None:
    assert limit_of("1.5GB") == limit_of(1.5e9) == limit_of(1500000000) == 1.5e9
    assert limit_of(None) == float("inf")
    for wrong in ("much", "-1", -1.0, float("nan"), "5 s", ""):
        with pytest.raises(UsageError, match=r"^--max-memory"):
            limit_of(wrong)

"""From rows to errors: every prediction is a simulated step."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelarray import validate
from experiments.cli import main
from experiments.measured import study
from experiments.measured.calibrated import calibrated, said, toml_of
from experiments.measured.case import ROOM, case_of, run_rows
from experiments.measured.fit import Constants
from experiments.measured.large_models import plot, sections
from experiments.measured.rows import load, shipped
from experiments.measured.study import (
    CONTROLS,
    Outcome,
    Work,
    at_share,
    controls,
    factor_of,
    fitted_shares,
    predicted,
    probe,
    probes_of,
    shipped_steps,
    spread_over,
    work_of,
)
from experiments.notices import AccelarrayWarning
from experiments.output import UsageError
from experiments.scripts.leave_one_out import errors_with
from experiments.studies.case import step_of
from experiments.studies.running.estimate import estimate
from experiments.studies.running.outputs import REFUSED, check_kept, run_case
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from tests.experiments.measured.some_rows import SMALL, small, table

GRAPHS = {"source": "mlperf"}
"""Rows whose host starts nothing: their steps are near a + b / share."""


def simulated(share: float, **changed: object) -> float:
    _, timeline = step_of(at_share(case_of(small(**changed)), share).case)
    return timeline.iteration_s


@pytest.fixture(scope="module")
def truth() -> list[dict[str, object]]:
    """Rows of a machine that does what the model says, at a share of 0.55."""
    made: list[dict[str, object]] = []
    for i, (seq, micro) in enumerate([(512, 1), (512, 2), (1024, 1), (1024, 2)]):
        changed: dict[str, object] = GRAPHS | {"id": f"true/{i}", "seq": seq, "mbs": micro}
        made.append(SMALL | changed | {"step_s": repr(simulated(0.55, **changed))})
    return made


MIXED = """
kind = "array"
[[devices]]
device = "h100-sxm"
count = 2
[[devices]]
device = "t4"
count = 2
[[devices]]
device = "v100-32"
count = 1
[topology]
kind = "switch"
"""


def test_rows_of_unlike_chips(truth: list[dict[str, object]], tmp_path: Path) -> None:
    """Each chip has its own share; whose is the catalog's is told."""
    (tmp_path / "mixed.toml").write_text(MIXED)
    path = tmp_path / "rows.csv"
    own = {"id": "m", "hw": "", "array": "mixed.toml", "precision": "fp16", "gpus": 5, "mbs": 1}
    path.write_text(table(SMALL | own | {"stage_hw": "h100:1x2;t4:2x1;v100:1x1"}))
    (found,) = predicted(load(str(path)), [small(**row) for row in truth], Runner()).outcomes
    assert found.predicted_s
    assert found.assumed == tuple(f"share of {of} as in the catalog" for of in ("t4", "v100-32"))


def test_leaving_a_source_out_by_hand() -> None:
    """At a third of the share, with 0.03 s for each 1 / share, a step takes 0.06 s more."""
    row = small(step_s=0.05)
    before, now = (Constants({("H100", "bf16"): share}, {}, {}) for share in (1.0, 1 / 3))
    errors = errors_with([Outcome(row, 0.05, None, None)], {row.id: 0.03}, before, now)
    assert errors[row.id] == pytest.approx(0.06 / 0.05)


def test_a_machine_that_does_what_the_model_says(truth: list[dict[str, object]]) -> None:
    rows = [small(**row) for row in truth]
    study = predicted(rows[2:], rows[:2], Runner())
    assert study.constants.shares["H100", "bf16"] == pytest.approx(0.55, rel=0.02)
    assert all(abs(one.error) < 0.01 for one in study.outcomes)
    assert all((one.memory_gib or 0) > 0.1 for one in study.outcomes)


def test_rows_are_estimated_where_asked(truth: list[dict[str, object]], tmp_path: Path) -> None:
    """Near what is simulated, kept by no store, and told."""
    rows = [small(**row) for row in truth]
    with Store(tmp_path / "kept.db") as store:
        study = predicted(rows[2:], rows[:2], Runner(store), estimate=True)
        again = predicted(rows[2:], rows[:2], Runner(store))
    for found, exact in zip(study.outcomes, again.outcomes, strict=True):
        assert found.predicted_s == pytest.approx(exact.predicted_s, rel=0.05)
        assert found.predicted_s != exact.predicted_s
    first, *_ = sections(study)
    assert first.data["estimated"] is True
    assert "estimates of the first pass" in first.messages[0]
    assert "estimates" not in " ".join(sections(again)[0].messages)


def test_a_row_of_a_source_sets_its_factor(truth: list[dict[str, object]]) -> None:
    """A source that is a fifth slower than the calibration's."""
    rows = [small(**row) for row in truth]
    slower = [
        small(
            **(
                row
                | {
                    "id": f"s{i}",
                    "source": "mlperf slow",
                    "step_s": 1.2 * float(str(row["step_s"])),
                }
            )
        )
        for i, row in enumerate(truth)
    ]
    study = predicted([*slower, *rows], rows, Runner(), per_source=1)
    assert study.factors["mlperf slow"] == pytest.approx(1.2, rel=0.02)
    left_out = [one.row.id for one in study.outcomes if one.left_out]
    assert left_out == ["s1", "true/1"]  # of four the second
    assert all(abs(one.error) < 0.02 for one in study.outcomes)


@pytest.mark.parametrize(
    ("longer", "factor"),
    [
        ((1.2,), 1.2),
        ((1.2, 1.2, 1.2), 1.2),
        ((1.18, 1.2, 1.22), 1.2**0.99722),
        ((0.9, 1.02, 1.14), 1.02**0.07759),
        ((0.9, 1.0, 1.1), 1.0),
        ((0.5, 0.8), 0.69579),
    ],
)
def test_rows_that_contradict_each_other_say_less(longer: tuple[float, ...], factor: float) -> None:
    """By hand, of the logarithms: the middle one, and how far they are apart."""
    rows = [Outcome(small(id=str(n), step_s=s), 1.0, None, None) for n, s in enumerate(longer)]
    assert factor_of(rows) == pytest.approx(factor, rel=1e-4)


def test_rows_that_set_a_factor_are_spread_over_their_source() -> None:
    rows = [Outcome(small(id=str(n)), 1.0, None, None) for n in range(9)]
    assert [one.row.id for one in spread_over(rows, 3)] == ["0", "4", "8"]
    assert [one.row.id for one in spread_over(rows, 2)] == ["0", "8"]
    assert [one.row.id for one in spread_over(rows, 1)] == ["4"]
    assert spread_over(rows[:2], 3) == rows[:2]


EXPERTS = {"framework": "Megatron-Bridge 26.04", "model": "deepseek", "experts": 8, "topk": 2}


def test_what_cannot_be_said_is_left_out_with_a_reason(truth: list[dict[str, object]]) -> None:
    rows = [
        small(id="no batch", gbs=""),
        small(id="heads", tp=8, dp=1, heads=4, kv_heads=4),
        small(id="memory", kind="memory_formula", step_s="", mem_gib=3),
        small(id="chip", hw="H1000"),
        small(id="array", hw="", array="mixed", **EXPERTS),
    ]
    study = predicted(rows, [small(**truth[0])], Runner())
    reasons = [one.left_out for one in study.outcomes]
    assert reasons[0] == "the batch is not stated"
    assert reasons[1] is not None
    assert "heads" in reasons[1]
    assert reasons[2] == "its step is not stated"
    assert reasons[3] == "hw: 'H1000' is not known; did you mean H100?"
    assert "unknown array 'mixed'" in str(reasons[4])
    assert study.outcomes[2].memory_error is not None


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_refused_row_stops_no_other(jobs: int, tmp_path: Path) -> None:
    """One call runs all of them, wherever; what was refused is not kept as if it were a step."""
    asked = []

    class Counting(Runner):
        def run(self, cases: Any, *more: Any, **named: Any) -> Any:
            asked.append(len(cases))
            return super().run(cases, *more, **named)

    rows = [
        small(id="a"),
        small(id="heads", tp=8, dp=1, heads=4, kv_heads=4),
        small(id="b", seq=256),
    ]
    asked_of = {row.id: case_of(row) for row in rows}
    cases = {name: of.case for name, of in asked_of.items()}
    with Store(tmp_path / "steps.sqlite") as store:
        ran = {name: got for name, _, got in run_rows(asked_of, Counting(store, jobs))}
        kept = dict(store.get((case.key for case in cases.values()), check_kept))
    assert asked == [3]
    assert ran.keys() == {"a", "b", "heads"}
    for name in ("a", "b"):
        assert ran[name] == run_case(cases[name])
    assert "heads" in ran["heads"][REFUSED]
    assert kept.keys() == {cases[name].key for name in ("a", "b")}


def test_what_does_not_fit_computes_more_again() -> None:
    """A row that says nothing of it has the least that fits, as found by trying them all."""
    of: dict[str, Any] = {
        "layers": 8,
        "hidden": 4096,
        "ffn": 16384,
        "heads": 32,
        "kv_heads": 32,
        "seq": 4096,
    }
    of |= {"gbs": 96, "tp": 2, "hw": "A100-40", "nic_gbps_per_gpu": ""}

    def peak(micro: int, recompute: str) -> float:
        one = case_of(small(**of, mbs=micro))
        execution = replace(one.case.execution, recompute=recompute)
        return float(run_case(replace(one.case, execution=execution))["peak_memory_bytes"])

    capacity = ROOM * case_of(small(**of)).case.array.group.kinds[0][0].hbm_capacity_bytes
    chosen = []
    for micro in (4, 12, 24):
        ((_, ran, outputs),) = run_rows(
            {"": case_of(small(**of, mbs=micro, recompute=""))}, Runner()
        )
        lighter = [mode for mode in ("none", "2", "4", "6") if peak(micro, mode) <= capacity]
        assert ran.split.recompute == (lighter[0] if lighter else "full")
        assert outputs["peak_memory_bytes"] == peak(micro, ran.split.recompute)
        said = [one for one in ran.split.assumed if one.startswith("recompute")]
        assert [one.split()[1] for one in said] == [ran.split.recompute]
        chosen.append(ran.split.recompute)
    assert chosen == ["none", "2", "6"]


def test_work_by_hand() -> None:
    """Four blocks and a head, six FLOPs a weight and token; attention's products, all of them."""
    of = case_of(small())
    tokens = 32 * 512
    weights = 4 * (4 * 1024**2 + 3 * 1024 * 4096) + 32000 * 1024
    scores = 4 * 2 * 32 * 512 * 512 * 1024
    work = work_of(of)
    flops = 6 * weights * tokens + 3 * 2 * scores
    assert work.model_s == pytest.approx(flops / (8 * 989e12), rel=1e-3)
    assert work.hardware_s == work.model_s
    again = work_of(case_of(small(recompute="full")))
    assert again.hardware_s == pytest.approx(4 / 3 * again.model_s)


def test_controls_by_hand() -> None:
    """100 FLOPs at a peak of 10 take 10 s; rows at half and a quarter: in the middle 0.354."""
    work = Work(10.0, 15.0)
    shares = fitted_shares([(work, 20.0), (work, 40.0)])
    assert shares.model_s == pytest.approx((0.5 * 0.25) ** 0.5)
    found = controls(work, shares)
    assert list(found) == list(CONTROLS)
    assert found["peak only"] == 10.0
    assert found["constant share"] == pytest.approx(10 / 0.125**0.5)
    assert found["share, recompute counted"] == pytest.approx(found["constant share"])


def test_a_stack_of_ones_own(truth: list[dict[str, object]], tmp_path: Path) -> None:
    found = calibrated([small(**row) for row in truth], Runner(), lambda done: None)
    (one,) = found.fitted
    assert (one.chip, one.device, one.format) == ("H100", "h100-sxm", "bf16")
    assert one.share == pytest.approx(0.55, rel=0.02)
    assert len(one.rows) == 4
    errors = [row[key] for row in one.rows for key in ("error", "held_out_error")]
    assert max(map(abs, errors)) < 0.02
    for row in truth:
        of = case_of(small(**row))
        (told,) = [each for each in one.rows if each["id"] == row["id"]]
        step_s = step_of(at_share(of, one.share).case)[1].iteration_s
        assert told["predicted_s"] == step_s  # and not where the line through the probes is
    assert "0." in said(found)[0]
    text = toml_of(found, "mine.csv")
    assert tomllib.loads(text)["chips"]["h100-sxm"]["bf16"] == pytest.approx(one.share, rel=1e-4)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    from hardware import load_array

    array = load_array("h100-cluster", [f"stack={path}", "precision=bf16"])
    assert array.group.kinds[0][0].roofline.matrix_efficiency == pytest.approx(one.share, rel=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.15])
def test_a_share_is_found_where_exchanges_hide_behind_products(share: float) -> None:
    """At the probes a slow network is not hidden: their line misses such a step by half."""
    row = {"gpus": 16, "dp": 16, "tp": 1, "sp": "", "nic_gbps_per_gpu": 10}
    row |= {"gbs": 64, "mbs": 4, "seq": 2048}
    step_s = step_of(at_share(case_of(small(**row)), share).case)[1].iteration_s
    found = calibrated([small(**row, step_s=step_s)], Runner(), lambda done: None)
    assert found.fitted[0].share == pytest.approx(share, rel=0.01)


def test_rows_that_tell_nothing_are_told(truth: list[dict[str, object]]) -> None:
    """They were left out, and a word that is not known taken for another, silently."""
    bad = [small(id="odd", dp=3), small(id="no step", step_s="")]
    first, *others = truth
    rows = [small(**(first | {"attn": "flesh"})), *(small(**row) for row in others), *bad]
    with pytest.warns(AccelarrayWarning) as told:
        found = calibrated(rows, Runner(), lambda done: None)
    assert len(found.rows) == len(truth)
    said = " ".join(str(one.message) for one in told)
    assert "Row odd is left out: dp 3 x tp 2" in said
    assert "Row no step is left out: step_s is missing" in said
    assert f"Row {first['id']}: attn 'flesh' is not known" in said


def test_rows_that_are_fitted_and_judged_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(table(SMALL))
    found = validate(rows=path, calibration=path, estimate=True)
    said = "1 of the rows are among those of the calibration, too: they are fitted."
    assert any(said in str(part) for part in found.tables())
    with pytest.raises(UsageError, match="measured steps of large models; take --rows"):
        validate(path)


def test_one_stack_at_a_time() -> None:
    rows = [small(), small(id="other", framework="Composer FSDP")]
    with pytest.raises(UsageError, match="several stacks"):
        calibrated(rows, Runner(), lambda done: None)
    with pytest.raises(UsageError, match="the batch is not stated"):
        calibrated([small(gbs="")], Runner(), lambda done: None)


def test_the_commands(
    truth: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, fit, out = tmp_path / "rows.csv", tmp_path / "fit.csv", tmp_path / "out.json"
    fit.write_text(table(*truth[:2]))
    rows.write_text(table(*truth[2:], SMALL | {"id": "out", "gbs": ""}))
    picture = tmp_path / "all.png"
    words = ["validate", "--rows", str(rows), "--calibration", str(fit), "--plot", str(picture)]
    assert main([*words, "--output", str(out)]) == 0
    data = json.loads(out.read_text())
    assert set(data) >= {"rows", "constants", "errors", "factors"}
    first = data["rows"][0]
    assert first["id"] == "true/2"
    assert first["predicted_s"] == pytest.approx(first["measured_s"], rel=0.02)
    assert first["left_out"] is None
    assert data["rows"][2]["left_out"] == "the batch is not stated"
    assert data["errors"]["by_model"]["dense"]["rows"] == 2
    assert picture.stat().st_size > 5000
    capsys.readouterr()
    assert main(words[:-2]) == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines() if line.startswith(("│", "┃")))
    assert "the batch is not stated: out" in shown
    assert "H100 bf16 0.55" in shown
    mine = tmp_path / "mine.toml"
    assert main(["calibrate", str(fit), "--output", str(mine)]) == 0
    assert "held out" in capsys.readouterr().out
    assert 'extends = "nemo-mlperf"' in mine.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["validate", "--per-source", "3"], "say --rows FILE"),
        (["validate", "--rows", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["validate", "--rows", "a.csv", "--set", "a=b"], "--set is not for measured rows"),
        (["validate", "--rows", "a.csv", "--per-source", "-1"], "must be 0 or more"),
        (["calibrate", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["calibrate", "a.csv", "--output", "a.txt"], "ends in .toml"),
    ],
)
def test_bad_input(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_nothing_to_draw() -> None:
    study = predicted([small(gbs="")], [], Runner())
    with pytest.raises(UsageError, match="no row can be compared"):
        plot(study.outcomes)
    assert sections(study)[0].data["rows"][0]["predicted_s"] is None


def test_steps_that_ran_but_are_predicted_not_to_fit() -> None:
    """Adam's numbers for 6e8 weights are 10 GB; for 1e10 they are 180 GB, of 80.

    For 5.7e9 they are 91 GB: no fit, although more is computed again only from 100 GB on.
    """
    large = {"hidden": 8192, "ffn": 28672, "heads": 64}
    rows = [small(id="fits", tp=1, dp=8), small(id="full", tp=1, dp=8, layers=12, **large)]
    rows.append(small(id="nearly", tp=1, dp=8, layers=6, mbs=1, recompute="", **large))
    rows.append(small(id="none", gbs=""))
    study = predicted(rows, rows, Runner())
    assert [one.fits for one in study.outcomes] == [True, False, False, None]
    assert 80e9 < (study.outcomes[2].memory_gib or 0) * 2**30 < 100e9
    told = next(words for one in sections(study) for words in one.messages if "were run" in words)
    assert told.startswith("2 of 3 steps were run, although")
    assert told.endswith("predicted not to fit: full, nearly.")


@pytest.mark.parametrize("many", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_shipped_steps_are_what_the_simulator_says_now(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else run ``python -m experiments.scripts.calibration_steps`` again."""
    asked, steps = probes_of(shipped()), shipped_steps()
    assert {of.case.key for of in asked.values()} == steps.keys()
    quickest = sorted(asked.values(), key=lambda of: estimate(of.case).seconds)[:many]
    for of in quickest:
        assert run_case(of.case)["iteration_s"] == steps[of.case.key]
    monkeypatch.setattr(study, "run_rows", lambda asked, runner: iter(asked.items()))
    assert len(probe(shipped(), Runner(), lambda done: None)) == len(steps) / 2


def test_rows_of_ones_own_are_simulated() -> None:
    heard: list[str] = []
    (one,) = probe([small(step_s=1.0)], Runner(), heard.append)
    assert heard == [one.row.id] * 2
    assert one.seconds[1] < one.seconds[0]

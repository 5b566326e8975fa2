"""Schedules as files: those of torch, and ours there and back."""

from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from planners import PlanError
from simulator import SimulationError
from simulator.lowering.schedules.file import read_schedule, schedule_text
from simulator.lowering.schedules.registry import SCHEDULES, schedule_of
from simulator.lowering.schedules.schedule import Rank


def step(schedule: str, virtual: int = 1, **more: Any) -> Any:
    return accelarray.simulate(
        "gpt2:layers=8:seq=64",
        array="h100-cluster",
        batch=16,
        set="nodes=1",
        parallel=f"pp=4,dp=2,vp={virtual}",
        schedule=schedule,
        **more,
    )


def file_of(folder: Path, text: str) -> str:
    path = folder / "schedule.csv"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zero-bubble", "interleaved"])
def test_built_in_schedules_read_back_to_the_same_records(name: str, tmp_path: Path) -> None:
    built_in = step(name, 2 if name == "interleaved" else 1)
    path = file_of(tmp_path, built_in.export("pipelining"))
    read = step(path, 2 if name == "interleaved" else 1)
    assert read.to_frame().equals(built_in.to_frame())
    assert read.iteration_s == built_in.iteration_s


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_every_order_reads_back(name: str, ranks: int, tmp_path: Path) -> None:
    schedule, virtual = SCHEDULES[name], SCHEDULES[name].least_virtual
    many = 2 * ranks
    read = read_schedule(file_of(tmp_path, schedule_text(schedule, ranks, virtual, many)))
    for rank in range(ranks):
        who = Rank(rank, ranks, virtual, many, ranks - rank - 1)
        assert list(read.order(who)) == list(schedule.order(who))


def torchs(name: str, ranks: int, virtual: int, many: int) -> dict[int, list[Any]]:
    """The actions of one of torch's classes, without the stages that it asks for."""
    torch = pytest.importorskip("torch.distributed.pipelining.schedules")
    made = object.__new__(getattr(torch, name))
    made.n_local_stages, made.pp_group_size, made._n_microbatches = virtual, ranks, many
    made.microbatches_per_round = many // max(1, many // ranks)
    made._num_stages = ranks * virtual
    made.pipeline_order = {r: made._calculate_single_rank_operations(r) for r in range(ranks)}
    if name == "ScheduleInterleavedZeroBubble":
        made.pipeline_order = made._add_bubbles_to_actions(ranks * virtual)
    return dict(made.pipeline_order)


def dumped(actions: dict[int, list[Any]]) -> str:
    """As its ``_dump_csv`` writes them, idle steps as empty cells."""
    return "\n".join(",".join(str(one or "") for one in row) for row in actions.values()) + "\n"


@pytest.mark.parametrize("many", [4, 8])
def test_torchs_interleaved_schedule_is_ours(many: int, tmp_path: Path) -> None:
    read = read_schedule(file_of(tmp_path, dumped(torchs("ScheduleInterleaved1F1B", 4, 2, many))))
    for rank in range(4):
        who = Rank(rank, 4, 2, many, 3 - rank)
        assert list(read.order(who)) == list(schedule_of("interleaved").order(who))


def test_torchs_zero_bubble_runs_and_is_faster_than_its_1f1b(tmp_path: Path) -> None:
    text = dumped(torchs("ScheduleInterleavedZeroBubble", 4, 2, 8))
    assert "I" in text
    assert "W" in text
    split = step(file_of(tmp_path, text), 2)
    assert split.iteration_s < step("interleaved", 2).iteration_s


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zero-bubble", "interleaved"])
def test_torch_accepts_ours(name: str) -> None:
    torch = pytest.importorskip("torch.distributed.pipelining.schedules")
    virtual = SCHEDULES[name].least_virtual
    text = schedule_text(SCHEDULES[name], 4, virtual, 8)
    actions = {
        rank: [torch._Action.from_str(cell) for cell in line.split(",")]
        for rank, line in enumerate(text.splitlines())
    }
    found = torch._validate_schedule(actions, 4, 4 * virtual, 8)
    assert found == {stage: stage % 4 for stage in range(4 * virtual)}


def test_what_is_moved_and_what_overlaps(tmp_path: Path) -> None:
    text = "0UNSHARD,0F0,0SEND_F0,0F1,,(0B0;0F2)OVERLAP_F_B,0B1,0B2,0REDUCE_GRAD\n"
    (passes,) = (list(read_schedule(file_of(tmp_path, text)).order(Rank(0, 1, 1, 3, 0))),)
    assert [one.number for one in passes] == [0, 1, 0, 2, 1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1024 ranks"),
        ("0F0,0B0\n0F0,1B0\n", ":2: cell 1: '0F0': stage 0 is at rank 0"),
        ("0F0,x\n", ":1: cell 2: 'x': write stage, F, B, I or W, and micro-batch, as 2F0"),
        ("0B0,0F0\n", ":1: micro-batch 0 has backward before forward"),
        ("0F0,0W0,0I0\n", ":1: micro-batch 0 has weights before backward"),
        ('0F0,"\n', "not a file of CSV"),
        ("0F0\0\n", ":1: cell 1"),
        ("0F9999999,0B0\n", "write stage"),
    ],
)
def test_what_is_no_schedule(text: str, words: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(PlanError) as error:
        read_schedule(path)
    assert str(error.value).startswith(path)
    assert words in str(error.value)


def test_a_schedule_for_other_sizes_is_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, schedule_text(SCHEDULES["1f1b"], 4, 1, 4))
    with pytest.raises(PlanError, match="pp=4, vp=1 and 4 micro-batches, not for pp=4, vp=1 and 8"):
        step(path)
    path = file_of(tmp_path, "0F0,0F1,0B0,0B0\n")
    with pytest.raises(PlanError, match="does not take each of its 2 micro-batches once"):
        accelarray.simulate(
            "gpt2:layers=2:seq=64", array="h100-cluster", batch=2, set="nodes=1",
            stages=1, micro_batches=2, schedule=path, planner="data_parallel",
        )  # fmt: skip


def test_a_deadlock_is_told(tmp_path: Path) -> None:
    text = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"
    with pytest.raises(SimulationError, match="deadlock at"):
        accelarray.simulate(
            "gpt2:layers=4:seq=64", array="h100-cluster", batch=8, set="nodes=1",
            parallel="pp=2,dp=4", schedule=file_of(tmp_path, text),
        )  # fmt: skip


def test_a_changed_file_is_another_case(tmp_path: Path) -> None:
    keys = set()
    for name in ("gpipe", "1f1b"):
        path = file_of(tmp_path, schedule_text(SCHEDULES[name], 4, 1, 8))
        keys |= {step(path).case.key}
    assert len(keys) == 2


def test_export_of_a_step_without_stages(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "gpt2:layers=2:seq=64", "--array", "h100-cluster", "--set", "nodes=1"]
    assert main([*words, "--batch", "8", "--parallel", "dp=8", "--export", "pipelining"]) == 2
    assert "of pipelines with as many replicas of each stage" in capsys.readouterr().err


def test_inference_goes_by_a_file_without_virtual_stages(tmp_path: Path) -> None:
    """It has the order of one batch, and inference takes several, one behind the other."""
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 64, "micro_batches": 4}
    network = "gpt2:layers=4:seq=64:tied=no"
    cut: dict[str, Any] = {"parallel": "dp=4,pp=2"}
    file = tmp_path / "order.csv"
    file.write_text(accelarray.simulate(network, **on, **cut).export("pipelining"))
    found = accelarray.simulate(network, **on, **cut, schedule=str(file), mode="inference")
    plain = accelarray.simulate(network, **on, **cut, mode="inference")
    assert found.iteration_s == plain.iteration_s

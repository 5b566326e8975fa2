"""The picture of a pipeline: a row for each stage, a box for each pass, numbers where they fit."""

from pathlib import Path

import pytest

from experiments.cli import main
from experiments.pictures.pipeline_plot import plot_pipeline, rows_of
from experiments.studies.case import Case, step_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import Plan
from simulator import DEPLOYED, Timeline
from workloads import load_network


def step(schedule: str, **options: str) -> tuple[Plan, Timeline]:
    given = {"stages": "4", "micro_batches": "8", "schedule": schedule} | options
    execution = with_options(DEPLOYED, given)
    return step_of(
        Case(
            load_network("vgg16"), "data_parallel", load_array("tpu-v3-8"), 256, execution=execution
        )
    )


def test_a_row_for_each_stage_and_a_box_for_each_pass() -> None:
    plan, timeline = step("1f1b")
    rows = rows_of(plan, timeline)
    assert [row.label.split(":")[0] for row in rows] == ["0", "1", "2", "3"]
    for row in rows:
        letters = [one.letter for one in row.passes]
        assert (letters.count("F"), letters.count("B"), letters.count("U")) == (8, 8, 1)
    figure = plot_pipeline("title", plan, timeline)
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("7") >= 4  # some stage's passes are wide enough
    assert "bubble" in axes.get_title(loc="left")


def test_versions_are_said_where_there_are_several() -> None:
    plan, timeline = step("pipedream", batches="2")
    figure = plot_pipeline("title", plan, timeline)
    assert any("version of the weights" in text.get_text() for text in figure.texts)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_command_draws_it_twice_alike(tmp_path: Path, ending: str) -> None:
    words = "timeline lenet --planner data_parallel --array tpu-v3-8 --stages 2 --micro-batches 4"
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for file in files:
        assert main([*words.split(), "--batch", "64", "--output", str(file)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_each_kind_of_devices_has_a_row_also_without_stages() -> None:
    options = {"parallel": "dp=16", "micro_batch": "1"}
    execution = with_options(DEPLOYED, options)
    array = load_array("mixed-v100-t4")
    network = load_network("gpt2:layers=2:seq=32")
    plan, timeline = step_of(Case(network, "axes", array, 64, execution=execution))
    labels = [row.label.split(":")[0] for row in rows_of(plan, timeline)]
    assert sorted(labels) == sorted(f"0, {device.name}" for device, _ in array.group.kinds)

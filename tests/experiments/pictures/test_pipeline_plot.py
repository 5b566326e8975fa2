"""The picture of a pipeline: a row for each stage, a box for each pass, numbers where they fit."""

from pathlib import Path

import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from experiments.cli import main
from experiments.pictures.figures import save
from experiments.pictures.palette import PHASES
from experiments.pictures.pipeline_plot import plot_pipeline, rows_of
from experiments.studies.case import Case, step_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import Plan
from simulator import DEPLOYED, PUBLISHED, Timeline
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


def note(plan: Plan, timeline: Timeline) -> str:
    return plot_pipeline("title", plan, timeline).texts[-1].get_text()


def test_passes_narrower_than_a_pixel_have_the_colours_of_the_legend(tmp_path: Path) -> None:
    """Slow links make them narrow; no number is drawn then, and none is spoken of."""
    assert note(*step("1f1b")).startswith("numbers are micro-batches")
    options = {"stages": "4", "micro_batches": "8", "cuts": "conv2_1,conv3_1,conv4_1"}
    execution = with_options(PUBLISHED, options)
    array, network = load_array("accpar-mixed"), load_network("vgg16")
    plan, timeline = step_of(Case(network, "data_parallel", array, 256, execution=execution))
    assert note(plan, timeline) == "a mark one pixel wide stands for shorter passes"
    figure, path = plot_pipeline("title", plan, timeline), str(tmp_path / "a.png")
    figure.legends[0].remove()
    save(figure, path)
    picture = imread(path)[:, :, :3]
    for phase in ("forward", "backward"):
        near = abs(picture - to_rgb(PHASES[phase][1])) < 0.06
        assert near.all(axis=2).sum() > 100


def test_versions_are_said_where_a_pass_has_room_for_one() -> None:
    for micro_batches, said in (("4", True), ("32", False)):
        drawn = note(*step("pipedream", batches="2", micro_batches=micro_batches))
        assert ("version of the weights" in drawn) == said


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


def test_rows_that_are_left_out_are_told() -> None:
    """Of 72 stages, of a GPU each, 64 have room."""
    execution = with_options(DEPLOYED, {"parallel": "pp=72", "micro_batch": "1"})
    array, network = load_array("h100-cluster", ["nodes=9"]), load_network("gpt2:layers=72:seq=16")
    plan, timeline = step_of(Case(network, "axes", array, 4, execution=execution))
    figure = plot_pipeline("title", plan, timeline)
    assert len(figure.axes[0].get_yticks()) == 64
    assert note(plan, timeline).endswith("the last 8 of 72 rows are left out")
    assert "rows" not in note(*step("1f1b"))

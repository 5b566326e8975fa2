"""Plans as maps: which cells there are, and what a drawn map says."""

import html
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from experiments.cli import main
from experiments.output import UsageError
from experiments.pictures import plan_map
from experiments.pictures.figures import DPI, drawing, save
from experiments.pictures.gantt import plot_gantt
from experiments.pictures.lanes import Chart, Lane
from experiments.pictures.pipeline_plot import plot_pipeline
from experiments.pictures.plan_map import describe, lightness, plot_plan, stretches, words
from experiments.report.comparison import plan_maps
from experiments.report.page import section
from experiments.studies.case import Case, step_of
from experiments.studies.options import with_options
from hardware import Array, by_core, load_array
from planners import Axes, Partition, PartitionType, Plan, load_planner, planned_by_axes
from simulator import DEPLOYED, PUBLISHED
from tests.strategies import arrays, networks, plans
from workloads import load_network

REFERENCE = Path(__file__).parents[2] / "data" / "accpar_reference"


def texts(path: Path) -> Counter[str]:
    """Every text of an SVG, which matplotlib notes in comments."""
    ET.fromstring(path.read_text())  # noqa: S314  (our own file)
    return Counter(html.unescape(text) for text in re.findall(r"<!-- (.*?) -->", path.read_text()))


def drawn(plan: Plan, array: Array, folder: Path) -> Counter[str]:
    path = folder / "plan.svg"
    save(plot_plan(plan, array), str(path))
    return texts(path)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_stretches_are_the_tree(data: st.DataObject) -> None:
    """Every distinct split once, each group as large as the array's halving makes it."""
    network, array = data.draw(networks(most=3)), data.draw(arrays())
    plan = data.draw(plans(network, array, 4))
    found = list(stretches(plan.root, array.group, 0))
    assert [s for _, _, chain in found for s in chain] == list(plan.splits())
    for group, level, chain in found:
        assert len(chain) == 1 or all(len(split.halves) == 1 for split in chain)
        if len(chain[0].halves) == 1:
            assert group.size % 2 ** len(chain) == 0
        assert (level == 0) == (group == array.group)


def test_cells_say_type_and_share() -> None:
    assert words(Partition(PartitionType.II, 0.5)) == "II"
    assert words(Partition(PartitionType.III, 0.3)) == "III  0.3000"
    opaque = [lightness(Partition(PartitionType.I, share)) for share in (0, 0.2, 0.5, 0.8, 1)]
    assert opaque == sorted(opaque[:3]) + sorted(opaque[3:], reverse=True)
    assert 0.2 < opaque[0] == pytest.approx(opaque[4])


def test_a_plan_of_halves_is_one_block(tmp_path: Path) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=8"])
    plan = load_planner("hypar")(load_network("alexnet"), array, 512)
    found = drawn(plan, array, tmp_path)
    levels = plan.levels()
    assert levels is not None
    cells = Counter(str(kind) for split in levels for kind in split.types)
    assert {kind: found[kind] for kind in cells} == cells
    for text in ("8 accpar-tpu-v3", "in halves, level", "0", "1", "2", *plan.nodes):
        assert found[text] == 1
    assert any(t.startswith("alexnet, hypar by time on accpar-homogeneous") for t in found)


@pytest.mark.parametrize(("name", "there"), [("lenet", False), ("mobilenet-v2", True)])
def test_the_fourth_type_is_named_where_it_is_used(name: str, there: bool, tmp_path: Path) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=8"])
    plan = load_planner("accpar")(load_network(name), array, 8)
    found = drawn(plan, array, tmp_path)
    assert (found["IV: splits the groups"], found["IV"] > 0) == (int(there), there)
    page = section("plans", plan_maps(name, [(array, [plan])]))
    assert ("key IV" in str(page), "type IV" in str(page)) == (there, there)


def test_the_fifth_type_is_named_where_it_is_used(tmp_path: Path) -> None:
    array = by_core(load_array("tpu-v3-8"))
    network = load_network("gpt2:layers=1:seq=16")
    for axes, there in (("tp=4", False), ("tp=4,sp", True)):
        plan = planned_by_axes(network, array, 8, Axes.parse(axes))
        found = drawn(plan, array, tmp_path)
        assert (found["V: splits positions"], found["V"] > 0) == (int(there), there)


def test_a_mixed_plan_is_the_top_split_and_a_block_for_each_half(tmp_path: Path) -> None:
    array = load_array("accpar-mixed")
    plan = load_planner("accpar")(load_network("vgg16"), array, 512)
    assert plan.root is not None
    found = drawn(plan, array, tmp_path)
    for partition in plan.root.partitions:
        assert found[words(partition)] >= 1
    assert found["128 accpar-tpu-v2"] == 2
    assert found["| 128 accpar-tpu-v3, level"] == found["128 accpar-tpu-v3"] == 1
    assert found["in halves, level"] == 2
    assert (found["0"], found["1"], found["7"]) == (1, 2, 2)
    blocks = [describe(group, chain) for group, _, chain in stretches(plan.root, array.group, 0)]
    assert blocks == [
        "128 accpar-tpu-v2 | 128 accpar-tpu-v3",
        "128 accpar-tpu-v2, in halves",
        "128 accpar-tpu-v3, in halves",
    ]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_command_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plan.{ending}"
    args = ["plan", "resnet18", "--planner", "accpar", "--levels", "4", "--plot", str(path)]
    assert main(args) == 0
    assert "level 3" in capsys.readouterr().out
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(magic)


def test_strangers_names_are_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    network, path = tmp_path / "$n^$.txt", tmp_path / "plan.svg"
    network.write_text("num_layers 1\n$x^{$</text>]]>&\u5c42 FC\nin_ch 30\nout_ch 40\n")
    args = ["plan", "--layers", str(network), "--planner", "owt", "--plot", str(path)]
    assert main(args) == 0
    assert capsys.readouterr().err == ""
    found = texts(path)
    assert "$n^$, owt by time on accpar-mixed" in found
    assert any("$x^{$" in text for text in found)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--layers", *[str(REFERENCE / f"random_{n}.txt") for n in (12, 46)]], "draws one plan"),
        (["lenet", "--levels", "0"], "nothing is split"),
        (["lenet", "--plot", "plan.txt"], "must end in .png"),
        (["lenet", "--plot", "/nowhere/plan.png"], "cannot be written"),
    ],
)
def test_users_errors(
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "--plot", "plan.png", *args, "--planner", "owt"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_into_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    array = load_array("accpar-mixed")
    plan = load_planner("owt")(load_network("vgg16"), array, 512)
    monkeypatch.setattr(plan_map, "MOST_INCHES", 7)
    with pytest.raises(UsageError, match="16 layers by 15 levels do not fit"):
        plot_plan(plan, array)


def test_a_plan_map_names_the_model_that_it_is_for() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    for execution in (PUBLISHED, DEPLOYED):
        planned = execution.planned(array)
        plan = load_planner("owt")(load_network("lenet"), planned, 64)
        words = [text.get_text() for text in plot_plan(plan, planned).findobj(Text)]
        assert any(f"batch 64, {execution.model}; " in said for said in words)


@pytest.mark.parametrize("axes", ["dp=8,tp=2,sp", "dp=16"])
def test_the_legend_lies_inside(axes: str) -> None:
    """Of few levels, with all five types."""
    network, array = load_network("gpt2:layers=1:seq=16"), by_core(load_array("h100-cluster"))
    part = array.part(0, 16)
    figure = plot_plan(planned_by_axes(network, part, 16, Axes.parse(axes)), part)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert 0 <= box.x0 < box.x1 <= whole.x1
    used = {"dp=16": "I", "dp=8,tp=2,sp": "V"}[axes]
    assert used in [text.get_text().partition(":")[0] for text in legend.get_texts()]


def test_names_of_wide_letters_lie_inside(tmp_path: Path) -> None:
    """Of every picture that makes room for names by hand."""
    file = tmp_path / "wide.txt"
    wide = ("W" * 60, "\u5c42" * 60)
    file.write_text("num_layers 2\n" + "".join(f"{n} FC\nin_ch 64\nout_ch 64\n" for n in wide))
    network, array = load_network(str(file)), by_core(load_array("tpu-v3-8"))
    plan = planned_by_axes(network, array, 8, Axes.parse("dp=4,tp=2"))
    staged = with_options(DEPLOYED, {"stages": "2"})
    pipeline = step_of(Case(network, "data_parallel", load_array("tpu-v3-8"), 8, execution=staged))
    lanes = Chart("a chart", 1, tuple(Lane(name, ()) for name in wide))
    for figure in (plot_plan(plan, array), plot_pipeline("", *pipeline), plot_gantt([lanes])):
        figure.set_dpi(DPI)
        with drawing():
            figure.draw_without_rendering()
        labels = figure.axes[0].get_yticklabels()
        assert len(labels) == 2
        assert all(label.get_window_extent().x0 > 0 for label in labels)

"""Gantt charts: the geometry of bars and names, then pictures read back pixel by pixel."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from experiments.cli import main
from experiments.output import UsageError
from experiments.pictures import gantt
from experiments.pictures.figures import inches_of, save
from experiments.pictures.gantt import Bar, bars, names, plot_gantt, style, time_unit
from experiments.pictures.lanes import Chart, Lane, Slice
from experiments.pictures.palette import PHASES
from planners.order import Kind, Phase
from simulator import Operation

EIGHT = ["--set", "devices.0.count=4", "--set", "devices.1.count=4"]
ODD = (
    "num_layers 2\n$x^{$</text>]]>&%% FC\nin_ch 300\nout_ch 400\n"
    "\u5c42$\\frac FC\nin_ch 400\nout_ch 9\n"
)


def operation(layer: str, kind: Kind = Kind.COMPUTE, phase: Phase = Phase.FORWARD) -> Operation:
    return Operation(kind, phase, layer, -1, 0)


def chart(end: int, *slices: tuple[int, int, Operation]) -> Chart:
    done = tuple(Slice(*each) for each in slices)
    return Chart("a chart", end, (Lane("busy lane", done), Lane("idle lane", ())))


@st.composite
def lanes(draw: st.DrawFn) -> list[Slice]:
    now, slices = 0, []
    for layer in draw(st.lists(st.sampled_from(("a", "bb", "c" * 40, "W" * 20)), max_size=40)):
        start = now + draw(st.sampled_from((0, 1, 50, 5000)))
        now = start + draw(st.sampled_from((0, 1, 3, 70, 9000)))
        slices.append(Slice(start, now, operation(layer)))
    return slices


@given(lanes())
def test_bars_are_the_slices_and_names_fit(slices: list[Slice]) -> None:
    pixel, scale = 0.01, 1e-4
    row = bars(slices, scale, pixel)
    wide = [s for s in slices if (s.end_ps - s.start_ps) * scale >= pixel]
    narrow = [s for s in slices if 0 < (s.end_ps - s.start_ps) * scale < pixel]
    assert [b.start for b in row if not b.mark] == [s.start_ps * scale for s in wide]
    assert all(b.width >= pixel for b in row)
    for done in narrow:  # every one is within a pixel of a mark
        assert any(b.mark and abs(b.start - done.start_ps * scale) <= pixel for b in row)
    assert sum(b.mark for b in row) <= len(narrow)
    width = (slices[-1].end_ps if slices else 1) * scale
    ends = [0.0]
    for x, bar, inside in names(row, width, 6):
        length = inches_of(bar.layer, 6)
        start = x - length / 2 if inside else x
        assert ends[-1] <= start
        ends.append(start + length)
        assert ends[-1] <= (bar.start + bar.width if inside else width)
        inner = [b for b in row if b.start < ends[-1] and b.start + b.width > start]
        assert inner == ([bar] if inside else [])


def test_a_mark_has_the_looks_of_the_longest() -> None:
    slices = [Slice(0, 2, operation("short")), Slice(2, 6, operation("long", phase=Phase.GRADIENT))]
    assert bars(slices, 1.0, 100.0) == [Bar(0, 100.0, "gradient", "compute", "long", mark=True)]


def test_units_of_time() -> None:
    wanted = {
        10**12: "s",
        10**12 - 1: "ms",
        10**7: "\N{MICRO SIGN}s",
        10**3: "ns",
        3: "ps",
        0: "ps",
    }
    assert {ps: time_unit(ps)[0] for ps in wanted} == wanted


def test_every_phase_and_kind_looks_different() -> None:
    looks = {style(phase, kind) for phase in Phase for kind in Kind}
    assert len(looks) == len(Phase) * len(Kind)
    assert style("update", "all-reduce") == style("update", "anything else")


def pixels(path: Path, colour: str) -> int:
    """How many pixels have about this colour."""
    picture = imread(path)[:, :, :3]
    return int((abs(picture - to_rgb(colour)) < 0.06).all(axis=2).sum())


def test_what_is_tiny_is_seen(tmp_path: Path) -> None:
    """A slice of a millionth of the step is a column of its colour; without it there is none."""
    path, dark = tmp_path / "a.png", PHASES["backward"][0]
    long = (10**6, 2 * 10**12, operation("x", Kind.SUMS))
    tiny = (10**12, 10**12 + 10**6, operation("y", phase=Phase.BACKWARD))
    counts = []
    for slices in ([long], [tiny], [(0, 10**12, tiny[2])]):
        save(plot_gantt([chart(2 * 10**12, *slices)]), str(path))
        counts.append(pixels(path, dark))
    none, little, half = counts
    legend = 400  # a patch of 16 by 5.6 points at 150 dpi
    assert none == 0
    assert 20 < little < legend + 100
    assert half > 10_000


def test_names_are_drawn_where_there_is_room(tmp_path: Path) -> None:
    path, dark = tmp_path / "a.png", PHASES["forward"][0]
    counts = []
    for layer in ("a_long_name_of_a_layer", "x" * 400):
        save(plot_gantt([chart(10**12, (0, 10**12, operation(layer)))]), str(path))
        counts.append(pixels(path, dark))
    assert counts[0] < counts[1] - 200


def test_charts_share_an_axis(tmp_path: Path) -> None:
    """A step half as long fills half of the width under the other one."""
    path, colour = tmp_path / "a.png", PHASES["forward"][1]
    one = chart(10**12, (0, 10**12, operation("", Kind.SUMS)))
    two = chart(2 * 10**12, (0, 2 * 10**12, operation("", Kind.SUMS)))
    counts = []
    for charts in ([one], [one, one], [two, one]):
        save(plot_gantt(charts), str(path))
        counts.append(pixels(path, colour))
    single = counts[1] - counts[0]
    assert single > 10_000
    assert counts[2] - counts[0] == pytest.approx(single / 2, rel=0.02)


def test_a_share_is_readable_however_small() -> None:
    ends = {1: "<0.01 %", 10**10 // 64: "0.0156 %", 10**12 // 3: "33.3 %", 10**12: "100 %"}
    for end, share in ends.items():
        (axes,) = plot_gantt([chart(10**12, (0, end, operation("x")))]).axes
        assert [text.get_text() for text in axes.texts][-3:-1] == [share, "0 %"]


def test_too_many_lanes() -> None:
    crowd = Chart("crowd", 1, (Lane("l", ()),) * (gantt.MOST_LANES + 1))
    with pytest.raises(UsageError, match="choose boards with --devices"):
        plot_gantt([crowd])


@pytest.mark.parametrize(
    ("ending", "more"),
    [
        ("png", []),
        ("svg", EIGHT),
        ("pdf", [*EIGHT, "--devices", "0,7"]),
        ("png", [*EIGHT, "--unfolded"]),
    ],
)
def test_the_command_draws(tmp_path: Path, ending: str, more: list[str]) -> None:
    path = tmp_path / f"step.{ending}"
    assert main(["timeline", "alexnet", "--planner", "accpar", *more, "--output", str(path)]) == 0
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]


def test_lanes_are_in_the_picture(tmp_path: Path) -> None:
    """Matplotlib notes every text of an SVG in a comment; text is drawn as it is written."""
    network, path = tmp_path / "n$^$.txt", tmp_path / "step.svg"
    network.write_text(ODD)
    args = ["timeline", str(network), "--planner", "owt", *EIGHT, "--output", str(path)]
    assert main(args) == 0
    ET.fromstring(path.read_text())  # noqa: S314  (our own file)
    for text in (
        "4 x accpar-tpu-v2, 32 cores",
        "links between halves (level 2) of accpar-tpu-v3, 2 x",
        "n$^$, owt on",
    ):
        assert text in path.read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--output", "step.gif"], "must end in .png, .svg, .pdf, .json.gz, .json, .csv"),
        (["--output", "step.gz"], "must end in .png"),
        (["--output", "/nowhere/step.png"], "cannot be written"),
        (["--output", "step.png", "--devices", "300"], "boards are 0...255"),
        (["--output", "step.png", "--devices", "5-2"], "a range goes up: write 2-5"),
        (["--output", "step.png", "--planner", "acpar"], "did you mean accpar?"),
        ([], "--output"),
    ],
)
def test_users_errors(
    changes: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code: Any
    try:
        code = main(["timeline", "lenet", "--planner", "owt", *changes])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_legend_names_the_collective_that_ran(tmp_path: Path) -> None:
    words = ["timeline", "gpt2:layers=2:seq=64", "--array", "dgx-a100", "--parallel", "dp=8"]
    for zero, wanted, other in (
        ("1", "reduce-scatter", "<!-- all-reduce -->"),
        ("0", "all-reduce", "<!-- reduce-scatter -->"),
    ):
        path = tmp_path / f"zero{zero}.svg"
        assert main([*words, "--batch", "16", "--zero", zero, "--output", str(path)]) == 0
        text = path.read_text()
        assert f"<!-- {wanted} -->" in text
        assert other not in text

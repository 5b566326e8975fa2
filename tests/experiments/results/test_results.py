"""Results: short in a terminal, tables in a notebook, figures to save; no name is HTML."""

import gzip
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import accelarray
from accelarray import UsageError
from experiments.results.result import LONGEST, Result
from simulator.engine.operations import CLASSES
from tests.experiments.api import SMALL
from tests.experiments.pages import EVIL
from workloads import Builder

ARRAY = accelarray.array("accpar-mixed", set=SMALL)


def network(name: str, layer: str) -> accelarray.Network:
    net = Builder(name, channels=3, height=8, width=8)
    net.conv(layer, 8, kernel=3, padding=1)
    net.flatten("flatten")
    net.fc("fc", 64)
    return net.build()


def results(name: str = "net", layer: str = "conv") -> dict[str, Result]:
    """One of each kind, of a network and a layer that are called so."""
    net = network(name, layer)
    first, second = (accelarray.simulate(net, p, ARRAY, 64) for p in ("data_parallel", "accpar"))
    return {
        "step": second,
        "plan": second.planned(),
        "explanation": second.explain(),
        "difference": accelarray.difference(first, second),
        "comparison": accelarray.compare(net, "owt,accpar", ARRAY, 64),
        "scaling": accelarray.scale(net, "owt,accpar", levels=[1, 2], batch=64),
        "sweep": accelarray.sweep("batch=32,64,128", net, "owt,accpar", ARRAY),
        "heat map": accelarray.sweep(["batch=32,64", "objective=time,traffic"], net, "owt", ARRAY),
    }


ALL = results()
KINDS = [*ALL]


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_one_short_line_in_a_terminal(kind: str) -> None:
    text = repr(ALL[kind])
    assert text[0] + text[-1] == "<>"
    assert "\n" not in text
    assert len(text) < 120


def test_the_lines_say_what_and_how_long() -> None:
    lines = {kind: repr(result) for kind, result in ALL.items()}
    assert lines["step"].startswith(f"<Step net, accpar on {ARRAY.name}, batch 64, published: ")
    assert lines["step"].endswith(" us>")
    assert lines["plan"] == f"<Plan net, accpar on {ARRAY.name}, batch 64, published: 2 levels>"
    step = f"net, accpar on {ARRAY.name}, batch 64, published"
    assert lines["explanation"].startswith(f"<Explanation {step[:40]}")
    assert lines["explanation"].endswith("% links>")
    assert " batch 64: data_parallel " in lines["difference"]
    assert "us | accpar " in lines["difference"]
    assert lines["comparison"].startswith(f"<Comparison net on {ARRAY.name[:30]}")
    assert ", published: owt " in lines["comparison"]
    alone = accelarray.compare("lenet", "data_parallel", ARRAY, 64)
    assert repr(alone) == f"<Comparison lenet on {ARRAY.name}, batch 64, published: data_parallel>"
    assert lines["scaling"] == "<Scaling net on accpar-mixed, 2...4 accelerators>"
    assert lines["sweep"] == "<Sweep 6 cases: 1 network x 2 planners x batch (3)>"
    assert lines["heat map"] == "<Sweep 4 cases: 1 network x 1 planner x batch (2) x objective (2)>"


@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_json(kind: str) -> None:
    result = ALL[kind]
    frame = result.to_frame()
    assert len(frame)
    assert frame.columns.is_unique
    assert [*frame.index] == [*range(len(frame))]
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize(
    ("kind", "ending", "magic"),
    [
        *((kind, "png", b"\x89PNG") for kind in KINDS),
        (KINDS[0], "svg", b"<?xml"),
        (KINDS[0], "PDF", b"%PDF"),
    ],
)
def test_pictures_are_figures_that_can_be_saved(
    kind: str, ending: str, magic: bytes, tmp_path: Path
) -> None:
    result, path, again = ALL[kind], tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    result.save(path)
    assert path.read_bytes().startswith(magic)
    figure = result.plot()
    assert isinstance(figure, Figure)
    result.save(str(again))
    assert again.read_bytes() == path.read_bytes()
    figure.savefig(again)
    assert again.read_bytes().startswith(magic)


@pytest.mark.parametrize("kind", KINDS)
def test_other_endings_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the name must end in \.png, \.svg, \.pdf"):
        ALL[kind].save(tmp_path / "picture.jpg")
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(UsageError, match="cannot be written"):
        ALL[kind].save(tmp_path / "nowhere" / "picture.png")


def test_a_figure_shows_itself_in_a_notebook() -> None:
    figure: Any = ALL["comparison"].plot()
    data, size = figure._repr_png_()
    assert data.startswith(b"\x89PNG")
    width, height = figure.get_size_inches()
    assert (size["width"], size["height"]) == (round(96 * width), round(96 * height))


def test_traces_and_records_of_a_step(tmp_path: Path) -> None:
    step: Any = ALL["step"]
    for name in ("trace.json", "trace.json.gz", "records.csv"):
        step.save(tmp_path / name)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"]["iteration_ps"] == step.timeline.iteration_ps
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == trace
    lines = (tmp_path / "records.csv").read_text().splitlines()
    assert len(lines) == 1 + len(step.timeline)


class Reader(HTMLParser):
    """Elements, and whether all that were opened are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


OURS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_the_summary(kind: str) -> None:
    result = ALL[kind]
    page = read(result._repr_html_())
    assert page.names <= OURS
    assert "table" in page.names
    words = {word for word in result.summary().split() if word.isalnum()}
    assert [word for word in words if word not in page.text] == []


@pytest.mark.parametrize("evil", EVIL)
def test_no_name_is_html(evil: str) -> None:
    for kind, result in results(evil, f"layer {evil}").items():
        page = read(result._repr_html_())
        assert page.names <= OURS, kind
        assert page.attributes <= {"style"}, kind
        if kind not in ("explanation", "heat map", "sweep"):  # whose tables may not name it
            assert " ".join(evil.split())[:20] in " ".join(page.text.split()), kind
        assert repr(result).isprintable()
        assert len(repr(result)) <= LONGEST + 20
        assert isinstance(result.plot(), Figure)


def test_a_planners_name_is_no_html_either() -> None:
    def planner(*args: Any) -> accelarray.Plan:
        return accelarray.plan("lenet", "owt", args[1], args[2]).plan

    planner.__name__ = "<script>alert(1)</script>"
    result = accelarray.compare("lenet", ["accpar", planner], ARRAY, 64)
    page = read(result._repr_html_())
    assert page.names <= OURS
    assert "<script>alert(1)</script>" in page.text


def test_steps_that_cannot_be_compared() -> None:
    first = accelarray.simulate("lenet", "owt", ARRAY, 64)
    others = {
        "networks (lenet, alexnet)": accelarray.simulate("alexnet", "owt", ARRAY, 64),
        "batches (64, 128)": accelarray.simulate("lenet", "owt", ARRAY, 128),
        "arrays (accpar-mixed, ring-8)": accelarray.simulate("lenet", "owt", "ring-8", 64),
        "cores (32, 2048)": accelarray.simulate("lenet", "owt", batch=64),
    }
    for words, other in others.items():
        with pytest.raises(UsageError) as raised:
            accelarray.difference(first, other)
        assert f"steps of different {words} cannot be compared" in str(raised.value)


def test_two_steps_are_named_by_what_tells_them_apart() -> None:
    step = ("lenet", "owt", "accpar-mixed", 64)
    plain, fast = (
        accelarray.simulate(*step, set=[*SMALL, *more])
        for more in ([], ["network.bandwidth=100 Gbit/s"])
    )
    labels = accelarray.difference(plain, fast).difference.planners
    assert labels[0] == "owt"
    assert "network.bandwidth=100 Gbit/s" in labels[1]
    assert accelarray.difference(plain, plain).difference.planners == ("owt", "owt")
    cores = ("lenet", "owt", "tpu-v3-8", 64, "deployed")
    both = [accelarray.simulate(*cores, overlap=overlap) for overlap in (True, False)]
    labels = accelarray.difference(*both).difference.planners
    assert labels == ("deployed", "deployed, overlap none")


def test_a_step_that_was_not_compared() -> None:
    result: Any = ALL["comparison"]
    with pytest.raises(UsageError, match=r"no step of 'net' under 'hypar'; one of \('net', 'd"):
        result.step("net", "hypar")
    assert result.step("net", "data_parallel").case.planner == "data_parallel"


def test_memory_over_time_is_a_frame_by_class() -> None:
    options: dict[str, Any] = {"parallel": "dp=2,pp=2,tp=2", "micro_batch": 2}
    step = accelarray.simulate("gpt3-125m:layers=2:seq=128", "axes", "tpu-v3-8", 16, **options)
    frame = step.memory_frame()
    assert list(frame) == ["cores", "start_ps", "end_ps", *CLASSES, "bytes"]
    assert (frame["end_ps"] >= frame["start_ps"]).all()
    assert frame[list(CLASSES)].sum(axis=1).tolist() == pytest.approx(frame["bytes"].tolist())
    tops = frame.groupby("cores", sort=False)["bytes"].max()
    assert list(tops) == pytest.approx([one.peak_bytes for one in step.timeline.memory])
    published = ALL["step"]
    assert isinstance(published, accelarray.StepResult)
    assert len(published.memory_frame()) == 0


def test_a_published_step_says_what_moves_for_free() -> None:
    """247 ms of VGG-16, as counted by hand at the top split: almost all of it is one boundary."""
    step = accelarray.simulate("vgg16", "accpar")
    assert step.to_dict()["uncharged_s"] == pytest.approx(0.247, abs=5e-4)
    assert any(str(said).startswith("Left out, 145.1% of the step") for said in step.tables())
    even = accelarray.simulate("vgg16", "hypar")
    assert even.to_dict()["uncharged_s"] is None
    assert not any(str(said).startswith("Left out") for said in even.tables())

"""PipeDream's profiles: what is read, what is left out, and what is said of wrong ones."""

from pathlib import Path

import pytest

from planners import PlanError
from planners.pipeline.cost_models import Level, parse_hierarchy
from planners.pipeline.profile import Profile, ProfileNode, planned_part, read_profile

DATA = Path(__file__).parents[3] / "experiments" / "published" / "profiles"


def line(name: str, description: str = "ReLU", **values: str) -> str:
    fields = {
        "forward_compute_time": "1.000",
        "backward_compute_time": "2.000",
        "activation_size": "8.0",
        "parameter_size": "4.000",
    } | values
    return f"{name} -- {description} -- " + ", ".join(f"{k}={v}" for k, v in fields.items())


def read(tmp_path: Path, *lines: str) -> Profile:
    path = tmp_path / "graph.txt"
    path.write_text("\n".join(lines))
    return read_profile(path)


def test_nodes_and_edges_in_any_order(tmp_path: Path) -> None:
    text = [
        "\tb -- c",
        line("c", activation_size="[3.0; 0.5; 1e2]"),
        line("b", "LSTM(1, 2)  (x): y -z", forward_compute_time="0.25"),
        "",
        "\ta -- b",
        "\ta -- b",
        line("a") + " -- stage_id=3",
    ]
    profile = read(tmp_path, *text)
    assert profile.nodes == (
        ProfileNode("c", "ReLU", 0.001, 0.002, 103.5, 4.0),
        ProfileNode("b", "LSTM(1, 2)  (x): y -z", 0.00025, 0.002, 8.0, 4.0),
        ProfileNode("a", "ReLU", 0.001, 0.002, 8.0, 4.0),
    )
    assert profile.edges == ((1, 0), (2, 1))
    assert profile.single_s == pytest.approx(0.00825)


def test_windows_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(f"\ufeff{line('a')}\r\n{line('b')}\r\n\ta -- b\r\n".encode())
    profile = read_profile(path)
    assert [node.name for node in profile.nodes] == ["a", "b"]
    assert profile.nodes[0].parameter_bytes == 4.0
    assert profile.edges == ((0, 1),)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read_profile(tmp_path / "missing.txt")
    with pytest.raises(PlanError, match="not a path"):
        read_profile("a\0b")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="expected UTF-8"):
        read_profile(tmp_path / "binary.txt")
    (tmp_path / "long.txt").write_bytes(b"x" * (5 << 20))
    with pytest.raises(PlanError, match="larger than 4 MiB"):
        read_profile(tmp_path / "long.txt")
    monkeypatch.setattr("planners.pipeline.profile.MOST_NODES", 2)
    with pytest.raises(PlanError, match=r"3 nodes and 0 edges; a profile has 1\.\.\.2"):
        read(tmp_path, line("a"), line("b"), line("c"))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e19])
def test_profiles_of_wrong_numbers(value: float) -> None:
    with pytest.raises(PlanError, match=r"node 'a': backward_s .* must be within"):
        Profile("p", (ProfileNode("a", "", 0.0, value, 0.0, 0.0),), ())
    with pytest.raises(PlanError, match=r"there are nodes 0\.\.\.0"):
        Profile("p", (ProfileNode("a", "", 0.0, 0.0, 0.0, 0.0),), ((0, 1),))


def test_inputs_and_unused_sinks_are_no_part(tmp_path: Path) -> None:
    lines = [
        line("x", "Input0"),
        line("late", "Input1"),  # not a source
        line("a"),
        line("b", "__getitem__(1)"),  # an unused sink
        line("c", "__getitem__(0)"),
        line("d"),
        *("\tx -- a", "\ta -- b", "\ta -- c", "\tc -- d", "\tx -- late", "\ta -- late"),
    ]
    planned, left_out = planned_part(read(tmp_path, *lines))
    assert left_out == ("x", "b")
    assert [node.name for node in planned.nodes] == ["late", "a", "c", "d"]
    assert planned.edges == ((1, 2), (2, 3), (1, 0))
    with pytest.raises(PlanError, match="nothing but inputs"):
        planned_part(read(tmp_path, line("x", "Input")))


def test_the_seven_profiles() -> None:
    counts = {path.stem: len(read_profile(path).nodes) for path in sorted(DATA.glob("*.txt"))}
    assert counts == {
        "alexnet": 23,
        "gnmt": 48,
        "gnmt_large": 96,
        "resnet18": 71,
        "resnet50": 177,
        "squeezenet1_0": 68,
        "vgg16": 41,
    }
    whole = read_profile(DATA / "vgg16.txt")
    planned, left_out = planned_part(whole)
    assert left_out == ("node1",)
    assert whole.single_s - planned.single_s == pytest.approx(17.97e-3, abs=5e-6)  # reading a batch


def test_hierarchies() -> None:
    assert parse_hierarchy("4@10 GB/s,4@1.25 GB/s") == (Level(4, 1e10), Level(4, 1.25e9))
    assert parse_hierarchy(" 16 @ 10 Gbit/s ") == (Level(16, 1.25e9),)

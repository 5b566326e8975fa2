"""How designs are named, how many are shown, and what is kept of evaluations."""

import io
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import accelarray
from experiments.cli import main
from experiments.design.shown import MOST_ROWS, rows, tables
from experiments.design.space import Design
from experiments.output import UsageError
from experiments.progress import Count
from experiments.studies.running.store import Store
from tests.experiments.design.test_search import judge_of
from workloads import NetworkError


def design(count: int) -> Design:
    return Design(count, 128, 64, 2, 256, 8.0 * 2**20)


def ran(*counts: int, value: float = 1.5) -> dict[str, Any]:
    fields = ("matrix_count", "matrix_width", "matrix_depth", "vector_count", "vector_width")
    own = [{name: getattr(design(c), name) for name in (*fields, "buffer_bytes")} for c in counts]
    step = {"iteration_s": 0.5, "samples_per_s": 2.0}
    return {
        "designs": own,
        "value": value,
        "estimated_value": 1.4,
        "area_mm2": 50.0,
        "power_w": 100.0,
        "networks": {"lenet": step},
    }


def data(*candidates: dict[str, Any]) -> dict[str, Any]:
    return {
        "networks": ["lenet"],
        "array": "wham-1",
        "planner": "data_parallel",
        "batch": 64,
        "mode": "training",
        "objective": "throughput",
        "search": "wham",
        "evaluations": 10,
        "designs": 100,
        "space": "small",
        "clock_hz": 7e8,
        "base_clock_hz": 7e8,
        "search_s": 0.1,
        "area_mm2": 72.0,
        "power_w": 171.0,
        "base": ran(value=1.0),
        "winner": candidates[0],
        "candidates": list(candidates),
        "best_estimate": 1.4,
        "near_best_estimate": 1,
        "baselines": [],
    }


def text_of(found: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=80)
    for part in tables(found):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_places_in_a_row_with_one_design_are_one_line() -> None:
    found = text_of(data(ran(4, 4, 8, 4), ran(2)))
    assert "0-1: 4 x 64x128, 2 x 256, 8 MiB" in found
    assert "2: 8 x 64x128, 2 x 256, 8 MiB" in found
    assert "3: 4 x 64x128, 2 x 256, 8 MiB" in found
    assert "best design for all places: 1.500" in " ".join(found.split())
    assert max(map(len, found.splitlines())) <= 80


def test_one_design_is_called_by_itself() -> None:
    found = text_of(data(ran(4)))
    assert "│ 4 x 64x128, 2 x 256, 8 MiB │" in found
    assert "places" not in found
    assert "+50%" in found


def test_more_designs_with_the_best_estimate_than_ran_are_told() -> None:
    study: Any = {"networks": "lenet", "batch": 8, "space": "small", "area": 60}
    few = accelarray.design(**study).to_dict()
    near = few["near_best_estimate"]
    assert near > len(few["candidates"]) == 3
    ran_all = accelarray.design(**study, top=near + 1).to_dict()["candidates"]
    estimates = [one["estimated_value"] * 1.001 >= few["best_estimate"] for one in ran_all]
    assert sum(estimates) == near
    told = " ".join(text_of(few).split())
    assert f"{near:,} designs that were evaluated have the best estimate" in told
    assert "have the best estimate" not in text_of(data(ran(4)))


def test_networks_of_one_name_are_refused() -> None:
    """Results go by it."""
    networks = [accelarray.network("lenet"), accelarray.network("alexnet")]
    with pytest.raises(NetworkError, match="several networks are called lenet"):
        accelarray.design([networks[0], replace(networks[1], name="lenet")], space="small")


def test_several_designs_have_no_one_picture_or_spec(tmp_path: Path) -> None:
    found = accelarray.design(["lenet", "alexnet"], space="small", budget=2, each=True)
    assert [name in found.title() for name in ("lenet", "alexnet")] == [True, True]
    for name in ("core.toml", "core.svg"):
        with pytest.raises(UsageError, match="of one design"):
            found.save(tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_a_search_for_each_network_and_for_both_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced: list[int | None] = []
    count = Count(None)

    def bar(_: object, total: int | None) -> AbstractContextManager[Count]:
        announced.append(total)
        return nullcontext(count)

    monkeypatch.setattr("experiments.design.study.hearing", bar)
    found = accelarray.design(["lenet", "alexnet"], search="random", budget=10, space="small")
    assert (announced, count.done) == ([30], 30)
    assert found.to_dict()["evaluations"] >= 30


def test_searches_of_the_same_cores_are_compared() -> None:
    """Not exhaustive search for all cores with searches for all and for some: 8 s, here."""
    times = {"wham": 2.0, "random": 2.5, "exhaustive": 20.0}
    baselines = [
        {"search": name, "evaluations": 5, "whole_space": name == "exhaustive"}
        | {"search_s": took_s, "estimated_value": 1.4, "design": "d"}
        for name, took_s in times.items()
    ]
    told = " ".join(text_of(data(ran(4)) | {"search_s": 8.0, "baselines": baselines}).split())
    assert "Exhaustive search takes 10 times as long" in told


def test_unlike_clocks_of_base_and_designs_are_told() -> None:
    assert "clock" not in text_of(data(ran(4)))
    told = " ".join(text_of(data(ran(4)) | {"base_clock_hz": 1e9}).split())
    assert "The base has a clock of 1 GHz, every design of space small one of 700 MHz." in told


def test_as_many_lines_as_fit() -> None:
    """Places take a line each: of four, two candidates fit."""
    found = text_of(data(*(ran(1, 2, 4, 8) for _ in range(5)), ran(2)))
    assert found.count("0: 1 x 64x128") == MOST_ROWS // 4
    many = text_of(data(*(ran(4) for _ in range(30))))
    assert many.count("4 x 64x128") == MOST_ROWS


def test_rows_have_a_line_for_each_network_and_candidate() -> None:
    found = rows(data(ran(4, 8), ran(2)))
    assert [row["design"] for row in found] == [
        "base",
        "0: 4 x 64x128, 2 x 256, 8 MiB; 1: 8 x 64x128, 2 x 256, 8 MiB",
        "2 x 64x128, 2 x 256, 8 MiB",
    ]
    assert {row["network"] for row in found} == {"lenet"}


def test_evaluations_are_written_as_they_come(tmp_path: Path) -> None:
    with Store(str(tmp_path / "kept.db")) as store:
        designs = list(islice(judge_of("lenet").space, 4))
        for of in ("steps", "others"):
            judge = judge_of("lenet", store=store, of=of)
            scores = [judge.score(design) for design in designs]
            again = judge_of("lenet", store=store, of=of)
            assert [again.score(design) for design in designs] == scores
        assert len(store) == 2 * len(designs)
        (row,) = store.rows(of="steps", design=str(designs[0]))
        assert tuple(row["seconds"]) == scores[0].seconds


@pytest.mark.parametrize("form", ["table", "md", "csv", "json"])
def test_every_format_has_designs_of_places(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--space", "small", "--set", "devices.0.count=2", "--stages", "2", "--batch", "16"]
    words += ["--micro-batches", "4", "--mode", "inference", "--top", "2", "--budget", "40"]
    assert main(["design", "vgg11", *words, "--format", form]) == 0
    found = capsys.readouterr().out
    assert "0:" in found or '"designs"' in found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.5, "Winner over the base design: +50%"),
        (0.997, "No design that was simulated beats the base design: the best is -0.3%"),
        (1.0, "No design that was simulated beats the base design: it is best"),
    ],
)
def test_a_best_that_loses_is_no_winner(value: float, said: str) -> None:
    wham = " (WHAM over a TPU-v2-like design of equal area and power: +12%)."
    assert said + wham in [
        part for part in tables(data(ran(4, value=value))) if isinstance(part, str)
    ]


def test_elements_of_another_width_than_the_fits_are_told() -> None:
    with pytest.warns(accelarray.AccelarrayWarning, match="16-bit arithmetic, although .* 1 B"):
        accelarray.design(
            "lenet", array="ultra96-v2-1", batch=8, mode="inference", power=200, area=200
        )


def test_few_watts_are_told_in_three_digits() -> None:
    text = text_of(data(ran(4)) | {"power_w": 2.4799})
    assert "2.48 W a chip" in " ".join(text.split())

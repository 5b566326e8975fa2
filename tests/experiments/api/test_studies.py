"""Studies of many steps from Python: stores, processes, progress, interruptions, warnings."""

import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

import accelarray
from accelarray import AccelarrayWarning, OutOfMemoryError, UsageError
from experiments.notices import MOST, tell_notes
from experiments.studies.running.store import Store
from tests.experiments.api import SMALL
from workloads import load_network
from workloads.network import Network

ARRAY = accelarray.array("accpar-mixed", set=SMALL)
TINY_MEMORY = {"devices.0.hbm.capacity": "64 MiB"}


def finished(path: Path) -> int:
    with sqlite3.connect(path) as db:
        return int(db.execute("SELECT count(*) FROM results").fetchone()[0])


def test_a_store_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cases.db"
    study: Any = ("lenet", "owt,accpar", ARRAY, 64)
    first = accelarray.compare(*study, store=path)
    assert finished(path) == 4  # data parallelism, two planners, and one on the fastest alone
    monkeypatch.setattr("experiments.studies.running.runner.run_case", None)
    assert accelarray.compare(*study, store=str(path)).to_dict() == first.to_dict()
    with Store(path) as store:
        assert accelarray.compare(*study, store=store).to_dict() == first.to_dict()
        assert len(store) == 4  # open still: it is the caller's
    swept = accelarray.sweep("batch=64", *study[:3], store=path)
    assert [*swept.to_frame()["planner"]] == ["owt", "accpar"]


def test_processes_give_the_same_numbers() -> None:
    def own(*args: Any) -> accelarray.Plan:
        return accelarray.plan("lenet", "hypar", args[1], args[2]).plan

    alone, spread = (
        accelarray.compare("lenet", ["accpar", own], ARRAY, 64, jobs=jobs) for jobs in (1, 2)
    )
    assert spread.to_dict() == alone.to_dict()


def test_progress_is_heard() -> None:
    heard: list[str] = []
    accelarray.compare("lenet", "owt,accpar", ARRAY, 64, progress=heard.append)
    assert heard == ["lenet owt", "lenet accpar"]
    heard.clear()
    accelarray.sweep("batch=32,64", "lenet", "owt", ARRAY, progress=heard.append)
    assert len(heard) == 4
    heard.clear()
    accelarray.scale("lenet", "owt", levels=[1, 2], batch=64, progress=heard.append)
    assert len(heard) == 2
    heard.clear()
    accelarray.explain("lenet", "owt", ARRAY, 64, progress=heard.append)
    assert heard[0] == "lenet"
    assert "links twice as fast" in heard


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    accelarray.compare("lenet", "owt", ARRAY, 64)
    accelarray.simulate("lenet", "owt", ARRAY, 64)
    assert capfd.readouterr() == ("", "")


def test_an_interruption_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "cases.db"

    def stop(done: str) -> None:
        if done.startswith("alexnet"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accelarray.compare(["lenet", "alexnet"], "all", ARRAY, 64, progress=stop, store=path)
    assert finished(path) >= 4
    with pytest.raises(KeyboardInterrupt):
        accelarray.scale(["lenet", "alexnet"], "owt", levels=[1, 2], batch=64, progress=stop)


def test_what_does_not_fit_is_a_warning_at_the_callers_line() -> None:
    step: Any = ("lenet", "data_parallel", "tpu-v3-8", 4096, "deployed")
    with pytest.warns(AccelarrayWarning, match="does not fit") as caught:
        result = accelarray.simulate(*step, set=TINY_MEMORY)
    assert [Path(one.filename) for one in caught] == [Path(__file__)]
    assert str(caught[0].message).endswith("strict_memory=True in Python, makes this an error)")
    assert result.overflow is not None
    assert f"another planner. {result.advice[0]}" in str(caught[0].message)
    assert result.warnings == (result.overflow, *result.advice)
    assert result.to_dict()["warnings"] == [*result.warnings]
    assert all(" frees " in said and said in str(caught[0].message) for said in result.advice)
    with pytest.raises(OutOfMemoryError):
        accelarray.simulate(*step, set=TINY_MEMORY, strict_memory=True)


def test_studies_warn_of_what_does_not_fit() -> None:
    study: Any = ("lenet", "owt", "tpu-v3-8", 4096, "deployed")
    large: Any = (*study[:3], 1 << 16, "deployed")
    with pytest.warns(AccelarrayWarning, match="does not fit"):
        compared = accelarray.compare(*study, set=TINY_MEMORY)
    assert compared.to_dict()["warnings"]
    with pytest.warns(AccelarrayWarning, match="2 of 2 cases do not fit"):
        accelarray.sweep("batch=4096,8192", *study, set=TINY_MEMORY)
    with pytest.warns(AccelarrayWarning, match="does not fit"):
        accelarray.scale(*large, levels=[1], set=TINY_MEMORY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accelarray.compare(*study)


def test_what_was_not_understood_of_a_network_is_a_warning() -> None:
    notes = tuple(f"operator {i} is not known" for i in range(MOST + 3))
    network = Network(**{**_fields(load_network("lenet")), "notes": notes})
    with pytest.warns(AccelarrayWarning) as caught:
        tell_notes(network)
    said = [str(one.message) for one in caught]
    assert said == [*(f"lenet: {note}" for note in notes[:MOST]), "lenet: and 3 more"]
    step = accelarray.simulate(network, "owt", ARRAY, 64)
    assert step.warnings == notes
    assert step.planned().to_dict()["warnings"] == [*notes]
    compared = accelarray.compare(network, "owt", ARRAY, 64)
    said = [f"lenet: {note}" for note in notes]
    assert compared.to_dict()["warnings"] == [*said, *compared.comparison.unread]


def _fields(network: Network) -> dict[str, Any]:
    return {key: getattr(network, key) for key in ("name", "input", "layers", "description")}


def test_a_store_that_is_none(tmp_path: Path) -> None:
    other = tmp_path / "text.db"
    other.write_text("not a database, but long enough to look at" * 100)
    with pytest.raises(UsageError, match="not a database"):
        accelarray.compare("lenet", "owt", ARRAY, 64, store=other)


@pytest.mark.parametrize("stack", ["megatron-2025", "megatron-2021"])
def test_a_network_object_is_what_its_name_is(stack: str) -> None:
    """With the attention, and the sums of gradients, of the array's software; and once more."""
    step: Any = {"array": "a100-cluster", "parallel": "dp=8", "batch": 64}
    step["set"] = {"nodes": 1, "stack": stack}
    named = accelarray.simulate("gpt2:layers=2:seq=128", **step)
    made = accelarray.network("gpt2:layers=2:seq=128")
    assert accelarray.simulate(made, **step).iteration_s == named.iteration_s
    assert accelarray.simulate(named.case.network, **step).iteration_s == named.iteration_s
    eager = accelarray.simulate(made, attention="eager", **step)
    assert eager.iteration_s > named.iteration_s
    fused = accelarray.simulate(made, attention="fused", **step).case.network
    assert accelarray.simulate(fused, **step).case.network == fused

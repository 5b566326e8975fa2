"""A user's files called as accelarray's packages are: nothing breaks, or one message says what."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLANNER = """
from accelarray import PlanError
def mine(network, array, batch, objective=None):
    raise PlanError("mine was asked")
"""
STEP = "accelarray.simulate('lenet', 'owt', set='devices.0.count=2')"
SIMULATE = ("simulate", "lenet", "--set", "devices.0.count=2")


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a user's folder; accelarray comes from elsewhere on the path, as installed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user has all of our names: modules, a package, and a folder without code."""
    for name in ("planners", "hardware", "simulator"):
        (tmp_path / f"{name}.py").write_text(f"{name} = 1\n" + PLANNER * (name == "planners"))
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise RuntimeError('the user's')\n")
    (tmp_path / "experiments" / "first.py").write_text("")
    (tmp_path / "workloads").mkdir()
    return tmp_path


def test_a_script_beside_files_of_our_names(folder: Path) -> None:
    (folder / "script.py").write_text(f"import accelarray\nprint({STEP})\n")
    done = ran(folder, "script.py")
    assert done.stdout.startswith("<Step lenet, owt on accpar-mixed"), done.stderr


def test_the_command_beside_files_of_our_names(folder: Path) -> None:
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", "owt", "--format", "csv")
    assert done.stdout.startswith("network,"), done.stderr


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_worker_processes_beside_files_of_our_names(folder: Path, start: str) -> None:
    script = (
        "if __name__ == '__main__':\n"
        "    import accelarray\n"
        "    from experiments.studies.running import cores\n"
        f"    cores.START = {start!r}\n"
        "    found = accelarray.sweep('batch=64,128', 'lenet', 'owt,accpar', jobs=2,\n"
        "        set='devices.0.count=2')\n"
        "    print(found)\n"
    )
    (folder / "script.py").write_text(script)
    done = ran(folder, "script.py")
    assert "4 cases" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["planners", "hardware", "simulator"])
def test_a_module_that_is_loaded_already_is_named(folder: Path, name: str) -> None:
    done = ran(folder, "-c", f"import {name}\nimport accelarray")
    last = done.stderr.splitlines()[-1]
    assert last == (
        f"ImportError: {folder / name}.py is loaded as '{name}', which is the name of a package of "
        f"accelarray: rename that file, as my_{name}, and import it by its new name"
    )


def test_a_folder_without_code_that_is_loaded_already_is_no_harm(folder: Path) -> None:
    first = f"import sys\nsys.path.remove({str(ROOT)!r})\nimport workloads\n"
    then = f"sys.path.append({str(ROOT)!r})\nimport accelarray\nprint({STEP})"
    done = ran(folder, "-c", f"{first}assert workloads.__file__ is None\n{then}")
    assert done.stdout.startswith("<Step lenet"), done.stderr


@pytest.mark.parametrize(
    ("statement", "file"),
    [
        ("from planners import mine", "planners.py"),
        ("import planners; planners.mine", "planners.py"),
        ("import experiments.first", "experiments/first.py"),
    ],
)
def test_what_ours_hides_is_named(folder: Path, statement: str, file: str) -> None:
    done = ran(folder, "-c", f"import accelarray\n{statement}")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"which hides {folder / file}: rename that, as my_" in last


def test_without_a_file_of_the_user_python_says_what_it_says(tmp_path: Path) -> None:
    done = ran(tmp_path, "-c", "import accelarray\nimport planners\nplanners.mine")
    assert done.stderr.splitlines()[-1].startswith("AttributeError: module 'planners' has no")


@pytest.mark.parametrize("place", ["./planners.py:mine", "planners.py:mine"])
def test_a_planner_in_a_file(folder: Path, place: str) -> None:
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", place)
    assert (done.returncode, done.stderr) == (2, "accelarray: error: mine was asked\n")


def test_a_file_finds_what_is_beside_it(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "beside.py").write_text(PLANNER)
    (folder / "sub" / "own.py").write_text("from beside import mine\n")
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", "sub/own.py:mine")
    assert (done.returncode, done.stderr) == (2, "accelarray: error: mine was asked\n")


def test_a_planner_in_a_package_of_the_users(folder: Path) -> None:
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").write_text(PLANNER)
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", "my_package:mine")
    assert (done.returncode, done.stderr) == (2, "accelarray: error: mine was asked\n")


@pytest.mark.parametrize("name", ["mine", "accpar"])
def test_our_package_is_not_taken_for_the_users_file(folder: Path, name: str) -> None:
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", f"planners:{name}")
    assert (done.returncode, done.stderr) == (
        2,
        f"accelarray: error: planner 'planners:{name}': planners is a package of accelarray "
        f"({ROOT / 'planners'}), not a module of yours; write your file as ./planners.py:{name}\n",
    )


def test_without_a_file_of_the_user_ours_can_be_named(tmp_path: Path) -> None:
    planner = ("--planner", "planners.built_in:owt", "--format", "csv")
    done = ran(tmp_path, "-m", "accelarray", *SIMULATE, *planner)
    assert done.stdout.startswith("network,"), done.stderr


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("./none.py:mine", "FileNotFoundError: no file "),
        ("./planners.py:none", "AttributeError: module "),
    ],
)
def test_files_that_have_no_planner(folder: Path, place: str, words: str) -> None:
    done = ran(folder, "-m", "accelarray", *SIMULATE, "--planner", place)
    start = f"accelarray: error: planner {place!r} cannot be loaded: {words}"
    assert done.stderr.startswith(start)
    assert done.returncode == 2

"""The built wheel works where the checkout is not."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in files.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_the_packages_and_their_data_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "accelarray.py",
        "experiments",
        "hardware",
        "planners",
        "simulator",
        "workloads",
    }
    assert "hardware/catalog/accpar-mixed.toml" in names
    assert "experiments/published/accpar_speedups.csv" in names
    assert {
        f"experiments/report/templates/{name}"
        for name in ("page.html.j2", "sections.html.j2", "parts.html.j2", "style.css", "page.js")
    } <= {*names}
    assert "simulator/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    script = (
        "import accelarray, hardware, experiments.cli as cli; "
        "print(hardware.__file__); print(accelarray.__file__); "
        "print(accelarray.simulate('lenet', 'owt', 'tpu-v3-8').timeline.cores); "
        "cli.main(['speedup', '--networks', 'lenet', '--set', 'devices.0.count=2', "
        "'--set', 'devices.1.count=2', '--format', 'csv'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(target)},
        check=True,
        capture_output=True,
        text=True,
    )
    first, second, cores, *rows = ran.stdout.splitlines()
    assert first.startswith(str(target))
    assert second == str(target / "accelarray.py")
    assert cores == "8"
    assert len(rows) == 5

"""Which execution model an array is for."""

from pathlib import Path

import pytest

from hardware import Array, Topology, catalog_models, catalog_names, load_array
from simulator import DEPLOYED, PUBLISHED, usual

PAPERS = {"accpar-mixed", "accpar-homogeneous", "hypar-16"}


@pytest.mark.parametrize("name", catalog_names("array"))
def test_the_papers_arrays_are_published_and_those_with_wires_deployed(name: str) -> None:
    array = load_array(name)
    assert array.model == ("published" if name in PAPERS else "deployed")
    assert array.model == catalog_models()[name]
    assert usual(array) == (PUBLISHED if name in PAPERS else DEPLOYED)


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ((), "published"),
        (("devices.0.count=4",), "published"),
        (("topology.kind=ring",), "deployed"),
        (("topology.kind=tree",), "published"),
        (("topology.latency=1 us",), "deployed"),
        (("topology.kind=bus",), "published"),
        (("topology.kind=ring", "execution=published"), "published"),
        (("execution=deployed",), "deployed"),
    ],
)
def test_other_wires_are_for_the_model_that_has_wires(
    changes: tuple[str, ...], model: str, tmp_path: Path
) -> None:
    """Whether they are changed on the command line or in a file that extends the array's."""
    assert load_array("accpar-mixed", changes).model == model
    lines = ['kind = "array"', 'extends = "accpar-mixed"']
    for change in changes:
        key, _, value = change.partition("=")
        lines.append(f"{key} = {value}" if value.isdigit() else f'{key} = "{value}"')
    if any(change.startswith("devices") for change in changes):
        lines = lines[:2]  # entries are lists in files
    path = tmp_path / "own.toml"
    path.write_text("\n".join(lines))
    assert load_array(str(path)).model == model


def test_an_array_made_in_python_goes_by_its_wires() -> None:
    group = load_array("ring-8").group
    assert Array("mine", "", group).model == "published"
    assert Array("mine", "", group, topology=Topology("ring")).model == "deployed"
    assert Array("mine", "", group, topology=Topology("ring"), execution="published").model == (
        "published"
    )


def test_a_wrong_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--set execution=deploy: execution: 'deploy'"):
        load_array("accpar-mixed", ["execution=deploy"])

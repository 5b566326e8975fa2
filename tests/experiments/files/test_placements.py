"""Placements of weights beside torch's own sharding, and beside the memory of the step."""

import json
import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import accelarray
from workloads.importers.torch.module import from_torch

NETWORK = "mixtral-8x7b:layers=2:seq=64:hidden=64:heads=8:kv_heads=4:ffn=32:vocab=96"


def step(parallel: str, network: Any = NETWORK, **more: Any) -> Any:
    return accelarray.simulate(
        network, array="h100-cluster", set="nodes=1", batch=16, parallel=parallel, **more
    )


@pytest.fixture
def fake_devices() -> Iterator[Any]:
    """Eight ranks of which there is one: torch makes the local part of rank 0."""
    pytest.importorskip("torch")
    fake = import_module("torch.testing._internal.distributed.fake_pg")
    distributed = import_module("torch.distributed")
    distributed.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=8)
    yield import_module("torch")
    distributed.destroy_process_group()


def local_elements(torch: Any, data: dict[str, Any]) -> int:
    """Elements of all weights on rank 0, as torch distributes tensors of these placements."""
    tensor = import_module("torch.distributed.tensor")
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh(
        "cpu", tuple(data["mesh"]["shape"]), mesh_dim_names=tuple(data["mesh"]["dim_names"])
    )
    words = {"Replicate()": tensor.Replicate()} | {f"Shard({n})": tensor.Shard(n) for n in range(3)}
    found = 0
    for one in data["parameters"].values():
        whole = torch.empty(one["shape"])
        placed = [words[word] for word in one["placements"]]
        found += tensor.distribute_tensor(whole, mesh, placed).to_local().numel()
    return found


@pytest.mark.parametrize("parallel", ["dp=8", "dp=2,tp=4", "dp=4,tp=2,ep=4", "tp=2,dp=2,cp=2"])
@pytest.mark.filterwarnings("ignore")  # torch's
def test_local_parts_are_what_the_step_keeps(parallel: str, fake_devices: Any) -> None:
    found = step(parallel)
    data = json.loads(found.export("dtensor"))
    assert math.prod(data["mesh"]["shape"]) == 8
    sizes = {name: math.prod(one["shape"]) for name, one in data["parameters"].items()}
    network = accelarray.network(NETWORK)
    assert sizes == {one.name: one.weights for one in network.layers if one.weights}
    norms = network.parameters - sum(sizes.values())
    (memory,) = found.to_dict()["memory"]
    kept = local_elements(fake_devices, data) + norms
    assert memory["by_class"]["weights"] == 2 * kept


def test_stages_and_zero_3() -> None:
    data = json.loads(step("pp=2,dp=4", "gpt2:layers=4:seq=64").export("dtensor"))
    stages = [one["stage"] for one in data["parameters"].values()]
    assert stages == sorted(stages)
    assert {*stages} == {0, 1}
    data = json.loads(step("dp=8", zero=3).export("dtensor"))
    assert all(one["placements"] == ["Shard(0)"] for one in data["parameters"].values())


def test_tensor_parallelism_is_megatrons() -> None:
    """Columns, then rows (Shoeybi et al. 2019): torch stores outputs first."""
    data = json.loads(step("tp=8", network=f"{NETWORK}:kv_heads=8").export("dtensor"))
    found = {name.partition("layer0.")[2] or name: one for name, one in data["parameters"].items()}
    placed = {name: one["placements"] for name, one in found.items() if "layer1" not in name}
    assert placed == {
        **{key: ["Shard(0)"] for key in ("embedding", "query", "key", "value", "router", "head")},
        **{key: ["Shard(1)"] for key in ("output",)},
        **{key: ["Shard(1)"] for key in ("experts.gate", "experts.up")},  # behind the experts
        **{key: ["Shard(2)"] for key in ("experts.down",)},
    }


def test_windows_have_the_shapes_that_torch_gives_them() -> None:
    torch = pytest.importorskip("torch")
    up = torch.nn.ConvTranspose2d(8, 4, (2, 3), 2)
    network = from_torch(torch.nn.Sequential(up), torch.zeros(1, 8, 16, 16))
    for given, name, like in (
        ("resnet18", "conv1", [64, 3, 7, 7]),
        ("mobilenet-v2", "block0.0.depthwise", [32, 1, 3, 3]),
        (network, "0", list(up.weight.shape)),
    ):
        data = json.loads(step("dp=8", given).export("dtensor"))
        found = data["parameters"]
        assert found.get(name, *found.values() if given is network else [])["shape"] == like

"""What is written into a part of a tensor, and what of a module is not followed and told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workloads.importers.torch.made import Made, torch
from tests.workloads.torch_counts import declare_operators
from workloads.importers import from_torch

nn = torch.nn


def parameters(module: Any) -> int:
    return sum(one.numel() for one in module.parameters())


def padded(m: Any, x: Any) -> Any:
    y = m.first(x)
    whole = y.new_zeros(y.shape[0], 8, y.shape[2] + 2, y.shape[3] + 2)
    whole[:, :, 1:-1, 1:-1] = y
    return m.second(whole)


def test_what_is_written_into_zeros_is_computed() -> None:
    """Zeros are a constant, and so was the convolution of what was written into them."""
    module = Made(padded, first=nn.Conv2d(3, 8, 1), second=nn.Conv2d(8, 4, 3))
    network = from_torch(module, torch.zeros(2, 3, 8, 8))
    assert [(one.name, one.kind) for one in network.layers] == [
        ("first", "conv"),
        ("copy_", "other"),
        ("second", "conv"),
    ]
    assert network.parameters == parameters(module)
    assert network.macs == 64 * 3 * 8 + 64 * 4 * 8 * 9
    assert network.layers[1].output.elements == 8 * 10 * 10


def mixed(m: Any, x: Any) -> Any:
    y, z = m.first(x) * 1.0, m.second(x)
    y[:, :4] = z[:, :4]
    y[:, 4:].add_(z[:, 4:])
    return m.third(y)


def test_what_is_written_into_a_computed_tensor_is_read_behind_it() -> None:
    module = Made(mixed, first=nn.Linear(8, 8), second=nn.Linear(8, 8), third=nn.Linear(8, 2))
    network = from_torch(module, torch.zeros(2, 8))
    read = {one.name: one.inputs for one in network.layers}
    assert read["copy_"] == ("mul", "second")
    assert read["add_"] == ("copy_", "second")
    assert read["third"] == ("add__2",)
    assert read["add__2"] == ("copy_", "add_")
    assert network.parameters == parameters(module)


def in_place(m: Any, x: Any) -> Any:
    return m.second(torch.relu_(m.first(x).flatten(1)))


def test_a_view_changed_in_place_and_read_alone_is_one_layer() -> None:
    module = Made(in_place, first=nn.Conv2d(3, 4, 1), second=nn.Linear(16, 2))
    network = from_torch(module, torch.zeros(2, 3, 2, 2))
    assert [one.kind for one in network.layers] == ["conv", "flatten", "relu", "fc"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_keys_of_two_parts_are_computed(attention: str) -> None:
    """DeepSeek-V2 writes them into an empty tensor: scores had weights, or were refused."""
    declare_operators()
    transformers = pytest.importorskip("transformers")
    config = transformers.DeepseekV2Config(
        num_hidden_layers=1, hidden_size=64, intermediate_size=128, vocab_size=100,
        num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=None,
        qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1,
        max_position_embeddings=64, use_cache=False, attn_implementation=attention,
    )  # fmt: skip
    module = transformers.DeepseekV2ForCausalLM(config).train()
    ids = torch.zeros(2, 32, dtype=torch.long)
    network = from_torch(module, {"input_ids": ids})
    assert network.parameters == parameters(module)


def test_parameters_without_gradients_are_told() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    network = from_torch(module, torch.zeros(2, 4))
    assert network.notes == ("2 of 4 parameters need no gradient: all are trained here",)


def test_detached_tensors_are_told() -> None:
    module = Made(lambda m, x: m.a(m.b(x).detach()), a=nn.Linear(4, 2), b=nn.Linear(4, 4))
    (note,) = from_torch(module, torch.zeros(2, 4)).notes
    assert note.endswith("gradients go through detach here")


def test_products_of_parameters_alone_are_told() -> None:
    """As a query that is learned, and projected: the same for all samples."""
    query = nn.Parameter(torch.zeros(4))
    module = Made(lambda m, x: m.b(x) * m.a(m.query), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    module.query = query
    (note,) = from_torch(module, torch.zeros(2, 4)).notes
    assert note == "a.linear_1: a product of parameters alone is not counted, nor its gradients"

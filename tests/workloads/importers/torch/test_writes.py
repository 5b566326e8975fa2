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
        ("copy_", "other"),  # of the part
        ("copy__2", "other"),  # of the whole, which was zeros
        ("second", "conv"),
    ]
    assert network.parameters == parameters(module)
    assert network.macs == 64 * 3 * 8 + 64 * 4 * 8 * 9
    assert [one.output.elements for one in network.layers[1:3]] == [8 * 8 * 8, 8 * 10 * 10]


def mixed(m: Any, x: Any) -> Any:
    y, z = m.first(x) * 1.0, m.second(x)
    y[:, :4] = z[:, :4]
    y[:, 4:].add_(z[:, 4:])
    return m.third(y)


def test_what_is_written_into_a_computed_tensor_is_read_behind_it() -> None:
    module = Made(mixed, first=nn.Linear(8, 8), second=nn.Linear(8, 8), third=nn.Linear(8, 2))
    network = from_torch(module, torch.zeros(2, 8))
    read = {one.name: one.inputs for one in network.layers}
    assert read["copy_"] == ("second",)
    assert read["copy__2"] == ("mul", "copy_")
    assert read["add_"] == ("copy__2", "second")
    assert read["add__2"] == ("copy__2", "add_")
    assert read["third"] == ("add__2",)
    whole = next(one for one in network.layers if one.name == "add__2")
    assert whole.type.forward(whole) == ()  # the part is written where it is
    assert network.parameters == parameters(module)


def rotated(m: Any, x: Any) -> Any:
    parts = m.first(x).view(2, 3, 4)
    parts[:, 0] = m.second(x)
    one, other, _ = parts.unbind(1)
    return m.third(one * other)


def test_what_is_written_into_a_view_is_read_behind_it() -> None:
    """As queries and keys that are turned in one product's output."""
    module = Made(rotated, first=nn.Linear(8, 12), second=nn.Linear(8, 4), third=nn.Linear(4, 2))
    network = from_torch(module, torch.zeros(2, 8))
    read = {one.name: one.inputs for one in network.layers}
    assert network.notes == ()
    assert read["copy__2"] == ("first", "copy_")
    assert read["copy_"] == ("second",)
    assert {*read["mul"]} == {"copy__2"}


def aside(m: Any, x: Any) -> Any:
    y = m.first(x)
    left, right = y[:, :4], y.view(2, 2, 4)
    right[:, 0] = m.second(x)
    return m.third(right[:, 1] * left)


def test_what_other_views_do_not_see_is_told() -> None:
    module = Made(aside, first=nn.Linear(8, 8), second=nn.Linear(8, 4), third=nn.Linear(4, 2))
    (note,) = from_torch(module, torch.zeros(2, 8)).notes
    assert note.endswith("what it writes is not followed into other views")


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

"""Recommenders and mixtures of experts: torch's own counts, at any batch."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import pytest

from tests.workloads.importers.torch.made import Made, torch
from tests.workloads.torch_counts import declare_operators, macs_of
from workloads import Network, Tensor
from workloads.importers import from_torch

TABLES, FEATURES, LOOKUPS = 5, 16, 3
BATCHES = (1, 2, TABLES + 1, FEATURES, 64)
"""Also of a size that something else has."""


def check(network: Network, module: Any, macs: float) -> None:
    assert network.notes == ()
    assert network.parameters == sum(p.numel() for p in module.parameters())
    assert network.macs == macs


class Recommender(torch.nn.Module):  # type: ignore[misc]
    """DLRM (arXiv:1906.00091): a table for each feature, products of all pairs.

    ``join`` is how vectors are put together; where ids come in rows with
    offsets, as the authors' program has them, it is a view.
    """

    def __init__(self, join: str, *, bags: bool) -> None:
        super().__init__()
        table = torch.nn.EmbeddingBag if bags else torch.nn.Embedding
        self.tables = torch.nn.ModuleList([table(90, FEATURES) for _ in range(TABLES)])
        self.bottom = torch.nn.Sequential(torch.nn.Linear(13, FEATURES), torch.nn.ReLU())
        pairs = list(combinations(range(TABLES + 1), 2))
        self.top = torch.nn.Linear(FEATURES + len(pairs), 7)
        self.first, self.second = torch.tensor(pairs).T
        self.join = join

    def forward(self, dense: Any, ids: Any, offsets: Any = None) -> Any:
        x = self.bottom(dense)
        if offsets is None:
            rows = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        else:
            rows = [t(i, o) for t, i, o in zip(self.tables, ids, offsets, strict=True)]
        if self.join == "stack":
            all_ = torch.stack([*rows, x], 1)
        elif self.join == "view":
            all_ = torch.cat([*rows, x], 1).view(len(x), -1, FEATURES)
        else:
            all_ = torch.cat([row.unsqueeze(1) for row in (*rows, x)], 1)
        products = torch.bmm(all_, all_.transpose(1, 2))
        return self.top(torch.cat([products[:, self.first, self.second], x], 1))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("join", ["stack", "view", "concat"])
def test_a_recommender(join: str, batch: int) -> None:
    inputs = (torch.zeros(batch, 13), torch.zeros(batch, TABLES, dtype=torch.long))
    module = Recommender(join, bags=False)
    network = from_torch(module, inputs)
    check(network, module, macs_of(module, *inputs) / batch)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("in_a_row", [False, True])
def test_bags_of_rows(batch: int, in_a_row: bool) -> None:
    module = Recommender("view", bags=True)
    ids = torch.zeros(batch, TABLES, LOOKUPS, dtype=torch.long)
    inputs: tuple[Any, ...] = (torch.zeros(batch, 13), ids)
    if in_a_row:
        offsets = [torch.arange(batch) * LOOKUPS for _ in range(TABLES)]
        inputs = (inputs[0], [ids[:, i].flatten() for i in range(TABLES)], offsets)
    network = from_torch(module, inputs)
    check(network, module, macs_of(module, *inputs) / batch)
    bags = [layer for layer in network.layers if layer.kind == "embedding"]
    assert [(b.input, b.output) for b in bags] == [(Tensor(1, LOOKUPS), Tensor(FEATURES))] * TABLES


def test_weights_of_ids_are_noted() -> None:
    weighed = Made(
        lambda m, ids, weights: m.table(ids, per_sample_weights=weights),
        table=torch.nn.EmbeddingBag(9, 4, mode="sum"),
    )
    network = from_torch(weighed, (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3)))
    assert "the weights of its ids are not counted" in network.notes[0]


def mixtral(experts: str) -> Any:
    """Two layers of Mixtral, of four experts, of which each token meets two."""
    declare_operators()
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        attn_implementation="eager",
        use_cache=False,
    )
    config._experts_implementation = experts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.MixtralForCausalLM(config).eval()


@pytest.mark.parametrize("batch", [1, 2, 16])
@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
def test_a_mixture_of_experts(experts: str, batch: int) -> None:
    """Torch's counter cannot see into the grouped product: it counts one expert at a time."""
    ids = torch.zeros(batch, 8, dtype=torch.long)
    module = mixtral(experts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_expert = macs_of(mixtral("eager"), ids)
        check(from_torch(module, ids), module, by_expert / batch)


def test_rows_that_do_not_deal_out_evenly_are_said() -> None:
    network = from_torch(mixtral("grouped_mm"), torch.zeros(2, 7, dtype=torch.long))
    assert len(network.notes) == 4
    assert "14 rows do not deal out to 4 experts; counted as 4 for each" in network.notes[0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stacks_keep_the_samples(axis: int) -> None:
    module = Made(
        lambda m, x: m.head(torch.stack([m.one(x), m.other(x)], axis)),
        one=torch.nn.Linear(6, 6),
        other=torch.nn.Linear(6, 6),
        head=torch.nn.Linear(2 if axis in (2, -1) else 6, 3),
    )
    x = torch.zeros(4, 6)
    check(from_torch(module, x), module, macs_of(module, x) / 4)


@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: x.sum(1),
        lambda x: x.amax(1),
        lambda x: x.max(1)[0],
        lambda x: x.mean(1),
        lambda x: torch.maximum(x.sum(1), x.amin(1)),
    ],
)
def test_reductions_keep_the_samples(reduce: Any) -> None:
    parts = {"stem": torch.nn.Linear(6, 6), "head": torch.nn.Linear(6, 3)}
    module = Made(lambda m, x: m.head(reduce(m.stem(x))), **parts)
    x = torch.zeros(4, 5, 6)
    check(from_torch(module, x), module, macs_of(module, x) / 4)

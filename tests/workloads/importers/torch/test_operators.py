"""Single torch operators behind a layer: kinds, shapes and products, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.workloads.importers.torch.made import Made, torch
from workloads import Layer, Network, NetworkError, Tensor, with_attention
from workloads.importers import from_torch

F = torch.nn.functional
Function = Callable[[Any], Any]


def behind(stem: Any, function: Function) -> Any:
    """A layer with weights, and then the function."""
    return Made(lambda m, x: function(m.stem(x)), stem=stem).eval()


def on_map(function: Function) -> Network:
    """Behind a convolution to 4 channels of 8 x 8, two samples."""
    stem = torch.nn.Conv2d(3, 4, 3, padding=1)
    return from_torch(behind(stem, function), torch.zeros(2, 3, 8, 8))


def on_sequence(function: Function, batch: int = 2) -> Network:
    """Behind a linear layer to 6 features of 5 positions."""
    return from_torch(behind(torch.nn.Linear(6, 6), function), torch.zeros(batch, 5, 6))


def last(network: Network) -> Layer:
    assert network.notes == ()
    return network.layers[-1]


@pytest.mark.parametrize(
    ("function", "kind", "output"),
    [
        (lambda x: F.relu(x), "relu", Tensor(4, 8, 8)),
        (lambda x: torch.relu_(x), "relu", Tensor(4, 8, 8)),
        (lambda x: torch.softmax(x, 1), "softmax", Tensor(4, 8, 8)),
        (lambda x: F.max_pool2d(x, 2), "max_pool", Tensor(4, 4, 4)),
        (lambda x: F.max_pool2d(x, (3, 2), stride=1), "max_pool", Tensor(4, 6, 7)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), "avg_pool", Tensor(4, 4, 4)),
        (lambda x: F.adaptive_avg_pool2d(x, 2), "avg_pool", Tensor(4, 2, 2)),
        (lambda x: F.adaptive_avg_pool2d(x, 1), "avg_pool", Tensor(4)),
        (lambda x: F.adaptive_max_pool2d(x, 2), "max_pool", Tensor(4, 2, 2)),
        (lambda x: x.mean((2, 3)), "avg_pool", Tensor(4)),
        (lambda x: x.mean(-1), "avg_pool", Tensor(4, 8)),
        (lambda x: torch.sigmoid(x), "other", Tensor(4, 8, 8)),
        (lambda x: F.gelu(x), "other", Tensor(4, 8, 8)),
        (lambda x: F.relu(x.flatten(2)), "relu", Tensor(4, 64)),
        (lambda x: F.relu(x.permute(0, 2, 3, 1)), "relu", Tensor(4, 8, 8)),
        (lambda x: F.relu(x.transpose(1, 3)), "relu", Tensor(4, 8, 8)),
        (lambda x: F.relu(x[:, :2]), "relu", Tensor(2, 8, 8)),
        (lambda x: F.relu(x[:, :, 3]), "relu", Tensor(4, 8)),
        (lambda x: F.relu(x.unbind(2)[0]), "relu", Tensor(4, 8)),
        (lambda x: F.relu(x.split(2, 1)[1]), "relu", Tensor(2, 8, 8)),
        (lambda x: F.relu(x.chunk(4, 1)[0]), "relu", Tensor(1, 8, 8)),
        (lambda x: F.relu(x.expand(2, 4, 8, 8)), "relu", Tensor(4, 8, 8)),
        (lambda x: F.relu(x.contiguous().to(torch.float64)), "relu", Tensor(4, 8, 8)),
        (lambda x: F.relu(F.dropout(x, 0.5, training=False)), "relu", Tensor(4, 8, 8)),
    ],
)
def test_operators_on_a_map(function: Function, kind: str, output: Tensor) -> None:
    layer = last(on_map(function))
    assert (layer.kind, layer.output) == (kind, output)


@pytest.mark.parametrize(
    ("function", "measures"),
    [
        (lambda x: F.max_pool2d(x, 2), (2, 2, 0)),
        (lambda x: F.max_pool2d(x, (3, 2), stride=1), ((3, 2), 1, 0)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), (3, 2, 1)),
        (lambda x: F.adaptive_avg_pool2d(x, 2), (4, 4, 0)),
    ],
)
def test_windows_keep_their_measures(function: Function, measures: tuple[Any, ...]) -> None:
    layer = last(on_map(function))
    assert (layer.kernel, layer.stride, layer.padding) == measures


@pytest.mark.parametrize(
    ("make", "x", "fields"),
    [
        (
            lambda: torch.nn.Conv2d(4, 6, (3, 1), (2, 1), (1, 0), bias=False),
            (2, 4, 8, 8),
            {"kernel": (3, 1), "stride": (2, 1), "padding": (1, 0), "output": Tensor(6, 4, 8)},
        ),
        (
            lambda: torch.nn.Conv2d(4, 8, 3, padding="same", groups=2, dilation=2),
            (2, 4, 8, 8),
            {"groups": 2, "dilation": 2, "bias": True, "weights": 8 * 2 * 9},
        ),
        (
            lambda: torch.nn.Conv2d(4, 8, (4, 3), padding="same", dilation=2),
            (2, 4, 8, 8),
            {"padding": (3, 2), "output": Tensor(8, 8, 8)},
        ),
        (
            lambda: torch.nn.Conv1d(4, 6, 5),
            (2, 4, 9),
            {"kernel": (5, 1), "output": Tensor(6, 5), "weights": 120},
        ),
        (
            lambda: torch.nn.Conv3d(2, 3, 2),
            (1, 2, 4, 5, 6),
            {"output": Tensor(3, 3, 20), "weights": 48, "macs": 48 * 60},
        ),
        (
            lambda: torch.nn.ConvTranspose2d(4, 6, 2, 2, groups=2),
            (2, 4, 5, 5),
            {"transposed": True, "output": Tensor(6, 10, 10), "macs": 4 * 3 * 4 * 25},
        ),
    ],
)
def test_convolutions(make: Callable[[], Any], x: tuple[int, ...], fields: dict[str, Any]) -> None:
    (layer,) = from_torch(make().eval(), torch.zeros(x)).layers
    assert layer.kind == "conv"
    assert {key: getattr(layer, key) for key in fields} == fields


@pytest.mark.parametrize(
    ("function", "macs"),
    [
        (lambda x: x @ x.transpose(1, 2), 5 * 5 * 6),
        (lambda x: torch.bmm(x, x.mT), 5 * 5 * 6),
        (lambda x: torch.einsum("bid,bjd->bij", x, x), 5 * 5 * 6),
        (lambda x: F.scaled_dot_product_attention(x, x, x), 2 * 5 * 5 * 6),
        (lambda x: torch.baddbmm(torch.zeros(1, 5, 5), x, x.mT), 5 * 5 * 6),
        (lambda x: torch.baddbmm(torch.zeros(1), x, x.mT, beta=0), 5 * 5 * 6),
    ],
)
def test_products_of_computed_tensors(function: Function, macs: int) -> None:
    network = on_sequence(function)
    assert sum(layer.macs for layer in network.layers if layer.kind == "matmul") == macs


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (lambda x, w: torch.tensordot(x, w, dims=1), [(6, 4)], 5 * 6 * 4),
        (lambda x, w: torch.tensordot(x, w, dims=([2, 1], [1, 0])), [(5, 6, 4)], 5 * 6 * 4),
        (lambda x, w: torch.inner(x, w), [(4, 6)], 5 * 6 * 4),
        (lambda x, b, w: torch.addmv(b, x.flatten(0, 1), w), [(1,), (6,)], 5 * 6),
        (lambda x, b: torch.baddbmm(b, x, x.mT), [(1, 5, 5)], 5 * 5 * 6),
        (
            lambda x, w: torch.convolution(x, w, None, [1], [1], [1], False, [0], 1),
            [(7, 5, 3)],
            7 * 5 * 3 * 6,
        ),
    ],
)
def test_products_by_other_names(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], macs: int
) -> None:
    """Behind a linear layer: what they multiply, and all parameters."""
    parts = {f"p{i}": torch.nn.Parameter(torch.zeros(shape)) for i, shape in enumerate(shapes)}
    model = Made(
        lambda m, x: function(m.stem(x), *(getattr(m, name) for name in parts)),
        stem=torch.nn.Linear(6, 6),
        **parts,
    )
    network = from_torch(model, torch.zeros(2, 5, 6))
    assert (network.notes, network.macs - 5 * 6 * 6) == ((), macs)
    assert network.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.addbmm(torch.zeros(5, 5), x, x.mT),
        lambda x: torch.linalg.multi_dot([x.flatten(0, 1), x.flatten(0, 1).T, x.flatten(0, 1)]),
        lambda x: torch.matrix_power(x @ x.mT, 3),
        lambda x: torch.linalg.vecdot(x, x),
    ],
)
def test_products_that_no_layer_stands_for_are_noted(function: Function) -> None:
    assert "is not understood" in on_sequence(function).notes[0]


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (lambda x: x.repeat(4, 1).view(4, -1, 6), 5),
        (lambda x: x.tile(4, 1).view(4, -1, 6), 5),
        (lambda x: x.repeat_interleave(4, 0).view(-1, 4, 6).transpose(0, 1), 5),
        (lambda x: x.repeat(4, 3).view(4, -1, 6), 3 * 5),
    ],
)
def test_rows_written_again_for_each_expert(function: Function, rows: int, batch: int) -> None:
    """Llama 4's layers of experts: samples and positions in one dimension, repeated."""
    model = Made(
        lambda m, x: torch.bmm(function(m.stem(x).flatten(0, 1)), m.experts),
        stem=torch.nn.Linear(6, 6),
        experts=torch.nn.Parameter(torch.zeros(4, 6, 7)),
    )
    network = from_torch(model, torch.zeros(batch, 5, 6))
    assert network.macs == 5 * 6 * 6 + 4 * rows * 6 * 7
    assert network.layers[-1].groups == 4


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_elements_repeated_without_a_dimension(batch: int) -> None:
    network = on_sequence(
        lambda x: x.repeat_interleave(2).view(-1, 10, 6) @ torch.ones(6, 4), batch
    )
    assert network.macs == 5 * 6 * 6 + 10 * 6 * 4


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_the_first_state_of_linear_attention(batch: int) -> None:
    """MiniMax and Qwen3-Next make it of zeros, for each sample."""
    network = on_sequence(lambda x: x.view(batch, 3, 5, 2) @ torch.zeros(batch, 3, 2, 2), batch)
    assert [(x.groups, x.macs) for x in network.layers[1:]] == [(3, 3 * 5 * 2 * 2)]


def test_as_many_features_as_samples_are_no_copies() -> None:
    model = behind(torch.nn.Linear(6, 6), lambda x: x @ torch.zeros(6, 4))
    assert from_torch(model, torch.zeros(6, 6)).macs == 6 * 6 + 6 * 4


def test_a_slice_of_nothing() -> None:
    """Phi-3 rotates all features of a head, and appends the rest, of which there is none."""
    model = Made(
        lambda m, x: m.fc(torch.cat([x[..., :6].cos(), x[..., 6:]], -1)), fc=torch.nn.Linear(6, 3)
    )
    network = from_torch(model, torch.zeros(2, 5, 6))
    assert (network.macs, network.notes) == (5 * 6 * 3, ())
    assert [layer.operator for layer in network.layers if not layer.weighted] == ["cos", "concat"]


def test_attention_with_heads() -> None:
    def heads(x: Any) -> Any:
        split = x.view(2, 5, 3, 2).transpose(1, 2)
        return F.scaled_dot_product_attention(split, split, split).transpose(1, 2).reshape(2, 5, 6)

    products = [layer for layer in on_sequence(heads).layers if layer.kind == "matmul"]
    assert [(p.groups, p.macs) for p in products] == [(3, 3 * 5 * 2 * 5), (3, 3 * 5 * 5 * 2)]


@pytest.mark.parametrize("causal", [True, False])
def test_attention_says_whether_it_is_causal(causal: bool) -> None:
    network = on_sequence(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=causal))
    assert [x.causal for x in network.layers if x.kind == "softmax"] == [causal]
    fused = with_attention(network, "fused")
    assert [x.causal for x in fused.layers if x.kind == "attention"] == [causal]


@pytest.mark.parametrize(
    ("function", "kind", "output"),
    [
        (lambda a, b: a + b, "add", Tensor(6, 5)),
        (lambda a, b: a - b, "add", Tensor(6, 5)),
        (lambda a, b: a * b, "mul", Tensor(6, 5)),
        (lambda a, b: a / b, "mul", Tensor(6, 5)),
        (lambda a, b: torch.cat([a, b], -1), "concat", Tensor(12, 5)),
        (lambda a, b: torch.cat([a, b], 1), "concat", Tensor(6, 10)),
        (lambda a, b: torch.maximum(a, b), "other", Tensor(6, 5)),
    ],
)
def test_two_paths(function: Callable[[Any, Any], Any], kind: str, output: Tensor) -> None:
    parts = {"one": torch.nn.Linear(6, 6), "other": torch.nn.Linear(6, 6)}
    two = Made(lambda m, x: function(m.one(x), m.other(x)), **parts)
    network = from_torch(two.eval(), torch.zeros(2, 5, 6))
    layer = last(network)
    assert (layer.kind, layer.output) == (kind, output)
    assert set(layer.inputs) == {"one", "other"}


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_stacks_of_cells(kind: str, directions: int, count: int) -> None:
    both = directions == 2
    stack = getattr(torch.nn, kind)(6, 4, count, batch_first=True, bidirectional=both)

    network = from_torch(Made(lambda m, x: m.stack(x)[0], stack=stack).eval(), torch.zeros(2, 5, 6))
    assert [layer.kind for layer in network.layers] == [kind.lower()] * count
    assert {layer.output for layer in network.layers} == {Tensor(4 * directions, 5)}
    assert [layer.input.channels for layer in network.layers] == [
        6,
        *[4 * directions] * (count - 1),
    ]
    assert network.parameters == sum(p.numel() for p in stack.parameters())


def test_a_projected_cell_and_hidden_products_are_noted() -> None:
    stack = torch.nn.LSTM(6, 4, proj_size=2, batch_first=True)

    parts = {"stem": torch.nn.Linear(6, 6), "stack": stack}
    projected = Made(lambda m, x: m.stack(m.stem(x))[0], **parts)
    network = from_torch(projected.eval(), torch.zeros(2, 5, 6))
    assert "with a projection is not understood" in network.notes[0]
    distances = on_sequence(lambda x: torch.cdist(x, x))
    assert "is not understood" in distances.notes[0]


@pytest.mark.parametrize(("training", "kinds"), [(True, ["conv", "other"]), (False, ["conv"])])
def test_dropout_does_something_only_where_it_trains(training: bool, kinds: list[str]) -> None:
    network = on_map(lambda x: F.dropout(x, 0.5, training=training))
    assert [layer.kind for layer in network.layers] == kinds


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda: torch.nn.LayerNorm(6), 12),
        (lambda: torch.nn.LayerNorm(6, bias=False), 6),
        (lambda: torch.nn.RMSNorm(6), 6),
    ],
)
def test_norms_have_what_they_train(make: Callable[[], Any], parameters: int) -> None:
    norm = make()
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), norm).eval()
    layer = last(from_torch(model, torch.zeros(2, 5, 6)))
    assert (layer.kind, layer.extra) == ("other", parameters)
    assert layer.operator in ("layer_norm", "rms_norm")


def test_batch_norm_counts_scale_and_shift() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).eval()
    layer = last(from_torch(model, torch.zeros(2, 3, 8, 8)))
    assert (layer.kind, layer.parameters) == ("batch_norm", 8)


def test_batch_norm_without_affine_trains_nothing() -> None:
    norm = torch.nn.BatchNorm2d(4, affine=False)
    layer = last(
        from_torch(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), norm), torch.zeros(2, 3, 8, 8))
    )
    assert (layer.kind, layer.parameters) == ("batch_norm", 0)


def test_constants_that_are_made_are_no_traffic() -> None:
    mask = on_sequence(lambda x: F.relu(x) + torch.zeros_like(x))
    assert [layer.kind for layer in mask.layers] == ["fc", "relu", "other"]
    assert mask.layers[-1].inputs == (mask.layers[1].name,)


def test_addmm_with_a_computed_addend_is_a_product_and_a_sum() -> None:
    addmm = Made(
        lambda m, x: torch.addmm(m.one(x), m.other(x), m.weight),
        one=torch.nn.Linear(6, 4),
        other=torch.nn.Linear(6, 6),
        weight=torch.nn.Parameter(torch.zeros(6, 4)),
    )
    network = from_torch(addmm.eval(), torch.zeros(2, 6))
    assert [layer.kind for layer in network.layers] == ["fc", "fc", "fc", "add"]
    assert network.parameters == 28 + 42 + 24


def test_a_computed_weight_of_a_linear_layer_is_turned() -> None:
    """Of 4 rows by 8 features with 100 rows by 8: 4 x 8 x 8, 100 x 8 x 8 and 4 x 8 x 100."""
    of = {"a": torch.nn.Linear(8, 8), "b": torch.nn.Linear(8, 8)}
    inputs = (torch.zeros(1, 4, 8), torch.zeros(1, 100, 8))
    linear = Made(lambda m, x, y: F.linear(m.a(x), m.b(y)[0]), **of)
    product = Made(lambda m, x, y: m.a(x) @ m.b(y)[0].t(), **of)
    found = from_torch(linear, inputs)
    assert found.macs == 4 * 64 + 100 * 64 + 4 * 8 * 100
    assert found.layers[-1].output == from_torch(product, inputs).layers[-1].output


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_learned_rows_that_meet_each_sample_are_counted_once(batch: int) -> None:
    """4 of 8 features; a layer of 8 x 8 and biases on 6 positions, and scores of 4 x 8 x 6."""
    learned, layer = torch.nn.Parameter(torch.zeros(1, 4, 8)), torch.nn.Linear(8, 8)

    def score(m: Any, x: Any) -> Any:
        return m.q.expand(len(x), -1, -1) @ m.k(x).transpose(1, 2)

    def repeated(m: Any, x: Any) -> Any:
        return torch.bmm(m.k(x), m.q.repeat(len(x), 1, 1).transpose(1, 2))

    for function in (score, repeated):
        found = from_torch(Made(function, q=learned, k=layer), torch.zeros(batch, 6, 8))
        assert found.parameters == 32 + 64 + 8
        assert found.macs == 6 * 64 + 4 * 8 * 6
        assert found.notes == ()


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_learned_queries_go_through_a_decoder(batch: int) -> None:
    """Learned queries: 6 of 16 features attend to each other, then to 9 positions."""
    decoder = torch.nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)
    queries = torch.nn.Parameter(torch.zeros(1, 6, 16))
    module = Made(lambda m, x: m.d(m.q.expand(len(x), -1, -1), x), q=queries, d=decoder).eval()
    found = from_torch(module, torch.zeros(batch, 9, 16))
    assert found.parameters == sum(one.numel() for one in module.parameters())
    within = 6 * 4 * 16 * 16 + 2 * 6 * 6 * 16
    across = 6 * 2 * 16 * 16 + 9 * 2 * 16 * 16 + 2 * 6 * 9 * 16
    assert found.macs == within + across + 6 * 2 * 16 * 32
    assert found.notes == ()
    assert found.input == Tensor(16, 9)


def test_a_learned_row_beside_others_is_no_layer() -> None:
    """As the class token of a ViT."""
    token, layer = torch.nn.Parameter(torch.zeros(1, 1, 8)), torch.nn.Linear(8, 8)
    module = Made(lambda m, x: m.f(torch.cat([m.t.expand(2, -1, -1), x], 1)), t=token, f=layer)
    found = from_torch(module, torch.zeros(2, 6, 8))
    assert [one.operator or one.kind for one in found.layers] == ["concat", "fc"]
    assert found.parameters == 8 + 72


def test_rows_that_a_mask_picks_are_refused_by_name() -> None:
    module = Made(lambda m, x: m.f(x[x[:, 0] > 0]), f=torch.nn.Linear(8, 4))
    with pytest.raises(NetworkError, match=r"Made, node 'index': its shape depends on values"):
        from_torch(module, torch.zeros(5, 8))

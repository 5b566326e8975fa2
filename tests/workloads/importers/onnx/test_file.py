"""ONNX files: torch's own exports (tests/data/onnx, made by make_onnx.py), and single operators."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from experiments.cli import main
from tests.workloads.onnx_models import model, node, read, save
from workloads import Graph, Network, NetworkError, Tensor, load_network, partition_graph

FOLDER = Path(__file__).parents[3] / "data" / "onnx"
PARAMETERS = {"conv": 12_618, "mlp": 5_765, "block": 15_936, "recurrent": 19_594, "einsum": 704}
"""Elements of the modules' own parameters, as torch counts them (test_torch.py checks)."""


def nameless(network: Network) -> Graph:
    return tuple(replace(item, name="") for item in partition_graph(network))


def test_the_zoos_resnet50_and_torchs_exports_have_one_graph() -> None:
    zoo = load_network("resnet50")
    for kind in ("batch-norm", "folded"):
        assert nameless(load_network(str(FOLDER / f"resnet50-{kind}.onnx"))) == nameless(zoo)


def test_batch_norm_is_kept_where_the_file_keeps_it() -> None:
    kept, folded, zoo = (
        load_network(name)
        for name in (
            str(FOLDER / "resnet50-batch-norm.onnx"),
            str(FOLDER / "resnet50-folded.onnx"),
            "resnet50",
        )
    )
    assert kept.parameters == zoo.parameters == 25_557_032
    assert [layer.kind for layer in kept.layers] == [layer.kind for layer in zoo.layers]
    assert folded.weights == kept.weights
    assert folded.parameters == folded.weights + 26_560 + 1000  # a bias for each channel
    assert not any(layer.kind == "batch_norm" for layer in folded.layers)
    assert "layer1.0.conv1" in {layer.name for layer in kept.layers}  # named after its weight


@pytest.mark.parametrize("name", PARAMETERS)
def test_both_of_torchs_exporters_give_the_same_network(name: str) -> None:
    """One with a symbolic batch, the other for two samples."""
    symbolic, fixed = (
        load_network(str(FOLDER / f"{name}-{kind}.onnx")) for kind in ("symbolic", "fixed")
    )
    assert symbolic.notes == fixed.notes == ()
    assert symbolic.macs == fixed.macs
    assert symbolic.parameters == PARAMETERS[name]
    if name == "block":  # that exporter writes a turned copy of the tied matrix
        assert symbolic.layers[-1].shared == "embedding"
        assert fixed.weights == symbolic.weights + 100 * 32
        assert nameless(fixed)[:-1] == nameless(symbolic)[:-1]
    else:
        assert fixed.parameters == symbolic.parameters
        assert nameless(fixed) == nameless(symbolic)


def test_grouped_query_attention_keeps_its_key_heads_apart() -> None:
    graph = {n.name: n for n in partition_graph(load_network(str(FOLDER / "block-symbolic.onnx")))}
    products = [n for n in graph.values() if n.kind == "matmul"]
    assert [n.groups for n in products] == [2, 2]
    assert products[0].reads == (Tensor(32, 10), Tensor(16, 10))


def test_embeddings_and_positions(tmp_path: Path) -> None:
    network = read(
        tmp_path,
        [
            node("Gather", "table x", "e"),
            node("Add", "e positions", "p"),
            node("LayerNormalization", "p scale shift", "n"),
            node("Transpose", "table", "turned", perm=[1, 0]),
            node("MatMul", "n turned", "y"),
        ],
        {"table": (50, 8), "positions": (6, 8), "scale": (8,), "shift": (8,)},
        x=("batch", 6),
        kind=TensorProto.INT64,
    )
    embedding, add, norm, head = network.layers
    assert (embedding.vocabulary, embedding.output) == (50, Tensor(8, 6))
    assert (add.kind, add.operator, add.extra) == ("other", "add", 48)
    assert (norm.operator, norm.extra) == ("layer_norm", 16)
    assert (head.kind, head.shared, head.output) == ("fc", embedding.name, Tensor(50, 6))
    assert network.parameters == 50 * 8 + 48 + 16


def test_shape_arithmetic_is_no_traffic(tmp_path: Path) -> None:
    network = read(
        tmp_path,
        [
            node("Conv", "x w", "c"),
            node("Shape", "c", "s"),
            node("Gather", "s zero", "batch"),
            node("Concat", "batch rest", "target", axis=0),
            node("Reshape", "c target", "flat"),
            node("Cast", "flat", "same", to=TensorProto.FLOAT),
            node("Gemm", "same v", "y"),
        ],
        {"w": (4, 3, 1, 1), "v": (256, 10)},
        integers={"zero": [0], "rest": [-1]},
    )
    assert [layer.kind for layer in network.layers] == ["conv", "flatten", "fc"]


def test_everything_else_is_an_operator_with_its_traffic(tmp_path: Path) -> None:
    network = read(
        tmp_path,
        [
            node("Conv", "x w", "c"),
            node("Sigmoid", "c", "gate"),
            node("Mul", "c gate", "swish"),
            node("HardSwish", "swish", "h"),
            node("Resize", "h - scales", "r"),
            node("GlobalAveragePool", "r", "g"),
            node("GlobalMaxPool", "r", "m"),
            node("Concat", "g m", "y", axis=1),
        ],
        {"w": (4, 3, 1, 1), "scales": (4,)},
    )
    found = [(layer.kind, layer.operator) for layer in network.layers]
    assert found[1:4] == [("other", "sigmoid"), ("other", "mul"), ("other", "hard_swish")]
    assert network.layers[2].inputs == (network.layers[0].name, network.layers[1].name)
    assert [kind for kind, _ in found[5:]] == ["avg_pool", "max_pool", "other"]
    assert network.layers[-1].output == Tensor(8)
    assert "node4: the shape of what Resize makes is unknown" in network.notes[0]


def test_features_stay_features_where_positions_are_reduced(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("ReduceMax", "h axes", "m", keepdims=0),
        node("BatchNormalization", "m s b mean var", "y"),
    ]
    weights = {"w": (16, 64), **dict.fromkeys(("s", "b", "mean", "var"), (64,))}
    network = read(tmp_path, nodes, weights, ("batch", 30, 16), {"axes": [1]})
    assert [layer.output for layer in network.layers[1:]] == [Tensor(64), Tensor(64)]
    assert network.parameters == 16 * 64 + 128


def test_what_no_output_needs_is_left_out(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x v", "h"),
        node("Dropout", "h", "d mask"),
        node("MatMul", "x u", "side"),
        node("Relu", "side", "end"),
        node("MatMul", "d w", "y"),
    ]
    network = read(tmp_path, nodes, {"u": (8, 400), "v": (8, 8), "w": (8, 4)}, ("batch", 8))
    assert [layer.name for layer in network.layers] == ["node0", "node4"]
    assert network.notes == ("node2 and 1 more: no output of the graph needs it; left out",)


def test_what_says_how_is_not_trained(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Resize", "c - scales", "r"),
        node("Clip", "r least most", "l"),
        node("QuantizeLinear", "l step", "q"),
        node("DequantizeLinear", "q step", "y"),
    ]
    settings = {"scales": (4,), "least": (1,), "most": (1,), "step": (4,)}
    assert read(tmp_path, nodes, {"w": (4, 3, 1, 1)} | settings).parameters == 12


def test_a_bias_in_a_constant_node_is_trained_as_its_matrix_there_is(tmp_path: Path) -> None:
    def held(name: str, *shape: int) -> Any:
        value = numpy_helper.from_array(np.ones(shape, np.float32))
        return node("Constant", "", name, value=value)

    product = [held("w", 8, 4), held("b", 4), node("MatMul", "x w", "h")]
    network = read(tmp_path, [*product, node("Add", "b h", "y")], {}, ("batch", 8))
    assert [layer.bias for layer in network.layers] == [True]
    scaled = read(tmp_path, [*product, node("Mul", "h b", "y")], {}, ("batch", 8))
    assert (network.parameters, scaled.parameters) == (36, 32)


@pytest.mark.parametrize(
    ("state", "batch", "trained"),
    [(np.ones((1, 1, 4)), 1, 4), (np.zeros((1, 1, 4)), 1, 0), (np.ones((1, 2, 4)), 2, 0)],
)
def test_a_first_state_is_trained_unless_it_is_given(
    state: Any, batch: int, trained: int, tmp_path: Path
) -> None:
    """Zeros, or one for each of several samples, is what an exporter writes of none."""
    value = numpy_helper.from_array(state.astype(np.float32), "h")
    proto = model(
        [node("GRU", "x w r - - h", "y", hidden_size=4)],
        {"w": (1, 12, 3), "r": (1, 12, 4)},
        x=(7, batch, 3),
    )
    proto.graph.initializer.append(value)
    assert load_network(save(tmp_path, proto)).parameters == 12 * 7 + trained


def test_quantized_matrices_with_one_scale_are_matrices_of_their_own(tmp_path: Path) -> None:
    proto = model(
        [
            node("DequantizeLinear", "a step", "fa"),
            node("DequantizeLinear", "b step", "fb"),
            node("MatMul", "x fa", "h"),
            node("MatMul", "h fb", "i"),
            node("MatMul", "i fb", "y"),
        ],
        {"step": (8,)},
        x=("batch", 8),
    )
    for name in "ab":
        proto.graph.initializer.append(numpy_helper.from_array(np.ones((8, 8), np.int8), name))
    network = load_network(save(tmp_path, proto))
    assert (network.parameters, network.macs) == (128, 192)


def test_a_matrix_made_of_others(tmp_path: Path) -> None:
    nodes = [node("MatMul", "a b", "ab"), node("Add", "w ab", "m"), node("MatMul", "x m", "y")]
    network = read(tmp_path, nodes, {"w": (8, 8), "a": (8, 2), "b": (2, 8)}, ("batch", 8))
    assert network.parameters == 64 + 32
    assert network.notes == (
        "node0: a product of parameters alone is not counted, nor its gradients",
    )


@pytest.mark.parametrize("past", [0, 90])
@pytest.mark.parametrize("apart", [False, True])
def test_attention_reads_what_was_before(past: int, apart: bool, tmp_path: Path) -> None:
    """Ten queries of four heads, and as many keys of two behind those of the past."""
    views = [node("Reshape", f"{one} {one}s", f"{one}4", name=f"{one}4") for one in "qkv"] + [
        node("Transpose", f"{one}4", f"{one}t", perm=[0, 2, 1, 3]) for one in "qkv"
    ]
    given = {} if apart else {"q_num_heads": 4, "kv_num_heads": 2}
    before = " - pk pv" if past else ""
    nodes = [
        *(node("MatMul", f"x w{one}", one) for one in "qkv"),
        *(views if apart else []),
        node("Attention", ("qt kt vt" if apart else "q k v") + before, "a k2 v2", **given),
        node("Relu", "k2", "y"),
    ]
    network = read(
        tmp_path,
        nodes,
        {"wq": (32, 32), "wk": (32, 16), "wv": (32, 16)},
        ("batch", 10, 32),
        {"qs": [0, 10, 4, 8], "ks": [0, 10, 2, 8], "vs": [0, 10, 2, 8]},
        opset=23,
        inputs=[
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2, past, 8])
            for name in (("pk", "pv") if past else ())
        ],
    )
    assert network.macs == 10 * 32 * 64 + 2 * 4 * 10 * (past + 10) * 8
    assert network.layers[-1].output == Tensor(16, past + 10)


def strange() -> list[tuple[str, list[str], list[str], dict[str, object]]]:
    return [
        node("Conv", "x w", "c", name="stem"),
        node("Mystery", "c v", "m", domain="strange", name="riddle"),
        node("Conv", "m u", "y", name="tail"),
    ]


WEIGHTS = {"w": (4, 3, 1, 1), "u": (4, 4, 1, 1), "v": (4, 4)}


def test_an_operator_that_is_not_understood_is_named_and_kept(tmp_path: Path) -> None:
    network = read(tmp_path, strange(), WEIGHTS)
    assert [layer.kind for layer in network.layers] == ["conv", "other", "conv"]
    assert network.layers[1].operator == "mystery"
    assert network.layers[1].extra == 16  # what it may have trained
    assert any(
        note.startswith("riddle: operator Mystery of strange is not understood")
        for note in network.notes
    )


def test_commands_warn_and_json_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path, model(strange(), WEIGHTS))
    for command in (
        ["show", path],
        ["plan", path, "--planner", "accpar"],
        ["simulate", path, "--planner", "accpar"],
        ["speedup", "--networks", path],
    ):
        assert main([*command, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert any("riddle" in warning for warning in json.loads(out)["warnings"])
        assert "accelarray: warning: model: riddle: operator Mystery" in err


def test_every_command_that_takes_a_network_takes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(FOLDER / "mlp-symbolic.onnx")
    two = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]
    sweep = ["sweep", "--vary", "batch=8,16", "--networks", path, "--jobs", "1"]
    for command in (
        ["timeline", path, "--planner", "owt", "--output", "step.json", *two],
        ["compare", path, "--planners", "owt,accpar", *two],
        [*sweep, "--planners", "accpar", *two],
    ):
        assert main(command) == 0
    assert "mlp-symbolic" in capsys.readouterr().out


def test_other_dimensions_without_a_size_are_asked_for(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "y")]
    path = save(tmp_path, model(nodes, {"w": (4, 5)}, x=("batch", "steps", 4)))
    with pytest.raises(ValueError, match=r"dimension 'steps' has no size; give it a size, as"):
        load_network(path)
    assert load_network(f"{path}:steps=7").layers[0].output == Tensor(5, 7)
    for options, words in (
        ("steps=x", "expected DIM=N after the colon"),
        ("steps=0", "expected DIM=N after the colon, N at least 1, found 'steps=0'"),
        ("steps=3:step=3", "no dimension is named 'step'; named are 'batch', 'steps'"),
    ):
        with pytest.raises(NetworkError, match=words):
            load_network(f"{path}:{options}")


def test_a_fixed_batch_is_divided_out(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Reshape", "c shape", "f"),
        node("Gemm", "f v", "y"),
    ]
    weights = {"w": (4, 3, 3, 3), "v": (256, 10)}
    networks = [
        read(tmp_path, nodes, weights, x=(n, 3, 8, 8), integers={"shape": [n, -1]})
        for n in (1, 6, 32)
    ]
    assert networks[0] == networks[1] == networks[2]


def test_a_further_input_of_another_size(tmp_path: Path) -> None:
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 5])
    network = read(
        tmp_path,
        [node("MatMul", "x w", "c"), node("Add", "c mask", "y")],
        {"w": (4, 5)},
        x=("batch", 4),
        inputs=[mask],
    )
    assert [layer.kind for layer in network.layers] == ["fc", "other"]
    assert network.layers[1].inputs == (network.layers[0].name, "input")


def test_2000_nodes_in_a_gigabyte(tmp_path: Path) -> None:
    nodes, weights = [], {}
    for i in range(400):
        last = f"y{i - 1}" if i else "x"
        nodes += [
            node("MatMul", f"{last} w{i}", f"a{i}"),
            node("Shape", f"a{i}", f"s{i}"),
            node("Reshape", f"a{i} s{i}", f"r{i}"),
            node("Gelu", f"r{i}", f"g{i}"),
            node("Add", f"g{i} {last}", f"y{i}"),
        ]
        weights[f"w{i}"] = (64, 64)
    path = save(tmp_path, model(nodes, weights, x=("batch", 64)))
    arguments = ["show", path, "--format", "json"]
    # Not getrusage: what a child may have used counts what its parent had when it was forked.
    measured = (
        f"from experiments.cli import main; main({arguments!r});"
        "print([line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0])"
    )
    command = [sys.executable, "-c", measured]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text, most_kib = shown.rstrip().rsplit("\n", 1)
    assert len(json.loads(text)["layers"]) == 1200
    assert int(most_kib) < 1 << 20


def test_weights_that_the_file_lacks_are_asked_for(tmp_path: Path) -> None:
    product = [node("MatMul", "x w", "y", name="f")]
    words = "f': it reads 'w', .* nodes out of order, or an initializer that the file lacks"
    with pytest.raises(NetworkError, match=words):
        read(tmp_path, product, x=("batch", 4))
    weight = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 5])
    words = "no weighted layer.*f: 'w' is an input of the model.* export it with initializers"
    with pytest.raises(NetworkError, match=words):
        read(tmp_path, product, x=("batch", 4), inputs=[weight])


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    steps = [node("MatMul", "x w", "h"), node("Relu", "h", "y", name="\x1b[31mred\nline")]
    network = read(tmp_path, steps, {"w": (4, 2)}, ("batch", 4))
    assert network.layers[-1].name == "\\x1b[31mred\\nline"

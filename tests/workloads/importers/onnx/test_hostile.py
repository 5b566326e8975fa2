"""Files from strangers: one clear message, soon, and nothing else touched."""

import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from experiments.cli import main
from tests.effort import calls
from tests.workloads.onnx_models import model, node, read, save
from workloads import NetworkError, load_network
from workloads.importers.onnx import file

CONV = node("Conv", "x w", "c", name="stem")
W = {"w": (4, 3, 1, 1)}
MOST_CALLS = 1_000_000
"""A second or two; what a file asks for without having it must not be done."""


def refused(folder: Path, proto: onnx.ModelProto, words: str) -> str:
    path = save(folder, proto)
    caught: list[NetworkError] = []

    def load() -> None:
        with pytest.raises(NetworkError) as error:
            load_network(path)
        caught.append(error.value)

    assert calls(load) < MOST_CALLS
    message = str(caught[0])
    assert words in message, message
    assert message.startswith(path)
    assert "\n" not in message
    return message


def test_a_truncated_file(tmp_path: Path) -> None:
    data = model([CONV], W).SerializeToString()
    path = tmp_path / "cut.onnx"
    whole = 0
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            load_network(str(path))
            whole += 1  # only opset imports were missing
        except NetworkError as error:
            message = str(error)
            if str(path) not in message:
                pytest.fail(message)
    assert whole < 0.1 * len(data)


def test_what_is_no_file_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.onnx").write_text("hello, this is no protobuf")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "folder.onnx").mkdir()
    os.mkfifo(tmp_path / "pipe.onnx")
    for name, words in (
        ("text", "not an ONNX file"),
        ("empty", "it has no nodes"),
        ("folder", "not a regular file"),
        ("pipe", "not a regular file"),
        ("missing", "No such file"),
        ("nul\0", "not a path"),
    ):
        path = str(tmp_path / f"{name}.onnx")
        for command in ("show", "simulate", "plan"):
            planner = [] if command == "show" else ["--planner", "owt"]
            assert main([command, path, *planner]) == 2
            err = capsys.readouterr().err
            assert words in err
            assert err.count("\n") == 1


def test_a_cycle(tmp_path: Path) -> None:
    nodes = [
        CONV,
        node("Add", "c b", "a", name="one"),
        node("Relu", "a", "b", name="other"),
    ]
    refused(tmp_path, model(nodes, W), "node 'one': it reads 'b', which nothing before it makes")


def test_a_tensor_made_twice(tmp_path: Path) -> None:
    nodes = [CONV, node("Relu", "c", "c", name="again")]
    refused(tmp_path, model(nodes, W), "node 'again': it makes 'c', which is there already")


def test_large_weights_in_the_file_are_only_dims(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "y")]
    network = read(tmp_path, nodes, {"w": (20_000, 20_000)}, x=("batch", 20_000))
    assert network.weights == 400_000_000  # 1.6 GB as float; the data was stripped


def test_shapes_that_overflow(tmp_path: Path) -> None:
    nodes = [CONV, node("Reshape", "c big", "y", name="wide")]
    for size in ((1 << 62, 4), (-5, -1), (0, 1 << 40)):
        refused(tmp_path, model(nodes, W, integers={"big": list(size)}), "node 'wide'")
    refused(tmp_path, model([CONV], W, x=(1, 3, 1 << 31, 1 << 31)), "is absurdly large")
    refused(tmp_path, model([CONV], W, x=(1, 3, -8, 8)), "dimension 2 is -8")
    outer = [node("Unsqueeze", "x two", "a"), node("Unsqueeze", "x one", "b")]
    huge = [*outer, node("Add", "a b", "c"), node("MatMul", "c w", "y")]
    x = (1, 1 << 40)
    axes = {"two": [2], "one": [1]}
    refused(tmp_path, model(huge, {"w": (1 << 20, 4)}, x=x, integers=axes), "node 'node2'")


def test_constants_of_a_thousand_million_elements(tmp_path: Path) -> None:
    big = {"n": [1_000_000_000]}
    for kind, extra in (
        (node("ConstantOfShape", "n", "k", name="bomb"), None),
        (node("Expand", "one n", "k", name="bomb"), {"one": [1]}),
        (node("Tile", "one n", "k", name="bomb"), {"one": [1]}),
    ):
        nodes = [CONV, kind, node("Reshape", "c k", "y")]
        proto = model(nodes, W, integers=big | (extra or {}))
        refused(tmp_path, proto, "node 'bomb': it makes a constant of 1,000,000,000 elements")
    span = {"zero": [0], "n": [1_000_000_000], "one": [1]}
    nodes = [CONV, node("Squeeze", "zero", "z"), node("Squeeze", "n", "m")]
    nodes += [node("Squeeze", "one", "o"), node("Range", "z m o", "k", name="bomb")]
    nodes += [node("Reshape", "c k", "y")]
    refused(tmp_path, model(nodes, W, integers=span), "makes a constant of 1,000,000,000")


def test_a_constant_node_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    value = TensorProto(data_type=TensorProto.INT64, dims=[1_000_000_000], raw_data=b"abcdefgh")
    nodes = [CONV, node("Constant", "", "k", value=value, name="liar"), node("Reshape", "c k", "y")]
    refused(tmp_path, model(nodes, W), "node 'liar'")
    proto = model([CONV], W)
    proto.graph.initializer[0].raw_data = b"abc"
    refused(tmp_path, proto, "3 bytes for (4, 3, 1, 1)")


def external(tensor: onnx.TensorProto, location: str) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)


def test_external_data_is_never_opened(tmp_path: Path) -> None:
    """A pipe that nobody writes to would block whoever opens it."""
    os.mkfifo(tmp_path / "data.bin")
    proto = model([CONV, node("Reshape", "c shape", "y")], W)
    shape = TensorProto(name="shape", data_type=TensorProto.INT64, dims=[2])
    external(proto.graph.initializer[0], "data.bin")
    external(shape, "data.bin")
    proto.graph.initializer.append(shape)
    network = load_network(save(tmp_path, proto))
    assert network.layers[0].weights == 12
    assert "the shape of what Reshape makes is unknown" in network.notes[0]


@pytest.mark.parametrize("branched", [False, True])
def test_functions_that_call_themselves_or_explode(branched: bool, tmp_path: Path) -> None:
    proto = model([CONV, node("F0", "c", "y", domain="strange")], W)
    opset = [helper.make_opsetid("", 21), helper.make_opsetid("strange", 1)]

    def function(name: str, *calls: str) -> onnx.FunctionProto:
        body, last = [], "a"
        for i, call in enumerate(calls):
            domain = "strange" if call.startswith("F") else ""
            body.append(helper.make_node(call, [last], [f"t{i}"], domain=domain))
            last = f"t{i}"
        if branched:
            out = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
            branch = helper.make_graph(body, "branch", [], [out])
            truth = helper.make_tensor("v", TensorProto.BOOL, [], [True])
            body = [helper.make_node("Constant", [], ["truth"], value=truth)]
            branches = {"then_branch": branch, "else_branch": branch}
            body.append(helper.make_node("If", ["truth"], ["either"], **branches))
            last = "either"
        body.append(helper.make_node("Identity", [last], ["b"]))
        return helper.make_function("strange", name, ["a"], ["b"], body, opset)

    itself = onnx.ModelProto()
    itself.CopyFrom(proto)
    itself.functions.append(function("F0", "F0"))
    refused(tmp_path, itself, "function 'F0' calls itself")
    bomb = onnx.ModelProto()
    bomb.CopyFrom(proto)
    bomb.functions.extend(function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(40))
    bomb.functions.append(function("F40", "Relu"))
    refused(tmp_path, bomb, "nodes with functions inlined")
    proto.functions.append(function("F0", "Relu", "Sigmoid"))
    kinds = [layer.operator or layer.kind for layer in load_network(save(tmp_path, proto)).layers]
    assert branched or kinds == ["conv", "relu", "sigmoid"]


def test_more_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relus = [node("Relu", f"c{i}" if i else "c", f"c{i + 1}") for i in range(20_000)]
    refused(tmp_path, model([CONV, *relus], W), "20001 nodes; at most 20000 are read")
    monkeypatch.setattr(file, "MOST_BYTES", 100)
    refused(tmp_path, model([CONV], W), "larger than 2 GiB")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Conv", "x", "y", name="n")], "node 'n'"),
        ([node("Conv", "x w", "y", name="n", strides=[0, 0])], "node 'n'"),
        ([node("Conv", "x w", "y", name="n", group=3)], "node 'n'"),
        ([node("Gemm", "x w", "y", name="n")], "node 'n': its shapes do not fit"),
        ([node("MatMul", "x w", "y", name="n")], "node 'n': its shapes do not fit"),
        ([node("Transpose", "x", "y", name="n", perm=[9, 9])], "node 'n': its shapes do not fit"),
        ([node("Einsum", "x w", "y", name="n", equation="zz->")], "node 'n'"),
        ([node("Gather", "x w", "y", name="n", axis=77)], "node 'n'"),
        ([node("Relu", "x", "y", name="n")], "no weighted layer"),
        ([node("Relu", "x", "-", name="n")], "node 'n'"),
    ],
)
def test_nodes_that_do_not_fit(tmp_path: Path, nodes: list[Any], words: str) -> None:
    path = save(tmp_path, model(nodes, W))
    with pytest.raises(NetworkError) as caught:
        load_network(path)
    assert words in str(caught.value)


def test_inputs_that_say_nothing(tmp_path: Path) -> None:
    proto = model([CONV], W)
    del proto.graph.input[:]
    refused(tmp_path, proto, "the graph has no input")


def test_a_model_with_control_flow_keeps_it_as_one_operator(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("Relu", ["c"], ["r"])],
        "then",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, ["batch", 4, 8, 8])],
    )
    flag = TensorProto(name="flag", data_type=TensorProto.BOOL, dims=[], raw_data=b"\x01")
    nodes = [CONV, node("If", "flag", "y", name="choice", then_branch=inner, else_branch=inner)]
    proto = model(nodes, W)
    proto.graph.initializer.append(flag)
    network = load_network(save(tmp_path, proto))
    assert network.layers[-1].inputs == (network.layers[0].name,)  # read inside the branches
    assert "operator If is not understood" in network.notes[-1]


def test_old_files_list_their_weights_as_inputs(tmp_path: Path) -> None:
    proto = model([CONV], W)
    info = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3, 1, 1])
    proto.graph.input.append(info)
    assert load_network(save(tmp_path, proto)) == read(tmp_path, [CONV], W)

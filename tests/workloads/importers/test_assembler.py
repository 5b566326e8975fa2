"""Views, joins and operators of models in neutral terms: what is a layer, and what vanishes."""

import time

import pytest

from tests.workloads.importers.models import layers, network, op, trained
from workloads import NetworkError, Tensor, partition_graph
from workloads.importers.network import VERBS
from workloads.importers.neutral import Constant, ModelOperation, printable

STEM = op("conv", "x w", (1, 4, 8, 8), "stem")
SIDE = op("conv", "x u", (1, 4, 8, 8), "side")
W = trained(w=(4, 3, 1, 1), u=(4, 3, 1, 1))


def test_every_verb_that_the_readers_may_use_is_translated() -> None:
    documented = {
        *("conv", "matmul", "einsum", "attention", "experts", "lstm", "gru"),
        *("embedding", "embedding_bag", "index"),
        *("max_pool", "avg_pool", "mean", "batch_norm", "relu", "softmax"),
        *("add", "mul", "concat", "reshape", "expand", "slice", "transpose", "select", "other"),
    }
    assert VERBS.keys() == documented


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        (op("reshape", "stem", (1, 4, 64), "v"), Tensor(4, 64)),
        (op("transpose", "stem", (1, 8, 8, 4), "v", perm=(0, 2, 3, 1)), Tensor(4, 8, 8)),
        (op("slice", "stem", (1, 2, 8, 4), "v"), Tensor(2, 8, 4)),
        (op("select", "stem", (1, 4, 8), "v", axis=-1), Tensor(4, 8)),
        (op("select", "stem", (4, 8, 8), "v", axis=0), Tensor(4, 8, 8)),
        (op("expand", "stem", (1, 4, 8, 8), "v"), Tensor(4, 8, 8)),
    ],
)
def test_views_are_no_layers_and_keep_what_dimensions_mean(
    view: ModelOperation, seen: Tensor
) -> None:
    found = layers(
        STEM,
        view,
        op("relu", "v", view.output, "r"),
        constants=W,
    )
    assert list(found) == ["stem", "r"]
    assert (found["r"].inputs, found["r"].input) == (("stem",), seen)


@pytest.mark.parametrize(
    ("operator", "shape"),
    [
        (op("relu", "e", (2, 5, 4, 8), "o"), Tensor(4, 5, 8)),
        (op("other", "e", (2, 5, 4, 8), "o"), Tensor(4, 5, 8)),
        (op("add", "e e", (2, 5, 4, 8), "o"), Tensor(4, 5, 8)),
        (op("other", "e f", (2, 20, 4, 30), "o"), Tensor(4, 20, 30)),  # as a sampled grid
    ],
)
def test_what_an_operator_writes_is_no_repetition(operator: ModelOperation, shape: Tensor) -> None:
    """Although it reads one row repeated, which itself costs nothing."""
    found = layers(
        op("matmul", "x w", (2, 8, 4), "f"),
        op("transpose", "f", (2, 4, 8), "t", perm=(0, 2, 1)),
        op("reshape", "t", (2, 1, 4, 8), "u"),
        op("expand", "u", (2, 5, 4, 8), "e"),
        operator,
        constants=trained(w=(4, 4)),
        x=(2, 8, 4),
        batch=2,
    )
    assert list(found) == ["f", "o"]
    assert (found["o"].input, found["o"].output) == (Tensor(4, 8), shape)


def test_a_map_seen_as_a_vector_is_flattened_once() -> None:
    found = layers(
        STEM,
        op("reshape", "stem", (1, 256), "flat"),
        op("reshape", "flat", (1, 256), "again"),
        op("matmul", "again v", (1, 5), "f"),
        constants=W | trained(v=(256, 5)),
    )
    assert [layer.kind for layer in found.values()] == ["conv", "flatten", "fc"]
    assert found["flat"].output == Tensor(256)


def test_every_output_of_a_split_is_a_view() -> None:
    found = layers(
        STEM,
        op("slice", "stem", {"one": (1, 1, 8, 8), "rest": (1, 3, 8, 8)}, "split"),
        op("relu", "one", (1, 1, 8, 8), "a"),
        op("relu", "rest", (1, 3, 8, 8), "b"),
        constants=W,
    )
    assert (found["a"].input, found["b"].input) == (Tensor(1, 8, 8), Tensor(3, 8, 8))
    assert found["a"].inputs == found["b"].inputs == ("stem",)


@pytest.mark.parametrize("verb", ["relu", "softmax", "batch_norm"])
def test_unary_operators_keep_shape_and_path(verb: str) -> None:
    extra = trained(scale=(4,), shift=(4,)) if verb == "batch_norm" else {}
    inputs = "stem scale shift" if extra else "stem"
    found = network(STEM, op(verb, inputs, (1, 4, 8, 8), "unary"), SIDE, constants=W | extra)
    layer = found.layers[1]
    assert (layer.kind, layer.input, layer.output) == (verb, Tensor(4, 8, 8), Tensor(4, 8, 8))
    assert layer.parameters == (8 if extra else 0)
    assert [node.name for node in partition_graph(found)] == ["stem", "side"]


@pytest.mark.parametrize(
    ("first", "second", "trained_"),
    [
        ("a b", "c d", (8, 8)),
        ("a b", "a b", (8, 0)),  # a module that is called twice
        ("- - m v", "a -", (0, 4)),  # without affine, and with scales alone
        ("long long2", "a b", (14, 8)),  # one for each position
    ],
)
def test_batch_norms_train_what_tensors_they_have(
    first: str, second: str, trained_: tuple[int, ...]
) -> None:
    shapes = dict.fromkeys("abcd", (4,)) | {"long": (7,), "long2": (7,)}
    constants = W | trained(**shapes) | {"m": Constant((4,)), "v": Constant((4,))}
    found = layers(
        STEM,
        op("batch_norm", f"stem {first}", (1, 4, 8, 8), "one"),
        op("batch_norm", f"one {second}", (1, 4, 8, 8), "two"),
        constants=constants,
    )
    assert [found[name].kind for name in ("one", "two")] == ["batch_norm"] * 2
    assert tuple(found[name].parameters for name in ("one", "two")) == trained_


@pytest.mark.parametrize("verb", ["add", "mul"])
def test_two_paths_meet_in_a_join(verb: str) -> None:
    found = network(STEM, SIDE, op(verb, "stem side", (1, 4, 8, 8), "j"), constants=W)
    join = found.layers[-1]
    assert (join.kind, join.inputs, join.output) == (verb, ("stem", "side"), Tensor(4, 8, 8))
    assert partition_graph(found)[-1].producers == (0, 1)


@pytest.mark.parametrize("verb", ["add", "mul", "concat"])
@pytest.mark.parametrize("inputs", ["stem x", "stem relu", "stem stem"])
def test_what_joins_no_paths_is_an_operator(verb: str, inputs: str) -> None:
    """The network's input, or one path with itself."""
    shape = (1, 8, 8, 8) if verb == "concat" else (1, 4, 8, 8)
    found = layers(
        STEM,
        op("relu", "stem", (1, 4, 8, 8), "relu"),
        op(verb, inputs, shape, "j", axis=1),
        constants=trained(w=(4, 4, 1, 1)),
        x=(1, 4, 8, 8),
    )
    assert (found["j"].kind, found["j"].operator) == ("other", verb)


@pytest.mark.parametrize(
    ("shapes", "output", "wanted"),
    [
        (((1, 4, 8, 8), (1, 4, 8, 8)), (1, 8, 8, 8), Tensor(8, 8, 8)),
        (((1, 4, 8, 8), (1, 4, 8, 8)), (1, 4, 16, 8), Tensor(4, 16, 8)),
    ],
)
def test_a_concatenation_is_along_any_axis(
    shapes: tuple[tuple[int, ...], ...], output: tuple[int, ...], wanted: Tensor
) -> None:
    found = layers(STEM, SIDE, op("concat", "stem side", output, "cat"), constants=W)
    assert (found["cat"].kind, found["cat"].output) == ("concat", wanted)
    assert found["cat"].operands == tuple(Tensor(*shape[1:]) for shape in shapes)


def test_broadcast_operands_fill_one_another() -> None:
    """A gate for each channel, spread over the map."""
    found = layers(
        STEM,
        op("mean", "stem", (1, 4, 1, 1), "mean", axes=(2, 3)),
        op("conv", "mean u", (1, 4, 1, 1), "gate"),
        op("mul", "stem gate", (1, 4, 8, 8), "scaled"),
        constants=trained(w=(4, 3, 1, 1), u=(4, 4, 1, 1)),
    )
    scaled = found["scaled"]
    assert (scaled.kind, scaled.output) == ("mul", Tensor(4, 8, 8))
    assert scaled.operands == (Tensor(4, 8, 8), Tensor(4))


def test_operators_count_what_they_may_have_trained_once() -> None:
    found = layers(
        STEM,
        op("other", "stem scale", (1, 4, 8, 8), "a", operator="scale"),
        op("other", "a scale shift", (1, 4, 8, 8), "b", operator="shift"),
        constants=W | trained(scale=(4,), shift=(4,)),
    )
    assert (found["a"].extra, found["b"].extra) == (4, 4)


def test_operations_of_constants_alone_are_no_layers() -> None:
    """What they make stands for the parameters that it is made of."""
    found = network(
        op("transpose", "w", (6, 4), "turned", perm=(1, 0)),
        op("other", "turned -", {"cast": (6, 4)}, "cast"),
        op("matmul", "x cast", (1, 4), "f"),
        constants=trained(w=(4, 6)),
        x=(1, 6),
    )
    assert [layer.name for layer in found.layers] == ["f"]
    assert found.parameters == 24


def test_a_layer_is_named_after_its_weight_or_its_module() -> None:
    constants = {
        "w": Constant((4, 4), {"block.fc.weight": 16}),
        "v": Constant((4, 4), {"plain": 16}),
    }
    found = network(
        op("matmul", "x w", (1, 4), "node1"),
        op("matmul", "node1 v", (1, 4), "node2"),
        op("matmul", "node2 w", (1, 4), "node3", module="head"),
        constants=constants,
        x=(1, 4),
    )
    assert [layer.name for layer in found.layers] == ["block.fc", "node2", "head"]
    assert found.layers[2].shared == "block.fc"


def test_names_are_used_once_and_no_longer_than_people_read() -> None:
    long = "n" * 500
    found = network(
        STEM,
        op("relu", "stem", {"a": (1, 4, 8, 8)}, "same"),
        op("relu", "a", {"b": (1, 4, 8, 8)}, "same"),
        op("relu", "b", {"c": (1, 4, 8, 8)}, "same"),
        op("relu", "c", {"d": (1, 4, 8, 8)}, long),
        op("relu", "d", {"e": (1, 4, 8, 8)}, "input"),
        constants=W,
    )
    names = [layer.name for layer in found.layers]
    assert names == ["stem", "same", "same_2", "same_3", "n" * 120, "input_2"]


def test_what_is_not_understood_is_kept_with_a_note() -> None:
    found = network(STEM, op("other", "stem", (1, 4, 8, 8), "riddle", note="a riddle"), constants=W)
    assert found.notes == ("riddle: a riddle; counted as memory traffic",)
    assert found.layers[-1].kind == "other"


def test_channels_may_be_moved_by_an_operator_that_says_so() -> None:
    found = layers(
        STEM,
        op("other", "stem", (1, 8, 4, 8), "turn", operator="turn", channel_axis=2),
        op("relu", "turn", (1, 8, 4, 8), "r"),
        constants=W,
    )
    assert found["r"].input == Tensor(4, 8, 8)


@pytest.mark.parametrize(
    ("x", "verb", "seen"),
    [
        ((2, 3, 8, 8), "conv", Tensor(3, 8, 8)),
        ((2, 9, 3), "matmul", Tensor(3, 9)),
        ((2, 3), "matmul", Tensor(3)),
        ((3, 3), "matmul", Tensor(3, 3)),
    ],
)
def test_an_input_has_samples_first_and_channels_where_its_reader_wants_them(
    x: tuple[int, ...], verb: str, seen: Tensor
) -> None:
    """Channels first for windows, last else; a first dimension of another size is positions."""
    y = (2, 4, 8, 8) if verb == "conv" else (*x[:-1], 4)
    w = (4, 3, 1, 1) if verb == "conv" else (3, 4)
    found = network(op(verb, "x w", y, "f"), constants=trained(w=w), x=x, batch=2)
    assert found.input == seen


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        (
            (STEM, op("reshape", "stem", (1, 4, 63), "v")),
            "(1, 4, 8, 8) cannot be seen as (1, 4, 63)",
        ),
        ((STEM, op("transpose", "stem", (1, 4), "v")), "malformed (KeyError: 'perm')"),
        ((STEM, op("nonsense", "stem", (1, 4), "v")), "malformed (KeyError: 'nonsense')"),
        ((op("relu", "w x", (1, 3), "r"),), "input 0 must be computed, not a constant"),
        ((op("relu", "x", (1, 3, 8, 8), "r"),), "no weighted layer (conv, fc or the like)"),
        ((op("other", "x", (1, 3), "r", note="a riddle"),), "(r: a riddle; counted as memory"),
    ],
)
def test_what_does_not_fit(operations: tuple[object, ...], words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        network(*operations, constants=W)  # type: ignore[arg-type]
    assert str(caught.value).startswith("mine.file")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shown"), [("plain", "plain"), ("a\nb\x1b[2J", r"a\nb\x1b[2J"), ("ü", "ü"), ("", "")]
)
def test_names_that_would_steer_a_terminal(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.parametrize(
    ("ids", "macs"),
    [((2, 4), 3 * 5), ((4, 2), 3 * 5), ((1, 4), 4 * 3 * 5)],
)
def test_ids_by_table_have_their_samples_behind(ids: tuple[int, ...], macs: int) -> None:
    """Tables in front, or one row of positions that every sample shares."""
    found = network(
        op("select", "ids", ids[1:] if ids[0] == 4 else (4,), "row", axis=0)
        if ids != (2, 4)
        else op("select", "ids", (2,), "row", axis=1),
        op("embedding", "table row", ((2,) if 2 in ids else (4,)) + (5,), "words"),
        op("matmul", "words w", ((2,) if 2 in ids else (4,)) + (3,), "f"),
        constants=trained(table=(9, 5), w=(5, 3)),
        x=(2, 7),
        inputs={"ids": ids},
        batch=2,
        whole=frozenset({"ids"}),
    )
    assert (found.macs, found.notes) == (macs, ())


def test_to_take_one_sample_of_a_batch_is_noted() -> None:
    found = network(STEM, op("select", "stem", (4, 8, 8), axis=0), constants=W)
    assert found.notes == ()
    two = op("conv", "x w", (2, 4, 8, 8), "stem")
    found = network(
        two, op("select", "stem", (4, 8, 8), axis=0), constants=W, x=(2, 3, 8, 8), batch=2
    )
    assert "it takes one of 2 samples" in found.notes[0]


def test_what_is_summed_away_leaves_the_roles_of_the_rest() -> None:
    """The second of two samples, three rows and four features."""
    found = network(
        op("other", "x", (2, 4), "summed", axes=(1,), operator="sum"),
        op("matmul", "summed w", (2, 5), "f"),
        op("other", "x", (2, 3, 1), "most", axes=(-1,), operator="amax"),
        constants=trained(w=(4, 5)),
        x=(2, 3, 4),
        batch=2,
    )
    assert [layer.output for layer in found.layers] == [Tensor(4), Tensor(5), Tensor(1, 3)]
    assert found.macs == 20


@pytest.mark.parametrize(
    ("parts", "parameters"),
    [
        (("w0", "w1", "w2"), 3 * 16),  # three parts of a stack
        (("w0", "w1", "w0"), 2 * 16),  # one of them twice
        (("w0", "w1", "w2", "again"), 3 * 16),  # there are no more than three
    ],
)
def test_parts_of_a_parameter_are_matrices_of_their_own(
    parts: tuple[str, ...], parameters: int
) -> None:
    chain = [("x", "y0"), ("y0", "y1"), ("y1", "y2"), ("y2", "y3")]
    found = network(
        *(op("select", "stack", (4, 4), one, axis=0) for one in dict.fromkeys(parts)),
        *(
            op("matmul", f"{source} {part}", (2, 4), made)
            for part, (source, made) in zip(parts, chain, strict=False)
        ),
        constants=trained(stack=(3, 4, 4)),
        x=(2, 4),
        batch=2,
    )
    assert found.weights == parameters
    assert found.macs == len(parts) * 16


def test_the_same_part_taken_twice_is_one_matrix() -> None:
    """Once for each use, as a module does that is called again; a sum is no part."""
    found = network(
        op("select", "stack", (4, 4), "first", axis=0, part="0"),
        op("matmul", "x first", (2, 4), "y0"),
        op("select", "stack", (4, 4), "again", axis=0, part="0"),
        op("matmul", "y0 again", (2, 4), "y1"),
        constants=trained(stack=(3, 4, 4)),
        x=(2, 4),
        batch=2,
    )
    assert found.weights == 16
    found = network(
        op("add", "u v", (4, 4), "first"),
        op("matmul", "x first", (2, 4), "y0"),
        op("add", "u v", (4, 4), "again"),
        op("matmul", "y0 again", (2, 4), "y1"),
        constants=trained(u=(4, 4), v=(4, 4)),
        x=(2, 4),
        batch=2,
    )
    assert found.weights == 16


def test_all_that_a_matrix_is_made_of_is_trained() -> None:
    """A low rank added to it, used twice, and a scale of each row."""
    found = network(
        op("matmul", "a b", (6, 4), "ab"),
        op("add", "w ab", (6, 4), "adapted"),
        op("other", "v g", (4, 4), "normed", operator="weight_norm"),
        op("matmul", "x adapted", (2, 4), "f", transposed=(1,)),
        op("matmul", "x adapted", (2, 4), "again"),
        op("matmul", "f normed", (2, 4), "h"),
        constants=trained(w=(6, 4), a=(6, 2), b=(2, 4), v=(4, 4), g=(4, 1)),
        x=(2, 6),
        batch=2,
    )
    assert [layer.extra for layer in found.layers] == [12 + 8, 0, 4]
    assert found.parameters == 24 + 20 + 16 + 4
    assert found.notes == ("ab: a product of parameters alone is not counted, nor its gradients",)


def test_unequal_parts_meet_those_of_their_size_again() -> None:
    found = network(
        *(
            op("slice", "w", shape, name)
            for name, shape in (("q", (4, 4)), ("kv", (4, 8)), ("q2", (4, 4)), ("kv2", (4, 8)))
        ),
        op("matmul", "x q", (2, 4), "y0"),
        op("matmul", "y0 kv", (2, 8), "z0"),
        op("matmul", "y0 q2", (2, 4), "y1"),
        op("matmul", "y1 kv2", (2, 8), "z1"),
        constants=trained(w=(4, 12)),
        x=(2, 4),
        batch=2,
    )
    assert found.weights == 48
    assert [layer.shared for layer in found.layers] == ["", "", "y0", "z0"]


def test_many_layers_of_one_name_are_numbered_at_once() -> None:
    many = 20_000
    began = time.process_time()
    chain = [ModelOperation("r", "relu", ("x",), {"x": (1, 4)}, {})] * many
    found = network(*chain, op("matmul", "x w", (1, 4), "y"), x=(1, 4), constants=trained(w=(4, 4)))
    assert [layer.name for layer in found.layers][:3] == ["r", "r_2", "r_3"]
    assert found.layers[-2].name == f"r_{many}"
    assert time.process_time() - began < 15

"""Networks from torch modules; all but the first test need torch."""

import re
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.workloads import torch_counts
from tests.workloads.importers.onnx.test_file import FOLDER, PARAMETERS, nameless
from workloads import Network, NetworkError, Tensor, load_network, partition_graph
from workloads.importers import from_torch

FEW = ("alexnet", "resnet18", "mobilenet-v2", "gpt2", "llama3-8b", "gnmt")


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NetworkError, match=r"pip install '\.\[torch\]'"):
        from_torch(torch_counts.MODELS["lenet"], ())


@pytest.fixture(scope="module")
def torch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        torch = pytest.importorskip("torch")
        torch_counts.declare_operators()
        return torch


def module(name: str) -> tuple[Any, Any]:
    """A small model and what it reads."""
    from tests.workloads.torch_models.small import MODELS

    make, x = MODELS[name]
    return make().eval(), x


def counted(torch: Any, name: str) -> Network:
    """A model of the zoo as transformers, torchvision or plain torch have it, without weights."""

    def make() -> Any:
        model: Any = torch_counts.MODELS[name]()[0]
        if hasattr(model, "config"):
            model.config.use_cache = False
        return model.eval()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                _, shape = torch_counts.MODELS[name]()
        except ImportError as error:
            pytest.skip(f"needs {error.name or error}")
        kind = torch.long if len(shape) == 2 else torch.float
        return from_torch(make, torch.zeros(shape, dtype=kind))


def check_counts(network: Network, name: str) -> None:
    zoo = load_network(name)
    assert network.notes == ()
    assert network.weights == zoo.weights
    assert network.parameters == zoo.parameters
    assert network.macs == zoo.macs


@pytest.mark.parametrize(
    "name",
    [
        n
        if n in ("resnet18", "mobilenet-v2", "bert-base")
        else pytest.param(n, marks=pytest.mark.slow)
        for n in FEW
    ],
)
def test_models_of_the_libraries_are_the_zoos(torch: Any, name: str) -> None:
    network = counted(torch, name)
    check_counts(network, name)
    # of this process, in KiB; the weights of llama3-8b would be 32 GB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20
    kinds = [n.kind for n in partition_graph(network)]
    if name == "gnmt":  # its pairs of queries and keys are an add there
        return
    assert kinds == [n.kind for n in partition_graph(load_network(name))]


@pytest.mark.slow
@pytest.mark.parametrize("name", torch_counts.MODELS)
def test_every_model_of_the_libraries_counts_as_the_zoos(torch: Any, name: str) -> None:
    check_counts(counted(torch, name), name)


def test_the_zoos_resnet50(torch: Any) -> None:
    from tests.workloads.torch_models.resnet import ResNet50

    zoo = load_network("resnet50")
    network = from_torch(ResNet50(), torch.zeros(2, 3, 224, 224), "resnet50")
    assert nameless(network) == nameless(zoo)
    assert [layer.kind for layer in network.layers] == [layer.kind for layer in zoo.layers]
    assert network.parameters == zoo.parameters
    assert network.input == zoo.input
    assert {layer.name for layer in zoo.layers if layer.kind == "fc"} == {"fc"}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.usefixtures("torch")
def test_torch_and_onnx_give_one_network(name: str) -> None:
    """The files in tests/data/onnx are torch's exports of the same modules."""
    model, x = module(name)
    network = from_torch(model, x)
    file = load_network(str(FOLDER / f"{name}-symbolic.onnx"))
    assert nameless(network) == nameless(file)
    assert (network.weights, network.parameters) == (file.weights, file.parameters)
    assert network.parameters == sum(p.numel() for p in model.parameters())
    assert network.parameters == PARAMETERS[name]
    assert network.macs == file.macs


@pytest.mark.parametrize("name", ["conv", "mlp", "block", "einsum"])
@pytest.mark.usefixtures("torch")
def test_torchs_flop_counter_agrees(name: str) -> None:
    model, x = module(name)
    assert torch_counts.macs_of(model, x) == len(x) * from_torch(model, x).macs


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_fresh_export_is_read_as_the_stored_one(torch: Any, name: str, tmp_path: Path) -> None:
    model, x = module(name)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    path = tmp_path / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), path, dynamo=False, do_constant_folding=False)
    assert nameless(load_network(str(path))) == nameless(from_torch(model, x))


def test_the_batch_is_divided_out(torch: Any) -> None:
    model, _ = module("conv")
    networks = [from_torch(model, torch.zeros(n, 3, 32, 32)) for n in (1, 2, 5)]
    assert networks[0] == networks[1] == networks[2]


@pytest.mark.usefixtures("torch")
def test_layers_are_named_after_their_modules() -> None:
    network = from_torch(*module("block"))
    names = [layer.name for layer in network.layers if layer.weighted]
    assert names[:4] == ["embedding", "query", "key", "value"]
    assert network.layers[-1].shared == "embedding"


def test_the_documented_example_runs(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[4] / "docs" / "how-to" / "network.md"
    (code,) = re.findall(r"^python - <<'END'\n(.*?)^END$", page.read_text(), re.M | re.S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers")
        exec(compile(code, str(page), "exec"), {})  # noqa: S102  (our own docs)
    shown = capsys.readouterr().out.splitlines()
    assert shown == re.findall(r"^# prints (.*)$", code, re.M)
    assert torch


def test_torchs_own_attention(torch: Any) -> None:
    """Fused or not, with the heads folded into the batch or not: two products."""
    attention = torch.nn.MultiheadAttention(24, 3, batch_first=True)
    x = torch.zeros(2, 7, 24)
    for training in (True, False):
        attention.train(training)
        network = from_torch(attention, (x, x, x), "attention")
        products = [n for n in partition_graph(network) if n.kind == "matmul"]
        assert [n.groups for n in products] == [3, 3]
        assert network.parameters == sum(p.numel() for p in attention.parameters())
        assert network.macs == 7 * 24 * 4 * 24 + 2 * 7 * 7 * 24


@pytest.mark.parametrize("kind", ["linear", "conv", "lstm"])
def test_a_module_again_brings_its_bias_once(torch: Any, kind: str) -> None:
    made: dict[str, Any] = {
        "linear": lambda: (torch.nn.Linear(8, 8), (2, 8)),
        "conv": lambda: (torch.nn.Conv2d(4, 4, 3, padding=1), (2, 4, 5, 5)),
        "lstm": lambda: (torch.nn.LSTM(6, 6, batch_first=True), (2, 5, 6)),
    }
    inner, shape = made[kind]()

    class Again(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = self.inner(x)
                x = torch.relu(x[0] if isinstance(x, tuple) else x)
            return x

    again: Any = Again
    network = from_torch(again(), torch.zeros(*shape), "again")
    assert network.parameters == sum(p.numel() for p in inner.parameters())


@pytest.mark.parametrize(("kind", "notes"), [("autocast", 0), ("no_grad", 1)])
def test_blocks_are_read_like_what_is_around_them(torch: Any, kind: str, notes: int) -> None:
    def block() -> Any:
        return torch.no_grad() if kind == "no_grad" else torch.autocast("cpu", torch.bfloat16)

    class Blocks(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            with block():
                y = self.one(x)
                with torch.autocast("cpu", enabled=False):
                    y = torch.relu(y)
            return self.two(y.float())

    network = from_torch(Blocks(), torch.zeros(2, 16))
    assert [layer.name for layer in network.layers if layer.weighted] == ["one", "two"]
    assert network.macs == 16 * 16 + 16 * 4
    assert [("gradients go through no_grad" in note) for note in network.notes] == [True] * notes


def test_keywords_and_a_name(torch: Any) -> None:
    network = from_torch(torch.nn.Linear(3, 4), {"input": torch.zeros(5, 3)}, "tiny")
    assert network.name == "tiny"
    assert network.layers[0].output == Tensor(4)


def test_an_operator_that_is_not_understood_is_kept(torch: Any) -> None:
    with torch.library._scoped_library("accelarray_test", "DEF") as library:
        library.define("riddle(Tensor x) -> Tensor")
        library.impl("riddle", lambda x: x * 1, "CompositeExplicitAutograd")
        library._register_fake("riddle", torch.empty_like)

        class Odd(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.fc = torch.nn.Linear(3, 3)

            def forward(self, x: Any) -> Any:
                return torch.ops.accelarray_test.riddle(self.fc(x))

        network = from_torch(Odd(), torch.zeros(2, 3))
    assert network.layers[-1].operator == "riddle"
    assert "riddle.default is not understood; counted as memory traffic" in network.notes[0]


def test_what_cannot_be_traced_is_said(torch: Any) -> None:
    class Data(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            raise RuntimeError(f"no way to {tuple(x.shape)}")

    with pytest.raises(NetworkError, match=r"Data: torch.export cannot trace it: .*no way"):
        from_torch(Data(), torch.zeros(2, 3))
    with pytest.raises(NetworkError, match="no weighted layer"):
        from_torch(torch.nn.ReLU(), torch.zeros(2, 3))


def test_a_function_whose_module_looks_at_values(torch: Any) -> None:
    """Rates of dropped paths, which many vision models take from a tensor."""

    def built() -> Any:
        rate = torch.linspace(0, 0.1, 4)[1].item()
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(rate))

    with pytest.raises(NetworkError, match="weights lack: pass the module itself"):
        from_torch(built, torch.zeros(2, 3))
    assert from_torch(built(), torch.zeros(2, 3)).macs == 12


def test_nothing_weighted_because_nothing_was_understood(torch: Any) -> None:
    with pytest.raises(NetworkError, match=r"no weighted layer.*rnn_tanh.*not understood"):
        from_torch(torch.nn.RNN(8, 16, batch_first=True), (torch.randn(2, 5, 8),))

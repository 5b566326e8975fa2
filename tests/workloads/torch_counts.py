"""The zoo's networks counted by torch: parameters, matrices and multiply-accumulates.

``python -m tests.workloads.torch_counts > tests/data/torch_counts.csv`` counts
models of transformers, torchvision and plain torch on the meta device (no
weights), with torch's own FLOP counter. Attention is eager, or the counter
would miss fused kernels; on meta an LSTM is counted product by product.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

TABLES = re.compile(r"position_embeddings|token_type_embeddings|wpe|class_token|pos_embedding")
"""Parameters that are neither matrices of a product nor biases nor norms."""


def bert(layers: int, features: int, heads: int) -> tuple[Any, tuple[int, ...]]:
    transformers = import_module("transformers")

    config = transformers.BertConfig(
        num_hidden_layers=layers,
        hidden_size=features,
        num_attention_heads=heads,
        intermediate_size=4 * features,
        attn_implementation="eager",
    )
    return transformers.BertForPreTraining(config), (1, 512)


def gpt2(layers: int, features: int, heads: int) -> tuple[Any, tuple[int, ...]]:
    transformers = import_module("transformers")

    config = transformers.GPT2Config(
        n_layer=layers, n_embd=features, n_head=heads, attn_implementation="eager"
    )
    return transformers.GPT2LMHeadModel(config), (1, 1024)


def llama(
    vocabulary: int,
    hidden: int,
    key_heads: int,
    sequence: int,
    layers: int = 32,
    features: int = 4096,
) -> tuple[Any, tuple[int, ...]]:
    transformers = import_module("transformers")

    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=features,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=features // 128,
        num_key_value_heads=key_heads,
        max_position_embeddings=sequence,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config), (1, sequence)


def vision(name: str, side: int = 224, **options: Any) -> tuple[Any, tuple[int, ...]]:
    declare_operators()
    models = import_module("torchvision.models")
    return getattr(models, name)(**options), (1, 3, side, side)


def declare_operators() -> None:
    """Lets torchvision, and transformers, which imports it, load beside any build of torch.

    Torchvision's compiled operators fit one build only, and without their
    names it does not load; models need none of them.
    """
    torch = import_module("torch")
    try:
        import_module("torchvision")
    except ImportError:  # there is none
        return
    except RuntimeError:  # operator torchvision::nms does not exist
        text = _folder("torchvision").joinpath("_meta_registrations.py").read_text()
    else:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in sorted(set(re.findall(r'register_\w+\("(?:torchvision::)?(\w+)"\)', text))):
        library.define(f"{operator}(Tensor x) -> Tensor")
    _LIBRARIES.append(library)
    for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[module]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


_LIBRARIES: list[Any] = []
"""Kept, for an operator lives as long as its library."""


def lenet() -> tuple[Any, tuple[int, ...]]:
    nn = import_module("torch").nn

    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    ), (1, 1, 28, 28)


def alexnet() -> tuple[Any, tuple[int, ...]]:
    nn = import_module("torch").nn

    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4, 2),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, 1, 2),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, 1, 1),
        nn.Conv2d(384, 384, 3, 1, 1),
        nn.Conv2d(384, 256, 3, 1, 1),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(9216, 4096),
        nn.Linear(4096, 4096),
        nn.Linear(4096, 1000),
    ), (1, 3, 224, 224)


def gnmt() -> tuple[Any, tuple[int, ...]]:
    """MLPerf Training's reference (rnn_translator), written again from its layer sizes."""
    torch = import_module("torch")
    nn = torch.nn

    module: Any = nn.Module
    hidden, vocabulary, layers = 1024, 32_320, 4

    class Translator(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            stack = partial(nn.LSTM, batch_first=True)
            self.embedding = nn.Embedding(vocabulary, hidden)
            self.encoder = nn.ModuleList(
                [stack(hidden, hidden, bidirectional=True), stack(2 * hidden, hidden)]
                + [stack(hidden, hidden) for _ in range(layers - 2)]
            )
            self.decoder = nn.ModuleList(
                [stack(hidden, hidden)] + [stack(2 * hidden, hidden) for _ in range(layers - 1)]
            )
            self.query = nn.Linear(hidden, hidden, bias=False)
            self.key = nn.Linear(hidden, hidden, bias=False)
            self.score = nn.Linear(hidden, 1, bias=False)
            self.normalise_bias = nn.Parameter(torch.empty(hidden))
            self.normalise_scale = nn.Parameter(torch.empty(1))
            self.classifier = nn.Linear(hidden, vocabulary)

        def forward(self, tokens: Any) -> Any:
            source = self.embedding(tokens)
            for i, layer in enumerate(self.encoder):
                new, _ = layer(source)
                source = new + source if i >= 2 else new
            x, _ = self.decoder[0](self.embedding(tokens))
            pairs = self.query(x)[:, :, None, :] + self.key(source)[:, None, :, :]
            pairs = (pairs + self.normalise_bias).tanh() * self.normalise_scale
            context = self.score(pairs).squeeze(-1).softmax(-1) @ source
            for i, layer in enumerate(list(self.decoder)[1:], 1):
                new, _ = layer(torch.cat([x, context], -1))
                x = new + x if i >= 2 else new
            return self.classifier(x)

    return Translator(), (1, 50)


MODELS: dict[str, Callable[[], tuple[Any, tuple[int, ...]]]] = {
    "lenet": lenet,
    "alexnet": alexnet,
    **{f"vgg{depth}": partial(vision, f"vgg{depth}") for depth in (11, 13, 16, 19)},
    **{f"resnet{depth}": partial(vision, f"resnet{depth}") for depth in (18, 34, 50)},
    "inception-v3": partial(vision, "inception_v3", 299, aux_logits=False, init_weights=False),
    "densenet121": partial(vision, "densenet121"),
    "mobilenet-v2": partial(vision, "mobilenet_v2"),
    "vit-b16": partial(vision, "vit_b_16"),
    "bert-base": partial(bert, 12, 768, 12),
    "bert-large": partial(bert, 24, 1024, 16),
    "gpt2": partial(gpt2, 12, 768, 12),
    "gpt2-medium": partial(gpt2, 24, 1024, 16),
    "gpt2-large": partial(gpt2, 36, 1280, 20),
    "gpt2-xl": partial(gpt2, 48, 1600, 25),
    "llama-7b": partial(llama, 32_000, 11_008, 32, 2048),
    "llama3-8b": partial(llama, 128_256, 14_336, 8, 8192),
    "llama3-405b": partial(llama, 128_256, 53_248, 8, 8192, 126, 16_384),
    "gnmt": gnmt,
}


def count(name: str) -> tuple[int, int, int]:
    """Parameters, elements of matrices, and forward multiply-accumulates of one sample."""
    torch = import_module("torch")
    with torch.device("meta"):
        model, shape = MODELS[name]()
        tokens = len(shape) == 2
        example = torch.zeros(shape, dtype=torch.long if tokens else torch.float)
    model.eval()
    macs = macs_of(model, example)
    parameters = dict(model.named_parameters())
    matrices = [p for n, p in parameters.items() if p.dim() > 1 and not TABLES.search(n)]
    return sum(p.numel() for p in parameters.values()), sum(p.numel() for p in matrices), macs


def macs_of(model: Any, *inputs: Any) -> int:
    """What torch's FLOP counter sees of a forward pass that is really run.

    Without the angles of rotary positions: a product of positions and frequencies there.
    """
    torch = import_module("torch")
    counter = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(*inputs)
    by_module = counter.get_flop_counts().items()
    angles = sum(sum(flops.values()) for name, flops in by_module if name.endswith(".rotary_emb"))
    return int(counter.get_total_flops() - angles) // 2


if __name__ == "__main__":
    print("network,parameters,weights,macs")
    for network in MODELS:
        print(network, *count(network), sep=",", flush=True)

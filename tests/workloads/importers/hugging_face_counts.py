"""Published models counted by transformers on the meta device, and small ones run on the CPU.

``python -m tests.workloads.importers.hugging_face_counts`` prints the rows of
``tests/data/hugging_face/parameters.csv``.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.workloads.torch_counts import declare_operators, macs_of

FOLDER = Path(__file__).parents[2] / "data" / "hugging_face"
CONFIGS: dict[str, dict[str, Any]] = json.loads((FOLDER / "configs.json").read_text())
"""The values of published models' config.json that size them, by name."""
CLASSES = {
    "bert": "BertForPreTraining",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
}


def model_of(config: dict[str, Any]) -> Any:
    """A model of transformers, on torch's present device."""
    declare_operators()
    transformers = import_module("transformers")
    mapping = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    kind = config["model_type"]
    made = mapping[kind](**{key: value for key, value in config.items() if key != "model_type"})
    made._attn_implementation = "eager"
    if kind in CLASSES:
        return getattr(transformers, CLASSES[kind])(made)
    return transformers.AutoModelForCausalLM.from_config(made, attn_implementation="eager")


def parameters(config: dict[str, Any]) -> int:
    """Of the whole, without making one of them."""
    with import_module("torch").device("meta"):
        return sum(p.numel() for p in model_of(config).parameters())


def counted(config: dict[str, Any], tokens: int) -> tuple[int, int]:
    """Parameters and forward multiply-accumulates of a small model, run on the CPU."""
    torch = import_module("torch")
    model = model_of(config)
    if hasattr(model, "set_experts_implementation"):  # the counter knows no grouped kernels
        model.set_experts_implementation("eager")
    model.eval()
    ids = torch.zeros((1, tokens), dtype=torch.long)
    side = config.get("image_size", 1)
    inputs = {"vit": (torch.zeros((1, 3, side, side)),), "t5": (ids, None, ids)}
    macs = macs_of(model, *inputs.get(config["model_type"], (ids,)))
    return sum(p.numel() for p in model.parameters()), macs


if __name__ == "__main__":
    for name, config in CONFIGS.items():
        print(name, parameters(config), sep=",", flush=True)

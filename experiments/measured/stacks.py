"""Which software stack a row was measured with: by its framework, the first word that fits."""

from __future__ import annotations

from experiments.measured.rows import Row

OF_FRAMEWORK = (
    ("Megatron-LM 0.14", "megatron-lm-2025"),
    ("Megatron-DeepSpeed", "deepspeed-2022"),
    ("DeepSpeed", "deepspeed-2022"),
    ("Megatron-LM", "megatron-2021"),
    ("Megatron-Bridge", "megatron-2025"),
    ("Megatron-Core", "nemo-2024"),
    ("NeMo Megatron 23", "nemo-2024"),
    ("NeMo", "nemo-2024"),
    ("Composer", "composer-2023"),
    ("torchtitan", "torchtitan-2024"),
    ("metaseq", "composer-2023"),
    ("MaxText", "maxtext-2024"),
)
"""How frameworks begin, and the catalog's stack that stands for them."""
OTHERS = "megatron-2025"


def stack_of(row: Row) -> tuple[str, tuple[str, ...]]:
    """The catalog's stack of a row, and what is assumed where its framework is not known."""
    for begins, stack in OF_FRAMEWORK:
        if row.framework.startswith(begins):
            return stack, ()
    return OTHERS, (f"stack {OTHERS}",)

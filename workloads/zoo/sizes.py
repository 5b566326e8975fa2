"""Sizes of published transformers, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from workloads.zoo.transformers import Transformer

_GPT2 = partial(
    Transformer, vocab=50_257, seq=1024, table=1024, causal=True, source="Radford et al. 2019"
)
_MEGATRON = partial(Transformer, vocab=51_200, dropout=True, compiled=False)
"""Megatron-LM pads GPT-2's vocabulary of 50,257 to a multiple of 128 times tp, 51,200 with 8."""
_GPT3 = partial(_MEGATRON, table=2048, source="Brown et al. 2020, Table 2.1; vocabulary padded")
_SC21 = partial(_MEGATRON, source="Narayanan et al. 2021, Table 1")
_OPT = partial(
    Transformer,
    year=2022,
    vocab=50_272,
    table=2050,
    activation="relu",
    dropout=True,
    compiled=False,
    source="Zhang et al. 2022, Table 1",
)
"""Its table has two rows more than positions, for padding."""
_BLOOM = partial(
    Transformer,
    year=2022,
    vocab=250_880,
    positions="alibi",
    embedding_norm=True,
    compiled=False,
    source="BigScience 2022, Table 3",
)
_MPT = partial(
    Transformer,
    year=2023,
    vocab=50_368,
    positions="alibi",
    biases=False,
    compiled=False,
    source="MosaicML llm-foundry, scripts/train/benchmarking",
)
_LLAMA = partial(
    Transformer,
    year=2023,
    vocab=32_000,
    gated=True,
    norm="rms_norm",
    positions="rotary",
    activation="silu",
    biases=False,
    fused_qkv=False,
    tied=False,
    source="Touvron et al. 2023",
)
_LLAMA2 = partial(_LLAMA, seq=4096, source="Touvron et al. 2023b")
_LLAMA3 = partial(
    _LLAMA, year=2024, vocab=128_256, seq=8192, kv_heads=8, source="Grattafiori et al. 2024"
)
"""The Llama 3 paper's Table 3, with its vocabulary of 128,000 tokens and 256 special ones."""
_DEEPSEEK = partial(
    _LLAMA, year=2024, seq=4096, head_dim=128, q_rank=1536, kv_rank=512, rope_dim=64, source=""
)


_Rows = dict[str, tuple[int, int, int]]
"""Members of a family by the end of their names: layers, hidden features, heads."""
_GPT2_ROWS: _Rows = {
    "": (12, 768, 12),
    "-medium": (24, 1024, 16),
    "-large": (36, 1280, 20),
    "-xl": (48, 1600, 25),
}
_GPT3_ROWS: _Rows = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 16),
    "1.3b": (24, 2048, 16),
    "2.7b": (32, 2560, 32),
    "6.7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "175b": (96, 12_288, 96),
}
_SC21_ROWS: _Rows = {
    "1.7b": (24, 2304, 24),
    "3.6b": (30, 3072, 32),
    "7.5b": (36, 4096, 32),
    "18.4b": (40, 6144, 48),
    "39.1b": (48, 8192, 64),
    "76.1b": (60, 10_240, 80),
    "145.6b": (80, 12_288, 96),
    "310.1b": (96, 16_384, 128),
    "529.6b": (105, 20_480, 128),
    "1t": (128, 25_600, 160),
}
_BLOOM_ROWS: _Rows = {
    "560m": (24, 1024, 16),
    "1b1": (24, 1536, 16),
    "1b7": (24, 2048, 16),
    "3b": (30, 2560, 32),
    "7b1": (30, 4096, 32),
    "176b": (70, 14_336, 112),
}
_OPT_ROWS: _Rows = {
    "125m": (12, 768, 12),
    "1.3b": (24, 2048, 32),
    "2.7b": (32, 2560, 32),
    "6.7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "66b": (64, 9216, 72),
    "175b": (96, 12_288, 96),
}
_MPT_ROWS: _Rows = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}


_LLAMAS = (
    _LLAMA("llama-7b", 32, 4096, 32, ffn=11_008),
    _LLAMA3("llama3-8b", 32, 4096, 32, ffn=14_336),
    _LLAMA3("llama3-405b", 126, 16_384, 128, ffn=53_248),
    _LLAMA("llama-13b", 40, 5120, 40, ffn=13_824),
    _LLAMA("llama-33b", 60, 6656, 52, ffn=17_920),
    _LLAMA("llama-65b", 80, 8192, 64, ffn=22_016),
    _LLAMA2("llama2-7b", 32, 4096, 32, ffn=11_008),
    _LLAMA2("llama2-13b", 40, 5120, 40, ffn=13_824),
    _LLAMA2("llama2-70b", 80, 8192, 64, kv_heads=8, ffn=28_672),
    _LLAMA3("llama3-70b", 80, 8192, 64, ffn=28_672),
)
_EXPERTS = (
    _LLAMA(
        "mixtral-8x7b",
        32,
        4096,
        32,
        kv_heads=8,
        ffn=14_336,
        experts=8,
        seq=4096,
        source="Jiang et al. 2024, Table 1",
    ),
    _LLAMA(
        "grok-1",
        64,
        6144,
        48,
        kv_heads=8,
        vocab=131_072,
        ffn=32_768,
        experts=8,
        seq=8192,
        tied=True,
        activation="gelu",
        source="xai-org/grok-1 2024, run.py",
    ),
    _DEEPSEEK(
        "deepseek-v2",
        60,
        5120,
        128,
        vocab=102_400,
        ffn=12_288,
        experts=160,
        topk=6,
        moe_ffn=1536,
        shared_ffn=3072,
        dense_layers=1,
        source="DeepSeek-AI 2024, section 3.1.2",
    ),
    _DEEPSEEK(
        "deepseek-v3",
        61,
        7168,
        128,
        vocab=129_280,
        ffn=18_432,
        experts=256,
        topk=8,
        moe_ffn=2048,
        shared_ffn=2048,
        dense_layers=3,
        source="DeepSeek-AI 2024b, section 4.2; without the second token's module",
    ),
)


def _family(make: partial[Transformer], stem: str, rows: _Rows) -> Iterator[Transformer]:
    for size, (layers, hidden, heads) in rows.items():
        yield make(f"{stem}{size}", layers, hidden, heads)


_ALL = (
    *_family(_GPT2, "gpt2", _GPT2_ROWS),
    *_LLAMAS,
    *_family(_GPT3, "gpt3-", _GPT3_ROWS),
    *_family(_SC21, "megatron-", _SC21_ROWS),
    replace(_SC21("megatron-22b", 48, 6144, 64), source="Korthikanti et al. 2022, Table 3"),
    replace(_SC21("mt-nlg-530b", 105, 20_480, 128), source="Smith et al. 2022"),
    *_family(_BLOOM, "bloom-", _BLOOM_ROWS),
    *_family(_OPT, "opt-", _OPT_ROWS),
    *_family(_MPT, "mpt-", _MPT_ROWS),
    *_EXPERTS,
)
SIZES: dict[str, Transformer] = {of.name: of for of in _ALL}
"""Every published size by name; those that the zoo had first come first."""

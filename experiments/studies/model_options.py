"""Options of the deployed execution model, as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.output import UsageError
from hardware import in_bytes, parse_quantity
from simulator import ALGORITHMS, Execution

MODEL_OPTIONS = ("overlap", "shards", "bucket", "algorithm")
CHOICES = {
    "overlap": ("full", "none"),
    "shards": ("whole", "exact"),
    "algorithm": ("auto", *ALGORITHMS),
}


def with_options(execution: Execution, options: Mapping[str, str]) -> Execution:
    """An execution model with options changed; raises UsageError for what makes no sense."""
    for name, text in options.items():
        if execution.model == "published":
            raise UsageError(f"{name}={text} has no meaning under the published execution model")
        if name == "bucket":
            execution = replace(execution, bucket_bytes=_bytes(text))
            continue
        if text not in CHOICES[name]:
            raise UsageError(f"{name}={text}: one of {', '.join(CHOICES[name])}")
        if name == "overlap":
            execution = replace(execution, overlap=text == "full")
        elif name == "shards":
            execution = replace(execution, whole_shards=text == "whole")
        else:
            execution = replace(execution, algorithm=text)
    return execution


def _bytes(text: str) -> float:
    """A size, or nothing at all: each gradient by itself."""
    if text.removesuffix("B").strip() in ("0", "0.0"):
        return 0.0
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"bucket={text}: {error}, or a whole number of bytes") from None

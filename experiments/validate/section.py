"""One part of what ``accelarray validate`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Section:
    """A comparison: a table and messages to read, and its keys of the JSON."""

    title: str
    rows: list[dict[str, Any]]
    messages: tuple[str, ...]
    data: dict[str, Any]

"""What goes wrong when a network is planned."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan cannot be made, read or used as asked."""

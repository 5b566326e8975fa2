"""Readers that turn files and modules into networks."""

from workloads.importers.torch.module import from_torch

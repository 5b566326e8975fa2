"""Specs that several tests write to files and change."""

POD = 'kind = "array"\n[[devices]]\ndevice = "tpu-v2"\ncount = 4\n'
TIERS = """
kind = "array"
[topology]
joins = "boards"
[[topology.levels]]
kind = "switch"
members = 4
bandwidth = "100 GB/s"
latency = "1 us"
efficiency = 0.5
half_size = "1 MB"
[[topology.levels]]
kind = "ring"
bandwidth = "10 GB/s"
[[devices]]
device = "tpu-v3"
count = 16
"""
CABLES = """
kind = "array"
[topology]
joins = "chips"
[[topology.levels]]
kind = "cables"
bandwidth = "25 GB/s"
cables = ["0-1"]
[[devices]]
device = "v100-32"
count = 4
"""
STACK = """
kind = "stack"
description = "ours"
framework = "Ours"
year = 2026
[efficiency]
products = 0.7
attention = 0.35
memory = 0.9
host = "5 us"
overhead = "1 us"
[chips.h100-sxm]
products = 0.63
fp8 = 0.665
[chips.a100-80]
attention = 0.2
[habits]
attention = "unfused"
gradients = "2 B"
gradients_fp16 = "4 B"
overlap = "none"
bucket = "40 MB"
hidden_tensor = 0.5
collectives = 0.5
gradient_buffer = true
gradient_copy = true
recompute = "needed"
update_order = "arrival"
[sources]
"efficiency.host" = "measured"
"""

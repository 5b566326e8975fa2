"""How long does one training step of this network take on that array of accelerators, and why?

    import accelarray

    step = accelarray.simulate("resnet50", planner="accpar", array="tpu-v3-8", batch=1024)
    step.plot()

The same forms go everywhere:

- a **network** is a name (``accelarray.networks()``; ``"gpt2:seq=128"``), the path of an ONNX or
  layer file, a ``Network``, or a PyTorch module with an example of its input, ``(module, example)``
- a **planner** is a name (``planners()``), any function with the signature of ``Planner``, or a
  plan that is made already (a ``Plan``, or what ``plan()`` returns)
- an **array** is a name (``arrays()``), the path of a TOML file, or an ``Array``; ``set`` changes
  values of its spec, as ``set={"network.bandwidth": "100 Gbit/s"}`` or ``set="devices.0.count=64"``
- an **execution** is "published" (the papers' model) or "deployed" (real wires, memory and
  schedules), or an ``Execution``; its options are keywords of every function: ``overlap`` "full"
  or "none", ``shards`` "whole" or "exact", ``bucket`` bytes or "25 MB", ``algorithm``,
  ``strict_memory``; and ``communication`` "printed" or "plotted"

Whatever makes no sense raises one of the errors below, all of them ValueErrors, with what would be
right; an unknown keyword is a TypeError. What else there is to know is an ``AccelarrayWarning``.
Results print short, show themselves in notebooks, and have ``summary()``, ``to_frame()``,
``plot()``, ``save(path)``, ``to_dict()`` and ``to_json()``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

"""What a plan does, whatever it expects of it: equal for plans that do the same."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from planners import Plan, Split, Update


def splits_of(plan: Plan) -> bytes:
    """What a plan does, whatever it expects of it.

    Equal for plans that split and update alike and in one order, with buckets of one size.
    """
    known: dict[int, bytes] = {}

    def digest(split: Split | None) -> bytes:
        if split is None:
            return b""
        if id(split) not in known:
            found = blake2b(digest_size=20)
            found.update(bytes(partition.type for partition in split.partitions))
            found.update(np.array([partition.share for partition in split.partitions]).tobytes())
            found.update(b"idle" if split.idle else b"")
            for half in split.halves:
                found.update(b"/" + digest(half))
            known[id(split)] = found.digest()
        return known[id(split)]

    updates = bytes(map([*Update].index, plan.updates))
    ordered = f"{plan.bucket_bytes!r} {plan.update_order}"
    return digest(plan.root) + updates + ordered.encode()

"""What every table of mistakes tries: something is refused, and the message says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refused(says: str, what: Callable[..., object], *args: Any, **options: Any) -> str:
    """Call it, see that it raises a ValueError (as all of our errors are); return the message."""
    with pytest.raises(ValueError, match=r"\S") as caught:
        what(*args, **options)
    assert says in str(caught.value)
    return str(caught.value)

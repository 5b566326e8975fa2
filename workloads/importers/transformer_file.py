"""Transformers from a few keys: of a small TOML file, or behind a known one's name.

kind = "transformer"
like = "llama3-8b"       # what is not said here is as there (none: as a GPT is)
name = "ours"
layers = 24
seq = 4096
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from workloads.network import Network
from workloads.tensors import NetworkError
from workloads.zoo.sizes import SIZES
from workloads.zoo.transformers import Transformer, transformer

KIND = "transformer"
MOST_LAYERS = 4096
LONGEST = 1 << 20
"""Most tokens in a sequence."""
LARGEST_FILE = 1 << 16
_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
KEYS: dict[str, type] = {field.name: _TYPES[str(field.type)] for field in fields(Transformer)}
"""Every key, and what its value is."""
_DERIVED = {"ffn": ("hidden",), "kv_heads": ("heads",), "head_dim": ("hidden", "heads")}
"""Sizes that follow others where they are not said."""


def read_transformer_file(path: str) -> Network:
    """The network that a TOML file describes; raises NetworkError with file, key and value."""
    try:
        raw = Path(path).read_bytes()
        if len(raw) > LARGEST_FILE:
            raise NetworkError(f"{path}: larger than {LARGEST_FILE >> 10} KiB")
        values = tomllib.loads(raw.decode())
    except OSError as error:
        raise NetworkError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, NetworkError):
            raise
        raise NetworkError(f"{path}: not TOML: {error}") from None
    if (kind := values.pop("kind", None)) != KIND:
        raise NetworkError(f'{path}: kind = {kind!r}: write kind = "{KIND}"')
    like = values.pop("like", "")
    if like and like not in SIZES:
        raise NetworkError(f"{path}: like = {like!r}: {_near(str(like), list(SIZES))}")
    values.setdefault("name", Path(path).stem)
    return transformer(described(path, SIZES[like] if like else None, values))


def described(where: str, like: Transformer | None, values: Mapping[str, Any]) -> Transformer:
    """A description by keys and values; what is missing is as in ``like``.

    Sizes that follow from others (``ffn`` is 4 ``hidden``) follow them again where these are
    given alone. Raises NetworkError that begins with ``where``.
    """
    checked = {key: _checked(where, key, value) for key, value in values.items()}
    found = {} if like is None else asdict(like) | {"source": f"like {like.name}"}
    if like is not None:
        for key, of in _DERIVED.items():
            usual = _usual(key, like)
            if getattr(like, key) == usual and any(name in checked for name in of):
                found[key] = 0
    missing = [k for k in ("layers", "hidden", "heads", "vocab") if k not in found | checked]
    if missing:
        raise NetworkError(
            f"{where}: {missing[0]} is missing; say it, or take over the others of a known one "
            '(like = "gpt3-175b")'
        )
    try:
        return Transformer(**(found | checked))
    except NetworkError as error:
        raise NetworkError(f"{where}: {error}") from None


def changed(where: str, like: Transformer, texts: list[str]) -> Transformer:
    """A known description with changes as text, ``["seq=4096", "layers=12"]``."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS:
            near = _near(key, list(KEYS))
            raise NetworkError(
                f"network {where!r}: expected seq=N with N within 1...{LONGEST}, or another "
                f"KEY=VALUE; {near}"
            )
        values[key] = sequence(where, text) if key == "seq" else _read(where, key, value)
    return described(f"network {where!r}", like, values)


def sequence(name: str, option: str) -> int:
    """The length in ``seq=N``; raises NetworkError."""
    key, _, text = option.partition("=")
    number = text.isascii() and text.isdigit() and len(text) < 12
    if key != "seq" or not number or not 0 < int(text) <= LONGEST:
        raise NetworkError(f"network {name!r}: expected seq=N with N within 1...{LONGEST}")
    return int(text)


def is_transformer_file(path: str) -> bool:
    """Whether a path is that of a TOML file of this kind, and not of a device or array."""
    if not path.endswith(".toml") or not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return f'kind = "{KIND}"' in file.read(LARGEST_FILE).decode(errors="replace")


def _usual(key: str, of: Transformer) -> int:
    usual = {"ffn": 4 * of.hidden, "kv_heads": of.heads, "head_dim": of.hidden // of.heads}
    return usual[key]


def _read(where: str, key: str, text: str) -> Any:
    """A value behind a name, which is written without quotes."""
    words = {"yes": True, "true": True, "no": False, "false": False}
    if KEYS[key] is bool and text.lower() in words:
        return words[text.lower()]
    if KEYS[key] is str:
        return text
    try:
        return KEYS[key](text) if len(text) < 16 and KEYS[key] is not bool else text
    except ValueError:
        raise NetworkError(f"network {where!r}: {key} = {text!r}: {_must(key)}") from None


def _checked(where: str, key: str, value: Any) -> Any:
    if key not in KEYS:
        raise NetworkError(f"{where}: {key}: unknown key; {_near(key, list(KEYS))}")
    wanted = KEYS[key]
    fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
    if wanted is float and type(value) is int:
        return float(value)
    if not fits:
        raise NetworkError(f"{where}: {key} = {value!r}: {_must(key)}")
    most = {"layers": MOST_LAYERS, "seq": LONGEST}.get(key, 1 << 31)
    if wanted is not str and value > most:
        raise NetworkError(f"{where}: {key} = {value}: at most {most:,}")
    return value


def _must(key: str) -> str:
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
    }
    return f"must be {words[KEYS[key]]}"


def _near(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"

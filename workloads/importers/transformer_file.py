"""Transformers from a few keys: of a small TOML file, or behind a known one's name.

kind = "transformer"
like = "llama3-8b"       # what is not said here is as there (none: as a GPT is)
name = "ours"
layers = 24
seq = 4096
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import create_model

from hardware.reader import Cells, Table, checked, hint, number, parse_toml, read_text, shown, whole
from workloads.network import Network
from workloads.tensors import NetworkError
from workloads.zoo.transformers import SIZES, Transformer, transformer

KIND = "transformer"
MOST_LAYERS = 4096
LONGEST = 1 << 20
"""Most tokens in a sequence."""
LARGEST_FILE = 1 << 16
_LIMITS = {"layers": MOST_LAYERS, "decoder_layers": MOST_LAYERS, "seq": LONGEST}
_NEEDED = ("layers", "hidden", "heads", "vocab")
_TYPES: dict[str, Any] = {
    "float": Annotated[float, number(0, 1 << 31)],
    "bool": bool,
    "bool | None": bool,
    "str": str,
}


def model_of(of: type, base: type[Table] = Table, least: int = 0) -> type[Table]:
    """What reads the fields of a description of sizes, none of which has to be there."""
    kinds = {
        field.name: _TYPES.get(
            str(field.type),
            Annotated[
                int, whole(max(least, field.name in _NEEDED), _LIMITS.get(field.name, 1 << 31))
            ],
        )
        for field in fields(of)
    }
    optional: dict[str, Any] = {key: (kind | None, None) for key, kind in kinds.items()}
    return create_model(f"_{of.__name__}", __base__=base, **optional)


_Keys, _Words = model_of(Transformer), model_of(Transformer, Cells)
"""A description, and the same behind a name, where values are texts."""
KEYS = tuple(_Keys.model_fields)
_DERIVED = {"ffn": ("hidden",), "kv_heads": ("heads",), "head_dim": ("hidden", "heads")}
"""Sizes that follow others where they are not said."""


def read_transformer_file(path: str) -> Network:
    """The network that a TOML file describes; raises NetworkError with file, key and value."""
    text = read_text(path, NetworkError, "a transformer", LARGEST_FILE)
    values = parse_toml(text, path, NetworkError)
    if (kind := values.pop("kind", None)) != KIND:
        raise NetworkError(f'{path}: kind = {shown(kind)}: write kind = "{KIND}"')
    like = values.pop("like", "")
    if like and (not isinstance(like, str) or like not in SIZES):
        raise NetworkError(f"{path}: like = {shown(like)}: {hint(like, SIZES)}")
    values.setdefault("name", Path(path).stem)
    return transformer(described(path, SIZES[like] if like else None, values))


def described(where: str, like: Transformer | None, values: Mapping[str, Any]) -> Transformer:
    """A description by keys and values; what is missing is as in ``like``.

    Sizes that follow from others (``ffn`` is 4 ``hidden``) follow them again where these are
    given alone. Raises NetworkError that begins with ``where``.
    """
    said = checked(_Keys, values, where, NetworkError).model_dump(exclude_unset=True)
    found = {} if like is None else asdict(like) | {"source": f"like {like.name}"}
    if like is not None:
        for key, of in _DERIVED.items():
            if getattr(like, key) == like.usual()[key] and any(name in said for name in of):
                found[key] = 0
    missing = [k for k in _NEEDED if k not in found | said]
    if missing:
        raise NetworkError(
            f"{where}: {missing[0]} is missing; say it, or take over the others of a known one "
            '(like = "gpt3-175b")'
        )
    try:
        return Transformer(**(found | said))
    except NetworkError as error:
        raise NetworkError(f"{where}: {error}") from None


def changed(where: str, like: Transformer | None, texts: list[str]) -> Transformer:
    """A known description with changes as text, ``["seq=4096", "layers=12"]``, or all of one."""
    values: dict[str, str | int] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS:
            raise NetworkError(
                f"network {where!r}: expected seq=N with N within 1...{LONGEST}, or another "
                f"KEY=VALUE; {hint(key, KEYS)}"
            )
        values[key] = sequence(where, text) if key == "seq" else value
    name = f"network {where!r}"
    words = checked(_Words, values, name, NetworkError)
    said = words.model_dump(exclude_unset=True)
    return described(name, like, said if like else {"name": KIND} | said)


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

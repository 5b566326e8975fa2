"""What users name by its place: an attribute of their module, or of their file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OURS = ("experiments", "hardware", "planners", "simulator", "workloads")


def installed(group: str) -> dict[str, EntryPoint]:
    """What other packages announce in a group of entry points, by name."""
    from importlib.metadata import entry_points  # a tenth of a command's start, seldom needed

    return {entry.name: entry for entry in entry_points(group=group)}


def place_of(name: str, group: str) -> str | None:
    """Where something is: a name that is a place itself, else as a package announces it."""
    if ":" in name:
        return name
    entry = installed(group).get(name)
    return entry.value if entry else None


def attribute_of(place: str) -> Any:
    """What is at ``module:attribute`` or ``folder/file.py:attribute``.

    Modules are looked for in the current folder too, and a file's imports beside it.
    Raises whatever the stranger's module raises.
    """
    module, _, path = place.rpartition(":")
    if module.endswith(".py"):
        found: Any = _file(os.path.abspath(module))
    else:
        with _looking_in(os.getcwd()):
            found = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def load_plugin(what: str, place: str, error: type[Exception], *, named: bool) -> Any:
    """The same; raises ``error``, which begins with ``what``, whatever goes wrong in the module.

    Where the user ``named`` the place, a package of ours that hides the user's is told.
    """
    if named and (remedy := of_ours(place)) is not None:
        raise error(f"{what}: {remedy}")
    try:
        return attribute_of(place)
    except (Exception, SystemExit) as wrong:
        why = f"{type(wrong).__name__}: {wrong}"
        raise error(f"{what} cannot be loaded: {why}") from wrong


def _file(path: str) -> ModuleType:
    """A file as a module, read once; its name is its path, so that it hides no other."""
    if path in sys.modules:
        return sys.modules[path]
    spec = spec_from_file_location(path, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    if not os.path.exists(path):
        raise FileNotFoundError(f"no file {path}")
    sys.modules[path] = module = module_from_spec(spec)
    try:
        with _looking_in(os.path.dirname(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        raise
    return module


@contextmanager
def _looking_in(folder: str) -> Iterator[None]:
    """Modules are looked for there too, after all other places."""
    added = folder not in sys.path and not (folder == os.getcwd() and "" in sys.path)
    if added:
        sys.path.append(folder)
    try:
        yield
    finally:
        if added:
            sys.path.remove(folder)


def of_ours(place: str) -> str | None:
    """How to name a user's own, where ``place`` is in a package of ours and lacks the attribute.

    Also where the user has a module of the package's name in the current folder.
    """
    module, _, path = place.rpartition(":")
    top = module.partition(".")[0]
    if module.endswith(".py") or top not in OURS:
        return None
    file = f"{module.replace('.', '/')}.py"
    theirs = os.path.abspath(file)
    if not os.path.exists(theirs) or theirs.startswith(_folder(top) + os.sep):
        try:
            attribute_of(place)
        except (ImportError, AttributeError):
            pass
        else:
            return None
    return (
        f"{top} is a package of accelarray ({_folder(top)}), not a module of yours; write your "
        f"file as ./{file}:{path}"
    )


def _folder(package: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), package)

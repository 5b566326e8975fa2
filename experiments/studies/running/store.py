"""Results that survive: one SQLite file, one row for every finished case."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.output import UsageError, finite
from experiments.version import version
from hardware.reader import Error, parse_json, shown
from simulator import MODEL_VERSION

APPLICATION = 0xACCE1
"""SQLite's application_id of our files."""
SCHEMA = 1
BUSY_S = 30.0
_CONDITION = """CAST(json_extract(inputs, '$."' || ? || '"') AS TEXT) = ?"""
_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    inputs TEXT NOT NULL,
    outputs TEXT NOT NULL,
    finished TEXT NOT NULL,
    version TEXT NOT NULL
)
"""


def digest(data: Any) -> str:
    """SHA-256 of canonical JSON: what results are kept by."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class StoreError(UsageError):
    """A store cannot be read or written; what was finished before is intact."""


class Store:
    """Finished cases by key. Several processes may use one file at once.

    Each ``put`` is one transaction, which a killed process does not lose (a power cut may). The
    journal is a write-ahead log: copy a store with ``sqlite3 FILE ".backup COPY"``, not by its
    file alone.
    ``read_only`` writes nothing, so that the file may lie where nothing can be written.
    """

    def __init__(self, path: str | Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = Path(path)
        if not create and not (self.path.exists() and self.path.stat().st_size):
            raise StoreError(f"{path}: there is no such store")
        with self._errors():
            self._db = self._reading() if read_only else self._connected("")
            try:
                if not read_only:
                    self._prepare()
                owner = self._one("PRAGMA application_id"), self._one("PRAGMA user_version")
                if owner != (APPLICATION, SCHEMA):
                    said = "an SQLite file, but not a store of this version"
                    raise StoreError(f"{self.path}: {said}")
                if not read_only:
                    self._patiently("PRAGMA journal_mode = WAL")
                    # without a wait for the disk: a killed process loses nothing
                    self._db.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                self._db.close()
                raise

    def _connected(self, how: str) -> sqlite3.Connection:
        place = f"{self.path.absolute().as_uri()}{how}"
        return sqlite3.connect(place, timeout=BUSY_S, isolation_level=None, uri=True)

    def _reading(self) -> sqlite3.Connection:
        """The file as it is; without its log where that is empty and none can be made.

        Not "mode=ro": such a connection leaves the log's files behind.
        """
        found = self._connected("?mode=rw")
        try:
            found.execute("PRAGMA query_only = 1")
            found.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:
            found.close()
            log = Path(f"{self.path}-wal")
            if log.exists() and log.stat().st_size:
                raise
            return self._connected("?mode=ro&immutable=1")
        return found

    def _prepare(self) -> None:
        """Make a new file a store; others may do the same right now."""
        self._patiently("BEGIN IMMEDIATE")  # one transaction: nobody writes between look and claim
        try:
            if self._one("SELECT count(*) FROM sqlite_master") == 0:
                self._db.execute(_TABLE)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
        finally:
            self._db.execute("COMMIT")

    def _one(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    def _patiently(self, statement: str) -> None:
        """Execute what may find a new file locked in spite of the timeout."""
        for attempt in range(100):
            try:
                self._db.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == 99:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        """A store is one also while it is empty."""
        return True

    def __len__(self) -> int:
        with self._errors():
            return self._one("SELECT count(*) FROM results")

    def put(self, key: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Keep a finished case; a key that is there already stays as it is."""
        row = (
            key,
            json.dumps(inputs | {"model": MODEL_VERSION}, sort_keys=True, allow_nan=False),
            json.dumps(outputs, allow_nan=False),
            datetime.now(UTC).isoformat(timespec="seconds"),
            version(),
        )
        with self._errors():
            self._db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?)", row)

    def get(
        self, keys: Iterable[str], check: Callable[[Any, str, Error], object]
    ) -> dict[str, dict[str, Any]]:
        """The outputs of those keys that are there, each checked."""
        query = "SELECT key, outputs FROM results WHERE key IN (SELECT value FROM json_each(?))"
        found: dict[str, dict[str, Any]] = {}
        with self._errors():
            for key, text in self._db.execute(query, (json.dumps(list(keys)),)):
                found[key] = _json(text, f"outputs of {key:.12}")
                check(found[key], f"outputs of {key:.12}", ValueError)
        return found

    def get_or_make(
        self, identity: Sequence[object], make: Callable[[], dict[str, Any]], **inputs: Any
    ) -> dict[str, Any]:
        """A row of a study, which ``identity`` and the model's version decide: kept, or made now.

        A number in it that is not finite is None, kept or not.
        ``inputs`` are names for people. Rows of all studies are unlike: a checksum says that one
        is as it was put here.
        """
        key = digest([MODEL_VERSION, *identity])

        def check(outputs: Any, where: str, error: Error) -> None:
            if not isinstance(outputs, dict) or outputs.get("sum") != _sum(key, outputs):
                raise error(f"{where}: the row is not as it was kept")

        if (found := self.get([key], check).get(key)) is None:
            found = {"row": finite(make())}
            about = {"study": str(identity[0]), **inputs}
            self.put(key, about, found | {"sum": _sum(key, found)})
        return dict(found["row"])

    def rows(self, **inputs: Any) -> list[dict[str, Any]]:
        """Results whose inputs equal those given, oldest first.

        Of each its key, inputs, outputs, when it was made, and by which version.
        """
        query = "SELECT key, inputs, outputs, finished, version FROM results"
        conditions, values = _conditions(inputs)
        with self._errors():
            rows = self._db.execute(f"{query}{conditions} ORDER BY rowid", values)
            return [
                {"key": key, **_table(key, about), **_flat(key, _table(key, outputs))}
                | {"finished": finished, "version": made_by}
                for key, about, outputs, finished, made_by in rows
            ]

    def input_names(self) -> list[str]:
        """The keys of all results' inputs, by which ``prune`` finds them."""
        query = "SELECT DISTINCT each.key FROM results, json_each(inputs) AS each ORDER BY 1"
        with self._errors():
            return [key for (key,) in self._db.execute(query)]

    def prune(self, **inputs: Any) -> int:
        """Delete results whose inputs equal all those given; returns how many."""
        if not inputs:
            raise StoreError("prune needs at least one condition, as network=lenet")
        conditions, values = _conditions(inputs)
        with self._errors():
            done = self._db.execute(f"DELETE FROM results{conditions}", values)  # noqa: S608
        return done.rowcount

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            said = str(error).rstrip(".")
            raise StoreError(f"{self.path}: {said}. {_remedy(said)}") from None
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(error, UsageError):
                raise
            remedy = "delete the row from the file, or use another store"
            raise StoreError(f"{self.path}: a damaged row: {error}; {remedy}") from None


def _conditions(inputs: dict[str, Any]) -> tuple[str, list[str]]:
    """Which rows have these inputs, in SQL, and its values."""
    conditions = " AND ".join([_CONDITION] * len(inputs))
    values = [str(part) for pair in inputs.items() for part in pair]
    return f" WHERE {conditions}" * bool(inputs), values


def _sum(key: str, outputs: dict[str, Any]) -> str:
    return digest([key, outputs.get("row")])


def _json(text: object, where: str) -> Any:
    if not isinstance(text, str):  # a column may hold anything
        raise ValueError(f"{where}: must be text")
    return parse_json(text, where, ValueError)


def _table(key: str, text: object) -> dict[str, Any]:
    found = _json(text, f"{key:.12}")
    if not isinstance(found, dict):
        raise ValueError(f"{key:.12}: {shown(found)}: must be a table")
    return found


def _flat(key: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """What is in a row of a study (``Store.get_or_make``), or outputs as they are; ValueError."""
    row = outputs.get("row")
    if "sum" in outputs and isinstance(row, dict):
        if outputs["sum"] != _sum(key, outputs):
            raise ValueError(f"{key:.12}: the row is not as it was kept")
        return row
    for name, value in outputs.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        wrong = name == "iteration_s" and value is not None and not (number and value > 0)
        if wrong or (number and not math.isfinite(value)):
            raise ValueError(f"outputs of {key:.12}: {name}: {shown(value)}")
    return outputs


INTACT = "Results stored before are intact."


def _remedy(message: str) -> str:
    if "full" in message:
        return f"{INTACT} Make room and run the same command again: it goes on where it stopped."
    if "unable to open" in message or "readonly" in message:
        return f"{INTACT} Is the folder there, and may you write to it?"
    if "not a database" in message:
        return "Choose another file for --store."
    if "malformed" in message:
        return "The file is damaged: move it away, or choose another one for --store."
    return f"{INTACT} Run the same command again: it goes on where it stopped."

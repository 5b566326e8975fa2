"""Workers of a running dask.distributed scheduler."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from experiments.studies.case import Case
from experiments.studies.running.cores import RunError, Spread, killed
from experiments.version import model
from hardware.reader import extra

CONNECT_S = 15.0
GRACE_S = 2.0
"""Longer than the time that dask is given, for it does not always keep to it."""
CHECK_S = 60.0
"""Workers import what a case needs within this time."""
FETCH_S = 2.0
SILENT_S = 30.0
"""How long a scheduler may take to say which workers it has."""
WORKERS_GONE_S = 20.0
"""How long a cluster may be without any worker before a sweep gives up."""


_CERTIFICATES = "name them in dask's configuration (distributed.comm.tls)"
REMEDIES = {
    "tls": f"{_CERTIFICATES}, or use tcp://",
    "wss": f"{_CERTIFICATES}, or use ws://",
    "ucx": "install distributed-ucxx, or use tcp://",
}
"""What a transport needs to work."""


@contextmanager
def on_cluster(address: str) -> Iterator[Spread]:
    """Calls on the workers of a scheduler; lost ones are made again by dask.

    A case that dask gives up, because its workers were killed (its ``allowed-failures``), is
    called once more, alone. Raises RunError for one that is killed again when all others are
    finished, and where there is no scheduler, none with workers, another accelarray, or when all
    of it is gone.
    """
    client = _connect(address)

    def spread(
        function: Callable[[Case], Any], cases: Mapping[Any, Case]
    ) -> Iterator[tuple[Any, Any]]:
        def submit(name: Any) -> Any:
            return client.submit(_called, model(), function, cases[name], pure=False)

        names = {submit(name): name for name in cases}
        lost, twice = list[Any](), list[Any]()
        for future, result in _gather(client, set(names), address, lost):
            yield names[future], result
        for future in lost:  # cases that waited on such a worker are lost with it
            names[again := submit(names[future])] = names[future]
            for _, result in _gather(client, {again}, address, twice):
                yield names[future], result
        if twice:
            how = "its workers were killed, and again with it alone"
            said = killed([cases[names[future]] for future in twice], how)
            raise RunError(f"--cluster {address}: {said}")

    try:
        _checked(client, address)
        yield spread
    except (CancelledError, OSError) as error:
        raise RunError(
            f"--cluster {address}: the scheduler is gone ({type(error).__name__}); finished cases "
            "are kept in --store. Run the same command again when it is back"
        ) from None
    finally:
        client.close(timeout=2)


def _called(ours: str, function: Callable[[Case], Any], case: Case) -> Any:
    """A case's result, on a worker, which may have come when others had been asked for theirs."""
    if model() != ours:
        raise RunError(f"it has {model()}, not {ours}: install the same version there")
    return function(case)


def _connect(address: str) -> Any:
    if not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d{1,5}", address):
        raise RunError(f"--cluster {address}: expected a scheduler's address, as tcp://host:8786")
    try:
        from distributed import Client
    except ImportError:
        raise RunError(f"--cluster needs dask: {extra('cluster')}") from None
    _quiet()
    _check_transport(address)

    connect: Callable[[], Any] = partial(Client, address, timeout=CONNECT_S, set_as_default=False)
    try:
        return within(CONNECT_S + GRACE_S, connect)
    except TimeoutError as error:
        said = str(error) or f"it accepts connections, but said nothing for {CONNECT_S:g} s"
        raise RunError(f"--cluster {address}: no scheduler answers there ({said})") from None
    except (OSError, ValueError) as error:
        raise RunError(f"--cluster {address}: no scheduler answers there ({error})") from None


def _check_transport(address: str) -> None:
    """Fail now where what an address calls for is not set up: dask would, but not at once."""
    from distributed.comm.registry import get_backend
    from distributed.security import Security

    scheme = address.partition(":")[0]
    try:
        get_backend(scheme).get_connector()  # type: ignore[no-untyped-call]
        encrypted = scheme in ("tls", "wss")
        if encrypted and Security().get_connection_args("client")["ssl_context"] is None:  # type: ignore[no-untyped-call]
            raise ValueError("there are no certificates")
    except Exception as error:  # whatever a transport that is not set up raises
        said = str(error).partition("\n")[0]
        raise RunError(
            f"--cluster {address}: {scheme}:// is not set up here ({said}); "
            f"{REMEDIES.get(scheme, 'use tcp://')}"
        ) from None


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What a function returns or raises, in a thread, for dask waits where nothing ends it.

    Raises TimeoutError when it takes longer; Ctrl-C is heard meanwhile.
    """
    future = Future[Any]()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(seconds)


def _quiet() -> None:
    """Dask logs what it loses with tracebacks; we say it ourselves, once."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    for name in (*names, "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _checked(client: Any, address: str) -> None:
    try:
        within(CHECK_S, partial(_check_imports, client, address))
    except TimeoutError:
        raise RunError(
            f"--cluster {address}: the scheduler or a worker does not answer within {CHECK_S:g} s"
        ) from None


def _check_imports(client: Any, address: str) -> None:
    """Fail now where the scheduler or a worker has no accelarray, or another model."""
    probe = import_module("accelarray")._probe  # imported there, it finds its packages
    ours = probe()
    if not client.scheduler_info(n_workers=-1)["workers"]:
        raise RunError(f"--cluster {address}: the scheduler has no workers")
    try:
        versions = {"the scheduler": client.run_on_scheduler(probe)}
        versions |= client.run(probe, on_error="return")
    except Exception as error:
        raise RunError(
            f"--cluster {address}: the scheduler cannot import accelarray ({error!r})"
        ) from None
    for place, version in versions.items():
        if version != ours:
            has = f"has {version}, not" if isinstance(version, str) else f"({version!r}) has not"
            raise RunError(
                f"--cluster {address}: {place} {has} {ours}; install the same version there"
            )


def _gather(
    client: Any, pending: set[Any], address: str, lost: list[Any]
) -> Iterator[tuple[Any, Any]]:
    """Futures with their results as they finish; those that are lost dask runs again.

    Those that it does not run again go to ``lost``.
    """
    from distributed import wait
    from distributed.scheduler import KilledWorker

    alone_since: float | None = None
    while pending:
        try:
            with client.as_current():
                done, pending = wait(  # type: ignore[no-untyped-call]
                    pending, timeout=2, return_when="FIRST_COMPLETED"
                )
        except TimeoutError:
            done = set()
        for future in done:
            try:
                if future.status == "lost":
                    raise TimeoutError
                yield future, _result(future, address)
            except TimeoutError:
                pending.add(future)
            except KilledWorker:
                lost.append(future)
        if _has_workers(client, address):
            alone_since = None
        elif alone_since is None:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > WORKERS_GONE_S:
            raise RunError(
                f"--cluster {address}: all workers are gone; finished cases are kept in --store. "
                "Start workers and run the same command again"
            )


def _has_workers(client: Any, address: str) -> bool:
    """Whether the scheduler has any; raises RunError where it does not answer."""
    try:
        return bool(within(SILENT_S, partial(client.scheduler_info, n_workers=-1))["workers"])
    except TimeoutError:
        raise RunError(
            f"--cluster {address}: the scheduler has not answered for {SILENT_S:g} s; finished "
            "cases are kept in --store. Run the same command again when it is back"
        ) from None


def _result(future: Any, address: str) -> Any:
    """A finished case's; raises TimeoutError where it was lost with its worker, or KilledWorker."""
    from distributed.scheduler import KilledWorker

    if future.status in ("finished", "pending"):
        return future.result(timeout=FETCH_S)
    error = future.exception(timeout=FETCH_S) if future.status == "error" else future.status
    if isinstance(error, KilledWorker):
        raise error
    raise RunError(
        f"--cluster {address}: a case failed on its worker ({error!r}); finished cases are kept"
    )

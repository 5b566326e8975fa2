"""Small clusters to train on, runs that are watched, and factors that hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hardware import Array, Device, Group, Topology
from simulator import DEPLOYED, Timeline
from simulator.asynchronous.cluster import Cluster, Setting
from simulator.asynchronous.graphs import Graph, load_graph
from simulator.asynchronous.registry import load_algorithm
from simulator.asynchronous.run import Run
from simulator.asynchronous.stragglers import Slowdowns
from simulator.asynchronous.waiting import Hang
from simulator.engine.resources import Done
from workloads import Network, load_network

PORT, LATENCY = 1e9, 2e-6


@lru_cache(maxsize=1)
def lenet() -> Network:
    return load_network("lenet")


def array(boards: int, chips: int = 1, port: float = PORT, latency: float = LATENCY) -> Array:
    """Boards of a few slow chips on a switch."""
    device = Device("slow", chips, 1, 1e12, 1e12, 1e11, port, network_latency_s=latency)
    return Array("boards", "", Group(((device, boards),)), topology=Topology("switch"))


def cluster(workers: int, spare: int = 0, servers: int = 0, port: float = PORT) -> Cluster:
    """Workers on boards of their own, and so many boards more."""
    where = array(workers + spare, port=port)
    return Cluster(Setting(lenet(), where, workers, 4, DEPLOYED), servers)


@dataclass(frozen=True)
class Factors:
    """Factors of each worker's iterations, over and over again."""

    rows: tuple[tuple[float, ...], ...]

    def __call__(self, worker: int) -> Callable[[int], float]:
        row = self.rows[worker % len(self.rows)]
        return lambda iteration: row[iteration % len(row)]


@dataclass
class Watched:
    """A run, its timeline, and whether it hangs.

    ``seen`` has everybody's iteration whenever one changed; ``ahead`` how far
    ahead of the last one each was that began to compute.
    """

    run: Run
    timeline: Timeline
    hang: Hang | None
    servers: int = 0
    seen: list[tuple[int, ...]] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)


class _Run(Run):
    def __init__(self, *args: object, **more: object) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.ahead: list[int] = []
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def step(self, worker: int, iteration: int, after: Sequence[Done] = ()) -> Done:
        self.ahead.append(iteration - min(self.at))
        return super().step(worker, iteration, after)

    def enter(self, worker: int, iteration: int) -> None:
        super().enter(worker, iteration)
        self.seen.append(tuple(self.at))


def watched(
    method: str,
    workers: int,
    iterations: int = 5,
    *,
    graph: Graph | str | None = None,
    slow: Slowdowns | None = None,
    seed: int = 0,
    spare: int = 0,
    options: dict[str, str] | None = None,
    everybody: bool = False,
    port: float = PORT,
) -> Watched:
    """Run a method; ``seen`` has everybody's iteration at every instant at which one changed."""
    way = load_algorithm(method, options or {})
    way.check(workers)
    if way.graph:
        graph = load_graph(graph or way.graph, workers) if not isinstance(graph, Graph) else graph
    where = cluster(workers, spare, way.servers, port)
    run = _Run(
        where,
        iterations,
        seed,
        slow,
        graph,
        everybody=everybody,
        keeps_history=True,
    )
    way.start(run)
    timeline, hang = run.run()
    return Watched(run, timeline, hang, way.servers, run.seen, run.ahead)


def one_slow(times: float, worker: int = 0) -> Slowdowns:
    rows = tuple((times,) if w == worker else (1.0,) for w in range(512))
    return Slowdowns((Factors(rows),))

"""What is asked of a run of many steps, and what is told of it, as JSON and as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.runner import Runner
from experiments.studies.runs.cost import HOUR_S, idle_watts, step_cost, step_energy
from experiments.studies.runs.spread import check_forms, check_varies, spread_fields, spread_rows
from experiments.terms import duration
from hardware import format_quantity, parse_quantity
from planners import Plan
from simulator.cost.number_bytes import number_bytes
from simulator.failures import MONTH_S, Failures, lasting, simulated

DAY_S = 24 * HOUR_S
LONGEST_S = 1e12
MONTHS, STEPS = 10, 50
NEAR = 0.01
"""A formula that is so near is not remarked on."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked of a run; without ``mtbf_s`` nothing of failures.

    ``repeats`` months with failures are simulated (None: MONTHS), and as many steps in which what
    ``spread`` names varies (None: STEPS).

    ``restart_s`` is without reading the checkpoint. Asynchronous checkpoints are copied to the
    host at ``copy_bytes_per_s`` by each device, which stops it, and written meanwhile.
    """

    tokens: float | None = None
    mtbf_s: float | None = None
    storage_bytes_per_s: float = 0.0
    asynchronous: bool = False
    every_s: float | None = None
    copy_bytes_per_s: float = 25e9
    restart_s: float = 600.0
    spares: int | None = None
    repair_s: float = DAY_S
    spread: tuple[str, ...] = ()
    repeats: int | None = None
    seed: int = 0


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    def read(flag: str, given: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
            raise UsageError(f"{flag} {given}: a whole number from {least} to {most:,}")
        return given

    return read


def _tokens(flag: str, given: Any) -> float:
    if isinstance(given, int | float) and 1 <= given <= 1e18:
        return float(given)
    raise UsageError(f"{flag} {given}: a number from 1 to 1e18")


def _quantity(unit: str, *, zero: bool = False) -> Callable[[str, Any], float]:
    def read(flag: str, given: Any) -> float:
        if zero and str(given).strip() == "0":
            return 0.0
        try:
            long = (LONGEST_S, "20 min") if unit == "s" else ()
            value = parse_quantity(given, unit, *long)
        except ValueError as error:
            raise UsageError(f"{flag} {given}: {error}") from None
        if not (value or zero):
            raise UsageError(f"{flag} {given}: must be above 0")
        return value

    return read


def _mode(flag: str, given: Any) -> bool:
    if given not in ("asynchronous", "blocking"):
        raise UsageError(f"{flag} {given}: one of asynchronous, blocking")
    return bool(given == "asynchronous")


OF_FAILURES = {
    "mtbf": ("mtbf_s", _quantity("s")),
    "storage_bandwidth": ("storage_bytes_per_s", _quantity("B/s")),
    "checkpoint": ("asynchronous", _mode),
    "checkpoint_every": ("every_s", _quantity("s")),
    "copy_bandwidth": ("copy_bytes_per_s", _quantity("B/s")),
    "restart_time": ("restart_s", _quantity("s", zero=True)),
    "spares": ("spares", _whole(0, 1 << 17)),
    "repair_time": ("repair_s", _quantity("s", zero=True)),
}
READ = OF_FAILURES | {
    "tokens": ("tokens", _tokens),
    "spread": ("spread", check_forms),
    "repeats": ("repeats", _whole(1, 10_000)),
    "seed": ("seed", _whole(0, 1 << 62)),
}
"""Options, the fields of a run that they give, and how they are read."""


def run_of(options: Mapping[str, Any]) -> Run:
    """What is asked for by options of these names; raises UsageError."""
    flags = {
        name: f"--{name.replace('_', '-')}"
        for name in READ
        if options.get(name) is not None and options[name] != []  # none of several
    }
    given: dict[str, Any] = {
        READ[name][0]: READ[name][1](flag, options[name]) for name, flag in flags.items()
    }
    if "mtbf" not in flags and (others := [flags[name] for name in OF_FAILURES if name in flags]):
        raise UsageError(f"{others[0]}: says how failures go; say --mtbf too, as --mtbf 50000h")
    drawn = [flags[name] for name in ("repeats", "seed") if name in flags]
    if drawn and not {"mtbf", "spread"} & flags.keys():
        raise UsageError(f"{drawn[0]}: nothing is drawn; say --mtbf or --spread too")
    if "repair_time" in flags and "spares" not in flags:
        raise UsageError("--repair-time: nothing waits for a repair without --spares N")
    if "copy_bandwidth" in flags and options.get("checkpoint") != "asynchronous":
        raise UsageError("--copy-bandwidth: read with --checkpoint asynchronous alone")
    if "mtbf" in flags and "storage_bandwidth" not in flags:
        raise UsageError(
            "--mtbf: say how fast a checkpoint is written, as --storage-bandwidth '100 GB/s'"
        )
    return Run(**given)


def checkpoint_bytes(case: Case) -> float:
    """Bytes of all weights and of the optimizer's state of them, once."""
    return case.network.parameters * number_bytes(case.array.group.arithmetic).state


def failures_of(case: Case, run: Run) -> Failures:
    """What a run with ``mtbf_s`` loses time to."""
    devices, state = sum(count for _, count in case.array.group.chips), checkpoint_bytes(case)
    written_s = state / run.storage_bytes_per_s
    copied_s = state / devices / run.copy_bytes_per_s
    stall_s, write_s = (copied_s, written_s) if run.asynchronous else (written_s, 0.0)
    restart_s = run.restart_s + written_s  # reading takes as long
    mtbf_s = run.mtbf_s or math.inf
    return Failures(devices, mtbf_s, stall_s, restart_s, write_s, run.spares, run.repair_s)


def check_run(case: Case, run: Run) -> None:
    """Raise UsageError, before the step, for what cannot be said of it."""
    if run.tokens is not None and case.network.tokens is None:
        raise UsageError(
            f"--tokens {run.tokens:g}: samples of {case.network.name} are not of tokens"
        )
    if run.mtbf_s is not None and case.execution.inference:
        raise UsageError("--mtbf: checkpoints are of training; leave out --mode inference")
    if run.spread:
        check_varies(case, run.spread)


def spread_of(case: Case, plan: Plan, run: Run) -> dict[str, Any]:
    """How a step's time varies with what ``run.spread`` names, simulated on all cores."""
    repeats = run.repeats or STEPS
    return spread_fields(case, plan, run.spread, repeats, run.seed, Runner(jobs=None))


def run_fields(case: Case, outputs: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """``cost``, ``energy``, ``goodput`` and ``run`` of a step's outputs: what of it is known.

    ``check_run`` comes before. Raises UsageError for checkpoints more often than can be written.
    """
    found: dict[str, Any] = {}
    devices = [device for device, _ in case.array.group.chips]
    if all(device.price is not None for device in devices):
        found["cost"] = step_cost(case, outputs)
    if all(device.power is not None for device in devices):
        found["energy"] = step_energy(case, outputs)
    if run.mtbf_s is not None:
        found["goodput"] = _goodput(case, outputs["iteration_s"], run)
    if run.tokens is not None:
        found["run"] = _of_tokens(case, outputs["iteration_s"], run, found)
    return found


def _goodput(case: Case, iteration_s: float, run: Run) -> dict[str, Any]:
    """The useful share of a month with checkpoints after whole steps, and the best interval."""
    of = failures_of(case, run)
    if run.every_s is not None and run.every_s < of.write_s - of.stall_s:
        raise UsageError(
            f"--checkpoint-every {run.every_s:g} s: a checkpoint of {checkpoint_bytes(case):.3g} B "
            f"takes {of.write_s:.4g} s to write; say more, or a faster --storage-bandwidth"
        )
    least = math.ceil((of.write_s - of.stall_s) / iteration_s)
    steps = max(1, least, round((run.every_s or of.best_s) / iteration_s))
    spent = simulated(of, steps * iteration_s, run.repeats or MONTHS, run.seed)
    return {
        "mtbf_s": of.mean_s,
        "checkpoint_bytes": checkpoint_bytes(case),
        "stall_s": of.stall_s,
        "write_s": of.write_s or of.stall_s,
        "restart_s": of.restart_s,
        "spares": of.spares,
        "interval_s": steps * iteration_s,
        "interval_steps": steps,
        "best_interval_s": of.best_s,
        "young_interval_s": of.young_s,
        "daly_interval_s": of.daly_s,
        "useful_share": spent.useful,
        "useful_share_error": spent.error,
        "closed_form_share": of.share(steps * iteration_s),
        "stalled_share": spent.stalled,
        "lost_share": spent.lost,
        "restarting_share": spent.restarting,
        "waiting_share": spent.waiting,
        "failures": spent.failures,
        "simulated_days": spent.days,
        "repeats": spent.repeats,
        "seed": run.seed,
        "notes": list(_remarks(of)),
    }


def _remarks(of: Failures) -> Iterator[str]:
    """Where a formula is not to be used, and why."""
    ratio = of.stall_s / of.mean_s
    for name, interval_s, what in (
        ("Young", of.young_s, "it is for checkpoints much shorter than the time between failures"),
        ("Daly", of.daly_s, "it is a series in checkpoint over time between failures"),
    ):
        off = interval_s / of.best_s - 1
        if abs(off) > NEAR and of.best_s > of.write_s - of.stall_s:
            yield f"{name}'s interval is {off:+z.1%} off the best: {what}, here {ratio:.2g} of it."
    if of.best_s == of.write_s - of.stall_s:
        yield "Checkpoints follow each other as fast as they are written: faster storage helps."
    if of.spares is not None:
        yield (
            f"The closed form is of a long run; the simulated month begins with all {of.spares} "
            "spares, which cost nothing here."
        )


def _of_tokens(case: Case, iteration_s: float, run: Run, found: Mapping[str, Any]) -> Any:
    """Steps, days, dollars and megawatt-hours of a run, lost time included where it is known."""
    assert case.network.tokens  # noqa: S101  (check_run)
    assert run.tokens  # noqa: S101
    steps = math.ceil(run.tokens / (case.network.tokens * case.batch))
    share, idle = 1.0, 0.0
    if "goodput" in found:
        share, idle = _shares(found["goodput"], steps * iteration_s, failures_of(case, run))
    if share < LEAST_SHARE:
        mean_s = found["goodput"]["mtbf_s"]
        why = "see --mtbf, --spares and --repair-time" if run.spares is not None else "see --mtbf"
        raise UsageError(f"--tokens: a run that fails every {mean_s:.3g} s never ends; {why}")
    times = steps / share
    usd = times * found["cost"]["usd_per_step"] if "cost" in found else None
    joules = None
    if "energy" in found:
        each = found["energy"]["j_per_step"]
        joules = times * (each + idle * (idle_watts(case.array) * iteration_s - each))
    return {
        "tokens": run.tokens,
        "steps": steps,
        "days": times * iteration_s / DAY_S,
        "usd": usd,
        "mwh": None if joules is None else joules / (1e6 * HOUR_S),
    }


LEAST_SHARE = 1e-6
"""Of a run's time that is useful: with less it never ends."""
MOST_RUNS = 1000
"""So often a short run is simulated."""


def _shares(goodput: Mapping[str, Any], useful_s: float, of: Failures) -> tuple[float, float]:
    """Which part of a run of so many seconds of work is useful, and in which nothing computes.

    A run that ends in the mean within what was simulated of a month is simulated, for about as
    long in all. Of a longer one it is the closed form's, which is of a long run: for a part of it
    there is no spare.
    """
    until_s = goodput["simulated_days"] * DAY_S
    repeats = min(int(goodput["repeats"] * until_s / useful_s), MOST_RUNS)
    run = goodput["interval_s"], useful_s, repeats, goodput["seed"], until_s
    if useful_s <= until_s and (ran := lasting(of, *run)):
        took_s, idle_s = ran
        return useful_s / took_s, idle_s / took_s
    waiting, missing = goodput["waiting_share"], of.without_spare
    standing = goodput["restarting_share"] + goodput["stalled_share"]
    going_on = standing / (1 - waiting) if waiting < 1 else 0.0
    return goodput["closed_form_share"], missing + (1 - missing) * going_on


def run_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table, of what ``run_fields`` found."""
    if cost := found.get("cost"):
        of = cost["usd_per_trillion_tokens"]
        more = "" if of is None else f"; {dollars(of)} per trillion tokens"
        price = f"at {dollars(cost['usd_per_device_hour'])} a chip-hour"
        yield "cost", f"{dollars(cost['usd_per_step'])} a step{more}, {price}"
    if energy := found.get("energy"):
        most = energy["most_j_per_step"] / energy["j_per_step"]
        watts = f"{energy['w_per_device']:,.0f} W per chip"
        joules = f"{format_quantity(energy['j_per_step'], 'J', 4)} a step"
        yield "energy, by power", f"{joules}, {watts}; at most {most:.2f}x"
    if goodput := found.get("goodput"):
        yield from _goodput_rows(goodput)
    if spread := found.get("spread"):
        yield from spread_rows(spread)
    if run := found.get("run"):
        days, steps = run["days"], f"{run['steps']:,} step{'s' * (run['steps'] != 1)}"
        said = [steps, f"{days:,.1f} days" if days >= 1 else duration(days * DAY_S)]
        said += [] if run["usd"] is None else [dollars(run["usd"])]
        said += [] if run["mwh"] is None else [f"{run['mwh']:,.4g} MWh"]
        yield f"run of {run['tokens']:.4g} tokens", ", ".join(said)


def _goodput_rows(of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    error = "" if of["useful_share_error"] is None else f" ± {of['useful_share_error']:.2%}"
    days = of["simulated_days"]
    of_what = "a month" if days >= MONTH_S / DAY_S else f"{duration(days * DAY_S)}"
    closed = f"closed form {of['closed_form_share']:.2%}"
    share = f"{of['useful_share']:.2%}{error} of {of_what} ({closed})"
    yield "goodput", f"{share}; {of['failures']:,.4g} failures, mtbf {of['mtbf_s'] / HOUR_S:,.4g} h"
    kinds = ("stalled", "checkpoints"), ("lost", "work done again"), ("restarting", "restarts")
    shares = [f"{what} {of[f'{key}_share']:.2%}" for key, what in kinds]
    shares += [] if of["spares"] is None else [f"no spare {of['waiting_share']:.2%}"]
    yield "lost to", ", ".join(shares)
    size = format_quantity(of["checkpoint_bytes"], "B")
    every = f"{duration(of['interval_s'])} ({of['interval_steps']:,} steps)"
    best = f"best {duration(of['best_interval_s'])}, Young {duration(of['young_interval_s'])}"
    yield "checkpoints", f"{size} every {every}; {best}, Daly {duration(of['daly_interval_s'])}"


def dollars(usd: float) -> str:
    """Dollars: whole ones of a thousand or more, else in four digits at most."""
    return f"${usd:,.0f}" if usd >= 1000 else f"${usd:.4g}"

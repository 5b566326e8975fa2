"""A design study's result, as JSON, as rows and as tables."""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import Any

from rich.table import Table

from experiments.design.runs import fields_of, units_of
from experiments.design.space import Design
from experiments.design.study import Asked, Found
from experiments.output import table
from experiments.studies.step_numbers import readable
from hardware import format_quantity

MOST_ROWS = 10
WHAM_GAIN = 1.12
"""Of WHAM's designs over one like a TPU-v2, of equal area and power (Adnan et al., 2024)."""
NEAR = 1.001
"""Estimates so near the best one, times it, do not say which design is better."""


def to_dict(asked: Asked, found: Found, baselines: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``--format json`` prints."""
    ours, case = found.judge, asked.cases[0]
    every = ours.top(found.evaluations)
    return {
        "networks": [case.network.name for case in asked.cases],
        "array": case.array.name,
        "planner": case.planner_name,
        "batch": case.batch,
        "mode": case.execution.mode,
        "execution": str(case.execution),
        "objective": asked.aim,
        "space": asked.space.name,
        "designs": len(asked.space),
        "clock_hz": asked.space.clock_hz,
        "base_clock_hz": units_of(case.array).clock_hz,
        "area_mm2": asked.limits.area_mm2,
        "power_w": asked.limits.power_w,
        "search": asked.search,
        "budget": found.budget,
        "evaluations": found.evaluations,
        "search_s": found.search_s,
        "base": fields_of(found.base, asked.cases),
        "winner": fields_of(found.winner, asked.cases),
        "candidates": [fields_of(ran, asked.cases) for ran in found.candidates],
        "best_estimate": every[0].value,
        "near_best_estimate": sum(NEAR * one.value >= every[0].value for one in every),
        "baselines": baselines,
        "published": {
            "gain_over_tpu_v2_like": WHAM_GAIN,
            "search_time_ratio": 31,
            "source": "WHAM (Adnan et al., 2024), abstract: 12 % over a TPU-like design of equal "
            "area and power; 31 times less search time than Spotlight, another program: not the "
            "same comparison as with our exhaustive search",
        },
    }


def _name(ran: dict[str, Any]) -> str:
    """A line for each design, with the places in a row that have it."""
    names = [str(Design(**design)) for design in ran["designs"]]
    if len(names) < 2:
        return names[0] if names else "base"
    lines, first = list[str](), 0
    for name, same in groupby(names):
        last = first + len(list(same)) - 1
        lines.append(f"{first}: {name}" if first == last else f"{first}-{last}: {name}")
        first = last + 1
    return "\n".join(lines)


def _first(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the best as MOST_ROWS lines have."""
    lines = accumulate(_name(ran).count("\n") + 1 for ran in candidates)
    return [ran for ran, used in zip(candidates, lines, strict=True) if used <= MOST_ROWS]


def rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each network and candidate, the base first."""
    return [
        {"network": network, "design": _name(ran).replace("\n", "; ")}
        | {key: ran[key] for key in ("value", "estimated_value", "area_mm2", "power_w")}
        | fields
        for ran in (data["base"], *data["candidates"])
        for network, fields in ran["networks"].items()
    ]


def _others(data: dict[str, Any]) -> list[str]:
    """How many designs have the best estimate, where not all of them ran."""
    near, many = data["near_best_estimate"], len(data["candidates"])
    if near <= many:
        return []
    return [
        f"{near:,} designs that were evaluated have the best estimate, within 0.1 %; {many} ran on "
        f"the engine. Others may be faster: --top {near} runs all."
    ]


def _clocks(data: dict[str, Any]) -> list[str]:
    """Where a design's clock is not the base's, both."""
    own, base = (format_quantity(data[key], "Hz") for key in ("clock_hz", "base_clock_hz"))
    said = f"The base has a clock of {base}, every design of space {data['space']} one of {own}."
    return [said] if own != base else []


def _watts(power_w: float) -> str:
    """Whole watts of a hundred or more, else three digits."""
    return f"{power_w:.0f}" if power_w >= 100 else f"{power_w:.3g}"


def tables(data: dict[str, Any]) -> list[Table | str]:
    """The base and the candidates, then how they were found, as people read it."""
    shown = [
        {
            "design": _name(ran),
            "value": f"{ran['value']:.3f}",
            "mm2": f"{ran['area_mm2']:.1f}",
            "W": _watts(ran["power_w"]),
            "samples/s": "; ".join(readable(n["samples_per_s"]) for n in ran["networks"].values()),
        }
        for ran in (data["base"], *_first(data["candidates"]))
    ]
    names = ", ".join(data["networks"])
    parts: list[Table | str] = [
        table(f"{names} on {data['array']}: {data['objective']} over the base design", shown),
        f"{data['mode'].capitalize()}, batch {data['batch']:,}, {data['planner']}.",
        f"{data['search']} search: {data['evaluations']:,} evaluations of {data['designs']:,} "
        f"designs in {data['search_s']:.2f} s; at most {data['area_mm2']:.1f} mm2 and "
        f"{_watts(data['power_w'])} W a chip.",
        "A design is matrix units x depth x width, vector units x lanes, buffer; values are "
        "runs on the engine.",
        *_clocks(data),
        *_others(data),
    ]
    if any(len(ran["designs"]) > 1 for ran in data["candidates"]):
        own = [ran["value"] for ran in data["candidates"] if len(ran["designs"]) == 1]
        parts.append(
            f"Places of the pipeline are numbered, mm2 and W are a chip's in the mean; the best "
            f"design for all places: {max(own):.3f}."
        )
    if data["baselines"]:
        lines = [
            {
                "search": row["search"] + (" (all)" if row["whole_space"] else ""),
                "evaluations": row["evaluations"],
                "seconds": f"{row['search_s']:.2f}",
                "best estimate": f"{row['estimated_value']:.3f}",
                "design": row["design"],
            }
            for row in data["baselines"]
        ]
        parts.append(table("Searches for all cores together, compared by estimate", lines))
    gain = data["winner"]["value"] - 1
    if data["objective"] == "throughput":
        beats = "Winner over" if gain > 0 else "No design that was simulated beats"
        best = f"{gain:+.0%}" if gain > 0 else f"the best is {gain:+.1%}" if gain else "it is best"
        parts.append(
            f"{beats} the base design: {best} (WHAM over a TPU-v2-like design of equal area and "
            f"power: {WHAM_GAIN - 1:+.0%})."
        )
    for row in data["baselines"][1:]:
        if row["search"] == "exhaustive" and row["whole_space"]:
            longer = row["search_s"] / max(data["baselines"][0]["search_s"], 1e-9)
            parts.append(
                f"Exhaustive search takes {longer:.0f} times as long (WHAM's 31 times are against "
                "another program: not the same comparison)."
            )
    return parts

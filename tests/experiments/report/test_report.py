"""The report's page, read without a browser."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.pictures.lanes import labels, sites
from experiments.report import comparison, step
from experiments.report import study as module
from experiments.report.charts import bars, scale
from experiments.report.page import Table, section
from experiments.report.study import report
from experiments.studies.case import Case, step_of
from experiments.studies.running.outputs import Outputs, run_case
from experiments.studies.running.store import Store
from hardware import load_array
from planners import Split, load_planner
from simulator import Execution, simulate
from tests.experiments.pages import EMPTY, EVIL, PLAIN, Parsed, shown, study
from workloads import load_network

SMALL = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]


def page(tmp_path: Path, *args: str) -> str:
    target = tmp_path / "page.html"
    assert main(["report", "--output", str(target), *args]) == 0
    return target.read_text(encoding="utf-8")


def test_speedup_tables_hold_the_numbers_of_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed = Parsed(page(tmp_path))
    for array in ("accpar-mixed", "accpar-homogeneous"):
        assert main(["speedup", "--array", array, "--format", "json"]) == 0
        wanted = json.loads(capsys.readouterr().out)
        name = f"Speedups on {array}, batch 512, published"
        exact, shown = parsed.exact[name], parsed.tables[name]
        for i, network in enumerate(dict.fromkeys(r["network"] for r in wanted["rows"]), 1):
            rows = [row for row in wanted["rows"] if row["network"] == network]
            numbers = [rows[0]["iteration_s"], *[row["speedup"] for row in rows[1:]]]
            numbers += [rows[-1][k] for k in ("slow_share", "fast_alone_speedup") if k in rows[-1]]
            assert exact[i] == [None, *numbers]
            assert shown[i][2:5] == [f"{row['speedup']:.3f}" for row in rows[1:]]
        mean, paper, difference = exact[-3:]
        assert mean[2:5] == list(wanted["geomean"].values())[1:]
        assert paper[2:5] == list(wanted["published"].values())
        assert difference[4] == pytest.approx((mean[4] or 0) / (paper[4] or 1) - 1)
    notes = " ".join(parsed.text("p"))
    assert "owt is slower than data parallelism for resnet18, resnet34." in notes
    assert "recalled, not verified" in notes


def test_one_array_alone_where_it_is_named_or_changed(tmp_path: Path) -> None:
    for args in (SMALL, ["--array", "accpar-homogeneous", "--set", "devices.0.count=4"]):
        parsed = Parsed(page(tmp_path, *args, "--networks", "lenet"))
        assert len([name for name in parsed.tables if name.startswith("Speedups on")]) == 1
        assert len([name for name in parsed.tables if name.startswith("Spec of")]) == 1


def test_the_page_is_whole_and_reaches_for_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, *SMALL, "--networks", "lenet")
    parsed = Parsed(text)
    assert parsed.open == []
    addresses = [
        value
        for _, attributes in parsed.tags
        for key, value in attributes.items()
        if key in ("src", "href", "srcset", "action", "xlink:href", "poster", "formaction")
    ]
    assert "#timeline" in addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    targets = {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}
    assert {a.removeprefix("#") for a in addresses if a.startswith("#")} <= targets
    for style in parsed.text("style"):
        assert "url(" not in style
        assert "@import" not in style
    assert "://" not in text


def test_the_policy_allows_its_own_style_and_script_alone(tmp_path: Path) -> None:
    parsed = Parsed(page(tmp_path, *SMALL, "--networks", "lenet"))
    (policy,) = [a["content"] for _, a in parsed.tags if "http-equiv" in a]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    (style,) = parsed.text("style")
    assert parts["style-src"] == sha256(style)
    _, script = parsed.text("script")
    assert parts["script-src"] == sha256(script)
    assert not [a for _, a in parsed.tags if any(k == "style" or k.startswith("on") for k in a)]


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_hostile_names_are_text() -> None:
    """The elements are those of the same page with harmless names; the names are there as text."""
    evil, plain = Parsed(report(study(EVIL))), Parsed(report(study(PLAIN)))
    assert [(name, list(a)) for name, a in evil.tags] == [(name, list(a)) for name, a in plain.tags]
    text = "".join(text for kind, text in evil.texts if kind != "script")
    for name in EVIL:
        assert name in text
    assert EVIL[1] in json.loads(evil.text("script")[0])["layers"]
    assert EVIL[2] in evil.text("h3")


def test_a_layer_files_names_are_text(tmp_path: Path) -> None:
    folder = tmp_path / "<b>"
    folder.mkdir()
    file = folder / "<i>net.txt"
    file.write_text("num_layers 1\n<script>alert(1)</script> FC\nin_ch 16\nout_ch 10\n")
    parsed = Parsed(page(tmp_path, *SMALL, "--networks", str(file)))
    assert "<script>alert(1)</script>" in parsed.text("th")
    assert any("<i>net" in text for text in parsed.text("caption"))
    assert not {"b", "i"} & {name for name, _ in parsed.tags}


@given(st.text())
def test_text_comes_back_as_it_was(text: str) -> None:
    parsed = Parsed(shown(Table("c", (text,), [(text,)])))
    assert [row[0] for row in parsed.tables["c"]] == [text, text]
    parsed = Parsed(shown(Table(text, (text,), [(text,)])))
    assert parsed.tags[2] == (
        "div",
        {"class": "scroll", "role": "region", "tabindex": "0", "aria-label": text},
    )
    assert "".join(parsed.text("caption")) == text


@given(st.recursive(st.text() | st.integers(), lambda x: st.dictionaries(st.text(), x)))
def test_data_comes_back_as_it_was(data: Any) -> None:
    texts = dict.fromkeys(("title", "seconds", "left_out"), "")
    html = section("timeline", texts | {"phases": [], "totals": EMPTY, "step": data})
    (block,) = Parsed(html).text("script")
    assert "<" not in block
    assert json.loads(block) == data


def test_the_same_page_under_every_hash_seed(tmp_path: Path) -> None:
    pages = []
    for seed in ("1", "2"):
        run = [sys.executable, "-m", "experiments.cli", "report", *SMALL, "--networks", "lenet"]
        env = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([*run, "--output", str(tmp_path / "page.html")], check=True, env=env)
        pages.append((tmp_path / "page.html").read_bytes())
    assert pages[0] == pages[1]


def test_plan_maps_are_the_plans(tmp_path: Path) -> None:
    array = load_array("accpar-mixed")
    parsed = Parsed(page(tmp_path, "--array", "accpar-mixed", "--networks", "resnet18,lenet"))
    for planner in ("data_parallel", "owt", "hypar", "accpar"):
        plan = load_planner(planner)(load_network("resnet18"), array, 512)
        top, heads, *rows, cost = parsed.tables[f"{planner}, resnet18 on accpar-mixed, batch 512"]
        assert top[1:] == [
            "128 accpar-tpu-v2 | 128 accpar-tpu-v3",
            "128 accpar-tpu-v2, in halves",
            "128 accpar-tpu-v3, in halves",
        ]
        assert heads == [str(level) for level in (0, *range(1, 8), *range(1, 8))]
        splits: list[Split] = []
        assert plan.root
        for half in (plan.root, *plan.root.halves):
            splits.append(half) if half else None
            while half and len(half.halves) == 1 and half.halves[0]:
                half = half.halves[0]
                splits.append(half)
        for v, (name, *cells) in enumerate(rows):
            assert name == plan.nodes[v]
            shares = [split.partitions[v].share for split in splits]
            kinds = [str(split.partitions[v].type) for split in splits]
            shown = ["" if share == 0.5 else f"{share:.3g}" for share in shares]
            assert cells == [kind + share for kind, share in zip(kinds, shown, strict=True)]
        assert cost[1:] == [f"{split.cost:.3g}" for split in splits]


def test_maps_of_many_columns_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    array, network = load_array("accpar-mixed", ["devices.0.count=3"]), load_network("lenet")
    plan = load_planner("accpar")(network, array, 512)
    whole = Parsed(section("plans", comparison.plan_maps("lenet", [(array, [plan])])))
    (rows,) = whole.tables.values()
    monkeypatch.setattr(comparison, "MOST_COLUMNS", 3)
    cut = Parsed(section("plans", comparison.plan_maps("lenet", [(array, [plan])])))
    (fewer,) = cut.tables.values()
    assert [row[:4] for row in rows[2:]] == fewer[2:]
    assert "The first 3 splits are shown." in cut.text("p")
    assert "The first 3 splits are shown." not in whole.text("p")


def test_a_single_accelerator_has_no_map_and_no_error(tmp_path: Path) -> None:
    args = ["--array", "accpar-homogeneous", "--set", "devices.0.count=1", "--networks", "lenet"]
    texts = Parsed(page(tmp_path, *args)).text("p")
    assert any("a single accelerator, nothing is split" in text for text in texts)


def test_the_timelines_data_are_its_records(tmp_path: Path) -> None:
    parsed = Parsed(page(tmp_path, *SMALL, "--networks", "lenet", "--timeline", "vgg11"))
    data = json.loads(parsed.text("script")[0])
    array, network = load_array("accpar-mixed", SMALL[1::2]), load_network("vgg11")
    timeline = simulate(network, load_planner("accpar")(network, array, 512), array)
    wanted = {
        (r.resource, r.layer, r.phase, r.kind, r.level, r.start_ps, r.end_ps, r.bytes, r.flops)
        for r in timeline
        if r.end_ps > r.start_ps
    }
    named = labels(sites(timeline), timeline, folded=True)
    of = {named[s.name]: timeline.resources[s.resources[0]].name for s in sites(timeline)}
    found = set()
    for lane, index, start, length in data["records"]:
        layer, phase, kind, *rest = data["operations"][index]
        names = (data["layers"][layer], data["phases"][phase], data["kinds"][kind], rest[0])
        resource = of[data["lanes"][lane]]
        found.add((resource, *names, start, start + length, *rest[1:]))
    assert found == wanted
    assert len(data["records"]) + data["instant"] == len(timeline)
    assert data["end"] == timeline.iteration_ps


def test_a_deployed_steps_lanes_hold_every_record_and_never_overlap(tmp_path: Path) -> None:
    deployed = ["--execution", "deployed", "--array", "accpar-mixed-switch", *SMALL]
    parsed = Parsed(page(tmp_path, *deployed, "--networks", "lenet"))
    data = json.loads(parsed.text("script")[0])
    names = [lane.partition(", row")[0] for lane in data["lanes"]]
    ends = [0] * len(names)
    counts = [re.search(r"([\d,]+) (?:x$|cores? of|cores$)", lane) for lane in names]
    stands_for = [int(count[1].replace(",", "")) if count else 1 for count in counts]
    operations = 0
    for lane, _, start, length in data["records"]:  # by start
        assert start >= ends[lane]
        ends[lane] = start + length
        operations += stands_for[lane]
    array, network = load_array("accpar-mixed-switch", SMALL[1::2]), load_network("lenet")
    timeline = step_of(Case(network, "accpar", array, 512, execution=Execution("deployed")))[1]
    assert operations == sum(total.operations for total in timeline.totals().values())
    (name,) = (
        n for n in parsed.exact if n.startswith("Where the time of lenet, accpar on accpar-")
    )
    assert name.endswith(", batch 512, deployed goes")
    rows = parsed.exact[name]
    spent = sum(row[1] or 0 for row in rows[1:-3])
    waiting = (rows[-1][1] or 0) * timeline.iteration_s
    assert spent + waiting == pytest.approx(timeline.iteration_s)


def test_operations_of_a_pipeline_say_which_weights_they_read() -> None:
    """PipeDream reads the version with which the micro-batch began, forward and backward."""
    array = load_array("accpar-homogeneous", ["devices.0.count=3"])
    case = Case(load_network("vgg16"), "pipedream", array, 48)
    timeline = step_of(case)[1]
    data = step.step_data(timeline)
    assert ["from board" in lane for lane in data["lanes"]] == [True] * 3 + [False] * 4
    for lane, worker in enumerate(timeline.program.workers):
        versions = worker.followed().versions
        assert len(set(versions.values())) > 2
        found = {tuple(one[4:]) for one in data["records"] if one[0] == lane}
        assert found == set(versions.items())


def test_a_very_long_timeline_keeps_its_longest_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    array, network = load_array("accpar-mixed"), load_network("lenet")
    timeline = simulate(network, load_planner("accpar")(network, array, 512), array)
    lengths = sorted(r.end_ps - r.start_ps for r in timeline if r.end_ps > r.start_ps)
    monkeypatch.setattr(step, "MOST_RECORDS", 5)
    data = step.step_data(timeline)
    assert sorted(record[3] for record in data["records"]) == lengths[-5:]
    assert data["left_out"] == len(lengths) - 5
    assert f"The {len(lengths) - 5:,} shortest others" in step.step("lenet", timeline)["left_out"]


def test_a_stores_results_are_shown_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    vary = ["--vary", "batch=64,128,256", "--networks", "lenet", "--planners", "all", *SMALL]
    sweep = ["sweep", *vary, "--store", str(file), "--jobs", "1"]
    assert main([*sweep, "--output", str(tmp_path / "t.csv")]) == 0
    parsed = Parsed(page(tmp_path, *SMALL, "--networks", "lenet", "--store", str(file)))
    with Store(file, create=False) as store:
        *rows, alone = store.rows()
    assert alone["array"].endswith(", accpar-tpu-v3 alone")  # is in the speedups' table
    assert {row["batch"] for row in rows} == {64, 128, 256, 512}  # the page's own are kept too
    shown, exact = (t["Results, oldest first"] for t in (parsed.tables, parsed.exact))
    assert [row[:3] for row in shown[1:]] == [
        [row["network"], row["planner"], row["array"]] for row in rows
    ]
    assert [row[7] for row in exact[1:]] == [row["iteration_s"] for row in rows]
    charts = [a["aria-label"] for name, a in parsed.tags if name == "svg"]
    assert charts[1:-1] == ["lenet, accpar-mixed, 4 accelerators, time, published"]
    titles = parsed.text("title")
    for row in rows:
        assert f"{row['planner']}: {row['iteration_s']:.6g} at {row['batch']}" in titles


def test_varied_values_of_specs_are_columns_and_axes(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    vary = ["--vary", "network.bandwidth=1 Gbit/s,4 Gbit/s", "--vary", "batch=64,128"]
    sweep = ["sweep", *vary, "--networks", "lenet", "--planners", "owt", *SMALL]
    assert main([*sweep, "--store", str(file), "--jobs", "1"]) == 0
    parsed = Parsed(page(tmp_path, *SMALL, "--networks", "lenet", "--store", str(file)))
    head, *shown = parsed.tables["Results, oldest first"]
    varied = {row[head.index("network.bandwidth")] for row in shown}
    assert varied == {"1 Gbit/s", "4 Gbit/s", ""}  # the page's own are as the spec has it
    assert "devices.0.count" not in head  # the same for all
    charts = [a["aria-label"] for name, a in parsed.tags if name == "svg"][1:-1]
    assert charts == [
        "lenet, accpar-mixed, 4 accelerators, time, published, 1 Gbit/s",
        "lenet, accpar-mixed, 4 accelerators, time, published, 4 Gbit/s",
        "lenet, accpar-mixed, 4 accelerators, batch 64, time, published",
        "lenet, accpar-mixed, 4 accelerators, batch 128, time, published",
    ]
    with Store(file, create=False) as store:
        for row in store.rows()[: 2 * 2 * 2]:
            bits = float(row["network.bandwidth"].split()[0]) * 1e9
            assert f"{row['planner']}: {row['iteration_s']:.6g} at {bits:.6g}" in parsed.text(
                "title"
            )


def test_results_of_any_shape_are_shown_and_the_newest_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[dict[str, Any]] = [
        {"network": "old", "iteration_s": 1.0},
        {"network": None, "iteration_s": "soon", "batch": [1]},
        {"iteration_s": None, "batch": -1, "computing": True},
        *({"iteration_s": seconds} for seconds in (5e-324, 1.7e308, -1.0, 0.0)),
    ]
    monkeypatch.setattr(comparison, "MOST_ROWS", 6)
    parsed = Parsed(section("results", comparison.results(rows)))
    assert [row[7] for row in parsed.tables["Results, oldest first"][1:]][:2] == ["soon", ""]
    assert "7 results; the newest 6 are shown." in parsed.text("p")
    assert "svg" not in [name for name, _ in parsed.tags]


def test_long_names_leave_room_in_the_bars() -> None:
    parsed = Parsed(
        shown(EMPTY, bars("title", ["n" * 40, "lenet"], {"owt": [2.0, 0.5]}, {"owt": 0.6}))
    )
    assert "n" * 12 + "…" in parsed.text("text")
    assert "lenet" in parsed.text("text")
    assert f"owt, {'n' * 40}: 2.000" in parsed.text("title")
    marks = [a for name, a in parsed.tags if a.get("class") == "mark" and name == "line"]
    assert len(marks) == 1


@given(st.lists(st.floats(1e-99, 1e99), min_size=1, max_size=9))
def test_scales_hold_their_values(values: list[float]) -> None:
    axis = scale(values, 0, 100)
    assert all(0 <= axis(value) <= 100 for value in values)
    assert axis.ticks() == sorted(axis.ticks())
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--output", "page.txt"], "must end in .html"),
        (["--output", "missing/page.html"], "cannot be written"),
        (["--store", "missing/s.sqlite"], "Is the folder there"),
        (["--jobs", "0"], "--jobs 0: must be at least 1"),
        (["--networks", "lenett"], "did you mean lenet"),
        (["--timeline", "vgg12"], "did you mean vgg1"),
        (["--planners", "acpar"], "did you mean accpar"),
        (["--array", "accpar-mixd"], "did you mean accpar-mixed"),
    ],
)
def test_mistakes_are_named_before_any_work(
    args: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "report", lambda *args: pytest.fail("work was done"))
    assert main(["report", "--output", "page.html", *args]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_interrupted_it_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = page(tmp_path, *SMALL, "--networks", "lenet")

    def interrupting(case: Case) -> Outputs:
        if case.network.name == "vgg11":
            raise KeyboardInterrupt
        return run_case(case)

    monkeypatch.setattr("experiments.studies.running.runner.run_case", interrupting)
    args = ["report", *SMALL, "--networks", "lenet,vgg11", "--output", str(tmp_path / "page.html")]
    assert main(args) == 130
    assert (tmp_path / "page.html").read_text() == old

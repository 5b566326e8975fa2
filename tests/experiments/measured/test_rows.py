"""The file format: what is read, what is unknown, what is refused and how."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import save

from experiments.measured.case import case_of, ready
from experiments.measured.rows import Row, load, parse, shipped
from experiments.output import UsageError
from hardware.reader import MOST_ROWS
from tests.experiments.measured.some_rows import SMALL, small, table
from workloads import load_network, with_attention
from workloads.exporters.onnx_model import to_onnx
from workloads.zoo.transformers import without_compiler


def test_what_is_empty_is_unknown_and_what_is_written_is_read() -> None:
    row = small(mbs="", experts="nan", vp="")
    assert (row.mbs, row.experts, row.vp) == (None, None, None)
    assert (row.gpus, row.sp, row.gated, row.step_s) == (8, True, True, 0.05)
    assert row.dense
    assert not small(experts=8).dense


def test_numbers_may_be_written_as_a_data_frame_writes_them() -> None:
    assert small(tp="2.0").tp == 2


def test_comments_and_empty_lines_do_not_count_but_as_lines() -> None:
    assert parse("# where from, when\n\n" + table(SMALL) + "# end\n", "rows.csv") == (small(),)
    with pytest.raises(UsageError, match=r"rows\.csv:4: gpus: is missing"):
        parse("# a\n\n" + table(SMALL | {"gpus": ""}), "rows.csv")
    with pytest.raises(UsageError, match=r"rows\.csv:3: hw: is missing"):
        parse("# a\n" + table({"id": "a", "source": "s", "gpus": 1}), "rows.csv")


def test_the_shipped_rows() -> None:
    rows = shipped()
    assert len(rows) == 25
    assert all(isinstance(row, Row) and row.step_s for row in rows)
    assert len({row.hw for row in rows}) >= 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            table(SMALL | {"gpus": "many"}),
            "rows.csv:2: gpus: 'many': must be a whole number",
        ),
        (table(SMALL | {"gpus": "-8"}), "rows.csv:2: gpus: '-8': must be a whole number from 1"),
        (table(SMALL | {"layers": 4097}), "layers: '4097': must be a whole number from 0 to 4,096"),
        (table(SMALL | {"seq": 1 << 21}), "seq: '2097152': must be a whole number from 0 to 1,048"),
        (table(SMALL | {"tp": "1.5"}), "rows.csv:2: tp: '1.5': must be a whole number from 0"),
        (table(SMALL | {"gpus": ""}), "rows.csv:2: gpus: is missing"),
        (table({"id": "a", "source": "s", "gpus": 1}), "rows.csv:2: hw: is missing"),
        (table(SMALL | {"colour": "red"}), "rows.csv:2: colour: unknown key; one of"),
        (table(SMALL, SMALL), "two rows are called 'small/0'"),
        (table(SMALL) + "1,2\n", "rows.csv:3: 2 values"),
        ("", "rows.csv: no rows"),
        ("id,source,hw,gpus\n", "rows.csv: no rows"),
        (table(SMALL | {"model": "x" * 300}), "at most 200 characters"),
        (table(SMALL | {"step_s": "1e99"}), "step_s: '1e99': must be a number from 0 to 1e+09"),
        ('id,source,hw,gpus\n"a,b,c,1\n', "not a line of CSV"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text, "rows.csv")
    assert said in str(error.value)


def test_there_may_not_be_too_many() -> None:
    rows = [SMALL | {"id": f"row{i}"} for i in range(MOST_ROWS + 1)]
    with pytest.raises(UsageError, match="are read"):
        parse(table(*rows), "rows.csv")


def test_an_array_lies_beside_the_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(table(SMALL | {"hw": "", "array": "mixed.toml"}))
    (row,) = load(str(path))
    assert row.array == str(tmp_path / "mixed.toml")
    path.write_text(table(SMALL | {"array": "a100-cluster"}))
    assert load(str(path))[0].array == "a100-cluster"


def test_a_network_lies_beside_the_table(tmp_path: Path) -> None:
    """It stands for the sizes; with a name it is of the catalog."""
    path = tmp_path / "rows.csv"
    unknown = dict.fromkeys(("layers", "hidden", "ffn", "heads", "vocab", "seq", "attn"), "")
    (tmp_path / "own.toml").write_text(
        'kind = "transformer"\nlayers = 2\nhidden = 64\nheads = 4\nvocab = 100\nseq = 32\n'
    )
    path.write_text(table(SMALL | unknown | {"network": "own.toml"}))
    (row,) = load(str(path))
    assert row.network == str(tmp_path / "own.toml")
    assert case_of(row).case.network == without_compiler(load_network(row.network))
    path.write_text(table(SMALL | {"network": "own.toml", "attn": ""}))
    said = case_of(load(str(path))[0]).split.assumed
    unread = "layers, hidden, ffn, heads, vocab, seq, gated, kv_heads"
    assert f"{unread} not read: the network has them" in said
    beside = {"network": "own.toml", "kv_heads": 2, "experts": 4, "topk": 1, "attn": "unfused"}
    path.write_text(table(SMALL | unknown | beside))
    (row,) = load(str(path))
    assert (
        "gated, kv_heads, experts, topk not read: the network has them"
        in case_of(row).split.assumed
    )
    unfused = with_attention(without_compiler(load_network(row.network)), "unfused")
    assert case_of(row).case.network.layers == unfused.layers
    path.write_text(table(SMALL | unknown | {"network": "lenet", "attn": "flash"}))
    assert "no attention to be fused" in str(ready(load(str(path))[0]))
    graph = load_network("lenet")
    save(to_onnx(graph), str(tmp_path / "graph.onnx"))
    for framework, apart in (("torchtitan", True), ("MaxText", False)):
        path.write_text(
            table(
                SMALL
                | unknown
                | {"network": "graph.onnx", "framework": framework, "tp": 1, "dp": 8}
            )
        )
        made = case_of(load(str(path))[0]).case.network
        assert any(layer.apart for layer in made.layers) == apart
    path.write_text(table(SMALL | unknown | {"network": "none.toml"}))
    assert "none.toml" in str(ready(load(str(path))[0]))
    path.write_text(table(SMALL | {"network": "../own.toml"}))
    with pytest.raises(UsageError, match=r"network: .*: name a file beside the table"):
        load(str(path))


@pytest.mark.parametrize("array", ["../mixed.toml", "/etc/mixed.toml", "a/../../b.toml"])
def test_an_array_elsewhere_is_refused(tmp_path: Path, array: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(table(SMALL | {"array": array}))
    with pytest.raises(UsageError, match="name a file beside the table"):
        load(str(path))

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.studies.running.outputs import check_kept
from experiments.studies.running.store import Store, StoreError
from hardware.reader import Error

OUTPUTS = {"iteration_s": 0.1, "peak_memory_bytes": None}


def anything(outputs: object, where: str, error: Error) -> None:
    """No rule."""


def test_what_is_put_is_there_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.put("a", {"network": "lenet", "batch": 8}, OUTPUTS)
        store.put("a", {"network": "other"}, {"iteration_s": 9.0})  # ignored: the key is there
    with Store(path, create=False) as store:
        assert len(store) == 1
        assert store.get(["a", "b"], anything) == {"a": OUTPUTS}
        (row,) = store.rows()
        assert (row["key"], row["network"], row["batch"]) == ("a", "lenet", 8)
        assert row["version"].startswith("0.")


def test_many_keys_at_once(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        for i in range(1203):
            store.put(str(i), {"i": i}, {"iteration_s": float(i)})
        assert len(store.get(map(str, range(2000)), anything)) == 1203


def test_prune_by_inputs(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        for i, network in enumerate(("lenet", "vgg11", "lenet")):
            store.put(str(i), {"network": network, "batch": 8 * i}, OUTPUTS)
        assert store.prune(network="lenet", batch=16) == 1
        assert store.prune(network="nothing") == 0
        assert [row["key"] for row in store.rows()] == ["0", "1"]
        store.put("dot", {"network.bandwidth": "1 Gbit/s", "devices.0.count": "4"}, OUTPUTS)
        assert store.prune(**{"network.bandwidth": "1 Gbit/s", "devices.0.count": 4}) == 1
        with pytest.raises(StoreError, match="at least one condition"):
            store.prune()
        assert store.prune(**{"network' OR 1=1 --": "x"}) == 0
        assert len(store) == 2


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to look like one" * 50)
    with pytest.raises(StoreError, match=r"text\.db: file is not a database.*Choose another file"):
        Store(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.db"
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = other.read_bytes()
    with pytest.raises(StoreError, match="not a store of this version"):
        Store(other)
    assert other.read_bytes() == before
    with pytest.raises(StoreError, match="there is no such store"):
        Store(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(StoreError, match="there is no such store"):
        Store(empty, create=False)
    assert empty.stat().st_size == 0


def test_a_folder_that_is_not_there_or_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "s.db", Path("/proc/s.db")):
        with pytest.raises(StoreError, match=r"unable to open.*Is the folder there"):
            Store(path)


def test_a_full_disk_keeps_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    stored = 0
    with Store(path) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 3}")

        def fill() -> None:
            nonlocal stored
            for stored in range(1000):
                store.put(str(stored), {"text": "x" * 200}, OUTPUTS)

        with pytest.raises(StoreError, match=r"disk is full.*Make room"):
            fill()
    assert stored > 10
    with Store(path) as store:
        assert len(store) == stored
        store.put("more", {}, OUTPUTS)


def test_a_store_that_was_cut_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "cut.db"
    with Store(path) as store:
        store.close()
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(StoreError, match=r"cut\.db: .*The file is damaged: move it away"):
        Store(path)


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store._db.execute("INSERT INTO results VALUES ('k', '{', '{}', '', '')")
        with pytest.raises(StoreError, match="damaged row"):
            store.rows()


@pytest.mark.parametrize("outputs", [b"{}", "null", "7", "[]", '"text"', "9" * 5000, "[" * 5000])
def test_outputs_that_are_no_table_are_told(outputs: str | bytes, tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store._db.execute("INSERT INTO results VALUES ('k', '{}', ?, '', '')", (outputs,))
        with pytest.raises(StoreError, match="a damaged row: "):
            store.rows()
        with pytest.raises(StoreError, match="a damaged row: outputs of k: "):
            store.get(["k"], check_kept)


@pytest.fixture
def out_of_bounds() -> Iterator[Path]:
    """A folder in which nobody may write, and we are nobody."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    with Store(folder / "s.db") as store:
        store.put("k", {"network": "lenet"}, OUTPUTS)
    main(["results", "list", "--store", str(folder / "s.db")])  # nobody may read our packages
    (folder / "s.db").chmod(0o444)
    folder.chmod(0o555)
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="folders that nobody may write to")
def test_a_store_is_read_where_nothing_can_be_written(
    out_of_bounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(out_of_bounds / "s.db")
    with pytest.raises(StoreError, match="readonly"):
        Store(file)
    capsys.readouterr()
    assert main(["results", "list", "--store", file]) == 0
    assert "lenet" in capsys.readouterr().out
    assert main(["results", "prune", "--where", "network=lenet", "--store", file]) == 2
    assert os.listdir(out_of_bounds) == ["s.db"]


def test_a_store_that_is_being_written_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.put("k", {}, OUTPUTS)
        with Store(path, create=False, read_only=True) as other:
            assert len(other) == 1
            store.put("l", {}, OUTPUTS)
            assert len(other) == 2
            with pytest.raises(StoreError, match="readonly"):
                other.put("m", {}, OUTPUTS)


OPENS = """
import sys
from experiments.studies.running.store import Store
with Store(sys.argv[1]) as store:
    for i in range(50):
        store.put(f"{sys.argv[2]}-{i}", {}, {"iteration_s": 1.0})
        store.put(f"both-{i}", {}, {"iteration_s": 1.0})
"""


@pytest.mark.parametrize("attempt", range(2))
def test_several_processes_open_and_write_at_once(tmp_path: Path, attempt: int) -> None:
    path = str(tmp_path / f"{attempt}.db")
    writers = [
        subprocess.Popen([sys.executable, "-c", OPENS, path, str(i)], stderr=subprocess.PIPE)
        for i in range(4)
    ]
    assert [(w.communicate()[1], w.returncode) for w in writers] == [(b"", 0)] * 4
    with Store(path) as store:
        assert len(store) == 4 * 50 + 50


def test_a_row_of_a_study_is_made_once_and_damage_is_told(tmp_path: Path) -> None:
    made: list[float] = []

    def make() -> dict[str, float]:
        made.append(0.5)
        return {"ours": made[-1]}

    with Store(tmp_path / "s.db") as store:
        assert [store.get_or_make(("hypar 5", 0), make) for _ in range(2)] == [{"ours": 0.5}] * 2
        store.get_or_make(("hypar 5", 1), make)
        assert len(made) == len(store) == 2
        store._db.execute("UPDATE results SET outputs = replace(outputs, '0.5', '0.6')")
        with pytest.raises(StoreError, match=r"a damaged row: .* is not as it was kept"):
            store.get_or_make(("hypar 5", 0), make)

"""Reports to look at, and what html.parser makes of them."""

from html.parser import HTMLParser
from typing import Any

from experiments.report.charts import Chart
from experiments.report.page import Table, section
from experiments.report.study import Study
from hardware import Array, Device, Group, Setting
from workloads import Builder, Network

EVIL = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert('2')>",
    "</script></table><script>alert(3)</script><!--",
    "' onmouseover=alert(4) x='&lt;&amp;$script ${title}",
    "]]>\u202e<svg onload=alert(5)>\u2028\x01" + "long" * 60,
)
PLAIN = ("alpha", "beta", "gamma", "delta", "epsilon")


def study(names: tuple[str, ...]) -> Study:
    """A small study in which every name that a stranger can choose is one of ``names``."""
    network, layer, array, device, other = names
    return Study(
        arrays=(_array(array, (device, other)),),
        networks=(_network(network, layer),),
        planners=("data_parallel", "accpar"),
        mapped=_network(network, layer),
        drawn=_network(network, layer),
        batch=64,
        rows=[_result(names, batch) for batch in (32, 64)],
        command=f"accelarray report --array {array}",
    )


def _network(name: str, layer: str) -> Network:
    net = Builder(name, channels=3, height=8, width=8)
    net.conv(layer, 8, kernel=3, padding=1)
    net.flatten("flatten")
    net.fc("fc", 64)
    return net.build()


def _array(name: str, devices: tuple[str, str]) -> Array:
    kinds = tuple(
        (Device(device, 1, 1, peak, 1e9, 1e11, 1e9), 2)
        for device, peak in zip(devices, (1e12, 2e12), strict=True)
    )
    return Array(name, name, Group(kinds), (Setting(name, devices[0], devices[1]),))


def _result(names: tuple[str, ...], batch: int) -> dict[str, Any]:
    keys = ("network", "planner", "array", "objective", "version")
    numbers = {"batch": batch, "accelerators": 4, "iteration_s": batch / 1e3, "computing": 0.5}
    return dict(zip(keys, names, strict=True)) | numbers


def shown(table: Table, *charts: Chart) -> str:
    """A table and charts as a page has them."""
    return section("results", {"count": "some", "table": table, "charts": charts})


EMPTY = Table("", ("",), [])


class Parsed(HTMLParser):
    """Start tags with their attributes, texts by element, tables by caption, the open elements."""

    VOID = ("meta", "link")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.exact: dict[str, list[list[float | None]]] = {}
        self._caption = ""
        self.feed("".join(page))  # of markupsafe no more than the text
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)
        if not self._caption:
            return
        if tag == "tr":
            self.tables[self._caption].append([])
            self.exact[self._caption].append([])
        elif tag in ("td", "th"):
            self.tables[self._caption][-1].append("")
            self.exact[self._caption][-1].append(None)
        elif tag == "data":
            self.exact[self._caption][-1][-1] = float(dict(attrs)["value"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            self._caption = ""

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))
        if "caption" in self.open:
            self._caption += data
            self.tables[self._caption], self.exact[self._caption] = [], []
        elif self._caption and self.tables[self._caption] and self.tables[self._caption][-1]:
            self.tables[self._caption][-1][-1] += data

    def text(self, tag: str) -> list[str]:
        """The texts directly within elements of a kind."""
        return [text for of, text in self.texts if of == tag]

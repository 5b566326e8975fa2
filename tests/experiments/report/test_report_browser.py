"""The report's page in headless Chromium, opened from a file."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from experiments.cli import main
from experiments.report.study import report
from tests.experiments.pages import EVIL, study

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        missing = "there is no chromium here (Debian: apt-get install chromium)"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report as the command makes it, of two networks."""
    folder = tmp_path_factory.mktemp("report")
    store = folder / "store.sqlite"
    networks = ["--networks", "lenet,vgg11"]
    vary = ["--vary", "batch=64,128", "--planners", "accpar,owt", "--jobs", "1"]
    output = ["--output", str(folder / "sweep.csv")]
    assert main(["sweep", *networks, *vary, "--store", str(store), *output]) == 0
    target = folder / "report.html"
    args = ["report", *networks, "--store", str(store), "--output", str(target)]
    assert main(args) == 0
    return target


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("hostile") / "report.html"
    target.write_text(report(study(EVIL)), encoding="utf-8")
    return target


@dataclass
class Seen:
    """A page, and everything that happened on it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def run(self, script: str) -> Any:
        return self.page.evaluate(script)

    @property
    def view(self) -> tuple[float, float]:
        start, end = self.run("[step.dataset.from, step.dataset.to]")
        return float(start), float(end)

    @property
    def picture(self) -> str:
        return str(self.run("step.toDataURL()"))


class Opener:
    """Opens pages, and closes them in the end."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.opened: list[Seen] = []

    def __call__(
        self, path: Path, width: int = 1280, scheme: Scheme = "light", javascript: bool = True
    ) -> Seen:
        context = self.browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            java_script_enabled=javascript,
            has_touch=width < 500,
        )
        seen = Seen(context.new_page())
        seen.page.on("console", lambda message: seen.complaints.append(message.text))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on("dialog", lambda dialog: seen.complaints.append(f"alert {dialog.message}"))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(path.as_uri())
        self.opened.append(seen)
        return seen


@pytest.fixture
def look(browser: Browser) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    for seen in opener.opened:
        seen.page.context.close()


def everything(seen: Seen) -> None:
    """Open what is closed, press every button, touch every operation."""
    seen.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for button in seen.page.query_selector_all("button"):
        button.click()
    seen.page.hover("#step")
    seen.page.wait_for_timeout(50)


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_it_opens_without_a_complaint_and_asks_nobody(
    made: Path, look: Opener, width: int, scheme: Scheme
) -> None:
    seen = look(made, width, scheme)
    everything(seen)
    assert seen.complaints == []
    assert seen.requests == [made.as_uri()]


def test_tables_hold_the_jsons_numbers(
    made: Path, look: Opener, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["speedup", "--networks", "lenet,vgg11", "--format", "json"]) == 0
    wanted = json.loads(capsys.readouterr().out)["rows"]
    cells = look(made).run(
        "[...document.querySelectorAll('#speedups table')[0].tBodies[0].rows].map((row) =>"
        " [...row.cells].map((cell) => cell.querySelector('data')?.value ?? cell.innerText))"
    )
    assert len(cells) == 2
    for network, baseline, *rest in cells:
        rows = [row for row in wanted if row["network"] == network]
        assert float(baseline) == rows[0]["iteration_s"]
        assert [float(value) for value in rest[:3]] == [row["speedup"] for row in rows[1:]]


def test_buttons_keys_wheel_and_dragging_change_the_view(made: Path, look: Opener) -> None:
    seen = look(made)
    whole, pictures = seen.view, {seen.picture}
    assert whole == (0, seen.run("JSON.parse(document.getElementById('step-data').text).end"))

    def change(act: Any) -> tuple[float, float]:
        act()
        pictures.add(seen.picture)
        return seen.view

    page, middle = seen.page, whole[1] / 2
    assert change(lambda: page.click("[data-do=in]")) == pytest.approx((middle / 2, middle * 1.5))
    assert change(lambda: page.click("[data-do=right]")) == pytest.approx(
        (middle * 0.75, middle * 1.75)
    )
    page.focus("#step")
    assert change(lambda: page.keyboard.press("ArrowLeft")) == pytest.approx(
        (middle / 2, middle * 1.5)
    )
    assert change(lambda: page.keyboard.press("-")) == whole
    shown = page.inner_text("#range")
    page.hover("#step", position={"x": 10, "y": 10})
    before = seen.view
    page.mouse.wheel(0, -100)
    page.wait_for_function("from => Number(step.dataset.to) - from < 0", arg=before[1])
    zoomed = change(lambda: None)
    assert zoomed[0] < whole[1] * 0.01
    assert zoomed[1] - zoomed[0] == pytest.approx(whole[1] / 1.2)
    assert page.inner_text("#range") != shown
    page.mouse.down()
    dragged = change(lambda: page.mouse.move(-200, 10))
    page.mouse.up()
    assert dragged[0] > zoomed[0]
    assert dragged[1] - dragged[0] == pytest.approx(zoomed[1] - zoomed[0])
    assert change(lambda: page.click("[data-do=all]")) == whole
    assert len(pictures) == 5  # a picture for each of the different views


def test_zooming_ends_somewhere(made: Path, look: Opener) -> None:
    seen = look(made)
    press = "for (let i = 0; i < 60; i += 1) document.querySelector('[data-do={}]').click()"
    seen.run(press.format("in"))
    start, end = seen.view
    assert end - start == pytest.approx(1000)
    seen.run(press.format("out"))
    assert seen.view == (0, seen.run("JSON.parse(document.getElementById('step-data').text).end"))
    assert seen.complaints == []


def test_the_tip_says_what_an_operation_is(made: Path, look: Opener) -> None:
    seen = look(made)
    data = seen.run("JSON.parse(document.getElementById('step-data').text)")
    assert not seen.page.is_visible("#tip")
    for lane, index, start, length in data["records"][:40]:
        seen.page.click("[data-do=next]")
        layer, phase, kind, level, *_ = data["operations"][index]
        title, what, where, begin, duration, *_ = seen.page.inner_text("#tip").splitlines()
        assert title == data["layers"][layer]
        place = "" if level < 0 else f", level {level}"
        assert what == data["names"][phase][kind] + place
        if data["kinds"][kind] == "compute":
            whose = {"backward": "activation gradients", "gradient": "weight gradients"}
            name = data["phases"][phase]
            assert what == f"compute, {whose.get(name, name)}"
        assert where == data["lanes"][lane]
        assert seconds(begin.removeprefix("start ")) == pytest.approx(start * 1e-12, rel=1e-8)
        assert seconds(duration.removeprefix("duration ")) == pytest.approx(
            length * 1e-12, rel=1e-5
        )


def seconds(text: str) -> float:
    number, unit = text.split(" ")
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12}[unit]


def test_pointing_at_an_operation_shows_it(made: Path, look: Opener) -> None:
    seen = look(made)
    data = seen.run("JSON.parse(document.getElementById('step-data').text)")
    lane, index, start, length = max(data["records"], key=lambda record: record[3])
    width = seen.run("step.clientWidth")
    place = {"x": (start + length / 2) / data["end"] * width, "y": 26 + 36 * lane + 24}
    seen.page.hover("#step", position=place)  # type: ignore[arg-type]
    assert seen.page.inner_text("#tip b") == data["layers"][data["operations"][index][0]]
    seen.page.hover("h1")
    assert not seen.page.is_visible("#tip")


def test_hostile_names_are_shown_as_text(hostile: Path, look: Opener) -> None:
    seen = look(hostile)
    everything(seen)
    seen.page.click("[data-do=next]")
    assert seen.complaints == []
    assert seen.requests == [hostile.as_uri()]
    assert seen.run("document.scripts.length") == 2
    assert seen.run("document.querySelectorAll('img, [onload], [onerror]').length") == 0
    text = seen.run("document.body.textContent")
    for name in EVIL:
        assert name in text
    assert seen.run("document.querySelector('#speedups tbody th').innerText") == EVIL[0]
    assert seen.page.inner_text("#tip b") == EVIL[1]


@pytest.mark.parametrize("which", ["made", "hostile"])
@pytest.mark.parametrize("javascript", [True, False])
def test_nothing_is_wider_than_a_phone(
    which: str, look: Opener, request: pytest.FixtureRequest, javascript: bool
) -> None:
    seen = look(request.getfixturevalue(which), width=360, javascript=javascript)
    seen.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert seen.run("document.documentElement.scrollWidth") == 360
    wide = seen.run("[...document.querySelectorAll('.scroll')].some((b) => b.scrollWidth > 360)")
    assert wide  # the tables scroll on their own


def test_dark_and_light_are_both_legible(made: Path, look: Opener) -> None:
    brightness = {}
    pictures = set()
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for scheme in schemes:
        seen = look(made, scheme=scheme)
        page, text, quiet, note = seen.run(
            "(() => { const of = (q, p) => getComputedStyle(document.querySelector(q))[p];"
            " return [of('body', 'backgroundColor'), of('body', 'color'), of('caption', 'color'),"
            " of('.note', 'backgroundColor')]; })()"
        )
        brightness[scheme] = luminance(page)
        assert contrast(page, text) >= 7
        assert contrast(page, quiet) >= 4.5
        assert contrast(note, text) >= 7
        pictures.add(seen.picture)
        for phase in ("forward", "backward", "gradient", "update"):  # layers' names on their bars
            bar = seen.run(
                f"getComputedStyle(document.querySelector('.key.{phase}')).backgroundColor"
            )
            assert contrast(bar, "rgb(255, 255, 255)") >= 4
    assert brightness["light"] > 0.8
    assert brightness["dark"] < 0.05
    assert len(pictures) == 2


def luminance(colour: str) -> float:
    """WCAG's relative luminance of ``rgb(r, g, b)``."""
    values = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(", ")]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_the_policy_stops_what_is_not_the_reports(made: Path, look: Opener, tmp_path: Path) -> None:
    """A script, a style and a picture from elsewhere, put into the page, do nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        added = (
            "<script>document.title = 'hacked'</script><style>h1 { display: none }</style>"
            f"<img src='http://127.0.0.1:{server.getsockname()[1]}/'></body>"
        )
        changed = tmp_path / "changed.html"
        changed.write_text(made.read_text(encoding="utf-8").replace("</body>", added))
        seen = look(changed)
        assert seen.page.title() == seen.page.inner_text("h1") != "hacked"
        assert seen.page.is_visible("h1")
        assert len([text for text in seen.complaints if "Content Security Policy" in text]) == 3
        with pytest.raises(BlockingIOError):  # nobody has called
            server.accept()

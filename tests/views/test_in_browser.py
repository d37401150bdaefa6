"""Pages in Debian's headless Chromium: on a phone and on a desktop, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import load_results
import pytest
from browser import CHROMIUM, Browser
from shown_documents import search, staged, throughput_of
from stored_results import STORED, unpacked

from modelzoo.cli import app
from modelzoo.frozen import replace
from modelzoo.results import store
from modelzoo.results.store import ResultFile

axe = pytest.importorskip("axe_core_python", reason="the extra 'browser' is not installed")
AXE = Path(axe.__file__).parent / "axe.min.js"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.is_file(), reason=f"{CHROMIUM} is not installed (apt install chromium)"),
]
WITHOUT_CHART = ("ssdlite", "validity", "several")
"""Pages of a judgement, and of results that are not comparable."""
WIDTHS, SCHEMES = (390, 1400), ("light", "dark")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all tests."""
    with Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Timed and judged workloads, profiles, pictures, several results, and every other kind of result."""
    directory = tmp_path_factory.mktemp("pages")
    stored = [unpacked(path, directory) for path in STORED]
    names = {path.stem: path for path in stored}
    found = {"full": [names["early-full"]], "mlp": [names["mlp"]], "ssdlite": [names["ssdlite"]]}
    found["several"] = [names["mlp"], names["sessions"], names["failing"], directory]
    judged = replace(store.read(names["early-full"]), runs=())
    load = load_results.measured(load_results.load(is_search=True, rate=None, repeats=2, queries=662))
    made = {"pipeline": staged(), "validity": judged, "tune": search(), "throughput": throughput_of()}
    for name, result in {**made, "load": load_results.result(load)}.items():
        # Outside the results whose history is shown.
        found[name] = [directory / "made" / f"{name}.json"]
        ResultFile(found[name][0], result)
    for name, paths in found.items():
        assert app.main(["report", *map(str, paths), "-o", str(directory / f"{name}.html")]) == 0
    return [directory / f"{name}.html" for name in found]


def each_view(browser: Browser, pages: list[Path]) -> Iterator[str]:
    """Open every page at both widths in both schemes; yields what is open."""
    for page in pages:
        for width in WIDTHS:
            for scheme in SCHEMES:
                browser.open(page, width, scheme)
                yield f"{page.stem} at {width} px, {scheme}"


def test_every_view_can_be_read_and_requests_nothing(browser: Browser, pages: list[Path]) -> None:
    """No message on the console, no exception; the only request is that of the page itself.

    Texts of plots are at least 9 px high and inside of their plot; with everything open, no page is wider than the
    screen, as wide tables scroll in boxes of their own.
    """
    for view in each_view(browser, pages):
        requests = [each for each in browser.events if each["method"] == "Network.requestWillBeSent"]
        urls = [each["params"]["request"]["url"].partition(":")[0] for each in requests]
        assert [url for url in urls if url != "data"] == ["file"], view
        assert [each for each in browser.events if each["method"] != "Network.requestWillBeSent"] == [], view
        found = browser.evaluate(
            "[...document.querySelectorAll('svg.plot text')].map(text => { const svg = text.ownerSVGElement;"
            "const outer = svg.getBoundingClientRect(), inner = text.getBoundingClientRect();"
            "return [text.textContent, parseFloat(text.style.fontSize) * outer.width / svg.viewBox.baseVal.width,"
            "Math.min(inner.left - outer.left, outer.right - inner.right, inner.top - outer.top,"
            "outer.bottom - inner.bottom)] })"
        )
        assert [text for text, size, margin in found if size < 9 or margin < -1] == [], view
        browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        width, shown = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= shown, view


def test_the_first_screen_has_the_headline_and_its_chart(browser: Browser, pages: list[Path]) -> None:
    """The chart begins in the upper half of a desktop's."""
    for page in pages:
        browser.open(page, 1400, "light")
        sides = [(".headline", "bottom"), ("figure svg", "top")]
        for element, side in sides[: 1 if page.stem in WITHOUT_CHART else 2]:
            found = f"document.querySelector('main > section:first-child {element}').getBoundingClientRect()"
            assert browser.evaluate(f"{found}.{side}") <= 450, (page.stem, element)


def test_the_first_table_of_a_page_is_not_cut(browser: Browser, pages: list[Path]) -> None:
    """On a phone its rows are lists; one that is too long for that scrolls, and shows that it does."""
    for page in pages:
        browser.open(page, 390, "light")
        shown = "[...document.querySelectorAll('.scroll')].filter(each => each.checkVisibility())"
        found = browser.evaluate(
            f"{shown}.map(each => [each.scrollWidth - each.clientWidth, each.querySelectorAll('tbody tr').length,"
            "getComputedStyle(each).backgroundImage.includes('gradient')])"
        )
        assert all(hidden <= 0 or (rows > 12 and is_shaded) for hidden, rows, is_shaded in found), page.stem


def test_axe_finds_nothing_serious(browser: Browser, pages: list[Path]) -> None:
    """One page in all views, the others in one, details of one: it takes minutes for thousands of cells."""
    for view in each_view(browser, [pages[1]]):
        assert serious(browser) == [], view
    for page in pages:
        browser.open(page, 390, "dark")
        assert serious(browser) == [], page.stem
    browser.open(pages[2], 390, "light")
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert serious(browser) == []


def serious(browser: Browser) -> list[str]:
    """What axe calls serious or critical."""
    browser.evaluate(f"{AXE.read_text(encoding='utf-8')};0")
    found = json.loads(browser.evaluate("axe.run().then(found => JSON.stringify(found.violations))"))
    return [shown(each) for each in found if each["impact"] in ("serious", "critical")]


def shown(violation: dict[str, Any]) -> str:
    """What axe found, and in which element first."""
    return f"{violation['id']}: {violation['help']}: {violation['nodes'][0]['html']}"

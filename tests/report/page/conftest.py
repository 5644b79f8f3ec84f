"""A browser for the tests of the page, and pages in it that see no network."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.report.page.made import Made
    from tests.report.page.opening import Opened

_FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium without a window, one for the session."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium: install the package chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, chromium_sandbox=False, args=list(_FLAGS)
        )
        yield started
        started.close()


@pytest.fixture
def opened(browser: "Browser", tmp_path: Path) -> "Iterator[Callable[..., Opened]]":
    """Opens a page's HTML from a file; at the end, nothing may have gone wrong in it."""
    from tests.report.page.opening import Opened

    pages: list[Opened] = []

    def open_page(html: str, **asked: object) -> Opened:
        path = tmp_path / f"page{len(pages)}.html"
        path.write_bytes(html.encode("utf-8"))
        page = Opened.of(browser, path, **asked)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture
def sentence(seed: int) -> "Made":
    """A sentence of twelve tokens through two layers of two heads."""
    from tests.report.fakes import FakeTrace
    from tests.report.page.made import made

    words = ("The", " animal", " did", " not", " cross", " the", " street", " because", " it")
    trace = FakeTrace.of(*words, " was", " tired", ".", layers=(0, 1), heads=2)
    return made(trace, seed=seed, target=8)

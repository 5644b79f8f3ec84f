"""Make the README's picture of a report page: the page of one sentence, as a browser shows it.

python docs/page_picture.py [docs/page.png]

Needs Chromium (Debian's package ``chromium``) and playwright, which the extra ``test`` brings.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "The animal did not cross the street because it was tired."
TOKEN = "it"
WIDTH = 1100
FLAGS = ["--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main(target: Path, sentence: str = SENTENCE, token: str = TOKEN) -> None:
    """Trace the sentence, write its page, and take a picture of what tells the story."""
    import clearhead as ch
    from clearhead.report.build import build_report
    from clearhead.report.page import write_report

    traced = ch.trace(ch.from_pretrained("smollm2"), sentence)
    report = build_report(traced, token=token)
    command = f'clearhead look "{sentence}" --token {token} --html page.html'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        write_report(traced, report, path, command=command)
        photograph(path, target)
    print(f"{target}: {target.stat().st_size:,} bytes")  # noqa: T201  said to whoever runs it


def photograph(path: Path, target: Path) -> None:
    """Picture the page from its head to the end of the heads' maps."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=False, args=FLAGS
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        page.wait_for_selector("#steps[aria-busy=false]", state="attached")
        page.screenshot(path=target, full_page=True, clip=_story(page))
        browser.close()


def _story(page: "Page") -> dict[str, float]:
    """From the head line down to the strongest sources: what the first look shows."""
    box = page.locator("#sources").bounding_box()
    bottom = 900 if box is None else box["y"] + box["height"] + 8
    return {"x": 0, "y": 0, "width": WIDTH, "height": bottom}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/page.png"))

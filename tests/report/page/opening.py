"""A page that is open in a browser, and what a test asks of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

__all__ = ["Opened"]

# What breaks the policy is told to nobody but this event.
_WATCH = """
window.__broken = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.__broken.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@dataclass(eq=False)
class Opened:
    """One page from a file, offline, and everything that went wrong in it."""

    context: "BrowserContext"
    page: "Page"
    path: Path
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, browser: "Browser", path: Path, *, width: int = 1100, script: bool = True, **asked: Any
    ) -> "Opened":
        """Open a file and wait until its module has drawn what it shows."""
        context = browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script, **asked
        )
        context.set_offline(True)
        context.set_default_timeout(60_000)  # a busy machine is no fault
        self = cls(context, context.new_page(), path)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda said: self.complaints.append(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.add_init_script(_WATCH)
        self.page.goto(path.as_uri())
        if script:
            self.settled()
        return self

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def settled(self) -> None:
        """Wait until the steps of the chosen head, which come last, are drawn."""
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.page.wait_for_selector("#steps[aria-busy=false]", state="attached")

    def text(self, selector: str) -> str:
        """The text of one element."""
        return self.page.locator(selector).first.text_content() or ""

    def cells(self, table: str) -> list[list[str]]:
        """The text of a table's cells, row by row, its headings left out."""
        script = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        return self.page.eval_on_selector_all(f"{table} tbody tr", script)

    def shown_details(self, summary: str) -> str:
        """Open what stands folded under a summary, and name its table."""
        holder = f"details:has(> summary:text-is('{summary}'))"
        self.page.locator(f"{holder} > summary").first.click()
        return f"{holder} table"

    def close(self) -> None:
        """Close it; nothing may have been asked of a network or complained of."""
        broken = self.page.evaluate("window.__broken ?? []")
        self.context.close()
        assert self.requests == [self.path.as_uri()]
        assert not broken
        assert not self.complaints

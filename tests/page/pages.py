"""Pages in a browser, as a user opens them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def open_page(browser: Browser, path: Path, **options: Any) -> tuple[Page, list[str]]:
    """Open a file; return the page and what it complains about or tries to load."""
    page = browser.new_context(**options).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url == path.as_uri() else complaints.append(request.url))
    page.goto(path.as_uri())
    return page, complaints


def parse(text: str) -> html.HtmlElement:
    """Return a page as elements."""
    return html.document_fromstring(text)


def text_of(element: html.HtmlElement) -> str:
    """Return the text of an element, on one line."""
    return " ".join(element.text_content().split())

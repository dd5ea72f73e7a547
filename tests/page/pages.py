"""Pages in a browser, as a user opens them."""

from lxml import html


def open_page(browser, path, **options):
    """Open a file; return the page and what it complains about or tries to load."""
    page = browser.new_context(**options).new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url == path.as_uri() else complaints.append(request.url))
    page.goto(path.as_uri())
    return page, complaints


def parse(text):
    """Return a page as elements."""
    return html.document_fromstring(text)


def read_page(path):
    return parse(path.read_text("utf-8"))


def text_of(element):
    """Return the text of an element, on one line."""
    return " ".join(element.text_content().split())

"""A Sphinx extension: after the build, every link inside the site leads to a page, a file or a heading that is there."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging


class Page(HTMLParser):
    """The anchors of a page and what it points to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links = {""}, set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        link = given.get("href") if tag in ("a", "link") else given.get("src")
        if link:
            self.links.add(link)


def dead_links(folder: Path) -> list[tuple[str, str]]:
    """(page, link) for each link that leads nowhere."""
    pages = {path: Page(path) for path in sorted(folder.resolve().rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchored = target not in pages or unquote(parts.fragment) in pages[target].anchors
            if not target.exists() or not anchored:
                dead.append((path.relative_to(folder.resolve()).as_posix(), link))
    return dead


def report(app, exception) -> None:
    if exception is None and app.builder.name == "html":
        for page, link in dead_links(Path(app.outdir)):
            logging.getLogger(__name__).warning("%s: the link %s leads nowhere", page, link)


def setup(app) -> dict:
    app.connect("build-finished", report)
    return {"parallel_read_safe": True}

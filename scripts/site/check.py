"""Checks every link, image, anchor and heading of the built site, that no page loads anything from elsewhere, and that
the search finds the terms that readers look for.
"""

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Terms that readers search for, as the search splits pages into words.
SEARCHED = (
    "LockLost",
    "LockTimeout",
    "cron",
    "ioredis",
    "redis-py",
    "fencing",
    "Sentinel",
    "pytest",
)


class Links(HTMLParser):
    """Collects a page's links, its anchors, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        address = given.get("href") or given.get("src")
        if address is None or given.get("rel") in ("canonical", "edit", "prev", "next"):
            return
        self.links.append(address)
        if tag != "a":
            self.loaded.append(address)


def is_rustdoc(page: Path) -> bool:
    """Whether cargo doc wrote the page. It checks its own links."""
    return page.parts[:2] == ("reference", "rust") and page.parts[2:] != ("index.html",)


def broken(site: Path) -> Iterator[str]:
    files = [
        file for file in sorted(site.rglob("*.html")) if not is_rustdoc(file.relative_to(site))
    ]
    pages = {file: Links(file.read_text()) for file in files}
    count = 0
    for file, page in pages.items():
        shown = file.relative_to(site)
        if file.name != "404.html" and page.headings.count(1) != 1:
            yield f"{shown}: {page.headings.count(1)} headings of level 1"
        for before, level in pairwise(page.headings):
            if level > before + 1:
                yield f"{shown}: a heading of level {level} follows one of level {before}"
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{shown}: loads {address}"
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            # The error page is shown at any address, so its links begin at the site's root.
            start = site if parts.path.startswith("/") else file.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{shown}: leads nowhere: {address}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{shown}: no such anchor: {address}"
    print(f"{count} links on {len(pages)} pages")


def not_found(site: Path) -> Iterator[str]:
    """Yields the searched terms that the index of the search does not contain."""
    pages = json.loads((site / "search/search_index.json").read_text())["docs"]
    text = " ".join(f"{page['title']} {page['text']}" for page in pages)
    words = set(re.findall(r"[\w-]+", re.sub(r"<[^>]*>", " ", text).lower()))
    for term in SEARCHED:
        if term.lower() not in words:
            yield f"the search does not find {term}"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    found = [*broken(site), *not_found(site)]
    print(f"{len(found)} broken", *found, sep="\n    ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

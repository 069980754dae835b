"""Checks every link, image, anchor and heading of the built site, and that no page loads anything from elsewhere.

Also checks what the search finds, and what the pages of the API show.
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
    """Yields the searched terms that the index of the search does not contain, and pages that it must not contain."""
    pages = json.loads((site / "search/search_index.json").read_text())["docs"]
    for page in pages:
        if page["location"].startswith("contributing/"):
            yield f"the search finds a page for maintainers: {page['location']}"
    text = " ".join(f"{page['title']} {page['text']}" for page in pages)
    words = set(re.findall(r"[\w-]+", re.sub(r"<[^>]*>", " ", text).lower()))
    for term in SEARCHED:
        if term.lower() not in words:
            yield f"the search does not find {term}"


#: What each page shows to its readers.
SHOWN = {
    "index.html": [r"<title>redlock-native</title>", r"<h1[^>]*>redlock-native<", r'rel="next"'],
    "reference/options/index.html": [
        r'<td data-label="default">10 s</td>',
        r'<a id="ttl" href="#ttl">',
        r'<a id="client-node_timeout" ',
        r'class="md-footer__link md-footer__link--next"',
    ],
    # Signatures of constructors, and tables of options.
    "reference/python/index.html": [
        r'<span class="nf">Redlock</span>.*?<span class="n">connect_timeout</span>',
        r'<span class="nf">AsyncRedlock</span>.*?<span class="n">connect_timeout</span>',
        r'<td data-label="Name">\s*<code>connect_timeout</code>',
        r'<td data-label="Name">\s*<code>max_hold</code>',
    ],
    "reference/node/index.html": [r"<code>Lock</code></a>&lt;<code>Fencing</code>&gt;"],
    "concepts/renewal-and-loss/index.html": [r'class="mermaid"'],
}
#: What no page shows: an escaped bracket, and a kind of diagram for which the theme has no dark colors.
NOT_SHOWN = (r"\\&lt;", r"\bgantt\b")


def wrong(site: Path) -> Iterator[str]:
    """Yields what the pages of the API and the home page lack, and what they show but should not."""
    for page, patterns in SHOWN.items():
        text = (site / page).read_text()
        for pattern in patterns:
            if re.search(pattern, text, re.DOTALL) is None:
                yield f"{page} does not show {pattern}"
        for pattern in NOT_SHOWN:
            if re.search(pattern, text) is not None:
                yield f"{page} shows {pattern}"
        if "h6 { text-transform: none }" not in text:
            yield f"{page} shows the names of an API in capitals"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    found = [*broken(site), *not_found(site), *wrong(site)]
    print(f"{len(found)} broken", *found, sep="\n    ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

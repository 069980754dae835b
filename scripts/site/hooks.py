"""Hooks of mkdocs: pages from outside docs/, links that leave docs/, and titles of code blocks."""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
#: Files at the root of the repository that are pages of the site.
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/reporting.md",
}
SOURCES = {page: source for source, page in PROJECT.items()}
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Takes the repository's address from Cargo.toml, where scripts/home writes it."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    if "repository" in package:
        config.repo_url = package["repository"]
        config.repo_name = config.repo_url.rstrip("/").rsplit("/", 1)[1]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from the root of the repository."""
    for source, page in PROJECT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links and code block titles."""
    uri = page.file.src_uri
    source = SOURCES.get(uri, f"docs/{uri}")

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        elif path in PROJECT:
            inside = PROJECT[path]
        elif not (ROOT / path).exists():
            return match[0]  # mkdocs reports it
        elif config.repo_url:
            return f"[{text}]({config.repo_url}/blob/main/{path}{anchor})"
        else:
            return text
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{anchor})"

    markdown = LINK.sub(link, markdown)
    return re.sub(r"^( *```\w+) ([\w./-]+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)

"""Hooks of mkdocs: pages from outside docs/, links that leave docs/, and titles of code blocks."""

import ast
import posixpath
import re
import shutil
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
#: Files at the root of the repository that are pages of the site.
PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/reporting.md",
}
#: What TypeDoc writes: the page of each of its files, its title and its first paragraph.
TYPEDOC = {
    "index": (
        "node",
        "Node.js API",
        "Everything that `redlock-native` exports, generated from its types. "
        "[Node.js](node-details.md) explains how to use it. "
        "[Options](options.md) and [errors](errors.md) are the same in each language.",
    ),
    "testing": (
        "node-testing",
        "Node.js testing API",
        "Everything that `redlock-native/testing` exports, for the tests of programs.",
    ),
    "otel": (
        "node-otel",
        "Node.js OpenTelemetry API",
        "Everything that `redlock-native/otel` exports. "
        "[Logs, metrics and traces](../how-to/logs-and-metrics.md) shows its use.",
    ),
}
#: A copy of the Python package.
PYTHON = ROOT / "target/site-python/redlock"
#: A docstring of several lines, and its indentation.
DOCSTRING = re.compile(r'^( *)""".*?"""', re.MULTILINE | re.DOTALL)
#: The output of cargo doc. Without cargo it is not there.
RUSTDOC = ROOT / "target/site-rustdoc/doc"
SOURCES = {page: source for source, page in PROJECT.items()}
#: The options in a docstring: `- NAME: TEXT`, and the lines that continue it. `default` is only in another overload.
OPTIONS = re.compile(r"((?:^ *- (?!default:)\w+: .*\n(?:^ +(?!- )\S.*\n)*)+)", re.MULTILINE)
#: The constructor of a class in the stubs. `Never` marks one that programs cannot call.
CONSTRUCTOR = re.compile(r"def __new__\(cls, /, ((?:(?!Never).)*?)\) -> \w+:")
RUSTDOC_LINK = '<a href="redlock/index.html">Documentation of the crate</a>'
#: The column of mkdocstrings with the default in the signature. It is `None` for most options. The description has the
#: value that applies.
DEFAULT = re.compile(
    r"<th>Default</th>|<td>\s*(?:<code>(?:(?!</td>).)*</code>|<em>required</em>)\s*</td>(?=\s*</tr>)",
    re.DOTALL,
)
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
#: A table with this number of columns is wide.
WIDE = 3
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Takes the repository's address from Cargo.toml, where scripts/home writes it. Prepares the Python sources."""
    copy_python()
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    if "repository" in package:
        config.repo_url = package["repository"]
        config.repo_name = config.repo_url.rstrip("/").rsplit("/", 1)[1]
    return config


def copy_python() -> None:
    """Copies the Python package to where mkdocstrings reads it, without a built extension module."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    PYTHON.mkdir(parents=True)
    for file in (ROOT / "bindings-python/python/redlock").glob("*.py*"):
        if file.suffix in (".py", ".pyi"):
            text = file.read_text()
            if file.suffix == ".pyi":
                text = CONSTRUCTOR.sub(r"def __init__(self, \1) -> None:", with_functions(text))
            (PYTHON / file.name).write_text(DOCSTRING.sub(with_sections, text))


def with_functions(stub: str) -> str:
    """Removes `overload` from the last overload of each function. mkdocstrings finds no function without one."""
    lines = stub.splitlines(keepends=True)
    for owner in ast.walk(ast.parse(stub)):
        if isinstance(owner, ast.Module | ast.ClassDef):
            functions = [
                node
                for node in owner.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            last = {node.name: node for node in functions if node.decorator_list}
            for node in last.values():
                if ast.unparse(node.decorator_list[0]) == "typing.overload":
                    lines[node.decorator_list[0].lineno - 1] = "\n"
    return "".join(lines)


def with_sections(docstring: re.Match[str]) -> str:
    """Puts options and examples into separate sections, which mkdocstrings shows as tables and code."""
    indent, lines, inside = docstring[1], [], False

    def arguments(options: re.Match[str]) -> str:
        return (
            f"{indent}Args:\n"
            + re.sub(r"^ *(- )?", as_argument, options[1], flags=re.MULTILINE)
            + "\n"
        )

    def as_argument(start: re.Match[str]) -> str:
        return indent + " " * (4 if start[1] else 8)

    for line in OPTIONS.sub(arguments, docstring[0]).splitlines():
        text = line.strip()
        if text == "Example:":
            continue
        if text.startswith(">>> ") and not inside:
            inside, shift = True, len(line) - len(line.lstrip())
            lines.append(f"{indent}Examples:")
        inside = inside and text not in ("", '"""')
        lines.append(f"{indent}    {line[shift:]}" if inside else line)
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from the root of the repository."""
    for source, page in PROJECT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for name, (page, title, intro) in TYPEDOC.items():
        text = (ROOT / f"target/typedoc/{name}.md").read_text()
        text = text.replace(f"# {name}\n", f"# {title}\n\n{intro}\n", 1)
        # Python's Markdown would show the backslash.
        text = text.replace("\\<", "&lt;")
        for other, (target, *_) in TYPEDOC.items():
            text = text.replace(f"]({other}.md", f"]({target}.md")
        files.append(File.generated(config, f"reference/{page}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links and code block titles. Removes pages for maintainers from the search."""
    uri = page.file.src_uri
    if uri.startswith("contributing/"):
        page.meta["search"] = {"exclude": True}
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

    if uri == "reference/rust.md" and RUSTDOC.exists():
        markdown = markdown.replace("<!-- rustdoc -->", RUSTDOC_LINK)
    markdown = LINK.sub(link, markdown)
    return re.sub(r"^( *```\w+) ([\w./-]+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Labels the cells of tables. Links the pages that docstrings name, as in `NAMED`."""
    uri = page.file.src_uri
    if uri == "reference/python.md":
        html = DEFAULT.sub("", html)
    html = TABLE.sub(with_labels, html)
    if not re.fullmatch(r"reference/(python|node|node-testing|node-otel)\.md", uri):
        return html

    def link(match: re.Match[str]) -> str:
        title = " ".join(match[1].split())
        # The policy of the project has the title of another page.
        pages = [
            file for file in files.documentation_pages() if file.src_uri not in PROJECT.values()
        ]
        found = [file for file in pages if title_of(file) == title]
        if len(found) != 1:
            raise PluginError(f"{uri}: there is no page {title!r}")
        url = found[0].url_relative_to(page.file)
        return f'<a href="{url}{match[2] or ""}">{match[0]}</a>'

    return NAMED.sub(link, html)


#: A page in a docstring, by its title, such as "the page Troubleshooting#timeout of the documentation".
NAMED = re.compile(r"page\s+([A-Z][\w\s]*?)(#[\w-]+)?(?=\s+of\s+the\s+documentation)")


def title_of(file: File) -> str | None:
    """Returns the first heading of a page."""
    match = re.search("^# (.*)$", file.content_string, re.MULTILINE)
    return match and match[1]


def with_labels(table: re.Match[str]) -> str:
    """Writes the heading of its column into each cell. On a phone, wide tables are shown as lists of cells."""
    head = [
        re.sub(r"<.*?>", "", cell)
        for cell in re.findall(r"<th(?: [^>]*)?>(.*?)</th>", table[0], re.S)
    ]
    if len(head) < WIDE or not all(head[1:]):
        return table[0]

    def row(match: re.Match[str]) -> str:
        labels = iter(head)
        return re.sub(r"<td(?=[ >])", lambda _: f'<td data-label="{next(labels)}"', match[0])

    rows = re.sub(r"<tr[^>]*>.*?</tr>", row, table[0], flags=re.S)
    # The theme styles only tables without a class.
    return rows.replace("<table>", "<table data-wide>", 1)


def on_post_build(config: MkDocsConfig) -> None:
    """Copies the documentation of the Rust crate beside its page."""
    if RUSTDOC.exists():
        shutil.copytree(RUSTDOC, Path(config.site_dir) / "reference/rust", dirs_exist_ok=True)

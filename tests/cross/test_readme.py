"""The README's examples are the files of examples/quickstart. The tables of all pages are complete, and their links
work.
"""

import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import redlock

from tests.servers import Server

from .agents import ROOT, built

QUICKSTART = ROOT / "examples" / "quickstart"
FENCES = {"py": "python", "mjs": "js", "rs": "rust"}
QUICKSTART_OUTPUT = "holding lock:orders:42\nreleased\n"


def example(extension: str) -> str:
    """Returns the file without the line that documents it as a crate."""
    return re.sub(r"\A//! .*\n\n", "", (QUICKSTART / f"quickstart.{extension}").read_text())


@pytest.mark.parametrize("extension", FENCES)
def test_readme_shows_the_file(extension: str) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"```{FENCES[extension]}\n(.*?)```", readme, re.DOTALL)
    assert example(extension) in blocks


def test_same_words_in_three_languages() -> None:
    """The comments differ only where the languages do: throw, raise, fail, and block, function, drop."""
    comments = [re.findall(r"(?:#|//) (.*)", example(extension)) for extension in FENCES]
    assert len({len(each) for each in comments}) == 1
    assert len({each[0] for each in comments}) == 1


def test_readmes_of_the_packages_are_current() -> None:
    """scripts/readmes generates them."""
    done = subprocess.run([ROOT / "scripts/readmes", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tables_of_the_reference_are_current() -> None:
    """scripts/reference generates them from the core."""
    done = subprocess.run([ROOT / "scripts/reference", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_comparison_says_the_same_on_its_page() -> None:
    page = rows((ROOT / "docs/concepts/comparison.md").read_text())
    table = section("README.md", "Comparison").split("\n\n")
    (table,) = [part for part in table if part.startswith("| |")]
    assert rows(table).items() <= page.items()
    assert len(rows(table)) > 8


def commands() -> dict[str, str]:
    """Returns the commands of the README's section for the first steps, with what it says about each."""
    (block,) = re.findall(r"```sh\n(.*?)```", section("README.md", "Try it"), re.DOTALL)
    return dict(line.split("  # ") for line in block.splitlines())


def test_readme_begins_with_a_sentence_an_example_and_the_commands() -> None:
    start = section("README.md", "redlock-native")
    pattern = r"\n([^\n]+)\.\n\n```python\n(.*?)```\n\n(.*)"
    found = re.match(pattern, start, re.DOTALL)
    assert found
    sentence, _, install = found.groups()
    assert ". " not in sentence
    assert install.count("pip install") == 1
    assert "```" not in install
    assert [*commands()] == ["make demo", "make test"]
    assert all("minutes with the first build" in said for said in commands().values())
    titles = re.findall("^## (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert titles[:3] == ["Try it", "Comparison", "Install"]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    (run,) = [line for line in lines if line.startswith("make ")]
    _, test = commands()
    assert run.split(" <")[0] == test
    targets = (ROOT / "Makefile").read_text()
    for command in commands():
        assert f"\n{command.removeprefix('make ')}: " in targets


#: What a promise of a notification in advance must be limited to.
LIMITS = r"renewals? fail|cannot be renewed|cut off|deadline|its holders lose them|min_replicas|is lost at|frozen"


def test_notification_in_advance_is_promised_only_if_renewals_fail() -> None:
    """If the key is deleted, another client may acquire the lock first (test_notified_first.py)."""
    promises = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(
            r"before (another|any other|the next) client (can|could) acquire", text
        ):
            start = max(text.rfind("\n|", 0, match.start()), text.rfind("\n\n", 0, match.start()))
            promises.append(text[start : match.end()])
            assert re.search(LIMITS, promises[-1]), (page, promises[-1])
    assert len(promises) > 5


def test_rust_names_of_tls_options() -> None:
    """The options page says that Rust has them as methods of `TlsOptions`, without the prefix."""
    assert "`TlsOptions`](rust-details.md#clients-and-locks) without `tls_`" in (
        ROOT / "docs/reference/options.md"
    ).read_text().replace("\n", " ")
    named = [
        re.search(r"`tls_(\w+)`", cell)
        for cell in rows((ROOT / "docs/reference/options.md").read_text())
    ]
    files = [file.read_text() for file in (ROOT / "core/src/node/redis/io/tls").rglob("*.rs")]
    (body,) = [
        body
        for body in re.findall(r"^impl TlsOptions \{.*?^\}", "".join(files), re.M | re.S)
        if "pub fn ca(" in body
    ]
    methods = set(re.findall(r"pub fn (\w+)\(mut self", body))
    assert {match[1] for match in named if match} == methods - {"config"}


def test_limits_on_the_pages_are_those_of_the_core() -> None:
    """The time for a probe of an idle connection, and for the connections of a single attempt."""
    core = "".join(file.read_text() for file in sorted((ROOT / "core/src").rglob("*.rs")))
    for constant in (
        "const PROBE: (Duration, u32) = (Duration::from_millis(500), 3);",
        "const TICK: Duration = Duration::from_millis(250);",
        "const CONNECT_MARGIN: Duration = Duration::from_millis(500);",
        "let margin = (self.connect_timeout / 10).max(CONNECT_MARGIN);",
    ):
        assert constant in core
    for page, text in (
        ("operate/managed.md", "The reply has 0.5 s, or three round trips if that is longer"),
        ("operate/managed.md", "checks this every 0.25 s"),
        ("how-to/inspect.md", "plus a tenth of it or 0.5 s, whichever is longer"),
    ):
        assert text in (ROOT / "docs" / page).read_text().replace("\n", " ")


def test_list_of_faster_libraries_has_every_handoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks page lists a case of any size in which another library is faster."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    behind, cases, figures = (
        importlib.import_module(name) for name in ("behind", "cases", "figures")
    )
    samples = {
        "redlock, Rust": [{"round": 0, "p50": 200.0}],
        "rslock": [{"round": 0, "p50": 100.0}],
    }
    for case in cases.handoffs():
        results = {"cases": {case.key: {"samples": samples}}}
        (line,) = behind.behind(figures.Figures(results))
        assert line.startswith(f"- handoff, {case.processes} x {case.callers} waiting caller"), line
        assert line.endswith("a factor of 2.00."), line


def test_examples_install_this_clone() -> None:
    """No package is published, so the name alone would install nothing, or another package."""
    readme = (ROOT / "examples/README.md").read_text()
    folder = ROOT / "examples/server/fastapi"
    needs = (folder / "requirements.txt").read_text().splitlines()
    paths = [line for line in needs if line.startswith(".")]
    assert [(folder / path).resolve() for path in paths] == [ROOT]
    express = json.loads((ROOT / "examples/server/express/package.json").read_text())
    path = express["dependencies"]["redlock-native"].removeprefix("file:")
    assert (ROOT / "examples/server/express" / path).resolve() == ROOT
    installs = re.findall(r"`(?:pip|npm) install([^`&]*)", readme)
    assert installs == [
        " ",
        " -r requirements.txt ",
        " '../..[otel]' opentelemetry-exporter-prometheus ",
    ]


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 155


def run(extension: str, source: str, folder: Path) -> str:
    """Runs an example from a copy beside the original, so that its imports resolve identically."""
    match extension:
        case "rs":
            command = [built("quickstart")]
        case "py":
            command = [sys.executable, "-c", source]
        case _:
            command = ["node", "--input-type=module", "--eval", source]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


# The Rust example is compiled first.
@pytest.mark.limit(600)
@pytest.mark.parametrize("extension", FENCES)
def test_in_memory(extension: str) -> None:
    assert run(extension, example(extension), ROOT) == QUICKSTART_OUTPUT


@pytest.mark.parametrize("extension", ["py", "mjs"])
def test_over_a_real_server(extension: str, five: list[Server]) -> None:
    source = example(extension).replace("memory://", five[0].url)
    assert run(extension, source, ROOT) == QUICKSTART_OUTPUT
    assert five[0].get("lock:orders:42") is None


TROUBLESHOOTING = "docs/operate/troubleshooting.md"
ERRORS = tomllib.loads((ROOT / "tests/vectors/errors.toml").read_text())["error"]
DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if ".venv" not in page.parts]
PAGES = [ROOT / "README.md", *ROOT.glob("*/README.md"), *DOCS]
PAGES += [ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]


def section(page: str, title: str) -> str:
    """Returns the text under a heading."""
    return (ROOT / page).read_text().split(f"# {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> dict[str, list[str]]:
    """Returns the rows of all tables in a text by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_is_whole(page: Path) -> None:
    """A table begins with a header and a rule, and each row has as many cells as the header."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text().replace("\\|", ""), re.MULTILINE):
        head, rule, *body = table.splitlines()
        assert re.fullmatch(r"(\|-+)+\|", rule), head
        assert {line.count("|") for line in body} == {head.count("|")}, head


def test_every_option_has_a_row() -> None:
    first = rows((ROOT / "docs/reference/options.md").read_text())
    documented = {
        name
        for cell in first
        for name in re.findall(r'^<a id="[\w-]+" href="#[\w-]+">`(\w+)`</a>', cell)
    }
    given = {*inspect.signature(redlock.Redlock).parameters}
    for describe in (
        redlock.Redlock.lock,
        redlock.Redlock.semaphore,
        redlock.Redlock.once,
        redlock.Redlock.leader,
    ):
        given |= {*inspect.signature(describe).parameters}
    # `default` is of Python's decorators, and not in the core's table.
    assert documented == given - {"self", "name", "nodes", "args", "kwargs", "default"}


def test_every_kind_and_reason_has_a_heading_of_troubleshooting() -> None:
    """An error can then be linked to by its code and reason."""
    files = [file.read_text() for file in (ROOT / "core/src").rglob("*.rs")]
    (core,) = [text for text in files if "pub enum LossReason" in text]
    words = core.split("impl LossReason")[1].split("fn explanation")[0]
    reasons = re.findall(r'Self::\w+ => "(\w+)"', words)
    assert len(reasons) == 9
    expected = {f"`{error['kind']}`" for error in ERRORS} - {"`lost`"}
    expected |= {f"`lost`: `{reason}`" for reason in reasons} | {"`internal`"}
    text = section(TROUBLESHOOTING, "Errors")
    assert set(re.findall("^### (.*)$", text, re.MULTILINE)) == expected


def test_every_command_is_on_the_page_of_keys() -> None:
    """The commands that scripts call, and those that a user needs permission for."""
    page = (ROOT / "docs/reference/keys.md").read_text()
    scripts = "".join(file.read_text() for file in (ROOT / "core/src").rglob("*.lua"))
    needed = set(re.findall(r"\bp?call\('(\w+)'", scripts))
    for rights in (ROOT / "tests/vectors").glob("rights*.txt"):
        allowed = re.findall(r" \+([\w|]+)", rights.read_text())
        needed |= {command.replace("|", " ").upper() for command in allowed}
    assert len(needed) > 20
    assert not [command for command in sorted(needed) if not re.search(rf"`{command}\b", page)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error["class"])
def test_an_error_s_documentation_links_to_its_remedies(error: dict[str, str]) -> None:
    headings = re.findall("^### (.*)$", section(TROUBLESHOOTING, "Errors"), re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", heading.replace(" ", "-")) for heading in headings}
    linked = "lost-expired" if error["kind"] == "lost" else error["kind"]
    assert linked in anchors
    node = (ROOT / "bindings-node/ts/errors/errors.ts").read_text()
    before = node.split(f"export class {error['class']} ")[0]
    rust = (ROOT / "core/src/error/kind.rs").read_text().split("pub enum ErrorKind")[1]
    variant = re.findall(r"((?:^ *///.*\n)+) *\w+,\n", rust, re.MULTILINE)[ERRORS.index(error)]
    for text in (getattr(redlock, error["class"]).__doc__, before[before.rindex("/**") :], variant):
        assert re.findall(r"the page Troubleshooting#([\w-]+) of the documentation", text) == [
            linked
        ]


#: The sources of the packages.
SOURCES = [
    *(ROOT / "core/src").rglob("*.rs"),
    *(ROOT / "bindings-python/src").rglob("*.rs"),
    *(ROOT / "bindings-python/python").rglob("*.py*"),
    *(ROOT / "bindings-node/src").rglob("*.rs"),
    *(ROOT / "bindings-node/ts").rglob("*.ts"),
]
#: A path of the documentation in this tree, but not the part of an address.
DOCS_PATH = re.compile(r"(?<![\w./])(?:\.\./)?docs/\w[\w/.-]*")
#: A page by its title, and a heading on it. The text may be wrapped.
NAMED_PAGE = re.compile(r"page ([A-Z][\w ]*?)(#[\w-]+)? of the documentation")


def test_package_texts_name_pages_and_not_files() -> None:
    """Users of the packages do not have the folder `docs`. Comments for maintainers may name its files."""
    named = set()
    titles = {page.read_text().split("\n")[0].removeprefix("# "): page for page in DOCS}
    for source in SOURCES:
        if source.suffix == ".pyc" or "tests" in source.relative_to(ROOT).parts:
            continue
        code = re.sub(r"^ *(//(?![/!])|#).*$", "", source.read_text(), flags=re.MULTILINE)
        assert not DOCS_PATH.findall(code), source
        # Joins wrapped lines of comments, and of texts.
        for title, anchor in NAMED_PAGE.findall(re.sub(r"\\?\n\s*(///?|//!|\*)?\s*", " ", code)):
            page = titles[" ".join(title.split())].read_text()
            headings = re.findall("^#+ (.*)$", page, re.MULTILINE)
            slugs = {re.sub(r"[^\w-]", "", text.lower().replace(" ", "-")) for text in headings}
            assert not anchor or anchor[1:] in slugs, (source, title, anchor)
            named.add((title, anchor))
    assert len(named) > 10


def test_other_libraries_options_are_refused_with_ours() -> None:
    """The library recognizes every option that the migration table lists for Python."""
    client = redlock.Redlock("memory://")
    for option, ours in {"timeout": "ttl", "blocking_timeout": "wait", "blocking": "wait"}.items():
        row = rows(section("docs/migrate/index.md", "Which option is which"))
        assert any(f"`{option}" in first and f"`{ours}" in rest[-1] for first, rest in row.items())
        with pytest.raises(redlock.InvalidOption, match=rf"Use.* {ours}\b"):
            client.lock("job", **{option: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[\w-]+)?\)", page.read_text()):
        assert (page.parent / link).exists(), link

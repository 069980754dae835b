"""The pages mention every public name of each package, and no name that does not exist."""

import importlib.util
import inspect
import re
import textwrap
import tomllib

import pytest
import redlock
from redlock import _log

from .agents import ROOT

USERS = [
    page
    for folder in ("how-to", "reference", "get-started", "concepts", "operate", "migrate")
    for page in sorted((ROOT / "docs" / folder).glob("*.md"))
]
#: All pages for users. The tables of api.md name what each language has.
PAGES = "\n".join(page.read_text() for page in USERS)
#: The pages about one language, besides their tabs on other pages.
ONE_LANGUAGE = {
    "Python": ["reference/python-details.md", "how-to/asyncio.md"],
    "Node.js": ["reference/node-details.md"],
    "Rust": ["reference/rust-details.md", "how-to/rust-runtimes.md"],
}


def tab(title: str) -> str:
    """Returns the text of a language: its columns of api.md, its tabs, and its pages."""
    api = (ROOT / "docs/reference/api.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in api.splitlines() if line.startswith("| ")]
    column = [*ONE_LANGUAGE].index(title) + 1
    found = [row[column] for row in rows if len(row) > column]
    found += [(ROOT / "docs" / page).read_text() for page in ONE_LANGUAGE[title]]
    for page in USERS:
        for tabs in re.findall(rf'^=== "{title}"\n((?:\n|    .*\n)+)', page.read_text(), re.M):
            found.append(textwrap.dedent(tabs))
    return "\n".join(found)


PYTHON = tab("Python")
NODE = tab("Node.js")
#: The names that the pages use for an object of a class.
OBJECTS = {
    "client": "Redlock",
    "lock": "Lock",
    "rwlock": "RwLock",
    "lease": "Lease",
    "leader": "Leader",
    "error": "LockError",
}


def public(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def code(page: str) -> str:
    """Returns the code of a page, both blocks and inline code."""
    blocks = re.findall(r"^ *```\w*(?: \S+)?\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", page)])


WORDS = {*re.findall(r"\w+", code(PAGES))}


def mentioned(name: str) -> bool:
    """Tells whether a page for users has a name. The pages spell options and fields as in Python."""
    snake = re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", name)
    return bool({name, snake if name[0].islower() else name} & WORDS)


@pytest.mark.parametrize(
    "owner",
    [
        redlock.Redlock,
        redlock.Lock,
        redlock.Lease,
        redlock.AsyncRedlock,
        redlock.AsyncLock,
        redlock.AsyncLease,
        redlock.Leader,
        redlock.AsyncLeader,
    ],
)
def test_python_has_every_method_where_it_belongs(owner: type) -> None:
    blocking = owner.__name__.removeprefix("Async")
    (called,) = [word for word, name in OBJECTS.items() if name == blocking]
    missing = {name for name in public(owner) if f"{called}.{name}" not in PYTHON}
    assert not missing


def test_python_has_every_name_and_field() -> None:
    fields = public(redlock.Inspection) | public(redlock.NodeInspection) | public(redlock.Stats)
    fields |= {*inspect.signature(redlock.LockError).parameters} - {"message"}
    # The page describes the result of inspect() by its fields.
    names = {*redlock.__all__} - {"NodeInspection"}
    assert {name for name in names | fields if not mentioned(name)} == set()


def test_python_has_every_option() -> None:
    given = {*inspect.signature(redlock.Redlock.lock).parameters}
    given |= {*inspect.signature(redlock.configure).parameters}
    given -= {"self", "args", "kwargs"}
    assert {name for name in given if not mentioned(name)} == set()


def test_python_names_nothing_else() -> None:
    # Loggers, spans, metrics and their attributes also have names of this form.
    package = ROOT / "bindings-python" / "python" / "redlock"
    spoken = {*re.findall(r'"redlock\.(\w+)', (package / "otel.py").read_text()), *_log.TOPICS}
    for called, name in re.findall(r"\b(client|lock|rwlock|lease|redlock)\.(\w+)", code(PYTHON)):
        if called == "redlock" and name in spoken:
            continue
        names = [OBJECTS.get(called, ""), f"Async{OBJECTS.get(called)}"]
        owners: list[object] = [getattr(redlock, each) for each in names if hasattr(redlock, each)]
        if called == "redlock":
            owners = [redlock]
        # A module of the package is not an attribute before it is imported.
        module = called == "redlock" and importlib.util.find_spec(f"redlock.{name}")
        assert module or any(hasattr(owner, name) for owner in owners), f"{called}.{name}"


#: The modules of the Node.js package that declare public names.
FILES = (
    "client/client",
    "lock/lock",
    "lock/leader",
    "lock/rwlock",
    "lease/lease",
    "errors/errors",
    "options/client-options",
    "options/options",
    "errors/addresses",
)


def declared(file: str) -> str:
    return (ROOT / "bindings-node/dist" / f"{file}.d.ts").read_text()


def node_members(name: str) -> set[str]:
    """Returns the public members of a class or interface from the built types."""
    text = "\n".join(declared(file) for file in FILES)
    text += (ROOT / "bindings-node/ts/native.d.ts").read_text()
    (body,) = re.findall(
        rf"^export (?:declare )?(?:class|interface) {name}\b[^{{]*{{\n(.*?)^}}",
        text,
        re.MULTILINE | re.DOTALL,
    )
    found = re.findall(r"^ {2,4}(?:async |get |readonly )*(\w+)[?(:<]", body, re.MULTILINE)
    return {*found} - {"constructor"}


@pytest.mark.parametrize(("called", "name"), [*OBJECTS.items()][:5])
def test_node_has_every_method_where_it_belongs(called: str, name: str) -> None:
    members = node_members(name)
    assert len(members) > 3
    assert {each for each in members if f"{called}.{each}" not in NODE} == set()


def test_node_has_every_name_field_and_option() -> None:
    exported = re.findall(
        r"\b(\w+)(?=,| \})", " ".join(re.findall("{.*?}", declared("index"), re.S))
    )
    assert {"Redlock", "lock", "withLock", "configure", "LossReason", "AcquireOptions"} <= {
        *exported
    }
    names = {*exported} - {"type"}
    for interface in ("RedlockOptions", "LockOptions", "NodeReport"):
        names |= node_members(interface)
    for interface in ("AcquireOptions", "TryAcquireOptions", "UsingOptions"):
        names |= node_members(interface)
    for interface in ("LockError", "Inspection", "NodeInspection", "Stats"):
        names |= node_members(interface)
    assert {name for name in names if not mentioned(name)} == set()


def test_node_names_nothing_else() -> None:
    for called, name in re.findall(r"\b(client|lock|rwlock|lease)\.(\w+)", code(NODE)):
        assert name in node_members(OBJECTS[called]), f"{called}.{name}"


RUST = tab("Rust")
CORE = "\n".join(file.read_text() for file in sorted((ROOT / "core/src").rglob("*.rs")))
#: A lease has all methods of its handle.
HANDLE = "LeaseHandle"
#: They create a client and are not called on one.
MAKERS = {"builder", "from_env", "from_connection_info"}
#: Public for the bindings only.
FOR_BINDINGS = {"identity", "place", "owned_by", "acquired_at", "from_args"}


def rust_methods(owner: str) -> set[str]:
    """Returns the public functions of a type's own impl blocks, except those for the bindings."""
    bodies = re.findall(rf"^impl {owner} {{\n(.*?)^}}", CORE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"(#\[doc\(hidden\)\]\n\s*)?pub (?:async )?fn (\w+)", "\n".join(bodies))
    names = {name for hidden, name in found if not hidden and not name.endswith("_args")}
    return names - FOR_BINDINGS


def test_rust_has_every_method_where_it_belongs() -> None:
    for called, owner in {
        "client": "Redlock",
        "lock": "Lock",
        "rwlock": "RwLock",
        "lease": "Lease",
    }.items():
        methods = rust_methods(owner) | (rust_methods(HANDLE) if owner == "Lease" else set())
        methods -= MAKERS
        setters = rust_methods("Lock") & rust_options()
        missing = {name for name in methods - setters if f"{called}.{name}(" not in RUST}
        assert (len(methods) > 1, missing) == (True, set())
    rest = rust_methods("Builder") | rust_methods("Error") | rust_options() | MAKERS
    assert {name for name in rest if not mentioned(name)} == set()


def rust_options() -> set[str]:
    """Returns the builder methods of a lock, which take the lock and return it."""
    return {*re.findall(r"pub fn (\w+)\(mut self, \w+: [\w<> ]+\) -> Self", CORE)}


def test_rust_has_every_type() -> None:
    library = (ROOT / "core/src/lib.rs").read_text()
    exported = re.findall(r"^pub use [\w:]+::(?:(\w+)|{([^}]*)});", library, re.MULTILINE)
    names = re.findall(r"\w+", " ".join(" ".join(each) for each in exported))
    assert {"Redlock", "Lock", "Lease"} <= {*names}
    assert [name for name in names if not mentioned(name)] == []


def test_every_rust_method_is_in_an_example_that_cargo_runs() -> None:
    lines = re.findall(r"^ *//[/!](.*)$", CORE, re.MULTILINE)
    examples = "".join(re.findall(r"```\w*\n(.*?)```", "\n".join(lines), re.DOTALL))
    for owner in ["Redlock", "Builder", "Lock", "RwLock", "Lease", HANDLE, "Error", "LossReason"]:
        missing = {name for name in rust_methods(owner) if f"{name}(" not in examples}
        assert not missing, owner


def test_rust_names_nothing_else() -> None:
    known = {*re.findall(r"pub fn (\w+)", CORE)}
    called = {*re.findall(r"`(?:client|lock|rwlock|lease)\.(\w+)\(", RUST)}
    assert called
    assert called <= known


def test_every_code_and_reason_is_in_its_list() -> None:
    vectors = tomllib.loads((ROOT / "tests/vectors/errors.toml").read_text())
    kinds = {error["kind"] for error in vectors["error"]}
    listed = re.findall(r"^\| \[?`(\w+)`", (ROOT / "docs/reference/errors.md").read_text(), re.M)
    assert kinds <= {*listed}
    (sentence,) = re.findall(r"^The reasons are (.*)\.$", PAGES, re.M)
    words = CORE.split("impl LossReason")[1].split("fn explanation")[0]
    reasons = {*re.findall(r'Self::\w+ => "(\w+)"', words)}
    assert {*re.findall(r"`(\w+)`", sentence)} == reasons

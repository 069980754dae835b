"""The results of type checkers and of code that reads annotations."""

import ast
import re
import typing
from pathlib import Path
from typing import Any

import pytest
import redlock
import redlock.testing
import redlock.types

ROOT = Path(__file__).parents[2]
STUB = Path(redlock.__file__).with_name("_native.pyi").read_text()


@pytest.mark.parametrize(
    "owner",
    [
        redlock.Redlock,
        redlock.Lock,
        redlock.Lease,
        redlock.AsyncRedlock,
        redlock.AsyncLock,
        redlock.AsyncLease,
        redlock.testing.TestRedlock,
        redlock.testing.AsyncTestRedlock,
    ],
)
def test_type_hints_of_every_method_can_be_read(owner: Any) -> None:
    """Frameworks read them for injected objects. The types are in the stubs."""
    for name in dir(owner):
        method = getattr(owner, name)
        if callable(method) and hasattr(method, "__annotations__"):
            assert isinstance(typing.get_type_hints(method), dict)


@pytest.mark.parametrize("module", ["__init__", "errors", "otel", "testing", "types"])
def test_every_public_attribute_has_a_declared_type(module: str) -> None:
    """Required by `pyright --verifytypes`, because inferred types may differ between type checkers."""
    tree = ast.parse(Path(redlock.__file__).with_name(f"{module}.py").read_text())
    attributes = [
        target.attr
        for owner in tree.body
        if isinstance(owner, ast.ClassDef) and not owner.name.startswith("_")
        for function in owner.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Attribute)
    ]
    caught = [
        handler.name
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler) and handler.name
    ]
    assert not [name for name in attributes + caught if not name.startswith("_")]


def test_literal_types_have_the_words_of_the_core() -> None:
    core = (ROOT / "core/src/error/kind.rs").read_text()
    words = {
        name: re.findall(r'Self::\w+ => "(\w+)"', core.split(f"impl {name}")[1].split("\n}\n")[0])
        for name in ("ErrorKind", "NodeState", "LossReason")
    }
    words["ErrorKind"].append("internal")
    assert list(typing.get_args(redlock.types.ErrorCode)) == words["ErrorKind"]
    assert list(typing.get_args(redlock.types.NodeState)) == words["NodeState"]
    assert list(typing.get_args(redlock.types.LossReason)) == words["LossReason"]


@pytest.mark.parametrize(
    ("function", "type_name"), [("lock", "LockOptions"), ("semaphore", "SemaphoreOptions")]
)
def test_types_of_options_are_those_of_the_function(function: str, type_name: str) -> None:
    options = typing.get_type_hints(getattr(redlock.types, type_name))
    pattern = rf"\ndef {function}\(name: .*?, \*, (?!default)(.*?)\) -> Lock:"
    (given,) = re.findall(pattern, STUB)
    shown = {name: str(each).removeprefix("typing.") for name, each in options.items()}
    expected = ", ".join(f"{name}: {each} = None" for name, each in shown.items())
    assert expected == given.replace('"', "")


def of_class(name: str) -> str:
    return (
        STUB.partition(f"\nclass {name}:")[2]
        .partition("\n@typing.final\nclass ")[0]
        .partition("\nclass ")[0]
    )


@pytest.mark.parametrize("name", ["Redlock", "Lock", "Lease"])
def test_stubs_declare_the_context_manager_methods(name: str) -> None:
    for method in ("__aenter__", "__aexit__"):
        assert (f"    async def {method}(" in of_class(name)) == (name == "Lock")
        assert f"    async def {method}(" in of_class(f"Async{name}")
    for method in ("__enter__", "__exit__"):
        assert f"    def {method}(" in of_class(name)
        assert f"    def {method}(" not in of_class(f"Async{name}")


def test_signatures_have_only_public_types_and_visible_defaults() -> None:
    """Editors show them, and programs need the names for annotations."""
    tree = ast.parse(STUB)
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and not owner.name.startswith("_"):
            for function in owner.body:
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    verify_signature(function)
        elif isinstance(owner, ast.FunctionDef) and not owner.name.startswith("_"):
            verify_signature(owner)


def verify_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if function.name.startswith("_") and not function.name.startswith("__"):
        return
    # None is a value of `unavailable_after`, so its default cannot be None.
    arguments = re.sub(r"(unavailable_after: .*?)=\.\.\.", r"\1", ast.unparse(function.args))
    text = arguments + " -> " + ast.unparse(function.returns or ast.Name("?"))
    assert "..." not in re.sub(r"\.\.\.[,\]]", "", text), f"{function.name}: {text}"
    private = {*re.findall(r"\b_\w+", text)} - {"_P", "_R", "_T", "_D"}
    assert not private, f"{function.name}: {text}"


def test_stubs_return_self_from_enter_and_bool_from_bool() -> None:
    for method, owner in (
        (r"def __enter__\(self, /\)", "Redlock"),
        (r"async def __aenter__\(self\)", "AsyncRedlock"),
    ):
        assert re.search(method + ' -> "?(typing.)?Self"?:', of_class(owner))
    assert "def __bool__(self, /) -> bool:" in of_class("Lock")

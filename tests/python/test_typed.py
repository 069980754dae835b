"""The results of type checkers and of code that reads annotations."""

import ast
import re
import typing
from pathlib import Path
from typing import Any

import pytest
import redlock
import redlock.testing

STUB = Path(redlock.__file__).with_name("_native.pyi").read_text()


@pytest.mark.parametrize(
    "owner", [redlock.Redlock, redlock.Lock, redlock.Lease, redlock.testing.TestRedlock]
)
def test_every_method_has_type_hints_that_can_be_read(owner: Any) -> None:
    """Frameworks read them for injected objects. The types are in the stubs."""
    for name in dir(owner):
        method = getattr(owner, name)
        if callable(method) and hasattr(method, "__annotations__"):
            assert isinstance(typing.get_type_hints(method), dict)


@pytest.mark.parametrize("module", ["__init__", "errors", "otel", "testing"])
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


def of_class(name: str) -> str:
    return (
        STUB.partition(f"\nclass {name}:")[2]
        .partition("\n@typing.final\nclass ")[0]
        .partition("\nclass ")[0]
    )


@pytest.mark.parametrize("name", ["Redlock", "Lock", "Lease"])
def test_the_stubs_suit_exit_stacks(name: str) -> None:
    stub = of_class(name)
    for method in ("__aenter__", "__aexit__"):
        assert f"    async def {method}(" in stub


def test_the_stubs_keep_the_class_of_a_client_and_the_lines_behind_a_lock() -> None:
    for method in (r"def __enter__\(self, /\)", r"async def __aenter__\(self\)"):
        assert re.search(method + ' -> "?(typing.)?Self"?:', of_class("Redlock"))
    assert "def __bool__(self, /) -> bool:" in of_class("Lock")

"""What type checkers and readers of annotations find."""

import re
import typing
from pathlib import Path
from typing import Any

import pytest
import redlock

STUB = Path(redlock.__file__).with_name("_native.pyi").read_text()


@pytest.mark.parametrize("owner", [redlock.Redlock, redlock.Lock, redlock.Lease])
def test_every_method_has_type_hints_that_can_be_read(owner: Any) -> None:
    """As frameworks read them of what they inject. The types are in the stubs."""
    for name in dir(owner):
        method = getattr(owner, name)
        if callable(method) and hasattr(method, "__annotations__"):
            assert isinstance(typing.get_type_hints(method), dict)


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

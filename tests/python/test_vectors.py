"""The option limits and error codes that every language has in common: tests/vectors."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import redlock

VECTORS = Path(__file__).parent.parent / "vectors"
OPTIONS = tomllib.loads((VECTORS / "options.toml").read_text())
ERRORS = tomllib.loads((VECTORS / "errors.toml").read_text())["error"]


def lock(case: dict[str, Any]) -> object:
    options = {key: float(value) for key, value in case["seconds"].items()}
    client = redlock.Redlock(case.get("nodes", ["memory://"]))
    names = ["x" * case["long_name"]] if "long_name" in case else case.get("names", ["job"])
    return client.lock(names, **options)


def verify(case: dict[str, Any], make: Any) -> None:
    if "error" not in case:
        make()
        return
    with pytest.raises(redlock.InvalidOption) as caught:
        make()
    for word in case["error"]:
        assert word in str(caught.value)
    for word in case.get("never", []):
        assert word not in str(caught.value)


def about(case: dict[str, Any]) -> str:
    return str(case["about"])


IN_SECONDS = [
    {"seconds": {}} | case
    for case in OPTIONS["lock"]
    if "seconds" in case or "milliseconds" not in case
]


@pytest.mark.parametrize("case", IN_SECONDS, ids=about)
def test_lock_options(case: dict[str, Any]) -> None:
    verify(case, lambda: lock(case))


@pytest.mark.parametrize("case", OPTIONS["client"], ids=about)
def test_client_options(case: dict[str, Any]) -> None:
    verify(case, lambda: redlock.Redlock(case["nodes"]))


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: str(case["class"]))
def test_error_classes(case: dict[str, str]) -> None:
    kind = getattr(redlock, case["class"])
    assert issubclass(kind, redlock.LockError)
    assert kind.code == case["code"]
    if "python_also" in case:
        assert issubclass(kind, getattr(__import__("builtins"), case["python_also"]))
    assert str(kind("message")) == "message"

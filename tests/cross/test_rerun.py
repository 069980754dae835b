"""scripts/test: which failures it runs again, and its report."""

import importlib.util
import re
import sys
import textwrap
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    loader = SourceFileLoader("scripts_test", str(ROOT / "scripts/test"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # its dataclasses look themselves up there
    loader.exec_module(module)
    return module


runner = load()

#: The lines that make `.ci/run` fail.
(SKIPPED,) = re.findall(r"grep -aE '(.+)' ", (ROOT / ".ci/run").read_text())

#: A test that fails in its first RUNS runs. A file counts them.
PYTHON = """
from pathlib import Path

def test_other():
    pass

def test_counted():
    file = Path({file!r})
    runs = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (runs + 1))
    assert runs >= {failing}, {message!r}
"""
NODE = """
import assert from "node:assert";
import {{ appendFileSync, readFileSync }} from "node:fs";
import {{ describe, test }} from "node:test";
test("other (1)", () => {{}});
describe("group", () => {{
  test("counted [1] $", () => {{
    appendFileSync({file!r}, "x");
    assert(readFileSync({file!r}, "utf8").length > {failing}, {message!r});
  }});
}});
"""
#: Prints the output of libtest. The last argument is the name of one test.
CARGO = """
import sys
from pathlib import Path
file = Path({file!r})
runs = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (runs + 1))
alone = sys.argv[1:]
assert alone in ([], ["--exact", {test!r}]), alone
print("     Running tests/rust/main.rs (target/debug/deps/rust-1)")
if runs >= {failing}:
    print("test result: ok. 1 passed; 0 failed; 0 ignored")
    sys.exit(0)
print("failures:\\n\\n---- {test} stdout ----\\n{message}\\n\\n\\nfailures:\\n    {test}\\n")
print("test result: FAILED. 1 passed; 1 failed; 0 ignored")
sys.exit(101)
"""


def suite(language: str, folder: Path, failing: int, message: str, test: str = "a::b") -> object:
    values = {"file": str(folder / "runs"), "failing": failing, "message": message, "test": test}
    if language == "python":
        path = folder / "test_it.py"
        path.write_text(PYTHON.format(**values))
        command = [sys.executable, "-m", "pytest", f"--rootdir={folder}", "-p", "no:cacheprovider"]
        command += ["-o", "junit_family=xunit1", "--junitxml={report}", "-c", "/dev/null"]
        # The names in the report are relative to its working directory.
        command = ["sh", "-c", f'cd "{folder}" && exec "$@"', "sh", *command]
        return runner.Suite("python", command, [["test_it.py"]], runner.read_pytest)
    if language == "node":
        path = folder / "it.test.mjs"
        path.write_text(NODE.format(**values))
        command = runner.node().command
        return runner.Suite("node", command, [[str(path)]], runner.read_node)
    path = folder / "cargo.py"
    path.write_text(CARGO.format(**values))
    return runner.Suite("rust", [sys.executable, str(path)], [[]], runner.read_cargo)


NAMES = {
    "rust": "a::b",
    "python": "test_it.py::test_counted",
    "node": "it.test.mjs > group > counted [1] $",
}


def lines(output: str) -> list[str]:
    """Returns the last lines of the report: the verdicts and the count."""
    found = output.splitlines()
    return [
        line
        for line in found
        if line.startswith(("FLAKY ", "FAILED ")) or (line.endswith(" failed") and ", " in line)
    ][-2:]


@pytest.mark.parametrize("language", ["rust", "python", "node"])
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_a_failed_test_runs_again_twice_at_most(
    language: str, failing: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = runner.run([suite(language, tmp_path, failing, "unlucky")])
    output = capsys.readouterr().out
    *verdicts, count = lines(output)
    # `.ci/run` fails if a test is skipped.
    assert not re.search(SKIPPED, output, re.MULTILINE), output
    assert len((tmp_path / "runs").read_text()) == min(failing, 2) + 1
    assert status == (failing > 2)
    if failing in (1, 2):
        (line,) = verdicts
        assert line.startswith("FLAKY ")
        assert line.endswith(f"{NAMES[language]} ({failing} of {failing + 1})")
    elif failing:
        (line,) = verdicts
        assert line.startswith("FAILED ")
        assert line.endswith(NAMES[language])
    assert count.endswith(f", {int(failing > 2)} failed")


@pytest.mark.parametrize("language", ["rust", "python", "node"])
@pytest.mark.parametrize("message", ["two holders: 1 and 2", "ERROR: AddressSanitizer: overflow"])
def test_two_holders_and_sanitizer_findings_never_run_again(
    language: str, message: str, tmp_path: Path
) -> None:
    assert runner.run([suite(language, tmp_path, 1, message)]) == 1
    assert (tmp_path / "runs").read_text() == "x"


def test_the_simulation_never_runs_again(tmp_path: Path) -> None:
    test = "simulation::all_guarantees_hold"
    assert runner.run([suite("rust", tmp_path, 1, "a seed", test)]) == 1
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("     Running a\ntest result: ok. 1 passed; 0 failed;\n     Running b\n", "ended early"),
        ("     Running a\ntest result: FAILED. 1 passed; 1 failed;\n", "has a name"),
    ],
    ids=["a program that died", "a failure without a name"],
)
def test_failure_without_a_name_fails_the_run(
    output: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"import sys; print({output!r}); sys.exit(101)"
    broken = runner.Suite("rust", [sys.executable, "-c", script], [[]], runner.read_cargo)
    assert runner.run([broken]) == 1
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_suite_that_dies_fails_the_run(language: str, tmp_path: Path) -> None:
    dying = suite(language, tmp_path, 0, "")
    code = {"python": "import os\nos._exit(0)\n", "node": "process.exit(3);\n"}[language]
    (tmp_path / ("test_it.py" if language == "python" else "it.test.mjs")).write_text(code)
    assert runner.run([dying]) == 1


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    many = suite("python", tmp_path, 1, "")
    code = f"""
        import pytest
        @pytest.mark.parametrize("number", range({runner.MAX_RERUN + 1}))
        def test_it(number):
            with open({str(tmp_path / "runs")!r}, "a") as file:
                file.write("x")
            assert False
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    assert runner.run([many]) == 1
    assert len((tmp_path / "runs").read_text()) == runner.MAX_RERUN + 1

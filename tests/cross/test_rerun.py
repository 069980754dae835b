"""scripts/test: which failures it runs again, and its report."""

import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass
class FakeSuite:
    """A suite without processes. Its tests fail in their first runs."""

    #: The number of passed tests in the first run.
    passed: int
    #: How often each test fails, and the output of each failed run. The last output is repeated.
    failing: dict[str, tuple[int, Sequence[str]]]
    broken: str | None = None
    name: str = "fake"
    command: tuple[str, ...] = ("fake",)
    runs: dict[str, int] = field(default_factory=dict)

    def build(self) -> None:
        return None

    def failure(self, name: str) -> object:
        """Counts a run. Returns its failure, or None."""
        times, outputs = self.failing[name]
        run = self.runs[name] = self.runs.get(name, 0) + 1
        output = outputs[min(run, len(outputs)) - 1]
        return runner.Failure(name, output, [name]) if run <= times else None

    def run(self) -> object:
        failures = [failure for name in self.failing if (failure := self.failure(name))]
        return runner.Report(self.passed, failures, self.broken)

    def run_part(self, words: list[str], *, echo: bool, alone: bool = False) -> object:
        (name,) = words
        assert alone
        assert not echo
        failure = self.failure(name)
        return runner.Report(0 if failure else 1, [failure] if failure else [])


def one(failing: int, *outputs: str, name: str = "a::b") -> FakeSuite:
    return FakeSuite(1, {name: (failing, outputs or ["unlucky"])})


@pytest.mark.parametrize(
    ("failing", "verdict"),
    [
        (0, "1 passed, 0 failed"),
        (1, "FLAKY a::b (1 of 2)\n2 passed, 0 failed"),
        (2, "FLAKY a::b (2 of 3)\n2 passed, 0 failed"),
        (3, "FAILED a::b\n1 passed, 1 failed"),
    ],
)
def test_a_failed_test_runs_again_twice_at_most(
    failing: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = one(failing)
    assert runner.run([suite]) == (failing > 2)
    assert suite.runs["a::b"] == min(failing, 2) + 1
    assert capsys.readouterr().out.endswith(f"\n{verdict}\n")


@pytest.mark.parametrize("output", ["two holders: 1 and 2", "ERROR: AddressSanitizer: overflow"])
def test_two_holders_and_sanitizer_findings_never_run_again(output: str) -> None:
    first, second = one(1, output), one(2, "unlucky", output)
    assert runner.run([first]) == 1
    assert runner.run([second]) == 1
    assert (first.runs["a::b"], second.runs["a::b"]) == (1, 2)


def test_the_simulation_never_runs_again() -> None:
    suite = one(1, "a seed", name="simulation::all_guarantees_hold")
    assert runner.run([suite]) == 1
    assert set(suite.runs.values()) == {1}


@pytest.mark.parametrize(
    ("passed", "failed", "again"),
    [
        (0, 8, True),
        (0, 9, False),
        (441, 9, True),
        (440, 9, False),
        (4851, 10, True),
        (980, 20, True),
    ],
)
def test_reruns_depend_on_the_share_of_failures(passed: int, failed: int, *, again: bool) -> None:
    suite = FakeSuite(passed, {f"test {number}": (1, ["unlucky"]) for number in range(failed)})
    assert runner.run([suite]) == (not again)
    assert set(suite.runs.values()) == {1 + again}


def test_incomplete_report_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    suite = FakeSuite(5, {"a": (1, ["unlucky"])}, broken="the runner ended early")
    assert runner.run([suite, FakeSuite(0, {})]) == 1
    assert suite.runs == {"a": 1}
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-1] == ["FAILED a", "FAILED the runner ended early", "FAILED fake: no test ran"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("     Running a\ntest result: ok. 1 passed; 0 failed;\n     Running b\n", "ended early"),
        ("     Running a\ntest result: FAILED. 1 passed; 1 failed;\n", "has a name"),
    ],
    ids=["a program that died", "a failure without a name"],
)
def test_cargo_failure_without_a_name_is_an_incomplete_report(output: str, reason: str) -> None:
    assert reason in runner.read_cargo([], output, Path()).broken


def test_reads_the_failures_of_cargo() -> None:
    output = (
        "     Running tests/rust/main.rs (target/debug/deps/rust-1)\n"
        "failures:\n\n---- a::b stdout ----\nwhy\n\n\nfailures:\n    a::b\n\n"
        "test result: FAILED. 1 passed; 1 failed; 0 ignored"
    )
    report = runner.read_cargo([], output, Path())
    assert (report.passed, report.broken) == (1, None)
    assert report.failures == [runner.Failure("a::b", "why\n\n\n", ["--exact", "a::b"])]


#: A test that fails in its first run only, and one that passes.
PYTHON = """
from pathlib import Path

def test_other():
    pass

def test_counted():
    file = Path({file!r})
    first = not file.exists()
    file.touch()
    assert not first, "why"
"""
NODE = """
import assert from "node:assert";
import {{ existsSync, writeFileSync }} from "node:fs";
import {{ describe, test }} from "node:test";
test("other (1)", () => {{}});
describe("group", () => {{
  test("counted [1] $", () => {{
    const first = !existsSync({file!r});
    writeFileSync({file!r}, "");
    assert(!first, "why");
  }});
}});
"""


def real(language: str, folder: Path, source: str) -> object:
    """A suite of one file, run by the language's runner."""
    if language == "python":
        (folder / "test_it.py").write_text(source)
        command = [sys.executable, "-m", "pytest", f"--rootdir={folder}", "-p", "no:cacheprovider"]
        command += ["-o", "junit_family=xunit1", "--junitxml={report}", "-c", "/dev/null"]
        # The names in the report are relative to its working directory.
        command = ["sh", "-c", f'cd "{folder}" && exec "$@"', "sh", *command]
        # Plugins take seconds to start.
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return runner.Suite("python", command, [["test_it.py"]], runner.read_pytest, env)
    path = folder / "it.test.mjs"
    path.write_text(source)
    return runner.Suite("node", runner.node().command, [[str(path)]], runner.read_node)


@pytest.mark.parametrize(
    ("language", "source", "name"),
    [
        ("python", PYTHON, "test_it.py::test_counted"),
        ("node", NODE, "it.test.mjs > group > counted [1] $"),
    ],
    ids=["python", "node"],
)
def test_failure_names_the_test_and_how_to_run_it_alone(
    language: str, source: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = real(language, tmp_path, source.format(file=str(tmp_path / "ran")))
    report = suite.run()  # type: ignore[attr-defined]
    (failure,) = report.failures
    assert failure.name.endswith(name)
    assert "why" in failure.output
    assert (report.passed, report.broken) == (1, None)
    again = suite.run_part(failure.alone, echo=False, alone=True)  # type: ignore[attr-defined]
    assert (again.passed, again.failures, again.broken) == (1, [], None)
    # `.ci/run` fails if a test is skipped.
    assert not re.search(SKIPPED, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("language", "source"),
    [("python", "import os\nos._exit(0)\n"), ("node", "process.exit(3);\n")],
    ids=["python", "node"],
)
def test_a_suite_that_dies_fails_the_run(language: str, source: str, tmp_path: Path) -> None:
    assert runner.run([real(language, tmp_path, source)]) == 1


def test_report_that_is_not_whole_is_broken(tmp_path: Path) -> None:
    """A full disk leaves a part of it."""
    file = tmp_path / "report"
    file.write_text('<testsuite><testcase file="a" name="b" time="0" /><testcase fi')
    report = runner.read_pytest([], "", file)
    assert report.broken.startswith("its report is not whole, with ")
    assert report.passed == 0

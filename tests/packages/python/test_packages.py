"""The wheel and the sdist in dist/: their content, and their use in empty environments, as by a new user."""

import json
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server

from .dist import DIST, PYTHONS, ROOT, Install, only, run

HERE = Path(__file__).parent
#: The packages of a second build of the same tree.
TWICE = ROOT / "target" / "dist-twice"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
#: The oldest glibc that the binaries may need.
GLIBC = (2, 17)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def assert_locks_work(python: Path, server: Server) -> None:
    for url in ("memory://", server.url):
        output = run(python, "-I", "-W", "error", HERE / "lock.py", url)
        assert output == f"{VERSION} lock:job\n"


@pytest.mark.parametrize(
    "version", sorted(PYTHONS), ids=lambda version: f"{version[0]}.{version[1]}"
)
def test_wheel_works_without_the_source_tree(
    version: tuple[int, int], install: Install, server: Server
) -> None:
    assert_locks_work(install(only("*.whl"), PYTHONS[version], "--no-index"), server)


@pytest.mark.limit(900)
def test_sdist_builds_without_the_source_tree(install: Install, server: Server) -> None:
    quick = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1"}
    # The build must not find the Python or the virtual environment of this source tree.
    target = str(ROOT / "target" / "sdist")
    environment = quick | {"CARGO_TARGET_DIR": target, "PYO3_PYTHON": "", "VIRTUAL_ENV": ""}
    assert_locks_work(install(only("*.tar.gz"), Path(sys.executable), **environment), server)


def test_type_checkers_find_the_types(install: Install, tmp_path: Path) -> None:
    python = install(only("*.whl"), Path(sys.executable), "--no-index")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path)
    run(*mypy, "--python-executable", python, HERE / "typed.py")
    (marker,) = python.parents[1].glob("lib/*/site-packages/redlock/py.typed")
    assert marker.read_bytes() == b""


def test_one_version_in_every_package() -> None:
    npm = json.loads(packed(only("redlock-native-[0-9]*.tgz"), "package/package.json"))
    assert npm["version"] == VERSION
    assert set(npm["optionalDependencies"].values()) == {VERSION}
    assert f"-{VERSION}-" in only("*.whl").name
    assert only("*.tar.gz").name == f"redlock_native-{VERSION}.tar.gz"


def packed(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def test_sdist_contains_only_what_it_builds_from() -> None:
    with tarfile.open(only("*.tar.gz")) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    licences = {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES"}
    assert {"Cargo.lock", "bindings-python/README.md", "core/Cargo.toml", *licences} <= names
    tops = {name.split("/")[0] for name in names}
    files = {"Cargo.lock", "Cargo.toml", "PKG-INFO"} | licences
    assert tops == {"core", "cli", "bindings-python", "pyproject.toml"} | files


def test_packages_contain_the_licenses_of_their_crates() -> None:
    """The BSD, ISC and Unicode-3.0 licences require it."""
    with zipfile.ZipFile(only("*.whl")) as wheel:
        (inside,) = [name for name in wheel.namelist() if name.endswith("/THIRD-PARTY-LICENSES")]
        text = wheel.read(inside).decode()
    for tarball in DIST.glob("redlock-native-[a-z]*.tgz"):
        assert packed(tarball, "package/THIRD-PARTY-LICENSES").decode() == text
    for crate in ("redis", "tokio", "rustls", "ring", "pyo3", "napi", "subtle"):
        assert re.search(rf"^{crate} \d", text, re.MULTILINE), crate


def test_packages_contain_an_sbom_of_their_crates() -> None:
    """At the place of PEP 770 in the wheel. scripts/licenses writes it."""
    with zipfile.ZipFile(only("*.whl")) as wheel:
        (inside,) = [name for name in wheel.namelist() if "/sboms/" in name]
        assert re.fullmatch(r"[\w.-]+\.dist-info/sboms/sbom\.cdx\.json", inside)
        documents = {"pypi": wheel.read(inside)}
    for tarball in DIST.glob("redlock-native-[a-z]*.tgz"):
        documents["npm"] = packed(tarball, "package/sbom.cdx.json")
    assert documents.keys() == {"pypi", "npm"}
    for registry, text in documents.items():
        assert str(ROOT).encode() not in text
        document = json.loads(text)
        assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
        assert (
            document["metadata"]["component"]["purl"] == f"pkg:{registry}/redlock-native@{VERSION}"
        )
        named = {part["name"] for part in document["components"]}
        binding, other = ("pyo3", "napi") if registry == "pypi" else ("napi", "pyo3")
        assert named >= {"redlock-native", "redis", "tokio", "rustls", "ring", binding}
        assert other not in named
        refs = {part["bom-ref"] for part in document["components"]}
        edges = {to for each in document["dependencies"] for to in each["dependsOn"]}
        # Each is needed by another one, and each that is needed is listed.
        assert edges == refs


def test_second_build_is_identical() -> None:
    """Builds the wheel and the platform's binary again with the same tools in the same place."""
    if not TWICE.is_dir():
        pytest.fail("make test-packages builds everything twice")
    first = {file.name: file.read_bytes() for file in DIST.iterdir()}
    second = {file.name: file.read_bytes() for file in TWICE.iterdir()}
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def binaries(folder: Path) -> Iterator[Path]:
    shutil.unpack_archive(only("*.whl"), folder, "zip")
    yield from folder.glob("redlock/*.so")
    for tarball in DIST.glob("redlock-native-[a-z]*.tgz"):
        with tarfile.open(tarball) as tar:
            tar.extractall(folder, filter="data")
        yield from (folder / "package").glob("*.node")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has glibc")
def test_the_binaries_run_on_old_systems_and_name_no_folder(tmp_path: Path) -> None:
    found = list(binaries(tmp_path))
    assert len(found) == 2
    for binary in found:
        content = binary.read_bytes()
        needed = [tuple(map(int, v)) for v in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)]
        assert needed
        assert max(needed) <= GLIBC
        assert str(Path.home()).encode() not in content
        assert str(ROOT).encode() not in content
        # Published binaries have no functions that panic for tests.
        assert b"deliberate panic" not in content
        assert re.search(rb"panic_?for_?tests", content, re.IGNORECASE) is None


@pytest.mark.skipif(sys.platform != "linux", reason="they check wheels for Linux")
def test_wheel_fulfils_the_platform_and_abi_in_its_name() -> None:
    wheel = only("*.whl")
    bin_folder = Path(sys.executable).parent
    assert "cp311-abi3-manylinux" in wheel.name
    report = run(bin_folder / "auditwheel", "show", wheel)
    assert f'"manylinux_{GLIBC[0]}_{GLIBC[1]}_' in report
    run(bin_folder / "abi3audit", "--strict", wheel)

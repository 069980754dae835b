"""scripts/prose measures the text of the tree. No area may exceed its limits in tests/prose.toml."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    loader = SourceFileLoader("scripts_prose", str(ROOT / "scripts/prose"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # its dataclasses look themselves up there
    loader.exec_module(module)
    return module


prose = load()
#: A retired word, which this file must not contain itself.
WORD = "no" + "body"


@pytest.mark.parametrize("area", prose.RULES["area"])
def test_an_area_stays_within_its_limits(area: str) -> None:
    limits, found = prose.RULES["area"][area], prose.measure(area)
    print(f"{area}: {found.rate:.1f} idioms per 1,000 words, {found.mean:.1f} words a sentence")
    assert found.words > 1000, "the patterns of its files match nothing"
    advice = f"scripts/prose --list {area} names each place"
    assert found.rate <= limits["idioms"], advice
    assert found.long <= limits["long"], advice
    assert found.colons <= limits["colons"], advice
    assert found.names <= limits["names"], advice


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.rs", "/// A lock that IDIOM holds.\nfn f() {}\n"),
        ("a.rs", 'fn f() { panic!("the lock that IDIOM holds: {name}") }\n'),
        ("a.py", "# A lock that IDIOM holds.\n"),
        ("a.py", 'def f():\n    """A lock that IDIOM holds."""\n'),
        ("a.ts", "/** A lock that IDIOM holds. */\n"),
        ("a.mjs", "  // A lock that\n  // IDIOM holds.\n"),
        ("a.mjs", "throw new Error(`the lock ${name} that IDIOM holds`);\n"),
        ("a.md", "A lock that IDIOM holds.\n\n```sh\nIDIOM\n```\n"),
        ("Cargo.toml", "[features]\n# A lock that\n# IDIOM holds.\na = []\n"),
        ("a.toml", 'about = "a lock that IDIOM holds"\n'),
        ("a.yml", "on:\n  # A lock that IDIOM holds.\n  push:\n"),
        ("Makefile", "run: build ##! run what IDIOM holds\n\t@true\n"),
        ("Makefile", "# A lock that IDIOM holds.\nrun:\n"),
        ("run", "#!/usr/bin/env bash\n# A lock that IDIOM holds.\n"),
        ("run", '#!/usr/bin/env bash\necho "IDIOM holds this lock"\n'),
        ("run", "#!/usr/bin/env python3\n# A lock that IDIOM holds.\n"),
    ],
)
def test_finds_an_idiom_in_comments_messages_and_pages(
    name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / name).write_text(source.replace("IDIOM", WORD))
    total = prose.Count()
    prose.count(tmp_path / name, total)
    assert total.idioms == 1, total
    assert WORD in total.places[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.rs", "pub(crate) struct Place {}\nfn placed(place: Place) {}\n"),
        ("a.rs", "const MOST: usize = 3;\n"),
        ("a.py", "async def aacquire(self) -> None: ...\n"),
        ("a.py", "MOST = 3\n"),
        ("a.ts", "export function passTime(): void {}\n"),
        ("a.mjs", "  const atLeast = 1;\n"),
        ("a.mjs", "const { atLeast } = options;\n"),
        ("a.rs", "fn f(passed: Place) {}\n"),
        ("a.py", "def f(at_least): ...\n"),
        ("run", "#!/usr/bin/env bash\nat_least() { true; }\n"),
    ],
)
def test_finds_a_retired_name_anywhere_in_the_code(
    name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / name).write_text(source)
    total = prose.Count()
    prose.count(tmp_path / name, total)
    assert total.names == 1, total


def test_ignores_names_in_comments_and_strings() -> None:
    source = '# otherwise\n"""beside"""\nx = "MOST"  # at_least\nvalue = `atLeast`\n/* Place */ // Place\n'
    assert {*prose.identifiers(source)} == {"x", "value"}


def test_finds_long_sentences_and_second_colons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text(
        f"One: two: three and four.\n\n{'word ' * 36}.\n\nA short one.\n"
    )
    total = prose.Count()
    prose.count(tmp_path / "a.md", total)
    assert (total.sentences, total.long, total.colons) == (3, 1, 1)

"""Empty environments for installations."""

from pathlib import Path

import pytest

from .dist import Install, run


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Installs one file into an empty environment and returns its Python."""

    def into_empty(file: Path, python: Path, *options: str, **environment: str) -> Path:
        venv = tmp_path_factory.mktemp("venv")
        run(python, "-m", "venv", venv)
        inside = venv / "bin" / "python"
        pip = (inside, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", "--no-deps", *options, file, **environment)
        assert "No broken requirements" in run(*pip, "check")
        return inside

    return into_empty

"""Python processes of their own, where a warning is an error."""

import subprocess
import sys
from typing import Any


def run(code: str, *words: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )

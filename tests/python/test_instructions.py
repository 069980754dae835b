"""The cost of an acquire and its release in instructions, which shows a regression without a stopwatch.

The native module is counted alone and with Python and the C library, whose share depends on their versions. The kernel
is not counted. callgrind runs the program. `tests/rust/allocations.rs` counts allocations.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

if sys.platform != "linux":
    pytest.skip("callgrind needs Linux", allow_module_level=True)

PROGRAM = Path(__file__).parent / "programs" / "pairs.py"
FEW, MANY = 640, 1920
#: 22,800 and 28,900 of the native module, 33,200 and 66,600 with Python. A busy machine needs some hundred more, and
#: compilers differ by more.
MAX_NATIVE = {"one": 26_000, "many": 31_500}
MAX_ALL = {"one": 38_000, "many": 71_000}
#: Without link-time optimisation, as developers may build, the count is half as much again.
LTO_FACTOR = 1.6 if os.environ.get("CARGO_PROFILE_RELEASE_LTO") == "off" else 1.0


@pytest.mark.limit(400)
@pytest.mark.parametrize("kind", ["one", "many"])
@pytest.mark.slow("callgrind counts instructions")
def test_instructions_of_an_acquire_and_release_stay_below_the_limit(
    kind: str, redis_server: Server, tmp_path: Path
) -> None:
    def counted(pairs: int) -> dict[str, int]:
        out = tmp_path / "callgrind.out"
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}"]
        program = [sys.executable, str(PROGRAM), kind, redis_server.url, str(pairs)]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run([*tool, *program], env=environment, check=True, timeout=120)
        return {module: instructions_of(out, module) for module in maximum}

    maximum = {"redlock/_native": MAX_NATIVE[kind] * LTO_FACTOR, "": MAX_ALL[kind] * LTO_FACTOR}
    found: list[dict[str, int]] = []
    # A busy machine adds turns of the background thread, so the least of three is closest.
    while len(found) < 3 and (not found or any(least(found, of) > maximum[of] for of in maximum)):
        many, few = counted(MANY), counted(FEW)
        found.append({of: (many[of] - few[of]) // (MANY - FEW) for of in maximum})
    print(f"{kind}: {found} instructions a pair")
    for of in maximum:
        assert 5_000 < least(found, of) <= maximum[of]


def least(found: list[dict[str, int]], of: str) -> int:
    return min(counts[of] for counts in found)


def instructions_of(out: Path, module: str) -> int:
    """Returns the instructions of the functions of these files, without their callees.

    The output of callgrind has both.
    """
    names: dict[str, str] = {}
    total, here, inclusive = 0, False, False
    for line in out.read_text().splitlines():
        if named := re.match(r"c?ob=\((\d+)\)(?: (.+))?", line):
            names[named[1]] = named[2] or names[named[1]]
            if not line.startswith("c"):
                here = module in names[named[1]]
        elif line.startswith("calls="):
            inclusive = True
        elif re.match(r"[\d+*-]", line):
            total += int(line.split()[1]) if here and not inclusive else 0
            inclusive = False
    return total

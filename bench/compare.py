"""Runs every program of every case, round after round, and saves the results in out/results.json (bench/run).

The rounds are interleaved: the floor and every program in turn, then all again. Other load on the machine therefore
affects all alike. Ratios are computed within a round (page.py).
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import starts
from cases import CASES, PARTS, Case
from programs import HERE, PROGRAMS, PYTHON, ROOT, Program
from session import sample

RESULTS, QUICK = HERE / "out" / "results.json", HERE / "out" / "quick.json"


def wanted(options: argparse.Namespace) -> list[tuple[Case, list[Program]]]:
    """Returns the selected cases and programs. The pattern is a part (cases.py) or occurs in a program's name. The
    floor is always included.
    """
    word = options.only.lower()
    plan = []
    for case in CASES:
        if options.quick and not case.quick:
            continue
        programs = [
            each for each in PROGRAMS if case.runs(each) and (each.quick or not options.quick)
        ]
        if options.quick and case.mode == "hold":
            programs = [each for each in programs if each.name == "redlock, Rust"]
        if word and word != case.part:
            programs = [each for each in programs if each.floor or word in each.name.lower()]
        if programs and not (word and all(each.floor for each in programs)):
            plan.append((case, programs))
    return plan


def turned(programs: list[Program], number: int) -> list[Program]:
    """Rotates the programs, so that none is always first or always after the same one."""
    return programs[number % len(programs) :] + programs[: number % len(programs)]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    plan = wanted(options)
    cases: dict[str, Any] = {}
    most = 1 if options.quick else options.rounds
    for number in range(most):
        for case, programs in plan:
            if number >= case.rounds:
                continue
            entry = cases.setdefault(case.key, {"case": asdict(case), "samples": {}})
            for program in turned(programs, number):
                # A peer that hangs with a failed node is measured only once.
                if number >= program.rounds or (number and case.failing and not program.ours):
                    continue
                say(f"round {number + 1} of {most}: {case.key}: {program.name}")
                took = sample(case, program, case.seconds or options.seconds)
                entry["samples"].setdefault(program.name, []).append({**took, "round": number})
    return cases


def counts(options: argparse.Namespace) -> dict[str, Any]:
    """Counts commands and system calls. Once is enough, because they do not depend on other load."""
    found: dict[str, Any] = {}
    one, handoff = Case("pairs"), Case("handoff", "handoff", callers=8, processes=2)
    for program in PROGRAMS:
        if not one.runs(program) or (options.quick and not program.ours and not program.floor):
            continue
        say(f"commands and system calls: {program.name}")
        found[program.name] = {"pair": sample(one, program, 0.3, counted=True)}
        if "handoff" in program.modes and not program.floor:
            found[program.name]["handoff"] = sample(handoff, program, 1.5, counted=True)
    return found


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text[:110]:<110}", end="", flush=True, file=sys.stderr)
    else:
        print(f"{time.monotonic() - STARTED_AT:6.0f} s  {text}", flush=True, file=sys.stderr)


STARTED_AT = time.monotonic()


def version(*command: str) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    lines = (ran.stdout or ran.stderr).strip().splitlines()
    return lines[0] if lines else ""


def processor() -> str:
    """Returns the processor model. The relative cost of system calls, which the ratios depend on, differs between
    models.
    """
    known = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    family = re.search(r"cpu family\s*: (.*)\nmodel\s*: (.*)", Path("/proc/cpuinfo").read_text())
    numbers = f" (family {family[1]}, model {family[2]})" if family else ""
    return (known[1] if known else platform.machine()) + numbers


def about(options: argparse.Namespace, kept: dict[str, Any]) -> dict[str, Any]:
    """Returns the data of the machine and the run. A part that is measured again later is marked."""
    if options.only and kept:
        return {**kept, "apart": sorted({*kept.get("apart", []), options.only})}
    return {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "quick": options.quick,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{processor()}, {platform.system()} {platform.release()}",
        "redis": version("redis-server", "--version").partition(" sha=")[0],
        "python": version(PYTHON, "--version"),
        "node": version("node", "--version"),
        "rust": version("rustc", "--version"),
        "go": version("go", "version"),
        "java": version("java", "-version"),
        "commit": version("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    reader = argparse.ArgumentParser(
        prog="bench/run",
        description="Measures, and writes docs/benchmarks.md and bench/results.md.",
    )
    reader.add_argument("--rounds", type=int, default=3, help="how often each program runs (3)")
    reader.add_argument("--seconds", type=float, default=0.4, help="how long each time (0.4)")
    reader.add_argument(
        "--only",
        default="",
        metavar="WORD",
        help=f"one of {PARTS}, counts, starts, or in a program's name; the rest stays as measured before",
    )
    reader.add_argument(
        "--quick",
        action="store_true",
        help="ours, the floor and the best peers; one round; no page",
    )
    options = reader.parse_args()
    # Handled like an interrupt, so that servers and clients are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    out = QUICK if options.quick else RESULTS
    kept = json.loads(out.read_text()) if options.only and out.exists() else {}
    results: dict[str, Any] = {"about": about(options, kept.get("about", {}))}
    results["cases"] = merged(kept.get("cases", {}), measure(options))
    for part, take in (("counts", counts), ("starts", starting)):
        again = options.only in ("", part)
        results[part] = {**kept.get(part, {}), **(take(options) if again else {})}
    if not options.only:
        results["about"]["minutes"] = (time.monotonic() - STARTED_AT) / 60
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(file=sys.stderr)


def starting(options: argparse.Namespace) -> dict[str, Any]:
    return starts.measure(say, options.quick)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Merges results. If a case was measured again for some programs, the others keep their samples."""
    for key, entry in new.items():
        if key in old:
            entry["samples"] = {**old[key]["samples"], **entry["samples"]}
    return {**old, **new}


if __name__ == "__main__":
    main()

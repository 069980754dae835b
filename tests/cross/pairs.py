"""Runs a scenario with agents of two languages, for several pairs of languages at the same time."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from .agents import LANGUAGES, Agent

Pairs = list[tuple[str, str]]
ALL_PAIRS: Pairs = list(product(LANGUAGES, LANGUAGES))
#: Each language with the next one, so that each is first once and second once.
NEXT_LANGUAGE: Pairs = list(zip(LANGUAGES, LANGUAGES[1:] + LANGUAGES[:1], strict=True))

#: Uses two agents and a lock name.
Scenario = Callable[[Agent, Agent, str], None]


def every_pair(nodes: list[str], scenario: Scenario, pairs: Pairs = ALL_PAIRS) -> None:
    """Runs the scenario with each pair, under a separate lock name, and reports every pair that fails."""

    def run(pair: tuple[str, str]) -> str | None:
        name = f"{'-'.join(pair)}-{uuid.uuid4().hex[:8]}"
        try:
            with Agent(pair[0], nodes) as first, Agent(pair[1], nodes) as second:
                scenario(first, second, name)
        except Exception as error:
            return f"{pair[0]}, then {pair[1]}: {error!r}"
        return None

    with ThreadPoolExecutor(len(pairs)) as pool:
        failures = [failure for failure in pool.map(run, pairs) if failure]
    assert not failures, "\n".join(failures)

"""Runs a scene with pairs of languages at the same time, each pair with its own name."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from .agents import LANGUAGES, Agent

Pairs = list[tuple[str, str]]
ALL_PAIRS: Pairs = list(product(LANGUAGES, LANGUAGES))
#: Each language with the next one, so that each is first once and second once.
NEXT_LANGUAGE: Pairs = list(zip(LANGUAGES, LANGUAGES[1:] + LANGUAGES[:1], strict=True))

Scene = Callable[[Agent, Agent, str], None]


def every_pair(nodes: list[str], scene: Scene, pairs: Pairs = ALL_PAIRS) -> None:
    """Plays the scene with all pairs and reports every pair that fails."""

    def play(pair: tuple[str, str]) -> str | None:
        name = f"{'-'.join(pair)}-{uuid.uuid4().hex[:8]}"
        try:
            with Agent(pair[0], nodes) as first, Agent(pair[1], nodes) as second:
                scene(first, second, name)
        except Exception as error:
            return f"{pair[0]}, then {pair[1]}: {error!r}"
        return None

    with ThreadPoolExecutor(len(pairs)) as pool:
        failures = [failure for failure in pool.map(play, pairs) if failure]
    assert not failures, "\n".join(failures)

"""The garbage collector clears what only a lease in a reference cycle owns, while a log record needs it.

Reading a variable of a cleared context ends the process.
"""

from pathlib import Path

import pytest

from .processes import output_of

PROGRAMS = Path(__file__).parent / "programs"


def output(program: str) -> str:
    return output_of((PROGRAMS / program).read_text())


def test_a_record_outlives_the_context_of_a_lease_in_a_cycle() -> None:
    found = output("collected_context.py")
    assert found == "[('cycle', 'none'), ('first', '42'), ('last', '42')]\n"


@pytest.mark.slow("only luck makes a loss fall into the middle of a collection")
def test_a_loss_during_a_collection_is_told_if_the_lease_is_reachable() -> None:
    assert output("loss_during_collections.py") == "True 1000000\n"


def test_a_loss_is_told_after_a_finalizer_has_revived_the_lease() -> None:
    assert output("revived_lease.py") == "True 1\n"

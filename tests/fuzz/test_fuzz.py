"""The short form: cases of all kinds, their numbers drawn by Hypothesis.

`LATENTIA_FUZZ=n` sets how many cases there are in all; `python -m tests.fuzz` is the long form. A
case that fails is repeated on its own by `python -m tests.fuzz --kind frames --only 7`.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .kinds import KINDS
from .trial import judge, seeded

CASES = int(os.environ.get("LATENTIA_FUZZ", "1500"))
WHOLE = sum(share for _, share in KINDS.values())


@pytest.mark.usefixtures("quick_fits")
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_inputs(kind: str) -> None:
    case, share = KINDS[kind]

    @settings(
        max_examples=max(5, round(CASES * share / WHOLE)),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # a smaller number is no simpler case
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def trial(number: int) -> None:
        judge(case, seeded(kind, number))

    trial()

"""The short form: the same kinds of cases, drawn by Hypothesis, which shrinks what it finds.

`LATENTIA_FUZZ=n` sets how many cases there are in all; `python -m tests.fuzz` is the long form.
"""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .kinds import KINDS
from .trial import judge

CASES = int(os.environ.get("LATENTIA_FUZZ", "1500"))
WHOLE = sum(share for _, share in KINDS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_inputs(kind: str) -> None:
    case, share = KINDS[kind]

    @settings(
        max_examples=max(5, round(CASES * share / WHOLE)),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def trial(source: random.Random) -> None:
        judge(case, source)

    trial()

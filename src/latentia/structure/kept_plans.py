"""Plans that were made a moment ago: models of several classes, folds or forms share one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.typing import Label

KEPT_NAMES = 500  # variables of a graph whose plan is kept


def plan_again(graph: LatentGraph, groups: Iterable[Iterable[Label]]) -> Plan:
    """`make_plan`; the last ones are kept, for the classes, folds and forms of a classifier.

    Names that are equal but of different types (1, True) have plans of their own; large plans, and
    those with groups, are made anew.
    """
    if len(graph.names) > KEPT_NAMES or groups:
        return make_plan(graph, groups=groups)
    return _kept_plan(graph, tuple(map(type, graph.names)))


@lru_cache(maxsize=8)
def _kept_plan(graph: LatentGraph, kinds: tuple[type, ...]) -> Plan:
    return make_plan(graph)

"""Records: a fitted LatentModel as JSON values and a list of arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from latentia.assess.diagnostics import diagnose
from latentia.data.columns.column import Column
from latentia.errors import LatentiaError, StoreError
from latentia.inference.operators import Operators
from latentia.model.latent_model import LatentModel
from latentia.store.array_table import Fetch, Written, fetch_named
from latentia.store.column_record import read_column, write_column
from latentia.store.operators_record import (
    build_operators,
    read_blueprint,
    read_choice,
    read_embedding_settings,
    write_choice,
    write_operators,
)
from latentia.store.own_record import (
    BESIDE,
    member_shapes,
    own_shapes,
    read_members,
    read_own_graph,
    with_beside,
    with_members,
    with_own_tables,
    write_members,
    write_own_tables,
)
from latentia.store.plain import fields, items, number, pack, text, unpack
from latentia.store.structure_record import read_graph, read_plan, write_graph, write_plan
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.reading_graphs import as_graph
from latentia.typing import Given

if TYPE_CHECKING:
    from latentia.model.learning import Learning

SOME = (
    "network",
    "choice",
    "settings",
    "replicates",
    "own",
    "beside",
    "members",
    "pieces",
    "nameless",
    "link",
    "pool",
    "chain",
    "arrows",
    "logits",
    "class_logit",
    "no_logits",
)  # fields of some models, of newer files

# parameters of some models, of newer files
LEARNER_NAMES = ("pbp", "paper", "spectral", "em", "stepwise", "tables")  # as in model.learners
NEWER = ("order_by", "name_states", "mechanism", "link")


# -- the whole model -------------------------------------------------------------------------------


def write_latent_model(model: LatentModel) -> Written:
    """Everything a model knows: JSON values, and arrays whose memory is to be written in order."""
    from latentia.exact.mixture_network import MixtureNetwork
    from latentia.store.arrow_record import write_arrows
    from latentia.store.chain_record import write_chain
    from latentia.store.link_record import write_link
    from latentia.store.pool_record import write_pool
    from latentia.store.replicates import write_replicates

    operators, missing = model.operators_, model.diagnostics_.missing
    learned, arrays = write_operators(operators)
    record: dict[str, Given] = {
        "kind": "LatentModel",
        "parameters": write_parameters(model, model.plan_),
        "plan": write_plan(model.plan_),
        "states": [write_column(c) for c in model.columns_],
        "operators": learned,
        "fit": {
            "learner": model.diagnostics_.learner,
            "missing": [float(missing[c.name]) for c in model.columns_],
        },
    }
    if operators.provenance.choice is not None:
        record["choice"] = write_choice(operators.provenance.choice)
    if operators.provenance.settings:
        record["settings"] = [[name, float(x)] for name, x in operators.provenance.settings.items()]
    if operators.plan is not model.plan_:  # a refined model answers by a network of its own
        record["network"] = write_plan(operators.plan)
    if operators.network is not None:
        record["own"], more = write_own_tables(operators.network)
        arrays += more
        if isinstance(operators.network, MixtureNetwork):
            record["members"], more = write_members(operators.network)
            arrays += more
    if operators.beside is not None:
        record["beside"], more = write_own_tables(operators.beside)
        arrays += more
    if operators.provenance.pieces:
        record["pieces"] = list(operators.provenance.pieces)
    if operators.provenance.nameless:
        record["nameless"] = operators.provenance.nameless
    if hasattr(model, "link_"):
        record["link"] = write_link(model.link_, model.log_likelihood_)
    if hasattr(model, "class_logit_"):
        record["class_logit"] = write_link(model.class_logit_, 0.0)
    if hasattr(model, "_no_logits"):
        record["no_logits"] = model._no_logits
    if hasattr(model, "arrows_"):
        record["arrows"] = write_arrows(model.arrows_)
    if hasattr(model, "logits_"):
        record["logits"] = write_arrows(model.logits_)
    if hasattr(model, "error_bars_"):
        record["replicates"], more = write_replicates(model.error_bars_)
        arrays += more
    if hasattr(model, "pool_"):
        record["pool"], more = write_pool(model.pool_)
        arrays += more
        if model.pool_.chain is not None:
            record["chain"], more = write_chain(model.pool_.chain)
            arrays += more
    return record, arrays


def read_latent_model(record: object, fetch: Fetch) -> LatentModel:
    """The model of a record; `fetch` brings the arrays once their shapes are known."""
    there = record if isinstance(record, dict) else {}
    more = [name for name in SOME if name in there]
    kind, parameters, structure, states, learned, fit, *rest = fields(
        record, "kind", "parameters", "plan", "states", "operators", "fit", *more
    )
    given = dict(zip(more, rest, strict=True))
    if kind != "LatentModel":
        raise StoreError(f"expected a LatentModel, got {kind!r}. Update latentia.")
    plan = read_plan(structure)
    columns = read_columns(states, plan)
    own = read_own_graph(given["own"], plan) if "own" in given else None
    plan = replace(plan, tables_of=own)
    inner = read_plan(given["network"]) if "network" in given else plan
    if [inner.graph.states[v] for v in inner.graph.observed] != [c.cells for c in columns]:
        raise StoreError("expected the network of a refined model to have the model's columns.")
    blueprint, bars = read_blueprint(learned, inner, columns), given.get("replicates")
    beside = read_own_graph(given["beside"], plan) if "beside" in given else None
    told = own or beside or inner.graph  # whose tables error bars may have
    tables = {} if own is None else own_shapes(own)
    members, weights = read_members(given["members"], plan) if "members" in given else ((), None)
    tables |= member_shapes(members)
    tables |= {} if beside is None else own_shapes(beside, BESIDE)
    if bars is not None:  # modules of what few models have are loaded for those
        from latentia.store.replicates import read_replicates, replicate_shapes

        tables |= replicate_shapes(bars, inner, told)
    if "pool" in given:
        from latentia.store.pool_record import pool_shapes, read_pool

        tables |= pool_shapes(given["pool"], columns)
        if "chain" in given:
            from latentia.store.chain_record import chain_shapes, read_chain

            tables |= chain_shapes(given["chain"])
    arrays = fetch_named(fetch, {**blueprint.stored, **tables})
    operators = _with_history(build_operators(blueprint, arrays), given)
    if own is not None:
        operators = with_own_tables(operators, own, arrays)
        if weights is not None:
            operators = with_members(operators, members, weights, arrays)
    if beside is not None:
        operators = with_beside(operators, beside, arrays)
    learner, missing = fields(fit, "learner", "missing")
    shares = zip(columns, items(missing, len(columns)), strict=True)
    gaps = {column.name: number(share) for column, share in shares}
    model = LatentModel(**read_parameters(parameters))
    model._keep(plan, operators, columns, diagnose(operators, text(learner), gaps))
    if "link" in given:
        from latentia.store.link_record import read_link

        model.link_, model.log_likelihood_ = read_link(given["link"], model._graph)
        model._ignored = model.link_.names
    if "class_logit" in given:
        from latentia.store.link_record import read_link

        model.class_logit_ = read_link(given["class_logit"], model._graph)[0]
    if "no_logits" in given:
        model._no_logits = text(given["no_logits"])
    if "pool" in given:
        pool = read_pool(given["pool"], columns, arrays)
        if "chain" in given:
            pool = replace(pool, chain=read_chain(given["chain"], columns, pool.scores, arrays))
        model._keep_pool(pool)
    for name in {"arrows", "logits"} & {*given}:
        from latentia.store.arrow_record import read_arrows

        setattr(model, f"{name}_", read_arrows(given[name]))
    if bars is not None:
        model.error_bars_ = read_replicates(bars, inner, told, arrays)
    return model


def _with_history(operators: Operators, given: Mapping[str, Given]) -> Operators:
    """What is told of how they were chosen."""
    if "choice" in given:
        operators = operators.told(choice=read_choice(given["choice"]))
    if "settings" in given:
        operators = operators.told(settings=read_embedding_settings(given["settings"]))
    if "pieces" in given:
        operators = operators.told(pieces=tuple(text(line) for line in items(given["pieces"])))
    if "nameless" in given:
        operators = operators.told(nameless=text(given["nameless"]))
    return operators


def read_columns(record: object, plan: Plan) -> tuple[Column, ...]:
    observed = plan.graph.observed
    return tuple(
        read_column(states, plan.graph.names[v], plan.graph.states[v] or 0)
        for v, states in zip(observed, items(record, len(observed)), strict=True)
    )


# -- parameters ------------------------------------------------------------------------------------


def write_parameters(model: Learning, plan: Plan) -> dict[str, Given]:
    graph = None if model.graph is None else _graph_given(model, plan)
    latents = None
    if graph is not None and model.latents is not None:
        latents = {graph.names[v]: graph.states[v] for v in sorted(graph.latent)}
    given = model.state_names
    names = None if given is None else {name: list(states) for name, states in given.items()}
    record = {
        "graph": None if graph is None else write_graph(graph),
        "latents": pack(latents, "a latent"),
        "learner": _write_learner(model.learner),
        "kinds": pack(None if model.kinds is None else dict(model.kinds), "a kind of column"),
        "state_names": pack(names, "a name in state_names"),
        **_mechanism_given(model),
    }
    if model.order_by is not None:
        record["order_by"] = pack(model.order_by, "a name in order_by")
    if model.link is not None:
        record["link"] = pack(dict(model.link), "a name in link")
    if model.name_states is not None:
        lists = {name: list(states) for name, states in model.name_states.items()}
        record["name_states"] = pack(lists, "a name in name_states")
    return record


def _mechanism_given(model: Learning) -> dict[str, Given]:
    """Left out where there is none, so that older readers can read the file."""
    if not model.mechanism:
        return {}
    lists = {column: list(parents) for column, parents in model.mechanism.items()}
    return {"mechanism": pack(lists, "a name in mechanism")}


def read_parameters(record: object) -> dict[str, Given]:
    there = record if isinstance(record, dict) else {}
    more = [name for name in NEWER if name in there]
    graph, latents, learner, kinds, names, *rest = fields(
        record, "graph", "latents", "learner", "kinds", "state_names", *more
    )
    newer = {name: unpack(value) for name, value in zip(more, rest, strict=True)}
    order = {"order_by": newer.pop("order_by")} if "order_by" in newer else {}
    found = {"latents": unpack(latents), "kinds": unpack(kinds), "state_names": unpack(names)}
    found |= newer
    for name, value in found.items():
        if value is not None and not isinstance(value, dict):
            raise StoreError(f"expected a dict for the parameter {name}, got {value!r:.80}.")
    return {
        "graph": None if graph is None else read_graph(graph),
        "learner": _read_learner(learner),
        **found,
        **order,
    }


def _graph_given(model: Learning, plan: Plan) -> LatentGraph:
    try:
        given = model.graph
        if callable(given):
            given = given([c.name for c in model.columns_])
        return as_graph(given, model.latents)
    except LatentiaError:  # a generator of edges is used up by fit
        return plan.graph


def _write_learner(learner: Given) -> dict[str, Given]:
    """A name, a known kind with plain parameters, or else what it prints."""
    from latentia.kernels.settings import KernelSettings

    if isinstance(learner, str):
        return {"name": learner}
    name = type(learner).__name__
    if _kinds().get(name) is type(learner):
        try:
            values = learner.get_params(deep=False)
            if isinstance(values.get("kernel"), KernelSettings):
                values["kernel"] = asdict(values["kernel"])
            return {"kind": name, "parameters": {k: pack(_lists(v), k) for k, v in values.items()}}
        except StoreError:
            pass
    return {"text": repr(learner)}


def _lists(value: object) -> object:
    """Tables of a setting ({variable: array}) as lists."""
    if isinstance(value, Mapping):
        return {name: _lists(table) for name, table in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read_learner(record: object) -> Given:
    if isinstance(record, dict) and set(record) == {"text"}:
        return "pbp"
    if isinstance(record, dict) and set(record) == {"name"}:
        if text(record["name"]) not in LEARNER_NAMES:
            raise StoreError(
                f"expected a learner among {list(LEARNER_NAMES)}, got {record['name']!r}."
            )
        return record["name"]
    kind, values = fields(record, "kind", "parameters")
    made = _kinds().get(text(kind))
    if made is None:
        raise StoreError(f"expected a learner among {list(_kinds())}, got {kind!r:.80}.")
    names = list(made().get_params(deep=False))
    known = [name for name in names if isinstance(values, dict) and name in values]
    parameters = zip(known, fields(values, *known), strict=True)  # the others are newer: defaults
    return made(**{name: unpack(value) for name, value in parameters})


def _kinds() -> dict[str, Given]:
    """Learners whose parameters are kept: those of the estimator's table, by class name."""
    from latentia.model.learners import LEARNERS

    return {kind.__name__: kind for kind in LEARNERS.values()}

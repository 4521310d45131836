"""EM in the place of pgmpy's: the same arguments, CPDs at least as good, holes not dropped."""

import pickle

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, UnknownNameError

pytest.importorskip("pgmpy.parameter_estimator", reason="needs pgmpy 1.1")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

from pgmpy.models import DiscreteBayesianNetwork  # noqa: E402
from pgmpy.parameter_estimator import (  # noqa: E402
    DiscreteBayesianEstimator,
    DiscreteEM,
    DiscreteMLE,
)

WORDS = np.array(["no", "yes"])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=60)
    data = {c: WORDS[np.where(rng.random(60) < 0.85, h, 1 - h)] for c in "xyz"}
    return pd.DataFrame(data)


@pytest.fixture
def network():
    return DiscreteBayesianNetwork([("h", "x"), ("h", "y"), ("h", "z")], latents={"h"})


def log_likelihood(cpds, rows):
    """Of the rows under CPDs, by the tables that come back to us."""
    found = DiscreteBayesianNetwork()
    for cpd in cpds:
        found.add_node(cpd.variable)
        found.add_edges_from((parent, cpd.variable) for parent in cpd.variables[1:])
    found.add_cpds(*cpds)
    found.latents = {"h"} & set(found.nodes())
    return float(lt.from_pgmpy(found).log_evidence(rows).sum())


def test_at_least_as_good_as_pgmpy(rows, network):
    theirs = DiscreteEM(show_progress=False, seed=0, max_iter=20).fit(network, rows).parameters_
    mine = lt.PgmpyEM(network, rows).get_parameters(seed=0, latent_card={"h": 2})
    assert [cpd.variable for cpd in mine] == ["h", "x", "y", "z"]
    assert log_likelihood(mine, rows) >= log_likelihood(theirs, rows) - 1e-6
    assert mine[1].state_names == {"x": ["no", "yes"], "h": [0, 1]}


def test_networks_fit_themselves(rows, network):
    estimator = lt.pgmpy_em(seed=0, latent_card={"h": 3}, state_names={"h": ["a", "b", "c"]})
    fitted = network.fit(rows, estimator=estimator)
    assert fitted.get_cpds("h").state_names == {"h": ["a", "b", "c"]}
    assert estimator.state_names_["x"] == ["no", "yes"]
    again = pickle.loads(pickle.dumps(estimator))
    assert again.get_params() == estimator.get_params()
    np.testing.assert_array_equal(again.parameters_[0].values, estimator.parameters_[0].values)
    assert estimator.clone().get_params() == estimator.get_params()
    plain = lt.pgmpy_em(seed=0)
    assert plain.fit(network, rows).parameters_[0].cardinality[0] == 3  # as it was before
    network = DiscreteBayesianNetwork(network.edges(), latents={"h"})
    weighted = lt.pgmpy_em(seed=0).fit(network, rows, sample_weight=np.full(len(rows), 2.0))
    doubled = lt.pgmpy_em(seed=0).fit(network, pd.concat([rows, rows]))
    levels = [log_likelihood(each.parameters_, rows) for each in (weighted, doubled)]
    assert levels[0] == pytest.approx(levels[1], abs=1e-4)  # both stop within 1e-8 a row


def test_without_latents_they_are_the_shares(rows):
    network = DiscreteBayesianNetwork([("x", "y"), ("z", "y")])
    theirs = {c.variable: c for c in DiscreteMLE().fit(network, rows).parameters_}
    for cpd in lt.PgmpyEM(network, rows).get_parameters():
        assert cpd == theirs[cpd.variable]
    for kind in ("BDeu", "K2"):
        bayes = DiscreteBayesianEstimator(prior_type=kind, equivalent_sample_size=8)
        theirs = {c.variable: c for c in bayes.fit(network, rows).parameters_}
        settings = {"prior_type": kind, "equivalent_sample_size": 8}
        for cpd in lt.PgmpyEM(network, rows).get_parameters(apply_smoothing=True, **settings):
            assert cpd == theirs[cpd.variable]
    counts = {"x": [[1], [2]], "z": [[3], [1]], "y": [[1, 2, 3, 4], [4, 3, 2, 1]]}
    bayes = DiscreteBayesianEstimator(prior_type="dirichlet", pseudo_counts=counts)
    theirs = {c.variable: c for c in bayes.fit(network, rows).parameters_}
    prior = {"prior_type": "dirichlet", "pseudo_counts": counts}
    for cpd in lt.PgmpyEM(network, rows).get_parameters(apply_smoothing=True, **prior):
        assert cpd == theirs[cpd.variable]


def test_rows_with_holes_are_kept(rows, network):
    holes = rows.copy()
    holes.loc[holes.index[:30], "x"] = None
    whole = lt.PgmpyEM(network, holes).get_parameters(seed=0)
    fewer = lt.PgmpyEM(network, holes, complete_samples_only=True).get_parameters(seed=0)
    assert log_likelihood(whole, holes) > log_likelihood(fewer, holes)
    empty = holes.assign(h=None)
    plain = DiscreteBayesianNetwork([("h", "x"), ("h", "y"), ("h", "z")])
    found = lt.PgmpyEM(plain, empty).get_parameters(seed=0)
    assert log_likelihood(found, holes) == pytest.approx(log_likelihood(whole, holes), abs=1e-6)


def test_a_start_from_given_tables(rows, network):
    first = lt.PgmpyEM(network, rows).get_parameters(seed=0)
    start = {cpd.variable: cpd for cpd in first}
    again = lt.PgmpyEM(network, rows).get_parameters(init_cpds=start, max_iter=1)
    assert log_likelihood(again, rows) == pytest.approx(log_likelihood(first, rows), abs=1e-4)


def test_clear_errors(rows, network):
    with pytest.raises(UnknownNameError, match="latent_card"):
        lt.PgmpyEM(network, rows).get_parameters(latent_card={"x": 2})
    with pytest.raises(DataError, match="every variable that is not latent"):
        lt.PgmpyEM(network, rows.drop(columns="x")).get_parameters()
    with pytest.raises(DataError, match="uniform"):
        lt.PgmpyEM(network, rows).get_parameters(init_cpds="uniform")
    with pytest.raises(DataError, match="apply_smoothing"):
        lt.PgmpyEM(network, rows).get_parameters(prior_type="K2")
    with pytest.raises(UnknownNameError, match="prior_type"):
        lt.PgmpyEM(network, rows).get_parameters(apply_smoothing=True, prior_type="K3")
    with pytest.raises(ValueError, match="network of pgmpy"):
        lt.PgmpyEM("h->x", rows).get_parameters()

"""Numbers of states of latents among columns that are parents."""

import numpy as np
import pytest

import latentia as lt

# the hidden node is told by u and tells four columns, of which d listens to u as well
EDGES = "u->h; h->a; h->b; h->c; h->d; u->d; a->e"


def hidden_among_columns(states: int, rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Rows of a hidden node with so many states, each of which most columns can tell."""
    rng = np.random.default_rng(seed)

    def noisy(codes: np.ndarray, sizes: int) -> np.ndarray:
        return np.where(rng.random(rows) < 0.85, codes % sizes, rng.integers(sizes, size=rows))

    u = rng.integers(3, size=rows)
    h = (u + rng.integers(states, size=rows)) % states
    found = {name: noisy(h + k, 6) for k, name in enumerate("abc")}
    return {"u": u, **found, "d": noisy(h + u, 6), "e": noisy(found["a"], 3)}


@pytest.mark.parametrize("states", [2, 3, 5])
@pytest.mark.parametrize("learner", ["pbp", "em"])
def test_the_number_is_found(states, learner):
    frame = hidden_among_columns(states, 3000)
    model = lt.LatentModel(EDGES, latents=["h"], learner=learner).fit(frame)
    assert model.states_ == {"h": states}


def test_a_table_with_holes():
    frame = hidden_among_columns(4, 3000)
    rng = np.random.default_rng(0)
    holed = {x: np.where(rng.random(3000) < 0.2, np.nan, codes) for x, codes in frame.items()}
    model = lt.LatentModel(EDGES, latents=["h"], kinds=dict.fromkeys(frame, "discrete"))
    assert model.fit(holed).states_ == {"h": 4}


def test_known_numbers_stay_and_seeds_do_not_matter():
    frame = hidden_among_columns(3, 2000)
    graph = EDGES + "; g->a; g->b"
    one = lt.LatentModel(graph, latents={"h": None, "g": 2}).fit(frame).states_
    assert one["g"] == 2
    assert one == lt.LatentModel(graph, latents={"h": None, "g": 2}).fit(frame).states_


def test_columns_too_wide_for_any_plan():
    """A lattice of 49 columns of thirty states: no plan of it, and no exact P(column)."""
    rng, rows = np.random.default_rng(2), 1500
    frame = hidden_among_columns(3, rows)
    edges = [*EDGES.split("; "), "e->x00"]
    for i in range(7):
        for j in range(7):
            near = [f"x{a}{b}" for a, b in ((i - 1, j), (i, j - 1)) if min(a, b) >= 0]
            edges += [f"{x}->x{i}{j}" for x in near]
            told = sum(frame[x] for x in near) if near else frame["e"]
            noise = rng.integers(30, size=rows)
            frame[f"x{i}{j}"] = np.where(rng.random(rows) < 0.7, told % 30, noise)
    graph = "; ".join(edges)
    with pytest.raises(lt.errors.PlanError):
        lt.make_plan(graph, {"h": 2}, {x: int(c.max()) + 1 for x, c in frame.items()})
    model = lt.LatentModel(graph, latents=["h"]).fit(frame)
    assert model.states_ == {"h": 3}
    assert np.isfinite(model.score(frame))
    with pytest.raises(lt.errors.PlanError, match="approximate=True"):
        model.query("x66")

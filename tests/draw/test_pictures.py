"""Pictures: sound SVG, everything named, nothing on top of anything else."""

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context

import latentia as lt
from latentia.draw.answers import plot_density
from latentia.draw.graphs import _places, _shape
from latentia.draw.layered import count_crossings, lay_out, spread
from latentia.draw.passing import pass_all
from latentia.draw.svg import HANGING, Drawing, text_width
from latentia.errors import DataError, GraphError
from latentia.inference.evidence import read_evidence

DIAMOND = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"
LATENTS = dict.fromkeys("ABCF", 3)
SVG = "{http://www.w3.org/2000/svg}"


def parse(drawing: Drawing) -> ET.Element:
    """The picture as XML; no number in it is NaN or infinite."""
    root = ET.fromstring(drawing.svg)
    assert root.tag == f"{SVG}svg"
    assert not re.search(r"\b(nan|inf)\b", drawing.svg)
    return root


def words(drawing: Drawing) -> list[str]:
    return ["".join(t.itertext()) for t in parse(drawing).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    rng = np.random.default_rng(0)
    graph = lt.as_graph(DIAMOND, LATENTS, dict.fromkeys("DEGH", 5))
    truth = lt.testing.random_model(graph, rng, 0.4)
    return lt.LatentModel(DIAMOND, LATENTS).fit(truth.sample(5000, rng))


def graphs() -> list[lt.LatentGraph]:
    rng = np.random.default_rng(1)
    kinds = [lt.testing.random_graph(rng, kind) for kind in lt.testing.KINDS for _ in range(4)]
    return [
        *kinds,
        lt.templates.hidden_markov(20, 3),
        lt.templates.grid(4, 4, 2),
        lt.templates.latent_class(40, 3),
        lt.as_graph("alone"),
        lt.as_graph([('a <&> "b"', ("tuple", 1))]),
    ]


@pytest.mark.parametrize("graph", graphs(), ids=lambda g: f"{len(g.names)} variables")
def test_every_variable_is_drawn_and_none_overlap(graph: lt.LatentGraph) -> None:
    drawing = graph.draw()
    shown = words(drawing)
    for v, name in enumerate(graph.names):
        assert f"{name}{str(graph.states[v] or '').translate(HANGING)}" in shown
    marks = parse(drawing).findall(f"{SVG}ellipse")
    assert len(marks) - bool(graph.latent) == len(graph.latent)  # one more in the legend
    shapes = [_shape(graph, v) for v in range(len(graph.names))]
    places, paths = _places(graph, shapes)
    assert len(paths) == len(graph.edges)
    for a, b in itertools.combinations(range(len(places)), 2):
        apart = [abs(p - q) for p, q in zip(places[a], places[b], strict=True)]
        room = ((shapes[a].width + shapes[b].width) / 2, (shapes[a].height + shapes[b].height) / 2)
        assert apart[0] >= room[0] - 0.01 or apart[1] >= room[1] - 0.01


def test_numbers_of_states_lie_within_the_oval_of_a_latent() -> None:
    """They hang below the line of a long name, where an oval is narrower."""
    for name in ("h", "latent(a5, e4)", "latent(faminc, school, medicaid, …)"):
        for states in (4, 256):
            graph = lt.as_graph([(name, "x"), (name, "y")], {name: states})
            v = graph.names.index(name)
            shape = _shape(graph, v)
            half = (text_width(name, 13) + 2.0 + text_width(str(states), 9.4)) / 2
            hangs = 13 * 0.35 + 3.0  # below the middle: the line's foot, and the figure's
            assert (2 * half / shape.width) ** 2 + (2 * hangs / shape.height) ** 2 < 1.0


def test_trees_and_the_diamond_have_no_crossings() -> None:
    graph = lt.as_graph(DIAMOND, LATENTS)
    layout = lay_out([30.0] * 8, graph.edges, 10.0)
    down: list[list[int]] = [[] for _ in graph.names]
    for a, b in graph.edges:
        assert layout.layer[b] == layout.layer[a] + 1  # no long edges here
        down[a].append(b)
    rows = [
        sorted((v for v in range(8) if layout.layer[v] == k), key=lambda v: layout.across[v])
        for k in range(4)
    ]
    assert count_crossings(rows, down) == 0


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=8),
    st.floats(0, 10),
)
def test_spread_keeps_room_and_beats_other_places(wanted: list[float], gap: float) -> None:
    widths = [10.0 + i for i in range(len(wanted))]
    found = spread(wanted, widths, gap)
    need = [(a + b) / 2 + gap for a, b in itertools.pairwise(widths)]
    for (a, b), room in zip(itertools.pairwise(found), need, strict=True):
        assert b - a >= room - 1e-6
    cost = sum((a - b) ** 2 for a, b in zip(found, wanted, strict=True))
    for shift in (-1.0, 1.0):  # the best places cannot be moved together
        moved = sum((a + shift - b) ** 2 for a, b in zip(found, wanted, strict=True))
        assert moved >= cost - 1e-6


def test_plan_names_separators_ranks_and_groups() -> None:
    plan = lt.make_plan(DIAMOND, LATENTS, dict.fromkeys("DEGH", 5))
    shown = words(plan.draw())
    assert shown.count("{F}  rank 3") == 2
    assert "α = D" in shown
    assert "β = E" in shown
    assert {"Graph", "Junction tree", "root"} <= set(shown)
    assert "<svg" in plan._repr_html_()
    assert "separator" in plan._repr_html_()


@pytest.mark.parametrize("kind", sorted(lt.testing.KINDS))
def test_plans_of_all_kinds_are_drawn(kind: str) -> None:
    graph = lt.testing.random_graph(np.random.default_rng(3), kind)
    plan = lt.make_plan(graph)
    shown = words(plan.draw())
    ranks = [w for w in shown if re.search(r"rank \d+$", w)]
    assert len(ranks) == len(plan.nodes) - len(plan.roots)


def test_messages_show_the_answer_and_the_evidence(model: lt.LatentModel) -> None:
    drawing = model.draw({"G": 2, "H": 0}, target="D")
    shown = words(drawing)
    assert shown.count("seen") == 2
    for state, p in model.query("D", {"G": 2, "H": 0}).probabilities.items():
        assert f"D={state}" in shown
        assert f"{p:.2f}" in shown
    assert "Messages towards D, given G=2, H=0" in shown
    everything = words(model.draw({"E": 1}))
    assert {"D=0", "G=0", "H=0", "E=1"} <= set(everything)
    assert parse(model.draw(target="D")) is not None
    assert words(model.draw()) == words(model.operators_.plan.draw())


def test_messages_are_those_of_inference(model: lt.LatentModel) -> None:
    """At a leaf, its table times the message down is P(x, e) / ∏ P(e_i)."""
    plan = model.operators_.plan
    codes = [None, np.array([1]), np.array([2]), None]
    _, down = pass_all(model.operators_, read_evidence(plan, codes))
    leaf = next(
        x for x, k in enumerate(plan.leaves) if plan.graph.names[plan.nodes[k].columns[0]] == "D"
    )
    joint = model.operators_.leaves[leaf] @ down[plan.leaves[leaf]].value[:, 0]
    found = np.asarray(model.query("D", {"E": 1, "G": 2}))
    table = np.maximum(joint, 0) + model.operators_.mix * model.operators_.marginals[leaf]
    np.testing.assert_allclose(table / table.sum(), found, atol=1e-12)


def test_a_question_that_makes_no_sense_is_refused(model: lt.LatentModel) -> None:
    with pytest.raises(lt.errors.EvidenceError, match="at once"):
        model.draw({"D": 1}, target="D")
    with pytest.raises(lt.errors.EvidenceError, match="latent"):
        model.draw(target="A")


def test_posteriors_are_plotted(model: lt.LatentModel) -> None:
    posterior = model.query("D", {"G": 2})
    shown = words(posterior.plot())
    assert "P(D | G=2)" in shown
    assert "probability" in shown
    assert all(f"{p:.3f}" in shown for p in posterior.probabilities.values())
    grid = words(model.query(["D", "E"], {"G": 2}).plot())
    assert sum(bool(re.fullmatch(r"0\.\d{3}", w)) for w in grid) == 25
    many = words(model.query(["D", "E", "G"]).plot())
    assert any("95 less probable" in w for w in many)


def test_densities_are_plotted() -> None:
    x = np.linspace(-2.0, 2.0, 50)
    shown = words(plot_density(x, np.exp(-(x**2)), "p(y)"))
    assert {"p(y)", "-2", "0", "2"} <= set(shown)
    for wrong in (np.full(50, np.nan), np.zeros(50), np.ones(3), -np.ones(50)):
        with pytest.raises(DataError):
            plot_density(x, wrong, "p")


def test_drawings_are_saved(model: lt.LatentModel, tmp_path: Path) -> None:
    drawing = model.draw()
    assert drawing.save(tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg
    assert drawing.svg in drawing.save(str(tmp_path / "a.html")).read_text(encoding="utf-8")
    assert drawing._repr_svg_() == drawing.svg
    assert ".save" in repr(drawing)
    with pytest.raises(DataError, match=r"\.svg"):
        drawing.save(tmp_path / "a.png")


def test_notebooks_show_models(model: lt.LatentModel) -> None:
    bundle = model._repr_mimebundle_()
    assert "<svg" in bundle["text/html"]
    assert "sk-container" in bundle["text/html"]
    assert "Junction tree" in model._repr_html_()
    plain = lt.LatentModel(DIAMOND, LATENTS)
    assert "sk-container" in plain._repr_mimebundle_()["text/html"]
    assert "Junction tree" not in plain._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_what_cannot_be_read_is_not_drawn() -> None:
    graph = lt.templates.hidden_markov(200, 2)
    with pytest.raises(GraphError, match="400 variables"):
        graph.draw()
    plan = lt.make_plan(lt.templates.latent_class(130, 2), states={f"X{i}": 2 for i in range(130)})
    with pytest.raises(GraphError, match="130 leaves"):
        plan.draw()
    assert plan._repr_html_().startswith("<pre>")


def test_continuous_columns_are_drawn() -> None:
    rng = np.random.default_rng(5)
    h = rng.integers(2, size=400)
    data = {name: h * 2.0 + rng.normal(size=400) for name in "xyz"} | {"kind": h ^ (h > 2)}
    learner = lt.PBP(kernel=lt.KernelSettings(features=20, rank=4))
    model = lt.LatentModel("H->x,y,z,kind", {"H": 2}, learner=learner).fit(data)
    shown = words(model.draw({"x": 1.5, "y": (0.0, 3.0)}, target=["z", "kind"]))
    assert {"x=1.5", "y=(0.0, 3.0)", "kind=0", "kind=1"} <= set(shown)
    assert sum(bool(re.fullmatch(r"z=.*….*", w)) for w in shown) == 8
    density = model.query("z", {"x": 1.5})
    assert "p(z | x=1.5)" in words(density.plot())


def test_what_is_tied_to_nothing_stands_below_and_close() -> None:
    names = [f"a rather long name {i}" for i in range(12)]
    graph = lt.LatentGraph(
        ("H", *names), tuple((0, i) for i in range(1, 8)), frozenset({0}), (2, *[None] * 12)
    )
    places, _ = _places(graph, [_shape(graph, v) for v in range(13)])
    tied, alone = places[:8], places[8:]
    assert min(y for _, y in alone) > max(y for _, y in tied)
    assert min(x for x, _ in tied) - 50 < min(x for x, _ in alone)
    assert max(x for x, _ in alone) < max(x for x, _ in tied) + 50


def test_edges_of_a_wide_star_do_not_pass_through_other_columns() -> None:
    graph = lt.templates.latent_class(14, 3)
    shapes = [_shape(graph, v) for v in range(15)]
    places, paths = _places(graph, shapes)
    for (a, b), corners in paths.items():
        points = [places[a], *corners, places[b]]
        for (x, y), (to, below) in itertools.pairwise(points):
            for v in set(graph.observed) - {b}:
                top = places[v][1] - shapes[v].height / 2
                if below > top > y:  # where the edge is as low as the tops of boxes
                    at = x + (to - x) * (top - y) / (below - y)
                    ends = [at, to]
                    left, right = (places[v][0] + s * shapes[v].width / 2 for s in (-1, 1))
                    assert not (min(ends) < right and left < max(ends)), (b, v)


def test_long_edges_do_not_pass_behind_other_columns() -> None:
    """Lines are smooth: curves around corners, from middle to middle of their sides."""
    text = "L -> model, cyl, trans, hwy, maker, drive, class, displacement, year, city, fuel"
    more = "model -> maker, drive, class; cyl -> displacement, city; trans -> year; maker -> fuel"
    graph = lt.as_graph(f"{text}; {more}", ["L"])
    shapes = [_shape(graph, v) for v in range(len(graph.names))]
    places, paths = _places(graph, shapes)
    share = np.linspace(0.0, 1.0, 50)[:, None]
    for (a, b), corners in paths.items():
        points = np.array([places[a], *corners, places[b]])
        middles = (points[1:] + points[:-1]) / 2
        knots = [points[0], *middles[1:-1], points[-1]]
        for here, corner, there in zip(knots, points[1:-1], knots[1:], strict=False):
            once, twice = here + share * (corner - here), corner + share * (there - corner)
            curve = once + share * (twice - once)
            for v in set(graph.observed) - {a, b}:
                apart = np.abs(curve - places[v]) - [shapes[v].width / 2, shapes[v].height / 2]
                assert (apart > 0).any(axis=1).all(), (graph.names[b], graph.names[v])


@pytest.mark.usefixtures("quick_fits")
def test_measured_columns_have_no_number_of_states() -> None:
    rng = np.random.default_rng(5)
    h = rng.integers(2, size=200)
    data = {"kind": h, "other": h ^ (rng.random(200) < 0.1), "x": h + rng.normal(size=200) / 3}
    model = lt.LatentModel(lt.Structure("tree", max_states=2)).fit(data)
    for drawing in (model.draw(), model.structure_.draw()):
        assert {"kind₂", "other₂", "x"} <= set(words(drawing))

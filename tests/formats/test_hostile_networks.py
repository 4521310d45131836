"""Files that are broken or meant to harm: each an error of ours, with its line and a cure."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.formats.mutating import case
from tests.formats.samples import odd_model

import latentia as lt
from latentia.errors import FormatError, MissingLibraryError
from latentia.formats import file_text


@pytest.mark.parametrize("start", range(0, 1200, 100))
def test_mutated_files(start: int, tmp_path: Path) -> None:
    """The first of the cases that `python -m tests.formats.mutating` runs."""
    came = {case(number, tmp_path).split(": ")[1] for number in range(start, start + 100)}
    assert came == {"error", "sound"}  # mutations are neither all harmless nor all fatal


A = "variable a {\n  type discrete [ 2 ] { x, y };\n}\n"
B = "variable b {\n  type discrete [ 2 ] { u, v };\n}\n"
PA = "probability ( a ) {\n  table 0.5, 0.5;\n}\n"
BIF = {
    A + PA + "variable": "line 7: expected .*variable name {, got 'variable'",
    A + PA[:-2]: "line 5: expected .*}.*, got the end of the file",
    A: "expected a table for 'a'",
    "": "got no variables",
    A + A + PA: "line 4: variable 'a' is there twice",
    A + PA + PA: "line 7: 'a' has two tables, the first in line 4",
    A.replace("x, y", "x, x") + PA: "line 1: expected different states of 'a', got 'x' twice",
    A.replace("2", "1000000000"): "line 2: expected .*type discrete.*, got 'type discrete",
    A.replace("2", "999999999")
    + PA: "line 2: expected 999999999 states of 'a', as declared, got 2",
    A.replace("[ 2 ] { x, y }", "[ 0 ] { }") + PA: "names of the states of 'a'",
    A.replace("x, y", "x,, y") + PA: "line 2: expected names with commas, got ',, y'",
    A.replace("discrete", "continuous"): "line 2: expected .*type discrete",
    A + "probability ( c ) { table .5, .5; }": "line 4: variable 'c' is not declared",
    A + B + PA + "probability ( b, a ) { table .5 .5 .5 .5; }": "line 10: .*Joint tables are not",
    A + PA.replace("0.5;", "0.6;"): r"line 4: .*sum to 1, got 1\.1.*normalize=True",
    A + PA.replace("0.5;", "-0.5;"): "line 4: expected probabilities .*got -0.5",
    A + PA.replace("0.5;", "1e999;"): "line 4: expected probabilities .*got inf",
    A + PA.replace("0.5;", "nan;"): "line 5: expected .*table numbers;.*, got 'table 0.5, nan;'",
    A + PA.replace("0.5;", "0.5.5;"): "line 5: expected a number, got '0.5.5'",
    A + PA.replace("0.5;", "0.2, 0.3;"): "line 5: expected 2 numbers, got 3",
    A + B + PA + "probability ( b | a ) {\n (x) 1, 0;\n}": r"line 10: .*got none for \(y\)",
    A + B + PA + "probability ( b | a ) {\n (x) 1 0;\n (x) 1 0;\n}": "line 11: .*got one twice",
    A + B + PA + "probability ( b | a ) {\n (x) 1 0;\n (z) 1 0;\n}": r"line 12: .*got \(z\)",
    A + B + PA + "probability ( b | a ) {\n (x) 1 0;\n (y) 1;\n}": "line 12: expected 2 numbers",
    A + B + PA + "probability ( b | a ) {\n (x, y) 1 0;\n}": "line 11: .*a state of every parent",
    A
    + B
    + "probability ( b | a ) {\n table 1 0 0 1;\n}\nprobability ( a | b ) {\n table 1 0 0 1;\n}": (
        "the parents go in a circle: a -> b -> a"
    ),
    A.replace("};", "};\n  property latent = yes;") + PA: "every variable is marked as latent",
    A.replace("};", "};\n  property latent = maybe;") + PA: "line 3: expected latent = yes or no",
}


@pytest.mark.parametrize("text", BIF)
def test_broken_bif(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bif"
    path.write_text(text)
    with pytest.raises(FormatError, match=BIF[text]) as raised:
        lt.read(path)
    assert str(path) in str(raised.value)


def test_complaints_stay_short(tmp_path: Path) -> None:
    path = tmp_path / "x.bif"
    path.write_text((A + A + PA).replace(" a ", f" {'a' * 100_000} "))
    with pytest.raises(FormatError, match=r"line 4: variable 'aaa.*… aaa.*Rename") as raised:
        lt.read(path)
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("bif", "/*" * 200_000),
        ("bif", '"' * 200_001),
        ("bif", A + "probability ( a ) {" + "(" * 200_000),
        ("net", 'node a { states = ("x"); }\npotential (a) { data = ' + "(" * 200_000 + "1; }"),
        ("uai", "BAYES\n" + "1 " * 200_000),
        ("dot", "digraph {" + "a->" * 20_000),
    ],
)
def test_floods_are_refused_in_linear_time(ending: str, text: str, tmp_path: Path) -> None:
    """Where something were tried twice for each letter, these would take hours."""
    path = tmp_path / f"x.{ending}"
    path.write_text(text)
    with pytest.raises(FormatError):
        lt.read(path)


def test_a_long_circle_of_parents(tmp_path: Path) -> None:
    count, path = 3000, tmp_path / "x.bif"
    blocks = [
        A.replace(" a ", f" v{k} ")
        + f"probability ( v{k} | v{(k + 1) % count} ) {{ default 1 0; }}\n"
        for k in range(count)
    ]
    path.write_text("".join(blocks))
    with pytest.raises(FormatError, match="the parents go in a circle: v0 -> v2999"):
        lt.read(path)


def test_default_rows_and_tables_with_parents(tmp_path: Path) -> None:
    """In `table` the variable changes slowest: p(u|x), p(u|y), p(v|x), p(v|y)."""
    path = tmp_path / "x.bif"
    path.write_text(A + B + PA + "probability ( b | a ) { table 0.1, 0.3, 0.9, 0.7; }")
    assert lt.read(path).cpts["b"].tolist() == [[0.1, 0.9], [0.3, 0.7]]
    path.write_text(A + B + PA + "probability (b|a) { default 0.1 0.9; (y) .3 .7; } // end")
    assert lt.read(path).cpts["b"].tolist() == [[0.1, 0.9], [0.3, 0.7]]


def test_a_table_that_only_a_default_fills_is_bounded(tmp_path: Path) -> None:
    names = [f"v{k}" for k in range(40)]
    text = "".join(A.replace(" a ", f" {n} ") for n in names)
    text += "".join(PA.replace(" a ", f" {n} ") for n in names[:-1])
    text += f"probability ( v39 | {', '.join(names[:-1])} ) {{ default 0.5 0.5; }}"
    path = tmp_path / "x.bif"
    path.write_text(text)
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"at most 50,000,000 cells .*got 1,099,511,627,776"):
        lt.read(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE BIF [\n <!ENTITY a "lol">\n'
    + "".join(
        f' <!ENTITY {b} "{f"&{a};" * 10}">\n' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>\n<BIF><NETWORK><NAME>&i;</NAME></NETWORK></BIF>"
)
OUTSIDE = '<!DOCTYPE BIF [\n<!ENTITY a SYSTEM "file:///etc/hostname">\n]><BIF>&a;</BIF>'
XML = {
    BOMB: "line 3: entities are not read",
    OUTSIDE: "line 2: entities are not read",
    "<BIF>\n<NETWORK>": "line 2: this is no well-formed XML: no element found.*cut off",
    "<a>" * 100_000: "line 1: expected at most .*50 within each other",
    "<BIF/>": "line 1: expected one NETWORK within BIF",
    '<?xml version="1.0" encoding="klingon"?><BIF/>': "line 1: .*(encoding|well-formed)",
    '<?xml version="1.0" encoding="utf-7"?><BIF/>': "line 1: .*(encoding|well-formed)",
    "": "no element found",
}


@pytest.mark.parametrize("text", XML, ids=range(len(XML)))
@pytest.mark.parametrize("ending", ["xmlbif", "xdsl", "graphml", "xml"])
def test_hostile_xml(text: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_text(text)
    message = XML[text]
    if text == "<BIF/>" and ending == "xdsl":
        message = "line 1: expected a file of GeNIe, <smile>"
    with pytest.raises(FormatError, match=message):
        lt.read(path)


def test_a_document_type_without_entities_is_fine(tmp_path: Path) -> None:
    lt.write(odd_model(), tmp_path / "x.xmlbif")
    text = (tmp_path / "x.xmlbif").read_text(encoding="utf-8")
    kind = (
        "<!DOCTYPE BIF [\n<!ELEMENT BIF (NETWORK)*>\n<!ATTLIST BIF VERSION CDATA #REQUIRED>\n]>\n"
    )
    (tmp_path / "x.xmlbif").write_text(text.replace("<BIF ", kind + "<BIF "), encoding="utf-8")
    assert lt.read(tmp_path / "x.xmlbif").graph == odd_model().graph


XDSL = '<smile><nodes>\n<cpt id="a"><state id="x"/><state id="y"/>{}</cpt>\n</nodes></smile>'
OTHERS = [
    (
        "xdsl",
        XDSL.format("<probabilities>1 0 0</probabilities>"),
        r"line 2: expected 2 numbers \(2\)",
    ),
    (
        "xdsl",
        XDSL.format("<probabilities>1 x</probabilities>"),
        "line 2: expected a number, got 'x'",
    ),
    ("xdsl", XDSL.format(""), "line 2: expected one <probabilities> of 'a', got 0"),
    ("xdsl", XDSL.replace("cpt", "noisyadder").format(""), "line 2: .*change its type to General"),
    ("xdsl", XDSL.replace(' id="a"', "").format(""), "line 2: expected an id of <cpt>"),
    ("net", "node a { }", "line 1: expected states of 'a'"),
    ("net", 'net { }\nutility node u { states = ("x"); }', "line 2: .*a utility node, 'u'"),
    (
        "net",
        'node a { states = ("x" "y"); }\npotential (a) { data = ((1) (0)); }',
        "line 2: .*paren",
    ),
    (
        "net",
        'node a { states = ("x" "y"); }\npotential (a) { data = (1 0 0); }',
        r"2 numbers \(2\)",
    ),
    ("net", 'node a { states = ("x" "y"); }\npotential (a) { }', "line 2: expected data of 'a'"),
    ("net", 'node a { states = "x"; }', r"line 1: expected a list in \( \)"),
    ("net", "node a {\n  x = 1;\n  x = 2;\n}", "line 3: expected x once"),
    ("uai", "BAYES\n1\n1000000000\n1\n1 0\n2 1 0", "line 3: expected a number of states from 1 to"),
    ("uai", "MARKOV\n999999999\n2", "line 2: expected a number of variables from 1 to"),
    ("uai", "BAYES\n1\n2\n1\n1 0\n2\n0.5", "line 7: expected 2 cells, got the end of the file"),
    ("uai", "BAYES\n1\n2\n1\n1 0\n2\n0.5 0.5\n7", "line 8: expected the end of the file"),
    ("uai", "BAYES\n1\n2\n1\n1 0\n3\n0.5 0.5 0", "line 6: expected 2 cells in this table"),
    ("uai", "BAYES\n1\n2\n1\n1 1\n2\n0.5 0.5", "line 5: expected a variable from 0 to 0"),
    ("uai", "BAYES\n1\n2.5\n1\n1 0\n2\n0.5 0.5", "line 3: expected a number of states"),
    ("uai", "BAYES\n2\n2 2\n2\n1 0\n1 0\n2\n1 0\n2\n1 0", "'0' has two tables"),
    ("uai", "BAYES\n1\n2\n1\n0\n1\n1", "expected variables in every table"),
    ("uai", "MARKOV\n1\n2\n1\n1 0\n2\n0 0", "expected finite potentials"),
    ("uai", "HELLO", "line 1: expected BAYES or MARKOV"),
    ("dot", "digraph {\n a -> a\n}", "line 2: 'a' is tied to itself"),
    ("dot", "digraph {\n a -- b\n}", "line 2: a graph of this kind has no edges --"),
    ("dot", "digraph { a -> b -> a }", "contradictory edges"),
    ("dot", "digraph { a -> b -> c -> a }", "has a cycle"),
    ("dot", "digraph {\n a [states=1000000000] }", "line 2: expected a number of states of 'a'"),
    ("dot", "digraph {\n a [latent=perhaps] }", "line 2: expected latent = true or false"),
    ("dot", "{" * 100_000, "line 1: expected at most 50 blocks within blocks"),
    ("dot", "digraph { a -> <b> }", "line 1: expected"),
    ("dot", "digraph {\n a -> b", "line 2: expected .*, got the end of the file"),
    (
        "graphml",
        '<graphml><graph>\n<edge source="a" target="b"/></graph></graphml>',
        "line 2: .*'a'",
    ),
    ("graphml", '<graphml><graph><node id="a"/><node id="a"/></graph></graphml>', "there twice"),
    ("graphml", '<graphml><graph edgedefault="both"/></graphml>', "edgedefault directed or"),
]


@pytest.mark.parametrize(("ending", "text", "message"), OTHERS)
def test_broken_files_of_other_formats(
    ending: str, text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        lt.read(path)


@pytest.mark.parametrize("ending", ["bif", "net", "uai", "dot"])
def test_encodings(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    lt.write(odd_model(), path)
    expected, text = lt.read(path), path.read_text(encoding="utf-8")
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        path.write_text(text, encoding=encoding)
        told = None if encoding == "utf-8-sig" else encoding
        again = lt.read(path, encoding=told)
        assert getattr(again, "graph", again) == getattr(expected, "graph", expected)
    if ending != "uai":  # whose names are in the other file
        with pytest.raises(FormatError, match=r"line \d+: expected text in UTF-8.*encoding="):
            lt.read(path)
    with pytest.raises(FormatError, match="encoding 'klingon' is unknown"):
        lt.read(path, encoding="klingon")
    path.write_bytes(text.encode().replace(b"2", b"\0", 1))
    with pytest.raises(FormatError, match=r"line \d+: expected text, got a zero byte"):
        lt.read(path)


def test_packed_and_huge_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.bif.gz"
    path.write_bytes(gzip.compress((A + PA).encode()))
    assert lt.read(path).names == ("a",)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(FormatError, match="damaged or cut off"):
        lt.read(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(FormatError, match="damaged or cut off"):
        lt.read(path)
    monkeypatch.setattr(file_text, "MOST_BYTES", 1000)
    path.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(FormatError, match="at most 1,000 bytes"):
        lt.read(path)


def test_names_of_a_uai_file(tmp_path: Path) -> None:
    path, names = tmp_path / "x.uai", tmp_path / "x.uai.names"
    path.write_text("c a comment\nBAYES\n2\n2 3\n2\n1 0\n2 0 1\n2\n.5 .5\n6\n1 0 0 0 .5 .5")
    assert lt.read(path, latents=["0"]).state_names["1"] == ("0", "1", "2")
    for text, message in [
        ("{", "x.uai.names, line 1: this is no JSON"),
        ("[" * 100_000, r"x.uai.names.*(lists within|no JSON)"),
        ('{"variables": 3}', "x.uai.names: expected"),
        ('{"variables": []}', "expected 2 variables .*Does it belong"),
        ('{"variables": [{"name": "a", "states": ["x", 3]}]}', "x.uai.names: expected"),
    ]:
        names.write_text(text)
        with pytest.raises(FormatError, match=message):
            lt.read(path)


def test_subgraphs_ports_and_defaults_of_dot(tmp_path: Path) -> None:
    path = tmp_path / "x.gv"
    path.write_text(
        "/* Graphviz */ strict digraph G {\n  rankdir=LR; node [shape=box];\n"
        '  subgraph cluster_0 { node [latent=true states=3]; H; "K" [latent=false] }\n'
        "  H -> {x y} [color=red]; K:n -> x:s:n; x;\n# a line of the preprocessor\n"
        "  z [label=latent]; w [latent]; w -> z -> y\n}\n"
    )
    graph = lt.read(path)
    names = [("H",), ("K",), ("x",), ("y",), ("z",), ("w",)]
    edges = [("H", "x"), ("H", "y"), ("K", "x"), ("w", "z"), ("z", "y")]
    assert graph == lt.as_graph([*names, *edges], {"H": 3, "w": None}, {"K": 3})


def test_lark_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from latentia.formats import grammars

    grammars._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "lark", None)
    (tmp_path / "x.bif").write_text(A + PA)
    with pytest.raises(MissingLibraryError, match="pip install lark"):
        lt.read(tmp_path / "x.bif")


NOISY = """<smile version="1.0" id="n"><nodes>
<cpt id="a"><state id="yes"/><state id="no"/><probabilities>0.3 0.7</probabilities></cpt>
<cpt id="b"><state id="much"/><state id="some"/><state id="none"/><probabilities>0.2 0.3 0.5
</probabilities></cpt>
<noisymax id="e"><state id="bad"/><state id="poor"/><state id="well"/><parents>a b</parents>
<strengths>{strengths}</strengths>
<parameters>0.5 0.3 0.2 {weakest} 0.6 0.3 0.1 0.2 0.3 0.5 0 0 1 0.1 0.2 0.7</parameters></noisymax>
</nodes></smile>"""


def test_a_noisy_max_is_the_strongest_of_its_causes(tmp_path: Path) -> None:
    path = tmp_path / "net.xdsl"
    path.write_text(NOISY.format(strengths="0 1 0 1 2", weakest="0 0 1"))
    found = lt.read(path).cpts["e"]
    causes = [
        np.array([[0.5, 0.3, 0.2], [0, 0, 1]]),
        np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0, 0, 1]]),
    ]
    leak = np.array([0.1, 0.2, 0.7])
    for a, b in np.ndindex(2, 3):  # every triple of what happens; the first state is strongest
        table = np.zeros(3)
        for x, y, z in np.ndindex(3, 3, 3):
            table[min(x, y, z)] += causes[0][a, x] * causes[1][b, y] * leak[z]
        assert found[a, b] == pytest.approx(table, abs=1e-12)


@pytest.mark.parametrize(
    ("strengths", "weakest", "message"),
    [
        ("1 0 0 1 2", "0 0 1", "in order of their strength"),
        ("0 1 0 1 2", "0 0.5 0.5", "to cause nothing"),
        ("0 1 0 1 2", "0 0", "18 parameters"),
        ("", "0 0 1", "in order of their strength"),
    ],
)
def test_other_noisy_nodes_are_refused(
    strengths: str, weakest: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.xdsl"
    path.write_text(NOISY.format(strengths=strengths, weakest=weakest))
    with pytest.raises(lt.errors.FormatError, match=rf"line \d+: .*{message}.*General"):
        lt.read(path)


def test_quotes_in_properties_and_markup_in_labels(tmp_path: Path) -> None:
    text = (
        'network "n" { property author "me; or not"; }\n'
        'variable x { type discrete [ 2 ] { a, b }; property size 5" wide; }\n'
        'probability ( x ) { table 0.25, 0.75; property "c; d"; }\n'
    )
    (tmp_path / "net.bif").write_text(text)
    assert lt.read(tmp_path / "net.bif").cpts["x"].tolist() == [0.25, 0.75]
    (tmp_path / "net.dot").write_text("digraph { a [label=<<b>x; <i>y</i></b>>]; a -> {b c} }")
    assert str(lt.read(tmp_path / "net.dot")) == "a->b; a->c"

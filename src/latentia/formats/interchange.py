"""read and write: networks in the files of other tools, by their names' endings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, overload

from latentia.errors import FormatError, UnknownNameError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.bif import bif_text, read_bif
from latentia.formats.dot import dot_text, read_dot
from latentia.formats.file_text import complaint, file_bytes, file_text
from latentia.formats.graphml import graphml_text, read_graphml
from latentia.formats.hugin_net import net_text, read_net
from latentia.formats.markup import read_markup
from latentia.formats.model_tables import model_tables, plain_network
from latentia.formats.plain_network import PlainNetwork, spelled
from latentia.formats.uai import read_uai, uai_names, uai_text
from latentia.formats.xdsl import read_xdsl, xdsl_text
from latentia.formats.xmlbif import read_xmlbif, xmlbif_text
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Foreign, Given
from latentia.whole_file import whole_file

ENDINGS = {
    ".bif": "bif",
    ".xmlbif": "xmlbif",
    ".bifxml": "xmlbif",
    ".xbif": "xmlbif",
    ".xml": "xmlbif",
    ".xdsl": "xdsl",
    ".net": "net",
    ".uai": "uai",
    ".dot": "dot",
    ".gv": "dot",
    ".graphml": "graphml",
}
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))
TEXTS: Mapping[str, Callable[[PlainNetwork], str]] = {
    "bif": bif_text,
    "xmlbif": xmlbif_text,
    "xdsl": xdsl_text,
    "net": net_text,
    "uai": uai_text,
}
PICTURES: Mapping[str, Callable[[LatentGraph, tuple[str, ...]], str]] = {
    "dot": dot_text,
    "graphml": graphml_text,
}
NAMES = ".names"  # the ending of the file of names beside net.uai


@overload
def read(
    path: str | os.PathLike[str],
    latents: Latents = None,
    *,
    graph_only: Literal[True],
    format: str | None = None,
    normalize: bool = False,
    encoding: str | None = None,
    order: str | None = None,
) -> LatentGraph: ...


@overload
def read(
    path: str | os.PathLike[str],
    latents: Latents = None,
    *,
    graph_only: bool = False,
    format: str | None = None,
    normalize: bool = False,
    encoding: str | None = None,
    order: str | None = None,
) -> Foreign: ...


def read(
    path: str | os.PathLike[str],
    latents: Latents = None,
    *,
    graph_only: bool = False,
    format: str | None = None,
    normalize: bool = False,
    encoding: str | None = None,
    order: str | None = None,
) -> TabularModel | LatentGraph:
    """Read a network that another tool wrote: BIF, XMLBIF, XDSL, NET or UAI; DOT or GraphML.

    Parameters
    ----------
    path : path of a file
        Its ending tells the format; .gz may follow.
    latents : list of names, or dict of name -> number of states, optional
        Variables that are latent, besides those that the file marks.
    graph_only : bool
        Give the `LatentGraph` alone. DOT and GraphML hold nothing else.
    format : {"bif", "xmlbif", "xdsl", "net", "uai", "dot", "graphml"}, optional
        For files with other endings.
    normalize : bool
        Divide rows of tables by their sums, for files with rounded numbers. Otherwise rows that do
        not sum to 1 within 1e-6 are refused.
    encoding : str, optional
        Of text; UTF-8 unless stated, or as an XML file says itself.
    order : {"min_fill", "min_weight", "min_neighbours"}, optional
        As `TabularModel` takes it; the first of them that keeps the cliques small.

    Returns
    -------
    TabularModel
        Or a LatentGraph, if asked for or if there are no tables. Names and states are strings.
    """
    name = os.fspath(path)
    kind = _format_of(name, format)
    data = file_bytes(path)
    found: PlainNetwork | LatentGraph
    if kind in ("xmlbif", "xdsl", "graphml"):
        source, root = read_markup(name, data, encoding)
        if root.tag == "graphml":  # .xml may be either
            found = read_graphml(source, root)
        elif kind == "xdsl" or root.tag == "smile":
            found = read_xdsl(source, root, normalize)
        else:
            found = read_xmlbif(source, root, normalize)
    else:
        text = file_text(name, data, encoding)
        if kind == "uai":
            found = read_uai(text, _names_beside(name), normalize)
        elif kind == "dot":
            found = read_dot(text)
        else:
            found = {"bif": read_bif, "net": read_net}[kind](text, normalize)
    if isinstance(found, LatentGraph):
        return found if latents is None else as_graph(found, latents)
    return found.graph(latents) if graph_only else found.model(latents, order)


def write(model: Given, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a model with tables for another tool: BIF, XMLBIF, XDSL, NET or UAI; DOT or GraphML.

    A `TabularModel`, or a `LatentModel` of a learner with tables; of any of them, or of a
    `LatentGraph`, the graph alone as DOT or GraphML. Latents are marked in the format's own fields,
    and `read` finds them there. The names of a .uai file go to a second file, with .names at the
    end. States without names are written as "0", "1", ….
    """
    name = os.fspath(path)
    kind = _format_of(name, format)
    if name.lower().endswith(".gz"):
        raise complaint(name, None, "packed files are read, but not written. Leave out .gz.")
    if kind in PICTURES:
        graph = model if isinstance(model, LatentGraph) else model_tables(model).graph
        _put(name, PICTURES[kind](graph, spelled(graph.names, "variables")))
        return
    if isinstance(model, LatentGraph):
        raise complaint(
            name, None, f"{kind} holds tables, got a graph without any. Write .dot or .graphml."
        )
    network = plain_network(model)
    if not network.directed and kind != "uai":
        raise complaint(
            name, None, f"{kind} holds directed networks, got an undirected one. Write .uai."
        )
    _put(name, TEXTS[kind](network))
    if kind == "uai":
        _put(name + NAMES, uai_names(network))


def _format_of(name: str, format: str | None) -> str:
    if format is not None:
        if format not in FORMATS:
            raise UnknownNameError("format", format, FORMATS)
        return format
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending not in ENDINGS:
        raise FormatError(
            f"{name}: expected a file that ends with one of {', '.join(ENDINGS)}, got "
            f"{ending or 'no ending'!r}. Pass format=, one of {', '.join(FORMATS)}. Models of "
            "latentia's own are kept by lt.save and lt.load."
        )
    return ENDINGS[ending]


def _names_beside(name: str) -> tuple[str, str] | None:
    beside = (name[:-3] if name.lower().endswith(".gz") else name) + NAMES
    if not os.path.exists(beside):
        return None
    return beside, file_text(beside, file_bytes(beside), None).text


def _put(name: str, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise complaint(name, None, f"a name cannot be written as UTF-8 ({error}).") from None
    with whole_file(name) as file:
        file.write(data)

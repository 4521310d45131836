"""The same fit on other engines: Dask (threads, and a cluster) and Spark, against local files."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scale_setup import CLOSED, chain, clocked, cores, head, line, write_rows

import latentia as lt

MOST_IN_MEMORY = 10**7


def by_engine(folder: Path, sizes: Sequence[int]) -> None:
    head(
        f"Engines: wall seconds on {cores()} core(s); fits after the first, which starts workers",
        *("rows", "engine", "first fit", "fit", "against the local file", "largest difference"),
    )
    paths = {}
    for n in sizes:
        paths[n] = folder / f"engines{n}.parquet"
        write_rows(paths[n], n)
    local = {n: _fits(path) for n, path in paths.items()}
    for n, path in paths.items():
        line(f"{n:.0e}", "Parquet file", *_told(local[n], local[n]))
        if n <= MOST_IN_MEMORY:
            line(f"{n:.0e}", "Arrow table in memory", *_told(_fits(pq.read_table(path)), local[n]))
    _dask(paths, local)
    _spark(paths, local)


Found = tuple[float, float, Any]  # wall seconds of the first fit, of the next, operators


def _fits(frame: Any) -> Found:
    graph, _ = chain(16, 4)
    models: list[Any] = []

    def work() -> None:
        models[:] = [lt.LatentModel(graph, learner=CLOSED).fit(frame)]

    first, _ = clocked(work)
    wall, _ = clocked(work)
    return first, wall, models[0].operators_


def _told(found: Found, local: Found) -> list[str]:
    first, wall, ours = found
    theirs = local[2]
    # a coordinate may come with the other sign: sizes are compared, which is enough to see errors
    gaps = [np.abs(np.abs(ours.tensors[k]) - np.abs(theirs.tensors[k])).max() for k in ours.tensors]
    return [f"{first:.2f}", f"{wall:.2f}", f"{wall / local[1]:.2f} ×", f"{max(gaps):.0e}"]


def _dask(paths: dict[int, Path], local: dict[int, Found]) -> None:
    try:
        import dask
        import dask.dataframe as dd
        from distributed import Client, LocalCluster
    except ImportError:
        print("| | Dask | not installed | | | |")
        return
    with dask.config.set(scheduler="threads", num_workers=cores()):
        for n, path in paths.items():
            frame = dd.read_parquet(path, split_row_groups=True)
            line(f"{n:.0e}", "Dask, threads", *_told(_fits(frame), local[n]))
    settings = {"n_workers": cores(), "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**settings) as cluster, Client(cluster):
        for n, path in paths.items():
            frame = dd.read_parquet(path, split_row_groups=True)
            name = f"Dask, {cores()} worker process(es)"
            line(f"{n:.0e}", name, *_told(_fits(frame), local[n]))


def _spark(paths: dict[int, Path], local: dict[int, Found]) -> None:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        print("| | Spark | not installed | | | |")
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    try:
        builder = SparkSession.builder.master(f"local[{cores()}]").appName("scale")
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    except Exception as error:  # no Java
        print(f"| | Spark | did not start: {type(error).__name__} | | | |")
        return
    session.sparkContext.setLogLevel("ERROR")
    try:
        for n, path in paths.items():
            frame = session.read.parquet(str(path))
            name = f"Spark, local[{cores()}]"
            line(f"{n:.0e}", name, *_told(_fits(frame), local[n]))
    finally:
        session.stop()

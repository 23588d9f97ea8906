"""Plots of results with matplotlib (``pip install 'windlass[plot]'``). Each takes and returns matplotlib's ``Axes``."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes

from ._run import Result


def _axes(ax: Axes | None, x: str, y: str) -> Axes:
    if ax is None:
        _, ax = plt.subplots()
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return ax


def _trace(table: pa.Table | None) -> pa.Table:
    if table is None:
        raise ValueError('without a trace: run(..., trace="10 ms")')
    return table


def _lines(table: pa.Table, by: str, y: str, scale: float, ax: Axes, **style: Any) -> Axes:
    for number in pc.unique(table[by]).to_pylist():
        rows = table.filter(pc.equal(table[by], number))
        values = rows[y].cast(pa.float64()).to_numpy(zero_copy_only=False) * scale
        ax.plot(rows["time_s"].to_numpy(), values, label=rows["name"][0].as_py(), **style)
    if len(ax.get_lines()) > 1:
        ax.legend()
    return ax


def cwnd(result: Result, ax: Axes | None = None, **style: Any) -> Axes:
    """Congestion windows over time, in segments."""
    ax = _axes(ax, "time (s)", "congestion window (segments)")
    return _lines(_trace(result.flow_trace), "flow", "cwnd_segs", 1, ax, **style)


def rtt(result: Result, ax: Axes | None = None, **style: Any) -> Axes:
    """Smoothed round-trip times over time, in ms."""
    table = _trace(result.flow_trace)
    table = table.filter(pc.greater(table["srtt_us"], 0))
    return _lines(table, "flow", "srtt_us", 1e-3, _axes(ax, "time (s)", "round-trip time (ms)"), **style)


def throughput(result: Result, ax: Axes | None = None, **style: Any) -> Axes:
    """Payload that arrived, over time, in Mbit/s."""
    ax = _axes(ax, "time (s)", "throughput (Mbit/s)")
    return _lines(_trace(result.flow_trace), "flow", "throughput_bps", 1e-6, ax, **style)


def queue(result: Result, ax: Axes | None = None, **style: Any) -> Axes:
    """Packets that queue at each direction of an emulated link, over time."""
    ax = _axes(ax, "time (s)", "queue (packets)")
    return _lines(_trace(result.link_trace), "link", "queue_packets", 1, ax, **style)


def cdf(values: Any, ax: Axes | None = None, *, label: str | None = None, x: str = "", **style: Any) -> Axes:
    """The share of values that are at most x, for example of ``result.responses["took_s"]``; nulls are left out."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = values.drop_null().to_numpy()
    ordered = np.sort(np.asarray(values, dtype=float))
    ax = _axes(ax, x, "CDF")
    ax.step(ordered, np.arange(1, len(ordered) + 1) / max(len(ordered), 1), where="post", label=label, **style)
    if label is not None:
        ax.legend()
    return ax


def overview(result: Result) -> Any:
    """Windows, round-trip times, throughput and queues over time, one above the other; returns matplotlib's ``Figure``."""
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(8, 10), layout="constrained")
    for draw, ax in zip((cwnd, rtt, throughput, queue), axes):
        draw(result, ax)
    figure.suptitle(f"{result.report['scenario']}, seed {result.report['seed']}")
    return figure

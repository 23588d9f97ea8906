"""One run, and what it gave, as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from . import _windlass
from ._algorithm import Algorithm
from ._scenario import ScenarioLike, nanoseconds, scenario

_NONE = 2**32 - 1
_TYPES = {"time_s": "f8", "asked_s": "f8", "took_s": "f8", "throughput_bps": "f8", "bytes": "u8", "drops_tail": "u8", "marks": "u8"}

FLOWS = pa.schema(
    [
        ("name", pa.string()),
        ("class", pa.string()),
        ("tenant", pa.string()),
        ("started_s", pa.float64()),
        ("completion_s", pa.float64()),
        ("first_byte_s", pa.float64()),
        ("bytes", pa.uint64()),
        ("goodput_bps", pa.float64()),
        ("checksum_ok", pa.bool_()),
        ("timeouts", pa.uint64()),
        ("retrans_segs", pa.uint64()),
        ("longest_burst_segs", pa.uint32()),
        ("datagrams_sent", pa.uint64()),
        ("is_open_ended", pa.bool_()),
        ("is_cut", pa.bool_()),
        ("stopped_s", pa.float64()),
        ("response_count", pa.uint64()),
        ("response_mean_s", pa.float64()),
        ("response_p50_s", pa.float64()),
        ("response_p99_s", pa.float64()),
        ("response_max_s", pa.float64()),
        ("error", pa.string()),
    ]
)
"""Columns of ``Result.flows``: those of a flow in ``windlass run --json``, its ``response_times`` one column each."""


def _columns(raw: Mapping[str, bytes], index: str, names: list[str]) -> pa.Table:
    """A table of the columns of the extension module. The column ``index`` has numbers of names."""
    columns: dict[str, pa.Array] = {}
    for column, content in raw.items():
        numbers = np.frombuffer(content, dtype=_TYPES.get(column, "u4"))
        if column == index:
            columns[column] = pa.array(numbers)
            columns["name"] = pa.DictionaryArray.from_arrays(pa.array(numbers.astype("i4")), pa.array(names, pa.string()))
        elif numbers.dtype == np.uint32:
            columns[column] = pa.array(numbers, mask=numbers == _NONE)
        else:
            columns[column] = pa.array(numbers)
    return pa.table(columns)


class Result:
    """What a run gave. Its tables are ``pyarrow.Table``; pandas, polars and others take them through Arrow's C interface."""

    report: dict[str, Any]
    """What ``windlass run --on sim --json`` prints."""
    responses: pa.Table
    """Each response: flow (its number), name, asked_s (from the beginning of the run), took_s, bytes."""
    flow_trace: pa.Table | None
    """With ``trace``, flows over time: time_s, flow, name, cwnd_segs, ssthresh_segs, inflight_segs, srtt_us (0: not measured
    yet), throughput_bps (of the payload that arrived since the row before); what is not known is null."""
    link_trace: pa.Table | None
    """With ``trace``, directions of links over time: time_s, link, name, queue_packets, drops_tail and marks (so far)."""

    def __init__(
        self, report: str, responses: pa.Table, flow_trace: pa.Table | None, link_trace: pa.Table | None
    ) -> None:
        self.json = report
        self.report = json.loads(report)
        self.responses, self.flow_trace, self.link_trace = responses, flow_trace, link_trace

    @cached_property
    def flows(self) -> pa.Table:
        """A row for each flow, in the order of the scenario; see ``FLOWS``."""
        return flows_table(self.report)

    @cached_property
    def links(self) -> pa.Table:
        """A row for each direction of an emulated link."""
        return pa.Table.from_pylist(self.report["links"])

    @property
    def is_success(self) -> bool:
        """Whether every transfer arrived whole, and a box controlled flows if it had to."""
        flows = self.report["flows"]
        return bool(flows) and all(f["checksum_ok"] for f in flows) and not self.report.get("box_error")

    @property
    def ended_s(self) -> float:
        """Virtual time at the end."""
        return float(self.report["ended_s"])

    def __repr__(self) -> str:
        report = self.report
        return f"<windlass.Result of {report['scenario']}, seed {report['seed']}: {len(report['flows'])} flows, {self.ended_s:.3f} s>"


def flows_table(report: Mapping[str, Any]) -> pa.Table:
    """The flows of a report."""
    rows = []
    for flow in report["flows"]:
        row = {"class": "", "tenant": "", "is_open_ended": False, "is_cut": False, **flow}
        for what, value in (row.pop("response_times", None) or {}).items():
            row[f"response_{what}"] = value
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=FLOWS)


def run(
    source: ScenarioLike,
    seed: int | None = None,
    *,
    trace: float | str | None = None,
    algorithms: Mapping[int, Callable[[], Algorithm]] | None = None,
) -> Result:
    """Simulates a scenario: the numbers of ``windlass run --on sim``, to the last bit.

    ``trace``: how often to look at flows and links, in seconds or as "10 ms"; None: not at all. ``algorithms``: by the number of a
    flow, what makes the algorithm of each of its connections, as a subclass of ``Algorithm``; others have what the scenario names.

    Other threads run meanwhile. Ctrl-C ends it.

    >>> import windlass
    >>> result = windlass.run("scenarios/wan.toml", seed=7)
    >>> result.flows["bytes"].to_pylist()
    [10000000]
    """
    spec = scenario(source, seed)
    makers = dict(algorithms or {})
    known = spec.flow_names
    for flow in makers:
        if not 0 <= flow < len(known):
            raise ValueError(f"algorithms: no flow {flow}; the scenario has 0 to {len(known) - 1}")
    looks_ns = None if trace is None else nanoseconds("trace", trace)
    report, responses, flows, links = _windlass.run(spec, looks_ns, makers)
    traces = (None, None) if trace is None else (_columns(flows, "flow", known), _columns(links, "link", spec.link_names))
    return Result(report, _columns(responses, "flow", known), *traces)

"""Sweeps: every combination of some values, several seeds each, on whatever executor there is."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, Union

import pyarrow as pa
import pyarrow.csv

from . import _windlass
from ._errors import WindlassError
from ._scenario import ScenarioLike, scenario

Seeds = Union[int, str, Iterable[int], None]
"""How many (1 to that), which as text ("3-5,9"), or which; None: the scenario's grid varies them, or 1."""

_TRIES = 3


class Submits(Protocol):
    """What a sweep needs of an executor: that of ``concurrent.futures``, Dask's ``Client.get_executor()``, ``RayExecutor``."""

    def submit(self, fn: Any, /, *args: Any) -> Any:
        """Begins a call; what is returned has ``result()``."""


@dataclass(frozen=True)
class Plan:
    """All that a worker must know of a sweep."""

    name: str
    text: str
    set: tuple[str, ...]
    seeds: str | None


@lru_cache(maxsize=4)
def _sweep_of(plan: Plan) -> _windlass.Sweep:
    return _windlass.Sweep(plan.name, plan.text, list(plan.set), plan.seeds)


def simulate(plan: Plan, indexes: Sequence[int]) -> list[str]:
    """Makes these runs of a sweep, in a worker. Returns the line of each in runs.jsonl."""
    return _sweep_of(plan).simulate(list(indexes))


class SweepResult:
    """What a sweep gave."""

    summary: dict[str, Any]
    """What ``windlass sweep --json`` prints: a point for each combination."""

    def __init__(self, summary: str, folder: Path, kept: tempfile.TemporaryDirectory[str] | None) -> None:
        self.json = summary
        self.summary = json.loads(summary)
        self.folder = folder
        self._kept = kept
        tables = [_read(folder / f"{name}.csv") for name in ("runs", "flows", "links")]
        self.runs, self.flows, self.links = tables

    runs: pa.Table
    """A row for each run: point (its combination), seed, completion_s, bytes, mean_rtt_ms and so on."""
    flows: pa.Table
    """A row for each flow of each run."""
    links: pa.Table
    """A row for each direction of an emulated link of each run."""

    @property
    def points(self) -> pa.Table:
        """A row for each combination: the values that were set, and medians or means over its runs."""
        rows = [{**p["set"], **{k: v for k, v in p.items() if k not in ("set", "error")}} for p in self.summary["points"]]
        return pa.Table.from_pylist(rows)

    def __repr__(self) -> str:
        return f"<windlass.SweepResult of {self.summary['scenario']}: {self.summary['runs']} runs in {self.folder}>"


def _read(path: Path) -> pa.Table:
    texts = {name: pa.string() for name in ("point", "variant", "name", "class", "tenant", "link", "on")}
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=texts))


def _value(value: Any) -> str:
    """A value as ``--set`` has it: what TOML has, and text without quotes where that is no other value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if any(c in value for c in ',[]{}"') else value
    return _windlass.toml_value_of_json(json.dumps(value))


def _seeds(seeds: Seeds) -> str | None:
    if seeds is None or isinstance(seeds, str):
        return seeds
    return str(seeds) if isinstance(seeds, int) else ",".join(f"{seed}-{seed}" for seed in seeds)


def plan(source: ScenarioLike, grid: Mapping[str, Sequence[Any]] | None = None, seeds: Seeds = None) -> Plan:
    """What a sweep consists of; see ``sweep``."""
    spec = scenario(source)
    varied = tuple(f"{key}={','.join(map(_value, values))}" for key, values in (grid or {}).items())
    # workers may be in another folder, from which names of files in it do not count
    name = os.path.abspath(spec.file_name) if os.path.exists(spec.file_name) else spec.file_name
    return Plan(name, spec.text, varied, _seeds(seeds))


def _parts(missing: Sequence[int], at_once: int) -> list[list[int]]:
    """Runs that a worker makes in one call: enough calls that none waits long for the last, and not so many that they cost more."""
    length = max(1, min(64, len(missing) // (8 * at_once)))
    return [list(missing[i : i + length]) for i in range(0, len(missing), length)]


def _collect(executor: Submits, plan: Plan, missing: Sequence[int], found: dict[int, str], at_once: int) -> None:
    """Has an executor make these runs. What has finished is in ``found``, however it ends."""
    of_future = {executor.submit(simulate, plan, part): part for part in _parts(missing, at_once)}
    try:
        # dask's and ray's futures are no subclasses in all versions; those that are come as they finish
        futures = as_completed(of_future) if all(isinstance(f, Future) for f in of_future) else list(of_future)
        for future in futures:
            found.update(zip(of_future[future], future.result()))
    except BaseException:
        for future in of_future:
            future.cancel()
        raise


def _in_processes(plan: Plan, missing: Sequence[int], found: dict[int, str], workers: int) -> None:
    """Worker processes of our own: if one is killed, what is missing is made anew."""
    for tries_left in reversed(range(_TRIES)):
        left = [index for index in missing if index not in found]
        try:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                return _collect(pool, plan, left, found, workers)
        except BrokenProcessPool:
            if not tries_left:
                raise


def sweep(
    source: ScenarioLike,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: Seeds = None,
    *,
    executor: Submits | None = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
) -> SweepResult:
    """Simulates every combination of the values in ``grid``, each with every seed: the files of ``windlass sweep --on sim``, to the
    byte, wherever the runs are made.

    ``grid`` has values by key path, as ``windlass sweep --set``: ``{"link.0.loss": ["0 %", "1 %"]}``. ``executor``: where runs are
    made; whatever has ``submit``. None: threads of this process, or, with ``workers``, that many processes of its own, which are
    replaced if they are killed. ``out``: the folder for runs.jsonl, tables and a report; None: one that goes with the result.

    Dask and Ray repeat what a killed worker had in hand. A ``ProcessPoolExecutor`` of the caller is broken then, and the
    exception says so: begin anew with another, or leave the processes to ``workers``.
    """
    planned = plan(source, grid, seeds)
    whole = _sweep_of(planned)
    missing, found = range(len(whole)), dict[int, str]()
    if executor is not None:
        _collect(executor, planned, missing, found, workers or os.cpu_count() or 1)
    elif workers is not None:
        _in_processes(planned, missing, found, workers)
    else:
        found.update(zip(missing, whole.simulate(list(missing), os.cpu_count() or 1)))
    if len(found) < len(whole):
        raise WindlassError(f"sweep: {len(whole) - len(found)} of {len(whole)} runs are missing")
    kept = None
    if out is None:
        kept = tempfile.TemporaryDirectory(prefix="windlass-")
        folder = Path(kept.name)
    else:
        folder = Path(out)
    return SweepResult(whole.put_together([found[i] for i in missing], folder), folder, kept)


class RayExecutor(Executor):
    """Ray's workers as an executor. A task whose worker dies is made anew, up to ``max_retries`` times.

    ``ray.init()`` must have been called; ``windlass`` must be installed on all nodes.
    """

    def __init__(self, max_retries: int = 3) -> None:
        import ray

        self._ray = ray
        self._options = {"max_retries": max_retries, "num_cpus": 1}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begins a call."""
        call = self._ray.remote(fn).options(**self._options)
        future: Future[Any] = call.remote(*args, **kwargs).future()
        return future

"""Scenarios, however they are given."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Union

from ._errors import ScenarioError
from ._windlass import Scenario, toml_of_json

ScenarioLike = Union[Scenario, Mapping[str, Any], str, "os.PathLike[str]"]
"""A scenario: a file's path, its text in TOML (of several lines), the same as a dict, or one that was read before."""


def scenario(source: ScenarioLike, seed: int | None = None) -> Scenario:
    """Reads and checks a scenario.

    A ``str`` of several lines is the text of one, a ``str`` of one line or a path is a file. A dict has the keys of the file, with
    lists where that has ``[[link]]``. ``seed`` takes the place of the scenario's own.

    Raises ScenarioError, with the line of the mistake.
    """
    read = _read(source)
    return read if seed is None else read.with_seed(seed)


def _read(source: ScenarioLike) -> Scenario:
    if isinstance(source, Scenario):
        return source
    if isinstance(source, Mapping):
        return _of_dict(source)
    if isinstance(source, str) and "\n" in source:
        return Scenario.parse("<text>", source)
    return Scenario.read(os.fspath(source))


def _of_dict(source: Mapping[str, Any]) -> Scenario:
    text = toml_of_json(json.dumps(source))
    try:
        return Scenario.parse("<dict>", text)
    except ScenarioError as mistake:
        # the line is one of a text that the caller has not written
        raise ScenarioError(mistake.what, mistake.file) from None


def nanoseconds(name: str, time: float | str) -> int:
    """A time as whole nanoseconds: seconds, or a text with a unit as in scenarios, "20 ms"."""
    units = {"s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0}
    if isinstance(time, str):
        number, _, unit = time.strip().partition(" ")
        if unit not in units:
            raise ValueError(f'{name} = "{time}": write a number and s, ms, us or ns, as in "20 ms"')
        length = float(number) * units[unit]
    else:
        length = float(time) * 1e9
    if not length >= 1:
        raise ValueError(f"{name} = {time!r}: more than 0")
    return round(length)

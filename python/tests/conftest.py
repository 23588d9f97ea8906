"""What the tests share: the program, its scenarios, small networks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent

#: 300 kB over 10 Mbit/s and 20 ms of round trip; some milliseconds of this machine's time.
SMALL = """name = "small"
time_limit = "20 s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
buffer = "20 packets"
loss = "0.5 %"
[[flow]]
from = "a"
to = "b"
size = "300 kB"
algorithm = "reno"
"""

#: The same with a flow that goes on for two seconds, and another that comes later.
TWO = SMALL.replace('size = "300 kB"', 'size = "unlimited"\nstop = "2 s"') + """[[flow]]
from = "a"
to = "b"
start = "300 ms"
size = "200 kB"
algorithm = "cubic"
"""


@pytest.fixture
def small() -> str:
    return SMALL


@pytest.fixture
def two() -> str:
    return TWO


@pytest.fixture(scope="session")
def wan() -> Path:
    return ROOT / "scenarios/wan.toml"


class Program:
    """The program ``windlass`` of the same tree."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *words: str | Path) -> str:
        done = subprocess.run([self.path, *map(str, words)], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def json(self, *words: str | Path) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture(scope="session")
def program() -> Program:
    path = os.environ.get("WINDLASS", str(ROOT / "target/debug/windlass"))
    if not os.path.exists(path):
        pytest.skip(f"skipped: no program at {path}: cargo build -p windlass")
    return Program(path)

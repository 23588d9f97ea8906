"""A run from Python is the program's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import windlass


@pytest.mark.parametrize("seed", [None, 9])
def test_a_run_has_the_numbers_of_the_program(program, wan: Path, seed: int | None) -> None:
    words = [] if seed is None else ["--seed", str(seed)]
    printed = program("run", wan, "--on", "sim", "--json", *words)
    assert windlass.run(wan, seed).json == printed.rstrip("\n")


def test_tables_have_the_numbers_of_the_report(wan: Path) -> None:
    result = windlass.run(str(wan))
    assert result.is_success and result.ended_s == result.report["ended_s"]
    assert result.flows.schema == windlass.FLOWS and result.flows.num_rows == 1
    assert result.flows["goodput_bps"].to_pylist() == [result.report["flows"][0]["goodput_bps"]]
    assert result.links["name"].to_pylist() == ["box > client", "client > box"]
    assert result.links["drops_random"].to_pylist() == [link["drops_random"] for link in result.report["links"]]
    assert result.responses["took_s"].to_pylist() == result.flows["completion_s"].to_pylist()
    assert (result.flow_trace, result.link_trace) == (None, None)


def test_traces_are_those_of_the_program(program, tmp_path: Path, two: str) -> None:
    (tmp_path / "two.toml").write_text(two)
    program("run", tmp_path / "two.toml", "--on", "sim", "--trace", tmp_path / "t", "--interval", "20ms")
    result = windlass.run(two, trace="20 ms")
    assert result.json == windlass.run(two).json
    for name, trace in (("flows", result.flow_trace), ("links", result.link_trace), ("responses", result.responses)):
        expected = pa.csv.read_csv(tmp_path / f"t/{name}.csv")
        assert trace is not None and trace.num_rows == expected.num_rows > 0
        for column in expected.column_names:
            ours = trace["name" if column == "link" else column].to_pylist()
            for a, b in zip(ours, expected[column].to_pylist()):
                # the program rounds what it prints
                assert a == b if a is None or isinstance(a, (str, int)) else abs(a - b) <= 1, (name, column)


def test_a_dict_is_the_same_scenario_as_its_text(small: str) -> None:
    spec = {
        "name": "small",
        "time_limit": "20 s",
        "host": [{"name": "a"}, {"name": "b"}],
        "link": [
            {"between": ["a", "b"], "rate": "10 Mbit/s", "delay": "10 ms", "buffer": "20 packets", "loss": "0.5 %"}
        ],
        "flow": [{"from": "a", "to": "b", "size": "300 kB", "algorithm": "reno"}],
    }
    assert windlass.run(spec, seed=3).json == windlass.run(small, seed=3).json


def test_a_mistake_has_its_file_and_line(tmp_path: Path, small: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(small.replace("10 Mbit/s", "10 Mbit"))
    with pytest.raises(windlass.ScenarioError) as error:
        windlass.run(path)
    assert (error.value.file, error.value.line) == (str(path), 9)
    assert str(error.value).startswith(f"{path}:9: rate") and isinstance(error.value, ValueError)
    with pytest.raises(windlass.ScenarioError) as error:
        windlass.run(small.replace('"reno"', '"vegas"'))
    assert (error.value.file, error.value.line) == ("<text>", 17) and "cubic, bbr" in error.value.what
    with pytest.raises(windlass.ScenarioError) as error:
        windlass.run({"name": "x", "host": 3})
    assert error.value.line is None
    with pytest.raises(windlass.ScenarioError, match="no flow|nothing is sent"):
        windlass.run("name = 'x'\n[[host]]\nname = 'a'\n")
    with pytest.raises(windlass.ScenarioError, match="cannot be read"):
        windlass.run(tmp_path / "not-there.toml")
    with pytest.raises(ValueError, match="20 ms"):
        windlass.run(small, trace="20")


def test_tables_go_to_others_through_the_c_interface(small: str) -> None:
    polars = pytest.importorskip("polars")
    result = windlass.run(small, trace="50 ms")
    frame = polars.DataFrame(result.flow_trace)
    assert frame["cwnd_segs"].to_list() == result.flow_trace["cwnd_segs"].to_pylist()
    capsule = result.flows.__arrow_c_stream__()
    assert "arrow_array_stream" in repr(capsule)


def test_other_threads_run_meanwhile(wan: Path) -> None:
    turns, is_done = 0, threading.Event()

    def simulate() -> None:
        for seed in range(5):
            windlass.run(wan, seed)
        is_done.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    while not is_done.is_set():
        turns += 1
    thread.join()
    assert turns > 10


LONG = """
import sys, windlass
text = {text!r}.replace('300 kB', 'unlimited').replace('20 s', '80000 s').replace('10 Mbit/s', '1 Gbit/s')
try:
    print("begun", flush=True)
    windlass.run(text)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_run(small: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", LONG.format(text=small)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "interrupted\n" and process.returncode == 0


def test_json_of_a_result_is_the_report(small: str) -> None:
    result = windlass.run(small)
    assert json.loads(result.json) == result.report and "small" in repr(result)

"""A sweep gives the same files wherever its runs are made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest
import windlass
from windlass import _sweep

GRID = {"link.0.loss": ["0 %", "1 %"], "flow.*.algorithm": ["reno", "cubic", "bbr"]}
SEEDS = 5
RUNS = 30
FILES = ["runs.jsonl", "runs.csv", "flows.csv", "links.csv", "report.html", "sweep.json"]


@pytest.fixture(scope="module")
def reference(program, tmp_path_factory) -> dict[str, bytes]:
    """What the program makes of it."""
    from conftest import SMALL

    folder = tmp_path_factory.mktemp("program")
    (folder / "s.toml").write_text(SMALL)
    sets = [word for key, values in GRID.items() for word in ("--set", f"{key}={','.join(values)}")]
    words = ["sweep", folder / "s.toml", "--on", "sim", *sets, "--seeds", str(SEEDS), "--out", folder / "out"]
    printed = program(*words, "--json")
    return {"summary": printed.rstrip("\n").encode(), **{name: (folder / "out" / name).read_bytes() for name in FILES}}


@pytest.fixture
def scenario(tmp_path: Path, small: str) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(small)
    return path


def same(result: windlass.SweepResult, reference: dict[str, bytes]) -> None:
    for name in FILES:
        assert (result.folder / name).read_bytes() == reference[name], name
    assert result.json.encode() == reference["summary"]


def killing(plan: _sweep.Plan, indexes: list[int], flag: str) -> list[str]:
    """A worker that is killed in mid-sweep: the first that comes to the tenth run."""
    if 10 in indexes:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    return _sweep.simulate(plan, indexes)


class Killing:
    """An executor one of whose workers is killed."""

    def __init__(self, executor, flag: Path) -> None:
        self.executor, self.flag = executor, flag

    def submit(self, fn, /, *args):
        assert fn is _sweep.simulate
        return self.executor.submit(killing, *args, str(self.flag))


def test_threads_of_this_process(reference, scenario: Path, tmp_path: Path) -> None:
    same(windlass.sweep(scenario, GRID, SEEDS, out=tmp_path / "out"), reference)


def test_an_executor_of_concurrent_futures(reference, scenario: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        result = windlass.sweep(scenario, GRID, SEEDS, executor=pool)
    same(result, reference)
    assert result.runs.num_rows == RUNS and set(result.runs["seed"].to_pylist()) == set(range(1, 6))
    assert result.points.num_rows == 6 and result.points["flow.*.algorithm"].to_pylist()[:3] == ["reno", "cubic", "bbr"]
    assert result.flows.num_rows == RUNS and result.links.num_rows == 2 * RUNS


def test_own_workers_one_of_which_is_killed(reference, scenario: Path, tmp_path: Path, monkeypatch) -> None:
    flag = tmp_path / "killed"

    class Pool(ProcessPoolExecutor):
        def submit(self, fn, /, *args):
            return super().submit(killing, *args, str(flag))

    monkeypatch.setattr(_sweep, "ProcessPoolExecutor", Pool)
    same(windlass.sweep(scenario, GRID, SEEDS, workers=2), reference)
    assert flag.exists()


def test_an_executor_of_the_caller_that_is_broken_is_an_exception(scenario: Path, tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        with pytest.raises(BrokenProcessPool):
            windlass.sweep(scenario, GRID, SEEDS, executor=Killing(pool, tmp_path / "killed"))


def test_dask_one_of_whose_workers_is_killed(reference, scenario: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
    ) as cluster, distributed.Client(cluster) as client:
        flag = tmp_path / "killed"
        same(windlass.sweep(scenario, GRID, SEEDS, executor=Killing(client.get_executor(), flag)), reference)
        assert flag.exists()


def test_ray_one_of_whose_workers_is_killed(reference, scenario: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    tests = str(Path(__file__).parent)
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": tests}},
    )
    try:
        flag = tmp_path / "killed"
        same(windlass.sweep(scenario, GRID, SEEDS, executor=Killing(windlass.RayExecutor(), flag)), reference)
        assert flag.exists()
    finally:
        ray.shutdown()


LONG = """
import windlass
try:
    print("begun", flush=True)
    windlass.sweep({text!r}, seeds=20_000)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_sweep(small: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", LONG.format(text=small)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "interrupted\n" and process.returncode == 0


def test_files_of_a_scenario_are_found_from_another_folder(tmp_path: Path, monkeypatch, small: str) -> None:
    (tmp_path / "link.trace").write_text("".join(f"{ms}\n" for ms in range(1, 101)))
    (tmp_path / "s.toml").write_text(small.replace('rate = "10 Mbit/s"', 'rate_trace = "link.trace"'))
    monkeypatch.chdir(tmp_path)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=os.chdir, initargs=("/",)) as pool:
        assert windlass.sweep("s.toml", seeds=2, executor=pool).runs["checksum_ok"].to_pylist() == [True, True]


def test_values_are_written_as_the_program_reads_them(small: str) -> None:
    values = {"link.0.buffer": ["1 BDP", "30 packets"], "flow.0.start": ["0 s", {"uniform": ["0 s", "1 s"]}], "tcp.sack": [True]}
    plan = _sweep.plan(small, values, [2, 5])
    assert plan.set == (
        "link.0.buffer=1 BDP,30 packets",
        'flow.0.start=0 s,{ uniform = ["0 s", "1 s"] }',
        "tcp.sack=true",
    )
    result = windlass.sweep(small, values, [2, 5])
    assert result.runs.num_rows == 8 and set(result.runs["seed"].to_pylist()) == {2, 5}


def test_a_mistake_is_found_before_anything_runs(small: str) -> None:
    with pytest.raises(windlass.WindlassError, match="link.0.los"):
        windlass.sweep(small, {"link.0.los": ["1 %"]})
    with pytest.raises(windlass.WindlassError, match="--seeds 0"):
        windlass.sweep(small, seeds=0)
    with pytest.raises(windlass.ScenarioError):
        windlass.sweep(small.replace("10 Mbit/s", "ten"))

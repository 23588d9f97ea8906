"""TCP congestion control, simulated: what the program ``windlass`` simulates, from Python.

Runs are pure functions of scenario and seed, the same to the last bit as the program's. ``windlass.env`` has environments for
learning, ``windlass.plot`` plots.
"""

from ._algorithm import ECN, LOSS, Algorithm
from ._errors import ScenarioError, WindlassError
from ._run import FLOWS, Result, run
from ._scenario import ScenarioLike, scenario
from ._sweep import RayExecutor, SweepResult, sweep
from ._windlass import Decision, Sample, Scenario, algorithm_names

__all__ = [
    "ECN",
    "FLOWS",
    "LOSS",
    "Algorithm",
    "Decision",
    "RayExecutor",
    "Result",
    "Sample",
    "Scenario",
    "ScenarioError",
    "ScenarioLike",
    "SweepResult",
    "WindlassError",
    "algorithm_names",
    "run",
    "scenario",
    "sweep",
]

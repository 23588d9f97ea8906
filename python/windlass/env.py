"""Environments for learning congestion control: Gymnasium's ``VectorEnv`` and ``Env``, PettingZoo's parallel API.

All simulations are in this process, without sockets: a step of all of them is one call, without the interpreter's lock, on as many
threads as there are processors. An environment whose action is never applied gives what ``windlass.run`` gives, to the byte.

Needs ``pip install 'windlass[learn]'``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
from gymnasium import spaces
from numpy.typing import NDArray

from . import _windlass
from ._scenario import ScenarioLike, nanoseconds, scenario

OBSERVATION = (
    "simTime_us",
    "ssThresh",
    "cWnd",
    "segmentSize",
    "bytesInFlight",
    "segmentsAcked",
    "avgRtt_us",
    "minRtt_us",
    "throughput_bps",
    "pacingRate_bps",
    "bytesSent",
    "bytesLost",
    "bytesMarked",
    "timeouts",
    "latencyGradient",
    "latencyRatio",
    "sendRatio",
)
"""The numbers of an observation, in order. The first nine have ns3-gym's names where it has them (bytes, and microseconds), the last
three are those of Aurora's monitor intervals. What counts or is a mean does so over the last step:

simTime_us: virtual time; ssThresh: 4294967295 before there is one; segmentsAcked: delivered; avgRtt_us: that of the step before where
none was measured; minRtt_us: smallest ever; throughput_bps: payload that arrived; pacingRate_bps: 0 if it is not paced; bytesMarked:
reported CE-marked; latencyGradient: growth of the round-trip time, in seconds a second; latencyRatio: avgRtt over minRtt; sendRatio:
sent over delivered, of which one segment counts at least."""

_AT = {name: index for index, name in enumerate(OBSERVATION)}
_LOW = np.array([-np.inf if name == "latencyGradient" else 0 for name in OBSERVATION], dtype=np.float64)
_HIGH = np.full(len(OBSERVATION), np.inf, dtype=np.float64)
_MOST_CWND = float(2**30)
_LEAST_RATE_BYTES_PS = 1000.0

Floats = NDArray[np.float64]
Reward = Callable[[Floats, Floats], Floats]
"""From observations before and after a step, ``[..., len(OBSERVATION)]``, to rewards ``[...]``."""


def column(observations: Floats, name: str) -> Floats:
    """One of the numbers of ``OBSERVATION``."""
    values: Floats = observations[..., _AT[name]]
    return values


def aurora(before: Floats, after: Floats) -> Floats:
    """Aurora's reward (Jay et al., 2019): 10 x throughput - 1000 x latency - 2000 x loss, with the throughput in packets of 1500
    bytes a second, the latency in s and the loss as a share of what was sent; here in thousandths."""
    packets_ps = column(after, "throughput_bps") / 8 / 1500
    loss = column(after, "bytesLost") / np.maximum(column(after, "bytesSent"), column(after, "segmentSize"))
    rewards: Floats = (10 * packets_ps - 1000 * column(after, "avgRtt_us") / 1e6 - 2000 * np.minimum(loss, 1)) / 1000
    return rewards


class _Core:
    """Simulations with the flows that are observed, and what actions mean."""

    def __init__(
        self,
        source: ScenarioLike,
        count: int,
        flows: Sequence[int],
        step: float | str,
        action: str,
        threads: int | None,
    ) -> None:
        self.spec = scenario(source)
        if action not in ("cwnd", "pacing"):
            raise ValueError(f'action = "{action}": "cwnd" or "pacing"')
        self.action, self.count, self.flows = action, count, list(flows)
        self.native = _windlass.Envs(
            self.spec, count, self.flows, nanoseconds("step", step), threads or os.cpu_count() or 1
        )

    def _shaped(self, looks: tuple[bytes, bytes, bytes]) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        numbers, flows, runs = looks
        shape = (len(runs), len(self.flows))
        seen = np.frombuffer(numbers).reshape(*shape, len(OBSERVATION))
        return seen, np.frombuffer(flows, dtype=np.bool_).reshape(shape), np.frombuffer(runs, dtype=np.bool_)

    def reset(self, indexes: NDArray[np.intp], seeds: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        return self._shaped(self.native.reset(indexes.tolist(), seeds.tolist()))

    def step(
        self, indexes: NDArray[np.intp], factors: Floats | None, before: Floats
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """``factors``: powers of two by which the window or the rate changes; None or NaN: the flow is left alone."""
        actions = np.full((len(indexes), len(self.flows), 2), np.nan)
        if factors is not None:
            scale = np.exp2(np.clip(factors, -1, 1))
            cwnd = column(before, "cWnd")
            if self.action == "cwnd":
                actions[..., 0] = np.clip(cwnd * scale, column(before, "segmentSize"), _MOST_CWND)
            else:
                rtt_s = np.maximum(column(before, "avgRtt_us"), 1000) / 1e6
                paced = column(before, "pacingRate_bps") / 8
                rate = np.where(paced > 0, paced, cwnd / rtt_s)
                actions[..., 1] = np.maximum(rate * scale, _LEAST_RATE_BYTES_PS)
                # twice the product of rate and round-trip time, so that it is the rate that limits
                window = np.clip(2 * actions[..., 1] * rtt_s, 4 * column(before, "segmentSize"), _MOST_CWND)
                actions[..., 0] = np.where(np.isnan(actions[..., 1]), np.nan, window)
        return self._shaped(self.native.step(indexes.tolist(), actions.tobytes()))

    def report(self, index: int) -> dict[str, Any] | None:
        report = self.native.finish(index)
        return None if report is None else json.loads(report)


def _spaces() -> tuple[spaces.Box, spaces.Box]:
    return spaces.Box(_LOW, _HIGH, dtype=np.float64), spaces.Box(-1.0, 1.0, (1,), dtype=np.float32)


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many simulations of a scenario, of each of which one flow is observed and controlled every ``step`` of virtual time.

    Observations are ``float64[num_envs, len(OBSERVATION)]``. Actions are ``float32[num_envs, 1]`` from -1 to 1: the window
    (``action="cwnd"``) or the rate (``"pacing"``) is multiplied by 2 to that power. From the first action on the flow's algorithm
    is not called any more; NaN, or None for all, leaves the flow as it is. An episode is over (terminated) when all flows of the scenario are, and
    truncated at its time limit; the next step begins another, with another seed.

    ``reward``: from observations before and after a step to rewards.
    """

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(
        self,
        source: ScenarioLike,
        num_envs: int = 1,
        *,
        flow: int = 0,
        step: float | str = "20 ms",
        action: str = "cwnd",
        reward: Reward = aurora,
        threads: int | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._core = _Core(source, num_envs, [flow], step, action, threads)
        self._reward = reward
        self.render_mode = None
        self.single_observation_space, self.single_action_space = _spaces()
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._limit_us = self._core.spec.time_limit_s * 1e6
        self._seen: Floats = np.zeros((num_envs, 1, len(OBSERVATION)))
        self._over = np.zeros(num_envs, dtype=np.bool_)
        self._seeds: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)

    def _begin(self, indexes: NDArray[np.intp]) -> None:
        seen, _, _ = self._core.reset(indexes, self._seeds[indexes])
        self._seen[indexes] = seen
        self._over[indexes] = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begins all anew. ``seed``: of the first, the others have the next ones; or one for each. ``options["reset_mask"]`` chooses."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        mask = np.ones(self.num_envs, dtype=np.bool_)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"], dtype=np.bool_)
        random = self.np_random.integers(0, 2**31, self.num_envs)
        if isinstance(seed, int):
            self._seeds = seed + np.arange(self.num_envs)
        elif seed is not None:
            self._seeds = np.array([random[i] if s is None else s for i, s in enumerate(seed)], dtype=np.int64)
        else:
            self._seeds = np.where(mask, random, self._seeds)
        self._begin(np.flatnonzero(mask))
        return self._seen[:, 0].copy(), self._infos()

    def _infos(self) -> dict[str, Any]:
        return {"seed": self._seeds.copy(), "_seed": np.ones(self.num_envs, dtype=np.bool_)}

    def step(
        self, actions: Any
    ) -> tuple[Floats, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """A step of all; those that were over begin anew instead, with a reward of 0."""
        anew, on = np.flatnonzero(self._over), np.flatnonzero(~self._over)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        if len(on):
            before = self._seen[on]
            factors = None if actions is None else np.asarray(actions, dtype=np.float64).reshape(self.num_envs, 1)[on]
            seen, _, over = self._core.step(on, factors, before)
            rewards[on] = self._reward(before[:, 0], seen[:, 0])
            self._seen[on] = seen
            self._over[on] = over
            late = column(seen[:, 0], "simTime_us") >= self._limit_us
            terminated[on], truncated[on] = over & ~late, over & late
        if len(anew):
            self._seeds[anew] = self.np_random.integers(0, 2**31, len(anew))
            self._begin(anew)
        return self._seen[:, 0].copy(), rewards, terminated, truncated, self._infos()

    def report(self, index: int = 0) -> dict[str, Any] | None:
        """Has a simulation go on to its end as it is: the report of ``windlass run --json``. None: it was ended before."""
        return self._core.report(index)


class Env(gymnasium.Env[Floats, Any]):
    """One simulation; see ``VectorEnv``, which many should be."""

    metadata = {"render_modes": []}

    def __init__(self, source: ScenarioLike, **options: Any) -> None:
        self._vector = VectorEnv(source, 1, threads=1, **options)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self.render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begins anew."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(0, 2**31)) if seed is None else seed
        seen, _ = self._vector.reset(seed=chosen)
        return seen[0], {"seed": chosen}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """One step; None or NaN: the flow is left alone."""
        seen, rewards, terminated, truncated, _ = self._vector.step(None if action is None else np.asarray(action)[None])
        return seen[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def report(self) -> dict[str, Any] | None:
        """Goes on to the end as it is: the report of ``windlass run --json``. None: it was ended before."""
        return self._vector.report(0)


class ParallelEnv(pettingzoo.ParallelEnv[str, Floats, Any]):
    """One simulation with an agent for each of these flows (None: all that have a window of their own), which act at the same times.

    Spaces are those of ``VectorEnv``. An agent whose flow is over is terminated. An action before its flow has begun does nothing.
    """

    metadata = {"name": "windlass_v0", "render_modes": [], "is_parallelizable": True}

    def __init__(
        self,
        source: ScenarioLike,
        flows: Sequence[int] | None = None,
        *,
        step: float | str = "20 ms",
        action: str = "cwnd",
        reward: Reward = aurora,
    ) -> None:
        spec = scenario(source)
        chosen = spec.window_flows if flows is None else list(flows)
        self._core = _Core(spec, 1, chosen, step, action, 1)
        self._reward = reward
        self.render_mode = None
        self.possible_agents = [f"flow_{flow}" for flow in chosen]
        self.agents: list[str] = []
        spaces_of = {agent: _spaces() for agent in self.possible_agents}
        self.observation_spaces = {agent: both[0] for agent, both in spaces_of.items()}
        self.action_spaces = {agent: both[1] for agent, both in spaces_of.items()}
        self._random = np.random.default_rng()
        self._limit_us = spec.time_limit_s * 1e6
        self._seen: Floats = np.zeros((1, len(chosen), len(OBSERVATION)))

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """That of ``VectorEnv``."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """That of ``VectorEnv``."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Floats], dict[str, dict[str, Any]]]:
        """Begins anew."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        chosen = int(self._random.integers(0, 2**31)) if seed is None else seed
        seen, _, _ = self._core.reset(np.arange(1), np.array([chosen]))
        self._seen = seen.copy()
        self.agents = list(self.possible_agents)
        return self._of_agents(self._seen[0]), {agent: {"seed": chosen} for agent in self.agents}

    def _of_agents(self, values: Any) -> dict[str, Any]:
        every = dict(zip(self.possible_agents, values))
        return {agent: every[agent] for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Floats], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """One step; an agent without an action leaves its flow as it is."""
        factors = np.full((1, len(self.possible_agents)), np.nan)
        for place, agent in enumerate(self.possible_agents):
            if actions.get(agent) is not None:
                factors[0, place] = np.asarray(actions[agent], dtype=np.float64).reshape(-1)[0]
        before = self._seen
        seen, flows_over, over = self._core.step(np.arange(1), factors, before)
        self._seen = seen.copy()
        late = bool(over[0]) and seen[0, 0, 0] >= self._limit_us
        terminated = flows_over[0] | (bool(over[0]) and not late)
        truncated = np.full(len(self.possible_agents), late) & ~terminated
        rewards = self._reward(before[0], seen[0])
        ends = {agent: bool(end) for agent, end in self._of_agents(terminated).items()}
        cuts = {agent: bool(cut) for agent, cut in self._of_agents(truncated).items()}
        earned = {agent: float(reward) for agent, reward in self._of_agents(rewards).items()}
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        observations = self._of_agents(self._seen[0])
        self.agents = [agent for agent in self.agents if not (ends[agent] or cuts[agent])]
        return observations, earned, ends, cuts, infos

    def report(self) -> dict[str, Any] | None:
        """Goes on to the end as it is: the report of ``windlass run --json``. None: it was ended before."""
        return self._core.report(0)


def register() -> None:
    """Has ``gymnasium.make("windlass/Flow-v0", source=...)`` and ``make_vec`` know these environments."""
    if "windlass/Flow-v0" not in gymnasium.registry:
        gymnasium.register("windlass/Flow-v0", entry_point="windlass.env:Env", vector_entry_point="windlass.env:VectorEnv")


register()

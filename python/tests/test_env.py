"""Environments: what the checkers of Gymnasium and PettingZoo want, and that observing changes nothing."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
import windlass
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test
from windlass.env import OBSERVATION, Env, ParallelEnv, VectorEnv, column


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_checks_the_environment(small: str) -> None:
    check_env(Env(small), skip_render_check=True)


def test_an_environment_whose_action_is_never_applied_is_the_run(two: str) -> None:
    for step in ("7 ms", "20 ms", "1 s"):
        env = Env(two, step=step)
        env.reset(seed=4)
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(np.array([np.nan]))
            is_over = terminated or truncated
        assert env.report() == windlass.run(two, 4).report
        assert env.report() is None


def test_many_are_the_runs_of_their_seeds(two: str) -> None:
    env = VectorEnv(two, 5, threads=3)
    env.reset(seed=20)
    for _ in range(3):
        env.step(None)
    for index in range(5):
        assert env.report(index) == json.loads(windlass.run(two, 20 + index).json)


def test_actions_are_in_force_until_the_next(small: str) -> None:
    env = VectorEnv(small.replace("300 kB", "3 MB"), 2)
    seen, _ = env.reset(seed=1)
    assert column(seen, "cWnd").tolist() == [14480, 14480]
    seen, *_ = env.step(np.array([[-1.0], [np.nan]], dtype=np.float32))
    assert column(seen, "cWnd")[0] == 7240
    for _ in range(10):
        seen, *_ = env.step(np.array([[0.0], [np.nan]], dtype=np.float32))
        assert column(seen, "bytesInFlight")[0] <= 7240
    assert column(seen, "cWnd")[1] > 14480
    # five segments each round trip of some 24 ms
    assert 1.5e6 < column(seen, "throughput_bps")[0] < 4e6


def test_a_rate_is_kept(small: str) -> None:
    text = small.replace("300 kB", "3 MB").replace("0.5 %", "0 %")
    env = VectorEnv(text, 1, action="pacing", step="100 ms")
    seen, _ = env.reset(seed=1)
    env.step(np.array([[-1.0]]))
    rates = []
    for _ in range(10):
        seen, *_ = env.step(np.array([[0.0]]))
        rates.append(column(seen, "throughput_bps")[0] / column(seen, "pacingRate_bps")[0])
    assert 0.9 < np.mean(rates[2:]) < 1.05


def test_an_episode_follows_another(small: str) -> None:
    env = VectorEnv(small, 3, step="50 ms")
    env.reset(seed=1)
    overs, seeds = 0, set()
    for _ in range(60):
        before = env._over.copy()
        _, rewards, terminated, truncated, infos = env.step(None)
        assert not truncated.any() and (rewards[before] == 0).all() and not terminated[before].any()
        overs += int(terminated.sum())
        seeds |= set(infos["seed"].tolist())
    assert overs >= 6 and len(seeds) >= 6


def test_a_flow_without_end_is_truncated_at_the_time_limit(small: str) -> None:
    env = Env(small.replace("300 kB", "unlimited").replace("20 s", "1 s"), step="300 ms")
    env.reset(seed=1)
    ends = [env.step(None)[2:4] for _ in range(3)]
    assert ends[-1] == (False, True) and ends[0] == (False, False)


def test_the_same_seeds_and_actions_give_the_same(small: str) -> None:
    def played(threads: int) -> list[bytes]:
        env, random = VectorEnv(small, 4, threads=threads), np.random.default_rng(1)
        seen = [env.reset(seed=5)[0]]
        for _ in range(20):
            seen.append(env.step(random.uniform(-1, 1, (4, 1)))[0])
        return [s.tobytes() for s in seen]

    assert played(1) == played(2) == played(4)


def test_they_are_made_by_name(small: str) -> None:
    env = gymnasium.make("windlass/Flow-v0", source=small)
    assert env.reset(seed=1)[0].shape == (len(OBSERVATION),)
    many = gymnasium.make_vec("windlass/Flow-v0", num_envs=3, vectorization_mode="vector_entry_point", source=small)
    assert many.reset(seed=1)[0].shape == (3, len(OBSERVATION))


def test_gymnasiums_wrappers_take_it(small: str) -> None:
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(VectorEnv(small, 4, step="50 ms"))
    env = gymnasium.wrappers.vector.NormalizeObservation(env)
    env.reset(seed=1)
    lengths = []
    for _ in range(40):
        _, _, _, _, infos = env.step(env.action_space.sample() * 0)
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert len(lengths) >= 4 and all(4 <= length <= 40 for length in lengths)


def test_a_reward_of_the_callers(small: str) -> None:
    env = Env(small, reward=lambda before, after: column(after, "cWnd") - column(before, "cWnd"))
    before, _ = env.reset(seed=1)
    after, reward, *_ = env.step(np.array([1.0], dtype=np.float32))
    assert reward == column(after, "cWnd") - column(before, "cWnd") > 0


def test_pettingzoo_checks_the_parallel_environment(two: str) -> None:
    parallel_api_test(ParallelEnv(two), num_cycles=200)
    parallel_seed_test(lambda: ParallelEnv(two))


def test_agents_that_do_nothing_are_the_run(two: str) -> None:
    env = ParallelEnv(two)
    env.reset(seed=8)
    while env.agents:
        env.step({})
    assert env.report() == windlass.run(two, 8).report


def test_what_has_no_window_of_its_own_is_refused(small: str) -> None:
    text = small.replace('size = "300 kB"', 'connections = "per-response"\n[[flow.train]]\ncount = 3\nsize = "1 kB"')
    text = text.replace('\nalgorithm = "reno"', "")
    with pytest.raises(windlass.WindlassError, match="connection for each response"):
        Env(text)
    with pytest.raises(ValueError, match="flows by number, below 1"):
        Env(small, flow=1)
    both = text + small[small.index("[[flow]]") :]
    assert ParallelEnv(both).possible_agents == ["flow_1"]


def test_a_thousand_in_one_process(small: str) -> None:
    env = VectorEnv(small.replace("300 kB", "unlimited"), 1000)
    seen, _ = env.reset(seed=0)
    assert seen.shape == (1000, len(OBSERVATION)) and (column(seen, "cWnd") >= 1448).all()
    for _ in range(5):
        seen, rewards, *_ = env.step(np.zeros((1000, 1), dtype=np.float32))
    assert np.isfinite(seen).all() and np.isfinite(rewards).all()
    assert (column(seen, "bytesSent") > 0).all()

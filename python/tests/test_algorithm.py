"""Congestion control in Python has the hooks of C."""

from __future__ import annotations

import pytest
import windlass
from windlass import Algorithm, Decision, Sample


class Reno(Algorithm):
    """core/alg/reno.h, line by line."""

    def init(self, sample: Sample, decision: Decision) -> None:
        self.credit_bytes = 0

    def on_ack(self, s: Sample, d: Decision) -> None:
        acked = s.newly_delivered_bytes
        # homes of one family only hold a reduction in force; this one reduces its window itself
        if not acked or not s.is_cwnd_limited or s.is_in_recovery:
            return
        ssthresh = 2**30 if d.ssthresh_bytes is None else d.ssthresh_bytes
        if d.cwnd_bytes < ssthresh:
            grown = d.cwnd_bytes + acked
            if grown <= ssthresh:
                d.cwnd_bytes = grown
                return
            acked = grown - ssthresh
            d.cwnd_bytes = ssthresh
        self.credit_bytes = min(self.credit_bytes, d.cwnd_bytes) + acked
        if self.credit_bytes >= d.cwnd_bytes:
            self.credit_bytes -= d.cwnd_bytes
            d.cwnd_bytes += s.mss_bytes

    def on_congestion(self, s: Sample, d: Decision, why: int) -> None:
        self.credit_bytes = 0
        d.ssthresh_bytes = d.cwnd_bytes = max(min(s.inflight_before_bytes, d.cwnd_bytes) // 2, 2 * s.mss_bytes)

    def on_timeout(self, s: Sample, d: Decision) -> None:
        ssthresh = d.ssthresh_bytes
        self.on_congestion(s, d, windlass.LOSS)
        d.cwnd_bytes = s.mss_bytes
        if s.events & 1 << 6:
            d.ssthresh_bytes = ssthresh


@pytest.mark.parametrize("seed", range(1, 6))
def test_reno_in_python_is_reno_in_c(small: str, seed: int) -> None:
    # the core's, not what stands for Linux' own
    text = small.replace('"reno"', '"wl_reno"').replace("300 kB", "2 MB")
    in_c = windlass.run(text, seed, trace="20 ms")
    in_python = windlass.run(text, seed, trace="20 ms", algorithms={0: Reno})
    assert in_python.flow_trace == in_c.flow_trace and in_python.json == in_c.json


def test_a_pace_of_its_own_and_a_timer(small: str) -> None:
    times = []

    class Constant(Algorithm):
        """4 Mbit/s, whatever happens."""

        def init(self, sample: Sample, decision: Decision) -> None:
            decision.pacing_bytes_ps = 500_000
            decision.cwnd_bytes = 100 * sample.mss_bytes
            decision.wake_at_us = sample.now_us + 100_000

        def on_timer(self, sample: Sample, decision: Decision) -> None:
            times.append(sample.now_us)
            decision.wake_at_us = sample.now_us + 100_000

    result = windlass.run(small.replace("300 kB", "2 MB").replace("0.5 %", "0 %"), algorithms={0: Constant})
    assert 3.7e6 < result.report["flows"][0]["goodput_bps"] < 4.05e6
    assert len(times) >= 38 and {b - a for a, b in zip(times, times[1:])} == {100_000}


def test_an_exception_ends_the_run(small: str) -> None:
    class Broken(Algorithm):
        def on_ack(self, sample: Sample, decision: Decision) -> None:
            raise RuntimeError("not yet")

    with pytest.raises(RuntimeError, match="not yet"):
        windlass.run(small, algorithms={0: Broken})

    def unmakeable() -> Algorithm:
        raise LookupError("none")

    with pytest.raises(LookupError):
        windlass.run(small, algorithms={0: unmakeable})
    with pytest.raises(ValueError, match="no flow 1"):
        windlass.run(small, algorithms={1: Broken})


def test_the_names_of_the_core() -> None:
    assert {"reno", "cubic", "bbr", "bbr3"} <= set(windlass.algorithm_names())

"""Congestion control in Python, one call for each ACK. It is for trying ideas out: each call takes some ten microseconds."""

from __future__ import annotations

from ._windlass import Decision, Sample

LOSS = 0
"""``why`` of ``on_congestion``: a loss."""
ECN = 1
"""``why`` of ``on_congestion``: an ECN mark."""


class Algorithm:
    """The hooks of ``core/alg/alg.h``, with the same meaning. A hook changes what it wants of the decision and leaves the rest.

    At ``init`` the window is 10 segments, there is no threshold, and nothing is paced. Where an algorithm sets
    ``pacing_bytes_ps``, it paces itself and its own reductions, as BBR does in Linux; otherwise the host spreads a reduction over a
    round trip (RFC 6937) and takes back one that was spurious.

    An exception ends the run, which raises it.
    """

    def init(self, sample: Sample, decision: Decision) -> None:
        """The connection is established."""

    def on_ack(self, sample: Sample, decision: Decision) -> None:
        """An ACK delivered or lost something, or carries an event."""

    def on_congestion(self, sample: Sample, decision: Decision, why: int) -> None:
        """The first loss (``LOSS``) or ECN mark (``ECN``) of a window, before ``on_ack`` of the same ACK."""

    def on_timeout(self, sample: Sample, decision: Decision) -> None:
        """A retransmission timeout."""

    def on_send_after_idle(self, sample: Sample, decision: Decision, idle_us: int) -> None:
        """New data is about to be sent, the first for ``idle_us``, and nothing is in flight."""

    def on_timer(self, sample: Sample, decision: Decision) -> None:
        """The time has come that ``decision.wake_at_us`` had."""

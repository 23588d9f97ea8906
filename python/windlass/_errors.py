"""What can go wrong."""

from __future__ import annotations


class WindlassError(Exception):
    """A run, a sweep or a simulation that cannot be made; the message has what is wrong and the cure."""


class ScenarioError(WindlassError, ValueError):
    """A mistake in a scenario."""

    what: str
    """The key, what is wrong and the cure."""
    file: str
    """The scenario's file, or ``<dict>`` or ``<text>``."""
    line: int | None
    """The line in it, from 1; None: of the file as a whole, or the scenario is a dict."""

    def __init__(self, what: str, file: str = "<text>", line: int | None = None) -> None:
        super().__init__(f"{file}:{line}: {what}" if line else f"{file}: {what}")
        self.what, self.file, self.line = what, file, line

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[str, str, int | None]]:
        return type(self), (self.what, self.file, self.line)

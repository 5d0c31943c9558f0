"""Stop texts in a text that grows: the part that may still become a stop text is held back."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopFilter"]


class StopFilter:
    """Gives a growing text out up to the first of some stop texts, which is not part of it."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None  # the stop text that ended the text

    def add(self, text: str) -> str:
        """The text that is certain to stand before any stop text."""
        if self.found is not None:
            return ""
        whole = self._held + text
        places = [(at, stop) for stop in self._stops if (at := whole.find(stop)) >= 0]
        if places:
            at, self.found = min(places, key=lambda place: (place[0], -len(place[1])))
            self._held = ""
            return whole[:at]
        kept = max((_overlap(whole, stop) for stop in self._stops), default=0)
        cut = len(whole) - kept
        self._held = whole[cut:]
        return whole[:cut]

    def finish(self) -> str:
        """The text that was held back, at the end of an answer without a stop text."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of a text that begins a stop text."""
    most = min(len(text), len(stop) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)

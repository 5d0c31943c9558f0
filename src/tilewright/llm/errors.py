"""Errors of `tilewright.llm`: refusals of a model or a request, made before any work."""

from __future__ import annotations

import tilewright as tw

__all__ = ["ModelError", "RequestError"]


class ModelError(tw.TilewrightError):
    """A model that cannot be loaded: a file, a number or a part of it is missing or wrong."""


class RequestError(tw.TilewrightError):
    """A request that the model cannot answer: a prompt, a chat or a parameter is refused."""

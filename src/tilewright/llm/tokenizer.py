"""Text to tokens and back: `tokenizer.json`, chat templates, and text that grows token by token.

Templates are Jinja, run in a sandbox. A token may end in the middle of a character, and bytes of
the next token may change the text of the last one, so text is given out only once it is certain.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import tokenizers

from tilewright.llm.config import read_json
from tilewright.llm.errors import ModelError, RequestError

__all__ = ["Detokenizer", "Message", "Tokenizer"]

Message = Mapping[str, Any]  # `role` and `content`; `tool_calls` and others, as the template reads

UNFINISHED = "\ufffd"  # decoded in place of bytes that are no whole character
MOST_OPEN = 3  # tokens of a character that is not whole yet


class Tokenizer:
    """The tokenizer of a model, with its chat template."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        template: str | None = None,
        special: Mapping[str, str] | None = None,
    ) -> None:
        self.inner, self.template = inner, template
        self._special = dict(special or {})  # `bos_token` and others, by name
        self._compiled = None if template is None else _compiled(template)

    @classmethod
    def from_folder(cls, folder: Path) -> Tokenizer:
        """The tokenizer of a folder: `tokenizer.json`, and `tokenizer_config.json` if there is."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelError(f"{folder} has no tokenizer.json")
        try:
            inner = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 (the library raises plain `Exception`)
            raise ModelError(f"{path} is no tokenizer: {error}") from None
        config = folder / "tokenizer_config.json"
        settings = read_json(config) if config.is_file() else {}
        special = {
            name: _text_of(value) for name, value in settings.items() if name.endswith("_token")
        }
        return cls(inner, _template_of(folder, settings), special)

    @property
    def size(self) -> int:
        """One more than the highest id."""
        return max(self.inner.get_vocab(with_added_tokens=True).values()) + 1

    def check_fits(self, vocabulary: int) -> None:
        """Refuse a tokenizer with ids for which the model has no embedding."""
        if self.size > vocabulary:
            raise ModelError(
                f"the tokenizer has ids up to {self.size - 1}, and the model has embeddings for"
                f" {vocabulary} tokens: they belong to different models"
            )

    def encode(self, text: str, *, is_chat: bool = False) -> list[int]:
        """The ids of a text; the text of a chat has its special tokens already."""
        return list(self.inner.encode(text, add_special_tokens=not is_chat).ids)

    def decode(self, ids: Sequence[int], *, keeps_special: bool = False) -> str:
        """The text of ids, by default without special tokens."""
        return str(self.inner.decode(list(ids), skip_special_tokens=not keeps_special))

    def chat(
        self, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any
    ) -> str:
        """A conversation as the text of a prompt; options such as `enable_thinking` are passed on.

        `add_generation_prompt` is true unless given.
        """
        if self._compiled is None:
            raise RequestError(
                "this model has no chat template: give a text to `generate` instead of messages"
            )
        _check_messages(messages)
        given = {"add_generation_prompt": True, **self._special, **options}
        try:
            return self._compiled.render(messages=list(messages), tools=tools, **given)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise RequestError(f"the chat template refuses this conversation: {error}") from None


class Detokenizer:
    """The text of a growing list of ids.

    Ids are decoded from a short while before the last certain text on, so that a tokenizer that
    joins pieces by their neighbours sees those.
    """

    def __init__(self, tokenizer: Tokenizer, *, keeps_special: bool = False) -> None:
        self._tokenizer, self._keeps_special = tokenizer, keeps_special
        self._ids: list[int] = []
        self._begin = self._certain = 0  # of the context, and of the ids without text

    def add(self, token: int) -> str:
        """The text that a token makes certain; empty inside of a character."""
        self._ids.append(token)
        return self._next(is_last=False)

    def finish(self) -> str:
        """The text of the remaining tokens; an unfinished character is replaced."""
        return self._next(is_last=True)

    def _next(self, *, is_last: bool) -> str:
        end, before = len(self._ids), self._decode(self._ids[self._begin : self._certain])
        text = self._decode(self._ids[self._begin :])
        if text.endswith(UNFINISHED) and not is_last:
            end = max(end - MOST_OPEN, self._certain)
            text = self._decode(self._ids[self._begin : end])
        if len(text) <= len(before):
            return ""
        self._begin, self._certain = self._certain, end
        return text[len(before) :]

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, keeps_special=self._keeps_special)


def _template_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The default template: of a file of its own, or of the settings, named or not."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):
        found = next((one["template"] for one in found if one.get("name") == "default"), None)
    return None if found is None else str(found)


def _text_of(token: Any) -> str:
    """A special token, given as a text or as an object with one."""
    return str(token.get("content", "")) if isinstance(token, Mapping) else str(token or "")


def _check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise RequestError("a chat has at least one message")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or "role" not in message:
            raise RequestError(
                f"message {number} of a chat is a mapping with `role` and `content`, not"
                f" {message!r}"
            )


def _compiled(template: str) -> jinja2.Template:
    """A template with the functions and filters that models expect."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def as_json(value: Any, indent: int | None = None, **options: Any) -> str:
        options.setdefault("ensure_ascii", False)
        return json.dumps(value, indent=indent, **options)

    def now(form: str) -> str:
        return datetime.datetime.now().strftime(form)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = as_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = now
    try:
        return environment.from_string(template)
    except jinja2.TemplateError as error:
        raise ModelError(f"the chat template is no valid Jinja: {error}") from None

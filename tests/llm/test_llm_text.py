"""Text in and out: tokenizers, templates, growing text and stop texts."""

import json

import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st

from tilewright.llm import ModelError, RequestError
from tilewright.llm.stops import StopFilter
from tilewright.llm.tokenizer import Detokenizer, Tokenizer

BYTES = Tokenizer(tiny_models.tokenizer(), tiny_models.TEMPLATE)
USER = {"role": "user", "content": "hi"}


@given(st.text(max_size=12))
def test_growing_text_is_the_whole_text(text):
    """A token is a byte here, so most characters are spread over several tokens."""
    growing = Detokenizer(BYTES)
    pieces = [growing.add(token) for token in BYTES.encode(text)]
    assert all("\ufffd" not in piece or "\ufffd" in text for piece in pieces)
    assert "".join(pieces) + growing.finish() == text


@given(st.lists(st.integers(0, 255), max_size=12))
def test_bytes_that_are_no_text(ids):
    growing = Detokenizer(BYTES)
    text = "".join(map(growing.add, ids)) + growing.finish()
    assert text.replace("\ufffd", "") == BYTES.decode(ids).replace("\ufffd", "")


def test_special_tokens_have_no_text():
    ids = BYTES.encode("a<|im_end|>b")
    assert len(ids) == 3
    growing = Detokenizer(BYTES)
    assert "".join(map(growing.add, ids)) == "ab"
    assert BYTES.decode(ids, keeps_special=True) == "a<|im_end|>b"


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_stop_texts(text, stops):
    """Cut at the first place where any stop text begins, however the text grows."""
    places = [text.find(stop) for stop in stops if stop in text]
    # A stop text counts once it is complete: one that begins later may be complete first.
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    growing = StopFilter(stops)
    found = "".join(map(growing.add, text))
    if not places:
        assert found + growing.finish() == text
        assert growing.found is None
        return
    first = text[: min(ends)]
    assert growing.found is not None
    assert found == first[: min(first.find(stop) for stop in stops if stop in first)]


def test_no_text_of_a_stop_is_given_out():
    growing = StopFilter(["STOP"])
    assert [growing.add(piece) for piece in ("a S", "TO", "x ST", "OP b")] == [
        "a ",
        "",
        "STOx ",
        "",
    ]
    assert growing.found == "STOP"


class TestTemplates:
    def test_a_conversation(self):
        messages = [{"role": "system", "content": "be brief"}, USER]
        wanted = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        assert BYTES.chat(messages) == wanted + "<|im_start|>assistant\n"
        assert BYTES.chat(messages, add_generation_prompt=False) == wanted

    def test_tools_and_thinking(self):
        text = BYTES.chat([USER], tools=[{"name": "über"}], enable_thinking=False)
        assert '[{"name": "über"}]' in text
        assert text.endswith("<think></think>")
        assert "<think>" not in BYTES.chat([USER], enable_thinking=True)

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("{{ raise_exception('no system') }}", "refuses this conversation: no system"),
            ("{{ messages[0].missing.more }}", "refuses this conversation: .* has no attribute"),
            ("{{ messages.append(1) }}", "refuses this conversation: .* is unsafe"),
        ],
    )
    def test_a_template_that_fails(self, template, message):
        with pytest.raises(RequestError, match=message):
            Tokenizer(BYTES.inner, template).chat([USER])

    def test_no_template(self):
        with pytest.raises(RequestError, match="has no chat template"):
            Tokenizer(BYTES.inner).chat([USER])
        with pytest.raises(ModelError, match="no valid Jinja"):
            Tokenizer(BYTES.inner, "{% if %}")

    @pytest.mark.parametrize(
        ("messages", "message"),
        [([], "at least one message"), (["hi"], "message 0 of a chat is a mapping with `role`")],
    )
    def test_bad_messages(self, messages, message):
        with pytest.raises(RequestError, match=message):
            BYTES.chat(messages)

    def test_files(self, tmp_path):
        folder = tiny_models.write_model(tmp_path, "llama")
        settings = {"chat_template": [{"name": "default", "template": "{{ bos_token }}!"}],
                    "bos_token": {"content": "<s>"}}  # fmt: skip
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        assert Tokenizer.from_folder(folder).chat([USER]) == "<s>!"
        (folder / "chat_template.jinja").write_text("from a file")
        assert Tokenizer.from_folder(folder).chat([USER]) == "from a file"

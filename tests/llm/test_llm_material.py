"""A trained model and a real tokenizer, where `make llm-material` has fetched them.

Comparisons with transformers are made where it is installed.
"""

import random

import numpy as np
import pytest
from material import QWEN3, SMOLLM2

from tilewright.llm import LLM, SamplingParams
from tilewright.llm.tokenizer import Tokenizer

CHATS = 1000
TEXT = (
    "The sun rises in the east and sets in the west. Water boils at one hundred degrees, and ice"
    " melts at zero. A year has twelve months, and a week has seven days."
)
WORDS = (
    "the", "Größe", "naïve", "日本語", "🙂🙃", "12345", "x = {'a': 1}\n", "  spaces  ",
    "<think>", "don't", "\t\ttabs", "Ελλάδα", "<|im_end|>", "3.14", "\r\n",
)  # fmt: skip


def needs(path):
    return pytest.mark.skipif(not path.exists(), reason=f"needs `make llm-material`: {path.name}")


@pytest.fixture(scope="module")
def smollm2():
    return LLM(str(SMOLLM2), device="cpu", max_length=128)


@needs(SMOLLM2)
class TestSmolLM2:
    def test_it_answers(self, smollm2):
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        answer = smollm2.chat(messages, SamplingParams(max_tokens=12))
        assert answer.text == "The capital of France is Paris."
        assert answer.finish_reason == "stop"

    def test_tokens_and_perplexity_of_transformers(self, smollm2):
        torch = pytest.importorskip("torch", reason="needs torch")
        transformers = pytest.importorskip("transformers", reason="needs transformers")
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            str(SMOLLM2.parent), gguf_file=SMOLLM2.name, dtype=torch.float32
        ).eval()
        scored = SamplingParams(max_tokens=16, prompt_logprobs=True, ignore_eos=True)
        (answer,) = smollm2.generate(TEXT, scored)
        ids = [*answer.prompt_tokens, *answer.tokens]
        with torch.no_grad():
            logs = torch.log_softmax(theirs(torch.tensor([ids])).logits[0], dim=1).numpy()
        start = len(answer.prompt_tokens)
        assert logs[start - 1 : -1].argmax(axis=1).tolist() == list(answer.tokens)
        ours = np.mean([one.logprob for one in answer.prompt_logprobs])
        wanted = np.mean([logs[n, ids[n + 1]] for n in range(start - 1)])
        assert abs(np.exp(ours - wanted) - 1) < 1e-3  # the quotient of the perplexities


@pytest.fixture(scope="module")
def qwen3():
    return Tokenizer.from_folder(QWEN3)


def random_chat(source):
    """Messages with odd words, perhaps a system message, tools and thinking in earlier answers."""

    def words():
        return " ".join(source.choice(WORDS) for _ in range(source.randrange(1, 9)))

    system = [{"role": "system", "content": words()}] if source.random() < 0.5 else []
    turns = []
    for _ in range(source.randrange(3)):
        thought = f"<think>\n{words()}\n</think>\n\n" if source.random() < 0.3 else ""
        turns += [
            {"role": "user", "content": words()},
            {"role": "assistant", "content": thought + words()},
        ]
    tool = {"type": "function", "function": {"name": "look", "description": words()}}
    options = {"tools": [tool]} if source.random() < 0.3 else {}
    if source.random() < 0.5:
        options["enable_thinking"] = source.random() < 0.5
    return [*system, *turns, {"role": "user", "content": words()}], options


@needs(QWEN3)
class TestQwen3:
    def test_the_prompt_of_published_measurements(self, qwen3):
        messages = [{"role": "user", "content": "Hello, how are you?"}]
        text = qwen3.chat(messages, enable_thinking=False)
        assert len(qwen3.encode(text, is_chat=True)) == 18

    def test_the_ids_of_transformers(self, qwen3):
        transformers = pytest.importorskip("transformers", reason="needs transformers")
        theirs = transformers.AutoTokenizer.from_pretrained(str(QWEN3))
        source = random.Random(0)
        for _ in range(CHATS):
            messages, options = random_chat(source)
            wanted = theirs.apply_chat_template(
                messages, tokenize=True, return_dict=False, add_generation_prompt=True, **options
            )
            assert qwen3.encode(qwen3.chat(messages, **options), is_chat=True) == wanted

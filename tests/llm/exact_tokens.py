"""Every greedy token and its logits against `transformers`, in f32 on the CPU.

`make llm-exact` runs it over 10,000 tokens of random models of odd sizes; `--write` renews the
references of the suite, which hold the tokens of `transformers` itself. A sequence of ours is
given to `transformers` in one pass: if its highest logit at every position is our next token, its
own greedy answer is this very sequence.
"""

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import tiny_models
import torch
import transformers
from exact_tokens_file import REFERENCES

from tilewright.llm import LLM, SamplingParams

SLOTS, LENGTH, TOLERANCE = 8, 320, 1e-4
SHOWN = 5  # logprobs that are compared at each step


def random_config(name, random):
    """A model of odd sizes."""
    kv_heads, group = random.integers(1, 4), random.integers(1, 4)
    heads, half = int(kv_heads * group), int(random.integers(2, 20))
    sizes = {
        "num_attention_heads": heads,
        "num_key_value_heads": int(kv_heads),
        "hidden_size": heads * 2 * half if name == "llama" else int(random.integers(9, 90)),
        "intermediate_size": int(random.integers(9, 130)),
        "num_hidden_layers": int(random.integers(1, 4)),
        "tie_word_embeddings": bool(random.integers(2)),
    }
    if name != "llama":
        sizes["head_dim"] = 2 * half
    if name == "moe":
        count = int(random.integers(2, 12))
        sizes["num_experts"] = count
        sizes["num_experts_per_tok"] = int(random.integers(1, min(count, 4) + 1))
        sizes["moe_intermediate_size"] = int(random.integers(5, 50))
        sizes["norm_topk_prob"] = bool(random.integers(2))
        sizes["mlp_only_layers"] = []
    return sizes


def reference_model(folder):
    """The model of transformers; its grouped products refuse odd sizes, so experts take turns."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    return load(folder, dtype=torch.float32, experts_implementation="eager").eval()


def compared(folder, random, tokens):
    """Tokens compared, and the greatest difference of a logprob; a different token raises."""
    ours = LLM(str(folder), max_length=LENGTH, slots=SLOTS)
    theirs = reference_model(folder)
    count, off = 0, 0.0
    while count < tokens:
        lengths = random.integers(1, 40, SLOTS)
        prompts = [random.integers(0, 256, length).tolist() for length in lengths]
        room = min(LENGTH - 40, -(-(tokens - count) // SLOTS))
        params = SamplingParams(max_tokens=room, ignore_eos=True, logprobs=SHOWN)
        for prompt, answer in zip(prompts, ours.generate(prompts, params), strict=True):
            ids = torch.tensor([[*prompt, *answer.tokens]])
            with torch.no_grad():
                logits = theirs(ids).logits[0, len(prompt) - 1 : -1]
            known = logits[:, : ours.runner.known].argmax(dim=1).tolist()
            assert known == list(answer.tokens), (prompt, known, answer.tokens)
            logs = torch.log_softmax(logits, dim=1).numpy()
            for row, step in zip(logs, answer.logprobs, strict=True):
                off = max(off, *(abs(row[token] - one) for token, one in step.top.items()))
            count += len(answer.tokens)
    assert off < TOLERANCE, off
    return count, off


def run(tokens, seed):
    random, total = np.random.default_rng(seed), 0
    cases = [(name, changes) for name in tiny_models.CONFIGS for changes in (False, True, True)]
    for name, is_random in cases:
        changes = random_config(name, random) if is_random else {}
        with tempfile.TemporaryDirectory() as place:
            folder = tiny_models.write_model(Path(place), name, seed=seed, **changes)
            count, off = compared(folder, random, -(-tokens // len(cases)))
        total += count
        sys.stdout.write(f"{name:6} {count} tokens equal, logprobs within {off:.1e} {changes}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all {total} tokens equal\n")


def write():
    """The references of the suite: prompts, and the greedy answers of transformers."""
    random, found = np.random.default_rng(0), {}
    for name in tiny_models.CONFIGS:
        with tempfile.TemporaryDirectory() as place:
            folder = tiny_models.write_model(Path(place), name)
            model = reference_model(folder)
            found[name] = []
            for length in (1, 7, 33):
                ids = random.integers(0, 256, length).tolist()
                prompt, logits = list(ids), None
                with torch.no_grad():
                    for _ in range(20):
                        logits = model(torch.tensor([ids])).logits[0, -1]
                        ids.append(int(logits[:259].argmax()))
                last = [round(float(x), 6) for x in logits[:16]]
                answer = ids[length:]
                found[name].append({"prompt": prompt, "tokens": answer, "last_logits": last})
    provenance = {
        "script": "tests/llm/exact_tokens.py --write",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    text = json.dumps({"provenance": provenance, "models": found}, indent=1)
    REFERENCES.write_text(text + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    write() if options.write else run(options.tokens, options.seed)

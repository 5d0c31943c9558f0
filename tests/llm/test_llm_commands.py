"""`tilewright generate`, `chat` and `bench-llm`."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright.cli import main
from tilewright.cli.screen import visible
from tilewright.llm import LLM, SamplingParams


@pytest.fixture
def run(folders):
    def call(command, *arguments, model="qwen3", **options):
        place = ["--model", str(folders[model]), "--device", "cpu", "--max-length", "64"]
        return CliRunner().invoke(main, [command, *place, *map(str, arguments)], **options)

    return call


def test_generate(run, llm):
    result = run("generate", "--max-tokens", 5, "abc")
    text = llm.generate("abc", SamplingParams(max_tokens=5))[0].text
    assert result.exit_code == 0
    assert result.stdout == visible(f"abc{text}\n")
    assert "tokens, the first after" in result.stderr


def test_chat_of_one_message(run):
    result = run("chat", "--max-tokens", 3, "--system", "be brief", "--no-thinking", "hi")
    assert result.exit_code == 0
    assert "3 tokens, the first after" in result.stderr


def test_a_conversation(run):
    result = run("chat", "--max-tokens", 2, input="hi\n\nmore\n")
    assert result.exit_code == 0
    assert result.stderr.count("tokens, the first after") == 2


def test_ctrl_c_ends_an_answer(run, monkeypatch):
    def interrupted(self, *_, **__):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(LLM, "stream", interrupted)
    result = run("generate", "abc")
    assert result.exit_code == 130
    assert "0 tokens" in result.stderr


def test_bench(run):
    result = run("bench-llm", "--tokens", 4, "--rounds", 1, "--json")
    found = json.loads(result.stdout)
    assert found["tokens"] == 4
    assert found["tokens_per_second"] > 0
    assert run("bench-llm", "--tokens", 1).exit_code == 2


def test_the_benchmark_runs(monkeypatch, capsys):
    """Of random weights: a tiny model of the same kind as those that are measured on a GPU."""
    script = Path(__file__).parents[2] / "benchmarks" / "llm.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--device", "cpu"])
    runpy.run_path(str(script), run_name="__main__")
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_per_step"] == 4 * (118_464 + 10_240)  # weights, and keys and values
    assert found["step_ms"] > 0


def test_refusals(run, tmp_path):
    result = CliRunner().invoke(main, ["generate", "--model", str(tmp_path), "abc"])
    assert result.exit_code == 1
    assert "ModelError" in result.stderr
    assert "has no config.json" in result.stderr
    assert run("generate", "--temperature", "-1", "abc").exit_code == 1

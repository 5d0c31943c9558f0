"""`tilewright generate`, `chat` and `bench-llm`: a language model on the command line.

Text goes to the output as it is made; progress and rates go beside it. Ctrl-C ends an answer: a
`generate` ends with it, a `chat` asks for the next message.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from tilewright.cli.options import json_option
from tilewright.cli.screen import BadInput, Screen, visible
from tilewright.dtypes import DTYPES
from tilewright.errors import ToolchainError

__all__ = ["bench_llm_command", "chat_command", "generate_command"]

Command = TypeVar("Command", bound=Callable[..., Any])
SAMPLING = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "seed")


def _model_options(command: Command) -> Command:
    """The options that choose a model and the way it is loaded."""
    for option in (
        click.option("--model", required=True, metavar="PATH", help="Folder, GGUF file or name."),
        click.option("--device", metavar="NAME", help="Device: cpu, cuda:0 (default: the GPU)."),
        click.option("--dtype", type=click.Choice(["f32", "f16", "bf16"]), help="Weights."),
        click.option("--max-length", type=int, help="Most tokens of a prompt with its answer."),
    ):
        command = option(command)
    return command


def _sampling_options(command: Command) -> Command:
    """The options that choose tokens; the model's own defaults count for the rest."""
    for option in (
        click.option("--max-tokens", type=int, help="Most tokens of an answer."),
        click.option("--temperature", type=float, help="0: the most probable token."),
        click.option("--top-k", type=int, help="Draw from the k most probable tokens."),
        click.option("--top-p", type=float, help="Draw from tokens that reach this share."),
        click.option("--min-p", type=float, help="Draw from tokens of this share of the best."),
        click.option("--seed", type=int, help="The same seed gives the same answer."),
    ):
        command = option(command)
    return command


@click.command("generate")
@_model_options
@_sampling_options
@click.argument("prompt")
@click.pass_obj
def generate_command(screen: Screen, /, prompt: str, **options: Any) -> None:
    """Continue PROMPT as it is, without a chat template."""
    model = _loaded(screen, options)
    click.echo(visible(prompt), nl=False)
    is_whole = _shown(screen, model.stream(prompt, _params(model, options)))
    if not is_whole:
        raise KeyboardInterrupt


@click.command("chat")
@_model_options
@_sampling_options
@click.option("--system", metavar="TEXT", help="The system message.")
@click.option("--no-thinking", is_flag=True, help="Ask the template for an answer at once.")
@click.argument("message", required=False)
@click.pass_obj
def chat_command(
    screen: Screen, /, message: str | None, system: str | None, no_thinking: bool, **options: Any
) -> None:
    """Talk with a model: one MESSAGE, or a conversation that ends with Ctrl-D."""
    model = _loaded(screen, options)
    params, how = _params(model, options), {"enable_thinking": False} if no_thinking else {}
    said = [{"role": "system", "content": system}] if system else []
    for text in _messages(message):
        said.append({"role": "user", "content": text})
        answer: list[str] = []
        is_whole = _shown(screen, model.stream(said, params, **how), answer)
        said.append({"role": "assistant", "content": "".join(answer)})
        if message is not None and not is_whole:
            raise KeyboardInterrupt


@click.command("bench-llm")
@_model_options
@click.option("--prompt-tokens", type=int, default=18, show_default=True, help="Of a prompt.")
@click.option("--tokens", type=int, default=128, show_default=True, help="Of an answer.")
@click.option("--rounds", type=int, default=5, show_default=True, help="Measured answers.")
@json_option
@click.pass_obj
def bench_llm_command(
    screen: Screen,
    /,
    prompt_tokens: int,
    tokens: int,
    rounds: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure the time to the first token, and tokens a second of one sequence."""
    if min(prompt_tokens, tokens - 1, rounds) < 1:
        raise BadInput("there are at least 1 prompt token, 2 tokens and 1 round")
    model = _loaded(screen, options)
    llm = importlib.import_module("tilewright.llm")
    params = llm.SamplingParams(max_tokens=tokens, ignore_eos=True)
    prompt = [n % model.config.vocabulary for n in range(1, prompt_tokens + 1)]
    firsts, rates = [], []
    with screen.working("measuring …"):
        for number in range(rounds + 1):
            first, rate = _timed(model, prompt, params)
            if number:  # the first answer compiles kernels
                firsts.append(first)
                rates.append(rate)
    found = {
        "prompt_tokens": prompt_tokens,
        "tokens": tokens,
        "first_token_seconds": statistics.median(firsts),
        "tokens_per_second": statistics.median(rates),
        "slowest_tokens_per_second": min(rates),
    }
    if as_json:
        screen.answer(found)
        return
    screen.out.print(
        f"{prompt_tokens} prompt tokens, {tokens} tokens: the first after"
        f" {found['first_token_seconds'] * 1e3:.1f} ms, then {found['tokens_per_second']:.1f}"
        f" tokens/s (slowest {found['slowest_tokens_per_second']:.1f})"
    )


def _loaded(screen: Screen, options: dict[str, Any]) -> Any:
    """The model of the options, loaded behind a bar of progress."""
    try:
        llm = importlib.import_module("tilewright.llm")
    except ModuleNotFoundError as error:
        raise ToolchainError(str(error)) from None
    dtypes = {dtype.label: dtype for dtype in DTYPES}
    how = {"device": options["device"], "max_length": options["max_length"]}
    if options["dtype"]:
        how["dtype"] = dtypes[options["dtype"]]
    columns = (TextColumn("loading"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, console=screen.err, transient=True) as bar:
        task = bar.add_task("loading", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return llm.LLM(options["model"], progress=progress, **how)


def _params(model: Any, options: dict[str, Any]) -> Any:
    """The model's own parameters, changed by the options that are given."""
    given = {name: options[name] for name in SAMPLING if options[name] is not None}
    return model.defaults.updated(**given)


def _messages(message: str | None) -> Iterator[str]:
    """The message of the command, or those that are typed until the input ends."""
    if message is not None:
        yield message
        return
    while True:
        try:
            text = click.prompt(">", prompt_suffix=" ", default="", show_default=False)
        except click.Abort:  # Ctrl-D or Ctrl-C at the prompt
            click.echo()
            return
        if text.strip():
            yield text


def _shown(screen: Screen, chunks: Any, answer: list[str] | None = None) -> bool:
    """Print an answer as it comes, and its rate behind it; false if Ctrl-C has ended it."""
    start = time.perf_counter()
    first, count, is_whole = start, 0, True
    try:
        with closing(chunks):
            for chunk in chunks:
                count += len(chunk.tokens)
                first = time.perf_counter() if count == 1 else first
                click.echo(visible(chunk.text), nl=False)
                if answer is not None:
                    answer.append(chunk.text)
    except KeyboardInterrupt:
        is_whole = False
    click.echo()
    seconds = time.perf_counter() - first
    rate = f", {(count - 1) / seconds:.1f} tokens/s" if count > 1 and seconds > 0 else ""
    screen.err.print(f"{count} tokens, the first after {first - start:.2f} s{rate}", style="soft")
    return is_whole


def _timed(model: Any, prompt: list[int], params: Any) -> tuple[float, float]:
    """Seconds to the first token, and tokens a second behind it."""
    start = time.perf_counter()
    times = [time.perf_counter() for _ in model.stream(prompt, params)]
    return times[0] - start, (len(times) - 1) / (times[-1] - times[0])

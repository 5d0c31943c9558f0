"""Language models on safe kernels: `LLM(path).generate("…")`.

This package is installed with `tilewright[llm]`. It uses public names of Tilewright alone, and
`import tilewright` never loads it.
"""

try:
    from tilewright.llm.answers import Chunk, Completion, TokenLogprobs
    from tilewright.llm.engine import LLM
    from tilewright.llm.errors import ModelError, RequestError
    from tilewright.llm.params import SamplingParams
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"tilewright.llm needs the package {missing.name}: install `tilewright[llm]`",
        name=missing.name,
    ) from None

__all__ = [
    "LLM",
    "Chunk",
    "Completion",
    "ModelError",
    "RequestError",
    "SamplingParams",
    "TokenLogprobs",
]

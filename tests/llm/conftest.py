import pytest
import tiny_models

from tilewright.llm import LLM


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder for each tiny model, by name."""
    place = tmp_path_factory.mktemp("models")
    return {name: tiny_models.write_model(place / name, name) for name in tiny_models.CONFIGS}


@pytest.fixture(scope="session")
def llm(folders):
    """The tiny Qwen3 with two slots."""
    return LLM(str(folders["qwen3"]), max_length=96, slots=2)

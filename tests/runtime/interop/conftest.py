import pytest
from foreign_doubles import Library, builder


@pytest.fixture
def build(driver, cuda):
    """Builds operations that add one, of tensors and arrays."""
    return builder(driver, cuda)


@pytest.fixture
def library(driver):
    """Another library on that GPU on paper."""
    return Library(driver)

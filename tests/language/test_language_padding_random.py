"""Random kernels on ragged shapes: a result that padding has changed came with a warning."""

import importlib.util
import os
import warnings
from random import Random

import numpy as np
import pytest
from random_padding import HEAD, drawn

import tilewright as tw
from tilewright import f32

SHARES = 4
# `make padding` draws more.
KERNELS = int(os.environ.get("PADDING_COUNT", "64")) // SHARES
SEED = os.environ.get("PADDING_SEED", "padding")
SIZES = (16, 13, 13, 24, 5, 16, 13, 8, 19)  # launches are planned, repeated, fitted to others


def loaded(path, texts):
    path.write_text(HEAD + "".join(texts), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launched(kernel, x, y, blocks):
    """What each block has stored, and the padding warnings of the launch."""
    z = tw.full((blocks,), 77, f32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", tw.ExtentWarning)
        kernel(z.partition(1), tw.from_numpy(x), tw.from_numpy(y)).sync()
    texts = [str(one.message) for one in caught if one.category is tw.PaddingWarning]
    assert len(texts) == len(caught), [str(one.message) for one in caught]
    return z.numpy(), texts


def check_launch(case, kernel, n, seed):
    generator = np.random.default_rng([n, seed])
    x = (generator.uniform(0.3, 2, n) * generator.choice([-1, -1, 1], n)).astype(np.float32)
    blocks = min(int(generator.integers(1, 4)), case.load.blocks(n))
    source = x if "y.partition" not in case.load.text else x[::-1].copy()
    got, texts = launched(kernel, x, source if source is not x else x, blocks)
    pairs = [case.elements(source, block) for block in range(blocks)]
    with np.errstate(all="ignore"):
        wanted = [case.wanted(elements) for elements, _ in pairs]
    is_wrong = any(
        one is not None and not np.isclose(number, one, rtol=2e-4, atol=2e-4)
        for number, one in zip(got, wanted, strict=True)
    )
    has_padding = any(padded for _, padded in pairs)
    told = f"{case.text}\n{n} elements, {blocks} blocks: {got} for {wanted}: {texts}"
    assert texts or not is_wrong, told
    assert has_padding or not is_wrong, told
    assert not texts or has_padding, told
    assert not (texts and case.is_masked and not case.maps), told
    return is_wrong, bool(texts)


@pytest.mark.parametrize("share", range(SHARES))
def test_a_wrong_result_is_told_and_a_launch_without_padding_is_silent(tmp_path, share):
    random = Random(f"{SEED} {share}")
    cases = [drawn(random, f"kernel_{number}") for number in range(KERNELS)]
    module = loaded(tmp_path / f"padded_{share}.py", [case.text for case in cases])
    outcomes = []
    for number, case in enumerate(cases):
        kernel = getattr(module, case.name)
        sizes = [n for n in SIZES if n >= case.load.least]
        outcomes += [check_launch(case, kernel, n, number) for n in sizes]
    assert sum(wrong for wrong, _ in outcomes) > len(outcomes) / 20
    # A launch that is told of may be right by chance; a warning that is always false helps nothing.
    false = sum(told and not wrong for wrong, told in outcomes)
    assert false < 0.8 * sum(told for _, told in outcomes)

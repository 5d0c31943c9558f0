"""Random index arithmetic and control flow, with its checks proved and with all of them forced.

Both runs of a launch give the same bytes or the same report, and nothing is read outside, which the
CPU would tell. `make generated` looks at many; `GENERATED_SEED` and `GENERATED_COUNT` say which.
"""

import importlib.util
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from checked_twice import Call, Outcome, difference
from index_moves import moves_kernel

import tilewright as tw
from tilewright.analysis.proofs import _ProofSearch
from tilewright.errors import (
    InternalError,
    KernelFailure,
    LaunchError,
    UndefinedBehaviourError,
)
from tilewright.jit.compile.compiled import force_checks

SEED = int(os.environ.get("GENERATED_SEED", "1"))
COUNT = int(os.environ.get("GENERATED_COUNT", "24"))
SHARES = 8  # tests that the kernels are dealt out to
LAUNCHES = 2
TILE = 4
EXTENTS = (0, 1, 2, 3, 4, 4, 5, 7, 8, 9, 12, 17)
SCALARS = (-(2**31), -7, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 8, 17, 2**31 - 1)


def load(source: str, folder: Path, seed: int):
    """The kernel of a source, which has to stand in a file."""
    path = folder / f"moves_{seed}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def arguments(random: Random, walks: bool) -> tuple[tuple, dict]:
    """Tensors and scalars of a launch; contents are small, and some are not."""

    def tensor(*shape: int):
        values = [random.choice((*range(-2, 6), *SCALARS)) for _ in range(int(np.prod(shape)))]
        return tw.from_numpy(np.array(values, np.int32).reshape(shape))

    n, m, c = (random.choice(EXTENTS) for _ in range(3))
    z = tw.zeros((random.choice(EXTENTS),), tw.i32).partition(TILE)
    output = z.persistent(random.choice((1, 2, 5))) if walks else z
    scalars = [random.choice(SCALARS) for _ in range(2)]
    unsigned, wide = random.choice((0, 1, 5, 2**31, 2**32 - 1)), random.choice((0, 3, -1, 2**40))
    tensors = (tensor(n), tensor(n), tensor(m), tensor(n, m), tensor(c))
    return (output, *tensors, *scalars, unsigned, wide), {"S": random.choice((0, 1, 2, 3, 5))}


def ends_in(outcome: Outcome) -> str:
    """How a run ended, in a word."""
    return "works" if outcome.error is None else type(outcome.error).__name__


def is_another_index(proved: Outcome, forced: Outcome) -> bool:
    """Whether the launch is refused for one index, and the kernel reports another before it."""
    return isinstance(proved.error, LaunchError) and isinstance(forced.error, KernelFailure)


def run_both(kernel, walks: bool, random: Random) -> Counter[str]:
    """Launch a kernel a few times with and without proofs, and compare."""
    ends: Counter[str] = Counter()
    for _ in range(LAUNCHES):
        call = Call(kernel, None, *arguments(random, walks), unsafe=False)
        proved = call.outcome()
        with force_checks():
            forced = call.outcome()
        for found in (proved, forced):
            assert not isinstance(found.error, InternalError | UndefinedBehaviourError), found.error
        differs = None if is_another_index(proved, forced) else difference(proved, forced)
        assert differs is None, f"{differs}\n{proved.error}\n{forced.error}"
        ends[ends_in(proved)] += 1
    return ends


@pytest.mark.filterwarnings("ignore::tilewright.errors.PaddingWarning")  # sums are not the matter
@pytest.mark.parametrize("share", range(SHARES))
def test_moves_of_an_index_are_the_same_with_and_without_proofs(share, tmp_path):
    ends: Counter[str] = Counter()
    slowest = 0.0
    for number in range(share, COUNT, SHARES):
        random = Random(f"{SEED} {number}")
        made = moves_kernel(random)
        source = made.source()
        start = time.process_time()
        try:
            ends += run_both(load(source, tmp_path, number), made.walks, random)
        except AssertionError as error:
            pytest.fail(f"seed {SEED}, kernel {number}: {error}\n{source}")
        slowest = max(slowest, time.process_time() - start)
    print(f"\nseed {SEED}, share {share}: {dict(ends)}; slowest kernel {slowest:.2f} s")  # noqa: T201
    assert ends["works"] > 0, ends


def test_a_prover_that_is_wrong_by_one_is_noticed(monkeypatch, tmp_path):
    """The kernels come so close to the ends of their axes that such a fault is seen at once."""
    real = _ProofSearch.run
    monkeypatch.setattr(
        _ProofSearch, "run", lambda search, goal, depth: real(search, goal + 1, depth)
    )
    for number in range(24):
        random = Random(f"1 {number}")
        made = moves_kernel(random)
        kernel = load(made.source(), tmp_path, number)
        try:
            run_both(kernel, made.walks, random)
        except AssertionError:
            return
    pytest.fail("no kernel told")

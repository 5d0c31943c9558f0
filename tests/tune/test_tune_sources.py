"""Digests of sources: they move with what a kernel computes, and with nothing else."""

import sys
import textwrap
from itertools import count

import pytest

import tilewright as tw
from tilewright.tune.sources import source_digest

NUMBERS = count()
ORIGINAL = '''
    import tilewright as tw
    from tilewright import Mut, Ref, f32
    from tilewright.dims import B, N

    FACTOR = 2.0
    UNUSED = 1

    def scaled(tile):
        return tile * FACTOR

    @tw.kernel
    def kernel(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        """Twice."""
        if x.shape[0] > 4:
            z.store(scaled(x.load_like(z)))
'''


@pytest.fixture
def digest_of(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def compute(text):
        folder = tmp_path / str(next(NUMBERS))  # the module's name is the same each time
        folder.mkdir()
        (folder / "edited_kernel.py").write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(folder)
        sys.modules.pop("edited_kernel", None)
        import edited_kernel

        return source_digest(edited_kernel.kernel)

    yield compute
    sys.modules.pop("edited_kernel", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Twice."""', '"""Doubled.\n\n        At length.\n        """'),
        ('        """Twice."""\n', ""),
        ("z.store(", "z.store(  # here\n                "),
        ("FACTOR = 2.0", "# a comment\n    FACTOR = 2.0"),
        ("UNUSED = 1", "UNUSED = 3"),
        ("x.shape[0] > 4", "x.shape[0]>4"),
    ],
)
def test_what_does_not_matter(digest_of, old, new):
    assert old in ORIGINAL
    assert digest_of(ORIGINAL.replace(old, new)) == digest_of(ORIGINAL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 4", ">= 4"),
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("tile * FACTOR", "tile + FACTOR"),
        ("@tw.kernel", "@tw.kernel(occupancy=2)"),
        ("Ref[f32, N]", "Ref[f32, B]"),
    ],
)
def test_what_does(digest_of, old, new):
    assert old in ORIGINAL
    assert digest_of(ORIGINAL.replace(old, new)) != digest_of(ORIGINAL)


def test_a_kernel_inside_a_function_and_several_together():
    from tilewright import Mut, f32
    from tilewright.dims import B

    @tw.kernel
    def inner(z: Mut[f32, B]) -> None:
        z.store(tw.zeros((B,), f32))

    @tw.kernel
    def other(z: Mut[f32, B]) -> None:
        z.store(tw.ones((B,), f32))

    assert source_digest(inner) == source_digest(inner.with_hints(occupancy=2))
    assert len({source_digest(inner), source_digest(other), source_digest(inner, other)}) == 3
    assert source_digest(inner, other) == source_digest(other, inner)

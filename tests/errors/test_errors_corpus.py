"""Golden errors: each case defines a kernel that must be refused, and its `.err` says how.

`pytest tests/errors --update-golden` writes the `.err` files; read what changed before you commit.
"""

import re
import runpy
import warnings
from pathlib import Path

import pytest

import tilewright as tw

HERE = Path(__file__).parent
CASES = sorted(path for path in HERE.glob("*/*.py") if not path.name.startswith("_"))

# Words of the compiler that mean nothing to the author of a kernel.
INTERNAL = re.compile(
    r"\b(Value|Operand|\w+Operand|LoadView|StoreView|BoundsCheck|DivisorCheck|LaunchValue|Block\("
    r"|Minted|Static|Unset|Poison|WalkRange|PiecePartition|FloorDiv|CmpI|AddI|NoneType|AST|IR)\b"
    r"|<class |object at 0x|Traceback"
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kernel_is_refused_with_its_message(path, golden, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `n is 1`
        with pytest.raises(tw.TilewrightError) as refusal:
            runpy.run_path(str(path), run_name=path.stem)
    text = f"{type(refusal.value).__name__}\n{refusal.value}\n".replace(f"{path.parent}/", "")
    golden(path.with_suffix(".err"), text)
    assert not INTERNAL.findall(text), "words that only the compiler knows"


def test_every_message_has_a_case():
    left_over = [path for path in HERE.glob("*/*.err") if not path.with_suffix(".py").exists()]
    assert left_over == []

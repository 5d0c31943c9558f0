"""How problems look on the page: every case pins the whole text."""

import ast
from dataclasses import dataclass
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.diagnostics import Label, Problem, Rejected, compile_error, render
from tilewright.errors import CompileError
from tilewright.source import SourceFile, Span, cell_width


@dataclass(frozen=True)
class ForeignIndex(Problem):
    code = "ownership"
    index: str
    owner: str
    target: str
    minted: Span

    @property
    def title(self):
        return (
            f"`{self.index}` was minted by the walk of `{self.owner}` "
            f"and cannot place a tile in `{self.target}`"
        )

    @property
    def label(self):
        return "used here"

    @property
    def others(self):
        return (Label(self.minted, "minted here"),)

    @property
    def helps(self):
        return (f"walk both at once: `for at in {self.owner}.indices_with({self.target}):`",)


@dataclass(frozen=True)
class Told(Problem):
    """A problem whose words are its fields."""

    code = "types"
    words: str = "wrong"
    beside: str = ""
    places: tuple[Label, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def title(self):
        return self.words

    @property
    def label(self):
        return self.beside

    @property
    def others(self):
        return self.places

    @property
    def notes(self):
        return self.remarks


def file_of(text, path="demo.py"):
    return SourceFile(path, tuple(text.split("\n")))


def find(file, text, nth=0):
    """The span of the nth occurrence of a text, columns in bytes."""
    seen = 0
    for number, line in enumerate(file.lines, start=1):
        start = line.find(text)
        while start >= 0:
            if seen == nth:
                column = len(line[:start].encode())
                return Span(file, number, column, number, column + len(text.encode()))
            seen += 1
            start = line.find(text, start + 1)
    raise LookupError(text)


def page(text):
    return dedent(text).strip("\n")


NORMS = file_of(
    "\n" * 23
    + "    for at in a.indices():\n"
    + "        x = 1\n" * 6
    + "        b.store(tile, at)\n",
    "norms.py",
)


def test_two_distant_places_help_and_context():
    problem = ForeignIndex(
        Span(NORMS, 31, 22, 31, 24), "at", "a", "b", minted=find(NORMS, "a.indices()")
    )
    context = "`rms_norm` specialised for f16[?, 4096], called at engine.py:88"
    assert render([problem], context=context) == page(
        """
        error[ownership]: `at` was minted by the walk of `a` and cannot place a tile in `b`
          --> norms.py:31:23
           |
        24 |     for at in a.indices():
           |               ----------- minted here
           ...
        31 |         b.store(tile, at)
           |                       ^^ used here
           |
           = help: walk both at once: `for at in a.indices_with(b):`
           = in: `rms_norm` specialised for f16[?, 4096], called at engine.py:88
        """
    )


def test_one_place_and_no_remarks_ends_with_the_caret():
    file = file_of("y = x.stor(t)")
    assert render([Told(find(file, "stor"), "`x` has no `stor`")]) == page(
        """
        error[types]: `x` has no `stor`
         --> demo.py:1:7
          |
        1 | y = x.stor(t)
          |       ^^^^
        """
    )


def test_labels_on_one_line_neighbouring_lines_and_a_gap_of_one():
    file = file_of("a = zeros(f32)\nb = zeros(f16)\npass\nc = a + b")
    problem = Told(
        find(file, "+"),
        "f32 and f16 do not mix",
        places=(
            Label(Span(file, 4, 8, 4, 9), "f16"),
            Label(Span(file, 4, 4, 4, 5), "f32"),
            Label(find(file, "f16"), "here"),
            Label(find(file, "f32"), "here"),
        ),
    )
    assert render([problem]) == page(
        """
        error[types]: f32 and f16 do not mix
         --> demo.py:4:7
          |
        1 | a = zeros(f32)
          |           --- here
        2 | b = zeros(f16)
          |           --- here
        3 | pass
        4 | c = a + b
          |     - f32
          |       ^
          |         - f16
        """
    )


def test_places_in_another_file_get_their_own_excerpt():
    file, other = file_of("z.store(scale(t))"), file_of("\n\ndef scale(t): ...", "lib.py")
    problem = Told(find(file, "scale(t)"), "no", places=(Label(find(other, "scale"), "defined"),))
    assert render([problem]) == page(
        """
        error[types]: no
         --> demo.py:1:9
          |
        1 | z.store(scale(t))
          |         ^^^^^^^^
         ::: lib.py:3:5
          |
        3 | def scale(t): ...
          |     ----- defined
        """
    )


def test_calls_that_were_inlined_are_listed_innermost_first():
    file = file_of("x.bad")
    callers = file_of("outer(t)\ninner(t)", "k.py")
    problem = Told(
        find(file, "bad"),
        "no",
        remarks=("why",),
        calls=(find(callers, "inner"), find(callers, "outer")),
    )
    assert render([problem], context="`k`") == page(
        """
        error[types]: no
         --> demo.py:1:3
          |
        1 | x.bad
          |   ^^^
          |
          = note: why
          = called from k.py:2:1
          = called from k.py:1:1
          = in: `k`
        """
    )


@pytest.mark.parametrize(
    ("source", "target", "column", "shown", "cells"),
    [
        ('"é漢" + x.bad', "x.bad", 8, '"é漢" + x.bad', 8),
        ("\tx.bad", "x.bad", 2, "    x.bad", 4),
        ("if y:\tx.bad", "x.bad", 7, "if y:   x.bad", 8),
        ("'e\u0301' + bad", "bad", 8, "'e\u0301' + bad", 6),
        ("'\u202e' + bad", "bad", 7, "'�' + bad", 6),
        ("'\x1b[31m' + bad", "bad", 11, "'␛[31m' + bad", 10),
        ("𝒙 = bad", "bad", 5, "𝒙 = bad", 4),
    ],
)
def test_columns_are_characters_in_the_head_and_cells_at_the_caret(
    source, target, column, shown, cells
):
    file = file_of(source)
    _, head, _, line, marks = render([Told(find(file, target))]).split("\n")
    assert head == f" --> demo.py:1:{column}"
    assert line == f"1 | {shown}"
    assert marks == f"  | {' ' * cells}{'^' * len(target)}"


def test_a_wide_word_is_underlined_over_its_whole_width():
    file = file_of("漢字 = 1")
    assert render([Told(find(file, "漢字"))]).endswith("1 | 漢字 = 1\n  | ^^^^")


def test_a_span_over_several_lines_shows_its_first():
    file = file_of("z.store(  \n    a,\n)\n")
    span = Span.of(file, ast.parse("\n".join(file.lines)).body[0])
    assert render([Told(span, beside="this call")]) == page(
        """
        error[types]: wrong
         --> demo.py:1:1
          |
        1 | z.store(
          | ^^^^^^^^ this call
        """
    )


def test_an_empty_span_still_gets_a_caret():
    file = file_of("ab")
    assert render([Told(Span(file, 1, 1, 1, 1))]).endswith("1 | ab\n  |  ^")


def test_a_line_the_file_does_not_have_is_left_out():
    file = file_of("ab")
    problem = Told(Span(file, 9, 2, 9, 4), places=(Label(find(file, "ab"), "seen"),))
    assert render([problem]) == page(
        """
        error[types]: wrong
         --> demo.py:9:1
          |
        1 | ab
          | -- seen
        """
    )
    assert render([Told(Span(file, 9, 2, 9, 4))]) == "error[types]: wrong\n --> demo.py:9:1"


def test_the_margin_fits_the_largest_line_number_of_all_files():
    file, long = file_of("x"), file_of("\n" * 99 + "y", "long.py")
    problem = Told(find(file, "x"), places=(Label(find(long, "y")),), remarks=("n",))
    assert render([problem]) == page(
        """
        error[types]: wrong
           --> demo.py:1:1
            |
          1 | x
            | ^
           ::: long.py:100:1
            |
        100 | y
            | -
            |
            = note: n
        """
    )


def test_remarks_keep_their_lines_and_wrap_only_when_told_to():
    file = file_of("x")
    problem = Told(find(file, "x"), remarks=("one two three four\nfive",))
    assert render([problem]).endswith("  = note: one two three four\n          five")
    assert render([problem], width=20).endswith(
        "  = note: one two\n          three four\n          five"
    )


def test_ten_are_shown_and_the_rest_counted():
    file = file_of("x")
    problems = [Told(find(file, "x"), f"number {n}") for n in range(13)]
    text = render(problems)
    assert text.count("error[types]") == 10
    assert "number 9\n" in text
    assert text.endswith("\n\n… and 3 more")
    assert "more" not in render(problems[:10])


def test_the_same_problem_twice_is_shown_once_in_its_first_place():
    file = file_of("x y")
    first, second = Told(find(file, "x"), "first"), Told(find(file, "y"), "second")
    text = render([first, second, Told(find(file, "x"), "first")])
    assert text == f"{render([first])}\n\n{render([second])}"


def test_the_exception_has_the_text_and_the_problems():
    problem = Told(find(NORMS, "a.indices"), "no")
    error = compile_error([problem], "`k`")
    assert isinstance(error, CompileError)
    assert error.problems == (problem,)
    assert str(error) == render([problem], context="`k`")


def test_rejected_carries_its_problem():
    problem = Told(find(NORMS, "a.indices"), "no")
    with pytest.raises(Rejected, match=r"^no$") as caught:
        raise Rejected(problem)
    assert caught.value.problem is problem


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12),
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=4),
)
def test_the_caret_stands_below_the_first_cell_of_the_name(before, after):
    file = file_of(f"{before}nAmE{after}")
    start = len(before.encode())
    text = render([Told(Span(file, 1, start, 1, start + 4))])
    _, _, _, line, marks = text.split("\n")
    shown_before = line.removeprefix("1 | ").partition("nAmE")[0]
    assert marks.startswith("  | ")
    carets = marks.removeprefix("  | ")
    assert len(carets) - len(carets.lstrip(" ")) == sum(map(cell_width, shown_before))
    assert carets.strip() == "^^^^"

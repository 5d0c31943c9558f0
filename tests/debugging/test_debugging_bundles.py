"""Bundles of failed compilations: written, read, refused if damaged, replayed and reduced."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from debugged_kernels import nameless, row_sums, stops_with_arguments

import tilewright as tw
from tilewright import bytecode
from tilewright.check.placement import Placement
from tilewright.cli import main, repro
from tilewright.errors import InternalError, ToolchainError
from tilewright.frontend.signature.samples import sample_specialization
from tilewright.ir.ops.reduction import Reduce
from tilewright.jit.compile import bundles, compiler
from tilewright.jit.compile.bundles import ASSEMBLER, BadBundle, read_bundle, write_bundle
from tilewright.jit.compile.specialization_data import (
    Unwritten,
    read_specialization,
    specialization_data,
)
from tilewright.settings import Settings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    settings = Settings(bundles=str(tmp_path / "bundles"))
    monkeypatch.setattr(bundles, "current_settings", lambda: settings)
    return tmp_path / "bundles"


def _made_for(kernel, target="sm_90"):
    return sample_specialization(kernel.signature, target, {}, kernel.hints.of(target))


def _assembler_bundle(kernel=row_sums, words="the tool failed"):
    made_for = _made_for(kernel)
    request = kernel._request(made_for, Placement.EARLIEST)
    return write_bundle(request, ASSEMBLER, ToolchainError(words), kernel.specialized(made_for))


def run(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments], prog_name="tilewright")


@pytest.fixture
def failing_tools(monkeypatch):
    """An assembler that fails for every module with a reduction."""

    class Tools:
        version = "13.9.99"

        def assemble(self, data, target, *, opt_level):
            assert (target, opt_level) == ("sm_90", 3)
            functions = bytecode.decode(data).module.functions
            if any(isinstance(op, Reduce) for one in functions for op in one.walk()):
                raise ToolchainError("a reduction is too much")
            return b""

    monkeypatch.setattr(repro, "find_toolchain", Tools)


def test_an_internal_error_writes_a_bundle_and_names_it(folder, monkeypatch):
    def fails(*_, **__):
        raise InternalError("this cannot be")

    monkeypatch.setattr(compiler, "lower_to_tile_ir", fails)
    with pytest.raises(InternalError, match="this cannot be") as raised:
        nameless.observed(None).specialized(_made_for(nameless))
    (made,) = folder.iterdir()
    assert raised.value.__notes__ == [
        f"a bundle of this failure is in {made}: `tilewright repro {made}` replays it"
    ]
    found = read_bundle(made)
    assert (found.fields.kernel, found.fields.stage) == ("nameless", "front end")
    assert found.fields.error == "this cannot be"
    assert "def nameless(z: Mut" in found.source
    assert found.bytecode is None
    assert read_specialization(found.fields.specialisation) == _made_for(nameless)
    assert (made / "replay.py").is_file()
    refused = run("repro", made)
    assert refused.exit_code == 2
    assert "give --run-source if you trust it" in refused.stderr
    replayed = run("repro", made, "--run-source")
    assert replayed.exit_code == 1
    assert "here  InternalError: this cannot be" in replayed.stdout
    monkeypatch.undo()
    mended = run("repro", made, "--run-source", "--json")
    assert mended.exit_code == 0
    assert json.loads(mended.stdout)["here"]["failure"] is None


def test_any_other_exception_of_ours_writes_one_too(folder, monkeypatch):
    def fails(*_):
        raise AssertionError("an invariant")

    monkeypatch.setattr(compiler, "settle_checks", fails)
    with pytest.raises(AssertionError, match="an invariant"):
        nameless.observed(None).specialized(_made_for(nameless))
    assert len(list(folder.iterdir())) == 1


def test_a_refused_kernel_writes_none(folder):
    with pytest.raises(tw.CompileError):
        stops_with_arguments.specialized(_made_for(stops_with_arguments, "cpu"))
    assert not folder.exists()


def test_bundles_may_be_off(monkeypatch):
    for settings in (Settings(bundles="off"), Settings(cache="off")):
        monkeypatch.setattr(bundles, "current_settings", lambda settings=settings: settings)
        assert _assembler_bundle() is None


@pytest.mark.usefixtures("failing_tools")
def test_the_assembler_is_replayed_on_another_checkout(folder, tmp_path):
    made = _assembler_bundle(words="a reduction is too much")
    elsewhere = shutil.copytree(made, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    result = run("repro", elsewhere)
    assert result.exit_code == 1
    assert "then  ToolchainError: a reduction is too much" in result.stdout
    assert "here  ToolchainError: a reduction is too much" in result.stdout
    neighbour = _assembler_bundle(nameless)
    accepted = run("repro", neighbour)
    assert accepted.exit_code == 0
    assert "here  it compiles" in accepted.stdout


@pytest.mark.usefixtures("failing_tools")
def test_a_failure_is_reduced(folder):
    made = _assembler_bundle()
    result = run("repro", made, "--reduce", "--json")
    found = json.loads(result.stdout)["reduced"]
    assert found["ops"] < found["ops_before"] / 2
    module = bytecode.decode(Path(found["bytecode"]).read_bytes()).module
    ops = [op for one in module.functions for op in one.walk()]
    assert any(isinstance(op, Reduce) for op in ops)
    assert "reduce" in Path(found["text"]).read_text()
    assert folder in made.parents


def _change(made, **fields):
    path = made / "bundle.json"
    data = json.loads(path.read_text())
    data.update(fields)
    path.write_text(json.dumps({key: one for key, one in data.items() if one != "gone"}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda made: shutil.rmtree(made),
            "a bundle is the folder that the note of an error names",
        ),
        (lambda made: (made / "bundle.json").write_text("{"), "is damaged"),
        (lambda made: (made / "bundle.json").write_text("[1]"), "is no file of a bundle"),
        (lambda made: (made / "bundle.json").write_text("[" * 100_000), "is damaged"),
        (lambda made: _change(made, format=2, package="9.9"), "replay it with tilewright 9.9"),
        (lambda made: _change(made, target=90), "has no valid `target`"),
        (lambda made: _change(made, error="gone"), "has no valid `error`"),
        (lambda made: _change(made, opt_level=True), "has no valid `opt_level`"),
        (lambda made: _change(made, kernel="a b"), "names no kernel and no stage of ours"),
        (lambda made: _change(made, digests={"../x": "0"}), "names a file elsewhere"),
        (lambda made: _change(made, digests={}), "lists other files"),
        (lambda made: (made / "kernel.tilebc").write_bytes(b"x"), "has been changed"),
        (lambda made: (made / "kernel.py").unlink(), "kernel.py cannot be read"),
    ],
)
def test_damaged_and_foreign_bundles_are_refused(folder, damage, words):
    made = _assembler_bundle()
    damage(made)
    with pytest.raises(BadBundle, match=words):
        read_bundle(made)
    result = run("repro", made)
    assert result.exit_code == 2
    assert words in result.stderr.replace("\n", " ")


@pytest.mark.usefixtures("failing_tools")
def test_bytecode_that_is_no_tile_ir_is_refused(folder):
    made = _assembler_bundle()
    (made / "kernel.tilebc").write_bytes(b"no bytecode")
    _change(made, digests={**json.loads((made / "bundle.json").read_text())["digests"],
                           "kernel.tilebc": bundles._digest(b"no bytecode")})  # fmt: skip
    result = run("repro", made)
    assert result.exit_code == 2
    assert "is no valid Tile IR" in result.stderr


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"Specialization": {}},
        {"open": "/etc/passwd"},
        {"dtype": "f32"},
        {"dtype": "__builtins__"},
        {"float": [1]},
        [[[[[[[[[[[[]]]]]]]]]]]],
    ],
)
def test_data_that_is_no_specialisation_is_refused(data):
    with pytest.raises(Unwritten):
        read_specialization(data)


@pytest.mark.parametrize("kernel", [nameless, row_sums])
def test_a_specialisation_is_read_as_it_was_written(kernel):
    made_for = _made_for(kernel)
    data = json.loads(json.dumps(specialization_data(made_for)))
    assert read_specialization(data) == made_for

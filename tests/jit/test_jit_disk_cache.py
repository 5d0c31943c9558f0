"""Compiled kernels on disk: what is found without the front end, without tileiras, and not at all.

Everything is compiled for sm_90 with tensors that have no memory, so no GPU is needed.
"""

import importlib.util
import itertools
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest
from background_work import finish_background_work

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.backends.cuda import program as assembler
from tilewright.backends.cuda.program import CudaProgram
from tilewright.dims import B, N
from tilewright.errors import DriverError, LaunchError, ToolchainError
from tilewright.frontend.source.captures import CapturePlace, Captures, PlaceKind
from tilewright.jit.cache import disk as disk_cache
from tilewright.jit.cache.fingerprints import Unknown, fingerprint
from tilewright.jit.cache.store import FOLDER
from tilewright.jit.compile import compiler
from tilewright.jit.compile.compiled import CompiledKernel
from tilewright.settings import current_settings

SCALE = 2.0


def scaled(tile, factor=1.0):
    return tile * factor


def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(scaled(x.load_like(z), SCALE))


def pick(z: Mut[f32, B], x: Ref[f32, N], rows: Ref[i32, N]) -> None:
    z.store(x.partition(B)[rows.partition(1)[z.index[0]].item()])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this test's own, whatever earlier tests and editors are still about."""
    finish_background_work()
    monkeypatch.setattr(disk_cache, "package_signature", lambda: "files of ours")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    _forget()
    yield tmp_path / "cache"
    _forget()


def _forget():
    current_settings.cache_clear()
    disk_cache.open_cache.cache_clear()


@pytest.fixture
def counted(monkeypatch):
    """How often the front end and tileiras ran; tileiras itself is a double."""
    finish_background_work()
    counts = {"front end": 0, "tileiras": 0}
    compile_kernel = compiler.compile_kernel

    def compiled(*args):
        counts["front end"] += 1
        return compile_kernel(*args)

    def assembled(module, target, opt_level):
        counts["tileiras"] += 1
        return f"cubin {counts['tileiras']} of {module.functions[0].name}".encode()

    monkeypatch.setattr(compiler, "compile_kernel", compiled)
    monkeypatch.setattr(assembler, "assemble", assembled)
    monkeypatch.setattr(assembler, "tools_version", lambda: "13.4.92")
    return counts


def build(function, *, size=1024, target="sm_90", tile=128, **options):
    """Compile a kernel as a new process would: nothing of it is in memory."""
    kernel = tw.kernel(**options)(function)
    z, x, rows = (tw.meta((size,), kind, target=target) for kind in (f32, f32, i32))
    args = (z.partition(tile), x, rows)[: len(kernel.signature.params)]
    op = kernel(*args)
    try:
        op.compile()
    finally:
        op.close()
    (executable,) = kernel._executables.entries()
    executable.program.result()
    return executable


def test_a_kernel_is_compiled_once(folder, counted):
    first = build(add)
    again = build(add)
    assert counted == {"front end": 1, "tileiras": 1}
    assert again.program.result().cubin == first.program.result().cubin == b"cubin 1 of add"
    assert again.facts.arguments == first.facts.arguments
    assert again.facts.launch_checks == first.facts.launch_checks
    assert again.facts.written_whole == first.facts.written_whole == {"z"}


@pytest.mark.parametrize(
    "other",
    [
        {"target": "sm_100"},
        {"tile": 256},
        {"deny_checks": True},
        {"opt_level": 1},
        {"occupancy": 2},
        {"size": 1022},  # another divisibility
    ],
    ids=str,
)
def test_what_makes_another_kernel(folder, counted, other):
    build(add)
    build(add, **other)
    assert counted["front end"] == 2
    build(add, **other)
    build(add)
    assert counted["front end"] == 2


def test_other_tools_and_another_tilewright_make_another_kernel(folder, counted, monkeypatch):
    build(add)
    changes = (
        (assembler, "tools_signature", "other tools", "tools_version", "13.4.93"),
        (disk_cache, "package_signature", "other files", "package_fingerprint", "another text"),
    )
    for number, (owner, signature, signed, version, value) in enumerate(changes):
        monkeypatch.setattr(owner, signature, lambda signed=signed: signed)
        monkeypatch.setattr(owner, version, lambda value=value: value)
        disk_cache.open_cache.cache_clear()  # as in another process
        build(add)
        build(add)
        assert counted == {"front end": 2 + number, "tileiras": 2}
    monkeypatch.setattr(disk_cache, "package_signature", lambda: "the same, only touched")
    disk_cache.open_cache.cache_clear()
    build(add)
    assert counted == {"front end": 3, "tileiras": 2}


def test_sizes_make_no_other_kernel(folder, counted):
    build(add, size=1024)
    build(add, size=4096)
    assert counted == {"front end": 1, "tileiras": 1}


def test_what_the_kernel_finds_outside_counts(folder, counted, monkeypatch):
    build(add)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    build(add)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}
    monkeypatch.setattr(scaled, "__defaults__", (7.0,))
    build(add)
    assert counted["front end"] == 3
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(tw.CompileError, match="`SCALE` is not defined"):
        build(add)


def doubled(tile):
    return tile * SCALE


WAYS = (scaled, doubled)


def by_number(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(WAYS[1](x.load_like(z)))


def test_functions_of_a_tuple_are_found_again(folder, counted, monkeypatch):
    build(by_number)
    build(by_number)
    assert counted == {"front end": 1, "tileiras": 1}
    monkeypatch.setitem(globals(), "SCALE", 3.0)  # which such a function reads
    build(by_number)
    assert counted["front end"] == 2
    monkeypatch.setitem(globals(), "WAYS", (scaled, scaled))
    build(by_number)
    build(by_number)
    assert counted["front end"] == 3
    monkeypatch.setitem(globals(), "WAYS", (scaled,))
    with pytest.raises(tw.CompileError):
        build(by_number)


def by_segment(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


def test_functions_that_the_front_end_inlines_are_found_again(folder, counted):
    for _ in range(2):
        kernel = tw.kernel(by_segment)
        z, x, offsets = (tw.meta((n,), kind, target="sm_90")
                         for n, kind in ((512, f32), (512, f32), (4, i32)))  # fmt: skip
        op = kernel(z.partition(128, segments=offsets), x)
        op.compile()
        op.close()
    assert counted == {"front end": 1, "tileiras": 1}


def test_a_forged_place_is_refused():
    for kind, name in ((PlaceKind.OURS, "system"), (PlaceKind.ITEM, "0"),
                       (PlaceKind.OURS, "find")):  # fmt: skip
        assert Captures.look_up(add, [CapturePlace(None, kind, name)]) is None


TEXT = """
import tilewright as tw
from tilewright import Mut, Ref, f32
from tilewright.dims import B, N
{between}
def add(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z) {operator} 1)
"""


def _module(path, **parts):
    path.write_text(TEXT.format(**parts))
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(f"text_{next(_numbers)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add


_numbers = itertools.count()


def test_text_that_moved_needs_no_tileiras_and_text_elsewhere_nothing(folder, counted, tmp_path):
    build(_module(tmp_path / "a.py", between="", operator="+"))
    build(_module(tmp_path / "b.py", between="", operator="+"))
    assert counted == {"front end": 1, "tileiras": 1}
    build(_module(tmp_path / "c.py", between="\n\n", operator="+"))
    assert counted == {"front end": 2, "tileiras": 1}
    build(_module(tmp_path / "d.py", between="", operator="-"))
    assert counted == {"front end": 3, "tileiras": 2}


def test_places_in_the_source_are_those_of_the_reader(folder, counted, tmp_path):
    pick_text = TEXT.replace(
        "(z: Mut[f32, B], x: Ref[f32, N])", "(z: Mut[f32, B], x: Ref[f32, N], rows: Ref[tw.i32, N])"
    )
    pick_text = pick_text.replace(
        "x.load_like(z) {operator} 1", "x.partition(B)[rows.partition(1)[0].item()]"
    )
    found = []
    for name in ("a.py", "b.py"):
        path = tmp_path / name
        path.write_text(pick_text.format(between=""))
        spec = importlib.util.spec_from_file_location(f"text_{next(_numbers)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(build(module.add))
    assert counted["front end"] == 1
    paths = [executable.facts.sites[0][0].span.file.path for executable in found]
    assert paths == [str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    lines = [executable.facts.sites[0][0].span.line for executable in found]
    assert lines == [7, 7]
    assert "rows.partition(1)[0]" in found[1].facts.sites[0][0].span.file.line(7)


def test_damaged_files_are_made_again(folder, counted):
    build(add)
    for path in folder.glob(f"{FOLDER}/??/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}


def test_an_entry_whose_code_is_gone_is_made_again(folder, counted):
    first = build(add)
    for path in folder.glob(f"{FOLDER}/??/*"):
        if first.program.result().cubin in path.read_bytes():
            path.unlink()
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}


def test_without_a_folder_everything_works(tmp_path, monkeypatch, counted):
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    _forget()
    build(add)
    build(add)
    assert counted == {"front end": 2, "tileiras": 2}
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(shared))
    _forget()
    with pytest.warns(tw.CacheWarning, match="not kept: .*shared can be written by others"):
        build(add)
    build(add)  # and another time without a word
    assert counted == {"front end": 4, "tileiras": 4}
    assert list(shared.iterdir()) == []
    _forget()


def test_a_failed_assembly_keeps_nothing_and_is_tried_again(folder, counted, monkeypatch):
    def killed(*_):
        raise ToolchainError("tileiras for sm_90 was killed by signal 9")

    good = assembler.assemble
    monkeypatch.setattr(assembler, "assemble", killed)
    for _ in range(2):
        with pytest.raises(ToolchainError, match="signal 9"):
            build(add)
    assert not any(folder.glob(f"{FOLDER}/??/*.part"))
    monkeypatch.setattr(assembler, "assemble", good)
    build(add)
    build(add)
    assert counted == {"front end": 3, "tileiras": 1}


def test_code_that_a_driver_refuses_is_made_anew_once(folder, counted, cuda_on_paper):
    build(add)
    found = build(add)
    assert counted == {"front end": 1, "tileiras": 1}
    program = found.program.result()
    cuda_on_paper.refused.add(program.cubin)
    program.function("add", cuda_on_paper.device)
    assert program.cubin == b"cubin 2 of add"
    assert counted == {"front end": 2, "tileiras": 2}
    cuda_on_paper.refused.add(b"cubin 2 of add")
    again = build(add).program.result()
    cuda_on_paper.refused.add(b"cubin 3 of add")
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_IMAGE"):
        again.function("add", cuda_on_paper.device)
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_IMAGE"):
        CudaProgram(b"cubin 3 of add", ()).function("add", cuda_on_paper.device)


def test_code_of_a_kernel_that_has_changed_meanwhile(folder, counted, cuda_on_paper, monkeypatch):
    build(add)
    program = build(add).program.result()
    cuda_on_paper.refused.add(program.cubin)
    monkeypatch.setattr(CompiledKernel, "content", b"another")
    with pytest.raises(LaunchError, match=r"^add has changed .* was loaded; launch it again$"):
        program.function("add", cuda_on_paper.device)


@pytest.fixture
def cuda_on_paper():
    class Driver:
        def load_kernel(self, cubin, name, waits):
            if cubin in Paper.refused:
                raise DriverError("loading failed: CUDA_ERROR_INVALID_IMAGE")
            return name

        def parameter_sizes(self, kernel):
            return (8, 4, 8, 4)

    class Paper:
        refused: set[bytes] = set()

        class device:
            name = "cuda:0"

            class backend:
                driver = Driver()

    return Paper


def test_values_without_a_text_keep_a_kernel_off_the_disk():
    for value in (1, -0.0, "x", (1, (2.0,)), f32, None, scaled.__code__, tw, tw.zeros, range, len):
        assert fingerprint(value) == fingerprint(value)
    assert fingerprint(0.0) != fingerprint(-0.0)
    assert fingerprint(1) != fingerprint(True) != fingerprint(1.0)
    assert fingerprint((1, 2)) != fingerprint((12,))
    assert fingerprint("\ud800") != fingerprint("\udfff")  # no character, but a string
    with pytest.raises(Unknown):
        fingerprint(object())


def test_places_that_are_not_reached_from_the_kernel_have_no_list():
    captures = Captures()
    captures.helper(scaled)
    assert captures.places(add) is None
    assert captures.places(scaled) is not None


PROCESS = """
import pathlib, sys
import tilewright as tw
from tilewright.backends.cuda import program as assembler
sys.path.insert(0, {tests!r})
from test_jit_disk_cache import add, build
def assembled(module, target, opt_level):
    with open({log!r}, "a") as log:
        log.write("tileiras\\n")
    return b"cubin" * 1000
assembler.assemble = assembled
assembler.tools_version = lambda: "13.4.92"
for size in range(50):
    tile = 1 << (size % 5 + 4)
    assert build(add, tile=tile).program.result().cubin == b"cubin" * 1000
"""


def test_two_processes_compile_the_same_kernels(folder, tmp_path):
    log = tmp_path / "log"
    text = PROCESS.format(tests=str(Path(__file__).parent), log=str(log))
    source = str(Path(tw.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    running = [
        subprocess.Popen([sys.executable, "-c", text], env=environment, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    assert log.read_text().count("tileiras") == 5  # five tiles, one of them each
    assert not any(folder.glob(f"{FOLDER}/??/*.part"))


def test_the_real_tools(folder):
    first = build(add).program.result().cubin
    assert first.startswith(b"\x7fELF")
    assert build(add).program.result().cubin == first

"""The page of results and the figures of the README: what they show, and whether they are new."""

import fnmatch
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("cuda.bindings")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

import attention  # noqa: E402
import cache_hit  # noqa: E402
import cpu_backend  # noqa: E402
import front_end  # noqa: E402
import launch_graphs  # noqa: E402
import launch_rates  # noqa: E402
import matmul  # noqa: E402
import memory_bound  # noqa: E402
import report as report_page  # noqa: E402
import report_readme  # noqa: E402
from paper import elementwise, launched, products  # noqa: E402

from tilewright.bench import (  # noqa: E402
    Bound,
    Comparison,
    Plot,
    Report,
    Series,
    Table,
    Target,
    Timing,
)


def _report(folder: Path) -> dict:
    made = Report("products", "Products", folder / "products.json")
    made.note("How it was measured.")
    made.table(Table("TFLOP/s", ("M = N = K", "cuBLAS"), [("8192", "750")]))
    made.plot(Plot("products", "Products", "size", "TFLOP/s", [Series("safe", [(8192, 765.0)])]))
    made.target(Target("of cuBLAS", Bound.AT_LEAST, 1.02, 1.02))
    made.target(Target("of the twin", Bound.AT_LEAST, 0.997, 0.9))
    rates = {products.LIBRARY: 765.0, products.CUBLAS: 750.0}
    made.figure("products", size=8192, rates=rates, failures={"Triton": "wrong\nby far"})
    return report_page.read_reports(folder)


def _profiles(folder: Path) -> None:
    made = Report("profiles", "Profiles", folder / "profiles.json")
    for size in (1024, 2048):
        made.figure(
            "profiles", target="of the twin", problem=str(size), kernel="gemm", registers=255,
            shared_memory=1000, stack_bytes=8, summary="2 x TMA", remarks=[],
        )  # fmt: skip


def test_the_page_shows_targets_tables_and_reasons(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "ROOT", tmp_path)
    page = report_page.page(_report(tmp_path), {"of the twin": "it spills"})
    assert "## Targets: 1 of 2 met" in page
    assert "| of cuBLAS | at least 1.02 | 1.02 | yes |" in page
    assert "| of the twin | at least 0.997 | 0.9 | **no** |" in page
    assert "- it spills\n    - **of the twin**: 0.9\n" in page
    assert "How it was measured." in page
    assert "- Triton: wrong\n" in page, "what failed is named with the first line of its reason"
    assert "![Products](../" in page
    assert "not yet explained" in report_page.page(_report(tmp_path), {})


def test_a_problem_without_one_of_the_peers_has_its_line(tmp_path):
    report = Report("problems", "Problems", tmp_path / "problems.json")
    table = Table("TB/s", tuple("abcdefghi"))
    problem = SimpleNamespace(name="top_k", title="8 of rows", nbytes=10**9)
    timings = {memory_bound.OURS: (Timing((1.0,)),), memory_bound.TORCH: (Timing((2.0,)),)}
    found = Comparison(memory_bound.OURS, timings, (Timing((1.0,)),), {}, {})
    assert memory_bound.row(table, report, problem, found, copied=1e12) == 2.0
    ours = f"{memory_bound.COUNT * 1e9 / 1e12:.3f}"
    assert table.rows[0][2:6] == (ours, f"{memory_bound.COUNT * 1e9 / 2e12:.3f}", "-", "-")


def test_a_reason_may_stand_under_a_pattern():
    reasons = {"norm, *": "its rows\nare long", "norm, 1024 wide": "its rows are short"}
    assert report_page.reason_for("norm, 4096 wide", reasons) == "its rows are long"
    assert report_page.reason_for("norm, 1024 wide", reasons) == "its rows are short"
    assert report_page.reason_for("softmax", reasons) == "not yet explained"


def test_profiles_stand_below_what_misses_its_target(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "ROOT", tmp_path)
    _profiles(tmp_path)
    page = report_page.page(_report(tmp_path), {})
    line = "`gemm`: 255 registers, 8 bytes of stack, 1000 bytes of shared memory; 2 x TMA"
    assert f"        - {line} (1024, 2048)" in page
    assert list(report_page.read_reports(tmp_path)) == ["products", "profiles"]


def test_host_times_stand_below_launches_that_miss_their_target(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "ROOT", tmp_path)
    made = Report("host_path", "Host", tmp_path / "host_path.json")
    made.figure("host_path", name="prepared", device="null", microseconds=2.5)
    made.figure("host_path", name="prepared", device="cuda", microseconds=6.5)
    what = launch_rates.target_name(launch_rates.OURS)
    made.target(Target(what, Bound.AT_MOST, 2.0, 2.7, "us"))
    page = report_page.page(report_page.read_reports(tmp_path), {})
    own = "        - host time with a driver that does nothing: 2.50 us ("
    assert f"- not yet explained\n    - **{what}**: 2.7 us\n{own}" in page
    assert "        - host time on the GPU: 6.50 us" in page


def test_the_readme_quotes_the_reports(tmp_path):
    text = f"before\n{report_readme.BEGIN}\nold\n{report_readme.END}\nafter\n"
    new = report_readme.readme_with(text, _report(tmp_path))
    row = "| f16 product of 8192 x 8192 matrices | 765 TFLOP/s | cuBLAS: 750 | 1.020 |"
    assert row in new
    assert "old" not in new
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert report_readme.readme_with(text, {}) == text
    assert report_readme.readme_with("no marks", _report(tmp_path)) == "no marks"


def test_launches_are_quoted_beside_each_peer():
    done = {launch_rates.OURS: 6e-6, launch_rates.CUTILE: 9e-6}
    figures = {
        "rates": [{"failures": {"Triton": "not there"}}]
        + [{"name": name, "done": {"least": least}} for name, least in done.items()],
        "graphs": [
            {"name": name, "tensors": 3, "nodes": 100, "done": {"least": 1e-4}}
            for name in ("ours", "driver")
        ],
    }
    text = f"{report_readme.BEGIN}{report_readme.END}"
    machine = {"gpus": [], "processor": "none", "date": "2000-01-01T00:00"}
    reports = {
        "products": {"machine": machine, "figures": {"products": []}},
        "launch": {"figures": figures},
    }
    new = report_readme.readme_with(text, reports)
    cutile = "cuTile Python, ct.launch: 9.0"
    assert f"| a launch, all checks on | 6.0 us | {cutile} | 1.50 |" in new
    assert "| a launch in a graph, over 3 tensors | 1.00 us | driver: 1.00 | 1.00 |" in new


def test_the_cpu_is_quoted_beside_the_interpreter(tmp_path):
    def timed(name: str, ours: float, peer: float | None) -> dict:
        one = cpu_backend.Workload(name, "small", lambda: None, None)
        one.plain, one.watched, one.of_numpy = [ours], [2 * ours], [ours / 2]
        return cpu_backend.row(one, peer and {"seconds": {name: [peer]}})

    rows = [timed("add", 0.01, 3.0), timed("gemm", 0.02, 2.0), timed("other", 0.5, None)]
    peer = {"versions": {"triton": "3"}}
    data = cpu_backend.report_of(rows, peer, tmp_path / "cpu_backend.json").data
    (row,) = report_readme._cpu(data["figures"])
    words = ("without a GPU: add, gemm", "10 to 20 ms", "Triton's interpreter: 2.0 to 3.0 s")
    assert row == (*words, "100 to 300")
    assert [target["measured"] for target in data["targets"]] == [300, 2, 100, 2, 2, 2]
    assert all(target["is_met"] for target in data["targets"])
    assert data["tables"][0]["rows"][2][:4] == ("other, small", "", "500.0", "")


def test_the_committed_page_is_what_the_reports_say():
    """Whoever changes a report or the script runs `python benchmarks/report.py`."""
    for path, text in report_page.written():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date"


def test_plots_that_are_shown_are_small():
    for report in report_page.read_reports().values():
        for plot in report["plots"]:
            for form in ("png", "svg"):
                path = report["folder"] / f"{plot['name']}.{form}"
                assert path.stat().st_size < 100_000, f"{path} is too large for a page"


def test_reasons_stand_under_the_words_of_their_targets():
    """A target that is put in other words would lose its reason."""
    reasons = report_page.tomllib.loads(report_page.REASONS.read_text(encoding="utf-8"))
    launches = {launch_rates.target_name(name) for name in launch_rates.ALLOWED}
    replays = {launch_graphs.target_name(count) for count in (3, 3 * launch_graphs.NODES)}
    assert launches | replays <= reasons.keys()
    kernels = {products.ALL, products.LARGE, products.TWIN, matmul.DECODED, matmul.PREFILLED}
    kernels |= {*launched.TARGETS.values()}
    kernels |= {
        attention.target_name(kind, channels)
        for kind in ("full", "causal") for channels in (64, 128)
    }  # fmt: skip
    embedding = SimpleNamespace(name="embedding", title="16384 x 2560")
    others = {memory_bound.target_name(embedding), memory_bound.MEAN, elementwise.BESIDE_TORCH}
    others |= {front_end.target_name("gemm"), front_end.IMPORT, cache_hit.HIT}
    others |= {launch_rates.BESIDE_CUTILE, *launched.TARGETS.values()}
    reported = {
        target["what"]
        for report in report_page.read_reports().values()
        for target in report["targets"]
    }
    known = launches | replays | kernels | others | reported
    for words in reasons:
        assert fnmatch.filter(known, words), f"no target has these words: {words}"

"""`benches/report.py` publishes medians of enough turns, and only those of a quiet machine."""

import argparse
import subprocess
import sys
from dataclasses import asdict
from xml.etree import ElementTree

import noise
import picture
import pytest
import report
from figure import Figure, alternate
from noise import MOST_LOAD, MOST_SPREAD, Noise
from pyspark import cloudpickle

TURNS = [1.0, 9.0, 2.0, 3.0, 2.5]
ROW = Figure("puts", "a peer", TURNS, ">= 2", "throughput", "1 s against 2 s", "no WAL, LZ4")

SVG = "{http://www.w3.org/2000/svg}"
STATS = {"min": 1e-6, "median": 2e-6, "max": 9e-6, "rounds": 7}


@pytest.fixture
def no_bench(monkeypatch):
    """Runs `report.py` with the noise that is given; fails if it measures any bench."""

    def run(found, *arguments):
        monkeypatch.setattr(noise, "measured", lambda: found)
        monkeypatch.setattr(report, "measure_all", lambda _: pytest.fail("a bench ran"))
        monkeypatch.setattr(sys, "argv", ["report.py", *arguments])
        return report.main()

    return run


def test_a_figure_is_the_median_of_its_turns_with_their_range():
    assert ROW.ratio == 2.5
    assert ROW.spread == "1.00 to 9.00, 5 turns"
    assert ROW.is_met


def test_a_row_says_the_range_and_the_settings_of_both_sides():
    (row,) = report.table([ROW])[2:]
    assert row == (
        "| puts | a peer | **2.50** | 1.00 to 9.00, 5 turns | throughput | >= 2 | yes "
        "| no WAL, LZ4 | 1 s against 2 s |"
    )


def test_a_figure_that_could_not_be_taken_has_no_median():
    missing = Figure("puts", "a peer", [], ">= 2", "throughput", "no redis-server")
    report.check_turns([missing])
    assert (missing.ratio, missing.spread, missing.is_met) == (None, "", None)


def test_a_figure_of_four_turns_is_not_published():
    report.check_turns([ROW])
    with pytest.raises(ValueError, match="puts: 4 turns, fewer than 5"):
        report.check_turns([ROW, Figure("puts", "a peer", TURNS[:4], "", "time")])


def test_both_sides_take_turns_in_alternating_order():
    taken = []

    def side(name, seconds):
        return lambda: taken.append(name) or seconds

    turns, note = alternate(side("a", 3.0), side("b", 2.0), 3)
    assert turns == [1.5, 1.5, 1.5]
    assert note == "3.000 s against 2.000 s"
    assert "".join(taken) == "abbaab"


@pytest.mark.parametrize(
    "loud",
    [Noise(MOST_LOAD + 0.01, 0.02, 0.0), Noise(0.0, 0.02, MOST_SPREAD + 0.01)],
    ids=["load", "spread"],
)
def test_a_loud_machine_measures_nothing(no_bench, loud, capsys):
    assert no_bench(loud) == 1
    assert "too loud" in capsys.readouterr().err


def test_the_results_are_not_written_by_a_part_of_the_benches(no_bench):
    quiet = Noise(0.0, 0.02, 0.0)
    with pytest.raises(SystemExit):
        no_bench(quiet, "--only", "rust", "--output", str(report.HERE / "RESULTS.md"))


def test_a_failed_source_hides_no_other(monkeypatch, capsys):
    monkeypatch.setattr(report, "modules", lambda _: [])
    monkeypatch.setattr(report, "rust_figures", lambda quick: [ROW])
    monkeypatch.setattr(report, "benchmarks", lambda files, quick: ([], True))
    results = report.measure_all(argparse.Namespace(only="", quick=False))
    assert results.ours == [ROW]
    assert results.failed


def test_a_source_that_raises_hides_no_other(monkeypatch, capsys):
    def fails(quick):
        raise OSError("no disk")

    bench = {"name": "test_puts", "extra_info": {"figure": asdict(ROW)}, "stats": STATS}
    monkeypatch.setattr(report, "modules", lambda _: [])
    monkeypatch.setattr(report, "rust_figures", fails)
    monkeypatch.setattr(report, "benchmarks", lambda files, quick: ([bench], False))
    results = report.measure_all(argparse.Namespace(only="", quick=False))
    assert [figure.measured for figure in results.ours] == ["rust", ROW.measured]
    assert results.failed
    assert "no disk" in capsys.readouterr().err


def test_a_bench_module_may_have_dataclasses(tmp_path, monkeypatch):
    module = tmp_path / "of_dataclasses.py"
    module.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Query:\n"
        "    what: str\n"
        "def figures(*, quick):\n"
        "    return [Query('a join')]\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    assert report.python_figures(module, quick=True)[0].what == "a join"


def test_functions_of_a_bench_module_are_pickled_by_value(tmp_path, monkeypatch):
    module = tmp_path / "of_functions.py"
    module.write_text("def same(x):\n    return x\ndef figures(*, quick):\n    return [same]\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    (function,) = report.python_figures(module, quick=True)
    program = f"import pickle; print(pickle.loads({cloudpickle.dumps(function)!r})(7))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("7\n", "")


def test_a_benchmark_is_a_figure_or_a_call(monkeypatch, capsys):
    call = {"name": "test_scan", "extra_info": {}, "stats": STATS}
    figure = {"name": "test_puts", "extra_info": {"figure": asdict(ROW)}, "stats": STATS}
    monkeypatch.setattr(report, "benchmarks", lambda files, quick: ([call, figure], False))
    results = report.measure_all(argparse.Namespace(only="python/test_stores", quick=False))
    assert results.ours == [ROW]
    assert not results.failed
    assert report.calls(results.calls)[-2] == "| scan | 2.0 µs | 1.0 to 9.0, 7 turns | 500,000 |"


def main_rows():
    """A figure for each row of the picture: all twice as fast, but the first, which is slower."""
    return [
        Figure(
            f"{main.measured} …",
            f"{main.against} …",
            [0.4, 0.5, 0.8] if number else [4.0],
            ">= 1",
            "time",
        )
        for number, main in enumerate(picture.MAINS)
    ]


def test_the_picture_shows_how_many_times_as_fast_the_main_rows_are():
    drawn = picture.svg([ROW, *main_rows()], "a machine of <2 cores>")
    texts = [text.text for text in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert texts[1] == "a machine of <2 cores>"
    assert texts[2:4] == [picture.MAINS[0].label, "0.25x"]
    assert texts.count("2x") == len(picture.MAINS) - 1
    assert picture.missing(main_rows()) == []


def test_a_main_row_that_was_not_measured_is_named():
    rows = main_rows()[1:]
    assert picture.missing(rows) == [picture.MAINS[0].label]
    assert picture.MAINS[0].label not in picture.svg(rows, "")


def test_a_whole_run_writes_the_results_and_the_picture(monkeypatch, tmp_path):
    monkeypatch.setattr(noise, "measured", lambda: Noise(0.0, 0.02, 0.0))
    monkeypatch.setattr(report, "machine", lambda: "a machine")
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["report.py"])
    monkeypatch.setattr(report, "measure_all", lambda _: report.Results(main_rows()))
    assert report.main() == 0
    assert f"| {picture.MAINS[0].measured} …" in (tmp_path / "RESULTS.md").read_text()
    ElementTree.parse(tmp_path / "RESULTS.svg")
    monkeypatch.setattr(report, "measure_all", lambda _: report.Results(main_rows()[1:]))
    assert report.main() == 1

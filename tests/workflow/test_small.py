"""Progress, work in the background, two columns."""

from __future__ import annotations

import threading
import time

import pytest

from kgen.cli import progress as shown
from kgen.cli.console import columns
from kgen.workflow.background import Background
from kgen.workflow.side_by_side import side_by_side

TRITON = """\
def f(x):
    # [s1] y = x  (load)
    y = tl.load(x + a_rather_long_name_of_an_offset + another_rather_long_name)
    # [s1] y = x  (store)
    tl.store(y)
"""
CUDA = """\
void f(float* x) {
    // [s1] y = x  (load)
    float y = *x;
    // [s1] y = x  (store)
    *x = y;
}
"""


def test_columns_keep_to_the_width_and_lose_nothing() -> None:
    lines = [line for _, line in side_by_side(TRITON, CUDA, 80)]
    assert max(map(len, lines)) <= 80
    left = "".join(line[:38] for line in lines if line[38:40] == " |")
    right = "".join(line[41:] for line in lines if line[38:40] == " |")
    for text, column in ((TRITON, left), (CUDA, right)):
        code = [x for x in text.splitlines() if "[s1]" not in x]
        assert "".join("".join(x.split()) for x in code) in column.replace(" ", "")


def test_a_label_stands_above_both_sides() -> None:
    lines = [line for _, line in side_by_side(TRITON, CUDA, 80)]
    at = lines.index("[s1] y = x  (store)")
    assert lines[at + 1].split(" | ") == [f"{'tl.store(y)':38}", "*x = y;"]


def test_short_stages_are_silent_and_long_ones_speak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shown, "PATIENCE", 0.05)
    with shown.progress() as progress:
        progress.stage("short")
        progress.stage("long", 3)
        time.sleep(0.3)
        progress.stage("last")
    time.sleep(0.1)
    assert capsys.readouterr().err == "long (3)\n"


def test_steps_are_counted_aloud_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown.Lines()
    lines.stage("work", 3)
    lines.step("one")
    monkeypatch.setattr(shown, "PAUSE", 0.0)
    lines.step("two")
    lines.close()
    assert capsys.readouterr().err == "  2 of 3: two\n"


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns([("a", "bb"), ("ccc", "")], " ") == [" a    bb", " ccc"]


def test_work_in_the_background_gives_its_answer_or_its_error() -> None:
    gate = threading.Event()
    work = Background(lambda: gate.wait(5))
    assert not work.done
    gate.set()
    assert work.result()
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 // 0).result()

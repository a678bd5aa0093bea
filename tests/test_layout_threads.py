"""Thread maps in the layout algebra say the same as their own formulas."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.layout import AxisLayout, ThreadGroup, ThreadMap
from kgen.layout_draw import draw_text
from kgen.layout_threads import axis_registers, held
from kgen.layout_tuple import LayoutError

few = st.sampled_from([1, 2, 4])


@st.composite
def thread_maps(draw: st.DrawFn) -> ThreadMap:
    """Return a map of axes m and n, each over some coordinates of its group, in a block with copies."""
    tx, ty = draw(st.sampled_from([1, 4, 8])), draw(st.sampled_from([1, 2, 8]))
    groups = ThreadGroup("tx", tx, 1, ("n",)), ThreadGroup("ty", ty, tx, ("m",))

    def axis(name: str, group: str, count: int) -> AxisLayout:
        used = draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= count]))
        vector = draw(few)
        return AxisLayout(name, used * vector * draw(st.integers(1, 3)), group, used, vector)

    return ThreadMap(tx * ty * draw(few), groups, {"m": axis("m", "ty", ty), "n": axis("n", "tx", tx)})


@settings(max_examples=60, deadline=None)
@given(thread_maps())
def test_values_of_two_axes(threads: ThreadMap) -> None:
    fragment = held(threads, ("m", "n"))
    m, n = threads.axes["m"], threads.axes["n"]
    assert (fragment.rows, fragment.cols, fragment.threads) == (m.size, n.size, threads.threads)
    assert fragment.copies == threads.copies(("m", "n"))
    for t, i, j in product(range(threads.threads), range(m.registers), range(n.registers)):
        assert fragment.element(t, j + n.registers * i) == (threads.element("m", t, i), threads.element("n", t, j))


@settings(max_examples=40, deadline=None)
@given(thread_maps(), st.sampled_from(["m", "n"]))
def test_values_of_one_axis(threads: ThreadMap, axis: str) -> None:
    fragment = held(threads, (axis,))
    for t, i in product(range(threads.threads), range(threads.axes[axis].registers)):
        assert fragment.element(t, i) == (0, threads.element(axis, t, i))
        assert axis_registers(threads.axes[axis])(i) == threads.axes[axis].element(0, i)


def test_a_thread_map_is_drawn() -> None:
    threads = ThreadMap(8, (ThreadGroup("tx", 4, 1, ("n",)),), {"n": AxisLayout("n", 16, "tx", 4, 2)})
    assert draw_text(held(threads, ("n",))) == (
        "[n]: 1 x 16, 8 threads x 4 values, 2 copies of each (the first is shown)\n"
        "         0        2        4        6        8       10       12       14\n"
        "0  T0 v0-1  T1 v0-1  T2 v0-1  T3 v0-1  T0 v2-3  T1 v2-3  T2 v2-3  T3 v2-3\n"
        "  (thread, value) -> row + 1 col: ((4,2),(2,2)):((2,0),(1,8))\n"
    )


def test_values_that_make_no_table_are_refused() -> None:
    group, axis = ThreadGroup("tx", 4, 1, ("n",)), AxisLayout("n", 16, "tx", 4, 2)
    with pytest.raises(LayoutError, match="one or two axes"):
        held(ThreadMap(8, (group,), {"n": axis}), ())
    with pytest.raises(LayoutError, match="12 threads"):
        held(ThreadMap(12, (group,), {"n": axis}), ("n",))

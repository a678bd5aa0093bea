"""The context of CUDA text: names, scopes, thread coordinates, and passes over the registers of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgen.emit.cuda_expr import CudaPrinter
from kgen.emit.names import RESERVED, Names, names_of, whole_axes
from kgen.emit.printer import Text
from kgen.ir import Kernel
from kgen.layout import AxisLayout, ThreadGroup, ThreadMap
from kgen.terms import Expr, Get, Param, Pos, Size, Start, Var

SUM, PRODUCT = 10, 11  # precedences of the table of functions
INDENT = "    "
SHORT = 88  # longest loop on one line, without its indentation
_VOCABULARY = frozenset(
    re.findall(
        r"\w+",
        """ldg ldg_if ldg_vec ldg_vec_if ldg_head stg stg_if stg_vec stg_vec_if stg_head lds sts lds_vec sts_vec vec kg
        u16 u32 u64 f32 f64 sync_threads sync_warp shfl_xor shfl_down shfl_idx ballot any_sync all_sync to_f32 from_f32
        cp_async4 cp_async8 cp_async16 cp_async16_head cp_async_commit cp_async_wait copy_async copy_head swizzled
        ldmatrix_x4 ldmatrix_x4_trans mma_m16n8k16 mma_add pack2 lane convert ex2 lg2 max_nan min_nan max_num min_num
        ceil_div atomic_add atomic_max atomic_min INF QUIET_NAN NAN
        smem warpSize turn first bit warp item j u exp log sqrt sin cos erf tanh floor ceil fabs fmaf fma pow""",
    )
)


class Scope:
    """Identifiers in use, innermost block last."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.blocks = [set(taken) | RESERVED | _VOCABULARY]

    def give(self, preferred: str) -> str:
        """Declare a name in the innermost block and return it, changed if it is visible already."""
        name, number = preferred, 1
        while any(name in block for block in self.blocks):
            number += 1
            name = f"{preferred}_{number}"
        self.blocks[-1].add(name)
        return name

    def open(self) -> None:
        self.blocks.append(set())

    def close(self) -> None:
        self.blocks.pop()


def cuda_names(kernel: Kernel) -> Names:
    """Return the names that all languages share, changed only where CUDA or kgen.cuh own a name."""

    def fixed(table: Mapping[str, str]) -> dict[str, str]:
        return {key: f"{name}_" if name in _VOCABULARY else name for key, name in table.items()}

    names = names_of(kernel)
    return Names(*(fixed(t) for t in (names.arguments, names.constants, names.position, names.start, names.values)))


@dataclass(frozen=True)
class FragmentOrder:
    """A value held in one flat array: 64 rows after 64 rows, in them 8 columns after 8 columns, each 2 rows of 2."""

    row: str
    col: str


@dataclass(frozen=True)
class Context:
    """All that is fixed while one kernel is printed."""

    kernel: Kernel
    map: ThreadMap
    names: Names
    scope: Scope
    group_names: dict[str, str]
    index_names: dict[str, str]
    fragments: Mapping[str, FragmentOrder] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, threads: ThreadMap, fragments: Mapping[str, FragmentOrder] | None = None) -> Context:
        names = cuda_names(kernel)
        tables = (names.arguments, names.constants, names.position, names.start, names.values)
        scope = Scope(name for table in tables for name in table.values())
        groups = {g.name: scope.give(g.name) for g in threads.groups}
        index = {a: scope.give(f"i_{a}") for a in kernel.tile_axes}
        return cls(kernel, threads, names, scope, groups, index, fragments or {})

    def whole(self, axis: str) -> bool:
        """Return whether a tile axis starts at 0, so that offset and position are one."""
        return axis in whole_axes(self.kernel)

    def value(self, var: Var) -> str:
        return self.names.values[var.name]

    def held_dims(self, axes: Iterable[str]) -> list[str]:
        """Return the axes of a value that have more than one register a thread."""
        return [a for a in axes if self.map.axes[a].registers > 1]

    def declaration(self, var: Var) -> str:
        """Return the declarator of a register value, such as `float s[4][8]`."""
        if var.name in self.fragments:
            return f"{var.dtype.cuda} {self.value(var)}[{self.map.registers(var.axes)}]"
        dims = "".join(f"[{self.map.axes[a].registers}]" for a in self.held_dims(var.axes))
        return f"{var.dtype.cuda} {self.value(var)}{dims}"

    def coordinate(self, group: ThreadGroup, threads: int) -> Text:
        """Return a thread's coordinate among the first `threads` of its group."""
        name = self.group_names[group.name]
        if threads == 1:
            return Text("0")
        return Text(name) if threads == group.count else Text(f"{name} % {threads}", PRODUCT)

    def owner(self, axes: Iterable[str]) -> list[str]:
        """Return the conditions for one thread to speak for each element of a value with these axes."""
        held = tuple(axes)
        if self.map.copies(held) == self.map.threads:
            return ["threadIdx.x == 0"]
        conditions = []
        for group in self.map.groups:
            used, name = self.map.used(group, held), self.group_names[group.name]
            if used < group.count:
                conditions.append(f"{name} == 0" if used == 1 else f"{name} < {used}")
        if self.map.spare > 1:
            conditions.append(f"threadIdx.x < {self.map.threads // self.map.spare}")
        return conditions

    def scalar(self, e: Expr) -> str:
        """Return the text of a scalar expression."""
        return Nest(self, ()).text(e)


def element_text(layout: AxisLayout, thread: Text, index: str, width: int) -> str:
    """Return the element that register `index` holds; `index` counts registers in steps of `width`."""
    run, step = layout.vector, layout.threads * layout.vector
    register = index if width == 1 else f"{index} * {width}"
    at = f"({thread.code})" if thread.prec < PRODUCT else thread.code
    if layout.between > 1:
        return _between_text(layout, at, index)
    if layout.threads == 1:
        return register
    if run == layout.registers:
        return f"{at} * {run} + {register}" if run > 1 else thread.code
    if run == 1:
        return f"{thread.code} + {step} * {index}"
    if run == width:
        return f"({thread.code} + {layout.threads} * {index}) * {run}"
    first = f"{index} / {run}" if width == 1 else f"{register} / {run}"
    return f"{first} * {step} + {at} * {run} + {register} % {run}"


def _between_text(layout: AxisLayout, at: str, index: str) -> str:
    """Return the element where registers lie between the lanes' coordinates and the warps'."""
    near, between = layout.near, layout.between
    terms = [f"{at} / {near} * {near * between}", f"{at} % {near}"]
    if layout.registers == between:
        terms.insert(1, f"{index} * {near}")
    else:
        terms[:1] = [f"{index} / {between} * {layout.threads * between}", terms[0], f"{index} % {between} * {near}"]
    return " + ".join(terms)


@dataclass
class Nest:
    """A pass over the registers of a value: an unrolled loop for each axis with more than one register a thread.

    `widths` gives axes walked several registers at a time; a register is then `index * width + within`, with `within`
    the name of a loop over the width, if one is open. A pass inside another leaves the other's axes to `parent`.
    """

    context: Context
    axes: tuple[str, ...]
    widths: Mapping[str, int] = field(default_factory=dict)
    parent: Nest | None = None

    def __post_init__(self) -> None:
        self.printer = CudaPrinter(self._leaf)
        self.offsets: set[str] = set()
        self.positions: set[str] = set()
        self.within: dict[str, str] = {}
        self.index = self.context.index_names

    def text(self, e: Expr, need: int = 0) -> str:
        return self.printer.text(e, need)

    def register(self, axis: str) -> str:
        """Return the register index of an axis in this pass."""
        if self.parent is not None and axis not in self.axes:
            return self.parent.register(axis)
        width, within = self.widths.get(axis, 1), self.within.get(axis, "0")
        if width == 1:
            return self.index[axis]
        if self.context.map.axes[axis].registers == width:
            return within
        return f"{self.index[axis]} * {width}" + ("" if within == "0" else f" + {within}")

    def at(self, var: Var) -> str:
        """Return the register of a value in this pass."""
        order = self.context.fragments.get(var.name)
        if order is not None:
            return f"{self.context.value(var)}[{self._fragment_index(order)}]"
        dims = self.context.held_dims(var.axes)
        return self.context.value(var) + "".join(f"[{self.register(a)}]" for a in dims)

    def _fragment_index(self, order: FragmentOrder) -> str:
        row, col = self.register(order.row), self.register(order.col)
        axes, within = self.context.map.axes, self.within.get(order.col, "0")
        pair = f"({col})" if " " in col else col
        terms = [f"{pair} / 2 * 4", f"{row} * 2", f"{pair} % 2"]
        if self.widths.get(order.col) == 2:
            terms = [f"{self.index[order.col]} * 4", f"{row} * 2", *([] if within == "0" else [within])]
        if axes[order.row].registers > 2:
            terms[1:2] = [f"{row} / 2 * {axes[order.col].registers * 2}", f"{row} % 2 * 2"]
        return " + ".join(terms)

    def offset(self, axis: str) -> Text:
        """Return the place of the current element in its tile."""
        if self.parent is not None and axis not in self.axes:
            return self.parent.offset(axis)
        if self._loops(axis) and self._element(axis).code != self.index[axis]:
            self.offsets.add(axis)
            return self._stepped(Text(self.context.names.values[f"off.{axis}"]), axis)
        return self._stepped(self._element(axis), axis)

    def position(self, axis: str) -> Text:
        """Return the place of the current element along its axis."""
        if self.parent is not None and axis not in self.axes:
            return self.parent.position(axis)
        names = self.context.names
        if self.context.whole(axis):
            return self.offset(axis)
        if self._loops(axis):
            self.positions.add(axis)
            return self._stepped(Text(names.position[axis]), axis)
        place = self._element(axis)
        start = names.start[axis]
        whole = Text(start) if place.code == "0" else Text(f"{start} + {place.code}", SUM)
        return self._stepped(whole, axis)

    def _stepped(self, place: Text, axis: str) -> Text:
        within = self.within.get(axis, "0")
        if within == "0":
            return place
        return Text(f"{place.code} + {within}", SUM) if place.code != "0" else Text(within)

    def _loops(self, axis: str) -> bool:
        return self.context.map.axes[axis].registers > self.widths.get(axis, 1)

    def _element(self, axis: str) -> Text:
        layout = self.context.map.axes[axis]
        thread = self.context.coordinate(self.context.map.group_of(axis), layout.threads)
        width = self.widths.get(axis, 1)
        if layout.registers == 1:
            return thread
        index = self.index[axis]
        if layout.registers == width:
            at = thread.code if thread.prec >= PRODUCT else f"({thread.code})"
            return Text(f"{at} * {width}", PRODUCT) if layout.threads > 1 else Text("0")
        return Text(element_text(layout, thread, index, width), SUM)

    def _leaf(self, e: Expr) -> Text:
        names = self.context.names
        match e:
            case Pos(axis=axis) if axis in self.context.kernel.tile_axes:
                return self.position(axis)
            case Pos(axis=axis):
                return Text(names.position[axis])
            case Start(axis=axis):
                return Text("0") if self.context.whole(axis) else Text(names.start[axis])
            case Size(name=name) | Param(name=name):
                return Text(names.size(name))
            case Get(var=var) if var.name.startswith("off."):
                return self.offset(var.name.removeprefix("off."))
            case Get(var=var) if var.name.startswith("grid."):
                return Text(names.values[var.name])
            case Get(var=var):
                return Text(self.at(var))
            case _:
                raise TypeError(f"no CUDA text for {type(e).__name__}")

    def lines(self, body: list[str]) -> list[str]:
        """Return the loops around `body`, with the offsets and positions that its text uses."""
        for axis in reversed([a for a in self.axes if self._loops(a)]):
            count = self.context.map.axes[axis].registers // self.widths.get(axis, 1)
            body = unrolled(self.index[axis], count, [*self._places(axis), *body])
        return body

    def _places(self, axis: str) -> list[str]:
        names = self.context.names
        lines = []
        if axis in self.offsets:
            lines.append(f"const int {names.values[f'off.{axis}']} = {self._element(axis).code};")
        if axis in self.positions:
            place = names.values[f"off.{axis}"] if axis in self.offsets else self._element(axis).code
            lines.append(f"const int {names.position[axis]} = {names.start[axis]} + {place};")
        return lines


def indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line if line else line for line in lines]


def unrolled(index: str, count: int, body: list[str], step: int = 1, first: int = 0) -> list[str]:
    """Return an unrolled loop over first <= index < count."""
    move = f"++{index}" if step == 1 else f"{index} += {step}"
    return block(f"KG_UNROLL for (int {index} = {first}; {index} < {count}; {move})", body)


def block(head: str, body: list[str]) -> list[str]:
    """Return a loop or condition: one line if its body is a short statement, else a braced block."""
    if len(body) == 1 and len(head) + 1 + len(body[0]) <= SHORT:
        return [f"{head} {body[0]}"]
    return [head + " {", *indented(body), "}"]


def byte_address(base: str, terms: list[str], itemsize: int) -> str:
    """Return the address of the element whose number is the sum of `terms`."""
    if not terms:
        return base
    whole = " + ".join(terms)
    if itemsize == 1:
        return f"{base} + {whole}"
    return f"{base} + {f'({whole})' if ' + ' in whole else whole} * {itemsize}"

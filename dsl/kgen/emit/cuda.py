"""Planned kernels as one CUDA file. The template holds the frame; every statement is printed here, from the plan."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgen.emit.cuda_body import Body
from kgen.emit.cuda_fold import Merge, merge_of
from kgen.emit.cuda_mma import MMA_ADD, SWIZZLE, lane_line
from kgen.emit.cuda_mma_ring import COPY_ASYNC, COPY_HEAD
from kgen.emit.cuda_scope import Context, indented
from kgen.emit.cuda_wgmma import SPANNED, fragment_orders
from kgen.emit.cuda_wrap import wrapped
from kgen.emit.grid import decode
from kgen.emit.header import Header
from kgen.emit.names import constant_values
from kgen.emit.render import render
from kgen.ir import Combine, Kernel, Program, Store
from kgen.layout import ThreadGroup
from kgen.schedule import Plan
from kgen.schedule_homes import operations
from kgen.schedule_steps import Memory, SharedTile, all_steps, writes
from kgen.terms import Expr, Get, Pos, Start

LINE = 110
SM_REGISTERS = 1 << 16
OTHER_REGISTERS = 96  # fragments, addresses and indices beside the accumulators of a thread

# A bit pattern is the one form that nvcc, NVRTC and g++ all take without further headers.
FLOATS = {
    "INF": "constexpr float INF = __builtin_bit_cast(float, 0x7f800000);",
    "QUIET_NAN": "constexpr float QUIET_NAN = __builtin_bit_cast(float, 0x7fc00000);",
}

HEAD_LOAD = """
// The N elements at p of which the first `valid` exist, zero for the others: one access where all exist.
template <int N, class T>
KG_DEVICE vec<T, N> ldg_head(const T* p, int valid) {
    if (valid >= N) return ldg_vec<N>(p);
    vec<T, N> out;
    KG_UNROLL for (int j = 0; j < N; ++j) out[j] = ldg_if(p + j, j < valid);
    return out;
}"""

HEAD_STORE = """
// Stores the first `valid` of N elements to p: one access where all exist.
template <int N, class T>
KG_DEVICE void stg_head(T* p, const vec<T, N>& v, int valid) {
    if (valid >= N) return stg_vec(p, v);
    KG_UNROLL for (int j = 0; j < N; ++j) stg_if(p + j, v[j], j < valid);
}"""

HELPERS = {
    "ldg_head": HEAD_LOAD,
    "stg_head": HEAD_STORE,
    "swizzled": SWIZZLE,
    "spanned": SPANNED,
    "copy_async": COPY_ASYNC,
    "copy_head": COPY_HEAD,
    "mma_add": MMA_ADD,
}


@dataclass(frozen=True)
class Section:
    """A titled part of a kernel's body."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class KernelView:
    """What the template sees of a kernel."""

    name: str
    threads: int
    smem_bytes: int
    signature: tuple[str, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class FileView:
    """What the template sees of a file; every field is final text."""

    head: tuple[str, ...]
    command: str
    spec_path: str
    spec_hash: str
    statements: tuple[str, ...]
    constants: tuple[str, ...]
    helpers: tuple[str, ...]
    kernels: tuple[KernelView, ...]


def print_kernel(kernel: Kernel, plan: Plan, header: Header) -> str:
    """Return the text of a file with one kernel."""
    return _print((kernel,), (plan,), header)


def print_program(program: Program, plans: Mapping[str, Plan], header: Header) -> str:
    """Return the text of a file with all kernels of a program, in launch order; `plans` is by kernel name."""
    return _print(program.kernels, tuple(plans[k.name] for k in program.kernels), header)


def _print(kernels: tuple[Kernel, ...], plans: tuple[Plan, ...], header: Header) -> str:
    merges = _merges(kernels)
    statements = dict(header.statements)
    views = tuple(_kernel(k, p, merges, statements) for k, p in zip(kernels, plans, strict=True))
    texts = [line for view in views for section in view.sections for line in section.lines]
    texts += [line for merge in merges.values() for line in merge.lines]
    helpers = _helpers(texts)
    for merge in dict.fromkeys(merges.values()):
        helpers.append("\n" + "\n".join(wrapped(merge.lines)))
    return render(
        "cuda/kernel.cu.j2",
        FileView(
            head=tuple(textwrap.wrap(f"{header.title}: {header.doc}", LINE)),
            command=header.command,
            spec_path=header.spec_path,
            spec_hash=header.spec_hash,
            statements=tuple(f"{id}: {text}" for id, text in header.statements),
            constants=tuple(line for name, line in FLOATS.items() if any(name in t for t in texts)),
            helpers=tuple(helpers),
            kernels=views,
        ),
    )


def _helpers(texts: list[str]) -> list[str]:
    """Return the functions that the text calls, each before those that call it."""
    found: list[str] = []
    for name, text in reversed(HELPERS.items()):
        if any(re.search(rf"\b{name}\b", t) for t in (*texts, *found)):
            found.insert(0, text)
    return found


def _merges(kernels: tuple[Kernel, ...]) -> dict[object, Merge]:
    """Return the merge function of each Combine; equal merges share one."""
    found: dict[object, Merge] = {}
    known: dict[object, Merge] = {}
    for kernel in kernels:
        for op in operations(kernel.body):
            if isinstance(op, Combine):
                key = (op.states, op.merge, tuple(v.dtype for v in op.dsts))
                if key not in known:
                    known[key] = merge_of(op, "_".join(op.states) + (f"_{len(known) + 1}" if known else ""))
                found[op] = known[key]
    return found


def _kernel(kernel: Kernel, plan: Plan, merges: Mapping[object, Merge], statements: Mapping[str, str]) -> KernelView:
    context = Context.of(kernel, plan.map, fragment_orders(plan.steps))
    shared, shared_lines = _shared(context, plan)
    body = Body(context, shared, merges, statements).lines(plan.steps)
    grid = _used(_grid(context), body)
    sections = (
        Section("sizes", _used(_constants(kernel), [*grid, *body])),
        Section("tile of this block", grid),
        Section("threads", _used(_threads(context), body)),
        Section("shared memory", tuple(shared_lines)),
        Section("work", tuple(body)),
    )
    kept = tuple(Section(s.title, tuple(wrapped(indented(s.lines)))) for s in sections if s.lines)
    return KernelView(kernel.name, plan.threads, plan.smem_bytes, tuple(_signature(context, plan)), kept)


def _signature(context: Context, plan: Plan) -> list[str]:
    kernel = context.kernel
    stored = {op.buffer for op in operations(kernel.body) if isinstance(op, Store)}
    args = []
    for arg in kernel.args:
        name = context.names.arguments[arg.name]
        if arg.kind == "tensor":
            assert arg.buffer is not None
            const = "" if arg.buffer in stored else "const "
            args.append(f"{const}{arg.dtype.cuda}* {name}")
        else:
            args.append(f"{arg.dtype.cuda} {name}")
    head = f'extern "C" KG_GLOBAL_BOUNDS({_bounds(plan)}) void {kernel.name}('
    return _filled(head, args, ") {")


def _bounds(plan: Plan) -> str:
    """Return the threads of a block; with matrix fragments also how many blocks share an SM's registers at ease, else
    the compiler spills a few of them for one block more."""
    blocks = SM_REGISTERS // (plan.threads * (plan.registers + OTHER_REGISTERS))
    return f"{plan.threads}, {blocks}" if plan.skeleton == "mma" and blocks > 1 else str(plan.threads)


def _filled(head: str, items: list[str], tail: str) -> list[str]:
    """Return `head` with comma-separated items, on one line if they fit, else on filled lines of their own."""
    if len(head) + len(", ".join(items)) + len(tail) <= LINE:
        return [head + ", ".join(items) + tail]
    lines, line = [head], "   "
    for n, item in enumerate(items):
        piece = f" {item}" + ("," if n + 1 < len(items) else "")
        if len(line) + len(piece) + len(tail) > LINE:
            lines.append(line)
            line = "   "
        line += piece
    return [*lines, line + tail]


def _used(declarations: list[str], text: Iterable[str]) -> tuple[str, ...]:
    """Return the declarations whose names the later ones or `text` use."""
    words = {word for line in text for word in re.findall(r"\w+", line)}
    kept: list[str] = []
    for line in reversed(declarations):
        name, value = line.split(" = ", 1)
        if name.split()[-1] in words:
            kept.insert(0, line)
            words |= set(re.findall(r"\w+", value))
    return tuple(kept)


def _constants(kernel: Kernel) -> list[str]:
    return [f"constexpr int {name} = {value};" for name, value in constant_values(kernel).items()]


def _grid(context: Context) -> list[str]:
    """Return the decoding of the block's number."""
    names = context.names
    lines = [f"const int {names.values['grid.pid']} = blockIdx.x;"]
    for step in decode(context.kernel):
        lines.append(f"const int {_target(context, step.target)} = {context.scalar(step.value)};")
    return lines


def _target(context: Context, e: Expr) -> str:
    match e:
        case Pos(axis=axis):
            return context.names.position[axis]
        case Start(axis=axis):
            return context.names.start[axis]
        case Get(var=var):
            return context.names.values[var.name]
        case _:
            raise TypeError(f"the grid gives no {type(e).__name__}")


def _threads(context: Context) -> list[str]:
    groups = [f"const int {context.group_names[g.name]} = {_coordinate(context, g)};" for g in context.map.groups]
    return [lane_line(), *groups]


def _coordinate(context: Context, group: ThreadGroup) -> str:
    if group.warp_stride:
        return f"threadIdx.x % {group.near} + threadIdx.x / {group.warp_stride} * {group.near}"
    text = "threadIdx.x" if group.stride == 1 else f"threadIdx.x / {group.stride}"
    return text if group.stride * group.count == context.map.threads else f"{text} % {group.count}"


def _shared(context: Context, plan: Plan) -> tuple[dict[str, str], list[str]]:
    """Return the names of all shared addresses, and the lines that declare them."""
    memory = {m.name: m for step in all_steps(plan.steps) for m in writes(step)}
    if not memory:
        return {}, []
    names, lines = {}, ["KG_SMEM(smem);"]
    for m in sorted(memory.values(), key=lambda m: m.offset):
        own = context.names.values.get(m.name, m.name)
        names[m.name] = context.scope.give(f"{own}_smem")
        lines.append(f"const u32 {names[m.name]} = smem + {m.offset};  // {m.dtype.cuda} {_shape(m)}")
    return names, lines


def _shape(m: Memory) -> str:
    if not isinstance(m, SharedTile):
        return f"[{m.warps}][{m.slots}]"
    slots = f"[{m.slots}]" if m.slots > 1 else ""
    return f"{slots}[{m.outer}: {m.rows}][{m.inner}: {m.pitch}]" + (", swizzled" if m.swizzled or m.span else "")

"""Times generated kernels, both backends, against PyTorch's own: a table on stdout, JSON in bench/results/.

    python bench/compare.py [--only matmul|attention] [--also "name: 'key=value' 'key=value'"] [--rounds 40]

All contestants of a problem run in turn, round after round, on one hot GPU with random data; the L2 cache is flushed
before each run and medians are compared. `--also` adds a kernel built with overrides of the spec (repeatable): a Triton
kernel if its name starts with "triton", else a CUDA one. Overrides are for one spec: name it with --only.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, scaled_dot_product_attention

from kgen.errors import KgenError
from kgen.generate import generate
from kgen.ops import prepare
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import Launcher
from kgen.ops.key import Key, memory_key
from kgen.ops.on_demand import module_file
from kgen.pipeline import Target
from kgen.spec import load

ROOT = Path(__file__).resolve().parent.parent
FLUSH_BYTES = 256 << 20
Run = Callable[[], object]


@dataclass(frozen=True)
class Problem:
    """One call: tensors by name (outputs last), what else the kernels need, and PyTorch's ways to compute it."""

    spec: str
    title: str
    flops: float
    tensors: dict[str, Tensor]
    fast: dict[str, tuple[int, ...]]
    sizes: dict[str, int]
    static: dict[str, int]
    params: dict[str, float | bool]
    static_params: dict[str, bool]
    peers: dict[str, Run]
    expected: Callable[[], Tensor]
    output: str
    found: dict[str, float | str] = field(default_factory=dict)


def matmul(n: int, dtype: torch.dtype) -> Problem:
    """y = gelu(x w + bias) + r with square matrices; PyTorch's product alone is a peer too."""
    x, w, r = (torch.randn(1, n, n, device="cuda", dtype=dtype) for _ in range(3))
    w /= math.sqrt(n)
    bias, y = torch.randn(n, device="cuda", dtype=dtype), torch.empty_like(r)
    return Problem(
        "matmul", f"matmul {n}", 2.0 * n**3, {"x": x, "w": w, "bias": bias, "r": r, "y": y}, {"w": (2, 1)},
        {"B": 1, "M": n, "N": n, "K": n}, {}, {}, {},
        {"torch product": lambda: x @ w, "torch all": lambda: gelu(x @ w + bias) + r},
        lambda: gelu(x.float() @ w.float() + bias.float()) + r.float(), "y",
    )  # fmt: skip


def attention(length: int, dim: int, causal: bool, dtype: torch.dtype) -> Problem:
    """Self-attention of 16384 tokens in all, hidden size 2048."""
    batch, heads = max(1, 16384 // length), 2048 // dim
    q, k, v = (torch.randn(batch, heads, length, dim, device="cuda", dtype=dtype) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(batch, heads, length, device="cuda")

    def peer(backend: SDPBackend) -> Run:
        def run() -> Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    flops = 4.0 * batch * heads * length**2 * dim / (2 if causal else 1)
    return Problem(
        "flash_attn", f"attention {length} x {dim}{' causal' if causal else ''}", flops,
        {"q": q, "k": k, "v": v, "o": o, "lse": lse}, {},
        {"B": batch, "H": heads, "M": length, "N": length, "HK": heads, "G": 1, "D": dim, "E": dim},
        {"D": dim, "E": dim}, {"scale": dim**-0.5}, {"causal": causal},
        {"cuDNN": peer(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2": peer(SDPBackend.FLASH_ATTENTION)},
        lambda: scaled_dot_product_attention(q[:1].float(), k[:1].float(), v[:1].float(), is_causal=causal), "o",
    )  # fmt: skip


def problems(only: str | None) -> Iterator[Problem]:
    if only != "attention":
        yield from (matmul(n, torch.bfloat16) for n in (2048, 4096, 8192))
    if only != "matmul":
        yield from (attention(s, d, c, torch.bfloat16) for d in (64, 128) for s in (1024, 4096) for c in (False, True))
        yield from (attention(4096, 256, c, torch.bfloat16) for c in (False, True))


def generated(problem: Problem, backend: str, overrides: list[str]) -> Run:
    """Return a call of the kernel that kgen makes for the problem on this GPU."""
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}{'a' if backend == 'cuda' and major == 9 else ''}"  # 90a has wgmma, which 90 lacks
    spec = load(ROOT / "specs" / f"{problem.spec}.yaml", overrides)
    dtype = {torch.bfloat16: "bf16", torch.float16: "f16"}[next(iter(problem.tensors.values())).dtype]
    named = [(n, t, problem.fast.get(n, (t.dim() - 1,))) for n, t in problem.tensors.items()]
    units, aligned, offset = memory_key(named)
    key = Key((("T", dtype),), tuple(problem.static.items()), tuple(problem.static_params.items()),
              units, aligned, offset, ())  # fmt: skip
    emitted = generate(spec, key, Target(backend, arch))
    for note in emitted.config.notes:
        print(f"  {problem.title}, {backend}: {note}")
    made = (
        prepare.cuda_backend(emitted.text, emitted.launch, arch)
        if backend == "cuda"
        else TritonBackend(module_file(emitted.text), emitted.launch)
    )
    scalars = {**problem.sizes, **problem.params}
    call = Launcher(emitted.launch, tuple(problem.tensors), tuple(scalars), made)
    tensors, values = list(problem.tensors.values()), tuple(scalars.values())
    return lambda: call(tensors, values)


def error(problem: Problem, run: Run) -> float:
    """Return the largest difference from PyTorch in f32, over the first batch entry."""
    out = problem.tensors[problem.output]
    out.fill_(math.nan)
    run()
    return float((out[:1].float() - problem.expected()).abs().max())


def _backend(name: str) -> str:
    return "triton" if name.startswith("triton") else "cuda"


def _given(run: Run) -> Run:
    return run


def contestants(problem: Problem, also: dict[str, list[str]]) -> dict[str, Run]:
    """Return all that can run; what cannot is noted with its reason."""
    makers: dict[str, Callable[[], Run]] = {n: partial(_given, run) for n, run in problem.peers.items()}
    makers |= {f"kgen {b}": partial(generated, problem, b, []) for b in ("triton", "cuda")}
    makers |= {f"kgen {n}": partial(generated, problem, _backend(n), o) for n, o in also.items()}
    runs = {}
    for name, make in makers.items():
        try:
            runs[name] = make()
            wrong = error(problem, runs[name]) if name.startswith("kgen") else runs[name]()
            if isinstance(wrong, float) and not wrong < 0.1:
                raise KgenError(f"wrong result, off by {wrong}")
        except (KgenError, RuntimeError) as reason:
            runs.pop(name, None)
            problem.found[name] = str(reason).splitlines()[0]
    return runs


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Return the median seconds of each, all run in turn, the L2 cache flushed before each run."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    marks: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n in runs}
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:  # a hot card has its sustained clocks
        for run in runs.values():
            run()
        torch.cuda.synchronize()
    for _ in range(rounds):
        for name, run in runs.items():
            flush.zero_()
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            pair[0].record()
            run()
            pair[1].record()
            marks[name].append(pair)
    torch.cuda.synchronize()
    return {n: statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3 for n, pairs in marks.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("matmul", "attention"))
    parser.add_argument("--also", action="append", default=[], metavar="NAME: 'KEY=VALUE' ...")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "compare.json")
    options = parser.parse_args()
    also = {name.strip(): shlex.split(words) for name, _, words in (a.partition(":") for a in options.also)}
    rows = []
    for problem in problems(options.only):
        seconds = measure(contestants(problem, also), options.rounds)
        problem.found.update({n: problem.flops / s / 1e12 for n, s in seconds.items()})
        print(problem.title)
        for name, value in problem.found.items():
            print(f"  {name:32} " + (f"{value:8.1f} TFLOP/s" if isinstance(value, float) else value))
        rows.append({"problem": problem.title, "flops": problem.flops, "tflops": problem.found})
        problem.tensors.clear()
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rounds": options.rounds}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What is verified: each call specialised as an op does it, then run by the interpreter, the simulator or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kgen.build import default_root
from kgen.emit.labels import parse_label
from kgen.errors import KgenError
from kgen.generate import Emitted, generate
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import Backend, execute
from kgen.ops.key import Key
from kgen.ops.on_demand import module_file
from kgen.ops.prepare import cuda_backend
from kgen.ops.simulated import SimulatedBackend
from kgen.pipeline import Target
from kgen.sim import Fault
from kgen.verify.interpreter import ensure_correct
from kgen.verify.subject import Call, Result, Subject
from kgen.workflow.instance import Instance, call_key
from kgen.workflow.progress import Progress, Silent


@dataclass
class Dispatch:
    """Specialises calls for one target. Every key is generated and made ready once; its error is kept too."""

    instance: Instance
    target: Target
    ready: Callable[[Emitted], Backend]
    made: dict[Key, tuple[Emitted, Backend] | KgenError] = field(default_factory=dict)

    def run(self, call: Call) -> tuple[Emitted, Backend]:
        """Run a call by the kernels of its key and return them; raise KgenError if they cannot be made."""
        tensors = {**call.inputs, **call.outputs}
        found = self._kernels(call_key(self.instance, self.target.arch, tensors, call.sizes, call.params))
        if isinstance(found, KgenError):
            raise found
        emitted, backend = found
        execute(emitted.launch, tensors, {**call.sizes, **call.params}, backend)
        return emitted, backend

    def _kernels(self, key: Key) -> tuple[Emitted, Backend] | KgenError:
        if key not in self.made:
            try:
                emitted = generate(self.instance.spec, key, self.target)
                self.made[key] = (emitted, self.ready(emitted))
            except KgenError as error:
                self.made[key] = error
        return self.made[key]


@dataclass
class _Dispatched:
    """A subject that runs what a dispatch makes."""

    name: str
    dispatch: Dispatch

    def run(self, call: Call) -> Result:
        """Run a call."""
        self.dispatch.run(call)
        return Result(call.outputs)


class TritonInterpreter(_Dispatched):
    """Triton text run on the CPU by Triton's interpreter."""

    def __init__(self, instance: Instance, arch: str) -> None:
        ensure_correct()
        super().__init__(f"triton {arch} (interpreter)", Dispatch(instance, Target("triton", arch), _interpreted))

    def run(self, call: Call) -> Result:
        """Run a call; an error of the interpreted kernel is raised as KgenError."""
        try:
            return super().run(call)
        except KgenError:
            raise
        except Exception as error:  # the interpreter raises whatever the kernel's operations raise in NumPy
            raise KgenError(f"the interpreter stopped: {_first_line(error)}") from error


class CudaSimulator(_Dispatched):
    """CUDA text run on the CPU by the simulator; what it finds fails the case."""

    def __init__(self, instance: Instance, arch: str, progress: Progress | None = None) -> None:
        self.progress = progress or Silent()
        super().__init__(f"cuda {arch} (simulator)", Dispatch(instance, Target("cuda", arch), _simulated))

    def run(self, call: Call) -> Result:
        """Run a call and return its outputs with the faults."""
        emitted, backend = self.dispatch.run(call)
        assert isinstance(backend, SimulatedBackend)
        faults = tuple(described(f, emitted) for f in backend.faults)
        backend.clear()
        return Result(call.outputs, faults)


class TritonGpu(_Dispatched):
    """Triton text compiled and run on the GPU."""

    def __init__(self, instance: Instance, arch: str) -> None:
        super().__init__(f"triton {arch} (GPU)", Dispatch(instance, Target("triton", arch), _compiled))


class CudaGpu(_Dispatched):
    """CUDA text compiled and run on the GPU."""

    def __init__(self, instance: Instance, arch: str) -> None:
        super().__init__(
            f"cuda {arch} (GPU)",
            Dispatch(instance, Target("cuda", arch), lambda e: cuda_backend(e.text, e.launch, arch)),
        )

    def run(self, call: Call) -> Result:
        """Run a call and wait for it, so that an error of the kernel belongs to its case."""
        result = super().run(call)
        torch.cuda.synchronize()
        return result


def subjects_for(instance: Instance, targets: tuple[tuple[str, str], ...], gpu: str | None) -> list[Subject]:
    """Return a subject for each (backend, architecture); on a GPU, for each backend on that GPU."""
    if gpu is not None:
        on_gpu = {"triton": TritonGpu, "cuda": CudaGpu}
        return [on_gpu[b](instance, gpu) for b in dict.fromkeys(b for b, _ in targets)]
    on_cpu: dict[str, Callable[[Instance, str], Subject]] = {"triton": TritonInterpreter, "cuda": CudaSimulator}
    return [on_cpu[backend](instance, arch) for backend, arch in targets]


def described(fault: Fault, emitted: Emitted) -> str:
    """Return a fault with its kernel, thread, line and the statement of the spec that the line computes."""
    statement = statement_at(emitted, fault.line)
    return f"{fault}\n    in {statement}" if statement else str(fault)


def statement_at(emitted: Emitted, line: int | None) -> str:
    """Return the statement that a line (from 1) of a text belongs to, such as "s2: p = softmax[n](s)"; "" if none."""
    texts = {s.id: s.text for s in emitted.lowered.math.statements}
    for text in reversed(emitted.text.splitlines()[: line or 0]):
        label = parse_label(text)
        if label is not None:
            return "; ".join(f"{i}: {' '.join(texts.get(i, '').split())}" for i in label.stmts)
    return ""


def _interpreted(emitted: Emitted) -> Backend:
    return TritonBackend(module_file(emitted.text), emitted.launch, interpreted=True)


def _compiled(emitted: Emitted) -> Backend:
    return TritonBackend(module_file(emitted.text), emitted.launch)


def _simulated(emitted: Emitted) -> Backend:
    return SimulatedBackend(emitted.text, emitted.launch, default_root() / "simulator")


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    text = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {text[0]}" if text else type(cause).__name__

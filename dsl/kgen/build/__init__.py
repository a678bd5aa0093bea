"""Turns emitted text into binaries: compilers, a content-addressed cache, and the resources that were used."""

from kgen.build.binary import Binary, CompileError, Resources
from kgen.build.cache import Cache, default_root, digest
from kgen.build.cuda import available_compilers, compile_cuda
from kgen.build.triton import TritonJob, compile_triton, compile_triton_batch

__all__ = [
    "Binary",
    "Cache",
    "CompileError",
    "Resources",
    "TritonJob",
    "available_compilers",
    "compile_cuda",
    "compile_triton",
    "compile_triton_batch",
    "default_root",
    "digest",
]

"""Modules import only downwards: the layers of the package, lowest first, and no cycle anywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kgen

ROOT = Path(kgen.__file__).parent
# A word stands for the module or package of that name and for modules called `<word>_...`; the longest match counts.
LAYERS = (
    ("", "source"),
    ("errors", "types", "resources"),
    ("syntax", "parse", "functions"),
    ("spec", "schema"),
    ("terms",),
    ("accumulators",),
    ("math", "ir", "algebra", "index", "intervals"),
    ("resolve", "mask", "layout", "ir_walk"),
    ("configure", "specialise", "folded"),
    ("cut", "accumulate", "tile", "segment", "simplify", "check"),
    ("pipeline",),
    ("schedule",),
    ("emit",),
    ("build", "sim"),
    ("verify",),
    ("ops.key", "ops.plan"),
    ("generate",),
    ("ops",),
    ("package",),
    ("workflow",),
    ("cli", "__main__"),
)
# What judges a kernel must not share the code that made it.
FORBIDDEN = {
    "verify": ("accumulate", "folded", "cut", "tile", "mask", "segment", "simplify", "schedule", "emit", "pipeline")
}


def modules() -> dict[str, Path]:
    """Return all modules by their name below `kgen`; the package itself is ""."""
    paths = ((p.relative_to(ROOT).with_suffix("").parts, p) for p in ROOT.rglob("*.py") if "data" not in p.parts)
    return {".".join(parts).removesuffix("__init__").removesuffix("."): p for parts, p in paths}


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kgen":
            base = (node.module or "").removeprefix("kgen").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in MODULES else base
        elif isinstance(node, ast.Import):
            yield from (
                a.name.removeprefix("kgen").removeprefix(".") for a in node.names if a.name.split(".")[0] == "kgen"
            )


def belongs(module: str, word: str) -> bool:
    return module == word or (bool(word) and module.startswith((f"{word}_", f"{word}.")))


def layer(module: str) -> int:
    found = [(len(word), i) for i, words in enumerate(LAYERS) for word in words if belongs(module, word)]
    assert found, f"module '{module}' is in no layer"
    return max(found)[1]


def test_imports_go_downwards() -> None:
    upwards = [
        f"{name or 'kgen'} imports {other}"
        for name, path in MODULES.items()
        for other in imports(path)
        if layer(other) > layer(name)
    ]
    assert not upwards, "\n".join(upwards)


def test_no_cycles() -> None:
    graph = {name: sorted({o for o in imports(path) if o != name}) for name, path in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"import cycle: {' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_judge_is_independent() -> None:
    for part, words in FORBIDDEN.items():
        mine = {n: p for n, p in MODULES.items() if belongs(n, part)}
        taken = [f"{n} imports {o}" for n, p in mine.items() for o in imports(p) if any(belongs(o, w) for w in words)]
        assert not taken, "\n".join(taken)


def test_every_word_is_used() -> None:
    unused = [w for words in LAYERS for w in words if not any(belongs(m, w) for m in MODULES)]
    assert not unused

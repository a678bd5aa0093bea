"""The texts of a variant: one for each backend, and more where a schedule differs between architectures."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.generate import Emitted, generate
from kgen.ops.key import Key
from kgen.pipeline import Target
from kgen.workflow.instance import Instance, expected_key
from kgen.workflow.targets import archs_of, main_arch


@dataclass(frozen=True)
class Origin:
    """What the head of a text says about where it came from."""

    path: str = ""
    command: str = ""


@dataclass(frozen=True)
class Text:
    """An emitted text and the targets that it is compiled for; `arch` is the one that it was lowered for."""

    backend: str
    arch: str
    emitted: Emitted
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """The texts of one variant. `texts` holds that of the main architecture first, for each backend."""

    instance: Instance
    key: Key
    texts: tuple[Text, ...]

    def main(self, backend: str) -> Emitted | None:
        """Return the text that is written for a backend, None if it was not asked for."""
        return next((t.emitted for t in self.texts if t.backend == backend), None)


def texts_for(instance: Instance, backends: tuple[str, ...], targets: tuple[str, ...], origin: Origin) -> Texts:
    """Lower a variant for its backends and targets; raise KgenError for what the user can mend."""
    key = expected_key(instance, main_arch(targets))
    found = [t for b in backends for t in _of_backend(instance, key, b, targets, origin)]
    return Texts(instance, key, tuple(found))


def _of_backend(instance: Instance, key: Key, backend: str, targets: tuple[str, ...], origin: Origin) -> list[Text]:
    first = main_arch(targets)
    found: dict[str, Text] = {}
    for arch in dict.fromkeys((first, *archs_of(backend, targets))):
        emitted = generate(instance.spec, key, Target(backend, arch), path=origin.path, command=origin.command)
        same = found.get(identity(emitted))
        wanted = (arch,) if arch in targets else ()
        text = Text(backend, arch, emitted, wanted) if same is None else _with(same, wanted)
        found[identity(emitted)] = text
    return list(found.values())


def identity(emitted: Emitted) -> str:
    """Return what two texts share exactly if they are the same kernels, launched alike."""
    return f"{emitted.text}\n{emitted.launch!r}"


def _with(text: Text, targets: tuple[str, ...]) -> Text:
    return Text(text.backend, text.arch, text.emitted, text.targets + targets)

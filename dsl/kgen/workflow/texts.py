"""The texts of a variant: one for each backend, and more where a schedule differs between architectures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgen.configure import Config
from kgen.generate import Emitted, generate
from kgen.ops.key import Key
from kgen.pipeline import Target
from kgen.workflow.instance import Instance, config_for, expected_key
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

    def own(self, backend: str) -> tuple[Emitted, ...]:
        """Return the further texts of a backend that are for one architecture's own features."""
        further = [t for t in self.texts if t.backend == backend][1:]
        return tuple(t.emitted for t in further if t.arch.endswith("a"))


def texts_for(instance: Instance, backends: tuple[str, ...], targets: tuple[str, ...], origin: Origin) -> Texts:
    """Lower a variant for its backends and targets; raise KgenError for what the user can mend."""
    key = expected_key(instance, main_arch(targets))
    found = [t for b in backends for t in _of_backend(instance, key, b, targets, origin)]
    return Texts(instance, key, tuple(found))


def _of_backend(instance: Instance, key: Key, backend: str, targets: tuple[str, ...], origin: Origin) -> list[Text]:
    """Lower for the main architecture, then for the others where it may differ: for Triton, by the schedule alone."""
    found: dict[str, Text] = {}
    lowered: list[tuple[Config, str]] = []
    for arch in dict.fromkeys((main_arch(targets), *archs_of(backend, targets))):
        wanted = (arch,) if arch in targets else ()
        config = _without_arch(config_for(instance, backend, arch, dict(key.sizes), dict(key.params)))
        same = next((name for c, name in lowered if c == config), None) if backend == "triton" else None
        if same is None:
            emitted = generate(instance.spec, key, Target(backend, arch), path=origin.path, command=origin.command)
            same = identity(emitted)
            found.setdefault(same, Text(backend, arch, emitted, ()))
            lowered.append((config, same))
        found[same] = replace(found[same], targets=found[same].targets + wanted)
    return list(found.values())


def _without_arch(config: Config) -> Config:
    return replace(config, arch="", kernels={n: _without_arch(c) for n, c in config.kernels.items()})


def identity(emitted: Emitted) -> str:
    """Return what two texts share exactly if they are the same kernels, launched alike."""
    return f"{emitted.text}\n{emitted.launch!r}"

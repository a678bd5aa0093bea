"""The one jinja2 environment. A template sees the fields of one frozen view and nothing else."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined, meta

from kgen import resources

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@cache
def environment() -> Environment:
    """Return the environment: unknown names raise, no HTML escaping, block tags leave no lines behind."""
    return Environment(
        loader=FileSystemLoader(resources.path("templates")),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _names(template: str) -> frozenset[str]:
    env = environment()
    assert env.loader is not None
    source, _, _ = env.loader.get_source(env, template)
    return frozenset(meta.find_undeclared_variables(env.parse(source)))


def render(template: str, view: DataclassInstance) -> str:
    """Return the text of `templates/<template>` for a frozen dataclass, which must have exactly the fields it names."""
    if not is_dataclass(view):
        raise TypeError(f"a view must be a dataclass, not {type(view).__name__}")
    context = {f.name: getattr(view, f.name) for f in fields(view)}
    if _names(template) != context.keys():
        odd = sorted(_names(template) ^ context.keys())
        raise TypeError(f"template {template} and view {type(view).__name__} differ in {', '.join(odd)}")
    return environment().get_template(template).render(context)

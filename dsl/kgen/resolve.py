"""Resolve: names, shapes, dtypes and guards of a spec. `resolve` gives the typed math of one choice of dtypes."""

from kgen.resolve_math import resolve
from kgen.resolve_variants import Variant, dtype_choices, variants

__all__ = ["Variant", "dtype_choices", "resolve", "variants"]

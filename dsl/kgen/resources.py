"""Where the data files are: inside the installed package, else in the checkout."""

from __future__ import annotations

from pathlib import Path

from kgen.errors import KgenError

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent
KINDS = ("templates", "specs")


def path(kind: str) -> Path:
    """Return the folder of a kind of data file ("templates" or "specs"); KgenError if the installation lacks it."""
    for root in (_PACKAGE / "data", _CHECKOUT):
        if (root / kind).is_dir():
            return root / kind
    raise KgenError(f"the installation of kgen has no folder '{kind}' (looked in {_PACKAGE / 'data'} and {_CHECKOUT})")

"""No input makes the front end fail otherwise than by an error in words: mutations of the shipped specs, seeded."""

from __future__ import annotations

import random
import re
import time

import pytest

from kgen import resources
from kgen.configure import configure
from kgen.errors import KgenError
from kgen.resolve import resolve, variants
from kgen.spec import load
from resolve_cases import GOOD, spec_text

TEXTS = [p.read_text() for p in sorted(resources.path("specs").glob("*.yaml"))]
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
EXTRA = re.findall(
    r"\S+",
    r"""0 -1 1e999 99999999999999999999 0x10 inf nan true null ~ '' {} [] | > &a *a !!int << desc full auto 1.5 é
    cast[f32] sum[n] ** // ' " # \ ? % @ ` m,m x[x[x[m]]] extends""",
)
EXTRA += ["\t", "\0", "\n", "(" * 40, "not " * 30, "- - ", "2 ** 2 ** 99", "1 << 99", "m m"]
WORDS = [*sorted({t for text in TEXTS for t in TOKEN.findall(text) if not t.isspace()}), *EXTRA]
SECONDS = 4.0


def front_end(text: str) -> None:
    """Run all that happens to a spec before it is lowered."""
    spec = load(text)
    for v in variants(spec):
        math = resolve(spec, v.dtypes)
        for backend, arch in (("triton", "sm_80"), ("cuda", "sm_90a")):
            configure(math, spec, backend=backend, arch=arch, dtypes=v.dtypes, sizes=v.sizes, params=v.params)


def mutated(generator: random.Random) -> str:
    """Return a shipped spec with one to four tokens or lines changed, removed, repeated or exchanged."""
    parts = TOKEN.findall(generator.choice(TEXTS))
    for _ in range(generator.randint(1, 4)):
        at, other = generator.randrange(len(parts)), generator.randrange(len(parts))
        match generator.randrange(6):
            case 0:
                parts[at] = generator.choice(WORDS)
            case 1:
                del parts[at : at + generator.choice((1, 1, 2, 8))]
            case 2:
                parts.insert(at, generator.choice(WORDS))
            case 3:
                parts[at], parts[other] = parts[other], parts[at]
            case 4:
                parts[at:at] = parts[at : at + generator.randint(1, 12)]
            case 5:
                parts[at] = parts[other]
        parts = parts or [" "]
    return "".join(parts)


def failure(text: str) -> str | None:
    """Return what went wrong otherwise than by a KgenError; None if nothing did."""
    try:
        front_end(text)
    except KgenError as error:
        str(error)  # an error must also be shown
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_mutations_end_in_worded_errors() -> None:
    generator, end, count = random.Random(0), time.monotonic() + SECONDS, 0
    while time.monotonic() < end or count < 20:
        text = mutated(generator)
        count += 1
        assert failure(text) is None, f"{failure(text)}\n{text}"


def statement(value: str) -> str:
    return spec_text(f"y[b, m] = sum[n](x[b, m, n]) + {value}")


def changed(old: str, new: str) -> str:
    text = spec_text(GOOD)
    assert old in text
    return text.replace(old, new)


TOO_DEEP = "nested deeper than 150 levels"
LARGE = {
    "minus signs": (statement("-" * 9000 + "1"), TOO_DEEP),
    "not": (statement("where(" + "not " * 2000 + "true, 1, 0)"), TOO_DEEP),
    "calls": (statement("abs(" * 1900 + "1" + ")" * 1900), TOO_DEEP),
    "a long sum": (statement(" + ".join(["m"] * 2000)), TOO_DEEP),
    "powers": (statement("**".join(["2"] * 3000)), TOO_DEEP),
    "indices": (statement("w[" * 2400 + "0" + "]" * 2400), TOO_DEEP),
    "reductions": (statement("sum[n](" * 900 + "w[n]" + ")" * 900), TOO_DEEP),
    "a mask": (changed("compute:", "mask: " + " and ".join(["n < m"] * 900) + "\ncompute:"), TOO_DEEP),
    "a condition": (spec_text(GOOD, f"schedule: {{cases: [{{when: '{'not ' * 2000}T == f32'}}]}}"), TOO_DEEP),
    "helpers": (
        spec_text(
            "\n".join(["h0(t) = t + t", *(f"h{i}(t) = h{i - 1}(t) + h{i - 1}(t)" for i in range(1, 60))])
            + "\n  y[b, m] = h59(m)"
        ),
        "more than 20000 operations, with helpers and intermediates written out",
    ),
    "helpers of helpers": (
        spec_text(f"h(t) = {'t + ' * 40}1\ny[b, m] = {'h(' * 40}m{')' * 40}"),
        ", with helpers and intermediates written out",
    ),
    "a chain": (
        spec_text("\n".join(["v0 = m", *(f"v{i} = v{i - 1} + 1" for i in range(1, 400)), "y[b, m] = v399"])),
        "nested deeper than 150 levels, with helpers and intermediates written out",
    ),
    "squares": (
        spec_text("\n".join(["v0 = m", *(f"v{i} = v{i - 1} * v{i - 1}" for i in range(1, 300)), "y[b, m] = v299"])),
        "more than 20000 operations, with helpers and intermediates written out",
    ),
    "lists in lists": ("a: " + "[" * 4900 + "]" * 4900 + "\n", "nested deeper than 16 levels"),
    "a huge range": (changed("{extent: B}", "{extent: B, in: 1..99999999999}"), "at most 4096 values"),
    "no step": (changed("{extent: B}", "{extent: B, in: 1..9 step 0}"), "a step of at least 1"),
    "a huge integer": (statement("9" * 5000), "the integer does not fit 64 bits"),
    "a huge hexadecimal": (statement("0x" + "f" * 5000), "the integer does not fit 64 bits"),
    "a huge shift": (changed("{extent: B}", "{extent: 1 << 999999999999}"), "a shift by 999999999999 bits"),
    "a huge product": (changed("{extent: B}", f"{{extent: {'*'.join(['99999'] * 9)}}}"), "does not fit 64 bits"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_in_words(name: str) -> None:
    text, message = LARGE[name]
    with pytest.raises(KgenError, match=re.escape(message)):
        front_end(text)


def test_what_is_long_and_not_deep_is_taken() -> None:
    front_end(statement("(" * 4000 + "1" + ")" * 4000))
    front_end(spec_text(GOOD, "require: [" + ", ".join(["M > 0"] * 900) + "]"))
    front_end(statement(" + ".join(["m"] * 140)))

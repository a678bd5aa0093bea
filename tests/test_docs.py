"""What the documents say is so: specs check, records prove, commands parse, links lead somewhere, errors read as shown.

`python tests/test_docs.py` prints the generated parts of docs/language.md and docs/accumulators.md.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from kgen import accumulators
from kgen.accumulators import parse_record, prove
from kgen.cli.main import app
from kgen.errors import KgenError
from kgen.functions import Function, table
from kgen.source import Source
from kgen.spec import keys_at, load
from kgen.spec_model import SpecModel
from kgen.workflow.check import check
from kgen.workflow.progress import Silent

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TYPES = {"number": "numbers", "float": "floats", "int": "integers", "bool": "bools", "compare": "numbers, gives bool",
         "test": "float, gives bool", "where": "bool, then two of one type", "match": "integers, or bools"}  # fmt: skip

# Changes of the first spec of docs/language.md, and what kgen says.
ERRORS = {
    "`stream: true` left out": (", stream: true", ""),
    "The axis of a reduction left out": ("sum[n](", "sum("),
    "A misspelt key": ("stream: true", "steam: true"),
    "An index too few": ("x[m, n] / max", "x[m] / max"),
    "An axis that is neither stored nor reduced": ("total[m] = s", "total[m] = x[m, n]"),
    "A chained comparison": ("abs(x[m, n])", "where(0 < n < 5, x[m, n], 0)"),
    "An expression with a comma in a flow map, without quotes": ("default: 1e-6", "default: max(1e-6, 0)"),
    "An integer tensor without a contract": ("x: {dims: [m, n], dtype: T}", "x: {dims: [m, n], dtype: i32}"),
    "An output of which some elements are not written": ("y[m, n] = x", "y[m, n + 1] = x"),
    "A field of another backend": ("variants: [{T: f32}, {T: bf16}]", "schedule: {cuda: {warps: 4}}"),
}
# Changes of the first record of docs/accumulators.md, and what kgen says.
WRONG_RECORDS = {
    "The magnitude is forgotten in `lift`": ("lift: {m: abs(x)}", "lift: {m: x}"),
    "A direct formula without a value for no elements": ("max(0, max[.](abs(x)))", "max[.](abs(x))"),
    "A merge that depends on the order": ("max(a.m, b.m)", "where(a.m == 0, b.m, a.m)"),
}


def blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each fenced block of a language."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def prose_of(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def yaml_blocks(*keys: str) -> list[object]:
    """Return the YAML blocks that have all of `keys` at the top level, named by page and line."""
    return [
        pytest.param(text, id=f"{page.name}:{line}")
        for page in PAGES
        for line, text in blocks(page, "yaml")
        if all(re.search(rf"^{key}:", text, re.MULTILINE) for key in keys)
    ]


def first(page: str, key: str) -> str:
    """Return the first YAML block of a page with a top-level key."""
    return next(t for _, t in blocks(ROOT / "docs" / page, "yaml") if re.search(rf"^{key}:", t, re.MULTILINE))


@pytest.fixture(scope="module")
def folder_with_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the records of docs/accumulators.md where a spec finds them."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "accumulators").mkdir()
    for _, text in blocks(ROOT / "docs" / "accumulators.md", "yaml"):
        if name := re.match(r"# (accumulators/\w+\.yaml)", text):
            (folder / name[1]).write_text(text)
    assert list((folder / "accumulators").iterdir())
    return folder


@pytest.mark.parametrize("text", yaml_blocks("kernel", "compute") + yaml_blocks("kernel", "extends"))
def test_specs_check(text: str, folder_with_records: Path) -> None:
    path = folder_with_records / "spec.yaml"
    path.write_text(text)
    checked = check(load(path), ("triton", "cuda"), ("sm_90",), Silent())
    assert checked.rows


@pytest.mark.parametrize("text", yaml_blocks("inputs", "lift", "merge", "finish"))
def test_records_prove(text: str) -> None:
    prove(parse_record("record", Source("record.yaml", text)))


def test_pages_hold_what_is_tested() -> None:
    assert len(yaml_blocks("kernel", "compute")) >= 5
    assert len(yaml_blocks("inputs", "lift")) >= 1
    assert len(list(commands())) >= 10


# -- errors, counterexamples, functions


def error_of(title: str, folder: Path) -> str:
    """Return what kgen says of a change of the first spec."""
    spec, (old, new) = first("language.md", "kernel"), ERRORS[title]
    assert spec.count(old) == 1, f"'{old}' is not once in the first spec"
    path = folder / "scale_rows.yaml"
    path.write_text(spec.replace(old, new))
    with pytest.raises(KgenError) as found:
        check(load(path), ("triton", "cuda"), ("sm_90",), Silent())
    return str(found.value).replace(f"{folder}/", "")


def record_error_of(title: str) -> str:
    """Return the counterexample that kgen finds for a change of the first record."""
    record, (old, new) = first("accumulators.md", "inputs"), WRONG_RECORDS[title]
    assert record.count(old) == 1, f"'{old}' is not once in the first record"
    with pytest.raises(accumulators.AccumulatorError) as found:
        prove(parse_record("amax", Source("accumulators/amax.yaml", record.replace(old, new))))
    return str(found.value)


def shown(title: str, output: str) -> str:
    return f"{title}:\n\n```text\n{output}\n```\n"


@pytest.mark.parametrize("title", ERRORS)
def test_errors_read_as_shown(title: str, tmp_path: Path) -> None:
    assert shown(title, error_of(title, tmp_path)) in (ROOT / "docs" / "language.md").read_text()


@pytest.mark.parametrize("title", WRONG_RECORDS)
def test_counterexamples_read_as_shown(title: str) -> None:
    assert shown(title, record_error_of(title)) in (ROOT / "docs" / "accumulators.md").read_text()


def functions_table() -> str:
    """Return the table of functions as Markdown."""
    rows = [f"| {_written(f)} | {TYPES[f.types]} |" for f in table().values() if not f.internal]
    return "\n".join(["| written | arguments |", "| --- | --- |", *rows]) + "\n"


def _written(f: Function) -> str:
    args = "abc"[: f.args]
    if f.operator is None:
        return f"`{f.name}({', '.join(args)})`"
    operator = f.operator.replace("|", "\\|")
    return f"`{operator} a`" if f.args == 1 else f"`a {operator} b`"


def test_functions_are_listed() -> None:
    assert functions_table() in (ROOT / "docs" / "language.md").read_text()


def test_keys_are_listed() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    listed = re.search(r"All keys of a spec: `([^`]*)`", text)
    assert listed is not None
    assert sorted(re.split(r",\s+", listed[1])) == sorted(keys_at(()))
    assert set(keys_at(())) == {f.alias or n for n, f in SpecModel.model_fields.items()}


# -- commands and links


def commands() -> Iterator[tuple[str, str]]:
    """Yield (place, command line) of every kgen command of the documents."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fenced = re.findall(r"^```(?:sh|text|console|bash)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [x.strip().removeprefix("$ ") for block in fenced for x in block.splitlines()]
        lines += re.findall(r"`([^`\n]+)`", prose_of(page))
        lines += re.findall(r"^ {4}(kgen .*)$", prose_of(page), re.MULTILINE)
        yield from ((page.name, x) for x in lines if re.match(r"kgen [a-z]+\b", x))


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_commands_parse(page: str, line: str) -> None:
    words = shlex.split(re.split(r"\s+[#>|]", line.replace("SPEC", "specs/softmax.yaml"))[0])[1:]
    group = typer.main.get_command(app)
    with typer.Context(group) as context:
        name, command, rest = group.resolve_command(context, words)  # type: ignore[attr-defined]
        if rest and "--help" not in rest:
            command.make_context(name, rest, parent=context)
    for word in rest:
        if re.match(r"(specs|tests)/.*\.yaml$", word):
            assert (ROOT / word).is_file(), f"{page}: {word}"


def links() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose_of(page))):
            if not re.match(r"https?:|mailto:", target):
                yield str(page.relative_to(ROOT)), target


@pytest.mark.parametrize(("page", "target"), sorted(set(links())))
def test_links_lead_somewhere(page: str, target: str) -> None:
    name, _, anchor = target.partition("#")
    path = (ROOT / page).parent / name if name else ROOT / page
    assert path.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]


def test_modules_and_files_exist() -> None:
    """`kgen.a.b` names a module, or something in one; `folder/file.ext` a file."""
    for page in PAGES:
        prose = prose_of(page)
        for word in re.findall(r"`(kgen(?:\.\w+)+)`", prose):
            assert _module_exists(word), f"{page.name}: {word}"
        for word in re.findall(r"`((?:dsl|docs|specs|templates|tests)/[\w./]+\.\w+)`", prose):
            assert (ROOT / word).exists(), f"{page.name}: {word}"


def _module_exists(word: str) -> bool:
    if word == "kgen.cuh":
        return True
    try:
        return importlib.util.find_spec(word) is not None
    except ModuleNotFoundError:  # its parent is no package: the last part is a name in a module
        module, _, name = word.rpartition(".")
        found = importlib.util.find_spec(module)
        return found is not None and found.origin is not None and name in Path(found.origin).read_text()


if __name__ == "__main__":
    import tempfile

    print(functions_table())
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(shown(title, error_of(title, Path(folder))) for title in ERRORS))
    print("\n".join(shown(title, record_error_of(title)) for title in WRONG_RECORDS))

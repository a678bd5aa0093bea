"""JSON Schema of specs, for editors: `# yaml-language-server: $schema=kgen.schema.json`."""

from __future__ import annotations

from typing import Any

from kgen.spec_model import ARCH, SpecModel


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) that a spec satisfies, short forms and architecture keys included."""
    schema = SpecModel.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    backend = definitions["BackendModel"]
    levels = backend["properties"].pop("archs")["additionalProperties"]
    backend["patternProperties"] = {f"^({ARCH.pattern})$": levels}
    text = {"type": ["string", "number"]}
    definitions["UseModel"] = {"anyOf": [text, {"type": "object", "properties": {"use": text}, "required": ["use"]}]}
    definitions["SizeModel"]["properties"].pop("definition")
    definitions["SizeModel"] = {"anyOf": [text, definitions["SizeModel"]]}
    for key in ("axes", "sizes", "tensors", "params"):  # null removes an entry of the spec that is extended
        patterns = schema["properties"][key]["patternProperties"]
        patterns.update({name: {"anyOf": [entry, {"type": "null"}]} for name, entry in patterns.items()})
    require = schema["properties"]["require"]
    schema["properties"]["require"] = {"anyOf": [require, require["items"]]}
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["extends"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "kgen spec"}

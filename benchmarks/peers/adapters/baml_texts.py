"""BAML's parser alone, through its runtime and without generated code: the target type is written here.

Arguments are read as the class `Arguments`, and calls as a list of classes with the name of a tool as a literal. BAML
returns every optional field; those that are null are left out, as absent ones are.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.peers.adapters.parser_jobs import Reader, Reading, Tools, jobs
from benchmarks.peers.adapters.protocol import Job, serve
from benchmarks.peers.adapters.text_jobs import text_jobs

BEFORE = """
client<llm> Nobody {
  provider "openai-generic"
  options {
    base_url "http://127.0.0.1:1"
    model "m"
  }
}
type Anything = int | float | bool | string | null | Anything[] | map<string, Anything>
class Arguments {
  city string?
  days int?
  exact bool?
  tags string[]?
  note string?
}
function Read() -> Arguments {
  client Nobody
  prompt #"read"#
}
"""
KINDS = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "array": "Anything[]"}


def write_types(tools: Tools) -> tuple[str, list[str]]:
    """A class for each tool, and a function that returns a list of them."""
    text, names = BEFORE, ["Arguments"]
    for number, tool in enumerate(tools):
        function = tool["function"]
        fields = function.get("parameters", {}).get("properties", {})
        lines = [
            f"  {field} {KINDS.get(schema.get('type'), 'map<string, Anything>')}?" for field, schema in fields.items()
        ]
        text += "\n".join([f"class Of{number} {{", *lines, "}", ""]) if lines else ""
        inner = f"Of{number}" if lines else "map<string, Anything>?"
        text += f'class Call{number} {{\n  name "{function["name"]}"\n  arguments {inner}\n}}\n'
        names += [f"Of{number}", f"Call{number}"]
    union = " | ".join(f"Call{number}" for number in range(len(tools)))
    if tools:
        text += f'function Calls() -> ({union})[] {{\n  client Nobody\n  prompt #"read"#\n}}\n'
    return text, names


@cache
def open_runtime(tools: str) -> tuple[Any, ModuleType]:
    text, names = write_types(json.loads(tools))
    pydantic = import_module("pydantic")
    module = ModuleType("types_of_the_tools")
    for name in names:
        setattr(module, name, pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="allow")))
    return import_module("baml_py").BamlRuntime.from_files(".", {"main.baml": text}, {}), module


def parse(tools: Tools, function: str, text: str) -> Any:
    runtime, module = open_runtime(json.dumps(tools))
    context = runtime.create_context_manager()
    found = runtime.parse_llm_response(function, text, module, module, module, False, context, None, None, {})
    return plain(found)


def plain(value: Any) -> Any:
    """Models as dicts, without the fields that are null."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    return [plain(each) for each in value] if isinstance(value, list) else value


def read_calls(text: str, tools: Tools, name: str) -> Reading:
    return "", [(call["name"], call.get("arguments", {})) for call in parse(tools, "Calls", text)]


def load(job: Job) -> Job:
    return {"names": []}


if __name__ == "__main__":
    reader = Reader(read_calls, None, None)
    serve(["baml-py"], {"load": load, **jobs(reader), **text_jobs(lambda text: parse([], "Read", text))})

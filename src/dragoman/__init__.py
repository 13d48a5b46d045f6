"""dragoman is a stack of small translators between models and tools.

Each translator takes pieces in and gives events out; none of them does I/O. The names below are loaded when they are
first used, so `import dragoman` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name for true; `typing` itself would be most of the cost of the import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dragoman import args, errors, events, formats, providers, stage, types, wire
    from dragoman.errors import DragomanError
    from dragoman.replies import fold, unfold
    from dragoman.toolset import Toolset
    from dragoman.types import File, Image, Message, Reply, Request, Text, Thinking, Tool, ToolCall, ToolResult
    from dragoman.verbs import decode_tool_calls, encode_definitions, encode_result

__version__ = "0.1.0"

_MODULES = frozenset({"args", "errors", "events", "formats", "providers", "stage", "types", "wire"})
_HOMES = {
    "DragomanError": "dragoman.errors",
    "File": "dragoman.types",
    "Image": "dragoman.types",
    "Message": "dragoman.types",
    "Reply": "dragoman.types",
    "Request": "dragoman.types",
    "Text": "dragoman.types",
    "Thinking": "dragoman.types",
    "Tool": "dragoman.types",
    "ToolCall": "dragoman.types",
    "ToolResult": "dragoman.types",
    "Toolset": "dragoman.toolset",
    "decode_tool_calls": "dragoman.verbs",
    "encode_definitions": "dragoman.verbs",
    "encode_result": "dragoman.verbs",
    "fold": "dragoman.replies",
    "unfold": "dragoman.replies",
}

__all__ = [
    "DragomanError",
    "File",
    "Image",
    "Message",
    "Reply",
    "Request",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Toolset",
    "__version__",
    "args",
    "decode_tool_calls",
    "encode_definitions",
    "encode_result",
    "errors",
    "events",
    "fold",
    "formats",
    "providers",
    "stage",
    "types",
    "unfold",
    "wire",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        # import_module itself sets the attribute on this package, so this runs once per name.
        return import_module(f"dragoman.{name}")
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""dragoman is a stack of small translators between models and tools.

Each translator takes pieces in and gives events out; none of them does I/O. The names below are loaded when they are
first used, so `import dragoman` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name for true; `typing` itself would be most of the cost of the import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dragoman import args, errors, events, formats, stage, types
    from dragoman.errors import DragomanError
    from dragoman.toolset import Toolset
    from dragoman.types import Message, Reply, Request, Tool, ToolCall, ToolResult

__version__ = "0.1.0"

_MODULES = frozenset({"args", "errors", "events", "formats", "stage", "types"})
_HOMES = {
    "DragomanError": "dragoman.errors",
    "Message": "dragoman.types",
    "Reply": "dragoman.types",
    "Request": "dragoman.types",
    "Tool": "dragoman.types",
    "ToolCall": "dragoman.types",
    "ToolResult": "dragoman.types",
    "Toolset": "dragoman.toolset",
}

__all__ = [
    "DragomanError",
    "Message",
    "Reply",
    "Request",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Toolset",
    "__version__",
    "args",
    "errors",
    "events",
    "formats",
    "stage",
    "types",
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

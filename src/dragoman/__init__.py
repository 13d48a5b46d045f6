"""dragoman is a stack of small translators between models and tools.

Each translator takes pieces in and gives events out; none of them does I/O. The names below are loaded when they are
first used, so `import dragoman` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name for true; `typing` itself would be most of the cost of the import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dragoman import (
        agent,
        args,
        builtin,
        client,
        config,
        doctor,
        errors,
        events,
        extraction,
        formats,
        journal,
        local,
        mcp,
        policy,
        providers,
        sandbox,
        secrets,
        stage,
        telemetry,
        testing,
        tools,
        types,
        wire,
    )
    from dragoman.agent import (
        Agent,
        Approval,
        ApprovalRequest,
        Connection,
        ContextSettings,
        Deny,
        Limits,
        RunFailed,
        RunResult,
        Safety,
        Stop,
    )
    from dragoman.client.api import aask, ask, astream, stream
    from dragoman.errors import DragomanError
    from dragoman.extraction import Extraction, extract, extractor
    from dragoman.formats import augment_system_prompt
    from dragoman.providers.definitions import decode_tool_calls, encode_definitions, encode_result
    from dragoman.replies import fold, unfold
    from dragoman.secrets import Scrubber, scrub
    from dragoman.tools import Context, Error, Halt, Ok, ToolContext, tool
    from dragoman.toolset import Toolset
    from dragoman.types import File, Image, Message, Reply, Request, Text, Thinking, Tool, ToolCall, ToolResult

__version__ = "0.1.0"

_MODULES = frozenset(
    {
        "agent",
        "args",
        "builtin",
        "client",
        "config",
        "doctor",
        "errors",
        "events",
        "extraction",
        "formats",
        "journal",
        "local",
        "mcp",
        "policy",
        "providers",
        "sandbox",
        "secrets",
        "stage",
        "telemetry",
        "testing",
        "tools",
        "types",
        "wire",
    }
)
_HOMES = {
    "Safety": "dragoman.agent",
    "RunFailed": "dragoman.agent",
    "ContextSettings": "dragoman.agent",
    "Connection": "dragoman.agent",
    "Agent": "dragoman.agent",
    "Approval": "dragoman.agent",
    "ApprovalRequest": "dragoman.agent",
    "Context": "dragoman.tools",
    "Deny": "dragoman.agent",
    "DragomanError": "dragoman.errors",
    "Error": "dragoman.tools",
    "Extraction": "dragoman.extraction",
    "File": "dragoman.types",
    "Halt": "dragoman.tools",
    "Image": "dragoman.types",
    "Limits": "dragoman.agent",
    "Message": "dragoman.types",
    "Ok": "dragoman.tools",
    "Reply": "dragoman.types",
    "Request": "dragoman.types",
    "RunResult": "dragoman.agent",
    "Scrubber": "dragoman.secrets",
    "Stop": "dragoman.agent",
    "Text": "dragoman.types",
    "Thinking": "dragoman.types",
    "Tool": "dragoman.types",
    "ToolCall": "dragoman.types",
    "ToolContext": "dragoman.tools",
    "ToolResult": "dragoman.types",
    "Toolset": "dragoman.toolset",
    "aask": "dragoman.client.api",
    "ask": "dragoman.client.api",
    "astream": "dragoman.client.api",
    "augment_system_prompt": "dragoman.formats",
    "decode_tool_calls": "dragoman.providers.definitions",
    "encode_definitions": "dragoman.providers.definitions",
    "encode_result": "dragoman.providers.definitions",
    "extract": "dragoman.extraction",
    "extractor": "dragoman.extraction",
    "fold": "dragoman.replies",
    "scrub": "dragoman.secrets",
    "stream": "dragoman.client.api",
    "tool": "dragoman.tools",
    "unfold": "dragoman.replies",
}

__all__ = [
    "Agent",
    "Approval",
    "ApprovalRequest",
    "Connection",
    "Context",
    "ContextSettings",
    "Deny",
    "DragomanError",
    "Error",
    "Extraction",
    "File",
    "Halt",
    "Image",
    "Limits",
    "Message",
    "Ok",
    "Reply",
    "Request",
    "RunFailed",
    "RunResult",
    "Safety",
    "Scrubber",
    "Stop",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "Toolset",
    "__version__",
    "aask",
    "agent",
    "args",
    "ask",
    "astream",
    "augment_system_prompt",
    "builtin",
    "client",
    "config",
    "decode_tool_calls",
    "doctor",
    "encode_definitions",
    "encode_result",
    "errors",
    "events",
    "extract",
    "extraction",
    "extractor",
    "fold",
    "formats",
    "journal",
    "local",
    "mcp",
    "policy",
    "providers",
    "sandbox",
    "scrub",
    "secrets",
    "stage",
    "stream",
    "telemetry",
    "testing",
    "tool",
    "tools",
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

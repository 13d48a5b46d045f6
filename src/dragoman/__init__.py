"""dragoman is a stack of small translators between models and tools.

Each translator takes input in pieces and returns events. It does no I/O. The names below are loaded on first use, so
`import dragoman` is cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Type checkers assume that this name is true. To import `typing` would be most of the cost of `import dragoman`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dragoman import (
        agent as agent,
        args as args,
        builtin as builtin,
        client as client,
        config as config,
        doctor as doctor,
        engine as engine,
        errors as errors,
        events as events,
        extraction as extraction,
        formats as formats,
        integrations as integrations,
        journal as journal,
        local as local,
        mcp as mcp,
        policy as policy,
        providers as providers,
        sandbox as sandbox,
        secrets as secrets,
        stage as stage,
        telemetry as telemetry,
        testing as testing,
        tools as tools,
        types as types,
        wire as wire,
    )
    from dragoman.agent import (
        Agent as Agent,
        Approval as Approval,
        ApprovalRequest as ApprovalRequest,
        Budget as Budget,
        Connection as Connection,
        ContextSettings as ContextSettings,
        Deny as Deny,
        Limits as Limits,
        RunFailed as RunFailed,
        RunResult as RunResult,
        Safety as Safety,
        Stop as Stop,
        ToolPrompt as ToolPrompt,
    )
    from dragoman.builtin.attachments import aattach as aattach, attach as attach
    from dragoman.client.api import aask as aask, ask as ask, astream as astream, stream as stream
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.extraction import Extraction as Extraction, extract as extract, extractor as extractor
    from dragoman.formats import augment_system_prompt as augment_system_prompt
    from dragoman.providers.definitions import (
        decode_tool_calls as decode_tool_calls,
        encode_definitions as encode_definitions,
        encode_result as encode_result,
    )
    from dragoman.replies import fold as fold, unfold as unfold
    from dragoman.secrets import Scrubber as Scrubber, scrub as scrub
    from dragoman.tools import (
        Context as Context,
        Error as Error,
        Halt as Halt,
        Ok as Ok,
        Retry as Retry,
        ToolContext as ToolContext,
        tool as tool,
    )
    from dragoman.toolset import Toolset as Toolset
    from dragoman.types import (
        File as File,
        Image as Image,
        Message as Message,
        Reply as Reply,
        Request as Request,
        Text as Text,
        Thinking as Thinking,
        Tool as Tool,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
    )

__version__ = "0.2.0.dev0"


def export_lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for a package whose names are loaded on first use.

    `homes` maps each module to its public names, separated by spaces, and the package itself to its modules. Type
    checkers cannot read this table, so the package repeats the names as imports for them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    module_globals = sys.modules[package].__dict__

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{home}.{name}" if home == package else home)
        value = module_globals[name] = module if home == package else getattr(module, name)
        return value

    def names() -> list[str]:
        return sorted({*module_globals, *home_of})

    return sorted(home_of), load, names


if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman": (
                "agent args builtin client config doctor engine errors events extraction formats integrations journal "
                "local mcp policy providers sandbox secrets stage telemetry testing tools types wire"
            ),
            "dragoman.agent": (
                "Agent Approval ApprovalRequest Budget Connection ContextSettings Deny Limits RunFailed RunResult"
                " Safety Stop ToolPrompt"
            ),
            "dragoman.builtin.attachments": "aattach attach",
            "dragoman.client.api": "aask ask astream stream",
            "dragoman.errors": "DragomanError",
            "dragoman.extraction": "Extraction extract extractor",
            "dragoman.formats": "augment_system_prompt",
            "dragoman.providers.definitions": "decode_tool_calls encode_definitions encode_result",
            "dragoman.replies": "fold unfold",
            "dragoman.secrets": "Scrubber scrub",
            "dragoman.tools": "Context Error Halt Ok Retry ToolContext tool",
            "dragoman.toolset": "Toolset",
            "dragoman.types": "File Image Message Reply Request Text Thinking Tool ToolCall ToolResult",
        },
    )
    __all__ += ["__version__"]

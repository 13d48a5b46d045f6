"""What the model is shown of a result, and what a tool that writes gets back: secrets leave, and return, unharmed."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from dragoman.secrets import ModelSink
from dragoman.types import JsonObject, Text, ToolResult

_TAGGED = re.compile(r"#[A-Za-z0-9]+-\d+\]\Z")
LOST = (
    "Not run: {name} stands for a secret that is not known any more. Read the file again, and use the placeholder that "
    "stands there now."
)


def hide_secrets(result: ToolResult, sink: ModelSink) -> ToolResult:
    """The result with a placeholder for each secret; what is for the caller alone stays as it is."""
    content = result.content
    if isinstance(content, str):
        hidden: Any = sink.text(content)
    else:
        hidden = [replace(part, text=sink.text(part.text)) if isinstance(part, Text) else part for part in content]
    return result if hidden == content else replace(result, content=hidden)


def restore_secrets(arguments: JsonObject, sink: ModelSink) -> tuple[JsonObject, str]:
    """The arguments with the secrets in the place of their placeholders; and the first placeholder of another run."""
    unknown: list[str] = []

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            if "[redacted:" not in value:
                return value
            restored = sink.restore(value)
            # Whoever writes about placeholders has none with a tag; those of another run have another one.
            unknown.extend(each for each in restored.unknown if _TAGGED.search(each))
            return restored.text
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items()}
        return [walk(inner) for inner in value] if isinstance(value, list) else value

    return walk(arguments), unknown[0] if unknown else ""

"""Instructions joined to a system prompt, for models that are not given tools in any other way."""

from __future__ import annotations

from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.nonce import nonce_format
from dragoman.formats.plan import Plan
from dragoman.formats.prompt import Layout, sample_calls, write_instructions
from dragoman.formats.registry import get, plan_for
from dragoman.formats.rendering import as_calls, render
from dragoman.formats.row import Format
from dragoman.toolset import Toolset

FULL_LIMIT = 4096
"""Bytes of a system prompt beyond which models without native tools lose the thread."""
_NONCE_NOTE = "The id is for this turn alone: copy it exactly into every call."


def instruct(
    tools: Toolset, format: str | Format, *, compact: bool, layout: Layout = "schema", nonce: str | None = None
) -> str:
    """The instructions for these tools and this format, with an example that its own parser has read."""
    if layout not in ("schema", "list"):
        raise ConfigError(f"unknown layout {layout!r}", hint="it is schema or list; compact=True is apart")
    row = nonce_format(nonce) if nonce is not None else format if isinstance(format, Format) else get(format)
    plan = plan_for(row if row is format or nonce is not None else row.name)
    note = "" if nonce is None else _NONCE_NOTE
    return write_instructions(tools, _example(tools, row, plan), compact=compact, layout=layout, note=note)


def _example(tools: Toolset, row: Format, plan: Plan) -> str:
    refusal: CannotExpress | None = None
    for sample in sample_calls(tools):
        try:
            return render(as_calls([sample]), row, plan)
        except CannotExpress as cannot:
            refusal = refusal or cannot
    raise refusal or CannotExpress("$", "this format can write no example")


def augment(existing: str | None, instructions: str) -> str:
    """The user's prompt as it stands, one blank line, then the instructions."""
    return f"{existing}\n\n{instructions}" if existing else instructions


def needs_compact(prompt: str, *, native: bool, weak: bool) -> str | None:
    """Why the compact instructions should be taken instead of this full prompt; None if it may stay."""
    if weak:
        return "the model's profile says that it is weak"
    size = len(prompt.encode("utf-8", "surrogatepass"))
    if not native and size > FULL_LIMIT:
        return f"the prompt takes {size} bytes, and a model without native tools follows {FULL_LIMIT} at most"
    return None

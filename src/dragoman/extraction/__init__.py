"""Extraction of the tool calls of a reply, with a trust level for each call.

`extract` accepts a reply in many forms, finds the calls in native fields and in text, and rates how far each can be
trusted. It never raises an exception for the output of a model, and always returns an `Extraction`, which may contain
no calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.extraction.echo import EchoIndex
    from dragoman.extraction.judge import Extraction as Extraction
    from dragoman.extraction.judge import Extractor as Extractor
    from dragoman.extraction.mistakes import as_result as as_result
    from dragoman.extraction.mistakes import explain_invalid as explain_invalid
    from dragoman.extraction.responses import ConversationContext as ConversationContext
    from dragoman.extraction.suspects import Suspect as Suspect
    from dragoman.extraction.trust import Profile
    from dragoman.types import Message
else:
    from dragoman import export_lazily

    # Code that needs only a trust profile does not load the parsers of all formats.
    _, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.extraction.judge": "Extraction Extractor",
            "dragoman.extraction.mistakes": "as_result explain_invalid",
            "dragoman.extraction.responses": "ConversationContext",
            "dragoman.extraction.suspects": "Suspect",
        },
    )

__all__ = [
    "ConversationContext",
    "Extraction",
    "Extractor",
    "Suspect",
    "as_result",
    "explain_invalid",
    "extract",
    "extractor",
]

if TYPE_CHECKING:
    Conversation = Iterable[Message | Mapping[str, Any]] | EchoIndex | ConversationContext | None


def extract(
    response: Any,
    capabilities: Any = None,
    *,
    tools: Any = None,
    trust: str | Profile = "default",
    conversation: Conversation = None,
    nonce: str | None = None,
    family: Iterable[str] | None = None,
    aliases: Mapping[str, str] | None = None,
    format: str = "auto",
    include_user: bool = False,
    starts_in_thinking: bool = False,
    opens_thinking: bool = False,
    text_calls: bool = True,
) -> Extraction:
    """Return the calls in a response: a body of any wire, a Reply, a mapping of `text` and `tool_calls`, or text.

    `capabilities` (a mapping, or the Capabilities of a provider) says whether the endpoint has native calls.
    `conversation` contains the earlier messages: a call that is copied from a result in them is refused. `family` lists
    the formats of the model, `nonce` is the nonce of this turn's wrapper, `aliases` maps other names to tools.
    `starts_in_thinking` says that the text begins inside the reasoning. `opens_thinking` says that the prompt template
    of the model opens it: calls before the closing tag are drafts, and a reply without that tag has no reasoning.
    With `text_calls=False`, no text is read as a call: only calls in fields of the wire count.
    """
    from dragoman.extraction.judge import settle
    from dragoman.extraction.responses import receive

    stage = extractor(
        capabilities,
        tools=tools,
        trust=trust,
        conversation=conversation,
        nonce=nonce,
        family=family,
        aliases=aliases,
        format=format,
        include_user=include_user,
        starts_in_thinking=starts_in_thinking,
        opens_thinking=opens_thinking,
        text_calls=text_calls,
    )
    settings = stage.settings
    return settle(receive(response, settings.book.tools, settings.background.ids), None, settings)


def extractor(
    capabilities: Any = None,
    *,
    tools: Any = None,
    trust: str | Profile = "default",
    conversation: Conversation = None,
    nonce: str | None = None,
    family: Iterable[str] | None = None,
    aliases: Mapping[str, str] | None = None,
    format: str = "auto",
    include_user: bool = False,
    starts_in_thinking: bool = False,
    opens_thinking: bool = False,
    text_calls: bool = True,
) -> Extractor:
    """Return a Stage for a streamed reply. It takes text or the events of a wire; `.extraction` is set at the end."""
    from dragoman.extraction.judge import Extractor, Settings, ToolNames
    from dragoman.extraction.responses import ConversationContext
    from dragoman.extraction.trust import get_profile

    book = ToolNames(tools, aliases)
    if not isinstance(conversation, ConversationContext):
        conversation = ConversationContext(conversation, book.offered, include_user=include_user)
    settings = Settings(
        get_profile(trust),
        book,
        conversation,
        _ask(capabilities, "native_tool_calls", "native_tool_calling") is not False,
        _ask(capabilities, "self_contained", "self_contained_tools") is True,
        nonce,
        None if family is None else tuple(family),
        format,
        starts_in_thinking,
        opens_thinking,
        text_calls,
    )
    return Extractor(settings)


def _ask(capabilities: Any, *names: str) -> Any:
    """Return one capability, under any of its names; None if it is not given."""
    get = capabilities.get if isinstance(capabilities, Mapping) else lambda name: getattr(capabilities, name, None)
    return next((value for value in map(get, names) if value is not None), None)

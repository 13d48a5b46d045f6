"""Quirks: named flags for the deviations of endpoints from their wire.

A codec is the same for every endpoint of its wire. A deviation of an endpoint is a flag here: a row of the provider
table sets it, and the codec reads it. The defaults describe the vendor of the wire.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Quirks(Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of one endpoint. A codec ignores flags that do not apply to its wire."""

    # ---- requests -----------------------------------------------------------------------------------------------
    empty_content: Literal["null", "", "omit"] = "null"
    """How an assistant message with calls and no text is written: `content: null`, `content: ""`, or no such key."""
    max_tokens_field: str = ""
    """The name under which the limit of output tokens is sent; empty means the wire's own."""
    stream_usage: bool = True
    """Ask for the usage of a streamed reply (`stream_options.include_usage`)."""
    tool_choice: tuple[str, ...] = ("auto", "none", "required", "named")
    """The kinds of tool choice that are honoured. Others are approximated, and the report says so."""
    parallel_flag: bool = True
    """Whether the switch that forbids parallel calls may be sent."""
    developer_role: bool = False
    """Write system messages with the role `developer`."""
    system_first: bool = False
    """System messages are taken only at the front; later ones become labelled user text."""
    needs_user: bool = False
    """The prompt template fails on a conversation without a user message."""
    alternates: bool = False
    """User and assistant must take turns; messages of the same role are merged."""
    bridges_results: bool = False
    """A user message directly after results is refused: an assistant message is put between."""
    result_images: bool = False
    """Results may hold images, where the wire's own vendor takes only text."""
    id_pattern: str = ""
    """A regular expression that ids of calls must match; empty means the wire's own rule."""
    name_limit: int = 0
    """The longest name of a tool; 0 means the wire's own limit."""
    sends_sampling: bool = True
    """Sampling options (temperature and similar) may be sent."""
    strict_tools: bool = False
    """Compile the schemas of tools for the strict mode of the wire and ask for it."""
    json_schema: bool = False
    """Gemini: declare parameters as standard JSON Schema (`parametersJsonSchema`) instead of the subset."""
    inline_references: bool = False
    """Write schemas without `$ref`: the model behind the endpoint does not follow them."""
    effort_with_tools: str = ""
    """OpenAI chat: the reasoning effort without which tools are refused (gpt-5.4 and later: `none`); empty: any."""
    standard_fields_only: bool = False
    """OpenAI chat, Mistral: unknown fields are refused, so nothing is sent that neither the documentation of the wire
    nor `own_fields` names. The report lists what was left out."""
    own_fields: tuple[str, ...] = ()
    """With `standard_fields_only`: the fields of a body that the vendor documents beside those of the wire."""
    grammar_field: str = ""
    """The field that takes a grammar for the reply, with a dot for a field in a field; empty: none is taken."""
    grammar_syntax: Literal["gbnf", "lark", "json_schema"] = "gbnf"
    """How that grammar is written."""
    context_window: int = 0
    """Ollama, local: the context to ask for; 0 leaves it to the server, and Ollama cuts tools silently."""

    # ---- reasoning ----------------------------------------------------------------------------------------------
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "think_tags", ""] = ""
    """OpenAI chat: where readable reasoning is written when it is sent back; empty means it is not sent."""
    replay_reasoning: Literal["never", "calls", "always"] = "never"
    """Which assistant messages need their reasoning back: none, those with calls, or all of them."""
    unsigned_thinking: bool = False
    """Anthropic: thinking without a signature is sent back too (compatible endpoints ask for it)."""
    call_signatures: bool = False
    """Gemini 3: the first call of each step needs a thought signature; calls of other models get the placeholder."""
    foreign_reasoning: Literal["drop", "text"] = "drop"
    """Reasoning of another wire: leave it out, or keep its words as text in `<previous_reasoning>`."""
    reasoning_as_content: bool = False
    """Take reasoning for the answer when the content is empty. It leaks reasoning into answers: off by default."""

    # ---- replies ------------------------------------------------------------------------------------------------
    masks_length: bool = False
    """The finish reason says `tool_calls` also when the limit cut the reply (vLLM): usage tells."""
    final_frame: bool = True
    """A stream ends with the wire's last frame (`[DONE]`). False for servers that leave it out: then the finish reason
    counts as the end, and a connection that breaks between the two goes unnoticed."""


DEFAULTS = Quirks()

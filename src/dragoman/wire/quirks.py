"""Quirks: named flags for the deviations of endpoints from their wire, each with its default.

All endpoints of a wire share one codec. A deviation of an endpoint is a flag in this module: a row of the provider
table sets it, and the codec reads it. The defaults describe the endpoint of the wire's own vendor.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Quirks(Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of one endpoint. A codec ignores the flags that its wire does not use."""

    # ---- requests -----------------------------------------------------------------------------------------------
    empty_content: Literal["null", "", "omit"] = "null"
    """The content of an assistant message with calls and no text: `content: null`, `content: ""`, or no such key."""
    max_tokens_field: str = ""
    """The name of the field for the limit of output tokens; empty means the wire's own."""
    stream_usage: bool = True
    """Request the usage of a streamed reply (`stream_options.include_usage`)."""
    tool_stream: bool = False
    """OpenAI chat: send `tool_stream` with a streamed request that offers tools. Without it, Z.ai sends calls whole."""
    tool_choice: tuple[str, ...] = ("auto", "none", "required", "named")
    """The kinds of tool choice that the endpoint enforces. The codec approximates the others and reports a loss."""
    parallel_flag: bool = True
    """The endpoint accepts the option that forbids parallel calls."""
    developer_role: bool = False
    """Send system messages with the role `developer`."""
    system_first: bool = False
    """The endpoint accepts system messages only at the front; later ones are sent as labelled user text."""
    system_role: bool = True
    """False for models whose prompt template has no system role: system messages are sent as text of the user."""
    needs_user: bool = False
    """The prompt template fails on a conversation without a user message."""
    alternates: bool = False
    """User and assistant messages must alternate; adjacent messages of the same role are merged."""
    bridges_results: bool = False
    """The endpoint rejects a user message directly after results: an assistant message is inserted between them."""
    images: bool = True
    """False for a model that takes only text: text files are sent as text, and other files are named in the report."""
    result_images: bool = False
    """Results may contain images, although the wire's own vendor accepts only text."""
    id_pattern: str = ""
    """The regular expression that ids of calls must match; empty means the wire's own rule."""
    name_limit: int = 0
    """The maximum length of a tool name; 0 means the wire's own limit."""
    sends_sampling: bool = True
    """The endpoint accepts temperature and the other sampling options."""
    strict_tools: bool = False
    """Compile the schemas of tools for the strict mode of the wire, and request that mode."""
    json_schema: bool = False
    """Gemini: declare parameters as standard JSON Schema (`parametersJsonSchema`) instead of the subset."""
    inline_references: bool = False
    """Send schemas without `$ref`: the model behind the endpoint does not resolve references."""
    effort_with_tools: str = ""
    """OpenAI chat: the only reasoning effort that is accepted with tools (gpt-5.4 and later: `none`); empty: any."""
    standard_fields_only: bool = False
    """OpenAI chat, Mistral: the endpoint rejects unknown fields, so only fields that the documentation of the wire or
    `own_fields` names are sent. The report lists the omitted fields."""
    own_fields: tuple[str, ...] = ()
    """With `standard_fields_only`: the fields of a body that the vendor documents in addition to those of the wire."""
    grammar_field: str = ""
    """The field for a grammar of the reply; a dot separates nested fields; empty: grammars are not accepted."""
    grammar_syntax: Literal["gbnf", "lark", "json_schema"] = "gbnf"
    """The notation of that grammar."""
    weighs_calls: bool = False
    """The endpoint reads `alternatives`, and decides by likelihoods whether a weak model calls a tool (local)."""
    marks_cache: bool = False
    """Anthropic: set marks for the prompt cache, unless the option `cache` decides or the request has its own marks. A
    single question without tools gets none, because to write a cache costs more than to read the prompt once."""
    context_window: int = 0
    """Ollama, local: the context window to request; 0 means the server's default, with which Ollama silently truncates
the tools."""

    # ---- reasoning ----------------------------------------------------------------------------------------------
    reasoning_field: Literal[
        "reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "think_tags", ""
    ] = ""
    """OpenAI chat: the field in which readable reasoning is sent back; empty means that it is not sent. In
    `reasoning_text` (Copilot), only reasoning of such an endpoint is sent, with its opaque part."""
    replay_reasoning: Literal["never", "calls", "always"] = "never"
    """The assistant messages whose reasoning must be sent back: none, those with calls, or all of them."""
    unsigned_thinking: bool = False
    """Anthropic: thinking without a signature is sent back too (compatible endpoints require it)."""
    call_signatures: bool = False
    """Gemini 3: the first call of each step needs a thought signature; calls of other models get the placeholder."""
    foreign_reasoning: Literal["drop", "text"] = "drop"
    """Reasoning of another wire: omit it, or send it as text in `<previous_reasoning>`."""
    reasoning_as_content: bool = False
    """Use the reasoning as the answer if the content is empty. Off by default: it leaks reasoning into answers."""

    # ---- replies ------------------------------------------------------------------------------------------------
    masks_length: bool = False
    """The finish reason hides that the token limit truncated the reply (vLLM); the usage shows it. A call in a reply
    with exactly as many tokens as allowed counts as truncated everywhere."""
    final_frame: bool = True
    """A stream ends with the wire's last frame (`[DONE]`). False for servers that omit it: then the finish reason is
    the end, and a connection that breaks between the two is not detected."""


DEFAULTS = Quirks()

"""Estimates of the number of tokens in a conversation, and the context windows of models.

The tokenizers of most models are not available. The estimate counts characters by kind, at a rate per model family, and
corrects the rate by the usage that the provider reports after each request. It errs on the high side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil
from operator import is_
from typing import Any

import msgspec

from dragoman.providers.endpoint import Endpoint
from dragoman.providers.provider import UNKNOWN, Profile, plain_name
from dragoman.types import File, Image, InvalidCall, Message, Part, Text, Thinking, Tool, ToolCall, ToolResult

CHARACTERS_PER_TOKEN = 3.6
"""The rate for English text in a model family without a measurement."""
IMAGE_TOKENS = 1500
FILE_TOKENS = 1500

_JSON = 0.8  # JSON needs more tokens than prose: this many characters of JSON count as one character of prose
_BYTES_PER_TOKEN = 4.5  # of other scripts in UTF-8: about 1.5 characters of Chinese, 2.2 of Russian
_MESSAGE = 4.0
_CALL = 8.0
_TOOL = 12.0
_FILE_BYTES_PER_TOKEN = 20.0

# The first family whose prefix matches. The names are those of providers/profiles.toml.
_RATES = (
    ("claude", 3.3),
    ("gpt_5", 4.0),
    ("gpt", 3.9),
    ("openai", 4.0),
    ("gemini", 3.9),
    ("gemma", 3.8),
    ("llama", 3.8),
    ("qwen", 3.7),
    ("kimi", 3.8),
    ("mistral", 3.5),
    ("magistral", 3.5),
    ("phi", 3.5),
)

_LEAST_TO_LEARN = 50  # tokens; smaller requests consist mostly of the provider's own wrapper
_LOWEST, _HIGHEST = 0.25, 4.0
_WEIGHT = 0.5
_SPARE = 64  # the number of stored weights of removed messages before they are deleted

_write = msgspec.json.Encoder(enc_hook=str).encode


class Estimate:
    """Counts the tokens of one conversation with one model, and learns from the reported usage.

    Each message is counted once, so that the total work is linear in the length of the conversation.
    """

    def __init__(self, target: str | Profile | Endpoint = "", *, characters_per_token: float | None = None) -> None:
        self._rate = characters_per_token or rate_of(target)
        replays = isinstance(target, Endpoint) and target.quirks.replay_reasoning != "never"
        self._counts_thinking = replays or (isinstance(target, Profile) and target.replay != "never")
        self._factor = 1.0
        self._weights: dict[int, tuple[Message, float]] = {}
        self._tools: tuple[Tool, ...] = ()
        self._of_tools = 0.0

    @property
    def factor(self) -> float:
        """The learned correction: reported tokens per estimated token."""
        return self._factor

    def count(self, messages: Sequence[Message], tools: Iterable[Tool] = ()) -> int:
        """Return the tokens of a request."""
        return ceil(self.measure(messages, tools))

    def measure(self, messages: Sequence[Message], tools: Iterable[Tool] = ()) -> float:
        """Return the tokens of a request with the fraction, so that sums are exact."""
        return self._factor * (self._sum(messages) + (self._sum_tools(tuple(tools)) if tools else 0.0))

    def of(self, message: Message) -> float:
        """Return the tokens of one message, with the fraction."""
        return self._factor * self._weight(message)

    def characters(self, messages: Sequence[Message], tools: Iterable[Tool] = ()) -> int:
        """Return the size of a request in characters of plain English. Other scripts, JSON and images count more."""
        return int(self._rate * (self._sum(messages) + self._sum_tools(tuple(tools))))

    def learn(self, sent_characters: int, reported_input_tokens: int) -> None:
        """Correct the rate: `sent_characters` is what `characters` returned, the tokens are the reported ones.

        One report moves the rate at most half of the way, and within bounds: some providers report wrong numbers.
        """
        if reported_input_tokens < _LEAST_TO_LEARN or sent_characters < _LEAST_TO_LEARN * self._rate:
            return
        seen = reported_input_tokens * self._rate / sent_characters
        step = min(max(seen / self._factor, 0.5), 2.0)
        self._factor = min(max(self._factor * (1 + _WEIGHT * (step - 1)), _LOWEST), _HIGHEST)

    # ---- weighing: tokens before correction --------------------------------------------------------------------------

    def _sum(self, messages: Sequence[Message]) -> float:
        total = sum(map(self._weight, messages))
        if len(self._weights) > 2 * len(messages) + _SPARE:
            kept = {id(message) for message in messages}
            self._weights = {key: entry for key, entry in self._weights.items() if key in kept}
        return total

    def _weight(self, message: Message) -> float:
        known = self._weights.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        weight = self._weigh(message)
        # The message is kept with its weight, so that no other one can come to have the same id.
        self._weights[id(message)] = (message, weight)
        return weight

    def _sum_tools(self, tools: tuple[Tool, ...]) -> float:
        if len(tools) != len(self._tools) or not all(map(is_, tools, self._tools)):
            self._tools = tools
            self._of_tools = sum(
                _TOOL + self._weigh_text(tool.name + tool.description) + self._weigh_json(tool.parameters)
                for tool in tools
            )
        return self._of_tools

    def _weigh(self, message: Message) -> float:
        return _MESSAGE + sum(map(self._weigh_part, message.parts))

    def _weigh_part(self, part: Part) -> float:
        if isinstance(part, Text):
            return self._weigh_text(part.text)
        if isinstance(part, ToolResult):
            return _CALL + self._weigh_content(part.content)
        if isinstance(part, ToolCall):
            return _CALL + self._weigh_text(part.name) + self._weigh_json(part.arguments)
        if isinstance(part, Thinking):
            return self._weigh_text(part.text) if self._counts_thinking else 0.0
        if isinstance(part, InvalidCall):
            return _CALL + self._weigh_text(part.name) + self._weigh_text(part.raw, dense=True)
        return self._weigh_media(part)

    def _weigh_content(self, content: str | list[Text | Image | File]) -> float:
        if isinstance(content, str):
            return self._weigh_text(content, dense=content[:1] in ("{", "["))
        return sum(self._weigh_text(part) if isinstance(part, str) else self._weigh_part(part) for part in content)

    def _weigh_media(self, part: Image | File) -> float:
        if isinstance(part, Image):
            return IMAGE_TOKENS
        size = len(part.data or "") * 0.75
        if (part.media_type or "").startswith("text/"):
            return size / self._rate
        return max(FILE_TOKENS, size / _FILE_BYTES_PER_TOKEN)

    def _weigh_json(self, value: Any) -> float:
        try:
            return self._weigh_text(_write(value).decode(), dense=True)
        except (ValueError, RecursionError, TypeError):
            return self._walk(value)

    def _walk(self, value: Any) -> float:
        """Return the weight of what JSON cannot represent: lone surrogates, deep nesting, infinite numbers."""
        weight = 0.0
        waiting = [value]
        while waiting:
            item = waiting.pop()
            weight += 1.0
            if isinstance(item, dict):
                waiting += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple):
                waiting += item
            elif isinstance(item, str):
                weight += self._weigh_text(item, dense=True)
            elif isinstance(item, int):
                weight += item.bit_length() / 10  # ten bits are three digits, which are one token
        return weight

    def _weigh_text(self, text: str, *, dense: bool = False) -> float:
        rate = self._rate * _JSON if dense else self._rate
        if text.isascii():
            return len(text) / rate
        plain = len(text.encode("ascii", "ignore"))
        return plain / rate + (len(text.encode("utf-8", "surrogatepass")) - plain) / _BYTES_PER_TOKEN


def rate_of(target: str | Profile | Endpoint) -> float:
    """Characters of English text per token."""
    if isinstance(target, str):
        from dragoman.providers.registry import shipped

        known = shipped().profile(target)
        # `provider:model`, or a model name that contains a colon.
        target = known if known != UNKNOWN else shipped().profile(target.partition(":")[2])
    family = (target.profile if isinstance(target, Endpoint) else target).name
    return next((rate for prefix, rate in _RATES if family.startswith(prefix)), CHARACTERS_PER_TOKEN)


# ---- windows -------------------------------------------------------------------------------------------------------

# The context window in tokens by the prefix of the plain model name; the first match wins. If the window differs
# between the members of a family, or between its hosts, the table has the smallest.
_WINDOWS = tuple(
    (re.compile(pattern).match, tokens)
    for pattern, tokens in (
        (r"gpt-oss", 131_072),
        (r"gpt-5(-\d)?-chat|chatgpt|gpt-4o|gpt-4-(turbo|1106|0125)", 128_000),
        (r"gpt-6|gpt-5-6", 922_000),
        (r"gpt-5-[45](?!-(mini|nano))", 1_050_000),
        (r"gpt-5|codex", 272_000),
        (r"gpt-4-1", 1_047_576),
        (r"gpt-4", 8_192),
        (r"gpt-3-5", 16_385),
        (r"o[134](-|$)", 200_000),
        (r"claude-(opus-(4-[6-9]|[5-9])|sonnet-(4-[6-9]|[5-9])|haiku-([5-9])|fable|mythos)", 1_000_000),
        (r"claude-(2-0|instant)", 100_000),
        (r"claude", 200_000),
        (r"gemini-(2-5|[3-9]|flash|pro-latest)", 1_048_576),
        (r"gemma-3|gemma-4", 131_072),
        (r"deepseek-(v4|flash)", 1_000_000),
        (r"deepseek", 131_072),
        (r"mistral-large-4", 1_048_576),
        (r"mistral-large|mistral-medium|mistral-small-(2603|latest)|ministral-(14b|8b)|magistral|devstral", 131_072),
        (r"codestral|open-mistral-nemo", 128_000),
        (r"command-a-03", 256_000),
        (r"command|c4ai", 128_000),
        (r"grok-4-(3|20)", 1_000_000),
        (r"grok-4-[567]", 500_000),
        (r"grok-(4|code)", 256_000),
        (r"grok-3", 131_072),
        (r"kimi-k3", 1_048_576),
        (r"kimi-k2-[5-9]", 262_144),
        (r"kimi-k2", 131_072),
        (r"glm-5-[23]", 1_000_000),
        (r"glm-(5|4-[67])", 200_000),
        (r"glm-4-5", 128_000),
        (r"minimax-m", 200_000),
        (r"qwen3-[78]-(max|plus|flash)", 991_808),
        (r"qwen3-(next|max|coder)", 252_000),
        (r"qwen-(plus|turbo)|qwen3", 129_024),
        (r"nova-(2|premier)", 1_000_000),
        (r"nova-(pro|lite)", 300_000),
        (r"nova-micro", 128_000),
        (r"llama-?v?(3-[1-9]|4)", 128_000),
        (r"jamba", 256_000),
        (r"sonar-pro", 200_000),
        (r"sonar", 128_000),
    )
)


def window(endpoint: Endpoint, override: int | None = None) -> int | None:
    """Return the maximum number of tokens of a request and its reply together; None if it is unknown.

    The setting of the user has priority, then what the server reports or a probe found, then the value of the vendor.
    The window of a local server depends on its start options, so no other value is assumed.
    """
    if override:
        return override
    if endpoint.quirks.context_window:
        return endpoint.quirks.context_window
    if endpoint.provider.group in ("local", "custom"):
        return None
    name = plain_name(endpoint.model)
    return next((tokens for match, tokens in _WINDOWS if match(name)), None)

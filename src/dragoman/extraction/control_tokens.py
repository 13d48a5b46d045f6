"""Control strings: the tokens of chat templates, call markers and result tags, broken in foreign text and restored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from dragoman.extraction.text_views import look_at
from dragoman.formats.plan import compile_entries
from dragoman.formats.registry import get, rows
from dragoman.formats.renderer import write_template
from dragoman.formats.template import Format, Literal, Many, Maybe, Node, compile_template
from dragoman.formats.thinking import pairs
from dragoman.formats.unmarked import RESULT_TAGS
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# Control strings: the tokens of chat templates, call markers and result tags of every model family.
#
# Inside a tool result they are data. A tokenizer that reads special tokens out of plain text, or a model that takes
# them as its own, misreads them. So this module knows them; they come from the catalogue of formats where it has them.

CHAT_TOKENS: dict[str, tuple[str, ...]] = {
    "ChatML": ("<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>"),
    "Llama 3": (
        *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
        *("<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|header_start|>", "<|header_end|>", "<|eot|>"),
    ),
    "Llama 2 and Mistral": (
        *("<s>", "</s>", "<unk>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
        *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"),
    ),
    "Gemma": (
        *("<bos>", "<eos>", "<pad>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>"),
        *("<|tool>", "<tool|>", "<|tool_response>", "<tool_response|>"),
        *("<start_function_declaration>", "<end_function_declaration>"),
        *("<start_function_response>", "<end_function_response>"),
    ),
    "DeepSeek": (
        *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    ),
    "Phi and others with plain roles": ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"),
    "GLM": ("[gMASK]", "<sop>", "<eop>", "<|observation|>"),
    "Cohere": ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>"),
    "harmony": ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>", "<|return|>"),
}
"""The tokens of chat templates around messages. Tags of reasoning come from the catalogue."""

# The patterns of turns. A control token before the name of a role starts one. The marks of calls stand before names of
# tools.
_CALLS = "call|tool|function|action|open|close|sep|channel|message|constrain|python|argument|think|invoke"
TURN_STARTS = (
    rf"(?:<\|(?![^<>|\n]{{0,60}}?(?:{_CALLS}))[^<>|\n]{{1,60}}\|?>|<(?:start_of_turn|seed:bos|bos|role)>|\]~b\]|\[\|)"
)
"""The token before the name of a role."""
_OWN_ROLES = "(?:assistant|model|ai|bot|gpt|chatbot)"
OWN_TURNS = (
    rf"(?:<\|{_OWN_ROLES}(?:_token)?\|>"
    rf"|{TURN_STARTS}[ \t]{{0,4}}{_OWN_ROLES}\b(?:<\|[^<>|\n]{{1,60}}\|>|\|\]|</role>)?)"
)
"""The start of a turn of the model."""
_WORD_END = r"(?:end|eot|eom|eos|return|endof[a-z]{1,12})"
TURN_ENDS = (
    rf"<\|(?![^<>|\n]*(?:header|of_role))(?:[^<>|\n]{{0,40}}[^<>|\na-z])?{_WORD_END}(?:[^<>|\na-z][^<>|\n]{{0,40}})?\|?>"
    r"|</s>|<(?:seed:)?eos>|<end_of_turn>|<(?:turn|tool_response)\|>|\[e~\[|\[\|endofturn\|\]"
)
"""The end of a turn."""

_RESULTS = tuple(f"{opener}{tag}" for tag in RESULT_TAGS for opener in ("<", "</"))

# The control tokens of tokenizers have few shapes: a token of a family that nobody listed has one of them as well. Each
# list belongs to a first character. An outer token matches although it contains another one: otherwise the break of the
# inner one would complete it.
_ENDS = "bos|eos|bot|eot|eom|eop|sop|eod|pad|unk|sep|cls"
_UNITS = "turn|text|message|header|system|assistant|tool|function|thought|think|role|prompt"
_PARTS = "think|thinking|observation|tool_calls?|tool_response|tool_result|arg_key|arg_value|function_calls?"
_NUMBERED = r"/?[a-z_]{0,20}(?:extra|reserved|unused|special|control|pad|mask)[a-z_:]{0,20}\d{1,6}"
_SHAPES: dict[str, tuple[str, ...]] = {
    "<": (
        r"/?\|[^<>|\n]{1,80}\|>|\|[^<>|\n]{0,80}<[\w:.\-]{1,40}\|>",  # <|im_start|>, and with full-width bars
        rf"\|[\w:.\-]{{1,40}}>|/?[\w:.\-]{{1,40}}\|>|/?\w{{1,20}}\|(?:{_PARTS})>",  # <|turn>, <turn|>, <ifm|think>
        _NUMBERED + ">",  # <extra_id_0>, <reserved_106>, <unused7>, <SPECIAL_10>
        rf"/?(?:{_ENDS})(?:_id|_token)?>",
        rf"/?(?:start|begin|end)_(?:of_[a-z_]{{2,30}}|(?:{_UNITS})[a-z_]{{0,20}})>|/?(?:{_UNITS})_(?:start|begin|end)>",
        rf"/?[a-z]\w{{0,20}}:(?:bos|eos|pad|unk|cot_\w{{1,30}}|{_PARTS})>",  # <seed:bos>
        rf"/?[a-z0-9]{{2,20}}_(?:{_PARTS})>",  # <longcat_observation>
        r"/?fim_[a-z]{2,12}>",
        r"_(?:user|bot|system|tool|start|end)>|用户>|ai>",  # TeleChat, MiniCPM
        r"/?role>",  # Ling
        r"<(?:result|end)[ \t][^>\n]{1,400}>>",  # the lines of our own envelope
    ),
    "[": (
        r"\|[a-z_ ]{3,40}\|\]",  # EXAONE
        rf"(?<![\w\])]\[){_NUMBERED}\]",  # [UNUSED_TOKEN_145], [control_8]; not an index in a program
        rf"(?<![\w\])]\[)(?-i:/?(?:{_ENDS.upper()}|[gs]?MASK)\])",
        r"(?-i:/?(?=[A-Z]*_)(?:[A-Z]+_){0,3}(?:TOOLS?|PROMPT|INST|CALLS?|TURN|MODEL)(?:_[A-Z]+){0,3}\])",
        r"(?:start|end)_header_id\]",  # Kimi
        r"[a-z]~\[",  # MiniMax, and the next line
    ),
    "]": (r"~![a-z]\[|~[a-z]\]|![a-z]~\[|<\][^\n]{1,40}?\[>\[",),
    ">": (r">(?-i:[A-Z_]{3,24})<<",),  # Falcon
}

_TOO_COMMON = frozenset(("```", "```json", "~~~"))
_begins_like_a_token = re.compile(r"[<\[\]`~◁]").match
_tags = re.compile(r"</?[A-Za-z_][\w:.\-]*\|?(?:>|(?= ))|\[/?[A-Z_]+\]").findall
_SAMPLE = ToolCall("", "zz_name", {"zz_key": "zz_value", "zz_other": 1})


def control_strings(family: str | None = None) -> frozenset[str]:
    """Return the control strings of one format, or of all formats; always including those of chat templates.

    Plain words that some formats use as markers (`Action:`, `functools`) are not included: no tokenizer knows them.
    """
    found = {token for tokens in CHAT_TOKENS.values() for token in tokens}
    found.update(_RESULTS)
    found.update(tag for pair in pairs(named=False) for tag in pair)
    for row in _family(family):
        found.update(_strings_of(row))
    return frozenset(token for marker in found if _is_token(token := _without_words(marker)))


def _family(family: str | None) -> tuple[Format, ...]:
    return tuple(rows()) if family is None or family == "auto" else (get(family),)


def _without_words(marker: str) -> str:
    """Return the last part of a marker: to break `function call<|role_sep|>` it is enough to break its second half."""
    bar = marker.find("<|")
    return marker[bar:] if bar > 0 and marker[0].isalpha() else marker


def _is_token(marker: str) -> bool:
    return len(marker) > 2 and _begins_like_a_token(marker) is not None and marker not in _TOO_COMMON


def _strings_of(row: Format) -> Iterator[str]:
    """Return every string in a row that is markup and not content."""
    yield from (opener for entry in compile_entries(row, named=True) for opener in entry.openers)
    yield from (tag.strip() for tag in row.section or ())
    yield from row.drop
    yield from (tag.strip() for pair in row.thinking for tag in pair)
    for spellings in row.spellings.values():
        yield from spellings
    for source in (row.template, *row.also):
        yield from _literals(compile_template(source)) if source else ()
    # Custom readers know their end markers themselves; an example that they write shows them.
    yield from (tag for tag in _tags(write_template([_SAMPLE], row)) if "zz_" not in tag)


def _literals(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Literal):
            yield node.text
        elif isinstance(node, Many | Maybe):
            yield from _literals(node.body)


# ---- the search ------------------------------------------------------------------------------------------------------

_searches: dict[tuple[int, ...], tuple[tuple[Format, ...], re.Pattern[str]]] = {}


def token_search(family: str | None = None) -> re.Pattern[str]:
    """Return a search for the first character of every control string in a view, including overlapping ones."""
    chosen = _family(family)
    key = tuple(map(id, chosen))
    kept = _searches.get(key)
    if kept is None:
        # The rows are stored with their search, so that no other row can get the same id.
        kept = _searches[key] = (chosen, _compile(control_strings(family)))
    return kept[1]


def _compile(tokens: Iterable[str]) -> re.Pattern[str]:
    by_first: dict[str, set[str]] = {first: set() for first in _SHAPES}
    for token in tokens:
        seen = look_at(token).text.lower()
        by_first.setdefault(seen[0], set()).add(seen[1:])
    branches: list[str] = []
    for first, rests in sorted(by_first.items()):
        known = (_alternatives(rests),) if rests else ()
        branches.append(re.escape(first) + f"(?={'|'.join([*known, *_SHAPES.get(first, ())])})")
    return re.compile("|".join(branches), re.IGNORECASE)


def _alternatives(words: set[str]) -> str:
    """Return a pattern for any of these words with a cost independent of their number; a prefix covers the rest."""
    if "" in words:
        return ""
    by_first: dict[str, set[str]] = {}
    for word in words:
        by_first.setdefault(word[0], set()).add(word[1:])
    branches = [re.escape(first) + _alternatives(rests) for first, rests in sorted(by_first.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


# --------------------------------------------------------------------------------------------------------------------
# Control strings, broken so that they have no effect, and restored byte for byte.
#
# The first character of each is replaced: `<tool_call>` becomes `⧼tool_call>`, `[INST]` becomes `⧼5b⧽INST]`. If a text
# contains the mark itself, the mark is doubled. So the original text can be restored from the broken one.

MARK, MARK_END = "⧼", "⧽"
_marked = re.compile(f"{MARK}(?:({MARK})|([0-9a-f]{{1,6}}){MARK_END})?").sub
_reads_on = re.compile(f"{MARK}|[0-9a-f]{{1,6}}{MARK_END}").match
_mark = re.compile(MARK).finditer
_could_begin = re.compile(r"^[ \t]*[^\s]|[<\[{(`~:>=|/]", re.MULTILINE).finditer
_MOST_NAMED = 20


class NeutralizedText(Struct, frozen=True):
    """A text with broken control strings."""

    text: str
    count: int = 0
    """The number of broken control strings."""
    found: tuple[str, ...] = ()
    """The start of the first of them, for reports."""


def break_tokens(text: str, family: str | None = None) -> NeutralizedText:
    """Break every control string of a model family, given as the name of its format; None means all families.

    They are found in any case, in compatibility forms (`＜`), and with invisible or control characters inside. So is
    everything that has the shape of a control token, because no list knows every model.
    """
    view = look_at(text)
    starts = [match.start() for match in token_search(family).finditer(view.text)]
    if not starts and MARK not in text:
        return NeutralizedText(text)
    named = tuple(dict.fromkeys(view.text[start : start + 24] for start in starts[:_MOST_NAMED]))
    return NeutralizedText(_break_at(text, map(view.origin, starts)), len(starts), named)


def break_everything(text: str) -> str:
    """Break everything that could start a call in any format, even without a marker; `mend_tokens` restores it.

    The result is hard to read. It is only for texts that would otherwise be read as calls.
    """
    return _break_at(text, (match.end() - 1 for match in _could_begin(text)))


def _break_at(text: str, starts: Iterable[int]) -> str:
    places = dict.fromkeys(starts, True)
    places.update((match.start(), False) for match in _mark(text))
    pieces: list[str] = []
    end = 0
    for place in sorted(places):
        # The mark alone replaces `<`, unless the next characters would be read as part of a longer mark.
        bare = text[place] == "<" and place + 1 not in places and _reads_on(text, place + 1) is None
        mark = MARK if bare else f"{MARK}{ord(text[place]):x}{MARK_END}"
        pieces += (text[end:place], mark if places[place] else MARK + MARK)
        end = place + 1
    return "".join([*pieces, text[end:]])


def mend_tokens(text: str) -> str:
    """Return the text before `break_tokens`, byte for byte."""
    return _marked(_restore, text) if MARK in text else text


def _restore(match: re.Match[str]) -> str:
    doubled, code = match.groups()
    if doubled:
        return MARK
    if not code:
        return "<"
    number = int(code, 16)
    return chr(number) if number <= 0x10FFFF else match.group()  # a number that no broken text contains

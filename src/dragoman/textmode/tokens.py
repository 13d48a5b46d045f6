"""The strings that mean more than they say: chat templates, call markers and result tags of every model family.

Inside a tool's result they are data. A tokenizer that reads special tokens out of plain text, or a model that takes
them for its own, sees something else; so they are known here, derived from the catalogue of formats where it has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dragoman.formats.plan import compile_entries
from dragoman.formats.registry import get, rows
from dragoman.formats.renderer import write_template
from dragoman.formats.template import Format, Many, Maybe, Node, compile_template
from dragoman.formats.template import Literal as LiteralNode
from dragoman.formats.thinking import pairs
from dragoman.textmode.views import look_at
from dragoman.types import ToolCall

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
"""What chat templates put around messages. Wrappers of reasoning come from the catalogue."""

RESULT_TAGS = ("tool_result", "tool_results", "tool_response", "function_result", "function_results")
"""The tags in which results are given to models. `function_response` and the like are spellings of these."""
_RESULTS = tuple(f"{opener}{tag}" for tag in (*RESULT_TAGS, "function_response") for opener in ("<", "</"))

# Any words between bars, as chat templates and those who forge them write; and the lines of our own envelope.
_FREE_FORMS = r"<(?=\|[^<>|\n]{1,80}\|>|<(?:result|end)[ \t][^<>\n]{1,400}>>)"

_TOO_COMMON = frozenset(("```", "```json", "~~~"))
_begins_like_a_token = re.compile(r"[<\[\]`~◁]").match
_tags = re.compile(r"</?[A-Za-z_][\w:.\-]*\|?(?:>|(?= ))|\[/?[A-Z_]+\]").findall
_SAMPLE = ToolCall("", "zz_name", {"zz_key": "zz_value", "zz_other": 1})


def control_strings(family: str | None = None) -> frozenset[str]:
    """The control strings of one format by its name, or of all of them; those of chat templates are always among them.

    Plain words that some formats use as markers (`Action:`, `functools`) are not: no tokenizer knows them.
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
    """`function call<|role_sep|>` is as good as broken when the second half is."""
    bar = marker.find("<|")
    return marker[bar:] if bar > 0 and marker[0].isalpha() else marker


def _is_token(marker: str) -> bool:
    return len(marker) > 2 and _begins_like_a_token(marker) is not None and marker not in _TOO_COMMON


def _strings_of(row: Format) -> Iterator[str]:
    """Everything in a row that is framing and not content."""
    yield from (opener for entry in compile_entries(row, named=True) for opener in entry.openers)
    yield from (tag.strip() for tag in row.section or ())
    yield from row.drop
    yield from (tag.strip() for pair in row.thinking for tag in pair)
    for spellings in row.spellings.values():
        yield from spellings
    for source in (row.template, *row.also):
        yield from _literals(compile_template(source)) if source else ()
    # Readers that no template describes know their closers themselves; what they write shows them.
    written = row.writer([_SAMPLE]) if row.writer is not None else write_template([_SAMPLE], row)
    yield from (tag for tag in _tags(written) if "zz_" not in tag)


def _literals(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, LiteralNode):
            yield node.text
        elif isinstance(node, Many | Maybe):
            yield from _literals(node.body)


# ---- the search ------------------------------------------------------------------------------------------------------

_searches: dict[tuple[int, ...], tuple[tuple[Format, ...], re.Pattern[str]]] = {}


def token_search(family: str | None = None) -> re.Pattern[str]:
    """Finds the first character of every control string in a view, also of those that begin inside another."""
    chosen = _family(family)
    key = tuple(map(id, chosen))
    kept = _searches.get(key)
    if kept is None:
        # The rows are kept with their search, so that no other row can come to bear the same id.
        kept = _searches[key] = (chosen, _compile(control_strings(family)))
    return kept[1]


def _compile(tokens: Iterable[str]) -> re.Pattern[str]:
    by_first: dict[str, set[str]] = {}
    for token in tokens:
        seen = look_at(token).text.lower()
        by_first.setdefault(seen[0], set()).add(seen[1:])
    branches = [re.escape(first) + f"(?={_alternatives(rests)})" for first, rests in sorted(by_first.items())]
    return re.compile("|".join([*branches, _FREE_FORMS]), re.IGNORECASE)


def _alternatives(words: set[str]) -> str:
    """A pattern for any of these words that costs the same however many there are; a beginning stands for the rest."""
    if "" in words:
        return ""
    by_first: dict[str, set[str]] = {}
    for word in words:
        by_first.setdefault(word[0], set()).add(word[1:])
    branches = [re.escape(first) + _alternatives(rests) for first, rests in sorted(by_first.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"

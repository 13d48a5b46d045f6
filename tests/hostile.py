"""Texts that are expensive for parsers: short fragments, repeated alone, in pairs and nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Maker = Callable[[int], str]
"""Makes a text of about so many characters."""

# Fragments that begin, end or escape something in some reader.
FRAGMENTS = (
    # quotes, escapes, brackets, blanks
    *('"', "'", "`", "\\", '\\"', "\\u00", "\\ud83d", "{", "}", "[", "]", "(", ")", "<", ">", "&", "|", ",", ":", ";"),
    *("=", "-", ".", "/", "@", "%", "#", "*", "~", "$", "0", "9e9", "a", "A1_", "é", "\u0130", "\ufb03", "\u0308"),
    *(" ", "\t", "\n", "\r", "\r\n", " \n", "a ", "a\n"),
    # JSON and its relatives
    *(
        '{"a":',
        '{"name": "',
        '"arguments": {',
        '["',
        '", "',
        "{'a': ",
        "[1,",
        "null,",
        "true ",
        "-1.",
        "//",
        "/*",
        "*/",
    ),
    *('{"name": "search", "arguments": {"query": "x"}}', "{}", "[]", "{]", "[}"),
    # fences, tags, entities
    *("```", "```json\n", "~~~", "<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "<parameter=a>"),
    *(
        "<|im_start|>",
        "<|",
        "|>",
        "[TOOL_CALLS]",
        "<invoke name=",
        "search(",
        "search(query=",
        "Action: search\n",
        "call:",
    ),
    *("<!--", "-->", "<a ", "<a href='", "<p>", "</p>", "<li>", "<b>", "<table><tr><td>", "&amp;", "&#", "&#x26;"),
    *("<![CDATA[", "]]>", "<?", "<script>", "<style>", "<pre>"),
    # names and forms of secrets
    *("api_key:", "api_key=", 'api_key="', "password ", "password: ", '"password": "', "token is ", "secret=a;", "-p "),
    *(
        "Authorization: ",
        "Authorization: Bearer ",
        "Cookie: a=b; ",
        "bearer ",
        "basic ",
        "://",
        "http://a:b",
        "?sig=a&",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "-----END ",
        "Private-Lines: 1",
        "sk-",
        "ghp_",
        "eyJ",
        "AKIA",
        "xox",
    ),
    *(
        "authorization:",
        "cookie=x=a;",
        "bearer+",
        "authorization: mac response=aaaaaaaa ",
        "key=a.a(",
        "key=)",
        "pwd=/a",
    ),
    *(
        "fm2_" + "Ab1" * 8 + "/",
        "password=Zq9!x",
        "key 'a",
        "token=x aa",
        "<password>",
        "passin pass:",
        "a.a.a:5432:a:b:",
    ),
    *("mysql -p", "curl -u a:b ", "echo a|", "identified by '", "phrase ", "abandon ", ":5432:a:b:", "@tcp(", "key_"),
    *("[redacted:", "[redacted:a#1]", "%3D", "\\n", "\x1b[31m", "name=", 'name="key" value="', "<key>", "QUJD"),
    # frames, patches, data
    *("data: ", "data: {}\n\n", "event: a\n", ": ", "@@ -1 +1 @@\n", "*** Begin Patch\n", "--- a\n", "+a\n", "-a\n"),
    *("data:image/png;base64,", "AAAA", "- a: ", "key: value\n", "$ref"),
)


def repeat(bit: str) -> Maker:
    return lambda size: bit * max(1, size // len(bit))


def alternate(first: str, second: str) -> Maker:
    """The first half is one fragment, the second half another: all are opened before the first is closed."""
    return lambda size: first * max(1, size // 2 // len(first)) + second * max(1, size // 2 // len(second))


def begin(head: str, bit: str) -> Maker:
    """One fragment, and then another one for the rest of the text."""
    return lambda size: head + bit * max(1, size // len(bit))


def alone(fragments: tuple[str, ...] = FRAGMENTS) -> Iterator[tuple[str, Maker]]:
    for bit in fragments:
        yield repr(bit), repeat(bit)


def pairs(fragments: tuple[str, ...] = FRAGMENTS, step: int = 1, offset: int = 0) -> Iterator[tuple[str, Maker]]:
    """Every `step`-th of all pairs, in three arrangements."""
    number = 0
    for first in fragments:
        for second in fragments:
            if first == second:
                continue
            for arrange, make in (
                ("{}{}...", repeat(first + second)),
                ("{}...{}...", alternate(first, second)),
                ("{} {}...", begin(first, second)),
            ):
                if number % step == offset:
                    yield arrange.format(repr(first), repr(second)), make
                number += 1

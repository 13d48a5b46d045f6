"""The names of all repairs and coercions, each with a description.

`ToolCall.repairs` and `Loaded.repairs` contain names of `REPAIRS`, in the order of their use. `Change.rule` is a name
of `COERCIONS`, or of `REPAIRS` if text inside an argument was repaired. A test finds missing names.
"""

from __future__ import annotations

REPAIRS = {
    # The JSON itself.
    "backtick_quotes": "read backticks as quotes",
    "bad_escape": "read an escape that JSON does not know",
    "bare_key": "read a key without quotes",
    "closed_brackets": "added brackets that were missing at the end",
    "closed_string": "added a quote that was missing at the end of a string",
    "colon_for_equals": "read `name: value` where `name=value` belongs",
    "comment": "left out a comment",
    "double_encoded": "decoded JSON that was encoded twice",
    "equals_for_colon": "read `=` or `=>` where a colon belongs",
    "escaped_quotes": "kept quotes inside a string that were not escaped",
    "evaluated_arithmetic": "computed a small sum",
    "expression_as_text": "kept an expression as its own text",
    "extra_closers": "left out closing brackets that nothing opened",
    "extra_comma": "left out a comma too many",
    "joined_strings": "joined strings that stood side by side",
    "markdown_fence": "took off a Markdown fence",
    "missing_comma": "added a comma between two values",
    "null_arguments": "read null as no arguments",
    "number_spelling": "read a number in another spelling, such as `0x1F` or `1_000`",
    "object_as_arguments": "read one object as the named arguments of a call",
    "positional_arguments": "named arguments that were given by position",
    "python_literals": "read True, False, None, tuples and string prefixes of Python",
    "quoted_keyword": "read the quoted name of an argument",
    "raw_newline": "kept a newline, a tab or another control character inside a string",
    "repeated_key": "read a key that was given twice with equal values",
    "single_quotes": "read single quotes",
    "smart_quotes": "read typographic quotes",
    "surrounding_text": "left out text around the value",
    "trailing_comma": "left out a comma before a closing bracket",
    "triple_quotes": "read a string in triple quotes",
    "unescaped_quotes": "took off a layer of backslashes before quotes",
    "unusual_blanks": "read blanks that JSON does not know",
    # The call around it.
    "added_prefix": "added the first word of a call that was left out",
    "added_quotes": "added both quotes of a string",
    "closed_argument": "added the end of an argument",
    "closed_tag": "added the end of a tag",
    "closed_wrapper": "added the end of a call whose arguments are complete",
    "confirmed": "took a call that the model repeated after a notice",
    "failed_generation": "read a call out of the error of a server that could not read it",
    "key_value_pairs": "read `key=value` or `key: value` as arguments",
    "text_as_argument": "took the text of an element as the only required argument",
    "decoded_entities": "decoded XML entities in text that was escaped",
    "dropped_attribute": "left out an attribute that no argument has",
    "dropped_key": "left out a key without a value",
    "flat_arguments": "read the arguments next to the name, without an object around them",
    "foreign_closer": "took the end marker of another format for that of this one",
    "guessed_name": "took the only tool that fits the arguments for a call with a number as its name",
    "missing_marker": "read a call without one of its markers",
    "call_as_list": "read a list that begins with the name of a tool as a call",
    "name_as_key": "read the only key of an object as the name of the tool",
    "name_before_braces": "read a name in front of an object as the name of the tool",
    "opened_string": "added a quote that was missing at the beginning of a string",
    "replaced_surrogate": "replaced half of a surrogate pair, which is no character, by U+FFFD",
    "repeated_argument": "kept one of several values of an argument",
    "skipped_text": "left out text between the arguments",
    "unquoted_value": "read a string without quotes",
    "unusual_keys": "read the arguments under a key that no format has",
    "unwrapped_arguments": "took the arguments out of an object around them",
    "unwrapped_call": "took a call out of a call around it",
    "unwrapped_name": "took a namespace off the name of the tool, or added it",
}
"""The rules that repair malformed JSON, each with what it did."""

COERCIONS = {
    "boolean_to_string": "wrote a boolean as text",
    "double_encoded": "decoded an object or a list that was given as text",
    "dropped_extra": "left out an argument that the schema does not name",
    "enum_case": "chose the member of an enum in another case or with blanks around it",
    "number_to_string": "wrote a number as text",
    "renamed_key": "gave an argument the spelling that the schema has",
    "string_to_boolean": "read text as a boolean",
    "string_to_integer": "read text as an integer",
    "string_to_null": "read text as null",
    "string_to_number": "read text as a number",
    "whole_number": "wrote a whole float as an integer",
    "wrapped_in_list": "put a single value into a list",
}
"""The rules that convert a value to fit a schema, each with what it did."""

"""llguidance's matcher over single bytes: the first judge of what a grammar accepts."""

from __future__ import annotations

import random

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

_END = 256


class _Bytes:
    """A vocabulary of bytes."""

    eos_token_id = _END
    bos_token_id = None

    def __init__(self) -> None:
        self.tokens = [*(bytes([number]) for number in range(256)), b"<eos>"]
        self.special_token_ids = [_END]

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


# A whole text is one step here; an engine that asks for a mask before each token has fuel for every one of them.
_LIMITS = LLParserLimits(step_lexer_fuel=1_000_000_000)
_TOKENIZER = LLTokenizer(TokenizerWrapper(_Bytes()), slices=[])


class Judge:
    """A grammar in Lark, or any that llguidance takes, ready to be asked about texts."""

    def __init__(self, grammar: str) -> None:
        self._fresh = LLMatcher(_TOKENIZER, grammar, log_level=0, limits=_LIMITS)
        assert not self._fresh.is_error(), self._fresh.get_error()

    def accepts(self, text: str) -> bool:
        """Whether the text is whole."""
        matcher = self._fresh.deep_copy()
        taken = matcher.try_consume_tokens(list(text.encode()))
        return taken == len(text.encode()) and _is_whole(matcher)

    def walk(self, lots: random.Random, most: int = 4000) -> str | None:
        """A text by random steps of the matcher itself; None if it did not come to an end in time.

        Letters are preferred over the rest of the vocabulary, and an end is taken when there is one.
        """
        matcher = self._fresh.deep_copy()
        written = bytearray()
        while len(written) < most:
            if matcher.is_stopped():
                return written.decode() if _is_whole(matcher) else None
            allowed = _allowed(matcher)
            if _END in allowed and (len(allowed) == 1 or lots.random() < 0.2):
                return written.decode()
            steps = [token for token in allowed if token != _END]
            likely = [token for token in steps if chr(token) in _LIKELY]
            token = lots.choice(likely if likely and lots.random() < 0.97 else steps)
            assert matcher.consume_token(token)
            written.append(token)
        return None


_LIKELY = 'abcdefghijklmnopqrstuvwxyz0123456789{}[]<>/=|_:," \n\\-.'


def _is_whole(matcher: LLMatcher) -> bool:
    # Where nothing may follow any more, the matcher has stopped by itself.
    return matcher.is_accepting() or matcher.stop_reason() == "NoExtension"


def _allowed(matcher: LLMatcher) -> list[int]:
    mask = matcher.compute_bitmask()
    return [token for token in range(257) if mask[token // 8] >> (token % 8) & 1]

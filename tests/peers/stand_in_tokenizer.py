"""A tokenizer for tests inside vLLM's environment: byte-level BPE, trained on given texts, with markers as tokens.

The tokenizers of real models would have to be downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

SIZE = 8000
END = "<|endoftext|>"
find_markers = re.compile(r"<[^\s<>\"'=]{1,40}>|\[/?[A-Z_]{3,20}\]|<[｜|][^\s<>\"']{1,40}[｜|]>").findall


def make_tokenizer(texts: Iterable[str], marked: Iterable[str]) -> Any:
    """Return a tokenizer of `transformers` that has learned the texts. The markers in `marked` are single tokens."""
    own, wrapped = import_module("tokenizers"), import_module("transformers")
    level = own.pre_tokenizers.ByteLevel
    bpe = own.Tokenizer(own.models.BPE())
    bpe.pre_tokenizer = level(add_prefix_space=False)
    bpe.decoder = own.decoders.ByteLevel()
    trainer = own.trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=sorted(level.alphabet()), show_progress=False)
    bpe.train_from_iterator(texts, trainer)
    markers = sorted({marker for text in marked for marker in find_markers(text)})
    bpe.add_tokens([own.AddedToken(marker, normalized=False) for marker in markers])
    return wrapped.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, pad_token=END)

"""The echo guard: a call that stands in content which others wrote is not the model's own.

A model that quotes a web page may quote a call that somebody planted there. So the untrusted content of a conversation
is indexed as it arrives, and every call that was read out of text is looked for in it. The same call, however it was
quoted, escaped, folded or written in another format, is `exact`; one with the same name and nearly the same arguments
is `similar`. A value alone never counts: commands, paths and addresses may be taken from a file.
"""

from __future__ import annotations

from dragoman.trust.echo_conversation import EchoReader, index_conversation
from dragoman.trust.echo_index import Echo, EchoIndex

__all__ = ["Echo", "EchoIndex", "EchoReader", "index_conversation"]

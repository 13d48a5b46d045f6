"""How far a call can be trusted: where it was found, whether it was copied from content, and what follows from that."""

from __future__ import annotations

from dragoman.trust.levels import Level, find_level
from dragoman.trust.profiles import Judgement, Profile, Situation, decide, get_profile

__all__ = ["Judgement", "Level", "Profile", "Situation", "decide", "find_level", "get_profile"]

"""Streams: words as they come, an end that can be seen, and calls in pieces that fit together."""

from __future__ import annotations

from dragoman.doctor.findings import Finding, excerpt
from dragoman.doctor.probe import Probe, cannot_tell
from dragoman.doctor.probes.basics import counting
from dragoman.doctor.probes.calls import NATIVE, WEATHER, both, is_sound, weather
from dragoman.doctor.questions import Patient, Sight, Sights, entries_of
from dragoman.events import ArgumentsDelta, TextDelta, ThinkingDelta
from dragoman.providers import Fact

_ASK_WHOLE = "ask for whole replies: the capability streaming = false"
_NO_STREAMS = Fact(capabilities={"streaming": False})


def _judge_text(patient: Patient, sights: Sights) -> Finding:
    name, sight = "streaming", sights[0]
    pieces = [event for event in sight.events if isinstance(event, TextDelta | ThinkingDelta)]
    if len(pieces) > 1:
        return Finding(name, "works", f"the answer came in {len(pieces)} pieces", sight.shown)
    doubt = cannot_tell(name, sights)
    if doubt is not None:
        return doubt
    if sight.is_refused:
        return Finding(name, "absent", "streams are refused", sight.shown, _ASK_WHOLE, _NO_STREAMS)
    if pieces:
        fix = "nothing to do; if a proxy stands between, let it buffer nothing"
        words = "the answer came in one piece, at its end"
        return Finding(name, "broken", words, sight.shown, fix, is_usable=True)
    return Finding(name, "broken", "nothing came that could be read", sight.shown, _ASK_WHOLE, _NO_STREAMS)


def _judge_end(patient: Patient, sights: Sights) -> Finding:
    name, sight = "stream_end", sights[0]
    if sight.failure is None:
        return Finding(name, "works", "the last frame came")
    if sight.failure.kind != "stream_cut":
        return cannot_tell(name, sights) or Finding(name, "unknown", "there was no stream to look at")
    words = "the stream ends without its last frame"
    if patient.speaks_chat and _has_finish_reason(sight):
        fix = "set the quirk final_frame to false: the finish reason then counts as the end"
        return Finding(name, "broken", words, _last_frame(sight), fix, Fact(quirks={"final_frame": False}))
    return Finding(name, "broken", words, _last_frame(sight), _ASK_WHOLE, _NO_STREAMS)


def _has_finish_reason(sight: Sight) -> bool:
    return any(
        isinstance(choice, dict) and choice.get("finish_reason")
        for frame in sight.frames
        for choice in (frame.get("choices") if isinstance(frame.get("choices"), list) else None) or ()
    )


def _last_frame(sight: Sight) -> str:
    return excerpt(f"last: {sight.frames[-1]}") if sight.frames else ""


def _judge_calls(patient: Patient, sights: Sights) -> Finding:
    name, sight = "stream_calls", sights[0]
    if sight.failure is None or sight.failure.kind != "stream_cut":
        doubt = cannot_tell(name, sights)
        if doubt is not None:
            return doubt
    if sight.is_refused:
        return Finding(name, "broken", "streams with tools are refused", sight.shown, _ASK_WHOLE, _NO_STREAMS)
    pieces = [event for event in sight.events if isinstance(event, ArgumentsDelta)]
    sound = [call for call in sight.reply.calls if is_sound(call, WEATHER)]
    if sound or (pieces and _was_only_cut(sight)):
        how = "in pieces" if len(pieces) > 1 else "in one piece"
        return Finding(name, "works", f"the arguments of a call came {how}", sight.shown)
    broken = "; ".join(f"{call.name}: {call.faults[0].why}" for call in sight.reply.invalid if call.faults)
    words = "a call that comes whole is lost or broken in a stream"
    return Finding(name, "broken", words, excerpt(broken) or sight.shown, _ASK_WHOLE, _NO_STREAMS)


def _was_only_cut(sight: Sight) -> bool:
    """Whether nothing is wrong with a call but that the end of the stream was not seen: another probe tells that."""
    return sight.failure is not None and sight.failure.kind == "stream_cut" and _has_finish_reason(sight)


def _judge_several(patient: Patient, sights: Sights) -> Finding:
    name, sight = "stream_parallel", sights[0]
    was_cut = sight.failure is not None and sight.failure.kind == "stream_cut"
    doubt = None if was_cut else cannot_tell(name, sights)
    if doubt is not None:
        return doubt
    sound = [call for call in sight.reply.calls if is_sound(call, WEATHER)]
    if patient.speaks_chat:
        indexes = _indexes(sight)
        if len(indexes) > 1 and (len(set(indexes)) < len(indexes) or None in indexes):
            words = "calls of one reply share an index" if None not in indexes else "calls come without an index"
            fix, fact = "nothing to do here: dragoman tells them apart; other clients mix them up", None
            if len(sound) < len(indexes) and not was_cut:
                fix, fact = _ASK_WHOLE, _NO_STREAMS
            return Finding(name, "broken", words, f"indexes: {indexes}", fix, fact)
    if len(sound) > 1 or (was_cut and _was_only_cut(sight)):
        return Finding(name, "works", f"{max(len(sound), 2)} calls came apart", sight.shown)
    if len(sound) == 1 and not sight.reply.invalid:
        return Finding(name, "unknown", "one call came where a whole reply had two", sight.shown)
    return Finding(
        name, "broken", "calls that come whole are mixed up in a stream", sight.shown, _ASK_WHOLE, _NO_STREAMS
    )


def _indexes(sight: Sight) -> list[object]:
    """The index under which each call began: a piece with a name begins one."""
    begun: list[object] = []
    seen: set[tuple[object, str, str]] = set()
    for entry in entries_of(sight):
        function = entry.get("function")
        label = function.get("name") if isinstance(function, dict) else None
        # Some servers repeat index, id and name in every piece.
        place = (entry.get("index"), str(entry.get("id")), str(label))
        if label and place not in seen:
            seen.add(place)
            begun.append(entry.get("index"))
    return begun


_STREAMS = ("reachable", "streaming")
PROBES = (
    Probe("streaming", "Streams", lambda patient: (counting(),), _judge_text, quick=True, needs=("reachable",)),
    Probe("stream_end", "The end of a stream", lambda patient: (counting(),), _judge_end, quick=True, needs=_STREAMS),
    Probe(
        "stream_calls",
        "Calls in streams",
        lambda patient: (weather(stream=True),),
        _judge_calls,
        quick=True,
        needs=(*NATIVE, "streaming"),
    ),
    Probe(
        "stream_parallel",
        "Several calls in a stream",
        lambda patient: (both(stream=True),),
        _judge_several,
        needs=(*NATIVE, "streaming", "parallel_calls"),
    ),
)

"""What a watcher says: what was repeated, how often, and what to do instead."""

from __future__ import annotations

_ADVICE = "Use what you already know, change the arguments, or go another way; if nothing is left to do, answer now."


def repeated(name: str, count: int, *, blocked: bool) -> str:
    if blocked:
        return (
            f"Not run: this is call {count} in a row of {name!r} with the same arguments, and the result was the same "
            f"every time. It stands above and will not change. {_ADVICE}"
        )
    return f"{name!r} was called {count} times in a row with the same arguments and gave the same result. {_ADVICE}"


def alternated(name: str, count: int, period: int, *, blocked: bool) -> str:
    if blocked:
        return (
            f"Not run: with this call of {name!r} the same {period} calls would have been made {count} times in turn, "
            f"each with the same result as before. {_ADVICE}"
        )
    return (
        f"The same {period} calls were made {count} times in turn, and each gave the same result as before. {_ADVICE}"
    )


def same_result(name: str, count: int, *, blocked: bool) -> str:
    if blocked:
        return (
            f"Not run: {name!r} has given the same result {count - 1} times, although its arguments were different. "
            f"Other arguments are not likely to change that. {_ADVICE}"
        )
    return f"{name!r} has given the same result {count} times, although its arguments were different. {_ADVICE}"


def failed(name: str, count: int, *, blocked: bool) -> str:
    advice = "Read the error, then change the arguments or go another way; if that is not possible, say so."
    if blocked:
        return (
            f"Not run: {name!r} has failed {count} times in a row with the same error, and with these arguments as "
            f"well. {advice}"
        )
    return (
        f"{name!r} has failed {count} times in a row with the same error. It is not run again with arguments that "
        f"failed so. {advice}"
    )


def idle(turns: int) -> str:
    return f"no progress: {turns} turns in a row made the same calls, got the same results and said nothing new"


def ended(message: str) -> str:
    """The reason of a run that ends, from what the model was told."""
    return message.removesuffix(_ADVICE).strip().removesuffix(".")

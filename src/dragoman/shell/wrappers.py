"""Programs that run what their arguments or their input say: `sudo`, `env`, `xargs`, `sh -c`, `eval`, ..."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.shell.tables import words_of

SHELLS = words_of("sh bash dash zsh ksh mksh ash fish csh tcsh rbash")
INTERPRETERS = words_of(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit tclsh Rscript julia osascript "
    "pwsh powershell groovy scala elixir erl guile racket awk gawk mawk nawk ed ex vi vim nvim emacs gdb sqlite3 psql "
    "mysql m4 bc dc"
)
WRAPPERS = words_of(
    "sudo doas su runuser env nohup nice ionice time timeout stdbuf setsid setpriv unshare nsenter chroot chrt taskset "
    "flock script expect command builtin exec eval xargs parallel watch entr find fd fdfind ssh sshpass docker podman "
    "kubectl bwrap firejail strace ltrace gdb valgrind perf busybox toybox unbuffer systemd-run at batch crontab trap "
    "alias coproc source . rlwrap faketime proot fakeroot dbus-run-session xvfb-run caffeinate npx pnpx bunx uvx pipx "
    "make cmake ninja tmux screen start-stop-daemon run-parts logsave sg newgrp pkexec gosu su-exec tini"
)

_TEXT_RUNNERS = words_of(
    "eval trap alias ssh sshpass watch parallel su runuser script at batch crontab tmux screen expect sg systemd-run "
    "flock entr unbuffer npx pnpx bunx docker podman kubectl"
)


def is_interpreter(program: str) -> bool:
    """Whether the program runs code that it is given, in whatever language."""
    name = base_name(program)
    return name in SHELLS or name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS


def runs_text(words: Iterable[str]) -> bool:
    """Whether one of these words is a program that hands its arguments to a shell as text."""
    return any(base_name(word) in SHELLS or base_name(word) in _TEXT_RUNNERS for word in words)


def base_name(program: str) -> str:
    """The name of a program without its folder: `rm` for `/bin/rm`."""
    return program.rsplit("/", 1)[-1]

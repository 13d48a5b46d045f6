"""Enter a box of Landlock, seccomp and limits, and run the command.

This is a separate script that uses only the standard library: it imports nothing of this package and starts fast. It
reads the permissions of the box from a descriptor. It stays as the parent of the command, and kills all processes of
the command when the command ends or the launching process dies.
"""

from __future__ import annotations

# The module `signal`, a wrapper of this one, takes longer to load than all other imports together.
import _signal as signal  # type: ignore[import-not-found]
import ctypes
import marshal
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PDEATHSIG, _NO_NEW_PRIVILEGES, _SUBREAPER, _SECCOMP, _DROP_CAPABILITY = 1, 38, 36, 22, 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CAPSETS = {"x86_64": 126, "aarch64": 91}
_CANNOT_ENTER = 125

_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: Any) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"system call {number}")
    return result


def _prctl(option: int, value: Any = 0, third: Any = 0) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), third, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"prctl {option}")


def _drop_privileges(user: tuple[int, int] | None) -> None:
    """Drop all capabilities: root in a box has no privileges. If the box names a user, become that user."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    for capability in range(last + 1):
        _libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    header = struct.pack("=Ii", 0x20080522, 0)
    _call(_CAPSETS[os.uname().machine], header, bytes(24))


def _make_ruleset(settings: dict[str, Any]) -> int:
    """Return the rules of Landlock. Root makes them, because it reaches paths that another user does not."""
    handled = struct.pack("=QQQ", settings["handled_files"], settings["handled_network"], settings["scoped"])
    size = settings["ruleset_size"]
    ruleset = _call(_CREATE_RULESET, handled[:size], size, 0)
    for path, rights in settings["rules"]:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            _call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)
    return ruleset


def _filter_calls(program: bytes, marks: dict[int, int]) -> None:
    for mark, process in marks.items():
        program = program.replace(struct.pack("=I", mark), struct.pack("=i", process))
    steps = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)))
    _prctl(_SECCOMP, 2, ctypes.byref(head))


def _limit(limits: list[tuple[int, int]], processes: int | None, user: int) -> None:
    for which, amount in limits:
        hard = resource.getrlimit(which)[1]
        # One second between SIGXCPU, which names the reason, and SIGKILL.
        highest = amount + 1 if which == resource.RLIMIT_CPU else amount
        highest = highest if hard == resource.RLIM_INFINITY else min(highest, hard)
        resource.setrlimit(which, (min(amount, highest), highest))
    if processes is not None and user != 0:  # The limit does not apply to root.
        # The kernel also counts the other processes of the user.
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        amount = _running(user) + processes
        amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (amount, amount))


def _running(user: int) -> int:
    """Return the number of threads of a user."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count


def _become(settings: dict[str, Any]) -> None:
    user = settings["user"]
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(settings["cwd"])
        _limit(settings["limits"], settings["processes"], os.getuid() if user is None else user[0])
        ruleset = _make_ruleset(settings)
        _prctl(_NO_NEW_PRIVILEGES, 1)
        _drop_privileges(user)
        # The kernel forgets this signal when the user changes.
        _prctl(_PDEATHSIG, signal.SIGKILL)
        above = os.getppid()
        if above != settings["parent"]:
            os._exit(_CANNOT_ENTER)
        _call(_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        _filter_calls(settings["filter"], dict(zip(settings["marks"], (above, -above), strict=False)))
    except BaseException as error:
        os.write(2, f"dragoman: cannot enter the box: {error}\n".encode())
        os._exit(_CANNOT_ENTER)
    _run(settings["argv"], settings["environment"])


def _run(argv: list[str], environment: dict[str, str]) -> None:
    """Execute the command. Nothing may be imported from here on: the files of the interpreter may be inaccessible."""
    name, worst = argv[0], 2
    folders = [""] if "/" in name else [f"{folder or '.'}/" for folder in environment.get("PATH", "").split(":")]
    for folder in folders:
        try:
            os.execve(folder + name, argv, environment)
        except OSError as error:
            worst = worst if error.errno in (None, 2, 20) else error.errno
    os.write(2, f"{name}: {os.strerror(worst)}\n".encode())
    os._exit(127 if worst == 2 else 126)


def _others() -> list[int]:
    """Return the other processes in our group: no process in the box can leave it."""
    found, group = [], os.getpgrp()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if os.getpgid(int(name)) == group:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        state = file.read().rpartition(b")")[2].split()[0]
                    if state not in (b"Z", b"X"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def _end_the_others() -> None:
    """Kill them until none is left. Orphans become our children, so that we can wait for their end."""
    try:
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            for process in _others():
                try:
                    os.kill(process, signal.SIGKILL)
                except OSError:
                    continue
            os.wait()
    except ChildProcessError:
        return


def _wait_for(command: int) -> int:
    while True:
        try:
            process, status = os.wait()
        except InterruptedError:
            continue
        if process == command:
            return os.waitstatus_to_exitcode(status)


def _end_everything(number: int, frame: object) -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Read the settings from the descriptor that the first argument names, and run the command."""
    with open(int(sys.argv[1]), "rb") as file:
        settings = marshal.load(file)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end_everything)
    _prctl(_SUBREAPER, 1)
    _prctl(_PDEATHSIG, signal.SIGTERM)
    settings["parent"] = os.getpid()
    command = os.fork()
    if command == 0:
        _become(settings)
    code = _wait_for(command)
    _end_the_others()
    if code < 0:
        # Shells report a signal in the same way; to kill ourselves would leave a core file of the wrong program.
        code = 128 - code
    os._exit(code)


if __name__ == "__main__":
    main()

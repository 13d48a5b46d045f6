"""Sandboxes: the permissions of a command, the visible parts of the system, and resource limits."""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.own_code import SEARCH_PATH, is_below, script_command
from dragoman.sandbox.protected_names import words
from dragoman.sandbox.protection import PROTECTED, WATCHED, closing

# --------------------------------------------------------------------------------------------------------------------
# The permissions of a command, and the command line that enforces them.


@functools.cache
def share_of_memory(share: float = 0.75) -> int | None:
    """Return a share of the memory of this machine, or of its container, in bytes; None if the size is unknown."""
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # The file may contain `max`.
            most = min(most, int(Path(path).read_text(encoding="ascii")))
    return int(most * share)


class BoxLimits(Struct, frozen=True):
    """Resource limits of a command; None means no limit. Each process has its own limits, except for `processes`."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = field(default_factory=share_of_memory)
    """The memory that a process may use. Address space that it only reserves does not count."""
    file_bytes: int | None = 4 * 1024**3
    """The size of the largest file that a process may write."""
    processes: int | None = 4096
    open_files: int | None = None


class Box(Struct, frozen=True):
    """What a command may read, write and use. It cannot access anything else."""

    workspace: str
    """The folder in which the command works; it may read and write everything there except the protected paths."""
    writable: tuple[str, ...] = ()
    """More folders and files that the command may write."""
    readable: tuple[str, ...] = ()
    """More folders and files that the command may read and execute. Those of the system (/usr, /etc) are included."""
    network: bool = False
    protected: tuple[str, ...] = PROTECTED
    """Paths in the workspace that the command can neither change nor create."""
    watched: tuple[str, ...] = WATCHED
    """Paths in the workspace that the command cannot change. If it creates one, dragoman removes it afterwards."""
    hidden: tuple[str, ...] = ()
    """Paths that the command cannot see, even if it can see the folder above them."""
    aside: str | None = None
    """The folder for the changed versions of protected paths that dragoman restores; None creates a new folder."""
    environment: Mapping[str, str] = {}
    """The environment of the command. dragoman adds PATH, HOME, TMPDIR and LANG if they are missing."""
    limits: BoxLimits = BoxLimits()
    home: str | None = None
    """The home folder of the command, which it may write. None creates an empty one, and removes it later."""
    cwd: str | None = None
    """The working directory of the command; None is the workspace."""


class Launch:
    """The arguments for one call of `asyncio.create_subprocess_exec` or `subprocess.Popen`.

    Start the process with exactly `argv`, `env=launch.environment`, `pass_fds=launch.pass_fds` and `cwd=launch.cwd`, in
    a new session (`start_new_session=True`). Start it from a thread that lives longer than the command: the command
    ends with that thread. Call `started()` when the process runs, and `finish()` when all processes have ended.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        cwd: str,
        pass_fds: tuple[int, ...] = (),
        endings: tuple[Callable[[], tuple[str, ...]], ...] = (),
    ) -> None:
        self.argv = argv
        self.environment = dict(environment)
        self.cwd = cwd
        self.pass_fds = pass_fds
        self._open = list(pass_fds)
        self._endings = list(endings)

    def started(self) -> None:
        """Close the descriptors that only the new process needs."""
        while self._open:
            with contextlib.suppress(OSError):
                os.close(self._open.pop())

    def finish(self) -> tuple[str, ...]:
        """Clean up. Returns the protected paths that the command changed, each with what dragoman did about it."""
        self.started()
        put_back: list[str] = []
        with contextlib.ExitStack() as stack:
            # If one step fails, the others still run.
            while self._endings:
                stack.callback(lambda ending: put_back.extend(ending()), self._endings.pop(0))
        return tuple(put_back)

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


_OF_THE_KERNEL = ("/proc", "/sys")


def check_box(box: Box) -> Box:
    """Return the box with real, absolute paths. Raises ConfigError for an invalid path."""
    workspace = _real_folder("workspace", box.workspace)
    if workspace == "/":
        raise ConfigError(
            "the workspace of a box cannot be the whole file system", hint="choose the folder of the project"
        )
    for path in map(os.path.realpath, (workspace, *box.writable, *filter(None, [box.home]))):
        if path == "/" or any(is_below(path, top) for top in _OF_THE_KERNEL):
            raise ConfigError(f"a box may not change {path}: it contains settings of the kernel", hint="leave it out")
    cwd = workspace if box.cwd is None else os.path.realpath(os.path.join(workspace, box.cwd))
    home = None if box.home is None else _real_folder("home", box.home)
    for name, value in box.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise ConfigError(f"the environment of a box cannot contain a variable named {name!r}")
    for path in box.protected + box.watched:
        if os.path.isabs(path) or ".." in path.split("/"):
            raise ConfigError(
                f"the protected path {path!r} is not in the workspace", hint="write it relative to the workspace"
            )
    real = {name: tuple(map(os.path.realpath, getattr(box, name))) for name in ("writable", "readable", "hidden")}
    return replace(box, workspace=workspace, home=home, cwd=cwd, **real)


def _real_folder(what: str, path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise ConfigError(f"the {what} of a box is not a folder: {path}", hint="create it first")
    return real


def full_environment(box: Box, *, home: str, temporary: str) -> dict[str, str]:
    """Return the environment of the command."""
    return {"PATH": SEARCH_PATH, "HOME": home, "TMPDIR": temporary, "LANG": "C.UTF-8"} | dict(box.environment)


def in_memory(name: str, content: bytes) -> int:
    """Return a descriptor of a file in memory. Other processes cannot open the file."""
    descriptor = os.memfd_create(f"dragoman-{name}", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# --------------------------------------------------------------------------------------------------------------------
# The user of a command. If root runs dragoman in a folder of another user, commands run as that user. They need no
# other rights, and their files belong to the owner of the workspace.

_SET_GROUP, _SET_USER = 1 << 6, 1 << 7
_BECOME = """
import os, sys
user, group = map(int, sys.argv[1:3])
os.setgroups([])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
os.execv(sys.argv[3], sys.argv[3:])
"""


class User(Struct, frozen=True):
    """The user and the group that a command runs as."""

    uid: int
    gid: int

    def run(self, argv: Sequence[str], writable: Iterable[str]) -> tuple[str, ...]:
        """Return the command line that gives up the rights of root and then runs `argv`."""
        return (*script_command(_BECOME, *writable), str(self.uid), str(self.gid), *argv)

    def can_reach(self, path: str) -> bool:
        """Whether the modes of the folders above this real path, and of the path itself, let the user in."""
        while True:
            try:
                state = os.stat(path)
            except OSError:
                return False
            shift = 6 if state.st_uid == self.uid else 3 if state.st_gid == self.gid else 0
            if stat.S_ISDIR(state.st_mode) and not state.st_mode >> shift & 1:
                return False
            if path == "/":
                return True
            path = os.path.dirname(path)


def find_user(workspace: str) -> User | None:
    """Return the user for commands in this workspace; None if they run as the user of this process.

    That is the case if the owner has no number in our user namespace (the kernel shows a substitute), and if root lacks
    the capability to change its user.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    state = os.stat(workspace)
    group = _find_group(state.st_uid, state.st_gid)
    if state.st_uid == 0 or not _is_mapped("uid", state.st_uid) or not _is_mapped("gid", group):
        return None
    return User(state.st_uid, group) if _may_change_user() else None


def _find_group(uid: int, gid: int) -> int:
    """Return the group of the workspace if the user belongs to it, else the user's own group; never the group root."""
    import pwd

    try:
        known = pwd.getpwuid(uid)
        groups = os.getgrouplist(known.pw_name, known.pw_gid)
    except KeyError:
        return gid or uid
    return gid if gid and gid in groups else known.pw_gid or uid


def _is_mapped(kind: Literal["uid", "gid"], number: int) -> bool:
    try:
        ranges = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()]
        substitute = int(Path(f"/proc/sys/kernel/overflow{kind}").read_text(encoding="ascii"))
    except OSError:
        return True
    is_initial = [list(map(int, each)) for each in ranges] == [[0, 0, 2**32 - 1]]
    inside = any(int(first) <= number < int(first) + int(count) for first, _, count in ranges)
    return is_initial or (inside and number != substitute)


def _may_change_user() -> bool:
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    held = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return held & (_SET_GROUP | _SET_USER) == _SET_GROUP | _SET_USER


def fit_to_user(box: Box, user: User | None) -> Box:
    """Check that the user of the commands can reach the folders of a checked box. Readable ones may be out of reach."""
    if user is None:
        return box
    for path in (box.workspace, *box.writable, *filter(None, [box.home])):
        if not user.can_reach(path):
            raise ConfigError(
                f"commands run as user {user.uid}, who owns the workspace and cannot reach {path}",
                hint="check the modes of the folders above it, or run dragoman as that user",
            )
    return replace(box, readable=tuple(path for path in box.readable if user.can_reach(path)))


# --------------------------------------------------------------------------------------------------------------------
# A folder for the temporary files of one command. dragoman always removes it afterwards.

_PREFIX = "dragoman-box-"


class PrivateFolder:
    """A folder for one command. The process that created it holds a lock, so that other processes do not remove it."""

    def __init__(self, user: User | None = None) -> None:
        import fcntl  # Windows has no such module, and no sandbox either.

        _sweep_once()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            # Another process may hold the lock for a moment, while it checks whether the folder is in use.
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self.temporary, self.home = os.path.join(self.path, "tmp"), os.path.join(self.path, "home")
        for folder in (self.temporary, self.home):
            os.mkdir(folder, 0o700)
            if user is not None:
                # The folder above stays ours, so that the user cannot replace it.
                os.chown(folder, user.uid, user.gid)
                os.chmod(self.path, 0o711)

    def remove(self) -> tuple[str, ...]:
        """Remove the folder with everything in it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _remove(self.path)
        return ()


@functools.cache
def _sweep_once() -> None:
    """Remove the folders of killed processes of this user."""
    top = tempfile.gettempdir()
    for name in os.listdir(top):
        path = os.path.join(top, name)
        with contextlib.suppress(OSError):
            if name.startswith(_PREFIX) and os.lstat(path).st_uid == os.getuid() and not _is_in_use(path):
                _remove(path)


def _is_in_use(path: str) -> bool:
    import fcntl

    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    # A folder that was just created has no lock yet, but is empty.
    return not os.path.isdir(os.path.join(path, "home"))


def _remove(path: str) -> None:
    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=_open_up)
    else:
        shutil.rmtree(path, onerror=_open_up)


def _open_up(function: Callable[..., Any], path: str, error: object) -> None:
    """Restore permissions and retry: a command may have removed its own."""
    if os.geteuid() == 0:
        return  # Modes do not stop root. Another user may own the folder, and could replace it by a link.
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)


# --------------------------------------------------------------------------------------------------------------------
# Resource limits. A shell sets them immediately before it executes the command.

# Bash limits processes with -u, other shells with -p.
_PROCESSES = "{{ ulimit -u {0} 2>/dev/null || ulimit -p {0}; }}"


def limit(argv: Sequence[str], limits: BoxLimits) -> tuple[str, ...]:
    """Return the command line that sets the limits and then runs `argv`. If it cannot set a limit, it runs nothing."""
    if os.name != "posix":
        return tuple(argv)
    limits = _below_hard_limits(limits)
    steps = ["ulimit -c 0"]
    if limits.cpu_seconds is not None:
        # One second between SIGXCPU, which names the reason, and SIGKILL.
        seconds = max(1, int(limits.cpu_seconds))
        steps.append(f"ulimit -t {seconds + 1} && ulimit -S -t {seconds}")
    if limits.memory_bytes is not None:
        steps.append(f"ulimit -d {max(1, int(limits.memory_bytes) // 1024)}")
    if limits.file_bytes is not None:
        # POSIX: blocks of 512 bytes, which every `sh` uses.
        steps.append(f"ulimit -f {int(limits.file_bytes) // 512}")
    if limits.open_files is not None:
        steps.append(f"ulimit -n {max(1, int(limits.open_files))}")
    if limits.processes is not None:
        steps.append(_PROCESSES.format(max(1, int(limits.processes))))
    script = " && ".join(steps) + ' || { echo "dragoman: cannot set the limits of the box" >&2; exit 125; }; exec "$@"'
    return ("/bin/sh", "-c", script, "dragoman", *argv)


def _below_hard_limits(limits: BoxLimits) -> BoxLimits:
    """Return the limits, none of them above the hard limit of this process: an unprivileged process cannot raise it."""
    import resource

    kinds = {"memory_bytes": "RLIMIT_DATA", "file_bytes": "RLIMIT_FSIZE", "processes": "RLIMIT_NPROC"}
    lower: dict[str, int] = {}
    for name, kind in kinds.items():
        wanted, hard = getattr(limits, name), resource.getrlimit(getattr(resource, kind))[1]
        if wanted is not None and hard not in (resource.RLIM_INFINITY, -1) and hard < wanted:
            lower[name] = hard
    return replace(limits, **lower)


# --------------------------------------------------------------------------------------------------------------------
# A limit on the number of processes that also applies to root.
#
# The kernel does not apply the limit of processes to root. So root gets a control group, if dragoman can create one.

_OWN_PROCESSES = 4
"""The number of processes that the sandbox itself needs."""
_TRIES = 40
_PAUSE = 0.005
_count = itertools.count()
_JOIN = 'echo 0 > "$1" || exit 125; shift; exec "$@"'


class ProcessBound:
    """A control group for one command. The processes of the command cannot leave it."""

    def __init__(self, folder: str, processes: int, memory: int | None) -> None:
        self._folder = os.path.join(folder, f"dragoman-{os.getpid()}-{next(_count)}")
        os.mkdir(self._folder)
        try:
            Path(self._folder, "pids.max").write_text(str(processes + _OWN_PROCESSES), encoding="ascii")
        except OSError:
            os.rmdir(self._folder)
            raise
        with contextlib.suppress(OSError):
            # If the group also counts memory, this is a limit for all processes together.
            limit = os.open(os.path.join(self._folder, "memory.max"), os.O_WRONLY)
            with closing(limit):
                os.write(limit, b"max" if memory is None else b"%d" % memory)

    def join(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that joins the group and then runs `argv`."""
        return ("/bin/sh", "-c", _JOIN, "dragoman", os.path.join(self._folder, "cgroup.procs"), *argv)

    def remove(self) -> tuple[str, ...]:
        """Remove the group. The last processes of a command may need a moment to end."""
        for _ in range(_TRIES):
            try:
                os.rmdir(self._folder)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(_PAUSE)
        return ()


def bound_processes(limits: BoxLimits) -> ProcessBound | None:
    """Return a control group for one command of root; None if there is no limit, or no group can be created."""
    if limits.processes is None or os.geteuid() != 0:
        return None
    for folder in _folders():
        _sweep(folder)
        with contextlib.suppress(OSError):
            return ProcessBound(folder, limits.processes, limits.memory_bytes)
    return None


@functools.cache
def _folders() -> tuple[str, ...]:
    """Return the folders in which a group that counts processes can be created: our own group, or one above it."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").split("\n")[:-1]]
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").split("\n")[:-1]]
    except OSError:
        return ()
    found: list[str] = []
    for mount in mounts:
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        for number, names, path in groups:
            if (kind == "cgroup" and "pids" in options and "pids" in names.split(",")) or (
                kind == "cgroup2" and number == "0" and not names
            ):
                found += _upwards(mount[4], os.path.relpath(path, mount[3]), every=kind == "cgroup2")
    return tuple(found)


def _upwards(top: str, below: str, *, every: bool) -> list[str]:
    """Return our own group and the groups above it. In cgroup v2, return only those that count processes."""
    here = os.path.normpath(os.path.join(top, "." if below.startswith("..") else below))
    folders = [here]
    while every and here != top:
        here = os.path.dirname(here)
        folders.append(here)
    return [folder for folder in folders if not every or _counts(folder)]


def _counts(folder: str) -> bool:
    try:
        return "pids" in Path(folder, "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return False


def _sweep(folder: str) -> None:
    """Remove the empty groups of killed processes."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            owner = name.removeprefix("dragoman-").partition("-")[0]
            if name.startswith("dragoman-") and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(folder, name))


# --------------------------------------------------------------------------------------------------------------------
# The parts of the system that are visible in every box, and the parts that are visible in none.

SYSTEM_FOLDERS = words("/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu")
"""The folders that programs need to run. /home, /root, /run, /var, /mnt, /srv are not included."""

_SECRETS_IN_ETC = (
    "shadow shadow- gshadow gshadow- sudoers sudoers.d security/opasswd ssl/private pki/tls/private letsencrypt "
    "krb5.keytab docker kubernetes rancher wireguard NetworkManager/system-connections"
)
SYSTEM_SECRETS = tuple(f"/etc/{name}" for name in words(_SECRETS_IN_ETC))
"""Paths that every box hides. Without this, root could read them in a box."""

HOME_SECRETS = words(
    ".ssh .gnupg .aws .azure .config .docker .kube .netrc .git-credentials .pypirc .npmrc .password-store .mozilla "
    ".thunderbird .bash_history .zsh_history .python_history .psql_history .local/share/keyrings "
    ".local/share/dragoman .local/state Library .cargo/credentials .cargo/credentials.toml .m2/settings.xml "
    ".m2/settings-security.xml .gradle/gradle.properties .terraform.d .vault-token .s3cfg .boto .subversion/auth "
    ".gem/credentials .codex .claude .claude.json .gemini .databricks .databrickscfg .rclone.conf .jupyter .bitcoin "
    ".electrum .ethereum snap .pgpass .my.cnf .mysql_history .node_repl_history .oci .ibmcloud .huggingface "
    ".cache/huggingface/token .kaggle .fly .vercel .netlify .wrangler"
)
"""Paths in the home folder that a box hides if it shows the home folder, or a folder above it."""
_PARTS_OF_LOCAL = ("bin", "lib", "share/pipx", "share/uv", "share/pnpm")


def system_secrets() -> list[str]:
    """Return the secrets of the system that exist on this machine."""
    keys = sorted(glob.glob("/etc/ssh/ssh_host_*_key"))
    return [path for path in (*SYSTEM_SECRETS, *keys) if os.path.lexists(path)]


def home_folders() -> list[str]:
    """Return the home folder of this user, from the environment and from the user database."""
    found = [os.environ.get("HOME", "")]
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = [os.path.realpath(path) for path in found if os.path.isabs(path) and os.path.isdir(path)]
    return [path for path in dict.fromkeys(real) if path != "/"]


@functools.cache
def _all_homes() -> tuple[str, ...]:
    """Return the home folders of all users: root can read them, so a box of root has to hide their secrets."""
    import pwd

    real = {os.path.realpath(user.pw_dir) for user in pwd.getpwall() if os.path.isdir(user.pw_dir)}
    return tuple(sorted(real - {"/"}))


def secrets_below(folders: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return the secrets that the visible folders contain."""
    folders = list(folders)
    homes = [*home_folders(), *(_all_homes() if os.name == "posix" and os.geteuid() == 0 else ())]
    near = {home for home in homes if any(is_below(home, each) or is_below(each, home) for each in folders)}
    secrets = [os.path.join(home, name) for home in near for name in HOME_SECRETS]
    wanted = [os.path.realpath(path) for path in (*secrets, *hidden) if os.path.lexists(path)]
    return sorted({path for path in wanted if any(is_below(path, folder) and path != folder for folder in folders)})


_MOST_ENTRIES = 20_000


def sockets_below(box: Box) -> list[str]:
    """Return the sockets in the folders of a box, except those that `writable` names.

    The process that listens on such a socket runs outside the box. The kernel lists all sockets that were bound with an
    absolute path. In the workspace, this function also searches for others: 20,000 entries, upper folders first.
    """
    found = [*_sockets_in_workspace(box.workspace)]
    shown = [box.workspace, *box.writable, *box.readable, *filter(None, [box.home])]
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_bytes().split(b"\n")[1:]:
            path = os.fsdecode(line.split(None, 7)[7]) if line.count(b" /") else ""
            if path and any(is_below(os.path.realpath(path), folder) for folder in shown) and os.path.exists(path):
                found.append(os.path.realpath(path))
    return sorted(set(found) - set(box.writable))


def _sockets_in_workspace(workspace: str) -> Iterator[str]:
    waiting, count = deque([workspace]), 0
    while waiting and count < _MOST_ENTRIES:
        with contextlib.suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) and stat.S_ISSOCK(
                    entry.stat(follow_symlinks=False).st_mode
                ):
                    yield entry.path


def toolchains(search_path: str) -> tuple[str, ...]:
    """Return the folders below the home folder that the programs on a PATH need, for `Box.readable`.

    Version managers install interpreters there, and a box hides the home folder. `~/.pyenv/shims` needs all of
    `~/.pyenv`. In `~/.local`, only the folders with programs are returned. Folders with secrets are never returned.
    """
    found: list[str] = []
    for home in home_folders():
        for entry in map(os.path.realpath, filter(os.path.isabs, search_path.split(os.pathsep))):
            if not is_below(entry, home) or entry == home:
                continue
            first = os.path.relpath(entry, home).split("/")[0]
            if first in HOME_SECRETS:
                continue
            parts = [f".local/{part}" for part in _PARTS_OF_LOCAL] if first == ".local" else [first]
            found += [os.path.join(home, part) for part in parts]
    return tuple(dict.fromkeys(path for path in found if os.path.exists(path)))


# --------------------------------------------------------------------------------------------------------------------
# The interface of sandboxes, and the one without confinement.

Tier = Literal["bubblewrap", "landlock", "none"]
"""The kinds of sandboxes, from the strongest to none."""


class Finished(Struct, frozen=True):
    """How a command ended."""

    code: int
    """The exit code; 128 plus the number of a signal, as in shells."""
    output: bytes
    errors: bytes
    put_back: tuple[str, ...] = ()
    """The protected paths that the command changed, each with what dragoman did about it."""
    timed_out: bool = False


class Sandbox:
    """Runs commands with the permissions of a box."""

    @property
    def tier(self) -> Tier:
        """The kind of confinement."""
        raise AttributeError(f"{type(self).__name__} has no tier")

    @property
    def confines(self) -> bool:
        """Whether commands are confined."""
        return self.tier != "none"

    def check(self, box: Box) -> Box:
        """Return the box with real, absolute paths. Raises ConfigError if this sandbox cannot enforce it."""
        return check_box(box)

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        """Return the launch that runs `argv` in this box. This starts nothing."""
        raise TypeError(f"{type(self).__name__} does not implement launch")

    def run(self, argv: Sequence[str], box: Box, *, timeout: float | None = None) -> Finished:
        """Run `argv` in a box and wait for its end. The whole output is kept in memory."""
        launch = self.launch(argv, box)
        try:
            process = subprocess.Popen(
                launch.argv,
                env=launch.environment,
                pass_fds=launch.pass_fds,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            launch.started()
            output, errors, timed_out = _wait(process, timeout)
        finally:
            put_back = launch.finish()
        return Finished(process.returncode, output, errors, put_back, timed_out)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tier}>"


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[bytes, bytes, bool]:
    try:
        return *process.communicate(timeout=timeout), False
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return output, errors, True


class NoSandbox(Sandbox):
    """No confinement: only the environment and the limits of the box apply."""

    tier = "none"

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        box = self.check(box)
        environment = full_environment(box, home=box.home or os.path.expanduser("~"), temporary=tempfile.gettempdir())
        return Launch(limit(argv, box.limits), environment, cwd=box.cwd or box.workspace)


def bounded_launch(
    argv: tuple[str, ...],
    limits: BoxLimits,
    *,
    descriptors: list[int],
    endings: tuple[Callable[[], tuple[str, ...]], ...],
) -> Launch:
    """Return a launch with an empty environment. For root, it joins a control group that limits its processes."""
    bound = bound_processes(limits)
    if bound is not None:
        argv, endings = bound.join(argv), (bound.remove, *endings)
    return Launch(argv, {}, cwd="/", pass_fds=tuple(descriptors), endings=endings)

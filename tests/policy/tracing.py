"""Runs a command line in a scratch box under strace, and says what it did beyond reading in the workspace.

The box has the programs of the system, a scratch home folder with the workspace in it, and nothing else: no network, no
other processes, limits for time, memory and processes. Files outside the workspace are there to be missed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from dragoman.builtin.commands.bash import clean_environment


def words(text: str) -> tuple[str, ...]:
    """Split a text into words: this keeps long lists of names readable."""
    return tuple(text.split())


NOBODY = 65534
SECONDS = 10
VALUE_ELSEWHERE = "value-of-another-process"
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
_TRACED = (
    "file,process,network,signal,ipc,fchmod,fchown,ftruncate,fallocate,fsetxattr,fremovexattr,settimeofday,"
    "clock_settime,adjtimex,clock_adjtime,sethostname,setdomainname,ptrace,bpf,mq_open,mq_unlink,add_key,reboot,"
    "process_vm_readv,process_vm_writev,pidfd_open,pidfd_send_signal,setpriority,sched_setscheduler,sched_setaffinity"
)

# --------------------------------------------------------------------------------------------------------------------
# The scratch home folder: a workspace with plain files, links and a repository, and canaries around it.

PLAIN = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "two\nfour\n",
    "with blank.txt": "1 2\n",
    "-n": "a file that looks like an option\n",
    "data.json": '{"a": [1, {"b": "x"}], "path": "../secret.txt"}\n',
    "table.csv": "id,name\n2,b\n1,a\n",
    "names.txt": "../secret.txt\n",
    "names0.txt": "../secret.txt\0",
    "sums.txt": "d41d8cd98f00b204e9800998ecf8427e  ../secret.txt\n",
    "dates.txt": "2020-01-01\n",
    "program.awk": "BEGIN { print 1 }\n",
    "program.sed": "p\n",
    "program.jq": ".a\n",
    "module.jq": "def f: 1;\n",
    "run.sh": "#!/bin/sh\ntouch was-run\n",
    "sub/c.py": "import os\nx = 1\n",
    "sub/deep/d.md": "# head\n",
    "sub/.gitignore": "*.log\n",
    "old.log": "line\n",
}
LINKS = {
    "link-in": "a.txt",
    "link-out": "../linked.txt",
    "link-far": "/etc/hostname",
    "sub/link-up": "../../linked.txt",
    "folder-in": "sub",
    "folder-out": "../elsewhere",
    "broken": "../missing.txt",
    "chain": "link-out",
    "up": "..",
}
OUTSIDE = (
    "secret.txt",
    "linked.txt",
    ".ssh/id_ed25519",
    ".netrc",
    ".bash_history",
    "elsewhere/secret.txt",
    "elsewhere/sub/x.txt",
)
RUN_BY = "#!/bin/sh\ntouch was-run\n"


class Scratch(Struct, frozen=True):
    """A home folder with a workspace, at the same path inside and outside the box."""

    home: Path

    @property
    def workspace(self) -> Path:
        return self.home / "work"

    @property
    def trace(self) -> Path:
        return self.home.parent / "trace"

    def fill(self) -> None:
        """Create the files. Everything is readable for the user of the box."""
        for folder in (self.home, self.workspace, self.trace):
            folder.mkdir(parents=True)
        for name, text in PLAIN.items():
            self._write(self.workspace / name, text)
        for name in OUTSIDE:
            self._write(self.home / name, "canary\n")
        for name, target in LINKS.items():
            (self.workspace / name).symlink_to(target)
        (self.workspace / "run.sh").chmod(0o755)
        self._make_repository()
        for folder in (self.workspace, self.trace):
            self._hand_over(folder)

    def refill(self) -> None:
        shutil.rmtree(self.home)
        shutil.rmtree(self.trace)
        self.fill()

    def picture(self) -> dict[str, tuple[int, int, int]]:
        """The state of every file, to notice what a trace would not show."""
        states = {str(path): path.lstat() for path in sorted(self.home.rglob("*"))}
        return {path: (state.st_mode, state.st_size, state.st_mtime_ns) for path, state in states.items()}

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _make_repository(self) -> None:
        quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": SEARCH_PATH}
        dates = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        commands: list[list[str]] = [
            [*git, "init", "-q", "-b", "main", "."],
            [*git, "add", "a.txt", "b.txt", "sub"],
            [*git, "commit", "-qm", "first"],
            [*git, "commit", "-q", "--allow-empty", "-m", "second"],
            [*git, "tag", "v1"],
        ]
        for command in commands:
            subprocess.run(command, cwd=self.workspace, env=quiet | dates, check=True, capture_output=True)
        self._write(self.workspace / "b.txt", "two\nfive\n")

    def _hand_over(self, folder: Path) -> None:
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


# --------------------------------------------------------------------------------------------------------------------
# The box.


class Traced(Struct, frozen=True):
    """What a command line did."""

    deeds: tuple[str, ...]
    """What it did beyond reading in the workspace; empty for a harmless line."""
    output: str = ""
    timed_out: bool = False


def run_traced(scratch: Scratch, line: str, programs: Iterable[str]) -> Traced:
    """Run a line in the box; `programs` are those that it names."""
    path = scratch.trace / "calls"
    path.unlink(missing_ok=True)
    shell = ["/bin/bash", "--noprofile", "--norc", "-c", line]
    # The line does not get this variable of strace: only who reads the environment of other processes sees it.
    options = ["-E", "ELSEWHERE", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "4096", "-e", f"trace={_TRACED}"]
    output, timed_out = run_boxed(scratch, ["strace", *options, "-o", str(path), *shell], ELSEWHERE=VALUE_ELSEWHERE)
    if not path.exists():
        raise RuntimeError(f"nothing was traced: {output}")
    calls = path.read_text(encoding="utf-8", errors="replace")
    deeds = list(find_deeds(calls, scratch, frozenset(programs)))
    if VALUE_ELSEWHERE in output:
        deeds.append("prints: the environment of another process")
    return Traced(tuple(dict.fromkeys(deeds)), output, timed_out)


def run_boxed(scratch: Scratch, argv: Iterable[str], **variables: str) -> tuple[str, bool]:
    """Run a program in the box; returns its output, and whether it had to be killed."""
    environment = clean_environment({"HOME": str(scratch.home), "PATH": SEARCH_PATH, "LANG": "C.UTF-8"}) | variables
    process = subprocess.Popen(
        [*_box(scratch), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )
    timed_out = False
    try:
        output = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
    return output[:100_000].decode(errors="replace"), timed_out


def _box(scratch: Scratch) -> list[str]:
    """The start of a command that runs something in the box."""
    argv = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    argv += ["--unshare-uts", "--cap-drop", "ALL"]
    for folder in ("/usr", "/etc", "/bin", "/lib", "/lib64", "/sbin"):
        if os.path.islink(folder):
            argv += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            argv += ["--ro-bind", folder, folder]
    argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for folder in reversed(scratch.home.parents[:-1]):
        argv += ["--dir", str(folder)]
    argv += ["--ro-bind", str(scratch.home), str(scratch.home)]
    for folder in (scratch.workspace, scratch.trace):
        argv += ["--bind", str(folder), str(folder)]
    argv += ["--chdir", str(scratch.workspace)]
    limits = ["prlimit", "--nproc=400", f"--cpu={SECONDS}", f"--fsize={64 << 20}", f"--as={4 << 30}", "--core=0", "--"]
    if os.geteuid() != 0:
        return [*argv, "--unshare-user", *limits]
    # Limits of processes do not hold for root.
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
    return [*argv, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", *user, *limits]


# --------------------------------------------------------------------------------------------------------------------
# What a trace says.

_CALL = re.compile(r"\d+ +(?:<\.\.\. )?(\w+)(?: resumed>|\()(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"')
_OPENED = re.compile(r"= \d+<((?:[^>\\]|\\.)*)>[^>]*\Z")
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
_CHANGES = words(
    "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat chmod "
    "fchmod fchmodat fchmodat2 chown fchown lchown fchownat truncate ftruncate fallocate utime utimes utimensat "
    "futimesat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr mount umount2 pivot_root chroot "
    "swapon swapoff acct settimeofday clock_settime sethostname setdomainname ptrace bpf mq_open mq_unlink add_key "
    "reboot shmget msgget semget process_vm_readv process_vm_writev pidfd_open pidfd_send_signal rt_sigqueueinfo "
    "rt_tgsigqueueinfo setpriority sched_setscheduler"
)
_SIGNALS = frozenset({"kill", "tkill", "tgkill"})
_REACHES = frozenset({"connect", "bind", "listen", "sendto", "sendmsg", "sendmmsg", "accept", "accept4"})
_WITHOUT_LINKS = re.compile(r"O_NOFOLLOW|O_PATH")

_NATURAL = re.compile(
    r"/(?:usr|lib|lib64|bin|sbin)(?:/.*)?"
    r"|/etc/(?:ld\.so\..*|passwd|group|nsswitch\.conf|localtime|locale\..*|magic(?:\.m.*)?|gitconfig|gitattributes"
    r"|hostname|hosts|host\.conf|resolv\.conf|gai\.conf|networks|terminfo(?:/.*)?|alternatives/.*|ssl/openssl\.cnf"
    r"|userdb(?:/.*)?|mtab|fstab|python3[^/]*/.*|inputrc|bindresvport.*|protocols|services)"
    r"|/proc/(?:self|thread-self|[0-9]+)/(?:maps|mountinfo|mounts|status|stat|statm|cgroup|fd|auxv|cmdline|comm|wchan"
    r"|task(?:/.*)?|limits|ctty|loginuid|sessionid|attr/.*|ns/.*|oom.*)?"
    r"|/proc/(?:self|filesystems|meminfo|stat|uptime|loadavg|version|cpuinfo|mounts|sys/kernel/.*|sys/vm/.*|tty/.*"
    r"|sysvipc/.*|cmdline)?"
    r"|/sys/(?:devices/(?:system|virtual)/.*|fs/cgroup.*|kernel/mm/.*)"
    r"|/etc|/run|/run/(?:host/)?(?:userdb|systemd)(?:/.*)?|/usr/lib/userdb|/run/utmp|/var/run/utmp|/dev/(?:null|tty|urandom|random|zero|full|pts.*|shm)?|/"
)
"""What programs read by their nature: libraries, locales, lists of users, state of the system."""
_OWN_SETTINGS = {
    "git": (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes", ".config"),
    "rg": (".config/git/ignore", ".gitconfig", ".config/git/config"),
    "jq": (".jq",),
    "tree": (".config/git/ignore",),
    "file": (".magic", ".magic.mgc"),
}
"""Files in the home folder that are the settings of a program, by its documentation."""
_PROBES = {
    "git": frozenset({".git", "HEAD", "commondir", "objects", "refs", ""}),
    "rg": frozenset({".git", ".gitignore", ".ignore", ".rgignore", ".git/info/exclude", ""}),
    "fdfind": frozenset({".git", ".gitignore", ".ignore", ".fdignore", ""}),
    "tree": frozenset({".gitignore", ".info", ".git", ""}),
}
"""Names that a program looks for in every folder above."""
_HELPERS = {"egrep": {"grep"}, "fgrep": {"grep"}, "which": {"sh", "dash"}}
"""The programs that are scripts or start others, by their documentation."""


def find_deeds(trace: str, scratch: Scratch, programs: frozenset[str]) -> Iterator[str]:
    """Everything in a trace that goes beyond reading in the workspace."""
    judge = _Judge(scratch, programs)
    # `cd` alone is no reading: it tells no more than whether there is such a folder.
    judge.entered = {os.path.normpath(_plain(path)) for path in re.findall(r' chdir\("((?:[^"\\]|\\.)*)"', trace)}
    for line in trace.split("\n"):
        found = _CALL.match(line)
        if found is not None and "strace: " not in line:
            yield from judge.judge(found[1], found[2])


class _Judge:
    def __init__(self, scratch: Scratch, programs: frozenset[str]) -> None:
        self._home = str(scratch.home)
        self._workspace = str(scratch.workspace)
        self._programs = programs
        self.entered: set[str] = set()
        helpers = (helper for program in programs for helper in _HELPERS.get(program, ()))
        self._runs = {*programs, *helpers, "bash", *({"git"} if programs & {"git", "gh"} else ())}

    def judge(self, name: str, rest: str) -> Iterator[str]:
        if name in _OPENS:
            yield from self._judge_open(rest)
        elif name in ("execve", "execveat"):
            yield from self._judge_exec(rest)
        elif name in _CHANGES:
            yield f"changes: {name}({rest[:120]}"
        elif name in _REACHES:
            # Only an address shows that it is more than an answer; the daemon of names is part of the library.
            if "sun_path" in rest and "nscd" in rest:
                return
            if "sa_family" in rest and "AF_NETLINK" not in rest:
                yield f"reaches: {name}({rest[:120]}"
        elif name in _SIGNALS:
            yield f"signals: {name}({rest[:80]}"
        else:
            yield from self._judge_look(name, rest)

    def _paths(self, rest: str) -> Iterator[str]:
        for folder, written in _QUOTED.findall(rest):
            yield os.path.join(_plain(folder) or self._workspace, _plain(written))

    def _judge_open(self, rest: str) -> Iterator[str]:
        opened = _OPENED.search(rest)
        named = next(self._paths(rest), None)
        if named is None:
            return
        path = _plain(opened[1]) if opened else named if _WITHOUT_LINKS.search(rest) else os.path.realpath(named)
        if _WRITES.search(rest.rpartition('"')[2].partition("=")[0]):
            if path not in ("/dev/null", "/dev/tty"):
                yield f"writes: {path}"
        elif not self._may_read(path):
            yield f"reads: {path}" + ("" if opened else " (failed)")

    def _judge_exec(self, rest: str) -> Iterator[str]:
        quoted = _QUOTED.match(rest)
        if quoted is None:
            return  # The end of a call that was judged at its start.
        path = quoted[2]
        if os.path.basename(path) not in self._runs and "/git-core/" not in path and "= -1" not in rest:
            yield f"runs: {rest[:120]}"
        elif path.startswith(self._home):
            yield f"runs: {path}"

    def _judge_look(self, name: str, rest: str) -> Iterator[str]:
        """Calls that only look: not the content, but whether there is a file, and what it is."""
        for path in map(os.path.normpath, self._paths(rest)):
            if os.path.basename(path) in ("linked.txt", "missing.txt", "elsewhere") or path in self.entered:
                continue  # `ls -l` looks at what a link in the workspace names.
            if path.startswith(f"{self._home}/") and not self._may_read(path) and "AT_EMPTY_PATH" not in rest:
                yield f"looks at: {path} ({name})"

    def _may_read(self, path: str) -> bool:
        if path == self._workspace or path.startswith(f"{self._workspace}/") or _NATURAL.fullmatch(path):
            return True
        if re.match(r"(?:pipe|socket|anon_inode|/memfd):", path):
            return True
        if "ps" in self._programs and re.fullmatch(r"/proc(?:/\d+/environ)?", path):
            return True  # It reads more than it prints; `run_traced` looks at what it prints.
        above = self._folders_above()
        allowed = {
            *(os.path.join(self._home, each) for program in self._programs for each in _OWN_SETTINGS.get(program, ())),
            *(
                os.path.join(top, name)
                for program in self._programs
                for name in _PROBES.get(program, ())
                for top in above
            ),
        }
        return path in allowed or f"{path}/" in allowed

    def _folders_above(self) -> list[str]:
        parts = self._workspace.split("/")
        return ["/".join(parts[:count]) or "/" for count in range(1, len(parts))]


def _plain(quoted: str) -> str:
    """A path as strace writes it, without its escapes."""
    text = re.sub(r"\\([0-7]{1,3}|.)", lambda found: _ESCAPES.get(found[1]) or _octal(found[1]), quoted)
    return text.removesuffix(" (deleted)")


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}


def _octal(text: str) -> str:
    return chr(int(text, 8)) if text[0] in "01234567" else text

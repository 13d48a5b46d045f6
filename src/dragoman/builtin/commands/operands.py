"""Files and programs that a command line would run, and git settings that make git run programs."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.builtin.files.workspace import identity_of
from dragoman.own_code import absolute_entries, is_below, places_of
from dragoman.sandbox.protection import closing
from dragoman.types import Operand

if TYPE_CHECKING:
    from dragoman.policy.shell import ProgramStart, Reading

# --------------------------------------------------------------------------------------------------------------------
# The settings of a repository, read far enough to say whether git would run something that they name.
#
# Git is never asked: it would already do what the settings say. Only settings that are known to name no program pass;
# a key that is not known, a line that is written in an odd way and a file that is too large do not.

_FOR_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_LARGEST_CONFIG = 1 << 20
_HEADER = re.compile(r'[ \t]*\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\]')
_BLANK = re.compile(r"[ \t]*(?:[#;].*)?\Z")
_PAIR = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?\Z")
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMMENT = re.compile(r"[#;]")


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALL = frozenset({"*"})
_SECTIONS_WITHOUT_PROGRAMS = (
    "advice am apply author blame branch checkout clean clone color column commit committer feature fetch grep "
    "gui http i18n index init log maintenance notes pack pull push rebase receive rerere sendemail stash status tag "
    "transfer url user versionsort "
    # Of programs beside git, which git itself does not look at.
    "lfs gitflow git-town branchless vscode gitbutler github gk"
)
_HARMLESS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_SECTIONS_WITHOUT_PROGRAMS.split(), _ALL),
    "core": _keys(
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
        "safecrlf quotepath abbrev compression loosecompression bigfilethreshold sparsecheckout sparsecheckoutcone "
        "untrackedcache preloadindex commitgraph multipackindex splitindex trustctime checkstat fscache longpaths "
        "protecthfs protectntfs hidedotfiles commentchar commentstring whitespace fsync "
        "fsyncmethod fsyncobjectfiles createobject notesref warnambiguousrefs usereplacerefs sharedrepository"
    ),
    "credential": _keys("username usehttppath"),
    "diff": _keys(
        "algorithm renames renamelimit context interhunkcontext noprefix mnemonicprefix ignoresubmodules "
        "wserrorhighlight colormoved colormovedws indentheuristic suppressblankempty statgraphwidth statnamewidth "
        "dirstat autorefreshindex relative wordregex tool guitool xfuncname funcname binary cachetextconv"
    ),
    "extensions": _keys("worktreeconfig objectformat compatobjectformat refstorage relativeworktrees preciousobjects"),
    "format": _keys(
        "attach headers inforefs numbered outputdirectory signature subjectprefix suffix thread to cc from"
    ),
    "gc": _keys("auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable packrefs cruftpacks"),
    "gpg": _keys("format allowedsignersfile"),
    "merge": _keys("conflictstyle ff renames renamelimit stat log verbosity directoryrenames autostash tool guitool"),
    "remote": _keys("url pushurl fetch push mirror prune prunetags tagopt skipfetchall gh-resolved pushdefault"),
    "submodule": _keys(
        "url active branch ignore fetchrecursesubmodules recurse fetchjobs shallow propagatebranches alternatelocation "
        "alternateerrorstrategy"
    ),
}
_NAMING_FILES = _keys("excludesfile attributesfile ignorerevsfile orderfile")
_SWITCHES = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})


class Settings(Struct):
    """What the settings of a repository say that matters here: the paths are as written."""

    names_programs: bool = False
    """Whether they name a program or another file, or may do so."""
    hooks: list[str] = []
    """The folders of hooks."""
    worktrees: list[str] = []
    """The folders of files."""
    included: list[str] = []
    """The other files of settings."""
    files: list[str] = []
    """The other files that git reads."""

    def take(self, section: str, key: str, written: str | None) -> bool:
        """Take one setting; False where it names a program, or may."""
        if key in _NAMING_FILES:
            # Messages of git may show what is in such a file.
            value = _plain(written)
            self.files += [value] if value else []
            return value is not None and value[:1] not in ("", "/", "~", "%") and ".." not in value
        if (section, key) == ("log", "diffmerges"):
            # To compare with a new merge, git writes objects.
            return _plain(written) not in (None, "remerge", "r")
        if (section, key) == ("log", "showsignature"):
            return (_plain(written) or "true").lower() in ("false", "no", "off", "0")
        known = _HARMLESS.get(section, frozenset())
        if known is _ALL or key in known:
            return True
        value = _plain(written)
        if value is None:
            return False
        if (section, key) == ("format", "pretty"):
            # Git starts other programs for some of what a format shows, as it does for signatures.
            from dragoman.policy.shell.rows import is_of_kind

            return is_of_kind(value, "format")
        if (section, key) == ("core", "fsmonitor"):
            return value.lower() in _SWITCHES
        if (section, key) == ("submodule", "update"):
            return not value.startswith("!")
        if (section, key) in (("core", "hookspath"), ("core", "worktree")):
            (self.hooks if key == "hookspath" else self.worktrees).append(value)
            return value != "" and value[0] not in "~%"
        if section in ("include", "includeif"):
            self.included.append(value)
        return False


_DOUBTFUL = Settings(names_programs=True)


def read_settings(path: str) -> Settings | None:
    """Return the settings in a file; None if there is no file."""
    try:
        content = read_start(path, _LARGEST_CONFIG + 1)
    except FileNotFoundError:
        return None
    except OSError:
        return _DOUBTFUL
    return _DOUBTFUL if len(content) > _LARGEST_CONFIG else parse_settings(content)


def read_start(path: str, size: int) -> bytes:
    """The first bytes of a file, without waiting for anybody; OSError for what is no file."""
    with closing(os.open(path, _FOR_READING)) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        pieces, left = [], size
        while left > 0 and (piece := os.read(descriptor, left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _try_read(path: str, size: int) -> bytes | None:
    try:
        return read_start(path, size)
    except OSError:
        return None


def parse_settings(content: bytes) -> Settings:
    """What settings say. Every form that git and this reader could take for different things is doubtful."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").replace("\r\n", "\n")
    if _ODD.search(text):
        return _DOUBTFUL
    found, section = Settings(), ""
    for line in text.split("\n"):
        # A value that goes on in the next line would make that line something else than it looks.
        if line.endswith("\\"):
            return _DOUBTFUL
        position = 0
        while header := _HEADER.match(line, position):
            section = header[1].lower().partition(".")[0]
            position = header.end()
        if _BLANK.match(line, position):
            continue
        pair = _PAIR.match(line, position)
        if pair is None or not section or not found.take(section, pair[1].lower(), pair[2]):
            found.names_programs = True
    return found


def _plain(written: str | None) -> str | None:
    """A value as git would take it; None where that takes more than removing quotes around it."""
    if written is None:
        return "true"
    value = written.strip(" \t")
    if value.startswith('"'):
        value, _, after = value[1:].partition('"')
        return value if "\\" not in value and _BLANK.match(after) else None
    value = _COMMENT.split(value, maxsplit=1)[0].rstrip(" \t")
    return None if '"' in value or "\\" in value else value


# --------------------------------------------------------------------------------------------------------------------
# The locations of the programs of a command line: a program in the workspace may be written by a model.

_STARTED_BY = {
    "egrep": ("grep",),
    "fgrep": ("grep",),
    "git": ("git", "gpg", "gpgsm", "ssh-keygen", "ssh", "sh"),
    "gh": ("gh", "git", "gpg", "ssh", "sh"),
}
"""The programs that others start by name, although they only read."""
_DEPTH = 3


def find_programs(names: Iterable[str], path: str, top: str) -> list[str]:
    """Of the programs with these names, those that lie in the workspace."""
    entries = absolute_entries(path)
    found: list[str] = []
    waiting = [(name, 0) for name in names]
    seen: set[str] = set()
    for name, depth in waiting:  # It grows meanwhile.
        if name in seen or not name or ("/" in name and not depth) or "\0" in name or depth > _DEPTH:
            continue
        seen.add(name)
        candidates = (os.path.join(entry, name) for entry in (entries if "/" not in name else [top]))
        program = next((each for each in candidates if os.path.isfile(each) and os.access(each, os.X_OK)), "")
        if program and any(is_below(each, top) for each in places_of(program)):
            found.append(program)
        waiting += [(other, depth + 1) for other in (*_STARTED_BY.get(name, ()), *_interpreters(program))]
    return found


def _interpreters(program: str) -> list[str]:
    """The interpreter of a script; where that is `env`, the program that it looks for."""
    start = (_try_read(program, 256) if program else None) or b""
    if not start.startswith(b"#!"):
        return []
    words = os.fsdecode(start[2:].split(b"\n", 1)[0]).split()
    if not words or words[0].rsplit("/", 1)[-1] != "env":
        return words[:1]
    rest = (word.removeprefix("-S") for word in words[1:])
    return [word for word in rest if word and not word.startswith("-") and "=" not in word][:1]


# --------------------------------------------------------------------------------------------------------------------
# The folders that a repository keeps as repositories of their own: git looks into them, with their settings.

_LINK = struct.pack(">I", 0o160000)
_VERSIONS = (2, 3, 4)
_STAT = 40
"""Bytes of an entry before the name of its object; the mode is at 24."""
_EXTENDED = 0x4000


def find_links(content: bytes) -> list[str] | None:
    """The paths of the submodules in an index; None where they cannot be told."""
    if content.find(_LINK) < 0:
        return []
    # The four bytes may also be part of a time or a digest; what does not work out with one length of digest may with
    # the other.
    for size in (20, 32):
        try:
            return [path.decode("utf-8", "surrogateescape") for path in _links(content, size)]
        except (struct.error, ValueError, IndexError):
            continue
    return None


def _links(content: bytes, digest_size: int) -> Iterator[bytes]:
    signature, version, count = struct.unpack_from(">4sII", content)
    if signature != b"DIRC" or version not in _VERSIONS:
        raise ValueError(version)
    position, name = 12, b""
    for _ in range(count):
        start = position
        flags = struct.unpack_from(">H", content, start + _STAT + digest_size)[0]
        position = start + _STAT + digest_size + (4 if flags & _EXTENDED else 2)
        kept = 0
        if version == 4:
            dropped, position = _read_number(content, position)
            if dropped > len(name):
                raise ValueError(dropped)
            kept = len(name) - dropped
        end = content.index(b"\0", position)
        name = name[:kept] + content[position:end]
        if len(name) != flags & 0xFFF and flags & 0xFFF != 0xFFF:
            raise ValueError(name)
        position = end + 1 if version == 4 else start + (end - start + 8) // 8 * 8
        if content[start + 24 : start + 28] == _LINK:
            if not name:
                raise ValueError("a name that stands in another index")
            yield name


def _read_number(content: bytes, position: int) -> tuple[int, int]:
    value = content[position] & 0x7F
    while content[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (content[position] & 0x7F)
        if value > 1 << 20:
            raise ValueError(value)
    return value, position + 1


# --------------------------------------------------------------------------------------------------------------------
# The repositories that the git commands of a line would work in, and the files by which those run programs.
#
# Git runs what the settings of a repository name, and a repository may come from anybody. Nothing is run here:
# folders are searched as git searches them, and more of them where it is not certain which one git would take.

UNKNOWN = "?"
"""Stands for settings in a folder that is not known, or for more of them than are looked at."""
_PROGRAMS = ("git", "gh")
_MOST_FOLDERS = 200
_MOST_REPOSITORIES = 100
_LARGEST_INDEX = 64 << 20
_HOOKS = ("post-index-change", "reference-transaction")
"""The hooks that git may run in commands that only read: they renew the index."""
_NOT_READ = frozenset({"hooks", "modules", "lfs", "annex"})
"""The folders of a repository that git does not read, or that are searched as repositories of their own."""
_MOST_IN_REPOSITORY = 100_000
_HEAD = re.compile(rb"ref:[ \t]*refs/|[0-9a-f]{40}")


def find_settings(
    visits: Iterable[ProgramStart], top: str, environment: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The files by which git would run programs, for the commands of a line; UNKNOWN for folders that are not known.

    Then what lies outside the workspace, although a repository in the workspace makes git read it.
    """
    search = _Search(_hooks_of_user(environment), top)
    for visit in visits:
        if visit.words[0].rsplit("/", 1)[-1] not in _PROGRAMS:
            continue
        if not visit.is_certain:
            search.found[UNKNOWN] = None
        changes, named = _read_options(visit.words)
        named += [value for name, _, value in (each.partition("=") for each in visit.assignments) if name == "GIT_DIR"]
        named += [environment["GIT_DIR"]] if "GIT_DIR" in environment else []
        for folder in visit.folders:
            if "\0" in "".join((folder, *changes, *named)):
                continue
            search.start(_follow(top, (folder, *changes)), named)
    return list(search.found), list(search.elsewhere)


_WITH_REMOTE = ("push", "pull", "fetch")


def find_local_remotes(visits: Iterable[ProgramStart], top: str) -> list[Operand]:
    """The folders that git would take for a remote: it runs the hooks of such a repository."""
    found: dict[Operand, None] = {}
    for visit in visits:
        place = next((index for index, word in enumerate(visit.words) if word in _WITH_REMOTE), 0)
        if visit.words[0].rsplit("/", 1)[-1] != "git" or not place:
            continue
        changes, _ = _read_options(visit.words)
        for word in visit.words[place + 1 :]:
            for folder in visit.folders if word and not word.startswith("-") and "\0" not in word else ():
                for real in _follow(top, (folder, *changes, word)):
                    if os.path.isdir(real):
                        found[Operand("path", word, "read", real, inside=False)] = None
    return list(found)


def _hooks_of_user(environment: Mapping[str, str]) -> list[str]:
    """The folder for hooks in the user's own settings: it may be one in each repository."""
    home = environment.get("HOME", "")
    paths = ("/etc/gitconfig", os.path.join(home, ".gitconfig"), os.path.join(home, ".config", "git", "config"))
    return [each for found in map(read_settings, paths) if found is not None for each in found.hooks]


def _read_options(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The folders that `git -C` changes to, one after another, and the repositories that `--git-dir` names."""
    changes: list[str] = []
    named: list[str] = []
    for index, word in enumerate(words[1:-1], 1):
        if word == "-C":
            changes.append(words[index + 1])
        elif word == "--git-dir":
            named.append(words[index + 1])
    named += [word.partition("=")[2] for word in words if word.startswith("--git-dir=")]
    return changes, named


def _follow(top: str, steps: Iterable[str]) -> set[str]:
    """Where these steps lead: bash and git differ in what `..` after a link means, so both are taken."""
    written = top
    for step in steps:
        written = os.path.join(written, os.path.expanduser(step))
    return {os.path.realpath(written), os.path.realpath(os.path.normpath(written))}


class _Search:
    """Goes from folders to repositories, and from those to the ones inside them."""

    def __init__(self, hooks: list[str], workspace: str) -> None:
        self.found: dict[str, None] = {}
        self.elsewhere: dict[str, None] = {}
        self._workspace = workspace
        self._hooks = hooks
        self._started: set[str] = set()
        self._repositories: set[tuple[str, str]] = set()

    def start(self, folders: Iterable[str], named: Iterable[str]) -> None:
        """Look for what git would take in these folders, and for what the line names besides."""
        for folder in folders:
            for each in named:
                self._look_at(os.path.join(folder, os.path.expanduser(each)), folder)
            if folder in self._started:
                continue
            if len(self._started) >= _MOST_FOLDERS:
                self.found[UNKNOWN] = None
                return
            self._started.add(folder)
            self._walk_up(folder)

    def _walk_up(self, folder: str) -> None:
        while True:
            is_certain = self._look_at(os.path.join(folder, ".git"), folder)
            # A folder may be a repository itself.
            is_certain = is_certain or (
                os.path.lexists(os.path.join(folder, "HEAD")) and self._look_at(folder, os.path.dirname(folder))
            )
            above = os.path.dirname(folder)
            if is_certain or above == folder:
                return
            folder = above

    def _look_at(self, path: str, top: str) -> bool:
        """Look at a repository, or at the file that says where it is; True where git surely takes it."""
        repository = _read_pointer(path)
        if repository is None or not os.path.isdir(repository):
            return False
        repository = os.path.realpath(repository)
        common = _read_common(repository)
        if (repository, top) not in self._repositories:
            if len(self._repositories) >= _MOST_REPOSITORIES:
                self.found[UNKNOWN] = None
                return False
            self._repositories.add((repository, top))
            settings = self._read(repository, common, top)
            if is_below(path, self._workspace):
                self._find_elsewhere(repository, common, top, settings)
        return _is_repository(repository, common)

    def _read(self, repository: str, common: str, top: str) -> list[Settings]:
        settings = [
            *self._read_file(os.path.join(common, "config")),
            *self._read_file(os.path.join(repository, "config.worktree")),
        ]
        named = [*self._hooks, *(each for one in settings for each in one.hooks)]
        folders = [os.path.join(common, "hooks"), os.path.join(repository, "hooks")]
        folders += [os.path.join(start, each) for each in named for start in (top, repository)]
        hooks = [os.path.join(folder, name) for folder in folders for name in _HOOKS]
        self.found.update(dict.fromkeys(hook for hook in hooks if os.path.isfile(hook)))
        for one in settings:
            for written in one.worktrees:
                # A submodule says where its files are; whoever says something else sends git to other places.
                if os.path.realpath(os.path.join(repository, written)) != os.path.realpath(top):
                    self.found[os.path.join(common, "config")] = None
        self._enter_submodules(repository, top)
        return settings

    def _find_elsewhere(self, repository: str, common: str, top: str, settings: list[Settings]) -> None:
        """Find what git would read outside the workspace: another repository, its objects, and files behind links."""
        workspace, real = self._workspace, os.path.realpath(top)
        files = [os.path.join(real, each) for one in settings for each in one.files]
        paths = [path for path in files if is_below(os.path.normpath(path), workspace)]
        if is_below(repository, workspace):
            paths += [repository, common, *_find_objects(os.path.join(common, "objects"), workspace)]
        elif not _belongs_to(repository, real, settings):
            paths.append(repository)
        self.elsewhere.update(dict.fromkeys(each for each in paths if not is_below(os.path.realpath(each), workspace)))
        for folder in {repository, common} if not self.elsewhere else ():
            budget = [0, _MOST_IN_REPOSITORY]
            try:
                is_elsewhere = is_below(folder, workspace) and _leads_out(folder, workspace, budget, _NOT_READ)
            except TooMany:
                is_elsewhere = True
            if is_elsewhere:
                self.elsewhere[folder] = None

    def _read_file(self, path: str) -> Iterator[Settings]:
        """The settings in a file, and in those that it includes."""
        waiting = [path]
        seen: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or len(seen) >= _MOST_REPOSITORIES:
                continue
            seen.add(path)
            settings = read_settings(path)
            if settings is None:
                continue
            if settings.names_programs:
                self.found[path] = None
            for each in settings.included:
                included = os.path.join(os.path.dirname(path), os.path.expanduser(each))
                self.found[included] = None
                waiting.append(included)
            yield settings

    def _enter_submodules(self, repository: str, top: str) -> None:
        """Git starts itself in every submodule, to tell whether something has changed there."""
        try:
            names = [name for name in os.listdir(repository) if name == "index" or name.startswith("sharedindex.")]
        except OSError:
            return
        for name in names:
            path = os.path.join(repository, name)
            content = _try_read(path, _LARGEST_INDEX + 1)
            links = None if content is None or len(content) > _LARGEST_INDEX else find_links(content)
            if links is None:
                self.found[path] = None
                continue
            for link in links:
                folder = os.path.join(top, link)
                self._look_at(os.path.join(folder, ".git"), os.path.realpath(folder))


def _read_pointer(path: str) -> str | None:
    """The folder of a repository: the path itself, or what the file there names."""
    written = _try_read(path, 4096)
    if written is None:
        return path if os.path.isdir(path) else None
    if not written.startswith(b"gitdir: "):
        return None
    return os.path.join(os.path.dirname(path), _path_in(written.removeprefix(b"gitdir: ")))


def _path_in(written: bytes) -> str:
    """A path as git reads it from a file: without line ends, with every blank, up to a NUL."""
    return os.fsdecode(written.rstrip(b"\r\n").partition(b"\0")[0])


def _read_common(repository: str) -> str:
    """Where the settings and hooks of a repository are: elsewhere, if it is one of several worktrees."""
    named = _try_read(os.path.join(repository, "commondir"), 4096)
    return repository if named is None else os.path.realpath(os.path.join(repository, _path_in(named)))


def _belongs_to(repository: str, top: str, settings: Iterable[Settings]) -> bool:
    """Whether a repository outside the workspace itself says that these are its files, as one of a worktree does."""
    named = [os.path.join(repository, each) for one in settings for each in one.worktrees]
    written = _try_read(os.path.join(repository, "gitdir"), 4096)
    if written is not None:
        folder, name = os.path.split(os.path.join(repository, _path_in(written)))
        named += [folder] if name == ".git" else []
    return any(os.path.realpath(each) == top for each in named)


def _find_objects(folder: str, workspace: str) -> list[str]:
    """The folders of objects that a folder of objects refers to, up to those outside the workspace."""
    found = [folder]
    for each in found:  # It grows meanwhile.
        content = _try_read(os.path.join(each, "info", "alternates"), 1 << 16) if is_below(each, workspace) else None
        # A line in quotes is written in an odd way: it counts as one outside.
        lines = [os.fsdecode(line) for line in (content or b"").split(b"\n") if line and not line.startswith(b"#")]
        others = ("/" if line.startswith('"') else os.path.realpath(os.path.join(each, line)) for line in lines)
        found += [other for other in dict.fromkeys(others) if other not in found]
    return found


def _is_repository(repository: str, common: str) -> bool:
    head = _try_read(os.path.join(repository, "HEAD"), 256) or b""
    parts = (os.path.join(common, name) for name in ("objects", "refs"))
    return _HEAD.match(head) is not None and all(map(os.path.isdir, parts))


# --------------------------------------------------------------------------------------------------------------------
# The files that a command line reads, where links lead them. The policy sees only the spelling of paths.

_MOST_PATHS = 5_000
_MOST_LINKS = 50
_MOST_ENTRIES = 20_000
_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")
_WITH_BRACKET = re.compile(r"\[[^/]*")


class TooMany(Exception):
    """There are more files than are looked at."""


def find_reads(reads: Iterable[Reading], top: str) -> list[Operand]:
    """The files behind links, in and outside the workspace, names that would become options, and searched folders."""
    found: dict[Operand, None] = {}
    budget = [_MOST_PATHS, _MOST_ENTRIES]
    for reading in reads:
        try:
            if not reading.leaves and "\0" not in reading.path:
                found.update(dict.fromkeys(_find_behind_links(reading, top, budget)))
            if len(found) > _MOST_LINKS:
                return [Operand("path", reading.path or ".", "read", inside=False)]
        except TooMany:
            found[Operand("path", reading.path or ".", "read", inside=False)] = None
    return list(found)


def _spend(budget: list[int], place: int) -> None:
    budget[place] -= 1
    if budget[place] < 0:
        raise TooMany


def _find_behind_links(reading: Reading, top: str, budget: list[int]) -> Iterator[Operand]:
    named = reading.path or reading.folders[0]
    for folder in reading.folders:
        start = os.path.join(top, folder).rstrip("/")
        paths = _expand(start, reading.path, budget) if reading.is_pattern else [f"{start}/{reading.path}"]
        for path in paths:
            _spend(budget, 0)
            name = path[len(start) :].lstrip("/")
            if reading.is_pattern and name.startswith(("-", "@") if reading.kind == "source" else "-"):
                yield Operand("path", name, "run", path)
            # Bash and programs differ in what `..` after a link means.
            for real in {os.path.realpath(path), os.path.realpath(os.path.normpath(path))}:
                is_inside = _is_inside(real, top) and not (reading.kind == "tree" and _leads_out(real, top, budget))
                if not is_inside or real != os.path.normpath(path):
                    yield Operand("path", named, "read", real, is_inside)
        yield from _find_searched(reading, start, top)


def _find_searched(reading: Reading, start: str, top: str) -> Iterator[Operand]:
    """The folder in which a command searches all files, with a slash at its end. A pattern names some of its parts."""
    real = os.path.realpath(start if reading.is_pattern else f"{start}/{reading.path}")
    if reading.is_searched and _is_inside(real, top) and os.path.isdir(real):
        yield Operand("path", f"{os.path.relpath(real, top)}/", "read", real)


def _expand(start: str, pattern: str, budget: list[int]) -> list[str]:
    """The names that bash may put in place of a pattern, and some more."""
    paths = [start]
    # Brackets have other rules in bash, so that they stand for anything here.
    for step in _WITH_BRACKET.sub("*", pattern).replace("\\", "?").split("/"):
        if "*" in step or "?" in step:
            matches = re.compile(fnmatch.translate(step)).match
            # `.*` also stands for the folder above, in most versions of bash.
            special = (".", "..") if step[0] == "." else ()
            names = ((path, name) for path in paths for name in (*special, *_names_in(path, budget)))
            paths = [f"{path}/{name}" for path, name in names if matches(name) and (special or name[0] != ".")]
        else:
            paths = [f"{path}/{step}" for path in paths]
    return paths


def _names_in(folder: str, budget: list[int]) -> Iterator[str]:
    return (entry.name for entry in _entries_of(folder, budget))


def _entries_of(folder: str, budget: list[int]) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            _spend(budget, 1)
            yield entry


def _is_inside(real: str, top: str) -> bool:
    """Whether a file is in the workspace; what the kernel shows as files is in none."""
    shown = any(is_below(real, each) and not is_below(top, each) for each in _OF_THE_SYSTEM)
    return is_below(real, top) and not shown


def _leads_out(folder: str, top: str, budget: list[int], ignored: frozenset[str] = frozenset()) -> bool:
    """Whether a link below a folder leads out of the workspace, except below the entries with the ignored names."""
    waiting, seen = [folder], {folder}
    while waiting:
        inside = waiting.pop()
        for entry in _entries_of(inside, budget):
            if (inside == folder and entry.name in ignored) or not (entry.is_symlink() or entry.is_dir()):
                continue
            real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            if not _is_inside(real, top):
                return True
            if real not in seen and entry.is_dir():
                seen.add(real)
                waiting.append(real)
    return False


# --------------------------------------------------------------------------------------------------------------------
# The files that a command line would run, told apart by what is in them: a script can change after it was approved.

_LARGEST_SCRIPT = 512 * 1024 * 1024


class TooLarge(OSError):
    """A script that is too large to be reviewed."""


def find_operands(command: str, folder: str, environment: Mapping[str, str]) -> list[Operand]:
    """The command line itself, every file that says what it would run, and the files that it reads through links.

    The files that say it are scripts, programs that lie in the workspace, and the settings of repositories that name
    programs.
    """
    from dragoman.policy import shell

    top = os.path.realpath(folder)
    files = [describe(path, folder) for path in dict.fromkeys(shell.scripts(command))]
    visits = shell.visits(command)
    programs = find_programs((visit.words[0] for visit in visits), environment.get("PATH", ""), top)
    files += [_describe_as(path, top) for path in programs]
    settings, elsewhere = find_settings(visits, top, environment)
    files += [_UNKNOWN if path == UNKNOWN else describe(path, folder) for path in settings]
    files += [Operand("path", path, "read", path, inside=False) for path in elsewhere]
    files += find_local_remotes(visits, top)
    files += find_reads(shell.read_only(command).reads, top)
    entered = [shell.Reading(visit.words[-1], "read", visit.folders) for visit in visits if visit.words[0] == "cd"]
    files += [each for each in find_reads(entered, top) if not each.inside]
    return [Operand(kind="command", value=command, access="run", inside=True), *dict.fromkeys(files)]


_UNKNOWN = Operand(kind="path", value="a folder that is not known", access="run", inside=False)


def describe(path: str, folder: str) -> Operand:
    """A script as it is at this moment; one that is not there has no identity."""
    top = os.path.realpath(folder)
    return _describe_as(os.path.realpath(os.path.join(top, os.path.expanduser(path))), top)


def _describe_as(path: str, top: str) -> Operand:
    """A file under the name by which it is found, which may be a link to another place."""
    real = os.path.realpath(path)
    is_inside = is_below(path, top)
    identity, digest = _fingerprint(real)
    return Operand(
        kind="path",
        value=os.path.relpath(path, top) if is_inside else path,
        access="run",
        real=real,
        inside=is_inside,
        identity=identity,
        digest=digest,
    )


def has_changed(command: str, folder: str, environment: Mapping[str, str], approved: Iterable[Operand]) -> bool:
    """Whether a file that says what this line runs is not what it was when the line was decided on."""
    approved = tuple(approved)
    return bool(approved) and essences(find_operands(command, folder, environment)) != essences(approved)


def essences(operands: Iterable[Operand]) -> set[tuple[str, str, str]]:
    """The identity, the digest and the path of every file that would be run."""
    return {(each.identity, each.digest, each.real) for each in operands if (each.kind, each.access) == ("path", "run")}


def _fingerprint(path: str) -> tuple[str, str]:
    """Device and inode, and the digest of the content where it is a file."""
    try:
        descriptor = os.open(path, _FOR_READING)
    except OSError:
        # Not there, or not ours to read: then its content is unknown, and the digest stays empty.
        with contextlib.suppress(OSError):
            return identity_of(os.stat(path)), ""
        return "", ""
    with closing(descriptor):
        found = os.fstat(descriptor)
        return identity_of(found), _digest(descriptor, path) if stat.S_ISREG(found.st_mode) else ""


def _digest(descriptor: int, path: str) -> str:
    digest, size = hashlib.sha256(), 0
    while piece := os.read(descriptor, 1 << 20):
        digest.update(piece)
        size += len(piece)
        if size > _LARGEST_SCRIPT:
            raise TooLarge(f"{path} is too large to be looked at before it is run")
    return digest.hexdigest()

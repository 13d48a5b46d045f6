"""The settings of a repository, read far enough to say whether git would run something that they name.

Git is never asked: it would already do what the settings say. Only settings that are known to name no program pass;
a key that is not known, a line that is written in an odd way and a file that is too large do not.
"""

from __future__ import annotations

import os
import re
import stat

from msgspec import Struct

_LARGEST = 1 << 20
_HEADER = re.compile(r'[ \t]*\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\]')
_BLANK = re.compile(r"[ \t]*(?:[#;].*)?\Z")
_PAIR = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?\Z")
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMMENT = re.compile(r"[#;]")


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALL = frozenset({"*"})
_SECTIONS_WITHOUT_PROGRAMS = (
    "advice am apply author blame branch checkout clean clone color column commit committer feature fetch format grep "
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
        "protecthfs protectntfs hidedotfiles excludesfile attributesfile commentchar commentstring whitespace fsync "
        "fsyncmethod fsyncobjectfiles createobject notesref warnambiguousrefs usereplacerefs sharedrepository"
    ),
    "credential": _keys("username usehttppath"),
    "diff": _keys(
        "algorithm renames renamelimit context interhunkcontext noprefix mnemonicprefix ignoresubmodules "
        "wserrorhighlight colormoved colormovedws indentheuristic suppressblankempty statgraphwidth statnamewidth "
        "dirstat autorefreshindex relative wordregex tool guitool xfuncname funcname binary cachetextconv"
    ),
    "extensions": _keys("worktreeconfig objectformat compatobjectformat refstorage relativeworktrees preciousobjects"),
    "gc": _keys("auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable packrefs cruftpacks"),
    "gpg": _keys("format allowedsignersfile"),
    "merge": _keys("conflictstyle ff renames renamelimit stat log verbosity directoryrenames autostash tool guitool"),
    "remote": _keys("url pushurl fetch push mirror prune prunetags tagopt skipfetchall gh-resolved pushdefault"),
    "submodule": _keys(
        "url active branch ignore fetchrecursesubmodules recurse fetchjobs shallow propagatebranches alternatelocation "
        "alternateerrorstrategy"
    ),
}
_SWITCHES = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})


class Settings(Struct, frozen=True):
    """What the settings of a repository say that matters here."""

    names_programs: bool = False
    """Whether they name a program or another file, or may do so."""
    hooks: tuple[str, ...] = ()
    """The folders of hooks that they name, as written."""
    worktrees: tuple[str, ...] = ()
    """The folders of files that they name, as written."""
    included: tuple[str, ...] = ()
    """The other files of settings that they name, as written."""


_DOUBTFUL = Settings(names_programs=True)


def read_settings(path: str) -> Settings | None:
    """The settings in a file; None where there is no file."""
    try:
        content = read_start(path, _LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError:
        return _DOUBTFUL
    return _DOUBTFUL if len(content) > _LARGEST else parse_settings(content)


def read_start(path: str, size: int) -> bytes:
    """The first bytes of a file, without waiting for anybody; OSError for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        pieces, left = [], size
        while left > 0 and (piece := os.read(descriptor, left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def parse_settings(content: bytes) -> Settings:
    """What settings say. Every form that git and this reader could take for different things is doubtful."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").replace("\r\n", "\n")
    if _ODD.search(text):
        return _DOUBTFUL
    found = _Found()
    section = ""
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
    return Settings(found.names_programs, tuple(found.hooks), tuple(found.worktrees), tuple(found.included))


class _Found:
    def __init__(self) -> None:
        self.names_programs = False
        self.hooks: list[str] = []
        self.worktrees: list[str] = []
        self.included: list[str] = []

    def take(self, section: str, key: str, written: str | None) -> bool:
        """Take one setting; False where it names a program, or may."""
        known = _HARMLESS.get(section, frozenset())
        if known is _ALL or key in known:
            return True
        value = _plain(written)
        if value is None:
            return False
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

"""The names of files that other programs run or trust later. Data and one pure function."""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase

from dragoman.characters import normalize

# --------------------------------------------------------------------------------------------------------------------
# No call of a model may change these paths unnoticed, or create them: a new file is as dangerous as a changed one.
#
# A file is listed if a program reads it on its own and runs what it says: at the start of a shell, an editor or an
# interpreter, when a folder is opened or entered, at a commit, at a push, at an installation. Code that a person runs
# by name is not listed: sources, tests, Makefiles, scripts of package.json. The file tools and the sandbox share the
# lists; tests/sandbox/test_protected_names.py names the documentation of each entry.


def words(text: str) -> tuple[str, ...]:
    """Split a text into words: this keeps long lists of names readable."""
    return tuple(text.split())


PROTECTED_FOLDERS = words(
    # dragoman
    ".dragoman .config/dragoman .local/state/dragoman "
    # version control and its hooks
    ".git/hooks .git/info .config/git .config/jj .config/hg .husky .githooks .git-hooks .lefthook .lefthook-local "
    # editors and development containers
    ".vscode .idea .fleet .zed .vs .nova .theia .helix .vim .emacs.d .externalToolBuilders .config/nvim .config/vim "
    ".config/emacs .config/helix .config/zed .devcontainer .idx .codesandbox "
    # agents
    ".claude .codex .cursor .gemini .windsurf .continue .roo .clinerules .kiro .amazonq .opencode .augment .qwen .trae "
    ".junie .factory .copilot .github/copilot .github/hooks .config/opencode .config/goose "
    # continuous integration
    ".github/workflows .github/actions .gitea/workflows .forgejo/workflows .gitlab/agents .gitlab/ci .circleci "
    ".buildkite .semaphore .teamcity .woodpecker .builds .tekton .azure-pipelines .azuredevops bamboo-specs "
    # package managers and build tools
    ".mvn gradle/wrapper .gradle/init.d .yarn/releases .yarn/plugins .yarn/sdks .pip .config/pip .config/uv .mise "
    ".config/mise .config/direnv "
    # shells, desktops and services of a home folder
    ".config/fish .config/nushell .config/powershell .config/xonsh .config/tmux .config/autostart "
    ".config/autostart-scripts .config/systemd .config/environment.d .config/containers/systemd "
    ".config/plasma-workspace .config/i3 .config/sway .config/hypr .local/bin .local/share/systemd "
    ".local/share/applications .local/share/dbus-1 .ssh .gnupg .ipython .jupyter .julia/config Library/LaunchAgents"
)
"""Folders, with everything below them, anywhere in a workspace."""

PROTECTED_FILES = words(
    # dragoman
    "dragoman.toml .dragoman.toml "
    # version control and its hooks
    ".git/config .git/config.worktree .git/commondir .git/gitdir .gitmodules .gitconfig .git-credentials .hgrc "
    ".hg/hgrc .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml .overcommit.yml captainhook.json "
    ".simple-git-hooks.json .simple-git-hooks.js .simple-git-hooks.cjs hk.pkl prek.toml lefthook.yml lefthook.yaml "
    "lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml lefthook-local.yml .config/lefthook.yml .lintstagedrc "
    ".lintstagedrc.json lint-staged.config.js .huskyrc "
    # shells
    ".profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .zshrc .zshenv .zprofile "
    ".zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xonshrc .tmux.conf .screenrc .envrc "
    ".autoenv .autoenv.zsh mise.toml .mise.toml mise.local.toml mise/config.toml .config/mise.toml devbox.json "
    ".selected_editor .lessfilter .direnvrc .jj/repo/config.toml .bundle/config "
    # desktops, login and mail
    ".xprofile .xsession .xsessionrc .xinitrc .xserverrc .pam_environment .forward .procmailrc .mailcap "
    # editors and development containers
    ".vimrc .gvimrc .exrc .nvimrc .nvim.lua .lvimrc .emacs .dir-locals.el .dir-locals-2.el .devcontainer.json "
    ".gitpod.yml .gitpod.Dockerfile .replit "
    # interpreters, debuggers and clients, which run a file of the current folder or of the home folder
    ".gdbinit .lldbinit .pdbrc .pythonrc.py .irbrc .pryrc .byebugrc .rdbgrc .Rprofile .Renviron .iex.exs .ghci "
    ".ocamlinit .octaverc .perldb .psqlrc .sqliterc .duckdbrc .my.cnf sitecustomize.py usercustomize.py pyvenv.cfg "
    # package managers, build tools and their credentials
    ".npmrc .pnpmfile.cjs .pnpmfile.mjs .yarnrc .yarnrc.yml bunfig.toml .bunfig.toml .pypirc pip.conf pip.ini uv.toml "
    ".condarc .netrc .curlrc .wgetrc .cargo/config .cargo/config.toml .cargo/credentials.toml rust-toolchain "
    "rust-toolchain.toml .gemrc .gradle/gradle.properties .gradle/init.gradle .gradle/init.gradle.kts .m2/settings.xml "
    "nuget.config .sbtopts .jvmopts .terraformrc .tofurc ansible.cfg .ansible.cfg .docker/config.json .kube/config "
    ".aws/config .aws/credentials "
    # agents
    ".mcp.json mcp.json .claude.json opencode.json opencode.jsonc .aider.conf.yml .roomodes crush.json .crush.json "
    # continuous integration and deployment
    ".gitlab-ci.yml Jenkinsfile bitbucket-pipelines.yml azure-pipelines.yml azure-pipelines.yaml .travis.yml "
    "appveyor.yml .appveyor.yml .drone.yml .drone.jsonnet .drone.star .woodpecker.yml .woodpecker.yaml .cirrus.yml "
    ".cirrus.star .build.yml .zuul.yaml zuul.yaml codefresh.yml cloudbuild.yaml buildspec.yml .scrutinizer.yml "
    ".readthedocs.yaml .readthedocs.yml netlify.toml vercel.json render.yaml"
)
"""Files, anywhere in a workspace."""

PROTECTED_PATTERNS = words(
    "Jenkinsfile.* *.jenkinsfile azure-pipelines*.yml azure-pipelines*.yaml *.gitlab-ci.yml *.code-workspace "
    "*.sublime-project lefthook*.yml lefthook*.yaml lefthook*.toml lefthook*.json lefthook*.jsonc .lefthook*.yml "
    ".lefthook*.yaml .lefthook*.toml .lefthook*.json .lefthook*.jsonc .lintstagedrc.* lint-staged.config.* .huskyrc.* "
    "mise.*.toml .mise.*.toml site-packages/*.pth dist-packages/*.pth"
)
"""Files, anywhere in a workspace; `*` stands for any characters of a name. Models of PyTorch end in `.pth`, too."""

# --------------------------------------------------------------------------------------------------------------------
# The check. Names are compared in one spelling: case, look-alike letters, invisible characters, and the short names,
# trailing dots and streams of Windows, because some file systems treat each of them as the same name.


def is_protected(relative: str) -> bool:
    """Whether a change of this path affects what is trusted later.

    The path is only text: a caller that follows links has to check both the given path and the resolved one.
    """
    parts = _parts(relative)
    for start in range(len(parts)):
        rest = parts[start:]
        # `.git` may also be a file that names the location of the repository, with its own hooks.
        if rest == (".git",) or rest in _FILES or any(rest[: len(each)] == each for each in _FOLDERS.get(rest[0], ())):
            return True
        # By convention, a bare repository is called `NAME.git`.
        if rest[0].endswith(".git") and _is_protected_in_git(rest[1:]):
            return True
    return any(fnmatchcase("/".join(parts[-pattern.count("/") - 1 :]), pattern) for pattern in _PATTERNS)


def _is_protected_in_git(parts: tuple[str, ...]) -> bool:
    """Whether it is part of a repository and not only the content of an object.

    Hooks and settings run programs, and so does `git-rebase-todo`; the other files decide which commit, which settings
    and which submodules git takes.
    """
    return parts != () and (parts[0] != "objects" or parts[1:2] == ("info",))


def _parts(relative: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in _plain(relative).split("/"):
        name = part if part in (".", "..") else part.partition(":")[0].rstrip(". ")
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(_long_name(name))
    return tuple(found)


def _plain(text: str) -> str:
    text = text.replace("\\", "/")
    if not text.isascii():
        text = normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cf", "Mn"))
    return text.partition("\0")[0].casefold()


_SHORT = re.compile(r"([^~.]{1,6})~[0-9]+(?:\.([^.]{1,3}))?\Z")


def _short_name(name: str) -> tuple[str, str]:
    """The start of the short name that Windows would give a file, and its ending."""
    stem, dot, ending = name.lstrip(".").rpartition(".")
    return ((stem if dot else ending).replace(".", "")[:6], ending[:3] if dot else "")


def _long_name(name: str) -> str:
    """The name for which a short name such as `git~1` may stand."""
    found = _SHORT.match(name)
    return name if found is None else _LONG_NAMES.get((found[1], found[2] or ""), name)


_SPLIT_FOLDERS = tuple(tuple(each.casefold().split("/")) for each in PROTECTED_FOLDERS)
_FILES = frozenset(tuple(each.casefold().split("/")) for each in PROTECTED_FILES)
_FOLDERS = {first: tuple(each for each in _SPLIT_FOLDERS if each[0] == first) for first, *_ in _SPLIT_FOLDERS}
_PATTERNS = tuple(map(str.casefold, PROTECTED_PATTERNS))
_LONG_NAMES = {_short_name(part): part for each in (*_FILES, *_SPLIT_FOLDERS) for part in each} | {("git", ""): ".git"}

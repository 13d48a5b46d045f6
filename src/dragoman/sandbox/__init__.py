"""Commands in a box: what they can reach, how much they can use, and proof that it holds."""

from dragoman.sandbox.boxes import Box, BoxLimits, Launch
from dragoman.sandbox.finding import SandboxMissing, find_sandbox, why_not
from dragoman.sandbox.probing import Attempt, ProbeReport, probe, proof
from dragoman.sandbox.sandboxes import Finished, NoSandbox, Sandbox, Tier
from dragoman.sandbox.shields import PROTECTED, WATCHED
from dragoman.sandbox.system import toolchains

__all__ = [
    "PROTECTED",
    "WATCHED",
    "Attempt",
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
    "toolchains",
    "why_not",
]

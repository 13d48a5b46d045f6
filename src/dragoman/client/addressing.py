"""The address of a request: the endpoint's, with its holes filled and the path of the wire appended."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from dragoman.errors import ConfigError
from dragoman.providers import Endpoint
from dragoman.providers.provider import fill_holes, holes_of
from dragoman.wire.codec import Codec


def variables_of(endpoint: Endpoint, environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says about the holes of an address."""
    found = {}
    for hole, names in endpoint.provider.variables.items():
        value = next((environment[name].strip() for name in names if environment.get(name, "").strip()), "")
        if value:
            found[hole] = value
    return found


def base_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    """The base URL, complete. Raises a ConfigError that names what is missing, and where it may be said."""
    base = fill_holes(endpoint.base_url, variables_of(endpoint, environment))
    if endpoint.wire in ("openai_chat", "openai_responses"):
        # An Azure deployment is the model.
        base = fill_holes(base, {"deployment": endpoint.model})
    missing = holes_of(base)
    if missing:
        known = endpoint.provider.variables
        says = "; ".join(f"{hole}: set {' or '.join(known[hole])}" for hole in missing if hole in known)
        raise ConfigError(
            f"the address of {endpoint.provider.name} is not complete: {base}", hint=says or "give the base URL"
        )
    if not base:
        raise ConfigError(f"{endpoint.provider.name} has no address", hint="give the base URL")
    # The only location of Vertex that is not part of the name of a host.
    return base.replace("//global-aiplatform.", "//aiplatform.")


def is_vertex_claude(endpoint: Endpoint) -> bool:
    """Claude on Vertex speaks the anthropic wire, but names its model in the path."""
    return endpoint.provider.auth == "gcp" and endpoint.wire == "anthropic"


def address_of(base: str, endpoint: Endpoint, codec: Codec, model: str, *, stream: bool) -> str:
    """The whole address of one request."""
    if is_vertex_claude(endpoint):
        path = f"/models/{quote(model, safe='@.-_')}:{'streamRawPredict' if stream else 'rawPredict'}"
    else:
        path = codec.endpoint(model, stream=stream)
    parts = urlsplit(base)
    if not parts.query:
        return base + path
    # `?api-version=` stands behind the path, not in the middle of it.
    target, _, query = path.partition("?")
    return urlunsplit((*parts[:2], parts.path + target, "&".join(filter(None, (parts.query, query))), ""))

"""The client: it sends one request to a model, retries it until output was delivered, and returns the reply as events.

Names are loaded on first use: code that needs only an event type does not load the network modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.client.api import aask as aask, ask as ask, astream as astream, stream as stream
    from dragoman.client.client import Client as Client, FallbackClient as FallbackClient
    from dragoman.client.detection import DetectedServer as DetectedServer, adetect as adetect, detect as detect
    from dragoman.client.http import HttpTransport as HttpTransport, Limits as Limits
    from dragoman.client.keys import Secret as Secret
    from dragoman.client.models import (
        ListedModel as ListedModel,
        alist_models as alist_models,
        list_models as list_models,
    )
    from dragoman.client.rate_limit import RateLimiter as RateLimiter
    from dragoman.client.retry import (
        Breakers as Breakers,
        ClientEvent as ClientEvent,
        ModelReplaced as ModelReplaced,
        RequestPrepared as RequestPrepared,
        RequestRetried as RequestRetried,
        Retries as Retries,
    )
    from dragoman.client.token_count import (
        TokenCount as TokenCount,
        acount_tokens as acount_tokens,
        count_tokens as count_tokens,
    )
    from dragoman.client.transport import (
        HttpRequest as HttpRequest,
        HttpResponse as HttpResponse,
        Timeouts as Timeouts,
        Transport as Transport,
        TransportFault as TransportFault,
    )
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.client.api": "aask ask astream stream",
            "dragoman.client.client": "Client FallbackClient",
            "dragoman.client.detection": "DetectedServer adetect detect",
            "dragoman.client.http": "HttpTransport Limits",
            "dragoman.client.keys": "Secret",
            "dragoman.client.models": "ListedModel alist_models list_models",
            "dragoman.client.rate_limit": "RateLimiter",
            "dragoman.client.retry": "Breakers ClientEvent ModelReplaced RequestPrepared RequestRetried Retries",
            "dragoman.client.token_count": "TokenCount acount_tokens count_tokens",
            "dragoman.client.transport": "HttpRequest HttpResponse Timeouts Transport TransportFault",
        },
    )

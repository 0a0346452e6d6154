from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Any, Iterable, Mapping, Union

from ._errors import SignatureError


def verify(
    secrets: Union[str, Iterable[str]], headers: Mapping[str, Any], body: Union[bytes, str], *, tolerance: float = 300
) -> None:
    """Check the signature of a callback (Standard Webhooks), or raise SignatureError.

    secrets: the topic's, whsec_…; several while one is being replaced. headers: a mapping. body: the bytes as received.
    tolerance: seconds that the callback's time may differ from this host's clock.
    """
    values = {str(name).lower(): str(value) for name, value in headers.items()}
    id, sent = values.get("webhook-id", ""), values.get("webhook-timestamp", "")
    if not id or not re.fullmatch(r"[0-9]{1,12}", sent):
        raise SignatureError("the callback has no webhook-id or no valid webhook-timestamp")
    if abs(time.time() - int(sent)) > tolerance:
        raise SignatureError(f"webhook-timestamp {sent} is more than {tolerance} s away from this host's clock")
    signed = f"{id}.{sent}.".encode() + (body.encode() if isinstance(body, str) else body)
    found = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        key = base64.b64decode(secret[6:] if secret.startswith("whsec_") else secret)
        if not key:
            raise ValueError("secrets must be whsec_ followed by base64")
        want = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in values.get("webhook-signature", "").split(" "):
            found |= hmac.compare_digest(signature.encode(), want)
    if not found:
        raise SignatureError("no signature matches: is the topic's secret another one?")

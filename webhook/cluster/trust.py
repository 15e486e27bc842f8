"""What the API server trusts when it calls us: the caBundle of every entry of our webhook configuration."""

import base64
from typing import Any

from webhook.cluster.connection import Connection, api_path
from webhook.ownership.fields import at, mappings, text

TRUST_SECONDS = 5.0
"""How long one call may take."""


class WebhookTrust:
    """One ValidatingWebhookConfiguration. Thread-safe: it keeps nothing."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._path = api_path("apis", "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", name)

    def read(self) -> dict[str, bytes]:
        """Return what each entry trusts, by its name; empty where it trusts nothing. Raises ApiError."""
        found = self._connection.get(self._path, timeout=TRUST_SECONDS).object()
        return {
            text(entry.get("name")): base64.b64decode(text(at(entry, "clientConfig.caBundle")))
            for entry in mappings(found.get("webhooks"))
        }

    def inject(self, bundle: bytes) -> bool:
        """Have every entry trust `bundle`, and write nothing else. Returns whether it was not so. Raises ApiError."""
        wrong = [name for name, trusted in self.read().items() if trusted != bundle]
        if not wrong:
            return False
        given: list[dict[str, Any]] = [
            {"name": name, "clientConfig": {"caBundle": base64.b64encode(bundle).decode()}} for name in wrong
        ]
        self._connection.send("PATCH", self._path, {"webhooks": given}, timeout=TRUST_SECONDS)
        return True

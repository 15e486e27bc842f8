"""The one error that this package raises."""


class CertificateError(Exception):
    """Something about certificates is not as it must be; the text is a sentence for people, never key material."""

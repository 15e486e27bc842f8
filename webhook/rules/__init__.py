"""The rules: one file each, listed here in the order of the table in DESIGN.md section 4."""

from webhook.ownership.facts import Facts
from webhook.ownership.request import Request
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Subject, Verdict


def subject_of(request: Request, settings: Settings) -> Subject:
    """Return what kind of request this is: it decides whether facts are needed at all, cached ("pod") or live ("owner")."""
    raise NotImplementedError


def judge(request: Request, facts: Facts, settings: Settings) -> Verdict:
    """Return the verdict of all rules on `request`, each in its configured mode."""
    raise NotImplementedError

"""Judging with break-glass: the rules, and where a write asks to lift one, whether its user may."""

from webhook.cluster.access import Access, AccessReviews
from webhook.ownership.change import Change
from webhook.ownership.facts import Facts
from webhook.ownership.request import Request
from webhook.ownership.settings import Settings
from webhook.ownership.verdict import Verdict
from webhook.rules import judge
from webhook.rules.break_glass import GROUP, RESOURCE, VERB, lift, plea_of, refuse


class Overrides:
    """Judges owner and node changes of a live cluster. Thread-safe."""

    def __init__(self, access: AccessReviews) -> None:
        self._access = access

    def judge(self, request: Request, facts: Facts, settings: Settings) -> Verdict:
        """Return the verdict of the rules, without what break-glass lifts. Asks the API server only where it is
        asked for."""
        verdict = judge(request, facts, settings)
        change = Change(request, settings)
        plea = plea_of(change, facts)
        if plea is None:
            return verdict
        problem = plea.problem or self._access.obstacle(request.user, Access(VERB, GROUP, RESOURCE, plea.rule))
        return refuse(verdict, plea, problem, change) if problem else lift(verdict, plea, change)

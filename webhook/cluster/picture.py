"""Facts that are sorted once and afterwards only get older."""

from dataclasses import replace
from datetime import datetime, timedelta

from webhook.ownership.facts import Facts

REUSE = timedelta(milliseconds=100)


class Picture:
    """Hands out one set of facts at any time and age.

    The very same `Facts` is returned for `REUSE`, so that what is computed from it can be remembered by its identity.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def at(self, now: datetime, age: timedelta) -> Facts:
        """Return the facts as they are to be judged at `now`, `age` old; both up to `REUSE` behind. Never blocks."""
        facts = self._facts
        if not (timedelta() <= now - facts.now < REUSE and abs(age - facts.age) < REUSE):
            facts = replace(facts, now=now, age=age)
            self._facts = facts
        return facts

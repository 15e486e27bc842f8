"""The frozen picture of a cluster that everything else is computed from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from webhook.ownership.objects import Record


@dataclass(frozen=True)
class Facts:
    """A cluster at one instant.

    `now` is the clock to judge ages by, `age` how long ago this picture was last known to be complete, `missing` the
    ids (`webhook.ownership.kinds.FactKind.id`) of the essential kinds that could not be read.
    """

    now: datetime
    age: timedelta
    missing: frozenset[str]

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        *,
        now: datetime,
        age: timedelta = timedelta(),
        missing: frozenset[str] = frozenset(),
    ) -> Self:
        """Sort `records` into a picture."""
        raise NotImplementedError

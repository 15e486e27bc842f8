"""Which nodes a selector means, and whether two selectors can ever mean the same node (DESIGN.md section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node affinity term: key, operator (In, NotIn, Exists, DoesNotExist, Gt, Lt), values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a Pod."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Where something runs: labels that a node must have, and required affinity terms of which one must hold.

    `names` are the terms on `metadata.name`; an empty `labels` with no term selects every node.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] = ()

"""Which nodes a selector means, and whether two selectors can ever mean the same node (DESIGN.md section 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE_NAME = "metadata.name"
"""The key that stands for a node's name in a requirement (`matchFields`, `spec.nodeName`)."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node affinity term: key, operator (In, NotIn, Exists, DoesNotExist, Gt, Lt), values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with `labels` meets it. An operator that Kubernetes does not know is met by nothing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                if value is None or not self.values or not _integers(value, self.values[0]):
                    return False
                return int(value) > int(self.values[0]) if self.operator == "Gt" else int(value) < int(self.values[0])
            case _:
                return False


def _integers(*texts: str) -> bool:
    return all(text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() for text in texts)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a Pod."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Whether it tolerates the taint `key=value:effect` (kubernetes/api core/v1 ToleratesTaint)."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == value)


@dataclass(frozen=True, slots=True)
class Selector:
    """Where something runs: labels that a node must have, and required affinity terms of which one must hold.

    An empty `labels` without a term selects every node.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether it says nothing about nodes at all."""
        return not self.labels and not self.terms

    def selects_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with `labels` has all labels of this selector; affinity is not looked at."""
        return all(labels.get(key) == value for key, value in self.labels.items())

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node `name` with `labels` is selected, by labels and by affinity."""
        if not self.selects_labels(labels):
            return False
        if not self.terms:
            return True
        known = {**labels, NODE_NAME: name}
        return any(all(requirement.met_by(known) for requirement in term) for term in self.terms)

    def contradicts(self, other: "Selector") -> bool:
        """Whether no node can ever have the labels of both: the same key with different values."""
        return any(key in other.labels and other.labels[key] != value for key, value in self.labels.items())

    def __str__(self) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items())) or "all nodes"

"""Which extended resources are Ascend NPUs, who serves them, and how much of one is asked for (DOMAIN.md section 5)."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fnmatch import translate
from functools import lru_cache
from typing import Any

from webhook.ownership.fields import mapping
from webhook.ownership.owners import Owner
from webhook.ownership.settings import Resources, Settings

_SERVERS: Mapping[str, frozenset[Owner]] = {
    "native": frozenset({Owner.NATIVE, Owner.MINDCLUSTER}),
    "hami": frozenset({Owner.HAMI}),
    "both": frozenset({Owner.NATIVE, Owner.MINDCLUSTER, Owner.HAMI}),
    "vnpu": frozenset({Owner.VNPU}),
    "other": frozenset({Owner.FOREIGN}),
}

_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?$", re.ASCII)
_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18), "Ki": Decimal(2**10),
    "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_UNREADABLE = Decimal(1)
_LARGEST = 10**18


class _Names:
    """The lists of `resources`, compiled: a full resource name to the list that it belongs to."""

    def __init__(self, resources: Resources) -> None:
        self._patterns = [
            (name, re.compile("|".join(translate(glob.lower()) for glob in globs)))
            for name in ("ignored", *_SERVERS)
            if (globs := getattr(resources, name))
        ]
        self._known: dict[str, str | None] = {}

    def list_of(self, resource: str) -> str | None:
        try:
            return self._known[resource]
        except KeyError:
            lower = resource.lower()
            found = next((name for name, pattern in self._patterns if pattern.match(lower)), None)
            result = None if found == "ignored" else found
            if len(self._known) < 1000:  # users choose the names: what is remembered must stay bounded
                self._known[resource] = result
            return result


@lru_cache(maxsize=8)
def _names(resources: Resources) -> _Names:
    return _Names(resources)


def is_npu(resource: str, settings: Settings) -> bool:
    """Whether `resource` is the full name of an Ascend NPU resource, letters of either case."""
    return _names(settings.resources).list_of(resource) is not None


def servers_of(resource: str, settings: Settings) -> frozenset[Owner]:
    """Return the owners that serve `resource` by its name, empty when it is no NPU."""
    found = _names(settings.resources).list_of(resource)
    return _SERVERS[found] if found is not None else frozenset()


def served_by(owner: Owner, resource: str, settings: Settings) -> bool:
    """Whether a node that advertises `resource` may be served by `owner`. A foreign plugin may use any Ascend name."""
    if owner is Owner.FOREIGN:
        return is_npu(resource, settings)
    return owner in servers_of(resource, settings)


def servers_of_all(resources: Mapping[str, int], settings: Settings) -> frozenset[Owner]:
    """Return the owners of which any one alone can serve all of `resources`; empty when none can.

    A bare native name beside its own `-memory` or `-core` sibling is HAMi's (older HAMi; DOMAIN.md section 5).
    """
    lower = {name.lower() for name in resources}
    common: frozenset[Owner] | None = None
    for name in resources:
        sibling = {f"{name.lower()}-memory", f"{name.lower()}-core"} & lower
        servers = frozenset({Owner.HAMI}) if sibling else servers_of(name, settings)
        common = servers if common is None else common & servers
    return common or frozenset()


def npu_quantities(resources: Any, settings: Settings) -> dict[str, int]:
    """Return the NPU resources of a mapping name -> quantity (limits, allocatable, …), in whole units rounded up.

    Zero is kept. A quantity that cannot be read counts as 1: it must never hide a use.
    """
    names = _names(settings.resources)
    return {
        name: units(quantity)
        for name, quantity in mapping(resources).items()
        if isinstance(name, str) and names.list_of(name) is not None
    }


def units(quantity: Any) -> int:
    """Return a quantity in whole units rounded up, at most 10^18; what cannot be read counts as 1."""
    value = _parse(quantity)
    if value <= 0:
        return 0
    return int(min(value, Decimal(_LARGEST)).to_integral_value(rounding="ROUND_CEILING"))


def _parse(quantity: Any) -> Decimal:
    if isinstance(quantity, bool) or not isinstance(quantity, int | float | str):
        return _UNREADABLE
    if isinstance(quantity, int) and abs(quantity) > _LARGEST:  # Python refuses to write huge numbers out
        return Decimal(_LARGEST if quantity > 0 else 0)
    match = _QUANTITY.match(str(quantity).strip()) if len(str(quantity)) <= 64 else None
    if match is None:
        return _UNREADABLE
    number, exponent, suffix = match.groups()
    try:
        value = Decimal(number + (exponent or ""))
    except InvalidOperation:
        return _UNREADABLE
    return value * _SUFFIX[suffix] if suffix else value

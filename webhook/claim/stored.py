"""Which objects ask for an owner in a picture of the cluster: what a claim is about, once its write has landed."""

from webhook.claim.protocol import Stored
from webhook.ownership.facts import Facts


def stored(facts: Facts) -> Stored:
    """Return each owner that is asked for, with the object that asks, as a claim names it."""
    resources = (*facts.operator_ctls, *facts.policies, *facts.hami_plugins, *facts.aml_clusters)
    return frozenset(
        [
            *(
                (demand.owner, one.meta.ref.slashed)
                for one in resources
                for demand in one.demands
                if one.asks(demand.owner)
            ),
            *((one.owner, one.meta.ref.slashed) for one in facts.daemon_sets if one.owner is not None),
        ]
    )

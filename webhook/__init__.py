"""ascend-owner-guard: a validating admission webhook that lets exactly one owner hold a cluster's Ascend NPUs."""

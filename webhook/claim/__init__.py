"""The atomic claim: who may bring an owner in or give one up is decided by a compare-and-swap on one Lease."""

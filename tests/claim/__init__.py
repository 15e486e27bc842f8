"""A checker of the claim: every interleaving of requests over the product's own courses, transitions and rules."""

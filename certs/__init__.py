"""The certificates that the webhook serves with: a local authority, leaves, and checks of both.

Stands alone: imports nothing of `webhook`. The core takes every time as an argument and does no I/O; only `store`
touches files and only `__main__` reads the clock. A set of certificates is a mapping from file name to PEM bytes
(`bundle`), so that a folder and the data of a Kubernetes Secret are the same thing to everything else.
"""

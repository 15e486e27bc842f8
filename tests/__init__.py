"""Tests, and what they are made of: the control plane, the products' stand-ins, the installed guard."""

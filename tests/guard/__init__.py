"""The guard as it ships: its chart installed by helm, its server beside the control plane with no other right."""

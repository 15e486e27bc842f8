"""The image without a container engine: the Dockerfile's own steps, run in a fresh folder."""

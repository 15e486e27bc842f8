"""The end-to-end tests on a kind cluster: real kubelets run the image, a real Service leads to it."""

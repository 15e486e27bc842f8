"""The command line `ascend-guard`."""

"""Looks at the network of a config without a graph: tables, checks, plans of loops, drawings."""

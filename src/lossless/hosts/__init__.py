"""Where agents come in: an adapter for each host. Adapters translate and decide nothing."""

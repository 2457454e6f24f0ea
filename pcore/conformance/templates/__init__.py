"""Own code to start from, one class a file: each passes its checks. `pcore new` writes copies."""

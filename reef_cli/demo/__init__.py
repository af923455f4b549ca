"""`reef demo`: the whole loop on a small workload, in a temporary home with a daemon of its own."""

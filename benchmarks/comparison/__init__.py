"""What ``benchmarks/compare.py`` is made of: data, memories, peers, timing, rows, report."""

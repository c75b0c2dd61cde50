"""Commit the fault of this name, from the library of ``faults.cpp``: commit.py LIBRARY FAULT."""

from __future__ import annotations

import ctypes
import sys
import threading


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    fault = sys.argv[2]
    if fault == "race":
        start = threading.Barrier(2)

        def work() -> None:
            start.wait()
            library.race(ctypes.c_long(1_000_000))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif fault == "overflow":
        library.read_of_four(ctypes.c_size_t(4))
    elif fault == "shift":
        library.shifted(ctypes.c_long(64))
    else:
        raise SystemExit(f"there is no fault {fault!r}")
    print("not found", fault)


main()

# Each recipe is what continuous integration runs: see .ci/run.

# The recipes
default:
    @just --list

# An editable install with everything to develop and test (rebuild: run it again)
setup:
    python3 -m venv .venv
    .venv/bin/pip install --upgrade 'pip>=25.1'
    .venv/bin/pip install --group lint -e '.[test]'

# Python and C++ tests
test:
    .venv/bin/pytest
    .ci/run cpp:dev

# C++ benchmarks, half a second each
bench:
    BENCH_SECONDS=0.5 .ci/run bench

# Flashbulb beside its peers: just compare --row exact-100k (see --help)
compare *options:
    .venv/bin/python benchmarks/compare.py {{options}}

# What memories are worth, on real data (FLASHBULB_DATA): just quality --only retrieval
quality *options:
    .venv/bin/python benchmarks/quality {{options}}

# The gate on instruction counts (needs valgrind); just callgrind --update takes them as the baseline
callgrind *options:
    cmake --preset bench
    cmake --build --preset bench --target flashbulb_instructions
    python3 benchmarks/instructions.py {{options}}

# Formats and types, Python and C++
lint:
    .ci/run lint

# C++ tests under the address and undefined-behaviour sanitizers
asan:
    .ci/run cpp:asan

# C++ tests under the thread sanitizer
tsan:
    .ci/run cpp:tsan

# 5,000 kills, each call of a short life failing in every way, power cuts: about an hour
crash:
    CRASH_KILLS=5000 .ci/run crash

# RAM over 1,000 openings, and over 100,000 memories that come and go: about ten minutes
soak:
    FLASHBULB_SOAK=1 .venv/bin/pytest tests/test_memory_soak.py

# Hostile bytes for what Python reads from elsewhere: two minutes for each of five kinds
fuzz-readers:
    FUZZ_SECONDS=120 .ci/run fuzz:readers

# Hostile bytes for the reader of snapshots: ten minutes (needs clang)
fuzz-snapshot:
    FUZZ_SECONDS=600 .ci/run fuzz:snapshot

# Both
fuzz: fuzz-snapshot fuzz-readers

# The C++ library, installed, moved and used by the examples
package:
    .ci/run package

# Reference of the C++ headers, into build/docs
docs:
    .ci/run docs

# clang-tidy over the core
tidy:
    .ci/run cpp:tidy

# All of it, from installing on
ci:
    .ci/run

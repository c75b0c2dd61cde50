#!/bin/sh
# Checks what a kernel object leaves for the linker to choose from.
#
#   tools/check_kernel_symbols.sh LEVEL OBJECT...
#
# Kernels are compiled once per SIMD level. A weak or global symbol that several of these objects
# define (an inline function of the standard library, say) would be merged by the linker, and a
# processor that lacks AVX-512 would one day run the copy that was compiled for it. So the only
# symbol an object may define for others is its own table. NM names the nm to use.
set -eu

level=$1
shift
name="table_$level"
table="_ZN9flashbulb7kernels${#name}${name}Ev"

for object in "$@"; do
    # Of what is defined: everything that is not local (a lower-case letter), besides u, v and w,
    # which are unique and weak symbols. Sanitizers add symbols of their runtimes.
    visible=$("${NM:-nm}" --defined-only "$object" |
        awk '$(NF-1) ~ /^[A-Zuvw]$/ { print $NF }' |
        grep -v -E '^(__asan_|__odr_asan|__ubsan_|__tsan_|\.?DW\.ref\.)' || true)
    if [ "$visible" != "$table" ]; then
        echo "$object: expected to define $table only, but it defines:" >&2
        echo "$visible" >&2
        exit 1
    fi
done

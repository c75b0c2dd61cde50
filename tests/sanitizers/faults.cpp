// Faults that a sanitizer must find: without them, a run that finds nothing would say nothing.

#include <cstddef>

namespace {

volatile long shared_counter = 0;

}  // namespace

extern "C" {

// Two threads at once: a data race.
void race(long times) {
    for (long i = 0; i < times; ++i) shared_counter = shared_counter + 1;
}

// `place` 4: one beyond the end.
int read_of_four(std::size_t place) {
    const int* four = new int[4]{1, 2, 3, 4};
    const int value = four[place];
    delete[] four;
    return value;
}

// `amount` 64: undefined.
long shifted(long amount) { return 1L << amount; }

}  // extern "C"

#include "flashbulb/column.hpp"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace flashbulb::detail {

namespace {
constexpr std::size_t huge_page = std::size_t{2} << 20U;
// Below this, most of an array may lie in its last, partly filled page, which stays small.
constexpr std::size_t large = 2 * huge_page;

std::align_val_t alignment(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= large ? huge_page : __STDCPP_DEFAULT_NEW_ALIGNMENT__};
}
}  // namespace

void* allocate_column(std::size_t bytes) {
    void* const column = ::operator new(bytes, alignment(bytes));
#ifdef MADV_HUGEPAGE
    if (bytes >= large) madvise(column, bytes, MADV_HUGEPAGE);  // advice: it may be refused
#endif
    return column;
}

void free_column(void* column, std::size_t bytes) noexcept {
    ::operator delete(column, alignment(bytes));
}

}  // namespace flashbulb::detail

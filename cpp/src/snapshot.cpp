#include "flashbulb/snapshot.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "snapshot_file.hpp"

namespace flashbulb {

namespace {

struct Shape {
    std::uint64_t dim;
    std::uint64_t rows;
    std::uint64_t tags;
    std::uint64_t has_sketch;
    std::int64_t next_id;
};

// What traces are made of, column by column: calls action(kind, of a trace, of the columns).
template <class Action>
void for_each_column(Action&& action) {
    action(SectionKind::id, &Trace::id, &TraceColumns::id);
    action(SectionKind::salience, &Trace::salience, &TraceColumns::salience);
    action(SectionKind::floor, &Trace::floor, &TraceColumns::floor);
    action(SectionKind::vividness, &Trace::vividness, &TraceColumns::vividness);
    action(SectionKind::vividness_time, &Trace::vividness_time, &TraceColumns::vividness_time);
    action(SectionKind::created, &Trace::created, &TraceColumns::created);
    action(SectionKind::last_access, &Trace::last_access, &TraceColumns::last_access);
    action(SectionKind::last_strength_change, &Trace::last_strength_change,
           &TraceColumns::last_strength_change);
    action(SectionKind::urgency, &Trace::urgency, &TraceColumns::urgency);
    action(SectionKind::access_count, &Trace::access_count, &TraceColumns::access_count);
}

// -- writing -------------------------------------------------------------------------------------

using Rows = std::vector<std::size_t>;

void write_traces(SnapshotFileWriter& file, const TraceTable& traces, const Rows& rows) {
    for_each_column([&](SectionKind kind, auto of_trace, auto) {
        file.begin(kind);
        for (const std::size_t row : rows) {
            const auto value = traces.trace(row).*of_trace;
            file.append(&value, sizeof value);
        }
    });
    constexpr unsigned kept = TraceTable::task | TraceTable::completed | TraceTable::pinned;
    const std::uint8_t* flags = traces.columns().flags;
    file.begin(SectionKind::flags);
    for (const std::size_t row : rows) {
        const auto value = static_cast<std::uint8_t>(flags[row] & kept);
        file.append(&value, sizeof value);
    }
}

// The tags of these rows, numbered in the order in which they come. @return their old numbers
std::vector<TagId> write_tags(SnapshotFileWriter& file, const TraceTable& traces,
                              const TagDictionary& tags, const Rows& rows) {
    constexpr TagId unused = std::numeric_limits<TagId>::max();
    std::vector<TagId> numbers(tags.size(), unused);
    std::vector<TagId> used;
    file.begin(SectionKind::tag_count);
    for (const std::size_t row : rows) {
        const auto count = static_cast<std::uint32_t>(traces.tags(row).size());
        file.append(&count, sizeof count);
    }
    file.begin(SectionKind::tag_pool);
    for (const std::size_t row : rows) {
        for (const TagId tag : traces.tags(row)) {
            TagId& number = numbers.at(tag);
            if (number == unused) {
                number = static_cast<TagId>(used.size());
                used.push_back(tag);
            }
            file.append(&number, sizeof number);
        }
    }
    file.begin(SectionKind::tag_name_bytes);
    for (const TagId tag : used) {
        const auto bytes = static_cast<std::uint32_t>(tags.name(tag).size());
        file.append(&bytes, sizeof bytes);
    }
    file.begin(SectionKind::tag_names);
    for (const TagId tag : used) file.append(tags.name(tag).data(), tags.name(tag).size());
    return used;
}

template <class Member>
void write_chunks(SnapshotFileWriter& file, SectionKind kind, const Sketch& sketch,
                  const Rows& rows, std::size_t bytes, std::initializer_list<Member> members) {
    for (std::size_t begin = 0; begin < rows.size(); begin += Sketch::chunk_rows) {
        file.begin(kind, static_cast<std::uint32_t>(begin / Sketch::chunk_rows));
        const std::size_t end = std::min(rows.size(), begin + Sketch::chunk_rows);
        for (const Member member : members) {
            for (std::size_t i = begin; i < end; ++i) {
                file.append(sketch.run(rows[i]).*member, bytes);
            }
        }
    }
}

void write_sketch(SnapshotFileWriter& file, const Sketch& sketch, const Rows& rows) {
    using Run = Sketch::Run;
    write_chunks(file, SectionKind::sketch_codes, sketch, rows, sketch.stride(),
                 {&Run::high, &Run::low});
    write_chunks(file, SectionKind::sketch_scales, sketch, rows, sizeof(float), {&Run::scales});
    write_chunks(file, SectionKind::sketch_residuals4, sketch, rows, sizeof(float),
                 {&Run::residuals4});
    write_chunks(file, SectionKind::sketch_residuals8, sketch, rows, sizeof(float),
                 {&Run::residuals8});
}

// -- reading -------------------------------------------------------------------------------------

// Room for a section that must have so many values.
template <class Values>
void want_values(SnapshotFileReader& file, SectionKind kind, std::size_t count, Values& values) {
    constexpr std::size_t each = sizeof(typename Values::value_type);
    const Section& section = file.require(kind, count * each);
    values.resize(count);
    file.want(section, values.data());
}

// How many values there are room for in a section.
std::size_t values_in(const SnapshotFileReader& file, SectionKind kind, std::size_t each) {
    const Section* section = file.find(kind);
    return section == nullptr ? 0 : static_cast<std::size_t>(section->bytes / each);
}

Shape read_shape(SnapshotFileReader& file, std::size_t dim) {
    Shape shape{};
    file.want(file.require(SectionKind::shape, sizeof shape), &shape);
    file.read();
    if (shape.dim != dim) {
        file.refuse("its vectors have " + std::to_string(shape.dim) + " dimensions, expected " +
                    std::to_string(dim));
    }
    // So that no product below is beyond 64 bits.
    if (dim == 0 || dim > Sketch::largest_dim ||
        shape.rows != values_in(file, SectionKind::vectors, dim * sizeof(float)) ||
        shape.tags != values_in(file, SectionKind::tag_name_bytes, sizeof(std::uint32_t))) {
        file.refuse("it does not have the rows that it names: " + std::to_string(shape.rows));
    }
    return shape;
}

std::optional<Sketch> want_sketch(SnapshotFileReader& file, const Shape& shape) {
    if (shape.has_sketch == 0) return std::nullopt;
    const std::size_t stride = Sketch(shape.dim).stride();
    std::vector<const Section*> sections;
    for (std::size_t begin = 0; begin < shape.rows; begin += Sketch::chunk_rows) {
        const auto chunk = static_cast<std::uint32_t>(begin / Sketch::chunk_rows);
        const std::size_t rows = std::min<std::size_t>(Sketch::chunk_rows, shape.rows - begin);
        sections.push_back(&file.require(SectionKind::sketch_codes, 2 * rows * stride, chunk));
        for (const auto kind : {SectionKind::sketch_scales, SectionKind::sketch_residuals4,
                                SectionKind::sketch_residuals8}) {
            sections.push_back(&file.require(kind, rows * sizeof(float), chunk));
        }
    }
    Sketch sketch(shape.dim, shape.rows);  // now that all of it is known to be there
    auto section = sections.begin();
    for (const Sketch::Stored& chunk : sketch.stored()) {
        file.want(**section++, chunk.codes.data());
        for (const auto& values : {chunk.scales, chunk.residuals4, chunk.residuals8}) {
            file.want(**section++, values.data());
        }
    }
    return sketch;
}

TagDictionary named_tags(const SnapshotFileReader& file, const std::vector<std::uint32_t>& bytes,
                         const std::string& names) {
    TagDictionary tags;
    std::size_t begin = 0;
    for (const std::uint32_t each : bytes) {
        if (each > names.size() - begin) file.refuse("a name of a tag is cut off");
        const std::size_t before = tags.size();
        tags.intern(std::string_view(names).substr(begin, each));
        if (tags.size() == before) file.refuse("a name of a tag comes twice");
        begin += each;
    }
    if (begin != names.size()) file.refuse("there are more names than tags");
    return tags;
}

// What every search takes for granted of the vectors, while they are in the cache.
SnapshotFileReader::Check unit_rows(const SnapshotFileReader& file, std::size_t dim) {
    return [&file, dim](std::span<const std::byte> block) {
        const auto* rows = reinterpret_cast<const float*>(block.data());
        const std::size_t count = block.size() / (dim * sizeof(float));
        for (std::size_t row = 0; row < count; ++row) {
            const float* values = rows + row * dim;
            const double norm = std::sqrt(inner_product(values, values, dim));
            if (!(std::abs(norm - 1.0) <= norm_tolerance(Encoding::float32))) {
                file.refuse("a vector does not have unit norm");
            }
        }
    };
}

// And of the sketch.
void require_numbers(const SnapshotFileReader& file, Sketch& sketch) {
    for (const Sketch::Stored& chunk : sketch.stored()) {
        for (const auto& values : {chunk.scales, chunk.residuals4, chunk.residuals8}) {
            if (!std::all_of(values.begin(), values.end(),
                             [](float value) { return value >= 0.0F && std::isfinite(value); })) {
                file.refuse("a scale or residual of the sketch is no number from 0 on");
            }
        }
    }
}

// The codes of a newer or older way of coding are no damage, but must not be searched. The same way
// codes all rows, so that a few tell.
bool fits(const Sketch& sketch, const VectorView& vectors) {
    for (std::size_t begin = 0; begin < vectors.rows(); begin += Sketch::chunk_rows) {
        const std::size_t rows = std::min(Sketch::chunk_rows, vectors.rows() - begin);
        for (const std::size_t row : {begin, begin + rows / 2, begin + rows - 1}) {
            if (!sketch.has_codes_of(vectors, row)) return false;
        }
    }
    return true;
}

}  // namespace

// -- rows ----------------------------------------------------------------------------------------

StoredRows StoredRows::mapped(int descriptor, std::uint64_t offset, std::size_t rows,
                              std::size_t dim) {
    StoredRows result(rows, dim);
    if (rows == 0) return result;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t start = offset / page * page;
    result.bytes_ = static_cast<std::size_t>(offset - start) + rows * dim * sizeof(float);
    void* memory = ::mmap(nullptr, result.bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_NORESERVE, descriptor, static_cast<off_t>(start));
    if (memory == MAP_FAILED) throw std::bad_alloc();
    result.memory_ = memory;
    result.data_ = reinterpret_cast<float*>(static_cast<std::byte*>(memory) + (offset - start));
    return result;
}

StoredRows StoredRows::in_memory(std::size_t rows, std::size_t dim) {
    StoredRows result(rows, dim);
    if (rows == 0) return result;
    result.bytes_ = rows * dim * sizeof(float);
    void* memory =
        ::mmap(nullptr, result.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    result.memory_ = memory;
    result.data_ = static_cast<float*>(memory);
    return result;
}

StoredRows::StoredRows(StoredRows&& other) noexcept : StoredRows(0, other.dim_) {
    *this = std::move(other);
}

StoredRows& StoredRows::operator=(StoredRows&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    std::swap(rows_, other.rows_);
    std::swap(dim_, other.dim_);
    return *this;
}

StoredRows::~StoredRows() {
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

// -- the whole -----------------------------------------------------------------------------------

void write_snapshot(const std::string& path, std::uint64_t generation, unsigned mode,
                    const VectorView& vectors, const TraceTable& traces, const TagDictionary& tags,
                    const Sketch* sketch) {
    if (!vectors.direct() || vectors.rows() != traces.rows()) {
        throw std::invalid_argument("a snapshot is of float32 rows, one for each trace");
    }
    if (sketch != nullptr) sketch->require_rows_of(vectors);
    const Rows rows = traces.live_rows();
    Shape shape{vectors.dim(), rows.size(), 0, sketch == nullptr ? 0U : 1U, traces.next_id()};
    for (const std::size_t row : rows) {
        for (const TagId tag : traces.tags(row)) {
            if (tag >= tags.size()) throw std::invalid_argument("a tag has no name");
        }
    }
    SnapshotFileWriter file(path, generation, mode);
    write_traces(file, traces, rows);
    shape.tags = write_tags(file, traces, tags, rows).size();
    if (sketch != nullptr) write_sketch(file, *sketch, rows);
    const std::size_t row_bytes = vectors.format().row_bytes();
    file.begin(SectionKind::vectors, 0, default_block / row_bytes * row_bytes);
    for (const std::size_t row : rows) {
        file.append(vectors.row(row), row_bytes);
    }
    file.begin(SectionKind::shape);
    file.append(&shape, sizeof shape);
    file.finish();
}

Snapshot read_snapshot(const std::string& path, std::uint64_t generation, std::size_t dim,
                       const Policy& policy, std::size_t map_from) {
    SnapshotFileReader file(path, generation);
    const Shape shape = read_shape(file, dim);
    TraceColumns columns;
    for_each_column([&](SectionKind kind, auto, auto of_columns) {
        want_values(file, kind, shape.rows, columns.*of_columns);
    });
    want_values(file, SectionKind::flags, shape.rows, columns.flags);
    want_values(file, SectionKind::tag_count, shape.rows, columns.tag_count);
    want_values(file, SectionKind::tag_pool, values_in(file, SectionKind::tag_pool, sizeof(TagId)),
                columns.tag_pool);
    std::vector<std::uint32_t> name_bytes;
    std::string names;
    want_values(file, SectionKind::tag_name_bytes, shape.tags, name_bytes);
    want_values(file, SectionKind::tag_names, values_in(file, SectionKind::tag_names, 1), names);
    std::optional<Sketch> sketch = want_sketch(file, shape);
    const Section& stored = file.require(SectionKind::vectors, shape.rows * dim * sizeof(float));
    const bool mapped = stored.bytes >= map_from;
    StoredRows vectors = mapped
                             ? StoredRows::mapped(file.descriptor(), stored.offset, shape.rows, dim)
                             : StoredRows::in_memory(shape.rows, dim);
    if (stored.block % (dim * sizeof(float)) != 0) file.refuse("vectors lie across blocks");
    const auto check = unit_rows(file, dim);
    file.want(stored, mapped ? nullptr : vectors.data(), &check);
    file.read();
    if (sketch) require_numbers(file, *sketch);
    if (sketch && !fits(*sketch, vectors.view())) sketch.reset();
    try {
        TraceTable traces(policy, std::move(columns), shape.tags);
        traces.set_next_id(shape.next_id);
        return {std::move(vectors), std::move(traces), named_tags(file, name_bytes, names),
                std::move(sketch)};
    } catch (const std::invalid_argument& error) {
        file.refuse(error.what());
    }
}

}  // namespace flashbulb

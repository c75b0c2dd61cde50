#include "flashbulb/snapshot.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>

#include "flashbulb/search.hpp"
#include "snapshot_file.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

namespace fs = std::filesystem;
using testing::Random;
using testing::start_of_time;

constexpr std::uint64_t generation = 0x5EED5EED5EED;
constexpr std::size_t never = ~std::size_t{0};  // as map_from

using Bytes = std::vector<char>;

Bytes content_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// In place: to truncate a file and write it anew takes a disk a hundred times as long.
void put(const fs::path& path, const Bytes& content) {
    std::ofstream(path, std::ios::app);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    fs::resize_file(path, content.size());
}

bool contains(const Bytes& bytes, const void* part, std::size_t count) {
    const auto* from = static_cast<const char*>(part);
    return std::search(bytes.begin(), bytes.end(), from, from + count) != bytes.end();
}

class SnapshotTest : public ::testing::Test {
protected:
    SnapshotTest() {
        const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
        std::string name = std::string(test->test_suite_name()) + "." + test->name();
        std::replace(name.begin(), name.end(), '/', '.');
        folder_ = fs::path(::testing::TempDir()) / ("flashbulb." + name);
        fs::remove_all(folder_);
        fs::create_directory(folder_);
        path_ = folder_ / "snapshot";
    }
    ~SnapshotTest() override { fs::remove_all(folder_); }

    void make(std::size_t rows, std::size_t dim, unsigned seed = 1, bool with_sketch = true) {
        Random random(seed);
        store_.emplace(testing::random_store(random, rows, dim, start_of_time));
        tags_ = TagDictionary();
        for (int tag = 0; tag < 10; ++tag) tags_.intern("tag number " + std::to_string(tag));
        sketch_.reset();
        if (with_sketch) sketch_.emplace(dim).extend(store_->view());
    }
    void write(std::uint64_t number = generation) {
        fs::remove(path_);
        write_snapshot(path_, number, 0644, store_->view(), store_->traces, tags_,
                       sketch_ ? &*sketch_ : nullptr);
    }
    Snapshot read(std::size_t map_from = never) const {
        return read_snapshot(path_, generation, store_->dim, store_->traces.policy(), map_from);
    }

    // Everything that was written and nothing else.
    void expect_all_of_it(const Snapshot& snapshot) {
        const auto rows = store_->traces.live_rows();
        const VectorView view = store_->view();
        ASSERT_EQ(snapshot.vectors.rows(), rows.size());
        ASSERT_EQ(snapshot.traces.rows(), rows.size());
        ASSERT_EQ(snapshot.traces.live(), rows.size());
        EXPECT_EQ(snapshot.traces.next_id(), store_->traces.next_id());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            EXPECT_EQ(std::memcmp(snapshot.vectors.data() + i * store_->dim, view.row(rows[i]),
                                  store_->dim * sizeof(float)),
                      0);
            const Trace a = snapshot.traces.trace(i);
            const Trace b = store_->traces.trace(rows[i]);
            const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
            for (const auto member : {&Trace::salience, &Trace::floor, &Trace::vividness,
                                      &Trace::vividness_time, &Trace::created, &Trace::last_access,
                                      &Trace::last_strength_change, &Trace::urgency}) {
                EXPECT_EQ(bits(a.*member), bits(b.*member));
            }
            EXPECT_EQ(a.id, b.id);
            EXPECT_EQ(a.access_count, b.access_count);
            EXPECT_EQ(a.status, b.status);
            EXPECT_EQ(a.pinned, b.pinned);
            std::vector<std::string> names;
            std::vector<std::string> expected;
            for (const TagId tag : snapshot.traces.tags(i)) {
                names.push_back(snapshot.tags.name(tag));
            }
            for (const TagId tag : store_->traces.tags(rows[i])) {
                expected.push_back(tags_.name(tag));
            }
            EXPECT_EQ(names, expected);
        }
    }

    SearchResult search(const VectorView& view, const TraceTable& traces, const Sketch* sketch) {
        Random random(77);
        const auto query = testing::unit_rows(random, 1, store_->dim);
        SearchRequest request;
        request.queries = query.data();
        request.query_count = 1;
        request.k = 20;
        request.now = start_of_time + 5.0;
        request.sketch = sketch;
        return flashbulb::search(view, traces, request);
    }

    std::string refusal() const {
        try {
            (void)read();
        } catch (const SnapshotError& error) {
            return error.what();
        }
        return "";
    }

    // Reads what somebody made of the file; right data or a refusal that names the file.
    void expect_right_or_refused(const Bytes& damaged, const Bytes& whole,
                                 bool must_refuse = true) {
        put(path_, damaged);
        const std::string said = refusal();
        if (said.empty()) {
            EXPECT_FALSE(must_refuse && damaged != whole);
            expect_all_of_it(read());
        } else {
            EXPECT_NE(said.find(path_.string() + ": "), std::string::npos) << said;
        }
    }

    fs::path folder_;
    fs::path path_;
    std::optional<testing::Store> store_;
    TagDictionary tags_;
    std::optional<Sketch> sketch_;
};

TEST_F(SnapshotTest, GivesBackWhatWasWritten) {
    for (const std::size_t dim : {1U, 3U, 64U, 200U}) {
        for (const std::size_t rows : {1U, 2U, 300U}) {
            for (const bool with_sketch : {false, true}) {
                make(rows, dim, static_cast<unsigned>(rows + dim), with_sketch);
                write();
                for (const std::size_t map_from : {std::size_t{0}, never}) {
                    const Snapshot snapshot = read(map_from);
                    expect_all_of_it(snapshot);
                    EXPECT_EQ(snapshot.sketch.has_value(), with_sketch);
                    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(snapshot.vectors.data()) % 64, 0U);
                }
            }
        }
    }
}

TEST_F(SnapshotTest, OfNothingIsOne) {
    make(3, 4);
    for (std::size_t row = 0; row < 3; ++row) store_->traces.remove(row);
    write();
    for (const std::size_t map_from : {std::size_t{0}, never}) {
        const Snapshot snapshot = read(map_from);
        EXPECT_EQ(snapshot.vectors.rows(), 0U);
        EXPECT_EQ(snapshot.traces.rows(), 0U);
        EXPECT_EQ(snapshot.tags.size(), 0U);
    }
}

class SnapshotLevels : public SnapshotTest, public ::testing::WithParamInterface<std::string> {
    testing::LevelGuard guard_;
};

// More rows than a chunk of a sketch has, so that there are several.
TEST_P(SnapshotLevels, FindsTheSameAtAnyLevelAndNumberOfThreads) {
    make(Sketch::chunk_rows + 5000, 16);
    write();
    const SearchResult expected = search(store_->view(), store_->traces, &*sketch_);
    set_simd_level(GetParam());
    for (const std::size_t threads : {1U, 3U}) {
        const testing::ThreadsGuard guard(threads);
        const Snapshot snapshot = read(0);
        ASSERT_TRUE(snapshot.sketch);
        testing::expect_same_bits(
            search(snapshot.vectors.view(), snapshot.traces, &*snapshot.sketch), expected);
    }
    const Bytes before = content_of(path_);
    write();
    EXPECT_EQ(content_of(path_), before);
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(SnapshotLevels);

TEST_F(SnapshotTest, GrowsAndChangesLikeAnyOther) {
    make(300, 8);
    write();
    const Bytes before = content_of(path_);
    Snapshot snapshot = read(0);
    const std::size_t rows = snapshot.vectors.rows();
    Random random(5);
    std::vector<float> more = testing::unit_rows(random, 700, 8);
    const VectorView view({{snapshot.vectors.data(), 0, rows}, {more.data(), rows, 700}}, 8);
    view.clear(1);
    std::copy_n(more.data(), 8, view.row(2));
    snapshot.sketch->update(view, 1);
    snapshot.sketch->update(view, 2);
    snapshot.sketch->extend(view);
    for (const std::size_t row : {std::size_t{0}, std::size_t{2}, rows - 1, rows, rows + 699}) {
        EXPECT_TRUE(snapshot.sketch->has_codes_of(view, row)) << row;
    }
    std::vector<Trace> traces;
    for (std::int64_t i = 0; i < 700; ++i) {
        traces.push_back(testing::random_trace(random, 5000 + i, start_of_time));
    }
    snapshot.traces.append(traces, {});
    snapshot.traces.remove(1);
    const SearchResult found = search(view, snapshot.traces, &*snapshot.sketch);
    testing::expect_same_bits(found, search(view, snapshot.traces, nullptr));
    EXPECT_EQ(content_of(path_), before);  // what was written to the rows stayed in memory
}

TEST_F(SnapshotTest, HoldsNothingOfWhatWasRemoved) {
    make(50, 16);
    const TagId word = tags_.intern("a word that goes");
    const std::vector<std::vector<TagId>> tags{{word}};
    Random random(9);
    std::vector<Trace> trace{testing::random_trace(random, 1000, start_of_time)};
    trace[0].salience = 0.123456789;
    store_->traces.append(trace, tags);
    const auto vector = testing::unit_rows(random, 1, 16);
    store_->rows.insert(store_->rows.end(), vector.begin(), vector.end());
    sketch_->extend(store_->view());
    write();
    Bytes bytes = content_of(path_);
    EXPECT_TRUE(contains(bytes, vector.data(), 64));
    EXPECT_TRUE(contains(bytes, "a word that goes", 16));
    EXPECT_TRUE(contains(bytes, &trace[0].salience, 8));
    store_->traces.remove(50);
    write();
    bytes = content_of(path_);
    EXPECT_FALSE(contains(bytes, vector.data(), 64));
    EXPECT_FALSE(contains(bytes, "a word that goes", 16));
    EXPECT_FALSE(contains(bytes, &trace[0].salience, 8));
}

// -- damage
// ----------------------------------------------------------------------------------------

TEST_F(SnapshotTest, CutOffAnywhereIsRefused) {
    make(20, 6);
    write();
    const Bytes whole = content_of(path_);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        expect_right_or_refused(Bytes(whole.begin(), whole.begin() + static_cast<long>(length)),
                                whole);
    }
    Bytes longer = whole;
    for (const std::size_t more : {1U, 63U, 64U, 5000U}) {
        longer.resize(whole.size() + more, 'x');
        expect_right_or_refused(longer, whole);
    }
}

TEST_F(SnapshotTest, FlippedBitsAreNoticedWhereTheyMatter) {
    make(20, 6);
    write();
    const Bytes whole = content_of(path_);
    Random random(3);
    for (int i = 0; i < 10000; ++i) {
        Bytes damaged = whole;
        const std::size_t bit = testing::below(random, 8 * whole.size());
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1U << bit % 8));
        expect_right_or_refused(damaged, whole, false);  // between two sections nothing lies
    }
}

TEST_F(SnapshotTest, SwappedAndZeroedBlocksAreNoticed) {
    make(3000, 100);  // vectors of several blocks
    write();
    const Bytes whole = content_of(path_);
    Random random(4);
    for (const std::size_t block : {std::size_t{64}, std::size_t{4096}, std::size_t{256} << 10U}) {
        const std::size_t blocks = whole.size() / block;
        for (int i = 0; i < 40; ++i) {
            const auto a = static_cast<long>(testing::below(random, blocks) * block);
            const auto b = static_cast<long>(testing::below(random, blocks) * block);
            Bytes damaged = whole;
            std::swap_ranges(damaged.begin() + a, damaged.begin() + a + static_cast<long>(block),
                             damaged.begin() + b);
            expect_right_or_refused(damaged, whole);
            damaged = whole;
            std::fill_n(damaged.begin() + a, block, 0);
            expect_right_or_refused(damaged, whole);
        }
    }
}

TEST_F(SnapshotTest, BlocksOfAnotherGenerationAreNoticed) {
    make(3000, 100);
    write(generation + 1);
    const Bytes other = content_of(path_);
    EXPECT_NE(refusal().find("it is generation"), std::string::npos) << refusal();
    write();
    const Bytes whole = content_of(path_);
    ASSERT_EQ(other.size(), whole.size());
    // The same content, but for the generation: yet no part of the one passes in the other.
    constexpr std::size_t block = std::size_t{256} << 10U;
    for (std::size_t begin = 0; begin < whole.size(); begin += block) {
        const std::size_t count = std::min(block, whole.size() - begin);
        Bytes mixed = whole;
        std::copy_n(other.begin() + static_cast<long>(begin), count,
                    mixed.begin() + static_cast<long>(begin));
        expect_right_or_refused(mixed, whole, mixed != whole && begin == 0);
    }
    // The directory of the one with the sections of the other.
    Bytes mixed = whole;
    std::copy_n(other.begin(), 64, mixed.begin());
    expect_right_or_refused(mixed, whole);
}

TEST_F(SnapshotTest, WhatIsNoneSaysWhy) {
    make(20, 6);
    write();
    const Bytes whole = content_of(path_);
    const auto said = [&](std::size_t place, const auto& value) {
        Bytes changed = whole;
        std::memcpy(changed.data() + place, &value, sizeof value);
        put(path_, changed);
        return refusal();
    };
    EXPECT_NE(said(0, 'X').find("does not begin like a snapshot"), std::string::npos);
    EXPECT_NE(said(8, std::uint32_t{2}).find("needs version 2"), std::string::npos);
    EXPECT_NE(said(12, std::uint32_t{0x04030201}).find("another order of bytes"),
              std::string::npos);
    EXPECT_NE(said(40, std::uint64_t{1} << 63U).find("header differs"), std::string::npos);
    fs::remove(path_);
    EXPECT_NE(refusal().find("No such file"), std::string::npos);
    fs::create_directory(path_);
    EXPECT_NE(refusal().find("not a regular file"), std::string::npos);
    fs::remove(path_);
    put(path_, whole);
    EXPECT_THROW((void)read_snapshot(path_, generation, 7, Policy{}), SnapshotError);
}

// A file whose checksums are right, but whose author means no good.
class HostileSnapshot : public SnapshotTest {
protected:
    using Sections = std::vector<std::pair<SectionKind, Bytes>>;

    HostileSnapshot() { make(1, 2, 1, false); }

    template <class T>
    static Bytes bytes(const std::vector<T>& values) {
        Bytes result(values.size() * sizeof(T));
        if (!values.empty()) std::memcpy(result.data(), values.data(), result.size());
        return result;
    }

    static Sections good(std::uint64_t rows) {
        Sections sections;
        std::vector<std::int64_t> ids;
        for (std::uint64_t row = 0; row < rows; ++row) {
            ids.push_back(static_cast<std::int64_t>(row));
        }
        sections.emplace_back(SectionKind::id, bytes(ids));
        for (auto kind = SectionKind::salience; kind < SectionKind::urgency;
             kind = static_cast<SectionKind>(static_cast<std::uint32_t>(kind) + 1)) {
            sections.emplace_back(kind, bytes(std::vector<double>(rows, 0.5)));
        }
        sections.emplace_back(SectionKind::urgency, bytes(std::vector<double>(rows, none)));
        sections.emplace_back(SectionKind::access_count, bytes(std::vector<std::int64_t>(rows)));
        sections.emplace_back(SectionKind::flags, bytes(std::vector<std::uint8_t>(rows)));
        sections.emplace_back(SectionKind::tag_count, bytes(std::vector<std::uint32_t>(rows, 1)));
        sections.emplace_back(SectionKind::tag_pool, bytes(std::vector<TagId>(rows, 0)));
        sections.emplace_back(SectionKind::tag_name_bytes, bytes(std::vector<std::uint32_t>{3}));
        sections.emplace_back(SectionKind::tag_names, Bytes{'o', 'p', 's'});
        sections.emplace_back(SectionKind::vectors,
                              bytes(std::vector<float>(2 * rows, std::sqrt(0.5F))));
        sections.emplace_back(SectionKind::shape,
                              bytes(std::vector<std::uint64_t>{2, rows, 1, 0, rows}));
        return sections;
    }

    std::string said(const Sections& sections) {
        fs::remove(path_);
        SnapshotFileWriter file(path_, generation, 0644);
        for (const auto& [kind, content] : sections) {
            file.begin(kind, 0, kind == SectionKind::vectors ? 80 : default_block);
            file.append(content.data(), content.size());
        }
        file.finish();
        return refusal();
    }

    template <class T>
    std::string said_with(SectionKind kind, const std::vector<T>& values) {
        Sections sections = good(3);
        for (auto& [each, content] : sections) {
            if (each == kind) content = bytes(values);
        }
        return said(sections);
    }
};

TEST_F(HostileSnapshot, IsReadIfItIsGood) { EXPECT_EQ(said(good(3)), ""); }

TEST_F(HostileSnapshot, WithoutASectionOrWithAnotherSizeIsRefused) {
    const Sections all = good(3);
    for (std::size_t i = 0; i < all.size(); ++i) {
        Sections fewer = all;
        fewer.erase(fewer.begin() + static_cast<long>(i));
        EXPECT_NE(said(fewer), "") << i;
        for (const int change : {-1, 1, 8}) {
            Sections other = all;
            other[i].second.resize(
                static_cast<std::size_t>(static_cast<long>(other[i].second.size()) + change));
            EXPECT_NE(said(other), "") << i << ' ' << change;
        }
    }
    Sections twice = all;
    twice.insert(twice.begin(), all[0]);
    EXPECT_NE(said(twice), "");
}

TEST_F(HostileSnapshot, WithCountsThatAreNotThereIsRefused) {
    using Shape = std::vector<std::uint64_t>;
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{4}, std::uint64_t{1} << 31U, std::uint64_t{1} << 61U,
          std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
        EXPECT_NE(said_with(SectionKind::shape, Shape{2, count, 1, 0, 3}), "") << count;
        EXPECT_NE(said_with(SectionKind::shape, Shape{count, 3, 1, 0, 3}), "") << count;
        EXPECT_NE(said_with(SectionKind::shape, Shape{2, 3, count, 0, 3}), "") << count;
        EXPECT_NE(said_with(SectionKind::shape, Shape{2, 3, 1, count | 1U, 3}), "") << count;
    }
}

TEST_F(HostileSnapshot, WithValuesThatNoTableHasIsRefused) {
    const double infinity = std::numeric_limits<double>::infinity();
    constexpr auto largest = std::numeric_limits<std::int64_t>::max();
    using Ids = std::vector<std::int64_t>;
    for (const Ids& ids :
         {Ids{1, 1, 2}, Ids{2, 1, 3}, Ids{-1, 1, 2}, Ids{1, 2, largest}, Ids{1, largest, 3},
          Ids{largest, 1, 2}, Ids{std::numeric_limits<std::int64_t>::min(), 1, 2}}) {
        EXPECT_NE(said_with(SectionKind::id, ids), "") << ids[1];
    }
    using Numbers = std::vector<double>;
    for (const auto kind : {SectionKind::salience, SectionKind::floor, SectionKind::vividness}) {
        EXPECT_NE(said_with(kind, Numbers{0.5, 1.5, 0.5}), "");
        EXPECT_NE(said_with(kind, Numbers{0.5, none, 0.5}), "");
    }
    EXPECT_NE(said_with(SectionKind::created, Numbers{0.5, infinity, 0.5}), "");
    EXPECT_NE(said_with(SectionKind::last_access, Numbers{0.5, infinity, 0.5}), "");
    EXPECT_NE(said_with(SectionKind::urgency, Numbers{none, 0.5, none}), "");
    EXPECT_NE(said_with(SectionKind::access_count, Ids{0, -1, 0}), "");
    using Vectors = std::vector<float>;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_NE(said_with(SectionKind::vectors, Vectors{0.6F, 0.8F, nan, 0.8F, 0.6F, 0.8F}), "");
    EXPECT_NE(said_with(SectionKind::vectors, Vectors{0.6F, 0.8F, 0.0F, 0.0F, 0.6F, 0.8F}), "");
    using Flags = std::vector<std::uint8_t>;
    for (const int flags : {1, 2, 4, 16, 32, 255}) {
        EXPECT_NE(said_with(SectionKind::flags, Flags{0, static_cast<std::uint8_t>(flags), 0}), "")
            << flags;
    }
    using Counts = std::vector<std::uint32_t>;
    EXPECT_NE(said_with(SectionKind::shape, std::vector<std::uint64_t>{2, 3, 1, 0, 2}), "");
    EXPECT_NE(said_with(SectionKind::tag_count, Counts{1, 2, 1}), "");
    EXPECT_NE(said_with(SectionKind::tag_count, Counts{1, 0xFFFFFFFF, 3}), "");
    EXPECT_NE(said_with(SectionKind::tag_pool, Counts{0, 1, 0}), "");
    EXPECT_NE(said_with(SectionKind::tag_name_bytes, Counts{4}), "");
    EXPECT_NE(said_with(SectionKind::tag_name_bytes, Counts{2}), "");
}

TEST_F(HostileSnapshot, WithAnEmptyOrRepeatedNameIsRefused) {
    Sections sections = good(3);
    sections[sections.size() - 1].second = bytes(std::vector<std::uint64_t>{2, 3, 2, 0, 3});
    sections[sections.size() - 4].second = bytes(std::vector<std::uint32_t>{3, 3});
    sections[sections.size() - 3].second = {'o', 'p', 's', 'o', 'p', 's'};
    const std::string refused = said(sections);
    EXPECT_NE(refused.find("comes twice"), std::string::npos) << refused;
}

TEST_F(SnapshotTest, CodesOfAnotherRotationAreLeftOut) {
    make(600, 8);
    Random random(8);
    store_->rows = testing::unit_rows(random, 600, 8);  // the sketch is of other rows
    write();
    EXPECT_FALSE(read().sketch);
}

// -- disks
// -----------------------------------------------------------------------------------------

TEST_F(SnapshotTest, NeverOverwrites) {
    make(20, 6);
    put(path_, {'m', 'i', 'n', 'e'});
    EXPECT_THROW(
        write_snapshot(path_, generation, 0644, store_->view(), store_->traces, tags_, nullptr),
        std::system_error);
    EXPECT_EQ(content_of(path_), (Bytes{'m', 'i', 'n', 'e'}));
}

// A limit of this process stands for a disk without room.
TEST_F(SnapshotTest, WithoutRoomLeavesNoFile) {
    make(3000, 100);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{100'000, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THROW(write(), std::system_error);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SnapshotTest, OfRowsThatDoNotFitIsRefused) {
    make(20, 6);
    std::vector<std::uint16_t> halves(20 * 6);
    const VectorView view({{halves.data(), 0, 20}}, RowFormat{6, Encoding::float16});
    EXPECT_THROW(write_snapshot(path_, 1, 0644, view, store_->traces, tags_, nullptr),
                 std::invalid_argument);
    tags_ = TagDictionary();
    EXPECT_THROW(write(), std::invalid_argument);
    EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace flashbulb

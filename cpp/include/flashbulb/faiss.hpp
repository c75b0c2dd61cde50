#pragma once

#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/invlists/InvertedLists.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "flashbulb/partition.hpp"
#include "flashbulb/views.hpp"

/// @file
/// For programs that link FAISS: its rows, searched where they lie. Header only; FAISS (1.7.3 or
/// newer) and its headers are the program's own, and no other header of Flashbulb includes this.

namespace flashbulb {

/// The rows of a FAISS index of the caller, as the core reads them: not one is copied. Row r is
/// what FAISS labels r, so a trace appended as row r belongs to that vector.
///
/// Accepted are exactly these types; a subclass may lay its rows out in another way:
///   - `IndexFlat`, `IndexFlatIP`, `IndexFlatL2`;
///   - `IndexScalarQuantizer` of type `QT_fp16`, `QT_8bit` or `QT_8bit_uniform`, where the decoded
///     row is the vector;
///   - `IndexHNSWFlat` and `IndexHNSWSQ` over these, whose graph is not used;
///   - `IndexIVFFlat` over lists in memory, if labels were given by `add`.
///
/// Lifetime: the index must outlive this object, and the object every view taken from it. Both are
/// void as soon as the index changes in any way (`add`, `remove_ids`, `reset`, `train`, a move, an
/// assignment): make a new object then, and update traces and sketch by hand. A search of the core
/// may run beside a search of FAISS, but neither beside a change.
class FaissRows {
public:
    /// Reads every row once, to check its norm.
    /// @throws std::invalid_argument if the index is of another type, has another metric than inner
    ///         product or L2, does not own its rows, is inconsistent in its sizes or labels, or
    ///         holds a row whose norm is not 1 within norm_tolerance of its encoding.
    explicit FaissRows(faiss::Index& index) : index_(&index), view_(view_of(index)) {
        const std::size_t bad = first_row_not_unit(view_, norm_tolerance(view_.format().encoding));
        if (bad < view_.rows()) {
            throw std::invalid_argument("row " + std::to_string(bad) +
                                        " of the FAISS index does not have norm 1; normalise the "
                                        "rows before they are added");
        }
    }

    /// Can be moved, and not copied.
    FaissRows(FaissRows&&) noexcept = default;
    FaissRows& operator=(FaissRows&&) noexcept = default;  ///< see the constructor
    FaissRows(const FaissRows&) = delete;
    FaissRows& operator=(const FaissRows&) = delete;
    ~FaissRows() = default;

    /// What the functions of the core take.
    /// @throws std::logic_error if rows were added or removed since. (No other change shows.)
    [[nodiscard]] const VectorView& view() const {
        if (static_cast<std::size_t>(index_->ntotal) != view_.rows()) {
            throw std::logic_error("the FAISS index was changed: expected " +
                                   std::to_string(view_.rows()) + " rows, got " +
                                   std::to_string(index_->ntotal));
        }
        return view_;
    }

    /// The lists of an `IndexIVFFlat` around the centroids of its quantizer, for `search_nearby`;
    /// its `least_lists` are what FAISS calls `nprobe`. A copy, 4 bytes a row.
    /// @throws std::invalid_argument for another index, or if the quantizer has another metric than
    ///         inner product or L2; std::logic_error as `view`; what FAISS throws if the quantizer
    ///         does not keep its centroids
    [[nodiscard]] Partition partition() const {
        const auto* inverted = dynamic_cast<const faiss::IndexIVFFlat*>(index_);
        if (inverted == nullptr) {
            throw std::invalid_argument("expected an IndexIVFFlat, whose rows are in lists");
        }
        const faiss::Index& quantizer = *inverted->quantizer;
        require_metric(quantizer);
        require_count("centroids", quantizer.ntotal, inverted->nlist);
        std::vector<float> centroids(inverted->nlist * view().dim());
        quantizer.reconstruct_n(0, quantizer.ntotal, centroids.data());
        Partition result(std::move(centroids), view_.dim(),
                         quantizer.metric_type == faiss::METRIC_L2
                             ? Partition::Metric::l2
                             : Partition::Metric::inner_product);
        std::vector<std::uint32_t> lists;
        for (const std::uint64_t place : places_) {
            lists.push_back(static_cast<std::uint32_t>(place >> 32U));
        }
        result.append(lists);
        return result;
    }

private:
    static void require_metric(const faiss::Index& index) {
        if (index.metric_type != faiss::METRIC_INNER_PRODUCT &&
            index.metric_type != faiss::METRIC_L2) {
            throw std::invalid_argument("expected metric inner product or L2, got metric type " +
                                        std::to_string(static_cast<int>(index.metric_type)));
        }
    }

    VectorView view_of(faiss::Index& index) {
        require_metric(index);
        const std::type_info& type = typeid(index);
        if (type == typeid(faiss::IndexFlat) || type == typeid(faiss::IndexFlatIP) ||
            type == typeid(faiss::IndexFlatL2)) {
            return flat_view(static_cast<faiss::IndexFlat&>(index), {dim_of(index)});
        }
        if (type == typeid(faiss::IndexScalarQuantizer)) {
            auto& quantized = static_cast<faiss::IndexScalarQuantizer&>(index);
            return flat_view(quantized, format_of(quantized.sq, dim_of(index)));
        }
        if (type == typeid(faiss::IndexHNSWFlat) || type == typeid(faiss::IndexHNSWSQ)) {
            faiss::Index& storage = *static_cast<faiss::IndexHNSW&>(index).storage;
            require_count("rows", storage.ntotal, index.ntotal);
            return view_of(storage);
        }
        if (type == typeid(faiss::IndexIVFFlat)) {
            return list_view(static_cast<faiss::IndexIVFFlat&>(index));
        }
        throw std::invalid_argument(
            "expected an IndexFlat, IndexScalarQuantizer, IndexHNSWFlat, IndexHNSWSQ or "
            "IndexIVFFlat of FAISS, got type " +
            std::string(type.name()));
    }

    static VectorView flat_view(faiss::IndexFlatCodes& index, RowFormat format) {
        require_owned(index.codes);
        require_count("bytes a row", index.code_size, format.row_bytes());
        require_count("bytes", index.codes.size(), rows_of(index) * format.row_bytes());
        return {{Segment{index.codes.data(), 0, rows_of(index)}}, std::move(format)};
    }

    VectorView list_view(faiss::IndexIVFFlat& index) {
        // Other lists keep their rows on disk or in another order.
        if (index.invlists == nullptr ||
            typeid(*index.invlists) != typeid(faiss::ArrayInvertedLists)) {
            throw std::invalid_argument("expected an IndexIVFFlat with ArrayInvertedLists");
        }
        auto& inverted = static_cast<faiss::ArrayInvertedLists&>(*index.invlists);
        const RowFormat format{dim_of(index)};
        require_count("bytes a row", inverted.code_size, format.row_bytes());
        constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();
        places_.assign(rows_of(index), nowhere);
        std::vector<RowList> lists;
        std::size_t total = 0;
        for (std::size_t list = 0; list < inverted.nlist; ++list) {
            require_owned(inverted.codes[list]);
            const std::size_t count = inverted.ids[list].size();
            require_count("bytes of a list", inverted.codes[list].size(),
                          count * format.row_bytes());
            lists.push_back({inverted.codes[list].data(), count});
            total += count;
            for (std::size_t offset = 0; offset < count; ++offset) {
                const auto label = static_cast<std::uint64_t>(inverted.ids[list].data()[offset]);
                if (label >= places_.size() || places_[label] != nowhere) {
                    throw std::invalid_argument(
                        "expected the labels 0 to " + std::to_string(places_.size()) +
                        " (exclusive) once each, as `add` gives them, got " +
                        std::to_string(static_cast<std::int64_t>(label)));
                }
                places_[label] = std::uint64_t{list} << 32U | offset;
            }
        }
        require_count("rows in the lists", total, places_.size());
        return {std::move(lists), places_, format};
    }

    static RowFormat format_of(const faiss::ScalarQuantizer& quantizer, std::size_t dim) {
        RowFormat format{dim};
        switch (quantizer.qtype) {
            case faiss::ScalarQuantizer::QT_fp16:
                format.encoding = Encoding::float16;
                return format;
            case faiss::ScalarQuantizer::QT_8bit: {
                require_count("trained values", quantizer.trained.size(), 2 * dim);
                const auto middle = quantizer.trained.begin() + static_cast<std::ptrdiff_t>(dim);
                format.minimum.assign(quantizer.trained.begin(), middle);
                format.range.assign(middle, quantizer.trained.end());
                break;
            }
            case faiss::ScalarQuantizer::QT_8bit_uniform:
                require_count("trained values", quantizer.trained.size(), 2);
                format.minimum.assign(dim, quantizer.trained[0]);
                format.range.assign(dim, quantizer.trained[1]);
                break;
            default:
                throw std::invalid_argument(
                    "expected a scalar quantizer of type QT_fp16, QT_8bit or QT_8bit_uniform, got "
                    "type " +
                    std::to_string(static_cast<int>(quantizer.qtype)));
        }
        format.encoding = Encoding::uint8;
        return format;
    }

    // Since 1.11, storage of FAISS may belong to someone else, such as a mapped file.
    template <typename Codes>
    static void require_owned(const Codes& codes) {
        if constexpr (requires { codes.is_owned; }) {
            if (!codes.is_owned) {
                throw std::invalid_argument(
                    "expected an index that owns its rows, got a mapped or viewed one");
            }
        }
    }

    template <typename Got, typename Expected>
    static void require_count(const char* what, Got got, Expected expected) {
        if (static_cast<std::uint64_t>(got) != static_cast<std::uint64_t>(expected)) {
            throw std::invalid_argument("the FAISS index is inconsistent: expected " +
                                        std::to_string(expected) + ' ' + what + ", got " +
                                        std::to_string(got));
        }
    }

    static std::size_t dim_of(const faiss::Index& index) {
        return static_cast<std::size_t>(index.d);
    }
    static std::size_t rows_of(const faiss::Index& index) {
        return static_cast<std::size_t>(index.ntotal);
    }

    const faiss::Index* index_;
    std::vector<std::uint64_t> places_;  // of the rows of an IVF index, which the view refers to
    VectorView view_;
};

}  // namespace flashbulb

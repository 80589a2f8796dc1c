#pragma once
// Comparison of two checkpoints tensor by tensor, whatever their containers, types and names:
// whether a conversion kept the numbers, and how it changed them if not.

#include <mha/files/contents.hpp>
#include <mha/system/note.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// A weight of a checkpoint. It is read when it is compared.
struct Weight {
  std::string name; ///< in the file
  std::string role; ///< pairs it with the other file: its name without wrappers, or "layers.3.W_q"
  std::string type; ///< "Q4_K", "float16"
  Shape shape;
  std::function<Tensor()> read;
  std::function<Tensor()> steps;   ///< Entry::steps of block types, else empty
  std::function<Tensor()> as_file; ///< in the file's order, if reading reorders rows; else empty
};

/// The weights of a checkpoint.
struct WeightFile {
  std::string name;
  std::string format; ///< "gguf", "safetensors"
  std::vector<Weight> weights;
  std::vector<std::size_t> heads; ///< query and key/value heads of config.json
  bool by_role = false;           ///< the roles are those that a family reads, not names
};

enum class WeightStatus : std::uint8_t {
  equal,    ///< the same numbers, rounded to nearest even where a type is coarser
  close,    ///< within the steps of a block type: median ≤ 0.3, 99 % ≤ 1
  tied,     ///< only in one file, equal to another tensor there
  buffer,   ///< only in one file, and not a weight: a mask, a table of frequencies
  permuted, ///< the same numbers in another order
  offset,   ///< plus or minus one
  scaled,   ///< times a constant
  differs,
  shape, ///< of another shape
  only_a,
  only_b
};
/// "equal", "close" …
std::string_view name_of(WeightStatus status);
/// Whether a model with such a tensor computes the same.
bool is_same(WeightStatus status);

/// |a − b| in units of the coarser one's steps, the distance of neighbouring levels.
struct StepDistances {
  double median = 0, p99 = 0;
  double above_half = 0, above_one = 0; ///< shares of the elements
  bool close() const { return median <= 0.3 && p99 <= 1; }
};

struct WeightDiff {
  std::string name, other; ///< in A, in B; "" if it is missing there
  std::string type_a, type_b;
  Shape shape_a, shape_b;
  WeightStatus status = WeightStatus::equal;
  std::string detail; ///< "half to interleaved, in 4 heads", "+ 1", "× 0.125"
  std::optional<StepDistances> steps;
  double largest = 0;  ///< of |a − b|
  double relative = 0; ///< ‖a − b‖ / ‖a‖
  /// If the weights are not equal: the first numbers of both, which distinguish a weight from
  /// nearly all others.
  std::vector<float> first_a = {}, first_b = {};
};

struct WeightsDiff {
  std::string a, b;
  std::vector<WeightDiff> tensors;
  bool by_role = false; ///< paired by the roles that families read, since names do not match
  bool same() const;
};

/// How the weights of a source are opened.
struct WeightOptions {
  std::string naming; ///< a family or a description, for the files that it fits
  std::string config; ///< a config.json, or ""
  bool gguf_order = false;
};

/// Opens both files and pairs their tensors by name, or by the roles that families read if fewer
/// than half of the names match. Throws Error if neither works.
std::pair<WeightFile, WeightFile> open_weights(const std::string& a, const std::string& b,
                                               const WeightOptions& options);
/// Compares pair by pair in A's order, then lists the tensors that only B has. One pair is in
/// memory at a time.
WeightsDiff diff_weights(const WeightFile& a, const WeightFile& b);
/// Whether the numbers are the same in float64; NaN equals NaN.
bool same_weights(const Tensor& a, const Tensor& b);
/// Compares one pair. `heads`: numbers of heads to try first for rows in another order; then all
/// divisors are tried.
WeightDiff diff_weight(const Weight& a, const Weight& b, const std::vector<std::size_t>& heads);

} // namespace mha

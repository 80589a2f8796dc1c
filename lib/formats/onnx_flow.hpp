#pragma once
// A model's graph as a list of steps: bodies of If and Loop and function calls are unfolded, names
// are resolved, shapes and short lists of numbers are computed for a short input. Attention is then
// found by tracing single elements to the elements of other values that they consist of.

#include <mha/formats/onnx_rules.hpp>
#include <mha/formats/onnx_tensor.hpp>
#include <mha/system/short_list.hpp>

#include <cmath>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mha::io {

/// Lengths of axes.
using OnnxDims = std::vector<std::int64_t>;
/// Positions along axes. A short list, since one is made for each requested element.
using OnnxPlaces = ShortList<std::int64_t, 6>;

/// A value in the graph: an input, a constant, or a step's output.
struct OnnxValue {
  std::string_view name;
  int step = -1;     ///< the step that computes it, or -1
  int output = 0;    ///< its index among the step's outputs
  int constant = -1; ///< its index among the constants, or -1
  int alias = -1;    ///< an equal value with another name, or -1
  const OnnxValueInfo* info = nullptr;
  bool is_input = false;
  /// Whether it depends only on constants and shapes. Masks among the inputs count as all ones,
  /// positions as 0, 1, 2 …
  bool fixed = false;
  bool whole = false; ///< its numbers are integers, so that division truncates
  std::optional<std::vector<std::int64_t>> shape;
  std::vector<double> numbers; ///< of short fixed values; empty for others
  std::vector<int> consumers;
};

/// A node with its inputs and outputs as indices of values; -1 for omitted ones.
struct OnnxStep {
  const OnnxNode* node = nullptr;
  const OnnxRule* rule = nullptr;
  std::string name; ///< of the node, after the names of the enclosing calls
  std::vector<int> inputs, outputs;
  std::vector<int> then_outputs, else_outputs;                                  ///< of If
  std::shared_ptr<const std::map<std::string_view, const OnnxAttribute*>> call; ///< of a function

  /// Whether it is this operator of the standard, or of ONNX Runtime's own.
  bool is(std::string_view op) const {
    return node->op == op && (node->domain.empty() || node->domain == "com.microsoft");
  }
  const OnnxAttribute* find(std::string_view attribute) const;
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  std::optional<double> number(std::string_view attribute) const;
  std::string_view text(std::string_view attribute) const;
  const OnnxDims& integers(std::string_view attribute) const;
  int input(std::size_t place) const { return place < inputs.size() ? inputs[place] : -1; }
};

/// An element as a sum: factors times elements of values that are not sums themselves, plus a
/// number.
struct OnnxForm {
  struct Term {
    int value;
    std::int64_t at; ///< flat index
    double factor;
  };
  ShortList<Term, 2> terms; ///< a rotary embedding has two
  double number = 0;
};

/// Steps that forms passed through, each once.
struct OnnxPassedSteps {
  std::vector<int> tables;    ///< steps that may treat every element differently
  std::vector<int> sums;      ///< steps that may add another number to every element, or hide some
  std::vector<int> roundings; ///< steps that round to fewer bits
};

class OnnxFlow {
public:
  /// Unfolds the graph; `constants` are the tensors of initializers and Constant nodes, in order.
  OnnxFlow(std::shared_ptr<const OnnxModel> model, OnnxStore& store, std::int64_t length,
           std::int64_t texts = 1, bool padded = false);
  /// The length of the short input.
  static constexpr std::int64_t usual_length = 7;
  std::int64_t length = usual_length;
  std::int64_t texts = 1; ///< the number of texts in the input
  bool padded = false;    ///< whether masks among the inputs hide each text's last position
  /// Another length that the graph's constants require, or 0.
  std::int64_t required_length = 0;
  /// Makes the same graph, with the same indices of values, for other lengths. Only set while a
  /// file is read.
  std::function<std::shared_ptr<OnnxFlow>(std::int64_t length, std::int64_t texts, bool padded)>
      of_length;

  std::vector<OnnxValue> values;
  std::vector<OnnxStep> steps;
  struct Constant {
    OnnxArray array;
    int value;
    bool of_node; ///< whether it is a Constant node, not an initializer
  };
  std::vector<Constant> constants;
  std::vector<std::string> set_aside; ///< tensors of unsupported types, with their type
  std::int64_t opset = 0;             ///< of the standard operators

  /// The value that this one is an alias of, or the value itself.
  int resolved(int value) const {
    // An alias refers to a smaller index, so the loop ends.
    while (value >= 0 && at(value).alias >= 0 && at(value).alias < value) value = at(value).alias;
    return value;
  }
  const OnnxValue& at(int value) const { return values[static_cast<std::size_t>(value)]; }
  const OnnxStep* maker(int value) const {
    value = resolved(value);
    return value < 0 || at(value).step < 0 ? nullptr
                                           : &steps[static_cast<std::size_t>(at(value).step)];
  }
  bool is_fixed(int value) const { return value >= 0 && at(resolved(value)).fixed; }
  /// The shape for the short input, or nothing if it is unknown.
  const std::optional<OnnxDims>& shape(int value) const {
    static const std::optional<OnnxDims> none;
    return value < 0 ? none : at(resolved(value)).shape;
  }

  /// One element as a sum. Elements of values in `stops`, and those without a rule, are terms. With
  /// `unmasked`, masks are ignored.
  OnnxForm form(int value, std::int64_t flat, bool unmasked = false) const;
  /// The steps that forms passed through since the last call.
  OnnxPassedSteps take_passed_steps() const { return std::exchange(passed_, {}); }
  /// Adds steps to those that take_passed_steps() returns.
  void add_passed_steps(const OnnxPassedSteps& passed) const;
  /// One element of a fixed value.
  std::optional<double> number(int value, std::int64_t flat = 0) const;
  /// All numbers of a fixed value with at most `most` elements; otherwise an empty list.
  std::vector<double> numbers(int value, std::size_t most = 64) const;
  /// The tensor of a fixed value, computed from constants by moving, converting and dequantising.
  /// Throws Error for other operators.
  Tensor tensor(int value) const;
  /// Whether tensor() can compute a value.
  bool has_tensor(int value) const;
  /// Values at which form() stops: outputs of projections.
  std::vector<bool> stops;
  /// Whether the limit on computed elements was reached.
  bool exhausted() const { return visits_ <= 0; }

private:
  friend class OnnxUnfolder;
  friend class OnnxShapes;
  friend class OnnxElements;
  std::shared_ptr<const OnnxModel> model_; ///< steps point into it
  std::shared_ptr<const Bytes> bytes_;     ///< names point into them
  std::string where_;
  mutable std::mutex reading_;       ///< tensor() may be called from several threads
  mutable std::vector<Tensor> read_; ///< constants that have been read
  /// The computed numbers of fixed values; NaN for those not yet computed.
  mutable std::vector<std::vector<double>> known_;
  mutable std::vector<std::unordered_map<std::int64_t, double>> known_of_large_;
  double* known(int value, std::int64_t flat) const;
  mutable OnnxPassedSteps passed_;
  mutable bool unmasked_ = false;
  mutable std::int64_t budget_ = 0;          ///< steps left for one element
  mutable std::int64_t visits_ = 30'000'000; ///< steps left for all elements
};

/// The number of elements; -1 if a length is negative or the number overflows.
std::int64_t onnx_count(const std::vector<std::int64_t>& shape);

} // namespace mha::io

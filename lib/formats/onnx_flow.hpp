#pragma once
// A model's graph as one row of steps: bodies of If and Loop and calls of functions unfolded, names
// resolved, shapes and small numbers computed for a short input. What attention reads is then found
// by asking for single elements: which elements of which values they are made of.

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
/// Places along axes: these are made for each element that is asked for.
using OnnxPlaces = ShortList<std::int64_t, 6>;

/// What the graph hands on: an input, a constant, or a step's output.
struct OnnxValue {
  std::string_view name;
  int step = -1;     ///< that makes it; -1: none
  int output = 0;    ///< which of the step's
  int constant = -1; ///< its place among the constants
  int alias = -1;    ///< the value that it is, under another name
  const OnnxValueInfo* info = nullptr;
  bool is_input = false;
  /// Whether it follows from constants and shapes alone; masks among the inputs count as all ones,
  /// positions as 0, 1, 2 …
  bool fixed = false;
  bool whole = false; ///< its numbers are integers, whose quotients are cut
  std::optional<std::vector<std::int64_t>> shape;
  std::vector<double> numbers; ///< of short fixed ones; else empty
  std::vector<int> consumers;
};

/// A node with its inputs and outputs as places in the list of values; -1: left out.
struct OnnxStep {
  const OnnxNode* node = nullptr;
  const OnnxRule* rule = nullptr;
  std::string name; ///< of the node, behind those of the functions that it lies in
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

/// An element as a sum: coefficients times elements of values that are no sums themselves, plus a
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

/// Steps that forms came through, each once.
struct OnnxMet {
  std::vector<int> tables;    ///< which decide by the element what it is: others may be otherwise
  std::vector<int> sums;      ///< which decide by the element what is added, or hide some
  std::vector<int> roundings; ///< to numbers of fewer bits
};

class OnnxFlow {
public:
  /// `constants` gets the tensors of initializers and Constant nodes, in their order.
  OnnxFlow(std::shared_ptr<const OnnxModel> model, OnnxStore& store, std::int64_t length,
           std::int64_t texts = 1, bool padded = false);
  /// Positions that a short input has;
  static constexpr std::int64_t usual_length = 7;
  std::int64_t length = usual_length;
  std::int64_t texts = 1; ///< that it has
  bool padded = false;    ///< whether masks among the inputs hide each text's last position
  /// and those that constants of the graph fit to, where these are others; else 0.
  std::int64_t wanted_length = 0;
  /// The same graph for other lengths, with the same values. Only while a file is read.
  std::function<std::shared_ptr<OnnxFlow>(std::int64_t length, std::int64_t texts, bool padded)>
      of_length;

  std::vector<OnnxValue> values;
  std::vector<OnnxStep> steps;
  struct Constant {
    OnnxArray array;
    int value;
    bool of_node; ///< a Constant node's, no initializer
  };
  std::vector<Constant> constants;
  std::vector<std::string> set_aside; ///< tensors that are not read, with their type
  std::int64_t opset = 0;             ///< of the standard operators

  /// The value itself, where this one is another name of it.
  int resolved(int value) const {
    // Every alias is older than its value, so that this ends.
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
  /// The shape for the short input, or nothing.
  const std::optional<OnnxDims>& shape(int value) const {
    static const std::optional<OnnxDims> none;
    return value < 0 ? none : at(resolved(value)).shape;
  }

  /// One element. A value of `stops`, and what no rule of sums applies to, is a term.
  /// `unmasked`: what a mask hides is seen through to the scores.
  OnnxForm form(int value, std::int64_t flat, bool unmasked = false) const;
  /// Steps that forms met since this was asked last.
  OnnxMet met() const { return std::exchange(met_, {}); }
  /// As if these were met now.
  void meet(const OnnxMet& met) const;
  /// One element of a fixed value.
  std::optional<double> number(int value, std::int64_t flat = 0) const;
  /// All of a fixed value of at most `most` elements, else nothing.
  std::vector<double> numbers(int value, std::size_t most = 64) const;
  /// The numbers of a fixed value, computed from constants by moving, converting and dequantising
  /// them. Throws Error "PATH: W is made by Conv: …" for other operators.
  Tensor tensor(int value) const;
  /// Whether the numbers of a fixed value can be had so.
  bool has_tensor(int value) const;
  /// Values at which form() stops: outputs of projections.
  std::vector<bool> stops;
  /// Whether there was no time left for all elements that were asked for.
  bool exhausted() const { return visits_ <= 0; }

private:
  friend class OnnxUnfolder;
  friend class OnnxShapes;
  friend class OnnxElements;
  std::shared_ptr<const OnnxModel> model_; ///< into which steps point,
  std::shared_ptr<const Bytes> bytes_;     ///< and names
  std::string where_;
  mutable std::mutex reading_;       ///< tensor() may be called from several threads
  mutable std::vector<Tensor> read_; ///< constants, once read
  /// Numbers of fixed values that were computed, NaN where they were not.
  mutable std::vector<std::vector<double>> known_;
  mutable std::vector<std::unordered_map<std::int64_t, double>> known_of_large_;
  double* known(int value, std::int64_t flat) const;
  mutable OnnxMet met_;
  mutable bool unmasked_ = false;
  mutable std::int64_t budget_ = 0;          ///< steps for one element,
  mutable std::int64_t visits_ = 30'000'000; ///< for all
};

/// The number of elements; -1 where it is beyond what is computed.
std::int64_t onnx_count(const std::vector<std::int64_t>& shape);

} // namespace mha::io

#pragma once
// Values of a graph held against parts of a model, element by element, for one text of one length.

#include <mha/formats/onnx_graph.hpp>
#include <mha/layer/block.hpp>

#include <functional>
#include <map>

namespace mha {

/// Rows that a graph adds up: elements of values times a number of their column, and a number.
struct GraphSum {
  struct Term {
    int value = -1;
    std::vector<double> factors = {}; ///< of the columns; empty: 1
  };
  std::vector<Term> terms;
  std::function<double(std::int64_t t, std::int64_t c)> number = nullptr; ///< null: 0
};

/// Whether two tensors have the same shape and numbers.
bool are_same(const Tensor& a, const Tensor& b);

class GraphReader {
public:
  /// `file` begins messages. The flow stops at what the reader settles.
  GraphReader(std::string file, std::shared_ptr<io::OnnxFlow> flow);

  const io::OnnxFlow& flow() const { return *flow_; }
  const io::OnnxProjections& projections() const { return projections_; }

  /// Throws Error that names the step that makes `value`.
  [[noreturn]] void refuse(int value, std::string_view why) const;
  void require(bool holds, int value, std::string_view why) const {
    if (!holds) refuse(value, why);
  }

  /// The values whose elements a value's first element is the sum of.
  std::vector<int> terms_of(int value) const;
  /// The only one; throws Error where there are several, or none.
  int only_term_of(int value) const;
  /// Throws Error where a value's rows, `width` wide, are not this sum.
  void require_sum(int value, std::int64_t width, const GraphSum& sum);
  /// Makes what a value's elements are moved from the value that later sums are of; the sum of it.
  GraphSum settle(int value, std::int64_t width);

  /// What `value`, whose terms are those of the norm, is normalised from.
  int normalised_from(int value) const;
  /// The same of a term, after which the norm's weight may still be multiplied. The sum that it is.
  GraphSum require_norm(int term, const Norm& norm, const GraphSum& of, std::int64_t width);
  /// Throws Error where a value is not the norm of the sum; without a norm, the sum.
  void require_normed(int value, const Norm& norm, const GraphSum& of, std::int64_t width);

  /// The projection whose output a value is, with the numbers of `map`. Throws Error.
  const io::OnnxProjection& require_linear(int value, const LinearMap& map) const;
  bool is_linear(const io::OnnxProjection& projection, const LinearMap& map) const;
  /// Throws Error where a fixed value has other numbers.
  void require_numbers(int value, const Tensor& numbers) const;

  /// The projections whose elements a value is made of one by one, each at its own place.
  std::vector<int> leaves_of(int value);
  /// The value before steps that keep every number in its place.
  int before_moves(int value) const;
  /// Throws Error where a value's elements are no f of the elements of leaf `of`, times those of
  /// leaf `times` where that is one.
  void require_function(int value, int of, const std::function<double(double)>& f,
                        std::string_view why, int times = -1) const;
  void require_activation(int value, Activation activation, int of, int times = -1) const;

  /// Steps that round numbers on the way.
  const std::vector<int>& roundings() const { return roundings_; }
  std::int64_t tokens() const { return flow_->length; }

private:
  template <class Holds> bool holds(std::int64_t width, const Holds& at);
  bool is_sum(int value, std::int64_t width, const GraphSum& sum);
  void collect_leaves(int value, int depth, std::vector<int>& leaves);
  bool keeps_places(const io::OnnxStep& step) const;
  double element(int value, const std::map<int, double>& leaves, int depth) const;

  std::string file_;
  std::shared_ptr<io::OnnxFlow> flow_;
  io::OnnxProjections projections_;
  std::vector<int> roundings_;
};

} // namespace mha

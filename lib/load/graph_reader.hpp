#pragma once
// Compares values of a graph with parts of a model, element by element, for one text of one length.

#include <mha/formats/onnx_graph.hpp>
#include <mha/layer/block.hpp>

#include <functional>
#include <map>

namespace mha {

/// A sum of rows in a graph: elements of values, each times a factor of its column, and a number.
struct GraphSum {
  struct Term {
    int value = -1;
    std::vector<double> factors = {}; ///< one for each column; empty: 1
  };
  std::vector<Term> terms;
  std::function<double(std::int64_t t, std::int64_t c)> number = nullptr; ///< null: 0
};

/// Whether two tensors have the same shape and numbers.
bool are_same(const Tensor& a, const Tensor& b);

class GraphReader {
public:
  /// `file` begins messages. The reader marks settled values as stops of the flow.
  GraphReader(std::string file, std::shared_ptr<io::OnnxFlow> flow);

  const io::OnnxFlow& flow() const { return *flow_; }
  const io::OnnxProjections& projections() const { return projections_; }

  /// Throws Error with the step that makes `value`.
  [[noreturn]] void refuse(int value, std::string_view why) const;
  void require(bool holds, int value, std::string_view why) const {
    if (!holds) refuse(value, why);
  }

  /// The values whose elements a value's first element is the sum of.
  std::vector<int> terms_of(int value) const;
  /// The only term; throws Error where there are several, or none.
  int only_term_of(int value) const;
  /// Throws Error where a value's rows of `width` numbers are not this sum.
  void require_sum(int value, std::int64_t width, const GraphSum& sum);
  /// Makes the value that this one's elements are moved from a term of later sums; returns that
  /// sum.
  GraphSum settle(int value, std::int64_t width);

  /// The input of the norm that `value` is the result of.
  int normalised_from(int value) const;
  /// Throws Error where a term is not this norm of the sum; its weight may be multiplied in a later
  /// step. Returns the term as a sum.
  GraphSum require_norm(int term, const Norm& norm, const GraphSum& of, std::int64_t width);
  /// Throws Error where a value is not the norm of the sum; without a norm, the sum.
  void require_normed(int value, const Norm& norm, const GraphSum& of, std::int64_t width);

  /// The projection whose output a value is. Throws Error where its numbers are not those of `map`.
  const io::OnnxProjection& require_linear(int value, const LinearMap& map) const;
  bool is_linear(const io::OnnxProjection& projection, const LinearMap& map) const;
  /// Throws Error where a fixed value has other numbers.
  void require_numbers(int value, const Tensor& numbers) const;

  /// The projections that a value is computed from element by element.
  std::vector<int> leaves_of(int value);
  /// The value before steps that keep every number in its place.
  int before_moves(int value) const;
  /// Throws Error where a value's elements are not f of the elements of leaf `of`, times those of
  /// leaf `times` where it is not negative.
  void require_function(int value, int of, const std::function<double(double)>& f,
                        std::string_view why, int times = -1) const;
  void require_activation(int value, Activation activation, int of, int times = -1) const;

  /// Steps in between that round numbers.
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

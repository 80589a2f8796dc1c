// Attention that a graph spells out: product, scale, mask, Softmax, product.

#include <mha/formats/onnx_layers.hpp>
#include <mha/formats/onnx_shapes.hpp>

#include <algorithm>
#include <array>

namespace mha::io {

namespace {

constexpr int most_unwrapped =
    12; ///< operators between the scores and their Softmax that no sum is
constexpr std::size_t most_walked = 64; ///< steps from one product to the next

/// From a value to the score that it is made of.
struct ScorePath {
  const OnnxStep* product = nullptr;
  std::int64_t at = 0; ///< flat index of its output
  double factor = 1;   ///< of the score, before a cap
  double softcap = 0;
  double added = 0;
  bool known = true;   ///< whether `added` is all that is added
  std::string unknown; ///< the node that adds what is not known
};

class SoftmaxReader {
public:
  SoftmaxReader(const OnnxFlow& flow, const OnnxProjections& projections, int step)
      : flow_(flow), projections_(projections), step_(step) {}

  std::optional<OnnxAttentionSite> read() {
    const OnnxStep& step = this->step();
    const auto& shape = flow_.shape(step.input(0));
    if (!shape || shape->size() < 2 || onnx_count(*shape) <= 0 || step.outputs.empty())
      return std::nullopt;
    in_ = *shape;
    const std::int64_t axis =
        onnx_axis(step.integer("axis", flow_.opset >= 13 ? -1 : 1), in_.size());
    if (axis < 0) return std::nullopt;
    key_axis_ = static_cast<std::size_t>(axis);
    if (!find_scores() || !find_values()) return std::nullopt;
    return site();
  }

private:
  const OnnxStep& step() const { return flow_.steps[static_cast<std::size_t>(step_)]; }

  /// The term of a form whose value is a product of two values that are not fixed.
  const OnnxForm::Term* product_in(const OnnxForm& form) const {
    const OnnxForm::Term* found = nullptr;
    for (const OnnxForm::Term& term : form.terms) {
      const OnnxStep* made = flow_.maker(term.value);
      if (!made || projections_.of(flow_.resolved(term.value))) continue;
      const bool product =
          made->is("MatMul") || made->is("Einsum") || made->is("FusedMatMul") || made->is("Gemm");
      const bool around = made->is("Tanh") || made->is("Where") || made->is("Clip") ||
                          made->is("Max") || made->is("Min");
      if ((product || around) && !flow_.is_fixed(term.value)) {
        if (found && product == is_product(found->value)) return nullptr;
        if (!found || product) found = &term;
      }
    }
    return found;
  }
  bool is_product(int value) const {
    const OnnxStep* made = flow_.maker(value);
    return made && (made->is("MatMul") || made->is("Einsum") || made->is("FusedMatMul") ||
                    made->is("Gemm"));
  }

  /// Follows one element of the Softmax's input to the product that it is of.
  std::optional<ScorePath> follow(std::int64_t flat, bool unmasked = true) const {
    ScorePath path;
    int value = step().input(0);
    std::int64_t at = flat;
    for (int i = 0; i < most_unwrapped; ++i) {
      const OnnxForm form = flow_.form(value, at, unmasked);
      if (form.terms.empty() && i == 0) { // masked: no score is left
        path.added = form.number;
        return path;
      }
      const OnnxForm::Term* term = product_in(form);
      if (!term) return std::nullopt;
      // Before the cap is behind it in the graph: what is added and multiplied here comes later.
      path.added += form.number == 0 ? 0 : form.number;
      if (form.terms.size() > 1) {
        path.known = false;
        for (const OnnxForm::Term& other : form.terms)
          if (&other != term) path.unknown = name_of(other.value);
      }
      const OnnxStep& made = *flow_.maker(term->value);
      if (is_product(term->value)) {
        path.product = &made, path.at = term->at;
        path.factor *= term->factor * made.number("alpha").value_or(1);
        return path;
      }
      if (made.is("Tanh")) {
        if (path.softcap != 0 || path.factor != 1) return std::nullopt;
        path.softcap = term->factor; // c · tanh(score · scale / c)
        path.factor = term->factor;
        value = made.input(0), at = term->at;
        continue;
      }
      path.factor *= term->factor;
      const std::optional<int> next = through(made);
      if (!next) return std::nullopt;
      if (made.is("Where")) path.known = false, path.unknown = made.name;
      const auto &out = flow_.shape(term->value), &in = flow_.shape(*next);
      if (!out || !in || in->size() != out->size()) return std::nullopt;
      at = onnx_flat(*in, onnx_places(*out, term->at));
      value = *next;
    }
    return std::nullopt;
  }

  /// The input of a Where, Max, Min or Clip that is not fixed and leads on to scores.
  std::optional<int> through(const OnnxStep& made) const {
    for (std::size_t i = made.is("Where") ? 1 : 0; i < made.inputs.size(); ++i) {
      const int input = made.inputs[i];
      if (input < 0 || flow_.is_fixed(input) || !flow_.shape(input)) continue;
      if (product_in(flow_.form(input, 0))) return input;
    }
    return std::nullopt;
  }

  std::string name_of(int value) const {
    const OnnxStep* made = flow_.maker(value);
    return made && !made->name.empty() ? made->name : std::string(flow_.at(value).name);
  }

  /// The product of queries and keys: which of its letters is which.
  bool find_scores() {
    const std::int64_t S = in_[key_axis_];
    OnnxDims last(in_.size());
    for (std::size_t i = 0; i < in_.size(); ++i) last[i] = in_[i] - 1;
    OnnxDims seen = last;
    seen[key_axis_] = 0;
    const auto first = follow(onnx_flat(in_, seen));
    if (!first || !first->product) return false;
    scores_ = onnx_contraction(flow_, *first->product);
    if (!scores_) return false;
    first_ = *first;
    const std::string summed = scores_->summed();
    if (summed.size() != 1) return false;
    width_ = summed[0];
    score_out_ = first->product->outputs[0];
    // The operand that a step along the keys moves in holds the keys.
    const auto still = operands_at(onnx_flat(in_, seen));
    if (!still) return false;
    if (S > 1) {
      const auto moved = operands_at(onnx_flat(in_, last));
      if (!moved) return false;
      a_has_keys_ = moved->first != still->first;
      if (a_has_keys_ == (moved->second != still->second)) return false;
    }
    query_axis_ = key_axis_ > 0 ? key_axis_ - 1 : 1;
    for (std::size_t axis = 0; axis < in_.size(); ++axis) {
      if (axis == key_axis_ || in_[axis] < 2) continue;
      OnnxDims places = seen;
      places[axis] = 0;
      const auto moved = operands_at(onnx_flat(in_, places));
      if (!moved) return false;
      const bool keys = a_has_keys_ ? moved->first != still->first : moved->second != still->second;
      if (!keys) query_axis_ = axis;
    }
    return true;
  }

  /// The places in both operands of a score, of the sum's first term.
  std::optional<std::pair<std::int64_t, std::int64_t>> operands_at(std::int64_t flat) const {
    const auto path = follow(flat);
    if (!path || !path->product || path->product->outputs[0] != score_out_) return std::nullopt;
    const OnnxIndex index = letters_of(path->at, 0);
    return std::pair(onnx_flat(*flow_.shape(scores_->a), scores_->a_axes, index),
                     onnx_flat(*flow_.shape(scores_->b), scores_->b_axes, index));
  }
  OnnxIndex letters_of(std::int64_t score, std::int64_t d) const {
    OnnxIndex index;
    const OnnxDims places = onnx_places(*flow_.shape(score_out_), score);
    for (std::size_t i = 0; i < places.size(); ++i) index[scores_->out_axes[i]] = places[i];
    index[width_] = d;
    return index;
  }

  /// From the Softmax on through what only moves or converts, to the product with the values.
  bool find_values() {
    std::vector<int> wave{step().outputs[0]};
    for (std::size_t i = 0; i < wave.size() && i < most_walked; ++i)
      for (const int consumer : flow_.at(flow_.resolved(wave[i])).consumers) {
        const OnnxStep& next = flow_.steps[static_cast<std::size_t>(consumer)];
        if (next.outputs.empty() || next.outputs[0] < 0) continue;
        if (const auto sum = onnx_contraction(flow_, next); sum && is_weighted_sum(*sum, wave[i])) {
          values_ = *sum, head_out_ = next.outputs[0];
          return true;
        }
        const OnnxForm on = flow_.form(next.outputs[0], 0);
        const bool moves = on.terms.size() == 1 && std::abs(on.terms[0].factor - 1) < 1e-9 &&
                           flow_.resolved(on.terms[0].value) == flow_.resolved(step().outputs[0]);
        if (moves) wave.push_back(next.outputs[0]);
      }
    return false;
  }

  bool is_weighted_sum(const OnnxContraction& sum, int weights) {
    const bool left = flow_.resolved(sum.a) == flow_.resolved(weights);
    const int other = left ? sum.b : sum.a;
    const std::string summed = sum.summed();
    if (flow_.is_fixed(other) || summed.size() != 1) return false;
    weights_left_ = left, key_letter_ = summed[0];
    weights_ = weights;
    // Weights keep their places: what is between has only given them other axes.
    const std::int64_t last = onnx_count(in_) - 1;
    for (const std::int64_t at : {std::int64_t{0}, last / 2, last}) {
      const OnnxForm form = flow_.form(weights, at);
      if (form.terms.size() != 1 || form.terms[0].at != at) return false;
    }
    value_letter_ = 0;
    const std::string& axes = left ? sum.b_axes : sum.a_axes;
    for (const char letter : axes)
      if (letter != key_letter_ && !sum.has(left ? sum.a_axes : sum.b_axes, letter) &&
          sum.has(sum.out_axes, letter) && sum.lengths.at(letter) > 1)
        value_letter_ = value_letter_ == 0 ? letter : '?';
    return value_letter_ != 0 && value_letter_ != '?';
  }

  /// The flat index of a weight: l counts all axes but the queries' and the keys'.
  static std::int64_t flat_of(const OnnxDims& in, std::size_t query_axis, std::size_t key_axis,
                              std::int64_t l, std::int64_t t, std::int64_t s) {
    OnnxDims places(in.size(), 0);
    for (std::size_t i = in.size(); i-- > 0;) {
      if (i == query_axis || i == key_axis) continue;
      places[i] = l % in[i], l /= in[i];
    }
    if (query_axis < in.size()) places[query_axis] = t;
    places[key_axis] = s;
    return onnx_flat(in, places);
  }

  OnnxAttentionSite site() const {
    OnnxAttentionSite site;
    site.step = step_;
    site.S = in_[key_axis_], site.T = in_[query_axis_];
    site.groups = onnx_count(in_) / (site.S * site.T);
    site.d_k = scores_->lengths.at(width_);
    site.d_v = values_.lengths.at(value_letter_);
    site.scale = first_.factor;
    site.softcap = first_.softcap;
    if (!first_.known)
      site.remarks.push_back(
          Message("what " + first_.unknown) +
          message(" adds to the scores is made while the model runs: give <mask=FILE>, "
                  "<bias=FILE> or <causal> where they are masked"));
    site.added_value = added_constant();
    const auto self = std::make_shared<const SoftmaxReader>(*this);
    const auto flat = [self](std::int64_t l, std::int64_t t, std::int64_t s) {
      return flat_of(self->in_, self->query_axis_, self->key_axis_, l, t, s);
    };
    site.added = [self, flat](std::int64_t l, std::int64_t t,
                              std::int64_t s) -> std::optional<double> {
      const auto path = self->follow(flat(l, t, s), false);
      if (!path || !path->known) return std::nullopt;
      return path->added;
    };
    const auto operand = [self, flat](bool keys, std::int64_t l, std::int64_t at, std::int64_t d) {
      const auto path = self->follow(keys ? flat(l, 0, at) : flat(l, at, 0));
      if (!path || !path->product) return OnnxForm{};
      const OnnxIndex index = self->letters_of(path->at, d);
      const OnnxContraction& sum = *self->scores_;
      const bool a = keys == self->a_has_keys_;
      return self->flow_.form(a ? sum.a : sum.b, onnx_flat(*self->flow_.shape(a ? sum.a : sum.b),
                                                           a ? sum.a_axes : sum.b_axes, index));
    };
    site.q = [operand](auto l, auto t, auto d) { return operand(false, l, t, d); };
    site.k = [operand](auto l, auto s, auto d) { return operand(true, l, s, d); };
    site.v = [self, flat](std::int64_t l, std::int64_t s, std::int64_t d) {
      const OnnxContraction& sum = self->values_;
      OnnxIndex index = self->weight_letters(flat(l, 0, s));
      index[self->value_letter_] = d;
      const int from = self->weights_left_ ? sum.b : sum.a;
      return self->flow_.form(from,
                              onnx_flat(*self->flow_.shape(from),
                                        self->weights_left_ ? sum.b_axes : sum.a_axes, index));
    };
    site.head_out = head_out_;
    site.head_out_place = [self, flat](std::int64_t at) { return self->place_of(at); };
    return site;
  }

  OnnxIndex weight_letters(std::int64_t flat) const {
    OnnxIndex index;
    const OnnxDims places = onnx_places(*flow_.shape(weights_), flat);
    const std::string& axes = weights_left_ ? values_.a_axes : values_.b_axes;
    for (std::size_t i = 0; i < places.size(); ++i) index[axes[i]] = places[i];
    return index;
  }

  /// l, t and d of an element of head_out.
  std::array<std::int64_t, 3> place_of(std::int64_t flat) const {
    const OnnxDims places = onnx_places(*flow_.shape(head_out_), flat);
    OnnxIndex index;
    for (std::size_t i = 0; i < places.size(); ++i) index[values_.out_axes[i]] = places[i];
    const std::int64_t d = index[value_letter_];
    index[key_letter_] = 0;
    const std::string& axes = weights_left_ ? values_.a_axes : values_.b_axes;
    const OnnxDims in = onnx_places(in_, onnx_flat(*flow_.shape(weights_), axes, index));
    std::int64_t l = 0;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (i != query_axis_ && i != key_axis_) l = l * in_[i] + in[i];
    return {l, in[query_axis_], d};
  }

  /// A fixed value that an Add right before the Softmax adds.
  int added_constant() const {
    int value = step().input(0);
    for (std::size_t i = 0; i < most_walked; ++i) {
      const OnnxStep* made = flow_.maker(value);
      if (!made) return -1;
      if (made->is("Add") && made->inputs.size() == 2)
        for (const int input : made->inputs)
          if (flow_.is_fixed(input)) return input;
      if (!(made->is("Reshape") || made->is("Cast") || made->is("Identity"))) return -1;
      value = made->input(0);
    }
    return -1;
  }

  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  int step_;
  OnnxDims in_; ///< the Softmax's input
  std::size_t key_axis_ = 0, query_axis_ = 0;
  std::optional<OnnxContraction> scores_;
  ScorePath first_;
  int score_out_ = -1;
  char width_ = 0;
  bool a_has_keys_ = false;
  OnnxContraction values_;
  int weights_ = -1, head_out_ = -1;
  bool weights_left_ = true;
  char key_letter_ = 0, value_letter_ = 0;
};

} // namespace

std::vector<OnnxAttentionSite> spelt_out_attention(const OnnxFlow& flow,
                                                   const OnnxProjections& projections) {
  std::vector<OnnxAttentionSite> sites;
  for (std::size_t i = 0; i < flow.steps.size(); ++i)
    if (flow.steps[i].is("Softmax"))
      if (auto site = SoftmaxReader(flow, projections, static_cast<int>(i)).read())
        sites.push_back(std::move(*site));
  return sites;
}

} // namespace mha::io

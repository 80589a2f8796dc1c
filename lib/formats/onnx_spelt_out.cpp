// Finds attention that a graph spells out in operators: product, scale, mask, Softmax, product.

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/formats/onnx_layers.hpp>
#include <mha/formats/onnx_proof.hpp>
#include <mha/formats/onnx_scores.hpp>
#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mha::io {

namespace {

constexpr std::size_t max_steps_followed = 64; ///< from the Softmax, in either direction
constexpr std::int64_t max_positions = 1 << 16;

/// Reads the attention around one Softmax.
class SoftmaxReader {
public:
  SoftmaxReader(const OnnxFlow& flow, const OnnxProjections& projections, int step)
      : flow_(flow),
        projections_(projections),
        scores_of_(flow, projections, flow.steps[static_cast<std::size_t>(step)].input(0)),
        step_(step) {}

  std::optional<OnnxFinding> read() {
    if (!is_between_products(flow_, projections_, step_)) return std::nullopt;
    flow_.take_passed_steps(); // forgets those of earlier sites
    if (find_axis() && find_scores() && holds_scores() && find_values()) return site();
    for (const int step : scores_of_.untraced_steps()) add_once(blocking_steps_, step);
    if (blocking_steps_.empty()) blocking_steps_ = after_;
    blocking_steps_ = onnx_steps_in_the_way(
        flow_, projections_, blocking_steps_,
        {step().input(0), scores_ ? scores_->a : -1, scores_ ? scores_->b : -1});
    std::string why =
        why_.empty() ? "the steps between its products are not those of attention" : why_;
    if (!blocking_steps_.empty()) why += ": " + onnx_steps_in_words(flow_, blocking_steps_);
    return OnnxRefusal{step_, std::move(why)};
  }

  /// The site with its masks only, and without a proof that it is attention.
  std::optional<OnnxAttentionSite> read_scores() {
    if (!find_axis() || !find_scores()) return std::nullopt;
    OnnxAttentionSite site;
    set_masks(site);
    return site;
  }

private:
  const OnnxStep& step() const { return flow_.steps[static_cast<std::size_t>(step_)]; }

  /// Keeps the first reason why this is not attention, and the steps to name with it.
  bool refuse(std::string why, std::vector<int> steps = {}) const {
    if (!why_.empty()) return false;
    why_ = std::move(why), blocking_steps_ = std::move(steps);
    return false;
  }
  bool find_axis() {
    const OnnxStep& step = this->step();
    const auto& shape = flow_.shape(step.input(0));
    if (!shape || shape->size() < 2 || onnx_count(*shape) <= 0)
      return refuse("the shape of its input is not known to be that of queries and keys",
                    onnx_steps_of_unknown_shape(flow_, projections_, step.input(0)));
    dims_ = *shape;
    if (std::ranges::any_of(dims_, [](std::int64_t length) { return length > max_positions; }))
      return refuse(fmt::format("its input is declared for more than {} positions: export the "
                                "model with a name in place of that length",
                                max_positions),
                    {step_});
    constexpr std::int64_t first_by_axis = 13; // earlier ones flatten all axes from this one on
    const std::int64_t axis =
        onnx_axis(step.integer("axis", flow_.opset >= first_by_axis ? -1 : 1), dims_.size());
    if (axis < 0) return refuse("it normalises along an axis that its input does not have");
    key_axis_ = static_cast<std::size_t>(axis);
    const OnnxDims after(dims_.begin() + axis + 1, dims_.end());
    if (flow_.opset < first_by_axis && onnx_count(after) != 1)
      return refuse("it normalises several axes together");
    return true;
  }

  /// Finds the product of queries and keys, and the roles of its letters.
  bool find_scores() {
    OnnxDims last(dims_.size());
    for (std::size_t i = 0; i < dims_.size(); ++i) last[i] = dims_[i] - 1;
    OnnxDims first_key = last;
    first_key[key_axis_] = 0;
    const auto first = scores_of_.follow(onnx_flat(dims_, first_key));
    if (!first || !first->product) return refuse("its scores could not be traced to a product");
    if (!is_only_a_product(*first->product))
      return refuse("the product that computes its scores has a third input, which is added");
    scores_ = onnx_contraction(flow_, *first->product);
    if (!scores_)
      return refuse("the product that computes its scores is not supported",
                    onnx_steps_before_product(flow_, projections_, *first->product));
    first_ = *first;
    const std::string summed = scores_->summed();
    if (summed.size() != 1) return refuse("its scores are not a sum along one axis");
    summed_letter_ = summed[0];
    score_out_ = first->product->outputs[0];
    // The operand whose element changes with the key position holds the keys.
    const auto start = operands_at(onnx_flat(dims_, first_key));
    if (!start) return false;
    if (dims_[key_axis_] > 1) {
      const auto moved = operands_at(onnx_flat(dims_, last));
      if (!moved) return false;
      a_has_keys_ = moved->first != start->first;
      if (a_has_keys_ == (moved->second != start->second))
        return refuse("it does not normalise along the keys");
    }
    query_axis_ = key_axis_ > 0 ? key_axis_ - 1 : 1;
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      if (axis == key_axis_ || dims_[axis] < 2) continue;
      OnnxDims places = first_key;
      places[axis] = 0;
      const auto moved = operands_at(onnx_flat(dims_, places));
      if (!moved) return false;
      const bool keys = a_has_keys_ ? moved->first != start->first : moved->second != start->second;
      if (!keys) query_axis_ = axis;
    }
    return true;
  }

  /// The flat indices, in both operands, of the first pair of numbers that a score multiplies.
  std::optional<std::pair<std::int64_t, std::int64_t>> operands_at(std::int64_t flat) const {
    const auto& path = scores_of_.followed(flat);
    if (!path || !path->product || path->product->outputs[0] != score_out_) return std::nullopt;
    const OnnxIndex index = letters_of(path->at, 0);
    return std::pair(onnx_flat(*flow_.shape(scores_->a), scores_->a_axes, index),
                     onnx_flat(*flow_.shape(scores_->b), scores_->b_axes, index));
  }
  OnnxIndex letters_of(std::int64_t score, std::int64_t d) const {
    OnnxIndex index;
    const OnnxPlaces places = onnx_places(*flow_.shape(score_out_), score);
    for (std::size_t i = 0; i < places.size(); ++i) index[scores_->out_axes[i]] = places[i];
    index[summed_letter_] = d;
    return index;
  }

  /// Whether every score, without added numbers, is the same multiple of the product of its query
  /// and its key.
  bool holds_scores() const {
    const OnnxDims lengths{groups(), dims_[query_axis_], dims_[key_axis_]};
    const auto holds = [&](const OnnxPlaces& at) { return holds_score(at[0], at[1], at[2]); };
    if (!onnx_holds_at_places(lengths, holds) ||
        (has_tables() && !onnx_holds_at_more_places(lengths, holds)))
      return refuse("not every score is the same multiple of the product of a query and a key");
    return true;
  }
  /// Whether scores pass through tables of numbers. Keeps all passed steps for site().
  bool has_tables() const {
    passed_steps_ = flow_.take_passed_steps();
    return !passed_steps_.tables.empty();
  }
  std::int64_t flat(std::int64_t l, std::int64_t t, std::int64_t s) const {
    return onnx_flat_of_map(dims_, query_axis_, key_axis_, {l, t, s});
  }
  std::int64_t groups() const { return onnx_count(dims_) / dims_[query_axis_] / dims_[key_axis_]; }
  bool holds_score(std::int64_t l, std::int64_t t, std::int64_t s) const {
    const auto at = [&](std::int64_t query, std::int64_t key) { return flat(l, query, key); };
    const auto is_multiple = [&](const OnnxScorePath& path) {
      return path.product == first_.product && path.softcap == first_.softcap &&
             std::abs(path.factor - first_.factor) <= 1e-7 * std::abs(first_.factor);
    };
    const auto& score = scores_of_.followed(at(t, s));
    const auto& with_masks = scores_of_.followed(at(t, s), false);
    if (!score || !with_masks || (with_masks->product && !is_multiple(*with_masks))) return false;
    if (!score->known && first_.known) first_.known = false, first_.unknown = score->unknown;
    if (!score->product) return true; // masked
    const auto both = operands_at(at(t, s)), query = operands_at(at(t, 0)),
               key = operands_at(at(0, s));
    const auto has_same = [&](const auto& other, bool keys) {
      if (!other) return true;
      return keys == a_has_keys_ ? both->first == other->first : both->second == other->second;
    };
    return is_multiple(*score) && both && has_same(query, false) && has_same(key, true);
  }

  /// Finds the product with the values, through steps that only move or convert the weights.
  bool find_values() {
    std::vector<int> moved{step().outputs[0]};
    for (std::size_t i = 0; i < moved.size() && i < max_steps_followed; ++i)
      for (const int consumer : flow_.at(flow_.resolved(moved[i])).consumers) {
        const OnnxStep& next = flow_.steps[static_cast<std::size_t>(consumer)];
        if (next.outputs.empty() || next.outputs[0] < 0) continue;
        if (const auto sum = onnx_contraction(flow_, next)) {
          if (!is_weighted_sum(*sum, next, moved[i])) {
            note_product(next);
            continue;
          }
          values_ = *sum, head_out_ = next.outputs[0];
          return true;
        }
        const OnnxForm form = flow_.form(next.outputs[0], 0);
        const bool is_moved =
            form.terms.size() == 1 && form.number == 0 && form.terms[0].factor == 1 &&
            flow_.resolved(form.terms[0].value) == flow_.resolved(step().outputs[0]);
        if (is_moved) moved.push_back(next.outputs[0]);
        if (!next.is("Shape")) add_once(after_, consumer);
        if (is_onnx_product(flow_, next)) note_product(next);
      }
    return refuse("its weights do not reach a weighted sum unchanged", after_);
  }

  /// Records the steps before a product that is not the weighted sum of values. Those before the
  /// scores are recorded too, because their lengths may be what does not fit.
  void note_product(const OnnxStep& product) {
    for (const int value : {step().input(0), scores_->a, scores_->b})
      for (const int step : onnx_steps_before(flow_, projections_, value)) add_once(after_, step);
    for (const int step : onnx_steps_before_product(flow_, projections_, product))
      add_once(after_, step);
  }

  bool is_weighted_sum(const OnnxContraction& sum, const OnnxStep& product, int weights) {
    const bool left = flow_.resolved(sum.a) == flow_.resolved(weights);
    const int other = left ? sum.b : sum.a;
    const std::string summed = sum.summed();
    if (flow_.is_fixed(other) || summed.size() != 1) return false;
    if (!is_only_a_product(product) || product.number("alpha").value_or(1) != 1)
      return refuse("its weighted sum of values also adds or scales numbers",
                    {static_cast<int>(&product - flow_.steps.data())});
    weights_left_ = left, key_letter_ = summed[0];
    weights_ = weights;
    if (sum.repeats(*flow_.shape(weights), left ? sum.a_axes : sum.b_axes))
      return refuse("the weights of one head apply to the values of several", after_);
    value_letter_ = 0;
    const std::string& axes = left ? sum.b_axes : sum.a_axes;
    for (const char letter : axes)
      if (letter != key_letter_ && !sum.has(left ? sum.a_axes : sum.b_axes, letter) &&
          sum.has(sum.out_axes, letter) && sum.lengths.at(letter) > 1)
        value_letter_ = value_letter_ == 0 ? letter : '?';
    return value_letter_ != 0 && value_letter_ != '?' && holds_weights(sum);
  }

  /// Whether every weight reaches the product unchanged and multiplies the values of its own key.
  bool holds_weights(const OnnxContraction& sum) {
    values_ = sum;
    const int from = weights_left_ ? sum.b : sum.a;
    const auto value_at = [&](const OnnxIndex& index) {
      return onnx_flat(*flow_.shape(from), weights_left_ ? sum.b_axes : sum.a_axes, index);
    };
    const auto holds_weight = [&](const OnnxPlaces& at) {
      const std::int64_t place = flat(at[0], at[1], at[2]);
      const OnnxForm form = flow_.form(weights_, place);
      if (form.terms.size() != 1 || form.terms[0].at != place || form.terms[0].factor != 1 ||
          form.number != 0 ||
          flow_.resolved(form.terms[0].value) != flow_.resolved(step().outputs[0]))
        return false;
      OnnxIndex index = weight_letters(place);
      const std::int64_t first = value_at(weight_letters(flat(at[0], 0, at[2])));
      return index[key_letter_] == at[2] && value_at(index) == first;
    };
    const OnnxDims lengths{groups(), dims_[query_axis_], dims_[key_axis_]};
    flow_.take_passed_steps();
    if (!onnx_holds_at_places(lengths, holds_weight)) return false;
    const OnnxPassedSteps passed = flow_.take_passed_steps();
    for (const int step : passed.roundings) add_once(roundings_, step);
    return (passed.tables.empty() && passed.sums.empty()) ||
           onnx_holds_at_more_places(lengths, holds_weight);
  }

  OnnxAttentionSite site() const {
    OnnxAttentionSite site;
    set_masks(site);
    site.d_k = scores_->lengths.at(summed_letter_);
    site.d_v = values_.lengths.at(value_letter_);
    site.scale = first_.factor;
    site.softcap = first_.softcap;
    site.q_value = a_has_keys_ ? scores_->b : scores_->a;
    site.k_value = a_has_keys_ ? scores_->a : scores_->b;
    site.v_value = weights_left_ ? values_.b : values_.a;
    site.scores_value = step().input(0);
    if (!first_.known)
      site.needs = Message("what " + first_.unknown) +
                   message(" does to the scores depends on an input: give <mask=FILE> or "
                           "<bias=FILE>, or <causal> if it is only a causal mask");
    site.roundings = roundings_;
    for (const int step : passed_steps_.roundings) add_once(site.roundings, step);
    site.added_value = added_constant();
    const auto self = std::make_shared<const SoftmaxReader>(*this);
    const auto operand = [self](bool keys, std::int64_t l, std::int64_t at, std::int64_t d) {
      const auto& path =
          self->scores_of_.followed(keys ? self->flat(l, 0, at) : self->flat(l, at, 0));
      if (!path || !path->product) return OnnxForm{};
      const OnnxIndex index = self->letters_of(path->at, d);
      const OnnxContraction& sum = *self->scores_;
      const bool a = keys == self->a_has_keys_;
      return self->flow_.form(a ? sum.a : sum.b, onnx_flat(*self->flow_.shape(a ? sum.a : sum.b),
                                                           a ? sum.a_axes : sum.b_axes, index));
    };
    site.q = [operand](auto l, auto t, auto d) { return operand(false, l, t, d); };
    site.k = [operand](auto l, auto s, auto d) { return operand(true, l, s, d); };
    site.v = [self](std::int64_t l, std::int64_t s, std::int64_t d) {
      const OnnxContraction& sum = self->values_;
      OnnxIndex index = self->weight_letters(self->flat(l, 0, s));
      index[self->value_letter_] = d;
      const int from = self->weights_left_ ? sum.b : sum.a;
      return self->flow_.form(from,
                              onnx_flat(*self->flow_.shape(from),
                                        self->weights_left_ ? sum.b_axes : sum.a_axes, index));
    };
    site.head_out = head_out_;
    site.head_out_place = [self](std::int64_t at) { return self->place_of(at); };
    return site;
  }

  void set_masks(OnnxAttentionSite& site) const {
    site.step = step_;
    site.S = dims_[key_axis_], site.T = dims_[query_axis_];
    site.groups = groups();
    const auto self = std::make_shared<const SoftmaxReader>(*this);
    site.added = [self](std::int64_t l, std::int64_t t, std::int64_t s) -> std::optional<double> {
      const auto& path = self->scores_of_.followed(self->flat(l, t, s), false);
      if (!path || !path->known) return std::nullopt;
      return path->added;
    };
  }

  OnnxIndex weight_letters(std::int64_t flat) const {
    OnnxIndex index;
    const OnnxPlaces places = onnx_places(*flow_.shape(weights_), flat);
    const std::string& axes = weights_left_ ? values_.a_axes : values_.b_axes;
    for (std::size_t i = 0; i < places.size(); ++i) index[axes[i]] = places[i];
    return index;
  }

  /// The head (l), query (t) and place in the head (d) of an element of head_out.
  std::array<std::int64_t, 3> place_of(std::int64_t flat) const {
    const OnnxPlaces places = onnx_places(*flow_.shape(head_out_), flat);
    OnnxIndex index;
    for (std::size_t i = 0; i < places.size(); ++i) index[values_.out_axes[i]] = places[i];
    const std::int64_t d = index[value_letter_];
    index[key_letter_] = 0;
    const std::string& axes = weights_left_ ? values_.a_axes : values_.b_axes;
    const OnnxPlaces in = onnx_places(dims_, onnx_flat(*flow_.shape(weights_), axes, index));
    std::int64_t l = 0;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (i != query_axis_ && i != key_axis_) l = l * dims_[i] + in[i];
    return {l, in[query_axis_], d};
  }

  /// The fixed value that an Add right before the Softmax adds, or -1.
  int added_constant() const {
    int value = step().input(0);
    for (std::size_t i = 0; i < max_steps_followed; ++i) {
      const OnnxStep* maker = flow_.maker(value);
      if (!maker) return -1;
      if (maker->is("Add") && maker->inputs.size() == 2)
        for (const int input : maker->inputs)
          if (flow_.is_fixed(input)) return input;
      if (!(maker->is("Reshape") || maker->is("Cast") || maker->is("Identity"))) return -1;
      value = maker->input(0);
    }
    return -1;
  }

  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  OnnxScores scores_of_;
  int step_;
  OnnxDims dims_; ///< lengths of the Softmax's input
  std::size_t key_axis_ = 0, query_axis_ = 0;
  std::optional<OnnxContraction> scores_; ///< the product of queries and keys
  mutable OnnxScorePath first_;           ///< of which every other is the same multiple
  mutable OnnxPassedSteps passed_steps_;
  mutable std::string why_;
  mutable std::vector<int> blocking_steps_; ///< that a refusal names
  std::vector<int> after_, roundings_;      ///< steps after the Softmax, and steps that round
  int score_out_ = -1;
  char summed_letter_ = 0; ///< of the width of a head
  bool a_has_keys_ = false;
  OnnxContraction values_; ///< the product of weights and values
  int weights_ = -1, head_out_ = -1;
  bool weights_left_ = true;
  char key_letter_ = 0, value_letter_ = 0;
};

} // namespace

std::optional<OnnxAttentionSite> onnx_site_unproved(const OnnxFlow& flow,
                                                    const OnnxProjections& projections, int step) {
  if (flow.steps[static_cast<std::size_t>(step)].is("Softmax"))
    return SoftmaxReader(flow, projections, step).read_scores();
  const auto found = attention_operator(flow, step);
  const auto* site = found ? std::get_if<OnnxAttentionSite>(&*found) : nullptr;
  return site ? std::optional(*site) : std::nullopt;
}

std::optional<OnnxFinding> spelt_out_attention(const OnnxFlow& flow,
                                               const OnnxProjections& projections, int step) {
  if (!flow.steps[static_cast<std::size_t>(step)].is("Softmax")) return std::nullopt;
  return SoftmaxReader(flow, projections, step).read();
}

} // namespace mha::io

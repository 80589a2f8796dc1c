// A mixture of experts: how experts are scored, chosen and weighed, and what is added to them.

#include <mha/diagnose/hypotheses/clamps.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

const StageSet of_weights{Stage::expert_weights}, of_choice{Stage::experts},
    of_inner{Stage::mlp_pre, Stage::mlp_up}, of_sum{Stage::mlp_out};

/// A change of the routing.
void add_routing(ChangeList& list, const char* id, const StageSet& touches, std::string did,
                 std::string cure, std::function<void(Routing&)> edit) {
  list.add(id, touches, std::move(did), std::move(cure),
           [edit = std::move(edit)](Layer& layer) { edit(own_mixture(layer).routing); });
}

void add_scores(const Routing& own, ChangeList& list) {
  using enum RouterScore;
  constexpr std::pair<RouterScore, const char*> scores[]{
      {softmax, "softmax over all experts"}, {sigmoid, "σ"}, {logits, "the logits"}};
  for (const auto& [score, name] : scores)
    if (score != own.score)
      add_routing(list, "experts.score", StageSet{Stage::router_scores},
                  fmt::format("scores experts by {}", name), "score them as the model does",
                  [score = score](Routing& routing) { routing.score = score; });
}

void add_weights(const Routing& own, ChangeList& list) {
  using enum ExpertWeight;
  constexpr std::pair<ExpertWeight, const char*> weights[]{
      {as_is, "takes the scores for weights, without dividing them by their sum"},
      {renormalised, "divides the weights by their sum"},
      {softmax_chosen, "takes the softmax of the chosen experts' scores for their weights"}};
  for (const auto& [weight, did] : weights)
    if (weight != own.weight)
      add_routing(list, "experts.weights", of_weights, did, "weigh experts as the model does",
                  [weight = weight](Routing& routing) { routing.weight = weight; });
  if (own.weight == softmax_chosen)
    add_routing(list, "experts.weights", StageSet{Stage::router_scores, Stage::expert_weights},
                "takes the softmax over all experts for the weights of the chosen ones",
                "take the softmax of the chosen experts' scores", [](Routing& routing) {
                  routing.score = RouterScore::softmax, routing.weight = as_is;
                });
  add_routing(list, "experts.weigh_input", StageSet{Stage::mlp_pre, Stage::mlp_up, Stage::mlp_out},
              own.weighs_input ? "multiplies the experts' results by their weights"
                               : "multiplies the experts' input by their weights",
              own.weighs_input ? "multiply their input by them" : "multiply their results by them",
              [](Routing& routing) { routing.weighs_input = !routing.weighs_input; });
  if (own.factor != 1)
    add_routing(list, "experts.factor", of_weights,
                fmt::format("leaves out the factor {} of the weights", own.factor),
                "multiply the weights by it", [](Routing& routing) { routing.factor = 1; });
  if (!own.factors.empty())
    add_routing(list, "experts.factor", of_weights, "leaves out each expert's factor of its weight",
                "multiply a chosen expert's weight by its factor",
                [](Routing& routing) { routing.factors = {}; });
}

/// Weights made of the scores that experts are chosen by.
void weigh_with_bias(Layer& layer) {
  Layer biased = layer;
  const Routing& routing = layer.block->mixture->routing;
  const Tensor bias = convert(routing.bias, layer.dtype);
  give(biased, Stage::experts, value_of(layer, Stage::experts));
  Tensor scores = copied(value_of(layer, Stage::router_scores));
  by_precision(scores.dtype(), [&]<class T>(T) {
    const auto to = scores.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += bias.as<T>()[i % bias.count()];
  });
  give(biased, Stage::router_scores, std::move(scores));
  give(layer, Stage::expert_weights, value_of(biased, Stage::expert_weights));
}

void add_choices(const Routing& own, ChangeList& list) {
  if (!own.bias.empty()) {
    add_routing(list, "experts.bias", of_choice, "chooses experts without the router's bias",
                "add the bias to the scores that experts are chosen by",
                [](Routing& routing) { routing.bias = {}; });
    list.add("experts.bias", of_weights, "has the router's bias in the experts' weights",
             "make weights of the scores without the bias", weigh_with_bias);
  }
  if (own.kept_groups >= own.groups) return;
  add_routing(list, "experts.groups", of_choice, "chooses among all experts, not in groups",
              fmt::format("choose among the experts of the best {} of {} groups", own.kept_groups,
                          own.groups),
              [](Routing& routing) { routing.kept_groups = routing.groups; });
  add_routing(
      list, "experts.groups", of_choice,
      fmt::format("sets the scores of other groups to {}", own.masked_are_zero ? "−∞" : "zero"),
      fmt::format("set them to {}", own.masked_are_zero ? "zero" : "−∞"),
      [](Routing& routing) { routing.masked_are_zero = !routing.masked_are_zero; });
  const bool by_two = own.group_score == GroupScore::top_two;
  add_routing(list, "experts.groups", of_choice,
              fmt::format("scores a group by {}", by_two ? "its best expert" : "its two best"),
              fmt::format("score it by {}", by_two ? "its two best" : "its best expert"),
              [](Routing& routing) {
                routing.group_score = routing.group_score == GroupScore::top_two
                                          ? GroupScore::maximum
                                          : GroupScore::top_two;
              });
}

/// Another number of experts a token.
void add_numbers(const Layer& layer, ChangeList& list) {
  const Dims& dims = layer.dims;
  for (const std::size_t n : {dims.n - 1, dims.n + 1})
    if (n >= 1 && n <= dims.E)
      list.add("experts.number", of_choice, fmt::format("chooses {} experts for a token", n),
               fmt::format("choose {}", dims.n), [n](Layer& edited) {
                 own_mixture(edited).routing.chosen = n;
                 edited.dims.n = n, edited.dims.d_ff = n * edited.dims.I;
               });
}

void add_shared(const Mixture& own, ChangeList& list) {
  if (!own.shared.present()) return;
  list.add("experts.shared", of_sum, "leaves out the shared experts",
           "add the shared experts' result", [](Layer& layer) {
             Mixture& mixture = own_mixture(layer);
             mixture.shared = {}, mixture.shared_gate = {};
           });
  // A mistake of the dense feed-forward is one of the shared experts, too.
  add_clamp_changes(
      "mlp.clamp", StageSet{Stage::shared_act}, own.shared.clamp,
      [](Layer& layer) -> Clamp& { return own_mixture(layer).shared.clamp; }, list);
  if (own.shared_gate.present())
    list.add("experts.shared", of_sum, "adds the shared expert without its gate",
             "multiply its result by σ(x W_shared_gate)",
             [](Layer& layer) { own_mixture(layer).shared_gate = {}; });
  if (own.routing.factor == 1) return;
  list.add("experts.shared", StageSet{Stage::shared_out, Stage::mlp_out},
           fmt::format("multiplies the shared experts by the routed ones' factor, {}",
                       own.routing.factor),
           "add them unscaled", [](Layer& layer) {
             const double factor = layer.block->mixture->routing.factor;
             give(layer, Stage::shared_out,
                  each_number(value_of(layer, Stage::shared_out),
                              [factor](double x) { return factor * x; }));
           });
}

/// Gate and other factor of every expert made of both, output by output.
template <class Make> void remake(Mixture& mixture, const Make& make) {
  for (std::size_t e = 0; e < mixture.in.size(); ++e)
    std::tie(mixture.in[e], mixture.up[e]) = make(mixture.in[e], mixture.up[e]);
}

/// Output i of gate and other factor side by side.
LinearMap outputs_of_both(const LinearMap& in, const LinearMap& up,
                          const std::function<std::size_t(std::size_t)>& from) {
  const std::size_t n = in.out();
  LinearMap both;
  both.W = Tensor::uninitialised(in.W.dtype(), {in.in(), n});
  const std::size_t element = size_of(in.W.dtype());
  for (std::size_t row = 0; row < in.in(); ++row)
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = from(i);
      const Tensor& W = at < n ? in.W : up.W;
      std::memcpy(both.W.raw_mutable() + (row * n + i) * element,
                  W.raw() + (row * n + at % n) * element, element);
    }
  if (in.b.empty()) return both;
  both.b = Tensor::uninitialised(in.b.dtype(), {n});
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = from(i), size = size_of(in.b.dtype());
    std::memcpy(both.b.raw_mutable() + i * size, (at < n ? in.b : up.b).raw() + at % n * size,
                size);
  }
  return both;
}

void add_inner(const Mixture& own, ChangeList& list) {
  add_clamp_changes(
      "experts.clamp", StageSet{Stage::mlp_act}, own.form.clamp,
      [](Layer& layer) -> Clamp& { return own_mixture(layer).form.clamp; }, list);
  if (!own.gated()) return;
  list.add("experts.plus_one", StageSet{Stage::mlp_act},
           own.form.up_plus_one ? "multiplies by the other factor, not by it + 1"
                                : "multiplies by the other factor + 1",
           own.form.up_plus_one ? "add 1 to it" : "multiply by it alone", [](Layer& layer) {
             Mixture& mixture = own_mixture(layer);
             mixture.form.up_plus_one = !mixture.form.up_plus_one;
           });
  list.add("experts.swapped", of_inner, "exchanges the experts' gate and other factor",
           "apply the activation to the gate", [](Layer& layer) {
             Mixture& mixture = own_mixture(layer);
             std::swap(mixture.in, mixture.up);
           });
  list.add("experts.interleaved", of_inner,
           "takes the outputs of gate and other factor in turns where they are halves",
           "take the first half for the gate, the second for the other factor", [](Layer& layer) {
             remake(own_mixture(layer), [](const LinearMap& in, const LinearMap& up) {
               return std::pair(outputs_of_both(in, up, [](std::size_t i) { return 2 * i; }),
                                outputs_of_both(in, up, [](std::size_t i) { return 2 * i + 1; }));
             });
           });
  list.add(
      "experts.interleaved", of_inner,
      "takes halves for gate and other factor where their outputs are in turns",
      "take every second output for the gate, the others for the other factor", [](Layer& layer) {
        remake(own_mixture(layer), [](const LinearMap& in, const LinearMap& up) {
          const std::size_t n = in.out();
          const auto in_turns = [n](std::size_t at) { return at / 2 + at % 2 * n; };
          return std::pair(outputs_of_both(in, up, in_turns),
                           outputs_of_both(in, up, [&](std::size_t i) { return in_turns(n + i); }));
        });
      });
}

std::vector<Change> mixture_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (!layer.block || !layer.block->mixture) return {};
  const Mixture& mixture = *layer.block->mixture;
  ChangeList list;
  add_weights(mixture.routing, list);
  add_scores(mixture.routing, list);
  add_choices(mixture.routing, list);
  add_numbers(layer, list);
  add_shared(mixture, list);
  add_inner(mixture, list);
  return list.take();
}

} // namespace

const Theme mixture_theme{"mixture",
                          "experts.weights experts.factor experts.score experts.bias "
                          "experts.groups experts.number experts.shared experts.clamp "
                          "experts.plus_one experts.swapped experts.interleaved "
                          "experts.weigh_input",
                          mixture_changes};

} // namespace mha

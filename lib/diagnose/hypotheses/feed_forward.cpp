// The feed-forward: its activation, its gate, the split of fused weights, its biases.

#include <mha/diagnose/hypotheses/clamps.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/precision.hpp>
#include <mha/diagnose/hypotheses/shards.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace mha {

void add_clamp_changes(const std::string& id, StageSet touches, const Clamp& clamp,
                       const std::function<Clamp&(Layer&)>& of, ChangeList& list) {
  if (!clamp.present()) return;
  list.add(id, touches, "does not limit the gate and the other factor",
           fmt::format("limit them at {}", clamp.limit), [of](Layer& layer) { of(layer) = {}; });
  const auto side = [](bool after) { return after ? "after" : "before"; };
  list.add(id, touches,
           fmt::format("limits the gate {} its activation", side(!clamp.after_activation)),
           fmt::format("limit it {} its activation", side(clamp.after_activation)),
           [of](Layer& layer) { of(layer).after_activation = !of(layer).after_activation; });
}

namespace {

StageSet made_by(LinearMap FeedForward::*map) {
  return map == &FeedForward::in   ? StageSet{Stage::mlp_pre}
         : map == &FeedForward::up ? StageSet{Stage::mlp_up}
                                   : StageSet{Stage::mlp_out};
}

/// Gives mlp_act for the activation base(x) · f(x) of mlp_pre. In a gated feed-forward the result
/// of `base` already includes the other factor, in which mlp_act is linear.
void set_activation(Layer& layer, Activation base, const std::function<double(double)>& f) {
  Layer with_base = layer;
  own_block(with_base).mlp.activation = base;
  const Tensor once = value_of(with_base, Stage::mlp_act), pre = value_of(layer, Stage::mlp_pre);
  Tensor product = copied(once);
  by_precision(once.dtype(), [&]<class T>(T) {
    const auto to = product.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<T>(static_cast<double>(to[i]) * f(static_cast<double>(pre.as<T>()[i])));
  });
  give(layer, Stage::mlp_act, product);
}

void add_activations(const FeedForward& mlp, ChangeList& list) {
  constexpr std::pair<Activation, const char*> forms[]{
      {Activation::gelu, "GELU by erf"},
      {Activation::gelu_tanh, "GELU by tanh"},
      {Activation::silu, "SiLU"},
      {Activation::relu, "ReLU"},
      {Activation::gelu_quick, "quick GELU"},
      {Activation::identity, "no activation"},
      {Activation::gelu_fast, "GELU by tanh, √(2/π) rounded"},
      {Activation::relu2, "ReLU²"},
  };
  std::string own = "the model's activation";
  for (const auto& [form, name] : forms)
    if (form == mlp.activation) own = name;
  for (const auto& [form, name] : forms)
    if (form != mlp.activation)
      list.add("mlp.activation", StageSet{Stage::mlp_act},
               fmt::format("uses {} in the feed-forward", name), fmt::format("use {}", own),
               [form = form](Layer& layer) { own_block(layer).mlp.activation = form; });
}

/// An activation computed in float32 and stored in a short type.
void add_roundings(ChangeList& list) {
  for (const auto& [to, name] : {std::pair{DType::bf16, "bfloat16"}, {DType::f16, "float16"}})
    list.add("mlp.rounded", StageSet{Stage::mlp_out},
             fmt::format("rounds the activation of the feed-forward to {}", name),
             "keep it in float32 before the second product", [to = to](Layer& layer) {
               Layer rounded = layer;
               give(rounded, Stage::mlp_act, rounded_to(value_of(layer, Stage::mlp_act), to));
               give(layer, Stage::mlp_out, value_of(rounded, Stage::mlp_out));
             });
}

/// A fused weight [gate | up]: outputs 0 … n − 1 are the gate's, n … 2n − 1 those of up.
struct Fused {
  const LinearMap &gate, &up;

  /// A map whose output o is the fused output from(o).
  template <class F> LinearMap taken(const F& from) const {
    const std::size_t n = gate.out(), in = gate.in();
    const DType dtype = gate.W.dtype();
    LinearMap map = gate;
    map.W = Tensor::uninitialised(dtype, gate.W.shape());
    const std::size_t element = size_of(dtype);
    for (std::size_t o = 0; o < n; ++o) {
      const std::size_t at = from(o), row = at % n;
      const LinearMap& part = at < n ? gate : up;
      for (std::size_t i = 0; i < in; ++i)
        std::memcpy(map.W.raw_mutable() + (i * n + o) * element,
                    part.W.raw() + (i * n + row) * element, element);
    }
    if (!gate.b.empty() && !up.b.empty()) {
      map.b = copied(gate.b);
      for (std::size_t o = 0; o < n; ++o) {
        const std::size_t at = from(o);
        std::memcpy(map.b.raw_mutable() + o * size_of(map.b.dtype()),
                    (at < n ? gate : up).b.raw() + at % n * size_of(map.b.dtype()),
                    size_of(map.b.dtype()));
      }
    }
    return map;
  }
};

/// Wrong orders of a fused weight split over ranks: each rank holds `part` outputs of the gate and
/// `part` of the other factor.
void add_fused_shards(std::size_t ranks, std::size_t part, ChangeList& list) {
  const std::size_t n = ranks * part;
  const auto add = [&](std::string did, const char* cure, auto at) {
    list.add("mlp.sharded", StageSet{Stage::mlp_pre, Stage::mlp_up}, std::move(did), cure,
             [at, n](Layer& layer) {
               const FeedForward from = layer.block->mlp;
               FeedForward& edited = own_block(layer).mlp;
               const Fused fused{from.in, from.up};
               edited.in = fused.taken(at);
               edited.up = fused.taken([=](std::size_t o) { return at(n + o); });
             });
  };
  // Each rank holds its part of the gate, then its part of the other factor.
  add(fmt::format("joins the fused weight of {} shards as if it were whole", ranks),
      "join the gates of all shards, then their other factors", [=](std::size_t o) {
        const std::size_t rank = o / (2 * part), within = o % (2 * part);
        return within < part ? rank * part + within : n + rank * part + within - part;
      });
  if (ranks > 2) // for two ranks both orders are the same
    add(fmt::format("cuts the fused weight into {} equal parts, each of which its rank reads as a "
                    "gate and another factor",
                    ranks),
        "cut the gate and the other factor each by itself", [=](std::size_t o) {
          const std::size_t half = o / n, rank = o % n / part;
          return (2 * rank + half) * part + o % part;
        });
}

void add_gates(const FeedForward& mlp, ChangeList& list) {
  if (!mlp.gated()) return;
  add_clamp_changes("mlp.clamp", StageSet{Stage::mlp_act}, mlp.clamp,
                    [](Layer& layer) -> Clamp& { return own_block(layer).mlp.clamp; }, list);
  const StageSet both = StageSet{Stage::mlp_pre, Stage::mlp_up};
  list.add("mlp.swapped", both, "uses the gate's weight for the other factor and the reverse",
           "exchange the two: the activation is the gate's", [](Layer& layer) {
             FeedForward& edited = own_block(layer).mlp;
             std::swap(edited.in, edited.up);
           });
  list.add("mlp.activated_other", StageSet{Stage::mlp_act},
           "applies the activation to the other factor, not to the gate",
           "apply the activation to the gate", [](Layer& layer) {
             Layer other = layer;
             FeedForward& edited = own_block(other).mlp;
             std::swap(edited.in, edited.up);
             std::swap(other.given[index_of(Stage::mlp_pre)], other.given[index_of(Stage::mlp_up)]);
             for (const auto& [from, to] :
                  {std::pair(Stage::mlp_up, Stage::mlp_pre), {Stage::mlp_pre, Stage::mlp_up}})
               layer.has_given(from) ? other.given_set.add(to) : other.given_set.remove(to);
             give(layer, Stage::mlp_act, value_of(other, Stage::mlp_act));
           });
  if (mlp.in.W.shape() != mlp.up.W.shape() || mlp.in.W.dtype() != mlp.up.W.dtype()) return;
  list.add("mlp.interleaved", both,
           "uses every other output of the fused weight for the gate, in place of the first half",
           "split the fused weight into halves", [](Layer& layer) {
             const FeedForward from = layer.block->mlp;
             FeedForward& edited = own_block(layer).mlp;
             const Fused fused{from.in, from.up};
             edited.in = fused.taken([](std::size_t o) { return 2 * o; });
             edited.up = fused.taken([](std::size_t o) { return 2 * o + 1; });
           });
  for (const std::size_t ranks : rank_counts)
    if (mlp.in.out() % ranks == 0) add_fused_shards(ranks, mlp.in.out() / ranks, list);
}

void add_mlp_biases(const FeedForward& mlp, ChangeList& list) {
  constexpr std::pair<LinearMap FeedForward::*, const char*> maps[]{
      {&FeedForward::in, "the first product"},
      {&FeedForward::up, "the other factor"},
      {&FeedForward::out, "the second product"}};
  const auto with_bias =
      std::ranges::count_if(maps, [&](const auto& map) { return !(mlp.*map.first).b.empty(); });
  if (with_bias > 1)
    list.add("mlp.bias.missing", StageSet{Stage::mlp_pre, Stage::mlp_up, Stage::mlp_out},
             "leaves out all biases of the feed-forward", "add the biases of its products",
             [](Layer& layer) {
               FeedForward& edited = own_block(layer).mlp;
               edited.in.b = edited.up.b = edited.out.b = {};
             });
  for (const auto& [map, name] : maps) {
    if ((mlp.*map).b.empty()) continue;
    list.add("mlp.bias.missing", made_by(map),
             fmt::format("leaves out the bias of {} of the feed-forward", name),
             fmt::format("add the bias of {}", name),
             [map = map](Layer& layer) { (own_block(layer).mlp.*map).b = {}; });
    for (int times : {2, 4, 8})
      list.add("mlp.bias.times", made_by(map),
               fmt::format("adds the bias of {} of the feed-forward {} times, as shards that each "
                           "add it do",
                           name, times),
               "add it once, after the sum over shards", [map = map, times](Layer& layer) {
                 Tensor& bias = (own_block(layer).mlp.*map).b;
                 bias = each_number(convert(bias, layer.dtype),
                                    [times](double b) { return times * b; });
               });
  }
}

/// Attention's and the feed-forward's last products often share a class. If each rank adds the bias
/// before the sum over ranks, both biases count several times.
void add_repeated_biases(const Layer& own, ChangeList& list) {
  if (own.b_o.empty() || own.block->mlp.out.b.empty()) return;
  for (int times : {2, 4, 8})
    list.add("mlp.bias.times", StageSet{Stage::output, Stage::head_result, Stage::mlp_out},
             fmt::format("adds b_o and the bias of the feed-forward's second product {} times, as "
                         "ranks that each add them do",
                         times),
             "add them once, after the sum over ranks", [times](Layer& layer) {
               const auto more = [&](const Tensor& bias) {
                 return each_number(convert(bias, layer.dtype),
                                    [times](double b) { return times * b; });
               };
               Tensor& out = own_block(layer).mlp.out.b;
               layer.b_o = more(layer.b_o), out = more(out);
             });
}

void add_mlp_weights(const FeedForward& mlp, ChangeList& list) {
  constexpr std::pair<LinearMap FeedForward::*, const char*> maps[]{
      {&FeedForward::in, "the first weight"},
      {&FeedForward::up, "the other factor's weight"},
      {&FeedForward::out, "the second weight"}};
  for (const auto& [map, name] : maps)
    if ((mlp.*map).present())
      list.add("mlp.transposed", made_by(map),
               fmt::format("reads the memory of {} of the feed-forward as its transpose", name),
               "read it in its stored order", [map = map](Layer& layer) {
                 Tensor& W = (own_block(layer).mlp.*map).W;
                 const Shape shape = W.shape();
                 const StoredMatrix* stored = W.stored();
                 const bool turned = stored && stored->transposed && stored->first == 0 &&
                                     stored->matrix.count() == W.count();
                 W = turned ? copied(stored->matrix).reshaped(shape)
                            : transposed_when_read(copied(W).reshaped({shape[1], shape[0]}));
               });
  list.add("mlp.missing", StageSet{Stage::mlp_out}, "leaves out the feed-forward",
           "add the feed-forward's result", [](Layer& layer) {
             LinearMap& out = own_block(layer).mlp.out;
             out.W = Tensor(out.W.dtype(), out.W.shape()), out.b = {};
           });
}

} // namespace

std::optional<Change> swish_change(const Layer& layer, double beta) {
  if (!layer.block || !layer.block->mlp.present()) return std::nullopt;
  const FeedForward& mlp = layer.block->mlp;
  if (mlp.inner.present() || !mlp.product_bias.empty()) return std::nullopt;
  return Change{"mlp.activation", StageSet{Stage::mlp_act},
                fmt::format("uses x · sigmoid({:.4g} x) in the feed-forward (Swish)", beta),
                "use the model's activation", [beta](Layer& edited) {
                  set_activation(edited, Activation::identity,
                                 [beta](double x) { return 1 / (1 + std::exp(-beta * x)); });
                }};
}

namespace {

std::vector<Change> feed_forward_changes(const Subject& subject) {
  if (!subject.layer.block || !subject.layer.block->mlp.present()) return {};
  const FeedForward& mlp = subject.layer.block->mlp;
  ChangeList list;
  add_activations(mlp, list);
  add_roundings(list);
  add_gates(mlp, list);
  add_mlp_biases(mlp, list);
  add_repeated_biases(subject.layer, list);
  add_mlp_weights(mlp, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme feed_forward_theme{"feed_forward",
                               "mlp.activation mlp.rounded mlp.swapped mlp.activated_other "
                               "mlp.interleaved mlp.sharded "
                               "mlp.bias.missing mlp.bias.times mlp.transposed mlp.missing "
                               "mlp.clamp",
                               feed_forward_changes};

} // namespace mha

// Other activations of the feed-forward, and other forms of its gated product.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <cmath>
#include <functional>

namespace mha {

namespace {

/// mlp_act computed from these values before the activation, with or without the other factor.
Tensor activated(const Layer& layer, Tensor pre, bool gated) {
  Layer other = layer;
  if (!gated) {
    own_block(other).mlp.up = {};
    other.given_set.remove(Stage::mlp_up);
  }
  give(other, Stage::mlp_pre, std::move(pre));
  return value_of(other, Stage::mlp_act);
}

/// The activation of one factor alone.
Tensor activated_gate(const Layer& layer, Stage factor) {
  return activated(layer, value_of(layer, factor), false);
}

Tensor product_of(const Tensor& a, const Tensor& b) {
  Tensor result = copied(a);
  by_precision(a.dtype(), [&]<class T>(T) {
    const auto to = result.as_mutable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] *= b.as<T>()[i];
  });
  return result;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

Tensor plus_one(const Tensor& tensor) {
  return each_number(tensor, [](double u) { return u + 1; });
}

/// Activations that no supported model has.
void add_other_activations(ChangeList& list) {
  const auto add = [&](const char* name, double (*of)(double)) {
    list.add("mlp.activation", StageSet{Stage::mlp_act},
             fmt::format("uses {} in the feed-forward", name), "use the model's activation",
             [of](Layer& layer) {
               Layer linear = layer;
               own_block(linear).mlp.activation = Activation::identity;
               give(layer, Stage::mlp_act,
                    activated(linear, each_number(value_of(layer, Stage::mlp_pre), of), true));
             });
  };
  add("the sigmoid", sigmoid);
  add("Mish", [](double x) {
    return x * std::tanh(std::log1p(std::exp(-std::fabs(x))) + std::fmax(x, 0));
  });
  add("leaky ReLU (0.01)", [](double x) { return x > 0 ? x : 0.01 * x; });
  add("tanh", [](double x) { return std::tanh(x); });
  list.add("mlp.activation", StageSet{Stage::mlp_act}, "applies the activation twice",
           "apply it once", [](Layer& layer) {
             give(layer, Stage::mlp_act,
                  activated(layer, activated_gate(layer, Stage::mlp_pre), true));
           });
}

/// Products of the gate g and the other factor u other than act(g) · u.
void add_products(ChangeList& list) {
  const auto add = [&](const char* id, const char* did, Tensor (*of)(const Layer&)) {
    list.add(id, StageSet{Stage::mlp_act}, did,
             "multiply the gate's activation by the other factor",
             [of](Layer& layer) { give(layer, Stage::mlp_act, of(layer)); });
  };
  add("mlp.gate.missing", "leaves out the gated product's other factor",
      [](const Layer& layer) { return activated_gate(layer, Stage::mlp_pre); });
  add("mlp.gate.missing", "leaves out the gate: the other factor is not multiplied",
      [](const Layer& layer) { return value_of(layer, Stage::mlp_up); });
  add("mlp.gate.missing", "leaves out the gate, and applies the activation to the other factor",
      [](const Layer& layer) { return activated_gate(layer, Stage::mlp_up); });
  add("mlp.gate.added", "adds the other factor to the gate's activation, where it multiplies",
      [](const Layer& layer) {
        return sum_of(activated_gate(layer, Stage::mlp_pre), value_of(layer, Stage::mlp_up));
      });
  add("mlp.gate.plus_one", "multiplies by the other factor plus 1", [](const Layer& layer) {
    const Tensor gate = activated_gate(layer, Stage::mlp_pre);
    return product_of(gate, plus_one(value_of(layer, Stage::mlp_up)));
  });
  add("mlp.gate.plus_one", "uses GPT-OSS's product, g σ(1.702 g) · (u + 1)",
      [](const Layer& layer) {
        constexpr double beta = 1.702;
        const Tensor gate = each_number(value_of(layer, Stage::mlp_pre),
                                        [](double g) { return g * sigmoid(beta * g); });
        return product_of(gate, plus_one(value_of(layer, Stage::mlp_up)));
      });
  add("mlp.gate.same", "multiplies the gate's activation by the gate, in the other factor's place",
      [](const Layer& layer) {
        return product_of(activated_gate(layer, Stage::mlp_pre), value_of(layer, Stage::mlp_pre));
      });
  add("mlp.gate.same", "multiplies the gate's activation by itself, in the other factor's place",
      [](const Layer& layer) {
        const Tensor gate = activated_gate(layer, Stage::mlp_pre);
        return product_of(gate, gate);
      });
  add("mlp.gate.same", "uses the other factor for the gate as well", [](const Layer& layer) {
    return product_of(activated_gate(layer, Stage::mlp_up), value_of(layer, Stage::mlp_up));
  });
  add("mlp.activated_other", "also applies the activation to the other factor",
      [](const Layer& layer) {
        return product_of(activated_gate(layer, Stage::mlp_pre),
                          activated_gate(layer, Stage::mlp_up));
      });
  add("mlp.activated_other", "applies the activation to the product of gate and other factor",
      [](const Layer& layer) {
        return activated(
            layer, product_of(value_of(layer, Stage::mlp_pre), value_of(layer, Stage::mlp_up)),
            false);
      });
}

std::vector<Change> product_changes(const Subject& subject) {
  if (!subject.layer.block || !subject.layer.block->mlp.present()) return {};
  const FeedForward& mlp = subject.layer.block->mlp;
  ChangeList list;
  add_other_activations(list);
  if (mlp.gated()) add_products(list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme feed_forward_product_theme{
    "feed_forward_product", "mlp.gate.missing mlp.gate.added mlp.gate.plus_one mlp.gate.same",
    product_changes};

} // namespace mha

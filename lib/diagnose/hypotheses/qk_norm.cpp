// QK normalisation in another form: LayerNorm, ε inside the sum, another ε, one side only, or none
// in this layer.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/epsilon.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <cmath>
#include <functional>

namespace mha {

namespace {

struct HeadNormForm {
  bool centres = false;     ///< LayerNorm
  bool sums = false;        ///< x / √(Σ x² + ε): ε within the sum, length 1
  bool times_root = false;  ///< … times √d
  bool eps_outside = false; ///< x / (rms + ε)
  bool weighted = true;
};

Tensor normalised_heads(const Layer& layer, const Tensor& x, const Tensor& weight,
                        const HeadNormForm& form) {
  if (weight.empty()) fail("another change took the norm away");
  const std::size_t d = weight.count(), count = x.count() / d;
  const double eps = layer.settings.qk_norm_eps, more = layer.settings.qk_norm_one_plus ? 1 : 0;
  Tensor result = Tensor::uninitialised(x.dtype(), x.shape());
  by_precision(x.dtype(), [&]<class T>(T) {
    const T* from = x.as<T>().data();
    const T* w = weight.as<T>().data();
    T* to = result.as_mutable<T>().data();
    for (std::size_t n = 0; n < count; ++n, from += d, to += d) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < d; ++i) mean += static_cast<double>(from[i]);
      mean = form.centres ? mean / static_cast<double>(d) : 0;
      for (std::size_t i = 0; i < d; ++i)
        square += std::pow(static_cast<double>(from[i]) - mean, 2);
      const double over = form.sums ? 1 : static_cast<double>(d);
      double size =
          form.eps_outside ? std::sqrt(square / over) + eps : std::sqrt(square / over + eps);
      if (form.times_root) size /= std::sqrt(static_cast<double>(d));
      for (std::size_t i = 0; i < d; ++i)
        to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) / size *
                               (form.weighted ? static_cast<double>(w[i]) + more : 1));
    }
  });
  return result;
}

struct Side {
  const char* name;
  Stage from, to;
  Tensor Layer::*weight;
};
constexpr Side sides[]{{"q", Stage::q, Stage::q_norm, &Layer::q_norm_weight},
                       {"k", Stage::k, Stage::k_norm, &Layer::k_norm_weight}};

Tensor ones(const Layer& layer) {
  return each_number(Tensor(layer.dtype, {layer.dims.d_k}), [](double) { return 1.0; });
}

/// Where this layer does not normalise q and k.
std::vector<Change> added(const Layer& layer) {
  ChangeList list;
  if (layer.dims.d_k > 1)
    list.add("norm.added", qk_norm_stages(),
             "normalises each head of q and k (RMS, without weights)",
             "leave q and k as they are: this layer does not normalise them",
             [](Layer& edited) {
               edited.q_norm_weight = edited.k_norm_weight = ones(edited);
               edited.settings.qk_norm_one_plus = false;
             })
        .rare = true;
  return list.take();
}

/// One side's norm in another form, or with the other side's weight; values that are normed, too.
void add_one_side(const Layer& layer, ChangeList& list) {
  if (layer.q_norm_weight.empty() || layer.k_norm_weight.empty()) return;
  const bool same_width = layer.q_norm_weight.count() == layer.k_norm_weight.count();
  const bool one_plus = layer.settings.qk_norm_one_plus;
  for (const Side& side : sides) {
    const Side& other = sides[side.to == Stage::q_norm ? 1 : 0];
    const auto add = [&](const char* id, std::string did, std::string cure,
                         std::function<Tensor(const Layer&)> of) {
      list.add(id, StageSet{side.to}, std::move(did), std::move(cure),
               [to = side.to, of = std::move(of)](Layer& edited) { give(edited, to, of(edited)); });
    };
    const auto form_of = [side](HeadNormForm form, double more = 0) {
      return [=](const Layer& own) {
        Tensor weight = own.*side.weight;
        if (more != 0) weight = each_number(weight, [more](double w) { return w + more; });
        return normalised_heads(own, value_of(own, side.from), weight, form);
      };
    };
    HeadNormForm form;
    add("norm.one_plus",
        fmt::format("multiplies the normalised {} by {}", side.name, one_plus ? "w" : "1 + w"),
        fmt::format("multiply the normalised {} by {}", side.name, one_plus ? "1 + w" : "w"),
        form_of(form, one_plus ? -1 : 1));
    form.centres = true;
    add("norm.layer", fmt::format("subtracts the mean from {}, too (LayerNorm)", side.name),
        fmt::format("normalise {} by its root mean square", side.name), form_of(form));
    form = {};
    form.weighted = false;
    add("norm.weight", fmt::format("leaves out the weight of the norm of {}", side.name),
        fmt::format("multiply the normalised {0} by {0}_norm.weight", side.name), form_of(form));
    if (same_width)
      add("norm.exchanged", fmt::format("takes {}'s weight for {}", other.name, side.name),
          fmt::format("normalise {0} with {0}_norm.weight", side.name),
          [side, other](const Layer& own) {
            return normalised_heads(own, value_of(own, side.from), own.*other.weight, {});
          });
  }
  if (layer.dims.d_k != layer.dims.d_v) return;
  for (const bool weighted : {true, false})
    list.add("norm.added.v", StageSet{Stage::v},
             fmt::format("normalises v, too{}", weighted ? ", with the weight of k's norm" : ""),
             "leave v as it is",
             [weighted](Layer& edited) {
               HeadNormForm form;
               form.weighted = weighted;
               give(edited, Stage::v,
                    normalised_heads(edited, value_of(edited, Stage::v), edited.k_norm_weight,
                                     form));
             })
        .once = true;
}

std::vector<Change> qk_norm_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (layer.q_norm_weight.empty() && layer.k_norm_weight.empty()) return added(layer);
  ChangeList list;
  const auto add = [&](const char* id, std::string did, std::string cure, HeadNormForm form) {
    list.add(id, qk_norm_stages(), std::move(did), std::move(cure), [form](Layer& edited) {
      for (const Side& side : sides)
        if (!(edited.*side.weight).empty() && !edited.has_given(side.to))
          give(edited, side.to,
               normalised_heads(edited, value_of(edited, side.from), edited.*side.weight, form));
    });
  };
  const std::string rms = "normalise q and k by their root mean square: x / √(mean(x²) + ε) · w";
  for (double eps : {1e-5, 1e-6, 1e-7, 1e-12, 1e-8, 1e-4, 1e-3, 1e-2, 0.0})
    if (eps != layer.settings.qk_norm_eps) list.add(qk_norm_eps_change(layer, eps));
  HeadNormForm form;
  form.centres = true;
  add("norm.layer", "subtracts the mean from q and k, too (LayerNorm)", rms, form);
  form = {};
  form.sums = true;
  add("norm.sum", "divides q and k by their length √(Σx² + ε), not by their root mean square", rms,
      form);
  form.times_root = true;
  add("norm.sum", "adds ε to the sum of squares, not to their mean", rms, form);
  form = {};
  form.eps_outside = true;
  add("norm.sum", "adds ε to the root, not under it", rms, form);
  form = {};
  form.weighted = false;
  add("norm.weight", "leaves out the weights of the norms of q and k", rms, form);
  for (const Side& side : sides)
    if (!(layer.*side.weight).empty())
      list.add(fmt::format("norm.missing.{}", side.name), StageSet{side.to},
               fmt::format("does not normalise {}", side.name),
               fmt::format("normalise {}, too", side.name),
               [weight = side.weight](Layer& edited) { edited.*weight = {}; });
  add_one_side(layer, list);
  if (layer.q_norm_weight.count() == layer.k_norm_weight.count())
    list.add("norm.exchanged", qk_norm_stages(), "exchanges the weights of the norms of q and k",
             "normalise q with q_norm.weight and k with k_norm.weight",
             [](Layer& edited) { // another change may have made them of another size
               if (edited.q_norm_weight.count() == edited.k_norm_weight.count())
                 std::swap(edited.q_norm_weight, edited.k_norm_weight);
             });
  list.all_rare();
  return list.take();
}

} // namespace

Change qk_norm_eps_change(const Layer& layer, double eps) {
  return settings_change("norm.eps", qk_norm_stages(),
                         fmt::format("normalises q and k with ε = {:.4g}", eps),
                         fmt::format("normalise q and k with ε = {:g}", layer.settings.qk_norm_eps),
                         {{"qk_norm_eps", eps, 9}});
}

const Theme qk_norm_theme{
    "qk_norm",
    "norm.added norm.added.v norm.layer norm.sum norm.weight norm.eps norm.missing.q "
    "norm.missing.k norm.exchanged",
    qk_norm_changes};

} // namespace mha

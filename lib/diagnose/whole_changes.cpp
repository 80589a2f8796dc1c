// The changes of a whole model.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/passes_of_model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace mha {

namespace {

Change change_of_order(std::string id, std::string did, std::string cure) {
  return {std::move(id), StageSet{Stage::resid_post}, std::move(did), std::move(cure)};
}

/// One layer left out, run twice, exchanged with the next, or with its neighbour's weights; all
/// layers in another order.
void add_orders(std::size_t L, std::vector<WholeChange>& list) {
  const auto add = [&](std::vector<std::size_t> order, const char* id, std::string did,
                       std::string cure) {
    list.push_back({change_of_order(id, std::move(did), std::move(cure)),
                    WholeChange::Kind::of_order, std::move(order)});
  };
  const std::string own = "load each layer's own weights";
  for (const bool earlier : {true, false}) {
    std::vector<std::size_t> moved = up_to(L);
    if (L > 1 && earlier)
      std::rotate(moved.begin(), moved.end() - 1, moved.end()), moved[0] = 0;
    else if (L > 1)
      std::rotate(moved.begin(), moved.begin() + 1, moved.end()), moved[L - 1] = L - 1;
    add(std::move(moved), "block.weights.other",
        fmt::format("runs in each layer the weights of the {} one", earlier ? "previous" : "next"),
        own);
  }
  std::vector<std::size_t> reversed = up_to(L);
  std::ranges::reverse(reversed);
  if (L > 2)
    add(std::move(reversed), "block.weights.other", "runs the layers in the reverse order", own);
  for (std::size_t n = 0; L > 2 && n < L; n += L - 1)
    add(std::vector<std::size_t>(L, n), "block.weights.other",
        fmt::format("runs layer {}'s weights in every layer", n), own);
  for (std::size_t n = 0; n < L; ++n) {
    std::vector<std::size_t> without = up_to(L), twice = without, exchanged = without;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(n));
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(n), n);
    add(std::move(without), "block.skipped", fmt::format("leaves out layer {}", n),
        fmt::format("run layer {}", n));
    add(std::move(twice), "block.twice", fmt::format("runs layer {} twice", n),
        fmt::format("run layer {} once", n));
    for (std::size_t other : {n - 1, n + 1}) {
      if (other >= L) continue; // also if n is 0, where n − 1 wraps around
      std::vector<std::size_t> replaced = up_to(L);
      replaced[n] = other;
      add(std::move(replaced), "block.weights.other",
          fmt::format("runs layer {}'s weights in layer {}", other, n), own);
    }
    if (n + 1 == L) continue;
    std::swap(exchanged[n], exchanged[n + 1]);
    add(std::move(exchanged), "block.weights.other",
        fmt::format("exchanges layers {} and {}", n, n + 1), own);
  }
}

/// Changes of all norms of the layers, made in the last norm as well.
void add_with_end(const std::vector<Change>& of_ends, std::vector<WholeChange>& list) {
  const std::string last = "the last norm";
  for (std::size_t i = 0, count = list.size(); i < count; ++i) {
    std::string did = list[i].change.did;
    for (const std::string every : {every_norm_and_heads, every_norm})
      if (const std::size_t at = did.find(every); at != std::string::npos)
        did.replace(at, every.size(), last);
    if (did == list[i].change.did) continue;
    const auto same = std::ranges::find(of_ends, did, &Change::did);
    if (same == of_ends.end()) continue;
    WholeChange both = list[i];
    both.at_end = *same;
    list.push_back(std::move(both));
  }
}

/// A subset of the layers that configurations use.
struct LayerPattern {
  const char* name;
  bool (*has)(std::size_t n, std::size_t layers);
};
constexpr LayerPattern patterns[]{
    {"every second layer, from layer 0 on", [](std::size_t n, std::size_t) { return n % 2 == 0; }},
    {"every second layer, from layer 1 on", [](std::size_t n, std::size_t) { return n % 2 == 1; }},
    {"every fourth layer, from layer 3 on", [](std::size_t n, std::size_t) { return n % 4 == 3; }},
    {"all layers but every fourth, from layer 3 on",
     [](std::size_t n, std::size_t) { return n % 4 != 3; }},
    {"every sixth layer, from layer 5 on", [](std::size_t n, std::size_t) { return n % 6 == 5; }},
    {"the lower half of the layers", [](std::size_t n, std::size_t L) { return n < L / 2; }},
    {"the upper half of the layers", [](std::size_t n, std::size_t L) { return n >= L / 2; }},
    {"the first layer", [](std::size_t n, std::size_t) { return n == 0; }},
    {"the last layer", [](std::size_t n, std::size_t L) { return n + 1 == L; }},
};

/// Steps left out in a subset of the layers.
void add_patterns(std::size_t L, std::vector<WholeChange>& list) {
  if (L < 2) return;
  for (std::size_t i = 0, count = list.size(); i < count; ++i) {
    const std::string& id = list[i].change.id;
    const bool by_layer = id == "rope.missing" || id == "softcap.missing" || id == "norm.missing";
    if (!by_layer || list[i].at_end) continue;
    for (const LayerPattern& pattern : patterns) {
      WholeChange some = list[i];
      for (std::size_t n = 0; n < L; ++n) some.in.push_back(pattern.has(n, L));
      const auto having = std::ranges::count(some.in, true);
      if (having == 0 || having == static_cast<std::ptrdiff_t>(L)) continue;
      some.which = fmt::format(", in {}", pattern.name);
      list.push_back(std::move(some));
    }
  }
}

/// Windows and rotations of other layers, if a model has several.
void add_settings(const PassesOfModel& model, std::vector<WholeChange>& list) {
  using Kind = WholeChange::Kind;
  const std::size_t L = model.layers();
  for (const Kind kind : {Kind::windows, Kind::rotations}) {
    std::vector<std::size_t> kinds{0}; // the first layer of each kind
    for (std::size_t n = 1; n < L; ++n)
      if (std::ranges::none_of(kinds,
                               [&](std::size_t k) { return model.same_settings(k, n, kind); }))
        kinds.push_back(n);
    if (kinds.size() < 2) continue;
    const bool windows = kind == Kind::windows;
    const char* const what = windows ? "window" : "rotation";
    std::vector<std::vector<std::size_t>> tried;
    const auto add = [&](std::string did, const std::function<std::size_t(std::size_t)>& from) {
      std::vector<std::size_t> order;
      for (std::size_t n = 0; n < L; ++n) order.push_back(from(n));
      const auto as = [&](const std::vector<std::size_t>& other) {
        for (std::size_t n = 0; n < L; ++n)
          if (!model.same_settings(order[n], other[n], kind)) return false;
        return true;
      };
      if (as(up_to(L)) || std::ranges::any_of(tried, as)) return;
      tried.push_back(order);
      WholeChange change{change_of_order(windows ? "window.layers" : "rope.layers", std::move(did),
                                         fmt::format("give each layer its own {}", what))};
      change.kind = kind, change.order = std::move(order);
      list.push_back(std::move(change));
    };
    if (kinds.size() == 2)
      add(fmt::format("gives the layers of one kind the {} of the other, and the reverse", what),
          [&](std::size_t n) {
            return model.same_settings(n, kinds[0], kind) ? kinds[1] : kinds[0];
          });
    for (const std::size_t k : kinds)
      add(fmt::format("gives every layer the {} of layer {}", what, k),
          [k](std::size_t) { return k; });
    add(fmt::format("gives each layer the {} of the one before it", what),
        [L](std::size_t n) { return (n + L - 1) % L; });
    add(fmt::format("gives each layer the {} of the one after it", what),
        [L](std::size_t n) { return (n + 1) % L; });
    if (kinds.size() > 2) continue;
    for (const std::size_t first : kinds)
      for (const LayerPattern& pattern : patterns)
        add(fmt::format("gives {} the {} of layer {}, and the others the other", pattern.name, what,
                        first),
            [&, first](std::size_t n) {
              return pattern.has(n, L) ? first : kinds[0] + kinds[1] - first;
            });
  }
}

} // namespace

std::vector<WholeChange> whole_changes(const PassesOfModel& model, const EndOfModel& end,
                                       const ModelAround* around) {
  std::vector<WholeChange> list;
  for (const std::vector<Change>& of_layer : model.changes())
    for (const Change& change : of_layer)
      if (std::ranges::none_of(list,
                               [&](const WholeChange& one) { return is_same(one.change, change); }))
        list.push_back({change});
  add_patterns(model.layers(), list);
  std::vector<Change> of_ends = changes_for({end.ends(), StageSet::all(), false, around});
  add_with_end(of_ends, list);
  for (Change& change : of_ends)
    if (contains(change.touches, Stage::embed))
      list.push_back({std::move(change), WholeChange::Kind::of_embedding});
  add_orders(model.layers(), list);
  add_settings(model, list);
  return list;
}

std::vector<WholeNumber> whole_numbers(const PassesOfModel& model, const ModelAround* around) {
  std::vector<WholeNumber> list;
  const auto add = [&](double low, double high,
                       const std::function<Change(const Layer&, double)>& of) {
    list.push_back({low, high, [of, &model](double value) {
                      WholeChange whole{of(model.layer(0), value)};
                      whole.made = [of, value](const Layer& layer) { return of(layer, value); };
                      return whole;
                    }});
  };
  const Layer& first = model.layer(0);
  if (first.block)
    for (const Scaled which : all_scaled)
      add(1.0 / 16, 16, [which](const Layer& layer, double factor) {
        return scaled_change(layer, which, factor);
      });
  const double scale = first.scale();
  if (scale > 0)
    add(scale / 16, scale * 16, [](const Layer& layer, double value) {
      const std::string shown = fmt::format("{:.6g}", value);
      return scale_change(layer, "scale.constant", value, shown, shown);
    });
  if (first.settings.rope != Rope::none) {
    add(100, 1e8, rope_base_change);
    add(1.0 / 32, 32, rope_factor_change);
  }
  if (around && around->embedding)
    list.push_back({1.0 / 64, 64, [around](double factor) {
                      WholeChange whole{embed_scale_change(*around, factor)};
                      whole.kind = WholeChange::Kind::of_embedding;
                      return whole;
                    }});
  return list;
}

} // namespace mha

// The causal mask: left out, with another diagonal, or for a text computed in chunks.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

/// The stages touched by the mask; if positions move, position biases are touched as well.
StageSet touched(const Layer& layer, bool moves) {
  StageSet set = StageSet{Stage::masked};
  const bool biased = layer.settings.alibi != Alibi::none || !layer.relative_bias.empty();
  if (moves && biased) set.add(Stage::biased);
  return set;
}

std::vector<std::ptrdiff_t> offsets(const Layer& layer) {
  std::vector<std::ptrdiff_t> list;
  for (std::size_t b = 0; b < layer.dims.B; ++b) list.push_back(layer.causal_offset(b));
  return list;
}

/// Whether this is the default alignment of --causal.
bool is_default(const Layer& layer, CausalAlign align) {
  Layer plain = layer, aligned = layer;
  plain.settings.causal_align = CausalAlign::automatic, aligned.settings.causal_align = align;
  return layer.settings.causal_align == CausalAlign::automatic &&
         offsets(plain) == offsets(aligned);
}

/// Hides each query's own key as well.
void block_diagonal(Layer& layer) {
  const std::size_t keys = layer.dims.past + layer.dims.S;
  write_mask(layer, "causal", layer.dims.B, [&](std::size_t b, std::size_t t, std::size_t j) {
    return j < keys && static_cast<std::ptrdiff_t>(j) == layer.query_position(b, t);
  });
}

std::vector<Change> causal_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const bool causal = layer.settings.causal;
  const StageSet masked = StageSet{Stage::masked};
  ChangeList list;
  if (causal)
    list.add_settings("causal.missing", masked, "applies no causal mask",
                      "let a query attend to keys up to its own position only",
                      {{"causal", false}});
  for (CausalAlign align : {CausalAlign::top_left, CausalAlign::bottom_right}) {
    const bool top = align == CausalAlign::top_left;
    Layer aligned = layer;
    aligned.settings.causal_align = align;
    const bool same = offsets(aligned) == offsets(layer);
    if (causal && same) continue;
    if (!causal && !top && layer.dims.T == layer.dims.past + layer.dims.S) continue; // as top_left
    const char* const corner = top ? "top left" : "bottom right";
    const SettingEdit to{"causal_align", top ? "top_left" : "bottom_right"};
    list.add_settings(
            top ? "causal.top_left" : "causal.bottom_right", touched(layer, !same),
            fmt::format("aligns a causal mask with the {} corner of the scores", corner),
            causal ? fmt::format("align the causal mask so that query t sees keys up to t + {}",
                                 layer.causal_offset(0))
                   : "apply no causal mask: this layer has none",
            {{"causal", true}, to})
        .reproduction = causal                     ? Edits{to}
                        : is_default(layer, align) ? Edits{{"causal", true}}
                                                   : Edits{{"causal", true}, to};
  }
  if (!causal) return list.take();
  list.add("causal.strict", masked, "also hides a query's own key (key < query)",
           "let a query attend to its own position: key ≤ query", block_diagonal);
  if (layer.settings.window_right < 0)
    list.add_settings("causal.plus_one", masked,
                      "lets a query see the key after its own (key ≤ query + 1)",
                      "let a query attend to keys up to its own position only: key ≤ query",
                      {{"causal", false}, {"window_right", 1}});
  return list.take();
}

} // namespace

const Theme causal_theme{"causal",
                         "causal.missing causal.top_left causal.bottom_right causal.strict "
                         "causal.plus_one causal.chunks",
                         causal_changes};

namespace {

bool sees_a_text(const Layer& layer) {
  return layer.settings.causal && layer.dims.past == 0 && layer.dims.T == layer.dims.S_all;
}

template <class Sees> // sees(query, key)
Change chunk_change(std::string did, const char* cure, const Sees& sees, bool causal = true) {
  Change change{"causal.chunks", StageSet{Stage::masked}, std::move(did), cure,
                [sees, causal](Layer& edited) {
                  edited.settings.causal = edited.settings.causal && causal;
                  write_mask(edited, "chunks", 1, [&](std::size_t, std::size_t t, std::size_t j) {
                    return !sees(t, j);
                  });
                }};
  change.fitted = true;
  return change;
}

} // namespace

std::vector<Change> chunk_changes(const Layer& layer, std::size_t first) {
  const std::size_t n = first, T = layer.dims.T;
  std::vector<Change> list;
  if (!sees_a_text(layer) || n == 0 || n >= T) return list;
  const char* const all = "let a query also see the cache's keys: key ≤ query of the whole text";
  const char* const corner =
      "align the causal mask with the bottom right corner: the cache's keys come first";
  const auto add = [&](std::string did, const char* cure, const auto& sees) {
    list.push_back(chunk_change(std::move(did), cure, sees));
  };
  if (n + 1 < T) {
    add(fmt::format(
            "computes the text in chunks of {} tokens, each of which sees its own keys only", n),
        all, [n](std::size_t t, std::size_t j) { return j / n == t / n; });
    add(fmt::format("aligns the causal mask of each chunk of {} tokens with the top left corner",
                    n),
        corner, [n](std::size_t t, std::size_t j) { return j <= t % n; });
  }
  if (2 * n < T && n + 1 < T) { // otherwise the same as above
    add(fmt::format("lets tokens from {} on see no keys before token {}", n, n), all,
        [n](std::size_t t, std::size_t j) { return t < n || j >= n; });
    add(fmt::format("aligns the causal mask of the tokens from {} on with the top left corner", n),
        corner, [n](std::size_t t, std::size_t j) { return t < n || j <= t - n; });
  }
  add(fmt::format("lets each token from {} on see only its own key: the cache is not read", n), all,
      [n](std::size_t t, std::size_t j) { return t < n || j == t; });
  add(fmt::format("lets each token from {} on see only the first key: a causal mask of one query, "
                  "aligned with the top left corner",
                  n),
      corner, [n](std::size_t t, std::size_t j) { return t < n || j == 0; });
  add(fmt::format("lets no token from {} on see its own key: it is not in the cache yet", n),
      "add a token's key and value before its query is computed",
      [n](std::size_t t, std::size_t j) { return t < n || j != t; });
  return list;
}

std::vector<Change> prefix_changes(const Layer& layer, std::size_t tokens) {
  if (!sees_a_text(layer) || tokens < 2 || tokens > layer.dims.T) return {};
  return {chunk_change(
      fmt::format("lets the first {} tokens see each other: a prefix without a causal mask",
                  tokens),
      "let a query attend to keys up to its own position only",
      [tokens](std::size_t t, std::size_t j) { return j <= t || j < tokens; }, false)};
}

} // namespace mha

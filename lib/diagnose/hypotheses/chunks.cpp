#include <mha/diagnose/hypotheses/chunks.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>

#include <fmt/format.h>

namespace mha {

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
  const char* const all = "let a query see the cache's keys, too: key ≤ query of the whole text";
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
  if (2 * n < T && n + 1 < T) { // else these are the ones above
    add(fmt::format("lets tokens from {} on see no keys before token {}", n, n), all,
        [n](std::size_t t, std::size_t j) { return t < n || j >= n; });
    add(fmt::format("aligns the causal mask of the tokens from {} on with the top left corner", n),
        corner, [n](std::size_t t, std::size_t j) { return t < n || j <= t - n; });
  }
  add(fmt::format("lets each token from {} on see its own key alone: the cache is not read", n),
      all, [n](std::size_t t, std::size_t j) { return t < n || j == t; });
  add(fmt::format("lets each token from {} on see the first key alone: a causal mask of one query, "
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

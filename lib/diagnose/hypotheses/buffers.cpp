// Memory that was overwritten, or not yet written, when it is read: the numbers of another step,
// token or head.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <cstring>

namespace mha {

namespace {

/// One of q, k and v holds the numbers of another.
void add_steps(const Subject& subject, ChangeList& list) {
  const Layer& layer = subject.layer;
  const Dims& d = layer.dims;
  const bool turns = layer.settings.rope != Rope::none;
  const auto add = [&](Stage to, Stage from, const char* source) {
    const std::string name(name_of(to));
    const std::string cure = fmt::format("give {} memory of its own", name);
    list.add("buffer." + name, StageSet{to}, fmt::format("reads {} for {}", source, name), cure,
             [to, from](Layer& edited) { give(edited, to, value_of(edited, from)); });
    if (to != Stage::v || !contains(subject.reference, Stage::v)) return;
    list.add("buffer.v", StageSet{Stage::head_out, Stage::head_result},
             fmt::format("reads {} for v after the softmax", source), cure, [from](Layer& edited) {
               Layer other = edited;
               give(other, Stage::v, value_of(edited, from));
               clear_given(other, {Stage::head_out});
               give(edited, Stage::head_out, value_of(other, Stage::head_out));
             });
  };
  if (d.d_k == d.d_v) {
    add(Stage::v, Stage::k, "k");
    if (turns) add(Stage::v, Stage::k_rope, "the rotated k");
    add(Stage::k, Stage::v, "v");
  }
  if (d.H != d.H_kv || d.T != d.S) return;
  add(Stage::q, Stage::k, "k");
  add(Stage::k, Stage::q, "q");
}

/// A cache that is rotated in place, which rotates q or k a second time.
void add_turned_again(const Layer& layer, ChangeList& list) {
  if (layer.settings.rope == Rope::none) return;
  for (const bool q : {true, false}) {
    const Stage to = q ? Stage::q_rope : Stage::k_rope;
    list.add("rope.twice", StageSet{to}, fmt::format("rotates {} twice", q ? "q" : "k"),
             "rotate it once, and keep it unchanged in the cache",
             [to](Layer& edited) {
               give(edited, to, turned(edited, value_of(edited, to), turn_of(edited)));
             })
        .once = true;
  }
}

/// Keys and values of the previous token: a cache that is written one place too far.
void add_late_cache(const Subject& subject, ChangeList& list) {
  const Layer& layer = subject.layer;
  if (layer.dims.T < 2 || layer.dims.T != layer.dims.S_all) return;
  const Stage keys = step_for(layer, Stage::k_rope);
  const auto late = [](const Layer& own, Stage stage) {
    return tokens_from(value_of(own, stage), [](std::size_t t) { return t == 0 ? t : t - 1; });
  };
  constexpr const char* did = "reads each token's key and value one token late, like a cache that "
                              "is written one place too far";
  constexpr const char* cure = "write each token's key and value at its own place";
  list.add("buffer.late", StageSet{keys, Stage::v}, did, cure,
           [keys, late](Layer& edited) {
             give(edited, keys, late(edited, keys)), give(edited, Stage::v, late(edited, Stage::v));
           })
      .once = true;
  if (!contains(subject.reference, keys)) return;
  list.add("buffer.late", StageSet{Stage::v, Stage::scores}, did, cure,
           [keys, late](Layer& edited) { // the keys were saved before the cache
             Layer other = edited;
             give(other, keys, late(edited, keys));
             clear_given(other, {Stage::k_all, Stage::scores});
             give(edited, Stage::scores, value_of(other, Stage::scores));
             give(edited, Stage::v, late(edited, Stage::v));
           })
      .once = true;
}

/// One token's row for all tokens, or one head's weights for all heads.
void add_same(const Layer& layer, ChangeList& list) {
  const Dims& d = layer.dims;
  const auto last_for_all = [](Layer& edited, Stage stage) {
    const std::size_t last = edited.dims.T - 1;
    give(edited, stage, tokens_from(value_of(edited, stage), [last](std::size_t) { return last; }));
  };
  const auto add = [&](Stage stage, const char* what) {
    list.add("buffer.row", StageSet{stage},
             fmt::format("gives every token the last one's {}", what),
             "write each token's row where it belongs",
             [stage, last_for_all](Layer& edited) { last_for_all(edited, stage); });
  };
  if (d.T > 1 && layer.lengths.empty()) {
    add(Stage::q, "query");
    add(Stage::head_out, "heads' outputs");
    if (layer.block && layer.block->has_feed_forward())
      add(Stage::mlp_out, "feed-forward's result");
  }
  if (d.H < 2) return;
  for (const bool last : {false, true})
    list.add("buffer.weights", StageSet{Stage::weights},
             fmt::format("reads the {} head's weights for every head", last ? "last" : "first"),
             "give each head weights of its own", [last](Layer& edited) {
               const Tensor own = value_of(edited, Stage::weights);
               Tensor same = copied(own);
               const std::size_t B = own.shape()[0], H = own.shape()[1],
                                 bytes = own.bytes() / (B * H);
               for (std::size_t i = 0; i < B * H; ++i)
                 std::memcpy(same.raw_mutable() + i * bytes,
                             own.raw() + (i - i % H + (last ? H - 1 : 0)) * bytes, bytes);
               give(edited, Stage::weights, same);
             });
}

std::vector<Change> buffers_changes(const Subject& subject) {
  if (subject.layer.ends) return {};
  ChangeList list;
  add_steps(subject, list);
  add_turned_again(subject.layer, list);
  add_late_cache(subject, list);
  add_same(subject.layer, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme buffers_theme{
    "buffers", "buffer.q buffer.k buffer.v buffer.late buffer.row buffer.weights", buffers_changes};

} // namespace mha

// Rotary position embedding: left out, with other pairs, bases, numbers of dimensions or offsets,
// or applied to values.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/rope_turn.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <set>

namespace mha {

namespace {

/// Moves all positions by a number.
void shift(Layer& layer, std::int64_t by) {
  if (!layer.positions.empty())
    layer.positions =
        each_number(layer.positions, [by](double p) { return p + static_cast<double>(by); });
  else
    layer.settings.rope_offset = layer.first_position() + by;
}

const char* name_of(Rope rope) {
  return rope == Rope::half ? "half" : rope == Rope::interleaved ? "interleaved" : "none";
}

const char* pairs_of(Rope rope) {
  return rope == Rope::half ? "dimension i with i + d/2 (half)"
                            : "dimension 2i with 2i + 1 (interleaved)";
}

class RopeChanges {
public:
  explicit RopeChanges(const Subject& subject) : layer_(subject.layer) {}

  std::vector<Change> changes() {
    const Settings& s = layer_.settings;
    if (layer_.dims.d_k < 2) return {};
    if (s.rope == Rope::none) {
      if (layer_.dims.d_k % 2 == 0)
        for (Rope rope : {Rope::half, Rope::interleaved})
          add("rope.style", fmt::format("rotates q and k by their positions, {}", pairs_of(rope)),
              "leave out the rotary position embedding: this layer has none",
              {{"rope", name_of(rope)}});
      return list_.take();
    }
    add("rope.missing", "does not rotate q and k", "rotate q and k before the scores",
        {{"rope", "none"}});
    const Rope other = s.rope == Rope::half ? Rope::interleaved : Rope::half;
    add("rope.style", fmt::format("rotates {}", pairs_of(other)),
        fmt::format("rotate {}, or permute the columns of W_q and W_k to match", pairs_of(s.rope)),
        {{"rope", name_of(other)}});
    add_bases();
    add_dims();
    add_offsets();
    add_rest();
    return list_.take();
  }

private:
  void add(std::string id, std::string did, std::string cure, Edits settings) {
    list_.add_settings(std::move(id), rotary_stages(), std::move(did), std::move(cure),
                       std::move(settings));
  }

  void add_bases() {
    for (double base : {1e4, 5e5, 1e6, 1e5, 1e2, 1e3, 1.5e5, 5e6, 8e6, 1e7})
      if (base != layer_.settings.rope_base) list_.add(rope_base_change(layer_, base));
  }

  void add_dims() {
    const std::size_t d_k = layer_.dims.d_k,
                      now = layer_.settings.rope_dims == 0 ? d_k : layer_.settings.rope_dims;
    std::set<std::size_t, std::greater<>> candidates;
    const std::size_t step = d_k <= 32 ? 2 : 8;
    for (std::size_t dims = step; dims <= d_k; dims += step) candidates.insert(dims);
    candidates.insert({d_k / 4 * 2, d_k / 8 * 2, d_k * 2 / 10 * 2, d_k / 2 * 2});
    for (std::size_t dims : candidates)
      if (dims > 0 && dims != now)
        add("rope.dims", fmt::format("rotates {} of the {} dimensions of a head", dims, d_k),
            fmt::format("rotate the first {} dimensions of each head", now), {{"rope_dims", dims}});
  }

  /// Dimensions that are not rotated and were never copied.
  void add_rest() {
    const std::size_t d_k = layer_.dims.d_k, turned = layer_.settings.rope_dims;
    if (turned == 0 || turned >= d_k || layer_.settings.rope_first != 0) return;
    constexpr std::pair<Stage, const char*> sides[]{{Stage::q_rope, "q"}, {Stage::k_rope, "k"}};
    const auto clear = [d_k, turned](Layer& edited, Stage stage) {
      Tensor value = copied(value_of(edited, stage));
      by_precision(value.dtype(), [&]<class T>(T) {
        const auto numbers = value.as_mutable<T>();
        for (std::size_t i = 0; i < numbers.size(); ++i)
          if (i % d_k >= turned) numbers[i] = 0;
      });
      give(edited, stage, value);
    };
    const auto of = [&](const char* whose) {
      return fmt::format("leaves dimensions {}–{} of each head of {}, which are not rotated, 0",
                         turned, d_k - 1, whose);
    };
    const std::string cure = "copy the dimensions that are not rotated unchanged";
    for (const auto& [stage, whose] : sides)
      list_.add("rope.rest", StageSet{stage}, of(whose), cure,
                [clear, stage = stage](Layer& edited) { clear(edited, stage); });
    list_.add("rope.rest", rotary_stages(), of("q and k"), cure, [clear](Layer& edited) {
      clear(edited, Stage::q_rope), clear(edited, Stage::k_rope);
    });
  }

  void add_offsets() {
    const auto past = static_cast<std::int64_t>(layer_.dims.past);
    const std::int64_t now = layer_.first_position();
    std::set<std::int64_t> offsets{now + 1, now - 1};
    if (layer_.positions.empty()) offsets.insert({std::int64_t{0}, past});
    offsets.erase(now);
    for (std::int64_t offset : offsets) {
      const std::int64_t by = offset - now;
      const bool counted = layer_.positions.empty();
      list_.add(
          "rope.offset", rotary_stages(),
          fmt::format("counts positions from {}", counted ? offset : by),
          fmt::format("let the first token have position {}; as long as q and k are counted alike, "
                      "no weight and no output depends on it",
                      now),
          [by](Layer& edited) { shift(edited, by); },
          counted ? Edits{{"rope_offset", offset}} : Edits{});
    }
    for (Stage stage : {Stage::q_rope, Stage::k_rope})
      for (std::int64_t by : {1, -1}) {
        const char* const name = stage == Stage::q_rope ? "q" : "k";
        list_.add(
            "rope.offset", StageSet{stage},
            fmt::format("rotates {} alone by positions that are {} too {}", name, 1,
                        by > 0 ? "high" : "low"),
            fmt::format("rotate q and k by the same positions; those of {} are off by one", name),
            [stage, by](Layer& edited) {
              Layer shifted = edited;
              shift(shifted, by);
              give(edited, stage, value_of(shifted, stage));
            });
      }
  }

  const Layer& layer_;
  ChangeList list_;
};

} // namespace

Change rope_base_change(const Layer& layer, double base) {
  return settings_change(
      "rope.base", rotary_stages(), fmt::format("rotates with base {:.6g}", base),
      fmt::format("use the rotary base (theta) {:.6g}", layer.settings.rope_base),
      {{"rope_base", base, 6}});
}

const Theme rope_theme{"rope", "rope.missing rope.style rope.base rope.dims rope.offset rope.rest",
                       [](const Subject& subject) { return RopeChanges(subject).changes(); }};

namespace {

Tensor turned_values(const Layer& layer) {
  return turned(layer, value_of(layer, Stage::v), turn_of(layer));
}

/// Values rotated like keys, either before or after they are saved.
std::vector<Change> value_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (layer.settings.rope == Rope::none || layer.dims.d_v != layer.dims.d_k) return {};
  ChangeList list;
  constexpr const char *did = "also rotates v", *cure = "rotate only q and k";
  list.add("rope.values", StageSet{Stage::v}, did, cure,
           [](Layer& edited) { give(edited, Stage::v, turned_values(edited)); })
      .once = true;
  if (contains(subject.reference, Stage::v))
    list.add("rope.values", StageSet{Stage::head_out, Stage::head_result}, did, cure,
             [](Layer& edited) {
               Layer other = edited;
               give(other, Stage::v, turned_values(edited));
               clear_given(other, {Stage::head_out});
               give(edited, Stage::head_out, value_of(other, Stage::head_out));
             });
  list.all_rare();
  return list.take();
}

} // namespace

const Theme rope_values_theme{"rope_values", "rope.values", value_changes};

} // namespace mha

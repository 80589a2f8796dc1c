#include "stats_texts.hpp"

#include "predicted_places.hpp"
#include "resume.hpp"
#include "text_groups.hpp"
#include <mha/observe/trace.hpp>
#include <mha/render/stats.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mha::app {

namespace {

/// The texts with the longest vectors of a head, each with its longest one.
class LongestVectors {
public:
  explicit LongestVectors(std::size_t most) : most_(most) {}

  /// Adds texts. `results`: B, T, d_model of the head; `chosen`: the positions in each text.
  void add(const Texts& texts, std::size_t first_text, const Tensor& results,
           const std::optional<IndexList>& chosen) {
    const std::size_t T = results.shape()[1], width = results.shape()[2];
    for (std::size_t b = 0; b < texts.lengths().size(); ++b) {
      std::optional<render::Activation> longest;
      for (const std::size_t t : positions(texts, b, chosen)) {
        double squares = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const double value = value_at(results, (b * T + t) * width + i);
          squares += value * value;
        }
        if (!std::isfinite(squares))
          ++lost_;
        else if (!longest || std::sqrt(squares) > longest->norm)
          longest = {std::sqrt(squares), first_text + b, t, {}, {}, {}};
      }
      if (longest) insert(texts, b, std::move(*longest));
    }
  }
  const std::vector<render::Activation>& list() const { return list_; }
  /// The number of positions left out, whose vectors are NaN or infinite.
  std::size_t lost() const { return lost_; }

  /// Visits the state after a group, for --resume.
  void visit(RunState& state) {
    state.field(lost_).list(list_, [&](render::Activation& one) {
      state.field(one.norm).field(one.text).field(one.position);
      state.field(one.token).field(one.before).field(one.after);
    });
  }

private:
  static constexpr std::size_t around = 8; ///< tokens on either side

  /// The chosen positions; a short text may have none.
  static std::vector<std::size_t> positions(const Texts& texts, std::size_t b,
                                            const std::optional<IndexList>& chosen) {
    if (chosen) return positions_in(*chosen, texts, b, MissingTokens::skip);
    std::vector<std::size_t> all(texts.lengths()[b]);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }

  void insert(const Texts& texts, std::size_t b, render::Activation one) {
    const auto place =
        std::ranges::upper_bound(list_, one.norm, std::greater<>(), &render::Activation::norm);
    if (static_cast<std::size_t>(place - list_.begin()) >= most_) return;
    const std::span<const int> ids(texts.ids()[b]);
    const std::size_t at = one.position, first = at > around ? at - around : 0,
                      last = std::min(at + around + 1, texts.lengths()[b]);
    const auto blank = [&](std::size_t t) { return texts.begins_word(ids[t]) ? " " : ""; };
    one.token = texts.plain(ids[at]);
    if (at > first) one.before = texts.plain(ids.subspan(first, at - first)) + blank(at);
    if (at + 1 < last) one.after = blank(at + 1) + texts.plain(ids.subspan(at + 1, last - at - 1));
    list_.insert(place, std::move(one));
    if (list_.size() > most_) list_.pop_back();
  }

  std::size_t most_, lost_ = 0;
  std::vector<render::Activation> list_;
};

} // namespace

int write_top_texts(const OpenedModel& model, const TextStatsRequest& asked,
                    const std::string& form, Common& common) {
  const std::optional<IndexList>& chosen = asked.measuring.selection.head;
  if (model.chosen().size() != 1 || !chosen)
    throw UsageError("--top-texts needs one head: --layer 5 --head 1");
  const std::string id = model.chosen()[0];
  LongestVectors longest(*asked.options.top_texts);
  ResumeFile kept(asked.options.resume, asked.output.path);
  const std::size_t done =
      kept.resume([&] { return run_fingerprint(model, asked.settings + form); },
                  [&](RunState& state) { longest.visit(state); });
  const TextGroups groups(*model.texts(), most_tokens_by_head, 1, common);
  for (std::size_t n = 0; n < groups.count(); ++n) {
    const TextGroup group = groups.group(n);
    if (group.first < done) continue;
    Common own = common_of_group(common, n == 0);
    OpenedModel of_group(model, group.texts);
    const LoadedLayer loaded = load_layer(of_group, id, own);
    copy_times(common, own);
    const Pick head = resolved(chosen, loaded.layer.dims.H, "heads");
    if (head.indices.size() != 1)
      throw UsageError(fmt::format("--top-texts needs one head, but --head {} selects {}",
                                   chosen->text(), head.indices.size()));
    const Stopwatch watch(common.compute_s);
    Selection selection;
    selection.head = IndexList::of_indices({head.indices[0]}, "--head");
    longest.add(
        *group.texts, group.first,
        trace(loaded.layer, {Stage::head_result}, selection, common.threads, of_group.compute())
            .value(Stage::head_result),
        asked.measuring.selection.query);
    kept.keep(group.first + group.texts->lengths().size(),
              [&](RunState& state) { longest.visit(state); });
  }
  if (longest.lost() > 0)
    report_warnings({{id,
                      {warning(fmt::format("head_result is NaN or infinite at {}, which are left "
                                           "out; `show -s head_result` prints it",
                                           counted(longest.lost(), "positions")))}}},
                    common);
  if (longest.list().empty()) {
    if (longest.lost() > 0) fail("no text has a finite head_result");
    fail("--query {}: no text has such a token", asked.measuring.selection.query->text());
  }
  const Stopwatch watch(common.write_s);
  write_text(asked.output.path,
             activations_table(longest.list())
                 .as(form, text_style_of(asked.output, common.color), asked.precision));
  kept.remove();
  return 0;
}

} // namespace mha::app

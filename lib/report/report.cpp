#include <mha/report/report.hpp>

#include <mha/explain/explain.hpp>
#include <mha/heads/measuring.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/naming/formula.hpp>
#include <mha/observe/first_tokens.hpp>
#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/packed_rows.hpp>
#include <mha/observe/pool.hpp>
#include <mha/observe/row_peaks.hpp>
#include <mha/observe/several.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The stages of the layer whose rows a page shows, by their names on the page.
std::map<std::string, Stage, std::less<>> forms_of(const Layer& layer, const StageSet& available) {
  std::map<std::string, Stage, std::less<>> forms;
  const auto put = [&](const char* name, std::initializer_list<Stage> stages) {
    if (const std::optional<Stage> stage = last_form(available, stages))
      forms.emplace(name, *stage);
  };
  put("weights", {Stage::weights});
  put("masked", {Stage::masked});
  // If nothing is added between them, the page computes scores from masked, by the scale.
  const bool between = layer.settings.softcap != 0 || !layer.added.empty() || !layer.bias.empty() ||
                       !layer.relative_bias.empty() || layer.settings.alibi != Alibi::none ||
                       layer.settings.temperature != 0;
  if (between || !contains(available, Stage::masked)) put("scores", {Stage::scores});
  if (contains(available, Stage::scores)) {
    const auto at = [&](Stage stage) { return in_turn(layer, stage); };
    put("q", {Stage::q, at(Stage::q_norm), at(Stage::q_rope)});
    put("k", {Stage::k, at(Stage::k_norm), at(Stage::k_rope), Stage::k_all});
  }
  put("v", {Stage::v, Stage::v_norm, Stage::v_all});
  put("head_out", {Stage::head_out});
  return forms;
}

/// Bytes of a stage's rows of one item, unpacked.
std::size_t bytes_of(const Layer& layer, Stage stage, std::size_t element) {
  std::size_t bytes = element;
  for (Dim letter : info_of(stage).letters) bytes *= layer.dims.size_of(letter);
  return bytes;
}

/// The most cells along a side of a pooled map. A page draws them before it unpacks a head, if the
/// map is long.
constexpr std::size_t most_pools = 192;
bool is_long(const Dims& dims) {
  return dims.T * dims.S_all > std::size_t{256} * 256;
}

/// Pooled maps as rows of a stage; masked cells are −inf.
PackedStage packed(const Pool& pool) {
  PackedStage stage{RowForm::rounded, 0, 0, 0, pool.query_factor(), pool.key_factor(), {}};
  for (PooledMap& map : pool.maps()) {
    stage.rows = map.rows, stage.cols = stage.kept = map.cols;
    std::string bytes;
    std::vector<std::uint16_t> codes(map.rows * map.cols);
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (map.masked[i] != 0) map.values[i] = -std::numeric_limits<double>::infinity();
    for (std::size_t row = 0; row < map.rows; ++row) {
      const RowScale scale =
          round_row(&map.values[row * map.cols], 1, &codes[row * map.cols], map.cols);
      bytes.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    }
    append_planes(bytes, codes.data(), codes.size(), sizeof(std::uint16_t));
    stage.heads.push_back(deflated(bytes));
  }
  return stage;
}

/// Whether a page has the experts of every token.
bool has_choices(const Dims& dims) {
  constexpr std::size_t most = 100000;
  return dims.n > 0 && dims.T * dims.n <= most;
}

/// The size of contributions, measures, visible keys and choices of experts as text, in packed
/// bytes (base64 makes four bytes of three).
std::size_t text_bytes(const Dims& dims, std::size_t heads) {
  return (heads + 1) * dims.T * 14 + heads * 1100 + (has_choices(dims) ? dims.T * dims.n * 9 : 0);
}

std::size_t packed_bytes(const PackedStage& stage) {
  std::size_t bytes = 0;
  for (const std::string& head : stage.heads) bytes += head.size();
  return bytes;
}
std::size_t packed_bytes(const LayerReport& report) {
  std::size_t bytes = 0;
  for (const auto& [name, stage] : report.stages) bytes += packed_bytes(stage);
  return bytes;
}

/// The limit minus the parts that are always there: text and pools.
std::size_t limit_for_rows(const Layer& layer, const ReportRequest& request, std::size_t heads) {
  const Dims& dims = layer.dims;
  const std::size_t pools =
      is_long(dims) ? std::min(dims.T, most_pools) * std::min(dims.S_all, most_pools) * 2 : 0;
  const std::size_t spent = text_bytes(dims, heads) + heads * pools;
  return request.limit > spent ? request.limit - spent : 0;
}

/// The stages of a layer to keep, and their forms.
struct Kept {
  std::vector<PackedRows::Target> targets;
  std::size_t limit = 0; ///< bytes that the packed weights may take
  /// Whether the weights are rounded, unless they pack to so little that they fit exactly.
  bool may_be_exact = false;
};
/// Deflating exact weights, half of them hidden, leaves at least this share; if that does not fit,
/// it is not tried.
constexpr double least_packed = 0.3;

/// Keeps everything exactly in a small layer. Else keeps the weights exactly if they fit, or
/// rounded, and the vectors of the steps rounded if they take at most a third.
Kept kept_of(const Layer& layer, const LayerReport& report, const ReportRequest& request) {
  const std::size_t element = size_of(layer.dtype);
  // head_out is left out where it is not exact: the page adds it up.
  const bool adds_up = report.forms.count("v") > 0;
  std::size_t all = 0, vectors = 0;
  for (const auto& [name, stage] : report.forms) {
    all += bytes_of(layer, stage, element);
    if (info_of(stage).kind != Kind::map && !(adds_up && stage == Stage::head_out))
      vectors += bytes_of(layer, stage, 2);
  }
  const RowForm others = all <= request.all_exact ? RowForm::exact : RowForm::rounded;
  const std::size_t maps = bytes_of(layer, Stage::weights, element);
  const bool exact = maps + vectors <= request.limit;
  const bool with_vectors = vectors <= request.limit / 3;
  Kept kept;
  kept.limit = request.limit - (with_vectors ? vectors : 0);
  for (const auto& [name, stage] : report.forms) {
    const bool map = info_of(stage).kind == Kind::map;
    if (stage == Stage::weights) {
      // Deflating rarely shrinks a map to an eighth; if that does not fit, it is not tried.
      if (maps / element * 2 <= 8 * kept.limit)
        kept.targets.push_back({stage, exact ? RowForm::exact : RowForm::rounded});
      kept.may_be_exact =
          !exact && least_packed * static_cast<double>(maps) <= static_cast<double>(kept.limit);
    } else if (stage == Stage::head_out && adds_up && others != RowForm::exact) {
      continue;
    } else if (map ? exact && 2 * maps <= request.limit : with_vectors) {
      kept.targets.push_back({stage, others});
    }
  }
  return kept;
}

/// Whether the weights fit even if they do not shrink.
bool fits_for_sure(const Layer& layer, const Kept& kept) {
  return std::ranges::any_of(kept.targets, [&](const PackedRows::Target& target) {
    const std::size_t number = target.form == RowForm::exact ? size_of(layer.dtype) : 2;
    return target.stage == Stage::weights &&
           bytes_of(layer, target.stage, number) +
                   bytes_of(layer, Stage::row_max, sizeof(RowScale)) <=
               kept.limit;
  });
}

/// The largest weights of each row, more than fit: place and weight pack to at least three bytes.
RowPeaks peaks_of(const Layer& layer, const ReportRequest& request,
                  const std::vector<std::size_t>& heads) {
  const std::size_t rows = layer.dims.T * heads.size();
  return {layer, heads, request.batch, std::clamp<std::size_t>(request.limit / (rows * 3), 1, 64)};
}

/// As many of the largest weights as fit beside the stages that are packed already.
PackedStage largest_of(const RowPeaks& peaks, const LayerReport& report, std::size_t limit) {
  const std::size_t spent = text_bytes(report.dims, report.heads.size()) + packed_bytes(report);
  if (std::optional<PackedStage> largest = peaks.largest(limit - std::min(limit, spent)))
    return std::move(*largest);
  fail("{} queries of {} heads do not fit into the page's size, not even the largest weight of "
       "each; raise <max_size> or select with <head>",
       report.dims.T, report.heads.size());
}

/// Adds the hidden keys: as runs, or as bits if these fit.
void add_hidden(const HiddenKeys& hidden, LayerReport& report, std::size_t limit) {
  report.visible = hidden.runs();
  if (!report.visible.empty()) return;
  std::optional<PackedStage> bits = hidden.bits();
  if (bits && packed_bytes(report) + packed_bytes(*bits) <= limit)
    report.stages.emplace("hidden", std::move(*bits));
}

/// The data of a page that needs no computation.
LayerReport described(const Layer& layer, const StageSet& available, const ReportRequest& request) {
  LayerReport report;
  report.dtype = layer.dtype;
  report.dims = layer.dims;
  report.settings = layer.settings;
  report.scale = contains(available, Stage::scores) ? layer.scale() : 1;
  report.has_b_q = !layer.b_q.empty();
  report.has_W_o = !layer.W_o.empty();
  for (const Stage stage : {Stage::head_norm, Stage::gated, Stage::head_result})
    if (has_step(layer, stage))
      report.result_formula +=
          fmt::format("{}{} = {}", report.result_formula.empty() ? "" : ", ", name_of(stage),
                      formula_of(layer, stage));
  report.has_sinks = !layer.sinks.empty();
  for (std::size_t t = 0; layer.settings.temperature != 0 && t < layer.dims.T; ++t)
    report.temperatures.push_back(static_cast<float>(layer.temperature_of(t)));
  report.given = layer.given_set;
  report.heads = resolved(request.selection.head, layer.dims.H, "heads").indices;
  report.tokens = layer.tokens_of(request.batch);
  report.keys = labels_of_keys(layer, request.batch);
  report.forms = forms_of(layer, available);
  return report;
}

/// The place of each chosen head's key/value head among the kept ones.
std::vector<std::size_t> kv_places(const Layer& layer, const LayerReport& report,
                                   const Selection& selection) {
  std::vector<std::size_t> places;
  for (const char* name : {"k", "v"}) {
    if (!report.stages.count(name) || !places.empty()) continue;
    for (const SelectedAxis& axis : selected_axes(layer, report.forms.at(name), selection)) {
      if (axis.axis != Axis::kv_head) continue;
      const std::vector<std::size_t>& kept = axis.pick.indices;
      for (std::size_t head : report.heads) {
        const auto place = std::find(kept.begin(), kept.end(), kv_head_of(layer, head));
        places.push_back(static_cast<std::size_t>(place - kept.begin()));
      }
    }
  }
  return places;
}

/// The first pass: computes the layer once and keeps the data of a page.
class FirstPass {
public:
  FirstPass(const Layer& layer, const LayerReport& report, const ReportRequest& asked,
            const ReportRequest& request, const Selection& selection)
      : layer_(layer),
        asked_(asked),
        request_(request),
        selection_(selection),
        kept_(kept_of(layer, report, request)),
        rows_(layer, kept_.targets, selection, request.batch, kept_.limit),
        hidden_(layer, report.heads, request.batch, asked.limit),
        measured_(measured(request, selection)),
        measuring_(layer, measured_) {
    all_.add(rows_);
    if (kept_.may_be_exact)
      all_.add(exact_.emplace(layer,
                              std::vector<PackedRows::Target>{{Stage::weights, RowForm::exact}},
                              selection, request.batch, kept_.limit));
    if (!fits_for_sure(layer, kept_))
      all_.add(peaks_.emplace(peaks_of(layer, asked, report.heads)));
    if (is_long(layer.dims))
      all_.add(pool_.emplace(layer, Stage::weights, selection, Pool::Size{most_pools, most_pools},
                             Pooling::max));
    all_.add(hidden_);
    const StageSet available = available_stages(layer);
    has_results_ = contains(available, Stage::head_result);
    if (has_results_ && contains(available, Stage::output))
      all_.add(output_.emplace(layer, StageSet{Stage::output}));
    const StageSet routing{Stage::experts, Stage::expert_weights};
    if ((available & routing) == routing && has_choices(layer.dims))
      all_.add(experts_.emplace(layer, routing));
    all_.add(measuring_.first());
    const Plan plan = make_plan(layer, all_.wants(), measuring_.selection());
    request.compute(layer, plan, all_, request.threads);
    measuring_.end_first(plan);
  }

  void put_stages(LayerReport& report) {
    for (const auto& [name, stage] : report.forms)
      if (contains(rows_.wants(), stage))
        if (std::optional<PackedStage> packed = rows_.take(stage))
          report.stages.emplace(name, std::move(*packed));
    if (exact_)
      if (std::optional<PackedStage> weights = exact_->take(Stage::weights))
        report.stages.insert_or_assign("weights", std::move(*weights));
    const bool has_weights = report.stages.count("weights") > 0;
    if (!has_weights && !peaks_) { // deflating did not make them fit
      peaks_.emplace(peaks_of(layer_, asked_, report.heads));
      compute(layer_, make_plan(layer_, peaks_->wants(), selection_), *peaks_, request_.threads);
    }
    if (hidden_.any()) add_hidden(hidden_, report, asked_.limit);
    if (pool_) report.stages.emplace("pooled", packed(*pool_));
    if (!has_weights) report.stages.emplace("weights", largest_of(*peaks_, report, asked_.limit));
  }

  /// Adds contributions and measures of the heads, by a second pass if the layer has head_result.
  void put_measures(LayerReport& report) {
    const Tensor* output = output_ ? &output_->tensor(Stage::output) : nullptr;
    if (has_results_)
      report.contributions = contributions_of(layer_, report.heads, request_, measuring_, output);
    if (output) report.output_norm = row_norms(*output, request_.batch);
    Ranks alone;
    LayerMeasures measures = measuring_.finish(alone);
    report.measures = std::move(measures.heads), report.overflow = std::move(measures.overflow);
  }

  void put_experts(LayerReport& report) const {
    if (!experts_) return;
    const Tensor &numbers = experts_->tensor(Stage::experts),
                 &weights = experts_->tensor(Stage::expert_weights);
    for (std::size_t i = 0; i < numbers.count(); ++i) {
      report.experts.numbers.push_back(static_cast<std::size_t>(value_at(numbers, i)));
      report.experts.weights.push_back(static_cast<float>(value_at(weights, i)));
    }
  }

private:
  static MeasureRequest measured(const ReportRequest& request, const Selection& selection) {
    MeasureRequest measured;
    measured.selection = selection, measured.threads = request.threads;
    return measured;
  }

  const Layer& layer_;
  const ReportRequest &asked_, &request_;
  const Selection& selection_;
  const Kept kept_;
  PackedRows rows_;
  std::optional<PackedRows> exact_;
  std::optional<RowPeaks> peaks_;
  std::optional<Pool> pool_;
  HiddenKeys hidden_;
  bool has_results_ = false;
  std::optional<KeptTokens> output_, experts_;
  const MeasureRequest measured_;
  HeadMeasuring measuring_;
  Several all_;
};

} // namespace

LayerReport report(const Layer& whole, const ReportRequest& of_whole) {
  // A page of one item costs no more than the item alone, whatever the batch.
  const Layer layer = one_item(whole, of_whole.batch);
  ReportRequest asked = of_whole;
  asked.batch = 0;
  const StageSet available = available_stages(layer);
  if (!contains(available, Stage::weights))
    fail("nothing to show: a page is about weights, or what they are computed from; this layer has "
         "{}{}",
         available.none() ? std::string("no stages") : joined_names(available), layer.missing_X);
  const Dims& dims = layer.dims;
  if (dims.T == 0 || dims.S_all == 0)
    fail("nothing to show: there are {} queries and {} keys", dims.T, dims.S_all);

  ReportRequest request = asked;
  LayerReport report = described(layer, available, request);
  if (whole.dims.B > 1) report.batch = of_whole.batch;
  report.dims.B = whole.dims.B;
  request.limit = limit_for_rows(layer, asked, report.heads.size());
  Selection selection = request.selection;
  if (dims.batched) selection.batch = IndexList::of_indices({request.batch}, message("<batch>"));
  FirstPass first(layer, report, asked, request, selection);
  first.put_stages(report);
  report.kv_of = kv_places(layer, report, selection);
  first.put_measures(report);
  first.put_experts(report);
  return report;
}

} // namespace mha

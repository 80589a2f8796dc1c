#include <mha/report/report.hpp>

#include <mha/explain/explain.hpp>
#include <mha/heads/measuring.hpp>
#include <mha/layer/first_tokens.hpp>
#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/packed_rows.hpp>
#include <mha/observe/pool.hpp>
#include <mha/observe/row_peaks.hpp>
#include <mha/observe/several.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// Keeps a token stage of one batch item in rows: T × width, heads side by side.
class TokenRows : public Observer {
public:
  TokenRows(const Layer& layer, Stage stage, std::size_t batch) : stage_(stage), batch_(batch) {
    const std::vector<Dim>& letters = info_of(stage).letters;
    const bool heads = letters.size() == 3;
    width_ = layer.dims.size_of(letters.back()) * (heads ? layer.dims.size_of(letters[0]) : 1);
    rows_ = Tensor(layer.dtype, {layer.dims.B, layer.dims.T, width_});
  }
  StageSet wants() const override { return set_of({stage_}); }
  void observe(const Slice& block) override {
    if (block.batch != batch_) return;
    const Tensor values = copy_of(block.values);
    const bool heads = values.rank() == 3;
    const std::size_t n = values.shape()[heads ? 1 : 0], d = values.shape().back();
    const std::size_t element = size_of(values.dtype());
    for (std::size_t h = 0; h < (heads ? values.shape()[0] : 1); ++h)
      for (std::size_t t = 0; t < n; ++t)
        std::copy_n(values.raw() + (h * n + t) * d * element, d * element,
                    rows_.raw_mutable() + ((batch_ * rows_.shape()[1] + block.token + t) * width_ +
                                           (block.head + h) * d) *
                                              element);
  }
  /// Row t of the item, as doubles.
  double at(std::size_t t, std::size_t i) const {
    return value_at(rows_, (batch_ * rows_.shape()[1] + t) * width_ + i);
  }
  std::size_t width() const { return width_; }

private:
  Stage stage_;
  std::size_t batch_, width_ = 0;
  Tensor rows_;
};

/// Lengths of what heads add, and their parts along the output.
class Contributions : public Observer {
public:
  Contributions(const Layer& layer, std::vector<std::size_t> heads, std::size_t batch,
                const TokenRows* output)
      : heads_(std::move(heads)), batch_(batch), output_(output) {
    const std::vector<float> unknown(layer.dims.T, std::numeric_limits<float>::quiet_NaN());
    parts_.assign(heads_.size(), {unknown, output ? unknown : std::vector<float>()});
  }
  StageSet wants() const override { return set_of({Stage::head_result}); }
  void observe(const Slice& block) override {
    const auto place = std::find(heads_.begin(), heads_.end(), block.head);
    if (block.batch != batch_ || place == heads_.end()) return;
    HeadContribution& part = parts_[static_cast<std::size_t>(place - heads_.begin())];
    const Tensor values = copy_of(block.values);
    const std::size_t n = values.shape()[1], d = values.shape()[2];
    for (std::size_t t = 0; t < n; ++t) {
      double square = 0, along = 0, whole = 0;
      for (std::size_t i = 0; i < d; ++i) {
        const double value = value_at(values, t * d + i);
        const double out = output_ ? output_->at(block.token + t, i) : 0;
        square += value * value, along += value * out, whole += out * out;
      }
      part.norm[block.token + t] = static_cast<float>(std::sqrt(square));
      if (output_ && whole > 0) part.share[block.token + t] = static_cast<float>(along / whole);
    }
  }
  std::vector<HeadContribution> take() { return std::move(parts_); }

private:
  std::vector<std::size_t> heads_;
  std::size_t batch_;
  const TokenRows* output_;
  std::vector<HeadContribution> parts_;
};

/// The stages whose rows a page shows, by their names there; those that the layer has.
std::map<std::string, Stage, std::less<>> forms_of(const Layer& layer, const StageSet& available) {
  std::map<std::string, Stage, std::less<>> forms;
  const auto put = [&](const char* name, std::initializer_list<Stage> stages) {
    if (const std::optional<Stage> stage = last_form(available, stages))
      forms.emplace(name, *stage);
  };
  put("weights", {Stage::weights});
  put("masked", {Stage::masked});
  // Where nothing stands between them, masked tells scores: they are divided by the scale.
  const bool between = layer.settings.softcap != 0 || !layer.added.empty() || !layer.bias.empty() ||
                       !layer.relative_bias.empty() || layer.settings.alibi != Alibi::none;
  if (between || !contains(available, Stage::masked)) put("scores", {Stage::scores});
  if (contains(available, Stage::scores)) {
    put("q", {Stage::q, Stage::q_norm, Stage::q_rope});
    put("k", {Stage::k, Stage::k_norm, Stage::k_rope, Stage::k_all});
  }
  put("v", {Stage::v, Stage::v_all});
  put("head_out", {Stage::head_out});
  return forms;
}

/// Bytes of a stage's rows of one item, unpacked.
std::size_t bytes_of(const Layer& layer, Stage stage, std::size_t element) {
  std::size_t bytes = element;
  for (Dim letter : info_of(stage).letters) bytes *= layer.dims.size_of(letter);
  return bytes;
}

/// The most cells along a side of a small map, and whether a page needs them: it draws them before
/// it unpacks a head.
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

/// Contributions and measures as text, and visible keys; in packed bytes, of which base64 makes
/// four out of three.
std::size_t text_bytes(const Dims& dims, std::size_t heads) {
  return (heads + 1) * dims.T * 14 + heads * 1100;
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

/// The limit without what is there in any case: text and pools.
std::size_t limit_for_rows(const Layer& layer, const ReportRequest& request, std::size_t heads) {
  const Dims& dims = layer.dims;
  const std::size_t pools =
      is_long(dims) ? std::min(dims.T, most_pools) * std::min(dims.S_all, most_pools) * 2 : 0;
  const std::size_t spent = text_bytes(dims, heads) + heads * pools;
  return request.limit > spent ? request.limit - spent : 0;
}

/// What is kept of a layer, and in which form.
struct Kept {
  std::vector<PackedRows::Target> targets;
  std::size_t limit = 0; ///< bytes that the packed weights may take
  /// Whether the weights are rounded, unless they pack to so little that they fit exactly.
  bool may_be_exact = false;
};
/// Deflating leaves this much of exact weights at best where half of them are hidden: what is more
/// is not even tried.
constexpr double least_packed = 0.3;

/// Everything exactly where it is small; else the weights exactly as long as they fit, then
/// rounded; what tells the steps rounded, as long as it takes a third.
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
      // Deflating makes an eighth of a map at best, rarely: then it is not even tried.
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

/// Whether the weights fit, however badly they pack.
bool fits_for_sure(const Layer& layer, const Kept& kept) {
  return std::ranges::any_of(kept.targets, [&](const PackedRows::Target& target) {
    const std::size_t number = target.form == RowForm::exact ? size_of(layer.dtype) : 2;
    return target.stage == Stage::weights &&
           bytes_of(layer, target.stage, number) +
                   bytes_of(layer, Stage::row_max, sizeof(RowScale)) <=
               kept.limit;
  });
}

/// The largest weights of each row, more than will fit: place and weight pack to three bytes at
/// best.
RowPeaks peaks_of(const Layer& layer, const ReportRequest& request,
                  const std::vector<std::size_t>& heads) {
  const std::size_t rows = layer.dims.T * heads.size();
  return {layer, heads, request.batch, std::clamp<std::size_t>(request.limit / (rows * 3), 1, 64)};
}

/// As many of them as fit beside what is packed already.
PackedStage largest_of(const RowPeaks& peaks, const LayerReport& report, std::size_t limit) {
  const std::size_t spent = text_bytes(report.dims, report.heads.size()) + packed_bytes(report);
  if (std::optional<PackedStage> largest = peaks.largest(limit - std::min(limit, spent)))
    return std::move(*largest);
  fail("{} queries of {} heads do not fit into the page's size, not even the largest weight of "
       "each; raise --max-size or select with --head",
       report.dims.T, report.heads.size());
}

/// Which keys are hidden: as runs, or as bits where they are not too many.
void add_hidden(const HiddenKeys& hidden, LayerReport& report, std::size_t limit) {
  report.visible = hidden.runs();
  if (!report.visible.empty()) return;
  std::optional<PackedStage> bits = hidden.bits();
  if (bits && packed_bytes(report) + packed_bytes(*bits) <= limit)
    report.stages.emplace("hidden", std::move(*bits));
}

/// What a page says about a layer, before anything is computed.
LayerReport described(const Layer& layer, const StageSet& available, const ReportRequest& request) {
  LayerReport report;
  if (layer.dims.batched) report.batch = request.batch;
  report.dtype = layer.dtype;
  report.dims = layer.dims;
  report.settings = layer.settings;
  report.scale = contains(available, Stage::scores) ? layer.scale() : 1;
  report.has_b_q = !layer.b_q.empty();
  report.has_W_o = !layer.W_o.empty();
  report.has_sinks = !layer.sinks.empty();
  report.given = layer.given_set;
  report.heads = resolved(request.selection.head, layer.dims.H, "heads").indices;
  report.tokens = layer.tokens_of(request.batch);
  report.keys = labels_of_keys(layer, request.batch);
  report.forms = forms_of(layer, available);
  return report;
}

/// For each chosen head, the place of the key/value head that it reads among the kept ones.
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

/// What the heads add. head_result needs the output beside it, so this is a second pass, which
/// starts at what the first one kept; the measures look on.
std::vector<HeadContribution> contributions_of(const Layer& layer, const LayerReport& report,
                                               const ReportRequest& request,
                                               HeadMeasuring& measuring,
                                               const std::optional<TokenRows>& output) {
  Contributions parts(layer, report.heads, request.batch, output ? &*output : nullptr);
  Several both;
  both.add(parts);
  both.add(*measuring.second());
  const Plan plan = make_plan(measuring.rest(), both.wants(), measuring.selection());
  compute(measuring.rest(), plan, both, request.threads);
  return parts.take();
}

std::vector<float> row_norms(const TokenRows& rows, std::size_t count) {
  std::vector<float> norms;
  for (std::size_t t = 0; t < count; ++t) {
    double square = 0;
    for (std::size_t i = 0; i < rows.width(); ++i) square += rows.at(t, i) * rows.at(t, i);
    norms.push_back(static_cast<float>(std::sqrt(square)));
  }
  return norms;
}

} // namespace

LayerReport report(const Layer& batch, const ReportRequest& asked) {
  const Layer layer = without_padding_of(batch, asked.batch);
  const StageSet available = available_stages(layer);
  if (!contains(available, Stage::weights))
    fail("nothing to show: a page is about weights, or what they are computed from; this layer has "
         "{}{}",
         available.none() ? std::string("no stages") : list_of(available), layer.missing_X);
  const Dims& dims = layer.dims;
  if (dims.T == 0 || dims.S_all == 0)
    fail("nothing to show: there are {} queries and {} keys", dims.T, dims.S_all);

  ReportRequest request = asked;
  LayerReport report = described(layer, available, request);
  request.limit = limit_for_rows(layer, asked, report.heads.size());
  Selection selection = request.selection;
  if (dims.batched) selection.batch = IndexList(std::to_string(request.batch), "--batch");

  Several all;
  const Kept kept = kept_of(layer, report, request);
  PackedRows rows(layer, kept.targets, selection, request.batch, kept.limit);
  all.add(rows);
  std::optional<PackedRows> exact;
  if (kept.may_be_exact)
    all.add(exact.emplace(layer, std::vector<PackedRows::Target>{{Stage::weights, RowForm::exact}},
                          selection, request.batch, kept.limit));
  std::optional<RowPeaks> peaks;
  if (!fits_for_sure(layer, kept)) all.add(peaks.emplace(peaks_of(layer, asked, report.heads)));
  std::optional<Pool> pool;
  if (is_long(dims))
    all.add(pool.emplace(layer, Stage::weights, selection, Pool::Size{most_pools, most_pools},
                         Pooling::max));
  HiddenKeys hidden(layer, report.heads, request.batch, asked.limit);
  all.add(hidden);
  std::optional<TokenRows> output;
  const bool results = contains(available, Stage::head_result);
  if (results && contains(available, Stage::output))
    all.add(output.emplace(layer, Stage::output, request.batch));
  MeasureRequest measured;
  measured.selection = selection, measured.threads = request.threads;
  HeadMeasuring measuring(layer, measured);
  all.add(measuring.first());
  const Plan plan = make_plan(layer, all.wants(), measuring.selection());
  compute(layer, plan, all, request.threads);
  measuring.end_first(plan);

  for (const auto& [name, stage] : report.forms)
    if (contains(rows.wants(), stage))
      if (std::optional<PackedStage> packed = rows.take(stage))
        report.stages.emplace(name, std::move(*packed));
  if (exact)
    if (std::optional<PackedStage> weights = exact->take(Stage::weights))
      report.stages.insert_or_assign("weights", std::move(*weights));
  if (report.stages.count("weights")) {
    peaks.reset();
  } else if (!peaks) { // deflating made them longer
    peaks.emplace(peaks_of(layer, asked, report.heads));
    compute(layer, make_plan(layer, peaks->wants(), selection), *peaks, request.threads);
  }
  if (hidden.any()) add_hidden(hidden, report, asked.limit);
  if (pool) report.stages.emplace("pooled", packed(*pool));
  if (peaks) report.stages.emplace("weights", largest_of(*peaks, report, asked.limit));
  report.kv_of = kv_places(layer, report, selection);
  if (results) report.contributions = contributions_of(layer, report, request, measuring, output);
  if (output) report.output_norm = row_norms(*output, dims.T);
  Ranks alone;
  LayerMeasures measures = measuring.finish(alone);
  report.measures = std::move(measures.heads), report.overflow = std::move(measures.overflow);
  return report;
}

} // namespace mha

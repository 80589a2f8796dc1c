#include "map_difference.hpp"

#include "describe.hpp"
#include "layer_options.hpp"
#include <mha/model/patcher.hpp>

#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

namespace mha::app {

namespace {

/// Whether a stage is zero where it is masked.
bool is_zero_where_masked(Stage stage) {
  return stage == Stage::weights || stage == Stage::exp;
}

void require_equal_sizes(const render::MapPanel& a, const render::MapPanel& b) {
  const auto size = [](const render::MapPanel& panel) {
    return fmt::format("{} × {}", panel.rows.positions.size(), panel.cols.positions.size());
  };
  if (size(a) != size(b))
    fail("--minus: a map of {} and one of {} differ in size: both need as many {} and {}; choose "
         "with --query and --key, or give texts of equal length",
         size(a), size(b), a.rows.name == "query" ? "queries" : "keys",
         a.cols.name == "key" ? "keys" : "queries");
}

} // namespace

bool MinusOptions::asked() const {
  return !sources.empty() || !texts.empty() || !ids.empty() || !patches.empty() || !layer.empty() ||
         head || batch;
}

RunRequest MinusOptions::request_of(const RunRequest& first) const {
  RunRequest request = first, other;
  other.sources = sources;
  move_settings_from_sources(other);
  if (!other.sources.empty()) request.sources = other.sources;
  for (const auto& setting : other.settings) {
    std::erase_if(request.settings, [&](const auto& one) { return one.first == setting.first; });
    request.settings.push_back(setting);
  }
  if (!layer.empty()) request.layer = layer;
  request.patches = patcher;
  if (texts.empty() && ids.empty()) return request;
  if (!first.has_text())
    fail("--minus-text needs a whole model with a text, but the first side has none; give it "
         "--text");
  request.text.texts = texts, request.text.ids = ids;
  request.text.files.clear(), request.text.each_line = false;
  return request;
}

Selection MinusOptions::selection_of(const Selection& first) const {
  Selection selection = first;
  if (head) selection.head = head;
  if (batch) selection.batch = batch;
  return selection;
}

std::string MinusOptions::title() const {
  std::vector<std::string> words;
  for (const std::string& source : sources) words.push_back(shown_path(source));
  if (!layer.empty()) words.push_back("layer " + layer);
  if (batch) words.push_back("batch " + batch->text());
  if (head) words.push_back("head " + head->text());
  for (const std::string& text : texts) words.push_back(fmt::format("'{}'", text));
  for (const std::string& list : ids) words.push_back("ids " + list);
  for (const std::string& patch : patches) words.push_back(patch == "none" ? "no patch" : patch);
  return " − " + render::shortened(render::visible(fmt::format("{}", fmt::join(words, ", "))), 60);
}

void add_minus(Cli& cli, MinusOptions& minus) {
  cli.group("A difference, in blue and red around 0: how the subtracted side differs");
  const auto add = [&](const char* name, const char* value, const char* help, auto set) -> Option& {
    Option option;
    option.name = name, option.value_name = value, option.help = help, option.repeats = true;
    option.set = std::move(set);
    return cli.add(std::move(option));
  };
  const auto indexes = [&](const char* name, const char* help, std::optional<IndexList>& target) {
    Option& option = add(name, "LIST", help,
                         [&target, name](const std::string& list) { target.emplace(list, name); });
    option.repeats = false, option.joins = true;
  };
  Option& sources = add("--minus", "SOURCE",
                        "another checkpoint or file, repeated for all of its sources; or a setting "
                        "of the layer: causal=false, also written --minus-causal false",
                        [&minus](const std::string& word) { minus.sources.push_back(word); });
  for (const SettingInfo& info : settings_table()) {
    std::string name = "--minus-" + std::string(info.name);
    std::ranges::replace(name, '_', '-');
    sources.families.emplace_back(std::move(name), std::string(info.name) + "=");
  }
  cli.check([&minus] {
    RunRequest other;
    other.sources = minus.sources;
    move_settings_from_sources(other); // reports errors before anything is computed
  });
  cli.value("--minus-layer", "LAYER", minus.layer, "another layer");
  indexes("--minus-head", "other heads, or one head to subtract from each", minus.head);
  indexes("--minus-batch", "another batch item", minus.batch);
  add("--minus-text", "WORDS", "another text with as many tokens",
      [&minus](const std::string& word) { minus.texts.push_back(word); });
  add("--minus-ids", "N,N…", "another text by its token numbers",
      [&minus](const std::string& word) { minus.ids.push_back(word); });
  add("--minus-patch", "PLACE=VALUE",
      "the run with this patch, written as for --patch; none: without the patches of --patch",
      [&minus](const std::string& word) {
        if (!minus.patcher) minus.patcher = std::make_shared<Patcher>();
        if (word != "none") minus.patcher->add(word);
        minus.patches.push_back(word);
      });
}

namespace {

/// Labels where the sides have different tokens show both: "king|queen".
void join_labels(render::MapAxis& axis, const render::MapAxis& minus) {
  if (axis.labels.size() != minus.labels.size()) return;
  for (std::size_t i = 0; i < axis.labels.size(); ++i)
    if (axis.labels[i] != minus.labels[i]) axis.labels[i] += "|" + minus.labels[i];
}

} // namespace

void subtract(std::vector<render::MapPanel>& panels, const std::vector<render::MapPanel>& other,
              Stage stage) {
  if (other.empty() || panels.size() % other.size() != 0)
    fail("--minus: {} and {} to subtract: the same number expected, or one; choose with --head and "
         "--minus-head",
         counted(panels.size(), "maps"), other.size());
  const bool zero = is_zero_where_masked(stage);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    render::MapPanel& panel = panels[i];
    const render::MapPanel& minus = other[i % other.size()];
    require_equal_sizes(panel, minus);
    join_labels(panel.rows, minus.rows), join_labels(panel.cols, minus.cols);
    for (std::size_t c = 0; c < panel.map.values.size(); ++c) {
      std::uint8_t& masked = panel.map.masked[c];
      const bool both = masked != 0 && minus.map.masked[c] != 0;
      const auto value = [&](const PooledMap& map) {
        return map.masked[c] == 0 ? map.values[c]
               : zero             ? 0
                                  : std::numeric_limits<double>::quiet_NaN();
      };
      const double difference = value(panel.map) - value(minus.map);
      masked = both || (!zero && (masked != 0 || minus.map.masked[c] != 0)) ? 1 : 0;
      panel.map.values[c] = masked ? std::numeric_limits<double>::quiet_NaN() : difference;
    }
  }
}

bool is_zero(const std::vector<render::MapPanel>& difference) {
  for (const render::MapPanel& panel : difference)
    for (std::size_t c = 0; c < panel.map.values.size(); ++c)
      if (panel.map.masked[c] == 0 && panel.map.values[c] != 0) return false;
  return true;
}

std::vector<render::MapPanel> mean_over_items(const std::vector<render::MapPanel>& panels) {
  std::vector<render::MapPanel> means;
  std::vector<std::vector<std::size_t>> counts;
  for (const render::MapPanel& panel : panels) {
    const auto same = std::ranges::find_if(means, [&](const render::MapPanel& mean) {
      return mean.layer == panel.layer && mean.map.head == panel.map.head;
    });
    const auto place = static_cast<std::size_t>(same - means.begin());
    if (same == means.end()) {
      means.push_back(panel);
      means.back().map.batch = 0;
      std::ranges::fill(means.back().map.values, 0.0);
      counts.emplace_back(panel.map.values.size());
    }
    render::MapPanel& mean = means[place];
    if (mean.rows.labels != panel.rows.labels) mean.rows.labels.clear();
    if (mean.cols.labels != panel.cols.labels) mean.cols.labels.clear();
    for (std::size_t c = 0; c < panel.map.values.size(); ++c)
      if (panel.map.masked[c] == 0) mean.map.values[c] += panel.map.values[c], ++counts[place][c];
  }
  for (std::size_t i = 0; i < means.size(); ++i)
    for (std::size_t c = 0; c < counts[i].size(); ++c) {
      means[i].map.masked[c] = counts[i][c] == 0 ? 1 : 0;
      means[i].map.values[c] = counts[i][c] == 0
                                   ? std::numeric_limits<double>::quiet_NaN()
                                   : means[i].map.values[c] / static_cast<double>(counts[i][c]);
    }
  return means;
}

void write_map_npy(const std::string& path, const std::vector<render::MapPanel>& panels,
                   std::size_t layers, bool one_head, Stage stage) {
  const std::size_t rows = panels[0].map.rows, cols = panels[0].map.cols;
  std::vector<double> values;
  for (const render::MapPanel& panel : panels) {
    if (panel.map.rows != rows || panel.map.cols != cols)
      fail("the maps differ in size and do not fit in one array; choose with --layer");
    for (std::size_t c = 0; c < panel.map.values.size(); ++c)
      values.push_back(
          panel.map.masked[c] != 0 && is_zero_where_masked(stage) ? 0 : panel.map.values[c]);
  }
  write_map_array(path, values, {layers, panels.size() / layers, rows, cols}, one_head);
}

void write_map_array(const std::string& path, const std::vector<double>& values, MapArray of,
                     bool one_head) {
  if (of.layers * of.heads * of.rows * of.cols != values.size())
    fail("the layers differ in their number of heads and do not fit in one array; choose with "
         "--head");
  Shape shape;
  if (of.layers > 1) shape.push_back(of.layers);
  if (!one_head || of.heads > 1) shape.push_back(of.heads);
  shape.push_back(of.rows), shape.push_back(of.cols);
  write_arrays(path, "npy", {{"map", Tensor::of<double>(shape, values)}});
}

} // namespace mha::app

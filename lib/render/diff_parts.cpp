#include <mha/render/diff_parts.hpp>

#include <mha/render/label.hpp>
#include <mha/render/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mha::render {

namespace {

/// " 'cat'" of an index that has a label, or "".
std::string label_text(const Coordinate& place) {
  return place.token ? fmt::format(" '{}'", shortened(readable(*place.token), 16)) : "";
}

/// "query 4", "queries 4–9".
std::string counted_ranges(std::string_view one, std::string_view several,
                           const IndexRanges& ranges) {
  return fmt::format("{} {}", count_of(ranges) == 1 ? one : several, text_of(ranges));
}

/// Whether the rows of a stage are keys.
bool rows_are_keys(Stage stage) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const bool of_heads = begins_with_heads(stage);
  return letters.size() > (of_heads ? 1 : 0) && axis_of(letters[of_heads ? 1 : 0]) == Axis::key;
}

std::string text_of_region(const Layer& layer, Stage stage, const Region& region) {
  std::vector<std::string> parts;
  if (layer.dims.batched && !region.all_items) parts.push_back("batch " + text_of(region.items));
  const bool heads = has_heads(layer, stage);
  if (heads && !region.all_heads) {
    const bool of_kv =
        axis_of(info_of(stage).letters[0]) == Axis::kv_head && layer.dims.H != layer.dims.H_kv;
    parts.push_back(counted_ranges(of_kv ? "key/value head" : "head",
                                   of_kv ? "key/value heads" : "heads", region.heads));
  }
  const bool keys = rows_are_keys(stage);
  if (has_rows(stage) && !region.all_rows)
    parts.push_back(counted_ranges(keys ? "key" : "query", keys ? "keys" : "queries", region.rows));
  if (has_rows(stage) && region.all_rows) parts.push_back(keys ? "all keys" : "all queries");
  if (heads && region.all_heads) parts.push_back("all heads");
  return joined_texts(parts, ", ");
}

} // namespace

std::vector<std::string> stage_names(const std::vector<Stage>& stages) {
  std::vector<std::string> names;
  for (Stage stage : stages) names.emplace_back(mha::name_of(stage));
  return names;
}

std::string place_text(const std::vector<Coordinate>& at) {
  return joined_texts(at, " ", [](const Coordinate& place) {
    return fmt::format("{} {}{}", place.word, place.index, label_text(place));
  });
}

std::string short_place(const Layer& layer, Stage stage, const std::vector<std::size_t>& at) {
  return joined_texts(coordinates_of(layer, stage, at), " ", [](const Coordinate& place) {
    return fmt::format("{}{}{}", place.word.starts_with("key/") ? "kv" : place.word.substr(0, 1),
                       place.index, label_text(place));
  });
}

std::string text_of(const IndexRanges& ranges) {
  return joined_texts(ranges, ", ", [](const IndexRange& one) {
    return one.first == one.last       ? std::to_string(one.first)
           : one.first + 1 == one.last ? fmt::format("{}, {}", one.first, one.last)
                                       : fmt::format("{}–{}", one.first, one.last);
  });
}

bool has_heads(const Layer& layer, Stage stage) {
  const Axis first = axis_of(info_of(stage).letters[0]);
  if (first == Axis::kv_head) return layer.dims.H_kv > 1;
  return layer.dims.H > 1 && (first == Axis::head || stage == Stage::concat);
}

std::string regions_text(const Layer& layer, Stage stage, const Difference& difference) {
  constexpr std::size_t most = 4;
  const Regions& regions = difference.regions;
  if (difference.within || regions.list.empty()) return "";
  std::string text = regions.exact ? "" : "scattered over ";
  for (std::size_t i = 0; i < regions.list.size() && i < most; ++i)
    text += (i > 0 ? "; " : "") + text_of_region(layer, stage, regions.list[i]);
  if (regions.list.size() > most)
    text +=
        fmt::format("; and {} more, which the machine formats list", regions.list.size() - most);
  return text;
}

std::string ulp_text(double distance) {
  if (!std::isfinite(distance)) return "∞";
  return distance < 1e5 ? fmt::format("{:.0f}", distance) : fmt::format("{:.1e}", distance);
}

std::string ulp_sentence(const Difference& difference, DType coarser) {
  const UlpCounts& ulp = difference.ulp;
  if (ulp.largest == 0) return "";
  const auto [one, two, eight] = ulp.beyond;
  if (one == 0) return fmt::format("no number beyond 1 ulp of {}.", mha::name_of(coarser));
  const std::string type(mha::name_of(coarser)), most = ulp_text(ulp.largest);
  const char* s = one == 1 ? "" : "s";
  if (one == eight)
    return fmt::format("{} number{} beyond 8 ulp of {}, at most {}.", one, s, type, most);
  return fmt::format("{} number{} beyond 1 ulp of {}, {} beyond 2, {} beyond 8, at most {}.", one,
                     s, type, two, eight, most);
}

namespace {

std::string times_text(const FromExact& exact) {
  return std::isfinite(exact.ratio) ? fmt::format("{:.2g}", exact.ratio) : "∞";
}

} // namespace

std::vector<Table::Column> exact_columns() {
  return {{"ours − f64", true}, {"ref − f64", true}, {"ratio", true}};
}

std::vector<std::string> exact_cells(const std::optional<FromExact>& exact) {
  if (!exact) return {"", "", ""};
  return {fmt::format("{:.2g}", exact->ours), fmt::format("{:.2g}", exact->theirs),
          times_text(*exact)};
}

std::string exact_sentence(std::string_view stage, const FromExact& exact) {
  const bool beyond = exact.ratio > 1;
  return fmt::format("Measured against float64, the reference's error in {} is {} times {} {} "
                     "rounding explains{}.",
                     stage, times_text(exact), beyond ? "what" : "the most that",
                     mha::name_of(exact.precision),
                     exact.is_rounding ? ": rounding"
                     : beyond          ? ": more than rounding"
                                       : "");
}

std::string coverage_text(const Coverage& coverage, const TextStyle& text_style) {
  std::string text = fmt::format("compared: {}", coverage.compared());
  if (const std::vector<std::string> left = coverage.not_compared(); !left.empty())
    text += fmt::format("; not compared: {}", fmt::join(left, ", "));
  if (const std::vector<std::string> left = coverage.skipped(); !left.empty())
    text += fmt::format("; skipped: {}", fmt::join(left, ", "));
  std::string out;
  for (const std::string& line : wrapped(visible(text), text_style.width))
    out += text_style.dim(line) + "\n";
  return out;
}

} // namespace mha::render

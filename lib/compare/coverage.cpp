#include <mha/compare/coverage.hpp>

#include <mha/compare/capture_names.hpp>
#include <mha/files/text.hpp>
#include <mha/layer/stage.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace mha {

namespace {

/// "layers.N.mlp" of "layers.3.mlp", "Qcur-N" of "Qcur-3", so that tensors of all layers share a
/// line. Numbers in sizes and file names stay ("out.3/ref.npz: …").
std::string without_numbers(const std::string& text) {
  const auto digit_at = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
  const auto one_of_at = [&](std::size_t i, std::string_view these) {
    return i < text.size() && these.find(text[i]) != std::string_view::npos;
  };
  const auto follows_layer_word = [&](std::size_t i) { // "model_layers_3_mlp"
    const std::size_t word = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz", i - 2) + 1;
    return text[i - 1] == '_' && i > 1 && is_layer_word(text.substr(word, i - 1 - word));
  };
  std::string out;
  bool file = false; // whether the word is a file's name
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || text[i - 1] == ' ') file = text.substr(i, text.find(' ', i) - i).ends_with(':');
    if (file || !digit_at(i) || i == 0 || (!one_of_at(i - 1, ".-[/") && !follows_layer_word(i))) {
      out += text[i];
      continue;
    }
    std::size_t last = i;
    while (digit_at(last)) ++last;
    const bool whole = last == text.size() || one_of_at(last, "./], ):") || text[i - 1] == '_';
    out += whole ? "N" : text.substr(i, last - i);
    i = last - 1;
  }
  return out;
}

} // namespace

std::string ranges_of(const std::vector<std::string>& layers) {
  std::string text;
  const auto number = [&](std::size_t i) { return parse_number<std::size_t>(layers[i]); };
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && number(last) && number(last + 1) == *number(last) + 1)
      ++last;
    text += text.empty() ? "" : ", ";
    text += last == i       ? layers[i]
            : last == i + 1 ? layers[i] + ", " + layers[last]
                            : layers[i] + "–" + layers[last];
    i = last + 1;
  }
  return text;
}

void Coverage::add(const std::string& id, const std::vector<Stage>& compared,
                   const Reference& reference) {
  for (Stage stage : compared) layers_[stage].push_back(id);
  lacks_steps_ = lacks_steps_ || !reference.not_compared.empty();
  misshapen_ = misshapen_ || reference.has_misshapen();
  std::vector<std::string> meant;
  for (const NotCompared& tensor : reference.not_compared) meant.push_back(tensor.text());
  count(meant, not_compared_);
  count(reference.skipped, skipped_);
  count(reference.notes, notes_);
}

void Coverage::remove(const std::string& id, Stage stage) {
  const auto layers = layers_.find(stage);
  if (layers == layers_.end()) return;
  std::erase(layers->second, id);
  if (layers->second.empty()) layers_.erase(layers);
}

void Coverage::count(const std::vector<std::string>& texts, Counts& counts) {
  for (const std::string& original : texts) {
    const std::string text = without_numbers(original);
    const auto at =
        std::ranges::find_if(counts, [&](const Counted& known) { return known.text == text; });
    if (at == counts.end())
      counts.push_back({text, original});
    else
      ++at->times;
  }
}

std::vector<std::string> Coverage::counted(const Counts& counts) {
  std::vector<std::string> list;
  for (const Counted& text : counts)
    list.push_back(text.times == 1 ? text.first : fmt::format("{} × {}", text.text, text.times));
  return list;
}

std::string Coverage::compared() const {
  std::vector<std::pair<std::vector<std::string>, std::string>> groups;
  for (const auto& [stage, layers] : layers_) {
    const auto at = std::ranges::find_if(
        groups, [&, &ids = layers](const auto& group) { return group.first == ids; });
    if (at == groups.end())
      groups.emplace_back(layers, std::string(name_of(stage)));
    else
      at->second += fmt::format(", {}", name_of(stage));
  }
  std::string text;
  for (const auto& [layers, stages] : groups) {
    text += text.empty() ? "" : "; ";
    text += stages;
    if (!layers[0].empty())
      text += fmt::format(" of layer{} {}", layers.size() == 1 ? "" : "s", ranges_of(layers));
  }
  return text;
}

std::string Coverage::rest_in_words() const {
  std::vector<std::string> left = not_compared();
  std::ranges::copy(skipped(), std::back_inserter(left));
  if (left.empty()) return "";
  return fmt::format(", but {}{}", io::shown(left[0]),
                     left.size() > 1 ? fmt::format(" and {} more", left.size() - 1) : "");
}

void fail_without_stage(const std::string& against, std::string_view of, const Coverage& coverage) {
  fail("<against> {}: no stage of this {} is in it{}: layers.N.STAGE, hidden_states, embed, final "
       "or "
       "logits expected, of this text",
       against, of, coverage.rest_in_words());
}

} // namespace mha

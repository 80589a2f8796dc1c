// A model's sizes under the spellings that other families have for them: beside the family's own,
// and alone.

#include "support/files.hpp"
#include "support/model_outcome.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/family.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

using namespace mha;
using namespace mha::test;

namespace {

std::vector<std::string> new_notes(const Outcome& now, const Outcome& whole) {
  std::vector<std::string> notes;
  for (const std::string& note : now.notes)
    if (!whole.notes.contains(note)) notes.push_back(note);
  return notes;
}

/// The key without the section that it stands in, and the section: "text_config.".
std::pair<std::string, std::string> parted(const std::string& key) {
  for (std::string_view section : naming::text_sections)
    if (key.starts_with(section)) return {key.substr(section.size()), std::string(section)};
  return {key, ""};
}

} // namespace

TEST_CASE("a size under another family's spelling agrees, is refused, is left over, or is read",
          "[model]") {
  const Folder folder;
  const std::vector<std::string> names{
      "gpt2",    "nanogpt",    "llama3.1",      "mistral", "qwen2",         "qwen3",
      "phi3",    "gemma",      "gemma2",        "gemma3",  "albert",        "bert",
      "roberta", "distilbert", "gemma3-nested", "tl-ln",   "neox-parallel", "tl-rms-gated"};
  std::string list;
  for (const std::string& name : names) list += " " + name;
  if (const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder.path() + list);
      made.code != 0) {
    WARN("no NumPy, so no models: " << made.err);
    return;
  }
  Share share(11);
  std::size_t tried = 0;
  for (const std::string& name : names) {
    const io::Contents model = io::open(folder.path(name));
    const Outcome whole = compute_text(model);
    REQUIRE(whole.refusal.empty());
    for (const auto& [key, value] : model.config) {
      const auto [own, section] = parted(key);
      if (model.config.contains("text_config.hidden_size") && section.empty()) continue;
      if (value == "null" || naming::size_spellings(own).empty()) continue;
      const std::string other = std::to_string(std::stoul(value) + 1);
      for (std::string_view spelling : naming::size_spellings(own)) {
        const std::string second = section + std::string(spelling);
        if (model.config.contains(second)) continue;
        if (!share.takes(name)) continue;
        ++tried;
        INFO(name << ": " << key << " " << value << ", " << second);
        io::Contents with = copy_of(model);
        with.config[second] = value; // the same, once more
        const Outcome same = compute_text(with);
        CHECK(same.refusal == "");
        CHECK(same.bits == whole.bits);
        CHECK(new_notes(same, whole).empty());

        with.config[second] = other;
        // The family's own counts, and the other is reported; Transformers' general names are every
        // family's own.
        const Outcome contradicted = compute_text(with);
        CHECK(contradicted.says(std::string(spelling)));
        CHECK((!contradicted.refusal.empty() || contradicted.bits == whole.bits));

        with.config.erase(key); // alone, and wrong
        const Outcome wrong = compute_text(with);
        // GPT-2 and DistilBERT have both words: then it is another model, as config.json asks.
        CHECK((wrong.says(std::string(spelling)) || !wrong.refusal.empty() ||
               wrong.bits != whole.bits));

        with.config[second] = value; // alone
        const Outcome alone = compute_text(with);
        CHECK(alone.refusal == "");
        CHECK(alone.bits == whole.bits);
      }
    }
  }
  CHECK(tried > share.of(200));
}

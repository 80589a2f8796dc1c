// Whole models with one thing wrong: each tensor and each setting is removed, added, resized and
// renamed, one at a time, over a tiny model of every family. What happens is an error, a warning,
// or is known to make no difference; never silently another model. The names are those of the tiny
// model and those that the family's reading asked for, which the reader records itself.

#include "support/files.hpp"
#include "support/model_outcome.hpp"
#include "support/run.hpp"

#include <mha/load/families/unread_settings.hpp>
#include <mha/load/leftovers.hpp>
#include <mha/load/whole_model.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

using namespace mha;
using namespace mha::test;

namespace {

/// What a family's reading asked for, and what it took.
struct Asked {
  std::set<std::string> settings, tensors, used;
};
Asked asked_of(io::Contents model) {
  for (const naming::Family* family : naming::families())
    if (family->present) family->present(model, model.config); // ALBERT's shared layers
  const std::vector<naming::Found> found = naming::find_layers(model, model.config, "");
  const WholeModel whole(found);
  std::vector<const naming::Found*> layers;
  for (const std::string& id : whole.layers())
    for (const naming::Found& layer : found)
      if (layer.id == id) layers.push_back(&layer);
  leftovers_of(layers, {});
  const naming::Reads& reads = *layers[0]->group.reads;
  const auto settings = reads.settings(), tensors = reads.tensors();
  Asked asked{{settings.begin(), settings.end()}, {tensors.begin(), tensors.end()}, {}};
  for (const io::Entry& entry : model.tensors) // under their names in the file
    if (reads.used(entry.name))
      asked.used.insert(entry.own_name.empty() ? entry.name : entry.own_name);
  return asked;
}

/// How often each outcome was met.
struct Counts {
  std::map<std::string, std::size_t> of;
  std::size_t all() const {
    std::size_t sum = 0;
    for (const auto& [outcome, count] : of) sum += count;
    return sum;
  }
};

class Mutations {
public:
  Mutations(io::Contents model, Counts& counts)
      : model_(std::move(model)), whole_(compute_text(model_)), counts_(counts) {
    INFO(whole_.refusal);
    REQUIRE(whole_.refusal.empty());
    asked_ = asked_of(model_);
  }

  const Asked& asked() const { return asked_; }

  void tensors() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const io::Entry& entry = model_.tensors[i];
      const bool used = asked_.used.contains(entry.name);
      io::Contents without = copy();
      without.tensors.erase(without.tensors.begin() + static_cast<std::ptrdiff_t>(i));
      // What no stage needs may be lost; another head or a buffer is none of the model's.
      judge("tensor removed: " + entry.name, without, !used || is_buffer(entry.name));
      io::Contents renamed = copy();
      renamed.tensors[i].name += "_x";
      judge("tensor renamed: " + entry.name, renamed, is_of_other_part(entry.name));
      if (entry.shape.empty()) continue;
      for (std::size_t axis = 0; axis < entry.shape.size(); ++axis)
        for (const std::size_t size : {entry.shape[axis] + 1, std::size_t{1}}) {
          if (size == entry.shape[axis]) continue;
          io::Contents resized = copy();
          Shape shape = entry.shape;
          shape[axis] = size;
          resized.tensors[i] = entry_of(entry.name, entry.dtype, shape);
          judge(fmt::format("tensor resized: {} to {}", entry.name, to_string(shape)), resized,
                !used || is_buffer(entry.name));
        }
    }
  }

  /// Tensors that the reading asked for in vain, as wide as the model's vectors.
  void added_tensors() {
    for (const std::string& name : asked_.tensors) {
      if (model_.find(name)) continue;
      for (const Shape& shape : {Shape{width()}, Shape{width(), width()}}) {
        io::Contents with = copy();
        with.tensors.push_back(entry_of(name, model_.tensors[0].dtype, shape));
        judge("tensor added: " + name, with, false);
      }
    }
  }

  void settings() {
    for (const auto& [key, value] : model_.config) {
      io::Contents without = copy();
      without.config.erase(key);
      judge_setting("setting removed: " + key, key, without);
      io::Contents renamed = copy();
      renamed.config.erase(key);
      renamed.config[key + "_x"] = value;
      judge_setting("setting renamed: " + key, key, renamed, is_elsewhere(key));
      for (const std::string other : {"3", "true", "false", "other", "null"}) {
        if (other == value) continue;
        io::Contents with = copy();
        with.config[key] = other;
        judge_setting("setting " + key + " = " + other, key, with);
      }
    }
  }

  void added_settings(const std::set<std::string>& keys) {
    for (const std::string& key : keys) {
      if (model_.config.contains(key)) continue;
      for (const std::string value : {"3", "true", "false", "other"}) {
        io::Contents with = copy();
        with.config[key] = value;
        judge_setting("setting added: " + key + " = " + value, key, with);
      }
    }
  }

private:
  io::Contents copy() const { return copy_of(model_); }
  std::size_t width() const {
    for (const char* key : {"hidden_size", "n_embd", "d_model", "dim", "text_config.hidden_size"})
      if (const auto at = model_.config.find(key); at != model_.config.end())
        return std::stoul(at->second);
    return 8;
  }
  /// A causal mask and what it fills in; a copy of the embedding that the head is tied to.
  static bool is_buffer(const std::string& name) {
    return name.ends_with("lm_head.weight") || name.ends_with("vocab_projector.weight") ||
           name == "predictions.decoder.weight" ||
           name.ends_with("attn.bias") || name.ends_with("attention.bias") ||
           name.ends_with("masked_bias") || name.ends_with("inv_freq");
  }
  static bool is_of_other_part(const std::string& name) {
    return name.find("vision") != std::string::npos || name.starts_with("multi_modal") ||
           name.find("pooler.") != std::string::npos || name.starts_with("sop_classifier.");
  }
  /// A key outside of the text model's section.
  bool is_elsewhere(const std::string& key) const {
    return model_.config.contains("text_config.hidden_size") && !key.starts_with("text_config.");
  }

  std::string outcome_of(const io::Contents& contents, bool& same) {
    const Outcome now = compute_text(contents);
    same = now.bits == whole_.bits;
    if (!now.refusal.empty()) {
      CHECK(now.refusal.find('\n') == std::string::npos);
      return "refused";
    }
    const bool said = std::ranges::any_of(
        now.notes, [&](const std::string& note) { return !whole_.notes.contains(note); });
    return said ? "warned" : "";
  }

  void judge(const std::string& what, const io::Contents& contents, bool may_be_silent) {
    bool same = false;
    std::string outcome = outcome_of(contents, same);
    INFO(model_.name << ": " << what);
    if (outcome.empty()) {
      outcome = "no difference";
      CHECK(same);
      CHECK(may_be_silent);
    }
    ++counts_.of[outcome];
  }

  /// A setting that is read gives another model, as config.json says; one that changes no number is
  /// known not to, or was asked for and is at rest.
  void judge_setting(const std::string& what, const std::string& key, const io::Contents& contents,
                     bool may_be_silent = false) {
    bool same = false;
    std::string outcome = outcome_of(contents, same);
    std::string own = key;
    for (std::string_view section : naming::text_sections)
      if (own.starts_with(section)) own.erase(0, section.size());
    INFO(model_.name << ": " << what);
    if (outcome.empty() && !same) {
      outcome = "read: another model, as config.json says";
      CHECK(asked_.settings.contains(own));
    } else if (outcome.empty()) {
      outcome = "no difference";
      const auto at = contents.config.find(key);
      const std::string value = at == contents.config.end() ? "null" : at->second;
      const bool ignored = naming::is_ignored_setting(own, value) || is_elsewhere(key);
      if (!ignored) at_rest.insert(what);
      CHECK((ignored || may_be_silent || asked_.settings.contains(own)));
    }
    ++counts_.of[outcome];
  }

public:
  std::set<std::string> at_rest; ///< silent without being ignored

private:
  io::Contents model_;
  Outcome whole_;
  Asked asked_;
  Counts& counts_;
};

} // namespace

TEST_CASE("models with one tensor or setting changed are never silently others", "[model]") {
  const Folder folder;
  const std::vector<std::string> names{"gpt2",   "nanogpt", "llama3.1",      "mistral",
                                       "qwen2",  "qwen3",   "phi3",          "gemma",
                                       "gemma2", "gemma3",  "gemma3-nested", "neox-parallel",
                                       "bert",   "roberta", "distilbert",    "albert",
                                       "tl-ln",  "tl-rms-gated"};
  std::string list;
  for (const std::string& name : names) list += " " + name;
  const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder.path() + list);
  if (made.code != 0) {
    WARN("no NumPy, so no models: " << made.err);
    return;
  }
  std::set<std::string> settings; // of all families
  std::vector<io::Contents> models;
  for (const std::string& name : names) {
    models.push_back(io::open(folder.path(name)));
    const Asked asked = asked_of(models.back());
    settings.insert(asked.settings.begin(), asked.settings.end());
  }
  Counts counts;
  for (const io::Contents& model : models) {
    Mutations mutations(model, counts);
    mutations.tensors();
    mutations.added_tensors();
    mutations.settings();
    mutations.added_settings(settings);
    if (std::getenv("MHA_SHOW_AT_REST"))
      for (const std::string& what : mutations.at_rest)
        std::cout << model.name.substr(model.name.rfind('/') + 1) << ": " << what << "\n";
  }
  std::string told;
  for (const auto& [outcome, count] : counts.of) told += fmt::format("; {} {}", count, outcome);
  std::cout << counts.all() << " changed models" << told << "\n";
  CHECK(counts.all() > 5000);
}

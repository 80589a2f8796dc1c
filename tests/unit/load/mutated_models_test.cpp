// Whole models with one thing wrong: each tensor and each setting is removed, added, resized and
// renamed, one at a time, over a tiny model of every family. What happens is an error, a warning,
// or is known to make no difference; never silently another model. The names are those of the tiny
// model and those that the family's reading asked for, which the reader records itself.

#include "support/files.hpp"
#include "support/model_outcome.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <mha/load/families/unread_settings.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

using namespace mha;
using namespace mha::test;

namespace {

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
  Mutations(io::Contents model, Share& share, Counts& counts)
      : model_(std::move(model)), whole_(compute_text(model_)), share_(share), counts_(counts) {
    INFO(whole_.refusal);
    REQUIRE(whole_.refusal.empty());
    asked_ = asked_of(model_);
  }

  const Asked& asked() const { return asked_; }

  void tensors() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const io::Entry& entry = model_.tensors[i];
      const bool used = asked_.used.contains(entry.name);
      // What no stage needs may be lost; another head or a buffer is none of the model's.
      judge(
          "tensor removed: " + entry.name,
          [&](io::Contents& without) {
            without.tensors.erase(without.tensors.begin() + static_cast<std::ptrdiff_t>(i));
          },
          !used || is_buffer(entry.name) || has_twin(entry.name));
      judge(
          "tensor renamed: " + entry.name,
          [&](io::Contents& renamed) { renamed.tensors[i].name += "_x"; },
          is_of_other_part(entry.name));
      if (entry.shape.empty()) continue;
      for (std::size_t axis = 0; axis < entry.shape.size(); ++axis)
        for (const std::size_t size : {entry.shape[axis] + 1, std::size_t{1}}) {
          if (size == entry.shape[axis]) continue;
          Shape shape = entry.shape;
          shape[axis] = size;
          judge(
              fmt::format("tensor resized: {} to {}", entry.name, to_string(shape)),
              [&](io::Contents& resized) {
                resized.tensors[i] = entry_of(entry.name, entry.dtype, shape);
              },
              !used || is_buffer(entry.name));
        }
    }
  }

  /// The same numbers in other axes: (n), (1, n), (n, 1); (m, n) transposed, as one row, with an
  /// axis of 1 before and after. A tensor that no axis is wrong for has the same numbers.
  void reshaped_tensors() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const io::Entry& entry = model_.tensors[i];
      const Shape& own = entry.shape;
      std::vector<Shape> shapes{{count_of(own)}};
      for (const bool before : {true, false}) {
        Shape shape = own;
        shape.insert(before ? shape.begin() : shape.end(), 1);
        shapes.push_back(shape);
      }
      shapes.emplace_back(own.rbegin(), own.rend());
      for (const Shape& shape : shapes) {
        if (shape == own) continue;
        judge(
            fmt::format("tensor reshaped: {} to {}", entry.name, to_string(shape)),
            [&](io::Contents& reshaped) {
              io::Entry& other = reshaped.tensors[i];
              other.shape = shape;
              other.read = [read = entry.read, shape] { return read().reshaped(shape); };
            },
            true); // with the same numbers
      }
    }
  }

  /// Another type: the same number in another precision, and no weight as whole numbers or flags.
  void typed_tensors() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const io::Entry& entry = model_.tensors[i];
      if (!is_floating(entry.dtype)) continue;
      const bool idle = !asked_.used.contains(entry.name) || is_buffer(entry.name);
      for (const DType dtype :
           {DType::f64, DType::i8, DType::u8, DType::i32, DType::i64, DType::u64, DType::boolean}) {
        const bool is_number = dtype == DType::f64;
        if (is_number && sets_precision(entry.name)) continue;
        judge(
            fmt::format("tensor as {}: {}", name_of(dtype), entry.name),
            [&](io::Contents& typed) {
              io::Entry& other = typed.tensors[i];
              other.dtype = dtype;
              other.read = [read = entry.read, dtype] { return convert(read(), dtype); };
            },
            idle || is_number);
      }
    }
  }

  /// Two tensors of a layer with each other's names, where their shapes differ.
  void exchanged_tensors() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i)
      for (std::size_t j = i + 1; j < std::min(i + 12, model_.tensors.size()); ++j) {
        const io::Entry &one = model_.tensors[i], &other = model_.tensors[j];
        if (one.shape == other.shape) continue;
        const auto idle = [&](const io::Entry& entry) {
          return !asked_.used.contains(entry.name) || is_buffer(entry.name);
        };
        judge(
            fmt::format("tensors exchanged: {} and {}", one.name, other.name),
            [&](io::Contents& exchanged) {
              std::swap(exchanged.tensors[i].name, exchanged.tensors[j].name);
            },
            idle(one) && idle(other));
      }
  }

  /// Tensors that the reading asked for in vain, as wide as the model's vectors.
  void added_tensors() {
    for (const std::string& name : asked_.tensors) {
      if (model_.find(name)) continue;
      for (const Shape& shape : {Shape{width()}, Shape{width(), width()}})
        judge(
            "tensor added: " + name,
            [&](io::Contents& with) {
              with.tensors.push_back(entry_of(name, model_.tensors[0].dtype, shape));
            },
            false);
    }
  }

  void settings() {
    for (const auto& setting : model_.config) {
      const std::string &key = setting.first, &value = setting.second; // lambdas hold these
      judge_setting("setting removed: " + key, key,
                    [&](io::Contents& without) { without.config.erase(key); });
      judge_setting(
          "setting renamed: " + key, key,
          [&](io::Contents& renamed) {
            renamed.config.erase(key);
            renamed.config[key + "_x"] = value;
          },
          is_elsewhere(key));
      for (const std::string other : {"3", "true", "false", "other", "null"})
        if (other != value)
          judge_setting("setting changed: " + key + " = " + other, key,
                        [&](io::Contents& with) { with.config[key] = other; });
    }
  }

  void added_settings(const std::set<std::string>& keys) {
    for (const std::string& key : keys) {
      if (model_.config.contains(key)) continue;
      for (const std::string value : {"3", "true", "false", "other"})
        judge_setting("setting added: " + key + " = " + value, key,
                      [&](io::Contents& with) { with.config[key] = value; });
    }
  }

private:
  bool takes(const std::string& what) { return share_.takes(what.substr(0, what.find(':'))); }
  template <class Change> io::Contents changed(const Change& change) const {
    io::Contents contents = copy_of(model_);
    change(contents);
    return contents;
  }
  std::size_t width() const {
    for (const char* key : {"hidden_size", "n_embd", "d_model", "dim", "text_config.hidden_size"})
      if (const auto at = model_.config.find(key); at != model_.config.end())
        return std::stoul(at->second);
    return 8;
  }
  /// The table of tokens, in whose precision a model is computed.
  static bool sets_precision(const std::string& name) {
    for (const char* table : {"wte.weight", "embed_tokens.weight", "word_embeddings.weight",
                              "embed_in.weight", "embed.W_E"})
      if (name.ends_with(table)) return true;
    return false;
  }
  /// A causal mask and what it fills in; a copy of the embedding that the head is tied to.
  static bool is_buffer(const std::string& name) {
    return name.ends_with("lm_head.weight") || name.ends_with("vocab_projector.weight") ||
           name == "predictions.decoder.weight" || name.ends_with(".attn.bias") ||
           name.ends_with(".attention.bias") || name.ends_with("masked_bias") ||
           name.ends_with("inv_freq");
  }
  static bool is_of_other_part(const std::string& name) {
    return name.find("vision") != std::string::npos || name.starts_with("multi_modal") ||
           name.find("pooler.") != std::string::npos || name.starts_with("sop_classifier.");
  }
  /// ALBERT's file has the bias of its logits under two names.
  static bool has_twin(const std::string& name) { return name == "predictions.bias"; }
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

  template <class Change>
  void judge(const std::string& what, const Change& change, bool may_be_silent) {
    if (!takes(what)) return;
    bool same = false;
    std::string outcome = outcome_of(changed(change), same);
    INFO(model_.name << ": " << what);
    if (outcome.empty()) {
      outcome = "no difference";
      CHECK(same);
      CHECK(may_be_silent);
    }
    ++counts_.of[outcome];
  }

  /// A setting that is read gives another model, as config.json asks; one that changes no number is
  /// known not to, or was asked for and is at rest.
  template <class Change> void judge_setting(const std::string& what, const std::string& key,
                                             const Change& change, bool may_be_silent = false) {
    if (!takes(what)) return;
    const io::Contents contents = changed(change);
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
  Share& share_;
  Counts& counts_;
};

} // namespace

TEST_CASE("models with one tensor or setting changed are never silently others", "[model]") {
  const Folder folder;
  const std::vector<std::string> names = make_tiny_models(folder.path());
  if (names.empty()) return;
  std::set<std::string> settings; // of all families
  std::vector<io::Contents> models;
  for (const std::string& name : names) {
    models.push_back(io::open(folder.path(name)));
    const Asked asked = asked_of(models.back());
    settings.insert(asked.settings.begin(), asked.settings.end());
  }
  Share share(61);
  Counts counts;
  for (const io::Contents& model : models) {
    Mutations mutations(model, share, counts);
    mutations.tensors();
    mutations.reshaped_tensors();
    mutations.typed_tensors();
    mutations.exchanged_tensors();
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
  CHECK(counts.all() > share.of(5000));
}

// Settings of config.json whose value is of another type than the setting's, or no number that it
// may have: over every setting that the reading of each tiny model asked for, in the file or not.
// What is of a wrong type is refused, warned of, or makes no difference. What is a number gives the
// model that config.json describes only where the setting is a real number.

#include "support/files.hpp"
#include "support/model_outcome.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <mha/formats/folder.hpp>
#include <mha/load/families/unread_settings.hpp>

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>

using namespace mha;
using namespace mha::test;
using nlohmann::json;

namespace {

/// How a value stands to the one that the setting has.
enum class Meaning {
  same,   ///< another way to write it
  number, ///< one that a real number may have
  wrong,  ///< of another type
};
struct Value {
  json value;
  Meaning meaning;
};

json number(const char* text) {
  return json::parse(text);
}

/// What may stand in the place of a value that is there.
std::vector<Value> instead_of(const json& old) {
  std::vector<Value> values{{json::array(), Meaning::wrong},
                            {json::object(), Meaning::wrong},
                            {json{{"a", old}}, Meaning::wrong},
                            {json::array({json::array({old})}), Meaning::wrong}};
  const auto add = [&](const json& value, Meaning meaning) { values.push_back({value, meaning}); };
  if (old.is_array()) {
    add(old.empty() ? json(7) : old[0], Meaning::wrong);
    add(old.dump(), Meaning::wrong);
    return values;
  }
  add(json::array({old}), Meaning::wrong), add(json::array({old, old}), Meaning::wrong);
  if (old.is_number()) {
    add(old.dump(), Meaning::wrong), add(true, Meaning::wrong), add("", Meaning::wrong);
    if (old.is_number_integer()) add(old.get<double>(), Meaning::same);
    for (const char* text : {"0", "0.5", "-1", "1e99", "18446744073709551616", "9007199254740993"})
      add(number(text), Meaning::number);
    add(old.get<double>() + 0.5, Meaning::number);
  } else if (old.is_boolean()) {
    add(old.dump(), Meaning::wrong), add(old.get<bool>() ? "True" : "False", Meaning::wrong);
    add(2, Meaning::wrong), add(0.5, Meaning::wrong);
  } else if (old.is_string()) {
    add(3, Meaning::wrong), add(true, Meaning::wrong), add("", Meaning::wrong);
  }
  return values;
}

/// What a setting that the file does not have may be.
std::vector<Value> added() {
  return {{json::array({2}), Meaning::wrong}, {"2", Meaning::wrong},
          {"true", Meaning::wrong},           {json::array({true}), Meaning::wrong},
          {json{{"a", 2}}, Meaning::wrong},   {json::array({json::array({2})}), Meaning::wrong},
          {number("-1"), Meaning::number},    {number("2.5"), Meaning::number},
          {number("1e99"), Meaning::number},  {number("18446744073709551616"), Meaning::number}};
}

/// Settings that are real numbers: another one is another model, as config.json asks.
constexpr std::string_view real[]{"rope_theta",
                                  "rope_local_base_freq",
                                  "rotary_base",
                                  "rotary_emb_base",
                                  "factor",
                                  "attention_factor",
                                  "low_freq_factor",
                                  "high_freq_factor",
                                  "partial_rotary_factor",
                                  "original_max_position_embeddings",
                                  "attn_scale",
                                  "query_pre_attn_scalar",
                                  "attn_scores_soft_cap",
                                  "output_logits_soft_cap",
                                  "attn_logit_softcapping",
                                  "final_logit_softcapping"};
/// Numbers of a token and of dimensions, of which 0 is one.
constexpr std::string_view may_be_0[]{"pad_token_id", "rotary_dim"};

bool may_be(const json& value, const std::string& key) {
  const std::string own = key.substr(key.rfind('.') + 1);
  const auto in = [&](const auto& list) { return std::ranges::find(list, own) != std::end(list); };
  return in(real) || own.find("eps") != std::string::npos || (value == 0 && in(may_be_0));
}

class WrongTypes {
public:
  WrongTypes(const std::string& folder, Share& share, std::map<std::string, std::size_t>& counts)
      : model_(io::open(folder)),
        whole_(compute_text(model_)),
        asked_(asked_of(model_)),
        share_(share),
        counts_(counts) {
    REQUIRE(whole_.refusal.empty());
    std::ifstream file(folder + "/config.json");
    config_ = json::parse(file);
    section_ = config_.contains("text_config") ? "/text_config" : "";
  }

  void run() {
    for (const std::string& key : asked_.settings) {
      std::string path = section_ + "/" + key;
      std::ranges::replace(path, '.', '/');
      const json::json_pointer place(path);
      const bool there = config_.contains(place);
      const json old = there ? config_[place] : json();
      if (old.is_object()) continue; // its members are asked for
      for (const Value& one : there && !old.is_null() ? instead_of(old) : added()) {
        if (!share_.takes(model_.name)) continue;
        json changed = config_;
        try {
          changed[place] = one.value;
        } catch (const json::exception&) { // below a value
          continue;
        }
        judge(key, changed, one);
      }
    }
  }

private:
  void judge(const std::string& key, const json& config, const Value& one) {
    const Folder folder;
    io::Contents contents = copy_of(model_);
    Outcome now;
    try {
      contents.config = io::read_config(folder.write("config.json", config.dump()));
      now = compute_text(contents);
    } catch (const Error& error) {
      now.refusal = error.what();
    }
    const bool same = now.bits == whole_.bits;
    const bool said = std::ranges::any_of(
        now.notes, [&](const std::string& note) { return !whole_.notes.contains(note); });
    INFO(model_.name << ": " << key << " = " << one.value << "\n" << now.refusal);
    const std::string outcome = !now.refusal.empty() ? "refused"
                                : said               ? "warned"
                                : same               ? "no difference"
                                                     : "read: another model, as config.json says";
    ++counts_[outcome];
    if (one.meaning == Meaning::same) CHECK(same);
    if (outcome.starts_with("read"))
      CHECK((one.meaning == Meaning::number && may_be(one.value, key)));
  }

  io::Contents model_;
  Outcome whole_;
  Asked asked_;
  json config_;
  std::string section_; ///< of the text model
  Share& share_;
  std::map<std::string, std::size_t>& counts_;
};

} // namespace

TEST_CASE("settings of a wrong type are never silently another model", "[model]") {
  const Folder folder;
  Share share(61);
  std::map<std::string, std::size_t> counts;
  for (const std::string& name : make_tiny_models(folder.path()))
    WrongTypes(folder.path(name), share, counts).run();
  if (counts.empty()) return;
  std::size_t all = 0;
  std::string told;
  for (const auto& [outcome, count] : counts)
    all += count, told += fmt::format("; {} {}", count, outcome);
  std::cout << all << " settings of other types and values" << told << "\n";
  CHECK(all > share.of(10000));
}

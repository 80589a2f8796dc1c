#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>

namespace mha::tokenizers {

namespace {

/// Classes whose normalizer is made of do_lower_case, strip_accents and tokenize_chinese_chars, by
/// Transformers' name without TokenizerFast, in small letters, or by config.json's model_type,
/// whose class is BertTokenizer or one that derives from it.
constexpr std::string_view of_bert[]{"bert",
                                     "distilbert",
                                     "electra",
                                     "mobilebert",
                                     "convbert",
                                     "funnel",
                                     "layoutlm",
                                     "lxmert",
                                     "mpnet",
                                     "realm",
                                     "retribert",
                                     "squeezebert",
                                     "splinter",
                                     "dpr",
                                     "dprreader",
                                     "dprquestionencoder",
                                     "dprcontextencoder",
                                     "visual_bert",
                                     "ernie",
                                     "megatron-bert",
                                     "nezha",
                                     "qdqbert",
                                     "bros",
                                     "chinese_clip",
                                     "flava",
                                     "git",
                                     "blip",
                                     "align",
                                     "bark",
                                     "grounding-dino",
                                     "mm-grounding-dino"};
/// Classes whose pre-tokenizer is made with add_prefix_space, and model types of these. Bloom's
/// pre-tokenizer is a sequence, of which nothing is put in another's place.
constexpr std::string_view of_gpt2[]{
    "gpt2",       "roberta",  "bart",       "longformer",   "led",           "mvp",
    "deberta",    "codegen",  "blenderbot", "gptneox",      "whisper",       "gpt_neo",
    "gptj",       "gpt_neox", "opt",        "gpt_bigcode",  "phi",           "granite",
    "granitemoe", "exaone4",  "olmo",       "olmo2",        "olmo3",         "olmoe",
    "mpt",        "mamba",    "mamba2",     "falcon_mamba", "data2vec-text", "ibert",
    "mega",       "mra",      "lilt",       "bridgetower",  "clap"};

const char* name_of(bool value) {
  return value ? "true" : "false";
}

class Contradictions {
public:
  Contradictions(Pipeline& parts, const Said& said) : parts_(parts), said_(said) {}

  void settle() {
    OverridableSettings& overridable = parts_.overridable;
    bool changed = false;
    if (overridable.bert) {
      const bool follows = is_one_of(said_.family, of_bert);
      BertNormalizerSettings bert = *overridable.bert;
      changed |= settle("do_lower_case", said_.lower, bert.lowercase, follows);
      // Where no file says it, accents go with the capitals.
      bool accents = bert.strip_accents.value_or(bert.lowercase);
      if (settle("strip_accents", said_.accents, accents, follows))
        changed = true, bert.strip_accents = accents;
      changed |=
          settle("tokenize_chinese_chars", said_.chinese, bert.handle_chinese_chars, follows);
      if (follows && !said_.lower && !bert.lowercase)
        parts_.notes.push_back(warning(
            "tokenizer.json keeps capitals and tokenizer_config.json does not say do_lower_case: "
            "capitals are kept"));
      if (changed) overridable.bert = bert, parts_.normalizer = bert_normalizer(bert);
    } else {
      settle("do_lower_case", said_.lower, overridable.lower_case, false);
    }
    if (changed) {
      const std::vector<AddedToken> tokens = parts_.added->tokens(); // emplace() ends the old ones
      parts_.added.emplace(tokens, parts_.normalizer);
    }
    if (!overridable.add_prefix_space) return;
    if (settle("add_prefix_space", said_.add_prefix_space, *overridable.add_prefix_space,
               is_one_of(said_.family, of_gpt2)))
      parts_.pre_tokenizer = byte_level_words(*overridable.add_prefix_space, overridable.use_regex);
  }

private:
  /// One setting: whether the config's value was put in the place of tokenizer.json's.
  bool settle(std::string_view key, std::optional<bool> said, bool& there, bool follows) {
    if (!said || *said == there) return false;
    parts_.notes.push_back(warning(
        fmt::format("tokenizer_config.json says {} {}, tokenizer.json {}: {}", key, name_of(*said),
                    name_of(there),
                    follows ? "the first counts, as in Transformers" : "the second counts here")));
    if (follows) there = *said;
    return follows;
  }

  Pipeline& parts_;
  const Said& said_;
};

} // namespace

Said read_said(const std::string& folder, bool of_both) {
  Said said;
  std::string model_type;
  for (const char* name : {"tokenizer_config.json", "config.json"}) {
    const auto bytes = read_file_of(folder, name);
    if (!bytes) continue;
    const bool own = std::string_view(name) == "tokenizer_config.json";
    JsonDocument json(io::shown(bytes->name), bytes->text(), JsonWords::pythons);
    for (const auto& [key, value] : JsonNode::root(json).members("the file")) {
      if (value.is_null()) continue;
      if (said.family.empty() && key == "tokenizer_class") said.family = value.text(key);
      if (!own && key == "model_type") model_type = value.text(key);
      if (!own && !of_both) continue;
      for (const auto& [setting, to] : {std::pair("do_lower_case", &said.lower),
                                        {"strip_accents", &said.accents},
                                        {"tokenize_chinese_chars", &said.chinese},
                                        {"add_prefix_space", &said.add_prefix_space}})
        if (key == setting && !*to) *to = value.boolean(key);
    }
  }
  if (said.family.empty()) said.family = model_type;
  for (const std::string_view end : {"Fast", "Tokenizer"})
    if (said.family.ends_with(end)) said.family.resize(said.family.size() - end.size());
  said.family = lowered(said.family);
  return said;
}

void follow_config(const std::string& folder, Pipeline& parts) {
  const Said said = read_said(folder, false);
  Contradictions(parts, said).settle();
}

} // namespace mha::tokenizers

#include <mha/tokenizers/tokenizer_files.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tokenizers/normalizers.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>

namespace mha::tokenizers {

namespace {

/// Classes that make their normalizer from do_lower_case, strip_accents and tokenize_chinese_chars:
/// their names in Transformers without TokenizerFast, in lower case, and the model_types whose
/// class is BertTokenizer or derived from it.
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
/// Classes that make their pre-tokenizer with add_prefix_space, and their model_types. Bloom's
/// pre-tokenizer is a sequence, in which nothing is replaced.
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
  Contradictions(Pipeline& parts, const TokenizerConfig& config) : parts_(parts), config_(config) {}

  void settle() {
    OverridableSettings& overridable = parts_.overridable;
    bool changed = false;
    if (overridable.bert) {
      const bool follows = is_one_of(config_.family, of_bert);
      BertNormalizerSettings bert = *overridable.bert;
      changed |= settle("do_lower_case", config_.lower, bert.lowercase, follows);
      // Without a setting, accents are stripped together with capitals.
      bool accents = bert.strip_accents.value_or(bert.lowercase);
      if (settle("strip_accents", config_.accents, accents, follows))
        changed = true, bert.strip_accents = accents;
      changed |=
          settle("tokenize_chinese_chars", config_.chinese, bert.handle_chinese_chars, follows);
      if (follows && !config_.lower && !bert.lowercase)
        parts_.notes.push_back(
            warning("tokenizer.json keeps capitals and tokenizer_config.json has no do_lower_case: "
                    "capitals are kept"));
      if (changed) overridable.bert = bert, parts_.normalizer = bert_normalizer(bert);
    } else {
      settle("do_lower_case", config_.lower, overridable.lower_case, false);
    }
    if (changed) {
      const std::vector<AddedToken> tokens =
          parts_.added->tokens(); // emplace() destroys the old ones
      parts_.added.emplace(tokens, parts_.normalizer);
    }
    if (!overridable.add_prefix_space) return;
    if (settle("add_prefix_space", config_.add_prefix_space, *overridable.add_prefix_space,
               is_one_of(config_.family, of_gpt2)))
      parts_.pre_tokenizer = byte_level_words(*overridable.add_prefix_space, overridable.use_regex);
  }

private:
  /// Settles one setting; returns whether the config's value replaced that of tokenizer.json.
  bool settle(std::string_view key, std::optional<bool> configured, bool& value, bool follows) {
    if (!configured || *configured == value) return false;
    parts_.notes.push_back(warning(
        fmt::format("tokenizer_config.json has {} {}, tokenizer.json {}: {}", key,
                    name_of(*configured), name_of(value),
                    follows ? "the first counts, as in Transformers" : "the second counts here")));
    if (follows) value = *configured;
    return follows;
  }

  Pipeline& parts_;
  const TokenizerConfig& config_;
};

} // namespace

TokenizerConfig read_tokenizer_config(const std::string& folder, bool of_both) {
  TokenizerConfig config;
  std::string model_type;
  for (const char* name : {"tokenizer_config.json", "config.json"}) {
    const auto bytes = read_file_of(folder, name);
    if (!bytes) continue;
    const bool own = std::string_view(name) == "tokenizer_config.json";
    JsonDocument json(io::shown(bytes->name), bytes->text(), JsonWords::pythons);
    for (const auto& [key, value] : JsonNode::root(json).members("the file")) {
      if (value.is_null()) continue;
      if (config.family.empty() && key == "tokenizer_class") config.family = value.text(key);
      if (!own && key == "model_type") model_type = value.text(key);
      if (!own && !of_both) continue;
      for (const auto& [setting, to] : {std::pair("do_lower_case", &config.lower),
                                        {"strip_accents", &config.accents},
                                        {"tokenize_chinese_chars", &config.chinese},
                                        {"add_prefix_space", &config.add_prefix_space}})
        if (key == setting && !*to) *to = value.boolean(key);
    }
  }
  if (config.family.empty()) config.family = model_type;
  for (const std::string_view end : {"Fast", "Tokenizer"})
    if (config.family.ends_with(end)) config.family.resize(config.family.size() - end.size());
  config.family = lowered(config.family);
  return config;
}

void follow_config(const std::string& folder, Pipeline& parts) {
  const TokenizerConfig config = read_tokenizer_config(folder, false);
  Contradictions(parts, config).settle();
}

} // namespace mha::tokenizers

// GGUF only names the way in which words are cut. The patterns are those of the models' own
// tokenizer.json, which llama.cpp has in its source code under these names.

#include <mha/system/words.hpp>
#include <mha/tokenizers/gguf.hpp>

#include <mha/files/text.hpp>

namespace mha::tokenizers {

namespace {

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_words = CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_words = CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view seed_words = CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view bailing_words =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view tekken_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view gpt4o_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view deepseek3_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view bloom_words = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
#undef CONTRACTIONS

const std::vector<GgufWords>& gguf_word_kinds() {
  static const std::vector<GgufWords> kinds{
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
       {llama3_words},
       true,
       true},
      {"dbrx smaug-bpe glm4 chatglm-bpe", {llama3_words}},
      {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum mpt olmo jais "
       "trillion granite-docling exaone4",
       {gpt2_words}},
      {"roberta-bpe jina-v1-en jina-v2-code", {gpt2_words}, false, true, true},
      {"starcoder refact command-r smollm codeshell exaone minerva-7b", {R"(\p{N})", gpt2_words}},
      {"qwen2 deepseek-r1-qwen kormo stablelm2 megrez hunyuan grok-2", {qwen2_words}},
      {"tekken", {tekken_words}, true, true},
      {"gpt-4o llama4 minimax-m2", {gpt4o_words}},
      {"deepseek-v3 hunyuan-dense", {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", deepseek3_words}},
      {"deepseek-coder",
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"}},
      {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2_words, "[0-9][0-9][0-9]"}},
      {"bloom poro-chat gpt3-finnish", {bloom_words}},
      {"viking", {bloom_words, R"(\p{N})"}},
      {"seed-coder", {seed_words}},
      {"bailingmoe bailingmoe2 llada-moe", {bailing_words}},
      {"default", {R"([\p{P}\$\+<=>\^~\|]+)", gpt2_words, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return kinds;
}

} // namespace

const GgufWords& gguf_words(std::string_view where, std::string_view name) {
  std::vector<std::string_view> known;
  for (const GgufWords& kind : gguf_word_kinds())
    for (std::string_view own : words_of(kind.names)) {
      if (own == name) return kind;
      known.push_back(own);
    }
  fail("{}: tokenizer.ggml.pre is '{}', which names a way to cut words that is not known here{}; "
       "give the tokens' numbers: <ids>",
       where, io::shown(name), did_you_mean(name, known));
}

} // namespace mha::tokenizers

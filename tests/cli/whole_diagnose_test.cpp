// diagnose of a whole model: mistakes beyond attention, planted in an independent port, are named
// from all stages and from hidden states alone; what diff prints to find them always works.

#include "support/files.hpp"
#include "support/planted_models.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <iterator>
#include <set>
#include <sstream>

using namespace mha;
using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::string text_ids = "65,300,12,7,90,41";

bool is_of(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

/// Runs the port once for all mistakes of a model.
void plant(const std::string& model, const std::string& mistakes, const Folder& folder,
           const std::string& type = "float32") {
  const Result made =
      shell("/usr/bin/python3 " + source_folder() + "/tests/support/port.py data/bard-" + model +
            " " + text_ids + " " + mistakes + " " + folder.path("") + " " + type);
  INFO(made.out << made.err);
  REQUIRE(made.code == 0);
}

Result diagnosed(const std::string& model, const std::string& path, bool as_json = false) {
  std::vector<std::string> words{"diagnose", "data/bard-" + model, "--ids", text_ids,
                                 "--quiet",  "--against",          path};
  if (as_json) words.insert(words.end(), {"--format", "json"});
  return run(words);
}

/// Every change that a diagnosis of a whole model names.
std::set<std::string> named_in(const json& found) {
  std::set<std::string> ids;
  const auto add = [&](const json& one) {
    for (const json& change : one["changes"]) ids.insert(change["id"]);
    for (const json& id : one["same_numbers"]) ids.insert(id);
  };
  if (found.contains("changes"))
    add(found);
  else
    for (const auto& [place, one] : found.items()) add(one);
  return ids;
}

/// The words of the command after a title.
std::vector<std::string> command_in(const std::string& text, const std::string& before) {
  const std::string title = before + "mha-inspect ";
  const std::size_t at = text.find(title);
  std::vector<std::string> words;
  if (at == std::string::npos) return words;
  const std::size_t first = at + title.size();
  std::istringstream line(text.substr(first, text.find('\n', first) - first));
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

} // namespace

TEST_CASE("whole diagnose: mistakes beyond attention are named, from all stages and from states") {
  Share share(29);
  for (const std::string model : {"gpt2", "llama", "bert"}) {
    const Folder folder;
    std::string list = "none";
    for (const planted::ModelMistake& one : planted::model_mistakes())
      if (is_of(one.models, model)) list += std::string(",") + one.mistake;
    plant(model, list, folder);
    for (const char* capture : {"all", "states"}) {
      const Result right = diagnosed(model, folder.path(std::string("none-") + capture + ".npz"));
      INFO(model << " " << capture << "\n" << right.out << right.err);
      CHECK(right.code == 0);
      CHECK_THAT(right.out, Contains("nothing to explain") && Contains("compared: "));
      for (const planted::ModelMistake& one : planted::model_mistakes()) {
        const bool states = capture == std::string("states");
        if (!is_of(one.models, model) || (states && !one.in_states)) continue;
        if (!share.takes(model + capture)) continue;
        const std::string path = folder.path(std::string(one.mistake) + "-" + capture + ".npz");
        const Result result = diagnosed(model, path, true);
        INFO(model << " " << one.mistake << " " << capture << "\n" << result.out << result.err);
        REQUIRE(result.code <= 1);
        CHECK(named_in(json::parse(result.out)).contains(one.id));
      }
    }
  }
}

TEST_CASE("whole diagnose: every command that diff and diagnose print gives a verdict") {
  constexpr const char* captures[]{"all", "states", "logits"};
  Share share(23); // every third mistake is of the same capture
  std::size_t number = 0, ran = 0;
  for (const std::string model : {"gpt2", "llama", "bert"}) {
    const Folder folder;
    std::string list = "none";
    for (const planted::ModelMistake& one : planted::model_mistakes())
      if (is_of(one.models, model)) list += std::string(",") + one.mistake;
    plant(model, list, folder);
    for (const planted::ModelMistake& one : planted::model_mistakes()) {
      if (!is_of(one.models, model)) continue;
      const std::string capture = captures[++number % 3];
      if (!share.takes(capture)) continue;
      const std::string path = folder.path(one.mistake + ("-" + capture + ".npz"));
      const Result differs =
          run({"diff", "data/bard-" + model, "--ids", text_ids, "--against", path});
      INFO(model << " " << one.mistake << " " << capture << "\n" << differs.out << differs.err);
      CHECK(differs.code <= 1);
      for (const char* title : {"Look at it: ", "Find why:   "}) {
        const std::vector<std::string> command = command_in(differs.out, title);
        CHECK(command.empty() == (differs.code == 0));
        if (command.empty()) continue;
        const Result found = run(command);
        INFO(title << found.out << found.err);
        CHECK(found.code <= 1);
        ++ran;
        if (title[0] == 'L') continue;
        CHECK_THAT(found.out, Contains("compared: ") && !Contains("nothing to explain"));
        for (std::size_t at = 0; (at = found.out.find("mha-inspect ", at)) != std::string::npos;
             ++at) { // what a diagnosis prints itself
          const std::vector<std::string> proof = command_in(found.out.substr(at), "");
          CHECK(run(proof).code <= 1);
        }
      }
    }
  }
  CHECK(ran > share.of(200));
}

TEST_CASE("whole diagnose: a text in pieces is named, and GELU's form through float16's rounding") {
  const Folder folder;
  plant("gpt2", "chunks.own,chunks.corner,chunks.second,cache.alone,cache.first,cache.late,prefix",
        folder);
  Share share(9);
  for (const char* mistake : {"chunks.own", "chunks.corner", "chunks.second", "cache.alone",
                              "cache.first", "cache.late", "prefix"})
    for (const char* capture : {"states", "logits"}) {
      if (!share.takes()) continue;
      const Result found =
          diagnosed("gpt2", folder.path(fmt::format("{}-{}.npz", mistake, capture)), true);
      INFO(mistake << " " << capture << "\n" << found.out << found.err);
      CHECK(found.code == 0);
      CHECK(named_in(json::parse(found.out)).contains("causal.chunks"));
    }
  const Folder half;
  plant("gpt2", "none,act:gelu", half, "float16");
  const Result gelu = diagnosed("gpt2", half.path("act:gelu-states.npz"), true);
  INFO(gelu.out);
  CHECK(named_in(json::parse(gelu.out)).contains("mlp.activation"));
}

TEST_CASE("whole diagnose: GELU's form below a short type's rounding is named or said to be open") {
  const auto words_of = [](const std::string& text) {
    std::istringstream words(text);
    return fmt::format("{}", fmt::join(std::istream_iterator<std::string>(words),
                                       std::istream_iterator<std::string>(), " "));
  };
  for (const auto& [model, other] :
       {std::pair<std::string, std::string>{"gpt2", "act:gelu"}, {"bert", "act:gelu_tanh"}}) {
    const Folder half;
    plant(model, "none," + other, half, "float16");
    Share share(5);
    for (const std::string& mistake : {std::string("none"), other})
      for (const std::string capture : {"all", "states", "logits"}) {
        if (!share.takes()) continue;
        const std::string path = half.path(mistake + "-" + capture + ".npz");
        const Result compared =
            run({"diff", "data/bard-" + model, "--ids", text_ids, "--against", path});
        const Result found = diagnosed(model, path, true), told = diagnosed(model, path);
        INFO(model << " " << mistake << " " << capture << "\n"
                   << compared.out << compared.err << found.out << told.out);
        const bool open =
            words_of(compared.out).find("cannot be decided at float16") != std::string::npos;
        const bool named = named_in(json::parse(found.out)).contains("mlp.activation");
        CHECK(compared.code == (mistake != "none" && !open ? 1 : 0));
        CHECK(named == (mistake != "none" && !open));
        CHECK(open ==
              (words_of(told.out).find("cannot be decided at float16") != std::string::npos));
        if (capture == "all") CHECK_FALSE(open);
        if (capture == "logits") CHECK(open);
      }
  }
}

TEST_CASE("whole diagnose: one cause in all layers is one line, and a lone one is its layer's") {
  const Folder folder;
  plant("gpt2", "act:relu,block.skipped", folder);
  const Result all = diagnosed("gpt2", folder.path("act:relu-all.npz"));
  INFO(all.out);
  CHECK(all.code == 0);
  CHECK_THAT(all.out, Contains("layers 0–3") && Contains("mlp.activation"));
  const Result one = diagnosed("gpt2", folder.path("block.skipped-all.npz"));
  INFO(one.out);
  CHECK(one.code == 0);
  CHECK_THAT(one.out, Contains("layer 2") && Contains("block.skipped"));
}

TEST_CASE("whole diagnose: the last logits alone name the ends and a cause in every layer") {
  Share share(7);
  std::size_t cases = 0, named = 0;
  std::string missed;
  for (const std::string model : {"gpt2", "llama"}) {
    const Folder folder;
    const std::vector<std::pair<std::string, std::string>> mistakes{
        {"last_norm.missing", "head.norm.missing"},
        {"head.softcap", "head.softcap"},
        {"embed.scale", "embed.scale"},
        {"act:relu", "mlp.activation"},
        {"block_norm.eps", "block_norm.eps"},
        {"block.skipped", "block.skipped"},
        {"block.parallel", "block.parallel"},
        {"scale", "scale.missing"},
        {"block.twice", "block.twice"},
        {"input_norm.missing", "input_norm.missing"}};
    std::string list = "none";
    for (const auto& [mistake, id] : mistakes) list += "," + mistake;
    plant(model, list, folder);
    CHECK(diagnosed(model, folder.path("none-logits.npz")).code == 0);
    for (const auto& [mistake, id] : mistakes) {
      if (!share.takes()) continue;
      const Result result = diagnosed(model, folder.path(mistake + "-logits.npz"), true);
      INFO(model << " " << mistake << "\n" << result.out << result.err);
      REQUIRE(result.code <= 1);
      const std::set<std::string> ids = named_in(json::parse(result.out));
      const bool found =
          ids.contains(id) || (id == "head.norm.missing" && ids.contains("last_norm.missing"));
      ++cases, named += found;
      if (!found) missed += model + " " + mistake + "; ";
    }
  }
  INFO("not named: " << missed);
  CHECK(10 * named >= 6 * cases);
}

TEST_CASE("whole diagnose: right ports under every naming, and mistakes in other families") {
  const Folder folder;
  const auto python = [&](const std::string& script, const std::string& arguments) {
    return shell("/usr/bin/python3 tests/models/" + script + " " + arguments);
  };
  REQUIRE(python("make.py", folder.path() + " llama2-gqa gpt2 bert gemma2 neox-parallel").code ==
          0);
  const std::string program = "$MHA", models = " " + folder.path("") + " -j 1 ";
  const std::string more_clean =
                        "--model gpt2 --model gemma2 --model neox-parallel --precision f32 ",
                    more_wrong = "--model gemma2 ";
  const Result right =
      python("clean.py", program + models + "--texts 1 --model llama2-gqa --model bert " +
                             (sanitized ? "" : more_clean) + "--precision bf16");
  INFO(right.out << right.err);
  CHECK(right.code == 0);
  CHECK_THAT(right.out, Contains("right ports are told so"));
  const Result wrong = python("ports.py", program + models + (sanitized ? "" : more_wrong) +
                                              "--model neox-parallel --capture states");
  INFO(wrong.out << wrong.err);
  CHECK(wrong.code == 0);
  CHECK_THAT(wrong.out, Contains("states: "));
}

TEST_CASE("whole diagnose: wrong ports of public threads, under the names of their tools",
          "[cli][whole]") {
  const Folder folder;
  const auto python = [&](const std::string& script, const std::string& arguments) {
    return shell("/usr/bin/python3 tests/models/" + script + " " + arguments);
  };
  REQUIRE(python("make.py", folder.path() +
                                " gpt2 llama3.2 qwen3-untied gemma2 llama3.1 qwen3-yarn "
                                "neox-parallel llama2-gqa qwen2 bert")
              .code == 0);
  const auto named = [&](const char* script, std::initializer_list<const char*> names) {
    std::string only;
    for (std::size_t i = 0; i < names.size(); i += sanitized ? 16 : 1)
      only += std::string(" --only ") + names.begin()[i];
    const Result told = python(script, "$MHA " + folder.path("") + " -j 1 --all" + only);
    INFO(told.out << told.err);
    CHECK(told.code == 0);
    CHECK_THAT(told.out, Contains("are named"));
  };
  named("threads.py",
        {"last_state_before", "stream_centred", "norms_folded", "unembedding_centred",
         "final_cap_twice", "cap_multiplies_logits", "attention_factor_squared",
         "other_llama3_factor", "decoded_at_position_zero", "decoded_one_too_far",
         "feed_forward_biases_dropped", "residual_normalised_in_place", "norms_rounded",
         "rest_of_the_head", "swish_of_another", "residual_of_the_layer_input"});
  named("more_threads.py", {"eps_of_the_first_release", "states_one_layer_off"});
  named("fourth_threads.py",
        {"first_shard_in_every_rank", "gate_and_up_of_ranks_sorted_by_name",
         "embedding_of_one_rank", "vocabulary_of_ranks_exchanged", "results_over_root_of_2L",
         "sandwich_norms_behind_sums", "divided_by_the_length", "cached_keys_rotated_again",
         "logits_of_the_embedding_as_it_is", "windows_inverted",
         "no_rotation_in_every_second_layer"});
  named("fifth_threads.py",
        {"rows_one_later", "columns_one_further", "repetition_penalty", "scores_behind_top_k",
         "attention_of_the_layer_before", "query_of_the_layer_before",
         "embedding_normed_by_a_layer", "four_norms_as_two", "states_between_the_two_sums",
         "activation_and_epsilon", "query_bias_of_one_layer"});
}

TEST_CASE("whole diagnose: wrong ports of further families", "[cli][whole]") {
  const std::string some = " --only smollm3 --only granite --only heads_for --only gpt2-padding";
  const Result told = shell("/usr/bin/python3 tests/models/other_families.py $MHA --show" +
                            (sanitized ? some : std::string()));
  INFO(told.out << told.err);
  CHECK(told.code == 0);
  CHECK_THAT(told.out, Contains("captures are named"));
}

#include "support/run.hpp"

#include <mha/render/text.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

// effects: what users see of it, and what is reported to them.

using namespace mha::test;
using Catch::Contains;
using Catch::EndsWith;

namespace {

/// `mha-inspect LINE`, as a shell reads it.
Result run_line(const std::string& line) {
  return shell("\"$MHA\" " + line);
}

const std::string gpt2 = "effects data/bard-gpt2 --text 'O Romeo, Romeo!' ";

} // namespace

TEST_CASE("effects: JSON has a line for every part, null where nothing applies") {
  const Result result = run_line(gpt2 + "-f json");
  REQUIRE(result.code == 0);
  const nlohmann::json list = nlohmann::json::parse(result.out);
  const auto count = [&](const std::string& part) {
    return std::ranges::count_if(list, [&](const auto& one) { return one["part"] == part; });
  };
  CHECK(count("head") == 24);
  CHECK(count("attention") == 4);
  CHECK(count("mlp") == 4);
  CHECK(count("attention_bias") == 4);
  CHECK(count("embed") == 1);
  for (const auto& one : list) {
    CHECK(one["loss_change"].is_null()); // the last token has no next one
    CHECK(one["direct"].is_number());
    CHECK(one["kl"].is_number() ==
          (one["part"] == "head" || one["part"] == "attention" || one["part"] == "mlp"));
  }
}

TEST_CASE("effects: a line a position, CSV, the largest heads, answers by text and number") {
  const Result each = run_line(gpt2 + "--query 0,2 --per-position -f csv");
  REQUIRE(each.code == 0);
  CHECK(each.out.starts_with("part,layer,head,batch,position,kl,loss_change,logit_change,direct"));
  CHECK(std::count(each.out.begin(), each.out.end(), '\n') == 1 + 2 * (24 + 4 + 4 + 4 + 1 + 2));
  CHECK(run_line(gpt2 + "--query all -f csv").out == run_line(gpt2 + "--query 0: -f csv").out);
  const Result top = run_line(gpt2 + "--top 3");
  CHECK(std::count(top.out.begin(), top.out.end(), '\n') == 6);
  CHECK_THAT(top.out, EndsWith("\n\nkl in nats; logit_change and direct: of the logit of the clean "
                               "run's most probable token\n"));
  CHECK_THAT(run_line(gpt2 + "--top 3 --answer ' I' --versus-id 5").out,
             EndsWith("of the logit of ' I', less that of token 5\n"));
  const Result by_text = run_line(gpt2 + "--answer ' I' -f json"),
               by_number = run_line(gpt2 + "--answer-id 292 -f json");
  CHECK(by_text.code == 0);
  CHECK(by_text.out == by_number.out);
  CHECK(run_line(gpt2 + "--answer I -f json").code == 0);
}

TEST_CASE("effects: a sweep as table, CSV, JSON and array") {
  const std::string sweep =
      "effects data/bard-gpt2 --text 'What news from' --patch-from 'What says "
      "my' --sweep resid_pre,mlp_out ";
  const Result table = run_line(sweep);
  CHECK(table.code == 0);
  CHECK(table.err == "note: 34 runs, which cost as much as 22 whole passes\n");
  CHECK_THAT(table.out, Contains("resid_pre\nlayer  0 What") && Contains("\nmlp_out\n"));
  const nlohmann::json json = nlohmann::json::parse(run_line(sweep + "-f json -q").out);
  CHECK(json["metric"] == "logit");
  CHECK(json["points"].size() == 32);
  CHECK(json["points"][0]["head"].is_null());
  CHECK(json["points"][0]["spread"].is_null());
  const Result csv = run_line(sweep + "-f csv -q");
  CHECK(csv.err.empty());
  CHECK(csv.out.starts_with("stage,layer,query,value,spread,pairs,without_difference\n"
                            "resid_pre,0,0,0,,1,0\n"));
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 33);
  const Result heads =
      run_line("effects data/bard-gpt2 --ids 1,2,3 --ids 4,5,6 --patch-from-ids 7,8,9 "
               "--patch-from-ids 9,8,7 --sweep k --over head,layer --metric kl -q -f json");
  const nlohmann::json pairs = nlohmann::json::parse(heads.out);
  CHECK(pairs["pairs"] == 2);
  CHECK(pairs["points"].size() == 24);
  CHECK(pairs["points"][1]["spread"].is_number());
  const Result shape = run_line(sweep + "-q -f npy | \"$MHA\" info - -f json");
  CHECK_THAT(shape.out, Contains("4"));
}

TEST_CASE("effects --timings: what the ablations took, beside whole passes") {
  const Result result = run_line(gpt2 + "--timings");
  const nlohmann::json cost = nlohmann::json::parse(result.err);
  CHECK(cost["ablations"] == 24 + 4 + 4);
  // A head of layer 3 takes half of layer 3, one of layer 0 nearly all of a pass.
  const double share = cost["share"];
  CHECK(share > 0.4);
  CHECK(share < 0.8);
  CHECK(cost["operations"].get<double>() ==
        Approx(share * cost["of_whole_passes"].get<double>()).epsilon(1e-3));
}

TEST_CASE("effects: a set is a line more") {
  const Result set =
      run_line(gpt2 + "--together 'layers.0.head_out[2] + layers.1.mlp_out' -f json");
  REQUIRE(set.code == 0);
  const nlohmann::json last = nlohmann::json::parse(set.out).back();
  CHECK(last["part"] == "set");
  CHECK(last["layer"].is_null());
  CHECK(last["kl"].is_number());
  CHECK(last["direct"].is_null());
}

TEST_CASE("predict --of: what a part writes") {
  const std::string of = "predict data/bard-gpt2 --text 'The king is' --top 2 --of ";
  const Result table = run_line(of + "layers.3.head_result[2]");
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("by the run's statistics") && Contains("position 2, head 2"));
  const nlohmann::json parts =
      nlohmann::json::parse(run_line(of + "layers.3.head_result --query 0,1 -f json").out);
  CHECK(parts.size() == 12);
  CHECK(parts[7]["head"] == 1);
  CHECK(parts[0]["promotes"][0]["logit"] > parts[0]["promotes"][1]["logit"]);
  CHECK(parts[0]["suppresses"][0]["logit"] < parts[0]["suppresses"][1]["logit"]);
  const Result csv = run_line(of + "layers.0.mlp_out -f csv");
  CHECK(csv.out.starts_with("batch,position,head,side,rank,id,token,logit\n0,2,,promotes,1,"));
}

TEST_CASE("a stage with its layer's number chooses the layer") {
  const Result named =
                   run_line("show data/bard-gpt2 --text 'The king' -s layers.2.resid_pre -f csv"),
               chosen =
                   run_line("show data/bard-gpt2 --text 'The king' -s resid_pre --layer 2 -f csv");
  CHECK(named.code == 0);
  CHECK(named.out == chosen.out);
  const Result other = run_line("show data/bard-gpt2 --text 'The king' -s layers.2.q --layer 1");
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Contains("leave the number out"));
  CHECK_THAT(run_line("show data/bard-gpt2 --text 'The king' -s layers.2.q,layers.1.k").err,
             Contains("stages of several layers are named"));
}

TEST_CASE("effects: layers × heads as a picture, by the first effect or the one that is named") {
  const std::string repeat = "effects data/induction-model --text-file "
                             "data/induction-model/expected/repeat.txt --query 17-31 ";
  const Result text = run_line(repeat + "--grid loss_change");
  CHECK_THAT(text.out, Contains("loss_change\n0 │      ██│\n1 │        │\n   0   2\n") &&
                           Contains("0.54") && Contains("down: layer, across: head"));
  const Result first = run_line(repeat + "-f svg");
  CHECK(first.code == 0);
  CHECK_THAT(first.out, Contains("<svg") && Contains(">kl<"));
}

TEST_CASE("effects: what cannot be told is refused, with the cure") {
  for (const auto& [arguments, expected] : {
           std::pair<std::string, std::string>("effects data/bard-gpt2", "effects needs a text"),
           {gpt2 + "--layer 1", "--layer has no effect"},
           {gpt2 + "--answer 'wherefore art thou'", "is not a single token"},
           {gpt2 + "--answer-id 99999", "the vocabulary has 0 to"},
           {gpt2 + "--ablate resample", "this is one text; give several"},
           {gpt2 + "--query 99", "there are"},
           {gpt2 + "--grid kll", "did you mean 'kl'?"},
           {gpt2 + "--grid loss_change", "no head has this measure here"},
           {gpt2 + "--grid kl --top 3", "a picture shows every head"},
           {gpt2 + "--ablate nothing", "zero"},
           {"effects data/bard-bert --text 'to be or not'", "the text hides none"},
           {"effects data/quickstart.json --text a", "a text needs a checkpoint"},
           {gpt2 + "--sweep resid_pre", "--patch-from"},
           {gpt2 + "--patch-from a", "need --sweep STAGES"},
           {gpt2 + "--over layer", "need --sweep STAGES"},
           {gpt2 + "--sweep logits --patch-from a", "the input of the first layer is resid_pre"},
           {gpt2 + "--sweep layers.1.q --patch-from a", "only the name of a stage is expected"},
           {gpt2 + "--sweep q --patch-from 'O Romeo, Romeo!' --over heads",
            "layer, head, query or key"},
           {gpt2 + "--sweep q --patch-from 'O Romeo, Romeo!' --over head,head", "is given twice"},
           {gpt2 + "--sweep q --patch-from a --patch-from b",
            "texts are paired, so give the same number of both"},
           {gpt2 + "--sweep q --patch-from a", "needs the same number of tokens"},
           {gpt2 + "--sweep q --patch-from 'O Romeo, Romeo!' --metric loss", "no chosen position"},
           {gpt2 + "--together 'layers.9.q'", "there is no layer 9"},
           {gpt2 + "--together 'layers.1.q + '", "a place is empty"},
           {"predict data/bard-gpt2 --text a --of layers.1.q", "a stage of the stream"},
           {"predict data/bard-gpt2 --text a --of layers.1.output --each-layer", "has no effect"},
       }) {
    const Result result = run_line(arguments);
    INFO(arguments << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(expected));
  }
}

TEST_CASE("effects: words that would change nothing, or mean two things, are refused") {
  const std::vector<std::string> text{"--text", "What news from"},
      sweep{"--patch-from", "What says my", "--sweep", "resid_pre", "--quiet"};
  const auto refused = [&](const std::string& command, std::vector<std::string> words,
                           const std::string& said) {
    words.insert(words.begin(), {command, "data/bard-gpt2"});
    const Result result = run(words);
    INFO(said);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(said));
  };
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  refused("effects", with(text, {"--top", "0"}), "--top is 0: at least 1 expected");
  refused("effects", with(text, {"--answer", " I", "--answer-id", "5"}), "give one of them");
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--ablate", "mean"},
                                               {"--together", "layers.0.q"},
                                               {"--centre"},
                                               {"--per-position"},
                                               {"--top", "3"}})
    refused("effects", with(with(text, sweep), more), "have no effect on a sweep");
  refused("effects", with(with(text, sweep), {"--answer", " I", "--versus", " I"}),
          "--answer and --versus are both ' I'");
  refused("predict", with(text, {"--of", "layers.3.head_result[9]"}),
          "--of layers.3.head_result[9]: 9: there are 6 heads");
  refused("circuits", {"--distance", "2"}, "has no rotary embedding");
  refused("map", {"-s", "qk", "--vocab", "a,b", "--layer", "0", "--distance", "2"},
          "has no rotary embedding");
  // An unknown token stands for every word that the vocabulary lacks.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"effects", "data/induction-model", "--ids", "1,2,3", "--answer",
                                 "a"},
        {"map", "data/induction-model", "-s", "ov", "--layer", "0", "--vocab", "a,b"}}) {
    const Result result = run(words);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("the vocabulary has no pieces for 'a'"));
  }
}

TEST_CASE("predict --of --query all: what a part writes at every position") {
  const Result all = run({"predict", "data/bard-gpt2", "--text", "O Romeo", "--of",
                          "layers.1.mlp_out", "--query", "all", "--top", "1", "-f", "json"}),
               each = run({"predict", "data/bard-gpt2", "--text", "O Romeo", "--of",
                           "layers.1.mlp_out", "--query", "0-2", "--top", "1", "-f", "json"});
  CHECK(all.code == 0);
  CHECK(all.out == each.out);
}

TEST_CASE("effects: a patch that makes the run no numbers leaves no effects to tell") {
  const Result result = run({"effects", "data/bard-gpt2", "--text", "O Romeo", "--patch",
                             "layers.0.mlp_out = nan", "--top", "30"});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Catch::Contains("are not numbers, though all weights are: a patch"));
}

TEST_CASE("effects: pairs of a sweep that predict the same are left out, and counted") {
  const std::vector<std::string> words{"effects", "data/bard-gpt2", "--sweep", "resid_pre",
                                       "--over",  "layer",          "--quiet", "-f",
                                       "json"};
  const auto swept = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const Result result = run(more);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto one = swept({"--text", "What news from", "--patch-from", "What says my"}),
             two = swept({"--text", "What news from", "--text", "my lord", "--patch-from",
                          "What says my", "--patch-from", "my love"});
  CHECK(two["pairs"] == 1);
  CHECK(two["without_difference"] == 1);
  CHECK(two["points"] == one["points"]);
}

TEST_CASE("effects: pairs that a sweep leaves out are told whatever its form") {
  const std::string swept =
                        "effects data/bard-gpt2 --sweep resid_pre --over layer --text 'my lord' "
                        "--text 'What news from' --patch-from 'my love' --patch-from 'What "
                        "says my' ",
                    note = "1 of 2 pairs left out of the mean, because both runs have the same "
                           "measure: pair 0, counted from 0";
  const Folder folder;
  for (const std::string form : {"-f csv", "-f tsv", "-f json", "-f table", "-f npy", "-f svg"}) {
    INFO(form);
    const Result result = run_line(swept + form + " -o " + folder.path("out"));
    CHECK(result.code == 0);
    std::string said = result.err;
    std::replace(said.begin(), said.end(), '\n', ' ');
    while (said.find("  ") != said.npos) said.erase(said.find("  "), 1);
    CHECK_THAT(said, Contains(note));
  }
  const Result csv = run_line(swept + "-f csv -q");
  CHECK(csv.err.empty());
  CHECK_THAT(csv.out, Contains(",1,1\n"));
}

TEST_CASE("effects: one set a call, and a grid of another name has the names that there are") {
  const Result twice = run_line(gpt2 + "--together layers.1.mlp_out --together layers.2.mlp_out");
  CHECK(twice.code == 2);
  CHECK_THAT(twice.err, Contains("--together is given twice") && Contains("' + '"));
  const Result grid = run_line(gpt2 + "--grid banana");
  CHECK(grid.code == 2);
  CHECK_THAT(grid.err, Contains("expected one of kl, loss_change, logit_change, direct"));
}

TEST_CASE("effects: a sweep's picture says what 0 and 1 are") {
  const std::string sweep = "effects data/bard-gpt2 --text 'What news from' --patch-from "
                            "'What says my' --sweep resid_pre --over layer --quiet -f svg ";
  CHECK_THAT(run_line(sweep).out, Contains("logit, 0: this run, 1: the other"));
  CHECK_THAT(run_line(sweep + "--metric kl").out, Contains("kl, 1: as far as the other run"));
  CHECK_THAT(run_line(sweep + "--raw").out, !Contains("the other"));
}

TEST_CASE("effects: a stage that nothing reads is no row of zeros") {
  const Result sweep = run_line("effects data/bard-gpt2 --text 'What news from' --patch-from "
                                "'What says my' --sweep logsumexp --over layer");
  CHECK(sweep.code == 2);
  CHECK_THAT(sweep.err, Contains("--sweep logsumexp: nothing that follows reads it"));
  const Result set = run_line(gpt2 + "--together layers.1.mlp_out+layers.2.logsumexp");
  CHECK(set.code == 2);
  CHECK_THAT(set.err, Contains("--together layers.2.logsumexp: nothing that follows reads it"));
}

TEST_CASE("effects, circuits and predict --of: sentences around a table fit the window") {
  for (const std::string line :
       {"effects data/bard-gpt2 --text 'What news from' --patch-from 'What says my' --sweep "
        "resid_pre "
        "--over layer --quiet",
        "circuits data/bard-gpt2 --layer 1", "circuits data/bard-gpt2 --composition k --top 2",
        "predict data/bard-gpt2 --text 'my love' --of layers.3.head_result[0] --top 2"}) {
    INFO(line);
    const Result result = shell("COLUMNS=70 \"$MHA\" " + line);
    REQUIRE(result.code == 0);
    std::istringstream lines(result.out);
    for (std::string one; std::getline(lines, one);) CHECK(mha::render::display_width(one) <= 70);
  }
}

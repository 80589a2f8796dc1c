// circuits: what the weights alone say, against NumPy's numbers for data/ (tests/data/circuits),
// and what is reported to users.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace mha::test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using nlohmann::json;

namespace {

json circuits(const std::string& arguments) {
  const Result result = shell("\"$MHA\" circuits " + arguments + " -f json -q");
  INFO(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

json expected_of(const std::string& model) {
  std::ifstream file(source_folder() + "/tests/data/circuits/" + model + ".json");
  return json::parse(file);
}

/// The largest difference of two lists, as a share of the first one's largest number.
double error_of(const std::vector<double>& expected, const std::vector<double>& got) {
  if (expected.empty() || expected.size() != got.size()) return INFINITY;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    error = std::max(error, std::abs(expected[i] - got[i]));
  return error / expected[0];
}

void check_heads(const json& expected, const json& got) {
  REQUIRE(expected.size() == got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i]["layer"] == expected[i]["layer"]);
    CHECK(got[i]["head"] == expected[i]["head"]);
    for (const char* name : {"qk_rank", "qk_max", "ov_rank", "ov_max", "ov_positive", "copying"}) {
      INFO(i << " " << name);
      CHECK(std::abs(got[i][name].get<double>() - expected[i][name].get<double>()) < 1e-9);
    }
    for (const char* name : {"qk_singular_values", "ov_singular_values"})
      CHECK(error_of(expected[i][name], got[i][name]) < 1e-12);
    std::vector<double> sizes;
    for (const json& lambda : got[i]["ov_eigenvalues"])
      sizes.push_back(std::hypot(lambda[0].get<double>(), lambda[1].get<double>()));
    CHECK(error_of(expected[i]["ov_eigenvalue_sizes"], sizes) < 1e-9);
  }
}

void check_pairs(const json& expected, const json& got) {
  REQUIRE(expected.size() == got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(got[i].dump());
    CHECK(std::abs(got[i]["composition"].get<double>() - expected[i].get<double>()) < 1e-9);
    CHECK(std::abs(got[i]["random"].get<double>() - 1 / std::sqrt(96.0)) < 1e-15);
  }
}

} // namespace

TEST_CASE("circuits: heads and their composition are what NumPy makes of whole matrices") {
  const json gpt2 = expected_of("bard-gpt2");
  check_heads(gpt2["heads"], circuits("data/bard-gpt2"));
  check_pairs(gpt2["compositions"], circuits("data/bard-gpt2 --composition q,k,v"));
}

TEST_CASE("circuits: shared key/value heads, an RMS norm, rotary embedding at an offset") {
  const json llama = expected_of("bard-llama");
  check_heads(llama["heads"], circuits("data/bard-llama --distance 3"));
  check_pairs(llama["compositions"], circuits("data/bard-llama --distance 3 --composition q,k,v"));
  // Without the offset QK is another matrix, OV the same.
  const json plain = circuits("data/bard-llama --layer 1 --head 2,4");
  REQUIRE(plain.size() == 2);
  CHECK(plain[1]["head"] == 4);
  const json& turned = llama["heads"][6 + 4];
  CHECK(std::abs(plain[1]["qk_rank"].get<double>() - turned["qk_rank"].get<double>()) > 1e-6);
  CHECK(std::abs(plain[1]["ov_rank"].get<double>() - turned["ov_rank"].get<double>()) < 1e-9);
}

TEST_CASE("circuits: the heads that copy what came before are the induction heads, fed by 0.3") {
  for (const json& head : circuits("data/induction-model")) {
    INFO(head["layer"] << "." << head["head"]);
    CHECK((head["copying"].get<double>() > 0.99) == (head["layer"] == 1));
  }
  const json pairs = circuits("data/induction-model --composition k --top 4");
  REQUIRE(pairs.size() == 4);
  for (const json& pair : pairs) CHECK(pair["head"] == 3);
}

TEST_CASE("circuits: the same numbers in CSV, whatever the threads, largest first when sorted") {
  const Result one = shell("\"$MHA\" circuits data/bard-gpt2 -f csv -j 1"),
               two = shell("\"$MHA\" circuits data/bard-gpt2 -f csv -j 3");
  CHECK(one.out == two.out);
  CHECK(one.out.starts_with("layer,head,qk_rank,qk_max,ov_rank,ov_max,ov_positive,copying\n0,0,"));
  CHECK(std::ranges::count(one.out, '\n') == 25);
  const Result pairs = shell("\"$MHA\" circuits data/bard-gpt2 -f csv --composition v --layer 1-2");
  CHECK(pairs.out.starts_with("kind,layer,head,to_layer,to_head,composition,random\nv,1,0,2,0,"));
  CHECK(std::ranges::count(pairs.out, '\n') == 37);
  const Result values =
      shell("\"$MHA\" circuits data/bard-gpt2 --layer 0 --head 1 --spectrum -f csv");
  CHECK(std::ranges::count(values.out, '\n') == 1 + 3 * 16);
  const json sorted = circuits("data/bard-gpt2 --sort copying --top 3");
  REQUIRE(sorted.size() == 3);
  CHECK(sorted[0]["copying"].get<double>() >= sorted[2]["copying"].get<double>());
}

TEST_CASE("circuits: a lone layer has no copying; normalised queries have no QK") {
  const Folder folder;
  const std::string normalised = folder.write(
      "layer.json",
      R"({"num_heads": 1, "W_q": [[1, 2], [0, 1], [3, 1]], "W_k": [[1, 0], [2, 1], [1, 1]],
          "W_v": [[2, 0], [0, 1], [0, 0]], "W_o": [[2, 0, 0], [0, -1, 0]],
          "q_norm.weight": [1, 1], "k_norm.weight": [1, 1]})");
  const Result result = run({"circuits", normalised, "-f", "json"});
  REQUIRE(result.code == 0);
  const json head = json::parse(result.out)[0];
  CHECK(head["layer"].is_null());
  CHECK(head["qk_rank"].is_null());
  CHECK(head["qk_singular_values"].empty());
  CHECK(head["copying"].is_null());
  CHECK(head["ov_positive"].get<double>() == Approx((4.0 - 1) / 5));
  CHECK(head["ov_max"].get<double>() == Approx(4));
  CHECK_THAT(result.err, Contains("queries and keys are normalised") && Contains("no copying"));
}

TEST_CASE("circuits: pictures, in the terminal, as PNG, SVG and PDF") {
  const Folder folder;
  for (const std::string command :
       {"circuits data/bard-gpt2 --grid copying", "circuits data/bard-gpt2 --composition q",
        "map data/bard-gpt2 -s qk --vocab ' king, love' --layer 0",
        "stats data/bard-gpt2 --text 'my love' --layer all --grid first",
        "effects data/bard-gpt2 --text 'my love' --grid kl"}) {
    INFO(command);
    CHECK(shell("\"$MHA\" " + command + " -o " + folder.path("a.pdf")).code == 0);
    CHECK_THAT(folder.read("a.pdf"), StartsWith("%PDF-") && EndsWith("%%EOF\n"));
  }
  const Result misspelt = shell("\"$MHA\" circuits data/bard-gpt2 --grid banana");
  CHECK(misspelt.code == 2);
  CHECK_THAT(misspelt.err, Contains("; there are ") && Contains("copying"));
  const Result text = shell("\"$MHA\" circuits data/bard-gpt2 --grid copying");
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("copying") && Contains("down: layer, across: head"));
  const Result pairs = shell("\"$MHA\" circuits data/bard-gpt2 --composition q,v -f text");
  CHECK_THAT(pairs.out,
             Contains("Q-composition") && Contains("V-composition") && Contains("· no pair"));
  CHECK(run({"circuits", "data/bard-gpt2", "-o", folder.path("a.png")}).code == 0);
  CHECK(folder.read("a.png").substr(1, 3) == "PNG");
  CHECK(
      run({"circuits", "data/bard-gpt2", "--composition", "k", "-o", folder.path("a.svg")}).code ==
      0);
  CHECK_THAT(folder.read("a.svg"), Contains("K-composition") && Contains(">3.5<"));
  const Result map =
      shell("\"$MHA\" map data/bard-gpt2 -s ov --vocab ' king, love, death' --layer 0 --head 1");
  CHECK(map.code == 0);
  CHECK_THAT(map.out, Contains("W_E OV W_U") && Contains("␣death") && Contains("head 1"));
  const Result qk =
      shell("\"$MHA\" map data/bard-llama -s qk --vocab ' my, good' --distance 2 --head 0-1");
  CHECK_THAT(qk.out, Contains("offset 2") && Contains("L3 H1"));
}

TEST_CASE("circuits: maps between tokens as an array are what NumPy makes of the weights") {
  const Folder folder;
  for (const std::string kind : {"ov", "qk"}) {
    REQUIRE(run({"map", "data/bard-gpt2", "-s", kind, "--vocab", " king, love, death", "--layer",
                 "1-2", "-o", folder.path(kind + ".npy")})
                .code == 0);
    CHECK(run({"map", "data/bard-gpt2", "-s", kind, "--vocab", " king, love, death", "--layer", "2",
               "--head", "3", "-o", folder.path(kind + "3.npy")})
              .code == 0);
  }
  folder.write("check.py", R"(
import json, sys
import numpy as np
folder, tokens = sys.argv[1], json.loads(sys.argv[2])
raw = open("data/bard-gpt2/model.safetensors", "rb").read()
n = int.from_bytes(raw[:8], "little")
W = {}
for name, e in json.loads(raw[8:8 + n]).items():
    if name != "__metadata__":
        a, b = e["data_offsets"]
        dtype = {"F16": np.float16, "F32": np.float32}[e["dtype"]]
        W[name] = np.frombuffer(raw[8 + n + a:8 + n + b], dtype).reshape(e["shape"]).astype(float)
fold = lambda M, gain: (lambda F: F - F.mean(0))(M * gain[:, None])
E = W["transformer.wte.weight"][tokens]
U = fold(W["transformer.wte.weight"][tokens].T, W["transformer.ln_f.weight"])
worst = 0
for kind in "ov", "qk":
    got = np.load(f"{folder}/{kind}.npy")
    assert got.shape == (2, 6, 3, 3) and got.dtype == float, got.shape
    for l in 0, 1:
        p = f"transformer.h.{l + 1}."
        q, k, v = np.split(W[p + "attn.c_attn.weight"], 3, 1)
        for h in range(6):
            part = lambda M: fold(M[:, 16 * h:16 * h + 16], W[p + "ln_1.weight"])
            O = W[p + "attn.c_proj.weight"][16 * h:16 * h + 16]
            want = E @ part(v) @ O @ U if kind == "ov" else (E @ part(q)) @ (E @ part(k)).T
            worst = max(worst, abs(got[l, h] - want).max())
    assert (np.load(f"{folder}/{kind}3.npy") == got[1, 3]).all()
print(worst)
assert worst < 1e-9
)");
  const json tokens = json::parse(
      run({"tokens", "data/bard-gpt2", "--text", " king love death", "-f", "json"}).out);
  const Result checked = shell("/usr/bin/python3 " + folder.path("check.py") + " " +
                               folder.path("") + " '" + tokens["ids"].dump() + "'");
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
}

TEST_CASE("circuits: what changes nothing, or cannot be, is refused with the cure") {
  for (const auto& [arguments, expected] : {
           std::pair<std::string, std::string>("circuits data/bard-gpt2 --text a",
                                               "circuits uses only weights: a text"),
           {"circuits data/bard-gpt2 --patch 'weights = 0'", "--patch has no effect"},
           {"circuits data/bard-gpt2 --dtype f32", "--dtype has no effect"},
           {"circuits data/bard-gpt2 --composition x", "q, k or v expected"},
           {"circuits data/bard-gpt2 --composition q --layer 1", "choose several with --layer"},
           {"circuits data/bard-gpt2 --composition q --grid copying", "give one of them"},
           {"circuits data/bard-gpt2 --composition q --head 1", "--head has no effect"},
           {"circuits data/bard-gpt2 --above-random", "--above-random needs --composition"},
           {"circuits data/bard-gpt2 --head 6", "there are 6 heads (0 to 5)"},
           {"circuits data/bard-gpt2 --layer 9", "9"},
           {"circuits data/bard-gpt2 --distance far", "a whole number expected"},
           {"circuits data/bard-gpt2 --grid copying -f csv", "--grid draws a picture"},
           {"circuits data/bard-gpt2 --top 0", "at least 1 expected"},
           {"circuits data/qkv.json", "there are no projections"},
           {"map data/bard-gpt2 -s qk", "--vocab"},
           {"map data/bard-gpt2 -s qk --vocab ' Elsinore'", "is not a single token: "},
           {"map data/bard-gpt2 -s ov --vocab ' king' --query 1", "--query has no effect"},
           {"map data/bard-gpt2 --vocab ' king' --text a", "-s qk or -s ov"},
           {"map data/quickstart.json -s ov --vocab a", "needs an embedding"},
           {"map data/bard-bert -s ov --vocab king", "OV has no numbers between tokens"},
           {"map data/bard-gpt2 -s ov --vocab ' king' -o '{head}.png'", "leave out {head}"},
       }) {
    const Result result = shell("\"$MHA\" " + arguments);
    INFO(arguments << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(expected));
    CHECK(result.out.empty());
  }
}

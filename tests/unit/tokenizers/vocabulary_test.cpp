// Vocabularies and merges of any pieces, against maps and the plain algorithm.

#include "unit/formats/support.hpp"
#include "unit/tokenizers/support.hpp"
#include <mha/system/characters.hpp>
#include <mha/tokenizers/prefixes.hpp>
#include <mha/tokenizers/vocabulary.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;

namespace {

std::mt19937 chance(7);
int below(int end) {
  return static_cast<int>(chance() % static_cast<unsigned>(end));
}

/// Text of few different bytes, zero among them: many pieces are others' beginnings and ends.
std::string random_text(int longest, std::string_view letters) {
  std::string text;
  for (int i = below(longest + 1); i > 0; --i)
    text += letters[static_cast<std::size_t>(below(static_cast<int>(letters.size())))];
  return text;
}

using Pieces = std::vector<std::string>;

/// Of the pairs of the lowest rank, the first is merged, as long as there is one.
Pieces merged(Pieces word, const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    auto best = ranks.end();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = ranks.find({word[i], word[i + 1]});
      if (found == ranks.end() || (best != ranks.end() && found->second >= best->second)) continue;
      best = found, place = i;
    }
    if (best == ranks.end()) return word;
    word[place] += word[place + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

} // namespace

TEST_CASE("a vocabulary finds every piece by its text and by its number, and no other",
          "[tokenizers]") {
  const std::string letters("ab\0\xff", 4);
  for (const bool in_order : {true, false}) {
    std::map<std::string, int> expected;
    std::vector<std::pair<std::string, int>> list;
    for (int i = 0; i < 5000; ++i) {
      const std::string piece = random_text(i % 2 == 0 ? 9 : 40, letters);
      if (expected.emplace(piece, 3 * i).second) list.emplace_back(piece, 3 * i);
    }
    if (!in_order) std::shuffle(list.begin(), list.end(), chance);
    Vocabulary vocabulary;
    for (const auto& [piece, id] : list) {
      CHECK(vocabulary.add(piece, id));
      CHECK_FALSE(vocabulary.add(piece, id + 1));
    }
    REQUIRE_FALSE(vocabulary.finish());
    CHECK(vocabulary.count() == expected.size());
    CHECK(vocabulary.size() == std::max_element(
                                   list.begin(), list.end(),
                                   [](auto& a, auto& b) {
                                     return a.second < b.second;
                                   })->second +
                                   1);
    std::vector<std::string> asked;
    for (const auto& [piece, id] : expected) {
      CHECK(vocabulary.piece_of(id) == piece);
      CHECK_FALSE(vocabulary.piece_of(id + 1));
      asked.push_back(piece);
      asked.push_back(random_text(40, letters));
    }
    const std::vector<std::string_view> views(asked.begin(), asked.end());
    std::vector<int> ids(views.size());
    vocabulary.ids_of(views, ids);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto found = expected.find(asked[i]);
      CHECK(ids[i] == (found == expected.end() ? -1 : found->second));
      CHECK(vocabulary.id_of(asked[i]).value_or(-1) == ids[i]);
    }
    int before = -1;
    vocabulary.each([&](int id, std::string_view piece) {
      CHECK(id > before);
      CHECK(expected.at(std::string(piece)) == id);
      before = id;
    });
  }
  Vocabulary same;
  same.add("a", 1), same.add("b", 1);
  CHECK(same.finish() == 1);
  CHECK_FALSE(Vocabulary().id_of("a"));
  CHECK_FALSE(Vocabulary().piece_of(0));
}

TEST_CASE("the entries that a text begins with, the shortest first", "[tokenizers]") {
  Prefixes prefixes;
  std::map<std::string, int> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(12, "ab\xc3");
    prefixes.add(text, i);
    if (!text.empty()) expected.emplace(text, i);
  }
  prefixes.finish();
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(14, "ab\xc3");
    std::vector<int> found, wanted;
    prefixes.each(text, [&](Prefixes::FoundEntry entry) { found.push_back(entry.value); });
    for (std::size_t length = 1; length <= text.size(); ++length)
      if (const auto one = expected.find(text.substr(0, length)); one != expected.end())
        wanted.push_back(one->second);
    CHECK(found == wanted);
  }
}

TEST_CASE("random merges are made in the order of their ranks, whatever form the file has",
          "[tokenizers]") {
  for (int round = 0; round < 40; ++round) {
    Pieces pieces{"a", "b", "\\\"", "d"}; // one of them with escapes
    std::map<std::pair<std::string, std::string>, int> ranks;
    std::vector<std::string> lines;
    const auto unescaped = [](std::string text) {
      std::erase(text, '\\');
      return text;
    };
    for (int rank = 0; rank < 200; ++rank) {
      const std::string left =
          pieces[static_cast<std::size_t>(below(static_cast<int>(pieces.size())))];
      const std::string right =
          pieces[static_cast<std::size_t>(below(static_cast<int>(pieces.size())))];
      if (left.size() + right.size() > 9) continue;
      // Of the same merge twice, the later counts.
      ranks[{unescaped(left), unescaped(right)}] = rank;
      lines.push_back(round % 2 == 0 ? fmt::format(R"("{} {}")", left, right)
                                     : fmt::format(R"(["{}", "{}"])", left, right));
      if (std::ranges::find(pieces, left + right) == pieces.end()) pieces.push_back(left + right);
    }
    if (round % 3 == 0) std::shuffle(pieces.begin(), pieces.end(), chance);
    std::string vocab;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      vocab += fmt::format("{}\"{}\": {}", i > 0 ? ", " : "", pieces[i], i);
    const Tokenizer tokenizer = read_tokenizer(
        "t.json", fmt::format(R"({{"model": {{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}}}})",
                              vocab, fmt::join(lines, ",\n ")));
    for (int i = 0; i < 30; ++i) {
      const std::string text = random_text(30, "ab\"d");
      Pieces word;
      for (const char c : text) word.emplace_back(1, c);
      CHECK(mha::tokenizers::test::pieces(tokenizer, text) == merged(word, ranks));
    }
  }
}

TEST_CASE("a tokenizer.json that is cut short anywhere, or whose last byte is another, is refused",
          "[tokenizers]") {
  const std::string whole =
      io::test::contents_of(mha::test::source_folder() + "/data/bard-llama/tokenizer.json");
  const std::string json = whole.substr(0, whole.find_last_of('}') + 1);
  REQUIRE(refusal(json).empty());
  for (std::size_t i = 1; i < 300; ++i)
    CHECK_FALSE(refusal(json.substr(0, json.size() - i)).empty());
  for (std::size_t i = 0; i < 100; ++i)
    CHECK_FALSE(refusal(json.substr(0, json.size() * i / 100)).empty());
  for (const char* last : {"", "]", "\"", " ", ",", "}}", "}]", "}x", "\xff"})
    CHECK_FALSE(refusal(json.substr(0, json.size() - 1) + last).empty());
}

TEST_CASE("a large tokenizer.json, whose places are counted, is read as a small one, bytes checked",
          "[tokenizers]") {
  // Above 64 KiB of pieces and of merges; strings of every length around eight bytes, quotes and
  // backslashes at every place of them.
  std::string vocab, merges;
  Pieces pieces;
  for (int i = 0; pieces.size() < 6000; ++i) {
    std::string text =
        random_text(24, "abcdefgh\"\\") + (i % 3 == 0 ? "é" : "") + std::to_string(i);
    vocab += fmt::format("{}{}: {}", pieces.empty() ? "" : ",\n", json_string(text), pieces.size());
    pieces.push_back(std::move(text));
  }
  const std::size_t singles = pieces.size();
  for (std::size_t i = 0; i + 1 < singles; i += 2) {
    const std::string both = pieces[i] + pieces[i + 1];
    vocab += fmt::format(",\n{}: {}", json_string(both), pieces.size());
    merges += fmt::format("{}[{}, {}]", i > 0 ? ",\n" : "", json_string(pieces[i]),
                          json_string(pieces[i + 1]));
    pieces.push_back(both);
  }
  const auto with = [&](const std::string& names, const std::string& list) {
    return fmt::format(R"({{"model": {{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}}}})", names,
                       list);
  };
  REQUIRE(vocab.size() > 64 << 10);
  REQUIRE(merges.size() > 64 << 10);
  const Tokenizer tokenizer = read_tokenizer("t.json", with(vocab, merges));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK(tokenizer.id_of(pieces[i]) == static_cast<int>(i));
    CHECK(tokenizer.piece_of(static_cast<int>(i)) == pieces[i]);
  }
  const auto with_last = [&](const std::string& merge) {
    return refusal(with(vocab, merges + ",\n" + merge));
  };
  CHECK_THAT(with_last("[\"\xff\", \"a\"]"), Catch::Contains("not UTF-8"));
  CHECK_THAT(with_last("\"a \xc3\""), Catch::Contains("not UTF-8"));
  CHECK_THAT(with_last("\"nowhere a\""), Catch::Contains("not in the vocabulary"));
  CHECK_THAT(with_last("\"a\nb\""), Catch::Contains("control character"));
  CHECK_THAT(refusal(with(vocab + ", \"\xe2\x28\": 99999", merges)), Catch::Contains("not UTF-8"));
}

TEST_CASE("labels of different texts are different, and the text is there as it is",
          "[tokenizers]") {
  const std::vector<std::string> signs{" ",   "␣",     "\n",        "⏎",    "\t",    "\\",     "t",
                                       "\\t", "\\\\",  "\u3000",    "<",    "0xE2>", "<0xE2>", "\r",
                                       "n",   "\\x3c", "\\u{3000}", "\x01", "{",     "u",      "é"};
  std::set<std::string> texts(signs.begin(), signs.end());
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int parts = below(4); parts >= 0; --parts)
      text += signs[static_cast<std::size_t>(below(static_cast<int>(signs.size())))];
    texts.insert(text);
  }
  std::string numbered;
  int id = 0;
  for (const std::string& text : texts)
    numbered += fmt::format("{}{}: {}", id > 0 ? ", " : "", json_string(text), id), ++id;
  const Tokenizer tokenizer = read_tokenizer(
      "t.json", fmt::format(R"({{"model": {{"type": "WordLevel", "vocab": {{{}}}}}}})", numbered));
  std::map<std::string, std::string> by_label;
  id = 0;
  for (const std::string& text : texts) {
    CHECK(tokenizer.text(id) == text);
    const std::string label = tokenizer.label(id++);
    INFO(text << " is shown as " << label);
    CHECK(by_label.emplace(label, text).second);
    CHECK(label.find_first_of(" \n\t\r\x01") == std::string::npos);
  }
  CHECK(tokenizer.label(*tokenizer.id_of("␣")) != "␣");
  CHECK(tokenizer.label(*tokenizer.id_of(" ")) == "␣");
  CHECK(tokenizer.text(-1).empty());
}

TEST_CASE("texts of tokens have what marks stand for, byte by byte", "[tokenizers]") {
  const Tokenizer llama = model("bard-llama"), bert = model("bard-bert");
  CHECK(llama.text(*llama.id_of("Ġbe")) == " be");
  CHECK(llama.text(*llama.id_of("Ċ")) == "\n");
  CHECK(llama.text(*llama.id_of("ð")) == "\xf0");
  CHECK(llama.text(0) == "<|begin_of_text|>");
  CHECK(bert.text(*bert.id_of("##s")) == "s");
  // Together they are the text, where nothing is normalized.
  const std::string text = "To be 😀,\n\tor ␣ not — naïve.";
  std::string together;
  for (const int id : ids(llama, text, {.none = true})) together += llama.text(id);
  CHECK(together == text);
}

TEST_CASE("a token of the text that is the unknown one is not unknown", "[tokenizers]") {
  const auto notes = [](const std::string& model_text, std::string_view text) {
    return read_tokenizer("t.json", fmt::format(R"({{"pre_tokenizer": {{"type": "WhitespaceSplit"}},
        "model": {}}})",
                                                model_text))
        .encode(text)
        .notes.size();
  };
  for (const std::string honest :
       {R"({"type": "WordLevel", "vocab": {"?": 0, "a": 1}, "unk_token": "?"})",
        R"({"type": "WordPiece", "vocab": {"?": 0, "a": 1}, "unk_token": "?"})",
        R"({"type": "BPE", "vocab": {"?": 0, "a": 1}, "merges": [], "unk_token": "?"})",
        R"({"type": "BPE", "vocab": {"?": 0, "a": 1}, "merges": [], "unk_token": "?",
            "fuse_unk": true})",
        R"({"type": "Unigram", "vocab": [["?", 0], ["a", -1]], "unk_id": 0})"}) {
    INFO(honest);
    CHECK(notes(honest, "a ? a") == 0);
    CHECK(notes(honest, "a ! a") == 1);
    CHECK(notes(honest, "? ! ?") == 1);
  }
}

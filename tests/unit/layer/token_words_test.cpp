#include <mha/layer/select.hpp>
#include <mha/system/error.hpp>

#include <catch2/catch.hpp>

// Tokens chosen by their text.

using namespace mha;
using Catch::Contains;

namespace {

const std::vector<std::string> labels{"O", " Rome", "o", ",", " the", "the", " 3", " the", "C#"};

std::vector<std::size_t> placed(const std::string& text) {
  return IndexList::of_tokens(text, "--query")
      .placed(labels)
      .resolve(labels.size(), "tokens")
      .indices;
}

std::string refused(const std::string& text, const std::vector<std::string>& among = labels) {
  try {
    IndexList::of_tokens(text, "--query").placed(among);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("token words: a token by its text, with or without its blank, by the sign for it") {
  using List = std::vector<std::size_t>;
  CHECK(placed(" Rome") == List{1});
  CHECK(placed("Rome") == List{1});
  CHECK(placed("␣Rome") == List{1});
  CHECK(placed("the") == List{5}); // the one without a blank
  CHECK(placed(" the#1") == List{7});
  CHECK(placed("the#0") == List{5});
  CHECK(placed(",") == List{3}); // signs alone, and yet no index list
  CHECK(placed("C#") == List{8});
  CHECK(placed("C##0") == List{8});
  CHECK(placed("3") == List{3}); // an index is an index
  CHECK(placed(" 3") == List{6});
  CHECK(placed("o,0, the#0,6-8") == List{2, 0, 4, 6, 7, 8});
  CHECK(IndexList::of_tokens("Rome", "--query").placed(labels).resolve(9, "tokens").drops_axis);
  CHECK_FALSE(IndexList::of_tokens("1-2", "--query").names_tokens());
}

TEST_CASE("token words: near tokens, and the places of several") {
  CHECK(refused("rome#0,Roma") == "--query rome#0,Roma: no token is 'rome'; near: ' Rome' at 1");
  CHECK(refused("Roma") == "--query Roma: no token is 'Roma'; near: ' Rome' at 1");
  CHECK(refused("Elsinore") ==
        "--query Elsinore: no token is 'Elsinore'; there are 'O' at 0, ' Rome' "
        "at 1, 'o' at 2, ',' at 3, ' the' at 4, 'the' at 5 …");
  CHECK(refused(" the") ==
        "--query  the: several tokens are ' the'; choose one: ' the#0' at 4, ' the#1' at 7");
  CHECK(refused(" the#2") == "--query  the#2: several tokens are ' the', but #2 counts from 0: ' "
                             "the#0' at 4, ' the#1' at 7");
  CHECK_THAT(refused("Rome", {}), Contains("the tokens have no labels") && Contains("a-b"));
  CHECK_THAT(refused("Rome", {"", ""}), Contains("the tokens have no labels"));
  CHECK_THROWS_WITH(IndexList::of_tokens("1-0", "--query"), Contains("'1-0' is not an index"));
  CHECK_THROWS_WITH(IndexList::of_tokens("1:2:0", "--query"), Contains("is not an index"));
}

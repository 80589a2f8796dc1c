#include <mha/formats/json_array.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace mha::io {

namespace {

constexpr std::size_t most_axes = 32;
constexpr std::size_t unknown = std::numeric_limits<std::size_t>::max();

/// Collects numbers of 8 bytes whose count is not known in advance. Pieces of up to 1 MiB are
/// copied and freed one after the other at the end, so that twice the memory is never needed.
class GrowingNumbers {
public:
  void add(std::uint64_t bits) {
    if (used_ == pieces_size_) grow();
    last_[used_++] = bits;
  }
  std::size_t count() const { return full_ + used_; }
  Tensor gather(DType dtype, const Shape& shape) {
    Tensor result(dtype, shape);
    std::byte* to = result.raw_mutable();
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::size_t count = i + 1 == pieces_.size() ? used_ : pieces_[i].size;
      std::memcpy(to, pieces_[i].words.get(), count * 8);
      to += count * 8;
      pieces_[i].words.reset();
    }
    return result;
  }

private:
  struct Buffer {
    std::unique_ptr<std::uint64_t[]> words;
    std::size_t size;
  };
  void grow() {
    full_ += used_;
    pieces_size_ = std::clamp<std::size_t>(pieces_size_ * 2, 64, std::size_t{1} << 17);
    pieces_.push_back(
        {std::make_unique_for_overwrite<std::uint64_t[]>(pieces_size_), pieces_size_});
    last_ = pieces_.back().words.get();
    used_ = 0;
  }
  std::vector<Buffer> pieces_;
  std::uint64_t* last_ = nullptr;
  std::size_t used_ = 0, pieces_size_ = 0, full_ = 0;
};

class ArrayReader {
public:
  ArrayReader(JsonScanner& scanner, JsonNumbers kind) : scanner_(scanner), kind_(kind) {}

  JsonArray read() {
    JsonArray array;
    if (read_texts(array) || read_lists_of_texts(array)) return array;
    list(0);
    array.numbers = gathered(Shape(lengths_.begin(), lengths_.begin() + axes_));
    if (array.numbers.dtype() == DType::f64 && elements_ == Element::boolean &&
        array.numbers.count() > 0)
      array.numbers = convert(array.numbers, DType::boolean);
    return array;
  }
  /// One number without a list around it, of shape ().
  Tensor read_number() {
    element();
    return gathered(Shape());
  }

private:
  enum class Element : std::uint8_t { none, number, boolean };

  Tensor gathered(const Shape& shape) {
    const DType dtype = kind_ == JsonNumbers::signed_integers     ? DType::i64
                        : kind_ == JsonNumbers::unsigned_integers ? DType::u64
                                                                  : DType::f64;
    return pieces_.gather(dtype, shape);
  }

  /// Reads a flat list of strings; returns false, and reads nothing, for a list of numbers.
  bool read_texts(JsonArray& array) {
    const char* begin = scanner_.place();
    array.is_text = array.only_number_words = true;
    if (texts(array.texts, array.only_number_words)) return true;
    array = JsonArray{};
    scanner_.go_to(begin);
    return false;
  }

  /// Reads a list of lists of strings; returns false, and reads nothing, for numbers ("NaN").
  bool read_lists_of_texts(JsonArray& array) {
    const char* begin = scanner_.place();
    bool only_number_words = true;
    scanner_.expect('[', "a list");
    while (scanner_.next() == '[' && texts(array.lists.emplace_back(), only_number_words)) {
      if (!scanner_.accept(',')) {
        if (only_number_words) break;
        scanner_.expect(']', "',' or ']'");
        return true;
      }
      if (scanner_.next() != '[') scanner_.refuse("a list of text expected, as the ones before");
    }
    array.lists.clear();
    scanner_.go_to(begin);
    return false;
  }

  /// Reads one list of strings; returns false if it has no strings, or numbers among number words.
  bool texts(std::vector<std::string>& to, bool& only_number_words) {
    scanner_.expect('[', "a list");
    if (scanner_.next() != '"' || kind_ != JsonNumbers::floating_or_text) return false;
    do {
      if (scanner_.next() != '"') {
        if (!only_number_words) scanner_.refuse("text expected, as in the rest of the list");
        return false;
      }
      to.push_back(scanner_.string());
      only_number_words = only_number_words && typed_number_word(to.back()).has_value();
    } while (scanner_.accept(','));
    scanner_.expect(']', "',' or ']'");
    return true;
  }

  void list(std::size_t depth) {
    if (depth == most_axes)
      scanner_.refuse(fmt::format("lists nested more than {} deep", most_axes));
    const char* begin = scanner_.place();
    scanner_.expect('[', "a list");
    if (axes_ == depth) lengths_[axes_++] = unknown;
    std::size_t count = 0;
    if (!scanner_.accept(']')) {
      do {
        if (scanner_.next() == '[') {
          if (depth + 1 == rank_) scanner_.refuse("a list among numbers");
          list(depth + 1);
        } else {
          become_row(depth, scanner_.place());
          element();
        }
        ++count;
      } while (scanner_.accept(','));
      scanner_.expect(']', "',' or ']'");
    } else if (rank_ == unknown && axes_ == depth + 1) {
      rank_ = depth + 1;
    }
    if (lengths_[depth] == unknown) lengths_[depth] = count;
    if (lengths_[depth] != count)
      scanner_.refuse(
          fmt::format("a list of {}, where the ones before have {}", count, lengths_[depth]),
          begin);
  }

  void become_row(std::size_t depth, const char* at) {
    if (rank_ == unknown) rank_ = depth + 1;
    if (rank_ != depth + 1)
      scanner_.refuse_unexpected("a list expected, as in the rows before", at);
  }

  void element() {
    const char first = scanner_.next();
    if (kind_ == JsonNumbers::signed_integers) {
      pieces_.add(std::bit_cast<std::uint64_t>(scanner_.integer<std::int64_t>("a whole number")));
    } else if (kind_ == JsonNumbers::unsigned_integers) {
      pieces_.add(scanner_.integer<std::uint64_t>("a whole number of 0 or more"));
    } else if (scanner_.at_number()) {
      require_same(Element::number, scanner_.place());
      pieces_.add(std::bit_cast<std::uint64_t>(scanner_.number()));
    } else {
      pieces_.add(std::bit_cast<std::uint64_t>(special(first)));
    }
  }

  /// Throws Error if an array has both truth values and numbers.
  void require_same(Element element, const char* at) {
    if (elements_ == Element::none) elements_ = element;
    if (elements_ != element)
      scanner_.refuse("true or false in an array of numbers: use either only numbers or only truth "
                      "values",
                      at);
  }

  double special(char first) {
    const char* begin = scanner_.place();
    if (first == '{') scanner_.refuse("an object in a list; arrays are lists of numbers");
    if (first == '\0') scanner_.refuse_unexpected("the text ends in the middle of a list", begin);
    const std::string word = first == '"' ? scanner_.string() : std::string(scanner_.word());
    if (first != '"' && (word == "true" || word == "false")) {
      require_same(Element::boolean, begin);
      return word == "true" ? 1 : 0;
    }
    require_same(Element::number, begin);
    if (first != '"' && word == "null") return std::numeric_limits<double>::quiet_NaN();
    const std::optional<double> value = typed_number_word(word);
    if (!value)
      scanner_.refuse_unexpected(first == '"' ? "text in an array of numbers" : "a number expected",
                                 begin);
    return *value;
  }

  JsonScanner& scanner_;
  JsonNumbers kind_;
  GrowingNumbers pieces_;
  std::array<std::size_t, most_axes> lengths_{}; // of the axes; `unknown` until a list has ended
  std::uint32_t axes_ = 0;
  std::size_t rank_ = unknown; // known from the first number on
  Element elements_ = Element::none;
};

} // namespace

std::optional<double> number_word(std::string_view word) {
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<double> typed_number_word(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  const std::string name = lowered(word);
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name != "inf" && name != "infinity") return std::nullopt;
  return negative ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::infinity();
}

JsonArray read_json_array(JsonScanner& scanner, JsonNumbers kind) {
  return ArrayReader(scanner, kind).read();
}

Tensor read_json_number(JsonScanner& scanner, JsonNumbers kind) {
  return ArrayReader(scanner, kind).read_number();
}

} // namespace mha::io

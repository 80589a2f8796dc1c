#include <mha/load/tokenizers/regex.hpp>

#include <mha/files/text.hpp>
#include <mha/load/tokenizers/unicode.hpp>
#include <mha/system/error.hpp>

#include <array>
#include <chrono>
#include <mutex>

#include <oniguruma.h>

namespace mha::tokenizers {

namespace {

constexpr std::size_t longest = 20'000; // bytes of an expression

const OnigUChar* bytes_of(const char* text) {
  return reinterpret_cast<const OnigUChar*>(text);
}

std::string reason_of(int code, OnigErrorInfo* info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const int length = info ? onig_error_code_to_str(text.data(), code, info)
                          : onig_error_code_to_str(text.data(), code);
  return {reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(length)};
}

/// What keeps an expression that goes wrong from holding the program up: its steps back in a match
/// and the memory for them, per search, and a time for the whole text.
class Limits {
public:
  explicit Limits(std::size_t text)
      : params_(onig_new_match_param(), onig_free_match_param),
        last_(Clock::now() + std::chrono::milliseconds(2000 + text / 50)) {
    onig_initialize_match_param(params_.get());
    onig_set_retry_limit_in_match_of_match_param(params_.get(), 10'000'000);
    onig_set_retry_limit_in_search_of_match_param(params_.get(), 20'000'000);
    onig_set_match_stack_limit_size_of_match_param(params_.get(), 20'000'000);
  }
  OnigMatchParam* params() const { return params_.get(); }
  /// Asked after every match; looks at the clock now and then.
  bool over() { return ++asked_ % 64 == 0 && Clock::now() > last_; }

private:
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<OnigMatchParam, decltype(&onig_free_match_param)> params_;
  Clock::time_point last_;
  std::size_t asked_ = 0;
};

} // namespace

struct Regex::Compiled {
  std::string expression;
  OnigRegex regex = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (regex) onig_free(regex);
  }
};

Regex::Regex(const std::string& expression) {
  static std::once_flag once; // the library's tables
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
  });
  if (expression.size() > longest)
    fail("the pattern has {} bytes; at most {} are taken", expression.size(), longest);
  auto compiled = std::make_shared<Compiled>();
  compiled->expression = expression;
  OnigErrorInfo info{};
  const char* first = compiled->expression.data();
  const int code = onig_new(&compiled->regex, bytes_of(first), bytes_of(first + expression.size()),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL)
    fail("the pattern '{}' is not understood: {}", io::shown(expression), reason_of(code, &info));
  compiled_ = std::move(compiled);
}

std::vector<Match> Regex::matches(std::string_view text) const {
  std::vector<Match> list;
  Limits limits(text.size());
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar* begin = bytes_of(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t at = 0, covered = 0;
  while (at <= text.size()) {
    const int found = onig_search_with_param(compiled_->regex, begin, end, begin + at, end,
                                             region.get(), ONIG_OPTION_NONE, limits.params());
    if (found == ONIG_MISMATCH) break;
    if (found < 0 || limits.over())
      fail("the tokenizer's pattern '{}' takes too long for this text{}",
           io::shown(compiled_->expression),
           found < 0 ? fmt::format(" ({})", reason_of(found, nullptr)) : "");
    const auto first = static_cast<std::size_t>(region->beg[0]);
    const auto last = static_cast<std::size_t>(region->end[0]);
    // A match of nothing right behind another is none.
    if (first < last || list.empty() || !list.back().found || list.back().end != first) {
      if (covered < first) list.push_back({covered, first, false});
      list.push_back({first, last, true});
      covered = last;
    }
    at = last;
    if (first == last) at += last < text.size() ? length_of(text[last]) : 1;
  }
  if (covered < text.size()) list.push_back({covered, text.size(), false});
  return list;
}

} // namespace mha::tokenizers

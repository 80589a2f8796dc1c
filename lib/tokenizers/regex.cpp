#include <mha/tokenizers/regex.hpp>

#include <mha/files/text.hpp>
#include <mha/system/error.hpp>
#include <mha/tokenizers/text_time.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

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

/// Whether an expression calls a group, \g<name>. Such calls are expanded recursively: with ten in
/// each of ten groups even the library's compiler never ends.
bool calls_groups(std::string_view expression) {
  for (std::size_t at = 0; at + 2 < expression.size(); ++at) {
    if (expression[at] != '\\') continue;
    ++at;
    if (expression[at] == 'g' && (expression[at + 1] == '<' || expression[at + 1] == '\''))
      return true;
  }
  return false;
}

/// MatchLimits on time, memory and backtracking steps, so that a pathological expression cannot
/// hang the program. The library does not check the time within a match, and each backtracking step
/// may scan the whole text. So a match gets few steps at first, and is repeated with more of them
/// as long as that is not expected to take too long.
class MatchLimits {
public:
  explicit MatchLimits(std::size_t text)
      : params_(onig_new_match_param(), onig_free_match_param),
        time_(TextTime::of_text() ? *TextTime::of_text() : own_.emplace(text)) {
    constexpr std::size_t some = 100'000, for_a_byte = 4, most = 20'000'000;
    onig_initialize_match_param(params_.get());
    onig_set_match_stack_limit_size_of_match_param(
        params_.get(), static_cast<unsigned>(std::min(some + for_a_byte * text, most)));
  }
  OnigMatchParam* params() const { return params_.get(); }

  /// Called before a match is tried in `bytes` bytes.
  void begin(std::size_t bytes) {
    constexpr std::size_t looked_at = 20'000'000, least = 64; // bytes, some 20 ms; steps
    set_steps(std::clamp(looked_at / std::max<std::size_t>(bytes, 1), least, most_steps));
    left_before_.reset();
  }
  /// Called after a match exceeded its steps: whether it may be repeated with more.
  bool more() {
    const double left = time_.left(), spent = left_before_.value_or(left) - left;
    if (left <= factor * spent || steps_ == most_steps) return false;
    left_before_ = left;
    set_steps(std::min(factor * steps_, most_steps));
    return true;
  }
  /// Called after a match was tried at one position.
  bool over() { return time_.over(); }
  const TextTime& time() const { return time_; }
  MatchLimits(const MatchLimits&) = delete;
  MatchLimits& operator=(const MatchLimits&) = delete;

private:
  static constexpr std::size_t most_steps = 10'000'000, factor = 4;

  void set_steps(std::size_t steps) {
    steps_ = steps;
    onig_set_retry_limit_in_match_of_match_param(params_.get(), steps);
  }

  std::unique_ptr<OnigMatchParam, decltype(&onig_free_match_param)> params_;
  std::optional<TextTime> own_;
  TextTime& time_;
  std::optional<double>
      left_before_; ///< seconds left before the last try of this match; empty before the first
  std::size_t steps_ = 0;
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
    fail("the pattern has {} bytes; at most {} are allowed", expression.size(), longest);
  if (calls_groups(expression))
    fail("the pattern '{}' calls one of its groups (\\g<…>), which is not supported",
         io::shown(expression));
  if (TextTime* const time = TextTime::of_text()) time->require("list of patterns");
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
  MatchLimits limits(text.size());
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar* begin = bytes_of(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t at = 0, covered = 0; // `at`: where the search for the next match begins
  for (std::size_t place = 0; place <= text.size();) {
    // Each position is tried separately because the library's search cannot be interrupted.
    const OnigOptionType option = place > at ? ONIG_OPTION_NOT_BEGIN_POSITION : ONIG_OPTION_NONE;
    limits.begin(text.size() - place);
    int found = 0;
    do
      found = onig_match_with_param(compiled_->regex, begin, end, begin + place, region.get(),
                                    option, limits.params());
    while (found == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER && limits.more());
    const bool none = found == ONIG_MISMATCH;
    if ((found < 0 && !none) || limits.over())
      limits.time().refuse(fmt::format("pattern '{}'", io::shown(compiled_->expression)),
                           found < 0 && !none ? reason_of(found, nullptr) : "");
    const std::size_t next = place + (place < text.size() ? length_of(text[place]) : 1);
    if (none) {
      place = next;
      continue;
    }
    const std::size_t last = place + static_cast<std::size_t>(found);
    // An empty match directly after another match does not count.
    if (place < last || list.empty() || !list.back().found || list.back().end != place) {
      if (covered < place) list.push_back({covered, place, false});
      list.push_back({place, last, true});
      covered = last;
    }
    place = at = place < last ? last : next;
  }
  if (covered < text.size()) list.push_back({covered, text.size(), false});
  return list;
}

} // namespace mha::tokenizers

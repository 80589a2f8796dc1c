#include <mha/system/message.hpp>

#include <mha/system/named.hpp>
#include <mha/system/references.hpp>

#include <algorithm>
#include <array>

namespace mha {

namespace {

// The first two enclose a reference; the third escapes any of them in plain text.
constexpr char opening_mark = '\x0e', closing_mark = '\x0f', plain_mark = '\x10';

bool is_mark(char c) {
  return c == opening_mark || c == closing_mark || c == plain_mark;
}

/// A phrase for the user of the command line, and for a program's author.
struct Phrase {
  std::string_view name, typed, in_programs;
};
constexpr Phrase phrases[]{
    {"names page", "`mha-inspect names`", "docs/formats.md"},
    {"stages page", "`mha-inspect stages`", "docs/stages.md"},
    {"pieces show", "`mha-inspect tokens` shows", "their pieces show"},
    {"which layer", "choose with --layer N, --layer 0-2 or --layer all", "choose one"},
    {"joins parts", "which only `convert` reads: mha-inspect convert PART... -o FILE",
     "which the program joins with the other parts first (docs/cluster.md)"},
    {"draft naming", ", which info --as-naming drafts", " (docs/describing.md)"},
    {"start from q, k and v", "show q=FILE k=FILE v=FILE", "give q, k and v"},
    {"stream to a file", "let `dump` stream them to a file", "stream them"},
    {"weights and stages", "`info` and `show --text …`", "the weights and the stages before it"},
    {"stages show", "`show --text …` shows", "its stages show"},
    {"or diff", ", or compare them: mha-inspect diff", ""}};

/// "W_q=FILE:TENSOR@IO" of a program: a tensor with that key.
std::string binding_in_words(std::string_view binding, std::size_t equals, Wording wording) {
  if (wording == Wording::command_line) return std::string(binding);
  return fmt::format("{{\"{}\", tensor}}", binding.substr(0, equals));
}

std::string reference_in_words(std::string_view reference, Wording wording) {
  const bool typed = wording == Wording::command_line;
  if (const Phrase* phrase = find_named(phrases, reference))
    return std::string(typed ? phrase->typed : phrase->in_programs);
  constexpr std::string_view transpose = "transpose ";
  if (reference.starts_with(transpose))
    return typed ? fmt::format("write {}=…@OI", reference.substr(transpose.size()))
                 : "give its transpose";
  const std::size_t equals = reference.find('=');
  if (equals != std::string_view::npos) return binding_in_words(reference, equals, wording);
  return setting_in_words(reference, wording);
}

/// The plain text, with words(reference) for each reference.
template <class Words> std::string text_of(std::string_view marked, const Words& words) {
  std::string text, reference;
  bool inside = false;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    const char c = marked[i];
    if (c == opening_mark) {
      inside = true, reference.clear();
    } else if (c == closing_mark) {
      inside = false, text += words(reference);
    } else {
      const bool plain = c == plain_mark && i + 1 < marked.size();
      (inside ? reference : text) += plain ? marked[++i] : c;
    }
  }
  return text;
}

} // namespace

std::string setting_in_words(std::string_view setting, Wording wording) {
  if (wording == Wording::program) return std::string(setting);
  constexpr std::string_view off = " false";
  const bool is_off = setting.ends_with(off);
  std::string option(setting.substr(0, setting.size() - (is_off ? off.size() : 0)));
  std::ranges::replace(option, '_', '-');
  return (is_off ? "--no-" : "--") + option;
}

Message::Message(std::string_view plain) {
  for (const char c : plain) {
    if (is_mark(c)) marked_ += plain_mark;
    marked_ += c;
  }
}

Message Message::of_marked(std::string text) {
  Message message;
  message.marked_ = std::move(text);
  return message;
}

std::string Message::in_words(Wording wording) const {
  return text_of(marked_, [&](const std::string& reference) {
    return reference_in_words(reference, wording);
  });
}

bool refers_to(const Message& message, std::string_view reference) {
  bool found = false;
  text_of(message.marked(), [&](const std::string& own) {
    found = found || own == reference;
    return own;
  });
  return found;
}

Message with_reference(const Message& message, std::string_view from, std::string_view to) {
  const auto marked = [](std::string_view reference) {
    return opening_mark + std::string(reference) + closing_mark;
  };
  std::string text = message.marked();
  const std::string old = marked(from), other = marked(to);
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += other.size())
    text.replace(at, old.size(), other);
  return Message::of_marked(std::move(text));
}

Message of_literal(std::string_view text) {
  return Message::of_marked(detail::with_marks(text));
}

std::string detail::with_marks(std::string_view literal) {
  std::string marked;
  std::size_t braces = 0; // inside {}, < is an alignment
  bool inside = false;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    const bool twice = i + 1 < literal.size() && literal[i + 1] == c;
    if (braces == 0 && twice && (c == '{' || c == '}' || c == '<')) {
      marked += c == '<' ? "<" : literal.substr(i, 2);
      ++i;
      continue;
    }
    if (c == '{') ++braces;
    if (c == '}') --braces;
    const bool opens = braces == 0 && c == '<', closes = inside && braces == 0 && c == '>';
    if (opens || closes) inside = opens;
    marked += opens ? opening_mark : closes ? closing_mark : c;
  }
  return marked;
}

} // namespace mha

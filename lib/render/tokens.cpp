#include <mha/render/tokens.hpp>

#include <mha/render/json_text.hpp>
#include <mha/render/numbers.hpp>
#include <mha/render/table.hpp>

#include <fmt/format.h>

#include <array>

namespace mha::render {

namespace {

constexpr std::size_t most_buffered = std::size_t{1} << 16;

/// Text that goes on to a sink in pieces.
class BufferedSink {
public:
  explicit BufferedSink(const Sink& sink) : sink_(sink) {}
  void add(std::string_view text) {
    text_ += text;
    if (text_.size() >= most_buffered) end();
  }
  void end() {
    sink_(text_);
    text_.clear();
  }

private:
  const Sink& sink_;
  std::string text_;
};

} // namespace

void write_tokens_table(const std::vector<TokenList>& texts, const TokenNames& names,
                        const TextStyle& text_style, const Sink& sink) {
  bool first = true;
  for (const TokenList& list : texts) {
    Table grid({{"", true}, {"token"}, {"id", true}, {"bytes"}, {"piece", false, true, true}});
    for (std::size_t i = 0; i < list.size(); ++i) {
      const TokenPlace& at = list[i];
      const std::string label = names.label(at.id), piece = names.piece(at.id);
      grid.add({fmt::format("{}", i), visible(label), fmt::format("{}", at.id),
                at.begin == at.end ? "–" : fmt::format("{}–{}", at.begin, at.end),
                piece == label ? "" : visible(piece)});
    }
    sink((first ? "" : "\n") + grid.text(text_style));
    first = false;
  }
}

void write_tokens_csv(const std::vector<TokenList>& texts, const TokenNames& names,
                      std::string_view form, const Sink& sink) {
  BufferedSink out(sink);
  const auto line = [&](const std::vector<std::string>& cells) {
    out.add(separated_line(cells, separator_of(form)));
  };
  line({"text", "position", "id", "token", "piece", "begin", "end"});
  for (std::size_t t = 0; t < texts.size(); ++t)
    for (std::size_t i = 0; i < texts[t].size(); ++i) {
      const TokenPlace& at = texts[t][i];
      line({std::to_string(t), std::to_string(i), std::to_string(at.id), names.text(at.id),
            names.piece(at.id), std::to_string(at.begin), std::to_string(at.end)});
    }
  out.end();
}

void write_tokens_json(const std::vector<TokenList>& texts, const TokenNames& names,
                       const Sink& sink) {
  JsonText json;
  const auto member = [&](std::string_view title, const TokenList& list, const auto& add) {
    json.key(title).list(list, [&](const TokenPlace& at) {
      add(at);
      if (json.size() >= most_buffered) sink(json.take());
    });
  };
  if (texts.size() != 1) json.open_list({"", "\n ", ""});
  for (const TokenList& list : texts)
    json.object([&] {
      member("ids", list, [&](const TokenPlace& at) { json.value(at.id); });
      member("tokens", list, [&](const TokenPlace& at) { json.value(names.text(at.id)); });
      member("pieces", list, [&](const TokenPlace& at) { json.value(names.piece(at.id)); });
      member("offsets", list, [&](const TokenPlace& at) {
        json.list(std::array{at.begin, at.end});
      });
    });
  if (texts.size() != 1) json.close();
  json.end_line();
  sink(json.take());
}

} // namespace mha::render

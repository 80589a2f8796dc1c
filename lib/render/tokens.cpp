#include <mha/render/tokens.hpp>

#include <mha/render/numbers.hpp>
#include <mha/render/text_table.hpp>

#include <fmt/format.h>

namespace mha::render {

namespace {

/// Text that goes on to a sink in pieces.
class BufferedSink {
public:
  explicit BufferedSink(const Sink& sink) : sink_(sink) {}
  void add(std::string_view text) {
    constexpr std::size_t most = std::size_t{1} << 16;
    text_ += text;
    if (text_.size() >= most) end();
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
    TextTable grid({{"", true}, {"token"}, {"id", true}, {"bytes"}, {"piece", false, true, true}});
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
  BufferedSink out(sink);
  out.add(texts.size() == 1 ? "" : "[");
  for (const TokenList& list : texts) {
    out.add(&list == &texts.front() ? "{" : ",\n {");
    const auto member = [&](const char* title, const auto& text_of) {
      out.add(title);
      for (const TokenPlace& at : list) {
        out.add(&at == &list.front() ? "" : ", ");
        out.add(text_of(at));
      }
      out.add("]");
    };
    member("\"ids\": [", [](const TokenPlace& at) { return fmt::format("{}", at.id); });
    member(", \"tokens\": [", [&](const TokenPlace& at) { return json_string(names.text(at.id)); });
    member(", \"pieces\": [",
           [&](const TokenPlace& at) { return json_string(names.piece(at.id)); });
    member(", \"offsets\": [",
           [](const TokenPlace& at) { return fmt::format("[{}, {}]", at.begin, at.end); });
    out.add("}");
  }
  out.add(texts.size() == 1 ? "\n" : "]\n");
  out.end();
}

} // namespace mha::render

// tokens: lists a text's token numbers, pieces and offsets.

#include "commands/commands.hpp"
#include "output.hpp"
#include <mha/model/opened_model.hpp>
#include <mha/model/text.hpp>
#include <mha/render/tokens.hpp>
#include <mha/tokenizers/tokenizer.hpp>

namespace mha::app {

namespace {

struct TokensCommand {
  std::vector<std::string> sources;
  RunRequest request; ///< whose text it is
  OutputOptions output;
  Common common;

  int run();
};

int TokensCommand::run() {
  if (sources.size() != 1)
    throw UsageError("tokens takes one checkpoint folder or GGUF file with a tokenizer");
  const std::string form = form_of(output);
  const Text& text = request.text;
  if (!request.has_text())
    throw UsageError("tokens needs a text: --text \"…\" or --text-file FILE");
  const tokenizers::Tokenizer tokenizer = tokenizers::load_tokenizer(sources[0]);
  std::vector<render::TokenList> lists;
  const std::vector<std::string> texts = texts_of(text.texts, text.files, text.each_line);
  report_notes(tokenizer.notes(), common);
  report_notes(notes_of_line_feeds(text, texts), common);
  for (const std::string& input : texts) {
    tokenizers::Encoding encoding = tokenizer.encode(input, text.special);
    report_notes(notes_of_text(encoding.notes, lists.size(), texts.size() > 1), common);
    render::TokenList list;
    list.reserve(encoding.tokens.size());
    for (const tokenizers::Token& token : encoding.tokens)
      list.push_back({token.id, token.begin, token.end});
    lists.push_back(std::move(list));
  }
  const render::TokenNames names{[&](int id) { return tokenizer.label(id); },
                                 [&](int id) { return tokenizer.text_in_utf8(id); },
                                 [&](int id) { return tokenizer.piece_of(id).value_or(""); }};
  const render::TextStyle text_style = text_style_of(output, common.color);
  const auto write = [&](const std::string& path, const std::vector<render::TokenList>& selected) {
    TextFile file(path);
    render::write_tokens(selected, names, form, text_style, file.sink());
    file.finish();
  };
  if (!mentions(output.path, "{batch}"))
    write(output.path, lists);
  else
    for (std::size_t b = 0; b < lists.size(); ++b) write(with_batch(output.path, b), {lists[b]});
  return 0;
}

} // namespace

Run declare_tokens(Cli& cli) {
  const auto tokens = std::make_shared<TokensCommand>();
  cli.about(
      "Splits a text into tokens with a checkpoint's tokenizer (tokenizer.json, vocab.json and "
      "merges.txt, or vocab.txt) and prints their numbers, pieces and byte offsets in the text.");
  cli.positionals("CHECKPOINT", "a checkpoint folder with a tokenizer, or a GGUF file",
                  tokens->sources, true);
  add_text(cli, tokens->request, false);
  add_output(cli, tokens->output, result_formats(),
             "write to a file; {batch} in PATH writes one for each text",
             std::span(all_placeholders).subspan(1, 1));
  add_common(cli, tokens->common, false);
  cli.example("tokens data/bard-llama --text 'To be, or not to be'",
              "print one line for each token");
  cli.example("tokens data/bard-bert --text 'Shall I compare thee?' -f json",
              "print ids, pieces and offsets for another program");
  return [tokens] { return tokens->run(); };
}

} // namespace mha::app

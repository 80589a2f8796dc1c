// tokens: a text's token numbers, pieces and places.

#include "commands/commands.hpp"
#include "output.hpp"
#include <mha/load/tokenizers/tokenizer.hpp>
#include <mha/model/pass.hpp>
#include <mha/model/token_ids.hpp>
#include <mha/render/tokens.hpp>

namespace mha::app {

namespace {

struct TokensCommand {
  std::vector<std::string> sources;
  Request request; ///< whose text it is
  OutputOptions output;
  Common common;

  int run();
};

int TokensCommand::run() {
  if (sources.size() != 1)
    throw UsageError("tokens takes one checkpoint folder, whose tokenizer it uses");
  const std::string form = output.is_json() ? "json" : text_form(output);
  const Text& text = dynamic_cast<const ModelPass&>(*request.inputs).text;
  if (text.texts.empty() && text.files.empty())
    throw UsageError("tokens needs a text: --text \"…\" or --text-file FILE");
  const tokenizers::Tokenizer tokenizer = tokenizers::load_tokenizer(sources[0]);
  std::vector<render::TokenList> lists;
  for (const std::string& one : texts_of(text.texts, text.files, text.each_line)) {
    tokenizers::Encoding encoding = tokenizer.encode(one, text.special);
    tell_notes(encoding.notes, common);
    render::TokenList list;
    for (const tokenizers::Token& token : encoding.tokens)
      list.push_back({token.id, token.piece, tokenizer.label(token.id), token.begin, token.end});
    lists.push_back(std::move(list));
  }
  TextFile file(output.path);
  render::Look look = look_of_output(common.color);
  if (!output.to_standard_output()) look.color = common.color == Color::always;
  file.sink()(form == "json"    ? render::tokens_json(lists)
              : form == "table" ? render::tokens_table(lists, look)
                                : render::tokens_csv(lists, form == "tsv" ? '\t' : ','));
  file.finish();
  return 0;
}

} // namespace

Run declare_tokens(Cli& cli) {
  const auto tokens = std::make_shared<TokensCommand>();
  cli.about("Cuts a text into tokens with the tokenizer beside a checkpoint (tokenizer.json, "
            "vocab.json and merges.txt, or vocab.txt) and prints their numbers, pieces and the "
            "bytes of the text that they stand for.");
  cli.positionals("CHECKPOINT", "a checkpoint folder with a tokenizer", tokens->sources, true);
  add_text(cli, tokens->request, false);
  add_output(cli, tokens->output, {"table", "csv", "tsv", "json"}, "write to a file");
  add_common(cli, tokens->common, false);
  cli.example("tokens data/bard-llama --text 'To be, or not to be'", "a line a token");
  cli.example("tokens data/bard-bert --text 'Shall I compare thee?' -f json",
              "ids, pieces and offsets for another program");
  return [tokens] { return tokens->run(); };
}

} // namespace mha::app

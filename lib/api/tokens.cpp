// Texts as a model's token numbers.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha {

namespace {

void require_in_vocabulary(const std::vector<int>& ids, std::size_t vocabulary) {
  for (const int id : ids)
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary)
      fail("ids: {} is not a token: the vocabulary has 0 to {}", id, vocabulary - 1);
}

Tokens of_ids(const Model::State& model, std::vector<std::vector<int>> ids, bool batched) {
  if (ids.empty()) fail("batch: there is no text");
  for (const std::vector<int>& text : ids) {
    if (text.empty()) fail("ids: there is no token to compute with");
    require_in_vocabulary(text, model.weights->model().vocabulary());
  }
  auto state = std::make_shared<Tokens::State>();
  state->weights = model.weights;
  state->ids = std::move(ids), state->batched = batched;
  return Tokens(std::move(state));
}

Tokens of_texts(const Model::State& model, const std::vector<std::string>& texts, bool batched) {
  if (texts.empty()) fail("batch: there is no text");
  const tokenizers::Tokenizer& tokenizer = model.weights->tokenizer();
  require_first_segment(tokenizer, model.weights->model());
  auto state = std::make_shared<Tokens::State>();
  state->weights = model.weights;
  state->batched = batched, state->labelled = true;
  std::ranges::copy(tokenizer.notes(), std::back_inserter(state->notes));
  for (const std::string& text : texts) {
    const tokenizers::Encoding encoding = tokenizer.encode(text);
    const std::size_t number = state->ids.size();
    for (Note& note : notes_of_text(encoding.notes, number, texts.size() > 1))
      state->notes.push_back(std::move(note));
    state->ids.push_back(encoding.ids());
    if (state->ids.back().empty())
      fail("{}has no token to compute with",
           texts.size() > 1 ? fmt::format("text {} ", number) : "the text ");
  }
  return Tokens(std::move(state));
}

} // namespace

std::size_t Tokens::count() const {
  return state_->ids.size();
}
bool Tokens::batched() const {
  return state_->batched;
}
const std::vector<int>& Tokens::ids(std::size_t text) const& {
  if (text >= state_->ids.size())
    fail("there is no text {}: there are {}", text, state_->ids.size());
  return state_->ids[text];
}
const std::vector<Note>& Tokens::notes() const& {
  return state_->notes;
}

std::vector<std::string> Tokens::pieces(std::size_t text) const {
  return api::visiting([&] {
    const tokenizers::Tokenizer* const tokenizer =
        state_->weights->has_tokenizer() ? &state_->weights->tokenizer() : nullptr;
    std::vector<std::string> pieces;
    for (const int id : ids(text))
      pieces.push_back(tokenizer ? tokenizer->text_in_utf8(id) : std::to_string(id));
    return pieces;
  });
}

Tokens Model::tokens(std::string_view text) const {
  return api::visiting([&] { return of_texts(*state_, {std::string(text)}, false); });
}
Tokens Model::tokens(const std::vector<int>& ids) const {
  return api::visiting([&] { return of_ids(*state_, {ids}, false); });
}
Tokens Model::batch(const std::vector<std::string>& texts) const {
  return api::visiting([&] { return of_texts(*state_, texts, true); });
}
Tokens Model::batch(std::initializer_list<const char*> texts) const {
  if (is_one_of(nullptr, texts)) fail("batch: a null pointer is not a text");
  return batch(std::vector<std::string>(texts.begin(), texts.end()));
}
Tokens Model::batch(const std::vector<std::vector<int>>& ids) const {
  return api::visiting([&] { return of_ids(*state_, ids, true); });
}
Tokens Model::batch(std::initializer_list<std::vector<int>> ids) const {
  return batch(std::vector<std::vector<int>>(ids));
}
Tokens Model::batch(std::initializer_list<std::initializer_list<int>> ids) const {
  return batch(std::vector<std::vector<int>>(ids.begin(), ids.end()));
}

std::string Model::text(const std::vector<int>& ids) const {
  return api::visiting([&] {
    require_in_vocabulary(ids, state_->weights->model().vocabulary());
    const tokenizers::Tokenizer& tokenizer = state_->weights->tokenizer();
    std::string text;
    for (const int id : ids) text += tokenizer.text_in_utf8(id);
    return text;
  });
}

} // namespace mha

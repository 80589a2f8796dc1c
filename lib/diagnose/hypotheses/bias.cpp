// Biases of the projections: left out, exchanged, or added several times.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha {

namespace {

struct Bias {
  char letter;
  Stage stage;
  Tensor Layer::*bias;
};
constexpr Bias of_q{'q', Stage::q, &Layer::b_q}, of_k{'k', Stage::k, &Layer::b_k},
    of_v{'v', Stage::v, &Layer::b_v}, of_o{'o', Stage::output, &Layer::b_o};

/// Exchanged biases of one length, which only the numbers reveal.
void add_exchanges(const Layer& layer, ChangeList& list) {
  for (const auto& [a, b] : {std::pair(of_q, of_k), std::pair(of_k, of_v), std::pair(of_q, of_v)}) {
    const Tensor &one = layer.*a.bias, &other = layer.*b.bias;
    if (one.empty() || other.empty() || one.shape() != other.shape()) continue;
    list.add(fmt::format("bias.swapped.{}{}", a.letter, b.letter), StageSet{a.stage, b.stage},
             fmt::format("adds b_{1} to {0} and b_{0} to {1}", a.letter, b.letter),
             fmt::format("exchange the biases of {} and {}", a.letter, b.letter),
             [a = a.bias, b = b.bias](Layer& edited) { std::swap(edited.*a, edited.*b); })
        .rare = true;
  }
}

/// Every rank of a tensor-parallel computation adds b_o, so that the sum contains it several times.
void add_ranks(ChangeList& list) {
  for (int times : {2, 4, 8})
    list.add("bias.times.o", StageSet{Stage::output},
             fmt::format("adds b_o {} times, as ranks that each add it do", times),
             "add b_o once, after the sum over ranks",
             [times](Layer& edited) {
               edited.b_o = each_number(convert(edited.b_o, edited.dtype),
                                        [times](double b) { return times * b; });
             })
        .rare = true;
}

std::vector<Change> bias_changes(const Subject& subject) {
  ChangeList list;
  for (const Bias& b : {of_q, of_k, of_v, of_o})
    if (!(subject.layer.*b.bias).empty())
      list.add(fmt::format("bias.missing.{}", b.letter), StageSet{b.stage},
               fmt::format("leaves out b_{}", b.letter),
               fmt::format("add b_{} after the product with W_{}", b.letter, b.letter),
               [bias = b.bias](Layer& edited) { edited.*bias = {}; });
  add_exchanges(subject.layer, list);
  if (!subject.layer.b_o.empty()) add_ranks(list);
  return list.take();
}

} // namespace

const Theme bias_theme{"bias",
                       "bias.missing.q bias.missing.k bias.missing.v bias.missing.o bias.times.o "
                       "bias.swapped.qk bias.swapped.kv bias.swapped.qv",
                       bias_changes};

} // namespace mha

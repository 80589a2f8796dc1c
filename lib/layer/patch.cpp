#include <mha/layer/patch.hpp>

#include <algorithm>

namespace mha {

PatchedAxis::PatchedAxis(const std::vector<std::size_t>& positions, std::size_t count)
    : all_(false), numbers_(count, -1) {
  for (std::size_t i = 0; i < positions.size(); ++i)
    numbers_[positions[i]] = static_cast<std::ptrdiff_t>(i);
}

template <class T> void ResolvedEdit::apply(std::size_t batch, std::size_t head, std::size_t token,
                                            T* values, std::size_t first, std::size_t n) const {
  if (value.empty() || !touches(batch, head, token)) return; // a tensor's has no value
  const std::size_t row = tokens.empty() ? token : tokens[batch].number(token);
  const T* const numbers = value.as<T>().data() + batch * strides[0] +
                           heads.number(head) * strides[1] + row * strides[2];
  static const PatchedAxis every;
  const PatchedAxis& own = columns.empty() ? every : columns[columns.size() > 1 ? batch : 0];
  for (std::size_t i = 0; i < n; ++i) {
    if (!own.contains(first + i)) continue;
    const T number = numbers[own.number(first + i) * strides[3]];
    switch (op) {
    case PatchOp::set:
      values[i] = number;
      break;
    case PatchOp::add:
      values[i] += number;
      break;
    case PatchOp::multiply:
      values[i] *= number;
      break;
    }
  }
}

void Patches::add(ResolvedEdit patch) {
  stages.add(patch.stage);
  list.push_back(std::move(patch));
}

bool is_any_read(const std::vector<IsRead>& list) {
  return std::ranges::any_of(list, [](const IsRead& read) { return read->load(); });
}

bool Patches::touches(Stage stage, std::size_t batch, std::size_t head, std::size_t token) const {
  return has(stage) && std::ranges::any_of(list, [&](const ResolvedEdit& patch) {
           return patch.stage == stage && patch.touches(batch, head, token);
         });
}

template <class T> void Patches::apply(Stage stage, std::size_t batch, std::size_t head,
                                       std::size_t token, T* values, std::size_t first,
                                       std::size_t n) const {
  for (const ResolvedEdit& patch : list)
    if (patch.stage == stage) patch.apply(batch, head, token, values, first, n);
}

template void ResolvedEdit::apply(std::size_t, std::size_t, std::size_t, float*, std::size_t,
                                  std::size_t) const;
template void ResolvedEdit::apply(std::size_t, std::size_t, std::size_t, double*, std::size_t,
                                  std::size_t) const;
template void Patches::apply(Stage, std::size_t, std::size_t, std::size_t, float*, std::size_t,
                             std::size_t) const;
template void Patches::apply(Stage, std::size_t, std::size_t, std::size_t, double*, std::size_t,
                             std::size_t) const;

} // namespace mha

// GeometricMachineLearning.jl's MultiHeadAttention: PQ, PK, PV, each head_1 … head_H of (dim, d_h),
// applied to columns: PQᵀ x. No output projection; X is added (add_connection); the scale is
// 1/√dim.
//
// Its text says V softmax(KᵀQ), its code computes softmax((PQᵀX)ᵀ (PKᵀX) / √dim) = softmax(QᵀK)
// over each column. A column is thus one key of theirs and the sum runs over their queries:
// attention with PQ and PK exchanged. We follow the code.

#include <mha/load/families/namings.hpp>

#include <cstring>

namespace mha::naming {

namespace {

/// head_1 … head_n as (n, dim, d_h).
Tensor stacked(const Translation& to, const std::string& name, std::size_t heads) {
  Tensor all;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::string head = fmt::format("{}.head_{}", name, h + 1);
    Tensor one = to.read(head);
    const Shape s = one.shape();
    if (s.size() != 2 || one.count() == 0)
      fail("{} is {}: a matrix expected, (dim, dim / {})", to.source_of(head), to_string(s), heads);
    // Julia's arrays are stored by columns; some writers hand them on turned.
    if (s[1] == heads * s[0] && heads > 1) one = transposed(one);
    if (all.empty()) all = Tensor(one.dtype(), {heads, one.shape()[0], one.shape()[1]});
    const Shape want{all.shape()[1], all.shape()[2]};
    if (one.shape() != want || one.dtype() != all.dtype())
      fail("{} is {}: {} expected, as in {}.head_1", to.source_of(head), to_string(s),
           to_string(want), name);
    std::memcpy(all.raw_mutable() + h * one.bytes(), one.raw(), one.bytes());
  }
  return all;
}

void translate_gml(const Group& group, Translation& to) {
  std::size_t heads = 0;
  while (group.has(fmt::format("PQ.head_{}", heads + 1))) ++heads;
  if (heads == 0) fail("{} is missing: the heads count from 1", to.source_of("PQ.head_1"));
  for (const auto& [canonical, name] : {std::pair("W_q", "PK"), {"W_k", "PQ"}, {"W_v", "PV"}})
    to.put(canonical, stacked(to, name, heads), fmt::format("{}.head_1", name));
  to.set("scale", "d_model");
  to.set("residual", "true");
  to.set("columns", "true");
  to.set_post_norm();
  to.note("GeometricMachineLearning's code computes softmax(QᵀK) over columns, though its text "
          "says KᵀQ: "
          "W_q is PK and W_k is PQ, as the code has it");
}

} // namespace

const Family gml{
    "gml",        "GeometricMachineLearning", "*", "PQ.head_# PK.head_# PV.head_#", "", nullptr,
    translate_gml};

} // namespace mha::naming

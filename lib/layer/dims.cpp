#include <mha/layer/dims.hpp>

namespace mha {

namespace {

using enum Dim;

const std::array<DimInfo, dim_count> letters{{
    {T, "T", Axis::query, &Dims::T, "queries"},
    {S, "S", Axis::key, &Dims::S, "keys"},
    {S_all, "S", Axis::key, &Dims::S_all, "keys in all"},
    {H, "H", Axis::head, &Dims::H, "heads"},
    {H_kv, "H_kv", Axis::kv_head, &Dims::H_kv, "key/value heads"},
    {d_model, "d_model", Axis::width, &Dims::d_model, "columns (d_model)"},
    {d_k, "d_k", Axis::width, &Dims::d_k, "numbers per query and key (d_k)"},
    {d_v, "d_v", Axis::width, &Dims::d_v, "numbers per value (d_v)"},
    {d_gate, "d_v or 1", Axis::width, &Dims::d_gate, "numbers of a head's gate"},
    {H_d_v, "H·d_v", Axis::width, nullptr, "columns (H·d_v)"},
    {d_out, "d_model", Axis::width, &Dims::d_out, "output columns"},
    {r_q, "r_q", Axis::width, &Dims::r_q, "compressed columns (r_q)"},
    {r_kv, "r_kv", Axis::width, &Dims::r_kv, "compressed columns (r_kv)"},
    {d_pe, "d_pe", Axis::width, &Dims::d_pe, "shared columns of the key (d_pe)"},
    {d_ff, "d_ff", Axis::width, &Dims::d_ff, "columns (d_ff)"},
    {d_layer, "d_layer", Axis::width, &Dims::d_layer, "columns of a layer's embedding (d_layer)"},
    {vocabulary, "vocabulary", Axis::width, &Dims::vocabulary, "tokens of a vocabulary"},
    {B, "B", Axis::batch, &Dims::B, "batch items"},
    {P, "P", Axis::key, &Dims::past, "past keys"},
    {d_in, "d_in", Axis::width, nullptr, "columns"},
    {widths, "all widths", Axis::width, nullptr, "columns"},
    {r_kv_d_pe, "r_kv + d_pe", Axis::width, nullptr, "columns"},
    {keys_values, "H·(d_k − d_pe + d_v)", Axis::width, nullptr, "columns"},
    {buckets, "buckets", Axis::width, nullptr, "buckets"},
    {distances, "2M − 1", Axis::width, nullptr, "distances"},
    {rope_pairs, "rope_dims / 2", Axis::width, nullptr, "pairs"},
    {E, "E", Axis::chosen, &Dims::E, "experts"},
    {I, "I", Axis::width, &Dims::I, "columns of an expert (I)"},
    {I_shared, "I_shared", Axis::width, &Dims::I_shared, "columns of the shared experts"},
    {H_qk, "H_qk", Axis::width, nullptr, "heads of queries and keys"},
    {H_I, "H_I", Axis::width, nullptr, "heads of the indexer"},
    {d_I, "d_I", Axis::width, nullptr, "columns of the indexer (d_I)"},
    {taps, "K", Axis::width, nullptr, "taps of the convolution (K)"},
    {three, "3", Axis::width, nullptr, "rows"},
    {n, "n", Axis::chosen, &Dims::n, "chosen experts"},
    {n_d_out, "n·d_model", Axis::width, nullptr, "columns of the chosen experts"},
    {one, "1", Axis::width, nullptr, "columns"},
}};

} // namespace

const DimInfo& info_of(Dim letter) {
  return letters[static_cast<std::size_t>(letter)];
}
std::string_view name_of(Dim letter) {
  return info_of(letter).name;
}
Axis axis_of(Dim letter) {
  return info_of(letter).axis;
}

std::size_t Dims::size_of(Dim letter) const {
  if (letter == H_d_v) return H * d_v;
  if (letter == three) return 3;
  if (letter == one) return 1;
  if (letter == n_d_out) return this->n * d_out;
  std::size_t Dims::*const size = info_of(letter).size;
  return size ? this->*size : 0;
}

std::string text_of(const Length& length) {
  std::string text(name_of(length.letter));
  if (length.times) text.append("·").append(name_of(*length.times));
  return text;
}

std::size_t size_of(const Length& length, const Dims& dims) {
  return dims.size_of(length.letter) * (length.times ? dims.size_of(*length.times) : 1);
}

} // namespace mha

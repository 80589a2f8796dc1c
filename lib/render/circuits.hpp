#pragma once
// Circuits of heads, and their composition, as tables, CSV and JSON.

#include <mha/circuits/circuits.hpp>
#include <mha/circuits/composition.hpp>
#include <mha/render/head_grid.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// Significant digits of the numbers that programs read; none: all.
using Digits = std::optional<std::size_t>;

/// A line a head; columns that no head has are left out.
std::string circuits_table(const std::vector<HeadCircuits>& heads, const TextStyle& text_style);
/// csv, tsv or json: a list of objects, with the singular values of QK and OV and the eigenvalues
/// of OV, [re, im].
std::string circuits_text(const std::vector<HeadCircuits>& heads, std::string_view form,
                          Digits digits = {});
/// csv or tsv, a line a singular value or eigenvalue: layer, head, circuit, index, value, imaginary
/// part.
std::string spectra_text(const std::vector<HeadCircuits>& heads, std::string_view form,
                         Digits digits = {});

/// A line a pair, in the order given.
std::string compositions_table(const std::vector<Composition>& pairs, const TextStyle& text_style);
std::string compositions_text(const std::vector<Composition>& pairs, std::string_view form,
                              Digits digits = {});
/// A panel a kind: earlier heads downwards, later ones across, named layer.head. `beyond_random`:
/// less what random matrices would have.
std::vector<GridPanel> compositions_grid(const std::vector<Composition>& pairs, bool beyond_random);

} // namespace mha::render

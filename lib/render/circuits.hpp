#pragma once
// Circuits of heads, and their composition, as tables and pictures.

#include <mha/circuits/circuits.hpp>
#include <mha/circuits/composition.hpp>
#include <mha/render/head_grid.hpp>
#include <mha/render/table.hpp>

namespace mha::render {

/// One line per head; columns that no head has are for programs alone, and JSON has the singular
/// values of QK and OV and the eigenvalues of OV, [re, im]. The heads outlive the table.
Table circuits_table(const std::vector<HeadCircuits>& heads);
/// One line per singular value or eigenvalue.
Table spectra_table(const std::vector<HeadCircuits>& heads);
/// One line per pair, in the order given.
Table compositions_table(const std::vector<Composition>& pairs);
/// One panel per kind: earlier heads downwards, later ones across, named layer.head.
/// `beyond_random`: less what random matrices would have.
std::vector<MapPanel> compositions_grid(const std::vector<Composition>& pairs, bool beyond_random);

} // namespace mha::render

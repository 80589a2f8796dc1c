// map: draws what heads attend to, in the terminal or as PNG, SVG and PDF.

#include "circuit_maps.hpp"
#include "commands/commands.hpp"
#include "map_command.hpp"
#include "weights_only.hpp"
#include <mha/system/named.hpp>

namespace mha::app {

namespace {

void add_map_selection(Cli& cli, const std::shared_ptr<MapCommand>& map) {
  cli.group("What to draw");
  cli.list("--stage,-s", "NAME", map->stages,
           "scores, scaled, capped, biased, masked, shifted, exp or weights (the default)")
      .offers(Completes::stages);
  add_selection(cli, map->selection, {.batch = false, .head = true, .query = true, .key = true});
  Option batch;
  batch.name = "--batch", batch.letter = "-B", batch.value_name = "LIST|mean";
  batch.help = "batch items; mean: the mean over all of them, cell by cell", batch.joins = true;
  batch.set = [map](const std::string& text) {
    if (text == "mean")
      map->mean_of_items = true;
    else
      map->selection.batch.emplace(text, "--batch");
  };
  cli.add(std::move(batch));
  add_minus(cli, map->minus);
}

void add_map_colours(Cli& cli, const std::shared_ptr<MapCommand>& map) {
  cli.group("How to draw");
  cli.choice(
      "--colormap", names_of_rows<std::string>(render::color_maps()), map->color_map,
      "colour map; default: viridis for weights, exp and shifted, diverging for signed stages");
  cli.choice("--color-scale", {"linear", "log"}, map->color_scale,
             "log distinguishes small weights, down to 1e-4 of the largest; default: linear, but "
             "log for weights and exp of more than 128 tokens");
  cli.value(
      "--vmin", "X", map->low,
      "the number that gets the lowest colour; default: 0 for weights, else the smallest cell");
  cli.value("--vmax", "X", map->high,
            "the number that gets the highest colour; default: the largest cell");
  cli.flag("--per-head-range", map->per_head_range,
           "scale the colours of each head to its own smallest and largest cell");
  cli.flag("--without-sink", map->without_sink,
           "leave out key 0, which has most of the weight in many trained models");
  cli.choice("--pool", {"mean", "max"}, map->pooling,
             "how a cell combines several numbers; default: max for weights and exp, mean for "
             "other stages");
  cli.value("--cells", "N", map->cells,
            "the maximum number of cells along a side of a panel; default: as many as the picture "
            "has room for");
  add_figure(cli, map->figure, "`show` prints a map's numbers");
}

void add_map_examples(Cli& cli) {
  cli.example("map data/quickstart.json", "draw every head in the terminal");
  cli.example("map data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --tokens "
              "data/induction/tokens.json --head 0 -o head0.svg",
              "draw one head for a paper");
  cli.example("map data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' -o "
              "heads.png --color-scale log",
              "draw every head of every layer of a checkpoint");
  cli.example("map data/quickstart.json --annotate --zoom 2 -o quickstart.png",
              "print numbers in cells, at twice the size");
  cli.example("map data/bard-gpt2 --text ' my love, my lord' --layer 2 --head 0 --minus-layer 3",
              "compare a head with one in the next layer: more weight is red, less is blue");
  cli.example("map data/quickstart.json -s scores -o 'head{head}.png'",
              "draw one picture for each head");
  cli.example("map data/bard-gpt2 -s ov --vocab ' king, queen, love, death, thou, thee' --layer 0",
              "show which tokens a head copies, independently of a text");
}

} // namespace

Run declare_map(Cli& cli) {
  const auto map = std::make_shared<MapCommand>();
  cli.about(
      "Draws maps of queries × keys with one panel for each head: in the terminal as "
      "coloured cells (or as characters of different density without colours), or as PNG, "
      "SVG or PDF. Long maps are pooled to the size of the picture while they are computed, "
      "so memory use does not grow with their length; the picture shows how many numbers a cell "
      "covers. Masked keys do not count: a cell that contains only masked keys is hatched, "
      "or a dot in text. Saved maps can be drawn without a layer: weights=FILE.");
  add_map_selection(cli, map);
  add_map_colours(cli, map);
  cli.group("Circuits, which need a whole model but no text: -s qk or -s ov");
  cli.list("--vocab", "TOKEN[,TOKEN]", map->vocabulary,
           "the tokens of the circuit; a token with a leading space differs from one without");
  add_offset(cli, map->offset);
  add_output(
      cli, map->output, {"text", "png", "svg", "pdf", "npy"},
      "write to FILE.png, FILE.svg, FILE.pdf or FILE.txt, and a difference, a mean or a circuit "
      "also to FILE.npy; {layer}, {batch} and {head} in PATH write one file for each",
      all_placeholders);
  add_layer(cli, map->request);
  add_unused_of_weights(cli, [map] {
    return map->stages.size() == 1 && (map->stages[0] == "qk" || map->stages[0] == "ov");
  });
  add_common(cli, map->common);
  add_map_examples(cli);
  return [map] { return map->run(); };
}

} // namespace mha::app

// map: draws what heads attend to, in the terminal, as PNG, as SVG and as PDF.

#include "circuit_maps.hpp"
#include "commands/commands.hpp"
#include "map_command.hpp"
#include "weights_only.hpp"
#include <mha/system/named.hpp>

namespace mha::app {

namespace {

void add_choice_of_maps(Cli& cli, const std::shared_ptr<MapCommand>& map) {
  cli.group("What to draw");
  cli.list("--stage,-s", "NAME", map->stages,
           "scores, scaled, capped, biased, masked, shifted, exp or weights, the default")
      .offers(Completes::stages);
  add_selection(cli, map->selection, {.batch = false, .head = true, .query = true, .key = true});
  Option items;
  items.name = "--batch", items.letter = "-B", items.value_name = "LIST|mean";
  items.help = "batch items; mean: of all of them, cell by cell", items.joins = true;
  items.set = [map](const std::string& text) {
    if (text == "mean")
      map->mean_of_items = true;
    else
      map->selection.batch.emplace(text, "--batch");
  };
  cli.add(std::move(items));
  add_minus(cli, map->minus);
}

void add_map_colours(Cli& cli, const std::shared_ptr<MapCommand>& map) {
  cli.group("How");
  cli.choice("--colormap", names_of_rows<std::string>(render::color_maps()), map->color_map,
             "default: viridis for weights, exp and shifted, diverging for stages with signs");
  cli.choice("--color-scale", {"linear", "log"}, map->color_scale,
             "log tells small weights apart, down to 1e-4 of the largest; default: linear, log for "
             "weights and exp of more than 128 tokens");
  cli.value("--vmin", "X", map->low,
            "the number at the lower end of the colours; default: 0 for "
            "weights, else from the cells");
  cli.value("--vmax", "X", map->high, "the number at the upper end; default: the largest cell");
  cli.flag("--per-head-range", map->per_head_range,
           "each head's colours reach from its smallest to its largest cell");
  cli.flag("--without-sink", map->without_sink,
           "leave out key 0, which takes most of the weight in many trained models");
  cli.choice("--pool", {"mean", "max"}, map->pooling,
             "what a cell of several numbers shows; default: max for weights and exp, mean for "
             "other stages");
  cli.value("--cells", "N", map->cells,
            "the most cells along a side of a panel; default: what the picture has room for");
  add_figure(cli, map->figure, "`show` prints a map's numbers");
}

void add_map_examples(Cli& cli) {
  cli.example("map data/quickstart.json", "every head, in the terminal");
  cli.example("map data/induction --layer 1 X=data/induction/hidden.npz:layers.1 --tokens "
              "data/induction/tokens.json --head 0 -o head0.svg",
              "one head for a paper");
  cli.example("map data/induction --layer all 'X=data/induction/hidden.npz:layers.{layer}' -o "
              "heads.png --color-scale log",
              "layers × heads of a checkpoint");
  cli.example("map data/quickstart.json --annotate --zoom 2 -o quickstart.png",
              "numbers in cells, twice as many pixels");
  cli.example("map data/bard-gpt2 --text ' my love, my lord' --layer 2 --head 0 --minus-layer 3",
              "what a head sees more of than that of the next layer, red, and less of, blue");
  cli.example("map data/quickstart.json -s scores -o 'head{head}.png'", "one picture a head");
  cli.example("map data/bard-gpt2 -s ov --vocab ' king, queen, love, death, thou, thee' --layer 0",
              "which tokens a head copies, whatever the text");
}

} // namespace

Run declare_map(Cli& cli) {
  const auto map = std::make_shared<MapCommand>();
  cli.about(
      "Draws maps of queries × keys, a panel a head: in the terminal as coloured cells (as shades "
      "of "
      "characters where there are no colours), as PNG, SVG or PDF. Long maps are pooled to the "
      "size "
      "of the picture while they are computed, so that memory does not grow with them; the "
      "picture says how many numbers a cell covers. Masked keys are left out of it: a cell of "
      "nothing else is hatched, in text a dot. Saved maps are drawn without a layer: "
      "weights=FILE.");
  add_choice_of_maps(cli, map);
  add_map_colours(cli, map);
  cli.group("Circuits of the weights alone: -s qk or -s ov, of a whole model, without a text");
  cli.list("--vocab", "TOKEN[,TOKEN]", map->vocabulary,
           "the tokens between which a circuit is drawn; one with a blank before it is another");
  add_offset(cli, map->offset);
  add_output(
      cli, map->output, {"text", "png", "svg", "pdf", "npy"},
      "write to FILE.png, FILE.svg, FILE.pdf or FILE.txt; of a difference, a mean or a circuit "
      "FILE.npy, too; {layer}, {batch} and {head} in "
      "PATH write one file each",
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

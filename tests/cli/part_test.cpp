// dump --part, and convert, which joins the parts.

#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string induction = "data/induction",
                  hidden = "X=data/induction/hidden.npz:layers.{layer}";

struct NamedTensors {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  /// Dumps as a whole and in parts, joins these in an odd order, and compares the bytes.
  void require_same(std::vector<std::string> source, const std::string& name,
                    const std::string& extension, std::size_t count) const {
    source.insert(source.begin(), "dump");
    const auto dump = [&](const std::string& to, std::vector<std::string> more) {
      std::vector<std::string> line = source;
      line.insert(line.end(), {"-o", to});
      line.insert(line.end(), more.begin(), more.end());
      const Result result = run(line);
      INFO(result.err);
      REQUIRE(result.code == 0);
    };
    INFO(name << " in " << count);
    const std::string whole = folder.path("whole-" + name), joined = folder.path("joined-" + name);
    dump(whole, {});
    std::vector<std::string> join{"convert"};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t number = (i + count / 2) % count + 1;
      const std::string part = folder.path("part" + std::to_string(number) + extension);
      dump(part, {"--part", std::to_string(number) + "/" + std::to_string(count)});
      join.push_back(part);
    }
    join.insert(join.end(), {"-o", joined});
    const Result result = run(join);
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(folder.read("whole-" + name) == folder.read("joined-" + name));
  }
  Result part(const std::string& text, const std::string& name,
              std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"dump", path, "--part", text, "-o", folder.path(name)});
    return run(more);
  }
};

} // namespace

TEST_CASE_METHOD(NamedTensors, "dump --part: the joined parts are the whole, byte for byte") {
  const std::vector<std::string> maps{path, "-s", "weights"}, every{path},
      layers{induction, "--layer", "all", hidden, "-s", "q,k,weights,row_sum,output"};
  require_same(maps, "w.npy", ".npz", 2);
  require_same(maps, "w.npy", ".safetensors", 7); // more parts than units
  require_same(every, "all.npz", ".safetensors", 1);
  require_same(every, "all.safetensors", ".npz", 3);
  require_same(layers, "layers.npz", ".npz", 3);
  require_same({induction, "--layer", "1", hidden, "--head", "3,1", "-s", "k,weights,head_out",
                "--query", "4-20", "--dump-dtype", "bf16"},
               "some.safetensors", ".safetensors", 3);
  require_same({"data/columns.json"}, "columns.npz", ".npz", 2);
}

TEST_CASE_METHOD(NamedTensors, "dump --part: I/N is two numbers, I from 1 to N") {
  for (const std::string text : {"2", "1/", "/2", "a/b", "1/2/3", "-1/2", "1.5/2", "1 /2"}) {
    const Result result = part(text, "p.npz");
    INFO(text);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("--part is '" + text + "': I/N expected"));
  }
  CHECK_THAT(part("", "p.npz").err, Contains("--part is '': a value expected"));
  CHECK_THAT(part("0/2", "p.npz").err, Contains("parts are counted from 1"));
  CHECK_THAT(part("1/0", "p.npz").err, Contains("parts are counted from 1"));
  CHECK_THAT(part("4/3", "p.npz").err, Contains("there are only 3 parts, 1/3 to 3/3"));
  CHECK(folder.names() == std::vector<std::string>{"layer.json"});
}

TEST_CASE_METHOD(NamedTensors, "dump --part: refuses placeholders, and formats that hold no part") {
  CHECK_THAT(part("1/2", "p{layer}.npz").err, Contains("--output without {layer}"));
  CHECK_THAT(part("1/2", "p{head}.npz", {"-s", "weights"}).err, Contains("without {head}"));
  for (const std::string name : {"p.npy", "p.json", "p/"})
    CHECK_THAT(part("1/2", name, {"-s", "weights"}).err,
               Contains("a part is written as .npz or .safetensors"));
  CHECK_THAT(part("1/2", "p{layer}.npz", {"--resume"}).err, Contains("--output without {layer}"));
  CHECK(folder.names() == std::vector<std::string>{"layer.json"});
}

TEST_CASE_METHOD(NamedTensors, "convert: says what is wrong with parts") {
  for (const std::string number : {"1", "2", "3", "4"})
    REQUIRE(part(number + "/4", "p" + number + ".npz").code == 0);
  REQUIRE(part("2/3", "q2.npz").code == 0);
  REQUIRE(part("2/4", "r2.npz", {"--scale", "2"}).code == 0);
  REQUIRE(part("2/4", "s2.npz", {"--dump-dtype", "f16"}).code == 0);
  REQUIRE(part("2/4", "t2.npz", {"-s", "weights"}).code == 0);
  folder.write("tokens.json", R"({"X": [[1.0, 2.0]]})");
  const auto join = [&](std::vector<std::string> names) {
    std::vector<std::string> line{"convert"};
    for (const std::string& name : names)
      line.push_back(name.find('=') == std::string::npos ? folder.path(name) : name);
    line.insert(line.end(), {"-o", folder.path("joined.npz")});
    const Result result = run(line);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_FALSE(folder.has("joined.npz"));
    return result.err;
  };
  CHECK_THAT(join({"p1.npz", "p3.npz"}), Contains("2 of 4 parts are missing: 2, 4; make them"));
  CHECK_THAT(join({"p1.npz", "p3.npz", "p4.npz"}),
             Contains("1 of 4 parts is missing: 2; make it with --part I/4"));
  CHECK_THAT(join({"p1.npz", "p2.npz", "p3.npz", "p2.npz"}), Contains("part 2/4 appears twice"));
  CHECK_THAT(join({"p1.npz", "q2.npz"}), Contains("these do not belong together"));
  for (const std::string other : {"r2.npz", "s2.npz", "t2.npz"})
    CHECK_THAT(join({"p1.npz", other, "p3.npz", "p4.npz"}), Contains("parts of different runs"));
  CHECK_THAT(join({"p1.npz", "tokens.json"}), Contains("tokens.json: not a part of a dump"));
  CHECK_THAT(join({"p1.npz", "X=p2.npz"}), Contains("parts are only joined with each other"));
  CHECK_THAT(run({"show", folder.path("p2.npz")}).err,
             Contains("p2.npz: this is part 2/4 of a dump, which only `convert` reads"));
}

TEST_CASE_METHOD(NamedTensors,
                 "dump --part: parts of a text's run join if all that decides it is the same") {
  using Words = std::vector<std::string>;
  const Words run_of_all{"dump", "data/bard-gpt2"};
  const Words text{"--ids", "1,5,9,2,7"};
  const auto part = [&](const Words& more, const std::string& number, const std::string& name) {
    Words line = run_of_all;
    line.insert(line.end(), more.begin(), more.end());
    line.insert(line.end(), {"--part", number, "-o", folder.path(name), "--quiet"});
    const Result result = run(line);
    INFO(result.err);
    REQUIRE(result.code == 0);
  };
  const auto join = [&] {
    return run({"convert", folder.path("1.npz"), folder.path("2.npz"), "-o", folder.path("j.npz")});
  };
  // A stage of layer 0 as it is, to bind in its place.
  REQUIRE(run({"dump", "data/bard-gpt2", "--ids", "1,5,9,2,8", "--layer", "0", "-s", "mlp_out",
               "-o", folder.path("mlp.npy"), "--quiet"})
              .code == 0);
  const std::string bound = "layers.0.mlp_out=" + folder.path("mlp.npy");
  for (const Words& of : {Words{"-s", "weights,mlp_out"}, Words{"-s", "weights", "--layer", "2"},
                          Words{"-s", "resid_post", "--layer", "1,3"}, Words{"-s", "logits"}}) {
    Words first = of;
    first.insert(first.end(), text.begin(), text.end());
    part(first, "1/2", "1.npz");
    part(first, "2/2", "2.npz");
    CHECK(join().code == 0);
    for (const Words& other :
         {Words{"--ids", "1,5,9,2,8"}, Words{"--ids", "1,5,9,2,7", "--scale", "0.3"},
          Words{"--ids", "1,5,9,2,7", "--dtype", "f64"}, Words{"--ids", "1,5,9,2,7", bound}}) {
      Words second = of;
      second.insert(second.end(), other.begin(), other.end());
      part(second, "2/2", "2.npz");
      const Result result = join();
      INFO(of.back() << ", " << other.back());
      CHECK(result.code == 2);
      CHECK_THAT(result.err, Contains("parts of different runs"));
    }
  }
}

TEST_CASE_METHOD(NamedTensors, "convert: refuses parts whose header lies") {
  // Metadata, then x, x.runs and x.shape of 4 numbers in one part, as --part 1/1 writes them.
  const auto part = [&](const std::string& runs, const std::string& shape, const std::string& of) {
    const std::string header = R"({"__metadata__":{"part":")" + of +
                               R"(","part_run":"f-1","part_items":"[\"x\"]"},)"
                               R"("x.runs":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},)"
                               R"("x.shape":{"dtype":"I64","shape":[1],"data_offsets":[16,24]},)"
                               R"("x":{"dtype":"F32","shape":[4],"data_offsets":[24,40]}})";
    const std::uint64_t length = header.size();
    const std::string bytes = std::string(reinterpret_cast<const char*>(&length), 8) + header +
                              runs + shape + std::string(16, '\0');
    const Result result =
        run({"convert", folder.write("bad.safetensors", bytes), "-o", folder.path("joined.json")});
    CHECK(folder.has("joined.json") == (result.code == 0));
    std::filesystem::remove(folder.path("joined.json"));
    return result.err;
  };
  const auto numbers = [](std::initializer_list<std::int64_t> values) {
    return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * 8);
  };
  const std::string run = numbers({0, 4}), shape = numbers({4});
  CHECK(part(run, shape, "1/1").empty());
  CHECK_THAT(part(run, numbers({std::int64_t{1} << 40}), "1/1"),
             Contains("x has 1099511627776 elements, and its parts hold 4"));
  CHECK_THAT(part(run, numbers({-4}), "1/1"), Contains("x.shape has -4"));
  CHECK_THAT(part(numbers({2, 4}), shape, "1/1"), Contains("x.runs leads outside"));
  CHECK_THAT(part(numbers({0, 3}), shape, "1/1"), Contains("x has elements in no run"));
  CHECK_THAT(part(numbers({0, std::int64_t{1} << 62}), shape, "1/1"), Contains("leads outside"));
  CHECK_THAT(part(run, shape, "2/1"), Contains("part is '2/1'"));
  CHECK_THAT(part(run, shape, "one"), Contains("part is 'one'"));
}

TEST_CASE_METHOD(NamedTensors, "dump: processes that mpirun started without MPI are told so") {
  const auto dump = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"dump", path, "-o", folder.path("all.npz")});
    return mha::test::run(more, {.env = {{"OMPI_COMM_WORLD_SIZE", "4"}}});
  };
  CHECK_THAT(dump({}).err, Contains("built without MPI"));
  CHECK(dump({"--part", "1/4"}).code == 0);
}

"""Layers that are made once: loaded, taken out of a model, changed, computed, streamed; and the same words as in C++."""

import inspect
import re
import unittest
import warnings
from pathlib import Path

import mha
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = np.load(DATA / "induction" / "hidden.npz")["layers.1"]
        cls.layer = mha.load(DATA / "induction", layer=1, X=cls.x)
        cls.model = mha.Model(DATA / "bard-gpt2")
        cls.text = "To be, or not to be"
        cls.clean = cls.model.run(cls.text, keep="*")

    def test_a_loaded_layer_is_what_run_computes(self):
        expected = mha.run(DATA / "induction", layer=1, X=self.x)
        cache = mha.run(self.layer)
        self.assertEqual(list(cache), list(expected))
        self.assertEqual(tuple(cache), self.layer.stages)
        self.assertEqual((cache.layers, cache.naming, cache.title), (expected.layers, expected.naming, expected.title))
        for stage in expected:
            np.testing.assert_array_equal(cache[stage], expected[stage])
            self.assertEqual(self.layer.shape_of(stage), expected[stage].shape)
        few = mha.run(self.layer, stages=["pattern", "layers.1.output"], threads=1)
        self.assertEqual(list(few), ["weights", "output"])
        np.testing.assert_array_equal(few["output"], expected["output"])

    def test_a_layer_of_a_model_has_the_stream_of_its_texts(self):
        for n in (0, 3, -1, "2"):
            number = int(n) % self.model.layers
            lone = mha.run(self.model.layer(n, self.text))
            for stage in lone:
                np.testing.assert_array_equal(lone[stage], self.clean[f"layers.{number}.{stage}"], err_msg=stage)
            self.assertIn("resid_post", lone)
        stream = mha.load(DATA / "bard-gpt2", layer=2, X=self.clean.resid(2))
        np.testing.assert_array_equal(mha.run(stream, stages="resid_post")["resid_post"], self.clean["resid_post", 2])
        shares = []
        self.model.layer(3, [5, 6], progress=shares.append)
        self.model.layer(0, [5, 6], progress=shares.append)
        self.assertTrue(all(0 <= share <= 1 for share in shares) and shares, shares)

    def test_a_layer_without_an_input(self):
        bare = self.model.layer(1)
        self.assertEqual((bare.stages, bare.dims["H"], bare.settings["causal"], bare.dtype), ((), 6, "true", np.float32))
        with self.assertRaisesRegex(mha.Error, r"layer\(1, tokens\) has one") as caught:
            mha.run(bare)
        self.assertNotRegex(str(caught.exception), r"mha::|tensor}|--|FILE")
        self.assertIn("X=array", str(caught.exception))

    def test_changes_make_another_layer(self):
        weights = np.broadcast_to(np.eye(33, dtype=np.float32), (4, 33, 33)).copy()
        changed = self.layer.with_("pattern", weights).with_("W_o", np.zeros((64, 64)))
        weights[:] = 0
        cache = mha.run(changed)
        np.testing.assert_array_equal(cache["weights"][2], np.eye(33))
        np.testing.assert_array_equal(cache["head_out"], cache["v"])
        self.assertFalse(cache["output"].any())
        self.assertTrue(mha.run(self.layer, stages="output")["output"].any())
        with self.assertRaises(mha.Error):
            self.layer.with_("W_o", np.zeros((3, 3)))

    def test_arrays_are_copied_when_a_layer_is_made(self):
        random = np.random.default_rng(0)
        given = {name: random.normal(size=(4, 4)) for name in ("X", "W_q", "W_k", "W_v")}
        expected = mha.run(given, num_heads=2)
        layer = mha.load(given, num_heads=2)
        for array in given.values():
            array[:] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(mha.run(layer)["output"], expected["output"])

    def test_warnings_point_at_the_call(self):
        given = {"X": np.full((3, 4), np.nan), "W_q": np.eye(4), "W_k": np.eye(4), "W_v": np.eye(4), "num_heads": 2}
        for call in (lambda: mha.run(given), lambda: mha.load(given), lambda: self.model.with_("layers.0.b_o", np.full(96, np.nan)),
                     lambda: self.clean.with_(("layers.0.q", np.nan)), lambda: self.model.run([5], patches=("layers.0.q", np.nan))):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                call()
            self.assertTrue(told)
            self.assertEqual({warning.filename for warning in told}, {__file__})
            self.assertTrue(all("lambda" in inspect.getsource(inspect.getmodule(self)).splitlines()[warning.lineno - 1] for warning in told))

    def test_rows_are_streamed_in_order(self):
        expected, places, found = mha.run(self.layer, stages="weights")["weights"], [], []

        def use(place, rows):
            self.assertFalse(rows.flags.writeable)
            places.append(place), found.append(rows)

        mha.stream(self.layer, "attn.hook_pattern", use, threads=2)
        self.assertEqual(places, [(0, h, 0) for h in range(4)])
        np.testing.assert_array_equal(np.array(found), expected)

        class Mine(Exception):
            pass

        def fails(place, rows):
            raise Mine

        with self.assertRaises(Mine):
            mha.stream(self.layer, "weights", fails)

    def test_misuse_is_an_error_in_words(self):
        layer, model = self.layer, self.model
        for misuse in (
            lambda: mha.run(layer, layer=2), lambda: mha.run(layer, X=self.x), lambda: mha.run(layer, num_heads=2), lambda: mha.run(layer, special=False),
            lambda: mha.run(layer, stages=[]), lambda: mha.run(layer, stages="logits"), lambda: mha.run(layer, stages="q_rop"), lambda: mha.run(layer, threads=-1),
            lambda: mha.run(layer, stages="layers.2.q"), lambda: mha.run(layer, stages=["q", "embed"]), lambda: layer.shape_of("logits"), lambda: layer.shape_of(3),
            lambda: layer.with_(3, self.x), lambda: layer.with_("nothing", self.x), lambda: layer.with_("X", None), lambda: layer.with_("X", "x"),
            lambda: mha.stream(layer, "nothing", print), lambda: mha.stream(layer, "weights", 3), lambda: mha.stream(3, "weights", print),
            lambda: mha.load(DATA / "induction"), lambda: mha.load(DATA / "induction", layer="all"), lambda: mha.load(3), lambda: mha.load(layer),
            lambda: model.layer(9), lambda: model.layer(None), lambda: model.layer(True), lambda: model.layer(1.0), lambda: model.layer(1, 3),
            lambda: model.layer(1, "To", threads=-1), lambda: model.layer(1, "To", progress=3),
        ):
            with self.assertRaises(mha.Error) as caught:
                misuse()
            self.assertNotRegex(str(caught.exception), r"(?<![\w-])--[a-z]|mha-inspect|=FILE|mha::|, tensor}|\n")

    def test_the_tables_are_those_of_the_library(self):
        settings, tensors = mha.settings(), mha.tensors()
        self.assertEqual([row.name for row in settings], list(self.layer.settings))
        self.assertIn("W_q", [row.name for row in tensors])
        self.assertTrue(all(row.text and row.values for row in settings) and all(row.text and row.shape for row in tensors))
        for row in (*settings, *tensors):
            self.assertNotRegex(" ".join(row[:3]), r"(?<![\w-])--[a-z]")


class Stubs(unittest.TestCase):
    """_core.pyi says what the native module has, and no more."""

    def test_names_and_numbers_of_arguments(self):
        text = (Path(mha.__file__).parent / "_core.pyi").read_text()
        core = mha._core
        classes = dict(re.findall(r"^class (\w+)(?:\(\w+\))?:\n((?:    .*\n)+)", text, re.M))
        self.assertEqual(set(classes) | {"Error"}, {name for name in dir(core) if inspect.isclass(getattr(core, name))})
        for name, body in classes.items():
            said = dict(re.findall(r"def (\w+)\(\s*([^)]*?)\s*\)", body))
            own = {key for key in vars(getattr(core, name)) if not key.startswith("__")}
            self.assertEqual(set(said) | set(re.findall(r"^    (\w+): ", body, re.M)), own, name)
            for function, arguments in said.items():
                doc = getattr(core, name).__dict__[function]
                doc = (doc.__func__ if isinstance(doc, staticmethod) else doc).__doc__
                found = {len(re.findall(r"arg\d+: |self: ", line)) for line in re.findall(rf"{function}\((.*?)\) ->", doc)}
                self.assertIn(len([one for one in arguments.split(",") if re.match(r"\s*\w+", one) and (":" in one or "self" in one)]), found, f"{name}.{function}")
        functions = set(re.findall(r"^def (\w+)", text, re.M))
        self.assertEqual(functions, {name for name in dir(core) if inspect.isroutine(getattr(core, name))})


if __name__ == "__main__":
    unittest.main()

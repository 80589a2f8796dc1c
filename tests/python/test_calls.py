"""Calls as programs write them: iterables, tuples as keys, copies, progress, memory of every kind."""

import copy
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path

import mha
import numpy as np

DATA = Path(__file__).resolve().parents[2] / "data"
FOLDER = DATA / "bard-gpt2"
WORDS_OF_OPTIONS = r"--[a-z]|mha-inspect|=FILE|\n"

try:
    import torch
except ImportError:
    torch = None


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mha.Model(FOLDER)
        cls.clean = cls.model.run("To be, or not to be", keep=["weights", "logits"])
        cls.x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)

    def refused(self, message, call):
        with self.assertRaisesRegex(mha.Error, message) as caught:
            call()
        self.assertNotRegex(str(caught.exception), WORDS_OF_OPTIONS)

    def test_texts_and_numbers_in_whatever_holds_them(self):
        self.assertEqual(self.model.run(i for i in (5, 6)).ids, [5, 6])
        self.assertEqual(len(self.model.run(text for text in ("To be", "The king")).ids), 2)
        for given in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
            self.refused("token numbers expected", lambda: self.model.run(given))
        self.refused("numbers of several texts", lambda: self.model.text([[5], [6]]))

    def test_patches_in_whatever_holds_them(self):
        zero = [f"layers.0.head_out[{h}] = zero" for h in range(2)]
        expected = self.clean.with_(zero).loss()
        self.assertEqual(self.clean.with_(one for one in zero).loss(), expected)
        self.assertEqual(self.clean.with_(set(zero)).loss(), expected)
        self.assertEqual(self.clean.with_({("mlp_out", 0): 0}).loss(), self.clean.with_("layers.0.mlp_out = zero").loss())
        self.assertEqual(self.clean.with_({("mlp_out", -1): 0}).loss(), self.clean.with_("layers.3.mlp_out = zero").loss())
        self.refused("its value is None", lambda: self.clean.with_({"layers.0.mlp_out": None}))
        self.refused("is not a patch", lambda: self.clean.with_(np.zeros(3)))

    def test_places_are_named_as_stages_are(self):
        zero, text = np.zeros_like(self.clean.resid(0)), "layers.1.mlp_out = zero"
        key, run = ("mlp_out", 1), self.model.run("To be, or not to be", patches="layers.0.mlp_out = zero")
        expected, other = self.clean.with_(text).loss(), self.clean.with_([mha.Patch.from_run("layers.1.mlp_out", run)]).loss()
        for patch in (mha.Patch.zero(key), mha.Patch(key, 0.0), mha.Patch(key, "zero"), (key, 0), (key, "zero"), (key, zero),
                      mha.Patch.rows(key, lambda at, row: row * 0), ("layers.1.mlp_out", "zero"), ("layers.1.mlp_out *=", "0"),
                      {key: "zero"}, (text, "layers.1.mlp_out *= 1"), ((key, 0), ("layers.1.mlp_out", "zero"))):
            with self.subTest(patch):
                self.assertEqual(self.clean.with_(patch).loss(), expected)
        self.assertEqual(self.clean.with_(mha.Patch.from_run(key, run)).loss(), other)
        self.assertEqual(self.clean.with_(mha.Patch.mean(key)).loss(), self.clean.with_("layers.1.mlp_out = mean").loss())
        for make in (mha.Patch.zero, mha.Patch.mean, lambda place: mha.Patch.from_run(place, run),
                     lambda place: mha.Patch.rows(place, lambda at, row: row)):
            self.refused("a patch's place: 3 found, a text expected", lambda: make(3))
        self.refused("logits is of the whole model", lambda: mha.Patch("layers.1.logits", 0))

    def test_a_stage_of_one_layer_needs_no_layer(self):
        cache = mha.run(FOLDER, text="To", stages=["logits", "layers.1.weights"])
        self.assertIs(cache["weights"], cache["weights", 1])
        self.refused("q: which layer", lambda: mha.run(FOLDER, text="To", stages=["logits", "q"])["q"])
        lone = {"X": self.x, "W_q": np.ones((4, 4)), "num_heads": 2}
        for name in ("q", "layers.*.q"):
            self.assertEqual(mha.run(lone, stages=name)["q"].shape, (2, 5, 2))
        self.refused("layers.3.q: the only layer has no number; use the name q", lambda: mha.run(lone, stages="layers.3.q"))
        self.refused("logits is of the whole model", lambda: mha.run(FOLDER, text="To", stages="layers.1.logits"))

    def test_what_is_found_is_a_short_line(self):
        large = np.arange(40.0).reshape(10, 4)
        for call in (lambda: mha.Model(large), lambda: mha.run(large), lambda: mha.Model({"X": large}), lambda: self.clean.with_(large),
                     lambda: self.model.run(["a"] * 500 + [1]), lambda: self.model.run("To", keep=[large]),
                     lambda: mha.run({"X": self.x}, causal=[large.tolist()])):
            with self.assertRaises(mha.Error) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))
            self.assertLess(len(str(caught.exception)), 240)
        self.refused(r"the folder is an array \(10, 4\) of float64: a path expected", lambda: mha.Model(large))

    def test_arrays_without_axes_are_no_texts(self):
        for call in (lambda: self.model.text(np.array(5)), lambda: mha.run(FOLDER, text=np.array(5)),
                     lambda: self.model.run(np.array(5)), lambda: mha.run(FOLDER, ids=np.array("a"))):
            self.refused("expected|neither a text", call)

    def test_numbers_that_are_none_are_warned_of(self):
        nan = np.full(96, np.nan)
        with self.assertWarnsRegex(mha.Warning, "layers.1.mlp_out .*the value has 96 NaN of 96 numbers"):
            changed = self.clean.with_(("layers.1.mlp_out", nan))
        self.assertIn("96 NaN", changed.notes[-1])
        with self.assertWarnsRegex(mha.Warning, "the value has"):
            self.model.run("To be", patches="layers.0.v = nan")
        with self.assertWarnsRegex(mha.Warning, "layers.0.b_o has 96 NaN of 96 numbers"):
            lost = self.model.with_("layers.0.b_o", nan)
        with warnings.catch_warnings():  # said once; scores of -inf hide keys
            warnings.simplefilter("error")
            lost.run("To be")
            changed.with_("layers.3.mlp_out = zero")
            self.clean.with_("layers.0.scores[0,2,0] = -inf")

    def test_patches_from_another_run_are_of_the_same_model_and_length(self):
        def given(other):
            return self.clean.with_(mha.Patch.from_run("layers.1.mlp_out", other))
        ids = self.clean.ids
        self.refused("another model", lambda: given(mha.Model(DATA / "bard-llama").run(ids)))
        self.refused("another model", lambda: given(mha.Model(FOLDER).run(ids)))
        self.refused("text 0 has 1 token, this one's", lambda: given(self.model.run(ids[:1])))
        self.refused("the other run has 2 texts, this one 1", lambda: given(self.model.run([ids, ids])))
        changed = self.model.with_("layers.0.W_o", self.model.weight("layers.1.W_o"))
        self.assertNotEqual(given(changed.run(ids)).loss(), self.clean.loss())
        self.assertEqual(given(self.clean).loss(), self.clean.loss())

    def test_the_native_classes_make_no_empty_objects(self):
        core = mha._core
        for kind in (core.Run, core.Model, core.Layer, core.Tokens, core.Patch, core.Memory, core.Request):
            for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind), lambda: type("Own", (kind,), {})()):
                with self.assertRaises(TypeError):
                    make()
        for one in (self.clean._run, self.model._opened, self.clean.tokens._tokens):
            for again in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaises(TypeError):
                    again(one)

    def test_measures_of_numbers_are_those_of_their_text(self):
        for text in ("O Romeo, Romeo! O Romeo, Romeo!", ["O Romeo, Romeo!", "The king, my lord, the king"]):
            of_text = self.model.run(text)
            of_ids = self.model.run(of_text.ids)
            for measure in ("induction", "duplicate_rows", "separator_above", "entropy"):
                self.assertTrue(np.isfinite(of_text.heads(measure)).any())
                np.testing.assert_array_equal(of_ids.heads(measure), of_text.heads(measure))

    def test_weights_are_named_as_stages_are(self):
        bias = self.model.weight(("b_o", 0))
        np.testing.assert_array_equal(bias, self.model.weight("layers.0.b_o"))
        changed = self.model.with_(("b_o", 0), np.zeros_like(bias))
        self.assertFalse(changed.weight(("b_o", 0)).any())

    def test_stages_of_layers_from_the_end_and_in_ranges(self):
        def kept(stages, **arguments):
            return list(mha.run(FOLDER, text="To", stages=stages, **arguments))
        self.assertEqual(kept("layers.-1.q"), ["q"])
        self.assertEqual(mha.run(FOLDER, text="To", stages="layers.-1.q").layers, ("3",))
        self.assertEqual(kept(["layers.1-2.q"]), ["layers.1.q", "layers.2.q"])
        self.assertEqual(kept([("q", 2)]), ["q"])
        self.assertEqual(kept("layers.*.q"), [f"layers.{n}.q" for n in range(4)])
        self.assertEqual(kept("q", layer=[0, 2]), ["layers.0.q", "layers.2.q"])
        self.refused("there is no layer -9", lambda: kept("layers.-9.q"))
        cache = mha.run(FOLDER, text="To", stages="q")
        self.assertIs(cache["q", -1], cache["layers.3.q"])
        self.assertIs(cache["layers.-4.q"], cache["q", 0])
        self.refused("there is no layer -5", lambda: cache["q", -5])
        self.refused("layer is 1.0: a whole number", lambda: kept("q", layer=1.0))
        self.refused("logits is of the whole model", lambda: self.model.run("To", keep="layers.1.logits"))

    def test_arguments_of_another_type_are_errors_in_words(self):
        for message, call in (
            ("streams is 'no'", lambda: self.model.run("To", streams="no")),
            ("a position is 0.5", lambda: self.clean.effects(positions=0.5)),
            ("a position is True", lambda: self.clean.effects(positions=True)),
            ("the layer is None", lambda: self.model.dims(None)),
            ("progress is 3", lambda: self.model.run("To", progress=3)),
            ("did you mean 'num_heads'", lambda: mha.Model(FOLDER, num_head=6)),
            ("no naming is called 'nowhere'", lambda: mha.Model(FOLDER, naming="nowhere")),
            ("b_o is None", lambda: self.model.with_("layers.0.b_o", None)),
            ("is not a source", lambda: mha.run(b"data")),
            ("two checkpoints, but a text needs one; leave one out$", lambda: mha.run([FOLDER, DATA / "bard-llama"], text="To")),
            ("the list is empty; name some layers", lambda: mha.run(FOLDER, text="To", layer=[])),
            ("special is None", lambda: mha.run(FOLDER, text="To", special=None)),
            ("dtype is complex128: float32 or float64", lambda: mha.Model(FOLDER, dtype=complex)),
            ("dtype is f31: float32 or float64", lambda: mha.run({"X": self.x}, num_heads=2, dtype="f31")),
            (r'write W_q=dict\["W_x"\]', lambda: mha.run({"X": self.x, "W_x": np.ones((4, 4))}, num_heads=2)),
        ):
            with self.subTest(message):
                self.refused(message, call)

    def test_a_model_with_a_naming(self):
        self.assertEqual(mha.Model(FOLDER, naming="gpt2").run("To be").loss(), self.model.run("To be").loss())

    def test_copies_share_and_a_model_is_pickled_by_its_folder(self):
        for one in (self.clean, self.clean.tokens, mha.Patch("layers.0.q = zero")):
            self.assertIs(copy.deepcopy(one), one)
            self.assertIs(copy.copy(one), one)
            with self.assertRaisesRegex(TypeError, "cannot be pickled"):
                pickle.dumps(one)
        with mha.Model(FOLDER, dtype="float64", causal=False) as model:
            again, copied, shallow = pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)
            expected = model.run("To be").loss()
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            self.refused("the model is closed", lambda: call(model))
        changed = self.model.with_("layers.0.b_o", np.zeros(96))
        self.assertEqual(copy.copy(changed).run("To be").loss(), changed.run("To be").loss())
        for one in (again, copied, shallow):  # each is closed by itself
            self.assertEqual((one.dtype, one.run("To be").loss()), (np.float64, expected))
        with self.assertRaisesRegex(TypeError, "weights were changed"):
            pickle.dumps(self.model.with_("layers.0.b_o", np.zeros(96)))

    def test_progress_of_whatever_takes_long(self):
        for call in (
            lambda use: self.model.run("To be", progress=use), lambda use: self.clean.with_("layers.1.q = zero", progress=use),
            lambda use: self.model.stream("To be", "weights", lambda *_: None, progress=use),
            lambda use: self.clean.effects(progress=use), lambda use: self.clean.heads("entropy", progress=use),
        ):
            shares = []
            call(shares.append)
            self.assertEqual(shares, sorted(shares))
            self.assertEqual(shares[-1], 1)

            def enough(share):
                raise StopIteration(share)
            with self.assertRaises(StopIteration):
                call(enough)

    def test_a_model_may_be_closed_while_it_is_run(self):
        model = mha.Model(FOLDER)
        run = model.run("To be", progress=lambda share: model.close())
        self.assertEqual(run.loss(), self.model.run("To be").loss())
        self.refused("the model is closed", lambda: model.run("To be"))

    def test_an_interrupt_ends_effects(self):
        def interrupt(share):
            if share > 0.2:
                signal.raise_signal(signal.SIGINT)
            self.assertLess(share, 0.4)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.clean.effects(progress=interrupt)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_an_interrupt_ends_a_pass_whose_function_other_threads_call(self):
        seen = []

        def use(name, place, rows):
            if not seen:
                signal.raise_signal(signal.SIGINT)  # the main thread alone has it handled
                time.sleep(0.02)
            seen.append(name.partition(".weights")[0])
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.model.stream("To be, or not to be", "weights", use)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertLessEqual(set(seen), {"layers.0"})

    def test_python_may_end_while_threads_compute(self):
        code = f"""
import mha, threading, time
run = mha.Model({str(FOLDER)!r}).run([5, 6, 7])
def compute(call):
    while True:
        call()
for call in [run.effects] * 2 + [lambda: run.with_(mha.Patch.rows("layers.0.q", lambda at, row: row * 2))]:
    threading.Thread(target=compute, args=[call], daemon=True).start()
time.sleep(0.2)"""
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_python_ends_while_a_function_of_its_own_waits(self):
        code = f"""
import mha, threading, time
run, wait = mha.Model({str(FOLDER)!r}).run([5, 6, 7]), threading.Event()
threading.Thread(target=lambda: run.effects(progress=lambda share: wait.wait()), daemon=True).start()
time.sleep(0.2)"""
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(time.monotonic() - begin, 8)

    def test_numbers_of_tokens_need_no_tokenizer(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in ("config.json", "model.safetensors"):
                shutil.copy(FOLDER / file, folder)
            (Path(folder) / "tokenizer.json").write_text("{ broken")
            model, ids = mha.Model(folder), [5, 6, 7]
            run, whole = model.run(ids, keep="weights"), self.model.run(ids)
            self.assertEqual((run.loss(), run.ids, run.notes), (whole.loss(), ids, ()))
            np.testing.assert_array_equal(run.effects("direct"), whole.effects("direct"))
            np.testing.assert_array_equal(run.heads("entropy"), whole.heads("entropy"))
            np.testing.assert_array_equal(mha.run(folder, ids=ids, stages="logits")["logits"], whole.logits())
            model.stream(ids, "q", lambda name, at, rows: None)
            for call in (lambda: run.pieces, run.predictions, lambda: run.heads("induction"), lambda: model.run("To")):
                self.refused("tokenizer.json: line 1", call)

    def test_effects_have_a_place_for_each_head(self):
        changes = self.clean.effects("loss_change", [0, -1])  # behind the last token nothing follows
        np.testing.assert_array_equal(changes, self.clean.effects("loss_change", 0))
        self.assertEqual(changes.shape, (4, 6))
        self.refused("give positions before it", lambda: self.clean.effects("loss_change"))

    def test_logits_that_were_kept_are_enough(self):
        run = self.model.run("To be, or not to be", keep="logits", streams=False)
        self.assertEqual(run.loss(), self.clean.loss())
        self.assertEqual(run.predictions(), self.clean.predictions())

    def test_inputs_without_tokens(self):
        for shape in ((0, 4), (1, 0, 4), (0, 5, 4)):
            given = {"X": np.zeros(shape, np.float32), "W_q": np.ones((4, 4), np.float32), "W_o": np.ones((4, 4), np.float32)}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(mha.run(given, num_heads=2)["output"].shape, shape)

    def test_doubts_are_in_words_of_python(self):
        given = {"X": np.full((5, 4), 2.0**63, np.float32), **{name: np.ones((4, 4), np.float32) for name in ("W_q", "W_k", "W_v")}}
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            mha.run(given, num_heads=2)
        told = [str(one.message) for one in doubts if "overflow" in str(one.message)]
        self.assertTrue(told)
        self.assertNotRegex(told[0], WORDS_OF_OPTIONS)

    def test_masked_arrays_in_lists(self):
        row = np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0])
        self.refused("X is a masked array", lambda: mha.run({"X": [row] * 5}, num_heads=2))
        self.refused("masked", lambda: self.model.run([np.ma.array([5, 6], mask=[0, 1])]))

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_tensors_of_torch(self):
        self.assertEqual(self.model.run([torch.tensor(5), torch.tensor(6)]).ids, [5, 6])
        self.assertEqual(self.model.run([torch.tensor([5]), torch.tensor([6, 7])]).ids, [[5], [6, 7]])
        negative = torch.imag(torch.complex(torch.zeros(5, 4), -torch.from_numpy(self.x.copy())).conj())
        np.testing.assert_array_equal(mha.run({"X": negative}, num_heads=2, stages="x")["x"], self.x)
        self.refused("X is not an array", lambda: mha.run({"X": torch.empty(5, 4, device="meta")}, num_heads=2))


if __name__ == "__main__":
    unittest.main()

"""Programs that a user writes over a whole model, against a forward pass in NumPy and float64 (tests/models)."""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import mha
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
import forward  # noqa: E402
import safetensors  # noqa: E402
from write import load  # noqa: E402

FOLDER = ROOT / "data" / "bard-gpt2"
TEXT = "To be, or not to be"


def losses(logits, ids):
    """-log p of the next token at each position but the last."""
    z = logits - logits.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -log_p[np.arange(len(ids) - 1), ids[1:]]


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mha.Model(FOLDER, dtype="float64")
        cls.reference = load(str(FOLDER))
        cls.clean = cls.model.run(TEXT)
        cls.ids = np.array(cls.clean.ids)

    def expected(self, ids=None, **edits):
        """The stages of a text; edits by stage, dots as __."""
        ids = self.ids if ids is None else np.array(ids)
        return forward.run(self.reference, ids, edits={name.replace("__", "."): edit for name, edit in edits.items()})

    def test_ablation_of_all_heads(self):
        found = np.array([[self.clean.with_(f"layers.{n}.head_result[{h}] = zero").loss() for h in range(6)] for n in range(4)])
        for n in range(4):
            for h in range(6):
                def without(z):
                    z = z.copy()
                    z[h] = 0
                    return z
                logits = self.expected(**{f"layers__{n}__head_out": without})["logits"]
                self.assertAlmostEqual(found[n, h], losses(logits, self.ids).mean(), 10)

    def test_stages_are_made_of_the_weights(self):
        for name in ("gpt2", "llama", "bert"):
            with mha.Model(ROOT / "data" / f"bard-{name}", dtype="float64") as model, self.subTest(name):
                run = model.run(TEXT, keep=["*"])

                def weight(place):
                    try:
                        return model.weight(place)
                    except mha.Error as error:  # a bias that this model does not have
                        self.assertIn("has no", str(error).replace("the model has none", "has no"))
                        return 0.0

                table = weight("W_E")[list(run.ids)]
                if name == "llama":
                    np.testing.assert_allclose(run["embed"], table, rtol=1e-12)
                elif name == "gpt2":
                    np.testing.assert_allclose(run["embed"], table + weight("W_pos")[:len(table)], rtol=1e-12)
                if name != "bert":  # whose head has a layer of its own
                    np.testing.assert_allclose(run["logits"], run["final"] @ weight("W_U") + weight("b_U"), rtol=1e-9, atol=1e-11)
                for n in range(model.layers):
                    at = f"layers.{n}."
                    mlp = run[at + "mlp_act"] @ weight(at + "mlp.out") + weight(at + "mlp.out.bias")
                    np.testing.assert_allclose(run[at + "mlp_out"], mlp, rtol=1e-9, atol=1e-11)
                    x = run[at + "residual"]
                    if name == "llama":
                        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * weight(at + "pre_mlp_norm.weight")
                        np.testing.assert_allclose(run[at + "mlp_x"], x, rtol=1e-9, atol=1e-11)
                        gate = x @ weight(at + "mlp.in")
                        gated = gate / (1 + np.exp(-gate)) * (x @ weight(at + "mlp.up"))
                        np.testing.assert_allclose(run[at + "mlp_act"], gated, rtol=1e-9, atol=1e-11)
                    else:
                        self.assertEqual(weight(at + "mlp.in").shape, (model.dims(n)["d_model"], model.dims(n)["d_ff"]))

    def test_what_a_run_has_it_gives(self):
        run = self.model.run(TEXT, keep=["weights", "layers.2.q", "logits", "embed"])
        self.assertEqual(list(run)[:2] + list(run)[-1:], ["embed", "layers.0.weights", "logits"])
        for key in ("weights", "q", ("weights", 1), "layers.3.weights", ("weights", 9), "logits", "k", "wieghts", 3):
            gives = key in run
            self.assertEqual(gives, run.get(key) is not None, key)
            if not gives:
                self.assertRaises(mha.StageError, lambda: run[key])
        self.assertRaisesRegex(mha.Error, "give positions", lambda: run.effects("loss_change"))

    def test_a_logit_lens_by_hand(self):
        stages = self.expected()
        for n in range(self.model.layers + 1):
            seen = self.clean.with_([("layers.-1.resid_post", self.clean.resid(n))])
            x = stages[f"layers.{n}.resid_pre"] if n < 4 else stages["layers.3.resid_post"]
            np.testing.assert_allclose(seen.logits(), self.expected(layers__3__resid_post=lambda _: x)["logits"], atol=1e-9)

    def test_generation_until_a_stop_token(self):
        stops = set(self.model.tokens("\n").ids)
        ids, expected = list(self.clean.ids), list(self.clean.ids)
        while len(ids) < 30 and ids[-1] not in stops:
            ids.append(self.model.run(ids, threads=1).predictions(top=1)[0].id)
        while len(expected) < 30 and expected[-1] not in stops:
            expected.append(int(self.expected(expected)["logits"][-1].argmax()))
        self.assertEqual(ids, expected)
        self.assertIn(ids[-1], stops)
        self.assertTrue(self.model.text(ids).startswith(TEXT))

    def test_steering_by_what_two_words_differ_in(self):
        love, hate = (self.model.run(word).resid(2)[-1] for word in ("love", "hate"))
        steered = self.clean.with_([("layers.1.resid_post[*,-1] +=", 4 * (love - hate))])
        a, b = (self.expected(self.model.tokens(word).ids)["layers.2.resid_pre"][-1] for word in ("love", "hate"))

        def add(x):
            x = x.copy()
            x[-1] += 4 * (a - b)
            return x
        np.testing.assert_allclose(steered.logits(), self.expected(layers__1__resid_post=add)["logits"], atol=1e-9)

    def test_a_stage_fed_back(self):
        T = len(self.ids)
        even = np.tril(np.ones((T, T))) / np.arange(1, T + 1)[:, None]
        fed = self.clean.with_({"layers.2.weights": np.broadcast_to(even, (6, T, T))}, keep="logits")
        expected = self.expected(layers__2__weights=lambda w: np.broadcast_to(even, w.shape))["logits"]
        np.testing.assert_allclose(fed["logits"], expected, atol=1e-9)
        last = self.clean.with_({"layers.2.weights[-1]": even})

        def one(w):
            w = w.copy()
            w[-1] = even
            return w
        np.testing.assert_allclose(last.logits(), self.expected(layers__2__weights=one)["logits"], atol=1e-9)

    def test_a_batch_of_unequal_texts_and_their_mean(self):
        texts = [TEXT, "The king", "O Romeo, Romeo! wherefore art thou"]
        run = self.model.run(texts, keep=[("weights", 1)])
        stages = [self.expected(ids) for ids in run.ids]
        for found, of, ids in zip(run.losses(), stages, run.ids):
            np.testing.assert_allclose(found, losses(of["logits"], np.array(ids)), rtol=1e-10)
        for b, (of, ids) in enumerate(zip(stages, run.ids)):
            T = len(ids)
            np.testing.assert_allclose(run["weights", 1][b, :, :T, :T], of["layers.1.weights"], atol=1e-12)
        mean = np.concatenate([of["layers.1.head_out"][2] for of in stages]).mean(0)

        def even(z):
            z = z.copy()
            z[2] = mean
            return z
        expected = np.concatenate([losses(self.expected(ids, layers__1__head_out=even)["logits"], np.array(ids)) for ids in run.ids])
        self.assertAlmostEqual(run.with_("layers.1.head_out[2] = mean").loss(), expected.mean(), 10)

    def test_patches_from_another_text(self):
        other = self.model.run("Ay me, or no to be")
        self.assertEqual(len(other.ids), len(self.ids))
        theirs = self.expected(other.ids)["layers.1.mlp_out"]

        def given(x):
            x = x.copy()
            x[2:4] = theirs[2:4]
            return x
        patch = mha.Patch.from_run("layers.1.mlp_out[*,2:4]", other)
        np.testing.assert_allclose(self.clean.with_(patch).logits(), self.expected(layers__1__mlp_out=given)["logits"], atol=1e-9)

    def test_entropies_of_a_stream_that_keeps_nothing(self):
        sums = {}

        def add(name, place, rows):
            sums[name, place[1]] = sums.get((name, place[1]), 0) - (rows * np.log(np.where(rows > 0, rows, 1))).sum()
        self.model.stream(TEXT, "weights", add)
        stages = self.expected()
        for (name, head), found in sums.items():
            w = stages[name][head]
            self.assertAlmostEqual(found, -(w * np.log(np.where(w > 0, w, 1))).sum(), 10)
        self.assertEqual(len(sums), 24)

    def test_eight_threads_with_patches_of_their_own(self):
        found = [None] * 8

        def work(i):
            run = self.model.run([1, i + 2, 9, 5], threads=1)
            found[i] = run.with_(f"layers.{1 + i % 2}.mlp_out = zero").loss(), run.notes
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for i, (loss, notes) in enumerate(found):
            ids = np.array([1, i + 2, 9, 5])
            logits = self.expected(ids, **{f"layers__{1 + i % 2}__mlp_out": np.zeros_like})["logits"]
            self.assertAlmostEqual(loss, losses(logits, ids).mean(), 10)
            self.assertEqual(notes, found[0][1])


class Configs(unittest.TestCase):
    """config= has what config.json would say: lists, objects and null included."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        subprocess.run([sys.executable, ROOT / "tests" / "models" / "make.py", cls.folder, "gemma3-layer-types"],
                       check=True, stdout=subprocess.DEVNULL)
        cls.checkpoint = Path(cls.folder) / "gemma3-layer-types"
        cls.config, cls.tensors = safetensors.read_folder(str(cls.checkpoint))
        cls.text = cls.config.get("text_config", cls.config)
        width = cls.text["hidden_size"]
        cls.X = np.random.default_rng(0).normal(size=(40, width)).astype(np.float32)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def weights(self, source, **arguments):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [mha.run(source, layer=n, X=self.X, stages="weights", **arguments)["weights"] for n in range(len(mha.layers(source)))]
        self.assertFalse([one for one in told if "not read here" in str(one.message)])
        return found

    def changed(self):
        """The same config with the kinds of layers exchanged."""
        kinds = self.text["layer_types"]
        other = ["full_attention" if kind == "sliding_attention" else "sliding_attention" for kind in kinds]
        text = {**self.text, "layer_types": other, "sliding_window": 3}
        return {**self.config, "text_config": text} if "text_config" in self.config else text

    def test_a_dictionary_with_its_config_is_the_folder(self):
        arrays = {name: np.asarray(value[1], np.float32) for name, value in self.tensors.items()}
        self.assertEqual(mha.layers(arrays), mha.layers(self.checkpoint))
        given, folder = self.weights(arrays, config=self.config), self.weights(self.checkpoint)
        for one, other in zip(given, folder):
            np.testing.assert_allclose(one, other, atol=1e-6)

    def test_a_list_of_one_and_a_text_are_no_number(self):
        heads = self.text["num_attention_heads"]
        for value in ([heads], (heads,), str(heads), True):
            text = {**self.text, "num_attention_heads": value}
            config = {**self.config, "text_config": text} if "text_config" in self.config else text
            with self.assertRaises(mha.Error):
                self.weights(self.checkpoint, config=config)

    def test_beside_a_folder_it_wins(self):
        other = Path(self.folder) / "other"
        shutil.copytree(self.checkpoint, other)
        (other / "config.json").write_text(json.dumps(self.changed()))
        given, written, before = self.weights(self.checkpoint, config=self.changed()), self.weights(other), self.weights(self.checkpoint)
        for n, (one, expected) in enumerate(zip(given, written)):
            np.testing.assert_array_equal(one, expected)
            self.assertFalse(np.array_equal(one, before[n]))
        file = self.weights(self.checkpoint, config=other / "config.json")
        np.testing.assert_array_equal(file[0], written[0])


if __name__ == "__main__":
    unittest.main()

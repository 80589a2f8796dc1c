"""The Python module as its users see it; numbers against formulas written here in NumPy, PyTorch's own
results in data/, and the program."""

import doctest
import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
import warnings
from pathlib import Path

import mha
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def layer(seed=0, T=7, S=None, d_model=10, H=3, H_kv=3, d_k=4, d_v=5, dtype=np.float64):
    """Weights of different sizes everywhere, so that exchanged axes show."""
    random = np.random.default_rng(seed)
    array = lambda *shape: random.normal(size=shape).astype(dtype)
    return {
        "X": array(T, d_model), "W_q": array(d_model, H * d_k), "W_k": array(d_model, H_kv * d_k),
        "W_v": array(d_model, H_kv * d_v), "W_o": array(H * d_v, d_model), "b_q": array(H * d_k),
    }


def attention(X, W_q, W_k, W_v, W_o, b_q, H, causal):
    """Attention in NumPy and float64: (weights (H, T, T), output (T, d_model))."""
    T = len(X)
    heads = lambda a: a.reshape(T, H, -1).transpose(1, 0, 2)
    q, k, v = heads(X @ W_q + b_q), heads(X @ W_k), heads(X @ W_v)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exp / exp.sum(-1, keepdims=True)
    return weights, (weights @ v).transpose(1, 0, 2).reshape(T, -1) @ W_o


class Dictionaries(unittest.TestCase):
    def test_computes_what_the_formulas_say(self):
        given = layer()
        for causal in (False, True):
            weights, output = attention(**given, H=3, causal=causal)
            cache = mha.run(given, num_heads=3, causal=causal)
            np.testing.assert_allclose(cache["weights"], weights, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(cache["output"], output, rtol=1e-12, atol=1e-12)
            self.assertEqual(cache["weights"].dtype, np.float64)

    def test_float32_stays_float32_and_dtype_chooses(self):
        given = layer(dtype=np.float32)
        self.assertEqual(mha.run(given, num_heads=3)["output"].dtype, np.float32)
        self.assertEqual(mha.run(given, num_heads=3, dtype=np.float64)["output"].dtype, np.float64)
        self.assertEqual(mha.run(given, num_heads=3, dtype="f64")["output"].dtype, np.float64)

    def test_settings_and_labels_may_be_in_the_dictionary(self):
        quick = json.loads((DATA / "quickstart.json").read_text())
        expected = mha.run(DATA / "quickstart.json")
        for values in (quick, {**quick, "X": np.array(quick["X"], np.float64), "num_heads": np.int64(2)}):
            cache = mha.run(values)
            self.assertEqual(list(cache), list(expected))
            for stage in cache:
                np.testing.assert_array_equal(cache[stage], expected[stage])

    def test_every_layout_of_memory_is_read_and_none_is_changed(self):
        given = layer()
        expected = mha.run(given, num_heads=3)["output"]
        strange = {
            "X": given["X"][::-1][::-1], "W_q": np.asfortranarray(given["W_q"]),
            "W_k": given["W_k"].astype(">f8"), "W_v": given["W_v"].tolist(),
            "W_o": np.repeat(given["W_o"], 2, axis=1)[:, ::2], "b_q": given["b_q"],
        }
        before = {name: np.array(value) for name, value in strange.items()}
        np.testing.assert_array_equal(mha.run(strange, num_heads=3)["output"], expected)
        for name, value in strange.items():
            np.testing.assert_array_equal(np.array(value), before[name])

    def test_views_have_the_numbers_of_their_copies(self):
        given = layer(T=6, d_model=10)
        wide = np.random.default_rng(3).normal(size=(20, 4, 30))
        fields = np.zeros(6, dtype=[("name", "i2"), ("x", "f8", 10)])  # strides that are no whole elements
        fields["x"] = wide[0, 0, :10]
        for X in (wide[::3, 1, 5:25:2][:6], wide[5::-1, 2, 10:20], wide[:6, 3, 20:10:-1], wide.T[:10, 0, :6].T,
                  np.broadcast_to(wide[0, 0, :10], (6, 10)), np.asfortranarray(given["X"]), fields["x"]):
            views = {**given, "X": X, "W_o": np.ascontiguousarray(given["W_o"].T).T}
            copies = {name: np.array(value, order="C") for name, value in views.items()}
            found, expected = mha.run(views, num_heads=3), mha.run(copies, num_heads=3)
            for stage in expected:
                np.testing.assert_array_equal(found[stage], expected[stage])

    def test_results_are_memory_of_their_own(self):
        given = layer()
        patched = mha.run(given, num_heads=3)["weights"].copy()
        after = mha.run(given, num_heads=3, weights=patched)
        before = {stage: after[stage].copy() for stage in after}
        patched[:] = 0
        given["X"][:] = 0
        for stage in after:
            self.assertFalse(np.shares_memory(after[stage], patched) or np.shares_memory(after[stage], given["X"]))
            np.testing.assert_array_equal(after[stage], before[stage])
            with self.assertRaises(ValueError):
                after[stage][...] = 1

    def test_read_only_arrays_and_masks(self):
        given = layer()
        for value in given.values():
            value.flags.writeable = False
        mask = np.tri(7, dtype=bool)
        np.testing.assert_allclose(
            mha.run(given, num_heads=3, mask=mask)["weights"], mha.run(given, num_heads=3, causal=True)["weights"],
            rtol=1e-13)

    def test_patched_stage(self):
        given = layer()
        cache = mha.run(given, num_heads=3)
        patched = cache["weights"].copy()
        patched[1] = np.eye(7)
        after = mha.run(given, num_heads=3, weights=patched)
        np.testing.assert_array_equal(after["weights"], patched)
        np.testing.assert_allclose(after["head_out"][1], after["v"][1], rtol=1e-12)
        np.testing.assert_array_equal(after["head_out"][0], cache["head_out"][0])

    def test_a_state_dict_with_its_config(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")
        torch.manual_seed(0)
        module = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        x = torch.randn(2, 5, 12)
        expected, weights = module(x, x, x, average_attn_weights=False)
        cache = mha.run(module.state_dict(), X=x.numpy(), num_heads=3)
        self.assertIn("PyTorch", cache.naming)
        np.testing.assert_allclose(cache["weights"], weights.detach(), atol=1e-6)
        np.testing.assert_allclose(cache["output"], expected.detach(), atol=1e-5)
        halves = {name: value.to(torch.bfloat16) for name, value in module.state_dict().items()}
        rounded = {name: value.float().numpy() for name, value in halves.items()}
        np.testing.assert_array_equal(
            mha.run(halves, X=x.numpy(), num_heads=3)["output"], mha.run(rounded, X=x.numpy(), num_heads=3)["output"])


class Files(unittest.TestCase):
    hidden = np.load(DATA / "induction" / "hidden.npz")

    def test_a_checkpoint_and_an_array(self):
        expected = np.load(DATA / "induction" / "expected" / "layer1.npz")
        cache = mha.run(DATA / "induction", layer=1, X=self.hidden["layers.1"])
        self.assertEqual(cache.layers, ("1",))
        for stage in ("q", "weights", "output"):
            np.testing.assert_allclose(cache[stage], expected[stage], atol=1e-4)
        named = mha.run(str(DATA / "induction"), layer="1", X=f"{DATA}/induction/hidden.npz:layers.1")
        for stage in cache:
            np.testing.assert_array_equal(cache[stage], named[stage])

    def test_several_layers(self):
        cache = mha.run(DATA / "induction", layer="all", stages=["weights", "output"],
                        X=f"{DATA}/induction/hidden.npz:layers.{{layer}}")
        self.assertEqual(list(cache), ["layers.0.weights", "layers.0.output", "layers.1.weights", "layers.1.output"])
        self.assertEqual(mha.layers(DATA / "induction"), ["0", "1"])
        with self.assertRaisesRegex(mha.Error, "which layer.*layers.0.weights"):
            cache["weights"]
        with self.assertRaisesRegex(mha.Error, "each of which has its own"):
            mha.run(DATA / "induction", layer="all", X=self.hidden["layers.0"])

    def test_same_bits_as_the_program(self):
        program = os.environ.get("MHA")
        if not program:
            self.skipTest("MHA names no program")
        bytes_ = subprocess.run(
            [program, "dump", str(DATA / "induction"), "--layer", "1", "-s", "weights", "-o", "-",
             f"X={DATA}/induction/hidden.npz:layers.1"], capture_output=True, check=True).stdout
        cache = mha.run(DATA / "induction", layer=1, X=self.hidden["layers.1"], threads=1)
        np.testing.assert_array_equal(cache["weights"], np.load(io.BytesIO(bytes_)))


class Models(unittest.TestCase):
    text = (DATA / "bard-llama" / "expected" / "line.txt").read_text()

    def test_a_text_to_every_layer(self):
        cache = mha.run(DATA / "bard-llama", text=self.text)
        expected = np.load(DATA / "bard-llama" / "expected" / "line.npz")
        compared = 0
        for name in expected.files:
            if name in cache and cache[name].shape == expected[name].shape:
                np.testing.assert_allclose(cache[name], expected[name], atol=2e-3, err_msg=name)
                compared += 1
        self.assertGreater(compared, 10)
        np.testing.assert_array_equal(cache["layers.1.pattern"], cache["layers.1.weights"])
        np.testing.assert_array_equal(cache["blocks.1.attn.hook_pattern"], cache["layers.1.weights"])
        self.assertEqual(cache["logits"].ndim, 2)
        with self.assertRaisesRegex(mha.Error, "no layer 17"):
            cache["layers.17.weights"]

    def test_some_stages_of_numbers_of_tokens(self):
        ids = [[1, 5, 9], [1, 7, 2]]
        both = mha.run(DATA / "bard-llama", ids=ids, layer=1, stages="weights")
        self.assertEqual(list(both), ["weights"])
        for batch, row in enumerate(ids):
            one = mha.run(DATA / "bard-llama", ids=np.array(row), layer=1, stages="weights")
            np.testing.assert_array_equal(one["weights"], both["weights"][batch])
        logits = mha.run(DATA / "bard-llama", ids=ids[0], stages=["logits"])
        self.assertEqual(list(logits), ["logits"])


    def test_a_batch_of_one_keeps_its_axis_and_batches_may_be_ragged(self):
        one = mha.run(DATA / "bard-llama", ids=[[5, 6]], layer=1, stages="weights")
        self.assertEqual(one["weights"].ndim, 4)
        both = mha.run(DATA / "bard-llama", ids=[[5, 6, 7], [8]], layer=1, stages="weights")
        self.assertEqual(both["weights"].shape[0], 2)
        self.assertEqual(mha.run(DATA / "bard-llama", ids=np.array([5, 6]), layer=1, stages="weights")["weights"].ndim, 3)

    def test_a_stage_of_one_layer_is_kept_of_that_layer(self):
        few = mha.run(DATA / "bard-llama", ids=[5, 6], stages=["layers.3.weights", "logits"])
        self.assertEqual(list(few), ["layers.3.weights", "logits"])


class WholeModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mha.Model(DATA / "bard-gpt2", dtype="float64")
        cls.text = "To be, or not to be"

    def test_what_is_kept_is_what_run_computes(self):
        run = self.model.run(self.text, keep=["layers.*.weights", "logits"])
        cache = mha.run(DATA / "bard-gpt2", text=self.text, dtype="float64", stages=["weights", "logits"])
        self.assertEqual(list(run), list(cache))
        for name in cache:
            np.testing.assert_array_equal(run[name], cache[name])
        np.testing.assert_array_equal(run["weights", 3], run["layers.3.weights"])
        np.testing.assert_array_equal(run["blocks.3.attn.hook_pattern"], run["layers.3.weights"])
        self.assertIn(("weights", 3), run)
        self.assertNotIn("layers.3.q", run)
        self.assertEqual(run.ids, self.model.tokens(self.text).ids)
        self.assertEqual("".join(run.pieces), self.text)
        self.assertEqual(self.model.text(run.ids), self.text)
        with self.assertRaises(ValueError):
            run["logits"][0, 0] = 1

    def test_losses_and_predictions_are_those_of_the_logits(self):
        run = self.model.run(self.text)
        logits = run.logits()
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses = -log_p[np.arange(len(run.ids) - 1), run.ids[1:]]
        np.testing.assert_allclose(run.losses(), losses, rtol=1e-11)
        self.assertAlmostEqual(run.loss(), losses.mean(), 12)
        best = run.predictions(top=2)
        self.assertEqual(best[0].id, logits[-1].argmax())
        self.assertAlmostEqual(best[0].probability, np.exp(log_p[-1].max()), 12)
        several = self.model.run([self.text, "The king"])
        self.assertEqual([len(text) for text in several.losses()], [len(text) - 1 for text in several.ids])
        np.testing.assert_array_equal(several.losses()[0], run.losses())

    def test_patches_in_every_form_have_the_same_bits(self):
        clean = self.model.run(self.text, keep="layers.1.q")
        half = clean["layers.1.q"] / 2
        written = clean.with_("layers.1.q *= 0.5", keep="logits")
        for patches in (
            [mha.Patch("layers.1.q", half)],
            [("layers.1.q", half)],
            {"layers.1.q": half},
            mha.Patch("layers.1.q *=", np.array([0.5])),
            ("layers.1.q *=", 0.5),
            mha.Patch.rows("layers.1.q", lambda at, row: row / 2),
        ):
            np.testing.assert_array_equal(clean.with_(patches, keep="logits")["logits"], written["logits"])
            np.testing.assert_array_equal(self.model.run(self.text, patches=patches).logits(), written["logits"])
        zero = clean.with_(mha.Patch.zero("layers.2.head_result[5]")).loss()
        self.assertEqual(zero, clean.with_("layers.2.head_out[5] = zero").loss())
        self.assertNotEqual(zero, clean.loss())
        self.assertNotEqual(clean.with_(mha.Patch.mean("layers.2.mlp_out")).loss(), clean.loss())
        other = self.model.run("Ay me, or no to be")
        self.assertEqual(len(other.ids), len(clean.ids))
        given = clean.with_(mha.Patch.from_run("layers.3.resid_post", other)).logits()
        np.testing.assert_array_equal(given, other.logits())

    def test_patches_and_weights_are_those_of_their_making(self):
        clean = self.model.run(self.text, keep="layers.1.q")
        half = clean["layers.1.q"] / 2
        expected = clean.with_([("layers.1.q", half)]).logits()
        patch = mha.Patch("layers.1.q", half)
        W = self.model.weight("layers.0.W_o") * 2
        doubled = self.model.with_("layers.0.W_o", W)
        twice = doubled.run(self.text).logits()
        half[:], W[:] = 0, 0
        np.testing.assert_array_equal(clean.with_(patch).logits(), expected)
        np.testing.assert_array_equal(doubled.run(self.text).logits(), twice)
        turned = np.asfortranarray(self.model.weight("layers.0.W_o") * 2)
        np.testing.assert_array_equal(self.model.with_("layers.0.W_o", turned).run(self.text).logits(), twice)

        def writes(at, row):
            row[:] = 0

        with self.assertRaisesRegex(ValueError, "read-only"):
            clean.with_(mha.Patch.rows("layers.1.q[0]", writes))

    def test_streams_and_another_weight(self):
        run = self.model.run(self.text)
        self.assertEqual(run.resid(self.model.layers).shape, (len(run.ids), self.model.dims()["d_model"]))
        rows = {}
        self.model.stream(self.text, "layers.*.weights", lambda name, at, part: rows.setdefault(name, []).append(part))
        kept = self.model.run(self.text, keep="weights")
        for name in kept:
            np.testing.assert_array_equal(np.stack(rows[name]), kept[name])
        W = self.model.weight("layers.0.W_o")
        zero = self.model.with_("layers.0.W_o", np.zeros_like(W))
        b = self.model.weight("layers.0.b_o")
        np.testing.assert_allclose(zero.run(self.text, keep="layers.0.output")["output"], np.broadcast_to(b, (len(run.ids), len(b))))

    def test_a_diagnosis_names_the_cause_and_its_option(self):
        text = "To be, or not to be"
        theirs = mha.Model(DATA / "bard-gpt2", scale="none").run(text, keep="*")
        model = mha.Model(DATA / "bard-gpt2")
        shares = []
        found = model.diagnose(text, theirs, progress=shares.append)
        self.assertTrue(found.explained and not found.equal and shares)
        causes = [(place.place, cause.id, cause.option) for place in found.places for cause in place.causes]
        self.assertEqual(causes, [(f"layers.{n}", "scale.missing", "--scale 1") for n in range(4)])
        again = mha.Model(DATA / "bard-gpt2", **next(place for place in found.places if place.causes).causes[0].settings)
        self.assertTrue(again.diagnose(text, theirs).equal)
        with self.assertRaisesRegex(mha.Error, "not saved stages"):
            model.diagnose(text, 7)
        given = layer()
        ours, other = mha.load(given, num_heads=3, causal=True), mha.load(given, num_heads=3)
        [place] = ours.diagnose({"output": mha.run(other)["output"]}).places
        self.assertEqual([cause.option for cause in place.causes], ["--no-causal"])

    def test_a_comparison_has_a_verdict_and_each_stage(self):
        text = "To be, or not to be"
        model = mha.Model(DATA / "bard-gpt2")
        own = model.run(text, keep=["layers.1.*", "logits"])
        same = model.diff(text, own)
        self.assertEqual((same.verdict, same.not_compared), ("equal", []))
        self.assertEqual([place.place for place in same.places], ["layers.1", "model"])
        saved = {name: own[name] for name in own}
        saved["layers.1.weights"] = saved["layers.1.weights"].copy()
        saved["layers.1.weights"][2, 5, 3] += 0.5
        found = model.diff(text, saved)
        self.assertEqual((found.verdict, found.places[0].first), ("differs", "weights"))
        [row] = [one for one in found.places[0].stages if one.stage == "weights"]
        self.assertEqual((row.status, row.mismatched, row.at, row.own), ("first", 1, (2, 5, 3), True))
        self.assertAlmostEqual(row.max_abs, 0.5, places=6)
        self.assertEqual(model.diff(text, saved, stages="layers.1.weights".split(".")[-1], atol=0.6).verdict, "equal")
        self.assertEqual(model.diff(text, {**saved, "layers.9.q": np.zeros((2, 2), np.float32)}).verdict, "differs")
        with self.assertRaisesRegex(mha.Error, "atol is -1: a number of at least 0 expected"):
            model.diff(text, saved, atol=-1)
        given = layer()
        ours, other = mha.load(given, num_heads=3, causal=True), mha.load(given, num_heads=3)
        output = mha.run(other)["output"]
        lone = ours.diff({"output": output})
        self.assertEqual((lone.verdict, lone.compared, lone.places[0].first), ("differs", "output", "output"))
        self.assertEqual(other.diff({"output": output, "q": np.zeros((3, 4), np.float32)}).verdict, "differs")

    def test_heads_and_effects_are_arrays(self):
        run = self.model.run(self.text, keep="weights")
        entropy = run.heads("entropy")
        self.assertEqual(entropy.shape, (4, 6))
        weights = np.stack([run["weights", n] for n in range(4)])[:, :, 1:]
        plogp = np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1)), 0)
        np.testing.assert_allclose(entropy, -plogp.sum(-1).mean(-1), rtol=1e-9)
        kl, losses = run.effects(), run.effects("loss_change", None)
        self.assertEqual(kl.shape, (4, 6))
        for layer, head in ((0, 2), (3, 5)):
            without = run.with_(f"layers.{layer}.head_out[{head}] = zero")
            self.assertAlmostEqual(losses[layer, head], without.loss() - run.loss(), 12)
            log_p, log_q = (z - np.log(np.exp(z).sum()) for z in (run.logits()[-1], without.logits()[-1]))
            self.assertAlmostEqual(kl[layer, head], (np.exp(log_p) * (log_p - log_q)).sum(), 12)
        with self.assertRaisesRegex(mha.Error, "is not a column"):
            run.effects("nonsense")
        with self.assertRaisesRegex(mha.Error, "did you mean 'entropy'"):
            run.heads("entropi")
        with self.assertRaisesRegex(mha.Error, "no position 99"):
            run.effects(positions=99)

    def test_errors_reprs_and_closing(self):
        run = self.model.run(self.text, keep=["layers.0.q", "layers.1.q"])
        for key in ("q", "layers.0.k", "layers.9.q", "nonsense", ("q", 9)):
            with self.assertRaises(KeyError):
                run[key]
            with self.assertRaises(mha.Error) as caught:
                run[key]
            self.assertNotIn("--", str(caught.exception))
        self.assertEqual(repr(run), f"<mha.Run of {DATA / 'bard-gpt2'}, <mha.Tokens: {len(run.ids)} tokens>: 2 stages kept>")
        with self.assertRaisesRegex(mha.Error, "neither a text"):
            self.model.run(3)
        for wrong in ({"keep": "nonsense"}, {"keep": [3]}, {"patches": "layers.9.q = zero"}, {"patches": [("layers.0.q", np.ones((2, 3)))]}):
            with self.assertRaises(mha.Error):
                self.model.run(self.text, **wrong)
        with self.assertRaisesRegex(mha.Error, "masked array"):
            self.model.run(self.text, patches=[("layers.0.q", np.ma.masked_equal(np.ones((1, 1, 1)), 1))])
        with self.assertRaisesRegex(mha.Error, "float32 or float64"):
            mha.Model(DATA / "bard-gpt2", dtype="int32")
        with self.assertRaisesRegex(mha.Error, "no setting"):
            mha.Model(DATA / "bard-gpt2", nonsense=1)
        with mha.Model(DATA / "bard-gpt2") as opened:
            kept = opened.run([5, 6, 7])
        with self.assertRaisesRegex(mha.Error, "closed"):
            opened.run([5])
        self.assertEqual(kept.logits().shape[0], 3)
        self.assertIn("3 tokens", repr(kept))
        self.assertEqual(kept.with_("layers.0.q = zero").logits().shape[0], 3)

    def test_misuse_is_an_error_in_words(self):
        model, clean = self.model, self.model.run("The king", keep="layers.0.q")
        np.testing.assert_array_equal(clean.resid(-1), clean.resid(model.layers))
        rows = lambda made: mha.Patch.rows("layers.0.q", lambda at, row: made)
        for misuse in (
            lambda: model.run(None), lambda: model.run([]), lambda: model.run(""), lambda: model.run({}), lambda: model.run([[1, 2], [3, "x"]]),
            lambda: model.run(np.array([1.5])), lambda: model.run(np.ma.masked_equal([1, 2, 3], 2)), lambda: model.run([2**40]),
            lambda: model.run([True]), lambda: model.run("To", threads=-1), lambda: model.run("To", threads=1.5), lambda: model.run("To", keep=3),
            lambda: clean.with_(3), lambda: clean.with_([3]), lambda: clean.with_({"layers.0.q": object()}), lambda: clean.with_({"layers.0.q": [[1, 2], [3]]}),
            lambda: clean.with_(rows("x")), lambda: clean.with_(rows(None)), lambda: mha.Patch(3), lambda: mha.Patch.rows("layers.0.q", 3),
            lambda: clean.resid(99), lambda: clean.resid("x"), lambda: clean.predictions("x"), lambda: clean.heads(3), lambda: clean.effects(positions="x"),
            lambda: model.weight(3), lambda: model.dims(99), lambda: model.stream("To", "weights", 3), lambda: model.text("x"),
            lambda: model.run(["To be", 5]), lambda: model.run([[1, 2], "x"]), lambda: model.run(np.array(5)), lambda: model.run({1, 2}),
            lambda: model.run("\ud800"), lambda: model.run([[]]), lambda: model.run("To", keep="layers.2-1.q"), lambda: model.run("To", keep=[b"q"]),
            lambda: clean.with_("layers.-9.q = zero"), lambda: clean.with_("layers.0.q = zeor"), lambda: clean.resid(-6),
            lambda: mha.Patch.from_run("layers.0.q", model), lambda: mha.Model(""), lambda: mha.Model(DATA / "quickstart.json"),
            lambda: mha.Model(DATA / "bard-gpt2", rope_base=[1]), lambda: mha.Model(DATA / "bard-gpt2", num_heads=5),
            lambda: model.weight("wte"), lambda: model.weight("layers.0.q"),
            lambda: model.stream("To", [], print), lambda: clean[3], lambda: clean[None], lambda: clean["weights", 1, 2], lambda: clean["logits", 1],
            lambda: mha.run(layer(), num_heads=3)["weights", 9], lambda: mha.run(layer(), num_heads=3)[3],
            lambda: mha.run({**layer(), 3: 3}, num_heads=3), lambda: mha.run(layer(), num_heads=3, stages=[]),
            lambda: mha.run(layer(), num_heads=3, tokens=[1] * 7), lambda: mha.run(layer(), num_heads=3, config=3),
            lambda: mha.run({**layer(), "Wq": np.ones((10, 12))}, num_heads=3), lambda: mha.run(), lambda: mha.layers(3),
            lambda: mha.run(DATA / "bard-gpt2", ids=[]), lambda: mha.run(DATA / "bard-gpt2", ids=[[1], []]),
            lambda: mha.run(DATA / "bard-gpt2", text=[]), lambda: mha.run(DATA / "bard-gpt2", text=3),
            lambda: mha.run(DATA / "bard-gpt2", text="To", stages=["layers.9.weights"]),
            lambda: mha.Model(3), lambda: mha.Model(DATA / "bard-gpt2", memory=-1), lambda: mha.Model(DATA / "bard-gpt2", dtype=3),
            lambda: mha.run(3), lambda: mha.run(layer(), num_heads=3, stages=3), lambda: mha.run(layer(), num_heads=3, threads="x"),
        ):
            with self.assertRaises(mha.Error) as caught:
                misuse()
            self.assertNotRegex(str(caught.exception), r"(?<![\w-])(--[a-z]|-[a-z] [A-Z])|mha-inspect|=[A-Z]{3}|mha::|Options::|, tensor}|incompatible|\n")
            self.assertNotIn("argument:", str(caught.exception))

    def test_names_of_layers(self):
        for keep, kept in (("layers.-1.q", ["layers.3.q"]), (("q", 1), ["layers.1.q"]), ([("q", -1), "logits"], ["layers.3.q", "logits"]),
                           ({"layers.0-1.q"}, ["layers.0.q", "layers.1.q"]), (None, [])):
            run = self.model.run("To be", keep=keep)
            self.assertEqual(list(run), kept)
            self.assertTrue(run and run == run and run in {run})
        every = self.model.run("To be", keep="q")
        np.testing.assert_array_equal(every["q", -1], every["layers.3.q"])
        np.testing.assert_array_equal(self.model.weight("layers.-1.W_o"), self.model.weight("layers.3.W_o"))
        cache = mha.run(DATA / "bard-gpt2", text="To be", stages="q")
        np.testing.assert_array_equal(cache["q", 2], cache["layers.2.q"])
        self.assertEqual(len({cache, cache}), 1)
        self.assertEqual(mha.layers(DATA / "quickstart.json"), [""])
        self.assertEqual(self.model.text([]), "")

    def test_nan_in_an_input_is_a_doubt(self):
        given = layer()
        given["X"][2, 3] = np.nan
        with self.assertWarnsRegex(mha.Warning, r"X has 1 NaN of 70 numbers, the first at \[2, 3\]"):
            mha.run(given, num_heads=3)

    def test_threads_share_a_model(self):
        texts = ["To be", "or not to be", "The king", "My lord, farewell"]
        alone = [self.model.run(text).logits() for text in texts]
        together = [None] * len(texts)

        def work(i):
            together[i] = self.model.run(texts[i]).with_("layers.1.q *= 1").logits()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for one, other in zip(alone, together):
            np.testing.assert_array_equal(one, other)

    def test_an_interrupt_ends_a_run_between_layers(self):
        import signal

        done = []

        def interrupt(at, row):
            signal.raise_signal(signal.SIGINT)
            done.append(at)
            return row

        # Where the tests were started with the signal ignored, Python has no handler of its own.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.model.run("To be", patches=[mha.Patch.rows("layers.0.q[0,0]", interrupt)])
        finally:
            signal.signal(signal.SIGINT, before)


class Memory(unittest.TestCase):
    def test_arrays_are_not_copied_in_and_let_go_afterwards(self):
        given = layer(dtype=np.float32)
        before = {name: sys.getrefcount(value) for name, value in given.items()}
        cache = mha.run(given, num_heads=3)
        self.assertEqual({name: sys.getrefcount(value) for name, value in given.items()}, before)
        del cache

    def test_results_share_one_memory_and_outlive_the_cache(self):
        cache = mha.run(layer(), num_heads=3)
        weights, again = cache["weights"], cache["pattern"]
        self.assertTrue(np.shares_memory(weights, again))
        self.assertFalse(weights.flags.owndata)
        self.assertTrue(not weights.flags.writeable and weights.flags.c_contiguous)
        kept = weights.copy()
        del cache, again
        gc.collect()
        mha.run(layer(seed=1), num_heads=3)
        np.testing.assert_array_equal(weights, kept)

    def test_many_runs_take_no_memory(self):
        import resource
        given = layer(T=64, dtype=np.float32)
        for _ in range(50):
            mha.run(given, num_heads=3)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(400):
            mha.run(given, num_heads=3)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 16_000)  # KiB; one run's stages take 1.4 MB

    def test_other_threads_run_meanwhile(self):
        given = layer(T=2000, d_model=64, H=4, d_k=16, d_v=16, H_kv=4, dtype=np.float32)
        counted, end = [0], threading.Event()

        def count():
            while not end.is_set():
                counted[0] += 1
                time.sleep(0.0005)

        counter = threading.Thread(target=count)
        counter.start()
        before = counted[0]
        mha.run(given, num_heads=4, threads=1, stages=["output"])
        meanwhile = counted[0] - before
        end.set()
        counter.join()
        self.assertGreater(meanwhile, 5)

    def test_several_threads_at_once(self):
        inputs = [layer(seed=seed, T=40) for seed in range(4)]
        expected = [mha.run(given, num_heads=3)["output"] for given in inputs]
        results = [None] * 4

        def compute(i):
            for _ in range(10):
                results[i] = mha.run(inputs[i], num_heads=3)["output"]

        workers = [threading.Thread(target=compute, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for result, right in zip(results, expected):
            np.testing.assert_array_equal(result, right)


class Errors(unittest.TestCase):
    def refused(self, message, *sources, **arguments):
        with self.assertRaisesRegex(mha.Error, message) as caught:
            mha.run(*sources, **arguments)
        self.assertNotRegex(str(caught.exception), r"--[a-z]|mha-inspect [a-z]|=FILE|\n")

    def test_messages_name_tensors_and_keyword_arguments(self):
        given = layer()
        self.refused("num_heads", given)
        self.refused("W_q.*12 columns.*5 heads", given, num_heads=5)
        self.refused("W_k.*9 rows.*10 columns", {**given, "W_k": np.ones((9, 12))}, num_heads=3)
        self.refused("complex128", {**given, "X": np.ones((7, 10), complex)}, num_heads=3)
        self.refused("object", {**given, "X": np.array([None])}, num_heads=3)
        self.refused("no setting is called 'num_head'; did you mean 'num_heads'", given, num_head=3)
        self.refused("causal.*maybe", given, num_heads=3, causal="maybe")
        self.refused("wieghts", given, num_heads=3, wieghts=np.ones((3, 7, 7)))
        self.refused("no such file", "nowhere.npz")
        self.refused("no source", ())
        self.refused("X", {name: value for name, value in given.items() if name != "X"}, num_heads=3)
        self.refused("'nothing'", given, num_heads=3, stages=["nothing"])
        self.refused("q_rope|no stage", given, num_heads=3, stages=["q_rope"])
        self.refused("layer", DATA / "induction")
        self.refused("no layer 7", DATA / "induction", layer=7)
        self.refused("token number", DATA / "bard-llama", ids=[0.5])
        self.refused("text|checkpoint", given, text="To be", num_heads=3)

    def test_a_misspelt_tensor_is_one_error_in_both_languages(self):
        # As tests/unit/api/misuse_test.cpp has it.
        said = "'W_x' is neither a tensor of a layer nor a stage; did you mean 'W_q'?; docs/formats.md lists them all"
        self.refused(f"W_x: {re.escape(said)}$", layer(), num_heads=3, W_x=np.ones((10, 12)))

    def test_an_error_is_a_value_error(self):
        self.assertTrue(issubclass(mha.Error, ValueError))

    def test_stages_by_name(self):
        cache = mha.run(layer(), num_heads=3, stages=["q", "weights"])
        self.assertEqual(list(cache), ["q", "weights"])
        self.assertIn("hook_pattern", cache)
        self.assertNotIn("output", cache)
        self.assertNotIn("wieghts", cache)
        self.assertNotIn(3, cache)
        self.assertIsNone(cache.get("output"))
        with self.assertRaisesRegex(mha.Error, "did you mean 'weights'"):
            cache["wieghts"]
        with self.assertRaisesRegex(mha.Error, "output was not requested.*q, weights"):
            cache["output"]
        with self.assertRaisesRegex(mha.Error, "scaled or weights"):
            cache["attn_weights"]

    def test_doubts_are_warnings(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            given = layer(dtype=np.float32)
            given["X"] *= np.float32(1e30)
            cache = mha.run(given, num_heads=3)
        self.assertTrue(any(issubclass(one.category, mha.Warning) for one in told))
        self.assertTrue(any("overflow" in note for note in cache.notes))


class Page(unittest.TestCase):
    page = (ROOT / "docs" / "python.md").read_text()

    def examples_print_what_is_shown(self, page, name, least):
        before = os.getcwd()
        os.chdir(ROOT)
        try:
            # The page's fences end an example, as an empty line does.
            plain = page.replace("```python", "").replace("```", "")
            tests = doctest.DocTestParser().get_doctest(plain, {}, name, None, 0)
            report = io.StringIO()
            runner = doctest.DocTestRunner()
            runner.run(tests, out=report.write)
            self.assertGreaterEqual(runner.tries, least)
            self.assertEqual(runner.failures, 0, report.getvalue())
        finally:
            os.chdir(before)

    def test_the_examples_print_what_the_page_shows(self):
        self.examples_print_what_is_shown(self.page, "docs/python.md", 16)

    def test_the_readme_prints_what_it_shows(self):
        self.examples_print_what_is_shown((ROOT / "README.md").read_text(), "README.md", 3)

    def test_the_recipe_without_the_module_gives_the_same_bits(self):
        program = os.environ.get("MHA")
        if not program:
            self.skipTest("MHA names no program")
        recipe = self.page[self.page.index("def run(") :]
        names = {}
        exec(recipe[: recipe.index("```")], names)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{Path(program).parent}:{path}"
        try:
            given = layer()
            expected = mha.run(given, num_heads=3, causal=True)
            results = names["run"](**given, num_heads=3, causal=True)
            self.assertEqual(set(results), set(expected))
            for stage in expected:
                np.testing.assert_array_equal(results[stage], expected[stage])
            x = Files.hidden["layers.1"]
            weights = names["run"](DATA / "induction", options=["--layer", "1"], stages=["weights"], X=x)["weights"]
            np.testing.assert_array_equal(weights, mha.run(DATA / "induction", layer=1, X=x)["weights"])
            with self.assertRaisesRegex(ValueError, "num-heads"):
                names["run"](**given)
        finally:
            os.environ["PATH"] = path


class Table(unittest.TestCase):
    def test_stages(self):
        table = {stage.name: stage for stage in mha.stages()}
        self.assertEqual(table["weights"].letters, ("H", "T", "S"))
        cache = mha.run(layer(), num_heads=3)
        self.assertLessEqual(set(cache), set(table))

    def test_hints_are_installed_and_complete(self):
        folder = Path(mha.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        stub = (folder / "_core.pyi").read_text()
        for name in dir(mha._core):
            if not name.startswith("__") or name == "__version__":
                self.assertIn(name, stub)
        for name in dir(mha._core.Request):
            if not name.startswith("__"):
                self.assertRegex(stub, rf"    (def )?{name}[:(]")
        for name in ("run", "layers", "stages"):
            self.assertIn("return", getattr(mha, name).__annotations__)


if __name__ == "__main__":
    unittest.main()

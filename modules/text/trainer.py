"""Trains a classifier of texts or pairs of texts: TFX's Trainer calls `run_fn`, its Tuner `tuner_fn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, export, input_pipeline
from modules.hparams.text import PretrainHparams, TextHparams
from modules.text import batching, lora, pretraining, published, tokens
from modules.text import model as text_model
from modules.text.masking import Masking
from modules.text.model import Vocabulary
from modules.text.wordpiece import INSIDE
from modules.training import classifier, probes, search, tuned, warm
from modules.training.report import FitReport

if TYPE_CHECKING:
    from tfx.components import FnArgs
    from tfx.components.tuner.component import TunerFnResult

ADAPTERS = "keras/adapters.safetensors"
"""The adapters alone, relative to the model artifact's folder."""

_ANY_TEXT = "Whatever is asked here, 1 or 2 words of it are known"
_WORDS = 8
"""Of a probe, few enough to be no longer than `max_tokens`."""


def run_fn(fn_args: FnArgs) -> None:
    """Trains, then writes the SavedModel, the `.keras` model, the history, and adapters where there are any.

    Args:
        fn_args: TFX's; `custom_config` as `TextHparams.from_config` takes it.

    Raises:
        TrainingError: weights that do not fit, or see `classifier.run`.
    """
    classifier.run(fn_args, f"{__name__}.{run_fn.__name__}", _job(tuned.configured(fn_args), fn_args))


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """What TFX's Tuner calls; `custom_config` holds `tune` besides.

    Raises:
        TrainingError: see `search.tuner`.
    """
    return search.tuner(fn_args, lambda config: _job(config, fn_args))


def _job(config: Mapping[str, Any], fn_args: FnArgs) -> classifier.Job:
    hparams = TextHparams.from_config(config)
    # A Tuner writes no model.
    adapters = Path(fn_args.serving_model_dir or "").parent / ADAPTERS
    return classifier.Job(
        hparams.train,
        hparams.state_root,
        lambda transform: TextTask(hparams, transform, adapters).task(),
    )


class TextTask:
    """What texts add to training a classifier."""

    def __init__(self, hparams: TextHparams, transform: tft.TFTransformOutput, adapters: Path) -> None:
        self._hparams, self._transform, self._adapters = hparams, transform, adapters
        weights = hparams.model.weights
        self._published = published.read(weights) if weights != "none" else None
        self._lines = [] if hparams.inputs.tokens == tokens.NGRAMS else _lines(transform)
        if self._published is not None:
            self._vocabulary = self._published.vocabulary
        elif self._lines:
            self._vocabulary = Vocabulary(len(self._lines) + tokens.OWN.first)
        else:
            self._vocabulary = Vocabulary(hparams.inputs.buckets + 1)

    def task(self) -> classifier.Task:
        hparams = self._hparams
        layer = self._transform.transform_features_layer()
        return classifier.Task(
            features=(tokens.TOKENS,),
            label=hparams.inputs.label_feature,
            to_input=lambda features: tf.cast(
                tf.sparse.to_dense(features[tokens.TOKENS], default_value=self._padding), tf.float32
            ),
            build=self.build,
            description=[asdict(hparams.inputs), asdict(hparams.model), self._vocabulary.size],
            preprocess=self._preprocess(layer),
            resources={"transform_layer": layer},
            batching=batching.by_length(self._padding),
            augment=self._drop_tokens(),
            prepare=self.prepare,
            finish=self.finish,
            tables=self._tables(),
            probes=self._probes() if hparams.train.distill else (),
        )

    def _probes(self) -> list[bytes]:
        """Texts of what the vocabulary holds; of n-grams, which are hashed, any text will do."""
        words = [line.removeprefix(INSIDE) for line in self._lines] or [_ANY_TEXT]
        texts = [" ".join(words[at : at + _WORDS]).encode() for at in range(0, len(words), _WORDS)]
        spec = self._raw_spec()
        return probes.examples(spec, dict.fromkeys(spec, texts))

    def _raw_spec(self) -> dict[str, Any]:
        hparams, raw = self._hparams.inputs, self._transform.raw_feature_spec()
        return {name: raw[name] for name in (hparams.text_feature, hparams.text_pair_feature) if name}

    def _tables(self) -> list[warm.Table]:
        """The tokens' vocabulary; n-grams are hashed, and have none."""
        if not self._lines:
            return []
        entries = self._transform.vocabulary_by_name(tokens.VOCABULARY)
        layer = f"{text_model.EMBEDDING}/tokens"
        first = self._vocabulary.specials.first
        return [warm.Table(tokens.VOCABULARY, entries, (layer,), first)]

    @property
    def _padding(self) -> int:
        return self._vocabulary.specials.padding

    def build(self, class_count: int) -> keras.Model:
        """A new model, frozen and adapted as the experiment says."""
        model = self._plain(class_count)
        hparams = self._hparams.model
        if hparams.name == "transformer":
            lora.freeze(model, hparams.freeze)
            if hparams.lora is not None:
                lora.adapt(model, hparams.lora)
        return model

    def _plain(self, class_count: int) -> keras.Model:
        shape = self._published.shape if self._published is not None else None
        return text_model.build(self._hparams, self._vocabulary, class_count=class_count, shape=shape)

    def prepare(self, model: keras.Model, start: classifier.Start) -> Mapping[str, Any]:
        """First weights: n-gram weights from the training texts, published ones, or pre-trained ones."""
        hparams = self._hparams.model
        if hparams.name == "ngrams":
            frequencies = document_frequencies(start.training, self._vocabulary.size)
            model.get_layer("bag").weights_of_ngrams.assign(inverse_frequencies(frequencies, start.examples))
        if hparams.name != "transformer":
            return {}
        if self._published is not None:
            self._published.load(text_model.encoder_of(model))
        if hparams.pretrain is None:
            return {}
        report = self._pretrain(model, start, hparams.pretrain)
        return {"pretraining": {"seconds": report.seconds, "history": report.history}}

    def _pretrain(self, model: keras.Model, start: classifier.Start, hparams: PretrainHparams) -> FitReport:
        """Pre-trains an encoder of its own, whose every weight may move, and copies it."""
        with start.session.scope():
            plain = self._plain(model.output_shape[-1])
        encoder, target = text_model.encoder_of(plain), text_model.encoder_of(model)
        if self._published is not None:
            self._published.load(encoder)
        inside = None
        if hparams.whole_words:
            inside = (
                *[False] * self._vocabulary.specials.first,
                *(line.startswith(INSIDE) for line in self._lines),
            )
        masking = Masking(self._vocabulary, hparams.mask_share, inside)
        print("Pre-training: masked language modelling")
        chunk = self._hparams.model.chunk
        report = pretraining.pretrain(
            hparams, self._hparams.train, start, encoder, masking, window=chunk.tokens if chunk else None
        )
        for mine, other in zip(target, encoder, strict=True):
            copy_weights(other, mine)
        print("Fine-tuning: classes")
        return report

    def finish(self, model: keras.Model) -> keras.Model:
        """What is written: without adapters, which are saved apart."""
        if self._hparams.model.lora is None or self._hparams.model.name != "transformer":
            return model
        lora.save(model, self._adapters)
        return lora.merge(model, self._plain(model.output_shape[-1]))

    def _drop_tokens(self) -> input_pipeline.Augment | None:
        """Hides a share of a training text's tokens or n-grams, so that none is relied on alone."""
        share = self._hparams.model.token_dropout
        if not share:
            return None
        specials = self._vocabulary.specials
        ngrams = self._hparams.model.name == "ngrams"
        hidden = float(specials.padding if ngrams else specials.mask)
        kept = () if ngrams else (specials.padding, specials.start, specials.separator)

        def apply(batch: tf.Tensor, labels: tf.Tensor, *, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            dropped = tf.random.stateless_uniform(tf.shape(batch), seed) < share
            for special in kept:
                dropped &= tf.not_equal(batch, float(special))
            return tf.where(dropped, hidden, batch), labels

        return apply

    def _preprocess(self, layer: Any) -> dict[str, export.Preprocess]:
        spec = self._raw_spec()

        def ids(features: dict[str, Any]) -> tf.Tensor:
            sparse = layer(features)[tokens.TOKENS]
            dense = tf.sparse.to_dense(sparse, default_value=self._padding)
            # A batch of empty texts still has one place, which is padding.
            wide = tf.pad(
                dense, [[0, 0], [0, tf.maximum(1 - tf.shape(dense)[1], 0)]], constant_values=self._padding
            )
            return tf.ensure_shape(tf.cast(wide, tf.float32), (None, None))

        def of_texts(text: tf.Tensor) -> tf.Tensor:
            parts = [text] if len(spec) == 1 else split_pairs(text)
            return ids({name: as_parsed(part, spec[name]) for name, part in zip(spec, parts, strict=True)})

        return {
            contract.SIGNATURE_EXAMPLES: lambda raw: ids(tf.io.parse_example(raw, spec)),
            contract.SIGNATURE_TEXT: of_texts,
        }


def _lines(transform: tft.TFTransformOutput) -> list[str]:
    return [line.decode(errors="replace") for line in transform.vocabulary_by_name(tokens.VOCABULARY)]


def as_parsed(text: tf.Tensor, spec: Any) -> Any:
    """(B,) strings in the form in which `tf.io.parse_example` gives them for `spec`."""
    if isinstance(spec, tf.io.FixedLenFeature):
        return tf.reshape(text, (-1, *spec.shape))
    return tf.sparse.from_dense(tf.reshape(text, (-1, 1)))


def split_pairs(text: tf.Tensor) -> list[tf.Tensor]:
    """(B,) strings at their first tab: two of (B,); the second is empty where there is no tab."""
    pairs = tf.strings.split(text, "\t", maxsplit=1).to_tensor("", shape=(None, 2))
    return tf.unstack(pairs, 2, axis=1)


def copy_weights(source: keras.layers.Layer, target: keras.layers.Layer) -> None:
    """Copies a layer's weights into one of the same shape, which may have adapters besides."""
    kept = [variable for variable in target.variables if "lora_kernel" not in variable.name]
    for mine, other in zip(kept, source.variables, strict=True):
        mine.assign(other)


def document_frequencies(dataset: tf.data.Dataset, size: int) -> np.ndarray:
    """In how many examples each id is: (size,) int64."""
    counts = np.zeros(size, np.int64)
    for ids, _ in dataset.as_numpy_iterator():
        counts[np.unique(ids.astype(np.int64))] += 1
    return counts


def inverse_frequencies(frequencies: Sequence[int] | np.ndarray, examples: int) -> np.ndarray:
    """ln((1 + N) / (1 + n)) + 1 for each id: (size,) float32."""
    return (np.log((1 + examples) / (1 + np.asarray(frequencies))) + 1).astype(np.float32)

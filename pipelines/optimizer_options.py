"""Keras's optimizers and their options, without Keras: a typing error is found before anything runs.

Left out is what the training loop does itself: the learning rate, weight decay,
clipping, averages and accumulation are settings of `train`.
"""

from __future__ import annotations

OPTIONS: dict[str, tuple[str, ...]] = {
    "adadelta": ("rho", "epsilon"),
    "adafactor": ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "relative_step"),
    "adagrad": ("initial_accumulator_value", "epsilon"),
    "adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "adamax": ("beta_1", "beta_2", "epsilon"),
    "adamw": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "ftrl": (
        "learning_rate_power",
        "initial_accumulator_value",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "l2_shrinkage_regularization_strength",
        "beta",
    ),
    "lamb": ("beta_1", "beta_2", "epsilon"),
    "lion": ("beta_1", "beta_2"),
    "muon": (
        "adam_beta_1",
        "adam_beta_2",
        "adam_weight_decay",
        "epsilon",
        "exclude_layers",
        "exclude_embeddings",
        "muon_a",
        "muon_b",
        "muon_c",
        "adam_lr_ratio",
        "momentum",
        "ns_steps",
        "nesterov",
        "rms_rate",
    ),
    "nadam": ("beta_1", "beta_2", "epsilon"),
    "rmsprop": ("rho", "momentum", "epsilon", "centered"),
    "schedulefreeadamw": ("beta_1", "beta_2", "epsilon", "warmup_steps"),
    "sgd": ("momentum", "nesterov"),
}
"""Lower-case name -> arguments, of Keras 3.15."""

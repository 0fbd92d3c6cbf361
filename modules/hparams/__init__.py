"""What a trainer may be told, by family of models. Standard library only.

    from modules.hparams.image import ImageHparams
    hparams = ImageHparams.from_config(fn_args.custom_config)
    hparams.train.batch_size

The experiment's configuration fills these; the trainer reads nothing else. A
module for each, so that a new setting for texts runs no node of images again.
"""

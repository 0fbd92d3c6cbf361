"""A model server that speaks TensorFlow Serving's gRPC and REST API.

    python -m components.serving.server --model_name=digits --model_base_path=serving/digits

Flags carry TensorFlow Serving's names. It serves plain SavedModels and TFLite
models from version folders, for laptops, tests and small deployments.
Importing this package costs nothing; TensorFlow is imported with `serve`.
"""

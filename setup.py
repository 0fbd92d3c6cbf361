"""Packaging of Headrace: bounds, extras and the console script.

Upper bounds follow what requirements.lock was tested with. TFX 1.21 itself
asks for wheels that need glibc 2.38, so the lock is resolved under
overrides.txt and installed without resolving (`make run` does both).
"""

from pathlib import Path

from setuptools import find_packages, setup

REQUIRES = [
    # The stack: what a pipeline is made of.
    "tensorflow>=2.21,<2.22",
    "keras>=3.10,<4",
    "tfx>=1.21,<1.22",
    "apache-beam>=2.77,<2.78",
    "ml-metadata>=1.17,<2",
    "tensorflow-data-validation>=1.16,<2",
    "tensorflow-transform>=1.21,<1.22",
    "tensorflow-model-analysis>=0.52,<0.53",
    "tensorflow-serving-api>=2.19,<2.22",
    "protobuf>=6.31,<7",
    "numpy>=1.26,<3",
    # Experiment files: strict validation, safe YAML.
    "pydantic>=2.10,<3",
    "pyyaml>=6,<7",
    # Command line: lazy sub-commands; tables and live progress.
    "click>=8.1,<9",
    "rich>=13,<16",
    # TFLite models in the embedded server; int8 variants of them in the rewriter.
    "ai-edge-litert>=1.2,<3",
    "ai-edge-quantizer>=0.4,<1",
    # Search over hyperparameters, through TFX's Tuner.
    "keras-tuner>=1.4,<2",
    # What looks at training: scalars, graphs and histograms are written for it.
    "tensorboard>=2.19,<3",
    # Weights of published encoders and of LoRA adapters, in a format without code in it.
    "safetensors>=0.4,<1",
    # The same as KerasHub saves them; Keras itself brings it along.
    "h5py>=3.8,<4",
    # Cron expressions, daylight saving included.
    "cronsim>=2.6,<3",
    # Pushing to, and reading from, what is no local folder.
    "fsspec>=2024.6",
    # Exact binomial bounds for the rewriter's gate.
    "scipy>=1.11,<2",
    # The scans behind the `digits` experiment, and writing them as PNG.
    "scikit-learn>=1.5,<2",
    "pillow>=10,<13",
    # The embedded model server: an ASGI stack for REST, metrics in Prometheus' format.
    "starlette>=0.40,<2",
    "uvicorn>=0.30,<1",
    "prometheus-client>=0.20,<1",
    "grpcio>=1.60,<2",
    # Peak memory of nodes and candidates; ending their child processes.
    "psutil>=5.9,<8",
    # Reading tables: CSV, Parquet and JSON Lines by Arrow, and Avro.
    "pyarrow>=18,<19",
    "fastavro>=1.9,<2",
    # Checksums of TFRecords.
    "google-crc32c>=1.5,<2",
    # Our own code as workers of a distributed engine get it.
    "wheel>=0.45,<1",
    # Reading requirement lines when hashing the installed environment.
    "packaging>=23,<27",
]

EXTRAS = {
    "kubeflow": ["kfp>=2.16,<2.17", "kfp-kubernetes>=2.16,<2.17", "kubernetes-validate>=1.30,<2"],
    "onnx": ["onnx>=1.17,<2", "onnxruntime>=1.20,<2", "tf2onnx>=1.17,<2"],
    # Signatures over the files of pushed versions, in OpenSSF's format. It imports pyOpenSSL,
    # which it left to sigstore to bring; sigstore 4 no longer does.
    "signing": ["model-signing>=1.1,<2", "pyopenssl>=24"],
    # Object stores and web servers, for data and for pushed models.
    "s3": ["s3fs>=2024.6"],
    "gcs": ["gcsfs>=2024.6"],
    "http": ["aiohttp>=3.9,<4"],
    # Traces of runs, sent by OTLP over HTTP.
    "otel": ["opentelemetry-sdk>=1.30,<2", "opentelemetry-exporter-otlp-proto-http>=1.30,<2"],
    # Needs an NVIDIA GPU; not in the lock.
    "tensorrt": ["tensorrt>=10,<11", "onnx>=1.17,<2", "tf2onnx>=1.17,<2"],
    # The site (`make docs`): a generator with a strict build, Markdown and notebooks in it, a theme that
    # needs no network, commands from their parsers; what runs the notebook, and its pictures.
    "docs": [
        "sphinx>=8.2,<10",
        "myst-nb>=1.3,<2",
        "furo>=2025.9",
        "sphinx-click>=6,<7",
        "ipykernel>=6.29,<8",
        "matplotlib>=3.9,<4",
    ],
    "dev": [
        "ruff>=0.9,<1",
        "mypy>=1.14,<3",
        "pytest>=8,<10",
        "types-PyYAML",
        "types-psutil",
        "types-protobuf",
        # REST clients in tests of the embedded server.
        "httpx>=0.27,<1",
        # Experiments against the schema that editors get.
        "jsonschema>=4.20,<5",
        # Object stores on loopback: S3's, and Google's.
        "moto[s3]>=5,<6",
        "gcp-storage-emulator>=2024",
        "flask>=3,<4",
        "flask-cors>=5,<7",
        # The fenced blocks of the docs as tests.
        "sybil>=9,<11",
    ],
}

setup(
    name="headrace",
    version="0.1.0",
    description="From raw files to an optimised model in TensorFlow Serving: one recorded TFX pipeline.",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.12",
    packages=find_packages(include=["pipelines*", "components*", "modules*"]),
    package_data={
        "pipelines": ["experiments/*.yaml", "report/page.*"],
        "components": ["py.typed"],
        "modules": ["py.typed"],
    },
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            "headrace=pipelines.cli.main:main",
            # What a Beam engine starts as a worker.
            "headrace-beam-worker=components.beam_boot:main",
        ]
    },
)

"""ExampleGen: files of any known format to checked, ordered tf.train.Examples in splits.

TFX's own ExampleGens say neither which file nor which record is bad, hash
modification times instead of contents, and write records in another order
each time. This one takes the digest of its input as an execution property and
needs no driver, so that it also runs where custom drivers do not.
"""

from __future__ import annotations

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts

from components.artifacts import IngestionReport, QuarantinedRecords
from components.example_gen import executor
from components.example_gen.request import Request


class ExampleGenSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "request": component_spec.ExecutionParameter(type=str),
        "data_digest": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "report": component_spec.ChannelParameter(type=IngestionReport),
        "quarantine": component_spec.ChannelParameter(type=QuarantinedRecords),
    }


class ExampleGen(base_beam_component.BaseBeamComponent):
    """Reads the requested files into splits.

    Outputs:
        examples: `Split-<name>` folders of gzipped TFRecords.
        report: `report.json` with the files and the examples per split and label;
            `files.jsonl` with each file's size, digest and records.
        quarantine: with `on_bad_record="quarantine"`, the bad records with their
            reasons, one JSON object a line.
    """

    SPEC_CLASS = ExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(self, request: Request, data_digest: str) -> None:
        """Makes the node.

        Args:
            request: files, format, splits and rules.
            data_digest: a digest of the files' contents; the cache key's part
                that stands for the data.
        """
        super().__init__(
            ExampleGenSpec(
                request=request.to_json(),
                data_digest=data_digest,
                examples=channel_utils.as_channel([standard_artifacts.Examples()]),
                report=channel_utils.as_channel([IngestionReport()]),
                quarantine=channel_utils.as_channel([QuarantinedRecords()]),
            )
        )

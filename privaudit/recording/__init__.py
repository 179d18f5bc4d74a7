"""Recordings of runs on disk: the bundle format ``privaudit-view/1``, written and read.

Needs numpy and safetensors only, so that a production server can take it.
"""

from __future__ import annotations

from privaudit.recording._formats import BundleReader, Reader, ReadRun, bundle_at
from privaudit.recording._manifest import FORMAT, TRUTH_FORMAT, Manifest
from privaudit.recording._problems import DEFAULT_LIMITS, Limits, Problem
from privaudit.recording._reader import Recording, read_recording, read_truth
from privaudit.recording._verify import verify
from privaudit.recording._writer import BundleRecorder

__all__ = [
    "DEFAULT_LIMITS",
    "FORMAT",
    "TRUTH_FORMAT",
    "BundleReader",
    "BundleRecorder",
    "Limits",
    "Manifest",
    "Problem",
    "ReadRun",
    "Reader",
    "Recording",
    "bundle_at",
    "read_recording",
    "read_truth",
    "verify",
]

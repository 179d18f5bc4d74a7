"""Folders that a recorder writes into: made empty, and cleared only if they hold a recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from privaudit.errors import ConfigurationError, OutputExistsError
from privaudit.recording._blobs import is_blob_name
from privaudit.recording._files import cannot_write, read_bounded, shown_name
from privaudit.recording._manifest import FORMAT, TRUTH_FORMAT, format_of
from privaudit.recording._problems import DEFAULT_LIMITS, Refusal

__all__ = ["RUN", "TRUTH", "Layout", "check_apart", "check_usable", "make_empty"]

_MANIFESTS = frozenset({"manifest.json", ".manifest.json.tmp"})


@dataclass(frozen=True, slots=True)
class Layout:
    """What a folder of one format holds besides ``arrays/``, and who may read it."""

    format: str
    files: frozenset[str]
    mode: int


RUN = Layout(FORMAT, _MANIFESTS | {"events.jsonl", "secrets.jsonl"}, 0o777)

#: The truth is for its owner only.
TRUTH = Layout(TRUTH_FORMAT, _MANIFESTS | {"targets.jsonl"}, 0o700)


def check_apart(folder: Path, truth: Path | None) -> None:
    """Raise ConfigurationError if the truth and the recording lie within one another."""
    if truth is None:
        return
    run, apart = folder.resolve(), truth.resolve()
    if run == apart or run in apart.parents or apart in run.parents:
        raise ConfigurationError(
            f"the truth ({truth}) must lie apart from the recording ({folder}), so that one can "
            "be handed on without the other; give folders of which neither contains the other"
        )


def check_usable(folder: Path, layout: Layout, *, force: bool) -> None:
    """Check that a folder is empty, new, or an earlier recording that may be replaced.

    Raises
    ------
    OutputExistsError
        If it holds something that is not to be, or must never be, cleared.
    """
    if not folder.exists():
        if folder.is_symlink():
            raise OutputExistsError(f"{folder} is a link to nothing; give another folder")
        return
    if not folder.is_dir():
        raise OutputExistsError(f"{folder} is a file; give a folder that is empty or new")
    held = [entry.name for entry in folder.iterdir()]
    if not held or (held == ["arrays"] and not any((folder / "arrays").iterdir())):
        return  # empty, or left by a recorder that was killed before its first file
    foreign = [name for name in held if name not in layout.files | {"arrays"}]
    foreign += [name for name in held if name in layout.files and not _is_file(folder / name)]
    foreign += _foreign_arrays(folder / "arrays")
    if foreign or not _has_format(folder, layout.format):
        names = sorted(shown_name(name) for name in foreign or held)
        listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise OutputExistsError(
            f"{folder} is not empty and is not a recording in format {layout.format} (it holds "
            f"{listed}), so it is not cleared, not even with --force; give another folder"
        )
    if not force:
        raise OutputExistsError(
            f"{folder} holds a recording already; give another folder, or --force to replace it"
        )


def make_empty(folder: Path, layout: Layout) -> None:
    """Make a folder that :func:`check_usable` passed, or clear it, and make its ``arrays/``.

    Raises
    ------
    PrivauditError
        If that is not possible; names the folder.
    """
    arrays = folder / "arrays"
    try:
        folder.mkdir(mode=layout.mode, parents=True, exist_ok=True)
        if layout is TRUTH:
            folder.chmod(layout.mode)
        if arrays.exists():
            for entry in arrays.iterdir():
                entry.unlink()
            arrays.rmdir()
        # The manifest goes last: until then the folder is still known for a recording.
        for name in sorted(layout.files, key=lambda name: name == "manifest.json"):
            (folder / name).unlink(missing_ok=True)
        arrays.mkdir(mode=layout.mode)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _foreign_arrays(arrays: Path) -> list[str]:
    """Return what in ``arrays/`` no recorder wrote."""
    if arrays.is_symlink() or (arrays.exists() and not arrays.is_dir()):
        return ["arrays, which is not a folder"]
    if not arrays.exists():
        return []
    return [
        f"arrays/{entry.name}"
        for entry in arrays.iterdir()
        if not (is_blob_name(entry.name) and _is_file(entry))
    ]


def _has_format(folder: Path, kind: str) -> bool:
    try:
        raw = read_bounded(folder / "manifest.json", limit=DEFAULT_LIMITS.max_manifest_bytes)
    except (Refusal, FileNotFoundError):
        return False
    return format_of(raw, limits=DEFAULT_LIMITS) == kind

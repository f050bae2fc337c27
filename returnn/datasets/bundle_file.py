"""Bundle files: a text file with the path of one data file per line."""

from __future__ import annotations

from pathlib import Path

from returnn.datasets.core.errors import DataError


class BundleFile:
    """The paths in a bundle file. Empty lines do not count."""

    def __init__(self, file_path: str) -> None:
        """
        :param file_path: of the bundle file
        :raises DataError: if it cannot be read, or has no path
        """
        try:
            text = Path(file_path).read_text("utf8")
        except (OSError, UnicodeDecodeError) as exc:
            raise DataError(f"cannot be read ({exc})", dataset="bundle file", file=file_path) from exc
        self._paths = [line for line in map(str.strip, text.splitlines()) if line]
        if not self._paths:
            raise DataError("has no paths", dataset="bundle file", file=file_path)

    @property
    def dataset_file_paths(self) -> list[str]:
        """Paths of the data files."""
        return self._paths

    @property
    def number_of_dataset_files(self) -> int:
        """How many data files there are."""
        return len(self._paths)

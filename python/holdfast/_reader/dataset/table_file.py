"""A table as a file that pyarrow's C++ code reads.

pyarrow has no dataset in C++ that calls Python, but it has a file system that does. Joins, sorts
and unions of datasets use only the part of a dataset that is in C++, and read the table as a file.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow, arrow_dataset, arrow_fs
from holdfast._reader.arrow.batch_stream import BatchStream

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow


def file_dataset(schema: "pyarrow.Schema", read: "Callable[[], pyarrow.RecordBatchReader]") -> Any:
    """Returns a dataset of one file with the rows that `read` returns when the file is opened.

    The first scan opens the file twice: Arrow first reads the columns that it has.
    """
    datasets = arrow_dataset()
    ipc = datasets.IpcFileFormat()
    files = arrow_fs().PyFileSystem(_file_system_class()(read))
    return datasets.FileSystemDataset([ipc.make_fragment("table", files)], schema, ipc, files)


@cache
def _file_system_class() -> Any:
    files = arrow_fs()

    class TableFiles(files.FSSpecHandler):  # type: ignore[name-defined,misc]
        """A file system whose only file is the table; each open reads the table anew.

        `fs`, which the base class compares, is the function that reads the table.
        """

        def get_type_name(self) -> str:
            return "holdfast"

        def open_input_file(self, path: str) -> Any:
            # A thread of Arrow's opens the file, so Python's exit waits for it.
            return next(BatchStream(map(self._file, [path])))

        def _file(self, _path: str) -> Any:
            pa = arrow()
            rows, sink = self.fs(), pa.BufferOutputStream()
            with pa.ipc.new_file(sink, rows.schema) as file:
                for batch in rows:
                    file.write_batch(batch)
            return pa.BufferReader(sink.getvalue())

    return TableFiles

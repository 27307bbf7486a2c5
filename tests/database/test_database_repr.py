"""The texts that a notebook shows for a database, its stores and their views."""

from __future__ import annotations

import holdfast as hf


class Remembering:
    """A user store without files."""

    name = "mine"
    persistent = False
    manages_offsets = True

    transactional = False

    def init(self, db: hf.Database) -> None:
        self.db = db

    def commit(self, changelog_offsets) -> None: ...

    def committed_offset(self, partition) -> None: ...

    def close(self) -> None: ...


STORES = [
    hf.stores.key_value("totals"),
    hf.stores.versioned("rates", history_retention=10),
    hf.stores.timestamped_window("minutes", retention=10, window_size=5),
]


def test_a_database_shows_its_path_its_stores_with_their_kinds_and_its_state(tmp_path):
    path = tmp_path / "rates.db"
    db = hf.open(path, [*STORES, Remembering()])
    stores = (
        "totals (key_value), rates (versioned), minutes (timestamped_window), mine (Remembering)"
    )
    assert repr(db) == f"<Database '{path}', open: {stores}>"
    db.close()
    assert repr(db) == f"<Database '{path}', closed: {stores}>"
    assert str(db) == f"database '{path}'"


def test_a_database_without_files_or_stores_shows_that():
    with hf.open(None, []) as db:
        assert repr(db) == "<Database in memory, open: no stores>"


def test_a_store_shows_its_database_and_its_state(tmp_path):
    path = tmp_path / "rates.db"
    with hf.open(path, STORES) as db:
        rates = db["rates"]
        assert repr(rates) == f"<VersionedKeyValueStore 'rates' of database '{path}', open>"
        assert repr(rates.read_only()) == "<ReadOnlyVersionedKeyValueStore 'rates'>"
    assert repr(rates) == f"<VersionedKeyValueStore 'rates' of database '{path}', closed>"


def test_a_database_is_a_table_in_a_notebook(tmp_path):
    with hf.open(tmp_path / "<db>", STORES[:1]) as db:
        html = db._repr_html_()
    assert html.startswith("<table><caption>database &#x27;")
    assert "&lt;db&gt;" in html
    assert "<tr><td>totals</td><td>key_value</td></tr>" in html

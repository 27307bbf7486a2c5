"""`docs/kips.md` names only what is there, and names everything that the proposals do."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

import holdfast as hf
import holdfast.spark as hfs

TABLE = (Path(__file__).parents[1] / "docs/kips.md").read_text()
NAMES = sorted(set(re.findall(r"`(hf\.[\w.]+(?:\(\w+=\))?)`", TABLE)))
STATE_ARGUMENTS = sorted(set(re.findall(r"`State\((\w+)=\)`", TABLE)))

# The public names in the texts of the proposals, those of rejected alternatives included.
IN_THE_TEXTS = {
    "KIP-129": """
        processing.guarantee exactly_once at_least_once StreamsConfig isolation.level
        sendOffsetsToTransaction
        """,
    "KIP-844": """
        transactional() StateStore.commit StateStore.recover StateStore.flush()
        RocksDBTransactionalMechanism IndexBatches SECONDARY_STORE WriteBatchWithIndex
        OptimisticTransactionDB StoreSupplier KeyValueBytesStoreSupplier WindowBytesStoreSupplier
        SessionBytesStoreSupplier StateQueryRequest StoreQueryParameters enableReadCommitted()
        readCommitted withTransactionalityEnabled() withTransactionalityDisabled() storeSupplier()
        StreamJoined Materialized persistentKeyValueStore persistentTimestampedKeyValueStore
        persistentWindowStore persistentTimestampedWindowStore persistentSessionStore
        persistentTransactionalKeyValueStore persistentTransactionalTimestampedKeyValueStore
        persistentTransactionalWindowStore persistentTransactionalTimestampedWindowStore
        persistentTransactionalSessionStore keyValueStoreBuilder timestampedKeyValueStoreBuilder
        windowStoreBuilder timestampedWindowStoreBuilder retentionPeriod windowSize retainDuplicates
        IllegalArgumentException
        """,
    "KIP-892": """
        default.state.isolation.level statestore.uncommitted.max.bytes READ_COMMITTED
        READ_UNCOMMITTED approximateNumUncommittedBytes() StateStore.commit committedOffset
        managesOffsets flush StateStoreContext isolationLevel() commit-rate commit-latency-avg
        commit-latency-max flush-rate flush-latency-avg flush-latency-max WriteBatchWithIndex
        newIteratorWithBase getFromBatchAndDB SstFileWriter TaskCorruptedException TimeoutException
        OutOfRangeException PositionBound
        """,
    "KIP-1035": """
        managesOffsets() StateStore.commit committedOffset StateStore.flush() TopicPartition
        UnsupportedOperationException ProcessingContext.commit() ProcessorContext.commit()
        commit-rate commit-latency-avg commit-latency-max flush-rate flush-latency-avg
        flush-latency-max thread-id task-id state-id upgrade.from .checkpoint RocksDBConfigSetter
        statestore.flush.interval.ms statestore.flush.interval.records getTaskOffsetSums()
        LATEST_OFFSET StreamsPartitionsAssignor InMemoryKeyValueStore
        """,
    "KIP-889": """
        VersionedKeyValueStore VersionedKeyValueStore.put VersionedKeyValueStore.delete
        VersionedKeyValueStore.get asOfTimestamp historyRetention segmentInterval validTo
        persistentVersionedKeyValueStore versionedKeyValueStoreBuilder keySerde valueSerde
        VersionedBytesStoreSupplier historyRetentionMs() VersionedBytesStore TimestampedBytesStore
        ValueAndTimestamp makeAllowNullable min.compaction.lag.ms rangeKey() NullPointerException
        InvalidStateStoreException IllegalArgumentException VersionedRecord
        """,
}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_table_exists(name):
    path, _, argument = name.removesuffix("=)").partition("(")
    found = reduce(getattr, path.split(".")[1:], hf)
    if argument:
        assert argument in inspect.signature(found).parameters


@pytest.mark.parametrize("argument", STATE_ARGUMENTS)
def test_every_argument_of_the_state_exists(argument):
    assert argument in inspect.signature(hfs.State).parameters


def rows(proposal: str) -> list[list[str]]:
    """Returns the cells of a proposal's table, without its head."""
    section = TABLE.split(f"## {proposal}:")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("proposal", IN_THE_TEXTS)
def test_every_name_of_the_texts_has_a_row(proposal):
    named = " ".join(span for row in rows(proposal) for span in re.findall("`[^`]+`", row[0]))
    missing = [
        name
        for name in IN_THE_TEXTS[proposal].split()
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", named) is None
    ]
    assert not missing


@pytest.mark.parametrize("proposal", IN_THE_TEXTS)
def test_every_row_says_what_is_in_a_process_and_what_on_spark(proposal):
    for row in rows(proposal):
        assert len(row) == 3, row
        assert all(row), row

package org.apache.kafka.streams.state.internals;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.Stores;

import java.io.File;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** A store of Kafka Streams, opened outside an application. It is in this package because restoring is not public. */
final class PeerStore implements AutoCloseable {
    private static final TopicPartition CHANGELOG = new TopicPartition("bench-store-changelog", 0);
    /** One hour, and the segment interval that Kafka Streams takes for it by default. */
    private static final Duration RETENTION = Duration.ofHours(1);
    private static final Duration SEGMENT_INTERVAL = Duration.ofMinutes(5);

    /** One of the two stores; the other field is null. */
    final RocksDBStore plain;
    final RocksDBVersionedStore versioned;

    PeerStore(final String kind, final File directory) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, directory.getAbsolutePath());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SameMemory.class);
        final MockProcessorContext<?, ?> context = new MockProcessorContext<>(settings, new TaskId(0, 0), directory);
        context.setCurrentSystemTimeMs(0L);
        context.setCurrentStreamTimeMs(0L);
        context.setRecordMetadata("source", 0, 0L);
        switch (kind) {
            case "plain":
                plain = (RocksDBStore) Stores.persistentKeyValueStore("store").get();
                versioned = null;
                break;
            case "versioned":
                plain = null;
                versioned = new RocksDBVersionedStore("store", "bench", RETENTION.toMillis(), SEGMENT_INTERVAL.toMillis());
                break;
            default:
                throw new IllegalArgumentException("there is no kind " + kind);
        }
        store().init(context.getStateStoreContext(), store());
    }

    private StateStore store() {
        return plain != null ? plain : versioned;
    }

    void commit(final long offset) {
        store().commit(Map.of(CHANGELOG, offset));
    }

    void restore(final List<ConsumerRecord<byte[], byte[]>> records) {
        if (plain != null) {
            plain.restoreBatch(records);
        } else {
            versioned.restoreBatch(records);
        }
    }

    @Override
    public void close() {
        store().close();
    }
}

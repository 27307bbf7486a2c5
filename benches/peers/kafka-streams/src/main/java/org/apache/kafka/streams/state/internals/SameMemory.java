package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;

import java.util.Map;

/** Holdfast's defaults: 128 MiB of blocks, and write buffers of 16 MiB up to 128 MiB. All else stays as Kafka Streams has it. */
public final class SameMemory implements RocksDBConfigSetter {
    private final LRUCache cache = new LRUCache(128L << 20);

    @Override
    public void setConfig(final String storeName, final Options options, final Map<String, Object> configs) {
        final BlockBasedTableConfigWithAccessibleCache table =
            (BlockBasedTableConfigWithAccessibleCache) options.tableFormatConfig();
        table.setBlockCache(cache);
        options.setTableFormatConfig(table);
        options.setWriteBufferSize(16L << 20);
        options.setMaxWriteBufferNumber(8);
    }

    @Override
    public void close(final String storeName, final Options options) {
        cache.close();
    }
}

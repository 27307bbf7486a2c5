package org.apache.kafka.streams.state.internals;

import com.sun.management.OperatingSystemMXBean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.VersionedRecord;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Reads workloads from standard input, one for each line. Runs each, and answers with a line of JSON. The bench decides
 * whose turn it is.
 *
 * <p>Keys, values and records are made before the clock starts. {@code sum} adds up the first eight bytes of every value
 * that was read. The bench compares it, to check that both sides have read the same values.
 */
public final class Turns {
    private static final int BATCH = 10_000;
    /** What the restore consumer of Kafka Streams hands over at most. */
    private static final int RESTORE_BATCH = 1_000;

    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private final Records records = new Records();
    private PeerStore store;
    private long wall;
    private long thread;
    private long process;
    private long sum;

    public static void main(final String[] args) throws Exception {
        final Turns turns = new Turns();
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(turns.answer(line.split(" ")));
        }
    }

    private String answer(final String[] command) {
        wall = 0;
        thread = 0;
        process = 0;
        sum = 0;
        switch (command[0]) {
            case "open": store = new PeerStore(command[1], new File(command[2])); break;
            case "put": put(number(command[1]), number(command[2]), number(command[3])); break;
            case "get": get(number(command[1]), number(command[2]), number(command[3])); break;
            case "get-as-of": getAsOf(number(command[1]), number(command[2]), number(command[3]), number(command[4]), number(command[5])); break;
            case "restore": restore(number(command[1]), number(command[2]), number(command[3])); break;
            case "close": store.close(); break;
            default: throw new IllegalArgumentException("there is no command " + command[0]);
        }
        return "{\"wall\":" + wall / 1e9 + ",\"thread\":" + thread / 1e9 + ",\"process\":" + process / 1e9 + ",\"sum\":" + sum + "}";
    }

    private static long number(final String word) {
        return Long.parseLong(word);
    }

    /** Adds the time that {@code work} takes. */
    private void timed(final Runnable work) {
        final long beganProcess = system.getProcessCpuTime();
        final long beganThread = threads.getCurrentThreadCpuTime();
        final long began = System.nanoTime();
        work.run();
        wall += System.nanoTime() - began;
        thread += threads.getCurrentThreadCpuTime() - beganThread;
        process += system.getProcessCpuTime() - beganProcess;
    }

    private void saw(final byte[] value) {
        sum += ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    /** {@code count} puts in commits of 10,000; record number i has key i % keys and, in a versioned store, time i * step. */
    private void put(final long count, final long keys, final long step) {
        for (long first = 0; first < count; first += BATCH) {
            final long begin = first;
            final List<Bytes> batch = new ArrayList<>(BATCH);
            for (long i = first; i < first + BATCH; i++) {
                batch.add(Records.bytes(i % keys));
            }
            timed(() -> {
                for (int i = 0; i < BATCH; i++) {
                    final byte[] value = records.value(begin + i);
                    if (store.plain != null) {
                        store.plain.put(batch.get(i), value);
                    } else {
                        store.versioned.put(batch.get(i), value, (begin + i) * step);
                    }
                }
                store.commit(begin + BATCH - 1);
            });
        }
    }

    private void get(final long seed, final long count, final long keys) {
        for (long first = 0; first < count; first += BATCH) {
            final List<Bytes> batch = drawn(seed, first, keys);
            timed(() -> {
                for (final Bytes key : batch) {
                    saw(store.plain.get(key));
                }
            });
        }
    }

    /** Gets of random keys, each as of a random time from {@code low} to below {@code high}. */
    private void getAsOf(final long seed, final long count, final long keys, final long low, final long high) {
        for (long first = 0; first < count; first += BATCH) {
            final List<Bytes> batch = drawn(seed, first, keys);
            final long[] times = new long[BATCH];
            for (int i = 0; i < BATCH; i++) {
                times[i] = low + Records.draw(seed + 1, first + i, high - low);
            }
            timed(() -> {
                for (int i = 0; i < BATCH; i++) {
                    final VersionedRecord<byte[]> found = store.versioned.get(batch.get(i), times[i]);
                    saw(found.value());
                }
            });
        }
    }

    private static List<Bytes> drawn(final long seed, final long first, final long keys) {
        final List<Bytes> batch = new ArrayList<>(BATCH);
        for (int i = 0; i < BATCH; i++) {
            batch.add(Records.bytes(Records.draw(seed, first + i, keys)));
        }
        return batch;
    }

    /** The changelog of {@link #put}, record after record. */
    private void restore(final long count, final long keys, final long step) {
        for (long first = 0; first < count; first += RESTORE_BATCH) {
            final List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>(RESTORE_BATCH);
            for (long i = first; i < first + RESTORE_BATCH; i++) {
                batch.add(new ConsumerRecord<>("bench-store-changelog", 0, i, i * step, TimestampType.CREATE_TIME, 16, 100,
                    Records.key(i % keys), records.value(i), new RecordHeaders(), Optional.empty()));
            }
            timed(() -> store.restore(batch));
        }
        timed(() -> store.commit(count - 1));
    }
}

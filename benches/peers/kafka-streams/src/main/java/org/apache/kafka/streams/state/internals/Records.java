package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.utils.Bytes;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The records of the bench: {@code benches/peers/_records.py} makes the same ones. */
final class Records {
    private static final long GAMMA = 0x9e3779b97f4a7c15L;
    private static final int POOL = 10_007;
    private static final int VALUE_BYTES = 100;
    private static final int WORDS = (VALUE_BYTES + 7) / 8;

    private final byte[][] values = new byte[POOL][];

    Records() {
        for (int i = 0; i < POOL; i++) {
            final ByteBuffer words = ByteBuffer.allocate(WORDS * 8).order(ByteOrder.LITTLE_ENDIAN);
            for (int w = 0; w < WORDS; w++) {
                words.putLong(mix((i * WORDS + w + 1) * GAMMA));
            }
            values[i] = java.util.Arrays.copyOf(words.array(), VALUE_BYTES);
        }
    }

    static long mix(final long seed) {
        long z = seed;
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }

    /** 16 bytes; consecutive numbers come in random order. */
    static byte[] key(final long number) {
        return ByteBuffer.allocate(16).putLong(mix((number + 1) * GAMMA)).putLong(number).array();
    }

    static Bytes bytes(final long number) {
        return Bytes.wrap(key(number));
    }

    byte[] value(final long number) {
        return values[(int) (number % POOL)];
    }

    /** The {@code index}th of a row of random numbers below {@code limit}. */
    static long draw(final long seed, final long index, final long limit) {
        return Long.remainderUnsigned(mix((seed * 1_000_000_007L + index + 1) * GAMMA), limit);
    }
}

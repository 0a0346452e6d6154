package io.github.wakecall;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads the members of JSON objects, and writes times and durations. */
final class Fields {
    private static final Map<String, Double> UNITS =
        Map.of("h", 3600.0, "m", 60.0, "s", 1.0, "ms", 1e-3, "us", 1e-6, "µs", 1e-6, "ns", 1e-9);
    private static final Pattern PART = Pattern.compile("([0-9.]+)([a-zµ]+)");

    private Fields() { }

    /** Returns a text, or "" without one. */
    static String text(Map<String, Object> members, String name) {
        Object value = members.get(name);
        return value == null ? "" : value.toString();
    }

    /** Returns a number, or 0 without one. */
    static long number(Map<String, Object> members, String name) {
        Object value = members.get(name);
        return value == null ? 0 : ((Number) value).longValue();
    }

    static boolean flag(Map<String, Object> members, String name) {
        return Boolean.TRUE.equals(members.get(name));
    }

    /** Returns a time, or null without one. */
    static Instant time(Map<String, Object> members, String name) {
        return members.get(name) == null ? null : Instant.parse(text(members, name));
    }

    /** Returns a duration such as 1m30s, or null without one. */
    static Duration duration(Map<String, Object> members, String name) {
        if (members.get(name) == null) {
            return null;
        }
        double seconds = 0;
        for (Matcher m = PART.matcher(text(members, name)); m.find();) {
            seconds += Double.parseDouble(m.group(1)) * UNITS.get(m.group(2));
        }
        return Duration.ofNanos(Math.round(seconds * 1e9));
    }

    /** Returns the elements of an array; none without one. */
    static <T> List<T> list(Map<String, Object> members, String name, Function<Object, T> element) {
        var all = new ArrayList<T>();
        for (Object value : members.get(name) == null ? List.of() : (List<?>) members.get(name)) {
            all.add(element.apply(value));
        }
        return all;
    }

    /** Returns an object; an empty one without one. */
    static Map<String, Object> object(Map<String, Object> members, String name) {
        Map<String, Object> value = object(members.get(name));
        return value == null ? Map.of() : value;
    }

    static Map<String, String> texts(Map<String, Object> members, String name) {
        var all = new LinkedHashMap<String, String>();
        object(members, name).forEach((key, value) -> all.put(key, String.valueOf(value)));
        return all;
    }

    static Map<String, Long> numbers(Map<String, Object> members, String name) {
        var all = new LinkedHashMap<String, Long>();
        object(members, name).forEach((key, value) -> all.put(key, ((Number) value).longValue()));
        return all;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return value instanceof Map ? (Map<String, Object>) value : null;
    }

    static BigDecimal seconds(Duration d) {
        return BigDecimal.valueOf(d.getSeconds()).add(BigDecimal.valueOf(d.getNano(), 9));
    }

    /** Returns a duration as text, where a number would be something else. */
    static String duration(Duration d) {
        return seconds(d).toPlainString() + "s";
    }

    /** Rounded up to milliseconds, since a job must never be early. */
    static String instant(Instant t) {
        return t.plusNanos(999_999).truncatedTo(ChronoUnit.MILLIS).toString();
    }

    /** The server accepts reasons of up to 512 bytes. */
    static String cut(String reason) {
        byte[] bytes = String.valueOf(reason).getBytes(StandardCharsets.UTF_8);
        String cut = new String(bytes, 0, Math.min(bytes.length, 512), StandardCharsets.UTF_8);
        return bytes.length > 512 ? cut.replaceFirst("\uFFFD+$", "") : cut;
    }
}

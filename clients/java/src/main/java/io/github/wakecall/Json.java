package io.github.wakecall;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads and writes JSON. Objects are Map&lt;String, Object&gt;, arrays List&lt;Object&gt;, numbers Long or BigDecimal.
 */
public final class Json {
    private Json() { }

    /** Returns the JSON of a Map, Collection, CharSequence, Number, Boolean, Duration (seconds), Instant or null. */
    public static String write(Object value) {
        var out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> e : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                quote(out, String.valueOf(e.getKey()));
                write(out.append(':'), e.getValue());
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String separator = "[";
            for (Object v : (Collection<?>) value) {
                write(out.append(separator), v);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof CharSequence) {
            quote(out, value.toString());
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Duration) {
            out.append(Fields.seconds((Duration) value).toPlainString());
        } else if (value instanceof Instant) {
            quote(out, Fields.instant((Instant) value));
        } else {
            throw new IllegalArgumentException("JSON has no value for a " + value.getClass().getName());
        }
    }

    private static void quote(StringBuilder out, String s) {
        out.append('"');
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Parses JSON, or throws an IllegalArgumentException. */
    public static Object parse(String json) {
        return new Parser(json, false).whole();
    }

    /** Parses an answer of the server. The bodies of its jobs become Undecoded. */
    static Object parseAnswer(String json) {
        return new Parser(json, true).whole();
    }

    /** JSON that is not decoded yet. */
    static final class Undecoded {
        final String text;

        private Undecoded(String text) {
            this.text = text;
        }
    }

    private static final class Parser {
        private static final Pattern SPACE = Pattern.compile("[ \\t\\r\\n]*");
        private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");
        private static final Pattern UNICODE = Pattern.compile("u([0-9a-fA-F]{4})");
        private static final String ESCAPED = "\"\\/bfnrt";
        private static final String MEANT = "\"\\/\b\f\n\r\t";
        private final String json;
        private final boolean answer; // of the server: the bodies of its jobs become Undecoded
        private int depth;
        private int at;

        private Parser(String json, boolean answer) {
            this.json = json;
            this.answer = answer;
        }

        private Object whole() {
            Object value = value();
            if (skip() != json.length()) {
                throw unexpected();
            }
            return value;
        }

        private int skip() {
            match(SPACE);
            return at;
        }

        private Matcher match(Pattern pattern) {
            Matcher m = pattern.matcher(json).region(at, json.length());
            if (!m.lookingAt()) {
                return null;
            }
            at = m.end();
            return m;
        }

        private boolean next(String token) {
            skip();
            if (!json.startsWith(token, at)) {
                return false;
            }
            at += token.length();
            return true;
        }

        private void require(String token) {
            if (!next(token)) {
                throw unexpected();
            }
        }

        private IllegalArgumentException unexpected() {
            return new IllegalArgumentException("not JSON at character " + at);
        }

        private Object value() {
            if (next("{")) {
                return members();
            }
            if (next("[")) {
                return elements();
            }
            if (next("null")) {
                return null;
            }
            if (next("true")) {
                return true;
            }
            if (next("false")) {
                return false;
            }
            return json.startsWith("\"", at) ? string() : number();
        }

        private Map<String, Object> members() {
            var members = new LinkedHashMap<String, Object>();
            depth++;
            for (boolean first = true; !next("}"); first = false) {
                if (!first) {
                    require(",");
                }
                String name = string();
                require(":");
                // Jobs, and schedules, are at depth 1 or 3; at 2 and 4 are headers, which may be named body.
                members.put(name, answer && depth % 2 == 1 && name.equals("body") ? undecoded() : value());
            }
            depth--;
            return members;
        }

        private List<Object> elements() {
            var elements = new ArrayList<>();
            depth++;
            for (boolean first = true; !next("]"); first = false) {
                if (!first) {
                    require(",");
                }
                elements.add(value());
            }
            depth--;
            return elements;
        }

        /** Returns the value up to the end of the object that it is in. */
        private Undecoded undecoded() {
            int start = at;
            for (int open = 0; at < json.length(); at++) {
                char c = json.charAt(at);
                if (open == 0 && (c == ',' || c == '}')) {
                    break;
                }
                open += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
                if (c == '"') {
                    for (at++; at < json.length() && json.charAt(at) != '"'; at++) {
                        at += json.charAt(at) == '\\' ? 1 : 0;
                    }
                }
            }
            return new Undecoded(json.substring(start, Math.min(at, json.length())));
        }

        private Number number() {
            Matcher m = match(NUMBER);
            if (m == null) {
                throw unexpected();
            }
            boolean small = m.group(2) == null && m.group(3) == null && m.group().length() <= 18;
            return small ? (Number) Long.valueOf(m.group()) : (Number) new BigDecimal(m.group());
        }

        private String string() {
            require("\"");
            var s = new StringBuilder();
            while (at < json.length() && json.charAt(at) >= ' ') {
                char c = json.charAt(at++);
                if (c == '"') {
                    return s.toString();
                }
                s.append(c == '\\' ? escaped() : c);
            }
            throw unexpected();
        }

        private char escaped() {
            int known = at < json.length() ? ESCAPED.indexOf(json.charAt(at)) : -1;
            if (known >= 0) {
                at++;
                return MEANT.charAt(known);
            }
            Matcher m = match(UNICODE);
            if (m == null) {
                throw unexpected();
            }
            return (char) Integer.parseInt(m.group(1), 16);
        }
    }
}

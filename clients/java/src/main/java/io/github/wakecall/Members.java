package io.github.wakecall;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a request says. Members that were not set are not sent.
 *
 * @param <T> the class itself
 */
abstract class Members<T extends Members<T>> {
    final Map<String, Object> members = new LinkedHashMap<>();
    String body; // JSON, or null

    /** Sets any member, by its name in the API. */
    @SuppressWarnings("unchecked")
    public T set(String member, Object value) {
        members.put(member, value);
        return (T) this;
    }

    /** Sets a body that is JSON, and is sent byte for byte. */
    @SuppressWarnings("unchecked")
    T withBody(String json) {
        Json.parse(json);
        body = json;
        return (T) this;
    }

    String encode() {
        String head = Json.write(members);
        if (body == null) {
            return head;
        }
        return head.substring(0, head.length() - 1) + (members.isEmpty() ? "" : ",") + "\"body\":" + body + "}";
    }
}

package io.github.wakecall;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.regex.Pattern;

/** The body of a job in an answer. */
final class Body {
    private static final Pattern JSON_TYPE =
        Pattern.compile("(application/json|[^;]*\\+json)?\\s*(;|$)", Pattern.CASE_INSENSITIVE);

    private final Map<String, Object> fields;
    private final Json.Undecoded json; // or null

    /** Takes the body out of the fields. */
    Body(Map<String, Object> fields) {
        this.fields = fields;
        json = (Json.Undecoded) fields.remove("body");
    }

    byte[] bytes() {
        String encoded = Fields.text(fields, "body_base64");
        if (!encoded.isEmpty()) {
            return Base64.getDecoder().decode(encoded);
        }
        return json == null ? null : json.text.getBytes(StandardCharsets.UTF_8);
    }

    Object decode() {
        String text = json == null ? null : json.text;
        if (text == null && fields.containsKey("body_base64") && isJson()) {
            text = new String(bytes(), StandardCharsets.UTF_8);
        }
        try {
            return text == null ? null : Json.parse(text);
        } catch (IllegalArgumentException | StackOverflowError e) {
            String job = Fields.text(fields, "topic") + "/" + Fields.text(fields, "id");
            throw new UnreadableException("the body of " + job + ": " + e, e);
        }
    }

    private boolean isJson() {
        return JSON_TYPE.matcher(Fields.text(fields, "content_type")).lookingAt();
    }
}

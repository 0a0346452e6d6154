package io.github.wakecall;

import io.github.wakecall.ApiException.Problem;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;

/** Sends requests, and repeats those that may be repeated. */
final class Transport {
    private final URI base;
    private final String token;
    private final HttpClient http;
    Duration timeout = Duration.ofSeconds(30);
    Duration retryFor = Duration.ofSeconds(10);

    Transport(String url, String token, HttpClient http) {
        base = URI.create(url.replaceAll("/+$", ""));
        if (!List.of("http", "https").contains(String.valueOf(base.getScheme())) || base.getHost() == null) {
            throw new IllegalArgumentException("server URL must be http://HOST:PORT or https://HOST");
        }
        this.token = token;
        this.http = http;
    }

    Request request(String method, String path) {
        return new Request(method, path);
    }

    static String escape(String s) {
        if (s.equals(".") || s.equals("..")) { // otherwise a proxy would resolve it as a relative path
            return s.replace(".", "%2E");
        }
        return URLEncoder.encode(s, StandardCharsets.UTF_8).replace("+", "%20");
    }

    final class Request {
        private final String method;
        private final String path;
        private final StringBuilder query = new StringBuilder();
        private final Map<String, String> headers = new LinkedHashMap<>();
        private String body;
        private boolean repeatable;
        private Duration patience = timeout;
        private Duration retries = retryFor;
        private String id = "";

        private Request(String method, String path) {
            this.method = method;
            this.path = path;
        }

        Request body(Object value) {
            body = Json.write(value);
            return this;
        }

        Request json(String text) {
            body = text;
            return this;
        }

        /** Sets an option, unless it is null or "". */
        Request query(String name, Object value) {
            if (value != null && !value.equals("")) {
                query.append(query.length() == 0 ? '?' : '&').append(name).append('=').append(escape(text(value)));
            }
            return this;
        }

        private String text(Object value) {
            String json = Json.write(value);
            return json.startsWith("\"") ? (String) Json.parse(json) : json;
        }

        Request header(String name, String value) {
            if (value != null && !value.isEmpty()) {
                headers.put(name, value);
            }
            return this;
        }

        /** A second request has no further effect. */
        Request repeatable(boolean yes) {
            repeatable = yes;
            return this;
        }

        /** The answer may take so much longer. */
        Request waits(Duration d) {
            patience = timeout.plus(d);
            return this;
        }

        Request retryFor(Duration d) {
            retries = d;
            return this;
        }

        /** Of the job that is pushed, for errors. */
        Request id(String id) {
            this.id = id;
            return this;
        }

        CompletableFuture<Void> send() {
            return send(fields -> null);
        }

        /** Sends the request. To cancel the future closes its connection, with Java 16 or later. */
        <T> CompletableFuture<T> send(Function<Map<String, Object>, T> decode) {
            var call = new Call<T>(this, decode);
            call.attempt();
            return call;
        }

        private HttpRequest build() {
            var builder = HttpRequest.newBuilder(URI.create(base + path + query)).timeout(patience)
                .header("Accept", "application/json, application/problem+json").header("User-Agent", "wakecall-java")
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
            if (body != null) {
                builder.header("Content-Type", "application/json");
            }
            if (token != null && !token.isEmpty()) {
                builder.header("Authorization", "Bearer " + token);
            }
            headers.forEach(builder::header);
            return builder.build();
        }

        private UnreachableException unreachable(Throwable cause) {
            boolean sent = !(cause instanceof ConnectException) && !(cause instanceof HttpConnectTimeoutException);
            String why = cause.getMessage() == null ? cause.toString() : cause.getMessage();
            why = cause instanceof TimeoutException ? "timed out" : why;
            return new UnreachableException("no answer from " + base.getAuthority() + ": " + why, sent, id, cause);
        }

        private Map<String, Object> answer(HttpResponse<byte[]> response) {
            String text = new String(response.body(), StandardCharsets.UTF_8);
            if (header(response, "Content-Type").startsWith("application/x-ndjson")) {
                text = text.substring(text.stripTrailing().lastIndexOf('\n') + 1); // has all that lines before have
            }
            int status = response.statusCode();
            Map<String, Object> value = null;
            try {
                value = text.isEmpty() ? new LinkedHashMap<>() : Fields.object(Json.parseAnswer(text));
            } catch (IllegalArgumentException e) {
                // of a proxy in between, most likely
            }
            if (value != null && status / 100 == 2) {
                if (!header(response, "ETag").isEmpty()) {
                    value.put("etag", header(response, "ETag"));
                }
                return value;
            }
            if (status / 100 == 3) {
                String to = header(response, "Location");
                value = Map.of("detail", "redirected to " + to + "; use the URL of the server itself");
            } else if (value == null) {
                String line = text.replaceAll("\\s+", " ");
                value = Map.of("detail", "unexpected answer: " + line.substring(0, Math.min(200, line.length())));
            }
            String after = header(response, "Retry-After");
            var retryAfter = Duration.ofSeconds(after.matches("[0-9]{1,9}") ? Long.parseLong(after) : 0);
            throw new Problem(status, value, header(response, "X-Request-Id"), retryAfter, id).exception();
        }

        private String header(HttpResponse<?> response, String name) {
            return response.headers().firstValue(name).orElse("");
        }
    }

    /** A request with its repetitions. */
    private final class Call<T> extends CompletableFuture<T> {
        private final Request request;
        private final HttpRequest built;
        private final Function<Map<String, Object>, T> decode;
        private final long deadline;
        private double pause = 0.05;
        private volatile CompletableFuture<?> exchange;

        private Call(Request request, Function<Map<String, Object>, T> decode) {
            this.request = request;
            this.decode = decode;
            built = request.build();
            deadline = System.nanoTime() + request.retries.toNanos();
        }

        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            boolean cancelled = super.cancel(mayInterruptIfRunning);
            if (exchange != null) {
                exchange.cancel(true);
            }
            return cancelled;
        }

        private void attempt() {
            if (isDone()) {
                return;
            }
            var sent = http.sendAsync(built, BodyHandlers.ofByteArray());
            exchange = sent;
            if (isDone()) {
                sent.cancel(true);
            }
            var answered = new CompletableFuture<HttpResponse<byte[]>>();
            sent.whenComplete((response, e) -> {
                if (e == null) {
                    answered.complete(response);
                } else {
                    answered.completeExceptionally(e);
                }
            });
            answered.orTimeout(request.patience.toMillis(), TimeUnit.MILLISECONDS).whenComplete(this::answered);
        }

        private void answered(HttpResponse<byte[]> response, Throwable e) {
            try {
                if (e == null) {
                    complete(decode.apply(request.answer(response)));
                } else {
                    failed(e);
                }
            } catch (RateLimitedException limited) { // nothing was done
                again(true, limited, limited.retryAfter);
            } catch (UnavailableException unavailable) {
                again(request.repeatable, unavailable, unavailable.retryAfter);
            } catch (RuntimeException other) {
                completeExceptionally(other);
            }
        }

        private void failed(Throwable e) {
            Throwable cause = e.getCause() == null || e instanceof IOException ? e : e.getCause();
            if (!(cause instanceof IOException) && !(cause instanceof TimeoutException)) {
                completeExceptionally(cause);
                return;
            }
            exchange.cancel(true);
            UnreachableException error = request.unreachable(cause);
            again(request.repeatable || !error.outcomeUnknown, error, Duration.ZERO);
        }

        private void again(boolean may, WakecallException error, Duration after) {
            double wait = Math.max(pause, after.toSeconds());
            if (!may || System.nanoTime() + (long) (wait * 1e9) > deadline) {
                completeExceptionally(error);
                return;
            }
            pause = Math.min(2 * pause, 1.6);
            long millis = (long) (wait * ThreadLocalRandom.current().nextDouble(1000, 1100));
            delayedExecutor(millis, TimeUnit.MILLISECONDS).execute(this::attempt);
        }
    }
}

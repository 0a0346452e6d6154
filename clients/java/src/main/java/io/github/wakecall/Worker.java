package io.github.wakecall;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** Works pull topics for {@link Wakecall#work}. */
final class Worker {
    private final Wakecall client;
    private final List<String> topics;
    private final Handler handler;
    private final BooleanSupplier stopped;
    private final WorkOptions options;

    Worker(Wakecall client, List<String> topics, Handler handler, BooleanSupplier stopped, WorkOptions options) {
        this.client = client;
        this.topics = topics;
        this.handler = handler;
        this.stopped = stopped;
        this.options = options;
    }

    void run() {
        double pause = 0;
        while (!stopped.getAsBoolean() && !Thread.currentThread().isInterrupted()) {
            long began = System.nanoTime();
            List<LeasedJob> jobs = List.of();
            boolean early = true;
            try {
                jobs = client.reserve(topics, 1, options.wait, options.ttr);
                // A server that is stopping lets no worker wait.
                early = jobs.isEmpty() && System.nanoTime() - began < 500_000_000L;
            } catch (WakecallException e) {
                if (!isTemporary(e)) {
                    throw e;
                }
                options.failed.accept(e);
            }
            for (LeasedJob job : jobs) {
                work(job, stopped.getAsBoolean() ? j -> { throw new Released(Duration.ZERO); } : handler);
            }
            pause = early ? Math.min(Math.max(2 * pause, 0.1), 5) : 0;
            sleep(pause * ThreadLocalRandom.current().nextDouble(0.5, 1));
        }
    }

    private void work(LeasedJob job, Handler handler) {
        var done = new CountDownLatch(1);
        var extending = new Thread(() -> extend(job, done), "wakecall-extend");
        extending.setDaemon(true);
        extending.start();
        Transport.Request end;
        boolean interrupted = false;
        try {
            Object result = handler.handle(job);
            end = end(job, "ack", result == null ? Map.of() : Map.of("result", result));
        } catch (Released e) {
            end = end(job, "release", Map.of("delay", e.delay));
        } catch (Buried e) {
            end = end(job, "bury", Map.of("reason", Fields.cut(e.getMessage())));
        } catch (UnreadableException e) {
            options.failed.accept(e);
            end = end(job, "release", Map.of("delay", 60));
        } catch (InterruptedException e) {
            interrupted = true; // only after the release: an interrupted thread sends nothing
            end = end(job, "release", Map.of());
        } catch (Exception e) {
            String reason = e.getMessage() == null ? e.toString() : e.getMessage();
            end = end(job, "fail", Map.of("reason", Fields.cut(reason)));
        } finally {
            done.countDown();
        }
        try {
            extending.join();
            Wakecall.await(end.retryFor(longer(job.ttr, Duration.ofSeconds(10))).send());
        } catch (WakecallException e) {
            options.failed.accept(e);
        } catch (InterruptedException e) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void extend(LeasedJob job, CountDownLatch done) {
        try {
            while (!done.await(job.ttr.toMillis() / 3, TimeUnit.MILLISECONDS)) {
                try {
                    Map<String, Object> ask = options.ttr == null ? Map.of() : Map.of("ttr", options.ttr);
                    Wakecall.await(end(job, "extend", ask).retryFor(Duration.ZERO).send());
                } catch (WakecallException e) {
                    options.failed.accept(e);
                    if (!isTemporary(e)) { // the lease is lost: another worker may have the job
                        return;
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Transport.Request end(LeasedJob job, String verb, Map<String, Object> ask) {
        return client.async().end(job.lease, verb, ask);
    }

    private static boolean isTemporary(WakecallException e) {
        int status = e instanceof ApiException ? ((ApiException) e).status : 0;
        return e instanceof UnreachableException || status >= 500 || status == 408 || status == 429;
    }

    private static Duration longer(Duration a, Duration b) {
        return a.compareTo(b) > 0 ? a : b;
    }

    private static void sleep(double seconds) {
        try {
            Thread.sleep((long) (seconds * 1000));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

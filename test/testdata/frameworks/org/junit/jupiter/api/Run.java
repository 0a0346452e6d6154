package org.junit.jupiter.api;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;

/** Runs the tests of a class as JUnit does: java org.junit.jupiter.api.Run CLASS. */
public final class Run {
    private Run() {}

    public static void main(String[] args) throws Exception {
        Class<?> tests = Class.forName(args[0]);
        int passed = 0;
        int failed = 0;
        for (Method test : tests.getDeclaredMethods()) {
            if (!test.isAnnotationPresent(Test.class)) {
                continue;
            }
            try {
                Constructor<?> make = tests.getDeclaredConstructor();
                make.setAccessible(true);
                Object one = make.newInstance();
                for (Method before : tests.getDeclaredMethods()) {
                    if (before.isAnnotationPresent(BeforeEach.class)) {
                        call(before, one);
                    }
                }
                call(test, one);
                passed++;
            } catch (ReflectiveOperationException e) {
                failed++;
                e.printStackTrace();
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void call(Method method, Object one) throws ReflectiveOperationException {
        method.setAccessible(true);
        method.invoke(one);
    }
}

package org.junit.jupiter.api;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** As JUnit's. */
@Retention(RetentionPolicy.RUNTIME)
public @interface BeforeEach {}

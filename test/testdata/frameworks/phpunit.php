<?php
// Runs the tests of a file as PHPUnit does, with the part of PHPUnit that docs/guides/testing.md uses.
//   php phpunit.php FILE

namespace PHPUnit\Framework {
    abstract class TestCase
    {
        protected function setUp(): void
        {
        }

        final public function runTest(string $method): void
        {
            $this->setUp();
            $this->$method();
        }

        protected function assertSame(mixed $expected, mixed $actual): void
        {
            if ($expected !== $actual) {
                throw new \Exception('expected ' . var_export($expected, true) . ', got ' . var_export($actual, true));
            }
        }
    }
}

namespace {
    error_reporting(E_ALL);
    set_error_handler(function (int $level, string $message): never {
        throw new ErrorException($message);
    });
    require $argv[1];
    $failed = 0;
    $passed = 0;
    foreach (get_declared_classes() as $class) {
        if (!is_subclass_of($class, PHPUnit\Framework\TestCase::class)) {
            continue;
        }
        foreach (preg_grep('/^test/', get_class_methods($class)) as $method) {
            try {
                (new $class())->runTest($method);
                $passed++;
            } catch (Throwable $e) {
                $failed++;
                echo "$method: {$e->getMessage()}\n";
            }
        }
    }
    echo "$passed passed, $failed failed\n";
    exit($failed === 0 ? 0 : 1);
}

// Package phpdq is what php-delayqueue and its endpoints agree on beside the wire: the fields that it adds to a job,
// how a job becomes a form or a query, and the retry mark, a condition on the answer that is compared as PHP 7
// compares.
package phpdq

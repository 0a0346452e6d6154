// Package phpdq implements what php-delayqueue and its endpoints agree on besides the wire: the fields added to a job,
// how a job becomes a form or a query, and the retry mark, a condition on the answer that compares values as PHP 7
// does.
package phpdq

// Package loginlimit slows down the guessing of passwords, for the admin and for gateways with a login.
package loginlimit

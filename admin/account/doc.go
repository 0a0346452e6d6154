// Package account keeps the users of the web admin, their second factors and their sessions in the registry's database.
//
// Passwords are stored as bcrypt hashes and second factors encrypted. Changes of users are in the audit trail of the
// registry; sign-ins and sessions are not.
package account

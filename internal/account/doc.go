// Package account stores the users of the web admin, their second factors and their sessions in the registry's
// database.
//
// Passwords are stored as bcrypt hashes, and second factors are encrypted. The registry's audit trail records changes
// to users, but not sign-ins or sessions.
package account

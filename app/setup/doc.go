// Package setup prepares an installation and checks it: the data directory, the registry's database, the shards, the
// first API token and admin user. `wakecall up` and the roles call Prepare before anything runs; `wakecall check`
// calls Check, which changes nothing.
package setup

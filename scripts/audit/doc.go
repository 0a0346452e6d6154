// Audit reports on a built binary: the licences of its modules, and its bill of materials (CycloneDX 1.6).
//
//	go run ./scripts/audit licences bin/wakecall     fails when a module's licence is not one of those allowed
//	go run ./scripts/audit sbom bin/wakecall v1.2.3  writes the bill of that version to stdout
//
// The modules are read from the binary itself, so modules that only go.mod or tests contain do not count.
package main

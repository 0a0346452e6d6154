// Package assistant serves the Model Context Protocol, so that people can ask an AI assistant "was order-42 called?".
//
// Its tools call the API with the user's token, so they can see and do no more than the token. All of them only read,
// unless changes are allowed. Results are short, because an assistant reads them whole. Texts of other systems (bodies,
// answers, titles) are cut, freed of invisible characters, and marked as data: they may be written to steer the model.
//
// assistant.go has the server and the limits of results, read.go, find.go and change.go the tools, lines.go the
// transport. This is the only package that imports the SDK of the protocol; cmd/wakecall runs it as `wakecall mcp`.
package assistant

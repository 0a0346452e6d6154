// Package web holds what the admin sends to browsers: templates, texts in every language, and assets with a hash of
// their content in the name. All of it is part of the binary. scripts/web makes dist from npm packages and from src;
// what it makes is committed.
package web

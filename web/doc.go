// Package web contains what the admin sends to browsers: templates, texts in every language, and assets with a hash of
// their content in their names. All of it is part of the binary. scripts/web builds dist from npm packages and from
// src; its output is committed.
package web

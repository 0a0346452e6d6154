package store

import (
	"context"
	"slices"
)

type viaKey struct{}

// Via returns a context with the protocol of a request, for the journal. The API's has no name.
func Via(ctx context.Context, protocol string) context.Context {
	return context.WithValue(ctx, viaKey{}, protocol)
}

// ViaOf returns the protocol of a request: "" for the API.
func ViaOf(ctx context.Context) string {
	name, _ := ctx.Value(viaKey{}).(string)
	return name
}

type byKey struct{}

// ByOf returns who requests a change of jobs; "" if the context does not say.
func ByOf(ctx context.Context) string {
	who, _ := ctx.Value(byKey{}).(string)
	return who
}

// By returns a context with who requests a change of jobs, for the journal: user/NAME or token:NAME.
func By(ctx context.Context, who string) context.Context { return context.WithValue(ctx, byKey{}, who) }

// WithVia sets the protocol of ctx in pushes.
func WithVia(ctx context.Context, pushes []Push) []Push {
	via := ViaOf(ctx)
	if via == "" {
		return pushes
	}
	pushes = slices.Clone(pushes)
	for i := range pushes {
		pushes[i].Via = via
	}
	return pushes
}

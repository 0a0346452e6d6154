package queue

import (
	"context"
	"slices"
)

type viaKey struct{}

// Via names, for the journal, the protocol in which a request came. The API's has no name.
func Via(ctx context.Context, protocol string) context.Context {
	return context.WithValue(ctx, viaKey{}, protocol)
}

func viaOf(ctx context.Context) string {
	name, _ := ctx.Value(viaKey{}).(string)
	return name
}

// WithVia names in pushes the protocol that ctx has.
func WithVia(ctx context.Context, pushes []Push) []Push {
	via := viaOf(ctx)
	if via == "" {
		return pushes
	}
	pushes = slices.Clone(pushes)
	for i := range pushes {
		pushes[i].Via = via
	}
	return pushes
}

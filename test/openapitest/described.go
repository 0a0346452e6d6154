package openapitest

import (
	"encoding/json"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// AllDescribed refuses fields of an answer that its schema does not have. The schemas of answers are open, so that
// clients accept fields of newer servers; but this server's must be described.
func AllDescribed(schema *openapi3.SchemaRef, answer []byte) error {
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return err
	}
	return describes([]*openapi3.SchemaRef{schema}, value)
}

// describes checks a value against all schemas that may describe a part of it.
func describes(schemas []*openapi3.SchemaRef, value any) error {
	if schemas = parts(schemas); len(schemas) == 0 {
		return nil // of a value that may be anything
	}
	switch v := value.(type) {
	case []any:
		var items []*openapi3.SchemaRef
		for _, s := range schemas {
			if s.Value.Items != nil {
				items = append(items, s.Value.Items)
			}
		}
		for _, item := range v {
			if err := describes(items, item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			of, free := members(schemas, name)
			if len(of) == 0 && !free {
				return fmt.Errorf("the field %s is not described", name)
			}
			if err := describes(of, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// parts returns the schemas and all those that they are composed of.
func parts(schemas []*openapi3.SchemaRef) (all []*openapi3.SchemaRef) {
	for _, s := range schemas {
		all = append(all, s)
		for _, of := range []openapi3.SchemaRefs{s.Value.AllOf, s.Value.OneOf, s.Value.AnyOf} {
			all = append(all, parts(of)...)
		}
	}
	return all
}

// members returns the schemas of a member; free reports that the objects may have any member.
func members(schemas []*openapi3.SchemaRef, name string) (of []*openapi3.SchemaRef, free bool) {
	for _, s := range schemas {
		switch more := s.Value.AdditionalProperties.Schema; {
		case s.Value.Properties[name] != nil:
			of = append(of, s.Value.Properties[name])
		case more != nil:
			of = append(of, more)
		case len(s.Value.Properties) == 0 && len(parts([]*openapi3.SchemaRef{s})) == 1: // any object
			free = true
		}
	}
	return of, free
}

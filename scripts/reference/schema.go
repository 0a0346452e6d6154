package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/conf"
)

const valuesSchema = "deploy/helm/wakecall/values.schema.json"

type object = map[string]any

// schemaOf returns the schema of the Helm chart's values with the keys of its value config, so that a mistyped key is
// refused before any pod starts. The rest of the file is written by hand.
func schemaOf(root string, keys []conf.Key) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, valuesSchema))
	if err != nil {
		return "", err
	}
	var schema object
	if err := json.Unmarshal(text, &schema); err != nil {
		return "", fmt.Errorf("%s: %w", valuesSchema, err)
	}
	config := section()
	for _, k := range keys {
		at, path := config, strings.Split(k.Path, ".")
		for _, name := range path[:len(path)-1] {
			in := at["properties"].(object)
			if in[name] == nil {
				in[name] = section()
			}
			at = in[name].(object)
		}
		at["properties"].(object)[path[len(path)-1]] = valueOf(k)
	}
	schema["properties"].(object)["config"] = config
	text, err = json.MarshalIndent(schema, "", "  ")
	return string(text) + "\n", err
}

func section() object {
	return object{"type": "object", "additionalProperties": false, "properties": object{}}
}

// valueOf returns the schema of a key's value. What it may say is checked when Wakecall starts.
func valueOf(k conf.Key) object {
	scalar := object{"type": []string{"string", "number", "boolean"}, "description": k.Summary()}
	if k.List() {
		scalar["type"] = []string{"string", "number", "boolean", "array"}
		scalar["items"] = object{"type": "string"}
	}
	return scalar
}

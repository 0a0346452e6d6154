package database

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"gorm.io/gorm/schema"
)

// A field of bytes, such as a json.RawMessage, with the tag gorm:"serializer:text" is stored in a text column.
func init() { schema.RegisterSerializer("text", textSerializer{}) }

type textSerializer struct{}

// Scan implements schema.SerializerInterface.
func (textSerializer) Scan(ctx context.Context, field *schema.Field, row reflect.Value, stored any) error {
	switch text := stored.(type) {
	case string:
		field.ReflectValueOf(ctx, row).SetBytes([]byte(text))
	case []byte:
		field.ReflectValueOf(ctx, row).SetBytes(bytes.Clone(text))
	default:
		return fmt.Errorf("column %s has %T instead of text", field.DBName, stored)
	}
	return nil
}

// Value implements schema.SerializerValuerInterface.
func (textSerializer) Value(_ context.Context, _ *schema.Field, _ reflect.Value, v any) (any, error) {
	return string(reflect.ValueOf(v).Bytes()), nil
}

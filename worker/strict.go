package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// decodeObject reads one JSON object with no more than the fields of v, each in the case
// that docs/workers.md gives and no more than once: two programs that read it differently,
// such as a proxy that checks it and the pool, would not see the same message.
func decodeObject(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return invalidRequestf("the body is empty: send one JSON object, as docs/workers.md describes")
	}
	if err == nil { // so it is JSON, and not too deep
		err = checkFields(json.NewDecoder(bytes.NewReader(body)), reflect.TypeOf(v).Elem())
	}
	if err != nil {
		return invalidRequestf("the body is not the JSON object that this path takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalidRequestf("there is something after the JSON object in the body: send one object per request")
	}
	return nil
}

// rawMessage is of what is not read here.
var rawMessage = reflect.TypeFor[json.RawMessage]()

// checkFields reads a value that was decoded as a t, and checks the names of its fields.
func checkFields(d *json.Decoder, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		return checkFields(d, t.Elem())
	}
	if t == rawMessage {
		var raw json.RawMessage
		return d.Decode(&raw)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return checkMembers(d, t)
	case json.Delim('['):
		for d.More() {
			if err := checkFields(d, t.Elem()); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// checkMembers checks the rest of an object.
func checkMembers(d *json.Decoder, t reflect.Type) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] {
			return fmt.Errorf("the field %q is there twice", name)
		}
		seen[name] = true
		member, known := memberType(t, name)
		if !known {
			return fmt.Errorf("unknown field %q", name)
		}
		if err := checkFields(d, member); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// memberType returns the type of a member of an object that was decoded as a t.
func memberType(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

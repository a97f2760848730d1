// Package shown gives callers errors of inner packages as types of the API.
package shown

import (
	"path"
	"reflect"
)

// root is the package of the module whose types callers know.
var root = path.Dir(path.Dir(reflect.TypeFor[mark]().PkgPath()))

type mark struct{}

// As sets target, which errors.As has been given, to err, if it points to a pointer to a type of the root package whose fields are those of
// the struct that err points to. It reports whether it did. An inner package cannot name a type of package pawl, which imports it; so a
// method As of its error calls this.
func As(err error, target any) bool {
	at := reflect.ValueOf(target)
	if at.Kind() != reflect.Pointer || at.IsNil() {
		return false
	}
	to, from := at.Elem().Type(), reflect.ValueOf(err)
	if to.Kind() != reflect.Pointer || to.Elem().PkgPath() != root || from.Kind() != reflect.Pointer || !from.CanConvert(to) {
		return false
	}
	at.Elem().Set(from.Convert(to))
	return true
}

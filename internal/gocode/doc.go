// Package gocode writes Go for a definition: a package with the names and types of a definition, which lets a program that
// starts its runs be compiled against it, and the calls of package build that make the definition.
//
// The same definition gives the same bytes, and gofmt has nothing to change in them. Names of a definition may be any
// text: each becomes an identifier that no other name of the file has.
package gocode

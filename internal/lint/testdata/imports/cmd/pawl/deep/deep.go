// Package deep has no place either.
package deep

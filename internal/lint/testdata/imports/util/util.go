// Package util has no place.
package util

// Package merge has a name that package timeout has as well.
package merge

func settle() { mergeValues() }

func mergeValues() { fold() }

func fold() { settle() }

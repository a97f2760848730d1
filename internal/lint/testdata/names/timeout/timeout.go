// Package timeout has a name that package merge has as well; two words may meet.
package timeout

type clock struct{}

func (clock) settle() { mergeValues() }

func mergeValues() { clock{}.settle() }

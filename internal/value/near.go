package value

// NearlyEqual reports whether a and b differ by one character, left out, put in or
// changed, or by the order of two.
func NearlyEqual(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	a, b = a[n:], b[n:]
	switch len(a) - len(b) {
	case 0:
		swapped := len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
		return len(a) > 0 && a[1:] == b[1:] || swapped
	case 1:
		return a[1:] == b
	case -1:
		return b[1:] == a
	}
	return false
}

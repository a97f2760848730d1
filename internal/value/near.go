package value

// NearlyEqual reports whether a and b differ by one character, left out, put in or
// changed, or by the order of two.
//
// It is for proposals: "did you mean". It compares bytes, which is enough for names in ASCII,
// and one pass over the common start leaves only the few cases below.
func NearlyEqual(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	a, b = a[n:], b[n:]
	// The rests begin with the difference. With equal lengths one character was changed, or
	// two were swapped; with lengths that differ by one, one was put in or left out.
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

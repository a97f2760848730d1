package value

import (
	"math/bits"
	"unicode/utf8"
)

// The bytes of a text that is eight of them at a time: ones is 1 in each, highs the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = ones * utf8.RuneSelf
)

// plainPrefix returns how many bytes at the start of s need no escape in JSON, and whether they are all ASCII.
//
// It looks at eight bytes at a time (SWAR: Mycroft's test for a zero byte): a large text would otherwise cost more to be
// counted and written than to be hashed. A byte is special if it is below the blank, a quote or a backslash; what
// a borrow makes of the bytes behind the first special one does not matter, since nobody looks at them.
func plainPrefix(s string) (n int, ascii bool) {
	var seen uint64
	for len(s)-n >= 8 {
		w := word(s[n : n+8])
		if special := ((w - ones*' ') | zeroAt(w^ones*'"') | zeroAt(w^ones*'\\')) &^ w & highs; special != 0 {
			bit := bits.TrailingZeros64(special) &^ 7 // the first of the byte
			seen |= w & (1<<bit - 1)
			return n + bit/8, seen&highs == 0
		}
		seen |= w
		n += 8
	}
	var rest byte
	for ; n < len(s); n++ {
		c := s[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		rest |= c
	}
	return n, seen&highs == 0 && rest < utf8.RuneSelf
}

// zeroAt returns the highest bit of each byte of w that is zero; bits of bytes behind the first one may be wrong, and so may be those
// of bytes that have it already.
func zeroAt(w uint64) uint64 { return w - ones }

// word returns eight bytes as one number, the first one lowest.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

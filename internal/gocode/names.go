package gocode

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// initialisms are words that Go writes in capitals.
var initialisms = []string{"API", "CPU", "CSS", "DNS", "EOF", "GUID", "HTML", "HTTP", "HTTPS", "ID", "IP", "JSON", "RPC", "SQL", "SSH", "TCP", "TLS", "TTL", "UDP", "UI", "UID", "URI", "URL", "UTF8", "UUID", "VM", "XML"}

// Identifier returns an exported identifier for a name of any kind: order_id and orderId are both OrderID.
func Identifier(name string) string {
	var b strings.Builder
	for _, word := range wordsOf(name) {
		if upper := strings.ToUpper(word); slices.Contains(initialisms, upper) {
			b.WriteString(upper)
			continue
		}
		runes := []rune(word)
		b.WriteString(string(unicode.ToUpper(runes[0])) + string(runes[1:]))
	}
	out := b.String()
	if out == "" || !unicode.IsUpper([]rune(out)[0]) { // a digit, or a letter of a script without capitals
		return "X" + out
	}
	return out
}

// wordsOf returns the words of a name: what is no letter or digit parts them, and a capital behind a small letter begins one.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
		}
		word = nil
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// A scope gives names that no other has.
type scope map[string]bool

// takeName returns a name, with a number behind it if it is taken.
func (s scope) takeName(name string) string {
	free := name
	for i := 2; s[free]; i++ {
		free = name + strconv.Itoa(i)
	}
	s[free] = true
	return free
}

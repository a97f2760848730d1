package image

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/pace"
)

// ErrMalformed says that bytes are not a database, or one that is damaged.
var ErrMalformed = errors.New("the database is malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Serial types of columns. See section 2.1 of "Database File Format".
const (
	serialNull  = 0
	serialInt64 = 6
	serialZero  = 8
	serialOne   = 9
	serialBlob  = 12 // with its length twice
	serialText  = 13 // likewise
)

// intBytes has the number of bytes of an integer by its serial type.
var intBytes = [...]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, serialInt64: 8}

// appendVarint appends an integer of SQLite's variable length: seven bits a byte, the
// highest first, and eight in the ninth.
func appendVarint(dst []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(dst, byte(v))
	case v < 1<<14:
		return append(dst, byte(v>>7)|0x80, byte(v)&0x7f)
	case v >= 1<<56:
		for shift := 57; shift >= 8; shift -= 7 {
			dst = append(dst, byte(v>>shift)|0x80)
		}
		return append(dst, byte(v))
	}
	n := varintLen(v)
	for i := n - 1; i > 0; i-- {
		dst = append(dst, byte(v>>(7*i))|0x80)
	}
	return append(dst, byte(v)&0x7f)
}

func varintLen(v uint64) int {
	n := 1
	for n < 9 && v >= 1<<(7*n) {
		n++
	}
	return n
}

// readVarint returns an integer and how many bytes it takes; 0 if it is cut short.
func readVarint(b []byte) (v uint64, n int) {
	for n < len(b) {
		c := b[n]
		n++
		if n == 9 {
			return v<<8 | uint64(c), n
		}
		v = v<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return v, n
		}
	}
	return 0, 0
}

// serialOf returns the serial type of a value.
func serialOf(v *Value) uint64 {
	switch v.kind {
	case isInt:
		return serialOfInt(v.n)
	case isText:
		return uint64(len(v.text))*2 + serialText
	case isBlob:
		return uint64(len(v.text))*2 + serialBlob
	case isNull:
	}
	return serialNull
}

func serialOfInt(v int64) uint64 {
	switch magnitude := v ^ v>>63; { // of a negative one -v-1, which takes as many bits beside the sign
	case v == 0:
		return serialZero
	case v == 1:
		return serialOne
	case magnitude < 1<<7:
		return 1
	case magnitude < 1<<15:
		return 2
	case magnitude < 1<<23:
		return 3
	case magnitude < 1<<31:
		return 4
	case magnitude < 1<<47:
		return 5
	}
	return serialInt64
}

// largeText is the size in bytes from which on a text is copied in pieces.
const largeText = 64 << 10

// AppendRecord appends the record of a row. Where the first column is the rowid, it is NULL here.
func AppendRecord(dst []byte, columns []Value) []byte {
	start := len(dst)
	dst = append(dst, 0) // the size of the header
	for i := range columns {
		dst = appendVarint(dst, serialOf(&columns[i]))
	}
	switch head := len(dst) - start; {
	case head < 1<<7:
		dst[start] = byte(head)
	default: // it takes two bytes: there are not as many columns as would need more
		dst = append(dst, 0)
		copy(dst[start+2:], dst[start+1:])
		appendVarint(dst[:start], uint64(head+1))
	}
	for i := range columns {
		v := &columns[i]
		switch {
		case len(v.text) > largeText:
			dst = pace.Append(dst, v.bytes()...)
		case v.kind != isInt:
			dst = append(dst, v.text...)
		default:
			dst = appendInt(dst, v.n)
		}
	}
	return dst
}

// appendInt appends an integer that its serial type does not say, in as many bytes as that has.
func appendInt(dst []byte, n int64) []byte {
	if serial := serialOfInt(n); serial < serialZero {
		for shift := 8 * (intBytes[serial] - 1); shift >= 0; shift -= 8 {
			dst = append(dst, byte(n>>shift))
		}
	}
	return dst
}

// DecodeRecord appends the columns of a record to dst: nil, int64, string or []byte, which
// are copies.
func DecodeRecord(dst []driver.Value, record []byte) ([]driver.Value, error) {
	err := eachColumn(record, func(v Value) bool {
		dst = append(dst, v.copyOut())
		return true
	})
	return dst, err
}

// DecodeKey appends the first n columns of a record to dst. Their texts are part of the record, which may be cut
// short behind them.
func DecodeKey(dst []Value, record []byte, n int) ([]Value, error) {
	if n == 0 {
		return dst, nil
	}
	end := len(dst) + n
	err := eachColumn(record, func(v Value) bool {
		dst = append(dst, v)
		return len(dst) < end
	})
	return dst, err
}

// eachColumn calls column with the columns of a record until it says false.
func eachColumn(record []byte, column func(Value) bool) error {
	head, at := readVarint(record)
	if at == 0 || head > uint64(len(record)) || head < uint64(at) {
		return malformed("a record without a header")
	}
	types, body := record[at:head], record[head:]
	for len(types) > 0 {
		serial, used := readVarint(types)
		if used == 0 {
			return malformed("a record with half a header")
		}
		types = types[used:]
		v, size, err := columnAt(body, serial)
		if err != nil {
			return err
		}
		if body = body[size:]; !column(v) {
			break
		}
	}
	return nil
}

// columnAt returns the value at the start of b, as part of b, and its size.
func columnAt(b []byte, serial uint64) (v Value, size int, err error) {
	switch {
	case serial == serialNull:
		return Value{}, 0, nil
	case serial == serialZero, serial == serialOne:
		return Int(int64(serial - serialZero)), 0, nil
	case serial <= serialInt64:
		size = intBytes[serial]
		if size > len(b) {
			return Value{}, 0, malformed("a record that is cut short")
		}
		n := int64(int8(b[0]))
		for _, c := range b[1:size] {
			n = n<<8 | int64(c)
		}
		return Int(n), size, nil
	case serial < serialBlob:
		return Value{}, 0, malformed("a column of type %d", serial)
	case (serial-serialBlob)/2 > uint64(len(b)):
		return Value{}, 0, malformed("a record that is cut short")
	}
	size = int(serial-serialBlob) / 2
	v = Blob(b[:size])
	if serial%2 == serialText%2 {
		v.kind = isText
	}
	return v, size, nil
}

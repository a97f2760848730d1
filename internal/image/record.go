package image

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
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
func serialOf(v driver.Value) uint64 {
	switch v := v.(type) {
	case nil:
		return serialNull
	case int64:
		return serialOfInt(v)
	case string:
		return uint64(len(v))*2 + serialText
	case []byte:
		return uint64(len(v))*2 + serialBlob
	}
	panic(fmt.Sprintf("image: a %T in a row", v))
}

func serialOfInt(v int64) uint64 {
	switch v {
	case 0:
		return serialZero
	case 1:
		return serialOne
	}
	for serial := uint64(1); serial < serialInt64; serial++ {
		if bits := 8*intBytes[serial] - 1; v>>bits == 0 || v>>bits == -1 {
			return serial
		}
	}
	return serialInt64
}

// AppendRecord appends the record of a row: its columns, each nil, an int64, a string or
// a []byte. Where the first column is the rowid, it is nil here.
func AppendRecord(dst []byte, columns []driver.Value) []byte {
	size := 0
	for _, v := range columns {
		size += varintLen(serialOf(v))
	}
	head := size + 1
	if head > 127 {
		head = size + 2
	}
	dst = appendVarint(dst, uint64(head))
	for _, v := range columns {
		dst = appendVarint(dst, serialOf(v))
	}
	for _, v := range columns {
		switch v := v.(type) {
		case int64:
			if serial := serialOfInt(v); serial < serialZero {
				n := intBytes[serial]
				var b [8]byte
				binary.BigEndian.PutUint64(b[:], uint64(v))
				dst = append(dst, b[8-n:]...)
			}
		case string:
			dst = append(dst, v...)
		case []byte:
			dst = append(dst, v...)
		}
	}
	return dst
}

// DecodeRecord appends the columns of a record to dst: nil, int64, string or []byte, which
// are copies.
func DecodeRecord(dst []driver.Value, record []byte) ([]driver.Value, error) {
	return decodeColumns(dst, record, len(record))
}

// DecodeKey appends the first n columns of a record to dst, as DecodeRecord does.
func DecodeKey(dst []driver.Value, record []byte, n int) ([]driver.Value, error) {
	return decodeColumns(dst, record, n)
}

// decodeColumns appends the first n columns of a record, which may be cut short behind
// them.
func decodeColumns(dst []driver.Value, record []byte, n int) ([]driver.Value, error) {
	head, at := readVarint(record)
	if at == 0 || head > uint64(len(record)) || head < uint64(at) {
		return dst, malformed("a record without a header")
	}
	types, body := record[at:head], record[head:]
	for ; len(types) > 0 && n > 0; n-- {
		serial, used := readVarint(types)
		if used == 0 {
			return dst, malformed("a record with half a header")
		}
		types = types[used:]
		v, size, err := columnAt(body, serial)
		if err != nil {
			return dst, err
		}
		dst, body = append(dst, v), body[size:]
	}
	return dst, nil
}

// columnAt returns the value at the start of b, and its size.
func columnAt(b []byte, serial uint64) (v driver.Value, size int, err error) {
	switch {
	case serial == serialNull:
		return nil, 0, nil
	case serial == serialZero, serial == serialOne:
		return int64(serial - serialZero), 0, nil
	case serial <= serialInt64:
		size = intBytes[serial]
		if size > len(b) {
			return nil, 0, malformed("a record that is cut short")
		}
		n := int64(int8(b[0]))
		for _, c := range b[1:size] {
			n = n<<8 | int64(c)
		}
		return n, size, nil
	case serial < serialBlob:
		return nil, 0, malformed("a column of type %d", serial)
	case (serial-serialBlob)/2 > uint64(len(b)):
		return nil, 0, malformed("a record that is cut short")
	}
	size = int(serial-serialBlob) / 2
	if serial%2 == serialText%2 {
		return string(b[:size]), size, nil
	}
	return append([]byte{}, b[:size]...), size, nil
}

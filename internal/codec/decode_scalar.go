package codec

import (
	"reflect"
	"strconv"
)

// readInt reads an integer that fits into typ: 300 is no int8.
func (d *decoder) readInt(typ reflect.Type) (int64, *Error) {
	literal, err := d.readInteger()
	if err != nil {
		return 0, err
	}
	n, cause := strconv.ParseInt(string(literal), 10, typ.Bits())
	if cause != nil {
		return 0, d.newError("the number is out of range")
	}
	return n, nil
}

// readUint reads an integer without a sign that fits into typ.
func (d *decoder) readUint(typ reflect.Type) (uint64, *Error) {
	literal, err := d.readInteger()
	if err != nil {
		return 0, err
	}
	n, cause := strconv.ParseUint(string(literal), 10, typ.Bits())
	if cause != nil {
		return 0, d.newError("the number is out of range")
	}
	return n, nil
}

// readInteger reads a number without a fraction and an exponent.
func (d *decoder) readInteger() ([]byte, *Error) {
	literal, integer, cause := d.scan.Literal()
	if cause == nil && !integer {
		return nil, d.newError("%.40s is not an integer", literal)
	}
	return literal, fromScanner(cause)
}

// readFloat reads any number; unlike values of the engine, fields may hold any double.
func (d *decoder) readFloat() (float64, *Error) {
	literal, _, cause := d.scan.Literal()
	if cause != nil {
		return 0, fromScanner(cause)
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return 0, d.newError("the number %.40s is out of range", literal)
	}
	return f, nil
}

// readBool reads true or false.
func (d *decoder) readBool() (bool, *Error) {
	word, cause := d.scan.Bool()
	return word, fromScanner(cause)
}

// readText reads a string.
func (d *decoder) readText() (string, *Error) {
	text, cause := d.scan.Text()
	return text, fromScanner(cause)
}

// isHash reports whether a text is a SHA-256 as Values.Add writes it, in lower case.
func isHash(text []byte) bool {
	if len(text) != hashLen {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/internal/value"
)

// ReadYAML reads a text of exactly one document of YAML 1.2. The error is a
// *SyntaxError.
func (r Reader) ReadYAML(data []byte) (*Element, error) {
	if err := r.refuseDirectives(data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	first, err := nextDocument(decoder, data)
	if errors.Is(err, io.EOF) {
		return nil, &SyntaxError{Line: 1, Column: 1, Message: "the text is empty"}
	}
	if err != nil {
		return nil, err
	}
	switch second, err := nextDocument(decoder, data); {
	case err == nil:
		return nil, &SyntaxError{Line: second.Line, Column: second.Column, Message: "a second document: a " + r.Noun + " is one"}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	s := yamlReader{cursor: cursor{Reader: r}}
	return s.readElement(first.Content[0])
}

// ReadYAMLStream reads a text of any number of documents of YAML 1.2. The error
// is a *SyntaxError.
func (r Reader) ReadYAMLStream(data []byte) ([]*Element, error) {
	if err := r.refuseDirectives(data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var out []*Element
	for {
		document, err := nextDocument(decoder, data)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		s := yamlReader{cursor: cursor{Reader: r}} // each document has the bounds of one
		e, err := s.readElement(document.Content[0])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
}

// lineBreaks are what ends a line in YAML 1.1, which the library reads.
var lineBreaks = []string{"\n", "\r", "\u0085", "\u2028", "\u2029"}

// refuseDirectives refuses a text with a line that begins with %, before the library reads
// it: %TAG gives a short name to a long tag, which is written out for every node that
// has it. UTF-16, in which such a line has other bytes, is refused as well.
func (r Reader) refuseDirectives(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return &SyntaxError{Line: 1, Column: 1, Message: "the text is UTF-16: write it in UTF-8"}
	}
	for at := 0; ; at++ {
		next := bytes.IndexByte(data[at:], '%')
		if next < 0 {
			return nil
		}
		at += next
		before := bytes.TrimSuffix(data[:at], []byte("\ufeff"))
		if len(before) == 0 || slices.ContainsFunc(lineBreaks, func(end string) bool { return bytes.HasSuffix(before, []byte(end)) }) {
			line := 1 + bytes.Count(before, []byte("\n"))
			return &SyntaxError{Line: line, Column: 1, Message: "a directive: a " + r.Noun + " has none; indent a text that begins with %"}
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// nextDocument returns the next document, or io.EOF, or an error with the line
// that the library has put into the message of its own.
func nextDocument(decoder *yaml.Decoder, data []byte) (*yaml.Node, error) {
	var document yaml.Node
	err := decoder.Decode(&document)
	if err == nil || errors.Is(err, io.EOF) {
		return &document, err
	}
	e := &SyntaxError{Line: 1, Message: err.Error(), Err: err}
	if m := yamlLine.FindStringSubmatch(e.Message); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Message = e.Message[len(m[0]):]
		if e.Line > 0 && strings.HasPrefix(e.Message, "did not find expected ") { // the parser's lines count from 0
			e.Line = min(e.Line+1, 1+bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")))
		}
		e.Line = max(e.Line, 1)
	}
	if strings.Contains(e.Message, "expected ',' or ") {
		explainQuestion(e, data)
	}
	if strings.Contains(e.Message, "cannot start any token") || strings.Contains(e.Message, "tab character") {
		explainTab(e, data)
	}
	return nil, e
}

// questioned is a plain text with a question mark within {} or [], where YAML 1.1, which the library reads, takes that for
// the beginning of a key.
var questioned = regexp.MustCompile(`[\[{].*?(?:[\[{,]|:\s)\s*([^\s'"\[\]{},:?][^'"\[\]{},:]*\?[^'"\[\]{},]*)`)

// questionedFirst is one right behind the { or [.
var questionedFirst = regexp.MustCompile(`[\[{]\s*([^\s'"\[\]{},:?][^'"\[\]{},:]*\?[^'"\[\]{},]*)`)

// explainQuestion says that a text needs quotes, where the line that cannot be read has one with a question mark.
func explainQuestion(e *SyntaxError, data []byte) {
	lines := bytes.Split(data, []byte("\n"))
	if e.Line > len(lines) {
		return
	}
	line := lines[e.Line-1]
	for _, r := range []*regexp.Regexp{questionedFirst, questioned} {
		if m := r.FindSubmatchIndex(line); m != nil {
			text := string(bytes.TrimSpace(line[m[2]:m[3]]))
			e.Column = 1 + utf8.RuneCount(line[:m[2]])
			e.Message = fmt.Sprintf("a text with a question mark needs quotes within {} and []: %q", value.Shorten(text, maxTag))
			return
		}
	}
}

// explainTab says that a line that cannot be read, or the one after it, is indented
// with a tab.
func explainTab(e *SyntaxError, data []byte) {
	lines := bytes.Split(data, []byte("\n"))
	for n := e.Line; n <= min(e.Line+1, len(lines)); n++ {
		line := lines[n-1]
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
			e.Line, e.Column = n, tab+1
			e.Message = "a tab in the indentation: YAML indents with spaces"
			return
		}
	}
}

// A yamlReader turns the nodes of the library into elements. It writes aliases
// out, within a bound.
type yamlReader struct {
	cursor
	aliases int // that the node in hand is in
	copied  int // units made by aliases
}

// The bounds of what aliases stand for: each element counts copyUnits and its
// text.
const (
	copyUnits = 32
	maxCopied = 8 << 20
)

func (r *yamlReader) readElement(n *yaml.Node) (*Element, error) {
	e := &Element{Line: n.Line, Column: n.Column}
	r.line, r.column = n.Line, n.Column
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		r.aliases++
		defer func() { r.aliases-- }()
	}
	if r.aliases > 0 {
		r.copied += copyUnits + len(n.Value)
	}
	if r.copied > maxCopied {
		return nil, r.tooLarge("aliases stand for too much")
	}
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return e, r.readContainer(e, n)
	case yaml.ScalarNode:
		setScalar(e, n)
	default:
		e.Kind, e.Text = Invalid, "something that is no value"
	}
	return e, nil
}

// setScalar makes e what a scalar is in the core schema of YAML 1.2. Numbers keep
// their text: those that JSON does not write are refused where they are used.
func setScalar(e *Element, n *yaml.Node) {
	e.Text = n.Value
	e.Plain = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	switch tag := n.ShortTag(); tag {
	case "!!null":
		e.Kind, e.Text = Null, ""
	case "!!bool":
		e.Kind, e.Text = Bool, strings.ToLower(n.Value)
	case "!!int", "!!float":
		e.Kind = Number
	case "!!str", "!!timestamp":
		e.Kind = String
		if e.Plain && isNumberOfJSON(e.Text) {
			e.Kind = Number
		}
	case "!!merge":
		e.Kind, e.Text = Invalid, "a merge key of YAML 1.1"
	default:
		e.Kind, e.Text = Invalid, describeTag(tag)
	}
}

// isNumberOfJSON reports whether a plain scalar, which the library takes for a text, is a number that no double holds:
// 1e400 must not become a text unnoticed.
func isNumberOfJSON(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || '9' < text[0]) {
		return false
	}
	_, err := value.Decode([]byte(text), value.Limits{})
	var bad *value.Error
	return errors.As(err, &bad) && bad.Code == value.CodeNumber
}

// maxTag bounds, in bytes, what is told of a tag: each alias of a value has its own text.
const maxTag = 64

func describeTag(tag string) string { return "a value with the tag " + value.Shorten(tag, maxTag) }

func (r *yamlReader) readContainer(e *Element, n *yaml.Node) error {
	if err := r.enterContainer(); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	switch tag := n.ShortTag(); {
	case tag != "!!map" && tag != "!!seq":
		e.Kind, e.Text = Invalid, describeTag(tag)
		return nil
	case n.Kind == yaml.SequenceNode:
		e.Kind = List
		return r.readItems(e, n.Content)
	}
	e.Kind = Object
	return r.readMembers(e, n.Content)
}

func (r *yamlReader) readItems(e *Element, content []*yaml.Node) error {
	for _, n := range content {
		item, err := r.readElement(n)
		if err != nil {
			return err
		}
		e.Items = append(e.Items, item)
	}
	return nil
}

func (r *yamlReader) readMembers(e *Element, content []*yaml.Node) error {
	for i := 0; i+1 < len(content); i += 2 {
		key, err := r.readElement(content[i])
		if err != nil {
			return err
		}
		m := Member{Key: key.Text, Line: key.Line, Column: key.Column}
		if key.Kind != String {
			m.Key, m.Wrong = content[i].Value, key.Describe()
		}
		if m.Value, err = r.readElement(content[i+1]); err != nil {
			return err
		}
		e.Members = append(e.Members, m)
	}
	return nil
}

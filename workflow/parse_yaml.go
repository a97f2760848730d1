package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML reads a text with one document of YAML 1.2 into elements. The error
// is a *syntaxError.
func readYAML(data []byte) (*element, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, yamlError(err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, &syntaxError{line: second.Line, column: second.Column, message: "a second document: a definition is one"}
	case !errors.Is(err, io.EOF):
		return nil, yamlError(err)
	}
	r := yamlReader{}
	e, err := r.element(document.Content[0])
	if err != nil {
		return nil, &syntaxError{r.line, r.column, err.Error(), err}
	}
	return e, nil
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// yamlError takes the line out of a message of the library.
func yamlError(err error) error {
	if errors.Is(err, io.EOF) {
		return &syntaxError{line: 1, column: 1, message: "the text is empty"}
	}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &syntaxError{line: 1, message: message}
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		e.line, _ = strconv.Atoi(m[1])
		e.message = message[len(m[0]):]
	}
	return e
}

// A yamlReader turns the nodes of the library into elements. It writes aliases
// out, within a bound.
type yamlReader struct {
	depth        depth
	aliases      int // that the node in hand is in
	copied       int // units made by aliases
	line, column int // of the node in hand
}

// Bounds of what aliases stand for: each element counts copyUnits and its text.
const (
	copyUnits = 32
	maxCopied = MaxDefinitionBytes / 2
)

func (r *yamlReader) element(n *yaml.Node) (*element, error) {
	e := &element{line: n.Line, column: n.Column}
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
		return nil, fmt.Errorf("%w: aliases stand for too much", errTooLarge)
	}
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return e, r.container(e, n)
	case yaml.ScalarNode:
		scalar(e, n)
	default:
		e.kind, e.text = invalidElement, "something that is no value"
	}
	return e, nil
}

// scalar says what a scalar is in the core schema of YAML 1.2. Numbers keep
// their text: those that JSON does not write are refused where they are used.
func scalar(e *element, n *yaml.Node) {
	e.text = n.Value
	e.plain = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	switch tag := n.ShortTag(); tag {
	case "!!null":
		e.kind, e.text = nullElement, ""
	case "!!bool":
		e.kind, e.text = boolElement, strings.ToLower(n.Value)
	case "!!int", "!!float":
		e.kind = numberElement
	case "!!str", "!!timestamp":
		e.kind = stringElement
	case "!!merge":
		e.kind, e.text = invalidElement, "a merge key of YAML 1.1"
	default:
		e.kind, e.text = invalidElement, fmt.Sprintf("a value with the tag %s", tag)
	}
}

func (r *yamlReader) container(e *element, n *yaml.Node) error {
	if err := r.depth.open(); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	switch tag := n.ShortTag(); {
	case tag != "!!map" && tag != "!!seq":
		e.kind, e.text = invalidElement, fmt.Sprintf("a value with the tag %s", tag)
		return nil
	case n.Kind == yaml.SequenceNode:
		e.kind = listElement
		return r.items(e, n.Content)
	}
	e.kind = objectElement
	return r.members(e, n.Content)
}

func (r *yamlReader) items(e *element, content []*yaml.Node) error {
	for _, n := range content {
		item, err := r.element(n)
		if err != nil {
			return err
		}
		e.items = append(e.items, item)
	}
	return nil
}

func (r *yamlReader) members(e *element, content []*yaml.Node) error {
	for i := 0; i+1 < len(content); i += 2 {
		key, err := r.element(content[i])
		if err != nil {
			return err
		}
		m := member{key: key.text, line: key.line, column: key.column}
		if key.kind != stringElement {
			m.key, m.wrong = content[i].Value, key.describe()
		}
		if m.value, err = r.element(content[i+1]); err != nil {
			return err
		}
		e.members = append(e.members, m)
	}
	return nil
}

// ambiguous are plain words that YAML 1.1 reads as booleans, and YAML 1.2 as
// strings.
var ambiguous = regexp.MustCompile(`^(?i:yes|no|on|off)$`)

package build

import (
	"context"
	"errors"
	"reflect"

	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/typecheck"
	"github.com/pawl-run/pawl/workflow"
)

// handlerTypes are the types of the function that a node was made from.
type handlerTypes struct{ types typecheck.Types }

// TypedTask makes a node that the task type of the same name performs; see [Node.Type]. f is its handler, as pawl.Typed takes it: it is not called. The
// JSON Schema of Out becomes the node's OutputSchema, open for fields that a later Out may have, and Definition
// compares what the node's input fills with In, and what expressions read of its result with Out.
func TypedTask[In, Out any](b *Builder, id workflow.NodeID, _ func(ctx context.Context, in In) (Out, error)) Node {
	n := b.Task(id)
	if n.isMade() {
		n.setTypes(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	}
	return n
}

// setTypes notes the types of the node's handler.
func (n Node) setTypes(in, out reflect.Type) {
	b := n.b
	takes, inErr := goschema.OfInput(in)
	gives, outErr := goschema.OfOutput(out)
	if err := errors.Join(inErr, outErr); err != nil {
		b.wrong = append(b.wrong, b.problemOf(partOfNode(n.i), "task", problem.HandlerType, err.Error()))
		return
	}
	b.types = withKey(b.types, n.i, handlerTypes{typecheck.Types{In: takes, Out: gives}})
	if schema := gives.JSONSchema(goschema.Open); len(schema) > 0 {
		b.definition.Nodes[n.i].OutputSchema = schema
	}
}

// SchemaOf returns the JSON Schema of a Go type, for the schemas of a [Builder]: the fields of its structs by their json
// tags and no others, with what the tags doc and enum say, as pawl.Typed has it. Definition refuses a type that JSON cannot represent.
func SchemaOf[T any]() any {
	s, err := goschema.Of(reflect.TypeFor[T]())
	if err != nil {
		return refusedType{err}
	}
	return s.JSONSchema(goschema.Closed)
}

// A refusedType stands for the schema of a type that has none.
type refusedType struct{ err error }

// schemaValue returns a schema as it stands in a definition, and reports a type that has none.
func (b *Builder) schemaValue(of part, field string, schema any) any {
	if refused, ok := schema.(refusedType); ok {
		b.wrong = append(b.wrong, b.problemOf(of, field, problem.Schema, refused.err.Error()))
		return nil
	}
	return schema
}

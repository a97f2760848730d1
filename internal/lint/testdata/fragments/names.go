// Package fragments declares what the fragments of Go on the pages leave out: the
// test of package lint that checks their types takes each together with this file.
package fragments

import (
	"context"
	"io"
	"net/http"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store"
)

// What every fragment may use.
var (
	ctx    context.Context
	engine *pawl.Engine
	task   pawl.Task
)

// What single ones use: names that say what stands there.
var (
	token, order, user string
	cert, key          string
	conn               *nats.Conn
	executor           pawl.Executor
	meters             metric.MeterProvider
	changes            store.Log
	bases              blob.Store
	identify           func(*http.Request) (string, api.Rights, error)
	client             *http.Client
	amount             int
	rows               []any
	pages              io.Reader
	report             io.Reader
	file               []byte
	reserve            func(context.Context, struct{}) (any, error)
	resize             func(context.Context, pawl.Task) (any, error)
	total              int64
	copyRow            func(ctx context.Context, row int64) error
	service            interface {
		Report(ctx context.Context, key string) (*reported, error)
	}
	bank interface {
		Charge(ctx context.Context, amount int, options ...option) (any, error)
		Find(ctx context.Context, reference string) (any, error)
		WithKey(string) option
		WithReference(string) option
	}
)

type (
	reported struct{ Ready bool }
	option   struct{}
)

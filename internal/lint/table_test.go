package lint

import "slices"

// module is the path of this module and of those under testdata.
const module = "github.com/pawl-run/pawl"

// layers lists every package and the packages of this module that it may
// import; "." is the root package. A package that is not listed is refused: a
// new one needs a place. A pattern ending in /* stands for the packages of one
// folder, * alone for all packages but those for tests.
var layers = map[string][]string{
	"merge":            {},
	"timeout":          {},
	"internal/pace":    {},
	"internal/value":   {"internal/pace"},
	"internal/codec":   {"internal/pace", "internal/value"},
	"internal/amount":  {"internal/value"},
	"internal/limits":  {},
	"internal/problem": {},
	"internal/expr":    {"internal/pace", "internal/value"},

	"internal/document": {"internal/value"},
	"internal/reading":  {"internal/document", "internal/problem", "internal/value"},
	"internal/layout":   {},
	"internal/schema":   {"internal/expr", "internal/limits", "internal/pace", "internal/value"},
	"internal/edges":    {},

	"workflow":          slices.Concat(vocabulary, []string{"internal/document", "internal/edges", "internal/reading", "internal/schema"}),
	"internal/compiled": slices.Concat(vocabulary, []string{"internal/edges", "internal/schema", "workflow"}),
	"internal/state":    slices.Concat(vocabulary, []string{"workflow", "internal/compiled", "internal/idset"}),
	"schedule":          slices.Concat(vocabulary, []string{"workflow", "internal/document", "internal/reading", "internal/schema"}),
	"history":           slices.Concat(vocabulary, []string{"workflow"}),
	"decision":          slices.Concat(vocabulary, []string{"workflow", "internal/compiled", "internal/state", "history"}),
	"planning":          slices.Concat(decided, []string{"internal/schema"}),

	"internal/differ":  {"workflow", "internal/edges", "internal/value"},
	"internal/diagram": slices.Concat(vocabulary, []string{"workflow", "internal/compiled", "internal/layout"}),

	"aesgcm":                     {},
	"blob":                       {"internal/seal"},
	"commitlog":                  {},
	"internal/below":             {},
	"internal/shown":             {},
	"internal/columns":           {"internal/diagram"},
	"internal/fair":              {},
	"internal/crowd":             {"internal/fair", "internal/rate"},
	"internal/heap":              {},
	"internal/idset":             {},
	"internal/late":              {},
	"internal/memo":              {},
	"internal/image":             {"internal/pace"},
	"internal/rate":              {},
	"internal/taskqueue":         {"internal/heap", "internal/rate"},
	"internal/redo":              {},
	"internal/seal":              {"internal/shown"},
	"internal/sqlite":            {},
	"internal/filter":            slices.Concat(vocabulary, []string{"workflow", "internal/shown"}),
	"internal/taskkey":           slices.Concat(vocabulary, []string{"workflow", "internal/state"}),
	"internal/socket":            {},
	"internal/strict":            {"internal/pace", "internal/value"},
	"internal/loopback":          {},
	"internal/testhook":          {},
	"internal/column":            slices.Concat(vocabulary, []string{"internal/sqlite", "workflow"}),
	"internal/runfile":           slices.Concat(decided, []string{"internal/column", "internal/image", "internal/seal", "internal/sqlite"}),
	"internal/portable":          slices.Concat(decided, []string{"internal/strict"}),
	"internal/index":             slices.Concat(decided, []string{"internal/column", "internal/runfile", "internal/seal", "internal/sqlite", "blob"}),
	"internal/testing/story":     decided,
	"internal/testing/recount":   slices.Concat(vocabulary, []string{"workflow", "internal/state"}),
	"internal/testing/simulator": slices.Concat(decided, []string{"internal/gocode", "internal/sqlite", "planning", "actor", "store"}),
	"store":                      slices.Concat(decided, []string{"internal/below", "internal/column", "internal/filter", "internal/index", "internal/late", "internal/memo", "internal/redo", "internal/runfile", "internal/seal", "internal/socket", "internal/sqlite", "internal/tally", "internal/telemetry", "internal/testhook", "blob", "commitlog", "internal/shown"}),
	"rescue":                     slices.Concat(decided, []string{"internal/column", "internal/index", "internal/late", "internal/runfile", "internal/seal", "internal/socket", "internal/sqlite", "internal/timing", "blob", "store"}),
	"replay":                     slices.Concat(decided, []string{"internal/portable", "internal/runfile", "internal/sqlite", "planning", "store"}),
	"internal/tally":             {},
	"internal/telemetry":         append([]string{"internal/heap"}, decided...),
	"internal/timing":            slices.Concat(vocabulary, []string{"history", "workflow"}),
	"internal/tasklog":           {"internal/traceparent"},
	"internal/traceparent":       {},
	"internal/tracing":           slices.Concat(decided, []string{"internal/idset", "internal/traceparent"}),
	"internal/retrace":           slices.Concat(decided, []string{"internal/runfile", "internal/timing", "internal/traceparent", "internal/tracing", "replay", "store"}),
	"soundness":                  slices.Concat(decided, []string{"planning"}),
	"internal/dispatch":          slices.Concat(decided, []string{"internal/heap", "internal/late", "internal/taskkey", "internal/tasklog", "internal/taskqueue", "internal/telemetry", "internal/testhook", "internal/timing", "internal/tracing", "actor", "planning", "replay", "store"}),
	"internal/ranking":           slices.Concat(decided, []string{"store"}),
	"internal/diskuse":           slices.Concat(vocabulary, []string{"internal/late", "blob", "history", "store", "workflow"}),
	"internal/roster":            slices.Concat(decided, []string{"internal/late", "internal/fair", "internal/testhook", "actor", "store"}),
	"internal/standing":          slices.Concat(decided, []string{"blob", "internal/dispatch", "internal/outbox", "internal/roster", "internal/telemetry", "store"}),
	"internal/faults":            slices.Concat(decided, []string{"internal/memo", "internal/tasklog", "actor", "store"}),
	"internal/following":         slices.Concat(decided, []string{"commitlog", "internal/refusal", "blob", "store", "store/folderlog"}),
	"internal/serving":           {},
	"internal/keeping":           slices.Concat(decided, []string{"internal/refusal", "internal/texts", "blob"}),
	"internal/exporting":         slices.Concat(decided, []string{"internal/keeping", "internal/portable", "internal/refusal", "blob", "store"}),
	"internal/goschema":          {"internal/value"},
	"internal/typecheck":         slices.Concat(decided, []string{"internal/goschema"}),
	"build":                      slices.Concat(decided, []string{"internal/edges", "internal/goschema", "internal/typecheck"}),
	"internal/gocode":            slices.Concat(vocabulary, []string{"internal/compiled", "internal/edges", "internal/goschema", "workflow"}),
	"internal/forking":           slices.Concat(decided, []string{"internal/refusal", "internal/shown", "planning", "store"}),
	"internal/importing":         slices.Concat(decided, []string{"internal/refusal", "internal/shown", "internal/texts", "replay", "store"}),
	"internal/closing":           slices.Concat(vocabulary, []string{"internal/late", "internal/tasklog", "workflow"}),
	"internal/once":              slices.Concat(decided, []string{"internal/faults", "internal/late", "internal/refusal", "internal/taskkey", "internal/tasklog", "blob", "store"}),
	"internal/scheduling":        slices.Concat(decided, []string{"internal/heap", "internal/index", "internal/late", "internal/refusal", "internal/telemetry", "internal/testhook", "internal/texts", "internal/traceparent", "actor", "schedule", "store"}),
	"internal/purging":           slices.Concat(decided, []string{"internal/late", "internal/once", "internal/refusal", "store"}),
	"internal/refusal":           slices.Concat(decided, []string{"internal/crowd", "actor", "blob", "schedule", "store"}),
	"internal/texts":             slices.Concat(decided, []string{"internal/refusal"}),
	"internal/running":           slices.Concat(decided, []string{"internal/late", "internal/faults", "internal/outbox", "internal/refusal", "internal/roster", "internal/testhook", "internal/texts", "internal/tracing", "actor", "store"}),
	"internal/simulating":        slices.Concat(decided, []string{"internal/dispatch", "internal/refusal", "actor", "planning", "store"}),
	"internal/watching":          slices.Concat(decided, []string{"internal/late", "internal/refusal", "internal/testhook", "actor", "store"}),
	"internal/outbox":            slices.Concat(decided, []string{"internal/tasklog", "internal/telemetry", "internal/testhook", "store"}),
	"actor":                      slices.Concat(decided, []string{"internal/late", "internal/telemetry", "internal/testhook", "planning"}),

	".":               slices.Concat(decided, []string{"internal/diskuse", "internal/closing", "internal/dispatch", "internal/exporting", "internal/fair", "internal/faults", "internal/filter", "internal/following", "internal/forking", "internal/goschema", "internal/importing", "internal/keeping", "internal/late", "internal/once", "internal/outbox", "internal/purging", "internal/ranking", "internal/refusal", "internal/roster", "internal/running", "internal/scheduling", "internal/serving", "internal/simulating", "internal/socket", "internal/sqlite", "internal/standing", "internal/taskkey", "internal/tasklog", "internal/taskqueue", "internal/telemetry", "internal/testhook", "internal/texts", "internal/timing", "internal/tracing", "internal/typecheck", "internal/watching", "actor", "blob", "commitlog", "planning", "replay", "schedule", "store", "store/folderlog"}),
	"api":             slices.Concat(decided, []string{"internal/acts", "internal/crowd", "internal/diagram", "internal/hiding", "internal/keeping", "internal/late", "internal/loopback", "internal/refusal", "internal/socket", "internal/strict", "internal/texts", "internal/traceparent", "blob", "replay", "schedule", "worker", "."}),
	"internal/acts":   slices.Concat(decided, []string{".", "internal/filter"}),
	"internal/hiding": {".", "internal/expr", "workflow"},
	"internal/alike":  slices.Concat(decided, []string{".", "internal/acts"}),
	"internal/remote": slices.Concat(vocabulary, []string{"internal/keeping", "internal/once", "internal/refusal", "internal/tasklog", "internal/traceparent", "workflow", "blob", "."}),

	"handler":          slices.Concat(vocabulary, []string{"internal/traceparent", "workflow", "."}),
	"worker":           slices.Concat(vocabulary, []string{"workflow", "internal/crowd", "internal/heap", "internal/keeping", "internal/late", "internal/loopback", "internal/remote", "internal/serving", "internal/strict", "internal/taskqueue", "blob", "."}),
	"inspector":        slices.Concat(decided, []string{"api", "internal/acts", "internal/alike", "internal/crowd", "internal/diagram", "internal/differ", "internal/fair", "internal/hiding", "internal/loopback", "internal/refusal", "internal/retrace", "internal/scheduling", "internal/timing", "replay", "schedule", "worker", "."}),
	"cluster":          slices.Concat(vocabulary, []string{"api", "blob", "commitlog", "."}),
	"internal/logtool": {"aesgcm", "cluster", "."},
	"store/folderlog":  slices.Concat(decided, []string{"store"}),
	"store/logtest":    slices.Concat(decided, []string{"store"}),
	"pawltest":         slices.Concat(decided, []string{"internal/acts", "internal/below", "internal/document", "internal/sqlite", "internal/testhook", "planning", "replay", "schedule", "store", "blob", "actor", ".", "worker"}),
	"cmd/*":            {"*"},
	"examples":         {},
	"examples/*":       slices.Concat(vocabulary, []string{"workflow", "blob", ".", "worker", "build", "handler", "pawltest", "inspector", "api", "schedule"}),
	"bench":            {"*"},

	"internal/testing/clienttest":      {},
	"internal/testing/blobtest":        {"blob", "internal/testing/harness"},
	"internal/testing/bombtest":        {},
	"internal/testing/crashtest":       {},
	"internal/testing/damagetest":      {},
	"internal/testing/disktest":        {},
	"internal/testing/fuzzall":         {},
	"internal/testing/golden":          {},
	"internal/testing/metertest":       {},
	"internal/testing/harness":         {},
	"internal/testing/harness/drawn":   {"merge", "workflow"},
	"internal/testing/harness/power":   {},
	"internal/testing/harness/tables":  {"internal/index", "internal/sqlite"},
	"internal/testing/harness/witness": slices.Concat(decided, []string{"internal/sqlite", "internal/taskkey", "planning", "store", "replay", "."}),
	"internal/testing/harness/replays": {"replay", "store"},
	"internal/testing/harness/shown":   {".", "workflow"},
	"internal/lint":                    {},
	"internal/testing/ownertest":       {},
	"internal/testing/planted":         {},
	"internal/testing/reference":       {},
	"internal/testing/nighttest":       {"internal/testhook", "workflow", "."},
	"internal/testing/nodestrial":      {"api", "cluster", "commitlog", "internal/testing/servers", "workflow", "."},
	"internal/testing/servers":         {},
	"internal/testing/spantest":        {},
	"internal/testing/zerotest":        {},
}

// forTests is the folder of packages that only tests and each other may import.
const forTests = "internal/testing"

// vocabulary is what package workflow is built on, decided what is below the
// packages that deal with decisions.
var (
	vocabulary = []string{"merge", "timeout", "internal/expr", "internal/value", "internal/codec", "internal/limits", "internal/pace", "internal/problem", "internal/amount"}
	decided    = slices.Concat(vocabulary, []string{"workflow", "internal/compiled", "internal/state", "history", "decision"})
)

// pure are the packages without clock, I/O, randomness, goroutine, lock, logger
// and context, and the modules outside the standard library that they use.
var pure = map[string][]string{
	"merge":             {},
	"timeout":           {},
	"internal/pace":     {},
	"internal/value":    {},
	"internal/amount":   {},
	"internal/limits":   {},
	"internal/problem":  {},
	"internal/codec":    {},
	"internal/document": {"go.yaml.in/yaml/v3"},
	"internal/reading":  {},
	"internal/expr":     {"cel.dev/cel-go", "cel.dev/expr", "google.golang.org/protobuf"},
	"internal/layout":   {},
	"internal/diagram":  {"golang.org/x/text"},
	"internal/columns":  {},
	"workflow":          {},
	"internal/schema":   {"github.com/santhosh-tekuri/jsonschema/v6"},
	"internal/edges":    {},
	"internal/compiled": {},
	"schedule":          {},
	"internal/state":    {},
	"internal/idset":    {},
	"decision":          {},
	"history":           {},
	"soundness":         {},
	"planning":          {"github.com/santhosh-tekuri/jsonschema/v6", "github.com/evanphx/json-patch/v5"},
}

// impure are the packages that a pure package may not import, with all below
// them.
var impure = []string{
	"context", "crypto/rand", "database/sql", "embed", "io/fs", "io/ioutil", "log", "math/rand",
	"net", "os", "plugin", "sync", "syscall", "testing", "unsafe",
}

// clocks are the functions of package time that read or follow a clock.
var clocks = []string{
	"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick",
}

// A union is a sealed sum whose variants are listed in a table.
type union struct{ pkg, method, table string }

var unions = []union{
	{"decision", "evolveState", "variants"},
	{"internal/state", "isMessage", "messageVariants"},
}

// The bounds of files without tests, in lines.
const (
	maxFunction = 70
	maxFile     = 700
)

// requiredInFolders are the modules that go.mod of a folder may require directly.
var requiredInFolders = map[string][]string{
	"nats": {module, "github.com/nats-io/nats.go"},
	"pg":   {module, "github.com/jackc/pgx/v5", "github.com/stretchr/testify"},
	"pg/bench": {
		module, module + "/nats", module + "/nats/test", module + "/pg", "github.com/dbos-inc/dbos-transact-golang", "github.com/jackc/pgx/v5",
		"github.com/nats-io/nats.go", "github.com/stretchr/testify",
	},
	"nats/test": {
		module, module + "/nats", "github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/stretchr/testify",
	},
	"pawlsql": {module, "github.com/google/uuid", "github.com/jackc/pgx/v5"},
	"pawlsql/test": {
		module, module + "/pawlsql", "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/stretchr/testify", "modernc.org/sqlite",
	},
}

// required are the modules that go.mod may require directly, and why.
var required = map[string]string{
	"cel.dev/cel-go":                           "expressions",
	"github.com/alecthomas/kong":               "the command line",
	"github.com/cockroachdb/datadriven":        "tests: scripts",
	"github.com/evanphx/json-patch/v5":         "patches",
	"github.com/google/uuid":                   "ids of runs",
	"github.com/rogpeppe/go-internal":          "tests: testscript for the command line",
	"github.com/santhosh-tekuri/jsonschema/v6": "JSON Schema",
	"github.com/stretchr/testify":              "tests: assertions",
	"go.opentelemetry.io/otel":                 "telemetry, the interfaces only",
	"go.opentelemetry.io/otel/metric":          "telemetry, the interfaces only",
	"go.opentelemetry.io/otel/trace":           "telemetry, the interfaces only",
	"go.uber.org/goleak":                       "tests: goroutines that are left",
	"go.yaml.in/yaml/v3":                       "definitions and scenarios in YAML",
	"golang.org/x/net":                         "names of hosts in ASCII (IDNA), as net/http has them",
	"golang.org/x/sys":                         "flock and syncfs",
	"golang.org/x/term":                        "the width of the terminal",
	"golang.org/x/text":                        "names in Unicode's normal form",
	"google.golang.org/protobuf":               "the types of CEL's declarations",
	"modernc.org/libc":                         "pinned to the version that modernc.org/sqlite is made for",
	"modernc.org/sqlite":                       "SQLite without cgo",
	"pgregory.net/rapid":                       "tests: properties",
}

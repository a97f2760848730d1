package gocode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// BuilderFile returns a file of a package with the functions of BuilderFunction. The names of the functions are given with their
// definitions, in that order.
func BuilderFile(header, pkg string, names []string, definitions []*workflow.Definition) ([]byte, error) {
	var functions strings.Builder
	for i, d := range definitions {
		text, err := BuilderFunction(names[i], d)
		if err != nil {
			return nil, err
		}
		functions.WriteString("\n" + text)
	}
	head := fmt.Sprintf("%s\npackage %s\n", header, pkg)
	return formatFile(head, []string{"time", "github.com/pawl-run/pawl/build", "github.com/pawl-run/pawl/workflow"}, functions.String())
}

// BuilderPackage returns a file with the function of one definition, for somebody who goes on with it in Go.
func BuilderPackage(d *workflow.Definition, pkg string) ([]byte, error) {
	if pkg == "" {
		pkg = packageName(d.Name)
	}
	if err := checkPackage(pkg); err != nil {
		return nil, err
	}
	name := constantName("Build", d.Name)
	header := fmt.Sprintf("// Package %s makes the definition of the workflow %q.", pkg, d.Name)
	return BuilderFile(header, pkg, []string{name}, []*workflow.Definition{d})
}

// BuilderFunction returns a function that makes the definition by calls of package build. It fails if the definition is invalid.
func BuilderFunction(name string, d *workflow.Definition) (string, error) {
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return "", err
	}
	v, err := value.Decode([]byte(g.JSON), value.Limits{})
	if err != nil {
		return "", err
	}
	w := &callWriter{given: d, whole: v.(map[string]any)}
	fmt.Fprintf(w, "func %s() *build.Builder {\n\tb := build.New(%q)\n", name, w.whole["name"])
	w.writeHead()
	w.writeGroups()
	w.writeNodes()
	w.WriteString("\treturn b\n}\n")
	return w.String(), nil
}

// A callWriter writes the calls that make one definition, whose groups are spread over its transitions.
type callWriter struct {
	strings.Builder
	given *workflow.Definition
	whole map[string]any // its canonical JSON
}

// objectsOf returns a list of objects.
func objectsOf(v any) []map[string]any {
	list, _ := v.([]any)
	out := make([]map[string]any, len(list))
	for i := range list {
		out[i] = list[i].(map[string]any)
	}
	return out
}

// partOf returns an object that may be missing.
func partOf(m map[string]any, key string) map[string]any {
	part, _ := m[key].(map[string]any)
	return part
}

// writeCall writes one statement.
func (w *callWriter) writeCall(format string, args ...any) {
	fmt.Fprintf(w, "\tb."+format+"\n", args...)
}

// writeHead writes what the definition says of the whole run.
func (w *callWriter) writeHead() {
	m := w.whole
	nodes := objectsOf(m["nodes"])
	if v := m["version"]; v != nil && v != int64(1) {
		w.writeCall("Version(%s)", literal(v))
	}
	if m["mode"] == "dag" {
		w.writeCall("DAG(%t)", m["failFast"] != false)
	}
	if start, ok := m["start"]; ok && start != nodes[0]["id"] {
		w.writeCall("StartAt(%s)", literal(start))
	}
	if schema, ok := partOf(m, "input")["schema"]; ok {
		w.writeCall("Input(%s)", literal(schema))
	}
	if state := partOf(m, "state"); state != nil {
		w.writeCall("State(%s, %s)", literal(state["schema"]), literal(state["initial"]))
	}
	output := partOf(m, "output")
	if schema, ok := output["schema"]; ok {
		w.writeCall("OutputSchema(%s)", literal(schema))
	}
	if mapping := partOf(output, "mapping"); mapping != nil {
		if len(mapping) == 0 {
			w.writeCall("NoOutput()")
		}
		for _, field := range slices.Sorted(maps.Keys(mapping)) {
			w.writeCall("Output(%q, %s)", field, literal(mapping[field]))
		}
	}
	if after, ok := m["timeout"]; ok {
		w.writeCall("Timeout(%s)", durationText(after))
	}
	if limits := partOf(m, "limits"); limits != nil {
		w.writeCall("Limits(%s)", structText("workflow.Limits", limits))
	}
	if names, ok := m["signals"]; ok {
		w.writeCall("Signals(%s)", textList(names))
	}
}

// joinOf returns the settings of a transition that joins, without the group's name, and without the source where the branches of
// the group bring different ones.
func (w *callWriter) joinOf(t map[string]any) (group string, settings map[string]any, source any) {
	y := maps.Clone(partOf(t, "synchronization"))
	if y == nil {
		return "", nil, nil
	}
	group = y["siblingGroup"].(string)
	delete(y, "siblingGroup")
	if merge := maps.Clone(partOf(y, "merge")); merge != nil && w.differ(group) {
		source = merge["source"]
		delete(merge, "source")
		y["merge"] = merge
	}
	return group, y, source
}

// differ says whether the branches of a group bring different sources.
func (w *callWriter) differ(group string) bool {
	seen := map[any]bool{}
	for _, t := range objectsOf(w.whole["transitions"]) {
		if y := partOf(t, "synchronization"); y != nil && y["siblingGroup"] == group {
			seen[partOf(y, "merge")["source"]] = true
		}
	}
	return len(seen) > 1
}

// writeGroups writes how the branches of groups meet.
func (w *callWriter) writeGroups() {
	settings := map[string]map[string]any{}
	for _, t := range objectsOf(w.whole["transitions"]) {
		if group, y, _ := w.joinOf(t); len(y) > 0 {
			settings[group] = y
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		w.writeCall("Group(%q, %s)", name, structText("workflow.Synchronization", settings[name]))
	}
}

// writeNodes writes the nodes with the transitions that leave them, if these stand in the same order; else the transitions
// follow all nodes.
func (w *callWriter) writeNodes() {
	nodes, transitions := objectsOf(w.whole["nodes"]), objectsOf(w.whole["transitions"])
	chains := make([][]string, len(nodes))
	index := map[any]int{}
	for i, n := range nodes {
		chains[i], index[n["id"]] = nodeCalls(n), i
	}
	together := slices.IsSortedFunc(transitions, func(a, b map[string]any) int { return index[a["from"]] - index[b["from"]] })
	var later [][]string
	for i, t := range transitions {
		calls := w.transitionCalls(t, w.given.Transitions[i].ID)
		if together {
			at := index[t["from"]]
			chains[at] = append(chains[at], calls)
		} else {
			later = append(later, []string{fmt.Sprintf("Node(%q)", t["from"]), calls})
		}
	}
	for _, chain := range append(chains, later...) {
		w.writeChain(chain)
	}
}

// maxChain is how long a line of calls may be.
const maxChain = 120

// writeChain writes calls as one statement, over several lines if one would be long.
func (w *callWriter) writeChain(calls []string) {
	line := "b." + strings.Join(calls, ".")
	if len(line) > maxChain {
		line = "b." + strings.Join(calls, ".\n\t\t")
	}
	w.WriteString("\t" + line + "\n")
}

// nodeCalls returns the calls that make a node.
func nodeCalls(n map[string]any) []string {
	calls := kindCalls(n)
	add := func(key, format string, text func(any) string) {
		if v, ok := n[key]; ok {
			calls = append(calls, fmt.Sprintf(format, text(v)))
		}
	}
	for _, field := range slices.Sorted(maps.Keys(partOf(n, "input"))) {
		calls = append(calls, fmt.Sprintf("Input(%q, %s)", field, literal(partOf(n, "input")[field])))
	}
	for _, target := range slices.Sorted(maps.Keys(partOf(n, "output"))) {
		calls = append(calls, fmt.Sprintf("Output(%q, %s)", target, literal(partOf(n, "output")[target])))
	}
	add("outputSchema", "OutputSchema(%s)", literal)
	add("retry", "Retry(%s)", func(v any) string { return structText("workflow.RetrySpec", v.(map[string]any)) })
	add("timeout", "Timeout(%s)", durationText)
	add("heartbeat", "Heartbeat(%s)", durationText)
	add("priority", "Priority(%s)", literal)
	add("lock", "Lock(%s)", literal)
	add("join", "Join(%s)", func(v any) string { return choiceText("workflow.Join", v) })
	add("cancels", "Cancels(%s)", textList)
	add("unmatched", "Unmatched(%s)", func(v any) string { return enumText("workflow.Unmatched", v) })
	add("needs", "Needs(%s)", textList)
	for _, name := range slices.Sorted(maps.Keys(partOf(n, "budget"))) {
		calls = append(calls, fmt.Sprintf("Budget(%q, %s)", name, literal(partOf(n, "budget")[name])))
	}
	return calls
}

// kindCalls returns the call that makes a node of its kind.
func kindCalls(n map[string]any) []string {
	id := literal(n["id"])
	added := func(key string) []string {
		return []string{fmt.Sprintf("Add(%s)", structText("workflow.Node", map[string]any{"id": n["id"], key: n[key]}))}
	}
	switch {
	case n["taskExpr"] != nil:
		return []string{fmt.Sprintf("Add(%s)", structText("workflow.Node", map[string]any{"id": n["id"], "taskExpr": n["taskExpr"], "tasks": n["tasks"]}))}
	case n["task"] == n["id"]:
		return []string{"Task(" + id + ")"}
	case n["task"] != nil:
		return []string{"Task(" + id + ")", "Type(" + literal(n["task"]) + ")"}
	case n["subworkflow"] != nil:
		child := partOf(n, "subworkflow")
		if child["nameExpr"] != nil {
			return added("subworkflow")
		}
		version := any(int64(0))
		if v := child["version"]; v != nil {
			version = v
		}
		return []string{fmt.Sprintf("Child(%s, %s, %s)", id, literal(child["name"]), literal(version))}
	case n["approval"] != nil:
		return []string{fmt.Sprintf("Approval(%s, %s)", id, structText("workflow.ApprovalSpec", partOf(n, "approval")))}
	case n["wait"] != nil:
		return []string{waitCall(id, partOf(n, "wait"))}
	case n["end"] == "complete":
		return []string{"End(" + id + ")"}
	case n["end"] != nil:
		end := partOf(n, "end")
		if end["codeExpr"] != nil || end["messageExpr"] != nil {
			return added("end")
		}
		message, _ := end["message"].(string)
		return []string{fmt.Sprintf("Fail(%s, %s, %q)", id, literal(end["fail"]), message)}
	}
	return []string{"Gateway(" + id + ")"}
}

func waitCall(id string, wait map[string]any) string {
	specs := []map[string]any{wait}
	if first := objectsOf(wait["any"]); len(first) > 1 {
		specs = first
	}
	call := "Wait(" + id
	for _, s := range specs {
		call += ", " + structText("workflow.WaitSpec", s)
	}
	return call + ")"
}

// transitionCalls returns the calls that make a transition behind its node, as one text. id is what the definition says.
func (w *callWriter) transitionCalls(t map[string]any, id workflow.TransitionID) string {
	to, codes := literal(t["to"]), ""
	if list, ok := t["errors"]; ok {
		codes = ", " + textList(list)
	}
	var calls []string
	switch t["outcome"] {
	case "error":
		calls = append(calls, "Catch("+to+codes+")")
	case "always":
		calls = append(calls, "Always("+to+codes+")")
	default:
		calls = append(calls, "To("+to+")")
	}
	add := func(key, method string) {
		if v, ok := t[key]; ok {
			calls = append(calls, method+"("+literal(v)+")")
		}
	}
	if id != "" {
		calls = append(calls, "ID("+literal(string(id))+")")
	}
	add("priority", "Tier")
	add("condition", "When")
	add("spawnCount", "Spawn")
	if f := partOf(t, "foreach"); f != nil {
		as, _ := f["as"].(string)
		calls = append(calls, fmt.Sprintf("ForEach(%s, %q)", literal(f["collection"]), as))
	}
	add("siblingGroup", "InGroup")
	add("maxConcurrency", "AtOnce")
	if t["open"] == true {
		calls = append(calls, "Open()")
	}
	if l := partOf(t, "loop"); l != nil {
		calls = append(calls, "Loop("+literal(l["maxIterations"])+")")
	}
	if group, _, source := w.joinOf(t); group != "" {
		calls = append(calls, "Joins("+literal(group)+")")
		if source != nil {
			calls = append(calls, "Source("+literal(source)+")")
		}
	}
	return strings.Join(calls, ".")
}

// literal returns a value of the JSON model as Go.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(key)+": "+literal(v[key]))
		}
		return "map[string]any{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = literal(item)
		}
		return "[]any{" + strings.Join(parts, ", ") + "}"
	case string:
		if strings.Contains(v, `"`) && strconv.CanBackquote(v) {
			return "`" + v + "`"
		}
		return strconv.Quote(v)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// textList returns texts as arguments.
func textList(v any) string {
	list, _ := v.([]any)
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = literal(item)
	}
	return strings.Join(parts, ", ")
}

// durationText returns a duration of the format as Go, in its largest whole unit.
func durationText(v any) string {
	d, _ := time.ParseDuration(v.(string))
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}} {
		switch {
		case d == unit.size:
			return unit.name
		case d%unit.size == 0:
			return fmt.Sprintf("%d*%s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("time.Duration(%d)", int64(d))
}

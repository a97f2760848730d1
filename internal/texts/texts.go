// Package texts checks what hosts say in words: ids, names, labels and reasons.
package texts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// CheckRunID returns an error that says what is wrong with an id given by a
// caller.
//
// Ids are keys in the index, stand in paths of child runs, hence no slash, and in logs, hence
// no control characters.
func CheckRunID(id workflow.RunID) error {
	s := string(id)
	switch {
	case s == "":
		return fmt.Errorf("%w: the run id is empty", refusal.ErrInvalid)
	case len(s) > limits.MaxRunID:
		return fmt.Errorf("%w: the run id has %d bytes, at most %d", refusal.ErrInvalid, len(s), limits.MaxRunID)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: the run id %q is not UTF-8", refusal.ErrInvalid, s)
	case strings.ContainsRune(s, '/'):
		return fmt.Errorf("%w: the run id %q holds a slash, which only ids of child runs do", refusal.ErrInvalid, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%w: the run id %q holds a control character", refusal.ErrInvalid, s)
	}
	return nil
}

// CheckTenant returns an error that says what is wrong with the name of a tenant. Two names that look the same would have the limits of
// two tenants: so a name is in the form NFKC of Unicode, which has no full-width letters, and has no blanks at its ends.
func CheckTenant(name string) error {
	plain := strings.TrimSpace(norm.NFKC.String(name))
	switch i := strings.IndexFunc(name, isInvisible); {
	case len(name) > limits.MaxTenant:
		return fmt.Errorf("%w: the tenant has %d bytes, at most %d", refusal.ErrInvalid, len(name), limits.MaxTenant)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the tenant %q is not UTF-8", refusal.ErrInvalid, name)
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(name[i:])
		return fmt.Errorf("%w: the tenant %+q holds %U, which nobody sees: another one would look the same", refusal.ErrInvalid, name, r)
	case plain != name:
		return fmt.Errorf("%w: the tenant %+q looks like %+q, which would be another one: give that", refusal.ErrInvalid, name, plain)
	}
	return nil
}

// NormalName returns a person's name in its only spelling.
func NormalName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch i := strings.IndexFunc(name, isInvisible); {
	case name == "":
		return "", fmt.Errorf("%w: a name is empty: give it, or call As not at all", refusal.ErrInvalid)
	case len(name) > limits.MaxName:
		return "", fmt.Errorf("%w: a name has %d bytes, at most %d", refusal.ErrInvalid, len(name), limits.MaxName)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("%w: the name %q is not UTF-8", refusal.ErrInvalid, name)
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(name[i:])
		return "", fmt.Errorf("%w: the name %+q holds %U, which nobody sees: another name would look the same", refusal.ErrInvalid, name, r)
	}
	name = norm.NFC.String(strings.Join(strings.Fields(name), " "))
	if len(name) > limits.MaxName {
		return "", fmt.Errorf("%w: a name has %d bytes when it is composed, at most %d", refusal.ErrInvalid, len(name), limits.MaxName)
	}
	return name, nil
}

// isInvisible reports whether a name with r looks like another one without it. Spaces
// are seen.
func isInvisible(r rune) bool {
	const blankPattern = '\u2800' // of Braille
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == blankPattern
}

// CheckReason returns an error that says what is wrong with a reason.
func CheckReason(reason string) error {
	switch i := strings.IndexFunc(reason, breaksLine); {
	case len(reason) > limits.MaxReason:
		return fmt.Errorf("%w: a reason has %d bytes, at most %d", refusal.ErrInvalid, len(reason), limits.MaxReason)
	case !utf8.ValidString(reason):
		return fmt.Errorf("%w: the reason %q is not UTF-8", refusal.ErrInvalid, reason)
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(reason[i:])
		return fmt.Errorf("%w: the reason %+q holds the control character %U", refusal.ErrInvalid, reason, r)
	}
	return nil
}

// breaksLine reports whether r ends a line, or turns the order of what follows.
func breaksLine(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// maxCallID is the longest id of a call, in bytes.
const maxCallID = 255

// CheckCallID returns an error if an id of a call cannot be one.
func CheckCallID(what, id string) error {
	if len(id) > maxCallID || !utf8.ValidString(id) || strings.HasPrefix(id, state.OwnIDs) {
		return fmt.Errorf("%w: the id %.300q of the %s: use at most %d bytes of UTF-8 that do not begin with %s", refusal.ErrInvalid, id, what, maxCallID, state.OwnIDs)
	}
	return nil
}

// LabelFault says what is wrong with the first label that is wrong, by key; "" if none is. The key is "" if there are too many.
//
// Keys are looked at in order, so that of several faults the same one is told each time.
func LabelFault(labels map[string]string) (key, what string) {
	if len(labels) > limits.MaxLabels {
		return "", fmt.Sprintf("the run has %d labels, at most %d", len(labels), limits.MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == "" {
			return "", "the key of a label is empty"
		}
		if what := labelFault("key", key, limits.MaxLabelKey); what != "" {
			return key, what
		}
		if what := labelFault("value", labels[key], limits.MaxLabelValue); what != "" {
			return key, what
		}
	}
	return "", ""
}

// labelFault says what is wrong with the key or the value of a label, "" if nothing is.
func labelFault(which, text string, most int) string {
	switch i := strings.IndexFunc(text, isInvisible); {
	case len(text) > most:
		return fmt.Sprintf("the %s has %d bytes, at most %d", which, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Sprintf("the %s is not UTF-8", which)
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(text[i:])
		return fmt.Sprintf("the %s holds %U, which nobody sees: another one would look the same", which, r)
	}
	return ""
}

// KeptLabels returns labels as a run keeps them: a copy, nil without any.
//
// The caller may change its map later.
func KeptLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return maps.Clone(labels)
}

// HasLabels reports whether labels has all that are wanted.
func HasLabels(labels, wanted map[string]string) bool {
	for key, v := range wanted {
		if have, ok := labels[key]; !ok || have != v {
			return false
		}
	}
	return true
}

// MaxMessage bounds what a host says in words, in bytes; more is cut off.
const MaxMessage = 16 << 10

// Storable returns a text of the host as a record can hold it: UTF-8, of at most
// so many bytes. A text that cannot be stored must not stop a run.
func Storable(text string, most int) string {
	if len(text) > most {
		const more = "..."
		cut := most - len(more)
		for back := cut - utf8.UTFMax; cut > back && !utf8.RuneStart(text[cut]); cut-- {
		}
		text = text[:cut] + more
	}
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
